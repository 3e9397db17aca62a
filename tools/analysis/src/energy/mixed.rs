//! Owns the linear mixed model of energy: readings of a run, of rests and of workers as sums of
//! joules of launches, with kernels that may take another energy in a worker than in the run, and
//! captures that differ from each other. Variances are estimated by restricted maximum likelihood
//! (REML), effects by Henderson's equations (Searle, Casella, McCulloch: *Variance Components*,
//! 1992, ch. 6 and 7). Refuses to know sensors: readings come with their variances.
//!
//! ```text
//! y_j = s T_j + beta (theta_j - theta_0) T_j
//!       + sum_k [e_k (1 + alpha (theta_j - theta_0)) + b_k in_worker_j + u_(capture_j, k)] W_jk
//!       + eps_j
//! b_k ~ N(0, tau^2 e_k^2)   u ~ N(0, c^2 e_k^2)   eps_j ~ N(0, sigma^2 v_j)   e_k >= 0
//! ```
//!
//! Errors of readings that follow each other are those of differences of a counter (a moving
//! average), or of polled power (an autoregression); both are filtered out of all columns first.
#![forbid(unsafe_code)]

use super::solve::nonnegative;
use crate::interval::Interval;
use crate::quantile::student;
use nalgebra::{Cholesky, DMatrix, DVector, Dyn};
use std::collections::BTreeMap;

/// A reading.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// Joules, or a quantity in proportion to them.
    pub energy: f64,
    /// Seconds of idle power in it.
    pub seconds: f64,
    /// Degrees above that to which joules are brought.
    pub warmer: f64,
    /// Launches of each kernel, as far as they lie in it.
    pub launches: Vec<(usize, f64)>,
    /// Number of the capture that a worker ran; `None` of the run and of rests.
    pub capture: Option<usize>,
    /// Variance of its error, or one in proportion to it.
    pub variance: f64,
    /// Whether it begins where the reading before ended, of the same sensor.
    pub follows: bool,
}

/// How errors of readings that follow each other correlate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Errors {
    /// As those of differences of a counter: what one reading has too much the next has too little.
    Counter,
    /// As those of polled power: what is off lasts.
    Polled,
}

/// What is known beforehand: means and variances.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Beliefs {
    /// Watts of idle power a degree.
    pub beta: (f64, f64),
    /// Share of a launch's joules above idle a degree.
    pub alpha: (f64, f64),
}

/// Median of tau and c before anything was read, and the standard deviation of their logarithm: a
/// worker and the run, and captures, differ by some percent, a factor of 4 either way (H100: what
/// was measured alone and in the run differs by 1 to 3 %).
const SPREAD: (f64, f64) = (0.03, 0.7);
/// Rounds in which the energies in the variances of effects settle.
const ROUNDS: usize = 4;
/// Steps of the search, halved whenever none is better, from the first to the last; a step of
/// Newton's follows.
const STEPS: (f64, f64) = (1.0, 0.02);
/// Step of differences for slopes and curvature.
const STEP: f64 = 0.05;
/// Correlations of neighbours that are filtered out at most: beyond, sums would have no error left.
const MOST_CORRELATED: f64 = 0.97;
/// Columns that no kernel has: s, beta, alpha.
const COMMON: usize = 3;

/// A reading as columns: fixed ones, and how often its kernel's random effects are in it.
#[derive(Debug, Clone)]
struct Row {
    y: f64,
    weight: f64,
    fixed: Vec<f64>,
    /// Of a worker: the kernel, which of its captures, and launches.
    random: Option<(usize, usize, f64)>,
    /// Whether the filter goes on from the row before.
    follows: bool,
}

impl Row {
    /// `self + factor other`.
    fn add(&mut self, other: &Self, factor: f64) {
        self.y += factor * other.y;
        for (own, of) in self.fixed.iter_mut().zip(&other.fixed) {
            *own += factor * of;
        }
        if let (Some(own), Some(of)) = (&mut self.random, &other.random) {
            own.2 += factor * of.2;
        }
    }
}

