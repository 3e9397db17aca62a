//! Owns the order of events: a k-way merge of all threads of all processes by time, joining each
//! command with its outcome on the way. Memory grows with threads and with commands in flight, not
//! with the trace. Refuses to sort: a thread's records come in order, and a time that runs back is
//! moved up and counted.

mod cursor;

use crate::Trace;
use crate::align::{self, Alignment};
use crate::event::{Call, Command, DeviceTimes, Enqueued, Event, Kept, Mark, Outcome, Run};
use crate::host_memory::HostMemory;
use crate::ids::IdMap;
use crate::input::Process;
use crate::issue::{IssueKind, Unfinished};
use crate::time::{DeviceNs, HostNs, ProcessIndex, Span, ThreadIndex, Ticks};
use clscope_trace::Untimed;
use clscope_trace::record::{Record, WAITS_INLINE, Waits, detail, flag};
use clscope_trace::stream::Plain;
use cursor::Cursor;
pub(crate) use cursor::{Calls, PassedCalls};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Outcomes kept for commands whose enqueue record comes later than its outcome (another thread's
/// harvest may be recorded first). More than these wait in vain: their commands' records are lost.
const EARLY_OUTCOMES: usize = 1 << 14;

/// Commands that the application may still query the time of, kept for each process. The recorder
/// marks 8,192 for each queue at most; of more than these, the oldest stay without a time.
const AWAITED_READS: usize = 1 << 16;

/// What the merge found besides events, per process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Records read.
    pub records: u64,
    /// Blocks that could not be decoded to their end.
    pub damaged_blocks: u64,
    /// Records whose time was earlier than the one before in the same thread.
    pub time_ran_back: u64,
    /// Records of unknown kinds.
    pub unknown_records: u64,
    /// Outcomes of commands that are not in the trace.
    pub orphan_timings: u64,
    /// Commands whose stamps can be no times.
    pub impossible_stamps: u64,
    /// The longest time from the enqueue of one of them to when the host knew it complete.
    pub impossible_most_ns: u64,
    /// Device spans that had to be moved to lie within what the host saw.
    pub clamped: u64,
    /// The farthest such move in nanoseconds.
    pub clamped_most_ns: u64,
}

/// A command whose outcome is awaited.
struct Pending<'a> {
    thread: ThreadIndex,
    call: Span,
    enqueued: Enqueued<'a>,
}

impl<'a> Pending<'a> {
    /// The command with its outcome.
    fn ended(self, process: ProcessIndex, outcome: Outcome) -> Event<'a> {
        let Self { thread, call, enqueued } = self;
        let at_most_ns = None;
        Event::Command(Command { process, thread, call, enqueued, outcome, at_most_ns })
    }

    /// With stamps that are no times, bounded by what the host saw.
    fn bounded(self, process: ProcessIndex, at_most_ns: u64) -> Event<'a> {
        let Self { thread, call, enqueued } = self;
        let outcome = Outcome::Untimed { reason: Untimed::ImpossibleStamps, detail: 0 };
        let at_most_ns = Some(at_most_ns);
        Event::Command(Command { process, thread, call, enqueued, outcome, at_most_ns })
    }
}

/// Of what sampling left out and the application did not query.
const NOT_SAMPLED: Outcome = Outcome::Untimed { reason: Untimed::NotSampled, detail: 0 };

/// What is known of the commands of one process.
#[derive(Default)]
struct InFlight<'a> {
    pending: IdMap<Pending<'a>>,
    early: IdMap<(HostNs, Early)>,
    early_order: VecDeque<u64>,
    /// The last commands that were left out and that the application may query, in order; those
    /// that it has not queried are in `pending`.
    reads: VecDeque<u64>,
}

#[derive(Clone, Copy)]
enum Early {
    Timing([u64; 4]),
    /// Queried by the application: known for certain, whatever the sampling decided.
    Read([u64; 4]),
    Untimed(Untimed, i32),
}

