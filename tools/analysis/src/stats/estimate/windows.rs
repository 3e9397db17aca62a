//! Owns what the timeline proves about launches that sampled timing left out. The commands of an
//! in-order queue run one after the other, so those between two timed ones fit between END of the
//! first and START of the second, and not before they were enqueued; a finished queue has run all
//! it was given. Together that is the most that they can have taken, and where the queue was never
//! empty meanwhile nearly what they did take: few launches that are very long (preempted workers of
//! a CPU, arguments that ask for more) show there although no sample holds one. Refuses queues that
//! run out of order or whose enqueues raced, and takes no window for a duration: it also holds what
//! passes between commands.

use super::Sampled;
use super::bounds::{Left, Queue};
use crate::ids::IdMap;
use crate::time::{HostNs, Span, ThreadIndex};
use std::collections::{BTreeMap, VecDeque};

/// Most commands whose order is remembered while one before them is still awaited.
const MOST_WAITING: usize = 1 << 17;
/// Most windows kept of a queue; then neighbours are joined.
const MOST_WINDOWS: usize = 1 << 14;
/// Most timed launches kept with their windows; then every second one represents two.
const MOST_EVIDENCE: usize = 1 << 13;
/// Most pairs of class and geometry kept apart on a queue.
const MOST_KINDS: usize = 256;
/// Timed launches from which a geometry has a typical duration of its own.
const ENOUGH: u64 = 3;
/// Part of a window in which the queue was not empty, from which on it counts as full.
const MOSTLY: f64 = 0.9;
/// How far spans of one queue may overlap and it still counts as in order, nanoseconds: alignment
/// moves them a little.
const OVERLAP_NS: i64 = 5_000;

/// What was enqueued.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum What {
    /// A launch that was left out by chance.
    LeftOut(Launch),
    /// A command that will have a time: its id, and for a launch what it was and the probability
    /// with which it was chosen.
    Timed(u64, Option<(Launch, f64)>),
    /// A command of which nothing will be known.
    Unknown,
}

/// What was launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launch {
    /// What is estimated together.
    pub class: u64,
    /// The part of it that typical durations separate.
    pub geometry: u32,
}

/// A command's time: on the timeline, and on the device, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timed {
    /// START on the timeline.
    pub start: HostNs,
    /// END on the timeline.
    pub end: HostNs,
    /// END less START.
    pub duration: u64,
}

#[derive(Debug, Clone, Copy)]
enum Item {
    Command(What, Span),
    /// All before it is complete by then.
    Done(HostNs),
    /// The recorder ran something of its own.
    Beside,
}

/// Launches between two moments at which the queue stood at a known command.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Window {
    /// Time in which they may have run.
    pub available: f64,
    /// Of it, when the queue was not empty: after the last of them was enqueued, or all of the time
    /// but what typical launches would have left idle, whichever is more.
    pub full: f64,
    /// How many of each, in the order of the first of each.
    pub counts: Vec<(Launch, f64)>,
    /// Commands of which nothing is known ran in it too.
    pub tainted: bool,
}

impl Window {
    /// Whether the queue was never empty for long.
    pub(super) fn is_full(&self) -> bool {
        self.full >= MOSTLY * self.available
    }

    fn count(&mut self, launch: Launch, n: f64) {
        match self.counts.iter_mut().find(|c| c.0 == launch) {
            Some(found) => found.1 += n,
            None => self.counts.push((launch, n)),
        }
    }

    fn join(&mut self, other: &Self) {
        self.available += other.available;
        self.full += other.full;
        self.tainted |= other.tainted;
        other.counts.iter().for_each(|(launch, n)| self.count(*launch, *n));
    }
}

/// A launch that was timed by chance, in the window in which it would have been had it been left
/// out.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    /// What it was.
    pub launch: Launch,
    /// How long it took, nanoseconds.
    pub duration: f64,
    /// Number of left-out launches that it represents, (1-p)/p.
    pub weight: f64,
    /// Launches of its class before it that chance decided about.
    pub nth: u64,
    /// The windows beside it and itself.
    pub window: Window,
}

