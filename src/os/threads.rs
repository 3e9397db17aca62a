//! Threads of the recorder's own.

use std::io;

/// Starts a thread with a small stack and every signal blocked: the application's handlers must
/// never run on it.
///
/// # Errors
/// The system refuses another thread.
pub fn spawn(name: &str, job: impl FnOnce() + Send + 'static) -> io::Result<()> {
    #[expect(clippy::disallowed_methods, reason = "the only place that starts threads")]
    without_signals(|| {
        std::thread::Builder::new().name(name.into()).stack_size(256 * 1024).spawn(job).map(|_| ())
    })
}

fn without_signals<R>(start: impl FnOnce() -> R) -> R {
    // SAFETY: signal sets are initialised before use.
    unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) =
            (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let started = start();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        started
    }
}

/// Processors that the calling thread may run on, 1 if unknown.
pub fn processors() -> i32 {
    // SAFETY: an all-zero set is valid, and writable.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) == 0 {
            libc::CPU_COUNT(&set)
        } else {
            1
        }
    }
}

/// Gives the processor up for a moment that is over after so many microseconds.
pub fn pause(microseconds: u32) {
    // SAFETY: no preconditions.
    unsafe { libc::usleep(microseconds) };
}
