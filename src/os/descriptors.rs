//! File descriptors beside the application's: high numbers, and few where few are
//! allowed.

use super::limits::limit;
use super::thread_state::ThreadState;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};

/// With fewer descriptors allowed the application needs them all.
const LEAST_DESCRIPTORS: u64 = 128;

/// Descriptors that we hold in most processes, and a few more.
const OURS: u64 = 8;

/// Moves a descriptor out of the way of the application's.
pub fn raised(file: File) -> File {
    // Where few are allowed, the last ones.
    let most = limit(libc::RLIMIT_NOFILE).map_or(u64::MAX, |most| most.saturating_sub(OURS));
    let last = i32::try_from(most).unwrap_or(i32::MAX);
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

/// Whether descriptors 0 to 2 are open: else a file that is opened would be one of them, for a moment,
/// before it can be moved out of the way.
pub fn has_standard_descriptors() -> bool {
    // SAFETY: any number may be asked for.
    let is_open = |number| unsafe { libc::fcntl(number, libc::F_GETFD) } >= 0;
    let _state = ThreadState::keep();
    (0..3).all(is_open)
}

/// Whether the application leaves descriptors to us.
pub fn descriptors_to_spare() -> bool {
    limit(libc::RLIMIT_NOFILE).is_none_or(|most| most >= LEAST_DESCRIPTORS)
}
