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
    /// In the stream, the application asks for an event of every launch
    #[arg(long)]
    pub asks: bool,
    /// Measure launches also with their places recorded: frames of each
    #[arg(long, value_delimiter = ',', value_name = "FRAMES")]
    pub call_sites: Vec<u8>,
    /// A second recorder, measured in turns with the first in the tables of launches
    #[arg(long, value_name = "FILE")]
    pub other: Option<std::path::PathBuf>,
    /// Measure the layer too; the loader must know layers
    #[arg(long)]
    pub layer: bool,
    /// Count instructions as well, with valgrind
    #[arg(long)]
    pub callgrind: bool,
    /// Stop after the pair that ends so many seconds behind an application's first run
    #[arg(long, value_name = "SECONDS", default_value_t = u64::MAX)]
    pub limit: u64,
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

/// What is measured in turns in the tables of launches.
pub struct Variant {
    /// Its name there.
    pub label: String,
    method: String,
    places: Places,
    frames: Option<u8>,
}

impl Variant {
    /// Runs the recorder in this way.
    pub fn runner(&self) -> Runner<'_> {
        let mut runner = Runner::new(&self.places, Way::Preload).method(&self.method);
        let frames = self
            .frames
            .map(|frames| (clscope_trace::variables::CALL_SITES.to_owned(), frames.to_string()));
        runner.settings.extend(frames);
        runner
    }
}

impl Args {
    /// Each method, with the places of launches, and with the other recorder.
    pub fn variants(&self) -> Vec<Variant> {
        let mut out = Vec::new();
        let places = |recorder: &std::path::PathBuf| Places {
            recorder: Some(recorder.clone()),
            ..self.places.clone()
        };
        for method in &self.methods {
            let plain = |label: String, places, frames| Variant {
                label,
                method: method.clone(),
                places,
                frames,
            };
            out.push(plain(method.clone(), self.places.clone(), None));
            let sites = self.call_sites.iter();
            out.extend(sites.map(|n| {
                plain(format!("{method}, call sites of {n}"), self.places.clone(), Some(*n))
            }));
            out.extend(
                self.other
                    .iter()
                    .map(|other| plain(format!("{method} (other)"), places(other), None)),
            );
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
