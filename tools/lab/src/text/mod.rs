//! Results as lines for people.

pub mod experiments;
pub mod results;
pub mod walks;
