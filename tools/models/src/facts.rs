//! A trace as inputs of the models: its kernels on each device, transfers by size, gaps. Owns the
//! joining of times, geometry, joules and counters; refuses to model anything.

use crate::explain::Measurement;
use crate::figure::{Evidence, Figure};
use crate::first::{Readings, Starts};
use crate::kernel::Kernel;
use crate::roofline::Resource;
use crate::split::{self, Sum};
use crate::traffic::{Moved, Traffic};
use clscope_analysis::event::{Event, Outcome};
use clscope_analysis::host_memory::Class;
use clscope_analysis::stats::Stats;
use clscope_analysis::time::{HostNs, Span};
use clscope_profile::changes;
use clscope_profile::counters::result as counters;
use clscope_profile::energy::result::{self, Absence, Energy};
use clscope_profile::error::ReadingsError;
use clscope_profile::profile::View;
use clscope_trace::record::{Direction, flag};
use std::collections::{BTreeMap, BTreeSet};

mod mixes;

/// Transfers of one size.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sized {
    /// How many.
    pub count: u64,
    /// Of them those with device times.
    pub timed: u64,
    /// Device time of those, ns.
    pub ns: f64,
    /// Of all, those in which the host waited.
    pub blocking: u64,
}

/// Transfers of one direction.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Transfers {
    /// By bytes.
    pub sizes: BTreeMap<u64, Sized>,
    /// Those that use memory of the host, by which; themselves not told apart further.
    pub by_memory: BTreeMap<Class, Transfers>,
}

impl Transfers {
    /// Adds a transfer.
    fn add(&mut self, bytes: u64, blocking: bool, ns: Option<u64>) {
        let one = self.sizes.entry(bytes).or_default();
        one.count += 1;
        one.blocking += u64::from(blocking);
        if let Some(ns) = ns {
            one.timed += 1;
            one.ns += ns as f64;
        }
    }

    /// Those of some kinds of memory in one.
    pub fn of_memory(&self, wanted: &[Class]) -> Self {
        let mut out = Self::default();
        for (_, some) in self.by_memory.iter().filter(|(class, _)| wanted.contains(class)) {
            for (bytes, more) in &some.sizes {
                let one = out.sizes.entry(*bytes).or_default();
                one.count += more.count;
                one.timed += more.timed;
                one.ns += more.ns;
                one.blocking += more.blocking;
            }
        }
        out
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.sizes.values().map(|s| s.count).sum()
    }

    /// Bytes of all.
    pub fn bytes(&self) -> f64 {
        // The sum of no floats is -0.0.
        self.sizes.iter().fold(0.0, |sum, (bytes, s)| sum + *bytes as f64 * s.count as f64)
    }

    /// Device time of all, ns, if those without times took as long as others of their size; `None`
    /// where none was timed.
    pub fn ns(&self) -> Option<f64> {
        let timed = self.sizes.values().map(|s| s.timed).fold(0, u64::saturating_add);
        let per_size = |s: &Sized| {
            if s.timed > 0 { s.ns / s.timed as f64 * s.count as f64 } else { 0.0 }
        };
        (timed > 0).then(|| self.sizes.values().map(per_size).sum())
    }

    /// (bytes, mean ns) of sizes that were timed.
    pub fn points(&self) -> Vec<(f64, f64)> {
        let timed = self.sizes.iter().filter(|(_, s)| s.timed > 0);
        timed.map(|(bytes, s)| (*bytes as f64, s.ns / s.timed as f64)).collect()
    }
}

