//! Bounds of throughput: what each resource needs at least for what a kernel does, by the device's
//! measured ceilings, and at most where that depends on operands and addresses. Refuses to choose
//! among them: the verdict does.

use super::classes::{beside_flop, with_idle_lanes};
use super::groups::{starting, units_used};
use super::takes::takes;
use super::waits::{CYCLES, FEWEST, JOINED, longest_group, waiting};
use super::{Resource, ceiling};
use crate::device::{Device, name};
use crate::figure::{Evidence, Figure, Missing};
use crate::kernel::Kernel;
use crate::latency::{self, Occupancy};
use crate::traffic::{LAST, is_cached};
use clscope_mix::{Class, Mix, Precision};
use serde::Serialize;
use std::collections::BTreeSet;

/// The least time that one resource needs.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Bound {
    /// Which.
    pub resource: Resource,
    /// Nanoseconds of a launch.
    #[serde(rename = "time_ns")]
    pub ns: Figure,
    /// What it is likely to need, in nanoseconds: of waiting, what other work does not hide.
    #[serde(rename = "likely_time_ns")]
    #[schemars(default)]
    pub likely: f64,
    /// The longest that it can need, where that depends on operands, addresses or what caches
    /// serve; null where it does not.
    #[serde(rename = "most_time_ns")]
    #[schemars(default)]
    pub most: Option<Figure>,
    /// The launch cannot be faster, whatever caches do and instructions wait for. Where false, it
    /// holds under the condition that the resource's name says. Compilers for CPUs join work-items:
    /// nothing that is counted is certain there.
    pub certain: bool,
}

impl Bound {
    /// Nothing says where between the least and the most it lies.
    pub(super) fn is_open(&self, most: f64) -> bool {
        self.ns.value < 0.999 * self.likely && self.likely < 0.999 * most
    }
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
    pub fn binding(&self) -> Option<&Bound> {
        self.bounds.iter().find(|b| b.certain)
    }

    /// One by its resource.
    pub fn by_resource(&self, resource: Resource) -> Option<&Bound> {
        self.bounds.iter().find(|b| b.resource == resource)
    }
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
    if mix.flop(precision) == 0 {
        return Ok(None);
    }
    // Lanes that rest take their turn with their warp.
    let of = |is_fused: bool| {
        let own = mix.classes.iter().filter(|(class, tally)| {
            class.precision() == Some(precision) && (**class == fused) == is_fused && tally.flop > 0
        });
        own.map(|(_, tally)| tally.flop as f64 * with_idle_lanes(tally, device)).sum::<f64>()
    };
    let (of_fma, rest) = (of(true), of(false));
    let counted = |flop: f64| Figure::exact(flop, Evidence::Counted);
    let (rate, is_fused) = ceiling(device, precision)?;
    // Half the rate of fused operations, where single ones were not seen to be faster than that.
    let least = if is_fused { rate.times(0.5) } else { rate };
    let single = device.get(&name::rate(precision, "add")).map_or(least, |add| add.larger(least));
    let time = counted(of_fma).over(rate);
    Ok(Some(if rest > 0.0 { time.plus(counted(rest).over(single)) } else { time }))
}

/// Time of issuing all instructions, ns.
fn issue(kernel: &Kernel, device: &Device) -> Option<Figure> {
    let units = f64::from(device.compute_units.max(1));
    let warps = kernel.mix.as_ref()?.total().warps? as f64;
    // One of the language may be several of the device's, or a part of one.
    let several = kernel.blocks.iter().map(|(block, entered)| {
        let more = block.instructions.iter().map(|i| f64::from(i.steps) - 1.0).sum::<f64>();
        entered * more
    });
    Some(device.get(name::ISSUE).ok()?.times((warps + several.sum::<f64>()) / units))
}

/// Bytes of global memory that the nearest cache gives for certain: an access of a warp takes a
/// pass of its own, of as many bytes as a lane's word each. What lanes share comes once, so that
/// wider words count in full only where pieces were counted.
fn certain_bytes(kernel: &Kernel, device: &Device) -> Option<Figure> {
    let mix = kernel.mix.as_ref()?;
    let each = mix.classes.iter().filter(|(c, _)| is_cached(**c, device)).map(|(_, tally)| {
        let passes = tally.warps.map_or(tally.bytes, |w| w.saturating_mul(clscope_mix::PASS));
        tally.bytes.min(passes)
    });
    Some(Figure::counted(each.sum()))
}

