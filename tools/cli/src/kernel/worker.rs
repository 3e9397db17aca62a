//! The process in which a captured launch runs. Its drivers, and kernels that reach where they must
//! not, may end it without a word: the command that started it tells. Owns what the two say to each
//! other; refuses to run without the other.
#![forbid(unsafe_code)]

use super::{Args, DIFFERS, ENDED, metering::Metering};
use crate::output::say;
use anyhow::{Context, Result, bail};
use clscope_capture::system;
use clscope_launch::progress::{At, Ended};
use clscope_launch::run::{RunError, Watch};
use clscope_launch::stage::StageError;
use clscope_launch::{Capture, run as run_capture};
use clscope_microbench::cl::{ClError, OpenCl, list as devices};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The first argument of the process; those of `clscope kernel` follow. Its standard input is one end
/// of a pair of sockets.
pub const SUBCOMMAND: &str = "__kernel";
/// How often it says that it goes on.
const PACE: Duration = Duration::from_millis(200);
/// Most bytes of a line that one says to the other.
pub const LINE: u64 = 1 << 16;

/// What the process is to do, beside its arguments: a line.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Job {
    /// Versions that ended earlier processes.
    pub ended: Vec<Ended>,
}

/// What it says meanwhile: a line each.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Said {
    /// What it does next.
    At(At),
    /// A launch has ended, and another one is to come.
    GoesOn,
    /// It has written all that it writes, and ends with this code.
    Done(u8),
}

/// Runs a launch for the command that started this process.
///
/// # Errors
/// If it was started by something else, or the launch cannot be run.
pub fn run(args: &Args) -> Result<ExitCode> {
    let stdin = std::io::stdin().as_fd().try_clone_to_owned();
    let other = UnixStream::from(stdin.context("cannot reach the command that started this")?);
    let mut line = String::new();
    let mut from = BufReader::new(other.try_clone()?);
    const ALONE: &str = "this process is started by `clscope kernel`; start that instead";
    from.by_ref().take(LINE).read_line(&mut line).context(ALONE)?;
    let job: Job = serde_json::from_str(&line).context(ALONE)?;
    // Without the other there is nobody who would end a launch that does not end.
    system::without_signals(|| {
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut from, &mut std::io::sink());
            system::die_by(libc::SIGKILL);
        })
    });
    let tell = |what: &Said| {
        let mut line = serde_json::to_vec(what).unwrap_or_default();
        line.push(b'\n');
        // Where the other is gone, so is this soon.
        let _ = (&other).write_all(&line);
    };
    let code = work(args, job.ended, &tell).unwrap_or_else(|error| {
        say(format_args!("{error:#}"));
        1
    });
    tell(&Said::Done(code));
    Ok(ExitCode::from(code))
}

fn work(args: &Args, ended: Vec<Ended>, tell: &dyn Fn(&Said)) -> Result<u8> {
    let capture = Capture::open(&args.capture)?;
    let wanted = args.wanted(&capture, ended)?;
    let opencl = OpenCl::open(args.opencl.as_deref())?;
    let all =
        devices(&opencl).context("cannot list OpenCL devices; `clscope doctor` looks closer")?;
    let device = super::device_for(&all, &capture, args.device.as_deref())?;
    let stop = system::interrupt_flag().context("cannot watch for Ctrl-C")?;
    let metering = Metering::new(std::io::stderr().is_terminal());
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
    if args.version.fail_over.is_some() && document.changed.is_none() && document.ended.is_empty() {
        bail!(
            "--fail-over needs the captured version beside the other, and its program cannot be had on {}: leave it out",
            device.facts.name
        );
    }
    super::write(args, &document)?;
    let is_bad = super::is_bad(&document, args.version.fail_over);
    let has_ended = !document.ended.is_empty() || !document.results().overruns.is_empty();
    Ok(match (has_ended, is_bad) {
        (true, _) => ENDED,
        (false, true) => DIFFERS,
        (false, false) => 0,
    })
}
