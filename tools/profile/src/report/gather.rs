//! Owns the way from a trace's sums to the report as data. Refuses to estimate: figures come from
//! the analysis.
#![forbid(unsafe_code)]

use super::data::{
    Commands, Device, Estimates, Finding, Function, Host, Idle, Process, Queue, Report, SCHEMA,
    Sampling, Summary, Totals, Wait, WaitedFor,
};
use crate::captures::Captures;
use crate::energy::activity::Grouping;
use crate::interval::Interval;
use clscope_analysis::Trace;
use clscope_analysis::align::{Alignment, Queued};
use clscope_analysis::input::Definitions;
use clscope_analysis::issue::IssueKind;
use clscope_analysis::stats::beside::Repeated;
use clscope_analysis::stats::estimate::{Basis, Estimate, Sampled};
use clscope_analysis::stats::sketch::{Distribution, RELATIVE_ERROR};
use clscope_analysis::stats::{CommandSums, NamedWait, SPAN_BIAS, Stats};
use std::collections::BTreeSet;

fn share(part: u128, whole: u128) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Nanoseconds of the run in which the recorder repeated commands, if it did.
fn held(stats: &Stats, repeated: &Repeated) -> Option<u64> {
    stats.span.map(|span| repeated.within(span)).filter(|ns| *ns > 0)
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

fn estimates(
    s: &Sampled,
    sums: &CommandSums,
    share: Option<Estimate>,
    preempted: bool,
) -> Estimates {
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

/// `others` is the total of the other classes of the section; `preempted`: whether the device may
/// be one that is.
fn commands(name: &str, sums: &CommandSums, others: Estimate, preempted: bool) -> Commands {
    let share = sums.total().and_then(|t| t.share(others));
    Commands {
        name: name.to_owned(),
        device: None,
        direction: None,
        count: sums.count,
        untimed: sums.untimed(),
        left_out: sums.left_out(),
        share: share.map(|s| s.value),
        bytes: sums.bytes,
        gigabytes_per_second: sums.gigabytes_per_second(),
        time_ns: Summary::of(&sums.time),
        estimate: sums.estimated().map(|s| estimates(s, sums, share, preempted)),
        span_bias_ns: sums
            .span_bias()
            .map(|(value, uncertainty)| Interval::around(value, uncertainty)),
        corrected_total_ns: sums
            .corrected()
            .map(|t| Interval { estimated: sums.left_out() > 0, ..t.into() }),
    }
}

/// Sum of the totals that are known, and for each of them the sum of the others.
fn totals<'s>(sums: impl Iterator<Item = &'s CommandSums>) -> (Estimate, Vec<Estimate>) {
    let each: Vec<Estimate> = sums.map(|s| s.total().unwrap_or(Estimate::exact(0.0))).collect();
    Estimate::sum_and_others(&each)
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
        let kernels = stats
            .kernels_by(trace, |process, kernel, variant| by.name(trace, process, kernel, variant));
        // Names of devices whose launches were left out, and of CPUs among them.
        let sampled_devices = stats
            .devices
            .iter()
            .filter(|(_, sums)| sums.left_out > 0)
            .map(|((p, id), _)| (&trace.process(*p).definitions, *id));
        let named = |of: &mut dyn Iterator<Item = (&Definitions, u32)>| {
            of.map(|(d, id)| d.device_name(id).into_owned()).collect::<BTreeSet<String>>()
        };
        let sampled = named(&mut sampled_devices.clone());
        let preempted = named(
            &mut sampled_devices.filter(|(d, id)| d.devices.get(id).is_some_and(|d| d.is_cpu())),
        );
        let kernel_ns = kernels.values().map(|k| k.time.total()).sum();
        let (kernel_total, kernel_others) = totals(kernels.values());
        let transfers = stats.transfers();
        let transfer_ns = transfers.values().map(|t| t.time.total()).sum();
        let (transfer_total, transfer_others) = totals(transfers.values());
        let (launches, timed, left_out) = stats.launches();
        let transfers_left_out = transfers.values().any(|t| t.left_out() > 0);
        let corrected = left_out + timed > 0
            && kernels.values().filter(|k| k.covered() > 0).all(|k| k.corrected().is_some());
        // The biases of all kernels err together: their sides add as they are.
        let (bias, side) = kernels
            .values()
            .fold((0.0, 0.0), |(ns, side), k| (ns + k.bias.ns, side + k.bias.uncertainty_ns));
        let kernel_bias = Estimate { value: -bias, low: -bias - side, high: -bias + side };
        let functions = stats.functions(trace);
        let call_ns = functions.values().map(|f| f.time.total()).sum();
        let others = stats.other_commands();
        let other_others = totals(others.values()).1;
        let idle = stats.idle_causes(trace);
        let idle_ns: u64 = idle.iter().map(|(_, ns)| ns).sum();
        let label = |p: clscope_analysis::time::ProcessIndex| trace.process(p).label.clone();
        let function = |name: &String,
                        time: &Distribution,
                        errors: &std::collections::BTreeMap<i32, u64>,
                        whole: u128| Function {
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
            changes: crate::changes::recorded_changes(trace),
            duration_ns: stats.span.map(|s| s.duration()),
            repeated_ns: held(stats, &Repeated::any(stats.repeated.iter())),
            percentile_error: RELATIVE_ERROR,
            hosts: trace
                .timeline
                .hosts
                .iter()
                .map(|h| Host { name: h.name.clone(), bound_ns: h.bound_ns })
                .collect(),
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
                        threads: d.threads.values().filter(|t| !t.is_recorders()).count(),
                        device_timing: d.process.device_timing.clone(),
                        ended: d.exit.is_some(),
                        running_as_of: p.issues.iter().find_map(|kind| match kind {
                            IssueKind::Running { as_of } => Some(as_of.clone()),
                            _ => None,
                        }),
                    }
                })
                .collect(),
            devices: stats
                .devices
                .iter()
                .map(|((process, id), sums)| {
                    let d = &trace.process(*process).definitions;
                    let aligned =
                        alignment.devices.iter().find(|a| (a.process, a.device) == (*process, *id));
                    let drift = aligned.and_then(|a| a.drift());
                    let complete = sums.left_out == 0;
                    let (estimate, without, absent) = match stats.device_time(trace, *process, *id) {
                        _ if complete => (None, 0, None),
                        Ok((estimate, without)) => (Some(estimate.into()), without, None),
                        Err(why) => (None, 0, Some(why.to_string())),
                    };
                    let extent = sums.busy.extent().map_or(0, |e| e.duration());
                    let bias = d
                        .calibrations
                        .iter()
                        .rev()
                        .find(|c| c.name == SPAN_BIAS && c.device == *id);
                    let mut device = Device {
                        process: label(*process),
                        id: *id,
                        name: d.device_name(*id).into_owned(),
                        driver: d.devices.get(id).map(|d| d.driver.clone()).unwrap_or_default(),
                        busy_ns: complete.then(|| sums.busy.busy()),
                        busy_estimate_ns: estimate,
                        busy_without: without,
                        busy_absent: absent,
                        busy_share: None,
                        idle_ns: complete.then(|| sums.busy.idle()),
                        extent_ns: extent,
                        span_bias_ns: bias.map(|b| Interval::around(b.value, b.uncertainty)),
                        clock_bound_ns: Summary::of(&sums.bounds),
                        drift: drift.map(|(value, half)| {
                            Interval::estimated(value, value - half, value + half)
                        }),
                        queued: aligned.map(|a| match a.queued {
                            Queued::Used => "used",
                            Queued::Unproved => "unproved",
                            Queued::Contradicted => "contradicted",
                        }),
                        clock_steps: aligned.map_or(0, |a| a.pieces().saturating_sub(1) as u64),
                    };
                    let repeated = held(stats, &stats.repeated[process.0 as usize]).unwrap_or(0);
                    let wall = stats.span.map(|s| s.duration().saturating_sub(repeated) as f64);
                    let wall = wall.filter(|ns| *ns > 0.0);
                    // A clock's bound may put busy time beyond the run's end.
                    let busy = device.busy().filter(|_| extent > 0);
                    let part = |wall: f64| busy.map(|b| b.map(|ns| (ns / wall).min(1.0)));
                    device.busy_share = wall.and_then(part);
                    device
                })
                .collect(),
            places: None,
            totals: Totals {
                calls: stats.calls,
                commands: stats.command_count,
                timed: stats.timed,
                kernel_ns,
                kernel_estimate_ns: (left_out > 0).then(|| kernel_total.into()),
                kernel_corrected_ns: corrected.then(|| Interval {
                    estimated: left_out > 0,
                    ..kernel_total.plus(kernel_bias).into()
                }),
                transfer_ns,
                transfer_estimate_ns: transfers_left_out.then(|| transfer_total.into()),
                call_ns,
                errors: functions.values().flat_map(|f| f.errors.values()).sum(),
            },
            recording: super::recording::Share::of(
                stats.calls,
                stats.command_count,
                stats.timed,
                stats.span.map(|s| s.duration()),
                None,
            ),
            bias_corrected: false,
            sampling: (left_out > 0 || transfers_left_out).then(|| Sampling {
                launches,
                timed,
                left_out,
                budget_percent: budget(trace),
                on_cpu_device: !preempted.is_empty(),
            }),
            display_names: std::collections::BTreeMap::new(),
            kernels: kernels
                .iter()
                .zip(kernel_others)
                .map(|(((name, device), k), rest)| Commands {
                    device: Some(device.clone()),
                    ..commands(name, k, rest, preempted.contains(device))
                })
                .collect(),
            transfers: transfers
                .iter()
                .zip(transfer_others)
                .map(|(((direction, kind), t), rest)| Commands {
                    direction: Some(direction.name()),
                    ..commands(kind.name(), t, rest, !preempted.is_empty())
                })
                .collect(),
            other_commands: others
                .iter()
                .zip(other_others)
                .map(|((kind, t), rest)| {
                    let on_processor = !preempted.is_empty();
                    let row = commands(kind.name(), t, rest, on_processor);
                    // Maps: a processor's memory is where the host's is, and nothing moves.
                    let rate = row.gigabytes_per_second.filter(|_| !on_processor);
                    Commands { gigabytes_per_second: rate, ..row }
                })
                .collect(),
            queues: stats
                .queues
                .iter()
                .map(|((process, id), q)| {
                    let d = &trace.process(*process).definitions;
                    let queue = d.queues.get(id);
                    let complete = q.left_out == 0;
                    let estimate = if complete { None } else { stats.queue_time(trace, *process, *id) };
                    Queue {
                        process: label(*process),
                        id: *id,
                        device: queue
                            .map(|q| d.device_name(q.device).into_owned())
                            .unwrap_or_default(),
                        out_of_order: queue.is_some_and(|q| q.is_out_of_order()),
                        commands: q.count,
                        left_out: q.left_out,
                        busy_ns: complete.then(|| q.busy.busy()),
                        idle_ns: complete.then(|| q.busy.idle()),
                        busy_estimate_ns: estimate.map(Into::into),
                        gaps_ns: if complete {
                            Summary::of(&q.busy.gaps)
                        } else {
                            Summary::of(&Distribution::default())
                        },
                        queue_wait_ns: Summary::of(&q.queue_wait),
                        submit_wait_ns: Summary::of(&q.submit_wait),
                        execution_ns: Summary::of(&q.execution),
                        notice_ns: Summary::of(&q.notice),
                        late: q.busy.late,
                    }
                })
                .collect(),
            functions: functions
                .iter()
                .map(|(name, f)| function(name, &f.time, &f.errors, call_ns))
                .collect(),
            waits: {
                let waits = stats.waits(trace);
                let whole = waits.values().map(|w| w.time.total()).sum();
                let wait = |(name, w): (&String, &NamedWait)| {
                    let total = w.time.total();
                    let ran: u64 = w.running.values().sum();
                    let of = |(name, ns): (&String, &u64)| WaitedFor {
                        name: name.clone(),
                        ns: *ns,
                        share: share(u128::from(*ns), total),
                    };
                    let mut waited_for: Vec<WaitedFor> = w.running.iter().map(of).collect();
                    waited_for.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| a.name.cmp(&b.name)));
                    Wait {
                        function: function(name, &w.time, &Default::default(), call_ns),
                        share_of_waits: share(total, whole),
                        waited_for,
                        nothing_ns: (left_out == 0 && !transfers_left_out)
                            .then(|| u64::try_from(total).unwrap_or(u64::MAX).saturating_sub(ran)),
                    }
                };
                waits.iter().map(wait).collect()
            },
            idle: idle
                .into_iter()
                .map(|(cause, ns)| Idle {
                    cause,
                    ns,
                    share: share(u128::from(ns), u128::from(idle_ns)),
                })
                .collect(),
            idle_absent: sampled
                .iter()
                .map(|name| {
                    format!(
                        "gaps between commands of {name} are not known: between timed ones ran others that sampling left out (`record --device-timing event` times all)"
                    )
                })
                .collect(),
            energy: None,
            call_sites: by.sites.all().into_values().cloned().collect(),
            counters: None,
            captures: Some(Captures::of(trace)).filter(|captures| !captures.is_empty()),
            issues: stats.issues(trace, alignment).iter().map(Finding::from).collect(),
        };
        // What explains most comes first, names settle ties.
        for list in [&mut out.kernels, &mut out.transfers, &mut out.other_commands] {
            list.sort_by(|a, b| b.total().total_cmp(&a.total()).then_with(|| a.name.cmp(&b.name)));
        }
        let by_time = |a: &Function, b: &Function| {
            b.time_ns.total.cmp(&a.time_ns.total).then_with(|| a.name.cmp(&b.name))
        };
        out.functions.sort_by(by_time);
        out.waits.sort_by(|a, b| by_time(&a.function, &b.function));
        out
    }
}
