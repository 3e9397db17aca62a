//! Subcommands that apply models of a device to kernels: why, under which ceilings, what if.

pub mod explain;
pub mod roofline;
pub mod what_if;
