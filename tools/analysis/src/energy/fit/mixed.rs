//! Owns the linear mixed model of energy: readings of a run, of rests and of workers as sums of
//! joules of launches, with kernels that may take another energy in a worker than in the run, and
//! captures that differ from each other. Variances are estimated by restricted maximum likelihood
//! (REML), effects by Henderson's equations (Searle, Casella, McCulloch: *Variance Components*,
//! 1992, ch. 6 and 7). Refuses to know sensors: readings come with their variances.
//!
//! ```text
//! y_j = sum_s f_s (1 + sum_m a_m p_mj) T_js
//!       + sum_k [e_k (1 + sum_m a_m q_mj) + b_k in_worker_j + u_(capture_j, k)] W_jk + eps_j
//! a_m ~ N(m_m, s_m^2)   b_k ~ N(0, tau^2 e_k^2)   u ~ N(0, c^2 e_k^2)   e_k ~ N(P, P^2), e_k >= 0
//! eps_j ~ N(0, sigma^2 v_j)   v_j of the run = a v0_j + b (sum_k e_k W_jk)^2
//! ```
//!
//! Errors of readings that follow each other are those of differences of a counter (a moving
//! average), which is filtered out of all columns first; how they last otherwise is in the intervals.
//! What is not known of sigma, tau, c and P is integrated out: an interval is one of a mixture of
//! normal distributions.

use crate::energy::fit::solve::nonnegative;
use crate::energy::fit::variance::{cosines, long_run};
use crate::interval::Interval;
use crate::quantile::{below, student};
use equations::{Equations, Prior, Reduced, scaled};
use nalgebra::{DMatrix, DVector, MatrixXx2};
use rows::{Powers, Row, correlation, filtered, rows, variances};
use std::collections::BTreeMap;
use usual::{FIRST_NOISE, USUAL, first_guess, most_likely, that_ran};

mod equations;
mod rows;
mod shared;
mod usual;

/// A reading.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// Joules, or a quantity in proportion to them.
    pub energy: f64,
    /// Seconds of each state of idle power in it.
    pub idle: Vec<(usize, f64)>,
    /// Launches of each kernel, or seconds in which it ran, as far as they lie in it.
    pub launches: Vec<(usize, f64)>,
    /// Variance of these, where they were estimated.
    pub unsure: Vec<(usize, f64)>,
    /// Number of the capture that a worker ran; `None` of the run and of rests.
    pub capture: Option<usize>,
    /// Variance of its error; of the run, one in proportion to it.
    pub variance: f64,
    /// Whether it begins where the reading before ended, of the same sensor.
    pub follows: bool,
}

/// What changes powers by a share that is not known: a column of the model.
#[derive(Debug, Clone, PartialEq)]
pub struct Effect {
    /// Mean and standard deviation of the share before anything was read.
    pub belief: (f64, f64),
    /// How much of it there is in each reading's idle power.
    pub idle: Vec<f64>,
    /// The same in joules above idle.
    pub launches: Vec<f64>,
    /// How much of it there was in the rests that each level is known of; empty where none was.
    pub known: Vec<f64>,
}

/// Columns in which powers of kernels enter with something other than launches: what a sensor that
/// responds a little otherwise would read. By the powers: standard deviation of the column's share,
/// and the column, a value a reading of the run.
pub type Bent<'a> = dyn Fn(&[f64]) -> Vec<(f64, Vec<f64>)> + 'a;

/// What is to be fitted.
pub struct Model<'a> {
    /// Kernels.
    pub kernels: usize,
    /// Idle power of each state as it is known beforehand, with its standard deviation.
    pub levels: &'a [Option<(f64, f64)>],
    /// What changes powers.
    pub effects: &'a [Effect],
    /// What a sensor may respond otherwise.
    pub bent: Option<&'a Bent<'a>>,
    /// How errors correlate.
    pub errors: Errors,
    /// Standard deviation of a kernel's power above idle before anything was read, over the mean of
    /// all.
    pub spread: f64,
    /// Median of tau before anything was read, and the standard deviation of its logarithm.
    pub workers: (f64, f64),
}

/// How errors of readings that follow each other correlate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Errors {
    /// As those of differences of a counter: what one reading has too much the next has too little.
    Counter,
    /// As those of polled power: what is off lasts. So many readings are averaged.
    Polled {
        /// How many.
        averaged: usize,
    },
}

