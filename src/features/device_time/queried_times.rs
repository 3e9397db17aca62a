//! Times that the application queries itself. Where a random part of the commands is timed and the
//! application asks for START and END of its own events, its answers are recorded: they cost no
//! event, no reference and no waiting of ours. Such commands are marked at their enqueue
//! (`flag::READ`), and those among them that sampling chose are timed at the event's release if the
//! application has not queried them by then. Refuses to mark commands while thousands await a query
//! that may never come.

use super::calls::{Calls, query};
use super::{Queue, enqueued, queue_at, sampling::Local};
use crate::abi::constants as cl;
use crate::abi::entry::H;
use crate::facts::objects::{self, EventFacts};
use crate::recording::guard::Thread;
use crate::recording::{self, ring};
use crate::runtime::functions as api;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Most commands of a queue that await a query of the application.
const MOST_AWAITED: u32 = 8192;

/// What is known of a queue's application.
#[derive(Default)]
pub struct Reads {
    /// It has queried when a command of the queue ended.
    seen: AtomicBool,
    /// Marked commands that it has neither queried nor released.
    awaited: AtomicU32,
}

impl Reads {
    /// Whether the application is expected to query the next command's time.
    #[inline]
    pub fn expected(&self) -> bool {
        self.seen.load(Ordering::Relaxed) && self.awaited.load(Ordering::Relaxed) < MOST_AWAITED
    }

    /// A command was marked.
    pub fn marked(&self) {
        self.awaited.fetch_add(1, Ordering::Relaxed);
    }

    fn answered(&self) {
        // Two threads that query one event at the same moment are counted twice.
        let less = |n: u32| n.checked_sub(1);
        let _ = self.awaited.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

/// START and END of one command, as far as this thread has seen them queried.
#[derive(Clone, Copy)]
pub struct Asked {
    command: u64,
    start: Option<u64>,
    end: Option<u64>,
}

impl Asked {
    /// Of no command.
    pub const NOTHING: Self = Self { command: 0, start: None, end: None };
}

/// The application has queried a time of an event, at `now`, and got `value`.
pub fn queried<'l>(
    t: &Thread,
    local: impl FnOnce() -> &'l Local,
    (event, facts): (H, EventFacts),
    (param_name, value): (u32, u64),
    now: u64,
) {
    if !matches!(param_name, cl::CL_PROFILING_COMMAND_START | cl::CL_PROFILING_COMMAND_END) {
        return;
    }
    if !facts.awaited {
        if let Some(queue) = queue_at(facts.queue) {
            queue.reads.seen.store(true, Ordering::Relaxed);
        }
        return;
    }
    let local = local();
    let mut asked = local.asked.get();
    if asked.command != facts.command {
        asked = Asked { command: facts.command, ..Asked::NOTHING };
    }
    if param_name == cl::CL_PROFILING_COMMAND_END {
        asked.end = Some(value);
    } else {
        asked.start = Some(value);
    }
    local.asked.set(asked);
    // The queue is looked up under a lock: once for both.
    if let (Some(start), Some(end)) = (asked.start, asked.end)
        && let Some(queue) = queue_at(facts.queue)
        && let Some([queued, submit]) = before_start(queue, event)
        && objects::event_answered(event, facts.command, false)
    {
        queue.reads.answered();
        ring::read_timing(t, facts.command, [queued, submit, start, end], now);
    }
}

/// QUEUED and SUBMIT of a complete command. Callers hold `guard::unseen`.
fn before_start(queue: &Queue, event: H) -> Option<[u64; 2]> {
    let profiling = api::clGetEventProfilingInfo.own(queue.slot)?;
    let mut stamps = [0u64; 2];
    for (stamp, which) in stamps.iter_mut().zip(cl::CL_PROFILING_COMMAND_QUEUED..) {
        // SAFETY: an event that the application is just using.
        if unsafe { query(profiling, event, which, stamp) } != 0 {
            return None;
        }
    }
    Some(stamps)
}

/// The application is about to release an event of which it was expected to query the time. If
/// sampling chose its command, the time is recorded now, or noted to be recorded once it is
/// complete. Callers hold `guard::unseen`.
pub fn released(t: &Thread, event: H, facts: EventFacts) {
    let Some(queue) = queue_at(facts.queue) else { return };
    if !facts.chosen {
        if objects::event_answered(event, facts.command, false) {
            queue.reads.answered();
        }
        return;
    }
    let Some(retain) = api::clRetainEvent.own(queue.slot) else { return };
    // SAFETY: a live event: the application is about to release it.
    let held = Calls::of_queue(queue).is_some() && unsafe { retain(event) } == 0;
    if objects::event_answered(event, facts.command, held) {
        queue.reads.answered();
        match held {
            // SAFETY: the reference taken above.
            true => unsafe { enqueued(t, queue, event, facts.command, false) },
            false => {
                let why = clscope_trace::record::Untimed::QueryFailed;
                ring::untimed(t, facts.command, why, 0, recording::now());
            }
        }
    } else if held && let Some(release) = api::clReleaseEvent.own(queue.slot) {
        // SAFETY: the reference taken above.
        unsafe { release(event) };
    }
}
