//! Records as words: what the recorder writes. Refuses to know where they go.

use super::{Command, Detail, DropReason, Run, SMALL_BITS, Untimed, WAITS_INLINE, flag, kind};

/// Word 0 of a long record of `words` words.
pub const fn head(kind: u8, words: usize, function: u16, delta: u32) -> u64 {
    (function as u64)
        | ((words as u64 & 0xff) << 16)
        | ((kind as u64 & 0x7f) << 24)
        | ((delta as u64) << 32)
}

/// A plain record. `function` < [`MAX_FUNCTIONS`](super::MAX_FUNCTIONS), `small` <
/// 2^[`SMALL_BITS`].
#[inline(always)]
pub const fn plain(function: u16, small: u32, id: u32, delta: u32, duration: u32) -> [u64; 2] {
    let head = (1u64 << 31) | ((function as u64) << SMALL_BITS) | small as u64;
    [head | ((delta as u64) << 32), duration as u64 | ((id as u64) << 32)]
}

/// A prefix with the upper halves of the next record's delta and duration.
pub const fn prefix(delta: u64, duration: u64) -> [u64; 2] {
    [head(kind::PREFIX, 2, 0, 0), (delta >> 32) | (duration >> 32 << 32)]
}

/// The fixed part of a `Call` with `args` kept arguments, which follow it. At most 250 of them.
pub const fn call(function: u16, args: usize, result: i32, delta: u32, duration: u32) -> [u64; 2] {
    [head(kind::CALL, 2 + args, function, delta), duration as u64 | ((result as u32 as u64) << 32)]
}

/// The fixed part of a `Command`; `waits.len()` entries of `c.waits` follow it, padded to a word,
/// and where `c.site` is not 0 a word with that.
#[inline(always)]
pub fn command(c: &Command<'_>, delta: u32) -> [u64; 7] {
    let waits = c.waits.len().min(WAITS_INLINE);
    let flags = if c.site != 0 { c.flags | flag::CALL_SITE } else { c.flags & !flag::CALL_SITE };
    [
        head(kind::COMMAND, 7 + waits.div_ceil(2) + usize::from(c.site != 0), c.function, delta),
        c.duration & 0xffff_ffff | (u64::from(c.result as u32) << 32),
        c.id,
        u64::from(c.queue) | (u64::from(c.object) << 32),
        u64::from(c.object2) | (u64::from(c.geometry) << 32),
        c.kind as u64
            | (u64::from(flags) << 8)
            | ((waits as u64) << 16)
            | (u64::from(c.extra) << 32),
        c.bytes,
    ]
}

/// The fixed part of a `MoreWaits` with `count` entries, at most [`WAITS_INLINE`].
pub const fn more_waits(command: u64, count: usize, delta: u32) -> [u64; 3] {
    [head(kind::MORE_WAITS, 3 + count.div_ceil(2), 0, delta), command, count as u64]
}

/// A `Timing` of delta 0, if the stamps lie near enough to each other.
#[inline(always)]
pub const fn narrow_timing(command: u64, stamps: [u64; 4]) -> Option<[u64; 5]> {
    let [queued, submit, start, end] = stamps;
    let (wait, submitted, ran) =
        (start.wrapping_sub(queued), submit.wrapping_sub(queued), end.wrapping_sub(start));
    if (wait | submitted | ran) >> 32 != 0 {
        return None;
    }
    Some([head(kind::TIMING, 5, 0, 0), command, start, wait | (submitted << 32), ran])
}

/// A record of delta 0 with another delta.
#[inline(always)]
pub const fn with_delta<const N: usize>(mut words: [u64; N], delta: u32) -> [u64; N] {
    words[0] |= (delta as u64) << 32;
    words
}

/// A `Timing` (five words) or `TimingWide` (six words): the words and how many of them count.
pub fn timing(command: u64, stamps: [u64; 4], delta: u32) -> ([u64; 6], usize) {
    let [queued, submit, start, end] = stamps;
    match narrow_timing(command, stamps) {
        Some(narrow) => {
            let [head, command, start, waits, ran] = with_delta(narrow, delta);
            ([head, command, start, waits, ran, 0], 5)
        }
        None => ([head(kind::TIMING_WIDE, 6, 0, delta), command, queued, submit, start, end], 6),
    }
}

/// A `ReadTiming`.
pub const fn read_timing(
    command: u64,
    [queued, submit, start, end]: [u64; 4],
    delta: u32,
) -> [u64; 6] {
    [head(kind::READ_TIMING, 6, 0, delta), command, queued, submit, start, end]
}

/// An `Untimed`.
pub const fn untimed(command: u64, reason: Untimed, detail: i32, delta: u32) -> [u64; 3] {
    [head(kind::UNTIMED, 3, 0, delta), command, reason as u64 | ((detail as u32 as u64) << 32)]
}

/// A `Dropped`.
pub const fn dropped(count: u64, reason: DropReason, delta: u32) -> [u64; 3] {
    [head(kind::DROPPED, 3, 0, delta), count, reason as u64]
}

/// A `Paused` or `Resumed`.
pub const fn paused(on: bool, delta: u32) -> [u64; 1] {
    [head(if on { kind::PAUSED } else { kind::RESUMED }, 1, 0, delta)]
}

/// A `Detail`.
pub const fn detail(d: &Detail, delta: u32) -> [u64; 5] {
    let [first, second, third] = d.values;
    let what = d.what as u64 | ((d.site as u64) << 32);
    [head(kind::DETAIL, 5, d.function, delta), what, first, second, third]
}

/// A `Run`. The state that does not count is zero.
pub const fn run(r: &Run, delta: u32) -> [u64; Run::WORDS] {
    let mut words = [0; Run::WORDS];
    words[0] = head(kind::RUN, Run::WORDS, r.function, delta);
    words[1] = r.small as u64 | ((r.id as u64) << 32);
    let ([sums, extremes], at) = (r.state_words(), Run::state(r.count));
    words[at] = sums;
    words[at + 1] = extremes;
    words[Run::COUNT] = r.count as u64 | ((r.first as u64) << 32);
    words
}
