//! Time of a launch: many launches by the device's stamps, those of several versions in turns. Owns
//! what is restored between them, warm-up, the interval of the median, and ratios. Refuses to
//! compare what ran at different times.

use crate::stage::{Built, Stage, StageError};
use clscope_analysis::quantile;
use clscope_clock::monotonic_raw;
use clscope_compare::outcome::{Change, RUN_TO_RUN, Sample, change};
use clscope_microbench::stats;
use clscope_opencl::Range;
use clscope_profile::interval::Interval;

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// Timed launches of each version.
    pub launches: usize,
    /// No round begins later than this after the first, in nanoseconds, once there are
    /// [`LEAST`](Self::LEAST).
    pub longest_ns: u64,
}

impl Effort {
    /// Launches without which a median has no interval of 95 %.
    pub const LEAST: usize = 6;
    /// Launches in front of the timed ones.
    pub(crate) const WARM_UP: usize = 2;
}

impl Default for Effort {
    fn default() -> Self {
        Self { launches: 50, longest_ns: 10_000_000_000 }
    }
}

/// A version that is timed, and the memories that are restored before each of its launches.
pub struct Subject<'s> {
    /// The version.
    pub built: &'s Built,
    /// Its sizes.
    pub range: &'s Range,
    /// Memories by their place in the capture.
    pub restored: &'s [usize],
    /// Those that get what a launch leaves instead ([`Stage::keep_results`]): device and caches are as
    /// behind restoring.
    pub results: &'s [usize],
}

/// One launch; nanoseconds by the device's stamps.
///
/// # Errors
/// What the runtime returned.
pub fn once(stage: &Stage<'_>, subject: &Subject<'_>) -> Result<f64, StageError> {
    subject.restored.iter().try_for_each(|index| stage.put_back(*index).map(drop))?;
    subject.results.iter().try_for_each(|index| stage.put_results(*index).map(drop))?;
    let event = stage.launch(subject.built, subject.range)?;
    stage.session.finish()?;
    Ok(event.nanoseconds()? as f64)
}

