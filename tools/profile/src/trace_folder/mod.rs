//! The folder of a trace: its files, what they hold by number, captures and what was measured of
//! them, several traces as one. Refuses to interpret records.

pub mod captures;
pub mod contents;
pub mod live_ring;
pub mod measured;
pub mod merge;
pub(crate) mod renamed;
pub mod trace_files;
