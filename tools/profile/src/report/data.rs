//! Owns the report as data: what `--format json` prints is these structs, and the tables show
//! nothing that is not in them. Times are nanoseconds, shares between 0 and 1; what is not known is
//! null.
//!
//! `tools/profile/report.schema.json` describes the document (JSON Schema, draft 2020-12); a test
//! makes it of these types. Its version is raised when a field changes its meaning or goes; new
//! fields may come at any time.
#![allow(missing_docs)] // fields are named as in the JSON document

use crate::interval::Interval;
use clscope_analysis::issue::{Issue, Severity};
use clscope_analysis::stats::sketch::Distribution;
use clscope_io::text::count;
use serde::Serialize;
use std::collections::BTreeMap;

/// Name and version of this schema.
pub const SCHEMA: &str = "clscope-report/9";

/// The whole report.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Trace directories.
    pub traces: Vec<String>,
    /// What the run changed of its application on request; null for a plain run.
    pub changes: Option<crate::changes::Changes>,
    /// Time recorded: first begin to last end of anything; of several processes, when any of them
    /// was recorded.
    pub duration_ns: Option<u64>,
    /// The part of it in which the recorder repeated commands (`--replay`) and the application was
    /// held: no part of busy shares, gaps, waits or times of calls; null in runs without.
    #[schemars(default)]
    pub repeated_ns: Option<u64>,
    /// Bound of the relative error of `median`, `p95` and `p99`; other figures are exact.
    pub percentile_error: f64,
    /// Why the run takes its time, what to do, and the rows that matter.
    pub answer: crate::answer::Answer,
    /// Hosts; the first is the reference of the timeline.
    pub hosts: Vec<Host>,
    pub processes: Vec<Process>,
    pub devices: Vec<Device>,
    /// Rows by rank or host (`--by rank`, `--by host`); null where they were not asked for.
    pub places: Option<super::places::Places>,
    pub totals: Totals,
    /// What recording took, estimated from the numbers of records and typical costs.
    pub recording: super::recording::Share,
    /// What part of the kernel launches was timed, and why; null where all were to be.
    pub sampling: Option<Sampling>,
    /// Readable names of kernels, by their names everywhere else in this document, which are those
    /// of the trace; kernels whose names are no mangled ones of C++ or SYCL are not listed.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(default)]
    pub display_names: BTreeMap<String, String>,
    /// By total time, unless sorted otherwise.
    pub kernels: Vec<Commands>,
    pub transfers: Vec<Commands>,
    /// Markers, maps, migrations.
    pub other_commands: Vec<Commands>,
    /// Kernels that ran in command buffers; null where no command buffer was enqueued. Their time is
    /// part of that of the commands `CommandBuffer`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default)]
    pub command_buffers: Option<CommandBuffers>,
    pub queues: Vec<Queue>,
    pub functions: Vec<Function>,
    /// Calls in which the host waited for the device.
    pub waits: Vec<Wait>,
    /// Why devices were idle between commands.
    pub idle: Vec<Idle>,
    /// Devices that are not among them, with the reason.
    pub idle_absent: Vec<String>,
    /// Joules, where the caller attributed them.
    pub energy: Option<crate::energy::result::Energy>,
    /// Places that commands were enqueued from, where they were recorded.
    pub call_sites: Vec<crate::sites::Named>,
    /// The same by their ids.
    #[serde(skip)]
    pub(crate) sites: crate::sites::Sites,
    /// Hardware counters per kernel, where they were recorded.
    pub counters: Option<crate::counters::result::Counters>,
    /// Launches that were kept whole, or why not; null where none was asked for.
    pub captures: Option<crate::captures::Captures>,
    pub issues: Vec<Finding>,
}

/// What command buffers (cl_khr_command_buffer) ran.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct CommandBuffers {
    /// Enqueues of command buffers.
    pub enqueues: u64,
    /// Those whose recording is not in the trace: their kernels are not counted.
    pub unknown: u64,
    /// Kernels by launches, most first.
    pub kernels: Vec<InCommandBuffers>,
}

/// A kernel in command buffers.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct InCommandBuffers {
    /// Its name.
    pub name: String,
    /// How often it was recorded, times the enqueues of what it was recorded into.
    pub launches: u64,
}

impl Report {
    /// Nanoseconds of the run in which the application was not held for repetitions.
    pub fn own_ns(&self) -> Option<u64> {
        Some(self.duration_ns?.saturating_sub(self.repeated_ns.unwrap_or(0)))
    }

