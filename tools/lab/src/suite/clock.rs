//! A clock that is read inside kernels (kernels/clock.cl): when each warp ran, beside the times
//! that the runtime and the host give for the same launch (Volkov 2016, section 5.6; Duarte 2018,
//! section 4.3). Owns the choice of the clock and its rate; refuses a device whose compiler has
//! none.

use super::{Case, Gave, Suite, Swept};
use crate::sweep::{Axis, Value};
use clscope_clock::monotonic_raw;
use clscope_microbench::bench::{Bench, CaseError, Settings};
use clscope_microbench::cl::{Buffer, DeviceFacts, DeviceKind};
use clscope_microbench::job::{Arg, Geometry, words};
use clscope_microbench::power::Window;
use clscope_microbench::results::{CaseResult, Figure, Finding, Point, Series, Timing};
use clscope_microbench::source::Source;
use clscope_microbench::stats::{self, Interval};
use clscope_microbench::suite::residency::{Level, fits};
use serde_json::json;
use std::rc::Rc;

/// The suite.
pub const SUITE: Suite = Suite {
    name: "clock",
    about: "a clock inside kernels: groups over time, three clocks of a launch, single accesses",
    wants_power: false,
    cases,
    conclude,
};

/// The clocks that a compiler may have, as the kernels are built for them.
const CLOCKS: [&[&str]; 3] =
    [&["-DCLOCK_PTX"], &["-DCLOCK_KHR", "-cl-std=CL3.0"], &["-DCLOCK_X86"]];

