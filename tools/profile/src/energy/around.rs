//! Owns energy where sensors were read around each command (`record --snapshot`): every window
//! between two readings holds one command, or none. What a window counted is its command's, less
//! the idle power of the time beside it; the rest is the device's at rest. Nothing is fitted.
#![forbid(unsafe_code)]

use super::activity::PhysicalDevice;
use super::power::Power;
use super::replayed::NORMAL;
use super::result::{self, DeviceEnergy};
use crate::interval::Interval;
use clscope_analysis::energy::{HostNs, Series};

/// A stretch of time between two readings, and its mean power.
type Window = (HostNs, HostNs, f64);

/// Energy of one command.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LaunchEnergy {
    /// When it began on the device.
    pub start: HostNs,
    /// Its energy, idle power included, with the error of the counter's steps at both ends.
    pub joules: Interval,
}

/// What windows of one kind counted.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    count: u32,
    seconds: f64,
    joules: f64,
    /// Sum of squares of the energy of one step of the counter.
    steps: f64,
}

impl Sum {
    fn add(&mut self, seconds: f64, watts: f64, step: f64) {
        self.count += 1;
        self.seconds += seconds;
        self.joules += watts * seconds;
        self.steps += (watts * step).powi(2);
    }

    /// Half of the 95 % interval of `joules`: the counter stepped up to one step before each of two
    /// readings.
    fn half(&self) -> f64 {
        NORMAL * (self.steps / 6.0).sqrt()
    }

    fn watts(&self) -> Option<Interval> {
        let watts = |joules: f64| joules / self.seconds;
        (self.seconds > 0.0).then(|| Interval::around(watts(self.joules), watts(self.half())))
    }
}

/// What is known of one class.
#[derive(Debug, Clone, Default)]
struct Found {
    /// Of the windows of its commands, whole.
    windows: Sum,
    /// Their commands' own time.
    busy: f64,
}

/// Windows, each with the commands in it by the middle of their spans.
struct Assigned {
    window: Window,
    spans: Vec<usize>,
    /// Between the first and the last command of its recording.
    is_between: bool,
}

fn seconds(of: &Window) -> f64 {
    of.1.seconds_since(of.0)
}

fn assigned(device: &PhysicalDevice, windows: &[Window]) -> Vec<Assigned> {
    let middle =
        |at: usize| device.spans.get(at).map_or(i64::MAX, |span| span.start.0.midpoint(span.end.0));
    let mut order: Vec<usize> = (0..device.spans.len()).collect();
    order.sort_by_key(|at| middle(*at));
    let mut out = Vec::with_capacity(windows.len());
    let mut next = 0;
    for recording in windows.chunk_by(|a, b| a.1 == b.0) {
        let begun = out.len();
        for window in recording {
            while order.get(next).is_some_and(|at| middle(*at) < window.0.0) {
                next += 1;
            }
            let mut spans = Vec::new();
            while order.get(next).is_some_and(|at| middle(*at) < window.1.0) {
                spans.push(order[next]);
                next += 1;
            }
            out.push(Assigned { window: *window, spans, is_between: false });
        }
        let own = &mut out[begun..];
        let first = own.iter().position(|w| !w.spans.is_empty());
        let last = own.iter().rposition(|w| !w.spans.is_empty());
        if let (Some(first), Some(last)) = (first, last) {
            own[first..=last].iter_mut().for_each(|w| w.is_between = true);
        }
    }
    out
}

/// A figure that is known by its interval's width, as rows name it.
fn known(of: &Interval) -> &'static str {
    match of.relative() {
        Some(relative) if relative <= 0.1 => "well",
        Some(relative) if relative <= 0.5 => "weak",
        _ => "not-at-all",
    }
}

/// A figure whose interval is narrower than half of it.
fn is_known(of: &Interval) -> bool {
    known(of) != "not-at-all"
}

