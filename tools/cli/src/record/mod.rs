//! `clscope record`: its options and its exit code, which is the application's. Refuses to record:
//! [`clscope_record`] does.

mod args;
mod change;

pub use args::Args;
pub use clscope_record::{Alone, Ran};

use anyhow::Result;
use clscope_capture::error::CaptureError;
use clscope_capture::launch::End;
use clscope_capture::program::NotRunnable;
use clscope_capture::system::{self, Held};
use std::process::ExitCode;

/// Runs the application and reports what was recorded. The exit code is the application's; where a
/// signal ended it, this process ends by the same.
pub fn run(args: &Args) -> Result<ExitCode> {
    match record(args)? {
        Ran::Ended { end, held, .. } => Ok(end_alike(end, held)),
        Ran::NotRunnable(code) => Ok(ExitCode::from(code)),
        Ran::Alone(alone) => run_in_place(&alone),
    }
}

/// Becomes the application, unrecorded. Comes back only where it cannot be run.
pub fn run_in_place(alone: &Alone) -> Result<ExitCode> {
    Ok(say_not_runnable(&alone.replace()?))
}

/// Says why the application cannot be run; the exit code that shells give for it.
pub fn say_not_runnable(error: &NotRunnable) -> ExitCode {
    say!("cannot run {error}");
    ExitCode::from(error.code())
}

/// Ends as the application did.
pub fn end_alike(end: End, held: Box<Held>) -> ExitCode {
    match end {
        End::Code(code) => ExitCode::from(code),
        End::Signal(signal, _) => {
            drop(held);
            system::die_by(signal);
            ExitCode::from(128u8.wrapping_add(signal as u8))
        }
    }
}

/// Records the application once.
pub fn record(args: &Args) -> Result<Ran> {
    args.refuse_mistakes();
    crate::surroundings(|here| Ok(clscope_record::record(&args.plan(here))?))
}

/// A folder for traces that are not kept; or, where there is none, what became of the application
/// instead of a recording.
pub fn make_temporary(prefix: &str, args: &Args) -> Result<Result<tempfile::TempDir, Ran>> {
    let source = match tempfile::Builder::new().prefix(prefix).tempdir() {
        Ok(folder) => return Ok(Ok(folder)),
        Err(source) => source,
    };
    let attempt = "cannot make a folder for the trace; name a place with -o".to_owned();
    let why = CaptureError::System { attempt, source };
    crate::surroundings(|here| Ok(Err(clscope_record::leave_alone(&args.plan(here), why)?)))
}
