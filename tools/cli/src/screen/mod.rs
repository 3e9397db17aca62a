//! What people see: progress, what a run changed. Refuses to compute.

pub(crate) mod changed;
pub(crate) mod progress;
