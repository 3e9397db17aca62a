//! The mathematics of measurements: statistics, fits, changes of a slope, the arithmetic peak.
//! Values in, values out; refuses to measure.

pub mod change;
pub mod fit;
pub mod half;
pub mod peak;
pub mod stats;
