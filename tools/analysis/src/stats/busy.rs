//! Owns the union of device spans in bounded memory: busy time, gaps, and the cause of each gap.
//! Spans come in the order in which the host saw them complete, nearly that of the device; the
//! newest stretches are kept open for stragglers, older ones are closed. A span that comes after
//! its stretch was closed is counted, not added. Time in which the recorder repeated commands, or
//! copied memory of captured launches, is neither busy nor idle.

pub(super) mod held;
pub(super) mod host_path;

use super::beside::Repeated;
use super::sketch::Distribution;
use super::sums::WaitedFor;
use crate::input::Definitions;
use crate::time::{HostNs, Span, ThreadIndex};
use host_path::HostPath;
use std::collections::BTreeMap;

/// Stretches kept open: times that are read at the end of a run come behind all that others left.
pub(super) const OPEN: usize = 1 << 16;
/// From here on the first launch with a size was not launched slowly: no runtime takes so long, and
/// no compiler is so quick.
const COMPILING_NS: u64 = 1_000_000;
/// Gaps that are kept by themselves: the longest.
const LONGEST: usize = 8;

/// What the host did before it enqueued a command.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Lead {
    /// When the enqueue call began.
    pub enqueue: HostNs,
    /// What the enqueuing thread did since its last enqueue.
    pub host: HostPath,
    /// What the command is, where that is known.
    pub what: Option<WaitedFor>,
    /// What the command waited for last, and until when.
    pub held: Option<(Held, HostNs)>,
    /// Whether it is the first launch of its kernel on the device.
    pub is_first: bool,
    /// Whether it is the first of its kernel with this size, of which the runtime chooses the
    /// work-groups.
    pub is_first_of_size: bool,
    /// The thread that enqueued it, and the id of the place in the application; 0 where that was not
    /// recorded.
    pub from: (ThreadIndex, u32),
}

impl Lead {
    /// Of a command that waited for nothing.
    pub fn at(enqueue: HostNs, host: HostPath) -> Self {
        Self { enqueue, host, ..Self::default() }
    }

    /// What the time is that the command was enqueued and held back by nothing, in nanoseconds;
    /// `after`: whether the device had run dry before.
    pub(super) fn launch(&self, ns: u64, after: bool) -> IdleCause {
        // For work-groups that it chooses, a runtime may compile anew.
        let compiles = self.is_first || self.is_first_of_size && ns > COMPILING_NS;
        match (compiles, after) {
            (true, _) => IdleCause::FirstLaunch,
            (false, true) => IdleCause::Launch,
            (false, false) => IdleCause::Queued,
        }
    }
}

/// What keeps a command that was enqueued from beginning, besides the runtime and its own queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Held {
    /// An event that the application sets.
    UserEvent,
    /// A command of another queue.
    OtherQueue,
}

/// Why a device was idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IdleCause {
    /// The host was in this function before it enqueued the next command.
    HostCall(u16),
    /// It was in calls that were too short to be followed one by one.
    OtherCalls,
    /// The host was outside OpenCL before it enqueued the next command.
    Application,
    /// The next command was enqueued and waited for this.
    Held(Held),
    /// The next command was the first launch of its kernel, enqueued and not begun: runtimes compile
    /// or load a kernel then.
    FirstLaunch,
    /// The next command was enqueued after the device ran dry, and had not begun: the runtime's
    /// launch.
    Launch,
    /// The next command was enqueued before the device ran dry: the runtime, or a missing flush.
    Queued,
}

impl IdleCause {
    /// As outputs call it.
    pub fn in_words(self, definitions: &Definitions) -> String {
        let text = match self {
            Self::HostCall(function) => {
                return format!("host in {}", definitions.function_name(function));
            }
            Self::OtherCalls => "host in many short OpenCL calls",
            Self::Application => "host outside OpenCL",
            Self::Held(Held::UserEvent) => "waited for a user event",
            Self::Held(Held::OtherQueue) => "waited for another queue",
            Self::FirstLaunch => "first launch of a kernel: compiled or loaded",
            Self::Launch => "launching: the enqueue call, or the runtime has not begun the command",
            Self::Queued => "enqueued and not begun: not flushed, or held by the runtime",
        };
        text.to_owned()
    }
}

