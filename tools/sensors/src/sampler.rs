//! One thread that reads all sources, each at the rate it deserves, within a budget of CPU time.
//! Owns the schedule, the accumulation of counters and the verdicts on series; refuses to store
//! anything: readings and events go to a [`Sink`].

use crate::accumulator::{Accumulator, Step, StepCounts};
use crate::error::SensorError;
use crate::liveness::{Liveness, Verdict};
use crate::repeats::{Comparison, Pair};
use crate::response::{self, NoEstimate, Updates};
use crate::source::{Domain, Pace, Quantity, Reading, SensorSource, SourceHealth, Value};
use crate::units::{Clock, RawNs};

/// A series of one sampler: a domain of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeriesId(pub u32);

/// What the sampler has to say beside readings.
#[derive(Debug)]
#[non_exhaustive]
pub enum SamplerEvent<'a> {
    /// A series was shown to work (its counter rose, its power was not 0).
    Works(SeriesId),
    /// A series did not move for as long as it takes to call it dead. Its readings go on: an idle
    /// plane may come alive, and [`SamplerEvent::Works`] then follows.
    Dead {
        /// Which.
        series: SeriesId,
        /// Nanoseconds observed.
        observed_ns: u64,
        /// Whether all values were 0.
        all_zero: bool,
    },
    /// A counter that worked stands still. Said once per standstill.
    Stalled {
        /// Which.
        series: SeriesId,
        /// For how long, nanoseconds.
        still_ns: u64,
    },
    /// A counter jumped or went backwards: a gap in its energy; the total goes on behind it.
    Jumped {
        /// Which.
        series: SeriesId,
        /// When it was seen.
        at: RawNs,
    },
    /// Two series of a source are one counter: wherever they were read one after the other, they had
    /// risen alike, whatever their start. Said once.
    Repeats {
        /// The second.
        series: SeriesId,
        /// The first.
        first: SeriesId,
    },
    /// Reading a source failed; it is tried again. Said once per run of failures.
    Trouble {
        /// The source's name.
        source: &'a str,
        /// Why.
        error: &'a SensorError,
    },
    /// A source is gone for good and read no more.
    Lost {
        /// The source's name.
        source: &'a str,
        /// Why.
        error: &'a SensorError,
    },
    /// The update period of a source was estimated, and its polling set accordingly.
    Paced {
        /// The source's name.
        source: &'a str,
        /// The series the estimate comes from, and the estimate or why there is none.
        updates: (SeriesId, Result<Updates, NoEstimate>),
        /// Nanoseconds between reads from now on.
        every_ns: u64,
    },
}

/// Where readings go.
pub trait Sink {
    /// Announces a series, once, before its first reading.
    fn series(&mut self, id: SeriesId, source: &str, domain: &Domain);

    /// Takes a reading. Counters arrive as [`Value::Energy`], accumulated since the first reading
    /// of the series, which gives 0; everything else as its source gave it.
    fn reading(&mut self, id: SeriesId, reading: &Reading);

