//! Owns what is known of the application's queues: which commands have been enqueued, and which are
//! known to have ended because the application has waited. Refuses to ask the runtime.
#![forbid(unsafe_code)]

use crate::os::shared::maps::HashMap;

/// A command of the application's has been enqueued.
#[derive(Debug, Clone, Copy)]
pub struct Enqueued {
    pub command: u64,
    /// The queue and its context, by value.
    pub queue: usize,
    pub context: usize,
    pub out_of_order: bool,
    /// It gave something back that shows that it has ended.
    pub has_ended: bool,
    /// A write that waits for no event and whose data have been taken: what is left of it is a copy.
    pub is_taken: bool,
}

#[derive(Debug)]
struct Queue {
    context: usize,
    out_of_order: bool,
    /// Commands up to this one have been enqueued, and have ended.
    last: u64,
    done: u64,
    /// Commands up to this one have ended, or are writes whose data have been taken.
    taken: u64,
}

/// A launch whose end matters.
#[derive(Debug, Clone, Copy)]
pub struct Watched {
    pub command: u64,
    queue: usize,
    context: usize,
    /// It has ended.
    pub ended: bool,
    /// When it ran by the device's stamps, ns.
    pub stamps: Option<(u64, u64)>,
    /// Copies of what it leaves are not known to have ended.
    pub is_copying: bool,
    /// Why what it leaves is not checked.
    pub unchecked: Option<&'static str>,
}

/// Queues and launches.
#[derive(Debug, Default)]
pub struct Traffic {
    queues: HashMap<usize, Queue>,
    watched: Vec<Watched>,
}

/// Another queue may have changed what a launch left before it was copied.
const MEANWHILE: &str =
    "another queue of the context was given a command before what the launch left was copied";

impl Traffic {
    /// A command has been enqueued.
    pub fn enqueued(&mut self, of: &Enqueued) {
        let new = Queue {
            context: of.context,
            out_of_order: of.out_of_order,
            last: 0,
            done: 0,
            taken: 0,
        };
        let queue = self.queues.entry(of.queue).or_insert(new);
        (queue.context, queue.out_of_order) = (of.context, of.out_of_order);
        if of.is_taken && queue.last <= queue.done.max(queue.taken) {
            queue.taken = of.command;
        }
        queue.last = queue.last.max(of.command);
        self.disturb(of.queue, of.context);
        if of.has_ended {
            self.complete(of.queue, of.command);
        }
    }

    /// A queue of a context is given a command: what launches of other queues leave may change.
    fn disturb(&mut self, queue: usize, context: usize) {
        for watched in &mut self.watched {
            if watched.context == context && watched.queue != queue && watched.is_copying {
                watched.unchecked.get_or_insert(MEANWHILE);
            }
        }
    }

    /// A command of a queue is known to have ended.
    pub fn complete(&mut self, queue: usize, command: u64) {
        let in_order = match self.queues.get_mut(&queue) {
            Some(of) if !of.out_of_order => {
                of.done = of.done.max(command);
                true
            }
            _ => false,
        };
        for watched in self.watched.iter_mut().filter(|watched| watched.queue == queue) {
            watched.ended |= watched.command == command || (in_order && watched.command <= command);
        }
    }

    /// All commands of a queue before a number are known to have ended.
    pub fn finished(&mut self, queue: usize, limit: u64) {
        if let Some(of) = self.queues.get_mut(&queue) {
            of.done = of.done.max(of.last.min(limit.saturating_sub(1)));
        }
        for watched in self.watched.iter_mut().filter(|watched| watched.queue == queue) {
            watched.ended |= watched.command < limit;
        }
    }

    /// Forgets a queue that the application has given back.
    pub fn forget(&mut self, queue: usize) {
        self.queues.remove(&queue);
    }

    /// Whether nothing runs in a context, as far as the application's waits show, but for what is
    /// left of writes behind finished queues.
    pub fn is_drained(&self, context: usize) -> bool {
        self.queues.values().all(|of| of.context != context || of.last <= of.done.max(of.taken))
    }

    /// Whether other queues of a context may run something.
    pub fn others_run(&self, queue: usize, context: usize) -> bool {
        let runs =
            |(at, of): (&usize, &Queue)| *at != queue && of.context == context && of.last > of.done;
        self.queues.iter().any(runs)
    }

