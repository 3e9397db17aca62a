//! Launches as whole groups: how full the last wave of them is, and what their number does to the time
//! of each resource. Refuses to say which resource is the limit.

use crate::device::Device;
use crate::kernel::Kernel;
use crate::latency;
use crate::roofline::{Bounds, Resource};
use crate::waves;

/// Waves of groups on a device, where its limits are known.
pub(super) fn in_waves(kernel: &Kernel, device: Option<&Device>) -> Option<waves::Waves> {
    let units = device.map(|d| d.compute_units).or(kernel.compute_units)?;
    let resident = device.and_then(|d| latency::occupancy_on(d, kernel)).map_or(1, |o| o.groups);
    let (groups, units) = (kernel.groups()?, u64::from(units));
    // Where all fit at once, what counts is how evenly units share them.
    let slots = if groups <= units * resident { units } else { units * resident };
    waves::waves(groups, slots)
}

/// The bounds of a launch as whole groups take them: each unit has as many as the fullest one, and
/// what waits does so in whole waves of groups that fit. What all units share follows the work.
pub(super) fn in_whole_groups(kernel: &Kernel, device: &Device, of: &Bounds) -> Bounds {
    let mut out = of.clone();
    let Some(groups) = kernel.groups() else { return out };
    let units = u64::from(device.compute_units.max(1));
    let resident = latency::occupancy_on(device, kernel).map_or(1, |o| o.groups);
    // Groups for a part of the units are in the bounds already.
    let more = |slots: u64| match waves::waves(groups.max(slots), slots) {
        Some(waves) => 1.0 / (1.0 - waves.lost),
        None => 1.0,
    };
    for bound in &mut out.bounds {
        bound.likely *= match bound.resource {
            Resource::Latency => more(units * resident),
            resource if resource.is_of_a_unit() => more(units),
            _ => 1.0,
        };
    }
    out
}
