//! File descriptors beside the application's: high numbers, and few where few are
//! allowed.

use std::fs::File;
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

/// Whether the application leaves descriptors to us.
pub fn descriptors_to_spare() -> bool {
    // SAFETY: an all-zero rlimit is valid and writable.
    let mut limit: libc::rlimit = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let failed = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0;
    failed || limit.rlim_cur >= LEAST_DESCRIPTORS
}
