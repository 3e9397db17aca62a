//! Where a series changes its ways: steps, bends and periods, as numbers with a confidence. Owns
//! the tests and their error control; refuses to say what a change means.

use serde::Serialize;

/// A place where a series changes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Change {
    /// The last x of the old behaviour.
    pub after: f64,
    /// The first x of the new one.
    pub until: f64,
    /// Level (or slope) before.
    pub before: f64,
    /// Level (or slope) behind.
    pub behind: f64,
    /// 1 - p of the test against no change, corrected for the number of places looked at.
    pub confidence: f64,
}

/// A change is reported from this confidence on.
const SURE: f64 = 0.99;
/// Shuffles of the permutation test: p can be as small as 1 / (SHUFFLES + 1).
const SHUFFLES: usize = 999;

/// A small deterministic generator: results must not differ between two looks at the same numbers.
struct Shuffler(u64);

impl Shuffler {
    fn below(&mut self, n: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(self.0 >> 16) * n as u128) >> 48) as usize
    }
    fn shuffle(&mut self, values: &mut [f64]) {
        for i in (1..values.len()).rev() {
            values.swap(i, self.below(i + 1));
        }
    }
}

/// The best split of `values` into two levels: (index of the first of the second part, drop in the
/// sum of squares).
fn best_split(values: &[f64]) -> (usize, f64) {
    let n = values.len();
    let total: f64 = values.iter().sum();
    let (mut left, mut best) = (0.0, (0, 0.0));
    for k in 1..n {
        left += values[k - 1];
        let (a, b) = (k as f64, (n - k) as f64);
        let gain = (left / a - (total - left) / b).powi(2) * a * b / n as f64;
        if gain > best.1 {
            best = (k, gain);
        }
    }
    best
}

/// Steps of a series that is level between them, by binary segmentation; each split is tested
/// against shuffled copies of its own segment (the largest gain over all places, so looking
/// everywhere is paid for). `least` is the smallest step worth reporting, as a share of the level
/// before it. Points must be in order of x.
pub fn steps(points: &[(f64, f64)], least: f64) -> Vec<Change> {
    let values: Vec<f64> = points.iter().map(|p| p.1).collect();
    let mut cuts: Vec<(usize, f64)> = Vec::new();
    let mut open = vec![(0, values.len())];
    while let Some((from, to)) = open.pop() {
        let segment = &values[from..to];
        // Five values have 119 orders: fewer could never be distinguished from chance.
        if segment.len() < 5 {
            continue;
        }
        let (k, gain) = best_split(segment);
        if k == 0 || gain <= 1e-12 * segment.iter().map(|v| v * v).sum::<f64>() {
            continue;
        }
        let mut random = Shuffler(from as u64 ^ (to as u64) << 20);
        let mut copy = segment.to_vec();
        let as_large = (0..SHUFFLES)
            .filter(|_| {
                random.shuffle(&mut copy);
                best_split(&copy).1 >= gain * (1.0 - 1e-9)
            })
            .count();
        let confidence = 1.0 - (as_large + 1) as f64 / (SHUFFLES + 1) as f64;
        if confidence < SURE {
            continue;
        }
        cuts.push((from + k, confidence));
        open.push((from, from + k));
        open.push((from + k, to));
    }
    cuts.sort_unstable_by_key(|cut| cut.0);
    // A slope makes a segment fall into two unlike halves as well: only where it leaps between the
    // neighbouring cuts is it a step.
    let bounds: Vec<usize> =
        std::iter::once(0).chain(cuts.iter().map(|c| c.0)).chain([values.len()]).collect();
    let mut place = 0;
    cuts.retain(|&(at, _)| {
        place += 1;
        leaps(&points[bounds[place - 1]..bounds[place + 1]], at - bounds[place - 1])
    });
    let edges: Vec<usize> =
        std::iter::once(0).chain(cuts.iter().map(|c| c.0)).chain([values.len()]).collect();
    let level =
        |i: usize| crate::stats::median(&values[edges[i]..edges[i + 1]]).unwrap_or(f64::NAN);
    let changes = cuts.iter().enumerate().map(|(i, &(at, confidence))| Change {
        after: points[at - 1].0,
        until: points[at].0,
        before: level(i),
        behind: level(i + 1),
        confidence,
    });
    changes.filter(|c| (c.behind - c.before).abs() >= least * c.before.abs()).collect()
}

