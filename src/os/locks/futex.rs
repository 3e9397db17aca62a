//! Sleeping on a word, by the kernel's own call: it is no cancellation point, as functions of the C
//! library are.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleeps while the word is `seen`, for so long at most. May return early.
pub fn wait(word: &AtomicU32, seen: u32, most: Option<Duration>) {
    let most = most.map(|most| libc::timespec {
        tv_sec: most.as_secs().min(1 << 30) as libc::time_t,
        tv_nsec: most.subsec_nanos().into(),
    });
    let most = most.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: a live word, and NULL or a time that lives as long as the call.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            seen,
            most,
        );
    }
}

/// Sleeps so long; for ever where no time is given. By the call that those who wait for other threads
/// make as well, so that a sandbox lets it pass.
pub fn sleep(time: Option<Duration>) {
    static NEVER: AtomicU32 = AtomicU32::new(0);
    wait(&NEVER, 0, time);
}

/// Wakes one thread that sleeps on the word.
pub fn wake_one(word: &AtomicU32) {
    // SAFETY: a live word.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            1,
        )
    };
}
