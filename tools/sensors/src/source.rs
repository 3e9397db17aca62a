//! The one shape all sensors have: a [`SensorSource`] lists [`Domain`]s and yields stamped
//! [`Reading`]s of them. Owns the description of a domain (quantity, plane, what it includes);
//! refuses to interpret: totals, liveness and formulas live in modules of their own.
#![forbid(unsafe_code)]

use crate::error::SensorError;
use crate::units::{Clock, EnergyUnit, Microjoules, Microwatts, RawNs, RealtimeNs, Stamp};
use std::fmt;

/// The part of the machine whose energy a domain counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Plane {
    /// The processor package (RAPL PKG).
    Package,
    /// All cores of a package (RAPL PP0).
    Cores,
    /// One core alone: the "core" domain of AMD processors. No stand-in for [`Plane::Cores`].
    SingleCore,
    /// The graphics plane of the package (RAPL PP1, "uncore").
    Graphics,
    /// Memory (RAPL DRAM). Whether PKG contains it differs between processors.
    Dram,
    /// The whole platform (RAPL PSys).
    Platform,
    /// A discrete GPU, as far as its sensor reaches.
    Gpu,
    /// The card a discrete GPU sits on.
    GpuCard,
    /// The memory of a discrete GPU.
    GpuMemory,
    /// A processor and its GPU in one figure (AMD APUs).
    Apu,
    /// Something this crate has no name for; the source's own.
    Other(String),
}

impl fmt::Display for Plane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Plane::Package => "PKG",
            Plane::Cores => "PP0",
            Plane::SingleCore => "one core",
            Plane::Graphics => "PP1",
            Plane::Dram => "DRAM",
            Plane::Platform => "PSYS",
            Plane::Gpu => "GPU",
            Plane::GpuCard => "GPU card",
            Plane::GpuMemory => "GPU memory",
            Plane::Apu => "CPU and GPU",
            Plane::Other(name) => name,
        })
    }
}

/// How a counter starts again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Range {
    /// 64 bits or more: in practice it never does.
    Endless,
    /// It goes from just under this many counts back to 0.
    Wraps(u64),
}

/// What a domain measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Quantity {
    /// Energy since some past moment, in counts of `unit`.
    Energy {
        /// What a count is worth.
        unit: EnergyUnit,
        /// How it wraps.
        range: Range,
    },
    /// Power, microwatts. `window_ns` is the span the source says it averages over, where it says
    /// so.
    Power {
        /// Documented averaging window in nanoseconds.
        window_ns: Option<u64>,
    },
    /// A clock in megahertz.
    Clock,
    /// A temperature in thousandths of a degree Celsius.
    Temperature,
    /// A share in percent, averaged since the reading before.
    Percent,
    /// A rate in MiB/s, averaged since the reading before.
    Bandwidth,
    /// A set of flags.
    Flags,
}

/// One value as its source gave it, or, for [`Value::Energy`], as accumulated by the sampler.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// Raw counts of an energy counter; unit and range are in its [`Domain`].
    Counter(u64),
    /// Energy since the first reading of the series: monotone, wraps undone.
    Energy(Microjoules),
    /// Power.
    Power(Microwatts),
    /// Megahertz.
    Megahertz(f64),
    /// Thousandths of a degree Celsius.
    Millicelsius(i64),
    /// Percent.
    Percent(f64),
    /// MiB per second.
    MebibytesPerSecond(f64),
    /// Flags.
    Bits(u64),
}

impl Value {
    /// The number itself, for estimators that only look at its changes.
    pub fn magnitude(self) -> f64 {
        match self {
            Value::Counter(n) | Value::Bits(n) => n as f64,
            Value::Energy(e) => e.0 as f64,
            Value::Power(p) => p.0 as f64,
            Value::Megahertz(x) | Value::Percent(x) | Value::MebibytesPerSecond(x) => x,
            Value::Millicelsius(t) => t as f64,
        }
    }
}

/// Which device a domain belongs to, as far as the source knows: how it is matched to an OpenCL
/// device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct DeviceKey {
    /// PCI address as `dddd:bb:dd.f`, lower case.
    pub pci: Option<String>,
    /// The vendor's UUID.
    pub uuid: Option<String>,
    /// A name for people.
    pub name: Option<String>,
}

/// Name of the series that tells to what a device's power is limited.
pub const POWER_LIMIT: &str = "power-limit";

/// One series a source can give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    /// Unique within its source and stable between runs where the system allows it:
    /// `package-0/dram`.
    pub name: String,
    /// What is measured.
    pub quantity: Quantity,
    /// The part of the machine, for energy and power.
    pub plane: Option<Plane>,
    /// The CPU package it belongs to, where that is known.
    pub package: Option<u32>,
    /// The device it belongs to, for GPUs.
    pub device: Option<DeviceKey>,
    /// What the figure includes or leaves out, where its name alone would mislead.
    pub includes: Option<&'static str>,
}

