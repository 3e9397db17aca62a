//! Link arguments of the recorder.
fn main() {
    // Threads that outlive a dlclose still run our destructors of thread data, and loaders keep
    // pointers to us.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // Our own references to exported names must never bind to a loader's.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
    println!("cargo::rerun-if-changed=src/build.rs");
}
