//! Records on their way into a thread's ring: short ones in a row, others with all they need. Room
//! is made by [`super::make_room`].

use super::super::guard::{Thread, publish};
use super::super::now;
use super::make_room;
use super::protocol::cell;
use clscope_trace::record::{self, DropReason};
use clscope_trace::ring_file::ring;
use std::sync::atomic::{Ordering, compiler_fence};

/// Delta of a record at `time`, and `time` itself moved forward where the clock stood still or a
/// record is late: deltas never are negative.
fn delta(t: &Thread, time: u64) -> (u64, u64) {
    let time = time.max(t.last.get());
    (time - t.last.get(), time)
}

/// Appends words to the ring. The caller has made room for them.
pub(super) fn put_words(t: &Thread, words: &[u64]) {
    let at = t.cursor.get();
    // SAFETY: callers made room for as many words as they put; the ring is mapped and written by
    // this thread only.
    unsafe {
        std::ptr::copy_nonoverlapping(words.as_ptr(), at, words.len());
        t.cursor.set(at.add(words.len()));
    }
    t.key.set(0);
}

/// Writes one long record, with a prefix where its delta or duration needs more than 32 bits.
fn write_long(
    t: &Thread,
    time: u64,
    duration: u64,
    fixed: impl FnOnce(u32) -> Words,
    tail: &[u64],
) {
    let outer = t.writing.replace(true);
    compiler_fence(Ordering::SeqCst);
    append(t, time, duration, fixed, tail);
    compiler_fence(Ordering::SeqCst);
    t.writing.set(outer);
}

fn append(t: &Thread, time: u64, duration: u64, fixed: impl FnOnce(u32) -> Words, tail: &[u64]) {
    // A ring may be drained while room is made, which moves the base: the delta is taken
    // afterwards.
    let needed = (2 + 7 + tail.len()) * 8;
    if (t.limit.get() as usize).wrapping_sub(t.cursor.get() as usize) < needed
        && !make_room(t, time)
    {
        // SAFETY: set by `acquire` to a leaked box that only this thread uses; nobody holds a
        // reference to it here.
        if let Some(owned) = unsafe { t.ring.get().as_mut() } {
            owned.lost(1);
        }
        count_dropped(t, 1);
        return;
    }
    let (delta, time) = delta(t, time);
    let prefixed = (delta | duration) >> 32 != 0;
    let fixed = fixed(delta as u32);
    let fixed = fixed.as_slice();
    let prefix = record::prefix(delta, duration);
    let prefix: &[u64] = if prefixed { &prefix } else { &[] };
    for words in [prefix, fixed, tail] {
        put_words(t, words);
    }
    publish(t, time, ((prefix.len() + fixed.len() + tail.len()) * 8) as u64);
}

/// Up to seven words on the stack.
struct Words([u64; 7], usize);

impl Words {
    fn copy(words: &[u64]) -> Self {
        let mut out = Self([0; 7], words.len().min(7));
        for (to, from) in out.0.iter_mut().zip(words) {
            *to = *from;
        }
        out
    }
    fn as_slice(&self) -> &[u64] {
        self.0.get(..self.1).unwrap_or(&[])
    }
}

/// Writes a long record of few words where there is room for it and nothing needs more than 32
/// bits: in a row, without a call. What a launch pays for is the memory and the code that it
/// touches, which the runtime has displaced from the caches meanwhile.
#[inline(always)]
fn write_short<const N: usize>(
    t: &Thread,
    time: u64,
    duration: u64,
    words: impl FnOnce(u32) -> [u64; N],
) -> bool {
    let cursor = t.cursor.get();
    let delta = time.wrapping_sub(t.last.get());
    if (t.limit.get() as usize).wrapping_sub(cursor as usize) < N * 8
        || (delta | duration) >> 32 != 0
    {
        return false;
    }
    let outer = t.writing.replace(true);
    compiler_fence(Ordering::SeqCst);
    let words = words(delta as u32);
    // SAFETY: N words are left in the ring, which is mapped, aligned and written by this thread
    // only.
    unsafe {
        cursor.cast::<[u64; N]>().write(words);
        t.cursor.set(cursor.add(N));
    }
    t.key.set(0);
    publish(t, time, (N * 8) as u64);
    compiler_fence(Ordering::SeqCst);
    t.writing.set(outer);
    true
}

