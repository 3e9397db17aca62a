//! Owns whether devices whose commands all took the same time to the nanosecond did so: the host
//! waits about as long as they take, and the wait ends when they end. Where it went on for long
//! behind every END, END is a stub. Refuses to look at devices whose commands differ.

use super::Alignment;
use crate::Trace;
use crate::event::Event;
use crate::time::{HostNs, Span};
use std::collections::HashSet;

/// Fewest commands of which equal lengths tell something, and fewest waits.
const LEAST: usize = 4;
/// How long a wait goes on behind the last END, where END is no time: schedulers take less.
const LONG_NS: i64 = 1_000_000;
/// Most waits and commands that are looked at, of each process.
const MOST: usize = 1 << 16;

/// Lengths of a device's commands.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Lengths {
    first: Option<u64>,
    count: usize,
    differ: bool,
}

impl Lengths {
    pub(super) fn add(&mut self, ns: u64) {
        self.differ |= *self.first.get_or_insert(ns) != ns;
        self.count += 1;
    }

    pub(super) fn are_equal(&self) -> bool {
        !self.differ && self.count >= LEAST
    }
}

/// Believes no device of which [`Lengths`] are equal and whose END the waits contradict.
pub(crate) fn disprove(trace: &Trace<'_>, alignment: &mut Alignment) {
    let suspects = alignment.devices.iter().filter(|device| device.equal_lengths);
    let processes: HashSet<_> = suspects.map(|device| device.process).collect();
    if processes.is_empty() {
        return;
    }
    let marked: Vec<Vec<bool>> =
        trace.processes.iter().map(|process| process.definitions.waiting()).collect();
    let mut seen: Vec<(Vec<Span>, Vec<HostNs>)> = vec![Default::default(); marked.len()];
    for event in trace.marked(alignment, &marked) {
        match event {
            Event::Call(call) => {
                let index = call.process.0 as usize;
                let waits = &mut seen[index].0;
                let is_wait = marked[index].get(usize::from(call.function)) == Some(&true);
                if is_wait && call.result == 0 && waits.len() < MOST {
                    waits.push(call.span);
                }
            }
            Event::Command(command) => {
                let ends = &mut seen[command.process.0 as usize].1;
                if let Some(placed) = command.timed().and_then(|times| times.placed)
                    && ends.len() < MOST
                {
                    ends.push(placed.span().end);
                }
            }
            _ => {}
        }
    }
    for device in alignment.devices.iter_mut().filter(|device| device.equal_lengths) {
        let (waits, ends) = &mut seen[device.process.0 as usize];
        device.is_clock &= !outlast(waits, ends);
    }
}

/// Whether most waits went on for long behind the last END before their own.
fn outlast(waits: &[Span], ends: &mut [HostNs]) -> bool {
    ends.sort_unstable();
    let mut behind: Vec<i64> = waits
        .iter()
        .filter_map(|wait| {
            let last = ends[..ends.partition_point(|end| *end <= wait.end)].last()?;
            Some(wait.end.0 - last.max(&wait.begin).0)
        })
        .collect();
    behind.sort_unstable();
    behind.len() >= LEAST && behind[behind.len() / 2] >= LONG_NS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_that_go_on_behind_every_end_contradict_it() {
        let wait = |begin: i64, end: i64| Span { begin: HostNs(begin), end: HostNs(end) };
        let ms = 1_000_000;
        let waits: Vec<Span> = (0..9).map(|n| wait(n * 50 * ms, (n * 50 + 30 + n) * ms)).collect();
        let at = |behind: i64| waits.iter().map(|w| HostNs(w.end.0 - behind)).collect::<Vec<_>>();
        assert!(!outlast(&waits, &mut at(50_000)), "they end with the commands");
        assert!(outlast(&waits, &mut at(20 * ms)));
        // Commands that ended before the host began to wait.
        let late: Vec<Span> = waits.iter().map(|w| wait(w.end.0 - 9_000, w.end.0)).collect();
        assert!(!outlast(&late, &mut at(20 * ms)));
        assert!(!outlast(&waits[..3], &mut at(20 * ms)), "too few");
    }
}