/// Rows of readings, for energies that alpha is a share of.
fn rows(readings: &[Reading], captures: &[Vec<usize>], energies: &[f64]) -> Vec<Row> {
    let mut before: Option<Option<usize>> = None;
    let row = |reading: &Reading| {
        let mut fixed = vec![0.0; COMMON + energies.len()];
        (fixed[0], fixed[1]) = (reading.seconds, reading.seconds * reading.warmer);
        for (kernel, n) in &reading.launches {
            fixed[COMMON + kernel] += n;
            fixed[2] += n * energies[*kernel] * reading.warmer;
        }
        let random =
            reading.capture.zip(reading.launches.first()).map(|(capture, &(kernel, n))| {
                let at = captures[kernel].iter().position(|of| *of == capture).unwrap_or(0);
                (kernel, at, n)
            });
        // Effects of captures stay apart: a filter that went over their edges would mix them.
        let follows = reading.follows && before == Some(reading.capture);
        before = Some(reading.capture);
        Row { y: reading.energy, weight: 1.0 / reading.variance, fixed, random, follows }
    };
    readings.iter().map(row).collect()
}

/// Readings without the correlation of neighbours.
fn whitened(mut rows: Vec<Row>, errors: Errors, correlation: f64) -> Vec<Row> {
    if correlation == 0.0 {
        return rows;
    }
    // Rows are compared in units of their errors.
    let unit = |before: &Row, row: &Row| (before.weight / row.weight).sqrt();
    match errors {
        Errors::Counter => {
            for i in 1..rows.len() {
                let (done, rest) = rows.split_at_mut(i);
                let (before, row) = (&done[i - 1], &mut rest[0]);
                if row.follows {
                    row.add(before, correlation * unit(before, row));
                }
            }
        }
        // Each needs the row before as it was.
        Errors::Polled => {
            for i in (1..rows.len()).rev() {
                let (done, rest) = rows.split_at_mut(i);
                let (before, row) = (&done[i - 1], &mut rest[0]);
                if row.follows {
                    row.add(before, -correlation * unit(before, row));
                    row.weight /= 1.0 - correlation * correlation;
                }
            }
        }
    }
    rows
}

/// The parameter of the filter that fits what a first fit leaves.
fn correlation(rows: &[Row], errors: Errors, left: &[f64]) -> f64 {
    let scaled: Vec<f64> = rows.iter().zip(left).map(|(r, e)| e * r.weight.sqrt()).collect();
    let (mut product, mut power) = (0.0, 0.0);
    for i in (1..rows.len()).filter(|i| rows[*i].follows) {
        product += scaled[i] * scaled[i - 1];
        power += (scaled[i] * scaled[i] + scaled[i - 1] * scaled[i - 1]) / 2.0;
    }
    let r = if power > 0.0 { product / power } else { 0.0 };
    match errors {
        Errors::Polled => r.clamp(0.0, MOST_CORRELATED),
        // The invertible root of r = -theta / (1 + theta^2).
        Errors::Counter if r < 0.0 => {
            let r = r.max(-0.4999);
            ((1.0 - (1.0 - 4.0 * r * r).sqrt()) / (-2.0 * r)).min(MOST_CORRELATED)
        }
        Errors::Counter => 0.0,
    }
}

/// Random effects of one kernel, with what they share with the fixed ones.
struct Block {
    kernel: usize,
    /// Fixed columns that its rows have.
    at: Vec<usize>,
    /// Sums of products: of fixed by random, and of random by random columns.
    across: DMatrix<f64>,
    own: DMatrix<f64>,
    right: DVector<f64>,
}

/// Effects and their matrix for one reading's unit of error.
struct Equations {
    fixed: DMatrix<f64>,
    right: DVector<f64>,
    blocks: Vec<Block>,
    squares: f64,
    readings: f64,
}

/// What is left for the fixed effects once random ones are eliminated.
struct Reduced {
    matrix: DMatrix<f64>,
    right: DVector<f64>,
    cholesky: Cholesky<f64, Dyn>,
    /// Logarithm of the determinant of all, and the sum of squares that random effects explain.
    determinant: f64,
    explained: f64,
}

