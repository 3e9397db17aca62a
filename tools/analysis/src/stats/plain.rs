//! Owns the sums of plain host calls that no other sum depends on: how often each function was
//! called and how long it took. They need no order between threads, so that parts of the trace are
//! summed at the same time by several threads, while another merges what needs an order. Refuses
//! calls that wait: when those were is set against what ran meanwhile.

use super::sketch::Distribution;
use crate::Trace;
use crate::clock::ProcessClock;
use crate::time::{HostNs, Span, Ticks};
use clscope_trace::stream::Block;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Parts for each thread that reads, so that none waits long for the last.
const PARTS: usize = 8;

/// A part has this many bytes at least: sums of smaller ones take longer to add than to make.
const SMALLEST: usize = 1 << 20;

/// Neighbouring blocks of one thread of one process.
struct Part<'t, 'a> {
    process: usize,
    clock: &'t ProcessClock,
    /// Functions whose calls are left out, by id.
    marked: &'t [bool],
    blocks: &'t [Block<'a>],
    /// Whether they are the first of their thread.
    first: bool,
}

/// What a part amounts to.
#[derive(Default)]
struct Sums {
    /// By function id.
    functions: Vec<Distribution>,
    calls: u64,
    span: Option<Span>,
    ran_back: u64,
    /// Time of the first record, as it is written.
    begin: Option<HostNs>,
    /// The latest time.
    end: Option<HostNs>,
}

impl Part<'_, '_> {
    /// Its sums, given the latest time before it in its thread: no time runs back behind that.
    fn sums(&self, before: HostNs) -> Sums {
        let mut out = Sums::default();
        let (mut last, mut hint) = (before, 0);
        let (mut from, mut to) = (HostNs(i64::MAX), HostNs(i64::MIN));
        for block in self.blocks {
            let mut records = block.records();
            loop {
                let plain = records.next_plain();
                let Some(ticks) = plain.map(|p| p.time).or_else(|| Some(records.next()?.0)) else {
                    break;
                };
                let mut at = self.clock.at(Ticks(ticks), &mut hint);
                out.begin.get_or_insert(at);
                let ran_back = at < last;
                at = at.max(last);
                last = at;
                let Some(plain) = plain else { continue };
                let index = usize::from(plain.function);
                if self.marked.get(index).copied().unwrap_or(false) {
                    continue;
                }
                out.ran_back += u64::from(ran_back);
                out.calls += 1;
                let begin = Ticks(plain.time.saturating_sub(plain.duration));
                let begin = self.clock.at(begin, &mut hint).min(at);
                (from, to) = (from.min(begin), to.max(at));
                if out.functions.len() <= index {
                    out.functions.resize_with(index + 1, Distribution::default);
                }
                out.functions[index].add(Span { begin, end: at }.duration());
            }
        }
        out.end = out.begin.map(|_| last);
        out.span = (out.calls > 0).then_some(Span { begin: from, end: to });
        out
    }
}

/// The trace in parts, in order.
fn parts<'t, 'a>(
    trace: &'t Trace<'a>,
    marked: &'t [Vec<bool>],
    threads: usize,
    smallest: usize,
) -> Vec<Part<'t, 'a>> {
    let bytes: usize =
        trace.processes.iter().flat_map(|p| &p.blocks).map(|b| b.payload.len()).sum();
    let most = (bytes / (threads.max(1) * PARTS)).max(smallest);
    let mut out = Vec::new();
    for (process, of) in trace.processes.iter().enumerate() {
        for thread in of.blocks.chunk_by(|a, b| a.thread == b.thread) {
            let mut rest = thread;
            while !rest.is_empty() {
                let mut size = 0;
                let enough = |b: &Block<'_>| {
                    size += b.payload.len();
                    size >= most
                };
                let count = rest.iter().position(enough).map_or(rest.len(), |i| i + 1);
                let (blocks, after) = rest.split_at(count);
                out.push(Part {
                    process,
                    clock: &trace.timeline.clocks[process],
                    marked: marked.get(process).map_or(&[], Vec::as_slice),
                    blocks,
                    first: rest.len() == thread.len(),
                });
                rest = after;
            }
        }
    }
    out
}

/// Sums of all plain calls of functions that are not marked.
#[derive(Default)]
pub(super) struct PlainSums {
    /// By process and function id.
    pub(super) functions: Vec<Vec<Distribution>>,
    /// How many calls.
    pub(super) calls: u64,
    /// Of each process, from the first begin to the last end.
    pub(super) spans: Vec<Option<Span>>,
    /// Of each process, records whose time was earlier than the one before in the same thread.
    pub(super) ran_back: Vec<u64>,
    /// The latest time of the part that was added last.
    last: Option<HostNs>,
}

