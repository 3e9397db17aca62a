//! Owns the regression: rates (watts, or counts a second) of classes from rows of a sensor, with
//! floors, slow drift and correlated residuals. Refuses to know about joules and launches; that is
//! `attribution`.
//!
//! Model: `y_i = sum_s F_s state_is + sum_k p_k share_ik`, all times `1 + drift(t_i)`, plus noise.
//! Steps: least squares with `p, F >= 0`; drift columns from its prediction; for a counter, whose
//! readings err in the moment of their update so that consecutive rows err in opposite directions,
//! the inverse of that moving average; the same least squares again; covariance from `variance`.
//! The inverse moving average passes slow variation and damps fast, so that an error in the
//! response is never amplified; the opposite (differencing away a slow residual) would amplify it
//! and is left to the drift columns and to the width of the intervals.

#![forbid(unsafe_code)]

mod finish;
mod model;
mod table;

use nalgebra::{DMatrix, DVector};

use super::activity::Activity;
use super::design::Columns;
use super::response::Response;
use super::sensor::{RowKind, Rows};
use super::solve::{guarded_inverse, nonnegative};
use super::variance::{cosines, long_run};
use finish::{Finish, finish};
use model::{between, model_error, weighted, with_company};
use table::{Table, polynomials};

/// What is known of a power state's floor: the rate while nothing runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Floor {
    /// Measured elsewhere (idle window, calibration).
    Known {
        /// Watts.
        rate: f64,
        /// Standard error of `rate`.
        sd: f64,
    },
    /// To be fitted together with the classes.
    Fitted,
}

/// Slow change of every rate during the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriftModel {
    /// None.
    None,
    /// A polynomial in time of at most this degree (fewer in short runs).
    Polynomial(usize),
}

/// Slow change found in a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// Rates at the end over rates at the start, less one.
    pub relative: f64,
    /// Half width of the 95 % interval of `relative`.
    pub half_width: f64,
    /// Whether the change is beyond chance and beyond a third of a percent.
    pub noticed: bool,
}

/// A fitted set of groups of classes.
pub(crate) struct Solution {
    /// Dynamic rate per group: above the floor.
    pub dynamic: Vec<f64>,
    /// Floor per state, known or fitted.
    pub floors: Vec<f64>,
    /// Per group: share of its time in each state.
    pub standing: Vec<Vec<f64>>,
    /// Per group: rate while running, floor included, drift averaged over its time.
    pub gross: Vec<f64>,
    /// Per group: factor of drift over its time.
    pub factor: Vec<f64>,
    /// Per state, while nothing runs: factor of drift.
    pub idle_factor: Vec<f64>,
    /// Gradient of each group's gross rate, and covariance of what it is a gradient to.
    gradient: Vec<DVector<f64>>,
    covariance: DMatrix<f64>,
    floor_at: Vec<usize>,
    /// Student's t for the intervals.
    pub t: f64,
    pub drift: Option<Drift>,
    /// Greatest change of rates by drift in any row.
    drift_reach: f64,
    /// Residuals of rows before any whitening.
    pub residuals: Vec<f64>,
    /// Correlation that was taken out of a counter's rows.
    pub moving_average: f64,
    /// Variance of each group's rate for what the model leaves out.
    pub model: Vec<f64>,
    /// Variance inflation of each group's rate over that of a design without the other columns.
    pub inflation: Vec<f64>,
    /// Correlations between the groups' gross rates.
    pub correlation: DMatrix<f64>,
}

impl Solution {
    /// Half width of the 95 % interval of a sum of gross rates times `weights` plus floors times
    /// `idle`.
    pub(crate) fn half_width(&self, weights: &[f64], idle: &[f64]) -> f64 {
        let mut direction = DVector::zeros(self.covariance.nrows());
        for (gradient, &weight) in self.gradient.iter().zip(weights) {
            direction += gradient * weight;
        }
        for (&at, &weight) in self.floor_at.iter().zip(idle) {
            direction[at] += weight;
        }
        let variance = (direction.transpose() * &self.covariance * &direction)[(0, 0)];
        let model: f64 = self.model.iter().zip(weights).map(|(m, w)| w * w * m).sum();
        self.t * (variance.max(0.0) + model).sqrt()
    }

