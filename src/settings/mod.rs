//! The settings in force, read once from the environment.
#![forbid(unsafe_code)]

pub mod config;
