//! Ticks of the GPU and nanoseconds of the host. Owns frequencies, sampling exponents, and the
//! placing of a report's short timestamp on the host's clock; refuses to read any clock.
#![forbid(unsafe_code)]

use clscope_sensors::units::{RawNs, Stamp};
use std::collections::VecDeque;

/// Nanoseconds of `ticks` at `hz`, rounded down; held at the end of the range; `None` where `hz` is
/// 0.
pub fn ticks_to_ns(ticks: u64, hz: u64) -> Option<u64> {
    (hz > 0).then(|| {
        u64::try_from(u128::from(ticks) * 1_000_000_000 / u128::from(hz)).unwrap_or(u64::MAX)
    })
}

/// Ticks in `ns` at `hz`, rounded down; held at the end of the range.
pub fn ns_to_ticks(ns: u64, hz: u64) -> u64 {
    u64::try_from(u128::from(ns) * u128::from(hz) / 1_000_000_000).unwrap_or(u64::MAX)
}

/// The largest exponent both drivers take.
pub const MAX_EXPONENT: u32 = 31;

/// The sampling period of an exponent in nanoseconds: `2^(exponent + 1) / hz`. `None` where `hz` is
/// 0 or the exponent is too large.
pub fn period_ns(exponent: u32, hz: u64) -> Option<u64> {
    if exponent > MAX_EXPONENT { None } else { ticks_to_ns(1 << (exponent + 1), hz) }
}

/// The exponent whose period is the longest that is not longer than `wanted_ns`, with that period;
/// the shortest there is where none is short enough.
pub fn exponent_for(wanted_ns: u64, hz: u64) -> Option<(u32, u64)> {
    let fits = |e: &u32| period_ns(*e, hz).is_some_and(|p| p <= wanted_ns);
    let exponent = (0..=MAX_EXPONENT).rev().find(fits).unwrap_or(0);
    Some((exponent, period_ns(exponent, hz)?))
}

/// Why a command streamer's ticks cannot be carried over to the OA unit's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the OA timestamp runs at {oa_hz} Hz and the engine's at {engine_hz} Hz: no power of two apart, so that the one does not give the other"
)]
pub struct Unrelated {
    /// Frequency of the OA timestamp.
    pub oa_hz: u64,
    /// Frequency of the engine's.
    pub engine_hz: u64,
}

/// How far the engine's timestamp is shifted against the OA unit's: on DG2 and Meteor Lake the unit
/// ignores the shift, and the kernel's OA frequency is a power of two above the engine's.
///
/// # Errors
/// [`Unrelated`].
pub fn engine_shift(oa_hz: u64, engine_hz: u64) -> Result<u32, Unrelated> {
    (0..=3)
        .find(|s| engine_hz > 0 && engine_hz.checked_shl(*s) == Some(oa_hz))
        .ok_or(Unrelated { oa_hz, engine_hz })
}

/// The host's clock and the GPU's, read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockPair {
    /// The host's clock before and after.
    pub host: Stamp,
    /// The GPU's, in ticks of the OA timestamp (see [`engine_shift`]), as many bits as `bits` says.
    pub ticks: u64,
    /// Bits the ticks have.
    pub bits: u32,
}

/// Of several readings of both clocks, the one in the narrowest bracket.
pub fn narrowest(tries: &[ClockPair]) -> Option<ClockPair> {
    tries.iter().min_by_key(|p| p.host.uncertainty_ns()).copied()
}

/// Places OA timestamps on the host's clock by pairs of both, taken about once a second.
#[derive(Clone, Debug)]
pub struct Placement {
    hz: u64,
    /// Newest last; ticks are unwrapped.
    pairs: VecDeque<(Stamp, u64)>,
    /// Parts per million by which the nominal frequency may err.
    ppm: u64,
}

impl Placement {
    /// Pairs kept: a minute of them.
    const KEPT: usize = 64;

    /// For a clock of `hz`, nominally.
    pub fn new(hz: u64) -> Placement {
        // Crystals are specified to some tens of ppm; only the time since the nearest pair is
        // stretched.
        Placement { hz: hz.max(1), pairs: VecDeque::new(), ppm: 100 }
    }

    /// Takes a pair. A wrapped counter is unwrapped against the pair before, by the nominal
    /// frequency.
    pub fn add(&mut self, pair: ClockPair) {
        let ticks = match self.pairs.back() {
            None => pair.ticks,
            Some((stamp, ticks)) => {
                let passed = ns_to_ticks(pair.host.mid().since(stamp.mid()), self.hz);
                nearest(ticks.wrapping_add(passed), pair.ticks, pair.bits)
            }
        };
        if self.pairs.len() == Self::KEPT {
            self.pairs.pop_front();
        }
        self.pairs.push_back((pair.host, ticks));
    }

