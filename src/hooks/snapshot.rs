//! Owns `CLSCOPE_SNAPSHOT`: sensors and counters are read in this process before and after each
//! enqueued command, which is waited for. Refuses to wait behind a user event, and to read what
//! needs privileges that the application does not have.

use crate::abi::entry::H;
use crate::facts::user_events;
use crate::features::{counters, device_time, sampler};
use crate::runtime::functions as api;
use crate::settings::config;

/// Whether enqueues need the recorder's event where the application asked for none.
pub fn wants_event() -> bool {
    config::get().snapshot && user_events::outstanding() == Some(false)
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
        if let Some(wait) = api::clWaitForEvents.behind(slot) {
            // SAFETY: one live event.
            unsafe { wait(1, event) };
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
