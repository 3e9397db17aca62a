//! What the sums say: by kernel, by direction and kind, by function, by wait, of queues and devices,
//! and what is wrong.

use super::busy::IdleCause;
use super::estimate::Estimate;
use super::{Bias, BusyUnknown, CallSums, CommandSums, NamedWait, SPAN_BIAS, Stats, WaitedFor};
use crate::Trace;
use crate::align::Alignment;
use crate::issue::{Issue, IssueKind};
use crate::missing;
use crate::time::ProcessIndex;
use clscope_trace::record::{CommandKind, Direction};
use std::borrow::Cow;
use std::collections::BTreeMap;

impl Stats {
    /// Kernels by name and device name, over all processes.
    #[must_use]
    pub fn kernels(&self, trace: &Trace<'_>) -> BTreeMap<(String, String), CommandSums> {
        self.kernels_by(trace, |process, kernel, _| {
            trace.process(process).definitions.kernel_name(kernel).into_owned()
        })
    }

    /// As [`kernels`](Self::kernels), by names that the caller gives to kernels of a process and
    /// what tells their launches apart.
    #[must_use]
    pub fn kernels_by(
        &self,
        trace: &Trace<'_>,
        name: impl Fn(ProcessIndex, u32, u32) -> String,
    ) -> BTreeMap<(String, String), CommandSums> {
        let mut out: BTreeMap<(String, String), CommandSums> = BTreeMap::new();
        for ((process, kernel, queue, variant), sums) in &self.kernels {
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
            out.entry((name(*process, *kernel, *variant), d.device_name(device).into_owned()))
                .or_default()
                .merge(&sums);
        }
        out
    }

    /// The kernels of a process: kernel id, queue id, sums.
    pub fn kernels_of(
        &self,
        process: ProcessIndex,
    ) -> impl Iterator<Item = (u32, u32, &CommandSums)> {
        let own = self.kernels.range((process, 0, 0, 0)..=(process, u32::MAX, u32::MAX, u32::MAX));
        own.map(|((_, kernel, queue, _), sums)| (*kernel, *queue, sums))
    }

    /// The other commands of a process: kind and class of size, queue id, sums.
    pub fn commands_of(
        &self,
        process: ProcessIndex,
    ) -> impl Iterator<Item = ((CommandKind, u32), u32, &CommandSums)> {
        let own = self.commands.iter().filter(move |((of, ..), _)| *of == process);
        own.map(|((_, kind, queue, size), sums)| ((*kind, *size), *queue, sums))
    }

    /// Host nanoseconds that a process's threads were in calls that wait for devices.
    #[must_use]
    pub fn waited(&self, process: ProcessIndex) -> u128 {
        let own = self.waits.range((process, 0)..=(process, u16::MAX));
        own.map(|(_, sums)| sums.time.total()).sum()
    }

    /// Time in which a queue ran commands, if they did not overlap: the sum of their durations,
    /// estimated where some were left out. `None` where nothing is known of a class of them.
    #[must_use]
    pub fn queue_time(
        &self,
        trace: &Trace<'_>,
        process: ProcessIndex,
        queue: u32,
    ) -> Option<Estimate> {
        let (time, without) = self.known_time(trace, process, queue);
        time.filter(|_| without == 0)
    }

    /// The estimated time of the commands of a queue of whose class some were timed, and how many
    /// are left beside them. Classes are those of the tables: launches by the kernel's name,
    /// however many objects or programs have it; other commands by kind and size.
    fn known_time(
        &self,
        trace: &Trace<'_>,
        process: ProcessIndex,
        queue: u32,
    ) -> (Option<Estimate>, u64) {
        let d = &trace.process(process).definitions;
        let mut kernels: BTreeMap<Cow<'_, str>, CommandSums> = BTreeMap::new();
        for (kernel, of, sums) in self.kernels_of(process) {
            if of == queue {
                kernels.entry(d.kernel_name(kernel)).or_default().merge(sums);
            }
        }
        let others = self.commands_of(process).filter(|(_, of, _)| *of == queue);
        let (mut known, mut without) = (None, 0);
        for sums in kernels.values().chain(others.map(|(.., sums)| sums)) {
            match sums.total() {
                Some(total) => {
                    known = Some(known.map_or(total, |sum: Estimate| sum.plus(total)));
                }
                None => without += sums.covered(),
            }
        }
        (known, without)
    }

