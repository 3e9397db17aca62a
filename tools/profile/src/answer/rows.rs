//! Owns the rows of the answer: kernels, copies, calls, energy and gaps, each with its share of the
//! wall time. Refuses to estimate: figures are the report's.

use super::causes::{self, CAPTURED, direction};
use super::data::{Answer, CopyRow, EnergyPart, EnergyRow, GapRow, HostRow, KernelRow, Run};
use super::percent;
use super::sentences::outliers;
use crate::energy::result::{Class, DeviceEnergy, PartOf};
use crate::interval::Interval;
use crate::report::Report;
use crate::report::data::{Commands, Function};
use clscope_analysis::Trace;
use clscope_analysis::input::Definitions;
use clscope_analysis::stats::Stats;
use clscope_analysis::stats::sizes::OfSize;
use clscope_analysis::time::{ProcessIndex, ThreadIndex};
use clscope_trace::record::Direction;
use clscope_trace::replace;
use std::collections::{BTreeMap, BTreeSet};

/// Fewer launches have no 95th percentile.
const FOR_P95: u64 = 20;
/// Times of the shortest median from which on sizes of a kernel are unlike.
const UNLIKE: f64 = 2.0;
/// Gaps that are listed.
const GAPS: usize = 5;

/// All rows, and the heading.
pub fn rows(report: &Report, trace: &Trace<'_>, stats: &Stats) -> Answer {
    // Of several processes all of their time together, as of the causes.
    let walls = causes::processes(trace, stats).into_iter().filter_map(|of| stats.wall(of));
    let wall: f64 = walls.map(|parts| parts.wall_ns as f64).sum();
    let share = |ns: f64| (wall > 0.0).then(|| ns / wall);
    let devices: BTreeSet<&str> =
        report.devices.iter().filter(|d| d.extent_ns > 0).map(|d| d.name.as_str()).collect();
    let sizes = sizes(trace, stats);
    // Parts of a device are one device in the heading.
    let on: BTreeSet<&Option<String>> = report.kernels.iter().map(|of| &of.device).collect();
    let kernels = report.kernels.iter().flat_map(|of| {
        let row = kernel(of, report, &sizes, on.len(), &share);
        by_size(of, row, &sizes, &share)
    });
    Answer {
        run: run(report, wall, &devices),
        kernels: kernels.collect(),
        copies: copies(report, stats, &share),
        host: host(report, wall),
        energy: report
            .energy
            .iter()
            .flat_map(|e| &e.devices)
            .filter_map(|of| energy(of, report.own_ns()))
            .collect(),
        gaps: gaps(report, trace, stats),
        ..Answer::default()
    }
}

/// Program and arguments of the first process that has some, of a script without its interpreter;
/// of several programs their names.
fn name_programs(report: &Report) -> String {
    let first = report.processes.iter().find(|p| !p.arguments.is_empty());
    match (report.programs().len(), first) {
        (1, Some(p)) => {
            let words: Vec<&str> = p.arguments.iter().map(|word| name_file(word)).collect();
            let is_script = words[0].starts_with("python")
                && words.get(1).is_some_and(|word| word.ends_with(".py"));
            words[usize::from(is_script)..].join(" ")
        }
        (1, None) => report.processes.first().map_or_else(String::new, |p| p.executable.clone()),
        _ => report.programs_text(),
    }
}

/// The last name of a path, and any other word whole.
fn name_file(word: &str) -> &str {
    let is_path = ["/", "./", "../"].iter().any(|begin| word.starts_with(begin));
    let last = word.rsplit('/').find(|part| !part.is_empty()).filter(|_| is_path);
    last.unwrap_or(word)
}

fn run(report: &Report, wall: f64, devices: &BTreeSet<&str>) -> Run {
    let measured = report.energy.iter().flat_map(|e| &e.devices).filter(|d| d.window.is_none());
    let watts = measured.filter_map(DeviceEnergy::own_watts).reduce(Interval::plus);
    Run {
        command: name_programs(report),
        processes: report.processes.len(),
        wall_ns: Some(wall),
        wall_processes: 1,
        devices: devices.iter().map(|name| (*name).to_owned()).collect(),
        busy: report.busy().map(|(_, share)| share),
        watts,
    }
}

/// Total of a row; `None` where nothing of it is known.
fn total(of: &Commands) -> Option<Interval> {
    match &of.estimate {
        Some(estimate) => estimate.total_ns,
        None => (of.time_ns.count > 0).then(|| Interval::around(of.time_ns.total as f64, 0.0)),
    }
}

