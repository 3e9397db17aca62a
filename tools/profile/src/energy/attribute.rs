//! Owns the steps from a trace and its readings to joules per kernel: devices, their power, floors,
//! the fit, and what has to be said of it. Refuses to fit by itself: the analysis does.
#![forbid(unsafe_code)]

use super::activity::{By, Device};
use super::borrowed::{self, Lender};
use super::power::{self, Power};
use super::readings::Readings;
use super::result::{self, DeviceEnergy, Energy};
use crate::interval::Interval;
use clscope_analysis::Trace;
use clscope_analysis::energy::{
    self as fit, Activity, Attribution, ClassId, DriftModel, Floor, HostNs, Identifiability,
    Method, Problem, Seconds, Series, StateSpan, combine, turns,
};
use clscope_sensors::SourceKind;
use clscope_sensors::gpu_power::{Choice, Containment};
use clscope_trace::sensors::Quantity;

/// What the user may choose.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// How GPU power is computed: auto, pp1, pkg-pp0, pkg-pp0-dram, nvml or hwmon [default: as
    /// recorded, else auto]
    pub gpu_power: Option<Choice>,
    /// What gets its own energy figure and counters [default: kernel, or as in --by]
    pub energy_by: Option<By>,
    /// Each launch of this kernel begins an iteration (a frame, a time step): joules per iteration
    pub iteration_kernel: Option<String>,
    /// Floating-point operations of one launch of a kernel, for GFLOP/s/W: KERNEL=2.1e9 (repeat for
    /// several kernels)
    pub flop: Vec<(String, f64)>,
    /// Energy of this part of the run only, in seconds from its beginning: 10..15
    pub energy_window: Option<(f64, f64)>,
    /// Use the sensor of this name (a part of it is enough) instead of the device's best
    pub energy_sensor: Option<String>,
    /// Take readings from this file, stamped in CLOCK_MONOTONIC_RAW of the run, instead of the
    /// trace's
    pub readings: Option<std::path::PathBuf>,
    /// Traces of the same application, recorded with `--replay`, whose repetitions are used where
    /// this one has none
    pub with: Vec<std::path::PathBuf>,
}

/// Degree of the polynomial in which all rates may change during a run (temperature, clock).
const DRIFT: usize = 3;

fn estimate<T: Copy>(of: &fit::Estimate<T>, number: impl Fn(T) -> f64) -> Interval {
    Interval::estimated(number(of.value), number(of.low), number(of.high))
}

/// Energy of a trace, given its readings.
pub fn of(
    trace: &Trace<'_>,
    devices: &[Device],
    readings: &Readings,
    recorded: Option<Choice>,
    lenders: &[Lender],
    options: &Options,
) -> Energy {
    let mut out = Energy { notes: notes(readings), ..Energy::default() };
    out.interfaces = readings
        .findings
        .iter()
        .filter(|f| matches!(f.state.as_str(), "absent" | "refused" | "dead"))
        .map(|f| result::Interface {
            name: f.name.clone(),
            state: f.state.clone(),
            why: f.why.clone(),
            remedy: (!f.remedy.is_empty()).then(|| f.remedy.clone()),
        })
        .collect();
    out.sampler = sampler(readings);
    if readings.sensors.iter().all(|s| s.points.is_empty()) {
        out.absent = Some(absent(readings));
        return out;
    }
    let choice = options.gpu_power.or(recorded).unwrap_or_default();
    for device in devices {
        match power::of(device, devices, readings, choice, options.energy_sensor.as_deref()) {
            Ok(power) => {
                out.devices.push(measure(trace, device, &power, readings, lenders, options));
            }
            Err(why) => out
                .unmeasured
                .push(result::Unmeasured { device: device.name.clone(), why: why.to_string() }),
        }
    }
    if out.devices.is_empty() && out.absent.is_none() {
        let why: Vec<String> =
            out.unmeasured.iter().map(|u| format!("{}: {}", u.device, u.why)).collect();
        out.absent = Some(if why.is_empty() {
            "no device ran a command with a known time".to_owned()
        } else {
            format!(
                "no sensor belongs to the devices that ran commands ({}); `clscope doctor` lists sensors",
                why.join("; ")
            )
        });
    }
    for lender in lenders.iter().filter(|l| !devices.iter().any(|d| d.name == l.device)) {
        out.notes.push(format!(
            "{} repeats what ran on {}, where nothing of this run did",
            lender.path.display(),
            lender.device
        ));
    }
    let (counters, still) = application(readings);
    out.application = counters;
    out.notes.extend(still);
    out
}

