//! Damage that knows the format: a number of a header, a definition, a block, a record, a ring or a
//! sensors' row becomes an interesting one, and the checksum over it is mended, so that it reaches
//! what computes with it. Owns where numbers stand; refuses to damage bytes at random, which
//! [`crate::fuzz`] does.
#![forbid(unsafe_code)]

use crate::fuzz::mend;
use crate::random::Random;
use clscope_trace::defs::{Defs, FRAME_LEN, frame_checksum};
use clscope_trace::file::{BLOCK_HEADER_LEN, BlockHeader, HEADER_LEN};
use clscope_trace::ring_file::{RING_FIRST, ring};
use clscope_trace::sensors::Records;
use std::ops::Range;

/// Numbers of a file's header: offset and width in bytes. Its magic, kind and length stay.
const HEADER: [(usize, usize); 10] = [
    (14, 2), // minor version
    (24, 4), // pid
    (28, 4), // ppid
    (32, 8), // pid namespace
    (40, 4), // incarnation
    (44, 4), // segment
    (48, 1), // clock
    (56, 1), // host
    (72, 1), // boot
    (88, 8), // created
];

/// Numbers of a ring's region.
const RING: [(usize, usize); 9] = [
    (ring::SIZE, 4),
    (ring::THREAD, 4),
    (ring::FAILED, 4),
    (ring::BASE, 8),
    (ring::POSITION, 8),
    (ring::DRAINED, 8),
    (ring::DROPPED, 8),
    (ring::CALL, 8),
    (ring::CALL_BEGIN, 8),
];

/// How often another place is tried where a change left nothing that can be read.
const TRIES: usize = 16;

/// Changes one number of the file `name`; `other` is a file whose numbers may be taken. Returns
/// whether anything was changed: a file without numbers at known places stays as it is.
pub fn change(name: &str, bytes: &mut [u8], other: &[u8], random: &mut Random) -> bool {
    if name.ends_with(".json") {
        return text(bytes, random);
    }
    if bytes.len() < HEADER_LEN {
        return false;
    }
    let head = random.below(12) == 0;
    let changed = if head {
        let (at, width) = HEADER[random.below(HEADER.len())];
        put(&mut bytes[at..at + width], other, random);
        true
    } else if name.ends_with(".defs") {
        definition(bytes, other, random)
    } else if name.ends_with(".clt") {
        block(bytes, name.starts_with("sensors"), other, random)
    } else if name.ends_with(".ring") && bytes.len() > RING_FIRST {
        region(bytes, other, random)
    } else {
        false
    };
    if head {
        // Of the header alone: what is below it keeps its own sums.
        mend("", bytes);
    }
    changed
}

/// An interesting number: an end of a range, the old one moved, or one that stands elsewhere.
fn number(old: u64, width: usize, other: &[u8], random: &mut Random) -> u64 {
    let sign = 1u64 << (8 * width - 1);
    match random.below(16) {
        0 => 0,
        1 => 1,
        2 => u64::MAX,
        3 => sign,
        4 => sign - 1,
        5 => old.wrapping_add(1),
        6 => old.wrapping_sub(1),
        7 => old.wrapping_neg(),
        8 => old ^ 1 << random.below(8 * width),
        9 => 1 << random.below(8 * width),
        10 => (1u64 << random.below(8 * width)).wrapping_neg(),
        11 => old.wrapping_add(1 << random.below(8 * width)),
        12 => old.wrapping_sub(1 << random.below(8 * width)),
        13 => [f64::NAN, f64::INFINITY, -1.0, 1e300, -1e300, 5e-324][random.below(6)].to_bits(),
        _ => {
            // Numbers stand at multiples of four nearly everywhere.
            let at = random.below(other.len()) / 4 * 4;
            other.get(at..).and_then(|b| b.first_chunk()).map_or(old, |b| u64::from_le_bytes(*b))
        }
    }
}

fn put(field: &mut [u8], other: &[u8], random: &mut Random) {
    let mut old = [0; 8];
    old[..field.len()].copy_from_slice(field);
    let new = number(u64::from_le_bytes(old), field.len(), other, random).to_le_bytes();
    field.copy_from_slice(&new[..field.len()]);
}

