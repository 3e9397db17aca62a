//! From raw counter values that wrap, stall and jump to a monotone total. Owns the arithmetic and
//! the verdict on every step; refuses to guess what happened inside a jump: it is counted, adds
//! nothing, and the total continues behind it.
#![forbid(unsafe_code)]

use crate::source::Range;
use crate::units::{EnergyUnit, Microjoules, RawNs};

/// What one more value did to the total.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The first value: the total starts at 0.
    First,
    /// Higher than before, by this many counts.
    Advanced(u64),
    /// The same as before.
    Unchanged,
    /// Lower than before, as a wrap explains it; it represents this many counts.
    Wrapped(u64),
    /// Lower than before without a wrap to explain it (reset, reload of a driver, suspend), or
    /// risen by more than the hardware can draw: nothing was added. A wrap explains it only if it
    /// fits the power drawn before.
    Jumped,
    /// The time between two values went backwards: nothing was added, the value was not kept.
    TimeBackwards,
}

/// How many of each oddity were seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepCounts {
    /// Values pushed.
    pub values: u64,
    /// Values higher than the one before.
    pub advances: u64,
    /// Wraps undone.
    pub wraps: u64,
    /// Unexplained jumps; each is a gap in the total.
    pub jumps: u64,
    /// Values whose time lay before the last one's.
    pub time_backwards: u64,
    /// Intervals long enough, at the plausible limit, for more than one wrap: the total may be
    /// short.
    pub maybe_missed_wraps: u64,
}

/// The largest mean rate so far, in counts a nanosecond, over stretches of [`Drawn::STRETCH_NS`] or
/// more between two advances: single steps jitter.
#[derive(Clone, Debug, Default)]
struct Drawn {
    from: Option<(RawNs, u128)>,
    most: Option<f64>,
}

impl Drawn {
    const STRETCH_NS: u64 = 50_000_000;

    /// The counter advanced to this total.
    fn advanced(&mut self, at: RawNs, total: u128) {
        let Some((from, before)) = self.from else {
            self.from = Some((at, total));
            return;
        };
        let passed = at.since(from);
        if passed >= Self::STRETCH_NS {
            let rate = total.saturating_sub(before) as f64 / passed as f64;
            self.most = Some(self.most.map_or(rate, |most| most.max(rate)));
            self.from = Some((at, total));
        }
    }
}

/// Adds up one counter.
#[derive(Clone, Debug)]
pub struct Accumulator {
    range: Range,
    unit: EnergyUnit,
    /// Counts a nanosecond at the plausible limit.
    limit: f64,
    /// Counts that may appear at once whatever the time between: counters advance in steps.
    slack: f64,
    last: Option<(RawNs, u64)>,
    last_advance: Option<RawNs>,
    /// The last value from before the last advance: what advances next was drawn since then.
    before_advance: RawNs,
    drawn: Drawn,
    total: u128,
    counts: StepCounts,
}

impl Accumulator {
    /// The most a single domain is believed to draw. The largest accelerators and server packages
    /// of today stay under 3 kW; ten times typical leaves room and still catches every reset of a
    /// counter that ran for longer than seconds.
    pub const PLAUSIBLE_WATTS: f64 = 10_000.0;

    /// The longest update step that is allowed for: a value may hold what was drawn during this
    /// span before the interval began.
    const STEP_NS: f64 = 1.1e9;

    /// A wrapped step may have been drawn at this many times the largest power before it: work may
    /// begin just as the counter wraps. A reset that looks like less than that is an error of a few
    /// steps.
    const ABOVE_DRAWN: f64 = 10.0;

    /// For a counter of `unit` and `range`, believing at most [`Accumulator::PLAUSIBLE_WATTS`].
    pub fn new(unit: EnergyUnit, range: Range) -> Accumulator {
        Accumulator::with_limit(unit, range, Self::PLAUSIBLE_WATTS)
    }

    /// As [`Accumulator::new`] with another limit, in watts.
    pub fn with_limit(unit: EnergyUnit, range: Range, watts: f64) -> Accumulator {
        let limit = watts * 1e-9 / unit.joules().0;
        Accumulator {
            range,
            unit,
            limit,
            // One count more, for units coarser than the limit's energy in a step.
            slack: limit * Self::STEP_NS + 1.0,
            last: None,
            last_advance: None,
            before_advance: RawNs(0),
            drawn: Drawn::default(),
            total: 0,
            counts: StepCounts::default(),
        }
    }

