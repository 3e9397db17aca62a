//! `clscope overhead`: what recording costs on this machine, and what it took of a trace. Refuses
//! to measure: [`clscope_doctor::overhead`] does.

use crate::args::Format;
use crate::output::{show_json, show_text};
use anyhow::Result;
use clscope_doctor::overhead::{Overhead, SCHEMA, measure};
use clscope_profile::profile::{Options, Profile};
use clscope_profile::report::recording::Share;
use clscope_text::overhead::text;
use std::path::{Path, PathBuf};

/// Options of `clscope overhead`.
#[derive(Debug, clap::Args)]
#[command(before_help = "Examples:
  clscope overhead                 cost of a call and of a launch on this machine, with a trace in
                                   the working directory for the moment: its file system counts
  clscope overhead run.clscope     and what share of that run recording took")]
pub struct Args {
    /// Traces recorded on this machine, to estimate what recording them took
    #[arg(value_name = "TRACE")]
    pub traces: Vec<PathBuf>,
    /// Text for people, or JSON for programs
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Runs the command.
///
/// # Errors
/// If the recorder cannot be found or loaded, the working directory cannot be written, or a trace cannot be
/// opened.
pub fn run(args: &Args) -> Result<()> {
    let measured = crate::surroundings(|here| Ok(measure(here, Path::new("."))?))?;
    let share = if args.traces.is_empty() {
        None
    } else {
        let profile = Profile::open(&args.traces)?;
        let view = profile.view(Options::default());
        let stats = view.stats();
        Some(Share::of_costs(
            stats.calls,
            stats.command_count,
            stats.timed,
            stats.recorded_ns(),
            Some(measured.costs()),
        ))
    };
    match args.format {
        Format::Json => show_json(&Overhead { schema: SCHEMA, measured, recording: share }),
        Format::Text => show_text(&text(&measured, share.as_ref())),
    }
}
