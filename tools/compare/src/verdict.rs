//! Owns the question whether a change is more than noise. Values in, values out.
//!
//! A side is one or several runs; each has a mean and the standard error that it shows by itself
//! (of batch means, so that launches which resemble their neighbours do not count as independent).
//! Logarithms are compared, so that changes are ratios. With several runs on both sides, their
//! spread is the noise (Welch's test). A single run does not show how much runs differ from each
//! other: [`RUN_TO_RUN`] is assumed beside its own error. The interval is wide enough for all
//! changes that are judged together (Bonferroni), so that a pair of equal runs is silent as a whole
//! in 95 of 100 cases. Changes below [`FLOOR`] are never called one.

use serde::Serialize;

/// Relative standard deviation between runs that is assumed where it cannot be seen.
pub const RUN_TO_RUN: f64 = 0.0075;
/// Smallest relative change that is called one.
pub const FLOOR: f64 = 0.02;
/// Chance of any false alarm among the changes that are judged together.
const ALPHA: f64 = 0.05;

/// A figure of one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// The figure, above 0.
    pub value: f64,
    /// Its relative standard error, as far as the run shows it.
    pub error: f64,
}

/// A relative change with its interval: 0.05 is five percent more.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Change {
    /// The change.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// What a change is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
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
fn side(runs: &[Sample]) -> Option<(f64, f64, f64)> {
    let logs: Vec<f64> = runs
        .iter()
        .filter(|r| r.value > 0.0 && r.value.is_finite())
        .map(|r| r.value.ln())
        .collect();
    let n = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / n;
    match runs {
        _ if logs.is_empty() || logs.len() < runs.len() => None,
        [one] => Some((mean, one.error.powi(2) + RUN_TO_RUN.powi(2), f64::INFINITY)),
        _ => {
            let spread = logs.iter().map(|l| (l - mean).powi(2)).sum::<f64>() / (n - 1.0);
            // Equal figures, as of a clock with long ticks, do not prove that there is no noise.
            let own = runs.iter().map(|r| r.error.powi(2)).sum::<f64>() / n;
            Some((mean, spread.max(own).max(1e-12) / n, n - 1.0))
        }
    }
}

/// The change from `base` to `new`, wide enough for `judged` changes together; `None` where a side
/// has no figure.
#[must_use]
pub fn change(base: &[Sample], new: &[Sample], judged: usize) -> Option<Change> {
    let ((a, va, da), (b, vb, db)) = (side(base)?, side(new)?);
    let variance = va + vb;
    // Welch and Satterthwaite.
    let freedom = variance.powi(2) / (va.powi(2) / da + vb.powi(2) / db);
    let half = student(1.0 - ALPHA / 2.0 / judged.max(1) as f64, freedom) * variance.sqrt();
    let ratio = |log: f64| log.exp_m1();
    Some(Change { value: ratio(b - a), low: ratio(b - a - half), high: ratio(b - a + half) })
}

impl Change {
    /// What it is.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match () {
            () if self.low > 0.0 && self.value >= FLOOR => Verdict::More,
            () if self.high < 0.0 && self.value <= -FLOOR => Verdict::Less,
            () if self.low > -0.05 && self.high < 0.05 => Verdict::Same,
            () => Verdict::Unclear,
        }
    }
}

/// Quantile of the normal distribution (P. J. Acklam's rational approximation, relative error
/// 1.2e-9).
fn normal(p: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969_683_028_665_376e1,
        2.209_460_984_245_205e2,
        -2.759_285_104_469_687e2,
        1.383_577_518_672_69e2,
        -3.066_479_806_614_716e1,
        2.506_628_277_459_239,
    ];
    const B: [f64; 5] = [
        -5.447_609_879_822_406e1,
        1.615_858_368_580_409e2,
        -1.556_989_798_598_866e2,
        6.680_131_188_771_972e1,
        -1.328_068_155_288_572e1,
    ];
    const C: [f64; 6] = [
        -7.784_894_002_430_293e-3,
        -3.223_964_580_411_365e-1,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 4] = [
        7.784_695_709_041_462e-3,
        3.224_671_290_700_398e-1,
        2.445_134_137_142_996,
        3.754_408_661_907_416,
    ];
    let polynomial = |c: &[f64], x: f64| c.iter().fold(0.0, |sum, c| sum * x + c);
    if p > 0.5 {
        return -normal(1.0 - p);
    }
    if p < 0.024_25 {
        let q = (-2.0 * p.ln()).sqrt();
        return polynomial(&C, q) / (polynomial(&D, q) * q + 1.0);
    }
    let q = p - 0.5;
    let r = q * q;
    polynomial(&A, r) * q / (polynomial(&B, r) * r + 1.0)
}

