//! A place for the value of the present incarnation of the process, which is never freed: a forked
//! child leaves its parent's behind and makes its own, so that no lock that another thread held at
//! the fork is ever waited for.

use std::sync::atomic::{AtomicPtr, Ordering};

/// The present value, if there is one.
pub struct Current<T: Sync + 'static>(AtomicPtr<T>);

impl<T: Sync + 'static> Current<T> {
    /// None yet.
    pub const fn none() -> Self {
        Self(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// The present value.
    #[inline(always)]
    pub fn get(&self) -> Option<&'static T> {
        // SAFETY: NULL, or from a `&'static T` (see `set`), which may be shared among threads.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// Puts another in its place.
    pub fn set(&self, value: Option<&'static T>) {
        let value = value.map_or(std::ptr::null(), std::ptr::from_ref);
        self.0.store(value.cast_mut(), Ordering::Release);
    }

    /// Puts a value in its place that lives as long as the process.
    pub fn keep(&self, value: T) -> &'static T {
        let kept: &'static T = Box::leak(Box::new(value));
        self.set(Some(kept));
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_value_set_is_the_present_one() {
        static PLACE: Current<u32> = Current::none();
        assert_eq!(PLACE.get(), None);
        assert_eq!(*PLACE.keep(7), 7);
        assert_eq!(PLACE.get(), Some(&7));
        PLACE.keep(8);
        assert_eq!(PLACE.get(), Some(&8));
        PLACE.set(None);
        assert_eq!(PLACE.get(), None);
    }
}
