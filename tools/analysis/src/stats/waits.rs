//! Owns what devices ran while the host waited. Every moment of a wait is given to what ran then:
//! to the commands of the queue that was waited for, else to those of other queues of the process;
//! to several at once in equal parts. So the parts of a wait add up to no more than the wait. A
//! wait is compared with its commands when none of them is in flight any more, however long it
//! took and whenever their times were read. Memory is bounded: of very many commands older ones are
//! kept as sums over stretches of time.
//!
//! Where sampling left commands out, the time of all of a class is estimated from the timed ones,
//! by the ratio estimator: how many there are, times the weighted mean of what one ran.

use super::sketch::Distribution;
use super::sums::{WaitSums, WaitedFor};
use crate::input::Definitions;
use crate::interval::Interval;
use crate::quantile::NORMAL_95;
use crate::time::{HostNs, Span};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Stretches kept: more are joined.
const MOST_STRETCHES: usize = 1 << 15;
/// Waits that are kept for commands in flight.
const MOST_PENDING: usize = 1 << 12;
/// Stretches that are joined with each other, by queue and class.
const JOINED: usize = 256;

/// What one command, or several of one class on one queue, ran.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    begin: HostNs,
    queue: u32,
    what: WaitedFor,
    /// Nanoseconds in which it ran: all from begin to end for one command.
    ran: f64,
    drawn: Drawn,
}

/// By end and a number of its own.
type Stretches = BTreeMap<(HostNs, u64), Stretch>;

/// Sums over commands that chance chose for timing, by which all are estimated: of a probability p
/// and a time x, x / p, x (1 - p) / p^2, x^2 (1 - p) / p^2. All 0 for those that were certain.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Drawn {
    weighted: f64,
    linear: f64,
    squares: f64,
}

impl Drawn {
    fn plus(self, other: Self) -> Self {
        Self {
            weighted: self.weighted + other.weighted,
            linear: self.linear + other.linear,
            squares: self.squares + other.squares,
        }
    }

    /// Of a part of each time.
    fn times(self, part: f64) -> Self {
        Self {
            weighted: self.weighted * part,
            linear: self.linear * part,
            squares: self.squares * part * part,
        }
    }
}

/// The commands of one class that were not certain to be timed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Population {
    left_out: u64,
    drawn: u64,
    /// Sums of 1 / p and of (1 - p) / p^2 over those timed.
    weight: f64,
    spread: f64,
}

/// What ran in the waits of one function.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Ran {
    /// Nanoseconds of commands that were certain to be timed.
    certain: f64,
    drawn: Drawn,
}

impl Population {
    /// Whether not one of them was timed.
    pub(super) fn is_unknown(&self) -> bool {
        self.left_out > 0 && self.drawn == 0
    }
}

impl Ran {
    /// The time of all commands of the class; `None` where none of those that chance decides about
    /// was timed.
    pub(super) fn estimate(&self, of: Option<&Population>) -> Option<Interval> {
        let Some(of) = of else { return Some(Interval::exact(self.certain)) };
        if of.drawn == 0 {
            return None;
        }
        let scale = (of.left_out + of.drawn) as f64 / of.weight;
        let mean = self.drawn.weighted / of.weight;
        let squares = self.drawn.squares - 2.0 * mean * self.drawn.linear + mean * mean * of.spread;
        let half = NORMAL_95 * scale * squares.max(0.0).sqrt();
        let value = self.certain + scale * self.drawn.weighted;
        Some(Interval::estimated(value, (value - half).max(self.certain), value + half))
    }
}

/// A wait whose commands may be in flight.
#[derive(Debug, Clone, Copy)]
struct Pending {
    function: u16,
    /// The queue that was waited for, 0 where that is not known.
    queue: u32,
    span: Span,
}

