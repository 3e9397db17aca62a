//! Schedules with known truth: kernels of microseconds, windows of a tenth of a second.

use super::*;
use crate::energy::{DeviceIndex, Span, Timing};
use clscope_testing::Random;
use proptest::prelude::*;

const MS: i64 = 1_000_000;

/// Kernels of the given lengths in random proportions that change every 150 ms, with a rest after
/// each launch.
fn mix(lengths_us: &[i64], seconds: i64, seed: u64) -> Vec<Span> {
    let mut random = Random::new(seed);
    let mut spans = Vec::new();
    let mut at = 0;
    while at < seconds * 1000 * MS {
        let shares: Vec<f64> = lengths_us.iter().map(|_| random.uniform().powi(2)).collect();
        let total: f64 = shares.iter().sum();
        let until = at + 150 * MS;
        while at < until {
            let mut pick = random.uniform() * total;
            let class = shares.iter().position(|s| {
                pick -= s;
                pick < 0.0
            });
            let class = class.unwrap_or(0);
            let end = at + lengths_us[class] * 1000;
            spans.push(Span {
                class: ClassId(class as u32),
                device: DeviceIndex(0),
                start: HostNs(at),
                end: HostNs(end),
                timing: Timing::Timed,
            });
            at = end + 3000;
        }
    }
    spans
}

/// Windows of 97 to 102 ms, seen `delay` late and to `blur` either way, of a counter with these
/// values while classes run.
fn windows(
    spans: &[Span],
    values: &[f64],
    idle: f64,
    delay: i64,
    blur: i64,
    noise: f64,
) -> Vec<(HostNs, HostNs, f64)> {
    let mut random = Random::new(99);
    let last = spans.last().map_or(0, |s| s.end.0);
    let mut out = Vec::new();
    let (mut from, mut seen) = (-300 * MS, -300 * MS + delay);
    let mut first = 0;
    while from < last + 300 * MS {
        let to = from + 97 * MS + (random.uniform() * 5.0 * MS as f64) as i64;
        let mut sum = idle * (to - from) as f64;
        while spans.get(first).is_some_and(|s| s.end.0 <= from) {
            first += 1;
        }
        for span in spans[first..].iter().take_while(|s| s.start.0 < to) {
            let overlap = (span.end.0.min(to) - span.start.0.max(from)).max(0);
            sum += (values[span.class.0 as usize] - idle) * overlap as f64;
        }
        let mean = (sum / (to - from) as f64 + noise * (random.uniform() - 0.5)).max(0.0);
        let end = to + delay + ((random.uniform() - 0.5) * 2.0 * blur as f64) as i64;
        out.push((HostNs(seen), HostNs(end), mean));
        (from, seen) = (to, end);
    }
    out
}

const BETWEEN: Delay = Delay::Between { least: 0.0, most: 0.06, typical: 0.016, timer: Some(0.1) };
const LENGTHS: [i64; 4] = [120, 80, 199, 50];

#[test]
fn kernels_a_thousandth_of_a_window_have_their_own_values() {
    let spans = mix(&LENGTHS, 30, 5);
    let activity = Activity::new(&spans, 4);
    let truth =
        [[87.8, 0.0, 4.0, 1.5], [0.0, 97.2, 0.0, 0.0], [0.4, 0.6, 85.7, 0.1], [0.0, 0.0, 0.0, 0.0]];
    let series: Vec<_> =
        truth.iter().map(|values| windows(&spans, values, 0.0, 16 * MS, MS, 0.2)).collect();
    let counters: Vec<_> =
        series.iter().map(|w| Counter { windows: w, idle: Idle::Zero, full: 100.0 }).collect();
    let found = delay(&activity, &counters, BETWEEN);
    assert!((found - 0.016).abs() < 0.001, "{found}");
    for (values, result) in truth.iter().zip(attribute_all(&activity, &counters, BETWEEN)) {
        let result = result.unwrap();
        assert!(result.groups.is_empty() && result.idle.is_none());
        for (value, class) in values.iter().zip(&result.classes) {
            let mean = class.mean.unwrap();
            assert!((mean.value - value).abs() < 0.5, "{mean:?} is not {value}");
            assert!(
                mean.low - 0.15 <= *value && *value <= mean.high + 0.15,
                "{mean:?} does not hold {value}"
            );
            assert!(mean.half() < 1.0, "{mean:?}");
        }
    }
}

