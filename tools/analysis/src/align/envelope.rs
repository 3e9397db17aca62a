//! Owns the mathematics of clock alignment: bounds of an unknown offset at many times in, pieces with a band out.
//! Knows no traces. x is device time, y the offset host - device, both in nanoseconds from an origin the caller chose.
//!
//! The offset is taken to drift at a steady rate that wanders by at most [`WANDER`]; a piece is a stretch in which one
//! such offset meets all bounds. The band at x holds every offset that does: from each bound a cone opens at the rates
//! that are possible, and the band is where all cones overlap. So its half-width is a true bound as long as the rate
//! wanders no more, and its middle rises no faster than a possible clock, which keeps spans in order.

/// How much the rate of a clock may wander within a piece, relative: crystals move by about 0.1 ppm while they warm up.
pub const WANDER: f64 = 2e-7;
/// Largest drift believed, relative: twice what NTP may slew.
pub const MOST_DRIFT: f64 = 1e-3;
/// Most pieces of one clock before it is taken as no clock at all.
const MOST_PIECES: usize = 256;

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
    /// Where the bounds it was made of begin and end: between `from` and the first, it is a guess which side holds.
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
        let inside = |i: usize| i < n && self.knots[i].0 <= x && (i + 1 == n || x < self.knots[i + 1].0);
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
struct Hulls {
    low: Vec<(f64, f64)>,
    high: Vec<(f64, f64)>,
}

impl Hulls {
    fn new(bounds: &[Bound]) -> Self {
        // Upper hull of the low bounds, lower hull of the high ones (Andrew's monotone chain; x is sorted).
        fn chain(points: impl Iterator<Item = (f64, f64)>, sign: f64) -> Vec<(f64, f64)> {
            let mut hull: Vec<(f64, f64)> = Vec::new();
            for p in points {
                while let [.., a, b] = hull[..] {
                    if sign * ((b.0 - a.0) * (p.1 - a.1) - (b.1 - a.1) * (p.0 - a.0)) >= 0.0 {
                        hull.pop();
                    } else {
                        break;
                    }
                }
                hull.push(p);
            }
            hull
        }
        Self {
            low: chain(bounds.iter().filter(|b| b.low.is_finite()).map(|b| (b.x, b.low)), 1.0),
            high: chain(bounds.iter().filter(|b| b.high.is_finite()).map(|b| (b.x, b.high)), -1.0),
        }
    }

    /// Room between the lines of this slope through the tightest bounds, negative where no such line meets them all.
    /// Concave in the slope.
    fn room(&self, slope: f64) -> f64 {
        let low = self.low.iter().map(|p| p.1 - slope * p.0).fold(f64::NEG_INFINITY, f64::max);
        let high = self.high.iter().map(|p| p.1 - slope * p.0).fold(f64::INFINITY, f64::min);
        high - low
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

/// The slope that meets the bounds best, for thinning them.
pub fn best_slope(bounds: &[Bound]) -> f64 {
    Hulls::new(bounds).best().0
}

/// Band of all offsets whose rate stays within `drift +- spread`; `None` where the bounds contradict each other.
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

/// One piece over all the bounds, if a steady clock meets them.
fn piece(bounds: &[Bound]) -> Option<Piece> {
    let hulls = Hulls::new(bounds);
    let (best, room) = hulls.best();
    let (drift, spread, knots) = if room >= 0.0 {
        let (from, to) = hulls.feasible(best);
        let (drift, spread) = ((from + to) / 2.0, (to - from) / 2.0 + WANDER);
        (drift, spread, sweep(bounds, drift, spread)?)
    } else {
        // A clock whose rate wanders more. What just suffices is too tight to be honest: twice that.
        let enough = [2.0, 8.0, 32.0].into_iter().map(|n| n * WANDER).find(|s| sweep(bounds, best, *s).is_some())?;
        (best, 2.0 * enough, sweep(bounds, best, 2.0 * enough)?)
    };
    let (first, last) = (bounds.first()?.x, bounds.last()?.x);
    Some(Piece { from: f64::NEG_INFINITY, first, last, drift, spread, knots })
}

/// Length of the longest prefix that one straight line meets.
fn longest(bounds: &[Bound]) -> usize {
    let fits = |n: usize| Hulls::new(&bounds[..n]).best().1 >= 0.0;
    let mut good = 1.min(bounds.len());
    let mut bad = bounds.len() + 1;
    let mut step = 16;
    while good + step < bad {
        if fits(good + step) {
            good += step
        } else {
            bad = good + step
        }
        step *= 2;
    }
    while good + 1 < bad {
        let middle = (good + bad) / 2;
        if fits(middle) { good = middle } else { bad = middle }
    }
    good
}

/// Pieces over bounds sorted by x; `None` where they are no steady clock at all.
pub fn fit(bounds: &[Bound]) -> Option<Vec<Piece>> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut rest = bounds;
    let mut from = f64::NEG_INFINITY;
    while !rest.is_empty() {
        if let Some(whole) = piece(rest) {
            pieces.push(Piece { from, ..whole });
            return Some(pieces);
        }
        if pieces.len() >= MOST_PIECES {
            return None;
        }
        let end = longest(rest);
        // The step may lie before the bound that shows it: go back over what the next stretch also explains.
        let after = &rest[end..];
        let next = end + longest(&after[..after.len().min(256)]);
        let least = end - end / 4;
        let mut zone = end;
        while zone > least && Hulls::new(&rest[zone - 1..next]).best().1 >= 0.0 {
            zone = zone.saturating_sub(1 + (end - zone)).max(least);
        }
        let zone = zone.clamp(1, end);
        pieces.push(Piece { from, ..piece(&rest[..zone])? });
        from = (rest[zone - 1].x + after.first().map_or(rest[zone - 1].x, |b| b.x)) / 2.0;
        rest = after;
    }
    if pieces.is_empty() { None } else { Some(pieces) }
}