    /// Whether there is none, so that nothing can be placed.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Where a timestamp of `bits` bits, seen at about `seen`, stands on the host's clock. Between
    /// two pairs it is interpolated; outside them carried on at the nominal frequency, with what
    /// that may err.
    pub fn place(&self, raw: u64, bits: u32, seen: RawNs) -> Option<Stamp> {
        let after = self.pairs.partition_point(|(s, _)| s.mid() <= seen);
        let (stamp, ticks) = self.pairs.get(after.saturating_sub(1))?;
        let expected = match (seen.since(stamp.mid()), stamp.mid().since(seen)) {
            (after, 0) => ticks.wrapping_add(ns_to_ticks(after, self.hz)),
            (_, before) => ticks.wrapping_sub(ns_to_ticks(before, self.hz)),
        };
        self.place_unwrapped(nearest(expected, raw, bits))
    }

    fn place_unwrapped(&self, ticks: u64) -> Option<Stamp> {
        let next = self.pairs.partition_point(|(_, t)| *t <= ticks);
        let behind = next.checked_sub(1).and_then(|i| self.pairs.get(i));
        let ahead = self.pairs.get(next);
        let (mid, error) = match (behind, ahead) {
            (Some((a, ta)), Some((b, tb))) => {
                let whole = u128::from(tb - ta).max(1);
                let ns = u128::from(b.mid().since(a.mid())) * u128::from(ticks - ta) / whole;
                let ns = u64::try_from(ns).unwrap_or(u64::MAX);
                (a.mid().plus(ns), a.uncertainty_ns().max(b.uncertainty_ns()))
            }
            (Some((a, ta)), None) => {
                let (ns, error) = self.carried_on(ticks - ta)?;
                (a.mid().plus(ns), a.uncertainty_ns() + error)
            }
            (None, Some((b, tb))) => {
                let (ns, error) = self.carried_on(tb - ticks)?;
                (RawNs(b.mid().0.saturating_sub(ns)), b.uncertainty_ns() + error)
            }
            (None, None) => return None,
        };
        Some(Stamp { before: RawNs(mid.0.saturating_sub(error)), after: mid.plus(error) })
    }

    /// Nanoseconds of `ticks` outside all pairs, and what they may err: by the rate that the pairs
    /// show, if they span half a second or more, else by the nominal frequency.
    fn carried_on(&self, ticks: u64) -> Option<(u64, u64)> {
        const SPAN_NS: u64 = 500_000_000;
        if let (Some((a, ta)), Some((b, tb))) = (self.pairs.front(), self.pairs.back()) {
            let (span, whole) = (b.mid().since(a.mid()), tb.saturating_sub(*ta));
            if span >= SPAN_NS && whole > 0 {
                let scaled = |n: u64| {
                    u64::try_from(u128::from(n) * u128::from(ticks) / u128::from(whole))
                        .unwrap_or(u64::MAX)
                };
                // The rate errs by what the two ends may; a crystal wanders by a part in a million
                // beside.
                let ns = scaled(span);
                return Some((
                    ns,
                    scaled(a.uncertainty_ns() + b.uncertainty_ns()).saturating_add(ns / 1_000_000),
                ));
            }
        }
        let ns = ticks_to_ns(ticks, self.hz)?;
        Some((ns, ns / (1_000_000 / self.ppm)))
    }
}

