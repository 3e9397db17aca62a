//! `clscope oa`: streams of Intel's observation architecture and the metric sets there are, printed.
//! Refuses to decode: [`clscope_metrics::decode`] does.
#![forbid(unsafe_code)]

use anyhow::{Context, Result, anyhow, bail};
use clap::{Subcommand, ValueEnum};
use clscope_io::text;
use clscope_metrics::decode::{self as stream, Chosen, DecodeError, Decoded, Interval, Options};
use clscope_metrics::set::{MetricSet, Outcome};
use clscope_metrics::{builtin, directory};
use clscope_oa::time::ticks_to_ns;
use clscope_oa::{Format, Generation, Layout, Published};
use serde_json::{Map, Value, json};
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};

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
    let mut out = match &args.action {
        Action::Decode(args) if args.output == Output::Json => crate::output::json(),
        _ => crate::output::screen(),
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
        Output::Csv => {
            let mut table = csv::Writer::from_writer(&mut *out);
            let mut begun = false;
            let mut row = |interval: &Interval<'_>| {
                if !std::mem::replace(&mut begun, true) {
                    let chosen = interval.figures.as_ref().map(|(chosen, _)| *chosen);
                    table.write_record(columns(chosen, interval.counts.layout()))?;
                }
                Ok(table.write_record(cells(interval))?)
            };
            let decoded = stream::decode(&mut input, &options, Some(&mut row));
            if let (false, Ok(decoded)) = (begun, &decoded) {
                table.write_record(columns(decoded.chosen.as_ref(), decoded.layout))?;
            }
            // A writer that is dropped says nothing of what it could not write.
            table.flush().context("could not write the output")?;
            decoded
        }
        Output::Json => {
            let mut line = |interval: &Interval<'_>| {
                serde_json::to_writer(&mut *out, &object(interval))?;
                out.write_all(b"\n")
            };
            stream::decode(&mut input, &options, Some(&mut line))
        }
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
        summary(args, &decoded, out)?;
    }
    match decoded.damage {
        Some(error) => Err(error).with_context(|| format!("{shown}: decoded up to the damage")),
        None => Ok(()),
    }
}

/// Names of the columns.
fn columns(chosen: Option<&Chosen>, layout: &Layout) -> Vec<String> {
    let mut names =
        vec!["begin_ticks".to_owned(), "host_ns".into(), "ticks".into(), "complete".into()];
    match chosen {
        Some(chosen) => names.extend(chosen.metrics().map(|m| text::cell(&m.symbol).into_owned())),
        None => {
            names.push("gpu_ticks".into());
            names.extend(layout.counters().map(|c| c.to_string()));
        }
    }
    names
}

/// An empty cell is an undefined figure.
fn cells(interval: &Interval<'_>) -> Vec<String> {
    fn or_empty(value: Option<impl ToString>) -> String {
        value.map_or_else(String::new, |v| v.to_string())
    }
    let counts = &interval.counts;
    let mut cells = vec![
        interval.begin_ticks.to_string(),
        or_empty(interval.host.map(|h| h.0)),
        counts.time_ticks().to_string(),
        interval.complete.to_string(),
    ];
    match &interval.figures {
        Some((_, outcomes)) => {
            cells.extend(outcomes.iter().map(|o| or_empty(o.value.as_ref().ok())));
        }
        None => {
            cells.push(or_empty(counts.gpu_ticks()));
            cells.extend(counts.layout().counters().map(|c| or_empty(counts.get(c))));
        }
    }
    cells
}

fn object(interval: &Interval<'_>) -> Value {
    let counts = &interval.counts;
    let mut object = Map::new();
    object.insert("begin_ticks".into(), interval.begin_ticks.into());
    object.insert("host_ns".into(), interval.host.map(|h| h.0).into());
    object.insert("ticks".into(), counts.time_ticks().into());
    object.insert("complete".into(), interval.complete.into());
    match &interval.figures {
        Some((chosen, outcomes)) => {
            for (metric, outcome) in chosen.metrics().zip(outcomes) {
                let value = match &outcome.value {
                    Err(why) => json!({ "undefined": why.to_string() }),
                    Ok(number) => json!(number.as_f64()),
                };
                object.insert(metric.symbol.clone(), value);
            }
        }
        None => {
            for counter in counts.layout().counters() {
                object.insert(counter.to_string(), json!(counts.get(counter)));
            }
        }
    }
    Value::Object(object)
}

