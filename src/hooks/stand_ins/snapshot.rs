//! Owns `CLSCOPE_SNAPSHOT`: sensors and counters are read in this process before and after each
//! enqueued command, which is waited for. Refuses to wait behind a user event, and to read what
//! needs privileges that the application does not have.

use crate::abi::entry::H;
use crate::facts::user_events;
use crate::features::{counters, device_time, sampler};
use crate::recording::diag;
use crate::runtime::functions as api;
use crate::runtime::waiting;
use crate::settings::config;
use std::sync::atomic::{AtomicBool, Ordering};

/// A command was waited for in vain.
static OVERDUE: AtomicBool = AtomicBool::new(false);

/// Whether enqueues need the recorder's event where the application asked for none.
pub fn wants_event() -> bool {
    config::get().snapshot && !OVERDUE.load(Ordering::Relaxed) && user_events::obstacle().is_none()
}

fn device_of(queue: H) -> H {
    // SAFETY: the device of the queue of the application's call.
    device_time::queue(queue).map_or(H::NULL, |queue| unsafe { H::from_word(queue.device) })
}

/// A command is about to be enqueued.
pub fn before(slot: usize, queue: H) {
    if config::get().snapshot {
        sampler::read_now();
        counters::before(slot, device_of(queue));
    }
}

/// It was enqueued.
pub fn after(slot: usize, queue: H, event: &H, ours: bool) {
    if wants_event() {
        // SAFETY: a live event.
        if !unsafe { waiting::ended(slot, *event, waiting::PATIENCE) } {
            OVERDUE.store(true, Ordering::Relaxed);
            let seconds = waiting::PATIENCE.as_secs();
            diag::warn(
                "snapshots-ended",
                &format!(
                    "a command did not end within {seconds} s, perhaps because it waits for what the application does next: from it on no readings are taken around commands"
                ),
            );
        }
        counters::after(slot, device_of(queue));
        sampler::read_now();
    }
    if ours && let Some(release) = api::clReleaseEvent.behind(slot) {
        // SAFETY: an event of the recorder, released once.
        unsafe { release(*event) };
    }
}

/// The command that this thread enqueued last has this id.
pub fn command(id: u64) {
    if config::get().snapshot {
        counters::command(id);
    }
}
