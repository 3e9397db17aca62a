//! Readings simulated from the model itself, on a grid of its parameters, with fixed seeds.

use super::*;
use clscope_testing::Random;

const POLLED: Errors = Errors::Polled { averaged: 1 };
/// Watts of idle power.
const REST: f64 = 126.0;

/// Readings with their degrees above the mean of the run.
type Simulated = (Vec<Reading>, Vec<f64>);

/// Fits what was simulated; of `alpha` and `between` as much is known beforehand as `of` has.
fn fit((readings, warmer): &Simulated, kernels: usize, of: Truth) -> Option<Fit> {
    let none = || vec![0.0; readings.len()];
    let active = |r: &Reading| f64::from(u8::from(r.capture.is_none() && !r.launches.is_empty()));
    let effects = [
        Effect {
            belief: (0.0, 10.0 / REST),
            idle: warmer.clone(),
            launches: none(),
            known: Vec::new(),
        },
        Effect {
            belief: (0.0, of.alpha.max(1e-3) * 2.0),
            idle: none(),
            launches: warmer.clone(),
            known: Vec::new(),
        },
        Effect {
            belief: (0.0, of.between.max(0.01) / REST),
            idle: readings.iter().map(active).collect(),
            launches: none(),
            known: Vec::new(),
        },
    ];
    let errors = of.errors.0;
    let model = Model {
        kernels,
        levels: &[None],
        effects: &effects,
        bent: None,
        errors,
        spread: 1.0,
        workers: WORKERS,
    };
    Fit::new(readings, &model)
}

/// Joules above idle of a second of a kernel.
fn power(fit: &Fit, kernel: usize) -> Interval {
    fit.contrast(&[(fit.kernel(kernel), 1.0)], true)
}

/// What a simulated device does.
#[derive(Clone, Copy)]
struct Truth {
    tau: f64,
    c: f64,
    noise: f64,
    /// Correlation of neighbours' errors: of a counter's differences, or of polled power.
    errors: (Errors, f64),
    alpha: f64,
    /// Windows of the run in which all kernels keep their proportions.
    steady: bool,
    /// Errors of the run's windows that grow with what kernels draw, as a share.
    of_load: f64,
    /// Standard deviation of idle power between launches against rests, watts.
    between: f64,
}

const PLAIN: Truth = Truth {
    tau: 0.03,
    c: 0.03,
    noise: 0.3,
    errors: (POLLED, 0.0),
    alpha: 0.0,
    steady: false,
    of_load: 0.0,
    between: 0.0,
};

/// All kernels keep their proportions throughout.
const STEADY: Truth = Truth { steady: true, ..PLAIN };

/// One of the values that tau and c may have.
fn likely(r: &mut Random) -> f64 {
    WORKERS.0 * (WORKERS.1 * r.normal()).exp()
}

/// Seconds of each kernel's launches: some draw 4 times the power of others.
fn lengths(kernels: usize) -> Vec<f64> {
    let factor = [1.0, 0.4, 1.6];
    (0..kernels).map(|k| 3e-4 * (1.0 + k as f64) * factor[k % 3]).collect()
}