fn summary(args: &Decode, decoded: &Decoded, out: &mut impl Write) -> Result<()> {
    let layout = decoded.layout;
    writeln!(
        out,
        "{}: {} ({} bytes), {:?}, decoded as specified",
        args.file.display(),
        layout.name,
        layout.bytes,
        decoded.generation
    )?;
    if let Some(doubt) = layout.doubt {
        writeln!(out, "  note: {doubt}")?;
    }
    if let Some(info) = &decoded.info {
        writeln!(
            out,
            "  recorded on device {:#06x} revision {}, set {} ({})",
            info.device_id, info.revision, info.set, info.uuid
        )?;
    }
    let tally = decoded.tally;
    let reasons: Vec<String> = decoded
        .reasons
        .iter()
        .map(|(words, n)| {
            format!("{n} {}", if words.is_empty() { "without a reason" } else { words })
        })
        .collect();
    writeln!(out, "  reports: {} ({})", tally.reports, reasons.join(", "))?;
    let losses = [
        (tally.reports_lost, "times reports were lost"),
        (tally.buffer_lost, "times the buffer was lost"),
        (tally.unwritten, "reports not written yet, skipped"),
        (tally.short, "reports of the wrong size, skipped"),
        (tally.maybe_missed_wraps, "intervals in which a 32-bit counter may have wrapped twice"),
        (decoded.foreign, "intervals of other contexts, skipped"),
        (decoded.unknown, "records of unknown type, skipped"),
        (decoded.left as u64, "bytes at the end that are no whole report"),
    ];
    for (n, what) in losses.iter().filter(|(n, _)| *n > 0) {
        writeln!(out, "  warning: {n} {what}")?;
    }
    let ticks = decoded.total.time_ticks();
    let time = decoded.hz.and_then(|hz| ticks_to_ns(ticks, hz));
    let seconds = time.map_or(format!("{ticks} ticks (frequency not known: --hz)"), |ns| {
        format!("{:.6} s", ns as f64 * 1e-9)
    });
    writeln!(out, "  time covered: {seconds} in {} intervals", tally.intervals)?;
    if decoded.contexts.keys().any(Option::is_some) {
        let name = |c: &Option<u32>| c.map_or("none or unknown".to_owned(), |c| format!("{c:#x}"));
        let share =
            |t: u64| 100.0 * t as f64 / decoded.contexts.values().sum::<u64>().max(1) as f64;
        let parts: Vec<String> = decoded
            .contexts
            .iter()
            .map(|(c, t)| format!("{} {:.1} %", name(c), share(*t)))
            .collect();
        writeln!(out, "  contexts: {}", parts.join(", "))?;
    }
    match &decoded.chosen {
        Some(chosen) => {
            let set = &chosen.set;
            writeln!(out, "\nset {} ({}, {})", set.symbol, set.chipset, set.origin)?;
            let outcomes = set.evaluate(&decoded.total, &decoded.variables, &chosen.which);
            for (metric, outcome) in chosen.metrics().zip(&outcomes) {
                writeln!(out, "  {:<24} {}", metric.symbol, cell(outcome, &metric.unit))?;
            }
            writeln!(out, "\nvariables")?;
            for (name, value, from) in decoded.variables.iter() {
                writeln!(out, "  ${name:<23} {value:>20}  {from}")?;
            }
        }
        None => {
            let why = if args.counts {
                ""
            } else {
                " (no metric set is built in for this GPU: --metrics DIR reads others)"
            };
            writeln!(out, "\ncounts{why}")?;
            if let Some(ticks) = decoded.total.gpu_ticks() {
                writeln!(out, "  {:<24} {ticks:>20}", "GPU ticks")?;
            }
            for counter in layout.counters() {
                writeln!(
                    out,
                    "  {:<24} {:>20}",
                    counter.to_string(),
                    decoded.total.get(counter).unwrap_or(0)
                )?;
            }
        }
    }
    Ok(())
}

fn cell(outcome: &Outcome, unit: &str) -> String {
    match &outcome.value {
        Err(why) => format!("{:>20}  {why}", "-"),
        Ok(value) => {
            let number = match value {
                clscope_metrics::Number::Int(n) => n.to_string(),
                clscope_metrics::Number::Float(x) => format!("{x:.3}"),
            };
            let notes = [
                (outcome.divided_by_zero, " (a division by zero counts as 0)"),
                (outcome.exceeds_max, " (more than can be: not this set's counts?)"),
            ];
            let notes: String = notes.iter().filter(|(is, _)| *is).map(|(_, n)| *n).collect();
            format!("{number:>20}  {unit}{notes}")
        }
    }
}

fn list<W: Write>(args: &Sets, out: &mut W) -> Result<()> {
    let generations = [Generation::Gen9, Generation::Gen12, Generation::Xe, Generation::Xe2];
    let mut sets: Vec<MetricSet> = generations.into_iter().filter_map(builtin::core).collect();
    if let Some(path) = args.metrics.clone().or_else(directory::installed) {
        sets.append(&mut read_library(&path)?);
    }
    let wanted = |s: &&MetricSet| {
        args.set.as_ref().is_none_or(|n| {
            s.symbol.eq_ignore_ascii_case(n) || s.uuid.is_some_and(|u| u.as_str() == n)
        })
    };
    let mut shown = 0;
    for set in sets.iter().filter(wanted) {
        shown += 1;
        let uuid = set.uuid.map_or(String::new(), |u| format!(" {u}"));
        writeln!(
            out,
            "{} ({}, {}):{uuid} {} figures",
            set.symbol,
            set.chipset,
            set.origin,
            set.metrics.len()
        )?;
        if args.set.is_some() {
            for metric in &set.metrics {
                writeln!(out, "  {:<28} {:<9} {}", metric.symbol, metric.unit, metric.description)?;
            }
        }
    }
    if shown == 0 {
        let name = args.set.as_deref().unwrap_or_default();
        bail!(
            "there is no metric set {name:?}: `clscope oa sets` lists those there are, --metrics DIR reads others"
        );
    }
    Ok(())
}

fn read_library(path: &Path) -> Result<Vec<MetricSet>> {
    let library = directory::read(path)?;
    library.problems.iter().for_each(crate::output::say);
    Ok(library.sets)
}

#[cfg(test)]
mod tests;
