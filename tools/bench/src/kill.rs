//! `kill`: recorded applications killed at random moments. The application counts its completed
//! calls in a shared file; every one of them must be in the trace, and the trace must be readable.
//! Fails on the first figure that is not zero.

use crate::folder;
use crate::process::{Places, Runner, Way, wait};
use crate::random::Random;
use anyhow::{Context, Result, bail};
use clscope_analysis::Trace;
use clscope_analysis::event::{Event, Kept};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Latest moment after the first recorded call, in microseconds.
const WITHIN: u64 = 20_000;

/// Options of `kill`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub places: Places,
    /// Processes to kill
    #[arg(long, default_value_t = 1000)]
    pub runs: u64,
    /// Names this series of moments and signals
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Have this `clscope` read every tenth trace too
    #[arg(long, value_name = "FILE")]
    pub command: Option<PathBuf>,
}

const SIGNALS: [(i32, &str); 3] =
    [(libc::SIGKILL, "SIGKILL"), (libc::SIGSEGV, "SIGSEGV"), (libc::SIGTERM, "SIGTERM")];

/// What a thread had completed: clSetKernelArg calls, launches, clFinish calls.
type Counts = [u64; 3];

#[derive(Debug, Default)]
struct Totals {
    runs: u64,
    before_the_first_call: u64,
    completed: u64,
    recorded: u64,
    lost: u64,
    too_many: u64,
    damaged: u64,
    unreadable: u64,
    in_call: u64,
}

/// Kills, reads, prints.
///
/// # Errors
/// If anything completed is missing from a trace, or a trace cannot be read.
pub fn run(args: &Args) -> Result<()> {
    let mut random = Random(args.seed);
    let mut by_signal: BTreeMap<&str, Totals> = BTreeMap::new();
    let mut failed = Vec::new();
    for number in 0..args.runs {
        let (signal, name) = SIGNALS[random.below(SIGNALS.len())];
        let scratch = args.places.scratch()?;
        let moment = Duration::from_micros(random.next() % WITHIN);
        // Every eighth is hit while it starts: the moment counts from the process's beginning.
        let early = random.below(8) == 0;
        let counters = killed(args, scratch.path(), signal, moment, early)?;
        let totals = by_signal.entry(name).or_default();
        let what = judge(&scratch.path().join("t.clscope"), &counters, totals);
        let mut complaints = what.err().map(|e| format!("{e:#}")).into_iter().collect::<Vec<_>>();
        if let Some(command) =
            args.command.as_ref().filter(|_| number % 10 == 0 && !counters.is_empty())
        {
            let output = Command::new(command)
                .args(["report", "--format", "json"])
                .arg(scratch.path().join("t.clscope"))
                .output()?;
            if !output.status.success() {
                totals.unreadable += 1;
                complaints
                    .push(format!("clscope report: {}", String::from_utf8_lossy(&output.stderr)));
            }
        }
        if !complaints.is_empty() && failed.len() < 10 {
            failed.push(format!(
                "run {number} ({name}): {}; kept in {}",
                complaints.join("; "),
                scratch.keep().display()
            ));
        }
    }
    println!(
        "| signal | runs | killed before the first call | calls completed | in traces | lost | invented | damaged blocks | unreadable | died inside a call |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    for (name, t) in &by_signal {
        println!(
            "| {name} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            t.runs,
            t.before_the_first_call,
            t.completed,
            t.recorded,
            t.lost,
            t.too_many,
            t.damaged,
            t.unreadable,
            t.in_call
        );
    }
    if !failed.is_empty() {
        bail!("{}", failed.join("\n"));
    }
    Ok(())
}

