//! Owns the report as data: what `--format json` prints is these structs, and the tables show nothing that is not in
//! them. Times are nanoseconds, shares between 0 and 1; what is not known is null.
//!
//! The schema's version is raised when a field changes its meaning or goes; new fields may come at any time.

use crate::energy::activity::Grouping;
use clscope_analysis::Trace;
use clscope_analysis::align::{Alignment, Queued};
use clscope_analysis::issue::{Issue, Severity};
use clscope_analysis::stats::estimate::{Basis, Estimate as Interval, Sampled};
use clscope_analysis::stats::sketch::{Distribution, RELATIVE_ERROR};
use clscope_analysis::stats::{CommandSums, NamedWait, SPAN_BIAS, Stats};
use serde::Serialize;
use std::collections::BTreeSet;

/// Version of this schema.
pub const SCHEMA: u32 = 1;

/// The whole report.
#[derive(Debug, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Trace directories.
    pub traces: Vec<String>,
    /// First begin to last end of anything.
    pub duration_ns: Option<u64>,
    /// Bound of the relative error of `median`, `p95` and `p99`; other figures are exact.
    pub percentile_error: f64,
    /// Hosts; the first is the reference of the timeline.
    pub hosts: Vec<Host>,
    pub processes: Vec<Process>,
    pub devices: Vec<Device>,
    pub totals: Totals,
    /// What recording took, estimated from the numbers of records and typical costs.
    pub recording: crate::overhead::Share,
    /// Whether the measured span bias was taken off all figures of kernels, as the user asked.
    pub bias_corrected: bool,
    /// What part of the kernel launches was timed, and why; null where all were to be.
    pub sampling: Option<Sampling>,
    /// By total time, unless sorted otherwise.
    pub kernels: Vec<Commands>,
    pub transfers: Vec<Commands>,
    /// Markers, maps, migrations.
    pub other_commands: Vec<Commands>,
    pub queues: Vec<Queue>,
    pub functions: Vec<Function>,
    /// Calls in which the host waited for the device.
    pub waits: Vec<Wait>,
    /// Why devices were idle between commands.
    pub idle: Vec<Idle>,
    /// Joules, where the caller attributed them.
    pub energy: Option<crate::energy::result::Energy>,
    /// Places that commands were enqueued from, where rows are by them.
    pub call_sites: Vec<crate::sites::Named>,
    /// Hardware counters per kernel, where they were recorded.
    pub counters: Option<crate::counters::result::Counters>,
    pub issues: Vec<Finding>,
}

#[derive(Debug, Serialize)]
pub struct Host {
    pub name: String,
    /// Bound of its place against the reference host, null where it could not be placed.
    pub bound_ns: Option<u64>,
}

#[derive(Debug, Serialize)]
pub struct Process {
    pub label: String,
    pub pid: u32,
    pub host: String,
    pub executable: String,
    pub arguments: Vec<String>,
    pub mpi_rank: Option<u32>,
    pub threads: usize,
    pub device_timing: String,
    /// Whether it ended in order; false if it was killed or still runs.
    pub ended: bool,
}

#[derive(Debug, Serialize)]
pub struct Device {
    pub process: String,
    pub id: u32,
    pub name: String,
    pub driver: String,
    /// Null where launches were left out by sampling: what ran between timed ones is not known.
    pub busy_ns: Option<u64>,
    pub idle_ns: Option<u64>,
    /// First begin to last end of its timed commands.
    pub extent_ns: u64,
    /// Time in every span that is the runtime's own work, if it was measured. No figure is corrected for it unless its
    /// name says so.
    pub span_bias_ns: Option<Bias>,
    /// Half-width of the clock band of its spans.
    pub clock_bound_ns: Summary,
    /// Drift of its clock against the host's, relative, and how far it may be off.
    pub drift: Option<f64>,
    pub drift_error: Option<f64>,
    /// `used`, `unproved` or `contradicted`: whether QUEUED narrowed the bound.
    pub queued: Option<&'static str>,
    /// Steps of its clock.
    pub clock_steps: u64,
}

/// A calibrated span bias.
#[derive(Debug, Clone, Serialize)]
pub struct Bias {
    pub value: f64,
    /// Half-width of its 95 % interval.
    pub uncertainty: f64,
}

