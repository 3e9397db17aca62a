//! Owns the readings of the linear mixed model: windows of the run, of rests, and of workers that
//! ran one captured launch over and over, each with its launches and its temperature. Refuses to
//! fit: the analysis does ([`clscope_analysis::energy::mixed`]).
//!
//! No figure of the report is of this model yet. `attribute::Options::both` runs it beside the
//! regression; the example `estimators` compares the two with what is known to be true.
#![forbid(unsafe_code)]

use super::activity::PhysicalDevice;
use super::power::{self, Power};
use super::readings::{Readings, Sensor};
use super::replayed::{self, Found};
use super::shapes::Shape;
use crate::interval::Interval;
use clscope_analysis::energy::evidence::Repetition;
use clscope_analysis::energy::mixed::{Beliefs, Errors, Fit, Reading};
use clscope_analysis::energy::{self as fit, Attribution, Floor, HostNs, Problem, Series};

/// What a degree adds, beforehand: to idle power in watts, and to a launch's joules above idle as a
/// share. (H100: two kernels draw 2.4 to 2.7 W more a degree, whatever they draw: it is idle
/// power's, and the second is near 0.)
/// Idle power between launches differs from that of rests by 2 W, one standard deviation. (H100:
/// rests of one run are at 126 to 131 W, and idle power with a context is 126 W +- 2 W.)
const BELIEFS: Beliefs = Beliefs { beta: (0.0, 9.0), alpha: (0.0, 1e-5), between: (0.0, 4.0) };
/// Part of a window in which the recorder's own repetitions ran, from which on it is none of the
/// run.
const REPETITION: f64 = 1e-3;
/// Part of a window in which the device was in its first idle state, from which on it is one of it.
const FIRST_STATE: f64 = 0.99;
/// Rests that show idle power by themselves.
const RESTS: usize = 5;
/// Standard error of a worker's window, as a share of its energy: the sensor's gain settles, and its
/// edges are seen late.
const WINDOW: f64 = 0.003;

/// What the mixed model says of a device.
#[derive(Debug, Clone)]
pub struct Mixed {
    /// Joules above idle of a launch, by the device's classes; `None` where no reading holds one.
    pub joules_per_launch: Vec<(String, Option<Interval>)>,
    /// Idle power, watts, at the run's temperature.
    pub idle: Interval,
    /// Watts of idle power a degree, and share of a launch's joules a degree.
    pub temperature: [Interval; 2],
    /// Standard deviations between worker and run, and between captures, as shares.
    pub spread: [f64; 2],
    /// Readings: of the run, and of workers.
    pub readings: [usize; 2],
}

/// Temperature of a device over time.
struct Temperature<'r>(Option<&'r Sensor>);

impl Temperature<'_> {
    /// Degrees at a moment: those of the last reading before it, or of the first one.
    fn at(&self, at: HostNs) -> Option<f64> {
        let points = &self.0?.points;
        let after = points.partition_point(|p| p.0 <= at);
        points.get(after.saturating_sub(1)).map(|p| p.1)
    }
}

fn temperature<'r>(device: &PhysicalDevice, readings: &'r Readings) -> Temperature<'r> {
    let is_own = |s: &&Sensor| {
        s.host == device.host
            && s.series.name == "temperature"
            && s.points.len() > 1
            && power::own(device, s, true).is_some()
    };
    Temperature(readings.sensors.iter().find(is_own))
}

/// Captures of repetitions that are in order: those of one stand for the same launches.
fn captures(found: &Found) -> Vec<usize> {
    let mut out = Vec::with_capacity(found.repetitions.len());
    let (mut number, mut left) = (0, 0);
    for repetition in &found.repetitions {
        if left == 0 {
            number += 1;
            left = (1.0 / repetition.weight).round().max(1.0) as usize;
        }
        left -= 1;
        out.push(number);
    }
    out
}

/// How long launches of a shape are in the run, of the mean launch of their class: as many times as
/// much is taken for their joules above idle. 1 where it is not known.
fn relative_length(device: &PhysicalDevice, class: usize, shape: &Shape) -> f64 {
    let mut own: Vec<_> = device
        .shapes
        .iter()
        .filter(|((of, _), tally)| of.0 as usize == class && tally.timed > 0)
        .collect();
    // In one order, so that sums are the same each time.
    own.sort_by(|a, b| a.1.seconds.total_cmp(&b.1.seconds));
    let (mut launches, mut seconds, mut this) = (0.0, 0.0, None);
    for ((_, of), tally) in own {
        let each = tally.seconds / tally.timed as f64;
        launches += tally.launches as f64;
        seconds += each * tally.launches as f64;
        if of == shape {
            this = Some(each);
        }
    }
    let relative = this.map_or(1.0, |this| this * launches / seconds);
    if relative.is_finite() && relative > 0.0 { relative } else { 1.0 }
}

/// Joules and seconds of a worker's window, without those of restoring memory.
fn without_restoring(of: &Repetition) -> (f64, f64) {
    let restored = of.restoring.map_or((0.0, 0.0), |r| {
        let seconds = r.seconds * of.launches;
        (r.watts * seconds, seconds)
    });
    (of.watts * of.seconds - restored.0, of.seconds - restored.1)
}

