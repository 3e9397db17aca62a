//! What is left of a run: results as values, plots, files. Owns their forms; refuses to measure.

pub mod files;
pub mod plot;
#[cfg(feature = "png")]
pub mod png;
pub mod results;
