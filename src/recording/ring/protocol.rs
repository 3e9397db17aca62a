//! The words of a ring's header, and the order in which they are written so that whoever reads the
//! ring of a running or killed process sees whole records and knows whose they are. Every store
//! that readers depend on is in here; loom runs these functions against a reader.
//!
//! A ring belongs to one thread at a time. What a reader may rely on: a record below the published
//! position is whole; records of two blocks never pass for one, if the reader asks for the position
//! again after copying; and a block that left the ring is in a segment before it is overwritten.

use crate::os::locks::sync::{AtomicU64, Ordering, fence};
use clscope_trace::record::Run;
use clscope_trace::ring_file::{RING_MAGIC, attendance, ring};

/// A word of a ring's header.
///
/// # Safety
/// `header` points to a ring header or scratch memory of the same size, which is never unmapped
/// while its thread runs; `at` is an offset of `ring_file::ring`.
#[inline(always)]
pub unsafe fn cell<'a>(header: *mut u8, at: usize) -> &'a AtomicU64 {
    // SAFETY: in bounds and aligned by the caller's contract. Offsets are in bytes of a file.
    unsafe { &*header.cast::<AtomicU64>().add(at / 8) }
}

/// Sequence number of a block, and how many bytes of it are published.
#[inline(always)]
pub const fn parts(position: u64) -> (u64, usize) {
    (position >> 32, (position & 0xffff_ffff) as usize)
}

/// Makes so many bytes of records more visible, whatever kills the process next.
///
/// # Safety
/// As [`cell`]; the calling thread's own ring, whose records were written before.
#[inline(always)]
pub unsafe fn published(header: *mut u8, bytes: u64) {
    // SAFETY: the caller's promise.
    let position = unsafe { cell(header, ring::POSITION) };
    // One instruction where the processor adds to memory.
    position.store(position.load(Ordering::Relaxed) + bytes, Ordering::Release);
}

/// Sequence number of the block that the calling thread fills, and how many bytes it published, in
/// the form that the header has.
///
/// # Safety
/// As [`cell`]; the calling thread's own ring.
pub unsafe fn position(header: *mut u8) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { cell(header, ring::POSITION) }.load(Ordering::Relaxed)
}

/// Adds a call to the run that is a ring's last record: `span` ticks after the end of its first
/// call. Whether its numbers hold it.
///
/// # Safety
/// `run` points to the words of a published run, which the calling thread alone writes.
#[inline(always)]
pub unsafe fn add_to_run(run: *mut u64, span: u32, duration: u32) -> bool {
    // SAFETY: the caller's promise: places of a run.
    let word = |at: usize| unsafe { &*run.cast::<AtomicU64>().add(at) };
    let counted = word(Run::COUNT).load(Ordering::Relaxed);
    let before = Run::state(counted as u32);
    let sums = word(before).load(Ordering::Relaxed);
    let total = (sums & 0xffff_ffff) + u64::from(duration);
    if total >> 32 != 0 {
        return false;
    }
    let extremes = word(before + 1).load(Ordering::Relaxed);
    let (shortest, longest) = (extremes as u32, (extremes >> 32) as u32);
    let (shortest, longest) = (shortest.min(duration), longest.max(duration));
    let extremes = u64::from(shortest) | u64::from(longest) << 32;
    // SAFETY: the caller's promise.
    unsafe { grow_run(run, counted, [total | u64::from(span) << 32, extremes]) };
    true
}

/// Gives a run its next state and then one call more than the word `counted` says.
///
/// # Safety
/// As [`add_to_run`].
#[inline(always)]
unsafe fn grow_run(run: *mut u64, counted: u64, state: [u64; 2]) {
    // SAFETY: the caller's promise: places of a run.
    let word = |at: usize| unsafe { &*run.cast::<AtomicU64>().add(at) };
    let next = Run::state(counted as u32 + 1);
    // A reader that sees what is stored here sees the count that is there now, or asks again.
    overwriting();
    word(next).store(state[0], Ordering::Relaxed);
    word(next + 1).store(state[1], Ordering::Relaxed);
    word(Run::COUNT).store(counted + 1, Ordering::Release);
}

