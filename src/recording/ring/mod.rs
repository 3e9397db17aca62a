//! Rings: where a thread's records lie until a block is full. Each is a mapped region of the ring
//! file, prefaulted and reused, because fresh pages are what recording costs. A full ring is
//! written to the trace in one `pwrite` per block: a large one by the writer ([`crate::recording::ring::writer`])
//! while its thread goes on in another region, others by the thread itself, and large ones as well
//! where the writer takes no more. Rings start at a page and grow, so that thousands of short
//! threads stay cheap.

pub mod end;
pub mod pool;
pub mod protocol;
mod records;
pub mod regions;
pub mod runs;
pub mod writer;

pub use records::*;

use crate::os::threads;
use crate::os::undisturbed::{uncancelled, undisturbed};
use crate::recording::guard::{Thread, publish};
use crate::recording::ring::pool::LARGE;
use crate::recording::ring::regions::{LARGEST, Region, SIZES};
use crate::recording::{Recording, current, diag, files, now};
use clscope_trace::defs;
use clscope_trace::file::BLOCK_HEADER_LEN;
use clscope_trace::record::{self, DropReason, Record};
use clscope_trace::ring_file::{RING_HEADER_LEN, ring};
use clscope_trace::variables::BEHIND;
use end::{KEY, on_exit};
use protocol::{Beginning, cell};
use records::put_words;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

/// Takes the header stores of threads that have no ring yet.
pub static SCRATCH: [AtomicU64; RING_HEADER_LEN / 8] =
    [const { AtomicU64::new(0) }; RING_HEADER_LEN / 8];

/// A thread's ring.
pub struct Owned {
    recording: &'static Recording,
    region: Box<Region>,
    thread: u32,
    /// How many of the records that the header counts as dropped were in blocks that could not be
    /// written.
    failed: u64,
    /// Of the block that is being written.
    place: files::Place,
    /// The region that the thread is going over to, NULL of none.
    next: *mut Region,
    /// There was no other region: the next is looked for at this time, since looking takes longer
    /// than a call.
    looks_at: u64,
    /// It was waited for room, and there was none: not again before there was some.
    waited: bool,
}

impl Owned {
    fn header(&self) -> *mut u8 {
        self.region.header()
    }

    /// Takes note of records that could not be written, which the header's count of drops has.
    fn lost(&mut self, records: u64) {
        self.failed += records;
        self.tell_failed();
    }

    fn tell_failed(&self) {
        // SAFETY: the header of a region that this thread has.
        unsafe { protocol::tell_failed(self.header(), self.failed) };
    }
}
/// Takes a ring for a thread that has none, before its first call. Whether the thread is in a call
/// all the same: its state was wiped in the middle of one.
pub fn begin(t: &Thread) -> bool {
    let Some(recording) = current() else { return false };
    recording.files.undisturbed(|| {
        if recovered(t, recording) {
            // SAFETY: the thread's header.
            return unsafe { cell(t.header.get(), ring::CALL) }.load(Ordering::Relaxed) != 0;
        }
        acquire(t, recording, SIZES[0], None, now());
        false
    })
}

/// Takes the ring back that the thread had before its state was wiped. The dynamic linker makes the
/// thread-locals of a library anew, in all threads, where the library is opened before its
/// constructors ran: by a loader that finds us among its layers, in a call that another library's
/// constructor makes.
#[cold]
fn recovered(t: &Thread, recording: &'static Recording) -> bool {
    let Some(key) = KEY.load(Ordering::Acquire).checked_sub(1) else { return false };
    // SAFETY: a valid key. Its value is NULL or the leaked box that only this thread uses.
    let kept = unsafe { libc::pthread_getspecific(key as libc::pthread_key_t).cast::<Owned>() };
    // SAFETY: as above.
    let Some(owned) = (unsafe { kept.as_mut() }) else { return false };
    if !std::ptr::eq(owned.recording, recording) {
        return false;
    }
    t.ring.set(kept);
    agree(t, owned);
    true
}

