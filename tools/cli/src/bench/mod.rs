//! `clscope bench`: what a device can do at most, and what it draws without work. Owns the command
//! line; refuses to measure and to write files: that is `clscope-microbench`.

mod model;

use crate::args::TableFormat;
use crate::output::show;
use anyhow::{Context, Result, bail};
use clscope_capture::system;
use clscope_microbench::cl::{OpenCl, list};
use clscope_screen::args::MeteringArgs;
use clscope_text::bench::devices;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `clscope bench`.
#[derive(Debug, clap::Args)]
#[command(
    before_help = "Examples:
  clscope bench devices           the OpenCL devices by number
  clscope bench model             what this device can do at most, for explain and roofline
  clscope bench model -d 1        of the second device
  clscope bench model --show      what is kept of it
  clscope bench idle              watts and clocks after work, and how long they last",
    after_help = "Suites of microbenchmarks, sweeps and experiments of documents: `clscope-lab`, a program of its own.
To measure an application of your own, use `clscope record -- APP`: it times and meters unmodified programs."
)]
pub struct Args {
    /// What is measured
    #[arg(value_enum, value_name = "WHAT")]
    what: What,
    /// Device: its number in `clscope bench devices`, or a part of its name
    #[arg(short, long, value_name = "DEVICE")]
    device: Option<String>,
    /// idle: seconds for which it is watched after each load [default: 60]
    #[arg(long, value_name = "SECONDS")]
    window: Option<f64>,
    /// model: directory for device.json and the results that it is made of
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Tables, or the file of parameters on standard output
    #[arg(long, value_enum, default_value_t = TableFormat::Table)]
    format: TableFormat,
    /// Print no tables
    #[arg(short, long, conflicts_with = "format")]
    quiet: bool,
    /// Sensors of power to read
    #[arg(long, value_enum, default_value_t = Sensors::Auto, value_name = "WHICH")]
    sensors: Sensors,
    #[command(flatten)]
    metering: MeteringArgs,
    #[command(flatten)]
    model: model::ModelArgs,
    /// The OpenCL library to open
    #[arg(long, value_name = "PATH", hide_short_help = true)]
    opencl: Option<String>,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// Nothing: the OpenCL devices are listed
    Devices,
    /// The parameters of a device, kept for `explain`
    Model,
    /// What it draws without work
    Idle,
}

/// Which sensors are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Sensors {
    /// Whatever works
    Auto,
    /// None
    Off,
}

impl Args {
    fn is_json(&self) -> bool {
        self.format == TableFormat::Json
    }

    fn metering(&self) -> clscope_microbench::power::Metering {
        self.metering.metering(self.sensors == Sensors::Off)
    }
}

/// Runs the subcommand.
///
/// # Errors
/// Where no device can be opened, or a file cannot be read or written.
pub fn run(args: &Args) -> Result<ExitCode> {
    // The signal would leave the half of a file.
    system::fail_beyond_file_size();
    if let (Sensors::Off, Some(option)) = (args.sensors, args.metering.given()) {
        bail!("{option} reads a sensor, which --sensors off forbids: leave one of them out");
    }
    let of_model = args.model.given().or(args.output.is_some().then_some("--output"));
    if let (What::Devices | What::Idle, Some(option)) = (args.what, of_model) {
        bail!("{option} is an option of `clscope bench model`");
    }
    if args.window.is_some() && args.what != What::Idle {
        bail!("--window is an option of `clscope bench idle`");
    }
    match args.what {
        What::Model => model::run(args),
        What::Idle => model::idle(args),
        What::Devices => {
            let opencl = OpenCl::open(args.opencl.as_deref())?;
            let all = list(&opencl)
                .context("cannot list OpenCL devices; `clscope doctor` looks closer")?;
            show(|out| devices::devices(out, &all))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
