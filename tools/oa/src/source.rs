//! What every source of counters has in common: named counters and stamped windows of them. Owns
//! the trait; refuses to know any source (OA, GPM and perf events implement it).
#![forbid(unsafe_code)]

use super::accumulate::{Continuity, Counts};
use clscope_sensors::error::SensorError;
use clscope_sensors::source::Pace;
use clscope_sensors::units::{Clock, Stamp};

/// A counter a source gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterInfo {
    /// Its name, unique within the source: `A7`, `sm-busy`, `instructions`.
    pub name: String,
    /// What it counts or leaves out, where the name would mislead.
    pub note: Option<String>,
}

/// One value of a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CounterValue {
    /// Counted.
    Count(u64),
    /// Counted during part of the window and scaled to all of it (perf events that share hardware).
    Scaled {
        /// The estimate for the whole window.
        estimate: u64,
        /// Share of the window that was counted, above 0 and below 1.
        counted: f64,
    },
    /// Averaged over the window.
    Mean(f64),
    /// Not known for this window.
    Absent,
}

/// Counters between two moments.
#[derive(Clone, Copy, Debug)]
pub struct CounterWindow<'a> {
    /// Its beginning on the host's clock; `None` where the source's clock could not be placed.
    pub begin: Option<Stamp>,
    /// Its end.
    pub end: Option<Stamp>,
    /// The same in ticks of the device, for joining with device times without any host clock.
    pub device_ticks: Option<(u64, u64)>,
    /// In the order of [`CounterSource::counters`].
    pub values: &'a [CounterValue],
    /// For OA: all counts, as metric sets need them.
    pub counts: Option<&'a Counts>,
    /// Whether something is missing inside.
    pub continuity: Continuity,
    /// The GPU context that ran, where the source reports it.
    pub context: Option<u32>,
}

/// What went wrong inside a source so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterHealth {
    /// Windows given.
    pub windows: u64,
    /// Times reports or windows were lost.
    pub lost: u64,
    /// Times everything since the last window was lost.
    pub gaps: u64,
    /// Windows that were refused or left out (other contexts, zero while busy).
    pub refused: u64,
    /// Windows in which a counter may have wrapped more than once.
    pub maybe_wrapped_twice: u64,
    /// Windows that could not be placed on the host's clock.
    pub unplaced: u64,
}

/// Where a source's windows go.
pub type TakeWindow<'o> = &'o mut dyn FnMut(&CounterWindow<'_>);

/// A source of counters that has been opened.
pub trait CounterSource: Send {
    /// A short name: `oa:i915:card0`, `nvml:gpm:0`, `perf:1234`.
    fn name(&self) -> &str;

    /// Its counters. Fixed once opened.
    fn counters(&self) -> &[CounterInfo];

    /// How often it wants to be read.
    fn pace(&self) -> Pace;

    /// What measuring does to the device, where it does anything.
    fn side_effect(&self) -> Option<&'static str> {
        None
    }

    /// Hands over all windows that have ended since the last read.
    ///
    /// # Errors
    /// The first failure; windows handed over before it stand.
    fn read(&mut self, clock: &mut dyn Clock, out: TakeWindow<'_>) -> Result<(), SensorError>;

    /// What went wrong so far.
    fn health(&self) -> CounterHealth;
}
