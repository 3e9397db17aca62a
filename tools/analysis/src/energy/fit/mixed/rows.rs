//! Owns readings as rows of columns, what neighbours have in common, and the variances of their
//! errors. Refuses to solve anything.

use super::{Errors, LEAST_ERROR, MOST_CORRELATED, Model, Reading, SCORING, SURE};

/// A reading as columns: fixed ones, and how often its kernel's random effects are in it.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub y: f64,
    pub weight: f64,
    pub fixed: Vec<f64>,
    /// Of a worker: the kernel, which of its captures, and launches.
    pub random: Option<(usize, usize, f64)>,
    /// Whether the filter goes on from the row before.
    pub follows: bool,
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

    fn scale(&mut self, factor: f64) {
        self.y *= factor;
        self.fixed.iter_mut().for_each(|a| *a *= factor);
        if let Some(own) = &mut self.random {
            own.2 *= factor;
        }
    }
}

impl super::Fit {
    /// By how much a column is higher by a reading's residual: its weight times it. Were the reading
    /// what the fit makes of it, the column would be that much lower.
    pub fn pull(&self, reading: usize, column: usize) -> f64 {
        let (row, of) = (&self.rows[reading], &self.points[self.mode].covariance);
        let unit = if row.random.is_some() { 1.0 } else { self.logarithms[0].exp() };
        let weight = row.weight / unit;
        let gain: f64 = row.fixed.iter().enumerate().map(|(at, a)| of[(column, at)] * a).sum();
        weight * gain * self.left[reading]
    }

    /// What the fit makes of a reading, in its joules, where its launches are like all of the run's:
    /// without what is particular to a capture.
    pub fn predicted(&self, reading: usize) -> f64 {
        let effects = self.points[self.mode].effects.iter();
        self.rows[reading].fixed.iter().zip(effects).map(|(times, effect)| times * effect).sum()
    }
}

/// Powers that shares are of.
#[derive(Debug, Clone)]
pub(super) struct Powers {
    /// Of idle states.
    pub levels: Vec<f64>,
    /// Of kernels.
    pub kernels: Vec<f64>,
    /// What a sensor that responds otherwise would read of them.
    pub bent: Vec<(f64, Vec<f64>)>,
}

