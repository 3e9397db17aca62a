//! `clscope kernel`: a captured launch, run alone. Owns the options, the choice of the device, and
//! the exit code: 3 where results differ, or another version is slower than is allowed. Refuses to
//! run or to judge: `clscope-launch` does, in a process of its own.

pub mod worker;

use crate::args::{Format, NameArgs, choices};
use crate::output::{self, say};
use anyhow::{Context, Result, bail};
use clscope_capture::system;
use clscope_io::input;
use clscope_launch::document::Document;
use clscope_launch::element::Element;
use clscope_launch::export;
use clscope_launch::measure::Effort;
use clscope_launch::progress::Ended;
use clscope_launch::replay::environment::{self, Change, Environment};
use clscope_launch::run::TOLERANCE;
use clscope_launch::stage::{self, Form, Recipe};
use clscope_launch::supervise::{self, News, WorkersEnd};
use clscope_launch::{Capture, Wanted};
use clscope_trace::values;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Exit code where results differ or a version is too slow.
const DIFFERS: u8 = 3;
/// Exit code where a version ended the process in which it ran, or wrote behind a memory.
const ENDED: u8 = 4;

/// Options of `clscope kernel`.
#[derive(Debug, clap::Args)]
#[command(before_help = "Examples:
  clscope kernel run.clscope/captures/blur.1                  results, time and joules of the launch
  clscope kernel run --device NVIDIA                          the only capture of a trace, elsewhere
  clscope kernel run blur2.cl --fail-on 3%                    another source beside the captured one
  clscope kernel run --local 64x1 --options '-cl-fast-relaxed-math' --tolerance 100
  clscope kernel run --local fastest                          searches a work-group size
  clscope kernel run --export c -o bug                        a program that stands alone, in C
  clscope kernel run --format json | jq .base.time.median_ns

Captures are made by `clscope record --capture KERNEL -- APP`. Exit code: 3 where results differ from
those captured (of another version: from those of the captured one) by more than --tolerance, or where
the other version is slower than --fail-on allows; 4 where a version ended the process in which it
ran, as by a signal, did not end within --limit, or wrote behind a memory; 1 where the command failed.")]
pub struct Args {
    /// Folder of a capture, or a trace that has one
    #[arg(value_name = "CAPTURE")]
    capture: PathBuf,
    /// Source in OpenCL C of another version, which runs beside the captured one
    #[arg(value_name = "SOURCE")]
    source: Option<PathBuf>,
    /// Device: a part of its name, or its number in `clscope bench devices` [default: the
    /// one it was captured on, else the first GPU]
    #[arg(short, long, value_name = "DEVICE")]
    device: Option<String>,
    /// Form of the captured program [default: the first of these that it has]
    #[arg(long, value_enum, value_name = "FORM")]
    from: Option<Kept>,
    /// Type of a memory's elements, by the number of an argument: 2=float (repeat for several)
    #[arg(long = "as", value_name = "ARGUMENT=TYPE", value_parser = typed)]
    types: Vec<(u32, Element)>,
    /// Difference of floating-point results that is tolerated, in units in the last place; 0: none
    #[arg(long, value_name = "ULPS", default_value_t = TOLERANCE)]
    tolerance: u64,
    /// Timed launches of each version
    #[arg(short, long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    repeat: u32,
    /// Seconds after which a version whose launch has not ended is left out, and its process ended;
    /// building takes as long as it takes
    #[arg(long, value_name = "SECONDS", default_value_t = supervise::LIMIT, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    limit: u32,
    /// Sensors of energy and power to read
    #[arg(long, value_enum, default_value_t = Sensors::Auto, value_name = "WHICH")]
    sensors: Sensors,
    /// Read the device's performance counters meanwhile (NVIDIA: GPM)
    #[arg(long)]
    counters: bool,
    /// Count what a launch executes, by class of instruction: on NVIDIA's runtime, of programs in
    /// SPIR-V, and of sources where clang and llvm-spirv are installed
    #[arg(long)]
    mix: bool,
    /// Write a program that stands alone and runs the launch, instead of running it here
    #[arg(
        long,
        value_enum,
        value_name = "LANGUAGE",
        conflicts_with_all = [
            "device", "from", "mix", "counters", "local", "global", "options", "source",
            "fail_on", "format",
        ]
    )]
    export: Option<Language>,
    /// Run what another user captured
    #[arg(long)]
    trust: bool,
    /// Folder to make for --export [default: the capture's name with the language]
    #[arg(short, long, value_name = "DIR", requires = "export")]
    output: Option<PathBuf>,
    /// Text for people, or JSON for programs
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(flatten)]
    names: NameArgs,
    /// Look for sensors below this directory (its sys, dev and proc) instead of the system's
    #[arg(long, value_name = "DIR", hide_short_help = true, conflicts_with = "counters")]
    sysfs_root: Option<PathBuf>,
    /// The OpenCL library to open
    #[arg(long, value_name = "PATH", hide_short_help = true)]
    opencl: Option<String>,
    // Last: what comes behind it would stand under its heading.
    #[command(flatten)]
    version: VersionArgs,
}

