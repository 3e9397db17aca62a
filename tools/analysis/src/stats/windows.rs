//! Owns what the timeline proves about launches that sampled timing left out. The commands of an in-order queue run one
//! after the other, so those between two timed ones fit between END of the first and START of the second, and not before
//! they were enqueued; a finished queue has run all it was given. Together that is the most that they can have taken,
//! and where the queue was never empty meanwhile nearly what they did take: few launches that are very long (preempted
//! workers of a CPU, arguments that ask for more) show there although no sample holds one. Refuses queues that run out of
//! order or whose enqueues raced, and takes no window for a duration: it also holds what passes between commands.

use super::estimate::{Ceiling, Sampled};
use crate::ids::IdMap;
use crate::time::{HostNs, Span, ThreadIndex};
use std::collections::{BTreeMap, VecDeque};

/// Most commands whose order is remembered while one before them is still awaited.
const MOST_WAITING: usize = 1 << 17;
/// Most windows kept of a queue; then neighbours are joined.
const MOST_WINDOWS: usize = 1 << 14;
/// Windows from which a typical one is told.
const ENOUGH: usize = 8;
/// Part of a window in which the queue was not empty, from which on it counts as full.
const MOSTLY: f64 = 0.9;
/// How far spans of one queue may overlap and it still counts as in order, nanoseconds: alignment moves them a little.
const OVERLAP_NS: i64 = 5_000;

/// What was enqueued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A launch of this class that was left out by chance.
    LeftOut(u64),
    /// A command that will have a time: its id.
    Timed(u64),
    /// A command of which nothing will be known.
    Unknown,
}

#[derive(Debug, Clone, Copy)]
enum Item {
    Command(What, Span),
    /// All before it is complete by then.
    Done(HostNs),
}

/// Launches between two moments at which the queue stood at a known command.
#[derive(Debug, Clone, Default, PartialEq)]
struct Window {
    /// Time in which they may have run.
    available: f64,
    /// Of it, after the last of them was enqueued: the queue was not empty then.
    full: f64,
    /// Launches by class.
    counts: Vec<(u64, f64)>,
    /// Commands of which nothing is known ran in it too.
    tainted: bool,
}

impl Window {
    fn launches(&self) -> f64 {
        self.counts.iter().map(|c| c.1).sum()
    }

    fn count(&mut self, class: u64, n: f64) {
        match self.counts.iter_mut().find(|c| c.0 == class) {
            Some(found) => found.1 += n,
            None => self.counts.push((class, n)),
        }
    }

    fn join(&mut self, other: &Self) {
        self.available += other.available;
        self.full += other.full;
        self.tainted |= other.tainted;
        other.counts.iter().for_each(|(class, n)| self.count(*class, *n));
    }
}

