//! Parameters of a device: what was measured once by `clscope bench model`, with interval, unit and
//! source of each, for one device under one driver. Owns the names of parameters and the file's
//! schema; refuses files of other schemas, numbers that no measurement gives, and another device's
//! or driver's file unless the caller insists.

use crate::energy::EnergyModel;
use crate::figure::{Evidence, Figure, Missing};
use crate::hockney::Link;
use crate::idle::States;
use crate::kernel::KEPT;
use clscope_mix::Precision;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The schema's name and version.
pub const SCHEMA: &str = "clscope-device/4";
/// The version that is read as well; joules were of other classes there.
const BEFORE: &str = "clscope-device/3";

/// Largest file that is read, bytes.
pub const MOST_BYTES: u64 = 4 << 20;

pub mod name;
mod typical;

/// A measured number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// The value.
    pub value: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Whether a sample or a fit stands behind the value, as for every figure of a benchmark.
    pub estimated: bool,
    /// Its unit.
    pub unit: String,
    /// The microbenchmark that gave it.
    pub source: String,
}

impl Parameter {
    /// A figure of a microbenchmark.
    pub fn measured(figure: Figure, unit: &str, source: &str) -> Self {
        Self {
            value: figure.value,
            low: figure.low.clamp(0.0, figure.value.max(0.0)),
            high: figure.high.max(figure.value),
            estimated: true,
            unit: unit.to_owned(),
            source: source.to_owned(),
        }
    }

    /// As a figure.
    pub fn figure(&self) -> Figure {
        Figure::new(self.value, self.low, self.high, Evidence::Measured)
    }
}

/// Bandwidth of one working set.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Level {
    /// Bytes that are read again and again.
    pub bytes: f64,
    /// GB/s of the whole device.
    pub gigabytes_per_second: f64,
}

/// A device's parameters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Device {
    /// [`SCHEMA`].
    pub schema: String,
    /// CL_DEVICE_NAME.
    pub name: String,
    /// CL_PLATFORM_NAME.
    pub platform: String,
    /// CL_DRIVER_VERSION.
    pub driver: String,
    /// `gpu`, `cpu` or `other`.
    pub kind: String,
    /// When it was measured, UTC, as `2026-11-22`.
    pub date: String,
    /// Version of clscope that measured it.
    pub version: String,
    /// Whether the shorter choice of microbenchmarks was run.
    pub quick: bool,
    /// CL_DEVICE_MAX_COMPUTE_UNITS.
    pub compute_units: u32,
    /// Work-items of a warp, where the device has warps.
    pub lanes: Option<u32>,
    /// NVIDIA's compute capability.
    pub capability: Option<(u32, u32)>,
    /// The power sensor, or why there is none.
    pub power_source: String,
    /// By name; see [`name`].
    pub parameters: BTreeMap<String, Parameter>,
    /// Bandwidth over the size of what is read again and again, smallest first; empty where it was
    /// not measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<Level>,
    /// Transfers by direction and kind of host memory.
    pub links: Vec<Link>,
    /// Operating states while nothing runs.
    pub idle: Option<States>,
    /// Joules by class of instruction.
    pub energy: Option<EnergyModel>,
    /// Why parameters are absent, by name.
    pub absent: BTreeMap<String, String>,
    /// Whether they are taken for another device or driver, as the user insists. No part of a file.
    #[serde(skip)]
    pub forced: bool,
    /// Bytes that the last cache holds, of a device whose rates are those of another clock than the
    /// one that its sets were measured at.
    #[serde(skip)]
    pub held: Option<f64>,
    /// Whether its compiler joins work-items is taken to be so, where what was measured leaves it open.
    #[serde(skip)]
    pub joins: Option<bool>,
    /// Nothing was measured: its parameters are those that devices of its kind typically have.
    #[serde(skip)]
    pub typical: bool,
}