/// Another version, beside the captured one.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Another version, beside the captured one")]
struct VersionArgs {
    /// Work-items of a group, as 64x1; null: the runtime chooses; fastest: search the fastest size
    /// of the captured version
    #[arg(long, value_name = "SIZE", value_parser = local)]
    local: Option<Local>,
    /// Work-items
    #[arg(long, value_name = "SIZE", value_parser = sizes)]
    global: Option<Sizes>,
    /// Build options, instead of the captured ones
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true)]
    options: Option<String>,
    /// Exit code 3 where it is slower than the captured version by more: 3%
    #[arg(long, value_name = "PERCENT", value_parser = values::percent)]
    fail_on: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Sizes(Vec<usize>);

/// Work-items of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Local {
    /// So many; `None`: as the runtime chooses.
    Size(Option<Vec<usize>>),
    /// Searched.
    Fastest,
}

/// Which sensors are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Sensors {
    /// Whatever works
    Auto,
    /// None: joules are not measured
    Off,
}

/// A language of programs that stand alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Language {
    /// A script for PyOpenCL
    #[value(name = "pyopencl")]
    PyOpenCl,
    /// A file of C99, with a makefile
    C,
}

choices! {
    /// Form of a program.
    enum Kept = Form {
        /// OpenCL C
        Source,
        /// SPIR-V
        Il,
        /// The device's binary
        Binary,
    }
}

fn sizes(text: &str) -> Result<Sizes, String> {
    let size = |part: &str| part.trim().parse::<usize>().ok().filter(|n| *n > 0);
    let all: Option<Vec<usize>> = text.split(['x', ',']).map(size).collect();
    all.filter(|all| all.len() <= 3)
        .map(Sizes)
        .ok_or_else(|| "expected one to three sizes above 0, as 64x1".to_owned())
}

fn local(text: &str) -> Result<Local, String> {
    match text {
        "null" | "NULL" => Ok(Local::Size(None)),
        "fastest" => Ok(Local::Fastest),
        _ => sizes(text).map(|Sizes(all)| Local::Size(Some(all))),
    }
}

fn typed(text: &str) -> Result<(u32, Element), String> {
    let known = || {
        text.split_once('=').and_then(|(index, name)| {
            Some((index.trim().parse().ok()?, Element::of_type(name.trim())?))
        })
    };
    known().ok_or_else(|| {
        "expected the number of an argument and a type of OpenCL C: 2=float".to_owned()
    })
}

impl VersionArgs {
    fn is_given(&self) -> bool {
        matches!(self.local, Some(Local::Size(_)))
            || self.global.is_some()
            || self.options.is_some()
    }

    fn recipe(
        &self,
        source: Option<&Path>,
        capture: &Capture,
        form: Option<Form>,
    ) -> Result<Option<Recipe>> {
        if source.is_none() && !self.is_given() {
            return Ok(None);
        }
        let dimensions = capture.launch.dimensions;
        let source = match source {
            None => None,
            Some(path) => {
                let bytes = input::read(path, input::TEXT)
                    .with_context(|| format!("cannot read the source {}", path.display()))?;
                let text = String::from_utf8(bytes)
                    .with_context(|| format!("{} is no text", path.display()))?;
                Some((path.display().to_string(), text))
            }
        };
        let over = |all: &Vec<usize>, option| stage::over(dimensions, all, option);
        let global = self.global.as_ref().map(|Sizes(all)| over(all, "--global"));
        let local = match &self.local {
            Some(Local::Size(all)) => {
                Some(all.as_ref().map(|all| over(all, "--local")).transpose()?)
            }
            Some(Local::Fastest) | None => None,
        };
        Ok(Some(Recipe {
            form,
            source,
            options: self.options.clone(),
            global: global.transpose()?,
            local,
        }))
    }
}

impl Args {
    /// What is wanted of a run, without versions that ended earlier ones.
    fn wanted(&self, capture: &Capture, ended: Vec<Ended>) -> Result<Wanted> {
        let form = self.from.map(Form::from);
        let changed = self.version.recipe(self.source.as_deref(), capture, form)?;
        let tune = self.version.local == Some(Local::Fastest);
        if tune && (changed.is_some() || self.version.fail_on.is_some()) {
            bail!(
                "--local fastest is about the captured version: leave out SOURCE, --global, --options and --fail-on"
            );
        }
        let energy = self.sensors == Sensors::Auto;
        if self.counters && !energy {
            bail!("--counters are read with the sensors, which --sensors off forbids");
        }
        if changed.is_none() && self.version.fail_on.is_some() {
            bail!(
                "--fail-on is about another version: name its source, or --options, --local or --global"
            );
        }
        Ok(Wanted {
            base: Recipe { form, ..Recipe::default() },
            changed,
            mix: self.mix,
            compilers: std::env::var_os("PATH").unwrap_or_default(),
            tune,
            tolerance: self.tolerance,
            types: self.types.clone(),
            effort: Effort { launches: self.repeat as usize, ..Effort::default() },
            energy,
            counters: self.counters,
            sysfs_root: self.sysfs_root.clone(),
            ended,
        })
    }
}

