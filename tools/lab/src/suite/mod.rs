//! The suites of the reference documents beside those that give the parameters of a device. Owns the
//! list of all; refuses to run them: the runner does.

mod access;
pub mod clock;
mod couples;
pub mod occupancy;
pub mod power;
pub mod structure;

pub use clscope_microbench::suite::{
    Case, Gave, Suite, Swept, best, classes, count, default_group, floor_case, floor_of, flop,
    geometry, is_floor, lanes, latency, mixture, no_value, number, points, power_of_two, residency,
    scalar, width,
};

use clscope_microbench::suite::{blend, ceilings, levels, memory, transfer};

/// All suites, in the order they run.
pub static SUITES: [Suite; 12] = [
    flop::SUITE,
    memory::SUITE,
    levels::SUITE,
    transfer::SUITE,
    power::SUITE,
    classes::SUITE,
    latency::SUITE,
    structure::SUITE,
    occupancy::SUITE,
    clock::SUITE,
    blend::SUITE,
    ceilings::SUITE,
];