/// One device with what it ran.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OnDevice {
    /// What outputs call it: its name, with what tells it apart where others have it.
    pub name: String,
    /// CL_DEVICE_NAME.
    pub model: String,
    /// CL_DRIVER_VERSION.
    pub driver: String,
    /// CL_PLATFORM_NAME.
    pub platform: String,
    /// Whether it is a CPU.
    pub is_cpu: bool,
    /// CL_DEVICE_MAX_COMPUTE_UNITS.
    pub compute_units: Option<u32>,
    /// CL_DEVICE_MAX_CLOCK_FREQUENCY, MHz.
    pub clock_mhz: Option<u32>,
    /// Kernels, longest first.
    pub kernels: Vec<Kernel>,
    /// By direction.
    pub transfers: BTreeMap<Direction, Transfers>,
    /// Time between commands, seconds each, in order; empty where launches were left out by
    /// sampling.
    pub gaps: Vec<f64>,
    /// Time in which some command ran, s; `None` where launches were left out by sampling.
    pub busy_s: Option<f64>,
    /// Watts between launches, where they are known.
    pub floor_watts: Option<Figure>,
    /// Why there are no joules.
    pub unmetered: Option<String>,
    /// Of kernels and transfers whose joules are known as a sum only.
    pub sums: Vec<Sum>,
    /// What the trace holds of the device, or its machine cannot give.
    pub held: BTreeSet<Measurement>,
}

impl OnDevice {
    /// Takes note that the machine of the trace cannot make a measurement: it is not advised.
    pub fn refuse(&mut self, what: Measurement) {
        self.held.insert(what);
        self.kernels.iter_mut().for_each(|kernel| _ = kernel.held.insert(what));
    }
}

/// Items, 0 where they are not known, and items of a group where the application chose them.
type Size = (u64, Option<u64>);

/// What launches of a kernel looked like.
#[derive(Default)]
struct Shapes {
    /// Launches of each.
    seen: BTreeMap<Size, u64>,
    /// First launches and those after them.
    starts: Starts,
}

/// The counter of memory bandwidth, as columns of counters name it.
const DRAM_SHARE: &str = "dram-bandwidth";
/// The counter of compute units with work.
const UNITS_SHARE: &str = "sm-busy";
/// Counters of units of a compute unit, and what they do.
const UNIT_SHARES: [(&str, Resource); 4] = [
    ("integer", Resource::Integer),
    ("fp16", Resource::Fp16),
    ("fp32", Resource::Fp32),
    ("fp64", Resource::Fp64),
];
/// Events of a CPU that fetch a line from behind the last cache, and from behind the nearest one.
const MEMORY_LINES: &str = "cache-misses";
const NEAREST_LINES: &str = "L1-dcache-load-misses";
/// Bytes of a line.
const LINE: f64 = 64.0;
/// A share that is known to less than this, each way, says nothing of what is busy.
const WIDE: f64 = 0.15;

/// What counters say of a kernel. A figure that cannot be separated from others' is absent.
fn counted_by(class: &counters::Class, kernel: &mut Kernel) {
    let mean = |name: &str| class.values.get(name).and_then(|v| v.mean).map(Figure::measured);
    let share = |name: &str| mean(name).map(|percent| percent.times(0.01));
    let known = |share: &Figure| share.high - share.low <= 2.0 * WIDE;
    kernel.dram_share = share(DRAM_SHARE).or(kernel.dram_share);
    kernel.units_busy = share(UNITS_SHARE).filter(known).or(kernel.units_busy);
    for (name, resource) in UNIT_SHARES {
        if let Some(share) = share(name).filter(known) {
            kernel.busy.insert(resource, share);
        }
    }
    // Lines a second, for the time of a launch.
    let lines =
        |name: &str| Some(mean(name)?.low.max(0.0) * LINE * 1e-9 * kernel.later_ns()?.value);
    if let (Some(memory), Some(last)) = (lines(MEMORY_LINES), lines(NEAREST_LINES)) {
        kernel.at_least =
            Some(Traffic { last: Moved::dense(last.max(memory)), memory: Moved::dense(memory) });
    }
}

/// From so many times the mean on the longest launch differs from the others: as for joules of
/// sampled launches (`tools/analysis/CONSTANTS.md`).
const DIFFER: f64 = 1.25;

/// Sizes of a kernel that are kept apart; more are one.
const MOST_SIZES: usize = 4096;

