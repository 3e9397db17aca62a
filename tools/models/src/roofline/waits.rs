//! How long a launch waits for results: what one warp takes alone, with as many as fit at a time, and
//! in the longest of the groups. Refuses bounds of throughput.

use super::classes::ceiling_of;
use super::groups::{LONG, units_used};
use crate::device::{Device, name};
use crate::figure::{Evidence, Figure};
use crate::kernel::Kernel;
use crate::latency::{self, Occupancy};
use clscope_mix::{Class, Family, Instruction, Space};

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
pub(super) const CYCLES: [f64; 4] = [3.0, 1.0, 3.0, 4.0];

/// Cycles of an addition where it takes fewest (AMD's Zen 5): all else then waits longer than
/// [`CYCLES`] say.
pub(super) const FEWEST: f64 = 2.0;

/// Times that a division waits longer than the next one does: its unit is not pipelined.
const UNPIPELINED: f64 = 2.0;

/// Items of a vector of 64 bytes: what a compiler that joins items has under way at once.
pub(super) const JOINED: f64 = 16.0;

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

/// Time of the longest group alone, ns, where it is longer than others, and at most: nobody hides what
/// its warps wait for. Its longest warp takes what the mean of its warps does or more, up to all of
/// the group's instructions. Of a CPU see [`evenly_used`].
pub(super) fn longest_group(kernel: &Kernel, device: &Device) -> Option<(Figure, Option<Figure>)> {
    let times = kernel.longest_group.filter(|times| *times >= LONG && !device.is_cpu())?;
    let mean = one_warp(kernel, device)?.1.times(times);
    let warps = kernel.local?.div_ceil(u64::from(device.lanes.unwrap_or(1).max(1)));
    Some((mean, Some(mean.times(warps as f64)).filter(|_| warps > 1)))
}

/// Time of waiting with the warps that fit, ns.
pub(super) fn waiting(
    kernel: &Kernel,
    device: &Device,
    occupancy: Option<Occupancy>,
) -> Option<Figure> {
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
