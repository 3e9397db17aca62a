//! One kernel in words: what it does, what binds it, what could change. Refuses a verdict that no
//! bound supports.

use super::words::{bytes, doubt, joules, many, percent, time};
use super::{Explanatory, Lever, MANY_LAUNCHES, SHORT_LAUNCH_NS, Statement};
use crate::device::{Device, name};
use crate::energy;
use crate::figure::{Evidence, Figure, Missing};
use crate::kernel::Kernel;
use crate::roofline::{Bounds, Resource, bounds, likely, moving};
use crate::waves;
use clscope_mix::{Class, Precision, Space};

/// From this share of its ceiling on, a resource is what the time is spent on.
const BOUND: f64 = 0.6;

pub(super) fn explain(of: &Kernel, device: Option<&Device>, share: Option<f64>) -> Explanatory {
    let of = &device.map_or_else(|| of.clone(), |d| of.clone().on(d));
    let mut out = Explanatory {
        kernel: of.name.clone(),
        launches: of.launches,
        time_ns: of.time_ns,
        share,
        items: of.items,
        local: of.local,
        flop: of.flop().ok(),
        requested_bytes: of.requested().ok(),
        dram_bytes: of.dram_bytes,
        bounds: Vec::new(),
        modelled_time_ns: None,
        limit: None,
        reached: None,
        joules: of.joules,
        modelled_joules: None,
        joule_parts: Vec::new(),
        statements: Vec::new(),
        levers: Vec::new(),
        missing: Vec::new(),
    };
    does(of, &mut out);
    let model = device.map(|d| bounds(of, d));
    match (&model, of.time_ns) {
        (Some(model), Some(took)) => verdict(of, (device, model), took, &mut out),
        (_, None) => out.missing.push(Missing::new(
            "its launches were not timed",
            "`clscope record` with device timing on",
        )),
        (None, _) => out.missing.extend(of.counted().err()),
    }
    launch(of, device, &mut out);
    groups(of, device, model.as_ref(), &mut out);
    accesses(of, &mut out);
    divergence(of, device, &mut out);
    energy(of, device, &mut out);
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
            Ok(asked) if asked.value > 0.0 => format!(
                "memory moved {}{}: {} of what was asked for",
                bytes(moved.value),
                doubt(moved),
                percent(moved.value / asked.value)
            ),
            _ => format!("memory moved {}{}", bytes(moved.value), doubt(moved)),
        };
        out.statements.push(Statement::new("memory", Evidence::Measured, text));
    }
}