    pub(crate) fn gross_half_width(&self, group: usize) -> f64 {
        let mut weights = vec![0.0; self.gross.len()];
        weights[group] = 1.0;
        self.half_width(&weights, &vec![0.0; self.floors.len()])
    }
}

/// Rows needed for a first polynomial, and for each further one, so that a short run is not bent to
/// its noise.
const ROWS_TO_DRIFT: usize = 40;
const ROWS_PER_DEGREE: usize = 100;

/// A change of rates beyond this is no slow drift of a device but a fit bent to something else: it
/// is not used.
const MOST_DRIFT: f64 = 0.2;

/// Rows that say something of the classes: those in which any ran.
pub(crate) fn active_rows(columns: &Columns, rows: &Rows) -> usize {
    (0..rows.rows.len()).filter(|&i| columns.classes.row(i).iter().sum::<f64>() > 0.02).count()
}

/// Fits `groups` of classes.
pub(crate) fn solve(
    activity: &Activity,
    columns: &Columns,
    rows: &Rows,
    floors: &[Floor],
    drift: DriftModel,
    groups: &[Vec<usize>],
    response: &Response,
) -> Solution {
    let steady = |columns: &Columns, rows: &Rows| {
        let solution = solve_with(columns, rows, floors, drift, groups, activity.devices);
        if solution.drift_reach <= MOST_DRIFT {
            solution
        } else {
            solve_with(columns, rows, floors, DriftModel::None, groups, activity.devices)
        }
    };
    let plain = steady(columns, rows);
    let Some(weighted) = weighted(columns, rows, groups, &plain) else {
        return Solution { model: model_error(columns, rows, groups, &plain), ..plain };
    };
    let solution = steady(columns, &weighted);
    let own = model_error(columns, rows, groups, &solution);
    let Some(beside) = with_company(activity, columns, rows, groups, &solution, response) else {
        // If powers added up, the two fits would agree but for noise (Hausman, Econometrica 46,
        // 1978); what they differ by is counted in full.
        let model = own
            .iter()
            .zip(solution.gross.iter().zip(&plain.gross))
            .map(|(own, (a, b))| own.max((a - b).powi(2)))
            .collect();
        return Solution { model, ..solution };
    };
    let beside = steady(&beside, &weighted);
    between(solution, &beside, &own)
}

