//! `clscope ctl`: pauses and resumes recording in running processes. Owns options and output;
//! refuses to touch a ring file: [`clscope_capture::control`] does.

use crate::args::choices;
use anyhow::{Context, Result, bail};
use clscope_capture::control::{self, State, apply, flush, rings_in, rings_of, tell_later_ones};
use clscope_io::text::Shown;
use clscope_trace::directory::as_recorded;
use std::io::Write;
use std::path::PathBuf;

choices! {
    /// What to do.
    pub enum Action = control::ControlCommand {
        /// Record from the next OpenCL call on
        Start,
        /// Pass calls on without recording them
        Stop,
        /// Write everything recorded so far to the disk, so that it survives a crash of the machine
        Flush,
        /// Report what is being recorded
        Status,
    }
}

/// Options of `clscope ctl`.
#[derive(Debug, clap::Args)]
#[command(
    before_help = "Examples:
  clscope ctl run1.clscope stop       pauses every process of a trace, and those it has yet to start
  clscope ctl 4711 start              resumes one process
  clscope ctl 4711 flush              what it recorded until now is on the disk when this returns",
    after_help = "A record is readable by others as soon as its call has returned, and outlives the process however that ends: `flush` is not needed to read the trace of a running process. What it adds is safety from the end of the machine (fsync of every file). Device times are recorded when the application has waited for its commands; flush does not wait for them."
)]
pub struct Args {
    /// A trace directory, or the id of a process that records
    #[arg(value_name = "TRACE|PID")]
    target: PathBuf,
    /// What to do
    #[arg(value_enum)]
    command: Action,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let target = as_recorded(args.target.clone());
    let pid = target.to_str().and_then(|t| t.parse::<u32>().ok()).filter(|_| !target.exists());
    let rings = match pid {
        Some(pid) => rings_of(pid)?,
        None => {
            // A wrong name is reported before anything is written there.
            rings_in(&target)?;
            // Processes that come while this runs either read what they begin with, or have their
            // ring in the list made now.
            if matches!(args.command, Action::Start | Action::Stop) {
                tell_later_ones(&target, args.command.into())?;
            }
            rings_in(&target)?
        }
    };
    let mut alive = 0;
    let mut out = crate::output::prose();
    for ring in &rings {
        let state = apply(ring, args.command.into())
            .with_context(|| format!("cannot control the process of {}", ring.display()))?;
        alive += usize::from(state != State::Ended);
        let name = ring.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
        let flushed = if args.command == Action::Flush {
            format!(", {}", flush(ring)?)
        } else {
            String::new()
        };
        writeln!(out, "{}: {}{flushed}", Shown(name), state.name())?;
        out.flush()?;
    }
    if alive == 0 && matches!(args.command, Action::Start | Action::Stop) {
        bail!("no process of {} is running: there is nothing to start or stop", target.display());
    }
    Ok(())
}
