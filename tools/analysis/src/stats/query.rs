//! What the sums say: by kernel, by direction and kind, by function, by wait, of queues and
//! devices, and what is wrong.

use super::waits::Population;
use super::{
    Bias, BusyUnknown, CallSums, CommandSums, NamedWait, QueueSums, SPAN_BIAS, Stats, WaitedFor,
    WallParts,
};
use crate::Trace;
use crate::align::Alignment;
use crate::input::Process;
use crate::interval::Interval;
use crate::issue::{Issue, IssueKind};
use crate::missing;
use crate::time::{ProcessIndex, Span};
use clscope_trace::Untimed;
use clscope_trace::record::{CommandKind, Direction};
use std::collections::BTreeMap;

impl Stats {
    /// When anything was recorded: the union of the times of the processes. Between traces of
    /// different times nothing was.
    pub fn recorded(&self) -> Vec<Span> {
        let each = self.spans.iter().zip(&self.paused);
        let of = each.filter_map(|(span, paused)| Some(span.as_ref()?.without(paused.spans())));
        Span::join(of.flatten().collect())
    }

    /// Its length. `None` where nothing was recorded.
    pub fn recorded_ns(&self) -> Option<u64> {
        let spans = self.recorded();
        (!spans.is_empty()).then(|| spans.iter().map(Span::duration).sum())
    }

    /// From the first begin to the last end of anything.
    pub fn extent(&self) -> Option<Span> {
        self.spans.iter().flatten().copied().reduce(Span::hull)
    }

    /// How the recorded time of a process is divided; `None` where nothing of it was recorded.
    pub fn wall(&self, process: ProcessIndex) -> Option<WallParts> {
        let recorded = self.spans.get(process.0 as usize).copied().flatten()?;
        Some(self.walls.get(process.0 as usize)?.parts(recorded))
    }

    /// Devices that several processes used: how many, and for how long all of them waited for each
    /// other there, in nanoseconds that the commands of one lay in the commands of others.
    pub fn shared_devices(&self, trace: &Trace<'_>) -> Vec<SharedDevice> {
        let mut sums: BTreeMap<(usize, String), (Vec<ProcessIndex>, u64)> = BTreeMap::new();
        for ((process, device), of) in self.devices.iter().filter(|(_, d)| d.busy.busy() > 0) {
            let key = across_processes(trace, *process, *device);
            if self.together.contains_key(&key) {
                let (processes, ns) = sums.entry(key).or_default();
                processes.push(*process);
                *ns += of.busy.busy();
            }
        }
        let each = sums.into_iter().filter_map(|(key, (mut processes, ns))| {
            processes.dedup();
            let together_ns = self.together.get(&key)?.ns();
            let overlap_ns = ns.saturating_sub(together_ns);
            (processes.len() > 1).then_some(SharedDevice { processes, overlap_ns, together_ns })
        });
        each.collect()
    }

    /// Kernels by name and device name, over all processes.
    pub fn kernels(&self, trace: &Trace<'_>) -> BTreeMap<(String, String), CommandSums> {
        self.kernels_by(trace, |process, kernel, _| {
            trace.process(process).definitions.kernel_name(kernel).into_owned()
        })
    }

    /// As [`kernels`](Self::kernels), by names that the caller gives to kernels of a process and
    /// what tells their launches apart.
    pub fn kernels_by(
        &self,
        trace: &Trace<'_>,
        name: impl Fn(ProcessIndex, u32, u32) -> String,
    ) -> BTreeMap<(String, String), CommandSums> {
        self.group_kernels(trace, |(process, kernel, queue, variant)| {
            let d = &trace.process(process).definitions;
            let device = d.queues.get(&queue).map_or(0, |q| q.device);
            Some((name(process, kernel, variant), d.device_name(device).into_owned()))
        })
    }

    /// Kernels by a key that the caller makes of process, kernel id, queue id and variant; `None` leaves
    /// launches out.
    pub fn group_kernels<K: Ord>(
        &self,
        trace: &Trace<'_>,
        key: impl Fn((ProcessIndex, u32, u32, u32)) -> Option<K>,
    ) -> BTreeMap<K, CommandSums> {
        let mut out: BTreeMap<K, CommandSums> = BTreeMap::new();
        for ((process, what, queue, variant), sums) in &self.sums {
            let WaitedFor::Kernel(_, kernel) = what else { continue };
            let Some(key) = key((*process, *kernel, *queue, *variant)) else { continue };
            let d = &trace.process(*process).definitions;
            let device = d.queues.get(queue).map_or(0, |q| q.device);
            let mut sums = sums.clone();
            // A sub-device has its own calibration or that of the device it is a part of.
            let bias = |id: u32| {
                d.calibrations.iter().rev().find(|c| c.name == SPAN_BIAS && c.device == id)
            };
            if let Some(bias) = bias(device).or_else(|| d.clock_device(*queue).and_then(bias)) {
                let n = sums.covered();
                sums.bias = Bias {
                    launches: n,
                    ns: n as f64 * bias.value,
                    uncertainty_ns: n as f64 * bias.uncertainty,
                };
            }
            out.entry(key).or_default().merge(&sums);
        }
        out
    }

