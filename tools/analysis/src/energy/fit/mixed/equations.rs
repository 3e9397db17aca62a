//! Owns Henderson's equations of rows, from which random effects are eliminated kernel by kernel, and
//! the restricted likelihood. Refuses to choose variances.

use super::rows::Row;
use super::{CAPTURES, Contrast, Effect, Model, PART};
use nalgebra::{Cholesky, DMatrix, DVector, Dyn};
use std::collections::BTreeMap;

/// Random effects of one kernel, with what they share with the fixed ones.
pub(super) struct Block {
    pub kernel: usize,
    /// Fixed columns that its rows have.
    pub at: Vec<usize>,
    /// Sums of products: of fixed by random, and of random by random columns.
    pub across: DMatrix<f64>,
    pub own: DMatrix<f64>,
    pub right: DVector<f64>,
}

/// Sums of products of fixed columns with each other and with the energy, and of its squares.
pub(super) struct Sums {
    pub fixed: DMatrix<f64>,
    right: DVector<f64>,
    squares: f64,
}

/// Effects and their matrix. Variances of the run's readings are known up to a factor, sigma^2; those
/// of workers are known, because their windows were read by themselves.
pub(super) struct Equations {
    /// Of the run, for a factor of 1.
    pub run: Sums,
    /// Of workers.
    workers: Sums,
    pub blocks: Vec<Block>,
    /// Of the run.
    readings: f64,
    /// Least logarithm of the variance: readings are not taken for exact.
    pub least: f64,
}

/// What is left for the fixed effects once random ones are eliminated.
pub(super) struct Reduced {
    pub matrix: DMatrix<f64>,
    pub right: DVector<f64>,
    pub cholesky: Cholesky<f64, Dyn>,
    /// Logarithm of the determinant of all, and the sum of squares that random effects explain.
    pub determinant: f64,
    pub explained: f64,
}

/// A column a reading and its energy, in units of its error.
pub(super) fn scaled(rows: &[Row]) -> (DMatrix<f64>, DVector<f64>) {
    let size = rows.first().map_or(0, |row| row.fixed.len());
    let at = |i: usize, j: usize| rows[j].weight.sqrt() * rows[j].fixed[i];
    let energy = rows.iter().map(|row| row.weight.sqrt() * row.y);
    (DMatrix::from_fn(size, rows.len(), at), DVector::from_iterator(rows.len(), energy))
}

impl Sums {
    fn new(size: usize) -> Self {
        Self { fixed: DMatrix::zeros(size, size), right: DVector::zeros(size), squares: 0.0 }
    }

    /// Some at a time: a column a reading, in units of its error.
    fn add(&mut self, rows: &[Row]) {
        for part in rows.chunks(PART) {
            let (columns, energy) = scaled(part);
            self.fixed += &columns * columns.transpose();
            self.right += &columns * &energy;
            self.squares += energy.norm_squared();
        }
    }
}