/// Reads what models need of a trace.
///
/// # Errors
/// If a file of readings that the caller named cannot be read.
pub fn by_device(view: &View<'_>) -> Result<Vec<OnDevice>, ReadingsError> {
    let mut out: BTreeMap<String, OnDevice> = BTreeMap::new();
    let trace = view.trace();
    for process in &trace.processes {
        let d = &process.definitions;
        for device in d.devices.values() {
            let name = d.device_name(device.id).into_owned();
            let on = out.entry(name.clone()).or_default();
            on.name = name;
            on.model.clone_from(&device.name);
            on.driver.clone_from(&device.driver);
            on.is_cpu = device.is_cpu();
            on.compute_units = (device.compute_units > 0).then_some(device.compute_units);
            on.clock_mhz = (device.clock_mhz > 0).then_some(device.clock_mhz);
            on.platform =
                d.platforms.get(&device.platform).map_or_else(String::new, |p| p.name.clone());
        }
    }
    let shapes = commands(view, &mut out);
    kernels(view, view.stats(), shapes, &mut out);
    mixes::mixes(view, &mut out);
    energy(view.energy()?, &mut out);
    if let Some(counters) = view.counters()? {
        for source in &counters.sources {
            // Whoever read them need not know which of several devices they are of.
            for on in out.values_mut() {
                on.held.extend(measurement_of(&source.source));
            }
            let Some(on) = out.get_mut(&source.device) else { continue };
            for class in source.classes.iter().filter(|c| c.kind == "kernel") {
                if let Some(kernel) = on.kernels.iter_mut().find(|k| k.name == class.name) {
                    counted_by(class, kernel);
                }
            }
        }
    }
    gaps(view, &mut out);
    held(view, &mut out);
    let mut out: Vec<OnDevice> =
        out.into_values().filter(|d| !d.kernels.is_empty() || !d.transfers.is_empty()).collect();
    for on in &mut out {
        on.kernels.sort_by(|a, b| b.total_ns.unwrap_or(0.0).total_cmp(&a.total_ns.unwrap_or(0.0)));
    }
    out.sort_by(|a, b| busy(b).total_cmp(&busy(a)));
    Ok(out)
}

/// The measurement that a source of counters is of: `nvml:gpm:0`, `oa:i915:card0`, `perf:1234`.
fn measurement_of(source: &str) -> Option<Measurement> {
    let has = |word: &str| source.split(':').any(|part| part == word);
    let all = [("gpm", Measurement::Gpm), ("oa", Measurement::Oa), ("perf", Measurement::Perf)];
    all.into_iter().find(|(word, _)| has(word)).map(|(_, measurement)| measurement)
}

/// What the trace holds, of each device and kernel.
fn held(view: &View<'_>, out: &mut BTreeMap<String, OnDevice>) {
    let changed: BTreeSet<String> = changes::recorded_changes(view.trace())
        .into_iter()
        .flat_map(|changes| changes.local_sizes)
        .filter(|of| of.launches > 0)
        .map(|of| of.kernel)
        .collect();
    for on in out.values_mut() {
        if on.kernels.iter().any(|k| k.time_ns.is_some()) {
            on.held.insert(Measurement::Timing);
        }
        if view.has_mixes() {
            on.held.insert(Measurement::Mix);
        }
        let mixes = || on.kernels.iter().filter_map(|k| k.mix.as_ref());
        let mut tallies = mixes().flat_map(|mix| mix.classes.values());
        if tallies.any(|t| t.transactions.is_some()) || mixes().any(|mix| mix.reuse.is_some()) {
            on.held.insert(Measurement::Accesses);
        }
        for kernel in &mut on.kernels {
            kernel.held.clone_from(&on.held);
            // A size of a kernel is a row of its own: `KERNEL [1024]`.
            let own = kernel.name.split(" [").next().unwrap_or(&kernel.name);
            if changed.contains(own) {
                kernel.held.insert(Measurement::Groups);
            }
        }
    }
}

fn busy(of: &OnDevice) -> f64 {
    of.kernels.iter().filter_map(|k| k.total_ns).sum()
}