impl Equations {
    fn new(rows: &[Row], kernels: usize, captures: &[Vec<usize>]) -> Self {
        let size = COMMON + kernels;
        let mut of = Self {
            fixed: DMatrix::zeros(size, size),
            right: DVector::zeros(size),
            blocks: Vec::new(),
            squares: 0.0,
            readings: rows.len() as f64,
        };
        let mut blocks: BTreeMap<usize, Vec<&Row>> = BTreeMap::new();
        let mut columns: Vec<(usize, f64)> = Vec::with_capacity(size);
        for row in rows {
            of.squares += row.weight * row.y * row.y;
            columns.clear();
            columns.extend(row.fixed.iter().copied().enumerate().filter(|(_, a)| *a != 0.0));
            for (n, (i, a)) in columns.iter().enumerate() {
                let a = row.weight * a;
                of.right[*i] += a * row.y;
                for (j, b) in &columns[..=n] {
                    of.fixed[(*i, *j)] += a * b;
                }
            }
            if let Some((kernel, ..)) = row.random {
                blocks.entry(kernel).or_default().push(row);
            }
        }
        of.fixed.fill_upper_triangle_with_lower_triangle();
        for (kernel, rows) in blocks {
            let is_used = |at: &usize| rows.iter().any(|row| row.fixed[*at] != 0.0);
            let at: Vec<usize> = (0..size).filter(is_used).collect();
            let m = 1 + captures[kernel].len();
            let mut block = Block {
                kernel,
                across: DMatrix::zeros(at.len(), m),
                own: DMatrix::zeros(m, m),
                right: DVector::zeros(m),
                at,
            };
            for row in rows {
                let Some((_, capture, n)) = row.random else { continue };
                for j in [0, 1 + capture] {
                    block.right[j] += row.weight * n * row.y;
                    for i in [0, 1 + capture] {
                        block.own[(i, j)] += row.weight * n * n;
                    }
                    for (i, at) in block.at.iter().enumerate() {
                        block.across[(i, j)] += row.weight * row.fixed[*at] * n;
                    }
                }
            }
            of.blocks.push(block);
        }
        of
    }

    /// Henderson's equations for energies that scale the variances of effects; `None` where the
    /// readings do not determine the effects.
    fn reduce(&self, logs: [f64; 3], energies: &[f64], beliefs: Beliefs) -> Option<Reduced> {
        let [noise, tau, c] = logs;
        let unit = noise.exp();
        let mut matrix = &self.fixed / unit;
        let mut right = &self.right / unit;
        for (at, (mean, variance)) in [(1, beliefs.beta), (2, beliefs.alpha)] {
            matrix[(at, at)] += 1.0 / variance;
            right[at] += mean / variance;
        }
        let (mut determinant, mut explained) = (0.0, 0.0);
        for block in &self.blocks {
            let mut own = &block.own / unit;
            let square = energies[block.kernel] * energies[block.kernel];
            for i in 0..own.nrows() {
                let variance = (if i == 0 { tau } else { c }).exp() * square;
                own[(i, i)] += 1.0 / variance;
                determinant += variance.ln();
            }
            let cholesky = own.cholesky()?;
            determinant += logarithm(&cholesky);
            let (across, own_right) = (&block.across / unit, &block.right / unit);
            let solved = cholesky.solve(&own_right);
            explained += own_right.dot(&solved);
            let turned = cholesky.solve(&across.transpose());
            let (less, off) = (&across * &turned, &across * &solved);
            for (i, a) in block.at.iter().enumerate() {
                right[*a] -= off[i];
                for (j, b) in block.at.iter().enumerate() {
                    matrix[(*a, *b)] -= less[(i, j)];
                }
            }
        }
        let cholesky = matrix.clone().cholesky()?;
        determinant += logarithm(&cholesky);
        Some(Reduced { matrix, right, cholesky, determinant, explained })
    }

    /// Minus twice the logarithm of the restricted likelihood, with the priors; infinite where the
    /// readings do not determine the effects.
    fn deviance(&self, logs: [f64; 3], energies: &[f64], beliefs: Beliefs) -> f64 {
        let Some(of) = self.reduce(logs, energies, beliefs) else { return f64::INFINITY };
        let explained = of.explained + of.right.dot(&of.cholesky.solve(&of.right));
        let off = |log: f64| ((log / 2.0 - SPREAD.0.ln()) / SPREAD.1).powi(2);
        let squares = self.squares / logs[0].exp() - explained;
        of.determinant + self.readings * logs[0] + squares + off(logs[1]) + off(logs[2])
    }
}

