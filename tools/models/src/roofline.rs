//! Bounds of throughput: what each resource needs at least for what a kernel does, by the device's
//! measured ceilings; and the roofline of a trace (Williams, Waterman and Patterson 2009;
//! hierarchical after Yang, Kurth and Williams 2020; of energy after Choi et al. 2013). Refuses to
//! draw.

use crate::device::{Device, name};
use crate::figure::{Evidence, Figure, Missing};
use crate::kernel::Kernel;
use crate::latency::{self, Occupancy};
use clscope_mix::{Class, Family, Precision, Space};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

mod likely;

pub use likely::{dominant, likely, moving};

/// Name and version of the roofline's schema.
pub const SCHEMA: &str = "clscope-roofline/1";

/// What can be the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Resource {
    /// What a launch costs without any work.
    Launch,
    /// Giving compute units one group after another.
    Groups,
    /// Issuing instructions.
    Issue,
    /// Arithmetic and logic on integers.
    Integer,
    /// Atomics.
    Atomics,
    /// Arithmetic on 16 bits.
    Fp16,
    /// Arithmetic on 32 bits.
    Fp32,
    /// Arithmetic on 64 bits.
    Fp64,
    /// Special functions.
    Special,
    /// Local memory.
    LocalMemory,
    /// The nearest cache, by bytes that were asked for.
    Cache,
    /// The last cache, by what the nearest one is likely to pass on.
    LastCache,
    /// Memory, by bytes that counters saw.
    Memory,
    /// Memory, if caches served nothing.
    MemoryIfMissed,
    /// Waiting for one instruction after another with the warps that fit.
    Latency,
}

impl Resource {
    /// In words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Launch => "launching",
            Self::Groups => "starting groups",
            Self::Issue => "instruction issue",
            Self::Integer => "integer arithmetic",
            Self::Atomics => "atomics",
            Self::Fp16 => "FP16 arithmetic",
            Self::Fp32 => "FP32 arithmetic",
            Self::Fp64 => "FP64 arithmetic",
            Self::Special => "special functions",
            Self::LocalMemory => "local memory",
            Self::Cache => "the nearest cache",
            Self::LastCache => "the last cache",
            Self::Memory => "memory",
            Self::MemoryIfMissed => "memory if caches served nothing",
            Self::Latency => "latency",
        }
    }

    /// The condition under which its bound holds, in words, where the name does not say it.
    #[must_use]
    pub const fn condition(self) -> Option<&'static str> {
        match self {
            Self::Integer | Self::Issue => Some("if the compiler merged nothing"),
            Self::LastCache => Some("if the nearest cache serves what neighbours share"),
            Self::Atomics => Some("if each has a word of its own"),
            _ => None,
        }
    }

    const fn of(precision: Precision) -> Self {
        match precision {
            Precision::Half => Self::Fp16,
            Precision::Single => Self::Fp32,
            Precision::Double => Self::Fp64,
        }
    }
}

/// The least time that one resource needs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bound {
    /// Which.
    pub resource: Resource,
    /// Nanoseconds of a launch.
    #[serde(rename = "time_ns")]
    pub ns: Figure,
    /// The launch cannot be faster, whatever caches do and instructions wait for. Where false, it
    /// holds under the condition that the resource's name says.
    pub certain: bool,
}

/// All bounds of a kernel.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Bounds {
    /// Longest first.
    pub bounds: Vec<Bound>,
    /// What would give further ones.
    pub missing: Vec<Missing>,
    /// How many warps fit, on devices whose limits are known.
    pub occupancy: Option<Occupancy>,
}

impl Bounds {
    /// The certain bound that needs longest.
    #[must_use]
    pub fn binding(&self) -> Option<&Bound> {
        self.bounds.iter().find(|b| b.certain)
    }

    /// One by its resource.
    #[must_use]
    pub fn by_resource(&self, resource: Resource) -> Option<&Bound> {
        self.bounds.iter().find(|b| b.resource == resource)
    }
}

/// Share of the device's compute units that a launch can use: a group runs on one of them.
fn units_used(kernel: &Kernel, device: &Device) -> f64 {
    let units = f64::from(device.compute_units.max(1));
    kernel.groups().map_or(1.0, |groups| (groups as f64 / units).min(1.0))
}

