//! Tests of `idle`.

use super::super::activity::{Span, Timing};
use super::super::units::{ClassId, DeviceIndex};
use super::*;

/// Work for a second, a tail of ten seconds, a second tail of five, then the bottom: as the
/// operating states of desktop GPUs were described (three levels, 10 s and 5 s).
#[test]
fn tails_after_work_are_seen_as_levels() {
    let span = Span {
        class: ClassId(0),
        device: DeviceIndex(0),
        start: HostNs(2_000_000_000),
        end: HostNs(3_000_000_000),
        timing: Timing::Timed,
    };
    let activity = Activity::new(&[span], 1);
    let samples = (0..1500)
        .map(|i| {
            let t = f64::from(i) * 0.02;
            let level = match t {
                _ if t < 2.0 => 30.0,
                _ if t < 3.0 => 180.0,
                _ if t < 13.0 => 90.0,
                _ if t < 18.0 => 55.0,
                _ => 30.0,
            };
            (HostNs(i64::from(i) * 20_000_000), level + 0.4 * f64::from(i % 5 - 2))
        })
        .collect();
    let idle = idle_levels(&activity, &Series::Instant(samples), Seconds(0.1), &[]);
    let watts: Vec<f64> = idle.levels.iter().map(|level| level.watts.0.round()).collect();
    assert_eq!(watts, [90.0, 55.0, 30.0]);
    assert_eq!(idle.floors().len(), 3);
    assert!(idle.levels.iter().all(|level| level.sd.0 < 0.5), "{:?}", idle.levels);
    let states: Vec<(usize, i64)> =
        idle.states.iter().map(|s| (s.state, (s.start.0 as f64 / 1e9).round() as i64)).collect();
    assert_eq!(states, [(2, 0), (1, 13), (2, 18)]);
}

/// Work every second, rests at 120 W behind all but one, and behind that one 0.4 s at 155 W, as
/// a clock that something else raised.
#[test]
fn the_floor_is_what_most_work_is_followed_by() {
    let span = |at: i64| Span {
        class: ClassId(0),
        device: DeviceIndex(0),
        start: HostNs(at * 1_000_000_000),
        end: HostNs(at * 1_000_000_000 + 100_000_000),
        timing: Timing::Timed,
    };
    let spans: Vec<Span> = (1..5).map(span).collect();
    let samples = (0..300).map(|i| {
        let t = f64::from(i) * 0.02 + 0.01;
        let watts = match t {
            _ if (1.0..5.0).contains(&t) && t.fract() < 0.1 => 300.0,
            _ if (2.1..2.6).contains(&t) => 155.0,
            _ => 120.0,
        };
        (HostNs(i64::from(i) * 20_000_000 + 10_000_000), watts + 0.4 * f64::from(i % 5 - 2))
    });
    let activity = Activity::new(&spans, 1);
    let idle = idle_levels(&activity, &Series::Instant(samples.collect()), Seconds(0.05), &[]);
    let watts: Vec<f64> = idle.levels.iter().map(|level| level.watts.0.round()).collect();
    assert_eq!(watts, [120.0, 155.0]);
    assert_eq!(idle.states.iter().map(|s| s.state).collect::<Vec<_>>(), [1]);
    let at = idle.states[0].start.0 as f64 * 1e-9;
    assert!((2.1..2.3).contains(&at), "{at}");
    assert!(!idle.only_before(&activity));
}

/// Ten spans of 0.1 s, 0.4 s apart.
fn bursts() -> Vec<Span> {
    let burst = |i: i64| Span {
        class: ClassId(0),
        device: DeviceIndex(0),
        start: HostNs(i * 400_000_000 + 200_000_000),
        end: HostNs(i * 400_000_000 + 300_000_000),
        timing: Timing::Timed,
    };
    (0..10).map(burst).collect()
}

/// A device that always draws 40 W, by a counter that is read at random: all that idle time and
/// work show is 40 W.
#[test]
fn uneven_readings_of_a_constant_power_are_that_power() {
    let mut seed = 7u64;
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as i64
    };
    let spans = bursts();
    // Counts every millisecond; the reader sees that late by up to 0.9 ms, and at times by 20.
    let mut at = 0;
    let points = std::iter::from_fn(|| {
        at += if next() % 20 == 0 { 20_000_000 } else { 100_000 + next() % 3_000_000 };
        (at < 4_500_000_000).then_some((HostNs(at), (at / 1_000_000) as f64 * 0.04))
    });
    let series = Series::Cumulative(points.collect());
    let activity = Activity::new(&spans, 1);
    let idle = idle_levels(&activity, &series, Seconds(0.003), &[]);
    let [level] = &idle.levels[..] else { panic!("{idle:?}") };
    assert!((level.watts.0 - 40.0).abs() < student(0.975, 9.0) * level.sd.0.max(0.02), "{level:?}");
    let working = while_working(&activity, &series, Seconds(0.003)).unwrap();
    assert!((working.mean.0 - 40.0).abs() < 0.1, "{working:?}");
    assert_eq!(idle.undercut(working), None, "{idle:?} {working:?}");
}