/// Why a file of parameters is not used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It is no such file.
    #[error("it is no file of device parameters: {0}; `clscope bench model` writes one")]
    Syntax(String),
    /// It was written by another version.
    #[error(
        "its schema is {found:?}, this version reads {SCHEMA:?}; measure the device again with `clscope bench model`"
    )]
    Schema {
        /// What it says.
        found: String,
    },
    /// A number in it is none that a measurement gives.
    #[error(
        "its parameter {0} is no measured number; measure the device again with `clscope bench model`"
    )]
    Number(String),
    /// It is another device's.
    #[error("it is of {found}, and this is {wanted}; --force takes it all the same")]
    Device {
        /// The file's device.
        found: String,
        /// The device that parameters are wanted of.
        wanted: String,
    },
    /// It was measured under another driver.
    #[error(
        "it was measured under driver {found}, and this is {wanted}; measure again with `clscope bench model`, or --force takes it all the same"
    )]
    Driver {
        /// The file's driver.
        found: String,
        /// The driver that parameters are wanted of.
        wanted: String,
    },
}

impl Device {
    /// Reads a file.
    ///
    /// # Errors
    /// If it is none, of another schema, or holds numbers that no measurement gives.
    pub fn read(bytes: &[u8]) -> Result<Self, Refused> {
        #[derive(Deserialize)]
        struct Head {
            schema: String,
        }
        let syntax = |error: serde_json::Error| Refused::Syntax(error.to_string());
        let head: Head = serde_json::from_slice(bytes).map_err(syntax)?;
        if ![SCHEMA, BEFORE].contains(&head.schema.as_str()) {
            return Err(Refused::Schema { found: head.schema });
        }
        let mut device: Self = serde_json::from_slice(bytes).map_err(syntax)?;
        if device.schema == BEFORE {
            device.schema = SCHEMA.to_owned();
            if device.energy.take().is_some() {
                let why = "its joules are of other classes than today's: `clscope bench model`";
                device.absent.insert("energy".to_owned(), why.to_owned());
            }
        }
        for (name, p) in &device.parameters {
            let sound = [p.value, p.low, p.high].iter().all(|x| x.is_finite() && *x >= 0.0)
                && p.value > 0.0
                && p.low <= p.value
                && p.value <= p.high;
            if !sound {
                return Err(Refused::Number(name.clone()));
            }
        }
        let above_0 = |x: f64| x.is_finite() && x > 0.0;
        let level = |l: &Level| above_0(l.bytes) && above_0(l.gigabytes_per_second);
        if !device.levels.iter().all(level) || !device.levels.is_sorted_by_key(|l| l.bytes) {
            return Err(Refused::Number("levels".to_owned()));
        }
        let sound = device.links.iter().all(Link::is_sound);
        if !sound {
            return Err(Refused::Number("links".to_owned()));
        }
        if device.idle.as_ref().is_some_and(|idle| !idle.is_sound()) {
            return Err(Refused::Number("idle".to_owned()));
        }
        if device.energy.as_ref().is_some_and(|energy| !energy.is_sound()) {
            return Err(Refused::Number("energy".to_owned()));
        }
        Ok(device)
    }