/// Windows and the launches of one that is not yet closed.
#[derive(Debug, Clone)]
struct Open {
    from: HostNs,
    /// Return of the last enqueue.
    last: HostNs,
    /// When typical launches would be done, and how long they would have left the queue empty until
    /// then.
    done: HostNs,
    idle: f64,
    window: Window,
}

impl Open {
    fn new(from: HostNs) -> Self {
        Self { from, last: from, done: from, idle: 0.0, window: Window::default() }
    }

    /// A command that typically takes so long was enqueued by a call that returned then.
    fn enqueued(&mut self, returned: HostNs, typical: i64) {
        self.idle += returned.since(self.done) as f64;
        self.done = HostNs(self.done.max(returned).0.saturating_add(typical));
        self.last = returned;
    }

    fn close(&self, end: HostNs) -> Window {
        let available = end.since(self.from) as f64;
        let full = (end.since(self.from.max(self.last)) as f64).max(available - self.idle);
        Window { available, full, ..self.window.clone() }
    }
}

/// Forgets every second one.
fn thin(of: &mut Vec<Evidence>) {
    let mut is_kept = false;
    of.retain(|_| {
        is_kept = !is_kept;
        is_kept
    });
}

/// The windows of one in-order queue, filled from its events in the order of the timeline.
#[derive(Debug, Clone, Default)]
pub struct Windows {
    waiting: VecDeque<Item>,
    /// Spans of timed commands that are not yet passed; `None` for those that got no time after
    /// all.
    known: IdMap<Option<Timed>>,
    /// The last enqueue.
    last: Option<(ThreadIndex, HostNs)>,
    free_from: Option<HostNs>,
    open: Option<Open>,
    windows: Vec<Window>,
    /// The last launch timed by chance, until its window's end is known.
    pending: Option<(Launch, f64, f64, u64, Open)>,
    evidence: Vec<Evidence>,
    /// Launches of each class that chance decided about.
    decided: IdMap<u64>,
    /// For how many each remembered one of them stands.
    thinned: f64,
    /// Durations of the launches of each class and geometry, and what is typical of them so far.
    kinds: IdMap<Kind, u128>,
    /// Nanoseconds from timed commands to timed ones that waited for them, and how many.
    between: (f64, f64),
    /// The order of commands is not certain.
    unordered: bool,
}

/// The launches of one class and geometry.
#[derive(Debug, Clone, Default)]
struct Kind {
    times: Sampled,
    /// What one typically takes, in nanoseconds.
    typical: i64,
    /// How many have to be timed until that is worked out anew.
    next: u64,
}

impl Kind {
    fn add(&mut self, ns: u64, p: f64) {
        self.times.add(ns, p);
        // It takes a pass over all bins, and few more launches change it little.
        let timed = self.times.timed();
        if timed >= self.next {
            self.typical = self.times.typical().map_or(0, |t| t.0 as i64);
            self.next = timed + timed / 64 + 1;
        }
    }
}

impl Windows {
    /// A command was enqueued.
    pub fn enqueued(&mut self, thread: ThreadIndex, call: Span, what: What) {
        if self.last.is_some_and(|(other, end)| other != thread && end > call.begin) {
            self.unordered = true;
        }
        self.last = Some((thread, call.end));
        if self.unordered {
            return self.forget();
        }
        self.waiting.push_back(Item::Command(what, call));
        if self.waiting.len() > MOST_WAITING
            && let Some(Item::Command(What::Timed(id, _), _)) = self.waiting.front()
        {
            self.known.insert(*id, None);
        }
        if self.waiting.len() == 1 || self.waiting.len() > MOST_WAITING {
            self.pass();
        }
    }

    /// A command was enqueued by a call that also waited for its end: it ran within the call, of
    /// which an unknown part was filled.
    pub fn blocked(&mut self, thread: ThreadIndex, call: Span, what: What) {
        self.enqueued(thread, call, what);
        if !self.unordered {
            self.waiting.push_back(Item::Done(call.end));
            self.pass();
        }
    }

