//! `clscope bench model` and `clscope bench idle`: the parameters of a device, measured, kept,
//! shown, taken elsewhere. Owns the place of the file and what is printed; refuses to measure: that
//! is `clscope-microbench`.

use super::Args;
use crate::output::{json, say, show};
use crate::parameters;
use anyhow::{Context, Result, bail};
use clscope_io::text::line;
use clscope_microbench::cl::{Device as Cl, OpenCl, choose, list};
use clscope_microbench::files;
use clscope_microbench::idle::{self, Watching};
use clscope_microbench::model::{self, Effort};
use clscope_models::{Device, kept};
use clscope_screen::measuring::Progress;
use clscope_text::bench::parameters as text;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;

/// Options of `bench model` and `bench idle`.
#[derive(Debug, clap::Args)]
#[group(skip)] // its name is that of the arguments it is a part of
pub struct ModelArgs {
    /// model: fewer cases, no joules, no idle states
    #[arg(long)]
    pub quick: bool,
    /// model: print the parameters that are kept of the device, and measure nothing. For another
    /// machine: --show --format json > FILE
    #[arg(long, conflicts_with = "parameters")]
    pub show: bool,
    /// model: keep the parameters of a file, as of a device that another machine has
    #[arg(long, value_name = "FILE")]
    pub parameters: Option<PathBuf>,
    /// model: with --parameters, replace parameters that were measured under another driver
    #[arg(long, requires = "parameters")]
    pub force: bool,
}

impl ModelArgs {
    /// An option that only these two take, if one was given.
    pub fn given(&self) -> Option<&'static str> {
        [
            (self.quick, "--quick"),
            (self.show, "--show"),
            (self.parameters.is_some(), "--parameters"),
            (self.force, "--force"),
        ]
        .iter()
        .find(|(given, _)| *given)
        .map(|(_, name)| *name)
    }
}

const NO_HOME: &str =
    "there is no place to keep device parameters: set HOME or XDG_CACHE_HOME to a directory";

fn keep(device: &Device) -> Result<PathBuf> {
    let path = parameters::path(&device.name, &device.platform).context(NO_HOME)?;
    kept::make_folder(&path)?;
    kept::write(device, &path)?;
    Ok(path)
}

/// Seconds that `bench idle` watches.
const WATCH_S: f64 = 60.0;

/// What is kept of the device that is meant, here or of another machine: a device that is not here
/// is one whose file was imported.
fn shown(args: &Args) -> Result<Device> {
    let error = match kept(args) {
        Ok((_, _, Some(kept))) => return Ok(kept),
        Ok((device, path, None)) => nothing_kept(&device, &path),
        Err(error) => error,
    };
    let (Some(part), Some(folder)) = (&args.device, parameters::cache("models")) else {
        return Err(error);
    };
    let mut found = kept::named(&folder, part);
    if found.len() > 1 {
        let names: Vec<String> = found.iter().map(|d| line(&d.name).into_owned()).collect();
        bail!("--device {part} is a part of several names: {}", names.join(", "));
    }
    found.pop().ok_or(error)
}

/// The device that is meant, and where its parameters are kept.
fn chosen(args: &Args) -> Result<(Cl, PathBuf)> {
    let opencl = OpenCl::open(args.opencl.as_deref())?;
    let all = list(&opencl).context("cannot list OpenCL devices; `clscope doctor` looks closer")?;
    let device = choose(&all, args.device.as_deref())?.clone();
    let path = parameters::path(&device.facts.name, &device.facts.platform).context(NO_HOME)?;
    Ok((device, path))
}

/// The device that is meant, and the parameters that are kept of it.
fn kept(args: &Args) -> Result<(Cl, PathBuf, Option<Device>)> {
    let (device, path) = chosen(args)?;
    let kept = path.exists().then(|| kept::read(&path)).transpose()?;
    Ok((device, path, kept))
}

fn nothing_kept(device: &Cl, path: &Path) -> anyhow::Error {
    anyhow::anyhow!(
        "no parameters of {} are kept in {}: `clscope bench model` measures them",
        line(&device.facts.name),
        path.display()
    )
}

