//! From coefficients to rates while running, their gradients, and drift. Refuses to solve.
#![forbid(unsafe_code)]

use super::super::design::Columns;
use super::super::sensor::Rows;
use super::super::solve::guarded_inverse;
use super::super::variance::cosines;
use super::{Drift, Solution, active_rows, slopes};
use crate::quantile::student;
use nalgebra::{DMatrix, DVector};

/// What `finish` reads.
pub(super) struct Finish<'a> {
    pub columns: &'a Columns,
    pub rows: &'a Rows,
    pub groups: &'a [Vec<usize>],
    pub devices: usize,
    pub fitted: &'a [usize],
    pub known: &'a [(usize, f64, f64)],
    pub shapes: &'a [Vec<f64>],
    pub x: DVector<f64>,
    pub normal: DMatrix<f64>,
    pub covariance: DMatrix<f64>,
    pub residuals: Vec<f64>,
    pub theta: f64,
}

/// From coefficients to rates while running, their gradients, and drift.
pub(super) fn finish(f: Finish<'_>) -> Solution {
    let (g, states) = (f.groups.len(), f.columns.state_count);
    let degree = f.shapes.len();
    let width = f.normal.nrows();
    let mut floors = vec![0.0; states];
    let mut floor_at = vec![0; states];
    for (j, &s) in f.fitted.iter().enumerate() {
        (floors[s], floor_at[s]) = (f.x[g + j], g + j);
    }
    for (j, &(s, rate, _)) in f.known.iter().enumerate() {
        (floors[s], floor_at[s]) = (rate, width + j);
    }
    // Where and when each group ran, and where nothing did.
    let mut standing = vec![vec![0.0; states]; g];
    let mut moment = vec![vec![0.0; degree]; g];
    let mut time = vec![0.0; g];
    let mut idle_moment = vec![vec![0.0; degree]; states];
    let mut idle_time = vec![0.0; states];
    for (i, row) in f.rows.rows.iter().enumerate() {
        let (shares, state) = (f.columns.classes.row(i), f.columns.state_row(i));
        let busy: f64 = shares.iter().sum();
        let crowd = if f.devices > 1 { busy.max(1.0) } else { 1.0 };
        for (k, group) in f.groups.iter().enumerate() {
            let weight = row.covers * group.iter().map(|&class| shares[class]).sum::<f64>();
            time[k] += weight;
            for (slot, s) in standing[k].iter_mut().zip(state) {
                *slot += weight * s / crowd;
            }
            for (slot, shape) in moment[k].iter_mut().zip(f.shapes) {
                *slot += weight * shape[i];
            }
        }
        for s in 0..states {
            let weight = row.covers * state[s] * (1.0 - busy).max(0.0);
            idle_time[s] += weight;
            for (slot, shape) in idle_moment[s].iter_mut().zip(f.shapes) {
                *slot += weight * shape[i];
            }
        }
    }
    let drift: Vec<f64> =
        (0..degree).map(|j| f.x[f.normal.nrows() - slopes(f.columns) - degree + j]).collect();
    let drift_at = width - slopes(f.columns) - degree;
    let mut gross = Vec::with_capacity(g);
    let mut factor = Vec::with_capacity(g);
    let mut gradient = Vec::with_capacity(g);
    let size = f.covariance.nrows();
    for k in 0..g {
        let whole = time[k].max(f64::MIN_POSITIVE);
        standing[k].iter_mut().for_each(|s| *s /= whole);
        moment[k].iter_mut().for_each(|m| *m /= whole);
        let base = f.x[k] + standing[k].iter().zip(&floors).map(|(w, f)| w * f).sum::<f64>();
        let m = 1.0 + moment[k].iter().zip(&drift).map(|(a, b)| a * b).sum::<f64>();
        let mut direction = DVector::zeros(size);
        direction[k] = m;
        for s in 0..states {
            direction[floor_at[s]] += m * standing[k][s];
        }
        for j in 0..degree {
            direction[drift_at + j] = base * moment[k][j];
        }
        gross.push(base * m);
        factor.push(m);
        gradient.push(direction);
    }
    let idle_factor = (0..states)
        .map(|s| {
            let whole = idle_time[s].max(f64::MIN_POSITIVE);
            1.0 + idle_moment[s].iter().zip(&drift).map(|(a, b)| a / whole * b).sum::<f64>()
        })
        .collect();
    let rows = f.residuals.len();
    let active = active_rows(f.columns, f.rows);
    let t = student(0.975, cosines(active).min(active.saturating_sub(width).max(1)) as f64);
    let inverse = guarded_inverse(&f.normal);
    let inflation = (0..g).map(|k| inverse[(k, k)] * f.normal[(k, k)]).collect();
    let gram = DMatrix::from_fn(g, g, |r, c| {
        (gradient[r].transpose() * &f.covariance * &gradient[c])[(0, 0)]
    });
    let correlation = DMatrix::from_fn(g, g, |r, c| {
        gram[(r, c)] / (gram[(r, r)] * gram[(c, c)]).sqrt().max(f64::MIN_POSITIVE)
    });
    let drift_reach = (0..rows)
        .map(|i| drift.iter().zip(f.shapes).map(|(c, shape)| c * shape[i]).sum::<f64>().abs())
        .fold(0.0, f64::max);
    let drift = (degree > 0).then(|| {
        // P_d(1) - P_d(-1) is 2 for odd degrees and 0 for even ones.
        let relative: f64 = drift.iter().step_by(2).map(|c| 2.0 * c).sum();
        let mut direction = DVector::zeros(size);
        for j in (0..degree).step_by(2) {
            direction[drift_at + j] = 2.0;
        }
        let half_width =
            t * (direction.transpose() * &f.covariance * &direction)[(0, 0)].max(0.0).sqrt();
        Drift { relative, half_width, noticed: relative.abs() > half_width.max(1.0 / 300.0) }
    });
    Solution {
        dynamic: (0..g).map(|k| f.x[k]).collect(),
        floors,
        standing,
        gross,
        factor,
        idle_factor,
        gradient,
        covariance: f.covariance,
        floor_at,
        t,
        drift,
        drift_reach,
        residuals: f.residuals,
        moving_average: f.theta,
        model: vec![0.0; g],
        inflation,
        correlation,
    }
}