    /// The recorder ran commands of its own at this place of the queue, or beside it: the time
    /// until the next moment that is known is not the application's alone.
    pub fn interrupted(&mut self) {
        // Once is as often as many times.
        if !self.unordered && !matches!(self.waiting.back(), Some(Item::Beside)) {
            self.waiting.push_back(Item::Beside);
            self.pass();
        }
    }

    /// A timed command's time, or `None` if it got none.
    pub fn completed(&mut self, id: u64, span: Option<Timed>) {
        if self.unordered || self.waiting.is_empty() {
            return;
        }
        self.known.insert(id, span);
        if matches!(self.waiting.front(), Some(Item::Command(What::Timed(first, _), _)) if *first == id)
        {
            self.pass();
        }
    }

    /// A call that waited for everything enqueued before it.
    pub fn finished(&mut self, call: Span) {
        // What another thread enqueued meanwhile may still run.
        if !self.unordered && self.last.is_some_and(|(_, end)| end <= call.begin) {
            self.waiting.push_back(Item::Done(call.end));
            self.pass();
        }
    }

    fn forget(&mut self) {
        (self.waiting, self.known, self.open, self.windows) = Default::default();
        (self.pending, self.evidence, self.kinds) = Default::default();
    }

    /// The launch with the number under which its geometry is counted.
    fn kind(&mut self, launch: Launch) -> Launch {
        let known = self.kinds.len() < MOST_KINDS || self.kinds.contains_key(&key(launch));
        if known { launch } else { Launch { geometry: u32::MAX, ..launch } }
    }

    /// Goes over what is known at the head of the queue.
    fn pass(&mut self) {
        while let Some(item) = self.waiting.front().copied() {
            match item {
                Item::Command(What::Timed(id, launch), call) => match self.known.remove(&id) {
                    None => return,
                    Some(None) => self.run(call, None),
                    Some(Some(timed)) => {
                        if self
                            .free_from
                            .is_some_and(|free| timed.start.0 < free.0.saturating_sub(OVERLAP_NS))
                        {
                            self.unordered = true;
                            return self.forget();
                        }
                        self.timed(timed, launch, call);
                    }
                },
                Item::Command(What::LeftOut(launch), call) => {
                    let launch = self.kind(launch);
                    self.run(call, Some(launch));
                }
                Item::Command(What::Unknown, call) => self.run(call, None),
                Item::Beside => {
                    self.open.iter_mut().for_each(|open| open.window.tainted = true);
                    self.pending.iter_mut().for_each(|timed| timed.4.window.tainted = true);
                }
                Item::Done(at) => {
                    self.settle(at);
                    self.close(at);
                    self.free_from = Some(self.free_from.map_or(at, |free| free.max(at)));
                }
            }
            self.waiting.pop_front();
        }
    }

    fn run(&mut self, call: Span, launch: Option<Launch>) {
        let from = self.from(call);
        // What was never timed is done at once: then the queue counts as empty sooner.
        let typical =
            launch.and_then(|launch| self.kinds.get(&key(launch))).map_or(0, |kind| kind.typical);
        if let Some(launch) = launch {
            *self.decided.entry(launch.class).or_default() += 1;
        }
        let open = self.open.get_or_insert_with(|| Open::new(from));
        open.enqueued(call.end, typical);
        match launch {
            Some(launch) => open.window.count(launch, 1.0),
            None => open.window.tainted = true,
        }
    }

    fn from(&self, call: Span) -> HostNs {
        self.free_from.map_or(call.begin, |free| free.max(call.begin))
    }

