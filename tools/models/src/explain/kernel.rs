//! One kernel in words: what it does, what binds it, what could change. Refuses a verdict that no
//! bound supports.

use super::measurement::untimed;
use super::words::{Sentence, counted, within_all};
use super::{
    Explanatory, FirstLaunches, Lever, MANY_LAUNCHES, Measurement, Over, SHORT_LAUNCH_NS,
    Statement, Sure, joules, verdict,
};
use crate::device::{Device, name};
use crate::figure::{Evidence, Figure, Missing};
use crate::kernel::{First, Kernel};
use crate::latency::Occupancy;
use crate::roofline::{Bounds, Resource, bounds};
use crate::waves;
use clscope_mix::{SECTOR as PIECE, Space};

/// Without the device's parameters its verdict is by those of `typical`.
pub(super) fn explain(
    of: &Kernel,
    device: Option<&Device>,
    typical: &Device,
    share: Option<f64>,
) -> Explanatory {
    let of = &device.map_or_else(|| of.clone(), |d| of.clone().on(d));
    let mut out = Explanatory {
        kernel: of.name.clone(),
        launches: of.launches,
        time_ns: of.time_ns,
        first_launches: of.first.map(|first| FirstLaunches {
            launches: first.launches,
            held_up: first.held_up,
            others: first.others,
            excess_ns: first.excess_ns,
            later_ns: first.later_ns,
        }),
        share,
        items: of.items,
        local: of.local,
        flop: of.flop().ok().map(|n| of.of_all_launches(n)),
        requested_bytes: of.requested().ok().map(|n| of.of_all_launches(n)),
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
    let model = match (device, of.later_ns()) {
        (Some(device), Some(took)) => Some(verdict::explain(of, device, took, &mut out)),
        (device, None) => {
            let timed = of.held.contains(&Measurement::Timing);
            out.decide = (!timed).then(|| Measurement::Timing.sentence());
            out.missing.push(untimed(
                of.held.contains(&Measurement::Timing),
                "its launches were not timed",
            ));
            device.map(|d| bounds(of, d))
        }
        (None, Some(took)) => {
            out.missing.extend(of.counted().err());
            verdict::explain(of, typical, took, &mut out);
            None
        }
    };
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
        let text = Sentence::default().many("operations", flop, "FLOP");
        parts.push(text.put(" (").put(of.precision().name()).put(")"));
    }
    if let Ok(asked) = of.requested()
        && asked.value > 0.0
    {
        parts.push(Sentence::default().bytes("requested", asked).put(" asked of memory"));
    }
    if let Ok(local) = of.local_traffic()
        && local.value > 0.0
    {
        parts.push(Sentence::default().bytes("local memory", local).put(" through local memory"));
    }
    if !parts.is_empty() {
        let evidence = if of.mix.is_some() { Evidence::Counted } else { Evidence::Given };
        out.statements.push(Statement::new("does", evidence, Sentence::list(parts, ", ")));
    }
    if let Some(mix) = &of.mix {
        let total = mix.total();
        let top = of.shares().into_iter().take(4).map(|(class, share)| {
            Sentence::from(class.name()).put(" ").share(class.name(), counted(share))
        });
        let n = |n: u64| Figure::counted(n);
        let all = match total.warps {
            None => Sentence::default().many("instructions", n(total.threads), "instructions"),
            Some(w) => Sentence::default().many("instructions", n(w), "warp instructions"),
        };
        let text = all.put(": ").join(Sentence::list(top, ", "));
        out.statements.push(Statement::new("does", Evidence::Counted, text));
    }
    out.statements.extend(differing(of));
    if let Some(moved) = of.dram_bytes {
        let text = Sentence::from("measured: memory moved ").bytes("moved", moved);
        let text = match of.requested() {
            Ok(asked) if asked.value > moved.value => text
                .put(": ")
                .share("of what was asked for", moved.over(asked))
                .put(" of what was asked for, and caches served the rest"),
            _ => text,
        };
        out.statements.push(Statement::new("memory", Evidence::Measured, text));
    }
    if let Some(least) = of.at_least {
        let at_least = |bytes| Figure::new(bytes, bytes, f64::INFINITY, Evidence::Measured);
        let text = Sentence::from("measured: at least ")
            .bytes("from memory", at_least(least.memory.bytes))
            .put(" came from memory, and ")
            .bytes("from behind the nearest cache", at_least(least.last.bytes))
            .put(" from behind the nearest cache");
        out.statements.push(Statement::new("memory", Evidence::Measured, text));
    }
    out.statements.extend(busy(of));
}

