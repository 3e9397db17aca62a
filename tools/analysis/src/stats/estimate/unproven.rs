//! Owns counts of commands that sampled timing left out and of which nothing shows that they ran:
//! they stand in an in-order queue behind a timed command that was not seen to end. A killed
//! process leaves them. Refuses to guess how many of them ran: they are unfinished as that one is.

use crate::Trace;
use crate::ids::IdMap;
use crate::issue::Unfinished;
use crate::stats::{Key, Stats};
use crate::time::ProcessIndex;
use std::collections::{BTreeMap, VecDeque};

/// Most timed commands in flight between which counts are kept apart.
const MOST: usize = 1 << 17;

/// What was left out behind a timed command, up to the next one.
#[derive(Debug, Clone, Default)]
struct Behind {
    /// Id of the timed command.
    id: u64,
    /// Classes with their counts; few between two timed commands.
    counts: Vec<(u64, u64)>,
}

/// The commands of one in-order queue.
#[derive(Debug, Clone, Default)]
pub struct Unproven {
    behind: VecDeque<Behind>,
    /// The first that was not seen to end.
    first: Option<u64>,
}

impl Unproven {
    /// A command was enqueued that will have a time, if it ends.
    pub fn timed(&mut self, id: u64) {
        if self.behind.len() < MOST {
            self.behind.push_back(Behind { id, counts: Vec::new() });
        }
    }

    /// A command of a class was enqueued that will have none.
    pub fn left_out(&mut self, class: u64) {
        let Some(last) = self.behind.back_mut() else { return };
        match last.counts.iter_mut().find(|c| c.0 == class) {
            Some(found) => found.1 += 1,
            None => last.counts.push((class, 1)),
        }
    }

    /// A timed command ended, and with it all before it.
    pub fn ended(&mut self, id: u64) {
        while self.behind.front().is_some_and(|b| b.id < id) {
            self.behind.pop_front();
        }
    }

    /// A timed command was never seen to end.
    pub fn unfinished(&mut self, id: u64) {
        self.first = Some(self.first.map_or(id, |first| first.min(id)));
    }

    /// How many of each class stand behind the first that was not seen to end.
    pub fn counts(&self) -> BTreeMap<u64, u64> {
        let mut out = BTreeMap::new();
        let Some(first) = self.first else { return out };
        for (class, n) in self.behind.iter().filter(|b| b.id >= first).flat_map(|b| &b.counts) {
            *out.entry(*class).or_default() += n;
        }
        out
    }
}

impl Stats {
    /// Launches that were left out behind a command that was not seen to end are unfinished as it
    /// is: an estimate of their time would be one of work that was perhaps never done.
    pub(in crate::stats) fn take_unproven(
        &mut self,
        trace: &Trace<'_>,
        queues: IdMap<(Unproven, Option<Unfinished>)>,
    ) {
        for (of, (unproven, why)) in queues {
            let (process, queue) = (ProcessIndex((of >> 32) as u32), of as u32);
            let Some(why) = why else { continue };
            let device = trace.process(process).definitions.clock_device(queue);
            for (in_class, n) in unproven.counts() {
                let is_it =
                    |of: &Key| of.0 == process && of.2 == queue && of.1.class(of.3) == in_class;
                let sums = self.sums.iter_mut().find(|(of, _)| is_it(of)).map(|(_, sums)| sums);
                let taken = sums.and_then(|s| s.sampled.as_mut()).map_or(0, |s| s.take_back(n));
                if let Some(queue) = self.queues.get_mut(&(process, queue)) {
                    queue.left_out -= taken.min(queue.left_out);
                }
                if let Some(device) = device.and_then(|d| self.devices.get_mut(&(process, d))) {
                    device.left_out -= taken.min(device.left_out);
                }
                self.missing[process.0 as usize].unfinished_after_all(why, taken);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commands 1 to 9, of which 1, 4 and 7 are timed; the others are of class 5.
    fn queue() -> Unproven {
        let mut queue = Unproven::default();
        for id in 1..10 {
            if id % 3 == 1 { queue.timed(id) } else { queue.left_out(5) }
        }
        queue
    }

    #[test]
    fn what_stands_behind_an_unfinished_command_is_not_proven() {
        let mut killed = queue();
        killed.ended(1);
        killed.unfinished(7);
        killed.unfinished(4);
        assert_eq!(killed.counts(), BTreeMap::from([(5, 4)]), "5, 6, 8 and 9");
        let mut nothing_ended = queue();
        nothing_ended.unfinished(1);
        assert_eq!(nothing_ended.counts(), BTreeMap::from([(5, 6)]));
    }

    #[test]
    fn of_a_queue_whose_timed_commands_ended_all_are_taken_to_have_run() {
        let mut ended = queue();
        [1, 4, 7].into_iter().for_each(|id| ended.ended(id));
        assert_eq!(ended.counts(), BTreeMap::new());
        // Nothing is said of what came before the first timed command.
        let mut untimed = Unproven::default();
        untimed.left_out(5);
        assert_eq!(untimed.counts(), BTreeMap::new());
    }
}
