//! OpenCL loaders in the process, and the functions that they define. Looks first behind us in the
//! order that the application linked, then among what is loaded, and opens a loader itself where
//! there is none.

use crate::os::current::Current;
use crate::os::objects::{self, is_ours};
use crate::recording::diag;
use libloading::os::unix::Library;
use std::ffi::{CStr, CString, OsStr, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The loader found by a walk, so that the walk is made once.
static LOADER: Current<Library> = Current::none();

/// The function of this name that the application would have got without us, NULL if there is none.
pub fn function(name: &CStr) -> *mut c_void {
    #[expect(clippy::disallowed_methods, reason = "libloading knows no RTLD_NEXT")]
    // SAFETY: `name` is a C string; RTLD_NEXT looks behind us in the order that the application
    // linked.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if !next.is_null() && !is_ours(next) {
        keep(next);
        return next;
    }
    let loader = LOADER.get().or_else(|| {
        let found = loaded_loader().or_else(opened_loader)?;
        Some(LOADER.keep(found))
    });
    loader.map_or(null_mut(), |loader| defined(loader, name))
}

/// The function of this name in the loader that defines `neighbour`, NULL if that is no loader.
pub fn beside(neighbour: *const c_void, name: &CStr) -> *mut c_void {
    let Some(object) = object(neighbour) else { return null_mut() };
    if !names_a_loader(object.name.to_bytes()) {
        return null_mut();
    }
    loaded(&object.name).map_or(null_mut(), |loader| {
        let found = defined(&loader, name);
        // Its functions are called from now on.
        std::mem::forget(loader);
        found
    })
}

/// The address of a name in a library, NULL if it is not there or ours.
pub fn defined(library: &Library, name: &CStr) -> *mut c_void {
    // SAFETY: only the address is taken; its type is the caller's affair.
    let found = unsafe { library.get::<*mut c_void>(name.to_bytes_with_nul()) };
    let found = found.map_or(null_mut(), |symbol| *symbol);
    if is_ours(found) { null_mut() } else { found }
}

fn names_a_loader(file: &[u8]) -> bool {
    file.windows(6).any(|w| w == b"OpenCL")
}

/// Another handle of a library that is loaded.
pub fn loaded(name: &CStr) -> Option<Library> {
    const LOADED: c_int = libc::RTLD_NOLOAD | libc::RTLD_LAZY;
    // SAFETY: RTLD_NOLOAD only gives a handle to what is loaded.
    unsafe { Library::open(Some(OsStr::from_bytes(name.to_bytes())), LOADED) }.ok()
}

/// Keeps the library of a function in the process: what came with a plugin (dlopen, RTLD_GLOBAL)
/// would go with it, and we go on calling the addresses that we found.
fn keep(function: *const c_void) {
    static KEPT: AtomicUsize = AtomicUsize::new(0);
    if let Some(object) = object(function)
        && KEPT.swap(object.base, Ordering::Relaxed) != object.base
    {
        std::mem::forget(loaded(&object.name));
    }
}

/// An object of the process.
struct Object {
    base: usize,
    /// Its file, empty where the dynamic linker has no name for it.
    name: CString,
}

/// The object that holds an address.
fn object(address: *const c_void) -> Option<Object> {
    objects::holding(address, |base, name| Object { base, name: name.to_owned() })
}

/// A loader that is in the process already, outside the global scope: bundled with a Python wheel,
/// say. A library named like an OpenCL loader comes before any other that exports the API (a driver
/// that can be linked directly).
fn loaded_loader() -> Option<Library> {
    let mut fallback = None;
    for name in &objects::files() {
        let Some(library) = loaded(name) else { continue };
        let symbol = defined(&library, c"clGetPlatformIDs");
        // A look-up in a handle also searches what the object depends on: it must be the object
        // itself that defines it.
        if object(symbol).is_none_or(|object| object.name != *name) {
            continue;
        }
        let file = name.to_bytes().rsplit(|b| *b == b'/').next().unwrap_or_default();
        if names_a_loader(file) {
            return Some(library);
        }
        fallback = Some(library);
    }
    fallback
}

/// No loader is in the process: the application found our symbols by itself (`dlsym(RTLD_DEFAULT,
/// ...)`).
fn opened_loader() -> Option<Library> {
    for name in ["libOpenCL.so.1", "libOpenCL.so"] {
        // SAFETY: loading a library runs its constructors; the OpenCL loader's are what the
        // application asks for.
        if let Ok(library) = unsafe { Library::open(Some(name), libc::RTLD_NOW | libc::RTLD_LOCAL) }
        {
            return Some(library);
        }
    }
    diag::warn(
        "no-loader",
        "the application calls OpenCL, and no OpenCL loader (libOpenCL.so.1) is in the process or can be opened: its calls fail. Install one (Debian: apt-get install ocl-icd-libopencl1)",
    );
    None
}
