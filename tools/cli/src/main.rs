//! The `clscope` command. Owns the list of subcommands and how errors reach people: one line with
//! the whole chain of causes, prefixed, on stderr. Refuses to do any work itself.
#![forbid(unsafe_code)]

/// Says a line to people on stderr.
macro_rules! say {
    ($($what:tt)*) => { crate::output::say(format_args!($($what)*)) };
}

mod bench;
mod check;
mod ctl;
mod diff;
mod doctor;
mod dump;
mod export;
mod kernel;
mod list_counters;
mod merge;
mod meter;
mod mix;
mod models;
mod oa;
mod options;
mod overhead;
mod programs;
mod record;
mod replay;
mod report;
mod screen;
mod sensord;
mod sql;
mod stat;
mod top;
mod view;

use clscope_screen::{output, pages};
use screen::{changed, progress};

use models::{explain, roofline, what_if};
use options::{args, help, parameters, select};

use anyhow::Context;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use clscope_capture::system;
use std::io::Write;
use std::process::ExitCode;

#[derive(Debug, Parser)]
#[command(
    name = "clscope",
    version,
    about = "Profiler for unmodified OpenCL applications: calls, commands, counters, joules of each kernel",
    before_help = "Examples:
  clscope record -- ./app --its --arguments   run the application, leave a trace directory
  clscope report                              kernels, transfers and API calls of the newest trace
  clscope export perfetto                     timeline for Perfetto's viewer
  clscope diff before after                   what became slower or costs more joules
  clscope top                                 what a running application does, as of now
  clscope explain                             why kernels take their time, what would help
  clscope doctor                              what works here, what does not, and how to fix it",
    after_help = "The recorder works without this command too: `clscope settings` lists its environment variables.",
    arg_required_else_help = true,
    subcommand_required = true,
    infer_subcommands = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run an application and record its OpenCL calls and device commands
    Record(Box<record::Args>),
    /// Run an application several times: its time and joules, each with its spread
    Stat(Box<stat::Args>),
    /// Summarise a trace: kernels, energy, transfers, queues, idle causes, API calls
    Report(report::Args),
    /// Print every record of a trace, one line each
    Dump(dump::Args),
    /// Find misuse of OpenCL: data races, objects never released, failed calls
    Check(check::Args),
    /// Show what kernels executed, by class of instruction (`record --mix`)
    Mix(mix::Args),
    /// List or write out the sources and binaries of programs that a trace keeps
    Programs(programs::Args),
    /// Put several traces into one directory
    Merge(merge::Args),
    /// Add the readings of an external power meter to a trace
    Meter(meter::Args),
    /// Write a timeline or a flame graph for a viewer
    Export(export::Args),
    /// Ask traces a question in SQL (DuckDB answers)
    Sql(Box<sql::Args>),
    /// Show the report, or the timeline, in the browser
    View(view::Args),
    /// Compare runs: what became slower or costs more joules, beyond noise
    Diff(Box<diff::Args>),
    /// Why kernels take their time and joules, and what would change it
    Explain(Box<explain::Args>),
    /// Draw kernels under the ceilings of their device
    Roofline(Box<roofline::Args>),
    /// Predict time and joules of a kernel at other sizes, clocks, or elsewhere
    WhatIf(Box<what_if::Args>),
    /// Watch a running application: kernels, joules, devices, watts, transfers as of now
    Top(Box<top::Args>),
    /// Pause and resume recording in running processes
    Ctl(ctl::Args),
    /// Decode streams of GPU counters; list metric sets
    Oa(oa::Args),
    /// List the available hardware counters
    ListCounters(list_counters::Args),
    /// Measure a device: arithmetic, memory, power, latency, structure
    Bench(Box<bench::Args>),
    /// Run a captured launch alone (`record --capture`): results, time, joules
    Kernel(Box<kernel::Args>),
    /// Measure the captured launches of a trace: joules, time, mix
    Replay(Box<replay::Args>),
    /// Report what works on this machine, what does not, and how to fix it
    Doctor(doctor::Args),
    /// Measure what recording costs on this machine
    Overhead(overhead::Args),
    /// Give a group access to energy counters that only root may read
    Sensord(sensord::Args),
    /// List the environment variables that the recorder reads
    #[command(before_help = "Examples:
  clscope settings
  CLSCOPE_DEVICE_TIMING=off LD_PRELOAD=libclscope.so ./app    recorded without the command")]
    Settings,
    /// Print a script that completes this command's words in a shell
    Completions(pages::CompletionArgs),
    /// Write the manual pages, one for each subcommand; packages are made with them
    #[command(hide = true)]
    Man(pages::ManArgs),
    /// Tries a loader or driver in a process of its own; `doctor` asks
    #[command(name = clscope_doctor::child::SUBCOMMAND, hide = true)]
    Probe {
        /// What to find out about what
        question: Vec<std::ffi::OsString>,
    },
    /// Runs a captured launch in a process of its own; `kernel` asks
    #[command(name = kernel::worker::SUBCOMMAND, hide = true)]
    KernelWorker(Box<kernel::Args>),
    /// Measures a captured launch in a process of its own; `replay` asks
    #[command(name = clscope_launch::worker::REPLAY, hide = true)]
    ReplayWorker,
    /// Measures the recorder in a process of its own; `overhead` asks
    #[command(name = clscope_doctor::overhead::SUBCOMMAND, hide = true)]
    SelfTest {
        /// libclscope.so
        recorder: std::path::PathBuf,
    },
}

/// Room for what parsing the command line takes, and reading traces: the usual size of a program's
/// first stack.
const STACK_BYTES: usize = 8 << 20;

