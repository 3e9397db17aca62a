//! Owns what of the variation of classes is their own. What repeats in proportion varies a little all
//! the same: a cycle beats with the sensor's period, and spans are off. That says more of the
//! response than of the classes, and is taken out. Refuses to move time from one class to another.

use super::activity::Activity;
use super::design::Columns;
use super::mixed::Reading;
use super::response::{Response, exact};
use super::sensor::Rows;
use super::solve::guarded_inverse;
use nalgebra::DMatrix;

/// Variation of classes against each other, as a share of all time, of which half is taken for ripple.
/// (Simulated: mixes that never vary have less, and runs of 60 s with readings of 100 ms more.)
const RIPPLE: f64 = 0.015;
/// Rows over which variation must last to count, in runs long enough for it.
const LASTING_ROWS: usize = 15;
/// Idle time by which a floor must vary on its own, in whole rows. Classes that leave less hide it.
const LEAST_IDLE_ROWS: f64 = 0.05;

/// Running mean over `length` rows of a table of `width` columns, fewer at the ends.
pub(crate) fn running_mean(values: &mut [f64], width: usize, length: usize) {
    let n = values.len() / width.max(1);
    if length <= 1 {
        return;
    }
    let old = values.to_vec();
    let mut sum = vec![0.0; width];
    let (mut from, mut to) = (0, 0);
    for i in 0..n {
        while to < (i + length / 2 + 1).min(n) {
            sum.iter_mut().zip(&old[to * width..]).for_each(|(s, v)| *s += v);
            to += 1;
        }
        while from < i.saturating_sub(length / 2) {
            sum.iter_mut().zip(&old[from * width..]).for_each(|(s, v)| *s -= v);
            from += 1;
        }
        let count = (to - from) as f64;
        values[i * width..(i + 1) * width].iter_mut().zip(&sum).for_each(|(v, s)| *v = s / count);
    }
}

/// What the design alone says of the variation of classes and floors.
pub(crate) struct Variation {
    /// What is kept of classes' shares, each over the root of its mean: so what all do in proportion
    /// is their sum, divided by their means.
    kept: DMatrix<f64>,
    /// Per state: whether the rows show its floor, where it is to be fitted.
    pub floor_seen: Vec<bool>,
}

