//! Owns what is known of a followed trace as one value: what a screen shows and `clscope top --once
//! --format json` prints. Times are nanoseconds, shares between 0 and 1 unless said; what is not
//! known is null. Refuses to read files.
//!
//! `tools/live/top.schema.json` describes it (JSON Schema, draft 2020-12); a test makes that of
//! these types. Its version is raised when a field changes its meaning or goes.
#![allow(missing_docs)] // fields are named as in the JSON document

use clscope_profile::energy::result::Absence;
use clscope_profile::interval::Interval;
use serde::Serialize;
use std::collections::BTreeMap;

/// Version of this schema.
pub const SCHEMA: &str = "clscope-top/2";

/// A trace as of now. Rates are of the time since the reading before, null after the first one and
/// once all processes ended.
#[derive(Debug, Clone, Default, Serialize, PartialEq, schemars::JsonSchema)]
pub struct Document {
    /// [`SCHEMA`].
    pub schema: &'static str,
    pub trace: String,
    /// Time in which any process ran, up to now; once all ended, from the first call of each to its
    /// last end.
    pub duration_ns: Option<u64>,
    /// What of it the recorder repeated commands in, once all ended; null where it did not. No part
    /// of busy shares.
    pub repeated_ns: Option<u64>,
    /// What rates are of.
    pub interval_ns: Option<u64>,
    pub processes: Vec<Process>,
    pub totals: Totals,
    pub host: Host,
    pub devices: Vec<Device>,
    /// By total time.
    pub kernels: Vec<Kernel>,
    /// What people call kernels whose recorded names are mangled, by recorded name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub display_names: BTreeMap<String, String>,
    pub transfers: Vec<Transfer>,
    /// By total time.
    pub functions: Vec<Function>,
    pub meters: Vec<Meter>,
    /// How old the joules of kernels are; null where they were not asked for, or there are none,
    /// and where all processes had ended before.
    pub joules_age_ns: Option<u64>,
    /// Why there are no joules of kernels.
    pub joules_absent: Option<String>,
    /// What could not be read, and why.
    pub problems: Vec<String>,
}

impl Document {
    /// Whether there were processes, and all have ended.
    pub fn has_ended(&self) -> bool {
        !self.processes.is_empty() && self.processes.iter().all(|p| p.state == "ended")
    }

    /// Whether the whole trace tells more than what was read bit by bit: joules, or totals of what
    /// sampling left out in a run that has ended.
    pub fn lacks_the_whole(&self) -> bool {
        !self.meters.is_empty() || self.has_ended() && self.kernels.iter().any(|k| k.left_out > 0)
    }

    /// Gives each kernel its share of the time of all.
    pub(crate) fn share_kernels(&mut self) {
        let total = |kernel: &Kernel| kernel.total_ns.map(|t| t.value);
        let all: f64 = self.kernels.iter().filter_map(total).sum();
        for kernel in &mut self.kernels {
            kernel.share = total(kernel).filter(|_| all > 0.0).map(|t| t / all);
        }
    }

    /// Of a trace that holds no process yet.
    pub fn waiting(trace: String) -> Self {
        Self { schema: SCHEMA, trace, ..Self::default() }
    }
}

#[derive(Debug, Clone, Serialize, PartialEq, schemars::JsonSchema)]
pub struct Process {
    pub label: String,
    pub pid: u32,
    pub host: String,
    pub executable: String,
    pub arguments: Vec<String>,
    pub mpi_rank: Option<u32>,
    /// `recording`, `paused`, `ended`, or `unknown` for one of another machine.
    pub state: &'static str,
    /// Calls that threads are in.
    pub in_calls: Vec<InCall>,
}

#[derive(Debug, Clone, Serialize, PartialEq, schemars::JsonSchema)]
pub struct InCall {
    pub thread: u32,
    pub function: String,
    /// Since it began; null where the clock is not known.
    pub ns: Option<u64>,
}

