//! Owns counts of what is missing from a trace: records that were dropped, commands without time or
//! end, by reason. They are counted in a pass over its events. Refuses to judge how much that
//! matters: [`crate::issue`] does.

use crate::event::{Command, Event, Mark, Outcome};
use crate::issue::{Issue, IssueKind, Unfinished};
use crate::trace::Trace;
use clscope_trace::Untimed;
use clscope_trace::record::DropReason;
use std::collections::BTreeMap;

/// What one process lacks, by reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Missing {
    /// Commands recorded as untimed.
    pub untimed: BTreeMap<Untimed, u64>,
    /// Commands never seen to end.
    pub unfinished: BTreeMap<Unfinished, u64>,
    /// Records dropped.
    pub dropped: BTreeMap<DropReason, u64>,
    /// Timed commands whose sampling probability is not known, and was taken for 1. Counted where
    /// totals are estimated.
    pub bad_probabilities: u64,
}

impl Missing {
    /// So many commands, counted as left out by sampling, were not seen to end.
    pub(crate) fn unfinished_after_all(&mut self, why: Unfinished, n: u64) {
        let Some(left_out) = self.untimed.get_mut(&Untimed::NotSampled) else { return };
        let n = n.min(*left_out);
        *left_out -= n;
        if *left_out == 0 {
            self.untimed.remove(&Untimed::NotSampled);
        }
        if n > 0 {
            *self.unfinished.entry(why).or_default() += n;
        }
    }
}

/// Takes note of an event of one of the processes of `missing`, which are those of the trace in
/// their order.
pub fn observe(missing: &mut [Missing], event: &Event<'_>) {
    match event {
        Event::Command(Command { process, outcome, .. }) => {
            let Some(of) = missing.get_mut(process.0 as usize) else { return };
            match outcome {
                Outcome::Timed(_) => {}
                Outcome::Untimed { reason, .. } => *of.untimed.entry(*reason).or_default() += 1,
                Outcome::Unfinished(reason) => *of.unfinished.entry(*reason).or_default() += 1,
            }
        }
        Event::Mark { process, mark: Mark::Dropped { count, reason }, .. } => {
            if let Some(of) = missing.get_mut(process.0 as usize) {
                let records = of.dropped.entry(*reason).or_default();
                *records = records.saturating_add(*count);
            }
        }
        Event::Call(_) | Event::Mark { .. } | Event::InCall { .. } => {}
    }
}

/// The same as findings.
pub fn issues(trace: &Trace<'_>, missing: &[Missing]) -> Vec<Issue> {
    let mut out = Vec::new();
    for (process, of) in trace.processes.iter().zip(missing) {
        let mut add = |kind| out.push(Issue { subject: process.label.clone(), kind });
        of.dropped
            .iter()
            .for_each(|(r, n)| add(IssueKind::Dropped { records: *n, reason: Some(*r) }));
        // Those of impossible stamps are told with what the host saw of them.
        let untimed = of.untimed.iter().filter(|(r, _)| **r != Untimed::ImpossibleStamps);
        untimed.for_each(|(r, n)| add(IssueKind::Untimed { commands: *n, reason: *r }));
        of.unfinished
            .iter()
            .for_each(|(r, n)| add(IssueKind::Unfinished { commands: *n, reason: *r }));
        if of.bad_probabilities > 0 {
            add(IssueKind::BadProbabilities { commands: of.bad_probabilities });
        }
    }
    out
}
