//! The lock of what belongs to one incarnation of the process, behind a
//! [`Current`](crate::os::shared::current::Current) or a reference that a child does not have: parking_lot's,
//! over a raw lock that is all in its own word. parking_lot's own parks its threads in a table of
//! the whole process, which a fork can leave taken, and then hangs a child that never saw the lock.
//! What outlives a fork is behind [`ForkSafe`](crate::os::locks::fork_safe::ForkSafe), made of this.
//!
//! A signal's handler that leaves by `siglongjmp` leaves it taken for ever. So a thread of the
//! application takes one only with signals held back ([`undisturbed`](crate::os::undisturbed)); else it
//! takes a [`Robust`](crate::os::locks::robust::Robust) one.

use crate::os::locks::futex;
use parking_lot::lock_api::{self, GuardSend, RawMutex, RawMutexTimed};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A value that one thread at a time has. A panic while it is held leaves it as it is: panics are
/// caught before they reach the application, and count as a fault of ours alone.
pub type Mutex<T> = lock_api::Mutex<Futex, T>;

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and perhaps waited for.
const AWAITED: u32 = 2;

/// A lock in one word that the kernel knows. Makes no call that is a cancellation point. As in
/// "Futexes are tricky", U. Drepper, 2011, section 6.
pub struct Futex(AtomicU32);

impl Futex {
    /// Waits until it is free, or until then. Whether it is the caller's now.
    fn wait(&self, until: Option<Instant>) -> bool {
        while self.0.swap(AWAITED, Ordering::Acquire) != FREE {
            let left = until.map(|until| until.saturating_duration_since(clock()));
            if left == Some(Duration::ZERO) {
                return false;
            }
            futex::wait(&self.0, AWAITED, left);
        }
        true
    }
}

/// The clock of those who wait.
#[expect(clippy::disallowed_methods, reason = "for patience, not for a measurement")]
pub fn clock() -> Instant {
    Instant::now()
}

// SAFETY: one thread at a time changes the word from FREE, and only who has done so makes it FREE.
unsafe impl RawMutex for Futex {
    const INIT: Self = Self(AtomicU32::new(FREE));
    type GuardMarker = GuardSend;

    fn lock(&self) {
        if !self.try_lock() {
            self.wait(None);
        }
    }

    fn try_lock(&self) -> bool {
        self.0.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    unsafe fn unlock(&self) {
        if self.0.swap(FREE, Ordering::Release) == AWAITED {
            futex::wake_one(&self.0);
        }
    }
}

// SAFETY: as above; who gave up has changed nothing but that others may be looked for in vain.
unsafe impl RawMutexTimed for Futex {
    type Duration = Duration;
    type Instant = Instant;

    fn try_lock_for(&self, patience: Duration) -> bool {
        self.try_lock() || self.wait(Some(clock() + patience))
    }

    fn try_lock_until(&self, until: Instant) -> bool {
        self.try_lock() || self.wait(Some(until))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_at_a_time_has_the_value() {
        static SUM: Mutex<u64> = Mutex::new(0);
        let add = || (0..10_000).for_each(|_| *SUM.lock() += 1);
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(add))));
        assert_eq!(*SUM.lock(), 40_000);
    }

    #[test]
    fn who_waits_for_some_time_gets_what_is_freed_meanwhile() {
        static VALUE: Mutex<u64> = Mutex::new(1);
        let held = VALUE.lock();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| VALUE.try_lock_for(Duration::from_secs(60)).map(|v| *v));
            std::thread::sleep(Duration::from_millis(5));
            drop(held);
            assert_eq!(waiter.join().expect("no panic"), Some(1));
        });
    }

    #[test]
    fn what_another_has_is_waited_for_no_longer_than_asked() {
        let value = Mutex::new(1);
        let held = value.lock();
        assert!(value.try_lock().is_none());
        assert!(value.try_lock_for(Duration::from_micros(300)).is_none());
        drop(held);
        assert_eq!(value.try_lock_for(Duration::ZERO).map(|v| *v), Some(1));
        assert_eq!(value.into_inner(), 1);
    }

    #[test]
    fn a_panic_of_the_holder_leaves_it_free() {
        let value = Mutex::new(1);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut held = value.lock();
            *held = 2;
            panic!("while it is held");
        }));
        assert!(panicked.is_err());
        assert_eq!(value.try_lock().map(|v| *v), Some(2));
        assert_eq!(*value.lock(), 2);
    }
}