fn verdict(
    of: &Kernel,
    (device, model): (Option<&Device>, &Bounds),
    took: Figure,
    out: &mut Explanatory,
) {
    out.modelled_time_ns = device.and_then(|d| likely(of, d, model));
    let list: Vec<String> = model
        .bounds
        .iter()
        .filter(|b| b.resource != Resource::Latency)
        .take(5)
        .map(|b| format!("{} {}", time(b.ns.value), b.resource.name()))
        .collect();
    if !list.is_empty() {
        let mut text = format!("needs at least {}", list.join(" | "));
        if let Some(all) = out.modelled_time_ns {
            text += &format!("; likely {}", time(all.value));
        }
        out.statements.push(Statement::new("bounds", Evidence::Modelled, text));
    }
    let worked = of.work_ns().map_or(took.value, |t| t.value).max(1.0);
    let Some(binding) = model.binding() else { return };
    let reached = binding.ns.value / worked;
    // Of memory what it is likely to move: all that was asked for is too much where caches serve.
    let moved = device.filter(|_| of.dram_bytes.is_none()).and_then(|d| moving(of, d));
    let share = |r: Resource| model.by_resource(r).map(|b| (r, b.ns.value / worked));
    let conditional = [
        moved.map(|ns| (Resource::MemoryIfMissed, ns / worked)),
        share(Resource::Integer),
        share(Resource::Issue),
        share(Resource::LastCache),
        share(Resource::Atomics),
    ];
    let conditional = conditional
        .into_iter()
        .flatten()
        .filter(|(_, s)| *s >= BOUND && *s > reached)
        .max_by(|a, b| a.1.total_cmp(&b.1));
    let wait = model.by_resource(Resource::Latency).map(|b| b.ns.value / worked);
    let (limit, reached, text) = match (binding.resource, conditional) {
        (_, Some((Resource::MemoryIfMissed, share))) => {
            let text = format!(
                "as slow as memory that moves each buffer once: {} of that; what memory moved is not known",
                percent(share.min(1.0))
            );
            (Some(Resource::MemoryIfMissed), Some(share), text)
        }
        (_, Some((resource, share))) => {
            let condition = match resource {
                Resource::LastCache => "if the nearest cache serves what neighbours share",
                Resource::Atomics => "if each has a word of its own",
                _ => "if the compiler merged nothing",
            };
            let text = format!(
                "bound by {}: {} of the time, {condition}",
                resource.name(),
                percent(share.min(1.0))
            );
            (Some(resource), Some(share), text)
        }
        (resource, _) if reached >= BOUND => {
            let rest = if reached > 1.02 {
                // A bound is a bound: the ceiling, or the count, does not fit this launch.
                ": above it, so the ceiling was measured too low or the clock was lower then"
            } else {
                ""
            };
            let text = format!(
                "bound by {}: at {} of its ceiling{rest}",
                resource.name(),
                percent(reached)
            );
            (Some(resource), Some(reached), text)
        }
        (..) if wait.is_some_and(|w| w >= 0.5) => {
            let text = format!(
                "waits: no ceiling is near ({} is closest, at {}), and dependent instructions take up to {} with the warps that fit",
                binding.resource.name(),
                percent(reached),
                time(wait.unwrap_or(0.0) * worked)
            );
            (Some(Resource::Latency), None, text)
        }
        (Resource::Launch, _) => {
            let text = "what limits it is not known: only what a launch costs bounds it".to_owned();
            (None, None, text)
        }
        (resource, _) => {
            let text = format!(
                "no ceiling explains its time: {} is closest, at {}; conflicts, cache misses or dependences can",
                resource.name(),
                percent(reached)
            );
            (None, Some(reached), text)
        }
    };
    (out.limit, out.reached) = (limit, reached);
    out.statements.push(Statement::new("verdict", Evidence::Modelled, text));
    levers_of(of, model, worked, limit, out);
}

/// What one would change about the resource that binds, with what the next bound leaves to gain.
fn levers_of(
    of: &Kernel,
    model: &Bounds,
    worked: f64,
    limit: Option<Resource>,
    out: &mut Explanatory,
) {
    let Some(limit) = limit else { return };
    let binding = model.by_resource(limit).map_or(0.0, |b| b.ns.value);
    let next = model
        .bounds
        .iter()
        .filter(|b| b.certain && b.resource != limit)
        .map(|b| b.ns.value)
        .fold(0.0, f64::max);
    let launches = of.launches as f64;
    // Halving what binds: its part shrinks until the next bound holds.
    let half = (binding / 2.0).max(next).min(binding);
    let gain = worked * (1.0 - half / binding.max(1e-9)) * launches;
    let text = match (limit, &of.mix) {
        (Resource::LocalMemory, Some(mix)) => {
            let loads = mix.classes.get(&Class::LoadLocal).map_or(0, |t| t.threads) as f64;
            let flop: f64 = Precision::ALL.iter().map(|p| mix.flop(*p) as f64).sum();
            let each = flop / loads.max(1.0);
            format!(
                "each load from local memory feeds {each:.1} FLOP: more results for each work-item (2 x 2, say) would halve the loads"
            )
        }
        (Resource::Memory | Resource::MemoryIfMissed, _) => {
            "half the bytes (narrower types, results kept on the device, kernels joined) would halve this bound".to_owned()
        }
        (Resource::Cache | Resource::LastCache, _) => {
            "tiles in local memory or registers would ask less of the caches: half the requests halve this bound".to_owned()
        }
        (Resource::Groups, _) => {
            let local = of.local.unwrap_or(1);
            format!("groups of {} items instead of {local} would halve their number, and what starting them takes", 2 * local)
        }
        (Resource::Fp64, _) => "single precision, where it is enough, takes at most half of this".to_owned(),
        (Resource::Issue | Resource::Integer, Some(mix)) => {
            let most = mix.classes.iter().max_by_key(|(_, t)| t.warps).map_or("", |(c, _)| c.name());
            format!("fewer instructions: {most} is the largest part of what is issued")
        }
        (Resource::Special, _) => "native_ functions or a table in place of half of the special functions would halve this bound".to_owned(),
        (Resource::Latency, _) => {
            "more independent work in each item, or more groups at once, would hide the waits".to_owned()
        }
        _ => return,
    };
    let saves = (gain > 0.0 && limit != Resource::Latency)
        .then(|| Figure::new(gain, 0.0, gain, Evidence::Modelled));
    out.levers.push(Lever {
        text,
        saves_ns: saves,
        saves_joules: None,
        evidence: Evidence::Modelled,
    });
}

