//! Owns the way from a trace's sums to the report as data. Refuses to estimate: figures come from
//! the analysis.

use super::data::{
    CommandBuffers, Commands, Device, Estimates, Finding, Function, Host, Idle, InCommandBuffers,
    Over, Process, Queue, Report, SCHEMA, Sampling, Summary, Totals, Wait, WaitedFor,
};
use crate::answer::{Answer, OVER};
use crate::captures::Captures;
use crate::energy::activity::Grouping;
use crate::interval::Interval;
use clscope_analysis::Trace;
use clscope_analysis::align::{Alignment, Queued};
use clscope_analysis::input::{self, Definitions};
use clscope_analysis::issue::IssueKind;
use clscope_analysis::stats::beside::Repeated;
use clscope_analysis::stats::estimate::Sampled;
use clscope_analysis::stats::sketch::{Distribution, RELATIVE_ERROR};
use clscope_analysis::stats::{
    CallSums, CommandSums, DeviceSums, NamedWait, QueueSums, SPAN_BIAS, Stats, Times,
};
use clscope_analysis::time::{ProcessIndex, Span};
use clscope_trace::record::{CommandKind, Direction};
use std::collections::{BTreeMap, BTreeSet};

fn share(part: u128, whole: u128) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Nanoseconds of the run in which the recorder repeated commands, if it did.
fn held(stats: &Stats, repeated: &Repeated) -> Option<u64> {
    let within = stats.recorded().into_iter().map(|span| repeated.within(span));
    Some(within.sum()).filter(|ns| *ns > 0)
}

/// The recorder's sampling budget in percent: the least that a process was set to, or the default.
fn budget(trace: &Trace<'_>) -> Option<f64> {
    use clscope_trace::variables::{BUDGET, SETTINGS};
    let default = SETTINGS.iter().find(|s| s.name == BUDGET).map(|s| s.default);
    let set = trace.processes.iter().map(|p| {
        let settings = &p.definitions.process.settings;
        let own = settings.iter().find_map(|s| s.strip_prefix(BUDGET)?.strip_prefix('='));
        own.or(default)?.trim_end_matches('%').parse::<f64>().ok()
    });
    set.flatten().reduce(f64::min)
}

fn estimates(s: &Sampled, sums: &CommandSums, share: Option<Interval>) -> Estimates {
    let total = sums.total();
    // A bin's middle may lie beyond all that is in it.
    let ends = sums.time.min().zip(sums.time.max());
    // Where timing makes launches longer, percentiles are of timed ones as much shorter.
    let plain = s.total().map_or(0.0, |total| total.value);
    let timing_adds_ns = sums.timing_adds();
    let longer = timing_adds_ns.map_or(0.0, |each| each * s.left_out() as f64);
    let fit = if plain > longer { 1.0 - longer / plain } else { 1.0 };
    let below = total.filter(|t| fit < 1.0 && t.value > 0.0).map_or(1.0, |t| t.low / t.value);
    let quantile = |q| {
        let found = s.quantile(q)?;
        let Some((min, max)) = ends else { return Some(found) };
        let value = found.value.clamp(min as f64, max as f64);
        let low = below * found.low.min(value);
        Some(Interval::estimated(value, low, found.high.max(value)).times(fit))
    };
    Estimates {
        launches: s.launches(),
        timed: s.timed(),
        total_ns: total,
        mean_ns: total.map(|t| t.times(1.0 / s.launches() as f64)),
        median_ns: quantile(0.5),
        p95_ns: quantile(0.95),
        p99_ns: quantile(0.99),
        share,
        timing_adds_ns,
    }
}

fn over(time: &Distribution) -> Option<Over> {
    let (launches, total_ns) = time.above(OVER * time.quantile(0.5)?);
    Some(Over { launches, total_ns, fastest_quarter_ns: time.quantile(0.25)? })
}