/// Starts the application, kills it, and gives the counters by thread id; none if it had made no
/// counted call.
fn killed(
    args: &Args,
    scratch: &Path,
    signal: i32,
    moment: Duration,
    early: bool,
) -> Result<BTreeMap<u64, Counts>> {
    let counters = scratch.join("counters");
    let mut command = Command::new(args.places.fixture("counted")?);
    command
        .arg(&counters)
        .arg("2")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Runner::new(&args.places, Way::Preload).prepare(&mut command, &scratch.join("t.clscope"))?;
    let child = command.spawn().context("could not start the application")?;
    let pid = child.id() as libc::pid_t;
    let begin = std::time::Instant::now();
    while !early && read(&counters).is_empty() {
        if begin.elapsed() > Duration::from_secs(30) {
            wait(child.id(), Duration::ZERO)?;
            bail!("the application made no call within 30 s");
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    std::thread::sleep(moment);
    // SAFETY: our own child, not waited for yet.
    unsafe { libc::kill(pid, signal) };
    let status = wait(child.id(), Duration::MAX)?.status;
    if libc::WTERMSIG(status) != signal || !libc::WIFSIGNALED(status) {
        bail!("the application ended with wait status {status:#x} instead of signal {signal}");
    }
    Ok(read(&counters))
}

fn read(counters: &Path) -> BTreeMap<u64, Counts> {
    let bytes = std::fs::read(counters).unwrap_or_default();
    let words: Vec<u64> = bytes
        .chunks_exact(8)
        .filter_map(|c| Some(u64::from_le_bytes(c.try_into().ok()?)))
        .collect();
    let slots = words.chunks_exact(4).filter(|s| s[0] != 0 && s[1] != 0);
    slots.map(|s| (s[0], [s[1], s[2], s[3]])).collect()
}

fn judge(trace: &Path, counters: &BTreeMap<u64, Counts>, totals: &mut Totals) -> Result<()> {
    totals.runs += 1;
    if counters.is_empty() {
        totals.before_the_first_call += 1;
        return Ok(());
    }
    let files = folder::read(trace)?;
    let trace = Trace::open(folder::processes(&files));
    let Some(process) = trace.processes.first() else {
        totals.unreadable += 1;
        bail!("the trace cannot be opened: {:?}", trace.issues);
    };
    let id = |name: &str| process.definitions.functions().find(|f| f.name == name).map(|f| f.id);
    let wanted = [id("clSetKernelArg"), id("clEnqueueNDRangeKernel"), id("clFinish")];
    let mut found: BTreeMap<u64, Counts> = BTreeMap::new();
    let mut events = trace.events(None);
    for event in events.by_ref() {
        match event {
            Event::Call(call) => {
                let Some(at) = wanted.iter().position(|w| *w == Some(call.function)) else {
                    continue;
                };
                // The main thread sets arguments too, and is in no counter.
                let thread =
                    process.definitions.threads.get(&call.thread.0).map_or(0, |t| u64::from(t.tid));
                if at != 1 || matches!(call.kept, Kept::Enqueue(_)) {
                    found.entry(thread).or_default()[at] += call.count();
                }
            }
            Event::InCall { .. } => totals.in_call += 1,
            Event::Command(_) | Event::Mark { .. } => {}
        }
    }
    let damaged: u64 = events.tally().iter().map(|t| t.damaged_blocks).sum();
    totals.damaged += damaged;
    let (mut lost, mut invented) = (0, 0);
    for (thread, counted) in counters {
        let recorded = found.get(thread).copied().unwrap_or_default();
        for (counted, recorded) in counted.iter().zip(recorded) {
            totals.completed += counted;
            totals.recorded += recorded;
            lost += counted.saturating_sub(recorded);
            // A call may have been recorded and not counted yet.
            invented += recorded.saturating_sub(counted + 1);
        }
    }
    totals.lost += lost;
    totals.too_many += invented;
    if lost + invented + damaged > 0 {
        bail!(
            "{lost} completed calls lost, {invented} invented, {damaged} damaged blocks ({counters:?} counted, {found:?} recorded)"
        );
    }
    Ok(())
}
