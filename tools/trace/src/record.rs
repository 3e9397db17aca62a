//! Records: what a thread writes into its ring, 8-byte words, most often 16 bytes.
//!
//! Word 0 is `head | delta << 32`. Two shapes of head:
//!
//! * **plain**, bit 31 set: bits 30..21 the function, bits 20..0 its small arguments packed as the
//!   function's definition says. Always 16 bytes: word 1 is `duration | id << 32`. A call that
//!   succeeded and had no more to say.
//! * **long**, bit 31 clear: bits 30..24 the kind, bits 23..16 the length in words, bits 15..0 the
//!   function (0 if none).
//!
//! | kind | words after word 0 |
//! |---|---|
//! | 1 `Prefix` | `delta_high \| duration_high << 32`: the upper halves of the next record's delta and duration |
//! | 2 `Call` | `duration \| result << 32`, then the kept arguments, one word each, in the order of the definition |
//! | 3 `Command` | `duration \| result << 32`; command id; `queue \| object << 32`; `object2 \| geometry << 32`; `command kind (8 bits) \| flags << 8 \| waits << 16 (16 bits) \| extra << 32`; bytes; then wait-list entries, u32 each, padded to a word; with the flag 64 one more word: `call site \| 0 << 32` |
//! | 4 `MoreWaits` | command id; `count`; u32 entries: wait-list entries that did not fit |
//! | 5 `Timing` | command id; START (device ns); `START-QUEUED \| SUBMIT-QUEUED << 32`; `END-START` (low 32 bits; high 32 reserved) |
//! | 6 `TimingWide` | command id; QUEUED; SUBMIT; START; END |
//! | 7 `Untimed` | command id; `reason \| detail << 32` |
//! | 8 `Dropped` | count of records; reason |
//! | 10 `Paused` / 11 `Resumed` | none |
//! | 12 `Run` (since 1.1) | `small arguments \| id << 32`; state A: `total \| span << 32`, `shortest \| longest << 32`; state B: the same; `count \| first << 32` |
//! | 13 `ReadTiming` (since 1.2) | command id; QUEUED; SUBMIT; START; END |
//! | 14 `Detail` (since 1.3) | `what \| site << 32`; three values ([`mod@detail`]) |
//! | 9, 15, 32 to 35 | reserved ([`kind::RESERVED`]): a reader takes them for unknown kinds |
//!
//! A `Run` stands for `count` successful calls of one function with the same object and the same
//! small arguments, one after the other on a thread with nothing recorded between them. `first` is
//! the duration of its first call, `span` the time from the end of the first call to the end of the
//! last, `total`, `shortest` and `longest` are of the durations of all; ticks, in 32 bits each. Its
//! delta leads to the end of the first call, from which the next record's delta is counted, too:
//! the thread goes on adding calls to it while it is the last record of the block. To add one, it
//! writes the state that does not count and then stores `count`: with an odd count state A counts,
//! with an even one B. So the record of a killed process is whole. Who reads the ring of a running
//! process asks for `count` again afterwards.
//!
//! A `Detail` tells what was seen inside the call whose own record follows on the same thread; its
//! head names that call's function. Most are of checked runs (`CLSCOPE_CHECK`); what memory of the
//! host a transfer uses is told in any run ([`detail::HOST_MEMORY`]).
//!
//! A kernel launch's or transfer's `extra` is the probability with which it was chosen for timing,
//! as f32 bits; 0 means that it was certain. It is kept for launches that were timed and for those
//! that were left out ([`flag::NOT_SAMPLED`]), so that totals can be estimated without bias. Other
//! commands keep a further argument of their function there (map flags).
//!
//! Which commands an outcome follows for is in the flags: [`flag::TIMED`] promises a `Timing` or an
//! `Untimed`; [`flag::NOT_SAMPLED`] means that there is none. A command with neither may have an
//! `Untimed` right behind it that says why; where it has not, timing was off for the whole process
//! (its definition names the method).
//!
//! With [`flag::READ`] the application is expected to query the time of the command itself. Where
//! it does, the outcome is a `ReadTiming`, chosen or not, and the probability says nothing any
//! more: a `Timing` behind such a command tells that it was chosen and *not* queried.
//!
//! Wait-list entries are the low 32 bits of a command id (0: an event we never saw). Ids are never
//! reused, and an entry means the newest such id not after the waiting command. A record's time is
//! its end; see the crate's page.

