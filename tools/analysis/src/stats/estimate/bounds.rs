//! Owns what the progress of an in-order queue (its [windows](super::windows)) adds to the estimate
//! of the launches that sampling left out: auxiliaries that are known of every launch, timed or
//! not, and their part in a generalised regression estimate (GREG; Sarndal, Swensson, Wretman:
//! Model Assisted Survey Sampling, 1992, ch. 6). Refuses to take a window's time for a duration:
//! how much of it is launches is fitted to timed ones.
//!
//! Auxiliaries of a launch:
//!
//! 1. the typical duration of its geometry;
//! 2. its part of the excess of its window: the time in which the queue was busy, less typical
//!    launches, less what usually passes beside them (module `usual`). The classes of a window have
//!    parts of it as the variances of their durations, which is what linear prediction of a sum's
//!    parts from the sum gives.
//!
//! The coefficients are a regression over the launches that chance chose, weighted by the number of
//! left-out launches that each represents, each launch in the window in which it would have been had
//! it been left out, with a prior ([`PRIOR`]). The correction is the coefficients times what the auxiliaries of the launches left out sum to, less what the
//! timed ones say that they sum to; of it the part counts that makes the variance least. Residuals
//! are cross-fitted: of a regression without the launch.

use super::Sampled;
use super::usual::Usual;
use super::windows::{Evidence, Window};
use crate::ids::IdMap;
use crate::interval::Interval;
use crate::quantile::student;

/// Auxiliaries.
const N: usize = 2;
/// Mean and variance of each coefficient before anything was timed. Launches of a geometry last as
/// those of it do; an excess is launches or something else, from none of it to all of it within two
/// standard deviations.
const PRIOR: [(f64, f64); N] = [(1.0, 0.25), (0.0, 0.25)];

/// Standard deviations of the excess that timed launches show in their durations, beyond which
/// nothing is extrapolated to: of a normal distribution all but 0.3 % lie within.
const FAR: f64 = 3.0;

/// What a queue's progress says of the launches of one class that were left out, nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Left {
    /// What the estimate by chance alone is off by.
    correction: f64,
    /// Variance of the error by the timed launches that are kept: by chance alone, and with the
    /// auxiliaries; its third cumulant with them.
    raw: f64,
    adjusted: f64,
    third: f64,
    /// Variance because the coefficients are not known.
    model: f64,
    /// What an excess far beyond that of timed launches may add.
    pub(super) beyond: f64,
    /// The most that the launches can have taken; infinite where that is not known.
    pub most: f64,
    /// By what they are shorter than timed ones say.
    shorter: f64,
    /// What usually passes between launches, of all of them.
    between: f64,
}

impl Left {
    /// Of the launches of both.
    pub fn plus(self, o: Self) -> Self {
        Self {
            correction: self.correction + o.correction,
            raw: self.raw + o.raw,
            adjusted: self.adjusted + o.adjusted,
            third: self.third + o.third,
            model: self.model + o.model,
            beyond: self.beyond + o.beyond,
            most: self.most + o.most,
            shorter: self.shorter + o.shorter,
            between: self.between + o.between,
        }
    }

    /// By what the launches are shorter than timed ones say, all together, nanoseconds.
    pub fn shorter(&self) -> f64 {
        self.shorter
    }

    /// What the launches took, given what timed ones say of it: no more than the queue shows. By what
    /// it is less, as much as usually passes between launches may be no part of it either.
    pub(super) fn fitted(&self, of_timed: Interval) -> Interval {
        let less = of_timed.moved(-self.shorter).within(0.0, self.most);
        let value = less.value.min(self.most).max(0.0);
        let low = less.low.min(value) - self.between.min(of_timed.value - value);
        Interval { value, low: low.max(0.0), high: less.high.min(self.most).max(value), ..less }
    }

    /// Corrects an estimate by chance alone and the cumulants of its error.
    pub(super) fn correct(&self, value: &mut f64, variance: &mut f64, third: &mut f64) {
        *value += self.correction;
        if self.raw > 0.0 && self.adjusted > 0.0 {
            *variance *= self.adjusted / self.raw;
            *third = self.third * (*variance / self.adjusted).powf(1.5);
        }
        *variance += self.model;
    }
}

/// A launch that chance chose.
struct Case {
    y: f64,
    weight: f64,
    /// Number of its stratum.
    stratum: usize,
    x: [f64; N],
    /// Launches of its class in its window.
    among: f64,
}

