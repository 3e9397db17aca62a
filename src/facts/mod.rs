//! What is known of the application's objects: ids, names and properties, and NDRanges.

pub mod arguments;
pub mod compiled;
pub mod contexts;
pub mod geometry;
pub mod given;
pub mod images;
pub mod info;
pub mod kernels;
pub mod map;
pub mod objects;
pub mod platforms;
pub mod programs;
pub mod user_events;