/// Fits the model to all readings of a device. `found`: windows in which launches ran alone; `idle`:
/// the power at rest that those measured elsewhere were moved to.
pub(super) fn estimate(
    device: &PhysicalDevice,
    power: &Power,
    (problem, result): (&Problem<'_>, &Attribution),
    readings: &Readings,
    (found, idle): (&[Found], f64),
) -> Option<Mixed> {
    let windows = fit::windows_of(problem).ok()?;
    let temperature = temperature(device, readings);
    let own: Vec<usize> =
        (0..device.classes.len()).filter(|at| !device.classes[*at].repetition).collect();
    let kernel = |class: usize| own.iter().position(|of| *of == class);
    let per_span = device.launches_per_span();
    let length = |class: usize| {
        let row = &result.classes[class];
        let launches = row.launches * per_span.get(class).copied().unwrap_or(1.0);
        (launches > 0.0).then(|| row.busy.0 / launches).filter(|length| *length > 0.0)
    };
    let is_of_run = |window: &&fit::Seen| {
        let repeated: f64 = (0..device.classes.len())
            .filter(|at| device.classes[*at].repetition)
            .map(|at| window.shares[at])
            .sum();
        repeated < REPETITION && window.first_state >= FIRST_STATE
    };
    let noise = result.residual.0.max(1e-6);
    let of_run: Vec<&fit::Seen> = windows.iter().filter(is_of_run).collect();
    let degrees = of_run.iter().filter_map(|window| temperature.at(window.to));
    let (sum, n) = degrees.fold((0.0, 0u32), |(sum, n), at| (sum + at, n + 1));
    let mean = sum / f64::from(n.max(1));
    let warmer = |at: HostNs| temperature.at(at).map_or(0.0, |degrees| degrees - mean);
    let mut all = Vec::with_capacity(of_run.len());
    // Readings of one moment stand for the time since the one before.
    let is_next = |before: HostNs, window: &fit::Seen| {
        let begin = window.to.0.saturating_sub((window.seconds * 1e9) as i64);
        before <= window.to && begin.abs_diff(before.0) as f64 <= 0.5e9 * window.seconds
    };
    let (mut rests, mut before) = (0usize, None);
    for window in &of_run {
        let launches: Vec<(usize, f64)> = own
            .iter()
            .enumerate()
            .filter_map(|(at, &class)| {
                let n = window.shares[class] * window.seconds / length(class)?;
                (n > 0.0).then_some((at, n))
            })
            .collect();
        rests += usize::from(launches.is_empty());
        all.push(Reading {
            energy: window.watts * window.seconds,
            seconds: window.seconds,
            warmer: warmer(window.to),
            launches,
            capture: None,
            variance: (noise * window.seconds).powi(2),
            follows: before.is_some_and(|before| is_next(before, window)),
        });
        before = Some(window.to);
    }
    let runs = all.len();
    if let (true, Some(Floor::Known { rate, sd })) = (rests < RESTS, problem.floors.first()) {
        all.push(Reading {
            energy: *rate,
            seconds: 1.0,
            warmer: 0.0,
            launches: Vec::new(),
            capture: None,
            variance: sd.max(1e-3).powi(2),
            follows: false,
        });
    }
    let mut number = 0;
    let mut worker =
        |class: usize, scale: f64, of: &Repetition, here: Option<HostNs>, capture: usize| {
            let Some(at) = kernel(class) else { return };
            let (joules, seconds) = without_restoring(of);
            let error = (noise * (of.seconds * power.period).sqrt()).max(WINDOW * joules);
            // What was measured elsewhere has its own rest beside it, at its own temperature.
            let (energy, seconds) = match here {
                Some(_) => (joules, seconds),
                None => (joules - idle * seconds, 0.0),
            };
            all.push(Reading {
                energy,
                seconds,
                warmer: here.map_or(0.0, warmer),
                launches: vec![(at, of.launches * scale)],
                capture: Some(capture),
                variance: error * error,
                follows: false,
            });
        };
    let class_of = |shape: &Shape| {
        device
            .shapes
            .keys()
            .filter(|(_, own)| own == shape)
            .map(|(class, _)| class.0 as usize)
            .min()
    };
    for repeated in &device.replays {
        let Some(class) = class_of(&repeated.shape) else { continue };
        number += 1;
        for (at, of) in replayed::one(repeated, power).0 {
            worker(class, relative_length(device, class, &repeated.shape), &of, Some(at), number);
        }
    }
    for found in found.iter().filter(|found| found.borrowed) {
        let Some(class) = class_of(&found.shape) else { continue };
        let captures = captures(found);
        let scale = relative_length(device, class, &found.shape);
        for (of, capture) in found.repetitions.iter().zip(&captures) {
            worker(class, scale, of, None, number + capture);
        }
        number += captures.last().copied().unwrap_or(0);
    }
    // A class of which no reading holds anything has no joules, and no column.
    let mut seen = vec![false; own.len()];
    all.iter().flat_map(|reading| &reading.launches).for_each(|(at, _)| seen[*at] = true);
    let columns: Vec<Option<usize>> = {
        let mut next = 0..;
        seen.iter().map(|seen| if *seen { next.next() } else { None }).collect()
    };
    for reading in &mut all {
        reading.launches.iter_mut().for_each(|launch| launch.0 = columns[launch.0].unwrap_or(0));
    }
    let errors = match &power.series {
        Series::Cumulative(_) => Errors::Counter,
        _ => Errors::Polled,
    };
    let kernels = columns.iter().flatten().count();
    let mut lengths = vec![0.0; kernels];
    for (&class, column) in own.iter().zip(&columns) {
        if let (Some(at), Some(seconds)) = (*column, length(class)) {
            lengths[at] = seconds;
        }
    }
    let of = Fit::new(&all, &lengths, BELIEFS, errors)?;
    let name = |class: usize| device.classes[class].name.clone();
    Some(Mixed {
        joules_per_launch: own
            .iter()
            .zip(&columns)
            .map(|(&class, column)| (name(class), column.map(|at| of.contrast(&[(at, 1.0)]))))
            .collect(),
        idle: of.idle(),
        temperature: of.temperature(),
        spread: [1, 2].map(|at| (of.logarithms[at] / 2.0).exp()),
        readings: [runs, all.len() - runs],
    })
}