/// Snapshots every 100 ms of a timer that runs 30 millionths fast, seen when a cache that is
/// refreshed every 100.05 ms at best hands them out: up to a period late, sliding, until one is
/// left out.
fn slid(spans: &[Span], values: &[f64], phase: i64, lose: bool) -> Vec<(HostNs, HostNs, f64)> {
    let exact = |m: i64| phase + m * 99_997_000;
    let last = spans.last().map_or(0, |s| s.end.0);
    let mut random = Random::new(7);
    let mut out = Vec::new();
    let (mut seen, mut before) = (61 * MS, None);
    while seen < last {
        let m = (seen - 6 * MS - phase).div_euclid(99_997_000);
        if let Some((then, from)) = before.filter(|(_, from)| m > *from) {
            let (from, to) = (exact(from), exact(m));
            let busy: f64 = spans
                .iter()
                .skip(spans.partition_point(|s| s.end.0 <= from))
                .take_while(|s| s.start.0 < to)
                .map(|s| {
                    values[s.class.0 as usize]
                        * (s.end.0.min(to) - s.start.0.max(from)).max(0) as f64
                })
                .sum();
            out.push((
                HostNs(then),
                HostNs(seen),
                busy / (to - from) as f64 + 0.05 * (random.uniform() - 0.5),
            ));
        }
        before = Some((seen, m));
        seen += 100 * MS + (random.uniform() * 0.6 * MS as f64) as i64;
        if lose && out.len() % 97 == 50 {
            seen += 340 * MS;
        }
    }
    out
}

#[test]
fn snapshots_handed_out_late_are_found_on_their_timer() {
    let spans = mix(&LENGTHS, 40, 5);
    let activity = Activity::new(&spans, 4);
    let truth = [
        [85.9, 0.0, 1.1, 4.3],
        [0.0, 83.7, 0.0, 0.0],
        [0.0, 0.0, 62.3, 0.0],
        [59.6, 53.8, 90.4, 0.3],
    ];
    for (phase, lose) in [(0, false), (33 * MS, true), (95 * MS, true)] {
        let series: Vec<_> = truth.iter().map(|values| slid(&spans, values, phase, lose)).collect();
        let counters: Vec<_> =
            series.iter().map(|w| Counter { windows: w, idle: Idle::Zero, full: 100.0 }).collect();
        for (values, result) in truth.iter().zip(attribute_all(&activity, &counters, BETWEEN)) {
            let result = result.unwrap();
            assert!(
                result.on_timer && result.residual < 0.2,
                "{phase}: {} {}",
                result.on_timer,
                result.residual
            );
            for (value, class) in values.iter().zip(&result.classes) {
                let mean = class.mean.unwrap();
                assert!((mean.value - value).abs() < 0.3, "{phase}: {mean:?} is not {value}");
            }
        }
    }
}

#[test]
fn what_goes_on_at_rest_is_told_apart() {
    let spans: Vec<Span> =
        mix(&LENGTHS[..2], 20, 3).into_iter().filter(|s| s.start.0 / (700 * MS) % 3 != 1).collect();
    let activity = Activity::new(&spans, 2);
    let series = windows(&spans, &[30.0, 5.0], 2.0, 0, 0, 0.1);
    let counters = [Counter { windows: &series, idle: Idle::Fitted, full: 100.0 }];
    let result = attribute_all(&activity, &counters, Delay::Known(0.0)).remove(0).unwrap();
    let means: Vec<f64> = result.classes.iter().map(|c| c.mean.unwrap().value).collect();
    assert!((means[0] - 30.0).abs() < 0.2 && (means[1] - 5.0).abs() < 0.2, "{means:?}");
    assert!((result.idle.unwrap().value - 2.0).abs() < 0.1);
}