/// Number of the thread that has the ring.
///
/// # Safety
/// As [`cell`]; a ring that a thread has.
pub unsafe fn owner(header: *mut u8) -> u32 {
    // SAFETY: the caller's promise. The upper half counts what failed.
    let word = unsafe { cell(header, ring::THREAD) }.load(Ordering::Relaxed);
    (word as u32).wrapping_sub(1)
}

/// A block up to this sequence number is in a segment.
///
/// # Safety
/// As [`cell`].
pub unsafe fn drained(header: *mut u8, sequence: u64) {
    // SAFETY: the caller's promise.
    unsafe { cell(header, ring::DRAINED) }.store(sequence + 1, Ordering::Release);
}

/// Gives the block that the calling thread fills, and in which nothing is published yet, another
/// base.
///
/// # Safety
/// As [`cell`]; the calling thread's own ring.
pub unsafe fn rebase(header: *mut u8, base: u64) {
    // SAFETY: the caller's promise.
    unsafe { cell(header, ring::BASE) }.store(base, Ordering::Relaxed);
    overwriting();
}

/// Begins the next block in the same memory. Gives its position.
///
/// # Safety
/// As [`cell`]; the calling thread's own ring.
pub unsafe fn next_block(header: *mut u8, position: u64, base: u64) -> u64 {
    let next = (parts(position).0 + 1) << 32;
    // SAFETY: the caller's promise. The base is stored first: records of the new block refer to it.
    unsafe {
        cell(header, ring::BASE).store(base, Ordering::Relaxed);
        cell(header, ring::POSITION).store(next, Ordering::Release);
    }
    overwriting();
    next
}

/// What the header of a region says when a thread begins to fill it.
#[derive(Debug, Clone, Copy)]
pub struct Beginning {
    pub thread: u32,
    pub sequence: u64,
    pub base: u64,
    /// Of the region, in bytes.
    pub size: usize,
    /// The call in progress, and when it began.
    pub call: u64,
    pub call_begin: u64,
}

/// Takes a region.
///
/// # Safety
/// As [`cell`]; nobody else writes to the region.
pub unsafe fn begin(header: *mut u8, new: &Beginning) {
    // SAFETY: the caller's promise. The thread is stored last, so that a reader never takes a
    // half-made header for a ring in use.
    unsafe {
        cell(header, ring::BASE).store(new.base, Ordering::Relaxed);
        cell(header, ring::POSITION).store(new.sequence << 32, Ordering::Relaxed);
        cell(header, ring::DRAINED).store(new.sequence, Ordering::Relaxed);
        cell(header, ring::DROPPED).store(0, Ordering::Relaxed);
        cell(header, ring::CALL).store(new.call, Ordering::Relaxed);
        cell(header, ring::CALL_BEGIN).store(new.call_begin, Ordering::Relaxed);
        cell(header, ring::MAGIC)
            .store(u64::from(RING_MAGIC) | ((new.size as u64) << 32), Ordering::Relaxed);
        cell(header, ring::THREAD).store(u64::from(new.thread) + 1, Ordering::Release);
    }
    overwriting();
}

/// Leaves a region to the process that writes the segments.
///
/// # Safety
/// As [`cell`]; the calling thread's own region, which it does not use any more.
pub unsafe fn leave(header: *mut u8) {
    // SAFETY: the caller's promise: nobody else writes this word.
    let word = unsafe { cell(header, ring::THREAD) };
    let left = u64::from(attendance::LEFT);
    word.store(word.load(Ordering::Relaxed) | left, Ordering::Release);
}

/// Whether nobody has the region.
///
/// # Safety
/// As [`cell`].
pub unsafe fn is_free(header: *mut u8) -> bool {
    // SAFETY: the caller's promise.
    unsafe { cell(header, ring::THREAD) }.load(Ordering::Acquire) as u32 == 0
}

