//! `stress`: recorded applications that are disturbed at random, for as long as asked: cancelled
//! threads, forks, raw clones, signals whose handlers call OpenCL or leave calls by `siglongjmp`,
//! limits of file sizes, kills, thousands of threads, calls by the hundred million. Each ends as it
//! does bare, within its time, and what it completed is in its trace. Fails on the first that does
//! not, and keeps its trace. A seed names the series.
#![forbid(unsafe_code)]

use crate::folder;
use crate::process::{self, Ended, Places, Runner, Way};
use crate::random::Random;
use anyhow::{Context, Result, bail, ensure};
use clscope_analysis::Trace;
use clscope_analysis::event::{Event, Mark};
use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Seek};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A run that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(120);
/// Calls of each of four kinds that a run makes by the million.
const CALLS: u64 = 5_000_000;

/// Options of `stress`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub places: Places,
    /// How long, in seconds
    #[arg(long, default_value_t = 900)]
    pub seconds: u64,
    /// Names this series of disturbances
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// A fixture that is disturbed, or disturbs itself.
struct Scenario {
    line: String,
    /// Calls of a function that are in the trace, whatever happens: those that completed, less
    /// those that the trace says were dropped.
    expected: Option<(&'static str, u64)>,
    /// Calls made where the trace keeps only the newest; 0 where it keeps all.
    made: u64,
    /// Needs a library whose objects work in forked children: the fake one.
    fake: bool,
}

fn scenarios() -> Vec<Scenario> {
    let kept =
        |line: &str, expected| Scenario { line: line.to_owned(), expected, made: 0, fake: false };
    let mut out = vec![
        kept("cancel 100 platforms info retain setarg buffer kernel queue userevent event", None),
        kept("cancel 20 context", None),
        kept("discover 4", None),
        kept("alarms mask 300", None),
        kept("alarms jump 200", None),
        kept("fork_apps plain", None),
        kept("fork_apps threads", None),
        kept("fork_apps double", None),
        kept("fork_apps early", None),
        kept("fork_apps vfork", None),
        kept("fork_apps exec", None),
        kept("fork_apps clone", None),
        kept("fork_apps pool 4", None),
        kept("signals xfsz", None),
        kept("lower_limit 20000 20000", None),
        kept("die abort 100", None),
        kept("die kill 100", None),
        kept("die segfault 100 flight", None),
        kept("die _exit 100", None),
        kept("die thread_exit 100", None),
        kept("die inside 10", None),
        kept("threads calls 6 500", None),
        kept("threads shared 6 1000", None),
        kept("threads late 64 10", None),
        kept("threads cheap 4 50000", Some(("clGetKernelInfo", 200_000))),
        kept("threads short 2000 10", Some(("clRetainMemObject", 20_000))),
        kept("polls 200000 3 kill", Some(("clGetEventInfo", 600_000))),
        kept("jump_out same 20 1000", Some(("clRetainMemObject", 20_000))),
        kept("jump_out deeper 20 1000", Some(("clRetainMemObject", 20_000))),
        kept("jump_out stack 20 1000", Some(("clRetainMemObject", 20_000))),
        Scenario {
            line: format!("cheap_calls {} 2", CALLS),
            expected: None,
            made: 2 * 4 * CALLS,
            fake: false,
        },
    ];
    out.extend(
        ["context", "kernel", "userevent"]
            .map(|kind| Scenario { fake: true, ..kept(&format!("fork_held {kind} 40"), None) }),
    );
    out
}

/// How a run ended: its wait status and what it printed, unless that is figures.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Ending {
    status: i32,
    output: Vec<u8>,
}

#[derive(Debug, Default)]
struct Totals {
    runs: u64,
    killed: u64,
    calls: u64,
    dropped: u64,
}

