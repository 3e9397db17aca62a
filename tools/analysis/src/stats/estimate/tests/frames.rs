//! Tests of estimates on frames as applications make them: an upload, kernels, a blocking read.

use crate::interval::Interval;
use crate::stats::estimate::Sampled;
use crate::stats::estimate::windows::{Launch, Timed, What, Windows};
use crate::time::{HostNs, Span, ThreadIndex};
use clscope_testing::Random;
use std::collections::BTreeMap;

const UPLOAD: u64 = 1;
const SHORT: u64 = 2;
const LONG: u64 = 3;
const VARIED: u64 = 4;
const READ: u64 = 5;

/// A total: estimated, its interval, and the truth, nanoseconds.
struct Total {
    value: f64,
    low: f64,
    high: f64,
    truth: f64,
}

impl Total {
    fn holds(&self) -> bool {
        self.low <= self.truth && self.truth <= self.high
    }
}

/// What the host does at the end of a frame.
#[derive(Clone, Copy, PartialEq)]
enum End {
    /// The read blocks.
    Reads,
    /// It waits behind the read.
    Waits,
    /// Nothing: the next frame follows.
    Goes,
}

/// Frames of an application.
#[derive(Clone, Copy)]
struct Frames {
    n: u64,
    /// One upload in so many takes milliseconds.
    slow_one_in: f64,
    /// So many short launches take 3 ms.
    hidden: u64,
    end: End,
    /// The host's own work between frames, nanoseconds: twice as much at most.
    think: f64,
    /// Frames of which all is timed, and the probability behind them.
    complete: u64,
    p: f64,
    cpu: bool,
}

/// Of a GPU.
const GPU: Frames = Frames {
    n: 3_000,
    slow_one_in: 15.0,
    hidden: 0,
    end: End::Reads,
    think: 0.0,
    complete: 16,
    p: 0.1,
    cpu: false,
};

/// Each class's estimate, its interval, and the truth. An upload's stamps leave its copy through
/// the host's memory out.
fn frames(seed: u64, of: Frames) -> BTreeMap<u64, Total> {
    let Frames { n, slow_one_in, hidden, end, .. } = of;
    let blocking = end == End::Reads;
    let mut random = Random::new(seed);
    let mut windows = Windows::default();
    let mut sampled: BTreeMap<u64, Sampled> = BTreeMap::new();
    let mut truth: BTreeMap<u64, f64> = BTreeMap::new();
    let (mut now, mut device, mut id) = (1_000_000i64, 0, 0u64);
    for frame in 0..n {
        let mut ends = Vec::new();
        let begun = now;
        device = device.max(now);
        for class in [UPLOAD, SHORT, LONG, VARIED, READ] {
            let slow = class == UPLOAD && random.uniform() * slow_one_in < 1.0;
            let long = class == SHORT && hidden > 0 && frame % (n / hidden) == 77;
            let length = match class {
                _ if slow => 5e6,
                _ if long => 3e6,
                UPLOAD => 240e3 * (1.0 + 0.1 * random.uniform()),
                SHORT => 14e3 * (1.0 + 0.05 * random.uniform()),
                LONG => 120e3 * (1.0 + 0.01 * random.uniform()),
                VARIED => 30e3 * (0.4 + (1.0 - random.uniform()).ln().abs()),
                _ => 65e3 * (1.0 + 0.1 * random.uniform()),
            };
            let before = match class {
                UPLOAD | READ => 80e3 * (0.5 + random.uniform()),
                _ => 2e3,
            };
            let (start, length) = (device + before as i64, length as i64);
            device = start + length;
            let p = if frame < of.complete { 1.0 } else { of.p };
            let launch = Launch { class, geometry: 0 };
            let chosen = random.uniform() < p;
            let call = match class {
                READ if blocking => Span { begin: HostNs(now), end: HostNs(device + 20_000) },
                _ => Span { begin: HostNs(now), end: HostNs(now + 3_000) },
            };
            now = call.end.0;
            *truth.entry(class).or_default() += length as f64;
            let sums = sampled.entry(class).or_default();
            if chosen {
                id += 1;
                sums.add(length as u64, p);
                let what = What::Timed(id, Some((launch, p)));
                match class {
                    READ if blocking => windows.blocked(ThreadIndex(0), call, what),
                    _ => windows.enqueued(ThreadIndex(0), call, what),
                }
                ends.push((id, start, device));
            } else {
                sums.leave_out();
                match class {
                    READ if blocking => {
                        windows.blocked(ThreadIndex(0), call, What::LeftOut(launch))
                    }
                    _ => windows.enqueued(ThreadIndex(0), call, What::LeftOut(launch)),
                }
            }
        }
        for (id, start, end) in ends {
            let duration = (end - start) as u64;
            let timed = Timed { start: HostNs(start), end: HostNs(end), duration };
            windows.completed(id, Some(timed));
        }
        if end == End::Waits {
            let wait = Span { begin: HostNs(now), end: HostNs(device + 20_000) };
            windows.finished(wait);
            now = wait.end.0;
        }
        now = now.max(begun) + 30_000 + (2.0 * of.think * random.uniform()) as i64;
    }
    let classes: BTreeMap<u64, &Sampled> = sampled.iter().map(|(class, s)| (*class, s)).collect();
    let left = windows.left(&classes, of.cpu);
    let of = |(class, s): (&u64, &Sampled)| {
        let total = s.total_with(left.get(class)).expect("some were timed");
        let Interval { value, low, high, .. } = total;
        (*class, Total { value, low, high, truth: truth[class] })
    };
    sampled.iter().map(of).collect()
}

