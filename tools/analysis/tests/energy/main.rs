//! Owns the end-to-end tests of the energy attribution against simulated devices: accuracy,
//! coverage of the intervals, verdicts on schedules that cannot be told apart, and laws that hold
//! for any input.

mod coverage;
#[path = "../energy_truth/mod.rs"]
mod energy_truth;
mod invariance;
mod rest;
mod runs;
mod times;

use clscope_analysis::energy::{
    Absence, Activity, Attribution, AttributionError, ClassId, DeviceIndex, Floor, HostNs,
    Parameter, Problem, Response, ResponseModel, Seconds, Series, Span, StateSpan, Timing,
    attribute, attribute_runs, idle_levels, place, plain_integration, readings_of, together,
};
use clscope_analysis::interval::Interval;
use energy_truth::{Heat, Kernel, Mix, RAPL, Random, Run, STEPS, Scenario, Sensor};

const SAMPLES: Sensor = Sensor::Samples { period: 0.02, lag: 0.014, delay: 0.003, noise: 0.8 };

fn scenario(seed: u64) -> Scenario {
    let kernel = |watts, length| Kernel { watts, length };
    Scenario {
        kernels: vec![
            kernel(449.0, 49e-6),
            kernel(310.0, 199e-6),
            kernel(360.0, 120e-6),
            kernel(237.0, 500e-6),
        ],
        floor: 119.0,
        seconds: 8.0,
        mix: Mix::Changing(0.15),
        warming: 0.0,
        warming_time: 4.0,
        launch_spread: 0.02,
        piece_spread: 0.0,
        gap: 2e-5,
        timed: 1.0,
        heat: None,
        sensor: SAMPLES,
        seed,
    }
}

fn known(rate: f64) -> [Floor; 1] {
    [Floor::Known { rate, sd: 0.2 }]
}

fn problem<'a>(
    activity: &'a Activity,
    series: &'a Series,
    floors: &'a [Floor],
    response: ResponseModel,
) -> Problem<'a> {
    Problem {
        activity,
        series,
        response,
        floors,
        states: &[],
        drift: 3,
        temperature: &[],
        pooled: None,
        found: None,
        own: &[],
        workers: &[],
        spread: 1.0,
        rest_as_sum: true,
        iterations: &[],
    }
}

fn fixed(of: Response) -> ResponseModel {
    let [window, lag, delay] = [of.window, of.lag, of.delay].map(Parameter::Fixed);
    ResponseModel { window, lag, delay, blur: 0.0 }
}

fn model(sensor: Sensor) -> ResponseModel {
    match sensor {
        Sensor::Samples { period, .. }
        | Sensor::TwoPoles { period, .. }
        | Sensor::Moments { period, .. } => ResponseModel::lagged_samples(period),
        Sensor::Counter { update, .. } => ResponseModel::counter(update),
    }
}

fn solve(scenario: &Scenario, floors: &[Floor]) -> (Run, Attribution) {
    let run = scenario.run();
    let activity = Activity::new(&run.spans, scenario.kernels.len());
    let result = attribute(&problem(&activity, &run.series, floors, model(scenario.sensor)))
        .expect("a usable run");
    (run, result)
}

fn assert_conserved(result: &Attribution) {
    let parts: f64 = result.groups.iter().map(|group| group.joules.value).sum::<f64>()
        + result.floors.iter().filter_map(|f| Some(f.joules?.value)).sum::<f64>()
        + result.unattributed.value;
    assert!(
        (parts - result.measured.value).abs() <= 1e-9 * result.measured.value.abs().max(1.0),
        "{parts} of {}",
        result.measured.value
    );
}

fn span(class: u32, start: i64, end: i64) -> Span {
    Span {
        class: ClassId(class),
        device: DeviceIndex(0),
        start: HostNs(start),
        end: HostNs(end),
        timing: Timing::Timed,
    }
}