/// The waits of one process and what ran meanwhile.
#[derive(Debug, Clone, Default)]
pub struct Waits {
    /// By function.
    sums: BTreeMap<u16, WaitSums>,
    pending: VecDeque<Pending>,
    stretches: Stretches,
    /// From begin to end of the longest of them.
    longest: u64,
    number: u64,
    in_flight: u64,
    populations: BTreeMap<WaitedFor, Population>,
    /// Of each kernel object, the first of its name: all of them are one class.
    first_of_name: HashMap<u32, u32>,
}

impl Waits {
    /// The waits of a process. Applications may make a kernel object for each launch.
    pub fn new(definitions: &Definitions) -> Self {
        let mut ids: Vec<u32> = definitions.kernels.keys().copied().collect();
        ids.sort_unstable();
        let mut first = HashMap::new();
        let first_of = |id: u32| (id, *first.entry(definitions.kernel_name(id)).or_insert(id));
        let first_of_name = ids.into_iter().map(first_of).filter(|(id, of)| id != of).collect();
        Self { first_of_name, ..Self::default() }
    }

    /// Of each function that waited, with the populations by which its parts are estimated.
    pub fn sums(&self) -> (&BTreeMap<u16, WaitSums>, &BTreeMap<WaitedFor, Population>) {
        (&self.sums, &self.populations)
    }

    /// The time of waits in a function.
    pub fn time(&mut self, function: u16) -> &mut Distribution {
        &mut self.sums.entry(function).or_default().time
    }

    /// A command was enqueued.
    pub fn enqueued(&mut self) {
        self.in_flight += 1;
    }

    /// The host waited.
    pub fn waited(&mut self, function: u16, queue: u32, span: Span) {
        self.pending.push_back(Pending { function, queue, span });
        if self.in_flight == 0 || self.pending.len() > MOST_PENDING {
            self.settle(usize::from(self.in_flight > 0) * MOST_PENDING);
        }
    }

    /// A command has an outcome: whether it was left out by sampling, else the probability with
    /// which it was chosen, and when it ran, if that is known.
    pub fn ended(
        &mut self,
        what: WaitedFor,
        queue: u32,
        left_out: bool,
        probability: f64,
        ran: Option<Span>,
    ) {
        let what = match what {
            WaitedFor::Kernel(process, id) => {
                WaitedFor::Kernel(process, self.first_of_name.get(&id).copied().unwrap_or(id))
            }
            WaitedFor::Command(_) => what,
        };
        let (weight, spread) = match probability {
            p if p > 0.0 && p < 1.0 => (1.0 / p, (1.0 - p) / (p * p)),
            _ => (1.0, 0.0),
        };
        let drawn = !left_out && ran.is_some() && probability < 1.0;
        if left_out || drawn {
            let of = self.populations.entry(what).or_default();
            of.left_out += u64::from(left_out);
            if drawn {
                of.drawn += 1;
                of.weight += weight;
                of.spread += spread;
            }
        }
        if let Some(span) = ran.filter(|span| span.duration() > 0) {
            let ns = span.duration() as f64;
            let drawn = if drawn {
                Drawn { weighted: ns * weight, linear: ns * spread, squares: ns * ns * spread }
            } else {
                Drawn::default()
            };
            let stretch = Stretch { begin: span.begin, queue, what, ran: ns, drawn };
            self.keep(span.end, stretch);
            if self.stretches.len() > MOST_STRETCHES {
                self.shrink();
            }
        }
        self.in_flight = self.in_flight.saturating_sub(1);
        if self.in_flight == 0 {
            self.settle(0);
        }
    }

    fn keep(&mut self, end: HostNs, stretch: Stretch) {
        self.number += 1;
        self.longest = self.longest.max(end.since(stretch.begin));
        self.stretches.insert((end, self.number), stretch);
    }

    /// Nothing more comes.
    pub fn finish(&mut self) {
        self.settle(0);
        self.stretches.clear();
    }