/// `others` is the total of the other classes of the section.
fn commands(name: &str, sums: &CommandSums, others: Interval) -> Commands {
    let share = sums.total().and_then(|t| t.share(others));
    Commands {
        name: name.to_owned(),
        device: None,
        direction: None,
        count: sums.count,
        untimed: sums.untimed(),
        left_out: sums.left_out(),
        failed: sums.failed,
        share: share.map(|s| s.value),
        bytes: sums.bytes,
        gigabytes_per_second: sums.gigabytes_per_second(),
        time_ns: Summary::summarise(&sums.time),
        over: over(&sums.time),
        at_most_ns: sums.bounds().map(Summary::summarise),
        estimate: sums.estimated().map(|s| estimates(s, sums, share)),
        span_bias_ns: sums
            .span_bias()
            .map(|(value, uncertainty)| Interval::around(value, uncertainty)),
        corrected_total_ns: sums
            .corrected()
            .map(|t| Interval { estimated: sums.left_out() > 0, ..t }),
    }
}

/// Sum of the totals that are known, and for each of them the sum of the others.
fn totals<'s>(sums: impl Iterator<Item = &'s CommandSums>) -> (Interval, Vec<Interval>) {
    let each: Vec<Interval> = sums.map(|s| s.total().unwrap_or(Interval::exact(0.0))).collect();
    Interval::sum_and_others(&each)
}

/// Why not all commands of a process have a time, where that matters.
fn why_missing(trace: &Trace<'_>, stats: &Stats, process: ProcessIndex) -> Option<String> {
    let left_out = trace.process(process).definitions.left_out();
    left_out.filter(|of| of.commands).map(|of| of.why).or_else(|| {
        let (without, all) = stats.without_time(process)?;
        let some = without < all;
        some.then(|| format!("it is not known when {without} of {all} commands ran"))
    })
}

/// A trace's sums in the order of the report's sections.
struct Sums<'t, 'a> {
    trace: &'t Trace<'a>,
    alignment: &'t Alignment,
    stats: &'t Stats,
    times: Times,
    /// By name and device.
    kernels: BTreeMap<(String, String), CommandSums>,
    transfers: BTreeMap<(Direction, CommandKind), CommandSums>,
    functions: BTreeMap<String, CallSums>,
    /// Host time in all functions.
    call_ns: u128,
    launches: u64,
    timed: u64,
    /// Launches that sampling left out, and whether it left out transfers.
    left_out: u64,
    transfers_left_out: bool,
    /// Names of devices whose commands were left out, and of CPUs among them, which may be
    /// preempted.
    sampled: BTreeSet<String>,
    preempted: BTreeSet<String>,
    /// What took most of each queue's time.
    runs: BTreeMap<(ProcessIndex, u32), Vec<String>>,
    /// Why not all commands of each process have a time: looked up for every queue.
    missing: Vec<Option<String>>,
}

/// What took most of each queue's time: up to two kernels or kinds of command.
fn runs(trace: &Trace<'_>, stats: &Stats) -> BTreeMap<(ProcessIndex, u32), Vec<String>> {
    let mut times: BTreeMap<(ProcessIndex, u32), BTreeMap<String, f64>> = BTreeMap::new();
    let mut add = |queue, name: String, sums: &CommandSums| {
        let time = times.entry(queue).or_default().entry(name).or_default();
        *time += sums.total().map_or(0.0, |total| total.value);
    };
    for (index, process) in (0u32..).zip(&trace.processes) {
        let index = ProcessIndex(index);
        for (what, _, queue, sums) in stats.classes_of(index) {
            add((index, queue), what.name(&process.definitions).into_owned(), sums);
        }
    }
    let most = |times: BTreeMap<String, f64>| {
        let mut all: Vec<(String, f64)> = times.into_iter().collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        all.into_iter().take(2).map(|(name, _)| name).collect()
    };
    times.into_iter().map(|(queue, times)| (queue, most(times))).collect()
}