#[test]
fn watts_are_right_where_plain_integration_is_not() {
    for (sensor, allowed) in [(SAMPLES, 0.01), (STEPS, 0.03)] {
        let scenario = Scenario { sensor, seconds: 20.0, ..scenario(3) };
        let (run, result) = solve(&scenario, &known(119.0));
        let activity = Activity::new(&run.spans, 4);
        let plain = plain_integration(&activity, &run.series);
        let mut plain_worst = 0.0_f64;
        for (class, row) in result.classes.iter().enumerate() {
            let truth = run.watts[class];
            let watts = row.watts.expect("every class of a varying mix can be told").value;
            assert!(
                (watts / truth - 1.0).abs() < allowed,
                "class {class}: {watts} W for {truth} W"
            );
            plain_worst = plain_worst.max((plain[class].expect("covered").0 / truth - 1.0).abs());
        }
        assert!(plain_worst > 0.1, "the comparison has nothing to show: {plain_worst}");
        assert_conserved(&result);
        assert!(result.unattributed.value.abs() < 0.01 * result.measured.value);
        assert!((result.measured.value - run.joules).abs() < 0.02 * run.joules);
    }
}

#[test]
fn a_response_of_another_shape_does_not_pull_the_rates_apart() {
    let sensor =
        Sensor::TwoPoles { period: 0.02, first: 0.011, second: 0.005, delay: 0.002, noise: 0.8 };
    let (run, result) = solve(&Scenario { sensor, seconds: 30.0, ..scenario(15) }, &known(119.0));
    for (row, truth) in result.classes.iter().zip(&run.watts) {
        let watts = row.watts.expect("told").value;
        assert!((watts / truth - 1.0).abs() < 0.003, "{watts} W for {truth} W");
    }
}

#[test]
fn sampled_timing_serves_where_the_other_launches_are_placed() {
    let scenario = Scenario { timed: 0.1, seconds: 20.0, ..scenario(16) };
    let run = scenario.run();
    let floors = known(119.0);
    let mut placed = Vec::new();
    let unplaced = place(run.launches.iter().copied(), true, |span| placed.push(span));
    assert_eq!(unplaced, 0);
    let activity = Activity::new(&placed, 4);
    let result =
        attribute(&problem(&activity, &run.series, &floors, model(SAMPLES))).expect("usable");
    for (row, truth) in result.groups.iter().zip(&run.watts) {
        assert!((row.watts.value / truth - 1.0).abs() < 0.01, "{:?} for {truth}", row.watts);
    }
}

#[test]
fn a_hundred_kernel_names_are_fitted() {
    let mut random = Random::new(17);
    let kernels = (0..100).map(|_| Kernel {
        watts: random.between(140.0, 440.0),
        length: random.between(1e-4, 1e-3),
    });
    let scenario = Scenario { kernels: kernels.collect(), seconds: 15.0, ..scenario(17) };
    let (_, result) = solve(&scenario, &known(119.0));
    assert_conserved(&result);
    let members: usize = result.groups.iter().map(|group| group.classes.len()).sum();
    assert_eq!(members, 100);
}

#[test]
fn rapl_counters_with_jitter_are_resolved() {
    let kernels =
        [(21.0, 30e-6), (9.0, 2e-3), (34.0, 4e-4)].map(|(watts, length)| Kernel { watts, length });
    let scenario = Scenario { kernels: kernels.to_vec(), floor: 3.0, sensor: RAPL, ..scenario(4) };
    let (run, result) = solve(&scenario, &[Floor::Known { rate: 3.0, sd: 0.01 }]);
    for (row, truth) in result.classes.iter().zip(&run.watts) {
        let watts = row.watts.expect("told").value;
        assert!((watts / truth - 1.0).abs() < 0.01, "{watts} W for {truth} W");
    }
}

#[test]
fn a_mix_that_never_varies_is_given_as_a_sum() {
    let scenario = Scenario { mix: Mix::Repeating, seconds: 20.0, ..scenario(5) };
    let (run, result) = solve(&scenario, &known(119.0));
    assert_eq!(result.groups.len(), 1, "{:?}", result.groups);
    let busy: f64 = run.share.iter().zip(&run.watts).map(|(share, watts)| share * watts).sum();
    let sum = result.groups[0].watts;
    assert!((sum.value / busy - 1.0).abs() < 0.01, "the sum itself is known: {sum:?} for {busy}");
    for row in &result.classes {
        assert_eq!((row.absence, row.group), (Some(Absence::InSum), Some(0)));
        assert_eq!(
            (row.watts, row.joules, row.joules_per_launch),
            (None, None, None),
            "a guess was given"
        );
    }
    assert_conserved(&result);
}

