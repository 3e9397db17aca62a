//! `clscope oa`: streams of Intel's observation architecture, decoded, and the metric sets there
//! are. Owns what a recording is taken for and the printing; refuses to guess a format that neither
//! the file nor the user names. Decoded as specified: none of it was checked on a device.
#![forbid(unsafe_code)]

use anyhow::{Context, Result, anyhow, bail};
use clap::{Subcommand, ValueEnum};
use clscope_metrics::set::{MetricSet, Outcome};
use clscope_metrics::variables::{Provenance, Variables};
use clscope_metrics::{builtin, directory};
use clscope_oa::stream::{Bare, DeviceInfo, Record, Records};
use clscope_oa::time::{ClockPair, Placement, ticks_to_ns};
use clscope_oa::topology::Topology;
use clscope_oa::{Accumulator, Continuity, Counts, Format, Generation, Reading, Report};
use clscope_sensors::{RawNs, Stamp};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
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

/// What is known of the stream before its first report.
struct Facts {
    generation: Option<(Generation, bool)>,
    format: Option<Format>,
    hz: Option<u64>,
    info: Option<DeviceInfo>,
    topology: Option<Topology>,
    given: Vec<(String, u64)>,
    reading: Reading,
}

impl Facts {
    fn of(args: &Decode) -> Result<Facts> {
        let named = |name: &String| {
            Generation::by_name(name)
                .ok_or_else(|| anyhow!("no generation {name:?}: gen7 to gen12, dg2, mtl, xe2"))
        };
        let low_power = |name: &String| matches!(name.to_ascii_lowercase().as_str(), "bxt" | "glk");
        let format = |name: &String| {
            let names = || Format::ALL.map(|f| f.layout(Reading::Tables).name).join(", ");
            Format::by_name(name).ok_or_else(|| {
                anyhow!(
                    "no report format {name:?}: {} (hsw_ in front for Haswell's C4_B8)",
                    names()
                )
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
        let generation =
            args.generation.as_ref().map(|g| anyhow::Ok((named(g)?, low_power(g)))).transpose()?;
        Ok(Facts {
            generation,
            format: args.format.as_ref().map(format).transpose()?,
            hz: args.hz.filter(|hz| *hz > 0),
            info: None,
            topology: None,
            given: args.var.iter().map(variable).collect::<Result<_>>()?,
            reading: if args.layouts == Layouts::Igt { Reading::IgtTests } else { Reading::Tables },
        })
    }

    fn generation(&self) -> Option<(Generation, bool)> {
        self.generation.or_else(|| Generation::of_device(self.info.as_ref()?.device_id))
    }

    fn hz(&self) -> Option<u64> {
        self.hz.or_else(|| self.info.as_ref().map(|i| i.timestamp_hz)).filter(|hz| *hz > 0)
    }

    /// The format: as named, as the file's number says (i915), or the generation's widest if the
    /// size fits.
    fn format(&self, sample: Option<usize>) -> Result<Format> {
        let (generation, _) = self
            .generation()
            .ok_or_else(|| anyhow!("neither the file nor --generation names the GPU"))?;
        let fits = |f: &Format| sample.is_none_or(|n| f.layout(self.reading).bytes == n);
        let numbered = self
            .info
            .as_ref()
            .and_then(|i| Format::from_i915(i.oa_format.into(), generation == Generation::Gen7));
        let format =
            self.format.or(numbered.filter(fits)).or(Some(generation.widest_format()).filter(fits));
        let format = format.ok_or_else(|| {
            let size = sample.unwrap_or(0);
            anyhow!("reports of {size} bytes are not what {generation:?} gives by default: name the --format")
        })?;
        if let Some(n) = sample.filter(|n| *n < format.layout(self.reading).bytes) {
            let layout = format.layout(self.reading);
            bail!("the file's reports have {n} bytes, {} needs {}", layout.name, layout.bytes);
        }
        Ok(format)
    }

    fn variables(&self) -> Variables {
        let mut variables = Variables::new();
        if let (Some(topology), Some((generation, low))) = (&self.topology, self.generation()) {
            variables.set_topology(topology, generation, low, &Provenance::Recording);
        }
        if let Some(info) = &self.info {
            let values = [
                ("GpuMinFrequency", u64::from(info.min_hz)),
                ("GpuMaxFrequency", info.max_hz.into()),
                ("SkuRevisionId", info.revision.into()),
            ];
            for (name, value) in values {
                variables.set(name, value, Provenance::Recording);
            }
        }
        if let Some(hz) = self.hz() {
            let from = if self.hz.is_some() { Provenance::User } else { Provenance::Recording };
            variables.set("GpuTimestampFrequency", hz, from);
        }
        variables.set("QueryMode", 0, Provenance::Known("a stream is no query"));
        for (name, value) in &self.given {
            variables.set(name, *value, Provenance::User);
        }
        variables
    }
}

/// The set to evaluate, and the places of the figures in it.
fn choose_set(args: &Decode, facts: &Facts) -> Result<Option<(MetricSet, Vec<usize>)>> {
    if args.counts {
        return Ok(None);
    }
    let generation = facts.generation().map(|(g, _)| g);
    let wanted = args
        .set
        .clone()
        .or_else(|| facts.info.as_ref().map(|i| i.uuid.clone()).filter(|u| !u.is_empty()));
    let mut found = None;
    if let Some(path) = args.metrics.clone().or_else(directory::installed) {
        let library = directory::read(&path)?;
        let uuid = facts.info.as_ref().map(|i| i.uuid.clone()).unwrap_or_default();
        let name = wanted.as_deref().unwrap_or("ComputeBasic");
        // The recording's own configuration decides between sets of one name.
        let mut candidates: Vec<&MetricSet> = library.find(name, None).collect();
        if let Some(own) =
            candidates.iter().position(|s| s.uuid.is_some_and(|u| u.as_str() == uuid))
        {
            candidates = vec![candidates[own]];
        }
        if candidates.len() > 1 && args.set.is_some() {
            let chips: Vec<&str> = candidates.iter().map(|s| s.chipset.as_str()).collect();
            bail!(
                "the set {name} is there for {}: name the file of one GPU with --metrics",
                chips.join(", ")
            );
        }
        found = candidates.first().map(|s| (*s).clone());
    }
    if let (None, Some(name)) = (&found, &args.set)
        && !name.eq_ignore_ascii_case("core")
    {
        bail!(
            "there is no metric set {name:?}: `clscope oa sets` lists those built in, --metrics DIR reads others"
        );
    }
    let set = found.or_else(|| builtin::core(generation?));
    let Some(set) = set else {
        if args.counters.is_empty() {
            return Ok(None);
        }
        bail!("no metric set is built in for this GPU: name a directory with --metrics");
    };
    let which = if args.counters.is_empty() {
        (0..set.metrics.len()).collect()
    } else {
        set.select(&args.counters)?
    };
    Ok(Some((set, which)))
}

/// The state once the first report is known.
struct Running {
    format: Format,
    generation: Generation,
    accumulator: Accumulator,
    placement: Placement,
    variables: Variables,
    set: Option<(MetricSet, Vec<usize>)>,
    total: Counts,
    /// Intervals put together so far.
    pending: Counts,
    pending_from: Option<(u64, Option<RawNs>)>,
    pending_gap: bool,
    reasons: BTreeMap<String, u64>,
    contexts: BTreeMap<Option<u32>, u64>,
    foreign: u64,
}

/// One pass over a stream.
struct Pass<'a, W: Write> {
    args: &'a Decode,
    facts: Facts,
    running: Option<Running>,
    /// Clock pairs that came before the first report.
    pairs: Vec<ClockPair>,
    last_pair: Option<RawNs>,
    unknown: u64,
    out: &'a mut W,
}

impl<W: Write> Pass<'_, W> {
    fn start(&self, sample: Option<usize>) -> Result<Running> {
        let format = self.facts.format(sample)?;
        let (generation, _) = self.facts.generation().context("no generation")?;
        let layout = format.layout(self.facts.reading);
        let mut placement = Placement::new(self.facts.hz().unwrap_or(0));
        self.pairs.iter().for_each(|p| placement.add(*p));
        Ok(Running {
            format,
            generation,
            accumulator: Accumulator::new(layout, generation, self.facts.hz()),
            placement,
            variables: self.facts.variables(),
            set: choose_set(self.args, &self.facts)?,
            total: Counts::zero(layout),
            pending: Counts::zero(layout),
            pending_from: None,
            pending_gap: false,
            reasons: BTreeMap::new(),
            contexts: BTreeMap::new(),
            foreign: 0,
        })
    }

    fn record(&mut self, record: Record<'_>) -> Result<()> {
        match record {
            Record::Sample(report) => self.report(report)?,
            Record::ReportsLost => self.lost(Accumulator::reports_lost),
            Record::BufferLost => {
                self.flush()?;
                self.lost(Accumulator::buffer_lost);
            }
            Record::DeviceInfo(bytes) => self.facts.info = DeviceInfo::parse(bytes),
            Record::Topology(bytes) => self.facts.topology = Topology::from_i915(bytes),
            Record::Correlation(c) => {
                let host = Stamp::exact(RawNs(c.cpu_ns));
                let pair = ClockPair { host, ticks: c.gpu_ticks & ((1 << 36) - 1), bits: 36 };
                self.last_pair = Some(RawNs(c.cpu_ns));
                match &mut self.running {
                    Some(running) => running.placement.add(pair),
                    None => self.pairs.push(pair),
                }
            }
            Record::Version(_) => {}
            Record::Unknown { .. } => self.unknown += 1,
        }
        Ok(())
    }

    fn lost(&mut self, what: fn(&mut Accumulator)) {
        if let Some(running) = &mut self.running {
            running.pending_gap = true;
            what(&mut running.accumulator);
        }
    }

    fn report(&mut self, bytes: &[u8]) -> Result<()> {
        if self.running.is_none() {
            let mut running = self.start(Some(bytes.len()))?;
            if self.args.output == Output::Csv {
                self.head(&mut running)?;
            }
            self.running = Some(running);
        }
        let Some(running) = &mut self.running else { return Ok(()) };
        if let Some(reason) = Report::new(bytes, running.accumulator.layout())
            .and_then(|r| r.reason(running.generation))
        {
            *running.reasons.entry(reason.words()).or_default() += 1;
        }
        let bits = running.accumulator.layout().timestamp_bits();
        let Some(interval) = running.accumulator.push(bytes) else { return Ok(()) };
        *running.contexts.entry(interval.context).or_default() += interval.counts.time_ticks();
        if self.args.context.is_some() && interval.context != self.args.context {
            running.foreign += 1;
            return Ok(());
        }
        running.total.add(interval.counts);
        if self.args.output == Output::Text {
            return Ok(());
        }
        running.pending.add(interval.counts);
        running.pending_gap |= interval.continuity == Continuity::ReportsLost;
        let (placement, last_pair) = (&running.placement, self.last_pair);
        running.pending_from.get_or_insert_with(|| {
            (
                interval.begin,
                last_pair.and_then(|p| placement.place(interval.begin, bits, p)).map(Stamp::mid),
            )
        });
        let enough = match (self.args.every, self.facts.hz()) {
            (Some(ms), Some(hz)) => running.pending.time_ticks() as f64 >= ms * 1e-3 * hz as f64,
            _ => true,
        };
        if enough { self.flush() } else { Ok(()) }
    }

    fn head(&mut self, running: &mut Running) -> Result<()> {
        let mut names =
            vec!["begin_ticks".to_owned(), "host_ns".into(), "ticks".into(), "complete".into()];
        match &running.set {
            Some((set, which)) => names
                .extend(which.iter().filter_map(|i| set.metrics.get(*i)).map(|m| m.symbol.clone())),
            None => {
                names.push("gpu_ticks".into());
                names.extend(running.total.layout().counters().map(|c| c.to_string()));
            }
        }
        csv::Writer::from_writer(&mut *self.out)
            .write_record(names.iter().map(|name| clscope_io::text::cell(name).into_owned()))
            .context("could not write the output")
    }

    /// Writes the intervals put together so far.
    fn flush(&mut self) -> Result<()> {
        let Some(running) = &mut self.running else { return Ok(()) };
        let Some((begin, host)) = running.pending_from.take() else { return Ok(()) };
        let layout = running.pending.layout();
        let counts = std::mem::replace(&mut running.pending, Counts::zero(layout));
        let whole = !std::mem::take(&mut running.pending_gap);
        let figures = running
            .set
            .as_ref()
            .map(|(set, which)| (set, which, set.evaluate(&counts, &running.variables, which)));
        if self.args.output == Output::Csv {
            let mut cells = vec![
                begin.to_string(),
                host.map_or(String::new(), |h| h.0.to_string()),
                counts.time_ticks().to_string(),
                whole.to_string(),
            ];
            match &figures {
                // An empty cell is an undefined figure.
                Some((_, _, outcomes)) => cells.extend(
                    outcomes
                        .iter()
                        .map(|o| o.value.as_ref().map_or(String::new(), ToString::to_string)),
                ),
                None => {
                    cells.push(counts.gpu_ticks().map_or(String::new(), |n| n.to_string()));
                    cells.extend(
                        layout
                            .counters()
                            .map(|c| counts.get(c).map_or(String::new(), |n| n.to_string())),
                    );
                }
            }
            return csv::Writer::from_writer(&mut *self.out)
                .write_record(&cells)
                .context("could not write the output");
        }
        let mut object = Map::new();
        object.insert("begin_ticks".into(), begin.into());
        object.insert("host_ns".into(), host.map(|h| h.0).into());
        object.insert("ticks".into(), counts.time_ticks().into());
        object.insert("complete".into(), whole.into());
        match figures {
            Some((set, which, outcomes)) => {
                for (metric, outcome) in
                    which.iter().filter_map(|i| set.metrics.get(*i)).zip(outcomes)
                {
                    let value = outcome.value.map_or_else(
                        |why| json!({ "undefined": why.to_string() }),
                        |n| json!(n.as_f64()),
                    );
                    object.insert(metric.symbol.clone(), value);
                }
            }
            None => {
                for counter in layout.counters() {
                    object.insert(counter.to_string(), json!(counts.get(counter)));
                }
            }
        }
        serde_json::to_writer(&mut *self.out, &Value::Object(object))?;
        self.out.write_all(b"\n").context("could not write the output")
    }
}

/// Whether the first bytes are no record: the one mistake that is easy to make.
fn looks_bare(head: &[u8]) -> bool {
    let Some(head) = head.get(..8) else { return false };
    let kind = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
    let (pad, size) =
        (u16::from_le_bytes([head[4], head[5]]), u16::from_le_bytes([head[6], head[7]]));
    !(matches!(kind, 1..=7 | 0x1_0000..=0x1_00ff) && pad == 0 && size >= 8)
}

fn decode<W: Write>(args: &Decode, out: &mut W) -> Result<()> {
    let shown = args.file.display();
    let file =
        clscope_io::input::open(&args.file).with_context(|| format!("cannot open {shown}"))?;
    let mut input = BufReader::with_capacity(1 << 20, file);
    if !args.raw && looks_bare(input.fill_buf().with_context(|| format!("cannot read {shown}"))?) {
        bail!(
            "{shown} does not begin with an OA record: if it holds bare reports (xe, a dump of the buffer), add --raw and name the --generation"
        );
    }
    let mut pass = Pass {
        args,
        facts: Facts::of(args)?,
        running: None,
        pairs: Vec::new(),
        last_pair: None,
        unknown: 0,
        out,
    };
    let mut records = Records::new();
    let mut bare = if args.raw {
        Some(Bare::new(pass.facts.format(None)?.layout(pass.facts.reading).bytes))
    } else {
        None
    };
    let mut broken = None;
    while broken.is_none() {
        let chunk = input.fill_buf().with_context(|| format!("cannot read {shown}"))?;
        let n = chunk.len();
        if n == 0 {
            break;
        }
        let mut failed = Ok(());
        let mut keep = |result: Result<()>| {
            if failed.is_ok() {
                failed = result;
            }
        };
        match &mut bare {
            Some(bare) => bare.feed(chunk, &mut |report| keep(pass.report(report))),
            // What came before the damage is shown.
            None => broken = records.feed(chunk, &mut |record| keep(pass.record(record))).err(),
        }
        failed?;
        input.consume(n);
    }
    pass.flush()?;
    let left = bare.as_ref().map_or(records.unfinished(), Bare::unfinished);
    if args.output == Output::Text {
        summary(&mut pass, left)?;
    }
    match broken {
        Some(error) => Err(error).with_context(|| format!("{shown}: decoded up to the damage")),
        None if pass.running.is_none() => bail!("{shown} holds no report"),
        None => Ok(()),
    }
}

fn summary<W: Write>(pass: &mut Pass<'_, W>, left: usize) -> Result<()> {
    let (out, args) = (&mut *pass.out, pass.args);
    let Some(running) = &pass.running else { return Ok(()) };
    let layout = running.format.layout(pass.facts.reading);
    writeln!(
        out,
        "{}: {} ({} bytes), {:?}, decoded as specified",
        args.file.display(),
        layout.name,
        layout.bytes,
        running.generation
    )?;
    if let Some(doubt) = layout.doubt {
        writeln!(out, "  note: {doubt}")?;
    }
    if let Some(info) = &pass.facts.info {
        writeln!(
            out,
            "  recorded on device {:#06x} revision {}, set {} ({})",
            info.device_id, info.revision, info.set, info.uuid
        )?;
    }
    let tally = running.accumulator.tally();
    let reasons: Vec<String> = running
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
        (running.foreign, "intervals of other contexts, skipped"),
        (pass.unknown, "records of unknown type, skipped"),
        (left as u64, "bytes at the end that are no whole report"),
    ];
    for (n, what) in losses.iter().filter(|(n, _)| *n > 0) {
        writeln!(out, "  warning: {n} {what}")?;
    }
    let ticks = running.total.time_ticks();
    let time = pass.facts.hz().and_then(|hz| ticks_to_ns(ticks, hz));
    let seconds = time.map_or(format!("{ticks} ticks (frequency not known: --hz)"), |ns| {
        format!("{:.6} s", ns as f64 * 1e-9)
    });
    writeln!(out, "  time covered: {seconds} in {} intervals", tally.intervals)?;
    if running.contexts.keys().any(Option::is_some) {
        let name = |c: &Option<u32>| c.map_or("none or unknown".to_owned(), |c| format!("{c:#x}"));
        let share =
            |t: u64| 100.0 * t as f64 / running.contexts.values().sum::<u64>().max(1) as f64;
        let parts: Vec<String> = running
            .contexts
            .iter()
            .map(|(c, t)| format!("{} {:.1} %", name(c), share(*t)))
            .collect();
        writeln!(out, "  contexts: {}", parts.join(", "))?;
    }
    match &running.set {
        Some((set, which)) => {
            writeln!(out, "\nset {} ({}, {})", set.symbol, set.chipset, set.origin)?;
            let outcomes = set.evaluate(&running.total, &running.variables, which);
            for (metric, outcome) in which.iter().filter_map(|i| set.metrics.get(*i)).zip(&outcomes)
            {
                writeln!(out, "  {:<24} {}", metric.symbol, cell(outcome, &metric.unit))?;
            }
            writeln!(out, "\nvariables")?;
            for (name, value, from) in running.variables.iter() {
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
            if let Some(ticks) = running.total.gpu_ticks() {
                writeln!(out, "  {:<24} {ticks:>20}", "GPU ticks")?;
            }
            for counter in layout.counters() {
                writeln!(
                    out,
                    "  {:<24} {:>20}",
                    counter.to_string(),
                    running.total.get(counter).unwrap_or(0)
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
