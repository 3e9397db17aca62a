//! How the groups of a launch are shared out among compute units, and how long it takes to start
//! them. Refuses to say what groups do.

use crate::device::{Device, name};
use crate::figure::Figure;
use crate::kernel::Kernel;

/// A group that is so many times as long as the mean ends after the others.
pub const LONG: f64 = 2.0;

/// Share of the device's compute units that a launch can use: a group runs on one of them.
pub fn units_used(kernel: &Kernel, device: &Device) -> f64 {
    let units = f64::from(device.compute_units.max(1));
    let groups = kernel.groups().map_or(f64::INFINITY, |groups| groups as f64);
    (groups / units).min(evenly_used(kernel, device).unwrap_or(1.0)).min(1.0)
}

/// Share of a CPU's compute units that a launch can use because one of its groups does so much more
/// than the others that it ends last, whatever runs beside it; `None` where none does.
pub fn evenly_used(kernel: &Kernel, device: &Device) -> Option<f64> {
    let units = f64::from(device.compute_units.max(1));
    let times = kernel.longest_group.filter(|times| device.is_cpu() && *times >= LONG)?;
    let used = kernel.groups()? as f64 / (times * units);
    Some(used).filter(|used| *used < 1.0)
}

/// Time of giving compute units their groups, one after another, ns: groups / units times the
/// measured replacement of a group with nothing to do. Not known where the runtime chose the
/// groups.
pub(super) fn starting(kernel: &Kernel, device: &Device) -> Option<Figure> {
    let each = kernel.groups()? as f64 / f64::from(device.compute_units.max(1));
    let replaced = device.get(name::GROUP).ok()?;
    // The first group of each unit replaces none.
    (each > 1.0).then(|| replaced.times(each))
}