/// Of a difference of two counters of which one catches up late: no idle power is below nothing.
#[test]
fn less_than_nothing_is_no_power() {
    let spans = bursts();
    let activity = Activity::new(&spans, 1);
    let ms = |n: i64| HostNs(n * 1_000_000);
    for late in [1, 40] {
        let rows = (0..450).map(|n| {
            let watts = if late > 1 && n % 10 == 9 { -400.0 } else { 20.0 };
            (ms(10 * n), ms(10 * n + 10), watts)
        });
        let series = Series::WindowMean(rows.collect());
        let working = while_working(&activity, &series, Seconds(0.01));
        assert_eq!(working.is_some(), late == 1, "{working:?}");
        let idle = idle_levels(&activity, &series, Seconds(0.01), &[]);
        assert!(working.is_none_or(|working| idle.undercut(working).is_none()), "{idle:?}");
    }
}

#[test]
fn without_idle_time_the_floor_is_left_to_the_fit() {
    let activity = Activity::new(&[], 1);
    let none = idle_levels(&activity, &Series::Instant(Vec::new()), Seconds(0.1), &[]);
    assert_eq!(none.floors(), [Floor::Fitted]);
}

/// Readings every 20 ms of a device that is at `before` until it works from 4 to 8 s, and at
/// `after` from then on.
fn worked(before: f64, after: f64, until: i32) -> (Activity, Series) {
    let span = Span {
        class: ClassId(0),
        device: DeviceIndex(0),
        start: HostNs(4_000_000_000),
        end: HostNs(8_000_000_000),
        timing: Timing::Timed,
    };
    let level = |t: f64| match t {
        _ if t < 4.0 => before,
        _ if t < 8.0 => 300.0,
        _ => after,
    };
    let samples = (0..until)
        .map(|i| {
            let noise = 0.4 * f64::from(i % 5 - 2);
            (HostNs(i64::from(i) * 20_000_000), level(f64::from(i) * 0.02) + noise)
        })
        .collect();
    (Activity::new(&[span], 1), Series::Instant(samples))
}

#[test]
fn what_a_run_did_not_show_lies_above_what_it_showed() {
    let known = Floor::Known { rate: 118.0, sd: 1.0 };
    let of = |(activity, series): (Activity, Series)| {
        let idle = idle_levels(&activity, &series, Seconds(0.1), &[]);
        (idle.only_before(&activity), idle.reaches(Watts(118.0)), idle)
    };
    // It worked to the end, and was in a deep state before.
    let (unseen, reached, idle) = of(worked(80.0, 0.0, 400));
    assert!(unseen && !reached);
    let (floors, states) = idle.below(known);
    assert_eq!((floors[0], floors.len()), (known, 2));
    assert_eq!(states.iter().map(|s| s.state).collect::<Vec<_>>(), [1]);
    // It rested after work: at what it drew then.
    assert!(!of(worked(80.0, 110.0, 800)).0);
    assert!(!of(worked(80.0, 81.0, 800)).0);
    // It was at that level before.
    assert!(of(worked(116.0, 0.0, 400)).1);
    // It never rested.
    let idle = IdleLevels::default();
    assert!(idle.only_before(&Activity::new(&[], 1)) && !idle.reaches(Watts(118.0)));
    assert_eq!(idle.below(known), (vec![known], Vec::new()));
}

/// As an H200 read every 20 ms, 14 ms late: at rest until the application opens it, at its
/// floor from then on; the application ends 0.2 s after its last command.
#[test]
fn few_readings_after_the_last_command_show_the_floor() {
    let span = Span {
        class: ClassId(0),
        device: DeviceIndex(0),
        start: HostNs(360_000_000),
        end: HostNs(5_400_000_000),
        timing: Timing::Timed,
    };
    let of = |until: i64| {
        let watts = |ms: i64| match ms {
            ..=200 => 82.0,
            201..=220 => 90.5,
            221..=240 => 120.8,
            _ => 130.0,
        };
        let noise = |ms: i64| 0.4 * ((ms / 20) % 5 - 2) as f64;
        let all = (0..until / 20).map(|i| 20 * i + 10);
        let samples = all.map(|ms| (HostNs(ms * 1_000_000), watts(ms) + noise(ms)));
        let (activity, series) = (Activity::new(&[span], 1), Series::Instant(samples.collect()));
        let idle = idle_levels(&activity, &series, Seconds(0.12), &[]);
        (
            idle.only_before(&activity),
            idle,
            while_working(&activity, &series, Seconds(0.12)).map(|w| w.least),
        )
    };
    let (only_before, idle, _) = of(5600);
    assert!(!only_before, "{idle:?}");
    assert!((idle.levels[0].watts.0 - 130.0).abs() < 1.0, "{idle:?}");
    assert!((idle.levels[1].watts.0 - 82.0).abs() < 1.0, "{idle:?}");
    // It ends at once: the readings between the opening and the first command show the floor.
    let (only_before, idle, least) = of(5420);
    let least = least.unwrap();
    assert!(only_before && (least.0 - 130.0).abs() < 1.5, "{idle:?} {least:?}");
    assert!(idle.reaches(least), "{idle:?}");
    assert!((idle.levels[0].watts.0 - 130.0).abs() < 1.0, "{idle:?}");
}

