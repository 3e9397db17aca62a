//! Owns the way from sources that give means over windows (NVIDIA's GPM) to means per kernel. Refuses windows whose ends
//! are not known well: they would give one kernel's counts to its neighbours.

use super::result::{Class, Column, Estimate, Source, Together, Value};
use crate::energy::activity::Device;
use crate::energy::power::own;
use crate::energy::readings::{Readings, Sensor};
use clscope_analysis::Trace;
use clscope_analysis::counters::{self, Attributed, Counter, Delay, Idle};
use clscope_analysis::energy::{Activity, HostNs};
use clscope_trace::sensors::Quantity;
use std::collections::BTreeMap;

/// A driver's snapshots were met 16 ms late (H200); the data say what it is here.
const DELAY: Delay = Delay::Between { least: 0.0, most: 0.06, typical: 0.016 };
/// An end that is not known to this share of a typical window leaves the windows at it out.
const WELL_PLACED: f64 = 0.06;

/// The windows of a sensor whose ends are known well, how many were left out, and their typical length in seconds.
fn placed(sensor: &Sensor) -> (Vec<(HostNs, HostNs, f64)>, usize, f64) {
    let mut lengths: Vec<i64> = sensor.windows.iter().map(|w| w.end.0 - w.begin.0).collect();
    let middle = lengths.len() / 2;
    let typical = if lengths.is_empty() { 0 } else { *lengths.select_nth_unstable(middle).1 };
    let well = (typical as f64 * WELL_PLACED) as u32;
    let mut out = Vec::with_capacity(sensor.windows.len());
    let mut before = None;
    for window in &sensor.windows {
        // A window begins where the one before it ended, if that is the same moment to some microseconds.
        let begin = before.replace(window).filter(|b| (b.end.0 - window.begin.0).abs() < 10_000);
        if window.within_ns <= well && begin.is_none_or(|b| b.within_ns <= well) {
            let from = begin.map_or(window.begin, |b| b.end);
            out.push((from, window.end, window.mean));
        }
    }
    let left_out = sensor.windows.len() - out.len();
    (out, left_out, typical as f64 * 1e-9)
}

fn unit(sensor: &Sensor) -> &'static str {
    sensor.series.quantity.unit()
}

/// Name of a series without its source's.
fn short(sensor: &Sensor) -> String {
    sensor.series.name.rsplit('/').next().unwrap_or_default().to_owned()
}

fn estimate(of: counters::Estimate) -> Estimate {
    Estimate { value: of.value, low: of.low, high: of.high }
}

/// All sources of means that speak of a device.
pub fn of(trace: &Trace<'_>, device: &Device, devices: &[Device], readings: &Readings) -> Vec<Source> {
    let alone = devices.iter().filter(|d| d.host == device.host && d.kind == device.kind).count() == 1;
    let mut sources: BTreeMap<&str, (Vec<&Sensor>, String)> = BTreeMap::new();
    for sensor in readings.sensors.iter().filter(|s| s.host == device.host && !s.windows.is_empty()) {
        if let Some(matched) = own(device, sensor, alone) {
            sources.entry(&sensor.series.source).or_insert_with(|| (Vec::new(), matched)).0.push(sensor);
        }
    }
    sources.into_iter().map(|(name, (sensors, matched))| one(trace, device, name, &sensors, matched)).collect()
}

fn one(trace: &Trace<'_>, device: &Device, name: &str, sensors: &[&Sensor], matched: String) -> Source {
    let activity = Activity::new(&device.spans, device.classes.len());
    let placed: Vec<_> = sensors.iter().map(|s| placed(s)).collect();
    let idle = |s: &Sensor| if s.series.quantity == Quantity::Percent { Idle::Zero } else { Idle::Fitted };
    let all: Vec<Counter<'_>> = sensors.iter().zip(&placed).map(|(s, (windows, ..))| Counter { windows, idle: idle(s) }).collect();
    let results = counters::attribute_all(&activity, &all, DELAY);
    let found = |f: fn(&Attributed) -> f64| results.iter().filter_map(|r| r.as_ref().ok()).map(f).reduce(f64::max);
    let mut out = Source {
        device: device.name.clone(),
        host: trace.timeline.hosts.get(device.host).map(|h| h.name.clone()).unwrap_or_default(),
        pci: device.pci.clone(),
        members: device.members.clone(),
        source: name.to_owned(),
        set: None,
        matched,
        windows: found(|r| r.windows as f64).unwrap_or(0.0) as usize,
        window_seconds: placed.first().map_or(0.0, |p| p.2),
        left_out: placed.iter().map(|p| p.1).max().unwrap_or(0),
        delay_seconds: found(|r| r.delay),
        failed: None,
        columns: Vec::new(),
        classes: Vec::new(),
        notes: vec!["these counters are the whole device's: what other programs ran on it at the same time is in them".to_owned()],
    };
    if results.iter().all(Result::is_err) {
        out.failed =
            results.iter().find_map(|r| r.as_ref().err()).map(|e| e.to_string().replace("attributing energy", "attributing counters"));
    }
    if device.unplaced > 0 {
        out.notes.push(format!("{} commands ran at unknown times: what they did is in the figures of others", device.unplaced));
    }
    if out.left_out > 0 {
        out.notes.push(format!("{} windows were left out: the machine was too busy to see when they ended", out.left_out));
    }
    for (sensor, result) in sensors.iter().zip(&results) {
        out.columns.push(Column {
            name: short(sensor),
            unit: unit(sensor).to_owned(),
            idle: result.as_ref().ok().and_then(|r| r.idle).map(estimate),
            residual: result.as_ref().ok().map(|r| r.residual),
            absent: result.as_ref().err().map(ToString::to_string),
        });
    }
    let totals = activity.totals();
    for (index, class) in device.classes.iter().enumerate() {
        let mut values = BTreeMap::new();
        let mut covered: f64 = 0.0;
        for (column, result) in out.columns.iter().zip(&results) {
            let Ok(result) = result else { continue };
            let Some(row) = result.classes.get(index) else { continue };
            covered = covered.max(row.covered.0);
            values.insert(column.name.clone(), value(device, result, row));
        }
        let launches =
            totals.get(index).map_or(0.0, |t| t.launches) * device.launches_per_span(clscope_analysis::energy::ClassId(index as u32));
        out.classes.push(Class {
            name: class.name.clone(),
            kind: if class.kernel { "kernel" } else { "transfer" },
            launches,
            busy_seconds: totals.get(index).map_or(0.0, |t| t.busy_s),
            covered_seconds: covered,
            values,
        });
    }
    out
}

fn value(device: &Device, result: &Attributed, row: &counters::ClassCounter) -> Value {
    let name = |c: &clscope_analysis::energy::ClassId| device.classes.get(c.0 as usize).map_or_else(String::new, |c| c.name.clone());
    let only_with = row.only_with.and_then(|g| result.groups.get(g)).map(|g| Together {
        classes: g.classes.iter().map(name).collect(),
        mean: estimate(g.mean),
        with_idle: g.with_idle,
    });
    let mean = row.mean.map(estimate);
    let why = (mean.is_none() && only_with.is_none()).then(|| "it did not run while counters were read".to_owned());
    Value { mean, by: mean.map(|_| "regressed"), only_with, why }
}
