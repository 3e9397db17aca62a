//! The roofline of a trace (Williams, Waterman and Patterson 2009; hierarchical after Yang, Kurth
//! and Williams 2020; of energy after Choi et al. 2013), and the bounds of throughput that it rests
//! on. Refuses to draw.

use crate::device::{Device, name};
use crate::figure::{Evidence, Figure, Missing};
use crate::kernel::Kernel;
use clscope_mix::Precision;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

mod bounds;
mod classes;
mod groups;
mod likely;
mod resource;
mod takes;
mod waits;

pub use bounds::{Bound, Bounds, bounds};
pub use classes::{Ceiling, Counted, ceiling_of};
pub use groups::{LONG, evenly_used, units_used};
pub use likely::{Family, dominant, likely, moving};
pub use resource::Resource;

/// Name and version of the roofline's schema.
pub const SCHEMA: &str = "clscope-roofline/1";

/// The ceiling of a type's operations, and whether it is of fused ones. A device that has none
/// does at most as many multiplications and additions as of both in turn.
fn ceiling(device: &Device, precision: Precision) -> Result<(Figure, bool), Missing> {
    let of = |operation| device.get(&name::rate(precision, operation));
    of("fma").map(|rate| (rate, true)).or_else(|why| match of("mad") {
        Ok(rate) => Ok((rate, false)),
        Err(_) => Err(why),
    })
}

/// A ceiling.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Curve {
    /// What it is of.
    pub name: String,
    /// (FLOP per byte, GFLOP/J).
    pub points: Vec<(f64, f64)>,
}

/// A roofline.
#[derive(Debug, Clone, Default, PartialEq, Serialize, schemars::JsonSchema)]
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
    #[schemars(default)]
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
            "counters need longer launches, or more of them",
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