/// Median of tau before anything was read, and the standard deviation of its logarithm. What was
/// measured has both tau and c in it: a capture and the run, by its slope, differ by 2.2 %, root mean
/// square (14 kernels on H100s and an H200; 2.4 % with errors of the slopes, 2.0 % without). That
/// leaves the logarithm known to 0.19; half as much again, because devices differ, is 0.4 for each of
/// the two. Each has half of the square, and medians are lower than roots of mean squares by exp(0.4^2).
pub const WORKERS: (f64, f64) = (0.014, 0.4);
/// The same of c.
const CAPTURES: (f64, f64) = WORKERS;
/// Rounds in which energies and variances settle.
const ROUNDS: usize = 6;
/// Steps in which the two parts of the variance of readings settle.
const SCORING: usize = 10;
/// Steps of the search, halved whenever none is better: the first, the first of later rounds, and the
/// last.
const STEPS: (f64, f64, f64) = (1.0, 0.25, 0.02);
/// Most rounds of a search: steps double, so that these lead anywhere.
const MOST_STEPS: usize = 200;
/// Step of differences for the curvature.
const STEP: f64 = 0.2;
/// Correlations of neighbours that are filtered out at most: beyond, sums would have no error left.
const MOST_CORRELATED: f64 = 0.97;
/// Nodes and weights of the integral over each logarithm of a variance (Gauss and Hermite, 3).
const NODES: [(f64, f64); 3] =
    [(0.0, 2.0 / 3.0), (1.732_050_807_568_877_2, 1.0 / 6.0), (-1.732_050_807_568_877_2, 1.0 / 6.0)];

/// Least variance of a reading over its square: rounding of sums.
const SURE: f64 = 1e-12;
/// Least logarithm of the variance over that of the readings that was found.
const LEAST: f64 = -10.0;
/// Readings whose products are summed at a time: bounds memory.
const PART: usize = 512;
/// Least share that a fit leaves of a reading on which alone it rests.
const LEAST_LEFT: f64 = 0.05;
/// Least part of the error that is no kernel's.
const LEAST_ERROR: f64 = 1e-3;

/// Effects for one set of variances, with the weight of that set.
#[derive(Debug, Clone)]
struct Point {
    weight: f64,
    logarithms: [f64; 3],
    effects: DVector<f64>,
    covariance: DMatrix<f64>,
}

/// A linear combination of columns.
pub type Contrast = Vec<(usize, f64)>;

/// The fitted model.
#[derive(Debug, Clone)]
pub struct Fit {
    /// Columns before those of kernels, and of effects that are shares.
    common: usize,
    states: usize,
    /// Levels, shares, and joules above idle of each kernel's launches, by the variances that are
    /// possible.
    points: Vec<Point>,
    /// The most likely of them.
    mode: usize,
    /// By how much covariances are larger where errors of the run are correlated otherwise.
    slow: DMatrix<f64>,
    /// By how much each column changes with each error that other runs have, too ([`Fit::spread`]).
    loads: Option<MatrixXx2<f64>>,
    /// What was known of tau beforehand, and whether readings could say more.
    workers: Option<(f64, f64)>,
    /// What the fit leaves of each reading.
    pub left: Vec<f64>,
    /// The columns of each reading and the variance of its error.
    rows: Vec<Row>,
    /// Most likely logarithms of sigma^2, tau^2 and c^2.
    pub logarithms: [f64; 3],
    /// The parameter that was filtered out of readings that follow each other.
    pub correlation: f64,
}

