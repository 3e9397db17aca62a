//! The drivers i915 and xe: their calls, their streams, and what they say of a GPU. Owns all that
//! is asked of the kernel. Refuses to know what reports mean.

pub mod config;
pub mod device;
#[cfg(any(test, feature = "testing"))]
pub mod emulator;
pub mod flex;
pub mod i915;
pub mod open;
pub mod topology;
pub mod uapi;
pub mod xe;