impl Variation {
    /// Of the `present` classes; `fitted` marks the states whose floors are to be fitted. Directions
    /// in which shares vary by s times [`RIPPLE`] of their sum keep s^16 / (1 + s^16) of it.
    pub(crate) fn new(
        activity: &Activity,
        columns: &Columns,
        rows: &Rows,
        fitted: &[bool],
        present: &[usize],
    ) -> Self {
        let floors: Vec<usize> = (0..columns.state_count).filter(|&s| fitted[s]).collect();
        let (k, n) = (present.len(), present.len() + floors.len());
        // Only variation of busy time itself counts, over windows without gaps, that outlasts several
        // rows: ripple is faster, or beats with the sensor's period.
        let mut windows = rows.rows.clone();
        let mut before = None;
        for row in &mut windows {
            if row.from == row.to {
                row.from = before.filter(|_| row.joined).unwrap_or(row.to - rows.period);
            }
            before = Some(row.to);
        }
        let busy_time = exact(
            &activity.segments,
            activity.classes(),
            &windows,
            &Response::default(),
            activity.uncertain,
        );
        let count = rows.rows.len();
        let lasting = (count / (4 * n)).clamp(1, LASTING_ROWS);
        let mut table = Vec::with_capacity(count * n);
        let (mut mean, mut unsure) = (vec![0.0; n], vec![0.0; k]);
        for i in 0..count {
            let (shares, states) = (busy_time.row(i), columns.state_row(i));
            // Idle share of a state instead of its whole share: a class that runs all the time is
            // then no copy of the floor.
            let busy: f64 = shares.iter().sum::<f64>().min(1.0);
            table.extend(present.iter().map(|&class| shares[class]));
            table.extend(floors.iter().map(|&state| states[state] * (1.0 - busy)));
            mean.iter_mut().zip(&table[i * n..]).for_each(|(sum, share)| *sum += share);
            if let Some(variance) = busy_time.variance_row(i) {
                let of = present.iter().map(|&class| variance[class] / lasting as f64);
                unsure.iter_mut().zip(of).for_each(|(sum, variance)| *sum += variance);
            }
        }
        running_mean(&mut table, n, lasting);
        // At the ends the mean is of few rows, and of cycles that were cut.
        let whole = count.saturating_sub(lasting / 2 * 2);
        let table = &table[lasting / 2 * n..(lasting / 2 + whole) * n];
        let lines = DMatrix::from_row_slice(whole, n, table);
        let mut gram = lines.transpose() * &lines;
        unsure.iter().enumerate().for_each(|(r, variance)| gram[(r, r)] -= variance);
        let own = guarded_inverse(&gram);
        let mut floor_seen: Vec<bool> = fitted.iter().map(|fitted| !fitted).collect();
        for (at, &state) in (k..).zip(&floors) {
            floor_seen[state] = gram[(at, at)] > 0.0 && own[(at, at)].recip() >= LEAST_IDLE_ROWS;
        }
        let scale: Vec<f64> = mean.iter().map(|sum| inverse(*sum).sqrt()).collect();
        let all = inverse(mean[..k].iter().sum::<f64>());
        let of_all = count as f64 * count as f64 / whole as f64 * all;
        let scaled = |r: usize, c: usize| gram[(r, c)] * scale[r] * scale[c] * of_all;
        let mut directions = DMatrix::from_fn(k, k, scaled).symmetric_eigen();
        directions.eigenvalues.iter_mut().for_each(|square| {
            let of = (square.max(0.0).sqrt() / RIPPLE).powi(16).min(f64::MAX);
            *square = of / (1.0 + of);
        });
        Self { kept: directions.recompose(), floor_seen }
    }

    /// Takes ripple out of readings of the run, so many seconds long each. Where a class did not run
    /// it does not run then either.
    pub(crate) fn without_ripple(&self, readings: &mut [Reading], lengths: &[f64]) {
        let k = self.kept.nrows();
        let all: f64 = lengths.iter().sum();
        let mut mean = vec![0.0; k];
        readings.iter().flat_map(|r| &r.launches).for_each(|(k, n)| mean[*k] += n / all);
        let scale: Vec<f64> = mean.iter().map(|share| share.sqrt()).collect();
        let mut shares = DMatrix::zeros(readings.len(), k);
        for (i, (reading, length)) in readings.iter().zip(lengths).enumerate() {
            reading
                .launches
                .iter()
                .for_each(|(k, n)| shares[(i, *k)] = n / length * inverse(scale[*k]));
        }
        let shares = shares * &self.kept;
        for (i, (reading, length)) in readings.iter_mut().zip(lengths).enumerate() {
            for (k, n) in &mut reading.launches {
                *n = (length * scale[*k] * shares[(i, *k)]).max(0.0);
            }
        }
    }
}