    /// Takes the value read at `at`.
    pub fn push(&mut self, at: RawNs, raw: u64) -> Step {
        self.counts.values += 1;
        let Some((then, old)) = self.last else {
            self.last = Some((at, raw));
            self.before_advance = at;
            self.drawn.advanced(at, 0);
            return Step::First;
        };
        if at < then {
            self.counts.time_backwards += 1;
            return Step::TimeBackwards;
        }
        let allowed = self.limit * at.since(then) as f64 + self.slack;
        self.last = Some((at, raw));
        let (delta, wrapped) = match self.range {
            _ if raw >= old => (raw - old, false),
            // The kernel's documented rule: range - old + new.
            Range::Wraps(range) if old <= range => ((range - old) + raw, true),
            Range::Wraps(_) | Range::Endless => return self.jumped(at),
        };
        if delta as f64 > allowed || wrapped && !self.fits(at, delta) {
            return self.jumped(at);
        }
        if let Range::Wraps(range) = self.range {
            // The plausible limit, not the slack: a step of an idle counter is no second wrap.
            if allowed - self.slack > range as f64 {
                self.counts.maybe_missed_wraps += 1;
            }
        }
        if delta == 0 && !wrapped {
            return Step::Unchanged;
        }
        self.total += u128::from(delta);
        self.counts.advances += 1;
        self.last_advance = Some(at);
        self.before_advance = then;
        self.drawn.advanced(at, self.total);
        if wrapped {
            self.counts.wraps += 1;
            Step::Wrapped(delta)
        } else {
            Step::Advanced(delta)
        }
    }

    /// The counter began anew: its power is measured from here on.
    fn jumped(&mut self, at: RawNs) -> Step {
        self.counts.jumps += 1;
        self.before_advance = at;
        self.drawn.from = Some((at, self.total));
        Step::Jumped
    }

    /// Whether so many counts may have been drawn since the last advance, by the power drawn before.
    /// Where that is not known, nothing but the plausible limit speaks against it.
    fn fits(&self, at: RawNs, delta: u64) -> bool {
        let since = at.since(self.before_advance) as f64;
        self.drawn.most.is_none_or(|most| delta as f64 <= Self::ABOVE_DRAWN * most * since + 1.0)
    }

    /// Counts since the first value.
    pub fn total_counts(&self) -> u64 {
        u64::try_from(self.total).unwrap_or(u64::MAX)
    }

    /// Energy since the first value.
    pub fn total(&self) -> Microjoules {
        self.unit.microjoules(self.total_counts())
    }

    /// How long the counter has stood still at `now`, in nanoseconds; `None` before the first
    /// value.
    pub fn still_for(&self, now: RawNs) -> Option<u64> {
        let since = self.last_advance.or(self.last.map(|(at, _)| at))?;
        Some(now.since(since))
    }

    /// What was seen so far.
    pub fn counts(&self) -> StepCounts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;

    fn microjoules(range: Range) -> Accumulator {
        Accumulator::new(EnergyUnit::MICROJOULE, range)
    }

    #[test]
    fn steps_by_table() {
        let mut acc = microjoules(Range::Wraps(262_143_328_850));
        let table = [
            (0, 262_143_000_000, Step::First),
            (1, 262_143_000_000, Step::Unchanged),
            (2, 262_143_300_000, Step::Advanced(300_000)),
            (3, 100, Step::Wrapped(28_950)),
            (3, 150, Step::Advanced(50)),
            (2, 200, Step::TimeBackwards),
            (4, 150 + 20_000_000_000_000, Step::Jumped),
            (5, 20_000_000_000_160, Step::Advanced(10)),
            // Above the range: no wrap explains the way down.
            (6, 5, Step::Jumped),
            (7, 6, Step::Advanced(1)),
        ];
        for (i, (second, raw, want)) in table.into_iter().enumerate() {
            assert_eq!(acc.push(RawNs(second * SECOND), raw), want, "row {i}");
        }
        assert_eq!(acc.total(), Microjoules(300_000 + 28_950 + 50 + 10 + 1));
        let counts = acc.counts();
        assert_eq!((counts.wraps, counts.jumps, counts.time_backwards), (1, 2, 1));
        assert_eq!(acc.still_for(RawNs(9 * SECOND)), Some(2 * SECOND));
    }

    #[test]
    fn a_reset_is_no_wrap() {
        // 200 kJ of 262 kJ used up, then 0: as a wrap it would mean 62 kJ within a second.
        let mut acc = microjoules(Range::Wraps(262_143_328_850));
        acc.push(RawNs(0), 200_000_000_000);
        assert_eq!(acc.push(RawNs(SECOND), 0), Step::Jumped);
        assert_eq!(acc.total(), Microjoules(0));
        let mut endless = microjoules(Range::Endless);
        endless.push(RawNs(0), 10);
        assert_eq!(endless.push(RawNs(SECOND), 9), Step::Jumped);
    }