    /// A command with a time: what was before it ended, and if it was chosen by chance, its own
    /// window begins there.
    fn timed(&mut self, timed: Timed, launch: Option<(Launch, f64)>, call: Span) {
        self.settle(timed.start);
        if let Some(free) = self.free_from.filter(|free| self.open.is_none() && call.end <= *free) {
            self.between.0 += timed.start.since(free) as f64;
            self.between.1 += 1.0;
        }
        if let Some((launch, p)) = launch {
            let launch = self.kind(launch);
            let from = self.from(call);
            let kind = self.kinds.entry(key(launch)).or_default();
            kind.add(timed.duration, p);
            let typical = kind.typical;
            // What was certain to be timed represents nothing but itself.
            if p < 1.0 {
                let mut own = self.open.clone().unwrap_or_else(|| Open::new(from));
                own.enqueued(call.end, typical);
                own.window.count(launch, 1.0);
                let decided = self.decided.entry(launch.class).or_default();
                let (weight, nth) = ((1.0 - p) / p, *decided);
                *decided += 1;
                self.pending = Some((launch, timed.duration as f64, weight, nth, own));
            }
        }
        self.close(timed.start);
        self.free_from = Some(timed.end);
    }

    /// The window of the last launch timed by chance ended.
    fn settle(&mut self, end: HostNs) {
        let Some((launch, duration, weight, nth, mut own)) = self.pending.take() else { return };
        if let Some(open) = &self.open {
            own.window.join(&open.window);
            own.last = open.last;
            own.idle += open.idle;
        }
        let window = own.close(end);
        let weight = weight * self.thinned.max(1.0);
        self.evidence.push(Evidence { launch, duration, weight, nth, window });
        if self.evidence.len() > MOST_EVIDENCE {
            self.thinned = 2.0 * self.thinned.max(1.0);
            thin(&mut self.evidence);
            self.evidence.iter_mut().for_each(|e| e.weight *= 2.0);
        }
    }

    fn close(&mut self, end: HostNs) {
        let Some(open) = self.open.take() else { return };
        self.windows.push(open.close(end));
        if self.windows.len() > MOST_WINDOWS {
            let joined = self.windows.chunks(2).map(|pair| {
                let mut first = pair[0].clone();
                pair[1..].iter().for_each(|other| first.join(other));
                first
            });
            self.windows = joined.collect();
        }
    }

    /// What launches that were left out took, class by class, given the timed ones. Classes without
    /// an entry: nothing is known. `preempted`: whether the device's workers may be interrupted for
    /// long, as a CPU's are.
    pub fn left(
        mut self,
        sampled: &BTreeMap<u64, &Sampled>,
        preempted: bool,
    ) -> BTreeMap<u64, Left> {
        while !self.unordered && !self.waiting.is_empty() {
            if let Some(Item::Command(What::Timed(id, _), _)) = self.waiting.front() {
                self.known.entry(*id).or_insert(None);
            }
            self.pass();
        }
        if self.unordered {
            return BTreeMap::new();
        }
        let of_classes: BTreeMap<u64, f64> = sampled
            .iter()
            .filter_map(|(class, s)| Some((*class, s.typical()?.0.max(1.0))))
            .collect();
        let own = self.kinds.iter().filter(|(_, s)| s.times.timed() >= ENOUGH);
        let own: IdMap<f64, u128> =
            own.filter_map(|(key, s)| Some((*key, s.times.typical()?.0.max(1.0)))).collect();
        let typical = |class, geometry| {
            let launch = Launch { class, geometry };
            own.get(&key(launch)).or_else(|| of_classes.get(&class)).copied()
        };
        let variances = sampled.iter().filter_map(|(class, s)| Some((*class, s.variance()?)));
        let mut queue = Queue {
            windows: &self.windows,
            evidence: &self.evidence,
            thinned: self.thinned.max(1.0),
            typical: &typical,
            usual: None,
            variances: variances.collect(),
            between: if self.between.1 > 0.0 { self.between.0 / self.between.1 } else { 0.0 },
            preempted,
        };
        queue.usual = queue.usual();
        sampled.iter().filter_map(|(class, s)| Some((*class, queue.left(*class, s)?))).collect()
    }
}

/// A class and a geometry in one number.
pub fn key(launch: Launch) -> u128 {
    (u128::from(launch.class) << 32) | u128::from(launch.geometry)
}

#[cfg(test)]
mod tests;