/// Iterates over the events of a [`Trace`] in time order. After the end [`tally`](Self::tally)
/// tells what was met.
pub struct Merge<'t, 'a> {
    trace: &'t Trace<'a>,
    alignment: Option<&'t Alignment>,
    cursors: Vec<Cursor<'t, 'a>>,
    /// The cursor with the earliest record, and that record's time: most often it goes on.
    turn: Option<(HostNs, u32)>,
    /// The other cursors that are not at their end.
    heap: BinaryHeap<Reverse<(HostNs, u32)>>,
    in_flight: Vec<InFlight<'a>>,
    tally: Vec<Tally>,
    /// Events of the record just read that were not given yet.
    ready: VecDeque<Event<'a>>,
    /// What comes after all records.
    finished: bool,
    device_hints: Vec<usize>,
    /// What was passed over before the call that was given last.
    passed: Option<PassedCalls>,
}

impl<'t, 'a> Merge<'t, 'a> {
    pub(crate) fn new(
        trace: &'t Trace<'a>,
        alignment: Option<&'t Alignment>,
        calls: Calls<'t>,
    ) -> Self {
        let mut out = Self {
            trace,
            alignment,
            cursors: Vec::new(),
            turn: None,
            heap: BinaryHeap::new(),
            in_flight: Vec::new(),
            tally: vec![Tally::default(); trace.processes.len()],
            ready: VecDeque::new(),
            finished: false,
            device_hints: Vec::new(),
            passed: None,
        };
        out.in_flight.resize_with(trace.processes.len(), InFlight::default);
        for (index, process) in trace.processes.iter().enumerate() {
            let untold = match process.tells_host_memory() {
                true => HostMemory::Application,
                false => HostMemory::Unknown,
            };
            for blocks in process.blocks.chunk_by(|a, b| a.thread == b.thread) {
                let mut cursor = Cursor {
                    process: index as u32,
                    thread: blocks[0].thread,
                    clock: &trace.timeline.clocks[index],
                    hint: 0,
                    blocks: blocks[1..].iter(),
                    records: blocks[0].records(),
                    plain: None,
                    head: None,
                    last: HostNs(i64::MIN),
                    memory: untold,
                    untold,
                    calls,
                    passed: None,
                };
                if let Some(at) = cursor.advance(&mut out.tally[index]) {
                    out.heap.push(Reverse((at, out.cursors.len() as u32)));
                }
                out.cursors.push(cursor);
            }
        }
        out.turn = out.heap.pop().map(|Reverse(first)| first);
        out
    }

    /// What was found so far, per process.
    pub fn tally(&self) -> &[Tally] {
        &self.tally
    }

    /// Commands whose outcome is awaited at this point.
    pub fn in_flight(&self) -> usize {
        self.in_flight.iter().map(|f| f.pending.len()).sum()
    }

    /// What was passed over of the thread of the call that was just given, before that call.
    #[inline]
    pub(crate) fn take_passed(&mut self) -> Option<PassedCalls> {
        self.passed.take()
    }

    /// Gives the turn to the earliest record, where that of cursor `number` comes at `next`. The
    /// heap is touched only where another thread is earlier.
    #[inline]
    fn pass_turn(&mut self, number: u32, next: Option<HostNs>) {
        let Some(next) = next.map(|time| (time, number)) else {
            self.turn = self.heap.pop().map(|Reverse(first)| first);
            return;
        };
        self.turn = match self.heap.peek_mut() {
            Some(mut top) if top.0 < next => Some(std::mem::replace(&mut *top, Reverse(next)).0),
            _ => Some(next),
        };
    }