fn absent(readings: &Readings) -> String {
    if !readings.any {
        return "no sensors were read: the trace was recorded without `clscope record`, or with --sensors off".to_owned();
    }
    if let Some(why) = readings.unreadable.first() {
        return format!("the readings of sensors cannot be used: {why}");
    }
    let remedy = readings.findings.iter().find(|f| f.state == "refused" && !f.remedy.is_empty());
    let mut names: Vec<&str> = Vec::new();
    for finding in readings.findings.iter().filter(|f| f.state != "skipped") {
        // Several traces looked for the same.
        if !names.contains(&finding.name.as_str()) {
            names.push(&finding.name);
        }
    }
    match remedy {
        Some(f) => format!("{}: {}; to fix: {}", f.name, f.why, f.remedy),
        None if names.is_empty() => "no sensor was opened".to_owned(),
        None => format!(
            "this machine has no sensor that could be read (looked for {}); `clscope doctor` says why",
            names.join(", ")
        ),
    }
}

fn notes(readings: &Readings) -> Vec<String> {
    let mut out: Vec<String> = readings
        .unreadable
        .iter()
        .map(|why| format!("readings of sensors not used: {why}"))
        .collect();
    for (name, event) in readings
        .events
        .iter()
        .filter(|(_, e)| !matches!(e.code.as_str(), "works" | "dead"))
        .take(20)
    {
        out.push(format!("{name} {}: {}", event.code, event.text).trim_start().to_owned());
    }
    if readings.repeated > 0 {
        out.push(format!(
            "sensors of one host were recorded {} times; each moment is used once",
            readings.repeated + 1
        ));
    }
    out
}

fn sampler(readings: &Readings) -> Option<result::Sampler> {
    let cost = readings.costs.iter().max_by_key(|c| c.wall_ns)?;
    let (seconds, cpu_seconds) = (cost.wall_ns as f64 * 1e-9, cost.cpu_ns as f64 * 1e-9);
    let sources = readings.sources.iter().map(|s| result::Source {
        name: s.source.clone(),
        reads: s.reads,
        failures: s.failures,
        cpu_seconds: s.cpu_ns as f64 * 1e-9,
        every_seconds: s.every_ns as f64 * 1e-9,
        missing: s.missing,
        duplicates: s.duplicates,
        late: s.late,
        refused: s.refused,
        lost: s.lost,
    });
    Some(result::Sampler {
        seconds,
        cpu_seconds,
        share: cpu_seconds / seconds.max(1e-9),
        sources: sources.collect(),
    })
}

/// Energy of every counter over the application's life: between the last steps before its start and
/// after its end. A counter that did not move meanwhile has not shown 0 J: why its energy is
/// unknown comes second.
fn application(readings: &Readings) -> (Vec<result::CounterEnergy>, Vec<String>) {
    let (mut out, mut still) = (Vec::new(), Vec::new());
    for sensor in readings
        .sensors
        .iter()
        .filter(|s| s.series.quantity == Quantity::Energy && s.dead.is_none())
    {
        let Some((started, ended)) = readings.application.get(&sensor.host).copied() else {
            continue;
        };
        let points = &sensor.points;
        let before = points.partition_point(|p| p.0 <= started).saturating_sub(1);
        let after = points.partition_point(|p| p.0 < ended).min(points.len().saturating_sub(1));
        let (Some(a), Some(b)) = (points.get(before), points.get(after)) else { continue };
        if b.0 <= a.0 {
            continue;
        }
        let (joules, seconds) = (b.1 - a.1, (b.0.0 - a.0.0) as f64 * 1e-9);
        if joules == 0.0 {
            still.push(format!(
                "{} {} stood still while the application ran ({seconds:.3} s): either that is shorter than its steps, or it counts nothing",
                sensor.series.source, sensor.series.name
            ));
            continue;
        }
        // The driver's counter steps every 100 ms where it was measured; it is read less often than
        // that.
        let known =
            (SourceKind::of(&sensor.series.source) == SourceKind::NvmlEnergy).then_some(0.1);
        let step = sensor.period_ns.map(|ns| ns * 1e-9).or(known).unwrap_or_else(|| step(points));
        let same = |s: &&super::readings::Sensor| {
            s.host == sensor.host
                && s.series.pci == sensor.series.pci
                && s.series.plane == sensor.series.plane
                && s.series.name == "power-samples"
        };
        let samples =
            readings.sensors.iter().find(same).and_then(|s| combine::integral(&s.points, a.0, b.0));
        out.push(result::CounterEnergy {
            sensor: format!("{} {}", sensor.series.source, sensor.series.name),
            plane: sensor.series.plane.clone(),
            includes: sensor.series.includes.clone(),
            joules,
            within: 2.0 * step * joules / seconds,
            seconds,
            samples_differ: samples.filter(|_| joules > 0.0).map(|s| s / joules - 1.0),
        });
    }
    (out, still)
}

