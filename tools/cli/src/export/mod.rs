//! Owns `clscope export`: where an exported timeline goes. Files appear whole or not at all.
//! Refuses to know any format: each has its own module.
#![forbid(unsafe_code)]

use crate::output::{self, say};
use crate::report::{Finding, refuse_unreadable};
use anyhow::{Context, Result, bail};
use clscope_analysis::issue::Severity;
use clscope_export::{chrome, power};
use clscope_profile::profile::{Options, Profile};
use clscope_profile::trace_files::TraceFiles;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLES: &str = "Examples:
  clscope export chrome                         the newest trace, as NAME.json
  clscope export chrome run1.clscope -o t.json  another trace, another file
  clscope export chrome rank*.clscope -o -      several as one timeline, to stdout";

/// Options of `clscope export`.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true, before_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    format: Format,
}

#[derive(Debug, clap::Subcommand)]
enum Format {
    /// Chrome's trace-event JSON, for Perfetto (ui.perfetto.dev), chrome://tracing and speedscope
    Chrome(Chrome),
}

/// Options of `clscope export chrome`.
#[derive(Debug, clap::Args)]
#[command(before_help = EXAMPLES)]
struct Chrome {
    /// Trace directories, shown on one timeline [default: the newest here]
    #[arg(value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// File to write, `-` for stdout [default: NAME.json]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Leave the arguments out: a smaller file, and speedscope then sums up calls and kernels by
    /// name alone
    #[arg(long)]
    no_args: bool,
    /// The device that OA counters are of, by a part of its name, where the runtime reports no PCI
    /// address
    #[arg(long, value_name = "NAME")]
    counter_device: Option<String>,
    #[command(flatten)]
    energy: crate::args::EnergyArgs,
}

/// Writes the timeline.
pub fn run(args: &Args) -> Result<ExitCode> {
    let Format::Chrome(args) = &args.format;
    if args.output.as_deref() == Some(Path::new("-")) && std::io::stdout().is_terminal() {
        bail!(
            "a timeline is nothing to read on a terminal: name a file with -o, or redirect stdout"
        );
    }
    let profile = Profile::open(&args.traces)?;
    let files = profile.files();
    let view = profile.view(Options {
        energy: args.energy.options(),
        counter_device: args.counter_device.clone(),
        name_sites: true,
        ..Options::default()
    });
    let (energy, counters) = (view.energy()?, view.counters()?.cloned());
    let power = power::Power::new(view.readings()?, energy).with_counters(counters);
    let names = files.names();
    let document = chrome::Document {
        trace: view.trace(),
        alignment: view.alignment(),
        power: &power,
        by: view.energy_grouping(),
        sources: &names,
        with_args: !args.no_args,
    };
    // A file of nothing would pass for a timeline.
    let write = |mut out: &mut dyn std::io::Write| {
        let summary = document.write(&mut out)?;
        let issues: Vec<Finding> = summary.issues.iter().map(Into::into).collect();
        if summary.calls + summary.device_spans == 0 && refuse_unreadable(&issues) {
            bail!("nothing of {} could be read", names.join(", "));
        }
        Ok(summary)
    };
    let (summary, target) = if args.output.as_deref() == Some(Path::new("-")) {
        let mut out = output::json();
        let summary = write(&mut out).context("cannot write the timeline to stdout")?;
        std::io::Write::flush(&mut out).context("cannot write the timeline to stdout")?;
        (summary, None)
    } else {
        let target = args.output.clone().unwrap_or_else(|| default_output(files));
        let summary = output::write_whole(&target, |out| write(out))?;
        (summary, Some(target))
    };
    let worst =
        summary.issues.iter().filter(|issue| issue.kind.severity() >= Severity::Warning).count();
    if worst > 0 {
        let warnings = if worst == 1 { "warning" } else { "warnings" };
        say(format_args!(
            "{worst} {warnings} about this trace: `clscope report` shows them, and the file contains them"
        ));
    }
    if summary.not_sampled > 0 {
        say(format_args!(
            "device time was sampled: {} launches were counted and not timed, and have no device span",
            summary.not_sampled
        ));
    }
    if summary.device_spans == 0 && summary.calls > 0 {
        say("there is no device span in this trace; `clscope report` says why");
    }
    if let Some(target) = target {
        say(format_args!(
            "{} host calls and {} device spans in {}; open it at https://ui.perfetto.dev, in chrome://tracing, or with `npx speedscope`",
            summary.calls,
            summary.device_spans,
            target.display()
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// `NAME.json` in the working directory for `NAME.clscope`.
fn default_output(files: &TraceFiles) -> PathBuf {
    match &files.directories[..] {
        [one] => {
            let path = std::fs::canonicalize(&one.path).unwrap_or_else(|_| one.path.clone());
            // Not `with_extension`: a trace may be called `v1.2.clscope`.
            let mut name = path.file_stem().unwrap_or("timeline".as_ref()).to_owned();
            name.push(".json");
            PathBuf::from(name)
        }
        _ => PathBuf::from("timeline.json"),
    }
}
