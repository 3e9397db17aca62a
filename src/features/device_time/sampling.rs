//! Methods `sample` and `auto`: every launch and transfer is counted, a random part of them is
//! timed. On some runtimes asking for a timed event triples the price of a launch while the
//! profiling bit alone is free, so what is not timed costs nothing.
//!
//! Each is timed with a probability of its own that is written into its record, so that estimates
//! need no other knowledge. The first launches of each kernel are always timed, and of rare kernels
//! so many that they stay known; never every n-th: applications are periodic. Transfers of one kind
//! and size class are treated as launches of one kernel, and are the more probable the longer they
//! are: beside one that takes a millisecond the price of its event is nothing. The common
//! probability follows the price, measured in this process, as the difference of timed and untimed
//! launches plus what harvesting takes, so that all together stays below the budget.
#![forbid(unsafe_code)]

use super::queried_times::Asked;
use crate::recording;
use clscope_trace::record::{CommandKind, size_class};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Launches of a kernel that are always timed.
const ALWAYS: u64 = 16;
/// Of the launches behind them about this many are timed for every factor of e in their number.
const KEPT: u64 = 8;
/// The probability is set anew after so many launches.
const PERIOD: u64 = 256;
/// Launches that a thread counts by itself: shared counters are touched once in so many.
const TOGETHER: u64 = 16;
/// Launches whose price decides whether `auto` needs to know more.
const TRIAL: u64 = 256;
/// Where launches are left out only to learn the price: at first, to learn it soon; later, where
/// it may be within the budget or not. What is left out makes totals estimates.
const TO_LEARN: f64 = 7.0 / 8.0;
const TO_LEARN_ON: f64 = 31.0 / 32.0;
/// How much more an event costs its enqueue than its harvest, at most: 3 times on CPU runtimes, 16
/// on NVIDIA's (driver 580), which reads the GPU's timer for each. By this the price is bounded
/// without leaving a launch out.
const OVER_HARVEST: f64 = 8.0;
const OVER_HARVEST_DEAR: f64 = 24.0;
/// Standard errors by which a price is beyond the budget, or within it.
const SURE: f64 = 2.0;
/// A launch that takes longer was waiting for a full queue, not paying for an event.
const LONGEST_NS: u64 = 100_000;
/// Bytes that a transfer moves in a nanosecond: what a fast link does, so that none that is short
/// counts as long.
const BYTES_PER_NS: f64 = 16.0;
/// Number of kinds and size classes of transfers that are distinguished.
const CLASSES: usize = 1 << 12;
/// Least probability: below it a kernel would be forgotten.
const LEAST: f64 = 1.0 / 4096.0;

/// The price of timing, and the probability that follows from it.
pub struct LaunchSampler {
    /// Common probability: the threshold below which a random number decides for timing (lower
    /// half), and the probability's f32 bits.
    probability: AtomicU64,
    /// Ticks in [`LONGEST_NS`], 0 at first.
    longest: AtomicU64,
    /// Whether launches are left out at all: `auto` begins complete.
    sampling: AtomicBool,
    /// Whether any command was left out; of those whose times the application queries itself none
    /// is.
    left_out: AtomicBool,
    /// Whether a queue's device is no processor.
    dear: AtomicBool,
    launches: AtomicU64,
    /// Transfers of each kind and size class. On the heap: recording may begin on a thread with a
    /// small stack.
    transfers: Box<[AtomicU32]>,
    /// Bytes from which on a transfer is always timed.
    large: AtomicU64,
    /// Launches and ticks spent in them: timed, untimed.
    timed: Mean,
    untimed: Mean,
    harvested: Mean,
    /// Host time at the last setting and the launches until then.
    since: AtomicU64,
    until: AtomicU64,
    setting: AtomicBool,
}

/// What some launches took on the enqueuing threads.
#[derive(Debug, Clone, Copy, Default)]
struct Took {
    count: u64,
    ticks: u64,
    /// Sum of squares.
    squares: u64,
}

impl Took {
    const NOTHING: Self = Self { count: 0, ticks: 0, squares: 0 };

    #[inline(always)]
    fn and(self, ticks: u64) -> Self {
        Self {
            count: self.count + 1,
            ticks: self.ticks + ticks,
            squares: self.squares.wrapping_add(ticks * ticks),
        }
    }
}

/// An exponentially decayed mean: all is halved at each setting.
struct Mean {
    count: AtomicU64,
    ticks: AtomicU64,
    squares: AtomicU64,
}

