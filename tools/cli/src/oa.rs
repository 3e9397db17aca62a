//! `clscope oa`: streams of Intel's observation architecture and the metric sets there are,
//! printed. Refuses to decode: [`clscope_metrics::decode`] does.

use anyhow::{Context, Result, anyhow, bail};
use clap::{Subcommand, ValueEnum};
use clscope_metrics::decode::{self as stream, DecodeError, Options};
use clscope_metrics::{directory, intervals};
use clscope_oa::{Format, Generation, Published};
use clscope_text::oa as text;
use std::io::{BufReader, Write};
use std::path::PathBuf;

/// Options of `clscope oa`.
#[derive(Debug, clap::Args)]
#[command(before_help = "Examples:
  clscope oa decode i915_perf.record    sums over a stream
  clscope oa sets                       metric sets that are built in or installed
  clscope oa sets ComputeBasic          the figures of one")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Decode a recorded stream: i915 records, recordings of igt's tools, or bare reports
    Decode(Box<Decode>),
    /// List metric sets and their figures
    Sets(Sets),
}

#[derive(Debug, clap::Args)]
#[command(before_help = "Examples:
  clscope oa decode i915_perf.record
  clscope oa decode i915_perf.record --metrics ~/mesa/src/intel/perf --set ComputeBasic
  clscope oa decode reports.bin --raw --generation gen9 --hz 12000000 --output csv")]
struct Decode {
    /// The stream
    file: PathBuf,
    /// Bare reports without records: what xe gives, or a dump of the OA buffer
    #[arg(long)]
    raw: bool,
    /// Report format by the kernel's name (A32u40_A4u32_B8_C8); else as the file or the generation
    /// says
    #[arg(long)]
    format: Option<String>,
    /// Which published layout to follow where two differ (short formats)
    #[arg(long, value_enum, default_value_t = Layouts::Tables)]
    layouts: Layouts,
    /// gen7 to gen12, dg2, mtl, xe2; else by the device id in the file
    #[arg(long)]
    generation: Option<String>,
    /// Frequency of the OA timestamp; else as the file says
    #[arg(long)]
    hz: Option<u64>,
    /// Metric set, by name or UUID; else the one in the file, else what is built in
    #[arg(long)]
    set: Option<String>,
    /// Directory (or file) with the metric sets' XML
    #[arg(long, value_name = "DIR")]
    metrics: Option<PathBuf>,
    /// The raw counters themselves (A, B, C, GPU ticks) instead of a set's figures
    #[arg(long, conflicts_with_all = ["set", "metrics", "counters"])]
    counts: bool,
    /// Figures of the set, else all
    #[arg(long, value_delimiter = ',')]
    counters: Vec<String>,
    /// A variable of the equations, as in EuCoresTotalCount=24
    #[arg(long, value_name = "NAME=VALUE")]
    var: Vec<String>,
    /// Only intervals of this context
    #[arg(long)]
    context: Option<u32>,
    /// Put intervals together until they last so long, for csv and json
    #[arg(long, value_name = "MS")]
    every: Option<f64>,
    /// A summary, or one line per interval
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Layouts {
    /// Tables 2.1 to 2.4 of the Gen9.5 thesis (Duarte 2018)
    Tables,
    /// The offsets of igt's tests
    Igt,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Sums over the whole stream
    Text,
    /// A line per interval
    Csv,
    /// An object per interval
    Json,
}

#[derive(Debug, clap::Args)]
#[command(before_help = "Examples:
  clscope oa sets                                   all there are
  clscope oa sets ComputeBasic --metrics ~/mesa     the figures of one")]
struct Sets {
    /// Directory (or file) with the metric sets' XML; else what is installed, beside what is built
    /// in
    #[arg(long, value_name = "DIR")]
    metrics: Option<PathBuf>,
    /// One set with all its figures
    set: Option<String>,
}

/// Runs the command.
///
/// # Errors
/// If the file cannot be read or is no such stream, or if a set or figure named does not exist.
pub fn run(args: &Args) -> Result<()> {
    let mut out: Box<dyn Write> = match &args.action {
        Action::Decode(args) if args.output == Output::Json => Box::new(crate::output::json()),
        Action::Decode(args) if args.output == Output::Csv => Box::new(crate::output::screen()),
        _ => Box::new(crate::output::prose()),
    };
    match &args.action {
        Action::Decode(args) => decode(args, &mut out)?,
        Action::Sets(args) => list(args, &mut out)?,
    }
    out.flush().context("could not write the output")
}

/// The options as the decoder takes them.
fn options(args: &Decode) -> Result<Options> {
    let generation = |name: &String| {
        let low_power = matches!(name.to_ascii_lowercase().as_str(), "bxt" | "glk");
        Generation::by_name(name)
            .map(|generation| (generation, low_power))
            .ok_or_else(|| anyhow!("no generation {name:?}: gen7 to gen12, dg2, mtl, xe2"))
    };
    let format = |name: &String| {
        let names = || Format::ALL.map(|f| f.layout(Published::Tables).name).join(", ");
        Format::by_name(name).ok_or_else(|| {
            anyhow!("no report format {name:?}: {} (hsw_ in front for Haswell's C4_B8)", names())
        })
    };
    let variable = |text: &String| {
        let (name, value) =
            text.split_once('=').ok_or_else(|| anyhow!("--var {text}: expected NAME=VALUE"))?;
        let value = match value.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16),
            None => value.parse(),
        };
        Ok((
            name.trim_start_matches('$').to_owned(),
            value.with_context(|| format!("--var {text}: not a whole number"))?,
        ))
    };
    Ok(Options {
        bare: args.raw,
        format: args.format.as_ref().map(format).transpose()?,
        reading: if args.layouts == Layouts::Igt { Published::IgtTests } else { Published::Tables },
        generation: args.generation.as_ref().map(generation).transpose()?,
        hz: args.hz,
        set: args.set.clone(),
        metrics: args.metrics.clone(),
        counts: args.counts,
        counters: args.counters.clone(),
        given: args.var.iter().map(variable).collect::<Result<_>>()?,
        context: args.context,
        every_ms: args.every,
    })
}

