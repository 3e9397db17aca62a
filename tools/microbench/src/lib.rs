//! Microbenchmarks of OpenCL devices: arithmetic, memory, transfers, latency, energy per instruction.
//!
//! Owns the kernels' host side: variants, host references, the runner, statistics, fits, change
//! points and results. Refuses to link OpenCL (it is opened at run time), to print, and to
//! give a figure for a kernel whose result is wrong.
//!
//! | module | what it holds |
//! |---|---|
//! | [`cl`] | OpenCL, opened at run time; all unsafe code |
//! | [`settings`], [`source`], [`job`], [`mod@bench`] | kernels and their cached binaries; what to measure; how it is measured |
//! | [`suite`] | the suites: variants, references, conclusions |
//! | [`run`] | a whole run |
//! | [`sweep`] | the axes of cases |
//! | [`model`], [`idle`] | the parameters of a device; what it draws while nothing runs |
//! | [`power`], [`peak`] | the device's sensors; its arithmetic peak |
//! | [`stats`], [`fit`], [`change`], [`half`] | the mathematics |
//! | [`results`], [`files`] | the schema; where they are written |
#![forbid(unsafe_code)]

pub use clscope_opencl as cl;

pub mod bench;
mod figures;
pub mod files;
pub mod idle;
pub mod job;
pub mod model;
pub mod power;
pub mod results;
pub mod run;
pub mod settings;
pub mod source;
pub mod suite;
pub mod sweep;

pub use figures::{change, fit, half, peak, stats};