/// Readings of the model itself: a run whose mixture changes, rests, and workers of 4 captures
/// a kernel with 6 windows each. With what kernels draw above idle, in watts.
fn simulate(kernels: usize, of: Truth, r: &mut Random) -> (Simulated, Vec<f64>) {
    let lengths = lengths(kernels);
    let mut degrees = Vec::new();
    let energies: Vec<f64> = (0..kernels).map(|k| 0.01 * (1.0 + k as f64)).collect();
    let (idle, beta, mut out) = (REST, 0.5, Vec::new());
    let mut last = 0.0;
    let between = of.between * r.normal();
    let mut read = |launches: Vec<(usize, f64)>,
                    joules: f64,
                    capture: Option<usize>,
                    follows: bool,
                    r: &mut Random| {
        let fresh = of.noise * r.normal();
        let error = match of.errors {
            _ if !follows => fresh,
            (Errors::Counter, theta) => fresh - theta * last,
            (Errors::Polled { .. }, phi) => phi * last + (1.0 - phi * phi).sqrt() * fresh,
        };
        last = if of.errors.0 == Errors::Counter { fresh } else { error };
        let warmer = 5.0 * r.normal();
        let warmed = joules * (1.0 + of.alpha * warmer);
        let in_run = if capture.is_none() && joules > 0.0 {
            between + of.of_load * joules * r.normal()
        } else {
            0.0
        };
        let energy = (idle + beta * warmer) + warmed + in_run + error;
        out.push(Reading {
            energy,
            idle: vec![(0, 1.0)],
            launches: launches.iter().map(|(k, n)| (*k, n * lengths[*k])).collect(),
            unsure: Vec::new(),
            capture,
            variance: if capture.is_some() { of.noise * of.noise } else { 1.0 },
            follows,
        });
        degrees.push(warmer);
    };
    for i in 0..20 {
        read(Vec::new(), 0.0, None, i > 0, r);
    }
    for i in 0..40 {
        let own = |r: &mut Random| if of.steady { 1.0 } else { 1.0 + 0.05 * r.normal() };
        let launches: Vec<(usize, f64)> = (0..kernels)
            .map(|k| (k, 2_000.0 * own(r) / (kernels as f64 * (1.0 + k as f64))))
            .collect();
        let joules = launches.iter().map(|(k, n)| n * energies[*k]).sum();
        read(launches, joules, None, i > 0, r);
    }
    for (k, e) in energies.iter().enumerate() {
        let in_worker = of.tau * r.normal();
        for capture in 0..4 {
            let own = e * (1.0 + in_worker + of.c * r.normal());
            for i in 0..6 {
                let n = 2_000.0 / (1.0 + k as f64);
                read(vec![(k, n)], n * own, Some(4 * k + capture), i > 0, r);
            }
        }
    }
    let powers = energies.iter().zip(&lengths).map(|(e, length)| e / length).collect();
    ((out, degrees), powers)
}

#[test]
fn intervals_hold_as_often_as_they_say() {
    let mut random = Random::new(5);
    let grid = [
        (1, PLAIN),
        (2, Truth { tau: 0.05, c: 0.02, ..PLAIN }),
        (4, Truth { tau: 0.02, c: 0.05, noise: 1.0, ..PLAIN }),
        (2, Truth { errors: (Errors::Counter, 0.8), noise: 1.0, ..PLAIN }),
        (2, Truth { errors: (POLLED, 0.6), noise: 1.0, ..PLAIN }),
        (3, STEADY),
        (2, Truth { alpha: 0.004, ..PLAIN }),
        (2, Truth { of_load: 0.1, ..PLAIN }),
        (2, Truth { between: 2.0, ..PLAIN }),
    ];
    for (kernels, of) in grid {
        let (mut held, mut all, trials) = (0u32, 0u32, 10);
        for _ in 0..trials {
            // Nothing but what was known before says how far workers are from a run that is steady.
            let of = match of.steady {
                true => Truth { tau: likely(&mut random), c: likely(&mut random), ..of },
                false => of,
            };
            let (readings, truth) = simulate(kernels, of, &mut random);
            let fit = fit(&readings, kernels, of).expect("determined");
            for (k, e) in truth.iter().enumerate() {
                let found = power(&fit, k);
                held += u32::from(found.covers(*e));
                all += 1;
                assert!(found.half() < 0.5 * found.value, "{found:?}");
            }
        }
        // With a share of 95 %, fewer are held once in a thousand seeds: by three standard
        // deviations of a binomial count. How tau and c are known beforehand makes it more.
        let least = 0.95 * f64::from(all) - 3.0 * (0.95 * 0.05 * f64::from(all)).sqrt();
        assert!(f64::from(held) >= least, "{kernels} kernels: {held} of {all}");
    }
}

