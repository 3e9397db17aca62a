//! The process in which `clscope replay` measures one captured launch. Owns nothing but the way to
//! the command that started it; refuses to run without that, and to write anything anywhere.

use anyhow::{Context, Result};
use clscope_capture::system;
use clscope_launch::replay::{Job, job};
use clscope_launch::run::Watch;
use clscope_launch::worker::{Link, Said};
use clscope_microbench::cl::{Device, OpenCl, search};
use clscope_profile::measured::Measured;
use std::cell::Cell;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often it says that it goes on.
const PACE: Duration = Duration::from_millis(200);

/// Measures a launch for the command that started this process.
///
/// # Errors
/// If it was started by something else.
pub fn run() -> Result<ExitCode> {
    let (link, job) = Link::take()?;
    let job = job.replay.context("this process is started by `clscope replay`; start that")?;
    let tell = |what: &Said| link.tell(what);
    let measured = measure(&job, &tell)
        .unwrap_or_else(|error| job::failed(&job.which, &job.device, format!("{error:#}")));
    tell(&Said::Measured(Box::new(measured)));
    tell(&Said::Done(0));
    Ok(ExitCode::SUCCESS)
}

fn measure(job: &Job, tell: &dyn Fn(&Said)) -> Result<Measured> {
    system::confine().context("cannot give up privileges")?;
    let others = search::libraries(&|name| std::env::var_os(name));
    let is_wanted = |all: &[Device]| job::device(all, job).is_ok();
    let all = OpenCl::devices(job.opencl.as_deref(), &others, &is_wanted)
        .context("cannot list OpenCL devices")?;
    let stop = system::interrupt_flag().context("cannot watch for Ctrl-C")?;
    let told = Cell::new(Instant::now());
    let watch = Watch {
        progress: &|at| tell(&Said::At(at.clone())),
        metering: &|_| (),
        stop: &|| {
            if told.get().elapsed() >= PACE {
                told.set(Instant::now());
                tell(&Said::GoesOn);
            }
            stop.load(Ordering::Relaxed)
        },
    };
    Ok(job::measure(&all, job, watch)?)
}
