//! Owns which handles the application of a checked run has given back as often as it made and
//! retained them. A call that names one is told of before it is made: what a runtime does with such
//! a handle may end the process, and then the call has no record of its own. Refuses to judge: what
//! was made of an object may keep it alive.
#![forbid(unsafe_code)]

use crate::abi::entry::H;
use crate::facts::map::Map;
use crate::facts::objects;
use crate::features::call_sites;
use crate::hooks::checked::details::{tell, wanted};
use crate::hooks::launching_thread;
use crate::os::shared::current::Current;
use crate::recording::guard;
use clscope_trace::record::detail;

/// Handles by their references.
struct Handles {
    /// References beyond the first.
    more: Map,
    /// Those that were given back: what they were. A handle that the runtime gives out again is
    /// something else.
    gone: Map,
}

static HANDLES: Current<Handles> = Current::none();

/// Begins anew: the first call of a process.
pub fn begin() {
    HANDLES.set(None);
    if wanted() {
        HANDLES.keep(Handles { more: Map::new(), gone: Map::new() });
    }
}

/// What a handle is.
#[derive(Clone, Copy)]
pub enum Of {
    /// An object with an id.
    Object(H),
    /// An event.
    Event(H),
}

impl Of {
    fn handle(self) -> u64 {
        let (Self::Object(handle) | Self::Event(handle)) = self;
        handle.word() as u64
    }

    /// What it is now: how [`mod@detail`] names it, and its id, 0 if it was never seen.
    fn identity(self) -> (u64, u64) {
        match self {
            Self::Object(handle) => (detail::OBJECT, objects::word(handle)),
            Self::Event(handle) => (detail::EVENT, objects::event_word(handle)),
        }
    }

    /// A word for it that no other thing has had.
    fn word(self) -> u64 {
        match self.identity() {
            (_, 0) => 0,
            (kind, id) => kind << 56 | id,
        }
    }
}

/// Where the call stands that is under way.
fn place(function: u16) -> u32 {
    call_sites::current()
        .map_or(0, |sites| launching_thread::place(guard::thread(), sites, function))
}

/// A call is about to name a handle.
pub fn named(function: u16, of: Of) {
    let Some(handles) = HANDLES.get() else { return };
    let gone = handles.gone.get(of.handle());
    if gone != 0 && gone == of.word() {
        let (kind, id) = of.identity();
        tell(function, detail::NAMES, place(function), [kind, id, 0]);
    }
}

/// A call is about to give a reference back.
pub fn released(function: u16, of: Of) {
    let Some(handles) = HANDLES.get() else { return };
    let (handle, word) = (of.handle(), of.word());
    if word == 0 {
        return;
    }
    if handles.gone.get(handle) == word {
        return named(function, of);
    }
    match handles.more.get(handle) {
        0 => handles.gone.set(handle, word),
        _ => drop(handles.more.add(handle, 1_u64.wrapping_neg())),
    }
}

/// A reference was taken, or refused with an error code.
pub fn retained(of: Of, code: i32) {
    let (Some(handles), 0) = (HANDLES.get(), code) else { return };
    let (handle, word) = (of.handle(), of.word());
    if word == 0 {
        return;
    }
    if handles.gone.get(handle) == word {
        // What another object kept alive is the application's again.
        handles.gone.set(handle, 0);
    } else {
        handles.more.add(handle, 1);
    }
}

/// A kernel is about to be launched: with what, its record and those of its arguments tell.
pub fn launched(function: u16, kernel: H) {
    if looks() {
        let site = launching_thread::last_place(guard::thread());
        tell(function, detail::NAMES, site, [detail::LAUNCHED, objects::word(kernel), 0]);
    }
}

/// Whether it is looked at which handles calls name.
pub fn looks() -> bool {
    HANDLES.get().is_some()
}

/// A call is about to be made with a wait list of so many events, which may be NULL.
pub fn waits(function: u16, count: u32, is_null: bool) {
    if count > 0 && is_null && looks() {
        tell(function, detail::NAMES, place(function), [detail::NO_LIST, count.into(), 0]);
    }
}

/// A call is about to be made with a wait list whose event of this index is NULL.
pub fn waits_for_none(function: u16, at: u32) {
    tell(function, detail::NAMES, place(function), [detail::NULL_EVENT, at.into(), 0]);
}