fn step(points: &[(HostNs, f64)]) -> f64 {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return 0.0 };
    (last.0.0 - first.0.0) as f64 * 1e-9 / (points.len() - 1).max(1) as f64
}

/// The part of a series that reaches into a window.
fn narrowed(series: &Series, from: HostNs, to: HostNs) -> Series {
    let inside = |t: &HostNs| *t >= from && *t <= to;
    match series {
        Series::Cumulative(p) => {
            Series::Cumulative(p.iter().filter(|p| inside(&p.0)).copied().collect())
        }
        Series::Instant(p) => Series::Instant(p.iter().filter(|p| inside(&p.0)).copied().collect()),
        Series::WindowMean(p) => {
            Series::WindowMean(p.iter().filter(|p| inside(&p.0) && inside(&p.1)).copied().collect())
        }
    }
}

/// Floors from idle time, and where the device was in which.
fn floors(activity: &Activity, power: &Power) -> (Vec<Floor>, Vec<StateSpan>) {
    let idle = fit::idle_levels(activity, &power.series, Seconds(power.settle));
    (idle.floors(), idle.states)
}

fn measure(
    trace: &Trace<'_>,
    device: &Device,
    power: &Power,
    readings: &Readings,
    lenders: &[Lender],
    options: &Options,
) -> DeviceEnergy {
    let classes = device.classes.len();
    let whole = Activity::new(&device.spans, classes);
    let (floors, states) = floors(&whole, power);
    let origin = trace.origin().0;
    let cut = options.energy_window.map(|(from, to)| {
        let at = |s: f64| HostNs(origin.saturating_add((s * 1e9) as i64));
        (at(from), at(to))
    });
    let (activity, series) = match cut {
        None => (whole, power.series.clone()),
        Some((from, to)) => {
            // What ran shortly before still shows in the first readings.
            let lead = (power.settle.max(10.0 * power.period) * 1e9) as i64;
            let spans: Vec<_> = device
                .spans
                .iter()
                .filter(|s| s.end.0 >= from.0 - lead && s.start <= to)
                .copied()
                .collect();
            (Activity::new(&spans, classes), narrowed(&power.series, from, to))
        }
    };
    let iterations: Vec<HostNs> =
        options.iteration_kernel.as_ref().map_or_else(Vec::new, |wanted| {
            let is = |class: ClassId| {
                device.classes.get(class.0 as usize).is_some_and(|c| c.kernel && c.name == *wanted)
            };
            device.spans.iter().filter(|s| is(s.class)).map(|s| s.start).collect()
        });
    let problem = Problem {
        activity: &activity,
        series: &series,
        response: power.response,
        floors: &floors,
        states: &states,
        drift: DriftModel::Polynomial(DRIFT),
        iterations: &iterations,
    };
    let mut out = DeviceEnergy {
        device: device.name.clone(),
        host: trace.timeline.hosts.get(device.host).map(|h| h.name.clone()).unwrap_or_default(),
        pci: device.pci.clone(),
        processes: device.members.iter().map(|m| trace.process(m.0).label.clone()).collect(),
        members: device.members.clone(),
        formula: power.formula,
        equation: power.equation,
        includes: power.includes.clone(),
        reason: power.reason.clone(),
        matched: power.matched.clone(),
        sensors: power.sources.clone(),
        failed: None,
        measured_joules: 0.0,
        seconds: 0.0,
        mean_watts: None,
        unattributed_joules: 0.0,
        classes: Vec::new(),
        replays: Vec::new(),
        repetitions: None,
        next: None,
        groups: Vec::new(),
        floors: Vec::new(),
        gaps: None,
        iteration: None,
        response: None,
        drift: None,
        residual_watts: None,
        residual_correlation: None,
        readings: 0,
        unplaced: device.unplaced,
        shared: device.shared.map(|s| result::Shared {
            processes: s.processes,
            overlap_seconds: s.overlap,
            left_seconds: s.left,
            separated: s.is_separated(),
        }),
        reference_joules: None,
        containment: None,
        notes: Vec::new(),
    };
    match fit::attribute(&problem) {
        Ok(result) => {
            fill(&mut out, device, power, &activity, &series, &result, options);
            let floor = super::evidence::floor(&result);
            let mut found = super::replayed::of(device, power);
            let own = !found.is_empty();
            let from = borrowed::borrow(&mut found, device, lenders, floor.0);
            out.replays = super::replayed::rows(&found, floor);
            if !found.is_empty() {
                super::evidence::apply(&mut out, device, &result, &found, &from);
                super::evidence::not_repeated(&mut out, device, &found, own);
            }
            operations(&mut out, options);
        }
        Err(error) => {
            // A floor is not known, and part of their figures.
            let mut found = super::replayed::of(device, power);
            borrowed::borrow(&mut found, device, lenders, 0.0);
            out.replays = super::replayed::rows(&found, (0.0, 0.0));
            out.failed = Some(error.to_string());
            out.notes.push(format!(
                "at {} readings a second, some {:.0} s of work are needed for a first figure",
                rate(power),
                needed(power)
            ));
        }
    }
    if let Some((series, response)) = power::reference(device, readings) {
        let series = cut.map_or_else(|| series.clone(), |(from, to)| narrowed(&series, from, to));
        let idle = fit::idle_levels(&activity, &series, Seconds(power.settle));
        let problem = Problem {
            series: &series,
            response,
            floors: &idle.floors(),
            states: &idle.states,
            ..problem
        };
        if let Ok(result) = fit::attribute(&problem) {
            out.reference_joules = Some(result.measured.0);
            for (row, of) in out.classes.iter_mut().zip(&result.classes) {
                row.reference_watts = of.watts.map(|w| estimate(&w, |w| w.0));
            }
        }
    }
    out.containment = match power::containment(readings, device.host) {
        _ if power.formula == "nvml" || power.formula == "hwmon" => None,
        Containment::Untested => None,
        Containment::NotDisproved { windows } => {
            Some(format!("not disproved in {windows} windows: PKG may contain DRAM"))
        }
        Containment::Disproved { windows, against, largest_excess } => Some(format!(
            "disproved in {against} of {windows} windows (DRAM exceeds what PKG leaves for it by up to {largest_excess:.2} W): PKG does not contain DRAM, \
             and pkg-pp0-dram is too low by it"
        )),
    };
    out
}

