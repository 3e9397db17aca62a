//! Owns the figures of one device as the report has them, made from an attribution: classes,
//! groups, floors, the rest, and what must be said of them. Refuses to fit.

use super::activity::{Class, PhysicalDevice};
use super::attribute::Options;
use super::power::Power;
use super::result::{self, Absence, Basis, DeviceEnergy};
use crate::interval::Interval;
use clscope_analysis::Trace;
use clscope_analysis::energy::{
    self as fit, Attribution, ClassEnergy, GroupEnergy, Problem, turns,
};

/// A device of which nothing is known yet but its sensor.
pub(super) fn unknown(trace: &Trace<'_>, device: &PhysicalDevice, power: &Power) -> DeviceEnergy {
    DeviceEnergy {
        device: device.label.clone(),
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
        identity: device.identity(trace),
        unplaced: device.unplaced,
        shared: device.shared,
        ..DeviceEnergy::default()
    }
}

/// Fills in what an attribution found.
pub(super) fn fill(
    out: &mut DeviceEnergy,
    device: &PhysicalDevice,
    power: &Power,
    problem: &Problem<'_>,
    result: &Attribution,
    options: &Options,
) {
    out.seconds = result.covered.0;
    let is_covered = result.covered.0 > 0.0;
    out.set_measured(is_covered.then_some(result.measured));
    out.leave(is_covered.then_some(result.unattributed));
    out.classes = classes(device, problem, result);
    out.groups = result.groups.iter().map(|g| group(device, g)).collect();
    out.floors = floors(result);
    out.gaps = Some(result.gaps);
    out.iteration = options.iteration_kernel.clone().zip(result.iteration).map(|(kernel, i)| {
        result::Iteration {
            kernel,
            iterations: i.iterations,
            joules: i.joules,
            seconds: i.seconds.0,
        }
    });
    out.response = Some(result::Response {
        period_seconds: power.period,
        window_seconds: result.response.window,
        lag_seconds: result.response.lag,
        delay_seconds: result.response.delay,
    });
    out.residual_watts = Some(result.residual.0);
    out.residual_correlation = Some(result.residual_correlation);
    out.temperature = result.temperature;
    out.evidence = result.evidence;
    out.readings = result.readings;
    doubts(out, device, result);
}

/// The rows of classes.
fn classes(
    device: &PhysicalDevice,
    problem: &Problem<'_>,
    result: &Attribution,
) -> Vec<result::Class> {
    let plain = fit::plain_integration(problem.activity, problem.series);
    let second = fit::second_average(problem.activity, problem.series);
    let per_span = device.launches_per_span();
    let row = |(row, class): (&ClassEnergy, &Class)| {
        let at = row.class.0 as usize;
        // A span stands for so many launches.
        let per_span = per_span.get(at).copied().unwrap_or(1.0);
        let each = |joules: Option<Interval>| joules.map(|joules| joules.times(1.0 / per_span));
        let reference = row.per_launch_at_reference;
        result::Class {
            name: class.name.clone(),
            kind: if class.kernel { "kernel" } else { "transfer" },
            // What has no time was launched all the same.
            launches: match row.launches * per_span {
                launches if launches > 0.0 => launches,
                _ => device.called(row.class) as f64,
            },
            busy_seconds: row.busy.0,
            covered_seconds: row.covered.0,
            joules: row.joules,
            joules_per_launch: each(row.joules_per_launch),
            per_launch_at_reference: each(reference),
            load: reference
                .map_or([0.0; 2], |joules| row.loads.at_reference.map(|n| n / joules.value)),
            watts: row.watts,
            dynamic_joules: row.dynamic,
            idle_joules: row.idle,
            energy_delay: row.energy_delay.map(|e| e / (per_span * per_span)),
            absence: row.absence,
            basis: match problem.workers.iter().any(|worker| worker.class == row.class) {
                true => Basis::Alone,
                false => Basis::Run,
            },
            needed_seconds: row.needed.map(|needed| needed.0),
            group: row.group,
            plain_watts: plain.get(at).copied().flatten().map(|w| w.0),
            second_average_watts: second.get(at).copied().flatten().map(|w| w.0),
            ..result::Class::default()
        }
    };
    result.classes.iter().zip(&device.classes).map(row).collect()
}

fn group(device: &PhysicalDevice, of: &GroupEnergy) -> result::Group {
    let name = |at: usize| device.classes.get(at).map_or_else(String::new, |c| c.name.clone());
    result::Group {
        names: of.classes.iter().map(|c| name(c.0 as usize)).collect(),
        busy_seconds: of.busy.0,
        busy_open: of.busy_open,
        joules: of.joules,
        watts: of.watts,
        idle: of.idle,
    }
}