    /// A launch's end matters from here on.
    pub fn watch(&mut self, command: u64, queue: usize, context: usize, is_copying: bool) {
        let (ended, stamps, unchecked) = (false, None, None);
        self.watched.push(Watched {
            command,
            queue,
            context,
            ended,
            stamps,
            is_copying,
            unchecked,
        });
    }

    /// What is known of a launch.
    pub fn watched(&mut self, command: u64) -> Option<&mut Watched> {
        self.watched.iter_mut().find(|watched| watched.command == command)
    }

    /// A launch's end matters no more.
    pub fn unwatch(&mut self, command: u64) {
        self.watched.retain(|watched| watched.command != command);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enqueued(command: u64, queue: usize) -> Enqueued {
        Enqueued {
            command,
            queue,
            context: 1,
            out_of_order: queue == 9,
            has_ended: false,
            is_taken: false,
        }
    }

    #[test]
    fn a_context_is_drained_when_all_its_queues_are() {
        let mut of = Traffic::default();
        assert!(of.is_drained(1) && !of.others_run(2, 1));
        of.enqueued(&enqueued(1, 2));
        of.enqueued(&enqueued(2, 3));
        assert!(!of.is_drained(1) && of.is_drained(7) && of.others_run(2, 1));
        of.complete(3, 2);
        assert!(!of.others_run(2, 1) && of.others_run(3, 1));
        of.finished(2, 2);
        assert!(of.is_drained(1));
        of.enqueued(&Enqueued { has_ended: true, ..enqueued(3, 2) });
        assert!(of.is_drained(1));
        // A queue that finishes out of order: one command shows nothing of the others.
        of.enqueued(&enqueued(4, 9));
        of.enqueued(&enqueued(5, 9));
        of.complete(9, 5);
        assert!(!of.is_drained(1));
        of.finished(9, 5);
        assert!(!of.is_drained(1), "the fifth came behind the wait");
        of.finished(9, 6);
        assert!(of.is_drained(1));
        of.enqueued(&enqueued(6, 2));
        of.forget(2);
        assert!(of.is_drained(1));
    }

    #[test]
    fn a_write_whose_data_are_taken_is_no_work_unless_it_is_behind_some() {
        let mut of = Traffic::default();
        let write = |command| Enqueued { is_taken: true, ..enqueued(command, 2) };
        of.enqueued(&write(1));
        of.enqueued(&write(2));
        assert!(of.is_drained(1) && of.others_run(3, 1));
        of.enqueued(&enqueued(3, 2));
        of.enqueued(&write(4));
        assert!(!of.is_drained(1), "behind a launch");
        of.complete(2, 4);
        of.enqueued(&write(5));
        assert!(of.is_drained(1));
    }

    #[test]
    fn a_launch_ends_with_what_is_behind_it_in_order_and_by_itself_else() {
        let mut of = Traffic::default();
        let ended = |of: &mut Traffic, command| of.watched(command).unwrap().ended;
        for (command, queue) in [(1, 2), (2, 9)] {
            of.enqueued(&enqueued(command, queue));
            of.watch(command, queue, 1, false);
        }
        of.enqueued(&enqueued(3, 9));
        of.complete(9, 3);
        assert!(!ended(&mut of, 2));
        of.complete(9, 2);
        assert!(ended(&mut of, 2) && !ended(&mut of, 1));
        of.enqueued(&Enqueued { has_ended: true, ..enqueued(4, 2) });
        assert!(ended(&mut of, 1));
        of.unwatch(1);
        assert!(of.watched(1).is_none());
    }

    #[test]
    fn a_command_of_another_queue_makes_what_a_launch_left_doubtful_until_it_is_copied() {
        let mut of = Traffic::default();
        of.enqueued(&enqueued(1, 2));
        of.watch(1, 2, 1, true);
        of.enqueued(&enqueued(2, 2));
        of.enqueued(&Enqueued { context: 5, ..enqueued(3, 4) });
        assert!(of.watched(1).unwrap().unchecked.is_none());
        of.watched(1).unwrap().is_copying = false;
        of.enqueued(&enqueued(4, 3));
        assert!(of.watched(1).unwrap().unchecked.is_none());
        of.watched(1).unwrap().is_copying = true;
        of.enqueued(&enqueued(5, 3));
        assert!(of.watched(1).unwrap().unchecked.is_some());
    }
}