/// Runs `bench model`.
///
/// # Errors
/// Where no device can be opened, nothing is kept that was asked for, or a file cannot be read or
/// written.
pub fn run(args: &Args) -> Result<ExitCode> {
    if let Some(file) = &args.model.parameters {
        let device = kept::read(file)?;
        let place = parameters::path(&device.name, &device.platform).context(NO_HOME)?;
        kept::replaceable(&place, &device, args.model.force)?;
        let path = keep(&device)?;
        say!("parameters of {} are kept in {}", device.name, path.display());
        return Ok(ExitCode::SUCCESS);
    }
    if args.model.show {
        print(&shown(args)?, args.is_json())?;
        return Ok(ExitCode::SUCCESS);
    }
    let (device, path) = chosen(args)?;
    let before = path.exists().then(|| kept::read(&path)).transpose().unwrap_or_else(|error| {
        // A damaged file is about to be replaced.
        say!("warning: {error:#}");
        None
    });
    // A measurement takes minutes; what cannot be kept is said before it.
    kept::make_folder(&path)?;
    let mut progress = Progress::new()?;
    let takes = if args.model.quick { "a minute" } else { "two minutes" };
    say!(
        "measuring {} ({}), which takes about {takes}; other work on the machine disturbs it",
        device.facts.name,
        device.facts.platform
    );
    let effort = Effort {
        quick: args.model.quick,
        sensors: args.metering(),
        tiny: false,
        cache: parameters::cache("bench"),
        compilers: std::env::var_os("PATH"),
        date: today(),
    };
    let measured =
        model::measure(&device, &effort, &mut progress).context("cannot use the device")?;
    progress.bar.finish_and_clear();
    if let Some(folder) = &args.output {
        files::measured(&measured, folder)?;
    }
    if measured.results.iter().any(|r| r.interrupted) {
        say!("interrupted: {} stays as it was", path.display());
        return Ok(ExitCode::from(130));
    }
    let path = keep(&measured.device)?;
    if !args.quiet {
        print(&measured.device, args.is_json())?;
        if let Some(text) = text::accuracy(&measured.energy_errors) {
            say(text);
        }
    }
    if let Some(before) = before.filter(|k| k.driver.trim() != measured.device.driver.trim()) {
        say!("the parameters under driver {} were replaced", line(&before.driver));
    }
    say!("parameters are kept in {}", path.display());
    Ok(ExitCode::SUCCESS)
}

/// The date, UTC, as `2026-11-22`.
fn today() -> String {
    let now = humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string();
    now.chars().take(10).collect()
}

fn print(device: &Device, as_json: bool) -> Result<()> {
    if !as_json {
        return show(|out| text::parameters(out, device));
    }
    let mut out = json();
    out.write_all(device.text().context("cannot write the parameters")?.as_bytes())?;
    Ok(out.flush()?)
}

/// Runs `bench idle`: watches the device and keeps its states with its other parameters.
///
/// # Errors
/// Where no device can be opened, it has no sensor, or the file cannot be written.
pub fn idle(args: &Args) -> Result<ExitCode> {
    let watch_s = args.window.unwrap_or(WATCH_S);
    if !(5.0..=3600.0).contains(&watch_s) {
        bail!("`bench idle` takes a --window of 5 to 3600 seconds, and not {watch_s}");
    }
    let (device, _, kept) = kept(args)?;
    let progress = Progress::new()?;
    say!(
        "watching {} ({}) three times for {} s after 2 s of load",
        device.facts.name,
        device.facts.platform,
        watch_s
    );
    let watching = Watching { load_s: 2.0, watch_s, runs: 3 };
    let found =
        idle::watch(&device, watching, &args.metering(), &|| progress.stop.load(Ordering::Relaxed));
    let (found, source) = found.with_context(|| {
        format!("cannot measure the idle states of {}", line(&device.facts.name))
    })?;
    show(|out| {
        writeln!(out, "{} | power: {source}", device.facts.name)?;
        text::states(out, &found)
    })?;
    let mut parameters = kept.unwrap_or_else(|| Device {
        power_source: source.clone(),
        ..model::unmeasured(&device.facts, &today())
    });
    parameters.idle = Some(found);
    parameters.absent.remove("idle");
    let path = keep(&parameters)?;
    say!("the states are kept in {}", path.display());
    Ok(ExitCode::SUCCESS)
}
