//! Follows a file of framed blocks that grows: each block is given once, when it is whole. A writer
//! reserves its place first and fills it later, so that a block may be whole before the one in
//! front of it: such a gap is looked at again. Refuses to decode records.

use clscope_io::input;
use clscope_trace::checksum;
use clscope_trace::file::{BLOCK_HEADER_LEN, BLOCK_MAGIC, BlockHeader, HEADER_LEN};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes that are read at a time.
const CHUNK: usize = 1 << 20;
/// Longest block that is believed: a ring of the largest size.
const LONGEST: usize = 64 << 20;
/// How far a search for the next block goes on in one reading.
const SEARCH: u64 = 64 << 20;
/// Gaps that are remembered; of more, the oldest are given up.
const GAPS: usize = 64;

/// Where the next block of a file is looked for.
#[derive(Debug)]
pub struct Tail {
    /// Places at which no whole block stood yet, and where the next known block begins.
    gaps: Vec<(u64, u64)>,
    at: u64,
}

/// What stands at a place.
enum Found {
    /// A block of so many bytes, header and padding included.
    Block(BlockHeader, usize),
    /// More bytes are needed to tell.
    Short(usize),
    /// No whole block.
    Nothing,
}

fn block_at(bytes: &[u8]) -> Found {
    if bytes.len() < BLOCK_HEADER_LEN {
        return Found::Short(BLOCK_HEADER_LEN);
    }
    let Some(header) = BlockHeader::decode(bytes) else { return Found::Nothing };
    let end = BLOCK_HEADER_LEN.saturating_add(header.length as usize);
    if end > LONGEST {
        return Found::Nothing;
    }
    match bytes.get(BLOCK_HEADER_LEN..end) {
        Some(payload) if checksum(payload) == header.checksum => {
            Found::Block(header, end.next_multiple_of(8))
        }
        Some(_) => Found::Nothing,
        None => Found::Short(end),
    }
}

