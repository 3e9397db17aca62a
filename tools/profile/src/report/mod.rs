//! The report as a value: its figures ([`data`]), and how they are gathered.

pub mod data;
mod gather;
pub mod places;
pub mod ranks;
pub mod recording;
mod shared_joules;
mod totals;

pub use data::{Finding, Process, Report};