/// Readings of the run say how far they err, and workers' own how far those do.
#[test]
fn a_run_that_scatters_makes_workers_no_less_sure() {
    let mut random = Random::new(21);
    let ((quiet, degrees), _) = simulate(3, STEADY, &mut random);
    let mut loud = quiet.clone();
    let of_work = |r: &Reading| r.capture.is_none() && !r.launches.is_empty();
    for reading in loud.iter_mut().filter(|r| of_work(r)) {
        reading.energy += 30.0 * random.normal();
    }
    let (alone, alone_degrees): (Vec<Reading>, Vec<f64>) =
        quiet.into_iter().zip(degrees.clone()).filter(|(r, _)| !of_work(r)).unzip();
    let with = fit(&(loud, degrees), 3, STEADY).expect("determined");
    let without = fit(&(alone, alone_degrees), 3, STEADY).expect("determined");
    for k in 0..3 {
        let (with, without) = (power(&with, k), power(&without, k));
        assert!(with.half() < 1.1 * without.half(), "{k}: {with:?}, without the run {without:?}");
    }
}

#[test]
fn correlated_errors_are_found() {
    let mut random = Random::new(8);
    {
        let errors = (Errors::Counter, 0.8);
        let of = Truth { errors, noise: 5.0, ..PLAIN };
        let mean = (0..10)
            .map(|_| {
                let (readings, _) = simulate(2, of, &mut random);
                fit(&readings, 2, of).expect("determined").correlation
            })
            .sum::<f64>()
            / 10.0;
        assert!((mean - errors.1).abs() < 0.25, "{errors:?}: {mean}");
    }
}

#[test]
fn a_reading_that_moves_a_little_moves_figures_a_little_and_order_nothing() {
    let (mut readings, _) = simulate(3, PLAIN, &mut Random::new(9));
    let second = |of: &Simulated| power(&fit(of, 3, PLAIN).expect("determined"), 1);
    let near = |a: Interval, b: Interval| {
        assert!((a.value / b.value - 1.0).abs() < 1e-3, "{a:?} {b:?}");
        assert!((a.half() / b.half() - 1.0).abs() < 1e-2, "{a:?} {b:?}");
    };
    let before = second(&readings);
    // What two traces hold, in either order: the run with its rests, and the workers.
    readings.0.rotate_left(60);
    readings.1.rotate_left(60);
    let turned = second(&readings);
    near(turned, before);
    readings.0[7].energy *= 1.0 + 1e-6;
    near(second(&readings), turned);
}

#[test]
fn of_a_steady_run_the_sum_is_known_and_the_parts_are_not() {
    let mut random = Random::new(12);
    let (mut held, mut parts) = (0, 0);
    for _ in 0..20 {
        let (mut readings, truth) = simulate(3, STEADY, &mut random);
        readings.0.retain(|reading| reading.capture.is_none());
        readings.1.truncate(readings.0.len());
        let fit = fit(&readings, 3, PLAIN).expect("a sum");
        let each: Vec<f64> =
            lengths(3).iter().zip(1..).map(|(length, k)| length / f64::from(k)).collect();
        let joules: f64 = each.iter().zip(&truth).map(|(n, watts)| n * watts).sum();
        let frame: Vec<(usize, f64)> =
            each.iter().enumerate().map(|(k, n)| (fit.kernel(k), *n)).collect();
        let found = fit.contrast(&frame, true);
        held += u32::from(found.covers(joules));
        assert!(found.half() < 0.05 * found.value, "{found:?}");
        parts += (0..3)
            .map(|k| (power(&fit, k), truth[k]))
            .filter(|(of, e)| of.covers(*e) && of.half() > 0.3 * of.value)
            .count();
    }
    assert!(held >= 16, "the sum: {held} of 20");
    assert!(parts >= 54, "the parts: {parts} of 60");
}

#[test]
fn units_of_energy_change_nothing() {
    let (mut readings, _) = simulate(2, PLAIN, &mut Random::new(6));
    let second = |of: &Simulated| power(&fit(of, 2, PLAIN).expect("determined"), 1);
    let before = second(&readings);
    for reading in &mut readings.0 {
        reading.energy *= 1e3;
        reading.variance *= 1e6;
    }
    let after = second(&readings);
    let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-3, "{before:?} {after:?}");
    near(after.value, 1e3 * before.value);
    near(after.low, 1e3 * before.low);
    near(after.high, 1e3 * before.high);
}

