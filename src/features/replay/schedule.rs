//! Owns when something is repeated: how much time may be added to the run so far, which kernels and
//! transfers deserve it, and that it happens at moments which follow no pattern of the
//! application's. Refuses to repeat anything itself. Times are in seconds.
#![forbid(unsafe_code)]

use crate::os::maps::HashMap;
use clscope_trace::values::Replay as Wanted;

/// What is known of one key.
#[derive(Debug, Clone, Copy, Default)]
struct Key {
    /// Whether it is a kernel's.
    kernel: bool,
    /// Commands seen.
    count: u64,
    /// When the first and the last of them came, in the run's own time.
    seen: (f64, f64),
    /// Length of one, `None` before it was tried.
    alone: Option<f64>,
    /// What its last turn with a batch took.
    took: f64,
    /// Batches so far.
    bursts: u32,
    /// It cannot be repeated.
    refused: bool,
    /// A refusal was said.
    said: bool,
    /// Whether buffers are restored between launches.
    restores: bool,
    /// Commands to pass by before the next batch, so that it meets another place of the run.
    skip: u32,
}

/// Why nothing was repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It was, or did not deserve it.
    None,
    /// Not at this moment.
    Now,
    /// Commands of the key cannot be repeated.
    Ever,
}

/// What is to happen at a command.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Turn {
    /// Nothing.
    Pass,
    /// It is repeated.
    Repeat {
        /// Batches in a row, 0 for a trial only.
        batches: u32,
        /// Least length of each.
        milliseconds: u64,
        /// A quiet time before, so that the floor shows.
        quiet: bool,
        /// Buffers that a launch puts in order are restored before each.
        unsettled: bool,
    },
}

/// Batches of one key: more of them tell hardly more.
const MOST_BURSTS: u32 = 16;
/// Length of a batch that every sensor but the slowest can follow: the first 120 ms show what was
/// before.
const MILLISECONDS: u64 = 420;
/// What is around a batch: waiting, saving and restoring, a trial.
const AROUND: f64 = 0.1;
/// Batches, counted over all keys, before which the device is left quiet for a while.
const QUIET_BEFORE: [u32; 3] = [2, 7, 15];
/// Length of a quiet time: a sensor's response to what ran before, and some readings of 20 ms.
pub const QUIET_MS: u64 = 400;
/// Added time that a run has from its first command on, and for each second of it while the first
/// half of the time lasts. The other half comes within twenty seconds; for what has had few batches
/// within sixteen, as their root: nobody knows how long a run goes on, and one of eight seconds has
/// six sevenths of all then.
const AT_ONCE: f64 = 2.0;
const EACH_SECOND: f64 = 4.0;
const SECOND_HALF: f64 = 20.0;
const SOONER: f64 = 16.0;
const FEW_BURSTS: u32 = 8;
/// Time of the run's own before which no transfer is repeated: applications begin with uploads that
/// never come again.
const BEGINNING: f64 = 0.25;
/// A key of which no command came for so many of its usual intervals, and for so long at least, is
/// taken to be over: it holds nothing back for commands that will not come.
const INTERVALS: f64 = 8.0;
const OVER: f64 = 1.0;
/// Part of the time that is kept for first batches while keys that were not seen before come along.
const KEPT: f64 = 0.5;

pub struct Schedule {
    wanted: Wanted,
    /// Time of the first command.
    started: f64,
    /// Spent on repetitions.
    spent: f64,
    /// Put between the last batch and the next one, so that their moments follow no pattern.
    pause: f64,
    bursts: u32,
    /// When the last new key came, in the run's own time.
    newest: f64,
    state: u64,
    keys: HashMap<u64, Key>,
}

impl Schedule {
    /// `seed` is any number.
    pub fn new(wanted: Wanted, now: f64, seed: u64) -> Self {
        Self {
            wanted,
            started: now,
            spent: 0.0,
            pause: 0.0,
            bursts: 0,
            newest: 0.0,
            state: seed | 1,
            keys: HashMap::default(),
        }
    }

