//! What the programs of clscope show people in one way: output, help, manual pages, the bar of a
//! measurement, and options that several of them have. Refuses to compute.
#![forbid(unsafe_code)]

pub mod args;
pub mod help;
pub mod measuring;
pub mod output;
pub mod pages;
pub mod places;
