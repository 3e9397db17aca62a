//! Owns what devices ran, as the attribution wants it: physical devices across processes, classes
//! of commands, spans. Launches that were not timed are placed between those that were. Refuses to
//! look at sensors.

use super::alone::shapes::{Repeated, Shape, Tally};
use crate::interval::Interval;
use crate::sites::Sites;
use clscope_analysis::Trace;
use clscope_analysis::energy::turns::Shared;
use clscope_analysis::energy::{ClassId, DeviceIndex, EstimatedTime, HostNs, Span, Timing};
use clscope_analysis::event::Command;
use clscope_analysis::stats::Variant;
use clscope_analysis::time::{ProcessIndex, Span as Stretch};
use clscope_trace::ids::{normal_pci, normal_uuid};
use clscope_trace::record::Direction;
use clscope_trace::replace;
use std::collections::{BTreeMap, HashMap};

mod collector;

pub use collector::Collector;

/// Spans kept as they are; above, those of a class are joined within stretches of [`STRETCH_NS`].
const MOST_SPANS: usize = 1 << 20;
/// A twentieth of the quickest response seen (samples 20 ms apart behind a lag of 14 ms).
const STRETCH_NS: i64 = 700_000;

/// What counts as one class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum By {
    /// The kernel's name.
    #[default]
    Kernel,
    /// The kernel and its global size.
    Ndrange,
    /// The kernel and where in the application it was launched from (`record --call-sites`).
    CallSite,
}

/// What counts as one class, with what names it.
#[derive(Debug, Clone, Copy)]
pub struct Grouping<'s> {
    /// The key by which launches of a kernel are separated.
    pub by: By,
    /// Names of call sites.
    pub sites: &'s Sites,
}

impl Grouping<'_> {
    /// A number for the key of a launch; `None` where all launches of a kernel are one class.
    pub fn variant(self) -> Option<Variant> {
        match self.by {
            By::Kernel => None,
            By::Ndrange => Some(|record| record.geometry),
            By::CallSite => Some(|record| record.site),
        }
    }

    /// Name of a kernel's launches of one variant.
    pub fn name(
        self,
        trace: &Trace<'_>,
        process: ProcessIndex,
        kernel: u32,
        variant: u32,
    ) -> String {
        let definitions = &trace.process(process).definitions;
        let name = definitions.kernel_name(kernel).into_owned();
        match self.by {
            By::Kernel => name,
            By::Ndrange => match definitions.geometries.get(&variant) {
                Some(g) => sized(&name, &g.global[..(g.dimensions as usize).min(3)]),
                None => name,
            },
            By::CallSite => match self.sites.get(process, variant) {
                Some(site) => format!("{name} @ {}", site.name),
                // Said once for the whole trace, where none has a place.
                None if self.sites.is_empty() => name,
                None => format!("{name} @ place not recorded"),
            },
        }
    }
}

/// The class of what the recorder itself ran of a class: its repetitions, or the restorations
/// between them.
pub fn repeated_class(name: &str, restores_only: bool) -> String {
    format!("{name} ({})", if restores_only { "restored" } else { "repeated" })
}

/// The class of the recorder's copies of captured launches' memory.
pub const CAPTURED: &str = "copies by clscope";

/// The class of copies of buffers that repetitions may change.
const SAVED_BUFFERS: &str = "buffers (saved)";

/// A kernel with its global size, as rows by it are called.
pub fn sized(name: &str, global: &[u64]) -> String {
    format!("{name} [{}]", replace::shown(global))
}

/// What a device is, as far as that decides which sensors belong to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Kind {
    /// A processor.
    Cpu,
    /// A GPU.
    Gpu,
    /// Anything else.
    #[default]
    Other,
}

/// A class of commands on one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Class {
    /// The kernel's name, with the global size if asked for, or the direction of a transfer.
    pub name: String,
    /// Whether it is a kernel.
    pub kernel: bool,
    /// Whether it is what the recorder repeated, and none of the application's.
    pub repetition: bool,
}

