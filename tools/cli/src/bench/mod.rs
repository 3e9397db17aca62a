//! `clscope bench`: the microbenchmarks. Owns the command line and the progress bar; refuses to
//! measure and to write files: that is `clscope-microbench`.

mod diff;
mod model;
mod reproduce;

use crate::args::TableFormat;
use crate::output::{say, show, show_json};
use anyhow::{Context, Result, bail};
use clscope_capture::meter::Wanted;
use clscope_capture::system;
use clscope_microbench::bench::Settings;
use clscope_microbench::cl::{OpenCl, choose, list as devices};
use clscope_microbench::files;
use clscope_microbench::power::Metering;
use clscope_microbench::results::{CaseResult, Results, Status};
use clscope_microbench::run::{self, Choice, Watch};
use clscope_microbench::suite::SUITES;
use clscope_microbench::sweep::{Axes, Axis, Sizes};
use clscope_microbench::virus;
use clscope_text::bench::results;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// Arguments of `clscope bench`.
#[derive(Debug, clap::Args)]
#[command(
    before_help = "Examples:
  clscope bench                               the quick choice of every suite on the first GPU
  clscope bench flop power --device 1         two suites on the second device of `bench devices`
  clscope bench 'flop/*fma*vect4'             the cases whose names match
  clscope bench flop/private/float/fma/scalar --sweep blocks,width     one case along two axes
  clscope bench --reproduce 000/fig4.4        an experiment of a document, beside ours
  clscope bench --reproduce 002/fig13.1 --with wl=1024,gs=4    a model of a document with your parameters
  clscope bench model                         what this device can do at most, for explain and roofline
  clscope bench model --show                  what is kept of it
  clscope bench idle                          watts and clocks after work, and how long they last
  clscope bench virus                         the mixture of instructions that draws most power
  clscope bench --full -o results             everything, with plots in the directory `results`
  clscope bench diff monday tuesday           what changed between two results",
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true,
    after_help = "To measure an application of your own, use `clscope record -- APP`: it times and meters unmodified programs."
)]
pub struct Args {
    /// Suites to run, or cases: parts of their names, with `*` for anything in between; all without
    /// any. `--list` names them. `devices`: the
    /// OpenCL devices by number; `model`: the parameters of a device, kept for `explain`; `idle`:
    /// what it draws without work; `virus`: the mixture of instructions that draws most, searched
    /// for a minute
    #[arg(value_name = "SUITE")]
    suites: Vec<String>,
    /// Device: its number in `clscope bench devices`, or a part of its name
    #[arg(short, long, value_name = "DEVICE")]
    device: Option<String>,
    /// List the suites and the cases they would run
    #[arg(short, long)]
    list: bool,
    /// Work-groups: numbers and ranges, such as 1,2,8 or 1..64 or 1..=64:4
    #[arg(long, alias = "global", value_name = "N")]
    blocks: Option<Sizes>,
    /// Work-items of a group: numbers and ranges
    #[arg(long, alias = "local", value_name = "N")]
    tpb: Option<Sizes>,
    /// Run each chosen case along an axis, or two: blocks, tpb, width, precision, alpha, occupancy,
    /// size, lanes, cores, stride, as far as the case has it. Values behind `=`, such as
    /// blocks=1..=64,width=1,4; else those of --blocks and --tpb, or the usual ones of the device
    #[arg(long, value_name = "AXIS[,AXIS]")]
    sweep: Option<Axes>,
    /// Measure experiments of the reference documents again and put their numbers beside ours:
    /// names such as 000/fig4.4, with `*` and `?` for several, or `all`; `list` names them. --sweep
    /// AXIS=VALUES and --iterations replace the values of experiments that have them
    #[arg(long, value_name = "NAME", num_args = 1.., conflicts_with_all = ["suites", "list", "dump_kernel", "quiet", "full"])]
    reproduce: Vec<String>,
    /// Seconds for all experiments together; what does not end in time is named. virus: seconds of
    /// the search [default: 60]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    budget: Option<f64>,
    /// Parameters of an experiment that is a model, instead of the document's: of 002/fig13.1 such
    /// as wl=512,gs=2,I=5e6,F=600e6, of 001/fig7.10 such as n=29,alpha=16; `list` names all
    #[arg(long, value_name = "NAME=VALUE,...")]
    with: Option<With>,
    /// Turns of a kernel's loop [default: as many as last a few milliseconds]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    iterations: Option<u32>,
    /// Launches thrown away before the timed ones [default: 2, and those that are slower]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=100_000))]
    warm_up: Option<u32>,
    /// Seconds for which power is watched [default: 1.2; 4 with --full; idle: 60 after each load]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    window: Option<f64>,
    /// Timed launches of each case [default: 10]
    #[arg(short, long, value_name = "N")]
    repeat: Option<usize>,
    /// Read the device's performance counters (NVIDIA: GPM) while each kernel runs for a second.
    /// Intel's: record a run of this command, `clscope record --counters oa -- clscope bench ...`
    #[arg(long)]
    counters: bool,
    /// All variants and finer sweeps: takes many minutes
    #[arg(long)]
    full: bool,
    /// Directory for results.json, results.csv and plots. They are SVG, and PNG too where clscope was
    /// built with --features png
    #[arg(short = 'o', long, alias = "dump", value_name = "DIR")]
    output: Option<PathBuf>,
    /// Print the kernels' sources and end
    #[arg(long)]
    dump_kernel: bool,
    /// Tables, or results.json on standard output
    #[arg(long, value_enum, default_value_t = TableFormat::Table)]
    format: TableFormat,
    /// Print no tables: for use with --output
    #[arg(short, long, conflicts_with = "format")]
    quiet: bool,
    /// Sensors of power to read
    #[arg(long, value_enum, default_value_t = Sensors::Auto, value_name = "WHICH")]
    sensors: Sensors,
    /// How GPU power is computed: auto, pp1, pkg-pp0, pkg-pp0-dram, nvml, hwmon or meter
    /// [default: auto]
    #[arg(long, value_name = "FORMULA")]
    gpu_power: Option<clscope_sensors::gpu_power::Choice>,
    /// Read an external power meter beside the sensors: a CSV with columns of time and power, which
    /// a logger writes to FILE meanwhile, or which COMMAND prints. A processor or GPU without a sensor
    /// takes it by itself, others with --gpu-power meter
    #[arg(long, value_name = "FILE|COMMAND")]
    meter: Option<String>,
    /// How the meter's table is read, such as power=Watts,zone=+01:00 or place=load: `clscope meter
    /// --help` has all
    #[arg(long, value_name = "KEY=VALUE,...", requires = "meter")]
    meter_format: Option<clscope_sensors::meter::Format>,
    /// Look for sensors below this directory (its sys, dev and proc) instead of the system's
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    sysfs_root: Option<PathBuf>,
    /// Take readings from this file instead of sensors, as if they came now
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    readings: Option<PathBuf>,
    #[command(flatten)]
    model: model::ModelArgs,
    /// The OpenCL library to open
    #[arg(long, value_name = "PATH", hide_short_help = true)]
    opencl: Option<String>,
    #[command(subcommand)]
    of: Option<Of>,
}

