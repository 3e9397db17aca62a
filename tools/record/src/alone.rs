//! An application that cannot be recorded is run all the same, as if the recorder were not there.
//! Owns the one line that says why; refuses to try again.

use crate::{Plan, RecordError};
use clscope_capture::error::CaptureError;
use clscope_capture::launch::{self, End};
use clscope_capture::program::{NotRunnable, Program};
use clscope_capture::system::Held;
use clscope_io::text::chain;
use std::collections::BTreeMap;
use std::ffi::OsString;

/// An application that is to be run without the recorder.
pub struct Alone {
    program: Program,
    command: Vec<OsString>,
}

impl Alone {
    /// Says why nothing is recorded.
    pub(crate) fn after(why: &RecordError, program: Program, plan: &Plan<'_>) -> Self {
        (plan.voice.say)(&format_args!(
            "nothing is recorded: {}; the application runs without the recorder (with --require-trace it would not run)",
            chain(why)
        ));
        Self { program, command: plan.command.to_vec() }
    }

    /// Puts the application in this process's place. Returns only where it cannot be run.
    ///
    /// # Errors
    /// If it cannot be given its signals as this process got them.
    pub fn replace(&self) -> Result<NotRunnable, CaptureError> {
        launch::replace(&self.program, &self.command)
    }

    /// Runs the application as a child to its end.
    ///
    /// # Errors
    /// If the system refuses to start or to await it; the inner error means that it cannot be run.
    pub fn run(&self) -> Result<Result<(End, Held), NotRunnable>, CaptureError> {
        let running = match launch::start(&self.program, &self.command, &BTreeMap::new())? {
            Ok(running) => running,
            Err(error) => return Ok(Err(error)),
        };
        let (status, held) = running.wait()?;
        Ok(Ok((End::of_status(status), held)))
    }
}