impl Mean {
    const fn new() -> Self {
        Self { count: AtomicU64::new(0), ticks: AtomicU64::new(0), squares: AtomicU64::new(0) }
    }
    fn add(&self, more: Took) {
        self.count.fetch_add(more.count, Ordering::Relaxed);
        self.ticks.fetch_add(more.ticks, Ordering::Relaxed);
        self.squares.fetch_add(more.squares, Ordering::Relaxed);
    }
    /// The mean with the square of its standard error, ticks.
    fn value(&self) -> Option<(f64, f64)> {
        let [count, ticks, squares] =
            [&self.count, &self.ticks, &self.squares].map(|n| n.load(Ordering::Relaxed) as f64);
        (count >= 16.0).then(|| {
            let mean = ticks / count;
            (mean, (squares / count - mean * mean).max(0.0) / count)
        })
    }
    fn fade(&self) {
        if self.count.load(Ordering::Relaxed) > 4096 {
            for n in [&self.count, &self.ticks, &self.squares] {
                n.store(n.load(Ordering::Relaxed) / 2, Ordering::Relaxed);
            }
        }
    }
}

/// What a thread keeps, beside the geometries of its launches.
pub struct Local {
    /// State of its xorshift generator, 0 before its first use.
    random: Cell<u64>,
    /// Until its next look at the shared counters: the first launch of a thread has one, as threads
    /// may live for one launch.
    left: Cell<u64>,
    launches: Cell<u64>,
    /// Launches and ticks, as in the sampler: timed, untimed.
    timed: Cell<Took>,
    untimed: Cell<Took>,
    /// What the application queried last.
    pub(super) asked: Cell<Asked>,
}

impl Local {
    /// Of a thread that launched nothing yet.
    pub const fn new() -> Self {
        Self {
            random: Cell::new(0),
            left: Cell::new(0),
            launches: Cell::new(0),
            timed: Cell::new(Took::NOTHING),
            untimed: Cell::new(Took::NOTHING),
            asked: Cell::new(Asked::NOTHING),
        }
    }

    /// A random number below 2^32 (G. Marsaglia's xorshift64*, upper half).
    fn random(&self) -> u32 {
        let mut x = self.random.get();
        if x == 0 {
            x = recording::now().wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        }
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.random.set(x);
        (x.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }
}

/// A threshold with the probability that it realises, of so many bits that it is exact: what is
/// rounded sets a flag of the application's thread.
fn packed(threshold: u32) -> u64 {
    let threshold = match threshold {
        u32::MAX => return u64::from(u32::MAX) | (u64::from(1f32.to_bits()) << 32),
        other => other & !(0xff >> other.leading_zeros().min(8)),
    };
    let probability = (f64::from(threshold) / 4_294_967_296.0) as f32;
    u64::from(threshold) | (u64::from(probability.to_bits()) << 32)
}

impl LaunchSampler {
    /// `complete`: begins with everything timed (`auto`).
    pub fn new(complete: bool) -> Self {
        Self {
            probability: AtomicU64::new(packed(u32::MAX / 64)),
            longest: AtomicU64::new(0),
            sampling: AtomicBool::new(!complete),
            left_out: AtomicBool::new(false),
            dear: AtomicBool::new(false),
            launches: AtomicU64::new(0),
            transfers: (0..CLASSES).map(|_| AtomicU32::new(0)).collect(),
            large: AtomicU64::new(32 << 20),
            timed: Mean::new(),
            untimed: Mean::new(),
            harvested: Mean::new(),
            since: AtomicU64::new(0),
            until: AtomicU64::new(0),
            setting: AtomicBool::new(false),
        }
    }

    /// Whether commands are left out.
    #[inline]
    pub fn leaves_out(&self) -> bool {
        self.sampling.load(Ordering::Relaxed)
    }

    /// Whether to time the launch number `nth` (from 0) of its kernel, and the probability that
    /// decided, 0 for certainty.
    #[inline]
    pub fn decide(&self, local: &Local, nth: u64) -> (bool, f32) {
        if !self.sampling.load(Ordering::Relaxed) || nth < ALWAYS {
            return (true, 0.0);
        }
        self.draw(local, nth, self.probability.load(Ordering::Relaxed))
    }

