//! Owns the coverage experiment of the energy attribution: many simulated runs, how far the
//! estimates are from the truth, and how often the intervals hold it. `cargo run --release
//! --example attribution_truth [runs] [name]`. Refuses to judge; it prints.

#[path = "../tests/energy_truth/mod.rs"]
mod energy_truth;

use clscope_analysis::energy::{
    Activity, DriftModel, Floor, Problem, ResponseModel, attribute, place, plain_integration,
    second_average,
};
use energy_truth::{Kernel, Mix, RAPL, Random, STEPS, Scenario, Sensor};

struct Family {
    name: &'static str,
    seconds: f64,
    kernels: usize,
    lengths: (f64, f64),
    sensor: fn(&mut Random) -> Sensor,
    model: fn() -> ResponseModel,
    big: bool,
    warming: f64,
    piece_spread: f64,
    gap: f64,
    timed: f64,
    /// Untimed launches are placed between the timed ones, instead of being stood for by them.
    placed: bool,
    fitted_floor: bool,
    mix: Mix,
}

fn samples(random: &mut Random) -> Sensor {
    Sensor::Samples { period: 0.02, lag: 0.014, delay: 0.003, noise: random.between(0.3, 1.4) }
}

/// A response that the estimator's family does not hold.
fn two_lags(random: &mut Random) -> Sensor {
    Sensor::TwoPoles {
        period: 0.02,
        first: 0.011,
        second: 0.005,
        delay: 0.002,
        noise: random.between(0.3, 1.4),
    }
}

/// A sensor that looks at single moments, as an H200's seems to: where kernels take turns its
/// samples scatter.
fn moments(random: &mut Random) -> Sensor {
    Sensor::Moments {
        period: 0.02,
        every: 2e-4,
        lag: 0.014,
        delay: 0.003,
        noise: random.between(0.3, 1.4),
    }
}

fn families() -> Vec<Family> {
    let base = Family {
        name: "",
        seconds: 20.0,
        kernels: 4,
        lengths: (1e-4, 1e-3),
        sensor: samples,
        model: || ResponseModel::lagged_samples(0.02),
        big: true,
        warming: 0.0,
        piece_spread: 0.0,
        gap: 2e-5,
        timed: 1.0,
        placed: false,
        fitted_floor: false,
        mix: Mix::Changing(0.15),
    };
    vec![
        Family {
            name: "samples 60 s, 10 us - 100 ms",
            seconds: 60.0,
            kernels: 5,
            lengths: (1e-5, 1e-1),
            ..base
        },
        Family { name: "samples 60 s, warming", seconds: 60.0, warming: 0.016, ..base },
        Family { name: "samples 20 s", ..base },
        Family { name: "samples 20 s, of single moments", sensor: moments, ..base },
        Family { name: "samples 20 s, warming", warming: 0.016, ..base },
        Family { name: "samples 60 s, two lags for one", seconds: 60.0, sensor: two_lags, ..base },
        Family { name: "samples 20 s, mix of every sample", mix: Mix::Changing(0.01), ..base },
        Family { name: "samples 20 s, kernels vary 1 %", piece_spread: 0.01, ..base },
        Family { name: "samples 20 s, floor fitted", fitted_floor: true, gap: 2e-4, ..base },
        Family { name: "samples 5 s, warming", seconds: 5.0, warming: 0.016, ..base },
        Family {
            name: "samples 20 s, 8 kernels, 10 us - 50 ms",
            kernels: 8,
            lengths: (1e-5, 5e-2),
            ..base
        },
        Family { name: "samples 20 s, 1 in 10 timed, placed", timed: 0.1, placed: true, ..base },
        Family { name: "samples 20 s, 1 in 10 timed, alone", timed: 0.1, ..base },
        Family { name: "samples 20 s, half timed, alone", timed: 0.5, ..base },
        Family { name: "samples 20 s, mix never varies", mix: Mix::Repeating, ..base },
        Family {
            name: "samples 20 s, never varies, to 10 ms",
            mix: Mix::Repeating,
            lengths: (1e-5, 1e-2),
            ..base
        },
        Family { name: "samples 20 s, two always in pairs", mix: Mix::Paired(0.15), ..base },
        Family {
            name: "RAPL 60 s, 10 us - 100 ms",
            seconds: 60.0,
            kernels: 5,
            lengths: (1e-5, 1e-1),
            sensor: |_| RAPL,
            model: || ResponseModel::counter(0.001),
            big: false,
            ..base
        },
        Family {
            name: "RAPL 20 s, warming",
            sensor: |_| RAPL,
            model: || ResponseModel::counter(0.001),
            big: false,
            warming: 0.016,
            ..base
        },
        Family {
            name: "steps 60 s, 10 us - 100 ms",
            seconds: 60.0,
            sensor: |_| STEPS,
            model: || ResponseModel::counter(0.1),
            lengths: (1e-5, 1e-1),
            ..base
        },
        Family {
            name: "steps 20 s, warming",
            sensor: |_| STEPS,
            model: || ResponseModel::counter(0.1),
            warming: 0.016,
            ..base
        },
    ]
}

#[derive(Default)]
struct Tally {
    intervals: usize,
    covered: usize,
    error: f64,
    square: f64,
    width: f64,
    signed: f64,
    untold: usize,
    plain: f64,
    second: f64,
    worst_rest: f64,
    drift: usize,
    runs: usize,
}

