//! Owns how the recorded time of a process is divided: what its devices ran, and where they ran
//! nothing, why. Every moment counts once: for kernels where any ran, else for transfers, else for
//! other commands, else for copies of the recorder's, else for what kept the next command from
//! beginning; before the first command and after the last one for what the host did. Refuses to name
//! kernels and to judge.

use super::beside::Repeated;
use super::busy::{Busy, Gap, IdleCause, Lead, OPEN};
use crate::time::{HostNs, Span};
use std::collections::BTreeMap;

/// Calls that are kept by themselves before the first command, and since the newest.
const CALLS: usize = 1 << 12;

/// The length of the union of spans that come nearly in order.
#[derive(Debug, Clone, Default)]
pub struct Union {
    /// Begins and ends.
    open: BTreeMap<HostNs, HostNs>,
    closed_end: Option<HostNs>,
    closed_ns: u64,
}

impl Union {
    /// Adds a span; what of it lies in a stretch that was closed counts there.
    pub fn add(&mut self, span: Span) {
        let begin = self.closed_end.map_or(span.begin, |end| span.begin.max(end));
        let mut span = Span { begin, end: span.end };
        if span.duration() == 0 {
            return;
        }
        if let Some((begin, end)) = self.open.range(..=span.begin).next_back()
            && *end >= span.begin
        {
            span = span.hull(Span { begin: *begin, end: *end });
        }
        while let Some((begin, end)) = self.open.range(span.begin..=span.end).next() {
            let joined = Span { begin: *begin, end: *end };
            self.open.remove(&joined.begin);
            span = span.hull(joined);
        }
        self.open.insert(span.begin, span.end);
        if self.open.len() > OPEN
            && let Some((begin, end)) = self.open.pop_first()
        {
            self.closed_ns += Span { begin, end }.duration();
            self.closed_end = Some(end);
        }
    }

    /// Its length.
    pub fn ns(&self) -> u64 {
        let open = self.open.iter().map(|(begin, end)| end.since(*begin));
        self.closed_ns + open.sum::<u64>()
    }
}

/// What the host did when no command was on its way.
#[derive(Debug, Clone, Default)]
struct Log(Vec<(Span, u16)>);

impl Log {
    fn add(&mut self, span: Span, function: u16) {
        if self.0.len() < CALLS {
            self.0.push((span, function));
        }
    }

    /// The time in each function within a span, and outside all (`None`). Of calls of several
    /// threads at once the one that began first counts.
    fn divide(&self, within: Span, repeated: &Repeated) -> BTreeMap<Option<u16>, u64> {
        let mut calls = self.0.clone();
        calls.sort_by_key(|(span, _)| span.begin);
        let mut out = BTreeMap::new();
        let all = within.duration().saturating_sub(repeated.within(within));
        let (mut at, mut left) = (within.begin, all);
        for (span, function) in calls {
            let span = Span { begin: span.begin.max(at), end: span.end.min(within.end) };
            if span.duration() == 0 {
                continue;
            }
            let ns = span.duration().saturating_sub(repeated.within(span)).min(left);
            *out.entry(Some(function)).or_default() += ns;
            (at, left) = (span.end, left - ns);
        }
        if left > 0 {
            out.insert(None, left);
        }
        out
    }
}

/// What is gathered of one process.
#[derive(Debug, Clone, Default)]
pub struct Wall {
    repeated: Repeated,
    copied: Repeated,
    paused: Repeated,
    /// All of them.
    beside: Repeated,
    all: Busy,
    kernels: Union,
    kernels_and_transfers: Union,
    before: Log,
    since: Log,
    /// When the first command was enqueued.
    enqueued: Option<HostNs>,
}

/// The time of a process.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WallParts {
    /// All of it, without repetitions, and without the time in which recording was paused.
    pub wall_ns: u64,
    /// When any kernel ran.
    pub kernels_ns: u64,
    /// When transfers ran and no kernel.
    pub transfers_ns: u64,
    /// When other commands ran and nothing else.
    pub others_ns: u64,
    /// When the recorder's copies of captured launches' memory ran and nothing else.
    pub copied_ns: u64,
    /// From the first begin of a command to the last end, without repetitions.
    pub extent_ns: u64,
    /// From the enqueue of the first command to the end of the last, by cause.
    pub idle: BTreeMap<IdleCause, u64>,
    /// How many gaps had a part by each cause.
    pub times: BTreeMap<IdleCause, u64>,
    /// Before the first command was enqueued: by the function that the host was in, `None` outside all.
    pub before: BTreeMap<Option<u16>, u64>,
    /// After the last command, likewise.
    pub after: BTreeMap<Option<u16>, u64>,
    /// The longest gaps between commands.
    pub longest: Vec<Gap>,
}