/// How launches differ of which some were counted.
fn differing(of: &Kernel) -> Option<Statement> {
    if of.uncounted_share() <= 0.0 {
        return None;
    }
    let text = Sentence::from("counted in ")
        .whole("launches counted", of.counted_launches)
        .put(" of ")
        .whole("launches", of.launches)
        .put(" launches; nobody knows what the others do, because launches differ");
    let text = match of.spread {
        Some((least, most)) => text
            .put(": those counted from ")
            .many("fewest instructions", Figure::counted(least), "instructions")
            .put(" to ")
            .many("most instructions", Figure::counted(most), "instructions"),
        None => text,
    };
    let exact = |ns| Figure::exact(ns, Evidence::Measured);
    let text = match of.times_differ {
        Some((least, most)) => text
            .put(", in time from ")
            .time("shortest launch", exact(least))
            .put(" to ")
            .time("longest launch", exact(most)),
        None => text,
    };
    Some(Statement::new("does", Evidence::Counted, text))
}

/// What counters say of units, in one sentence, the busiest first.
fn busy(of: &Kernel) -> Option<Statement> {
    let mut all: Vec<(&'static str, Figure)> =
        of.busy.iter().map(|(resource, share)| (resource.name(), *share)).collect();
    all.extend(of.dram_share.map(|share| (Resource::Memory.name(), share)));
    all.sort_by(|a, b| b.1.value.total_cmp(&a.1.value));
    all.splice(0..0, of.units_busy.map(|share| ("compute units", share)));
    if all.is_empty() {
        return None;
    }
    let parts = all
        .into_iter()
        .map(|(name, share)| Sentence::from(name).put(" ").share(name, within_all(share)));
    let text =
        Sentence::from("measured: busy part of the time: ").join(Sentence::list(parts, ", "));
    Some(Statement::new("busy", Evidence::Measured, text))
}

/// Share of a launch that an empty one takes, from which on it is short.
const SHORT: f64 = 0.25;

/// Time of a launch without work, ns: no more than one with work took. Measured, but where threads may
/// have to be woken up first.
fn empty_ns(of: &Kernel, device: Option<&Device>, took: Figure) -> Option<Figure> {
    let bounds = bounds(of, device?);
    let launch = bounds.by_resource(Resource::Launch)?;
    let evidence = if launch.most.is_some() { Evidence::Modelled } else { Evidence::Measured };
    let most = launch.most.unwrap_or(launch.ns).high;
    let [low, value, high] =
        [launch.ns.low.min(launch.likely), launch.likely, most].map(|ns| ns.min(took.value));
    Some(Figure::new(value, low, high, evidence))
}

/// The share of its time that an empty kernel takes, of a launch that is short.
pub(super) fn short(of: &Kernel, device: Option<&Device>, took: Figure) -> Option<Figure> {
    let of_time = empty_ns(of, device, took)?.times(1.0 / took.value);
    Some(of_time).filter(|share| share.value >= SHORT)
}

/// What of a launch's work is not launching, ns: what a change of the work could save.
pub(super) fn beyond_launch(worked: Figure, device: Option<&Device>) -> f64 {
    let launch = device.and_then(|d| d.get(name::LAUNCH).ok()).map_or(0.0, |l| l.value);
    (worked.value - launch).max(0.0)
}

/// The same of a later launch of what was timed.
fn savable(of: &Kernel, device: Option<&Device>) -> Option<f64> {
    of.work_ns().map(|worked| beyond_launch(worked, device))
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
    let takes = times.reduce(f64::max)?.min(savable(of, device)?);
    let most = takes * share * of.launches as f64;
    (most > 0.0).then(|| Figure::new(most, 0.0, most, Evidence::Modelled))
}

/// What launches took that were first, or held up, and others did not; of the only launch, where nothing that was
/// counted explains its time.
fn first_launches(first: First, out: &Explanatory) -> Option<Sentence> {
    if first.others == 0 {
        let text = "launched once: its time may include compilation, which some runtimes do at the first launch; a second launch would show it";
        return is_open(out).then(|| text.into());
    }
    let held_up = |text: Sentence| match first.held_up {
        0 => text,
        n => {
            text.whole("launches held up", n).put(" behind a rest, while the recorder read copies,")
        }
    };
    let text = match first.launches {
        0 => Sentence::default(),
        1 => Sentence::from("the first launch"),
        n => Sentence::default()
            .whole("first launches", n)
            .put(" first launches, of a program and size each,"),
    };
    let both = first.launches > 0 && first.held_up > 0;
    let text = held_up(if both { text.put(" and ") } else { text })
        .put(" took ")
        .time("excess", first.excess_ns)
        .put(match (first.launches, first.held_up) {
            (0, _) => " longer than the others",
            (_, 0) => " longer than those after: runtimes may compile a kernel then",
            _ => " longer than the others: runtimes may compile a kernel at first",
        });
    let text = text
        .put("; bounds and savings here are of ")
        .time("later launches", first.later_ns)
        .put(" a launch, without that");
    Some(match first.others {
        1 => text.put("; only one later launch shows that time"),
        _ => text,
    })
}

fn launch(of: &Kernel, device: Option<&Device>, out: &mut Explanatory) {
    let (Some(took), launches) = (of.later_ns(), of.launches) else { return };
    if let Some(text) = of.first.and_then(|first| first_launches(first, out)) {
        out.statements.push(Statement::new("launch", Evidence::Measured, text));
    }
    if let Some(bias) = of.bias_ns.filter(|b| b.value >= 0.1 * took.value) {
        let text = Sentence::default()
            .time("runtime", bias)
            .put(" of each ")
            .time("launch", took)
            .put(" is the runtime's own work, measured by calibration");
        out.statements.push(Statement::new("launch", Evidence::Measured, text));
    }
    let period = device.and_then(|d| d.get(name::LAUNCH_PERIOD).ok());
    let empty = empty_ns(of, device, took);
    if let Some((empty, share)) = empty.zip(short(of, device, took)) {
        let text = Sentence::from("too short: an empty kernel takes ")
            .time("an empty kernel", empty)
            .put(", ")
            .share("of its time", within_all(share))
            .put(" of its time");
        out.statements.push(Statement::new("launch", empty.evidence, text));
        if launches >= 2 {
            // No launch saves more than it takes.
            let each = period.map_or(empty, |p| p.larger(empty));
            let [low, value, high] = [each.low, each.value, each.high].map(|ns| ns.min(took.value));
            let each = Figure::new(value, low, high, each.evidence);
            let text = Sentence::default().whole("launches", launches);
            let text = text.put(" launches in one would save what launching takes");
            let saves = each.times((launches - 1) as f64).modelled();
            let lever = Lever::new(Over::launches(launches), Evidence::Modelled, text);
            out.levers.push(lever.saving(Some(saves)));
        }
    } else if empty.is_none() && took.value < SHORT_LAUNCH_NS && launches >= MANY_LAUNCHES {
        let text = Sentence::default()
            .whole("launches", launches)
            .put(" launches of ")
            .time("launch", took)
            .put(" each: launching and waiting may take longer than the work");
        out.statements.push(Statement::new("launch", Evidence::Measured, text));
    }
}

fn groups(of: &Kernel, device: Option<&Device>, model: Option<&Bounds>, out: &mut Explanatory) {
    let units = device.map(|d| d.compute_units).or(of.compute_units).map(u64::from);
    let total = savable(of, device).map(|ns| ns * of.launches as f64);
    let of_total =
        |share: f64| total.map(|t| Figure::new(t * share, 0.0, t * share, Evidence::Modelled));
    let over = Over::launches(of.launches);
    if let (Some(groups), Some(units)) = (of.groups(), units)
        && groups < units
    {
        let used = groups as f64 / units as f64;
        let text = Sentence::default()
            .count(groups, "group", "groups")
            .put(" for ")
            .whole("compute units", units)
            .put(" compute units: ")
            .share("can work", counted(used))
            .put(" of them can work");
        out.statements.push(Statement::new("groups", Evidence::Counted, text));
        // Smaller groups need items to be spread over them.
        let may_spread =
            of.resources.required.is_none() && of.items.is_some_and(|items| items > groups);
        let text = Sentence::from("at least ").whole("groups", units).put(" groups");
        let text = match may_spread {
            true => text.put(", smaller ones if there is no more work"),
            false => text,
        };
        // What only waits is no faster in more groups: nobody knows what they save.
        out.levers.push(Lever::new(over, Evidence::Counted, text));
    }
    if of.items == Some(1) && of.launches > 0 {
        let text = match device.is_some_and(|d| !d.is_cpu()) {
            true => "one work-item: all but one lane of one compute unit wait",
            false => "one work-item: all but one compute unit wait",
        };
        out.statements.push(Statement::new("groups", Evidence::Counted, text));
    }
    if let (Some(local), Some(lanes)) = (of.local, device.and_then(|d| d.lanes).map(u64::from))
        && local % lanes != 0
    {
        let busy = local as f64 / (local.div_ceil(lanes) * lanes) as f64;
        let text = Sentence::from("groups of ")
            .count(local, "item", "items")
            .put(" fill ")
            .share("lanes filled", counted(busy))
            .put(" of their warps' ")
            .whole("lanes of a warp", lanes)
            .put(" lanes");
        out.statements.push(Statement::new("groups", Evidence::Counted, text));
    }
    let occupancy = model.and_then(|m| m.occupancy);
    if let Some(o) = occupancy {
        resident(of, device, o, out);
    }
    let slots = units.zip(occupancy.map(|o| o.groups)).map(|(u, g)| u * g);
    if let (Some(groups), Some(slots)) = (of.groups(), slots)
        && let Some(w) = waves::waves(groups, slots).filter(|w| w.waves > 1 && w.lost > 0.05)
    {
        let modelled = |value| Figure::exact(value, Evidence::Modelled);
        let text = Sentence::default()
            .whole("groups", groups)
            .put(" groups run in ")
            .whole("waves", w.waves)
            .put(" waves of ")
            .whole("groups of a wave", slots)
            .put("; the last is ")
            .share("last wave", modelled(w.last))
            .put(" full: up to ")
            .share("lost", Figure::new(w.lost, 0.0, w.lost, Evidence::Modelled))
            .put(" of the time");
        out.statements.push(Statement::new("wave", Evidence::Modelled, text));
        let full = (w.waves - 1) * slots;
        let text = Sentence::default()
            .count(full, "group", "groups")
            .put(" instead of ")
            .whole("groups now", groups)
            .put(" (more work in each) would need one wave less");
        out.levers.push(Lever::new(over, Evidence::Modelled, text).saving(of_total(w.lost)));
    }
}

/// How many warps a compute unit holds: as many as fit, or as were launched for it.
fn resident(of: &Kernel, device: Option<&Device>, fit: Occupancy, out: &mut Explanatory) {
    let launched = device.and_then(|d| {
        let warps = of.local?.div_ceil(u64::from(d.lanes?.max(1)));
        Some(of.groups()? as f64 * warps as f64 / f64::from(d.compute_units.max(1)))
    });
    let most = Sentence::from(if fit.at_most { "at most " } else { "" });
    let fits = most.whole("warps that fit", fit.warps);
    let modelled = |value| Figure::exact(value, Evidence::Modelled);
    let mut put = |text| out.statements.push(Statement::new("occupancy", Evidence::Modelled, text));
    // Rounds over units of devices that hold part of a group are none.
    let Some(launched) = launched.filter(|launched| *launched < 0.99 * fit.warps as f64) else {
        let text = fits.put(" warps resident, ").share("occupancy", modelled(fit.share));
        put(match fit.share < 1.0 {
            true => text.put(", limited by ").put(fit.limiter.name()),
            false => text,
        });
        return;
    };
    let share = modelled(launched / fit.warps as f64 * fit.share);
    put(Sentence::default()
        .tenths("warps of a compute unit", "warps", counted(launched))
        .put(" warps a compute unit, ")
        .share("occupancy", share)
        .put(", limited by groups launched: ")
        .join(fits)
        .put(" would fit"));
    if is_open(out) || out.limit == Some(Resource::Latency) {
        let text = match of.resources.required {
            None => {
                "more groups, or smaller ones that spread more evenly: no compute unit has all the \
                 warps that it could hold"
            }
            Some(_) => "more groups: no compute unit has all the warps that it could hold",
        };
        out.levers.push(Lever::new(Over::launches(of.launches), Evidence::Modelled, text));
    }
}

/// Whether the verdict leaves other causes open.
fn is_open(out: &Explanatory) -> bool {
    out.sure.is_none_or(|sure| sure == Sure::Likely)
}

/// Share of the time from which on accesses that follow from loaded values are worth a word.
const GATHERED: f64 = 0.05;

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
    let is_counted = mix.sectors().is_some() || mix.passes().is_some();
    let reaches = mix.bytes(Space::Global) > 0 || mix.bytes(Space::Local) > 0;
    let is_held = of.held.contains(&Measurement::Accesses);
    if may_be_scattered && !is_counted && !is_held && reaches && mix.total().warps.is_some() {
        out.missing.push(Missing::new(
            "how the accesses of warps lie in memory was not counted",
            format!("`clscope record {}`", Measurement::Accesses.options()),
        ));
    }
    let modelled = |value| Figure::exact(value, Evidence::Modelled);
    let gathered = device.map(|device| of.gathered(device)).unwrap_or_default();
    let most = gathered.into_iter().max_by(|a, b| a.2.total_cmp(&b.2));
    let is_worth = |ns: f64| of.later_ns().is_none_or(|took| ns >= GATHERED * took.value);
    if let Some((set, n, ns)) = most.filter(|of| is_worth(of.2)) {
        let text = Sentence::default()
            .count(n.round() as u64, "access", "accesses")
            .put(" follow from loaded values and lie anywhere in ")
            .bytes("set", modelled(set))
            .put(": ")
            .time("scattered accesses", modelled(ns))
            .put(" at the measured rate of such accesses");
        out.statements.push(Statement::new("accesses", Evidence::Modelled, text));
    }
    if let Some((near, last)) = device.and_then(|device| of.misses(device)) {
        let text = match near {
            Some(near) => Sentence::from("the nearest cache misses ")
                .share("nearest cache misses", modelled(near))
                .put(" of the pieces of ")
                .count(PIECE, "byte", "bytes")
                .put(" that are loaded, and "),
            None => Sentence::default(),
        };
        let text = text
            .put("the last cache misses ")
            .share("last cache misses", modelled(last))
            .put(" of the pieces that are touched");
        out.statements.push(Statement::new("accesses", Evidence::Modelled, text));
    }
    // With the limits under which they matter, and the resources whose time they are.
    let memories: [(_, _, _, &[Resource], &[Resource], _); 2] = [
        (
            mix.sectors(),
            "global memory",
            "pieces",
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
        let mut text = Sentence::from("a warp's access to ")
            .put(memory)
            .put(" takes ")
            .tenths("of an access", what, counted(a.a_warp()))
            .put(" ");
        text = match memory {
            "global memory" => text.put(what).put(" of ").count(PIECE, "byte", "bytes"),
            _ => text.put(what),
        };
        if more >= SCATTERED {
            text = text.put("; items that access words side by side would take ").tenths(
                "of an access side by side",
                what,
                counted(a.least_a_warp()),
            );
        }
        out.statements.push(Statement::new("accesses", Evidence::Counted, text));
        if more >= SCATTERED && (is_open(out) || out.limit.is_some_and(|l| limits.contains(&l))) {
            let most = 1.0 - 1.0 / more;
            let text = Sentence::from(change).put(": ").share("less", counted(most));
            let text = text.put(" of them less");
            let lever = Lever::new(Over::launches(of.launches), Evidence::Modelled, text);
            out.levers.push(lever.saving(share_of(of, device, model, takes, most)));
        }
    }
}

fn divergence(of: &Kernel, device: Option<&Device>, model: Option<&Bounds>, out: &mut Explanatory) {
    let lanes = device.and_then(|d| d.lanes).or(Some(32));
    let Some(busy) = of.lanes_busy(lanes) else { return };
    let text = Sentence::from("lanes busy ").share("lanes busy", counted(busy.min(1.0)));
    out.statements.push(Statement::new("divergence", Evidence::Counted, text));
    let is_issued = matches!(out.limit, Some(Resource::Issue | Resource::Latency));
    // Lanes that a group has no items for are idle whatever branches do.
    let filled = of.local.or(of.items).zip(lanes).map_or(1.0, |(items, lanes)| {
        let lanes = u64::from(lanes.max(1));
        items as f64 / (items.div_ceil(lanes).max(1) * lanes) as f64
    });
    if busy < 0.85 * filled && (is_open(out) || is_issued) {
        // Warps that part issue for fewer lanes, and wait for each branch by itself.
        let takes: &[Resource] = match out.limit {
            Some(Resource::Latency) => &[Resource::Issue, Resource::Integer, Resource::Latency],
            _ => &[Resource::Issue, Resource::Integer],
        };
        let text = "items of a warp that take the same branches would fill the idle lanes";
        let lever = Lever::new(Over::launches(of.launches), Evidence::Modelled, text);
        out.levers.push(lever.saving(share_of(of, device, model, takes, 1.0 - busy / filled)));
    }
    if let Some(bytes) = of.spilled {
        let text = Sentence::default()
            .bytes("spilled registers", Figure::counted(bytes))
            .put(" of each item's registers lie in private memory: its code has no arrays");
        out.statements.push(Statement::new("memory", Evidence::Counted, text));
    }
    let spilled = of.mix.as_ref().map_or(0, |mix| mix.bytes(Space::Private));
    if spilled > 0 {
        let text = Sentence::default()
            .bytes("private memory", Figure::counted(spilled))
            .put(" go to private memory: spilled registers or arrays");
        out.statements.push(Statement::new("memory", Evidence::Counted, text));
    }
}