fn logarithm(of: &Cholesky<f64, Dyn>) -> f64 {
    of.l_dirty().diagonal().iter().map(|d| 2.0 * d.ln()).sum()
}

/// The fitted model.
#[derive(Debug, Clone)]
pub struct Fit {
    kernels: usize,
    /// s, beta, alpha, and joules above idle of each kernel's launches.
    effects: DVector<f64>,
    covariance: DMatrix<f64>,
    /// Logarithms of sigma^2, tau^2, c^2, and the covariance of their estimates.
    pub logarithms: [f64; 3],
    spread: DMatrix<f64>,
    /// By how much the covariance of effects changes with each of them.
    slopes: Vec<DMatrix<f64>>,
    /// The parameter that was filtered out of readings that follow each other.
    pub correlation: f64,
}

impl Fit {
    /// Fits the model. `None` where the readings do not determine the energies.
    #[must_use]
    pub fn new(
        readings: &[Reading],
        kernels: usize,
        beliefs: Beliefs,
        errors: Errors,
    ) -> Option<Self> {
        let mut captures = vec![Vec::new(); kernels];
        for reading in readings {
            if let (Some(capture), Some((kernel, _))) = (reading.capture, reading.launches.first())
                && !captures[*kernel].contains(&capture)
            {
                captures[*kernel].push(capture);
            }
        }
        let mut energies = vec![1.0; kernels];
        let mut logs = [0.0, 2.0 * SPREAD.0.ln(), 2.0 * SPREAD.0.ln()];
        let (mut of, mut filter) = (None, 0.0);
        for round in 0..ROUNDS {
            // What a launch takes is not known yet: alpha and the filter come with the next round.
            let shares = if round == 0 { vec![0.0; kernels] } else { energies.clone() };
            let plain = rows(readings, &captures, &shares);
            let equations =
                Equations::new(&whitened(plain.clone(), errors, filter), kernels, &captures);
            if round == 0 {
                logs[0] = (1e-4 * equations.squares / equations.readings).max(1e-300).ln();
            } else {
                let start = logs;
                logs = search(start, |logs| equations.deviance(logs, &energies, beliefs));
            }
            let reduced = equations.reduce(logs, &energies, beliefs)?;
            let effects = bounded(&reduced);
            let found = effects.rows(COMMON, kernels);
            let largest = found.amax();
            // A kernel that takes next to nothing varies by next to nothing.
            energies = found.iter().map(|e| e.max(1e-6 * largest)).collect();
            if round == 1 {
                let left = residuals(&plain, &effects, &equations, logs, &energies);
                filter = correlation(&plain, errors, &left);
            }
            of = Some(equations);
        }
        let of = of?;
        let deviance = |logs| of.deviance(logs, &energies, beliefs);
        let (curvature, gradient) = shape(logs, &deviance);
        let spread = curvature.clone().cholesky()?.inverse();
        // The search ends near the lowest point; one step of Newton's leads there.
        let step = &spread * &gradient;
        if step.amax() < 2.0 * STEPS.1 * 10.0 {
            (0..3).for_each(|i| logs[i] -= step[i]);
        }
        let reduced = of.reduce(logs, &energies, beliefs)?;
        let covariance =
            |logs: [f64; 3]| Some(of.reduce(logs, &energies, beliefs)?.cholesky.inverse());
        let moved = |i: usize, by: f64| {
            let mut logs = logs;
            logs[i] += by;
            logs
        };
        let slopes = (0..3)
            .map(|i| {
                Some((covariance(moved(i, STEP))? - covariance(moved(i, -STEP))?) / (2.0 * STEP))
            })
            .collect::<Option<Vec<_>>>()?;
        Some(Self {
            kernels,
            effects: bounded(&reduced),
            covariance: reduced.cholesky.inverse(),
            logarithms: logs,
            // The deviance is minus twice a logarithm.
            spread: spread * 2.0,
            slopes,
            correlation: filter,
        })
    }

