//! Owns what of a timeline the recorder ran itself: copies of captured launches' memory, and in
//! traces of version 0.1.0 batches of repetitions, with their mean power where it is known. Refuses
//! to count them among the application's commands.

use clscope_analysis::Trace;
use clscope_analysis::align::Alignment;
use clscope_analysis::stats::beside::Copied;
use clscope_analysis::time::{ProcessIndex, Span, Ticks};
use clscope_profile::energy::result::Energy;
use clscope_profile::interval::Interval;

/// Repetitions one after the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// Whose command it was.
    pub process: ProcessIndex,
    /// Its queue.
    pub queue: u32,
    /// The queue's device.
    pub device: u32,
    /// The kernel or the kind of transfer, and what was done with it.
    pub name: String,
    /// From the first to the last.
    pub span: Span,
    /// How many.
    pub count: u64,
    /// Mean watts, those of all batches of the kernel; `None` where only buffers were restored.
    pub watts: Option<Interval>,
}

/// What the tracks of such batches are called, behind the name of a queue.
pub const TITLE: &str = "run by clscope";

/// All copies of a trace, then all batches, and trials before them, in the order in which they were
/// recorded.
pub fn batches(trace: &Trace<'_>, alignment: &Alignment, energy: &Energy) -> Vec<Batch> {
    let copied = |copy: Copied| {
        let device = trace.process(copy.process).definitions.clock_device(copy.queue)?;
        Some(Batch {
            process: copy.process,
            queue: copy.queue,
            device,
            name: "memory of a captured launch: copied".to_owned(),
            span: copy.span,
            count: 1,
            watts: None,
        })
    };
    let all = Copied::of_all(trace, alignment);
    let mut out: Vec<Batch> = all.into_iter().flatten().filter_map(copied).collect();
    let processes = (0u32..).map(ProcessIndex).zip(&trace.processes).zip(&trace.timeline.clocks);
    for ((process, of), clock) in processes {
        let (definitions, mut hint) = (&of.definitions, 0);
        for replay in &definitions.replays {
            let device = definitions.clock_device(replay.queue).unwrap_or(0);
            // The names of the energy's classes.
            let name = match replay.kind().direction() {
                Some(way) => way.name().to_owned(),
                None => definitions.kernel_name(replay.kernel).into_owned(),
            };
            let measured = energy.devices.iter().find(|d| d.members.contains(&(process, device)));
            let watts = measured
                .and_then(|d| d.replays.iter().find(|r| r.name == name))
                .and_then(|r| r.watts);
            let batches = replay.batches.iter().map(|b| (b, false));
            let trials = replay.trials.iter().map(|b| (b, true));
            for (batch, tried) in batches.chain(trials) {
                let begin = clock.at(Ticks(batch.begin), &mut hint);
                let span = Span { begin, end: clock.at(Ticks(batch.end), &mut hint).max(begin) };
                let (what, watts) = match (batch.restores_only, tried) {
                    (true, false) => ("buffers restored for repetitions", None),
                    (true, true) => ("buffers saved or put back", None),
                    (false, true) => ("tried", None),
                    (false, false) => ("repeated", watts),
                };
                let name = format!("{name}: {what}");
                let (queue, count) = (replay.queue, batch.count);
                out.push(Batch { process, queue, device, name, span, count, watts });
            }
        }
    }
    out
}