#[derive(Debug, Clone, Copy)]
struct Stretch {
    end: HostNs,
    lead: Lead,
    /// What ended last.
    last: Option<WaitedFor>,
}

/// Time between two commands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gap {
    /// From the end of the command before to the begin of the next.
    pub span: Span,
    /// Nanoseconds of it without repetitions.
    pub ns: u64,
    /// What most of it went to.
    pub cause: IdleCause,
    /// The command before.
    pub before: Option<WaitedFor>,
    /// The next one.
    pub after: Option<WaitedFor>,
    /// The thread that enqueued that, and the id of the place in the application; 0 where that was
    /// not recorded.
    pub from: (ThreadIndex, u32),
}

/// The union of spans of a queue or a device.
#[derive(Debug, Clone, Default)]
pub struct Busy {
    /// By their begin.
    open: BTreeMap<HostNs, Stretch>,
    closed_end: Option<HostNs>,
    closed_last: Option<WaitedFor>,
    first: Option<(HostNs, Lead)>,
    busy: u64,
    repeated: Repeated,
    /// Nanoseconds of the gaps in which the recorder ran commands of its own.
    pub(super) beside_ns: u64,
    paused: Repeated,
    /// Nanoseconds of the gaps in which recording was paused.
    pub paused_ns: u64,
    /// Lengths of the gaps between stretches, without what the recorder repeated in them.
    pub gaps: Distribution,
    /// Idle nanoseconds by cause.
    pub causes: BTreeMap<IdleCause, u64>,
    /// How many gaps had a part by each cause.
    pub times: BTreeMap<IdleCause, u64>,
    /// The longest gaps, the longest first.
    pub longest: Vec<Gap>,
    /// Spans that came too late to be added.
    pub late: u64,
}

impl Busy {
    /// Of a process of which the recorder ran commands of its own at these times.
    pub fn beside(repeated: &Repeated) -> Self {
        Self { repeated: repeated.clone(), ..Self::default() }
    }

    /// Takes up pauses, which lie behind all that was closed. `beside`: them and the others.
    pub(super) fn pause(&mut self, paused: &Repeated, beside: &Repeated) {
        (self.paused, self.repeated) = (paused.clone(), beside.clone());
    }

    /// Adds a span.
    pub fn add(&mut self, span: Span, lead: Lead) {
        if self.closed_end.is_some_and(|closed| span.begin < closed) {
            self.late += 1;
            return;
        }
        let last = lead.what;
        // Most spans come behind all others.
        if let Some(mut newest) = self.open.last_entry()
            && *newest.key() <= span.begin
            && newest.get().end >= span.begin
        {
            let newest = newest.get_mut();
            if newest.end < span.end {
                (newest.end, newest.last) = (span.end, last);
            }
            return;
        }
        let (mut begin, mut stretch) = (span.begin, Stretch { end: span.end, lead, last });
        // Joined with the stretch that reaches it, and with those it reaches. Touching spans leave
        // no gap.
        if let Some((before, s)) = self.open.range(..=begin).next_back()
            && s.end >= begin
        {
            if s.end >= stretch.end {
                return;
            }
            (begin, stretch.lead) = (*before, s.lead);
        }
        while let Some((reached, s)) = self.open.range(begin..=stretch.end).next() {
            if s.end > stretch.end {
                (stretch.end, stretch.last) = (s.end, s.last);
            }
            let reached = *reached;
            self.open.remove(&reached);
        }
        self.open.insert(begin, stretch);
        if self.open.len() > OPEN {
            self.close_first();
        }
    }

