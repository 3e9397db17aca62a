//! Time and joules of a launch that is not the one that was measured: of another size, in other
//! groups, at another clock, on another device. Scales what was measured by what the models say of
//! both; the interval holds every resource that could be the limit. Refuses where neither a
//! measurement nor a model stands behind a figure.

use crate::device::{Device, name};
use crate::explain::{Sure, cause};
use crate::figure::{Evidence, Figure, Missing};
use crate::kernel::{Kernel, scaled};
use crate::latency;
use crate::roofline::{Bounds, Resource, bounds, likely};
use serde::Serialize;
use std::collections::BTreeMap;

mod groups;
mod joules;
mod time;

use groups::in_waves;

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
        of.images *= by;
        of.buffers.values_mut().for_each(|bytes| *bytes *= by);
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

/// Logarithm of what a change multiplies, all together; infinite where a factor is not known.
fn step(kernel: &Kernel, of: &Kernel, device: Option<&Device>, change: &Change<'_>) -> f64 {
    let between = |old: Option<u64>, new: Option<u64>| match (old, new) {
        (old, new) if old == new => 0.0,
        (Some(old), Some(new)) => (new.max(1) as f64 / old.max(1) as f64).ln().abs(),
        _ => f64::INFINITY,
    };
    let clock = change.clock_mhz.map_or(0.0, |mhz| {
        let now = change.device.or(device).and_then(|d| d.get(name::CLOCK).ok());
        now.map_or(f64::INFINITY, |now| (mhz / now.value).ln().abs())
    });
    let other = change.device.is_some_and(|on| device != Some(on));
    change.scale.map_or(0.0, |by| by.ln().abs())
        + between(kernel.local, of.local)
        + between(kernel.resources.local_bytes, of.resources.local_bytes)
        + clock
        + if other { f64::INFINITY } else { 0.0 }
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
    let mut warnings = warnings.transpose()?.unwrap_or_default();
    let lanes = after_device.as_ref().or(device).and_then(|d| d.lanes).unwrap_or(1).max(1);
    let of = changed(kernel, change, u64::from(lanes));
    if let Some(bytes) = change.local_bytes {
        local_memory_of(&of, bytes, after_device.as_ref())?;
        reasons.push(format!(
            "a group takes {bytes} bytes of local memory{}, and does the same",
            kernel.resources.local_bytes.map_or_else(String::new, |b| format!(" instead of {b}"))
        ));
    }
    let modelled =
        device.zip(after_device.as_ref()).map(|(d, a)| (bounds(kernel, d), bounds(&of, a)));
    let before = device.zip(modelled.as_ref()).map(|(d, (before, _))| (kernel, d, before));
    let after = after_device.as_ref().zip(modelled.as_ref()).map(|(d, (_, after))| (&of, d, after));
    if let Some(first) = kernel.first.filter(|first| first.launches > 0 && first.others < 2) {
        warnings.push(match first.others {
            0 => "it was launched once: its time may include compilation".to_owned(),
            _ => {
                "only one launch behind the first shows its time: the first may include compilation"
                    .to_owned()
            }
        });
    }
    // Of the only launch the model says what it takes at least.
    let least = before.filter(|_| measured.low <= 0.0).and_then(|(k, d, b)| likely(k, d, b));
    let low = least.map_or(measured.low, |of| of.low.min(measured.value));
    let measured = Figure { low, ..measured };
    let work = time::separate_work(measured, before);
    if work.high > 2.0 * work.low {
        reasons.push(format!(
            "launching takes much of the measured time: {:.1} to {:.1} us of it are work",
            work.low * 1e-3,
            work.high * 1e-3
        ));
    }
    let step = step(kernel, &of, device, change);
    let by_bounds =
        before.zip(after).and_then(|(old, new)| time::compare_work(old, new, work, step));
    let factor = match by_bounds {
        Some((factor, _)) => {
            reasons.push(format!("by the bounds, work takes {:.3} times as long", factor.value));
            factor
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
            missing.extend(kernel.counted().err());
            missing.extend(device.is_none().then(|| Missing::device(&kernel.device)));
            // It may as well be latency that does not grow until the device is full.
            Figure::new(by, by.min(1.0), by.max(1.0), Evidence::Modelled)
        }
    };
    let launching = before.zip(after).and_then(|((.., old), (.., new))| {
        let of = |b: &Bounds| Some(b.by_resource(Resource::Launch)?.ns.value);
        Some(of(new)? / of(old)?)
    });
    let mut ns = time::change_time(measured, work, factor, launching.unwrap_or(1.0));
    if let Some((before, after)) = &modelled {
        let start = |b: &Bounds| b.by_resource(Resource::Groups).map_or(0.0, |b| b.ns.value);
        let (old, new) = (start(before), start(after));
        // Groups that do start take their time, of which the launch had no more than it took.
        if by_bounds.is_none() {
            let new = new * (measured.value / old.max(measured.value));
            ns = ns.larger(Figure::exact(new, Evidence::Modelled));
        }
        if (old >= STARTING * work.value || new >= STARTING * ns.value)
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
    }
    let first = |kernel: &Kernel, device: Option<&Device>| kernel.first_cache(device?);
    if let (Some(old), Some(new)) = (first(kernel, device), first(&of, after_device.as_ref()))
        && (old - new).abs() >= 1024.0
    {
        reasons.push(format!(
            "local memory leaves {} of a compute unit's first cache instead of {}",
            clscope_io::text::bytes(new),
            clscope_io::text::bytes(old)
        ));
    }
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
    let joules = joules::joules(
        (kernel, &of),
        (device, after_device.as_ref()),
        change,
        (measured, ns),
        &mut reasons,
    );
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

/// Share of the time from which on starting groups is what a launch waits for.
const STARTING: f64 = 0.8;

#[cfg(test)]
mod tests;