/// The value nearest to `expected` whose low `bits` bits are those of `raw`.
fn nearest(expected: u64, raw: u64, bits: u32) -> u64 {
    if bits >= 64 {
        return raw;
    }
    let range = 1u64 << bits;
    let mask = range - 1;
    let ahead = raw.wrapping_sub(expected) & mask;
    if ahead <= range / 2 || expected < range - ahead {
        expected.wrapping_add(ahead)
    } else {
        expected - (range - ahead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn periods_are_those_of_the_kernel() {
        // 12 MHz (Gen9): exponents 6, 12 and 16.
        assert_eq!(period_ns(6, 12_000_000), Some(10_666));
        assert_eq!(period_ns(12, 12_000_000), Some(682_666));
        assert_eq!(period_ns(16, 12_000_000), Some(10_922_666));
        assert_eq!(period_ns(32, 12_000_000), None);
        assert_eq!(period_ns(1, 0), None);
        let table = [
            (1_000_000, Some((12, 682_666))),
            (682_666, Some((12, 682_666))),
            (682_665, Some((11, 341_333))),
            (1, Some((0, 166))),
        ];
        for (wanted, want) in table {
            assert_eq!(exponent_for(wanted, 12_000_000), want, "{wanted}");
        }
        assert_eq!(exponent_for(u64::MAX, 12_000_000).map(|e| e.0), Some(31));
        // The wraps of HARDWARE's table: 357.9 s at 12 MHz.
        assert_eq!(ticks_to_ns(1 << 32, 12_000_000).map(|ns| ns / 100_000_000), Some(3579));
    }

    #[test]
    fn shifts_are_powers_of_two() {
        assert_eq!(engine_shift(12_000_000, 12_000_000), Ok(0));
        assert_eq!(engine_shift(38_400_000, 19_200_000), Ok(1));
        assert_eq!(
            engine_shift(19_200_000, 38_400_000),
            Err(Unrelated { oa_hz: 19_200_000, engine_hz: 38_400_000 })
        );
        assert!(engine_shift(0, 0).is_err());
    }

    #[test]
    fn short_timestamps_find_their_place() {
        let hz = 12_000_000;
        let mut placement = Placement::new(hz);
        let pair = |second: u64, ticks: u64| ClockPair {
            host: Stamp {
                before: RawNs(second * 1_000_000_000 - 500),
                after: RawNs(second * 1_000_000_000 + 500),
            },
            ticks: ticks & ((1 << 36) - 1),
            bits: 36,
        };
        // 36 bits wrap between the two pairs.
        let start = (1u64 << 36) - 6_000_000;
        placement.add(pair(100, start));
        placement.add(pair(101, start + hz));
        let at =
            |ticks: u64, seen: u64| placement.place(ticks & 0xffff_ffff, 32, RawNs(seen)).unwrap();
        let middle = at(start + hz / 2, 100_400_000_000);
        assert_eq!((middle.mid(), middle.uncertainty_ns()), (RawNs(100_500_000_000), 500));
        let later = at(start + 3 * hz, 102_500_000_000);
        assert_eq!(later.mid(), RawNs(103_000_000_000));
        // Two seconds at a rate known to 1000 ns in one, and a part in a million.
        assert_eq!(later.uncertainty_ns(), 500 + 2000 + 2000);
        let earlier = at(start - hz, 99_900_000_000);
        assert_eq!(earlier.mid(), RawNs(99_000_000_000));
        assert_eq!(Placement::new(hz).place(1, 32, RawNs(0)), None);
    }

    #[test]
    fn a_crystal_off_its_nominal_frequency_is_followed() {
        // 80 parts in a million fast.
        let (hz, real) = (12_000_000u64, 12_000_960u64);
        let mut placement = Placement::new(hz);
        let pair = |second: u64| ClockPair {
            host: Stamp::exact(RawNs(second * 1_000_000_000)),
            ticks: second * real,
            bits: 36,
        };
        placement.add(pair(10));
        // With one pair only the nominal frequency is known, and the error covers what it is off.
        let alone = placement.place((11 * real) & 0xffff_ffff, 32, RawNs(11_000_000_000)).unwrap();
        assert!(
            alone.before.0 <= 11_000_000_000
                && 11_000_000_000 <= alone.after.0
                && alone.mid() != RawNs(11_000_000_000),
            "{alone:?}"
        );
        placement.add(pair(11));
        let next = placement.place((12 * real) & 0xffff_ffff, 32, RawNs(12_000_000_000)).unwrap();
        assert_eq!((next.mid(), next.uncertainty_ns()), (RawNs(12_000_000_000), 1000));
    }

    #[test]
    fn the_narrowest_try_wins() {
        let pair = |before, after| ClockPair {
            host: Stamp { before: RawNs(before), after: RawNs(after) },
            ticks: before,
            bits: 36,
        };
        assert_eq!(narrowest(&[pair(0, 90), pair(100, 110), pair(200, 260)]), Some(pair(100, 110)));
        assert_eq!(narrowest(&[]), None);
    }

    proptest! {
        #[test]
        fn nearest_is_near(expected in 0u64..1 << 62, raw in any::<u64>(), bits in 1u32..63) {
            let got = nearest(expected, raw, bits);
            let mask = (1u64 << bits) - 1;
            prop_assert_eq!(got & mask, raw & mask);
            prop_assert!(got.abs_diff(expected) <= 1 << (bits - 1) || expected < 1 << bits);
        }

        /// A chosen period is never longer than wanted, unless the shortest is.
        #[test]
        fn exponents_keep_their_promise(wanted in 1u64..u64::MAX, hz in 1u64..1_000_000_000) {
            let (exponent, period) = exponent_for(wanted, hz).unwrap();
            prop_assert!(period <= wanted || exponent == 0);
            if let Some(next) = period_ns(exponent + 1, hz) {
                prop_assert!(next > wanted || exponent == 0);
            }
        }
    }
}