    fn close_first(&mut self) {
        let Some((begin, stretch)) = self.open.pop_first() else { return };
        if let Some(end) = self.closed_end {
            let idle = |until: HostNs| {
                until
                    .since(end)
                    .saturating_sub(self.repeated.within(Span { begin: end, end: until }))
            };
            let gap = idle(begin);
            self.beside_ns += begin.since(end).saturating_sub(gap);
            self.paused_ns += self.paused.within(Span { begin: end, end: begin });
            self.gaps.add(gap);
            let mut given = BTreeMap::new();
            let mut give = |cause, ns| {
                if ns > 0 {
                    *given.entry(cause).or_default() += ns;
                }
            };
            let lead = &stretch.lead;
            let until = lead.enqueue.min(begin);
            let host = idle(until);
            lead.host.divide(Span { begin: end, end: until }, host, &mut give);
            let held = lead.held.map_or(host, |(_, until)| idle(until.min(begin)).max(host));
            if let Some((by, _)) = lead.held {
                give(IdleCause::Held(by), held - host);
            }
            give(lead.launch(gap - held, host > 0), gap - held);
            self.add_gap(Span { begin: end, end: begin }, gap, &given, &stretch.lead);
        }
        self.first.get_or_insert((begin, stretch.lead));
        self.busy += Span { begin, end: stretch.end }.duration();
        self.closed_end = Some(stretch.end);
        self.closed_last = stretch.last;
    }

    fn add_gap(&mut self, span: Span, ns: u64, given: &BTreeMap<IdleCause, u64>, next: &Lead) {
        for (cause, ns) in given {
            *self.causes.entry(*cause).or_default() += ns;
            *self.times.entry(*cause).or_default() += 1;
        }
        let Some((cause, _)) = given.iter().max_by_key(|(_, ns)| **ns) else { return };
        if self.longest.len() < LONGEST || self.longest.last().is_some_and(|least| least.ns < ns) {
            let at = self.longest.partition_point(|longer| longer.ns >= ns);
            let (after, from) = (next.what, next.from);
            let gap = Gap { span, ns, cause: *cause, before: self.closed_last, after, from };
            self.longest.insert(at, gap);
            self.longest.truncate(LONGEST);
        }
    }

    /// Closes all stretches: nothing more comes.
    pub fn finish(&mut self) {
        while !self.open.is_empty() {
            self.close_first();
        }
    }

    /// Nanoseconds with at least one span, after [`finish`](Self::finish).
    pub fn busy(&self) -> u64 {
        self.busy
    }

    /// Nanoseconds between spans in which the device could have run something, after
    /// [`finish`](Self::finish).
    pub fn idle(&self) -> u64 {
        u64::try_from(self.gaps.total()).unwrap_or(u64::MAX)
    }

    /// What the host did before the first span's command, after [`finish`](Self::finish).
    pub fn first_lead(&self) -> Option<Lead> {
        Some(self.first?.1)
    }

