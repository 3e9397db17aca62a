//! How the recorder waits for commands, where it was asked to: it asks whether they have ended, for
//! a bounded time. A waiting function of the runtime has no bound: behind a command that the
//! application lets go on later it never comes back.

use super::functions as api;
use crate::abi::constants as cl;
use crate::abi::entry::H;
use crate::abi::signatures as f;
use crate::os::locks::lock::clock;
use crate::os::threads;
use crate::os::undisturbed::uncancelled;
use crate::recording::guard;
use std::ptr::null_mut;
use std::time::Duration;

/// How long a command of the application is waited for: longer than most run, and short enough to
/// be told from a hang.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// How long a marker or an empty command buffer of our own is waited for.
pub const SHORT_PATIENCE: Duration = Duration::from_millis(100);

/// So long the status is asked for again at once, then after pauses that grow up to the longest.
const EAGER: Duration = Duration::from_micros(50);
const LONGEST_PAUSE_US: u32 = 500;

/// Execution status of an event's command, `None` where the runtime does not answer.
///
/// # Safety
/// The event is live.
pub unsafe fn status(info: f::clGetEventInfo, event: H) -> Option<i32> {
    let mut status = 0i32;
    let (name, to) = (cl::CL_EVENT_COMMAND_EXECUTION_STATUS, (&raw mut status).cast());
    // SAFETY: the caller's promise, and room for a cl_int.
    let code = unsafe { info(event, name, size_of::<i32>(), to, null_mut()) };
    (code == 0).then_some(status)
}

/// Waits until a command has ended, as long as there is patience: whether it has. Its queue is
/// flushed first.
///
/// # Safety
/// The event is live, and of the runtime behind the slot.
pub unsafe fn ended(slot: usize, event: H, patience: Duration) -> bool {
    let (Some(info), Some(flush)) = (api::clGetEventInfo.behind(slot), api::clFlush.behind(slot))
    else {
        return false;
    };
    // SAFETY: the caller's promise.
    let ended = || unsafe { status(info, event) }.is_none_or(|status| status <= cl::CL_COMPLETE);
    guard::unseen(|| {
        if ended() {
            return true;
        }
        let mut queue = H::NULL;
        let (name, to) = (cl::CL_EVENT_COMMAND_QUEUE, (&raw mut queue).cast());
        // SAFETY: the caller's promise, and room for a handle.
        let known = unsafe { info(event, name, size_of::<H>(), to, null_mut()) } == 0;
        if known && !queue.is_null() {
            // SAFETY: the queue of a live event.
            unsafe { flush(queue) };
        }
        let begin = clock();
        let mut pause = 10;
        loop {
            if ended() {
                return true;
            }
            let waited = clock().saturating_duration_since(begin);
            if waited >= patience {
                return false;
            }
            if waited > EAGER {
                uncancelled(|| threads::pause(pause));
                pause = (pause * 2).min(LONGEST_PAUSE_US);
            }
        }
    })
}
