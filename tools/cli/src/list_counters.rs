//! `clscope list-counters`: which counters this machine has, and what each family needs. Refuses to look: [`clscope_capture::counters::list`] does.

use crate::output::{say, show_text};
use anyhow::{Context, Result};
use clap::ValueEnum;
use clscope_capture::counters::list::{Wanted, list};
use std::path::PathBuf;

/// Options of `clscope list-counters`.
#[derive(Debug, clap::Args)]
#[command(before_help = "Examples:
  clscope list-counters                        what there is, and what is missing
  clscope oa sets core                         figures of a metric set
  clscope list-counters oa --metrics ~/mesa/src/intel/perf
  clscope record --counters oa:ComputeBasic -- ./app")]
pub struct Args {
    /// Families to list [default: all]
    #[arg(value_enum)]
    family: Vec<Family>,
    /// Directory (or file) with XML of metric sets [default: what is installed]
    #[arg(long, value_name = "DIR")]
    metrics: Option<PathBuf>,
    /// Look for GPUs below this directory (its sys and dev) instead of the system's
    #[arg(long, value_name = "DIR")]
    sysfs_root: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Family {
    /// NVIDIA GPUs from Hopper on, through NVML
    Gpm,
    /// Intel GPUs, through i915 and xe
    Oa,
    /// perf events of CPU devices
    Perf,
}

/// Runs the command.
///
/// # Errors
/// If the metric sets cannot be read.
pub fn run(args: &Args) -> Result<()> {
    let wants = |family| args.family.is_empty() || args.family.contains(&family);
    let wanted = Wanted {
        gpm: wants(Family::Gpm),
        oa: wants(Family::Oa),
        perf: wants(Family::Perf),
        metrics: args.metrics.as_deref(),
        sysfs_root: args.sysfs_root.as_deref(),
    };
    show_text(&list(&wanted, |text| say(text))?).context("could not write the list")
}