/// The first clock with which `run` can be built.
pub(super) fn with_clock<T>(
    bench: &mut Bench<'_>,
    mut run: impl FnMut(&mut Bench<'_>, Vec<String>) -> Result<T, CaseError>,
) -> Result<T, CaseError> {
    let fits = |clock: &&&[&str]| match (clock[0], bench.facts().nv_capability) {
        ("-DCLOCK_PTX", capability) => capability.is_some(),
        ("-DCLOCK_X86", _) => bench.facts().kind == DeviceKind::Cpu,
        // A compiler that does not know a function may take it for one that is linked later.
        (_, None) => {
            let mut all = bench.facts().extensions.split_whitespace();
            all.any(|e| e == "cl_khr_kernel_clock")
        }
        _ => false,
    };
    let clocks: Vec<&&[&str]> = CLOCKS.iter().filter(fits).collect();
    let mut log = None;
    for clock in clocks {
        match run(bench, clock.iter().map(|d| (*d).to_owned()).collect()) {
            Err(CaseError::NotAvailable { log: said, .. }) if said.is_some() => log = said,
            ended => return ended,
        }
    }
    let reason = if log.is_some() {
        "no clock that kernels can read here serves this case"
    } else {
        "kernels cannot read a clock: no NVIDIA register, no cl_khr_kernel_clock, no time-stamp counter of x86"
    };
    Err(CaseError::NotAvailable { reason: reason.to_owned(), log })
}

/// A moment on both clocks: ticks, and the host's nanoseconds before and behind them.
struct Moment {
    ticks: f64,
    host: (f64, f64),
}

/// Of a few looks the one with the host's two moments nearest to each other.
fn moment(bench: &mut Bench<'_>, defines: &[String]) -> Result<Moment, CaseError> {
    let buffers = bench.buffers(&[64])?;
    let one = Geometry { groups: 1, group: 1, trips: 1 };
    let mut best: Option<Moment> = None;
    for _ in 0..10 {
        let before = monotonic_raw().0 as f64;
        bench.probe(Source::Clock, "now", defines, &[Arg::Buffer(0)], &buffers, one)?;
        let host = (before, monotonic_raw().0 as f64);
        let mut word = [0; 8];
        bench.session.read(&buffers[0], 0, &mut word)?;
        let nearer = best.as_ref().is_none_or(|b| host.1 - host.0 < b.host.1 - b.host.0);
        if nearer {
            best = Some(Moment { ticks: u64::from_ne_bytes(word) as f64, host });
        }
    }
    best.ok_or(CaseError::Interrupted)
}

/// Ticks of the kernels' clock in a nanosecond, by the host's clock at both ends of a pause;
/// between the rates that the moments around the readings allow.
fn rate(bench: &mut Bench<'_>, defines: &[String]) -> Result<Interval, CaseError> {
    if let Some((_, rate)) = bench.clock_rate.as_ref().filter(|(of, _)| of == defines) {
        return Ok(*rate);
    }
    let first = moment(bench, defines)?;
    let pause = if bench.settings.tiny { 5 } else { 400 };
    std::thread::sleep(std::time::Duration::from_millis(pause));
    let last = moment(bench, defines)?;
    let ticks = last.ticks - first.ticks;
    let (short, long) = (last.host.0 - first.host.1, last.host.1 - first.host.0);
    let middle = f64::midpoint(short, long);
    let rate = Interval::estimated(ticks / middle, ticks / long, ticks / short);
    if rate.low.is_finite() && rate.low > 1e-6 && short > 0.0 {
        bench.clock_rate = Some((defines.to_vec(), rate));
        return Ok(rate);
    }
    Err(CaseError::lacks("the clock inside kernels did not advance"))
}

/// A launch of groups that say when they ran.
struct Ran {
    geometry: Geometry,
    warm_up: usize,
    /// Nanoseconds of each launch by its event.
    event: Vec<f64>,
    /// The same by the host, from before it was enqueued until it was waited for.
    host: Vec<f64>,
    /// The same by the kernels' clock, from the first warp's begin to the last one's end, ticks.
    kernel: Vec<f64>,
    /// Ticks of that clock in a nanosecond.
    rate: Interval,
    /// Of the last launch: begin and end of each warp, nanoseconds from the first begin.
    warps: Vec<(f64, f64)>,
    /// Work-items of a warp.
    lanes: usize,
    span: Window,
}

/// Memory holds the times of so many groups.
const MOST_GROUPS: usize = 1 << 20;

/// Work-items that write times of their own: a warp. A processor runs the items of a group one
/// after the other: there it is the group.
fn lanes(bench: &Bench<'_>, group: usize) -> (usize, &'static [&'static str]) {
    match bench.facts().kind {
        DeviceKind::Cpu => (group, &["-DWHOLE"]),
        _ => (super::lanes(bench.facts()).min(group), &[]),
    }
}

fn launch(
    bench: &mut Bench<'_>,
    defines: &[String],
    (groups, group): (usize, usize),
    pad: usize,
    turns: Option<u32>,
) -> Result<Ran, CaseError> {
    if groups > MOST_GROUPS {
        let reason = format!("{groups} groups: times of {MOST_GROUPS} are kept");
        return Err(CaseError::lacks(reason));
    }
    let rate = rate(bench, defines)?;
    let (lanes, whole) = lanes(bench, group);
    let defines: Vec<String> =
        defines.iter().cloned().chain(whole.iter().map(|d| (*d).to_owned())).collect();
    let items = groups.saturating_mul(group);
    let warps = groups.saturating_mul(group.div_ceil(lanes));
    let buffers = bench.buffers(&[16 * warps, 4 * items])?;
    let lane = Arg::uint(lanes as u32);
    let args = [Arg::Buffer(0), Arg::Buffer(1), Arg::Trips, lane, Arg::Local(pad)];
    let wanted = bench.settings.launch_ns() as f64;
    let turns = bench.settings.iterations.or(turns);
    let mut geometry = Geometry { groups, group, trips: turns.unwrap_or(64) };
    let once = |bench: &mut Bench<'_>, geometry| {
        bench.probe(Source::Clock, "groups", &defines, &args, &buffers, geometry)
    };
    once(bench, geometry)?;
    roots(bench, &buffers[1], items)?;
    if turns.is_none() {
        let ns = once(bench, geometry)?;
        geometry.trips = (64.0 * wanted / ns.max(1.0)).clamp(64.0, 1e6) as u32;
    }
    let warm_up = bench.settings.warm_up.unwrap_or(2);
    let mut ran = Ran {
        geometry,
        warm_up,
        event: Vec::new(),
        host: Vec::new(),
        kernel: Vec::new(),
        rate,
        warps: Vec::new(),
        lanes,
        span: Window::opens(),
    };
    for n in 0..bench.settings.repeat().saturating_add(warm_up) {
        bench.session.finish()?;
        let begun = monotonic_raw().0;
        let event = once(bench, geometry)?;
        let host = (monotonic_raw().0 - begun) as f64;
        if n < warm_up {
            continue;
        }
        let mut bytes = vec![0; 16 * warps];
        bench.session.read(&buffers[0], 0, &mut bytes)?;
        let words: Vec<u64> = bytes
            .chunks_exact(8)
            .filter_map(|c| Some(u64::from_ne_bytes(c.try_into().ok()?)))
            .collect();
        let times = words.chunks_exact(2);
        let first = times.clone().map(|t| t[0]).min().unwrap_or(0);
        if times.clone().any(|t| t[1] < t[0]) {
            return Err(CaseError::Wrong("a warp ended before it began".to_owned()));
        }
        let last = times.clone().map(|t| t[1]).max().unwrap_or(first);
        let at = |tick: u64| (tick - first) as f64 / rate.value;
        ran.warps = times.map(|t| (at(t[0]), at(t[1]))).collect();
        ran.event.push(event);
        ran.host.push(host);
        ran.kernel.push((last - first) as f64);
    }
    ran.span = ran.span.closes(ran.event.len());
    Ok(ran)
}

/// Whether the reciprocal square roots ended where they must: at 1.
fn roots(bench: &Bench<'_>, out: &Buffer, items: usize) -> Result<(), CaseError> {
    let mut bytes = vec![0; 4 * items.min(512)];
    bench.session.read(out, 0, &mut bytes)?;
    let is_wrong = |x: f32| x.is_nan() || (x - 1.0).abs() >= 1e-3;
    match words(&bytes).into_iter().position(|word| is_wrong(f32::from_bits(word))) {
        Some(i) => Err(CaseError::Wrong(format!("the roots of work-item {i} do not end at 1"))),
        None => Ok(()),
    }
}

/// Warps that run over a launch: in slots of equal length, the mean of each with the fewest and the
/// most at any moment in it.
fn running(warps: &[(f64, f64)], slots: usize) -> Vec<Interval> {
    let end = warps.iter().map(|w| w.1).fold(0.0, f64::max);
    if end <= 0.0 {
        return Vec::new();
    }
    let mut changes: Vec<(f64, f64)> =
        warps.iter().flat_map(|w| [(w.0, 1.0), (w.1, -1.0)]).collect();
    // At one moment ends come first: a warp that follows another is not beside it.
    changes.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let slot = end / slots as f64;
    let mut sums = vec![(0.0f64, f64::INFINITY, 0.0f64); slots];
    let (mut at, mut now) = (0.0, 0.0f64);
    let mut spend = |from: f64, to: f64, now: f64| {
        let (first, last) = ((from / slot) as usize, (to / slot).ceil() as usize);
        for (n, of) in sums.iter_mut().enumerate().take(last).skip(first) {
            let here = to.min((n + 1) as f64 * slot) - from.max(n as f64 * slot);
            if here > 0.0 {
                *of = (of.0 + now * here, of.1.min(now), of.2.max(now));
            }
        }
    };
    for (moment, step) in changes {
        spend(at, moment, now);
        (at, now) = (moment, now + step);
    }
    sums.iter().map(|s| Interval::estimated(s.0 / slot, s.1, s.2)).collect()
}

/// As many groups as fit at once, or several rounds of them.
#[derive(Clone, Copy)]
struct OverTime {
    level: Level,
    rounds: usize,
}

/// Slots of the series.
const SLOTS: usize = 100;

impl OverTime {
    fn of_launch(self, bench: &Bench<'_>, ran: &Ran) -> Result<Gave, CaseError> {
        let per_unit = ran.lanes as f64 / f64::from(bench.facts().compute_units.max(1));
        let slots = running(&ran.warps, SLOTS);
        let time = stats::summarise(&ran.event).ok_or(CaseError::Interrupted)?;
        let most = slots.iter().map(|s| s.high).fold(0.0, f64::max);
        let mean = slots.iter().map(|s| s.value).sum::<f64>() / slots.len().max(1) as f64;
        // The share of the time at the end in which fewer than so much of the most run.
        let tail = |share: f64| {
            let full = slots.iter().rposition(|s| s.value >= share * most).map_or(0, |n| n + 1);
            let share = (slots.len() - full) as f64 / slots.len().max(1) as f64;
            Interval::seen_once(100.0 * share)
        };
        let points = slots
            .iter()
            .enumerate()
            .map(|(n, s)| Point {
                x: (n as f64 + 0.5) * 100.0 / SLOTS as f64,
                y: s.times(per_unit),
            })
            .collect();
        let figures = vec![
            Figure::new("items_per_unit", "items", Interval::seen_once(most * per_unit)),
            Figure::new("mean_items_per_unit", "items", Interval::seen_once(mean * per_unit)),
            Figure::new("tail", "%", tail(0.9)),
            Figure::new("tail_45", "%", tail(0.45)),
        ];
        let series = vec![Series {
            name: "work-items on a unit".to_owned(),
            x: "% of the launch",
            y: "work-items on a compute unit",
            points,
        }];
        Ok(Gave {
            timing: Some(timing(ran, time)),
            figures,
            span: Some(ran.span),
            series,
            ..Gave::default()
        })
    }
}

fn timing(ran: &Ran, time_ns: stats::Summary) -> Timing {
    Timing {
        groups: ran.geometry.groups,
        group_size: ran.geometry.group,
        trips: ran.geometry.trips,
        time_ns,
        warm_up: ran.warm_up,
        private_bytes: None,
        verified: "a short launch",
    }
}

impl Swept for OverTime {
    fn axes(&self) -> &'static [Axis] {
        &[Axis::Tpb]
    }

    fn at(&self, axis: Axis, value: Value) -> Result<Rc<dyn Swept>, String> {
        let group = super::count(axis, value)?;
        Ok(Rc::new(OverTime { level: Level { group, ..self.level }, ..*self }))
    }

    fn run(&self, bench: &mut Bench<'_>) -> Result<Gave, CaseError> {
        let ran = with_clock(bench, |bench, defines| {
            self.level.first_that_fits(bench, 4, |bench, pad| {
                let groups = self.level.groups(bench, pad)?.saturating_mul(self.rounds);
                launch(bench, &defines, (groups, self.level.group), pad, None)
            })
        })?;
        self.of_launch(bench, &ran)
    }
}

