//! Owns counters as data: what `--format json` gives under `counters`, and what tables and
//! timelines show. A value is a mean while the kernel runs, with the ends of its 95 % interval;
//! what is not known is null, with the reason.
#![allow(missing_docs)] // fields are named as in the JSON document

use crate::interval::{Interval, as_ns, as_some_ns};
use clscope_analysis::energy::HostNs;
use clscope_analysis::time::ProcessIndex;
use serde::Serialize;
use std::collections::BTreeMap;

/// Counters of a whole trace.
#[derive(Debug, Clone, Default, Serialize, schemars::JsonSchema)]
pub struct Counters {
    /// Why there is no figure at all; null where there is one.
    pub absent: Option<String>,
    pub sources: Vec<Source>,
    /// Figures of single commands, where they were read around each.
    #[serde(skip)]
    pub commands: super::snapshots::Figured,
}

/// The figures of one source of counters for one device.
#[derive(Debug, Clone, Default, Serialize, schemars::JsonSchema)]
pub struct Source {
    pub device: String,
    pub host: String,
    pub pci: Option<String>,
    /// (process, device id) of each.
    #[serde(skip)]
    pub members: Vec<(ProcessIndex, u32)>,
    /// `nvml:gpm:0`, `oa:i915:card0`, `perf:1234`.
    pub source: String,
    /// The metric set, where the source has sets.
    pub set: Option<String>,
    /// How the source was matched to the device.
    pub matched: String,
    /// Windows used, and their typical length.
    pub windows: usize,
    #[serde(rename = "window_ns", serialize_with = "as_ns")]
    pub window_seconds: f64,
    /// Windows left out because their ends were not known well enough, or something was lost
    /// inside.
    pub left_out: usize,
    /// How much later than the work a window was seen.
    #[serde(rename = "delay_ns", serialize_with = "as_some_ns")]
    pub delay_seconds: Option<f64>,
    /// Why nothing could be attributed; null where it was.
    pub failed: Option<String>,
    /// The counters, in the source's order.
    pub columns: Vec<Column>,
    pub classes: Vec<Class>,
    pub notes: Vec<String>,
    /// Whether it was read around each command.
    #[serde(skip)]
    pub one_by_one: bool,
    /// The figures over time, of sources that count between two moments.
    #[serde(skip)]
    pub tracks: Vec<Track>,
}

/// A figure over time.
#[derive(Debug, Clone)]
pub struct Track {
    /// Its name and what is to be known of it.
    pub name: String,
    pub unit: String,
    /// Host, as an index into the timeline's.
    pub host: usize,
    /// PCI address and UUID of its device.
    pub pci: Option<String>,
    pub uuid: Option<String>,
    /// From when on which mean holds, for each stretch without a hole; the last is its end.
    pub stretches: Vec<Vec<(HostNs, f64)>>,
}

/// One counter.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Column {
    pub name: String,
    /// `%`, `MiB/s`, `/s`, ...
    pub unit: String,
    /// What it reads while nothing runs; null where that is 0 by its nature, or not known.
    pub idle: Option<Interval>,
    /// Root mean square of what the fit leaves of the windows' means; null where nothing was
    /// fitted.
    pub residual: Option<f64>,
    /// Why it has no values; null where it has.
    pub absent: Option<String>,
}

impl Column {
    /// One that was not fitted.
    pub fn new(name: String, unit: String) -> Self {
        Self { name, unit, idle: None, residual: None, absent: None }
    }
}

/// One kernel, or one direction of transfers.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Class {
    pub name: String,
    /// `kernel` or `transfer`.
    pub kind: &'static str,
    pub launches: f64,
    #[serde(rename = "busy_ns", serialize_with = "as_ns")]
    pub busy_seconds: f64,
    /// Busy time inside windows.
    #[serde(rename = "covered_ns", serialize_with = "as_ns")]
    pub covered_seconds: f64,
    /// By name of the counter.
    pub values: BTreeMap<String, Value>,
    /// Of kernels that last many windows of an OA stream: its three clocks.
    pub clocks: Option<Clocks>,
}

/// One stretch of time by three clocks: what runtime, OA unit and core say.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Clocks {
    /// Launches that were long enough.
    pub launches: u64,
    /// END less START of their events.
    #[serde(rename = "event_ns", serialize_with = "as_ns")]
    pub event_seconds: f64,
    /// By the OA unit's TIMESTAMP.
    #[serde(rename = "timestamp_ns", serialize_with = "as_some_ns")]
    pub timestamp_seconds: Option<f64>,
    /// GPU_TICKS, wraps undone.
    pub gpu_ticks: u64,
    /// What two readings of its 32 bits, one before each launch and one after, add up to.
    pub gpu_ticks_32_bits: u64,
    /// Times it wrapped inside launches.
    pub wraps: u64,
}

/// The figures of a counter for a class.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Value {
    /// Mean while the class runs.
    pub mean: Option<Interval>,
    /// The classes of which only a common mean is known, and that mean.
    pub only_with: Option<Together>,
    /// Why there is no mean.
    pub why: Option<String>,
}

/// Classes that ran in one proportion.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Together {
    pub classes: Vec<String>,
    pub mean: Interval,
}

impl Source {
    /// Counters that some class moved.
    pub fn moved(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(|c| {
            // The time itself is no figure of a kernel.
            c.absent.is_none()
                && c.name != "GpuTime"
                && self.classes.iter().filter_map(|class| class.values.get(&c.name)).any(|v| {
                    let mean = v.mean.or(v.only_with.as_ref().map(|t| t.mean));
                    mean.is_some_and(|m| m.value > least(&c.unit) || m.low > 0.0)
                })
        })
    }
}

/// Below this a counter's mean is the noise of the source.
fn least(unit: &str) -> f64 {
    if unit == "%" { 0.05 } else { 0.0 }
}