    /// As [`decide`](Self::decide), for a transfer of so many bytes.
    #[inline]
    pub fn decide_transfer(&self, local: &Local, kind: CommandKind, bytes: u64) -> (bool, f32) {
        let class = (kind as usize * 64 + size_class(bytes) as usize) % CLASSES;
        let nth = self.transfers.get(class).map_or(0, |n| n.fetch_add(1, Ordering::Relaxed));
        let large = self.large.load(Ordering::Relaxed);
        if !self.sampling.load(Ordering::Relaxed) || u64::from(nth) < ALWAYS || bytes >= large {
            return (true, 0.0);
        }
        let (common, long) = (
            self.probability.load(Ordering::Relaxed),
            ((u128::from(bytes) << 32) / u128::from(large)) as u32,
        );
        let common = if long > common as u32 { packed(long) } else { common };
        self.draw(local, u64::from(nth), common)
    }

    /// Whether the launch number `nth` of its class is chosen, with a probability of `common` or
    /// more.
    #[inline]
    fn draw(&self, local: &Local, nth: u64, common: u64) -> (bool, f32) {
        // A kernel of n launches so far keeps about KEPT * ln(n) of them. The division, which is
        // slow, is for kernels that are rare.
        let often = ((common & 0xffff_ffff) + 1).saturating_mul(nth + 1) > KEPT << 32;
        let chosen = if often {
            common
        } else {
            packed((common as u32).max(((KEPT << 32) / (nth + 1)) as u32))
        };
        (local.random() < chosen as u32, f32::from_bits((chosen >> 32) as u32))
    }

    /// A queue is on a device that is no processor: an event may cost much more than its harvest.
    pub fn set_dear(&self) {
        self.dear.store(true, Ordering::Relaxed);
    }

    /// A command was left out.
    #[inline]
    pub fn left_out(&self) {
        if !self.left_out.load(Ordering::Relaxed) {
            self.left_out.store(true, Ordering::Relaxed);
        }
    }

    /// A launch took `ticks` on the enqueuing thread.
    #[inline]
    pub fn launched(&self, local: &Local, timed: bool, ticks: u64, now: u64) {
        if ticks < self.longest.load(Ordering::Relaxed) {
            let mean = if timed { &local.timed } else { &local.untimed };
            mean.set(mean.get().and(ticks));
        }
        local.launches.set(local.launches.get() + 1);
        match local.left.get() {
            0 => self.tell(local, now),
            left => local.left.set(left - 1),
        }
    }

    /// Adds what a thread has counted.
    #[inline(never)]
    fn tell(&self, local: &Local, now: u64) {
        local.left.set(TOGETHER - 1);
        self.longest.store(recording::ticks_of(LONGEST_NS), Ordering::Relaxed);
        for (shared, own) in [(&self.timed, &local.timed), (&self.untimed, &local.untimed)] {
            let own = own.take();
            if own.count > 0 {
                shared.add(own);
            }
        }
        let more = local.launches.take();
        let launches = self.launches.fetch_add(more, Ordering::Relaxed) + more;
        if launches / PERIOD != (launches - more) / PERIOD {
            self.set(launches, now);
        }
    }

    /// Harvesting `count` events took `ticks`.
    pub fn harvested(&self, count: u64, ticks: u64) {
        self.harvested.add(Took { count, ticks, squares: 0 });
    }

    /// Sets the probability so that timing costs the budget's share of the time that passes.
    #[cold]
    fn set(&self, launches: u64, now: u64) {
        if self.setting.swap(true, Ordering::Acquire) {
            return;
        }
        let since = self.since.swap(now, Ordering::Relaxed);
        let before = self.until.swap(launches, Ordering::Relaxed);
        if since != 0 && now > since {
            let per_launch = (now - since) as f64 / (launches - before).max(1) as f64;
            self.choose(launches, per_launch);
        }
        for mean in [&self.timed, &self.untimed, &self.harvested] {
            mean.fade();
        }
        self.setting.store(false, Ordering::Release);
    }

