//! From repeated samples to one figure with its interval. Owns warm-up, outliers and the t
//! interval; refuses to round or to print.

use clscope_analysis::quantile;
pub use clscope_profile::interval::Interval;
use serde::Serialize;

/// The schema of an interval that may have no value: a rate of no time at all has none.
pub struct MayBeNone;

impl schemars::JsonSchema for MayBeNone {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Estimate".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let mut of = Interval::json_schema(generator);
        if let Some(value) = of.pointer_mut("/properties/value/type") {
            *value = serde_json::json!(["number", "null"]);
        }
        of
    }
}

/// What repeated timing gave.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Summary {
    /// Mean of the samples that are no outliers, with its t interval.
    #[schemars(with = "MayBeNone")]
    pub mean: Interval,
    /// Median of all samples after warm-up.
    pub median: f64,
    /// Smallest sample after warm-up.
    pub min: f64,
    /// Largest sample after warm-up.
    pub max: f64,
    /// Samples after warm-up.
    pub samples: usize,
    /// Samples that were left out as outliers.
    pub outliers: usize,
}

/// Samples further than this from the median, in robust standard deviations, are outliers (Iglewicz
/// and Hoaglin 1993).
const OUTLIER_Z: f64 = 3.5;
/// Robust deviations below this share of the median count as this share: clocks step, and equal
/// samples have none.
const FINEST_SPREAD: f64 = 1e-3;

/// The median, if there are values.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile::median(values.iter().copied())
}

/// The sample of rising ones that a share of them does not exceed; nothing of none.
pub fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    sorted.get((share.clamp(0.0, 1.0) * last as f64).round() as usize).copied()
}

/// Sums samples up; nothing where there are none.
pub fn summarise(samples: &[f64]) -> Option<Summary> {
    let centre = median(samples)?;
    let deviations: Vec<f64> = samples.iter().map(|x| (x - centre).abs()).collect();
    // 1.4826 makes the median deviation of a normal distribution its standard deviation.
    let spread = (1.4826 * median(&deviations)?).max(FINEST_SPREAD * centre.abs());
    let kept: Vec<f64> =
        samples.iter().copied().filter(|x| (x - centre).abs() <= OUTLIER_Z * spread).collect();
    let fold = |f: fn(f64, f64) -> f64| samples.iter().copied().reduce(f).unwrap_or(centre);
    Some(Summary {
        mean: mean(&kept)?,
        median: centre,
        min: fold(f64::min),
        max: fold(f64::max),
        samples: samples.len(),
        outliers: samples.len() - kept.len(),
    })
}

/// Mean and t interval. One sample gives an interval without ends (infinite), never one of width 0.
pub fn mean(values: &[f64]) -> Option<Interval> {
    let n = values.len();
    if n == 0 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / n as f64;
    if n == 1 {
        return Some(Interval::symmetric(mean, f64::INFINITY));
    }
    let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
    Some(Interval::symmetric(mean, t95(n - 1) * (variance / n as f64).sqrt()))
}

/// Mean of a series whose neighbours resemble each other: the interval is that of batch means (8
/// batches), so that slow wandering counts as uncertainty.
pub fn mean_of_series(values: &[f64]) -> Option<Interval> {
    const BATCHES: usize = 8;
    let n = values.len();
    if n < 2 * BATCHES {
        return mean(values);
    }
    let batches: Vec<f64> = (0..BATCHES)
        .map(|b| &values[b * n / BATCHES..(b + 1) * n / BATCHES])
        .map(|batch| batch.iter().sum::<f64>() / batch.len() as f64)
        .collect();
    let half = mean(&batches)?.half();
    Some(Interval::symmetric(values.iter().sum::<f64>() / n as f64, half))
}

/// Two-sided 95 % quantile of Student's t; of no degree of freedom infinite.
pub fn t95(freedom: usize) -> f64 {
    if freedom == 0 { f64::INFINITY } else { quantile::student(0.975, freedom as f64) }
}

/// How many of the first samples are warm-up: the prefix that lies further above the median of the
/// second half than that half's own spread explains. Never more than half.
pub fn warm_up(samples: &[f64]) -> usize {
    let half = samples.len() / 2;
    let late = &samples[half..];
    let Some(centre) = median(late) else { return 0 };
    let deviations: Vec<f64> = late.iter().map(|x| (x - centre).abs()).collect();
    let spread = (1.4826 * median(&deviations).unwrap_or(0.0)).max(FINEST_SPREAD * centre.abs());
    samples[..half].iter().take_while(|x| **x > centre + OUTLIER_Z * spread).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn figures_by_table() {
        let s = summarise(&[10.0, 11.0, 9.0, 10.0, 50.0]).unwrap();
        assert_eq!((s.samples, s.outliers, s.median), (5, 1, 10.0));
        assert!((s.mean.value - 10.0).abs() < 1e-12);
        // s = sqrt(2/3), n = 4: half = 3.182 * 0.408.
        let half = 3.182 * (2.0f64 / 3.0 / 4.0).sqrt();
        assert!((s.mean.half() / half - 1.0).abs() < 2e-3, "{} is not {half}", s.mean.half());
        assert!(summarise(&[]).is_none());
        assert!(summarise(&[3.0]).unwrap().mean.half().is_infinite(), "one sample has no interval");
        assert_eq!(warm_up(&[30.0, 20.0, 10.1, 10.0, 10.1, 9.9, 10.0, 10.05]), 2);
        assert_eq!(warm_up(&[10.0, 10.1, 10.0, 9.9]), 0);
        assert_eq!(warm_up(&[]), 0);
    }

    #[test]
    fn rates_turn_intervals_round() {
        let rate = Interval::estimated(2.0, 1.0, 4.0).reciprocal(8.0);
        assert_eq!(rate, Interval::estimated(4.0, 2.0, 8.0));
        assert!(Interval::symmetric(1.0, 2.0).reciprocal(1.0).half().is_infinite());
        let ratio = Interval::symmetric(10.0, 1.0).over(Interval::symmetric(5.0, 0.0));
        assert!(ratio.value == 2.0 && (ratio.half() - 0.2).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn intervals_hold_their_estimate(samples in prop::collection::vec(0.1f64..1e9, 1..60)) {
            let s = summarise(&samples).unwrap();
            prop_assert!(s.mean.low <= s.mean.value && s.mean.value <= s.mean.high);
            prop_assert!(s.min <= s.median && s.median <= s.max);
            prop_assert!(s.outliers < s.samples);
            prop_assert!(warm_up(&samples) <= samples.len() / 2);
        }
    }

    /// Series of independent values, always the same ones: the interval of batch means covers the
    /// truth about as often as it says.
    #[test]
    fn batch_means_cover() {
        let mut random = clscope_testing::Random::new(1);
        let covered = (0..10_000)
            .filter(|_| {
                let series: Vec<f64> = (0..64).map(|_| random.uniform()).collect();
                let e = mean_of_series(&series).unwrap();
                e.low <= 0.5 && 0.5 <= e.high
            })
            .count();
        assert!((9_300..9_700).contains(&covered), "{covered} of 10,000");
    }
}
