//! Owns the question whether a change is more than noise. Values in, values out.
//!
//! A side is one or several runs; each has a mean and the standard error that it shows by itself
//! (of batch means, so that launches which resemble their neighbours do not count as independent).
//! Logarithms are compared, so that changes are ratios. With several runs on both sides, their
//! spread is the noise (Welch's test). A single run does not show how much runs differ from each
//! other: a spread such as [`RUN_TO_RUN`] is assumed beside its own error. The interval is wide
//! enough for all changes that are judged together (Bonferroni), so that a pair of equal runs is
//! silent as a whole in 95 of 100 cases. Changes below [`FLOOR`] are never called one.

use clscope_analysis::quantile::student;
use clscope_profile::interval::Interval;
use serde::Serialize;

/// Relative standard deviation between runs that is assumed where it cannot be seen: of devices of
/// which the application has its turn for itself.
pub const RUN_TO_RUN: f64 = 0.0075;
/// The same of processors, which other programs use at any time: that of kernels of 0.1 ms between
/// ten runs each on a busy machine was 3.9, 4.1 and 4.8 % (tools/guide/diff.md, "Measured").
pub const RUN_TO_RUN_OF_PROCESSORS: f64 = 0.05;
/// Smallest relative change that is called one.
pub const FLOOR: f64 = 0.02;
/// Chance of any false alarm among the changes that are judged together.
const ALPHA: f64 = 0.05;
/// Widest interval that holds no change at all, from half to double: runs so few, or so unlike each
/// other, tell no ends.
const WIDEST: f64 = std::f64::consts::LN_2;

/// A figure of one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// The figure, above 0.
    pub value: f64,
    /// Its relative standard error, as far as the run shows it.
    pub error: f64,
    /// The part of it that figures of the device's other runs have, too: the relative change with each
    /// of two independent errors of standard deviation 1.
    pub common: [f64; 2],
}

impl Sample {
    /// One whose error is its own.
    pub fn own(value: f64, error: f64) -> Self {
        Self { value, error, common: [0.0; 2] }
    }

    /// The variance that it shares with no other.
    fn own_variance(&self) -> f64 {
        (self.error.powi(2) - square(self.common)).max(0.0)
    }
}

fn square(of: [f64; 2]) -> f64 {
    of.iter().map(|part| part * part).sum()
}

/// Mean of what the runs of a side have in common with the other's.
fn common(runs: &[Sample]) -> [f64; 2] {
    [0, 1].map(|i| runs.iter().map(|run| run.common[i]).sum::<f64>() / runs.len() as f64)
}

/// A relative change with its interval: 0.05 is five percent more.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(into = "Interval")]
pub struct Change {
    /// The change.
    pub value: f64,
    /// Lower end; not known where the runs are too few or too unlike to tell half from double.
    pub low: f64,
    /// Upper end; likewise.
    pub high: f64,
}

impl From<Change> for Interval {
    fn from(of: Change) -> Self {
        Self::estimated(of.value, of.low, of.high)
    }
}

impl schemars::JsonSchema for Change {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Change".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Interval::json_schema(generator)
    }
}

/// What a change is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Surely more than before.
    More,
    /// Surely less.
    Less,
    /// No more than noise, and surely less than a change of 5 %.
    Same,
    /// No more than noise, which is too much to exclude a change of 5 %.
    Unclear,
    /// Only the base has it.
    Gone,
    /// Only the new side has it.
    Added,
    /// Not judged; the row says why.
    NotJudged,
}

/// Mean of the logarithms of a side, variance of that mean, and its degrees of freedom.
fn side(runs: &[Sample], assumed: f64) -> Option<(f64, f64, f64)> {
    let logs: Vec<f64> = runs
        .iter()
        .filter(|r| r.value > 0.0 && r.value.is_finite())
        .map(|r| r.value.ln())
        .collect();
    let n = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / n;
    match runs {
        _ if logs.is_empty() || logs.len() < runs.len() => None,
        [one] => Some((mean, one.own_variance() + assumed.powi(2), f64::INFINITY)),
        _ => {
            let spread = logs.iter().map(|l| (l - mean).powi(2)).sum::<f64>() / (n - 1.0);
            // Equal figures, as of a clock with long ticks, do not prove that there is no noise.
            let own = runs.iter().map(Sample::own_variance).sum::<f64>() / n;
            Some((mean, spread.max(own).max(1e-12) / n, n - 1.0))
        }
    }
}

