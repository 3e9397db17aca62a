//! Owns stacks: what devices did, by where in the application it was enqueued, weighted by time,
//! joules, launches or bytes; for flame graphs. Times are those of the report: where launches were
//! left out by sampling, the estimated total of a kernel or transfer is shared by what was timed.
//! Joules of a class are shared by its time; floors, and what could be attributed to no kernel, are
//! stacks of their own, so that the sum is what was measured. Refuses to write a format: its parts
//! do.

mod folded;
mod pprof;
mod speedscope;

pub use folded::write as folded;
pub use pprof::write as pprof;
pub use speedscope::write as speedscope;

use crate::arguments::command_name;
use crate::layout;
use clscope_analysis::event::{Event, Outcome};
use clscope_analysis::time::ProcessIndex;
use clscope_io::text::line;
use clscope_profile::energy::activity::class_name;
use clscope_profile::energy::result::{DeviceEnergy, PartOf};
use clscope_profile::error::ReadingsError;
use clscope_profile::profile::View;
use clscope_profile::report::Report;
use clscope_profile::sites::Place;
use std::collections::{BTreeMap, HashMap};

/// What the width of a frame stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// Device time.
    Time,
    /// Joules.
    Energy,
    /// Launches, transfers and other commands.
    Count,
    /// Bytes moved.
    Bytes,
}

impl Weight {
    /// All, in the order of their values in formats that hold several.
    pub const ALL: [Self; 4] = [Self::Time, Self::Energy, Self::Count, Self::Bytes];

    /// Name and unit. The name is that of the option's value in every format and message.
    pub const fn named(self) -> (&'static str, &'static str) {
        match self {
            Self::Time => ("time", "nanoseconds"),
            Self::Energy => ("energy", "microjoules"),
            Self::Count => ("count", "count"),
            Self::Bytes => ("bytes", "bytes"),
        }
    }
}

/// A stack with its weights.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stack {
    /// The outermost first.
    pub frames: Vec<Frame>,
    /// Device time, ns.
    pub time_ns: f64,
    /// Microjoules; `None` where they are not known.
    pub microjoules: Option<f64>,
    /// Commands.
    pub count: u64,
    /// Bytes moved.
    pub bytes: u64,
}

/// One level of a stack.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frame {
    /// As it is shown.
    pub name: String,
    /// Source file.
    pub file: Option<String>,
    /// Line in it.
    pub line: Option<u32>,
}

impl Frame {
    /// Readers show it on terminals and pages: on one line, and what has no glyph by its number.
    fn new(name: impl AsRef<str>) -> Self {
        Self { name: line(name.as_ref()).into_owned(), ..Self::default() }
    }

    fn from_place(place: &Place) -> Self {
        let name = place.function.as_ref().unwrap_or(&place.text);
        let file = place.file.as_ref().map(|file| line(file).into_owned());
        Self { file, line: place.line, ..Self::new(name) }
    }
}

impl Stack {
    /// Its weight as a whole number of the unit; `None` where it is not known.
    pub fn weight(&self, by: Weight) -> Option<u64> {
        match by {
            Weight::Time => Some(self.time_ns.round() as u64),
            Weight::Energy => self.microjoules.map(|uj| uj.round().max(0.0) as u64),
            Weight::Count => Some(self.count),
            Weight::Bytes => Some(self.bytes),
        }
    }
}

/// A class of the energy's, and what is shared by it.
#[derive(Default)]
struct Class {
    time_ns: f64,
    members: Vec<usize>,
}

