//! `clscope dump`: everything a trace holds, one line each. Refuses to make the lines: the library
//! does.

use crate::args::{Format, NameArgs};
use crate::report::{Finding, refuse_unreadable, warn};
use anyhow::{Context, Result, bail};
use clscope_export::dump;
use clscope_profile::trace_files::TraceFiles;
use std::io::Write;
use std::path::PathBuf;

/// Options of `clscope dump`.
#[derive(Debug, clap::Args)]
#[command(before_help = "Examples:
  clscope dump | less
  clscope dump run.clscope | grep clCreateBuffer
  clscope dump --format json | jq 'select(.event == \"command\")'")]
pub struct Args {
    /// Trace directories; the newest of the working directory if none is named
    #[arg(value_name = "TRACE")]
    pub traces: Vec<PathBuf>,
    /// Lines for people, or one JSON object a line
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    #[command(flatten)]
    names: NameArgs,
}

/// Runs the command.
///
/// # Errors
/// If there is no such trace, or the output cannot be written.
pub fn run(args: &Args) -> Result<()> {
    let files = TraceFiles::open(&args.traces)?;
    let mut out = match args.format {
        Format::Text => crate::output::screen(),
        Format::Json => crate::output::json(),
    };
    let format = match args.format {
        Format::Text => dump::Format::Text,
        Format::Json => dump::Format::Json,
    };
    // Lines as those of a timeline, in JSON too: what a kernel is called in the trace stands
    // beside.
    let (lines, issues) = dump::write(&files, format, args.names.form(false), &mut out)
        .context("could not write the dump")?;
    let issues: Vec<Finding> = issues.iter().map(Into::into).collect();
    out.flush().context("could not write the dump")?;
    drop(out);
    if lines == 0 && refuse_unreadable(&issues) {
        bail!("nothing of {} could be read", files.names().join(", "));
    }
    warn(&issues);
    Ok(())
}
