//! Owns estimates of what sampled timing did not measure: totals, means and percentiles of all
//! launches of a class from those that were timed, each with its 95 % interval. Refuses to present
//! them as measured, and to guess where not one launch was timed.
//!
//! Each launch was selected independently, with a probability that its record holds (Poisson
//! sampling):
//!
//! * Launches that were **certain** to be timed (the first of each kernel, rare kernels) are added
//!   as they are.
//! * The rest is estimated by generalised regression (GREG; Sarndal, Swensson, Wretman: Model
//!   Assisted Survey Sampling, 1992, ch. 6). The model is a mean that changes over the run, between
//!   one for all (then it is Hajek's ratio estimator, 1971) and one for each stratum of launches
//!   that follow each other. Module `bounds` adds what the queue's progress shows. The variance is
//!   that of Poisson sampling about the model: the sum over timed launches of (1-p)/p^2 r^2, with
//!   cross-fitted residuals r.
//! * Durations are skewed, and so is the estimate: the interval is corrected by Hall's
//!   transformation (1992), with Student's quantile at the effective sample size. It takes the third
//!   cumulant of the error divided by its estimated deviation, which is that of the error less three
//!   times its covariance with the variance: where few launches are chosen the two are alike (and
//!   the quotient has minus twice the skewness of the error, as that of any mean); where next to all
//!   are, a launch that was left out hardly changes the variance, and the quotient is skewed to the
//!   same side by the error alone. Each launch adds (1-p)(1-2p)/p^2 y^3 to the former and
//!   3(1-p)^2/p^2 y^3 to the latter; minus half of the difference is (1-p)(2-p)/(2 p^2) y^3.
//! * With fewer than [`FEW`] timed launches beside the certain ones the design alone is not enough.
//!   Then the certain ones count as a sample of the same launches, and the interval is a prediction
//!   for the rest ([`Basis::Model`]).
//! * Percentiles weigh each launch by 1/p; their intervals are Woodruff's (1952).

mod blocks;
pub(super) mod bounds;
pub(super) mod unproven;
mod usual;
pub mod windows;

use super::sketch::{Bins, Distribution, RELATIVE_ERROR, bin, middle};
use crate::interval::Interval;
use crate::quantile::student;
use blocks::{Block, Powers, longer};
use bounds::Left;

/// Timed launches beside the certain ones below which the design alone is not relied on.
pub const FEW: u64 = 10;
/// Most blocks of launches that are kept apart.
const MOST_BLOCKS: usize = 64;

/// What an interval rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// Every launch of the class was timed: no interval is needed.
    Complete,
    /// The chance by which launches were chosen, and nothing else.
    Design,
    /// That the timed launches are like the others: too few were chosen by chance.
    Model,
}

/// Launches that follow each other and have a mean of their own.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stratum {
    /// Number of the launch behind the last of them, certain ones not counted.
    pub(super) last: u64,
    /// Of them left out.
    pub(super) left: u64,
    /// Mean duration.
    pub(super) mean: f64,
}

/// The estimate by design of the launches that chance decided about.
#[derive(Debug, Clone)]
pub(super) struct Design {
    /// Their total.
    value: f64,
    /// Second and third cumulant of its error.
    variance: f64,
    third: f64,
    pub(super) freedom: f64,
    /// Influence of the launch that decides most.
    heaviest: f64,
    /// How much the means of the strata count against the mean of all, 0 to 1.
    pub(super) mix: f64,
    pub(super) strata: Vec<Stratum>,
    /// The mean of all.
    pub(super) mean: f64,
}

/// Durations of the launches of one class under sampling. Memory is bounded as that of a sketch.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sampled {
    /// Launches that the estimate is for: timed, or left out by chance.
    launches: u64,
    /// Launches left out by chance.
    left_out: u64,
    certain: u64,
    certain_total: f64,
    /// Timed launches that were not certain, and their total.
    chosen: u64,
    chosen_total: f64,
    pivot: f64,
    /// Certain ones, each once.
    plain: Powers,
    /// Chosen ones once each.
    once: Powers,
    /// What chance decided about, in the order of the launches.
    blocks: Vec<Block>,
    /// Launches of a block.
    per_block: u64,
    /// Weight, and weight of the variance.
    bins: Bins<(f64, f64)>,
}