/// The windows of one in-order queue, filled from its events in the order of the timeline.
#[derive(Debug, Clone, Default)]
pub struct Windows {
    waiting: VecDeque<Item>,
    /// Spans of timed commands that are not yet passed; `None` for those that got no time after all.
    known: IdMap<Option<(HostNs, HostNs)>>,
    /// The last enqueue.
    last: Option<(ThreadIndex, HostNs)>,
    free_from: Option<HostNs>,
    open: Option<(HostNs, HostNs, Window)>,
    windows: Vec<Window>,
    /// Classes in windows without an end.
    unending: BTreeMap<u64, ()>,
    /// The order of commands is not certain.
    unordered: bool,
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
            && let Some(Item::Command(What::Timed(id), _)) = self.waiting.front()
        {
            self.known.insert(*id, None);
        }
        if self.waiting.len() == 1 || self.waiting.len() > MOST_WAITING {
            self.pass();
        }
    }

    /// A timed command's span on the timeline, or `None` if it got none.
    pub fn completed(&mut self, id: u64, span: Option<(HostNs, HostNs)>) {
        if self.unordered || self.waiting.is_empty() {
            return;
        }
        self.known.insert(id, span);
        if matches!(self.waiting.front(), Some(Item::Command(What::Timed(first), _)) if *first == id) {
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
    }

    /// Goes over what is known at the head of the queue.
    fn pass(&mut self) {
        while let Some(item) = self.waiting.front().copied() {
            match item {
                Item::Command(What::Timed(id), call) => match self.known.remove(&id) {
                    None => return,
                    Some(None) => self.run(call, None),
                    Some(Some((start, end))) => {
                        if self.free_from.is_some_and(|free| start.0 < free.0.saturating_sub(OVERLAP_NS)) {
                            self.unordered = true;
                            return self.forget();
                        }
                        self.close(Some(start));
                        self.free_from = Some(end);
                    }
                },
                Item::Command(What::LeftOut(class), call) => self.run(call, Some(class)),
                Item::Command(What::Unknown, call) => self.run(call, None),
                Item::Done(at) => {
                    self.close(Some(at));
                    self.free_from = Some(self.free_from.map_or(at, |free| free.max(at)));
                }
            }
            self.waiting.pop_front();
        }
    }

    fn run(&mut self, call: Span, class: Option<u64>) {
        let from = self.free_from.map_or(call.begin, |free| free.max(call.begin));
        let (_, last, window) = self.open.get_or_insert_with(|| (from, call.end, Window::default()));
        *last = call.end;
        match class {
            Some(class) => window.count(class, 1.0),
            None => window.tainted = true,
        }
    }

    fn close(&mut self, end: Option<HostNs>) {
        let Some((from, last, mut window)) = self.open.take() else { return };
        let Some(end) = end else {
            self.unending.extend(window.counts.iter().map(|c| (c.0, ())));
            return;
        };
        window.available = end.since(from) as f64;
        window.full = end.since(from.max(last)) as f64;
        self.windows.push(window);
        if self.windows.len() > MOST_WINDOWS {
            let joined = self.windows.chunks(2).map(|pair| {
                let mut first = pair[0].clone();
                pair[1..].iter().for_each(|other| first.join(other));
                first
            });
            self.windows = joined.collect();
        }
    }

    /// What the windows say of each class of launches, given the timed ones. Classes without an entry: nothing.
    #[must_use]
    pub fn ceilings(mut self, sampled: &BTreeMap<u64, &Sampled>) -> BTreeMap<u64, Ceiling> {
        while !self.unordered && !self.waiting.is_empty() {
            if let Some(Item::Command(What::Timed(id), _)) = self.waiting.front() {
                self.known.entry(*id).or_insert(None);
            }
            self.pass();
        }
        self.close(None);
        if self.unordered {
            return BTreeMap::new();
        }
        let typical: BTreeMap<u64, f64> = sampled.iter().filter_map(|(class, s)| Some((*class, s.typical()?.0))).collect();
        let expected = |w: &Window| w.counts.iter().map(|(class, n)| Some(n * typical.get(class)?)).sum::<Option<f64>>();
        // What passes with a launch and is no part of it, and how far windows lie from that.
        let usable = || self.windows.iter().filter(|w| !w.tainted);
        let mut rests: Vec<(f64, f64)> =
            usable().filter_map(|w| Some(((w.available - expected(w)?) / w.launches(), w.launches()))).collect();
        let gap = if rests.len() >= ENOUGH { quantile(&mut rests, 0.5) } else { None };
        // It is as likely too long as too short; where much time is unexplained, little is taken for gaps.
        let low_gap = gap.and(quantile(&mut rests, 0.1));
        let mut off: Vec<(f64, f64)> = rests.iter().map(|(rest, n)| ((rest - gap.unwrap_or(0.0)).abs() * n.sqrt(), 1.0)).collect();
        let noise = gap.and_then(|_| quantile(&mut off, 0.5)).map_or(f64::INFINITY, |median| 1.4826 * median);
        let mut out: BTreeMap<u64, Ceiling> = sampled.keys().map(|class| (*class, Ceiling::default())).collect();
        let beyond = |w: &Window, gap: Option<f64>| {
            gap.zip(expected(w)).filter(|_| !w.tainted).map_or(0.0, |(gap, expected)| {
                let usual = expected + w.launches() * gap;
                // Where the queue may have been empty for a while, only what stands out, and what came after the last enqueue.
                if w.full >= MOSTLY * w.available {
                    w.available - usual
                } else if w.full - usual > 4.0 * noise * w.launches().sqrt() {
                    w.full - usual
                } else {
                    0.0
                }
            })
        };
        let mut launches: BTreeMap<u64, f64> = BTreeMap::new();
        let mut generous: BTreeMap<u64, f64> = BTreeMap::new();
        for w in &self.windows {
            let (usual, more) = (beyond(w, gap), beyond(w, low_gap));
            for (class, _) in &w.counts {
                *launches.entry(*class).or_default() += w.launches();
                *generous.entry(*class).or_default() += more;
                if let Some(ceiling) = out.get_mut(class) {
                    ceiling.most += w.available;
                    ceiling.beyond += usual;
                    if w.full < MOSTLY * w.available {
                        ceiling.open += w.available;
                    }
                }
            }
        }
        for (class, ceiling) in &mut out {
            let chance = 4.0 * noise * launches.get(class).copied().unwrap_or(0.0).sqrt();
            let stands_out = ceiling.beyond > chance;
            let generous = generous.get(class).copied().filter(|_| stands_out);
            ceiling.beyond = generous.unwrap_or(ceiling.beyond).max(ceiling.beyond).max(0.0);
            // Launches that follow each other faster than their spans last: spans hold more than the launch, and do not fit.
            if gap.is_none_or(|gap| gap < 0.0) || self.unending.contains_key(class) {
                ceiling.most = f64::INFINITY;
            }
            if self.unending.contains_key(class) {
                ceiling.open = f64::INFINITY;
            }
        }
        out
    }
}

