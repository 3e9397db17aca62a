//! The time that a launch is likely to take, by all of its bounds: how far resources overlap, and
//! what memory is likely to move. Refuses a time where no bytes are known.

use super::{Bounds, Resource, bounds};
use crate::device::{Device, name};
use crate::figure::{Evidence, Figure};
use crate::kernel::Kernel;
use crate::traffic::MEMORY;
use clscope_mix::Class;

/// How far resources overlap: their times add up as the sides of a box of so many dimensions add to
/// its diagonal. Without bound it would be the longest alone; 1 would be their sum.
const OVERLAP: f64 = 2.5;

/// Time of what memory is likely to move, ns, if half of it is written.
pub fn moving(kernel: &Kernel, device: &Device) -> Option<f64> {
    let memory = kernel.traffic(device)?.memory;
    let rate = device.get(name::DRAM_COPY).or_else(|_| device.get(name::DRAM)).ok()?;
    let ns = memory.ns(device, rate.value, MEMORY) + kernel.gathering(device)[2];
    (ns > 0.0).then_some(ns)
}

/// Times that overlap in part, as one.
fn together(times: impl Iterator<Item = f64> + Clone) -> f64 {
    let most = times.clone().fold(0.0, f64::max);
    if most <= 0.0 {
        return 0.0;
    }
    most * times.map(|t| (t / most).powf(OVERLAP)).sum::<f64>().powf(OVERLAP.recip())
}

/// What each resource needs of a launch's work, ns, of those that need something. Issuing is there
/// only where it takes longer than all units that instructions are issued to: what they do is in it
/// already.
fn needs(kernel: &Kernel, device: &Device, of: &Bounds) -> Vec<(Resource, f64)> {
    let counted = of.by_resource(Resource::Memory).map_or(0.0, |b| b.ns.value);
    let memory = moving(kernel, device).unwrap_or(0.0).max(counted);
    let each = of.bounds.iter().filter(|b| {
        // Groups start beside all else.
        !matches!(
            b.resource,
            Resource::Launch | Resource::Groups | Resource::Memory | Resource::MemoryIfMissed
        )
    });
    let each = each.map(|b| (b.resource, b.likely)).chain([(Resource::Memory, memory)]);
    let mut each: Vec<(Resource, f64)> = each.filter(|(_, ns)| *ns > 0.0).collect();
    if !device.is_cpu() {
        on_one_unit(kernel, &mut each);
    }
    let units = together(each.iter().filter(|of| of.0.is_issued_to()).map(|of| of.1));
    let issue = each.iter().find(|of| of.0 == Resource::Issue).map_or(0.0, |of| of.1);
    each.retain(|of| match issue > units {
        true => !of.0.is_issued_to(),
        false => of.0 != Resource::Issue,
    });
    each
}

/// A GPU divides floating-point numbers by multiplications and additions of their type: the two follow
/// one another on one unit. The longer one stands for both.
fn on_one_unit(kernel: &Kernel, each: &mut Vec<(Resource, f64)>) {
    let doubles = kernel.mix.as_ref().is_some_and(|m| m.classes.contains_key(&Class::DoubleDiv));
    let unit = if doubles { Resource::Fp64 } else { Resource::Fp32 };
    let of = |each: &[(Resource, f64)], r| each.iter().find(|of| of.0 == r).map(|of| of.1);
    if let Some((division, rest)) = of(each, Resource::Division).zip(of(each, unit)) {
        let longer = if division > rest { Resource::Division } else { unit };
        each.retain(|of| of.0 != Resource::Division && of.0 != unit);
        each.push((longer, division + rest));
    }
}

/// The resource that takes most of the likely time: of the work, or starting its groups where that
/// takes longer.
pub fn dominant(kernel: &Kernel, device: &Device, of: &Bounds) -> Option<Resource> {
    let starting = of.by_resource(Resource::Groups).map(|b| (Resource::Groups, b.ns.value));
    let all = needs(kernel, device, of).into_iter().chain(starting);
    all.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(resource, _)| resource)
}

/// What is least known of a kernel's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// Little: instructions take it, and their number is counted.
    Instructions,
    /// Where accesses lead: caches, memory, waiting, words that several items want.
    Accesses,
    /// What the compiler of a CPU makes of work-items, and where their accesses lead.
    Compiler,
}

impl Family {
    /// By what takes most of the likely time.
    pub fn of(device: &Device, resource: Resource) -> Self {
        use Resource as R;
        match resource {
            _ if device.is_cpu() => Self::Compiler,
            R::Atomics
            | R::PrivateMemory
            | R::ConstantMemory
            | R::Images
            | R::Cache
            | R::LastCache
            | R::Memory
            | R::MemoryIfMissed
            | R::Latency => Self::Accesses,
            _ => Self::Instructions,
        }
    }

    /// Measured over predicted times: 95 of 100 kernels lie between these two. From the kernels of
    /// `tests/limits.rs`, which leaves each of them out in turn.
    pub const fn spread(self) -> (f64, f64) {
        match self {
            Self::Instructions => (0.6, 1.7),
            Self::Accesses => (0.65, 2.2),
            Self::Compiler => (0.19, 9.0),
        }
    }
}

/// The time that a launch is likely to take: what each resource needs, partly at the same time; of
/// memory what it is likely to move; and what launching costs. The interval is that of
/// [`Family::spread`], wider where it is not known how accesses lie, and never below the certain bounds.
pub fn likely(kernel: &Kernel, device: &Device, of: &Bounds) -> Option<Figure> {
    let binding = of.binding()?;
    kernel.requested().ok()?;
    let launch = of.by_resource(Resource::Launch);
    let (least, launch) = (launch.map_or(0.0, |b| b.ns.value), launch.map_or(0.0, |b| b.likely));
    let certain = if binding.resource == Resource::Launch { 0.0 } else { binding.ns.value };
    let needs = needs(kernel, device, of);
    let value = together(needs.iter().map(|of| of.1)).max(certain) + launch;
    let most = dominant(kernel, device, of).unwrap_or(Resource::Latency);
    let (low, high) = Family::of(device, most).spread();
    let (mut low, mut high) = (low * value, high * value);
    // Where it is not known how the accesses of what takes most lie, it takes anything between.
    let range = of.by_resource(most).and_then(|b| Some((b, b.most?.value)));
    if let Some((bound, most)) = range.filter(|(b, most)| b.is_open(*most)) {
        (low, high) = (low.min(bound.ns.value + launch), high.max(most + launch));
    }
    // Where it is open whether a CPU's compiler joins items, both may be.
    for either in device.joining_or_not().into_iter().flatten() {
        if let Some(time) = likely(kernel, &either, &bounds(kernel, &either)) {
            (low, high) = (low.min(time.low), high.max(time.high));
        }
    }
    let low = low.max(certain).max(least).min(value);
    Some(Figure::new(value, low, high, Evidence::Modelled))
}
