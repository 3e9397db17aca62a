//! What becomes of a thread's ring when the thread ends: what it holds is written or left to the
//! process that writes the segments, and its region is given back.

use super::{Owned, SCRATCH, count_dropped, drain, forget, make_room, protocol, tell_drops};
use crate::recording::guard::Thread;
use crate::recording::{Recording, current, now};
use clscope_trace::ring_file::ring;
use protocol::cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Key whose destructor returns rings, plus 1; 0 before it is made.
pub(super) static KEY: AtomicUsize = AtomicUsize::new(0);

/// Asks for `thread_ends` at the end of the calling thread, and keeps its ring where nothing wipes
/// it; NULL for neither.
pub(super) fn on_exit(ring: *mut Owned) {
    let mut key = KEY.load(Ordering::Acquire);
    if key == 0 {
        if ring.is_null() {
            return;
        }
        let mut made: libc::pthread_key_t = 0;
        // SAFETY: `thread_ends` is a function of this library, which is never unloaded.
        if unsafe { libc::pthread_key_create(&mut made, Some(thread_ends)) } != 0 {
            // Rings of threads that end stay taken: memory, not correctness.
            return;
        }
        match KEY.compare_exchange(0, made as usize + 1, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => key = made as usize + 1,
            Err(other) => {
                // SAFETY: made above, used by nobody.
                unsafe { libc::pthread_key_delete(made) };
                key = other;
            }
        }
    }
    // SAFETY: a valid key.
    unsafe { libc::pthread_setspecific((key - 1) as libc::pthread_key_t, ring.cast()) };
}

unsafe extern "C" fn thread_ends(_: *mut libc::c_void) {
    let t = crate::recording::guard::thread();
    let last = || {
        if let Some(recording) = current() {
            recording.let_go();
        }
        let owned = t.ring.get();
        if owned.is_null() || current().is_none_or(Recording::is_anothers) {
            return;
        }
        // SAFETY: made by `acquire`, used by this thread only, which ends; later calls of other
        // destructors take a new ring.
        let of_thread = unsafe { &mut *owned };
        if of_thread.region.is_of_pool() && of_thread.recording.files.is_attended() {
            return end_attended(t, owned);
        }
        drain(t, of_thread, now());
        tell_drops(t);
        // SAFETY: as above; nothing refers to it any more.
        let mut owned = unsafe { Box::from_raw(owned) };
        drain(t, &mut owned, now());
        // Drops that no segment could be told of stay in the ring's header, which then is not used
        // again.
        // SAFETY: the thread's header.
        let clean = unsafe { cell(owned.header(), ring::DROPPED) }.load(Ordering::Relaxed) == 0;
        forget(t);
        if clean {
            owned.recording.regions.give_back(owned.recording, owned.region);
        } else {
            std::mem::forget(owned);
        }
    };
    crate::recording::guard::protect((), || match current() {
        Some(recording) => recording.files.undisturbed(last),
        None => last(),
    });
}

/// Threads that got no ring counted in [`SCRATCH`] what they dropped. The thread that ends the
/// process takes it over, so that the trace says how much is missing.
pub fn take_drops_without_ring(t: &Thread) {
    // SAFETY: set by `acquire` to a leaked box that only this thread uses; nobody holds a reference
    // to it here.
    let Some(owned) = (unsafe { t.ring.get().as_mut() }) else { return };
    // SAFETY: as large as a ring's header, and of the same cells.
    let shared = unsafe { cell((&raw const SCRATCH).cast_mut().cast(), ring::DROPPED) };
    let dropped = shared.swap(0, Ordering::Relaxed);
    owned.lost(dropped);
    count_dropped(t, dropped);
}

/// Leaves the ring of a thread that ends to the process that writes the segments. Drops that no
/// block tells of stay in the header, and with it the region.
fn end_attended(t: &Thread, owned: *mut Owned) {
    // SAFETY: the thread's header.
    let dropped = || unsafe { cell(t.header.get(), ring::DROPPED) }.load(Ordering::Relaxed);
    let room = |t: &Thread| (t.limit.get() as usize).wrapping_sub(t.cursor.get() as usize) >= 64;
    if dropped() > 0 && (room(t) || make_room(t, now())) {
        tell_drops(t);
    }
    forget(t);
    // SAFETY: made by `acquire`, used by this thread only, which ends; nothing refers to it any more.
    let owned = unsafe { Box::from_raw(owned) };
    // SAFETY: the header of a region that was this thread's.
    let (used, dropped) = unsafe {
        let header = owned.header();
        (
            protocol::parts(protocol::position(header)).1,
            cell(header, ring::DROPPED).load(Ordering::Relaxed),
        )
    };
    if used == 0 && dropped == 0 {
        owned.recording.regions.give_back(owned.recording, owned.region);
    } else {
        owned.recording.regions.leave(owned.recording, &owned.region);
    }
}
