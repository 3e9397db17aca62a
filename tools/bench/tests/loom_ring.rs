//! The protocol between the thread that fills a ring, the segment it drains it to, and whoever
//! reads the trace while it runs, in every order of memory and of threads that the language allows
//! (loom). A model: the recorder's rings are mapped files, which loom cannot watch; the stores
//! stand in the order, and with the orderings, of `src/recording/guard.rs` (`publish`) and `src/recording/ring.rs`
//! (`drain`), the reads in those of `tools/cli/src/live_ring.rs` and `trace_files.rs`. The last
//! tests show that the model notices what it is there for: without either of its precautions it
//! fails.
//!
//! What holds: a reader sees every record whose call had returned before it began, once or more
//! often but never changed, and records of two fillings never pass for one.

use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::sync::{Arc, Mutex};
use loom::thread;

/// Words of a ring; a record is one word: its number.
const WORDS: usize = 2;
/// Records written: a filling and a half.
const RECORDS: u64 = 3;

struct Ring {
    words: [AtomicU64; WORDS],
    /// Sequence number and published words.
    position: AtomicU64,
    /// First sequence number that is not in the segment.
    drained: AtomicU64,
    /// Blocks: the kernel's locks order writes and reads of a file.
    segment: Mutex<Vec<(u64, Vec<u64>)>>,
    /// Records whose calls have returned, as another thread of the application could tell.
    returned: AtomicU64,
}

#[derive(Clone, Copy)]
struct Care {
    /// The writer's fence between the new sequence number and the records that overwrite the old
    /// ones.
    fence: bool,
    /// The reader asks for the sequence number again.
    again: bool,
    /// The reader takes the ring before the segment.
    ring_first: bool,
}

const ALL: Care = Care { fence: true, again: true, ring_first: true };

fn write(ring: &Ring, care: Care) {
    let (mut sequence, mut used) = (0u64, 0usize);
    for record in 1..=RECORDS {
        if used == WORDS {
            let block = ring.words.iter().map(|w| w.load(Ordering::Relaxed)).collect();
            ring.segment.lock().unwrap().push((sequence, block));
            ring.drained.store(sequence + 1, Ordering::Release);
            (sequence, used) = (sequence + 1, 0);
            ring.position.store(sequence << 32, Ordering::Release);
            if care.fence {
                fence(Ordering::Release);
            }
        }
        ring.words[used].store(record, Ordering::Relaxed);
        used += 1;
        ring.position.store(sequence << 32 | used as u64, Ordering::Release);
        ring.returned.store(record, Ordering::Release);
    }
}

/// What a reader takes from the ring: the sequence number and the records, if they are of one
/// filling.
fn copy(ring: &Ring, care: Care) -> Option<(u64, Vec<u64>)> {
    let position = ring.position.load(Ordering::Acquire);
    let used = (position & 0xffff_ffff) as usize;
    let records = ring.words[..used].iter().map(|w| w.load(Ordering::Relaxed)).collect();
    fence(Ordering::Acquire);
    let now = ring.position.load(Ordering::Relaxed);
    (!care.again || now >> 32 == position >> 32).then_some((position >> 32, records))
}

fn read(ring: &Ring, care: Care) {
    let returned = ring.returned.load(Ordering::Acquire);
    let segment = || ring.segment.lock().unwrap().clone();
    let (live, blocks) = if care.ring_first {
        let live = copy(ring, care);
        (live, segment())
    } else {
        let blocks = segment();
        (copy(ring, care), blocks)
    };
    // A filling that moved on is copied again; this reader, which tries once, knows that it knows
    // nothing.
    let Some((sequence, live)) = live else { return };
    let mut seen: Vec<u64> = Vec::new();
    for (number, block) in &blocks {
        let first = number * WORDS as u64 + 1;
        assert_eq!(
            *block,
            (first..first + WORDS as u64).collect::<Vec<_>>(),
            "a block of the segment"
        );
        seen.extend(block);
    }
    let first = sequence * WORDS as u64 + 1;
    assert_eq!(
        live,
        (first..first + live.len() as u64).collect::<Vec<_>>(),
        "records of filling {sequence}"
    );
    seen.extend(live);
    for record in 1..=returned {
        assert!(seen.contains(&record), "record {record} of {returned} is missing: {seen:?}");
    }
}

