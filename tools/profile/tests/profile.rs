//! A trace directory with readings of a sensor, opened as callers do: joules add up to what was
//! measured, whatever the order of the traces, and the example prints them. Refuses to judge the
//! fit: the analysis has tests of its own.

use clscope_analysis::testing::{CommandSpec, HostModel, ProcessBuilder, function};
use clscope_profile::energy::attribute;
use clscope_profile::energy::result::Energy;
use clscope_profile::interval::Interval;
use clscope_profile::profile::{Options, Profile};
use clscope_trace::file::{Clock, FileHeader, FileKind};
use clscope_trace::sensors::{self, Quantity, Reading, Readings, Record, Series};
use proptest::prelude::*;
use std::path::{Path, PathBuf};

// The example itself: its program is built by no runner that builds tests alone.
#[allow(dead_code)]
#[path = "../examples/joules.rs"]
mod joules_example;

const MS: u64 = 1_000_000;

/// What a run of launches was like.
#[derive(Clone, Copy)]
struct Run {
    pid: u32,
    /// When its first launch begins, ms after the host's start.
    at: u64,
    /// What the counter read then, microjoules.
    counter: f64,
    /// Length of each launch and of the rest behind it, ms.
    busy: u64,
    rest: u64,
}

impl Run {
    /// Ends half a second after the last launch.
    fn end(self) -> u64 {
        self.at + LAUNCHES * (self.busy + self.rest) + 500
    }
}

const LAUNCHES: u64 = 60;
/// Readings begin this long before the first launch, ms.
const LEAD: u64 = 100;

/// A trace of launches of two kernels in turn, and of a counter of the processor's energy: 30 W
/// while one runs, 10 W else. Gives the directory and what the counter reads in the end.
fn trace(directory: &Path, name: &str, run: Run) -> (PathBuf, f64) {
    let path = directory.join(name);
    std::fs::create_dir(&path).unwrap();
    let (host, pid) = (HostModel::default(), run.pid);
    let mut p = ProcessBuilder::standard(host, pid, 1);
    for definition in &mut p.defs {
        if let clscope_trace::defs::Def::Device(device) = definition {
            device.device_type = 1 << 1; // CL_DEVICE_TYPE_CPU
        }
    }
    let thread = p.thread(0);
    let (mut at, mut spans) = (run.at * MS, Vec::new());
    for i in 0..LAUNCHES {
        let spec = CommandSpec::kernel(i + 1, 1, 10 + (i % 2) as u32);
        thread.enqueue(at, at + 10_000, &spec);
        let (start, end) = (at + 20_000, at + run.busy * MS);
        let stamps = [at + 1_000, at + 2_000, start, end].map(|ns| ns + host.raw);
        thread.timing(end + 10_000, i + 1, stamps);
        thread.plain(function::FINISH, end + 20_000, end + 30_000, 0, 1);
        spans.push((start, end));
        at = end + run.rest * MS;
    }
    p.exit(run.end() * MS, 60);
    let bytes = p.build();
    std::fs::write(path.join(format!("{pid}-0.defs")), &bytes.defs).unwrap();
    std::fs::write(path.join(format!("{pid}-0.0.clt")), &bytes.segment).unwrap();

    let mut payload = Vec::new();
    let series = Series {
        source: "powercap".into(),
        name: "package-0".into(),
        quantity: Quantity::Energy,
        plane: "PKG".into(),
        package: Some(0),
        count_numerator: 1,
        count_denominator: 1,
        ..Series::default()
    };
    sensors::encode(&Record::Series(series), &mut payload);
    let (mut rows, mut microjoules) = (Vec::new(), run.counter);
    for ms in run.at - LEAD..run.end() {
        let (from, to) = (ms * MS, (ms + 1) * MS);
        let ran: u64 = spans
            .iter()
            .map(|(start, end)| (*end).min(to).saturating_sub((*start).max(from)))
            .sum();
        microjoules += 10e-3 * (to - from) as f64 + 20e-3 * ran as f64;
        let value = microjoules as u64;
        Reading { time: host.raw + to, value, bracket_ns: 100, mean_over_us: 0 }
            .append_to(&mut rows);
    }
    sensors::encode(&Record::Readings(Readings::new(0, &rows)), &mut payload);
    let header = FileHeader {
        version: clscope_trace::VERSION,
        kind: FileKind::Sensors,
        pid,
        ppid: 0,
        pid_ns: 0,
        incarnation: 0,
        segment: 0,
        clock: Clock::MonotonicRaw,
        host: [0; 16],
        boot: [host.boot; 16],
        created: host.raw + (run.at - LEAD) * MS,
    };
    let mut file = header.encode().to_vec();
    file.extend(sensors::block(0, &payload));
    std::fs::write(path.join("sensors.clt"), file).unwrap();
    (path, microjoules)
}

fn run(busy: u64, rest: u64) -> Run {
    Run { pid: 7, at: LEAD, counter: 0.0, busy, rest }
}

fn energy(paths: &[PathBuf]) -> Energy {
    let profile = Profile::open(paths).unwrap();
    profile.view(Options::default()).energy().unwrap().clone()
}