    /// Joins older stretches, and drops them where nearly each is of a class of its own: else the
    /// next commands would have to shrink them again, one by one.
    fn shrink(&mut self) {
        for neighbours in [JOINED, usize::MAX] {
            let older = self.take_older();
            self.join(older, neighbours);
            if self.stretches.len() <= MOST_STRETCHES / 4 * 3 {
                return;
            }
        }
        self.take_older();
    }

    /// The older half of the stretches.
    fn take_older(&mut self) -> Stretches {
        let Some(middle) = self.stretches.keys().nth(self.stretches.len() / 2).copied() else {
            return Stretches::new();
        };
        let newer = self.stretches.split_off(&middle);
        std::mem::replace(&mut self.stretches, newer)
    }

    /// Joins so many neighbours with each other; where all are, those of all queues, too.
    fn join(&mut self, older: Stretches, neighbours: usize) {
        let queue_of = |s: &Stretch| if neighbours == usize::MAX { 0 } else { s.queue };
        let mut older = older.into_iter().peekable();
        while older.peek().is_some() {
            let mut joined: HashMap<(u32, WaitedFor, bool), (HostNs, Stretch)> = HashMap::new();
            for ((end, _), stretch) in older.by_ref().take(neighbours) {
                let certain = stretch.drawn == Drawn::default();
                joined
                    .entry((queue_of(&stretch), stretch.what, certain))
                    .and_modify(|(last, kept)| {
                        *last = (*last).max(end);
                        kept.begin = kept.begin.min(stretch.begin);
                        kept.ran += stretch.ran;
                        kept.drawn = kept.drawn.plus(stretch.drawn);
                    })
                    .or_insert((end, Stretch { queue: queue_of(&stretch), ..stretch }));
            }
            joined.into_values().for_each(|(end, stretch)| self.keep(end, stretch));
        }
    }

    /// Compares waits with what ran meanwhile, but for so many of the newest.
    fn settle(&mut self, but: usize) {
        while self.pending.len() > but
            && let Some(wait) = self.pending.pop_front()
        {
            let parts = shares(&wait, &self.stretches, self.longest);
            let running = &mut self.sums.entry(wait.function).or_default().running;
            for (stretch, ns) in parts {
                let of = running.entry(stretch.what).or_default();
                if stretch.drawn == Drawn::default() {
                    of.certain += ns;
                } else {
                    of.drawn = of.drawn.plus(stretch.drawn.times(ns / stretch.ran));
                }
            }
        }
    }
}