/// The ceiling of a type's operations, and whether it is of fused ones. A device that has none
/// does at most as many multiplications and additions as of both in turn.
fn ceiling(device: &Device, precision: Precision) -> Result<(Figure, bool), Missing> {
    let of = |operation| device.get(&name::rate(precision, operation));
    of("fma").map(|rate| (rate, true)).or_else(|why| match of("mad") {
        Ok(rate) => Ok((rate, false)),
        Err(_) => Err(why),
    })
}

/// FLOP of a type by its operations: 2 a fused multiply-add, 1 each other.
fn arithmetic(
    kernel: &Kernel,
    device: &Device,
    precision: Precision,
) -> Result<Option<Figure>, Missing> {
    let Some(mix) = &kernel.mix else {
        // Stated FLOP are of the type that the kernel is said to be of.
        let stated = kernel.flop.filter(|_| kernel.precision() == precision);
        return stated
            .map(|f| Ok(Figure::exact(f, Evidence::Given).over(ceiling(device, precision)?.0)))
            .transpose();
    };
    let fused = match precision {
        Precision::Half => Class::HalfFma,
        Precision::Single => Class::SingleFma,
        Precision::Double => Class::DoubleFma,
    };
    let all = mix.flop(precision);
    if all == 0 {
        return Ok(None);
    }
    let of_fma = mix.classes.get(&fused).map_or(0, |t| t.flop);
    let (rate, is_fused) = ceiling(device, precision)?;
    // Half the rate of fused operations, where single ones were not seen to be faster than that.
    let least = if is_fused { rate.times(0.5) } else { rate };
    let single = device.get(&name::rate(precision, "add")).map_or(least, |add| add.larger(least));
    let time = Figure::counted(of_fma).over(rate);
    let rest = Figure::counted(all - of_fma);
    Ok(Some(if rest.value > 0.0 { time.plus(rest.over(single)) } else { time }))
}

/// Time of giving compute units their groups, one after another, ns: groups / units times the
/// measured replacement of a group with nothing to do. Not known where the runtime chose the
/// groups.
fn starting(kernel: &Kernel, device: &Device) -> Option<Figure> {
    let each = kernel.groups()? as f64 / f64::from(device.compute_units.max(1));
    let replaced = device.get(name::GROUP).ok()?;
    // The first group of each unit replaces none.
    (each > 1.0).then(|| replaced.times(each))
}

/// Time of issuing all instructions, ns.
fn issue(kernel: &Kernel, device: &Device) -> Option<Figure> {
    let units = f64::from(device.compute_units.max(1));
    let warps = kernel.mix.as_ref()?.total().warps? as f64;
    Some(device.get(name::ISSUE).ok()?.times(warps / units))
}

/// Time of arithmetic and logic on integers, ns: shifts and bitwise operations have units of their
/// own, and additions share theirs with what else there is. Compilers merge several of them, and
/// fold addresses into accesses: no launch needs as long for certain.
fn integers(kernel: &Kernel, device: &Device) -> Option<Figure> {
    let mix = kernel.mix.as_ref()?;
    // Work of a unit follows warps, whose lanes may rest.
    let lanes = f64::from(device.lanes.unwrap_or(1).max(1));
    let of = |wanted: &[Class]| -> f64 {
        let ours = mix.classes.iter().filter(|(c, _)| wanted.contains(c));
        ours.map(|(_, t)| t.warps.map_or(t.threads as f64, |w| w as f64 * lanes)).sum()
    };
    let logic = of(&[Class::IntLogic, Class::IntCompare]);
    let all = logic + of(&[Class::IntArith, Class::IntMul]);
    let time = Figure::counted(all as u64).over(device.get(name::INTEGER).ok()?);
    let of_logic = device.get(name::LOGIC).ok().map(|r| Figure::counted(logic as u64).over(r));
    Some(of_logic.map_or(time, |t| t.larger(time)))
}

/// Time of atomics, ns, if each had a word of its own; of those on local memory that meet in a
/// bank, as many as its passes had lanes.
fn atomics(kernel: &Kernel, device: &Device) -> Option<Figure> {
    let mix = kernel.mix.as_ref()?;
    let lanes = u64::from(device.lanes.unwrap_or(1).max(1));
    let of = |class, key| {
        let tally = mix.classes.get(&class)?;
        let passes = tally.transactions.filter(|_| class == Class::AtomicLocal).unwrap_or(0);
        let count = tally.threads.max(passes.saturating_mul(lanes));
        Some(Figure::counted(count).over(device.get(key).ok()?))
    };
    match (of(Class::AtomicLocal, name::LOCAL_ATOMIC), of(Class::AtomicGlobal, name::ATOMIC)) {
        (Some(a), Some(b)) => Some(a.larger(b)),
        (a, b) => a.or(b),
    }
}