impl Sampled {
    /// Adds a launch that was left out by chance.
    pub fn leave_out(&mut self) {
        self.launches += 1;
        self.left_out += 1;
        self.block().launches += 1;
    }

    /// The block of the next launch that is not certain.
    fn block(&mut self) -> &mut Block {
        self.per_block = self.per_block.max(1);
        if self.blocks.last().is_none_or(|last| last.launches >= self.per_block) {
            if self.blocks.len() >= MOST_BLOCKS {
                self.coarsen();
            }
            self.blocks.push(Block::default());
        }
        let last = self.blocks.len() - 1;
        &mut self.blocks[last]
    }

    /// Joins neighbouring blocks.
    fn coarsen(&mut self) {
        // Of thousands of kernel objects that are merged it would double for each few of them.
        self.per_block = self.per_block.saturating_mul(2);
        let joined = self.blocks.chunks(2).map(|pair| match pair {
            [a, b] => a.plus(b),
            _ => pair[0],
        });
        self.blocks = joined.collect();
    }

    /// Takes back up to `n` launches that were left out, and returns how many.
    pub fn take_back(&mut self, n: u64) -> u64 {
        let n = n.min(self.left_out);
        self.launches -= n;
        self.left_out -= n;
        // They are the last ones.
        let mut rest = n;
        for block in self.blocks.iter_mut().rev() {
            let of_block = rest.min(block.launches - block.chosen);
            block.launches -= of_block;
            rest -= of_block;
        }
        n
    }

    /// Adds a timed launch that had been chosen with probability `p`, in (0, 1].
    pub fn add(&mut self, duration: u64, p: f64) {
        let y = duration as f64;
        if self.certain + self.chosen == 0 {
            self.pivot = y;
        }
        self.launches += 1;
        let d = y - self.pivot;
        let (weight, variance) = (1.0 / p, (1.0 - p) / (p * p));
        if p >= 1.0 {
            self.certain += 1;
            self.certain_total += y;
            self.plain.add(1.0, d);
        } else {
            self.chosen += 1;
            self.chosen_total += y;
            self.once.add(1.0, d);
            let block = self.block();
            block.launches += 1;
            block.chosen += 1;
            block.ratio.add(weight, d);
            block.second.add(variance, d);
            block.third.add(variance * (2.0 - p) / (2.0 * p), d);
            block.second_squared += variance * variance;
            block.longest = longer(block.longest, (d, variance.sqrt()));
        }
        let slot = self.bins.slot(bin(duration));
        slot.0 += weight;
        slot.1 += variance;
    }

    /// Adds all launches of another.
    pub fn merge(&mut self, other: &Self) {
        if self.certain + self.chosen == 0 {
            self.pivot = other.pivot;
        }
        let shift = other.pivot - self.pivot;
        for (own, others) in [(&mut self.plain, &other.plain), (&mut self.once, &other.once)] {
            *own = own.plus(&others.moved(shift));
        }
        self.blocks.extend(other.blocks.iter().map(|block| block.moved(shift)));
        self.per_block = self.per_block.max(other.per_block);
        while self.blocks.len() > 2 * MOST_BLOCKS {
            self.coarsen();
        }
        self.launches += other.launches;
        self.left_out += other.left_out;
        self.certain += other.certain;
        self.certain_total += other.certain_total;
        self.chosen += other.chosen;
        self.chosen_total += other.chosen_total;
        for (bin, (weight, variance)) in other.bins.iter().filter(|(_, of)| of.0 > 0.0) {
            let slot = self.bins.slot(bin);
            slot.0 += weight;
            slot.1 += variance;
        }
    }

    /// Adds timed launches that were certain, from their distribution: its spread is told by the
    /// sketch alone.
    pub fn merge_certain(&mut self, timed: &Distribution) {
        if self.timed() == 0
            && let Some(first) = timed.min()
        {
            self.pivot = first as f64;
        }
        self.launches += timed.count();
        self.certain += timed.count();
        self.certain_total += timed.total() as f64;
        for (number, n) in timed.bins() {
            self.plain.add(n as f64, middle(number) - self.pivot);
            self.bins.slot(number).0 += n as f64;
        }
    }

