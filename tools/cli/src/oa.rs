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
use std::str::FromStr;

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
  clscope oa decode i915_perf.record ComputeBasic --metrics ~/mesa/src/intel/perf
  clscope oa decode reports.bin --stream bare,generation=gen9,hz=12000000 --format csv")]
struct Decode {
    /// The stream
    file: PathBuf,
    /// Metric set, by name or UUID; counts: the raw counters themselves (A, B, C, GPU ticks)
    /// [default: the one in the file, else what is built in]
    set: Option<String>,
    /// What the file does not say, comma-separated: bare (reports without records: what xe gives,
    /// or a dump of the OA buffer), generation=gen7 to gen12, dg2, mtl or xe2, hz=FREQUENCY of the
    /// OA timestamp, reports=FORMAT by the kernel's name (A32u40_A4u32_B8_C8), layouts=igt where
    /// published layouts differ, and variables of the equations, as in EuCoresTotalCount=24
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true)]
    stream: Stream,
    /// Directory (or file) with the metric sets' XML
    #[arg(long, value_name = "DIR")]
    metrics: Option<PathBuf>,
    /// Figures of the set, else all
    #[arg(long, value_delimiter = ',')]
    counters: Vec<String>,
    /// A summary, or one line per interval
    #[arg(long, value_enum, default_value_t = Output::Text)]
    format: Output,
}

/// The word in the place of a metric set that stands for the counters themselves.
const COUNTS: &str = "counts";

/// What the file does not say.
#[derive(Debug, Clone)]
struct Stream(Options);

impl FromStr for Stream {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut options = Options::default();
        for word in text.split(',').filter(|word| !word.is_empty()) {
            match word.split_once('=') {
                None if word == "bare" => options.bare = true,
                Some(("generation", name)) => options.generation = Some(generation(name)?),
                Some(("reports", name)) => options.format = Some(format(name)?),
                Some(("layouts", "igt")) => options.reading = Published::IgtTests,
                Some(("layouts", "tables")) => options.reading = Published::Tables,
                Some(("hz", hz)) => options.hz = Some(number(hz)?),
                Some((name, value)) => {
                    let name = name.trim_start_matches('$').to_owned();
                    options.given.push((name, number(value)?));
                }
                None => return Err(format!("{word}: expected bare or NAME=VALUE")),
            }
        }
        Ok(Self(options))
    }
}

fn generation(name: &str) -> Result<(Generation, bool), String> {
    let low_power = matches!(name.to_ascii_lowercase().as_str(), "bxt" | "glk");
    Generation::by_name(name)
        .map(|generation| (generation, low_power))
        .ok_or_else(|| format!("no generation {name:?}: gen7 to gen12, dg2, mtl, xe2"))
}

fn format(name: &str) -> Result<Format, String> {
    let names = || Format::ALL.map(|f| f.layout(Published::Tables).name).join(", ");
    Format::by_name(name).ok_or_else(|| {
        format!("no report format {name:?}: {} (hsw_ in front for Haswell's C4_B8)", names())
    })
}

/// A whole number, hexadecimal behind `0x`.
fn number(text: &str) -> Result<u64, String> {
    let value = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    value.map_err(|_| format!("{text} is no whole number"))
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
        Action::Decode(args) if args.format == Output::Json => Box::new(crate::output::json()),
        Action::Decode(args) if args.format == Output::Csv => Box::new(crate::output::screen()),
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
    let counts = args.set.as_deref() == Some(COUNTS);
    if counts && (args.metrics.is_some() || !args.counters.is_empty()) {
        bail!("{COUNTS} are all counters: leave --metrics and --counters out");
    }
    Ok(Options {
        set: args.set.clone().filter(|_| !counts),
        metrics: args.metrics.clone(),
        counts,
        counters: args.counters.clone(),
        ..args.stream.0.clone()
    })
}

fn decode<W: Write>(args: &Decode, out: &mut W) -> Result<()> {
    let options = options(args)?;
    let shown = args.file.display();
    let file =
        clscope_io::input::open(&args.file).with_context(|| format!("cannot open {shown}"))?;
    let mut input = BufReader::with_capacity(1 << 20, file);
    let decoded = match args.format {
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
    if args.format == Output::Text {
        text::summary(out, &shown.to_string(), &decoded, options.counts)?;
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
