//! RAPL through `/dev/cpu/N/msr`: for machines where neither powercap nor perf offers a domain.
//! Read-only, and only on the user's explicit request: the descriptor reads every register of a
//! CPU. Never passed to another process.
#![forbid(unsafe_code)]

use super::perf::{RAPL_PACE, package_of};
use super::{ONE_CORE, PP1, PSYS, Processor};
use crate::error::SensorError;
use crate::files::{Files, ReadAt, Roots, open_error, read_error};
use crate::source::{
    Domain, Pace, Plane, Quantity, Range, Reading, SensorSource, Value, read_each,
};
use crate::units::{Clock, EnergyUnit};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

const WHAT: &str = "RAPL register (MSR)";
const MAKE_NODES: &str = "sudo modprobe msr";

/// Proof that the user asked for MSRs: made only where an explicit option was parsed.
#[derive(Clone, Copy, Debug)]
pub struct MsrConsent(());

impl MsrConsent {
    /// To be called by the code that saw the user's option, and by nothing else.
    pub fn given_by_user() -> MsrConsent {
        MsrConsent(())
    }
}

/// A register and what it counts (Intel SDM vol. 4; Linux msr-index.h).
struct Register {
    number: u64,
    suffix: &'static str,
    plane: Plane,
    includes: Option<&'static str>,
}

const INTEL_UNIT: u64 = 0x606;
const AMD_UNIT: u64 = 0xC001_0299;
const AMD_CORE: u64 = 0xC001_029A;
const AMD_PACKAGE: u64 = 0xC001_029B;

fn intel_registers() -> [Register; 5] {
    let row = |number, suffix, plane, includes| Register { number, suffix, plane, includes };
    [
        row(0x611, "", Plane::Package, None),
        row(0x639, "/core", Plane::Cores, None),
        row(0x641, "/uncore", Plane::Graphics, Some(PP1)),
        row(0x619, "/dram", Plane::Dram, None),
        row(0x64D, "psys", Plane::Platform, Some(PSYS)),
    ]
}

/// Models whose DRAM counter ignores the unit register: Haswell-X, Broadwell-X, Broadwell-D,
/// Skylake-X, Ice Lake-X, Ice Lake-D, Knights Landing, Knights Mill (Linux arch/x86/events/rapl.c).
const FIXED_DRAM_UNIT: [u32; 8] = [0x3F, 0x4F, 0x56, 0x55, 0x6A, 0x6C, 0x57, 0x85];
/// Sapphire Rapids and Emerald Rapids: the platform counter counts joules.
const JOULE_PSYS: [u32; 2] = [0x8F, 0xCF];

/// The counting unit of a plane, from the unit register's energy exponent (bits 12:8) and the
/// model.
fn unit_of(plane: &Plane, cpu: &Processor, unit_register: u64) -> EnergyUnit {
    match plane {
        // 2^-16 J, as perf uses it; powercap's 15.3 microjoules differ by 0.27 %.
        Plane::Dram if cpu.is_intel_model(&FIXED_DRAM_UNIT) => EnergyUnit::power_of_two(16),
        Plane::Platform if cpu.is_intel_model(&JOULE_PSYS) => EnergyUnit::JOULE,
        _ => EnergyUnit::power_of_two((unit_register >> 8) as u32 & 0x1F),
    }
}

struct Counter {
    path: PathBuf,
    file: usize,
    number: u64,
}

/// The energy registers of all packages.
pub struct Msr {
    domains: Vec<Domain>,
    counters: Vec<Counter>,
    files: Vec<Box<dyn ReadAt>>,
}

fn register(file: &dyn ReadAt, path: &Path, number: u64) -> Result<u64, SensorError> {
    let mut buf = [0u8; 8];
    let n = file.read_at(&mut buf, number).map_err(|e| read_error(WHAT, path, e))?;
    if n == buf.len() {
        Ok(u64::from_le_bytes(buf))
    } else {
        Err(SensorError::Io {
            what: WHAT,
            path: path.to_owned(),
            source: io::ErrorKind::UnexpectedEof.into(),
        })
    }
}