impl Fit {
    /// Fits the model to readings. `None` where they do not determine the energies.
    pub fn new(readings: &[Reading], model: &Model<'_>) -> Option<Self> {
        let kernels = model.kernels;
        let mut captures = vec![Vec::new(); kernels];
        for reading in readings {
            if let (Some(capture), Some((kernel, _))) = (reading.capture, reading.launches.first())
                && !captures[*kernel].contains(&capture)
            {
                captures[*kernel].push(capture);
            }
        }
        let guess = first_guess(readings, model);
        let ran = that_ran(readings);
        let (mut usual, most) = (guess.usual, guess.most);
        let mut doubt = USUAL;
        let mut energies = vec![usual; kernels];
        let mut powers: Option<Powers> = None;
        let sure = |of: &Reading| match of.variance.max(SURE * of.energy * of.energy) {
            found if found > 0.0 => found,
            _ => 1.0,
        };
        let mut variances: Vec<f64> = readings.iter().map(sure).collect();
        let mut logs = [guess.noise, 2.0 * model.workers.0.ln(), 2.0 * CAPTURES.0.ln()];
        let (mut of, mut filter) = (None, 0.0);
        let mut left = Vec::new();
        for round in 0..ROUNDS {
            // What a launch takes is not known yet: shares and the filter come with the next round.
            let plain = rows(model, readings, &variances, &captures, powers.as_ref());
            let bent = powers.as_ref().map_or(&[][..], |p| &p.bent);
            let prior = Prior::new(model, bent, usual, most);
            let common = prior.width - kernels;
            let white = filtered(&plain, model.errors, filter);
            let mut equations = Equations::new(&white, &captures);
            equations.least =
                if round == 0 { guess.noise + FIRST_NOISE + SURE.ln() } else { LEAST };
            logs[0] = logs[0].max(equations.least);
            let step = if round < 2 { STEPS.0 } else { STEPS.1 };
            let axes = equations.axes();
            logs = search(logs, step, axes, |logs| equations.deviance(logs, &energies, &prior));
            let reduced = equations.reduce(logs, &energies, &prior)?;
            let effects = bounded(&reduced, model.levels.len(), common);
            let found = effects.rows(common, kernels);
            let largest = found.amax().max(f64::MIN_POSITIVE);
            // A kernel that takes next to nothing varies by next to nothing.
            energies = found.iter().map(|e| e.max(1e-6 * largest)).collect();
            left = residuals(&plain, &effects, &equations, [logs[1], logs[2]], &energies);
            if round + 1 < ROUNDS {
                let covariance = reduced.cholesky.inverse();
                let of: Vec<f64> = ran.iter().map(|k| energies[*k]).collect();
                let pairs =
                    ran.iter().flat_map(|i| ran.iter().map(move |j| (common + i, common + j)));
                let together = pairs.map(|at| covariance[at]).sum();
                (usual, doubt) = most_likely((usual, guess.usual), model.spread, &of, together);
                // The last of the filter and of the variances belong together.
                filter = correlation(&plain, model.errors, &left);
                variances = self::variances(readings, &left, &energies, &variances);
                // They are variances themselves now.
                logs[0] = 0.0;
                let levels = effects.rows(0, model.levels.len()).iter().copied().collect();
                // What the sensor's response may be is of the powers that are nearly known.
                let bent = match powers.take() {
                    Some(of) if round != BENT_AGAIN => of.bent,
                    _ => model.bent.map_or_else(Vec::new, |bent| bent(&energies)),
                };
                powers = Some(Powers { levels, kernels: energies.clone(), bent });
            }
            of = Some((equations, prior, plain, white));
        }
        let (of, prior, rows, white) = of?;
        let common = prior.width - kernels;
        let deviance = |logs| of.deviance(logs, &energies, &prior);
        // What kernels usually draw is as little known as few of them say.
        let bent = powers.as_ref().map_or(&[][..], |p| &p.bent);
        let usually = NODES.map(|(at, weight)| {
            (Prior::new(model, bent, usual * (at * doubt).exp(), most), weight)
        });
        let points: Vec<Point> = possible(logs, of.axes(), &deviance)
            .into_iter()
            .flat_map(|variances| usually.iter().map(move |usually| (variances, usually)))
            .filter_map(|((logs, weight), (prior, share))| {
                let reduced = of.reduce(logs, &energies, prior)?;
                let covariance = reduced.cholesky.inverse();
                let effects = bounded(&reduced, model.levels.len(), common);
                Some(Point { weight: weight * share, logarithms: logs, effects, covariance })
            })
            .collect();
        let mode =
            (0..points.len()).max_by(|a, b| points[*a].weight.total_cmp(&points[*b].weight))?;
        let states = model.levels.len();
        let averaged = match model.errors {
            Errors::Counter => 1,
            Errors::Polled { averaged } => averaged,
        };
        let slow = slow(&white, &points[mode], logs[0], averaged);
        Some(Self {
            slow,
            loads: None,
            workers: (of.axes() > 1).then_some(model.workers),
            common,
            states,
            points,
            mode,
            left,
            rows,
            logarithms: logs,
            correlation: filter,
        })
    }

