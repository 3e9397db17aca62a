//! Reading streams of records back: the blocks of a segment, the regions of a ring file, the
//! records of a block. Nothing here copies records, and no input makes it panic: what cannot be
//! read is counted.

use crate::file::{self, BLOCK_HEADER_LEN, BLOCK_MAGIC, BlockHeader, HEADER_LEN, checksum};
use crate::record::{self, Decoded, High, Record};
use crate::ring_file::{RING_FIRST, RING_HEADER_LEN, RING_MAGIC, attendance, ring};

/// Records of one thread that belong together: a block of a segment, or what a ring still holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block<'a> {
    /// Thread index.
    pub thread: u32,
    /// Sequence number within the thread.
    pub sequence: u32,
    /// Host time to which the first delta is added.
    pub base: u64,
    /// The records' bytes.
    pub payload: &'a [u8],
}

impl<'a> Block<'a> {
    /// Its records with their times.
    pub fn records(&self) -> Records<'a> {
        Records { rest: self.payload, time: self.base, damaged: false }
    }
}

/// Damage found while scanning a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Damage {
    /// Blocks whose payload is torn or fails its checksum.
    pub torn_blocks: u64,
    /// Bytes that belong to no readable block.
    pub skipped_bytes: u64,
}

/// Iterates over the whole blocks of a segment. After the end [`damage`](Self::damage) tells what
/// was skipped.
#[derive(Debug, Clone)]
pub struct Blocks<'a> {
    bytes: &'a [u8],
    at: usize,
    damage: Damage,
}

impl<'a> Blocks<'a> {
    /// Over the bytes of a whole segment file, header included; the header is taken as checked.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: HEADER_LEN, damage: Damage::default() }
    }

    /// What was skipped so far.
    pub fn damage(&self) -> Damage {
        self.damage
    }

    /// Moves on to the next place at or after `from` where a block may begin.
    fn seek(&mut self, from: usize) {
        let magic = BLOCK_MAGIC.to_le_bytes();
        let mut at = from;
        while at < self.bytes.len() && self.bytes.get(at..at + 4) != Some(&magic[..]) {
            at += 8;
        }
        self.damage.skipped_bytes += at.min(self.bytes.len()).saturating_sub(self.at) as u64;
        self.at = at;
    }
}

impl<'a> Iterator for Blocks<'a> {
    type Item = Block<'a>;

    fn next(&mut self) -> Option<Block<'a>> {
        while let Some(here) = self.bytes.get(self.at..).filter(|b| !b.is_empty()) {
            let Some(header) = BlockHeader::decode(here) else {
                self.seek(self.at + 8);
                continue;
            };
            let end = BLOCK_HEADER_LEN.saturating_add(header.length as usize);
            match here.get(BLOCK_HEADER_LEN..end) {
                Some(payload) if checksum(payload) == header.checksum => {
                    self.at += end.next_multiple_of(8);
                    return Some(Block {
                        thread: header.thread,
                        sequence: header.sequence,
                        base: header.base,
                        payload,
                    });
                }
                _ => {
                    // A torn block may have been followed by whole ones of other threads.
                    self.damage.torn_blocks += 1;
                    self.seek(self.at + 8);
                }
            }
        }
        None
    }
}

/// One thread's ring as the process left it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ring<'a> {
    /// Records not yet in a segment, or written there just before the end: compare sequence
    /// numbers.
    pub block: Block<'a>,
    /// Records dropped that no `Dropped` record reports.
    pub dropped: u64,
    /// How many of these could not be written; the others came in the middle of another call.
    /// `None` where that is not told.
    pub failed: Option<u64>,
    /// The call the thread was in: function and host time of its beginning.
    pub in_call: Option<(u16, u64)>,
}

/// Iterates over the rings in use in a ring file.
#[derive(Debug, Clone)]
pub struct Rings<'a> {
    bytes: &'a [u8],
    at: usize,
    damaged: bool,
}

impl<'a> Rings<'a> {
    /// Over the bytes of a whole ring file; the header is taken as checked.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: RING_FIRST, damaged: false }
    }

    /// Whether a region was found that could not be read.
    pub fn damaged(&self) -> bool {
        self.damaged
    }
}

impl<'a> Iterator for Rings<'a> {
    type Item = Ring<'a>;

