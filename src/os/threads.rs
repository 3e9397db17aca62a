//! Threads of the recorder's own.

use super::memory;
use super::undisturbed::uncancelled;
use clscope_io::signals::without_signals;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a thread needs besides its stack, at most: the C library ends the process where a new
/// thread cannot have its thread-local data.
const BESIDES: usize = 1 << 20;

/// How often, and for how many microseconds, a new thread is given time to begin.
const WAITS: (u32, u32) = (10_000, 20);

/// Starts a thread with a small stack and every signal blocked: the application's handlers must
/// never run on it. It has what it needs when this returns: what the application does next, as
/// using up all memory, cannot end it while it begins.
///
/// # Errors
/// The system refuses another thread, or would soon refuse its memory.
pub fn spawn(name: &str, job: impl FnOnce() + Send + 'static) -> io::Result<()> {
    if !memory::can_map(BESIDES) {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    let begun = Arc::new(AtomicBool::new(false));
    let tell = Arc::clone(&begun);
    let job = move || {
        // The standard library's own thread-local data are there by now.
        tell.store(true, Ordering::Release);
        drop(tell);
        job();
    };
    #[expect(clippy::disallowed_methods, reason = "the only place that starts threads")]
    without_signals(|| {
        std::thread::Builder::new().name(name.into()).stack_size(256 * 1024).spawn(job).map(|_| ())
    })?;
    let (most, microseconds) = WAITS;
    let waiting = (0..most).take_while(|_| !begun.load(Ordering::Acquire));
    // A pause is a cancellation point.
    uncancelled(|| waiting.for_each(|_| pause(microseconds)));
    Ok(())
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
