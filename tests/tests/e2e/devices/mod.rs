//! What devices can do, and what they count.

pub mod bench;
pub mod counters;
pub mod reproduce;
pub mod snapshots;
