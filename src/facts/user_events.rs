//! User events that are not set, and callbacks of events that have not come back: behind them a
//! wait may never end.
#![forbid(unsafe_code)]

use crate::abi::entry::H;
use crate::os::locks::fork_safe::ForkSafe;
use crate::os::shared::current::Current;
use crate::os::shared::maps::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

/// Of one incarnation of the process.
#[derive(Default)]
struct UserEvents {
    waiting: ForkSafe<HashSet<usize>>,
    /// How many they are.
    count: AtomicU64,
    /// Callbacks that the application has set on events, and that have not come back.
    callbacks: AtomicU64,
}

static CURRENT: Current<UserEvents> = Current::none();

/// Begins anew: the first call of a process.
pub fn begin() {
    CURRENT.keep(UserEvents::default());
}

/// The application made one.
pub fn created(event: H) {
    if let Some(events) = CURRENT.get() {
        events.waiting.with(|waiting| {
            waiting.insert(event.word());
            events.count.store(waiting.len() as u64, Ordering::SeqCst);
        });
    }
}

/// The application set its status.
pub fn ended(event: H) {
    if let Some(events) = CURRENT.get() {
        events.waiting.with(|waiting| {
            waiting.remove(&event.word());
            events.count.store(waiting.len() as u64, Ordering::SeqCst);
        });
    }
}

/// The application is about to set a callback on an event.
pub fn callback_set() {
    if let Some(events) = CURRENT.get() {
        events.callbacks.fetch_add(1, Ordering::SeqCst);
    }
}

/// Such a callback has come back, or the runtime has not taken it.
pub fn callback_over() {
    if let Some(events) = CURRENT.get() {
        // A child is told of callbacks that were set in its parent.
        let less = |n: u64| n.checked_sub(1);
        let _ = events.callbacks.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
    }
}

/// Whether a user event is not set. Unknown before recording began.
pub fn outstanding() -> Option<bool> {
    CURRENT.get().map(|events| events.count.load(Ordering::SeqCst) > 0)
}

/// Why a wait might never end at this moment, as far as is known.
pub fn obstacle() -> Option<&'static str> {
    match CURRENT.get() {
        Some(events) if events.callbacks.load(Ordering::SeqCst) > 0 => {
            Some("a callback of an event has not come back")
        }
        _ => (outstanding() != Some(false)).then_some("a user event is not set"),
    }
}