impl PlainSums {
    /// Adds the sums of the next part.
    fn add(&mut self, part: &Part<'_, '_>, mut sums: Sums) {
        let before = if part.first { None } else { self.last };
        if let (Some(before), Some(begin)) = (before, sums.begin)
            && begin < before
        {
            // Blocks of a damaged trace may go back in time.
            sums = part.sums(before);
        }
        self.last = sums.end.or(before);
        let functions = &mut self.functions[part.process];
        if functions.len() < sums.functions.len() {
            functions.resize_with(sums.functions.len(), Distribution::default);
        }
        functions.iter_mut().zip(&sums.functions).for_each(|(all, more)| all.merge(more));
        self.calls += sums.calls;
        self.ran_back[part.process] += sums.ran_back;
        if let Some(more) = sums.span {
            let old = self.spans[part.process].get_or_insert(more);
            *old = old.hull(more);
        }
    }
}

/// Sums the plain calls of functions that are not marked (by process and function id) on `threads`
/// threads, this one included, which first does what `meanwhile` says.
pub(super) fn sums_and<R>(
    trace: &Trace<'_>,
    marked: &[Vec<bool>],
    threads: usize,
    meanwhile: impl FnOnce() -> R,
) -> (PlainSums, R) {
    sums_of(trace, &parts(trace, marked, threads, SMALLEST), threads, meanwhile)
}