/// A plain record that the fast path could not write.
pub fn plain(t: &Thread, function: u16, id: u32, small: u32, time: u64, duration: u64) {
    write_long(
        t,
        time,
        duration,
        |d| Words::copy(&record::plain(function, small, id, d, duration as u32)),
        &[],
    );
}

/// A call in the long form.
pub fn call(t: &Thread, function: u16, code: i32, arguments: &[u64], time: u64, duration: u64) {
    write_long(
        t,
        time,
        duration,
        |d| Words::copy(&record::call(function, arguments.len(), code, d, duration as u32)),
        arguments,
    );
}

/// A command at its enqueue, with its whole wait list. `make` is called twice on the slow path, so
/// that its value is never spilled to memory: reading it back in wider words would defeat store
/// forwarding.
#[inline(always)]
pub fn command<'a>(t: &Thread, make: impl Fn() -> record::Command<'a>, time: u64) {
    let c = &make();
    let written = match (c.waits.is_empty(), c.site) {
        (false, _) => false,
        (true, 0) => write_short(t, time, c.duration, |d| record::command(c, d)),
        (true, site) => write_short(t, time, c.duration, |d| {
            let [a, b, c, d, e, f, g] = record::command(c, d);
            [a, b, c, d, e, f, g, u64::from(site)]
        }),
    };
    if !written {
        long_command(t, &make(), time);
    }
}

#[inline(never)]
fn long_command(t: &Thread, c: &record::Command<'_>, time: u64) {
    let mut waits = c.waits.0.chunks(record::WAITS_INLINE * 4);
    let words = |bytes: &[u8]| -> Vec<u64> {
        bytes
            .chunks(8)
            .map(|chunk| {
                let mut word = [0; 8];
                word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
                u64::from_le_bytes(word)
            })
            .collect()
    };
    // No allocation for the common case: an empty Vec owns no memory.
    let mut first = waits.next().map(words).unwrap_or_default();
    let site = [u64::from(c.site)];
    let tail = match (c.site, first.is_empty()) {
        (0, _) => &first[..],
        (_, true) => &site,
        (_, false) => {
            first.extend(site);
            &first
        }
    };
    write_long(t, time, c.duration, |d| Words::copy(&record::command(c, d)), tail);
    for more in waits {
        write_long(
            t,
            time,
            0,
            |d| Words::copy(&record::more_waits(c.id, more.len() / 4, d)),
            &words(more),
        );
    }
}

/// The stamps of a command, at the time it was seen complete.
pub fn timing(t: &Thread, command: u64, stamps: [u64; 4], time: u64) {
    if let Some(words) = record::narrow_timing(command, stamps)
        && write_short(t, time, 0, |d| record::with_delta(words, d))
    {
        return;
    }
    write_long(
        t,
        time,
        0,
        |d| {
            let (words, n) = record::timing(command, stamps, d);
            Words::copy(words.get(..n).unwrap_or(&[]))
        },
        &[],
    );
}

/// The stamps of a command that the application has queried.
pub fn read_timing(t: &Thread, command: u64, stamps: [u64; 4], time: u64) {
    write_long(t, time, 0, |d| Words::copy(&record::read_timing(command, stamps, d)), &[]);
}

/// What a checked run saw inside the call that is under way.
pub fn detail(t: &Thread, detail: &record::Detail, time: u64) {
    write_long(t, time, 0, |d| Words::copy(&record::detail(detail, d)), &[]);
}

/// A command has no time.
pub fn untimed(t: &Thread, command: u64, reason: record::Untimed, detail: i32, time: u64) {
    write_long(t, time, 0, |d| Words::copy(&record::untimed(command, reason, detail, d)), &[]);
}

/// Recording was paused, or goes on.
pub fn paused(t: &Thread, on: bool, time: u64) {
    write_long(t, time, 0, |d| Words::copy(&record::paused(on, d)), &[]);
}

/// Counts records that could not be written.
pub fn count_dropped(t: &Thread, records: u64) {
    // SAFETY: a ring header or SCRATCH.
    unsafe { cell(t.header.get(), ring::DROPPED) }.fetch_add(records, Ordering::Relaxed);
}

/// The call that the thread was in was left, and has no record.
pub fn left(t: &Thread) {
    if t.ring.get().is_null() {
        return count_dropped(t, 1);
    }
    write_long(t, now(), 0, |d| Words::copy(&record::dropped(1, DropReason::Left, d)), &[]);
}