    /// The classes of a process's commands, kernels first: what they are, their part (the variant of a
    /// kernel, the class of size of others), queue id, sums.
    pub fn classes_of(
        &self,
        process: ProcessIndex,
    ) -> impl Iterator<Item = (WaitedFor, u32, u32, &CommandSums)> {
        let own = self.sums.range((process, WaitedFor::Kernel(process, 0), 0, 0)..);
        own.take_while(move |((of, ..), _)| *of == process)
            .map(|((_, what, queue, part), sums)| (*what, *part, *queue, sums))
    }

    /// The functions that a process called, by id.
    pub fn functions_of(&self, process: ProcessIndex) -> impl Iterator<Item = (u16, &CallSums)> {
        let own = self.functions.get(process.0 as usize).into_iter().flatten();
        (0u16..).zip(own).filter(|(_, sums)| sums.time.count() > 0)
    }

    /// Host nanoseconds that a process's threads were in calls that wait for devices.
    pub fn waited(&self, process: ProcessIndex) -> u128 {
        let own = self.waits.get(process.0 as usize);
        own.map_or(0, |waits| waits.sums().0.values().map(|sums| sums.time.total()).sum())
    }

    /// What the commands of each queue and device took, estimated where some were left out.
    pub fn times(&self, trace: &Trace<'_>) -> Times {
        let mut queues: BTreeMap<_, Known> = BTreeMap::new();
        // Launches by the name of their kernel, before the others.
        let mut classes: BTreeMap<_, CommandSums> = BTreeMap::new();
        for ((process, what, queue, part), sums) in &self.sums {
            let d = &trace.process(*process).definitions;
            let class = match what {
                WaitedFor::Kernel(_, id) => (None, Some(d.kernel_name(*id))),
                WaitedFor::Command(kind) => (Some((*kind, *part)), None),
            };
            classes.entry(((*process, *queue), class)).or_default().merge(sums);
        }
        for ((queue, _), sums) in &classes {
            queues.entry(*queue).or_default().add(sums);
        }
        let mut devices: BTreeMap<(ProcessIndex, u32), Vec<u32>> = BTreeMap::new();
        for ((process, queue), _) in self.queues.iter().filter(|(_, sums)| sums.count > 0) {
            if let Some(device) = trace.process(*process).definitions.clock_device(*queue) {
                devices.entry((*process, device)).or_default().push(*queue);
            }
        }
        Times { queues, devices }
    }

    /// Kernel launches: all, those timed, and those left out by chance.
    pub fn launches(&self) -> (u64, u64, u64) {
        let kernels =
            self.sums.iter().filter(|((_, what, ..), _)| matches!(what, WaitedFor::Kernel(..)));
        kernels.fold((0, 0, 0), |(all, timed, left), (_, s)| {
            (all + s.count, timed + s.time.count(), left + s.left_out())
        })
    }

    /// Commands other than kernels by kind. Their parts are estimated one by one: sizes take times
    /// of their own. Those of a process are one part, whatever queues they are on: of the few of
    /// one queue, chance may have timed none.
    fn by_kind(
        &self,
        is_wanted: impl Fn(ProcessIndex, u32) -> bool,
    ) -> BTreeMap<CommandKind, CommandSums> {
        let mut parts: BTreeMap<(CommandKind, ProcessIndex, u32), CommandSums> = BTreeMap::new();
        for ((process, what, queue, size), sums) in &self.sums {
            if let WaitedFor::Command(kind) = what
                && is_wanted(*process, *queue)
            {
                parts.entry((*kind, *process, *size)).or_default().merge(sums);
            }
        }
        let mut kinds: BTreeMap<CommandKind, Vec<CommandSums>> = BTreeMap::new();
        for ((kind, ..), sums) in parts {
            kinds.entry(kind).or_default().push(sums);
        }
        kinds.into_iter().map(|(kind, parts)| (kind, CommandSums::together(parts))).collect()
    }

    /// Transfers by direction and kind.
    pub fn transfers(&self) -> BTreeMap<(Direction, CommandKind), CommandSums> {
        self.transfers_on(|_, _| true)
    }