/// Time of a type's instructions where a CPU's compiler makes no vectors of work-items, ns.
fn one_by_one(mix: &Mix, device: &Device, precision: Precision) -> Option<Figure> {
    let (classes, rate) = match precision {
        Precision::Half => return None,
        Precision::Single => ([Class::SingleArith, Class::SingleFma], name::ITEMS_SINGLE),
        Precision::Double => ([Class::DoubleArith, Class::DoubleFma], name::ITEMS_DOUBLE),
    };
    let rate = device.get(rate).ok().filter(|_| device.is_cpu())?;
    let count: u64 = classes.iter().filter_map(|c| mix.classes.get(c)).map(|t| t.threads).sum();
    (count > 0).then(|| Figure::counted(count).over(rate))
}

/// Accesses of work-items that take the nearest cache.
fn accesses(kernel: &Kernel, device: &Device) -> Option<u64> {
    let classes = kernel.mix.as_ref()?.classes.iter();
    Some(classes.filter(|(c, _)| is_cached(**c, device)).map(|(_, t)| t.threads).sum())
}

/// Bytes that caches move if each access fetches a piece of its own: those that were counted, where
/// pieces were.
fn in_pieces(kernel: &Kernel, device: &Device, asked: Figure) -> Figure {
    let all = accesses(kernel, device).map(|n| Figure::counted(n.saturating_mul(device.piece())));
    match (kernel.pieces(), all) {
        (Some(pieces), _) => pieces,
        (_, Some(all)) => asked.larger(all),
        _ => asked,
    }
}

/// Share of the nearest cache's rate from which on a set of bytes is read by caches of the unit's own:
/// farther ones, which units share, are slower. Judged.
const NEARBY: f64 = 0.5;

/// Share of instructions that wait for the one before, where the code's dependences are not known.
const DEPENDENT: f64 = 0.5;

/// Resources whose time is the sum over their classes' own ceilings, and whether it is certain on
/// devices whose compilers keep what is counted.
const BY_CLASS: [Resource; 10] = [
    Resource::Integer,
    Resource::IntegerMultiply,
    Resource::IntegerDivision,
    Resource::Division,
    Resource::Conversion,
    Resource::Barriers,
    Resource::Atomics,
    Resource::PrivateMemory,
    Resource::ConstantMemory,
    Resource::Images,
];

/// Collects bounds.
struct Found {
    out: Bounds,
    missing: BTreeSet<Missing>,
}

impl Found {
    fn add(&mut self, resource: Resource, ns: Result<Option<Figure>, Missing>, certain: bool) {
        match ns {
            Ok(ns) => self.range(resource, ns, None, None, certain),
            Err(why) => drop(self.missing.insert(why)),
        }
    }

    fn range(
        &mut self,
        resource: Resource,
        ns: Option<Figure>,
        likely: Option<f64>,
        most: Option<Figure>,
        certain: bool,
    ) {
        let Some(ns) = ns.filter(|ns| ns.value > 0.0) else { return };
        let most = most.filter(|most| most.value > ns.value).map(Figure::modelled);
        let likely = likely.unwrap_or(ns.value);
        self.out.bounds.push(Bound { resource, ns: ns.modelled(), likely, most, certain });
    }
}