    /// Takes an event.
    fn event(&mut self, event: SamplerEvent<'_>);
}

/// What the sampler needs of its thread beside clocks. [`SystemHost`] in the sampling thread; a
/// script in tests.
pub trait SamplerHost: Clock {
    /// CPU time of this thread, nanoseconds.
    fn thread_cpu_ns(&mut self) -> u64;
    /// Waits until `until`, or less.
    fn sleep_until(&mut self, until: RawNs);
}

/// The default, with the caller's clock. Who ends it unparks its thread, so that nobody waits for
/// the next reading.
pub struct SystemHost<C: Clock>(pub C);

impl<C: Clock> Clock for SystemHost<C> {
    fn raw(&mut self) -> RawNs {
        self.0.raw()
    }
    fn realtime(&mut self) -> Option<crate::units::RealtimeNs> {
        self.0.realtime()
    }
}

impl<C: Clock> SamplerHost for SystemHost<C> {
    fn thread_cpu_ns(&mut self) -> u64 {
        thread_cpu_ns()
    }
    fn sleep_until(&mut self, until: RawNs) {
        let ns = until.since(self.0.raw()).min(STOP_NOTICE_NS);
        std::thread::park_timeout(std::time::Duration::from_nanos(ns));
    }
}

/// CPU time this thread has used, nanoseconds; 0 where the kernel refuses to say.
pub fn thread_cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a writable timespec; the clock id is a constant of the system's.
    let rc = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    if rc != 0 {
        return 0;
    }
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000
        + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Longest sleep at a stretch: how late a stop flag may be noticed.
const STOP_NOTICE_NS: u64 = 50_000_000;
/// How long a source is polled at its fastest to find its update period.
const LEARN_NS: u64 = 300_000_000;
/// Slow sources: learning ends after this even without enough updates.
const LEARN_MAX_NS: u64 = 3_000_000_000;
/// Polls kept for the estimate.
const LEARN_POLLS: usize = 4096;
/// Between reads of a source of which no series moves.
const DEAD_NS: u64 = 250_000_000;
/// A source that fails for this long in a row is given up.
const GIVE_UP_NS: u64 = 5_000_000_000;
/// Of one source, at most this share of the time may pass inside reads (calls that block use no CPU
/// time).
const WALL_SHARE: f64 = 0.05;
/// A working counter that stands still for this many of its update periods, and at least a second,
/// has stalled.
const STALL_PERIODS: f64 = 20.0;

/// What the user may set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Share of one core that sampling may take, 0 to 1.
    pub cpu_budget: f64,
    /// Never poll an adaptive source more often than this, nanoseconds.
    pub finest_ns: u64,
}

impl Default for Settings {
    /// One percent of a core; a millisecond, the update period of RAPL.
    fn default() -> Settings {
        Settings { cpu_budget: 0.01, finest_ns: 1_000_000 }
    }
}

struct Series {
    id: SeriesId,
    accumulator: Option<Accumulator>,
    liveness: Liveness,
    said: Verdict,
    stalled: bool,
}

/// Polls of one series while a source is being learnt.
struct Learning {
    since: RawNs,
    /// Time spent at which the estimate is tried next: doubled each time, so that trying stays
    /// cheap.
    check_ns: u64,
    polls: Vec<Vec<(RawNs, f64)>>,
}

struct Slot {
    source: Box<dyn SensorSource>,
    series: Vec<Series>,
    pairs: Vec<Pair>,
    /// The counters' values of one pass.
    raw: Vec<Option<u64>>,
    pace: Pace,
    every_ns: u64,
    due: RawNs,
    learning: Option<Learning>,
    updates: Option<Updates>,
    reads: u64,
    failures: u64,
    failing_since: Option<RawNs>,
    cpu_ns: u64,
    wall_ns: u64,
    lost: bool,
}

/// What sampling one source came to.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceSummary {
    /// Its name.
    pub name: String,
    /// Reads made.
    pub reads: u64,
    /// Reads that failed, wholly or in part.
    pub failures: u64,
    /// CPU time of its reads, nanoseconds.
    pub cpu_ns: u64,
    /// Time spent inside its reads, nanoseconds.
    pub wall_ns: u64,
    /// Time between reads at the end, nanoseconds.
    pub every_ns: u64,
    /// Its updates, where they could be estimated.
    pub updates: Option<Updates>,
    /// What it filtered itself.
    pub health: SourceHealth,
    /// Whether it was given up.
    pub lost: bool,
    /// Per series: the verdict, and for counters the steps seen.
    pub series: Vec<(SeriesId, Verdict, Option<StepCounts>)>,
}

/// What sampling cost and found.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// CPU time of the sampling thread from the first step to now, nanoseconds.
    pub cpu_ns: u64,
    /// Time from the first step to now, nanoseconds.
    pub wall_ns: u64,
    /// Per source.
    pub sources: Vec<SourceSummary>,
}

/// The sampler: sources, schedule, totals.
pub struct Sampler {
    settings: Settings,
    slots: Vec<Slot>,
    started: Option<(RawNs, u64)>,
    last: (RawNs, u64),
    rebalanced: RawNs,
}

