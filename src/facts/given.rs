//! Memory of the host that OpenCL gave the application: regions that are mapped, shared virtual
//! memory, allocations on the host. Owns where it lies, for transfers that use it. A table of fixed
//! size without a lock; a forked child begins with an empty one. Where more is given out than it
//! holds, it says of other memory that it does not know. Refuses to follow who owns what else is
//! there.
#![forbid(unsafe_code)]

use clscope_trace::record::detail;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

/// How a region was given: the values of [`detail::HOST_MEMORY`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Given {
    /// [`detail::MAPPED`] or its like.
    pub how: u64,
    /// Id of the object that is mapped, 0 for other memory.
    pub object: u32,
    /// What it was made with, or [`detail::FLAGS_UNKNOWN`].
    pub flags: u64,
}

impl Given {
    const NOT_KEPT: Self = Self { how: detail::NOT_KEPT, object: 0, flags: detail::FLAGS_UNKNOWN };
}

/// A place for a region.
struct Place {
    /// Counts changes; odd while one is made.
    changes: AtomicU64,
    /// First byte, 0 where the place is free.
    begin: AtomicUsize,
    /// Behind the last byte.
    end: AtomicUsize,
    /// `object | how << 32`.
    of: AtomicU64,
    flags: AtomicU64,
}

impl Place {
    const fn free() -> Self {
        Self {
            changes: AtomicU64::new(0),
            begin: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            of: AtomicU64::new(0),
            flags: AtomicU64::new(0),
        }
    }

    /// Changes it, if nobody else does and it is as `is` says. It is looked at before it is taken:
    /// who takes it and gives it back unchanged would hide it from the one who takes it away.
    fn change(&self, is: impl Fn(&Self) -> bool, change: impl FnOnce(&Self)) -> bool {
        let before = self.changes.load(Ordering::Acquire);
        // The count is the same as before the look: so is what was seen.
        let taken = before & 1 == 0
            && is(self)
            && self
                .changes
                .compare_exchange(before, before + 1, Ordering::Acquire, Ordering::Relaxed)
                .is_ok();
        if !taken {
            return false;
        }
        // Who reads what is written below finds the count changed.
        fence(Ordering::Release);
        change(self);
        self.changes.store(before + 2, Ordering::Release);
        true
    }

    /// What it says of an address, if it holds it and does not change meanwhile.
    fn holds(&self, address: usize) -> Option<Given> {
        let before = self.changes.load(Ordering::Acquire);
        let begin = self.begin.load(Ordering::Relaxed);
        if begin == 0 || address < begin || address >= self.end.load(Ordering::Relaxed) {
            return None;
        }
        let (of, flags) = (self.of.load(Ordering::Relaxed), self.flags.load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        let unchanged = before & 1 == 0 && self.changes.load(Ordering::Relaxed) == before;
        unchanged.then_some(Given { how: of >> 32, object: of as u32, flags })
    }

    /// Whether it is a region of the object that is mapped.
    fn maps(&self, object: u32) -> bool {
        let of = u64::from(object) | detail::MAPPED << 32;
        self.begin.load(Ordering::Relaxed) != 0 && self.of.load(Ordering::Relaxed) == of
    }

    fn is(&self, begin: usize, object: u32) -> bool {
        self.begin.load(Ordering::Relaxed) == begin
            && self.of.load(Ordering::Relaxed) as u32 == object
    }
}

/// Regions that are given, `N` of them.
struct Table<const N: usize> {
    /// How many there are, those without a place among them.
    given: AtomicU32,
    /// How many have no place.
    without: AtomicU32,
    /// Places from here on were never used.
    used: AtomicUsize,
    places: [Place; N],
}

impl<const N: usize> Table<N> {
    const fn new() -> Self {
        Self {
            given: AtomicU32::new(0),
            without: AtomicU32::new(0),
            used: AtomicUsize::new(0),
            places: [const { Place::free() }; N],
        }
    }

    /// Forgets all.
    fn clear(&self) {
        for place in &self.places {
            place.begin.store(0, Ordering::Relaxed);
            place.changes.store(0, Ordering::Relaxed);
        }
        self.used.store(0, Ordering::Relaxed);
        self.without.store(0, Ordering::Relaxed);
        self.given.store(0, Ordering::Release);
    }

    fn used(&self) -> &[Place] {
        self.places.get(..self.used.load(Ordering::Relaxed).min(N)).unwrap_or(&[])
    }

