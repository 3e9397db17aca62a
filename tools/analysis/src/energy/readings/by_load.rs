//! Places readings of a power meter whose clock is not the host's: where power follows the work of
//! the devices. Owns the search for the shift, its interval, and the drift of the meter's clock;
//! refuses to guess: what fits two places equally well has none.
//!
//! Model: watts of a reading = a + b x (share of the step before it in which a device worked), at
//! the shift with the least squares. The interval holds the shifts whose sum of squares exceeds the
//! least by no more than the 95 % quantile of chi-squared with one degree of freedom over the
//! residual variance; that variance is of as many readings as are independent, which the
//! correlation of neighbouring residuals tells (AR(1): n (1 - r) / (1 + r)).

use crate::quantile::NORMAL_95;

/// Least improvement by the load, in units of the residual variance. One shift reaches 25 by chance
/// once in two million; some thousand are tried.
const LEAST: f64 = 25.0;
/// Fewest readings.
const FEWEST: usize = 12;
/// Most readings in the search over all shifts; neighbours are averaged above.
const COARSE: usize = 3000;
/// Steps of the table of work, in each step of readings.
const FINE: f64 = 8.0;
/// Most steps of that table.
const MOST_TABLE: f64 = 4e6;

/// Where the meter's readings lie.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ByLoad {
    /// Seconds that are added to a time `at` of the meter.
    pub shift: f64,
    /// How far the shift may be off, seconds: half of its 95 % interval and half a step.
    pub within: f64,
    /// Seconds by which the host's clock gains on the meter's, each second; 0 where that is not
    /// certain.
    pub drift: f64,
    /// How far the drift may be off; `None` where the run is too short or uneven to say.
    pub drift_within: Option<f64>,
    /// The meter's time at which `shift` holds.
    pub at: f64,
    /// Share of the readings' variance that the load explains.
    pub explained: f64,
}

/// Why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum NotPlaced {
    /// Too little.
    #[error("{0} readings are too few to find the load in them")]
    Few(usize),
    /// No work.
    #[error("no device worked, so there is no load to find")]
    Idle,
    /// Power does not follow the load.
    #[error("power does not follow the load: at its best place it explains {:.0} % of the readings' variance", 100.0 * .0)]
    Unlike(f64),
    /// Several places fit.
    #[error("the load fits at two places, {:.1} s apart: it repeats", .0)]
    Two(f64),
}

impl ByLoad {
    /// A time of the meter on the host's clock, seconds.
    pub fn place(&self, time: f64) -> f64 {
        time + self.shift + self.drift * (time - self.at)
    }
}

/// Seconds of work before a time, at even steps.
struct Work {
    begin: f64,
    step: f64,
    sums: Vec<f64>,
}

impl Work {
    fn new(busy: &[(f64, f64)], step: f64) -> Option<Self> {
        let (begin, end) = (busy.first()?.0, busy.iter().map(|b| b.1).fold(f64::MIN, f64::max));
        let step = step.max((end - begin) / MOST_TABLE);
        let mut sums = vec![0.0; ((end - begin) / step).ceil() as usize + 2];
        let mut done = begin;
        for &(from, to) in busy {
            // What runs at the same time counts once.
            let from = from.max(done);
            let (mut at, mut cell) = (from, ((from - begin) / step) as usize);
            while at < to {
                let next = to.min(begin + (cell + 1) as f64 * step);
                if let Some(sum) = sums.get_mut(cell + 1) {
                    *sum += next - at;
                }
                (at, cell) = (next.max(at), cell + 1);
                if cell >= sums.len() {
                    break;
                }
            }
            done = done.max(to);
        }
        for i in 1..sums.len() {
            sums[i] += sums[i - 1];
        }
        Some(Self { begin, step, sums })
    }

    fn end(&self) -> f64 {
        self.begin + self.step * (self.sums.len() - 1) as f64
    }

    fn until(&self, time: f64) -> f64 {
        let at = ((time - self.begin) / self.step).clamp(0.0, (self.sums.len() - 1) as f64);
        let cell = at as usize;
        let low = self.sums[cell];
        self.sums.get(cell + 1).map_or(low, |high| low + (high - low) * (at - cell as f64))
    }

    fn share(&self, from: f64, to: f64) -> f64 {
        (self.until(to) - self.until(from)) / (to - from)
    }
}

/// Readings, and what they are compared with.
struct Search<'a> {
    points: &'a [(f64, f64)],
    work: &'a Work,
    step: f64,
}