/// By name of a kernel: its sizes in words with what was launched of each, and whether there are
/// more.
type Sizes = BTreeMap<String, (BTreeMap<String, OfSize>, bool)>;

fn sizes(trace: &Trace<'_>, stats: &Stats) -> Sizes {
    let mut out = Sizes::new();
    for ((process, kernel), sizes) in &stats.sizes {
        let d = &trace.process(*process).definitions;
        let (of, more) = out.entry(d.kernel_name(*kernel).into_owned()).or_default();
        *more |= sizes.is_cut;
        for size in &sizes.sizes {
            let sum = of.entry(size_in_words(d, size.geometry)).or_default();
            sum.launches += size.launches;
            sum.failed += size.failed;
            sum.time.merge(&size.time);
        }
    }
    out
}

/// Global size, and the local one where the application set it.
fn size_in_words(d: &Definitions, geometry: u32) -> String {
    let Some(of) = d.geometries.get(&geometry) else { return "size unknown".to_owned() };
    let used = (of.dimensions as usize).clamp(1, 3);
    let words = |sizes: &[u64; 3]| replace::shown(&sizes[..used]);
    match &of.local {
        Some(local) => format!("{} by {}", words(&of.global), words(local)),
        None => words(&of.global),
    }
}

fn class<'r>(report: &'r Report, kind: &str, name: &str) -> Option<&'r Class> {
    // Times are of the run: joules of a part of it do not belong beside them.
    let devices = report.energy.iter().flat_map(|e| &e.devices).filter(|d| d.window.is_none());
    let classes = devices.flat_map(|d| &d.classes);
    let mut those = classes.filter(|c| c.kind == kind && c.name == name);
    let first = those.next();
    // On several devices they differ.
    first.filter(|_| those.next().is_none())
}

fn kernel(
    of: &Commands,
    report: &Report,
    sizes: &Sizes,
    devices: usize,
    share: &dyn Fn(f64) -> Option<f64>,
) -> KernelRow {
    let time = total(of);
    let (known, more) = sizes.get(&of.name).map_or((0, false), |(of, more)| (of.len(), *more));
    let each = sizes.get(&of.name).into_iter().flat_map(|(of, _)| of);
    let most = each.max_by_key(|(_, of)| of.launches);
    let class = class(report, "kernel", &of.name);
    let (median, p95) = match &of.estimate {
        Some(estimate) => (estimate.median_ns, estimate.p95_ns),
        None => {
            let exact = |ns: Option<f64>| ns.map(|ns| Interval::around(ns, 0.0));
            (exact(of.time_ns.median), exact(of.time_ns.p95))
        }
    };
    KernelRow {
        name: of.name.clone(),
        device: of.device.clone().filter(|_| devices > 1),
        size: most.map(|(size, _)| size.clone()),
        sizes: known,
        sizes_are_more: more,
        of_size: false,
        share: time.and_then(|time| share(time.value)),
        time_ns: time,
        launches: of.count,
        untimed: of.lacking(),
        median_ns: median,
        p95_ns: p95.filter(|_| of.count >= FOR_P95),
        joules_per_launch: class.and_then(|c| c.joules_per_launch),
        joules_per_launch_below: class.and_then(|c| c.joules_per_launch_below),
        watts: class.and_then(|c| c.watts),
        outliers: outliers(of),
    }
}

/// The row of a kernel, or one for each of its sizes where those take unlike times. Of sampled
/// launches, and of several devices, only all together are known.
fn by_size(
    of: &Commands,
    row: KernelRow,
    sizes: &Sizes,
    share: &dyn Fn(f64) -> Option<f64>,
) -> Vec<KernelRow> {
    let Some((each, false)) = sizes.get(&of.name) else { return vec![row] };
    let timed = each.values().map(|of| of.time.count()).sum::<u64>();
    let medians: Option<Vec<f64>> = each.values().map(|of| of.time.quantile(0.5)).collect();
    let medians = medians.unwrap_or_default();
    let most = medians.iter().copied().fold(0.0, f64::max);
    let least = medians.iter().copied().fold(f64::INFINITY, f64::min);
    // Rows by size or by place, and kernels of several devices, hold a part of the launches.
    let is_whole = timed == of.time_ns.count && of.estimate.is_none() && row.device.is_none();
    if !is_whole || medians.len() < 2 || most <= UNLIKE * least {
        return vec![row];
    }
    let exact = |ns: f64| Interval::around(ns, 0.0);
    let of_size = |(size, of): (&String, &OfSize)| KernelRow {
        size: Some(size.clone()),
        of_size: true,
        share: share(of.time.total() as f64),
        time_ns: Some(exact(of.time.total() as f64)),
        launches: of.launches,
        untimed: of.launches.saturating_sub(of.time.count() + of.failed),
        median_ns: of.time.quantile(0.5).map(exact),
        p95_ns: of.time.quantile(0.95).filter(|_| of.time.count() >= FOR_P95).map(exact),
        joules_per_launch: None,
        joules_per_launch_below: None,
        watts: None,
        ..row.clone()
    };
    let mut rows: Vec<KernelRow> = each.iter().map(of_size).collect();
    rows.sort_by(|a, b| b.share.unwrap_or(0.0).total_cmp(&a.share.unwrap_or(0.0)));
    rows
}

