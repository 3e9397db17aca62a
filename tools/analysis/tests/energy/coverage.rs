//! How often intervals hold the truth of simulated runs.

use super::*;

/// Two-sided binomial bounds at 1 in 10,000 for a coverage of 95 %: wide enough never to fail by
/// chance with fixed seeds, narrow enough to catch intervals that are wrong by a third. The full
/// figures: `attribution_truth`.
#[test]
fn intervals_cover_the_truth() {
    let (mut inside, mut all) = (0u32, 0u32);
    for seed in 0..40 {
        let noise = 0.3 + f64::from(seed as u32 % 12) * 0.1;
        let sensor = if seed % 4 == 3 {
            STEPS
        } else {
            Sensor::Samples { period: 0.02, lag: 0.014, delay: 0.003, noise }
        };
        let scenario = Scenario {
            sensor,
            seconds: if seed % 4 == 3 { 16.0 } else { 5.0 },
            warming: if seed % 2 == 0 { 0.016 } else { 0.0 },
            ..scenario(100 + seed)
        };
        let rate = 119.0 + 0.2 * Random::new(seed).normal();
        let (run, result) = solve(&scenario, &known(rate));
        for (row, truth) in result.classes.iter().zip(&run.watts) {
            let watts = row.watts.expect("told");
            all += 1;
            inside += u32::from(watts.low <= *truth && *truth <= watts.high);
        }
    }
    let (mean, sd) = (0.95 * f64::from(all), (f64::from(all) * 0.95 * 0.05).sqrt());
    assert!(
        (f64::from(inside) - mean).abs() < 3.9 * sd,
        "{inside} of {all} intervals hold the truth"
    );
}

/// A fit of a dozen columns bends towards the few hundred readings of a short run.
#[test]
fn intervals_of_short_runs_know_that_a_fit_bends_towards_its_readings() {
    let (mut inside, mut all) = (0u32, 0u32);
    for seed in 0..32 {
        let noise = 0.3 + f64::from(seed as u32 % 12) * 0.1;
        let sensor = Sensor::Samples { period: 0.02, lag: 0.014, delay: 0.003, noise };
        let scenario = Scenario { sensor, seconds: 5.0, warming: 0.016, ..scenario(1000 + seed) };
        let (run, result) = solve(&scenario, &known(119.0 + 0.2 * Random::new(seed).normal()));
        for (row, truth) in result.classes.iter().zip(&run.watts) {
            let watts = row.watts.expect("told");
            all += 1;
            inside += u32::from(watts.low <= *truth && *truth <= watts.high);
        }
        assert!(result.unattributed.covers(0.0), "{:?}", result.unattributed);
    }
    let (mean, sd) = (0.95 * f64::from(all), (f64::from(all) * 0.95 * 0.05).sqrt());
    assert!(f64::from(inside) > mean - 3.0 * sd, "{inside} of {all} intervals hold the truth");
}

/// Samples that scatter most where kernels take turns: rates keep unbiased, and intervals know.
#[test]
fn intervals_hold_for_a_sensor_that_meets_single_kernels() {
    let (mut inside, mut all, mut square) = (0u32, 0u32, 0.0);
    for seed in 0..16 {
        let sensor =
            Sensor::Moments { period: 0.02, every: 2e-4, lag: 0.014, delay: 0.003, noise: 0.8 };
        let (run, result) =
            solve(&Scenario { sensor, seconds: 6.0, ..scenario(700 + seed) }, &known(119.0));
        for (row, truth) in result.classes.iter().zip(&run.watts) {
            let watts = row.watts.expect("told");
            all += 1;
            inside += u32::from(watts.low <= *truth && *truth <= watts.high);
            square += (watts.value / truth - 1.0).powi(2);
        }
    }
    let (mean, sd) = (0.95 * f64::from(all), (f64::from(all) * 0.95 * 0.05).sqrt());
    assert!(f64::from(inside) > mean - 3.9 * sd, "{inside} of {all} intervals hold the truth");
    assert!((square / f64::from(all)).sqrt() < 0.02, "rms {}", (square / f64::from(all)).sqrt());
}

/// Short kernels that run in one order behind a long copy: what tells them apart is the sensor's
/// response alone, of which another that is as credible says otherwise. Figures and sums hold the
/// truth, whatever the response.
#[test]
fn bursts_in_one_order_are_known_no_better_than_the_response() {
    let two =
        Sensor::TwoPoles { period: 0.02, first: 0.011, second: 0.005, delay: 0.002, noise: 0.8 };
    let (mut inside, mut all) = (0u32, 0u32);
    for (seed, sensor) in (0..8).flat_map(|seed| [(seed, SAMPLES), (seed, two)]) {
        let mut random = Random::new(900 + seed);
        let short = |random: &mut Random| Kernel {
            watts: random.between(140.0, 620.0),
            length: random.between(1e-4, 6e-4),
        };
        let copy = Kernel { watts: random.between(160.0, 260.0), length: 0.3 };
        let kernels = std::iter::once(copy).chain((0..8).map(|_| short(&mut random))).collect();
        let scenario =
            Scenario { kernels, mix: Mix::Ordered, sensor, seconds: 40.0, ..scenario(900 + seed) };
        let (run, result) = solve(&scenario, &known(119.0));
        assert_conserved(&result);
        for group in &result.groups {
            let of = |class: &ClassId| (run.share[class.0 as usize], run.watts[class.0 as usize]);
            let (time, joules) = group
                .classes
                .iter()
                .map(of)
                .fold((0.0, 0.0), |sum, (share, watts)| (sum.0 + share, sum.1 + share * watts));
            let is_known = group.joules.relative().is_some_and(|wide| wide <= 0.5);
            if is_known {
                all += 1;
                inside += u32::from(group.watts.covers(joules / time));
            }
        }
    }
    let (mean, sd) = (0.95 * f64::from(all), (f64::from(all) * 0.95 * 0.05).sqrt());
    assert!(all >= 16 && f64::from(inside) > mean - 3.9 * sd, "{inside} of {all} hold the truth");
}
