//! Recording an application: where the recorder lies, the environment that carries it in, the trace
//! directory, the application's life, sampling of sensors and counters beside it, the control word
//! of running processes, and the privileged helper. Refuses to parse a command line, to read the
//! environment and to print: what a running thread has to say goes through [`Tell`].

/// A choice of the user's that cannot be followed, in words.
macro_rules! refused {
    ($($what:tt)*) => { $crate::error::CaptureError::Refused(format!($($what)*)) };
}

mod application;
pub mod compiler;
pub mod control;
pub mod counters;
pub mod directory;
pub mod disassembler;
pub mod drainer;
pub mod error;
pub mod meta;
pub mod meter;
pub mod ranks;
pub mod sampler;
mod scratch;
pub mod sensord;
pub mod sources;
pub mod system;

pub use application::{elf, environment, launch, library, program, running};

/// Takes one message to the user: warnings of threads that sample while an application runs.
pub type Tell = fn(&dyn std::fmt::Display);
