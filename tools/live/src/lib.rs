//! A trace that is still being written, followed: its files are read from where the last reading
//! ended, and what is new is added to sums. The cost of a reading grows with what was recorded
//! since the last, never with the trace; the application is not touched. Refuses to print, to align
//! clocks and to keep records.
//!
//! | module | what it holds |
//! |---|---|
//! | [`follow`] | the door: [`follow::Follower`], a directory with its processes |
//! | [`document`] | the value that a screen or JSON shows |
//! | [`whole`] | joules per kernel and totals of sampled runs, which take the whole trace |
//!
//! Sums over a trace that has ended equal those of the report: commands, launches, device
//! nanoseconds and bytes exactly, host times but for the rounding of clock ticks. Where sampled
//! timing left launches out, totals of what runs are estimated from the probabilities alone; those
//! of what has ended are the report's, which has the timeline as further evidence.
#![forbid(unsafe_code)]

mod blocks;
pub mod document;
pub mod error;
pub mod follow;
mod process;
mod sensors;
mod spans;
mod sums;
pub mod whole;