fn rate(power: &Power) -> String {
    if power.period > 0.0 { format!("{:.0}", 1.0 / power.period) } else { "unknown".to_owned() }
}

fn needed(power: &Power) -> f64 {
    (30.0 * power.period).max(1.0)
}

fn fill(
    out: &mut DeviceEnergy,
    device: &Device,
    power: &Power,
    activity: &Activity,
    series: &Series,
    result: &Attribution,
    options: &Options,
) {
    let plain = fit::plain_integration(activity, series);
    let second = fit::second_average(activity, series);
    out.measured_joules = result.measured.0;
    out.seconds = result.covered.0;
    out.mean_watts = (result.covered.0 > 0.0).then(|| result.measured.0 / result.covered.0);
    out.unattributed_joules = result.unattributed.0;
    for (row, class) in result.classes.iter().zip(&device.classes) {
        let per_span = device.launches_per_span(row.class);
        let (identifiability, needed) = match row.identifiability {
            Identifiability::Well => ("well", None),
            Identifiability::Weak { needed } => ("weak", Some(needed.0)),
            Identifiability::OnlyAsSum { .. } => ("only-as-sum", None),
            Identifiability::OnlyWithFloor { .. } => ("only-with-floor", None),
            Identifiability::NotAtAll { needed } => ("not-at-all", needed.map(|s| s.0)),
        };
        let group = row.group.and_then(|g| result.groups.get(g));
        let estimated = row.method != Some(Method::Integrated);
        let figure = |of: Interval| Interval { estimated, ..of };
        out.classes.push(result::Class {
            name: class.name.clone(),
            kind: if class.kernel { "kernel" } else { "transfer" },
            launches: row.launches * per_span,
            busy_seconds: row.busy.0,
            covered_seconds: row.covered.0,
            joules: row.joules.map(|j| figure(estimate(&j, |j| j.0))),
            joules_per_launch: row
                .joules_per_launch
                .map(|j| figure(estimate(&j, |j| j.0).times(1.0 / per_span))),
            watts: row.watts.map(|w| figure(estimate(&w, |w| w.0))),
            dynamic_joules: row.split.map(|s| s.0.0),
            idle_joules: row.split.map(|s| s.1.0),
            energy_delay: row.energy_delay.map(|e| e / (per_span * per_span)),
            gflop_per_joule: None,
            method: row.method.map(|m| match m {
                Method::Integrated => "integrated",
                Method::Regressed => "regressed",
            }),
            identifiability,
            needed_seconds: needed,
            group: row.group,
            reference_watts: None,
            plain_watts: plain.get(row.class.0 as usize).copied().flatten().map(|w| w.0),
            second_average_watts: second.get(row.class.0 as usize).copied().flatten().map(|w| w.0),
            integrated_differs: group.and_then(|g| g.integrated).map(|i| i.discrepancy),
        });
        if let Some(i) = group.and_then(|g| g.integrated).filter(|i| !i.agrees) {
            out.notes.push(format!(
                "{}: read directly while it ran alone it draws {:+.1} % of the fit's figure: its power differs between places in the run",
                class.name,
                i.discrepancy * 100.0
            ));
        }
    }
    let name =
        |c: &ClassId| device.classes.get(c.0 as usize).map_or_else(String::new, |c| c.name.clone());
    out.groups = result
        .groups
        .iter()
        .map(|g| result::Group {
            names: g.classes.iter().map(name).collect(),
            busy_seconds: g.busy.0,
            joules: estimate(&g.joules, |j| j.0),
            watts: estimate(&g.watts, |w| w.0),
            with_floor: g.with_floor,
        })
        .collect();
    out.floors = result
        .floors
        .iter()
        .map(|f| result::Floor {
            state: f.state,
            name: if f.state == 0 { "between launches" } else { "deeper idle" },
            watts: f.watts.map(|w| estimate(&w, |w| w.0)),
            idle_seconds: f.idle.0,
            joules: f.joules.0,
        })
        .collect();
    out.gaps = Some(result::Gaps { seconds: result.gaps.seconds.0, joules: result.gaps.joules.0 });
    out.iteration = options.iteration_kernel.clone().zip(result.iteration).map(|(kernel, i)| {
        result::Iteration {
            kernel,
            iterations: i.iterations,
            joules: estimate(&i.joules, |j| j.0),
            seconds: i.seconds.0,
        }
    });
    out.response = Some(result::Response {
        period_seconds: power.period,
        window_seconds: result.response.window,
        lag_seconds: result.response.lag,
        delay_seconds: result.response.delay,
    });
    out.drift = result.drift.map(|d| result::Drift {
        share: Interval::estimated(
            d.relative,
            d.relative - d.half_width,
            d.relative + d.half_width,
        ),
        noticed: d.noticed,
    });
    out.residual_watts = Some(result.residual.0);
    out.residual_correlation = Some(result.residual_correlation);
    out.readings = result.readings;
    if let Some(d) = result.drift.filter(|d| d.noticed) {
        out.notes.push(format!(
            "power changed by {:+.1} % ± {:.1} from start to end of the run (temperature or clock): figures are means over it",
            d.relative * 100.0,
            d.half_width * 100.0
        ));
    }
    let f = &result.faults;
    if f.gaps + f.backwards > 0 {
        out.notes.push(format!(
            "the sensor's readings have {} gaps and went backwards {} times",
            f.gaps, f.backwards
        ));
    }
    if result.rejected_spans > 0 {
        out.notes.push(format!(
            "{} commands with impossible times were left out",
            result.rejected_spans
        ));
    }
    if device.unplaced > 0 {
        out.notes
            .push(format!("{} commands ran at unknown times: their energy is in the figures of others, or unattributed", device.unplaced));
    }
    if let Some(s) = out.shared {
        let (how, share) = if s.separated {
            ("whole commands show whose turn it was, and what was set aside meanwhile does not count as running".to_owned(), turns::SEPARATED)
        } else {
            let how = format!(
                "it is unknown whose turn it was for {:.2} s of it, and each counts for an equal share; --device-timing event separates the turns",
                s.left_seconds
            );
            (how, turns::OVERLAP)
        };
        for class in &mut out.classes {
            for figure in [&mut class.joules, &mut class.joules_per_launch, &mut class.watts] {
                *figure = figure.map(|f| f.widened(share));
            }
        }
        for group in &mut out.groups {
            (group.joules, group.watts) = (group.joules.widened(share), group.watts.widened(share));
        }
        out.notes.push(format!(
            "commands of {} processes overlap for {:.2} s on this device: {how}; intervals hold {:.0} % for that",
            s.processes,
            s.overlap_seconds,
            share * 100.0
        ));
    }
    if options.iteration_kernel.is_some() && out.iteration.is_none() {
        out.notes
            .push("no iteration: the kernel named by --iteration-kernel did not run at least twice while the sensor was read".to_owned());
    }
    if out.floors.iter().all(|f| f.watts.is_none()) {
        out.notes.push("no idle time was recorded, so dynamic and idle energy cannot be separated: record with --idle-window 2".to_owned());
    }
}