#[test]
fn kernels_in_one_proportion_are_known_as_a_sum() {
    let mut spans = Vec::new();
    for i in 0..100_000i64 {
        let at = i * 200_000 + i / 5000 * 80 * MS;
        for (class, from, to) in [(0, 0, 60_000), (1, 60_000, 180_000)] {
            let (start, end) = (HostNs(at + from), HostNs(at + to));
            spans.push(Span {
                class: ClassId(class),
                device: DeviceIndex(0),
                start,
                end,
                timing: Timing::Timed,
            });
        }
    }
    let activity = Activity::new(&spans, 2);
    let series = windows(&spans, &[90.0, 30.0], 0.0, 0, 0, 0.1);
    let result = attribute_all(
        &activity,
        &[Counter { windows: &series, idle: Idle::Zero, full: 100.0 }],
        Delay::Known(0.0),
    )
    .remove(0)
    .unwrap();
    assert_eq!(result.groups.len(), 1);
    assert_eq!(result.groups[0].classes, [ClassId(0), ClassId(1)]);
    assert!((result.groups[0].mean.value - 50.0).abs() < 0.5, "{:?}", result.groups[0]);
    assert!(
        result.classes.iter().all(|c| c.mean.is_none() && c.only_with == Some(0)),
        "{:?}",
        result.classes
    );
}

/// The noise of one window over the part of it that such a class ran is its interval, whatever the
/// window happened to read.
#[test]
fn a_class_that_hardly_ran_has_no_figure() {
    const NOISE: f64 = 0.1;
    for seed in [3, 5, 11, 17, 23, 29, 41, 53] {
        let mut spans = mix(&LENGTHS[..2], 20, seed);
        let after = (seed as usize * 997) % spans.len();
        let begin = spans[after].end.0;
        let (start, end) = (HostNs(begin + 500), HostNs(begin + 2500));
        spans.insert(
            after + 1,
            Span { class: ClassId(2), device: DeviceIndex(0), start, end, timing: Timing::Timed },
        );
        let activity = Activity::new(&spans, 3);
        let series = windows(&spans, &[30.0, 5.0, 70.0], 0.0, 0, 0, NOISE);
        let counter = Counter { windows: &series, idle: Idle::Zero, full: 100.0 };
        let result = attribute_all(&activity, &[counter], Delay::Known(0.0)).remove(0).unwrap();
        let hardly = result.classes[2];
        assert!(hardly.mean.is_none(), "{seed}: {hardly:?}");
        // Uniform noise of this width has a deviation of its twelfth's root; a class's share of
        // its window is 2 us of 97 to 102 ms.
        let least = NOISE / 12f64.sqrt() * 97e3 / 2.0;
        match hardly.vague {
            Some(vague) => assert!(vague.high > least, "{seed}: {vague:?}, not {least}"),
            None => assert!(hardly.only_with.is_some(), "{seed}: {hardly:?}"),
        }
        for (value, class) in [30.0, 5.0].into_iter().zip(&result.classes) {
            let mean = class.mean.expect("it ran for seconds");
            assert!((mean.value - value).abs() < 0.3, "{seed}: {mean:?} is not {value}");
        }
    }
}

#[test]
fn what_a_counter_cannot_read_is_no_figure() {
    let sure = |value: f64, half: f64| {
        is_figure(&Interval::estimated(value, value - half, value + half), 80.0, 100.0)
    };
    assert!(sure(99.0, 3.0) && sure(101.0, 3.0), "the noise of a counter near its most");
    assert!(!sure(110.0, 5.0) && !sure(1369.0, 208.0), "nothing reads this");
    assert!(!sure(140.0, 60.0), "the value counts as 100, and 60 is more than half of it");
    let unbounded = Interval::estimated(1e6, 0.9e6, 1.1e6);
    assert!(is_figure(&unbounded, 2e6, 0.0), "a count has no most");
}