impl Search<'_> {
    /// Sum of squares that the load leaves at a shift, where power rises with it.
    fn left(&self, shift: f64) -> f64 {
        self.fit(shift).map_or(f64::INFINITY, |(left, ..)| left)
    }

    /// The same with intercept and slope.
    fn fit(&self, shift: f64) -> Option<(f64, f64, f64)> {
        let n = self.points.len() as f64;
        let (mut x1, mut y1, mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for &(at, watts) in self.points {
            let x = self.work.share(at + shift - self.step, at + shift);
            (x1, y1) = (x1 + x, y1 + watts);
            (xx, xy, yy) = (xx + x * x, xy + x * watts, yy + watts * watts);
        }
        let (sxx, sxy, syy) = (xx - x1 * x1 / n, xy - x1 * y1 / n, yy - y1 * y1 / n);
        if sxx <= 1e-9 * n || sxy <= 0.0 {
            return None;
        }
        let slope = sxy / sxx;
        Some(((syy - slope * sxy).max(0.0), (y1 - slope * x1) / n, slope))
    }

    /// All squares.
    fn all(&self) -> f64 {
        let n = self.points.len() as f64;
        let mean = self.points.iter().map(|p| p.1).sum::<f64>() / n;
        self.points.iter().map(|p| (p.1 - mean).powi(2)).sum()
    }

    /// Independent readings among them, at a shift.
    fn independent(&self, shift: f64) -> f64 {
        let n = self.points.len() as f64;
        let Some((_, a, b)) = self.fit(shift) else { return n };
        let left =
            |p: &(f64, f64)| p.1 - a - b * self.work.share(p.0 + shift - self.step, p.0 + shift);
        let left: Vec<f64> = self.points.iter().map(left).collect();
        let squares: f64 = left.iter().map(|r| r * r).sum();
        let products: f64 = left.windows(2).map(|r| r[0] * r[1]).sum();
        let r = if squares > 0.0 { (products / squares).clamp(0.0, 0.95) } else { 0.0 };
        (n * (1.0 - r) / (1.0 + r) - 3.0).max(1.0)
    }

    /// The best shift of a range, tried at even distances, and between them at finer ones.
    fn best(&self, from: f64, to: f64, every: f64) -> f64 {
        let (mut best, mut least) = (from, f64::INFINITY);
        let (mut from, mut to, mut every) = (from, to, every);
        for _ in 0..4 {
            let tries = ((to - from) / every).ceil().clamp(1.0, 1e6) as usize;
            for i in 0..=tries {
                let shift = from + every * i as f64;
                let left = self.left(shift);
                if left < least {
                    (best, least) = (shift, left);
                }
            }
            (from, to) = (best - every, best + every);
            every /= 8.0;
        }
        best
    }

    /// How far a shift may be off to either side before the squares say so; at most `most`.
    fn interval(&self, best: f64, most: f64) -> f64 {
        let limit = self.left(best) * (1.0 + NORMAL_95.powi(2) / self.independent(best));
        let every = self.step / 64.0;
        let side = |sign: f64| {
            let mut off = every;
            // Geometric: an interval may be much wider than a step.
            while off < most && self.left(best + sign * off) <= limit {
                off *= 1.1;
            }
            off
        };
        side(1.0).max(side(-1.0))
    }
}

