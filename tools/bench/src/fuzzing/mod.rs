//! Damaged and made-up traces, and what reads them. Each reader ends in order, with a reason.
//! Refuses to run applications.

pub(crate) mod fuzz;
pub(crate) mod fuzz_command;
pub(crate) mod fuzz_counters;
pub(crate) mod fuzz_fields;
pub(crate) mod fuzz_made;
pub(crate) mod unreasonable;
