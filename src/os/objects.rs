//! The objects of the process: its executable and its libraries. Which one holds an address, and
//! what they are called. Keeps nothing: what is loaded changes.

use std::ffi::{CStr, CString, c_void};

/// Runs `run` on base address and file of the object that holds an address; `None` if there is
/// none. The file is empty where the dynamic linker has no name for it.
pub fn holding<R>(address: *const c_void, run: impl FnOnce(usize, &CStr) -> R) -> Option<R> {
    // SAFETY: an all-zero Dl_info is valid.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: `info` is writable, and dladdr accepts any address.
    if address.is_null() || unsafe { libc::dladdr(address, &mut info) } == 0 {
        return None;
    }
    let name = if info.dli_fname.is_null() {
        c""
    } else {
        // SAFETY: a name of the dynamic linker is a C string while the object is loaded.
        unsafe { CStr::from_ptr(info.dli_fname) }
    };
    Some(run(info.dli_fbase as usize, name))
}

/// Whether an address lies in this library.
pub fn is_ours(address: *const c_void) -> bool {
    let base = |address| holding(address, |base, _| base);
    base(address).is_some_and(|there| Some(there) == base(is_ours as *const c_void))
}

/// Files of all objects that have a name, in the order in which they were loaded.
pub fn files() -> Vec<CString> {
    unsafe extern "C" fn collect(info: *mut libc::dl_phdr_info, _: usize, out: *mut c_void) -> i32 {
        // SAFETY: `out` is the vector below, `info` is valid during the call.
        let (out, name) = unsafe { (&mut *out.cast::<Vec<CString>>(), (*info).dlpi_name) };
        if !name.is_null() {
            // SAFETY: the dynamic linker's names are C strings.
            let name = unsafe { CStr::from_ptr(name) };
            if !name.is_empty() {
                out.push(name.to_owned());
            }
        }
        0
    }
    let mut out: Vec<CString> = Vec::new();
    // SAFETY: `collect` has the right type and `out` outlives the call. It only copies names:
    // dlopen is not allowed in there.
    unsafe { libc::dl_iterate_phdr(Some(collect), (&raw mut out).cast()) };
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_told_apart_by_its_object() {
        assert!(is_ours(files as *const c_void));
        assert!(!is_ours(libc::abort as *const c_void));
        assert!(!is_ours(std::ptr::null()));
        let libc = holding(libc::abort as *const c_void, |_, name| name.to_owned()).unwrap();
        assert!(files().contains(&libc), "{libc:?}");
    }
}
