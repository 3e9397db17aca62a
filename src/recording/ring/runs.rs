//! Runs: what an application that polls records. Identical calls in a row share one record, which
//! stays the last of the ring and is changed in place, so that it survives the process like any
//! other. A run begins behind a few plain records, since pairs of calls that look alike are common,
//! and a run takes the room of three and a half.

use crate::recording;
use crate::recording::guard::{self, Thread, publish};
use crate::recording::ring::protocol;
use crate::settings::config;
use clscope_trace::record::{self, MAX_FUNCTIONS, Run, SMALL_BITS};
use clscope_trace::ring_file::RING_HEADER_LEN;

/// Identical plain records that stand before a run.
const BEFORE: usize = 4;

/// Adds a call to the run that is the last record, or begins one behind plain records of it. `key`
/// is the thread's: the last record is one of such calls. `delta` ticks after the time that the
/// next record's delta is counted from. `false`: the call gets a record of its own.
#[inline(never)]
pub fn added(t: &Thread, key: u64, delta: u32, duration: u32) -> bool {
    let cursor = t.cursor.get();
    // SAFETY: the ring's last record lies there, of at least two words.
    let tail = unsafe { cursor.sub(2).read() };
    // A run whose calls are all shorter than that has the bit clear in this word, and a plain
    // record has it set.
    if duration >> 31 != 0 {
        return false;
    }
    if tail & (1 << 31) == 0 {
        // SAFETY: the last record is no plain one, so it is a run, of this thread's ring.
        return unsafe { protocol::add_to_run(cursor.sub(Run::WORDS), delta, duration) };
    }
    began(t, key, delta, duration)
}

#[cold]
#[inline(never)]
fn began(t: &Thread, key: u64, delta: u32, duration: u32) -> bool {
    let cursor = t.cursor.get();
    let first = t.header.get().wrapping_add(RING_HEADER_LEN) as usize;
    let has = |bytes: usize, words: usize| bytes / 8 >= words;
    if !has(cursor as usize - first, 2 * BEFORE)
        || !has(t.limit.get() as usize - cursor as usize, Run::WORDS)
        || !config::get().collapse
    {
        return false;
    }
    // Where those before the last are none, but look so, the run begins earlier, which is no harm.
    let alike = (2..=BEFORE).all(|back| {
        // SAFETY: so many words of records lie before the cursor.
        let [head, object] = unsafe { cursor.sub(2 * back).cast::<[u64; 2]>().read() };
        (head & 0xffff_ffff) | (object & !0xffff_ffff) == key
    });
    if !alike {
        return false;
    }
    let run = Run {
        function: (key >> SMALL_BITS) as u16 & (MAX_FUNCTIONS - 1),
        small: key as u32 & ((1 << SMALL_BITS) - 1),
        id: (key >> 32) as u32,
        count: 1,
        first: duration,
        span: 0,
        total: duration,
        shortest: duration,
        longest: duration,
    };
    // SAFETY: there is room for it in the ring, which this thread alone writes.
    unsafe {
        cursor.cast::<[u64; Run::WORDS]>().write(record::run(&run, delta));
        t.cursor.set(cursor.add(Run::WORDS));
    }
    let end = t.last.get() + u64::from(delta);
    publish(t, end, (Run::WORDS * 8) as u64);
    // The ring may be full in a long time only, which is when the clocks are read otherwise.
    guard::protect((), || recording::maybe_anchor(end));
    true
}