fn copies(report: &Report, stats: &Stats, share: &dyn Fn(f64) -> Option<f64>) -> Vec<CopyRow> {
    let all = [
        Direction::HostToDevice,
        Direction::DeviceToHost,
        Direction::DeviceToDevice,
        Direction::Fill,
        Direction::Unknown,
    ];
    let row = |of: Direction| {
        let rows: Vec<&Commands> =
            report.transfers.iter().filter(|t| t.direction == Some(of.name())).collect();
        if rows.is_empty() {
            return None;
        }
        let ran = rows.iter().filter(|row| row.count > row.failed);
        let times: Option<Vec<Interval>> = ran.map(|row| total(row)).collect();
        let time = times.and_then(|times| times.into_iter().reduce(Interval::join));
        let bytes = rows.iter().map(|row| row.bytes).sum();
        // Bytes of those without a time are in no rate.
        let each = rows
            .iter()
            .filter_map(|row| Some((row.gigabytes_per_second?, row.time_ns.total as f64)));
        let (moved, ns) = each.fold((0.0, 0.0), |sum, (rate, ns)| (sum.0 + rate * ns, sum.1 + ns));
        let class = class(report, "transfer", of.name());
        Some(CopyRow {
            direction: direction(of),
            share: time.and_then(|time| share(time.value)),
            time_ns: time,
            count: rows.iter().map(|row| row.count).sum(),
            untimed: rows.iter().map(|row| row.lacking()).sum(),
            bytes,
            gigabytes_per_second: (ns > 0.0).then(|| moved / ns),
            joules_per_copy: class.and_then(|c| c.joules_per_launch),
            joules_per_copy_below: class.and_then(|c| c.joules_per_launch_below),
        })
    };
    let mut rows: Vec<CopyRow> = all.into_iter().filter_map(row).collect();
    rows.extend(captured(report, stats, share));
    rows.sort_by(|a, b| b.share.unwrap_or(0.0).total_cmp(&a.share.unwrap_or(0.0)));
    rows
}

/// The recorder's copies of captured launches' memory.
fn captured(report: &Report, stats: &Stats, share: &dyn Fn(f64) -> Option<f64>) -> Option<CopyRow> {
    let all = || stats.copied.iter().flatten();
    let (count, bytes) =
        all().fold((0, 0u64), |(n, sum), of| (n + 1, sum.saturating_add(of.bytes)));
    let ns = all().map(|of| of.span.duration() as f64).sum::<f64>();
    let class = class(report, "transfer", crate::energy::activity::CAPTURED);
    (count > 0).then(|| CopyRow {
        direction: CAPTURED,
        share: share(ns),
        time_ns: Some(Interval::around(ns, 0.0)),
        count,
        untimed: 0,
        bytes,
        gigabytes_per_second: (ns > 0.0).then(|| bytes as f64 / ns),
        joules_per_copy: class.and_then(|c| c.joules_per_launch),
        joules_per_copy_below: class.and_then(|c| c.joules_per_launch_below),
    })
}

fn host(report: &Report, wall: f64) -> Vec<HostRow> {
    let row = |f: &Function| {
        let wait = report.waits.iter().find(|wait| wait.function.name == f.name);
        // Of polling the time from the first call to the last counts.
        let ns = wait.map_or(f.time_ns.total, |wait| wait.function.time_ns.total) as f64;
        let waited_for = wait.map(|wait| {
            let first = wait.waited_for.first().filter(|of| of.share.is_some_and(|s| s > 0.01));
            match first {
                Some(of) => {
                    let share = of.share.filter(|share| *share < 0.95);
                    let part =
                        share.map_or_else(String::new, |share| format!(" {}", percent(share)));
                    format!("{}{part}", of.name)
                }
                None if wait.nothing_ns.is_none() => "commands without a time".to_owned(),
                None => "no command ran".to_owned(),
            }
        });
        let polls = f.name == "clGetEventInfo" && wait.is_some();
        HostRow {
            function: f.name.clone(),
            share: ns / wall,
            time_ns: ns,
            calls: f.calls,
            median_ns: f.time_ns.median,
            waited_for: waited_for.map(|text| if polls { format!("polls: {text}") } else { text }),
        }
    };
    // Without a known clock no time of the host is.
    let timed = report.functions.iter().filter(|_| wall > 0.0);
    let mut rows: Vec<HostRow> = timed.map(row).collect();
    rows.sort_by(|a, b| b.time_ns.total_cmp(&a.time_ns));
    rows
}