/// The nanoseconds of a wait that each stretch is given. Those that end later than the longest takes
/// behind the wait began behind it.
fn shares(wait: &Pending, stretches: &Stretches, longest: u64) -> Vec<(Stretch, f64)> {
    let Span { begin, end } = wait.span;
    let last = HostNs(end.0.saturating_add_unsigned(longest)).max(begin);
    let mut during: Vec<(HostNs, HostNs, Stretch)> = stretches
        .range((begin, u64::MAX)..=(last, u64::MAX))
        .filter(|(_, s)| s.begin < end)
        .map(|((last, _), s)| (s.begin, *last, *s))
        .collect();
    during.sort_by_key(|(from, ..)| *from);
    let density =
        |(from, to, s): &(HostNs, HostNs, Stretch)| s.ran / (to.since(*from).max(1) as f64);
    let mut given = vec![0.0f64; during.len()];
    // From one begin or end to the next the same commands run.
    let mut edges: Vec<HostNs> =
        during.iter().flat_map(|(from, to, _)| [(*from).max(begin), (*to).min(end)]).collect();
    edges.sort_unstable();
    edges.dedup();
    let (mut running, mut next): (Vec<usize>, usize) = (Vec::new(), 0);
    for pair in edges.windows(2) {
        let [at, until] = [pair[0], pair[1]];
        running.retain(|i| during[*i].1 > at);
        while during.get(next).is_some_and(|(from, ..)| *from <= at) {
            if during[next].1 > at {
                running.push(next);
            }
            next += 1;
        }
        let ns = until.since(at) as f64;
        let mut rest = 1.0f64;
        for of_queue in [true, false] {
            let those =
                || running.iter().filter(|i| (during[**i].2.queue == wait.queue) == of_queue);
            let sum: f64 = those().map(|i| density(&during[*i])).sum();
            if sum > 0.0 {
                let part = (rest / sum).min(1.0);
                those().for_each(|i| given[*i] += ns * part * density(&during[*i]));
                rest = (rest - sum).max(0.0);
            }
        }
    }
    during
        .into_iter()
        .zip(given)
        .map(|((_, _, s), ns)| (s, ns))
        .filter(|(_, ns)| *ns > 0.0)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::ProcessIndex;
    use clscope_trace::defs::Kernel;
    use proptest::prelude::*;

    const WAIT: u16 = 7;

    fn kernel(id: u32) -> WaitedFor {
        WaitedFor::Kernel(ProcessIndex(0), id)
    }

    fn span(begin: i64, end: i64) -> Span {
        Span { begin: HostNs(begin), end: HostNs(end) }
    }

    fn parts(waits: &Waits) -> BTreeMap<WaitedFor, f64> {
        let (sums, populations) = waits.sums();
        sums[&WAIT]
            .running
            .iter()
            .map(|(what, ran)| (*what, ran.estimate(populations.get(what)).expect("known").value))
            .collect()
    }

    fn sum(waits: &Waits) -> f64 {
        parts(waits).values().sum()
    }

    proptest! {
        /// Whenever the commands' times are read, before or after the end of the waits, and on
        /// however many queues: the parts add up to the time of the waits in which anything ran.
        #[test]
        fn parts_add_up_to_the_wait(
            commands in prop::collection::vec((0i64..2_000, 1i64..300, 0u32..3, 0u32..4, any::<bool>()), 1..60),
            bounds in prop::collection::vec(0i64..2_300, 2),
            queue in 0u32..4,
        ) {
            let (begin, end) = (bounds[0].min(bounds[1]), bounds[0].max(bounds[1]));
            let mut waits = Waits::default();
            let mut busy = vec![false; 2_400];
            let mut own = vec![false; 2_400];
            commands.iter().for_each(|_| waits.enqueued());
            let add = |waits: &mut Waits, late: bool| {
                for (at, length, queue, id, _) in commands.iter().filter(|c| c.4 == late) {
                    waits.ended(kernel(*id), *queue, false, 1.0, Some(span(*at, at + length)));
                }
            };
            for (at, length, on, ..) in &commands {
                busy[*at as usize..(at + length) as usize].fill(true);
                if *on == queue {
                    own[*at as usize..(at + length) as usize].fill(true);
                }
            }
            add(&mut waits, false);
            waits.waited(WAIT, queue, span(begin, end));
            add(&mut waits, true);
            waits.finish();
            let truth = busy[begin as usize..end as usize].iter().filter(|b| **b).count() as f64;
            prop_assert!((sum(&waits) - truth).abs() < 1e-6 * truth.max(1.0), "{} of {truth}", sum(&waits));
        }
    }

    /// Joined stretches hold the same sums.
    #[test]
    fn many_commands_in_one_wait_keep_their_sums() {
        let mut waits = Waits::default();
        let (mut at, mut truth) = (0, BTreeMap::new());
        waits.enqueued();
        for i in 0..3 * MOST_STRETCHES as i64 {
            let length = 1 + (i * 7) % 50;
            waits.enqueued();
            let what = kernel((i % 3) as u32);
            waits.ended(what, 1, false, 1.0, Some(span(at, at + length)));
            *truth.entry(what).or_insert(0.0) += length as f64;
            at += length + 5;
        }
        assert!(waits.stretches.len() <= MOST_STRETCHES);
        waits.waited(WAIT, 1, span(0, at));
        waits.finish();
        for (what, ns) in parts(&waits) {
            let of = truth[&what];
            assert!((ns - of).abs() < 1e-6 * of, "{what:?}: {ns} of {of}");
        }
    }

    /// Each launch with a kernel object, or a queue, of its own: as quick as any, and bounded.
    #[test]
    fn classes_without_number_cost_no_more_than_a_few() {
        let mut definitions = Definitions::default();
        let object = |id| (id, Kernel { id, name: "k".to_owned(), ..<_>::default() });
        definitions.kernels = (0..3 * MOST_STRETCHES as u32).map(object).collect();
        for (named, queues) in [(true, 1), (true, u32::MAX), (false, 1)] {
            let mut waits = if named { Waits::new(&definitions) } else { Waits::default() };
            let n = 3 * MOST_STRETCHES as u32;
            for id in 0..n {
                waits.enqueued();
                let (at, queue) = (10 * i64::from(id), id % queues);
                waits.ended(kernel(id), queue, false, 1.0, Some(span(at, at + 5)));
                assert!(waits.stretches.len() <= MOST_STRETCHES);
            }
            waits.waited(WAIT, 1, span(0, 10 * i64::from(n)));
            waits.finish();
            let truth = f64::from(5 * n);
            match named {
                true => {
                    let of = parts(&waits)[&kernel(0)];
                    assert!((of - truth).abs() < 1e-6 * truth, "{of} of {truth}");
                }
                false => assert!(sum(&waits) <= truth, "{} of {truth}", sum(&waits)),
            }
        }
    }

    #[test]
    fn the_queue_that_is_waited_for_comes_first_then_others() {
        let mut waits = Waits::default();
        (0..2).for_each(|_| waits.enqueued());
        waits.ended(kernel(1), 1, false, 1.0, Some(span(0, 900)));
        waits.waited(WAIT, 2, span(100, 1_000));
        waits.ended(kernel(2), 2, false, 1.0, Some(span(800, 1_000)));
        assert_eq!(
            parts(&waits).into_iter().collect::<Vec<_>>(),
            [(kernel(1), 700.0), (kernel(2), 200.0)]
        );
    }

    /// All launches of a wait are estimated from the timed ones: right on average, and in the
    /// interval in some 95 of 100 cases.
    #[test]
    fn what_was_left_out_is_estimated_with_its_interval() {
        let mut random = clscope_testing::Random::new(5);
        let (mut inside, mut ratios) = (0, 0.0);
        for _ in 0..400 {
            let mut waits = Waits::default();
            let (mut at, mut truth) = (0i64, 0.0);
            for i in 0..2_000 {
                let length = 50 + random.below(100) as i64;
                waits.enqueued();
                // The first ones are certain to be timed.
                let p: f64 = if i < 16 { 1.0 } else { 0.05 };
                let timed = random.uniform() < p;
                let ran = timed.then(|| span(at, at + length));
                waits.ended(kernel(1), 1, !timed, p, ran);
                waits.waited(WAIT, 1, span(at, at + length));
                truth += length as f64;
                at += length + 10;
            }
            waits.finish();
            let (sums, populations) = waits.sums();
            let of = sums[&WAIT].running[&kernel(1)].estimate(populations.get(&kernel(1)));
            let of = of.expect("some were timed");
            ratios += of.value / truth / 400.0;
            inside += u32::from((of.low..=of.high).contains(&truth));
        }
        assert!((ratios - 1.0).abs() < 0.01, "{ratios}");
        assert!((364..=396).contains(&inside), "{inside} of 400");
    }

    #[test]
    fn of_a_class_of_which_nothing_was_timed_nothing_is_known() {
        let mut waits = Waits::default();
        waits.enqueued();
        waits.ended(kernel(1), 1, true, 0.5, None);
        let (_, populations) = waits.sums();
        assert_eq!(Ran::default().estimate(populations.get(&kernel(1))), None);
    }
}
