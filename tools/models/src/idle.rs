//! Operating states while nothing runs: watts of each and how long it is held before the next. Owns
//! the energy of a gap; refuses to guess what a device does beyond the time it was watched.

use crate::figure::{Evidence, Figure};
use clscope_profile::interval::Interval;
use serde::{Deserialize, Serialize};

/// One state.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// Mean power.
    pub watts: Interval,
    /// Clock of the compute units, MHz, where it is known.
    pub clock_mhz: Option<f64>,
    /// How long it lasts after the state before it; null for the last, which was held until
    /// watching ended. ns.
    pub hold_ns: Option<f64>,
}

/// What a device does after work ends.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct States {
    /// In order of time from the last command on.
    pub states: Vec<State>,
    /// How long it was watched, ns.
    pub watched_ns: f64,
    /// Times it was watched.
    pub runs: u32,
}

impl State {
    /// How long it lasts, seconds; `None` for the last.
    pub fn held(&self) -> Option<f64> {
        self.hold_ns.map(|ns| ns * 1e-9)
    }
}

/// Value, lower and upper end.
const fn ends(of: &State) -> [f64; 3] {
    [of.watts.value, of.watts.low, of.watts.high]
}

impl States {
    /// Whether its numbers are such as measurements give.
    pub fn is_sound(&self) -> bool {
        let watts = |s: &State| {
            let Interval { value, low, high, .. } = s.watts;
            low.is_finite() && high.is_finite() && low <= value && value <= high
        };
        !self.states.is_empty()
            && self.watched_ns.is_finite()
            && self.states.iter().all(watts)
            && self.states.iter().filter_map(|s| s.hold_ns).all(|t| t.is_finite() && t >= 0.0)
    }

    /// Joules of a gap of so many seconds after work: each state's watts for as long as it is held
    /// (Piispanen 2014, chapter 5).
    pub fn joules(&self, seconds: f64) -> Figure {
        let (mut left, mut sum) = (seconds.max(0.0), [0.0; 3]);
        for state in &self.states {
            let here = state.held().map_or(left, |hold| hold.min(left));
            for (sum, watts) in sum.iter_mut().zip(ends(state)) {
                *sum += watts * here;
            }
            left -= here;
        }
        // Held longer than it was watched: the last state goes on.
        if let Some(last) = self.states.last().filter(|_| left > 0.0) {
            for (sum, watts) in sum.iter_mut().zip(ends(last)) {
                *sum += watts * left;
            }
        }
        Figure::new(sum[0], sum[1], sum[2], Evidence::Modelled)
    }

    /// Seconds without work until the device is in its last state; `None` where it has but one.
    pub fn until_lowest(&self) -> Option<f64> {
        (self.states.len() > 1).then(|| self.states.iter().filter_map(State::held).sum())
    }

    /// What joining gaps into one would save: their joules one by one, less those of one gap as
    /// long as all.
    pub fn saved_by_joining(&self, gaps: &[f64]) -> Figure {
        let joined = self.joules(gaps.iter().sum());
        let apart = gaps.iter().map(|g| self.joules(*g));
        let apart = apart.fold([0.0; 3], |s, f| [s[0] + f.value, s[1] + f.low, s[2] + f.high]);
        let saved = [apart[0] - joined.value, apart[1] - joined.low, apart[2] - joined.high]
            .map(|j| j.max(0.0));
        let low = saved.iter().copied().fold(f64::INFINITY, f64::min);
        let high = saved.iter().copied().fold(0.0, f64::max);
        Figure::new(saved[0], low, high, Evidence::Modelled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn state(watts: f64, held: Option<f64>) -> State {
        let hold_ns = held.map(|s| s * 1e9);
        State { watts: Interval::estimated(watts, watts, watts), clock_mhz: None, hold_ns }
    }

    /// Piispanen 2014: high for 10 s, middle for 5 s, then low.
    fn three() -> States {
        let states = vec![state(120.0, Some(10.0)), state(100.0, Some(5.0)), state(80.0, None)];
        States { states, watched_ns: 60e9, runs: 3 }
    }

    #[test]
    fn a_gap_costs_its_states() {
        let of = three();
        assert!(of.is_sound());
        for (seconds, joules) in [(0.0, 0.0), (4.0, 480.0), (12.0, 1400.0), (20.0, 2100.0)] {
            assert!((of.joules(seconds).value - joules).abs() < 1e-9, "{seconds}");
        }
        assert_eq!(of.until_lowest(), Some(15.0));
        // Five gaps of 4 s stay high: 2400 J; one of 20 s takes 2100 J.
        assert!((of.saved_by_joining(&[4.0; 5]).value - 300.0).abs() < 1e-9);
        let one = States { states: vec![state(80.0, None)], watched_ns: 60e9, runs: 1 };
        assert_eq!(one.until_lowest(), None);
        assert_eq!(one.saved_by_joining(&[1.0; 9]).value, 0.0);
    }

    proptest! {
        #[test]
        fn longer_gaps_never_take_less(a in 0.0f64..100.0, b in 0.0f64..100.0) {
            let of = three();
            prop_assert!(of.joules(a + b).value >= of.joules(a).value);
            prop_assert!(of.joules(a + b).value <= of.joules(a).value + of.joules(b).value + 1e-9);
        }
    }
}