    /// A sum of joules above idle, `times` of a launch of each kernel, with its 95 % interval, by
    /// Student's t with Satterthwaite's degrees of freedom; no end of a sum is below 0.
    #[must_use]
    pub fn contrast(&self, times: &[(usize, f64)]) -> Interval {
        let mut of = DVector::zeros(self.effects.len());
        for (kernel, n) in times.iter().filter(|(kernel, _)| *kernel < self.kernels) {
            of[COMMON + kernel] += n;
        }
        let interval = self.interval(&of);
        match times.iter().all(|(_, n)| *n >= 0.0) {
            true => interval.map(|end| end.max(0.0)),
            false => interval,
        }
    }

    /// Idle power at the temperature that joules are brought to.
    #[must_use]
    pub fn idle(&self) -> Interval {
        let mut of = DVector::zeros(self.effects.len());
        of[0] = 1.0;
        self.interval(&of)
    }

    /// Watts of idle power a degree, and share of a launch's joules a degree.
    #[must_use]
    pub fn temperature(&self) -> [Interval; 2] {
        [1, 2].map(|at| {
            let mut of = DVector::zeros(self.effects.len());
            of[at] = 1.0;
            self.interval(&of)
        })
    }

    fn interval(&self, of: &DVector<f64>) -> Interval {
        let variance = |matrix: &DMatrix<f64>| (of.transpose() * matrix * of)[(0, 0)];
        let own = variance(&self.covariance);
        let slopes = DVector::from_iterator(3, self.slopes.iter().map(variance));
        let of_variance = (slopes.transpose() * &self.spread * &slopes)[(0, 0)];
        let freedom = if of_variance > 0.0 { 2.0 * own * own / of_variance } else { f64::INFINITY };
        Interval::symmetric(self.effects.dot(of), student(0.975, freedom) * own.sqrt())
    }
}

/// Effects of which no kernel's is negative.
fn bounded(of: &Reduced) -> DVector<f64> {
    let free = of.cholesky.solve(&of.right);
    if free.iter().skip(COMMON).all(|e| *e >= 0.0) {
        return free;
    }
    let bounds: Vec<bool> = (0..free.len()).map(|i| i >= COMMON).collect();
    nonnegative(&of.matrix, &of.right, &bounds)
}

/// What fixed and random effects leave of each row.
fn residuals(
    rows: &[Row],
    effects: &DVector<f64>,
    of: &Equations,
    [noise, tau, c]: [f64; 3],
    energies: &[f64],
) -> Vec<f64> {
    let unit = noise.exp();
    let mut random: BTreeMap<usize, DVector<f64>> = BTreeMap::new();
    for block in &of.blocks {
        let mut own = &block.own / unit;
        for i in 0..own.nrows() {
            let share = (if i == 0 { tau } else { c }).exp();
            own[(i, i)] += 1.0 / (share * energies[block.kernel].powi(2));
        }
        let fixed = DVector::from_iterator(block.at.len(), block.at.iter().map(|at| effects[*at]));
        let right = (&block.right - block.across.transpose() * fixed) / unit;
        random.extend(own.cholesky().map(|c| (block.kernel, c.solve(&right))));
    }
    let left = |row: &Row| {
        let fixed: f64 = row.fixed.iter().zip(effects.iter()).map(|(a, e)| a * e).sum();
        let random = row.random.and_then(|(kernel, capture, n)| {
            let effects = random.get(&kernel)?;
            Some(n * (effects[0] + effects[1 + capture]))
        });
        row.y - fixed - random.unwrap_or(0.0)
    };
    rows.iter().map(left).collect()
}

/// Curvature and gradient of a deviance.
fn shape(logs: [f64; 3], of: &impl Fn([f64; 3]) -> f64) -> (DMatrix<f64>, DVector<f64>) {
    let at = |moves: &[(usize, f64)]| {
        let mut logs = logs;
        moves.iter().for_each(|(i, by)| logs[*i] += by);
        of(logs)
    };
    let mut curvature = DMatrix::zeros(3, 3);
    let mut gradient = DVector::zeros(3);
    for i in 0..3 {
        gradient[i] = (at(&[(i, STEP)]) - at(&[(i, -STEP)])) / (2.0 * STEP);
        for j in 0..3 {
            let of = |a: f64, b: f64| at(&[(i, a), (j, b)]);
            curvature[(i, j)] = (of(STEP, STEP) - of(STEP, -STEP) - of(-STEP, STEP)
                + of(-STEP, -STEP))
                / (4.0 * STEP * STEP);
        }
    }
    (curvature, gradient)
}