/// Runs the command in a thread with a stack of its own: whoever starts this program may have left
/// it little (`ulimit -s`), and an application that is started must not end for that. The first
/// thread takes no signal meanwhile, so that all reach the one that acts on them.
fn main() -> ExitCode {
    let thread = std::thread::Builder::new().name("clscope".to_owned()).stack_size(STACK_BYTES);
    match thread.spawn(run) {
        Ok(running) => clscope_io::signals::without_signals(|| running.join())
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        // No second thread is to be had: this one does as it is.
        Err(_) => run(),
    }
}

fn run() -> ExitCode {
    let given = help::with_help(Cli::command())
        .try_get_matches()
        .unwrap_or_else(|error| with_hint(error).exit());
    let cli = Cli::from_arg_matches(&given).unwrap_or_else(|error| error.exit());
    // `record` outlives a closed stderr, since the application's exit code must come through; `sql`
    // removes its tables.
    let outlives = |command: &Command| {
        matches!(
            command,
            Command::Record(_)
                | Command::Stat(_)
                | Command::Check(_)
                | Command::Replay(_)
                | Command::Sql(_)
        )
    };
    if !outlives(&cli.command) {
        system::end_at_closed_pipe();
    }
    let result = match cli.command {
        Command::Record(args) => record::run(&args),
        Command::Stat(args) => stat::run(&args),
        Command::Report(args) => report::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Dump(args) => dump::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Check(args) => check::run(&args),
        Command::Mix(args) => mix::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Programs(args) => programs::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Meter(args) => meter::run(&args),
        Command::Merge(args) => merge::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Export(args) => export::run(&args),
        Command::Sql(args) => sql::run(&args).map(|()| ExitCode::SUCCESS),
        Command::View(args) => view::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Diff(args) => diff::run(&args),
        Command::Explain(args) => explain::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Roofline(args) => roofline::run(&args).map(|()| ExitCode::SUCCESS),
        Command::WhatIf(args) => what_if::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Oa(args) => oa::run(&args).map(|()| ExitCode::SUCCESS),
        Command::ListCounters(args) => list_counters::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Top(args) => top::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Kernel(args) => kernel::run(&args),
        Command::KernelWorker(args) => kernel::worker::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::ReplayWorker => replay::worker::run(),
        Command::Ctl(args) => ctl::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Doctor(args) => doctor::run(&args),
        Command::Sensord(args) => sensord::run(&args).map(|never| match never {}),
        Command::Overhead(args) => overhead::run(&args).map(|()| ExitCode::SUCCESS),
        Command::SelfTest { recorder } => {
            answer(|out| Ok(writeln!(out, "{}", clscope_doctor::overhead::answer(&recorder)?)?))
        }
        Command::Probe { question } => {
            answer(|out| Ok(clscope_doctor::child::answer(&question, out)?))
        }
        Command::Completions(args) => {
            pages::completions(help::with_help(Cli::command()), &args).map(|()| ExitCode::SUCCESS)
        }
        Command::Man(args) => {
            pages::man(help::with_help(Cli::command()), &args).map(|()| ExitCode::SUCCESS)
        }
        Command::Settings => print_settings().map(|()| ExitCode::SUCCESS),
    };
    result.unwrap_or_else(|error| {
        say!("{error:#}");
        ExitCode::FAILURE
    })
}

/// Names the commands that take `--window` where another one was given it: their outputs say that
/// joules are of a part of the run. Names the formats of `export` where something else came first.
fn with_hint(mut error: clap::Error) -> clap::Error {
    let window = ContextValue::String("--window".to_owned());
    let is_export = error
        .get(ContextKind::Usage)
        .is_some_and(|usage| usage.to_string().contains("export <COMMAND>"));
    let hint = match error.kind() {
        ErrorKind::UnknownArgument if error.get(ContextKind::InvalidArg) == Some(&window) => {
            "`clscope report --window FROM..TO` and `clscope diff --window FROM..TO` give energy of a part of the run".to_owned()
        }
        ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand if is_export => {
            let all = Cli::command();
            let formats = all.find_subcommand("export").into_iter();
            let formats = formats.flat_map(|export| export.get_subcommands());
            let names: Vec<&str> = formats.map(|of| of.get_name()).collect();
            format!("name a format first, as in `clscope export perfetto TRACE`: {}", names.join(", "))
        }
        _ => return error,
    };
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
    error
}

/// The answer of a child, which another process of this program reads.
fn answer(give: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>) -> anyhow::Result<ExitCode> {
    let mut out = output::json();
    give(&mut out)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Where this program lies. Without /proc nobody knows but whoever started it, by its first word.
fn own_path() -> anyhow::Result<std::path::PathBuf> {
    let unknown = match std::env::current_exe() {
        Ok(path) => return Ok(path),
        Err(error) => error,
    };
    let word = std::env::args_os().next().unwrap_or_default();
    let word = std::path::Path::new(&word);
    let found = if word.components().count() > 1 {
        word.canonicalize().ok()
    } else {
        let search = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&search).map(|folder| folder.join(word)).find(|path| path.is_file())
    };
    found.ok_or(unknown).context("cannot find the path of this program; start it by its whole path")
}

/// This program and its environment, for libraries that read neither.
fn surroundings<T>(
    ask: impl FnOnce(clscope_doctor::Surroundings<'_>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let program = own_path()?;
    ask(clscope_doctor::Surroundings {
        program: &program,
        variable: &|name| std::env::var_os(name),
    })
}

fn print_settings() -> anyhow::Result<()> {
    let mut out = output::prose();
    writeln!(
        out,
        "Environment variables of the recorder; `clscope record` sets them from its options.\n"
    )?;
    for setting in clscope_trace::variables::SETTINGS {
        writeln!(out, "{}={}", setting.name, setting.values)?;
        writeln!(out, "    {} (default: {})", setting.help, setting.default)?;
    }
    Ok(out.flush()?)
}
