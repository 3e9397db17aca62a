//! Owns the uncertainty of a linear fit whose residuals are correlated in time and not of one size.
//! Refuses to assume what the correlation looks like.
//!
//! The covariance is the sandwich `A⁻¹ S A⁻¹` with `A = Z'Z` and `S` the long-run variance of the
//! scores `z_i e_i`. `S` is the equal-weighted cosine estimate of Lazarus, Lewis, Stock and Watson
//! (HAR inference: recommendations for practice, JBES 36, 2018): the mean of the squared
//! projections of the scores on the first `B` cosines over the run. It cannot be negative, and
//! quotients by it follow Student's t with `B` degrees of freedom, so that short runs get the wider
//! intervals they deserve. A moving-block bootstrap of the same scores needs some 400 refits to say
//! the same.

use nalgebra::DMatrix;

/// Number of cosines for `rows` residuals: the recommended `0.4 n^(2/3)`, but no more than 32,
/// because what makes real runs err (temperature, clocks, caches) is slow and shows in the first
/// few only.
pub(crate) fn cosines(rows: usize) -> usize {
    ((0.4 * (rows as f64).powf(2.0 / 3.0)) as usize).clamp(4, 32)
}

/// Long-run variance of the sum of `scores` (rows by `columns`, row-major), as a matrix.
pub(crate) fn long_run(scores: &[f64], columns: usize, cosines: usize) -> DMatrix<f64> {
    let rows = scores.len() / columns.max(1);
    let mut total = DMatrix::zeros(columns, columns);
    let mut projection = vec![0.0; columns];
    for j in 1..=cosines {
        projection.fill(0.0);
        // cos(w (i + 1/2)) by rotation: one sine and cosine per frequency.
        let step = std::f64::consts::PI * j as f64 / rows as f64;
        let (turn_sin, turn_cos) = step.sin_cos();
        let (mut sin, mut cos) = (step / 2.0).sin_cos();
        for score in scores.chunks_exact(columns) {
            for (sum, s) in projection.iter_mut().zip(score) {
                *sum += s * cos;
            }
            (sin, cos) = (sin * turn_cos + cos * turn_sin, cos * turn_cos - sin * turn_sin);
        }
        for r in 0..columns {
            for c in 0..columns {
                total[(r, c)] += 2.0 * projection[r] * projection[c];
            }
        }
    }
    total / cosines.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fixed sequence that looks random: the fractional parts of a quadratic.
    fn noise(i: usize) -> f64 {
        let x = (i as f64 * 0.618_033_988_749).fract() * 7919.13 + (i as f64).sqrt() * 13.7;
        ((x.sin() * 43758.5453).fract().abs() - 0.5) * 12.0_f64.sqrt()
    }

    #[test]
    fn white_and_correlated_scores_get_their_long_run_variance() {
        let n = 20_000;
        let white: Vec<f64> = (0..n).map(noise).collect();
        let plain = long_run(&white, 1, 400)[(0, 0)] / n as f64;
        assert!((plain - 1.0).abs() < 0.15, "white noise of variance 1 gave {plain}");
        // First-order autoregression with 0.8: long-run variance 1 / (1 - 0.8)^2 = 25.
        let mut state = 0.0;
        let slow: Vec<f64> = white
            .iter()
            .map(|w| {
                state = 0.8 * state + w;
                state
            })
            .collect();
        let correlated = long_run(&slow, 1, 400)[(0, 0)] / n as f64;
        assert!((correlated / 25.0 - 1.0).abs() < 0.25, "an autoregression gave {correlated}");
        // A moving difference telescopes: almost nothing is left.
        let difference: Vec<f64> = white.windows(2).map(|w| w[1] - w[0]).collect();
        assert!(long_run(&difference, 1, 100)[(0, 0)] / (n as f64) < 0.05);
    }
}
