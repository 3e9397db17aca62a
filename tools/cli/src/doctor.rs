//! `clscope doctor`: what works on this machine, what does not, why, and the one command that fixes
//! it, as lines or JSON. Refuses to examine anything: [`clscope_doctor`] does.
#![forbid(unsafe_code)]

use anyhow::{Context, Result};
use clscope_doctor::{Finding, Status, Wanted, calibrate, examine};
use clscope_io::text::line;
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Lines for people
    Text,
    /// One JSON object
    Json,
}

/// What can be calibrated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Devices: what is in their spans besides the command, what timing costs
    Spans,
    /// Sensors: update period, response
    Sensors,
}

impl From<Part> for calibrate::Part {
    fn from(of: Part) -> Self {
        match of {
            Part::Spans => Self::Spans,
            Part::Sensors => Self::Sensors,
        }
    }
}

/// Examines everything and prints it. The exit code is 1 where recording would not work.
pub fn run(args: &Args) -> Result<ExitCode> {
    let calibrate: Vec<calibrate::Part> = args.calibrate.iter().map(|p| (*p).into()).collect();
    let wanted = Wanted { sensors: &args.sensors.options(), calibrate: &calibrate };
    let found = crate::surroundings(|here| Ok(examine(here, &wanted)))?;
    match args.format {
        Format::Json => {
            let mut out = crate::output::json();
            serde_json::to_writer_pretty(&mut out, &found)?;
            writeln!(out)?;
        }
        // Past the screen, for the sake of the colours: every value was escaped by itself.
        Format::Text => std::io::stdout()
            .write_all(text(&found.findings, std::io::stdout().is_terminal()).as_bytes())
            .context("cannot print")?,
    }
    Ok(if found.status == Status::Error { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn text(findings: &[Finding], colour: bool) -> String {
    let mut out = String::new();
    let mut section = "";
    for finding in findings {
        if finding.section != section {
            section = finding.section;
            out.push_str(&format!("{section}\n"));
        }
        let (mark, code) = match finding.status {
            Status::Ok => ("ok     ", "32"),
            Status::Info => ("info   ", "36"),
            Status::Warning => ("warning", "33"),
            Status::Error => ("error  ", "31"),
        };
        let mark = if colour { format!("\x1b[{code}m{mark}\x1b[0m") } else { mark.to_owned() };
        out.push_str(&format!("  {mark}  {}: {}\n", line(&finding.what), line(&finding.detail)));
        if let Some(fix) = &finding.fix {
            out.push_str(&format!("           to fix: {}\n", line(fix)));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_say_what_how_and_the_remedy() {
        let findings = [
            Finding::new("loader", "libOpenCL.so.1", Status::Ok, "found"),
            Finding::new("loader", "libOpenCL.so", Status::Warning, "missing")
                .fix("apt install ocl-icd-opencl-dev"),
            Finding::new("clock", "host clock", Status::Info, "x"),
        ];
        assert_eq!(
            text(&findings, false),
            "loader\n  ok       libOpenCL.so.1: found\n  warning  libOpenCL.so: missing\n           to fix: apt install ocl-icd-opencl-dev\nclock\n  info     host clock: x\n"
        );
        assert!(text(&findings, true).contains("\x1b[33mwarning"));
        let hostile =
            [Finding::new("loader", "a\x1b[2J", Status::Ok, "b\nc\u{202e}").fix("d\u{9b}")];
        assert_eq!(
            text(&hostile, false),
            "loader\n  ok       a\\u{1b}[2J: b\\nc\\u{202e}\n           to fix: d\\u{9b}\n"
        );
    }
}
