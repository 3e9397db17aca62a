//! Link arguments of the shim: it must need no other library, not even libc, because it is loaded
//! into a name space of its own, before anything else, in every process.
#![forbid(unsafe_code)]
fn main() {
    // Nothing of the C start-up files or libraries: ld.so calls the la_* functions and that is all.
    println!("cargo:rustc-link-arg-cdylib=-nostartfiles");
    println!("cargo:rustc-link-arg-cdylib=-nostdlib");
    println!("cargo:rustc-link-arg-cdylib=-Wl,--as-needed,--hash-style=gnu,-z,now,-z,relro");
    // An undefined symbol would keep ld.so from loading it, in every process: rather no library at
    // all.
    println!("cargo:rustc-link-arg-cdylib=-Wl,-z,defs");
    // One page-sized segment layout less: the file stays small.
    println!("cargo:rustc-link-arg-cdylib=-Wl,--build-id=none,-soname,libclscope_audit.so");
    println!("cargo:rerun-if-changed=src/build.rs");
}