    /// In how much of the time of all processes that used a device it ran commands, and which share
    /// of that time it is; of several devices of a process the one that it used most. `None` where
    /// that is not known of a process.
    pub fn busy(&self) -> Option<(Interval, Interval)> {
        let mut most: BTreeMap<&str, (Interval, u64)> = BTreeMap::new();
        for device in self.devices.iter().filter(|d| d.extent_ns > 0) {
            let busy = device.busy()?;
            let of = most.entry(&device.process).or_insert((busy, device.process_ns));
            if busy.value > of.0.value {
                of.0 = busy;
            }
        }
        let of = most.into_values();
        let (busy, ns) = of.reduce(|(a, m), (b, n)| (a.plus(b), m.saturating_add(n)))?;
        (ns > 0).then(|| (busy, busy.map(|busy| (busy / ns as f64).min(1.0))))
    }

    /// Names of the programs that were recorded, each once.
    pub fn programs(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for process in &self.processes {
            let path = process.arguments.first().unwrap_or(&process.executable);
            let name = path.rsplit('/').next().unwrap_or(path);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// These names in words; empty where there are none.
    pub fn programs_text(&self) -> String {
        match self.programs().as_slice() {
            [] => String::new(),
            [name] => (*name).to_owned(),
            [first, second] => format!("{first} and {second}"),
            [first, rest @ ..] => format!("{first} and {} more", rest.len()),
        }
    }

    /// A sentence about processes that were seen to run when the trace was read.
    pub fn running(&self) -> Option<String> {
        let running =
            || self.processes.iter().filter_map(|p| Some((p.pid, p.running_as_of.as_ref()?)));
        let (_, as_of) = running().next()?;
        let pids: Vec<String> = running().take(4).map(|(pid, _)| pid.to_string()).collect();
        let pids = pids.join(", ");
        let who = match (running().count(), self.processes.len()) {
            (1, 1) => format!("process {pids} still runs"),
            (1, all) => format!("1 of {all} processes still runs (pid {pids})"),
            (n, all) if n <= 4 => format!("{n} of {all} processes still run (pids {pids})"),
            (n, all) => format!("{n} of {all} processes still run (pids {pids} and others)"),
        };
        Some(format!("{who}: all figures are as of {as_of}"))
    }
}

#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct Host {
    pub name: String,
    /// Bound of its place against the reference host, null where it could not be placed.
    pub bound_ns: Option<u64>,
}

#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct Process {
    pub label: String,
    pub pid: u32,
    pub host: String,
    pub executable: String,
    pub arguments: Vec<String>,
    pub mpi_rank: Option<u32>,
    /// MPI ranks of its job, where the launcher gave them.
    pub mpi_size: Option<u32>,
    pub threads: usize,
    pub device_timing: String,
    /// Whether the trace has its end: it ended in order.
    pub ended: bool,
    /// Why the trace has no end; null where it has, and where the process was seen to run.
    pub no_end: Option<String>,
    /// Where it was seen to run: when (RFC 3339, UTC). All figures are as of then.
    pub running_as_of: Option<String>,
}

#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct Device {
    pub process: String,
    pub id: u32,
    pub name: String,
    pub driver: String,
    pub compute_units: Option<u32>,
    /// Null where sampling left launches out: what the device did between timed ones is not known.
    pub busy_ns: Option<u64>,
    /// Where launches were left out: the estimated time of all commands of its only queue.
    pub busy_estimate_ns: Option<Interval>,
    /// Commands that the estimate does not hold: none of their kind and size was timed.
    pub busy_without: u64,
    /// Why there is neither.
    pub busy_absent: Option<String>,
    /// Busy time, exact or estimated, over the report's `duration_ns` less `repeated_ns`; null where
    /// no command has a device time.
    pub busy_share: Option<Interval>,
    /// Time of its process that was recorded, without repetitions.
    #[serde(skip)]
    pub process_ns: u64,
    pub idle_ns: Option<u64>,
    /// First begin to last end of its timed commands, without what of it the recorder repeated
    /// commands of the device's process.
    pub extent_ns: u64,
    /// Time in every span that is the runtime's own work, if it was measured. No figure is
    /// corrected for it unless its name ends so.
    pub span_bias_ns: Option<Interval>,
    /// Half-width of the clock band of its spans.
    pub clock_bound_ns: Summary,
    /// Drift of its clock against the host's, relative.
    pub drift: Option<Interval>,
    /// `used`, `unproved` or `contradicted`: whether QUEUED narrowed the bound.
    pub queued: Option<&'static str>,
    /// Steps of its clock.
    pub clock_steps: u64,
}

