//! Owns the linear mixed model of energy: readings of a run, of rests and of workers as sums of
//! joules of launches, with kernels that may take another energy in a worker than in the run, and
//! captures that differ from each other. Variances are estimated by restricted maximum likelihood
//! (REML), effects by Henderson's equations (Searle, Casella, McCulloch: *Variance Components*,
//! 1992, ch. 6 and 7). Refuses to know sensors: readings come with their variances.
//!
//! ```text
//! y_j = s T_j + beta (theta_j - theta_0) T_j + delta active_j T_j
//!       + sum_k [e_k (1 + alpha (theta_j - theta_0)) + b_k in_worker_j + u_(capture_j, k)] W_jk
//!       + eps_j
//! b_k ~ N(0, tau^2 e_k^2)   u ~ N(0, c^2 e_k^2)   e_k ~ N(P d_k, P^2 d_k^2), e_k >= 0
//! eps_j ~ N(0, sigma^2 v_j)   v_j of the run = a v0_j + b (sum_k e_k W_jk)^2
//! ```
//!
//! Errors of readings that follow each other are those of differences of a counter (a moving
//! average), or of polled power (an autoregression); both are filtered out of all columns first.
//! What is not known of sigma, tau and c is integrated out: an interval is one of a mixture of
//! normal distributions.
#![forbid(unsafe_code)]

use super::solve::nonnegative;
use crate::interval::Interval;
use crate::quantile::below;
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
    /// Watts of idle power between launches of the run beyond those of rests: mean and variance.
    pub between: (f64, f64),
}

/// Median of tau before anything was read, and the standard deviation of its logarithm. (H100: seven
/// kernels measured in the run by its slope and alone differ by 2.2 %, root mean square, which
/// leaves the logarithm known to 0.27; twice as much, because devices differ.)
const WORKERS: (f64, f64) = (0.02, 0.5);
/// The same of c, of which less is known: captures of one kernel differ by 0.4 to 22 %.
const CAPTURES: (f64, f64) = (0.02, 0.7);
/// Rounds in which energies and variances settle.
const ROUNDS: usize = 6;
/// Steps in which the two parts of the variance of readings settle.
const SCORING: usize = 10;
/// Part of a window in which kernels run, from which on it is between launches rather than a rest:
/// the scale of 1 - exp(-x).
const ACTIVE: f64 = 0.02;
/// Steps of the search, halved whenever none is better: the first, the first of later rounds, and the
/// last.
const STEPS: (f64, f64, f64) = (1.0, 0.25, 0.02);
/// Step of differences for the curvature.
const STEP: f64 = 0.2;
/// Correlations of neighbours that are filtered out at most: beyond, sums would have no error left.
const MOST_CORRELATED: f64 = 0.97;
/// Columns that no kernel has: s, beta, alpha, delta.
const COMMON: usize = 4;
/// Nodes and weights of the integral over each logarithm of a variance (Gauss and Hermite, 3).
const NODES: [(f64, f64); 3] =
    [(0.0, 2.0 / 3.0), (1.732_050_807_568_877_2, 1.0 / 6.0), (-1.732_050_807_568_877_2, 1.0 / 6.0)];

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

