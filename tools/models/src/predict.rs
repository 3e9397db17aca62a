//! Time and joules of a launch that is not the one that was measured: of another size, in other
//! groups, at another clock, on another device. Scales what was measured by what the models say of
//! both; the interval holds every resource that could be the limit. Refuses where neither a
//! measurement nor a model stands behind a figure.

use crate::device::{Device, name};
use crate::energy;
use crate::explain::{Sure, cause};
use crate::figure::{Evidence, Figure, Missing};
use crate::kernel::{Kernel, scaled};
use crate::latency;
use crate::roofline::{Bound, Bounds, Resource, bounds, dominant, likely};
use serde::Serialize;
use std::collections::BTreeMap;

mod groups;

use groups::{in_waves, in_whole_groups};

/// What is to be different.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Change<'d> {
    /// Items of a group.
    pub local: Option<u64>,
    /// Bytes of local memory of a group, arguments included; work stays as it is.
    pub local_bytes: Option<u64>,
    /// Work-items, as a multiple of those that were launched; work grows alike.
    pub scale: Option<f64>,
    /// Clock of the compute units, MHz.
    pub clock_mhz: Option<f64>,
    /// The device.
    pub device: Option<&'d Device>,
    /// A clock that the device does not have is taken all the same.
    pub forced: bool,
}

/// Name and version of the document's schema.
pub const SCHEMA: &str = "clscope-what-if/1";

/// The document.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Predictions {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Readable names of kernels, by their names in this document, which are those of the trace.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(default)]
    pub display_names: BTreeMap<String, String>,
    /// One for each kernel that is meant.
    pub predictions: Vec<Prediction>,
    /// Those that are meant and of which nothing can be predicted.
    #[schemars(default)]
    pub refused: Vec<Refused>,
}

/// A kernel of which nothing can be predicted.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Refused {
    /// The kernel.
    pub kernel: String,
    /// Why.
    pub why: Missing,
}

/// What is predicted of one launch.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Prediction {
    /// The kernel.
    pub kernel: String,
    /// Measured mean time of a launch, without what first launches took beyond later ones.
    #[serde(rename = "measured_time_ns")]
    pub measured_ns: Figure,
    /// Predicted.
    #[serde(rename = "time_ns")]
    pub ns: Figure,
    /// What limits the measured launch, as `explain` says; null where that is not known.
    #[schemars(default)]
    pub measured_limit: Option<Resource>,
    /// What limits the predicted one.
    #[schemars(default)]
    pub limit: Option<Resource>,
    /// How sure that is; null where `limit` is.
    #[schemars(default)]
    pub sure: Option<Sure>,
    /// Measured joules; null where there are none.
    pub measured_joules: Option<Figure>,
    /// Predicted; null with the reason in `missing`.
    pub joules: Option<Figure>,
    /// Whose parameters were taken, where `--force` took another device's or driver's; null
    /// otherwise.
    pub forced: Option<String>,
    /// How it was computed, a sentence each.
    pub reasons: Vec<String>,
    /// Under which conditions such a launch is one at all, a sentence each.
    pub warnings: Vec<String>,
    /// What would narrow it, or give what is null.
    pub missing: Vec<Missing>,
}

/// Lanes of the warps that groups of so many items take, over the items.
fn lanes_taken(local: u64, lanes: u64) -> f64 {
    (local.div_ceil(lanes) * lanes) as f64 / local.max(1) as f64
}