    /// The file's text.
    ///
    /// # Errors
    /// If a number cannot be written: none that was measured.
    pub fn text(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// Whether it is of a device under a driver.
    ///
    /// # Errors
    /// What differs.
    pub fn check(&self, name: &str, driver: &str) -> Result<(), Refused> {
        if self.name.trim() != name.trim() {
            return Err(Refused::Device { found: self.name.clone(), wanted: name.to_owned() });
        }
        if self.driver.trim() != driver.trim() {
            return Err(Refused::Driver { found: self.driver.clone(), wanted: driver.to_owned() });
        }
        Ok(())
    }

    /// Whose parameters these are, where the user insisted on them for another device or driver.
    pub fn forced(&self) -> Option<String> {
        self.forced
            .then(|| format!("parameters of {}, driver {}", self.name.trim(), self.driver.trim()))
    }

    /// What its file is called: letters, digits and hyphens of name and platform.
    pub fn file_name(name: &str, platform: &str) -> String {
        let plain = |text: &str| {
            text.split(|c: char| !c.is_ascii_alphanumeric())
                .filter(|part| !part.is_empty())
                .collect::<Vec<_>>()
                .join("-")
        };
        let mut text = format!("{}_{}", plain(platform), plain(name));
        text.truncate(120);
        text + ".json"
    }

    /// Bytes that the last cache holds of words that are touched at random: by how far a set larger
    /// than it slows loads down, where that was measured.
    pub fn kept_at_random(&self) -> Option<f64> {
        let kept = self.get(name::L2_KEPT).ok().map(|bytes| bytes.value);
        kept.or_else(|| Some(KEPT * self.last_cache()?))
    }

    /// Bytes that its last cache holds: what it serves of the first set that is read nearer to
    /// memory's bandwidth than to the cache's, where sets were measured; else what its file says.
    pub fn last_cache(&self) -> Option<f64> {
        if self.held.is_some() {
            return self.held;
        }
        let between = self.get(name::L2).ok().zip(self.get(name::DRAM).ok());
        let between = between.map(|(cache, memory)| (cache.value * memory.value).sqrt());
        let held = |l: &&Level| between.is_some_and(|rate| l.gigabytes_per_second >= rate);
        let largest = self.levels.iter().rposition(|l| held(&l)).map(|at| {
            let (last, next) = (&self.levels[at], self.levels.get(at + 1));
            // Times of a byte add up: of those that the cache serves, and of the others.
            let serves = |next: &Level| {
                let cache = last.gigabytes_per_second.recip();
                let memory = self.get(name::DRAM).map_or(f64::INFINITY, |d| d.value.recip());
                let share = (memory - next.gigabytes_per_second.recip()) / (memory - cache);
                // Sets of a file may be in any order.
                (share * next.bytes).min(next.bytes).max(last.bytes)
            };
            next.map_or(last.bytes, serves)
        });
        largest.or_else(|| self.get(name::L2_BYTES).ok().map(|bytes| bytes.value))
    }

    /// Whether it is a CPU, whose runtime's compiler decides how work-items become instructions.
    pub fn is_cpu(&self) -> bool {
        self.kind == "cpu"
    }

    /// Bytes that its caches move at once: a CPU's line, or a sector of a GPU's.
    pub fn piece(&self) -> u64 {
        if self.is_cpu() { 64 } else { clscope_mix::SECTOR }
    }

    /// Whether the compiler of a CPU makes vectors of work-items whose code has loops: such code is
    /// then at least a quarter as fast as vectors that a kernel writes.
    pub fn joins_items(&self) -> bool {
        self.joins.unwrap_or_else(|| self.joined_rate().is_some_and(|share| share.value >= 0.25))
    }

    /// The rate of work-items whose code has loops over that of vectors that a kernel writes; none of
    /// a device of which either is not known.
    fn joined_rate(&self) -> Option<Figure> {
        let best = ["fma", "mad"].map(|o| self.get(&name::rate(Precision::Single, o)).ok());
        let best = best.into_iter().flatten().max_by(|a, b| a.value.total_cmp(&b.value))?;
        // Two FLOP of each.
        Some(self.get(name::ITEMS_SINGLE).ok()?.times(2.0).over(best))
    }

    /// The device with its compiler joining work-items, and without, where what was measured leaves
    /// that open; else none.
    pub(crate) fn joining_or_not(&self) -> Option<[Self; 2]> {
        let is_open = |share: &Figure| share.low < 0.25 && 0.25 <= share.high;
        self.joined_rate()
            .filter(|share| self.is_cpu() && self.joins.is_none() && is_open(share))?;
        Some([true, false].map(|joins| Self { joins: Some(joins), ..self.clone() }))
    }

    /// A parameter.
    ///
    /// # Errors
    /// That the file lacks it, with the reason where one is known.
    pub fn get(&self, name: &str) -> Result<Figure, Missing> {
        match self.parameters.get(name) {
            Some(parameter) => Ok(parameter.figure()),
            None => Err(match self.absent.get(name) {
                Some(why) => Missing::new(format!("the device has no {name}"), why.clone()),
                None => Missing::parameter(name),
            }),
        }
    }

    /// GB/s of a working set of so many bytes: between two that were measured by the logarithm of
    /// their sizes, beyond them as the nearest. `None` where none was measured.
    pub fn bandwidth_of(&self, bytes: f64) -> Option<f64> {
        let levels: Vec<_> =
            self.levels.iter().map(|l| (l.bytes, l.gigabytes_per_second)).collect();
        between(&levels, bytes)
    }

    /// Accesses a nanosecond to words that are scattered over so many bytes: see
    /// [`bandwidth_of`](Self::bandwidth_of).
    pub fn gathers_of(&self, bytes: f64) -> Option<f64> {
        let known = |(key, bytes): &(&str, f64)| Some((*bytes, self.get(key).ok()?.value));
        between(&name::GATHERS.iter().filter_map(known).collect::<Vec<_>>(), bytes)
    }

    /// Nanoseconds until an access of a CPU's item to any word of so many bytes has its value: see
    /// [`bandwidth_of`](Self::bandwidth_of).
    pub fn latency_of(&self, bytes: f64) -> Option<f64> {
        let points =
            [(self.own_cache(), name::LATENCY_LOCAL), (name::RANDOM_BYTES, name::LATENCY_RANDOM)];
        let known = |(bytes, key): (f64, &str)| Some((bytes, self.get(key).ok()?.value));
        between(&points.into_iter().filter_map(known).collect::<Vec<_>>(), bytes)
    }

    /// Bytes of a compute unit's nearest cache, of a CPU.
    pub(crate) fn own_cache(&self) -> f64 {
        let units = f64::from(self.compute_units.max(1));
        self.get(name::L1_BYTES).map_or(LEAST_NEAREST, |all| all.value / units)
    }

    /// Keeps a parameter; one that is not above 0 or not finite is absent, with that reason.
    pub fn keep_parameter(&mut self, name: &str, figure: Figure, unit: &str, source: &str) {
        let sound = [figure.value, figure.low, figure.high].iter().all(|x| x.is_finite());
        if !sound || figure.value <= 0.0 {
            let why = format!("{source} gave no number");
            self.absent.insert(name.to_owned(), why);
            return;
        }
        self.absent.remove(name);
        self.parameters.insert(name.to_owned(), Parameter::measured(figure, unit, source));
    }
}

/// Bytes of the nearest cache of a CPU's core, where no measurement shows it: all cores since 2017 have as
/// many or half as many more.
const LEAST_NEAREST: f64 = 32768.0;

/// The value at so many bytes, of points in order of their bytes.
fn between(points: &[(f64, f64)], bytes: f64) -> Option<f64> {
    let behind = points.partition_point(|point| point.0 < bytes).min(points.len().checked_sub(1)?);
    let (a, b) = (points.get(behind.saturating_sub(1))?, points.get(behind)?);
    let share = ((bytes / a.0).ln() / (b.0 / a.0).ln()).clamp(0.0, 1.0);
    let share = if share.is_nan() { 0.0 } else { share };
    Some(a.1 * (b.1 / a.1).powf(share))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A device with round numbers: 100 GB/s of memory, 1000 GFLOP/s.
    pub fn round() -> Device {
        let mut device = Device {
            schema: SCHEMA.to_owned(),
            name: "Round".to_owned(),
            platform: "Test".to_owned(),
            driver: "1.0".to_owned(),
            kind: "gpu".to_owned(),
            compute_units: 10,
            lanes: Some(32),
            ..Device::default()
        };
        let exact = |v| Figure::exact(v, Evidence::Measured);
        for (name, value, unit) in [
            (name::DRAM, 100.0, "GB/s"),
            (name::L2, 400.0, "GB/s"),
            (name::L1, 1000.0, "GB/s"),
            (name::LOCAL, 2000.0, "GB/s"),
            ("rate.fp32.fma", 1000.0, "GFLOP/s"),
            ("rate.fp32.add", 500.0, "GFLOP/s"),
            ("rate.fp64.fma", 500.0, "GFLOP/s"),
            (name::LAUNCH, 2000.0, "ns"),
            (name::LAUNCH_PERIOD, 5000.0, "ns"),
        ] {
            device.keep_parameter(name, exact(value), unit, "test");
        }
        device
    }

    /// A device of which every parameter is known.
    pub fn made(kind: &str, speed: &[f64]) -> Device {
        let mut out = Device {
            name: "Made".to_owned(),
            kind: kind.to_owned(),
            compute_units: 8,
            lanes: (kind == "gpu").then_some(32),
            ..Device::default()
        };
        let rates = ["fp16", "fp32", "fp64"]
            .iter()
            .flat_map(|p| ["fma", "add", "div"].map(|o| format!("rate.{p}.{o}")));
        let names = name::ALL.iter().map(|n| (*n).to_owned()).chain(rates);
        for (key, speed) in names.zip(speed.iter().cycle()) {
            let unit = if key.starts_with("rate") { "Gop/s" } else { "" };
            out.keep_parameter(&key, Figure::exact(*speed, Evidence::Measured), unit, "made");
        }
        out
    }

    #[test]
    fn a_file_comes_back_as_it_was_written() {
        let device = round();
        let text = device.text().unwrap();
        assert_eq!(Device::read(text.as_bytes()), Ok(device));
    }

    #[test]
    fn bandwidth_follows_the_curve_between_working_sets() {
        let mut device = round();
        assert_eq!(device.bandwidth_of(1e6), None);
        let level = |bytes, gigabytes_per_second| Level { bytes, gigabytes_per_second };
        device.levels = vec![level(1e3, 400.0), level(1e5, 100.0), level(1e6, 10.0)];
        let at = |bytes| device.bandwidth_of(bytes).unwrap();
        assert_eq!((at(1.0), at(1e3), at(1e9)), (400.0, 400.0, 10.0));
        assert!((at(1e4) - 200.0).abs() < 1e-9 && (at(1e5) - 100.0).abs() < 1e-9);
        let text = device.text().unwrap();
        assert_eq!(Device::read(text.as_bytes()).as_ref(), Ok(&device));
        device.levels.reverse();
        let text = device.text().unwrap();
        assert!(matches!(Device::read(text.as_bytes()), Err(Refused::Number(_))));
    }

    #[test]
    fn files_of_the_version_before_are_read_without_their_joules() {
        let mut device = round();
        device.energy = Some(EnergyModel {
            floor_watts: 40.0,
            terms: BTreeMap::new(),
            error: 0.1,
            observations: 9,
        });
        let text = device.text().unwrap().replace(SCHEMA, BEFORE);
        let read = Device::read(text.as_bytes()).unwrap();
        assert!(read.absent["energy"].contains("bench model"), "{read:?}");
        assert_eq!((read.energy, read.parameters), (None, device.parameters));
    }

    #[test]
    fn other_files_are_refused_with_the_reason() {
        let device = round();
        assert!(matches!(Device::read(b"{"), Err(Refused::Syntax(_))));
        let other = device.text().unwrap().replace(SCHEMA, "clscope-device/9");
        assert!(matches!(Device::read(other.as_bytes()), Err(Refused::Schema { .. })));
        let negative = device.text().unwrap().replace("\"value\": 400.0", "\"value\": -4.0");
        assert_eq!(Device::read(negative.as_bytes()), Err(Refused::Number(name::L2.to_owned())));
        assert_eq!(device.check("Round ", "1.0"), Ok(()));
        assert!(matches!(device.check("Square", "1.0"), Err(Refused::Device { .. })));
        assert!(matches!(device.check("Round", "1.1"), Err(Refused::Driver { .. })));
    }

    #[test]
    fn what_was_not_measured_is_absent_with_the_next_step() {
        let mut device = round();
        device.keep_parameter(
            "latency.add",
            Figure::exact(f64::NAN, Evidence::Measured),
            "ns",
            "latency/add",
        );
        let missing = device.get("latency.add").unwrap_err();
        assert!(missing.remedy.contains("latency/add gave no number"), "{missing}");
        assert!(device.get("rate.fp16.fma").unwrap_err().remedy.contains("clscope bench model"));
    }

    #[test]
    fn file_names_hold_nothing_that_leads_elsewhere() {
        let name = Device::file_name("../NVIDIA H200\n/x", "A/B");
        assert_eq!(name, "A-B_NVIDIA-H200-x.json");
    }

    /// A cache of 1.2 MB serves 60 % of a set of 2 MB.
    #[test]
    fn the_last_cache_is_as_large_as_what_it_serves() {
        let mut device = round();
        let rate = (0.6f64 / 400.0 + 0.4 / 100.0).recip();
        let sets = [(1e6, 400.0), (2e6, rate), (4e6, 110.0)];
        device.levels = sets
            .map(|(bytes, gigabytes_per_second)| Level { bytes, gigabytes_per_second })
            .to_vec();
        let found = device.last_cache().unwrap();
        assert!((found / 1.2e6 - 1.0).abs() < 1e-9, "{found}");
        device.levels.reverse();
        assert!(device.last_cache().is_some());
    }
}