    /// Takes the earliest record, which is no plain one without a prefix.
    fn step(&mut self, at: HostNs, number: u32) -> Option<Event<'a>> {
        let cursor = &mut self.cursors[number as usize];
        let process = cursor.process as usize;
        let tally = &mut self.tally[process];
        let Some((ticks, record)) = cursor.head.take() else {
            // No record means that the cursor is at its end, which never has the turn.
            self.pass_turn(number, None);
            return None;
        };
        let (thread, process_index) = (ThreadIndex(cursor.thread), ProcessIndex(cursor.process));
        let is_call = matches!(
            record,
            Record::Plain { .. } | Record::Run(_) | Record::Call { .. } | Record::Command(_)
        );
        if is_call && cursor.passed.is_some() {
            self.passed = cursor.take_passed();
        }
        let clock = cursor.clock;
        let mut begin = |duration: u64| {
            clock.at(Ticks(ticks.saturating_sub(duration)), &mut cursor.hint).min(at)
        };
        let mut more_waits: Vec<Waits<'a>> = Vec::new();
        let mut taken: Taken<'a> = match record {
            Record::Plain { function, small, id, duration } => Taken::Event(Event::Call(Call {
                process: process_index,
                thread,
                function,
                span: Span { begin: begin(duration), end: at },
                result: 0,
                kept: Kept::Plain { small, id },
                run: None,
            })),
            Record::Run(run) => {
                let begin = begin(run.extent());
                // A rate for so short a time: what all calls took lies within the run.
                let mut ns = |duration: u32| {
                    let from = ticks.saturating_sub(u64::from(duration));
                    at.since(clock.at(Ticks(from), &mut cursor.hint).min(at))
                };
                Taken::Event(Event::Call(Call {
                    process: process_index,
                    thread,
                    function: run.function,
                    span: Span { begin, end: at },
                    result: 0,
                    kept: Kept::Plain { small: run.small, id: run.id },
                    run: Some(Run {
                        count: u64::from(run.count),
                        total_ns: ns(run.total),
                        shortest_ns: ns(run.shortest),
                        longest_ns: ns(run.longest),
                        first_ns: ns(run.first),
                    }),
                }))
            }
            Record::Call { function, duration, result, args } => Taken::Event(Event::Call(Call {
                process: process_index,
                thread,
                function,
                span: Span { begin: begin(duration), end: at },
                result,
                kept: Kept::Words(args),
                run: None,
            })),
            Record::Command(command) => {
                let memory = std::mem::replace(&mut cursor.memory, cursor.untold);
                let memory = command.kind.uses_host_memory().then_some(memory);
                Taken::Enqueue(
                    Span { begin: begin(command.duration), end: at },
                    Enqueued { record: command, more_waits: Vec::new(), memory },
                )
            }
            Record::Detail(of) if of.what == detail::HOST_MEMORY => {
                cursor.memory = HostMemory::decode(&of);
                Taken::Nothing
            }
            Record::MoreWaits { command, waits } => {
                // Those that follow their command directly were taken with it.
                if let Some(pending) = self.in_flight[process].pending.get_mut(&command) {
                    pending.enqueued.more_waits.push(waits);
                }
                Taken::Nothing
            }
            Record::Timing { command, stamps } => Taken::Outcome(command, Early::Timing(stamps)),
            Record::ReadTiming { command, stamps } => Taken::Outcome(command, Early::Read(stamps)),
            Record::Untimed { command, reason, detail } => {
                Taken::Outcome(command, Early::Untimed(reason, detail))
            }
            other => {
                if let Record::Dropped { .. } = other {
                    // What was to be told of the next transfer may be among them.
                    cursor.memory = HostMemory::Unknown;
                }
                let mark = match other {
                    Record::Dropped { count, reason } => Mark::Dropped { count, reason },
                    Record::Paused(on) => Mark::Paused(on),
                    Record::Detail(of) => Mark::Detail(of),
                    Record::Unknown { kind } => {
                        tally.unknown_records += 1;
                        Mark::Unknown { kind }
                    }
                    _ => Mark::Unknown { kind: 0 },
                };
                Taken::Event(Event::Mark { process: process_index, thread, at, mark })
            }
        };
        let mut next = cursor.advance(tally);
        let mut told = None;
        if let Taken::Enqueue(_, enqueued) = &mut taken {
            if enqueued.record.waits.len() == WAITS_INLINE {
                while let Some((_, Record::MoreWaits { command, waits })) = cursor.head
                    && command == enqueued.record.id
                {
                    more_waits.push(waits);
                    next = cursor.advance(tally);
                }
                enqueued.more_waits = more_waits;
            }
            // Why a command is not timed stands right behind it, so that it need not wait in
            // memory.
            if enqueued.record.flags & (flag::TIMED | flag::NOT_SAMPLED) == 0
                && let Some((_, Record::Untimed { command, reason, detail })) = cursor.head
                && command == enqueued.record.id
            {
                told = Some((reason, detail));
                next = cursor.advance(tally);
            }
        }
        self.pass_turn(number, next);
        match taken {
            Taken::Event(event) => Some(event),
            Taken::Nothing => None,
            Taken::Enqueue(call, enqueued) => {
                self.enqueued(process_index, thread, call, &enqueued, told);
                Some(Event::Call(Call {
                    process: process_index,
                    thread,
                    function: enqueued.record.function,
                    span: call,
                    result: enqueued.record.result,
                    kept: Kept::Enqueue(enqueued),
                    run: None,
                }))
            }
            Taken::Outcome(id, outcome) => {
                let in_flight = &mut self.in_flight[process];
                match in_flight.pending.remove(&id) {
                    Some(pending) => Some(self.done(process_index, pending, at, outcome)),
                    None => {
                        if in_flight.early.insert(id, (at, outcome)).is_some() {
                            self.tally[process].orphan_timings += 1;
                        } else {
                            in_flight.early_order.push_back(id);
                            if in_flight.early_order.len() > EARLY_OUTCOMES
                                && let Some(old) = in_flight.early_order.pop_front()
                                && in_flight.early.remove(&old).is_some()
                            {
                                self.tally[process].orphan_timings += 1;
                            }
                        }
                        None
                    }
                }
            }
        }
    }

    /// Notes a command that was enqueued; its outcome may be known already.
    fn enqueued(
        &mut self,
        process: ProcessIndex,
        thread: ThreadIndex,
        call: Span,
        enqueued: &Enqueued<'a>,
        told: Option<(Untimed, i32)>,
    ) {
        let command = &enqueued.record;
        if command.result != 0 || command.id == 0 {
            return;
        }
        let pending = Pending { thread, call, enqueued: enqueued.clone() };
        let in_flight = &mut self.in_flight[process.0 as usize];
        let early =
            if in_flight.early.is_empty() { None } else { in_flight.early.remove(&command.id) };
        if let Some((at, outcome)) = early {
            let event = self.done(process, pending, at, outcome);
            self.ready.push_back(event);
        } else if command.flags & (flag::TIMED | flag::READ) == flag::READ {
            in_flight.pending.insert(command.id, pending);
            in_flight.reads.push_back(command.id);
            if in_flight.reads.len() > AWAITED_READS
                && let Some(oldest) = in_flight.reads.pop_front()
                && let Some(unread) = in_flight.pending.remove(&oldest)
            {
                self.ready.push_back(unread.ended(process, NOT_SAMPLED));
            }
        } else if command.flags & flag::TIMED == 0 {
            // Without a record of its own the reason is the process's method.
            let unsaid = if command.flags & flag::NOT_SAMPLED != 0 {
                Untimed::NotSampled
            } else if self.trace.process(process).definitions.process.device_timing == "off" {
                Untimed::TimingOff
            } else {
                Untimed::Unknown
            };
            let (reason, detail) = told.unwrap_or((unsaid, 0));
            let outcome = Outcome::Untimed { reason, detail };
            self.ready.push_back(pending.ended(process, outcome));
        } else {
            in_flight.pending.insert(command.id, pending);
        }
    }

    /// Joins a command with its outcome.
    fn done(
        &mut self,
        process: ProcessIndex,
        mut pending: Pending<'a>,
        at: HostNs,
        outcome: Early,
    ) -> Event<'a> {
        if let Early::Read(_) = outcome {
            pending.enqueued.record.certain();
        }
        let record = &pending.enqueued.record;
        let is_clock = || {
            let device = self.alignment.and_then(|a| a.of_queue(process, record.queue));
            device.is_none_or(|device| device.is_clock)
        };
        let believed = |stamps| {
            align::possible(stamps)
                && is_clock()
                && align::credible((record.kind, record.bytes), stamps, pending.call.begin, at)
        };
        let outcome = match outcome {
            Early::Untimed(reason, detail) => Outcome::Untimed { reason, detail },
            Early::Timing(stamps) | Early::Read(stamps) if !believed(stamps) => {
                let tally = &mut self.tally[process.0 as usize];
                tally.impossible_stamps += 1;
                let seen = at.since(pending.call.begin);
                tally.impossible_most_ns = tally.impossible_most_ns.max(seen);
                return pending.bounded(process, seen);
            }
            Early::Timing(stamps) | Early::Read(stamps) => {
                let queue = pending.enqueued.record.queue;
                let placed = self.alignment.and_then(|a| {
                    a.place(process, queue, stamps, pending.call.begin, at, &mut self.device_hints)
                });
                if let Some(shift) = placed.map(|p| p.clamped_ns).filter(|s| *s != 0) {
                    let tally = &mut self.tally[process.0 as usize];
                    tally.clamped += 1;
                    tally.clamped_most_ns = tally.clamped_most_ns.max(shift.unsigned_abs());
                }
                Outcome::Timed(DeviceTimes { raw: stamps.map(DeviceNs), observed: at, placed })
            }
        };
        pending.ended(process, outcome)
    }

    /// What has no record to end it: commands in flight and calls in progress.
    fn finish(&mut self) {
        self.finished = true;
        for (index, process) in self.trace.processes.iter().enumerate() {
            let in_flight = std::mem::take(&mut self.in_flight[index]);
            self.tally[index].orphan_timings += in_flight.early.len() as u64;
            let reason = self.unfinished_reason(process, index);
            let mut pending: Vec<(u64, Pending<'a>)> = in_flight.pending.into_iter().collect();
            pending.sort_unstable_by_key(|(id, _)| *id);
            let process_index = ProcessIndex(index as u32);
            self.ready.extend(pending.into_iter().map(|(_, p)| {
                let awaited = p.enqueued.record.flags & flag::TIMED != 0;
                let outcome = if awaited { Outcome::Unfinished(reason) } else { NOT_SAMPLED };
                p.ended(process_index, outcome)
            }));
            let clock = &self.trace.timeline.clocks[index];
            let mut hint = 0;
            self.ready.extend(process.in_calls.iter().map(|c| Event::InCall {
                process: process_index,
                thread: c.thread,
                function: c.function,
                begin: clock.at(Ticks(c.begin), &mut hint),
            }));
        }
    }

    fn unfinished_reason(&self, process: &Process<'a>, index: usize) -> Unfinished {
        let lost = process.dropped_untold > 0
            || self.tally[index].damaged_blocks > 0
            || process.issues.iter().any(IssueKind::means_loss);
        let runs = process.issues.iter().any(|i| matches!(i, IssueKind::Running { .. }));
        match (&process.definitions.exit, lost) {
            (_, true) => Unfinished::Lost,
            (None, false) if runs => Unfinished::Running,
            (Some(_), false) => Unfinished::Exited,
            (None, false) => Unfinished::Killed,
        }
    }
}

