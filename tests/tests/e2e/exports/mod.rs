//! Traces as timelines and tables, and several as one.

pub mod data;
pub mod data_faults;
pub mod goldens;
pub mod merging;
pub mod perfetto;
pub mod power;