/// Says how many of the drops that the header counts are for want of room in the trace.
///
/// # Safety
/// As [`cell`]; the calling thread's own ring.
pub unsafe fn tell_failed(header: *mut u8, failed: u64) {
    // The upper half of the word that begins with the thread's number.
    const _: () = assert!(ring::FAILED == ring::THREAD + 4);
    let told = failed.saturating_add(1).min(u64::from(u32::MAX)) << 32;
    // SAFETY: the caller's promise: nobody else writes this word.
    unsafe {
        let word = cell(header, ring::THREAD);
        let thread = word.load(Ordering::Relaxed) & u64::from(u32::MAX);
        word.store(told | thread, Ordering::Release);
    }
}

/// Marks a region free for the next thread.
///
/// # Safety
/// As [`cell`]; its thread has left it.
pub unsafe fn free(header: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe { cell(header, ring::THREAD) }.store(0, Ordering::Release);
}

/// What comes overwrites what readers of a running process may be reading: they must see first that
/// it does not hold any more.
#[inline(always)]
fn overwriting() {
    fence(Ordering::Release);
}

#[cfg(all(test, feature = "loom"))]
mod loom_tests {
    //! The functions above on one side; on the other a reader that does what the readers of rings
    //! do (`live_ring` of the analysis), and that can be told to leave out one of its precautions:
    //! then loom must find the fault, or these tests would see nothing.
    //!
    //! What holds: a reader sees every record whose call had returned before it began, once or more
    //! often but never changed, and records of two blocks never pass for one.

    use super::*;
    use crate::os::locks::sync::Mutex;
    use clscope_trace::ring_file::RING_HEADER_LEN;
    use loom::sync::Arc;
    use loom::thread;

    const HEADER: usize = RING_HEADER_LEN / 8;
    /// Records of a block; a record is one word: its number.
    const RECORDS: usize = 2;

    /// A region of the ring file.
    struct Region(Box<[AtomicU64]>);

    impl Region {
        fn new() -> Self {
            Self((0..HEADER + RECORDS).map(|_| AtomicU64::new(0)).collect())
        }
        fn header(&self) -> *mut u8 {
            self.0.as_ptr().cast_mut().cast()
        }
        fn word(&self, at: usize) -> &AtomicU64 {
            &self.0[HEADER + at]
        }
        fn load(&self, at: usize, order: Ordering) -> u64 {
            // SAFETY: a header of that size.
            unsafe { cell(self.header(), at) }.load(order)
        }
        /// Takes the region for the one thread of these tests.
        fn begin(&self, sequence: u64) {
            let new =
                Beginning { thread: 0, sequence, base: 0, size: 4096, call: 0, call_begin: 0 };
            // SAFETY: written by this thread only.
            unsafe { begin(self.header(), &new) };
        }
        /// Writes a record behind `used` others and publishes it.
        fn record(&self, used: usize, number: u64) {
            self.word(used).store(number, Ordering::Relaxed);
            // SAFETY: as above.
            unsafe { published(self.header(), 8) };
        }
    }

    #[derive(Clone, Copy)]
    struct Care {
        /// The reader asks for position and thread again.
        again: bool,
        /// The reader takes the rings before the segment.
        ring_first: bool,
    }

    const ALL: Care = Care { again: true, ring_first: true };

    /// Blocks by sequence number: the kernel's locks order writes and reads of a file.
    type Segment = Mutex<Vec<(u64, Vec<u64>)>>;

    /// What a reader takes from a region: `None` where it moved on meanwhile, else the sequence
    /// number and the records, if it is in use.
    fn copy(region: &Region, care: Care) -> Option<Option<(u64, Vec<u64>)>> {
        let position = region.load(ring::POSITION, Ordering::Acquire);
        let owner = region.load(ring::THREAD, Ordering::Acquire);
        let (sequence, used) = parts(position);
        let words = (0..used / 8).map(|at| region.word(at).load(Ordering::Relaxed)).collect();
        fence(Ordering::Acquire);
        let same = parts(region.load(ring::POSITION, Ordering::Relaxed)).0 == sequence
            && region.load(ring::THREAD, Ordering::Relaxed) == owner;
        (!care.again || same).then_some((owner != 0).then_some((sequence, words)))
    }

