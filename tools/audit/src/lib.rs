//! The audit shim: ld.so loads it (`LD_AUDIT`) before the application and asks it about every
//! symbol that is bound to an OpenCL loader. What the application binds there, by linking or by
//! `dlsym`, it sends to the function of the same name in the preloaded recorder. This reaches
//! applications that `dlopen` a loader which knows no layers.
//!
//! It refuses to do anything else: it opens nothing, allocates nothing, calls no library and keeps
//! one address. Without a preloaded recorder it changes nothing. Binds made *by* a loader, a driver
//! or the recorder are left alone, since they are how OpenCL finds itself: sent to the recorder
//! they would recurse.
//!
//! glibc before 2.35 routes every PLT call of an audited process through a slow path; the shim asks
//! to be unloaded there.
#![cfg_attr(not(test), no_std)]

#[path = "../../../src/os/objects/elf.rs"]
mod elf;
mod names;

use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use elf::{LinkMap, Sym, Tables};

/// What an object is; kept in the cookie that ld.so holds for it.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
enum Role {
    /// Application code: what it binds to a loader is redirected.
    Other = 1,
    /// An OpenCL loader, whatever its version or bundle suffix.
    Loader = 2,
    /// An OpenCL driver, or a library that stands before the loader and passes its calls on: the
    /// recorder, which stands before that, has seen them.
    Behind = 3,
    /// The recorder.
    Recorder = 4,
    /// In another name space than the recorder's.
    Elsewhere = 5,
}

const LA_FLG_BINDTO: u32 = 1;
const LA_FLG_BINDFROM: u32 = 2;
/// Interface version of glibc 2.35, where binding without PLT tracing became free of charge.
const LAV_CURRENT: u32 = 2;

/// The recorder's link map, null while it is not loaded. ld.so keeps the map as long as the object.
static RECORDER: AtomicPtr<LinkMap> = AtomicPtr::new(core::ptr::null_mut());

/// Whether all objects of the start are loaded and relocated: before that no code of the recorder
/// may run.
static STARTED: AtomicBool = AtomicBool::new(false);

/// ld.so is about to hand over to the application.
#[unsafe(no_mangle)]
pub extern "C" fn la_preinit(_cookie: *mut usize) {
    STARTED.store(true, Ordering::Release);
}

/// Handshake: the interface version we speak, or 0 to be unloaded.
#[unsafe(no_mangle)]
pub extern "C" fn la_version(version: u32) -> u32 {
    if version < LAV_CURRENT { 0 } else { LAV_CURRENT }
}

/// Tells ld.so which binds we want to hear of, for each object it loads.
///
/// # Safety
/// Called by ld.so, with a link map whose object is mapped and the cookie that belongs to it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn la_objopen(
    map: *mut LinkMap,
    name_space: isize,
    cookie: *mut usize,
) -> u32 {
    // SAFETY: ld.so's promises about its arguments.
    let role = unsafe { role(&*map, name_space) };
    if role == Role::Recorder {
        RECORDER.store(map, Ordering::Release);
    }
    // SAFETY: as above.
    unsafe { *cookie = role as usize };
    match role {
        Role::Other => LA_FLG_BINDFROM,
        Role::Loader => LA_FLG_BINDTO,
        Role::Behind | Role::Recorder | Role::Elsewhere => 0,
    }
}

/// # Safety
/// `map`'s object is mapped and its name is a C string or null.
unsafe fn role(map: &LinkMap, name_space: isize) -> Role {
    if name_space != 0 {
        return Role::Elsewhere;
    }
    if map.name.is_null() {
        return Role::Other;
    }
    // SAFETY: a C string; literals are C strings; the object is mapped.
    unsafe {
        let name = names::file_name(map.name);
        if names::begins(name, b"libclscope") {
            return Role::Recorder;
        }
        // Bundles rename the file (libOpenCL-1234abcd.so.1.0.0), never its beginning.
        if names::begins(name, b"libOpenCL") {
            return Role::Loader;
        }
        // cl_khr_icd asks every driver to export the first. What exports the second and is there when
        // the program starts comes behind the recorder, which is preloaded first.
        let is_start = !STARTED.load(Ordering::Acquire);
        let passes_on = |tables: Tables| {
            let exports = |name: &core::ffi::CStr| tables.function(name.as_ptr().cast()).is_some();
            exports(c"clIcdGetPlatformIDsKHR") || (is_start && exports(c"clGetPlatformIDs"))
        };
        if Tables::find(map).is_some_and(passes_on) {
            return Role::Behind;
        }
    }
    Role::Other
}

/// Forgets a recorder that is unloaded (it asks never to be, but a reused address would be fatal).
///
/// # Safety
/// Called by ld.so with the cookie given in [`la_objopen`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn la_objclose(cookie: *mut usize) -> u32 {
    // SAFETY: ld.so's promise.
    if unsafe { *cookie } == Role::Recorder as usize {
        RECORDER.store(core::ptr::null_mut(), Ordering::Release);
    }
    0
}

/// A symbol was bound or looked up: its address, or the recorder's in its place.
///
/// # Safety
/// Called by ld.so: `symbol` holds the address in memory, the cookies are those of the referring
/// and the defining object, `name` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn la_symbind64(
    symbol: *const Sym,
    _index: u32,
    referring: *const usize,
    defining: *const usize,
    _flags: *mut u32,
    name: *const u8,
) -> usize {
    // SAFETY: ld.so's promises; a set RECORDER is the map of a loaded object.
    unsafe {
        let bound = (*symbol).value;
        if *defining != Role::Loader as usize
            || *referring != Role::Other as usize
            || !is_entry_point(name)
        {
            return bound;
        }
        let recorder = RECORDER.load(Ordering::Acquire);
        if recorder.is_null() {
            return bound;
        }
        let Some(tables) = Tables::find(&*recorder) else { return bound };
        // With two loaders in a process each keeps its own calls: the recorder learns what the name
        // was bound to.
        match tables.function(c"clscope_bind".as_ptr().cast()) {
            Some(bind) if STARTED.load(Ordering::Acquire) => {
                let bind: unsafe extern "C" fn(*const u8, usize) -> usize =
                    core::mem::transmute(bind);
                bind(name, bound)
            }
            _ => tables.function(name).unwrap_or(bound),
        }
    }
}

/// Whether a name is one of OpenCL's, and not one by which loaders, drivers and layers speak to
/// each other.
///
/// # Safety
/// `name` is a C string.
unsafe fn is_entry_point(name: *const u8) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        names::begins(name, b"cl")
            && !names::begins(name, b"clIcd")
            && !names::begins(name, b"clInitLayer")
            && !names::begins(name, b"clGetLayerInfo")
            && !names::begins(name, b"clGetICDLoaderInfo")
    }
}

/// Nothing here panics; without the standard library the compiler wants to know what would happen.
#[cfg(not(test))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_entry_points_are_sent_on() {
        for (name, expected) in [
            (c"clFinish", true),
            (c"clGetPlatformIDs", true),
            (c"clIcdGetPlatformIDsKHR", false),
            (c"clInitLayerWithProperties", false),
            (c"clGetLayerInfo", false),
            (c"clGetICDLoaderInfoOCLICD", false),
            (c"malloc", false),
            (c"", false),
        ] {
            // SAFETY: C strings.
            assert_eq!(unsafe { is_entry_point(name.as_ptr().cast()) }, expected, "{name:?}");
        }
    }

    #[test]
    fn old_interfaces_are_refused() {
        assert_eq!(la_version(1), 0);
        assert_eq!(la_version(2), 2);
        assert_eq!(la_version(3), 2);
    }
}