    /// Launches that the estimates are for.
    pub fn launches(&self) -> u64 {
        self.launches
    }

    /// Launches left out by chance.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Launches that were timed.
    pub fn timed(&self) -> u64 {
        self.certain + self.chosen
    }

    /// What the intervals rest on; `None` where nothing was timed.
    pub fn basis(&self) -> Option<Basis> {
        if self.timed() == 0 {
            None
        } else if self.left_out == 0 {
            Some(Basis::Complete)
        } else if self.chosen >= FEW {
            Some(Basis::Design)
        } else {
            Some(Basis::Model)
        }
    }

    /// Total of all launches; `None` where nothing was timed, or a single launch does not show the
    /// others' spread.
    pub fn total(&self) -> Option<Interval> {
        self.total_with(None)
    }

    /// [`total`](Self::total), with what the timeline shows of the launches left out where
    /// something is known.
    pub fn total_with(&self, left: Option<&Left>) -> Option<Interval> {
        let known = self.known();
        let estimate = match self.basis()? {
            Basis::Complete => return Some(Interval::exact(known)),
            Basis::Design => self.by_design(left)?,
            Basis::Model => self.by_model(left)?,
        };
        let Interval { value, low, high, .. } = with_rare(estimate, estimate.value - known);
        let high = high + left.map_or(0.0, |left| left.beyond);
        // What was timed is certain.
        let value = value.max(known);
        let of_left =
            Interval::estimated(value - known, low.max(known).min(value) - known, high - known);
        // The queue had so much time.
        let of_left = left.map_or(of_left, |left| left.fitted(of_left));
        Some(of_left.plus(Interval::exact(known)))
    }

    /// Time of the timed launches.
    pub fn known(&self) -> f64 {
        self.certain_total + self.chosen_total
    }

    /// The longest of the launches that chance chose, nanoseconds, as long as the sketch leaves open:
    /// those left out are like these. Where chance chose none, that of all timed ones; `None` where
    /// nothing was timed.
    pub(super) fn longest(&self) -> Option<f64> {
        let bins = &self.bins.values;
        let chosen = bins.iter().rposition(|b| b.1 > 0.0);
        let last = chosen.or_else(|| bins.iter().rposition(|b| b.0 > 0.0))?;
        Some(middle(self.bins.first + last) * (1.0 + RELATIVE_ERROR))
    }

    /// How much the durations of the timed launches vary, and as much as one of which nothing is
    /// known may: as its own length, with the probability that the next differs from all before
    /// (Good 1953). `None` where nothing was timed.
    pub(super) fn variance(&self) -> Option<f64> {
        let all = self.plain.plus(&self.all_blocks().map_or(Powers::default(), |b| b.ratio));
        let mean = all.0[1] / all.0[0];
        let length = self.pivot + mean;
        let n = self.timed() as f64;
        (n > 0.0).then(|| all.central(mean).0 / all.0[0] + length * length / (n + 1.0))
    }

    /// Mean duration where the longest twentieth count as the shortest of them, and its standard
    /// error, nanoseconds: what few very long launches do not change. `None` where nothing was
    /// timed.
    pub(super) fn typical(&self) -> Option<(f64, f64)> {
        let bins = &self.bins.values;
        let weight: f64 = bins.iter().map(|b| b.0).sum();
        let mut left = weight / 20.0;
        let cut = bins.iter().rposition(|b| {
            left -= b.0;
            left < 0.0
        })?;
        let (mut first, mut second) = (0.0, 0.0);
        for (bin, (w, _)) in self.bins.iter() {
            let d = middle(bin.min(self.bins.first + cut));
            first += w * d;
            second += w * d * d;
        }
        let mean = first / weight;
        Some((mean, ((second / weight - mean * mean).max(0.0) / self.timed() as f64).sqrt()))
    }

    /// All blocks together; `None` where chance chose none.
    fn all_blocks(&self) -> Option<Block> {
        let all = self.blocks.iter().fold(Block::default(), |sum, block| sum.plus(block));
        (all.chosen > 0).then_some(all)
    }

