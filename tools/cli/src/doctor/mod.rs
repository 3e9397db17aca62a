//! Owns `clscope doctor`: what works on this machine, what does not, why, and the one command that
//! fixes it. Refuses to load a driver into its own process: drivers are tried in children, so that
//! one that crashes is a finding.
#![forbid(unsafe_code)]

mod calibrate;
mod loaders;
mod machine;
mod sensors;

pub use calibrate::{LOAD, SPANS, measure_spans, put_load};

use anyhow::{Context, Result};
use clscope_io::text::line;
use serde::Serialize;
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
    calibrate: Vec<calibrate::Part>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Lines for people
    Text,
    /// One JSON object
    Json,
}

/// How a thing stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It works.
    Ok,
    /// A fact, neither good nor bad.
    Info,
    /// Something is missing that clscope can do without.
    Warning,
    /// Recording will not work, or not see devices.
    Error,
}

/// One line of the examination.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Part of the examination: `recorder`, `loader`, `driver`, `device`, `clock`, `files`,
    /// `sensor`, `calibration`.
    pub section: &'static str,
    /// What was looked at.
    pub what: String,
    /// How it stands.
    pub status: Status,
    /// What was found.
    pub detail: String,
    /// The one command or step that fixes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Finding {
    /// A finding without a remedy.
    pub fn new(
        section: &'static str,
        what: impl Into<String>,
        status: Status,
        detail: impl Into<String>,
    ) -> Self {
        Self { section, what: what.into(), status, detail: detail.into(), fix: None }
    }

    /// With its remedy.
    #[must_use]
    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }
}

/// Examines everything and prints it. The exit code is 1 where recording would not work.
pub fn run(args: &Args) -> Result<ExitCode> {
    let mut findings = machine::recorder();
    findings.extend(loaders::examine());
    findings.extend(machine::clock());
    findings.extend(machine::files());
    let (found, sources) = sensors::examine(&args.sensors.options());
    findings.extend(found);
    if !args.calibrate.is_empty() {
        findings.extend(calibrate::run(&args.calibrate, sources));
    }
    let worst = findings.iter().map(|f| f.status).max().unwrap_or(Status::Ok);
    match args.format {
        Format::Json => {
            let document = serde_json::json!({ "clscope": env!("CARGO_PKG_VERSION"), "status": worst, "findings": findings });
            let mut out = crate::output::json();
            serde_json::to_writer_pretty(&mut out, &document)?;
            writeln!(out)?;
        }
        // Past the screen, for the sake of the colours: every value was escaped by itself.
        Format::Text => std::io::stdout()
            .write_all(text(&findings, std::io::stdout().is_terminal()).as_bytes())
            .context("cannot print")?,
    }
    Ok(if worst == Status::Error { ExitCode::FAILURE } else { ExitCode::SUCCESS })
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

    #[test]
    fn errors_outrank_all() {
        assert!(
            Status::Error > Status::Warning
                && Status::Warning > Status::Info
                && Status::Info > Status::Ok
        );
    }
}
