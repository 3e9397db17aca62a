//! Owns `CLSCOPE_SNAPSHOT`: sensors and counters are read in this process before and after each
//! enqueued command, which is waited for. Refuses to wait behind a user event, and to read what
//! needs privileges that the application does not have.

use crate::abi::entry::H;
use crate::abi::functions::id;
use crate::features::{counters, sampler};
use crate::hooks::instead::{may_hang, truth, wait};
use crate::settings::config;

/// Whether enqueues need an event of ours where the application asked for none.
pub fn wants_event() -> bool {
    config::get().snapshot && !may_hang()
}

/// A command is about to be enqueued.
pub fn before(slot: usize, queue: H) {
    if config::get().snapshot {
        sampler::read_now();
        counters::before(slot, queue);
    }
}

/// It was enqueued.
pub fn after(slot: usize, queue: H, event: &H, ours: bool) {
    if wants_event() {
        wait(slot, event);
        counters::after(slot, queue);
        sampler::read_now();
    }
    if ours
        && let Some(release) =
            truth::<unsafe extern "C-unwind" fn(H) -> i32>(slot, id::clReleaseEvent)
    {
        // SAFETY: an event of ours, released once.
        unsafe { release(*event) };
    }
}

/// The command that this thread enqueued last has this id.
#[inline]
pub fn command(id: u64) {
    if config::get().snapshot {
        counters::command(id);
    }
}
