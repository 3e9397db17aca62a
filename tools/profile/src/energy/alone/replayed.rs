//! Owns the figures of launches and transfers that the recorder repeated (`record --replay`): the
//! mean power of each batch once the sensor has settled, with what restoring buffers took beside
//! it. Refuses batches that the sensor did not follow.

use crate::energy::activity::PhysicalDevice;
use crate::energy::alone::shapes::{Repeated, Shape};
use crate::energy::power::Power;
use crate::energy::result::Replayed;
use crate::interval::Interval;
use clscope_analysis::energy::{Attribution, HostNs, Series};
use clscope_analysis::quantile::{NORMAL_95, student};
use std::collections::BTreeMap;

/// Fewest updates of the sensor in a batch.
const LEAST_UPDATES: usize = 3;
/// Share of what restoring draws above idle by which launches behind it are off: a standard
/// deviation. H200: two kernels were off by 0 and 6 % of it, and one whose buffers fit into the last
/// cache only without a copy beside them by 65 %.
const RESTORED: f64 = 0.1;

/// One batch of repetitions, its power read once the sensor had settled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Repetition {
    /// Mean power of the device, in watts.
    pub watts: f64,
    /// From the first begin to the last end, in seconds.
    pub seconds: f64,
    /// Launches in it.
    pub launches: f64,
    /// Mean length of those of which stamps were taken, in seconds.
    pub stamped: Option<f64>,
    /// What restoring buffers took of each launch's time.
    pub restoring: Option<Restoring>,
    /// What the device drew at rest beside it, in watts, where it was not measured in the run.
    pub idle: Option<f64>,
    /// Standard error, by their readings, of the joules of its launches, in joules.
    pub error: f64,
    /// When it ended, where that was in the run.
    pub at: Option<HostNs>,
    /// The capture that it ran.
    pub capture: usize,
}

/// A launch's part of the restorations between.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Restoring {
    /// Mean power of the device while it does nothing else, in watts.
    pub watts: f64,
    /// Seconds for each launch.
    pub seconds: f64,
}

impl Repetition {
    /// Joules and seconds of its launches, restoring taken off.
    pub(in crate::energy) fn of_launches(&self) -> (f64, f64) {
        let restored = self.restoring.map_or((0.0, 0.0), |r| {
            let seconds = r.seconds * self.launches;
            (r.watts * seconds, seconds)
        });
        (self.watts * self.seconds - restored.0, self.seconds - restored.1)
    }

    /// Length of a launch with the gap behind it, restoring taken off.
    pub fn period(&self) -> f64 {
        self.seconds / self.launches - self.restoring.map_or(0.0, |r| r.seconds)
    }

    /// Seconds of a launch in a row, at least, and by itself, where it was stamped: there its start is
    /// in it.
    pub(in crate::energy) fn length(&self) -> Option<(f64, f64)> {
        self.stamped.map(|alone| (self.period().clamp(0.0, alone), alone))
    }

    /// Joules by which its launches may be off, one standard deviation, because restoring changes what
    /// caches hold for them; none where the rest beside it is not known.
    pub(in crate::energy) fn unsure(&self) -> f64 {
        let drawn = |(r, idle): (Restoring, f64)| (r.watts - idle).max(0.0) * r.seconds;
        RESTORED * self.launches * self.restoring.zip(self.idle).map_or(0.0, drawn)
    }

    /// What a launch adds to idle power, in joules; `idle`: of the run.
    pub fn dynamic(&self, idle: f64) -> f64 {
        let floor = self.idle.unwrap_or(idle);
        (self.watts - floor) * self.seconds / self.launches
            - self.restoring.map_or(0.0, |r| (r.watts - floor) * r.seconds)
    }
}

/// What repetitions of one shape showed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Found {
    /// What it is.
    pub shape: Shape,
    /// The class, for people.
    pub name: String,
    /// Batches that the sensor followed.
    pub repetitions: Vec<Repetition>,
    /// It is another run's.
    pub external: bool,
    saved: u64,
    /// Why there is nothing.
    failed: Option<String>,
}

