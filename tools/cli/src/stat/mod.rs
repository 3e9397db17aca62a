//! Owns `clscope stat`: an application recorded several times, and its figures over all runs, in
//! the habit of `perf stat`. Refuses to touch the application's streams: figures go to stderr or a
//! file.

use crate::args::{EnergyArgs, FloorArg, TableFormat};
use crate::output::{self, say};
use crate::record::{self, Alone, Ran, end_alike};
use crate::select::RowArgs;
use anyhow::{Context, Result, bail};
use clscope_capture::launch::End;
use clscope_capture::system;
use clscope_compare::repeat::{Measured, Repeated, Row, repeated};
use clscope_profile::energy::external::read_sources;
use clscope_profile::names::Names;
use clscope_profile::profile::{Options, Profile};
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `clscope stat`.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "clscope stat [-r N] [OPTIONS OF RECORD] [--] APP [ARGS]...",
    before_help = "Examples:
  clscope stat -- ./app --size 512             five runs
  clscope stat -r 10 --warm-up 1 -- ./app      ten, after one that is not counted
  clscope stat -r 3 --replay -- ./app          joules of kernels that always run in proportion, too
  clscope stat --with r.clscope -- ./app       with the repetitions of a trace of record --replay
  clscope stat -o run -- ./app                 keeps run-1.clscope to run-5.clscope
  clscope stat --format json --to stat.json -- ./app

All options of `clscope record` are taken as well. Figures go to stderr, or to --to FILE."
)]
pub struct Args {
    /// Runs that are measured
    #[arg(short = 'r', long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Runs before them that are not
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1000))]
    warm_up: u32,
    /// How figures are written
    #[arg(long, value_enum, default_value_t = TableFormat::Table)]
    format: TableFormat,
    /// File to write figures to instead of stderr
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    #[command(flatten)]
    rows: RowArgs,
    /// Where a run repeats nothing, take the repetitions of this trace: the same application on the
    /// same device, recorded with `record --replay` (repeat for several)
    #[arg(long, value_name = "TRACE")]
    with: Vec<PathBuf>,
    /// What the device draws between launches, where the runs do not show it: auto (the idle states
    /// that `clscope bench idle` kept of the device here), run (the runs alone), watts, or a file
    /// of device parameters
    #[arg(long, value_name = "WHAT", default_value = "auto")]
    idle_power: FloorArg,
    #[command(flatten)]
    names: crate::args::NameArgs,
    #[command(flatten)]
    record: record::Args,
}