/// Makes room for at least one record: takes a ring, drains it, or goes over to a larger one. What
/// happens over and over, with rings that are as large as they get, holds no signal back and no
/// lock: a handler may leave it by `siglongjmp`, and [`mend`] goes on from there.
#[cold]
#[inline(never)]
fn make_room(t: &Thread, time: u64) -> bool {
    let Some(recording) = current() else { return false };
    let owned = t.ring.get();
    if owned.is_null() {
        return recording.files.undisturbed(|| {
            recovered(t, recording) || acquire(t, recording, SIZES[0], None, time)
        });
    }
    // SAFETY: set by `acquire` to a leaked box that only this thread uses.
    let owned = unsafe { &mut *owned };
    if owned.region.is_of_pool() {
        if recording.files.is_attended() {
            if !uncancelled(|| go_on(t, recording, owned, time)) {
                return false;
            }
        } else {
            drain(t, owned, time);
        }
    } else if let Some(size) = SIZES.iter().copied().find(|s| *s > owned.region.size()) {
        undisturbed(|| {
            drain(t, owned, time);
            // Staying small is no failure: a small ring works, only dearer.
            let _ = acquire(t, recording, size, Some(owned.thread), time);
            if size == LARGEST {
                recording.writer.start(recording);
            }
        });
    } else if !hand_over(t, recording, owned) {
        drain(t, owned, time);
    }
    // In the ring that is filled from here on: what a drained ring still holds is given up with it.
    tell_drops(t);
    crate::recording::maybe_anchor(time);
    true
}

/// Takes a region of at least `size` bytes for this thread. With `keep` the thread has a drained
/// ring, which is given back.
fn acquire(
    t: &Thread,
    recording: &'static Recording,
    size: usize,
    keep: Option<u32>,
    time: u64,
) -> bool {
    let region = match recording.regions.take(recording, size) {
        Ok(region) => region,
        Err(error) => {
            if keep.is_none() {
                diag::warn(
                    "no-ring",
                    &format!(
                        "the calls of new threads are not recorded, only counted as dropped: no space for their rings in {} ({error})",
                        recording.files.directory.display()
                    ),
                );
            }
            return false;
        }
    };
    let (thread, sequence) = match keep {
        // SAFETY: the thread's header.
        Some(thread) => (thread, protocol::parts(unsafe { protocol::position(t.header.get()) }).0),
        None => (recording.next_thread.fetch_add(1, Ordering::Relaxed), 0),
    };
    // A record's time may be before the last one's.
    let time = time.max(t.last.get());
    let old = t.ring.get();
    let dropped = begin_region(t, &region, thread, sequence, time);
    // What threads without a ring dropped had no room. SAFETY: a leaked box that only this thread
    // uses, or NULL.
    let failed = unsafe { old.as_ref() }.map_or(dropped, |o| o.failed);
    let place = files::Place::default();
    let owned = Owned {
        recording,
        region,
        thread,
        failed,
        place,
        next: null_mut(),
        looks_at: 0,
        waited: false,
    };
    let owned = Box::new(owned);
    owned.tell_failed();
    t.ring.set(Box::into_raw(owned));
    on_exit(t.ring.get());
    if old.is_null() {
        name_thread(recording, thread);
    } else {
        // SAFETY: made by an earlier `acquire`, not referenced any more.
        recording.regions.give_back(recording, unsafe { Box::from_raw(old) }.region);
    }
    true
}

/// Makes a region the one that the thread fills, with what the header before said of its call and
/// its drops: how many those are.
fn begin_region(t: &Thread, region: &Region, thread: u32, sequence: u64, time: u64) -> u64 {
    let (before, header) = (t.header.get(), region.header());
    // SAFETY: the region is mapped, page-aligned and at least a page; it is ours alone. Before it
    // the thread had another, or SCRATCH, whose call may be any thread's.
    unsafe {
        let call = if t.ring.get().is_null() {
            0
        } else {
            cell(before, ring::CALL).load(Ordering::Relaxed)
        };
        let call_begin = cell(before, ring::CALL_BEGIN).load(Ordering::Relaxed);
        let size = region.size();
        protocol::begin(
            header,
            &Beginning { thread, sequence, base: time, size, call, call_begin },
        );
    }
    t.header.set(header);
    // Drops that the previous header has not reported yet. Taken last: a signal handler may have
    // counted there until now. SAFETY: both are ring headers, or SCRATCH, which threads without a
    // ring share.
    let dropped = unsafe {
        let dropped = cell(before, ring::DROPPED).swap(0, Ordering::Relaxed);
        cell(header, ring::DROPPED).fetch_add(dropped, Ordering::Relaxed);
        dropped
    };
    t.last.set(time);
    t.key.set(0);
    // SAFETY: the header is RING_HEADER_LEN bytes long and the region ends at its size.
    unsafe {
        t.cursor.set(header.add(RING_HEADER_LEN).cast());
        t.limit.set(header.add(region.size()).cast());
    }
    dropped
}

