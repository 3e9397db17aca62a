//! Owns the sums over commands of one class: counts, times, bytes, and estimates for all where
//! sampled timing left some out. Refuses to mix what is known with what is estimated.

use super::estimate::Sampled;
use super::estimate::bounds::Left;
use super::sketch::Distribution;
use crate::interval::Interval;

/// Sums over commands of one class.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CommandSums {
    /// Commands enqueued.
    pub count: u64,
    /// Of them those that never ran: they failed, or what they waited for had. They moved nothing.
    pub failed: u64,
    /// START to END of the timed ones, device nanoseconds.
    pub time: Distribution,
    /// Of those whose stamps are no times, what passed on the host until they were known complete:
    /// each took no longer.
    pub at_most: Distribution,
    /// Bytes of all of them, as far as known.
    pub bytes: u64,
    /// Bytes of the timed ones.
    pub timed_bytes: u64,
    /// What estimates need, for commands of processes that sampled.
    pub sampled: Option<Box<Sampled>>,
    /// Parts that are estimated by themselves, as transfers of one size are; empty where all is
    /// estimated together.
    pub parts: Vec<CommandSums>,
    /// What the timeline shows of those left out.
    pub left: Option<Left>,
    /// What of the spans is the runtime's own work, as far as it was measured.
    pub bias: Bias,
}

/// Time inside spans that is the runtime's own work, from calibrations in the trace.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Bias {
    /// Launches whose device has a calibration.
    pub launches: u64,
    /// Their bias together, nanoseconds.
    pub ns: f64,
    /// Half-width of its 95 % interval.
    pub uncertainty_ns: f64,
}

impl CommandSums {
    /// Adds a command: its bytes, its device time in nanoseconds if it has one, whether sampling
    /// left it out. `sampling`: whether its process may leave commands out; then `probability` is
    /// that of its being timed, `None` where its record is wrong.
    pub fn add(
        &mut self,
        bytes: u64,
        duration: Option<u64>,
        left_out: bool,
        sampling: bool,
        probability: Option<f64>,
    ) {
        self.count += 1;
        // Hostile sizes: a sum that cannot be true is still no reason to stop.
        self.bytes = self.bytes.saturating_add(bytes);
        if let Some(duration) = duration {
            self.time.add(duration);
            self.timed_bytes = self.timed_bytes.saturating_add(bytes);
        }
        if !left_out && !sampling {
            return;
        }
        let certain = &self.time;
        let sampled = self.sampled.get_or_insert_with(|| {
            // Commands seen before are certain, but for the one just added.
            let mut sampled = Box::<Sampled>::default();
            if duration.is_none() {
                sampled.merge_certain(certain);
            }
            sampled
        });
        if left_out {
            sampled.leave_out();
        } else if let Some(duration) = duration {
            sampled.add(duration, probability.unwrap_or(1.0));
        }
    }

    /// Adds the sums of another class.
    pub fn merge(&mut self, other: &Self) {
        self.left = match (self.left_out(), other.left_out()) {
            (_, 0) => self.left,
            (0, _) => other.left,
            _ => self.left.zip(other.left).map(|(own, other)| own.plus(other)),
        };
        match (&mut self.sampled, &other.sampled) {
            (Some(own), Some(other)) => own.merge(other),
            (own @ None, Some(other)) => {
                let mut all = other.clone();
                all.merge_certain(&self.time);
                *own = Some(all);
            }
            (Some(own), None) => own.merge_certain(&other.time),
            (None, None) => {}
        }
        self.bias.launches += other.bias.launches;
        self.bias.ns += other.bias.ns;
        // One calibration errs alike for all that it is applied to.
        self.bias.uncertainty_ns += other.bias.uncertainty_ns;
        self.count += other.count;
        self.failed += other.failed;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.timed_bytes = self.timed_bytes.saturating_add(other.timed_bytes);
        self.time.merge(&other.time);
        self.at_most.merge(&other.at_most);
    }

    /// The host's bounds of all commands that ran, where none has a time and each is bounded.
    pub fn bounds(&self) -> Option<&Distribution> {
        let ran = self.count - self.failed;
        let all = ran > 0 && self.at_most.count() == ran;
        all.then_some(&self.at_most)
    }

    /// Adds a command that never ran.
    pub fn add_failed(&mut self) {
        self.count += 1;
        self.failed += 1;
    }

    /// Commands without a time.
    pub fn untimed(&self) -> u64 {
        self.count - self.time.count()
    }

    /// Launches that sampled timing left out.
    pub fn left_out(&self) -> u64 {
        self.sampled.as_ref().map_or(0, |s| s.left_out())
    }

    /// Launches whose time is known or estimated.
    pub fn covered(&self) -> u64 {
        self.time.count() + self.left_out()
    }

    /// What estimates are made from, where launches were left out by chance.
    pub fn estimated(&self) -> Option<&Sampled> {
        self.sampled.as_deref().filter(|s| s.left_out() > 0)
    }

    /// Time of all launches but those without time for another reason: exact where all were timed,
    /// else estimated. `None` where nothing is known.
    pub fn total(&self) -> Option<Interval> {
        match self.estimated() {
            Some(_) if !self.parts.is_empty() => {
                let known = self.parts.iter().filter(|p| p.covered() > 0);
                known
                    .map(Self::total)
                    .try_fold(Interval::exact(0.0), |sum, part| Some(sum.plus(part?)))
            }
            Some(sampled) => sampled.total_with(self.left.as_ref()),
            None => (self.time.count() > 0).then(|| Interval::exact(self.time.total() as f64)),
        }
    }

    /// By how much longer, in nanoseconds, a timed launch is than one that was left out, as far as the
    /// queues show; `None` where they show nothing of it.
    pub fn timing_adds(&self) -> Option<f64> {
        let (sampled, left) = (self.estimated()?, self.left.as_ref()?);
        Some(left.shorter() / sampled.left_out() as f64).filter(|more| *more > 0.0)
    }

    /// Sums of parts that are estimated one by one.
    pub fn together(parts: Vec<Self>) -> Self {
        let mut out = Self::default();
        parts.iter().for_each(|part| out.merge(part));
        Self { parts: if parts.len() > 1 { parts } else { Vec::new() }, ..out }
    }

    /// Mean span bias of a launch and the half-width of its 95 % interval, nanoseconds, if it was
    /// measured for all of them.
    pub fn span_bias(&self) -> Option<(f64, f64)> {
        let Bias { launches, ns, uncertainty_ns } = self.bias;
        let n = launches as f64;
        (launches > 0 && launches == self.covered()).then_some((ns / n, uncertainty_ns / n))
    }

    /// The total less the span bias, if that was measured for all of the launches.
    pub fn corrected(&self) -> Option<Interval> {
        let total = self.total()?;
        let Bias { launches, ns, uncertainty_ns } = self.bias;
        (launches > 0 && launches == self.covered())
            .then(|| total.plus(Interval::around(-ns, uncertainty_ns)))
    }

    /// Gigabytes (10^9) per second over the timed commands, if they took any time.
    pub fn gigabytes_per_second(&self) -> Option<f64> {
        (self.time.total() > 0 && self.timed_bytes > 0)
            .then(|| self.timed_bytes as f64 / self.time.total() as f64)
    }
}