impl Sampler {
    /// Over these sources; announces every series to `sink`. Series are numbered in the order of
    /// the sources and their domains.
    pub fn new(
        sources: Vec<Box<dyn SensorSource>>,
        settings: Settings,
        sink: &mut dyn Sink,
    ) -> Sampler {
        let mut next = 0;
        let mut slots = Vec::with_capacity(sources.len());
        for source in sources {
            let mut series = Vec::new();
            for domain in source.domains() {
                let id = SeriesId(next);
                next += 1;
                sink.series(id, source.name(), domain);
                let accumulator = match domain.quantity {
                    Quantity::Energy { unit, range } => Some(Accumulator::new(unit, range)),
                    _ => None,
                };
                let liveness = Liveness::new(domain);
                series.push(Series {
                    id,
                    accumulator,
                    liveness,
                    said: Verdict::Undecided,
                    stalled: false,
                });
            }
            let mut pace = source.pace();
            pace.slowest_ns = pace.slowest_ns.max(1);
            pace.fastest_ns = pace.fastest_ns.clamp(1, pace.slowest_ns);
            let polls = vec![Vec::new(); series.len()];
            let learning =
                pace.adaptive.then_some(Learning { since: RawNs(0), check_ns: LEARN_NS, polls });
            slots.push(Slot {
                pairs: Pair::all(source.domains()),
                raw: vec![None; series.len()],
                source,
                series,
                pace,
                every_ns: pace.fastest_ns,
                due: RawNs(0),
                learning,
                updates: None,
                reads: 0,
                failures: 0,
                failing_since: None,
                cpu_ns: 0,
                wall_ns: 0,
                lost: false,
            });
        }
        Sampler { settings, slots, started: None, last: (RawNs(0), 0), rebalanced: RawNs(0) }
    }

    /// Whether any source is left to read.
    pub fn is_alive(&self) -> bool {
        self.slots.iter().any(|slot| !slot.lost)
    }

    /// Reads every source that is due, and returns when the next one is; `None` when no source is
    /// left.
    pub fn step(&mut self, host: &mut dyn SamplerHost, sink: &mut dyn Sink) -> Option<RawNs> {
        let cpu = host.thread_cpu_ns();
        let now = host.raw();
        self.started.get_or_insert((now, cpu));
        for slot in self.slots.iter_mut().filter(|slot| !slot.lost && slot.due <= now) {
            slot.read(host, sink, &self.settings);
        }
        let now = host.raw();
        self.last = (now, host.thread_cpu_ns());
        if now.since(self.rebalanced) >= 1_000_000_000 {
            self.rebalanced = now;
            self.rebalance();
        }
        self.slots.iter().filter(|slot| !slot.lost).map(|slot| slot.due).min()
    }

    /// Samples until `stop` says so or no source is left, then reads every source once more, so
    /// that the last reading lies behind all that was to be measured.
    pub fn run(
        &mut self,
        host: &mut dyn SamplerHost,
        sink: &mut dyn Sink,
        stop: &dyn Fn() -> bool,
    ) {
        while !stop() {
            let Some(due) = self.step(host, sink) else { return };
            if due > host.raw() {
                host.sleep_until(due);
            }
        }
        self.finish(host, sink);
    }

    /// Reads every source once, whatever its schedule.
    pub fn finish(&mut self, host: &mut dyn SamplerHost, sink: &mut dyn Sink) {
        for slot in &mut self.slots {
            slot.due = RawNs(0);
        }
        self.step(host, sink);
    }

    /// Spreads the CPU budget: sources with a pace of their own come first, adaptive ones share the
    /// rest.
    fn rebalance(&mut self) {
        let share = |slot: &Slot| {
            let cost = slot.cpu_ns as f64 / slot.reads.max(1) as f64;
            cost / slot.wanted_ns(&self.settings) as f64
        };
        let live = || self.slots.iter().filter(|slot| !slot.lost && slot.learning.is_none());
        let fixed: f64 = live().filter(|slot| !slot.pace.adaptive).map(share).sum();
        let adaptive: f64 = live().filter(|slot| slot.pace.adaptive).map(share).sum();
        // Even where the fixed ones take all, the others keep a tenth: a run without them says
        // nothing.
        let left = (self.settings.cpu_budget - fixed).max(self.settings.cpu_budget * 0.1);
        let stretch = (adaptive / left).max(1.0);
        for slot in self.slots.iter_mut().filter(|slot| slot.learning.is_none()) {
            let stretch = if slot.pace.adaptive { stretch } else { 1.0 };
            let every = (slot.wanted_ns(&self.settings) as f64 * stretch) as u64;
            slot.every_ns = every.clamp(slot.pace.fastest_ns, slot.pace.slowest_ns);
        }
    }

