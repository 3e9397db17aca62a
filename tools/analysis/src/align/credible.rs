//! Owns whether stamps can be times: of one command against what its kind needs at least and what
//! the host saw of it, and of a device's clock against the host's. Stubs, constants and stamps of
//! another unit than nanoseconds fail. Refuses to mend them.

use crate::time::{HostNs, Span};
use clscope_trace::record::Command;

/// Least nanoseconds of a kernel or a transfer: no memory answers sooner.
const LEAST_NS: u64 = 10;
/// Most bytes that a transfer moves in a nanosecond: more than any memory.
const MOST_BYTES_PER_NS: u64 = 100_000;
/// By how much the rate of a clock may differ from the host's, and a time from what the host saw:
/// clocks differ by parts in 10,000.
const TOLERANCE: f64 = 0.02;
/// The same as a time: reading a clock takes up to a microsecond.
const MARGIN_NS: f64 = 2_000.0;
/// Least host time between two commands that are compared.
const APART_NS: u64 = 50_000;

/// Whether so many nanoseconds fit into a time that the host saw.
fn fits(ns: u64, seen_ns: u64) -> bool {
    ns as f64 <= seen_ns as f64 * (1.0 + TOLERANCE) + MARGIN_NS
}

/// Whether a command can have run from START to END, given when its enqueue began and when the host
/// knew it complete.
#[must_use]
pub fn credible(command: &Command<'_>, stamps: [u64; 4], begin: HostNs, observed: HostNs) -> bool {
    let [_, _, start, end] = stamps;
    let ns = end.saturating_sub(start);
    if !fits(ns, observed.since(begin)) {
        return false;
    }
    let moves = command.kind.direction().is_some() && command.bytes > 0;
    let is_long = !command.kind.is_kernel() && !moves || ns >= LEAST_NS;
    is_long && (!moves || command.bytes <= ns.saturating_mul(MOST_BYTES_PER_NS))
}

/// Whether QUEUED can be a time of the command: 0 is none, and it is not before the enqueue.
#[must_use]
pub fn queued_is_known(stamps: [u64; 4], begin: HostNs, observed: HostNs) -> bool {
    let [queued, _, _, end] = stamps;
    queued > 0 && fits(end.saturating_sub(queued), observed.since(begin))
}

/// A device's clock against the host's, from commands that came one after the other.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rate {
    last: Option<(Span, u64, u64)>,
    agree: u64,
    differ: u64,
}

impl Rate {
    /// Adds a command: its START and END, and from the begin of its enqueue to when it was known
    /// complete.
    pub fn add(&mut self, [_, _, start, end]: [u64; 4], seen: Span) {
        let Some((before, first_start, first_end)) = self.last else {
            self.last = Some((seen, start, end));
            return;
        };
        let least = seen.begin.since(before.end);
        if least < APART_NS {
            return;
        }
        let most = seen.end.since(before.begin);
        let passed = end.saturating_sub(first_start);
        let idle = start as f64 - first_end as f64;
        let least = least as f64 * (1.0 - TOLERANCE) - MARGIN_NS;
        // What lies between the two is no longer than what the host saw, both together no shorter.
        let agrees = passed as f64 >= least && fits(idle.max(0.0) as u64, most);
        self.agree += u64::from(agrees);
        self.differ += u64::from(!agrees);
        self.last = Some((seen, start, end));
    }

    /// Whether it runs as the host's does, but for single steps.
    #[must_use]
    pub fn is_clock(&self) -> bool {
        self.differ <= self.agree
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Commands of 20 to 60 us, 100 us apart, so that what lies between tells as much as they, as a
    /// clock stamps them that makes `stamp` of true nanoseconds.
    fn rate(lengths: &[u64], stamp: impl Fn(u64) -> u64) -> Rate {
        let mut out = Rate::default();
        let mut at = 1_000_000u64;
        for length in lengths {
            let end = at + length;
            let seen = Span { begin: HostNs(at as i64 - 3_000), end: HostNs(end as i64 + 5_000) };
            out.add([at, at, at, end].map(&stamp), seen);
            at = end + 100_000;
        }
        out
    }

    proptest! {
        #[test]
        fn only_a_clock_of_nanoseconds_is_one(
            lengths in prop::collection::vec(20_000u64..60_000, 3..40),
            origin in 0u64..1 << 50,
            drift in -0.005f64..0.005,
            factor in prop_oneof![0.0f64..0.4, 3.0f64..5_000.0],
        ) {
            prop_assert!(rate(&lengths, |ns| origin + (ns as f64 * (1.0 + drift)) as u64).is_clock());
            prop_assert!(!rate(&lengths, |ns| origin + (ns as f64 * factor) as u64).is_clock());
            prop_assert!(!rate(&lengths, |_| origin).is_clock());
        }
    }

    #[test]
    fn a_clock_that_is_set_once_is_one() {
        let lengths = [30_000; 20];
        assert!(rate(&lengths, |ns| if ns > 1_500_000 { ns - 1_400_000 } else { ns }).is_clock());
        assert!(rate(&lengths, |ns| if ns > 1_500_000 { ns + (1 << 40) } else { ns }).is_clock());
    }
}
