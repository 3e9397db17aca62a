//! The settings in force, read once from the environment.

pub mod config;
