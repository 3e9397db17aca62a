//! What is asked of the runtime about one event: its status, its stamps, what was counted for it;
//! and the event's release. Refuses to choose the events.

use super::pending::Entry;
use super::{Queue, current};
use crate::abi::constants as cl;
use crate::abi::entry::H;
use crate::abi::error::ErrorCode;
use crate::abi::signatures as f;
use crate::facts::objects;
use crate::recording::diag;
use crate::recording::guard::Thread;
use crate::recording::ring;
use crate::runtime::{functions as api, waiting};
use clscope_trace::record::Untimed;
use std::sync::atomic::Ordering;

/// The longest answer to CL_PROFILING_COMMAND_PERFCOUNTERS_INTEL that is kept.
const MOST_COUNTERS: usize = 1 << 16;

/// How often the stamps of a complete command are asked for again at once: some microseconds.
const ASKED_AGAIN: u32 = 32;

/// What a harvest found.
pub(super) enum Seen {
    /// Timed, or recorded as untimed; the event is released.
    Done,
    /// Not complete yet.
    NotYet,
}

/// The real functions that a harvest needs, looked up once per batch. Callers hold `guard::unseen`.
pub(super) struct Calls {
    profiling: f::clGetEventProfilingInfo,
    info: f::clGetEventInfo,
    release: f::clReleaseEvent,
    /// Whether the runtime counted for the commands.
    counted: bool,
}

impl Calls {
    pub fn of_queue(queue: &Queue) -> Option<Self> {
        Some(Self {
            profiling: api::clGetEventProfilingInfo.own(queue.slot)?,
            info: api::clGetEventInfo.own(queue.slot)?,
            release: api::clReleaseEvent.own(queue.slot)?,
            counted: queue.counted.load(Ordering::Relaxed),
        })
    }

    /// Execution status of a command.
    pub fn status(&self, event: H) -> Option<i32> {
        // SAFETY: an event that we hold a reference of.
        unsafe { waiting::status(self.info, event) }
    }

    /// Gives back the reference of an entry's event.
    ///
    /// # Safety
    /// Once for an entry.
    pub unsafe fn release(&self, entry: &Entry) {
        if !entry.ours() {
            objects::event_let_go(entry.event(), entry.command());
        }
        // SAFETY: the entry's reference; the caller's promise.
        unsafe { self.let_go(entry.event()) };
    }

    /// Gives back a reference of an event.
    ///
    /// # Safety
    /// The recorder holds one, which is given back once.
    pub unsafe fn let_go(&self, event: H) {
        // SAFETY: the caller's promise.
        unsafe { (self.release)(event) };
    }

    /// Keeps what the runtime counted for a complete command.
    #[cold]
    fn counters(&self, event: H, command: u64) {
        let Some(device) = current() else { return };
        let mut size = 0usize;
        // SAFETY: an event that we hold a reference of; only the size is asked.
        let mut code = unsafe {
            (self.profiling)(
                event,
                cl::CL_PROFILING_COMMAND_PERFCOUNTERS_INTEL,
                0,
                std::ptr::null_mut(),
                (&raw mut size).cast(),
            )
        };
        if code == 0 && (1..=MOST_COUNTERS).contains(&size) {
            let mut bytes = vec![0u8; size];
            // SAFETY: as above, with room for so many bytes.
            code = unsafe {
                (self.profiling)(
                    event,
                    cl::CL_PROFILING_COMMAND_PERFCOUNTERS_INTEL,
                    size,
                    bytes.as_mut_ptr().cast(),
                    std::ptr::null_mut(),
                )
            };
            if code == 0 {
                (device.report)(command, bytes);
                return;
            }
        }
        // A call that succeeded gave more, or less, than counters have.
        let gave = match code {
            0 => format!("{size} bytes"),
            code => ErrorCode(code).to_string(),
        };
        let text = format!(
            "the runtime gave no counters for a command of a queue that counts: it gave {gave}"
        );
        diag::warn("no-queue-counters", &text);
    }

    /// Its stamps, or why there are none.
    #[inline(always)]
    pub fn stamps(&self, event: H) -> (i32, [u64; 4]) {
        let mut stamps = [0u64; 4];
        // CL_PROFILING_COMMAND_QUEUED, SUBMIT, START, END. The last first: while it is missing,
        // nothing else is worth asking.
        for which in [3usize, 0, 1, 2] {
            let Some(stamp) = stamps.get_mut(which) else { continue };
            let which = cl::CL_PROFILING_COMMAND_QUEUED + which as u32;
            // SAFETY: an event that we hold a reference of.
            let failed = unsafe { query(self.profiling, event, which, stamp) };
            if failed != 0 {
                return (failed, stamps);
            }
        }
        (0, stamps)
    }

