//! Owns the fit of sources whose windows hold many kernels, NVIDIA's GPM first of all: from
//! windows to means per kernel, with all that has to be said of them. Refuses to fit by itself: the
//! analysis does.

use super::result::{Class, Column, Source, Together, Value};
use crate::energy::activity::{self, PhysicalDevice, repeated_class};
use crate::energy::power::own;
use crate::energy::readings::{Readings, Sensor};
use crate::interval::Interval;
use clscope_analysis::Trace;
use clscope_analysis::counters::{self, Attributed, Counter, Delay, Idle, OneByOne};
use clscope_analysis::energy::{Activity, ClassId, HostNs};
use clscope_trace::sensors::{CounterSource, Quantity};
use std::collections::BTreeMap;

/// NVIDIA's driver takes a snapshot every 100 ms and hands it out up to 106 ms later (H200): the
/// data say when it was taken.
const DELAY: Delay = Delay::Between { least: 0.0, most: 0.12, typical: 0.016, timer: Some(0.1) };

/// One counter with its windows.
pub struct Input {
    /// Its name.
    pub name: String,
    /// Unit of its means.
    pub unit: String,
    /// Beginning, end, mean.
    pub windows: Vec<(HostNs, HostNs, f64)>,
    /// What it reads at rest.
    pub idle: Idle,
}

impl Input {
    fn read(sensor: &Sensor) -> Self {
        let mut windows = Vec::with_capacity(sensor.windows.len());
        let mut before: Option<HostNs> = None;
        for window in &sensor.windows {
            // A window begins where the one before it ended, if that is the same moment to some
            // microseconds.
            let begin = before
                .replace(window.end)
                .filter(|b| b.0.abs_diff(window.begin.0) < 10_000)
                .unwrap_or(window.begin);
            windows.push((begin, window.end, window.mean));
        }
        Self {
            name: sensor.series.name.rsplit('/').next().unwrap_or_default().to_owned(),
            unit: sensor.series.quantity.unit().to_owned(),
            windows,
            idle: if sensor.series.quantity == Quantity::Percent {
                Idle::Zero
            } else {
                Idle::Fitted
            },
        }
    }
}

/// All sources of means that belong to a device.
pub fn means_of(
    trace: &Trace<'_>,
    device: &PhysicalDevice,
    devices: &[PhysicalDevice],
    readings: &Readings,
) -> Vec<Source> {
    let alone =
        devices.iter().filter(|d| d.host == device.host && d.kind == device.kind).count() == 1;
    let mut sources: BTreeMap<&str, (Vec<Input>, String)> = BTreeMap::new();
    for sensor in readings.sensors.iter().filter(|s| s.host == device.host && !s.windows.is_empty())
    {
        if let Some(matched) = own(device, sensor, alone) {
            sources
                .entry(&sensor.series.source)
                .or_insert_with(|| (Vec::new(), matched))
                .0
                .push(Input::read(sensor));
        }
    }
    let one = |(name, (inputs, matched)): (&str, (Vec<Input>, String))| {
        let mut out = Source::new(trace, device, name, matched);
        regress(
            &mut out,
            device,
            &Activity::new(&device.spans, device.classes.len()),
            &inputs,
            DELAY,
        );
        out
    };
    sources.into_iter().map(one).collect()
}

/// The metric set of a source with where its definition comes from; none where the source has no
/// sets.
pub fn set(about: &CounterSource) -> Option<String> {
    match (about.set.as_str(), about.origin.as_str()) {
        ("", _) => None,
        (set, "") => Some(set.to_owned()),
        (set, origin) => Some(format!("{set} ({origin})")),
    }
}

impl Source {
    /// Of a device, with nothing in it yet.
    pub fn new(trace: &Trace<'_>, device: &PhysicalDevice, name: &str, matched: String) -> Self {
        let mut notes = vec!["these counters are the whole device's: what other programs ran on it at the same time is in them".to_owned()];
        if device.unplaced > 0 {
            notes.push(format!(
                "{} commands ran at unknown times: what they did is in the figures of others",
                device.unplaced
            ));
        }
        Self {
            device: device.label.clone(),
            host: trace.timeline.hosts.get(device.host).map(|h| h.name.clone()).unwrap_or_default(),
            pci: device.pci.clone(),
            members: device.members.clone(),
            source: name.to_owned(),
            matched,
            notes,
            ..Self::default()
        }
    }
}