#[derive(Debug, Clone, Serialize, PartialEq, Default, schemars::JsonSchema)]
pub struct Totals {
    pub calls: u64,
    pub commands: u64,
    /// Commands with device times.
    pub timed: u64,
    pub launches: u64,
    /// Commands whose outcome is awaited.
    pub in_flight: u64,
    /// Records that were dropped.
    pub dropped: u64,
    /// Bytes of the trace.
    pub bytes: u64,
    pub calls_per_second: Option<f64>,
    pub launches_per_second: Option<f64>,
    /// Bytes of the trace.
    pub bytes_per_second: Option<f64>,
}

/// Shares of one thread's time: with several threads the sum may be above 1.
#[derive(Debug, Clone, Serialize, PartialEq, Default, schemars::JsonSchema)]
pub struct Host {
    pub opencl_share: Option<f64>,
    /// Of it, in calls that wait for the device.
    pub blocked_share: Option<f64>,
}

#[derive(Debug, Clone, Serialize, PartialEq, schemars::JsonSchema)]
pub struct Device {
    pub process: String,
    pub id: u32,
    pub name: String,
    /// Device time of its commands since the last reading, up to the newest command whose time is
    /// known; once all processes ended, over `duration_ns`.
    pub busy_share: Option<f64>,
    /// Whether some commands were not timed and `busy_share` is their estimated time.
    pub busy_is_estimated: bool,
    /// Time in which it ran commands, in all; null where some were not timed.
    pub busy_ns: Option<u64>,
    pub in_flight: u64,
}

#[derive(Debug, Clone, Serialize, PartialEq, schemars::JsonSchema)]
pub struct Kernel {
    pub name: String,
    pub device: String,
    pub launches: u64,
    pub timed: u64,
    /// Launches that sampled timing left out.
    pub left_out: u64,
    /// Of all kernels' time.
    pub share: Option<f64>,
    /// Device time of the timed launches.
    pub timed_ns: u64,
    /// Device time of the launches timed and left out.
    pub total_ns: Option<Interval>,
    pub mean_ns: Option<f64>,
    pub p95_ns: Option<f64>,
    pub max_ns: Option<u64>,
    pub launches_per_second: Option<f64>,
    /// Device time of what ended since the reading before, over the time between the two; null of
    /// the first reading.
    #[schemars(default)]
    pub time_share: Option<f64>,
    /// As the report has it; how old it is, `joules_age_ns` tells.
    pub joules: Option<Interval>,
    pub joules_per_launch: Option<Interval>,
    pub watts: Option<Interval>,
    /// Why it has no joules of its own, as the report says; null where it has, and where nothing was
    /// attributed.
    pub why: Option<Absence>,
}

#[derive(Debug, Clone, Serialize, PartialEq, schemars::JsonSchema)]
pub struct Transfer {
    pub kind: String,
    /// `null` for commands that move no bytes.
    pub direction: Option<String>,
    pub count: u64,
    pub timed: u64,
    pub bytes: u64,
    pub timed_ns: u64,
    pub total_ns: Option<Interval>,
    pub bytes_per_second: Option<f64>,
}

#[derive(Debug, Clone, Serialize, PartialEq, schemars::JsonSchema)]
pub struct Function {
    pub name: String,
    pub calls: u64,
    pub errors: u64,
    /// Host time of the calls that returned; null where the clock is not known.
    pub total_ns: Option<u64>,
    pub calls_per_second: Option<f64>,
    /// Of one thread's time.
    pub time_share: Option<f64>,
}

/// A sensor of energy or power.
#[derive(Debug, Clone, Serialize, PartialEq, schemars::JsonSchema)]
pub struct Meter {
    pub source: String,
    pub name: String,
    /// The part of the machine, as `GPU` or `PKG`.
    pub plane: String,
    pub device: Option<String>,
    /// Since its last update.
    pub watts: Option<f64>,
    /// From its first reading to its last, as old as those of kernels; of counters of energy. Null
    /// where readings are missing between them, as where it stood still.
    pub joules: Option<f64>,
}