/// Which sensors are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Sensors {
    /// Whatever works, in the cases that are about power
    Auto,
    /// Whatever works, in every case that times a kernel
    Always,
    /// None
    Off,
}

impl Args {
    fn is_json(&self) -> bool {
        self.format == TableFormat::Json
    }

    /// An option that reads a sensor, if one was given.
    fn sensor_option(&self) -> Option<&'static str> {
        let given = [
            (self.gpu_power.is_some(), "--gpu-power"),
            (self.meter.is_some(), "--meter"),
            (self.sysfs_root.is_some(), "--sysfs-root"),
            (self.readings.is_some(), "--readings"),
        ];
        given.iter().find(|(given, _)| *given).map(|(_, name)| *name)
    }
}

/// What is done with results that are there already.
#[derive(Debug, clap::Subcommand)]
enum Of {
    /// What changed between results: two devices, drivers or days
    Diff(diff::DiffArgs),
}

impl Progress {
    /// A bar, and the interrupt's flag: what is measured is kept from then on.
    fn new() -> Result<Progress> {
        let stop = system::interrupt_flag().context("cannot watch for Ctrl-C")?;
        let bar = if std::io::stderr().is_terminal() {
            ProgressBar::new(0)
        } else {
            ProgressBar::hidden()
        };
        if let Ok(style) =
            ProgressStyle::with_template("{bar:24} {pos}/{len} {elapsed} (left: {eta}) {msg}")
        {
            bar.set_style(style);
        }
        Ok(Progress { bar, stop })
    }
}

struct Progress {
    bar: ProgressBar,
    /// Set by the first interrupt; a second one ends the program at once.
    stop: &'static AtomicBool,
}

