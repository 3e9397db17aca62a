//! User events that are not set: behind them a wait may never end.
#![forbid(unsafe_code)]

use crate::abi::entry::H;
use crate::os::current::Current;
use crate::os::fork_safe::ForkSafe;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

/// Of one incarnation of the process.
#[derive(Default)]
struct UserEvents {
    waiting: ForkSafe<HashSet<usize>>,
    /// How many they are.
    count: AtomicU64,
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

/// Whether any is not set. Unknown before recording began.
pub fn outstanding() -> Option<bool> {
    CURRENT.get().map(|events| events.count.load(Ordering::SeqCst) > 0)
}
