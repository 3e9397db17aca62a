//! Owns how commands of a trace become spans of classes on devices. Refuses to know joules.

use super::{By, CAPTURED, Grouping, PhysicalDevice, class_name, devices, sized, stamped_span};
use crate::energy::alone::shapes::{self, Shape, Tally};
use clscope_analysis::Trace;
use clscope_analysis::align::Alignment;
use clscope_analysis::energy::{ClassId, DeviceIndex, HostNs, Launch, place, turns};
use clscope_analysis::event::{Event, Outcome};
use clscope_analysis::ids::IdMap;
use clscope_analysis::stats::beside::Copied;
use clscope_analysis::time::{ProcessIndex, Ticks};
use clscope_trace::Untimed;
use clscope_trace::record::size_class;
use std::collections::HashMap;
use std::num::NonZeroU32;

/// Process, queue, variant, kernel, kind.
type What = (u32, u32, u32, u32, u32);

/// Takes a trace's events, one after the other, and gives what its devices ran.
pub struct Collector<'t, 'a, 's> {
    trace: &'t Trace<'a>,
    by: Grouping<'s>,
    devices: Vec<PhysicalDevice>,
    /// Which of `devices` each (process, device id) is.
    of: HashMap<(u32, u32), usize>,
    /// Queues of which some launches were left out by sampling: all their launches, to be placed.
    sampled: IdMap<OfQueue, (u32, u32)>,
    /// What decides the class, so that names are looked up once.
    names: IdMap<Option<(usize, ClassId)>, What>,
    /// What the recorder repeats as one, with its device and class.
    shapes: IdMap<(usize, ClassId, Shape, Tally), ShapeKey>,
}

/// The launches of a queue that samples, until all are known.
struct OfQueue {
    device: usize,
    launches: Vec<Kept>,
    /// Start, end and weight of those with times.
    timed: Vec<(HostNs, HostNs, f64)>,
}

/// One of them. There may be very many, of which few have times.
#[derive(Clone, Copy)]
struct Kept {
    class: ClassId,
    alike: u32,
    enqueued: HostNs,
    /// One more than its place among those with times.
    timed: Option<NonZeroU32>,
}

impl OfQueue {
    fn new(device: usize) -> Self {
        Self { device, launches: Vec::new(), timed: Vec::new() }
    }

    fn push(&mut self, launch: Kept, timed: Option<(HostNs, HostNs, f64)>) {
        self.timed.extend(timed);
        let place = u32::try_from(self.timed.len()).ok().and_then(NonZeroU32::new);
        self.launches.push(Kept { timed: place.filter(|_| timed.is_some()), ..launch });
    }

    /// All of them, as they are placed.
    fn launches(&self) -> impl Iterator<Item = Launch> + Clone {
        self.launches.iter().map(|kept| {
            let place = kept.timed.map(|place| place.get() as usize - 1);
            let timed = place.and_then(|place| self.timed.get(place));
            Launch {
                class: kept.class,
                alike: kept.alike,
                weight: timed.map_or(1.0, |timed| timed.2),
                device: DeviceIndex(0),
                enqueued: kept.enqueued,
                timed: timed.map(|timed| (timed.0, timed.1)),
            }
        })
    }
}

/// Process, kernel, geometry, kind, class of size; device and class.
type ShapeKey = ((u32, u32, u32, u32, u32), u64);

impl<'t, 'a, 's> Collector<'t, 'a, 's> {
    /// One that has seen nothing.
    pub fn new(trace: &'t Trace<'a>, by: Grouping<'s>) -> Self {
        let (devices, of) = devices(trace);
        Self {
            trace,
            by,
            devices,
            of,
            sampled: IdMap::default(),
            names: IdMap::default(),
            shapes: IdMap::default(),
        }
    }