/// An estimate and its 95 % interval.
#[derive(Debug, Clone, Serialize)]
pub struct Estimate {
    pub estimate: f64,
    /// Lower and upper end; null ends are unknown.
    pub ci95: [Option<f64>; 2],
}

impl From<Interval> for Estimate {
    fn from(e: Interval) -> Self {
        let known = |x: f64| x.is_finite().then_some(x);
        Self { estimate: e.value, ci95: [known(e.low), known(e.high)] }
    }
}

impl Estimate {
    /// The longer side of the interval over the estimate.
    pub fn relative(&self) -> Option<f64> {
        let side = |end: Option<f64>| end.map(|e| (e - self.estimate).abs());
        (self.estimate > 0.0).then_some(())?;
        Some(side(self.ci95[0])?.max(side(self.ci95[1])?) / self.estimate)
    }
}

/// Estimates for all launches of a kernel of which some were left out by chance.
#[derive(Debug, Serialize)]
pub struct Estimates {
    /// Launches that the estimates are for: timed, or left out by chance.
    pub launches: u64,
    pub timed: u64,
    /// `design` if they rest on nothing but the chance by which launches were chosen, `model` if too few were chosen, so
    /// that the launches always timed stand for the others.
    pub basis: Option<&'static str>,
    /// Whether few launches decide about the total, so that its interval may be wrong: few were chosen, one of them stands for
    /// much of it, or there was time for long launches that no chosen one shows.
    pub doubtful: bool,
    pub total_ns: Option<Estimate>,
    pub mean_ns: Option<Estimate>,
    pub median_ns: Option<Estimate>,
    pub p95_ns: Option<Estimate>,
    pub p99_ns: Option<Estimate>,
    pub share: Option<Estimate>,
}

/// What sampled timing left out.
#[derive(Debug, Serialize)]
pub struct Sampling {
    pub launches: u64,
    pub timed: u64,
    pub left_out: u64,
    /// Budget in percent of the application's own time, as the recorder was set.
    pub budget_percent: Option<f64>,
    /// Whether launches were left out on a CPU device: few that are preempted for milliseconds may make up most of the time
    /// there, samples miss them, and intervals are then too narrow.
    pub on_cpu_device: bool,
}

#[derive(Debug, Serialize)]
pub struct Totals {
    pub calls: u64,
    pub commands: u64,
    pub timed: u64,
    /// Sum of the timed kernels' times.
    pub kernel_ns: u128,
    /// Sum of all kernels' times where launches were left out by sampling; `kernel_ns` holds the timed ones alone.
    pub kernel_estimate_ns: Option<Estimate>,
    /// Sum of all kernels' times, estimated or not, less the span bias where that is known for all; null where
    /// `bias_corrected`, since the sums above are that.
    pub kernel_corrected_ns: Option<Estimate>,
    pub transfer_ns: u128,
    pub call_ns: u128,
    pub errors: u64,
}

/// A distribution in figures; all null where it is empty.
#[derive(Debug, Serialize)]
pub struct Summary {
    pub count: u64,
    pub total: u128,
    pub mean: Option<f64>,
    pub median: Option<f64>,
    pub p95: Option<f64>,
    pub p99: Option<f64>,
    pub min: Option<u64>,
    pub max: Option<u64>,
}

impl Summary {
    pub fn of(d: &Distribution) -> Self {
        Self {
            count: d.count(),
            total: d.total(),
            mean: d.mean(),
            median: d.quantile(0.5),
            p95: d.quantile(0.95),
            p99: d.quantile(0.99),
            min: d.min(),
            max: d.max(),
        }
    }
}

/// Commands of one class: a kernel on a device, or a kind of transfer.
#[derive(Debug, Serialize)]
pub struct Commands {
    pub name: String,
    pub device: Option<String>,
    pub direction: Option<&'static str>,
    pub count: u64,
    /// Those without device time.
    pub untimed: u64,
    /// Of them those that sampling left out.
    pub left_out: u64,
    /// Of the time of its section, estimated where sampling left launches out.
    pub share: Option<f64>,
    pub bytes: u64,
    pub gigabytes_per_second: Option<f64>,
    /// Of the timed ones.
    pub time_ns: Summary,
    /// Of all launches; null where none was left out by sampling, as `time_ns` is exact then.
    pub estimate: Option<Estimates>,
    /// What of every launch's time is the runtime's own work; null where it was not measured.
    pub span_bias_ns: Option<Bias>,
    /// Total (estimated or not) less the measured span bias; null where it was not measured, or where `bias_corrected`.
    pub corrected_total_ns: Option<Estimate>,
}

