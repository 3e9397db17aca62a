//! `clscope record`: its options and its exit code, which is the application's. Refuses to record:
//! [`clscope_record`] does.
#![forbid(unsafe_code)]

mod args;
mod change;

pub use args::Args;
pub use clscope_record::Ran;

use anyhow::Result;
use clscope_capture::launch::End;
use clscope_capture::system::{self, Held};
use std::process::ExitCode;

/// Runs the application and reports what was recorded. The exit code is the application's; where a
/// signal ended it, this process ends by the same.
pub fn run(args: &Args) -> Result<ExitCode> {
    match record(args)? {
        Ran::Ended { end, held, .. } => Ok(end_alike(end, held)),
        Ran::NotRunnable(code) => Ok(ExitCode::from(code)),
    }
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
    crate::surroundings(|here| Ok(clscope_record::record(&args.plan(here))?))
}