    /// Its stamps, asked for again some times: NVIDIA's driver gives END before it has written
    /// QUEUED, on another thread.
    #[cold]
    fn stamps_again(&self, event: H) -> (i32, [u64; 4]) {
        let mut found = self.stamps(event);
        for _ in 0..ASKED_AGAIN {
            if found.0 == 0 && !found.1.contains(&0) {
                break;
            }
            std::hint::spin_loop();
            found = self.stamps(event);
        }
        found
    }

    /// Reads one event's stamps if its command is complete, and releases the entry then.
    ///
    /// # Safety
    /// The entry was not released before.
    pub unsafe fn harvest(
        &self,
        t: &Thread,
        queue: &Queue,
        entry: &mut Entry,
        observed: u64,
    ) -> Seen {
        let event = entry.event();
        let (mut failed, mut stamps) = self.stamps(event);
        let missing = failed == 0 && stamps.contains(&0);
        if missing || failed == cl::CL_PROFILING_INFO_NOT_AVAILABLE {
            match self.status(event) {
                Some(cl::CL_COMPLETE) => {
                    (failed, stamps) = self.stamps_again(event);
                    // Its runtime may have been kept from completing it: the next harvest asks once
                    // more.
                    if (failed != 0 || stamps.contains(&0)) && !entry.missed() {
                        return Seen::NotYet;
                    }
                }
                // Mesa's Rusticl answers before there is an answer.
                Some(status) if status > cl::CL_COMPLETE => return Seen::NotYet,
                _ => failed = cl::CL_PROFILING_INFO_NOT_AVAILABLE,
            }
        }
        if failed == 0 && stamps == [0; 4] && queue.switch.in_use() {
            failed = cl::CL_PROFILING_INFO_NOT_AVAILABLE;
        }
        let [queued, _, start, _] = stamps;
        let told = entry.completed.as_ref().map_or(0, |c| c.load(Ordering::Acquire));
        let observed = if told == 0 { observed } else { told };
        if failed == 0 && missing && queued != 0 && start == 0 {
            // Intel's CPU runtime calls a command complete that is behind a failed wait list.
            ring::untimed(t, entry.command(), Untimed::NeverStarted, 0, observed);
            tell(entry.command(), None);
        } else if failed == 0 {
            ring::timing(t, entry.command(), stamps, observed);
            let [.., start, end] = stamps;
            tell(entry.command(), Some((start, end)));
            if self.counted {
                self.counters(event, entry.command());
            }
        } else {
            match self.status(event) {
                Some(status) if status > cl::CL_COMPLETE => return Seen::NotYet,
                Some(status) if status < cl::CL_COMPLETE => {
                    ring::untimed(t, entry.command(), Untimed::Failed, status, observed);
                    tell(entry.command(), None);
                }
                _ if failed == cl::CL_PROFILING_INFO_NOT_AVAILABLE => {
                    // The runtime does not switch as we thought, or the switch came between two
                    // threads: one time is lost, no more.
                    queue.switch.give_up(queue);
                    ring::untimed(t, entry.command(), Untimed::NotAvailable, failed, observed);
                }
                _ => ring::untimed(t, entry.command(), Untimed::QueryFailed, failed, observed),
            }
        }
        // SAFETY: the caller's promise; it learns that the entry is done with.
        unsafe { self.release(entry) };
        Seen::Done
    }
}

/// Tells who follows launches when a command ran, or that it failed.
fn tell(command: u64, ran: Option<(u64, u64)>) {
    if let Some(told) = current().and_then(|device| device.told) {
        told(command, ran);
    }
}

/// Queries one stamp of an event; the runtime's code.
///
/// # Safety
/// The event is live.
#[inline(always)]
pub(super) unsafe fn query(
    profiling: f::clGetEventProfilingInfo,
    event: H,
    which: u32,
    stamp: &mut u64,
) -> i32 {
    // SAFETY: the caller's promise, and room for a cl_ulong.
    unsafe { profiling(event, which, 8, std::ptr::from_mut(stamp).cast(), std::ptr::null_mut()) }
}
