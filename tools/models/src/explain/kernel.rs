//! One kernel in words: what it does, what binds it, what could change. Refuses a verdict that no
//! bound supports.

use super::words::{bytes, doubt, many, percent, time};
use super::{
    Explanatory, FirstLaunches, Lever, MANY_LAUNCHES, SHORT_LAUNCH_NS, Statement, Sure, joules,
    verdict,
};
use crate::device::{Device, name};
use crate::figure::{Evidence, Figure, Missing};
use crate::kernel::Kernel;
use crate::latency::Occupancy;
use crate::roofline::{Bounds, Resource, bounds};
use crate::waves;
use clscope_io::text::count;
use clscope_mix::Space;

pub(super) fn explain(of: &Kernel, device: Option<&Device>, share: Option<f64>) -> Explanatory {
    let of = &device.map_or_else(|| of.clone(), |d| of.clone().on(d));
    let mut out = Explanatory {
        kernel: of.name.clone(),
        launches: of.launches,
        time_ns: of.time_ns,
        first_launches: of.first.map(|first| FirstLaunches {
            launches: first.launches,
            excess_ns: first.excess_ns,
            later_ns: first.later_ns,
        }),
        share,
        items: of.items,
        local: of.local,
        flop: of.flop().ok(),
        requested_bytes: of.requested().ok(),
        dram_bytes: of.dram_bytes,
        bounds: Vec::new(),
        modelled_time_ns: None,
        limit: None,
        sure: None,
        reached: None,
        next: None,
        decide: None,
        joules: of.joules,
        modelled_joules: None,
        joule_parts: Vec::new(),
        access_rates: None,
        statements: Vec::new(),
        levers: Vec::new(),
        missing: Vec::new(),
    };
    does(of, &mut out);
    let mut model = device.map(|d| bounds(of, d));
    if let (Some(model), Some(took)) = (&mut model, of.later_ns()) {
        verdict::refute(model, of.work_ns().unwrap_or(took), &mut out);
    }
    match (&model, of.later_ns()) {
        (Some(model), Some(took)) => verdict::explain(of, (device, model), took, &mut out),
        (_, None) => out.missing.push(Missing::new(
            "its launches were not timed",
            "`clscope record` with device timing on",
        )),
        (None, _) => out.missing.extend(of.counted().err()),
    }
    launch(of, device, &mut out);
    groups(of, device, model.as_ref(), &mut out);
    accesses(of, device, model.as_ref(), &mut out);
    divergence(of, device, model.as_ref(), &mut out);
    joules::explain(of, device, &mut out);
    if let Some(model) = model {
        out.bounds = model.bounds;
        out.missing.extend(model.missing);
    }
    out.missing.sort();
    out.missing.dedup();
    let gain = |l: &Lever| l.saves_ns.map_or(0.0, |f| f.value);
    out.levers.sort_by(|a, b| gain(b).total_cmp(&gain(a)));
    out
}

fn does(of: &Kernel, out: &mut Explanatory) {
    let mut parts = Vec::new();
    if let Ok(flop) = of.flop()
        && flop.value > 0.0
    {
        parts.push(format!("{} ({})", many(flop.value, "FLOP"), of.precision().name()));
    }
    if let Ok(asked) = of.requested()
        && asked.value > 0.0
    {
        parts.push(format!("{} asked of memory", bytes(asked.value)));
    }
    if let Ok(local) = of.local_traffic()
        && local.value > 0.0
    {
        parts.push(format!("{} through local memory", bytes(local.value)));
    }
    if !parts.is_empty() {
        let evidence = if of.mix.is_some() { Evidence::Counted } else { Evidence::Given };
        out.statements.push(Statement::new("does", evidence, parts.join(", ")));
    }
    if let Some(mix) = &of.mix {
        let total = mix.total();
        let top: Vec<String> = of
            .shares()
            .iter()
            .take(4)
            .map(|(class, share)| format!("{} {}", class.name(), percent(*share)))
            .collect();
        let all = total.warps.map_or_else(
            || many(total.threads as f64, "instructions"),
            |warps| many(warps as f64, "warp instructions"),
        );
        out.statements.push(Statement::new(
            "does",
            Evidence::Counted,
            format!("{all}: {}", top.join(", ")),
        ));
    }
    if let Some(moved) = of.dram_bytes {
        let text = match of.requested() {
            Ok(asked) if asked.value > moved.value => format!(
                "measured: memory moved {}{}: {} of what was asked for, and caches served the rest",
                bytes(moved.value),
                doubt(moved),
                percent(moved.value / asked.value)
            ),
            _ => format!("measured: memory moved {}{}", bytes(moved.value), doubt(moved)),
        };
        out.statements.push(Statement::new("memory", Evidence::Measured, text));
    }
    if let Some(least) = of.at_least {
        let text = format!(
            "measured: at least {} came from memory, and {} from behind the nearest cache",
            bytes(least.memory.bytes),
            bytes(least.last.bytes)
        );
        out.statements.push(Statement::new("memory", Evidence::Measured, text));
    }
    out.statements.extend(busy(of));
}

