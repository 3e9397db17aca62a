//! From consecutive reports to deltas and totals. Owns the wraps (32, 40 and 64 bits), what a loss
//! does to the chain, and which context an interval belongs to; refuses to evaluate anything.
#![forbid(unsafe_code)]

use crate::format::{Counter, Layout, MAX_SLOTS, TICKS_SLOT, TIME_SLOT, Ticks};
use crate::report::{Generation, Reason, Report, raw_deltas};

/// Counts of every counter of a layout between two points in time, wraps undone.
#[derive(Clone)]
pub struct Counts {
    slots: [u64; MAX_SLOTS],
    layout: &'static Layout,
}

impl PartialEq for Counts {
    fn eq(&self, other: &Counts) -> bool {
        std::ptr::eq(self.layout, other.layout) && self.slots == other.slots
    }
}

impl std::fmt::Debug for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut map = f.debug_map();
        map.entry(&"time", &self.time_ticks()).entry(&"ticks", &self.gpu_ticks());
        map.entries(
            self.layout
                .counters()
                .filter_map(|c| Some((c.to_string(), self.get(c)?)))
                .filter(|(_, n)| *n != 0),
        )
        .finish()
    }
}

impl Counts {
    /// All zero.
    pub fn zero(layout: &'static Layout) -> Counts {
        Counts { slots: [0; MAX_SLOTS], layout }
    }

    /// The layout the counts came from.
    pub fn layout(&self) -> &'static Layout {
        self.layout
    }

    /// Ticks of the OA timestamp.
    pub fn time_ticks(&self) -> u64 {
        self.slots[TIME_SLOT]
    }

    /// GPU core clocks; `None` where the format has no GPU_TICKS.
    pub fn gpu_ticks(&self) -> Option<u64> {
        (self.layout.ticks != Ticks::None).then_some(self.slots[TICKS_SLOT])
    }

    /// A counter; `None` where the format does not have it.
    pub fn get(&self, counter: Counter) -> Option<u64> {
        self.slots.get(self.layout.slot(counter)?).copied()
    }

    /// Sets a counter, for tests and for sums made elsewhere; whether the format has it.
    pub fn set(&mut self, counter: Counter, value: u64) -> bool {
        let slot = self.layout.slot(counter).and_then(|slot| self.slots.get_mut(slot));
        slot.map(|s| *s = value).is_some()
    }

    /// Sets time and GPU ticks.
    pub fn set_clocks(&mut self, time_ticks: u64, gpu_ticks: u64) {
        (self.slots[TIME_SLOT], self.slots[TICKS_SLOT]) = (time_ticks, gpu_ticks);
    }

    /// Everything in slot order: time, GPU ticks, then the counters of [`Layout::counters`].
    pub fn slots(&self) -> &[u64] {
        self.slots.get(..self.layout.slots()).unwrap_or(&self.slots)
    }

    /// Adds `other`, of the same layout; counts of another layout are left out and `false`
    /// returned.
    pub fn add(&mut self, other: &Counts) -> bool {
        let same = std::ptr::eq(self.layout, other.layout);
        if same {
            for (total, delta) in self.slots.iter_mut().zip(&other.slots) {
                *total = total.wrapping_add(*delta);
            }
        }
        same
    }
}

/// What lies between the two reports of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Continuity {
    /// Nothing: they are neighbours.
    Whole,
    /// Reports that were never written. The counts are right (counters run on); what context they
    /// belong to is not known.
    ReportsLost,
}

/// The counts between two reports.
#[derive(Clone, Copy, Debug)]
pub struct Interval<'a> {
    /// Time of the first report in OA ticks, extended over wraps of its 32 bits.
    pub begin: u64,
    /// Time of the second.
    pub end: u64,
    /// The counts.
    pub counts: &'a Counts,
    /// Whether reports are missing between the two.
    pub continuity: Continuity,
    /// The context that ran throughout, where the reports say so.
    pub context: Option<u32>,
    /// Why the second report was written.
    pub reason: Option<Reason>,
    /// The interval is so long that a 32-bit counter may have wrapped more than once.
    pub may_have_wrapped_twice: bool,
}

