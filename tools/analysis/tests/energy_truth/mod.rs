//! Owns synthetic truth for the energy attribution: a device that runs kernels of known power and
//! sensors that watch it, written apart from the estimator. Refuses to call anything of the
//! estimator but its input types.
//!
//! The device is simulated forward in time, one stretch of constant power after the other; each
//! sensor keeps its own state (charge of a low pass, an energy counter's last update). Every number
//! comes from a seed.

#![allow(dead_code, reason = "shared by a test and an example that each use a part")]

pub use clscope_testing::Random;

use clscope_analysis::energy::{ClassId, DeviceIndex, HostNs, Launch, Series, Span, Timing};

#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    /// Watts of the device while it runs, floor included.
    pub watts: f64,
    /// Mean length in seconds.
    pub length: f64,
}

/// How the kernels' shares of time develop.
#[derive(Clone, Copy, Debug)]
pub enum Mix {
    /// New random shares every so many seconds; launches in random order.
    Changing(f64),
    /// The same sequence of kernels over and over: proportions never vary.
    Repeating,
    /// Class 1 runs right after class 0 and never else, the others in changing shares.
    Paired(f64),
    /// Behind each launch of class 0 the others run ten times each, in one order.
    Ordered,
}

#[derive(Clone, Copy, Debug)]
pub enum Sensor {
    /// Counter of quantum joules, updated every `update` seconds with jitter, polled every `poll`.
    Counter { update: f64, jitter: f64, poll: f64, quantum: f64 },
    /// Stamped samples behind a low pass.
    Samples { period: f64, lag: f64, delay: f64, noise: f64 },
    /// Stamped samples behind two low passes, one after the other: no response the estimator knows.
    TwoPoles { period: f64, first: f64, second: f64, delay: f64, noise: f64 },
    /// Stamped samples behind a low pass that takes the power of one moment every `every` seconds.
    Moments { period: f64, every: f64, lag: f64, delay: f64, noise: f64 },
}

pub const RAPL: Sensor =
    Sensor::Counter { update: 0.001, jitter: 2e-5, poll: 0.001, quantum: 61e-6 };
pub const STEPS: Sensor = Sensor::Counter { update: 0.1, jitter: 1e-3, poll: 0.005, quantum: 1e-3 };

/// A chip's temperature, and what each degree above 50 C adds.
#[derive(Clone, Copy, Debug)]
pub struct Heat {
    /// Degrees at the beginning.
    pub from: f64,
    /// Degrees that work adds in the end, with a time constant of so many seconds.
    pub rise: (f64, f64),
    /// Share of the floor that a degree adds.
    pub idle: f64,
    /// Share of what launches draw above it.
    pub above: f64,
    /// Whole seconds of rest before and behind the work.
    pub rest: usize,
}

/// One run to be simulated.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub kernels: Vec<Kernel>,
    pub floor: f64,
    pub seconds: f64,
    pub mix: Mix,
    /// Rates grow by this share of themselves ...
    pub warming: f64,
    /// ... with this time constant in seconds.
    pub warming_time: f64,
    /// Standard deviation of a launch's length and power, relative.
    pub launch_spread: f64,
    /// Standard deviation of a class's power over half-second pieces, relative.
    pub piece_spread: f64,
    /// Idle pause between launches, mean seconds.
    pub gap: f64,
    /// Probability that a launch is timed; 1 times all.
    pub timed: f64,
    pub heat: Option<Heat>,
    pub sensor: Sensor,
    pub seed: u64,
}

pub struct Run {
    pub spans: Vec<Span>,
    /// All launches, in order, stamps only where timed.
    pub launches: Vec<Launch>,
    pub series: Series,
    /// Mean watts of each class over the run, but for `piece_spread`, which is a kernel's chance in
    /// this run.
    pub watts: Vec<f64>,
    /// The same at 50 C.
    pub watts_at_50: Vec<f64>,
    /// Whole degrees, five times a second; empty without heat.
    pub degrees: Vec<(HostNs, f64)>,
    /// Joules of the whole run.
    pub joules: f64,
    /// Share of the busy time per class.
    pub share: Vec<f64>,
}

/// Watches the device's power; one stretch at a time.
struct Watcher {
    sensor: Sensor,
    now: f64,
    energy: f64,
    charge: f64,
    /// Charge of the first of two low passes.
    ahead: f64,
    next_sample: f64,
    next_update: f64,
    update_index: u64,
    shown: f64,
    next_poll: f64,
    next_moment: f64,
    points: Vec<(HostNs, f64)>,
    random: Random,
}

/// Where the clock starts: today's date in nanoseconds, so that lost precision would show.
const EPOCH: i64 = 1_700_000_000_000_000_000;