/// What is known of a queue.
pub(super) struct Queue<'a> {
    /// Windows with an end.
    pub(super) windows: &'a [Window],
    /// Timed launches with the windows that they were in.
    pub(super) evidence: &'a [Evidence],
    /// For how many each of them stands.
    pub(super) thinned: f64,
    /// Typical duration of a class and geometry.
    pub(super) typical: &'a dyn Fn(u64, u32) -> Option<f64>,
    /// What usually passes beyond typical launches.
    pub(super) usual: Option<Usual>,
    /// By class, how much a launch's duration varies.
    pub(super) variances: IdMap<f64>,
    /// What usually passes from one launch to the next that waits for it.
    pub(super) between: f64,
    /// Whether the device's workers may be interrupted for long, as a CPU's are.
    pub(super) preempted: bool,
}

impl Queue<'_> {
    /// What usually passes beyond typical launches where the queue was never empty.
    pub(super) fn usual(&self) -> Option<Usual> {
        let full = self.windows.iter().filter(|w| w.is_full());
        Usual::fit(full.filter_map(|w| Some((w, w.available - self.expected(w)?))))
    }

    fn expected(&self, window: &Window) -> Option<f64> {
        if window.tainted {
            return None;
        }
        let each = window
            .counts
            .iter()
            .map(|(launch, n)| Some(n * (self.typical)(launch.class, launch.geometry)?));
        each.sum::<Option<f64>>().filter(|e| *e > 0.0)
    }

    /// The part of a window's excess that the launches of a class have, and their number; no excess
    /// where the queue may have been empty or something unknown ran.
    fn excess(&self, class: u64, window: &Window) -> (f64, f64) {
        let (mut own, mut all, mut n) = (0.0, 0.0, 0.0);
        for (launch, count) in &window.counts {
            let variance = count * self.variances.get(&launch.class).copied().unwrap_or(0.0);
            all += variance;
            if launch.class == class {
                own += variance;
                n += count;
            }
        }
        let excess = || {
            let usual = self.usual.as_ref()?.of_window(window);
            Some(window.available - self.expected(window)? - usual)
        };
        let full = all > 0.0 && window.is_full();
        let excess = if full { excess().unwrap_or(0.0) } else { 0.0 };
        (if all > 0.0 { excess * own / all } else { 0.0 }, n)
    }

    /// By how much longer a launch is for being timed, nanoseconds. Chance chose it, so that those about
    /// it in a window in which the queue was never empty are as long as it is, on average, and the room
    /// that they had is no less than that: what it takes beyond is its being timed. (NVIDIA's stamps
    /// hold what starting a launch takes, which the launch before hides unless one is timed: 14.0 for
    /// 12.0 us on an H100.) The lower end of the interval, and 0 where that is below.
    fn timing_adds(&self, class: u64) -> f64 {
        let more = self.evidence.iter().filter(|e| e.launch.class == class && e.window.is_full());
        let more: Vec<(f64, f64)> = more
            .filter_map(|e| {
                let own = (self.typical)(class, e.launch.geometry)?;
                let others = self.expected(&e.window)? - own;
                let room = (e.window.full - e.duration).max(0.0);
                (others >= own / 2.0).then(|| (e.weight, e.duration - own * room / others))
            })
            .collect();
        let sums = more.iter().map(|(weight, more)| [*weight, weight * weight, weight * more]);
        let [n, squares, sum] =
            sums.fold([0.0; 3], |all, of| std::array::from_fn(|i| all[i] + of[i]));
        let (mean, effective) = (sum / n, n * n / squares);
        if more.len() < 2 || effective <= 1.0 {
            return 0.0;
        }
        let off: f64 = more.iter().map(|(weight, more)| (weight * (more - mean)).powi(2)).sum();
        (mean - student(0.975, effective - 1.0) * off.sqrt() / n).max(0.0)
    }

    /// Of the launches of a class that were left out, given those timed; `None` if none were.
    pub(super) fn left(&self, class: u64, sampled: &Sampled) -> Option<Left> {
        let middle = sampled.typical()?.0.max(1.0);
        let typical = |geometry| (self.typical)(class, geometry).unwrap_or(middle);
        let mut out = Left::default();
        // Sums over the launches left out.
        let (mut sums, mut seen, mut excesses) = ([0.0; N], 0.0, Vec::new());
        // Time in which the queue may have been empty, and launches, of its windows.
        let mut open = Vec::new();
        for window in self.windows {
            let (excess, n) = self.excess(class, window);
            if n == 0.0 {
                continue;
            }
            let of_class = window.counts.iter().filter(|(launch, _)| launch.class == class);
            for (launch, k) in of_class {
                sums[0] += k * typical(launch.geometry);
            }
            excesses.push((excess / n, n));
            if !window.is_full() {
                open.push(((window.available - window.full).max(0.0), n));
            }
            out.most += window.available;
            seen += n;
        }
        let left = sampled.left_out() as f64;
        // Of launches behind the last moment that is known nothing is but their number.
        if left - seen > 0.5 || seen == 0.0 {
            out.most = f64::INFINITY;
        }
        if seen == 0.0 {
            return Some(out);
        }
        out.between = left * self.between;
        out.shorter = left * self.timing_adds(class);
        let design = sampled.design();
        if self.preempted {
            out.beyond += hidden(sampled, &open, design.as_ref().map_or(0.0, |d| d.freedom + 1.0));
        }
        let strata = design.as_ref().map_or(&[][..], |design| &design.strata);
        let mut cases: Vec<Case> = self
            .evidence
            .iter()
            .filter(|e| e.launch.class == class)
            .map(|e| {
                let (excess, n) = self.excess(class, &e.window);
                Case {
                    y: e.duration,
                    weight: e.weight / self.thinned,
                    stratum: strata
                        .partition_point(|stratum| stratum.last <= e.nth)
                        .min(strata.len().saturating_sub(1)),
                    x: [typical(e.launch.geometry), excess / n],
                    among: n,
                }
            })
            .collect();
        // An excess far beyond what timed launches show is not extrapolated to.
        let count = cases.len() as f64;
        let shown = |case: &Case| case.x[1].abs().min((case.y - middle).abs());
        let squares: f64 = cases.iter().map(|case| shown(case).powi(2)).sum();
        let limit = if count > 0.0 { FAR * (squares / count).sqrt() } else { 0.0 };
        let far = |excess: f64| (excess - limit).max(0.0);
        // Whether it is of the class, as shares of the excess of a window (where an excess is sought,
        // so that large ones count more): what timed launches took of it and would have had to,
        // with Jeffreys' prior of a share.
        let (sum, squares) = excesses.iter().fold((0.0, 0.0), |(sum, squares), (excess, n)| {
            let of = n * far(*excess);
            (sum + of, squares + of * of)
        });
        let each_far = if sum > 0.0 { squares / sum } else { 1.0 };
        let (mut took, mut tried) = (0.5, 1.0);
        for case in cases.iter().filter(|case| case.x[1] > limit) {
            let whole = case.x[1] * case.among;
            let such = 1.0 - limit / case.x[1];
            took += such * (case.y - middle).clamp(-whole, whole) / each_far;
            tried += far(case.x[1]) / each_far;
        }
        let took = f64::max(took, 0.5);
        let tried = f64::max(tried, took + 0.5);
        cases.iter_mut().for_each(|case| case.x[1] = case.x[1].clamp(-limit, limit));
        let within = |of: &(f64, f64)| of.1 * of.0.clamp(-limit, limit);
        sums[1] = excesses.iter().map(within).sum();
        let beyond: f64 = excesses.iter().map(|of| of.1 * far(of.0)).sum();
        // Where less is known of some launches, the mean of the others stands for them.
        let by_seen = left / seen;
        let sums = sums.map(|sum| sum * by_seen);
        let mix = design.as_ref().map_or(0.0, |design| design.mix);
        let weight: f64 = cases.iter().map(|c| c.weight).sum();
        let mean = |of: &dyn Fn(&Case) -> f64| {
            cases.iter().map(|c| c.weight * of(c)).sum::<f64>() / weight
        };
        // Of no case the population's own, so that nothing is left to correct but the excess.
        let means: [f64; N] = std::array::from_fn(|j| match (cases.is_empty(), j) {
            (true, 0) => sums[0] / left,
            (true, _) => 0.0,
            _ => mean(&|c| c.x[j]),
        });
        let mut of_strata = vec![([0.0; N], 0.0); strata.len()];
        for case in &cases {
            let of = &mut of_strata[case.stratum];
            of.1 += case.weight;
            (0..N).for_each(|j| of.0[j] += case.weight * case.x[j]);
        }
        let centre = |stratum: usize, j: usize| match of_strata.get(stratum) {
            Some((x, weight)) if *weight > 0.0 => (1.0 - mix) * means[j] + mix * x[j] / weight,
            _ => means[j],
        };
        let said: [f64; N] = std::array::from_fn(|j| match strata.is_empty() {
            true => left * means[j],
            false => strata.iter().enumerate().map(|(i, of)| of.left as f64 * centre(i, j)).sum(),
        });
        let off = |case: &Case| -> [f64; N] {
            std::array::from_fn(|j| case.x[j] - centre(case.stratum, j))
        };
        let about = |case: &Case| match (&design, strata.get(case.stratum)) {
            (Some(design), Some(of)) => case.y - (1.0 - mix) * design.mean - mix * of.mean,
            _ => 0.0,
        };
        // Regression of what is off the centres, with what is known beforehand of its slopes.
        let each = if cases.is_empty() { 1.0 } else { weight / cases.len() as f64 };
        let noise = match count >= 2.0 {
            true => {
                let squares = cases.iter().map(|c| c.weight * about(c).powi(2));
                squares.sum::<f64>() / each / (count - 1.0)
            }
            false => sampled.variance()?,
        };
        // Durations are whole nanoseconds.
        let noise = noise.max(1.0);
        let mut matrix = [[0.0; N]; N];
        let mut right = [0.0; N];
        for j in 0..N {
            matrix[j][j] = noise / PRIOR[j].1;
            right[j] = noise / PRIOR[j].1 * PRIOR[j].0;
        }
        for case in &cases {
            let (x, z) = (off(case), about(case));
            let part = case.weight / each;
            for j in 0..N {
                right[j] += part * x[j] * z;
                (0..N).for_each(|k| matrix[j][k] += part * x[j] * x[k]);
            }
        }
        let inverse = invert(matrix);
        let times = |v: &[f64; N]| -> [f64; N] {
            std::array::from_fn(|j| (0..N).map(|k| inverse[j][k] * v[k]).sum())
        };
        let dot = |a: &[f64; N], b: &[f64; N]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let slopes = times(&right);
        // What the regression without a launch says of it.
        let said_of = |case: &Case| {
            let (x, z) = (off(case), about(case));
            let hat = (case.weight / each * dot(&x, &times(&x))).min(1.0 - f64::EPSILON);
            (dot(&slopes, &x) - hat * z) / (1.0 - hat)
        };
        let second = |case: &Case| case.weight * (case.weight + 1.0);
        let (mut both, mut own) = (0.0, 0.0);
        for case in &cases {
            let said = said_of(case);
            both += second(case) * said * about(case);
            own += second(case) * said * said;
        }
        let part = if own > 0.0 { (both / own).clamp(0.0, 1.0) } else { 1.0 };
        let rest: [f64; N] = std::array::from_fn(|j| sums[j] - said[j]);
        out.correction = part * dot(&slopes, &rest);
        out.model = noise * dot(&rest, &times(&rest));
        // The share's mean and two standard deviations.
        let share = took / tried;
        let most = share + 2.0 * (share * (1.0 - share) / (tried + 1.0)).sqrt();
        out.beyond += beyond * most.min(1.0);
        for case in &cases {
            let z = about(case);
            let residual = z - part * said_of(case);
            out.raw += second(case) * z * z;
            out.adjusted += second(case) * residual * residual;
            out.third += second(case) * (case.weight + 0.5) * residual.powi(3);
        }
        // What is known of every `thinned`-th timed launch corrects the others by as much less.
        let kept = 1.0 / self.thinned;
        out.correction *= kept;
        out.adjusted = out.raw + kept * (out.adjusted - out.raw);
        Some(out)
    }
}

/// What launches longer than all that chance chose may add where the queue may have been empty. With
/// the probability 1/(n+1) (Good 1953; n effective launches were timed) each is one, and takes what
/// the tail of times for which a worker is held up leads to expect (Zipf's law), up to the room of
/// its window.
fn hidden(sampled: &Sampled, open: &[(f64, f64)], effective: f64) -> f64 {
    let Some(longest) = sampled.longest() else { return 0.0 };
    let beyond = |room: f64| match longest < room {
        true => room.min(longest * (1.0 + (room / longest).ln())),
        false => room,
    };
    let expected: f64 = open.iter().map(|(room, n)| n * beyond(*room)).sum();
    let rooms: f64 = open.iter().map(|(room, _)| room).sum();
    (expected / (effective.max(0.0) + 1.0)).min(rooms)
}

/// The inverse of a positive definite matrix.
fn invert([[a, b], [_, d]]: [[f64; N]; N]) -> [[f64; N]; N] {
    let determinant = a * d - b * b;
    [[d / determinant, -b / determinant], [-b / determinant, a / determinant]]
}
