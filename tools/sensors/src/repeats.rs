//! One counter that is shown twice, as a package's by each of its dies, be it from another start.
//! Owns the comparison of two counters by their rises alone; refuses to judge by names, by where they
//! began to count, or by power: two packages may draw alike, and never rise alike.
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
    last: Option<Pass>,
    /// How much higher the second counts, if they are one: at least and at most.
    ahead: (i128, i128),
    /// What it was when `equal` began to count.
    reference: i128,
    /// Rises that were equal since.
    equal: u32,
    /// Those of them that two counters show by chance, seldom.
    telling: u32,
}

/// What was read in one pass.
#[derive(Clone, Copy, Debug)]
struct Pass {
    first: u64,
    second: u64,
    /// How far the first rose in the last pass in which it did.
    rise: u64,
    /// Whether neither rose.
    is_still: bool,
}

impl Pair {
    /// Equal rises after which two counters with equal values are one. Two that draw the same power
    /// still count from different starts.
    const EQUAL: u32 = 8;
    /// The same of counters from different starts. Idle planes rise by a count or two: equal rises
    /// tell something only where each is another than the last, or comes in one pass after others
    /// without any.
    const TELLING: u32 = 20;
    /// Values are converted from a coarser unit, and rounded.
    const ROUNDING: i128 = 1;
    /// Nothing is known yet.
    const OPEN: (i128, i128) = (i128::MIN, i128::MAX);

    /// All pairs of counters of one plane.
    pub fn all(domains: &[Domain]) -> Vec<Pair> {
        let is_counter = |d: &Domain| matches!(d.quantity, Quantity::Energy { .. });
        let mut out = Vec::new();
        for (second, domain) in domains.iter().enumerate().filter(|(_, d)| is_counter(d)) {
            for (first, other) in domains.iter().enumerate().take(second) {
                if is_counter(other) && other.plane == domain.plane {
                    out.push(Pair::new(first, second));
                }
            }
        }
        out
    }

    fn new(first: usize, second: usize) -> Pair {
        let (last, ahead) = (None, Self::OPEN);
        Pair { first, second, last, ahead, reference: i128::MAX, equal: 0, telling: 0 }
    }

    /// Takes the values that were read in one pass. Of one counter the second value, less what it is
    /// ahead, lies between the first of this pass and the first of the next.
    pub fn compare(&mut self, first: u64, second: u64) -> Comparison {
        let pass = Pass { first, second, rise: 0, is_still: false };
        let apart = i128::from(second) - i128::from(first);
        let Some(last) = self.last.replace(pass) else {
            self.ahead.1 = apart;
            self.reference = apart;
            return Comparison::Open;
        };
        if first < last.first || second < last.second {
            // A wrap or a reset, which the other shows at the latest when it is read again: from
            // here on it is ahead by something else.
            self.ahead = (Self::OPEN.0, apart);
            self.reference = apart;
            return Comparison::Open;
        }
        let between = i128::from(last.second) - i128::from(first);
        self.ahead = (self.ahead.0.max(between), self.ahead.1.min(apart));
        if self.ahead.0 > self.ahead.1 + Self::ROUNDING {
            return Comparison::Differ;
        }
        let rise = first - last.first;
        let is_still = rise == 0 && second == last.second;
        self.last = Some(Pass { rise: if rise > 0 { rise } else { last.rise }, is_still, ..pass });
        if apart < self.reference - Self::ROUNDING {
            // The second rose behind the first: what was equal before was so by chance.
            (self.reference, self.equal, self.telling) = (apart, 0, 0);
        } else if rise > 0 && apart <= self.reference + Self::ROUNDING {
            let is_another = i128::from(rise.abs_diff(last.rise)) > Self::ROUNDING;
            self.equal += 1;
            self.telling += u32::from(is_another || last.is_still);
        }
        let is_one = self.telling >= Self::TELLING
            || self.equal >= Self::EQUAL && first == second && self.reference == 0;
        if is_one { Comparison::Same } else { Comparison::Open }
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
        let mut pair = Pair::new(0, 1);
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
        /// However a counter moves and whenever it is read, its copy is found to be one, from
        /// whatever start, and where either wraps meanwhile.
        #[test]
        fn a_counter_shown_twice_is_one(
            moments in prop::collection::vec(500u64..50_000, 400..500),
            step_us in 500u64..2_000, joules in 5u64..100_000, starts in (0u64..1 << 32, 0u64..1 << 32),
            is_alike in any::<bool>(), apart in 0u64..40,
        ) {
            let counter =
                |start: u64| move |at: u64| (start + at / step_us * joules) % (1 << 32);
            let other = if is_alike { starts.0 } else { starts.1 };
            let found = compared(&moments, apart, (counter(starts.0), counter(other)));
            prop_assert_eq!(found, Comparison::Same);
        }

        /// The same of values that are converted from counts of 61.035 uJ, and rounded.
        #[test]
        fn rounding_parts_no_counter(
            moments in prop::collection::vec(500u64..50_000, 400..500),
            counts in 2u64..10_000, starts in (0u64..1 << 26, 0u64..1 << 26),
        ) {
            let counter =
                |start: u64| move |at: u64| (start + at / 1000 * counts) * 61_035 / 1000;
            let found = compared(&moments, 5, (counter(starts.0), counter(starts.1)));
            prop_assert_eq!(found, Comparison::Same);
        }

        /// Two that draw the same power on average, and rise by other amounts or at other moments,
        /// are two: also idle ones, that rise by a count or none.
        #[test]
        fn two_that_draw_alike_are_two(
            moments in prop::collection::vec(500u64..5_000, 400..500),
            steps in prop::collection::vec((0u64..6, 0u64..6), 3000), unit in 2u64..100_000,
            most in 1u64..6, starts in (0u64..1 << 32, 0u64..1 << 32), is_alike in any::<bool>(),
        ) {
            let sums = |of: fn(&(u64, u64)) -> u64, start: u64| {
                let rise = |sum: &mut u64, step: &(u64, u64)| {
                    *sum += of(step) % (most + 1) * unit;
                    Some(*sum)
                };
                let values: Vec<u64> = steps.iter().scan(start, rise).collect();
                move |at: u64| values[(at / 1000).min(2999) as usize]
            };
            let other = if is_alike { starts.0 } else { starts.1 };
            let counters = (sums(|s| s.0, starts.0), sums(|s| s.1, other));
            prop_assert_ne!(compared(&moments, 10, counters), Comparison::Same);
        }

        /// Two that rise by the same amounts, one of them a little faster, are two.
        #[test]
        fn two_that_rise_at_other_moments_are_two(
            step_us in 3_000u64..200_000, faster in 1u64..20, unit in 2u64..100_000,
            starts in (0u64..1 << 32, 0u64..1 << 32),
        ) {
            // Read every millisecond for some minutes of theirs.
            let moments = vec![1000; 20_000];
            let counter = |start: u64, step: u64| move |at: u64| start + at / step * unit;
            let other = step_us - (step_us * faster / 100).max(1);
            let found = compared(&moments, 5, (counter(starts.0, step_us), counter(starts.1, other)));
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
