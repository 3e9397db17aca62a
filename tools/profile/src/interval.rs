//! What documents of this crate share: figures with intervals, and one unit of time.

pub use clscope_analysis::interval::{Interval, Spoken};
pub(crate) use clscope_analysis::interval::{as_ns, as_some_ns};