impl Commands {
    /// Total time: of the timed ones, or estimated.
    pub fn total(&self) -> f64 {
        self.estimate.as_ref().and_then(|e| e.total_ns.as_ref()).map_or(self.time_ns.total as f64, |t| t.estimate)
    }

    /// Mean time, likewise; negative where nothing is known.
    pub fn mean(&self) -> f64 {
        let estimate = self.estimate.as_ref().and_then(|e| e.mean_ns.as_ref()).map(|m| m.estimate);
        estimate.or(self.time_ns.mean).unwrap_or(-1.0)
    }
}

#[derive(Debug, Serialize)]
pub struct Queue {
    pub process: String,
    pub id: u32,
    pub device: String,
    pub out_of_order: bool,
    pub commands: u64,
    /// Launches that sampling left out.
    pub left_out: u64,
    /// Null where launches were left out by sampling.
    pub busy_ns: Option<u64>,
    /// Between its first and last command; null likewise.
    pub idle_ns: Option<u64>,
    /// Where launches were left out: the estimated sum of all its commands' times, which is its busy time if they did not
    /// overlap.
    pub busy_estimate_ns: Option<Estimate>,
    pub gaps_ns: Summary,
    /// QUEUED to SUBMIT.
    pub queue_wait_ns: Summary,
    /// SUBMIT to START.
    pub submit_wait_ns: Summary,
    /// START to END.
    pub execution_ns: Summary,
    /// END to when the host knew.
    pub notice_ns: Summary,
    /// Commands that came too late to count in busy and gaps.
    pub late: u64,
}

#[derive(Debug, Serialize)]
pub struct Function {
    pub name: String,
    pub calls: u64,
    pub errors: u64,
    /// Calls by error code.
    pub error_codes: std::collections::BTreeMap<i32, u64>,
    pub share: Option<f64>,
    pub time_ns: Summary,
}

/// A function in which the host was blocked on devices.
#[derive(Debug, Serialize)]
pub struct Wait {
    #[serde(flatten)]
    pub function: Function,
    /// Of the time of all waits.
    pub share_of_waits: Option<f64>,
    /// What the process's devices ran meanwhile, most first.
    pub waited_for: Vec<WaitedFor>,
    /// Time of the waits in which none of them ran: launching, noticing, and what was not timed. Null where launches were
    /// left out by sampling.
    pub nothing_ns: Option<u64>,
}

/// What the host waited for.
#[derive(Debug, Serialize)]
pub struct WaitedFor {
    /// Kernel, or kind of command.
    pub name: String,
    pub ns: u64,
    /// Of the function's waits; of several queues together it may exceed 1.
    pub share: Option<f64>,
}

#[derive(Debug, Serialize)]
pub struct Idle {
    pub cause: String,
    pub ns: u64,
    pub share: Option<f64>,
}

#[derive(Debug, Serialize)]
pub struct Finding {
    /// `note`, `warning` or `error`.
    pub severity: &'static str,
    /// Stable name.
    pub code: String,
    /// Process or file.
    pub subject: String,
    pub text: String,
    pub remedy: Option<&'static str>,
}