/// Changes bytes of `range` until `whole` says that what they are of can still be read and is
/// another; else they are put back.
fn replaced(
    bytes: &mut [u8],
    range: Range<usize>,
    other: &[u8],
    random: &mut Random,
    mut whole: impl FnMut(&mut [u8]) -> bool,
) -> bool {
    for _ in 0..TRIES {
        let width = [1, 2, 4, 8, 8][random.below(5)].min(range.len());
        if width == 0 {
            return false;
        }
        let at = range.start + random.below(range.len() - width + 1);
        let before = bytes[at..at + width].to_vec();
        put(&mut bytes[at..at + width], other, random);
        if before != bytes[at..at + width] && whole(bytes) {
            return true;
        }
        bytes[at..at + width].copy_from_slice(&before);
    }
    whole(bytes);
    false
}

/// One of several places, if there is one.
fn one_of<T>(mut of: Vec<T>, random: &mut Random) -> Option<T> {
    (!of.is_empty()).then(|| of.swap_remove(random.below(of.len())))
}

fn u32_at(bytes: &[u8], at: usize) -> usize {
    clscope_trace::file::read_u32(bytes, at).unwrap_or(0) as usize
}

/// One of a kind of definition that is chosen first: most of a file are functions.
fn definition(bytes: &mut [u8], other: &[u8], random: &mut Random) -> bool {
    let mut frames: Vec<(u16, Range<usize>)> = Vec::new();
    let mut at = HEADER_LEN;
    while at + FRAME_LEN <= bytes.len() {
        let end = at + FRAME_LEN + u32_at(bytes, at);
        if end > bytes.len() {
            break;
        }
        frames.push((u16::from_le_bytes([bytes[at + 4], bytes[at + 5]]), at..end));
        at = end;
    }
    let mut kinds: Vec<u16> = frames.iter().map(|(kind, _)| *kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let Some(kind) = one_of(kinds, random) else { return false };
    frames.retain(|(k, _)| *k == kind);
    let Some((_, frame)) = one_of(frames, random) else { return false };
    let before = Defs::behind(&bytes[frame.clone()]).next();
    replaced(bytes, frame.start + FRAME_LEN..frame.end, other, random, |bytes| {
        let frame = &mut bytes[frame.clone()];
        let sum = frame_checksum(&frame[..8], &frame[FRAME_LEN..]);
        frame[8..16].copy_from_slice(&sum.to_le_bytes());
        let after = Defs::behind(frame).next();
        // A NaN is unequal to itself, which is as well.
        after.is_some() && after != before
    })
}

/// A block's header, or what is in it.
fn block(bytes: &mut [u8], sensors: bool, other: &[u8], random: &mut Random) -> bool {
    let mut blocks = Vec::new();
    let mut at = HEADER_LEN;
    while let Some(header) = bytes.get(at..).and_then(BlockHeader::decode) {
        let end = at + BLOCK_HEADER_LEN + header.length as usize;
        if end > bytes.len() {
            break;
        }
        blocks.push(at..end);
        at = end.next_multiple_of(8);
    }
    let Some(block) = one_of(blocks, random) else { return false };
    let (head, payload) = bytes[block].split_at_mut(BLOCK_HEADER_LEN);
    let changed = if !sensors && random.below(5) == 0 {
        let (at, width) = [(4, 4), (8, 4), (16, 8), (16, 8)][random.below(4)];
        put(&mut head[at..at + width], other, random);
        true
    } else if sensors {
        content(payload, other, random)
    } else {
        record(payload, other, random)
    };
    let wide = |at| clscope_trace::file::read_u64(head, at).unwrap_or(0);
    let header = BlockHeader {
        thread: u32_at(head, 4) as u32,
        sequence: u32_at(head, 8) as u32,
        length: payload.len() as u32,
        base: wide(16),
        checksum: clscope_trace::checksum(payload),
    };
    head.copy_from_slice(&header.encode());
    changed
}

/// A record of a sensors' block.
fn content(payload: &mut [u8], other: &[u8], random: &mut Random) -> bool {
    const HEAD: usize = 8;
    let mut contents = Vec::new();
    let mut at = 0;
    while at + HEAD <= payload.len() {
        let end = at + HEAD + u32_at(payload, at + 4);
        if end > payload.len() {
            break;
        }
        contents.push(at..end);
        at = end.next_multiple_of(8);
    }
    let Some(content) = one_of(contents, random) else { return false };
    replaced(payload, content.start + HEAD..content.end, other, random, |payload| {
        Records::of_block(&payload[content.clone()]).next().is_some()
    })
}

/// A word of a record; its kind and length stay.
fn record(payload: &mut [u8], other: &[u8], random: &mut Random) -> bool {
    let mut fields = Vec::new();
    let mut at = 0;
    while at + 8 <= payload.len() {
        let head = u32_at(payload, at) as u32;
        let words = if head >> 31 == 1 { 2 } else { (head >> 16 & 0xff).max(1) as usize };
        fields.push(at + 4..(at + 8 * words).min(payload.len()));
        at += 8 * words;
    }
    let Some(field) = one_of(fields, random) else { return false };
    // The step in time, or a half or a whole of a word behind it.
    let at = field.start + random.below(field.len()) / 4 * 4;
    let width = if at.is_multiple_of(8) && random.below(2) == 0 { 8 } else { 4 };
    let end = (at + width).min(field.end);
    put(&mut payload[at..end], other, random);
    true
}

/// A region of a ring file.
fn region(bytes: &mut [u8], other: &[u8], random: &mut Random) -> bool {
    let regions: Vec<usize> = (RING_FIRST..bytes.len())
        .step_by(RING_FIRST)
        .filter(|at| u32_at(bytes, *at) == clscope_trace::ring_file::RING_MAGIC as usize)
        .collect();
    let Some(at) = one_of(regions, random) else { return false };
    let length = u32_at(bytes, at + ring::POSITION);
    let first = at + clscope_trace::ring_file::RING_HEADER_LEN;
    if random.below(2) == 0
        && let Some(payload) = bytes.get_mut(first..first.saturating_add(length))
    {
        return record(payload, other, random);
    }
    let (field, width) = RING[random.below(RING.len())];
    match bytes.get_mut(at + field..at + field + width) {
        Some(field) => put(field, other, random),
        None => return false,
    }
    true
}

/// A number of a text: as many digits, of another value, so that lengths stay.
fn text(bytes: &mut [u8], random: &mut Random) -> bool {
    let mut numbers = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let length = bytes[at..].iter().take_while(|b| b.is_ascii_digit()).count();
        if length > 0 {
            numbers.push(at..at + length);
        }
        at += length + 1;
    }
    let Some(number) = one_of(numbers, random) else { return false };
    let number = &mut bytes[number];
    match random.below(3) {
        0 => number.fill(b'9'),
        1 => {
            number.fill(b'0');
            number[0] = b'1';
        }
        // No zeros in front: that is no number in JSON.
        _ => number.fill(b'1'),
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzz::made;
    use clscope_trace::stream::Blocks;

    #[test]
    fn changed_files_are_whole_and_others() {
        let mut random = Random(3);
        for _ in 0..40 {
            for files in made() {
                for (name, whole) in &files {
                    let mut bytes = whole.clone();
                    let changed = change(name, &mut bytes, whole, &mut random);
                    if name.ends_with(".defs") {
                        assert!(Defs::new(&bytes).rest() >= Defs::new(whole).rest());
                        let mut defs = Defs::new(&bytes);
                        assert_eq!(defs.by_ref().count(), Defs::new(whole).count());
                        assert_eq!(defs.rest(), 0, "{name}");
                    } else if name.ends_with(".clt") {
                        assert_eq!(Blocks::new(&bytes).count(), Blocks::new(whole).count());
                    }
                    assert!(changed || bytes == *whole, "{name} changed and said nothing");
                }
            }
        }
    }

    #[test]
    fn most_changes_change_something() {
        let (files, mut random) = (&made()[0], Random(4));
        for (name, whole) in files.iter().filter(|(name, _)| !name.ends_with(".ring")) {
            let other = (0..100).filter(|_| {
                let mut bytes = whole.clone();
                change(name, &mut bytes, whole, &mut random);
                bytes != *whole
            });
            assert!(other.count() > 60, "{name}");
        }
    }
}
