//! RAPL through `/sys/class/powercap`. Owns the discovery of zones by their `name` files, never by
//! index, and leaves out the second view of the same package (`intel-rapl-mmio`); refuses to add
//! zones up: some contain others.
#![forbid(unsafe_code)]

use super::{POWERCAP_REMEDY, PP1, PSYS, Processor, cores_plane};
use crate::error::SensorError;
use crate::files::{Files, ReadAt, Roots, open_error, read_count, small_text};
use crate::source::{
    Domain, Pace, Plane, Quantity, Range, SensorSource, TakeReading, Value, read_each,
};
use crate::units::{Clock, EnergyUnit};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The directory of zones, below the sysfs root.
pub const CLASS: &str = "class/powercap";
const WHAT: &str = "RAPL zone (powercap)";

struct Zone {
    path: PathBuf,
    file: Box<dyn ReadAt>,
}

/// All readable zones of the machine.
pub struct Powercap {
    domains: Vec<Domain>,
    zones: Vec<Zone>,
}

/// A zone's place in the tree: `intel-rapl:0:1` is `[0, 1]`.
fn zone_indices(name: &str) -> Option<Vec<u32>> {
    let rest = name.strip_prefix("intel-rapl:")?;
    rest.split(':').map(|part| part.parse().ok()).collect()
}

/// All zone directories, parents before children. The class directory holds links to all zones of a
/// real machine; copied trees may hold the children only inside their parents.
fn zone_dirs(files: &dyn Files, class: &Path) -> Result<Vec<(Vec<u32>, PathBuf)>, SensorError> {
    let names = files.list(class).map_err(|e| {
        let mut error = open_error(WHAT, class, e, "directory permissions", POWERCAP_REMEDY);
        if let SensorError::NotFound { remedy, .. } = &mut error {
            *remedy = Some("sudo modprobe intel_rapl_msr".to_owned());
        }
        error
    })?;
    let mut seen = BTreeSet::new();
    let mut dirs = Vec::new();
    let mut todo: Vec<PathBuf> = names.iter().map(|name| class.join(name)).collect();
    while let Some(dir) = todo.pop() {
        let Some(name) = dir.file_name().and_then(|n| n.to_str()) else { continue };
        let Some(indices) = zone_indices(name) else { continue };
        if !seen.insert(indices.clone()) {
            continue;
        }
        if let Ok(children) = files.list(&dir) {
            todo.extend(children.iter().filter(|c| zone_indices(c).is_some()).map(|c| dir.join(c)));
        }
        dirs.push((indices, dir));
    }
    dirs.sort();
    Ok(dirs)
}

/// The package number in `package-1` or `package-1-die-0`.
fn package_number(name: &str) -> Option<u32> {
    name.strip_prefix("package-")?.split('-').next()?.parse().ok()
}

impl Powercap {
    /// Finds and opens every zone. The second value lists zones that exist and cannot be used, with
    /// reasons.
    ///
    /// # Errors
    /// Where the class directory is absent or holds no zone, or not one zone can be read.
    pub fn open(
        files: &dyn Files,
        roots: &Roots,
    ) -> Result<(Powercap, Vec<SensorError>), SensorError> {
        let class = roots.sys.join(CLASS);
        let cpu = Processor::read(files, roots);
        let dirs = zone_dirs(files, &class)?;
        let mut found = Powercap { domains: Vec::new(), zones: Vec::new() };
        let mut problems = Vec::new();
        let mut names: Vec<(Vec<u32>, String)> = Vec::new();
        for (indices, dir) in dirs {
            let name = match small_text(files, WHAT, &dir.join("name")) {
                Ok(name) => name,
                Err(error) => {
                    problems.push(error);
                    continue;
                }
            };
            let parent =
                names.iter().find(|(i, _)| indices.split_last().is_some_and(|(_, up)| i == up));
            let parent = parent.map(|(_, name)| name.clone());
            names.push((indices, name.clone()));
            match Powercap::zone(files, &dir, &name, parent.as_deref(), &cpu) {
                // Two zones with one name would be one series twice: the first stands.
                Ok((domain, _)) if found.domains.iter().any(|d| d.name == domain.name) => {
                    problems.push(SensorError::Unsupported {
                        what: WHAT,
                        why: format!("{} repeats the name {}", dir.display(), domain.name),
                    });
                }
                Ok((domain, zone)) => {
                    found.domains.push(domain);
                    found.zones.push(zone);
                }
                Err(error) => problems.push(error),
            }
        }
        if found.domains.is_empty() {
            return Err(if problems.is_empty() {
                SensorError::NotFound {
                    what: WHAT,
                    path: class.join("intel-rapl:0"),
                    remedy: Some("sudo modprobe intel_rapl_msr".to_owned()),
                }
            } else {
                problems.swap_remove(0)
            });
        }
        Ok((found, problems))
    }

    /// Each domain with the file it is read from, for handing on as descriptors.
    pub(crate) fn paths(&self) -> impl Iterator<Item = (&Domain, &Path)> {
        self.domains.iter().zip(self.zones.iter().map(|zone| zone.path.as_path()))
    }

    fn zone(
        files: &dyn Files,
        dir: &Path,
        name: &str,
        parent: Option<&str>,
        cpu: &Processor,
    ) -> Result<(Domain, Zone), SensorError> {
        let range_path = dir.join("max_energy_range_uj");
        let range_text = small_text(files, WHAT, &range_path)?;
        let range = match range_text.parse::<u64>() {
            Ok(range) if range > 0 => Range::Wraps(range),
            _ => {
                return Err(SensorError::malformed(
                    WHAT,
                    range_path,
                    &range_text,
                    "a range above 0",
                ));
            }
        };
        let path = dir.join("energy_uj");
        let denied = |e| {
            open_error(
                WHAT,
                &path,
                e,
                "energy_uj is readable by root only (CVE-2020-8694)",
                POWERCAP_REMEDY,
            )
        };
        let file = files.open(&path).map_err(denied)?;
        // Permission is checked at open; a file that is reopened per read shows it only now.
        let mut probe = [0u8; 1];
        file.read_at(&mut probe, 0).map_err(denied)?;
        let (plane, includes) = match name {
            "core" => cores_plane(cpu),
            "uncore" => (Plane::Graphics, Some(PP1)),
            "dram" => (Plane::Dram, None),
            "psys" => (Plane::Platform, Some(PSYS)),
            other if other.starts_with("package-") => (Plane::Package, None),
            other => (Plane::Other(other.to_owned()), None),
        };
        let full = parent.map_or_else(|| name.to_owned(), |parent| format!("{parent}/{name}"));
        let domain = Domain {
            plane: Some(plane),
            package: package_number(parent.unwrap_or(name)),
            includes,
            ..Domain::new(full, Quantity::Energy { unit: EnergyUnit::MICROJOULE, range })
        };
        Ok((domain, Zone { path, file }))
    }
}

impl SensorSource for Powercap {
    fn about(&self) -> (&str, &[Domain], Pace) {
        ("powercap", &self.domains, super::perf::RAPL_PACE)
    }

    fn read(&mut self, clock: &mut dyn Clock, out: TakeReading<'_>) -> Result<(), SensorError> {
        read_each(&self.zones, clock, out, |zone| {
            read_count(WHAT, &*zone.file, &zone.path).map(Value::Counter)
        })
    }
}