#[test]
fn kernels_always_launched_together_are_joined_and_the_others_told() {
    let scenario = Scenario { mix: Mix::Paired(0.15), seconds: 20.0, ..scenario(6) };
    let (run, result) = solve(&scenario, &known(119.0));
    let pair = result.classes[0].group.expect("ran");
    for class in [0, 1] {
        let row = result.classes[class];
        assert_eq!((row.absence, row.group), (Some(Absence::InSum), Some(pair)));
        assert_eq!(result.classes[class].watts, None);
    }
    for class in [2, 3] {
        assert_eq!(result.classes[class].needed, None);
        let watts = result.classes[class].watts.expect("told").value;
        assert!((watts / run.watts[class] - 1.0).abs() < 0.01);
    }
    let truth =
        (run.watts[0] * run.share[0] + run.watts[1] * run.share[1]) / (run.share[0] + run.share[1]);
    assert!(
        (result.groups[pair].watts.value / truth - 1.0).abs() < 0.01,
        "the pair's sum is known"
    );
    assert_conserved(&result);
}

#[test]
fn long_kernels_draw_what_the_sensor_shows_of_them() {
    let kernels = [(300.0, 0.4), (200.0, 0.3)].map(|(watts, length)| Kernel { watts, length });
    let scenario = Scenario {
        kernels: kernels.to_vec(),
        seconds: 30.0,
        gap: 5e-3,
        mix: Mix::Changing(2.0),
        launch_spread: 0.005,
        ..scenario(7)
    };
    let (run, result) = solve(&scenario, &known(119.0));
    for (row, truth) in result.classes.iter().zip(&run.watts) {
        assert!((row.watts.expect("told").value / truth - 1.0).abs() < 0.01);
    }
}

#[test]
fn warming_is_noticed_and_steadiness_is_not() {
    let noticed = |warming: f64| {
        let of = |seed| {
            let scenario = Scenario { warming, seconds: 12.0, ..scenario(seed) };
            solve(&scenario, &known(119.0)).1.drift.expect("looked for").noticed
        };
        (8..16).filter(|seed| of(*seed)).count()
    };
    // A 95 % interval leaves out the truth once in twenty times.
    assert!(noticed(0.02) >= 7 && noticed(0.0) <= 2, "{} {}", noticed(0.02), noticed(0.0));
}

#[test]
fn a_fitted_floor_is_found_where_the_run_shows_it() {
    let scenario = Scenario { gap: 3e-4, seconds: 20.0, ..scenario(9) };
    let (run, result) = solve(&scenario, &[Floor::Fitted]);
    let floor = result.floors[0].watts.expect("a third of the time is idle");
    assert!(floor.covers(119.0), "{floor:?}");
    for (row, truth) in result.classes.iter().zip(&run.watts) {
        assert!((row.watts.expect("told").value / truth - 1.0).abs() < 0.01);
        assert!(row.dynamic.is_some());
    }
}

#[test]
fn without_idle_time_the_split_is_absent_and_the_watts_are_not() {
    let scenario = Scenario { gap: 0.0, seconds: 20.0, ..scenario(10) };
    let mut run = scenario.run();
    // Leave out the idle quarter second at either end: no reading ever shows the floor.
    let (first, last) = (run.spans[0].start.0, run.spans[run.spans.len() - 1].end.0);
    if let Series::Instant(samples) = &mut run.series {
        samples.retain(|(at, _)| at.0 > first + 200_000_000 && at.0 < last);
    }
    let activity = Activity::new(&run.spans, 4);
    let result = attribute(&problem(&activity, &run.series, &[Floor::Fitted], model(SAMPLES)))
        .expect("usable");
    assert_eq!(result.floors[0].watts, None);
    for (row, truth) in result.classes.iter().zip(&run.watts) {
        assert_eq!(row.dynamic, None, "a split against an unseen floor is a guess");
        assert!((row.watts.expect("told").value / truth - 1.0).abs() < 0.01);
    }
    assert_conserved(&result);
}

