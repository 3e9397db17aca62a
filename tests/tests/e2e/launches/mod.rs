//! Launches that are captured, run again, counted, or changed.

pub mod captured_kinds;
pub mod captures;
pub mod drawn;
pub mod kernel;
pub mod mix;
pub mod replace;
pub mod replay;