    fn next(&mut self) -> Option<Ring<'a>> {
        while let Some(region) = self.bytes.get(self.at..).filter(|b| b.len() >= RING_HEADER_LEN) {
            let field = |at| file::read_u32(region, at).unwrap_or(0);
            let wide = |at| file::read_u64(region, at).unwrap_or(0);
            let size = field(ring::SIZE) as usize;
            if field(ring::MAGIC) != RING_MAGIC
                || size < RING_FIRST
                || !size.is_multiple_of(RING_FIRST)
            {
                // A region reserved and never begun is all zeros up to the next page.
                self.damaged |= field(ring::MAGIC) != 0;
                self.at += RING_FIRST;
                continue;
            }
            self.at = self.at.saturating_add(size);
            // A region that its thread has left holds a block as one that is filled does.
            let thread = field(ring::THREAD) & !attendance::LEFT;
            let Some(thread) = thread.checked_sub(1).filter(|_| thread != attendance::PIECE) else {
                continue;
            };
            let position = wide(ring::POSITION);
            let (sequence, published) = ((position >> 32) as u32, position as u32 as usize);
            let Some(payload) = region
                .get(..size)
                .and_then(|r| r.get(RING_HEADER_LEN..RING_HEADER_LEN.saturating_add(published)))
            else {
                self.damaged = true;
                continue;
            };
            // Between the write of a block and the move to the next sequence number the ring
            // repeats what a segment has.
            let drained = u64::from(sequence) < wide(ring::DRAINED);
            let call = wide(ring::CALL);
            return Some(Ring {
                block: Block {
                    thread,
                    sequence,
                    base: wide(ring::BASE),
                    payload: if drained { &[] } else { payload },
                },
                dropped: wide(ring::DROPPED),
                failed: field(ring::FAILED).checked_sub(1).map(u64::from),
                in_call: (call & 0xffff)
                    .checked_sub(1)
                    .map(|function| (function as u16, wide(ring::CALL_BEGIN))),
            });
        }
        None
    }
}

/// Iterates over (time, record); a block that cannot be decoded to its end stops early and is
/// flagged.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    rest: &'a [u8],
    /// What the next delta is counted from.
    time: u64,
    damaged: bool,
}

/// The most frequent record, decoded without the others: a [`Record::Plain`] whose times need no
/// prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plain {
    /// When the call ended, in ticks.
    pub time: u64,
    /// Function id.
    pub function: u16,
    /// Packed small arguments.
    pub small: u32,
    /// Object, 0 if none.
    pub id: u32,
    /// Ticks the call took.
    pub duration: u64,
}

impl Records<'_> {
    /// Whether bytes were left that are no record.
    pub fn damaged(&self) -> bool {
        self.damaged
    }

    /// The next record if it is a plain one; else nothing is read. What it gives is what
    /// [`next`](Self::next) would have given.
    #[inline]
    pub fn next_plain(&mut self) -> Option<Plain> {
        let (first, second) = record::plain_words(self.rest)?;
        self.rest = self.rest.get(record::PLAIN_LEN..)?;
        self.time = self.time.wrapping_add(first >> 32);
        let (function, small, id, duration) = record::plain_fields(first, second);
        Some(Plain { time: self.time, function, small, id, duration })
    }

    /// Passes over the plain records that come next, and gives the latest of their times.
    pub fn pass_plain(&mut self) -> Option<u64> {
        let mut latest = None;
        while let Some((first, _)) = record::plain_words(self.rest) {
            self.rest = self.rest.get(record::PLAIN_LEN..).unwrap_or(&[]);
            self.time = self.time.wrapping_add(first >> 32);
            latest = latest.max(Some(self.time));
        }
        latest
    }

    /// Passes over the plain records that come next as long as `passes` says so of their functions,
    /// and gives what they amount to; `None` where there is none.
    #[inline]
    pub fn pass_plain_of(&mut self, passes: impl Fn(u16) -> bool) -> Option<Passed> {
        let mut out: Option<Passed> = None;
        while let Some((first, second)) = record::plain_words(self.rest) {
            let (function, _, _, duration) = record::plain_fields(first, second);
            if !passes(function) {
                break;
            }
            self.rest = self.rest.get(record::PLAIN_LEN..).unwrap_or(&[]);
            self.time = self.time.wrapping_add(first >> 32);
            let out = out.get_or_insert(Passed {
                records: 0,
                latest: self.time,
                ticks: 0,
                longest: (function, duration),
            });
            out.records += 1;
            out.latest = out.latest.max(self.time);
            out.ticks = out.ticks.saturating_add(duration);
            if duration > out.longest.1 {
                out.longest = (function, duration);
            }
        }
        out
    }
}

/// What plain records that were passed over amount to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passed {
    /// How many.
    pub records: u64,
    /// The latest of their times, in ticks.
    pub latest: u64,
    /// Ticks that all calls took: a duration of a plain record has 32 bits.
    pub ticks: u64,
    /// Function id and ticks of the longest; of equal ones the first.
    pub longest: (u16, u64),
}

impl<'a> Iterator for Records<'a> {
    type Item = (u64, Record<'a>);

    fn next(&mut self) -> Option<(u64, Record<'a>)> {
        let mut high = High::default();
        while !self.rest.is_empty() {
            let Some((length, decoded)) = record::decode(self.rest, high) else {
                self.damaged = true;
                self.rest = &[];
                break;
            };
            self.rest = self.rest.get(length..).unwrap_or(&[]);
            match decoded {
                Decoded::Prefix(halves) => high = halves,
                Decoded::Record(delta, record) => {
                    self.time = self.time.wrapping_add(delta);
                    // Deltas do not count what a run grew by after its first call.
                    let grown = if let Record::Run(run) = &record { run.span } else { 0 };
                    return Some((self.time.wrapping_add(u64::from(grown)), record));
                }
            }
        }
        None
    }
}
