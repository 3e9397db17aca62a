//! Owns energy where sensors were read around each command (`record --snapshot`): every window
//! between two readings holds one command, or none. What a window counted is its command's, less
//! the idle power of the time beside it; the rest is the device's at rest. Nothing is fitted. Where
//! a command fills a part of its window only, as where its kernel was compiled inside, nobody knows
//! what drew power beside it: its energy is bounded, and the rest of the window is unattributed.

use super::activity::PhysicalDevice;
use super::power::Power;
use super::result::{self, Absence, DeviceEnergy};
use super::rows::is_known;
use crate::interval::Interval;
use clscope_analysis::energy::{HostNs, Series};
use clscope_analysis::quantile::NORMAL_95;

/// A stretch of time between two readings, and its mean power.
type Window = (HostNs, HostNs, f64);

/// Energy of one command.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LaunchEnergy {
    /// When it began on the device.
    pub start: HostNs,
    /// Its energy, idle power included, with the error of the counter's steps at both ends.
    pub joules: Interval,
    /// Whether its window was mostly not its own: the interval is certain, and the value is the
    /// mean of its kernel's launches within it.
    pub is_bounded: bool,
}

/// A command fills its window from this share of it on. What is beside it then may hardly change
/// its energy.
const FILLED: f64 = 0.9;
/// Steps of the counter in a window whose mean power is taken for one that the device can draw.
const LONG: f64 = 10.0;

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
        NORMAL_95 * (self.steps / 6.0).sqrt()
    }

    fn watts(&self) -> Option<Interval> {
        let watts = |joules: f64| joules / self.seconds;
        (self.seconds > 0.0).then(|| Interval::around(watts(self.joules), watts(self.half())))
    }
}

/// Some commands of one class.
#[derive(Debug, Clone, Copy, Default)]
struct Commands {
    /// Of their windows, whole.
    windows: Sum,
    /// Their own time.
    busy: f64,
    /// Their own energy, ...
    joules: f64,
    /// ... and how far below and above it may lie, the counter's steps aside.
    open: (f64, f64),
}

impl Commands {
    fn add(&mut self, of: &Taken, joules: f64, step: f64) {
        self.windows.add(of.seconds, of.joules / of.seconds, step);
        self.busy += of.busy;
        self.joules += joules;
    }

    fn interval(&self) -> Interval {
        let half = self.windows.half();
        let low = (self.joules - self.open.0 - half).max(0.0);
        Interval::measured(self.joules, low, self.joules + self.open.1 + half)
    }
}

/// What is known of one class.
#[derive(Debug, Clone, Copy, Default)]
struct Found {
    /// Those that fill their windows.
    filled: Commands,
    /// These and the others.
    all: Commands,
}

impl Found {
    /// Mean power of the commands that fill their windows.
    fn watts(&self) -> Option<f64> {
        (self.filled.busy > 0.0).then(|| self.filled.joules / self.filled.busy)
    }

    /// Energy of the class, and the time that it is for: of all its commands, unless only those
    /// that fill their windows are known.
    fn counted(&self) -> (Interval, f64) {
        let (filled, all) = (self.filled.interval(), self.all.interval());
        if !is_known(&all) && is_known(&filled) {
            return (filled, self.filled.busy);
        }
        (Interval { estimated: self.filled.busy < self.all.busy, ..all }, self.all.busy)
    }
}

/// A window with commands of one class.
#[derive(Debug, Clone, Copy)]
struct Taken {
    class: usize,
    /// The commands' own time.
    busy: f64,
    seconds: f64,
    joules: f64,
    /// Energy of one step of the counter: at most that is missing at one end, or too much at the
    /// other.
    step: f64,
}

impl Taken {
    fn beside(&self) -> f64 {
        self.seconds - self.busy
    }

    fn is_filled(&self) -> bool {
        self.busy >= FILLED * self.seconds
    }
}

/// What the device draws at least and at most, in watts, as far as the run shows.
#[derive(Debug, Clone, Copy)]
struct Limits {
    least: f64,
    most: f64,
}