fn stamp(seconds: f64) -> HostNs {
    HostNs(EPOCH + (seconds * 1e9).round() as i64)
}

impl Watcher {
    fn new(sensor: Sensor, level: f64, seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0xABCD);
        let phase = random.uniform();
        let (next_sample, next_update, next_poll) = match sensor {
            Sensor::Counter { update, poll, .. } => {
                (f64::INFINITY, phase * update, random.uniform() * poll)
            }
            Sensor::Samples { period, .. }
            | Sensor::TwoPoles { period, .. }
            | Sensor::Moments { period, .. } => (phase * period, f64::INFINITY, f64::INFINITY),
        };
        Self {
            sensor,
            now: 0.0,
            energy: 0.0,
            charge: level,
            ahead: level,
            next_sample,
            next_update,
            update_index: 0,
            shown: 0.0,
            next_poll,
            next_moment: if let Sensor::Moments { every, .. } = sensor {
                every
            } else {
                f64::INFINITY
            },
            points: Vec::new(),
            random,
        }
    }

    fn pass(&mut self, until: f64, watts: f64) {
        loop {
            let event =
                self.next_sample.min(self.next_update).min(self.next_poll).min(self.next_moment);
            let stop = event.min(until);
            if let Sensor::Samples { lag, .. } = self.sensor {
                self.charge = watts + (self.charge - watts) * (-(stop - self.now) / lag).exp();
            }
            if let Sensor::TwoPoles { first, second, .. } = self.sensor {
                let (a, b) =
                    ((-(stop - self.now) / first).exp(), (-(stop - self.now) / second).exp());
                let gap = self.ahead - watts;
                self.charge =
                    watts + (self.charge - watts) * b + gap * first / (first - second) * (a - b);
                self.ahead = watts + gap * a;
            }
            self.energy += watts * (stop - self.now);
            self.now = stop;
            if event > until {
                return;
            }
            if let (true, Sensor::Moments { every, lag, .. }) =
                (self.next_moment <= self.now, self.sensor)
            {
                self.charge = watts + (self.charge - watts) * (-every / lag).exp();
                self.next_moment += every;
                continue;
            }
            self.happen();
        }
    }

    fn happen(&mut self) {
        match self.sensor {
            Sensor::Samples { period, delay, noise, .. }
            | Sensor::TwoPoles { period, delay, noise, .. }
            | Sensor::Moments { period, delay, noise, .. } => {
                let reading = self.charge + noise * self.random.normal();
                let chance = self.random.uniform();
                if chance > 0.01 {
                    // The value reached the driver `delay` later; a few samples are handed out
                    // twice.
                    let point = (stamp(self.now + delay), (reading * 1e3).round() / 1e3);
                    self.points.push(point);
                    if chance > 0.995 {
                        self.points.push(point);
                    }
                }
                self.next_sample += period;
            }
            Sensor::Counter { update, jitter, poll, quantum } => {
                if self.next_update <= self.now {
                    self.shown = (self.energy / quantum).floor() * quantum;
                    self.update_index += 1;
                    let wobble = jitter * self.random.normal();
                    self.next_update =
                        (self.next_update + update + wobble).max(self.now + 0.1 * update);
                }
                if self.next_poll <= self.now {
                    self.points.push((stamp(self.now), self.shown));
                    self.next_poll += poll * self.random.between(0.98, 1.02);
                }
            }
        }
    }
}

impl Heat {
    /// Degrees at a moment.
    fn at(&self, now: f64) -> f64 {
        let worked = (now - self.rest as f64).max(0.0);
        self.from + self.rise.0 * (1.0 - (-worked / self.rise.1).exp())
    }

    /// What it adds to the floor and above it, as shares.
    fn more(&self, now: f64) -> [f64; 2] {
        [self.idle, self.above].map(|each| each * (self.at(now) - 50.0))
    }

    fn read(&self, end: f64) -> Vec<(HostNs, f64)> {
        let moments = (0..(5.0 * end) as usize).map(|i| 0.2 * i as f64);
        moments.map(|now| (stamp(now), self.at(now).round())).collect()
    }
}

