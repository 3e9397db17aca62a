//! `clscope doctor`: what works on this machine, what does not, why, and the one command that fixes
//! it, as lines or JSON. Refuses to examine anything: [`clscope_doctor`] does.

use crate::args::{Format, choices};
use anyhow::{Context, Result};
use clscope_doctor::{Status, Wanted, calibrate, examine};
use clscope_text::doctor::text;
use clscope_text::table::wrapped;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

/// Options of `clscope doctor`.
#[derive(Debug, clap::Args)]
#[command(before_help = "Examples:
  clscope doctor                                     what works here, and how to fix the rest
  OCL_ICD_VENDORS=/path/to/icds clscope doctor       the same with other drivers
  clscope doctor --calibrate                         measures devices and sensors, for later runs
  clscope doctor --calibrate=spans                   devices only
  clscope doctor --format json | jq '.findings[] | select(.status != \"ok\")'")]
pub struct Args {
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(flatten)]
    sensors: crate::args::SensorArgs,
    /// Measure what a device's own times hold of the runtime's work (spans), and how often sensors
    /// update and how late they follow (sensors): some seconds, with load. Kept for later runs;
    /// `record` puts it into traces
    #[arg(long, value_enum, value_name = "PARTS", value_delimiter = ',', num_args = 0..=1, require_equals = true, default_missing_value = "spans,sensors")]
    calibrate: Vec<Part>,
}

choices! {
    /// What can be calibrated.
    enum Part = calibrate::Part {
        /// Devices: what is in their spans besides the command, what timing costs
        Spans,
        /// Sensors: update period, response
        Sensors,
    }
}

/// Examines everything and prints it. The exit code is 1 where recording would not work.
pub fn run(args: &Args) -> Result<ExitCode> {
    let calibrate: Vec<calibrate::Part> = args.calibrate.iter().map(|p| (*p).into()).collect();
    let wanted = Wanted { sensors: &args.sensors.options(), calibrate: &calibrate };
    let found = crate::surroundings(|here| Ok(examine(here, &wanted)))?;
    match args.format {
        Format::Json => crate::output::show_json(&found)?,
        // Past the screen, for the sake of the colours: every value was escaped by itself.
        Format::Text => {
            let text = text(&found.findings, std::io::stdout().is_terminal());
            std::io::stdout()
                .write_all(wrapped(&text, crate::output::terminal_width()).as_bytes())
                .context("cannot print")?;
        }
    }
    Ok(if found.status == Status::Error { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