    /// Reads the trace of a running process, and checks it. `each`: records of a whole block.
    fn read(regions: &[Region], segment: &Segment, returned: &AtomicU64, each: u64, care: Care) {
        let returned = returned.load(Ordering::Acquire);
        let early = if care.ring_first { None } else { Some(segment.lock().clone()) };
        let live: Vec<_> = regions.iter().map(|region| copy(region, care)).collect();
        let mut blocks = early.unwrap_or_else(|| segment.lock().clone());
        // A region that moved on is copied again; this reader, which tries once, knows nothing of
        // it.
        let knows_all = live.iter().all(Option::is_some);
        blocks.extend(live.into_iter().flatten().flatten());
        let mut seen = Vec::new();
        for (sequence, words) in blocks {
            let first = sequence * each + 1;
            let expected: Vec<u64> = (first..first + words.len() as u64).collect();
            assert_eq!(words, expected, "records of block {sequence}");
            seen.extend(words);
        }
        for record in 1..=if knows_all { returned } else { 0 } {
            assert!(seen.contains(&record), "record {record} of {returned} is missing: {seen:?}");
        }
    }

    /// A thread that writes its ring itself: a block and a half.
    fn fill(region: &Region, segment: &Segment, returned: &AtomicU64) {
        let (mut sequence, mut used) = (0, 0);
        for number in 1..=3 {
            if used == RECORDS {
                let block = (0..used).map(|at| region.word(at).load(Ordering::Relaxed)).collect();
                segment.lock().push((sequence, block));
                // SAFETY: this thread's own ring.
                unsafe {
                    drained(region.header(), sequence);
                    sequence = parts(next_block(region.header(), sequence << 32 | 16, 0)).0;
                }
                used = 0;
            }
            region.record(used, number);
            used += 1;
            returned.store(number, Ordering::Release);
        }
    }

