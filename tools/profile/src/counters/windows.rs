//! Owns counters that come as counts between two moments (Intel's OA streams, perf events): reading
//! them back, which device they belong to, figures of the metric set per kernel. Kernels that last
//! many windows have their counts interpolated, others go into the fit. Refuses figures
//! whose inputs are not known.

use super::figures::Figures;
use super::means::{Input, regress, set};
use super::result::{Clocks, Source, Track, Value};
use crate::energy::activity::{Kind, PhysicalDevice};
use crate::energy::readings::clock_of;
use crate::interval::Interval;
use clscope_analysis::Trace;
use clscope_analysis::counters::{Delay, Idle};
use clscope_analysis::energy::{Activity, HostNs, Timing};
use clscope_oa::spans::{self, Resolution};
use clscope_oa::time::ticks_to_ns;
use clscope_trace::ids::normal_pci;
use clscope_trace::sensors::{CounterSource, NO_COUNT, Record, Records};
use clscope_trace::{FileHeader, FileKind};
use std::collections::BTreeMap;

/// Windows are joined to this length before a fit, ns: kernels are far shorter or
/// interpolated.
const JOINED_NS: i64 = 10_000_000;
/// Placed by pairs of clocks, windows lie where they are to some tens of microseconds.
const PLACED: f64 = 5e-5;
/// perf's are as well placed as the reading of a dozen counters takes time.
const READ: f64 = 2e-4;

/// One window.
struct Window {
    begin: HostNs,
    end: HostNs,
    broken: bool,
    /// Of the device's context.
    context: Option<u32>,
    /// [`NO_COUNT`] where not known: half the memory of options, and there are a million windows in
    /// a quarter of an hour.
    counts: Box<[u64]>,
}

/// A source with its windows.
pub struct Recorded {
    host: usize,
    about: CounterSource,
    windows: Vec<Window>,
    /// Windows without a place on the host's clock.
    unplaced: usize,
}

/// Sources of counts in the files of a trace.
pub fn read<'f>(
    trace: &Trace<'_>,
    files: impl Iterator<Item = (&'f str, &'f [u8])>,
) -> Vec<Recorded> {
    let mut out: Vec<Recorded> = Vec::new();
    for (_, bytes) in files {
        let Ok(header) = FileHeader::decode_as(bytes, FileKind::Sensors) else { continue };
        let Some(clock) = clock_of(trace, &header, bytes) else { continue };
        let host = clock.host;
        // What an application read itself, it read around its commands.
        if recorded_in(trace, host, &header).is_some() {
            continue;
        }
        let mut hint = 0;
        let mut at = |raw: u64| trace.timeline.raw(clock, raw, &mut hint).map(|t| HostNs(t.0));
        let mut place: BTreeMap<u32, usize> = BTreeMap::new();
        for record in Records::new(bytes) {
            match record {
                Record::CounterSource(about) => {
                    place.insert(about.id, out.len());
                    out.push(Recorded { host, about, windows: Vec::new(), unplaced: 0 });
                }
                Record::CounterWindows(windows) => {
                    let Some(of) = place.get(&windows.source).and_then(|i| out.get_mut(*i)) else {
                        continue;
                    };
                    if windows.width as usize != of.about.counters.len() {
                        continue;
                    }
                    for w in windows.iter() {
                        let (begin, end) = w.host.map_or((None, None), |(b, e)| (at(b), at(e)));
                        match (begin, end) {
                            (Some(begin), Some(end)) if end > begin => {
                                let counts =
                                    w.counts.iter().map(|n| n.unwrap_or(NO_COUNT)).collect();
                                of.windows.push(Window {
                                    begin,
                                    end,
                                    broken: w.broken,
                                    context: w.context,
                                    counts,
                                });
                            }
                            _ => of.unplaced += 1,
                        }
                    }
                }
                _ => {}
            }
        }
    }
    out.iter_mut().for_each(|r| r.windows.sort_by_key(|w| w.begin));
    out
}

/// The process that wrote a file of counters, where it is one of the trace's.
pub fn recorded_in(trace: &Trace<'_>, host: usize, header: &FileHeader) -> Option<usize> {
    let same = |i: usize, p: &FileHeader| {
        p.pid == header.pid
            && p.pid_ns == header.pid_ns
            && trace.timeline.host_of.get(i) == Some(&host)
    };
    trace.processes.iter().enumerate().find(|(i, p)| same(*i, &p.header)).map(|(i, _)| i)
}

/// How a source was matched to a device.
pub fn matched(
    about: &CounterSource,
    host: usize,
    device: &PhysicalDevice,
    devices: &[PhysicalDevice],
    named: Option<&str>,
) -> Option<String> {
    if host != device.host {
        return None;
    }
    if let Some(name) = named {
        return device
            .name
            .contains(name)
            .then(|| format!("name {name}, as --counter-device says"));
    }
    if about.pid.is_some() {
        return (device.kind == Kind::Cpu).then(|| "the application's own threads".to_owned());
    }
    if let (Some(a), Some(b)) = (&device.pci, about.pci.as_deref().and_then(normal_pci)) {
        return (*a == b).then(|| format!("PCI address {a}"));
    }
    let intel = |d: &&PhysicalDevice| {
        d.host == host && d.kind == Kind::Gpu && d.vendor.to_lowercase().contains("intel")
    };
    (intel(&device) && devices.iter().filter(intel).count() == 1)
        .then(|| "the only Intel GPU".to_owned())
}

