//! Owns the coverage experiment of the energy attribution: many simulated runs, how far the
//! estimates are from the truth, and how often the intervals hold it. `cargo run --release
//! --example attribution_truth [runs] [name]`. Refuses to judge; it prints.

#[path = "../tests/energy_truth/mod.rs"]
mod energy_truth;

use clscope_analysis::energy::{
    Activity, Attribution, ClassId, Floor, Problem, ResponseModel, Seconds, Worker, attribute,
    attribute_runs, idle_levels, place, plain_integration, second_average,
};
use energy_truth::{Heat, Kernel, Mix, RAPL, Random, Run, STEPS, Scenario, Sensor};

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
        Family {
            name: "samples 60 s, bursts in one order",
            seconds: 60.0,
            kernels: 9,
            mix: Mix::Ordered,
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
        heat: None,
        sensor: (family.sensor)(&mut random),
        seed,
    }
}

/// Two runs of one program on one device, at other temperatures.
struct Pair {
    name: &'static str,
    /// Degrees at the beginning of each.
    from: [f64; 2],
    /// Degrees that work adds.
    rise: f64,
    /// The mix never varies: workers measure each kernel.
    steady: bool,
}

const PAIRS: [Pair; 4] = [
    Pair { name: "45 and 57 C", from: [41.0, 53.0], rise: 6.0, steady: false },
    Pair { name: "41.7 and 44.3 C", from: [38.7, 41.3], rise: 4.0, steady: false },
    Pair { name: "45 and 57 C, steady", from: [41.0, 53.0], rise: 6.0, steady: true },
    Pair { name: "41.7 and 44.3 C, steady", from: [39.7, 42.3], rise: 2.5, steady: true },
];

/// Error and half-width of joules at 50 C of both runs of a pair, and how far they are apart.
#[derive(Default)]
struct AtFifty {
    figures: f64,
    width: f64,
    square: f64,
    covered: f64,
    pairs: f64,
    apart: f64,
    worst: f64,
    held: f64,
    apart_width: f64,
}

impl AtFifty {
    fn add(&mut self, both: [&Attribution; 2], runs: [&Run; 2], k: usize) {
        let of = |i: usize| {
            let (class, truth) = (&both[i].classes[k], runs[i].watts_at_50[k]);
            let each = class.busy.0 / class.launches * truth;
            class
                .per_launch_at_reference
                .map(|j| (j.times(1.0 / each), class.loads.at_reference.map(|n| n / each)))
        };
        let (Some(a), Some(b)) = (of(0), of(1)) else { return };
        for (joules, _) in [a, b] {
            self.figures += 1.0;
            self.width += joules.half();
            self.square += (joules.value - 1.0).powi(2);
            self.covered += f64::from(u8::from(joules.low <= 1.0 && 1.0 <= joules.high));
        }
        let apart = (a.0.value / b.0.value - 1.0).abs();
        let norm = |of: [f64; 2]| of.iter().map(|n| n * n).sum::<f64>() * 1.96 * 1.96;
        let own = |of: (clscope_analysis::interval::Interval, [f64; 2])| {
            (of.0.half().powi(2) - norm(of.1)).max(0.0)
        };
        let half = (own(a) + own(b) + norm([a.1[0] - b.1[0], a.1[1] - b.1[1]])).sqrt();
        self.pairs += 1.0;
        self.apart += apart * apart;
        self.worst = self.worst.max(apart);
        self.held += f64::from(u8::from(apart <= half));
        self.apart_width += half;
    }

    fn line(&self, name: &str) -> String {
        let (n, pairs) = (self.figures / 100.0, self.pairs / 100.0);
        format!(
            "{name:34} {:5} {:6.2} {:6.2} {:6.1} {:6.2} {:6.2} {:6.2} {:6.1}",
            self.figures,
            100.0 * (self.square / self.figures).sqrt(),
            self.width / n,
            self.covered / n,
            100.0 * (self.apart / self.pairs).sqrt(),
            100.0 * self.worst,
            self.apart_width / pairs,
            self.held / pairs,
        )
    }
}