impl Device {
    /// Its busy time, exact or estimated.
    pub fn busy(&self) -> Option<Interval> {
        let exact = self.busy_ns.map(|ns| Interval::around(ns as f64, 0.0));
        exact.or(self.busy_estimate_ns)
    }
}

/// Estimates for all launches of a kernel of which some were left out by chance.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct Estimates {
    /// Launches that the estimates are for: timed, or left out by chance.
    pub launches: u64,
    pub timed: u64,
    pub total_ns: Option<Interval>,
    pub mean_ns: Option<Interval>,
    pub median_ns: Option<Interval>,
    pub p95_ns: Option<Interval>,
    pub p99_ns: Option<Interval>,
    pub share: Option<Interval>,
    /// By how much longer a timed launch is than one that was left out, where its queue shows that;
    /// null where it shows nothing of it.
    pub timing_adds_ns: Option<f64>,
}

/// What sampled timing left out.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct Sampling {
    pub launches: u64,
    pub timed: u64,
    pub left_out: u64,
    /// Budget in percent of the application's own time, as the recorder was set.
    pub budget_percent: Option<f64>,
    /// Whether launches were left out on a CPU device: few that are preempted for milliseconds may
    /// make up most of the time there, samples miss them, and intervals are then too narrow.
    pub on_cpu_device: bool,
}

/// Sums of the kernels and functions that are shown, and of all transfers and other commands.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Totals {
    pub calls: u64,
    pub commands: u64,
    pub timed: u64,
    /// Sum of the timed kernels' times.
    pub kernel_ns: u128,
    /// Sum of all kernels' times where launches were left out by sampling; `kernel_ns` holds the
    /// timed ones alone.
    pub kernel_estimate_ns: Option<Interval>,
    /// Sum of all kernels' times, estimated or not, less the span bias where that is known for all.
    pub kernel_corrected_ns: Option<Interval>,
    /// Sum of the timed transfers' times.
    pub transfer_ns: u128,
    /// Sum of all transfers' times where some were left out by sampling.
    pub transfer_estimate_ns: Option<Interval>,
    pub call_ns: u128,
    pub errors: u64,
}

/// A distribution in figures; all null where it is empty.
#[derive(Debug, Default, Serialize, schemars::JsonSchema)]
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
    pub fn summarise(d: &Distribution) -> Self {
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
#[derive(Debug, Default, Serialize, schemars::JsonSchema)]
pub struct Commands {
    pub name: String,
    pub device: Option<String>,
    pub direction: Option<&'static str>,
    pub count: u64,
    /// Those without device time.
    pub untimed: u64,
    /// Of them those that sampling left out.
    pub left_out: u64,
    /// Of them those that never ran: they failed, or what they waited for had.
    #[schemars(default)]
    pub failed: u64,
    /// Of the time of its section, estimated where sampling left launches out.
    pub share: Option<f64>,
    pub bytes: u64,
    pub gigabytes_per_second: Option<f64>,
    /// Of the timed ones.
    pub time_ns: Summary,
    /// Timed ones that took over 1.5 times the median; null where no command has a time.
    pub over: Option<Over>,
    /// Where no command has a time, because all of their stamps can be none: what passed on the host
    /// from the begin of each one's enqueue to when it was known complete. None took longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default)]
    pub at_most_ns: Option<Summary>,
    /// Of all launches; null where none was left out by sampling, as `time_ns` is exact then.
    pub estimate: Option<Estimates>,
    /// What of every launch's time is the runtime's own work; null where it was not measured.
    pub span_bias_ns: Option<Interval>,
    /// Total (estimated or not) less the measured span bias; null where it was not measured.
    pub corrected_total_ns: Option<Interval>,
}

/// Commands that took far longer than most of their class.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Over {
    /// How many.
    pub launches: u64,
    /// What they took together, within `percentile_error`.
    pub total_ns: f64,
    /// What the fastest quarter of the class took at most, each.
    pub fastest_quarter_ns: f64,
}

impl Commands {
    /// Those that ran without a device time, and sampling did not leave them out: sums lack theirs.
    pub fn lacking(&self) -> u64 {
        self.untimed.saturating_sub(self.left_out.saturating_add(self.failed))
    }

    /// Total time: of the timed ones, or estimated.
    pub fn total(&self) -> f64 {
        self.estimate
            .as_ref()
            .and_then(|e| e.total_ns.as_ref())
            .map_or(self.time_ns.total as f64, |t| t.value)
    }

