//! Owns the steps from a trace and its readings to joules per kernel: devices, their power, floors,
//! the fit, and what has to be said of it. Refuses to fit by itself: the analysis does.
#![forbid(unsafe_code)]

use super::activity::{By, PhysicalDevice};
use super::borrowed::{self, Elsewhere, Lender};
use super::explained::Explained;
use super::power::{self, Power};
use super::readings::Readings;
use super::result::{self, DeviceEnergy, Energy};
use super::unrecorded::{self, Unrecorded};
use super::{RecordedFormula, recorded, rows};
use crate::interval::Interval;
use clscope_analysis::Trace;
use clscope_analysis::energy::{
    self as fit, Activity, AttributionError, ClassId, DriftModel, Floor, HostNs, IdleLevels,
    Problem, Seconds, Series, StateSpan,
};
use clscope_analysis::quantile::NORMAL_95;
use clscope_sensors::gpu_power::{Choice, Containment};
use std::collections::BTreeSet;

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
    /// What devices draw between launches, measured another time: for runs that do not show it
    pub floors: Vec<KnownFloor>,
    /// The kernel of which is shown what decides about its joules
    pub explain: Option<String>,
}

/// What a device draws between launches, measured another time.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownFloor {
    /// CL_DEVICE_NAME; `None`: whatever the device.
    pub device: Option<String>,
    /// Watts.
    pub watts: f64,
    /// Half-width of their 95 % interval.
    pub half: f64,
    /// Where they are from, for people.
    pub source: String,
    /// Whether the user asked for it: where it does not apply, that is noted.
    pub asked: bool,
}

/// Standard error, in watts, of a floor that was measured another time: another temperature. (Two
/// runs of one steady application on an H200: 127 and 129 W.)
const ANOTHER_TIME: f64 = 1.0;

/// Degree of the polynomial in which all rates may change during a run (temperature, clock).
const DRIFT: usize = 3;

/// Why repetitions of other traces are of no use to a run without joules.
fn lent_in_vain(lenders: &[Lender]) -> Option<String> {
    let others = lenders.iter().filter(|lender| !lender.is_own);
    let mut names: Vec<String> = others.map(|l| l.path.display().to_string()).collect();
    names.dedup();
    (!names.is_empty()).then(|| {
        format!(
            "{} (--with) is not used, because this run has no readings of its own to divide",
            names.join(", ")
        )
    })
}