/// Nanoseconds after which a thread without room looks for some again.
const LOOK_AGAIN: u64 = 200_000;

/// Leaves the ring to the process that writes the segments and goes on in another region, if there
/// is one; else the thread's records are dropped until there is.
fn go_on(t: &Thread, recording: &'static Recording, owned: &mut Owned, time: u64) -> bool {
    // SAFETY: the thread's header.
    let (sequence, used) = protocol::parts(unsafe { protocol::position(owned.header()) });
    if used == 0 {
        // No block has this number yet: readers would miss one.
        begin_again(t, owned, time);
        return true;
    }
    if time < owned.looks_at {
        return false;
    }
    let Some(next) = find_room(recording, owned, time) else {
        owned.looks_at = time + crate::recording::ticks_of(LOOK_AGAIN);
        if recording.files.cannot_be_written() {
            diag::warn(
                "disk-full",
                &format!(
                    "records are being dropped: {} takes no more; the application runs on. Free space, or record with --max-size",
                    recording.files.directory.display()
                ),
            );
        } else {
            diag::warn(
                BEHIND,
                "records were dropped, because `clscope record` came too late to empty this process's rings; the application ran on",
            );
        }
        return false;
    };
    let left = go_over(t, owned, next, sequence + 1, t.last.get());
    recording.regions.leave(recording, &left);
    true
}

/// Most nanoseconds that a thread waits for the process that writes the segments: longer than a core
/// that both share is another's, no longer than a turn of the scheduler or two.
const MOST_WAIT: u64 = 20_000_000;

/// Another region. Where all are full it is waited for, as writing this one would take its time,
/// without asking the system: a sandbox may forbid that. Once, until there was room again.
fn find_room(recording: &'static Recording, owned: &mut Owned, time: u64) -> Option<Box<Region>> {
    let end = time + crate::recording::ticks_of(MOST_WAIT);
    let mut found = recording.regions.take(recording, LARGE).ok();
    while found.is_none() && !owned.waited && recording.files.is_attended() {
        for _ in 0..1_000 {
            std::hint::spin_loop();
        }
        found = recording.regions.take(recording, LARGE).ok();
        owned.waited = found.is_none() && now() > end;
    }
    owned.waited &= found.is_none();
    found
}

/// Empties a ring in which nothing is published.
fn begin_again(t: &Thread, owned: &Owned, time: u64) {
    let header = owned.header();
    t.last.set(time.max(t.last.get()));
    // SAFETY: the thread's header, in which nothing is published, and the words behind it.
    unsafe {
        t.cursor.set(header.add(RING_HEADER_LEN).cast());
        t.limit.set(header.add(owned.region.size()).cast());
        protocol::rebase(header, t.last.get());
    }
    t.key.set(0);
}

/// Makes another region the thread's, and gives the one before. A handler's jump in the middle
/// leaves the thread with one of the two, see [`agree`].
fn go_over(
    t: &Thread,
    owned: &mut Owned,
    next: Box<Region>,
    sequence: u64,
    time: u64,
) -> Box<Region> {
    owned.next = Box::into_raw(next);
    // SAFETY: leaked just above, and taken back below or by `agree`.
    begin_region(t, unsafe { &*owned.next }, owned.thread, sequence, time);
    // SAFETY: as above.
    let region = std::mem::replace(&mut owned.region, unsafe { Box::from_raw(owned.next) });
    owned.next = null_mut();
    owned.tell_failed();
    // SAFETY: the header of the region before. The call in progress is in the new one.
    unsafe { cell(region.header(), ring::CALL) }.store(0, Ordering::Relaxed);
    region
}