/// The kernel as it would be launched, in warps of so many lanes.
fn changed(kernel: &Kernel, change: &Change<'_>, lanes: u64) -> Kernel {
    let mut of = kernel.clone();
    if let Some(local) = change.local {
        // Warps that are partly filled are more, and each touches what its lanes want.
        let before = kernel.local.map_or(1.0, |local| lanes_taken(local, lanes));
        let more = lanes_taken(local, lanes) / before;
        let times = |n: u64| (n as f64 * more).round() as u64;
        for tally in of.mix.iter_mut().flat_map(|mix| mix.classes.values_mut()) {
            tally.warps = tally.warps.map(times);
            tally.transactions = tally.transactions.map(|n| times(n).min(tally.threads.max(n)));
        }
        let in_warps = of.mix.as_ref().is_some_and(|mix| mix.total().warps.is_some());
        of.blocks.iter_mut().for_each(|(_, entered)| *entered *= if in_warps { more } else { 1.0 });
        of.local = Some(local);
    }
    if let Some(bytes) = change.local_bytes {
        of.resources.local_bytes = Some(bytes);
    }
    if let Some(by) = change.scale {
        of.items = of.items.map(|n| (n as f64 * by).round().max(1.0) as u64);
        of.mix = of.mix.as_ref().map(|m| scaled(m, by));
        of.blocks.iter_mut().for_each(|(_, entered)| *entered *= by);
        of.flop = of.flop.map(|f| f * by);
        of.bytes = of.bytes.map(|b| b * by);
        of.dram_bytes = of.dram_bytes.map(|b| b.times(by));
        of.footprint = of.footprint.map(|b| b * by);
        of.in_place *= by;
    }
    of
}

/// A device with its compute units at another clock: all but memory follows.
fn clocked(device: &Device, mhz: f64) -> Result<Device, Missing> {
    let now = device.get(name::CLOCK)?.value;
    let by = mhz / now;
    let mut out = device.clone();
    for (key, p) in &mut out.parameters {
        let faster = key.starts_with("rate.") && !key.ends_with(".dram")
            || [name::L1, name::L2, name::LOCAL, name::PRIVATE, name::CLOCK]
                .contains(&key.as_str());
        let of_memory = [name::LATENCY_MEMORY, name::LATENCY_RANDOM].contains(&key.as_str());
        let slower =
            key.starts_with("latency.") && !of_memory || key == name::ISSUE || key == name::GROUP;
        let factor = match (faster, slower) {
            (true, _) => by,
            (_, true) => by.recip(),
            _ => continue,
        };
        (p.value, p.low, p.high) = (p.value * factor, p.low * factor, p.high * factor);
    }
    if let Some(bytes) = device.last_cache() {
        out.held = Some(bytes);
    }
    // Sets that caches hold follow, too: how much they hold stays.
    let memory = device.get(name::DRAM).map_or(0.0, |rate| rate.value);
    for level in &mut out.levels {
        let rate = level.gigabytes_per_second;
        level.gigabytes_per_second = memory.min(rate) + (rate - memory).max(0.0) * by;
    }
    Ok(out)
}

/// Kernel, device, and bounds of the one on the other.
type Modelled<'m> = (&'m Kernel, &'m Device, &'m Bounds);

/// How times change from one launch to another: as the likely times without what launching costs,
/// with the smallest and the largest change of any resource that matters in the interval.
fn ratio(
    (kernel, device, before): Modelled<'_>,
    (of, after_device, after): Modelled<'_>,
) -> Option<(Figure, Resource)> {
    let (old, new) = (before.binding()?, after.binding()?);
    let work = |kernel: &Kernel, device: &Device, bounds: &Bounds| {
        let launch = bounds.by_resource(Resource::Launch).map_or(0.0, |b| b.ns.value);
        Some(likely(kernel, device, bounds)?.value - launch).filter(|ns| *ns > 0.0)
    };
    // Groups need not take alike: the change of whole ones is between none and all of it.
    let shared_out = work(of, after_device, after)? / work(kernel, device, before)?;
    let (before, after) =
        (&in_whole_groups(kernel, device, before), &in_whole_groups(of, after_device, after));
    let takes = work(of, after_device, after)?;
    let value = takes / work(kernel, device, before)?;
    let certain = new.ns.value / old.ns.value;
    // At best, and at worst: a set that outgrows a cache is fetched from the next one.
    let least = |b: &Bound| b.ns.value;
    let most = |b: &Bound| b.most.map_or(b.ns.value, |most| most.value);
    let ends: [&dyn Fn(&Bound) -> f64; 2] = [&least, &most];
    let each = ends.into_iter().flat_map(|end| {
        after.bounds.iter().filter_map(move |b| {
            let (old, new) = (end(before.by_resource(b.resource)?), end(b));
            // What is far below the likely time does not decide.
            (new >= 0.2 * takes && old > 0.0).then(|| new / old)
        })
    });
    let (low, high) =
        each.chain([certain, shared_out]).fold((value, value), |(l, h), r| (l.min(r), h.max(r)));
    let dominant = dominant(of, after_device, after)?;
    Some((Figure::new(value, low, high, Evidence::Modelled), dominant))
}

