//! Captured launches of a trace, measured when the application has ended: each in a process of its
//! own, which may crash or hang alone. Joules above rest, time, what was executed, counters. What
//! was measured goes into the trace, where reports take it beside what the run itself shows.
//! Refuses to launch anything in an application's process, and to touch a capture.
//!
//! | module | what it holds |
//! |---|---|
//! | [`plan`] | which launches there are to measure, and which have no capture |
//! | [`job`] | one launch, measured inside of its process |
//! | [`course`] | all of them in a time: order, progress, what became of each |
//! | [`environment`](mod@environment) | under which variables |
//! | [`drawn`] | what the recorder's logs say: which launches were drawn, which share could be captured |
//! | [`transfer`] | one transfer between host and device |
//! | [`measured_file`] | lines of the trace's file |

pub mod course;
pub mod drawn;
pub mod environment;
pub mod job;
pub mod measured_file;
pub mod plan;
pub mod transfer;

pub use course::{Options, Replayed, command, limit, run};
pub use environment::Environment;
pub use job::Job;
pub use plan::{Plan, PlanError};
