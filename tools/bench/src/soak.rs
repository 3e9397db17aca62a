//! `soak`: many recorded calls under a size limit, with the process's memory and the trace's size
//! looked at all the while. Fails if memory grows with the number of calls or the trace passes its
//! limit.
#![forbid(unsafe_code)]

use crate::process::{Places, Runner, Way, size, wait};
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Options of `soak`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub places: Places,
    /// Cheap calls; 1,000,000,000 are eight hours of a busy application
    #[arg(long, default_value_t = 100_000_000)]
    pub calls: u64,
    /// Launches, each with its own event
    #[arg(long, default_value_t = 2_000_000)]
    pub launches: u64,
    /// Limit of the trace in MiB
    #[arg(long, default_value_t = 64)]
    pub max_size: u64,
}

/// Runs, watches, prints.
///
/// # Errors
/// If memory or the trace grows past what it may.
pub fn run(args: &Args) -> Result<()> {
    println!(
        "| run | seconds | memory after a tenth, MB | memory at most, MB | trace at most, MB | limit, MB |"
    );
    println!("|---|---:|---:|---:|---:|---:|");
    // The program makes that many calls of each of four kinds.
    watch(
        args,
        "cheap_calls",
        &[(args.calls / 4).to_string(), "1".into()],
        &format!("{} cheap calls", args.calls),
    )?;
    watch(
        args,
        "enqueue_bench",
        &[args.launches.to_string(), "1000".into(), "bare".into()],
        &format!("{} launches", args.launches),
    )
}

fn watch(args: &Args, program: &str, arguments: &[String], what: &str) -> Result<()> {
    let scratch = args.places.scratch()?;
    let trace = scratch.path().join("t.clscope");
    let mut command = Command::new(args.places.fixture(program)?);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.env(clscope_trace::settings::MAX_SIZE, format!("{}M", args.max_size));
    Runner::new(&args.places, Way::Preload).prepare(&mut command, &trace)?;
    let begin = Instant::now();
    let child = command.spawn().with_context(|| format!("could not start {program}"))?;
    let pid = child.id();
    let waiter = std::thread::spawn(move || wait(pid));
    let (mut memory, mut largest) = (Vec::new(), 0);
    while !waiter.is_finished() {
        std::thread::sleep(Duration::from_millis(20));
        largest = largest.max(size(&trace));
        memory.extend(resident(Path::new(&format!("/proc/{pid}/status"))));
    }
    let (status, _) =
        waiter.join().map_err(|_| anyhow::anyhow!("the watching thread panicked"))??;
    if status != 0 {
        bail!("{program} ended with wait status {status:#x}");
    }
    let seconds = begin.elapsed().as_secs_f64();
    let early = memory.get(memory.len() / 10).copied().unwrap_or(f64::NAN);
    let most = memory.iter().copied().fold(f64::NAN, f64::max);
    let limit = (args.max_size << 20) as f64 / 1e6;
    let trace_most = largest as f64 / 1e6;
    println!("| {what} | {seconds:.1} | {early:.1} | {most:.1} | {trace_most:.1} | {limit:.1} |");
    // Definitions and rings are not under the limit; they are small here.
    if trace_most > limit + 2.0 {
        bail!("the trace grew to {trace_most:.1} MB under a limit of {limit:.1} MB");
    }
    if most > early + 8.0 {
        bail!("memory grew from {early:.1} to {most:.1} MB");
    }
    Ok(())
}

/// Anonymous and file memory of a process, in megabytes. The mapped rings are in it.
fn resident(status: &Path) -> Option<f64> {
    let text = std::fs::read_to_string(status).ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse::<f64>().ok().map(|kib| kib * 1024.0 / 1e6)
}
