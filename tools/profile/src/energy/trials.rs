//! Owns taking launches that the recorder only tried off the figures of the application's own: they
//! are of the same kernel, so that the fit takes both together. Refuses to tell their powers apart.
#![forbid(unsafe_code)]

use super::activity::PhysicalDevice;
use clscope_analysis::energy::{Attribution, ClassEnergy, GroupEnergy, HostNs, Joules, Seconds};
use std::collections::HashMap;

/// What was taken off.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TakenOff {
    /// Busy time while the sensor was read.
    pub seconds: f64,
    /// Energy, the floor's part included.
    pub joules: f64,
    /// Sum of the squares of its standard errors, in square joules.
    pub spread: f64,
}

/// Half-width of a 95 % interval over its standard error.
const NORMAL: f64 = 2.0;

/// Takes trials off the classes of an attribution and their groups. `window`: the part of the run
/// that it is of.
pub fn taken_off(
    result: &mut Attribution,
    device: &PhysicalDevice,
    window: Option<(HostNs, HostNs)>,
) -> TakenOff {
    let inside = |start: &HostNs, end: &HostNs| {
        window.is_none_or(|(from, to)| end.0 >= from.0 && start.0 <= to.0)
    };
    let mut tried: HashMap<usize, (f64, f64)> = HashMap::new();
    for (class, start, end) in device.tried.iter().filter(|(_, start, end)| inside(start, end)) {
        let sums = tried.entry(class.0 as usize).or_default();
        sums.0 += end.0.saturating_sub(start.0) as f64 * 1e-9;
        sums.1 += 1.0;
    }
    let mut of_groups: HashMap<usize, f64> = HashMap::new();
    for (at, (seconds, launches)) in tried {
        let Some(row) = result.classes.get_mut(at) else { continue };
        let part = (seconds / row.busy.0.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
        if let Some(group) = row.group {
            *of_groups.entry(group).or_default() += part * row.covered.0;
        }
        shrink_class(row, 1.0 - part, launches);
    }
    let mut out = TakenOff::default();
    for (at, seconds) in of_groups {
        let Some(group) = result.groups.get_mut(at) else { continue };
        let part = (seconds / group.busy.0.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
        out.seconds += part * group.busy.0;
        out.joules += part * group.joules.value;
        out.spread += (part * group.joules.half() / NORMAL).powi(2);
        shrink_group(group, 1.0 - part);
    }
    out
}

fn shrink_class(row: &mut ClassEnergy, by: f64, tried: f64) {
    row.launches = (row.launches - tried).max(0.0);
    row.busy = Seconds(by * row.busy.0);
    row.covered = Seconds(by * row.covered.0);
    row.joules = row.joules.map(|joules| joules.times(by));
    row.split = row.split.map(|(dynamic, idle)| (Joules(by * dynamic.0), Joules(by * idle.0)));
    // What was tried may be longer or shorter than the others: the mean of those left is another.
    let covered = row.launches * row.covered.0 / row.busy.0.max(f64::MIN_POSITIVE);
    let of_each = row.joules.filter(|_| covered > 0.0).map(|joules| joules.times(1.0 / covered));
    row.joules_per_launch = row.joules_per_launch.and(of_each);
    row.energy_delay = row.joules_per_launch.map(|j| j.value * row.busy.0 / row.launches);
}

fn shrink_group(group: &mut GroupEnergy, by: f64) {
    group.busy = Seconds(by * group.busy.0);
    group.joules = group.joules.times(by);
    group.idle = Joules(by * group.idle.0);
    group.dynamic = Joules(by * group.dynamic.0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::Interval;
    use clscope_analysis::energy::{ClassId, Identifiability, Method};

    #[test]
    fn a_launch_takes_what_those_take_that_are_left() {
        // Five launches of 1 s at 20 W, of which four were trials of 1.2 s.
        let mut row = ClassEnergy {
            class: ClassId(0),
            launches: 5.0,
            busy: Seconds(5.0),
            covered: Seconds(4.0),
            group: None,
            watts: Some(Interval::exact(20.0)),
            joules_per_launch: Some(Interval::exact(20.0)),
            joules: Some(Interval::exact(80.0)),
            split: None,
            energy_delay: Some(20.0),
            method: Some(Method::Regressed),
            identifiability: Identifiability::Well,
        };
        shrink_class(&mut row, 1.0 - 4.8 / 5.0, 4.0);
        let each = row.joules_per_launch.expect("one is left").value;
        assert!((each - 20.0 * 0.2).abs() < 1e-9, "0.2 s at 20 W, not {each} J");
        assert!((row.energy_delay.unwrap() - each * 0.2).abs() < 1e-9);
        let covered = row.launches * row.covered.0 / row.busy.0;
        assert!((row.joules.unwrap().value / covered - each).abs() < 1e-9);
        shrink_class(&mut row, 1.0, 1.0);
        assert_eq!((row.joules_per_launch, row.energy_delay), (None, None), "none is left");
    }
}
