//! Owns the sums of one process: calls by function, commands by class, what is in flight. Joins
//! commands with their outcomes as the merge of the analysis does, in whatever order threads are
//! read. Refuses to know files and names.

use crate::process::Clockwork;
use clscope_analysis::align::{Rate, credible, possible};
use clscope_analysis::ids::IdMap;
use clscope_analysis::stats::CommandSums;
use clscope_analysis::time::{HostNs, Span};
use clscope_trace::Untimed;
use clscope_trace::record::{Command, CommandKind, Record, Run, flag, size_class};
use std::collections::{BTreeMap, VecDeque};

/// As in the analysis: outcomes that wait for their commands, whose records another thread wrote.
const EARLY_OUTCOMES: usize = 1 << 14;
/// As in the analysis: commands whose time the application may still query.
const AWAITED_READS: usize = 1 << 16;

/// Calls of one function. Times are in ticks of the process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FunctionSums {
    pub calls: u64,
    pub errors: u64,
    pub ticks: u64,
    /// What lies behind the beginning of the window.
    pub window: u64,
    /// Of that, in calls that block until a command is complete.
    pub blocked: u64,
}

/// What commands are told apart by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Kernel and queue.
    Kernel(u32, u32),
    /// Kind, queue, and class of size: what takes about as long is estimated together.
    Other(CommandKind, u32, u32),
}

/// Commands of one class.
#[derive(Debug, Clone, Default)]
pub struct ClassSums {
    /// Commands enqueued, those in flight included.
    pub enqueued: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those whose outcome is known.
    pub known: CommandSums,
}

/// A command whose outcome is awaited.
#[derive(Debug, Clone, Copy)]
struct Pending {
    class: u32,
    queue: u32,
    kind: CommandKind,
    bytes: u64,
    /// Ticks at which its enqueue began, and came back.
    call: (u64, u64),
    timed: bool,
    probability: Option<f64>,
}

#[derive(Debug, Clone, Copy)]
enum Completion {
    Stamps([u64; 4]),
    /// Queried by the application: known for certain, whatever the sampling decided.
    Read([u64; 4]),
    Untimed(Untimed),
}

/// A command that ran.
#[derive(Debug, Clone, Copy)]
pub struct Ran {
    pub queue: u32,
    /// START and END, device nanoseconds.
    pub span: (u64, u64),
    /// When the host knew, in ticks.
    pub seen: u64,
}

/// The sums of one process.
#[derive(Debug, Default)]
pub struct Sums {
    pub functions: Vec<FunctionSums>,
    classes: Vec<(Class, ClassSums)>,
    places: IdMap<u32, u128>,
    pending: IdMap<Pending>,
    early: IdMap<(u64, Completion)>,
    early_order: VecDeque<u64>,
    reads: VecDeque<u64>,
    /// The last command without a time, whose reason may follow.
    untimed: u64,
    /// How ticks become nanoseconds, once that is known.
    pub clock: Option<Clockwork>,
    /// Whether a queue's stamps run as the host's clock does.
    rates: BTreeMap<u32, Rate>,
    /// Commands that ran since somebody took them.
    pub ran: Vec<Ran>,
    pub commands: u64,
    pub timed: u64,
    /// Records that the recorder says it dropped.
    pub dropped: u64,
    /// Whether the process may leave commands out.
    pub sampling: bool,
    /// Ticks at which the present window begins.
    pub window: u64,
    /// Ticks at which the first call began and the last one ended.
    pub extent: Option<(u64, u64)>,
}

fn key(class: Class) -> u128 {
    match class {
        Class::Kernel(kernel, queue) => (u128::from(kernel) << 32) | u128::from(queue),
        Class::Other(kind, queue, size) => {
            (1 << 127) | ((kind as u128) << 64) | (u128::from(size) << 32) | u128::from(queue)
        }
    }
}

impl Sums {
    /// Classes with what is known of them.
    pub fn classes(&self) -> &[(Class, ClassSums)] {
        &self.classes
    }

