//! Owns the mathematics of clock alignment: bounds of an unknown offset at many times in, pieces
//! with a band out. Knows no traces. x is device time, y the offset host - device, both in
//! nanoseconds from an origin the caller chose.
//!
//! The offset is taken to drift at a steady rate that wanders by at most [`WANDER`]; a piece is a
//! stretch in which one such offset meets all bounds. The band at x holds every offset that does:
//! from each bound a cone opens at the rates that are possible, and the band is where all cones
//! overlap. So its half-width is a true bound as long as the rate wanders no more, and its middle
//! rises no faster than a possible clock, which keeps spans in order.
//!
//! A bound may be false (a host time taken too early or too late). A few that contradict all others
//! are left out before a step is believed, and a step needs [`SUPPORT`] bounds on either side.

use std::cell::Cell;
use std::collections::HashSet;

/// How much the rate of a clock may wander within a piece, relative: crystals move by about 0.1 ppm
/// while they warm up.
pub const WANDER: f64 = 2e-7;
/// Largest drift believed, relative: twice what NTP may slew.
pub const MOST_DRIFT: f64 = 1e-3;
/// Bounds that a stretch between steps must have: fewer are taken for false.
pub const SUPPORT: usize = 8;
/// Part of the bounds that may be false, and the number that may be in any case.
const FALSE_PART: usize = 100;
const FALSE_FEW: usize = 3;
/// Most pieces of one clock before it is taken as no clock at all.
const MOST_PIECES: usize = 256;

/// Points that all fits of a trace may look at together: two to four seconds.
const EFFORT: u64 = 400_000_000;

/// What all fits of a trace may take together, in points looked at.
/// Bounds that no clock explains would have every stretch tried with ever more of them left out,
/// which is quadratic in their number and again in that of the stretches.
#[derive(Debug)]
pub struct Effort(Cell<u64>);

impl Effort {
    /// Of one trace.
    pub const fn of_a_trace() -> Self {
        Self(Cell::new(EFFORT))
    }

    /// `None` once it is spent.
    fn spend(&self, points: usize) -> Option<()> {
        let left = self.0.get().checked_sub(points as u64);
        self.0.set(left.unwrap_or(0));
        left.map(|_| ())
    }
}

/// The offset at `x` is between `low` and `high`; either may be infinite.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    pub x: f64,
    pub low: f64,
    pub high: f64,
}

/// A stretch of device time with one steady clock.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece {
    /// From here on the piece holds, up to the next one's `from`.
    pub from: f64,
    /// Where the bounds it was made of begin and end: between `from` and the first, it is a guess
    /// which side holds.
    pub first: f64,
    pub last: f64,
    /// Drift: change of the offset per nanosecond of device time.
    pub drift: f64,
    /// How far the drift may be off.
    pub spread: f64,
    /// (x, lowest, highest) offset at the bounds.
    knots: Vec<(f64, f64, f64)>,
}

impl Piece {
    /// Lowest and highest possible offset at `x`.
    pub fn band(&self, x: f64, hint: &mut usize) -> (f64, f64) {
        let n = self.knots.len();
        let inside =
            |i: usize| i < n && self.knots[i].0 <= x && (i + 1 == n || x < self.knots[i + 1].0);
        if !inside(*hint) {
            *hint = self.knots.partition_point(|k| k.0 <= x).saturating_sub(1);
        }
        let (slow, fast) = (self.drift - self.spread, self.drift + self.spread);
        let after = |k: &(f64, f64, f64)| (k.1 + slow * (x - k.0), k.2 + fast * (x - k.0));
        let before = |k: &(f64, f64, f64)| (k.1 - fast * (k.0 - x), k.2 - slow * (k.0 - x));
        match (self.knots.get(*hint), self.knots.get(*hint + 1)) {
            (Some(k), _) if x < k.0 => before(k),
            (Some(k), Some(next)) => {
                let (a, b) = (after(k), before(next));
                (a.0.max(b.0), a.1.min(b.1))
            }
            (Some(k), None) => after(k),
            (None, _) => (f64::NEG_INFINITY, f64::INFINITY),
        }
    }
}

/// The hulls that decide which straight lines meet all bounds.
#[derive(Clone)]
struct Hulls {
    low: Vec<(f64, f64)>,
    high: Vec<(f64, f64)>,
}