/// How long an instruction's result takes, ns, by where the kernel's data fit.
fn latency_of(kernel: &Kernel, device: &Device, class: Class) -> Option<Figure> {
    let add = device.get(name::LATENCY_ADD).ok()?;
    let of = |n: &str| device.get(n).unwrap_or(add);
    // Of what is asked for, the shares that go past the nearest cache, and past the last one.
    let requested = kernel.requested().map_or(0.0, |b| b.value).max(1.0);
    let traffic = kernel.traffic(device).unwrap_or_default();
    let last = (traffic.last / requested).clamp(0.0, 1.0);
    let memory = (traffic.memory / requested).clamp(0.0, last);
    Some(match class.memory() {
        // Nobody waits for a store.
        _ if class.stores() => Figure::exact(0.0, Evidence::Modelled),
        Some(Space::Local) => of(name::LATENCY_LOCAL),
        Some(Space::Constant) => add,
        // The nearest cache and local memory are one memory on many devices; the last cache lies
        // about half way to memory.
        Some(_) => of(name::LATENCY_LOCAL)
            .times(1.0 - last)
            .plus(of(name::LATENCY_MEMORY).times(0.5 * (last + memory))),
        None if class.family() == Family::Special => of(name::LATENCY_SPECIAL),
        None => add,
    })
}

/// What a warp of a short kernel lives longer than its instructions take: it is started, its code
/// and arguments are fetched, its place is given to the next one. ns, from an H100: of streams, a
/// stencil and sorting steps in groups of 256, whose time follows the groups that fit where 5 or 6
/// of 8 do, it comes out at 430 to 600.
const TURN_NS: f64 = 500.0;

/// Time of waiting with the warps that fit, ns: by the dependences of the code where that is known,
/// else as if every instruction waited for the one before.
fn waiting(kernel: &Kernel, device: &Device, occupancy: Option<Occupancy>) -> Option<Figure> {
    let mix = kernel.mix.as_ref()?;
    let items = kernel.items?;
    let lanes = u64::from(device.lanes.unwrap_or(1).max(1));
    // A group's last warp may be partly filled.
    let warps = match (kernel.groups(), kernel.local) {
        (Some(groups), Some(local)) => groups * local.div_ceil(lanes),
        _ => items.div_ceil(lanes),
    };
    let warps = warps.max(1) as f64;
    latency_of(kernel, device, Class::IntArith)?;
    let latency =
        |class| latency_of(kernel, device, class).unwrap_or(Figure::exact(0.0, Evidence::Modelled));
    let one = if kernel.blocks.is_empty() {
        mix.classes.iter().fold(Figure::exact(0.0, Evidence::Modelled), |sum, (class, tally)| {
            let issued = tally.warps.unwrap_or(tally.threads) as f64;
            sum.plus(latency(*class).times(issued / warps))
        })
    } else {
        // A scheduler issues one instruction a cycle, and a unit has four.
        let issue = device.get(name::ISSUE).map_or(0.0, |slot| 4.0 * slot.value);
        let sum: f64 = kernel
            .blocks
            .iter()
            .map(|(block, times)| {
                times / warps * latency::pass(block, issue, |class| latency(class).value)
            })
            .sum();
        Figure::exact(sum, Evidence::Modelled)
    };
    let units = f64::from(device.compute_units.max(1));
    // Limits of devices that are not known are taken to hold all.
    let most = occupancy.map_or(64.0, |o| o.warps as f64);
    let under_way = kernel.under_way(device).map_or(most, |items| items / lanes as f64);
    let resident = most.min(under_way.max(1.0)).min((warps / units).max(1.0));
    let rounds = (warps / (units * resident)).max(1.0);
    let turn = if occupancy.is_some() { TURN_NS } else { 0.0 };
    let all = Figure { value: one.value + turn, ..one }.times(rounds).modelled();
    Some(Figure { low: 0.0, ..all })
}

