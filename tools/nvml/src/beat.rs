//! When a driver that hands out a snapshot on a regular beat will hand out the next: owns the
//! bounds of each appearance, which every poll narrows, and the choice of when to ask. A driver
//! that keeps its beat is asked once for each snapshot, just behind it, and now and then just
//! before, to see that the beat still holds. Refuses to trust a beat that was not confirmed at both
//! ends: then it asks at both ends each time.
#![forbid(unsafe_code)]

use clscope_sensors::{RawNs, Stamp};

/// The usual period (100.05 ms on an H200).
pub(crate) const PERIOD_NS: u64 = 100_000_000;
/// Two appearances are never closer.
pub(crate) const CLOSEST_NS: u64 = 60_000_000;
/// Between questions while it is not known when the next appears, or that is overdue.
pub(crate) const FINE_NS: u64 = 4_000_000;
/// How far an appearance may be off the beat: at first, at least, and at most. A question takes
/// some 2 ms, and where in them the driver looks is not known: nothing narrower can be confirmed.
const LOOSE_NS: u64 = 4_000_000;
const TIGHT_NS: u64 = 2_000_000;
const WILD_NS: u64 = 8_000_000;
/// Snapshots after which a beat that was found is trusted, and between two confirmations from then
/// on.
const YOUNG: u32 = 12;
const CONFIRM_EVERY: u32 = 12;
/// How long behind the latest moment to ask.
const BEHIND_NS: u64 = 300_000;

/// Where, beside behind it, the next appearance is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    /// Nowhere: the beat is trusted.
    None,
    /// Where it cannot have come yet: if it has, the beat does not hold.
    Before,
    /// Where it is expected: the answer moves the beat a little to either side.
    Amid,
}

/// The beat as it is known.
#[derive(Clone, Debug)]
pub(crate) struct Beat {
    period_ns: u64,
    /// How far the next may be off, and how far it was last seen to be.
    off_ns: u64,
    floor_ns: u64,
    /// When the next is expected.
    next: Option<u64>,
    /// Snapshots since the beat was found.
    age: u32,
    /// Until here there was nothing new.
    quiet: u64,
    checked: bool,
    overdue: bool,
}

impl Beat {
    pub(crate) fn new() -> Beat {
        Beat {
            period_ns: PERIOD_NS,
            off_ns: LOOSE_NS,
            floor_ns: TIGHT_NS,
            next: None,
            age: 0,
            quiet: 0,
            checked: false,
            overdue: false,
        }
    }

    fn check(&self) -> Check {
        match self.age {
            age if age < YOUNG => [Check::Before, Check::Amid][age as usize % 2],
            age if age % CONFIRM_EVERY == 0 => Check::Before,
            age if age % CONFIRM_EVERY == CONFIRM_EVERY / 2 => Check::Amid,
            _ => Check::None,
        }
    }

    /// A question asked from `before` on found nothing new.
    pub(crate) fn same(&mut self, before: RawNs) {
        self.quiet = self.quiet.max(before.0);
        let Some(next) = self.next else { return };
        self.checked |= before.0 + self.off_ns >= next;
        self.overdue |= before.0 > next + self.off_ns;
    }

    /// A question asked from `before` on and answered at `after` found a snapshot that was not
    /// there at `quiet`. Gives the bounds of its appearance.
    pub(crate) fn new_at(&mut self, quiet: RawNs, before: RawNs, after: RawNs) -> Stamp {
        let mut found = (self.quiet.max(quiet.0).min(after.0), after.0);
        let middle = |of: (u64, u64)| of.0 + (of.1 - of.0) / 2;
        let narrow = |of: (u64, u64)| of.1 - of.0 <= 4 * FINE_NS;
        let check = self.check();
        self.age += 1;
        match self.next {
            None if narrow(found) => self.expect(middle(found), LOOSE_NS),
            None => {}
            // Asked so late that one after it may be there.
            Some(next) if next.saturating_add(self.period_ns - self.off_ns) <= after.0 => {
                let beats = (after.0 + self.off_ns - next) / self.period_ns;
                let last = next + beats * self.period_ns;
                let sure = if last + self.off_ns <= after.0 { last } else { last - self.period_ns };
                found = (
                    found.0.max(sure.saturating_sub(self.off_ns)),
                    found.1.min(last + self.off_ns),
                );
                self.next = Some(last + self.period_ns);
                self.off_ns = (self.off_ns + TIGHT_NS).min(WILD_NS);
            }
            Some(next) if self.overdue => {
                self.doubt();
                self.drift(middle(found) as i64 - next as i64, 8);
                let at = if narrow(found) { middle(found) } else { next };
                self.expect(at, (2 * self.off_ns).min(WILD_NS));
            }
            // Sooner than thought, since when is not known.
            Some(next) if !self.checked && check == Check::Before && before.0 < next => {
                self.doubt();
                self.expect(after.0.min(next), (2 * self.off_ns).min(WILD_NS));
            }
            Some(next) => {
                let off = self.off_ns;
                found = (found.0.max(next - off.min(next)), found.1.min(next + off).max(found.0));
                let error = (middle(found) as i64 - next as i64) / 4;
                self.drift(error, 8);
                if check != Check::None {
                    self.off_ns = (off * 9 / 10).max(self.floor_ns);
                    self.floor_ns = (self.floor_ns - self.floor_ns / 64).max(TIGHT_NS);
                }
                self.next = Some(next.saturating_add_signed(error) + self.period_ns);
            }
        }
        (self.quiet, self.checked, self.overdue) = (0, false, false);
        Stamp { before: RawNs(found.0), after: RawNs(found.1) }
    }

