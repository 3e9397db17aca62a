//! `clscope check`: what an application does wrong with OpenCL, or slowly. Owns the options, the
//! recording of a run that is to be checked, and the exit code: 3 where something was found.
//! Refuses to judge: the library does.

use crate::args::{Format, NameArgs};
use crate::output::{self, say};
use crate::record::{self, Alone, Ran, end_alike};
use anyhow::{Result, bail};
use clscope_capture::launch::End;
use clscope_capture::system;
use clscope_check::{Severity, check};
use clscope_profile::profile::{Options, Profile};
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Exit code where something was found that `--fail-on` names.
const FOUND: u8 = 3;
/// Exit code where nothing was, and not all was judged: a process died inside a call, or nothing
/// could be recorded.
const NOT_JUDGED: u8 = 4;

/// Options of `clscope check`.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "clscope check [OPTIONS] [TRACE]\n       clscope check [OPTIONS] -- APP [ARGS]...",
    before_help = "Examples:
  clscope check -- ./app --size 512            runs it, and judges the run
  clscope check -o run1 -- ./app               keeps the trace run1.clscope
  clscope check run1                           a trace of `clscope record --check`
  clscope check --fail-on warning -- ./app     exit code 3 on a warning, too
  clscope check --format json -- ./app | jq '.findings[0]'

Exit code: 3 where something was found that --fail-on names, else that of APP, or 0; 4 in place of 0
where a process died inside a call, since what came after was not judged, and where nothing could be
recorded; 1 where the command itself failed."
)]
pub struct Args {
    /// Trace directory [default: the newest of the working directory]
    #[arg(value_name = "TRACE", conflicts_with = "command")]
    trace: Option<PathBuf>,
    /// Findings that make the exit code 3: those of this severity and worse
    #[arg(long, value_enum, default_value_t = FailOn::Error, value_name = "SEVERITY")]
    fail_on: FailOn,
    /// Rules to leave out, by their names (comma-separated)
    #[arg(long, value_name = "RULES", value_delimiter = ',', value_parser = rule)]
    without: Vec<String>,
    /// Text for people, or JSON for programs
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// File to write the findings to instead of stdout
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    /// Keep the trace of APP in this directory; `.clscope` is added
    #[arg(short, long, value_name = "NAME", requires = "command")]
    output: Option<OsString>,
    /// Fail where no trace can be made. By default APP runs unrecorded then, and nothing is checked
    #[arg(long, requires = "command")]
    require_trace: bool,
    #[command(flatten)]
    names: NameArgs,
    /// The application and its arguments
    #[arg(last = true, value_name = "APP")]
    command: Vec<OsString>,
}

/// What the exit code tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum FailOn {
    /// Against the specification
    Error,
    /// Errors, and what is against good use
    Warning,
    /// Everything
    Performance,
    /// Nothing
    None,
}

impl FailOn {
    fn severity(self) -> Option<Severity> {
        match self {
            Self::Error => Some(Severity::Error),
            Self::Warning => Some(Severity::Warning),
            Self::Performance => Some(Severity::Performance),
            Self::None => None,
        }
    }
}

fn rule(text: &str) -> Result<String, String> {
    let known = || clscope_check::Rule::ALL.iter().map(|rule| rule.id());
    match known().any(|id| id == text) {
        true => Ok(text.to_owned()),
        false => Err(format!("there are {}", known().collect::<Vec<_>>().join(", "))),
    }
}

/// Runs the command.
///
/// # Errors
/// If there is no such trace, the application cannot be recorded, or the findings cannot be
/// written.
pub fn run(args: &Args) -> Result<ExitCode> {
    if args.command.is_empty() {
        let found = judged(&args.trace.iter().cloned().collect::<Vec<_>>(), args)?;
        return Ok(found.exit_code(|| ExitCode::SUCCESS, true));
    }
    let mut temporary = None;
    let to = |base: OsString| record::Args::checked(base, args.require_trace, &args.command);
    let ran = match &args.output {
        Some(name) => record::record(&to(name.clone())?)?,
        None => match record::make_temporary("clscope-check-", &to("run".into())?)? {
            Ok(folder) => {
                let base = temporary.insert(folder).path().join("run");
                record::record(&to(base.into_os_string())?)?
            }
            Err(ran) => ran,
        },
    };
    let (trace, end, held) = match ran {
        Ran::Ended { trace, end, held, .. } => (trace, end, held),
        Ran::NotRunnable(code) => return Ok(ExitCode::from(code)),
        Ran::Alone(alone) => return unchecked(&alone, args),
    };
    if let End::Signal(number, _) = end {
        say!("the application was ended by {}", system::signal_name(number));
    }
    let found = match judged(&[trace], args) {
        Ok(found) => found,
        Err(error) if end == End::Code(0) => return Err(error),
        Err(error) => {
            say!("{error:#}");
            return Ok(end_alike(end, held));
        }
    };
    Ok(found.exit_code(|| end_alike(end, held), end == End::Code(0)))
}

/// Runs an application that cannot be recorded.
fn unchecked(alone: &Alone, args: &Args) -> Result<ExitCode> {
    let (end, held) = match alone.run()? {
        Ok(ended) => ended,
        Err(error) => return Ok(record::say_not_runnable(&error)),
    };
    say("nothing was checked, because nothing was recorded");
    let found = Found { any: false, unjudged: args.fail_on.severity().is_some() };
    Ok(found.exit_code(|| end_alike(end, Box::new(held)), end == End::Code(0)))
}

/// What the exit code tells of.
struct Found {
    /// What `--fail-on` names.
    any: bool,
    /// Something was not judged: a process died, or nothing was recorded.
    unjudged: bool,
}

impl Found {
    /// The exit code; `own` where nothing was found, which is 0 where the application ended well.
    fn exit_code(&self, own: impl FnOnce() -> ExitCode, is_well: bool) -> ExitCode {
        match self {
            Self { any: true, .. } => ExitCode::from(FOUND),
            Self { unjudged: true, .. } if is_well => ExitCode::from(NOT_JUDGED),
            _ => own(),
        }
    }
}

/// Judges traces and writes what was found.
fn judged(traces: &[PathBuf], args: &Args) -> Result<Found> {
    let profile = Profile::open(traces)?;
    let view = profile.view(Options {
        name_sites: true,
        form: args.names.form(args.format == Format::Json),
        ..Options::default()
    });
    if view.trace().processes.is_empty() {
        bail!(
            "nothing of {} could be read: `clscope report` says why",
            profile.files().names().join(", ")
        );
    }
    let mut document = check(&view, profile.files().names());
    document.findings.retain(|f| !args.without.iter().any(|rule| rule == f.rule));
    match (&args.to, args.format) {
        (Some(path), Format::Json) => {
            output::write_whole(path, |out| output::put_json(out, &document))?;
        }
        (Some(path), Format::Text) => {
            let text = clscope_text::check::render(&document);
            output::write_whole(path, |out| Ok(out.write_all(text.as_bytes())?))?;
        }
        (None, Format::Json) => output::show_json(&document)?,
        (None, Format::Text) => output::show_text(&clscope_text::check::render(&document))?,
    }
    let severity = args.fail_on.severity();
    Ok(Found {
        any: severity.is_some_and(|s| document.at_least(s).next().is_some()),
        unjudged: severity.is_some() && !document.ended_inside.is_empty(),
    })
}
