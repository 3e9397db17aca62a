//! GPU sensors under `/sys/class/hwmon`: Intel's discrete GPUs (i915, xe: energy) and AMD's
//! (amdgpu: power, clock, temperature). Owns which file of which driver means what; refuses files
//! of drivers it does not know.
#![forbid(unsafe_code)]

use crate::error::SensorError;
use crate::files::{Files, ReadAt, Roots, open_error, read_count, read_number};
use crate::source::{
    DeviceKey, Domain, Pace, Plane, Quantity, Range, SensorSource, TakeReading, Value, read_each,
};
use crate::units::{Clock, EnergyUnit, Microwatts};
use std::path::{Path, PathBuf};

/// The directory of hwmon devices, below the sysfs root.
pub const CLASS: &str = "class/hwmon";
const WHAT: &str = "GPU sensor (hwmon)";

/// i915's hardware counter has 32 bits, extended only when somebody reads it (4.4 minutes at 1 kW);
/// the GPU's power figures move within milliseconds.
const PACE: Pace = Pace { fastest_ns: 1_000_000, slowest_ns: 10_000_000_000, adaptive: true };

/// How a file's number becomes a value.
#[derive(Clone, Copy)]
enum Decode {
    Energy,
    Power,
    Hertz,
    Millicelsius,
}

struct Channel {
    path: PathBuf,
    file: Box<dyn ReadAt>,
    decode: Decode,
}

/// One hwmon device of a GPU.
pub struct Hwmon {
    name: String,
    domains: Vec<Domain>,
    channels: Vec<Channel>,
}

/// Whether an amdgpu device is an APU, from the head of its `gpu_metrics` (Linux
/// kgd_pp_interface.h: u16 size, u8 format, u8 content; formats 2 and 3 are the APUs'). `None`
/// where the file does not show it.
fn is_apu(files: &dyn Files, device: &Path) -> Option<bool> {
    let mut head = [0u8; 4];
    let n = files.open(&device.join("gpu_metrics")).ok()?.read_at(&mut head, 0).ok()?;
    match (n, head[2]) {
        (4, 1) => Some(false),
        (4, 2 | 3) => Some(true),
        _ => None,
    }
}

pub(crate) fn pci_address(files: &dyn Files, dir: &Path) -> Option<String> {
    let device = dir.join("device");
    let from_uevent = files.text(&device.join("uevent")).ok().and_then(|text| {
        text.lines()
            .find_map(|line| line.strip_prefix("PCI_SLOT_NAME=").map(|s| s.trim().to_lowercase()))
    });
    from_uevent.or_else(|| {
        let name = files.link_target_name(&device).ok()?.to_lowercase();
        (name.matches(':').count() == 2 && name.contains('.')).then_some(name)
    })
}

/// What to look for in a device's directory.
struct Row {
    file: &'static str,
    suffix: &'static str,
    decode: Decode,
    plane: Plane,
    includes: Option<&'static str>,
}

impl Row {
    fn new(file: &'static str, suffix: &'static str, decode: Decode, plane: Plane) -> Row {
        Row { file, suffix, decode, plane, includes: None }
    }
}

const APU: &str = "CPU and GPU together (APU)";
const MAYBE_APU: &str =
    "the socket; on an APU that is CPU and GPU together, and the driver does not say which this is";

/// The files of a driver. `None` for drivers this crate has no facts about.
fn rows(files: &dyn Files, driver: &str, dir: &Path) -> Option<Vec<Row>> {
    use Decode::{Energy, Hertz, Millicelsius, Power};
    Some(match driver {
        "i915" => vec![Row {
            includes: Some("the whole card"),
            ..Row::new("energy1_input", "energy", Energy, Plane::GpuCard)
        }],
        "xe" => vec![
            Row::new("energy1_input", "card/energy", Energy, Plane::GpuCard),
            Row::new("energy2_input", "pkg/energy", Energy, Plane::Gpu),
            Row::new("temp2_input", "pkg/temperature", Millicelsius, Plane::Gpu),
        ],
        "amdgpu" => {
            let (plane, includes) = match is_apu(files, &dir.join("device")) {
                Some(true) => (Plane::Apu, Some(APU)),
                Some(false) => (Plane::GpuCard, None),
                None => (Plane::GpuCard, Some(MAYBE_APU)),
            };
            let power =
                |file, suffix| Row { includes, ..Row::new(file, suffix, Power, plane.clone()) };
            vec![
                power("power1_average", "power-average"),
                power("power1_input", "power"),
                Row::new("freq1_input", "clock", Hertz, Plane::Gpu),
                Row::new("temp1_input", "temperature", Millicelsius, Plane::Gpu),
            ]
        }
        tile if tile.strip_prefix("i915_gt").is_some_and(|n| n.parse::<u32>().is_ok()) => {
            vec![Row {
                includes: Some("one tile"),
                ..Row::new("energy1_input", "energy", Energy, Plane::Gpu)
            }]
        }
        _ => return None,
    })
}