impl<'t, 'a> Sums<'t, 'a> {
    fn new(
        trace: &'t Trace<'a>,
        alignment: &'t Alignment,
        stats: &'t Stats,
        by: &Grouping<'_>,
    ) -> Self {
        let kernels = stats
            .kernels_by(trace, |process, kernel, variant| by.name(trace, process, kernel, variant));
        let sampled = stats
            .devices
            .iter()
            .filter(|(_, sums)| sums.left_out > 0)
            .map(|((p, id), _)| (&trace.process(*p).definitions, *id));
        let named = |of: &mut dyn Iterator<Item = (&Definitions, u32)>| {
            of.map(|(d, id)| d.device_name(id).into_owned()).collect::<BTreeSet<String>>()
        };
        let is_cpu =
            |(d, id): &(&Definitions, u32)| d.devices.get(id).is_some_and(|device| device.is_cpu());
        let (launches, timed, left_out) = stats.launches();
        let transfers = stats.transfers();
        let functions = stats.functions(trace);
        Self {
            trace,
            alignment,
            stats,
            times: stats.times(trace),
            kernels,
            call_ns: functions.values().map(|f| f.time.total()).sum(),
            functions,
            launches,
            timed,
            left_out,
            missing: (0u32..)
                .take(trace.processes.len())
                .map(|p| why_missing(trace, stats, ProcessIndex(p)))
                .collect(),
            transfers_left_out: transfers.values().any(|t| t.left_out() > 0),
            transfers,
            sampled: named(&mut sampled.clone()),
            preempted: named(&mut sampled.filter(is_cpu)),
            runs: runs(trace, stats),
        }
    }

    fn label(&self, process: ProcessIndex) -> String {
        self.trace.process(process).label.clone()
    }

    fn totals(&self) -> Totals {
        let kernels = || self.kernels.values();
        let kernel_total = totals(kernels()).0;
        let transfer_total = totals(self.transfers.values()).0;
        let corrected = self.left_out + self.timed > 0
            && kernels().filter(|k| k.covered() > 0).all(|k| k.corrected().is_some());
        // The biases of all kernels err together: their sides add as they are.
        let (bias, side) = kernels()
            .fold((0.0, 0.0), |(ns, side), k| (ns + k.bias.ns, side + k.bias.uncertainty_ns));
        let kernel_bias = Interval::estimated(-bias, -bias - side, -bias + side);
        Totals {
            calls: self.stats.calls,
            commands: self.stats.command_count,
            timed: self.stats.timed,
            kernel_ns: kernels().map(|k| k.time.total()).sum(),
            kernel_estimate_ns: (self.left_out > 0).then_some(kernel_total),
            kernel_corrected_ns: corrected.then(|| Interval {
                estimated: self.left_out > 0,
                ..kernel_total.plus(kernel_bias)
            }),
            transfer_ns: self.transfers.values().map(|t| t.time.total()).sum(),
            transfer_estimate_ns: self.transfers_left_out.then_some(transfer_total),
            call_ns: self.call_ns,
            errors: self.functions.values().flat_map(|f| f.errors.values()).sum(),
        }
    }

    fn sampling(&self) -> Option<Sampling> {
        (self.left_out > 0 || self.transfers_left_out).then(|| Sampling {
            launches: self.launches,
            timed: self.timed,
            left_out: self.left_out,
            budget_percent: budget(self.trace),
            on_cpu_device: !self.preempted.is_empty(),
        })
    }

    fn kernels(&self) -> Vec<Commands> {
        let others = totals(self.kernels.values()).1;
        let rows = self.kernels.iter().zip(others).map(|(((name, device), k), rest)| Commands {
            device: Some(device.clone()),
            ..commands(name, k, rest)
        });
        first_by_total(rows)
    }

    fn transfers(&self) -> Vec<Commands> {
        let others = totals(self.transfers.values()).1;
        let rows = self.transfers.iter().zip(others).map(|(((direction, kind), t), rest)| {
            Commands { direction: Some(direction.name()), ..commands(kind.name(), t, rest) }
        });
        first_by_total(rows)
    }

    fn other_commands(&self) -> Vec<Commands> {
        let on_processor = self.stats.devices.keys().any(|(process, id)| {
            let devices = &self.trace.process(*process).definitions.devices;
            devices.get(id).is_some_and(|device| device.is_cpu())
        });
        let kinds = self.stats.other_commands();
        let others = totals(kinds.values()).1;
        let rows = kinds.iter().zip(others).map(|((kind, t), rest)| {
            let row = commands(kind.name(), t, rest);
            // Maps: a processor's memory is where the host's is, and nothing moves.
            let rate = row.gigabytes_per_second.filter(|_| !on_processor);
            Commands { gigabytes_per_second: rate, ..row }
        });
        first_by_total(rows)
    }