/// Finds where readings lie (time in seconds of the meter, watts; times rise; each stands for the
/// step before it), given when devices worked (seconds of the host, in order of their beginnings).
/// All shifts at which at least half of the work lies within the readings are tried.
///
/// # Errors
/// Why there is no place, or no single one.
pub fn place_by_load(points: &[(f64, f64)], busy: &[(f64, f64)]) -> Result<ByLoad, NotPlaced> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return Err(NotPlaced::Few(0));
    };
    if points.len() < FEWEST {
        return Err(NotPlaced::Few(points.len()));
    }
    let mut steps: Vec<f64> = points.windows(2).map(|p| p[1].0 - p[0].0).collect();
    let middle = steps.len() / 2;
    let step = steps.select_nth_unstable_by(middle, f64::total_cmp).1.max(1e-6);
    let work = Work::new(busy, step / FINE)
        .filter(|w| w.sums.last() > Some(&0.0))
        .ok_or(NotPlaced::Idle)?;
    let whole = Search { points, work: &work, step };
    // Few enough to try all shifts.
    let joined = points.len().div_ceil(COARSE);
    let coarse: Vec<(f64, f64)> = points
        .chunks(joined)
        .map(|c| (c[c.len() - 1].0, c.iter().map(|p| p.1).sum::<f64>() / c.len() as f64))
        .collect();
    let coarse = Search { points: &coarse, work: &work, step: step * joined as f64 };
    let half = (work.end() - work.begin) / 2.0;
    let (from, to) = (work.begin + half - last.0, work.end() - half - first.0);
    let every = coarse.step / 2.0;
    let tries = ((to - from) / every).ceil().max(1.0) as usize;
    let lefts: Vec<(f64, f64)> =
        (0..=tries).map(|i| from + every * i as f64).map(|s| (s, coarse.left(s))).collect();
    let rough = lefts.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1)).ok_or(NotPlaced::Idle)?.0;
    let shift = whole.best(rough - 2.0 * every, rough + 2.0 * every, step / 8.0);
    let (all, left) = (whole.all(), whole.left(shift));
    let explained = if all > 0.0 && left.is_finite() { 1.0 - left / all } else { 0.0 };
    let independent = whole.independent(shift);
    if explained <= 0.0 || explained * independent < LEAST * (1.0 - explained) {
        return Err(NotPlaced::Unlike(explained.max(0.0)));
    }
    let off = whole.interval(shift, last.0 - first.0);
    // Another place that fits as well, behind a worse one between.
    let limit =
        coarse.left(shift) * (1.0 + NORMAL_95.powi(2) / coarse.independent(shift).min(independent));
    let apart = |s: &f64| (s - shift).abs();
    let far = (4.0 * coarse.step).max(2.0 * off);
    let other = lefts.iter().filter(|l| l.1 <= limit && apart(&l.0) > far).map(|l| apart(&l.0));
    if let Some(apart) = other.min_by(f64::total_cmp) {
        return Err(NotPlaced::Two(apart));
    }
    let out = ByLoad {
        shift,
        within: off + step / 2.0,
        drift: 0.0,
        drift_within: None,
        at: 0.0,
        explained,
    };
    Ok(drift(&whole, out, off).unwrap_or(out))
}

/// Times that the drift is corrected and looked for again: within a half it blurs the edges.
const ROUNDS: usize = 3;

