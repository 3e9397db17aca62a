//! What `clscope bench` measured, for people.

pub mod differences;
pub mod experiments;
pub mod parameters;
pub mod results;
pub mod walks;
