//! Owns the copy of a ring file whose process may be writing. A ring is refilled in place, so that
//! a copy may mix two fillings: each region's sequence number is read again behind the copy, and
//! the region copied anew where it has moved on. The last record of a ring may be a run of calls
//! that grows: its count is read before and after it, and it is left out where it does not stand
//! still. The loom tests of the recorder's `protocol` check this in every order of memory. Refuses
//! to decode records.

use clscope_io::input;
use clscope_trace::record::{self, Run};
use clscope_trace::ring_file::{RING_FIRST, RING_HEADER_LEN, RING_MAGIC, ring};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Copies of a region before it is left out: a thread fills its ring in a millisecond at most, a
/// copy takes a fraction.
const TRIES: usize = 100;

/// Most bytes of a ring file: sixteen thousand threads with rings of the largest size.
const MOST: u64 = 4 << 30;

/// The bytes of a ring file, every region of one filling. What a thread wrote in the meantime is in
/// its segment, which must be opened afterwards, or comes later.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = input::open_inside(path)?;
    let mut bytes = input::bytes(&file, MOST)?;
    let mut moving = regions(&bytes);
    for _ in 0..TRIES {
        moving.retain(|(at, _)| has_moved(&file, &bytes, *at));
        if moving.is_empty() {
            break;
        }
        for (at, size) in &moving {
            // The kernel copies from the front: the header, and with it the sequence number, before
            // the records.
            file.read_exact_at(&mut bytes[*at..at + size], *at as u64)?;
        }
    }
    for (at, _) in moving {
        // Its newest records cannot be had now: an empty filling, the older ones are in the
        // segment.
        bytes[at + ring::POSITION..at + ring::POSITION + 4].fill(0);
    }
    for (at, size) in regions(&bytes) {
        if let Some(run) = last_run(&bytes, at, size)
            && !copy_run(&file, &mut bytes, run)
        {
            let before = (run - at - RING_HEADER_LEN) as u32;
            bytes[at + ring::POSITION..at + ring::POSITION + 4]
                .copy_from_slice(&before.to_le_bytes());
        }
    }
    Ok(bytes)
}

/// Where the last record of a region lies, if it can be a run.
fn last_run(bytes: &[u8], at: usize, size: usize) -> Option<usize> {
    let published = word(bytes, at + ring::POSITION) as usize;
    let end = at + RING_HEADER_LEN + published;
    let begin = end.checked_sub(Run::WORDS * 8)?;
    let head = record::head(record::kind::RUN, Run::WORDS, 0, 0) as u32;
    let inside = begin >= at + RING_HEADER_LEN && end <= at + size;
    // The function is in the lower half.
    (inside && word(bytes, begin) & 0xffff_0000 == head).then_some(begin)
}

/// Copies a run as it was at one moment. `false` where it grew each time.
fn copy_run(file: &File, bytes: &mut [u8], run: usize) -> bool {
    let count = run + Run::COUNT * 8;
    (0..TRIES).any(|_| {
        let (mut before, mut copy, mut after) = ([0; 4], [0; Run::WORDS * 8], [0; 4]);
        let read = file.read_exact_at(&mut before, count as u64).is_ok()
            && file.read_exact_at(&mut copy, run as u64).is_ok()
            && file.read_exact_at(&mut after, count as u64).is_ok();
        let still = read && before == after && copy[Run::COUNT * 8..][..4] == before;
        if still {
            bytes[run..run + copy.len()].copy_from_slice(&copy);
        }
        still
    })
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
}

/// Offsets and sizes of the regions that are whole.
fn regions(bytes: &[u8]) -> Vec<(usize, usize)> {
    let mut out = Vec::new();
    let mut at = RING_FIRST;
    while at + RING_HEADER_LEN <= bytes.len() {
        let size = word(bytes, at + ring::SIZE) as usize;
        let whole = size >= RING_FIRST
            && size.is_multiple_of(RING_FIRST)
            && at.checked_add(size).is_some_and(|end| end <= bytes.len());
        if word(bytes, at + ring::MAGIC) == RING_MAGIC && whole {
            out.push((at, size));
            at += size;
        } else {
            at += RING_FIRST;
        }
    }
    out
}