/// The drift of the meter's clock, by the shifts of both halves of the work; `None` where one of
/// them has none.
fn drift(whole: &Search<'_>, of: ByLoad, off: f64) -> Option<ByLoad> {
    let Search { work, step, .. } = *whole;
    // A clock that is a thousandth wrong moves each half by a part of this.
    let room = (4.0 * step).max(2e-3 * (work.end() - work.begin)).max(2.0 * off);
    let half = |points: &[(f64, f64)]| {
        let part = Search { points, work, step };
        let shift = part.best(of.shift - room, of.shift + room, step / 8.0);
        let (left, all) = (part.left(shift), part.all());
        let likes = points.len() >= FEWEST && all - left > LEAST * left / part.independent(shift);
        // Where its work lies: the mean time of its readings by their load.
        let share = |p: &(f64, f64)| work.share(p.0 + shift - step, p.0 + shift);
        let (sum, moment) =
            points.iter().fold((0.0, 0.0), |(s, m), p| (s + share(p), m + share(p) * p.0));
        (likes && sum > 0.0).then(|| (moment / sum, shift, part.interval(shift, room)))
    };
    // A time of the host is `rate` times one of the meter, and `base`.
    let (mut rate, mut base) = (1.0, of.shift);
    let mut within = (0.0, 0.0);
    for round in 0..ROUNDS {
        let points: Vec<(f64, f64)> =
            whole.points.iter().map(|p| (rate * p.0 + base - of.shift, p.1)).collect();
        let middle = f64::midpoint(work.begin, work.end()) - of.shift;
        let cut = points.partition_point(|p| p.0 < middle);
        let (a, b) = (half(points.get(..cut)?)?, half(points.get(cut..)?)?);
        let length = b.0 - a.0;
        if length <= 0.0 {
            return None;
        }
        let slope = (b.1 - a.1) / length;
        within = (a.2.hypot(b.2) / length, a.2.max(b.2));
        if round == 0 && slope.abs() <= within.0 {
            return Some(ByLoad { drift_within: Some(within.0), ..of });
        }
        (rate, base) =
            (rate * (1.0 + slope), (1.0 + slope) * (base - of.shift) + a.1 - slope * a.0);
    }
    let drift = rate - 1.0;
    let at = f64::midpoint(work.begin, work.end()) - of.shift;
    let (shift, within_s) = (base + drift * at, within.1 + step / 2.0);
    Some(ByLoad { shift, at, drift, drift_within: Some(within.0), within: within_s, ..of })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A generator of the same numbers for the same seed (Marsaglia 2003, xorshift64).
    struct Noise(u64);

    impl Noise {
        fn next(&mut self) -> f64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 >> 11) as f64 / (1u64 << 53) as f64
        }
    }

    /// Work of uneven bursts, and a meter of steps of `step` seconds that began `shift` before the
    /// host's 0 and whose clock runs by `drift` slow.
    fn made(seed: u64, step: f64, shift: f64, drift: f64, noise: f64) -> [Vec<(f64, f64)>; 2] {
        let mut random = Noise(seed * 2 + 1);
        let (mut busy, mut at) = (Vec::new(), 20.0);
        while at < 320.0 {
            let (on, off) = (1.0 + 9.0 * random.next(), 1.0 + 9.0 * random.next());
            busy.push((at, at + on));
            at += on + off;
        }
        let work = Work::new(&busy, 0.01).unwrap();
        let points = (1..(340.0 / step) as usize).map(|i| {
            let time = i as f64 * step;
            let host = time * (1.0 + drift) + shift;
            (time, 40.0 + 60.0 * work.share(host - step, host) + noise * (random.next() - 0.5))
        });
        [points.collect(), busy]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]
        /// The place is found within its error, wherever it is.
        #[test]
        fn readings_are_placed_by_their_load(seed in 1u64..1000, step in 0.2f64..1.5, shift in -9.0f64..9.0, noise in 0.5f64..30.0) {
            let [points, busy] = made(seed, step, shift, 0.0, noise);
            let found = place_by_load(&points, &busy).unwrap();
            prop_assert!((found.place(170.0) - 170.0 - shift).abs() <= found.within, "{found:?}, {shift}");
            prop_assert!(found.within < step, "{found:?}");
        }

        /// A clock that drifts is found out, and its readings are placed all the same.
        #[test]
        fn a_clock_that_drifts_is_told(seed in 1u64..1000, drift in 2e-3f64..4e-3) {
            let [points, busy] = made(seed, 0.5, 3.0, drift, 5.0);
            let found = place_by_load(&points, &busy).unwrap();
            let within = found.drift_within.unwrap();
            prop_assert!((found.drift - drift).abs() < 1.5 * within && within < 1e-3, "{found:?}, {drift}");
            for time in [30.0, 300.0] {
                let off = found.place(time) - time * (1.0 + drift) - 3.0;
                prop_assert!(off.abs() <= found.within, "{found:?}: {off} at {time}");
            }
        }
    }

    #[test]
    fn what_does_not_follow_the_load_or_repeats_has_no_place() {
        let [points, busy] = made(7, 1.0, 0.0, 0.0, 5.0);
        let mut random = Noise(99);
        let noise: Vec<_> = points.iter().map(|p| (p.0, random.next())).collect();
        assert!(matches!(place_by_load(&noise, &busy), Err(NotPlaced::Unlike(_))));
        assert_eq!(place_by_load(&points[..3], &busy), Err(NotPlaced::Few(3)));
        assert_eq!(place_by_load(&points, &[]), Err(NotPlaced::Idle));
        // The same burst again and again in the meter's table, and once in the trace.
        let again: Vec<_> = (0..300)
            .map(|i| (f64::from(i), if i % 20 < 5 { 90.0 } else { 40.0 } + random.next()))
            .collect();
        assert!(matches!(
            place_by_load(&again, &[(100.0, 105.0)]),
            Err(NotPlaced::Unlike(_) | NotPlaced::Two(_))
        ));
        let power = |t: f64| {
            if (100.0..105.0).contains(&t) || (200.0..205.0).contains(&t) { 90.0 } else { 40.0 }
        };
        let twice: Vec<_> =
            (0..300).map(|i| (f64::from(i), power(f64::from(i) - 0.5) + random.next())).collect();
        let found = place_by_load(&twice, &[(50.0, 55.0)]);
        assert!(
            matches!(found, Err(NotPlaced::Two(apart)) if (90.0..=110.0).contains(&apart)),
            "{found:?}"
        );
    }
}
