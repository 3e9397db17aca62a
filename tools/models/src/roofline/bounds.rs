//! Bounds of throughput: what each resource needs at least for what a kernel does, by the device's
//! measured ceilings, and at most where that depends on operands and addresses. Refuses to choose
//! among them: the verdict does.

use super::classes::{beside_flop, ceiling_of, with_idle_lanes};
use super::takes::takes;
use super::{Resource, ceiling};
use crate::device::{Device, name};
use crate::figure::{Evidence, Figure, Missing};
use crate::kernel::Kernel;
use crate::latency::{self, Occupancy};
use crate::traffic::{LAST, is_cached};
use clscope_mix::{Class, Family, Instruction, Mix, Precision, Space};
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

/// Share of the device's compute units that a launch can use: a group runs on one of them.
pub fn units_used(kernel: &Kernel, device: &Device) -> f64 {
    let units = f64::from(device.compute_units.max(1));
    let groups = kernel.groups().map_or(f64::INFINITY, |groups| groups as f64);
    (groups / units).min(evenly_used(kernel, device).unwrap_or(1.0)).min(1.0)
}

/// Share of a CPU's compute units that a launch can use because one of its groups does so much more
/// than the others that it ends last, whatever runs beside it; `None` where none does.
pub fn evenly_used(kernel: &Kernel, device: &Device) -> Option<f64> {
    let units = f64::from(device.compute_units.max(1));
    let times = kernel.longest_group.filter(|times| device.is_cpu() && *times >= LONG)?;
    let used = kernel.groups()? as f64 / (times * units);
    Some(used).filter(|used| *used < 1.0)
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
    // One of the language may be several of the device's, or a part of one.
    let several = kernel.blocks.iter().map(|(block, entered)| {
        let more = block.instructions.iter().map(|i| f64::from(i.steps) - 1.0).sum::<f64>();
        entered * more
    });
    Some(device.get(name::ISSUE).ok()?.times((warps + several.sum::<f64>()) / units))
}

/// How long an instruction's result takes, ns, by where the kernel's data fit.
fn latency_of(kernel: &Kernel, device: &Device, class: Class) -> Option<Figure> {
    let add = device.get(name::LATENCY_ADD).ok()?;
    let of = |n: &str| device.get(n).unwrap_or(add);
    if device.is_cpu() && class.memory().is_none() {
        return Some(on_cpu(device, class, add));
    }
    // Of what is asked for, the shares that go past the nearest cache, and past the last one.
    let requested = kernel.requested().map_or(0.0, |b| b.value).max(1.0);
    let traffic = kernel.traffic(device).unwrap_or_default();
    let last = (traffic.last.bytes / requested).clamp(0.0, 1.0);
    let memory = (traffic.memory.bytes / requested).clamp(0.0, last);
    Some(match class.memory() {
        // Nobody waits for a store.
        _ if class.stores() => Figure::exact(0.0, Evidence::Modelled),
        // The last warp of the group comes when all others have passed.
        _ if class == Class::Barrier => {
            let lanes = f64::from(device.lanes.unwrap_or(1).max(1));
            let others = kernel.local.map_or(0.0, |items| (items as f64 / lanes).ceil() - 1.0);
            let units = f64::from(device.compute_units.max(1));
            let each = device.get(name::BARRIER).map_or(0.0, |rate| lanes * units / rate.value);
            of(name::LATENCY_BARRIER).plus(Figure::exact(others * each, Evidence::Modelled))
        }
        Some(Space::Local) => of(name::LATENCY_LOCAL),
        // What a CPU's items access in order is fetched ahead.
        Some(_) if device.is_cpu() => of(name::LATENCY_LOCAL),
        Some(Space::Constant) => add,
        // The nearest cache and local memory are one memory on many devices; the last cache lies
        // about half way to memory.
        Some(_) => {
            let apart = kernel.gathers();
            let beside = of(name::LATENCY_MEMORY);
            let far = beside.times(1.0 - apart).plus(of(name::LATENCY_RANDOM).times(apart));
            let near = of(name::LATENCY_LOCAL).times(1.0 - last);
            near.plus(beside.times(0.5 * (last - memory))).plus(far.times(memory))
        }
        None if class.family() == Family::Special => of(name::LATENCY_SPECIAL),
        None => add,
    })
}

