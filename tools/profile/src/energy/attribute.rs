//! Owns the steps from a trace and its readings to joules per kernel: devices, their power, floors,
//! the fit, and what has to be said of it. Refuses to fit by itself: the analysis does.

use super::activity::PhysicalDevice;
use super::alone::external::{self, External, Source};
use super::explained::Explained;
use super::power::{self, Power};
use super::readings::Readings;
use super::result::{self, DeviceEnergy, Energy};
use super::unrecorded::{self, Unrecorded};
use super::{RecordedFormula, recorded, rows};
use crate::interval::Interval;
use clscope_analysis::Trace;
use clscope_analysis::energy::{
    self as fit, Activity, AttributionError, ClassId, EstimatedTime, Evidence, HostNs, Pooled,
    Problem, Response, Series, Span,
};
use clscope_analysis::stats::beside::Repeated;
use clscope_sensors::gpu_power::{Choice, Containment};
use std::collections::{BTreeMap, BTreeSet};

mod floors;

pub(super) use floors::{Floors, floors_of};

/// What the user may choose.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// How GPU power is computed: auto, pp1, pkg-pp0, pkg-pp0-dram, nvml or hwmon [default: as
    /// recorded, else auto]
    pub gpu_power: Option<Choice>,
    /// Each launch of this kernel begins an iteration (a frame, a time step): joules per iteration
    pub iteration_kernel: Option<String>,
    /// Floating-point operations of one launch of a kernel, for GFLOP/s/W: KERNEL=2.1e9 (repeat for
    /// several kernels)
    pub flop: Vec<(String, f64)>,
    /// Energy of this part of the run only, in seconds from its beginning: 10..15
    pub energy_window: Option<(f64, f64)>,
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
    /// What runs of devices say together where others are compared with this one, by the device's
    /// identity, with what this one says, and the response that was found in it
    pub pooled: BTreeMap<String, (Pooled, Evidence, Response)>,
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
fn unused_without_readings(sources: &[Source]) -> Option<String> {
    let others = sources.iter().filter(|source| !source.is_own);
    let mut names: Vec<String> = others.map(|l| l.path.display().to_string()).collect();
    names.dedup();
    (!names.is_empty()).then(|| {
        format!(
            "{} (--with) is not used, because this run has no readings of its own to divide",
            names.join(", ")
        )
    })
}

/// What devices ran.
#[derive(Clone, Copy)]
pub struct Ran<'a> {
    /// All devices.
    pub devices: &'a [PhysicalDevice],
    /// How the time of each class of each device is known; empty where all launches were timed.
    pub times: &'a [Vec<EstimatedTime>],
    /// When the application ran, and nothing was repeated.
    pub own: &'a [(HostNs, HostNs)],
    /// When recording was paused, by process.
    pub paused: &'a [Repeated],
}

/// What a device ran.
#[derive(Clone, Copy)]
pub(super) struct RanOn<'a> {
    pub device: &'a PhysicalDevice,
    /// How the time of each class is known; empty where all launches were timed.
    pub times: &'a [EstimatedTime],
    /// When the application ran, and nothing was repeated; empty: all of the time.
    pub own: &'a [(HostNs, HostNs)],
    /// When what it did is in no record.
    pub unrecorded: &'a [Unrecorded],
}