pub mod detail;
mod encode;
mod kinds;
#[cfg(test)]
mod tests;

pub use detail::Detail;
pub use encode::*;
pub use kinds::{CommandKind, Direction, DropReason, Untimed};

/// Bits of the small-arguments field of a plain record.
pub const SMALL_BITS: u32 = 21;
/// Most functions a trace can name in plain records.
pub const MAX_FUNCTIONS: u16 = 1 << 10;
/// Result of a call that failed without a code (a NULL handle and no `errcode_ret`).
pub const RESULT_UNKNOWN: i32 = i32::MIN;
/// Wait-list entries that fit one `Command` record.
pub const WAITS_INLINE: usize = 400;

/// Kinds of long records.
pub mod kind {
    #![allow(missing_docs)] // the table above is their documentation
    pub const PREFIX: u8 = 1;
    pub const CALL: u8 = 2;
    pub const COMMAND: u8 = 3;
    pub const MORE_WAITS: u8 = 4;
    pub const TIMING: u8 = 5;
    pub const TIMING_WIDE: u8 = 6;
    pub const UNTIMED: u8 = 7;
    pub const DROPPED: u8 = 8;
    pub const PAUSED: u8 = 10;
    pub const RESUMED: u8 = 11;
    pub const RUN: u8 = 12;
    pub const READ_TIMING: u8 = 13;
    pub const DETAIL: u8 = 14;
    /// Numbers that no writer uses. 9 was to be a probability of sampling, which stands with each
    /// command instead; 15 is kept for what threads record next; 32 to 35 were kept for what
    /// now are definitions and the sampler's records.
    pub const RESERVED: [u8; 6] = [9, 15, 32, 33, 34, 35];
}

/// Flags of a `Command`.
pub mod flag {
    /// The application asked for the event.
    pub const APP_EVENT: u8 = 1;
    /// The call blocks until the command is complete.
    pub const BLOCKING: u8 = 2;
    /// Its time was asked for; a `Timing` or `Untimed` record is to follow.
    pub const TIMED: u8 = 4;
    /// The application itself created the queue with profiling.
    pub const APP_PROFILING: u8 = 8;
    /// Left out by the sampling method: no outcome follows.
    pub const NOT_SAMPLED: u8 = 16;
    /// The call had to be repeated as the application wrote it: our event or profiling bit was
    /// refused.
    pub const REPEATED: u8 = 32;
    /// The word behind the wait list is the call site.
    pub const CALL_SITE: u8 = 64;
    /// The application queries the times of such commands itself: a `ReadTiming` may follow,
    /// whether or not the command was chosen for timing. (Since 1.2.)
    pub const READ: u8 = 128;
}
/// One decoded record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Record<'a> {
    /// A host call that succeeded and had no more to say than one object and a few small arguments.
    Plain {
        /// Function.
        function: u16,
        /// Packed small arguments.
        small: u32,
        /// Id of the object, 0 if none.
        id: u32,
        /// Ticks.
        duration: u64,
    },
    /// A host call.
    Call {
        /// Function.
        function: u16,
        /// Ticks.
        duration: u64,
        /// Error code, 0 success.
        result: i32,
        /// Kept arguments.
        args: Words<'a>,
    },
    /// A host call that enqueued a command.
    Command(Command<'a>),
    /// Wait-list entries that did not fit the `Command`.
    MoreWaits {
        /// Command id.
        command: u64,
        /// Low halves of command ids.
        waits: Waits<'a>,
    },
    /// The four stamps of a command, in device nanoseconds. The record's time is when the host knew
    /// it complete.
    Timing {
        /// Command id.
        command: u64,
        /// QUEUED, SUBMIT, START, END.
        stamps: [u64; 4],
    },
    /// The four stamps of a command that the application queried itself, in device nanoseconds. The
    /// record's time is that of its query.
    ReadTiming {
        /// Command id.
        command: u64,
        /// QUEUED, SUBMIT, START, END.
        stamps: [u64; 4],
    },
    /// A command has no time.
    Untimed {
        /// Command id.
        command: u64,
        /// Why.
        reason: Untimed,
        /// Error or execution status that goes with the reason.
        detail: i32,
    },
    /// Records were lost here.
    Dropped {
        /// How many.
        count: u64,
        /// Why.
        reason: DropReason,
    },
    /// Recording was paused (`true`) or went on (`false`).
    Paused(bool),
    /// Identical host calls in a row. The record's time is the end of the last.
    Run(Run),
    /// What was seen inside the call whose record follows.
    Detail(Detail),
    /// A kind this version does not know.
    Unknown {
        /// Its number.
        kind: u8,
    },
}

