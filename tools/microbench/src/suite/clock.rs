//! A clock that is read inside kernels (kernels/clock.cl): when each group ran, beside the times that
//! the runtime and the host give for the same launch (Volkov 2016, section 5.6; Duarte 2018, section
//! 4.3). Owns the choice of the clock and its rate; refuses a device whose compiler has none.
#![forbid(unsafe_code)]

use super::residency::Level;
use super::{Case, Gave, Suite, Swept};
use crate::bench::{Bench, CaseError, Settings};
use crate::cl::{DeviceFacts, DeviceKind};
use crate::job::{Arg, Geometry};
use crate::power::Window;
use crate::results::{CaseResult, Figure, Finding, Point, Series, Timing};
use crate::source::Source;
use crate::stats::{self, Estimate};
use crate::sweep::{Axis, Value};
use clscope_clock::monotonic_raw;
use serde_json::json;
use std::collections::BTreeMap;
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
    let reason = "kernels cannot read a clock: no NVIDIA register, no cl_khr_kernel_clock, no time-stamp counter of x86";
    Err(CaseError::NotAvailable { reason: reason.to_owned(), log })
}

/// Ticks of the kernels' clock in a nanosecond, by the host's clock at both ends of a pause.
fn rate(bench: &mut Bench<'_>, defines: &[String]) -> Result<f64, CaseError> {
    let pause = if bench.settings.tiny { 5 } else { 50 };
    let look = |bench: &mut Bench<'_>| -> Result<(f64, f64), CaseError> {
        let buffers = bench.buffers(&[64])?;
        let one = Geometry { groups: 1, group: 1, trips: 1 };
        // The first launch pays for what is loaded late.
        bench.probe(Source::Clock, "now", defines, &[Arg::Buffer(0)], &buffers, one)?;
        let before = monotonic_raw().0;
        bench.probe(Source::Clock, "now", defines, &[Arg::Buffer(0)], &buffers, one)?;
        let behind = monotonic_raw().0;
        let mut word = [0; 8];
        bench.session.read(&buffers[0], 0, &mut word)?;
        Ok((before as f64 / 2.0 + behind as f64 / 2.0, u64::from_ne_bytes(word) as f64))
    };
    let first = look(bench)?;
    std::thread::sleep(std::time::Duration::from_millis(pause));
    let last = look(bench)?;
    let rate = (last.1 - first.1) / (last.0 - first.0);
    if rate.is_finite() && rate > 1e-6 {
        return Ok(rate);
    }
    let reason = "the clock inside kernels did not advance".to_owned();
    Err(CaseError::NotAvailable { reason, log: None })
}

/// A launch of groups that say when they ran.
struct Ran {
    geometry: Geometry,
    /// Nanoseconds of each launch by its event.
    event: Vec<f64>,
    /// The same by the host, from before it was enqueued until it was waited for.
    host: Vec<f64>,
    /// The same by the kernels' clock, from the first group's begin to the last one's end.
    kernel: Vec<f64>,
    /// Of the last launch: begin and end of each group, nanoseconds from the first begin.
    groups: Vec<(f64, f64)>,
    span: Window,
}

/// A long launch overruns no clock, and memory holds the times of so many groups.
const MOST_GROUPS: usize = 1 << 20;

fn launch(
    bench: &mut Bench<'_>,
    defines: &[String],
    (groups, group): (usize, usize),
    pad: usize,
) -> Result<Ran, CaseError> {
    if groups > MOST_GROUPS {
        let reason = format!("{groups} groups: times of {MOST_GROUPS} are kept");
        return Err(CaseError::NotAvailable { reason, log: None });
    }
    let rate = rate(bench, defines)?;
    let items = groups.saturating_mul(group);
    let buffers = bench.buffers(&[16 * groups, 4 * items])?;
    let args = [Arg::Buffer(0), Arg::Buffer(1), Arg::Trips, Arg::Local(pad)];
    let wanted = bench.settings.launch_ns() as f64;
    let mut geometry = Geometry { groups, group, trips: bench.settings.iterations.unwrap_or(64) };
    let once = |bench: &mut Bench<'_>, geometry| {
        bench.probe(Source::Clock, "groups", defines, &args, &buffers, geometry)
    };
    once(bench, geometry)?;
    if bench.settings.iterations.is_none() {
        let ns = once(bench, geometry)?;
        geometry.trips = (64.0 * wanted / ns.max(1.0)).clamp(64.0, 1e6) as u32;
    }
    let mut ran = Ran {
        geometry,
        event: Vec::new(),
        host: Vec::new(),
        kernel: Vec::new(),
        groups: Vec::new(),
        span: Window::opens(),
    };
    let warm_up = bench.settings.warm_up.unwrap_or(2);
    for n in 0..bench.settings.repeat.max(1).saturating_add(warm_up) {
        bench.session.finish()?;
        let begun = monotonic_raw().0;
        let event = once(bench, geometry)?;
        let host = (monotonic_raw().0 - begun) as f64;
        let mut bytes = vec![0; 16 * groups];
        bench.session.read(&buffers[0], 0, &mut bytes)?;
        let words: Vec<u64> = bytes
            .chunks_exact(8)
            .filter_map(|c| Some(u64::from_ne_bytes(c.try_into().ok()?)))
            .collect();
        let times = words.chunks_exact(2);
        if n < warm_up {
            continue;
        }
        let first = times.clone().map(|t| t[0]).min().unwrap_or(0);
        let at = |tick: u64| tick.saturating_sub(first) as f64 / rate;
        ran.groups = times.map(|t| (at(t[0]), at(t[1]))).collect();
        if let Some((begin, end)) = ran.groups.iter().find(|(begin, end)| end < begin) {
            return Err(CaseError::Wrong(format!(
                "a group ended at {end:.0} ns and began at {begin:.0} ns"
            )));
        }
        ran.event.push(event);
        ran.host.push(host);
        ran.kernel.push(ran.groups.iter().map(|g| g.1).fold(0.0, f64::max));
    }
    ran.span = ran.span.closes(ran.event.len());
    Ok(ran)
}

