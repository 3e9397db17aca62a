//! Owns what a fit has in common with those of other runs of its device: what its readings say of that,
//! and what its figures have of errors in it. Refuses to put runs together: `pooled` does.

use super::Fit;
use crate::energy::pooled::{Evidence, Load, Pooled};
use nalgebra::{DMatrix, Matrix2, MatrixXx2, Vector2};

/// Error of what readings say of a share of which they say nothing, over what is known beforehand.
const NOTHING: f64 = 1e-9;

impl Fit {
    /// What the readings say of two columns, and of workers, without what was known before: of the
    /// columns so many times the inverse of a variance with so much certainty that errors which last
    /// are in it. `before`: means and standard deviations.
    pub(in crate::energy) fn evidence(&self, at: [usize; 2], before: [(f64, f64); 2]) -> Evidence {
        let point = &self.points[self.mode];
        let part = |of: &DMatrix<f64>| Matrix2::from_fn(|i, j| of[(at[i], at[j])]);
        let mean = Vector2::from(at.map(|at| point.effects[at]));
        let mut slow = part(&self.slow).symmetric_eigen();
        slow.eigenvalues.iter_mut().for_each(|of| *of = of.max(0.0));
        let known = Matrix2::from_diagonal(&before.map(|(_, sd)| sd.powi(-2)).into());
        let right = Vector2::from(before.map(|(mean, sd)| mean / (sd * sd)));
        let Some(all) = part(&point.covariance).try_inverse() else { return self.of_workers() };
        let mut own = (all - known).symmetric_eigen();
        own.eigenvalues.iter_mut().for_each(|of| *of = of.max(0.0));
        let own = own.recompose();
        // Of what readings say nothing, they say it without error.
        let scores = own + all * slow.recompose() * all + known * NOTHING;
        let Some(weight) = scores.try_inverse() else { return self.of_workers() };
        Evidence {
            information: own * weight * own,
            right: own * weight * (all * mean - right),
            ..self.of_workers()
        }
    }

    /// What they say of tau: mean and variance of the logarithm of its square, less those from before.
    pub(in crate::energy) fn of_workers(&self) -> Evidence {
        let Some((median, sd)) = self.workers else { return Evidence::default() };
        let sum = |of: &dyn Fn(f64) -> f64| {
            self.points.iter().map(|p| p.weight * of(p.logarithms[1])).sum::<f64>()
        };
        let mean = sum(&|log| log);
        let variance = sum(&|log| (log - mean).powi(2));
        let before = (2.0 * sd).powi(-2);
        let information = 1.0 / variance - before;
        let right = mean / variance - before * 2.0 * median.ln();
        let workers = if information > 0.0 { (information, right) } else { (0.0, 0.0) };
        Evidence { workers, ..Evidence::default() }
    }

    /// Gives two columns the covariance that all runs together leave them, instead of the fit's own,
    /// and every other column what it has of theirs.
    pub(in crate::energy) fn spread(&mut self, at: [usize; 2], pooled: &Pooled) {
        for (i, point) in self.points.iter_mut().enumerate() {
            let width = point.effects.len();
            let own = Matrix2::from_fn(|i, j| point.covariance[(at[i], at[j])]);
            let Some(inverse) = own.try_inverse() else { continue };
            let with = MatrixXx2::from_fn(width, |i, j| point.covariance[(i, at[j])]);
            let gain: MatrixXx2<f64> = with * inverse;
            point.covariance += &gain * (pooled.covariance - own) * gain.transpose();
            if i == self.mode {
                self.loads = Some(gain * pooled.root());
            }
        }
    }

    /// By how much a sum changes with errors that other runs have, too.
    pub(in crate::energy) fn load(&self, times: &[(usize, f64)]) -> Load {
        let of = |j: usize| {
            let loads = self.loads.as_ref()?;
            Some(times.iter().map(|(at, n)| n * loads[(*at, j)]).sum::<f64>())
        };
        [0, 1].map(|j| of(j).unwrap_or(0.0))
    }
}