#[test]
fn deep_idle_has_its_own_floor() {
    // 4 s busy, 4 s of deep idle at 77 W after a second at 119 W, on an ideal sensor.
    let ms = 1_000_000;
    let mut spans = Vec::new();
    let mut samples = Vec::new();
    for i in 0..4000 {
        let class = u32::from((i / 100) % 2 == 0);
        spans.push(span(class, i * ms, (i + 1) * ms));
    }
    for i in 0..450i64 {
        let at = i * 20 + 10;
        let watts = match at {
            0..4000 => 200.0 + 100.0 * f64::from(u8::from((at / 100) % 2 == 0)),
            4000..5000 => 119.0,
            _ => 77.0,
        };
        samples.push((HostNs(at * ms), watts + 0.3 * f64::from((i % 7) as i32 - 3)));
    }
    let activity = Activity::new(&spans, 2);
    let series = Series::Instant(samples);
    let floors = [Floor::Fitted, Floor::Fitted];
    let states = [StateSpan { state: 1, start: HostNs(5000 * ms), end: HostNs(9000 * ms) }];
    let problem = Problem {
        states: &states,
        drift: 0,
        ..problem(
            &activity,
            &series,
            &floors,
            fixed(Response { window: 1e-4, ..Response::default() }),
        )
    };
    let result = attribute(&problem).expect("usable");
    for (state, watts) in [(0, 119.0), (1, 77.0)] {
        let floor = result.floors[state].watts.expect("seen");
        assert!((floor.value - watts).abs() < 0.5, "{floor:?}");
    }
    let row = result.classes[1];
    let [dynamic, idle] = [row.dynamic, row.idle].map(|part| part.expect("floors are known").value);
    assert!(
        (idle / (119.0 * 2.0) - 1.0).abs() < 0.01,
        "running stands on the active floor, not the deep one: {idle}"
    );
    assert!((dynamic / (181.0 * 2.0) - 1.0).abs() < 0.01, "{dynamic}");
    assert_conserved(&result);
}

#[test]
fn two_devices_on_one_sensor_do_not_share_time() {
    let ms = 1_000_000;
    let mut spans = Vec::new();
    let mut windows = Vec::new();
    for i in 0..2000i64 {
        let (a, b) = (i % 3 != 0, (i / 7) % 2 == 0);
        if a {
            spans.push(Span { device: DeviceIndex(0), ..span(0, i * ms, (i + 1) * ms) });
        }
        if b {
            spans.push(Span { device: DeviceIndex(1), ..span(1, i * ms, (i + 1) * ms) });
        }
        let watts = 10.0 + 30.0 * f64::from(u8::from(a)) + 50.0 * f64::from(u8::from(b));
        windows.push((
            HostNs(i * ms),
            HostNs((i + 1) * ms),
            watts + 0.1 * f64::from((i % 5) as i32 - 2),
        ));
    }
    let activity = Activity::new(&spans, 2);
    let series = Series::WindowMean(windows);
    let floors = [Floor::Known { rate: 10.0, sd: 0.0 }];
    let problem =
        Problem { drift: 0, ..problem(&activity, &series, &floors, fixed(Response::default())) };
    let result = attribute(&problem).expect("usable");
    assert!((result.groups[0].dynamic.value / result.groups[0].busy.0 - 30.0).abs() < 0.1);
    assert!((result.groups[1].dynamic.value / result.groups[1].busy.0 - 50.0).abs() < 0.1);
    assert!(
        result.unattributed.value.abs() < 1e-3 * result.measured.value,
        "{:?}",
        result.unattributed
    );
    assert_conserved(&result);
}