    fn choose(&self, launches: u64, per_launch: f64) {
        let budget = crate::settings::config::get().budget;
        let harvest = self.harvested.value().map_or(0.0, |(mean, _)| mean);
        let Some((timed, timed_error)) = self.timed.value() else { return };
        let price_ns =
            (timed + harvest) / recording::ticks_of(1 << 20) as f64 * f64::from(1u32 << 20);
        self.large
            .store((price_ns / budget * BYTES_PER_NS).clamp(1e4, 1e12) as u64, Ordering::Relaxed);
        let most = most_price(timed, harvest, self.dear.load(Ordering::Relaxed));
        let Some((untimed, untimed_error)) = self.untimed.value() else {
            // Nothing was left out yet: whether timing can cost more than the budget at all is
            // known from what launches cost.
            if launches >= TRIAL && most > budget * per_launch {
                self.sampling.store(true, Ordering::Relaxed);
                self.set_probability(TO_LEARN);
            }
            return;
        };
        let price = (timed - untimed).max(0.0) + harvest;
        // The time that passes contains what timing costs already.
        let probability =
            f64::from(self.probability.load(Ordering::Relaxed) as u32) / 4_294_967_296.0;
        let own = (per_launch - probability * price).max(per_launch / 4.0);
        let error = (timed_error + untimed_error).sqrt();
        let next = affordable((price, error), most, budget * own);
        if next < TO_LEARN_ON && self.left_out.load(Ordering::Relaxed) {
            crate::recording::diag::note(
                "sampled-timing",
                &format!(
                    "timing every launch would add at least {:.1} % to the time, more than the budget of {:.1} %: a random part of launches and transfers is timed, totals are estimates with intervals",
                    100.0 * (price - SURE * error) / own,
                    100.0 * budget
                ),
            );
        }
        self.set_probability(next);
    }

    fn set_probability(&self, probability: f64) {
        self.probability.store(packed((probability * 4_294_967_295.0) as u32), Ordering::Relaxed);
    }
}

/// The most that timing a launch can cost: what the whole call takes, or by what the harvest of an
/// event shows of the runtime, and that harvest (0 while none is known).
fn most_price(timed: f64, harvest: f64, dear: bool) -> f64 {
    let over = if dear { OVER_HARVEST_DEAR } else { OVER_HARVEST };
    harvest + if harvest > 0.0 { timed.min(over * harvest) } else { timed }
}

/// The probability with which timing at a price, known with a standard error and `most` at most,
/// costs what is allowed for each launch, all in one unit. Where the price may be allowed or not,
/// few launches are left out, to learn more of it: on a busy machine launches differ by more than
/// an event costs.
fn affordable((price, error): (f64, f64), most: f64, allowed: f64) -> f64 {
    if price - SURE * error > allowed {
        (allowed / price).clamp(LEAST, 1.0)
    } else if price + SURE * error <= allowed || most <= allowed {
        1.0
    } else {
        TO_LEARN_ON
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_are_left_out_where_timing_them_surely_costs_too_much() {
        for (price, error, most, allowed, expected) in [
            (8.0, 1.0, 9.0, 4.0, 0.5),
            (8.0, 1.0, 9.0, 0.0, LEAST),
            (1.0, 1.0, 9.0, 4.0, 1.0),
            (0.0, 0.0, 9.0, 0.0, 1.0),
            // It may be either way.
            (5.0, 1.0, 9.0, 4.0, TO_LEARN_ON),
            (3.0, 1.0, 9.0, 4.0, TO_LEARN_ON),
            (0.0, 9.0, 9.0, 4.0, TO_LEARN_ON),
            // It cannot, however little is known; or it is measured to.
            (0.0, 9.0, 4.0, 4.0, 1.0),
            (8.0, 1.0, 4.0, 4.0, 0.5),
        ] {
            let found = affordable((price, error), most, allowed);
            assert_eq!(found, expected, "{price} {error} {most} {allowed}");
        }
    }

    #[test]
    fn a_launch_that_waits_for_room_is_no_price() {
        // Calls of 50 microseconds whose events are read in 100 ns.
        assert_eq!(most_price(50_000.0, 100.0, false), 900.0);
        assert_eq!(most_price(50_000.0, 100.0, true), 2_500.0);
        assert_eq!(most_price(300.0, 100.0, true), 400.0, "no more than the call");
        assert_eq!(most_price(300.0, 0.0, false), 300.0, "nothing was harvested yet");
    }

    #[test]
    fn a_mean_has_the_error_of_its_values() {
        let mean = Mean::new();
        let of = |values: &[u64]| values.iter().fold(Took::default(), |took, v| took.and(*v));
        mean.add(of(&[10; 8]));
        assert_eq!(mean.value(), None, "too few");
        mean.add(of(&[30; 8]));
        // Deviations of 10, 16 values.
        assert_eq!(mean.value(), Some((20.0, 100.0 / 16.0)));
        mean.add(of(&[20; 4096]));
        mean.fade();
        assert_eq!(mean.count.load(Ordering::Relaxed), 2056);
        assert_eq!(mean.value().map(|(mean, _)| mean), Some(20.0));
    }
}