/// Cycles that a CPU takes for an addition of floating-point numbers, for one of integers, a product
/// of integers and a fused multiply-add: Intel, *Optimization Reference Manual*, and AMD, *Software
/// Optimization Guide*, of all cores since 2017 within a cycle.
const CYCLES: [f64; 4] = [3.0, 1.0, 3.0, 4.0];

/// Cycles of an addition where it takes fewest (AMD's Zen 5): all else then waits longer than
/// [`CYCLES`] say.
const FEWEST: f64 = 2.0;

/// Times that a division waits longer than the next one does: its unit is not pipelined.
const UNPIPELINED: f64 = 2.0;

/// Items of a vector of 64 bytes: what a compiler that joins items has under way at once.
const JOINED: f64 = 16.0;

/// Items that a compute unit of a CPU has under way at once: one after another, but where the
/// compiler joins them, or so few instructions make an item that the next ones have begun.
fn at_once(kernel: &Kernel, device: &Device) -> f64 {
    joined(device) * items_ahead(kernel, joined(device))
}

/// Items that a core does at once where its compiler joins them.
fn joined(device: &Device) -> f64 {
    if device.joins_items() { JOINED } else { 1.0 }
}

/// How many items, or vectors of so many, a core looks ahead over.
fn items_ahead(kernel: &Kernel, joined: f64) -> f64 {
    let all = kernel.mix.as_ref().map_or(0, |mix| mix.total().threads) as f64;
    let each = all / kernel.items.unwrap_or(1).max(1) as f64;
    (WINDOW / (joined * each).max(1.0)).max(1.0)
}

/// Instructions that a CPU looks ahead: 224 of Intel's Skylake to 512 of its later cores, and 320
/// of AMD's Zen 4 (their optimization guides).
const WINDOW: f64 = 256.0;

/// How long a CPU's result takes, ns, of what does not access memory.
fn on_cpu(device: &Device, class: Class, add: Figure) -> Figure {
    let [of_add, of_integer, of_product, of_fused] = CYCLES;
    let unit = f64::from(device.compute_units.max(1)) * joined(device);
    // As long as the next of its kind, or longer.
    let by_rate = |keys: &[&str]| {
        let rate = keys.iter().find_map(|key| device.get(key).ok());
        rate.map_or(add, |rate| Figure::counted(1).over(rate).times(UNPIPELINED * unit))
    };
    match class {
        Class::Move | Class::Branch | Class::Call | Class::Barrier | Class::Fence => {
            Figure::exact(0.0, Evidence::Modelled)
        }
        Class::IntArith
        | Class::LongArith
        | Class::IntLogic
        | Class::LongLogic
        | Class::IntCompare => add.times(of_integer / of_add),
        // Bits are counted in as many cycles as a product takes (the same manuals).
        Class::IntMul | Class::LongMul | Class::IntBits => add.times(of_product / of_add),
        Class::HalfFma | Class::SingleFma | Class::DoubleFma => add.times(of_fused / of_add),
        Class::IntDiv | Class::LongDiv | Class::HalfDiv | Class::SingleDiv | Class::DoubleDiv => {
            by_rate(ceiling_of(class).map_or(&[], |c| c.best))
        }
        _ if class.family() == Family::Special => device.get(name::LATENCY_SPECIAL).unwrap_or(add),
        _ => add,
    }
}

/// What a warp of a short kernel lives longer than its instructions take: it is started, its code
/// and arguments are fetched, its place is given to the next one. ns, from an H100: of streams, a
/// stencil and sorting steps in groups of 256, whose time follows the groups that fit where 5 or 6
/// of 8 do, it comes out at 430 to 600.
const TURN_NS: f64 = 500.0;

