//! The clock that Intel's GPUs run at, as their drivers show it under `/sys/class/drm`: what the
//! hardware does, not what was asked for. Owns which file of which driver and kernel that is;
//! refuses to give a clock that was only requested.
//!
//! | driver | file of a card | sources |
//! |---|---|---|
//! | i915 | `gt_act_freq_mhz`; with several engines' parts `gt/gtN/rps_act_freq_mhz` | Linux, i915_sysfs.c, intel_gt_sysfs_pm.c |
//! | xe | `device/tileN/gtN/freq0/act_freq` | Linux, xe_gt_freq.c |
//!
//! All are in MHz, and 0 while the hardware sleeps.
#![forbid(unsafe_code)]

use crate::error::SensorError;
use crate::files::{Files, ReadAt, Roots, read_count};
use crate::hwmon::pci_address;
use crate::source::{
    DeviceKey, Domain, Pace, Plane, Quantity, SensorSource, TakeReading, Value, read_each,
};
use crate::units::Clock;
use std::path::PathBuf;

/// The directory of cards, below the sysfs root.
const CLASS: &str = "class/drm";
const WHAT: &str = "GPU clock (drm)";
/// The clock moves within milliseconds; reading it may wake a sleeping register.
const PACE: Pace = Pace { fastest_ns: 10_000_000, slowest_ns: 1_000_000_000, adaptive: false };

/// The clocks of one card.
pub struct GtClock {
    name: String,
    domains: Vec<Domain>,
    files: Vec<(PathBuf, Box<dyn ReadAt>)>,
}

/// Where a card's clocks may be: file below its directory, and the series' name.
fn places(files: &dyn Files, card: &std::path::Path) -> Vec<(PathBuf, String)> {
    let numbered = |name: &str, word: &str| {
        name.strip_prefix(word)
            .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    };
    let parts = |folder: PathBuf, word: &str| -> Vec<(PathBuf, String)> {
        let names = files.list(&folder).unwrap_or_default();
        names.into_iter().filter(|n| numbered(n, word)).map(|n| (folder.join(&n), n)).collect()
    };
    let mut out = Vec::new();
    for (gt, name) in parts(card.join("gt"), "gt") {
        out.push((gt.join("rps_act_freq_mhz"), format!("{name}/clock")));
    }
    for (tile, of) in parts(card.join("device"), "tile") {
        for (gt, name) in parts(tile, "gt") {
            out.push((gt.join("freq0/act_freq"), format!("{of}/{name}/clock")));
        }
    }
    // The same clock once more where there are parts.
    if out.is_empty() {
        out.push((card.join("gt_act_freq_mhz"), "clock".to_owned()));
    }
    out
}

impl GtClock {
    /// Opens the clocks of every card that has any.
    pub fn open(files: &dyn Files, roots: &Roots) -> Vec<Self> {
        let class = roots.sys.join(CLASS);
        let mut out = Vec::new();
        for entry in files.list(&class).unwrap_or_default() {
            // Connectors are called card0-DP-1.
            if entry.strip_prefix("card").is_none_or(|n| n.parse::<u32>().is_err()) {
                continue;
            }
            let card = class.join(&entry);
            let pci = pci_address(files, &card);
            let place = pci.clone().unwrap_or(entry);
            let mut of =
                Self { name: format!("drm:{place}"), domains: Vec::new(), files: Vec::new() };
            for (path, name) in places(files, &card) {
                let Ok(file) = files.open(&path) else { continue };
                if read_count(WHAT, &*file, &path).is_err() {
                    continue;
                }
                of.domains.push(Domain {
                    plane: Some(Plane::Gpu),
                    device: Some(DeviceKey { pci: pci.clone(), ..DeviceKey::default() }),
                    ..Domain::new(name, Quantity::Clock)
                });
                of.files.push((path, file));
            }
            if !of.files.is_empty() {
                out.push(of);
            }
        }
        out
    }
}

impl SensorSource for GtClock {
    fn about(&self) -> (&str, &[Domain], Pace) {
        (&self.name, &self.domains, PACE)
    }

    fn read(&mut self, clock: &mut dyn Clock, out: TakeReading<'_>) -> Result<(), SensorError> {
        read_each(&self.files, clock, out, |(path, file)| {
            Ok(Value::Megahertz(read_count(WHAT, &**file, path)? as f64))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{System, units::RawNs};

    #[test]
    fn the_actual_clock_is_found_in_each_drivers_place() {
        for (file, want) in [
            ("card1/gt_act_freq_mhz", "clock"),
            ("card1/gt/gt0/rps_act_freq_mhz", "gt0/clock"),
            ("card1/device/tile0/gt1/freq0/act_freq", "tile0/gt1/clock"),
        ] {
            let root = tempfile::tempdir().unwrap();
            let class = root.path().join("sys/class/drm");
            let path = class.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "1050\n").unwrap();
            // Asked for, not done.
            std::fs::write(path.with_file_name("gt_cur_freq_mhz"), "300\n").unwrap();
            std::fs::create_dir_all(class.join("card1/device")).unwrap();
            std::fs::write(class.join("card1/device/uevent"), "PCI_SLOT_NAME=0000:00:02.0\n")
                .unwrap();
            std::fs::create_dir_all(class.join("card1-DP-1")).unwrap();
            let mut found = GtClock::open(&System, &Roots::below(root.path()));
            assert_eq!(found.len(), 1, "{file}");
            assert_eq!(found[0].name(), "drm:0000:00:02.0");
            assert_eq!(found[0].domains()[0].name, want);
            let mut seen = Vec::new();
            found[0].read(&mut || RawNs(7), &mut |r| seen.push(r.value)).unwrap();
            assert_eq!(seen, [Value::Megahertz(1050.0)], "{file}");
        }
        let nothing = tempfile::tempdir().unwrap();
        assert!(GtClock::open(&System, &Roots::below(nothing.path())).is_empty());
    }
}