/// Turns of launches that several clocks time: the same in every run, so that runs can be compared.
const TURNS: u32 = 500;

/// Three clocks of one launch.
#[derive(Clone, Copy)]
struct Timers {
    groups: usize,
    group: usize,
}

impl Swept for Timers {
    fn axes(&self) -> &'static [Axis] {
        &[Axis::Blocks, Axis::Tpb]
    }

    fn at(&self, axis: Axis, value: Value) -> Result<Rc<dyn Swept>, String> {
        let number = super::count(axis, value)?;
        Ok(Rc::new(match axis {
            Axis::Blocks => Timers { groups: number, ..*self },
            _ => Timers { group: number, ..*self },
        }))
    }

    fn run(&self, bench: &mut Bench<'_>) -> Result<Gave, CaseError> {
        fits(bench.facts(), self.group)?;
        let ran = with_clock(bench, |bench, defines| {
            launch(bench, &defines, (self.groups, self.group), 4, Some(TURNS))
        })?;
        let of = |samples: &[f64]| stats::summarise(samples).ok_or(CaseError::Interrupted);
        let (event, host) = (of(&ran.event)?, of(&ran.host)?);
        let kernel = of(&ran.kernel)?.mean.over(ran.rate);
        let figures = vec![
            Figure::new("event_time", "ns", event.mean),
            Figure::new("kernel_time", "ns", kernel),
            Figure::new("host_time", "ns", host.mean),
            Figure::new("kernel_over_event", "", kernel.over(event.mean)),
            Figure::new("host_over_event", "", host.mean.over(event.mean)),
        ];
        Ok(Gave {
            timing: Some(timing(&ran, event)),
            figures,
            span: Some(ran.span),
            ..Gave::default()
        })
    }
}

