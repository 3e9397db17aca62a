//! What is summed: over calls of a function, queues, devices, waits. Refuses to add; the pass does.

use super::Variant;
use super::busy::Busy;
use super::sketch::Distribution;
use super::waits::Ran;
use crate::input::Definitions;
use crate::interval::Interval;
use crate::time::{HostNs, ProcessIndex, Span};
use clscope_trace::record::{Command, CommandKind, size_class};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Sums over calls of one function.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CallSums {
    /// Host nanoseconds of every call.
    pub time: Distribution,
    /// Calls that failed, by error code.
    pub errors: BTreeMap<i32, u64>,
}

/// Sums over one command queue.
#[derive(Debug, Clone, Default)]
pub struct QueueSums {
    /// Commands.
    pub count: u64,
    /// Busy and idle.
    pub busy: Busy,
    /// QUEUED to SUBMIT, device nanoseconds.
    pub queue_wait: Distribution,
    /// SUBMIT to START, device nanoseconds.
    pub submit_wait: Distribution,
    /// START to END, device nanoseconds.
    pub execution: Distribution,
    /// Aligned END to when the host knew, nanoseconds.
    pub notice: Distribution,
    /// Launches that sampled timing left out: busy, idle and gaps are then not known, only
    /// estimated.
    pub left_out: u64,
    /// When its newest command ended.
    pub(super) last_end: Option<HostNs>,
    /// The same by its stamp.
    pub(super) last_stamp: Option<u64>,
    /// Commands that cannot have run where they are placed.
    pub(super) displaced: u64,
    /// Nanoseconds in which it had nothing to run but a command that waited for another queue.
    pub held_by_queues_ns: u64,
}

/// By how much of its length, and by how many nanoseconds, a command may lie in the one before it
/// where its stamps say otherwise: clocks differ by less, and are read within a microsecond.
const DISPLACED: (f64, f64) = (0.02, 1_000.0);

impl QueueSums {
    /// A command by START and END, and by its place. As much of it lies in the one before by the one
    /// as by the other, or the clock was not followed. Where it was set back stamps say more, and
    /// places are right.
    pub(super) fn place(&mut self, [start, end]: [u64; 2], span: Span) {
        let length = end - start;
        let inside = |before: u64| before.min(length);
        let by_stamps = inside(self.last_stamp.map_or(0, |last| last.saturating_sub(start)));
        let by_place = inside(self.last_end.map_or(0, |last| last.since(span.begin)));
        let most = by_stamps as f64 + DISPLACED.0 * length as f64 + DISPLACED.1;
        self.displaced += u64::from(by_place as f64 > most);
        self.last_stamp = self.last_stamp.max(Some(end));
        self.last_end = self.last_end.max(Some(span.end));
    }
}

/// A device of a process.
#[derive(Debug, Clone, Default)]
pub struct DeviceSums {
    /// Busy and idle over all of its queues.
    pub busy: Busy,
    /// Clock error bounds of its spans, nanoseconds.
    pub bounds: Distribution,
    /// Launches that sampled timing left out, as in [`QueueSums::left_out`].
    pub left_out: u64,
}

/// Why the busy time of a device is not known of which launches were left out by sampling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BusyUnknown {
    /// More than one queue, or none that is known.
    #[error("several queues, and not all commands were timed")]
    SeveralQueues,
    /// One queue, whose commands may overlap.
    #[error("an out-of-order queue, and not all commands were timed")]
    OutOfOrder,
    /// No command has a time.
    #[error("not one command was timed")]
    NothingTimed,
}

/// What the host spent its time waiting in, and for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WaitSums {
    /// Host nanoseconds of every wait.
    pub time: Distribution,
    /// What timed commands of the process ran meanwhile, by kernel or kind of command. Each moment
    /// counts once.
    pub running: BTreeMap<WaitedFor, Ran>,
}

/// What a wait waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WaitedFor {
    /// A kernel of a process.
    Kernel(ProcessIndex, u32),
    /// A command of another kind.
    Command(CommandKind),
}

impl WaitedFor {
    /// Of a command.
    pub fn identify(process: ProcessIndex, command: &Command<'_>) -> Self {
        match command.kind.is_kernel() {
            true => Self::Kernel(process, command.object),
            false => Self::Command(command.kind),
        }
    }

    /// The part of the commands of one kind that is estimated by itself: of kernels what else the
    /// caller separates launches by, of others the class of their size.
    pub(super) fn find_part(command: &Command<'_>, variant: Option<Variant>) -> u32 {
        match command.kind.is_kernel() {
            true => variant.map_or(0, |of| of(command)),
            false => size_class(command.bytes),
        }
    }

    /// These commands and their part as a number: no kernel has the highest bit in its id.
    pub(super) fn class(self, part: u32) -> u64 {
        let what = match self {
            Self::Kernel(_, id) => u64::from(id),
            Self::Command(kind) => (1 << 31) | kind as u64,
        };
        (what << 32) | u64::from(part)
    }

    /// As outputs call it.
    pub fn name(self, d: &Definitions) -> Cow<'_, str> {
        match self {
            Self::Kernel(_, kernel) => d.kernel_name(kernel),
            Self::Command(kind) => kind.name().into(),
        }
    }
}

/// A function that waited for devices, with the names of what ran meanwhile.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NamedWait {
    /// Host nanoseconds of every wait.
    pub time: Distribution,
    /// Nanoseconds in which each of them ran, estimated where sampling left commands out. Together
    /// no more than the waits.
    pub running: BTreeMap<String, Interval>,
    /// Whether there are commands of which nothing is known: left out by sampling, all of a class.
    pub is_incomplete: bool,
}

impl NamedWait {
    /// Estimates of several classes may add up to more than the waits, which are known.
    pub(super) fn bound(&mut self) {
        let all = self.time.total() as f64;
        let sum: f64 = self.running.values().map(|ran| ran.value).sum();
        let factor = if sum > all { all / sum } else { 1.0 };
        for ran in self.running.values_mut() {
            let [value, low, high] = [ran.value, ran.low, ran.high].map(|ns| ns * factor);
            *ran = Interval::estimated(value, low, high.min(all).max(value));
        }
    }
}
