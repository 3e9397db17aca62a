//! The lock of what belongs to one incarnation of the process, behind a
//! [`Current`](super::current::Current) or a reference that a child does not have. All of it is in its
//! own words: a lock that parks its threads in a table of the whole process can be left taken there by a
//! fork, and then hangs a child that never saw this one. What outlives a fork is behind
//! [`ForkSafe`](super::fork_safe::ForkSafe), made of this.

use super::threads;
use super::undisturbed::uncancelled;
use std::sync::{PoisonError, TryLockError};
use std::time::Duration;

pub use std::sync::MutexGuard;

/// Between two tries of one who does not wait for ever.
const PAUSE: Duration = Duration::from_micros(100);

/// A value that one thread at a time has. A panic while it is held leaves it as it is: panics are
/// caught before they reach the application, and count as a fault of ours alone.
#[derive(Debug, Default)]
pub struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// With this value.
    pub const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    /// Waits until no other thread has it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// If no thread has it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Waits for about so long.
    pub fn try_lock_for(&self, patience: Duration) -> Option<MutexGuard<'_, T>> {
        let mut tries = patience.as_micros() / PAUSE.as_micros();
        loop {
            let locked = self.try_lock();
            if locked.is_some() || tries == 0 {
                return locked;
            }
            tries -= 1;
            // A pause is a cancellation point.
            uncancelled(|| threads::pause(PAUSE.subsec_micros()));
        }
    }

    /// The value, which nobody else can have any more.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
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
    fn what_another_has_is_waited_for_no_longer_than_asked() {
        let value = Mutex::new(1);
        let held = value.lock();
        assert!(value.try_lock().is_none());
        assert!(value.try_lock_for(PAUSE * 3).is_none());
        drop(held);
        assert_eq!(value.try_lock_for(Duration::ZERO).map(|v| *v), Some(1));
        assert_eq!(value.into_inner(), 1);
    }

    #[test]
    fn a_panic_of_the_holder_leaves_it_free() {
        let value = Mutex::new(1);
        let panicked = std::panic::catch_unwind(|| {
            let mut held = value.lock();
            *held = 2;
            panic!("while it is held");
        });
        assert!(panicked.is_err());
        assert_eq!(value.try_lock().map(|v| *v), Some(2));
        assert_eq!(*value.lock(), 2);
    }
}
