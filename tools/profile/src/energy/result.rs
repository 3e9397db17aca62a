//! Owns energy as data: what `--format json` gives under `energy`, and what tables and timelines
//! show. Joules, watts and seconds, which JSON gives in nanoseconds; what is not known is null.
#![allow(missing_docs)] // fields are named as in the JSON document

use super::around::LaunchEnergy;
use crate::interval::{Interval, as_ns, as_some_ns};
pub use clscope_analysis::energy::turns::Shared;
pub use clscope_analysis::energy::{Absence, Drift, Gaps, Temperature};
use clscope_analysis::energy::{Evidence, Load};
use serde::Serialize;

/// Energy of a whole trace.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Energy {
    /// Why there is no figure at all; null where there is one.
    pub absent: Option<String>,
    pub devices: Vec<DeviceEnergy>,
    /// Devices that ran something and have no sensor.
    pub unmeasured: Vec<Unmeasured>,
    /// Energy counters over the application's life.
    pub application: Vec<CounterEnergy>,
    pub sampler: Option<Sampler>,
    /// What happened to sensors, and what was wrong with files of readings.
    pub notes: Vec<String>,
    /// Interfaces that do not work, and why.
    pub interfaces: Vec<Interface>,
}

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unmeasured {
    pub device: String,
    pub why: String,
}

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interface {
    pub name: String,
    pub state: String,
    pub why: String,
    pub remedy: Option<String>,
}

/// A counter's difference over the application's life.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CounterEnergy {
    pub sensor: String,
    pub plane: String,
    pub includes: Option<String>,
    pub joules: f64,
    /// Largest error of the two readings' places: the counter's steps at both ends.
    #[serde(rename = "within_joules")]
    pub within: f64,
    #[serde(rename = "time_ns", serialize_with = "as_ns")]
    pub seconds: f64,
    /// Of a counter beside samples: their integral over the same time, over `joules`, less one.
    pub samples_differ: Option<f64>,
}

/// What sampling cost.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sampler {
    #[serde(rename = "time_ns", serialize_with = "as_ns")]
    pub seconds: f64,
    #[serde(rename = "cpu_ns", serialize_with = "as_ns")]
    pub cpu_seconds: f64,
    /// Share of one core.
    pub share: f64,
    pub sources: Vec<Source>,
}

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Source {
    pub name: String,
    pub reads: u64,
    pub failures: u64,
    #[serde(rename = "cpu_ns", serialize_with = "as_ns")]
    pub cpu_seconds: f64,
    #[serde(rename = "every_ns", serialize_with = "as_ns")]
    pub every_seconds: f64,
    pub missing: u64,
    pub duplicates: u64,
    pub late: u64,
    pub refused: u64,
    pub lost: bool,
}