/// Part of the run that readings cover where they leave out no more than its ends.
const COVERED: f64 = 0.95;

fn energy(of: &DeviceEnergy, run_ns: Option<u64>) -> Option<EnergyRow> {
    let joules = of.own_joules().filter(|joules| joules.value > 0.0)?;
    let all = of.window.map(|w| (w.to_seconds - w.from_seconds) * 1e9);
    let all = all.or(run_ns.map(|ns| ns as f64));
    let measured = of.seconds * 1e9;
    Some(EnergyRow {
        device: of.device.clone(),
        window: of.window,
        measured_ns: all.filter(|all| measured < COVERED * all).map(|_| measured),
        joules,
        watts: of.own_watts(),
        idle_watts: of.floors.iter().find(|floor| floor.state == 0).and_then(|floor| floor.watts),
        parts: energy_parts(of, joules.value),
    })
}

/// Parts that add up to `all`, the joules of the application: idle power all of the time, and what
/// others added to that.
fn energy_parts(of: &DeviceEnergy, all: f64) -> Vec<EnergyPart> {
    let (mut idle, mut out) = (None, Vec::<EnergyPart>::new());
    for part in of.parts() {
        let above = |own: Option<Interval>, known: Option<Interval>| {
            let Some(own) = own else { return part.joules };
            let all = part.joules.minus(own);
            let ends = known.unwrap_or(all);
            let low = ends.low.max(0.0).min(all.value);
            Interval::estimated(all.value, low, ends.high.max(all.value))
        };
        let (kind, names, own, joules) = match part.of {
            PartOf::Class(class) => {
                let kind = if class.kind == "kernel" { "kernels" } else { "copies" };
                let own = class.idle_joules;
                let most =
                    class.dynamic_joules_below.map(|most| Interval::estimated(0.0, 0.0, most));
                (kind, &[][..], own, above(own, class.dynamic_joules.or(most)))
            }
            PartOf::Sum(names) => {
                let group = of.groups.iter().find(|group| group.names == names);
                let own = group.map(|group| group.idle).filter(|_| !of.floors.is_empty());
                ("sum", names, own, above(own, None))
            }
            PartOf::Floor(_) => {
                idle = Some(idle.map_or(part.joules, |sum: Interval| sum.join(part.joules)));
                continue;
            }
            PartOf::Rest => ("not-assigned", &[][..], None, part.joules),
        };
        if let Some(own) = own {
            idle = Some(idle.map_or(own, |sum: Interval| sum.join(own)));
        }
        let same = out.iter_mut().find(|of| of.kind == kind && of.names == names);
        match same {
            Some(of) => of.joules = of.joules.join(joules),
            None => out.push(EnergyPart { kind, names: names.to_vec(), joules, share: joules }),
        }
    }
    let idle =
        idle.map(|joules| EnergyPart { kind: "idle", names: Vec::new(), joules, share: joules });
    out.splice(0..0, idle);
    for part in &mut out {
        // Nothing is more than all, whatever its own interval holds.
        let share = part.joules.times(1.0 / all);
        part.share = share.map(|x| if x.is_finite() { x.min(1.0) } else { x });
    }
    out
}

