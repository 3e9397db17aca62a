//! Commands in flight on one queue: a bounded queue that any thread appends to without a lock and
//! one harvester at a time takes from (D. Vyukov's bounded queue, with laps that start from zeroed
//! memory).

use std::alloc::{Layout, alloc_zeroed};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Commands that fit. Few, so that the ring stays in the cache; a longer queue overflows into the
/// harvester's backlog.
pub const CAPACITY: u64 = 1 << 12;

/// A command in flight.
pub struct Entry {
    /// Its event, which we hold a reference of.
    pub event: usize,
    /// Its id, and whether the event is ours alone: the application never saw it. In one word, so
    /// that two entries fill a cache line.
    of: u64,
    /// Method `callback`: when it was complete, 0 until then.
    pub completed: Option<Arc<AtomicU64>>,
}

impl Entry {
    /// Of a command with this id; `ours`: the application never saw the event.
    pub fn new(event: usize, command: u64, ours: bool, completed: Option<Arc<AtomicU64>>) -> Self {
        Self { event, of: (command << 1) | u64::from(ours), completed }
    }

    /// Its id.
    pub fn command(&self) -> u64 {
        self.of >> 1
    }

    /// Whether the event is ours alone.
    pub fn ours(&self) -> bool {
        self.of & 1 != 0
    }
}

#[repr(align(32))]
struct Cell {
    /// Twice the lap, plus one while the cell is full.
    turn: AtomicU64,
    entry: UnsafeCell<MaybeUninit<Entry>>,
}

/// See the module.
pub struct Pending {
    cells: AtomicPtr<Cell>,
    tail: AtomicU64,
    head: AtomicU64,
}

// SAFETY: a cell's entry is touched only by the thread whose turn it is, as `turn` hands it over.
unsafe impl Sync for Pending {}
// SAFETY: as above; entries hold plain values and an Arc of an atomic.
unsafe impl Send for Pending {}

impl Pending {
    /// Empty; memory is taken at the first command.
    pub fn new() -> Self {
        Self {
            cells: AtomicPtr::new(std::ptr::null_mut()),
            tail: AtomicU64::new(0),
            head: AtomicU64::new(0),
        }
    }

    /// Entries inside, roughly.
    pub fn len(&self) -> u64 {
        self.tail.load(Ordering::SeqCst).saturating_sub(self.head.load(Ordering::Relaxed))
    }

    fn cell(&self, index: u64) -> Option<&Cell> {
        let mut cells = self.cells.load(Ordering::Acquire);
        if cells.is_null() {
            let layout = Layout::array::<Cell>(CAPACITY as usize).ok()?;
            // SAFETY: a non-zero layout. Zeroed cells are empty cells of lap 0; the system gives
            // the pages when they are touched.
            let made = unsafe { alloc_zeroed(layout) }.cast::<Cell>();
            if made.is_null() {
                return None;
            }
            match self.cells.compare_exchange(
                std::ptr::null_mut(),
                made,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => cells = made,
                Err(theirs) => {
                    // SAFETY: made above with this layout, seen by nobody.
                    unsafe { std::alloc::dealloc(made.cast(), layout) };
                    cells = theirs;
                }
            }
        }
        // SAFETY: CAPACITY cells, never freed: queues live for ever.
        Some(unsafe { &*cells.add((index % CAPACITY) as usize) })
    }

    /// Address of the cell that the next entry goes to, for a hint.
    #[inline(always)]
    pub fn next_place(&self) -> *const i8 {
        let tail = self.tail.load(Ordering::Relaxed);
        self.cells
            .load(Ordering::Relaxed)
            .wrapping_add((tail % CAPACITY) as usize)
            .cast_const()
            .cast()
    }

    /// Appends; gives the entry back when the queue is full.
    pub fn push(&self, entry: Entry) -> Result<(), Entry> {
        let mut tail = self.tail.load(Ordering::Relaxed);
        loop {
            let Some(cell) = self.cell(tail) else { return Err(entry) };
            let (turn, empty) = (cell.turn.load(Ordering::Acquire), 2 * (tail / CAPACITY));
            if turn == empty {
                // As strict as the reaper's bell wants it: who goes to sleep sees it in `len`.
                match self.tail.compare_exchange_weak(
                    tail,
                    tail + 1,
                    Ordering::SeqCst,
                    Ordering::Relaxed,
                ) {
                    Ok(_) => {
                        // SAFETY: the cell is ours until `turn` says full.
                        unsafe { (*cell.entry.get()).write(entry) };
                        cell.turn.store(empty + 1, Ordering::Release);
                        return Ok(());
                    }
                    Err(now) => tail = now,
                }
            } else if turn < empty {
                return Err(entry);
            } else {
                tail = self.tail.load(Ordering::Relaxed);
            }
        }
    }

    /// Takes the oldest. Callers take turns: they hold the queue's backlog lock.
    pub fn pop(&self) -> Option<Entry> {
        let head = self.head.load(Ordering::Relaxed);
        if head == self.tail.load(Ordering::Acquire) {
            return None;
        }
        let cell = self.cell(head)?;
        let full = 2 * (head / CAPACITY) + 1;
        if cell.turn.load(Ordering::Acquire) != full {
            // Reserved by a thread that has not written it yet.
            return None;
        }
        // SAFETY: full, and only one thread pops at a time.
        let entry = unsafe { (*cell.entry.get()).assume_init_read() };
        cell.turn.store(full + 1, Ordering::Release);
        self.head.store(head + 1, Ordering::Relaxed);
        Some(entry)
    }
}
