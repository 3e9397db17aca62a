//! Owns the shape of an attribution's result. Refuses to compute anything but sums of its own
//! fields.

use super::attribution::Drift;
use super::pooled::{Evidence, Load};
use super::response::Response;
use super::sensor::SeriesFaults;
use super::units::{ClassId, Seconds, Watts};
use crate::interval::Interval;

/// Why a class has no figure of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// Only its sum with others is known: its group's.
    InSum,
    /// Its interval is wider than half of it.
    Wide,
    /// It did not run while the sensor was read.
    NotRead,
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
    pub unknown: Option<Unknown>,
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

/// What the gaps between launches cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GapCost {
    /// Time between the first launch and the last with nothing running.
    pub seconds: Seconds,
    /// Energy of it, each part at the floor of its state; `None` where one of these is not known.
    pub joules: Option<Interval>,
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

/// Temperature of a device while its sensor was read, degrees Celsius.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Degrees {
    /// Mean over readings.
    pub mean: f64,
    /// The least.
    pub least: f64,
    /// The most.
    pub most: f64,
    /// What a degree adds to idle power, as a share.
    pub idle: Interval,
    /// The same of joules above idle.
    pub above: Interval,
    /// How many runs of the device say so.
    pub runs: usize,
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
    pub gaps: GapCost,
    /// The user's iterations, if marked.
    pub iteration: Option<IterationEnergy>,
    /// Response used.
    pub response: Response,
    /// Slow change found; `None` when none was looked for.
    pub drift: Option<Drift>,
    /// Temperature, where it was read.
    pub temperature: Option<Degrees>,
    /// What this run says of what it shares with others of the device.
    pub evidence: Evidence,
    /// Root mean square of what the fit leaves of the rows.
    pub residual: Watts,
    /// Correlation of neighbouring residuals.
    pub residual_correlation: f64,
    /// Moving-average parameter taken out of a counter's rows: 0 none, near 1 all noise is jitter
    /// of its updates.
    pub counter_jitter: f64,
    /// Rows used.
    pub readings: usize,
    /// What was wrong with the series.
    pub faults: SeriesFaults,
    /// Spans that could not be used.
    pub rejected_spans: u64,
}
