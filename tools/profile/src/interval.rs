//! What documents of this crate share: figures with intervals, and one unit of time.

pub use clscope_analysis::interval::{Interval, Spoken};
use serde::{Serialize, Serializer};

/// Writes seconds as nanoseconds: documents have one unit of time.
///
/// # Errors
/// The serializer's.
pub(crate) fn as_ns<S: Serializer>(seconds: &f64, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(seconds * 1e9)
}

/// As [`as_ns`], where it may not be known.
///
/// # Errors
/// The serializer's.
pub(crate) fn as_some_ns<S: Serializer>(seconds: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
    seconds.map(|s| s * 1e9).serialize(to)
}
