//! What is assumed of powers before anything is fitted, and what kernels usually draw. Refuses to fit.

use super::{Model, Reading};
use std::collections::BTreeSet;

/// What is assumed before anything is fitted.
pub(super) struct Guess {
    /// Power above idle of all kernels.
    pub usual: f64,
    /// The largest power that was read.
    pub most: f64,
    /// Logarithm of the variance of a reading's error, over the given one.
    pub noise: f64,
}

/// All kernels alike draw as much above idle as the device idles.
pub(super) fn first_guess(readings: &[Reading], model: &Model<'_>) -> Guess {
    let seconds = |of: &Reading| of.idle.iter().map(|(_, seconds)| seconds).sum::<f64>();
    let power = |of: &Reading| of.energy / seconds(of);
    let known = model.levels.first().copied().flatten().map(|known| known.0);
    let read = readings.iter().filter(|reading| seconds(reading) > 0.0);
    let least = read.map(power).filter(|p| p.is_finite()).reduce(f64::min);
    let rest = known.or(least).unwrap_or(0.0);
    let (mut joules, mut launches, mut most, mut squares) = (0.0, 0.0, 0.0f64, 0.0);
    for reading in readings {
        let (time, ran) = (seconds(reading), reading.launches.iter().map(|(_, n)| n).sum::<f64>());
        let above = reading.energy - rest * time;
        if reading.capture.is_none() {
            squares += (above * above / reading.variance).min(f64::MAX / 1e9);
        }
        if ran > 0.0 {
            (joules, launches) = (joules + above, launches + ran);
        }
        // Of what ran for next to no time, the quotient is noise.
        let largest = if time > 0.0 { power(reading) } else { above / ran };
        most = most.max(largest.abs());
    }
    let most = if most > 0.0 && most.is_finite() { most } else { 1.0 };
    let of_run = readings.iter().filter(|reading| reading.capture.is_none()).count();
    let noise = (squares / of_run.max(1) as f64).max(f64::MIN_POSITIVE).ln() - FIRST_NOISE;
    // Without idle power what was read above it is all that there is.
    let above = joules / launches;
    let above = if above.is_finite() && above > 1e-6 * most { above } else { 1e-3 * most };
    let usual = if rest > 1e-3 * most { rest } else { above };
    Guess { usual, most, noise }
}

/// By how much the search for the variance begins below that of the readings: a percent of it.
pub(super) const FIRST_NOISE: f64 = 4.6;

/// Kernels that ran in the run, or in workers where none did.
pub(super) fn that_ran(readings: &[Reading]) -> BTreeSet<usize> {
    let of = |is_run: bool| {
        let all = readings.iter().filter(|reading| reading.capture.is_none() == is_run);
        let ran = all.flat_map(|r| &r.launches).filter(|(_, n)| *n > 0.0);
        ran.map(|(kernel, _)| *kernel).collect::<BTreeSet<_>>()
    };
    Some(of(true)).filter(|ran| !ran.is_empty()).unwrap_or_else(|| of(false))
}

/// Power above idle of a kernel, which the prior of each is of: the most likely one, by energies that
/// were found with `usual` as the prior's, and the sum of their covariances. Kernels count as much as
/// the readings say of them and no more, however long they ran; before anything is read, the logarithm
/// of P is that of `believed`, give or take [`USUAL`] (1 is a vector of ones, s = spread P):
///
/// ```text
/// P' = P + (sum_k (e_k - P) - P ln(P / believed) / USUAL^2) / (n - 1' C 1 / s^2 + 1 / USUAL^2)
/// ```
///
/// A step of Newton's to the largest posterior density of P: for readings that say V of the kernels,
/// C = s^2 V (s^2 I + V)^-1. Beside it the standard deviation of ln P.
pub(super) fn most_likely(
    (usual, believed): (f64, f64),
    spread: f64,
    energies: &[f64],
    together: f64,
) -> (f64, f64) {
    let prior = (usual * spread).powi(2);
    let moves: f64 = energies.iter().map(|energy| energy - usual).sum();
    let said = (energies.len() as f64 - together / prior).max(0.0);
    let weight = USUAL.powi(-2);
    let next = usual + (moves - usual * (usual / believed).ln() * weight) / (said + weight);
    (next.clamp(usual / MOST_MOVED, usual * MOST_MOVED), (said + weight).sqrt().recip())
}

/// Standard deviation of the logarithm of a device's usual power above idle, over its idle power,
/// before anything was read. (H100, H200: kernels draw 0.3 to 2.5 times idle power above it.)
pub(super) const USUAL: f64 = 1.0;
/// By how much it moves in a round at most, as a factor.
const MOST_MOVED: f64 = 4.0;