impl Equations {
    pub(super) fn new(rows: &[Row], captures: &[Vec<usize>]) -> Self {
        let size = rows.first().map_or(0, |row| row.fixed.len());
        let mut blocks: BTreeMap<usize, Vec<&Row>> = BTreeMap::new();
        let mut of = Self {
            run: Sums::new(size),
            workers: Sums::new(size),
            blocks: Vec::new(),
            readings: 0.0,
            least: f64::NEG_INFINITY,
        };
        for part in rows.chunk_by(|a, b| a.random.is_some() == b.random.is_some()) {
            if part[0].random.is_some() {
                of.workers.add(part);
            } else {
                of.run.add(part);
                of.readings += part.len() as f64;
            }
            let random = part.iter().filter_map(|row| Some((row.random?.0, row)));
            random.for_each(|(kernel, row)| blocks.entry(kernel).or_default().push(row));
        }
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

    /// Logarithms of variances that the readings depend on: without workers the first alone.
    pub(super) fn axes(&self) -> usize {
        if self.blocks.is_empty() { 1 } else { 3 }
    }

    /// Henderson's equations for energies that scale the variances of effects; `None` where the
    /// readings do not determine the effects.
    pub(super) fn reduce(
        &self,
        logs: [f64; 3],
        energies: &[f64],
        beliefs: &Prior,
    ) -> Option<Reduced> {
        let [noise, tau, c] = logs;
        let unit = noise.exp();
        let mut matrix = &self.run.fixed / unit + &self.workers.fixed;
        let mut right = &self.run.right / unit + &self.workers.right;
        for (of, mean, variance) in beliefs.all.iter().filter(|belief| belief.2.is_finite()) {
            for (i, a) in of {
                right[*i] += a * mean / variance;
                of.iter().for_each(|(j, b)| matrix[(*i, *j)] += a * b / variance);
            }
        }
        let (mut determinant, mut explained) = (0.0, 0.0);
        for block in &self.blocks {
            let mut own = block.own.clone();
            let square = energies[block.kernel] * energies[block.kernel];
            for i in 0..own.nrows() {
                let variance = (if i == 0 { tau } else { c }).exp() * square;
                own[(i, i)] += 1.0 / variance;
                determinant += variance.ln();
            }
            let cholesky = own.cholesky()?;
            determinant += logarithm(&cholesky);
            let solved = cholesky.solve(&block.right);
            explained += block.right.dot(&solved);
            let turned = cholesky.solve(&block.across.transpose());
            let (less, off) = (&block.across * &turned, &block.across * &solved);
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
    pub(super) fn deviance(&self, logs: [f64; 3], energies: &[f64], beliefs: &Prior) -> f64 {
        if logs[0] < self.least {
            return f64::INFINITY;
        }
        let Some(of) = self.reduce(logs, energies, beliefs) else { return f64::INFINITY };
        let explained = of.explained + of.right.dot(&of.cholesky.solve(&of.right));
        let off = |log: f64, of: (f64, f64)| ((log / 2.0 - of.0.ln()) / of.1).powi(2);
        let squares = self.run.squares / logs[0].exp() + self.workers.squares - explained;
        of.determinant
            + self.readings * logs[0]
            + squares
            + off(logs[1], beliefs.workers)
            + off(logs[2], CAPTURES)
    }
}

/// What is known of columns beforehand: sums of them, with mean and variance.
pub(super) struct Prior {
    pub all: Vec<(Contrast, f64, f64)>,
    /// Columns.
    pub width: usize,
    /// Of tau: see [`Model::workers`].
    pub workers: (f64, f64),
}

impl Prior {
    /// Of a positive quantity of which the mean alone is known, as an exponential distribution's:
    /// so much for kernels. `most`: the largest power that there may be.
    pub(super) fn new(model: &Model<'_>, bent: &[(f64, Vec<f64>)], usual: f64, most: f64) -> Self {
        let states = model.levels.len();
        let levels = model.levels.iter().enumerate().map(|(state, known)| match known {
            // It is known as the rests were that showed it.
            Some((watts, sd)) => {
                let then = |(m, effect): (usize, &Effect)| {
                    let amount = effect.known.get(state).copied().unwrap_or(0.0);
                    (states + m, watts * amount)
                };
                let then = model.effects.iter().enumerate().map(then);
                let of = std::iter::once((state, 1.0)).chain(then.filter(|of| of.1 != 0.0));
                (of.collect(), *watts, sd.max(EXACT * most).powi(2))
            }
            None => (vec![(state, 1.0)], 0.0, (OPEN * most).powi(2)),
        });
        let shares = model.effects.iter().map(|effect| effect.belief);
        let shares = shares.chain(bent.iter().map(|of| (0.0, of.0)));
        let kernels = std::iter::repeat_n((usual, usual * model.spread), model.kernels);
        let others = shares.chain(kernels).zip(states..);
        let others = others.map(|((mean, sd), at)| (vec![(at, 1.0)], mean, sd * sd));
        let all: Vec<_> = levels.chain(others).collect();
        Self { width: all.len(), all, workers: model.workers }
    }
}

/// Standard deviation of what is exact, and of what is not known at all, over the largest power.
const EXACT: f64 = 1e-6;
const OPEN: f64 = 100.0;

pub(super) fn logarithm(of: &Cholesky<f64, Dyn>) -> f64 {
    of.l_dirty().diagonal().iter().map(|d| 2.0 * d.ln()).sum()
}
