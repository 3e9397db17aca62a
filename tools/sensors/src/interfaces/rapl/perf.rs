//! RAPL through the perf `power` PMU. Owns the parsing of the PMU's sysfs description and the
//! opening of its counters; refuses to sample: these counters are read, nothing else.
#![forbid(unsafe_code)]

use super::{PP1, PSYS, Processor, cores_plane};
use crate::error::SensorError;
use crate::files::{Files, Roots, small_text};
use crate::perf_event;
use crate::source::{
    Domain, Pace, Plane, Quantity, Range, SensorSource, TakeReading, Value, read_each,
};
use crate::units::{Clock, EnergyUnit};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

const WHAT: &str = "RAPL domain (perf power PMU)";

/// RAPL counters move about once a millisecond (Intel SDM vol. 3B, 14.9): no sense in reading
/// faster than twice that; a 32-bit counter wraps within minutes at worst, so once in 10 s is
/// always safe.
pub(crate) const RAPL_PACE: Pace =
    Pace { fastest_ns: 500_000, slowest_ns: 10_000_000_000, adaptive: true };

/// A counter that is read as a whole 64-bit number.
pub trait PerfCounter: Send {
    /// The count.
    ///
    /// # Errors
    /// The system's.
    fn count(&self) -> io::Result<u64>;
}

/// Opens perf counters: a trait, so that refusals can be played.
pub trait PerfOpener {
    /// Opens a counting (not sampling) event of a PMU on one CPU, all processes.
    ///
    /// # Errors
    /// The system's.
    fn open(&self, pmu_type: u32, config: u64, cpu: u32) -> io::Result<Box<dyn PerfCounter>>;
}

/// Opens nothing, for this reason.
#[derive(Clone, Copy, Debug)]
pub struct Unopened(pub &'static str);

impl PerfOpener for Unopened {
    fn open(&self, _: u32, _: u64, _: u32) -> io::Result<Box<dyn PerfCounter>> {
        Err(io::Error::new(io::ErrorKind::Unsupported, self.0))
    }
}

/// The kernel's perf_event_open.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kernel;

/// An open perf descriptor, ours or received from the helper.
pub struct PerfFd(pub File);

impl PerfCounter for PerfFd {
    fn count(&self) -> io::Result<u64> {
        let mut buf = [0u8; 8];
        // A plain read: perf descriptors have no offset and refuse positional reads (ESPIPE).
        let n = (&self.0).read(&mut buf)?;
        if n == buf.len() {
            Ok(u64::from_ne_bytes(buf))
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }
}

/// Opens a counter and returns the bare descriptor, for passing on.
///
/// # Errors
/// The system's.
pub fn open_fd(pmu_type: u32, config: u64, cpu: u32) -> io::Result<OwnedFd> {
    perf_event::open(
        perf_event::PerfEvent { kind: pmu_type, config, ..Default::default() },
        None,
        Some(cpu),
    )
}

impl PerfOpener for Kernel {
    fn open(&self, pmu_type: u32, config: u64, cpu: u32) -> io::Result<Box<dyn PerfCounter>> {
        Ok(Box::new(PerfFd(File::from(open_fd(pmu_type, config, cpu)?))))
    }
}

/// One event of the PMU as sysfs describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct PerfEvent {
    /// `energy-pkg` and the like.
    pub name: String,
    /// The PMU's number.
    pub pmu_type: u32,
    /// The event's configuration word.
    pub config: u64,
    /// What a count is worth.
    pub unit: EnergyUnit,
}

/// Parses a cpumask list: `0`, `0,18`, `0-3,8`.
fn cpu_list(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (low, high): (u32, u32) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
        // One CPU per package stands here: a mask of thousands is no cpumask.
        if high < low || high - low > 4096 {
            return None;
        }
        cpus.extend(low..=high);
    }
    (!cpus.is_empty()).then_some(cpus)
}

/// Parses `event=0x02` under a format of `config:LOW-HIGH`.
fn event_config(text: &str, low_bit: u32) -> Option<u64> {
    let value = text.trim().strip_prefix("event=")?;
    let number = match value.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok()?,
        None => value.parse().ok()?,
    };
    number.checked_shl(low_bit)
}

/// The PMU's description in sysfs: its events, and the CPU to open each on per package.
pub struct PowerPmu {
    /// Events, by name.
    pub events: Vec<PerfEvent>,
    /// One CPU per package.
    pub cpus: Vec<u32>,
    /// Events whose description makes no sense.
    pub problems: Vec<SensorError>,
}

