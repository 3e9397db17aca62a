//! Hand-written hooks, one file per API area, and the small questions that rows of the table ask.
//!
//! A hook has the signature of its function with the site and the real function in front. It passes
//! on what it does not understand, calls the real function exactly once, and does its own work
//! before or after.
#![expect(clippy::too_many_arguments, reason = "the function's own, with two in front")]

pub mod callbacks;
pub mod calls;
pub mod checked;
pub mod command_buffer;
pub mod context;
mod discovery;
pub mod enqueue;
pub mod event;
pub mod extension;
pub mod given;
pub mod kernel;
mod launching_thread;
pub mod memory;
pub mod platform;
pub mod program;
pub mod queue;
pub mod stand_ins;

pub use calls::*;
pub use command_buffer::*;
pub use context::*;
pub use event::*;
pub use extension::*;
pub use given::*;
pub use kernel::*;
pub use memory::*;
pub use platform::*;
pub use program::*;
pub use queue::*;

pub use crate::facts::geometry::Geometry;