/// Energy of one device.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceEnergy {
    pub device: String,
    pub host: String,
    pub pci: Option<String>,
    pub processes: Vec<String>,
    /// (process, device id) of each.
    #[serde(skip)]
    pub members: Vec<(clscope_analysis::time::ProcessIndex, u32)>,
    /// The part of the run that all of these figures are of (`--window`); null: all of it.
    pub window: Option<Window>,
    /// `nvml`, `hwmon`, `pp1`, `pkg-pp0`, `pkg-pp0-dram` or `pkg`.
    pub formula: &'static str,
    pub equation: &'static str,
    pub includes: String,
    /// Why this formula.
    pub reason: String,
    /// How the sensor was matched to the device.
    pub matched: String,
    pub sensors: Vec<String>,
    /// Why nothing could be attributed; null where it was.
    pub failed: Option<String>,
    /// Whether that is since too few readings saw the device at work.
    #[serde(skip)]
    pub few_readings: bool,
    /// Of the time in which the application ran and nothing was repeated, as far as readings cover
    /// it; null where they cover none.
    pub measured_joules: Option<f64>,
    /// Half-width of its interval.
    #[serde(skip)]
    pub measured_open: f64,
    /// That time.
    #[serde(rename = "time_ns", serialize_with = "as_ns")]
    pub seconds: f64,
    pub mean_watts: Option<f64>,
    /// What was measured and belongs to nothing else here; null likewise.
    pub unattributed_joules: Option<f64>,
    /// The same with its 95 % interval: that of all other parts together.
    pub unattributed: Option<Interval>,
    pub classes: Vec<Class>,
    /// Energy of single commands, where sensors were read around each; in order of time.
    #[serde(skip)]
    pub launches: Vec<LaunchEnergy>,
    /// Kernels and transfers that `record --replay` repeated: one row per kernel and global size,
    /// or direction and order of magnitude. Their figures are part of the classes' own.
    pub replays: Vec<Replayed>,
    /// What repeating took; null where nothing was repeated.
    pub repetitions: Option<Repetitions>,
    /// What to do where only sums are known; null where all is known or nothing more can be done.
    pub next: Option<String>,
    pub groups: Vec<Group>,
    pub floors: Vec<Floor>,
    pub gaps: Option<Gaps>,
    pub iteration: Option<Iteration>,
    pub response: Option<Response>,
    /// Of several runs that are reported together, of the one in which power changed most.
    pub drift: Option<Drift>,
    pub residual_watts: Option<f64>,
    pub residual_correlation: Option<f64>,
    /// What is the same in traces of one device only.
    #[serde(skip)]
    pub identity: String,
    /// What this run says of what runs of the device share.
    #[serde(skip)]
    pub evidence: Evidence,
    /// Temperature while the sensor was read: joules are those at it. Null where it was not read.
    pub temperature: Option<Temperature>,
    pub readings: usize,
    /// Commands that ran without a known place in time.
    pub unplaced: u64,
    /// How several processes shared the device; null where their commands do not overlap.
    pub shared: Option<Shared>,
    /// Energy over the same time by the formula pkg-pp0-dram, where its domains exist.
    pub reference_joules: Option<f64>,
    /// The result of the self-test whether DRAM is part of PKG.
    pub containment: Option<String>,
    /// What decides about the joules of the kernel that was asked for (`--explain-energy`); null
    /// where none was, or it did not run on this device.
    pub explained: Option<super::explained::Explained>,
    /// Warnings about this device's figures.
    pub notes: Vec<String>,
}

impl DeviceEnergy {
    /// How many batches were repeated, and how many of them in the part of the run that figures are
    /// of.
    pub fn batches_told(&self) -> String {
        let all: usize = self.replays.iter().map(|r| r.batches).sum();
        match self.repetitions.as_ref().and_then(|r| r.batches_in_window) {
            Some(here) => format!("{here} of the run's {all} batches (rows use all of them)"),
            None => format!("{all} batches"),
        }
    }

    /// What was measured, part by part: every view that draws joules draws these. What is not known
    /// is in the last, so that the parts add up to what was measured.
    pub fn parts(&self) -> Vec<Part<'_>> {
        let mut out: Vec<Part<'_>> = Vec::new();
        for (index, group) in self.groups.iter().enumerate() {
            let members = self.classes.iter().filter(|c| c.group == Some(index));
            let each: Option<Vec<Part<'_>>> =
                members.map(|c| Some(Part { of: PartOf::Class(c), joules: c.joules? })).collect();
            let of = match each {
                // The energy model may tell all of a sum apart.
                Some(each) if !each.is_empty() => {
                    out.extend(each);
                    continue;
                }
                _ => PartOf::Sum(&group.names),
            };
            out.push(Part { of, joules: group.joules });
        }
        for floor in &self.floors {
            out.extend(floor.joules.map(|joules| Part { of: PartOf::Floor(floor), joules }));
        }
        out.extend(self.unattributed.map(|joules| Part { of: PartOf::Rest, joules }));
        out
    }

    /// What belongs to nothing else here is this.
    pub(super) fn leave(&mut self, rest: Option<Interval>) {
        self.unattributed_joules = rest.map(|rest| rest.value);
        self.unattributed = rest;
    }

    /// These joules belong to nothing else here, either; `open`: by how much its interval is wider.
    pub(super) fn leave_more(&mut self, joules: f64, open: f64) {
        self.leave(self.unattributed.map(|rest| rest.moved(joules).open_by(open)));
    }

    /// Counts launches and busy time in the part of the run that figures are of.
    pub(super) fn keep_to_window(&mut self) {
        for class in self.classes.iter_mut().filter(|_| self.window.is_some()) {
            let part = class.covered_seconds / class.busy_seconds.max(f64::MIN_POSITIVE);
            class.launches *= part;
            class.busy_seconds = class.covered_seconds;
        }
    }

    /// Takes what was measured in the time that figures are of.
    pub(super) fn set_measured(&mut self, joules: Option<Interval>) {
        self.measured_joules = joules.map(|joules| joules.value);
        self.measured_open = joules.map_or(0.0, |joules| joules.half());
        self.mean_watts = joules.map(|joules| joules.value / self.seconds);
    }

    /// Joules measured, with their interval.
    pub fn own_joules(&self) -> Option<Interval> {
        let joules = Interval::around(self.measured_joules?, self.measured_open);
        Some(joules.at_least(0.0))
    }

    /// Where in the run figures are from, behind the name of a device: ` in 10 to 15 s of the run`;
    /// nothing where they are of all of it.
    pub fn in_window(&self) -> String {
        self.window.map_or_else(String::new, |window| format!(" in {}", window.in_words()))
    }

    /// Mean power over the same time.
    pub fn own_watts(&self) -> Option<Interval> {
        let joules = self.own_joules().filter(|_| self.seconds > 0.0)?;
        Some(joules.times(1.0 / self.seconds))
    }
}

