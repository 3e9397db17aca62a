//! Owns whether stamps can be times: of one command against what its kind needs at least and what
//! the host saw of it, and of a device's clock against the host's. Stubs, constants and stamps of
//! another unit than nanoseconds fail. Refuses to mend them.

use crate::time::{HostNs, Span};
use clscope_trace::record::CommandKind;

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
pub fn credible(
    (kind, bytes): (CommandKind, u64),
    stamps: [u64; 4],
    begin: HostNs,
    observed: HostNs,
) -> bool {
    let [_, _, start, end] = stamps;
    let ns = end.saturating_sub(start);
    if !fits(ns, observed.since(begin)) {
        return false;
    }
    let moves = kind.direction().is_some() && bytes > 0;
    let is_long = !kind.is_kernel() && !moves || ns >= LEAST_NS;
    is_long && (!moves || bytes <= ns.saturating_mul(MOST_BYTES_PER_NS))
}

/// Whether QUEUED can be a time of the command: 0 is none, and it is not before the enqueue.
pub fn queued_is_known(stamps: [u64; 4], begin: HostNs, observed: HostNs) -> bool {
    let [queued, _, _, end] = stamps;
    queued > 0 && fits(end.saturating_sub(queued), observed.since(begin))
}

/// How often the host's windows of two commands fit between them, before their agreement tells
/// something.
const WINDOWS: f64 = 4.0;
/// How much less time may pass between two QUEUED stamps than between the calls, where nothing else
/// tells of a clock: a runtime may stamp one late.
const QUEUED_FACTOR: f64 = 10.0;

/// A command as a clock is compared by it.
#[derive(Debug, Clone, Copy)]
struct Point {
    stamps: [u64; 4],
    /// From the begin of its enqueue to when it was known complete: START and END lie inside.
    seen: Span,
    /// When its enqueue came back.
    enqueued: HostNs,
}

impl Point {
    fn window(&self) -> f64 {
        self.seen.duration() as f64
    }
}

/// A device's clock against the host's. Between two commands as much time passes on the one as on
/// the other, give or take the windows in which the host saw them: of commands that are much longer
/// than what lies between them, those further apart tell.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rate {
    /// What the next commands are compared with.
    anchor: Option<Point>,
    agree: u64,
    differ: u64,
    /// Commands whose stamps can be times, and commands whose cannot.
    believed: u64,
    disbelieved: u64,
    /// The first command with a QUEUED, and the newest.
    queued: Option<(Point, Point)>,
}

impl Rate {
    /// Takes note of a command whose stamps cannot be times. A device of which that is so for most
    /// commands is not believed for the rest.
    pub fn disbelieve(&mut self) {
        self.disbelieved += 1;
    }

    /// Adds a command: its stamps, its enqueue call, and when it was known complete.
    pub fn add(&mut self, stamps: [u64; 4], call: Span, observed: HostNs) {
        self.believed += 1;
        let seen = Span { begin: call.begin, end: observed };
        let point = Point { stamps, seen, enqueued: call.end };
        if stamps[0] > 0 {
            self.queued = Some((self.queued.map_or(point, |(first, _)| first), point));
        }
        let Some(anchor) = self.anchor else {
            self.anchor = Some(point);
            return;
        };
        let host = |from: HostNs, to: HostNs| to.0 as f64 - from.0 as f64;
        let least = host(anchor.seen.end, seen.begin);
        let most = host(anchor.seen.begin, seen.end);
        let windows = anchor.window() + point.window();
        let fits_between = |at: usize| {
            let passed = stamps[at] as f64 - anchor.stamps[at] as f64;
            let slack = |ns: f64| ns.abs() * TOLERANCE + MARGIN_NS;
            (least - slack(least)..=most + slack(most)).contains(&passed)
        };
        let agrees = fits_between(2) && fits_between(3);
        let is_apart = least >= (APART_NS as f64).max(WINDOWS * windows);
        if !agrees {
            self.differ += 1;
            self.anchor = Some(point);
        } else if agrees && is_apart {
            self.agree += 1;
            self.anchor = Some(point);
        } else if point.window() * 2.0 < anchor.window() {
            // It tells sooner what comes behind it.
            self.anchor = Some(point);
        }
    }