#[test]
fn kernels_beside_transfers_that_vary_are_known_well() {
    let runs: Vec<_> = (0..40).map(|seed| frames(seed * 31 + 1, GPU)).collect();
    for (class, width) in [(SHORT, 0.02), (LONG, 0.01), (VARIED, 0.5)] {
        let held = runs.iter().filter(|run| run[&class].holds()).count();
        assert!(held >= 36, "class {class}: {held} of {}", runs.len());
        let half = |total: &Total| (total.high - total.low) / 2.0 / total.value;
        let half = runs.iter().map(|run| half(&run[&class])).sum::<f64>() / runs.len() as f64;
        assert!(half < width, "class {class}: +-{half}");
    }
}

#[test]
fn launches_that_may_be_long_are_inside_the_interval() {
    let long = Frames { slow_one_in: 300.0, hidden: 12, p: 0.3, end: End::Waits, ..GPU };
    // Of 12 short launches that take 3 ms some are timed in nearly all runs.
    let runs: Vec<_> = (0..40).map(|seed| frames(seed * 17 + 5, long)).collect();
    let held = runs.iter().filter(|run| run[&SHORT].holds()).count();
    assert!(held >= 36, "{held} of {}", runs.len());
}

/// Intervals of 40 runs hold the truth, and the mean of their half-widths is as narrow as this.
fn are_known(of: Frames, classes: &[u64], width: f64) {
    let runs: Vec<_> = (0..40).map(|seed| frames(seed * 23 + 3, of)).collect();
    for class in classes {
        let held = runs.iter().filter(|run| run[class].holds()).count();
        assert!(held >= 36, "class {class}: {held} of {}", runs.len());
        let half =
            |total: &Total| (total.value - total.low).max(total.high - total.value) / total.value;
        let half = runs.iter().map(|run| half(&run[class])).sum::<f64>() / runs.len() as f64;
        assert!(half < width, "class {class}: +-{half}");
    }
}

/// Short runs of a CPU: three quarters are timed, and the host works for milliseconds a frame.
const CPU: Frames =
    Frames { n: 500, slow_one_in: f64::INFINITY, think: 3e6, p: 0.75, cpu: true, ..GPU };

#[test]
fn time_in_which_a_queue_may_have_been_empty_is_not_that_of_launches() {
    // Nothing waits: the host's work follows the last launch, which may have been left out.
    are_known(Frames { end: End::Goes, ..CPU }, &[SHORT, LONG, READ], 0.06);
    are_known(Frames { end: End::Waits, ..CPU }, &[SHORT, LONG, READ], 0.06);
}

#[test]
fn what_blocks_ends_with_its_call_whether_it_was_timed_or_not() {
    are_known(CPU, &[SHORT, LONG, READ], 0.05);
    // All of a part, and few of the rest.
    are_known(Frames { complete: 425, p: 0.1, ..CPU }, &[SHORT, LONG, READ], 0.05);
}