    /// Takes an event, whose times an alignment has placed.
    pub fn add(&mut self, event: &Event<'_>) {
        let Event::Command(command) = event else { return };
        if command.never_ran() {
            return;
        }
        let record = &command.enqueued.record;
        let key = (command.process.0, record.queue);
        let Self { trace, by, devices, of, sampled, names, shapes: known } = self;
        let definitions = &trace.process(command.process).definitions;
        let variant = by.variant().map_or(0, |of| of(record));
        let is_kernel = record.kind.is_kernel();
        let object = if is_kernel { record.object } else { 0 };
        let class = *names
            .entry((command.process.0, record.queue, variant, object, record.kind as u32))
            .or_insert_with(|| {
                let device = definitions
                    .clock_device(record.queue)
                    .and_then(|d| of.get(&(command.process.0, d)).copied())?;
                let (name, kernel) = class_name(trace, command, *by)?;
                Some((device, devices[device].class(&name, kernel)))
            });
        let Some((device, class)) = class else { return };
        let shape = known
            .entry((
                (
                    command.process.0,
                    object,
                    record.geometry,
                    record.kind as u32,
                    size_class(record.bytes),
                ),
                ((device as u64) << 32) | u64::from(class.0),
            ))
            .or_insert_with(|| {
                let shape = shapes::shape(
                    trace,
                    command.process,
                    record.kind,
                    object,
                    record.geometry,
                    record.bytes,
                );
                (device, class, shape, Tally::default())
            });
        let tally = &mut shape.3;
        tally.launches += 1;
        tally.bytes = tally.bytes.saturating_add(if is_kernel { 0 } else { record.bytes });
        if let Outcome::Timed(times) = &command.outcome
            && let Some(placed) = times.placed
        {
            tally.timed += 1;
            tally.seconds += placed.span().end.seconds_since(placed.span().begin);
        }
        // Whether some launches may be left out: then all of the queue's are needed, to lay out
        // those between.
        let may_sample = definitions.process.may_sample();
        let enqueued = HostNs(command.call.begin.0);
        let alike = if is_kernel { record.geometry } else { size_class(record.bytes) };
        let weight = record.probability().map_or(1.0, f64::recip);
        let launch = Kept { class, alike, enqueued, timed: None };
        match &command.outcome {
            Outcome::Timed(times) => {
                let Some(placed) = times.placed else { return };
                let (start, end) = (HostNs(placed.span().begin.0), HostNs(placed.span().end.0));
                if may_sample {
                    let of = sampled.entry(key).or_insert_with(|| OfQueue::new(device));
                    of.push(launch, Some((start, end, weight)));
                } else {
                    devices[device].push(stamped_span(class, start, end), command.process.0);
                }
            }
            Outcome::Untimed { reason: Untimed::NotSampled, .. } if may_sample => {
                let of = sampled.entry(key).or_insert_with(|| OfQueue::new(device));
                of.push(launch, None);
            }
            Outcome::Untimed { .. } | Outcome::Unfinished(_) => devices[device].unplaced += 1,
        }
    }

    /// All physical devices that ran something, with what they ran, in order of its starts. The
    /// alignment is that which placed the events.
    pub fn finish(self, alignment: &Alignment) -> Vec<PhysicalDevice> {
        let Self { trace, by, mut devices, of, sampled, shapes, .. } = self;
        for (device, class, shape, tally) in shapes.into_values() {
            devices[device].shapes.entry((class, shape)).or_default().add(&tally);
        }
        for ((process, queue), mut those) in sampled {
            those.launches.sort_by_key(|l| l.enqueued);
            let definitions = &trace.process(ProcessIndex(process)).definitions;
            let in_order = definitions.queues.get(&queue).is_none_or(|q| !q.is_out_of_order());
            let of = &mut devices[those.device];
            of.unplaced += place(those.launches(), in_order, |span| of.push(span, process));
        }
        for copy in Copied::of_all(trace, alignment).into_iter().flatten() {
            let definitions = &trace.process(copy.process).definitions;
            let of = definitions
                .clock_device(copy.queue)
                .and_then(|d| of.get(&(copy.process.0, d)).copied());
            let Some(device) = of.and_then(|of| devices.get_mut(of)) else { continue };
            let class = device.class(CAPTURED, false);
            let (start, end) = (HostNs(copy.span.begin.0), HostNs(copy.span.end.0));
            device.ran(stamped_span(class, start, end), 1, copy.process.0);
        }
        let mut replays = Vec::new();
        for (index, process) in trace.processes.iter().enumerate() {
            let (definitions, mut hint) = (&process.definitions, 0);
            let Some(clock) = trace.timeline.clocks.get(index) else { continue };
            let mut at = |ticks: u64| HostNs(clock.at(Ticks(ticks), &mut hint).0);
            for replay in &definitions.replays {
                let device = definitions
                    .clock_device(replay.queue)
                    .and_then(|d| of.get(&(index as u32, d)).copied());
                let Some(device) = device else { continue };
                let shown = |name: &str, global: &[u64]| match by.by {
                    By::Ndrange => sized(name, global),
                    _ => name.to_owned(),
                };
                let repeated = shapes::repeated(definitions, replay, shown, &mut at);
                replays.push((device, repeated, index as u32));
            }
        }
        for (at, replay, owner) in replays {
            if let Some(device) = devices.get_mut(at) {
                device.repeated(replay, owner);
            }
        }
        for device in &mut devices {
            device.sort();
            device.shared = turns::separate(&mut device.spans, &mut device.owners);
        }
        devices.retain(|d| !d.spans.is_empty() || d.unplaced > 0);
        devices
    }
}