/// A part of the run, from its beginning on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Window {
    #[serde(rename = "from_ns", serialize_with = "as_ns")]
    pub from_seconds: f64,
    #[serde(rename = "to_ns", serialize_with = "as_ns")]
    pub to_seconds: f64,
}

impl Window {
    /// Its length.
    pub fn seconds(&self) -> f64 {
        self.to_seconds - self.from_seconds
    }

    /// `10 to 15 s of the run`.
    pub fn in_words(&self) -> String {
        format!("{} to {} s of the run", self.from_seconds, self.to_seconds)
    }
}

/// A part of what was measured on a device.
#[derive(Debug, Clone, Copy)]
pub struct Part<'e> {
    /// Of what.
    pub of: PartOf<'e>,
    /// Its energy.
    pub joules: Interval,
}

/// What a part of the energy is of.
#[derive(Debug, Clone, Copy)]
pub enum PartOf<'e> {
    /// A kernel or a direction of transfers.
    Class(&'e Class),
    /// Several of which only the sum is known: their names.
    Sum(&'e [String]),
    /// A device at rest.
    Floor(&'e Floor),
    /// What belongs to none of these, or is not known.
    Rest,
}

/// From which readings the joules of a class come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Basis {
    /// Those of the run.
    #[default]
    Run,
    /// Those of the run, and of windows in which it ran alone, over and over.
    Alone,
    /// A sum of the run, and the device's energy model.
    Model,
}

/// One class of commands.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Class {
    pub name: String,
    /// `kernel` or `transfer`.
    pub kind: &'static str,
    pub launches: f64,
    /// Busy time, overlaps shared.
    #[serde(rename = "busy_ns", serialize_with = "as_ns")]
    pub busy_seconds: f64,
    /// Busy time while the sensor was read: what `joules` is for.
    #[serde(rename = "covered_ns", serialize_with = "as_ns")]
    pub covered_seconds: f64,
    pub joules: Option<Interval>,
    pub joules_per_launch: Option<Interval>,
    /// What a launch takes at most, where `joules_per_launch` is not known: all of the sum that it
    /// is in, or the most that the device draws for as long.
    pub joules_per_launch_below: Option<f64>,
    /// `joules_per_launch` as if every launch had run at 50 degrees Celsius, for comparison with other runs.
    /// Null where temperatures were not read, or readings do not tell what a degree adds.
    #[serde(rename = "joules_per_launch_at_50_c")]
    pub per_launch_at_reference: Option<Interval>,
    /// What errors that other runs of the device have, too, change of it, as shares.
    #[serde(skip)]
    pub load: Load,
    pub watts: Option<Interval>,
    /// Part of `joules` that running added. Its interval holds the floor's.
    pub dynamic_joules: Option<Interval>,
    /// What running added at most, where less was found than is known of `joules`: then
    /// `dynamic_joules` is absent.
    pub dynamic_joules_below: Option<f64>,
    /// The other part: what the named floors draw anyway. Its interval holds the floor's and that
    /// of the class's time.
    pub idle_joules: Option<Interval>,
    /// Joule seconds of one launch.
    #[serde(rename = "energy_delay_joule_seconds")]
    pub energy_delay: Option<f64>,
    /// Floating-point operations per joule, in billions (GFLOP/s/W), where the user gave their
    /// number (`--flop`).
    pub gflop_per_joule: Option<Interval>,
    /// Why it has no joules of its own, as a sentence; null where it has.
    #[serde(rename = "why")]
    pub absence: Option<Absence>,
    /// From which readings its joules come.
    #[serde(skip)]
    pub basis: Basis,
    /// Length of run at this mix for an interval of 5 %.
    #[serde(rename = "needed_ns", serialize_with = "as_some_ns")]
    pub needed_seconds: Option<f64>,
    /// Index into `groups`.
    pub group: Option<usize>,
    /// Watts by pkg-pp0-dram, where its domains exist.
    pub reference_watts: Option<Interval>,
    /// For comparison: the sensor integrated over the spans as if it responded at once.
    pub plain_watts: Option<f64>,
    /// For comparison: the same of the mean of the last second.
    pub second_average_watts: Option<f64>,
}

