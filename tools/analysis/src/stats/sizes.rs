//! Owns the sizes that each kernel was launched with, and how long launches of each took. Refuses
//! to keep more than a few sizes of one kernel: of more it says so.

use super::sketch::Distribution;

/// Sizes of one kernel that are kept.
const MOST: usize = 8;

/// Launches of one size.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OfSize {
    /// Geometry, as the process's definitions number it.
    pub geometry: u32,
    /// Launches, timed or not.
    pub launches: u64,
    /// Of them those that never ran.
    pub failed: u64,
    /// Of the timed ones.
    pub time: Distribution,
}

/// The sizes of one kernel of a process.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sizes {
    /// In the order in which they came.
    pub sizes: Vec<OfSize>,
    /// Whether there were more.
    pub is_cut: bool,
}

impl Sizes {
    pub(super) fn add(&mut self, geometry: u32, ns: Option<u64>, failed: bool) {
        let at = match self.sizes.iter().position(|of| of.geometry == geometry) {
            Some(at) => at,
            None if self.sizes.len() < MOST => {
                self.sizes.push(OfSize { geometry, ..OfSize::default() });
                self.sizes.len() - 1
            }
            None => {
                self.is_cut = true;
                return;
            }
        };
        let of = &mut self.sizes[at];
        of.launches += 1;
        of.failed += u64::from(failed);
        ns.into_iter().for_each(|ns| of.time.add(ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_kept_apart_and_bounded() {
        let mut sizes = Sizes::default();
        (0..100).for_each(|i| sizes.add(1 + i % 2, (i % 2 == 0).then_some(5), false));
        let kept: Vec<_> =
            sizes.sizes.iter().map(|s| (s.geometry, s.launches, s.time.total())).collect();
        assert_eq!((kept, sizes.is_cut), (vec![(1, 50, 250), (2, 50, 0)], false));
        (0..100).for_each(|i| sizes.add(i, None, false));
        assert_eq!((sizes.sizes.len(), sizes.is_cut), (MOST, true));
    }
}