    /// From the first span's begin to the last one's end, after [`finish`](Self::finish).
    pub fn extent(&self) -> Option<Span> {
        Some(Span { begin: self.first?.0, end: self.closed_end? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lead(at: i64) -> Lead {
        let mut host = HostPath::default();
        host.was_in(HostNs(i64::MIN), 3, u64::MAX, 0);
        Lead::at(HostNs(at), host)
    }

    proptest! {
        #[test]
        fn busy_and_idle_make_the_extent(spans in prop::collection::vec((0i64..2_000, 0i64..60, 0i64..300, any::<bool>()), 1..60)) {
            let mut busy = Busy::default();
            let mut truth = vec![false; 2_100];
            for (begin, length, ago, is_first) in &spans {
                let held = is_first.then_some((Held::UserEvent, HostNs(begin - ago / 2)));
                let lead = Lead { held, is_first: ago % 3 == 0, ..lead(begin - ago) };
                busy.add(Span { begin: HostNs(*begin), end: HostNs(begin + length) }, lead);
                truth[*begin as usize..(begin + length) as usize].fill(true);
            }
            busy.finish();
            let extent = busy.extent().expect("spans").duration();
            prop_assert_eq!(busy.busy(), truth.iter().filter(|t| **t).count() as u64);
            prop_assert_eq!(u128::from(busy.busy()) + busy.gaps.total(), u128::from(extent));
            prop_assert_eq!(busy.causes.values().sum::<u64>() + busy.busy(), extent);
            prop_assert_eq!(busy.late, 0);
        }
    }

    #[test]
    fn what_the_recorder_repeated_is_no_gap() {
        let at = |b, e| Span { begin: HostNs(b), end: HostNs(e) };
        let mut busy = Busy::beside(&Repeated::joined(vec![at(120, 170), at(400, 500)]));
        busy.add(at(0, 100), lead(-10));
        busy.add(at(200, 260), lead(180)); // 30 in the host's call and 20 launching beside 50
        busy.finish();
        let causes: Vec<_> = busy.causes.iter().map(|(c, n)| (*c, *n)).collect();
        assert_eq!(causes, [(IdleCause::HostCall(3), 30), (IdleCause::Launch, 20)]);
        assert_eq!((busy.busy(), busy.idle(), busy.gaps.count()), (160, 50, 1));
    }

    #[test]
    fn gaps_are_blamed_on_what_came_before_the_next_command() {
        let mut busy = Busy::default();
        let at = |b, e| Span { begin: HostNs(b), end: HostNs(e) };
        busy.add(at(0, 100), lead(-10));
        busy.add(at(150, 200), lead(130)); // 30 in the host's call, 20 launching
        busy.add(at(260, 300), Lead::at(HostNs(250), HostPath::default())); // 50 outside OpenCL, 10 launching
        busy.add(at(340, 350), lead(190)); // enqueued long before
        busy.finish();
        let causes: Vec<_> = busy.causes.iter().map(|(c, n)| (*c, *n)).collect();
        assert_eq!(
            causes,
            [
                (IdleCause::HostCall(3), 30),
                (IdleCause::Application, 50),
                (IdleCause::Launch, 30),
                (IdleCause::Queued, 40)
            ]
        );
    }

    #[test]
    fn what_a_command_waited_for_is_a_cause_of_its_own() {
        let at = |b, e| Span { begin: HostNs(b), end: HostNs(e) };
        let mut busy = Busy::default();
        busy.add(at(0, 100), lead(-10));
        let held = |by, until| Lead { held: Some((by, HostNs(until))), ..lead(120) };
        busy.add(at(200, 210), held(Held::UserEvent, 190)); // 20 host, 70 held, 10 launching
        busy.add(at(300, 310), held(Held::OtherQueue, 400)); // enqueued before: 90 held
        busy.add(at(350, 360), Lead { is_first: true, ..lead(120) }); // 40 compiling
        busy.finish();
        let causes: Vec<_> = busy.causes.iter().map(|(c, n)| (*c, *n)).collect();
        assert_eq!(
            causes,
            [
                (IdleCause::HostCall(3), 20),
                (IdleCause::Held(Held::UserEvent), 70),
                (IdleCause::Held(Held::OtherQueue), 90),
                (IdleCause::FirstLaunch, 40),
                (IdleCause::Launch, 10)
            ]
        );
    }

    #[test]
    fn many_stretches_stay_bounded_and_exact() {
        let mut busy = Busy::default();
        for i in 0..100_000i64 {
            busy.add(Span { begin: HostNs(i * 10), end: HostNs(i * 10 + 4) }, lead(i * 10));
            assert!(busy.open.len() <= OPEN);
        }
        busy.add(Span { begin: HostNs(5), end: HostNs(6) }, lead(0));
        busy.finish();
        assert_eq!((busy.busy(), busy.gaps.count(), busy.late), (400_000, 99_999, 1));
    }

    /// A kernel whose times are read at the end of a run, as those of events that it keeps.
    #[test]
    fn spans_that_come_behind_all_others_count() {
        let mut busy = Busy::default();
        for i in (0..40_000i64).step_by(2).chain((1..40_000).step_by(2)) {
            busy.add(Span { begin: HostNs(i * 10), end: HostNs(i * 10 + 4) }, lead(i * 10));
        }
        busy.finish();
        assert_eq!((busy.busy(), busy.gaps.count(), busy.late), (160_000, 39_999, 0));
    }
}