/// Times versions in turns, each round in the other order than the one before. Gives the samples of
/// each in the order of the rounds, without those that warmed up.
///
/// # Errors
/// What the runtime returned; [`StageError`] alone: an interruption leaves fewer samples.
pub fn in_turns(
    stage: &Stage<'_>,
    subjects: &[Subject<'_>],
    effort: Effort,
    stop: &dyn Fn() -> bool,
) -> Result<Vec<Vec<f64>>, StageError> {
    let mut samples = vec![Vec::with_capacity(effort.launches); subjects.len()];
    let begun = monotonic_raw().0;
    // Warm-up is seen only behind it: further rounds stand in for what it took.
    let most = 2 * (effort.launches.max(1) + Effort::WARM_UP);
    let mut rounds = most / 2;
    for round in 0..most {
        if round == rounds {
            rounds = effort.launches.max(1) + warm_up(&samples);
            if round >= rounds {
                break;
            }
        }
        let late = monotonic_raw().0 - begun > effort.longest_ns;
        if stop() || (late && round >= Effort::LEAST + warm_up(&samples)) {
            break;
        }
        let mut order: Vec<usize> = (0..subjects.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for which in order {
            samples[which].push(once(stage, &subjects[which])?);
        }
    }
    let warm = warm_up(&samples);
    for of in &mut samples {
        let first = warm.min(of.len().saturating_sub(1));
        // The latest, where there are more than were asked for.
        let first = first.max(of.len().saturating_sub(effort.launches.max(1)));
        of.drain(..first);
    }
    Ok(samples)
}

/// Rounds that warmed up: one is warm-up for all versions or for none, so that samples stay pairs.
fn warm_up(samples: &[Vec<f64>]) -> usize {
    samples.iter().map(|of| stats::warm_up(of)).max().unwrap_or(0).max(Effort::WARM_UP)
}

/// The median with its interval of 95 %, whatever the distribution. With fewer than 6 samples the
/// interval has no ends. `None` of nothing.
pub fn median(samples: &[f64]) -> Option<Interval> {
    let value = stats::median(samples)?;
    let (low, high) =
        quantile::median_interval(samples).unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
    Some(Interval::measured(value, low, high))
}

/// Times that differ by no more than this part are the same.
const ALIKE: f64 = 0.1;

/// Launches of two versions that were timed in turns, looked at anew whenever there are more.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    ratios: Vec<f64>,
    /// Whether they take other times: by the look before, and by the last one.
    looks: [Option<bool>; 2],
}

impl Compared {
    /// More pairs have been timed.
    pub(crate) fn add(&mut self, one: &[f64], other: &[f64]) {
        let pairs = one.iter().zip(other).filter(|(a, b)| **a > 0.0 && **b > 0.0);
        self.ratios.extend(pairs.map(|(a, b)| (b / a).ln()));
        self.looks = [self.looks[1], self.look()];
    }

    /// By the interval of 95 % of the median ratio of pairs (the sign test's): noise that hits both
    /// alike is no difference, however large. `None` where the interval holds both answers.
    fn look(&self) -> Option<bool> {
        let (low, high) = quantile::median_interval(&self.ratios)?;
        let alike = ALIKE.ln_1p();
        match () {
            () if low > alike || high < -alike => Some(true),
            () if low >= -alike && high <= alike => Some(false),
            () => None,
        }
    }

    /// What two looks in a row say: one of few pairs may be chance.
    pub(crate) fn settled(&self) -> Option<bool> {
        self.looks[0].filter(|_| self.looks[0] == self.looks[1])
    }

    /// What the last look says.
    pub(crate) fn last(&self) -> Option<bool> {
        self.looks[1]
    }
}

/// Blocks of samples whose medians are compared: neighbours resemble each other, blocks less.
const BLOCKS: usize = 10;

/// The change of time from one series of samples to another that was taken in turns with it, wide
/// enough for `judged` changes together; `None` where there are too few samples, or a time of 0.
pub fn ratio(base: &[f64], new: &[f64], judged: usize) -> Option<Change> {
    let blocks = |of: &[f64]| -> Vec<Sample> {
        let count = BLOCKS.min(of.len() / 2);
        let block = |b: usize| &of[b * of.len() / count..(b + 1) * of.len() / count];
        (0..count)
            .filter_map(|b| stats::median(block(b)))
            .map(|value| Sample::own(value, 0.0))
            .collect()
    };
    let value = stats::median(new)? / stats::median(base)? - 1.0;
    let (base, new) = (blocks(base), blocks(new));
    if base.len() < 3 || new.len() < 3 {
        return None;
    }
    // Of the medians that stand beside it; blocks tell how far they may be off.
    let by_blocks = change(&base, &new, judged, RUN_TO_RUN)?;
    Some(Change { value, low: by_blocks.low.min(value), high: by_blocks.high.max(value) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clscope_compare::outcome::Outcome;
    use clscope_testing::Random;
    use proptest::prelude::*;

    #[test]
    fn medians_have_the_interval_of_their_order_statistics() {
        let of: Vec<f64> = (1..=50).map(f64::from).collect();
        let found = median(&of).unwrap();
        // The 18th from either end: fewer than 18 lie on one side of the median in 1.6 of 100
        // samples, fewer than 19 in 3.2.
        assert_eq!((found.value, found.low, found.high), (25.5, 18.0, 33.0));
        assert!(median(&[1.0, 2.0]).unwrap().half().is_infinite());
        assert!(median(&[]).is_none());
    }

    #[test]
    fn a_change_is_told_and_none_is_not() {
        let noise = [0.0, 1.0, -1.0, 0.5, -0.5, 0.2, 0.7];
        let series = |mean: f64| -> Vec<f64> {
            (0..50).map(|n| mean * (1.0 + 0.002 * noise[n % noise.len()])).collect()
        };
        let outcome = |a: f64, b: f64| ratio(&series(a), &series(b), 1).unwrap().outcome();
        assert_eq!(outcome(1000.0, 1000.0), Outcome::Same);
        assert_eq!(outcome(1000.0, 1100.0), Outcome::More);
        assert_eq!(outcome(1000.0, 900.0), Outcome::Less);
        assert!(ratio(&[0.0; 50], &series(1.0), 1).is_none());
        assert!(ratio(&[1.0; 4], &[1.0; 4], 1).is_none());
    }

    /// Whether pairs are said to differ, each with noise of its own and a common one; `by` is what
    /// the second of each takes.
    fn decided(random: &mut Random, by: f64, noise: f64) -> Option<bool> {
        let mut of = Compared::default();
        while of.ratios.len() < 60 && of.settled().is_none() {
            let mut some = |of: f64| of * (noise * random.normal()).exp();
            let common: Vec<f64> = (0..Effort::LEAST).map(|_| some(1e6)).collect();
            let one: Vec<f64> = common.iter().map(|of| some(*of)).collect();
            let other: Vec<f64> = common.iter().map(|of| some(of * by)).collect();
            of.add(&one, &other);
        }
        of.settled()
    }

    #[test]
    fn noise_is_no_difference_and_hides_none() {
        let mut random = Random::new(5);
        let mut count = |by: f64, noise: f64, said: Option<bool>| {
            (0..1_000).filter(|_| decided(&mut random, by, noise) == said).count()
        };
        // Up to launches that take thrice or a third by noise alone.
        for (noise, most) in [(0.001, 0), (0.02, 0), (0.1, 5), (0.3, 20), (1.0, 60)] {
            let wrong = count(1.0, noise, Some(true));
            assert!(wrong <= most, "noise {noise}: {wrong} of 1000 differ");
        }
        for (by, noise) in [(1.2, 0.02), (1.3, 0.05), (0.7, 0.02), (2.0, 0.2), (1.5, 0.1)] {
            let found = count(by, noise, Some(true));
            assert!(found >= 990, "{by} with noise {noise}: {found} of 1000 found");
        }
        assert!(count(1.02, 0.05, Some(false)) >= 990);
        let mut of = Compared::default();
        of.add(&[1.0; 5], &[9.0; 5]);
        assert_eq!((of.last(), of.settled()), (None, None), "too few");
        of.add(&[1.0; 5], &[9.0; 5]);
        assert_eq!((of.last(), of.settled()), (Some(true), None), "said once");
        of.add(&[0.0; 30], &[0.0; 30]);
        assert_eq!((of.ratios.len(), of.settled()), (10, Some(true)), "of no clock");
    }

    proptest! {
        #[test]
        fn a_median_lies_in_its_interval(of in prop::collection::vec(0f64..1e9, 1..200)) {
            let found = median(&of).unwrap();
            prop_assert!(found.low <= found.value && found.value <= found.high);
        }
    }
}