/// Bounds of a kernel by a device's parameters.
pub fn bounds(kernel: &Kernel, device: &Device) -> Bounds {
    let mut found = Found { out: Bounds::default(), missing: BTreeSet::new() };
    // Where no vectors are made of items, arithmetic and accesses are done one by one. Of code that
    // is known the waits say as much.
    let apart_alone = device.is_cpu() && !device.joins_items() && kernel.blocks.is_empty();
    // Items without loops of their own are joined, but for calls of special functions; ceilings are
    // those of items with loops.
    let is_joined = device.is_cpu() && !device.joins_items() && !kernel.runs_apart(device);
    // What a compiler for a CPU makes of work-items need not do each of them what is counted.
    let counted_is_certain = !device.is_cpu();
    let wider = |ns: Figure| ns.times(1.0 / units_used(kernel, device));
    match device.get(name::LAUNCH) {
        Ok(least) => {
            // Threads of a CPU that sleep are woken up first, which the host sees as part of a wait.
            let most = device.get(name::LAUNCH_WAIT).ok().filter(|_| device.is_cpu());
            let likely = most.map(|most| (least.value * most.value).sqrt());
            found.range(Resource::Launch, Some(least), likely, most, true);
        }
        Err(why) => drop(found.missing.insert(why)),
    }
    found.add(Resource::Groups, Ok(starting(kernel, device)), counted_is_certain);
    if kernel.mix.is_some() || kernel.flop.is_some() {
        for precision in Precision::ALL {
            let beside = kernel.mix.as_ref().and_then(|m| beside_flop(m, device, precision));
            match arithmetic(kernel, device, precision) {
                Ok(least) => {
                    let most = beside.map(|b| least.map_or(b, |l| l.plus(b)));
                    let least = least.or(beside);
                    let certain = counted_is_certain && Some(least) != Some(beside);
                    let apart = kernel.mix.as_ref().filter(|_| !is_joined);
                    let apart = apart.and_then(|m| one_by_one(m, device, precision));
                    let most = most.or(least).zip(apart).map(|(m, a)| m.larger(a)).or(most);
                    let (least, most) = (least.map(wider), most.map(wider));
                    let likely = most.filter(|_| apart_alone && precision != Precision::Half);
                    let likely = likely.map(|most| most.value);
                    found.range(Resource::of(precision), least, likely, most, certain);
                }
                Err(why) => drop(found.missing.insert(why)),
            }
        }
    } else if let Err(why) = kernel.counted() {
        found.missing.insert(why);
    }
    if let Some(mix) = &kernel.mix {
        // Constant memory of a CPU is memory that is read.
        let apart = |r: &Resource| *r != Resource::ConstantMemory || !device.is_cpu();
        for resource in BY_CLASS.into_iter().filter(apart) {
            match takes(kernel, device, resource) {
                Ok(takes) => {
                    let may_join = is_joined && resource.is_issued_to();
                    let takes = takes.map(|t| if may_join { t.joined(JOINED) } else { t });
                    let (least, most) =
                        (takes.map(|t| wider(t.least)), takes.map(|t| wider(t.most)));
                    let likely = takes.map(|t| wider(t.likely).value);
                    found.range(resource, least, likely, most, false);
                }
                Err(why) => drop(found.missing.insert(why)),
            }
        }
        let special = takes(kernel, device, Resource::Special).map(|t| t.map(|t| wider(t.least)));
        found.add(Resource::Special, special, counted_is_certain);
        // Compilers merge instructions of the language that is counted.
        found.add(Resource::Issue, Ok(issue(kernel, device).map(wider)), false);
        // What banks give in so many passes, as their ceiling was measured with full ones; a CPU has
        // none. Atomics have a ceiling of their own.
        let local = [Class::LoadLocal, Class::StoreLocal].iter().filter_map(|c| mix.classes.get(c));
        let local = local.map(|tally| {
            let passes = tally.transactions.filter(|_| counted_is_certain);
            passes.map_or(tally.bytes, |passes| passes.saturating_mul(clscope_mix::PASS))
        });
        let local: u64 = local.sum();
        if local > 0 {
            let local = Figure::counted(local);
            // Of a CPU it is memory that lies in the nearest cache.
            let near = device.get(name::L1).ok().filter(|_| device.is_cpu());
            let rate = device.get(name::LOCAL).map(|r| near.map_or(r, |near| near.larger(r)));
            found.add(
                Resource::LocalMemory,
                rate.map(|r| Some(wider(local.over(r)))),
                counted_is_certain,
            );
        }
    }
    of_memory(kernel, device, (counted_is_certain, apart_alone), &mut found);
    let occupancy = latency::occupancy_on(device, kernel);
    let dependent = if kernel.blocks.is_empty() { DEPENDENT } else { 1.0 };
    let wait = waiting(kernel, device, occupancy);
    // Of a CPU all may take longer beside an addition.
    let most = wait.filter(|_| device.is_cpu()).map(|wait| wait.times(CYCLES[0] / FEWEST));
    let (longest, longest_most) = longest_group(kernel, device).unzip();
    let waits = [
        (Resource::Latency, wait, most),
        (Resource::UnevenGroups, longest, longest_most.flatten()),
    ];
    for (resource, wait, most) in waits {
        let Some(wait) = wait else { continue };
        // How the instructions of the longest group lie on its warps is not known.
        let open = most.filter(|_| resource == Resource::UnevenGroups);
        let likely = open.map_or(wait.value, |most| (wait.value * most.value).sqrt());
        let (ns, likely) = (wait.modelled(), dependent * likely);
        found.out.bounds.push(Bound { resource, ns, likely, most, certain: false });
    }
    let mut out = found.out;
    out.bounds.retain(|b| b.ns.value > 0.0);
    out.bounds.sort_by(|a, b| b.ns.value.total_cmp(&a.ns.value));
    out.missing = found.missing.into_iter().collect();
    out.occupancy = occupancy;
    out
}

