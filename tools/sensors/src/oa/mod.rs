//! Counters of GPUs (Intel OA through i915 and xe) and of CPU devices (perf events), and what every source
//! of counters has in common.
//!
//! Owns the way from the kernel's streams to counts between two moments, and from those to counts of spans;
//! refuses to evaluate metrics (the `clscope-metrics` crate does) and to fit anything (the analysis does).
//! Nothing here was run on Intel hardware: it is decoded as specified by the sources each module names.
//!
//! | module | what it holds |
//! |---|---|
//! | [`format`], [`report`] | layouts of reports and the fields of their headers |
//! | [`stream`], [`accumulate`] | records out of bytes, deltas and totals out of reports |
//! | [`testing`] | synthesised reports |

pub mod accumulate;
pub mod format;
pub mod report;
pub mod stream;
pub mod testing;

pub use accumulate::{Accumulator, Continuity, Counts, Interval, Tally};
pub use format::{Counter, Format, Group, Layout, Reading};
pub use report::{Generation, Hertz, Reason, Report};
