//! Memory for what the recorder keeps, mapped before the first record: pieces of it are handed out
//! and taken back by atomic operations alone, without a system call and without a lock. A thread
//! that is left in the middle by a signal's handler loses one piece at most. Refuses large pieces,
//! and what goes beyond its size: those are the C library's.

use std::alloc::Layout;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// Bytes of the arena: address space, of which only what is used takes memory.
const SIZE: usize = 16 << 20;
/// Unit of places.
const UNIT: usize = 16;
/// Sizes of pieces: powers of two from [`UNIT`] on.
const CLASSES: usize = 13;

/// An arena. Places are counted in units, from 1 on; 0 is none.
pub struct Arena {
    /// NULL before it is mapped, and where it cannot be.
    memory: AtomicPtr<u8>,
    /// For each unit the place of the next free piece, where one begins there.
    next: AtomicPtr<AtomicU32>,
    /// Units handed out at least once.
    used: AtomicU32,
    /// For each size the first free piece, and above it how often it changed: what another thread
    /// took and gave back in between is not taken for unchanged.
    free: [AtomicU64; CLASSES],
}

/// The size that a piece has.
fn class(layout: Layout) -> Option<usize> {
    let size = layout.size().max(UNIT).checked_next_power_of_two()?;
    let class = (size / UNIT).trailing_zeros() as usize;
    (class < CLASSES && layout.align() <= UNIT).then_some(class)
}

impl Arena {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self {
            memory: AtomicPtr::new(std::ptr::null_mut()),
            next: AtomicPtr::new(std::ptr::null_mut()),
            used: AtomicU32::new(1),
            free: [const { AtomicU64::new(0) }; CLASSES],
        }
    }

    /// Maps it, unless it is. A process that is refused goes on without.
    pub fn begin(&self) {
        if !self.memory.load(Ordering::Acquire).is_null() {
            return;
        }
        let links = SIZE / UNIT * size_of::<AtomicU32>();
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new private mapping, which nobody knows.
        let at = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), SIZE + links, protection, flags, -1, 0)
        };
        if at == libc::MAP_FAILED {
            return;
        }
        let at = at.cast::<u8>();
        self.next.store(at.wrapping_add(SIZE).cast(), Ordering::Release);
        let none = std::ptr::null_mut();
        if self.memory.compare_exchange(none, at, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            // Two threads at once: only one process begins, so this does not happen twice.
            self.next.store(
                self.memory.load(Ordering::Acquire).wrapping_add(SIZE).cast(),
                Ordering::Release,
            );
        }
    }

    /// Whether a piece is of it.
    pub fn has(&self, at: *mut u8) -> bool {
        let memory = self.memory.load(Ordering::Acquire);
        !memory.is_null() && (at as usize).wrapping_sub(memory as usize) < SIZE
    }

    fn link(&self, place: u32) -> Option<&AtomicU32> {
        let links = self.next.load(Ordering::Acquire);
        // SAFETY: one for each unit, zeroed, mapped for good.
        (!links.is_null()).then(|| unsafe { &*links.add(place as usize) })
    }

    /// A piece; NULL where it has none. Pieces that were used before are not zero.
    pub fn take(&self, layout: Layout) -> *mut u8 {
        let none = std::ptr::null_mut();
        let memory = self.memory.load(Ordering::Acquire);
        let (Some(class), false) = (class(layout), memory.is_null()) else { return none };
        let Some(free) = self.free.get(class) else { return none };
        let mut head = free.load(Ordering::Acquire);
        loop {
            let place = head as u32;
            let Some(link) = self.link(place).filter(|_| place != 0) else { break };
            let next = (head >> 32).wrapping_add(1) << 32 | u64::from(link.load(Ordering::Relaxed));
            match free.compare_exchange_weak(head, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return memory.wrapping_add(place as usize * UNIT),
                Err(found) => head = found,
            }
        }
        let units = 1u32 << class;
        let most = (SIZE / UNIT) as u32;
        let taken = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(units).filter(|end| *end <= most)
        });
        taken.map_or(none, |place| memory.wrapping_add(place as usize * UNIT))
    }

    /// Takes a piece back that it [`has`](Self::has).
    pub fn give_back(&self, at: *mut u8, layout: Layout) {
        let memory = self.memory.load(Ordering::Acquire);
        let place = ((at as usize).wrapping_sub(memory as usize) / UNIT) as u32;
        let class = class(layout).and_then(|class| self.free.get(class));
        let (Some(free), Some(link)) = (class, self.link(place)) else { return };
        let mut head = free.load(Ordering::Relaxed);
        loop {
            link.store(head as u32, Ordering::Relaxed);
            let new = (head >> 32).wrapping_add(1) << 32 | u64::from(place);
            match free.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(found) => head = found,
            }
        }
    }

    /// Whether a piece of one layout is one of the other, too.
    pub fn same(old: Layout, new: Layout) -> bool {
        class(old).is_some() && class(old) == class(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size, 8).unwrap()
    }

    #[test]
    fn pieces_do_not_overlap_come_back_and_end() {
        let arena = Arena::new();
        assert!(arena.take(layout(8)).is_null(), "not mapped yet");
        arena.begin();
        let first = arena.take(layout(100));
        let second = arena.take(layout(100));
        assert!(arena.has(first) && second as usize - first as usize >= 128);
        arena.give_back(first, layout(100));
        assert_eq!(arena.take(layout(65)), first, "of the same size");
        assert!(arena.take(layout(UNIT << CLASSES)).is_null(), "too large");
        assert!(arena.take(Layout::from_size_align(8, 64).unwrap()).is_null());
        let all = (0..).take_while(|_| !arena.take(layout(60_000)).is_null()).count();
        assert_eq!(all, SIZE / (1 << 16) - 1);
        assert!(!arena.has(std::ptr::null_mut()) && !Arena::new().has(first));
        assert!(Arena::same(layout(65), layout(128)) && !Arena::same(layout(65), layout(129)));
    }

    #[test]
    fn threads_never_have_the_same_piece() {
        let arena = Arena::new();
        arena.begin();
        std::thread::scope(|scope| {
            for thread in 1..5u64 {
                let arena = &arena;
                scope.spawn(move || {
                    for turn in 0..20_000usize {
                        let size = layout(8 + turn % 200);
                        let at = arena.take(size).cast::<u64>();
                        // SAFETY: a piece of this thread's.
                        unsafe {
                            at.write(thread);
                            std::hint::spin_loop();
                            assert_eq!(at.read(), thread);
                        }
                        arena.give_back(at.cast(), size);
                    }
                });
            }
        });
        assert!(arena.used.load(Ordering::Relaxed) < 4 * 5 * 16, "pieces are used again");
    }
}