    /// Whether it runs as the host's does, but for single steps, and most commands' stamps can be
    /// times.
    pub fn is_clock(&self) -> bool {
        if self.disbelieved > self.believed {
            return false;
        }
        match self.agree + self.differ {
            0 => self.is_queued_alike(),
            _ => self.differ <= self.agree,
        }
    }

    /// Whether QUEUED, which lies inside the enqueue, does not contradict it: all that there is of
    /// commands that were enqueued one after the other and waited for at once.
    fn is_queued_alike(&self) -> bool {
        let Some((first, last)) = self.queued else { return true };
        let least = last.seen.begin.since(first.enqueued);
        let passed = last.stamps[0] as f64 - first.stamps[0] as f64;
        least < APART_NS || passed * QUEUED_FACTOR >= least as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Commands that the host waits for one by one, with so many ns between them, as a clock stamps
    /// them that makes `stamp` of true nanoseconds. QUEUED is not known.
    fn rate(lengths: &[u64], apart: u64, stamp: impl Fn(u64) -> u64) -> Rate {
        let mut out = Rate::default();
        let mut at = 1_000_000u64;
        for length in lengths {
            let end = at + length;
            let call = Span { begin: HostNs(at as i64 - 3_000), end: HostNs(at as i64 + 1_000) };
            let [queued, start, end] = [0, stamp(at), stamp(end)];
            out.add([queued, start, start, end], call, HostNs((at + length) as i64 + 5_000));
            at += length + apart;
        }
        out
    }

    proptest! {
        /// Whatever the commands last, and however short what lies between them is.
        #[test]
        fn only_a_clock_of_nanoseconds_is_one(
            parts in prop::collection::vec(1.0f64..3.0, 24..60),
            unit in prop::sample::select(vec![1e3, 2e4, 1e6, 3e7, 1e9]),
            apart in prop::sample::select(vec![60_000u64, 100_000, 1_000_000]),
            origin in 0u64..1 << 50,
            drift in -0.005f64..0.005,
            factor in prop_oneof![0.0f64..0.4, 3.0f64..5_000.0],
        ) {
            let lengths: Vec<u64> = parts.iter().map(|part| (part * unit) as u64).collect();
            let with = |factor: f64| rate(&lengths, apart, |ns| origin + (ns as f64 * factor) as u64);
            prop_assert!(with(1.0 + drift).is_clock());
            prop_assert!(!with(factor).is_clock());
            prop_assert!(!rate(&lengths, apart, |_| origin).is_clock());
        }

        /// All enqueued before any is waited for: their windows tell nothing, QUEUED does.
        #[test]
        fn of_commands_that_are_waited_for_at_once_queued_tells(
            count in 20u64..200,
            length in prop::sample::select(vec![1_000u64, 1_000_000, 100_000_000]),
            drift in -0.005f64..0.005,
            factor in prop_oneof![0.0f64..0.08, 3.0f64..5_000.0],
        ) {
            let of = |factor: f64, knows_queued: bool| {
                let mut out = Rate::default();
                for i in 0..count {
                    let at = 1_000_000 + i * 10_000;
                    let call = Span { begin: HostNs(at as i64), end: HostNs(at as i64 + 6_000) };
                    let start = 1_000_000 + 10_000 * count + i * length;
                    let stamp = |ns: u64| (ns as f64 * factor) as u64;
                    let queued = if knows_queued { stamp(at + 3_000) } else { 0 };
                    let end = HostNs((1_000_000 + 10_000 * count + count * length) as i64);
                    out.add([queued, stamp(start), stamp(start), stamp(start + length)], call, end);
                }
                out.is_clock()
            };
            prop_assert!(of(1.0 + drift, true) && of(1.0 + drift, false));
            prop_assert!(!of(factor, true));
        }
    }

    #[test]
    fn a_clock_that_is_set_once_is_one() {
        let lengths = [30_000; 20];
        let back = |ns| if ns > 1_500_000 { ns - 1_400_000 } else { ns };
        let on = |ns| if ns > 1_500_000 { ns + (1 << 40) } else { ns };
        assert!(rate(&lengths, 100_000, back).is_clock());
        assert!(rate(&lengths, 100_000, on).is_clock());
    }
}