    fn check(care: Care) {
        loom::model(move || {
            let shared = Arc::new(([Region::new()], Segment::new(Vec::new()), AtomicU64::new(0)));
            shared.0[0].begin(0);
            let writer = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || fill(&shared.0[0], &shared.1, &shared.2))
            };
            read(&shared.0, &shared.1, &shared.2, RECORDS as u64, care);
            writer.join().unwrap();
            assert_eq!(shared.0[0].load(ring::DRAINED, Ordering::Relaxed), 1);
        });
    }

    #[test]
    fn readers_see_all_that_had_returned_and_nothing_mixed() {
        check(ALL);
    }

    #[test]
    #[should_panic(expected = "records of block")]
    fn without_asking_again_blocks_mix() {
        check(Care { again: false, ..ALL });
    }

    #[test]
    #[should_panic(expected = "is missing")]
    fn with_the_segment_first_a_block_is_missed() {
        check(Care { ring_first: false, ..ALL });
    }

    /// A full ring left to the thread that writes it: its thread goes on in another region, and
    /// comes back to the first once it is free. A block is one record.
    struct HandOver {
        regions: [Region; 2],
        full: Mutex<Vec<(usize, u64)>>,
        unused: Mutex<Vec<usize>>,
        segment: Segment,
        returned: AtomicU64,
    }

    fn hand_over(shared: &HandOver) {
        let mut at = 0;
        for sequence in 0..3 {
            if sequence > 0 {
                let Some(next) = shared.unused.lock().pop() else { return };
                shared.regions[next].begin(sequence);
                shared.full.lock().push((at, sequence - 1));
                at = next;
            }
            shared.regions[at].record(0, sequence + 1);
            shared.returned.store(sequence + 1, Ordering::Release);
        }
    }

    fn write_full(shared: &HandOver) {
        for _ in 0..2 {
            let Some((at, sequence)) = shared.full.lock().pop() else { return };
            let region = &shared.regions[at];
            let block = vec![region.word(0).load(Ordering::Relaxed)];
            shared.segment.lock().push((sequence, block));
            // SAFETY: its thread has left the region.
            unsafe {
                drained(region.header(), sequence);
                free(region.header());
            }
            shared.unused.lock().push(at);
        }
    }

    /// `preemptions`: how often a thread is interrupted where it need not be, at most. Two are many
    /// states, and three too many where none fails.
    fn check_hand_over(care: Care, preemptions: usize) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(preemptions);
        model.check(move || {
            let shared = Arc::new(HandOver {
                regions: [Region::new(), Region::new()],
                full: Mutex::new(Vec::new()),
                unused: Mutex::new(vec![1]),
                segment: Segment::new(Vec::new()),
                returned: AtomicU64::new(0),
            });
            shared.regions[0].begin(0);
            let run = |job: fn(&HandOver)| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || job(&shared))
            };
            let threads = [run(hand_over), run(write_full)];
            read(&shared.regions, &shared.segment, &shared.returned, 1, care);
            for thread in threads {
                thread.join().unwrap();
            }
        });
    }

    #[test]
    fn full_rings_left_behind_are_seen_until_they_are_written() {
        check_hand_over(ALL, 2);
    }

    #[test]
    #[should_panic(expected = "records of block")]
    fn without_asking_again_a_region_taken_over_mixes() {
        check_hand_over(Care { again: false, ..ALL }, 3);
    }

    #[test]
    #[should_panic(expected = "is missing")]
    fn with_the_segment_first_a_full_ring_is_missed() {
        check_hand_over(Care { ring_first: false, ..ALL }, 2);
    }

    /// Calls that a run grows by: with two, the second overwrites what a reader of the first reads.
    const CALLS: u32 = 2;

    /// A run whose every call takes two ticks. The writer has no need to read what it wrote: loom
    /// takes the last access to a word for the only one that matters.
    fn check_run(again: bool) {
        let of = |count: u32| Run {
            function: 1,
            small: 0,
            id: 0,
            count,
            first: 2,
            span: count - 1,
            total: 2 * count,
            shortest: 2,
            longest: 2,
        };
        loom::model(move || {
            let words = clscope_trace::record::run(&of(1), 0).into_iter();
            let run: Arc<Vec<AtomicU64>> = Arc::new(words.map(AtomicU64::new).collect());
            let writer = {
                let run = Arc::clone(&run);
                thread::spawn(move || {
                    let at = run.as_ptr().cast_mut().cast();
                    for count in 1..=CALLS {
                        let state = of(count + 1).state_words();
                        // SAFETY: a run that this thread alone writes.
                        unsafe { grow_run(at, u64::from(count) | 2 << 32, state) };
                    }
                })
            };
            let counted = run[Run::COUNT].load(Ordering::Acquire);
            let at = Run::state(counted as u32);
            let state = [at, at + 1].map(|at| run[at].load(Ordering::Relaxed));
            fence(Ordering::Acquire);
            let same = run[Run::COUNT].load(Ordering::Relaxed) == counted;
            if same || !again {
                assert_eq!(state, of(counted as u32).state_words(), "{} calls", counted as u32);
                assert_eq!(counted >> 32, 2, "the first stays");
            }
            writer.join().unwrap();
            assert_eq!(run[Run::COUNT].load(Ordering::Relaxed) as u32, 1 + CALLS);
        });
    }

    #[test]
    fn a_run_that_grows_is_seen_with_the_state_of_its_count() {
        check_run(true);
    }

    #[test]
    #[should_panic(expected = "calls")]
    fn without_asking_for_the_count_again_a_run_mixes_its_states() {
        check_run(false);
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;
    use clscope_trace::record::{self, Record};
    use clscope_trace::stream::Block;

    #[test]
    fn a_run_keeps_count_total_extremes_and_span() {
        let first = Run {
            function: 1,
            small: 2,
            id: 3,
            count: 1,
            first: 20,
            span: 0,
            total: 20,
            shortest: 20,
            longest: 20,
        };
        let mut words = record::run(&first, 5);
        for (span, duration) in [(30, 10), (100, 40), (110, 5)] {
            // SAFETY: the words of a run that nobody else has.
            assert!(unsafe { add_to_run(words.as_mut_ptr(), span, duration) });
        }
        // SAFETY: as above.
        let full = unsafe { add_to_run(words.as_mut_ptr(), 200, u32::MAX - 74) };
        assert!(!full, "a total of more than 32 bits is refused");
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let block = Block { thread: 0, sequence: 0, base: 0, payload: &bytes };
        let run = Run { count: 4, span: 110, total: 75, shortest: 5, longest: 40, ..first };
        assert_eq!(block.records().collect::<Vec<_>>(), [(115, Record::Run(run))]);
    }
}