/// A counter a GPU snapshots every 100 ms, in percent: the same fit, no floor, units in place of
/// watts.
#[test]
fn counters_averaged_over_snapshots_are_attributed_too() {
    let mut random = Random::new(12);
    let scenario = Scenario { seconds: 30.0, ..scenario(12) };
    let run = scenario.run();
    let rates = [90.0, 5.0, 40.0, 0.0];
    let snapshot = 100_000_000;
    let start = run.spans[0].start.0;
    let mut windows = Vec::new();
    for i in 0..290i64 {
        let (from, to) = (start + i * snapshot, start + (i + 1) * snapshot);
        let mean: f64 = run
            .spans
            .iter()
            .map(|s| {
                rates[s.class.0 as usize] * (s.end.0.min(to) - s.start.0.max(from)).max(0) as f64
            })
            .sum::<f64>()
            / snapshot as f64;
        windows.push((
            HostNs(from + 16_000_000),
            HostNs(to + 16_000_000),
            mean + 0.2 * random.normal(),
        ));
    }
    let activity = Activity::new(&run.spans, 4);
    let series = Series::WindowMean(windows);
    let floors = [Floor::Known { rate: 0.0, sd: 0.0 }];
    let result =
        attribute(&problem(&activity, &series, &floors, ResponseModel::shifted_windows(0.1)))
            .expect("usable");
    assert!((result.response.delay - 0.016).abs() < 2e-3, "{:?}", result.response);
    for (group, rate) in result.groups.iter().zip(rates) {
        assert!((group.watts.value - rate).abs() < 0.5, "{} for {rate}", group.watts.value);
    }
}

#[test]
fn a_run_too_short_says_how_long_it_needs() {
    let noisy = Sensor::Samples { period: 0.02, lag: 0.014, delay: 0.003, noise: 80.0 };
    let (_, result) =
        solve(&Scenario { seconds: 2.0, sensor: noisy, ..scenario(13) }, &known(119.0));
    let mut untold = 0;
    for row in &result.classes {
        match row.needed {
            Some(needed) => {
                assert!(needed.0 > result.covered.0, "{needed:?} needed, {:?} had", result.covered);
                untold += 1;
            }
            None => assert!(row.watts.expect("told").half() < 0.1 * 460.0),
        }
        assert_ne!(row.absence, Some(Absence::NotRead), "{row:?} ran while the sensor was read");
    }
    assert!(untold >= 2, "{:#?}", result.classes);
    assert_conserved(&result);

    let brief = Scenario { seconds: 0.4, ..scenario(13) };
    let run = brief.run();
    let activity = Activity::new(&run.spans, 4);
    let floors = known(119.0);
    let mut problem = problem(&activity, &run.series, &floors, model(SAMPLES));
    // A dozen readings: what they leave open is in the intervals.
    for row in attribute(&problem).expect("readings").classes {
        if let Some(watts) = row.watts {
            let truth = run.watts[row.class.0 as usize];
            assert!(watts.covers(truth), "{watts:?} for {truth}");
        }
    }
    let Series::Instant(samples) = &run.series else { panic!("samples") };
    let few = Series::Instant(samples[samples.len() / 2..samples.len() / 2 + 6].to_vec());
    problem.series = &few;
    let error = attribute(&problem).expect_err("six readings");
    assert!(matches!(error, AttributionError::TooFewReadings { .. }), "{error}");
}

#[test]
fn bad_problems_are_refused_with_a_reason() {
    let activity = Activity::new(&[span(0, 0, 1_000_000_000)], 1);
    let readings: Vec<(HostNs, f64)> =
        (0..100).map(|i| (HostNs(i * 20_000_000 + 5_000_000_000), 100.0)).collect();
    let series =
        Series::Cumulative(readings.iter().enumerate().map(|(i, r)| (r.0, i as f64)).collect());
    let model = fixed(Response::default());
    let floors = known(1.0);
    assert_eq!(attribute(&problem(&activity, &series, &[], model)), Err(AttributionError::NoFloor));
    assert_eq!(
        attribute(&problem(&activity, &series, &floors, model)),
        Err(AttributionError::NoOverlap)
    );
    let none = Series::Instant(Vec::new());
    assert!(matches!(
        attribute(&problem(&activity, &none, &floors, model)),
        Err(AttributionError::TooFewReadings { usable: 0, .. })
    ));
    // Neither a table of more cells than memory has, nor products of all pairs of classes.
    for (classes, readings) in [(2_000, 100), (1_000, 20_000)] {
        let spans: Vec<_> = (0..classes)
            .map(|k| span(k, i64::from(k) * 1_000, i64::from(k) * 1_000 + 500))
            .collect();
        let activity = Activity::new(&spans, classes as usize);
        let series =
            Series::Cumulative((0..readings).map(|i| (HostNs(i * 100_000), i as f64)).collect());
        match attribute(&problem(&activity, &series, &floors, model)) {
            Err(AttributionError::TooMuch { readings: rows, classes: told }) => {
                assert_eq!(told, classes as usize + 1);
                assert!(rows > 50 && rows <= readings as usize, "{rows}");
            }
            other => panic!("{classes} classes, {readings} readings: {other:?}"),
        }
    }
    let states = [StateSpan { state: 3, start: HostNs(0), end: HostNs(1) }];
    let wrong = Problem { states: &states, ..problem(&activity, &series, &floors, model) };
    assert_eq!(attribute(&wrong), Err(AttributionError::UnknownState { state: 3, floors: 1 }));
}

