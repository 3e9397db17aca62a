//! Microbenchmarks of OpenCL devices: arithmetic, memory, transfers, power, energy per instruction,
//! latency hiding and structure.
//!
//! Owns the kernels' host side: variants, host references, the runner, statistics, fits, change
//! points, results and plots. Refuses to link OpenCL (it is opened at run time), to print, and to
//! give a figure for a kernel whose result is wrong.
//!
//! | module | what it holds |
//! |---|---|
//! | [`cl`] | OpenCL, opened at run time; all unsafe code |
//! | [`settings`], [`source`], [`job`], [`mod@bench`] | kernels and their cached binaries; what to measure; how it is measured |
//! | [`suite`] | the suites: variants, references, conclusions |
//! | [`run`] | a whole run |
//! | [`sweep`] | any case along the axes that it has |
//! | [`reproduce`] | the experiments of the reference documents, and their numbers |
//! | [`model`], [`idle`] | the parameters of a device; what it draws while nothing runs |
//! | [`virus`] | the mixture of instructions that draws most |
//! | [`check`] | what the parameters predict of further kernels, against their measured times |
//! | [`power`], [`peak`] | the device's sensors; its arithmetic peak |
//! | [`stats`], [`fit`], [`change`], [`half`] | the mathematics |
//! | [`results`], [`plot`], [`files`] | the schema; plots and the page; where they are written |
//! | `png` | plots as pixels, with the feature of that name |
#![forbid(unsafe_code)]

pub use clscope_opencl as cl;

pub mod bench;
pub mod check;
mod figures;
#[cfg(test)]
mod golden;
pub mod idle;
pub mod job;
pub mod model;
mod output;
pub mod power;
pub mod reproduce;
pub mod run;
pub mod settings;
pub mod source;
pub mod suite;
pub mod sweep;
pub mod virus;

#[cfg(feature = "png")]
pub use output::png;
pub use output::{files, plot, results};

pub use figures::{change, fit, half, peak, stats};