    fn command_buffers(&self) -> Option<CommandBuffers> {
        let of = &self.stats.in_command_buffers;
        let mut launches: BTreeMap<String, u64> = BTreeMap::new();
        for ((process, kernel), count) in &of.launches {
            let d = &self.trace.process(*process).definitions;
            *launches.entry(d.kernel_name(*kernel).into_owned()).or_default() += count;
        }
        let kernels = launches.into_iter();
        let mut kernels: Vec<_> =
            kernels.map(|(name, launches)| InCommandBuffers { name, launches }).collect();
        kernels.sort_by_key(|kernel| std::cmp::Reverse(kernel.launches));
        let (enqueues, unknown) = (of.enqueues, of.unknown);
        (enqueues > 0).then_some(CommandBuffers { enqueues, unknown, kernels })
    }

    /// Why it is not known what else the devices of a process ran: a filter kept commands out, or
    /// they have no time.
    fn left_out(&self, process: ProcessIndex) -> Option<String> {
        self.missing.get(process.0 as usize).cloned().flatten()
    }

    fn device(&self, (process, id): (ProcessIndex, u32), sums: &DeviceSums) -> Device {
        let (stats, d) = (self.stats, &self.trace.process(process).definitions);
        let left_out = self.left_out(process);
        let aligned =
            self.alignment.devices.iter().find(|a| (a.process, a.device) == (process, id));
        let complete = sums.left_out == 0 && left_out.is_none();
        let (estimate, without, absent) = match self.times.device(self.trace, process, id) {
            _ if complete => (None, 0, None),
            _ if left_out.is_some() => (None, 0, left_out),
            Ok((estimate, without)) => (Some(estimate), without, None),
            Err(why) => (None, 0, Some(why.to_string())),
        };
        let index = process.0 as usize;
        let repeats = &stats.repeated[index];
        let own = |all: Span| all.duration().saturating_sub(repeats.within(all));
        let extent = sums.busy.extent().map_or(0, own).saturating_sub(sums.busy.paused_ns);
        let bias = d.calibrations.iter().rev().find(|c| c.name == SPAN_BIAS && c.device == id);
        let mut device = Device {
            process: self.label(process),
            id,
            name: d.device_name(id).into_owned(),
            driver: d.devices.get(&id).map(|d| d.driver.clone()).unwrap_or_default(),
            compute_units: d.devices.get(&id).map(|d| d.compute_units).filter(|n| *n > 0),
            busy_ns: complete.then(|| sums.busy.busy()),
            busy_estimate_ns: estimate,
            busy_without: without,
            busy_absent: absent,
            busy_share: None,
            process_ns: stats.spans[index]
                .map_or(0, |all| own(all).saturating_sub(stats.paused[index].within(all))),
            idle_ns: complete.then(|| sums.busy.idle()),
            extent_ns: extent,
            span_bias_ns: bias.map(|b| Interval::around(b.value, b.uncertainty)),
            clock_bound_ns: Summary::summarise(&sums.bounds),
            drift: aligned
                .and_then(|a| a.drift())
                .map(|(value, half)| Interval::estimated(value, value - half, value + half)),
            queued: aligned.map(|a| match a.queued {
                Queued::Used => "used",
                Queued::Unproved => "unproved",
                Queued::Contradicted => "contradicted",
            }),
            clock_steps: aligned.map_or(0, |a| a.pieces().saturating_sub(1) as u64),
        };
        // One base for all devices, so that shares of several processes add up.
        let repeated = held(stats, &Repeated::any(stats.repeated.iter())).unwrap_or(0);
        let wall = stats.recorded_ns().map(|ns| ns.saturating_sub(repeated) as f64);
        let wall = wall.filter(|ns| *ns > 0.0);
        // A clock's bound may put busy time beyond the run's end.
        let busy = device.busy().filter(|_| extent > 0);
        let part = |wall: f64| busy.map(|b| b.map(|ns| (ns / wall).min(1.0)));
        device.busy_share = wall.and_then(part);
        device
    }

