//! What waiting costs: waits with nothing to wait for, waits that the next call does itself, and
//! transfers to the device for whose end the host waits.

use crate::document::{Findings, Key};
use crate::rules::Rule;
use crate::seen::Seen;
use clscope_trace::record::{CommandKind, Direction, flag};
use std::collections::HashMap;

/// A clFinish that the next command of its queue may make unneeded.
struct Finish {
    place: Option<String>,
}

/// What is known of the queues of one process.
#[derive(Default)]
pub struct Waits {
    /// Commands since the last wait for the whole queue, by queue. A queue that was never seen with
    /// a command is not in here.
    outstanding: HashMap<u32, u64>,
    /// clFinish as the last call on a queue.
    finished: HashMap<u32, Finish>,
}

impl Waits {
    /// A call.
    pub fn call(&mut self, seen: &Seen<'_>, to: &mut Findings) {
        if let Some(enqueued) = seen.enqueued() {
            self.enqueued(seen, enqueued.record.queue, to);
            return;
        }
        if seen.function != "clFinish" || !seen.succeeded() {
            return;
        }
        let Some(queue) = seen.object("command_queue") else { return };
        let ns = seen.call.inside_ns();
        let left = self.outstanding.insert(queue, 0);
        // Calls in a row: nothing can have come between them.
        let needless = seen.count() - u64::from(left != Some(0));
        if needless > 0 {
            // Of a run the first may have had something to wait for.
            let first = seen.call.run.map_or(0, |run| run.first_ns);
            let lost = if left == Some(0) { ns } else { ns.saturating_sub(first) };
            let text = "clFinish on a queue without a command since the last wait".to_owned();
            let key = Key::new(Rule::RedundantWait, text).at(seen.function, seen.place);
            to.add_many(key, needless, Some(lost), Some(format!("queue #{queue}")));
            self.finished.remove(&queue);
        } else {
            let place = seen.place.map(str::to_owned);
            self.finished.insert(queue, Finish { place });
        }
    }

    fn enqueued(&mut self, seen: &Seen<'_>, queue: u32, to: &mut Findings) {
        let Some(record) = seen.enqueued().map(|e| &e.record) else { return };
        let finished = self.finished.remove(&queue);
        let in_order = seen.definitions.queues.get(&queue).is_some_and(|q| !q.is_out_of_order());
        let blocking = record.flags & flag::BLOCKING != 0;
        if let (Some(finish), true, true) = (finished, in_order, blocking) {
            let text = format!("clFinish, then {} that blocks", record.kind.name());
            let key =
                Key::new(Rule::WaitBeforeBlocking, text).at("clFinish", finish.place.as_deref());
            // The blocking command would have waited as long: what is lost is the second wait,
            // which is not known apart.
            to.add(key, None, Some(format!("queue #{queue}")));
        }
        *self.outstanding.entry(queue).or_insert(0) += 1;
        if blocking && in_order {
            self.outstanding.insert(queue, 0);
        }
        let writes = record.kind.direction() == Some(Direction::HostToDevice);
        if blocking && writes && record.kind != CommandKind::WriteHostPipe {
            let text = format!("{} with blocking_write", seen.function);
            let key = Key::new(Rule::BlockingWrite, text).at(seen.function, seen.place);
            let bytes = format!("{} bytes", record.bytes);
            to.add(key, Some(seen.call.inside_ns()), Some(bytes));
        }
    }
}
