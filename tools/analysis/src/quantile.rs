//! The median with its interval, and quantiles of the normal distribution and of Student's t.
//! Refuses to assume a distribution: the caller does.

/// Half-width of a 95 % interval of a normal distribution, in standard deviations.
pub const NORMAL_95: f64 = 1.96;
/// Standard deviation of a normal distribution whose median of deviations is 1.
pub const DEVIATION: f64 = 1.4826;

/// The median of what is finite; the mean of the middle two where their number is even. `None` of
/// nothing.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().filter(|v| v.is_finite()).collect();
    let middle = values.len() / 2;
    if values.is_empty() {
        return None;
    }
    let even = values.len().is_multiple_of(2);
    let (below, upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    let lower = if even { below.iter().copied().reduce(f64::max) } else { None };
    Some(lower.map_or(*upper, |lower| f64::midpoint(lower, *upper)))
}

/// The order statistics that hold the median of what the values are a sample of in at least 95 of
/// 100 such samples, whatever its distribution: the interval of the sign test (Conover 1999).
/// `None` of fewer than six values, which hold it in fewer.
pub fn median_interval(values: &[f64]) -> Option<(f64, f64)> {
    let rank = median_rank(values.len())?;
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    Some((sorted[rank - 1], sorted[sorted.len() - rank]))
}

/// The largest k for which the k-th smallest and the k-th largest of `n` values leave out the
/// median in at most 5 of 100 samples: if fewer than k lie on one side of it, binomially with 1/2.
fn median_rank(n: usize) -> Option<usize> {
    // Above, 2^-n is no number of this type; the normal approximation with its correction is within
    // a rank long before.
    const MOST_EXACT: usize = 1_000;
    if n > MOST_EXACT {
        return Some(((n as f64 - NORMAL_95 * (n as f64).sqrt() - 1.0) / 2.0) as usize + 1);
    }
    let mut term = 0.5f64.powi(n as i32);
    let (mut below, mut k) = (0.0, 0);
    while below + term <= 0.025 && k < n {
        below += term;
        term *= (n - k) as f64 / (k + 1) as f64;
        k += 1;
    }
    (k > 0).then_some(k)
}