/// Windows of workers: 4 captures of each kernel, which take another energy than in the run.
fn workers(run: &Run, scenario: &Scenario, own: &[f64], random: &mut Random) -> Vec<Worker> {
    let mut out = Vec::new();
    let mean = run.degrees.iter().map(|of| of.1).sum::<f64>() / run.degrees.len() as f64;
    let warm = 1.0 + scenario.heat.map_or(0.0, |of| of.above * (mean - 50.0));
    for (k, own) in own.iter().enumerate() {
        for capture in 0..4 {
            let of_capture = 0.02 * random.normal();
            for _ in 0..2 {
                let above = (run.watts_at_50[k] - scenario.floor) * warm * (1.0 + own + of_capture);
                out.push(Worker {
                    class: ClassId(k as u32),
                    capture: 4 * k + capture,
                    ran: 0.5,
                    joules: 0.5 * above * (1.0 + 0.003 * random.normal()),
                    idle: 0.0,
                    seconds: 0.5,
                    error: 0.0,
                    at: None,
                });
            }
        }
    }
    out
}

fn pairs(runs: u64, only: &str) {
    println!(
        "{:34} {:>5} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6}",
        "joules at 50 C", "n", "rms%", "±%", "cover", "apart", "worst", "±%", "cover"
    );
    for pair in PAIRS.iter().filter(|pair| pair.name.contains(only)) {
        let (mut alone, mut pooled) = (AtFifty::default(), AtFifty::default());
        for seed in 0..runs {
            let mut random = Random::new(seed.wrapping_mul(104_729) ^ 31);
            let (idle, above) = (0.012 + 0.012 * random.normal(), 0.003 * random.normal());
            let mix = if pair.steady { Mix::Repeating } else { Mix::Changing(0.15) };
            let lengths = if pair.steady { (3e-4, 3e-3) } else { (1e-4, 1e-3) };
            let family = Family { seconds: 20.0, mix, lengths, ..families().remove(2) };
            let own: Vec<f64> = (0..family.kernels).map(|_| 0.02 * random.normal()).collect();
            let both = [0, 1].map(|side| {
                let heat =
                    Heat { from: pair.from[side], rise: (pair.rise, 8.0), idle, above, rest: 2 };
                let seed = 7 * seed + side as u64;
                let scenario =
                    Scenario { heat: Some(heat), seed, ..scenario(&family, 3000 + seed / 7) };
                let run = scenario.run();
                let activity = Activity::new(&run.spans, scenario.kernels.len());
                let idle = idle_levels(&activity, &run.series, Seconds(0.1), &run.degrees);
                let floors = (idle.floors(), idle.states);
                let workers = match pair.steady {
                    true => workers(&run, &scenario, &own, &mut random),
                    false => Vec::new(),
                };
                (run, activity, floors, workers)
            });
            let problems = both.each_ref().map(|(run, activity, floors, workers)| Problem {
                activity,
                series: &run.series,
                response: (family.model)(),
                floors: &floors.0,
                states: &floors.1,
                drift: 3,
                temperature: &run.degrees,
                pooled: None,
                found: None,
                own: &[],

                workers,
                spread: 1.0,
                rest_as_sum: true,
                iterations: &[],
            });
            let each = problems.each_ref().map(|of| attribute(of).expect("a usable run"));
            let all = attribute_runs(&problems).expect("usable runs");
            let runs = both.each_ref().map(|of| &of.0);
            for k in (0..family.kernels).filter(|k| runs[0].share[*k] >= 0.05) {
                alone.add(each.each_ref(), runs, k);
                pooled.add([&all[0], &all[1]], runs, k);
            }
        }
        println!("{}", alone.line(&format!("{}, alone", pair.name)));
        println!("{}", pooled.line(&format!("{}, together", pair.name)));
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let runs: u64 = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(10);
    let only = arguments.next().unwrap_or_default();
    let verbose = arguments.next().is_some();
    if let Some(pair) = only.strip_prefix("pairs") {
        return pairs(runs, pair.trim());
    }
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
            let mut placed = Vec::new();
            if family.placed {
                place(run.launches.iter().copied(), true, |span| placed.push(span));
            }
            let spans = if family.placed { &placed } else { &run.spans };
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
                drift: 3,
                temperature: &[],
                pooled: None,
                found: None,
                own: &[],

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
                tally.worst_rest.max((result.unattributed.value / result.measured.value).abs());
            let plain = plain_integration(&activity, &run.series);
            let second = second_average(&activity, &run.series);
            if verbose {
                println!(
                    "  {:?} rows {} residual {:.2}",
                    result.response, result.readings, result.residual.0
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
                        row.absence
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
