//! Link arguments of the recorder.
#![forbid(unsafe_code)]
fn main() {
    // Threads that outlive a dlclose still run our destructors of thread data, and loaders keep
    // pointers to us.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // Our own references to exported names must never bind to a loader's. All of them are
    // functions; zig's linker, which packages are made with, does not know -Bsymbolic-functions.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    println!("cargo::rerun-if-changed=src/build.rs");
}
