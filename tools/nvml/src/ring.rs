//! The driver's own ring of power samples: which of them are new, which are missing, late or
//! repeated, and when they were taken on our clock. Owns that bookkeeping; refuses to fill gaps.
#![forbid(unsafe_code)]

use crate::api::{Api, DeviceInfo, PowerSample};
use clscope_sensors::source::{
    DeviceKey, Domain, DomainId, Pace, Plane, Quantity, Reading, SensorSource, SourceHealth,
    TakeReading, Value,
};
use clscope_sensors::{Clock, Microwatts, RawNs, RealtimeNs, SensorError, Stamp};
use std::collections::VecDeque;
use std::sync::Arc;

/// Counts of what the ring gave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingCounts {
    /// Samples handed on.
    pub fresh: u64,
    /// Samples seen before, with the value they had: by design, since calls overlap.
    pub seen_again: u64,
    /// Stamps that occurred twice within one call, or again with another value: left out.
    pub duplicates: u64,
    /// Samples that appeared after newer ones had been handed on. They are handed on too.
    pub late: u64,
    /// Samples missing between neighbours, at the usual distance.
    pub missing: u64,
    /// Entries without a stamp or a power that can be.
    pub refused: u64,
    /// Times the driver's clock went back by more than the ring holds.
    pub clock_steps: u64,
}

/// Tells new samples from known ones.
#[derive(Clone, Debug)]
pub struct Ring {
    /// Stamps and values handed on, sorted; bounded.
    known: VecDeque<PowerSample>,
    period_us: u64,
    counts: RingCounts,
}

/// How often the driver is called, nanoseconds. The ring seen holds 2.4 s.
const EVERY_NS: u64 = 500_000_000;
/// Samples remembered: several rings' worth (119 where it was seen).
const REMEMBER: usize = 512;
/// Each call asks again for this much before the newest known sample, microseconds, so that late
/// ones are seen: ten samples at 20 ms.
const OVERLAP_US: u64 = 200_000;
/// A newest stamp this far before the newest known one is a clock that was set back, not a late
/// sample.
const STEP_US: u64 = 5_000_000;
/// No board draws 100 kW; the driver marks unknown values with all ones.
const MAX_MILLIWATTS: u32 = 100_000_000;

impl Default for Ring {
    fn default() -> Ring {
        Ring::new()
    }
}

impl Ring {
    /// Knowing nothing.
    pub fn new() -> Ring {
        Ring { known: VecDeque::new(), period_us: 0, counts: RingCounts::default() }
    }

    /// What to ask the driver for: samples after this stamp.
    pub fn ask_after_us(&self) -> u64 {
        self.known.back().map_or(0, |newest| newest.stamp_us.saturating_sub(OVERLAP_US))
    }

    /// What was seen so far.
    pub fn counts(&self) -> RingCounts {
        self.counts
    }

    /// Takes what one call gave, in any order; returns the samples that are new, in order of their
    /// stamps.
    pub fn push(&mut self, mut batch: Vec<PowerSample>) -> Vec<PowerSample> {
        let before = batch.len();
        batch.retain(|s| s.stamp_us > 0 && s.milliwatts <= MAX_MILLIWATTS);
        self.counts.refused += (before - batch.len()) as u64;
        batch.sort_by_key(|s| s.stamp_us);
        let given = batch.len();
        batch.dedup_by_key(|s| s.stamp_us);
        self.counts.duplicates += (given - batch.len()) as u64;
        let Some(newest_here) = batch.last() else { return Vec::new() };
        if self.known.back().is_some_and(|newest| newest_here.stamp_us + STEP_US < newest.stamp_us)
        {
            self.counts.clock_steps += 1;
            self.known.clear();
        }
        let newest = self.known.back().map(|s| s.stamp_us);
        let oldest = self.known.front().map_or(0, |s| s.stamp_us);
        let full = self.known.len() >= REMEMBER;
        let mut fresh = Vec::new();
        for sample in batch {
            let place = self.known.partition_point(|k| k.stamp_us < sample.stamp_us);
            match self.known.get(place).filter(|k| k.stamp_us == sample.stamp_us) {
                Some(known) if *known == sample => self.counts.seen_again += 1,
                Some(_) => self.counts.duplicates += 1,
                // Older than anything remembered: it may have been handed on and forgotten.
                None if full && sample.stamp_us < oldest => self.counts.seen_again += 1,
                None => {
                    if newest.is_some_and(|newest| sample.stamp_us < newest) {
                        self.counts.late += 1;
                        // It was counted missing when its neighbours came.
                        self.counts.missing = self.counts.missing.saturating_sub(1);
                    }
                    self.known.insert(place, sample);
                    fresh.push(sample);
                }
            }
        }
        self.counts.fresh += fresh.len() as u64;
        self.learn_period();
        self.count_missing(newest, &fresh);
        while self.known.len() > REMEMBER {
            self.known.pop_front();
        }
        fresh
    }