    /// What it cost and found so far.
    pub fn summary(&self) -> Summary {
        let (start, cpu) = self.started.unwrap_or_default();
        let sources = self.slots.iter().map(|slot| SourceSummary {
            name: slot.source.name().to_owned(),
            reads: slot.reads,
            failures: slot.failures,
            cpu_ns: slot.cpu_ns,
            wall_ns: slot.wall_ns,
            every_ns: slot.every_ns,
            updates: slot.updates,
            health: slot.source.health(),
            lost: slot.lost,
            series: slot
                .series
                .iter()
                .map(|s| {
                    (s.id, s.liveness.verdict(), s.accumulator.as_ref().map(Accumulator::counts))
                })
                .collect(),
        });
        Summary {
            cpu_ns: self.last.1.saturating_sub(cpu),
            wall_ns: self.last.0.since(start),
            sources: sources.collect(),
        }
    }
}

impl Slot {
    /// The period this source would have with CPU time to spare.
    fn wanted_ns(&self, settings: &Settings) -> u64 {
        if !self.pace.adaptive {
            return self.pace.fastest_ns;
        }
        // It may come alive, which need not be known to the millisecond.
        if self.series.iter().all(|s| matches!(s.said, Verdict::Dead { .. })) {
            return DEAD_NS.clamp(self.pace.fastest_ns, self.pace.slowest_ns);
        }
        // Twice per update: each update is seen, and its time known to half a period.
        let by_updates = self.updates.map_or(0, |u| (u.period_ns / 2.0) as u64);
        let by_wall = (self.wall_ns as f64 / self.reads.max(1) as f64 / WALL_SHARE) as u64;
        by_updates
            .max(by_wall)
            .max(settings.finest_ns)
            .clamp(self.pace.fastest_ns, self.pace.slowest_ns)
    }

    fn read(&mut self, host: &mut dyn SamplerHost, sink: &mut dyn Sink, settings: &Settings) {
        let cpu = host.thread_cpu_ns();
        let begin = host.raw();
        let mut given = 0u64;
        let (series, learning) = (&mut self.series, &mut self.learning);
        self.raw.fill(None);
        let raw = &mut self.raw;
        let result = self.source.read(host, &mut |reading| {
            given += 1;
            if let (Some(raw), Value::Counter(value)) =
                (raw.get_mut(reading.domain.0), reading.value)
            {
                *raw = Some(value);
            }
            if let Some(of) = series.get_mut(reading.domain.0) {
                of.take(reading, sink);
                if let Some(polls) =
                    learning.as_mut().and_then(|l| l.polls.get_mut(reading.domain.0))
                    && polls.len() < LEARN_POLLS
                {
                    polls.push((reading.stamp.mid(), reading.value.magnitude()));
                }
            }
        });
        let now = host.raw();
        self.reads += 1;
        self.cpu_ns += host.thread_cpu_ns().saturating_sub(cpu);
        self.wall_ns += now.since(begin);
        match result {
            Ok(()) => self.failing_since = None,
            Err(error) => {
                self.failures += 1;
                let since = *self.failing_since.get_or_insert_with(|| {
                    sink.event(SamplerEvent::Trouble { source: self.source.name(), error: &error });
                    now
                });
                let nothing = given == 0;
                if nothing && (error.is_fatal() || now.since(since) >= GIVE_UP_NS) {
                    self.lost = true;
                    sink.event(SamplerEvent::Lost { source: self.source.name(), error: &error });
                    return;
                }
            }
        }
        self.look_for_stalls(now, sink);
        self.look_for_repeats(sink);
        if given > 0 {
            self.learn(now, sink, settings);
        }
        // From the schedule, not from now: reads must not drift, and a late one is not made up for.
        self.due = match self.source.due_in_ns() {
            Some(ns) => now.plus(ns),
            None => RawNs((self.due.0 + self.every_ns).max(now.0 + self.every_ns / 2)),
        };
    }