/// Fills in columns and classes by the fit.
pub fn regress(
    out: &mut Source,
    device: &PhysicalDevice,
    activity: &Activity,
    inputs: &[Input],
    delay: Delay,
) {
    let full = |i: &Input| if i.unit == "%" { 100.0 } else { 0.0 };
    let all: Vec<Counter<'_>> = inputs
        .iter()
        .map(|i| Counter { windows: &i.windows, idle: i.idle, full: full(i) })
        .collect();
    let results = counters::attribute_all(activity, &all, delay);
    let found = |f: fn(&Attributed) -> f64| {
        results.iter().filter_map(|r| r.as_ref().ok()).map(f).reduce(f64::max)
    };
    let most = inputs.iter().map(|i| i.windows.len()).max().unwrap_or(0);
    out.windows = found(|r| r.windows as f64).unwrap_or(0.0) as usize;
    out.left_out = most.saturating_sub(out.windows);
    let mut lengths: Vec<i64> = inputs
        .first()
        .map_or_else(Vec::new, |i| i.windows.iter().map(|w| w.1.0.saturating_sub(w.0.0)).collect());
    let middle = lengths.len() / 2;
    out.window_seconds =
        if lengths.is_empty() { 0.0 } else { *lengths.select_nth_unstable(middle).1 as f64 * 1e-9 };
    // Windows whose place is known lie on no timer of a driver.
    let is_searched = matches!(delay, Delay::Between { .. });
    if is_searched {
        out.delay_seconds = found(|r| r.delay);
    }
    if results.iter().all(Result::is_err) {
        out.failed = results.iter().find_map(|r| r.as_ref().err()).map(ToString::to_string);
    }
    if is_searched && results.iter().flatten().any(|r| r.on_timer) {
        out.notes.push("windows lie where the driver's timer took its snapshots, found from the counters themselves".to_owned());
    }
    if is_searched && out.left_out > 0 {
        out.notes
            .push(format!("{} windows were left out: no place on the driver's timer fits them, or nothing ran near them", out.left_out));
    }
    for (input, result) in inputs.iter().zip(&results) {
        out.columns.push(Column {
            name: input.name.clone(),
            unit: input.unit.clone(),
            idle: result.as_ref().ok().and_then(|r| r.idle),
            residual: result.as_ref().ok().map(|r| r.residual),
            absent: result.as_ref().err().map(ToString::to_string),
        });
    }
    let input_of = |name: &str| inputs.iter().find(|i| i.name == name);
    let totals = activity.totals();
    let per_span = device.launches_per_span();
    for (index, class) in device.classes.iter().enumerate() {
        let mut values = BTreeMap::new();
        let mut covered: f64 = 0.0;
        for (column, result) in out.columns.iter().zip(&results) {
            let Some((result, row)) =
                result.as_ref().ok().and_then(|r| Some((r, r.classes.get(index)?)))
            else {
                continue;
            };
            covered = covered.max(row.covered.0);
            let mut found = value(device, result, row, &column.unit);
            // What ran in few windows is in none of the fit's figures, and alone in some of them.
            if class.repetition
                && found.mean.is_none()
                && let Some(mean) =
                    input_of(&column.name).and_then(|i| in_batches(device, class, i, delay))
            {
                found = Value { mean: Some(mean), only_with: None, why: None };
            }
            values.insert(column.name.clone(), found);
        }
        let launches = totals.get(index).map_or(0.0, |t| t.launches)
            * per_span.get(index).copied().unwrap_or(1.0);
        out.classes.push(Class {
            name: class.name.clone(),
            kind: if class.kernel { "kernel" } else { "transfer" },
            launches,
            busy_seconds: totals.get(index).map_or(0.0, |t| t.busy_s),
            covered_seconds: covered,
            values,
            clocks: None,
        });
    }
}

/// Beyond what is known of when windows were, they must lie so much inside of a batch: clocks are
/// aligned to microseconds, and launches take a while to begin.
const GUARD_S: f64 = 0.002;

