//! What is known of the application's objects: ids, names and properties, and NDRanges.

pub mod geometry;
pub mod info;
pub mod objects;
