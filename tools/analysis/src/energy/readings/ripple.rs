//! Owns what of the variation of classes is their own. What repeats in proportion varies a little all
//! the same: a cycle beats with the sensor's period, and spans are off. That says more of the
//! response than of the classes: columns take it up. Refuses to move time from one class to another.

use crate::energy::activity::Activity;
use crate::energy::fit::design::Columns;
use crate::energy::fit::mixed::Reading;
use crate::energy::fit::solve::guarded_inverse;
use crate::energy::readings::response::{Response, exact};
use crate::energy::readings::sensor::Rows;
use nalgebra::DMatrix;

/// Variation of classes against each other, as a share of all time, of which half is taken for ripple.
/// (Simulated: mixes that never vary have less, and runs of 60 s with readings of 100 ms more.)
const RIPPLE: f64 = 0.015;
/// Parts of what readings say of a direction that are nothing, and all of it.
const LEAST_KEPT: f64 = 1e-4;
const ALL_KEPT: f64 = 0.999;
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
    /// Directions of classes' shares, each over the root of its mean: so what all do in proportion is
    /// their sum, divided by their means.
    directions: DMatrix<f64>,
    /// How much of what readings say of each direction is of classes.
    kept: Vec<f64>,
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
        let floors: Vec<usize> = (0..columns.states.columns).filter(|&s| fitted[s]).collect();
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
            let (shares, states) = (busy_time.row(i), columns.states.row(i));
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
        let found = DMatrix::from_fn(k, k, scaled).symmetric_eigen();
        let share = |square: &f64| {
            let of = (square.max(0.0).sqrt() / RIPPLE).powi(16).min(f64::MAX);
            of / (1.0 + of)
        };
        let kept = found.eigenvalues.iter().map(share).collect();
        Self { directions: found.eigenvectors, kept, floor_seen }
    }

    /// What readings of the run, so many seconds long each, would show if the sensor responded to each
    /// direction of ripple in a way of its own: columns, each with the standard deviation of its share
    /// for classes that draw 1 W, so that of what readings say of a direction so much is kept.
    pub(crate) fn ripple(&self, readings: &[Reading], lengths: &[f64]) -> Vec<(f64, Vec<f64>)> {
        let k = self.directions.nrows();
        let all: f64 = lengths.iter().sum();
        let mut mean = vec![0.0; k];
        readings.iter().flat_map(|r| &r.launches).for_each(|(k, n)| mean[*k] += n / all);
        let column = |(direction, kept): (usize, &f64)| {
            let of = |k: usize| self.directions[(k, direction)];
            let own: f64 = (0..k).map(|k| of(k) * of(k) * mean[k]).sum();
            let sd = (own * (1.0 - kept) / kept.max(LEAST_KEPT)).sqrt();
            let sum = |r: &Reading| -> f64 {
                r.launches.iter().map(|(k, n)| of(*k) * n * inverse(mean[*k]).sqrt()).sum()
            };
            (*kept < ALL_KEPT).then(|| (sd, readings.iter().map(sum).collect()))
        };
        self.kept.iter().enumerate().filter_map(column).collect()
    }
}

/// What scales a mean to 1; 0 of none.
fn inverse(mean: f64) -> f64 {
    if mean > 0.0 { 1.0 / mean } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::energy::activity::{Span, Timing};
    use crate::energy::readings::sensor::Series;
    use crate::energy::units::{ClassId, DeviceIndex, HostNs};
    use proptest::prelude::*;

    const LENGTH: f64 = 0.02;

    /// Parts of what readings of 20 ms say that are of classes, which run for these parts of them, and
    /// the columns of ripple.
    fn kept(shares: &[Vec<f64>]) -> (Vec<f64>, usize) {
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
        let readings: Vec<Reading> = shares.iter().map(reading).collect();
        let ripple = variation.ripple(&readings, &vec![LENGTH; shares.len()]);
        (variation.kept, ripple.len())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        /// Kernels in proportion, with ripple, behind a copy that runs before them: readings say what
        /// the copy and their sum are, and nothing else.
        #[test]
        fn of_what_ripples_the_sum_is_known(
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
            let (mut kept, columns) = kept(&before);
            kept.sort_by(f64::total_cmp);
            prop_assert_eq!(columns, k - 1);
            prop_assert!(kept[..k - 1].iter().all(|of| *of < 0.01), "{:?}", kept);
            prop_assert!(kept[k - 1..].iter().all(|of| *of > 0.99), "{:?}", kept);
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
            let (kept, columns) = kept(&before);
            prop_assert!(columns == 0 && kept.iter().all(|of| *of > 0.99), "{kept:?}");
        }
    }
}
