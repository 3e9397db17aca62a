//! Owns the energy counters of a host's processors: which planes there are, of all packages, and
//! the terms that a formula adds and subtracts. Refuses to choose a formula.

use super::power::usable;
use super::readings::{Readings, Sensor};
use clscope_sensors::gpu_power::Formula;
use clscope_trace::sensors::Quantity;
use std::collections::BTreeSet;

/// The planes of one host's processors: every package's counter of each plane.
pub(super) struct Processor<'r> {
    planes: Vec<(&'static str, Vec<&'r Sensor>)>,
}

impl<'r> Processor<'r> {
    pub(super) fn of(readings: &'r Readings, host: usize) -> Self {
        // The same counter may have been read through two interfaces: counted once.
        let mut seen = BTreeSet::new();
        let mut rapl = |plane: &str| -> Vec<&Sensor> {
            usable(readings, host)
                .filter(|s| {
                    s.series.quantity == Quantity::Energy
                        && s.series.pci.is_none()
                        && s.series.device.is_none()
                })
                .filter(|s| s.series.plane == plane)
                .filter(|s| seen.insert(&s.series.name))
                .collect()
        };
        Self { planes: ["PKG", "PP0", "PP1", "DRAM"].map(|plane| (plane, rapl(plane))).into() }
    }

    pub(super) fn get(&self, plane: &str) -> Option<&[&'r Sensor]> {
        self.planes
            .iter()
            .find(|(name, sensors)| *name == plane && !sensors.is_empty())
            .map(|(_, s)| &s[..])
    }

    /// All packages' terms of a plane; a plane that some package lacks is no sum.
    pub(super) fn terms(&self, plane: &str, sign: f64) -> Option<Vec<(f64, &'r Sensor)>> {
        let packages = self.get("PKG").map_or(0, <[_]>::len);
        let sensors = self.get(plane)?;
        (packages == 0 || plane == "PP1" || sensors.len() == packages)
            .then(|| sensors.iter().map(|s| (sign, *s)).collect())
    }

    pub(super) fn formula(&self, formula: Formula) -> Option<Vec<(f64, &'r Sensor)>> {
        let mut terms = Vec::new();
        let wanted: &[(&str, f64)] = match formula {
            Formula::Pp1 => &[("PP1", 1.0)],
            Formula::PkgPp0 => &[("PKG", 1.0), ("PP0", -1.0)],
            Formula::PkgPp0Dram => &[("PKG", 1.0), ("PP0", -1.0), ("DRAM", -1.0)],
            Formula::Nvml | Formula::Hwmon | Formula::Meter => return None,
        };
        for (plane, sign) in wanted {
            terms.extend(self.terms(plane, *sign)?);
        }
        Some(terms)
    }
}