impl Hulls {
    /// `None` where no effort is left for them.
    fn new(bounds: &[Bound], effort: &Effort) -> Option<Self> {
        let hulls = Self::build(bounds);
        hulls.pay(bounds.len(), effort)?;
        Some(hulls)
    }

    /// Whatever the effort.
    fn build(bounds: &[Bound]) -> Self {
        Self { low: Self::low(bounds), high: Self::high(bounds) }
    }

    /// `None` where no effort is left for hulls of so many bounds. It is counted as if all were
    /// looked at, whatever was spared: what a trace is given up for does not depend on that.
    fn pay(&self, bounds: usize, effort: &Effort) -> Option<()> {
        effort.spend(bounds)?;
        effort.spend(self.points_of_searches())
    }

    /// Points that finding the best slope and the feasible ones looks at.
    fn points_of_searches(&self) -> usize {
        // Each of 260 rooms is a search by halves on either hull; the tightest are 4 passes.
        let halves = |n: usize| (usize::BITS - n.leading_zeros()) as usize;
        (halves(self.low.len()) + halves(self.high.len())) * 260
            + (self.low.len() + self.high.len()) * 4
    }

    /// Upper hull of the low bounds.
    fn low(bounds: &[Bound]) -> Vec<(f64, f64)> {
        Self::chain(Vec::new(), Self::lows(bounds), 1.0)
    }

    /// Lower hull of the high bounds.
    fn high(bounds: &[Bound]) -> Vec<(f64, f64)> {
        Self::chain(Vec::new(), Self::highs(bounds), -1.0)
    }

