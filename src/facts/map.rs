//! A lock-free map from words to words: what handles are, for the fast path.

use crate::os::sync::{AtomicBool, AtomicPtr, AtomicU64, Mutex, Ordering};

/// A lock-free map from non-zero keys to values. Keys stay for ever; their number is bounded by the
/// number of distinct addresses the runtime hands out. Growing copies under a lock while readers go
/// on with the old slots, which are kept.
pub struct Map {
    slots: AtomicPtr<Slots>,
    growing: AtomicBool,
    grow: Mutex<()>,
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
            slots: AtomicPtr::new(Box::into_raw(Box::new(Slots::new(256)))),
            growing: AtomicBool::new(false),
            grow: Mutex::new(()),
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

    /// Adds to a value and gives the old one. An addition that meets another thread's or a growing
    /// table may be lost: for counts that steer, not for totals.
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
            // A copy in the making may have read the old value: either we see it being made, or it
            // saw our store.
            if !self.growing.load(Ordering::SeqCst)
                && std::ptr::eq(slots, self.slots.load(Ordering::SeqCst))
            {
                return;
            }
        }
        let _growing = self.grow.lock();
        let mut slots = self.slots();
        if slots.find(key).is_none() && slots.used.load(Ordering::Relaxed) as usize * 2 > slots.mask
        {
            self.growing.store(true, Ordering::SeqCst);
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
