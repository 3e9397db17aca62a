//! Reports of the observation architecture: their layouts, how they follow each other, and their
//! clock. Owns every byte of them. Refuses to open anything.
#![forbid(unsafe_code)]

pub mod accumulate;
pub mod format;
pub mod report;
pub mod stream;
pub mod time;