impl Tally {
    fn line(&self, name: &str) -> String {
        let n = self.intervals.max(1) as f64;
        format!(
            "{name:40} {:5} {:6.3} {:+6.3} {:6.3} {:6.3} {:6.1} {:5} {:7.2} {:7.2} {:7.3} {:5}/{}",
            self.intervals,
            100.0 * self.error / n,
            100.0 * self.signed / n,
            100.0 * (self.square / n).sqrt(),
            100.0 * self.width / n,
            100.0 * self.covered as f64 / n,
            self.untold,
            100.0 * self.plain / n,
            100.0 * self.second / n,
            100.0 * self.worst_rest,
            self.drift,
            self.runs,
        )
    }
}

fn scenario(family: &Family, seed: u64) -> Scenario {
    let mut random = Random::new(seed.wrapping_mul(7919) ^ 77);
    let (floor, low, high) = if family.big { (119.0, 140.0, 460.0) } else { (3.0, 6.0, 40.0) };
    let kernels = (0..family.kernels)
        .map(|_| Kernel {
            watts: random.between(low, high),
            length: (random.between(family.lengths.0.ln(), family.lengths.1.ln())).exp(),
        })
        .collect();
    Scenario {
        kernels,
        floor,
        seconds: family.seconds,
        mix: family.mix,
        warming: family.warming,
        warming_time: 4.0,
        launch_spread: 0.02,
        piece_spread: family.piece_spread,
        gap: family.gap,
        timed: family.timed,
        sensor: (family.sensor)(&mut random),
        seed,
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let runs: u64 = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(10);
    let only = arguments.next().unwrap_or_default();
    let verbose = arguments.next().is_some();
    println!(
        "{:40} {:>5} {:>6} {:>6} {:>6} {:>6} {:>6} {:>5} {:>7} {:>7} {:>7} {:>5}",
        "family",
        "n",
        "mae%",
        "bias%",
        "rms%",
        "±%",
        "cover",
        "none",
        "plain%",
        "1 s%",
        "rest%",
        "drift"
    );
    let mut all = Tally::default();
    for family in families().iter().filter(|family| family.name.contains(&only)) {
        let mut tally = Tally::default();
        let started = std::time::Instant::now();
        let mut spent = 0.0;
        for seed in 0..runs {
            let scenario = scenario(family, 1000 + seed);
            let run = scenario.run();
            let clock = std::time::Instant::now();
            let placed = family.placed.then(|| place(&run.launches));
            let spans = placed.as_ref().map_or(&run.spans, |placed| &placed.spans);
            let activity = Activity::new(spans, scenario.kernels.len());
            let sd = if family.big { 0.2 } else { 0.02 };
            let rate = scenario.floor + sd * Random::new(seed ^ 0x5EED).normal();
            let floors =
                [if family.fitted_floor { Floor::Fitted } else { Floor::Known { rate, sd } }];
            let problem = Problem {
                activity: &activity,
                series: &run.series,
                response: (family.model)(),
                floors: &floors,
                states: &[],
                drift: DriftModel::Polynomial(3),
                temperature: &[],
                workers: &[],
                spread: 1.0,
                rest_as_sum: true,
                iterations: &[],
            };
            let result = match attribute(&problem) {
                Ok(result) => result,
                Err(error) => {
                    println!("{}: {error}", family.name);
                    continue;
                }
            };
            spent += clock.elapsed().as_secs_f64();
            tally.runs += 1;
            tally.drift += usize::from(result.drift.is_some_and(|d| d.noticed));
            tally.worst_rest =
                tally.worst_rest.max((result.unattributed.value / result.measured.0).abs());
            let plain = plain_integration(&activity, &run.series);
            let second = second_average(&activity, &run.series);
            if verbose {
                println!(
                    "  {:?} rows {} theta {:.2} residual {:.2}",
                    result.response, result.readings, result.counter_jitter, result.residual.0
                );
            }
            for (class, row) in result.classes.iter().enumerate() {
                let truth = run.watts[class];
                if run.share[class] < 0.05 {
                    continue;
                }
                let Some(watts) = row.watts else {
                    tally.untold += 1;
                    continue;
                };
                let error = watts.value / truth - 1.0;
                if verbose {
                    println!(
                        "    {:8.1} us share {:.3} {:7.2} W {:+.2} % ± {:.2} {:?}",
                        scenario.kernels[class].length * 1e6,
                        run.share[class],
                        truth,
                        100.0 * error,
                        100.0 * watts.half() / truth,
                        row.unknown
                    );
                }
                for tally in [&mut tally, &mut all] {
                    tally.intervals += 1;
                    tally.error += error.abs();
                    tally.signed += error;
                    tally.square += error * error;
                    tally.width += watts.half() / truth;
                    tally.covered += usize::from(watts.low <= truth && truth <= watts.high);
                    tally.plain += plain[class].map_or(0.0, |w| (w.0 / truth - 1.0).abs());
                    tally.second += second[class].map_or(0.0, |w| (w.0 / truth - 1.0).abs());
                }
            }
        }
        println!(
            "{}   {:.2} s/run, {:.1} s",
            tally.line(family.name),
            spent / runs as f64,
            started.elapsed().as_secs_f64()
        );
    }
    println!("{}", all.line("all"));
}
