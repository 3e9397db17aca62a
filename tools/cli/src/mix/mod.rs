//! `clscope mix`: what kernels executed, by class of instruction, from a trace of `record --mix`;
//! and of kernels that were not counted, why. Refuses to estimate.

use crate::args::{Format, NameArgs, trace_or_kernel};
use crate::output;
use anyhow::{Context, Result, bail};
use clap::builder::NonEmptyStringValueParser;
use clscope_profile::mixes::document::Document;
use clscope_profile::mixes::{KernelMix, simulated};
use clscope_profile::profile::{Options, Profile};
use clscope_text as text;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Options of `clscope mix`.
#[derive(Debug, clap::Args)]
#[command(before_help = "Examples:
  clscope record --mix -- ./app   counts the instructions of each kernel
  clscope mix                     shows them, of the newest trace
  clscope mix run1 'gemm*'        of some kernels of a trace
  clscope mix --with FILE         beside Oclgrind's (`oclgrind --inst-counts ./app > FILE`)")]
pub struct Args {
    /// Trace directory [default: the newest of the working directory]
    #[arg(value_name = "TRACE")]
    trace: Option<PathBuf>,
    /// Only kernels whose name matches; * and ? are wildcards, a plain word matches anywhere
    #[arg(value_name = "KERNEL", value_parser = NonEmptyStringValueParser::new())]
    kernel: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    format: Format,
    /// Compare with what Oclgrind counted of the same application: what `oclgrind --inst-counts`
    /// printed
    #[arg(long, value_name = "FILE")]
    with: Option<PathBuf>,
    #[command(flatten)]
    names: NameArgs,
}

/// Most bytes of a file of Oclgrind's: a launch takes about a kilobyte.
const MOST: u64 = 64 << 20;

/// Reads what Oclgrind printed.
fn read(file: &Path) -> Result<BTreeMap<String, simulated::Simulated>> {
    let attempt = || format!("could not read Oclgrind's counts from {}", file.display());
    let bytes = clscope_io::input::read(file, MOST).with_context(attempt)?;
    simulated::read(&String::from_utf8_lossy(&bytes)).with_context(attempt)
}

/// Runs the command.
///
/// # Errors
/// If there is no such trace or kernel.
pub fn run(args: &Args) -> Result<()> {
    let (traces, wanted) = trace_or_kernel(args.trace.as_ref(), args.kernel.as_ref());
    // Of a single word it is not known which of the two was meant.
    let no_trace = if args.kernel.is_none() { ", and no trace either" } else { "" };
    let profile = Profile::open(&traces)?;
    let view = profile
        .view(Options { form: args.names.form(args.format == Format::Json), ..Options::default() });
    crate::report::warn_opened(&view);
    crate::changed::say_changes(&view);
    let all = view.mixes();
    let rows: Vec<&KernelMix> = all
        .iter()
        .filter(|row| {
            wanted.as_ref().is_none_or(|wanted| view.names().is_meant(wanted, &row.kernel))
        })
        .collect();
    if let (Some(name), true, false) = (&wanted, rows.is_empty(), all.is_empty()) {
        let mut names: Vec<&str> = all.iter().map(|row| row.kernel.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        bail!("no kernel of the trace is called {name}{no_trace}; there are {}", names.join(", "));
    }
    let against = args.with.as_deref().map(read).transpose()?;
    let against = against.map(|simulated| simulated::compare(&rows, &simulated));
    match args.format {
        Format::Json => {
            let mut document = Document::of_kernels(profile.files().names(), &rows);
            document.display_names = view.display_names();
            document.against = against;
            output::show_json(&document)
        }
        Format::Text => {
            let width = output::terminal_width();
            let of_rows = || text::mix::text(&rows, width);
            let text = against.as_ref().map_or_else(of_rows, text::simulated::text);
            output::show_text(&text)
        }
    }
}