/// Rows of readings with these variances, for energies that alpha is a share of.
fn rows(
    readings: &[Reading],
    variances: &[f64],
    captures: &[Vec<usize>],
    energies: &[f64],
    lengths: &[f64],
) -> Vec<Row> {
    let mut before: Option<Option<usize>> = None;
    let row = |(reading, variance): (&Reading, &f64)| {
        let mut fixed = vec![0.0; COMMON + energies.len()];
        (fixed[0], fixed[1]) = (reading.seconds, reading.seconds * reading.warmer);
        for (kernel, n) in &reading.launches {
            fixed[COMMON + kernel] += n;
            fixed[2] += n * energies[*kernel] * reading.warmer;
        }
        if reading.capture.is_none() && reading.seconds > 0.0 {
            let busy: f64 = reading.launches.iter().map(|(kernel, n)| n * lengths[*kernel]).sum();
            fixed[3] = reading.seconds * -(-busy / (ACTIVE * reading.seconds)).exp_m1();
        }
        let random =
            reading.capture.zip(reading.launches.first()).map(|(capture, &(kernel, n))| {
                let at = captures[kernel].iter().position(|of| *of == capture).unwrap_or(0);
                (kernel, at, n)
            });
        // Effects of captures stay apart: a filter that went over their edges would mix them.
        let follows = reading.follows && before == Some(reading.capture);
        before = Some(reading.capture);
        Row { y: reading.energy, weight: 1.0 / variance, fixed, random, follows }
    };
    readings.iter().zip(variances).map(row).collect()
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
    // Effects of captures take up what lasts as long as their few windows.
    let is_of_run = |i: &usize| rows[*i].follows && rows[*i].random.is_none();
    for i in (1..rows.len()).filter(is_of_run) {
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

/// Variances of the run's readings from what a fit leaves of them: a part in proportion to the given
/// ones, and one to the square of what kernels drew, of which sensors see a part of each period and
/// edges late. By pseudo-likelihood (Carroll, Ruppert: *Transformation and Weighting in Regression*,
/// 1988, ch. 3): squares regressed on both, weighted by their own variances. Of workers as given.
fn variances(readings: &[Reading], left: &[f64], energies: &[f64], before: &[f64]) -> Vec<f64> {
    let load = |reading: &Reading| {
        reading.launches.iter().map(|(kernel, n)| n * energies[*kernel]).sum::<f64>().powi(2)
    };
    let of_run: Vec<(usize, f64, f64)> = readings
        .iter()
        .enumerate()
        .filter(|(_, reading)| reading.capture.is_none() && reading.seconds > 0.0)
        .map(|(i, reading)| (i, reading.variance, load(reading)))
        .collect();
    let mut out = before.to_vec();
    for _ in 0..SCORING {
        let (mut aa, mut ab, mut bb, mut ya, mut yb) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for &(i, a, b) in &of_run {
            let (weight, square) = (out[i].powi(-2), left[i] * left[i]);
            aa += weight * a * a;
            ab += weight * a * b;
            bb += weight * b * b;
            ya += weight * a * square;
            yb += weight * b * square;
        }
        let determinant = aa * bb - ab * ab;
        let (mut a, mut b) = (ya / aa, 0.0);
        if determinant > 1e-9 * aa * bb {
            b = ((aa * yb - ab * ya) / determinant).max(0.0);
            a = if b > 0.0 { (bb * ya - ab * yb) / determinant } else { a };
        }
        if !(a.is_finite() && b.is_finite()) {
            break;
        }
        // No sensor is without error.
        let a = a.max(LEAST_ERROR * ya / aa);
        for &(i, own, load) in &of_run {
            out[i] = a * own + b * load;
        }
    }
    out
}

/// Least part of the error that is no kernel's.
const LEAST_ERROR: f64 = 1e-3;

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
        // A column a reading, in units of its error.
        let mut columns = DMatrix::zeros(size, rows.len());
        let mut energy = DVector::zeros(rows.len());
        let mut blocks: BTreeMap<usize, Vec<&Row>> = BTreeMap::new();
        for (j, row) in rows.iter().enumerate() {
            let root = row.weight.sqrt();
            energy[j] = root * row.y;
            let scaled = row.fixed.iter().map(|a| root * a);
            columns.column_mut(j).iter_mut().zip(scaled).for_each(|(to, a)| *to = a);
            if let Some((kernel, ..)) = row.random {
                blocks.entry(kernel).or_default().push(row);
            }
        }
        let mut of = Self {
            fixed: &columns * columns.transpose(),
            right: &columns * &energy,
            blocks: Vec::new(),
            squares: energy.norm_squared(),
            readings: rows.len() as f64,
        };
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
    fn reduce(&self, logs: [f64; 3], energies: &[f64], beliefs: &Prior<'_>) -> Option<Reduced> {
        let [noise, tau, c] = logs;
        let unit = noise.exp();
        let mut matrix = &self.fixed / unit;
        let mut right = &self.right / unit;
        let of = &beliefs.beliefs;
        let common = [(1, of.beta), (2, of.alpha), (3, of.between)];
        // Of a positive quantity of which the mean alone is known, as an exponential distribution's.
        let usual = beliefs.lengths.iter().map(|length| length * beliefs.power);
        let kernels = (COMMON..).zip(usual).filter(|(_, joules)| *joules > 0.0);
        let kernels = kernels.map(|(at, joules)| (at, (joules, joules * joules)));
        for (at, (mean, variance)) in common.into_iter().chain(kernels) {
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
    fn deviance(&self, logs: [f64; 3], energies: &[f64], beliefs: &Prior<'_>) -> f64 {
        let Some(of) = self.reduce(logs, energies, beliefs) else { return f64::INFINITY };
        let explained = of.explained + of.right.dot(&of.cholesky.solve(&of.right));
        let off = |log: f64, of: (f64, f64)| ((log / 2.0 - of.0.ln()) / of.1).powi(2);
        let squares = self.squares / logs[0].exp() - explained;
        of.determinant
            + self.readings * logs[0]
            + squares
            + off(logs[1], WORKERS)
            + off(logs[2], CAPTURES)
    }
}

/// What is known beforehand, with the kernels' mean power above idle and the lengths of their
/// launches.
struct Prior<'l> {
    beliefs: Beliefs,
    power: f64,
    lengths: &'l [f64],
}

fn logarithm(of: &Cholesky<f64, Dyn>) -> f64 {
    of.l_dirty().diagonal().iter().map(|d| 2.0 * d.ln()).sum()
}

/// Effects for one set of variances, with the weight of that set.
#[derive(Debug, Clone)]
struct Point {
    weight: f64,
    effects: DVector<f64>,
    covariance: DMatrix<f64>,
}

/// The fitted model.
#[derive(Debug, Clone)]
pub struct Fit {
    kernels: usize,
    /// s, beta, alpha, delta, and joules above idle of each kernel's launches, by the variances that
    /// are possible.
    points: Vec<Point>,
    /// Most likely logarithms of sigma^2, tau^2 and c^2.
    pub logarithms: [f64; 3],
    /// The parameter that was filtered out of readings that follow each other.
    pub correlation: f64,
}

impl Fit {
    /// Fits the model to readings of kernels whose launches take `lengths` seconds on average; 0
    /// where that is not known. `None` where the readings do not determine the energies.
    #[must_use]
    pub fn new(
        readings: &[Reading],
        lengths: &[f64],
        beliefs: Beliefs,
        errors: Errors,
    ) -> Option<Self> {
        let kernels = lengths.len();
        let mut captures = vec![Vec::new(); kernels];
        for reading in readings {
            if let (Some(capture), Some((kernel, _))) = (reading.capture, reading.launches.first())
                && !captures[*kernel].contains(&capture)
            {
                captures[*kernel].push(capture);
            }
        }
        let mut prior = Prior { beliefs, power: 0.0, lengths };
        let mut energies = vec![1.0; kernels];
        let mut variances: Vec<f64> = readings.iter().map(|reading| reading.variance).collect();
        let mut logs = [0.0, 2.0 * WORKERS.0.ln(), 2.0 * CAPTURES.0.ln()];
        let (mut of, mut filter) = (None, 0.0);
        for round in 0..ROUNDS {
            // What a launch takes is not known yet: alpha and the filter come with the next round.
            let shares = if round == 0 { vec![0.0; kernels] } else { energies.clone() };
            let plain = rows(readings, &variances, &captures, &shares, lengths);
            let equations =
                Equations::new(&whitened(plain.clone(), errors, filter), kernels, &captures);
            if round == 0 {
                (energies, prior.power) = first_guess(readings, lengths)?;
                logs[0] = 0.0;
            }
            let step = if round < 2 { STEPS.0 } else { STEPS.1 };
            logs = search(logs, step, |logs| equations.deviance(logs, &energies, &prior));
            let reduced = equations.reduce(logs, &energies, &prior)?;
            let effects = bounded(&reduced);
            let found = effects.rows(COMMON, kernels);
            let largest = found.amax();
            // A kernel that takes next to nothing varies by next to nothing.
            energies = found.iter().map(|e| e.max(1e-6 * largest)).collect();
            prior.power = mean_power(readings, &energies, lengths).unwrap_or(prior.power);
            if round + 1 < ROUNDS {
                let left = residuals(&plain, &effects, &equations, logs, &energies);
                // The last of the filter and of the variances belong together.
                filter = correlation(&plain, errors, &left);
                variances = self::variances(readings, &left, &energies, &variances);
            }
            of = Some(equations);
        }
        let of = of?;
        let deviance = |logs| of.deviance(logs, &energies, &prior);
        let points = possible(logs, &deviance)
            .into_iter()
            .filter_map(|(logs, weight)| {
                let reduced = of.reduce(logs, &energies, &prior)?;
                let covariance = reduced.cholesky.inverse();
                Some(Point { weight, effects: bounded(&reduced), covariance })
            })
            .collect();
        Some(Self { kernels, points, logarithms: logs, correlation: filter })
    }

    /// A sum of joules above idle, `times` of a launch of each kernel, with its 95 % interval; no
    /// end of a sum is below 0.
    #[must_use]
    pub fn contrast(&self, times: &[(usize, f64)]) -> Interval {
        let mut of = self.none();
        for (kernel, n) in times.iter().filter(|(kernel, _)| *kernel < self.kernels) {
            of[COMMON + kernel] += n;
        }
        self.interval(&of, times.iter().all(|(_, n)| *n >= 0.0))
    }

    /// Idle power at the temperature that joules are brought to.
    #[must_use]
    pub fn idle(&self) -> Interval {
        self.effect(0)
    }

    /// Watts of idle power a degree, and share of a launch's joules a degree.
    #[must_use]
    pub fn temperature(&self) -> [Interval; 2] {
        [self.effect(1), self.effect(2)]
    }

    fn effect(&self, at: usize) -> Interval {
        let mut of = self.none();
        of[at] = 1.0;
        self.interval(&of, false)
    }

    fn none(&self) -> DVector<f64> {
        DVector::zeros(COMMON + self.kernels)
    }

    /// The mean, and the interval of the mixture, above 0 where it cannot be negative.
    fn interval(&self, of: &DVector<f64>, is_positive: bool) -> Interval {
        let parts: Vec<(f64, f64, f64)> = self
            .points
            .iter()
            .map(|point| {
                let variance = (of.transpose() * &point.covariance * of)[(0, 0)];
                (point.weight, point.effects.dot(of), variance.max(0.0).sqrt())
            })
            .collect();
        let mean: f64 = parts.iter().map(|(weight, mean, _)| weight * mean).sum();
        let share = |x: f64| -> f64 {
            let part = |(weight, mean, sd): &(f64, f64, f64)| match *sd > 0.0 {
                true => weight * below((x - mean) / sd),
                false => weight * f64::from(u8::from(x >= *mean)),
            };
            parts.iter().map(part).sum()
        };
        let none = if is_positive { share(0.0) } else { 0.0 };
        let widest = parts.iter().map(|part| part.2).fold(0.0, f64::max);
        let (least, most) = parts.iter().fold((mean, mean), |(a, b), p| (a.min(p.1), b.max(p.1)));
        // Beyond ten standard deviations there is nothing.
        let ends = (least - 10.0 * widest, most + 10.0 * widest);
        let end = |q: f64| {
            let wanted = none + q * (1.0 - none);
            let (mut low, mut high) = ends;
            for _ in 0..80 {
                let middle = f64::midpoint(low, high);
                if share(middle) < wanted {
                    low = middle;
                } else {
                    high = middle;
                }
            }
            if is_positive { high.max(0.0) } else { high }
        };
        let (low, high) = (end(0.025), end(0.975));
        Interval::estimated(mean.clamp(low, high), low, high)
    }
}

/// Joules of each kernel's launches if all drew the same power above the least that was read, and
/// that power.
fn first_guess(readings: &[Reading], lengths: &[f64]) -> Option<(Vec<f64>, f64)> {
    let rest = readings
        .iter()
        .filter(|reading| reading.seconds > 0.0)
        .map(|reading| reading.energy / reading.seconds)
        .fold(f64::INFINITY, f64::min);
    let rest = if rest.is_finite() { rest } else { 0.0 };
    let (mut joules, mut seconds, mut launches) = (0.0, 0.0, 0.0);
    for reading in readings {
        let busy = |(kernel, n): &(usize, f64)| n * lengths[*kernel];
        seconds += reading.launches.iter().map(busy).sum::<f64>();
        launches += reading.launches.iter().map(|(_, n)| n).sum::<f64>();
        if !reading.launches.is_empty() {
            joules += reading.energy - rest * reading.seconds;
        }
    }
    // Of a launch of unknown length, the mean of all.
    let each = joules / launches;
    let power = if seconds > 0.0 { joules / seconds } else { 0.0 };
    let guess = |length: &f64| if *length > 0.0 { power * length } else { each };
    (each.is_finite() && each > 0.0).then(|| (lengths.iter().map(guess).collect(), power))
}

/// Power above idle of what ran in the run, or in workers where nothing did, by these joules.
fn mean_power(readings: &[Reading], energies: &[f64], lengths: &[f64]) -> Option<f64> {
    let of = |is_run: bool| {
        let all = readings.iter().filter(|reading| reading.capture.is_none() == is_run);
        let known = all.flat_map(|r| &r.launches).filter(|(kernel, _)| lengths[*kernel] > 0.0);
        let (joules, seconds) = known.fold((0.0, 0.0), |(joules, seconds), (kernel, n)| {
            (joules + n * energies[*kernel], seconds + n * lengths[*kernel])
        });
        (seconds > 0.0 && joules > 0.0).then(|| joules / seconds)
    };
    of(true).or_else(|| of(false))
}

/// Logarithms of variances around the most likely ones, with weights whose sum is 1: nodes of a
/// normal distribution with the deviance's curvature, corrected by the deviance itself.
fn possible(logs: [f64; 3], deviance: &impl Fn([f64; 3]) -> f64) -> Vec<([f64; 3], f64)> {
    let curvature = shape(logs, deviance);
    // A search that ended beside the lowest point may see a saddle: priors alone have these.
    let least = DMatrix::from_diagonal(&DVector::from_vec(vec![1.0; 3]));
    let spread = [0.0, 0.1, 1.0, 10.0]
        .iter()
        .find_map(|ridge| (&curvature + &least * *ridge).cholesky())
        .map_or(least.clone(), |of| of.inverse() * 2.0);
    let root = spread.cholesky().map_or(least, |of| of.l());
    let lowest = deviance(logs);
    let mut out = Vec::with_capacity(NODES.len().pow(3));
    for (a, in_a) in NODES {
        for (b, in_b) in NODES {
            for (c, in_c) in NODES {
                let moved = &root * DVector::from_vec(vec![a, b, c]);
                let at = [logs[0] + moved[0], logs[1] + moved[1], logs[2] + moved[2]];
                let normal = (a * a + b * b + c * c) / 2.0;
                let weight = (normal - (deviance(at) - lowest) / 2.0).exp() * in_a * in_b * in_c;
                out.push((at, weight));
            }
        }
    }
    let all: f64 = out.iter().map(|(_, weight)| weight).sum();
    out.iter_mut().for_each(|(_, weight)| *weight /= all);
    out.retain(|(_, weight)| *weight > 1e-6);
    out
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

/// Curvature of a deviance.
fn shape(logs: [f64; 3], of: &impl Fn([f64; 3]) -> f64) -> DMatrix<f64> {
    let at = |moves: [(usize, f64); 2]| {
        let mut logs = logs;
        moves.iter().for_each(|(i, by)| logs[*i] += by);
        of(logs)
    };
    DMatrix::from_fn(3, 3, |i, j| {
        let of = |a: f64, b: f64| at([(i, a), (j, b)]);
        (of(STEP, STEP) - of(STEP, -STEP) - of(-STEP, STEP) + of(-STEP, -STEP))
            / (4.0 * STEP * STEP)
    })
}

/// The lowest point found by steps along each axis.
fn search(mut at: [f64; 3], mut step: f64, of: impl Fn([f64; 3]) -> f64) -> [f64; 3] {
    let mut lowest = of(at);
    while step > STEPS.2 {
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
mod tests;