impl Found {
    /// Of a shape of which nothing is known yet.
    pub(in crate::energy) fn of_shape(shape: Shape) -> Self {
        let name = shape.name.clone();
        Self { shape, name, ..Self::default() }
    }
}

#[cfg(test)]
impl Found {
    pub fn of_repetitions(shape: Shape, repetitions: Vec<Repetition>) -> Self {
        let name = shape.name.clone();
        Self { shape, name, repetitions, ..Self::default() }
    }
}

/// Everything that was repeated on a device, by shape.
pub fn repetitions_on(device: &PhysicalDevice, power: &Power) -> Vec<Found> {
    let mut out: BTreeMap<&Shape, Found> = BTreeMap::new();
    let mut capture = 0;
    // A trial that no batch followed tells nothing.
    let told = |r: &&Repeated| !r.batches.is_empty() || !r.refused.is_empty();
    for repeated in device.replays.iter().filter(told) {
        let found = out.entry(&repeated.shape).or_insert_with(|| Found {
            name: repeated.name.clone(),
            ..Found::of_shape(repeated.shape.clone())
        });
        found.saved = found.saved.max(repeated.saved);
        if !repeated.refused.is_empty() {
            found.failed = Some(repeated.refused.clone());
            continue;
        }
        capture += 1;
        found.repetitions.extend(followed(repeated, power, capture));
        if found.repetitions.is_empty() {
            found.failed = Some(too_slow(power));
        }
    }
    let known = |mut found: Found| {
        found.failed = found.failed.filter(|_| found.repetitions.is_empty());
        found
    };
    out.into_values().map(known).collect()
}

/// Batches of one repetition that the sensor followed.
fn followed(repeated: &Repeated, power: &Power, capture: usize) -> Vec<Repetition> {
    let watts = |begin: HostNs, end: HostNs| {
        let settled = HostNs(begin.0.saturating_add((power.settle * 1e9) as i64));
        mean_power(&power.series, settled, end)
    };
    let seconds = |begin: HostNs, end: HostNs| end.seconds_since(begin);
    // Restorations alone, by the batch that they stand behind.
    let restoring: Vec<(HostNs, Restoring, f64)> = repeated
        .batches
        .iter()
        .filter(|b| b.3 && b.2 > 0)
        .filter_map(|&(begin, end, count, _)| {
            let each = count as f64 * f64::from(repeated.per_restoration.max(1));
            let seconds = seconds(begin, end) / each;
            let (watts, error) = watts(begin, end)?;
            Some((begin, Restoring { watts, seconds }, error * seconds))
        })
        .collect();
    let restored = repeated.batches.iter().any(|b| b.3);
    repeated
        .batches
        .iter()
        .filter(|b| !b.3 && b.2 > 0)
        .filter_map(|&(begin, end, count, _)| {
            let beside = restoring.iter().find(|r| r.0 >= end).or(restoring.last());
            if restored && beside.is_none() {
                return None;
            }
            let (watts, error) = watts(begin, end)?;
            let restored = beside.map_or(0.0, |r| r.2 * count as f64);
            Some(Repetition {
                watts,
                seconds: seconds(begin, end),
                launches: count as f64,
                stamped: repeated.stamped,
                restoring: beside.map(|r| r.1),
                idle: None,
                error: (error * seconds(begin, end)).hypot(restored),
                at: Some(end),
                capture,
            })
        })
        .collect()
}

/// The rows for people and programs, given the floor with its standard error.
pub fn rows(found: &[Found], floor: (f64, f64)) -> Vec<Replayed> {
    found.iter().map(|found| row(found, floor)).collect()
}

/// Idle power between launches with its standard error; 0 where it is not known.
pub(in crate::energy) fn idle(result: &Attribution) -> (f64, f64) {
    let watts = result.floors.first().and_then(|f| f.watts);
    watts.map_or((0.0, 0.0), |watts| (watts.value, watts.half() / NORMAL_95))
}