impl Watch for Progress {
    fn begin(&mut self, id: &str, done: usize, total: usize) {
        self.bar.set_length(total as u64);
        self.bar.set_position(done as u64);
        self.bar.set_message(id.to_owned());
    }
    fn end(&mut self, result: &CaseResult) {
        if matches!(result.status, Status::Wrong | Status::Failed) {
            let reason = result.reason.as_deref().unwrap_or("no reason given");
            self.bar.suspend(|| say(format_args!("{}: {reason}", result.id)));
        }
    }
    fn stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Names with numbers.
#[derive(Clone, Debug)]
struct With(Vec<(String, f64)>);

impl std::str::FromStr for With {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let one = |word: &str| {
            let (name, value) = word.split_once('=')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        let one = |word| one(word).ok_or_else(|| format!("`{word}` is no NAME=NUMBER"));
        text.split(',').map(one).collect::<Result<_, _>>().map(With)
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|s| (1e-3..=86_400.0).contains(s));
    number.ok_or_else(|| format!("`{text}` is no number of seconds from 0.001 to 86400"))
}

/// Several sizes are a sweep, and said to be one: no case takes the last of them in silence.
fn several(args: &Args) -> Result<()> {
    for (option, sizes, axis) in
        [("--blocks", &args.blocks, Axis::Blocks), ("--tpb", &args.tpb, Axis::Tpb)]
    {
        let swept = args.sweep.iter().flat_map(|a| &a.0).any(|a| a.axis == axis);
        let many = sizes.as_ref().is_some_and(|s| s.0.len() > 1);
        if many && !swept {
            bail!(
                "{option} names several sizes, and a case runs at one: add --sweep {}, or name one",
                axis.name()
            );
        }
    }
    Ok(())
}

/// Says so where counters were asked for and no case has any.
fn counted<'r>(results: impl IntoIterator<Item = &'r Results>) {
    let mut figures = results.into_iter().flat_map(|r| &r.cases).flat_map(|c| &c.figures);
    if !figures.any(|f| f.name.starts_with("counter/")) {
        say(
            "--counters: no counter of this device was read; `clscope list-counters` names those there are",
        );
    }
}

/// Timed launches of a case.
const REPEAT: usize = 10;

/// An option of the suites that `model` and `idle` have no use for, if one was given.
fn idle_options(args: &Args, suite: &str) -> Option<&'static str> {
    let given = [
        (args.list, "--list"),
        (args.blocks.is_some(), "--blocks"),
        (args.tpb.is_some(), "--tpb"),
        (args.iterations.is_some(), "--iterations"),
        (args.warm_up.is_some(), "--warm-up"),
        (args.window.is_some() && suite != "idle", "--window"),
        (args.sensors == Sensors::Always, "--sensors always"),
        (args.repeat.is_some(), "--repeat"),
        (args.counters, "--counters"),
        (args.full, "--full"),
    ];
    given.iter().find(|(given, _)| *given).map(|(_, name)| *name)
}

/// What the options say of launches, windows and checks.
fn settings(args: &Args) -> Settings {
    Settings {
        full: args.full,
        blocks: args.blocks.clone().map(|s| s.0).unwrap_or_default(),
        tpb: args.tpb.clone().map(|s| s.0).unwrap_or_default(),
        iterations: args.iterations,
        warm_up: args.warm_up.map(|n| n as usize),
        window_ns: args.window.map(|s| (s * 1e9) as u64),
        power: args.sensors == Sensors::Always,
        repeat: args.repeat.unwrap_or(REPEAT).max(1),
        counters: args.counters,
        cache: crate::parameters::cache("bench"),
        ..Settings::default()
    }
}

/// Which sensors are read.
fn metering(args: &Args) -> Metering {
    Metering {
        off: args.sensors == Sensors::Off,
        root: args.sysfs_root.clone(),
        readings: args.readings.clone(),
        formula: args.gpu_power.unwrap_or_default(),
        meter: args.meter.as_ref().map(|what| Wanted {
            what: what.clone(),
            format: args.meter_format.clone().unwrap_or_default(),
        }),
    }
}

