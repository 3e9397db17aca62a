//! RAPL, by its three interfaces: powercap files, the perf `power` PMU, and (only on request) the
//! MSRs. Owns what the interfaces share: the processor's identity and the meaning of domain names.
#![forbid(unsafe_code)]

pub mod perf;
pub mod powercap;

use crate::files::{Files, Roots};
use crate::source::Plane;

/// Why RAPL is root's alone, and what opens it for the tools of one user: shown with each refusal.
pub(crate) const POWERCAP_REMEDY: &str = "sudo clscope sensord";

/// What the processor is, from `/proc/cpuinfo`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Processor {
    /// `GenuineIntel`, `AuthenticAMD`, `HygonGenuine`; `None` where the file does not say.
    pub vendor: Option<String>,
    /// Whether the kernel runs under a hypervisor, where RAPL often exists and counts nothing.
    pub virtualised: bool,
}

impl Processor {
    /// Reads the first processor's entry; all unknown where the file is absent.
    pub fn read(files: &dyn Files, roots: &Roots) -> Processor {
        let Ok(text) = files.text(&roots.proc.join("cpuinfo")) else { return Processor::default() };
        let mut cpu = Processor::default();
        // A blank line ends the first processor's entry.
        for line in text.lines().take_while(|line| !line.trim().is_empty()) {
            let Some((key, value)) = line.split_once(':') else { continue };
            let value = value.trim();
            match key.trim() {
                "vendor_id" => cpu.vendor = Some(value.to_owned()),
                "flags" => {
                    cpu.virtualised = value.split_whitespace().any(|flag| flag == "hypervisor")
                }
                _ => {}
            }
        }
        cpu
    }

    /// Whether the "core" domain counts one core only (AMD, and Hygon which shares its design).
    pub fn counts_single_cores(&self) -> bool {
        matches!(self.vendor.as_deref(), Some("AuthenticAMD" | "HygonGenuine"))
    }
}

pub(crate) const ONE_CORE: &str =
    "the energy of one core only; package minus this is not the energy of anything";
pub(crate) const PP1: &str = "graphics plane (PP1)";
pub(crate) const PSYS: &str =
    "the platform as its maker wired it; may include what no other domain counts";

/// Plane and caveat for a core domain on this processor.
pub(crate) fn cores_plane(cpu: &Processor) -> (Plane, Option<&'static str>) {
    if cpu.counts_single_cores() {
        (Plane::SingleCore, Some(ONE_CORE))
    } else {
        (Plane::Cores, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::System;

    #[test]
    fn processors_by_table() {
        let table = [
            (
                "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 142\nmodel name\t: x\nflags\t\t: fpu hypervisor\n\nvendor_id\t: Other\n",
                (Some("GenuineIntel"), true, false),
            ),
            (
                "vendor_id : AuthenticAMD\ncpu family : 25\nmodel : 80\nflags : fpu\n",
                (Some("AuthenticAMD"), false, true),
            ),
            ("Processor: AArch64\nmodel : x\n", (None, false, false)),
        ];
        for (text, want) in table {
            let dir = tempfile::tempdir().unwrap();
            let roots = Roots::below(dir.path());
            std::fs::create_dir_all(&roots.proc).unwrap();
            std::fs::write(roots.proc.join("cpuinfo"), text).unwrap();
            let cpu = Processor::read(&System, &roots);
            let single = cpu.counts_single_cores();
            assert_eq!((cpu.vendor.as_deref(), cpu.virtualised, single), want);
        }
        let absent = tempfile::tempdir().unwrap();
        assert_eq!(Processor::read(&System, &Roots::below(absent.path())), Processor::default());
    }
}