/// Identical host calls in a row, each of which would be a [`Record::Plain`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Function.
    pub function: u16,
    /// Packed small arguments.
    pub small: u32,
    /// Id of the object, 0 if none.
    pub id: u32,
    /// How many calls.
    pub count: u32,
    /// Ticks that the first one took.
    pub first: u32,
    /// Ticks from the end of the first to the end of the last.
    pub span: u32,
    /// Ticks that all of them took.
    pub total: u32,
    /// Ticks of the shortest.
    pub shortest: u32,
    /// Ticks of the longest.
    pub longest: u32,
}

impl Run {
    /// Words of the record.
    pub const WORDS: usize = 7;
    /// Where in the record the words of the state lie that counts with `count` calls.
    #[inline(always)]
    pub const fn state(count: u32) -> usize {
        if count & 1 == 1 { 2 } else { 4 }
    }
    /// Place of the word that says how many calls.
    pub const COUNT: usize = 6;

    /// The two words of its state.
    #[inline(always)]
    pub const fn state_words(&self) -> [u64; 2] {
        [
            self.total as u64 | ((self.span as u64) << 32),
            self.shortest as u64 | ((self.longest as u64) << 32),
        ]
    }

    /// With the state that two words say.
    #[inline(always)]
    pub const fn with_state(self, [sums, extremes]: [u64; 2]) -> Self {
        Self {
            total: sums as u32,
            span: (sums >> 32) as u32,
            shortest: extremes as u32,
            longest: (extremes >> 32) as u32,
            ..self
        }
    }

    /// From the beginning of the first call to the end of the last, in ticks.
    pub const fn extent(&self) -> u64 {
        self.first as u64 + self.span as u64
    }
}

/// A command at its enqueue.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Command<'a> {
    /// The enqueuing function.
    pub function: u16,
    /// Ticks the call took.
    pub duration: u64,
    /// Error code of the call.
    pub result: i32,
    /// Command id, from 1, never reused.
    pub id: u64,
    /// Queue id.
    pub queue: u32,
    /// Kernel id for kernels, else the (source) memory object, 0 if none.
    pub object: u32,
    /// Destination of a copy, 0 if none.
    pub object2: u32,
    /// Geometry id, 0 if none.
    pub geometry: u32,
    /// What it does.
    pub kind: CommandKind,
    /// Bits of [`flag`].
    pub flags: u8,
    /// Kernels and transfers: f32 bits of the probability with which it was chosen for timing, 0 if
    /// certain; see [`probability`](Self::probability). Others: a further argument of the function
    /// (map flags, ...).
    pub extra: u32,
    /// Bytes moved, 0 if none or unknown.
    pub bytes: u64,
    /// Wait list.
    pub waits: Waits<'a>,
    /// Id of the [`CallSite`](crate::defs::CallSite) that the call came from, 0 if it was not
    /// recorded.
    pub site: u32,
}

