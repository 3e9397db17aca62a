//! Owns `clscope export`: where an exported timeline goes. Files appear whole or not at all.
//! Refuses to know any format: each has its own module of the library.

pub mod parquet;
mod stacks;

use crate::args::choices;
use crate::output::{self, say};
use crate::report::{Finding, refuse_unreadable};
use anyhow::{Context, Result, bail};
use clscope_analysis::Trace;
use clscope_analysis::issue::Severity;
use clscope_export::perfetto::{HostCalls, Options, Tracks};
use clscope_export::power::Power;
use clscope_export::{Summary, chrome, perfetto};
use clscope_profile::profile::{self, Profile, View};
use clscope_profile::trace_files::TraceFiles;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLES: &str = "Examples:
  clscope export perfetto                       the newest trace, as NAME.pftrace
  clscope export perfetto --from 10 --to 12     two seconds of it
  clscope export perfetto run -o run.pftrace.gz compressed
  clscope export chrome run1.clscope -o t.json  another trace, another file
  clscope export chrome rank*.clscope -o -      several as one timeline, to stdout
  clscope export speedscope --weight energy     a flame graph of joules
  clscope export parquet -o data                tables for DuckDB, Spark, pandas, Polars";

/// Options of `clscope export`.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true, before_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    format: Format,
}

#[derive(Debug, clap::Subcommand)]
enum Format {
    /// Perfetto's own format: typed GPU commands with kernels, work-groups, waits and joules
    Perfetto(Perfetto),
    /// Chrome's trace-event JSON, for chrome://tracing, speedscope and older viewers
    Chrome(Chrome),
    /// Folded stacks, for flame-graph scripts: PLACE;KERNEL WEIGHT
    Folded(stacks::Args),
    /// speedscope's own format: flame graphs by time, joules, commands and bytes
    Speedscope(stacks::Args),
    /// pprof's format, for `go tool pprof` and what reads it
    Pprof(stacks::Args),
    /// Tables in a folder of Parquet files, for DuckDB, Spark, pandas, Polars
    Parquet(parquet::Args),
}

/// What every timeline is made of.
#[derive(Debug, clap::Args)]
struct Common {
    /// Trace directories, shown on one timeline [default: the newest here]
    #[arg(value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// The device that OA counters are of, by a part of its name, where the runtime reports no PCI
    /// address
    #[arg(long, value_name = "NAME")]
    counter_device: Option<String>,
    #[command(flatten)]
    names: crate::args::NameArgs,
    #[command(flatten)]
    energy: crate::args::EnergyArgs,
    #[command(flatten)]
    progress: crate::progress::ProgressArgs,
}