/// The mean of a counter over the windows that lie in batches of repetitions, in which the device
/// ran one kernel or transfer and nothing else; `None` with fewer than two.
fn in_batches(
    device: &PhysicalDevice,
    class: &activity::Class,
    input: &Input,
    delay: Delay,
) -> Option<Interval> {
    // A window was so much earlier than it says.
    let (least, most) = match delay {
        Delay::Known(within) => (-within, within),
        Delay::Between { least, most, .. } => (least, most),
    };
    let mut sum = OneByOne::default();
    let (mut count, mut moment) = (0u32, 0.0);
    let replays = device.replays.iter().filter(|r| repeated_class(&r.name, false) == class.name);
    for (begin, end, _, restores) in replays.flat_map(|r| &r.batches) {
        let inside = |w: &&(HostNs, HostNs, f64)| {
            !restores
                && w.0.seconds_since(*begin) >= most + GUARD_S
                && end.seconds_since(w.1) >= GUARD_S - least
        };
        for (_, _, mean) in input.windows.iter().filter(inside) {
            sum.add(*mean, 1.0);
            (count, moment) = (count + 1, moment + mean);
        }
    }
    (count >= 2).then(|| sum.estimate(moment / f64::from(count)))
}

/// Most that a share may read: spans end before the device is ready for the next command, so that
/// means over them reach 107 % (the guide on accuracy, counters).
const MOST_PERCENT: f64 = 110.0;
/// Half-width from which on a share says nothing.
const ANYTHING: f64 = 50.0;

/// Whether a common mean tells anything.
fn tells(mean: &Interval, unit: &str) -> bool {
    unit != "%" || (mean.value <= MOST_PERCENT && mean.half() <= ANYTHING)
}

fn value(
    device: &PhysicalDevice,
    result: &Attributed,
    row: &counters::ClassCounter,
    unit: &str,
) -> Value {
    let name =
        |c: &ClassId| device.classes.get(c.0 as usize).map_or_else(String::new, |c| c.name.clone());
    let only_with = row
        .only_with
        .and_then(|g| result.groups.get(g))
        .map(|g| Together { classes: g.classes.iter().map(name).collect(), mean: g.mean });
    let (sum, only_with) = (only_with.is_some(), only_with.filter(|of| tells(&of.mean, unit)));
    let mean = row.mean;
    let why = match (mean, &only_with, row.vague) {
        (None, None, None) if sum => {
            Some("not even the mean that it has with others is known".to_owned())
        }
        (Some(_), ..) | (_, Some(_), _) => None,
        (_, _, Some(vague)) => {
            Some(format!("it ran for too short a time: {:.3} +- {:.3}", vague.value, vague.half()))
        }
        _ => Some("it did not run while counters were read".to_owned()),
    };
    Value { mean, only_with, why }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::energy::activity::Kind;
    use crate::energy::shapes::{Repeated, Shape};

    /// Windows of 100 ms of a counter that reads `of` while the kernel is repeated, from 1 s to 1.5
    /// s, and 5 else; each is told of 70 ms late.
    fn input(of: f64) -> Input {
        let window = |k: i64| {
            let (begin, end) = (k * 100 + 70, k * 100 + 170);
            let inside = (10..15).contains(&k);
            let at = |ms: i64| HostNs(ms * 1_000_000);
            (at(begin), at(end), if inside { of + 0.1 * (k % 2) as f64 } else { 5.0 })
        };
        let windows = (0..30).map(window).collect();
        Input { name: "sm".into(), unit: "%".into(), windows, idle: Idle::Zero }
    }

    fn device(restores: bool) -> PhysicalDevice {
        let mut device = PhysicalDevice::named("gpu", "", Kind::Gpu);
        device.replays.push(Repeated {
            name: "a".into(),
            shape: Shape { name: "a".into(), sizes: vec![64] },
            stamped: None,
            per_restoration: 1,
            refused: String::new(),
            saved: 0,
            batches: vec![(HostNs(1_000_000_000), HostNs(1_500_000_000), 100, restores)],
            trials: Vec::new(),
        });
        device
    }

    #[test]
    fn windows_that_surely_lie_in_a_batch_give_its_mean() {
        let class =
            |name: &str| activity::Class { name: name.into(), kernel: true, repetition: true };
        let of = |device: &PhysicalDevice, name: &str| {
            in_batches(device, &class(name), &input(60.0), DELAY)
        };
        // Told of 0 to 120 ms late: those of 1.17 to 1.27 s and on to 1.47 s.
        let found = of(&device(false), "a (repeated)").unwrap();
        assert!((found.value - 60.05).abs() < 0.06 && found.half() < 0.5, "{found:?}");
        assert!(found.low < 60.05 && found.high > 60.05, "{found:?}");
        assert_eq!(of(&device(false), "b (repeated)"), None);
        assert_eq!(of(&device(true), "a (repeated)"), None, "restoring is in these windows");
        let mut short = device(false);
        short.replays[0].batches[0].1 = HostNs(1_280_000_000);
        assert_eq!(of(&short, "a (repeated)"), None, "one window says nothing of its error");
    }
}