impl WallParts {
    /// When any command ran.
    pub fn busy_ns(&self) -> u64 {
        self.kernels_ns + self.transfers_ns + self.others_ns
    }
}

impl Wall {
    /// Of a process of which the recorder repeated commands, and copied memory, at these times.
    pub(super) fn beside(repeated: &Repeated, copied: &Repeated) -> Self {
        let beside = Repeated::any([repeated, copied].into_iter());
        let (all, repeated, copied) = (Busy::beside(&beside), repeated.clone(), copied.clone());
        Self { repeated, copied, beside, all, ..Self::default() }
    }

    /// Recording was paused at these times.
    pub(super) fn pause(&mut self, paused: &Repeated) {
        self.paused = paused.clone();
        self.beside = Repeated::any([&self.repeated, &self.copied, paused].into_iter());
        self.all.pause(paused, &self.beside);
    }

    /// When the recorder ran commands of its own, or was paused.
    pub(super) fn recorders(&self) -> &Repeated {
        &self.beside
    }

    /// The host was in a call that enqueued nothing.
    pub(super) fn called(&mut self, span: Span, function: u16) {
        if self.enqueued.is_none() {
            self.before.add(span, function);
        }
        self.since.add(span, function);
    }

    /// The host enqueued a command.
    pub(super) fn enqueued(&mut self, span: Span, function: u16) {
        if self.enqueued.is_none() {
            self.before.add(span, function);
        }
        self.enqueued.get_or_insert(span.begin);
        self.since.0.clear();
        self.since.add(span, function);
    }

    /// A command ran.
    pub(super) fn ran(&mut self, span: Span, lead: Lead, is_kernel: bool, is_transfer: bool) {
        self.all.add(span, lead);
        if is_kernel {
            self.kernels.add(span);
        }
        if is_kernel || is_transfer {
            self.kernels_and_transfers.add(span);
        }
    }

    /// Whether commands were enqueued, and none has a device time.
    pub(super) fn is_untimed(&self) -> bool {
        self.enqueued.is_some() && self.all.extent().is_none()
    }

    /// No command comes any more.
    pub(super) fn finish(&mut self) {
        self.all.finish();
    }