/// Rows of readings with these variances; `powers`: those that shares are of, once they are known.
pub(super) fn rows(
    model: &Model<'_>,
    readings: &[Reading],
    variances: &[f64],
    captures: &[Vec<usize>],
    powers: Option<&Powers>,
) -> Vec<Row> {
    let mut before: Option<Option<usize>> = None;
    let states = model.levels.len();
    let bent = powers.map_or(0, |p| p.bent.len());
    let common = states + model.effects.len() + bent;
    let row = |(j, (reading, variance)): (usize, (&Reading, &f64))| {
        let mut fixed = vec![0.0; common + model.kernels];
        for (state, seconds) in &reading.idle {
            fixed[*state] += seconds;
        }
        for (kernel, n) in &reading.launches {
            fixed[common + kernel] += n;
        }
        if let Some(powers) = powers {
            let idle: f64 =
                reading.idle.iter().map(|(s, seconds)| seconds * powers.levels[*s]).sum();
            let above: f64 = reading.launches.iter().map(|(k, n)| n * powers.kernels[*k]).sum();
            for (slot, effect) in fixed[states..].iter_mut().zip(model.effects) {
                *slot = idle * effect.idle[j] + above * effect.launches[j];
            }
            for (slot, (_, column)) in
                fixed[states + model.effects.len()..].iter_mut().zip(&powers.bent)
            {
                *slot = column.get(j).copied().unwrap_or(0.0);
            }
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
    readings.iter().zip(variances).enumerate().map(row).collect()
}

/// Readings without what neighbours of a counter have too much and too little: that passes slow
/// variation and damps fast, so that an error in the response is never amplified. The opposite, for
/// polled power of which what is off lasts, would amplify it: its readings are averaged with some
/// before, and what lasts is in the intervals ([`super::slow`]).
pub(super) fn filtered(rows: &[Row], errors: Errors, correlation: f64) -> Vec<Row> {
    let mut out = rows.to_vec();
    match errors {
        Errors::Counter => {
            // Rows are compared in units of their errors.
            let unit = |before: &Row, row: &Row| (before.weight / row.weight).sqrt();
            for i in 1..out.len() {
                let (done, rest) = out.split_at_mut(i);
                let (before, row) = (&done[i - 1], &mut rest[0]);
                if row.follows {
                    row.add(before, correlation * unit(before, row));
                }
            }
        }
        Errors::Polled { averaged } => {
            let mut chain = 0;
            for (i, row) in out.iter_mut().enumerate() {
                chain = if rows[i].follows { chain + 1 } else { 0 };
                let before = chain.min(averaged.saturating_sub(1));
                rows[i - before..i].iter().for_each(|other| row.add(other, 1.0));
                row.scale(1.0 / (before + 1) as f64);
            }
        }
    }
    out
}

/// The parameter of the filter that fits what a first fit leaves.
pub(super) fn correlation(rows: &[Row], errors: Errors, left: &[f64]) -> f64 {
    if errors != Errors::Counter {
        return 0.0;
    }
    let scaled: Vec<f64> = rows.iter().zip(left).map(|(r, e)| e * r.weight.sqrt()).collect();
    let (mut product, mut power) = (0.0, 0.0);
    // Effects of captures take up what lasts as long as their few windows.
    let is_of_run = |i: &usize| rows[*i].follows && rows[*i].random.is_none();
    for i in (1..rows.len()).filter(is_of_run) {
        product += scaled[i] * scaled[i - 1];
        power += (scaled[i] * scaled[i] + scaled[i - 1] * scaled[i - 1]) / 2.0;
    }
    let r = if power > 0.0 { product / power } else { 0.0 };
    // The invertible root of r = -theta / (1 + theta^2).
    if r < 0.0 {
        let r = r.max(-0.4999);
        ((1.0 - (1.0 - 4.0 * r * r).sqrt()) / (-2.0 * r)).min(MOST_CORRELATED)
    } else {
        0.0
    }
}

/// Variances of the run's readings from what a fit leaves of them: a part in proportion to the given
/// ones, and one to the square of what kernels drew, of which sensors see a part of each period and
/// edges late. By pseudo-likelihood (Carroll, Ruppert: *Transformation and Weighting in Regression*,
/// 1988, ch. 3): squares regressed on both, weighted by their own variances. Of workers as given.
pub(super) fn variances(
    readings: &[Reading],
    left: &[f64],
    energies: &[f64],
    before: &[f64],
) -> Vec<f64> {
    let load = |reading: &Reading| {
        reading.launches.iter().map(|(kernel, n)| n * energies[*kernel]).sum::<f64>().powi(2)
    };
    // Launches that were not timed lie where they are expected (Berkson's error).
    let unsure = |reading: &Reading| -> f64 {
        reading.unsure.iter().map(|(k, variance)| variance * energies[*k].powi(2)).sum()
    };
    let of_run: Vec<(usize, f64, f64)> = readings
        .iter()
        .enumerate()
        .filter(|(_, reading)| reading.capture.is_none() && !reading.idle.is_empty())
        .map(|(i, reading)| (i, reading.variance, load(reading)))
        .collect();
    let mut out = before.to_vec();
    for _ in 0..SCORING {
        let (mut aa, mut ab, mut bb, mut ya, mut yb) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for &(i, a, b) in &of_run {
            let square = (left[i] * left[i] - unsure(&readings[i])).max(0.0);
            let weight = out[i].powi(-2);
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
            let least = SURE * readings[i].energy * readings[i].energy;
            let found = (a * own + b * load + unsure(&readings[i])).max(least);
            // Of what is 0 throughout nothing is known of errors.
            out[i] = if found > 0.0 { found } else { out[i] };
        }
    }
    out
}