/// Leaves a full ring to the writer and goes on in another region. Not without being sure to have
/// one. After a handler's jump in the middle the full one stays in the ring file, where readers find
/// it.
fn hand_over(t: &Thread, recording: &'static Recording, owned: &mut Owned) -> bool {
    if !recording.writer.takes() {
        return false;
    }
    let Some(next) = recording.regions.ready() else { return false };
    // SAFETY: the thread's header.
    let (sequence, _) = protocol::parts(unsafe { protocol::position(owned.header()) });
    let region = go_over(t, owned, next, sequence + 1, t.last.get());
    recording.writer.take(recording, region);
    true
}

/// Writes a full ring, which no thread fills any more, to the trace.
pub fn write_full(recording: &Recording, full: &Region) -> bool {
    let header = full.header();
    // SAFETY: the region's header.
    let (position, base, thread) = unsafe {
        let base = cell(header, ring::BASE).load(Ordering::Relaxed);
        (protocol::position(header), base, protocol::owner(header))
    };
    let (sequence, used) = protocol::parts(position);
    // SAFETY: as in `drain`; the thread that filled the region left it to us.
    let framed = unsafe {
        std::slice::from_raw_parts_mut(
            header.add(RING_HEADER_LEN - BLOCK_HEADER_LEN),
            BLOCK_HEADER_LEN + used,
        )
    };
    let place = files::Place::default();
    if files::write_block(recording, framed, thread, sequence as u32, base, &place).is_err() {
        return false;
    }
    // SAFETY: the region's header.
    unsafe { protocol::drained(header, sequence) };
    true
}

/// Defines a thread. Where another process writes the segments it asks the system for the name of
/// one of the application's.
fn name_thread(recording: &Recording, index: u32) {
    if recording.files.is_attended() {
        let tid = threads::number();
        let name = threads::own_name().map_or(Default::default(), |name| name.to_string_lossy());
        recording.files.define(&defs::Thread { index, tid, name: name.into_owned() }.into());
        return;
    }
    let mut name = [0u8; 16];
    // SAFETY: PR_GET_NAME writes at most 16 bytes; gettid has no preconditions.
    let tid = unsafe {
        libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr());
        libc::syscall(libc::SYS_gettid)
    };
    let length = name.iter().position(|b| *b == 0).unwrap_or(name.len());
    let name = String::from_utf8_lossy(name.get(..length).unwrap_or(&[])).into_owned();
    recording.files.define(&defs::Thread { index, tid: tid as u32, name }.into());
}

/// Writes what the ring holds as one block and begins the next. On failure the records are dropped
/// and counted, and the ring begins anew all the same: the newest stay in it.
fn drain(t: &Thread, owned: &mut Owned, time: u64) {
    let header = owned.header();
    // SAFETY: the thread's header.
    let position = unsafe { protocol::position(header) };
    let (sequence, used) = protocol::parts(position);
    if used > 0 {
        // SAFETY: the last 64 bytes of the header and the `used` bytes behind it, all of them in
        // the region; only this thread writes them, and readers of a live process expect this part
        // to change.
        let framed = unsafe {
            std::slice::from_raw_parts_mut(
                header.add(RING_HEADER_LEN - BLOCK_HEADER_LEN),
                BLOCK_HEADER_LEN + used,
            )
        };
        // SAFETY: the thread's header.
        let base = unsafe { cell(header, ring::BASE) }.load(Ordering::Relaxed);
        let (recording, thread) = (owned.recording, owned.thread);
        let sequence32 = sequence as u32;
        match files::write_block(recording, framed, thread, sequence32, base, &owned.place) {
            Ok(()) => {
                // SAFETY: the thread's header.
                unsafe { protocol::drained(header, sequence) };
            }
            Err(error) => {
                let (failed, others) = lost_with(framed);
                count_dropped(t, failed + others);
                owned.lost(failed);
                diag::warn(
                    "disk-full",
                    &format!(
                        "records are being dropped: {} takes no more ({error}); the application runs on. Free space, or record with --max-size",
                        owned.recording.files.directory.display()
                    ),
                );
            }
        }
    }
    let base = t.last.get().max(if used == 0 { time } else { 0 });
    // SAFETY: the thread's header and the first word behind it.
    unsafe {
        t.cursor.set(header.add(RING_HEADER_LEN).cast());
        if used == 0 {
            // No block has this number yet: readers would miss one.
            protocol::rebase(header, base);
        } else {
            protocol::next_block(header, position, base);
        }
    }
    t.key.set(0);
}

