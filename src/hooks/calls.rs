//! What hooks of every area do with a call: pass it on, end its record, name what it made. Refuses to
//! know any function by its name.

use crate::abi::entry::{H, Site};
use crate::facts::objects;
use crate::features::beside;
use crate::recording;
use crate::recording::guard;
use crate::recording::guard::Entered;
use crate::recording::state;

/// Ends a call about one object.
#[inline(always)]
pub fn ended(entered: Entered, site: Site, code: i32, object: H) {
    entered.plain(site.function, code, || objects::id(object), Some(0), || [objects::word(object)]);
}

/// A call that makes something begins: what the recorder runs within it is none of its time.
pub fn begin_making() {
    if !beside::nothing_ran() {
        beside::begin();
    }
}

/// Ends such a call with the long form.
pub fn made(entered: Entered, function: u16, code: i32, words: &[u64]) {
    let end = recording::now();
    let end = match beside::nothing_ran() {
        true => end,
        false => beside::without((entered.begin(), end), entered.thread.last.get()).1,
    };
    entered.call_at(function, code, words, end);
}

/// Ends a query of one object.
#[inline(always)]
pub fn ended_query(entered: Entered, site: Site, code: i32, object: H, name: u32) {
    let small = (name < 1 << 16).then_some(name);
    let long = || [objects::word(object), u64::from(name)];
    entered.plain(site.function, code, || objects::id(object), small, long);
}

/// An object made by a call that is not recorded: while recording is paused or its group filtered
/// out, later calls still need the name.
pub fn created_unrecorded(handle: H, element: impl FnOnce() -> u64) {
    if !handle.is_null() && outermost_unrecorded() {
        objects::created(handle, element());
    }
}

/// Whether a call that is not recorded is the application's own: recording goes on, and we are in
/// no call by the recorder.
pub fn outermost_unrecorded() -> bool {
    guard::thread().outside() && state::running()
}

/// An event that no enqueue made (user events, events of other APIs) gets a command id, so that
/// wait lists can name it.
pub fn foreign_event(event: H) -> u64 {
    let command = objects::new_command();
    objects::event_created(event, command, 0, objects::Timing::Nobody, false);
    command
}

/// Bytes of a region of elements; 0 if the element's size is not known.
///
/// # Safety
/// `region` is NULL or has three entries, as in a call that the runtime accepted.
pub unsafe fn region_bytes(region: *const usize, element: u64) -> u64 {
    if region.is_null() {
        return 0;
    }
    // SAFETY: the caller's promise.
    let [x, y, z] = unsafe { [*region, *region.add(1), *region.add(2)] };
    [x, y, z].into_iter().fold(element, |bytes, n| bytes.saturating_mul(n as u64))
}

/// Makes a call recorded or not, and gives it back with the guard that was taken.
pub fn passed<R>(site: Site, call: impl FnOnce() -> R) -> (Option<Entered>, R) {
    match guard::enter(site) {
        Some(entered) => {
            let returned = guard::real_call(&entered, call);
            (Some(entered), returned)
        }
        None => (None, call()),
    }
}

/// Writes a definition.
pub fn define(def: impl Into<clscope_trace::defs::Def>) {
    recording::define(&def.into());
}
