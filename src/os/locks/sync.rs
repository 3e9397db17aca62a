//! Atomics and locks for what loom checks: loom's in tests with the feature `loom`, else the
//! ordinary ones.
#![forbid(unsafe_code)]

#[cfg(not(all(test, feature = "loom")))]
pub use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

#[cfg(all(test, feature = "loom"))]
pub use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

#[cfg(not(all(test, feature = "loom")))]
pub use super::robust::Robust;

#[cfg(all(test, feature = "loom"))]
pub use self::checked::{Mutex, Robust};

/// loom's lock with the face of ours.
#[cfg(all(test, feature = "loom"))]
mod checked {
    use loom::sync::MutexGuard;

    #[derive(Debug)]
    pub struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
        }

        pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }
    }

    /// No handler leaves anything here.
    pub struct Robust<T>(Mutex<T>);

    impl<T> Robust<T> {
        pub fn new(value: T) -> Self {
            Self(Mutex::new(value))
        }

        pub fn lock(&self) -> Option<MutexGuard<'_, T>> {
            Some(self.0.lock())
        }

        pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock()
        }

        /// Time does not pass here: nobody holds a lock for ever.
        pub fn try_lock_for(&self, _: std::time::Duration) -> Option<MutexGuard<'_, T>> {
            self.lock()
        }
    }
}

/// Between a sequentially consistent store and a load of another word, where two threads do so and
/// one must see the other's store. loom gives such accesses no more than acquire and release: there
/// a fence stands for the rest.
#[inline(always)]
pub fn strictly() {
    #[cfg(all(test, feature = "loom"))]
    fence(Ordering::SeqCst);
}