/// Bounds of caches and memory beyond the compute unit.
fn of_memory(
    kernel: &Kernel,
    device: &Device,
    (counted_is_certain, apart_alone): (bool, bool),
    found: &mut Found,
) {
    let wider = |ns: Figure| ns.times(1.0 / units_used(kernel, device));
    let modelled = |ns: f64| Figure::exact(ns, Evidence::Modelled);
    let [near, farther, memory] = kernel.gathering(device).map(|ns| wider(modelled(ns)));
    if let Ok(bytes) = kernel.requested()
        && bytes.value > 0.0
    {
        match device.get(name::L1).or_else(|_| device.get(name::L2)) {
            Ok(rate) => {
                let most = kernel.cached().unwrap_or(bytes);
                // Pieces that were counted are moved.
                let counted = kernel.mix.as_ref().is_some_and(|m| m.sectors().is_some());
                let least = match certain_bytes(kernel, device).filter(|_| !counted) {
                    Some(certain) if counted_is_certain => certain,
                    _ => most,
                };
                let (least, mut most) = (wider(least.over(rate)), wider(most.over(rate)));
                // Where a CPU's compiler makes no vectors of items, or they gather, each access is
                // an instruction.
                let apart = device.get(name::CONSTANT_APART).ok().filter(|_| device.is_cpu());
                if let (Some(apart), Some(n)) = (apart, accesses(kernel, device)) {
                    most = most.larger(wider(Figure::counted(n).over(apart)));
                }
                // Each line takes its turn, and words of one bank follow one another.
                let lines = kernel.lines();
                let lines = device.get(name::GATHER_NEAR).map(|rate| lines / rate.value);
                let lines = lines.unwrap_or(0.0).max(kernel.banked() / rate.value);
                let lines = wider(modelled(lines)).plus(near);
                most = most.larger(lines);
                let likely = if apart_alone { most.larger(least) } else { least.larger(lines) };
                let likely = Some(likely.value);
                found.range(Resource::Cache, Some(least), likely, Some(most), counted_is_certain);
            }
            Err(why) => drop(found.missing.insert(why)),
        }
        // A unit's items read again what the launch touches: at the rate of a set of that size.
        let curve = kernel.footprint.and_then(|set| device.bandwidth_of(set));
        // No cache is slower than memory; the curve is of sets that items read, and not stream.
        let dram = device.get(name::DRAM_COPY).or_else(|_| device.get(name::DRAM));
        let dram = dram.map_or(0.0, |rate| rate.value);
        let last = device.get(name::L2).map(|rate| rate.value).ok();
        let rate = last.or(curve).map(|rate| rate.max(dram));
        if let (Some(traffic), Some(rate)) = (kernel.traffic(device), rate) {
            let ns = traffic.last.ns(device, rate, LAST);
            let least = modelled(ns).plus(farther);
            // Each access may fetch what no other does, where nothing says how soon others do: neither
            // counts, nor that a unit's own caches read all that the launch touches.
            let near = device.get(name::L1).is_ok_and(|l1| curve >= Some(NEARBY * l1.value));
            let all = kernel.beyond_nearest_at_most(device).or(near.then_some(traffic.last.bytes));
            let all = all.unwrap_or_else(|| in_pieces(kernel, device, bytes).value);
            let most = all / curve.unwrap_or(rate).min(rate);
            let most = modelled(most).plus(farther);
            found.range(Resource::LastCache, Some(least), None, Some(most), false);
        }
        if kernel.dram_bytes.is_none() {
            // What items of a warp share comes once, and what the last cache surely keeps, too.
            let once = kernel.pieces().filter(|pieces| pieces.value < bytes.value);
            let kept = device.kept_at_random();
            let set = kernel.footprint.filter(|set| kept.is_some_and(|kept| *set <= kept));
            let once = once.unwrap_or(bytes).value.min(set.unwrap_or(f64::INFINITY));
            let once = Figure::exact(once, Evidence::Counted);
            let time = device.get(name::DRAM).map(|r| Some(once.over(r).plus(memory)));
            found.add(Resource::MemoryIfMissed, time, false);
        }
    }
    if let Some(bytes) = kernel.dram_bytes {
        let time = device.get(name::DRAM).map(|r| Some(bytes.over(r)));
        found.add(Resource::Memory, time, true);
    }
}
