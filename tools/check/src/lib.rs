//! What an application does wrong with OpenCL, or slowly, by the rules of the specification, from a
//! trace of it. Values in, values out: refuses to print, and to guess. What the trace does not tell
//! (whether a kernel writes an argument, what happened while recording was paused) is no finding
//! but a note that says so.
//!
//! | module | what it holds |
//! |---|---|
//! | [`rules`] | the rules: severity, section of the specification, remedy |
//! | [`document`] | findings as a document |
//! | `lifetimes` | objects: released, used afterwards, mapped regions |
//! | `failures` | calls and commands that failed |
//! | `events` | events that nobody releases or uses |
//! | `waits` | waits that had nothing to wait for, and what blocking costs |
//! | [`race`] | commands that use the same memory and that nothing orders |
#![forbid(unsafe_code)]

pub mod document;
mod events;
mod failures;
mod gather;
mod lifetimes;
pub mod race;
pub mod rules;
mod seen;
mod waits;

pub use document::{Document, EndedInside, Finding};
pub use gather::check;
pub use rules::{Rule, Severity};