/// Options of `clscope export chrome`.
#[derive(Debug, clap::Args)]
#[command(before_help = EXAMPLES)]
struct Chrome {
    #[command(flatten)]
    common: Common,
    /// File to write, `-` for stdout [default: NAME.json]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Options of `clscope export perfetto`.
#[derive(Debug, clap::Args)]
#[command(before_help = EXAMPLES)]
struct Perfetto {
    #[command(flatten)]
    common: Common,
    /// File to write, `-` for stdout; a name that ends in .gz is compressed [default: NAME.pftrace]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Leave out what ends before this time, in seconds from the beginning
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    from: Option<f64>,
    /// Leave out what begins after this time, in seconds from the beginning
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    to: Option<f64>,
    /// Host calls to show
    #[arg(long, value_enum, default_value_t = Calls::All, value_name = "WHICH")]
    host_calls: Calls,
    /// What of the device has a track of its own
    #[arg(long, value_enum, default_value_t = By::Queue, value_name = "WHAT")]
    tracks: By,
}

choices! {
    enum Calls = HostCalls {
        /// Every call
        All,
        /// Those that enqueue commands
        Enqueue,
        /// Those that wait for commands
        Wait,
        /// No call
        None,
    }
}

choices! {
    enum By = Tracks {
        /// Each command queue
        Queue,
        /// Each device
        Device,
        /// Each kernel and kind of transfer
        Kernel,
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    let text = text.strip_suffix('s').unwrap_or(text);
    let parsed = text.trim().parse::<f64>().ok().filter(|s| s.is_finite() && *s >= 0.0);
    parsed.ok_or_else(|| "expected seconds, as 1.5".to_owned())
}

/// A window that begins behind the end of the run has nothing to show.
fn check_window(options: &Options, trace: &Trace<'_>) -> Result<()> {
    let (Some(from), Some(run)) = (options.from, trace.bounds()) else { return Ok(()) };
    let length = run.duration() as f64 * 1e-9;
    if from > length {
        bail!(
            "nothing lies behind --from {from}: what was recorded spans 0 to {length:.6} s; times are seconds from its beginning"
        );
    }
    Ok(())
}

impl Perfetto {
    fn options(&self) -> Result<Options> {
        if let (Some(from), Some(to)) = (self.from, self.to)
            && from >= to
        {
            bail!("nothing lies between --from {from} and --to {to}: the first must be smaller");
        }
        Ok(Options {
            from: self.from,
            to: self.to,
            host_calls: self.host_calls.into(),
            tracks: self.tracks.into(),
        })
    }
}

impl Common {
    fn profile_options(&self) -> profile::Options {
        profile::Options {
            energy: self.energy.options(),
            counter_device: self.counter_device.clone(),
            name_sites: true,
            form: self.names.form(false),
            ..profile::Options::default()
        }
    }
}

/// Writes the timeline.
pub fn run(args: &Args) -> Result<ExitCode> {
    match &args.format {
        Format::Folded(args) => stacks::run(args, stacks::Format::Folded)?,
        Format::Speedscope(args) => stacks::run(args, stacks::Format::Speedscope)?,
        Format::Pprof(args) => stacks::run(args, stacks::Format::Pprof)?,
        Format::Parquet(args) => parquet::run(args)?,
        Format::Chrome(args) => {
            let write =
                |view: &View<'_>, power: &Power, sources: &[String], out: &mut dyn Write| {
                    Ok(chrome::Document { view, power, sources }.write(out)?)
                };
            let told = timeline(&args.common, args.output.as_deref(), "json", true, write)?;
            told.say(
                "open it at https://ui.perfetto.dev, in chrome://tracing, or with `npx speedscope`",
            );
        }
        Format::Perfetto(args) => {
            let options = args.options()?;
            let whole = args.from.or(args.to).is_none() && args.host_calls != Calls::None;
            let output = args.output.as_deref();
            let write =
                |view: &View<'_>, power: &Power, sources: &[String], out: &mut dyn Write| {
                    check_window(&options, view.trace())?;
                    Ok(perfetto::Document { view, power, sources, options }.write(out)?)
                };
            let told = timeline(&args.common, output, "pftrace", whole, write)?;
            let Told(summary, _) = &told;
            if !whole && summary.calls + summary.device_spans == 0 {
                say(
                    "no call and no command of the run lies in what --from, --to and --host-calls leave",
                );
            }
            told.say("open it at https://ui.perfetto.dev");
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What was written, and where; no file for stdout.
struct Told(Summary, Option<PathBuf>);

impl Told {
    fn say(&self, open: &str) {
        let Self(summary, target) = self;
        if let Some(target) = target {
            say!(
                "{} host calls and {} device spans in {}; {open}",
                summary.calls,
                summary.device_spans,
                target.display()
            );
        }
    }
}

/// Opens the traces and hands them to `write` with the place that the timeline goes to. `whole`:
/// nothing is left out by choice.
fn timeline(
    common: &Common,
    output: Option<&Path>,
    ending: &str,
    whole: bool,
    write: impl Fn(&View<'_>, &Power, &[String], &mut dyn Write) -> Result<Summary>,
) -> Result<Told> {
    let to_stdout = output == Some(Path::new("-"));
    if to_stdout && std::io::stdout().is_terminal() {
        bail!(
            "a timeline is nothing to read on a terminal: name a file with -o, or redirect stdout"
        );
    }
    let progress = common.progress.start("opens the trace");
    let profile = Profile::open(&common.traces)?;
    let files = profile.files();
    let view = profile.view(common.profile_options());
    progress.stage("reads records");
    let power = Power::of_view(&view)?;
    progress.stage("writes the timeline");
    let names = files.names();
    // A file of nothing would pass for a timeline.
    let write = |out: &mut dyn Write| {
        let summary = write(&view, &power, &names, out)?;
        let issues: Vec<Finding> = summary.issues.iter().map(Into::into).collect();
        if whole && summary.calls + summary.device_spans == 0 && refuse_unreadable(&issues) {
            bail!("nothing of {} could be read", names.join(", "));
        }
        Ok(summary)
    };
    let (summary, target) = if to_stdout {
        let mut out = output::file_to_stdout(ending == "json");
        let summary = write(&mut out).context("cannot write the timeline to stdout")?;
        out.flush().context("cannot write the timeline to stdout")?;
        (summary, None)
    } else {
        let target = output.map_or_else(|| default_output(files, ending), Path::to_owned);
        let summary = output::write_whole(&target, |out| {
            if target.extension().is_some_and(|e| e == "gz") {
                let mut out = clscope_export::compressed(out);
                let summary = write(&mut out)?;
                out.finish().context("cannot compress")?;
                return Ok(summary);
            }
            write(out)
        })?;
        (summary, Some(target))
    };
    drop(progress);
    warn(&summary);
    if summary.not_sampled > 0 {
        say!(
            "device time was sampled: {} launches were counted and not timed, and have no device span",
            summary.not_sampled
        );
    }
    if summary.device_spans == 0 && summary.calls > 0 {
        say("there is no device span in this timeline; `clscope report` says why");
    }
    Ok(Told(summary, target))
}

/// Says that something is wrong with the trace.
fn warn(summary: &Summary) {
    let worst =
        summary.issues.iter().filter(|issue| issue.kind.severity() >= Severity::Warning).count();
    if worst > 0 {
        let warnings = if worst == 1 { "warning" } else { "warnings" };
        say!(
            "{worst} {warnings} about this trace: `clscope report` shows them, and the file contains them"
        );
    }
}

/// `NAME.json` in the working directory for `NAME.clscope`, likewise with other endings.
fn default_output(files: &TraceFiles, ending: &str) -> PathBuf {
    match &files.directories[..] {
        [one] => {
            let path = std::fs::canonicalize(&one.path).unwrap_or_else(|_| one.path.clone());
            // Not `with_extension`: a trace may be called `v1.2.clscope`.
            let mut name = path.file_stem().unwrap_or("timeline".as_ref()).to_owned();
            name.push(".");
            name.push(ending);
            PathBuf::from(name)
        }
        _ => PathBuf::from(format!("timeline.{ending}")),
    }
}
