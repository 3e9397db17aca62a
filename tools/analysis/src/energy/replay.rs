//! Owns the estimate from replayed launches: one kernel repeated until it spans several updates of
//! the sensor, several such batches, and their median. Refuses to replay anything itself.

#![forbid(unsafe_code)]

use super::units::{Estimate, Joules, Seconds, Watts};

/// One batch of identical launches, read from a sensor update to a sensor update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Batch {
    /// Launches between the two readings.
    pub launches: u64,
    /// Energy between them.
    pub energy: Joules,
    /// Time between them.
    pub length: Seconds,
}

/// Energy of one launch from replayed batches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Replayed {
    /// Median over batches, floor and gaps between launches included.
    pub joules_per_launch: Estimate<Joules>,
    /// Median power over batches.
    pub watts: Estimate<Watts>,
    /// Batches used.
    pub batches: usize,
}

/// Fewest batches of which the extremes enclose the median with 95 % (1 - 2 · 2⁻⁶ = 96.9 %).
const LEAST: usize = 6;

/// Median over batches, with the interval of order statistics that holds for any distribution.
/// `None` with fewer than six usable batches: no interval of 95 % exists then.
#[must_use]
pub fn median(batches: &[Batch]) -> Option<Replayed> {
    let usable =
        || batches.iter().filter(|b| b.launches > 0 && b.length.0 > 0.0 && b.energy.0.is_finite());
    let count = usable().count();
    if count < LEAST {
        return None;
    }
    let joules = ordered(usable().map(|b| b.energy.0 / b.launches as f64));
    let watts = ordered(usable().map(|b| b.energy.0 / b.length.0));
    let rank = rank(count);
    let pick = |values: &[f64]| (middle(values), values[rank], values[count - 1 - rank]);
    let (j, w) = (pick(&joules), pick(&watts));
    Some(Replayed {
        joules_per_launch: Estimate { value: Joules(j.0), low: Joules(j.1), high: Joules(j.2) },
        watts: Estimate { value: Watts(w.0), low: Watts(w.1), high: Watts(w.2) },
        batches: count,
    })
}

fn ordered(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

fn middle(values: &[f64]) -> f64 {
    let half = values.len() / 2;
    if values.len() % 2 == 1 { values[half] } else { (values[half - 1] + values[half]) / 2.0 }
}

/// The highest rank (from zero) at which the binomial tail below it is at most 2.5 %.
fn rank(count: usize) -> usize {
    let mut term = 0.5_f64.powi(count.min(1000) as i32);
    let mut tail = term;
    let mut rank = 0;
    while rank + 1 < count / 2 {
        term *= (count - rank) as f64 / (rank + 1) as f64;
        if tail + term > 0.025 {
            break;
        }
        tail += term;
        rank += 1;
    }
    rank
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(energy: f64) -> Batch {
        Batch { launches: 10, energy: Joules(energy), length: Seconds(2.0) }
    }

    #[test]
    fn ranks_match_the_tables_of_the_sign_test() {
        for (count, want) in [(6, 0), (8, 0), (9, 1), (12, 2), (15, 3), (20, 5), (25, 7), (50, 17)]
        {
            assert_eq!(rank(count), want, "{count} batches");
        }
    }

    #[test]
    fn the_median_shrugs_off_a_disturbed_batch() {
        let mut batches: Vec<Batch> = [1.0, 1.1, 0.9, 1.0, 1.05, 0.95, 1.0].map(batch).to_vec();
        batches.push(batch(50.0));
        let replayed = median(&batches).expect("eight batches");
        assert!((replayed.joules_per_launch.value.0 - 0.1).abs() < 1e-12);
        assert!((replayed.watts.value.0 - 0.5).abs() < 1e-12);
        assert!(median(&batches[..5]).is_none());
    }
}
