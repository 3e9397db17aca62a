//! Owns what runs of one device have in common: what a degree adds to idle power and to joules above
//! it, and how far workers are from runs. What each run says of them by itself is put together, and
//! each run is fitted again with what all say. Refuses to look at readings.

use super::attribution::{AttributionError, DEGREE, Problem, attribute};
use super::fit::mixed::WORKERS;
use super::report::Attribution;
use nalgebra::{Matrix2, Vector2};

/// By how much a figure changes with each of two independent errors, of standard deviation 1, of what
/// a degree adds: runs of one device have these errors in common.
pub type Load = [f64; 2];

/// What one run says by itself, without what was known beforehand.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Evidence {
    /// Information on what a degree adds to idle power, and to joules above it.
    pub(super) information: Matrix2<f64>,
    /// That, times the values that the run is for.
    pub(super) right: Vector2<f64>,
    /// Information on the logarithm of tau^2, and that times its value.
    pub(super) workers: (f64, f64),
}

impl Evidence {
    /// That of several runs.
    pub fn sum(of: impl IntoIterator<Item = Self>) -> Self {
        of.into_iter().fold(Self::default(), |sum, one| Self {
            information: sum.information + one.information,
            right: sum.right + one.right,
            workers: (sum.workers.0 + one.workers.0, sum.workers.1 + one.workers.1),
        })
    }
}

/// What all runs of a device say, with what was known beforehand.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pooled {
    /// What a degree adds to idle power, and to joules above it, as shares.
    pub(super) mean: Vector2<f64>,
    pub(super) covariance: Matrix2<f64>,
    /// How many runs say it.
    pub runs: usize,
    /// What they say of workers.
    workers: (f64, f64),
}

impl Pooled {
    /// From the evidence of each run.
    pub fn new(of: &[Evidence]) -> Self {
        let all = Evidence::sum(of.iter().copied());
        let before = DEGREE.map(|(mean, sd)| (mean / (sd * sd), 1.0 / (sd * sd)));
        let information = all.information + Matrix2::from_diagonal(&before.map(|b| b.1).into());
        let covariance = information.try_inverse().unwrap_or_else(Matrix2::zeros);
        let mean = covariance * (all.right + Vector2::from(before.map(|b| b.0)));
        Self { mean, covariance, runs: of.len(), workers: all.workers }
    }

    /// Median of tau and standard deviation of its logarithm, before a run of this evidence is read.
    pub(super) fn workers(&self, own: Evidence) -> (f64, f64) {
        let (median, sd) = WORKERS;
        // Of the logarithm of the square, which has twice the standard deviation.
        let before = (2.0 * sd).powi(-2);
        let information = before + (self.workers.0 - own.workers.0).max(0.0);
        let right = before * 2.0 * median.ln() + self.workers.1 - own.workers.1;
        ((right / information / 2.0).exp(), information.sqrt().recip() / 2.0)
    }

    /// Independent errors of standard deviation 1 as shares.
    pub(super) fn root(&self) -> Matrix2<f64> {
        self.covariance.cholesky().map_or_else(Matrix2::zeros, |of| of.l())
    }
}

/// Attributes runs of one device, each with what all of them say.
///
/// # Errors
/// As [`attribute`], for any of them.
pub fn attribute_runs(of: &[Problem<'_>]) -> Result<Vec<Attribution>, AttributionError> {
    let alone = of.iter().map(attribute).collect::<Result<Vec<_>, _>>()?;
    let evidence: Vec<Evidence> = alone.iter().map(|run| run.evidence).collect();
    // Of one run, and of runs that say nothing, each is what it is by itself, and what others say of
    // them as well may be known already.
    let is_pooled = of.iter().any(|problem| problem.pooled.is_some());
    if is_pooled || of.len() < 2 || evidence.iter().all(|of| *of == Evidence::default()) {
        return Ok(alone);
    }
    let all = Pooled::new(&evidence);
    let again = |(problem, alone): (&Problem<'_>, &Attribution)| {
        let (pooled, found) = (Some((all, alone.evidence)), Some(alone.response));
        attribute(&Problem { pooled, found, ..*problem })
    };
    of.iter().zip(&alone).map(again).collect()
}