fn cases(device: &DeviceFacts, settings: &Settings) -> Vec<Case> {
    let lane = super::lanes(device);
    // As in the document: groups of which some have ended while others go on.
    let group = (lane * if settings.tiny { 1 } else { 17 }).min(device.max_group);
    let level = Level { group, fill_units: true, share: 1, exactly: false };
    let mut cases = Vec::new();
    for (rounds, name) in [(1, "once"), (8, "rounds")] {
        let parameters = [("rounds", json!(rounds)), ("group_size", json!(group))];
        let id = format!("{}/groups/{name}", SUITE.name);
        let variant = Rc::new(OverTime { level, rounds });
        cases.push(Case::with_axes(id, SUITE.name, variant).with(parameters));
    }
    let (groups, group) = super::geometry(device, settings);
    let parameters = [("groups", json!(groups)), ("group_size", json!(group))];
    let timers = Rc::new(Timers { groups, group });
    cases.push(
        Case::with_axes(format!("{}/timers", SUITE.name), SUITE.name, timers).with(parameters),
    );
    cases.extend(super::access::cases(device, settings));
    cases
}

/// How far the clocks of one launch are apart.
fn conclude(_: &DeviceFacts, results: &[CaseResult]) -> Vec<Finding> {
    let timers = results.iter().find(|r| r.id == "clock/timers");
    let of = |name| timers?.figure(name).cloned();
    let (Some(kernel), Some(host)) = (of("kernel_over_event"), of("host_over_event")) else {
        return Vec::new();
    };
    let shown = |f: &Figure| format!("{:.3} (+-{:.3})", f.estimate.value, f.estimate.half());
    let text = format!(
        "a launch by the clock inside its kernel is {} of its event's time; by the host's clock it is {}",
        shown(&kernel),
        shown(&host)
    );
    vec![Finding::new(
        format!("{}/apart", SUITE.name),
        text,
        vec![kernel, host],
        "quotient of means",
    )]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warps_that_run_are_counted_over_time() {
        // Two at once, then one behind both.
        let slots = running(&[(0.0, 40.0), (0.0, 60.0), (60.0, 100.0)], 10);
        let means: Vec<f64> = slots.iter().map(|s| s.value).collect();
        for (got, want) in means.iter().zip([2., 2., 2., 2., 1., 1., 1., 1., 1., 1.]) {
            assert!((got - want).abs() < 1e-9, "{means:?}");
        }
        let slots = running(&[(0.0, 40.0), (0.0, 60.0), (60.0, 100.0)], 1);
        assert!((slots[0].value - 1.4).abs() < 1e-9);
        assert_eq!((slots[0].low, slots[0].high), (1.0, 2.0));
        assert!(running(&[], 10).is_empty());
        assert!(running(&[(0.0, 0.0)], 10).is_empty());
    }
}
