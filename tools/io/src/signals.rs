//! Signals, which are the application's or the command's affair: no thread that is started beside
//! takes one. Refuses to handle any.

/// Calls `start` with all signals blocked, so that a thread started by it never takes one.
pub fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    // SAFETY: zeros are valid sets, initialised by the calls; both live through them.
    let before = unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) =
            (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        before
    };
    let result = start();
    // SAFETY: the mask is the one that pthread_sigmask gave.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
    result
}
