//! Counters of GPUs (Intel OA through i915 and xe) and of CPU devices (perf events), and what every
//! source of counters has in common.
//!
//! Owns the way from the kernel's streams to counts between two moments, and from those to counts
//! of spans; refuses to evaluate metrics (the `clscope-metrics` crate does) and to fit anything
//! (the analysis does). Nothing here was run on Intel hardware: it is decoded as specified by the
//! sources each module names.
//!
//! | module | what it holds |
//! |---|---|
//! | [`mod@format`], [`report`] | layouts of reports and the fields of their headers |
//! | [`stream`], [`accumulate`] | records out of bytes, deltas and totals out of reports |
//! | [`time`] | ticks and nanoseconds, sampling exponents, a report's place on the host's clock |
//! | [`config`], [`flex`] | configurations by UUID, programmable EU counters |
//! | [`uapi`], [`device`], [`topology`] | the kernel's structures, the boundary to it, what a GPU has |
//! | [`i915`], [`xe`] | the two drivers: clocks, configurations, streams, and what their errors mean |
//! | [`source`], [`sampling`] | the trait of all counter sources; OA streams behind it |
//! | [`open`] | from a card to a running sampler in one step |
//! | [`cpu`] | perf events of a process's threads |
//! | [`query`] | reports of the runtime's own queries, one for each command |
//! | [`spans`] | counts of kernels out of counts of windows |
//! | [`testing`], [`emulator`] | synthesised reports; a scripted GPU |

pub mod cpu;
mod driver;
pub mod error;
pub mod query;
mod reports;
pub mod sampling;
pub mod source;
pub mod spans;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

#[cfg(test)]
mod tests;

pub use reports::{accumulate, format, report, stream, time};

#[cfg(any(test, feature = "testing"))]
pub use driver::emulator;
pub use driver::{config, device, flex, i915, open, topology, uapi, xe};

pub use accumulate::{Accumulator, Continuity, Counts, Interval, Tally};
pub use error::OaError;
pub use format::{Counter, Format, Group, Layout, Published};
pub use report::{Generation, Reason, Report};
pub use sampling::OaSampler;
pub use source::{CounterInfo, CounterSource, CounterValue, CounterWindow};
