//! The time that a launch is likely to take, by all of its bounds: how far resources overlap, and
//! what memory is likely to move. Refuses a time where no bytes are known.

use super::{Bounds, Resource};
use crate::device::{Device, name};
use crate::figure::{Evidence, Figure};
use crate::kernel::Kernel;

/// Share of instructions that wait for the one before, where the code's dependences are not known.
const DEPENDENT: f64 = 0.5;

/// How far resources overlap: their times add up as the sides of a box of so many dimensions add to
/// its diagonal. Without bound it would be the longest alone; 1 would be their sum.
const OVERLAP: f64 = 2.5;

/// Time of what memory is likely to move, ns, if half of it is written.
#[must_use]
pub fn moving(kernel: &Kernel, device: &Device) -> Option<f64> {
    let bytes = kernel.traffic(device)?.memory;
    let rate = device.get(name::DRAM_COPY).or_else(|_| device.get(name::DRAM)).ok()?;
    (bytes > 0.0).then_some(bytes / rate.value)
}

/// What each resource needs of a launch's work, ns, of those that need something.
fn needs(kernel: &Kernel, device: &Device, of: &Bounds) -> Vec<(Resource, f64)> {
    let counted = of.by_resource(Resource::Memory).map_or(0.0, |b| b.ns.value);
    let memory = moving(kernel, device).unwrap_or(0.0).max(counted);
    let dependent = if kernel.blocks.is_empty() { DEPENDENT } else { 1.0 };
    let each = of.bounds.iter().map(|b| match b.resource {
        // Groups start beside all else.
        Resource::Launch | Resource::Groups | Resource::Memory | Resource::MemoryIfMissed => {
            (b.resource, 0.0)
        }
        Resource::Latency => (b.resource, dependent * b.ns.value),
        _ => (b.resource, b.ns.value),
    });
    each.chain([(Resource::Memory, memory)]).filter(|(_, ns)| *ns > 0.0).collect()
}

/// The resource that takes most of the likely time: of the work, or starting its groups where that
/// takes longer.
#[must_use]
pub fn dominant(kernel: &Kernel, device: &Device, of: &Bounds) -> Option<Resource> {
    let starting = of.by_resource(Resource::Groups).map(|b| (Resource::Groups, b.ns.value));
    let all = needs(kernel, device, of).into_iter().chain(starting);
    all.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(resource, _)| resource)
}

/// The time that a launch is likely to take: what each resource needs, partly at the same time; of
/// memory what it is likely to move; and what launching costs. The interval goes from the certain
/// bounds to all that is conditional, one after the other.
#[must_use]
pub fn likely(kernel: &Kernel, device: &Device, of: &Bounds) -> Option<Figure> {
    let binding = of.binding()?;
    kernel.requested().ok()?;
    let launch = of.by_resource(Resource::Launch).map_or(0.0, |b| b.ns.value);
    let certain = if binding.resource == Resource::Launch { 0.0 } else { binding.ns.value };
    let each = |r: Resource| of.by_resource(r).map_or(0.0, |b| b.ns.value);
    let needs: Vec<f64> = needs(kernel, device, of).into_iter().map(|(_, ns)| ns).collect();
    let most = needs.iter().copied().fold(1e-300, f64::max);
    let diagonal: f64 = needs.iter().map(|t| (t / most).powf(OVERLAP)).sum();
    let value = (most * diagonal.powf(OVERLAP.recip())).max(certain);
    let sum: f64 = needs.iter().sum();
    let high = sum.max(each(Resource::MemoryIfMissed)).max(value);
    Some(Figure::new(value + launch, certain.max(launch), high + launch, Evidence::Modelled))
}
