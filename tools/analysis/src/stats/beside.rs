//! Owns at which commands of a process the recorder ran commands of its own (repetitions, counted
//! copies, what capturing reads), when it repeated, and when its copies of captured launches' memory
//! ran. Refuses to say for how long counting ran: a trace does not hold that.

use crate::align::Alignment;
use crate::clock::ProcessClock;
use crate::input::{Definitions, Process};
use crate::time::{ProcessIndex, Span, Ticks};
use crate::trace::Trace;
use std::sync::Arc;

/// Numbers of the commands to come, the last first.
#[derive(Debug, Clone, Default)]
pub struct Beside(Vec<u64>);

impl Beside {
    /// Of a process.
    pub fn collect(d: &Definitions) -> Self {
        let repeated = d.replays.iter().map(|r| r.before);
        let counted = d.mixes.iter().map(|m| m.before);
        let captured = d.captures.iter().filter_map(|c| c.command);
        let mut all: Vec<u64> = repeated.chain(counted).chain(captured).collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        Self(all)
    }

    /// Whether it ran something at this command: the first with the number or a higher one.
    /// Commands are asked for in the order of the timeline.
    pub fn is_at(&mut self, id: u64) -> bool {
        let before = self.0.len();
        while self.0.last().is_some_and(|next| *next <= id) {
            self.0.pop();
        }
        self.0.len() < before
    }
}

/// A copy of a captured launch's memory, which the recorder made in the application's queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copied {
    /// Process.
    pub process: ProcessIndex,
    /// Id of the application's queue that it ran in.
    pub queue: u32,
    /// When it ran, by the device's stamps.
    pub span: Span,
    /// Bytes that it copied.
    pub bytes: u64,
}

impl Copied {
    /// All of a trace, by process.
    pub fn of_all(trace: &Trace<'_>, alignment: &Alignment) -> Vec<Vec<Self>> {
        let mut hints = Vec::new();
        let processes = (0u32..).map(ProcessIndex).zip(&trace.processes);
        let clocks = processes.zip(&trace.timeline.clocks);
        let mut of = |((process, of), clock): ((ProcessIndex, &Process<'_>), &ProcessClock)| {
            let mut hint = 0;
            let mut at = |ticks: u64| clock.at(Ticks(ticks), &mut hint);
            let mut out = Vec::new();
            for capture in of.definitions.captures.iter().filter(|c| c.seen > 0) {
                let (begun, seen) = (at(capture.begun), at(capture.seen));
                for copy in capture.copies.iter().filter(|copy| copy.end >= copy.start) {
                    let stamps = [copy.start, copy.start, copy.start, copy.end];
                    let queue = capture.queue;
                    let placed = alignment.place(process, queue, stamps, begun, seen, &mut hints);
                    let Some(span) = placed.map(|placed| placed.span()) else { continue };
                    out.push(Self { process, queue, span, bytes: copy.bytes });
                }
            }
            out
        };
        clocks.map(&mut of).collect()
    }

    /// When any of them ran.
    pub fn when(of: &[Self]) -> Repeated {
        Repeated::joined(of.iter().map(|copy| copy.span).collect())
    }
}

/// When the recorder repeated commands of a process (`--replay`): from the first copy, trial or
/// batch of a burst, or the rest before it, to the last. In order; none touches the next.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Repeated(Arc<[Span]>);

impl Repeated {
    /// Of a process, with its clock.
    pub fn collect(definitions: &Definitions, clock: &ProcessClock) -> Self {
        let mut hint = 0;
        let mut at = |ticks: u64| clock.at(Ticks(ticks), &mut hint);
        let bursts = definitions.replays.iter().filter_map(|r| {
            let ran = || r.batches.iter().chain(&r.trials);
            let first = ran().map(|b| b.begin).min()?;
            let last = ran().map(|b| b.end).max()?;
            let begin = if r.quiet > 0 { r.quiet.min(first) } else { first };
            let span = Span { begin: at(begin), end: at(last) };
            (span.begin < span.end).then_some(span)
        });
        Self::joined(bursts.collect())
    }

    /// Of each process of a trace.
    pub fn of_all(trace: &Trace<'_>) -> Vec<Self> {
        let processes = trace.processes.iter().zip(&trace.timeline.clocks);
        processes.map(|(process, clock)| Self::collect(&process.definitions, clock)).collect()
    }

    /// When any of several did.
    pub fn any<'a>(of: impl Iterator<Item = &'a Self>) -> Self {
        Self::joined(of.flat_map(|r| r.0.iter().copied()).collect())
    }

    /// The stretches that some spans make.
    pub fn joined(spans: Vec<Span>) -> Self {
        Self(Span::join(spans).into())
    }

    /// The stretches, in order.
    pub fn spans(&self) -> &[Span] {
        &self.0
    }

    /// Nanoseconds of a span in which it repeated.
    pub fn within(&self, span: Span) -> u64 {
        span.within(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::HostNs;

    #[test]
    fn stretches_that_touch_are_one_and_parts_of_them_are_counted() {
        let at = |begin, end| Span { begin: HostNs(begin), end: HostNs(end) };
        let of = Repeated::joined(vec![at(50, 60), at(10, 20), at(20, 30), at(12, 15)]);
        assert_eq!(of.spans(), [at(10, 30), at(50, 60)]);
        let within = |begin, end| of.within(at(begin, end));
        assert_eq!(
            (within(0, 100), within(15, 55), within(30, 50), within(60, 70)),
            (30, 20, 0, 0)
        );
        assert_eq!(
            Repeated::any([&of, &Repeated::joined(vec![at(25, 52)])].into_iter()).spans(),
            [at(10, 60)]
        );
    }
    use clscope_trace::defs::Replay;

    #[test]
    fn each_is_told_at_one_command() {
        let mut of = Definitions::default();
        of.replays = [9, 4].map(|before| Replay { before, ..Replay::default() }).into();
        let mut of = Beside::collect(&of);
        let told: Vec<u64> = (0..20).filter(|id| of.is_at(*id)).collect();
        assert_eq!(told, [4, 9]);
    }
}