impl From<&Issue> for Finding {
    fn from(issue: &Issue) -> Self {
        let severity = match issue.kind.severity() {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        Self {
            severity,
            code: issue.kind.code().to_owned(),
            subject: issue.subject.clone(),
            text: issue.kind.to_string(),
            remedy: issue.kind.remedy(),
        }
    }
}

fn share(part: u128, whole: u128) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// The recorder's sampling budget in percent: the least that a process was set to, or the default.
fn budget(trace: &Trace<'_>) -> Option<f64> {
    use clscope_trace::settings::{BUDGET, SETTINGS};
    let default = SETTINGS.iter().find(|s| s.name == BUDGET).map(|s| s.default);
    let set = trace.processes.iter().map(|p| {
        let settings = &p.definitions.process.settings;
        let own = settings.iter().find_map(|s| s.strip_prefix(BUDGET)?.strip_prefix('='));
        own.or(default)?.trim_end_matches('%').parse::<f64>().ok()
    });
    set.flatten().reduce(f64::min)
}

fn estimates(s: &Sampled, sums: &CommandSums, share: Option<Interval>, preempted: bool) -> Estimates {
    let total = sums.total();
    Estimates {
        doubtful: sums.doubtful(preempted),
        launches: s.launches(),
        timed: s.timed(),
        basis: s.basis().map(|b| match b {
            Basis::Complete => "complete",
            Basis::Design => "design",
            Basis::Model => "model",
        }),
        total_ns: total.map(Into::into),
        mean_ns: total.map(|t| t.times(1.0 / s.launches() as f64).into()),
        median_ns: s.quantile(0.5).map(Into::into),
        p95_ns: s.quantile(0.95).map(Into::into),
        p99_ns: s.quantile(0.99).map(Into::into),
        share: share.map(Into::into),
    }
}

/// As [`commands`], of kernels, whose device may be one that is preempted.
fn kernel(name: &str, device: &str, sums: &CommandSums, others: Interval, preempted: bool) -> Commands {
    let share = sums.total().and_then(|t| t.share(others));
    let estimate = sums.estimated().map(|s| estimates(s, sums, share, preempted));
    Commands { estimate, ..commands(name.to_owned(), Some(device.to_owned()), None, sums, others) }
}

/// `others` is the total of the other classes of the section.
fn commands(name: String, device: Option<String>, direction: Option<&'static str>, sums: &CommandSums, others: Interval) -> Commands {
    let share = sums.total().and_then(|t| t.share(others));
    Commands {
        name,
        device,
        direction,
        count: sums.count,
        untimed: sums.untimed(),
        left_out: sums.left_out(),
        share: share.map(|s| s.value),
        bytes: sums.bytes,
        gigabytes_per_second: sums.gigabytes_per_second(),
        time_ns: Summary::of(&sums.time),
        estimate: None,
        span_bias_ns: sums.span_bias().map(|(value, uncertainty)| Bias { value, uncertainty }),
        corrected_total_ns: sums.corrected().map(Into::into),
    }
}

/// Sum of the totals that are known, and for each of them the sum of the others.
fn totals<'s>(sums: impl Iterator<Item = &'s CommandSums>) -> (Interval, Vec<Interval>) {
    let each: Vec<Interval> = sums.map(|s| s.total().unwrap_or(Interval::exact(0.0))).collect();
    let all = each.iter().fold(Interval::exact(0.0), |sum, e| sum.plus(*e));
    // Sides add by squares, so that one is taken out by them too.
    let rest = |all: f64, own: f64| (all * all - own * own).max(0.0).sqrt();
    let without = |e: &Interval| {
        let value = (all.value - e.value).max(0.0);
        Interval {
            value,
            low: value - rest(all.value - all.low, e.value - e.low),
            high: value + rest(all.high - all.value, e.high - e.value),
        }
    };
    let others = each.iter().map(without).collect();
    (all, others)
}

