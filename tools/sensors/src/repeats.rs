//! One counter that is shown twice, as a package's by each of its dies. Owns the comparison of two
//! counters by their values alone; refuses to judge by names, or by power: two packages may draw
//! alike.
#![forbid(unsafe_code)]

use crate::source::{Domain, Quantity};

/// What the values of two counters say of them so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// They may be one.
    Open,
    /// They are one.
    Same,
    /// They are two.
    Differ,
}

/// Two counters of one plane, which are read one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    /// The one that is read first.
    pub first: usize,
    /// The other.
    pub second: usize,
    last: Option<(u64, u64)>,
    equal: u32,
}

impl Pair {
    /// Advances to equal values after which two counters are one. Two that draw the same power
    /// still count from different starts.
    const EQUAL: u32 = 8;

    /// All pairs of counters of one plane.
    pub fn all(domains: &[Domain]) -> Vec<Pair> {
        let is_counter = |d: &Domain| matches!(d.quantity, Quantity::Energy { .. });
        let mut out = Vec::new();
        for (second, domain) in domains.iter().enumerate().filter(|(_, d)| is_counter(d)) {
            for (first, other) in domains.iter().enumerate().take(second) {
                if is_counter(other) && other.plane == domain.plane {
                    out.push(Pair { first, second, last: None, equal: 0 });
                }
            }
        }
        out
    }

    /// Takes the values that were read in one pass. Of one counter the second value lies between
    /// the first of this pass and the first of the next.
    pub fn compare(&mut self, first: u64, second: u64) -> Comparison {
        match self.last.replace((first, second)) {
            // A wrap or a reset, which the other shows at the latest when it is read again.
            Some((before, between)) if first < before || second < between => Comparison::Open,
            Some((_, between)) if between > first || first > second => Comparison::Differ,
            Some((before, _)) => {
                self.equal += u32::from(first > before && first == second);
                if self.equal >= Self::EQUAL { Comparison::Same } else { Comparison::Open }
            }
            None if first > second => Comparison::Differ,
            None => Comparison::Open,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What is found in the end of two counters, by their values over time and the moments of the
    /// passes, between the two readings of which some time passes.
    fn compared(
        moments: &[u64],
        apart: u64,
        counters: (impl Fn(u64) -> u64, impl Fn(u64) -> u64),
    ) -> Comparison {
        let mut pair = Pair { first: 0, second: 1, last: None, equal: 0 };
        let mut at = 0;
        for wait in moments {
            at += wait;
            match pair.compare(counters.0(at), counters.1(at + apart)) {
                Comparison::Open => {}
                decided => return decided,
            }
        }
        Comparison::Open
    }

    proptest! {
        /// However a counter moves and whenever it is read, its copy is found to be one.
        #[test]
        fn a_counter_shown_twice_is_one(
            moments in prop::collection::vec(500u64..50_000, 200..300),
            step_us in 500u64..2_000, joules in 1u64..100_000, start in 0u64..1 << 32,
            apart in 0u64..40,
        ) {
            let counter = |at: u64| (start + at / step_us * joules) % (1 << 32);
            prop_assert_eq!(compared(&moments, apart, (counter, counter)), Comparison::Same);
        }

        /// Two that draw the same power all the time are two, and never taken for one.
        #[test]
        fn two_that_draw_alike_are_two(
            moments in prop::collection::vec(500u64..50_000, 200..300),
            step_us in 500u64..2_000, joules in 1u64..100_000,
            starts in (0u64..1 << 32, 0u64..1 << 32), apart in 0u64..40,
        ) {
            prop_assume!(starts.0 != starts.1);
            let counter = |start: u64| move |at: u64| start + at / step_us * joules;
            let found = compared(&moments, apart, (counter(starts.0), counter(starts.1)));
            prop_assert_ne!(found, Comparison::Same);
        }

        /// Two that draw differently are two, even from one start.
        #[test]
        fn two_that_draw_differently_are_two(
            moments in prop::collection::vec(5_000u64..50_000, 200..300),
            joules in (1u64..1000, 1u64..1000),
        ) {
            prop_assume!(joules.0 != joules.1);
            let counter = |joules: u64| move |at: u64| at / 1000 * joules;
            let found = compared(&moments, 1, (counter(joules.0), counter(joules.1)));
            prop_assert_eq!(found, Comparison::Differ);
        }
    }
}