fn floors(result: &Attribution) -> Vec<result::Floor> {
    let first = result.floors.first().and_then(|f| f.watts).map(|w| w.value);
    let floors = result.floors.iter().map(|f| result::Floor {
        state: f.state,
        name: match f.watts.zip(first) {
            _ if f.state == 0 => "between launches",
            Some((watts, first)) if watts.value > first => "higher idle",
            _ => "deeper idle",
        },
        watts: f.watts,
        idle_seconds: f.idle.0,
        joules: f.joules,
    });
    floors.collect()
}

/// How power changed from start to end, of one run or of the one of `runs` in which it did so most.
/// What differs from run to run is no drift.
pub(super) fn drift(out: &mut DeviceEnergy, found: Option<result::Drift>, runs: usize) {
    out.drift = found;
    if let Some(d) = found.filter(|d| d.noticed) {
        out.notes.push(format!(
            "power changed by {:+.1} % +- {:.1} from start to end of {} (temperature or clock): figures are means over it",
            d.share.value * 100.0,
            d.share.half() * 100.0,
            if runs > 1 { "one of the runs" } else { "the run" }
        ));
    }
}

/// What the run itself casts doubt on.
fn doubts(out: &mut DeviceEnergy, device: &PhysicalDevice, result: &Attribution) {
    let f = &result.faults;
    if f.gaps > 0 {
        let gaps = if f.gaps == 1 { "a gap".to_owned() } else { format!("{} gaps", f.gaps) };
        out.notes.push(format!(
            "the sensor's readings have {gaps} of more than four times the typical period"
        ));
    }
    if f.backwards > 0 {
        let times =
            if f.backwards == 1 { "once".to_owned() } else { format!("{} times", f.backwards) };
        out.notes.push(format!(
            "the sensor's counter went backwards {times}: no energy is known of these steps"
        ));
    }
    if result.rejected_spans > 0 {
        out.notes.push(format!(
            "{} commands with impossible times were left out",
            result.rejected_spans
        ));
    }
    out.notes.extend(device.told_unplaced());
}

/// Where processes shared the device, intervals hold as well what is not known of whose turn it
/// was.
pub(super) fn widen_shared(out: &mut DeviceEnergy) {
    let Some(s) = out.shared else { return };
    let (how, share) = if s.separated {
        ("each process counts only while its commands ran".to_owned(), turns::SEPARATED)
    } else {
        let how = format!(
            "for {:.2} s it is not known which process ran, and each counts for an equal share: record with --device-timing event",
            s.left_seconds
        );
        (how, turns::OVERLAP)
    };
    for class in &mut out.classes {
        let whole = [&mut class.joules, &mut class.joules_per_launch, &mut class.watts];
        let parts =
            [&mut class.per_launch_at_reference, &mut class.dynamic_joules, &mut class.idle_joules];
        for figure in whole.into_iter().chain(parts) {
            *figure = figure.map(|f| f.widened(share));
        }
    }
    let all: f64 = out.groups.iter().map(|group| group.joules.value).sum();
    for group in &mut out.groups {
        (group.joules, group.watts) = (group.joules.widened(share), group.watts.widened(share));
    }
    out.leave_more(0.0, share * all);
    out.notes.push(format!(
        "commands of {} processes overlap for {:.2} s on this device: {how}; intervals include {:.0} % for that",
        s.processes,
        s.overlap_seconds,
        share * 100.0
    ));
}

/// What a kernel may draw above the limit that its device's power is held to: the limit holds means
/// over some tens of milliseconds.
pub(super) const ABOVE_LIMIT: f64 = 1.1;

/// What a kernel may draw above the largest power that its sensor saw, where no limit is known: of
/// short launches a sensor sees means with the rest between them.
const ABOVE_SEEN: f64 = 3.0;

/// Whether an interval leaves a figure, in every view: not where it is wider than half of it, and not
/// where an end of it is not known.
pub(super) fn is_known(of: &Interval) -> bool {
    of.is_known_to(fit::WIDEST)
}

