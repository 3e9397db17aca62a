//! What a trace holds of an application, and who may read it.

pub mod call_sites;
pub mod command_buffers;
pub mod contents;
pub mod control;
pub mod host_memory;
pub mod markers;
pub mod overhead;
pub mod polling;
pub mod privacy;
pub mod processes;
pub mod programs;
pub mod sampling;
pub mod switching;
pub mod threads;