fn check(care: Care) {
    loom::model(move || {
        let ring = Arc::new(Ring {
            words: std::array::from_fn(|_| AtomicU64::new(0)),
            position: AtomicU64::new(0),
            drained: AtomicU64::new(0),
            segment: Mutex::new(Vec::new()),
            returned: AtomicU64::new(0),
        });
        let writer = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || write(&ring, care))
        };
        read(&ring, care);
        writer.join().unwrap();
        assert_eq!(ring.drained.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn readers_see_all_that_had_returned_and_nothing_mixed() {
    check(ALL);
}

#[test]
#[should_panic(expected = "records of filling")]
fn without_the_writers_fence_fillings_mix() {
    check(Care { fence: false, ..ALL });
}

#[test]
#[should_panic(expected = "records of filling")]
fn without_asking_again_fillings_mix() {
    check(Care { again: false, ..ALL });
}

#[test]
#[should_panic(expected = "is missing")]
fn with_the_segment_first_a_block_is_missed() {
    check(Care { ring_first: false, ..ALL });
}

/// A full ring left to the thread that writes it (`hand_over` and `give_back` in
/// `src/recording/ring.rs`, `src/recording/writer.rs`): the thread goes on in another region, and comes back
/// to the first one once it is free. A region holds one record.
struct Region {
    /// Thread + 1, 0 while the region is free.
    thread: AtomicU64,
    position: AtomicU64,
    word: AtomicU64,
}

struct Shared {
    regions: [Region; 2],
    /// What waits to be written: region and sequence number.
    full: Mutex<Vec<(usize, u64)>>,
    free: Mutex<Vec<usize>>,
    segment: Mutex<Vec<(u64, u64)>>,
    returned: AtomicU64,
}

/// Fillings; one more than there are regions.
const FILLINGS: u64 = 3;

fn fill(shared: &Shared, care: Care) {
    let mut at = 0;
    for sequence in 0..FILLINGS {
        if sequence > 0 {
            let Some(next) = shared.free.lock().unwrap().pop() else { return };
            begin(&shared.regions[next], sequence, care);
            shared.full.lock().unwrap().push((at, sequence - 1));
            at = next;
        }
        let region = &shared.regions[at];
        region.word.store(sequence + 1, Ordering::Relaxed);
        region.position.store(sequence << 32 | 1, Ordering::Release);
        shared.returned.store(sequence + 1, Ordering::Release);
    }
}

fn begin(region: &Region, sequence: u64, care: Care) {
    region.position.store(sequence << 32, Ordering::Relaxed);
    region.thread.store(1, Ordering::Release);
    if care.fence {
        fence(Ordering::Release);
    }
}

fn write_full(shared: &Shared) {
    for _ in 0..2 {
        let Some((at, sequence)) = shared.full.lock().unwrap().pop() else { return };
        let region = &shared.regions[at];
        shared.segment.lock().unwrap().push((sequence, region.word.load(Ordering::Relaxed)));
        region.thread.store(0, Ordering::Release);
        shared.free.lock().unwrap().push(at);
    }
}

/// What the reader takes from a region: the sequence number and the record, if there is one, of one
/// thread's one filling.
fn look(region: &Region, care: Care) -> Option<Option<(u64, u64)>> {
    let (position, thread) =
        (region.position.load(Ordering::Acquire), region.thread.load(Ordering::Acquire));
    let word = region.word.load(Ordering::Relaxed);
    fence(Ordering::Acquire);
    let same = region.position.load(Ordering::Relaxed) >> 32 == position >> 32
        && region.thread.load(Ordering::Relaxed) == thread;
    (!care.again || same)
        .then_some((thread != 0 && position & 1 != 0).then_some((position >> 32, word)))
}

fn read_regions(shared: &Shared, care: Care) {
    let returned = shared.returned.load(Ordering::Acquire);
    let early = if care.ring_first { None } else { Some(shared.segment.lock().unwrap().clone()) };
    let live: Vec<_> = shared.regions.iter().map(|r| look(r, care)).collect();
    let mut seen = early.unwrap_or_else(|| shared.segment.lock().unwrap().clone());
    // A region that moved on is copied again; this reader, which tries once, knows nothing of it.
    let knows_all = live.iter().all(Option::is_some);
    seen.extend(live.into_iter().flatten().flatten());
    for (sequence, record) in &seen {
        assert_eq!(*record, sequence + 1, "records of filling {sequence}");
    }
    for record in 1..=if knows_all { returned } else { 0 } {
        assert!(
            seen.iter().any(|(_, seen)| *seen == record),
            "record {record} of {returned} is missing: {seen:?}"
        );
    }
}

/// `preemptions`: how often a thread is interrupted where it need not be, at most. Two are many
/// states, and three too many where none fails.
fn check_hand_over(care: Care, preemptions: usize) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(move || {
        let region = |thread| Region {
            thread: AtomicU64::new(thread),
            position: AtomicU64::new(0),
            word: AtomicU64::new(0),
        };
        let shared = Arc::new(Shared {
            regions: [region(1), region(0)],
            full: Mutex::new(Vec::new()),
            free: Mutex::new(vec![1]),
            segment: Mutex::new(Vec::new()),
            returned: AtomicU64::new(0),
        });
        let run = |job: fn(&Shared, Care)| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || job(&shared, care))
        };
        let threads = [run(fill), run(|shared, _| write_full(shared))];
        read_regions(&shared, care);
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
#[should_panic(expected = "records of filling")]
fn without_asking_again_a_region_taken_over_mixes() {
    check_hand_over(Care { again: false, ..ALL }, 3);
}

#[test]
#[should_panic(expected = "is missing")]
fn with_the_segment_first_a_full_ring_is_missed() {
    check_hand_over(Care { ring_first: false, ..ALL }, 2);
}
