//! Owns which sums of classes are known where the classes themselves are not. Refuses to look at
//! readings: it takes estimates and their covariance.

use crate::energy::attribution::PRECISE;
use crate::quantile::student;
use nalgebra::DMatrix;

/// A set of classes, with its sum, the sum's variance, and its covariance with each class.
struct Sum {
    set: Vec<usize>,
    value: f64,
    variance: f64,
    with: Vec<f64>,
}

/// Half-width of the 95 % interval of a sum, as a share of it.
fn width(value: f64, variance: f64) -> f64 {
    if value > 0.0 {
        student(0.975, f64::INFINITY) * variance.max(0.0).sqrt() / value
    } else {
        f64::INFINITY
    }
}

impl Sum {
    fn new(first: usize, values: &[f64], covariance: &DMatrix<f64>) -> Self {
        Self {
            set: vec![first],
            value: values[first],
            variance: covariance[(first, first)],
            with: (0..values.len()).map(|k| covariance[(first, k)]).collect(),
        }
    }

    fn width(&self) -> f64 {
        width(self.value, self.variance)
    }

    /// Variance with a class more.
    fn variance_with(&self, k: usize, of: &DMatrix<f64>) -> f64 {
        self.variance + 2.0 * self.with[k] + of[(k, k)]
    }

    /// The width with a class more.
    fn width_with(&self, k: usize, values: &[f64], of: &DMatrix<f64>) -> f64 {
        width(self.value + values[k], self.variance_with(k, of))
    }

    fn take(&mut self, k: usize, values: &[f64], of: &DMatrix<f64>) {
        self.variance = self.variance_with(k, of);
        self.value += values[k];
        self.with.iter_mut().enumerate().for_each(|(other, sum)| *sum += of[(k, other)]);
        self.set.push(k);
    }
}

/// Sets of classes, no class in two of them, whose sums are known to a tenth. Each begins with the
/// largest of `open` that is in none yet and takes in whichever class narrows its sum most, until it
/// is known; what is left joins the sum that it narrows, and the others are one sum more, if that is
/// known to `widest`. Classes that are not `open` have figures of their own, and are taken in only
/// where errors cancel: the sum's is below half of theirs. `values` and `covariance`: of all classes.
pub(in crate::energy) fn known_sums(
    values: &[f64],
    covariance: &DMatrix<f64>,
    open: &[usize],
    widest: f64,
) -> Vec<Vec<usize>> {
    let mut open = open.to_vec();
    open.sort_by(|a, b| values[*b].total_cmp(&values[*a]));
    let mut taken = vec![false; values.len()];
    let (mut sums, mut left) = (Vec::<Sum>::new(), Vec::new());
    for &first in &open {
        if taken[first] {
            continue;
        }
        let mut sum = Sum::new(first, values, covariance);
        while sum.width() > PRECISE {
            let is_free = |k: &usize| {
                let cancels = || 4.0 * sum.variance_with(*k, covariance) < covariance[(*k, *k)];
                !taken[*k] && !sum.set.contains(k) && (open.contains(k) || cancels())
            };
            let best = (0..values.len())
                .filter(is_free)
                .map(|k| (k, sum.width_with(k, values, covariance)))
                .min_by(|a, b| a.1.total_cmp(&b.1));
            match best {
                Some((k, width)) if width < sum.width() => sum.take(k, values, covariance),
                _ => break,
            }
        }
        if sum.set.len() > 1 && sum.width() <= PRECISE {
            sum.set.iter().for_each(|k| taken[*k] = true);
            sums.push(sum);
        } else {
            left.push(first);
        }
    }
    left.retain(|k| !taken[*k]);
    // A class that joins may make room for another.
    while let Some((at, sum)) = left.iter().enumerate().find_map(|(at, k)| {
        let narrowed = |sum: &Sum| {
            let width = sum.width_with(*k, values, covariance);
            (width < sum.width()).then_some(width)
        };
        let best = sums.iter().enumerate().filter_map(|(i, sum)| Some((i, narrowed(sum)?)));
        best.min_by(|a, b| a.1.total_cmp(&b.1)).map(|best| (at, best.0))
    }) {
        sums[sum].take(left.remove(at), values, covariance);
    }
    if let [first, others @ ..] = &left[..]
        && !others.is_empty()
    {
        let mut rest = Sum::new(*first, values, covariance);
        others.iter().for_each(|k| rest.take(*k, values, covariance));
        sums.extend((rest.width() <= widest).then_some(rest));
    }
    let mut sets: Vec<Vec<usize>> = sums.into_iter().map(|sum| sum.set).collect();
    sets.iter_mut().for_each(|set| set.sort_unstable());
    sets
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Two that always ran together, and one by itself of which little is known.
    #[test]
    fn what_ran_together_is_known_as_a_sum() {
        let covariance =
            DMatrix::from_row_slice(3, 3, &[9.0, -8.9, 0.0, -8.9, 9.0, 0.0, 0.0, 0.0, 25.0]);
        assert_eq!(known_sums(&[10.0, 8.0, 9.0], &covariance, &[0, 1, 2], 0.5), vec![vec![0, 1]]);
        // One that has a figure of its own gives it up for a sum that is far better known alone.
        assert_eq!(known_sums(&[10.0, 8.0, 9.0], &covariance, &[0], 0.5), vec![vec![0, 1]]);
        assert!(known_sums(&[10.0, 8.0, 9.0], &covariance, &[2], 0.5).is_empty());
    }

    /// Two that are known to a third each, and together to a quarter: better than nothing.
    #[test]
    fn what_no_known_sum_takes_in_is_a_sum_of_its_own() {
        let covariance = DMatrix::from_row_slice(2, 2, &[3.0, 0.0, 0.0, 3.0]);
        assert_eq!(known_sums(&[10.0, 9.0], &covariance, &[0, 1], 0.5), vec![vec![0, 1]]);
        assert!(known_sums(&[10.0, 9.0], &covariance, &[0, 1], 0.2).is_empty());
    }

    proptest! {
        /// Sums that are looked for are known to a tenth, no class counts twice, and none is left
        /// alone that makes a sum better known.
        #[test]
        fn each_sum_is_known_and_no_class_is_left_out_of_it(
            values in prop::collection::vec(0.1f64..10.0, 1..7),
            roots in prop::collection::vec(-3.0f64..3.0, 36),
        ) {
            let n = values.len();
            let root = DMatrix::from_fn(n, n, |i, j| roots[6 * i + j]);
            let covariance = &root * root.transpose();
            let all: Vec<usize> = (0..n).collect();
            let sets = known_sums(&values, &covariance, &all, PRECISE);
            let width = |set: &[usize]| {
                let variance: f64 =
                    set.iter().flat_map(|i| set.iter().map(|j| covariance[(*i, *j)])).sum();
                1.959_964 * variance.max(0.0).sqrt() / set.iter().map(|k| values[*k]).sum::<f64>()
            };
            let mut seen: Vec<usize> = sets.concat();
            for set in &sets {
                prop_assert!(set.len() > 1 && width(set) <= PRECISE * 1.000_01);
                for k in all.iter().filter(|k| !seen.contains(k)) {
                    prop_assert!(width(&[&set[..], &[*k]].concat()) >= width(set) * 0.999_99);
                }
            }
            let all = seen.len();
            seen.sort_unstable();
            seen.dedup();
            prop_assert_eq!(seen.len(), all);
        }
    }
}