fn gaps(report: &Report, trace: &Trace<'_>, stats: &Stats) -> Vec<GapRow> {
    let mut out = Vec::new();
    for index in (0u32..).take(trace.processes.len()).map(ProcessIndex) {
        // Between timed commands others may have run.
        let queues = stats.queues.range((index, 0)..=(index, u32::MAX));
        let sampled = { queues }.any(|(_, queue)| queue.left_out > 0);
        let begin = stats.spans.get(index.0 as usize).copied().flatten().map(|span| span.begin);
        let (Some(parts), Some(begin), false) = (stats.wall(index), begin, sampled) else {
            continue;
        };
        let d = &trace.process(index).definitions;
        let threads = d.threads.values().filter(|thread| !thread.is_recorders()).count();
        let thread = |of: ThreadIndex| {
            let thread = d.threads.get(&of.0).filter(|_| threads > 1)?;
            Some(match thread.name.as_str() {
                "" => format!("thread {}", thread.tid),
                name => format!("thread {name} ({})", thread.tid),
            })
        };
        out.extend(parts.longest.iter().map(|gap| GapRow {
            at_ns: gap.span.begin.since(begin) as f64,
            ns: gap.ns as f64,
            before: gap.before.map(|of| of.name(d).into_owned()),
            after: gap.after.map(|of| of.name(d).into_owned()),
            cause: gap.cause.in_words(d),
            thread: thread(gap.from.0),
            called_from: report.sites.get(index, gap.from.1).map(|site| site.name.clone()),
        }));
    }
    out.sort_by(|a, b| b.ns.total_cmp(&a.ns));
    out.truncate(GAPS);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::energy::result::{Floor, Group};
    use proptest::prelude::*;

    #[test]
    fn paths_are_shown_by_their_last_names() {
        let words = [
            ("/data/astronaut.png", "astronaut.png"),
            ("./run/", "run"),
            ("../a", "a"),
            ("/", "/"),
            ("a/b", "a/b"),
            ("--file=/a/b", "--file=/a/b"),
            ("", ""),
        ];
        assert!(words.iter().all(|(word, shown)| name_file(word) == *shown));
    }

    proptest! {
        /// Whatever is known of idle power and of what running added: parts add up to the joules of
        /// the application.
        #[test]
        fn parts_of_energy_add_up(
            joules in prop::collection::vec(1.0f64..100.0, 3..=3),
            at_rest in prop::option::of(0.0f64..1.0),
            is_known in any::<bool>(),
            rest in -5.0f64..20.0,
        ) {
            let about = |of: f64| Interval::symmetric(of, 0.1 * of);
            let idle = |of: f64| at_rest.map(|share| about(share * of));
            let class = |at: usize, kind| Class {
                kind,
                group: Some(at),
                joules: Some(about(joules[at])),
                idle_joules: idle(joules[at]),
                dynamic_joules: is_known.then(|| about(joules[at])),
                dynamic_joules_below: (!is_known).then_some(joules[at]),
                ..Class::default()
            };
            let group = |at: usize, names: &[&str]| Group {
                names: names.iter().map(|name| (*name).to_owned()).collect(),
                busy_seconds: 1.0,
                busy_open: 0.0,
                joules: about(joules[at]),
                watts: about(joules[at]),
                idle: idle(joules[at]).unwrap_or(Interval::exact(0.0)),
            };
            let floor = at_rest.map(|share| Floor {
                state: 0,
                name: "between launches",
                watts: Some(about(share)),
                idle_seconds: 100.0,
                joules: Some(about(100.0 * share)),
            });
            let of_floor = at_rest.map_or(0.0, |share| 100.0 * share);
            let device = DeviceEnergy {
                seconds: 10.0,
                measured_joules: Some(joules.iter().sum::<f64>() + of_floor + rest),
                classes: vec![class(0, "kernel"), class(1, "transfer")],
                groups: vec![
                    group(0, &["a"]),
                    group(1, &["to device"]),
                    group(2, &["b", "c"]),
                ],
                floors: floor.into_iter().collect(),
                unattributed: Some(about(rest)),
                ..DeviceEnergy::default()
            };
            prop_assume!(device.own_joules().unwrap().value > 0.1);
            let row = energy(&device, Some(10_000_000_000)).unwrap();
            prop_assert_eq!(row.measured_ns, None);
            let part_of = energy(&device, Some(20_000_000_000)).unwrap();
            prop_assert_eq!(part_of.measured_ns, Some(10e9), "readings cover half of the run");
            prop_assert!(row.parts.iter().all(|part| part.share.high <= 1.0), "{row:?}");
            let is_whole = row.parts.iter().all(|part| part.share.value < 1.0);
            let sum = |of: fn(&EnergyPart) -> f64| row.parts.iter().map(of).sum::<f64>();
            prop_assert!((sum(|part| part.joules.value) - row.joules.value).abs() < 1e-9, "{row:?}");
            let shares = sum(|part| part.share.value);
            prop_assert!(!is_whole || (shares - 1.0).abs() < 1e-9, "{row:?}");
            prop_assert_eq!(row.parts.iter().any(|part| part.kind == "idle"), at_rest.is_some());
        }
    }
}
