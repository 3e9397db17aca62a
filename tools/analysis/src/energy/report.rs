//! Owns the shape of an attribution's result. Refuses to compute anything but sums of its own
//! fields.

use super::pooled::{Evidence, Load};
use super::readings::response::Response;
use super::readings::sensor::SeriesFaults;
use super::units::{ClassId, Seconds, Watts};
use crate::interval::{Interval, as_ns};
use schemars::JsonSchema;
use serde::Serialize;

/// Why a class has no joules of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absence {
    /// It ran in nearly the same proportion to others throughout: their sum is known.
    InSum,
    /// The interval is wider than half of the figure.
    Wide,
    /// It did not run while the sensor was read.
    NotRead,
    /// What was estimated is more than the device can draw.
    AboveLimit,
}

impl Absence {
    /// The sentence.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::InSum => {
                "only its sum with others is known, because they ran in nearly the same proportion"
            }
            Self::Wide => "the readings leave an interval that is wider than half of the figure",
            Self::NotRead => "it did not run while the sensor was read",
            Self::AboveLimit => "the readings give more power than the device can draw",
        }
    }

    /// Whether it is part of a sum that is known.
    pub const fn is_in_sum(self) -> bool {
        matches!(self, Self::InSum)
    }
}

impl Serialize for Absence {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.sentence())
    }
}

impl JsonSchema for Absence {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Absence".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        String::json_schema(generator)
    }
}

/// What figures of a class have of errors that runs of one device share.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Loads {
    /// Of `joules`.
    pub joules: Load,
    /// Of `dynamic`.
    pub dynamic: Load,
    /// Of `idle`.
    pub idle: Load,
    /// Of `per_launch_at_reference`.
    pub at_reference: Load,
}

/// One class of device work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassEnergy {
    /// Which.
    pub class: ClassId,
    /// Launches, in the whole trace.
    pub launches: f64,
    /// Busy time in the whole trace, overlaps shared.
    pub busy: Seconds,
    /// Busy time while the sensor was read: the time that `joules` is for.
    pub covered: Seconds,
    /// Its row in [`Attribution::groups`]; `None` when it did not run while the sensor was read.
    pub group: Option<usize>,
    /// Mean power of the device while this class ran, floor included.
    pub watts: Option<Interval>,
    /// Energy of one launch of mean length, floor included.
    pub joules_per_launch: Option<Interval>,
    /// The same as if every launch had run at [`REFERENCE_C`](super::REFERENCE_C); `None` where
    /// temperatures were not read, or do not tell what a degree adds.
    pub per_launch_at_reference: Option<Interval>,
    /// What these have in common with those of other runs.
    pub loads: Loads,
    /// Energy over `covered`, floor included.
    pub joules: Option<Interval>,
    /// What running added of `joules`.
    pub dynamic: Option<Interval>,
    /// What the device draws at rest anyway of `joules`.
    pub idle: Option<Interval>,
    /// Energy-delay product of one launch, in joule seconds.
    pub energy_delay: Option<f64>,
    /// Length of run for an interval of 5 % at this mix, where it is wider than 10 %.
    pub needed: Option<Seconds>,
    /// Why it has no figures.
    pub absence: Option<Absence>,
}

/// Classes with one figure. Each class that can be separated is a group by itself; groups, floors and
/// the unattributed rest add up to what was measured; floors that are not known are in the rest.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupEnergy {
    /// Members, in order.
    pub classes: Vec<ClassId>,
    /// Busy time of all members while the sensor was read.
    pub busy: Seconds,
    /// Half-width of its 95 % interval, as a share of it.
    pub busy_open: f64,
    /// Mean power while any member ran.
    pub watts: Interval,
    /// Energy of all members, floor included.
    pub joules: Interval,
    /// What running added.
    pub dynamic: Interval,
    /// What the device draws at rest anyway.
    pub idle: Interval,
}

/// A power state while nothing ran.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FloorEnergy {
    /// Index of the state.
    pub state: usize,
    /// Its floor; `None` when it was to be fitted and the run never showed it.
    pub watts: Option<Interval>,
    /// Time in this state with nothing running, of the application's own.
    pub idle: Seconds,
    /// Energy of that time; `None` where its power is not known.
    pub joules: Option<Interval>,
    /// What the joules of that time have in common with those of other runs.
    pub(crate) load: Load,
}

// What the gaps between launches cost: the time between the first launch and the last with nothing
// running, each part at the floor of its state.
#[allow(missing_docs)] // names are those of the JSON document
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Gaps {
    #[serde(rename = "time_ns", serialize_with = "as_ns")]
    pub seconds: f64,
    /// Null where a floor that they were at is not known.
    pub joules: Option<Interval>,
}

// Slow change of power found in a run.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Drift {
    /// Of the power at the start.
    pub share: Interval,
    /// Whether the change is beyond chance and beyond a third of a percent.
    #[serde(skip)]
    pub noticed: bool,
}

/// Energy of one of the user's iterations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IterationEnergy {
    /// Iterations counted.
    pub iterations: usize,
    /// Mean energy of one, everything included. The interval is the sensor's resolution at either
    /// end.
    pub joules: Interval,
    /// Mean length of one.
    pub seconds: Seconds,
}

/// Temperature of a device, degrees Celsius.
#[allow(missing_docs)]
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Temperature {
    pub mean_c: f64,
    pub min_c: f64,
    pub max_c: f64,
    /// What a degree adds to idle power, as a share.
    pub idle_per_degree: Interval,
    /// What a degree adds to joules above idle, as a share.
    pub above_idle_per_degree: Interval,
    /// How many runs of the device say what a degree adds.
    pub runs: usize,
}

impl Temperature {
    /// From the least to the most, in whole degrees.
    pub fn range(&self) -> String {
        match (self.min_c.round(), self.max_c.round()) {
            (least, most) if least == most => format!("{least} C"),
            (least, most) => format!("{least} to {most} C"),
        }
    }
}

/// The result for one sensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribution {
    /// One row per class, in class order.
    pub classes: Vec<ClassEnergy>,
    /// Classes as far as they can be separated.
    pub groups: Vec<GroupEnergy>,
    /// One row per power state.
    pub floors: Vec<FloorEnergy>,
    /// What the sensor measured in the application's own time.
    pub measured: Interval,
    /// How much of that time it was read.
    pub covered: Seconds,
    /// `measured` less groups and known floors, with the interval of these.
    pub unattributed: Interval,
    /// The gaps between launches.
    pub gaps: Gaps,
    /// The user's iterations, if marked.
    pub iteration: Option<IterationEnergy>,
    /// Response used.
    pub response: Response,
    /// Slow change found; `None` when none was looked for.
    pub drift: Option<Drift>,
    /// Temperature, where it was read.
    pub temperature: Option<Temperature>,
    /// What this run says of what it shares with others of the device.
    pub evidence: Evidence,
    /// Root mean square of what the fit leaves of the rows.
    pub residual: Watts,
    /// Correlation of neighbouring residuals.
    pub residual_correlation: f64,
    /// Rows used.
    pub readings: usize,
    /// What was wrong with the series.
    pub faults: SeriesFaults,
    /// Spans that could not be used.
    pub rejected_spans: u64,
}
