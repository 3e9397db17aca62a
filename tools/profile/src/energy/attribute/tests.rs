//! Tests of `attribute`.

use super::*;
use crate::energy::activity::{Class, Kind};
use crate::energy::alone::shapes::{Repeated, Shape, Tally};
use clscope_analysis::energy::turns::Shared;
use clscope_analysis::energy::{DeviceIndex, ResponseModel, Span, Timing};
use proptest::prelude::*;

const MS: i64 = 1_000_000;

/// A device all of whose launches were timed; the application ran when nothing was repeated.
fn timed(device: &PhysicalDevice) -> RanOn<'_> {
    let is_repeated = |span: &&Span| device.classes[span.class.0 as usize].repetition;
    let mut own = vec![(HostNs(i64::MIN / 4), HostNs(i64::MAX / 4))];
    for span in device.spans.iter().filter(is_repeated) {
        let last = own.last_mut().unwrap();
        let end = std::mem::replace(&mut last.1, span.start);
        own.push((span.end, end));
    }
    RanOn { device, times: &[], own: own.leak(), unrecorded: &[] }
}

fn repetition(start: HostNs, end: HostNs) -> Span {
    let (class, device) = (ClassId(1), DeviceIndex(0));
    Span { class, device, start, end, timing: Timing::Timed }
}

/// A kernel of 40 ms at 200 W every 100 ms for 6 s, then 16 batches of it, which are among what
/// ran.
fn repeated() -> (PhysicalDevice, Power) {
    let mut device = PhysicalDevice::named("gpu", "", Kind::Gpu);
    device.classes.push(Class { name: "k".into(), kernel: true, repetition: false });
    let launch = |i: i64| Span {
        class: ClassId(0),
        device: DeviceIndex(0),
        start: HostNs(i * 100 * MS),
        end: HostNs((i * 100 + 40) * MS),
        timing: Timing::Timed,
    };
    device.spans = (0..60).map(launch).collect();
    let shape = Shape { name: "k".into(), sizes: vec![64] };
    let tally = Tally { launches: 60, timed: 60, seconds: 2.4, bytes: 0 };
    device.shapes.insert((ClassId(0), shape.clone()), tally);
    let batch = |i: i64| {
        let start = (7_000 + i * 600) * MS;
        (HostNs(start), HostNs(start + 400 * MS), 10, false)
    };
    let batches: Vec<_> = (0..16).map(batch).collect();
    let busy = |ms: i64| {
        let run = ms < 6_000 && ms % 100 < 40;
        run || batches.iter().any(|b| b.0.0 <= ms * MS && ms * MS < b.1.0)
    };
    let points = (0..1_700).map(|i| i * 10);
    let noise = |ms: i64| (ms / 10 % 3 - 1) as f64;
    let points =
        points.map(|ms| (HostNs(ms * MS), noise(ms) + if busy(ms) { 200.0 } else { 30.0 }));
    let series = Series::Instant(points.collect());
    device.replays.push(Repeated {
        name: "k".into(),
        shape,
        stamped: None,
        per_restoration: 1,
        refused: String::new(),
        saved: 0,
        batches,
        trials: Vec::new(),
    });
    let class = Class { name: "k (repeated)".into(), kernel: true, repetition: true };
    device.classes.push(class);
    let ran = device.replays[0].batches.iter().map(|&(start, end, ..)| repetition(start, end));
    device.spans.extend(ran.collect::<Vec<_>>());
    (device, Power::of_series(series, ResponseModel::lagged_samples(0.01), 0.01, 0.06))
}

