//! What names and paths are called: C strings, which ld.so gives.

use crate::elf::byte;

/// Whether a C string begins with `prefix`, which holds no 0.
///
/// # Safety
/// `text` is a C string.
pub unsafe fn begins(text: *const u8, prefix: &[u8]) -> bool {
    let mut at = 0;
    while at < prefix.len() {
        // SAFETY: all bytes before `at` equal bytes of `prefix`, which are not 0.
        if prefix.get(at) != Some(&unsafe { byte(text, at) }) {
            return false;
        }
        at += 1;
    }
    true
}

/// The last component of a path.
///
/// # Safety
/// `path` is a C string.
pub unsafe fn file_name(path: *const u8) -> *const u8 {
    let (mut last, mut at) = (0, 0);
    loop {
        // SAFETY: no 0 was met before `at`.
        match unsafe { byte(path, at) } {
            // SAFETY: `last` is at most `at`, inside the string.
            0 => return unsafe { path.add(last) },
            b'/' => last = at + 1,
            _ => {}
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::same;

    #[test]
    fn file_names_and_prefixes() {
        let check = |path: &core::ffi::CStr, name: &core::ffi::CStr| {
            // SAFETY: both are C strings.
            unsafe { same(file_name(path.as_ptr().cast()), name.as_ptr().cast()) }
        };
        assert!(check(c"/usr/lib/libOpenCL.so.1", c"libOpenCL.so.1"));
        assert!(check(c"libOpenCL.so", c"libOpenCL.so"));
        assert!(check(c"", c""));
        assert!(!check(c"/a/libOpenCL.so", c"libOpenCL.so.1"));
        // SAFETY: C strings.
        unsafe {
            assert!(begins(c"libOpenCL-1a.so".as_ptr().cast(), b"libOpenCL"));
            assert!(!begins(c"libOpen".as_ptr().cast(), b"libOpenCL"));
        }
    }
}