/// One reading of all commands: geometries of kernels, sizes of transfers.
fn commands(
    view: &View<'_>,
    out: &mut BTreeMap<String, OnDevice>,
) -> BTreeMap<(String, String), Shapes> {
    let trace = view.trace();
    let grouping = view.grouping();
    let variant = grouping.variant();
    let mut shapes: BTreeMap<(String, String), Shapes> = BTreeMap::new();
    // Names of (process, kernel, variant, queue), since they are made anew each time otherwise.
    let mut names: BTreeMap<(u32, u32, u32, u32), (String, String)> = BTreeMap::new();
    let mut reading = Readings::of_all(trace);
    for event in trace.events(None) {
        let Event::Command(command) = event else { continue };
        if command.never_ran() {
            continue;
        }
        let record = &command.enqueued.record;
        let d = &trace.process(command.process).definitions;
        let device = d.queues.get(&record.queue).map_or(0, |q| q.device);
        let held_up = reading[command.process.0 as usize].has_held_up(device, &command);
        if record.kind.is_kernel() {
            let variant = variant.map_or(0, |v| v(record));
            let key = (command.process.0, record.object, variant, device);
            let name = names.entry(key).or_insert_with(|| {
                let name = grouping.name(trace, command.process, record.object, variant);
                (name, d.device_name(device).into_owned())
            });
            // A task has no geometry; one that is named and not there was lost with its definition.
            let without = if record.geometry == 0 { (1, Some(1)) } else { (0, None) };
            let shape = d.geometries.get(&record.geometry).map_or(without, |g| {
                let n = (g.dimensions as usize).clamp(1, 3);
                let product =
                    |of: &[u64; 3]| of[..n].iter().fold(1u64, |a, b| a.saturating_mul(*b));
                (product(&g.global), g.local.as_ref().map(product))
            });
            let of = match shapes.get_mut(name) {
                Some(of) => of,
                None => shapes.entry(name.clone()).or_default(),
            };
            if of.seen.len() < MOST_SIZES || of.seen.contains_key(&shape) {
                *of.seen.entry(shape).or_default() += 1;
            }
            // One that was timed by chance stands for others, which were no first ones.
            let ns = match &command.outcome {
                Outcome::Timed(times) if record.probability().is_none_or(|p| p >= 1.0) => {
                    Some(times.duration())
                }
                _ => None,
            };
            let program = d.kernels.get(&record.object).map_or(0, |k| k.program);
            of.starts.add((command.process.0, program, record.geometry), ns, held_up);
        } else if let Some(direction) = record.kind.direction().filter(|_| record.bytes > 0) {
            let Some(on) = out.get_mut(d.device_name(device).as_ref()) else { continue };
            let of = on.transfers.entry(direction).or_default();
            let blocking = command.enqueued.has(flag::BLOCKING);
            let ns = match &command.outcome {
                Outcome::Timed(times) => Some(times.duration()),
                _ => None,
            };
            of.add(record.bytes, blocking, ns);
            if let Some(memory) = command.enqueued.memory {
                of.by_memory.entry(memory.class()).or_default().add(record.bytes, blocking, ns);
            }
        }
    }
    shapes
}

fn kernels(
    view: &View<'_>,
    stats: &Stats,
    shapes: BTreeMap<(String, String), Shapes>,
    out: &mut BTreeMap<String, OnDevice>,
) {
    let trace = view.trace();
    let grouping = view.grouping();
    let by_name = stats.kernels_by(trace, |process, kernel, variant| {
        grouping.name(trace, process, kernel, variant)
    });
    for ((name, device), sums) in by_name {
        let on = out.entry(device.clone()).or_default();
        let total = sums.total();
        let covered = sums.covered() as f64;
        // Launches of which none was left out have a mean without doubt.
        let time_ns =
            total.filter(|_| covered > 0.0).map(|t| t.times(1.0 / covered)).map(|t| Figure {
                estimated: sums.estimated().is_some(),
                ..Figure::new(t.value, t.low, t.high, Evidence::Measured)
            });
        let shape = shapes.get(&(name.clone(), device.clone()));
        let first = shape.zip(time_ns).and_then(|(shape, mean)| shape.starts.first(mean, covered));
        // What compilation took longer is no difference of the work.
        let mean = first.map(|first| first.later_ns).or(time_ns).map(|mean| mean.value);
        let ends = sums.time.min().zip(sums.time.max()).map(|(l, h)| (l as f64, h as f64));
        let times_differ = ends.zip(mean).filter(|_| first.is_none());
        let times_differ = times_differ.filter(|((_, most), mean)| *most > DIFFER * mean);
        let only = |of: fn(&Size) -> Option<u64>| {
            let mut all = shape?.seen.keys().map(of);
            let first = all.next()?;
            all.all(|other| other == first).then_some(first)?
        };
        on.kernels.push(Kernel {
            name,
            device: device.clone(),
            compute_units: on.compute_units,
            clock_mhz: on.clock_mhz,
            launches: sums.count,
            total_ns: total.map(|t| t.value),
            time_ns,
            first,
            times_differ: times_differ.map(|of| of.0),
            bias_ns: sums.span_bias().map(|(value, side)| {
                Figure::new(value, value - side, value + side, Evidence::Measured)
            }),
            items: only(|s| Some(s.0).filter(|n| *n > 0)),
            local: only(|s| s.1),
            sizes: shape.map_or(0, |s| s.seen.len()),
            ..Kernel::default()
        });
    }
}

