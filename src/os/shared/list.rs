//! A list that only grows, of values that are never freed, without a lock: a signal's handler that
//! leaves by `siglongjmp` can at worst leave a place of it empty, and never leaves others waiting.

use crate::os::locks::sync::{AtomicPtr, AtomicU64, Ordering};
use std::ptr::null_mut;

/// Places of the first part; each part has twice those of the part before.
const FIRST: usize = 64;
/// Parts: places for two to the power of 31.
const PARTS: usize = 26;

/// See the module.
pub struct List<T: 'static> {
    parts: [AtomicPtr<AtomicPtr<T>>; PARTS],
    length: AtomicU64,
}

/// The part that a place is in, the place in it, and how many it has.
fn part(place: usize) -> (usize, usize, usize) {
    let part = (place / FIRST + 1).ilog2();
    let size = FIRST << part;
    (part as usize, place + FIRST - size, size)
}

impl<T: Sync + 'static> List<T> {
    /// Empty; memory is taken when places are filled.
    pub fn new() -> Self {
        let parts = std::array::from_fn(|_| AtomicPtr::new(null_mut()));
        Self { parts, length: AtomicU64::new(0) }
    }

    /// Takes the next place, for the caller to fill.
    pub fn reserve(&self) -> usize {
        self.length.fetch_add(1, Ordering::Relaxed) as usize
    }

    /// Fills a place that the caller has taken.
    pub fn put(&self, place: usize, value: &'static T) {
        let (part, at, size) = part(place);
        let Some(places) = self.parts.get(part) else { return };
        let mut found = places.load(Ordering::Acquire);
        if found.is_null() {
            let made: Box<[AtomicPtr<T>]> = (0..size).map(|_| AtomicPtr::new(null_mut())).collect();
            let made = Box::into_raw(made);
            let first = made.cast::<AtomicPtr<T>>();
            let kept =
                places.compare_exchange(null_mut(), first, Ordering::AcqRel, Ordering::Acquire);
            found = kept.map_or_else(
                |others| {
                    // SAFETY: leaked just above, and seen by nobody.
                    drop(unsafe { Box::from_raw(made) });
                    others
                },
                |_| first,
            );
        }
        // SAFETY: a part of so many places, never freed.
        unsafe { &*found.add(at) }.store(std::ptr::from_ref(value).cast_mut(), Ordering::Release);
    }

    /// What is in a place; `None` where nothing is yet.
    pub fn get(&self, place: usize) -> Option<&'static T> {
        let (part, at, _) = part(place);
        let places = self.parts.get(part)?.load(Ordering::Acquire);
        if places.is_null() {
            return None;
        }
        // SAFETY: a part with this place, never freed; what is in it lives for ever.
        unsafe { (*places.add(at)).load(Ordering::Acquire).as_ref() }
    }

    /// All that are there, in their order.
    pub fn iter(&self) -> impl Iterator<Item = &'static T> {
        (0..self.length.load(Ordering::Relaxed) as usize).filter_map(|place| self.get(place))
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn places_follow_each_other_through_all_parts() {
        let mut next = (0, 0);
        for place in 0..10_000 {
            let (part, at, size) = part(place);
            assert_eq!((part, at), next, "{place}");
            assert_eq!(size, FIRST << part);
            next = if at + 1 == size { (part + 1, 0) } else { (part, at + 1) };
        }
        assert!(part((1 << 31) - 1).0 < PARTS);
    }

    #[test]
    fn what_threads_put_is_there_once_and_a_place_left_empty_is_passed_over() {
        const EACH: usize = if cfg!(miri) { 100 } else { 2_000 };
        let list: &List<usize> = Box::leak(Box::new(List::new()));
        let left = list.reserve();
        std::thread::scope(|scope| {
            for thread in 0..3 {
                scope.spawn(move || {
                    for i in 0..EACH {
                        let place = list.reserve();
                        assert!(list.get(place).is_none());
                        list.put(place, Box::leak(Box::new(thread * EACH + i)));
                        assert_eq!(list.get(place), Some(&(thread * EACH + i)));
                    }
                });
            }
        });
        let mut all: Vec<usize> = list.iter().copied().collect();
        all.sort_unstable();
        assert_eq!(all, (0..3 * EACH).collect::<Vec<_>>());
        assert!(list.get(left).is_none() && list.get(1 << 20).is_none());
    }
}
