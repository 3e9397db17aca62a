//! What is left of a run: plots, pages, files. Owns their forms; refuses to measure.

pub mod csv;
pub mod files;
pub mod plot;
#[cfg(feature = "png")]
pub mod png;
