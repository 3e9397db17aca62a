//! Values that threads share without a lock, or that each incarnation of the process, or each thread,
//! has its own of.

pub mod current;
pub mod list;
pub mod local;
pub mod maps;
pub mod slots;
