//! File descriptors beside the application's: high numbers, few where few are allowed, and no signal
//! at the file-size limit.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};

/// With fewer descriptors allowed the application needs them all.
const LEAST_DESCRIPTORS: u64 = 128;

/// Descriptors that we hold in most processes, and a few more.
const OURS: u64 = 8;

/// Moves a descriptor out of the way of the application's.
pub fn raised(file: File) -> File {
    // SAFETY: an all-zero rlimit is valid and writable.
    let mut limit: libc::rlimit = unsafe { std::mem::zeroed() };
    // SAFETY: as above. Where few are allowed, the last ones; where it fails, none are.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    let last = i32::try_from(limit.rlim_cur.saturating_sub(OURS)).unwrap_or(i32::MAX);
    for floor in [512, 128, last] {
        // SAFETY: a valid descriptor; the duplicate is owned by the File made from it, the original
        // is closed by its own.
        let high = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, floor) };
        if high >= 0 {
            // SAFETY: just made, with no other owner.
            return unsafe { File::from_raw_fd(high) };
        }
    }
    file
}

/// Runs a file call with SIGXFSZ held back: at the file-size limit the application must not get a
/// signal for our write.
pub fn limits_respected<R>(job: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
    // SAFETY: zeroed signal sets are initialised by sigemptyset; all pointers are to locals.
    unsafe {
        let (mut only, mut before, mut pending): (libc::sigset_t, libc::sigset_t, libc::sigset_t) =
            (std::mem::zeroed(), std::mem::zeroed(), std::mem::zeroed());
        libc::sigemptyset(&mut only);
        libc::sigaddset(&mut only, libc::SIGXFSZ);
        libc::sigpending(&mut pending);
        let was_pending = libc::sigismember(&pending, libc::SIGXFSZ) == 1;
        libc::pthread_sigmask(libc::SIG_BLOCK, &only, &mut before);
        let result = job();
        if result.is_err() && !was_pending {
            let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            libc::sigtimedwait(&only, std::ptr::null_mut(), &none);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        result
    }
}

/// Whether the application leaves descriptors to us.
pub fn descriptors_to_spare() -> bool {
    // SAFETY: an all-zero rlimit is valid and writable.
    let mut limit: libc::rlimit = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let failed = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0;
    failed || limit.rlim_cur >= LEAST_DESCRIPTORS
}