impl Class {
    /// Whether its joules are known to a tenth.
    pub fn is_precise(&self) -> bool {
        let relative = self.joules.and_then(|joules| joules.relative());
        relative.is_some_and(|relative| relative <= clscope_analysis::energy::PRECISE)
    }

    /// Whether only its sum with others is measurable.
    pub fn is_in_sum(&self) -> bool {
        self.joules.is_none() && self.absence.is_some_and(Absence::is_in_sum)
    }
}

/// A launch that was repeated while the sensor updated many times.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Replayed {
    pub name: String,
    /// Mean over captures; idle power and gaps between launches included. Apart from what the run
    /// itself knows.
    pub joules_per_launch: Option<Interval>,
    pub watts: Option<Interval>,
    /// Batches used.
    pub batches: usize,
    /// Launches in them.
    pub launches: u64,
    /// Bytes of buffers that were saved.
    pub saved_bytes: u64,
    /// What restoring them before each launch took, which is taken off; null where launches leave
    /// the same each time, so that none was needed.
    pub restored_joules: Option<f64>,
    /// Why there is no figure; null where there is one.
    pub failed: Option<String>,
}

/// What was repeated, in all.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Repetitions {
    /// Time that they ran for.
    #[serde(rename = "length_ns", serialize_with = "as_ns")]
    pub seconds: f64,
    /// Their energy, idle power included: no part of the application's.
    pub joules: Interval,
    /// Traces in which they are kept: this one, where its captured launches were measured afterwards,
    /// or those of `--with`; null where the run itself holds them.
    pub from: Option<String>,
    /// Batches that began in the part of the run that the figures are of (`--window`), of
    /// which time and energy here are; rows rest on the batches of the whole run. Null for that.
    pub batches_in_window: Option<usize>,
}

/// Classes that have one figure together.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Group {
    pub names: Vec<String>,
    #[serde(rename = "busy_ns", serialize_with = "as_ns")]
    pub busy_seconds: f64,
    /// Half-width of their 95 % interval, as a share of them.
    #[serde(skip)]
    pub busy_open: f64,
    pub joules: Interval,
    pub watts: Interval,
    /// What the device draws at rest anyway of `joules`.
    #[serde(skip)]
    pub idle: Interval,
}

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Floor {
    /// 0 is the one that holds between launches.
    pub state: usize,
    pub name: &'static str,
    pub watts: Option<Interval>,
    #[serde(rename = "idle_ns", serialize_with = "as_ns")]
    pub idle_seconds: f64,
    /// Null where the floor is not known: that energy is unattributed.
    pub joules: Option<Interval>,
}

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Iteration {
    pub kernel: String,
    pub iterations: usize,
    pub joules: Interval,
    #[serde(rename = "time_ns", serialize_with = "as_ns")]
    pub seconds: f64,
}

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Response {
    #[serde(rename = "period_ns", serialize_with = "as_ns")]
    pub period_seconds: f64,
    #[serde(rename = "window_ns", serialize_with = "as_ns")]
    pub window_seconds: f64,
    #[serde(rename = "lag_ns", serialize_with = "as_ns")]
    pub lag_seconds: f64,
    #[serde(rename = "delay_ns", serialize_with = "as_ns")]
    pub delay_seconds: f64,
}