#[test]
fn iterations_cost_what_was_measured_between_their_marks() {
    let scenario = scenario(14);
    let run = scenario.run();
    let activity = Activity::new(&run.spans, 4);
    let first = run.spans[0].start.0;
    let marks: Vec<HostNs> = (0..8).map(|i| HostNs(first + i * 900_000_000)).collect();
    let floors = known(119.0);
    let result = attribute(&Problem {
        iterations: &marks,
        ..problem(&activity, &run.series, &floors, model(SAMPLES))
    })
    .expect("usable");
    let iteration = result.iteration.expect("marked");
    assert_eq!(iteration.iterations, 7);
    assert!((iteration.seconds.0 - 0.9).abs() < 1e-9);
    let mean = result.measured.value / result.covered.0 * 0.9;
    assert!(
        (iteration.joules.value / mean - 1.0).abs() < 0.2,
        "{:?} near {mean}",
        iteration.joules
    );
}

#[test]
fn a_reading_that_is_off_is_the_one_that_decides_most() {
    let scenario = Scenario { seconds: 12.0, ..scenario(21) };
    let run = scenario.run();
    let activity = Activity::new(&run.spans, scenario.kernels.len());
    let Series::Instant(points) = &run.series else { panic!("samples") };
    let mut off = points.clone();
    let at = off.len() / 2;
    off[at].1 += 150.0;
    let series = Series::Instant(off);
    let floors = known(119.0);
    let problem = problem(&activity, &series, &floors, model(SAMPLES));
    let result = attribute(&problem).unwrap();
    let decisions: Vec<_> = (0..4)
        .filter_map(|class| readings_of(&problem, ClassId(class), HostNs(0)).unwrap())
        .collect();
    assert_eq!(decisions.len(), 4, "each of them ran");
    // Times are rounded to nanoseconds twice.
    let is_it = |r: &clscope_analysis::energy::Reading| (r.at_ns - points[at].0.0).abs() < 1_000;
    for decision in &decisions {
        let readings = &decision.readings;
        assert_eq!(readings.len(), result.readings);
        // Residuals are those of the fit that the figures are of.
        let squares: f64 = readings.iter().map(|r| r.residual().powi(2)).sum();
        let rms = (squares / readings.len() as f64).sqrt();
        assert!((rms / result.residual.0 - 1.0).abs() < 1e-9, "{rms} {:?}", result.residual);
        let strongest = readings.iter().max_by(|a, b| {
            let off = |r: &&clscope_analysis::energy::Reading| r.residual().abs();
            off(a).total_cmp(&off(b))
        });
        assert!(is_it(strongest.unwrap()), "the one that is off");
    }
    // It moves a kernel by more than any other reading does, but for the one at the end of the run,
    // which alone shows how the sensor falls.
    let pull =
        |at: usize| decisions.iter().map(|d| d.readings[at].pull_watts.abs()).fold(0.0, f64::max);
    let index = decisions[0].readings.iter().position(is_it).unwrap();
    let above = (0..decisions[0].readings.len()).filter(|i| pull(*i) > pull(index)).count();
    assert!(above <= 1, "{above} move more than {} W", pull(index));
}
