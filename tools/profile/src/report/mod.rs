//! The report as a value: its figures ([`data`]), how they are gathered, and taking a measured
//! bias off them ([`correct`]).

pub mod correct;
pub mod data;
mod gather;
pub mod places;
pub mod ranks;
pub mod recording;
mod shared_joules;
mod totals;

pub use data::{Finding, Process, Report};
