//! What a thread keeps between its launches, and where the call stands that it is in. Owns the memory
//! of it; refuses to record.

use crate::abi::entry::Site;
use crate::facts::geometry::Recent;
use crate::features::call_sites::{self, Stacks};
use crate::features::device_time::Local;
use crate::recording::guard::{Entered, Thread};
use crate::recording::thread::Kept;
use std::cell::Cell;

/// What a thread keeps between launches: geometries used lately, the stacks it enqueued from, and
/// its counts for sampling.
#[repr(C)]
pub(super) struct Launches {
    kept: Kept,
    pub(super) geometries: Recent,
    stacks: Stacks,
    /// The place of the enqueue that is under way.
    last_place: Cell<u32>,
    sampling: Local,
}

/// The calling thread's, made at its first use.
#[inline(always)]
pub(super) fn launches(t: &Thread) -> *mut Launches {
    if t.kept.get().is_null() {
        make(t);
    }
    t.kept.get().cast()
}

#[cold]
#[inline(never)]
fn make(t: &Thread) {
    /// # Safety
    /// As `Kept::free`.
    unsafe fn free(kept: *mut Kept) {
        // SAFETY: made below, not used afterwards by the caller's promise.
        drop(unsafe { Box::from_raw(kept.cast::<Launches>()) });
    }
    let made = Launches {
        kept: Kept { free },
        geometries: Recent::new(),
        stacks: Stacks::default(),
        last_place: Cell::new(0),
        sampling: Local::new(),
    };
    t.kept.set(Box::into_raw(Box::new(made)).cast());
}

/// The calling thread's counts for sampling.
#[inline(always)]
pub fn sampling(t: &Thread) -> &Local {
    // SAFETY: this thread's own, live as long as the thread's reference; shared references only are
    // made of this part.
    unsafe { &(*launches(t)).sampling }
}

/// Where the call stands, noted as the place of the enqueue that is under way.
#[inline(always)]
pub(super) fn here(entered: &Entered, sites: &call_sites::Sites, site: Site) -> u32 {
    let found = place(entered.thread, sites, site.function);
    // SAFETY: this thread's own; shared references only are made of this part.
    unsafe { &(*launches(entered.thread)).last_place }.set(found);
    found
}

/// Where the enqueue stands that is under way; 0 where places are not recorded.
pub fn last_place(thread: &Thread) -> u32 {
    // SAFETY: as in `here`.
    unsafe { &(*launches(thread)).last_place }.get()
}

/// Where the application's call that is under way stands.
#[inline(always)]
pub fn place(thread: &Thread, sites: &call_sites::Sites, function: u16) -> u32 {
    // SAFETY: this thread's own, used by nobody else while the reference lives.
    let stacks = unsafe { &mut (*launches(thread)).stacks };
    call_sites::here(stacks, sites, function)
}