/// The change from `base` to `new`, wide enough for `judged` changes together; `None` where a side
/// has no figure. `assumed`: relative standard deviation between runs, for a side of a single one.
pub fn change(base: &[Sample], new: &[Sample], judged: usize, assumed: f64) -> Option<Change> {
    let ((a, va, da), (b, vb, db)) = (side(base, assumed)?, side(new, assumed)?);
    let variance = va + vb;
    // Welch and Satterthwaite.
    let freedom = variance.powi(2) / (va.powi(2) / da + vb.powi(2) / db);
    // What both sides have in common cancels as far as it moves them alike.
    let (of_base, of_new) = (common(base), common(new));
    let apart = square([of_new[0] - of_base[0], of_new[1] - of_base[1]]);
    let deviation = (variance + apart).sqrt();
    let half = student(1.0 - ALPHA / 2.0 / judged.max(1) as f64, freedom) * deviation;
    // A change beyond all doubt stays one.
    let half = if half > WIDEST && half >= (b - a).abs() { f64::INFINITY } else { half };
    let ratio = |log: f64| log.exp_m1();
    if half.is_infinite() {
        let value = ratio(b - a);
        return Some(Change { value, low: f64::NEG_INFINITY, high: f64::INFINITY });
    }
    Some(Change { value: ratio(b - a), low: ratio(b - a - half), high: ratio(b - a + half) })
}

impl Change {
    /// The same change, of which no ends are told.
    pub fn without_interval(self) -> Self {
        Self { low: f64::NEG_INFINITY, high: f64::INFINITY, ..self }
    }