/// A kernel of 40 ms at 200 W every 100 ms for 6 s, which the recorder tried five times between,
/// and copied buffers for 30 ms at 300 W before and after.
fn tried() -> (PhysicalDevice, Power) {
    let mut device = PhysicalDevice::named("gpu", "", Kind::Gpu);
    let class = |name: &str, repetition| Class { name: name.into(), kernel: true, repetition };
    let own = [("k", false), ("buffers (saved)", true), ("k (repeated)", true)];
    device.classes.extend(own.map(|(name, repetition)| class(name, repetition)));
    let span = |of: u32, start: i64, end: i64| Span {
        class: ClassId(of),
        device: DeviceIndex(0),
        start: HostNs(start * MS),
        end: HostNs(end * MS),
        timing: Timing::Timed,
    };
    let mut spans: Vec<Span> = (0..60).map(|i| i * 100).map(|t| span(0, t, t + 40)).collect();
    let trials: Vec<Span> = (20..25).map(|i| i * 100 + 50).map(|t| span(2, t, t + 40)).collect();
    spans.extend(trials);
    spans.extend([span(1, 1_950, 1_980), span(1, 2_550, 2_580)]);
    spans.sort_by_key(|s| s.start);
    let watts = |ms: i64| {
        let here = spans.iter().find(|s| s.start.0 <= ms * MS && ms * MS < s.end.0);
        here.map_or(30.0, |s| if s.class.0 == 1 { 300.0 } else { 200.0 })
    };
    let points = (0..700).map(|i| i * 10);
    let points = points.map(|ms| (HostNs(ms * MS), (ms / 10 % 3 - 1) as f64 + watts(ms)));
    let series = Series::Instant(points.collect());
    device.spans = spans;
    let shape = Shape { name: "k".into(), sizes: vec![64] };
    let tally = Tally { launches: 60, timed: 60, seconds: 2.4, bytes: 0 };
    device.shapes.insert((ClassId(0), shape), tally);
    (device, Power::of_series(series, ResponseModel::lagged_samples(0.01), 0.01, 0.06))
}

