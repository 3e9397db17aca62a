//! The application that is recorded: its program, what it is linked to, its environment, its start
//! and what it leaves running. Refuses to know a trace's content.
#![forbid(unsafe_code)]

pub mod elf;
pub mod environment;
pub mod launch;
pub mod library;
pub mod program;
pub mod running;