fn launch(of: &Kernel, device: Option<&Device>, out: &mut Explanatory) {
    let (Some(took), launches) = (of.time_ns, of.launches as f64) else { return };
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
    let empty = device.and_then(|d| d.get(name::LAUNCH).ok());
    if let Some(empty) = empty.filter(|e| e.value >= 0.25 * took.value) {
        out.statements.push(Statement::new(
            "launch",
            Evidence::Measured,
            format!(
                "too short: an empty kernel takes {}, {} of its time",
                time(empty.value),
                percent((empty.value / took.value).min(1.0))
            ),
        ));
        if out.limit.is_none() || out.limit == Some(Resource::Launch) {
            out.limit = Some(Resource::Launch);
        }
        let each = period.map_or(empty, |p| p.larger(empty));
        let gain = each.times((launches - 1.0).max(0.0));
        out.levers.push(Lever {
            text: format!("{launches} launches in one would save what launching takes"),
            saves_ns: (gain.value > 0.0).then(|| gain.modelled()),
            saves_joules: None,
            evidence: Evidence::Modelled,
        });
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
    let total = of.time_ns.map(|t| t.value * of.launches as f64);
    if let (Some(groups), Some(units)) = (of.groups(), units)
        && groups < units
    {
        let used = groups as f64 / units as f64;
        out.statements.push(Statement::new(
            "groups",
            Evidence::Counted,
            format!(
                "{groups} groups for {units} compute units: {} of them can work",
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
            format!("groups of {local} items fill {} of their warps' {lanes} lanes", percent(busy)),
        ));
    }
    let occupancy = model.and_then(|m| m.occupancy);
    if let Some(o) = occupancy {
        let most = if o.at_most { "at most " } else { "" };
        let limiter = if o.share < 1.0 {
            format!(", limited by {}", o.limiter.name())
        } else {
            String::new()
        };
        out.statements.push(Statement::new(
            "occupancy",
            Evidence::Modelled,
            format!("{most}{} warps resident, {}{limiter}", o.warps, percent(o.share)),
        ));
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
                "{full} groups instead of {groups} (more work in each) would need one wave less"
            ),
            saves_ns: total.map(|t| Figure::new(t * w.lost, 0.0, t * w.lost, Evidence::Modelled)),
            saves_joules: None,
            evidence: Evidence::Modelled,
        });
    }
}

/// Transactions above the least from which on it is worth a word, as a factor.
const SCATTERED: f64 = 1.25;

/// How warps' accesses lie in memory, and what moving them together would save.
fn accesses(of: &Kernel, out: &mut Explanatory) {
    let Some(mix) = &of.mix else { return };
    let total = of.time_ns.map(|t| t.value * of.launches as f64);
    let may_be_scattered = matches!(
        out.limit,
        None | Some(
            Resource::Cache | Resource::LastCache | Resource::LocalMemory | Resource::Latency
        )
    );
    let counted = mix.sectors().is_some() || mix.passes().is_some();
    let reaches = mix.bytes(Space::Global) > 0 || mix.bytes(Space::Local) > 0;
    if may_be_scattered && !counted && reaches && mix.total().warps.is_some() {
        out.missing.push(Missing::new(
            "how the accesses of warps lie in memory was not counted",
            "`clscope record --mix --mix-accesses`",
        ));
    }
    let memories: [(_, _, _, &[Resource], _); 2] = [
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
            "neighbouring items that access neighbouring words would move fewer bytes",
        ),
        (
            mix.passes(),
            "local memory",
            "passes through its banks",
            &[Resource::LocalMemory],
            "rows of local memory that are padded by one word, or another order of items, would share the banks",
        ),
    ];
    for (accesses, memory, what, limits, change) in memories {
        let Some(a) = accesses.filter(|a| a.least > 0.0) else { continue };
        let more = a.transactions as f64 / a.least;
        let mut text = format!("a warp's access to {memory} takes {:.1} {what}", a.a_warp());
        if more >= SCATTERED {
            let least = a.least_a_warp();
            text += &format!("; items that access words side by side would take {least:.1}");
        }
        out.statements.push(Statement::new("accesses", Evidence::Counted, text));
        if more >= SCATTERED && out.limit.is_none_or(|limit| limits.contains(&limit)) {
            let most = 1.0 - 1.0 / more;
            out.levers.push(Lever {
                text: format!("{change}: {} of them less", percent(most)),
                saves_ns: total.map(|t| Figure::new(t * most, 0.0, t * most, Evidence::Modelled)),
                saves_joules: None,
                evidence: Evidence::Counted,
            });
        }
    }
}

