//! `clscope-lab`: suites and experiments. Owns the command line; refuses to measure and to write
//! files: the library does.

mod check;
mod diff;
mod reproduce;

use anyhow::{Context, Result, bail};
use clscope_capture::system;
use clscope_lab::output::files;
use clscope_lab::run::{self, Choice};
use clscope_lab::suite::SUITES;
use clscope_lab::sweep::{Axes, Axis, Sizes};
use clscope_lab::text::results;
use clscope_lab::virus;
use clscope_microbench::bench::Settings;
use clscope_microbench::cl::{Device, OpenCl, choose, list};
use clscope_microbench::files::make;
use clscope_microbench::power::Metering;
use clscope_microbench::results::{Results, Status};
use clscope_screen::args::{MeteringArgs, TableFormat};
use clscope_screen::measuring::Progress;
use clscope_screen::output::{say, show, show_json};
use clscope_screen::{pages, places};
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `clscope-lab`.
#[derive(Debug, clap::Parser)]
#[command(
    name = "clscope-lab",
    version,
    about = "Suites of OpenCL microbenchmarks, and the experiments of the documents that clscope builds on",
    before_help = "Examples:
  clscope-lab                                 the quick choice of every suite on the first GPU
  clscope-lab flop power --device 1           two suites on the second device of `clscope bench devices`
  clscope-lab 'flop/*fma*vect4'               the cases whose names match
  clscope-lab flop/private/float/fma/scalar --sweep blocks,width     one case along two axes
  clscope-lab --reproduce 000/fig4.4          an experiment of a document, beside ours
  clscope-lab --reproduce 002/fig13.1 --with wl=1024,gs=4    a model of a document with your parameters
  clscope-lab virus                           the mixture of instructions that draws most power
  clscope-lab --full -o results               everything, with plots in the directory `results`
  clscope-lab diff monday tuesday             what changed between two results
  clscope-lab check                           the time model against kernels that it does not come from",
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true,
    after_help = "What `clscope explain` needs of a device: `clscope bench model`."
)]
pub struct Args {
    /// Suites to run, or cases: parts of their names, with `*` for anything in between; all without
    /// any. `--list` names them. `virus`: the mixture of instructions that draws most, searched for a
    /// minute
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
    /// Seconds for which power is watched [default: 1.2; 4 with --full]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    window: Option<f64>,
    /// Timed launches of each case [default: 10]
    #[arg(short, long, value_name = "N")]
    repeat: Option<usize>,
    /// Read the device's performance counters (NVIDIA: GPM) while each kernel runs for a second.
    /// Intel's: record a run of this command, `clscope record --counters oa -- clscope-lab ...`
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
    #[command(flatten)]
    metering: MeteringArgs,
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
}

/// What else is done.
#[derive(Debug, clap::Subcommand)]
enum Of {
    /// What changed between results: two devices, drivers or days
    Diff(diff::DiffArgs),
    /// Compare the time model with kernels that a device's parameters do not come from
    Check(check::CheckArgs),
    /// Write the manual pages; packages are made with them
    #[command(hide = true)]
    Man(pages::ManArgs),
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

/// The devices of the system's OpenCL library, or of another.
fn devices(opencl: Option<&str>) -> Result<Vec<Device>> {
    let opencl = OpenCl::open(opencl)?;
    list(&opencl).context("cannot list OpenCL devices; `clscope doctor` looks closer")
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
        repeat: args.repeat,
        counters: args.counters,
        cache: places::cache("bench"),
        ..Settings::default()
    }
}

/// Which sensors are read.
fn metering(args: &Args) -> Metering {
    args.metering.metering(args.sensors == Sensors::Off)
}

/// Runs the command. The exit code is a failure where the device computed wrong results or
/// OpenCL failed.
///
/// # Errors
/// Where no device can be opened, an argument names nothing, or results cannot be written.
pub fn run(args: &Args) -> Result<ExitCode> {
    // The signal would leave the half of a file.
    system::fail_beyond_file_size();
    match &args.of {
        Some(Of::Diff(of)) => return diff::run(of),
        Some(Of::Check(of)) => return check::run(of),
        Some(Of::Man(of)) => {
            pages::man(super::command(), of)?;
            return Ok(ExitCode::SUCCESS);
        }
        None => {}
    }
    if args.dump_kernel {
        show(results::kernels)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let (Sensors::Off, Some(option)) = (args.sensors, args.metering.given()) {
        bail!("{option} reads a sensor, which --sensors off forbids: leave one of them out");
    }
    if !args.reproduce.is_empty() {
        return reproduce::run(args, &args.reproduce);
    }
    if args.with.is_some() {
        bail!("--with is an option of `clscope-lab --reproduce`");
    }
    let is_virus = args.suites == ["virus"];
    if args.budget.is_some() && !is_virus {
        bail!("--budget is an option of `clscope-lab --reproduce` and of `clscope-lab virus`");
    }
    let is_off = args.sensors == Sensors::Off;
    if is_virus && (args.sweep.is_some() || args.list || is_off) {
        bail!(
            "`clscope-lab virus` chooses its mixtures by a sensor: it takes no --sweep, --list and --sensors off"
        );
    }
    let suite_of = |name: &String| name.split('/').next().unwrap_or_default().to_owned();
    let suites: Vec<String> = args.suites.iter().map(suite_of).collect();
    let is_unknown = |name: &&String| !is_virus && SUITES.iter().all(|s| s.name != **name);
    if let Some(unknown) = suites.iter().find(is_unknown) {
        let names: Vec<&str> = SUITES.iter().map(|s| s.name).collect();
        bail!("there is no suite {unknown}; the suites are {}; by itself virus", names.join(", "));
    }
    several(args)?;
    let all = devices(args.opencl.as_deref())?;
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
            .context("cannot sweep; `clscope-lab --list --full` names all cases")?,
        None => run::cases(device, &settings, &choice),
    };
    if args.list {
        show(|out| results::cases(out, &device.facts, &chosen))?;
        return Ok(ExitCode::SUCCESS);
    }
    if chosen.is_empty() && !is_virus {
        bail!(
            "no case is called {}; `clscope-lab --list` names them, with --full all of them",
            choice.cases.join(" or ")
        );
    }
    if let Some(directory) = &args.output {
        make(directory)?;
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