    /// Mean time, likewise; negative where nothing is known.
    pub fn mean(&self) -> f64 {
        let estimate = self.estimate.as_ref().and_then(|e| e.mean_ns.as_ref()).map(|m| m.value);
        estimate.or(self.time_ns.mean).unwrap_or(-1.0)
    }
}

#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct Queue {
    pub process: String,
    pub id: u32,
    /// Its number among the queues of its device in the process, from 1; null of one without a
    /// definition.
    pub number: Option<u32>,
    pub device: String,
    /// What took most of its time: up to two kernels or kinds of command.
    pub runs: Vec<String>,
    pub out_of_order: bool,
    pub commands: u64,
    /// Launches that sampling left out.
    pub left_out: u64,
    /// Null where launches were left out by sampling.
    pub busy_ns: Option<u64>,
    /// Between its first and last command; null likewise.
    pub idle_ns: Option<u64>,
    /// Where launches were left out: the estimated sum of all its commands' times, which is its
    /// busy time if they did not overlap.
    pub busy_estimate_ns: Option<Interval>,
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

impl Queue {
    /// What outputs call it: by its number, with its device where there are others, and what takes
    /// most of its time.
    pub fn label(&self, with_device: bool) -> String {
        let number = self.number.map_or_else(|| "unknown queue".into(), |n| format!("queue {n}"));
        let runs = self.runs.first().map_or_else(String::new, |name| format!(": {name}"));
        let device = if with_device { format!(" on {}", self.device) } else { String::new() };
        format!("{number}{device}{runs}")
    }
}

#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct Function {
    pub name: String,
    pub calls: u64,
    pub errors: u64,
    /// Calls by error code.
    pub error_codes: BTreeMap<i32, u64>,
    /// Of the time of all API calls.
    pub share: Option<f64>,
    pub time_ns: Summary,
}

impl Function {
    /// Its calls that failed, by their codes.
    pub fn failures(&self) -> impl Iterator<Item = String> {
        self.error_codes.iter().map(|(code, n)| {
            let name = match clscope_trace::names::error(*code) {
                _ if *code == clscope_trace::record::RESULT_UNKNOWN => "without a code".to_owned(),
                Some(name) => name.to_owned(),
                None => format!("error {code}"),
            };
            format!("{} {name} ({})", self.name, count(*n, "time", "times"))
        })
    }

    /// Whether what it failed at was work: programs ask for what a device lacks, and do without.
    pub fn fails_at_work(&self) -> bool {
        self.errors > 0 && (!self.name.starts_with("clGet") || self.name == "clGetPlatformIDs")
    }
}

/// A function in which the host was blocked on devices.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct Wait {
    #[serde(flatten)]
    pub function: Function,
    /// Of the time of all waits.
    pub share_of_waits: Option<f64>,
    /// What the process's devices ran meanwhile, most first. Together with `nothing_ns` they are the
    /// time of the waits: what ran at once on several queues is given to the queue that was waited
    /// for, or shared equally.
    pub waited_for: Vec<WaitedFor>,
    /// Time of the waits in which nothing ran that has a time: launching and noticing. Null where
    /// there are commands of which none of their kind was timed.
    pub nothing_ns: Option<u64>,
}

impl Wait {
    /// What ran meanwhile as (name, ns), with the rest after the first `most` as one: `others`, and
    /// the time in which no timed command ran; `None` ns for what was not sampled.
    pub fn ran(&self, most: usize) -> Vec<(&str, Option<u64>)> {
        let first = self.waited_for.iter().take(most).map(|of| (of.name.as_str(), Some(of.ns)));
        let mut out: Vec<_> = first.collect();
        let rest: u64 = self.waited_for.iter().skip(most).map(|of| of.ns).sum();
        if rest > 0 {
            out.push(("others", Some(rest)));
        }
        match self.nothing_ns {
            Some(0) => {}
            Some(ns) => out.push(("no timed command", Some(ns))),
            None => out.push(("commands not timed", None)),
        }
        out
    }
}

/// What the host waited for.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct WaitedFor {
    /// Kernel, or kind of command.
    pub name: String,
    /// How long it ran in the waits; an estimate for all where sampling left some out.
    #[serde(rename = "time_ns")]
    pub ns: u64,
    /// The interval of the estimate; null where all were timed.
    pub interval_ns: Option<Interval>,
    /// Of the function's waits.
    pub share: Option<f64>,
}

#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct Idle {
    pub cause: String,
    #[serde(rename = "time_ns")]
    pub ns: u64,
    pub share: Option<f64>,
}

#[derive(Debug, Serialize, schemars::JsonSchema)]
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
