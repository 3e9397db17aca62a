//! Owns the traces opened together: processes, their common timeline, and what was found wrong.
//! Refuses to keep events: it hands out streams.

use crate::align::{Alignment, Collector, disprove};
use crate::clock::Timeline;
use crate::distinct;
use crate::event::{Event, Outcome};
use crate::input::{InCall, Process, ProcessFiles};
use crate::issue::{Issue, IssueKind};
use crate::merge::{Calls, Merge, Tally};
use crate::time::{HostNs, ProcessIndex, Span, Ticks};
use clscope_trace::record::Untimed;

/// One or several traces, opened together.
#[derive(Debug, Clone, Default)]
pub struct Trace<'a> {
    /// The processes that could be opened, in the order given.
    pub processes: Vec<Process<'a>>,
    /// Where their clocks stand.
    pub timeline: Timeline,
    /// What was found wrong on opening.
    pub issues: Vec<Issue>,
}

impl<'a> Trace<'a> {
    /// Opens processes. Damage is never an error here: what could not be used is in
    /// [`issues`](Self::issues).
    pub fn open(files: Vec<ProcessFiles<'a>>) -> Self {
        let mut out = Self::default();
        for process in files {
            match Process::open(process) {
                Ok(process) => out.processes.push(process),
                Err(issues) => out.issues.extend(issues),
            }
        }
        let mut clock_issues = vec![Vec::new(); out.processes.len()];
        out.timeline = Timeline::new(&out.processes, &mut clock_issues);
        let hosts = out.timeline.host_of.iter().copied();
        let processes = hosts.zip(out.processes.iter_mut().map(|p| &mut p.definitions));
        distinct::mark(&mut processes.collect::<Vec<_>>());
        for (process, mut found) in out.processes.iter_mut().zip(clock_issues) {
            process.issues.append(&mut found);
            out.issues.extend(
                process
                    .issues
                    .iter()
                    .map(|kind| Issue { subject: process.label.clone(), kind: kind.clone() }),
            );
        }
        out
    }

    /// A process by its index; indices come from this trace's events.
    ///
    /// # Panics
    /// Where the index comes from another trace.
    pub fn process(&self, index: ProcessIndex) -> &Process<'a> {
        &self.processes[index.0 as usize]
    }

    /// All events in time order, device times placed on the timeline if an alignment is given.
    pub fn events<'t>(&'t self, alignment: Option<&'t Alignment>) -> Merge<'t, 'a> {
        Merge::new(self, alignment, Calls::All)
    }

    /// The same without calls that enqueue nothing, which are passed over in a fraction of the
    /// time. The merge's tally does not count them.
    pub fn commands<'t>(&'t self, alignment: Option<&'t Alignment>) -> Merge<'t, 'a> {
        Merge::new(self, alignment, Calls::None)
    }

    /// All events but plain calls of functions that are not marked, by process and function.
    pub(crate) fn marked<'t>(
        &'t self,
        alignment: &'t Alignment,
        marked: &'t [Vec<bool>],
    ) -> Merge<'t, 'a> {
        Merge::new(self, Some(alignment), Calls::Marked(marked))
    }

    /// Reads all records once and aligns every device's clock.
    pub fn align(&self) -> Alignment {
        let mut collector = Collector::new(self);
        for event in self.commands(None) {
            let Event::Command(command) = &event else { continue };
            let (process, queue) = (command.process, command.enqueued.record.queue);
            match &command.outcome {
                Outcome::Timed(times) => {
                    let stamps = times.raw.map(|s| s.0);
                    collector.add(process, queue, stamps, command.call, times.observed);
                }
                Outcome::Untimed { reason: Untimed::ImpossibleStamps, .. } => {
                    collector.disbelieve(process, queue);
                }
                _ => {}
            }
        }
        let mut alignment = collector.finish(self);
        disprove(self, &mut alignment);
        alignment
    }

    /// The ends of the timeline as far as blocks and rings show them without decoding every record:
    /// from the earliest block (or file) to the latest record. `None` for a trace without records.
    /// Reads the last block of every thread.
    pub fn bounds(&self) -> Option<Span> {
        let mut span: Option<Span> = None;
        for (process, clock) in self.processes.iter().zip(&self.timeline.clocks) {
            let mut hint = 0;
            let mut include = |ticks: u64| {
                let at = clock.at(Ticks(ticks), &mut hint);
                let old = span.get_or_insert(Span { begin: at, end: at });
                *old = Span { begin: old.begin.min(at), end: old.end.max(at) };
            };
            for thread in process.blocks.chunk_by(|a, b| a.thread == b.thread) {
                // The first record's begin may lie before its block's base.
                if let Some((at, record)) = thread[0].records().next() {
                    include(at.saturating_sub(crate::merge::duration(&record)));
                }
                if let Some((at, _)) = thread[thread.len() - 1].records().last() {
                    include(at);
                }
            }
            if let Some(exit) = &process.definitions.exit {
                include(exit.ticks);
            }
        }
        span
    }

    /// When each call began that a process was inside of at the end of its record.
    pub fn in_calls(&self, index: ProcessIndex) -> impl Iterator<Item = (&InCall, HostNs)> {
        let clock = &self.timeline.clocks[index.0 as usize];
        let of = self.process(index).in_calls.iter();
        of.map(|call| (call, clock.at(Ticks(call.begin), &mut 0)))
    }

    /// Everything that is wrong, after a pass over the events: what opening found, and what the
    /// pass met.
    pub fn issues_after(&self, tally: &[Tally], alignment: Option<&Alignment>) -> Vec<Issue> {
        let mut out = self.issues.clone();
        for (process, tally) in self.processes.iter().zip(tally) {
            let mut add = |n: u64, kind: IssueKind| {
                if n > 0 {
                    out.push(Issue { subject: process.label.clone(), kind });
                }
            };
            add(tally.damaged_blocks, IssueKind::DamagedBlocks { blocks: tally.damaged_blocks });
            add(tally.time_ran_back, IssueKind::TimeRanBack { records: tally.time_ran_back });
            add(
                tally.unknown_records,
                IssueKind::UnknownRecords { records: tally.unknown_records },
            );
            add(tally.orphan_timings, IssueKind::OrphanTimings { timings: tally.orphan_timings });
            for call in &process.in_calls {
                let function = process
                    .definitions
                    .function(call.function)
                    .map_or_else(|| format!("function {}", call.function), |f| f.name.clone());
                add(1, IssueKind::InCall { thread: call.thread.0, function });
            }
            add(
                tally.clamped,
                IssueKind::Clamped { spans: tally.clamped, most_ns: tally.clamped_most_ns },
            );
            add(
                tally.impossible_stamps,
                IssueKind::ImpossibleStamps {
                    commands: tally.impossible_stamps,
                    most_ns: tally.impossible_most_ns,
                },
            );
        }
        if let Some(alignment) = alignment {
            out.extend(alignment.issues(self));
        }
        out
    }

    /// Where the timeline begins: the natural zero for output.
    pub fn origin(&self) -> HostNs {
        self.bounds().map_or(HostNs(0), |b| b.begin)
    }
}
