//! Commands in flight on one queue: a bounded queue that any thread appends to without a lock and
//! one harvester at a time takes from (D. Vyukov's bounded queue, with laps that start from zeroed
//! memory).

use crate::abi::entry::H;
use std::alloc::{Layout, alloc_zeroed};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Commands that fit. Few, so that the ring stays in the cache; a longer queue overflows into the
/// harvester's backlog.
pub const CAPACITY: u64 = 1 << 12;
/// Cells that are made at once, when the first of them is used: an application may make a queue for
/// each of its commands, and the memory of a queue's is never given back.
const TOGETHER: u64 = 1 << 6;
const PIECES: usize = (CAPACITY / TOGETHER) as usize;

/// In an entry's word: its stamps were missed.
const MISSED: u64 = 2;

/// A command in flight.
pub struct Entry {
    /// Its event, which the recorder holds a reference of while the entry lives.
    event: usize,
    /// Its id, whether its stamps were missed, and whether the event is ours alone: the application
    /// never saw it. In one word, so that two entries fill a cache line.
    of: u64,
    /// Method `callback`: when it was complete, 0 until then.
    pub completed: Option<Arc<AtomicU64>>,
}

impl Entry {
    /// Of a command with this id; `ours`: the application never saw the event.
    ///
    /// # Safety
    /// The recorder holds a reference of the event until the entry is released.
    pub unsafe fn new(
        event: H,
        command: u64,
        ours: bool,
        completed: Option<Arc<AtomicU64>>,
    ) -> Self {
        Self { event: event.word(), of: (command << 2) | u64::from(ours), completed }
    }

    /// Its event.
    #[inline(always)]
    pub fn event(&self) -> H {
        // SAFETY: of the event that `new` was given, which is held.
        unsafe { H::from_word(self.event) }
    }

    /// Its id.
    pub fn command(&self) -> u64 {
        self.of >> 2
    }

    /// It is complete, and its stamps are not all there: whether that was so before.
    pub fn missed(&mut self) -> bool {
        let before = self.of & MISSED != 0;
        self.of |= MISSED;
        before
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
    pieces: [AtomicPtr<Cell>; PIECES],
    tail: AtomicU64,
    head: AtomicU64,
}

// SAFETY: a cell's entry is touched only by the thread whose turn it is, as `turn` hands it over.
unsafe impl Sync for Pending {}
// SAFETY: as above; entries hold plain values and an Arc of an atomic.
unsafe impl Send for Pending {}

/// Cells of a piece that has none yet.
#[cold]
#[inline(never)]
fn made(piece: &AtomicPtr<Cell>) -> Option<*mut Cell> {
    let layout = Layout::array::<Cell>(TOGETHER as usize).ok()?;
    // SAFETY: a non-zero layout. Zeroed cells are empty cells of lap 0.
    let made = unsafe { alloc_zeroed(layout) }.cast::<Cell>();
    if made.is_null() {
        return None;
    }
    let (none, to, from) = (std::ptr::null_mut(), Ordering::AcqRel, Ordering::Acquire);
    Some(match piece.compare_exchange(none, made, to, from) {
        Ok(_) => made,
        Err(theirs) => {
            // SAFETY: made above with this layout, seen by nobody.
            unsafe { std::alloc::dealloc(made.cast(), layout) };
            theirs
        }
    })
}

impl Pending {
    /// Empty; memory is taken as commands come.
    pub fn new() -> Self {
        Self {
            pieces: [const { AtomicPtr::new(std::ptr::null_mut()) }; PIECES],
            tail: AtomicU64::new(0),
            head: AtomicU64::new(0),
        }
    }

    /// Entries inside, roughly.
    pub fn len(&self) -> u64 {
        self.tail.load(Ordering::SeqCst).saturating_sub(self.head.load(Ordering::Relaxed))
    }

    #[inline(always)]
    fn piece(&self, index: u64) -> Option<&AtomicPtr<Cell>> {
        self.pieces.get((index % CAPACITY / TOGETHER) as usize)
    }

    #[inline(always)]
    fn cell(&self, index: u64) -> Option<&Cell> {
        let piece = self.piece(index)?;
        let mut cells = piece.load(Ordering::Acquire);
        if cells.is_null() {
            cells = made(piece)?;
        }
        // SAFETY: so many cells, never freed: queues live for ever.
        Some(unsafe { &*cells.add((index % TOGETHER) as usize) })
    }

    /// Address of the cell that the next entry goes to, for a hint.
    #[inline(always)]
    pub fn next_place(&self) -> *const i8 {
        let tail = self.tail.load(Ordering::Relaxed);
        let cells = self.piece(tail).map_or(std::ptr::null_mut(), |p| p.load(Ordering::Relaxed));
        cells.wrapping_add((tail % TOGETHER) as usize).cast_const().cast()
    }