/// Weighted quantile; sorts.
fn quantile(values: &mut [(f64, f64)], q: f64) -> Option<f64> {
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let share = q * values.iter().map(|v| v.1).sum::<f64>();
    let mut seen = 0.0;
    values.iter().find_map(|(value, weight)| {
        seen += weight;
        (seen >= share).then_some(*value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAIN: ThreadIndex = ThreadIndex(0);

    fn span(begin: i64, end: i64) -> Span {
        Span { begin: HostNs(begin), end: HostNs(end) }
    }

    /// Launches on one queue, all enqueued at the beginning, 100 ns apart on the device; every 20th is timed. What the
    /// windows say of them, and the truth of those left out.
    fn stream(lengths: impl Iterator<Item = i64>) -> (Sampled, Ceiling, f64) {
        let (mut windows, mut sampled) = (Windows::default(), Sampled::default());
        let (mut at, mut left_out, mut timed) = (10_000, 0.0, VecDeque::new());
        for (i, length) in lengths.enumerate() {
            let id = i as u64 + 1;
            let chosen = i % 20 == 0;
            windows.enqueued(MAIN, span(i as i64, i as i64 + 1), if chosen { What::Timed(id) } else { What::LeftOut(7) });
            if chosen {
                sampled.add(length as u64, 0.05);
                timed.push_back((id, HostNs(at), HostNs(at + length)));
            } else {
                sampled.leave_out();
                left_out += length as f64;
            }
            at += length + 100;
            if timed.len() > 100
                && let Some((id, start, end)) = timed.pop_front()
            {
                windows.completed(id, Some((start, end)));
            }
        }
        windows.finished(span(at - 100, at));
        timed.into_iter().for_each(|(id, start, end)| windows.completed(id, Some((start, end))));
        let ceiling = windows.ceilings(&BTreeMap::from([(7, &sampled)]))[&7];
        (sampled, ceiling, left_out)
    }

    #[test]
    fn launches_left_out_took_no_more_than_their_windows() {
        let (sampled, ceiling, truth) = stream((0..2_000).map(|i| 4_950 + i % 100));
        assert!(truth <= ceiling.most && ceiling.most < 1.03 * truth, "{ceiling:?} {truth}");
        assert!(ceiling.beyond < 0.01 * truth && ceiling.open == 0.0, "nothing stands out: {ceiling:?}");
        let (plain, total) = (sampled.total().unwrap(), sampled.total_below(ceiling).unwrap());
        assert!((plain.value - total.value).abs() < 1.0 && !sampled.doubtful(ceiling, true), "{plain:?} {total:?}");
    }

    #[test]
    fn launches_that_no_sample_shows_are_seen_in_the_windows() {
        // Three launches of a millisecond, never a timed one, are a quarter of all the time.
        let (sampled, ceiling, truth) = stream((0..2_000).map(|i| if i % 700 == 613 { 1_000_000 } else { 5_000 }));
        let (plain, total) = (sampled.total().unwrap(), sampled.total_below(ceiling).unwrap());
        let truth = truth + 100.0 * 5_000.0;
        assert!(plain.high < truth, "the sample knows nothing of them: {plain:?} {truth}");
        assert!(total.low <= truth && truth <= total.high && total.high < 1.05 * truth, "{total:?} {truth}");
        assert!(sampled.doubtful(ceiling, false), "and few launches decide");
    }

    #[test]
    fn queues_whose_order_is_not_certain_say_nothing() {
        let mut raced = Windows::default();
        raced.enqueued(MAIN, span(0, 100), What::LeftOut(7));
        raced.enqueued(ThreadIndex(1), span(50, 150), What::LeftOut(7));
        raced.finished(span(200, 9_000));
        let mut overlapping = Windows::default();
        for id in [1, 2] {
            overlapping.enqueued(MAIN, span(id as i64, id as i64 + 1), What::Timed(id));
            overlapping.completed(id, Some((HostNs(1_000), HostNs(90_000))));
        }
        let sampled = Sampled::default();
        for windows in [raced, overlapping] {
            assert!(windows.ceilings(&BTreeMap::from([(7, &sampled)])).is_empty());
        }
    }

    #[test]
    fn what_never_ended_and_what_is_unknown_bounds_nothing() {
        let mut endless = Windows::default();
        endless.enqueued(MAIN, span(0, 100), What::LeftOut(7));
        let mut failed = Windows::default();
        failed.enqueued(MAIN, span(0, 10), What::Timed(1));
        failed.enqueued(MAIN, span(10, 20), What::LeftOut(7));
        // A finish that another thread's enqueue may have missed is none.
        failed.finished(span(15, 1_000));
        failed.completed(1, None);
        let sampled = Sampled::default();
        for windows in [endless, failed] {
            let ceiling = windows.ceilings(&BTreeMap::from([(7, &sampled)]))[&7];
            assert_eq!((ceiling.most, ceiling.beyond), (f64::INFINITY, 0.0));
        }
    }

    #[test]
    fn many_windows_are_joined_and_still_bound_the_same() {
        let (_, ceiling, truth) = stream((0..30 * MOST_WINDOWS as i64).map(|_| 5_000));
        assert!(truth <= ceiling.most && ceiling.most < 1.03 * truth, "{ceiling:?} {truth}");
    }
}