/// Quantile of Student's distribution: exact for 1 and 2 degrees of freedom, else the expansion of
/// Cornish and Fisher (Abramowitz and Stegun, 26.7.5), whose error is below 2 % from 3 on.
fn student(p: f64, freedom: f64) -> f64 {
    if !freedom.is_finite() {
        return normal(p);
    }
    if freedom < 1.5 {
        return ((p - 0.5) * std::f64::consts::PI).tan();
    }
    if freedom < 2.5 {
        let a = 4.0 * p * (1.0 - p);
        return (2.0 * p - 1.0) * (2.0 / a).sqrt();
    }
    let (z, n) = (normal(p), freedom);
    let g1 = (z.powi(3) + z) / 4.0;
    let g2 = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let g3 = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    let g4 = (79.0 * z.powi(9) + 776.0 * z.powi(7) + 1482.0 * z.powi(5)
        - 1920.0 * z.powi(3)
        - 945.0 * z)
        / 92_160.0;
    z + g1 / n + g2 / n.powi(2) + g3 / n.powi(3) + g4 / n.powi(4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clscope_testing::Random;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (p, want) in
            [(0.975, 1.959_964), (0.995, 2.575_829), (0.999_5, 3.290_527), (0.3, -0.524_401)]
        {
            assert!((normal(p) - want).abs() < 1e-5, "{p}: {}", normal(p));
        }
        for (p, freedom, want) in [
            (0.975, 1.0, 12.706),
            (0.975, 2.0, 4.303),
            (0.975, 4.0, 2.776),
            (0.975, 8.0, 2.306),
            (0.995, 8.0, 3.355),
            (0.975, 30.0, 2.042),
        ] {
            let found = student(p, freedom);
            assert!((found / want - 1.0).abs() < 0.01, "{p} {freedom}: {found}, not {want}");
        }
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
                Sample { value: true_mean * draw.exp(), error: within }
            })
            .collect()
    }

    const KERNELS: usize = 5;
    const PAIRS: usize = 2000;

    /// Shares of pairs in which anything is told, and in which the first kernel is.
    fn told(runs: usize, slower: f64, between: f64) -> (f64, f64) {
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
            let verdicts: Vec<Verdict> = (0..KERNELS)
                .map(|k| change(&of(&base, k), &of(&new, k), KERNELS).unwrap().verdict())
                .collect();
            let changed = |v: &Verdict| matches!(v, Verdict::More | Verdict::Less);
            any += usize::from(verdicts.iter().any(changed));
            first += usize::from(verdicts[0] == Verdict::More);
        }
        (any as f64 / PAIRS as f64, first as f64 / PAIRS as f64)
    }

    /// Of 100 pairs of equal runs 95 are silent; of 100 with one kernel 5 % slower 95 are found: by
    /// single runs as alike as is assumed, and by five a side that differ twice as much.
    #[test]
    fn equal_runs_are_silent_and_five_percent_are_found() {
        for (runs, between) in [(1, RUN_TO_RUN), (5, 2.0 * RUN_TO_RUN), (10, 3.0 * RUN_TO_RUN)] {
            let (alarms, _) = told(runs, 0.0, between);
            assert!(alarms <= 0.05, "{runs} runs a side: {alarms} false alarms");
        }
        for (runs, between) in [(1, 0.5 * RUN_TO_RUN), (5, RUN_TO_RUN), (10, 2.0 * RUN_TO_RUN)] {
            let (_, found) = told(runs, 0.05, between);
            assert!(found >= 0.95, "{runs} runs a side: {found} found");
        }
    }

    #[test]
    fn what_has_no_figure_has_no_change() {
        let one = [Sample { value: 1.0, error: 0.0 }];
        assert!(change(&one, &[], 1).is_none());
        assert!(change(&one, &[Sample { value: 0.0, error: 0.0 }], 1).is_none());
        let wide = [Sample { value: 1.0, error: 0.2 }];
        assert_eq!(change(&wide, &wide, 1).unwrap().verdict(), Verdict::Unclear);
        assert_eq!(change(&one, &one, 1).unwrap().verdict(), Verdict::Same);
    }
}
