//! The analysis of traces: open, order, align, sum up, attribute. Pure: byte slices in, values out.
//! It opens no file, reads no clock and no environment, and prints nothing; the command does that.
//!
//! # Reading a timeline
//! ```no_run
//! use clscope_analysis::{Trace, event::Event, input::ProcessFiles};
//! # fn files() -> Vec<ProcessFiles<'static>> { Vec::new() }
//! let trace = Trace::open(files()); // indexes blocks and definitions; what is wrong is in `trace.issues`
//! let alignment = trace.align(); // a first pass: device clocks against host clocks
//! let mut events = trace.events(Some(&alignment)); // a second pass, in time order, flat in memory
//! for event in events.by_ref() {
//!     match event {
//!         Event::Call(call) => { /* a host span; names are in trace.process(call.process).definitions */ }
//!         Event::Command(command) => {
//!             if let Some(placed) = command.timed().and_then(|t| t.placed) { /* a device span: placed.span() */ }
//!         }
//!         Event::InCall { .. } | Event::Mark { .. } => {}
//!     }
//! }
//! let issues = trace.issues_after(events.tally(), Some(&alignment)); // what was found on the way
//! ```
//! Events come in the order of their records: a call at its end, a command when the host knew it
//! complete, and last what never ended. All times are on one timeline ([`clock`]);
//! [`Trace::bounds`] gives its ends.
#![forbid(unsafe_code)]

pub mod align;
pub mod clock;
pub mod counters;
pub mod distinct;
pub mod energy;
pub mod event;
pub mod host_memory;
pub mod ids;
pub mod input;
pub mod interval;
pub mod issue;
pub mod merge;
pub mod missing;
pub mod quantile;
pub mod stats;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod time;
mod trace;

pub use trace::Trace;