#[test]
fn nothing_to_go_by_is_an_error() {
    let spans = mix(&LENGTHS, 1, 5);
    let activity = Activity::new(&spans, 4);
    let few = windows(&spans, &[1.0; 4], 0.0, 0, 0, 0.0);
    for windows in [&few[..3], &few[..0]] {
        let result = attribute_all(
            &activity,
            &[Counter { windows, idle: Idle::Zero, full: 100.0 }],
            BETWEEN,
        )
        .remove(0);
        assert!(matches!(result, Err(AttributionError::TooFewReadings { .. })), "{result:?}");
    }
    assert_eq!(
        delay(&activity, &[Counter { windows: &few[..3], idle: Idle::Zero, full: 100.0 }], BETWEEN),
        0.016
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    /// Whatever the values: what classes did and what the windows hold are one sum.
    #[test]
    fn classes_add_up_to_what_was_counted(values in prop::collection::vec(0.0f64..100.0, 3), seed in 1u64..1000) {
        let spans = mix(&LENGTHS[..3], 8, seed);
        let activity = Activity::new(&spans, 3);
        let series = windows(&spans, &values, 0.0, 0, 0, 0.0);
        let result = attribute_all(&activity, &[Counter { windows: &series, idle: Idle::Zero, full: 100.0 }], Delay::Known(0.0)).remove(0).unwrap();
        let whole: f64 = series.iter().map(|w| w.2 * (w.1.0 - w.0.0) as f64 * 1e-9).sum();
        let mut parts: f64 = result.classes.iter().filter_map(|c| Some(c.mean?.value * c.covered.0)).sum();
        parts += result.groups.iter().map(|g| {
            g.mean.value * g.classes.iter().map(|c| result.classes[c.0 as usize].covered.0).sum::<f64>()
        }).sum::<f64>();
        prop_assert!((parts - whole).abs() <= 0.005 * whole + 1e-6, "{parts} {whole}");
    }
}

#[test]
fn a_mean_above_full_scale_is_a_figure_within_the_clocks_resolution_only() {
    let of = |value: f64| Interval::estimated(value, value - 0.002, value + 0.002);
    assert!(is_figure(&of(100.003), 100.0, 100.0));
    assert!(!is_figure(&of(101.0), 100.0, 100.0));
    // Without a full scale nothing is too much.
    assert!(is_figure(&of(101.0), 100.0, 0.0));
}

/// One launch of 25 us, beside which something copied what no class did.
#[test]
fn what_else_happened_in_a_window_is_no_figure_of_one_short_launch() {
    let mut spans = mix(&LENGTHS[..2], 8, 3);
    let at = spans[spans.len() / 2].end.0 + 500;
    spans.push(Span {
        class: ClassId(2),
        device: DeviceIndex(0),
        start: HostNs(at),
        end: HostNs(at + 25_000),
        timing: Timing::Timed,
    });
    spans.sort_by_key(|s| s.start);
    let activity = Activity::new(&spans, 3);
    let mut series = windows(&spans, &[300.0, 500.0, 300.0], 0.0, 0, 0, 0.5);
    let with = series.iter().position(|w| w.0.0 <= at && w.1.0 > at).unwrap();
    series[with].2 += 800.0;
    let of = |full| {
        let counter = Counter { windows: &series, idle: Idle::Zero, full };
        attribute_all(&activity, &[counter], Delay::Known(0.0)).remove(0).unwrap().classes
    };
    let classes = of(0.0);
    assert!(classes[0].mean.is_some() && classes[1].mean.is_some(), "{classes:?}");
    assert_eq!(classes[2].mean, None);
    assert!(classes[2].vague.is_some(), "{classes:?}");
}