    /// The column of a kernel's joules above idle.
    pub fn kernel(&self, kernel: usize) -> usize {
        self.common + kernel
    }

    /// The column of a share of the effects.
    pub fn share(&self, effect: usize) -> usize {
        self.states + effect
    }

    /// The most likely value of a column.
    pub fn value(&self, column: usize) -> f64 {
        self.points[self.mode].effects[column]
    }

    /// Covariances of sums with each other, at the most likely variances: of any combination of them
    /// no less than [`Fit::contrast`] has.
    pub fn covariances(&self, sums: &[Contrast]) -> DMatrix<f64> {
        let point = &self.points[self.mode];
        let mut times = DMatrix::zeros(sums.len(), point.effects.len());
        for (of, sum) in sums.iter().enumerate() {
            sum.iter().for_each(|(at, n)| times[(of, *at)] = *n);
        }
        let own = &times * &point.covariance * times.transpose();
        // Errors that last are no reason to be surer of any combination.
        let mut slow = (&times * &self.slow * times.transpose()).symmetric_eigen();
        slow.eigenvalues.iter_mut().for_each(|of| *of = of.max(0.0));
        own + slow.recompose()
    }

    /// A sum, `times` of each column, with its 95 % interval; `is_positive`: no end is below 0.
    pub fn contrast(&self, times: &[(usize, f64)], is_positive: bool) -> Interval {
        let more = |(i, x): &(usize, f64)| -> f64 {
            times.iter().map(|(j, y)| x * y * self.slow[(*i, *j)]).sum()
        };
        let slow = times.iter().map(more).sum::<f64>().max(0.0);
        let parts: Vec<(f64, f64, f64)> = self
            .points
            .iter()
            .map(|point| {
                let mean: f64 = times.iter().map(|(at, n)| n * point.effects[*at]).sum();
                let of = |(i, x): &(usize, f64)| -> f64 {
                    times.iter().map(|(j, y)| x * y * point.covariance[(*i, *j)]).sum()
                };
                let variance: f64 = times.iter().map(of).sum();
                (point.weight, mean, (variance.max(0.0) + slow).sqrt())
            })
            .collect();
        mixture(&parts, is_positive)
    }
}

/// The round behind which the columns of the sensor's response are made again.
const BENT_AGAIN: usize = 2;

