//! The real functions, and how they are found.

pub mod copies;
pub mod functions;
pub mod loaders;
pub mod owners;
pub mod real;
pub mod waiting;