/// A length of time in seconds.
pub fn seconds(begin: HostNs, end: HostNs) -> f64 {
    end.0.saturating_sub(begin.0) as f64 * 1e-9
}

/// Neighbouring windows put together, with their counts and which of them are known.
fn joined(windows: &[Window], width: usize) -> Vec<(HostNs, HostNs, Vec<u64>, Vec<bool>)> {
    let mut out: Vec<(HostNs, HostNs, Vec<u64>, Vec<bool>)> = Vec::new();
    for w in windows {
        let add = |counts: &mut [u64], known: &mut [bool]| {
            for (i, n) in w.counts.iter().enumerate() {
                known[i] &= *n != NO_COUNT;
                counts[i] = counts[i].wrapping_add(if *n == NO_COUNT { 0 } else { *n });
            }
        };
        match out.last_mut() {
            Some(last) if last.1 == w.begin && last.1.0.saturating_sub(last.0.0) < JOINED_NS => {
                last.1 = w.end;
                add(&mut last.2, &mut last.3);
            }
            _ => {
                let (mut counts, mut known) = (vec![0; width], vec![true; width]);
                add(&mut counts, &mut known);
                out.push((w.begin, w.end, counts, known));
            }
        }
    }
    out
}

/// Counters of a device from all its sources.
pub fn windows_of(
    trace: &Trace<'_>,
    device: &PhysicalDevice,
    devices: &[PhysicalDevice],
    recorded: &[Recorded],
    named: Option<&str>,
) -> Vec<Source> {
    let speak = recorded
        .iter()
        .filter_map(|r| Some((r, matched(&r.about, r.host, device, devices, named)?)));
    speak.map(|(r, matched)| read_source(trace, device, r, matched)).collect()
}

/// A figure over time; `None` where it never was anything but 0.
fn track(of: Input, device: &PhysicalDevice, from: &Recorded) -> Option<Track> {
    let stretches = of.windows.chunk_by(|last, next| next.0 <= last.1).map(|windows| {
        let end = windows.last().map(|w| (w.1, w.2));
        windows.iter().map(|(begin, _, mean)| (*begin, *mean)).chain(end).collect()
    });
    of.windows.iter().any(|w| w.2 != 0.0).then(|| Track {
        stretches: stretches.collect(),
        name: format!("{} {} ({}), decoded as specified", from.about.name, of.name, of.unit),
        unit: of.unit,
        host: from.host,
        pci: device.pci.clone(),
        uuid: device.uuid.clone(),
    })
}

fn read_source(
    trace: &Trace<'_>,
    device: &PhysicalDevice,
    of: &Recorded,
    matched: String,
) -> Source {
    let mut out = Source::new(trace, device, &of.about.name, matched);
    out.set = set(&of.about);
    let oa = !of.about.format.is_empty();
    if oa {
        out.notes.insert(
            0,
            "decoded as specified: this was not checked on hardware of this kind".to_owned(),
        );
    } else {
        out.notes = vec!["user mode of all threads of the application and of what it started: the host's own work is in them".to_owned()];
    }
    if !of.about.side_effect.is_empty() {
        out.notes.push(of.about.side_effect.clone());
    }
    let contexts: std::collections::BTreeSet<u32> =
        of.windows.iter().filter_map(|w| w.context).collect();
    if contexts.len() > 1 {
        out.notes.push(format!(
            "{} contexts of the GPU ran meanwhile: what others did is in the figures",
            contexts.len()
        ));
    }
    let broken = of.windows.iter().filter(|w| w.broken).count();
    if broken > 0 {
        out.notes.push(format!(
            "reports were lost in {broken} windows: their counts are right, for a longer time"
        ));
    }
    if of.unplaced > 0 {
        out.notes.push(format!(
            "{} windows could not be placed on the host's clock and were left out",
            of.unplaced
        ));
    }
    let figures = Figures::of_source(&of.about);
    let width = of.about.counters.len();
    let columns = figures.columns();
    let activity = Activity::new(&device.spans, device.classes.len());
    let mut inputs: Vec<Input> = columns
        .iter()
        .map(|(name, unit, _)| Input {
            name: name.clone(),
            unit: unit.clone(),
            windows: Vec::new(),
            idle: Idle::Fitted,
        })
        .collect();
    for (begin, end, counts, known) in joined(&of.windows, width) {
        for (input, value) in
            inputs.iter_mut().zip(figures.evaluate(&counts, &known, seconds(begin, end)))
        {
            input.windows.extend(value.map(|v| (begin, end, v)));
        }
    }
    regress(&mut out, device, &activity, &inputs, Delay::Known(if oa { PLACED } else { READ }));
    if oa {
        out.tracks = inputs.into_iter().filter_map(|input| track(input, device, of)).collect();
    }
    out.left_out = 0;
    // Means of ratios over windows that hold several kernels are not the kernels' ratios.
    for (name, ..) in columns.iter().filter(|(_, unit, _)| unit == "number") {
        for value in out.classes.iter_mut().filter_map(|c| c.values.get_mut(name)) {
            let why = "a ratio of counts is known of kernels only that last ten windows";
            *value = Value { mean: None, only_with: None, why: Some(why.to_owned()) };
        }
        out.columns.iter_mut().filter(|c| c.name == *name).for_each(|c| c.idle = None);
    }
    // A stream has many windows even where the fit joined them.
    out.windows = of.windows.len();
    out.window_seconds = of.about.period_ns as f64 * 1e-9;
    if of.about.period_ns == 0 {
        out.window_seconds = of.windows.iter().map(|w| seconds(w.begin, w.end)).sum::<f64>()
            / of.windows.len().max(1) as f64;
    }
    if oa {
        interpolate(&mut out, device, of, &figures);
    }
    out
}