    /// Blocks joined until each has launches enough for a mean of its own.
    fn strata(&self) -> Vec<Block> {
        let mut strata: Vec<Block> = Vec::new();
        let mut open = Block::default();
        for block in &self.blocks {
            open = open.plus(block);
            if open.chosen >= FEW {
                strata.push(std::mem::take(&mut open));
            }
        }
        match strata.last_mut() {
            Some(last) => *last = last.plus(&open),
            None => strata.push(open),
        }
        strata
    }

    /// The generalised regression estimate whose model is a mean that changes over the run: between
    /// one mean for all (the ratio estimator) and one for each stratum of launches that follow each
    /// other, at the mix that gives the least variance. Residuals are those of means without the
    /// launch itself. `None` where chance chose none.
    pub(super) fn design(&self) -> Option<Design> {
        let all = self.all_blocks()?;
        let strata = self.strata();
        let (mean, scale) = (all.mean(), all.scale());
        // Variances of one mean, of a mean for each, and their covariance.
        let (mut one, mut each, mut both) = (0.0, 0.0, 0.0);
        for stratum in &strata {
            let moved = stratum.second.moved(-mean).0;
            let (own, shift) = (stratum.scale(), stratum.mean() - mean);
            let about_own = moved[2] - 2.0 * shift * moved[1] + shift * shift * moved[0];
            one += scale * scale * moved[2].max(0.0);
            each += own * own * about_own.max(0.0);
            both += scale * own * (moved[2] - shift * moved[1]);
        }
        let differ = one - 2.0 * both + each;
        let mix = if strata.len() > 1 && differ > 0.0 {
            ((one - both) / differ).clamp(0.0, 1.0)
        } else {
            0.0
        };
        let (mut value, mut variance, mut third) = (0.0, 0.0, 0.0);
        let (mut last, mut means) = (0, Vec::with_capacity(strata.len()));
        for stratum in &strata {
            let n = stratum.launches as f64;
            let local = (1.0 - mix) * mean + mix * stratum.mean();
            value += n * (self.pivot + local);
            // Its residuals are those about `about`, times `slope`.
            let (a, b) = ((1.0 - mix) * scale, mix * stratum.scale());
            let slope = a + b;
            let about = (a * mean + b * stratum.mean()) / slope;
            variance += slope * slope * stratum.second.central(about).0;
            third += slope.powi(3) * stratum.third.central(about).1;
            last += stratum.launches;
            means.push(Stratum {
                last,
                left: stratum.launches - stratum.chosen,
                mean: self.pivot + stratum.mean(),
            });
        }
        let parameters = 1.0 + mix * (strata.len() as f64 - 1.0);
        Some(Design {
            value,
            variance,
            third,
            freedom: all.effective() - parameters,
            heaviest: (scale * all.longest.1 * (all.longest.0 - mean)).max(0.0),
            mix,
            strata: means,
            mean: self.pivot + mean,
        })
    }

    fn by_design(&self, left: Option<&Left>) -> Option<Interval> {
        let mut of = self.design()?;
        if let Some(left) = left {
            left.correct(&mut of.value, &mut of.variance, &mut of.third);
        }
        let t = student(0.975, of.freedom);
        let value = self.certain_total + of.value;
        // Half a further launch like the most influential one (Fay and Feuer 1997; half of it as
        // mid-p intervals have it).
        let more = of.heaviest / 2.0;
        let side = |variance: f64, third: f64, t: f64| {
            let sd = variance.sqrt();
            if sd > 0.0 { sd * hall(t, third / (variance * sd)) } else { 0.0 }
        };
        let (wider, longer) = (of.variance + more * more, of.third + more.powi(3));
        let low = value - side(of.variance, of.third, t);
        Some(Interval::estimated(value, low, value + more - side(wider, longer, -t)))
    }