/// Fills in what windows between readings say. `part`: the part of the run that is asked for.
/// `false` where nothing was read around commands of this device.
pub(super) fn fill(
    out: &mut DeviceEnergy,
    device: &PhysicalDevice,
    power: &Power,
    part: Option<(HostNs, HostNs)>,
) -> bool {
    let (Some(step), Series::WindowMean(all)) = (power.around, &power.series) else {
        return false;
    };
    let is_inside = |w: &&Window| part.is_none_or(|(from, to)| from <= w.0 && w.1 <= to);
    let windows: Vec<Window> = all.iter().filter(is_inside).copied().collect();
    let windows = assigned(device, &windows);
    if windows.iter().all(|w| w.spans.is_empty()) {
        return false;
    }
    let length =
        |at: &usize| device.spans.get(*at).map_or(0.0, |span| span.end.seconds_since(span.start));
    let class_of = |at: &usize| device.spans.get(*at).map(|span| span.class.0 as usize);
    let (mut between, mut beside) = (Sum::default(), Sum::default());
    let mut measured = Sum::default();
    let mut found = vec![Found::default(); device.classes.len()];
    let mut mixed = 0.0;
    for Assigned { window, spans, is_between } in &windows {
        measured.add(seconds(window), window.2, step);
        match &spans[..] {
            [] if *is_between => between.add(seconds(window), window.2, step),
            [] => beside.add(seconds(window), window.2, step),
            [first, rest @ ..] => {
                let class = class_of(first);
                let is_one = rest.iter().all(|at| class_of(at) == class);
                match class.and_then(|class| found.get_mut(class)).filter(|_| is_one) {
                    Some(of) => {
                        of.windows.add(seconds(window), window.2, step);
                        of.busy += spans.iter().map(length).sum::<f64>();
                    }
                    None => mixed += window.2 * seconds(window),
                }
            }
        }
    }
    let floor = between.watts().filter(is_known);
    // What a command took of its window: the rest of the time the device was at rest.
    let own = |windows: &Sum, busy: f64, half: f64| {
        let beside = (windows.seconds - busy).max(0.0);
        let (idle, open) = match floor {
            Some(floor) => (floor.value * beside, floor.half() * beside),
            None => {
                let share = windows.joules * beside / windows.seconds;
                (share, share)
            }
        };
        let joules = windows.joules - idle;
        let half = half.hypot(open);
        (Interval::measured(joules, (joules - half).max(0.0), joules + half), beside, idle)
    };
    out.launches = windows
        .iter()
        .filter(|w| w.spans.len() == 1)
        .filter_map(|w| {
            let span = device.spans.get(*w.spans.first()?)?;
            let mut sum = Sum::default();
            sum.add(seconds(&w.window), w.window.2, step);
            // Of a single launch at most a step is missing at one end or too much at the other.
            let (joules, ..) = own(&sum, span.end.seconds_since(span.start), w.window.2 * step);
            is_known(&joules).then_some(LaunchEnergy { start: span.start, joules })
        })
        .collect();
    out.launches.sort_by_key(|launch| launch.start);
    let mut totals = vec![(0.0, 0.0); device.classes.len()];
    for span in &device.spans {
        if let Some(total) = totals.get_mut(span.class.0 as usize) {
            *total = (total.0 + 1.0, total.1 + span.end.seconds_since(span.start));
        }
    }
    let per_span = device.launches_per_span();
    let (mut beside_commands, mut idle_beside) = (0.0, 0.0);
    for (at, (class, found)) in device.classes.iter().zip(&found).enumerate() {
        let (spans, busy) = totals.get(at).copied().unwrap_or_default();
        let launches = spans * per_span.get(at).copied().unwrap_or(1.0);
        let mut row = result::Class {
            name: class.name.clone(),
            kind: if class.kernel { "kernel" } else { "transfer" },
            launches,
            busy_seconds: busy,
            covered_seconds: found.busy,
            identifiability: "not-at-all",
            ..result::Class::default()
        };
        if found.busy > 0.0 {
            let (joules, beside, idle) = own(&found.windows, found.busy, found.windows.half());
            (beside_commands, idle_beside) = (beside_commands + beside, idle_beside + idle);
            let watts = joules.times(1.0 / found.busy);
            row.identifiability = known(&joules);
            row.group = Some(out.groups.len());
            out.groups.push(result::Group {
                names: vec![class.name.clone()],
                busy_seconds: found.busy,
                joules,
                watts,
                with_floor: false,
            });
            if is_known(&joules) {
                let duration = busy / launches;
                row.joules = Some(joules);
                row.watts = Some(watts);
                row.joules_per_launch = Some(watts.times(duration));
                row.energy_delay = Some(watts.value * duration * duration);
                row.method = Some("integrated");
                if let Some(floor) = floor {
                    let idle = floor.times(found.busy);
                    let dynamic = joules.value - idle.value;
                    let half = joules.half().hypot(idle.half());
                    row.dynamic_joules =
                        Some(Interval::measured(dynamic, dynamic - half, dynamic + half));
                    row.idle_joules = Some(idle);
                }
            }
        }
        out.classes.push(row);
    }
    let at_rest = |state, name, sum: &Sum, watts: Option<Interval>, more: (f64, f64)| {
        let joules = watts.map(|_| sum.joules + more.1);
        result::Floor { state, name, watts, idle_seconds: sum.seconds + more.0, joules }
    };
    let beside_launches = (beside_commands, idle_beside);
    out.floors = vec![at_rest(0, "between launches", &between, floor, beside_launches)];
    if beside.seconds > 0.0 {
        let watts = beside.watts().filter(is_known);
        out.floors.push(at_rest(1, "before and behind all launches", &beside, watts, (0.0, 0.0)));
    }
    let floor = &out.floors[0];
    out.gaps = Some(result::Gaps { seconds: floor.idle_seconds, joules: floor.joules });
    out.seconds = measured.seconds;
    out.measured_joules = Some(measured.joules);
    out.mean_watts = Some(measured.joules / measured.seconds);
    let parts = out.groups.iter().map(|g| g.joules.value).sum::<f64>()
        + out.floors.iter().filter_map(|f| f.joules).sum::<f64>();
    out.unattributed_joules = Some(measured.joules - parts);
    out.readings = windows.len();
    if mixed > 0.0 {
        out.notes.push(format!(
            "commands ran beside each other between two readings: {mixed:.2} J of them are unattributed"
        ));
    }
    if device.unplaced > 0 {
        out.notes.push(format!(
            "{} commands ran at unknown times: their energy is in the figures of others, or unattributed",
            device.unplaced
        ));
    }
    true
}