impl Hwmon {
    /// Opens every GPU's sensors. The second value lists sensors that exist and cannot be used.
    ///
    /// # Errors
    /// Where the class directory is absent, or not one GPU has a usable sensor in it.
    pub fn open(
        files: &dyn Files,
        roots: &Roots,
    ) -> Result<(Vec<Hwmon>, Vec<SensorError>), SensorError> {
        let class = roots.sys.join(CLASS);
        let entries = files
            .list(&class)
            .map_err(|e| open_error(WHAT, &class, e, "directory permissions", "run as root"))?;
        let (mut found, mut problems) = (Vec::new(), Vec::new());
        for entry in entries {
            let dir = class.join(entry);
            let Ok(driver) = files.text(&dir.join("name")) else { continue };
            let driver = driver.trim();
            let Some(rows) = rows(files, driver, &dir) else { continue };
            let key = DeviceKey {
                pci: pci_address(files, &dir),
                uuid: None,
                name: Some(driver.to_owned()),
            };
            let device = Hwmon::device(files, &dir, driver, key, rows, &mut problems);
            if !device.channels.is_empty() {
                found.push(device);
            }
        }
        if found.is_empty() {
            return Err(if problems.is_empty() {
                SensorError::Unsupported {
                    what: WHAT,
                    why: format!(
                        "no device under {} is a GPU with an energy or power file (i915 and xe have them for discrete GPUs only)",
                        class.display()
                    ),
                }
            } else {
                problems.swap_remove(0)
            });
        }
        // hwmonN numbers change from boot to boot; PCI addresses do not.
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok((found, problems))
    }

    fn device(
        files: &dyn Files,
        dir: &Path,
        driver: &str,
        key: DeviceKey,
        rows: Vec<Row>,
        problems: &mut Vec<SensorError>,
    ) -> Hwmon {
        let place = key.pci.clone().unwrap_or_else(|| {
            dir.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
        });
        let mut device = Hwmon {
            name: format!("hwmon:{driver}:{place}"),
            domains: Vec::new(),
            channels: Vec::new(),
        };
        for row in rows {
            let path = dir.join(row.file);
            let file = match files.open(&path) {
                Ok(file) => file,
                // A driver offers what the hardware has: missing files are no problem.
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                Err(e) => {
                    problems.push(open_error(WHAT, &path, e, "file permissions", "run as root"));
                    continue;
                }
            };
            // amdgpu lists files that answer EOPNOTSUPP or EINVAL for ever.
            if let Err(error) = read_number(WHAT, &*file, &path) {
                problems.push(error);
                continue;
            }
            let quantity = match row.decode {
                Decode::Energy => {
                    Quantity::Energy { unit: EnergyUnit::MICROJOULE, range: Range::Endless }
                }
                Decode::Power => Quantity::Power { window_ns: None },
                Decode::Hertz => Quantity::Clock,
                Decode::Millicelsius => Quantity::Temperature,
            };
            device.domains.push(Domain {
                plane: Some(row.plane),
                device: Some(key.clone()),
                includes: row.includes,
                ..Domain::new(row.suffix, quantity)
            });
            device.channels.push(Channel { path, file, decode: row.decode });
        }
        device
    }
}

impl SensorSource for Hwmon {
    fn about(&self) -> (&str, &[Domain], Pace) {
        (&self.name, &self.domains, PACE)
    }

    fn read(&mut self, clock: &mut dyn Clock, out: TakeReading<'_>) -> Result<(), SensorError> {
        read_each(&self.channels, clock, out, |channel| {
            let (file, path) = (&*channel.file, channel.path.as_path());
            Ok(match channel.decode {
                Decode::Energy => Value::Counter(read_count(WHAT, file, path)?),
                Decode::Power => Value::Power(Microwatts(read_count(WHAT, file, path)?)),
                Decode::Hertz => Value::Megahertz(read_count(WHAT, file, path)? as f64 * 1e-6),
                Decode::Millicelsius => Value::Millicelsius(read_number(WHAT, file, path)?),
            })
        })
    }
}