/// Energy of a trace, given its readings.
pub fn energy_of(
    trace: &Trace<'_>,
    devices: &[PhysicalDevice],
    readings: &Readings,
    recorded: RecordedFormula,
    elsewhere: &Elsewhere,
    options: &Options,
) -> Energy {
    let mut out = Energy {
        notes: recorded::notes(readings),
        interfaces: recorded::interfaces(readings),
        sampler: recorded::sampler(readings),
        ..Energy::default()
    };
    if !readings.have_points() {
        out.absent = Some(recorded::absent(readings));
        out.notes.extend(lent_in_vain(&elsewhere.lenders));
        return out;
    }
    let choice = options.gpu_power.or(recorded.choice).unwrap_or_default();
    if let (None, true, Some(Choice::Fixed(formula))) =
        (options.gpu_power, recorded.differs, recorded.choice)
    {
        out.notes.push(format!(
            "the traces were recorded with different --gpu-power: {formula} is used for all; `--gpu-power FORMULA` names another"
        ));
    }
    for device in devices {
        match power::power_of(device, devices, readings, choice, options.energy_sensor.as_deref()) {
            Ok(mut power) => {
                let times = unrecorded::of_device(trace, device, readings);
                let rest = unrecorded::without(&power.series, &times);
                let told = rest.is_some().then(|| times.iter().map(Unrecorded::told));
                power.series = rest.unwrap_or(power.series);
                let mut found = measure(trace, device, &power, readings, elsewhere, options);
                found.notes.extend(told.into_iter().flatten());
                out.devices.push(found);
            }
            Err(why) => out
                .unmeasured
                .push(result::Unmeasured { device: device.label.clone(), why: why.to_string() }),
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
    if out.absent.is_some() {
        out.notes.extend(lent_in_vain(&elsewhere.lenders));
    }
    for lender in elsewhere
        .lenders
        .iter()
        .filter(|l| !l.is_own && !devices.iter().any(|d| d.name == l.device))
    {
        out.notes.push(format!(
            "{} is not used: it was measured on {}, and this run used another device",
            lender.path.display(),
            lender.device
        ));
    }
    out.notes.extend(boots(trace, devices));
    let (counters, still) = recorded::application(readings);
    out.application = counters;
    out.notes.extend(still);
    out
}

/// Notes on devices that ran in several boots of a host: each boot has a clock of its own, and is
/// attributed by itself.
fn boots(trace: &Trace<'_>, devices: &[PhysicalDevice]) -> Vec<String> {
    let host = |d: &PhysicalDevice| trace.timeline.hosts.get(d.host).map(|h| h.name.as_str());
    let mut out = Vec::new();
    for (at, device) in devices.iter().enumerate() {
        let same = |d: &&PhysicalDevice| {
            d.name == device.name
                && d.nth == device.nth
                && d.pci == device.pci
                && host(d) == host(device)
        };
        if devices[..at].iter().any(|d| same(&d)) {
            continue;
        }
        let count = devices.iter().filter(same).map(|d| d.host).collect::<BTreeSet<_>>().len();
        if count > 1 {
            out.push(format!(
                "{} ran in {count} boots of {}: each boot is evaluated by itself; `--with` uses measurements of one for the other",
                device.name,
                host(device).unwrap_or("the host")
            ));
        }
    }
    out
}

/// The part of a series that reaches into a window.
pub(super) fn narrowed(series: &Series, from: HostNs, to: HostNs) -> Series {
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

/// Whether there is no reading in it.
fn is_unread(series: &Series) -> bool {
    match series {
        Series::Cumulative(points) | Series::Instant(points) => points.iter().all(|p| p.1.is_nan()),
        Series::WindowMean(rows) => rows.is_empty(),
    }
}

/// The floors of a run, and where the device was in which.
pub(super) struct Floors {
    pub floors: Vec<Floor>,
    pub states: Vec<StateSpan>,
    /// Whether the first was measured another time.
    borrowed: bool,
    /// What the user is told: why the one that was named was not used, or what is not known.
    pub told: Option<String>,
}

/// By how much a floor may exceed what the sensor read at the least: noise, and a warmer device.
const ABOVE_LEAST: f64 = 1.1;

/// Floors from idle time. Where the run shows none between or after commands, what kernels add
/// tells it, or what was measured another time, by which is known better.
pub(super) fn floors_of(problem: &Problem<'_>, settle: f64, known: Option<&KnownFloor>) -> Floors {
    let idle = fit::idle_levels(problem.activity, problem.series, Seconds(settle));
    let asked = known.filter(|known| known.asked);
    // No floor lies above what the device drew.
    let above = fit::least_drawn(problem.activity, problem.series)
        .map(|least| least.0)
        .zip(known)
        .filter(|(least, known)| known.watts > ABOVE_LEAST * least);
    if let Some((least, known)) = above {
        let why = format!(
            "idle power of {} W ({}) is not used, because the device drew as little as {least:.0} W in this run",
            known.watts, known.source
        );
        let told = asked.is_some().then_some(why);
        return Floors { told, ..floors_of(problem, settle, None) };
    }
    let unused = || {
        asked.map(|known| {
            format!(
                "idle power of {} W ({}) is not used, because the run itself shows it",
                known.watts, known.source
            )
        })
    };
    let of_run = || Floors {
        floors: idle.floors(),
        states: idle.states.clone(),
        borrowed: false,
        told: unused(),
    };
    let seen = || {
        let Some(found) = between_launches(&idle, problem, settle) else { return of_run() };
        let told = found.told.into_iter().chain(unused()).reduce(|a, b| a + "; " + &b);
        Floors { told, ..found }
    };
    // Without a level and without a table there is nothing to choose between.
    if !idle.only_before(problem.activity) || (idle.levels.is_empty() && known.is_none()) {
        return seen();
    }
    let (floors, states) = idle.below(Floor::Fitted);
    let fitted = fit::attribute(&Problem { floors: &floors, states: &states, ..*problem })
        .ok()
        .and_then(|result| result.floors.first()?.watts);
    if let Some(known) = known.filter(|known| !idle.reaches(fit::Watts(known.watts))) {
        let sd = (known.half / NORMAL_95).hypot(ANOTHER_TIME);
        if fitted.is_none_or(|watts| watts.half() > NORMAL_95 * sd) {
            let (floors, states) = idle.below(Floor::Known { rate: known.watts, sd });
            return Floors { floors, states, borrowed: true, told: None };
        }
    }
    // What was seen before the first command is the floor, unless what kernels add says otherwise.
    let settled = fitted.filter(|watts| watts.half() <= UNSETTLED * watts.value);
    match (fitted, settled) {
        (Some(watts), _) if !idle.reaches(fit::Watts(watts.low)) => {
            Floors { floors, states, ..of_run() }
        }
        (_, Some(_)) => seen(),
        // Nothing says whether it rested then as it does between launches.
        (_, None) => {
            let working = fit::while_working(problem.activity, problem.series, Seconds(settle));
            let least = working.map(|working| working.least);
            let between = least.and_then(|least| Some((least, idle.or_up_to(least)?)));
            let Some((least, floor)) = between else { return seen() };
            let (floors, states) = idle.below(floor);
            let told = format!(
                "idle power between launches is known to be at most {:.0} W, because the device was idle before its first command only: `clscope bench idle` measures it",
                least.0
            );
            Floors { floors, states, told: Some(told), ..of_run() }
        }
    }
}

/// Floors where the device drew less while it worked than at rest behind its last command.
fn between_launches(idle: &IdleLevels, problem: &Problem<'_>, settle: f64) -> Option<Floors> {
    let working = fit::while_working(problem.activity, problem.series, Seconds(settle))?;
    let (floors, states) = idle.below(idle.undercut(working)?);
    let told = format!(
        "idle power between launches is about {:.1} W: the device drew as little then, and {:.1} W before its first or after its last command",
        working.least.0,
        idle.levels.first()?.watts.0
    );
    Some(Floors { floors, states, borrowed: false, told: Some(told) })
}

/// Half-width of a fitted floor, as a share, beyond which it decides nothing.
const UNSETTLED: f64 = 0.1;

/// A part of the run.
type Window = Option<(HostNs, HostNs)>;

/// What ran and what the sensor read in the window, or in the whole run.
fn inside(device: &PhysicalDevice, power: &Power, window: Window) -> (Activity, Series) {
    let classes = device.classes.len();
    let Some((from, to)) = window else {
        let activity = Activity::new(&device.spans, classes).with_runs(&device.runs());
        return (activity, power.series.clone());
    };
    // What ran shortly before still shows in the first readings.
    let lead = (power.settle.max(10.0 * power.period) * 1e9) as i64;
    let spans: Vec<_> = device
        .spans
        .iter()
        .filter(|s| s.end.0 >= from.0.saturating_sub(lead) && s.start <= to)
        .copied()
        .collect();
    let activity = Activity::new(&spans, classes).with_runs(&device.runs());
    (activity, narrowed(&power.series, from, to))
}

/// How power changed within a run. Of several that are reported together each is looked at by
/// itself: that one draws more than the one before says nothing of either.
fn drift(
    result: &fit::Attribution,
    of_all: &Problem<'_>,
    device: &PhysicalDevice,
    power: &Power,
    runs: &[(HostNs, HostNs)],
) -> Option<fit::Drift> {
    if runs.len() < 2 {
        return result.drift;
    }
    let of_run = |&run: &(HostNs, HostNs)| {
        let (activity, series) = inside(device, power, Some(run));
        fit::attribute(&Problem { activity: &activity, series: &series, ..*of_all }).ok()?.drift
    };
    let rank = |d: &fit::Drift| (d.noticed, d.relative.abs());
    let more = |a: &fit::Drift, b: &fit::Drift| {
        let ((noticed, share), (other, less)) = (rank(a), rank(b));
        noticed.cmp(&other).then(share.total_cmp(&less))
    };
    runs.iter().filter_map(of_run).max_by(more)
}

/// What of runs lies in the window, or all of them.
fn within(runs: &[(HostNs, HostNs)], window: Window) -> Vec<(HostNs, HostNs)> {
    let (first, last) = window.unwrap_or((HostNs(i64::MIN), HostNs(i64::MAX)));
    let parts = runs.iter().map(|&(from, to)| (from.max(first), to.min(last)));
    parts.filter(|(from, to)| from < to).collect()
}

/// When each iteration began.
fn iterations(device: &PhysicalDevice, kernel: Option<&String>) -> Vec<HostNs> {
    let Some(wanted) = kernel else { return Vec::new() };
    let is = |class: ClassId| {
        device.classes.get(class.0 as usize).is_some_and(|c| c.kernel && c.name == *wanted)
    };
    device.spans.iter().filter(|s| is(s.class)).map(|s| s.start).collect()
}

pub(super) fn measure(
    trace: &Trace<'_>,
    device: &PhysicalDevice,
    power: &Power,
    readings: &Readings,
    elsewhere: &Elsewhere,
    options: &Options,
) -> DeviceEnergy {
    let origin = trace.origin().0;
    let window: Window = options.energy_window.map(|(from, to)| {
        let at = |s: f64| HostNs(origin.saturating_add((s * 1e9) as i64));
        (at(from), at(to))
    });
    // Floors are those of the whole run: a window may hold no idle time.
    let applies = |f: &&KnownFloor| f.device.as_ref().is_none_or(|d| *d == device.name);
    let known = options.floors.iter().find(applies);
    let whole = Activity::new(&device.spans, device.classes.len());
    let of_run = Problem {
        activity: &whole,
        series: &power.series,
        response: power.response,
        floors: &[],
        states: &[],
        drift: DriftModel::Polynomial(DRIFT),
        temperature: super::workers::temperature(device, readings),
        workers: &[],
        spread: 1.0,
        rest_as_sum: true,
        iterations: &[],
    };
    let floors = floors_of(&of_run, power.settle, known);
    let (activity, series) = inside(device, power, window);
    // From one iteration to the next the recorder's own repetitions would count as the application.
    let of_iterations = options.iteration_kernel.as_ref().filter(|_| device.replays.is_empty());
    let iterations = iterations(device, of_iterations);
    let problem = Problem {
        activity: &activity,
        series: &series,
        floors: &floors.floors,
        states: &floors.states,
        iterations: &iterations,
        ..of_run
    };
    let mut out = rows::unknown(trace, device, power);
    if trace.issues.iter().any(|issue| issue.kind.means_loss()) {
        out.notes.push(
            "records of the trace are missing: idle power may be too high and joules of kernels too low, because commands may have run unseen"
                .to_owned(),
        );
    }
    if let Some(known) = known.filter(|_| floors.borrowed) {
        out.notes.push(format!(
            "idle power of {:.1} W is from {}, because the device was never idle while the sensor was read",
            known.watts, known.source
        ));
    }
    let runs = readings.application.get(&device.host).map_or(&[][..], Vec::as_slice);
    let is_alone = window.is_none()
        && elsewhere.lenders.is_empty()
        && iterations.is_empty()
        && device.replays.is_empty()
        && !device.classes.iter().any(|class| class.repetition);
    let each = is_alone.then(|| super::runs::attribute(&of_run, device, power, runs, known));
    let (of_runs, told) = each.flatten().unzip();
    out.notes.extend(told.unwrap_or_else(|| floors.told.into_iter().collect()));
    for other in options.floors.iter().filter(|f| f.asked && !applies(f)) {
        let of = other.device.as_deref().unwrap_or_default();
        out.notes
            .push(format!("{} is not used for this device, because it is of {of}", other.source));
    }
    if super::around::fill(&mut out, device, power, window) {
        out.explained = options.explain.as_ref().map(|kernel| Explained {
            kernel: kernel.clone(),
            absent: Some(
                "the sensor was read around each of its launches (--snapshot), and nothing was fitted"
                    .to_owned(),
            ),
            ..Explained::default()
        });
        rows::within_limit(&mut out, power.limit, power.seen());
        rows::absent(&mut out);
        rows::bound(&mut out);
        rows::missing(&mut out, options, false);
        operations(&mut out, options);
        out.containment = containment(device, power, readings);
        return out;
    }
    let own = !device.replays.is_empty();
    let mut found = super::replayed::repetitions_on(device, power);
    let from = borrowed::borrow(&mut found, device, &elsewhere.lenders);
    out.notes.extend(borrowed::unused(device, &elsewhere.lenders, &from));
    let per_span = device.launches_per_span();
    let length = |(at, time): (usize, &fit::ClassTime)| {
        time.busy_s / (time.launches * per_span.get(at).copied().unwrap_or(1.0)).max(1.0)
    };
    let lengths: Vec<f64> = activity.times().iter().enumerate().map(length).collect();
    let (workers, unlike) = super::workers::workers(device, &found, &lengths);
    out.notes.extend(unlike.iter().map(|class| super::workers::told_unlike(device, *class)));
    let problem = Problem { workers: &workers, ..problem };
    match of_runs.map_or_else(|| fit::attribute(&problem), Ok) {
        Ok(result) => {
            rows::fill(&mut out, device, power, &problem, &result, options);
            let runs = within(runs, window);
            let drift = drift(&result, &problem, device, power, &runs);
            rows::drift(&mut out, drift, runs.len());
            out.replays = super::replayed::rows(&found, super::replayed::idle(&result));
            super::workers::apart(&mut out, device, &result, &from, window);
            if !found.is_empty() || own {
                let why = &elsewhere.unmeasured;
                super::workers::not_repeated(&mut out, device, &found, (own, why));
            }
            // Whatever a figure rests on: whose turn it was is not known any better.
            rows::widen_shared(&mut out);
            rows::within_limit(&mut out, power.limit, power.seen());
            rows::absent(&mut out);
            rows::bound(&mut out);
            rows::missing(&mut out, options, own);
            operations(&mut out, options);
            out.explained = options.explain.as_ref().and_then(|kernel| {
                let row = out.classes.iter().find(|c| c.kind == "kernel" && c.name == *kernel);
                let joules =
                    row.and_then(|c| Some((c.dynamic_joules?, c.joules_per_launch?, c.joules?)));
                // As many launches as the report's own figures are of.
                let each = joules.map(|(dynamic, each, all)| dynamic.times(each.value / all.value));
                let of = (&problem, &result);
                super::explained::explain(kernel, device, of, &found, each, origin)
            });
        }
        Err(error) => {
            out.few_readings = matches!(error, AttributionError::TooFewReadings { .. });
            // What was drawn is known, whoever drew it; with repetitions, not by whom.
            let measured = fit::measured(&activity, &series);
            if let Some((joules, seconds)) = measured.filter(|_| device.replays.is_empty()) {
                out.measured_joules = Some(joules.0);
                out.seconds = seconds.0;
                out.mean_watts = Some(joules.0 / seconds.0);
            }
            // Idle power is not known, and part of their figures.
            out.replays = super::replayed::rows(&found, (0.0, 0.0));
            if device.spans.is_empty() && device.unplaced > 0 {
                // No reading can mend that.
                out.failed = Some(format!(
                    "no time on the device is known of any of its {} commands; record with `--device-timing event`",
                    device.unplaced
                ));
            } else if let Some((from, to)) = options.energy_window.filter(|_| is_unread(&series)) {
                out.failed = Some(format!(
                    "no reading of the sensor lies between {from} and {to} s (--energy-window): the run is {:.1} s long",
                    trace.bounds().map_or(0.0, |all| all.end.since(all.begin) as f64 * 1e-9)
                ));
            } else {
                out.failed = Some(error.to_string());
                out.explained = options.explain.as_ref().map(|kernel| Explained {
                    kernel: kernel.clone(),
                    absent: Some(error.to_string()),
                    ..Explained::default()
                });
                out.notes.push(format!(
                    "the sensor has {} readings a second: record about {:.0} s of work or more",
                    rate(power),
                    needed(power)
                ));
            }
        }
    }
    compare_with_reference(&mut out, device, (power, known), (trace, readings), (problem, window));
    out.containment = containment(device, power, readings);
    out
}

/// Adds the figures of the device's other sensor, where it has one.
fn compare_with_reference(
    out: &mut DeviceEnergy,
    device: &PhysicalDevice,
    (power, known): (&Power, Option<&KnownFloor>),
    (trace, readings): (&Trace<'_>, &Readings),
    (problem, window): (Problem<'_>, Window),
) {
    let Some((series, response)) = power::reference(device, readings) else { return };
    let times = unrecorded::of_device(trace, device, readings);
    let series = unrecorded::without(&series, &times).unwrap_or(series);
    let series = window.map_or_else(|| series.clone(), |(from, to)| narrowed(&series, from, to));
    let problem =
        Problem { series: &series, response, floors: &[], states: &[], workers: &[], ..problem };
    let floors = floors_of(&problem, power.settle, known);
    let problem = Problem { floors: &floors.floors, states: &floors.states, ..problem };
    let Ok(result) = fit::attribute(&problem) else { return };
    out.reference_joules = Some(result.measured.0);
    for (row, of) in out.classes.iter_mut().zip(&result.classes) {
        row.reference_watts = of.watts;
    }
}

/// Whether the package's counter may hold the memory's, as far as this run can tell.
fn containment(device: &PhysicalDevice, power: &Power, readings: &Readings) -> Option<String> {
    if power.formula == "nvml" || power.formula == "hwmon" {
        return None;
    }
    match power::containment(readings, device.host) {
        Containment::Untested => None,
        Containment::NotDisproved { windows } => {
            Some(format!("not disproved in {windows} windows: PKG may contain DRAM"))
        }
        Containment::Disproved { windows, against, largest_excess } => Some(format!(
            "disproved in {against} of {windows} windows (DRAM exceeds what PKG leaves for it by up to {largest_excess:.2} W): PKG does not contain DRAM, \
             and pkg-pp0-dram is too low by it"
        )),
    }
}

fn rate(power: &Power) -> String {
    if power.period > 0.0 { format!("{:.0}", 1.0 / power.period) } else { "unknown".to_owned() }
}

fn needed(power: &Power) -> f64 {
    (30.0 * power.period).max(1.0)
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
    use crate::energy::activity::{Class, Kind};
    use crate::energy::shapes::{Repeated, Shape, Tally};
    use clscope_analysis::energy::turns::Shared;
    use clscope_analysis::energy::{DeviceIndex, ResponseModel, Span, Timing};

    const MS: i64 = 1_000_000;

    fn repetition(start: HostNs, end: HostNs) -> Span {
        let (class, device) = (ClassId(1), DeviceIndex(0));
        Span { class, device, start, end, timing: Timing::Timed }
    }

    /// A kernel of 40 ms at 200 W every 100 ms for 6 s, then 16 batches of it, which are among what
    /// ran.
    fn repeated() -> (PhysicalDevice, Power) {
        let mut device = PhysicalDevice::named("gpu", "", Kind::Gpu);
        device.classes.push(Class { name: "k".into(), kernel: true, repetition: false });
        let launch = |i: i64| Span {
            class: ClassId(0),
            device: DeviceIndex(0),
            start: HostNs(i * 100 * MS),
            end: HostNs((i * 100 + 40) * MS),
            timing: Timing::Timed,
        };
        device.spans = (0..60).map(launch).collect();
        let shape = Shape { name: "k".into(), sizes: vec![64] };
        let tally = Tally { launches: 60, timed: 60, seconds: 2.4, extent: Some((1, 60)) };
        device.shapes.insert((ClassId(0), shape.clone()), tally);
        let batch = |i: i64| {
            let start = (7_000 + i * 600) * MS;
            (HostNs(start), HostNs(start + 400 * MS), 10, false)
        };
        let batches: Vec<_> = (0..16).map(batch).collect();
        let busy = |ms: i64| {
            let run = ms < 6_000 && ms % 100 < 40;
            run || batches.iter().any(|b| b.0.0 <= ms * MS && ms * MS < b.1.0)
        };
        let points = (0..1_700).map(|i| i * 10);
        let noise = |ms: i64| (ms / 10 % 3 - 1) as f64;
        let points =
            points.map(|ms| (HostNs(ms * MS), noise(ms) + if busy(ms) { 200.0 } else { 30.0 }));
        let series = Series::Instant(points.collect());
        device.replays.push(Repeated {
            name: "k".into(),
            shape,
            stamped: None,
            per_restoration: 1,
            before: 1,
            refused: String::new(),
            saved: 0,
            rest: 0.0,
            batches,
            trials: Vec::new(),
            kernel: true,
        });
        let class = Class { name: "k (repeated)".into(), kernel: true, repetition: true };
        device.classes.push(class);
        let ran = device.replays[0].batches.iter().map(|&(start, end, ..)| repetition(start, end));
        device.spans.extend(ran.collect::<Vec<_>>());
        (device, Power::of_series(series, ResponseModel::lagged_samples(0.01), 0.01, 0.06))
    }

    /// A kernel of 40 ms at 200 W every 100 ms for 6 s, which the recorder tried five times between,
    /// and copied buffers for 30 ms at 300 W before and after.
    fn tried() -> (PhysicalDevice, Power) {
        let mut device = PhysicalDevice::named("gpu", "", Kind::Gpu);
        let class = |name: &str, repetition| Class { name: name.into(), kernel: true, repetition };
        let own = [("k", false), ("buffers (saved)", true), ("k (repeated)", true)];
        device.classes.extend(own.map(|(name, repetition)| class(name, repetition)));
        let span = |of: u32, start: i64, end: i64| Span {
            class: ClassId(of),
            device: DeviceIndex(0),
            start: HostNs(start * MS),
            end: HostNs(end * MS),
            timing: Timing::Timed,
        };
        let mut spans: Vec<Span> = (0..60).map(|i| i * 100).map(|t| span(0, t, t + 40)).collect();
        let trials: Vec<Span> =
            (20..25).map(|i| i * 100 + 50).map(|t| span(2, t, t + 40)).collect();
        spans.extend(trials);
        spans.extend([span(1, 1_950, 1_980), span(1, 2_550, 2_580)]);
        spans.sort_by_key(|s| s.start);
        let watts = |ms: i64| {
            let here = spans.iter().find(|s| s.start.0 <= ms * MS && ms * MS < s.end.0);
            here.map_or(30.0, |s| if s.class.0 == 1 { 300.0 } else { 200.0 })
        };
        let points = (0..700).map(|i| i * 10);
        let points = points.map(|ms| (HostNs(ms * MS), (ms / 10 % 3 - 1) as f64 + watts(ms)));
        let series = Series::Instant(points.collect());
        device.spans = spans;
        let shape = Shape { name: "k".into(), sizes: vec![64] };
        let tally = Tally { launches: 60, timed: 60, seconds: 2.4, extent: Some((1, 60)) };
        device.shapes.insert((ClassId(0), shape), tally);
        (device, Power::of_series(series, ResponseModel::lagged_samples(0.01), 0.01, 0.06))
    }

    #[test]
    fn launches_that_were_only_tried_are_no_part_of_the_applications_energy() {
        let (device, power) = tried();
        let trace = Trace::open(Vec::new());
        let out = measure(
            &trace,
            &device,
            &power,
            &Readings::default(),
            &Elsewhere::default(),
            &Options::default(),
        );
        assert_eq!(out.failed, None);
        assert_eq!(out.classes.len(), 1, "{:?}", out.classes);
        let class = &out.classes[0];
        assert_eq!(class.launches, 60.0);
        assert!((class.busy_seconds - 2.4).abs() < 1e-9, "{}", class.busy_seconds);
        let joules = class.joules.unwrap();
        assert!((joules.value / (2.4 * 200.0) - 1.0).abs() < 0.01, "{joules:?}");
        let each = class.joules_per_launch.unwrap();
        assert!((each.value / 8.0 - 1.0).abs() < 0.01, "{each:?}");
        let repeated = out.repetitions.as_ref().unwrap();
        assert!((repeated.seconds / 0.26 - 1.0).abs() < 0.01, "{}", repeated.seconds);
        let truth = 0.2 * 200.0 + 0.06 * 300.0;
        assert!((repeated.joules / truth - 1.0).abs() < 0.05, "{} {truth}", repeated.joules);
        let rest = out.unattributed_joules.unwrap() / out.measured_joules.unwrap();
        assert!(rest.abs() < 0.01, "{rest}");
    }

    #[test]
    fn what_was_drawn_is_known_where_nobodys_part_is() {
        let mut device = PhysicalDevice::named("gpu", "", Kind::Gpu);
        device.classes.push(Class { name: "k".into(), kernel: true, repetition: false });
        let at = |ms: i64| HostNs(ms * MS);
        let span = Span {
            class: ClassId(0),
            device: DeviceIndex(0),
            start: at(1_000),
            end: at(1_001),
            timing: Timing::Timed,
        };
        device.spans = vec![span];
        let watts = |i: i64| 99.0 + (i % 3) as f64;
        let series = Series::Instant((0..300).map(|i| (at(i * 10), watts(i))).collect());
        let power = Power::of_series(series, ResponseModel::lagged_samples(0.01), 0.01, 0.06);
        let trace = Trace::open(Vec::new());
        let out = measure(
            &trace,
            &device,
            &power,
            &Readings::default(),
            &Elsewhere::default(),
            &Options::default(),
        );
        assert!(out.few_readings && out.classes.is_empty(), "{:?}", out.failed);
        assert!((out.measured_joules.unwrap() - 299.0).abs() < 2.0, "{:?}", out.measured_joules);
        assert!((out.mean_watts.unwrap() - 100.0).abs() < 0.1);
        assert_eq!(out.unattributed_joules, None);
    }

    /// A kernel of 4 ms at 150 W every 100 ms for 4 s, at 123 W between; 128 W before the context is
    /// made and behind its end.
    #[test]
    fn energy_of_paced_launches_adds_up_where_rest_outside_of_them_is_higher() {
        let mut device = PhysicalDevice::named("gpu", "", Kind::Gpu);
        device.classes.push(Class { name: "k".into(), kernel: true, repetition: false });
        let launches = || (0..40).map(|i| 500 + i * 100);
        device.spans = launches()
            .map(|start| Span {
                class: ClassId(0),
                device: DeviceIndex(0),
                start: HostNs(start * MS),
                end: HostNs((start + 4) * MS),
                timing: Timing::Timed,
            })
            .collect();
        let watts = |ms: i64| match ms {
            450..=4_500 if launches().any(|at| (at..at + 4).contains(&ms)) => 150.0,
            450..=4_500 => 123.0,
            _ => 128.0,
        };
        let noise = |ms: i64| 0.3 * (ms / 10 % 3 - 1) as f64;
        let points = (0..500).map(|i| 10 * i + 2);
        let points = points.map(|ms| (HostNs(ms * MS), watts(ms) + noise(ms)));
        let series = Series::Instant(points.collect());
        let power = Power::of_series(series, ResponseModel::lagged_samples(0.01), 0.01, 0.06);
        let trace = Trace::open(Vec::new());
        let out = measure(
            &trace,
            &device,
            &power,
            &Readings::default(),
            &Elsewhere::default(),
            &Options::default(),
        );
        let floor = out.floors[0].watts.unwrap();
        assert!(floor.low < 123.0 && floor.high > 123.0 && floor.value < 124.0, "{floor:?}");
        assert!(out.floors[1].watts.is_some_and(|w| (w.value - 128.0).abs() < 0.5));
        let rest = out.unattributed_joules.unwrap() / out.measured_joules.unwrap();
        // Each launch is seen by one sample, which stands for 10 ms in what was measured.
        assert!(rest.abs() < 0.01, "{rest}");
        assert!(
            out.notes.iter().any(|n| n.contains("W before its first or after its last command")),
            "{:?}",
            out.notes
        );
    }

    #[test]
    fn in_a_window_its_own_batches_are_told() {
        let (device, power) = repeated();
        let trace = Trace::open(Vec::new());
        let of = |energy_window: Option<(f64, f64)>| {
            let options = Options { energy_window, ..Options::default() };
            measure(&trace, &device, &power, &Readings::default(), &Elsewhere::default(), &options)
        };
        assert_eq!(of(None).batches_told(), "16 batches");
        // Those that begin at 7.0, 7.6 and 8.2 s.
        let part = of(Some((0.0, 8.5)));
        assert_eq!(part.repetitions.as_ref().unwrap().batches_in_window, Some(3));
        let told = part.batches_told();
        assert!(told.starts_with("3 of the run's 16 batches"), "{told}");
    }

    #[test]
    fn what_differs_from_run_to_run_is_no_drift() {
        // Two runs of 6 s, of which the second draws a tenth more; `slope`: change within each.
        let of = |slope: f64, runs: &[(i64, i64)]| {
            let (mut device, _) = repeated();
            device.replays.clear();
            device.classes.truncate(1);
            device.spans.retain(|span| span.class.0 == 0);
            let first = device.spans.clone();
            let moved = |at: HostNs| HostNs(at.0 + 6_000 * MS);
            let second =
                first.iter().map(|s| Span { start: moved(s.start), end: moved(s.end), ..*s });
            device.spans.extend(second.collect::<Vec<_>>());
            let watts = |ms: i64| {
                let later = if ms < 6_000 { 1.0 } else { 1.1 };
                let within = 1.0 + slope * (ms % 6_000) as f64 / 6_000.0;
                if ms % 100 < 40 { 200.0 * later * within } else { 30.0 * later * within }
            };
            let noise = |ms: i64| (ms / 10 % 3 - 1) as f64 * 0.1;
            let points = (0..1_200).map(|i| i * 10);
            let points = points.map(|ms| (HostNs(ms * MS), noise(ms) + watts(ms)));
            let series = Series::Instant(points.collect());
            let power = Power::of_series(series, ResponseModel::lagged_samples(0.01), 0.01, 0.06);
            let runs = runs.iter().map(|(from, to)| (HostNs(from * MS), HostNs(to * MS)));
            let readings = Readings {
                application: [(device.host, runs.collect())].into(),
                ..Readings::default()
            };
            let trace = Trace::open(Vec::new());
            let out = measure(
                &trace,
                &device,
                &power,
                &readings,
                &Elsewhere::default(),
                &Options::default(),
            );
            assert_eq!(out.failed, None);
            out.notes.into_iter().find(|note| note.starts_with("power changed"))
        };
        let two = [(0, 6_000), (6_000, 12_000)];
        assert!(of(0.0, &[(0, 12_000)]).is_some(), "or nothing is tested");
        assert_eq!(of(0.0, &two), None);
        let within = of(0.1, &two).expect("both changed");
        assert!(within.contains("one of the runs"), "{within}");
    }

    #[test]
    fn iterations_with_repetitions_between_and_windows_beside_the_run_are_refused() {
        let (mut device, power) = repeated();
        let trace = Trace::open(Vec::new());
        let of = |device: &PhysicalDevice, options: &Options| {
            measure(&trace, device, &power, &Readings::default(), &Elsewhere::default(), options)
        };
        let iterations = Options { iteration_kernel: Some("k".into()), ..Options::default() };
        let out = of(&device, &iterations);
        assert!(out.iteration.is_none());
        assert!(out.notes.iter().any(|n| n.contains("without --replay")), "{:?}", out.notes);
        device.replays.clear();
        assert!(of(&device, &iterations).iteration.is_some());
        let beside = Options { energy_window: Some((100.0, 200.0)), ..Options::default() };
        let failed = of(&device, &beside).failed.unwrap_or_default();
        assert!(failed.contains("no reading of the sensor lies between 100 and 200 s"), "{failed}");
    }

    #[test]
    fn what_workers_measured_does_not_settle_whose_turn_it_was() {
        let (mut device, power) = repeated();
        let trace = Trace::open(Vec::new());
        let figures = |device: &PhysicalDevice| {
            let out = measure(
                &trace,
                device,
                &power,
                &Readings::default(),
                &Elsewhere::default(),
                &Options::default(),
            );
            assert_eq!(out.failed, None);
            let class = &out.classes[0];
            let of_class = [class.joules, class.joules_per_launch, class.watts].map(Option::unwrap);
            let groups = out.groups.iter().find(|g| g.names == ["k"]).unwrap();
            (class.basis, [&of_class[..], &[groups.joules, groups.watts]].concat())
        };
        let (basis, alone) = figures(&device);
        assert_eq!(basis, result::Basis::Alone, "repetitions are part of the figure");
        for left in [0.0, 1.0] {
            device.shared = Some(Shared { processes: 2, overlap: 1.0, left });
            let (_, shared) = figures(&device);
            for (narrow, wide) in alone.iter().zip(&shared) {
                assert_eq!(narrow.value, wide.value);
                assert!(wide.low < narrow.low && wide.high > narrow.high, "{narrow:?} {wide:?}");
            }
        }
    }

    #[test]
    fn figures_above_the_limit_of_the_device_are_not_known() {
        let (device, mut power) = repeated();
        let trace = Trace::open(Vec::new());
        let mut of = |limit: Option<f64>| {
            power.limit = limit;
            measure(
                &trace,
                &device,
                &power,
                &Readings::default(),
                &Elsewhere::default(),
                &Options::default(),
            )
        };
        let free = of(None);
        let joules = free.classes[0].joules.unwrap().value;
        let watts = free.classes[0].watts.unwrap();
        assert!((watts.value - 200.0).abs() < 5.0, "{watts:?}");
        // The limit holds means: a tenth more is possible for a while.
        for limit in [200.0, 190.0] {
            let within = of(Some(limit));
            assert_eq!(within.classes[0].watts, Some(watts), "{limit}");
            assert!(!within.notes.iter().any(|n| n.contains("limited")), "{:?}", within.notes);
        }
        let above = of(Some(140.0));
        let class = &above.classes[0];
        assert_eq!((class.joules, class.watts), (None, None));
        assert_eq!(class.absence, Some(result::Absence::AboveLimit));
        assert!(above.notes.iter().any(|n| n.contains("limited to (140 W)")), "{:?}", above.notes);
        let rest = above.unattributed_joules.unwrap() - free.unattributed_joules.unwrap();
        let group = above.groups.iter().find(|g| g.names == ["k"]).unwrap().joules;
        assert!((rest + group.value - joules).abs() < 1e-9 * joules, "its energy is in no row");
        let possible = 1.1 * 140.0 * above.classes[0].busy_seconds;
        assert!(group.low == 0.0 && group.high <= 1.001 * possible, "{group:?} {possible}");
        // Also where the interval reaches below.
        let edge = of(Some((watts.value + watts.low) / 2.0 / rows::ABOVE_LIMIT));
        let class = &edge.classes[0];
        assert_eq!((class.watts, class.absence), (None, Some(result::Absence::AboveLimit)));
    }

    #[test]
    fn what_others_leave_of_a_sum_is_bounded_by_what_a_device_draws() {
        let sum = |joules: f64, half: f64, busy: f64| {
            let joules = Interval::estimated(joules, joules - half, joules + half);
            let names = vec!["device to host".to_owned()];
            let watts = joules.times(1.0 / busy);
            result::Group { names, busy_seconds: busy, joules, watts }
        };
        let of = |group| {
            let class = result::Class {
                name: "device to host".into(),
                absence: Some(result::Absence::InSum),
                group: Some(0),
                ..Default::default()
            };
            let mut out = DeviceEnergy {
                classes: vec![class],
                groups: vec![group],
                ..DeviceEnergy::default()
            };
            out.leave(Some(Interval::symmetric(1.0, 0.5)));
            rows::within_limit(&mut out, None, Some(230.0));
            let rest = out.unattributed.unwrap();
            assert!((rest.half() - 0.5).abs() < 1e-12, "{rest:?}");
            assert_eq!(out.unattributed_joules, Some(rest.value));
            (out.groups[0].joules, rest.value, out.notes)
        };
        // 4.9 kW: no device's.
        let (joules, rest, notes) = of(sum(57.1, 51.9, 11.6e-3));
        let most = 3.0 * 230.0 * 11.6e-3;
        assert!((joules.high - most).abs() < 1e-9 && joules.low == 0.0, "{joules:?}");
        assert!((rest - 1.0 - (57.1 - most)).abs() < 1e-9, "{rest}");
        assert!(notes[0].contains("device to host: 4922 W are more than"), "{notes:?}");
        let (joules, rest, notes) = of(sum(2.0, 0.5, 11.6e-3));
        assert_eq!((joules.value, rest, notes.len()), (2.0, 1.0, 0));
    }

    #[test]
    fn without_a_limit_figures_far_above_what_the_sensor_saw_are_not_known() {
        let (device, power) = repeated();
        let trace = Trace::open(Vec::new());
        let free = measure(
            &trace,
            &device,
            &power,
            &Readings::default(),
            &Elsewhere::default(),
            &Options::default(),
        );
        let watts = free.classes[0].watts.expect("200 W");
        for (seen, known) in [(None, true), (Some(201.0), true), (Some(60.0), false)] {
            let mut out = free.clone();
            rows::within_limit(&mut out, None, seen);
            rows::absent(&mut out);
            let class = &out.classes[0];
            assert_eq!(class.watts.is_some(), known, "{seen:?} {watts:?}");
            assert_eq!(class.joules.is_some(), known, "{seen:?}");
            assert_eq!(out.notes.iter().any(|n| n.contains("the sensor saw (60 W)")), !known);
        }
    }

    #[test]
    fn what_is_not_known_at_all_has_no_figure_anywhere() {
        let (device, power) = repeated();
        let trace = Trace::open(Vec::new());
        let mut out = measure(
            &trace,
            &device,
            &power,
            &Readings::default(),
            &Elsewhere::default(),
            &Options::default(),
        );
        assert!(out.classes[0].joules.is_some() && out.classes[0].absence.is_none());
        out.classes[0].absence = Some(result::Absence::AboveLimit);
        rows::absent(&mut out);
        let json = serde_json::to_value(&out.classes[0]).expect("a row");
        for name in [
            "joules",
            "joules_per_launch",
            "watts",
            "dynamic_joules",
            "dynamic_joules_below",
            "idle_joules",
            "energy_delay_joule_seconds",
            "gflop_per_joule",
        ] {
            assert!(json.get(name).expect(name).is_null(), "{name}: {json}");
        }
        assert_eq!(json["why"], result::Absence::AboveLimit.sentence());
    }

    #[test]
    fn repetitions_of_other_arguments_make_no_row_worse() {
        // Launches of 40 ms at 200 W in the run; the one batch is of launches of 4 ms at 120 W.
        let (mut device, _) = repeated();
        device.spans.retain(|span| span.class.0 == 0);
        let run = device.spans.clone();
        let batch = (HostNs(7_000 * MS), HostNs(7_400 * MS));
        let watts = |ms: i64| {
            let at = HostNs(ms * MS);
            let here = |from: HostNs, to: HostNs| from <= at && at < to;
            match run.iter().any(|s| here(s.start, s.end)) {
                true => 200.0,
                false if here(batch.0, batch.1) => 120.0,
                false => 30.0,
            }
        };
        let points = (0..900).map(|i| i * 10);
        let points = points.map(|ms| (HostNs(ms * MS), (ms / 10 % 3 - 1) as f64 + watts(ms)));
        let series = Series::Instant(points.collect());
        let power = Power::of_series(series, ResponseModel::lagged_samples(0.01), 0.01, 0.06);
        device.replays[0].stamped = Some(4e-3);
        device.replays[0].batches = vec![(batch.0, batch.1, 100, false)];
        device.spans.push(repetition(batch.0, batch.1));
        let trace = Trace::open(Vec::new());
        let measured = |device: &PhysicalDevice| {
            measure(
                &trace,
                device,
                &power,
                &Readings::default(),
                &Elsewhere::default(),
                &Options::default(),
            )
        };
        let with = measured(&device);
        device.replays.clear();
        let alone = measured(&device);
        let of = |out: &DeviceEnergy| out.classes[0].joules_per_launch.expect("a figure");
        assert!((of(&with).value / 8.0 - 1.0).abs() < 0.02, "{:?}", with.classes[0]);
        assert!(of(&with).half() <= of(&alone).half() * 1.1, "{:?} {:?}", of(&with), of(&alone));
        assert!(with.classes[0].is_precise());
        assert!(
            with.notes.iter().any(|n| n.contains("much shorter or longer")),
            "{:?}",
            with.notes
        );
    }
}