/// What was seen so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Reports taken.
    pub reports: u64,
    /// Reports left out because they were not written yet.
    pub unwritten: u64,
    /// Reports of the wrong size.
    pub short: u64,
    /// Times the hardware or the kernel said that reports are missing.
    pub reports_lost: u64,
    /// Times the whole buffer was lost: nothing is known about the time between.
    pub buffer_lost: u64,
    /// Intervals given.
    pub intervals: u64,
    /// Intervals long enough for a 32-bit counter to wrap twice.
    pub maybe_missed_wraps: u64,
    /// Switches of context.
    pub context_switches: u64,
}

/// Turns reports into intervals.
pub struct Accumulator {
    layout: &'static Layout,
    generation: Generation,
    /// Ticks above which a 32-bit counter may have wrapped twice.
    longest: u64,
    last: [u64; MAX_SLOTS],
    next: [u64; MAX_SLOTS],
    counts: Counts,
    has_last: bool,
    lost: bool,
    /// Time of the last report, extended.
    now: u64,
    context: Option<u32>,
    tally: Tally,
}

impl Accumulator {
    /// For reports of this layout. `hz` is the frequency of the OA timestamp, where it is known:
    /// without it intervals that are too long cannot be told.
    pub fn new(layout: &'static Layout, generation: Generation, hz: Option<u64>) -> Accumulator {
        Accumulator {
            layout,
            generation,
            // One second: GPU_TICKS wraps in 1.4 s at 3 GHz, and sums over EUs of 32 bits sooner
            // than that only where they count more than 4 events a clock.
            longest: hz.unwrap_or(u64::MAX),
            last: [0; MAX_SLOTS],
            next: [0; MAX_SLOTS],
            counts: Counts::zero(layout),
            has_last: false,
            lost: false,
            now: 0,
            context: None,
            tally: Tally::default(),
        }
    }

    /// The layout.
    pub fn layout(&self) -> &'static Layout {
        self.layout
    }

    /// What was seen so far.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Time of the last report in OA ticks: the first report's raw timestamp, extended over wraps.
    pub fn now(&self) -> Option<u64> {
        self.has_last.then_some(self.now)
    }

    /// Reports are missing before the next one.
    pub fn reports_lost(&mut self) {
        self.tally.reports_lost += 1;
        self.lost = true;
    }

    /// The buffer was lost and the unit restarted: the chain of deltas ends here.
    pub fn buffer_lost(&mut self) {
        self.tally.buffer_lost += 1;
        self.has_last = false;
        self.context = None;
    }

    /// Takes a report; gives the interval it ends, if one began before it.
    pub fn push(&mut self, bytes: &[u8]) -> Option<Interval<'_>> {
        let Some(report) = Report::new(bytes, self.layout) else {
            self.tally.short += 1;
            return None;
        };
        if report.is_unwritten() {
            self.tally.unwritten += 1;
            return None;
        }
        self.tally.reports += 1;
        report.read_into(&mut self.next);
        let reason = report.reason(self.generation);
        let context = self.context;
        self.context = self.context_after(&report, reason);
        if self.context != context {
            self.tally.context_switches += 1;
        }
        let lost = std::mem::take(&mut self.lost);
        if !std::mem::replace(&mut self.has_last, true) {
            // A new chain starts in the present: time goes on from what was, at the raw timestamp.
            self.now = match self.layout.timestamp_bits() {
                32 => ahead(self.now, self.next[TIME_SLOT]),
                _ => self.next[TIME_SLOT],
            };
            std::mem::swap(&mut self.last, &mut self.next);
            return None;
        }
        raw_deltas(self.layout, &self.last, &self.next, &mut self.counts.slots);
        std::mem::swap(&mut self.last, &mut self.next);
        let begin = self.now;
        self.now = begin.wrapping_add(self.counts.slots[TIME_SLOT]);
        let too_long = self.counts.slots[TIME_SLOT] > self.longest;
        self.tally.intervals += 1;
        self.tally.maybe_missed_wraps += u64::from(too_long);
        Some(Interval {
            begin,
            end: self.now,
            counts: &self.counts,
            continuity: if lost { Continuity::ReportsLost } else { Continuity::Whole },
            context: if lost { None } else { context },
            reason,
            may_have_wrapped_twice: too_long,
        })
    }

    /// The context that runs after this report. From graphics 12.55 on only the report of a switch
    /// that loaded a context names it; the others leave it as it was.
    fn context_after(&self, report: &Report<'_>, reason: Option<Reason>) -> Option<u32> {
        let stated = report.context(self.generation);
        match self.generation {
            Generation::Gen7 => None,
            Generation::Xe | Generation::Xe2
                if stated.is_none() && !reason.is_some_and(Reason::is_context_switch) =>
            {
                self.context
            }
            _ => stated,
        }
    }
}