    fn learn_period(&mut self) {
        let mut gaps: Vec<u64> = self
            .known
            .iter()
            .zip(self.known.iter().skip(1))
            .map(|(a, b)| b.stamp_us - a.stamp_us)
            .collect();
        if gaps.len() >= 2 {
            gaps.sort_unstable();
            self.period_us = gaps.get(gaps.len() / 2).copied().unwrap_or(0);
        }
    }

    /// Counts holes between the newest sample known before and those that followed it.
    fn count_missing(&mut self, newest: Option<u64>, fresh: &[PowerSample]) {
        if self.period_us == 0 {
            return;
        }
        let newer = fresh.iter().map(|s| s.stamp_us).filter(|s| newest.is_none_or(|n| *s > n));
        let chain: Vec<u64> = newest.into_iter().chain(newer).collect();
        for pair in chain.windows(2) {
            let distance = pair[1] - pair[0];
            // Half a period of jitter is no hole.
            self.counts.missing +=
                ((distance + self.period_us / 2) / self.period_us).saturating_sub(1);
        }
    }
}

/// Carries driver stamps in CLOCK_REALTIME over to CLOCK_MONOTONIC_RAW by pairs of both clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Carry {
    /// Raw time of the pair before, its offset (realtime - raw), and half its width.
    last: Option<(RawNs, i128, u64)>,
    this: Option<(RawNs, i128, u64)>,
}

impl Carry {
    /// Takes a pair: the wall clock read between two looks at the raw clock.
    pub fn pair(&mut self, around: Stamp, wall: RealtimeNs) {
        let raw = around.mid();
        self.last = self.this;
        self.this = Some((raw, i128::from(wall.0) - i128::from(raw.0), around.uncertainty_ns()));
    }

    /// The raw time of a stamp between the last two pairs (or just before the first), with bounds:
    /// the pairs' widths and half of what the clocks drifted or stepped between them. `None` before
    /// any pair.
    pub fn to_raw(&self, stamp: RealtimeNs) -> Option<Stamp> {
        let (raw, offset, width) = self.this?;
        let (mut use_offset, mut error) = (offset, width);
        if let Some((raw_before, offset_before, width_before)) = self.last {
            let drift = offset - offset_before;
            let span = i128::from(raw.since(raw_before)).max(1);
            let at = (i128::from(stamp.0) - offset - i128::from(raw_before.0)).clamp(0, span);
            use_offset = offset_before + drift * at / span;
            error = width.max(width_before)
                + u64::try_from(drift.unsigned_abs() / 2).unwrap_or(u64::MAX / 4);
        } else {
            // Clocks drift apart by at most 500 ppm (the kernel's limit), over the age of the
            // sample.
            let age = (i128::from(raw.0) + offset - i128::from(stamp.0)).unsigned_abs();
            error += u64::try_from(age / 2000).unwrap_or(u64::MAX / 4);
        }
        let mid = u64::try_from(i128::from(stamp.0) - use_offset).ok()?;
        // The driver's stamp is in whole microseconds.
        let error = error.saturating_add(500);
        Some(Stamp {
            before: RawNs(mid.saturating_sub(error)),
            after: RawNs(mid.saturating_add(error)),
        })
    }
}

