//! Owns what of a timeline the recorder ran itself: batches of repetitions (`record --replay`),
//! with their mean power where it is known. Refuses to count them among the application's commands.
#![forbid(unsafe_code)]

use clscope_analysis::Trace;
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
pub const TITLE: &str = "repeated by clscope";

/// All batches of a trace, and trials before them, in the order in which they were recorded.
pub fn batches(trace: &Trace<'_>, energy: &Energy) -> Vec<Batch> {
    let mut out = Vec::new();
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
