//! The experiments of the reference documents, and the suites of microbenchmarks that they need
//! beside those of `clscope bench model`: what a device's structure, latency, clock and power are.
//!
//! Owns suites, sweeps along the axes of their cases, the documents' numbers, plots and pages.
//! Refuses to run a kernel: [`clscope_microbench`] does.
//!
//! | module | what it holds |
//! |---|---|
//! | [`suite`] | suites of the documents, and the list of all |
//! | [`mod@run`] | a whole run, and cases along axes |
//! | [`sweep`] | the points of a case along the axes that it has |
//! | [`reproduce`] | the experiments of the documents, and their numbers |
//! | [`virus`] | the mixture of instructions that draws most |
//! | [`check`] | what a device's parameters predict of further kernels |
//! | [`output`] | plots, pages and files |
//! | [`text`] | results as lines for people |
#![forbid(unsafe_code)]

pub mod check;
pub mod output;
pub mod reproduce;
pub mod run;
pub mod suite;
pub mod sweep;
pub mod text;
pub mod virus;
