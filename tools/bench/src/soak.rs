//! `soak`: many recorded calls under a size limit, with the process's memory and the trace's size
//! looked at all the while, and `clscope top` asked every few seconds. Fails if memory grows with the
//! number of calls, the trace passes its limit, `top` sees no calls or lost records, or `report` takes
//! too long.
#![forbid(unsafe_code)]

use crate::process::{Ended, Places, Runner, Way, output, size, wait};
use anyhow::{Context, Result, bail, ensure};
use clscope_trace::variables;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Seconds of processor time that `report` of the trace may take.
const REPORT: f64 = 10.0;
/// Seconds between the end of one `top` and the begin of the next.
const BETWEEN: Duration = Duration::from_secs(4);

/// Launches, each with its own event.
const LAUNCHES: u64 = 2_000_000;
/// Limit of the trace in MiB.
const MAX_SIZE: u64 = 64;

/// Options of `soak`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub places: Places,
    /// Cheap calls; 1,000,000,000 are eight hours of a busy application
    #[arg(long, default_value_t = 100_000_000)]
    pub calls: u64,
}

/// Runs, watches, prints.
///
/// # Errors
/// If memory or the trace grows past what it may, `top` does not see the process at work, or `report`
/// takes longer than it may.
pub fn run(args: &Args) -> Result<()> {
    println!(
        "| run | seconds | memory after a tenth, MB | memory at most, MB | trace at most, MB | limit, MB | `top`, times \
         | `top` at most, CPU s | `report`, CPU s |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|");
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
        &[LAUNCHES.to_string(), "1000".into(), "bare".into()],
        &format!("{} launches", LAUNCHES),
    )
}

fn watch(args: &Args, program: &str, arguments: &[String], what: &str) -> Result<()> {
    let scratch = args.places.scratch()?;
    let trace = scratch.path().join("t.clscope");
    let mut command = Command::new(args.places.fixture(program)?);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Each call has a record of its own, so that the limit is reached.
    command.env(variables::MAX_SIZE, format!("{}M", MAX_SIZE)).env(variables::COLLAPSE, "0");
    Runner::new(&args.places, Way::Preload).prepare(&mut command, &trace)?;
    let begin = Instant::now();
    let child = command.spawn().with_context(|| format!("could not start {program}"))?;
    let pid = child.id();
    let waiter = std::thread::spawn(move || wait(pid, Duration::MAX));
    let follower = std::thread::spawn({
        let (clscope, trace) = (args.places.clscope()?, trace.clone());
        move || follow(&clscope, &trace, pid)
    });
    let (mut memory, mut largest) = (Vec::new(), 0);
    while !waiter.is_finished() {
        std::thread::sleep(Duration::from_millis(20));
        largest = largest.max(size(&trace));
        memory.extend(resident(Path::new(&format!("/proc/{pid}/status"))));
    }
    let seconds = begin.elapsed().as_secs_f64();
    let panicked = |_| anyhow::anyhow!("a watching thread panicked");
    let status = waiter.join().map_err(panicked)??.status;
    if status != 0 {
        bail!("{program} ended with wait status {status:#x}");
    }
    let tops = follower.join().map_err(panicked)??;
    ensure!(!tops.is_empty(), "{program} ended before `clscope top` was asked: give it more calls");
    let (_, report) = ask(&args.places.clscope()?, &["report"], &trace)?;
    let early = memory.get(memory.len() / 10).copied().unwrap_or(f64::NAN);
    let most = memory.iter().copied().fold(f64::NAN, f64::max);
    let limit = (MAX_SIZE << 20) as f64 / 1e6;
    let trace_most = largest as f64 / 1e6;
    let slowest = tops.iter().copied().fold(0.0, f64::max);
    println!(
        "| {what} | {seconds:.1} | {early:.1} | {most:.1} | {trace_most:.1} | {limit:.1} | {} | {slowest:.1} | {report:.1} |",
        tops.len()
    );
    // Definitions and rings are not under the limit; they are small here.
    if trace_most > limit + 2.0 {
        bail!("the trace grew to {trace_most:.1} MB under a limit of {limit:.1} MB");
    }
    if most > early + 8.0 {
        bail!("memory grew from {early:.1} to {most:.1} MB");
    }
    ensure!(report < REPORT, "report took {report:.1} s of processor time");
    Ok(())
}

/// Asks `clscope top` about a process for as long as it runs. Gives the processor time of each answer, in
/// seconds.
///
/// # Errors
/// If there is no answer, it says that records were lost, or it has no call of a process that still
/// runs.
fn follow(clscope: &Path, trace: &Path, pid: u32) -> Result<Vec<f64>> {
    let process = format!("/proc/{pid}/maps");
    // What has ended has no memory left, also before it is waited for.
    let runs = || std::fs::read(&process).is_ok_and(|maps| !maps.is_empty());
    let mut took = Vec::new();
    loop {
        let end = Instant::now() + BETWEEN;
        while runs() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(50));
        }
        if !runs() {
            return Ok(took);
        }
        let (told, seconds) = ask(clscope, &["top", "--once", "--format", "json"], trace)?;
        let told: serde_json::Value = serde_json::from_str(&told)?;
        let dropped = told.pointer("/totals/dropped").and_then(serde_json::Value::as_u64);
        ensure!(dropped == Some(0), "records were lost: {told}");
        let rate = told.pointer("/totals/calls_per_second").and_then(serde_json::Value::as_f64);
        if runs() {
            ensure!(rate.is_some_and(|rate| rate > 0.0), "top sees no call: {told}");
            took.push(seconds);
        }
    }
}

/// What the command prints about a trace, and the seconds of processor time that it took.
fn ask(clscope: &Path, words: &[&str], trace: &Path) -> Result<(String, f64)> {
    let mut command = Command::new(clscope);
    command.args(words).arg(trace);
    let (Ended { status, cpu, .. }, told, complaints) = output(&mut command)?;
    ensure!(status == 0, "clscope {} failed: {complaints}", words.join(" "));
    Ok((told, cpu.as_secs_f64()))
}

/// Anonymous and file memory of a process, in megabytes. The mapped rings are in it.
fn resident(status: &Path) -> Option<f64> {
    let text = std::fs::read_to_string(status).ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse::<f64>().ok().map(|kib| kib * 1024.0 / 1e6)
}