enum Taken<'a> {
    Event(Event<'a>),
    Enqueue(Span, Enqueued<'a>),
    Outcome(u64, Early),
    Nothing,
}

impl<'a> Merge<'_, 'a> {
    /// The next event where it is no plain call.
    fn next_other(&mut self) -> Option<Event<'a>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            let Some((at, number)) = self.turn else {
                if self.finished {
                    return None;
                }
                self.finish();
                continue;
            };
            if self.cursors.get(number as usize).is_some_and(|cursor| cursor.plain.is_some()) {
                return self.next();
            }
            if let Some(event) = self.step(at, number) {
                return Some(event);
            }
        }
    }
}

impl<'a> Iterator for Merge<'_, 'a> {
    type Item = Event<'a>;

    #[inline]
    fn next(&mut self) -> Option<Event<'a>> {
        // Plain calls are made where they are wanted: a copy would take as long as all the rest.
        if self.ready.is_empty()
            && let Some((at, number)) = self.turn
            && let Some(cursor) = self.cursors.get_mut(number as usize)
            && let Some(Plain { time, function, small, id, duration }) = cursor.plain
        {
            let begin = Ticks(time.saturating_sub(duration));
            let begin = cursor.clock.at(begin, &mut cursor.hint).min(at);
            let (process, thread) = (ProcessIndex(cursor.process), ThreadIndex(cursor.thread));
            if cursor.passed.is_some() {
                self.passed = cursor.take_passed();
            }
            let next = cursor.advance(&mut self.tally[process.0 as usize]);
            self.pass_turn(number, next);
            let (span, kept) = (Span { begin, end: at }, Kept::Plain { small, id });
            return Some(Event::Call(Call {
                process,
                thread,
                function,
                span,
                result: 0,
                kept,
                run: None,
            }));
        }
        self.next_other()
    }
}

/// Time from the beginning of what a record describes to its end, in ticks, 0 for what has none.
pub(crate) fn duration(record: &Record<'_>) -> u64 {
    match record {
        Record::Plain { duration, .. } | Record::Call { duration, .. } => *duration,
        Record::Command(c) => c.duration,
        Record::Run(run) => run.extent(),
        _ => 0,
    }
}