#[test]
fn launches_that_were_only_tried_are_no_part_of_the_applications_energy() {
    let (device, power) = tried();
    let trace = Trace::open(Vec::new());
    let out = measure(
        &trace,
        timed(&device),
        &power,
        &Readings::default(),
        &External::default(),
        &Options::default(),
    );
    assert_eq!(out.failed, None);
    assert_eq!(out.classes.len(), 1, "{:?}", out.classes);
    let class = &out.classes[0];
    assert_eq!(class.launches, 60.0);
    assert!((class.busy_seconds - 2.4).abs() < 1e-9, "{}", class.busy_seconds);
    let joules = class.joules.unwrap();
    assert!((joules.value / (2.4 * 200.0) - 1.0).abs() < 0.01, "{joules:?}");
    let each = class.joules_per_launch.unwrap();
    assert!((each.value / 8.0 - 1.0).abs() < 0.01, "{each:?}");
    let repeated = out.repetitions.as_ref().unwrap();
    assert!((repeated.seconds / 0.26 - 1.0).abs() < 0.01, "{}", repeated.seconds);
    let truth = 0.2 * 200.0 + 0.06 * 300.0;
    assert!((repeated.joules.value / truth - 1.0).abs() < 0.05, "{:?} {truth}", repeated.joules);
    let rest = out.unattributed_joules.unwrap() / out.measured_joules.unwrap();
    assert!(rest.abs() < 0.01, "{rest}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    /// Joules and watts of a run are of the time in which the application ran and was not held,
    /// whatever the device did at other times.
    #[test]
    fn joules_of_a_run_are_of_its_own_time(behind in 0i64..900) {
        let (device, power) = repeated();
        let own = [(HostNs(0), HostNs((6_000 + behind) * MS))];
        let ran = RanOn { own: &own, ..timed(&device) };
        let (readings, external) = (Readings::default(), External::default());
        let trace = Trace::open(Vec::new());
        let out = measure(&trace, ran, &power, &readings, &external, &Options::default());
        let seconds = 6.0 + behind as f64 * 1e-3;
        let truth = 30.0 * seconds + 170.0 * 2.4;
        let joules = out.own_joules().unwrap();
        // A reading, of 10 ms, at either end.
        prop_assert!((out.seconds - seconds).abs() < 0.02, "{}", out.seconds);
        prop_assert!((joules.value - truth).abs() < 6.0, "{joules:?}, not {truth}");
    }
}

#[test]
fn what_was_drawn_is_known_where_nobodys_part_is() {
    let mut device = PhysicalDevice::named("gpu", "", Kind::Gpu);
    device.classes.push(Class { name: "k".into(), kernel: true, repetition: false });
    let at = |ms: i64| HostNs(ms * MS);
    let span = Span {
        class: ClassId(0),
        device: DeviceIndex(0),
        start: at(1_000),
        end: at(1_001),
        timing: Timing::Timed,
    };
    device.spans = vec![span];
    let watts = |i: i64| 99.0 + (i % 3) as f64;
    let series = Series::Instant((0..300).map(|i| (at(i * 10), watts(i))).collect());
    let power = Power::of_series(series, ResponseModel::lagged_samples(0.01), 0.01, 0.06);
    let trace = Trace::open(Vec::new());
    let out = measure(
        &trace,
        timed(&device),
        &power,
        &Readings::default(),
        &External::default(),
        &Options::default(),
    );
    assert!(out.few_readings && out.classes.is_empty(), "{:?}", out.failed);
    assert!((out.measured_joules.unwrap() - 299.0).abs() < 2.0, "{:?}", out.measured_joules);
    assert!((out.mean_watts.unwrap() - 100.0).abs() < 0.1);
    assert_eq!(out.unattributed_joules, None);
}

/// A kernel of 4 ms at 150 W every 100 ms for 4 s, with so many watts between; others before the
/// context is made and behind its end.
fn paced(between: f64, outside: f64) -> DeviceEnergy {
    let mut device = PhysicalDevice::named("gpu", "", Kind::Gpu);
    device.classes.push(Class { name: "k".into(), kernel: true, repetition: false });
    let launches = || (0..40).map(|i| 500 + i * 100);
    device.spans = launches()
        .map(|start| Span {
            class: ClassId(0),
            device: DeviceIndex(0),
            start: HostNs(start * MS),
            end: HostNs((start + 4) * MS),
            timing: Timing::Timed,
        })
        .collect();
    let watts = |ms: i64| match ms {
        450..=4_500 if launches().any(|at| (at..at + 4).contains(&ms)) => 150.0,
        450..=4_500 => between,
        _ => outside,
    };
    let noise = |ms: i64| 0.3 * (ms / 10 % 3 - 1) as f64;
    let points = (0..500).map(|i| 10 * i + 2);
    let points = points.map(|ms| (HostNs(ms * MS), watts(ms) + noise(ms)));
    let series = Series::Instant(points.collect());
    let power = Power::of_series(series, ResponseModel::lagged_samples(0.01), 0.01, 0.06);
    measure(
        &Trace::open(Vec::new()),
        timed(&device),
        &power,
        &Readings::default(),
        &External::default(),
        &Options::default(),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    /// An idle state is another than that between launches beyond chance, unless that one is not
    /// known well enough to say so; and what is between launches stays in its interval.
    #[test]
    fn an_idle_state_has_evidence(between in 110.0f64..135.0, more in 1.0f64..1.06) {
        let out = paced(between, between * more);
        let first = out.floors[0].watts.unwrap();
        let step = 0.02 * between;
        prop_assert!(first.low - step < between && between < first.high + step, "{first:?}");
        for other in &out.floors[1..] {
            let watts = other.watts.unwrap();
            let apart = (first.value - watts.value).abs();
            let is_vague = first.longer() > 0.04 * first.value;
            prop_assert!(is_vague || apart > first.half().hypot(watts.half()), "{:?}", out.floors);
        }
        let parts: f64 = out.parts().iter().map(|part| part.joules.value).sum();
        prop_assert!((parts / out.measured_joules.unwrap() - 1.0).abs() < 1e-9);
    }
}

#[test]
fn energy_of_paced_launches_adds_up_where_rest_outside_of_them_is_higher() {
    let out = paced(123.0, 128.0);
    let floor = out.floors[0].watts.unwrap();
    assert!(floor.low < 123.0 && floor.high > 123.0 && floor.value < 124.0, "{floor:?}");
    assert!(out.floors[1].watts.is_some_and(|w| (w.value - 128.0).abs() < 0.5));
    let rest = out.unattributed_joules.unwrap() / out.measured_joules.unwrap();
    // Each launch is seen by one sample, which stands for 10 ms in what was measured.
    assert!(rest.abs() < 0.01, "{rest}");
    assert!(
        out.notes.iter().any(|n| n.contains("W before its first or after its last command")),
        "{:?}",
        out.notes
    );
}

#[test]
fn in_a_window_its_own_batches_are_told() {
    let (device, power) = repeated();
    let trace = Trace::open(Vec::new());
    let of = |energy_window: Option<(f64, f64)>| {
        let options = Options { energy_window, ..Options::default() };
        measure(
            &trace,
            timed(&device),
            &power,
            &Readings::default(),
            &External::default(),
            &options,
        )
    };
    assert_eq!(of(None).batches_told(), "16 batches");
    // Those that begin at 7.0, 7.6 and 8.2 s.
    let part = of(Some((0.0, 8.5)));
    assert_eq!(part.repetitions.as_ref().unwrap().batches_in_window, Some(3));
    let told = part.batches_told();
    assert!(told.starts_with("3 of the run's 16 batches"), "{told}");
}

#[test]
fn what_differs_from_run_to_run_is_no_drift() {
    // Two runs of 6 s, of which the second draws a tenth more; `slope`: change within each.
    let of = |slope: f64, runs: &[(i64, i64)]| {
        let (mut device, _) = repeated();
        device.replays.clear();
        device.classes.truncate(1);
        device.spans.retain(|span| span.class.0 == 0);
        let first = device.spans.clone();
        let moved = |at: HostNs| HostNs(at.0 + 6_000 * MS);
        let second = first.iter().map(|s| Span { start: moved(s.start), end: moved(s.end), ..*s });
        device.spans.extend(second.collect::<Vec<_>>());
        let watts = |ms: i64| {
            let later = if ms < 6_000 { 1.0 } else { 1.1 };
            let within = 1.0 + slope * (ms % 6_000) as f64 / 6_000.0;
            if ms % 100 < 40 { 200.0 * later * within } else { 30.0 * later * within }
        };
        let noise = |ms: i64| (ms / 10 % 3 - 1) as f64 * 0.1;
        let points = (0..1_200).map(|i| i * 10);
        let points = points.map(|ms| (HostNs(ms * MS), noise(ms) + watts(ms)));
        let series = Series::Instant(points.collect());
        let power = Power::of_series(series, ResponseModel::lagged_samples(0.01), 0.01, 0.06);
        let runs = runs.iter().map(|(from, to)| (HostNs(from * MS), HostNs(to * MS)));
        let readings =
            Readings { application: [(device.host, runs.collect())].into(), ..Readings::default() };
        let trace = Trace::open(Vec::new());
        let out = measure(
            &trace,
            timed(&device),
            &power,
            &readings,
            &External::default(),
            &Options::default(),
        );
        assert_eq!(out.failed, None);
        out.notes.into_iter().find(|note| note.starts_with("power changed"))
    };
    let two = [(0, 6_000), (6_000, 12_000)];
    assert!(of(0.0, &[(0, 12_000)]).is_some(), "or nothing is tested");
    assert_eq!(of(0.0, &two), None);
    let within = of(0.1, &two).expect("both changed");
    assert!(within.contains("one of the runs"), "{within}");
}

#[test]
fn iterations_with_repetitions_between_and_windows_beside_the_run_are_refused() {
    let (mut device, power) = repeated();
    let trace = Trace::open(Vec::new());
    let of = |device: &PhysicalDevice, options: &Options| {
        measure(&trace, timed(device), &power, &Readings::default(), &External::default(), options)
    };
    let iterations = Options { iteration_kernel: Some("k".into()), ..Options::default() };
    let out = of(&device, &iterations);
    assert!(out.iteration.is_none());
    assert!(out.notes.iter().any(|n| n.contains("without --replay")), "{:?}", out.notes);
    device.replays.clear();
    assert!(of(&device, &iterations).iteration.is_some());
    let beside = Options { energy_window: Some((100.0, 200.0)), ..Options::default() };
    let failed = of(&device, &beside).failed.unwrap_or_default();
    assert!(failed.contains("no reading of the sensor lies between 100 and 200 s"), "{failed}");
}

#[test]
fn what_workers_measured_does_not_settle_whose_turn_it_was() {
    let (mut device, power) = repeated();
    let trace = Trace::open(Vec::new());
    let figures = |device: &PhysicalDevice| {
        let out = measure(
            &trace,
            timed(device),
            &power,
            &Readings::default(),
            &External::default(),
            &Options::default(),
        );
        assert_eq!(out.failed, None);
        let class = &out.classes[0];
        let of_class = [class.joules, class.joules_per_launch, class.watts].map(Option::unwrap);
        let groups = out.groups.iter().find(|g| g.names == ["k"]).unwrap();
        (class.basis, [&of_class[..], &[groups.joules, groups.watts]].concat())
    };
    let (basis, alone) = figures(&device);
    assert_eq!(basis, result::Basis::Alone, "repetitions are part of the figure");
    for left in [0.0, 1.0] {
        device.shared = Some(Shared {
            processes: 2,
            overlap_seconds: 1.0,
            left_seconds: left,
            separated: left <= 0.3,
        });
        let (_, shared) = figures(&device);
        for (narrow, wide) in alone.iter().zip(&shared) {
            assert_eq!(narrow.value, wide.value);
            assert!(wide.low < narrow.low && wide.high > narrow.high, "{narrow:?} {wide:?}");
        }
    }
}

#[test]
fn figures_above_the_limit_of_the_device_are_not_known() {
    let (device, mut power) = repeated();
    let trace = Trace::open(Vec::new());
    let mut of = |limit: Option<f64>| {
        power.limit = limit;
        measure(
            &trace,
            timed(&device),
            &power,
            &Readings::default(),
            &External::default(),
            &Options::default(),
        )
    };
    let free = of(None);
    let joules = free.classes[0].joules.unwrap().value;
    let watts = free.classes[0].watts.unwrap();
    assert!((watts.value - 200.0).abs() < 5.0, "{watts:?}");
    // The limit holds means: a tenth more is possible for a while.
    for limit in [200.0, 190.0] {
        let within = of(Some(limit));
        assert_eq!(within.classes[0].watts, Some(watts), "{limit}");
        assert!(!within.notes.iter().any(|n| n.contains("limited")), "{:?}", within.notes);
    }
    let above = of(Some(140.0));
    let class = &above.classes[0];
    assert_eq!((class.joules, class.watts), (None, None));
    assert_eq!(class.absence, Some(result::Absence::AboveLimit));
    assert!(above.notes.iter().any(|n| n.contains("limited to (140 W)")), "{:?}", above.notes);
    let rest = above.unattributed_joules.unwrap() - free.unattributed_joules.unwrap();
    assert!(!above.groups.iter().any(|g| g.names == ["k"]) && class.group.is_none());
    assert!((rest - joules).abs() < 1e-9 * joules, "its energy is in no row");
    let possible = 1.1 * 140.0 * class.busy_seconds / class.launches;
    let below = class.joules_per_launch_below.unwrap();
    assert!((below / possible - 1.0).abs() < 1e-3, "{below} {possible}");
    // Also where the interval reaches below.
    let edge = of(Some((watts.value + watts.low) / 2.0 / rows::ABOVE_LIMIT));
    let class = &edge.classes[0];
    assert_eq!((class.watts, class.absence), (None, Some(result::Absence::AboveLimit)));
}

/// Watts of a kernel: the value with its ends, and of idle power.
fn drawn() -> impl Strategy<Value = (f64, f64, f64, f64)> {
    (5.0f64..400.0, 0.0f64..300.0, 0.0f64..300.0, 1.0f64..60.0)
}

proptest! {
    /// Whatever was estimated: a figure and its ends lie between idle power and what the device can
    /// draw, or it is nowhere; and all parts are what was measured.
    #[test]
    fn every_figure_is_one_that_a_device_can_have(
        kernels in prop::collection::vec(drawn(), 1..6),
        together in 0usize..3,
        limit in prop::option::of(100.0f64..300.0),
        busy in 1e-3f64..10.0,
        rest in prop::option::of((1.0f64..90.0, 0.0f64..0.5)),
    ) {
        let rest = rest.map(|(watts, half)| Interval::symmetric(watts, half * watts));
        let mut out = DeviceEnergy {
            floors: vec![result::Floor {
                state: 0,
                name: "between launches",
                watts: rest,
                idle_seconds: 1.0,
                joules: None,
            }],
            ..DeviceEnergy::default()
        };
        let mut all = 0.0;
        for (at, (watts, below, above, idle)) in kernels.iter().enumerate() {
            let idle = Interval::estimated(idle.min(*watts), idle.min(*watts) * 0.9, idle * 1.1);
            let watts = Interval::estimated(*watts, (watts - below).max(0.0), watts + above);
            let joules = watts.times(busy);
            all += joules.value;
            let in_sum = at < together && together > 1;
            let class = result::Class {
                name: format!("k{at}"),
                kind: "kernel",
                launches: 10.0,
                busy_seconds: busy,
                covered_seconds: busy,
                absence: in_sum.then_some(result::Absence::InSum),
                joules: (!in_sum).then_some(joules),
                joules_per_launch: (!in_sum).then(|| joules.times(0.1)),
                watts: (!in_sum).then_some(watts),
                dynamic_joules: (!in_sum).then(|| joules.minus(idle.times(busy))),
                idle_joules: (!in_sum).then(|| idle.times(busy)),
                plain_watts: Some(watts.value),
                group: Some(if in_sum { 0 } else { out.groups.len() }),
                ..Default::default()
            };
            match out.groups.first_mut().filter(|_| in_sum) {
                Some(sum) => {
                    sum.names.push(class.name.clone());
                    sum.busy_seconds += busy;
                    sum.joules = sum.joules.plus(joules);
                    sum.idle = sum.idle.plus(idle.times(busy));
                    sum.watts = sum.joules.times(1.0 / sum.busy_seconds);
                }
                None => out.groups.push(result::Group {
                    names: vec![class.name.clone()],
                    busy_seconds: busy,
                    busy_open: 0.0,
                    joules,
                    watts,
                    idle: idle.times(busy),
                }),
            }
            out.classes.push(class);
        }
        out.leave(Some(Interval::symmetric(1.0, 0.5)));
        rows::within_limit(&mut out, limit, None);
        rows::absent(&mut out);
        rows::bound(&mut out);
        let most = limit.map_or(f64::INFINITY, |limit| limit * rows::ABOVE_LIMIT) * 1.000_001;
        for group in &out.groups {
            let (watts, idle) = (group.watts, group.idle.low / group.busy_seconds * 0.999_999);
            prop_assert!(idle <= watts.low && watts.low <= watts.value, "{group:?}");
            let least = rest.map_or(0.0, |watts| watts.low) * 0.999_999;
            prop_assert!(least <= watts.low, "below idle power's lower end: {rest:?} {group:?}");
            prop_assert!(watts.value <= watts.high && watts.high <= most, "{group:?}");
            prop_assert!(group.joules.relative().unwrap() <= 0.5, "{group:?}");
        }
        for class in &out.classes {
            let group = class.group.map(|at| &out.groups[at]);
            prop_assert_eq!(class.joules.is_none(), class.absence.is_some());
            prop_assert_eq!(class.joules.is_none(), class.watts.is_none());
            prop_assert_eq!(class.joules.is_none(), class.plain_watts.is_none());
            prop_assert!(class.joules.is_none() || class.joules_per_launch_below.is_none());
            prop_assert!(class.dynamic_joules.is_none() || class.dynamic_joules_below.is_none());
            prop_assert!(class.joules.is_none() || group.map(|g| g.joules) == class.joules);
            prop_assert!(group.is_some() || class.absence.is_some());
            let each = class.joules_per_launch_below.unwrap_or(0.0);
            prop_assert!(each * class.launches <= most * class.busy_seconds);
        }
        let parts: f64 = out.groups.iter().map(|g| g.joules.value).sum();
        prop_assert!((parts + out.unattributed_joules.unwrap() - 1.0 - all).abs() < 1e-9 * all);
        let drawn: f64 = out.parts().iter().map(|part| part.joules.value).sum();
        prop_assert!((drawn - 1.0 - all).abs() < 1e-9 * all);
    }
}

#[test]
fn without_a_limit_figures_far_above_what_the_sensor_saw_are_not_known() {
    let (device, power) = repeated();
    let trace = Trace::open(Vec::new());
    let free = measure(
        &trace,
        timed(&device),
        &power,
        &Readings::default(),
        &External::default(),
        &Options::default(),
    );
    let watts = free.classes[0].watts.expect("200 W");
    for (seen, known) in [(None, true), (Some(201.0), true), (Some(60.0), false)] {
        let mut out = free.clone();
        rows::within_limit(&mut out, None, seen);
        rows::absent(&mut out);
        let class = &out.classes[0];
        assert_eq!(class.watts.is_some(), known, "{seen:?} {watts:?}");
        assert_eq!(class.joules.is_some(), known, "{seen:?}");
        assert_eq!(out.notes.iter().any(|n| n.contains("the sensor saw (60 W)")), !known);
    }
}

#[test]
fn what_is_not_known_at_all_has_no_figure_anywhere() {
    let (device, power) = repeated();
    let trace = Trace::open(Vec::new());
    let mut out = measure(
        &trace,
        timed(&device),
        &power,
        &Readings::default(),
        &External::default(),
        &Options::default(),
    );
    assert!(out.classes[0].joules.is_some() && out.classes[0].absence.is_none());
    out.classes[0].absence = Some(result::Absence::AboveLimit);
    rows::absent(&mut out);
    let json = serde_json::to_value(&out.classes[0]).expect("a row");
    for name in [
        "joules",
        "joules_per_launch",
        "watts",
        "dynamic_joules",
        "dynamic_joules_below",
        "idle_joules",
        "energy_delay_joule_seconds",
        "gflop_per_joule",
        "plain_watts",
        "second_average_watts",
    ] {
        assert!(json.get(name).expect(name).is_null(), "{name}: {json}");
    }
    assert_eq!(json["why"], result::Absence::AboveLimit.sentence());
}

#[test]
fn repetitions_of_other_arguments_make_no_row_worse() {
    // Launches of 40 ms at 200 W in the run; the one batch is of launches of 4 ms at 120 W.
    let (mut device, _) = repeated();
    device.spans.retain(|span| span.class.0 == 0);
    let run = device.spans.clone();
    let batch = (HostNs(7_000 * MS), HostNs(7_400 * MS));
    let watts = |ms: i64| {
        let at = HostNs(ms * MS);
        let here = |from: HostNs, to: HostNs| from <= at && at < to;
        match run.iter().any(|s| here(s.start, s.end)) {
            true => 200.0,
            false if here(batch.0, batch.1) => 120.0,
            false => 30.0,
        }
    };
    let points = (0..900).map(|i| i * 10);
    let points = points.map(|ms| (HostNs(ms * MS), (ms / 10 % 3 - 1) as f64 + watts(ms)));
    let series = Series::Instant(points.collect());
    let power = Power::of_series(series, ResponseModel::lagged_samples(0.01), 0.01, 0.06);
    device.replays[0].stamped = Some(4e-3);
    device.replays[0].batches = vec![(batch.0, batch.1, 100, false)];
    device.spans.push(repetition(batch.0, batch.1));
    let trace = Trace::open(Vec::new());
    let measured = |device: &PhysicalDevice| {
        measure(
            &trace,
            timed(device),
            &power,
            &Readings::default(),
            &External::default(),
            &Options::default(),
        )
    };
    let with = measured(&device);
    device.replays.clear();
    let alone = measured(&device);
    let of = |out: &DeviceEnergy| out.classes[0].joules_per_launch.expect("a figure");
    assert!((of(&with).value / 8.0 - 1.0).abs() < 0.02, "{:?}", with.classes[0]);
    assert!(of(&with).half() <= of(&alone).half() * 1.1, "{:?} {:?}", of(&with), of(&alone));
    assert!(with.classes[0].is_precise());
    assert!(with.notes.iter().any(|n| n.contains("much shorter or longer")), "{:?}", with.notes);
}

/// What the fit makes of each window in which the kernel ran alone, beside what was measured.
#[test]
fn windows_alone_are_predicted_by_the_fit() {
    let (device, power) = repeated();
    let options = Options { explain: Some("k".into()), ..Options::default() };
    let (trace, readings) = (Trace::open(Vec::new()), Readings::default());
    let out = measure(&trace, timed(&device), &power, &readings, &External::default(), &options);
    let explained = out.explained.unwrap();
    assert_eq!(explained.windows.len(), 16);
    for window in explained.windows {
        let (joules, predicted) =
            (window.joules_per_launch.unwrap(), window.predicted_joules_per_launch.unwrap());
        assert!((predicted / joules - 1.0).abs() < 0.05, "{window:?}");
        assert!(window.pull_watts.is_some_and(|watts| watts.abs() < 5.0), "{window:?}");
    }
}
