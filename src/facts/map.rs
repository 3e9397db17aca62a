//! A lock-free map from words to words: what handles are, for the fast path.

use crate::os::locks::sync::{AtomicBool, AtomicPtr, AtomicU64, Ordering, Robust, strictly};

/// Places of an empty map.
const FIRST: usize = if cfg!(all(test, feature = "loom")) { 4 } else { 256 };

/// A lock-free map from non-zero keys to values. Keys stay for ever; their number is bounded by the
/// number of distinct addresses the runtime hands out. Growing copies under a lock while readers go
/// on with the old slots, which are kept.
pub struct Map {
    slots: AtomicPtr<Slots>,
    growing: AtomicBool,
    /// The slots are whole between any two instructions of those who change them under it.
    grow: Robust<()>,
}

struct Slots {
    mask: usize,
    /// What is left of a hash: its top bits.
    shift: u32,
    used: AtomicU64,
    entries: Box<[(AtomicU64, AtomicU64)]>,
}

impl Slots {
    fn new(size: usize) -> Self {
        Self {
            mask: size - 1,
            shift: 64 - size.trailing_zeros(),
            used: AtomicU64::new(0),
            entries: (0..size).map(|_| (AtomicU64::new(0), AtomicU64::new(0))).collect(),
        }
    }

    #[inline(always)]
    fn start(&self, key: u64) -> usize {
        // Handles are aligned addresses: multiply, take the top bits (Fibonacci hashing).
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    /// The value's cell of a key that is there.
    #[inline(never)]
    fn find(&self, key: u64) -> Option<&AtomicU64> {
        let mut at = self.start(key);
        loop {
            let (k, v) = self.entries.get(at)?;
            match k.load(Ordering::Acquire) {
                0 => return None,
                k if k == key => return Some(v),
                _ => at = (at + 1) & self.mask,
            }
        }
    }
}

impl Map {
    /// Empty.
    pub fn new() -> Self {
        Self {
            slots: AtomicPtr::new(Box::into_raw(Box::new(Slots::new(FIRST)))),
            growing: AtomicBool::new(false),
            grow: Robust::new(()),
        }
    }

    #[inline(always)]
    fn slots(&self) -> &'static Slots {
        // SAFETY: set to leaked boxes only.
        unsafe { &*self.slots.load(Ordering::Acquire) }
    }

    /// The value of a key, 0 if it has none.
    #[inline(always)]
    pub fn get(&self, key: u64) -> u64 {
        let slots = self.slots();
        // Most keys lie where they belong; NULL finds an empty place, whose value is 0.
        // SAFETY: a start is a hash's top bits, as many as say the number of entries.
        let (k, v) = unsafe { slots.entries.get_unchecked(slots.start(key)) };
        if k.load(Ordering::Acquire) == key {
            return v.load(Ordering::Acquire);
        }
        slots.find(key).map_or(0, |v| v.load(Ordering::Acquire))
    }

    /// Adds to a value and returns the old one. An addition that meets another thread's or a
    /// growing table may be lost: for counts that steer, not for totals.
    #[inline(always)]
    pub fn add(&self, key: u64, more: u64) -> u64 {
        let slots = self.slots();
        let first =
            slots.entries.get(slots.start(key)).filter(|(k, _)| k.load(Ordering::Relaxed) == key);
        match first.map(|(_, v)| v).or_else(|| slots.find(key)) {
            Some(cell) => {
                let value = cell.load(Ordering::Relaxed);
                cell.store(value.wrapping_add(more), Ordering::Relaxed);
                value
            }
            None => {
                self.set(key, more);
                0
            }
        }
    }

    /// Gives a key a value; NULL has none.
    pub fn set(&self, key: u64, value: u64) {
        if key == 0 {
            return;
        }
        let slots = self.slots();
        if let Some(cell) = slots.find(key) {
            cell.store(value, Ordering::SeqCst);
            strictly();
            // A copy in the making may have read the old value: either we see it being made, or it
            // saw our store.
            if !self.growing.load(Ordering::SeqCst)
                && std::ptr::eq(slots, self.slots.load(Ordering::SeqCst))
            {
                return;
            }
        }
        // A handler asks that interrupted this very thread: what it would keep is not kept.
        let Some(_growing) = self.grow.lock() else { return };
        let mut slots = self.slots();
        if slots.find(key).is_none() && slots.used.load(Ordering::Relaxed) as usize * 2 > slots.mask
        {
            self.growing.store(true, Ordering::SeqCst);
            strictly();
            let larger = Slots::new((slots.mask + 1) * 2);
            for (k, v) in &slots.entries {
                let k = k.load(Ordering::Relaxed);
                if k != 0 {
                    insert(&larger, k, v.load(Ordering::SeqCst));
                }
            }
            self.slots.store(Box::into_raw(Box::new(larger)), Ordering::SeqCst);
            self.growing.store(false, Ordering::SeqCst);
            slots = self.slots();
        }
        insert(slots, key, value);
    }
}