#[cfg(test)]
mod tests {
    use super::super::activity::{Class, Kind};
    use super::*;
    use clscope_analysis::energy::{ClassId, DeviceIndex, ResponseModel, Span, Timing};
    use proptest::prelude::*;

    const MS: i64 = 1_000_000;

    /// Launches of two kernels by turns: milliseconds of rest before each, of it, and its watts;
    /// the device at rest draws `idle`. Sensors are read 0.1 ms before and behind each launch, and a
    /// second before and behind all.
    fn run(launches: &[(i64, i64, f64)], idle: f64) -> (PhysicalDevice, Power) {
        let mut device = PhysicalDevice::named("gpu", "", Kind::Gpu);
        for name in ["a", "b"] {
            device.classes.push(Class { name: name.into(), kernel: true, repetition: false });
        }
        let (mut at, mut windows) = (1_000 * MS, Vec::new());
        let mut read = 0;
        for (i, (rest, length, watts)) in launches.iter().enumerate() {
            at += rest * MS;
            let (start, end) = (at, at + length * MS);
            windows.push((HostNs(read), HostNs(start - MS / 10), idle));
            let whole = (end - start + MS / 5) as f64;
            let mean = (watts * (end - start) as f64 + idle * (MS / 5) as f64) / whole;
            read = end + MS / 10;
            windows.push((HostNs(start - MS / 10), HostNs(read), mean));
            device.spans.push(Span {
                class: ClassId(i as u32 % 2),
                device: DeviceIndex(0),
                start: HostNs(start),
                end: HostNs(end),
                timing: Timing::Timed,
            });
            at = end;
        }
        windows.push((HostNs(read), HostNs(read + 1_000 * MS), idle));
        let response = ResponseModel::shifted_windows(1e-3);
        let mut power = Power::of_series(Series::WindowMean(windows), response, 1e-3, 0.0);
        power.around = Some(1e-3);
        (device, power)
    }

    proptest! {
        /// Every launch has its own joules, their sums are the rows', the device at rest draws what
        /// it draws, and all parts add up to what was measured.
        #[test]
        fn launches_add_up_to_rows_and_parts_to_what_was_measured(
            launches in prop::collection::vec((20i64..200, 20i64..200, 15.0f64..90.0), 3..40),
            idle in 5.0f64..15.0,
        ) {
            let (device, power) = run(&launches, idle);
            let mut out = DeviceEnergy::default();
            prop_assert!(fill(&mut out, &device, &power, None));
            prop_assert_eq!(out.launches.len(), launches.len());
            for (own, (_, length, watts)) in out.launches.iter().zip(&launches) {
                let right = watts * *length as f64 * 1e-3;
                prop_assert!((own.joules.value / right - 1.0).abs() < 1e-6, "{own:?} {right}");
                prop_assert!(own.joules.half() >= watts * 0.9e-3, "a step of the counter: {own:?}");
            }
            for (at, class) in out.classes.iter().enumerate() {
                let own = out.launches.iter().skip(at).step_by(2);
                let sum: f64 = own.map(|launch| launch.joules.value).sum();
                prop_assert!((class.joules.unwrap().value / sum - 1.0).abs() < 1e-6);
            }
            for floor in &out.floors {
                prop_assert!((floor.watts.unwrap().value / idle - 1.0).abs() < 1e-6, "{floor:?}");
                prop_assert!((floor.joules.unwrap() / floor.idle_seconds / idle - 1.0).abs() < 1e-6);
            }
            let gaps = out.gaps.as_ref().unwrap();
            prop_assert!((gaps.joules.unwrap() / gaps.seconds / idle - 1.0).abs() < 1e-6);
            let parts: f64 = out.parts().iter().map(|part| part.joules.value).sum();
            prop_assert!((parts / out.measured_joules.unwrap() - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn what_one_step_of_the_counter_hides_is_not_known() {
        let (device, power) = run(&[(100, 1, 50.0), (100, 1, 20.0)], 10.0);
        let mut out = DeviceEnergy::default();
        assert!(fill(&mut out, &device, &power, None));
        assert!(out.launches.is_empty(), "{:?}", out.launches);
        assert!(out.classes.iter().all(|class| class.joules.is_none()), "{:?}", out.classes);
        let parts: f64 = out.parts().iter().map(|part| part.joules.value).sum();
        assert!((parts / out.measured_joules.unwrap() - 1.0).abs() < 1e-9);
    }
}