/// Runs the subcommand. The exit code is a failure where the device computed wrong results or
/// OpenCL failed.
///
/// # Errors
/// Where no device can be opened, an argument names nothing, or results cannot be written.
pub fn run(args: &Args) -> Result<ExitCode> {
    // The signal would leave the half of a file.
    system::fail_beyond_file_size();
    if let Some(Of::Diff(of)) = &args.of {
        return diff::run(of);
    }
    if args.dump_kernel {
        show(results::kernels)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let (Sensors::Off, Some(option)) = (args.sensors, args.sensor_option()) {
        bail!("{option} reads a sensor, which --sensors off forbids: leave one of them out");
    }
    if !args.reproduce.is_empty() {
        return reproduce::run(args, &args.reproduce);
    }
    if args.with.is_some() {
        bail!("--with is an option of `clscope bench --reproduce`");
    }
    let is_virus = args.suites == ["virus"];
    if args.budget.is_some() && !is_virus {
        bail!("--budget is an option of `clscope bench --reproduce` and of `clscope bench virus`");
    }
    let is_off = args.sensors == Sensors::Off;
    if is_virus && (args.sweep.is_some() || args.list || is_off) {
        bail!(
            "`clscope bench virus` chooses its mixtures by a sensor: it takes no --sweep, --list and --sensors off"
        );
    }
    let by_itself = |s: &String| s == "model" || s == "idle";
    if args.sweep.is_some() && args.suites.iter().any(by_itself) {
        bail!(
            "`model` and `idle` have no axes: --sweep takes cases that `clscope bench --list --full` names"
        );
    }
    if let [only] = args.suites.as_slice()
        && by_itself(only)
        && let Some(option) = idle_options(args, only)
    {
        bail!("{option} does nothing in `clscope bench {only}`: it is an option of the suites");
    }
    match args.suites.as_slice() {
        [only] if only == "model" => return model::run(args),
        [only] if only == "idle" => return model::idle(args),
        of if of.iter().any(by_itself) => {
            bail!("`model` and `idle` are measured by themselves: name no other suite with them")
        }
        _ => {}
    }
    if let Some(option) = args.model.given() {
        bail!("{option} is an option of `clscope bench model`");
    }
    let suite_of = |name: &String| name.split('/').next().unwrap_or_default().to_owned();
    let suites: Vec<String> = args.suites.iter().map(suite_of).collect();
    let is_devices = args.suites == ["devices"];
    let is_unknown =
        |name: &&String| !is_virus && !is_devices && SUITES.iter().all(|s| s.name != **name);
    if let Some(unknown) = suites.iter().find(is_unknown) {
        let names: Vec<&str> = SUITES.iter().map(|s| s.name).collect();
        bail!(
            "there is no suite {unknown}; the suites are {}; by themselves devices, model, idle and virus",
            names.join(", ")
        );
    }
    several(args)?;
    let opencl = OpenCl::open(args.opencl.as_deref())?;
    let all =
        devices(&opencl).context("cannot list OpenCL devices; `clscope doctor` looks closer")?;
    if is_devices {
        show(|out| results::devices(out, &all))?;
        return Ok(ExitCode::SUCCESS);
    }
    let device = choose(&all, args.device.as_deref())?;
    let settings = settings(args);
    let choice = Choice {
        suites,
        cases: {
            // A suite beside a case is all of it.
            let is_case = |name: &String| name.contains('/');
            let any = args.suites.iter().any(is_case);
            let named = args.suites.iter().filter(|_| any);
            named
                .map(|name| if is_case(name) { name.clone() } else { format!("{name}/") })
                .collect()
        },
        sensors: metering(args),
    };
    let chosen = match &args.sweep {
        Some(Axes(along)) => run::sweeps(device, &settings, &choice, along)
            .context("cannot sweep; `clscope bench --list --full` names all cases")?,
        None => run::cases(device, &settings, &choice),
    };
    if args.list {
        show(|out| results::cases(out, &device.facts, &chosen))?;
        return Ok(ExitCode::SUCCESS);
    }
    if chosen.is_empty() && !is_virus {
        bail!(
            "no case is called {}; `clscope bench --list` names them, with --full all of them",
            choice.cases.join(" or ")
        );
    }
    if let Some(directory) = &args.output {
        files::make(directory)?;
    }
    // Before the message that measuring begins: what is measured is kept from then on.
    let mut progress = Progress::new()?;
    say(format_args!("measuring {} ({})", device.facts.name, device.facts.platform));
    let found = if is_virus {
        let seconds = args.budget.unwrap_or(virus::SECONDS);
        virus::search(device, &settings, &choice, seconds, &mut progress)
    } else {
        run::run_cases(device, &settings, &choice, &chosen, &mut progress)
    };
    let found = found.context("cannot use the device")?;
    progress.bar.finish_and_clear();
    if is_virus && found.findings.is_empty() && !found.interrupted {
        bail!("no mixture's power was read; sensor: {}", found.power_source);
    }
    if found.interrupted {
        say("interrupted: what was measured until then follows");
    }
    if args.is_json() {
        show_json(&found).context("cannot write the results")?;
    } else if !args.quiet {
        show(|out| results::tables(out, &found))?;
    }
    if let Some(directory) = &args.output {
        files::results(&found, directory)?;
        say(format_args!("results are in {}", directory.display()));
    }
    if args.counters {
        counted([&found]);
    }
    let bad =
        found.cases.iter().filter(|c| matches!(c.status, Status::Wrong | Status::Failed)).count();
    if bad > 0 {
        bail!(
            "{bad} of {} cases gave wrong results or failed; they have no figures",
            found.cases.len()
        );
    }
    Ok(if found.interrupted { ExitCode::from(130) } else { ExitCode::SUCCESS })
}