    /// Those of the queues that the caller wants, by process and id.
    pub fn transfers_on(
        &self,
        is_wanted: impl Fn(ProcessIndex, u32) -> bool,
    ) -> BTreeMap<(Direction, CommandKind), CommandSums> {
        self.by_kind(is_wanted)
            .into_iter()
            .filter_map(|(kind, sums)| Some(((kind.direction()?, kind), sums)))
            .collect()
    }

    /// Commands that neither run kernels nor move bytes: markers, maps, migrations.
    pub fn other_commands(&self) -> BTreeMap<CommandKind, CommandSums> {
        self.by_kind(|_, _| true)
            .into_iter()
            .filter(|(kind, _)| kind.direction().is_none())
            .collect()
    }

    /// API functions by name, over all processes.
    pub fn functions(&self, trace: &Trace<'_>) -> BTreeMap<String, CallSums> {
        let mut out: BTreeMap<String, CallSums> = BTreeMap::new();
        for (process, functions) in trace.processes.iter().zip(&self.functions) {
            for (id, sums) in functions.iter().enumerate().filter(|(_, s)| s.time.count() > 0) {
                let name = process
                    .definitions
                    .function_name(u16::try_from(id).unwrap_or(u16::MAX))
                    .into_owned();
                let total = out.entry(name).or_default();
                total.time.merge(&sums.time);
                for (code, count) in &sums.errors {
                    *total.errors.entry(*code).or_default() += count;
                }
            }
        }
        out
    }

    /// Calls in which the host waited for the device (clFinish, clWaitForEvents, blocking
    /// commands), by name, with what ran meanwhile.
    pub fn waits(&self, trace: &Trace<'_>) -> BTreeMap<String, NamedWait> {
        let mut out: BTreeMap<String, NamedWait> = BTreeMap::new();
        for ((process, waits), wall) in trace.processes.iter().zip(&self.waits).zip(&self.walls) {
            let d = &process.definitions;
            let (functions, populations) = waits.sums();
            let unknown = populations.values().any(Population::is_unknown)
                || wall.is_untimed()
                || d.left_out().is_some_and(|of| of.commands);
            for (function, sums) in functions.iter().filter(|(_, s)| s.time.count() > 0) {
                let wait = out.entry(d.function_name(*function).into_owned()).or_default();
                wait.time.merge(&sums.time);
                wait.is_incomplete |= unknown;
                for (what, ran) in &sums.running {
                    let Some(ran) = ran.estimate(populations.get(what)) else { continue };
                    let sum = wait
                        .running
                        .entry(what.name(d).into_owned())
                        .or_insert(Interval::exact(0.0));
                    *sum = sum.plus(ran);
                }
            }
        }
        out.values_mut().for_each(NamedWait::bound);
        out
    }

    /// How many commands of a process ran at a time that is not known, and how many it has, where
    /// those are so many that it is not known when its devices were busy: they have no device time,
    /// or cannot have run where they are placed. Chance left none of them out.
    pub fn without_time(&self, process: ProcessIndex) -> Option<(u64, u64)> {
        let missing = self.missing.get(process.0 as usize)?;
        let ran = |why: &Untimed| *why != Untimed::NotSampled && !why.never_ran();
        let untimed = missing.untimed.iter().filter(|(why, _)| ran(why)).map(|(_, n)| n);
        let without = untimed.chain(missing.unfinished.values()).sum::<u64>();
        let queues = self.queues.range((process, 0)..=(process, u32::MAX)).map(|(_, queue)| queue);
        let sum =
            |all: (u64, u64), queue: &QueueSums| (all.0 + queue.displaced, all.1 + queue.count);
        let (without, all) = queues.fold((without, 0), sum);
        (20 * without > all).then_some((without, all))
    }

    /// Idle nanoseconds of all devices by cause, in words, most first.
    pub fn idle_causes(&self, trace: &Trace<'_>) -> Vec<(String, u64)> {
        let mut out: BTreeMap<String, u64> = BTreeMap::new();
        // Between the timed launches of a sample others ran, which are no idleness.
        for ((process, _), device) in self.devices.iter().filter(|(_, d)| d.left_out == 0) {
            let definitions = &trace.process(*process).definitions;
            if definitions.left_out().is_some_and(|of| of.commands)
                || self.without_time(*process).is_some()
            {
                continue;
            }
            for (cause, ns) in &device.busy.causes {
                let name = cause.in_words(definitions);
                *out.entry(name).or_default() += ns;
            }
        }
        let mut out: Vec<(String, u64)> = out.into_iter().collect();
        out.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        out
    }