impl Msr {
    /// Opens the register files of one CPU per package (AMD: of one CPU per core) and keeps the
    /// registers that answer.
    ///
    /// # Errors
    /// Where there is no register file, access is refused, the processor has no RAPL this crate
    /// knows, or no register answers.
    pub fn open(
        files: &dyn Files,
        roots: &Roots,
        _consent: MsrConsent,
    ) -> Result<Msr, SensorError> {
        let cpu_kind = Processor::read(files, roots);
        let amd = cpu_kind.counts_single_cores();
        if !amd && cpu_kind.vendor.as_deref() != Some("GenuineIntel") {
            let why =
                format!("no energy registers are known for the processor of {:?}", cpu_kind.vendor);
            return Err(SensorError::Unsupported { what: WHAT, why });
        }
        let dir = roots.dev.join("cpu");
        let names =
            files.list(&dir).map_err(|e| match open_error(WHAT, &dir, e, "", MAKE_NODES) {
                SensorError::NotFound { what, path, .. } => {
                    SensorError::NotFound { what, path, remedy: Some(MAKE_NODES.to_owned()) }
                }
                other => other,
            })?;
        let mut cpus: Vec<u32> = names.iter().filter_map(|n| n.parse().ok()).collect();
        cpus.sort_unstable();
        let mut msr = Msr { domains: Vec::new(), counters: Vec::new(), files: Vec::new() };
        let mut packages = BTreeSet::new();
        let mut cores = BTreeSet::new();
        for cpu in cpus {
            // Without topology files every CPU counts as package 0: one reading of it, not many.
            let package = package_of(files, roots, cpu).unwrap_or(0);
            let first_of_package = packages.insert(package);
            let core_path = roots.sys.join(format!("devices/system/cpu/cpu{cpu}/topology/core_id"));
            let core = files.text(&core_path).ok().and_then(|t| t.trim().parse::<u32>().ok());
            let first_of_core = amd && core.is_some_and(|core| cores.insert((package, core)));
            if !first_of_package && !first_of_core {
                continue;
            }
            let path = dir.join(cpu.to_string()).join("msr");
            let file = files.open(&path).map_err(|e| {
                let detail = "opening it takes CAP_SYS_RAWIO";
                match open_error(
                    WHAT,
                    &path,
                    e,
                    detail,
                    "use powercap or perf: sudo clscope sensord",
                ) {
                    SensorError::NotFound { what, path, .. } => {
                        SensorError::NotFound { what, path, remedy: Some(MAKE_NODES.to_owned()) }
                    }
                    other => other,
                }
            })?;
            let unit_register = register(&*file, &path, if amd { AMD_UNIT } else { INTEL_UNIT })?;
            let index = msr.files.len();
            let mut add = |name: String, reg: &Register| {
                if register(&*file, &path, reg.number).is_err()
                    || msr.domains.iter().any(|d| d.name == name)
                {
                    return;
                }
                let unit = unit_of(&reg.plane, &cpu_kind, unit_register);
                msr.domains.push(Domain {
                    plane: Some(reg.plane.clone()),
                    package: Some(package),
                    includes: reg.includes,
                    ..Domain::new(name, Quantity::Energy { unit, range: Range::Wraps(1 << 32) })
                });
                msr.counters.push(Counter { path: path.clone(), file: index, number: reg.number });
            };
            if amd {
                let row =
                    |number, plane, includes| Register { number, suffix: "", plane, includes };
                if first_of_package {
                    add(format!("package-{package}"), &row(AMD_PACKAGE, Plane::Package, None));
                }
                if let (true, Some(core)) = (first_of_core, core) {
                    let reg = row(AMD_CORE, Plane::SingleCore, Some(ONE_CORE));
                    add(format!("package-{package}/core-{core}"), &reg);
                }
            } else {
                for reg in intel_registers() {
                    let name = match reg.plane {
                        Plane::Platform => reg.suffix.to_owned(),
                        _ => format!("package-{package}{}", reg.suffix),
                    };
                    add(name, &reg);
                }
            }
            msr.files.push(file);
        }
        if msr.domains.is_empty() {
            return Err(SensorError::Unsupported {
                what: WHAT,
                why: "no energy register answers".to_owned(),
            });
        }
        Ok(msr)
    }
}

impl SensorSource for Msr {
    fn name(&self) -> &str {
        "msr"
    }

    fn domains(&self) -> &[Domain] {
        &self.domains
    }

    fn pace(&self) -> Pace {
        RAPL_PACE
    }

    fn read(
        &mut self,
        clock: &mut dyn Clock,
        out: &mut dyn FnMut(Reading),
    ) -> Result<(), SensorError> {
        read_each(&self.counters, clock, out, |counter| {
            let Some(file) = self.files.get(counter.file) else {
                return Err(SensorError::Io {
                    what: WHAT,
                    path: counter.path.clone(),
                    source: io::ErrorKind::NotFound.into(),
                });
            };
            // The upper half is reserved.
            register(&**file, &counter.path, counter.number)
                .map(|bits| Value::Counter(bits & 0xFFFF_FFFF))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_by_table() {
        let intel = |model| Processor {
            vendor: Some("GenuineIntel".to_owned()),
            family: Some(6),
            model: Some(model),
            virtualised: false,
        };
        // 0xA0E03: exponent 14.
        let table = [
            (Plane::Package, 0x9E, EnergyUnit::power_of_two(14)),
            (Plane::Dram, 0x9E, EnergyUnit::power_of_two(14)),
            (Plane::Dram, 0x55, EnergyUnit::power_of_two(16)),
            (Plane::Package, 0x55, EnergyUnit::power_of_two(14)),
            (Plane::Platform, 0x9E, EnergyUnit::power_of_two(14)),
            (Plane::Platform, 0x8F, EnergyUnit::JOULE),
            (Plane::Dram, 0x8F, EnergyUnit::power_of_two(14)),
        ];
        for (plane, model, want) in table {
            assert_eq!(unit_of(&plane, &intel(model), 0xA_0E03), want, "{plane} on {model:#x}");
        }
        // AMD's usual exponent is 16; the Intel tables do not apply to it.
        let amd = Processor {
            vendor: Some("AuthenticAMD".to_owned()),
            model: Some(0x55),
            ..Processor::default()
        };
        assert_eq!(unit_of(&Plane::Package, &amd, 0xA_1003), EnergyUnit::power_of_two(16));
    }
}