#[test]
fn what_is_never_read_is_not_known() {
    let (readings, _) = simulate(2, PLAIN, &mut Random::new(3));
    let third = power(&fit(&readings, 3, PLAIN).expect("determined"), 2);
    assert!(third.half() > 0.5 * third.value, "what others draw, and no more: {third:?}");
}

#[test]
fn no_kernel_gives_energy_back() {
    let (mut readings, truth) = simulate(2, PLAIN, &mut Random::new(4));
    for reading in &mut readings.0 {
        let of_second: f64 = reading.launches.iter().filter(|l| l.0 == 1).map(|l| l.1).sum();
        reading.energy -= 1.05 * truth[1] * of_second;
    }
    let fit = fit(&readings, 2, PLAIN).expect("determined");
    let second = power(&fit, 1);
    assert!(second.low >= 0.0 && second.high < 0.1 * truth[1], "{second:?}");
    // What the second lacks, the first cannot have: it is off by no more.
    let first = power(&fit, 0);
    assert!((first.value / truth[0] - 1.0).abs() < 0.1, "{first:?}");
}

/// A reading of the run with launches that take so many joules above idle.
fn polled(seconds: f64, launches: Vec<(usize, f64)>, above: f64, r: &mut Random) -> Reading {
    Reading {
        energy: REST * seconds + above + 0.1 * r.normal(),
        idle: vec![(0, seconds)],
        launches,
        unsure: Vec::new(),
        capture: None,
        variance: 1.0,
        follows: false,
    }
}

/// Copies that take long and little are no reason to believe that short kernels take little.
#[test]
fn what_runs_longest_says_nothing_of_the_others() {
    let mut r = Random::new(5);
    let (kernels, step, busy) = (21, 0.02, 0.007);
    let watts = |k: usize| if k == 0 { 0.0 } else { 150.0 + 15.0 * k as f64 };
    let mut readings = Vec::new();
    let mut read = |launches: Vec<(usize, f64)>| {
        let above: f64 = launches.iter().map(|(k, s)| watts(*k) * s).sum();
        readings.push(polled(step, launches, above, &mut r));
    };
    for k in 1..kernels {
        (0..15).for_each(|_| read(Vec::new()));
        (0..3).for_each(|_| read(vec![(0, step)]));
        read(vec![(k, busy)]);
    }
    let warmer = vec![0.0; readings.len()];
    let fit = fit(&(readings, warmer), kernels, PLAIN).unwrap();
    let known: Vec<Interval> = (1..kernels).map(|k| power(&fit, k)).collect();
    let holds = |(of, k): (&Interval, usize)| (of.low..=of.high).contains(&watts(k));
    let held = known.iter().zip(1..).filter(|of| holds(*of)).count();
    let near = known.iter().zip(1..).filter(|(of, k)| of.value > 0.7 * watts(*k)).count();
    assert!(held >= 18 && near == 20, "{known:?}");
}

/// Beside a copy that takes next to nothing, what ran too briefly may draw what kernels do.
#[test]
fn what_ran_too_briefly_may_draw_what_any_kernel_does() {
    let mut r = Random::new(6);
    let step = 0.02;
    let mut read = |launches| polled(step, launches, 0.0, &mut r);
    let all = (0..60).map(|at| match at % 10 {
        7 => read(vec![(0, step)]),
        8 if at == 28 => read(vec![(1, 1e-5)]),
        _ => read(Vec::new()),
    });
    let readings: Vec<Reading> = all.collect();
    let warmer = vec![0.0; readings.len()];
    let fit = fit(&(readings, warmer), 2, PLAIN).unwrap();
    let (copy, brief) = (power(&fit, 0), power(&fit, 1));
    assert!(copy.high < 0.2 * REST, "{copy:?}");
    assert!(brief.high > 2.0 * REST, "{brief:?}");
}