/// The ring of one device as a source of power readings.
pub struct PowerRing {
    api: Arc<dyn Api>,
    name: String,
    device: DeviceInfo,
    domains: [Domain; 1],
    ring: Ring,
    carry: Carry,
    unplaced: u64,
}

pub(crate) fn key(device: &DeviceInfo) -> DeviceKey {
    DeviceKey {
        pci: Some(device.pci.clone()),
        uuid: Some(device.uuid.clone()),
        name: Some(device.name.clone()),
    }
}

impl PowerRing {
    /// Opens the ring of `device`; asks for samples once to see that there is one.
    ///
    /// # Errors
    /// Where the driver has none, as a [`SensorError::Foreign`].
    pub fn open(api: Arc<dyn Api>, device: &DeviceInfo) -> Result<PowerRing, SensorError> {
        api.power_samples(device.index, 0)?;
        let domain = Domain {
            plane: Some(Plane::Gpu),
            device: Some(key(device)),
            includes: Some("the whole board, as the driver's own samples give it"),
            ..Domain::new("power-samples", Quantity::Power { window_ns: None })
        };
        Ok(PowerRing {
            name: format!("nvml:ring:{}", device.index.0),
            api,
            device: device.clone(),
            domains: [domain],
            ring: Ring::new(),
            carry: Carry::default(),
            unplaced: 0,
        })
    }
}

impl SensorSource for PowerRing {
    fn about(&self) -> (&str, &[Domain], Pace) {
        let pace = Pace { fastest_ns: EVERY_NS, slowest_ns: 2_000_000_000, adaptive: false };
        (&self.name, &self.domains, pace)
    }

    fn read(&mut self, clock: &mut dyn Clock, out: TakeReading<'_>) -> Result<(), SensorError> {
        let before = clock.raw();
        let wall = clock.realtime();
        let after = clock.raw();
        if let Some(wall) = wall {
            self.carry.pair(Stamp { before, after }, wall);
        }
        let batch = self.api.power_samples(self.device.index, self.ring.ask_after_us())?;
        for sample in self.ring.push(batch) {
            let source_time = RealtimeNs(sample.stamp_us.saturating_mul(1000));
            let Some(stamp) = self.carry.to_raw(source_time) else {
                // Without a wall clock a sample has no place on ours: better none than a wrong one.
                self.unplaced += 1;
                continue;
            };
            let value = Value::Power(Microwatts(u64::from(sample.milliwatts) * 1000));
            out(Reading {
                source_time: Some(source_time),
                ..Reading::now(DomainId(0), stamp, value)
            });
        }
        Ok(())
    }

