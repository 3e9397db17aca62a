//! `cost`: the options of all cost tables and their order.
#![forbid(unsafe_code)]

use crate::process::{Places, Runner, Way};
use crate::{apps, cheap, enqueue, load};
use anyhow::Result;
use clap::ValueEnum;

/// Every device-timing method of the recorder.
const METHODS: [&str; 6] = ["off", "sample", "auto", "event", "callback", "sync"];

/// Options of `cost`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  sh tests/fixtures/build.sh /tmp/fixtures cheap_calls enqueue_bench fake
  OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd clscope-bench cost --fixtures /tmp/fixtures --app 'clpeak=clpeak --compute-sp'")]
pub struct Args {
    #[command(flatten)]
    pub places: Places,
    /// Tables to make
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Section::Cheap, Section::Launches, Section::Stream, Section::Load, Section::Apps])]
    pub section: Vec<Section>,
    /// Pairs of runs, bare and recorded in turns
    #[arg(long, default_value_t = 9)]
    pub pairs: usize,
    /// Threads
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
    pub threads: Vec<u32>,
    /// Cheap calls of each kind per run and thread
    #[arg(long, default_value_t = 1_000_000)]
    pub calls: u64,
    /// Launches of each mode per run and thread
    #[arg(long, default_value_t = 50_000)]
    pub launches: u64,
    /// Rounds of the launched kernel's loop, 0 for a kernel that does nothing
    #[arg(long, default_value_t = 0)]
    pub spin: u64,
    /// Device-timing methods
    #[arg(long, value_delimiter = ',', default_values_t = METHODS.map(str::to_owned))]
    pub methods: Vec<String>,
    /// Measure launches also with their places recorded: frames of each
    #[arg(long, value_delimiter = ',', value_name = "FRAMES")]
    pub call_sites: Vec<u8>,
    /// A whole application to run, a line for the shell; may be given several times
    #[arg(long, value_name = "NAME=COMMAND")]
    pub app: Vec<String>,
}

/// A table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Section {
    /// Cheap calls.
    Cheap,
    /// Launches, and bytes.
    Launches,
    /// A stream of launches, and how much slower it becomes.
    Stream,
    /// Size and load time.
    Load,
    /// Whole applications.
    Apps,
}

impl Args {
    /// What is measured in turns in the tables of launches, with its name there: each method, and
    /// each with the places of launches.
    pub fn variants(&self) -> Vec<(String, Runner<'_>)> {
        let mut out = Vec::new();
        for method in &self.methods {
            let runner = || Runner::new(&self.places, Way::Preload).method(method);
            out.push((method.clone(), runner()));
            for frames in &self.call_sites {
                let mut runner = runner();
                let name = clscope_trace::variables::CALL_SITES.to_owned();
                runner.settings.push((name, frames.to_string()));
                out.push((format!("{method}, call sites of {frames}"), runner));
            }
        }
        out
    }
}

/// Makes the tables.
///
/// # Errors
/// If a program is missing or fails.
pub fn run(args: &Args) -> Result<()> {
    for section in &args.section {
        match section {
            Section::Cheap => cheap::run(args)?,
            Section::Launches => enqueue::run(args)?,
            Section::Stream => enqueue::stream(args)?,
            Section::Load => load::run(args)?,
            Section::Apps => apps::run(args)?,
        }
    }
    Ok(())
}