/// Whether a region is in another filling now than in the copy, or another thread's. One that
/// cannot be read any more stays as it was.
fn has_moved(file: &File, bytes: &[u8], at: usize) -> bool {
    // The upper half of the position is the sequence number.
    [at + ring::POSITION + 4, at + ring::THREAD].into_iter().any(|place| {
        let mut now = [0; 4];
        file.read_exact_at(&mut now, place as u64).is_ok()
            && u32::from_le_bytes(now) != word(bytes, place)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clscope_testing::While;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Two regions; every word of a filling is its sequence number.
    #[test]
    fn a_copy_never_mixes_fillings_of_a_ring_that_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("1-0.ring");
        let size = 4 * RING_FIRST;
        let words = (size - RING_HEADER_LEN) / 4;
        let mut first = vec![0u8; RING_FIRST + 2 * size];
        for at in [RING_FIRST, RING_FIRST + size] {
            first[at..at + 4].copy_from_slice(&RING_MAGIC.to_le_bytes());
            first[at + ring::SIZE..at + ring::SIZE + 4]
                .copy_from_slice(&(size as u32).to_le_bytes());
        }
        std::fs::write(&path, &first).unwrap();
        let goes_on = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _reading = While::new(&goes_on);
            scope.spawn(|| {
                let file = File::options().write(true).open(&path).unwrap();
                let mut sequence = 0u32;
                while goes_on.load(Ordering::Relaxed) {
                    sequence += 1;
                    let at = RING_FIRST as u64;
                    let position =
                        |bytes: usize| (u64::from(sequence) << 32 | bytes as u64).to_le_bytes();
                    file.write_all_at(&position(0), at + ring::POSITION as u64).unwrap();
                    let filling: Vec<u8> =
                        std::iter::repeat_n(sequence.to_le_bytes(), words).flatten().collect();
                    for part in 0..4 {
                        let (from, to) = (part * filling.len() / 4, (part + 1) * filling.len() / 4);
                        file.write_all_at(&filling[from..to], at + (RING_HEADER_LEN + from) as u64)
                            .unwrap();
                        file.write_all_at(&position(to), at + ring::POSITION as u64).unwrap();
                    }
                }
            });
            for _ in 0..300 {
                let copy = read(&path).unwrap();
                let (published, sequence) = (
                    word(&copy, RING_FIRST + ring::POSITION) as usize,
                    word(&copy, RING_FIRST + ring::POSITION + 4),
                );
                let from = RING_FIRST + RING_HEADER_LEN;
                assert!(
                    copy[from..from + published]
                        .chunks_exact(4)
                        .all(|w| w == sequence.to_le_bytes()),
                    "filling {sequence}"
                );
            }
        });
    }

    /// A run whose calls take two ticks each.
    #[test]
    fn a_run_that_grows_is_copied_whole_or_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("1-0.ring");
        let run = |count: u32| Run {
            function: 9,
            small: 0,
            id: 0,
            count,
            first: 2,
            span: count - 1,
            total: 2 * count,
            shortest: 2,
            longest: 2,
        };
        let bytes_of =
            |words: &[u64]| -> Vec<u8> { words.iter().flat_map(|w| w.to_le_bytes()).collect() };
        let mut first = vec![0u8; 2 * RING_FIRST];
        let at = RING_FIRST;
        let plain = bytes_of(&record::plain(9, 0, 0, 1, 2));
        let records = [plain.clone(), bytes_of(&record::run(&run(1), 5))].concat();
        first[at..at + 4].copy_from_slice(&RING_MAGIC.to_le_bytes());
        first[at + ring::SIZE..][..4].copy_from_slice(&(RING_FIRST as u32).to_le_bytes());
        first[at + ring::THREAD..][..4].copy_from_slice(&1u32.to_le_bytes());
        first[at + ring::POSITION..][..4].copy_from_slice(&(records.len() as u32).to_le_bytes());
        first[at + RING_HEADER_LEN..][..records.len()].copy_from_slice(&records);
        std::fs::write(&path, &first).unwrap();
        let (goes_on, mut most) = (AtomicBool::new(false), 0);
        let check = |most: &mut u32| {
            let copy = read(&path).unwrap();
            let ring = clscope_trace::stream::Rings::new(&copy).next().unwrap();
            let found: Vec<_> = ring.block.records().collect();
            assert!(matches!(found[0].1, record::Record::Plain { .. }));
            match found.get(1) {
                Some((_, record::Record::Run(found))) => {
                    assert_eq!(*found, run(found.count));
                    assert!(found.count >= *most, "it never shrinks");
                    *most = found.count;
                }
                other => assert_eq!(other, None),
            }
            found.len()
        };
        std::thread::scope(|scope| {
            let _reading = While::new(&goes_on);
            scope.spawn(|| {
                let file = File::options().write(true).open(&path).unwrap();
                let record = (at + RING_HEADER_LEN + plain.len()) as u64;
                let mut count = 1;
                while goes_on.load(Ordering::Relaxed) {
                    count += 1;
                    let state = Run::state(count);
                    for (place, word) in (state..).zip(run(count).state_words()) {
                        file.write_all_at(&word.to_le_bytes(), record + place as u64 * 8).unwrap();
                    }
                    let place = record + Run::COUNT as u64 * 8;
                    file.write_all_at(&count.to_le_bytes(), place).unwrap();
                }
            });
            for _ in 0..300 {
                check(&mut most);
            }
        });
        assert_eq!(check(&mut most), 2, "at rest it is there");
    }

    #[test]
    fn any_bytes_are_copied() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("1-0.ring");
        for bytes in
            [vec![], vec![0xff; 100], vec![0xff; 3 * RING_FIRST], vec![0; 2 * RING_FIRST + 17]]
        {
            std::fs::write(&path, &bytes).unwrap();
            assert_eq!(read(&path).unwrap(), bytes);
        }
        assert!(read(&folder.path().join("none")).is_err());
    }
}