/// Joules by class, of all devices.
fn joules(energy: &Energy) -> Vec<(String, f64)> {
    let classes = energy.devices.iter().flat_map(|d| &d.classes);
    let mut found: Vec<_> =
        classes.filter_map(|c| Some((c.name.clone(), c.joules?.value))).collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

/// Joules of a time without readings are not known, and not 0.
#[test]
fn without_readings_joules_are_null() {
    let place = tempfile::tempdir().unwrap();
    let (path, _) = trace(place.path(), "a.clscope", run(20, 10));
    let profile = Profile::open(&[path]).unwrap();
    let energy =
        attribute::Options { energy_window: Some((1e3, 2e3)), ..attribute::Options::default() };
    let report = profile.view(Options { energy, ..Options::default() }).report().unwrap();
    let json = serde_json::to_value(&report).unwrap();
    let device = &json["energy"]["devices"][0];
    assert!(device["failed"].is_string() && device["mean_watts"].is_null(), "{device:#}");
    assert!(device["measured_joules"].is_null(), "{device:#}");
    assert!(device["unattributed_joules"].is_null(), "{device:#}");
}

#[test]
fn the_example_prints_joules_per_kernel() {
    let place = tempfile::tempdir().unwrap();
    let (path, _) = trace(place.path(), "a.clscope", run(20, 10));
    let found = energy(std::slice::from_ref(&path));
    let [device] = &found.devices[..] else { panic!("{found:#?}") };
    assert!(device.failed.is_none() && device.classes.len() == 2, "{device:#?}");
    // 60 launches of 20 ms at 30 W.
    let sum: f64 = joules(&found).iter().map(|j| j.1).sum();
    assert!((sum / 36.0 - 1.0).abs() < 0.05, "{sum} J: {device:#?}");

    let mut text = Vec::new();
    joules_example::print(std::slice::from_ref(&path), &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    for class in &device.classes {
        assert!(text.contains(&class.name) && text.contains(" J ("), "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn joules_are_conserved(busy in 5u64..40, rest in 5u64..40) {
        let place = tempfile::tempdir().unwrap();
        let found = energy(&[trace(place.path(), "a.clscope", run(busy, rest)).0]);
        let device = &found.devices[0];
        prop_assert!(device.failed.is_none(), "{:?}", device.failed);
        // What classes have, as groups of one or more, the floors' time and what is left: all.
        let grouped: f64 = device.groups.iter().map(|g| g.joules.value).sum();
        let floors: f64 = device.floors.iter().filter_map(|f| Some(f.joules?.value)).sum();
        let measured = device.measured_joules.unwrap();
        let parts = grouped + floors + device.unattributed_joules.unwrap();
        for class in &device.classes {
            let Some(own) = class.joules else { continue };
            let group = class.group.map(|g| &device.groups[g]).filter(|g| g.names.len() == 1);
            prop_assert_eq!(group.map(|g| g.joules.value), Some(own.value), "{}", class.name);
        }
        prop_assert!(
            (parts / measured - 1.0).abs() < 1e-6,
            "{parts} of {measured}: {device:#?}"
        );
    }

    /// Two runs of one host, one after the other.
    #[test]
    fn the_order_of_traces_changes_nothing(busy in 5u64..30, other in 5u64..30, between in 200u64..900) {
        let place = tempfile::tempdir().unwrap();
        let first = run(busy, 10);
        let (a, counter) = trace(place.path(), "a.clscope", first);
        let at = first.end() + between + LEAD;
        let second = Run { pid: 8, at, counter: counter + 10e3 * between as f64, busy: other, rest: 15 };
        let (b, _) = trace(place.path(), "b.clscope", second);
        let (there, back) = (joules(&energy(&[a.clone(), b.clone()])), joules(&energy(&[b, a])));
        prop_assert!(!there.is_empty());
        prop_assert_eq!(there.len(), back.len());
        for ((name, x), (same, y)) in there.iter().zip(&back) {
            prop_assert_eq!(name, same);
            prop_assert!((x - y).abs() <= 1e-9 * x.abs().max(1.0), "{}: {} {}", name, x, y);
        }
    }

    /// One counter, read by two samplers at once: whose readings are used does not depend on which
    /// trace is named first.
    #[test]
    fn readings_taken_twice_are_used_once_in_any_order(busy in 5u64..30, rest in 5u64..30) {
        let place = tempfile::tempdir().unwrap();
        let (a, _) = trace(place.path(), "a.clscope", run(busy, rest));
        // Of the same length; the two disagree.
        let twin = Run { pid: 8, counter: 5e6, busy: rest, rest: busy, ..run(busy, rest) };
        let (b, _) = trace(place.path(), "b.clscope", twin);
        let (there, back) = (joules(&energy(&[a.clone(), b.clone()])), joules(&energy(&[b, a])));
        prop_assert_eq!(there.len(), back.len());
        for ((name, x), (same, y)) in there.iter().zip(&back) {
            prop_assert_eq!(name, same);
            prop_assert!((x - y).abs() <= 1e-9 * x.abs().max(1.0), "{}: {} {}", name, x, y);
        }
    }

    /// Widening is what substituted figures go through: it never narrows, and keeps the value.
    #[test]
    fn intervals_never_shrink(
        value in -1e6f64..1e6, down in 0.0f64..1e3, up in 0.0f64..1e3, share in 0.0f64..1.0
    ) {
        let narrow = Interval::estimated(value, value - down, value + up);
        let wide = narrow.widened(share);
        prop_assert!(wide.low <= narrow.low && wide.high >= narrow.high);
        prop_assert_eq!((wide.value, wide.estimated), (narrow.value, narrow.estimated));
    }
}
