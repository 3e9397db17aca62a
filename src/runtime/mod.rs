//! The real functions, and how they are found.

pub mod real;