    fn lows(bounds: &[Bound]) -> impl Iterator<Item = (f64, f64)> + '_ {
        bounds.iter().filter(|b| b.low.is_finite()).map(|b| (b.x, b.low))
    }

    fn highs(bounds: &[Bound]) -> impl Iterator<Item = (f64, f64)> + '_ {
        bounds.iter().filter(|b| b.high.is_finite()).map(|b| (b.x, b.high))
    }

    /// These hulls with the bounds that follow those they were made of.
    fn extended(&self, more: &[Bound]) -> Self {
        Self {
            low: Self::chain(self.low.clone(), Self::lows(more), 1.0),
            high: Self::chain(self.high.clone(), Self::highs(more), -1.0),
        }
    }

    /// Adds points to a hull by Andrew's monotone chain; x is sorted, and behind that of the hull.
    fn chain(
        mut hull: Vec<(f64, f64)>,
        points: impl Iterator<Item = (f64, f64)>,
        sign: f64,
    ) -> Vec<(f64, f64)> {
        for p in points {
            Self::link(&mut hull, p, sign);
        }
        hull
    }

    #[inline]
    fn link(hull: &mut Vec<(f64, f64)>, p: (f64, f64), sign: f64) {
        while let [.., a, b] = hull[..] {
            if sign * ((b.0 - a.0) * (p.1 - a.1) - (b.1 - a.1) * (p.0 - a.0)) >= 0.0 {
                hull.pop();
            } else {
                break;
            }
        }
        hull.push(p);
    }

    /// These hulls without one bound: the low or the high one at `x`, which `bounds` hold no more.
    fn without(&self, bounds: &[Bound], low: bool, x: f64) -> Self {
        let after = |x: f64| &bounds[bounds.partition_point(|b| b.x <= x)..];
        let before = |hull: &[(f64, f64)]| {
            let at = hull.partition_point(|p| p.0 < x);
            after(at.checked_sub(1).map_or(f64::NEG_INFINITY, |i| hull[i].0))
        };
        if low {
            let points = Self::lows(before(&self.low));
            Self { low: Self::lacking(&self.low, x, points, 1.0), high: self.high.clone() }
        } else {
            let points = Self::highs(before(&self.high));
            Self { low: self.low.clone(), high: Self::lacking(&self.high, x, points, -1.0) }
        }
    }

    /// A hull without its point at `x`, of the points that follow the one before that. It is the
    /// very one that a chain of all points gives: what lies before the point stays, and so does
    /// what lies behind two neighbours that are neighbours again, for only these two decide which
    /// points are linked to them.
    fn lacking(
        hull: &[(f64, f64)],
        x: f64,
        points: impl Iterator<Item = (f64, f64)>,
        sign: f64,
    ) -> Vec<(f64, f64)> {
        let gone = hull.partition_point(|p| p.0 < x);
        let mut out = hull[..gone].to_vec();
        // The next point of the old hull that may have its old neighbour before it.
        let mut next = gone + 2;
        for p in points {
            Self::link(&mut out, p, sign);
            while hull.get(next).is_some_and(|old| old.0 < p.0) {
                next += 1;
            }
            if hull.get(next) == Some(&p)
                && out.len().checked_sub(2).map(|i| out[i]) == Some(hull[next - 1])
            {
                out.extend_from_slice(&hull[next + 1..]);
                return out;
            }
        }
        out
    }

    /// Room between the lines of this slope through the tightest bounds, negative where no such
    /// line meets them all. Concave in the slope.
    fn room(&self, slope: f64) -> f64 {
        let low = Self::farthest(&self.low, slope, 1.0).unwrap_or(f64::NEG_INFINITY);
        let high = Self::farthest(&self.high, slope, -1.0).unwrap_or(f64::INFINITY);
        high - low
    }

    /// Where the line of this slope that touches the hull meets x = 0; `None` of an empty one. The
    /// slopes of a hull's edges are in order, so that the point is found by halving.
    fn farthest(hull: &[(f64, f64)], slope: f64, sign: f64) -> Option<f64> {
        let (mut from, mut to) = (0, hull.len().checked_sub(1)?);
        while from < to {
            let middle = from.midpoint(to);
            let (a, b) = (hull.get(middle)?, hull.get(middle + 1)?);
            if sign * ((b.1 - a.1) - slope * (b.0 - a.0)) > 0.0 {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        hull.get(from).map(|p| p.1 - slope * p.0)
    }

    /// The slope with most room, and that room.
    fn best(&self) -> (f64, f64) {
        if self.low.is_empty() || self.high.is_empty() {
            return (0.0, f64::INFINITY);
        }
        let (mut a, mut b) = (-MOST_DRIFT, MOST_DRIFT);
        for _ in 0..70 {
            let (c, d) = (a + (b - a) / 3.0, b - (b - a) / 3.0);
            if self.room(c) < self.room(d) { a = c } else { b = d }
        }
        let slope = (a + b) / 2.0;
        (slope, self.room(slope))
    }

    /// The low and the high bounds that leave least room near a slope: removing any other changes
    /// nothing.
    fn tightest(&self, slope: f64) -> Vec<(bool, f64)> {
        let mut out: Vec<(bool, f64)> = Vec::with_capacity(4);
        // Where two of a kind share the last word, a small step to either side separates them
        // apart.
        for slope in [slope - 1e-12, slope + 1e-12] {
            let at = |p: &(f64, f64)| p.1 - slope * p.0;
            let low = self.low.iter().max_by(|a, b| at(a).total_cmp(&at(b))).map(|p| (true, p.0));
            let high =
                self.high.iter().min_by(|a, b| at(a).total_cmp(&at(b))).map(|p| (false, p.0));
            for found in low.into_iter().chain(high) {
                if !out.contains(&found) {
                    out.push(found);
                }
            }
        }
        out
    }

    /// The slopes with room, given one of them.
    fn feasible(&self, slope: f64) -> (f64, f64) {
        let edge = |mut inside: f64, mut outside: f64| {
            if self.room(outside) >= 0.0 {
                return outside;
            }
            for _ in 0..60 {
                let middle = (inside + outside) / 2.0;
                if self.room(middle) >= 0.0 { inside = middle } else { outside = middle }
            }
            inside
        };
        (edge(slope, -MOST_DRIFT), edge(slope, MOST_DRIFT))
    }
}

/// The slope that satisfies the bounds best, for thinning them.
pub fn best_slope(bounds: &[Bound]) -> f64 {
    Hulls { low: Hulls::low(bounds), high: Hulls::high(bounds) }.best().0
}

/// Band of all offsets whose rate stays within `drift +- spread`; `None` where the bounds
/// contradict each other.
fn sweep(bounds: &[Bound], drift: f64, spread: f64) -> Option<Vec<(f64, f64, f64)>> {
    let (slow, fast) = (drift - spread, drift + spread);
    let mut knots: Vec<(f64, f64, f64)> = Vec::with_capacity(bounds.len());
    for b in bounds {
        let (mut low, mut high) = (b.low, b.high);
        if let Some(&(x, l, h)) = knots.last() {
            low = low.max(l + slow * (b.x - x));
            high = high.min(h + fast * (b.x - x));
        }
        // A billionth of a nanosecond per nanosecond of origin is rounding, not contradiction.
        if low > high + 1e-3 {
            return None;
        }
        knots.push((b.x, low, high.max(low)));
    }
    for i in (1..knots.len()).rev() {
        let (x, l, h) = knots[i];
        let k = &mut knots[i - 1];
        k.1 = k.1.max(l - fast * (x - k.0));
        k.2 = k.2.min(h - slow * (x - k.0)).max(k.1);
    }
    Some(knots)
}

/// Multiples of [`WANDER`] that are tried where a straight line does not meet all bounds.
const WANDERS: [f64; 3] = [2.0, 8.0, 32.0];

/// One piece over all the bounds, if a clock satisfies them that wanders by at most the first
/// `most` of [`WANDERS`].
fn steady(bounds: &[Bound], most: usize, effort: &Effort) -> Option<Piece> {
    steady_within(&Hulls::build(bounds), bounds, most, effort)
}

/// The same, given the hulls of the bounds.
fn steady_within(hulls: &Hulls, bounds: &[Bound], most: usize, effort: &Effort) -> Option<Piece> {
    hulls.pay(bounds.len(), effort)?;
    let (best, room) = hulls.best();
    let (drift, spread, knots) = if room >= 0.0 {
        let (from, to) = hulls.feasible(best);
        let (drift, spread) = ((from + to) / 2.0, (to - from) / 2.0 + WANDER);
        (drift, spread, sweep(bounds, drift, spread)?)
    } else {
        // A clock whose rate wanders more. What just suffices is too narrow for an error bound:
        // twice that.
        let enough = WANDERS[..most]
            .iter()
            .map(|n| n * WANDER)
            .find(|s| sweep(bounds, best, *s).is_some())?;
        (best, 2.0 * enough, sweep(bounds, best, 2.0 * enough)?)
    };
    let (first, last) = (bounds.first()?.x, bounds.last()?.x);
    Some(Piece { from: f64::NEG_INFINITY, first, last, drift, spread, knots })
}

/// Length of the longest prefix that one straight line satisfies.
fn longest(bounds: &[Bound], effort: &Effort) -> usize {
    let mut good = 1.min(bounds.len());
    let mut hulls = Hulls::build(&bounds[..good]);
    // The hulls of a longer prefix, where a line meets it.
    let fits = |hulls: &Hulls, good: usize, n: usize| {
        let longer = hulls.extended(&bounds[good..n]);
        longer.pay(n, effort)?;
        Some(longer).filter(|h| h.best().1 >= 0.0)
    };
    let mut bad = bounds.len() + 1;
    let mut step = 16;
    while good + step < bad {
        if let Some(longer) = fits(&hulls, good, good + step) {
            hulls = longer;
            good += step
        } else {
            bad = good + step
        }
        step *= 2;
    }
    while good + 1 < bad {
        let middle = (good + bad) / 2;
        if let Some(longer) = fits(&hulls, good, middle) {
            hulls = longer;
            good = middle
        } else {
            bad = middle
        }
    }
    good
}

/// The bounds without the few that contradict the others, if leaving out few is enough; and how
/// many those are.
///
/// Of the bounds that decide, the one whose absence gives most room goes, until a straight line
/// meets the rest. `hulls` are those of all bounds.
fn without_false(
    mut hulls: Hulls,
    bounds: &[Bound],
    effort: &Effort,
) -> Option<(Vec<Bound>, usize)> {
    fn side(bound: &mut Bound, low: bool) -> &mut f64 {
        if low { &mut bound.low } else { &mut bound.high }
    }
    let most = (bounds.len() / FALSE_PART).max(FALSE_FEW);
    let mut kept = bounds.to_vec();
    for dropped in 0..=most {
        hulls.pay(kept.len(), effort)?;
        let (slope, room) = hulls.best();
        if room >= 0.0 {
            kept.retain(|b| b.low.is_finite() || b.high.is_finite());
            return Some((kept, dropped));
        }
        let mut best: Option<(f64, usize, bool, Hulls)> = None;
        for (low, x) in hulls.tightest(slope) {
            let index = kept.partition_point(|b| b.x < x);
            let Some(bound) = kept.get_mut(index) else { continue };
            let none = if low { f64::NEG_INFINITY } else { f64::INFINITY };
            let value = std::mem::replace(side(bound, low), none);
            let without = hulls.without(&kept, low, x);
            without.pay(kept.len(), effort)?;
            let room = without.best().1;
            *side(&mut kept[index], low) = value;
            if best.as_ref().is_none_or(|(most, ..)| room > *most) {
                best = Some((room, index, low, without));
            }
        }
        let (_, index, low, without) = best?;
        *side(&mut kept[index], low) = if low { f64::NEG_INFINITY } else { f64::INFINITY };
        hulls = without;
    }
    None
}

/// What a clock was found to be.
#[derive(Debug, Clone)]
pub struct Fit {
    /// Stretches between steps.
    pub pieces: Vec<Piece>,
    /// Bounds left out as false.
    pub left_out: usize,
}

/// Pieces over bounds sorted by x; `None` where they are no steady clock at all, or finding out
/// takes more than what is left of the effort.
pub fn fit(bounds: &[Bound], effort: &Effort) -> Option<Fit> {
    let mut kept = bounds.to_vec();
    let mut left_out = 0;
    // Each round but the last leaves out what made a stretch of its own with too little support.
    loop {
        let (pieces, weak, lost) = stretches(&kept, effort)?;
        left_out += lost;
        if weak.is_empty() || weak.len() == kept.len() {
            return Some(Fit { pieces, left_out });
        }
        left_out += weak.len();
        let mut index = 0;
        kept.retain(|_| {
            index += 1;
            !weak.contains(&(index - 1))
        });
    }
}

/// Pieces; indices of bounds whose stretch has too little support to be one; and how many bounds
/// were left out.
fn stretches(bounds: &[Bound], effort: &Effort) -> Option<(Vec<Piece>, HashSet<usize>, usize)> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut weak = HashSet::new();
    let mut rest = bounds;
    let mut from = f64::NEG_INFINITY;
    while !rest.is_empty() {
        let at = bounds.len() - rest.len();
        if rest.len() < SUPPORT && at > 0 {
            weak.extend(at..bounds.len());
        }
        // A false bound is likelier than a clock that wanders far or steps.
        let hulls = Hulls::build(rest);
        let whole = steady_within(&hulls, rest, 1, effort).map(|p| (p, 0));
        let whole = whole.or_else(|| {
            let (kept, lost) = without_false(hulls.clone(), rest, effort)?;
            Some((steady(&kept, 1, effort)?, lost))
        });
        let whole =
            whole.or_else(|| Some((steady_within(&hulls, rest, WANDERS.len(), effort)?, 0)));
        if let Some((whole, lost)) = whole {
            pieces.push(Piece { from, ..whole });
            return Some((pieces, weak, lost));
        }
        if pieces.len() >= MOST_PIECES {
            return None;
        }
        let end = longest(rest, effort);
        if end < SUPPORT {
            weak.extend(at..at + end);
        }
        // The step may lie before the bound that shows it: go back over what the next stretch also
        // explains.
        let after = &rest[end..];
        let next = end + longest(&after[..after.len().min(256)], effort);
        let least = end - end / 4;
        let mut zone = end;
        while zone > least && Hulls::new(&rest[zone - 1..next], effort)?.best().1 >= 0.0 {
            zone = zone.saturating_sub(1 + (end - zone)).max(least);
        }
        let zone = zone.clamp(1, end);
        pieces.push(Piece { from, ..steady(&rest[..zone], 1, effort)? });
        from = (rest[zone - 1].x + after.first().map_or(rest[zone - 1].x, |b| b.x)) / 2.0;
        rest = after;
    }
    if pieces.is_empty() { None } else { Some((pieces, weak, 0)) }
}

#[cfg(test)]
mod tests;
