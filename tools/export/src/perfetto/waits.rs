//! Owns what a clWaitForEvents waited for: the trace holds how many events it named, and not which.
//! Refuses to guess where the recorder's reading of their times does not tell.

use super::Pen;
use clscope_analysis::event::{Call, Event, Outcome};
use std::collections::{BTreeSet, HashMap};
use std::io::{self, Write};

/// A clWaitForEvents that is drawn once it is known what it waited for. The host knows the commands
/// of its events to be complete at its end, when the recorder reads their times: the newest of an
/// in-order queue was one of them, and of another queue each. Commands whose times were read before
/// were complete before.
pub(super) struct Waiting<'a> {
    call: Call<'a>,
    commands: BTreeSet<u64>,
    /// Place in `commands` of the newest of each in-order queue.
    newest: HashMap<u32, u64>,
}

impl Waiting<'_> {
    fn completes(&mut self, queue: u32, in_order: bool, command: u64) {
        if in_order {
            let newest = self.newest.entry(queue).or_insert(command);
            if *newest > command {
                return;
            }
            self.commands.remove(newest);
            *newest = command;
        }
        self.commands.insert(command);
    }
}

impl<'a, W: Write> Pen<'_, 'a, W> {
    /// Takes an event: of a clWaitForEvents, note is taken, and all others are drawn.
    pub(super) fn event(&mut self, event: Event<'a>) -> io::Result<()> {
        match &event {
            Event::Command(command) => {
                let Outcome::Timed(times) = &command.outcome else { return self.draw(&event) };
                let record = &command.enqueued.record;
                let definitions = &self.document.view.trace().process(command.process).definitions;
                let in_order =
                    definitions.queues.get(&record.queue).is_some_and(|q| !q.is_out_of_order());
                let of_process =
                    self.waiting.iter_mut().filter(|(of, _)| of.0 == command.process.0);
                for (_, waiting) in of_process.filter(|(_, w)| w.call.span.end == times.observed) {
                    waiting.completes(record.queue, in_order, record.id);
                }
            }
            Event::Call(call) => {
                let key = (call.process.0, call.thread.0);
                self.end_wait(key)?;
                let definitions = &self.document.view.trace().process(call.process).definitions;
                let function = definitions.function(call.function);
                if function.is_some_and(|f| f.name == "clWaitForEvents") {
                    let Event::Call(call) = event else { return Ok(()) };
                    let (commands, newest) = (BTreeSet::new(), HashMap::new());
                    self.waiting.insert(key, Waiting { call, commands, newest });
                    return Ok(());
                }
            }
            Event::InCall { .. } | Event::Mark { .. } => {}
        }
        self.draw(&event)
    }

    /// Draws the clWaitForEvents of a thread that waits to be drawn.
    fn end_wait(&mut self, of: (u32, u32)) -> io::Result<()> {
        let Some(waiting) = self.waiting.remove(&of) else { return Ok(()) };
        self.of_process(waiting.call.process);
        self.call(&waiting.call, &waiting.commands)
    }

    /// Draws those that are left.
    pub(super) fn end_waits(&mut self) -> io::Result<()> {
        let mut left: Vec<_> = self.waiting.keys().copied().collect();
        left.sort_unstable();
        left.into_iter().try_for_each(|of| self.end_wait(of))
    }
}