    /// Appends; gives the entry back when the queue is full. A handler's jump between its two steps
    /// leaves a place that nobody fills: the queue is full then as soon as it comes round, and the
    /// backlog takes what follows.
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
        let mut head = self.head.load(Ordering::Relaxed);
        let (cell, full) = loop {
            if head == self.tail.load(Ordering::Acquire) {
                return None;
            }
            let cell = self.cell(head)?;
            let (turn, full) = (cell.turn.load(Ordering::Acquire), 2 * (head / CAPACITY) + 1);
            if turn == full {
                break (cell, full);
            }
            if turn < full {
                // Reserved by a thread that has not written it yet.
                return None;
            }
            // Taken by a thread that a handler's jump has led away just afterwards.
            head += 1;
            self.head.store(head, Ordering::Relaxed);
        };
        // SAFETY: full, and only one thread pops at a time.
        let entry = unsafe { (*cell.entry.get()).assume_init_read() };
        cell.turn.store(full + 1, Ordering::Release);
        self.head.store(head + 1, Ordering::Relaxed);
        Some(entry)
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    //! Every entry comes out once, those of one thread in their order, and nothing is lost when the
    //! queue is full or wraps. `tools/bench/checks.sh` runs these under Miri too, which sees data
    //! races and orders that this machine does not make; loads are smaller there.

    use super::*;

    const PRODUCERS: u64 = 3;
    const EACH: u64 = if cfg!(miri) { 60 } else { 200_000 };

    fn entry(command: u64) -> Entry {
        // Memory of the entry's own: seen by the wrong thread, too early or twice, it would tell.
        // SAFETY: no runtime is asked about it.
        unsafe {
            let event = H::from_word(command as usize);
            Entry::new(event, command, true, Some(Arc::new(AtomicU64::new(command))))
        }
    }

    fn take(entry: Entry) -> u64 {
        let (command, event) = (entry.command(), entry.event());
        let own = entry.completed.expect("every entry has its memory");
        assert_eq!(Arc::strong_count(&own), 1, "an entry came out twice");
        assert_eq!((own.load(Ordering::Relaxed), event.word() as u64), (command, command));
        command
    }

    #[test]
    fn entries_come_out_once_and_in_their_threads_order() {
        let queue = Pending::new();
        // Beyond the first lap, so that cells are used again.
        let ahead = CAPACITY - if cfg!(miri) { 30 } else { 1_000 };
        for i in 0..ahead {
            assert!(queue.push(entry(i)).is_ok());
            assert_eq!(queue.pop().map(take), Some(i));
        }
        let running = AtomicU64::new(PRODUCERS);
        let mut next = [0u64; PRODUCERS as usize];
        // Producers give up once this thread has failed and takes no more: the scope waits for
        // them.
        let taking = Arc::new(());
        let taken = Arc::downgrade(&taking);
        std::thread::scope(|scope| {
            let _taking = taking;
            for producer in 0..PRODUCERS {
                let (queue, running, taken) = (&queue, &running, &taken);
                scope.spawn(move || {
                    for i in 0..EACH {
                        let mut mine = entry(producer << 32 | i);
                        // Full: the recorder would harvest; here the other thread does.
                        while let Err(back) = queue.push(mine) {
                            mine = back;
                            if taken.strong_count() == 0 {
                                return;
                            }
                            std::thread::yield_now();
                        }
                    }
                    running.fetch_sub(1, Ordering::Release);
                });
            }
            loop {
                let done = running.load(Ordering::Acquire) == 0;
                let mut any = false;
                while let Some(command) = queue.pop().map(take) {
                    any = true;
                    let (producer, i) = ((command >> 32) as usize, command & 0xffff_ffff);
                    assert_eq!(i, next[producer], "thread {producer}'s entries out of order");
                    next[producer] += 1;
                }
                if done && !any {
                    break;
                }
                std::thread::yield_now();
            }
        });
        assert_eq!(next, [EACH; PRODUCERS as usize]);
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn a_full_queue_gives_entries_back_and_goes_on() {
        let queue = Pending::new();
        let room = CAPACITY;
        for lap in 0..if cfg!(miri) { 1 } else { 3u64 } {
            for i in 0..room {
                assert!(queue.push(entry(lap << 32 | i)).is_ok());
            }
            let back = queue.push(entry(7)).expect_err("a full queue refuses");
            assert_eq!(take(back), 7);
            for i in 0..room {
                assert_eq!(queue.pop().map(take), Some(lap << 32 | i));
            }
            assert!(queue.pop().is_none());
        }
    }
}