    fn queue(&self, (process, id): (ProcessIndex, u32), q: &QueueSums) -> Queue {
        let d = &self.trace.process(process).definitions;
        let queue = d.queues.get(&id);
        let left_out = self.left_out(process).is_some();
        let complete = q.left_out == 0 && !left_out;
        let estimate = if complete || left_out { None } else { self.times.queue(process, id) };
        Queue {
            process: self.label(process),
            id,
            number: d.queue_numbers.get(&id).copied(),
            device: queue.map(|q| d.device_name(q.device).into_owned()).unwrap_or_default(),
            runs: self.runs.get(&(process, id)).cloned().unwrap_or_default(),
            out_of_order: queue.is_some_and(|q| q.is_out_of_order()),
            commands: q.count,
            left_out: q.left_out,
            busy_ns: complete.then(|| q.busy.busy()),
            idle_ns: complete.then(|| q.busy.idle()),
            busy_estimate_ns: estimate,
            gaps_ns: if complete {
                Summary::summarise(&q.busy.gaps)
            } else {
                Summary::summarise(&Distribution::default())
            },
            queue_wait_ns: Summary::summarise(&q.queue_wait),
            submit_wait_ns: Summary::summarise(&q.submit_wait),
            execution_ns: Summary::summarise(&q.execution),
            notice_ns: Summary::summarise(&q.notice),
            late: q.busy.late,
        }
    }

    fn function(&self, name: &str, time: &Distribution, errors: &BTreeMap<i32, u64>) -> Function {
        Function {
            name: name.to_owned(),
            calls: time.count(),
            errors: errors.values().sum(),
            error_codes: errors.clone(),
            share: share(time.total(), self.call_ns),
            time_ns: Summary::summarise(time),
        }
    }

    fn functions(&self) -> Vec<Function> {
        let rows = self.functions.iter().map(|(name, f)| self.function(name, &f.time, &f.errors));
        let mut rows: Vec<Function> = rows.collect();
        rows.sort_by(by_time);
        rows
    }

    fn waits(&self) -> Vec<Wait> {
        let waits = self.stats.waits(self.trace);
        let whole = waits.values().map(|w| w.time.total()).sum();
        let mut rows: Vec<Wait> = waits.iter().map(|(name, w)| self.wait(name, w, whole)).collect();
        rows.sort_by(|a, b| by_time(&a.function, &b.function));
        rows
    }

    /// `whole`: of all waits together.
    fn wait(&self, name: &str, w: &NamedWait, whole: u128) -> Wait {
        let total = w.time.total();
        let ran: f64 = w.running.values().map(|ran| ran.value).sum();
        let of = |(name, ran): (&String, &Interval)| {
            let ns = ran.value.round() as u64;
            WaitedFor {
                name: name.clone(),
                ns,
                interval_ns: (ran.half() > 0.0).then_some(*ran),
                share: share(u128::from(ns), total),
            }
        };
        let mut waited_for: Vec<WaitedFor> = w.running.iter().map(of).collect();
        waited_for.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| a.name.cmp(&b.name)));
        // Polls are one wait from the first to the last: longer than the calls' own time.
        let calls = self.functions.get(name).map_or(0, |f| f.time.total());
        let function = self.function(name, &w.time, &BTreeMap::new());
        Wait {
            function: Function { share: share(calls, self.call_ns), ..function },
            share_of_waits: share(total, whole),
            waited_for,
            nothing_ns: (!w.is_incomplete).then(|| (total as f64 - ran).max(0.0).round() as u64),
        }
    }

    fn idle(&self) -> Vec<Idle> {
        let causes = self.stats.idle_causes(self.trace);
        let whole: u64 = causes.iter().map(|(_, ns)| ns).sum();
        let row = |(cause, ns): (String, u64)| Idle {
            cause,
            ns,
            share: share(u128::from(ns), u128::from(whole)),
        };
        causes.into_iter().map(row).collect()
    }

    fn idle_absent(&self) -> Vec<String> {
        let why = |name: &String| {
            format!(
                "gaps between commands of {name} are not known: between timed ones ran others that sampling left out (`record --device-timing event` times all)"
            )
        };
        let processes = (0u32..).take(self.trace.processes.len()).map(ProcessIndex);
        let left_out: BTreeSet<String> = processes.filter_map(|p| self.left_out(p)).collect();
        let left_out =
            left_out.iter().map(|of| format!("gaps between commands are not known: {of}"));
        self.sampled.iter().map(why).chain(left_out).collect()
    }
}