/// Operations for each joule, where the user told how many there are.
fn operations(out: &mut DeviceEnergy, options: &Options) {
    for class in &mut out.classes {
        let flop = options.flop.iter().find(|(name, _)| *name == class.name);
        class.gflop_per_joule = flop.zip(class.joules_per_launch).filter(|(_, j)| j.low > 0.0).map(
            |((_, count), joules)| {
                let per = |joules: f64| count / joules * 1e-9;
                Interval::estimated(per(joules.value), per(joules.high), per(joules.low))
            },
        );
    }
    for (name, _) in
        options.flop.iter().filter(|(name, _)| !out.classes.iter().any(|c| c.name == *name))
    {
        out.notes.push(format!("--flop {name}: no kernel of that name ran on this device"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::energy::readings::Sensor;
    use std::collections::BTreeMap;

    #[test]
    fn a_counter_that_stands_still_is_unknown_and_not_zero() {
        let counter = |name: &str, watts: f64| {
            let series = clscope_trace::sensors::Series {
                source: "perf".into(),
                name: name.into(),
                quantity: Quantity::Energy,
                ..Default::default()
            };
            let points =
                (0..100).map(|ms| (HostNs(ms * 1_000_000), watts * ms as f64 * 1e-3)).collect();
            Sensor {
                host: 0,
                series,
                points,
                windows: Vec::new(),
                period_ns: Some(1e6),
                dead: None,
            }
        };
        let application_ran = BTreeMap::from([(0, (HostNs(10_000_000), HostNs(90_000_000)))]);
        let readings = Readings {
            sensors: vec![counter("pkg", 50.0), counter("psys", 0.0)],
            application: application_ran,
            any: true,
            ..Readings::default()
        };
        let (counters, still) = application(&readings);
        let names: Vec<&str> = counters.iter().map(|c| c.sensor.as_str()).collect();
        assert_eq!(names, ["perf pkg"]);
        assert!(
            matches!(&still[..], [note] if note.starts_with("perf psys stood still")),
            "{still:?}"
        );
    }
}
