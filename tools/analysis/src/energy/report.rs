//! Owns the shape of an attribution's result. Refuses to compute anything but sums of its own
//! fields.

#![forbid(unsafe_code)]

use super::fit::Drift;
use super::response::Response;
use super::sensor::SeriesFaults;
use super::units::{ClassId, Joules, Seconds, Watts};
use crate::interval::Interval;

/// How a figure was obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Mean of the sensor while nothing else ran: kernels long against the sensor's response.
    Integrated,
    /// Least squares over the sensor's rows.
    Regressed,
}

/// Whether the data determine what a class costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Identifiability {
    /// By itself, within ten percent.
    Well,
    /// By itself, but the interval is wide.
    Weak {
        /// Length of run for ± 5 % at this mix.
        needed: Seconds,
    },
    /// It always runs in proportion to others: see the group's row.
    OnlyAsSum {
        /// Index into [`Attribution::groups`].
        group: usize,
    },
    /// It always runs for the same share of the time, and the floor is not known: only their sum
    /// is.
    OnlyWithFloor {
        /// Index into [`Attribution::groups`].
        group: usize,
    },
    /// Nothing can be said.
    NotAtAll {
        /// Length of run for ± 5 % at this mix; `None` when the class did not run while the sensor
        /// was read.
        needed: Option<Seconds>,
    },
}

/// The sensor read directly while a class ran alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Integrated {
    /// Mean while running.
    pub watts: Interval,
    /// Part of the class's time that was read this way.
    pub share: f64,
    /// This figure over the regression's, less one.
    pub discrepancy: f64,
    /// Whether the two differ by less than their intervals allow.
    pub agrees: bool,
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
    /// Energy over `covered`, floor included.
    pub joules: Option<Interval>,
    /// `joules` as what running added (first) and what the floors draw anyway (second). `None` when
    /// a floor was to be fitted and could not be.
    pub split: Option<(Joules, Joules)>,
    /// Energy-delay product of one launch, in joule seconds.
    pub energy_delay: Option<f64>,
    /// How the figures were obtained.
    pub method: Option<Method>,
    /// What the data can say of it.
    pub identifiability: Identifiability,
}

/// Classes with one rate. Each class that can be separated is a group by itself; groups, floors and
/// the unattributed rest add up to what was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupEnergy {
    /// Members, in order.
    pub classes: Vec<ClassId>,
    /// Busy time of all members while the sensor was read.
    pub busy: Seconds,
    /// Mean power while any member ran.
    pub watts: Interval,
    /// Energy of all members, floor included.
    pub joules: Interval,
    /// The floors' part of `joules`.
    pub idle: Joules,
    /// What running added.
    pub dynamic: Joules,
    /// How it was obtained.
    pub method: Method,
    /// The direct reading, where there is enough of it.
    pub integrated: Option<Integrated>,
    /// Half width of the interval over the value.
    pub relative_half_width: f64,
    /// Length of run for ± 5 % at this mix.
    pub needed: Seconds,
    /// Whether only the sum with the floor is known: `joules` then rests on an arbitrary split.
    pub with_floor: bool,
}

/// A power state while nothing ran.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FloorEnergy {
    /// Index of the state.
    pub state: usize,
    /// Its floor; `None` when it was to be fitted and the run never showed it.
    pub watts: Option<Interval>,
    /// Time in this state with nothing running.
    pub idle: Seconds,
    /// Energy of that time.
    pub joules: Joules,
}

/// What the gaps between launches cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GapCost {
    /// Time between the first launch and the last with nothing running.
    pub seconds: Seconds,
    /// Energy of it, each part at the floor of its state; `None` where one of these is not known.
    pub joules: Option<Joules>,
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

/// The result for one sensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribution {
    /// One row per class, in class order.
    pub classes: Vec<ClassEnergy>,
    /// Classes as far as they can be separated.
    pub groups: Vec<GroupEnergy>,
    /// One row per power state.
    pub floors: Vec<FloorEnergy>,
    /// What the sensor measured.
    pub measured: Joules,
    /// Time over which it did.
    pub covered: Seconds,
    /// `measured` less groups and floors.
    pub unattributed: Joules,
    /// The gaps between launches.
    pub gaps: GapCost,
    /// The user's iterations, if marked.
    pub iteration: Option<IterationEnergy>,
    /// Response used.
    pub response: Response,
    /// Slow change found; `None` when none was looked for.
    pub drift: Option<Drift>,
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