fn decode<W: Write>(args: &Decode, out: &mut W) -> Result<()> {
    let options = options(args)?;
    let shown = args.file.display();
    let file =
        clscope_io::input::open(&args.file).with_context(|| format!("cannot open {shown}"))?;
    let mut input = BufReader::with_capacity(1 << 20, file);
    let decoded = match args.output {
        Output::Text => stream::decode(&mut input, &options, None),
        Output::Csv => intervals::csv(&mut input, &options, out),
        Output::Json => intervals::json(&mut input, &options, out),
    };
    let decoded = decoded.map_err(|error| match error {
        DecodeError::NoRecord | DecodeError::NoReport => anyhow!("{shown} {error}"),
        DecodeError::Io(_) => anyhow::Error::new(error).context(format!("cannot decode {shown}")),
        DecodeError::Damaged(_) => {
            anyhow::Error::new(error).context(format!("{shown}: decoded up to the damage"))
        }
        error => error.into(),
    })?;
    if args.output == Output::Text {
        text::summary(out, &shown.to_string(), &decoded, args.counts)?;
    }
    match decoded.damage {
        Some(error) => Err(error).with_context(|| format!("{shown}: decoded up to the damage")),
        None => Ok(()),
    }
}

fn list<W: Write>(args: &Sets, out: &mut W) -> Result<()> {
    let sets = directory::sets(args.metrics.as_deref(), |problem| crate::output::say(problem))?;
    if text::sets(out, &sets, args.set.as_deref())? == 0 {
        let name = args.set.as_deref().unwrap_or_default();
        bail!(
            "there is no metric set {name:?}: `clscope oa sets` lists those there are, --metrics DIR reads others"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests;
