//! `clscope merge`: several traces into one directory. Refuses to copy anything:
//! [`clscope_profile::merge`] does.

use crate::output::count;
use anyhow::Result;
use clscope_capture::directory::shown_path;
use std::path::PathBuf;

/// Options of `clscope merge`.
#[derive(Debug, clap::Args)]
#[command(before_help = "Examples:
  clscope merge rank*.clscope -o all   makes all.clscope
  clscope report all.clscope           its processes together")]
pub struct Args {
    /// Trace directories
    #[arg(value_name = "TRACE", required = true)]
    pub traces: Vec<PathBuf>,
    /// Trace directory to make; `.clscope` is added
    #[arg(short, long, value_name = "NAME")]
    pub output: PathBuf,
    #[command(flatten)]
    pub progress: crate::progress::ProgressArgs,
}

/// Runs the command.
///
/// # Errors
/// If a source is no trace, the target exists, or a file cannot be copied. Nothing is left behind
/// then.
pub fn run(args: &Args) -> Result<()> {
    let progress = args.progress.start("copies traces");
    let merged = clscope_profile::merge::merge(&args.traces, &args.output)?;
    drop(progress);
    for (process, trace) in &merged.doubles {
        say!("process {process} of {trace} is in another of the traces too: taken once");
    }
    let target = &merged.directory;
    say!(
        "{} of {} in {}; next: clscope report {}",
        count(merged.processes, "process", "processes"),
        count(args.traces.len() as u64, "trace", "traces"),
        target.display(),
        shown_path(target)
    );
    Ok(())
}