/// Up to `length` bytes at a place; fewer at the end of the file.
fn read(file: &File, at: u64, length: usize, into: &mut Vec<u8>) -> io::Result<()> {
    into.resize(length, 0);
    let mut have = 0;
    while have < length {
        match file.read_at(&mut into[have..], at + have as u64) {
            Ok(0) => break,
            Ok(n) => have += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    into.truncate(have);
    Ok(())
}

impl Default for Tail {
    fn default() -> Self {
        Self { gaps: Vec::new(), at: HEADER_LEN as u64 }
    }
}

impl Tail {
    /// Gives the blocks that became whole since the last time, with their payloads, and returns how
    /// many bytes that was. `behind`: whether there is a block somewhere that was not given yet,
    /// for which gaps are searched.
    pub fn follow(
        &mut self,
        path: &Path,
        behind: bool,
        give: &mut dyn FnMut(&BlockHeader, &[u8]),
    ) -> io::Result<u64> {
        let file = input::open_inside(path)?;
        let mut bytes = 0;
        let mut buffer = Vec::new();
        for (at, end) in std::mem::take(&mut self.gaps) {
            let now = run(&file, at, end, &mut buffer, give)?;
            bytes += now - at;
            if now < end {
                self.gaps.push((now, end));
            }
        }
        loop {
            let now = run(&file, self.at, u64::MAX, &mut buffer, give)?;
            bytes += now - self.at;
            self.at = now;
            let next = if behind { search(&file, now + 8, &mut buffer)? } else { None };
            let Some(next) = next else { break };
            self.gaps.push((now, next));
            self.at = next;
        }
        let many = self.gaps.len().saturating_sub(GAPS);
        self.gaps.drain(..many);
        Ok(bytes)
    }
}

/// Gives the blocks from `at` on that stand one behind the other, up to `end`; returns where they
/// end.
fn run(
    file: &File,
    mut at: u64,
    end: u64,
    buffer: &mut Vec<u8>,
    give: &mut dyn FnMut(&BlockHeader, &[u8]),
) -> io::Result<u64> {
    // A first look at the header alone: most often there is nothing new.
    let mut length = BLOCK_HEADER_LEN;
    while at < end {
        read(file, at, length, buffer)?;
        let mut from = 0;
        let need = loop {
            // The padding of the last block need not be there.
            match block_at(buffer.get(from..).unwrap_or(&[])) {
                Found::Block(header, size) if at + (from as u64) < end => {
                    let begin = from + BLOCK_HEADER_LEN;
                    give(&header, &buffer[begin..begin + header.length as usize]);
                    from += size;
                }
                Found::Block(..) | Found::Nothing => break None,
                Found::Short(need) => break Some(need),
            }
        };
        at += from as u64;
        let full = buffer.len() == length;
        match need {
            // The file ends here, or no block begins.
            Some(need) if full && (from > 0 || need > length) => length = need.max(CHUNK),
            _ => break,
        }
    }
    Ok(at)
}

/// The place of the next whole block at or after `at`.
fn search(file: &File, mut at: u64, buffer: &mut Vec<u8>) -> io::Result<Option<u64>> {
    let magic = BLOCK_MAGIC.to_le_bytes();
    let until = at.saturating_add(SEARCH);
    let mut window = Vec::new();
    while at < until {
        read(file, at, CHUNK, &mut window)?;
        let places = (0..window.len()).step_by(8);
        for place in places.filter(|p| window[*p..].starts_with(&magic)) {
            let candidate = at + place as u64;
            read(file, candidate, BLOCK_HEADER_LEN, buffer)?;
            if let Some(header) = BlockHeader::decode(buffer) {
                let length = BLOCK_HEADER_LEN + (header.length as usize).min(LONGEST);
                read(file, candidate, length, buffer)?;
                if matches!(block_at(buffer), Found::Block(..)) {
                    return Ok(Some(candidate));
                }
            }
        }
        if window.len() < CHUNK {
            break;
        }
        at += CHUNK as u64;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(sequence: u32, bytes: usize) -> Vec<u8> {
        clscope_trace::sensors::block(sequence, &vec![sequence as u8; bytes])
    }

    fn given(tail: &mut Tail, path: &Path, behind: bool) -> Vec<(u32, usize)> {
        let mut out = Vec::new();
        tail.follow(path, behind, &mut |header, payload| {
            assert!(payload.iter().all(|b| *b == header.sequence as u8));
            out.push((header.sequence, payload.len()));
        })
        .unwrap();
        out
    }

    #[test]
    fn each_block_is_given_once_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("1-0.0.clt");
        let mut whole = vec![0; HEADER_LEN];
        // Larger than what is read at a time, and of a length that needs padding.
        let blocks = [block(0, 24), block(1, 3 << 20), block(2, 13), block(3, 0), block(4, 8)];
        let mut ends = Vec::new();
        for block in &blocks {
            whole.extend(block);
            ends.push(whole.len());
        }
        let (mut tail, mut found) = (Tail::default(), Vec::new());
        for cut in [HEADER_LEN, ends[0] - 1, ends[0] + 70, ends[1] + 10, whole.len()] {
            // What is reserved and not written yet reads as zeros.
            let mut bytes = whole[..cut].to_vec();
            bytes.resize(whole.len() + 4096, 0);
            std::fs::write(&path, &bytes).unwrap();
            found.extend(given(&mut tail, &path, false));
        }
        assert_eq!(found, [(0, 24), (1, 3 << 20), (2, 13), (3, 0), (4, 8)]);
        assert!(given(&mut tail, &path, true).is_empty(), "nothing comes twice");
    }

    #[test]
    fn blocks_behind_a_gap_are_found_and_the_gap_is_looked_at_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("1-0.0.clt");
        let blocks = [block(0, 24), block(1, 32), block(2, 40), block(3, 48)];
        let write = |have: [bool; 4]| {
            let mut bytes = vec![0; HEADER_LEN];
            for (block, have) in blocks.iter().zip(have) {
                bytes.extend(block.iter().map(|b| if have { *b } else { 0 }));
            }
            std::fs::write(&path, bytes).unwrap();
        };
        let mut tail = Tail::default();
        write([true, false, true, false]);
        assert_eq!(given(&mut tail, &path, false), [(0, 24)], "nobody waits for more");
        assert_eq!(given(&mut tail, &path, true), [(2, 40)]);
        write([true, false, true, true]);
        assert_eq!(given(&mut tail, &path, true), [(3, 48)]);
        write([true; 4]);
        assert_eq!(given(&mut tail, &path, false), [(1, 32)]);
        assert!(given(&mut tail, &path, true).is_empty());
    }
}
