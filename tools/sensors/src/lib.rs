//! Energy and power sensors of the host and its GPUs.
//!
//! Owns the way from a sensor's file, counter or register to a stamped reading with a unit, and
//! what each figure includes. Refuses to attribute anything to kernels, to write to the system, to
//! read clocks (the caller hands one in), and to give a number where there is none: what is absent
//! is an error that names what was looked for, where, and what helps.
//!
//! | module | what it holds |
//! |---|---|
//! | [`units`], [`source`], [`error`], [`files`] | the vocabulary: units, stamps, domains, readings, typed errors, movable roots |
//! | [`rapl`], [`hwmon`], [`gt_clock`], [`replay`], [`meter`] | the sources; tables of an external meter |
//! | [`accumulator`], [`liveness`], [`response`] | totals from wrapping counters; works or not; period, lag and delay |
//! | [`gpu_power`] | the formulas that make GPU power of planes |
//! | [`sampler`] | one thread that reads all sources at rates they deserve |
//! | [`doctor`] | what there is, whether it works, what helps |
//! | [`handover`] | descriptors from a privileged helper to an unprivileged reader |

pub mod accumulator;
pub mod doctor;
pub mod error;
pub mod files;
pub mod gpu_power;
pub mod handover;
mod interfaces;
mod kind;
pub mod liveness;
mod repeats;
pub mod response;
pub mod sampler;
pub mod source;
pub mod units;

pub use interfaces::{gt_clock, hwmon, meter, perf_event, rapl, replay};

pub use error::SensorError;
pub use files::{Files, Roots, System};
pub use kind::SourceKind;
pub use source::{Domain, DomainId, Plane, Quantity, Range, Reading, SensorSource, Value};
pub use units::{
    Clock, EnergyUnit, Joules, Microjoules, Microwatts, RawNs, RealtimeNs, Stamp, Watts,
};
