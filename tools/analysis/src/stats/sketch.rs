//! Owns distributions of durations in bounded memory: count, total, least and most exact,
//! percentiles by a sketch whose relative error is at most [`RELATIVE_ERROR`]. Two of them merge
//! into what one over all values would be.
//!
//! The sketch counts values in bins of constant relative width: 128 to each power of two, so that a
//! bin is found from the bits of the number alone (as HDR histograms do; DDSketch, Masson et al.
//! 2019, gives the same guarantee with logarithms).

/// Bits of precision below the leading one.
const BITS: u32 = 7;
/// Bound of a percentile's relative error: half a bin.
pub const RELATIVE_ERROR: f64 = 0.5 / (1u32 << BITS) as f64;

/// Something of each bin, from the first that is in use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Bins<T> {
    /// Number of the first bin held.
    pub(super) first: usize,
    pub(super) values: Vec<T>,
}

impl<T: Copy + Default> Bins<T> {
    pub(super) fn slot(&mut self, bin: usize) -> &mut T {
        if self.values.is_empty() {
            self.first = bin;
        } else if bin < self.first {
            let more = self.first - bin;
            self.values.splice(0..0, std::iter::repeat_n(T::default(), more));
            self.first = bin;
        }
        let index = bin - self.first;
        if index >= self.values.len() {
            self.values.resize(index + 1, T::default());
        }
        &mut self.values[index]
    }

    /// All of them, by the number of their bin.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, T)> + '_ {
        (self.first..).zip(self.values.iter().copied())
    }
}

/// A distribution of numbers, nanoseconds most often.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Distribution {
    count: u64,
    total: u128,
    min: u64,
    max: u64,
    bins: Bins<u64>,
}

/// Values below 2^(BITS+1) have a bin each.
#[inline]
pub(super) fn bin(value: u64) -> usize {
    let exponent = (u64::BITS - value.leading_zeros()).saturating_sub(BITS + 1);
    ((u64::from(exponent) << BITS) + (value >> exponent)) as usize
}

/// Middle of a bin.
pub(super) fn middle(bin: usize) -> f64 {
    let exponent = (bin >> BITS).saturating_sub(1) as u32;
    let lead = (bin - ((exponent as usize) << BITS)) as f64;
    let width = (1u64 << exponent) as f64;
    lead * width + (width - 1.0) / 2.0
}

impl Distribution {
    /// Adds a value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        if self.count == 0 {
            (self.min, self.max) = (value, value);
        }
        self.count += 1;
        self.total += u128::from(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        *self.bins.slot(bin(value)) += 1;
    }

    /// Adds values of which only their number, sum, least and most are known. Percentiles take
    /// those between for their mean.
    pub fn add_summary(&mut self, count: u64, total: u64, least: u64, most: u64) {
        // What a summary of hostile numbers says of its mean is kept within its bounds.
        let (least, most) = (least.min(most), most.max(least));
        match count {
            0 => {}
            1 => self.add(total),
            _ => {
                self.add(least);
                self.add(most);
                let between =
                    u128::from(total).saturating_sub(u128::from(least) + u128::from(most));
                self.count += count - 2;
                self.total += between;
                if let Some(mean) = between.checked_div(u128::from(count - 2)) {
                    *self.bins.slot(bin((mean as u64).clamp(least, most))) += count - 2;
                }
            }
        }
    }

    /// Adds all values of another.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        (self.min, self.max) = if self.count == 0 {
            (other.min, other.max)
        } else {
            (self.min.min(other.min), self.max.max(other.max))
        };
        self.count += other.count;
        self.total += other.total;
        for (bin, n) in other.bins() {
            *self.bins.slot(bin) += n;
        }
    }

    /// Bins that hold values, and how many.
    pub(super) fn bins(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.bins.iter().filter(|(_, n)| *n > 0)
    }

    /// How many values are above a bound, and about what they sum up to.
    pub fn above(&self, bound: f64) -> (u64, f64) {
        let over = self.bins().filter(|(bin, _)| middle(*bin) > bound);
        over.fold((0, 0.0), |(n, sum), (bin, more)| (n + more, sum + more as f64 * middle(bin)))
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their sum.
    pub fn total(&self) -> u128 {
        self.total
    }

    /// The least, if there is any.
    pub fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }

    /// The most, if there is any.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// The mean, if there is any.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.total as f64 / self.count as f64)
    }

    /// The value below or at which a share `q` (0 to 1) of the values lies (nearest rank), within
    /// [`RELATIVE_ERROR`].
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let rank =
            ((q.clamp(0.0, 1.0) * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        if self.count == 0 {
            return None;
        }
        let mut seen = 0;
        for (bin, n) in self.bins.iter() {
            seen += n;
            if seen >= rank {
                return Some(middle(bin).clamp(self.min as f64, self.max as f64));
            }
        }
        Some(self.max as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn quantiles_are_within_the_stated_error_and_merging_changes_nothing(
            values in prop::collection::vec(prop_oneof![0u64..300, 0u64..1 << 40, any::<u64>()], 1..200),
            q in 0.0f64..=1.0,
            cut in 0usize..200,
        ) {
            let mut all = Distribution::default();
            let (mut a, mut b) = (Distribution::default(), Distribution::default());
            for (i, v) in values.iter().enumerate() {
                all.add(*v);
                if i < cut { a.add(*v) } else { b.add(*v) }
            }
            a.merge(&b);
            prop_assert_eq!((a.count, a.total, a.min, a.max), (all.count, all.total, all.min, all.max));
            prop_assert_eq!(a.quantile(q), all.quantile(q));
            let mut sorted = values.clone();
            sorted.sort_unstable();
            let rank = ((q * values.len() as f64).ceil() as usize).max(1);
            let truth = sorted[rank - 1] as f64;
            let got = all.quantile(q).expect("values");
            prop_assert!((got - truth).abs() <= truth * RELATIVE_ERROR + 1e-9, "{} for {}", got, truth);
            prop_assert_eq!(all.total, values.iter().map(|v| u128::from(*v)).sum::<u128>());
        }
    }

    #[test]
    fn a_summary_counts_all_its_values() {
        let mut d = Distribution::default();
        d.add(100);
        d.add_summary(1000, 50_000, 10, 400);
        assert_eq!((d.count(), d.total(), d.min(), d.max()), (1001, 50_100, Some(10), Some(400)));
        let median = d.quantile(0.5).unwrap();
        assert!((median - 49.7).abs() < 1.0, "{median}");
        d.add_summary(1, 7, 7, 7);
        d.add_summary(0, 0, 0, 0);
        d.add_summary(2, 20, 5, 15);
        assert_eq!((d.count(), d.total(), d.min()), (1004, 50_127, Some(5)));
        // Numbers that cannot be true.
        d.add_summary(3, 0, 9, 2);
        assert_eq!(d.count(), 1007);
    }

    #[test]
    fn nothing_has_no_figures() {
        let d = Distribution::default();
        assert_eq!((d.min(), d.max(), d.mean(), d.quantile(0.5)), (None, None, None, None));
    }
}