    fn look_for_stalls(&mut self, now: RawNs, sink: &mut dyn Sink) {
        let patience = self.updates.map_or(0.0, |u| u.period_ns * STALL_PERIODS).max(1e9) as u64;
        for series in &mut self.series {
            let Some(still_ns) = series.accumulator.as_ref().and_then(|a| a.still_for(now)) else {
                continue;
            };
            let stalled = series.said == Verdict::Works && still_ns > patience;
            if stalled && !series.stalled {
                sink.event(SamplerEvent::Stalled { series: series.id, still_ns });
            }
            series.stalled = stalled;
        }
    }

    fn look_for_repeats(&mut self, sink: &mut dyn Sink) {
        let (raw, series) = (&self.raw, &self.series);
        self.pairs.retain_mut(|pair| {
            let value = |at: usize| raw.get(at).copied().flatten();
            let Some((first, second)) = value(pair.first).zip(value(pair.second)) else {
                return true;
            };
            match pair.compare(first, second) {
                Comparison::Open => true,
                Comparison::Differ => false,
                Comparison::Same => {
                    let found = series.get(pair.first).zip(series.get(pair.second));
                    if let Some((first, second)) = found {
                        let (first, series) = (first.id, second.id);
                        sink.event(SamplerEvent::Repeats { series, first });
                    }
                    false
                }
            }
        });
    }

    fn learn(&mut self, now: RawNs, sink: &mut dyn Sink, settings: &Settings) {
        let Some(learning) = &mut self.learning else { return };
        if learning.since == RawNs(0) {
            learning.since = now;
        }
        let spent = now.since(learning.since);
        if spent < learning.check_ns {
            return;
        }
        learning.check_ns *= 2;
        // The series that changed most shows it best; the others of a source share its hardware.
        let estimates = learning.polls.iter().map(|polls| response::updates(polls));
        let best = estimates.enumerate().max_by_key(|(_, e)| match e {
            Ok(updates) => updates.changes + response::MIN_CHANGES,
            Err(NoEstimate::TooFew { have, .. }) => *have,
            Err(_) => response::MIN_CHANGES,
        });
        let Some((which, estimate)) = best else { return };
        let hopeless =
            spent >= LEARN_MAX_NS || matches!(estimate, Err(NoEstimate::Undersampled { .. }));
        if estimate.is_err() && !hopeless {
            return;
        }
        self.learning = None;
        self.updates = estimate.ok();
        self.every_ns = self.wanted_ns(settings);
        if let Some(series) = self.series.get(which) {
            let (source, every_ns) = (self.source.name(), self.every_ns);
            sink.event(SamplerEvent::Paced { source, updates: (series.id, estimate), every_ns });
        }
    }
}

impl Series {
    fn take(&mut self, mut reading: Reading, sink: &mut dyn Sink) {
        let at = reading.stamp.mid();
        self.liveness.observe(at, reading.value);
        let verdict = self.liveness.verdict();
        if std::mem::discriminant(&verdict) != std::mem::discriminant(&self.said) {
            self.said = verdict;
            match verdict {
                Verdict::Works => sink.event(SamplerEvent::Works(self.id)),
                Verdict::Dead { observed_ns, all_zero } => {
                    sink.event(SamplerEvent::Dead { series: self.id, observed_ns, all_zero });
                }
                Verdict::Undecided => {}
            }
        }
        if let (Some(accumulator), Value::Counter(raw)) = (&mut self.accumulator, reading.value) {
            match accumulator.push(at, raw) {
                Step::Jumped => sink.event(SamplerEvent::Jumped { series: self.id, at }),
                // Kept out of the series: its times must not run backwards.
                Step::TimeBackwards => return,
                Step::First | Step::Advanced(_) | Step::Unchanged | Step::Wrapped(_) => {}
            }
            reading.value = Value::Energy(accumulator.total());
        }
        sink.reading(self.id, &reading);
    }
}
