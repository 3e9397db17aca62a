//! Owns the report as data: what `--format json` prints is these structs, and the tables show nothing that is not in
//! them. Times are nanoseconds, shares between 0 and 1; what is not known is null.
//!
//! The schema's version is raised when a field changes its meaning or goes; new fields may come at any time.

use clscope_analysis::Trace;
use clscope_analysis::align::{Alignment, Queued};
use clscope_analysis::issue::{Issue, Severity};
use clscope_analysis::stats::sketch::{Distribution, RELATIVE_ERROR};
use clscope_analysis::stats::{CommandSums, Stats};
use clscope_trace::record::Direction;
use serde::Serialize;

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
    /// By total time, unless sorted otherwise.
    pub kernels: Vec<Commands>,
    pub transfers: Vec<Commands>,
    /// Markers, maps, migrations.
    pub other_commands: Vec<Commands>,
    pub queues: Vec<Queue>,
    pub functions: Vec<Function>,
    /// Calls in which the host waited for the device.
    pub waits: Vec<Function>,
    /// Why devices were idle between commands.
    pub idle: Vec<Idle>,
    /// Joules, where the caller attributed them.
    pub energy: Option<crate::energy::result::Energy>,
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
    pub busy_ns: u64,
    pub idle_ns: u64,
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

#[derive(Debug, Serialize)]
pub struct Totals {
    pub calls: u64,
    pub commands: u64,
    pub timed: u64,
    /// Sum of all kernels' times.
    pub kernel_ns: u128,
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
    /// Of the time of its section.
    pub share: Option<f64>,
    pub bytes: u64,
    pub gigabytes_per_second: Option<f64>,
    pub time_ns: Summary,
}

#[derive(Debug, Serialize)]
pub struct Queue {
    pub process: String,
    pub id: u32,
    pub device: String,
    pub out_of_order: bool,
    pub commands: u64,
    pub busy_ns: u64,
    /// Between its first and last command.
    pub idle_ns: u64,
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

fn direction_name(direction: Direction) -> &'static str {
    match direction {
        Direction::HostToDevice => "host to device",
        Direction::DeviceToHost => "device to host",
        Direction::DeviceToDevice => "device to device",
        Direction::Fill => "fill",
        Direction::Unknown => "unknown",
    }
}

fn commands(name: String, device: Option<String>, direction: Option<&'static str>, sums: &CommandSums, whole: u128) -> Commands {
    Commands {
        name,
        device,
        direction,
        count: sums.count,
        untimed: sums.untimed(),
        share: share(sums.time.total(), whole).filter(|_| sums.time.count() > 0),
        bytes: sums.bytes,
        gigabytes_per_second: sums.gigabytes_per_second(),
        time_ns: Summary::of(&sums.time),
    }
}

impl Report {
    /// From a trace's sums.
    pub fn new(names: Vec<String>, trace: &Trace<'_>, alignment: &Alignment, stats: &Stats) -> Self {
        let kernels = stats.kernels(trace);
        let kernel_ns = kernels.values().map(|k| k.time.total()).sum();
        let transfers = stats.transfers();
        let transfer_ns = transfers.values().map(|t| t.time.total()).sum();
        let functions = stats.functions(trace);
        let call_ns = functions.values().map(|f| f.time.total()).sum();
        let others = stats.other_commands();
        let other_ns = others.values().map(|t| t.time.total()).sum();
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
                    Device {
                        process: label(*process),
                        id: *id,
                        name: d.device_name(*id).into_owned(),
                        driver: d.devices.get(id).map(|d| d.driver.clone()).unwrap_or_default(),
                        busy_ns: sums.busy.busy(),
                        idle_ns: sums.busy.extent().map_or(0, |e| e.duration() - sums.busy.busy()),
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
                transfer_ns,
                call_ns,
                errors: functions.values().flat_map(|f| f.errors.values()).sum(),
            },
            kernels: kernels.iter().map(|((name, device), k)| commands(name.clone(), Some(device.clone()), None, k, kernel_ns)).collect(),
            transfers: transfers
                .iter()
                .map(|((direction, kind), t)| commands(kind.name().to_owned(), None, Some(direction_name(*direction)), t, transfer_ns))
                .collect(),
            other_commands: others.iter().map(|(kind, t)| commands(kind.name().to_owned(), None, None, t, other_ns)).collect(),
            queues: stats
                .queues
                .iter()
                .map(|((process, id), q)| {
                    let d = &trace.process(*process).definitions;
                    let queue = d.queues.get(id);
                    Queue {
                        process: label(*process),
                        id: *id,
                        device: queue.map(|q| d.device_name(q.device).into_owned()).unwrap_or_default(),
                        // CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, cl.h.
                        out_of_order: queue.is_some_and(|q| q.properties & 1 != 0),
                        commands: q.count,
                        busy_ns: q.busy.busy(),
                        idle_ns: q.busy.extent().map_or(0, |e| e.duration() - q.busy.busy()),
                        gaps_ns: Summary::of(&q.busy.gaps),
                        queue_wait_ns: Summary::of(&q.queue_wait),
                        submit_wait_ns: Summary::of(&q.submit_wait),
                        execution_ns: Summary::of(&q.execution),
                        notice_ns: Summary::of(&q.notice),
                        late: q.busy.late,
                    }
                })
                .collect(),
            functions: functions.iter().map(|(name, f)| function(name, &f.time, &f.errors, call_ns)).collect(),
            waits: stats.waits(trace).iter().map(|(name, w)| function(name, &w.time, &Default::default(), call_ns)).collect(),
            idle: idle.into_iter().map(|(cause, ns)| Idle { cause, ns, share: share(u128::from(ns), u128::from(idle_ns)) }).collect(),
            energy: None,
            issues: stats.issues(trace, alignment).iter().map(Finding::from).collect(),
        };
        // What explains most comes first, names settle ties.
        for list in [&mut out.kernels, &mut out.transfers, &mut out.other_commands] {
            list.sort_by(|a, b| b.time_ns.total.cmp(&a.time_ns.total).then_with(|| a.name.cmp(&b.name)));
        }
        for list in [&mut out.functions, &mut out.waits] {
            list.sort_by(|a, b| b.time_ns.total.cmp(&a.time_ns.total).then_with(|| a.name.cmp(&b.name)));
        }
        out
    }
}