impl Report {
    /// From a trace's sums.
    pub fn new(names: Vec<String>, trace: &Trace<'_>, alignment: &Alignment, stats: &Stats, by: Grouping<'_>) -> Self {
        let kernels = stats.kernels_by(trace, |process, kernel, variant| by.name(trace, process, kernel, variant));
        // Names of CPU devices whose launches were left out.
        let sampled_devices =
            stats.devices.iter().filter(|(_, sums)| sums.left_out > 0).map(|((p, id), _)| (&trace.process(*p).definitions, *id));
        let of_cpus = sampled_devices.filter(|(d, id)| d.devices.get(id).is_some_and(|d| d.is_cpu()));
        let preempted: BTreeSet<String> = of_cpus.map(|(d, id)| d.device_name(id).into_owned()).collect();
        let kernel_ns = kernels.values().map(|k| k.time.total()).sum();
        let (kernel_total, kernel_others) = totals(kernels.values());
        let transfers = stats.transfers();
        let transfer_ns = transfers.values().map(|t| t.time.total()).sum();
        let transfer_others = totals(transfers.values().copied()).1;
        let (launches, timed, left_out) = stats.launches();
        let corrected = left_out + timed > 0 && kernels.values().filter(|k| k.covered() > 0).all(|k| k.corrected().is_some());
        // The biases of all kernels err together: their sides add as they are.
        let (bias, side) = kernels.values().fold((0.0, 0.0), |(ns, side), k| (ns + k.bias.ns, side + k.bias.uncertainty_ns));
        let kernel_bias = Interval { value: -bias, low: -bias - side, high: -bias + side };
        let functions = stats.functions(trace);
        let call_ns = functions.values().map(|f| f.time.total()).sum();
        let others = stats.other_commands();
        let other_others = totals(others.values().copied()).1;
        let idle = stats.idle_causes(trace);
        let idle_ns: u64 = idle.iter().map(|(_, ns)| ns).sum();
        let label = |p: clscope_analysis::time::ProcessIndex| trace.process(p).label.clone();
        let function = |name: &String, time: &Distribution, errors: &std::collections::BTreeMap<i32, u64>, whole: u128| Function {
            name: name.clone(),
            calls: time.count(),
            errors: errors.values().sum(),
            error_codes: errors.clone(),
            share: share(time.total(), whole),
            time_ns: Summary::of(time),
        };
        let mut out = Self {
            schema: SCHEMA,
            traces: names,
            duration_ns: stats.span.map(|s| s.duration()),
            percentile_error: RELATIVE_ERROR,
            hosts: trace.timeline.hosts.iter().map(|h| Host { name: h.name.clone(), bound_ns: h.bound_ns }).collect(),
            processes: trace
                .processes
                .iter()
                .map(|p| {
                    let d = &p.definitions;
                    Process {
                        label: p.label.clone(),
                        pid: p.header.pid,
                        host: d.process.host.clone(),
                        executable: d.process.executable.clone(),
                        arguments: d.process.arguments.clone(),
                        mpi_rank: d.process.mpi_rank,
                        threads: d.threads.len(),
                        device_timing: d.process.device_timing.clone(),
                        ended: d.exit.is_some(),
                    }
                })
                .collect(),
            devices: stats
                .devices
                .iter()
                .map(|((process, id), sums)| {
                    let d = &trace.process(*process).definitions;
                    let aligned = alignment.devices.iter().find(|a| (a.process, a.device) == (*process, *id));
                    let drift = aligned.and_then(|a| a.drift());
                    let complete = sums.left_out == 0;
                    let extent = sums.busy.extent().map_or(0, |e| e.duration());
                    let bias = d.calibrations.iter().rev().find(|c| c.name == SPAN_BIAS && c.device == *id);
                    Device {
                        process: label(*process),
                        id: *id,
                        name: d.device_name(*id).into_owned(),
                        driver: d.devices.get(id).map(|d| d.driver.clone()).unwrap_or_default(),
                        busy_ns: complete.then(|| sums.busy.busy()),
                        idle_ns: complete.then(|| extent - sums.busy.busy()),
                        extent_ns: extent,
                        span_bias_ns: bias.map(|b| Bias { value: b.value, uncertainty: b.uncertainty }),
                        clock_bound_ns: Summary::of(&sums.bounds),
                        drift: drift.map(|d| d.0),
                        drift_error: drift.map(|d| d.1),
                        queued: aligned.map(|a| match a.queued {
                            Queued::Used => "used",
                            Queued::Unproved => "unproved",
                            Queued::Contradicted => "contradicted",
                        }),
                        clock_steps: aligned.map_or(0, |a| a.pieces().saturating_sub(1) as u64),
                    }
                })
                .collect(),
            totals: Totals {
                calls: stats.calls,
                commands: stats.command_count,
                timed: stats.timed,
                kernel_ns,
                kernel_estimate_ns: (left_out > 0).then(|| kernel_total.into()),
                kernel_corrected_ns: corrected.then(|| kernel_total.plus(kernel_bias).into()),
                transfer_ns,
                call_ns,
                errors: functions.values().flat_map(|f| f.errors.values()).sum(),
            },
            recording: crate::overhead::Share::of(stats.calls, stats.command_count, stats.timed, stats.span.map(|s| s.duration()), None),
            bias_corrected: false,
            sampling: (left_out > 0).then(|| Sampling {
                launches,
                timed,
                left_out,
                budget_percent: budget(trace),
                on_cpu_device: !preempted.is_empty(),
            }),
            kernels: kernels
                .iter()
                .zip(kernel_others)
                .map(|(((name, device), k), rest)| kernel(name, device, k, rest, preempted.contains(device)))
                .collect(),
            transfers: transfers
                .iter()
                .zip(transfer_others)
                .map(|(((direction, kind), t), rest)| commands(kind.name().to_owned(), None, Some(direction.name()), t, rest))
                .collect(),
            other_commands: others
                .iter()
                .zip(other_others)
                .map(|((kind, t), rest)| commands(kind.name().to_owned(), None, None, t, rest))
                .collect(),
            queues: stats
                .queues
                .iter()
                .map(|((process, id), q)| {
                    let d = &trace.process(*process).definitions;
                    let queue = d.queues.get(id);
                    let complete = q.left_out == 0;
                    let estimate = if complete { None } else { stats.queue_time(*process, *id) };
                    Queue {
                        process: label(*process),
                        id: *id,
                        device: queue.map(|q| d.device_name(q.device).into_owned()).unwrap_or_default(),
                        out_of_order: queue.is_some_and(|q| q.is_out_of_order()),
                        commands: q.count,
                        left_out: q.left_out,
                        busy_ns: complete.then(|| q.busy.busy()),
                        idle_ns: complete.then(|| q.busy.extent().map_or(0, |e| e.duration() - q.busy.busy())),
                        busy_estimate_ns: estimate.map(Into::into),
                        gaps_ns: if complete { Summary::of(&q.busy.gaps) } else { Summary::of(&Distribution::default()) },
                        queue_wait_ns: Summary::of(&q.queue_wait),
                        submit_wait_ns: Summary::of(&q.submit_wait),
                        execution_ns: Summary::of(&q.execution),
                        notice_ns: Summary::of(&q.notice),
                        late: q.busy.late,
                    }
                })
                .collect(),
            functions: functions.iter().map(|(name, f)| function(name, &f.time, &f.errors, call_ns)).collect(),
            waits: {
                let waits = stats.waits(trace);
                let whole = waits.values().map(|w| w.time.total()).sum();
                let wait = |(name, w): (&String, &NamedWait)| {
                    let total = w.time.total();
                    let ran: u64 = w.running.values().sum();
                    let of = |(name, ns): (&String, &u64)| WaitedFor { name: name.clone(), ns: *ns, share: share(u128::from(*ns), total) };
                    let mut waited_for: Vec<WaitedFor> = w.running.iter().map(of).collect();
                    waited_for.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| a.name.cmp(&b.name)));
                    Wait {
                        function: function(name, &w.time, &Default::default(), call_ns),
                        share_of_waits: share(total, whole),
                        waited_for,
                        nothing_ns: (left_out == 0).then(|| u64::try_from(total).unwrap_or(u64::MAX).saturating_sub(ran)),
                    }
                };
                waits.iter().map(wait).collect()
            },
            idle: idle.into_iter().map(|(cause, ns)| Idle { cause, ns, share: share(u128::from(ns), u128::from(idle_ns)) }).collect(),
            energy: None,
            call_sites: by.sites.all().into_values().cloned().collect(),
            counters: None,
            issues: stats.issues(trace, alignment).iter().map(Finding::from).collect(),
        };
        // What explains most comes first, names settle ties.
        for list in [&mut out.kernels, &mut out.transfers, &mut out.other_commands] {
            list.sort_by(|a, b| b.total().total_cmp(&a.total()).then_with(|| a.name.cmp(&b.name)));
        }
        let by_time = |a: &Function, b: &Function| b.time_ns.total.cmp(&a.time_ns.total).then_with(|| a.name.cmp(&b.name));
        out.functions.sort_by(by_time);
        out.waits.sort_by(|a, b| by_time(&a.function, &b.function));
        out
    }
}