/// What scales a mean to 1; 0 of none.
fn inverse(mean: f64) -> f64 {
    if mean > 0.0 { 1.0 / mean } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::super::activity::{Span, Timing};
    use super::super::sensor::Series;
    use super::super::units::{ClassId, DeviceIndex, HostNs};
    use super::*;
    use proptest::prelude::*;

    const LENGTH: f64 = 0.02;

    /// Readings of 20 ms in which classes run for these parts, before and after ripple is taken out.
    fn taken_out(shares: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let k = shares[0].len();
        let mut spans = Vec::new();
        for (i, row) in shares.iter().enumerate() {
            let mut at = i as f64 * LENGTH;
            for (class, share) in row.iter().enumerate().filter(|(_, share)| **share > 0.0) {
                let end = at + share * LENGTH;
                let ns = |s: f64| HostNs((s * 1e9).round() as i64);
                spans.push(Span {
                    class: ClassId(class as u32),
                    device: DeviceIndex(0),
                    start: ns(at),
                    end: ns(end),
                    timing: Timing::Timed,
                });
                at = end;
            }
        }
        let points =
            (0..=shares.len()).map(|i| (HostNs((i as f64 * LENGTH * 1e9) as i64), i as f64));
        let series = Series::Cumulative(points.collect());
        let activity = Activity::new(&spans, k);
        let rows = Rows::new(&series, activity.origin);
        let columns = Columns::new(&activity, &rows, &[], 1, &Response::default());
        let present: Vec<usize> = (0..k).collect();
        let variation = Variation::new(&activity, &columns, &rows, &[false], &present);
        let reading = |row: &Vec<f64>| Reading {
            energy: 0.0,
            idle: vec![(0, LENGTH)],
            launches: (0..k).map(|k| (k, LENGTH * row[k])).filter(|of| of.1 > 0.0).collect(),
            unsure: Vec::new(),
            capture: None,
            variance: 1.0,
            follows: true,
        };
        let mut readings: Vec<Reading> = shares.iter().map(reading).collect();
        variation.without_ripple(&mut readings, &vec![LENGTH; shares.len()]);
        let mut out = vec![vec![0.0; k]; shares.len()];
        for (row, reading) in out.iter_mut().zip(&readings) {
            reading.launches.iter().for_each(|(k, n)| row[*k] = n / LENGTH);
        }
        out
    }

    fn total(of: &[Vec<f64>], class: usize) -> f64 {
        of.iter().map(|row| row[class]).sum()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        /// Kernels in proportion, with ripple, behind a copy that runs before them: they get their
        /// proportion, nobody gets the time of another, and nobody runs where it did not.
        #[test]
        fn ripple_goes_and_time_stays_with_its_class(
            parts in prop::collection::vec(0.05f64..0.25, 2..4),
            ripple in prop::collection::vec(-0.004f64..0.004, 1200),
            copies in 1usize..6,
            on in prop::collection::vec(0.5f64..1.0, 400),
        ) {
            let k = parts.len();
            let row = |i: usize| -> Vec<f64> {
                if i < 10 {
                    let copy = if i < copies { 0.4 } else { 0.0 };
                    return std::iter::once(copy).chain(vec![0.0; k]).collect();
                }
                let part = |j: usize| parts[j] * on[i] * (1.0 + ripple[(3 * i + j) % 1200]);
                std::iter::once(0.0).chain((0..k).map(part)).collect()
            };
            let before: Vec<Vec<f64>> = (0..400).map(row).collect();
            let after = taken_out(&before);
            for class in 0..=k {
                let (was, is) = (total(&before, class), total(&after, class));
                prop_assert!((is / was - 1.0).abs() < 0.01, "class {class}: {was} {is}");
                for (old, new) in before.iter().zip(&after) {
                    prop_assert!(old[class] > 0.0 || new[class] == 0.0);
                    let off = (new[class] - old[class]).abs();
                    prop_assert!(off < 0.02 * old[class].max(0.1), "{} {}", old[class], new[class]);
                }
            }
            for row in &after[20..] {
                let ratio = row[2] / row[1] * total(&after, 1) / total(&after, 2);
                prop_assert!((ratio - 1.0).abs() < 1e-3, "{ratio}");
            }
        }

        /// What varies by a tenth on its own is left as it is.
        #[test]
        fn what_varies_is_left_as_it_is(
            levels in prop::collection::vec((0.1f64..0.4, 0.1f64..0.4), 12..20),
        ) {
            let spread = levels.iter().map(|(a, b)| (a / b).ln()).fold((9.0f64, -9.0f64), |(l, h), r| {
                (l.min(r), h.max(r))
            });
            prop_assume!(spread.1 - spread.0 > 0.5);
            let before: Vec<Vec<f64>> =
                levels.iter().flat_map(|(a, b)| vec![vec![*a, *b]; 40]).collect();
            let after = taken_out(&before);
            for (old, new) in before.iter().zip(&after) {
                for class in 0..2 {
                    prop_assert!((new[class] - old[class]).abs() < 1e-3, "{old:?} {new:?}");
                }
            }
        }
    }
}
