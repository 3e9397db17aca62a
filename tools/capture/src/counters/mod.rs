//! Hardware counters while an application runs: what is asked for ([`choice`]), what can be opened
//! ([`open`]), what this machine has ([`mod@list`]), reading it into the trace ([`sampler`]), and
//! preparing an application that reads by itself ([`prepare`]). Refuses to evaluate counters.
#![forbid(unsafe_code)]

pub mod choice;
pub mod list;
pub mod open;
mod plan;
pub mod prepare;
pub mod sampler;