    fn health(&self) -> SourceHealth {
        let c = self.ring.counts();
        SourceHealth {
            given: c.fresh - self.unplaced.min(c.fresh),
            duplicates: c.duplicates,
            late: c.late,
            missing: c.missing,
            refused: c.refused + self.unplaced,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample(stamp_us: u64, milliwatts: u32) -> PowerSample {
        PowerSample { stamp_us, milliwatts }
    }

    fn run(range: std::ops::Range<u64>) -> Vec<PowerSample> {
        range.map(|i| sample(1_000_000 + i * 20_000, 100_000 + i as u32)).collect()
    }

    #[test]
    fn overlapping_calls_give_each_sample_once() {
        let mut ring = Ring::new();
        assert_eq!(ring.ask_after_us(), 0);
        assert_eq!(ring.push(run(0..119)), run(0..119));
        assert_eq!(ring.push(run(110..160)), run(119..160));
        assert_eq!(ring.push(run(110..160)), []);
        assert_eq!(ring.push(Vec::new()), []);
        let counts = ring.counts();
        assert_eq!((counts.fresh, counts.seen_again), (160, 9 + 50));
        assert_eq!((counts.missing, counts.late, counts.duplicates), (0, 0, 0));
        assert_eq!(ring.period_us, 20_000);
        assert_eq!(ring.ask_after_us(), 1_000_000 + 159 * 20_000 - OVERLAP_US);
    }

    #[test]
    fn gaps_late_ones_and_doubles_are_counted() {
        let mut ring = Ring::new();
        let mut first = run(0..50);
        let late = first.remove(47);
        ring.push(first);
        assert_eq!(ring.counts().missing, 1);
        // It turns up after all.
        let mut second = run(48..60);
        second.push(late);
        assert_eq!(ring.push(second).first(), Some(&late));
        assert_eq!((ring.counts().missing, ring.counts().late), (0, 1));
        // Read too late: the ring has moved on by more than it holds.
        ring.push(run(80..100));
        assert_eq!(ring.counts().missing, 20);
        // The same stamp with two values, and entries that cannot be.
        let odd =
            vec![sample(1_000_000 + 99 * 20_000, 7), sample(0, 5), sample(3_020_000, u32::MAX)];
        assert_eq!(ring.push(odd), []);
        assert_eq!((ring.counts().duplicates, ring.counts().refused), (1, 2));
        let twice = vec![sample(3_000_000, 1), sample(3_000_000, 2)];
        assert_eq!(ring.push(twice).len(), 1);
        assert_eq!(ring.counts().duplicates, 2);
    }

    #[test]
    fn a_wall_clock_set_back_starts_anew() {
        let mut ring = Ring::new();
        ring.push(run(1000..1100));
        assert_eq!(ring.push(run(0..50)).len(), 50);
        assert_eq!((ring.counts().clock_steps, ring.counts().late), (1, 0));
    }

    #[test]
    fn stamps_carry_over_within_their_bounds() {
        // Wall = raw * (1 + 50 ppm) + 10^18.
        let wall = |raw: u64| RealtimeNs(1_000_000_000_000_000_000 + raw + raw / 20_000);
        let mut carry = Carry::default();
        assert_eq!(carry.to_raw(RealtimeNs(5)), None);
        let pair = |raw: u64| Stamp { before: RawNs(raw - 100), after: RawNs(raw + 100) };
        for (at, samples) in [
            (2_000_000_000u64, [100_000_000, 1_900_000_000]),
            (4_000_000_000, [2_300_000_000, 3_990_000_000]),
        ] {
            carry.pair(pair(at), wall(at));
            for truth in samples {
                let got = carry.to_raw(wall(truth)).unwrap();
                assert!(got.before.0 <= truth && truth <= got.after.0, "{truth} {got:?}");
            }
        }
        // Between two pairs the drift is interpolated: the bound is half of what it came to (100
        // us), and the middle is right to the width of the pairs.
        let got = carry.to_raw(wall(3_000_000_000)).unwrap();
        assert!(got.mid().0.abs_diff(3_000_000_000) < 200, "{got:?}");
        assert!(got.uncertainty_ns() < 51_000 + 700, "{got:?}");
    }

    proptest! {
        /// However a stream of samples is cut into overlapping, shuffled calls, each comes out
        /// once, and what comes out plus what is counted missing is the stream.
        #[test]
        fn each_sample_once(
            cuts in prop::collection::vec(1u64..60, 1..12),
            overlap in 0u64..10,
            holes in prop::collection::btree_set(1u64..300, 0..8),
            seed in any::<u64>(),
        ) {
            let mut ring = Ring::new();
            // Three samples first, so that the period is known.
            let mut out = ring.push(run(0..3));
            let mut at = 3u64;
            let exists = |s: &PowerSample| !holes.contains(&((s.stamp_us - 1_000_000) / 20_000)) || s.stamp_us < 1_060_000;
            for cut in &cuts {
                let mut batch: Vec<_> = run(at.saturating_sub(overlap)..at + cut).into_iter().filter(exists).collect();
                let turn = seed as usize % batch.len().max(1);
                batch.rotate_left(turn);
                out.extend(ring.push(batch));
                at += cut;
            }
            let want: Vec<_> = run(0..at).into_iter().filter(exists).collect();
            prop_assert_eq!(&out, &want);
            let last = want.last().map_or(0, |s| (s.stamp_us - 1_000_000) / 20_000 + 1);
            prop_assert_eq!(ring.counts().fresh + ring.counts().missing, last);
            prop_assert_eq!(ring.counts().duplicates, 0);
        }
    }
}