    /// Time in which a device of a process ran its commands, estimated where some were left out by
    /// sampling: the time of its only queue that had commands, whose commands run one by one. With
    /// the number of commands that it does not hold, since none of their class was timed.
    ///
    /// # Errors
    /// Why it is not known.
    pub fn device_time(
        &self,
        trace: &Trace<'_>,
        process: ProcessIndex,
        device: u32,
    ) -> Result<(Estimate, u64), BusyUnknown> {
        let d = &trace.process(process).definitions;
        let mut used = self
            .queues
            .range((process, 0)..=(process, u32::MAX))
            .filter(|((_, q), sums)| sums.count > 0 && d.clock_device(*q) == Some(device));
        let (Some(((_, queue), _)), None) = (used.next(), used.next()) else {
            return Err(BusyUnknown::SeveralQueues);
        };
        if d.queues.get(queue).is_none_or(|q| q.is_out_of_order()) {
            return Err(BusyUnknown::OutOfOrder);
        }
        let (known, without) = self.known_time(trace, process, *queue);
        known.map(|known| (known, without)).ok_or(BusyUnknown::NothingTimed)
    }

    /// Kernel launches: all, those timed, and those left out by chance.
    #[must_use]
    pub fn launches(&self) -> (u64, u64, u64) {
        self.kernels.values().fold((0, 0, 0), |(all, timed, left), s| {
            (all + s.count, timed + s.time.count(), left + s.left_out())
        })
    }

    /// Commands other than kernels by kind. Their parts are estimated one by one: sizes take times
    /// of their own. Those of a process are one part, whatever queues they are on: of the few of one
    /// queue, chance may have timed none.
    fn by_kind(&self) -> BTreeMap<CommandKind, CommandSums> {
        let mut parts: BTreeMap<(CommandKind, ProcessIndex, u32), CommandSums> = BTreeMap::new();
        for ((process, kind, _, size), sums) in &self.commands {
            parts.entry((*kind, *process, *size)).or_default().merge(sums);
        }
        let mut kinds: BTreeMap<CommandKind, Vec<CommandSums>> = BTreeMap::new();
        for ((kind, ..), sums) in parts {
            kinds.entry(kind).or_default().push(sums);
        }
        kinds.into_iter().map(|(kind, parts)| (kind, CommandSums::together(parts))).collect()
    }

    /// Transfers by direction and kind.
    #[must_use]
    pub fn transfers(&self) -> BTreeMap<(Direction, CommandKind), CommandSums> {
        self.by_kind()
            .into_iter()
            .filter_map(|(kind, sums)| Some(((kind.direction()?, kind), sums)))
            .collect()
    }

    /// Commands that neither run kernels nor move bytes: markers, maps, migrations.
    #[must_use]
    pub fn other_commands(&self) -> BTreeMap<CommandKind, CommandSums> {
        self.by_kind().into_iter().filter(|(kind, _)| kind.direction().is_none()).collect()
    }

    /// API functions by name, over all processes.
    #[must_use]
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
    #[must_use]
    pub fn waits(&self, trace: &Trace<'_>) -> BTreeMap<String, NamedWait> {
        let mut out: BTreeMap<String, NamedWait> = BTreeMap::new();
        for ((process, function), sums) in &self.waits {
            let name = trace.process(*process).definitions.function_name(*function).into_owned();
            let wait = out.entry(name).or_default();
            wait.time.merge(&sums.time);
            for (what, ns) in &sums.running {
                let name = match what {
                    WaitedFor::Kernel(p, kernel) => {
                        trace.process(*p).definitions.kernel_name(*kernel).into_owned()
                    }
                    WaitedFor::Command(kind) => kind.name().to_owned(),
                };
                *wait.running.entry(name).or_default() += ns;
            }
        }
        out
    }

    /// Idle nanoseconds of all devices by cause, in words, most first.
    #[must_use]
    pub fn idle_causes(&self, trace: &Trace<'_>) -> Vec<(String, u64)> {
        let mut out: BTreeMap<String, u64> = BTreeMap::new();
        // Between the timed launches of a sample others ran, which are no idleness.
        for ((process, _), device) in self.devices.iter().filter(|(_, d)| d.left_out == 0) {
            for (cause, ns) in &device.busy.causes {
                let name = match cause {
                    IdleCause::HostCall(f) => {
                        format!("host in {}", trace.process(*process).definitions.function_name(*f))
                    }
                    IdleCause::Application => "host outside OpenCL".to_owned(),
                    IdleCause::Launch => "launch of the next command".to_owned(),
                    IdleCause::Queued => "next command enqueued but not started".to_owned(),
                };
                *out.entry(name).or_default() += ns;
            }
        }
        let mut out: Vec<(String, u64)> = out.into_iter().collect();
        out.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        out
    }

    /// Everything that is wrong or missing, with what opening and the merge found.
    #[must_use]
    pub fn issues(&self, trace: &Trace<'_>, alignment: &Alignment) -> Vec<Issue> {
        let mut out = trace.issues_after(&self.tally, Some(alignment));
        out.extend(missing::issues(trace, &self.missing));
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