    /// Everything that is wrong or missing, with what opening and the merge found.
    pub fn issues(&self, trace: &Trace<'_>, alignment: &Alignment) -> Vec<Issue> {
        let mut out = trace.issues_after(&self.tally, Some(alignment));
        out.extend(missing::issues(trace, &self.missing));
        for (process, paused) in trace.processes.iter().zip(&self.paused) {
            let mut add = |kind| out.push(Issue { subject: process.label.clone(), kind });
            if let Some(of) = process.definitions.left_out() {
                add(IssueKind::CallsLeftOut { why: of.why, commands: of.commands });
            }
            let ns = paused.spans().iter().map(Span::duration).sum();
            if ns > 0 {
                add(IssueKind::Paused { ns });
            }
        }
        if self.timed == 0
            && let Some(first) = trace.processes.first()
        {
            out.push(Issue {
                subject: first.label.clone(),
                kind: IssueKind::NoDeviceSpans { why: self.why_no_spans(trace) },
            });
        }
        out
    }

    fn why_no_spans(&self, trace: &Trace<'_>) -> &'static str {
        let left_out = |p: &Process<'_>| p.definitions.left_out().is_some_and(|of| of.commands);
        if self.command_count == 0 && trace.processes.iter().any(left_out) {
            return "no command was recorded";
        }
        let enqueued_nothing = self.command_count == 0;
        let off = trace.processes.iter().all(|p| p.definitions.process.device_timing == "off");
        match (enqueued_nothing, self.calls == 0, off) {
            (_, true, _) => "no OpenCL call was recorded",
            (true, false, _) => "the application enqueued no command (or none that succeeded)",
            (false, _, true) => "device timing was off; record with --device-timing event",
            (false, ..) => "no command has a time; the reasons are listed with the counts",
        }
    }
}

/// A device that several processes used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedDevice {
    /// Those that ran commands there.
    pub processes: Vec<ProcessIndex>,
    /// The time of their commands less `together_ns`: time in which more than one ran.
    pub overlap_ns: u64,
    /// When a command of any of them ran.
    pub together_ns: u64,
}

/// What a device of a process is to all processes: its host and name. A host's processors are one
/// device, whatever runtime names them.
pub(super) fn across_processes(
    trace: &Trace<'_>,
    process: ProcessIndex,
    device: u32,
) -> (usize, String) {
    let host = trace.timeline.host_of.get(process.0 as usize).copied().unwrap_or_default();
    let d = &trace.process(process).definitions;
    let is_cpu = d.devices.get(&device).is_some_and(|device| device.is_cpu());
    (host, if is_cpu { String::new() } else { d.device_name(device).into_owned() })
}

/// The estimated time of the commands of whose class some were timed, and how many are left beside
/// them. Classes are those of the tables: launches by the kernel's name, however many objects or
/// programs have it; other commands by kind and size.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    time: Option<Interval>,
    without: u64,
}

impl Known {
    fn add(&mut self, sums: &CommandSums) {
        match sums.total() {
            Some(total) => self.time = Some(self.time.map_or(total, |sum| sum.plus(total))),
            None => self.without += sums.covered(),
        }
    }
}

/// What the commands of queues and devices took ([`Stats::times`]).
#[derive(Debug)]
pub struct Times {
    queues: BTreeMap<(ProcessIndex, u32), Known>,
    /// The queues of each device that had commands.
    devices: BTreeMap<(ProcessIndex, u32), Vec<u32>>,
}

impl Times {
    fn known(&self, process: ProcessIndex, queue: u32) -> Known {
        self.queues.get(&(process, queue)).copied().unwrap_or_default()
    }

    /// Time in which a queue ran commands, if they did not overlap: the sum of their durations.
    /// `None` where nothing is known of a class of them.
    pub fn queue(&self, process: ProcessIndex, queue: u32) -> Option<Interval> {
        let known = self.known(process, queue);
        known.time.filter(|_| known.without == 0)
    }

    /// Time in which a device of a process ran its commands: the time of its only queue that had
    /// commands, whose commands run one by one. With the number of commands that it does not hold,
    /// since none of their class was timed.
    ///
    /// # Errors
    /// Why it is not known.
    pub fn device(
        &self,
        trace: &Trace<'_>,
        process: ProcessIndex,
        device: u32,
    ) -> Result<(Interval, u64), BusyUnknown> {
        let used = self.devices.get(&(process, device)).map_or(&[][..], Vec::as_slice);
        let [queue] = used else { return Err(BusyUnknown::SeveralQueues) };
        let d = &trace.process(process).definitions;
        if d.queues.get(queue).is_none_or(|q| q.is_out_of_order()) {
            return Err(BusyUnknown::OutOfOrder);
        }
        let known = self.known(process, *queue);
        known.time.map(|time| (time, known.without)).ok_or(BusyUnknown::NothingTimed)
    }
}