fn solve_with(
    columns: &Columns,
    rows: &Rows,
    floors: &[Floor],
    drift: DriftModel,
    groups: &[Vec<usize>],
    devices: usize,
) -> Solution {
    let n = rows.rows.len();
    let g = groups.len();
    let fitted: Vec<usize> = (0..floors.len()).filter(|&s| floors[s] == Floor::Fitted).collect();
    let known: Vec<(usize, f64, f64)> = floors
        .iter()
        .enumerate()
        .filter_map(|(s, floor)| match floor {
            Floor::Known { rate, sd } => Some((s, *rate, *sd)),
            Floor::Fitted => None,
        })
        .collect();
    let base = g + fitted.len();
    let group_share =
        |row: &[f64], group: &[usize]| -> f64 { group.iter().map(|&class| row[class]).sum() };

    let degree = match drift {
        DriftModel::None => 0,
        DriftModel::Polynomial(most) => {
            most.min(4).min((n / ROWS_PER_DEGREE).max(usize::from(n >= ROWS_TO_DRIFT)))
        }
    };
    let shapes = polynomials(rows, degree);
    let level: Vec<f64> = (0..n)
        .map(|i| known.iter().map(|&(s, rate, _)| rate * columns.state_row(i)[s]).sum())
        .collect();
    let slopes = columns.directions.len();
    let used = base + degree;
    let width = used + slopes;
    let mut bounded = vec![true; base];
    bounded.extend(std::iter::repeat_n(false, degree + slopes));
    let mut spread: Vec<Vec<f64>> = (0..n)
        .map(|i| {
            let scale = rows.rows[i].scale.powi(2);
            columns.classes.variance_row(i).map_or_else(Vec::new, |variance| {
                groups.iter().map(|group| scale * group_share(variance, group)).collect()
            })
        })
        .collect();

    // The response's directions and the drift multiply rates that are not known yet: Gauss and
    // Newton's rounds.
    let mut bend = vec![0.0; slopes];
    let mut rates = DVector::zeros(base);
    let mut table = Table { width: 0, z: Vec::new(), y: Vec::new() };
    let mut normal = DMatrix::zeros(0, 0);
    let mut x = DVector::zeros(0);
    let mut noise = 0.0;
    let mut theta = 0.0;
    let mut residuals = Vec::new();
    for round in 0..ROUNDS {
        // The first round has classes and floors only.
        let width = if round == 0 { base } else { width };
        table = Table { width, z: Vec::with_capacity(n * width), y: Vec::with_capacity(n) };
        let mut line = vec![0.0; width];
        for (i, row) in rows.rows.iter().enumerate() {
            let (shares, states) = (columns.classes.row(i), columns.state_row(i));
            let mut predicted = level[i];
            for (k, group) in groups.iter().enumerate() {
                let bent: f64 = columns
                    .directions
                    .iter()
                    .zip(&bend)
                    .map(|((_, d), b)| b * group_share(d.row(i), group))
                    .sum();
                line[k] = group_share(shares, group) + bent;
            }
            for (slot, &s) in line[g..base].iter_mut().zip(&fitted) {
                *slot = states[s];
            }
            predicted += line[..base].iter().zip(rates.iter()).map(|(a, b)| a * b).sum::<f64>();
            if round > 0 {
                for (slot, shape) in line[base..used].iter_mut().zip(&shapes) {
                    *slot = predicted * shape[i];
                }
                for (slot, (_, direction)) in line[used..].iter_mut().zip(&columns.directions) {
                    *slot = groups
                        .iter()
                        .zip(rates.iter())
                        .map(|(group, p)| p * group_share(direction.row(i), group))
                        .sum();
                }
            }
            table.z.extend(line.iter().map(|value| row.scale * value));
            table.y.push(row.scale * (row.mean - level[i]));
        }
        let plain = Table { width, z: table.z.clone(), y: table.y.clone() };
        if rows.kind != RowKind::Counter {
            table.smooth(columns.smoothed);
        } else if round + 1 == ROUNDS {
            theta = moving_average(&residuals, rows);
            if theta > 0.05 {
                table.whiten(rows, theta);
                whiten_spread(&mut spread, rows, theta);
            }
        }
        let mut moment;
        (normal, moment) = table.normal();
        for (j, total) in spread_total(&spread, g).into_iter().enumerate() {
            // Busy time known with an error makes columns look more varied than they are: take the
            // error's share off.
            normal[(j, j)] -= total.min(0.9 * normal[(j, j)]);
        }
        if round > 0 {
            for (j, (belief, _)) in columns.directions.iter().enumerate() {
                let weight = noise / (belief * belief);
                normal[(used + j, used + j)] += weight;
                moment[used + j] -= weight * bend[j];
            }
        }
        // Where busy time is noisy a slower response would be fitted for averaging the noise: its
        // directions then stay out of the rates and in the intervals.
        let solved = if columns.noisy { width.min(used) } else { width };
        x = DVector::zeros(width);
        let part = normal.view((0, 0), (solved, solved)).into_owned();
        x.rows_mut(0, solved).copy_from(&nonnegative(
            &part,
            &moment.rows(0, solved).into_owned(),
            &bounded[..solved],
        ));
        residuals = plain.residuals(&x);
        let left = table.residuals(&x);
        noise = left.iter().map(|e| e * e).sum::<f64>() / n.saturating_sub(width).max(1) as f64;
        rates = x.rows(0, base).into_owned();
        if round > 0 {
            for (b, change) in bend.iter_mut().zip(x.rows(used, slopes).iter()) {
                *b += change;
            }
        }
    }
    for (residual, row) in residuals.iter_mut().zip(&rows.rows) {
        *residual /= row.scale;
    }
    let covariance = covariance(&table, &normal, &x, &spread, columns, &known, rows, degree, theta);
    finish(Finish {
        columns,
        rows,
        groups,
        devices,
        fitted: &fitted,
        known: &known,
        shapes: &shapes,
        x,
        normal,
        covariance,
        residuals,
        theta,
    })
}

/// Rounds of Gauss and Newton: rates alone, then three with everything. The third changes no rate
/// by a hundredth of its interval.
const ROUNDS: usize = 4;

fn spread_total(spread: &[Vec<f64>], groups: usize) -> Vec<f64> {
    (0..groups).map(|j| spread.iter().filter_map(|row| row.get(j)).sum()).collect()
}

