//! `clscope-lab check`: what the parameters that are kept of a device predict of kernels. Owns what is
//! said; refuses to compare: [`clscope_lab::check`] does.

use anyhow::{Context, Result};
use clscope_lab::check;
use clscope_microbench::cl::choose;
use clscope_microbench::files::{make, whole};
use clscope_models::kept;
use clscope_screen::measuring::Progress;
use clscope_screen::output::say;
use clscope_screen::places;
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of `clscope-lab check`.
#[derive(Debug, clap::Args)]
pub struct CheckArgs {
    /// Device: its number in `clscope bench devices`, or a part of its name
    #[arg(short, long, value_name = "DEVICE")]
    device: Option<String>,
    /// Directory for check.csv, which has every kernel with its bounds
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// Where no device can be opened, nothing is kept of it, or a file cannot be written.
pub fn run(args: &CheckArgs) -> Result<ExitCode> {
    let all = super::devices(None)?;
    let device = choose(&all, args.device.as_deref())?;
    let kept = places::path(&device.facts.name, &device.facts.platform);
    let path = kept.filter(|path| path.exists());
    let path = path.context("no parameters of it are kept: `clscope bench model` measures them")?;
    let parameters = kept::read(&path)?;
    if let Some(folder) = &args.output {
        make(folder)?;
    }
    let mut progress = Progress::new()?;
    let rows = check::check(device, &parameters, places::cache("bench"), &mut progress)
        .context("cannot use the device")?;
    progress.bar.finish_and_clear();
    if let Some(folder) = &args.output {
        whole(&folder.join("check.csv"), |out| check::write_csv(&rows, out))?;
    }
    match check::Summary::of_rows(&rows) {
        Some(s) => say(format_args!(
            "time model on {} kernels: median error {:.0} %, 90th percentile {:.0} %; {} ran faster than a certain bound by more than 5 %",
            s.kernels,
            s.median * 100.0,
            s.p90 * 100.0,
            s.beyond
        )),
        None => {
            say("the time model was not compared: no kernel's instructions could be counted here")
        }
    }
    Ok(ExitCode::SUCCESS)
}
