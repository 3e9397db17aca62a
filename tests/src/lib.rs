//! The harness of the end-to-end tests: what is tested, built once ([`mod@artifacts`]); programs
//! run to their end under a time limit ([`run`]); the ways in which the recorder comes in, and the
//! runtimes it is tried on ([`stage`]); traces read back ([`trace`]); what tests share
//! ([`mod@shared`]); the words that no sentence has ([`plain`]). It judges nothing: the tests
//! in `tests/` do. Panics where the machine lacks what a test needs, so that nothing passes by not
//! running.

pub mod artifacts;
pub mod captured;
pub mod plain;
pub mod run;
pub mod shared;
pub mod stage;
pub mod trace;
pub mod viewer;
pub mod workspace;

pub use artifacts::artifacts;
pub use clscope_testing::{LIMIT, Limited, Running, Stream, While, skip};
pub use run::{Finished, Run, Talk};
pub use shared::shared;
pub use stage::{Mode, Runtime, Stage, system_loader};
pub use trace::{Command, Process, Recorded};