fn whiten_spread(spread: &mut [Vec<f64>], rows: &Rows, theta: f64) {
    for i in 1..spread.len() {
        if rows.rows[i].joined {
            for j in 0..spread[i].len() {
                spread[i][j] += theta * theta * spread[i - 1][j];
            }
        }
    }
}

/// Parameter of the moving average `v_i = e_i - theta e_(i-1)` that fits the residuals' first
/// correlation; zero unless neighbours err in opposite directions.
fn moving_average(residuals: &[f64], rows: &Rows) -> f64 {
    let power: f64 = residuals.iter().map(|e| e * e).sum();
    let product: f64 = (1..residuals.len())
        .filter(|&i| rows.rows[i].joined)
        .map(|i| residuals[i] * residuals[i - 1])
        .sum();
    let r = if power > 0.0 { product / power } else { 0.0 };
    if r >= 0.0 {
        0.0
    } else if r <= -0.4995 {
        0.97
    } else {
        ((1.0 - (1.0 - 4.0 * r * r).sqrt()) / (-2.0 * r)).min(0.97)
    }
}

/// Above this leverage a row's residual says nothing of its error.
const MOST_LEVERAGE: f64 = 0.7;

/// Covariance of the coefficients and, after them, of the known floors.
#[expect(
    clippy::too_many_arguments,
    reason = "one formula; its inputs have no life together elsewhere"
)]
fn covariance(
    table: &Table,
    normal: &DMatrix<f64>,
    x: &DVector<f64>,
    spread: &[Vec<f64>],
    columns: &Columns,
    known: &[(usize, f64, f64)],
    rows: &Rows,
    degree: usize,
    theta: f64,
) -> DMatrix<f64> {
    let (n, width) = (table.y.len(), table.width);
    let residuals = table.residuals(x);
    let inverse = guarded_inverse(normal);
    let power: f64 = residuals.iter().map(|e| e * e).sum();
    let noise = (power / n.saturating_sub(width).max(1) as f64).sqrt();
    let mut scores = Vec::with_capacity(n * width);
    for (i, (line, _)) in table.rows().enumerate() {
        let z = DVector::from_column_slice(line);
        // A running mean over m rows leaves a row m times the weight that it seems to have.
        let leverage = columns.smoothed as f64 * (z.transpose() * &inverse * &z)[(0, 0)];
        let mut e = residuals[i] / (1.0 - leverage.clamp(0.0, MOST_LEVERAGE));
        // Such a row is met by its own coefficient, whatever it reads: its residual is near 0 and
        // no sign of how far it errs. It errs at least as the others do.
        if leverage > MOST_LEVERAGE {
            e = e.abs().max(noise).copysign(e);
        }
        scores.extend(
            line.iter()
                .enumerate()
                .map(|(j, z)| z * e + spread[i].get(j).map_or(0.0, |s| s * x[j])),
        );
    }
    // Each drift column takes the first cosines' part of the residuals with it, and every other
    // one's by halves.
    let cosines = cosines(active_rows(columns, rows));
    let count = cosines as f64;
    let long = long_run(&scores, width, cosines) * (count / (count - degree as f64 / 2.0));
    let core = &inverse * long * &inverse;
    let size = width + known.len();
    let mut all = DMatrix::zeros(size, size);
    all.view_mut((0, 0), (width, width)).copy_from(&core);
    for (j, &(state, _, sd)) in known.iter().enumerate() {
        // A floor that is off by one moves every coefficient by this much.
        let mut column: Vec<f64> =
            (0..n).map(|i| rows.rows[i].scale * columns.state_row(i)[state]).collect();
        if theta > 0.05 {
            for i in 1..n {
                if rows.rows[i].joined {
                    column[i] += theta * column[i - 1];
                }
            }
        }
        let mut pull = DVector::zeros(width);
        for ((line, _), c) in table.rows().zip(&column) {
            for (slot, z) in pull.iter_mut().zip(line) {
                *slot -= z * c;
            }
        }
        let mut shift = DVector::zeros(size);
        shift.rows_mut(0, width).copy_from(&(&inverse * pull));
        shift[width + j] = 1.0;
        all += &shift * shift.transpose() * (sd * sd);
    }
    all
}

fn slopes(columns: &Columns) -> usize {
    columns.directions.len()
}