impl Command<'_> {
    /// Probability with which the command was chosen for timing: in (0, 1], 1 for what is always
    /// timed. `None` where the record holds no probability.
    pub fn probability(&self) -> Option<f64> {
        if !self.kind.is_sampled() || self.extra == 0 {
            return Some(1.0);
        }
        let p = f32::from_bits(self.extra);
        (p > 0.0 && p <= 1.0).then_some(f64::from(p))
    }
}

impl Command<'_> {
    /// What its enqueue recorded where its time turned out to be known for certain
    /// ([`Record::ReadTiming`]).
    pub fn certain(&mut self) {
        self.flags = (self.flags | flag::TIMED) & !flag::NOT_SAMPLED;
        if self.kind.is_sampled() {
            self.extra = 0;
        }
    }
}

/// Classes of transfers that take about as long: the binary logarithm of their bytes, 0 for none.
pub const fn size_class(bytes: u64) -> u32 {
    u64::BITS - bytes.leading_zeros()
}

/// `extra` of a command chosen with this probability, in (0, 1].
pub fn probability_bits(probability: f32) -> u32 {
    if probability < 1.0 { probability.to_bits() } else { 0 }
}

/// Kept arguments, one u64 each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Words<'a>(pub &'a [u8]);

impl Words<'_> {
    /// The values in order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.chunks_exact(8).map(|c| u64::from_le_bytes(c.try_into().unwrap_or([0; 8])))
    }
}

/// A wait list: low halves of command ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waits<'a>(pub &'a [u8]);

