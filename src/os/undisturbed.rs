//! Keeps what is addressed to the application away from our own work on its threads: cancellation,
//! signals, and SIGXFSZ for a write by the recorder that a limit of file sizes refuses; and what that
//! work leaves in a thread away from the application (`thread_state`). The fast path needs none of
//! it: it makes no call that could be a cancellation point, and computes with integers.
//!
//! Refuses to stand around a call of the application's: that keeps its own cancellation points.

use super::thread_state::ThreadState;
use std::ffi::c_int;

/// `PTHREAD_CANCEL_DISABLE` of pthread.h.
const CANCEL_DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// Signals that a thread sends to itself by what it does: held back, they would end the process.
const SYNCHRONOUS: [c_int; 7] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGABRT,
];

/// Runs recorder code with the thread's cancellation put off until afterwards: a cancellation point
/// in here would unwind through frames that must come to their end. Costs no system call.
#[inline]
pub fn uncancelled<R>(run: impl FnOnce() -> R) -> R {
    struct Back(c_int);
    impl Drop for Back {
        fn drop(&mut self) {
            // SAFETY: a state that the same function gave, and room for the one before.
            unsafe { pthread_setcancelstate(self.0, &mut 0) };
        }
    }
    let mut before = 0;
    // SAFETY: a valid state, and room for the one before.
    unsafe { pthread_setcancelstate(CANCEL_DISABLE, &mut before) };
    let _back = Back(before);
    let _state = ThreadState::keep();
    run()
}

/// Runs recorder code that holds locks or writes files, without cancellation and without signals: a
/// handler that left it by `siglongjmp` would leave the locks taken. A SIGXFSZ that a write by the
/// recorder raises is taken back, so that the application never sees it.
pub fn undisturbed<R>(run: impl FnOnce() -> R) -> R {
    struct Back {
        before: libc::sigset_t,
        was_pending: bool,
    }
    impl Drop for Back {
        fn drop(&mut self) {
            if !self.was_pending && pending() {
                take_back();
            }
            // SAFETY: the mask that was in force before.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
        }
    }
    uncancelled(|| {
        let before = block();
        // SAFETY: an initialised set. Only a signal that was held back already can have waited.
        let was_pending = unsafe { libc::sigismember(&before, libc::SIGXFSZ) } == 1 && pending();
        let _back = Back { before, was_pending };
        run()
    })
}

/// As [`undisturbed`], for what writes to no file: by two calls that change the mask of signals,
/// and no other.
pub fn without_signals<R>(run: impl FnOnce() -> R) -> R {
    struct Back(libc::sigset_t);
    impl Drop for Back {
        fn drop(&mut self) {
            // SAFETY: the mask that was in force before.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
        }
    }
    uncancelled(|| {
        let _back = Back(block());
        run()
    })
}

/// Holds all signals back that can be. The mask before.
fn block() -> libc::sigset_t {
    // SAFETY: zeroed signal sets are initialised by sigfillset and by the mask before; all pointers
    // are to locals.
    unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) =
            (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        for signal in SYNCHRONOUS {
            libc::sigdelset(&mut all, signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &all, &mut before);
        before
    }
}

/// Whether a SIGXFSZ waits for this thread.
fn pending() -> bool {
    // SAFETY: an all-zero set is valid and writable.
    unsafe {
        let mut pending: libc::sigset_t = std::mem::zeroed();
        libc::sigpending(&mut pending);
        libc::sigismember(&pending, libc::SIGXFSZ) == 1
    }
}

/// Takes a waiting SIGXFSZ away.
fn take_back() {
    // SAFETY: an all-zero set is initialised; both pointers are to locals. It does not wait.
    unsafe {
        let mut only: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut only);
        libc::sigaddset(&mut only, libc::SIGXFSZ);
        let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        libc::sigtimedwait(&only, std::ptr::null_mut(), &none);
    }
}