/// Runs the command.
///
/// # Errors
/// If the capture cannot be read, or the launch cannot be run.
pub fn run(args: &Args) -> Result<ExitCode> {
    let capture = Capture::open(&args.capture)?;
    if let Some(language) = args.export {
        return export(&capture, language, args.output.as_deref());
    }
    if !args.trust {
        capture.owned()?;
    }
    // What is wrong with the options is said before anything is started.
    args.wanted(&capture, Vec::new())?;
    let folder = capture.folder.display().to_string();
    let mut environment = Vec::new();
    // Its device is looked for where its application found it.
    if args.device.is_none() {
        let trace = capture.folder.ancestors().nth(2).unwrap_or(&capture.folder);
        let of = Environment::read(trace, args.trust, &|name| std::env::var_os(name));
        environment = of.changes(capture.launch.environment.as_ref());
    }
    drop(capture);
    supervised(&folder, args.limit, &environment)
}

/// Runs the launch in processes of their own, and says what became of them.
fn supervised(capture: &str, limit: u32, environment: &[Change]) -> Result<ExitCode> {
    let own = crate::own_path()?;
    let start = || {
        let mut command = Command::new(&own);
        command.arg(worker::SUBCOMMAND).args(std::env::args_os().skip(2));
        environment::give(environment, &mut command);
        command
    };
    let tell = |news: &News<'_>| match news {
        News::LeftOut(ended) => say!(
            "{} {ended}; it is left out, and the rest is run once more: compare its indices with the sizes of its memories",
            ended.who
        ),
        News::EndedByForce(seconds) => say!(
            "the launch under way does not end within {seconds} s of the interruption: its process is ended"
        ),
        News::Interrupted => say("interrupted: nothing was measured to its end"),
    };
    match supervise::run(&start, limit, &tell)? {
        WorkersEnd::Done(code) => return Ok(ExitCode::from(code)),
        WorkersEnd::Interrupted => return Ok(ExitCode::from(130)),
        WorkersEnd::Unread => {
            system::die_by(libc::SIGPIPE);
            return Ok(ExitCode::FAILURE);
        }
        WorkersEnd::Early(how) => say!(
            "cannot run {capture}: the process that was to run it was ended by {how} before it built a program; `clscope doctor` tries each driver alone"
        ),
        WorkersEnd::Captured(ended) => say!(
            "cannot run {capture}: {} {ended}; name another device with --device, or look for the fault in a program that stands alone, which --export c writes",
            ended.who
        ),
        WorkersEnd::Again(ended, before) => say!(
            "cannot run {capture}: {} {ended}; {before} versions before it were left out for that",
            ended.who
        ),
    }
    Ok(ExitCode::from(ENDED))
}

/// Writes a program that stands alone.
fn export(capture: &Capture, language: Language, to: Option<&Path>) -> Result<ExitCode> {
    let (language, ending) = match language {
        Language::PyOpenCl => (export::Language::PyOpenCl, "pyopencl"),
        Language::C => (export::Language::C, "c"),
    };
    let folder = match to {
        Some(folder) => folder.to_owned(),
        None => {
            let whole = capture.folder.canonicalize().context("cannot find the capture's name")?;
            let name = whole.file_name().unwrap_or_default().to_string_lossy().into_owned();
            PathBuf::from(format!("{name}-{ending}"))
        }
    };
    let written = export::export(capture, language, &folder)
        .with_context(|| format!("cannot export {}", capture.folder.display()))?;
    for path in written {
        say!("wrote {}", path.display());
    }
    Ok(ExitCode::SUCCESS)
}

fn write(args: &Args, document: &Document) -> Result<()> {
    match args.format {
        Format::Json => output::show_json(document),
        Format::Text => {
            output::show_text(&clscope_text::kernel::render(document, args.names.form(false)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_types_by_table() {
        assert_eq!(sizes("64x1"), Ok(Sizes(vec![64, 1])));
        assert_eq!(sizes("8,8,2"), Ok(Sizes(vec![8, 8, 2])));
        for wrong in ["", "0", "64x", "x", "1x2x3x4", "-1", "64x1 x", "99999999999999999999"] {
            assert!(sizes(wrong).is_err(), "{wrong}");
        }
        assert_eq!(local("null"), Ok(Local::Size(None)));
        assert_eq!(local("fastest"), Ok(Local::Fastest));
        assert_eq!(typed("2=float4"), Ok((2, Element::Float)));
        for wrong in ["float", "2=", "x=float", "2=struct s", "=float"] {
            assert!(typed(wrong).is_err(), "{wrong}");
        }
    }
}