    /// The beat was not kept: it is not soon believed to be again.
    fn doubt(&mut self) {
        self.floor_ns = (self.floor_ns * 3 / 2).min(WILD_NS);
    }

    /// The beat is found anew, with an appearance at about this moment.
    fn expect(&mut self, at: u64, off_ns: u64) {
        (self.next, self.off_ns, self.age) = (Some(at + self.period_ns), off_ns, 0);
    }

    fn drift(&mut self, error_ns: i64, share: i64) {
        self.period_ns =
            self.period_ns.saturating_add_signed(error_ns / share).clamp(CLOSEST_NS, 2 * PERIOD_NS);
    }

    /// Nothing is known of the last appearance.
    pub(crate) fn forget(&mut self) {
        self.next = None;
    }

    /// How long after `now` to ask.
    pub(crate) fn wait_ns(&self, now: RawNs) -> u64 {
        let Some(next) = self.next.filter(|_| !self.overdue) else { return FINE_NS };
        let behind = next + self.off_ns + BEHIND_NS;
        let at = match self.check() {
            Check::Before if !self.checked => next - self.off_ns.min(next),
            Check::Amid if !self.checked => next.saturating_sub(TIGHT_NS / 2),
            _ => behind,
        };
        let until = |moment: u64| moment.checked_sub(now.0).filter(|wait| *wait > 0);
        until(at).or(until(behind)).unwrap_or(FINE_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Lets a driver appear at the moments given, each question taking 2 ms; gives questions per
    /// snapshot and the stamps of those found.
    fn ask(truth: &[u64]) -> (usize, Vec<(u64, Stamp)>) {
        let mut beat = Beat::new();
        let (mut now, mut asked, mut kept, mut found) = (truth[0] - 30_000_000, 0, 0, Vec::new());
        let mut previous = now;
        while now < truth[truth.len() - 1] {
            let (before, after) = (now, now + 2_000_000);
            asked += 1;
            // The driver looks in the middle of the call.
            let there = truth.partition_point(|t| *t <= now + 1_000_000);
            if there > kept {
                kept = there;
                found.push((
                    truth[there - 1],
                    beat.new_at(RawNs(previous), RawNs(before), RawNs(after)),
                ));
            } else {
                beat.same(RawNs(before));
            }
            previous = before;
            now = after + beat.wait_ns(RawNs(after));
        }
        (asked, found)
    }

    #[test]
    fn a_regular_driver_is_asked_about_once_for_each() {
        let truth: Vec<u64> =
            (1..600u64).map(|i| i * 100_050_000 + (i * 7919 % 200) * 1000).collect();
        let (asked, found) = ask(&truth);
        assert_eq!(found.len(), truth.len() - 1);
        assert!(asked * 100 <= truth.len() * 130, "{asked} for {}", truth.len());
        for (at, stamp) in &found {
            assert!(stamp.before.0 <= *at && *at <= stamp.after.0, "{stamp:?} {at}");
        }
        let tight = found.iter().filter(|(_, s)| s.after.since(s.before) <= 6_000_000).count();
        assert!(tight * 100 >= found.len() * 97, "{tight} of {}", found.len());
    }

    #[test]
    fn a_driver_that_changes_its_beat_is_followed() {
        let mut at = 100_000_000;
        let truth: Vec<u64> = (0..600u64)
            .map(|i| {
                at += if i < 300 { 100_050_000 } else { 98_000_000 };
                at
            })
            .collect();
        let (asked, found) = ask(&truth);
        assert!(
            found.len() + 3 >= truth.len() && asked * 10 <= truth.len() * 15,
            "{asked}, {} of {}",
            found.len(),
            truth.len()
        );
        let wrong = found.iter().filter(|(at, s)| !(s.before.0 <= *at && *at <= s.after.0)).count();
        assert!(wrong <= CONFIRM_EVERY as usize, "{wrong}");
    }

    proptest! {
        /// However a driver wavers, none is missed for long, and it is never asked more than while
        /// nothing is known.
        #[test]
        fn wavering_drivers_are_kept_up_with(steps in prop::collection::vec(95_000_000u64..106_000_000, 50..200)) {
            let truth: Vec<u64> = steps.iter().scan(100_000_000, |at, step| { *at += step; Some(*at) }).collect();
            let (asked, found) = ask(&truth);
            prop_assert!(found.len() * 10 >= truth.len() * 9, "{} of {}", found.len(), truth.len());
            prop_assert!(asked <= truth.len() * 6, "{asked} for {}", truth.len());
            let held = found.iter().filter(|(at, s)| s.before.0 <= *at && *at <= s.after.0).count();
            // Nine in ten are usual; of 100,000 drivers the least had one in two.
            prop_assert!(held * 10 >= found.len() * 4, "{held} of {}", found.len());
        }
    }
}