/// What counters say of units, in one sentence, the busiest first.
fn busy(of: &Kernel) -> Option<Statement> {
    let mut all: Vec<(&str, f64)> =
        of.busy.iter().map(|(resource, share)| (resource.name(), share.value)).collect();
    all.extend(of.dram_share.map(|share| (Resource::Memory.name(), share.value)));
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut parts: Vec<String> = all
        .iter()
        .map(|(name, share)| format!("{name} {}", percent(share.clamp(0.0, 1.0))))
        .collect();
    if let Some(share) = of.units_busy {
        parts.insert(0, format!("compute units {}", percent(share.value.clamp(0.0, 1.0))));
    }
    if parts.is_empty() {
        return None;
    }
    let text = format!("measured: busy part of the time: {}", parts.join(", "));
    Some(Statement::new("busy", Evidence::Measured, text))
}

/// Share of a launch that an empty one takes, from which on it is short.
const SHORT: f64 = 0.25;

/// Time of a launch without work, ns.
fn empty_ns(of: &Kernel, device: Option<&Device>) -> Option<f64> {
    Some(bounds(of, device?).by_resource(Resource::Launch)?.likely)
}

/// The share of its time that an empty kernel takes, of a launch that is short.
pub(super) fn short(of: &Kernel, device: Option<&Device>) -> Option<f64> {
    let share = empty_ns(of, device)? / of.later_ns()?.value;
    Some(share).filter(|share| *share >= SHORT)
}

/// Mean time of a later launch without what launching costs, ns: what a change of the work could save.
pub(super) fn beyond_launch(of: &Kernel, device: Option<&Device>) -> Option<f64> {
    let worked = of.work_ns()?.value;
    let launch = device.and_then(|d| d.get(name::LAUNCH).ok()).map_or(0.0, |l| l.value);
    Some((worked - launch).max(0.0))
}

/// What a share of one resource's time is over all launches, ns, where the model knows that time:
/// no change of accesses or branches saves more than the resource takes, nor launching.
fn share_of(
    of: &Kernel,
    device: Option<&Device>,
    model: Option<&Bounds>,
    resources: &[Resource],
    share: f64,
) -> Option<Figure> {
    let times = resources.iter().filter_map(|r| Some(model?.by_resource(*r)?.ns.value));
    let takes = times.reduce(f64::max)?.min(beyond_launch(of, device)?);
    let most = takes * share * of.launches as f64;
    (most > 0.0).then(|| Figure::new(most, 0.0, most, Evidence::Modelled))
}

fn launch(of: &Kernel, device: Option<&Device>, out: &mut Explanatory) {
    let (Some(took), launches) = (of.later_ns(), of.launches as f64) else { return };
    if let Some(first) = of.first {
        let which = match first.launches {
            1 => "the first launch".to_owned(),
            n => format!("{n} first launches, of a program and size each,"),
        };
        out.statements.push(Statement::new(
            "launch",
            Evidence::Measured,
            format!(
                "{which} took {} longer than those after: runtimes may compile a kernel then; \
                 bounds and savings here are of {} a launch, without that",
                time(first.excess_ns),
                time(first.later_ns.value)
            ),
        ));
    }
    if let Some(bias) = of.bias_ns.filter(|b| b.value >= 0.1 * took.value) {
        out.statements.push(Statement::new(
            "launch",
            Evidence::Measured,
            format!(
                "{} of each {} is the runtime's own work, measured by calibration",
                time(bias.value),
                time(took.value)
            ),
        ));
    }
    let period = device.and_then(|d| d.get(name::LAUNCH_PERIOD).ok());
    let empty = empty_ns(of, device).map(|ns| Figure::exact(ns, Evidence::Measured));
    if let Some(empty) = empty.filter(|_| short(of, device).is_some()) {
        out.statements.push(Statement::new(
            "launch",
            Evidence::Measured,
            format!(
                "too short: an empty kernel takes {}, {} of its time",
                time(empty.value),
                percent((empty.value / took.value).min(1.0))
            ),
        ));
        if of.launches >= 2 {
            let each = period.map_or(empty, |p| p.larger(empty));
            out.levers.push(Lever {
                text: format!("{launches} launches in one would save what launching takes"),
                saves_ns: Some(each.times(launches - 1.0).modelled()),
                saves_joules: None,
                evidence: Evidence::Modelled,
            });
        }
    } else if empty.is_none() && took.value < SHORT_LAUNCH_NS && of.launches >= MANY_LAUNCHES {
        out.statements.push(Statement::new(
            "launch",
            Evidence::Measured,
            format!(
                "{launches} launches of {} each: launching and waiting may take longer than the work",
                time(took.value)
            ),
        ));
    }
}