    /// Commands on queues that were enqueued and will have an outcome.
    pub fn in_flight(&self) -> impl Iterator<Item = u32> + '_ {
        self.pending.values().filter(|p| p.timed).map(|p| p.queue)
    }

    /// Begins a window at these ticks.
    pub fn begin_window(&mut self, ticks: u64) {
        self.window = ticks;
        for function in &mut self.functions {
            (function.window, function.blocked) = (0, 0);
        }
    }

    /// Adds calls: how many, ticks they took, and the end of the last.
    fn add_calls(
        &mut self,
        function: u16,
        calls: u64,
        ticks: u64,
        end: u64,
        result: i32,
        blocks: bool,
    ) {
        let index = usize::from(function);
        if self.functions.len() <= index {
            self.functions.resize(index + 1, FunctionSums::default());
        }
        let sums = &mut self.functions[index];
        sums.calls = sums.calls.saturating_add(calls);
        sums.errors += u64::from(result != 0);
        sums.ticks = sums.ticks.saturating_add(ticks);
        let inside = ticks.min(end.saturating_sub(self.window));
        sums.window = sums.window.saturating_add(inside);
        if blocks {
            sums.blocked = sums.blocked.saturating_add(inside);
        }
    }

    /// Adds a record that was written at these ticks. `counted`: the same run of calls as it was
    /// counted before.
    pub fn add(&mut self, ticks: u64, record: &Record<'_>, counted: Option<Run>) {
        let took = match record {
            Record::Plain { duration, .. } | Record::Call { duration, .. } => Some(*duration),
            Record::Run(run) => Some(u64::from(run.span)),
            Record::Command(command) => Some(command.duration),
            _ => None,
        };
        if let Some(took) = took {
            let begin = ticks.saturating_sub(took);
            let (first, last) = self.extent.get_or_insert((begin, ticks));
            (*first, *last) = ((*first).min(begin), (*last).max(ticks));
        }
        match *record {
            Record::Plain { function, duration, .. } => {
                self.add_calls(function, 1, duration, ticks, 0, false);
            }
            Record::Call { function, duration, result, .. } => {
                self.add_calls(function, 1, duration, ticks, result, false);
            }
            Record::Run(run) => {
                let (calls, took) = counted.map_or((0, 0), |old| (old.count, old.total));
                let calls = u64::from(run.count.saturating_sub(calls));
                let took = u64::from(run.total.saturating_sub(took));
                self.add_calls(run.function, calls, took, ticks, 0, false);
            }
            Record::Command(command) => {
                let blocks = command.flags & flag::BLOCKING != 0;
                self.add_calls(
                    command.function,
                    1,
                    command.duration,
                    ticks,
                    command.result,
                    blocks,
                );
                self.enqueued(&command, ticks);
            }
            Record::Timing { command, stamps } => {
                self.outcome(ticks, command, Completion::Stamps(stamps));
            }
            Record::ReadTiming { command, stamps } => {
                self.outcome(ticks, command, Completion::Read(stamps));
            }
            Record::Untimed { command, reason, .. } => {
                self.outcome(ticks, command, Completion::Untimed(reason));
            }
            Record::Dropped { count, .. } => self.dropped = self.dropped.saturating_add(count),
            Record::MoreWaits { .. }
            | Record::Detail(_)
            | Record::Paused(_)
            | Record::Unknown { .. } => {}
        }
    }

    fn enqueued(&mut self, command: &Command<'_>, end: u64) {
        if command.result != 0 || command.id == 0 {
            return;
        }
        self.commands += 1;
        let class = if command.kind.is_kernel() {
            Class::Kernel(command.object, command.queue)
        } else {
            Class::Other(command.kind, command.queue, size_class(command.bytes))
        };
        let classes = &mut self.classes;
        let place = *self.places.entry(key(class)).or_insert_with(|| {
            classes.push((class, ClassSums::default()));
            classes.len() as u32 - 1
        });
        let sums = &mut classes[place as usize].1;
        sums.enqueued += 1;
        sums.bytes = sums.bytes.saturating_add(command.bytes);
        let pending = Pending {
            class: place,
            queue: command.queue,
            kind: command.kind,
            bytes: command.bytes,
            call: (end.saturating_sub(command.duration), end),
            timed: command.flags & flag::TIMED != 0,
            probability: command.probability(),
        };
        let early = if self.early.is_empty() { None } else { self.early.remove(&command.id) };
        if let Some((seen, outcome)) = early {
            self.done(pending, seen, outcome);
        } else if pending.timed {
            self.pending.insert(command.id, pending);
        } else if command.flags & flag::READ != 0 {
            self.pending.insert(command.id, pending);
            self.reads.push_back(command.id);
            if self.reads.len() > AWAITED_READS
                && let Some(unread) = self.reads.pop_front().and_then(|id| self.pending.remove(&id))
            {
                self.without_time(&unread, true);
            }
        } else {
            self.untimed = command.id;
            self.without_time(&pending, command.flags & flag::NOT_SAMPLED != 0);
        }
    }

    fn outcome(&mut self, seen: u64, command: u64, outcome: Completion) {
        if let Some(pending) = self.pending.remove(&command) {
            self.done(pending, seen, outcome);
            return;
        }
        if command == self.untimed {
            return;
        }
        if self.early.insert(command, (seen, outcome)).is_none() {
            self.early_order.push_back(command);
            if self.early_order.len() > EARLY_OUTCOMES
                && let Some(old) = self.early_order.pop_front()
            {
                self.early.remove(&old);
            }
        }
    }

    fn done(&mut self, mut pending: Pending, seen: u64, outcome: Completion) {
        if let Completion::Read(_) = outcome {
            pending.probability = Some(1.0);
        }
        match outcome {
            Completion::Stamps(stamps) | Completion::Read(stamps)
                if self.believes(&pending, stamps, seen) =>
            {
                let span = (stamps[2], stamps[3]);
                self.timed += 1;
                self.ran.push(Ran { queue: pending.queue, span, seen });
                self.finished(&pending, Some(span.1 - span.0), false);
            }
            Completion::Untimed(reason) if reason.never_ran() => {
                let sums = &mut self.classes[pending.class as usize].1;
                sums.bytes = sums.bytes.saturating_sub(pending.bytes);
                sums.known.add_failed();
            }
            Completion::Untimed(reason) => {
                self.without_time(&pending, reason == Untimed::NotSampled);
            }
            Completion::Stamps(_) | Completion::Read(_) => self.without_time(&pending, false),
        }
    }

    /// Whether stamps can be times, as the analysis has it. Of a queue whose stamps turn out to be
    /// none, those that were taken for times are taken back.
    fn believes(&mut self, pending: &Pending, stamps: [u64; 4], seen: u64) -> bool {
        if !possible(stamps) {
            return false;
        }
        let Some(clock) = self.clock else { return true };
        let at = |ticks| HostNs(clock.at(ticks));
        let (begin, observed) = (at(pending.call.0), at(seen));
        let rate = self.rates.entry(pending.queue).or_default();
        let was_clock = rate.is_clock();
        let believed = credible((pending.kind, pending.bytes), stamps, begin, observed);
        if believed {
            rate.add(stamps, Span { begin, end: at(pending.call.1) }, observed);
        } else {
            rate.disbelieve();
        }
        let is_clock = rate.is_clock();
        if was_clock && !is_clock {
            self.take_back(pending.queue);
        }
        is_clock && believed
    }

    /// No command of a queue had a time.
    fn take_back(&mut self, queue: u32) {
        for (class, sums) in &mut self.classes {
            let (Class::Kernel(_, of) | Class::Other(_, of, _)) = *class;
            let count = sums.known.time.count();
            if of != queue || count == 0 {
                continue;
            }
            self.timed = self.timed.saturating_sub(count);
            let known = std::mem::take(&mut sums.known);
            for _ in 0..known.count {
                sums.known.add(0, None, false, self.sampling, None);
            }
            (sums.known.bytes, sums.known.failed) = (known.bytes, known.failed);
        }
        self.ran.retain(|ran| ran.queue != queue);
    }

    fn without_time(&mut self, pending: &Pending, left_out: bool) {
        self.finished(pending, None, left_out);
    }

    fn finished(&mut self, pending: &Pending, duration: Option<u64>, left_out: bool) {
        let sums = &mut self.classes[pending.class as usize].1.known;
        sums.add(pending.bytes, duration, left_out, self.sampling, pending.probability);
    }

    /// Nothing more comes: commands that the application never queried count as left out.
    pub fn end(&mut self) {
        while let Some(id) = self.reads.pop_front() {
            if let Some(unread) = self.pending.remove(&id) {
                self.without_time(&unread, true);
            }
        }
    }
}