/// Under the lock.
fn insert(slots: &Slots, key: u64, value: u64) {
    if let Some(cell) = slots.find(key) {
        cell.store(value, Ordering::SeqCst);
        return;
    }
    let mut at = slots.start(key);
    while let Some((k, v)) = slots.entries.get(at) {
        if k.load(Ordering::Relaxed) == 0 {
            v.store(value, Ordering::Relaxed);
            k.store(key, Ordering::Release);
            slots.used.fetch_add(1, Ordering::Relaxed);
            return;
        }
        at = (at + 1) & slots.mask;
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;
    use crate::os::locks::held;

    #[test]
    fn keys_keep_their_values_while_the_map_grows() {
        let map = Map::new();
        assert_eq!(map.get(0), 0);
        // More than the first table holds; under Miri, which is slow, not many more.
        let keys = if cfg!(miri) { 300 } else { 10_000u64 };
        for key in 1..=keys {
            map.set(key * 16, key);
            assert_eq!(map.get(key * 16), key);
        }
        for key in 1..=keys {
            assert_eq!(map.get(key * 16), key);
            assert_eq!(map.get(key * 16 + 8), 0);
        }
        map.set(16, 7);
        assert_eq!(map.get(16), 7);
        map.set(0, 9);
        assert_eq!(map.get(0), 0, "NULL has no value");
    }

    #[test]
    fn additions_give_the_value_before() {
        let map = Map::new();
        assert_eq!((map.add(48, 1), map.add(48, 1), map.add(48, 5)), (0, 1, 2));
        assert_eq!(map.get(48), 7);
    }

    #[test]
    fn a_map_that_a_handler_left_in_the_middle_of_a_change_goes_on() {
        let map = Map::new();
        map.set(16, 1);
        // As a handler's jump out of a map that was about to grow does.
        std::mem::forget(map.grow.lock());
        map.growing.store(true, Ordering::SeqCst);
        map.set(32, 2);
        assert_eq!((map.get(16), map.get(32)), (1, 0), "it may be the handler that asks");
        held::give_up();
        for key in 1..=1000u64 {
            map.set(key * 16, key);
        }
        assert!((1..=1000u64).all(|key| map.get(key * 16) == key));
    }

    #[test]
    fn threads_see_what_others_set() {
        let map = Map::new();
        let each = if cfg!(miri) { 100 } else { 20_000u64 };
        std::thread::scope(|scope| {
            for thread in 1..=3u64 {
                let map = &map;
                scope.spawn(move || {
                    for i in 1..=each {
                        map.set(thread << 32 | i, i);
                        assert_eq!(map.get(thread << 32 | i), i);
                    }
                });
            }
        });
        for thread in 1..=3u64 {
            assert!((1..=each).all(|i| map.get(thread << 32 | i) == i));
        }
    }
}

#[cfg(all(test, feature = "loom"))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// A value that is set while another thread makes the map grow is in the new table, too.
    #[test]
    fn no_value_is_lost_to_a_map_that_grows() {
        loom::model(|| {
            let map = Arc::new(Map::new());
            map.set(1, 10);
            map.set(2, 20);
            let grower = {
                let map = Arc::clone(&map);
                // The third key in four places.
                thread::spawn(move || map.set(3, 30))
            };
            map.set(1, 11);
            assert_eq!((map.get(1), map.get(2)), (11, 20));
            grower.join().unwrap();
            assert_eq!((map.get(1), map.get(2), map.get(3)), (11, 20, 30));
        });
    }

    /// A reader sees a key with its value or not at all.
    #[test]
    fn a_key_is_never_seen_without_its_value() {
        loom::model(|| {
            let map = Arc::new(Map::new());
            let writer = {
                let map = Arc::clone(&map);
                thread::spawn(move || {
                    map.set(1, 10);
                    map.set(2, 20);
                    map.set(3, 30);
                })
            };
            for (key, value) in [(3, 30), (1, 10)] {
                let seen = map.get(key);
                assert!(seen == 0 || seen == value, "{key}: {seen}");
            }
            writer.join().unwrap();
        });
    }
}
