//! `clscope export folded|speedscope|pprof`: flame graphs of what devices did. Owns their options.
//! Refuses to compute: the library shares time and joules among stacks.

use crate::args::choices;
use crate::output::{self};
use anyhow::{Context, Result, bail};
use clscope_export::stacks::{self, Stack, Weight};
use clscope_profile::profile::Profile;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Options of `clscope export folded`, `speedscope` and `pprof`.
#[derive(Debug, clap::Args)]
#[command(before_help = "Examples:
  clscope export folded | flamegraph.pl > kernels.svg
  clscope export speedscope --weight energy      joules by place in the application
  clscope export pprof && go tool pprof -top *.pb.gz")]
pub struct Args {
    #[command(flatten)]
    common: super::Common,
    /// File to write, `-` for stdout [default: NAME.folded to stdout, NAME.speedscope.json,
    /// NAME.pb.gz]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// What the width of a frame stands for
    #[arg(long, value_enum, default_value_t = By::Time, value_name = "WHAT")]
    weight: By,
    /// Frames above a kernel: the places in the application that `record --call-sites` kept, or
    /// none
    #[arg(long, value_enum, default_value_t = Frames::CallSite, value_name = "WHAT")]
    by: Frames,
}

choices! {
    enum By = Weight {
        /// Device time
        Time,
        /// Joules
        Energy,
        /// Launches of kernels, transfers and other commands
        Count,
        /// Bytes moved
        Bytes,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Frames {
    /// Functions of the application
    CallSite,
    /// Kernels and transfers alone
    Kernel,
}

/// A format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Folded stacks.
    Folded,
    /// speedscope's.
    Speedscope,
    /// pprof's.
    Pprof,
}

/// Writes the stacks.
pub fn run(args: &Args, format: Format) -> Result<()> {
    let profile = Profile::open(&args.common.traces)?;
    let view = profile.view(args.common.profile_options());
    crate::changed::say_changes(&view);
    let progress = args.common.progress.start("reads records");
    let found = stacks::stacks_of(&view, args.by == Frames::CallSite)?;
    // None of these files has a place for what is wrong with a trace.
    let report = view.times();
    drop(progress);
    let length = report.duration_ns;
    let mut issues = report.issues;
    issues.retain(|issue| issue.severity != "note");
    crate::report::warn(&issues);
    let weight = Weight::from(args.weight);
    let names = profile.files().names();
    if !found.iter().any(|s| s.weight(weight).is_some_and(|w| w > 0)) {
        let why = match weight {
            Weight::Energy => "there are no joules: `clscope report --section energy` says why",
            Weight::Time => "no command has a device time: `clscope report` says why",
            Weight::Count => "it holds no command",
            Weight::Bytes => "no command moved bytes",
        };
        bail!("cannot weigh {} by {}: {why}", names.join(", "), weight.named().0);
    }
    let title = names.join(", ");
    let began = view.trace().timeline.wall_offset_ns.map(|o| o + view.trace().origin().0);
    let write = |stacks: &[Stack], out: &mut dyn Write| -> Result<()> {
        match format {
            Format::Folded => stacks::folded(stacks, weight, out)?,
            Format::Speedscope => stacks::speedscope(stacks, weight, &title, out)?,
            Format::Pprof => {
                let comment = format!("clscope export pprof of {title}");
                stacks::pprof(stacks, weight, (began, length), &comment, out)?;
            }
        }
        Ok(())
    };
    let output = match (&args.output, format) {
        (Some(path), _) => path.clone(),
        (None, Format::Folded) => PathBuf::from("-"),
        (None, Format::Speedscope) => super::default_output(profile.files(), "speedscope.json"),
        (None, Format::Pprof) => super::default_output(profile.files(), "pb.gz"),
    };
    if output == Path::new("-") {
        if format == Format::Pprof && std::io::stdout().is_terminal() {
            bail!("a pprof profile is nothing to read on a terminal: name a file with -o");
        }
        let mut out: Box<dyn Write> = match format {
            Format::Folded => Box::new(output::screen()),
            _ => output::file_to_stdout(format == Format::Speedscope),
        };
        write(&found, &mut out).context("cannot write the stacks to stdout")?;
        return out.flush().context("cannot write the stacks to stdout");
    }
    output::write_whole(&output, |out| write(&found, out))?;
    let open = match format {
        Format::Folded => "flamegraph.pl and inferno-flamegraph draw it",
        Format::Speedscope => "open it at https://www.speedscope.app, or with `npx speedscope`",
        Format::Pprof => "read it with `go tool pprof`",
    };
    say!("{} stacks in {}; {open}", found.len(), output.display());
    Ok(())
}