/// Mean and 95 % interval of normal distributions (weight, mean, standard deviation), cut off below
/// 0 where what they are of cannot be negative.
fn mixture(parts: &[(f64, f64, f64)], is_positive: bool) -> Interval {
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
        for _ in 0..60 {
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

/// What the covariance of the columns lacks where errors of the run's readings last longer than the
/// filter knows: the sandwich with the long-run variance of scores (`variance`), whose quotients
/// follow Student's t, less the model's own. A fit bends towards its readings, the more the larger
/// their leverage h is: scores are divided by the root of 1 - n h, where n readings were averaged
/// (CR2 of Bell and McCaffrey, Survey Methodology 28, 2002, of n readings that are alike).
fn slow(white: &[Row], at: &Point, noise: f64, averaged: usize) -> DMatrix<f64> {
    let width = at.effects.len();
    let unit = noise.exp();
    let of_run: Vec<Row> = white.iter().filter(|row| row.random.is_none()).cloned().collect();
    let mut scores = Vec::with_capacity(of_run.len() * width);
    for part in of_run.chunks(PART) {
        let (columns, energy) = scaled(part);
        let left = energy - columns.tr_mul(&at.effects);
        let turned = &at.covariance * &columns;
        for (j, column) in columns.column_iter().enumerate() {
            let leverage = averaged as f64 * column.dot(&turned.column(j)) / unit;
            let score = left[j] / unit / (1.0 - leverage).max(LEAST_LEFT).sqrt();
            scores.extend(column.iter().map(|a| a * score));
        }
    }
    let number = cosines(of_run.len());
    let factor = student(0.975, number as f64) / student(0.975, f64::INFINITY);
    let long = long_run(&scores, width, number) * (factor * factor);
    let own = Equations::new(&of_run, &[]).run.fixed / unit;
    &at.covariance * (long - own) * &at.covariance
}

/// Logarithms of variances around the most likely ones, with weights whose sum is 1: nodes of a
/// normal distribution with the deviance's curvature, corrected by the deviance itself.
fn possible(
    logs: [f64; 3],
    axes: usize,
    deviance: &impl Fn([f64; 3]) -> f64,
) -> Vec<([f64; 3], f64)> {
    let curvature = shape(logs, axes, deviance);
    // A search that ended beside the lowest point may see a saddle: priors alone have these.
    let least = DMatrix::from_diagonal(&DVector::from_vec(vec![1.0; 3]));
    let spread = [0.0, 0.1, 1.0, 10.0]
        .iter()
        .find_map(|ridge| (&curvature + &least * *ridge).cholesky())
        .map_or(least.clone(), |of| of.inverse() * 2.0);
    let root = spread.cholesky().map_or(least, |of| of.l());
    let lowest = deviance(logs);
    let mut out = Vec::with_capacity(NODES.len().pow(3));
    let nodes = |axis: usize| if axis < axes { &NODES[..] } else { &NODES[..1] };
    for &(a, in_a) in &NODES {
        for &(b, in_b) in nodes(1) {
            for &(c, in_c) in nodes(2) {
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

/// Effects of which no kernel's and no level is negative.
fn bounded(of: &Reduced, states: usize, common: usize) -> DVector<f64> {
    let free = of.cholesky.solve(&of.right);
    let is_bounded = |at: usize| at < states || at >= common;
    if free.iter().enumerate().all(|(at, e)| !is_bounded(at) || *e >= 0.0) {
        return free;
    }
    let bounds: Vec<bool> = (0..free.len()).map(is_bounded).collect();
    nonnegative(&of.matrix, &of.right, &bounds)
}

/// What fixed and random effects leave of each row.
fn residuals(
    rows: &[Row],
    effects: &DVector<f64>,
    of: &Equations,
    [tau, c]: [f64; 2],
    energies: &[f64],
) -> Vec<f64> {
    let mut random: BTreeMap<usize, DVector<f64>> = BTreeMap::new();
    for block in &of.blocks {
        let mut own = block.own.clone();
        for i in 0..own.nrows() {
            let share = (if i == 0 { tau } else { c }).exp();
            own[(i, i)] += 1.0 / (share * energies[block.kernel].powi(2));
        }
        let fixed = DVector::from_iterator(block.at.len(), block.at.iter().map(|at| effects[*at]));
        let right = &block.right - block.across.transpose() * fixed;
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

/// Curvature of a deviance along so many axes; 1 along the others.
fn shape(logs: [f64; 3], axes: usize, of: &impl Fn([f64; 3]) -> f64) -> DMatrix<f64> {
    let at = |moves: [(usize, f64); 2]| {
        let mut logs = logs;
        moves.iter().for_each(|(i, by)| logs[*i] += by);
        of(logs)
    };
    DMatrix::from_fn(3, 3, |i, j| {
        if i.max(j) >= axes {
            return f64::from(u8::from(i == j));
        }
        let of = |a: f64, b: f64| at([(i, a), (j, b)]);
        (of(STEP, STEP) - of(STEP, -STEP) - of(-STEP, STEP) + of(-STEP, -STEP))
            / (4.0 * STEP * STEP)
    })
}

/// The lowest point found by steps along each of so many axes: twice as long where one led down,
/// half as long where none did.
fn search(at: [f64; 3], step: f64, axes: usize, of: impl Fn([f64; 3]) -> f64) -> [f64; 3] {
    let (mut at, mut lowest, mut steps) = (at, of(at), [step; 3]);
    for _ in 0..MOST_STEPS {
        for (i, step) in steps.iter_mut().enumerate().take(axes) {
            let ways = [*step, -*step].map(|by| {
                let mut next = at;
                next[i] += by;
                (next, of(next))
            });
            let best = ways.into_iter().min_by(|a, b| a.1.total_cmp(&b.1));
            match best.filter(|(_, found)| *found < lowest) {
                Some((next, found)) => {
                    (at, lowest) = (next, found);
                    *step *= 2.0;
                }
                None => *step /= 2.0,
            }
        }
        if steps.iter().take(axes).all(|step| *step < STEPS.2) {
            break;
        }
    }
    at
}

#[cfg(test)]
mod tests;