/// Runs the command. The exit code is that of the run that ended badly, if one did.
///
/// # Errors
/// If the application cannot be recorded, or the figures cannot be written.
pub fn run(args: &Args) -> Result<ExitCode> {
    if args.record.chooses_ranks() {
        bail!("stat runs the application itself, several times: --ranks is for record");
    }
    if let Some(path) = &args.to {
        // Said now, and not when all runs are over.
        output::check(path)?;
    }
    let energy = EnergyArgs {
        with: args.with.clone(),
        idle_power: args.idle_power.clone(),
        ..EnergyArgs::default()
    };
    let options = || Options { energy: energy.options(), ..Options::default() };
    for trace in &args.with {
        // One that repeated nothing is refused now, and not when all runs are over.
        read_sources(trace, &options())?;
    }
    let mut temporary = None;
    let base: PathBuf = match args.record.output() {
        Some(name) => without_extension(name),
        None => match record::make_temporary("clscope-stat-", &args.record)? {
            Ok(folder) => temporary.insert(folder).path().join("run"),
            Err(Ran::Alone(alone)) => return run_unmeasured(&alone),
            Err(Ran::NotRunnable(code)) => return Ok(ExitCode::from(code)),
            Err(Ran::Ended { .. }) => bail!("nothing was measured"),
        },
    };
    let mut runs = Vec::new();
    let mut traces = Vec::new();
    let mut bad = None;
    for nth in 0..args.warm_up + args.repeat {
        let counted = nth.checked_sub(args.warm_up);
        let name = match counted {
            Some(counted) => format!("-{}", counted + 1),
            None => format!("-warm-up-{}", nth + 1),
        };
        let mut output = base.clone().into_os_string();
        output.push(name);
        let before = system::children_cpu();
        let (trace, end, wall, held) = match record::record(&args.record.for_one_run(output))? {
            Ran::Ended { trace, end, wall, held } => (trace, end, wall, held),
            Ran::NotRunnable(code) => return Ok(ExitCode::from(code)),
            // What is measured is a run like the others, or there are no figures.
            Ran::Alone(alone) if nth == 0 => {
                drop(temporary);
                return run_unmeasured(&alone);
            }
            Ran::Alone(_) => {
                bail!("run {} of {} could not be recorded", nth + 1, args.warm_up + args.repeat)
            }
        };
        if end != End::Code(0) {
            bad = Some((end, held));
            break;
        }
        drop(held);
        if counted.is_none() {
            std::fs::remove_dir_all(&trace)
                .with_context(|| format!("cannot remove {}", trace.display()))?;
            continue;
        }
        let after = system::children_cpu();
        let cpu = ((after.0 - before.0).as_secs_f64(), (after.1 - before.1).as_secs_f64());
        runs.push(measured(&trace, options(), wall.as_secs_f64(), cpu, runs.is_empty())?);
        traces.push(trace);
    }
    if let Some((end, _)) = &bad {
        let figures = match runs.len() {
            0 => "there are no figures".to_owned(),
            n => format!("figures are of the {n} before it"),
        };
        say!(
            "run {} of {} {}; {figures}",
            runs.len() + 1,
            args.repeat,
            match end {
                End::Code(code) => format!("ended with exit code {code}"),
                End::Signal(number, _) => format!("was ended by {}", system::signal_name(*number)),
            }
        );
    }
    let all = match &runs[..] {
        [] | [_] => None,
        _ => Some(Profile::open(&traces)?),
    };
    let all = all.as_ref().map(|all| all.view(options()).report()).transpose()?;
    // The report of all traces together is that of the only one.
    let all = all.as_ref().or(runs.first().map(|run| &run.report));
    match repeated(args.record.shown_command(), &runs, all) {
        Some(figures) => write(args, figures)?,
        None if bad.is_none() => bail!("nothing was measured"),
        None => {}
    }
    Ok(bad.map_or(ExitCode::SUCCESS, |(end, held)| end_alike(end, held)))
}

/// Runs an application that cannot be recorded.
fn run_unmeasured(alone: &Alone) -> Result<ExitCode> {
    say("there are no figures, because nothing is recorded: the application runs once");
    record::run_in_place(alone)
}

/// `run.clscope` names the same traces as `run` does.
fn without_extension(name: &OsString) -> PathBuf {
    let path = Path::new(name);
    match path.extension() {
        Some(extension) if extension == "clscope" => path.with_extension(""),
        _ => path.to_owned(),
    }
}

/// What a run took. Of the first one it is said what was changed of the application: the others
/// were changed alike.
fn measured(
    trace: &Path,
    options: Options,
    wall: f64,
    cpu: (f64, f64),
    is_first: bool,
) -> Result<Measured> {
    let profile = Profile::open(&[trace.to_owned()])?;
    let view = profile.view(options);
    if is_first {
        crate::changed::say_changes(&view);
    }
    let report = view.report()?;
    Ok(Measured { wall, cpu, report })
}

fn write(args: &Args, mut figures: Repeated) -> Result<()> {
    let kernels = figures.rows.iter().filter(|row| row.kind == "kernel");
    let names = Names::new(kernels.map(|row| row.name.as_str()));
    let most = args.rows.most((args.format == TableFormat::Table).then_some(15));
    let is_shown = |row: &Row| {
        args.rows.is_shown(&names, &row.name)
            && row.device.as_deref().is_none_or(|device| args.rows.has_device(device))
    };
    figures.rows.retain(is_shown);
    let text = match args.format {
        TableFormat::Table => {
            let form = args.names.form(false);
            for row in figures.rows.iter_mut().filter(|row| row.kind == "kernel") {
                row.name = names.shown(&row.name, form).to_owned();
            }
            figures.next = figures.next.map(|next| names.in_text(&next, form));
            let width = match &args.to {
                Some(_) => output::terminal_width(),
                None => output::error_width(),
            };
            clscope_text::stat::render(&figures, most, width)
        }
        TableFormat::Json => {
            figures.display_names = names.display();
            figures.rows.truncate(most);
            format!("{}\n", serde_json::to_string_pretty(&figures)?)
        }
    };
    match &args.to {
        Some(path) => output::write_whole(path, |out| Ok(out.write_all(text.as_bytes())?)),
        None => {
            output::own_line();
            std::io::stderr().write_all(text.as_bytes()).context("cannot write the figures")
        }
    }
}