/// Refuses groups that no launch of the kernel can have; says under which conditions others are
/// one.
fn groups_of(of: &Kernel, local: u64, after: Option<&Device>) -> Result<Vec<String>, Missing> {
    let refused = |why: String, remedy: &str| Err(Missing::new(why, remedy));
    if let Some(required) = of.resources.required.filter(|r| *r != local) {
        return refused(
            format!(
                "the kernel requires groups of {required} items (reqd_work_group_size), and not of {local}"
            ),
            "change it in the source and record again",
        );
    }
    if let Some(most) = of.resources.most_items.filter(|most| local > *most) {
        return refused(
            format!(
                "groups of the kernel have {most} items at most (CL_KERNEL_WORK_GROUP_SIZE), and not {local}"
            ),
            "name fewer items",
        );
    }
    if let Some(items) = of.items.filter(|items| local > *items) {
        return refused(
            format!("a launch has {items} items, fewer than a group of {local}"),
            "name fewer items",
        );
    }
    if local > MOST_ITEMS {
        return refused(
            format!(
                "no device is known that takes groups of more than {MOST_ITEMS} items, and not {local}"
            ),
            "name fewer items",
        );
    }
    if let Some((limits, lanes)) = after.and_then(latency::limits_of)
        && latency::occupancy(limits, lanes, local, of.resources).is_none()
    {
        return refused(
            format!("no compute unit holds a group of {local} items with what each takes of it"),
            "name fewer items",
        );
    }
    let mut warnings = vec![format!(
        "a kernel that fixes its group in its code (tiles, arrays of local memory) cannot follow to {local} items"
    )];
    if let Some(items) = of.items.filter(|items| items % local != 0) {
        warnings.push(format!(
            "{items} items are no multiple of {local}: OpenCL before 2.0 refuses such a launch, later versions end with a smaller group"
        ));
    }
    Ok(warnings)
}

/// CL_DEVICE_LOCAL_MEM_SIZE of NVIDIA's runtime on devices from compute capability 2.0 on, bytes.
const MOST_LOCAL: u64 = 48 << 10;

/// Refuses local memory that no compute unit has, or whose effect on occupancy is not known.
fn local_memory_of(of: &Kernel, bytes: u64, after: Option<&Device>) -> Result<(), Missing> {
    let device = after.ok_or_else(|| Missing::device(&of.device))?;
    let Some((limits, lanes)) = latency::limits_of(device) else {
        return Err(Missing::new(
            format!("how many groups a compute unit of {} holds is not known", device.name),
            "a device that states its compute capability (NVIDIA) has known limits",
        ));
    };
    if bytes > MOST_LOCAL {
        return Err(Missing::new(
            format!("a group has {MOST_LOCAL} bytes of local memory at most, and not {bytes}"),
            "name fewer bytes",
        ));
    }
    let local = of.local.ok_or_else(|| {
        Missing::new(
            "launches of the kernel differ in their groups, or the runtime chose them",
            "name the size with --local, or one launch with --by ndrange",
        )
    })?;
    if latency::occupancy(limits, lanes, local, of.resources).is_none() {
        return Err(Missing::new(
            format!(
                "no compute unit holds a group with {bytes} bytes of local memory and what else it takes"
            ),
            "name fewer bytes",
        ));
    }
    Ok(())
}

/// Most items of a group: runtimes for CPUs allow some thousands, those for GPUs 1024 or fewer.
pub(crate) const MOST_ITEMS: u64 = 16_384;

/// Refuses a clock that the device is not known to reach.
fn clock_of(kernel: &Kernel, on: Option<&Device>, of: &Device, mhz: f64) -> Result<(), Missing> {
    let measured = of.get(name::CLOCK)?.high;
    // What the trace says is of its own device.
    let stated = kernel.clock_mhz.filter(|_| on.is_none()).map_or(0.0, f64::from);
    let most = measured.max(stated);
    if mhz <= most * 1.005 {
        return Ok(());
    }
    Err(Missing::new(
        format!("{mhz} MHz is above the {most:.0} MHz that {} reaches", of.name),
        "name a lower clock, or --force takes it all the same",
    ))
}