/// Energy of a trace, given its readings.
pub fn energy_of(
    trace: &Trace<'_>,
    Ran { devices, times, own, paused }: Ran<'_>,
    readings: &Readings,
    recorded: RecordedFormula,
    external: &External,
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
        out.notes.extend(unused_without_readings(&external.sources));
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
    for (at, device) in devices.iter().enumerate() {
        if let Some(why) = unrecorded::left_out(trace, device) {
            out.unmeasured.push(result::Unmeasured { device: device.label.clone(), why });
            continue;
        }
        let estimated = times.get(at).map_or(&[][..], Vec::as_slice);
        match power::power_of(device, devices, readings, choice) {
            Ok(mut power) => {
                let missing = unrecorded::of_device(trace, device, paused, readings);
                let rest = unrecorded::without(&power.series, &missing);
                let told = rest.is_some().then(|| unrecorded::notes(&missing));
                power.series = rest.unwrap_or(power.series);
                let ran = RanOn { device, times: estimated, own, unrecorded: &missing };
                let mut found = measure(trace, ran, &power, readings, external, options);
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
            let left_out = devices.iter().find_map(|d| unrecorded::left_out(trace, d));
            left_out.unwrap_or_else(|| format!(
                "no sensor belongs to the devices that ran commands ({}); `clscope doctor` lists sensors",
                why.join("; ")
            ))
        });
    }
    if out.absent.is_some() {
        out.notes.extend(unused_without_readings(&external.sources));
    }
    for source in
        external.sources.iter().filter(|l| !l.is_own && !devices.iter().any(|d| d.name == l.device))
    {
        out.notes.push(format!(
            "{} is not used: it was measured on {}, and this run used another device",
            source.path.display(),
            source.device
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

/// A part of the run.
type Window = Option<(HostNs, HostNs)>;

/// What ran and what the sensor read in the window, or in the whole run.
fn inside(
    RanOn { device, times, .. }: RanOn<'_>,
    power: &Power,
    window: Window,
) -> (Activity, Series) {
    let activity = |spans: &[Span]| {
        Activity::new(spans, device.classes.len()).with_times(times).with_runs(&device.runs())
    };
    let Some((from, to)) = window else {
        return (activity(&device.spans), power.series.clone());
    };
    // What ran shortly before still shows in the first readings.
    let lead = (power.settle.max(10.0 * power.period) * 1e9) as i64;
    let spans: Vec<_> = device
        .spans
        .iter()
        .filter(|s| s.end.0 >= from.0.saturating_sub(lead) && s.start <= to)
        .copied()
        .collect();
    (activity(&spans), power.series.between(from, to))
}

/// How power changed within a run. Of several that are reported together each is looked at by
/// itself: that one draws more than the one before says nothing of either.
fn drift(
    result: &fit::Attribution,
    of_all: &Problem<'_>,
    ran: RanOn<'_>,
    power: &Power,
    runs: &[(HostNs, HostNs)],
) -> Option<fit::Drift> {
    if runs.len() < 2 {
        return result.drift;
    }
    let of_run = |&run: &(HostNs, HostNs)| {
        let (activity, series) = inside(ran, power, Some(run));
        fit::attribute(&Problem { activity: &activity, series: &series, ..*of_all }).ok()?.drift
    };
    let rank = |d: &fit::Drift| (d.noticed, d.share.value.abs());
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
    ran @ RanOn { device, times, own, .. }: RanOn<'_>,
    power: &Power,
    readings: &Readings,
    external: &External,
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
    let runs = readings.application.get(&device.host).map_or(&[][..], Vec::as_slice);
    let pooled = options.pooled.get(&device.identity(trace));
    let whole = Activity::new(&device.spans, device.classes.len()).with_times(times);
    let of_run = Problem {
        activity: &whole,
        series: &power.series,
        response: power.response,
        floors: &[],
        states: &[],
        drift: DRIFT,
        temperature: super::alone::workers::temperature(device, readings),
        pooled: pooled.map(|of| (of.0, of.1)),
        found: None,
        workers: &[],
        spread: 1.0,
        rest_as_sum: true,
        own,
        iterations: &[],
    };
    let floors = floors_of(&of_run, power.settle, known);
    let (activity, series) = inside(ran, power, window);
    // From one iteration to the next the recorder's own repetitions would count as the application.
    let of_iterations = options.iteration_kernel.as_ref().filter(|_| device.replays.is_empty());
    let iterations = iterations(device, of_iterations);
    let problem = Problem {
        activity: &activity,
        series: &series,
        floors: &floors.floors,
        states: &floors.states,
        iterations: &iterations,
        found: pooled.map(|of| of.2).filter(|_| runs.len() < 2),
        ..of_run
    };
    let mut out = rows::unknown(trace, device, power);
    // One without an end goes on to that of the run.
    let end = own.iter().map(|of| of.1.0).chain(device.spans.iter().map(|span| span.end.0)).max();
    out.window = options.energy_window.map(|(from_seconds, to)| {
        let end = end.map_or(from_seconds, |end| end.saturating_sub(origin) as f64 * 1e-9);
        let to_seconds = if to.is_finite() { to } else { end.max(from_seconds) };
        result::Window { from_seconds, to_seconds }
    });
    if trace.issues.iter().any(|issue| issue.kind.means_loss()) {
        out.notes.push(
            "records of the trace are missing: idle power may be too high and joules of kernels too low, because commands may have run unseen"
                .to_owned(),
        );
    }
    if let Some(known) = known.filter(|_| floors.measured_before) {
        out.notes.push(format!(
            "idle power of {:.1} W is from {}, because the device was never idle while the sensor was read",
            known.watts, known.source
        ));
    }
    let is_alone = window.is_none()
        && external.sources.is_empty()
        && iterations.is_empty()
        && device.replays.is_empty()
        && !device.classes.iter().any(|class| class.repetition);
    let each = is_alone.then(|| super::runs::attribute(&of_run, ran, power, runs, known));
    let (of_runs, told) = each.flatten().unzip();
    out.notes.extend(told.unwrap_or_else(|| floors.told.into_iter().collect()));
    for other in options.floors.iter().filter(|f| f.asked && !applies(f)) {
        let of = other.device.as_deref().unwrap_or_default();
        out.notes
            .push(format!("{} is not used for this device, because it is of {of}", other.source));
    }
    if super::around::fill(&mut out, device, power, window) {
        let why =
            "the sensor was read around each of its launches (--snapshot), and nothing was fitted";
        out.explained = options.explain.as_ref().map(|kernel| Explained::absent(kernel, why));
        limit_figures(&mut out, power, options, false);
        out.keep_to_window();
        out.containment = containment(device, power, readings);
        return out;
    }
    let own = !device.replays.is_empty();
    let mut found = super::alone::replayed::repetitions_on(device, power);
    let from = external::use_sources(&mut found, device, &external.sources);
    out.notes.extend(external::unused(device, &external.sources, &from));
    let per_span = device.launches_per_span();
    let length = |(at, time): (usize, &fit::ClassTime)| {
        time.busy_s / (time.launches * per_span.get(at).copied().unwrap_or(1.0)).max(1.0)
    };
    let lengths: Vec<f64> = activity.totals().iter().enumerate().map(length).collect();
    let (workers, unlike) = super::alone::workers::workers(device, &found, &lengths);
    out.notes.extend(unlike.iter().map(|class| super::alone::workers::told_unlike(device, *class)));
    let problem = Problem { workers: &workers, ..problem };
    match of_runs.map_or_else(|| fit::attribute(&problem), Ok) {
        Ok(result) => {
            rows::fill(&mut out, device, power, &problem, &result, options);
            let runs = within(runs, window);
            // A fit over several runs is of all of them.
            if let Some(temperature) = &mut out.temperature {
                temperature.runs = temperature.runs.max(runs.len());
            }
            let drift = drift(&result, &problem, ran, power, &runs);
            rows::drift(&mut out, drift, runs.len());
            out.replays =
                super::alone::replayed::rows(&found, super::alone::replayed::idle(&result));
            super::alone::workers::apart(&mut out, device, &result, &from, window);
            if !found.is_empty() || own {
                super::alone::workers::not_repeated(&mut out, device, &found, (own, external));
            }
            // Whatever a figure rests on: whose turn it was is not known any better.
            rows::widen_shared(&mut out);
            limit_figures(&mut out, power, options, own);
            out.explained = options.explain.as_ref().and_then(|kernel| {
                let of = (&problem, &result);
                super::explained::explain(kernel, device, of, &found, &out.classes, origin)
            });
        }
        Err(error) => {
            out.few_readings = matches!(error, AttributionError::TooFewReadings { .. });
            // What was drawn is known, whoever drew it; with repetitions, not by whom.
            let measured = fit::measured(&problem);
            if let Some((joules, seconds)) = measured.filter(|_| device.replays.is_empty()) {
                out.measured_joules = Some(joules.0);
                out.seconds = seconds.0;
                out.mean_watts = Some(joules.0 / seconds.0);
            }
            // Idle power is not known, and part of their figures.
            out.replays = super::alone::replayed::rows(&found, (0.0, 0.0));
            if device.spans.is_empty() && device.unplaced > 0 {
                // No reading can mend that.
                out.failed = Some(format!(
                    "no time on the device is known of any of its {} commands; record with `--device-timing event`",
                    device.unplaced
                ));
            } else if let Some(of) = out.window.filter(|_| series.is_empty()) {
                out.failed = Some(format!(
                    "no reading of the sensor lies between {} and {} s (--window): the run is {:.1} s long",
                    of.from_seconds,
                    of.to_seconds,
                    trace.bounds().map_or(0.0, |all| all.end.since(all.begin) as f64 * 1e-9)
                ));
            } else {
                let why = error.to_string();
                out.explained =
                    options.explain.as_ref().map(|kernel| Explained::absent(kernel, &why));
                out.failed = Some(why);
                let rate = match power.period > 0.0 {
                    true => format!("{:.0}", 1.0 / power.period),
                    false => "unknown".to_owned(),
                };
                let needed = (30.0 * power.period).max(1.0);
                out.notes.push(format!(
                    "the sensor has {rate} readings a second: record about {needed:.0} s of work or more"
                ));
            }
        }
    }
    out.keep_to_window();
    compare_with_reference(&mut out, ran, (power, known), readings, (problem, window));
    out.containment = containment(device, power, readings);
    out
}

/// Holds figures to what is possible and known, and says what would be known otherwise.
fn limit_figures(out: &mut DeviceEnergy, power: &Power, options: &Options, is_repeated: bool) {
    rows::within_limit(out, power.limit, power.seen());
    rows::absent(out);
    rows::bound(out);
    rows::missing(out, options, is_repeated);
    operations(out, options);
}

/// Adds the figures of the device's other sensor, where it has one.
fn compare_with_reference(
    out: &mut DeviceEnergy,
    RanOn { device, unrecorded: times, .. }: RanOn<'_>,
    (power, known): (&Power, Option<&KnownFloor>),
    readings: &Readings,
    (problem, window): (Problem<'_>, Window),
) {
    let Some((series, response)) = power::reference(device, readings) else { return };
    let series = unrecorded::without(&series, times).unwrap_or(series);
    let series = window.map_or_else(|| series.clone(), |(from, to)| series.between(from, to));
    let problem = Problem {
        series: &series,
        response,
        floors: &[],
        states: &[],
        workers: &[],
        pooled: None,
        found: None,
        ..problem
    };
    let floors = floors_of(&problem, power.settle, known);
    let problem = Problem { floors: &floors.floors, states: &floors.states, ..problem };
    let Ok(result) = fit::attribute(&problem) else { return };
    out.reference_joules = Some(result.measured.value);
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
mod tests;
