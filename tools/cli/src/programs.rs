//! `clscope programs`: the sources and binaries that a trace keeps, listed or written out. Refuses
//! to write over anything, and to let a name from a trace lead out of the folder asked for.
#![forbid(unsafe_code)]

use crate::output::{count, say, show};
use anyhow::Result;
use clscope_profile::profile::{Options, Profile};
use clscope_profile::programs::extract;
use std::path::PathBuf;

/// Options of `clscope programs`.
#[derive(Debug, clap::Args)]
#[command(before_help = "Examples:
  clscope programs                        sources and binaries of the newest trace
  clscope programs run1 --extract sources writes them into the folder sources")]
pub struct Args {
    /// Trace directories [default: the newest of the working directory]
    #[arg(value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Write them into this folder, which is made if missing: KERNEL-HASH.LANGUAGE each
    #[arg(long, value_name = "DIR")]
    extract: Option<PathBuf>,
    #[command(flatten)]
    names: crate::args::NameArgs,
}

/// Runs the command.
///
/// # Errors
/// If there is no trace, or a file cannot be written.
pub fn run(args: &Args) -> Result<()> {
    let profile = Profile::open(&args.traces)?;
    let view = profile.view(Options { form: args.names.form(false), ..Options::default() });
    crate::report::warn_opened(&view);
    let programs = view.programs();
    match &args.extract {
        None => show(|out| clscope_text::programs::list(out, &programs)),
        Some(folder) => {
            let written = extract(&programs, folder, &|text| say(text))?;
            say(format_args!("{} in {}", count(written, "program", "programs"), folder.display()));
            Ok(())
        }
    }
}
