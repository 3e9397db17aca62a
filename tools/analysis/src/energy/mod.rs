//! Energy per kernel: what a slow sensor read, attributed to device work far shorter than its
//! period. Owns the model from sensor rows to classes and everything said of its certainty;
//! refuses I/O, clocks and names: classes are numbers, times are nanoseconds of one host clock.
//!
//! | step | where |
//! |---|---|
//! | spans of classes share their device's time | `activity` |
//! | readings become rows: means over windows | `sensor`, `stamps` |
//! | idle time gives floors and states | `idle` |
//! | the sensor's response is chosen from the data | `search`, `response` |
//! | shares of classes and states in rows | `design` |
//! | powers of classes and floors, what changes them, and how sure that is | [`mixed`], `solve` |
//! | sums that are known where classes are not | `sums` |
//! | joules per launch, the rest | [`attribute`] |
//! | which readings decide about a class | [`readings_of`] |
//!
//! A class's watts are the device's mean power while it runs, floor included; its joules per launch
//! are that times its mean length. The intervals are for the run that was measured: they hold the
//! noise of the sensor, the jitter of its updates, the uncertainty of its response and of a known
//! floor, sampled or estimated spans, and slow variation of the kernels themselves. They do not
//! hold an error of the sensor's gain: no run of the device alone shows that.
//!
//! The same fit serves any quantity whose mean over a window is observed: give a
//! [`Series::WindowMean`] of a counter, a floor of `Floor::Known { rate: 0.0, sd: 0.0 }`, and read
//! units per second in place of watts.

mod activity;
mod attribution;
pub mod combine;
mod compare;
mod fit;
mod idle;
mod pooled;
mod readings;
mod report;
mod sampled;
mod together;
pub mod turns;
mod units;

pub use activity::{Activity, ClassTime, EstimatedTime, Span, Timing};
pub use attribution::{
    AttributionError, Floor, PRECISE, Problem, REFERENCE_C, WIDEST, Worker, attribute, measured,
};
pub use compare::{plain_integration, second_average};
pub use fit::decide::{AloneWindow, Decision, Reading, readings_of};
pub use fit::design::StateSpan;
pub use fit::mixed;
pub use fit::solve::{guarded_inverse, nonnegative};
pub use idle::{
    IdleLevel, IdleLevels, Working, idle_levels, least_drawn, twin_of_first, while_working,
};
pub use pooled::{Evidence, Load, Pooled, attribute_runs};
pub use readings::by_load::{ByLoad, NotPlaced, place_by_load};
pub use readings::response::Response;
pub use readings::search::{Parameter, ResponseModel};
pub use readings::sensor::{GAP_PERIODS, Series, SeriesFaults};
pub use readings::stamps::restamped;
pub use report::{
    Absence, Attribution, ClassEnergy, Drift, FloorEnergy, Gaps, GroupEnergy, IterationEnergy,
    Loads, Temperature,
};
pub use sampled::{Launch, place};
pub use together::together;
pub use units::{ClassId, DeviceIndex, HostNs, Joules, Seconds, Watts};