/// Whether a line with a step before point `at` explains the points better than the line alone, by
/// F, and better than a line with a knee, which has as many parameters. The place was chosen, which
/// costs a parameter and a Bonferroni factor.
fn leaps(points: &[(f64, f64)], at: usize) -> bool {
    let n = points.len();
    if n < 6 {
        return false;
    }
    let residual = |values: &dyn Fn(usize) -> f64| -> Option<f64> {
        let moved: Vec<(f64, f64)> =
            points.iter().enumerate().map(|(i, p)| (p.0, values(i))).collect();
        let l = crate::fit::line(&moved, false)?;
        Some(moved.iter().map(|&(x, y)| (y - l.intercept.value - l.slope.value * x).powi(2)).sum())
    };
    let Some(straight) = residual(&|i| points[i].1) else { return false };
    // The step is what is left of an indicator of the second part once a line is taken off both
    // (Frisch and Waugh 1933).
    let indicator = |i: usize| if i < at { 0.0 } else { 1.0 };
    let (Some(own), Some(both)) = (residual(&indicator), residual(&|i| points[i].1 + indicator(i)))
    else {
        return false;
    };
    let product = (both - straight - own) / 2.0;
    let stepped = if own > 0.0 { straight - product * product / own } else { straight };
    let scale: f64 = points.iter().map(|p| p.1 * p.1).sum::<f64>() * 1e-12;
    let freedom = (n - 4) as f64;
    let f = ((straight - stepped) / 2.0) / (stepped.max(scale) / freedom);
    let kneed =
        points.iter().filter_map(|p| broken(points, p.0).map(|fit| fit.0)).fold(straight, f64::min);
    f_tail_2(f, freedom) * n as f64 <= 1.0 - SURE && stepped < kneed
}

/// Sum of squared residuals of two lines that meet at `knee`, with the three coefficients: level at
/// the knee, slope before, slope behind. `None` where a side has no two points.
fn broken(points: &[(f64, f64)], knee: f64) -> Option<(f64, [f64; 3])> {
    let (mut a, mut b) = ([[0.0; 3]; 3], [0.0; 3]);
    for &(x, y) in points {
        let row = [1.0, (x - knee).min(0.0), (x - knee).max(0.0)];
        for i in 0..3 {
            for j in 0..3 {
                a[i][j] += row[i] * row[j];
            }
            b[i] += row[i] * y;
        }
    }
    let c = crate::fit::solve(a, b)?;
    let squares = points
        .iter()
        .map(|&(x, y)| (y - c[0] - c[1] * (x - knee).min(0.0) - c[2] * (x - knee).max(0.0)).powi(2))
        .sum();
    Some((squares, c))
}

/// The knee of a series that goes from one straight line to another, found on the measured x by
/// least squares; tested by F against one line, with the places looked at paid for by Bonferroni.
/// The interval holds the knees whose misfit the F test does not reject, up to the next measured
/// place. `least` is the smallest effect worth reporting: what the other slope makes of the last
/// value, as a share of the value at the knee. A bend that an end point alone makes is none.
pub fn bend(points: &[(f64, f64)], least: f64) -> Option<Change> {
    let found = bend_of_all(points, least)?;
    bend_of_all(points.get(1..)?, least)?;
    bend_of_all(points.get(..points.len() - 1)?, least)?;
    Some(found)
}