/// Records that are lost with a block that could not be written, and those that it told were
/// dropped for other reasons. What it told of blocks before it is lost for the same reason as its
/// own.
fn lost_with(framed: &[u8]) -> (u64, u64) {
    let payload = framed.get(BLOCK_HEADER_LEN..).unwrap_or(&[]);
    let block = clscope_trace::stream::Block { thread: 0, sequence: 0, base: 0, payload };
    block.records().fold((0, 0), |(failed, others), (_, record)| match record {
        Record::Dropped { count, reason: DropReason::WriteFailed } => (failed + count, others),
        Record::Dropped { count, .. } => (failed, others + count),
        Record::Run(run) => (failed + u64::from(run.count), others),
        _ => (failed + 1, others),
    })
}

/// Puts a `Dropped` record in front of what comes next, so that a segment tells of the gap where it
/// is.
fn tell_drops(t: &Thread) {
    // SAFETY: set by `acquire` to a leaked box that only this thread uses; callers hold no
    // reference to it.
    let Some(owned) = (unsafe { t.ring.get().as_mut() }) else { return };
    // SAFETY: the thread's header.
    let total = unsafe { cell(owned.header(), ring::DROPPED) }.swap(0, Ordering::Relaxed);
    let failed = std::mem::take(&mut owned.failed).min(total);
    owned.tell_failed();
    for (count, reason) in
        [(failed, DropReason::WriteFailed), (total - failed, DropReason::Reentered)]
    {
        if count > 0 {
            let words = record::dropped(count, reason, 0);
            // The ring has just been emptied: there is room.
            put_words(t, &words);
            publish(t, t.last.get(), (words.len() * 8) as u64);
        }
    }
}

/// Makes the thread's view of its ring agree with the header again, after a record was left half
/// written: what is published stays, and what follows begins a block with a time of its own.
pub fn mend(t: &Thread) {
    // SAFETY: set by `acquire` to a leaked box that only this thread uses; frames that were left do
    // not come back to their references.
    let Some(owned) = (unsafe { t.ring.get().as_mut() }) else { return };
    agree(t, owned);
}

/// Makes the thread's view agree with what its ring's header says.
fn agree(t: &Thread, owned: &mut Owned) {
    let header = owned.header();
    let next = std::mem::replace(&mut owned.next, null_mut());
    if !next.is_null() && !std::ptr::eq(next, &raw const *owned.region) {
        // SAFETY: leaked by `hand_over`, which was left before the thread had it for its own.
        let next = unsafe { Box::from_raw(next) };
        // SAFETY: headers of regions that this thread has.
        unsafe {
            let dropped = cell(next.header(), ring::DROPPED).swap(0, Ordering::Relaxed);
            cell(header, ring::DROPPED).fetch_add(dropped, Ordering::Relaxed);
        }
        owned.recording.regions.give_back(owned.recording, next);
    }
    // SAFETY: the thread's header.
    let (_, used) = protocol::parts(unsafe { protocol::position(header) });
    // SAFETY: what is used lies behind the header, in the region.
    unsafe {
        t.cursor.set(header.add(RING_HEADER_LEN + used).cast());
        t.limit.set(header.add(owned.region.size()).cast());
    }
    t.header.set(header);
    let now = now();
    t.last.set(now);
    if !owned.recording.files.is_attended() {
        drain(t, owned, now);
    } else if used == 0 {
        begin_again(t, owned, now);
    } else {
        // What comes next goes over to another region.
        t.limit.set(t.cursor.get());
        t.key.set(0);
    }
}

/// Leaves the thread without a ring: in a forked child, where the ring is the parent's.
pub fn forget(t: &Thread) {
    t.ring.set(null_mut());
    t.cursor.set(null_mut());
    t.limit.set(null_mut());
    t.header.set((&raw const SCRATCH).cast_mut().cast());
    t.last.set(0);
    t.key.set(0);
    t.forget_kept();
    on_exit(null_mut());
}