/// Holds all figures to what a device can draw: while it works no less than at rest, and no more than
/// it is limited to. Intervals end there. What lies above, and what is known to less than half of it,
/// is not known: it has no figure and no sum, and its energy is nobody's. `limit`: of the device's
/// power, where the driver tells it; `seen`: the largest power that the sensor saw.
pub(super) fn within_limit(out: &mut DeviceEnergy, limit: Option<f64>, seen: Option<f64>) {
    let (most, what) = match (limit, seen) {
        (Some(limit), _) => (
            limit * ABOVE_LIMIT,
            format!("more than the device's power is limited to ({limit:.0} W)"),
        ),
        (None, Some(seen)) if seen > 0.0 => (
            seen * ABOVE_SEEN,
            format!("more than {ABOVE_SEEN:.0} times the most that the sensor saw ({seen:.0} W)"),
        ),
        _ => (f64::INFINITY, String::new()),
    };
    let rest = out.floors.iter().find(|floor| floor.state == 0).and_then(|floor| floor.watts);
    let rest = rest.map_or(0.0, |watts| watts.low).max(0.0);
    // What is not known of a part is not known of the rest that it becomes.
    let (mut left, mut open) = (0.0, 0.0);
    let (mut groups, mut places) = (Vec::new(), Vec::new());
    for (at, mut group) in std::mem::take(&mut out.groups).into_iter().enumerate() {
        let members = out.classes.iter_mut().filter(|class| class.group == Some(at));
        let mut members: Vec<&mut result::Class> = members.collect();
        let absence = match &members[..] {
            _ if group.watts.value > most => Some(Absence::AboveLimit),
            [class] if group.names.len() == 1 && class.absence.is_some() => class.absence,
            _ => (!is_known(&group.joules)).then_some(Absence::Wide),
        };
        let whole = group.joules.value;
        let least = (1.0 - group.busy_open).max(0.0) * group.busy_seconds;
        let longest = (1.0 + group.busy_open) * group.busy_seconds;
        let ends = (group.idle.low.max(rest * least), most * longest);
        let within = |of: Interval| match of.value / whole {
            unit if unit > 0.0 => of.within(ends.0 * unit, ends.1 * unit).at_least(ends.0 * unit),
            _ => of,
        };
        let more = (ends.0 - whole).max(0.0);
        left -= more;
        (group.joules, group.watts) = (within(group.joules), within(group.watts));
        for class in &mut members {
            let all = [&mut class.joules, &mut class.joules_per_launch, &mut class.watts];
            for figure in all.into_iter().chain([&mut class.per_launch_at_reference]) {
                *figure = figure.map(within);
            }
            class.dynamic_joules = class.dynamic_joules.map(|of| of.within(0.0, ends.1 - ends.0));
            class.idle_joules = class.idle_joules.map(|of| of.map(|joules| joules + more));
            class.absence = absence.or(class.absence);
            // All of the sum that it is in, and no more than the device draws all of the time.
            let joules = group.joules.high.min(most * class.covered_seconds);
            let launches = class.launches * class.covered_seconds / class.busy_seconds;
            class.joules_per_launch_below = Some(joules / launches)
                .filter(|each| class.absence.is_some() && each.is_finite() && *each > 0.0);
        }
        if absence == Some(Absence::AboveLimit) {
            out.notes.push(format!(
                "{}: {:.0} W are {what}: its energy is not known",
                group.names.join(" + "),
                group.watts.value
            ));
        }
        if absence.is_some() {
            (left, open) = (left + group.joules.value, open + group.joules.longer());
        }
        places.push(absence.is_none().then_some(groups.len()));
        groups.extend(absence.is_none().then_some(group));
    }
    for class in &mut out.classes {
        class.group = class.group.and_then(|at| places.get(at).copied().flatten());
    }
    out.groups = groups;
    if left != 0.0 || open != 0.0 {
        out.leave_more(left, open);
    }
}

/// Whether nothing is known of a class, neither by itself nor in a sum.
fn is_unknown(class: &result::Class) -> bool {
    matches!(class.absence, Some(Absence::Wide | Absence::NotRead | Absence::AboveLimit))
}

/// What is not known at all has no figure anywhere.
pub(super) fn absent(out: &mut DeviceEnergy) {
    for class in out.classes.iter_mut().filter(|c| is_unknown(c)) {
        (class.joules, class.joules_per_launch, class.watts) = (None, None, None);
        class.per_launch_at_reference = None;
        (class.dynamic_joules, class.dynamic_joules_below, class.idle_joules) = (None, None, None);
        (class.energy_delay, class.gflop_per_joule) = (None, None);
    }
    for class in out.classes.iter_mut().filter(|c| c.absence.is_some()) {
        (class.plain_watts, class.second_average_watts) = (None, None);
    }
}

/// What running added is no figure where its interval is wider than half of it: it is told by its
/// upper end.
pub(super) fn bound(out: &mut DeviceEnergy) {
    for class in &mut out.classes {
        let Some(dynamic) = class.dynamic_joules else { continue };
        if !is_known(&dynamic) {
            class.dynamic_joules = None;
            class.dynamic_joules_below = Some(dynamic.high.max(0.0));
        }
    }
}

/// What would be known of a run that was recorded otherwise.
pub(super) fn missing(out: &mut DeviceEnergy, options: &Options, is_repeated: bool) {
    if options.iteration_kernel.is_some() && out.iteration.is_none() {
        out.notes.push(match is_repeated {
            true => "no joules per iteration: this run repeated kernels between iterations. Record without --replay, and give this trace to `--with`".to_owned(),
            false => "no joules per iteration: the kernel of --iteration-kernel ran less than twice while the sensor was read".to_owned(),
        });
    }
    if out.floors.iter().all(|f| f.watts.is_none()) {
        out.notes.push("energy above idle is not known, because the device was never idle: record with --idle-window 2".to_owned());
    }
}