/// Disturbs, compares, prints.
///
/// # Errors
/// On the first run that hangs, ends otherwise than bare, or whose trace lacks a completed call.
pub fn run(args: &Args) -> Result<()> {
    let scenarios = scenarios();
    let mut random = Random(args.seed);
    let mut bare: HashMap<String, Ending> = HashMap::new();
    let mut by_app: BTreeMap<String, Totals> = BTreeMap::new();
    let end = Instant::now() + Duration::from_secs(args.seconds);
    let mut number = 0u64;
    while Instant::now() < end {
        number += 1;
        let scenario = &scenarios[random.below(scenarios.len())];
        // A layer is of a loader; the fake library stands in for that.
        let fake = args.places.fake || scenario.fake;
        let way = if fake || random.below(3) > 0 { Way::Preload } else { Way::Layer };
        let method = ["event", "sample", "auto", "off"][random.below(4)];
        let places = Places { fake, ..args.places.clone() };
        let told =
            || format!("run {number} of seed {}: {way:?} {method} `{}`", args.seed, scenario.line);
        let expected = match bare.get(&scenario.line) {
            Some(known) => known.clone(),
            None => {
                let ending = bare_ending(&places, method, scenario)?;
                bare.insert(scenario.line.clone(), ending.clone());
                ending
            }
        };
        let scratch = places.scratch()?;
        let trace = scratch.path().join("t.clscope");
        let judged = ended(&places, way, method, scenario, Some(&trace))
            .and_then(|ending| judge(scenario, &trace, &expected, &ending));
        let (calls, dropped) = match judged {
            Ok(counted) => counted,
            Err(error) => {
                return Err(error.context(format!(
                    "{}; kept in {}",
                    told(),
                    scratch.keep().display()
                )));
            }
        };
        let app = scenario.line.split(' ').next().unwrap_or_default().to_owned();
        let totals = by_app.entry(app).or_default();
        totals.runs += 1;
        totals.killed += u64::from(libc::WIFSIGNALED(expected.status));
        totals.calls += calls.max(scenario.made);
        totals.dropped += dropped;
    }
    println!("| application | runs | ended by a signal, as bare | calls | dropped, as told |");
    println!("|---|---:|---:|---:|---:|");
    let mut all = Totals::default();
    for (app, t) in &by_app {
        println!("| {app} | {} | {} | {} | {} |", t.runs, t.killed, t.calls, t.dropped);
        all.runs += t.runs;
        all.killed += t.killed;
        all.calls += t.calls;
        all.dropped += t.dropped;
    }
    println!("| all | {} | {} | {} | {} |", all.runs, all.killed, all.calls, all.dropped);
    println!("\nNo run hung or ended otherwise than bare, and no completed call was missing.");
    Ok(())
}

/// Bare runs after which an end by a signal counts as the application's habit.
const BARE_RUNS: usize = 20;

/// How the application ends bare. One that ends by a signal only now and then, by a race of the
/// runtime's own (PoCL's first discovery of devices), is to end well when recorded.
fn bare_ending(places: &Places, method: &str, scenario: &Scenario) -> Result<Ending> {
    let mut last = None;
    for _ in 0..BARE_RUNS {
        let ending = ended(places, Way::Bare, method, scenario, None)?;
        if !libc::WIFSIGNALED(ending.status) {
            return Ok(ending);
        }
        last = Some(ending);
    }
    last.context("no bare run was made")
}

/// Runs a scenario to its end, or to that of the patience.
fn ended(
    places: &Places,
    way: Way,
    method: &str,
    scenario: &Scenario,
    trace: Option<&Path>,
) -> Result<Ending> {
    let mut words = scenario.line.split(' ');
    let program = places.fixture(words.next().unwrap_or_default())?;
    let output = tempfile::tempfile()?;
    let folder = places.scratch()?;
    let mut command = Command::new(program);
    command
        .args(words)
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(Stdio::null());
    let nowhere = folder.path().join("none.clscope");
    let mut runner = Runner::new(places, way).method(method);
    if scenario.made > 0 {
        runner.settings.push((clscope_trace::variables::MAX_SIZE.to_owned(), "64M".to_owned()));
    }
    runner.prepare(&mut command, trace.unwrap_or(&nowhere))?;
    let child = command.spawn().context("could not start the application")?;
    let Ended { status, hung, .. } = process::wait(child.id(), PATIENCE)?;
    ensure!(!hung, "it hung: no end within {} s", PATIENCE.as_secs());
    let mut printed = Vec::new();
    (&output).rewind()?;
    (&output).read_to_end(&mut printed)?;
    // What a benchmark prints are figures.
    let output = if scenario.made > 0 { Vec::new() } else { printed };
    Ok(Ending { status, output })
}

/// Calls in the trace and records dropped, if all is as it must be.
fn judge(
    scenario: &Scenario,
    trace: &Path,
    expected: &Ending,
    ending: &Ending,
) -> Result<(u64, u64)> {
    // A core is dumped or not, as the system likes.
    if ending.status & !0x80 != expected.status & !0x80 {
        bail!("wait status {:#x} instead of {:#x}", ending.status, expected.status);
    }
    if ending.output != expected.output {
        bail!(
            "it printed {:?} instead of {:?}",
            String::from_utf8_lossy(&ending.output),
            String::from_utf8_lossy(&expected.output)
        );
    }
    let files = folder::read(trace)?;
    let trace = Trace::open(folder::processes(&files));
    let mut dropped: u64 = trace.processes.iter().map(|p| p.dropped_untold).sum();
    let (mut calls, mut of_function) = (0, 0);
    let mut events = trace.events(None);
    for event in events.by_ref() {
        match event {
            Event::Call(call) => {
                calls += call.count();
                let name = trace.process(call.process).definitions.function_name(call.function);
                if scenario.expected.is_some_and(|(function, _)| function == name) {
                    of_function += call.count();
                }
            }
            Event::Mark { mark: Mark::Dropped { count, .. }, .. } => dropped += count,
            _ => {}
        }
    }
    let damaged: u64 = events.tally().iter().map(|t| t.damaged_blocks).sum();
    if damaged > 0 {
        bail!("{damaged} damaged blocks");
    }
    if let Some((function, wanted)) = scenario.expected
        && of_function != wanted
    {
        bail!("{of_function} of {wanted} calls of {function} are in the trace, {dropped} dropped");
    }
    Ok((calls, dropped))
}