impl Domain {
    /// A domain with no more known than its name and quantity.
    pub fn new(name: impl Into<String>, quantity: Quantity) -> Domain {
        Domain {
            name: name.into(),
            quantity,
            plane: None,
            package: None,
            device: None,
            includes: None,
        }
    }
}

/// Which domain of its source a reading belongs to: an index into [`SensorSource::domains`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DomainId(pub usize);

/// One reading.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// Of which domain.
    pub domain: DomainId,
    /// When. For readings that a driver stamped itself: the driver's time carried over to
    /// CLOCK_MONOTONIC_RAW, widened by what the carrying-over may err.
    pub stamp: Stamp,
    /// The driver's own stamp, where it gives one.
    pub source_time: Option<RealtimeNs>,
    /// Where the value is the mean over a span that ends at `stamp`: the span's length in
    /// nanoseconds.
    pub mean_over_ns: Option<u64>,
    /// The value.
    pub value: Value,
}

impl Reading {
    /// A reading of this moment, stamped by the one who read it.
    pub fn now(domain: DomainId, stamp: Stamp, value: Value) -> Reading {
        Reading { domain, stamp, source_time: None, mean_over_ns: None, value }
    }
}

/// How a source wants to be read; the sampler starts from it and goes by what it then sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Never read more often than this, in nanoseconds.
    pub fastest_ns: u64,
    /// Never read less often: a counter may wrap twice, a ring overflow.
    pub slowest_ns: u64,
    /// Whether the sampler may look for the update period and follow it. Sources that buffer
    /// readings themselves, or poll for a reason of their own, are read every `fastest_ns`.
    pub adaptive: bool,
}

/// Counts of what went wrong inside a source that buffers or filters readings itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceHealth {
    /// Readings given.
    pub given: u64,
    /// Readings seen again and left out.
    pub duplicates: u64,
    /// Readings that arrived later than newer ones.
    pub late: u64,
    /// Readings known to be missing.
    pub missing: u64,
    /// Readings refused as not plausible (NaN, zero while busy).
    pub refused: u64,
}

/// Where a source's readings go.
pub type TakeReading<'o> = &'o mut dyn FnMut(Reading);

/// A sensor interface that has been opened.
pub trait SensorSource: Send {
    /// Its name, domains and pace.
    fn about(&self) -> (&str, &[Domain], Pace);

    /// A short name: `powercap`, `perf`, `hwmon:xe`, `nvml:ring:0`.
    fn name(&self) -> &str {
        self.about().0
    }

    /// The domains, in the order of their [`DomainId`]s. Fixed once opened.
    fn domains(&self) -> &[Domain] {
        self.about().1
    }

    /// How it wants to be read.
    fn pace(&self) -> Pace {
        self.about().2
    }

    /// How long until it wants to be read again, in nanoseconds, where it knows better than its
    /// pace says. Asked after every read.
    fn due_in_ns(&self) -> Option<u64> {
        None
    }

    /// Reads everything that is there now and hands each reading to `out`.
    ///
    /// # Errors
    /// The first failure; readings handed over before it stand. One failing domain does not keep
    /// the others from being read.
    fn read(&mut self, clock: &mut dyn Clock, out: TakeReading<'_>) -> Result<(), SensorError>;

    /// What it filtered so far.
    fn health(&self) -> SourceHealth {
        SourceHealth::default()
    }
}

/// Reads one value of each of a source's channels, in the order of its domains. One that cannot be
/// read costs no other.
///
/// # Errors
/// The first of those of `read`, once all were tried.
pub fn read_each<C>(
    channels: &[C],
    clock: &mut dyn Clock,
    out: TakeReading<'_>,
    read: impl Fn(&C) -> Result<Value, SensorError>,
) -> Result<(), SensorError> {
    let mut first_error = None;
    for (i, channel) in channels.iter().enumerate() {
        match stamped(clock, || read(channel)) {
            Ok((stamp, value)) => out(Reading::now(DomainId(i), stamp, value)),
            Err(error) => {
                first_error.get_or_insert(error);
            }
        }
    }
    first_error.map_or(Ok(()), Err)
}

/// Reads one value between two looks at the clock.
///
/// # Errors
/// Those of `read`.
pub fn stamped<T>(
    clock: &mut dyn Clock,
    read: impl FnOnce() -> Result<T, SensorError>,
) -> Result<(Stamp, T), SensorError> {
    let before = clock.raw();
    let value = read()?;
    let after = clock.raw();
    // A clock that steps back within one read is not allowed to give an inverted bracket.
    Ok((Stamp { before, after: RawNs(after.0.max(before.0)) }, value))
}
