//! The process in which a captured launch runs. Owns what it writes and its exit code; refuses to
//! run without the command that started it.

use super::{Args, DIFFERS, ENDED};
use crate::output::say;
use anyhow::{Context, Result, bail};
use clscope_capture::system;
use clscope_launch::metering::Metering;
use clscope_launch::progress::Ended;
use clscope_launch::run::{RunError, Watch};
use clscope_launch::stage::StageError;
use clscope_launch::worker::{Link, Said};
use clscope_launch::{Capture, device_for, run as run_capture};
use clscope_microbench::cl::{ClError, Device, OpenCl, choose, search};
use std::cell::Cell;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The first argument of the process; those of `clscope kernel` follow.
pub const SUBCOMMAND: &str = "__kernel";
/// How often it says that it goes on.
const PACE: Duration = Duration::from_millis(200);
/// Runs a launch for the command that started this process.
///
/// # Errors
/// If it was started by something else, or the launch cannot be run.
pub fn run(args: &Args) -> Result<ExitCode> {
    let (link, job) = Link::take()?;
    let tell = |what: &Said| link.tell(what);
    let code = work(args, job.ended, &tell).unwrap_or_else(|error| {
        say!("{error:#}");
        1
    });
    tell(&Said::Done(code));
    Ok(ExitCode::from(code))
}

fn work(args: &Args, ended: Vec<Ended>, tell: &dyn Fn(&Said)) -> Result<u8> {
    let capture = Capture::open(&args.capture)?;
    let wanted = args.wanted(&capture, ended)?;
    let others = search::libraries(&|name| std::env::var_os(name));
    let of = &capture.launch;
    let is_wanted = |all: &[Device]| match &args.device {
        Some(wanted) => choose(all, Some(wanted)).is_ok(),
        None => all.iter().any(|device| {
            device.facts.name == of.device.name && device.facts.platform == of.platform.name
        }),
    };
    let all = OpenCl::devices(args.opencl.as_deref(), &others, &is_wanted)
        .context("cannot list OpenCL devices; `clscope doctor` looks closer")?;
    let device = device_for(&all, &capture.launch, args.device.as_deref())?;
    let stop = system::interrupt_flag().context("cannot watch for Ctrl-C")?;
    let say_so = |text: &str| say(text);
    let metering = Metering::new(std::io::stderr().is_terminal(), &say_so);
    let told = Cell::new(Instant::now());
    let watch = Watch {
        progress: &|at| tell(&Said::At(at.clone())),
        metering: &|longest| metering.begins(longest),
        stop: &|| {
            metering.goes_on();
            if told.get().elapsed() >= PACE {
                told.set(Instant::now());
                tell(&Said::GoesOn);
            }
            stop.load(Ordering::Relaxed)
        },
    };
    let document = match run_capture(device, &capture, &wanted, watch) {
        Ok(document) => document,
        Err(RunError::Interrupted) => {
            say("interrupted: nothing was measured to its end");
            return Ok(130);
        }
        Err(error) => {
            if let RunError::Stage(StageError::Cl(ClError::Build { log, .. })) = &error {
                log.lines().for_each(say);
            }
            return Err(error).with_context(|| {
                format!("cannot run {} on {}", capture.folder.display(), device.facts.name)
            });
        }
    };
    if args.version.fail_on.is_some() && document.changed.is_none() && document.ended.is_empty() {
        bail!(
            "--fail-on needs the captured version beside the other, and its program cannot be had on {}: leave it out",
            device.facts.name
        );
    }
    super::write(args, &document)?;
    let is_bad = document.is_bad(args.version.fail_on);
    let has_ended = !document.ended.is_empty() || !document.results().overruns.is_empty();
    Ok(match (has_ended, is_bad) {
        (true, _) => ENDED,
        (false, true) => DIFFERS,
        (false, false) => 0,
    })
}