/// A physical device with all that ran on it.
#[derive(Debug, Clone, Default)]
pub struct PhysicalDevice {
    /// Host, as an index into the timeline's.
    pub host: usize,
    /// CL_DEVICE_NAME.
    pub name: String,
    /// What outputs call it: its name, with what tells it apart where others have it. A host's
    /// processors are one device here.
    pub label: String,
    /// CL_DEVICE_VENDOR.
    pub vendor: String,
    /// What it is.
    pub kind: Kind,
    /// PCI address `dddd:bb:dd.f`, lower case.
    pub pci: Option<String>,
    /// UUID, hexadecimal digits only.
    pub uuid: Option<String>,
    /// (process, device id) of those that are this device.
    pub members: Vec<(ProcessIndex, u32)>,
    /// Classes.
    pub classes: Vec<Class>,
    /// Executions, in order of their starts.
    pub spans: Vec<Span>,
    /// Process of each execution, as an index into the trace's; empty where several were joined to
    /// save memory.
    pub owners: Vec<u32>,
    /// From the first start to the last end of each process.
    runs: BTreeMap<u32, Stretch>,
    /// Launches per class that ran, or may have, without a known place.
    pub unplaced: u64,
    /// Launches that the recorder repeated (`record --replay`), or why not.
    pub replays: Vec<Repeated>,
    /// What ran, by class and shape.
    pub shapes: HashMap<(ClassId, Shape), Tally>,
    /// How processes shared the device, where their commands overlap.
    pub shared: Option<Shared>,
    /// Launches by class, and nanoseconds of their spans.
    launches: Vec<u64>,
    placed_ns: Vec<f64>,
    /// Place among devices of one name in a process, for runtimes that report no address.
    /// Its place among the devices of its name that a process saw.
    pub nth: usize,
    index: HashMap<(String, bool), u32>,
}

impl PhysicalDevice {
    /// One on which nothing ran yet.
    pub fn named(name: &str, vendor: &str, kind: Kind) -> Self {
        Self {
            name: name.to_owned(),
            label: name.to_owned(),
            vendor: vendor.to_owned(),
            kind,
            ..Self::default()
        }
    }

    /// What is the same in traces of this device only.
    pub fn identity(&self, trace: &Trace<'_>) -> String {
        let host = trace.timeline.hosts.get(self.host).map_or("", |host| host.name.as_str());
        match (&self.uuid, &self.pci) {
            (Some(uuid), _) => uuid.clone(),
            (None, Some(pci)) => format!("{host} {pci}"),
            (None, None) => format!("{host} {} {}", self.name, self.nth),
        }
    }

    fn class(&mut self, name: &str, kernel: bool) -> ClassId {
        let key = (name.to_owned(), kernel);
        let next = self.classes.len() as u32;
        let id = *self.index.entry(key).or_insert(next);
        if id == next {
            self.classes.push(Class { name: name.to_owned(), kernel, repetition: false });
            self.launches.push(0);
            self.placed_ns.push(0.0);
        }
        ClassId(id)
    }

    /// Share of the time of its commands in which others ran beside them.
    pub fn overlapped(&self) -> f64 {
        let (mut whole, mut twice) = (0u128, 0u128);
        let mut end = self.spans.first().map_or(0, |first| first.start.0);
        for span in &self.spans {
            whole += u128::from(span.end.since(span.start));
            twice += u128::from(HostNs(span.end.0.min(end)).since(span.start));
            end = end.max(span.end.0);
        }
        if whole > 0 { twice as f64 / whole as f64 } else { 0.0 }
    }

    /// Commands of a class that the application enqueued, timed or not.
    pub fn called(&self, class: ClassId) -> u64 {
        let of_class = self.shapes.iter().filter(|((of, _), _)| *of == class);
        of_class.fold(0, |sum, (_, tally)| sum.saturating_add(tally.launches))
    }

    /// Launches that each span represents on average, by class, where spans were joined to save
    /// memory; 1 else. One pass over the spans for all classes: there can be many of both.
    pub fn launches_per_span(&self) -> Vec<f64> {
        let mut spans = vec![0u64; self.launches.len()];
        for span in &self.spans {
            if let Some(n) = spans.get_mut(span.class.0 as usize) {
                *n += 1;
            }
        }
        let each = |(&launches, spans): (&u64, u64)| match spans {
            0 => 1.0,
            _ => launches as f64 / spans as f64,
        };
        self.launches.iter().zip(spans).map(each).collect()
    }

