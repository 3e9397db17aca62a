//! How a captured launch is measured: times in turns, joules, instructions, as in the application.
//! Owns what is measured and how long; refuses to judge results.

pub mod energy;
pub mod imitate;
pub mod measure;
pub mod metering;
pub mod mix;
pub(crate) mod order;
