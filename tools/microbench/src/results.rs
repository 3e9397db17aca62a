//! What a run leaves behind: the schema of its JSON. Owns the shape of
//! results; refuses to measure and to format for people.
//!
//! `results.json` is one object: `schema` ("clscope-bench/2"), `version` (of this program),
//! `device`, `settings`, `cases`, `findings`, `power_source` (the sensor, or why there is none) and
//! `interrupted`. Every case has an `id`, its `suite`, its `parameters`, and a `status`:
//! `measured`, `not_available` (with `reason`, and `build_log` where a compiler spoke), `wrong`
//! (the device computed something else: there are no figures then), `failed` (an OpenCL call) or
//! `interrupted`. Times are nanoseconds of the device's clock; every figure has its unit and its 95
//! % interval (`low`, `high`); an end that is not known is null.

use crate::cl::DeviceFacts;
use crate::stats::{Interval, Summary};
use crate::sweep::{Axis, Place};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// The name of the schema and its version.
pub const SCHEMA: &str = "clscope-bench/2";

/// What became of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It ran, and its results are right.
    Measured,
    /// This device or runtime cannot run it.
    NotAvailable,
    /// It ran and computed something else than the host.
    Wrong,
    /// OpenCL failed in a way that does not look like a missing feature.
    Failed,
    /// The run was ended before or while it ran.
    Interrupted,
}

/// A number with unit and interval.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Figure {
    /// What it is: "rate", "bandwidth", "power", "efficiency", "energy_per_instruction"...
    pub name: String,
    /// Its unit, as printed.
    pub unit: &'static str,
    /// The value and its 95 % interval.
    #[serde(flatten)]
    #[schemars(with = "crate::stats::MayBeNone")]
    pub estimate: Interval,
}

impl Figure {
    /// A figure.
    pub fn new(name: impl Into<String>, unit: &'static str, estimate: Interval) -> Figure {
        Figure { name: name.into(), unit, estimate }
    }

    /// A figure that is known to the last digit.
    pub fn known(name: impl Into<String>, unit: &'static str, value: f64) -> Figure {
        Figure::new(name, unit, Interval::symmetric(value, 0.0))
    }
}

/// Geometry and times of a case that ran a kernel.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Timing {
    /// Work-groups.
    pub groups: usize,
    /// Work-items of a group.
    pub group_size: usize,
    /// Turns of the kernel's loop.
    pub trips: u32,
    /// Nanoseconds of a launch.
    pub time_ns: Summary,
    /// Launches thrown away as warm-up.
    pub warm_up: usize,
    /// Bytes of private memory per work-item, if the runtime reports them.
    pub private_bytes: Option<u64>,
    /// Which results were compared with the host's.
    pub verified: &'static str,
}

/// A point of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Point {
    /// Horizontally.
    pub x: f64,
    /// Vertically.
    #[schemars(with = "crate::stats::MayBeNone")]
    pub y: Interval,
}

/// What one case gave along something that is not swept: time, or the values of single samples.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Series {
    /// What it is.
    pub name: String,
    /// What stands horizontally, with its unit.
    pub x: &'static str,
    /// What stands vertically, with its unit.
    pub y: &'static str,
    /// Its points, x rising.
    pub points: Vec<Point>,
}

/// One case of a run.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct CaseResult {
    /// Unique name, suite first.
    pub id: String,
    /// The suite.
    pub suite: &'static str,
    /// What tells it from its neighbours.
    pub parameters: BTreeMap<&'static str, Value>,
    /// Where it is in a sweep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swept: Option<Place>,
    /// What became of it.
    pub status: Status,
    /// Why, where it did not give figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The compiler's words, where it refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build_log: Option<String>,
    /// Geometry and times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timing: Option<Timing>,
    /// What it gave.
    pub figures: Vec<Figure>,
    /// What it gave along something that is not swept.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<Series>,
    /// What disturbed it: throttling, clocks that moved.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What a launch executed, where it was counted; no part of the document.
    #[serde(skip)]
    pub counted: Option<crate::bench::Counted>,
}

impl CaseResult {
    /// The figure of that name.
    pub fn figure(&self, name: &str) -> Option<&Figure> {
        self.figures.iter().find(|f| f.name == name)
    }

    /// The interval of the figure of that name.
    pub fn estimate(&self, name: &str) -> Option<Interval> {
        Some(self.figure(name)?.estimate)
    }

    /// The value of the figure of that name.
    pub fn value(&self, name: &str) -> Option<f64> {
        Some(self.figure(name)?.estimate.value)
    }

    /// Where it is on an axis that it was swept along.
    pub fn place(&self, axis: Axis) -> Option<&Value> {
        let at = self.swept.as_ref()?.at.iter().find(|c| c.axis == axis)?;
        Some(&at.value)
    }

    /// A parameter as text.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).and_then(Value::as_str)
    }

    /// A parameter as a number.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.parameters.get(name).and_then(Value::as_f64)
    }
}

/// Something that was found out from several cases.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Finding {
    /// What, as an identifier: "structure/saw_tooth".
    pub name: String,
    /// The same for people, as a sentence.
    pub text: String,
    /// Its numbers.
    pub figures: Vec<Figure>,
    /// 1 - p, where a test stands behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// How it was found.
    pub method: &'static str,
}

impl Finding {
    /// One without a test behind it.
    pub fn new(
        name: impl Into<String>,
        text: String,
        figures: Vec<Figure>,
        method: &'static str,
    ) -> Self {
        Self { name: name.into(), text, figures, confidence: None, method }
    }

    /// The value of the figure of that name.
    pub fn figure(&self, name: &str) -> Option<f64> {
        self.figures.iter().find(|f| f.name == name).map(|f| f.estimate.value)
    }
}

/// All of a run.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct Results {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Version of this program.
    pub version: &'static str,
    /// What was measured.
    pub device: DeviceFacts,
    /// The options in force.
    pub settings: BTreeMap<&'static str, Value>,
    /// Every case, in the order it ran.
    pub cases: Vec<CaseResult>,
    /// What follows from them.
    pub findings: Vec<Finding>,
    /// The power sensor that was used, or why there is none.
    pub power_source: String,
    /// Whether the user ended the run early.
    pub interrupted: bool,
    /// Tables of the external meter as it gave them, one for each time that it was read.
    #[serde(skip)]
    pub meter: Vec<String>,
}