/// The first value at or after `since` whose low 32 bits are those of `raw`.
fn ahead(since: u64, raw: u64) -> u64 {
    since.wrapping_add(raw.wrapping_sub(since) & 0xffff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Format, Group, Published};
    use crate::testing::{Writer, switch_id, timer_id};
    use proptest::prelude::*;

    fn a(index: u8) -> Counter {
        Counter::new(Group::A, index)
    }

    #[test]
    fn every_width_wraps_in_every_format() {
        for format in Format::ALL {
            for reading in [Published::Tables, Published::IgtTests] {
                let layout = format.layout(reading);
                // Fields that overlap cannot hold different values.
                if layout.doubt.is_some_and(|d| d.contains("overlap by")) {
                    continue;
                }
                let mut writer = Writer::new(layout);
                // All fields three below their wrap, then five further.
                writer.set_all(u64::MAX - 2);
                let first = writer.report(timer_id(), 0);
                writer.add_all(5);
                let second = writer.report(timer_id(), 0);
                let mut acc = Accumulator::new(layout, Generation::Gen9, None);
                assert!(acc.push(&first).is_none());
                let interval = acc.push(&second).unwrap();
                assert_eq!(interval.counts.time_ticks(), 5, "{}", layout.name);
                assert!(interval.counts.gpu_ticks().is_none_or(|n| n == 5), "{}", layout.name);
                for counter in layout.counters() {
                    assert_eq!(interval.counts.get(counter), Some(5), "{} {counter}", layout.name);
                }
            }
        }
    }

    #[test]
    fn losses_break_what_they_must() {
        let layout = Format::A32u40A4u32B8C8.layout(Published::Tables);
        let mut writer = Writer::new(layout);
        let mut acc = Accumulator::new(layout, Generation::Gen9, Some(12_000_000));
        let mut step = |acc: &mut Accumulator, ticks: u64| {
            writer.advance(ticks, 100);
            let report = writer.report(timer_id() | 1 << 16, 7);
            acc.push(&report)
                .map(|i| (i.counts.get(a(0)), i.continuity, i.context, i.may_have_wrapped_twice))
        };
        assert_eq!(step(&mut acc, 10), None);
        assert_eq!(step(&mut acc, 10), Some((Some(100), Continuity::Whole, Some(7), false)));
        acc.reports_lost();
        assert_eq!(step(&mut acc, 10), Some((Some(100), Continuity::ReportsLost, None, false)));
        acc.buffer_lost();
        assert_eq!(step(&mut acc, 10), None);
        assert_eq!(step(&mut acc, 12_000_001), Some((Some(100), Continuity::Whole, Some(7), true)));
        assert!(acc.push(&[0; 256]).is_none());
        assert!(acc.push(&[0; 255]).is_none());
        let tally = acc.tally();
        assert_eq!(
            (tally.reports, tally.unwritten, tally.short, tally.reports_lost, tally.buffer_lost),
            (5, 1, 1, 1, 1)
        );
        assert_eq!((tally.intervals, tally.maybe_missed_wraps), (3, 1));
    }

    #[test]
    fn time_goes_on_over_a_lost_buffer() {
        let layout = Format::A32u40A4u32B8C8.layout(Published::Tables);
        let mut writer = Writer::new(layout);
        writer.set_time(0xffff_fff0);
        let mut acc = Accumulator::new(layout, Generation::Gen9, None);
        acc.push(&writer.report(timer_id(), 0));
        acc.buffer_lost();
        writer.advance(0x20, 1);
        acc.push(&writer.report(timer_id(), 0));
        assert_eq!(acc.now(), Some(0x1_0000_0010));
    }

    #[test]
    fn contexts_follow_the_generation() {
        let layout = Format::A24u40A14u32B8C8.layout(Published::Tables);
        let valid = 1u32 << 16;
        // (id, context dword, context of the interval that ends here)
        let before = [
            (timer_id() | valid, 7, None),
            (switch_id() | valid, 9, Some(7)),
            (timer_id(), 9, Some(9)),
            (timer_id(), 9, None),
        ];
        let since = [
            (switch_id() | valid, 7, None),
            (timer_id(), 0, Some(7)),
            (timer_id(), 5, Some(7)),
            (switch_id() | valid, 9, Some(7)),
            (timer_id(), 0, Some(9)),
            (switch_id(), 0, Some(9)),
            (timer_id(), 0, None),
        ];
        for (generation, steps) in [(Generation::Gen12, &before[..]), (Generation::Xe, &since[..])]
        {
            let mut writer = Writer::new(layout);
            let mut acc = Accumulator::new(layout, generation, None);
            for (i, (id, context, want)) in steps.iter().enumerate() {
                writer.advance(10, 1);
                let got = acc.push(&writer.report(*id, *context)).map(|interval| interval.context);
                assert_eq!(got, (i > 0).then_some(*want), "{generation:?} step {i}");
            }
        }
    }

    proptest! {
        /// Leaving out reports changes no total, as long as nothing wraps twice between two of
        /// them.
        #[test]
        fn thinning_keeps_totals(
            start in any::<u64>(),
            steps in prop::collection::vec((1u64..1 << 26, 0u64..1 << 26), 2..60),
            keep in prop::collection::vec(any::<bool>(), 60),
            which in 0usize..Format::ALL.len(),
        ) {
            let layout = Format::ALL[which].layout(Published::Tables);
            let mut writer = Writer::new(layout);
            writer.set_all(start);
            let (mut all, mut some) = (Counts::zero(layout), Counts::zero(layout));
            let mut every = Accumulator::new(layout, Generation::Gen9, None);
            let mut thinned = Accumulator::new(layout, Generation::Gen9, None);
            for (i, (ticks, events)) in steps.iter().enumerate() {
                writer.advance(*ticks, *events);
                let report = writer.report(timer_id(), 0);
                if let Some(interval) = every.push(&report) {
                    prop_assert!(all.add(interval.counts));
                }
                if (i == 0 || i + 1 == steps.len() || keep[i])
                    && let Some(interval) = thinned.push(&report) {
                        some.add(interval.counts);
                    }
            }
            prop_assert_eq!(every.now(), thinned.now());
            let want: u64 = steps[1..].iter().map(|s| s.1).sum();
            for counter in layout.counters() {
                prop_assert_eq!(all.get(counter), Some(want), "{}", counter);
            }
            prop_assert_eq!(all, some);
        }

        /// Whatever the bytes are, nothing panics and time never runs back.
        #[test]
        fn any_bytes_are_taken(
            reports in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..700), 0..20),
            which in 0usize..Format::ALL.len(),
            losses in any::<u32>(),
        ) {
            let layout = Format::ALL[which].layout(Published::IgtTests);
            for generation in [Generation::Gen7, Generation::Gen8, Generation::Gen9, Generation::Xe2] {
                let mut acc = Accumulator::new(layout, generation, Some(1));
                for (i, report) in reports.iter().enumerate() {
                    match losses >> i & 3 {
                        1 => acc.reports_lost(),
                        2 => acc.buffer_lost(),
                        _ => {}
                    }
                    if let Some(interval) = acc.push(report) {
                        let length = interval.end.wrapping_sub(interval.begin);
                        prop_assert_eq!(length, interval.counts.time_ticks());
                    }
                }
                let tally = acc.tally();
                prop_assert_eq!(tally.reports + tally.short + tally.unwritten, reports.len() as u64);
            }
        }
    }
}
