//! A robust lock: a signal's handler that leaves by `siglongjmp` leaves it taken, and its thread gives it
//! back as soon as it finds that the frame which held it is gone ([`held`](super::held)). So signals need not be held back, which
//! would send those of the process to other threads. For values that are whole between any two
//! instructions of those who change them.

use super::futex;
use super::held::Mark;
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};

/// Set beside the owner where others wait.
const AWAITED: u32 = 1 << 31;

/// A value that one thread at a time has.
pub struct Robust<T> {
    /// The owner's number, 0 while it is free. Also the futex.
    owner: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached through the guard only, which one thread at a time has.
unsafe impl<T: Send> Sync for Robust<T> {}

/// The value, as long as the calling thread has it.
pub struct Guard<'a, T> {
    of: &'a Robust<T>,
    /// Goes after the lock is given back.
    _mark: Mark,
}

impl<T> Robust<T> {
    /// Free.
    pub fn new(value: T) -> Self {
        Self { owner: AtomicU32::new(0), value: UnsafeCell::new(value) }
    }

    /// Waits until no other thread has it. `None` where the calling thread has it itself: a signal's
    /// handler asks that interrupted it. Makes no call that is a cancellation point.
    pub fn lock(&self) -> Option<Guard<'_, T>> {
        let me = number();
        let mut mine = me;
        // SAFETY: it is given back only where this thread has it; who made it keeps it as long as
        // threads may come.
        let mark = unsafe {
            Mark::new((&raw const self.owner).cast(), std::ptr::null(), |owner, _| {
                give_back(&*owner.cast::<AtomicU32>());
            })
        };
        loop {
            let found = self.owner.compare_exchange(0, mine, Ordering::Acquire, Ordering::Relaxed);
            let Err(found) = found else { return Some(Guard { of: self, _mark: mark }) };
            if found & !AWAITED == me {
                return None;
            }
            let awaited = found | AWAITED;
            if found == awaited
                || self
                    .owner
                    .compare_exchange(found, awaited, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok()
            {
                futex::wait(&self.owner, awaited, None);
                // Others may wait as well: whoever frees it next must look.
                mine = me | AWAITED;
            }
        }
    }
}

/// Gives it back where the calling thread has it: the frame that took it has been left.
fn give_back(owner: &AtomicU32) {
    if owner.load(Ordering::Relaxed) & !AWAITED == number() {
        free(owner);
    }
}

fn free(owner: &AtomicU32) {
    if owner.swap(0, Ordering::Release) & AWAITED != 0 {
        futex::wake_one(owner);
    }
}

/// The calling thread's number, as the kernel has it: below 2^22.
fn number() -> u32 {
    // SAFETY: no preconditions.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: this thread has it.
        unsafe { &*self.of.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread has it, and the guard is borrowed alone.
        unsafe { &mut *self.of.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        free(&self.of.owner);
    }
}

#[cfg(test)]
mod tests {
    use super::super::held;
    use super::*;

    #[test]
    fn one_thread_at_a_time_has_the_value() {
        let sum = Robust::new(0u64);
        let add = || (0..10_000).for_each(|_| *sum.lock().expect("not ours") += 1);
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(add))));
        assert_eq!(*sum.lock().expect("free"), 40_000);
    }

    #[test]
    fn its_own_thread_is_told_and_gives_back_what_it_left() {
        let value = Robust::new(1);
        let left = value.lock();
        assert!(left.is_some() && value.lock().is_none(), "a handler's call");
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| value.lock().map(|v| *v));
            while value.owner.load(Ordering::Relaxed) & AWAITED == 0 {
                std::thread::yield_now();
            }
            std::thread::scope(|s| drop(s.spawn(held::give_up)));
            assert!(!waiter.is_finished(), "what another has is not given back");
            // As a handler's jump does.
            std::mem::forget(left);
            held::give_up();
            assert_eq!(waiter.join().expect("no panic"), Some(1));
        });
        held::give_up();
        assert!(value.lock().is_some());
    }
}