fn groups(of: &Kernel, device: Option<&Device>, model: Option<&Bounds>, out: &mut Explanatory) {
    let units = device.map(|d| d.compute_units).or(of.compute_units).map(u64::from);
    let total = beyond_launch(of, device).map(|ns| ns * of.launches as f64);
    if let (Some(groups), Some(units)) = (of.groups(), units)
        && groups < units
    {
        let used = groups as f64 / units as f64;
        out.statements.push(Statement::new(
            "groups",
            Evidence::Counted,
            format!(
                "{} for {units} compute units: {} of them can work",
                count(groups, "group", "groups"),
                percent(used)
            ),
        ));
        let small = of.local.is_some_and(|l| l > 64);
        out.levers.push(Lever {
            text: format!(
                "at least {units} groups{}",
                if small { ", smaller ones if there is no more work" } else { "" }
            ),
            saves_ns: total
                .map(|t| Figure::new(t * (1.0 - used), 0.0, t * (1.0 - used), Evidence::Modelled)),
            saves_joules: None,
            evidence: Evidence::Counted,
        });
    }
    if of.items == Some(1) && of.launches > 0 {
        let text = "one work-item: all but one lane of one compute unit wait".to_owned();
        out.statements.push(Statement::new("groups", Evidence::Counted, text));
    }
    if let (Some(local), Some(lanes)) = (of.local, device.and_then(|d| d.lanes).map(u64::from))
        && local % lanes != 0
    {
        let busy = local as f64 / (local.div_ceil(lanes) * lanes) as f64;
        out.statements.push(Statement::new(
            "groups",
            Evidence::Counted,
            format!(
                "groups of {} fill {} of their warps' {lanes} lanes",
                count(local, "item", "items"),
                percent(busy)
            ),
        ));
    }
    let occupancy = model.and_then(|m| m.occupancy);
    if let Some(o) = occupancy {
        resident(of, device, o, out);
    }
    let slots = units.zip(occupancy.map(|o| o.groups)).map(|(u, g)| u * g);
    if let (Some(groups), Some(slots)) = (of.groups(), slots)
        && let Some(w) = waves::waves(groups, slots).filter(|w| w.waves > 1 && w.lost > 0.05)
    {
        out.statements.push(Statement::new(
            "wave",
            Evidence::Modelled,
            format!(
                "{groups} groups run in {} waves of {slots}; the last is {} full: up to {} of the time",
                w.waves,
                percent(w.last),
                percent(w.lost)
            ),
        ));
        let full = (w.waves - 1) * slots;
        out.levers.push(Lever {
            text: format!(
                "{} instead of {groups} (more work in each) would need one wave less",
                count(full, "group", "groups")
            ),
            saves_ns: total.map(|t| Figure::new(t * w.lost, 0.0, t * w.lost, Evidence::Modelled)),
            saves_joules: None,
            evidence: Evidence::Modelled,
        });
    }
}

/// How many warps a compute unit holds: as many as fit, or as were launched for it.
fn resident(of: &Kernel, device: Option<&Device>, fit: Occupancy, out: &mut Explanatory) {
    let launched = device.and_then(|d| {
        let warps = of.local?.div_ceil(u64::from(d.lanes?.max(1)));
        Some(of.groups()? as f64 * warps as f64 / f64::from(d.compute_units.max(1)))
    });
    let most = if fit.at_most { "at most " } else { "" };
    let mut put = |text| out.statements.push(Statement::new("occupancy", Evidence::Modelled, text));
    // Rounds over units of devices that hold part of a group are none.
    let Some(launched) = launched.filter(|launched| *launched < 0.99 * fit.warps as f64) else {
        let limiter = if fit.share < 1.0 {
            format!(", limited by {}", fit.limiter.name())
        } else {
            String::new()
        };
        put(format!("{most}{} warps resident, {}{limiter}", fit.warps, percent(fit.share)));
        return;
    };
    put(format!(
        "{launched:.1} warps a compute unit, {}, limited by groups launched: {most}{} would fit",
        percent(launched / fit.warps as f64 * fit.share),
        fit.warps
    ));
    if is_open(out) || out.limit == Some(Resource::Latency) {
        out.levers.push(Lever {
            text:
                "more groups, or smaller ones that spread more evenly: no compute unit has all the \
                   warps that it could hold"
                    .to_owned(),
            saves_ns: None,
            saves_joules: None,
            evidence: Evidence::Modelled,
        });
    }
}

