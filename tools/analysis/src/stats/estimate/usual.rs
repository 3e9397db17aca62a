//! Owns what usually passes on a queue beyond the typical lengths of its commands: launching one,
//! and a transfer's copy through the host's memory, which stamps leave out. Each class has its own,
//! so that a window with an upload in it is not one that hides a long launch. Refuses to judge
//! windows.

use super::windows::{Launch, Window, key};
use crate::ids::IdMap;
use crate::quantile::{DEVIATION, median};
use nalgebra::{DMatrix, DVector};

/// Most classes and geometries that are told apart; others have one time together.
const MOST_KINDS: usize = 24;
/// Windows for each time that is sought, at least.
const WINDOWS_EACH: usize = 4;
/// Rounds of weighting; the weights settle within a few.
const ROUNDS: usize = 8;
/// Residual from which on a window counts less, in standard deviations (Huber 1964, for 95 % of the
/// efficiency of least squares).
const HUBER: f64 = 1.345;

/// Time beyond the typical length of each class and geometry, nanoseconds.
#[derive(Debug, Clone, Default)]
pub struct Usual {
    each: IdMap<f64, u128>,
    others: f64,
}

impl Usual {
    /// By robust regression over windows in which the queue was never empty. `beyond` gives a
    /// window's time beyond typical launches; windows without are left out. `None` where they are
    /// too few to tell.
    pub fn fit<'w>(windows: impl Iterator<Item = (&'w Window, f64)>) -> Option<Self> {
        let windows: Vec<(&Window, f64)> = windows.filter(|(w, _)| commands(w) > 0.0).collect();
        let mut counts: IdMap<f64, u128> = IdMap::default();
        for (launch, n) in windows.iter().flat_map(|(w, _)| &w.counts) {
            *counts.entry(key(*launch)).or_default() += n;
        }
        let mut kinds: Vec<(u128, f64)> = counts.into_iter().collect();
        kinds.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let others = kinds.len() > MOST_KINDS;
        kinds.truncate(MOST_KINDS);
        let columns = kinds.len() + usize::from(others);
        if columns == 0 || windows.len() < WINDOWS_EACH * columns {
            return None;
        }
        let places: IdMap<usize, u128> =
            kinds.iter().enumerate().map(|(i, kind)| (kind.0, i)).collect();
        // A window's error grows as the root of its commands.
        let rows: Vec<(Vec<(usize, f64)>, f64)> = windows
            .iter()
            .map(|(w, beyond)| {
                let root = commands(w).sqrt();
                let place = |launch| places.get(&key(launch)).copied().unwrap_or(columns - 1);
                let mut of_kinds = vec![0.0; columns];
                for (launch, n) in &w.counts {
                    of_kinds[place(*launch)] += n / root;
                }
                let of_kinds = of_kinds.into_iter().enumerate().filter(|(_, n)| *n > 0.0);
                (of_kinds.collect(), beyond / root)
            })
            .collect();
        let all = median(windows.iter().map(|(w, beyond)| beyond / commands(w)))?;
        let mut times = DVector::from_element(columns, all);
        for _ in 0..ROUNDS {
            let off: Vec<f64> = rows.iter().map(|row| residual(row, &times)).collect();
            let noise = DEVIATION * median(off.iter().map(|r| r.abs()))?;
            let weight = |r: f64| (HUBER * noise / r.abs().max(f64::MIN_POSITIVE)).min(1.0);
            let mut matrix = DMatrix::<f64>::zeros(columns, columns);
            let mut right = DVector::<f64>::zeros(columns);
            for ((of_kinds, beyond), r) in rows.iter().zip(&off) {
                let weight = weight(*r).max(1e-6);
                for (i, a) in of_kinds {
                    right[*i] += weight * a * beyond;
                    of_kinds.iter().for_each(|(j, b)| matrix[(*i, *j)] += weight * a * b);
                }
            }
            // Classes that always come together share what they have, evenly.
            let pull = 1e-6 * matrix.trace() / columns as f64;
            for i in 0..columns {
                matrix[(i, i)] += pull;
                right[i] += pull * all;
            }
            times = matrix.cholesky()?.solve(&right);
        }
        let others = if others { times[columns - 1] } else { all };
        let each = kinds.iter().zip(times.iter()).map(|(kind, time)| (kind.0, *time)).collect();
        Some(Self { each, others })
    }

    /// Of all commands of a window.
    pub fn of_window(&self, window: &Window) -> f64 {
        let of = |launch: &Launch| self.each.get(&key(*launch)).copied().unwrap_or(self.others);
        window.counts.iter().map(|(launch, n)| n * of(launch)).sum()
    }
}

/// How many commands a window holds.
pub fn commands(window: &Window) -> f64 {
    window.counts.iter().map(|c| c.1).sum()
}

fn residual((of_kinds, beyond): &(Vec<(usize, f64)>, f64), times: &DVector<f64>) -> f64 {
    beyond - of_kinds.iter().map(|(i, a)| a * times[*i]).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(counts: &[(u64, f64)]) -> Window {
        let counts =
            counts.iter().map(|(class, n)| (Launch { class: *class, geometry: 0 }, *n)).collect();
        Window { counts, ..Window::default() }
    }

    #[test]
    fn each_class_has_its_own_in_spite_of_outliers() {
        // A transfer leaves 100 us, a launch 2 us; one window in eight hides a millisecond.
        let all: Vec<(Window, f64)> = (0..400u32)
            .map(|i| {
                let (launches, transfers) = (f64::from(i % 7), f64::from(i % 3));
                let hidden = if i % 8 == 0 { 1e6 } else { 0.0 };
                let noise = f64::from(i % 11) * 100.0;
                let of = window(&[(1, launches), (2, transfers)]);
                (of, 2_000.0 * launches + 100_000.0 * transfers + noise + hidden)
            })
            .collect();
        let usual = Usual::fit(all.iter().map(|(w, beyond)| (w, *beyond))).expect("enough windows");
        let of = |class| usual.of_window(&window(&[(class, 1.0)]));
        assert!((1_500.0..4_000.0).contains(&of(1)), "{}", of(1));
        assert!((99_000.0..103_000.0).contains(&of(2)), "{}", of(2));
    }

    #[test]
    fn what_always_comes_together_is_shared_and_few_windows_tell_nothing() {
        let all: Vec<(Window, f64)> =
            (0..100).map(|_| (window(&[(1, 1.0), (2, 1.0)]), 10_000.0)).collect();
        let usual = Usual::fit(all.iter().map(|(w, beyond)| (w, *beyond))).expect("enough windows");
        let together = usual.of_window(&all[0].0);
        assert!((together - 10_000.0).abs() < 1.0, "{together}");
        assert!(Usual::fit(all.iter().take(7).map(|(w, beyond)| (w, *beyond))).is_none());
    }
}
