//! Writing to a file without disturbing what the application has to do with signals and
//! cancellation: none is held back, no cancellation point is passed, and no SIGXFSZ is raised.

use std::io;
use std::os::fd::RawFd;

/// Whether a file may grow to `end` bytes without a SIGXFSZ: as far as the process's limit lets it.
pub fn fits(end: u64) -> bool {
    // SAFETY: an all-zero rlimit is valid and writable.
    let mut limit: libc::rlimit = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) } == 0;
    known && (limit.rlim_cur == libc::RLIM_INFINITY || end <= limit.rlim_cur)
}

/// Writes all of `bytes` at `offset` of a file that [`fits`] them. The system's calls are made
/// without the C library's functions, which are cancellation points.
///
/// # Errors
/// The system's.
pub fn write_at(file: RawFd, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        // SAFETY: the pointer and the length are of one slice.
        let written =
            unsafe { libc::syscall(libc::SYS_pwrite64, file, bytes.as_ptr(), bytes.len(), offset) };
        match usize::try_from(written) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = bytes.get(written..).unwrap_or(&[]);
                offset += written as u64;
            }
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}

/// Reserves space for `length` bytes at `offset`; the file's length stays as it is. Whether the
/// file system does.
pub fn reserve(file: RawFd, offset: u64, length: u64) -> bool {
    let mode = libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: numbers only.
    unsafe { libc::syscall(libc::SYS_fallocate, file, mode, offset, length) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn bytes_lie_where_they_were_sent_and_refusals_are_told() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let number = file.as_file().as_raw_fd();
        assert!(fits(1 << 20));
        reserve(number, 0, 4096);
        write_at(number, b"behind", 3).expect("written");
        assert_eq!(std::fs::read(file.path()).expect("read"), b"\0\0\0behind");
        assert_eq!(write_at(-1, b"x", 0).expect_err("refused").raw_os_error(), Some(libc::EBADF));
    }
}
