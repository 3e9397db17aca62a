//! A few places for things that threads hand to each other, without a lock: taking and putting are
//! one exchange each, so that a signal's handler that leaves by `siglongjmp` can at worst lose the
//! thing that it interrupted, and never leaves others waiting.

use crate::os::locks::sync::{AtomicPtr, Ordering};
use std::ptr::null_mut;

/// Places for `N` values.
pub struct Slots<T, const N: usize>([AtomicPtr<T>; N]);

impl<T: Send, const N: usize> Slots<T, N> {
    /// Empty ones.
    pub fn new() -> Self {
        Self(std::array::from_fn(|_| AtomicPtr::new(null_mut())))
    }

    /// Puts a value into the first free place, in an order that a
    /// [`Doorbell`](crate::os::locks::doorbell::Doorbell) may follow.
    ///
    /// # Errors
    /// The value, where no place is free.
    pub fn put(&self, value: Box<T>) -> Result<(), Box<T>> {
        let value = Box::into_raw(value);
        let put = self.0.iter().any(|place| {
            place.compare_exchange(null_mut(), value, Ordering::SeqCst, Ordering::Relaxed).is_ok()
        });
        // SAFETY: leaked above, and nobody has taken it.
        if put { Ok(()) } else { Err(unsafe { Box::from_raw(value) }) }
    }

    /// Takes the first value, looking from the place `from` on and then from the beginning.
    pub fn take(&self, from: usize) -> Option<Box<T>> {
        let (before, behind) = self.0.split_at(from % N);
        behind.iter().chain(before).find_map(|place| {
            if place.load(Ordering::Relaxed).is_null() {
                return None;
            }
            let value = place.swap(null_mut(), Ordering::SeqCst);
            // SAFETY: a value that `put` leaked, taken by this exchange alone.
            (!value.is_null()).then(|| unsafe { Box::from_raw(value) })
        })
    }

    /// Whether there is nothing in any place.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|place| place.load(Ordering::SeqCst).is_null())
    }
}

impl<T, const N: usize> Drop for Slots<T, N> {
    fn drop(&mut self) {
        for place in &self.0 {
            let value = place.swap(null_mut(), Ordering::Relaxed);
            if !value.is_null() {
                // SAFETY: a value that `put` leaked, which nobody can take any more.
                drop(unsafe { Box::from_raw(value) });
            }
        }
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_taken_once_and_what_finds_no_place_comes_back() {
        let slots = Slots::<u32, 2>::new();
        assert!(slots.is_empty() && slots.take(0).is_none());
        assert!(slots.put(Box::new(1)).is_ok() && slots.put(Box::new(2)).is_ok());
        assert_eq!(slots.put(Box::new(3)), Err(Box::new(3)));
        assert_eq!(slots.take(1), Some(Box::new(2)), "looks from there on");
        assert_eq!(slots.take(1), Some(Box::new(1)), "and then from the beginning");
        assert!(slots.is_empty());
    }

    #[test]
    fn threads_lose_nothing_and_take_nothing_twice() {
        let slots = Slots::<u64, 3>::new();
        let taken = std::thread::scope(|scope| {
            let put = |first: u64| {
                let slots = &slots;
                scope.spawn(move || {
                    for n in first..first + 1000 {
                        let mut value = Box::new(n);
                        while let Err(back) = slots.put(value) {
                            value = back;
                            std::thread::yield_now();
                        }
                    }
                })
            };
            let (_one, _two) = (put(0), put(1000));
            let mut taken = Vec::new();
            while taken.len() < 2000 {
                match slots.take(taken.len()) {
                    Some(value) => taken.push(*value),
                    None => std::thread::yield_now(),
                }
            }
            taken
        });
        let mut sorted = taken;
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..2000));
    }
}

#[cfg(all(test, feature = "loom"))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    #[test]
    fn one_of_two_takers_has_the_value() {
        loom::model(|| {
            let slots = Arc::new(Slots::<u32, 1>::new());
            let other = Arc::clone(&slots);
            let taker = thread::spawn(move || other.take(0).is_some());
            let put = slots.put(Box::new(1)).is_ok();
            let here = slots.take(0).is_some();
            let there = taker.join().unwrap();
            assert!(put && !(here && there));
            assert_eq!(slots.is_empty(), here || there);
        });
    }
}