    fn by_model(&self, left: Option<&Left>) -> Option<Interval> {
        let all = self.plain.plus(&self.once);
        let n = all.0[0];
        if n < 2.0 {
            return None;
        }
        let mean = all.0[1] / n;
        let (squares, cubes) = all.central(mean);
        let spread = (squares / (n - 1.0)).sqrt();
        let m = self.left_out as f64;
        let mut value = self.certain_total + self.chosen_total + m * (self.pivot + mean);
        let mut variance = spread * spread * (m + m * m / n);
        if let Some(left) = left {
            left.correct(&mut value, &mut variance, &mut 0.0);
        }
        let sd = variance.sqrt();
        // Of the mean's error m/sqrt(n) and the rest's own sqrt(m), skewed to opposite sides: their
        // third cumulants are m^3/n^2 and -m. The covariance with the variance, three times of which
        // is taken off, is m/n (m + m^2/n); minus half of that is what Hall's transformation takes.
        let skewness = if spread > 0.0 {
            let third = m.powi(3) / (n * n) + 1.5 * m * m / n + m / 2.0;
            cubes / n / spread.powi(3) * third / (m + m * m / n).powf(1.5)
        } else {
            0.0
        };
        let t = student(0.975, n - 1.0);
        let end = |t: f64| value - sd * hall(t, skewness);
        Some(Interval::estimated(value, end(t), end(-t)))
    }

    /// Mean over all launches.
    pub fn mean(&self) -> Option<Interval> {
        Some(self.total()?.times(1.0 / self.launches as f64))
    }

    /// The duration below or at which a share `q` of all launches lies. The interval includes the
    /// sketch's error.
    pub fn quantile(&self, q: f64) -> Option<Interval> {
        self.basis()?;
        let (first, bins) = (self.bins.first, &self.bins.values);
        let weight: f64 = bins.iter().map(|b| b.0).sum();
        let variance: f64 = bins.iter().map(|b| b.1).sum();
        let at = |share: f64| {
            let mut seen = 0.0;
            let mut last = first;
            for (bin, (w, _)) in self.bins.iter().filter(|(_, b)| b.0 > 0.0) {
                seen += w;
                last = bin;
                // A billionth absorbs the rounding of the sums.
                if seen >= share * weight * (1.0 - 1e-9) {
                    break;
                }
            }
            (middle(last), last)
        };
        let (value, found) = at(q);
        let below: f64 = bins.iter().take(found + 1 - first).map(|b| b.1).sum();
        let sd = ((1.0 - q).powi(2) * below + q * q * (variance - below).max(0.0)).sqrt() / weight;
        let effective = self.all_blocks().map_or(f64::INFINITY, |all| all.effective());
        // Where chance chose next to none, the variance is not known either: no percentile is then.
        if self.basis() == Some(Basis::Model) {
            return Some(Interval::estimated(value, middle(first), f64::INFINITY));
        }
        let side = student(0.975, effective - 1.0) * sd;
        let low = at((q - side).max(0.0)).0 * (1.0 - RELATIVE_ERROR);
        let high = if q + side >= 1.0 && self.left_out > 0 {
            f64::INFINITY
        } else {
            at(q + side).0 * (1.0 + RELATIVE_ERROR)
        };
        Some(Interval::estimated(value, low.min(value), high))
    }
}

/// What launches that no timed one is like may add to those left out, as a share of their time: a
/// class of which one launch in some thousands is held up looks perfectly steady where chance chose
/// none of these. Measured on an H100: launches of 28 to 73 us, one to eight of 2,500 held up by 20
/// to 40 us, 0.03 to 0.1 % of the total (the guide on accuracy, totals of sampled timing).
const RARE: f64 = 0.001;

/// An interval that leaves room for launches that are rare; `left_out`: what those left out took.
pub(super) fn with_rare(estimate: Interval, left_out: f64) -> Interval {
    let room = RARE * left_out.max(0.0);
    Interval {
        low: estimate.low.min(estimate.value - room),
        high: estimate.high.max(estimate.value + room),
        ..estimate
    }
}

/// Where Hall's transformed statistic is at `t`: the standardized error below which it lies with
/// that probability. `skewness` is minus half of that of the standardized error: that of the estimate
/// itself where it is a mean of few of many.
pub(super) fn hall(t: f64, skewness: f64) -> f64 {
    // Beyond this the expansion is not one any more, and the third cumulant of a few launches is
    // mostly noise.
    let a = skewness.clamp(-1.2, 1.2);
    if a.abs() < 1e-6 {
        return t;
    }
    3.0 / a * ((1.0 + a * (t - a / 6.0)).cbrt() - 1.0)
}

#[cfg(test)]
mod tests;
