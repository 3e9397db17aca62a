//! What people see: output, progress, manual pages, what a run changed. Refuses to compute.

pub(crate) mod changed;
pub(crate) mod output;
pub(crate) mod pages;
pub(crate) mod progress;
