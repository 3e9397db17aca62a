//! Owns the figures of launches that the recorder repeated (`record --replay`): the mean power of
//! each batch once the sensor has settled, less what restoring the buffers took, and the median
//! over batches. Refuses batches that the sensor did not follow.

use super::activity::{Device, Repeated};
use super::power::Power;
use super::result::Replayed;
use crate::interval::Interval;
use clscope_analysis::energy::replay::{self, Batch};
use clscope_analysis::energy::{HostNs, Joules, Seconds, Series};

/// Fewest updates of the sensor in a batch.
const LEAST_UPDATES: usize = 3;

/// Restorations between launches may cost this share more or less than restorations alone do:
/// powers do not add up exactly (on an H200 mixes of kernels draw up to 2 % less than the same
/// kernels alone).
const BESIDE: f64 = 0.03;

/// One row per kernel and size that was to be repeated.
pub fn of(device: &Device, power: &Power) -> Vec<Replayed> {
    device.replays.iter().map(|repeated| one(repeated, power)).collect()
}

fn one(repeated: &Repeated, power: &Power) -> Replayed {
    let mut out = Replayed {
        name: repeated.name.clone(),
        joules_per_launch: None,
        watts: None,
        batches: 0,
        launches: 0,
        saved_bytes: repeated.saved,
        restored_joules: None,
        failed: (!repeated.refused.is_empty()).then(|| repeated.refused.clone()),
    };
    if out.failed.is_some() {
        return out;
    }
    let measured = |restores: bool| -> Vec<Batch> {
        let of_kind = repeated.batches.iter().filter(|b| b.3 == restores && b.2 > 0);
        of_kind
            .filter_map(|&(begin, end, launches, _)| {
                let length = (end.0 - begin.0) as f64 * 1e-9;
                let settled = HostNs(begin.0.saturating_add((power.settle * 1e9) as i64));
                let watts = mean_power(&power.series, settled, end)?;
                Some(Batch { launches, energy: Joules(watts * length), length: Seconds(length) })
            })
            .collect()
    };
    let mut batches = measured(false);
    out.launches = batches.iter().map(|b| b.launches).sum();
    let restores = measured(true);
    let mut slack = 0.0;
    if repeated.batches.iter().any(|b| b.3) {
        let Some(restore) = replay::median(&restores) else {
            out.failed = Some(too_few(power));
            return out;
        };
        let lengths = || restores.iter().map(|b| b.length.0 / b.launches as f64);
        let mut sorted: Vec<f64> = lengths().collect();
        sorted.sort_by(f64::total_cmp);
        let (joules, seconds) = (restore.joules_per_launch, sorted[sorted.len() / 2]);
        slack = joules.half_width().0 + BESIDE * joules.value.0;
        out.restored_joules = Some(joules.value.0);
        for batch in &mut batches {
            let count = batch.launches as f64;
            batch.energy.0 -= count * joules.value.0;
            batch.length.0 -= count * seconds;
        }
    }
    let Some(median) = replay::median(&batches) else {
        out.failed = Some(too_few(power));
        return out;
    };
    let j = median.joules_per_launch;
    out.batches = median.batches;
    out.joules_per_launch = Some(Interval::measured(j.value.0, j.low.0 - slack, j.high.0 + slack));
    let widen = slack / j.value.0.max(f64::MIN_POSITIVE) * median.watts.value.0;
    let w = median.watts;
    out.watts = Some(Interval::measured(w.value.0, w.low.0 - widen, w.high.0 + widen));
    out
}

fn too_few(power: &Power) -> String {
    format!(
        "fewer than 6 batches have {LEAST_UPDATES} updates of the sensor once it has settled: record with longer ones, --replay 8:{:.0}",
        (1e3 * (power.settle + 10.0 * power.period)).max(300.0).ceil()
    )
}

/// Mean power between two times, from the updates inside.
fn mean_power(series: &Series, from: HostNs, to: HostNs) -> Option<f64> {
    let inside = |t: &HostNs| *t >= from && *t <= to;
    match series {
        Series::Instant(points) => {
            let inside: Vec<f64> = points.iter().filter(|p| inside(&p.0)).map(|p| p.1).collect();
            (inside.len() >= LEAST_UPDATES)
                .then(|| inside.iter().sum::<f64>() / inside.len() as f64)
        }
        Series::WindowMean(rows) => {
            let inside: Vec<f64> =
                rows.iter().filter(|r| inside(&r.0) && inside(&r.1)).map(|r| r.2).collect();
            (inside.len() >= LEAST_UPDATES)
                .then(|| inside.iter().sum::<f64>() / inside.len() as f64)
        }
        Series::Cumulative(points) => {
            // From a change to a change: between them the counter was somewhere inside a step.
            let mut steps = points
                .windows(2)
                .filter(|p| p[0].1 < p[1].1)
                .map(|p| p[1])
                .filter(|p| inside(&p.0));
            let first = steps.next()?;
            let (mut last, mut updates) = (first, 1);
            for step in steps {
                (last, updates) = (step, updates + 1);
            }
            (updates > LEAST_UPDATES && last.0 > first.0)
                .then(|| (last.1 - first.1) / ((last.0.0 - first.0.0) as f64 * 1e-9))
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
    fn stage() -> (Repeated, Vec<(HostNs, f64)>) {
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
        (Repeated { name: "k".into(), refused: String::new(), saved: 4096, batches }, points)
    }

    fn power(series: Series) -> Power {
        Power::of_series(series, ResponseModel::lagged_samples(0.01), 0.01, 0.06)
    }

    #[test]
    fn restoring_buffers_is_taken_off() {
        let (repeated, points) = stage();
        let found = one(&repeated, &power(Series::Instant(points.clone())));
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
        let found = one(&repeated, &power(Series::Cumulative(counted.collect())));
        assert!((found.joules_per_launch.unwrap().value - 2.0).abs() < 0.02, "{found:?}");
    }

    #[test]
    fn what_cannot_be_measured_says_why() {
        let (mut repeated, points) = stage();
        let slow: Vec<_> = points.iter().copied().step_by(20).collect();
        assert!(one(&repeated, &power(Series::Instant(slow))).failed.unwrap().contains("longer"));
        repeated.refused = "argument 1 is a pipe".into();
        let refused = one(&repeated, &power(Series::Instant(points)));
        assert_eq!(refused.failed.as_deref(), Some("argument 1 is a pipe"));
        assert_eq!(refused.joules_per_launch, None);
    }
}
