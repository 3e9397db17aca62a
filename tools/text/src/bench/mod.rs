//! What `clscope bench` measured, for people.

pub mod devices;
pub mod differences;
pub mod parameters;
