//! A captured launch, run alone: `clscope record --capture` leaves a folder that holds one launch
//! whole (program, arguments, contents of memory before and after), and this library runs it on any
//! device. Values out: refuses to print, to write into a capture, and to trust anything in it.
//!
//! | module | what it holds |
//! |---|---|
//! | [`capture`] | the types of `launch.json`: the one specification of a capture |
//! | [`read`](mod@read) | opening a capture with checks; captures of a trace |
//! | [`element`], [`compare`] | what bytes mean; differences exact or in ULPs |
//! | [`stage`] | a capture on a device: memory, arguments, programs |
//! | [`measure`], [`energy`], [`metering`] | time of many launches; joules of a launch; what is said meanwhile |
//! | [`application`], [`imitate`] | how launches like it ran in the application; repeated as they stood |
//! | [`application_launch`] | the application's own launch beside those that were run alone |
//! | [`mix`](mod@mix) | what a launch executes, counted |
//! | [`replay`](mod@replay) | captured launches of a trace, each measured in a process of its own |
//! | [`tune`] | the search for a work-group size |
//! | [`mod@export`] | a capture as a program that stands alone |
//! | [`progress`] | which version is doing what, for whoever watches the process |
//! | [`supervise`], [`worker`] | the process in which a launch runs, from outside and from inside |
//! | [`document`] | what a run gave, as a document |
//! | [`run`](mod@run) | the order of all that |
#![forbid(unsafe_code)]

pub mod application;
pub mod application_launch;
pub mod capture;
pub mod compare;
mod device;
pub mod document;
pub mod element;
pub mod export;
mod measuring;
pub mod progress;
pub mod read;
pub mod replay;
pub mod run;
pub mod stage;
pub mod supervise;
pub mod tune;
pub mod worker;

use measuring::order;
pub use measuring::{energy, imitate, measure, metering, mix};

pub use device::device_for;
pub use document::Document;
pub use read::{Capture, CaptureError};
pub use run::{RunError, Wanted, run};
