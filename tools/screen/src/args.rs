//! Options that several programs have, and what the libraries make of them. Refuses to act on any.

use clap::builder::{OsStringValueParser, TypedValueParser};
use clscope_capture::meter::Wanted;
use clscope_microbench::power::Metering;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// How figures are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum TableFormat {
    /// Aligned tables for people
    Table,
    /// One JSON object
    Json,
}

/// Runs of one side of a comparison, comma-separated. A path that is there is one run, commas and
/// all.
#[derive(Debug, Clone)]
pub struct Runs(pub Vec<PathBuf>);

impl Runs {
    /// As clap takes them.
    pub fn parser() -> impl TypedValueParser<Value = Self> {
        OsStringValueParser::new().map(|text| match Path::new(&text).exists() {
            true => Self(vec![text.into()]),
            false => {
                let parts = text.as_bytes().split(|byte| *byte == b',');
                Self(parts.map(|part| PathBuf::from(OsStr::from_bytes(part))).collect())
            }
        })
    }

    /// The first, for messages.
    pub fn first(&self) -> &Path {
        self.0.first().map_or(Path::new(""), PathBuf::as_path)
    }
}

/// Where watts of a measurement are from.
#[derive(Debug, Clone, clap::Args)]
pub struct MeteringArgs {
    /// How GPU power is computed: auto, pp1, pkg-pp0, pkg-pp0-dram, nvml, hwmon or meter
    /// [default: auto]
    #[arg(long, value_name = "FORMULA")]
    pub gpu_power: Option<clscope_sensors::gpu_power::Choice>,
    /// Read an external power meter beside the sensors: a CSV with columns of time and power, which
    /// a logger writes to FILE meanwhile, or which COMMAND prints. A processor or GPU without a sensor
    /// takes it by itself, others with --gpu-power meter
    #[arg(long, value_name = "FILE|COMMAND")]
    pub meter: Option<String>,
    /// How the meter's table is read, such as power=Watts,zone=+01:00 or place=load: `clscope meter
    /// --help` has all
    #[arg(long, value_name = "KEY=VALUE,...", requires = "meter")]
    pub meter_format: Option<clscope_sensors::meter::Format>,
    /// Look for sensors below this directory (its sys, dev and proc) instead of the system's
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    pub sysfs_root: Option<PathBuf>,
    /// Take readings from this file instead of sensors, as if they came now
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub readings: Option<PathBuf>,
}

impl MeteringArgs {
    /// An option that reads a sensor, if one was given.
    pub fn given(&self) -> Option<&'static str> {
        let given = [
            (self.gpu_power.is_some(), "--gpu-power"),
            (self.meter.is_some(), "--meter"),
            (self.sysfs_root.is_some(), "--sysfs-root"),
            (self.readings.is_some(), "--readings"),
        ];
        given.iter().find(|(given, _)| *given).map(|(_, name)| *name)
    }

    /// As the library takes them; `off`: no sensor is read.
    pub fn metering(&self, off: bool) -> Metering {
        Metering {
            off,
            root: self.sysfs_root.clone(),
            readings: self.readings.clone(),
            formula: self.gpu_power.unwrap_or_default(),
            meter: self.meter.as_ref().map(|what| Wanted {
                what: what.clone(),
                format: self.meter_format.clone().unwrap_or_default(),
            }),
        }
    }
}
