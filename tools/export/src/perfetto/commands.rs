//! Owns how device commands are drawn: as GPU render stages, as ordinary slices, or as instants
//! where they have no device time. Refuses to say what a command is: that is the same in every
//! format.

use super::numbers::*;
use super::packets::LaunchArguments;
use super::tracks::Place;
use super::{Pen, event_id};
use crate::arguments::{self, command_name};
use crate::drawn::{self, DeviceSpan, Drawn, NoTime};
use crate::proto::Message;
use clscope_analysis::event::Command;
use clscope_analysis::time::Span;
use clscope_trace::defs::Geometry;
use std::io::{self, Write};

impl<W: Write> Pen<'_, '_, W> {
    pub(super) fn command(&mut self, command: &Command<'_>) -> io::Result<()> {
        match Drawn::new(&command.outcome) {
            Drawn::Span(span) if !self.shows(span.span()) => Ok(()),
            Drawn::Span(span) => {
                self.summary.device_spans += 1;
                self.stage(command, &span)
            }
            Drawn::Instant(why) => self.without_time(command, why),
            Drawn::NotSampled => {
                self.summary.not_sampled += 1;
                Ok(())
            }
            Drawn::Nowhere => Ok(()),
        }
    }

    /// A device command as a GPU render stage.
    fn stage(&mut self, command: &Command<'_>, drawn: &DeviceSpan<'_>) -> io::Result<()> {
        let document = self.document;
        let definitions = &document.view.trace().process(command.process).definitions;
        let (enqueued, span) = (&command.enqueued, drawn.span());
        let kind = enqueued.record.kind;
        let name = command_name(enqueued, definitions);
        let Place { gpu, track, .. } =
            self.layout.place(document.view.trace(), command, &name, span);
        let gpu = self.layout.gpu(gpu);
        let figures = (document.power, document.view.grouping());
        let process = command.process;
        self.out.at(span.begin, |m, names| {
            let compute = |m: &mut Message| m.uint(STAGE_CATEGORY, CATEGORY_COMPUTE);
            let queue = names.with(INTERNED_STAGES, &track, compute);
            let stage = match kind {
                _ if kind.is_kernel() => "Kernel",
                _ if kind.direction().is_some() => "Transfer",
                _ => "Command",
            };
            let stage = names.with(INTERNED_STAGES, stage, compute);
            let label = names.intern(INTERNED_EVENT_NAMES, &name);
            let kernel = kind.is_kernel().then(|| names.intern(INTERNED_KERNELS, &name));
            m.nested(PACKET_STAGE, |m| {
                m.uint(STAGE_EVENT, event_id(process, enqueued.record.id));
                m.uint(STAGE_DURATION, span.duration());
                m.uint(STAGE_CONTEXT, u64::from(process.0) + 1);
                m.uint(STAGE_GPU, gpu);
                m.uint(STAGE_QUEUE, queue);
                m.uint(STAGE_STAGE, stage);
                m.uint(STAGE_NAME, label);
                for id in enqueued.waits().flatten() {
                    m.uint(STAGE_WAITS, event_id(process, id.0));
                }
                if let Some(kernel) = kernel {
                    m.uint(STAGE_KERNEL, kernel);
                }
                m.nested(STAGE_LAUNCH, |launch| {
                    let geometry = definitions.geometries.get(&enqueued.record.geometry);
                    let sized = geometry.is_some_and(|g| launch_sizes(g, launch));
                    let mut to = LaunchArguments { launch, names, sized };
                    drawn::describe(document.view.trace(), figures, command, drawn, &mut to);
                });
            });
        })
    }

    fn without_time(&mut self, command: &Command<'_>, why: NoTime) -> io::Result<()> {
        let moment = command.call.end;
        if !self.shows(Span { begin: moment, end: moment }) {
            return Ok(());
        }
        let definitions = &self.document.view.trace().process(command.process).definitions;
        let queue = command.enqueued.record.queue;
        let name = format!("{}: no device time", definitions.queue_name(queue));
        let track = self.child(command.process, &name)?;
        let name = command_name(&command.enqueued, definitions);
        let site = self.document.view.sites().get(command.process, command.enqueued.record.site);
        self.at(moment, TYPE_INSTANT, track, &name, "no device time", |to| {
            arguments::of_command(&command.enqueued, definitions, site, command.moved_bytes(), to);
            arguments::of_no_time(why, to);
        })
    }
}

/// Work-groups of a launch, and the work-items of one, in three dimensions. Returns whether all
/// groups are whole: the format has no room for the global size where the last one is a part.
/// Nothing is written where the runtime chose the local size.
fn launch_sizes(geometry: &Geometry, launch: &mut Message) -> bool {
    let Some(local) = geometry.local else { return false };
    let mut groups = [1; 3];
    let mut sizes = [1; 3];
    let mut whole = true;
    for d in 0..(geometry.dimensions as usize).min(3) {
        sizes[d] = local[d].max(1);
        groups[d] = geometry.global[d].div_ceil(sizes[d]);
        whole &= geometry.global[d].is_multiple_of(sizes[d]);
    }
    for (field, sizes) in [(LAUNCH_GRID, groups), (LAUNCH_GROUP, sizes)] {
        launch.nested(field, |m| (1..).zip(sizes).for_each(|(d, n)| m.uint(d, n)));
    }
    whole
}