fn energy(energy: &Energy, out: &mut BTreeMap<String, OnDevice>) {
    let why_none = |of: &str| {
        let own = energy.unmeasured.iter().find(|u| u.device == of).map(|u| u.why.clone());
        own.or_else(|| energy.absent.clone())
    };
    for on in out.values_mut() {
        on.unmetered = why_none(&on.name);
        for kernel in &mut on.kernels {
            kernel.unmetered.clone_from(&on.unmetered);
        }
    }
    for device in &energy.devices {
        let Some(on) = out.get_mut(&device.device) else { continue };
        on.unmetered.clone_from(&device.failed);
        let floor = device.floors.iter().find(|f| f.state == 0).and_then(|f| f.watts);
        on.floor_watts = floor.map(Figure::measured);
        // Of several devices of one name it is not known which ran what.
        let is_alone = energy.devices.iter().filter(|d| d.device == device.device).count() == 1;
        on.sums = if is_alone { split::sums(device) } else { Vec::new() };
        for kernel in &mut on.kernels {
            kernel.unmetered.clone_from(&device.failed);
            kernel.floor_watts = on.floor_watts;
            let class = device.classes.iter().find(|c| c.kind == "kernel" && c.name == kernel.name);
            let Some(class) = class else { continue };
            kernel.joules = class.joules_per_launch.map(Figure::measured);
            if kernel.joules.is_none() {
                kernel.unmetered = device.failed.clone().or_else(|| {
                    let next = device.next.clone();
                    Some(next.unwrap_or_else(|| unknown(class, !device.replays.is_empty())))
                });
            }
        }
    }
}

/// Why a class has no joules of its own, and what gives them.
fn unknown(class: &result::Class, is_repeated: bool) -> String {
    let why = class.absence.map_or("nothing was attributed to it", Absence::sentence);
    let remedy = if is_repeated {
        "it was not measured alone either: `clscope report --section energy` says why"
    } else {
        "`clscope record --replay` repeats its launches by themselves"
    };
    format!("{why}; {remedy}")
}

/// Time between commands of each device.
fn gaps(view: &View<'_>, out: &mut BTreeMap<String, OnDevice>) {
    let left_out = view.stats().devices.iter().any(|(_, sums)| sums.left_out > 0);
    // Between traces of different times nothing is known.
    let recorded = view.stats().recorded();
    for device in view.devices() {
        let Some(on) = out.get_mut(&device.label) else { continue };
        if left_out || device.unplaced > 0 {
            continue;
        }
        let mut end: Option<i64> = None;
        let mut busy = 0i64;
        for span in &device.spans {
            let (begin, stop) = (span.start.0, span.end.0);
            match end {
                Some(last) if begin > last => {
                    let gap = Span { begin: HostNs(last), end: HostNs(begin) }.within(&recorded);
                    if gap > 0 {
                        on.gaps.push(gap as f64 * 1e-9);
                    }
                }
                _ => {}
            }
            busy += (stop - begin.max(end.unwrap_or(begin))).max(0);
            end = Some(end.map_or(stop, |e| e.max(stop)));
        }
        *on.busy_s.get_or_insert(0.0) += busy as f64 * 1e-9;
    }
}

/// The name of a direction as files of parameters have it.
pub fn link_direction(of: Direction) -> Option<&'static str> {
    match of {
        Direction::HostToDevice => Some("to_device"),
        Direction::DeviceToHost => Some("to_host"),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