/// Warps of a launch, and the time of one of them alone, ns: by the dependences of the code where that
/// is known, else as if every instruction waited for the one before.
fn one_warp(kernel: &Kernel, device: &Device) -> Option<(f64, Figure)> {
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
    let none = Figure::exact(0.0, Evidence::Modelled);
    let latency = |class| latency_of(kernel, device, class).unwrap_or(none);
    let one = if kernel.blocks.is_empty() {
        mix.classes.iter().fold(Figure::exact(0.0, Evidence::Modelled), |sum, (class, tally)| {
            let issued = tally.warps.unwrap_or(tally.threads) as f64;
            sum.plus(latency(*class).times(issued / warps))
        })
    } else {
        let beside = items_ahead(kernel, joined(device));
        // A scheduler issues one instruction a cycle, and a unit has four.
        let issue = device.get(name::ISSUE).map_or(0.0, |slot| 4.0 * slot.value);
        let sum: f64 = kernel
            .blocks
            .iter()
            .map(|(block, times)| {
                let latency = |class| latency(class).value;
                let by_set =
                    |access: &Instruction| kernel.over_places(access, |set| device.latency_of(set));
                let takes = match device.is_cpu() {
                    true => {
                        let (each, alone) =
                            latency::turn(block, |i| by_set(i).unwrap_or(latency(i.class)));
                        // Turns and items that gather overlap as far as the core looks ahead.
                        let gathers = block.instructions.iter().any(|i| i.gathers.is_some());
                        let ahead = block.instructions.len() as f64 * beside / WINDOW;
                        each.max(if gathers { alone * ahead.min(1.0) } else { 0.0 })
                    }
                    false => latency::pass(block, issue, latency),
                };
                times / warps * takes
            })
            .sum();
        Figure::exact(sum, Evidence::Modelled)
    };
    Some((warps, one))
}

/// A group that is so many times as long as the mean ends after the others.
pub const LONG: f64 = 2.0;

/// Time of the longest group alone, ns, where it is longer than others, and at most: nobody hides what
/// its warps wait for. Its longest warp takes what the mean of its warps does or more, up to all of
/// the group's instructions. Of a CPU see [`evenly_used`].
fn longest_group(kernel: &Kernel, device: &Device) -> Option<(Figure, Option<Figure>)> {
    let times = kernel.longest_group.filter(|times| *times >= LONG && !device.is_cpu())?;
    let mean = one_warp(kernel, device)?.1.times(times);
    let warps = kernel.local?.div_ceil(u64::from(device.lanes.unwrap_or(1).max(1)));
    Some((mean, Some(mean.times(warps as f64)).filter(|_| warps > 1)))
}

/// Time of waiting with the warps that fit, ns.
fn waiting(kernel: &Kernel, device: &Device, occupancy: Option<Occupancy>) -> Option<Figure> {
    let (warps, one) = one_warp(kernel, device)?;
    let lanes = u64::from(device.lanes.unwrap_or(1).max(1));
    let units = f64::from(device.compute_units.max(1)) * units_used(kernel, device);
    // Limits of devices that are not known are taken to hold all.
    let most = match occupancy {
        Some(occupancy) => occupancy.warps as f64,
        None if device.is_cpu() => at_once(kernel, device),
        None => 64.0,
    };
    let under_way = kernel.under_way(device).map_or(most, |items| items / lanes as f64);
    let resident = most.min(under_way.max(1.0)).min((warps / units).max(1.0));
    let rounds = (warps / (units * resident)).max(1.0);
    let turn = if occupancy.is_some() { TURN_NS } else { 0.0 };
    let all = one.plus(Figure::exact(turn, Evidence::Modelled)).times(rounds).modelled();
    Some(Figure { low: 0.0, ..all })
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