    /// A step back is a wrap where the wrapped step fits the power drawn before, else a reset; near
    /// the end of the range as far from it, at any power and any rate of readings.
    #[test]
    fn a_step_back_is_a_wrap_only_if_it_fits_the_power_before() {
        let range = 262_143_328_850;
        for watts in [4u64, 40, 400] {
            for step_ns in [1_000_000u64, 20_000_000, 250_000_000] {
                let drawn = watts * step_ns / 1000;
                // Microjoules left of the range when the counter begins anew.
                for left in [drawn / 2, 50 * drawn, 1_000_000_000, range - 1000 * drawn] {
                    let mut acc = microjoules(Range::Wraps(range));
                    let start = range - left - 200 * drawn;
                    for n in 0..=200 {
                        acc.push(RawNs((n + 1) * step_ns), start + n * drawn);
                    }
                    let last = acc.push(RawNs(202 * step_ns), drawn / 3);
                    let total = acc.total().0;
                    assert!(total <= 220 * drawn, "{watts} {step_ns} {left}: {last:?}");
                    assert_eq!(matches!(last, Step::Jumped), left > 20 * drawn, "{left}: {last:?}");
                }
                // A wrap at the same power, and at three times as much.
                for times in [1, 3] {
                    let mut acc = microjoules(Range::Wraps(range));
                    let start = range - 200 * drawn - drawn / 2;
                    for n in 0..=200 {
                        acc.push(RawNs((n + 1) * step_ns), start + n * drawn);
                    }
                    let raw = times * drawn - drawn / 2;
                    let step = acc.push(RawNs(202 * step_ns), raw);
                    assert_eq!(step, Step::Wrapped(times * drawn), "{watts} W, {step_ns} ns");
                }
            }
        }
    }

    #[test]
    fn long_silence_is_flagged() {
        let mut acc = microjoules(Range::Wraps(65_532_610_987));
        acc.push(RawNs(0), 0);
        acc.push(RawNs(SECOND), 1);
        assert_eq!(acc.counts().maybe_missed_wraps, 0);
        acc.push(RawNs(60 * SECOND), 2);
        assert_eq!(acc.counts().maybe_missed_wraps, 1);
    }

    proptest! {
        /// However a run is cut into readings, and wherever the counter wraps, the total is the
        /// energy, where power varies by less than ten times.
        #[test]
        fn totals_undo_wraps(
            start in 0u64..=u64::from(u32::MAX),
            deltas in prop::collection::vec(200_000u64..2_000_000, 1..200),
        ) {
            let range = 1u64 << 32;
            let mut acc = Accumulator::new(EnergyUnit::power_of_two(14), Range::Wraps(range));
            let mut raw = start;
            acc.push(RawNs(0), raw);
            let mut at = 0;
            for delta in &deltas {
                at += SECOND;
                raw = (raw + delta) % range;
                acc.push(RawNs(at), raw);
            }
            prop_assert_eq!(acc.total_counts(), deltas.iter().sum::<u64>());
            prop_assert_eq!(acc.counts().jumps, 0);
        }

        /// Leaving out readings changes no total, as long as no two wraps fall between two of them.
        #[test]
        fn thinning_keeps_the_total(
            deltas in prop::collection::vec(100_000u64..1_000_000, 2..100),
            keep in prop::collection::vec(any::<bool>(), 100),
        ) {
            let range = 1u64 << 28;
            let unit = EnergyUnit::power_of_two(14);
            let mut all = Accumulator::new(unit, Range::Wraps(range));
            let mut some = all.clone();
            let mut raw = range - 100;
            all.push(RawNs(0), raw);
            some.push(RawNs(0), raw);
            for (i, delta) in deltas.iter().enumerate() {
                raw = (raw + delta) % range;
                let at = RawNs((i as u64 + 1) * SECOND);
                all.push(at, raw);
                if keep[i] || i + 1 == deltas.len() {
                    some.push(at, raw);
                }
            }
            prop_assert_eq!(all.total(), some.total());
        }

        /// Whatever is pushed, the total never falls and nothing panics.
        #[test]
        fn totals_are_monotone(
            wraps in prop::option::of(any::<u64>()),
            values in prop::collection::vec((any::<u64>(), any::<u64>()), 0..100),
        ) {
            let range = wraps.map_or(Range::Endless, Range::Wraps);
            let mut acc = microjoules(range);
            let mut before = acc.total_counts();
            for (at, raw) in values {
                let step = acc.push(RawNs(at), raw);
                let total = acc.total_counts();
                prop_assert!(total >= before);
                if matches!(step, Step::Jumped | Step::TimeBackwards | Step::Unchanged | Step::First) {
                    prop_assert_eq!(total, before);
                }
                before = total;
            }
        }
    }
}