fn bend_of_all(points: &[(f64, f64)], least: f64) -> Option<Change> {
    let n = points.len();
    if n < 8 {
        return None;
    }
    let straight: f64 = {
        let l = crate::fit::line(points, false)?;
        points.iter().map(|&(x, y)| (y - l.intercept.value - l.slope.value * x).powi(2)).sum()
    };
    // Three points on either side: fewer are an outlier's word.
    let places = &points[3..n - 3];
    let fits: Vec<(f64, f64, [f64; 3])> =
        places.iter().filter_map(|p| broken(points, p.0).map(|(s, c)| (p.0, s, c))).collect();
    let best = fits.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    if (best.2[2] - best.2[1]).abs() * (points[n - 1].0 - best.0) < least * best.2[0].abs() {
        return None;
    }
    let scale: f64 = points.iter().map(|p| p.1 * p.1).sum::<f64>() * 1e-12;
    let (residual, freedom) = (best.1.max(scale), (n - 4) as f64);
    // Two parameters more: the knee and the second slope.
    let f = ((straight - best.1) / 2.0) / (residual / freedom);
    let p = f_tail_2(f, freedom) * places.len() as f64;
    if 1.0 - p < SURE {
        return None;
    }
    // 95 % quantile of F with 1 and n - 4 is the square of t's.
    let limit = residual * (1.0 + crate::stats::t95(n - 4).powi(2) / freedom);
    let inside = || fits.iter().filter(|fit| fit.1 <= limit).map(|fit| fit.0);
    let (first, last) = (inside().fold(best.0, f64::min), inside().fold(best.0, f64::max));
    // Only measured places were tried: the knee may lie anywhere up to the next one that is ruled
    // out.
    Some(Change {
        after: points.iter().rev().map(|p| p.0).find(|x| *x < first).unwrap_or(first),
        until: points.iter().map(|p| p.0).find(|x| *x > last).unwrap_or(last),
        before: best.2[1],
        behind: best.2[2],
        confidence: 1.0 - p,
    })
}

/// Upper tail of F with 2 and m degrees of freedom, in closed form: (1 + 2 f / m)^(-m/2).
fn f_tail_2(f: f64, m: f64) -> f64 {
    (1.0 + 2.0 * f.max(0.0) / m).powf(-m / 2.0)
}

