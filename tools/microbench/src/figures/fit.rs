//! Straight lines through measured points, with intervals: latency + size / bandwidth, energy
//! against rate. Owns weighted least squares with robust weights; refuses to decide whether a line
//! is the right shape beyond stating the misfit.

use crate::stats::{Interval, t95};
use serde::Serialize;

/// y = intercept + slope x.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Line {
    /// Value at x = 0.
    pub intercept: Interval,
    /// Change of y per unit of x.
    pub slope: Interval,
    /// Root of the mean squared residual, as a share of y where the fit was relative.
    pub misfit: f64,
    /// Points used.
    pub points: usize,
}

/// Fits a line; `relative` weighs every point by 1 / y^2, as times over many orders of magnitude
/// need. Nothing for fewer than three points or a single x.
pub fn line(points: &[(f64, f64)], relative: bool) -> Option<Line> {
    let usable: Vec<(f64, f64, f64)> = points
        .iter()
        .filter(|(x, y)| x.is_finite() && y.is_finite() && (!relative || *y > 0.0))
        .map(|&(x, y)| (x, y, if relative { 1.0 / (y * y) } else { 1.0 }))
        .collect();
    let n = usable.len();
    if n < 3 {
        return None;
    }
    let weight: f64 = usable.iter().map(|p| p.2).sum();
    let mx = usable.iter().map(|(x, _, w)| x * w).sum::<f64>() / weight;
    let my = usable.iter().map(|(_, y, w)| y * w).sum::<f64>() / weight;
    let sxx: f64 = usable.iter().map(|(x, _, w)| w * (x - mx).powi(2)).sum();
    let sxy: f64 = usable.iter().map(|(x, y, w)| w * (x - mx) * (y - my)).sum();
    if sxx <= 0.0 {
        return None;
    }
    let slope = sxy / sxx;
    let intercept = my - slope * mx;
    let squares: f64 = usable.iter().map(|(x, y, w)| w * (y - intercept - slope * x).powi(2)).sum();
    let variance = squares / (n - 2) as f64;
    let t = t95(n - 2);
    Some(Line {
        intercept: Interval::symmetric(
            intercept,
            t * (variance * (1.0 / weight + mx * mx / sxx)).sqrt(),
        ),
        slope: Interval::symmetric(slope, t * (variance / sxx).sqrt()),
        misfit: (squares / n as f64).sqrt(),
        points: n,
    })
}

/// The solution of a x = b for a small dense symmetric system; nothing where it is singular. Used
/// by fits of few parameters.
pub fn solve<const N: usize>(mut a: [[f64; N]; N], mut b: [f64; N]) -> Option<[f64; N]> {
    for column in 0..N {
        let pivot =
            (column..N).max_by(|&i, &j| a[i][column].abs().total_cmp(&a[j][column].abs()))?;
        if a[pivot][column].abs() < 1e-300 {
            return None;
        }
        a.swap(column, pivot);
        b.swap(column, pivot);
        for row in 0..N {
            if row != column {
                let factor = a[row][column] / a[column][column];
                let pivot_row = a[column];
                for (x, p) in a[row].iter_mut().zip(pivot_row) {
                    *x -= factor * p;
                }
                b[row] -= factor * b[column];
            }
        }
    }
    let mut x = [0.0; N];
    for i in 0..N {
        x[i] = b[i] / a[i][i];
    }
    Some(x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn exact_lines_come_back() {
        let points: Vec<(f64, f64)> =
            (0..20).map(|k| f64::from(1 << k)).map(|x| (x, 10e-6 + x / 12e9)).collect();
        let l = line(&points, true).unwrap();
        assert!(
            (l.intercept.value / 10e-6 - 1.0).abs() < 1e-6
                && (l.slope.value * 12e9 - 1.0).abs() < 1e-6,
            "{l:?}"
        );
        assert!(l.misfit < 1e-9);
        assert!(line(&points[..2], true).is_none());
        assert!(line(&[(1.0, 2.0), (1.0, 3.0), (1.0, 4.0)], false).is_none(), "one x has no slope");
        assert_eq!(solve([[2.0, 0.0], [0.0, 4.0]], [2.0, 2.0]), Some([1.0, 0.5]));
        assert_eq!(solve([[1.0, 1.0], [1.0, 1.0]], [1.0, 2.0]), None);
    }

    proptest! {
        #[test]
        fn shifting_and_scaling_y_does_the_same_to_the_line(
            ys in prop::collection::vec(1.0f64..100.0, 4..20), shift in -10.0f64..10.0, scale in 0.1f64..10.0
        ) {
            let points: Vec<(f64, f64)> = ys.iter().enumerate().map(|(i, &y)| (i as f64, y)).collect();
            let moved: Vec<(f64, f64)> = points.iter().map(|&(x, y)| (x, y * scale + shift)).collect();
            let (a, b) = (line(&points, false).unwrap(), line(&moved, false).unwrap());
            prop_assert!((a.slope.value * scale - b.slope.value).abs() < 1e-6);
            prop_assert!((a.intercept.value * scale + shift - b.intercept.value).abs() < 1e-6);
            prop_assert!((a.slope.half() * scale - b.slope.half()).abs() < 1e-6);
        }
    }
}
