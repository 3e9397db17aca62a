//! `clscope replay`: captured launches of a trace, measured when the application has ended. Owns the
//! options, what is said meanwhile, and the exit code: 1 where nothing was measured. Refuses to run
//! or to judge anything: `clscope-launch` does, in processes of its own.

pub mod worker;

use crate::output::{progress, say};
use anyhow::{Context, Result};
use clscope_capture::directory::shown_path;
use clscope_capture::system::Held;
use clscope_launch::replay::course::News;
use clscope_launch::replay::{self, Environment, Options, Plan};
use clscope_profile::trace_files;
use clscope_trace::values;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Options of `clscope replay`.
#[derive(Debug, clap::Args)]
#[command(before_help = "Examples:
  clscope record --capture '*' -- ./app   captures the first launch of each kernel
  clscope replay                          measures those of the newest trace, for a minute
  clscope replay run1 --for 5m            longer: narrower intervals
  clscope replay run1 --kernels 'gemm*'   of some kernels
  clscope replay run1 --mix               counts what they execute, too: clscope mix run1
  clscope report run1                     joules of kernels, with what was measured

Each launch runs in a process of its own, from what the application's memory held before it; so do
reads and writes of buffers that took 2 % of the device's time, of random bytes. What was
measured goes into the trace (measured.jsonl). Ctrl-C keeps what was measured. Exit code: 1 where
nothing was measured.")]
pub struct Args {
    /// Trace directory [default: the newest of the working directory]
    #[arg(value_name = "TRACE")]
    trace: Option<PathBuf>,
    /// Time for all launches together: 90s, 5m or 2h
    #[arg(long = "for", value_name = "DURATION", default_value = "60s", value_parser = values::duration)]
    budget: Duration,
    /// Only launches of these kernels (comma-separated, * and ? allowed)
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = clap::builder::NonEmptyStringValueParser::new())]
    kernels: Vec<String>,
    /// Count what launches execute, by class of instruction, for `clscope mix`
    #[arg(long)]
    mix: bool,
    /// Read the device's performance counters meanwhile (NVIDIA: GPM)
    #[arg(long)]
    counters: bool,
    /// Measure on another device: a part of its name, or its number in `clscope bench
    /// devices`. Its joules are kept, and are no joules of this trace
    #[arg(short, long, value_name = "DEVICE")]
    device: Option<String>,
    /// Run what another user's trace holds
    #[arg(long)]
    trust: bool,
    /// Print no messages, unless something fails
    #[arg(short, long)]
    quiet: bool,
    /// Look for sensors below this directory (its sys, dev and proc) instead of the system's
    #[arg(long, value_name = "DIR", hide_short_help = true, conflicts_with = "counters")]
    sysfs_root: Option<PathBuf>,
    /// The OpenCL library to open
    #[arg(long, value_name = "PATH", hide_short_help = true)]
    opencl: Option<String>,
}

/// Runs the command.
///
/// # Errors
/// If the trace cannot be read or written, or has no captured launch.
pub fn run(args: &Args) -> Result<ExitCode> {
    let trace = match &args.trace {
        Some(trace) => clscope_trace::directory::as_recorded(trace.clone()),
        None => trace_files::newest(Path::new("."))?,
    };
    let plan = Plan::read(&trace, &args.kernels, args.trust, args.mix)?;
    let options = Options {
        budget: args.budget,
        limit: replay::limit(args.budget),
        device: args.device.clone(),
        energy: true,
        mix: args.mix,
        accesses: false,
        compilers: std::env::var_os("PATH").unwrap_or_default(),
        counters: args.counters,
        sysfs_root: args.sysfs_root.clone(),
        opencl: args.opencl.clone(),
        environment: Environment::read(&trace, args.trust, &|name| std::env::var_os(name)),
    };
    let held = Held::new(&[libc::SIGINT, libc::SIGTERM]).context("cannot watch for Ctrl-C")?;
    let own = crate::own_path()?;
    let quiet = args.quiet;
    let news = |news: &News<'_>| match news {
        News::Begins { .. } if quiet => {}
        News::Begins { .. } => progress(Some(news)),
        News::Ended(_) => {}
    };
    let start = || replay::command(&own);
    if !quiet {
        say!("measuring {} (Ctrl-C stops that)", options.time());
    }
    let replayed = replay::run(&trace, plan, &options, &held, &start, &news);
    progress(None);
    let replayed = replayed?;
    if !quiet {
        replayed.lines().iter().for_each(say);
        say!("next: clscope report {}", shown_path(&trace));
    }
    if let Some(error) = &replayed.full {
        say!("not all of it is kept: {}", clscope_io::text::chain(error));
    }
    Ok(match (replayed.interrupted, replayed.is_empty() || replayed.full.is_some()) {
        (true, _) => ExitCode::from(130),
        (false, true) => ExitCode::FAILURE,
        (false, false) => ExitCode::SUCCESS,
    })
}