impl PowerPmu {
    /// The PMU's directory below the sysfs root.
    pub const DIR: &'static str = "bus/event_source/devices/power";

    /// Reads the description.
    ///
    /// # Errors
    /// Where there is no such PMU or its type or cpumask cannot be read.
    pub fn describe(files: &dyn Files, roots: &Roots) -> Result<PowerPmu, SensorError> {
        let dir = roots.sys.join(Self::DIR);
        let type_path = dir.join("type");
        let text = small_text(files, WHAT, &type_path).map_err(|mut error| {
            if let SensorError::NotFound { remedy, .. } = &mut error {
                *remedy = Some("sudo modprobe rapl".to_owned());
            }
            error
        })?;
        let pmu_type = text
            .parse()
            .map_err(|_| SensorError::malformed(WHAT, type_path, &text, "a PMU number"))?;
        let mask_path = dir.join("cpumask");
        let text = small_text(files, WHAT, &mask_path)?;
        let cpus = cpu_list(&text)
            .ok_or_else(|| SensorError::malformed(WHAT, mask_path, &text, "a list of CPUs"))?;
        let low_bit = files
            .text(&dir.join("format/event"))
            .ok()
            .and_then(|f| f.trim().strip_prefix("config:")?.split('-').next()?.parse().ok())
            .unwrap_or(0);
        let events_dir = dir.join("events");
        let names = files.list(&events_dir).map_err(|source| SensorError::Io {
            what: WHAT,
            path: events_dir.clone(),
            source,
        })?;
        let mut pmu = PowerPmu { events: Vec::new(), cpus, problems: Vec::new() };
        for name in names.iter().filter(|n| n.starts_with("energy-") && !n.contains('.')) {
            match Self::event(files, &events_dir, name, pmu_type, low_bit) {
                Ok(event) => pmu.events.push(event),
                Err(error) => pmu.problems.push(error),
            }
        }
        Ok(pmu)
    }

    fn event(
        files: &dyn Files,
        dir: &Path,
        name: &str,
        pmu_type: u32,
        low_bit: u32,
    ) -> Result<PerfEvent, SensorError> {
        let path = dir.join(name);
        let text = small_text(files, WHAT, &path)?;
        let config = event_config(&text, low_bit)
            .ok_or_else(|| SensorError::malformed(WHAT, path, &text, "event=NUMBER"))?;
        let path = dir.join(format!("{name}.unit"));
        let text = small_text(files, WHAT, &path)?;
        if text != "Joules" {
            return Err(SensorError::malformed(WHAT, path, &text, "Joules"));
        }
        let path = dir.join(format!("{name}.scale"));
        let text = small_text(files, WHAT, &path)?;
        let unit = text.parse().ok().and_then(EnergyUnit::from_joules);
        let unit =
            unit.ok_or_else(|| SensorError::malformed(WHAT, path, &text, "joules per count"))?;
        Ok(PerfEvent { name: name.to_owned(), pmu_type, config, unit })
    }
}

/// The package a CPU belongs to.
pub(crate) fn package_of(files: &dyn Files, roots: &Roots, cpu: u32) -> Option<u32> {
    let path = roots.sys.join(format!("devices/system/cpu/cpu{cpu}/topology/physical_package_id"));
    files.text(&path).ok()?.trim().parse().ok()
}

/// Words and remedy for a refused perf_event_open (kernel/events/core.c, and the level Debian
/// adds).
fn denied(files: &dyn Files, roots: &Roots, path: PathBuf) -> SensorError {
    let level: Option<i64> = files
        .text(&roots.proc.join("sys/kernel/perf_event_paranoid"))
        .ok()
        .and_then(|text| text.trim().parse().ok());
    let detail = match level {
        Some(level) if level >= 3 => {
            format!(
                "kernel.perf_event_paranoid is {level}: at 3 and above this kernel asks for CAP_SYS_ADMIN"
            )
        }
        Some(level) if level > 0 => {
            format!(
                "kernel.perf_event_paranoid is {level}: CAP_PERFMON, or a level of 0 or less, is needed"
            )
        }
        Some(level) => format!(
            "kernel.perf_event_paranoid is {level}, which allows it: a security module or container refuses"
        ),
        None => "kernel.perf_event_paranoid cannot be read".to_owned(),
    };
    SensorError::Denied { what: WHAT, path, detail, remedy: "sudo clscope sensord".to_owned() }
}