/// The lowest point found by steps along each axis.
fn search(mut at: [f64; 3], of: impl Fn([f64; 3]) -> f64) -> [f64; 3] {
    let (mut step, mut lowest) = (STEPS.0, of(at));
    while step > STEPS.1 {
        let before = lowest;
        for i in 0..3 {
            for by in [step, -step] {
                let mut next = at;
                next[i] += by;
                let found = of(next);
                if found < lowest {
                    (at, lowest) = (next, found);
                }
            }
        }
        if lowest >= before {
            step /= 2.0;
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use clscope_testing::Random;

    const BELIEFS: Beliefs = Beliefs { beta: (0.0, 100.0), alpha: (0.0, 1e-6) };

    /// What a simulated device does.
    #[derive(Clone, Copy)]
    struct Truth {
        tau: f64,
        c: f64,
        noise: f64,
        /// Correlation of neighbours' errors: of a counter's differences, or of polled power.
        errors: (Errors, f64),
        alpha: f64,
        /// Windows of the run in which all kernels keep their proportions.
        steady: bool,
    }

    const PLAIN: Truth = Truth {
        tau: 0.03,
        c: 0.03,
        noise: 0.3,
        errors: (Errors::Polled, 0.0),
        alpha: 0.0,
        steady: false,
    };

    /// Readings of the model itself: a run whose mixture changes, rests, and workers of 4 captures
    /// a kernel with 6 windows each. With the energies of the kernels.
    fn simulate(kernels: usize, of: Truth, r: &mut Random) -> (Vec<Reading>, Vec<f64>) {
        let energies: Vec<f64> = (0..kernels).map(|k| 0.01 * (1.0 + k as f64)).collect();
        let (idle, beta, mut out) = (126.0, 0.5, Vec::new());
        let mut last = 0.0;
        let mut read = |launches: Vec<(usize, f64)>,
                        joules: f64,
                        capture: Option<usize>,
                        follows: bool,
                        r: &mut Random| {
            let fresh = of.noise * r.normal();
            let error = match of.errors {
                _ if !follows => fresh,
                (Errors::Counter, theta) => fresh - theta * last,
                (Errors::Polled, phi) => phi * last + (1.0 - phi * phi).sqrt() * fresh,
            };
            last = if of.errors.0 == Errors::Counter { fresh } else { error };
            let warmer = 5.0 * r.normal();
            let warmed = joules * (1.0 + of.alpha * warmer);
            let energy = (idle + beta * warmer) + warmed + error;
            out.push(Reading {
                energy,
                seconds: 1.0,
                warmer,
                launches,
                capture,
                variance: 1.0,
                follows,
            });
        };
        for i in 0..20 {
            read(Vec::new(), 0.0, None, i > 0, r);
        }
        for i in 0..40 {
            let own = |r: &mut Random| if of.steady { 1.0 } else { 1.0 + 0.05 * r.normal() };
            let launches: Vec<(usize, f64)> = (0..kernels)
                .map(|k| (k, 2_000.0 * own(r) / (kernels as f64 * (1.0 + k as f64))))
                .collect();
            let joules = launches.iter().map(|(k, n)| n * energies[*k]).sum();
            read(launches, joules, None, i > 0, r);
        }
        for (k, e) in energies.iter().enumerate() {
            let in_worker = of.tau * r.normal();
            for capture in 0..4 {
                let own = e * (1.0 + in_worker + of.c * r.normal());
                for i in 0..6 {
                    let n = 2_000.0 / (1.0 + k as f64);
                    read(vec![(k, n)], n * own, Some(4 * k + capture), i > 0, r);
                }
            }
        }
        (out, energies)
    }

    #[test]
    fn intervals_hold_as_often_as_they_say() {
        let mut random = Random::new(5);
        let grid = [
            (1, PLAIN),
            (2, Truth { tau: 0.05, c: 0.02, ..PLAIN }),
            (4, Truth { tau: 0.02, c: 0.05, noise: 1.0, ..PLAIN }),
            (2, Truth { errors: (Errors::Counter, 0.8), noise: 1.0, ..PLAIN }),
            (2, Truth { errors: (Errors::Polled, 0.6), noise: 1.0, ..PLAIN }),
            (3, Truth { steady: true, ..PLAIN }),
            (2, Truth { alpha: 0.004, ..PLAIN }),
        ];
        for (kernels, of) in grid {
            let (mut held, mut all, trials) = (0u32, 0u32, 25);
            for _ in 0..trials {
                let (readings, truth) = simulate(kernels, of, &mut random);
                let beliefs =
                    Beliefs { alpha: (0.0, if of.alpha > 0.0 { 1e-4 } else { 1e-6 }), ..BELIEFS };
                let fit = Fit::new(&readings, kernels, beliefs, of.errors.0).expect("determined");
                for (k, e) in truth.iter().enumerate() {
                    let found = fit.contrast(&[(k, 1.0)]);
                    held += u32::from(found.covers(*e));
                    all += 1;
                    assert!(found.half() < 0.5 * found.value, "{found:?}");
                }
            }
            // With a share of 95 %, fewer are held once in a thousand seeds: by three standard
            // deviations of a binomial count. How tau and c are known beforehand makes it more.
            let least = 0.95 * f64::from(all) - 3.0 * (0.95 * 0.05 * f64::from(all)).sqrt();
            assert!(f64::from(held) >= least, "{kernels} kernels: {held} of {all}");
        }
    }

    #[test]
    fn correlated_errors_are_found() {
        let mut random = Random::new(8);
        for errors in [(Errors::Counter, 0.8), (Errors::Polled, 0.6)] {
            let of = Truth { errors, noise: 5.0, ..PLAIN };
            let mean = (0..10)
                .map(|_| {
                    let (readings, _) = simulate(2, of, &mut random);
                    Fit::new(&readings, 2, BELIEFS, errors.0).expect("determined").correlation
                })
                .sum::<f64>()
                / 10.0;
            assert!((mean - errors.1).abs() < 0.25, "{errors:?}: {mean}");
        }
    }

    #[test]
    fn a_reading_that_moves_a_little_moves_figures_a_little_and_order_nothing() {
        let (mut readings, _) = simulate(3, PLAIN, &mut Random::new(9));
        let fit = |readings: &[Reading]| {
            Fit::new(readings, 3, BELIEFS, Errors::Polled)
                .expect("determined")
                .contrast(&[(1, 1.0)])
        };
        let near = |a: Interval, b: Interval| {
            assert!((a.value / b.value - 1.0).abs() < 1e-3, "{a:?} {b:?}");
            assert!((a.half() / b.half() - 1.0).abs() < 1e-2, "{a:?} {b:?}");
        };
        let before = fit(&readings);
        // What two traces hold, in either order: the run with its rests, and the workers.
        readings.rotate_left(60);
        let turned = fit(&readings);
        near(turned, before);
        readings[7].energy *= 1.0 + 1e-6;
        near(fit(&readings), turned);
    }

    #[test]
    fn what_is_never_read_is_not_known() {
        let (readings, _) = simulate(2, PLAIN, &mut Random::new(3));
        assert!(Fit::new(&readings, 3, BELIEFS, Errors::Polled).is_none(), "the third never ran");
    }

    #[test]
    fn no_kernel_gives_energy_back() {
        let mut readings = simulate(2, PLAIN, &mut Random::new(4)).0;
        for reading in &mut readings {
            let of_second: f64 =
                reading.launches.iter().filter(|l| l.0 == 1).map(|l| l.1 * 0.021).sum();
            reading.energy -= of_second;
        }
        let fit = Fit::new(&readings, 2, BELIEFS, Errors::Polled).expect("determined");
        let second = fit.contrast(&[(1, 1.0)]);
        assert!(second.value == 0.0 && second.low == 0.0 && second.high > 0.0, "{second:?}");
        // What the second lacks, the first cannot have: it is off by no more.
        let first = fit.contrast(&[(0, 1.0)]);
        assert!((first.value / 0.01 - 1.0).abs() < 0.1, "{first:?}");
    }
}