fn sums_of<R>(
    trace: &Trace<'_>,
    parts: &[Part<'_, '_>],
    threads: usize,
    meanwhile: impl FnOnce() -> R,
) -> (PlainSums, R) {
    let sums: Vec<OnceLock<Sums>> = parts.iter().map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some((part, of_part)) = {
            let number = next.fetch_add(1, Ordering::Relaxed);
            parts.get(number).zip(sums.get(number))
        } {
            of_part.get_or_init(|| part.sums(HostNs(i64::MIN)));
        }
    };
    let done = std::thread::scope(|scope| {
        for _ in 1..threads.min(parts.len()) {
            // Where there may be no more threads, this one does it all.
            let _ = std::thread::Builder::new().spawn_scoped(scope, work);
        }
        let done = meanwhile();
        work();
        done
    });
    let mut out = PlainSums {
        functions: vec![Vec::new(); trace.processes.len()],
        ran_back: vec![0; trace.processes.len()],
        spans: vec![None; trace.processes.len()],
        ..PlainSums::default()
    };
    // In their order, whatever thread was ready first.
    for (part, of_part) in parts.iter().zip(sums) {
        out.add(part, of_part.into_inner().unwrap_or_default());
    }
    (out, done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Event, Kept};
    use crate::testing::{CommandSpec, HostModel, ProcessBuilder, ProcessBytes, function};

    /// Marks a call of more than 32 bits of ticks, whose record has a prefix.
    const LONG: u32 = 9;

    /// Calls of two threads, with launches, waits, rows of calls and durations of more than 32 bits
    /// between them, in blocks of some dozens.
    fn recorded() -> ProcessBytes {
        let mut process = ProcessBuilder::standard(HostModel::default(), 7, 2);
        process.block_len(700);
        let mut random = clscope_testing::Random::new(3);
        for thread in 0..2u32 {
            let mut now = 0;
            for i in 0..1500u64 {
                let begin = now + random.below(50);
                now = begin + random.below(3000);
                let records = process.thread(thread);
                match random.below(20) {
                    0 => {
                        let id = i * 2 + u64::from(thread) + 1;
                        records.enqueue(begin, now, &CommandSpec::kernel(id, 1, 1))
                    }
                    1 => records.plain(function::FINISH, begin, now, 0, 1),
                    2 => records.call(function::CREATE_BUFFER, begin, now, -5, &[0, 1, 64]),
                    3 => {
                        now = begin + 5_000_000_000;
                        records.plain(function::SET_ARG, begin, now, LONG, 1)
                    }
                    4 => {
                        records.run(function::SET_ARG, begin, 10, &[3; 9]);
                        now = begin + 100;
                        records
                    }
                    5 => records.plain(function::CREATE_BUFFER, begin, now, 1, 1),
                    _ => records.plain(function::SET_ARG, begin, now, 1, 1),
                };
            }
        }
        process.exit(1 << 43, 0);
        process.build()
    }

    /// The same sums from events in order.
    fn wanted(trace: &Trace<'_>, marked: &[bool]) -> (Vec<Distribution>, u64, Option<Span>) {
        let (mut functions, mut calls) = (vec![Distribution::default(); 7], 0);
        let mut span: Option<Span> = None;
        for event in trace.events(None) {
            let Event::Call(call) = event else { continue };
            let plain = matches!(call.kept, Kept::Plain { small, .. } if small != LONG)
                && call.run.is_none();
            if !plain || marked[usize::from(call.function)] {
                continue;
            }
            calls += 1;
            functions[usize::from(call.function)].add(call.span.duration());
            span = Some(span.map_or(call.span, |old| old.hull(call.span)));
        }
        (functions, calls, span)
    }

    #[test]
    fn sums_of_parts_are_those_of_all_events_whoever_makes_them() {
        let bytes = recorded();
        for turned in [false, true] {
            let mut trace = Trace::open(vec![bytes.files("p")]);
            if turned {
                // Later blocks first: times run back, and are moved up.
                trace.processes[0].blocks[..60].reverse();
                trace.processes[0].blocks.iter_mut().for_each(|b| b.thread = 0);
            }
            let mut marked = vec![false; 7];
            marked[usize::from(function::FINISH)] = true;
            let (functions, calls, span) = wanted(&trace, &marked);
            let marked = vec![marked];
            assert!(calls > 2000, "{calls}");
            let mut ran_back = Vec::new();
            for (threads, smallest) in [(1, 1), (3, 1), (3, 3000), (1, 1 << 30)] {
                let parts = parts(&trace, &marked, threads, smallest);
                assert!(smallest > 3000 || parts.len() >= 6, "{}", parts.len());
                let (sums, tally) = sums_of(&trace, &parts, threads, || {
                    let alignment = crate::align::Alignment::default();
                    let mut events = trace.marked(&alignment, &marked);
                    let given = events.by_ref().filter(|e| matches!(e, Event::Call(_))).count();
                    assert!(given < 1000, "{given}");
                    *events.tally().first().expect("a process")
                });
                let found = &sums.functions[0];
                assert_eq!(found.len(), usize::from(function::CREATE_BUFFER) + 1);
                for (id, want) in functions.iter().enumerate() {
                    assert_eq!(found.get(id).unwrap_or(&Distribution::default()), want, "{id}");
                }
                assert_eq!((sums.calls, sums.spans[0]), (calls, span));
                ran_back.push(sums.ran_back[0] + tally.time_ran_back);
            }
            let mut events = trace.events(None);
            events.by_ref().for_each(drop);
            let want = events.tally()[0].time_ran_back;
            assert!(ran_back.iter().all(|n| *n == want), "{ran_back:?} {want}");
            assert_eq!(want > 0, turned);
        }
    }

    #[test]
    fn what_was_passed_over_comes_with_the_next_call_of_its_thread() {
        let mut process = ProcessBuilder::standard(HostModel::default(), 7, 2);
        let launch = |id| CommandSpec::kernel(id, 1, 1);
        process
            .thread(0)
            .plain(function::SET_ARG, 100, 130, 0, 1)
            .plain(function::CREATE_BUFFER, 140, 190, 0, 1)
            .plain(function::SET_ARG, 200, 250, 0, 1)
            .enqueue(300, 310, &launch(1))
            .plain(function::SET_ARG, 400, 410, 0, 1)
            .plain(function::FINISH, 420, 440, 0, 1)
            .enqueue(500, 510, &launch(3));
        process.thread(1).plain(function::SET_ARG, 150, 160, 0, 1).enqueue(305, 320, &launch(2));
        let bytes = process.build();
        let trace = Trace::open(vec![bytes.files("p")]);
        let mut marked = vec![vec![false; 7]];
        marked[0][usize::from(function::FINISH)] = true;
        let alignment = crate::align::Alignment::default();
        let mut events = trace.marked(&alignment, &marked);
        let mut found = Vec::new();
        while let Some(event) = events.next() {
            let passed = events.take_passed();
            if let Event::Call(call) = event {
                let passed = passed.map(|p| {
                    assert_eq!((p.process, p.thread), (call.process, call.thread));
                    (p.ns, p.longest)
                });
                found.push((call.thread.0, call.function, passed));
            } else {
                assert!(passed.is_none());
            }
        }
        let longest = (function::CREATE_BUFFER, 50);
        assert_eq!(
            found,
            [
                (0, function::ENQUEUE_KERNEL, Some((130, longest))),
                (1, function::ENQUEUE_KERNEL, Some((10, (function::SET_ARG, 10)))),
                (0, function::FINISH, Some((10, (function::SET_ARG, 10)))),
                (0, function::ENQUEUE_KERNEL, None),
            ]
        );
        assert_eq!(events.tally()[0].records, 9);
    }
}