/// Joules above idle of a launch by these windows alone, and its length in them: means over
/// captures, of which Student's t bounds the interval.
pub(in crate::energy) fn alone(
    repetitions: &[Repetition],
    floor: (f64, f64),
) -> Option<(Interval, f64)> {
    let mut captures: BTreeMap<usize, Vec<&Repetition>> = BTreeMap::new();
    for of in repetitions.iter().filter(|of| of.launches >= 1.0 && of.period() > 0.0) {
        captures.entry(of.capture).or_default().push(of);
    }
    let mean = |of: &mut dyn Iterator<Item = f64>, n: usize| of.sum::<f64>() / n as f64;
    let of_captures = |of: &dyn Fn(&Repetition) -> f64| -> Vec<f64> {
        captures.values().map(|c| mean(&mut c.iter().map(|r| of(r)), c.len())).collect()
    };
    let energies = of_captures(&|r| r.dynamic(floor.0));
    // Of one capture, its windows tell how far another reading may be off.
    let values = match energies.len() {
        1 => captures.values().flatten().map(|r| r.dynamic(floor.0)).collect(),
        _ => energies,
    };
    let periods = of_captures(&|r| r.period());
    let n = values.len();
    let value = (n > 0).then(|| mean(&mut values.iter().copied(), n))?;
    let length = mean(&mut periods.iter().copied(), periods.len());
    let squares: f64 = values.iter().map(|v| (v - value).powi(2)).sum();
    let half = match n {
        1 => f64::INFINITY,
        _ => student(0.975, (n - 1) as f64) * (squares / ((n - 1) as f64 * n as f64)).sqrt(),
    };
    let idle = if repetitions.iter().any(|r| r.idle.is_none()) { floor.1 * length } else { 0.0 };
    Some((Interval::symmetric(value, half.hypot(NORMAL_95 * idle)), length))
}

fn row(found: &Found, floor: (f64, f64)) -> Replayed {
    // Where the run has none, what was seen beside the windows.
    let rests: Vec<f64> = found.repetitions.iter().filter_map(|r| r.idle).collect();
    let beside = rests.iter().sum::<f64>() / rests.len().max(1) as f64;
    let idle = if floor.0 > 0.0 { floor.0 } else { beside };
    let figure = alone(&found.repetitions, floor).map(|(above, length)| {
        let least = (floor.0 - NORMAL_95 * floor.1).max(0.0);
        (above.map(|joules| joules + idle * length).at_least(least * length), length)
    });
    let n = found.repetitions.len().max(1) as f64;
    let restored: Vec<f64> =
        found.repetitions.iter().filter_map(|r| r.restoring.map(|x| x.watts * x.seconds)).collect();
    Replayed {
        name: found.name.clone(),
        joules_per_launch: figure.map(|f| f.0),
        watts: figure.map(|(joules, length)| joules.times(1.0 / length)),
        batches: found.repetitions.len(),
        launches: found.repetitions.iter().map(|r| r.launches as u64).sum(),
        saved_bytes: found.saved,
        restored_joules: (!restored.is_empty()).then(|| restored.iter().sum::<f64>() / n),
        failed: found.failed.clone().filter(|_| figure.is_none()),
    }
}

fn too_slow(power: &Power) -> String {
    format!(
        "no batch has {LEAST_UPDATES} updates of the sensor once it has settled: record with longer ones, --replay 8:{:.0}",
        (1e3 * (power.settle + 10.0 * power.period)).max(300.0).ceil()
    )
}