/// Bounds of a kernel by a device's parameters.
#[must_use]
pub fn bounds(kernel: &Kernel, device: &Device) -> Bounds {
    let mut out = Bounds::default();
    let mut missing = BTreeSet::new();
    let mut add = |resource, ns: Result<Option<Figure>, Missing>, certain: bool| match ns {
        Ok(Some(ns)) if ns.value > 0.0 => {
            out.bounds.push(Bound { resource, ns: ns.modelled(), certain })
        }
        Ok(_) => {}
        Err(why) => drop(missing.insert(why)),
    };
    let used = units_used(kernel, device);
    add(Resource::Launch, device.get(name::LAUNCH).map(Some), true);
    add(Resource::Groups, Ok(starting(kernel, device)), true);
    if kernel.mix.is_some() || kernel.flop.is_some() {
        for precision in Precision::ALL {
            let time =
                arithmetic(kernel, device, precision).map(|t| t.map(|t| t.times(1.0 / used)));
            add(Resource::of(precision), time, true);
        }
    } else if let Err(why) = kernel.counted() {
        add(Resource::Fp32, Err(why), true);
    }
    if let Some(mix) = &kernel.mix {
        let special: u64 = mix
            .classes
            .iter()
            .filter(|(c, _)| c.family() == Family::Special)
            .map(|(_, t)| t.threads)
            .sum();
        if special > 0 {
            let rate = device.get(name::SPECIAL);
            add(
                Resource::Special,
                rate.map(|r| Some(Figure::counted(special).over(r).times(1.0 / used))),
                true,
            );
        }
        let of_integers = integers(kernel, device).map(|t| t.times(1.0 / used));
        add(Resource::Integer, Ok(of_integers), false);
        // Compilers join atomics of a warp.
        add(Resource::Atomics, Ok(atomics(kernel, device).map(|t| t.times(1.0 / used))), false);
        // Compilers merge instructions of the language that is counted.
        add(Resource::Issue, Ok(issue(kernel, device).map(|t| t.times(1.0 / used))), false);
        // What banks give in so many passes, as their ceiling was measured with full ones.
        if let Ok(local) = kernel.local_passes()
            && local.value > 0.0
        {
            let rate = device.get(name::LOCAL);
            add(Resource::LocalMemory, rate.map(|r| Some(local.over(r).times(1.0 / used))), true);
        }
    }
    if let Ok(bytes) = kernel.requested()
        && bytes.value > 0.0
    {
        let cache = device.get(name::L1).or_else(|_| device.get(name::L2));
        let given = kernel.cached().unwrap_or(bytes);
        add(Resource::Cache, cache.map(|r| Some(given.over(r).times(1.0 / used))), true);
        if let (Some(traffic), Ok(rate)) = (kernel.traffic(device), device.get(name::L2)) {
            let bytes = Figure::exact(traffic.last, Evidence::Modelled);
            add(Resource::LastCache, Ok(Some(bytes.over(rate))), false);
        }
        if kernel.dram_bytes.is_none() {
            add(
                Resource::MemoryIfMissed,
                device.get(name::DRAM).map(|r| Some(bytes.over(r))),
                false,
            );
        }
    }
    if let Some(bytes) = kernel.dram_bytes {
        add(Resource::Memory, device.get(name::DRAM).map(|r| Some(bytes.over(r))), true);
    }
    let occupancy = latency::occupancy_on(device, kernel);
    add(Resource::Latency, Ok(waiting(kernel, device, occupancy)), false);
    out.bounds.sort_by(|a, b| b.ns.value.total_cmp(&a.ns.value));
    out.missing = missing.into_iter().collect();
    out.occupancy = occupancy;
    out
}

/// A ceiling.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Roof {
    /// What it is of: `DRAM`, `L2`, `L1`, `local memory`, `FP32 FMA`, `FP32 multiply + add` of a
    /// device without fused operations, ...
    pub name: String,
    /// `bandwidth` (GB/s) or `rate` (GFLOP/s).
    pub kind: &'static str,
    /// In GB/s or GFLOP/s.
    pub value: Figure,
}

/// A kernel's place.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Point {
    /// The kernel.
    pub kernel: String,
    /// Which bytes its intensity is over: `requested` of memory, or moved by `dram`.
    pub bytes: &'static str,
    /// On what these bytes rest.
    pub bytes_evidence: Evidence,
    /// On what the operations rest; time and joules are measured.
    pub flop_evidence: Evidence,
    /// The type of most of its operations.
    pub precision: &'static str,
    /// FLOP per byte.
    pub intensity: Figure,
    /// GFLOP/s, or GFLOP/J of the energy roofline.
    pub rate: Figure,
    /// Of the time of all kernels.
    pub share: Option<f64>,
    /// The roof above it at its intensity, in the unit of `rate`, and how much of it is reached.
    pub roof: Option<f64>,
    /// `rate` over `roof`.
    pub reached: Option<f64>,
    /// Whether it lies above its roof by more than 2 %: the ceiling, the counter or the clock does
    /// not fit this launch.
    pub above: bool,
}

