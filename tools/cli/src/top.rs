//! `clscope top`: what a running application does, as of now: kernels by time and joules, devices,
//! watts, transfers, host time. Owns options and the choice between screen and print-out; refuses
//! to read a trace: `clscope_live` does, without the application noticing.

use crate::args::{EnergyArgs, TableFormat, choices};
use crate::output::{say, show_json, show_text};
use anyhow::{Result, bail};
use clscope_top::target::Target;
use clscope_top::{Look, Options, once, show, text};
use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

choices! {
    /// What kernels are sorted by.
    #[derive(Default)]
    enum Sort = clscope_top::Sort {
        /// Device time
        #[default]
        Time,
        /// Joules
        Energy,
        /// Launches
        Count,
        /// Name
        Name,
    }
}

/// Options of `clscope top`.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "clscope top [OPTIONS] [TRACE|PID]\n       clscope top [OPTIONS] -- APP [ARGS]...",
    before_help = "Examples:
  clscope top                        the newest trace of the working directory
  clscope top 4711                   a process that records
  clscope top -- ./app --size 512    starts the application, recorded
  clscope top run1 --once --format json",
    after_help = "Keys: t, e, c, n sort by time, energy, count, name; k kernels, a API calls, x transfers, p processes; / filters by name; space freezes the screen; r turns recording off and on; w writes the report as a page; arrows scroll; ? help; q leaves.
Nothing is asked of the application: its trace is read. Joules are those of `clscope report`, made anew as often as a hundredth of a core allows."
)]
pub struct Args {
    /// A trace directory, or the id of a process that records; the newest trace of the working
    /// directory if none is named
    #[arg(value_name = "TRACE|PID", conflicts_with = "app")]
    target: Option<PathBuf>,
    /// Seconds between two readings
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_interval)]
    interval: Duration,
    /// What kernels are sorted by at first
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    sort: Sort,
    /// Print what is known instead of drawing a screen: of a running process after one interval, of
    /// an application that is started here at its end
    #[arg(long)]
    once: bool,
    /// How `--once` writes
    #[arg(long, value_enum, default_value_t = TableFormat::Table, requires = "once", value_name = "FORMAT")]
    format: TableFormat,
    /// Where the trace of an application that is started here goes [default: APP-top-PID.clscope]
    #[arg(short, long, value_name = "NAME", requires = "app")]
    output: Option<OsString>,
    #[command(flatten)]
    energy: EnergyArgs,
    /// The application and its arguments, recorded with the options that `clscope record` has by
    /// default
    #[arg(last = true, value_name = "APP")]
    app: Vec<OsString>,
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|s| (0.1..=3600.0).contains(s));
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "expected a number of seconds from 0.1 to 3600".to_owned())
}

/// Runs the command. The exit code is that of the application that was started.
///
/// # Errors
/// If there is nothing to follow, or no terminal to draw on.
pub fn run(args: &Args) -> Result<ExitCode> {
    if !args.once {
        check_terminal()?;
    }
    let program = || crate::own_path().map_err(|error| format!("{error:#}"));
    let options = Options {
        interval: args.interval,
        sort: args.sort.into(),
        energy: args.energy.options(),
        energy_arguments: args.energy.arguments(),
        look: look(),
        program: &program,
    };
    let mut target = if args.app.is_empty() {
        Target::find(args.target.as_deref())?
    } else {
        Target::start(&args.app, args.output.as_deref(), args.once, &program)?
    };
    if args.once {
        let changed = |text: &str| say!("the run was changed: {text}");
        let document = once(&mut target, &options, &changed)?;
        match args.format {
            TableFormat::Json => show_json(&document)?,
            TableFormat::Table => {
                let width = terminal_size::terminal_size().map_or(100, |(w, _)| usize::from(w.0));
                show_text(&text(&document, width))?;
            }
        }
    } else {
        show(&mut target, &options)?;
    }
    let code = target.end(&|text| say(text), &mut std::io::stdout().lock())?;
    Ok(ExitCode::from(code))
}

/// What the environment says of the terminal.
fn look() -> Look {
    // https://no-color.org: set to anything but nothing.
    let colour = std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| std::env::var_os(name).filter(|v| !v.is_empty()))
        .unwrap_or_default();
    let locale = locale.to_string_lossy().to_lowercase();
    Look { colour, unicode: locale.contains("utf-8") || locale.contains("utf8") }
}

fn check_terminal() -> Result<()> {
    let once = "`clscope top --once` prints instead, as text or JSON";
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        bail!("cannot draw a screen: standard input and output are no terminal; {once}");
    }
    match std::env::var("TERM") {
        Ok(term) if !term.is_empty() && term != "dumb" => Ok(()),
        Ok(term) => bail!("cannot draw a screen on a terminal of type {term:?}; {once}"),
        Err(_) => bail!("cannot draw a screen: TERM does not say what terminal this is; {once}"),
    }
}