    /// The time of a process that was recorded for that long.
    pub(super) fn parts(&self, recorded: Span) -> WallParts {
        let own = |span: Span| span.duration().saturating_sub(self.repeated.within(span));
        let wall_ns = own(recorded);
        let Some(extent) = self.all.extent() else {
            // Of commands without a device time it is known when the first one was enqueued.
            let until = self.enqueued.unwrap_or(recorded.end).clamp(recorded.begin, recorded.end);
            let before = self.before.divide(Span { end: until, ..recorded }, &self.beside);
            let copied_ns = self.copied.within(recorded);
            let wall_ns = wall_ns.saturating_sub(self.paused.within(recorded));
            return WallParts { wall_ns, before, copied_ns, ..WallParts::default() };
        };
        let busy = self.all.busy();
        // What came too late for one union is in none of its parts.
        let moved = self.kernels_and_transfers.ns().min(busy);
        let kernels_ns = self.kernels.ns().min(moved);
        let last = Span { begin: extent.end, end: recorded.end };
        let (mut idle, mut times) = (self.all.causes.clone(), self.all.times.clone());
        let lead = self.all.first_lead();
        // From its enqueue on the first command waits as any other does.
        let from = |at: HostNs| at.clamp(recorded.begin, extent.begin);
        let enqueued = lead.map_or(extent.begin, |lead| from(lead.enqueue));
        let held = lead.and_then(|l| l.held).map(|(by, until)| (by, from(until).max(enqueued)));
        let begun = held.map_or(enqueued, |(_, until)| until);
        let mut give = |cause, begin, end| {
            let span = Span { begin, end };
            let ns = span.duration().saturating_sub(self.beside.within(span));
            if ns > 0 {
                *idle.entry(cause).or_default() += ns;
                *times.entry(cause).or_default() += 1;
            }
        };
        if let Some((by, until)) = held {
            give(IdleCause::Held(by), enqueued, until);
        }
        if let Some(lead) = lead {
            give(lead.launch(extent.begin.since(begun), true), begun, extent.begin);
        }
        let first = Span { begin: recorded.begin, end: enqueued };
        let ahead = Span { begin: recorded.begin, end: extent.begin };
        let between = self.all.beside_ns.saturating_sub(self.repeated.within(extent));
        let outside = |of: &Repeated| of.within(ahead) + of.within(last);
        let paused = self.all.paused_ns;
        let copied_ns = outside(&self.copied) + between - paused;
        WallParts {
            wall_ns: wall_ns.saturating_sub(outside(&self.paused) + paused),
            kernels_ns,
            transfers_ns: moved - kernels_ns,
            others_ns: busy - moved,
            copied_ns,
            idle,
            times,
            extent_ns: own(extent).saturating_sub(paused),
            before: self.before.divide(first, &self.beside),
            after: self.since.divide(last, &self.beside),
            longest: self.all.longest.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::HostPath;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_union_counts_each_moment_once(
            spans in prop::collection::vec((0i64..3_000, 1i64..200), 0..200),
        ) {
            let (mut union, mut truth) = (Union::default(), vec![false; 3_200]);
            for (begin, length) in spans {
                union.add(Span { begin: HostNs(begin), end: HostNs(begin + length) });
                truth[begin as usize..(begin + length) as usize].fill(true);
            }
            prop_assert_eq!(union.ns(), truth.iter().filter(|t| **t).count() as u64);
        }

        #[test]
        fn every_moment_has_one_cause(
            ran in prop::collection::vec((10i64..3_000, 1i64..90, 0i64..50, any::<bool>()), 1..40),
            copies in prop::collection::vec((0i64..3_200, 1i64..60), 0..40),
            pauses in prop::collection::vec((0i64..3_200, 1i64..60), 0..9),
        ) {
            let at = |begin, length| Span { begin: HostNs(begin), end: HostNs(begin + length) };
            let joined = |of: &[(i64, i64)]| Repeated::joined(of.iter().map(|(begin, length)| at(*begin, *length)).collect());
            let paused = joined(&pauses);
            // No call is recorded then that could copy.
            let copied = joined(&copies);
            let copied = copied.spans().iter().flat_map(|span| span.without(paused.spans()));
            let copied = Repeated::joined(copied.collect());
            let mut wall = Wall::beside(&Repeated::default(), &copied);
            let mut busy = vec![false; 3_300];
            for (begin, length, ago, is_kernel) in ran {
                let lead = Lead::at(HostNs(begin - ago.min(begin)), HostPath::default());
                wall.ran(at(begin, length), lead, is_kernel, !is_kernel);
                busy[begin as usize..(begin + length) as usize].fill(true);
            }
            wall.pause(&paused);
            wall.finish();
            let parts = wall.parts(at(0, 3_300));
            let of = |map: &BTreeMap<Option<u16>, u64>| map.values().sum::<u64>();
            let sum = parts.busy_ns() + parts.copied_ns + parts.idle.values().sum::<u64>()
                + of(&parts.before) + of(&parts.after);
            prop_assert_eq!(sum, parts.wall_ns);
            prop_assert_eq!(parts.busy_ns(), busy.iter().filter(|busy| **busy).count() as u64);
            let alone = |of: &Repeated| (0..3_300usize).filter(|i| !busy[*i] && of.within(at(*i as i64, 1)) > 0).count() as u64;
            prop_assert_eq!(parts.copied_ns, alone(&copied));
            prop_assert_eq!(parts.wall_ns, 3_300 - alone(&paused));
        }

        #[test]
        fn a_log_divides_all_of_a_span(
            calls in prop::collection::vec((0i64..1_000, 0i64..300, 0u16..4), 0..40),
            bounds in (0i64..1_300, 0i64..1_300),
        ) {
            let mut log = Log::default();
            for (begin, length, function) in calls {
                log.add(Span { begin: HostNs(begin), end: HostNs(begin + length) }, function);
            }
            let (begin, end) = (bounds.0.min(bounds.1), bounds.0.max(bounds.1));
            let parts = log.divide(Span { begin: HostNs(begin), end: HostNs(end) }, &Repeated::default());
            prop_assert_eq!(parts.values().sum::<u64>(), (end - begin) as u64);
        }
    }

    #[test]
    fn many_stretches_stay_bounded_and_exact() {
        let mut union = Union::default();
        for i in 0..100_000i64 {
            union.add(Span { begin: HostNs(i * 10), end: HostNs(i * 10 + 4) });
            assert!(union.open.len() <= OPEN);
        }
        assert_eq!(union.ns(), 400_000);
    }
}