fn divergence(of: &Kernel, device: Option<&Device>, out: &mut Explanatory) {
    let lanes = device.and_then(|d| d.lanes).or(Some(32));
    let Some(busy) = of.lanes_busy(lanes) else { return };
    out.statements.push(Statement::new(
        "divergence",
        Evidence::Counted,
        format!("lanes busy {}", percent(busy.min(1.0))),
    ));
    if busy < 0.85 && matches!(out.limit, Some(Resource::Issue | Resource::Latency) | None) {
        let total = of.time_ns.map(|t| t.value * of.launches as f64);
        out.levers.push(Lever {
            text: "items of a warp that take the same branches would fill the idle lanes"
                .to_owned(),
            saves_ns: total.map(|t| {
                let most = t * (1.0 - busy);
                Figure::new(most, 0.0, most, Evidence::Modelled)
            }),
            saves_joules: None,
            evidence: Evidence::Counted,
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

fn energy(of: &Kernel, device: Option<&Device>, out: &mut Explanatory) {
    let seconds = of.time_ns.map(|t| t.value * 1e-9);
    let model = device.and_then(|d| Some((d, d.energy.as_ref()?)));
    if let (Some((device, model)), Some(mix), Some(seconds)) = (model, &of.mix, seconds) {
        let units = f64::from(device.compute_units);
        let busy = of.groups().map_or(units, |g| units.min(g as f64));
        let traffic = of.traffic(device).unwrap_or_default();
        let amounts = energy::amounts(mix, seconds, busy, traffic);
        let (figure, parts) = model.joules(&amounts, seconds);
        (out.modelled_joules, out.joule_parts) = (Some(figure), parts);
        for term in model.unknown(&amounts) {
            out.missing.push(Missing::new(
                format!("joules of {term} are not in the energy model"),
                "no microbenchmark of the device has them",
            ));
        }
    }
    if let Some(of_launch) = of.joules {
        let mut text = format!("{} a launch{}", joules(of_launch.value), doubt(of_launch));
        if let (Some(floor), Some(seconds)) = (of.floor_watts, seconds) {
            let share = (floor.value * seconds / of_launch.value).min(1.0);
            text += &format!(", {} of it the floor of {:.0} W", percent(share), floor.value);
        }
        if let Some(modelled) = out.modelled_joules {
            let off = modelled.value / of_launch.value - 1.0;
            text += &format!(
                "; the energy model has {} ({:+.0} %)",
                joules(modelled.value),
                off * 100.0
            );
        }
        out.statements.push(Statement::new("joules", Evidence::Measured, text));
    } else if let Some(modelled) = out.modelled_joules {
        out.statements.push(Statement::new(
            "joules",
            Evidence::Modelled,
            format!("{} a launch{} by the energy model", joules(modelled.value), doubt(modelled)),
        ));
    }
    let parts: Vec<String> = out
        .joule_parts
        .iter()
        .filter(|p| p.share >= 0.02)
        .take(6)
        .map(|p| format!("{} {}", p.name, percent(p.share)))
        .collect();
    if !parts.is_empty() {
        out.statements.push(Statement::new("joules", Evidence::Modelled, parts.join(", ")));
    }
}