impl Waits<'_> {
    /// The entries in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.chunks_exact(4).map(|c| u32::from_le_bytes(c.try_into().unwrap_or([0; 4])))
    }
    /// Number of entries.
    pub fn len(&self) -> usize {
        self.0.len() / 4
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Upper halves given by a `Prefix`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct High {
    delta: u64,
    duration: u64,
}

/// What stands at the start of some bytes.
pub(crate) enum Decoded<'a> {
    Prefix(High),
    Record(u64, Record<'a>),
}

/// Decodes one record: its length in bytes and the (delta, record), or `None` where the bytes
/// cannot be one.
/// Bytes of a plain record.
pub(crate) const PLAIN_LEN: usize = 16;

/// The words of a plain record, if the bytes begin with one.
#[inline]
pub(crate) fn plain_words(bytes: &[u8]) -> Option<(u64, u64)> {
    let (first, second) = bytes.get(..PLAIN_LEN)?.split_at(8);
    let word = |half: &[u8]| Some(u64::from_le_bytes(half.try_into().ok()?));
    let first = word(first)?;
    (first & (1 << 31) != 0).then_some((first, word(second)?))
}

/// Function, packed arguments, object and ticks of a plain record without a prefix.
#[inline]
pub(crate) fn plain_fields(first: u64, second: u64) -> (u16, u32, u32, u64) {
    let function = ((first >> SMALL_BITS) & u64::from(MAX_FUNCTIONS - 1)) as u16;
    let small = (first & ((1 << SMALL_BITS) - 1)) as u32;
    (function, small, (second >> 32) as u32, second & 0xffff_ffff)
}

pub(crate) fn decode<'a>(bytes: &'a [u8], high: High) -> Option<(usize, Decoded<'a>)> {
    let word = |i: usize| crate::file::read_u64(bytes, i * 8);
    let first = word(0)?;
    let delta = (first >> 32) | (high.delta << 32);
    if first & (1 << 31) != 0 {
        let (function, small, id, duration) = plain_fields(first, word(1)?);
        let duration = duration | (high.duration << 32);
        let record = Record::Plain { function, small, id, duration };
        return Some((PLAIN_LEN, Decoded::Record(delta, record)));
    }
    let words = ((first >> 16) & 0xff) as usize;
    let length = words * 8;
    if words == 0 || bytes.len() < length {
        return None;
    }
    let function = (first & 0xffff) as u16;
    let need = |n: usize| if words >= n { Some(()) } else { None };
    let record = match ((first >> 24) & 0x7f) as u8 {
        kind::PREFIX => {
            need(2)?;
            let halves = word(1)?;
            let high = High { delta: halves & 0xffff_ffff, duration: halves >> 32 };
            return Some((length, Decoded::Prefix(high)));
        }
        kind::CALL => {
            need(2)?;
            let second = word(1)?;
            Record::Call {
                function,
                duration: (second & 0xffff_ffff) | (high.duration << 32),
                result: (second >> 32) as i32,
                args: Words(bytes.get(16..length)?),
            }
        }
        kind::COMMAND => {
            need(7)?;
            let (second, objects, more, what) = (word(1)?, word(3)?, word(4)?, word(5)?);
            let waits = ((what >> 16) & 0xffff) as usize;
            let flags = (what >> 8) as u8;
            let site = if flags & flag::CALL_SITE != 0 {
                word(7 + waits.div_ceil(2)).filter(|_| words > 7 + waits.div_ceil(2))? as u32
            } else {
                0
            };
            Record::Command(Command {
                function,
                duration: (second & 0xffff_ffff) | (high.duration << 32),
                result: (second >> 32) as i32,
                id: word(2)?,
                queue: objects as u32,
                object: (objects >> 32) as u32,
                object2: more as u32,
                geometry: (more >> 32) as u32,
                kind: CommandKind::from_u8(what as u8),
                flags,
                extra: (what >> 32) as u32,
                bytes: word(6)?,
                waits: Waits(bytes.get(56..length)?.get(..waits * 4)?),
                site,
            })
        }
        kind::MORE_WAITS => {
            need(3)?;
            let count = usize::try_from(word(2)?).ok()?;
            Record::MoreWaits {
                command: word(1)?,
                waits: Waits(bytes.get(24..length)?.get(..count.checked_mul(4)?)?),
            }
        }
        kind::TIMING => {
            need(5)?;
            let (start, waits, ran) = (word(2)?, word(3)?, word(4)? & 0xffff_ffff);
            let queued = start.wrapping_sub(waits & 0xffff_ffff);
            let stamps = [queued, queued.wrapping_add(waits >> 32), start, start.wrapping_add(ran)];
            Record::Timing { command: word(1)?, stamps }
        }
        kind::TIMING_WIDE => {
            need(6)?;
            Record::Timing { command: word(1)?, stamps: [word(2)?, word(3)?, word(4)?, word(5)?] }
        }
        kind::READ_TIMING => {
            need(6)?;
            let stamps = [word(2)?, word(3)?, word(4)?, word(5)?];
            Record::ReadTiming { command: word(1)?, stamps }
        }
        kind::UNTIMED => {
            need(3)?;
            let why = word(2)?;
            Record::Untimed {
                command: word(1)?,
                reason: Untimed::from_u32(why as u32),
                detail: (why >> 32) as i32,
            }
        }
        kind::DROPPED => {
            need(3)?;
            Record::Dropped { count: word(1)?, reason: DropReason::from_u64(word(2)?) }
        }
        kind::RUN => {
            need(Run::WORDS)?;
            let (what, counted) = (word(1)?, word(Run::COUNT)?);
            let at = Run::state(counted as u32);
            let run = Run {
                function,
                small: what as u32,
                id: (what >> 32) as u32,
                count: counted as u32,
                first: (counted >> 32) as u32,
                span: 0,
                total: 0,
                shortest: 0,
                longest: 0,
            };
            Record::Run(run.with_state([word(at)?, word(at + 1)?]))
        }
        kind::DETAIL => {
            need(5)?;
            let what = word(1)?;
            Record::Detail(Detail {
                function,
                what: what as u32,
                site: (what >> 32) as u32,
                values: [word(2)?, word(3)?, word(4)?],
            })
        }
        kind::PAUSED => Record::Paused(true),
        kind::RESUMED => Record::Paused(false),
        other => Record::Unknown { kind: other },
    };
    Some((length, Decoded::Record(delta, record)))
}

/// An error code of the API with its name.
pub fn error_text(code: i32) -> String {
    match crate::names::error(code) {
        _ if code == RESULT_UNKNOWN => "failed without a code".to_owned(),
        Some(name) => format!("{name} ({code})"),
        None => code.to_string(),
    }
}