    /// What it is.
    pub fn outcome(&self) -> Outcome {
        match () {
            () if self.low > 0.0 && self.value >= FLOOR => Outcome::More,
            () if self.high < 0.0 && self.value <= -FLOOR => Outcome::Less,
            () if self.low > -0.05 && self.high < 0.05 => Outcome::Same,
            () => Outcome::Unclear,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(base: &[Sample], new: &[Sample], judged: usize) -> Option<Change> {
        super::change(base, new, judged, RUN_TO_RUN)
    }
    use clscope_analysis::quantile::normal;
    use clscope_testing::Random;

    #[test]
    fn few_runs_that_differ_do_not_hide_a_tenfold_change() {
        let runs = |values: [f64; 2]| values.map(|value| Sample::own(value, 0.0));
        let worse = change(&runs([1.0, 1.02]), &runs([10.0, 10.2]), 200).unwrap();
        assert!(worse.low.is_finite() && worse.outcome() == Outcome::More, "{worse:?}");
        let unlike = change(&runs([1.0, 1.5]), &runs([1.2, 0.9]), 200).unwrap();
        assert!(unlike.high.is_infinite() && unlike.outcome() == Outcome::Unclear, "{unlike:?}");
    }

    /// A run: each kernel's mean of `launches` durations, whose true mean differs from run to run.
    fn run(random: &mut Random, slower: f64, between: f64) -> Vec<Sample> {
        let mut uniform = || (random.below(1 << 53) as f64 + 0.5) / (1u64 << 53) as f64;
        (0..KERNELS)
            .map(|kernel| {
                let true_mean = if kernel == 0 { 1.0 + slower } else { 1.0 };
                // Launches spread by 10 %; four hundred of them.
                let within = 0.1 / 20.0;
                let draw = between * normal(uniform()) + within * normal(uniform());
                Sample::own(true_mean * draw.exp(), within)
            })
            .collect()
    }

    const KERNELS: usize = 5;
    const PAIRS: usize = 2000;

    /// Shares of pairs in which anything is told, and in which the first kernel is.
    fn count_changes(runs: usize, slower: f64, between: f64) -> (f64, f64) {
        let mut random = Random::new(7 + runs as u64);
        let (mut any, mut first) = (0, 0);
        for _ in 0..PAIRS {
            let mut side = |slower| -> Vec<Vec<Sample>> {
                (0..runs).map(|_| run(&mut random, slower, between)).collect()
            };
            let (base, new) = (side(0.0), side(slower));
            let of = |side: &[Vec<Sample>], k: usize| -> Vec<Sample> {
                side.iter().map(|run| run[k]).collect()
            };
            let outcomes: Vec<Outcome> = (0..KERNELS)
                .map(|k| change(&of(&base, k), &of(&new, k), KERNELS).unwrap().outcome())
                .collect();
            let changed = |v: &Outcome| matches!(v, Outcome::More | Outcome::Less);
            any += usize::from(outcomes.iter().any(changed));
            first += usize::from(outcomes[0] == Outcome::More);
        }
        (any as f64 / PAIRS as f64, first as f64 / PAIRS as f64)
    }

    /// Of 100 pairs of equal runs 95 are silent; of 100 with one kernel 5 % slower 95 are found: by
    /// single runs as alike as is assumed, and by five a side that differ twice as much.
    #[test]
    fn equal_runs_are_silent_and_five_percent_are_found() {
        for (runs, between) in [(1, RUN_TO_RUN), (5, 2.0 * RUN_TO_RUN), (10, 3.0 * RUN_TO_RUN)] {
            let (alarms, _) = count_changes(runs, 0.0, between);
            assert!(alarms <= 0.05, "{runs} runs a side: {alarms} false alarms");
        }
        for (runs, between) in [(1, 0.5 * RUN_TO_RUN), (5, RUN_TO_RUN), (10, 2.0 * RUN_TO_RUN)] {
            let (_, found) = count_changes(runs, 0.05, between);
            assert!(found >= 0.95, "{runs} runs a side: {found} found");
        }
    }

    #[test]
    fn what_has_no_figure_has_no_change() {
        let one = [Sample::own(1.0, 0.0)];
        assert!(change(&one, &[], 1).is_none());
        assert!(change(&one, &[Sample::own(0.0, 0.0)], 1).is_none());
        let wide = [Sample::own(1.0, 0.2)];
        assert_eq!(change(&wide, &wide, 1).unwrap().outcome(), Outcome::Unclear);
        assert_eq!(change(&one, &one, 1).unwrap().outcome(), Outcome::Same);
    }

    #[test]
    fn two_unlike_runs_a_side_give_no_interval_of_thousands_of_percent() {
        let runs = |values: [f64; 2]| values.map(|value| Sample::own(value, 0.001));
        let unlike = change(&runs([1.0, 1.2]), &runs([1.1, 1.3]), 10).unwrap();
        assert!((unlike.value - (1.43f64 / 1.2).sqrt() + 1.0).abs() < 1e-12, "geometric means");
        assert!(unlike.low.is_infinite() && unlike.high.is_infinite(), "{unlike:?}");
        assert_eq!(unlike.outcome(), Outcome::Unclear);
        let text = serde_json::to_value(unlike).unwrap();
        assert!(text["low"].is_null() && text["high"].is_null(), "{text}");
        let alike = change(&runs([1.0, 1.001]), &runs([1.0, 1.001]), 1).unwrap();
        assert!(alike.low > -0.05 && alike.high < 0.05, "{alike:?}");
    }

    #[test]
    fn errors_that_both_sides_have_cancel_as_far_as_they_move_both_alike() {
        let of = |value: f64, common: [f64; 2]| Sample { value, error: 0.05, common };
        let half = |a: Sample, b: Sample| {
            let change = super::change(&[a], &[b], 1, 0.0).unwrap();
            ((1.0 + change.high) / (1.0 + change.value)).ln() / 1.959_964
        };
        let own = half(of(1.0, [0.0; 2]), of(1.0, [0.0; 2]));
        assert!((own - 0.05 * 2.0_f64.sqrt()).abs() < 1e-6, "{own}");
        // Of 5 %, 4 % are of both: 3 % of each are left.
        let alike = half(of(1.0, [0.04, 0.0]), of(1.0, [0.04, 0.0]));
        assert!((alike - 0.03 * 2.0_f64.sqrt()).abs() < 1e-6, "{alike}");
        // A warmer run is moved by half as much.
        let warmer = half(of(1.0, [0.04, 0.0]), of(1.0, [0.02, 0.0]));
        let right =
            (0.03_f64.powi(2) + 0.05_f64.powi(2) - 0.02_f64.powi(2) + 0.02_f64.powi(2)).sqrt();
        assert!((warmer - right).abs() < 1e-6, "{warmer} {right}");
        // To one side and to the other, they add up.
        let apart = half(of(1.0, [0.03, 0.0]), of(1.0, [-0.03, 0.0]));
        assert!((apart - (2.0 * 0.04_f64.powi(2) + 0.06_f64.powi(2)).sqrt()).abs() < 1e-6);
    }
}