impl Limits {
    /// Of windows that are long for the counter, and of classes that fill theirs.
    fn of(windows: &[Assigned], floor: Option<Interval>, found: &[Found], step: f64) -> Self {
        let long = || windows.iter().map(|w| &w.window).filter(|w| seconds(w) >= LONG * step);
        let least = long().map(|w| w.2 * (1.0 - step / seconds(w)));
        let least = least.chain(floor.map(|f| f.low)).min_by(f64::total_cmp).unwrap_or(0.0);
        let least = least.max(0.0);
        let of_class = |f: &Found| {
            let windows = &f.filled.windows;
            let joules =
                windows.joules + windows.half() - least * (windows.seconds - f.filled.busy);
            (f.filled.busy > 0.0).then(|| joules / f.filled.busy)
        };
        let most = long().map(|w| w.2 * (1.0 + step / seconds(w)));
        let most = most.chain(found.iter().filter_map(of_class)).max_by(f64::total_cmp);
        Self { least, most: most.unwrap_or(0.0) }
    }

    /// Least and most energy of the commands of a window, whose reading may be wrong by `half`.
    /// Where they fill it, what is beside them draws no more than all that was seen; else it may
    /// draw whatever a device draws. `is_seen`: whether commands of the class filled other windows,
    /// so that their power is among what was seen.
    fn bounds(self, of: &Taken, half: f64, is_seen: bool) -> (f64, f64) {
        let most = of.joules + half - self.least * of.beside();
        if of.is_filled() {
            return ((of.joules - half - self.most * of.beside()).max(0.0), most.max(0.0));
        }
        let most = if is_seen { most.min(self.most * of.busy) } else { most };
        let most = most.max(0.0);
        ((self.least * of.busy).min(most), most)
    }
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
    let mut taken: Vec<(Taken, &[usize])> = Vec::new();
    let mut mixed = 0.0;
    for Assigned { window, spans, is_between } in &windows {
        measured.add(seconds(window), window.2, step);
        match &spans[..] {
            [] if *is_between => between.add(seconds(window), window.2, step),
            [] => beside.add(seconds(window), window.2, step),
            [first, rest @ ..] => {
                let class = class_of(first).filter(|class| *class < found.len());
                let is_one = rest.iter().all(|at| class_of(at) == class);
                let (Some(class), true) = (class, is_one) else {
                    mixed += window.2 * seconds(window);
                    continue;
                };
                let seconds = seconds(window);
                let busy = spans.iter().map(length).sum::<f64>().min(seconds);
                let of = Taken {
                    class,
                    busy,
                    seconds,
                    joules: window.2 * seconds,
                    step: window.2 * step,
                };
                taken.push((of, spans));
            }
        }
    }
    let floor = between.watts().filter(is_known);
    let share = |of: &Taken| of.joules * of.busy / of.seconds;
    // What commands took of windows that they fill: the rest of the time the device was at rest.
    let own = |of: &Taken| floor.map_or(share(of), |f| of.joules - f.value * of.beside());
    for (of, _) in taken.iter().filter(|(of, _)| of.is_filled()) {
        found[of.class].filled.add(of, own(of), step);
    }
    let limits = Limits::of(&windows, floor, &found, step);
    let mut beside_commands = 0.0;
    let (mut unfilled, mut host_seconds, mut host_joules) = (0_usize, 0.0, 0.0);
    for (of, spans) in &taken {
        let watts = found[of.class].watts();
        let (low, high) = limits.bounds(of, 0.0, watts.is_some());
        let joules = match of.is_filled() {
            true => own(of),
            false => watts.map_or(share(of), |watts| watts * of.busy).max(low).min(high),
        };
        if of.is_filled() {
            beside_commands += of.beside();
        } else {
            unfilled += spans.len();
            host_seconds += of.beside();
            host_joules += of.joules - joules;
        }
        let class = &mut found[of.class];
        class.all.add(of, joules, step);
        let (below, above) = ((joules - low).max(0.0), (high - joules).max(0.0));
        for open in [of.is_filled().then_some(&mut class.filled.open), Some(&mut class.all.open)] {
            open.into_iter().for_each(|open| *open = (open.0 + below, open.1 + above));
        }
        let [span] = spans else { continue };
        let Some(span) = device.spans.get(*span) else { continue };
        let (low, high) = limits.bounds(of, of.step, watts.is_some());
        let joules = Interval::measured(joules, low.min(joules), high.max(joules));
        let launch = |joules, is_bounded| LaunchEnergy { start: span.start, joules, is_bounded };
        if !of.is_filled() {
            // Without others of its kernel it has no value: the kernel's row says what it is.
            out.launches
                .extend(watts.map(|_| launch(Interval { estimated: true, ..joules }, true)));
        } else if is_known(&joules) {
            out.launches.push(launch(joules, false));
        }
    }
    out.launches.sort_by_key(|launch| launch.start);
    let mut totals = vec![(0.0, 0.0); device.classes.len()];
    for span in &device.spans {
        if let Some(total) = totals.get_mut(span.class.0 as usize) {
            *total = (total.0 + 1.0, total.1 + span.end.seconds_since(span.start));
        }
    }
    let per_span = device.launches_per_span();
    for (at, (class, found)) in device.classes.iter().zip(&found).enumerate() {
        let (spans, busy) = totals.get(at).copied().unwrap_or_default();
        let launches = spans * per_span.get(at).copied().unwrap_or(1.0);
        let mut row = result::Class {
            name: class.name.clone(),
            kind: if class.kernel { "kernel" } else { "transfer" },
            launches,
            busy_seconds: busy,
            absence: Some(Absence::NotRead),
            ..result::Class::default()
        };
        if found.all.busy > 0.0 {
            let (joules, covered) = found.counted();
            row.covered_seconds = covered;
            let watts = joules.times(1.0 / covered);
            row.absence = (!is_known(&joules)).then_some(Absence::Wide);
            row.group = Some(out.groups.len());
            out.groups.push(result::Group {
                names: vec![class.name.clone()],
                busy_seconds: covered,
                busy_open: 0.0,
                joules,
                watts,
                idle: floor.map_or(Interval::exact(0.0), |floor| floor.times(covered)),
            });
            if is_known(&joules) {
                let duration = busy / launches;
                row.joules = Some(joules);
                row.watts = Some(watts);
                row.joules_per_launch = Some(watts.times(duration));
                row.energy_delay = Some(watts.value * duration * duration);
                if let Some(floor) = floor {
                    let idle = floor.times(covered);
                    let dynamic = joules.open_by(idle.half()).map(|joules| joules - idle.value);
                    row.dynamic_joules = Some(dynamic);
                    row.idle_joules = Some(idle);
                }
            }
        }
        out.classes.push(row);
    }
    let at_rest = |state, name, sum: &Sum, watts: Option<Interval>, more: f64| {
        let seconds = sum.seconds + more;
        let joules = watts.map(|watts| watts.times(seconds));
        result::Floor { state, name, watts, idle_seconds: seconds, joules }
    };
    out.floors = vec![at_rest(0, "between launches", &between, floor, beside_commands)];
    if beside.seconds > 0.0 {
        let watts = beside.watts().filter(is_known);
        out.floors.push(at_rest(1, "before and behind all launches", &beside, watts, 0.0));
    }
    let floor = &out.floors[0];
    out.gaps = Some(result::Gaps { seconds: floor.idle_seconds, joules: floor.joules });
    out.seconds = measured.seconds;
    out.measured_joules = Some(measured.joules);
    out.mean_watts = Some(measured.joules / measured.seconds);
    let parts = out.groups.iter().map(|g| g.joules.value).sum::<f64>()
        + out.floors.iter().filter_map(|f| Some(f.joules?.value)).sum::<f64>();
    // What bounds a part bounds the rest from the other side.
    let rest = measured.joules - parts;
    let sum = |of: fn(Interval) -> f64| out.groups.iter().map(|g| of(g.joules)).sum::<f64>();
    let (below, above) = (sum(|j| j.high - j.value), sum(|j| j.value - j.low));
    out.leave(Some(Interval::estimated(rest, rest - below, rest + above)));
    out.readings = windows.len();
    if unfilled > 0 {
        out.notes.push(format!(
            "the host worked for {host_seconds:.3} s inside {unfilled} launches, for example to compile: {host_joules:.2} J of that time are not assigned, and these launches have wide intervals"
        ));
    }
    if mixed > 0.0 {
        out.notes.push(format!(
            "commands ran at the same time between two readings: {mixed:.2} J of them are not assigned"
        ));
    }
    out.notes.extend(device.told_unplaced());
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
        let launches: Vec<_> = launches.iter().map(|of| (*of, (0, 0.0))).collect();
        compiling(&launches, idle)
    }

    /// Milliseconds of rest and of a launch, and its watts; milliseconds and watts of compiling.
    type Compiled = ((i64, i64, f64), (i64, f64));

    /// The same, where the host compiles before a launch begins, between its readings: milliseconds
    /// and watts of that.
    fn compiling(launches: &[Compiled], idle: f64) -> (PhysicalDevice, Power) {
        let mut device = PhysicalDevice::named("gpu", "", Kind::Gpu);
        for name in ["a", "b"] {
            device.classes.push(Class { name: name.into(), kernel: true, repetition: false });
        }
        let (mut at, mut windows) = (1_000 * MS, Vec::new());
        let mut read = 0;
        for (i, ((rest, length, watts), (before, compiler))) in launches.iter().enumerate() {
            at += rest * MS;
            let begun = at - MS / 10;
            let start = at + before * MS;
            let end = start + length * MS;
            windows.push((HostNs(read), HostNs(begun), idle));
            let drawn = watts * (end - start) as f64
                + compiler * (start - at) as f64
                + idle * (MS / 5) as f64;
            read = end + MS / 10;
            windows.push((HostNs(begun), HostNs(read), drawn / (read - begun) as f64));
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
                prop_assert!((floor.joules.unwrap().value / floor.idle_seconds / idle - 1.0).abs() < 1e-6);
            }
            let gaps = out.gaps.as_ref().unwrap();
            prop_assert!((gaps.joules.unwrap().value / gaps.seconds / idle - 1.0).abs() < 1e-6);
            let parts: f64 = out.parts().iter().map(|part| part.joules.value).sum();
            prop_assert!((parts / out.measured_joules.unwrap() - 1.0).abs() < 1e-9);
        }
    }

    proptest! {
        /// Whatever the host does between the readings around a launch, the launch's joules and its
        /// kernel's hold the truth, no launch has more than the device was seen to draw, and all
        /// parts add up.
        #[test]
        fn what_the_host_draws_beside_a_launch_is_not_the_launches(
            launches in prop::collection::vec(
                (20i64..200, 20i64..200, prop::option::of((0i64..400, 0.0f64..1.0))), 2..40,
            ),
            kernels in (15.0f64..90.0, 15.0f64..90.0),
            idle in 5.0f64..15.0,
            once in any::<bool>(),
        ) {
            let watts = [kernels.0, kernels.1];
            let most = kernels.0.max(kernels.1);
            let mut launches: Vec<_> = launches
                .iter()
                .enumerate()
                .map(|(i, (rest, length, host))| {
                    // The host draws what the device may be seen to draw.
                    let host = host.map_or((0, 0.0), |(ms, of)| (ms, idle + of * (most - idle)));
                    ((*rest, *length, watts[i % 2]), host)
                })
                .collect();
            // Both kernels are seen by themselves, unless one is launched once, and compiled then.
            if once {
                launches.truncate(3);
                launches[1].1 = (300, most);
                launches[0].1 = (0, 0.0);
            } else {
                launches[0].1 = (0, 0.0);
                launches[1].1 = (0, 0.0);
            }
            let (device, power) = compiling(&launches, idle);
            let mut out = DeviceEnergy::default();
            prop_assert!(fill(&mut out, &device, &power, None));
            let mut truth = [0.0; 2];
            let mut sum = [0.0; 2];
            for (i, ((_, length, watts), (before, _))) in launches.iter().enumerate() {
                let (right, seconds) = (watts * *length as f64 * 1e-3, *length as f64 * 1e-3);
                truth[i % 2] += right;
                let own = out.launches.iter().find(|l| l.start == device.spans[i].start);
                let Some(own) = own else {
                    prop_assert!(once && i == 1, "{i}: {:?}", out.launches);
                    continue;
                };
                sum[i % 2] += own.joules.value;
                prop_assert!(own.joules.low <= right && right <= own.joules.high, "{own:?} {right}");
                prop_assert_eq!(own.is_bounded, *before as f64 > 0.1 * (*before + *length) as f64 - 0.2);
                if own.is_bounded {
                    prop_assert!(own.joules.high <= most * seconds * 1.2, "{own:?} {right}");
                }
            }
            for (at, class) in out.classes.iter().enumerate() {
                let group = out.groups.iter().find(|g| g.names[0] == class.name).unwrap();
                let part = class.covered_seconds / class.busy_seconds;
                let (truth, sum) = (part * truth[at], part * sum[at]);
                prop_assert!(group.joules.low <= truth && truth <= group.joules.high, "{group:?}");
                prop_assert!(class.joules.is_some() || once && at == 1, "{class:?}");
                if let Some(joules) = class.joules.filter(|_| !(once && at == 1)) {
                    // Beside launches that fill nine tenths of their windows the host may draw more.
                    let holds = joules.low <= truth && truth <= joules.high;
                    prop_assert!(holds, "{class:?} {truth}");
                    prop_assert!(part < 1.0 || (joules.value / sum - 1.0).abs() < 1e-6, "{class:?}");
                }
            }
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