    fn add(&self, begin: usize, bytes: usize, given: Given) {
        if begin == 0 || bytes == 0 {
            return;
        }
        self.given.fetch_add(1, Ordering::Relaxed);
        for (at, place) in self.places.iter().enumerate() {
            let is_free = |place: &Place| place.begin.load(Ordering::Relaxed) == 0;
            if !is_free(place) {
                continue;
            }
            let put = place.change(is_free, |place| {
                place.end.store(begin.saturating_add(bytes), Ordering::Relaxed);
                place.of.store(u64::from(given.object) | given.how << 32, Ordering::Relaxed);
                place.flags.store(given.flags, Ordering::Relaxed);
                place.begin.store(begin, Ordering::Relaxed);
            });
            if put {
                self.used.fetch_max(at + 1, Ordering::Relaxed);
                return;
            }
        }
        self.without.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes one region away that begins there and is of the object: the shortest, so that what is
    /// mapped twice stays known in full.
    fn remove(&self, begin: usize, object: u32) {
        if begin == 0 || self.given.load(Ordering::Relaxed) == 0 {
            return;
        }
        // A place that another thread changes is being taken away, and not ours to take.
        let ours = |place: &&Place| {
            place.is(begin, object) && place.changes.load(Ordering::Relaxed) & 1 == 0
        };
        while let Some((end, place)) = (self.used().iter().filter(ours))
            .map(|place| (place.end.load(Ordering::Relaxed), place))
            .min_by_key(|(end, _)| *end)
        {
            let same = |p: &Place| p.is(begin, object) && p.end.load(Ordering::Relaxed) == end;
            if place.change(same, |place| place.begin.store(0, Ordering::Relaxed)) {
                self.given.fetch_sub(1, Ordering::Relaxed);
                return;
            }
        }
        // It had no place, then.
        if (self.without)
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1))
            .is_ok()
        {
            self.given.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether a region of the object is mapped.
    fn has(&self, object: u32) -> bool {
        self.given.load(Ordering::Relaxed) != 0 && self.used().iter().any(|p| p.maps(object))
    }

    /// Takes all regions of an object away.
    fn remove_all(&self, object: u32) {
        for place in self.used() {
            let maps = |place: &Place| place.maps(object);
            if maps(place) && place.change(maps, |p| p.begin.store(0, Ordering::Relaxed)) {
                self.given.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// What holds an address.
    #[inline(always)]
    fn find(&self, address: usize) -> Option<Given> {
        if self.given.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.search(address)
    }

    #[inline(never)]
    fn search(&self, address: usize) -> Option<Given> {
        let found = self.used().iter().find_map(|place| place.holds(address));
        let unknown = || (self.without.load(Ordering::Relaxed) != 0).then_some(Given::NOT_KEPT);
        found.or_else(unknown)
    }
}

/// Regions that are known at a time.
const MOST: usize = 128;

static TABLE: Table<MOST> = Table::new();

/// Begins anew: the first call of a process, while no other is made. A forked child names objects
/// anew, and has the copy of a region, which no device knows.
pub fn begin() {
    TABLE.clear();
}

/// OpenCL gave this memory to the application.
pub fn add(begin: usize, bytes: usize, given: Given) {
    TABLE.add(begin, bytes, given);
}

/// The memory that begins there, of this object, is OpenCL's again.
pub fn remove(begin: usize, object: u32) {
    TABLE.remove(begin, object);
}

/// Whether any memory is given.
#[inline(always)]
pub fn any() -> bool {
    TABLE.given.load(Ordering::Relaxed) != 0
}

/// Whether a region of the object is mapped.
pub fn has(object: u32) -> bool {
    TABLE.has(object)
}

/// An object is no more, and whatever was mapped of it.
pub fn remove_all(object: u32) {
    TABLE.remove_all(object);
}

/// What memory an address lies in; `None` where OpenCL did not give it.
#[inline(always)]
pub fn find(address: usize) -> Option<Given> {
    TABLE.find(address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    fn mapped(object: u32) -> Given {
        Given { how: detail::MAPPED, object, flags: 16 }
    }

    #[test]
    fn a_region_holds_its_bytes_and_none_behind() {
        let table = Table::<4>::new();
        assert_eq!(table.find(100), None);
        table.add(100, 50, mapped(7));
        for (address, holds) in [(99, false), (100, true), (149, true), (150, false)] {
            assert_eq!(table.find(address), holds.then(|| mapped(7)), "{address}");
        }
        table.remove(100, 7);
        assert_eq!(table.find(100), None);
        assert_eq!(table.given.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn the_end_of_memory_and_what_is_nothing() {
        let table = Table::<4>::new();
        table.add(0, 50, mapped(7));
        table.add(100, 0, mapped(7));
        assert_eq!((table.find(0), table.find(100)), (None, None));
        table.add(usize::MAX - 9, 50, mapped(7));
        assert_eq!(table.find(usize::MAX - 1), Some(mapped(7)));
        assert_eq!(table.find(10), None, "no region goes on at the beginning of memory");
    }

    #[test]
    fn each_end_takes_one_mapping_away_and_the_longest_last() {
        let table = Table::<4>::new();
        table.add(100, 50, mapped(7));
        table.add(100, 20, mapped(7));
        table.add(110, 5, mapped(7));
        table.remove(100, 7);
        assert_eq!(table.find(149), Some(mapped(7)));
        table.remove(100, 7);
        assert_eq!(table.find(149), None);
        assert_eq!(table.find(112), Some(mapped(7)), "another begins elsewhere");
        table.remove(110, 7);
        assert_eq!(table.given.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn an_end_takes_the_region_of_its_object() {
        let table = Table::<4>::new();
        table.add(100, 50, mapped(7));
        table.add(100, 50, mapped(8));
        table.remove(100, 7);
        assert_eq!(table.find(120), Some(mapped(8)));
        table.remove(100, 7);
        table.remove(0, 8);
        assert_eq!(table.find(120), Some(mapped(8)), "ends of what was never seen");
    }

    #[test]
    fn an_object_that_is_no_more_takes_its_mappings_along() {
        let table = Table::<4>::new();
        table.add(100, 50, mapped(7));
        table.add(300, 50, mapped(7));
        table.add(500, 50, mapped(8));
        let shared = Given { how: detail::SVM, object: 0, flags: 1 };
        table.add(700, 50, shared);
        assert!(table.has(7) && table.has(8) && !table.has(9) && !table.has(0));
        table.remove_all(7);
        assert!(!table.has(7));
        let found = [100, 300, 500, 700].map(|address| table.find(address));
        assert_eq!(found, [None, None, Some(mapped(8)), Some(shared)]);
    }

    #[test]
    fn what_finds_no_place_makes_the_rest_unknown_until_it_ends() {
        let table = Table::<2>::new();
        for n in 1..=3 {
            table.add(n * 100, 50, mapped(n as u32));
        }
        assert_eq!(table.find(120), Some(mapped(1)));
        for address in [320, 5000] {
            assert_eq!(table.find(address), Some(Given::NOT_KEPT));
        }
        table.remove(300, 3);
        assert_eq!((table.find(320), table.find(5000)), (None, None));
        table.remove(100, 1);
        table.add(400, 50, mapped(4));
        assert_eq!(table.find(420), Some(mapped(4)), "in the place that is free again");
    }

    #[test]
    fn a_place_that_a_fork_left_in_the_middle_is_passed_over() {
        let table = Table::<2>::new();
        table.places[0].changes.store(1, Ordering::Relaxed);
        table.add(100, 50, mapped(7));
        assert_eq!(table.find(120), Some(mapped(7)));
        table.remove(100, 7);
        assert_eq!(table.find(120), None);
        table.add(100, 50, mapped(7));
        table.add(200, 50, mapped(7));
        table.clear();
        assert_eq!((table.find(120), table.find(5000), table.has(7)), (None, None, false));
        table.add(100, 50, mapped(7));
        table.add(200, 50, mapped(7));
        assert_eq!(table.find(220), Some(mapped(7)), "the place is of use again");
    }

    #[test]
    fn threads_never_see_a_region_with_the_facts_of_another() {
        let table = Table::<3>::new();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (table, done) = (&table, &done);
            let changing = (1..=2u32).map(|object| {
                scope.spawn(move || {
                    for _ in 0..20_000 {
                        let given = Given { flags: u64::from(object), ..mapped(object) };
                        table.add(1000 * object as usize, 500, given);
                        table.remove(1000 * object as usize, object);
                    }
                })
            });
            let changing: Vec<_> = changing.collect();
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    for object in 1..=2u32 {
                        if let Some(found) = table.find(1000 * object as usize + 100) {
                            assert_eq!((found.object, found.flags), (object, object.into()));
                        }
                    }
                }
            });
            for thread in changing {
                thread.join().unwrap();
            }
            done.store(true, Ordering::Relaxed);
        });
        assert_eq!(table.given.load(Ordering::Relaxed), 0);
        assert_eq!(table.find(1100), None);
    }
}