/// Whether the verdict leaves other causes open.
fn is_open(out: &Explanatory) -> bool {
    out.sure.is_none_or(|sure| sure == Sure::Likely)
}

/// Transactions above the least from which on it is worth a word, as a factor.
const SCATTERED: f64 = 1.25;

/// How warps' accesses lie in memory, and what moving them together would save.
fn accesses(of: &Kernel, device: Option<&Device>, model: Option<&Bounds>, out: &mut Explanatory) {
    let Some(mix) = &of.mix else { return };
    let may_be_scattered = is_open(out)
        || matches!(
            out.limit,
            Some(Resource::Cache | Resource::LastCache | Resource::LocalMemory | Resource::Latency)
        );
    let counted = mix.sectors().is_some() || mix.passes().is_some();
    let reaches = mix.bytes(Space::Global) > 0 || mix.bytes(Space::Local) > 0;
    if may_be_scattered && !counted && reaches && mix.total().warps.is_some() {
        out.missing.push(Missing::new(
            "how the accesses of warps lie in memory was not counted",
            "`clscope record --mix=accesses`",
        ));
    }
    if let Some((near, last)) = device.and_then(|device| of.misses(device)) {
        let of_loads = near.map_or_else(String::new, |near| {
            format!(
                "the nearest cache misses {} of the pieces of 32 bytes that are loaded, and ",
                percent(near)
            )
        });
        let text = format!(
            "{of_loads}the last cache misses {} of the pieces that are touched",
            percent(last)
        );
        out.statements.push(Statement::new("accesses", Evidence::Modelled, text));
    }
    // With the limits under which they matter, and the resources whose time they are.
    let memories: [(_, _, _, &[Resource], &[Resource], _); 2] = [
        (
            mix.sectors(),
            "global memory",
            "pieces of 32 bytes",
            &[
                Resource::Cache,
                Resource::LastCache,
                Resource::Memory,
                Resource::MemoryIfMissed,
                Resource::Latency,
            ],
            &[Resource::Cache, Resource::LastCache],
            "neighbouring items that access neighbouring words would move fewer bytes",
        ),
        (
            mix.passes(),
            "local memory",
            "passes through its banks",
            &[Resource::LocalMemory],
            &[Resource::LocalMemory],
            "rows of local memory that are padded by one word, or another order of items, would share the banks",
        ),
    ];
    for (accesses, memory, what, limits, takes, change) in memories {
        let Some(a) = accesses.filter(|a| a.least > 0.0) else { continue };
        let more = a.transactions as f64 / a.least;
        let mut text = format!("a warp's access to {memory} takes {:.1} {what}", a.a_warp());
        if more >= SCATTERED {
            let least = a.least_a_warp();
            text += &format!("; items that access words side by side would take {least:.1}");
        }
        out.statements.push(Statement::new("accesses", Evidence::Counted, text));
        if more >= SCATTERED && (is_open(out) || out.limit.is_some_and(|l| limits.contains(&l))) {
            let most = 1.0 - 1.0 / more;
            out.levers.push(Lever {
                text: format!("{change}: {} of them less", percent(most)),
                saves_ns: share_of(of, device, model, takes, most),
                saves_joules: None,
                evidence: Evidence::Modelled,
            });
        }
    }
}

fn divergence(of: &Kernel, device: Option<&Device>, model: Option<&Bounds>, out: &mut Explanatory) {
    let lanes = device.and_then(|d| d.lanes).or(Some(32));
    let Some(busy) = of.lanes_busy(lanes) else { return };
    out.statements.push(Statement::new(
        "divergence",
        Evidence::Counted,
        format!("lanes busy {}", percent(busy.min(1.0))),
    ));
    let is_issued = matches!(out.limit, Some(Resource::Issue | Resource::Latency));
    if busy < 0.85 && (is_open(out) || is_issued) {
        // Warps that part issue for fewer lanes, and wait for each branch by itself.
        let takes: &[Resource] = match out.limit {
            Some(Resource::Latency) => &[Resource::Issue, Resource::Integer, Resource::Latency],
            _ => &[Resource::Issue, Resource::Integer],
        };
        out.levers.push(Lever {
            text: "items of a warp that take the same branches would fill the idle lanes"
                .to_owned(),
            saves_ns: share_of(of, device, model, takes, 1.0 - busy),
            saves_joules: None,
            evidence: Evidence::Modelled,
        });
    }
    if let Some(mix) = &of.mix {
        let spilled = mix.bytes(Space::Private);
        if spilled > 0 {
            out.statements.push(Statement::new(
                "memory",
                Evidence::Counted,
                format!(
                    "{} go to private memory: spilled registers or arrays",
                    bytes(spilled as f64)
                ),
            ));
        }
    }
}
