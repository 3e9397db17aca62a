//! The harness of the end-to-end tests: what is tested, built once ([`mod@artifacts`]); programs
//! run to their end under a time limit ([`run`]); the ways in which the recorder comes in, and the
//! runtimes it is tried on ([`stage`]); traces read back ([`trace`]). It judges nothing: the tests
//! in `tests/` do. Panics where the machine lacks what a test needs, so that nothing passes by not
//! running.

pub mod artifacts;
pub mod run;
pub mod stage;
pub mod trace;

pub use artifacts::artifacts;
pub use run::{Finished, Run, Talk};
pub use stage::{Mode, Runtime, Stage, system_loader};
pub use trace::{Command, Process, Recorded};

/// Says why a test, or a part of one, does not run here. What the set-up script installs is never
/// skipped there: it sets `CLSCOPE_TEST_STRICT`, and then a missing part is a failure.
///
/// # Panics
/// Where `CLSCOPE_TEST_STRICT` is set and the reason is one that the set-up takes away.
pub fn skip(reason: &str, mended_by_setup: bool) {
    assert!(
        !(mended_by_setup && std::env::var_os("CLSCOPE_TEST_STRICT").is_some()),
        "not run, although the set-up was: {reason}"
    );
    eprintln!("skipped: {reason}");
}