/// Groups that run over a launch: in slots of equal length, the mean of each with the fewest and the
/// most at any moment in it.
fn running(groups: &[(f64, f64)], slots: usize) -> Vec<Estimate> {
    let end = groups.iter().map(|g| g.1).fold(0.0, f64::max);
    if end <= 0.0 {
        return Vec::new();
    }
    let mut changes: Vec<(f64, f64)> =
        groups.iter().flat_map(|g| [(g.0, 1.0), (g.1, -1.0)]).collect();
    // At one moment ends come first: a group that follows another is not beside it.
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
    sums.iter().map(|s| Estimate { value: s.0 / slot, low: s.1, high: s.2 }).collect()
}

fn exact(value: f64) -> Estimate {
    Estimate::symmetric(value, 0.0)
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
        let per_unit = self.level.group as f64 / f64::from(bench.facts().compute_units.max(1));
        let slots = running(&ran.groups, SLOTS);
        let time = stats::summarise(&ran.event).ok_or(CaseError::Interrupted)?;
        let most = slots.iter().map(|s| s.high).fold(0.0, f64::max);
        let mean = slots.iter().map(|s| s.value).sum::<f64>() / slots.len().max(1) as f64;
        // The last moments, in which fewer than nine tenths of the most run.
        let full = slots.iter().rposition(|s| s.value >= 0.9 * most).map_or(0, |n| n + 1);
        let tail = (slots.len() - full) as f64 / slots.len().max(1) as f64;
        let points = slots
            .iter()
            .enumerate()
            .map(|(n, s)| Point {
                x: (n as f64 + 0.5) * 100.0 / SLOTS as f64,
                y: s.times(per_unit),
            })
            .collect();
        let figures = vec![
            Figure::new("items_per_unit", "items", exact(most * per_unit)),
            Figure::new("mean_items_per_unit", "items", exact(mean * per_unit)),
            Figure::new("tail", "%", exact(100.0 * tail)),
            Figure::new("resident_groups", "groups", exact(most)),
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
        warm_up: 0,
        private_bytes: None,
        verified: "begin and end of every group",
    }
}

impl Swept for OverTime {
    fn axes(&self) -> &'static [Axis] {
        &[Axis::Tpb]
    }

    fn at(&self, axis: Axis, value: Value) -> Result<Rc<dyn Swept>, String> {
        let group = super::number(axis, value, super::MOST_ITEMS)?;
        if group == 0 {
            return Err(super::no_value(axis, "1 or more"));
        }
        Ok(Rc::new(OverTime { level: Level { group, ..self.level }, ..*self }))
    }

    fn run(&self, bench: &mut Bench<'_>) -> Result<Gave, CaseError> {
        let ran = with_clock(bench, |bench, defines| {
            self.level.first_that_fits(bench, 4, |bench, pad| {
                let groups = self.level.groups(bench, pad)?.saturating_mul(self.rounds);
                launch(bench, &defines, (groups, self.level.group), pad)
            })
        })?;
        self.of_launch(bench, &ran)
    }
}

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
        let number = super::number(axis, value, super::MOST_ITEMS)?;
        if number == 0 {
            return Err(super::no_value(axis, "1 or more"));
        }
        Ok(Rc::new(match axis {
            Axis::Blocks => Timers { groups: number, ..*self },
            _ => Timers { group: number, ..*self },
        }))
    }

    fn run(&self, bench: &mut Bench<'_>) -> Result<Gave, CaseError> {
        if self.group > bench.facts().max_group {
            let reason = format!(
                "groups of {} are needed, the device takes {}",
                self.group,
                bench.facts().max_group
            );
            return Err(CaseError::NotAvailable { reason, log: None });
        }
        let ran = with_clock(bench, |bench, defines| {
            launch(bench, &defines, (self.groups, self.group), 4)
        })?;
        let of = |samples: &[f64]| stats::summarise(samples).ok_or(CaseError::Interrupted);
        let (event, host, kernel) = (of(&ran.event)?, of(&ran.host)?, of(&ran.kernel)?);
        let figures = vec![
            Figure::new("event_time", "ns", event.mean),
            Figure::new("kernel_time", "ns", kernel.mean),
            Figure::new("host_time", "ns", host.mean),
            Figure::new("kernel_over_event", "", kernel.mean.over(event.mean)),
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
        let parameters = BTreeMap::from([("rounds", json!(rounds)), ("group_size", json!(group))]);
        let id = format!("{}/groups/{name}", SUITE.name);
        let variant = Rc::new(OverTime { level, rounds });
        cases.push(Case::of(id, SUITE.name, variant).with(parameters));
    }
    let (groups, group) = super::geometry(device, settings);
    let parameters = BTreeMap::from([("groups", json!(groups)), ("group_size", json!(group))]);
    let timers = Rc::new(Timers { groups, group });
    cases.push(Case::of(format!("{}/timers", SUITE.name), SUITE.name, timers).with(parameters));
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
    let text = format!(
        "of a launch's time by its event, its groups ran in {:.3}, and the host waited {:.3}",
        kernel.estimate.value, host.estimate.value
    );
    vec![Finding {
        name: format!("{}/timers", SUITE.name),
        text,
        figures: vec![kernel, host],
        confidence: None,
        method: "quotient of means",
    }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_that_run_are_counted_over_time() {
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