/// Quantile of the normal distribution (P. J. Acklam's rational approximation, relative error
/// 1.2e-9).
pub fn normal(p: f64) -> f64 {
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

/// Part of the normal distribution below `z`, to 1e-7 (Abramowitz and Stegun, 26.2.17).
pub fn below(z: f64) -> f64 {
    const TERMS: [f64; 5] =
        [1.330_274_429, -1.821_255_978, 1.781_477_937, -0.356_563_782, 0.319_381_530];
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let polynomial = TERMS.iter().fold(0.0, |sum, c| (sum + c) * t);
    let density = (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt();
    let above = density * polynomial;
    if z > 0.0 { 1.0 - above } else { above }
}

/// Quantile of Student's distribution; fewer than 1 degree of freedom count as 1. A continuous
/// function of the degrees: by its integral below `EXPANDED`, by an expansion from there on.
pub fn student(p: f64, freedom: f64) -> f64 {
    if p < 0.5 {
        return -student(1.0 - p, freedom);
    }
    if !freedom.is_finite() {
        return normal(p);
    }
    if freedom < EXPANDED {
        return by_integral(p, freedom.max(1.0));
    }
    expansion(normal(p), freedom)
}

/// Degrees of freedom from which on the expansion is exact to 1e-4 of a quantile up to 0.995.
const EXPANDED: f64 = 8.0;
/// Pieces of an integral by Simpson's rule: exact to 3e-5 of a quantile.
const PIECES: usize = 64;

/// With t = sqrt(n) / tan(angle), the part of Student's distribution beyond t is in proportion to the
/// integral of sin^(n-1) from 0 to the angle; angle = (pi / 2) v^4 makes that smooth at 0. The root
/// is found by Newton's steps, or by halves where one leads out.
fn by_integral(p: f64, n: f64) -> f64 {
    use std::f64::consts::FRAC_PI_2;
    let density = |v: f64| (FRAC_PI_2 * v.powi(4)).sin().powf(n - 1.0) * v.powi(3);
    let integral = |to: f64| {
        let step = to / PIECES as f64;
        let inner: f64 = (1..PIECES)
            .map(|i| if i % 2 == 1 { 4.0 } else { 2.0 } * density(i as f64 * step))
            .sum();
        (inner + density(to)) * step / 3.0
    };
    let wanted = 2.0 * (1.0 - p) * integral(1.0);
    let (mut low, mut high, mut v) = (0.0, 1.0, 0.5);
    // Halves alone would come as near in 50 steps.
    for _ in 0..50 {
        let over = integral(v) - wanted;
        if over > 0.0 {
            high = v;
        } else {
            low = v;
        }
        let next = v - over / density(v);
        let next = if next > low && next < high { next } else { f64::midpoint(low, high) };
        let moved = (next - v).abs();
        v = next;
        if moved < 1e-12 {
            break;
        }
    }
    n.sqrt() / (FRAC_PI_2 * v.powi(4)).tan()
}

/// The quantile of Student's t beside that of the normal distribution, `z`: G. W. Hill's expansion
/// (Algorithm 396, CACM 13, 1970; Abramowitz and Stegun, 26.7.5).
fn expansion(z: f64, n: f64) -> f64 {
    let (z3, z5, z7, z9) = (z.powi(3), z.powi(5), z.powi(7), z.powi(9));
    z + (z3 + z) / (4.0 * n)
        + (5.0 * z5 + 16.0 * z3 + 3.0 * z) / (96.0 * n.powi(2))
        + (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * z) / (384.0 * n.powi(3))
        + (79.0 * z9 + 776.0 * z7 + 1482.0 * z5 - 1920.0 * z3 - 945.0 * z) / (92160.0 * n.powi(4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_medians_interval_is_that_of_the_sign_test() {
        // Conover, Practical Nonparametric Statistics, table of the binomial: 9 figures, 2nd and
        // 8th (96.1 %); 30: 10th and 21st.
        for (n, interval) in [
            (0, None),
            (5, None),
            (6, Some((1.0, 6.0))),
            (9, Some((2.0, 8.0))),
            (30, Some((10.0, 21.0))),
        ] {
            let values: Vec<f64> = (1..=n).rev().map(f64::from).collect();
            assert_eq!(median_interval(&values), interval, "{n}");
        }
        // No step where the approximation begins, and none of its own.
        let ranks: Vec<usize> = (900..1_100).filter_map(median_rank).collect();
        assert_eq!(ranks.len(), 200);
        assert!(
            ranks.windows(2).all(|pair| pair[0] <= pair[1] && pair[1] <= pair[0] + 1),
            "{ranks:?}"
        );
        assert_eq!(median_rank(1_000), Some(469));
        assert_eq!(median_rank(10_000), Some(4_902));
    }

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
            assert!((found / want - 1.0).abs() < 3e-4, "{p} {freedom}: {found}, not {want}");
        }
    }

    #[test]
    fn parts_below_and_quantiles_are_inverse() {
        for p in [1e-4, 0.025, 0.3, 0.5, 0.8, 0.975, 0.9999] {
            assert!((below(normal(p)) - p).abs() < 2e-7, "{p}: {}", below(normal(p)));
        }
    }

    #[test]
    fn t_quantiles_are_continuous_in_the_degrees_of_freedom() {
        for p in [0.6, 0.9, 0.975, 0.995] {
            let mut before = student(p, 1.0);
            for i in 1..2_000 {
                let freedom = 1.0 + f64::from(i) * 0.01;
                let now = student(p, freedom);
                let change = 1.0 - now / before;
                // From 1 to 1.01 a quantile falls by at most 5 %; nowhere does it rise.
                assert!((-1e-4..0.05).contains(&change), "{p} {freedom}: {before} to {now}");
                before = now;
            }
            assert!(student(1.0 - p, 3.0) == -student(p, 3.0));
        }
    }

    #[test]
    fn t_quantiles_match_the_table() {
        for (freedom, want, within) in [
            (1.0, 12.706, 1e-3),
            (2.0, 4.303, 1e-3),
            (1.5, 6.017, 1e-3),
            (3.0, 3.182, 1e-3),
            (5.0, 2.571, 1e-3),
            (10.0, 2.228, 1e-3),
            (30.0, 2.042, 1e-3),
            (1e6, 1.96, 1e-3),
        ] {
            let got = student(0.975, freedom);
            assert!((got - want).abs() < within, "t({freedom}) = {got}, the table says {want}");
        }
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median([]), None);
        assert_eq!(median([f64::NAN, f64::INFINITY]), None);
        assert_eq!(median([3.0]), Some(3.0));
        assert_eq!(median([9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 9.0]), Some(3.0));
        assert_eq!(median([1.0, f64::NAN, 3.0]), Some(2.0));
    }
}