/// Gives classes whose spans last many windows the counts of those windows.
fn interpolate(out: &mut Source, device: &PhysicalDevice, of: &Recorded, figures: &Figures) {
    let width = of.about.counters.len();
    let Some(origin) = of.windows.first().map(|w| w.begin.0) else { return };
    let time = |at: HostNs| u64::try_from(at.0.saturating_sub(origin)).unwrap_or(0);
    let mut series = spans::Series::new(width);
    for w in &of.windows {
        let counts: Vec<u64> =
            w.counts.iter().map(|n| if *n == NO_COUNT { 0 } else { *n }).collect();
        // A window that overlaps the one before it cannot be placed: its counts are missed, and
        // spans over it say so.
        let _ = series.push(time(w.begin), time(w.end), &counts);
    }
    let all: Vec<(u64, u64)> = device.spans.iter().map(|s| (time(s.start), time(s.end))).collect();
    let shared = spans::overlapping(&all);
    let least = out.window_seconds * 1e9 * spans::WINDOWS_NEEDED;
    let mut long: Vec<Vec<(u64, u64)>> = vec![Vec::new(); out.classes.len()];
    for ((span, times), shared) in device.spans.iter().zip(all).zip(shared) {
        let is_long = span.end.since(span.start) as f64 >= least;
        if is_long
            && span.timing == Timing::Timed
            && !shared
            && let Some(of_class) = long.get_mut(span.class.0 as usize)
        {
            of_class.push(times);
        }
    }
    for (class, chosen) in out.classes.iter_mut().zip(long) {
        let (mut counts, mut edges) = (vec![0u64; width], vec![0u64; width]);
        let (mut length, mut launches, mut wraps) = (0u64, 0u64, 0u64);
        for (span, (from, to)) in spans::attribute(&series, &chosen).iter().zip(&chosen) {
            if span.resolution != Resolution::Resolved {
                continue;
            }
            launches += 1;
            length = length.saturating_add(to - from);
            wraps = wraps.saturating_add(span.counts.get(1).copied().unwrap_or(0) >> 32);
            for i in 0..width {
                counts[i] = counts[i].wrapping_add(span.counts[i]);
                edges[i] = edges[i].wrapping_add(span.edge_bounds[i]);
            }
        }
        // Half of its time is enough to represent it; with less the fit decides.
        if launches == 0 || (length as f64) < 0.5e9 * class.busy_seconds {
            continue;
        }
        let known = vec![true; width];
        let of_time = length as f64 * 1e-9;
        let value = figures.evaluate(&counts, &known, of_time);
        // The two windows a span cuts may hold more of it, or less.
        let bound = |sign: bool| {
            let moved: Vec<u64> = counts
                .iter()
                .zip(&edges)
                .map(|(n, e)| if sign { n.saturating_add(*e) } else { n.saturating_sub(*e) })
                .collect();
            figures.evaluate(&moved, &known, of_time)
        };
        let (more, less) = (bound(true), bound(false));
        for (i, column) in out.columns.iter_mut().enumerate() {
            let Some(v) = value.get(i).copied().flatten() else { continue };
            let ends = [more.get(i).copied().flatten(), less.get(i).copied().flatten(), Some(v)];
            let low = ends.iter().flatten().copied().fold(f64::INFINITY, f64::min).max(0.0);
            let high = ends.iter().flatten().copied().fold(0.0, f64::max);
            let mean = Some(Interval::estimated(v, low, high));
            class.values.insert(column.name.clone(), Value { mean, only_with: None, why: None });
            column.absent = None;
        }
        out.failed = None;
        let ticks = counts.first().copied().unwrap_or(0);
        class.covered_seconds = class.covered_seconds.max(of_time);
        class.clocks = Some(Clocks {
            launches,
            event_seconds: of_time,
            timestamp_seconds: ticks_to_ns(ticks, of.about.hz).map(|ns| ns as f64 * 1e-9),
            gpu_ticks: counts.get(1).copied().unwrap_or(0),
            gpu_ticks_32_bits: counts.get(1).copied().unwrap_or(0).wrapping_sub(wraps << 32),
            wraps,
        });
    }
}