/// The period of a saw-tooth over x = 1, 2, 3...: the lag at which the differences repeat
/// themselves best, with 1 - p by shuffling the differences. The shortest lag that comes within a
/// tenth of the best is reported, since multiples repeat as well.
pub fn period(points: &[(f64, f64)]) -> Option<Change> {
    let differences: Vec<f64> = points.windows(2).map(|w| w[1].1 - w[0].1).collect();
    let n = differences.len();
    let longest = n / 2;
    if longest < 2 {
        return None;
    }
    let correlation = |d: &[f64], lag: usize| {
        let mean = d.iter().sum::<f64>() / d.len() as f64;
        let power: f64 = d.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / d.len() as f64;
        let together: f64 =
            d.iter().zip(&d[lag..]).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>()
                / (d.len() - lag) as f64;
        if power > 0.0 { together / power } else { 0.0 }
    };
    let best = |d: &[f64]| (2..=longest).map(|lag| correlation(d, lag)).fold(f64::MIN, f64::max);
    let strength = best(&differences);
    let mut random = Shuffler(n as u64);
    let mut copy = differences.clone();
    let as_strong = (0..SHUFFLES)
        .filter(|_| {
            random.shuffle(&mut copy);
            best(&copy) >= strength
        })
        .count();
    let confidence = 1.0 - (as_strong + 1) as f64 / (SHUFFLES + 1) as f64;
    if confidence < SURE || strength <= 0.0 {
        return None;
    }
    let lag = (2..=longest).find(|&lag| correlation(&differences, lag) >= 0.9 * strength)?;
    Some(Change { after: lag as f64, until: lag as f64, before: 0.0, behind: strength, confidence })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn noise(seed: u64) -> impl FnMut() -> f64 {
        let mut random = Shuffler(seed);
        move || {
            (0..12).map(|_| random.below(1 << 20) as f64 / f64::from(1 << 20)).sum::<f64>() - 6.0
        }
    }

    fn series(n: usize, seed: u64, f: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        let mut noise = noise(seed);
        (1..=n).map(|i| i as f64).map(|x| (x, f(x) + 0.01 * noise())).collect()
    }

    #[test]
    fn steps_are_found_where_they_are() {
        let found = steps(
            &series(60, 1, |x| {
                if x <= 20.0 {
                    1.0
                } else if x <= 45.0 {
                    2.0
                } else {
                    2.5
                }
            }),
            0.05,
        );
        let at: Vec<(f64, f64)> = found.iter().map(|c| (c.after, c.until)).collect();
        assert_eq!(at, [(20.0, 21.0), (45.0, 46.0)]);
        assert!(
            (found[0].before - 1.0).abs() < 0.02
                && (found[1].behind - 2.5).abs() < 0.02
                && found[0].confidence >= 0.99
        );
        assert!(
            steps(&series(20, 1, |x| if x <= 10.0 { 1.0 } else { 1.02 }), 0.05).is_empty(),
            "too small to tell"
        );
        assert!(steps(&[(1.0, 1.0); 8], 0.05).is_empty() && steps(&[], 0.05).is_empty());
    }

    /// A slope is no step, nor is a slope that changes; stairs are, however many.
    #[test]
    fn slopes_are_no_steps() {
        for seed in 0..20 {
            assert_eq!(steps(&series(40, seed, |x| 0.07 * x), 0.05), [], "{seed}");
            assert_eq!(
                steps(&series(40, seed, |x| 2.0 + 0.05 * (x - 20.0).max(0.0)), 0.05),
                [],
                "{seed}"
            );
        }
        let stairs = steps(&series(64, 2, |x| (x / 8.0).ceil()), 0.05);
        let at: Vec<f64> = stairs.iter().map(|c| c.after).collect();
        assert_eq!(at, [8.0, 16.0, 24.0, 32.0, 40.0, 48.0, 56.0]);
    }

    #[test]
    fn bends_are_found_where_they_are() {
        // Time over work-groups with a pipeline of 38: level, then one more step for each group.
        let found = bend(&series(80, 3, |x| 38.0 + (x - 38.0).max(0.0)), 0.05).unwrap();
        assert!(
            found.after <= 38.0 && 38.0 <= found.until && found.until - found.after <= 4.0,
            "{found:?}"
        );
        assert!(found.before.abs() < 0.01 && (found.behind - 1.0).abs() < 0.01);
        assert!(
            bend(&series(80, 4, |x| 3.0 + 0.5 * x), 0.05).is_none(),
            "a straight line has no bend"
        );
        assert!(
            bend(&series(80, 4, |x| 100.0 + 0.02 * (x - 40.0).max(0.0)), 0.05).is_none(),
            "sure, but nothing to tell of"
        );
        let mut outlier = series(40, 5, |x| 0.07 * x);
        outlier[39].1 = 1.0;
        assert!(bend(&outlier, 0.05).is_none(), "one point makes no slope");
    }

    #[test]
    fn periods_are_found() {
        // Throughput over work-groups on 7 cores.
        let found = period(&series(60, 5, |x| x / (x / 7.0).ceil())).unwrap();
        assert_eq!(found.after, 7.0);
        assert!(period(&series(60, 6, |x| x)).is_none_or(|c| c.confidence < 1.0));
    }

    /// Pure noise, always the same: at the 1 % level false alarms are rare.
    #[test]
    fn noise_has_few_changes() {
        let noise = |k: u64| series(30, k * 7919, |_| 1.0);
        let alarms = (0..1000).filter(|k| !steps(&noise(*k), 0.0).is_empty()).count();
        assert!(alarms <= 30, "{alarms} of 1000");
        let bends = (0..1000).filter(|k| bend(&noise(*k), 0.0).is_some()).count();
        assert!(bends <= 30, "{bends} of 1000");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
        #[test]
        fn scaling_does_not_move_changes(scale in 0.001f64..1000.0) {
            let points = series(50, 11, |x| if x <= 17.0 { 1.0 } else { 1.4 });
            let scaled: Vec<(f64, f64)> = points.iter().map(|&(x, y)| (x, y * scale)).collect();
            let places = |c: &[Change]| c.iter().map(|c| (c.after, c.until)).collect::<Vec<_>>();
            prop_assert_eq!(places(&steps(&points, 0.05)), places(&steps(&scaled, 0.05)));
        }
    }
}