fn process(p: &input::Process<'_>) -> Process {
    let d = &p.definitions;
    Process {
        label: p.label.clone(),
        pid: p.header.pid,
        host: d.process.host.clone(),
        executable: d.process.executable.clone(),
        arguments: d.process.arguments.clone(),
        mpi_rank: d.process.mpi_rank,
        mpi_size: d.process.mpi_size,
        threads: d.threads.values().filter(|t| !t.is_recorders()).count(),
        device_timing: d.process.device_timing.clone(),
        ended: d.exit.is_some(),
        no_end: p.issues.iter().find_map(|kind| {
            let is_it = matches!(kind, IssueKind::NotEnded | IssueKind::EndUnwritten);
            is_it.then(|| kind.to_string())
        }),
        running_as_of: p.issues.iter().find_map(|kind| match kind {
            IssueKind::Running { as_of } => Some(as_of.clone()),
            _ => None,
        }),
    }
}

/// What explains most first; names settle ties.
fn first_by_total(rows: impl Iterator<Item = Commands>) -> Vec<Commands> {
    let mut rows: Vec<Commands> = rows.collect();
    rows.sort_by(|a, b| b.total().total_cmp(&a.total()).then_with(|| a.name.cmp(&b.name)));
    rows
}

fn by_time(a: &Function, b: &Function) -> std::cmp::Ordering {
    b.time_ns.total.cmp(&a.time_ns.total).then_with(|| a.name.cmp(&b.name))
}

impl Report {
    /// From a trace's sums.
    pub fn new(
        names: Vec<String>,
        trace: &Trace<'_>,
        alignment: &Alignment,
        stats: &Stats,
        by: Grouping<'_>,
    ) -> Self {
        let sums = Sums::new(trace, alignment, stats, &by);
        let hosts = trace.timeline.hosts.iter();
        let mut out = Self {
            answer: Answer::default(),
            schema: SCHEMA,
            traces: names,
            changes: crate::changes::recorded_changes(trace),
            duration_ns: stats.recorded_ns(),
            repeated_ns: held(stats, &Repeated::any(stats.repeated.iter())),
            percentile_error: RELATIVE_ERROR,
            hosts: hosts.map(|h| Host { name: h.name.clone(), bound_ns: h.bound_ns }).collect(),
            processes: trace.processes.iter().map(process).collect(),
            devices: stats.devices.iter().map(|(id, of)| sums.device(*id, of)).collect(),
            places: None,
            totals: sums.totals(),
            recording: super::recording::Share::of_costs(
                stats.calls,
                stats.command_count,
                stats.timed,
                stats.recorded_ns(),
                None,
            ),
            sampling: sums.sampling(),
            display_names: BTreeMap::new(),
            kernels: sums.kernels(),
            transfers: sums.transfers(),
            other_commands: sums.other_commands(),
            command_buffers: sums.command_buffers(),
            queues: stats.queues.iter().map(|(id, of)| sums.queue(*id, of)).collect(),
            functions: sums.functions(),
            waits: sums.waits(),
            idle: sums.idle(),
            idle_absent: sums.idle_absent(),
            energy: None,
            sites: by.sites.clone(),
            call_sites: by.sites.all().into_values().cloned().collect(),
            counters: None,
            captures: Some(Captures::collect(trace)).filter(|captures| !captures.is_empty()),
            issues: stats.issues(trace, alignment).iter().map(Finding::from).collect(),
        };
        out.answer_anew(trace, stats);
        out
    }
}