#[test]
fn where_a_device_never_rested_since_its_floor_is_between_what_it_drew() {
    let (activity, series) = worked(80.0, 0.0, 400);
    let idle = idle_levels(&activity, &series, Seconds(0.1), &[]);
    let least = while_working(&activity, &series, Seconds(0.1)).unwrap().least;
    assert!((least.0 - 300.0).abs() < 0.5, "{least:?}");
    let Some(Floor::Known { rate, sd }) = idle.or_up_to(Watts(130.0)) else { panic!("{idle:?}") };
    let half = student(0.975, f64::INFINITY) * sd;
    let (low, high) = (rate - half, rate + half);
    assert!((low - 80.0).abs() < 2.0 && (high - 130.0).abs() < 0.5, "{low} to {high}");
    assert_eq!(idle.or_up_to(Watts(82.0)), None, "it drew no more");
}

/// Frames of a millisecond every 10 ms on an H200: 128 W before its context is made and behind
/// its end, 123 W between frames.
#[test]
fn rest_above_what_was_drawn_between_frames_is_another_state() {
    let of = |between: f64| {
        let span = |i: i64| Span {
            class: ClassId(0),
            device: DeviceIndex(0),
            start: HostNs(300_000_000 + i * 10_000_000),
            end: HostNs(301_000_000 + i * 10_000_000),
            timing: Timing::Timed,
        };
        let spans: Vec<Span> = (0..200).map(span).collect();
        let watts = |ms: i64| if (300..2320).contains(&ms) { between } else { 128.0 };
        let noise = |ms: i64| 0.4 * ((ms / 20) % 5 - 2) as f64;
        let all = (0..130).map(|i| 20 * i + 10);
        let samples = all.map(|ms| (HostNs(ms * 1_000_000), watts(ms) + noise(ms))).collect();
        let (activity, series) = (Activity::new(&spans, 1), Series::Instant(samples));
        let idle = idle_levels(&activity, &series, Seconds(0.04), &[]);
        let working = while_working(&activity, &series, Seconds(0.04)).unwrap();
        (idle.undercut(working), idle)
    };
    let (floor, idle) = of(123.0);
    let Some(Floor::Known { rate, sd }) = floor else { panic!("{idle:?}") };
    let half = student(0.975, f64::INFINITY) * sd;
    assert!((rate - 123.0).abs() < 0.5 && (0.5..2.0).contains(&half), "{rate} {half}");
    // Noise of one level undercuts nothing, nor do frames that draw more.
    assert_eq!((of(128.0).0, of(140.0).0), (None, None));
}

/// Two recordings, each at rest at 82 W, opened at 130 W, at work, and at 130 W behind it.
#[test]
fn what_two_recordings_show_between_their_work_is_each_at_its_level() {
    let span = |from: i64| Span {
        class: ClassId(0),
        device: DeviceIndex(0),
        start: HostNs((from + 400) * 1_000_000),
        end: HostNs((from + 2_400) * 1_000_000),
        timing: Timing::Timed,
    };
    let recording = |from: i64| {
        (0..130).map(move |i| {
            let ms = 20 * i;
            let watts = if ms < 210 { 82.0 } else { 130.0 };
            let noise = 0.4 * ((i % 5) - 2) as f64;
            (HostNs((from + ms) * 1_000_000), watts + noise)
        })
    };
    let parted = [(HostNs(9_999_000_000), f64::NAN)];
    let samples = recording(0).chain(parted).chain(recording(10_000)).collect();
    let activity = Activity::new(&[span(0), span(10_000)], 1);
    let idle = idle_levels(&activity, &Series::Instant(samples), Seconds(0.12), &[]);
    let watts: Vec<f64> = idle.levels.iter().map(|level| level.watts.0.round()).collect();
    assert_eq!(watts, [130.0, 82.0], "{idle:?}");
    assert!(!idle.only_before(&activity));
}
