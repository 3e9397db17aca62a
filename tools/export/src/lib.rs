//! Profiles as files for other programs. Refuses to compute figures, to print and to decide where a
//! file goes: writers take any `Write`.
#![forbid(unsafe_code)]

pub mod chrome;
mod lanes;
mod layout;
pub mod power;
pub mod rows;