    /// What may have been added by now: half of the fixed part early, so that short runs get their
    /// share, the other half slowly, so that long runs are met at many places; what has had few
    /// batches comes sooner. What has had none may have all of it early: there might be no other
    /// moment.
    fn allowed(&self, now: f64, bursts: u32) -> f64 {
        let Wanted::Within { seconds, share } = self.wanted else { return f64::INFINITY };
        let (own, half) = (self.own(now), seconds / 2.0);
        let early = AT_ONCE + EACH_SECOND * own;
        let slowly = match bursts {
            ..FEW_BURSTS => (own / SOONER).min(1.0).sqrt(),
            FEW_BURSTS.. => (own / SECOND_HALF).min(1.0),
        };
        let fixed = half.min(early) + half * slowly;
        let fixed = if bursts == 0 { fixed.max(early) } else { fixed };
        fixed.min(seconds).max(share * own)
    }

    /// Length of the run so far, without what was added.
    fn own(&self, now: f64) -> f64 {
        (now - self.started - self.spent).max(0.0)
    }

    /// xorshift*: moments need no more.
    fn random(&mut self, below: u64) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        (self.state.wrapping_mul(2_685_821_657_736_338_717) >> 33) % below.max(1)
    }

    /// Counts a command and says what is to happen before it.
    pub fn turn(&mut self, key: u64, kernel: bool, now: f64) -> Turn {
        let own = self.own(now);
        let early = own < BEGINNING;
        let entry = self.keys.entry(key).or_insert_with(|| {
            self.newest = own;
            Key { seen: (own, own), ..Key::default() }
        });
        entry.count += 1;
        entry.kernel = kernel;
        entry.seen.1 = own;
        // One is passed by, where any are to be, once it was tried.
        let of = *entry;
        if of.alone.is_some() {
            entry.skip = of.skip.saturating_sub(1);
        }
        if of.refused {
            return Turn::Pass;
        }
        let allowed = self.allowed(now, of.bursts);
        if let Wanted::Batches { batches, milliseconds } = self.wanted {
            return if of.bursts == 0 && kernel {
                Turn::Repeat { batches, milliseconds, quiet: false, unsettled: false }
            } else {
                Turn::Pass
            };
        }
        let Some(alone) = of.alone else {
            // What all are like is found first: that takes little.
            return if self.spent + AROUND <= allowed {
                Turn::Repeat { batches: 0, milliseconds: 0, quiet: false, unsettled: false }
            } else {
                Turn::Pass
            };
        };
        if of.skip > 0 {
            return Turn::Pass;
        }
        let quiet = QUIET_BEFORE.contains(&self.bursts);
        let cost = Self::batch_costs(alone, of.restores).max(of.took)
            + if quiet { QUIET_MS as f64 * 1e-3 } else { 0.0 };
        let allowed = if of.bursts > 0 { allowed * self.unkept(own) } else { allowed };
        if self.spent + cost + self.pause > allowed || (early && !kernel) || !self.worth(&of, own) {
            return Turn::Pass;
        }
        let unsettled = of.bursts % 2 == 1;
        Turn::Repeat { batches: 1, milliseconds: MILLISECONDS, quiet, unsettled }
    }

    /// What a batch takes of a key of which one takes so long: a long one runs some times before
    /// its batch, and twice in it.
    fn batch_costs(alone: f64, restores: bool) -> f64 {
        let length = MILLISECONDS as f64 * 1e-3 + 6.0 * alone;
        AROUND + if restores { 2.0 * length } else { length }
    }

    /// Part of the allowed time that keys may have which had a batch before: all of it once nothing
    /// new came for half of the run.
    fn unkept(&self, own: f64) -> f64 {
        let familiar = if own > 0.0 { (own - self.newest) / own } else { 0.0 };
        (1.0 - KEPT + familiar).min(1.0)
    }

    /// Whether a key is among those that deserve the next batch most, of those that still come.
    fn worth(&self, of: &Key, now: f64) -> bool {
        let comes = |k: &&Key| {
            let interval = (k.seen.1 - k.seen.0) / k.count.saturating_sub(1).max(1) as f64;
            now - k.seen.1 <= OVER.max(INTERVALS * interval)
        };
        let time = |k: &Key| {
            let weight = if k.kernel { 1.0 } else { Wanted::TRANSFER };
            weight * k.count as f64 * k.alone.unwrap_or(0.0)
        };
        let whole: f64 = self.keys.values().map(time).sum();
        let merit = |k: &Key| {
            let share = time(k) / whole.max(f64::MIN_POSITIVE);
            if k.refused || k.bursts >= MOST_BURSTS || share < Wanted::LEAST_SHARE {
                0.0
            } else {
                share.sqrt() / f64::from(k.bursts + 1)
            }
        };
        let (own, best) =
            (merit(of), self.keys.values().filter(comes).map(merit).fold(0.0, f64::max));
        own > 0.0 && own >= 0.5 * best
    }

    /// Whether there is time for a first trial that takes so long, with `spent` on it already.
    pub fn affords(&self, seconds: f64, spent: f64, now: f64) -> bool {
        self.spent + spent + seconds <= self.allowed(now - spent, 0)
    }

    /// One of a key takes so long; whether buffers are restored between launches.
    pub fn tried(&mut self, key: u64, alone: f64, restores: bool) {
        let entry = self.keys.entry(key).or_default();
        entry.alone = Some(alone.max(1e-9));
        entry.restores = restores;
    }

    /// So much was spent on a command, with so many batches, or it was refused: whether a refusal
    /// is news.
    pub fn spent(&mut self, key: u64, seconds: f64, bursts: u32, refusal: Refusal) -> bool {
        self.spent += seconds;
        self.bursts += bursts;
        if bursts > 0 {
            self.pause = self.random(1000) as f64 * 0.3e-3;
        }
        let skip = self.random(8) as u32;
        let entry = self.keys.entry(key).or_default();
        entry.bursts += bursts;
        if bursts > 0 {
            entry.took = seconds;
        }
        entry.refused |= refusal == Refusal::Ever;
        // Rare commands are not passed by: there might be no other.
        entry.skip = if entry.count > 64 { skip } else { 0 };
        let news = !entry.said;
        entry.said |= refusal != Refusal::None;
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened in a run.
    #[derive(Default)]
    struct Run {
        /// Batches of each command of a frame, and where in the run they were, in seconds of it.
        bursts: Vec<Vec<f64>>,
        spent: f64,
        /// Most by which what was added went beyond what was allowed, in seconds.
        beyond: f64,
    }

    /// A run of frames with commands that take so long, the first `kernels` of them kernels, over
    /// when its own work took `length`.
    fn run_of(wanted: Wanted, commands: &[f64], kernels: usize, length: f64, seed: u64) -> Run {
        let (mut now, mut own) = (100.0, 0.0);
        let mut schedule = Schedule::new(wanted, now, seed);
        let mut out = Run { bursts: vec![Vec::new(); commands.len()], ..Run::default() };
        while own < length {
            for (key, alone) in commands.iter().enumerate() {
                if let Turn::Repeat { batches, milliseconds, quiet, .. } =
                    schedule.turn(key as u64, key < kernels, now)
                {
                    schedule.tried(key as u64, *alone, false);
                    let mut took = 0.02 + 4.0 * alone;
                    if batches > 0 {
                        took += f64::from(batches) * (milliseconds as f64 * 1e-3).max(2.0 * alone);
                        took += if quiet { 0.4 } else { 0.0 };
                        out.bursts[key].push(own);
                    }
                    schedule.spent(key as u64, took, batches, Refusal::None);
                    now += took;
                    out.spent += took;
                    out.beyond = out.beyond.max(out.spent - schedule.allowed(now, 0));
                }
                now += alone;
                own += alone;
            }
        }
        out
    }

    fn run(wanted: Wanted, commands: &[f64], length: f64, seed: u64) -> Run {
        run_of(wanted, commands, commands.len(), length, seed)
    }

    #[test]
    fn transfers_wait_until_the_beginning_is_over_and_for_kernels() {
        let out = run_of(Wanted::AUTO, &[100e-6, 1e-3, 1e-6], 1, 8.0, 5);
        assert!(out.bursts[0].len() > out.bursts[1].len(), "{:?}", out.bursts);
        assert!(!out.bursts[1].is_empty() && out.bursts[1].iter().all(|at| *at >= BEGINNING));
        assert!(out.bursts[2].is_empty());
    }

    #[test]
    fn everything_that_matters_gets_its_turn_within_the_time() {
        let frame = [350e-6, 13e-6, 117e-6, 60e-6, 40e-6, 25e-6, 260e-6];
        for length in [2.0, 8.0, 60.0] {
            let out = run(Wanted::AUTO, &frame, length, 7);
            assert!(out.beyond <= 0.0, "{length}: {}", out.beyond);
            assert!(out.spent <= 20.0 && out.spent > 0.5 * (20.0f64).min(4.0 * length));
            for (key, bursts) in out.bursts.iter().enumerate() {
                let least = if length < 5.0 { 1 } else { 2 };
                assert!(bursts.len() >= least, "{length} s, {key}: {bursts:?}");
            }
        }
        // A short run has most of what was promised.
        let out = run(Wanted::AUTO, &frame, 8.0, 7);
        assert!(out.spent > 15.0, "{}", out.spent);
        // No more is added than a share of a long run, or than was told.
        let out = run("10%".parse().unwrap(), &frame, 60.0, 7);
        assert!(out.spent <= 6.0 && out.beyond <= 0.0);
        let out = run("3s".parse().unwrap(), &frame, 60.0, 7);
        assert!(out.spent <= 3.0 && out.beyond <= 0.0);
    }

    #[test]
    fn kernels_that_come_in_a_phase_of_their_own_get_their_turn_in_it() {
        // Twenty kernels, 40 launches of 8 ms each, one kernel behind the other.
        let mut schedule = Schedule::new(Wanted::AUTO, 0.0, 11);
        let (mut now, mut bursts) = (0.0, [0; 20]);
        for launch in 0..800 {
            let key = launch / 40;
            if let Turn::Repeat { batches, .. } = schedule.turn(key as u64, true, now) {
                schedule.tried(key as u64, 8e-3, false);
                let took = 0.04 + f64::from(batches) * 0.6;
                schedule.spent(key as u64, took, batches, Refusal::None);
                bursts[key] += batches;
                now += took;
            }
            now += 8e-3;
        }
        let met = bursts.iter().filter(|b| **b > 0).count();
        assert!(met >= 17, "{bursts:?}");
        assert!(schedule.spent <= 20.0);
    }

    #[test]
    fn what_takes_next_to_no_time_is_tried_only() {
        let out = run(Wanted::AUTO, &[1e-3, 1e-6], 20.0, 3);
        assert!(out.bursts[1].is_empty() && out.bursts[0].len() == MOST_BURSTS as usize);
    }

    #[test]
    fn batches_meet_many_places_of_the_run_and_other_ones_each_time() {
        let spread = |seed| run(Wanted::AUTO, &[1e-3, 1e-3], 30.0, seed).bursts.concat();
        let (one, other) = (spread(1), spread(2));
        assert!(one.iter().any(|at| *at > 10.0), "{one:?}");
        assert!(one != other);
    }

    #[test]
    fn batches_at_first_sight_are_made_once() {
        let wanted = "8:100".parse().unwrap();
        let out = run(wanted, &[1e-3, 1e-3], 1.0, 1);
        assert_eq!(out.bursts, [[0.0], [1e-3]]);
    }

    #[test]
    fn what_was_refused_is_left_alone_and_said_once() {
        let mut schedule = Schedule::new(Wanted::AUTO, 0.0, 1);
        assert!(matches!(schedule.turn(1, true, 0.0), Turn::Repeat { batches: 0, .. }));
        assert!(schedule.spent(1, 0.0, 0, Refusal::Now));
        assert!(
            matches!(schedule.turn(1, true, 0.1), Turn::Repeat { .. }),
            "not at that moment only"
        );
        assert!(!schedule.spent(1, 0.0, 0, Refusal::Ever));
        assert_eq!(schedule.turn(1, true, 9.0), Turn::Pass);
    }
}