/// The stacks of a trace, in order of their names. `by_site`: places in the application are frames,
/// where they were recorded.
///
/// # Errors
/// If a file of readings that the user named cannot be read.
pub fn stacks_of(view: &View<'_>, by_site: bool) -> Result<Vec<Stack>, ReadingsError> {
    let trace = view.trace();
    let by = view.grouping();
    let variant = by.variant();
    // Process, place, name, class, device.
    type Key = (u32, u32, String, Option<(String, bool)>, u32);
    let mut keys: BTreeMap<Key, usize> = BTreeMap::new();
    let mut sums: Vec<(f64, u64, u64)> = Vec::new();
    // What decides them, so that names are looked up once: process, place, object, queue, variant,
    // kind.
    let mut known: HashMap<(u32, u32, u32, u32, u32, u8), usize> = HashMap::new();
    for event in trace.events(Some(view.alignment())) {
        let Event::Command(command) = event else { continue };
        let record = &command.enqueued.record;
        let site = if by_site { record.site } else { 0 };
        let (process, variant) = (command.process.0, variant.map_or(0, |of| of(record)));
        let what = (process, site, record.object, record.queue, variant, record.kind as u8);
        let at = *known.entry(what).or_insert_with(|| {
            let definitions = &trace.process(command.process).definitions;
            let name = command_name(&command.enqueued, definitions).into_owned();
            let device = definitions.clock_device(record.queue).unwrap_or(0);
            let key = (process, site, name, class_name(trace, &command, by), device);
            *keys.entry(key).or_insert_with(|| {
                sums.push((0.0, 0, 0));
                sums.len() - 1
            })
        });
        let Some(sums) = sums.get_mut(at) else { continue };
        if let Outcome::Timed(times) = &command.outcome {
            sums.0 += times.duration() as f64;
        }
        sums.1 += 1;
        sums.2 = sums.2.saturating_add(command.moved_bytes());
    }
    let found = keys.into_iter().map(|(key, at)| (key, sums[at]));
    let mut stacks = Vec::with_capacity(found.len());
    let mut classes: BTreeMap<(u32, u32, (String, bool)), Class> = BTreeMap::new();
    let mut named: BTreeMap<(String, String), Class> = BTreeMap::new();
    for ((process, site, name, class, device), (time_ns, count, bytes)) in found {
        let mut frames = vec![Frame::new(layout::process_name(trace, process))];
        if let Some(site) = view.sites().get(ProcessIndex(process), site).filter(|_| by_site) {
            frames.extend(site.frames.iter().rev().map(Frame::from_place));
        }
        frames.push(Frame::new(&name));
        let at = stacks.len();
        // Transfers and others have one row for all devices.
        let of = match &class {
            Some((_, true)) => {
                trace.process(ProcessIndex(process)).definitions.device_name(device).into_owned()
            }
            _ => String::new(),
        };
        let row = named.entry((name, of)).or_default();
        row.time_ns += time_ns;
        row.members.push(at);
        if let Some(class) = class {
            classes.entry((process, device, class)).or_default().members.push(at);
        }
        stacks.push(Stack { frames, time_ns, microjoules: None, count, bytes });
    }
    if view.stats().devices.values().any(|device| device.left_out > 0) {
        estimate(&mut stacks, &named, &view.times());
    }
    for device in &view.energy()?.devices {
        attribute(&mut stacks, &classes, device);
    }
    Ok(stacks)
}

/// Brings kernels, transfers and others of which some were left out to their estimated totals.
fn estimate(stacks: &mut [Stack], named: &BTreeMap<(String, String), Class>, report: &Report) {
    let mut totals: BTreeMap<(String, String), (f64, u64)> = BTreeMap::new();
    for row in report.kernels.iter().chain(&report.transfers).chain(&report.other_commands) {
        let key = (row.name.clone(), row.device.clone().unwrap_or_default());
        // A kind of transfer has a row for each direction.
        let total = totals.entry(key).or_default();
        *total = (total.0 + row.total(), total.1 + row.left_out);
    }
    for (key, (total, _)) in totals.into_iter().filter(|(_, total)| total.1 > 0) {
        let Some(class) = named.get(&key).filter(|c| c.time_ns > 0.0) else { continue };
        for at in &class.members {
            stacks[*at].time_ns *= total / class.time_ns;
        }
    }
}

/// Shares the joules of a device's classes among their stacks by time, and adds stacks for what
/// belongs to none.
fn attribute(
    stacks: &mut Vec<Stack>,
    classes: &BTreeMap<(u32, u32, (String, bool)), Class>,
    device: &DeviceEnergy,
) {
    let members = |name: &str, kernel: bool| -> Vec<usize> {
        let of = |(process, id): &(ProcessIndex, u32)| {
            classes.get(&(process.0, *id, (name.to_owned(), kernel)))
        };
        device.members.iter().filter_map(of).flat_map(|c| c.members.iter().copied()).collect()
    };
    let alone = |stacks: &mut Vec<Stack>, name: String, joules: f64| {
        stacks.push(Stack {
            frames: vec![Frame::new(device.device.clone()), Frame::new(name)],
            microjoules: Some(joules * 1e6),
            ..Stack::default()
        });
    };
    for part in device.parts() {
        let joules = part.joules.value;
        let (class, name) = match part.of {
            PartOf::Class(class) => (Some(class), class.name.clone()),
            PartOf::Sum(names) => (None, format!("only as a sum: {}", names.join(" + "))),
            PartOf::Floor(floor) => (None, format!("idle power {}", floor.name)),
            PartOf::Rest => (None, "not attributed".to_owned()),
        };
        let members = class.map(|class| members(&class.name, class.kind == "kernel"));
        let members = members.unwrap_or_default();
        let time: f64 = members.iter().map(|at| stacks[*at].time_ns).sum();
        if members.is_empty() || time <= 0.0 {
            alone(stacks, name, joules);
            continue;
        }
        for at in members {
            let share = stacks[at].time_ns / time;
            *stacks[at].microjoules.get_or_insert(0.0) += joules * 1e6 * share;
        }
    }
}