    /// What it means that some of its commands have no place in time; nothing where all have one.
    pub(super) fn told_unplaced(&self) -> Option<String> {
        (self.unplaced > 0).then(|| {
            format!(
                "{} commands ran at unknown times: their energy counts for others, or is not assigned",
                self.unplaced
            )
        })
    }

    /// When any of the processes was between its first command and its last: of traces of different
    /// times, what lies between is no gap of either.
    pub fn runs(&self) -> Vec<Stretch> {
        Stretch::join(self.runs.values().copied().collect())
    }

    /// How the time of each class is known, given its estimated total in nanoseconds; `None` where the
    /// spans are all of it.
    pub fn estimated_times(
        &self,
        total: impl Fn(&Class) -> Option<Interval>,
    ) -> Vec<EstimatedTime> {
        let each = self.classes.iter().zip(&self.placed_ns).map(|(class, &placed)| {
            let total = total(class).filter(|total| total.value > 0.0 && placed > 0.0);
            total.map_or(EstimatedTime::TIMED, |total| EstimatedTime {
                ratio: total.value / placed,
                relative: total.relative().unwrap_or(f64::INFINITY),
            })
        });
        each.collect()
    }

    fn push(&mut self, span: Span, owner: u32) {
        if let Some(ns) = self.placed_ns.get_mut(span.class.0 as usize) {
            *ns += span.end.since(span.start) as f64;
        }
        self.ran(span, 1, owner);
        // A schedule that joining does not thin is kept as it is: trying again and again would take
        // for ever.
        if self.spans.len() >= MOST_SPANS && self.spans.len().is_multiple_of(MOST_SPANS / 4) {
            self.compact();
        }
    }

    /// Notes a launch that was repeated; its repetitions are activity like any other.
    fn repeated(&mut self, replay: Repeated, owner: u32) {
        for &(start, end, count, restores_only) in &replay.batches {
            let name = repeated_class(&replay.name, restores_only);
            let class = self.repetition_class(&name, !restores_only);
            self.ran(stamped_span(class, start, end), count, owner);
        }
        for &(start, end, count, restores_only) in &replay.trials {
            let class = match restores_only {
                true => self.repetition_class(SAVED_BUFFERS, false),
                false => self.repetition_class(&repeated_class(&replay.name, false), true),
            };
            self.ran(stamped_span(class, start, end), count, owner);
        }
        self.replays.push(replay);
    }

    /// A class of what the recorder itself runs.
    fn repetition_class(&mut self, name: &str, kernel: bool) -> ClassId {
        let class = self.class(name, kernel);
        if let Some(class) = self.classes.get_mut(class.0 as usize) {
            class.repetition = true;
        }
        class
    }

    /// Adds a span of so many launches.
    fn ran(&mut self, span: Span, count: u64, owner: u32) {
        if let Some(n) = self.launches.get_mut(span.class.0 as usize) {
            *n += count;
        }
        let stretch = Stretch { begin: span.start, end: span.end };
        self.runs.entry(owner).and_modify(|run| *run = run.hull(stretch)).or_insert(stretch);
        if self.owners.len() == self.spans.len() {
            self.owners.push(owner);
        }
        self.spans.push(span);
    }

    /// Puts executions in order of their starts.
    fn sort(&mut self) {
        if self.owners.len() != self.spans.len() {
            self.owners.clear();
            self.spans.sort_by_key(|s| s.start);
            return;
        }
        let mut order: Vec<u32> = (0..self.spans.len() as u32).collect();
        order.sort_by_key(|&i| self.spans[i as usize].start);
        self.spans = order.iter().map(|&i| self.spans[i as usize]).collect();
        self.owners = order.iter().map(|&i| self.owners[i as usize]).collect();
    }