impl Scenario {
    /// Simulates the run.
    pub fn run(&self) -> Run {
        let mut random = Random::new(self.seed);
        let count = self.kernels.len();
        let mut watcher = Watcher::new(self.sensor, self.floor, self.seed);
        let (mut energy, mut busy) = (vec![0.0; count], vec![0.0; count]);
        let mut energy_at_50 = vec![0.0; count];
        let mut spans = Vec::new();
        let mut launches: Vec<Launch> = Vec::new();
        let mut shares = vec![1.0; count];
        let mut piece = vec![1.0; count];
        let (mut change, mut piece_end) = (0.0, 0.0);
        let mut step = 0usize;
        let mut pending = None;
        // A quarter second of idling first.
        let mut now = 0.0;
        self.rest(&mut watcher, &mut now);
        let begun = now;
        while now < begun + self.seconds {
            if now >= piece_end {
                piece.fill_with(|| 1.0 + self.piece_spread * random.normal());
                piece_end += 0.5;
            }
            let every = match self.mix {
                Mix::Changing(every) | Mix::Paired(every) => every,
                Mix::Repeating | Mix::Ordered => f64::INFINITY,
            };
            if now >= change && every.is_finite() {
                shares.fill_with(|| random.uniform().powi(2) + 0.02);
                while change <= now {
                    change += every;
                }
            }
            let class = match self.mix {
                Mix::Repeating => step % count,
                Mix::Ordered => (step % (10 * count - 9)).div_ceil(10),
                Mix::Changing(_) => self.draw(&shares, &mut random),
                Mix::Paired(_) => pending.take().unwrap_or_else(|| {
                    shares[1.min(count - 1)] = 0.0;
                    self.draw(&shares, &mut random)
                }),
            };
            if matches!(self.mix, Mix::Paired(_)) && class == 0 && count > 1 {
                pending = Some(1);
            }
            step += 1;
            let kernel = self.kernels[class];
            let length = (kernel.length * (1.0 + self.launch_spread * random.normal())).max(2e-6);
            let power = kernel.watts * piece[class] * (1.0 + self.launch_spread * random.normal());
            let start = now;
            let end = start + length;
            // Long kernels warm up while they run.
            while now < end {
                let until = end.min(now + 2e-3);
                let warmed = 1.0 + self.warming * (1.0 - (-now / self.warming_time).exp());
                let more = self.heat.map_or([0.0; 2], |of| of.more(now));
                let watts = self.floor * more[0] + (power - self.floor) * more[1] + power * warmed;
                watcher.pass(until, watts);
                energy[class] += watts / piece[class] * (until - now);
                energy_at_50[class] += power * warmed / piece[class] * (until - now);
                busy[class] += until - now;
                now = until;
            }
            let timed = self.timed >= 1.0 || random.uniform() < self.timed;
            // The host runs up to two milliseconds ahead of the device, in order.
            let ahead = stamp(start - 2e-3 * random.uniform());
            launches.push(Launch {
                class: ClassId(class as u32),
                alike: 0,
                weight: 1.0,
                device: DeviceIndex(0),
                enqueued: launches.last().map_or(ahead, |last| last.enqueued.max(ahead)),
                timed: timed.then_some((stamp(start), stamp(end))),
            });
            if timed {
                spans.push(Span {
                    class: ClassId(class as u32),
                    device: DeviceIndex(0),
                    start: stamp(start),
                    end: stamp(end),
                    timing: Timing::Timed,
                });
            }
            if self.gap > 0.0 {
                now += -self.gap * (1.0 - random.uniform()).ln();
                watcher.pass(now, self.floor_at(now));
            }
        }
        self.rest(&mut watcher, &mut now);
        let joules = watcher.energy;
        let total: f64 = busy.iter().sum();
        let series = match self.sensor {
            Sensor::Counter { .. } => Series::Cumulative(watcher.points),
            Sensor::Samples { .. } | Sensor::TwoPoles { .. } | Sensor::Moments { .. } => {
                Series::Instant(watcher.points)
            }
        };
        Run {
            spans,
            launches,
            series,
            watts: energy.iter().zip(&busy).map(|(e, b)| e / b).collect(),
            watts_at_50: energy_at_50.iter().zip(&busy).map(|(e, b)| e / b).collect(),
            degrees: self.heat.map_or_else(Vec::new, |of| of.read(now)),
            joules,
            share: busy.iter().map(|b| b / total).collect(),
        }
    }

    /// The floor at a moment.
    fn floor_at(&self, now: f64) -> f64 {
        self.floor * (1.0 + self.heat.map_or(0.0, |of| of.more(now)[0]))
    }

    /// The device rests.
    fn rest(&self, watcher: &mut Watcher, now: &mut f64) {
        for _ in 0..1 + 4 * self.heat.map_or(0, |of| of.rest) {
            *now += 0.25;
            watcher.pass(*now, self.floor_at(*now));
        }
    }

    /// A class drawn so that times, not launches, come in the given shares.
    fn draw(&self, shares: &[f64], random: &mut Random) -> usize {
        let rates =
            || shares.iter().zip(&self.kernels).map(|(share, kernel)| share / kernel.length);
        let mut left = random.uniform() * rates().sum::<f64>();
        for (class, rate) in rates().enumerate() {
            left -= rate;
            if left <= 0.0 {
                return class;
            }
        }
        shares.len() - 1
    }
}