/// The plane, short name and caveat of an event.
pub(crate) fn event_plane(
    name: &str,
    cpu: &Processor,
) -> (&'static str, Option<Plane>, Option<&'static str>) {
    match name {
        "energy-pkg" => ("", Some(Plane::Package), None),
        "energy-cores" => {
            let (plane, includes) = cores_plane(cpu);
            ("/core", Some(plane), includes)
        }
        "energy-gpu" => ("/uncore", Some(Plane::Graphics), Some(PP1)),
        "energy-ram" => ("/dram", Some(Plane::Dram), None),
        "energy-psys" => ("psys", Some(Plane::Platform), Some(PSYS)),
        _ => ("", None, None),
    }
}

/// The domain an event makes on one package; names agree with powercap's.
pub fn event_domain(event: &PerfEvent, cpu: &Processor, package: Option<u32>, on: u32) -> Domain {
    let (suffix, plane, includes) = event_plane(&event.name, cpu);
    let top = package.map_or_else(|| format!("cpu-{on}"), |package| format!("package-{package}"));
    let name = match plane {
        Some(Plane::Platform) => "psys".to_owned(),
        Some(_) => format!("{top}{suffix}"),
        None => format!("{top}/{}", event.name),
    };
    Domain {
        plane: Some(plane.unwrap_or_else(|| Plane::Other(event.name.clone()))),
        package,
        includes,
        // The kernel extends the hardware's 32 bits to 64.
        ..Domain::new(name, Quantity::Energy { unit: event.unit, range: Range::Endless })
    }
}

/// The PMU's counters, opened.
pub struct PerfPower {
    domains: Vec<Domain>,
    counters: Vec<(PathBuf, Box<dyn PerfCounter>)>,
}

impl PerfPower {
    /// Opens every energy event on every package. The second value lists events that exist and
    /// cannot be used, with reasons.
    ///
    /// # Errors
    /// Where there is no PMU, or not one event opens.
    pub fn open(
        files: &dyn Files,
        roots: &Roots,
        opener: &dyn PerfOpener,
    ) -> Result<(PerfPower, Vec<SensorError>), SensorError> {
        let PowerPmu { events, cpus, mut problems } = PowerPmu::describe(files, roots)?;
        let cpu_kind = Processor::read(files, roots);
        let events_dir = roots.sys.join(PowerPmu::DIR).join("events");
        let mut found = PerfPower { domains: Vec::new(), counters: Vec::new() };
        for event in &events {
            for &cpu in &cpus {
                let domain = event_domain(event, &cpu_kind, package_of(files, roots, cpu), cpu);
                // psys is one for the machine, though the PMU offers it on every package.
                if found.domains.iter().any(|d| d.name == domain.name) {
                    continue;
                }
                let path = events_dir.join(&event.name);
                match opener.open(event.pmu_type, event.config, cpu) {
                    Ok(counter) => {
                        found.domains.push(domain);
                        found.counters.push((path, counter));
                    }
                    Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                        problems.push(denied(files, roots, path));
                    }
                    Err(source) => problems.push(SensorError::Io { what: WHAT, path, source }),
                }
            }
        }
        if found.domains.is_empty() {
            return Err(if problems.is_empty() {
                SensorError::Unsupported {
                    what: WHAT,
                    why: "the PMU lists no energy event".to_owned(),
                }
            } else {
                problems.swap_remove(0)
            });
        }
        Ok((found, problems))
    }
}

impl SensorSource for PerfPower {
    fn about(&self) -> (&str, &[Domain], Pace) {
        ("perf", &self.domains, RAPL_PACE)
    }

    fn read(&mut self, clock: &mut dyn Clock, out: TakeReading<'_>) -> Result<(), SensorError> {
        read_each(&self.counters, clock, out, |(path, counter)| {
            counter.count().map(Value::Counter).map_err(|e| crate::files::read_error(WHAT, path, e))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_events_parse() {
        let table = [
            ("0", Some(vec![0])),
            ("0,18", Some(vec![0, 18])),
            ("0-2,8", Some(vec![0, 1, 2, 8])),
            ("", None),
            ("3-1", None),
            ("0-99999999", None),
            ("x", None),
        ];
        for (text, want) in table {
            assert_eq!(cpu_list(text), want, "{text}");
        }
        let table = [
            ("event=0x02", 0, Some(2)),
            ("event=5\n", 8, Some(0x500)),
            ("event=", 0, None),
            ("umask=1", 0, None),
            ("event=1", 64, None),
        ];
        for (text, low, want) in table {
            assert_eq!(event_config(text, low), want, "{text}");
        }
    }
}