/// Predicts a launch.
///
/// # Errors
/// Where the kernel was not timed, or the change needs what is not known.
pub fn predict(
    kernel: &Kernel,
    device: Option<&Device>,
    change: &Change<'_>,
) -> Result<Prediction, Missing> {
    let kernel = &device.map_or_else(|| kernel.clone(), |d| kernel.clone().on(d));
    let measured = kernel.later_ns().ok_or_else(|| {
        Missing::new("its launches were not timed", "`clscope record` with device timing")
    })?;
    let mut reasons = Vec::new();
    let mut missing = Vec::new();
    let after_device = match (change.device, change.clock_mhz, device) {
        (on, Some(mhz), own) => {
            let of = on.or(own).ok_or_else(|| Missing::device(&kernel.device))?;
            if !change.forced {
                clock_of(kernel, on, of, mhz)?;
            }
            reasons.push(format!("all but memory follows the clock, to {mhz} MHz"));
            Some(clocked(of, mhz)?)
        }
        (Some(on), None, _) => Some(on.clone()),
        (None, None, own) => own.cloned(),
    };
    let moved = change.device.is_some() || change.clock_mhz.is_some();
    if change.local.is_some() && kernel.items.is_none() {
        return Err(Missing::new(
            "launches of the kernel differ in size",
            "name one size with --by ndrange, as `KERNEL [2048x2048]`",
        ));
    }
    if change.local.is_some() && kernel.local.is_none() {
        return Err(Missing::new(
            "the runtime chose the size of groups, or launches differ in it",
            "`clscope record --local KERNEL=SIZE` runs the kernel in groups of one size",
        ));
    }
    let warnings = change.local.map(|local| groups_of(kernel, local, after_device.as_ref()));
    let warnings = warnings.transpose()?.unwrap_or_default();
    let lanes = after_device.as_ref().or(device).and_then(|d| d.lanes).unwrap_or(1).max(1);
    let of = changed(kernel, change, u64::from(lanes));
    if let Some(bytes) = change.local_bytes {
        local_memory_of(&of, bytes, after_device.as_ref())?;
        reasons.push(format!(
            "a group takes {bytes} bytes of local memory{}, and does the same",
            kernel.resources.local_bytes.map_or_else(String::new, |b| format!(" instead of {b}"))
        ));
    }
    let overhead = device.and_then(|d| d.get(name::LAUNCH).ok());
    let work = |t: Figure| overhead.map_or(t.value, |o| (t.value - o.value).max(0.05 * t.value));
    let mut time = Figure { value: work(measured), ..measured };
    (time.low, time.high) = (measured.low.min(time.value), measured.high);
    let modelled =
        device.zip(after_device.as_ref()).map(|(d, a)| (bounds(kernel, d), bounds(&of, a)));
    let by_bounds = modelled.as_ref().and_then(|(before, after)| {
        // A bound that is but the launch's own cost says nothing of work.
        let says = |b: &Bounds| {
            let of_work = |r: Resource| !matches!(r, Resource::Launch | Resource::Groups);
            b.bounds.iter().any(|b| of_work(b.resource))
        };
        let (old, new) = (device?, after_device.as_ref()?);
        (says(before) && says(after)).then(|| ratio((kernel, old, before), (&of, new, after)))?
    });
    match by_bounds {
        Some((factor, resource)) => {
            reasons.push(format!("by the bounds, work takes {:.3} times as long", factor.value));
            let is_cpu = after_device.as_ref().is_some_and(Device::is_cpu);
            time = time.product(factor).widened(if is_cpu { OF_CPU } else { 0.1 });
            let atomics = modelled.as_ref().and_then(|(_, b)| b.by_resource(Resource::Atomics));
            // Whether items meet at a word is another matter in each launch.
            if let Some(b) = atomics.filter(|_| resource == Resource::Atomics) {
                let most = b.most.map_or(b.ns.value, |most| most.value);
                (time.low, time.high) = (time.low.min(b.ns.value), time.high.max(most));
            }
        }
        // Of what does not grow only bounds tell what changes.
        None if moved || change.scale.is_none() => {
            return Err(match device {
                None => Missing::device(&kernel.device),
                Some(_) => kernel.counted().err().unwrap_or_else(Missing::mix),
            });
        }
        None => {
            let by = change.scale.unwrap_or(1.0);
            reasons.push(format!("time grows with the work-items, by {by:.3}"));
            // It may as well be latency that does not grow until the device is full.
            let factor = Figure::new(by, by.min(1.0), by.max(1.0), Evidence::Modelled);
            time = time.product(factor);
            missing.extend(kernel.counted().err());
            missing.extend(device.is_none().then(|| Missing::device(&kernel.device)));
        }
    }
    if let Some((before, after)) = &modelled {
        let start = |b: &Bounds| b.by_resource(Resource::Groups).map_or(0.0, |b| b.ns.value);
        let (old, new) = (start(before), start(after));
        // Groups that do start take their time.
        if by_bounds.is_none() {
            time = time.larger(Figure::exact(new, Evidence::Modelled));
        }
        if (old >= STARTING * work(measured) || new >= STARTING * time.value)
            && let Some(groups) = of.groups()
        {
            reasons.push(format!(
                "starting {groups} groups takes {:.1} us, {:.1} us before",
                new * 1e-3,
                old * 1e-3
            ));
        }
    }
    if let (Some(old), Some(new)) = (in_waves(kernel, device), in_waves(&of, after_device.as_ref()))
        && (old.lost - new.lost).abs() > 1e-3
        && by_bounds.is_some()
    {
        reasons.push(format!(
            "the last wave of groups is {:.0} % full instead of {:.0} %",
            new.last * 100.0,
            old.last * 100.0
        ));
    }
    if let Some((before, after)) = &modelled
        && let (Some(old), Some(new)) = (before.occupancy, after.occupancy)
        && old.warps != new.warps
    {
        reasons.push(format!("{} warps fit instead of {}", new.warps, old.warps));
        let fewer = old.warps as f64 / new.warps as f64;
        // Between no effect (throughput is the limit) and all of it (latency is).
        time = Figure { low: time.low * fewer.min(1.0), high: time.high * fewer.max(1.0), ..time };
    }
    let first = |kernel: &Kernel, device: Option<&Device>| kernel.first_cache(device?);
    if let (Some(old), Some(new)) = (first(kernel, device), first(&of, after_device.as_ref()))
        && (old - new).abs() >= 1024.0
    {
        reasons.push(format!(
            "local memory leaves {:.0} KiB of a compute unit's first cache instead of {:.0}",
            new / 1024.0,
            old / 1024.0
        ));
    }
    let after_overhead = after_device.as_ref().and_then(|d| d.get(name::LAUNCH).ok());
    if overhead.is_some()
        && let Some(o) = after_overhead
    {
        time = time.plus(o);
    }
    let ns = time.modelled();
    let decide = |of: &Kernel, on: Option<&Device>, took| Some(cause(of, on?, took).1);
    let before = decide(kernel, device, measured);
    let of_change = if is_recorded(kernel, &of, device, change) { &of } else { &uncounted(&of) };
    let after = decide(of_change, after_device.as_ref(), ns);
    reasons.extend(after.as_ref().map(|after| match before.as_ref().map(|b| b.limit) {
        Some(limit) if limit != after.limit => {
            format!("its limit becomes {}, and is {} now", after.limit.name(), limit.name())
        }
        Some(limit) => format!("its limit stays {}", limit.name()),
        None => format!("its limit is {}", after.limit.name()),
    }));
    let joules =
        joules(kernel, &of, device, after_device.as_ref(), change, (measured, ns), &mut reasons);
    let joules = joules.map_err(|why| missing.push(why)).ok();
    Ok(Prediction {
        kernel: kernel.name.clone(),
        measured_ns: measured,
        ns,
        measured_limit: before.map(|cause| cause.limit),
        limit: after.as_ref().map(|cause| cause.limit),
        sure: after.map(|cause| cause.sure),
        measured_joules: kernel.joules,
        joules,
        forced: device.and_then(Device::forced),
        reasons,
        warnings,
        missing,
    })
}

