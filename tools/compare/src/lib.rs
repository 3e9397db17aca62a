//! Differences between recorded runs: kernels, transfers, functions and totals of a base and a new
//! side, each change with its interval and an outcome. Refuses to read files, to print, and to judge
//! what cannot be compared.
//!
//! | module | what it holds |
//! |---|---|
//! | [`run`] | what is taken from one run |
//! | [`integrity`] | whether runs are whole enough to be compared |
//! | [`outcome`] | whether a change is more than noise |
//! | [`diff`] | the document |
//! | [`repeat`] | figures of one application that was run several times |
//! | [`mod@bench`] | results of `clscope-lab`, of two devices, drivers or days |
#![forbid(unsafe_code)]

pub mod bench;
pub mod diff;
pub mod integrity;
pub mod outcome;
pub mod repeat;
pub mod run;
mod unlike;