/// Mean power between two times with its standard error, from the updates inside.
fn mean_power(series: &Series, from: HostNs, to: HostNs) -> Option<(f64, f64)> {
    let inside = |t: &HostNs| *t >= from && *t <= to;
    let error = |all: &[f64], mean: f64| {
        let squares: f64 = all.iter().map(|watts| (watts - mean).powi(2)).sum();
        (squares / (all.len() * (all.len() - 1)) as f64).sqrt()
    };
    let mean = |all: Vec<f64>| {
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        (all.len() >= LEAST_UPDATES).then(|| (mean, error(&all, mean)))
    };
    match series {
        Series::Instant(points) => {
            mean(points.iter().filter(|p| inside(&p.0)).map(|p| p.1).collect())
        }
        Series::WindowMean(rows) => {
            mean(rows.iter().filter(|r| inside(&r.0) && inside(&r.1)).map(|r| r.2).collect())
        }
        Series::Cumulative(points) => {
            // From a change to a change: between them the counter was somewhere inside a step.
            let steps = points.windows(2).filter(|p| p[0].1 < p[1].1).map(|p| p[1]);
            let steps: Vec<(HostNs, f64)> = steps.filter(|p| inside(&p.0)).collect();
            let (first, last) = (steps.first()?, steps.last()?);
            let rate = |a: &(HostNs, f64), b: &(HostNs, f64)| (b.1 - a.1) / b.0.seconds_since(a.0);
            let each: Vec<f64> = steps.windows(2).map(|p| rate(&p[0], &p[1])).collect();
            (steps.len() > LEAST_UPDATES && last.0 > first.0).then(|| {
                let mean = rate(first, last);
                (mean, error(&each, mean))
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clscope_analysis::energy::ResponseModel;

    const MS: i64 = 1_000_000;

    /// Batches of 300 ms with 20 launches each: launches of 10 ms at 200 W behind restorations of 5
    /// ms at 50 W; then restorations alone.
    fn stage() -> (PhysicalDevice, Vec<(HostNs, f64)>) {
        let mut batches = Vec::new();
        let mut points = Vec::new();
        for i in 0..16i64 {
            let restores = i % 2 == 1;
            batches.push((
                HostNs(i * 400 * MS),
                HostNs((i * 400 + 300) * MS),
                if restores { 60 } else { 20 },
                restores,
            ));
            // Noise that cancels out over a batch, and the sensor at rest between.
            let level = if restores { 50.0 } else { (200.0 * 10.0 + 50.0 * 5.0) / 15.0 };
            points.extend((0..40).map(|s| {
                let busy = s > 5 && s <= 30;
                (
                    HostNs((i * 400 + s * 10) * MS),
                    if busy { level + f64::from(i as i32 % 3) * 0.1 - 0.1 } else { 30.0 },
                )
            }));
        }
        let mut device = PhysicalDevice::named("gpu", "", crate::energy::activity::Kind::Gpu);
        device.replays.push(Repeated {
            name: "k".into(),
            shape: Shape { name: "k".into(), sizes: vec![64] },
            stamped: None,
            per_restoration: 1,
            refused: String::new(),
            saved: 4096,
            batches,
            trials: Vec::new(),
        });
        (device, points)
    }

    fn power(series: Series) -> Power {
        Power::of_series(series, ResponseModel::lagged_samples(0.01), 0.01, 0.06)
    }

    fn only(device: &PhysicalDevice, series: Series) -> Replayed {
        let rows = rows(&repetitions_on(device, &power(series)), (30.0, 0.5));
        assert_eq!(rows.len(), 1);
        rows[0].clone()
    }

    #[test]
    fn restoring_buffers_is_taken_off() {
        let (device, points) = stage();
        let found = only(&device, Series::Instant(points.clone()));
        assert_eq!(found.failed, None);
        let joules = found.joules_per_launch.unwrap();
        assert!(
            (joules.value - 2.0).abs() < 0.01 && joules.low < 2.0 && joules.high > 2.0,
            "{joules:?}"
        );
        let watts = found.watts.unwrap();
        assert!((watts.value - 200.0).abs() < 1.0, "{watts:?}");
        assert_eq!((found.batches, found.launches), (8, 160));
        // The same from a counter.
        let mut total = 0.0;
        let counted = points.windows(2).map(|p| {
            total += p[1].1 * (p[1].0.0 - p[0].0.0) as f64 * 1e-9;
            (p[1].0, total)
        });
        let found = only(&device, Series::Cumulative(counted.collect()));
        assert!((found.joules_per_launch.unwrap().value - 2.0).abs() < 0.02, "{found:?}");
    }

    #[test]
    fn what_cannot_be_measured_says_why() {
        let (mut device, points) = stage();
        let slow: Vec<_> = points.iter().copied().step_by(20).collect();
        assert!(only(&device, Series::Instant(slow)).failed.unwrap().contains("longer"));
        device.replays[0].refused = "argument 1 is a pipe".into();
        let refused = only(&device, Series::Instant(points));
        assert_eq!(refused.failed.as_deref(), Some("argument 1 is a pipe"));
        assert_eq!(refused.joules_per_launch, None);
    }
}