    /// Joins spans of a class within short stretches: the fit sees no difference, memory does.
    fn compact(&mut self) {
        self.owners.clear();
        self.spans.sort_by_key(|s| s.start);
        let mut out: Vec<Span> = Vec::new();
        let mut open: Vec<Option<usize>> = vec![None; self.classes.len()];
        let mut stretch = i64::MIN;
        for span in self.spans.drain(..) {
            let here = span.start.0.div_euclid(STRETCH_NS);
            if here != stretch {
                stretch = here;
                open.fill(None);
            }
            let class = span.class.0 as usize;
            match open[class] {
                Some(at) => {
                    out[at].end = HostNs(
                        out[at].end.0.saturating_add(span.end.0.saturating_sub(span.start.0)),
                    )
                }
                None => {
                    open[class] = Some(out.len());
                    out.push(span);
                }
            }
        }
        // One after the other, as they ran.
        let mut end = i64::MIN;
        for span in &mut out {
            let length = span.end.0.saturating_sub(span.start.0);
            span.start = HostNs(span.start.0.max(end));
            span.end = HostNs(span.start.0.saturating_add(length));
            end = span.end.0;
        }
        self.spans = out;
    }
}

/// A span that the device stamped.
fn stamped_span(class: ClassId, start: HostNs, end: HostNs) -> Span {
    Span { class, device: DeviceIndex(0), start, end, timing: Timing::Timed }
}

/// Physical devices of a trace, with nothing on them yet, and which of them each (process, device
/// id) is.
pub fn devices(trace: &Trace<'_>) -> (Vec<PhysicalDevice>, HashMap<(u32, u32), usize>) {
    let mut out: Vec<PhysicalDevice> = Vec::new();
    let mut of: HashMap<(u32, u32), usize> = HashMap::new();
    for (index, process) in (0u32..).zip(&trace.processes) {
        let host = trace.timeline.host_of.get(index as usize).copied().unwrap_or(0);
        let mut seen: HashMap<String, usize> = HashMap::new();
        for device in process.definitions.devices.values().filter(|d| d.parent.is_none()) {
            let kind = match () {
                () if device.is_gpu() => Kind::Gpu,
                () if device.is_cpu() => Kind::Cpu,
                () => Kind::Other,
            };
            let (pci, uuid) = (
                device.pci.as_deref().and_then(normal_pci),
                device.uuid.as_deref().and_then(normal_uuid),
            );
            let nth = *seen.entry(device.name.clone()).and_modify(|n| *n += 1).or_insert(0);
            let same = |d: &PhysicalDevice| {
                d.host == host
                    && d.kind == kind
                    && match (kind, &pci, &uuid) {
                        // All of a host's processors are one as far as its counters go.
                        (Kind::Cpu, ..) => true,
                        (_, Some(_), _) if d.pci.is_some() => d.pci == pci,
                        (_, _, Some(_)) if d.uuid.is_some() => d.uuid == uuid,
                        _ => d.name == device.name && d.nth == nth,
                    }
            };
            let at = out.iter().position(same).unwrap_or(out.len());
            if at == out.len() {
                out.push(PhysicalDevice {
                    host,
                    pci,
                    uuid,
                    nth,
                    label: match kind {
                        Kind::Cpu => device.name.clone(),
                        _ => process.definitions.device_name(device.id).into_owned(),
                    },
                    ..PhysicalDevice::named(&device.name, &device.vendor, kind)
                });
            }
            out[at].members.push((ProcessIndex(index), device.id));
            of.insert((index, device.id), at);
        }
    }
    (out, of)
}

/// The class a command belongs to; `None` for commands that do nothing on the device.
pub fn class_name(
    trace: &Trace<'_>,
    command: &Command<'_>,
    by: Grouping<'_>,
) -> Option<(String, bool)> {
    let record = &command.enqueued.record;
    if record.kind.is_kernel() && record.object != 0 {
        let variant = by.variant().map_or(0, |of| of(record));
        return Some((by.name(trace, command.process, record.object, variant), true));
    }
    match record.kind.direction() {
        Some(Direction::Unknown) => Some(("copy between pointers".to_owned(), false)),
        Some(way) => Some((way.name().to_owned(), false)),
        None if record.kind.is_kernel() => Some((record.kind.name().to_owned(), true)),
        None => None,
    }
}

#[cfg(test)]
mod tests;
