//! How soon the same pieces of global memory are touched again, and which share of the touches a
//! cache of some size therefore misses. Owns the histogram and the model of the cache; refuses to
//! know where it was counted.
//!
//! A cache that drops what was used least recently keeps a piece for T touches of others, where T is
//! such that so many touches bring in as many pieces as the cache holds. With P(t) the share of
//! touches whose piece was not touched among the t before:
//!
//! ```text
//! capacity = integral of P(t) dt from 0 to T        misses = P(T)
//! ```
//!
//! Source: X. Hu et al., *Kinetic Modeling of Data Eviction in Cache*, USENIX ATC 2016, equation 4.

use serde::{Deserialize, Serialize};

/// Powers of two that are counted apart.
pub const POWERS: usize = 32;

/// Touches of pieces of [`SECTOR`](crate::SECTOR) bytes, by how many touches of others lie between
/// one and the next of the same piece. A sample: shares mean something, and counts do not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Histogram {
    /// First touches of a piece in the launch.
    pub first: u64,
    /// Later ones: at n those with 2^n to 2^(n+1) touches since the one before.
    pub again: Vec<u64>,
}

impl Histogram {
    /// All touches.
    pub fn total(&self) -> u64 {
        self.again.iter().fold(self.first, |all, n| all.saturating_add(*n))
    }

    /// With as many touches as a sample of all would have: the difference is in how often the pieces
    /// that were chosen are touched at once again, as where many warps read one word.
    pub(crate) fn adjusted(mut self, expected: u64) -> Self {
        let total = self.total();
        if let Some(at) = self.again.iter().position(|n| *n > 0).or(self.again.len().checked_sub(1))
        {
            let mut less = total.saturating_sub(expected);
            for n in &mut self.again {
                let taken = less.min(*n);
                (*n, less) = (*n - taken, less - taken);
            }
            self.again[at] += expected.saturating_sub(total);
        } else if expected > total {
            self.again.push(expected - total);
        }
        self
    }

    /// Adds what another launch showed.
    pub fn add(&mut self, other: &Self) {
        self.first = self.first.saturating_add(other.first);
        self.again.resize(self.again.len().max(other.again.len()), 0);
        for (sum, more) in self.again.iter_mut().zip(&other.again) {
            *sum = sum.saturating_add(*more);
        }
    }

    /// Share of touches, first ones with them, that a cache of so many pieces misses; `None` where
    /// too few were seen.
    pub fn missed(&self, pieces: f64) -> Option<f64> {
        let total = self.total();
        if total < ENOUGH {
            return None;
        }
        // Touches that come later than t; all do at t = 0.
        let (mut from, mut left, mut held) = (0.0f64, total as f64, 0.0f64);
        for (power, n) in (0i32..).zip(&self.again) {
            let (to, after) = (2f64.powi(power + 1), left - *n as f64);
            // Between two powers the share falls evenly.
            let (width, fall) = (to - from, *n as f64);
            let brings = |x: f64| (left * x - fall * x * x / (2.0 * width)) / total as f64;
            if held + brings(width) >= pieces {
                let (mut low, mut high) = (0.0, width);
                for _ in 0..60 {
                    let x = f64::midpoint(low, high);
                    if held + brings(x) < pieces { low = x } else { high = x }
                }
                return Some((left - fall * low / width) / total as f64);
            }
            held += brings(width);
            (from, left) = (to, after);
        }
        Some(self.first as f64 / total as f64)
    }
}

/// Touches below which a share says nothing.
const ENOUGH: u64 = 30;

/// What was seen of a launch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reuse {
    /// Loads, by touches of loads of the same compute unit.
    pub near: Histogram,
    /// Loads, stores and atomics of the device.
    pub far: Histogram,
    /// Passes of loads through the banks of the nearest cache, which are those of local memory: all,
    /// and no sample.
    pub passes: u64,
    /// Lines of global memory that warps touch, each time; `None` where nobody counted them.
    #[serde(default)]
    pub lines: Option<Lines>,
    /// Turns that atomics on global memory take in the part of the last cache that has most of them;
    /// `None` where nobody counted them.
    #[serde(default)]
    pub hottest: Option<u64>,
}

/// Lines of [`LINE`](crate::LINE) bytes that warps touch: all, and no sample.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Lines {
    /// By loads.
    pub loaded: u64,
    /// By stores.
    pub stored: u64,
}

impl Reuse {
    /// Adds what another launch showed.
    pub fn add(&mut self, other: &Self) {
        self.passes = self.passes.saturating_add(other.passes);
        // A launch that adds nothing yet takes over what the other one has.
        let is_empty = self.far.total() == 0 && self.near.total() == 0;
        let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (None, more) if is_empty => more,
            _ => None,
        };
        let of = |part: fn(Lines) -> u64| sum(self.lines.map(part), other.lines.map(part));
        self.lines = of(|lines| lines.loaded)
            .zip(of(|lines| lines.stored))
            .map(|(loaded, stored)| Lines { loaded, stored });
        self.hottest = sum(self.hottest, other.hottest);
        self.near.add(&other.near);
        self.far.add(&other.far);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same from touches one by one, through a cache that drops what was used least recently.
    fn simulated(touches: &[u32], pieces: usize) -> (Histogram, f64) {
        let mut of = Histogram { first: 0, again: vec![0; POWERS] };
        let mut last = std::collections::HashMap::new();
        let mut cache: Vec<u32> = Vec::new();
        let mut missed = 0;
        for (now, piece) in touches.iter().enumerate() {
            match last.insert(*piece, now) {
                Some(before) => of.again[(now - before).ilog2() as usize] += 1,
                None => of.first += 1,
            }
            match cache.iter().position(|p| p == piece) {
                Some(at) => drop(cache.remove(at)),
                None => missed += 1,
            }
            cache.push(*piece);
            if cache.len() > pieces {
                cache.remove(0);
            }
        }
        (of, f64::from(missed) / touches.len() as f64)
    }

    fn random(n: u32) -> impl FnMut() -> u32 {
        let mut state = 1u32;
        move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) % n
        }
    }

    #[test]
    fn misses_are_those_of_a_cache_that_is_simulated() {
        let (mut of_one, mut of_two) = (random(1000), random(64));
        let anywhere: Vec<u32> = (0..20_000).map(|_| of_one()).collect();
        let stream: Vec<u32> = (0..20_000).collect();
        let rounds: Vec<u32> = (0..20_000).map(|i| i % 300).collect();
        let mixed: Vec<u32> =
            (0..20_000).map(|i| if i % 2 == 0 { of_two() } else { 1000 + i }).collect();
        for touches in [&anywhere, &stream, &rounds, &mixed] {
            for pieces in [16, 100, 250, 400, 900] {
                let (of, missed) = simulated(touches, pieces);
                let modelled = of.missed(pieces as f64).unwrap();
                assert!((modelled - missed).abs() < 0.12, "{pieces}: {modelled} and not {missed}");
            }
        }
    }

    #[test]
    fn a_larger_cache_misses_no_more() {
        let mut next = random(5000);
        let touches: Vec<u32> = (0..30_000).map(|_| next()).collect();
        let of = simulated(&touches, 1).0;
        let all: Vec<f64> = (0..16).map(|p| of.missed(2f64.powi(p)).unwrap()).collect();
        assert!(all.windows(2).all(|w| w[1] <= w[0]), "{all:?}");
        assert_eq!(Histogram { first: 10, again: vec![5] }.missed(8.0), None);
    }
}