/// Whether the launch is the one that was recorded.
fn is_recorded(kernel: &Kernel, of: &Kernel, device: Option<&Device>, change: &Change<'_>) -> bool {
    let clock = device.and_then(|d| d.get(name::CLOCK).ok()).map(|mhz| mhz.value);
    change.device.is_none() && change.clock_mhz.is_none_or(|mhz| Some(mhz) == clock) && of == kernel
}

/// A launch that nobody counted: shares of the time in which units were busy are another one's.
fn uncounted(of: &Kernel) -> Kernel {
    Kernel { busy: BTreeMap::new(), units_busy: None, dram_share: None, ..of.clone() }
}

/// How far times of a CPU's launches differ beside other programs.
const OF_CPU: f64 = 0.2;

/// Share of the time from which on starting groups is what a launch waits for.
const STARTING: f64 = 0.8;

/// The floor for the new time, and what is above it by the energy model of both, or by the work.
fn joules(
    kernel: &Kernel,
    of: &Kernel,
    device: Option<&Device>,
    after: Option<&Device>,
    change: &Change<'_>,
    (before_ns, after_ns): (Figure, Figure),
    reasons: &mut Vec<String>,
) -> Result<Figure, Missing> {
    let model = |d: Option<&Device>| d.and_then(|d| d.energy.clone());
    // The run's floor is that of its own device.
    let floor = |own: bool, d: Option<&Device>| {
        let of_run = kernel.floor_watts.filter(|_| own).map(|w| w.value);
        of_run.or_else(|| Some(model(d)?.floor_watts))
    };
    let own = change.device.is_none();
    let by_model = |k: &Kernel, d: Option<&Device>, own: bool, ns: Figure| {
        let seconds = ns.value * 1e-9;
        let amounts = energy::of_launch(k, d?, seconds)?;
        Some(model(d)?.joules(&amounts, seconds, floor(own, d)?).0)
    };
    let (old, new) =
        (by_model(kernel, device, true, before_ns), by_model(of, after, own, after_ns));
    let doubt = (after_ns.high / after_ns.value - 1.0).max(1.0 - after_ns.low / after_ns.value);
    // No launch takes less than the floor does in the shortest time.
    let least = floor(own, after).map_or(0.0, |watts| watts * after_ns.low * 1e-9);
    let most = floor(own, after).map_or(0.0, |watts| watts * after_ns.high * 1e-9);
    let above =
        |of: Figure| Figure { low: of.low.max(least).min(of.value), high: of.high.max(most), ..of };
    if change.clock_mhz.is_some() {
        return Err(Missing::new(
            "joules at another clock are not known, since voltage follows the clock",
            "record at that clock",
        ));
    }
    match (kernel.joules, old, new) {
        (Some(measured), Some(old), Some(new)) if old.value > 0.0 => {
            reasons.push("joules change as the energy model says".to_owned());
            let factor = new.value / old.value;
            Ok(above(measured.times(factor).modelled().widened(doubt.min(1.0))))
        }
        (None, _, Some(new)) => {
            reasons.push("joules are the energy model's, without a measurement".to_owned());
            Ok(above(new.widened(doubt.min(1.0))))
        }
        (Some(measured), ..) if change.device.is_none() => {
            let floor = kernel.floor_watts.ok_or_else(|| {
                Missing::new("idle power is not known", "record with idle time before and after")
            })?;
            let idle = floor.value * before_ns.value * 1e-9;
            let dynamic = (measured.value - idle).max(0.0) * change.scale.unwrap_or(1.0);
            let value = dynamic + floor.value * after_ns.value * 1e-9;
            reasons.push("energy above idle grows with the work-items".to_owned());
            let sides = measured.value / measured.low.max(1e-300) - 1.0;
            let sides = sides.clamp(0.0, 1.0).hypot(doubt.min(1.0));
            Ok(above(Figure::exact(value, Evidence::Modelled).widened(sides)))
        }
        _ => Err(match (&kernel.unmetered, model(after).is_some()) {
            (_, true) => kernel.counted().err().unwrap_or_else(Missing::mix),
            (Some(why), _) => Missing::new("joules of the kernel are not known", why.clone()),
            _ => Missing::new(
                "joules by class of instruction are not known",
                "`clscope bench model` on a machine with a power sensor",
            ),
        }),
    }
}

#[cfg(test)]
mod tests;