/// A curve of the energy roofline.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Curve {
    /// What it is of.
    pub name: String,
    /// (FLOP per byte, GFLOP/J).
    pub points: Vec<(f64, f64)>,
}

/// A roofline.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Roofline {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The device.
    pub device: String,
    /// `GFLOP/s` or `GFLOP/J`.
    pub unit: &'static str,
    /// Whose parameters these are, where `--force` took another device's or driver's; null
    /// otherwise.
    pub forced: Option<String>,
    /// Ceilings; of the energy roofline none.
    pub roofs: Vec<Roof>,
    /// Of the energy roofline.
    pub curves: Vec<Curve>,
    /// Readable names of kernels, by their names in this document, which are those of the trace.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "schema", schemars(default))]
    pub display_names: BTreeMap<String, String>,
    /// Kernels, longest first.
    pub points: Vec<Point>,
    /// What is not drawn, and why.
    pub missing: Vec<Missing>,
}

/// From this share of its roof on, a dot lies above it, and not as near as measurements come.
pub const ABOVE: f64 = 1.02;

const LEVELS: [(&str, &str); 3] = [("L1", name::L1), ("L2", name::L2), ("DRAM", name::DRAM)];

/// The roofline of kernels on a device, of energy where `energy` says so. Without the device's
/// parameters it has points and no roofs.
#[must_use]
pub fn roofline(kernels: &[Kernel], device: Option<&Device>, energy: bool) -> Roofline {
    let mut out = Roofline {
        schema: SCHEMA,
        device: kernels.first().map(|k| k.device.clone()).unwrap_or_default(),
        unit: if energy { "GFLOP/J" } else { "GFLOP/s" },
        forced: device.and_then(Device::forced),
        ..Roofline::default()
    };
    let mut missing = BTreeSet::new();
    let precisions: BTreeSet<Precision> = kernels.iter().map(Kernel::precision).collect();
    if let Some(device) = device {
        let of = |label: &str, key: &str, kind| {
            device.get(key).map(|value| Roof { name: label.to_owned(), kind, value })
        };
        for (label, key) in LEVELS {
            match of(label, key, "bandwidth") {
                Ok(roof) => out.roofs.push(roof),
                Err(why) => drop(missing.insert(why)),
            }
        }
        for precision in &precisions {
            let label = |of: &str| format!("{} {of}", precision.name().to_uppercase());
            let rate = |of: &str| name::rate(*precision, of);
            let (name, value) = match ceiling(device, *precision) {
                Ok((rate, true)) => (label("FMA"), rate),
                Ok((rate, false)) => (label("multiply + add"), rate),
                // Additions alone are no ceiling of what may be fused.
                Err(why) => {
                    missing.insert(why);
                    continue;
                }
            };
            out.roofs.push(Roof { name, kind: "rate", value });
            out.roofs.extend(of(&label("add"), &rate("add"), "rate"));
        }
    } else {
        missing.insert(Missing::device(&out.device));
    }
    let total: f64 = kernels.iter().filter_map(|k| k.total_ns).sum();
    for kernel in kernels {
        let share = kernel.total_ns.filter(|_| total > 0.0).map(|t| t / total);
        if let Err(why) = points(kernel, &out.roofs, share, energy, &mut out.points) {
            missing.insert(Missing::new(format!("{}: {}", kernel.name, why.what), why.remedy));
        }
    }
    if energy {
        out.roofs.clear();
        match device.map(|d| curves(d, &precisions)) {
            Some(Ok(curves)) => out.curves = curves,
            Some(Err(why)) => drop(missing.insert(why)),
            None => {}
        }
        for point in &mut out.points {
            point.roof = None;
            (point.reached, point.above) = (None, false);
        }
    }
    out.missing = missing.into_iter().collect();
    out
}

/// The points of a kernel: one for the bytes it asked for, one for those that memory moved.
fn points(
    kernel: &Kernel,
    roofs: &[Roof],
    share: Option<f64>,
    energy: bool,
    out: &mut Vec<Point>,
) -> Result<(), Missing> {
    let flop = kernel.flop()?;
    if flop.value <= 0.0 {
        return Err(Missing::new("it does no floating-point operation", "it has no place here"));
    }
    let rate = if energy {
        let joules = kernel.joules.ok_or_else(|| {
            let why = kernel.unmetered.clone();
            let why = why
                .unwrap_or_else(|| "`clscope record` on a machine with a power sensor".to_owned());
            Missing::new("its joules are not known", why)
        })?;
        flop.over(joules).times(1e-9)
    } else {
        let time = kernel.work_ns().filter(|t| t.value > 0.0);
        flop.over(time.ok_or_else(|| {
            Missing::new("its launches were not timed", "`clscope record` with device timing")
        })?)
    };
    let precision = kernel.precision();
    let mut add = |bytes: &'static str, of: Figure, levels: &[&str]| {
        let intensity = flop.over(of);
        let peak = |kind| roofs.iter().filter(move |r| r.kind == kind);
        let compute = peak("rate")
            .filter(|r| r.name.starts_with(&precision.name().to_uppercase()))
            .map(|r| r.value.value)
            .fold(f64::NAN, f64::max);
        let memory = peak("bandwidth")
            .filter(|r| levels.contains(&r.name.as_str()))
            .map(|r| r.value.value * intensity.value)
            .fold(f64::NAN, f64::max);
        // A ceiling that is not known may be the lower one.
        let roof = (compute.is_finite() && memory.is_finite()).then(|| compute.min(memory));
        let reached = roof.map(|r| rate.value / r);
        out.push(Point {
            kernel: kernel.name.clone(),
            bytes,
            bytes_evidence: of.evidence,
            flop_evidence: flop.evidence,
            precision: precision.name(),
            intensity,
            rate,
            share,
            roof,
            reached,
            above: reached.is_some_and(|r| r > ABOVE),
        });
    };
    let requested = kernel.requested();
    let moved = kernel.dram_bytes;
    if let Ok(bytes) = &requested
        && bytes.value > 0.0
    {
        add("requested", *bytes, &["L1", "L2", "DRAM"]);
    }
    // Where counters cannot tell it from nothing, an intensity over it is none.
    let told = moved.filter(|b| b.value > 0.0 && b.low > 0.0);
    if let Some(bytes) = told {
        add("dram", bytes, &["DRAM"]);
    }
    match (requested, told) {
        (Ok(_), None) if moved.is_some() => Err(Missing::new(
            "what memory moved has no dot: its interval reaches 0",
            "longer launches, or more of them, make counters tell it",
        )),
        (Err(why), None) => Err(why),
        _ => Ok(()),
    }
}

/// GFLOP/J over intensity for memory as the only level: FLOP over their joules, those of their
/// bytes and the floor's in the time that the slower of the two takes.
fn curves(device: &Device, precisions: &BTreeSet<Precision>) -> Result<Vec<Curve>, Missing> {
    let Some(model) = &device.energy else {
        let why = match device.power_source.as_str() {
            "" => "`clscope bench model` on a machine with a power sensor",
            source => source,
        };
        return Err(Missing::new("joules of operations and bytes are not known", why));
    };
    let bandwidth = device.get(name::DRAM)?.value;
    let mut out = Vec::new();
    for precision in precisions {
        let label = precision.name();
        let (rate, is_fused) = ceiling(device, *precision)?;
        let rate = rate.value;
        let joules = |name: &str| model.terms.get(name).map_or(0.0, |t| t.joules.value);
        let lanes = f64::from(device.lanes.unwrap_or(1).max(1));
        // A fused multiply-add is two FLOP of one instruction, of which a warp issues one.
        let of_flop = (joules(label) + joules("issue") / lanes) / 2.0;
        let of_byte = joules("memory") + joules("caches");
        let watts = model.floor_watts + joules("active") * f64::from(device.compute_units);
        let at = |intensity: f64| {
            let seconds = 1e-9 / rate.min(bandwidth * intensity);
            1e-9 / (of_flop + of_byte / intensity + watts * seconds)
        };
        let points =
            (-20..=60).map(|e| 2f64.powf(f64::from(e) / 4.0)).map(|i| (i, at(i))).collect();
        let operations = if is_fused { "FMA" } else { "multiply + add" };
        out.push(Curve { name: format!("{} {operations}, memory", label.to_uppercase()), points });
    }
    Ok(out)
}

#[cfg(test)]
mod tests;
