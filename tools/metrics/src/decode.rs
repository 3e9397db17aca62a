//! A recorded stream of Intel's observation architecture as figures of a metric set: i915 records,
//! recordings of igt's tools, or bare reports. Owns what a recording is taken for and the joining
//! of intervals; refuses to guess a format that neither the stream nor the caller names, and to
//! print. Decoded as specified: none of it was checked on a device.

use crate::directory::DirectoryError;
use crate::set::{MetricSet, SetFigure, UnknownMetric};
use crate::variables::{Provenance, Variables};
use crate::{builtin, directory};
use clscope_oa::stream::{Bare, DeviceInfo, Record, Records, StreamError};
use clscope_oa::time::{ClockPair, Placement};
use clscope_oa::topology::Topology;
use clscope_oa::{
    Accumulator, Continuity, Counts, Format, Generation, Layout, Published, Report, Tally,
};
use clscope_sensors::{RawNs, Stamp};
use std::collections::BTreeMap;
use std::io::{self, BufRead};
use std::path::PathBuf;

/// What the caller says of a stream.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Bare reports without records: what xe gives, or a dump of the OA buffer.
    pub bare: bool,
    /// Report format; else as the stream or the generation says.
    pub format: Option<Format>,
    /// Which published layout to follow where two differ.
    pub reading: Published,
    /// Generation, and whether it is one of low power; else by the device id in the stream.
    pub generation: Option<(Generation, bool)>,
    /// Frequency of the OA timestamp; else as the stream says.
    pub hz: Option<u64>,
    /// Metric set, by name or UUID; else the one in the stream, else what is built in.
    pub set: Option<String>,
    /// Directory (or file) with the metric sets' XML; else what is installed.
    pub metrics: Option<PathBuf>,
    /// The raw counters themselves instead of a set's figures.
    pub counts: bool,
    /// Figures of the set; all where there are none.
    pub counters: Vec<String>,
    /// Variables of the equations.
    pub given: Vec<(String, u64)>,
}

/// Why a stream cannot be decoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // fields are named in the messages
pub enum DecodeError {
    /// It cannot be read, or its intervals cannot be written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The output does not take its last lines.
    #[error("could not write the output")]
    Write(#[source] io::Error),
    /// It begins with something else.
    #[error(
        "does not begin with an OA record: if it holds bare reports (xe, a dump of the buffer), name the generation with --stream bare,generation="
    )]
    NoRecord,
    /// It ends before its first report.
    #[error("holds no report")]
    NoReport,
    /// It is damaged before its first report.
    #[error(transparent)]
    Damaged(StreamError),
    /// Nobody says which GPU it is of.
    #[error("neither the file nor --stream generation= names the GPU")]
    NoGeneration,
    /// Its reports have another size than the generation's.
    #[error(
        "reports of {bytes} bytes are not what {generation:?} gives by default: name the format with --stream reports="
    )]
    NoFormat { bytes: usize, generation: Generation },
    /// Its reports are shorter than the format.
    #[error("the file's reports have {bytes} bytes, {format} needs {needed}")]
    Short { bytes: usize, format: &'static str, needed: usize },
    /// Metric sets cannot be read.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// Sets of one name exist for several GPUs.
    #[error("the set {name} is there for {chips}: name the file of one GPU with --metrics")]
    SeveralSets { name: String, chips: String },
    /// There is no such set.
    #[error(
        "there is no metric set {0:?}: `clscope oa sets` lists those built in, --metrics DIR reads others"
    )]
    UnknownSet(String),
    /// Nothing is built in.
    #[error("no metric set is built in for this GPU: name a directory with --metrics")]
    NoSet,
    /// A figure is not in the set.
    #[error(transparent)]
    UnknownMetric(#[from] UnknownMetric),
}

/// A set, and the places of the figures in it that were asked for.
#[derive(Debug, Clone)]
pub struct Chosen {
    /// The set.
    pub set: MetricSet,
    /// Places in it.
    pub which: Vec<usize>,
}

impl Chosen {
    /// The metrics, in order.
    pub fn metrics(&self) -> impl Iterator<Item = &crate::set::Metric> {
        self.which.iter().filter_map(|i| self.set.metrics.get(*i))
    }
}

/// An interval between reports, or several of them put together.
#[derive(Clone)]
pub struct Interval<'d> {
    /// The timestamp of its beginning.
    pub begin_ticks: u64,
    /// The same on the host, where the stream relates the clocks.
    pub host: Option<RawNs>,
    /// What was counted.
    pub counts: Counts,
    /// Whether no report was lost in it.
    pub complete: bool,
    /// The set and its figures, in the order of [`Chosen::which`]; `None` where counts are shown.
    pub figures: Option<(&'d Chosen, Vec<SetFigure>)>,
}

/// Takes intervals as they come.
pub type Each<'e> = &'e mut dyn FnMut(&Interval<'_>) -> io::Result<()>;

/// A stream, summed up.
#[derive(Clone)]
pub struct Decoded {
    /// Layout of its reports.
    pub layout: &'static Layout,
    /// The GPU's generation.
    pub generation: Generation,
    /// What the stream says of the device.
    pub info: Option<DeviceInfo>,
    /// Frequency of the timestamp.
    pub hz: Option<u64>,
    /// Reports and losses.
    pub tally: Tally,
    /// Reports by why they were written.
    pub reasons: BTreeMap<String, u64>,
    /// Ticks by context.
    pub contexts: BTreeMap<Option<u32>, u64>,
    /// Records of unknown type, left out.
    pub unknown: u64,
    /// Bytes at the end that are no whole report.
    pub left: usize,
    /// Sums over all intervals.
    pub total: Counts,
    /// What the equations were given.
    pub variables: Variables,
    /// The set that was evaluated.
    pub chosen: Option<Chosen>,
    /// Where the stream ends to make sense; what came before is decoded.
    pub damage: Option<StreamError>,
}

/// Decodes a stream to its end, or to where it is damaged.
///
/// # Errors
/// If nothing of it can be decoded, or a set or figure named does not exist.
pub fn decode(
    input: &mut dyn BufRead,
    options: &Options,
    each: Option<Each<'_>>,
) -> Result<Decoded, DecodeError> {
    if !options.bare && looks_bare(input.fill_buf()?) {
        return Err(DecodeError::NoRecord);
    }
    let facts = Facts { options, info: None, topology: None };
    let mut bare = if options.bare {
        Some(Bare::new(facts.format(None)?.layout(options.reading).bytes))
    } else {
        None
    };
    let mut pass =
        Pass { facts, running: None, pairs: Vec::new(), last_pair: None, unknown: 0, each };
    let mut records = Records::new();
    let mut damage = None;
    while damage.is_none() {
        let chunk = input.fill_buf()?;
        let n = chunk.len();
        if n == 0 {
            break;
        }
        let mut failed = Ok(());
        let mut keep = |result: Result<(), DecodeError>| {
            if failed.is_ok() {
                failed = result;
            }
        };
        match &mut bare {
            Some(bare) => bare.feed(chunk, &mut |report| keep(pass.report(report))),
            // What came before the damage is shown.
            None => damage = records.feed(chunk, &mut |record| keep(pass.record(record))).err(),
        }
        failed?;
        input.consume(n);
    }
    let left = bare.as_ref().map_or(records.unfinished(), Bare::unfinished);
    let (hz, info) = (pass.facts.hz(), pass.facts.info);
    let Some(running) = pass.running else {
        return Err(damage.map_or(DecodeError::NoReport, DecodeError::Damaged));
    };
    Ok(Decoded {
        layout: running.accumulator.layout(),
        generation: running.generation,
        info,
        hz,
        tally: running.accumulator.tally(),
        reasons: running.reasons,
        contexts: running.contexts,
        unknown: pass.unknown,
        left,
        total: running.total,
        variables: running.variables,
        chosen: running.chosen,
        damage,
    })
}

/// Whether the first bytes are no record: the one mistake that is easy to make.
fn looks_bare(head: &[u8]) -> bool {
    let Some(&[a, b, c, d, e, f, g, h]) = head.first_chunk() else { return false };
    let kind = u32::from_le_bytes([a, b, c, d]);
    let (pad, size) = (u16::from_le_bytes([e, f]), u16::from_le_bytes([g, h]));
    !(matches!(kind, 1..=7 | 0x1_0000..=0x1_00ff) && pad == 0 && size >= 8)
}

/// What is known of the stream before its first report.
struct Facts<'o> {
    options: &'o Options,
    info: Option<DeviceInfo>,
    topology: Option<Topology>,
}

impl Facts<'_> {
    fn generation(&self) -> Option<(Generation, bool)> {
        self.options.generation.or_else(|| Generation::of_device(self.info.as_ref()?.device_id))
    }

    fn hz(&self) -> Option<u64> {
        self.options
            .hz
            .filter(|hz| *hz > 0)
            .or_else(|| self.info.as_ref().map(|i| i.timestamp_hz))
            .filter(|hz| *hz > 0)
    }

    /// The format: as named, as the stream's number says (i915), or the generation's widest if the
    /// size fits.
    fn format(&self, sample: Option<usize>) -> Result<Format, DecodeError> {
        let (generation, _) = self.generation().ok_or(DecodeError::NoGeneration)?;
        let bytes_of = |f: &Format| f.layout(self.options.reading).bytes;
        let fits = |f: &Format| sample.is_none_or(|n| bytes_of(f) == n);
        let numbered = self
            .info
            .as_ref()
            .and_then(|i| Format::from_i915(i.oa_format.into(), generation == Generation::Gen7));
        let format = self
            .options
            .format
            .or(numbered.filter(fits))
            .or(Some(generation.widest_format()).filter(fits))
            .ok_or(DecodeError::NoFormat { bytes: sample.unwrap_or(0), generation })?;
        match sample.filter(|n| *n < bytes_of(&format)) {
            Some(bytes) => Err(DecodeError::Short {
                bytes,
                format: format.layout(self.options.reading).name,
                needed: bytes_of(&format),
            }),
            None => Ok(format),
        }
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
            let user = self.options.hz.is_some_and(|hz| hz > 0);
            let from = if user { Provenance::User } else { Provenance::Recording };
            variables.set("GpuTimestampFrequency", hz, from);
        }
        variables.set("QueryMode", 0, Provenance::Known("a stream is no query"));
        for (name, value) in &self.options.given {
            variables.set(name, *value, Provenance::User);
        }
        variables
    }

    /// The set to evaluate, and the places of the figures in it.
    fn choose(&self) -> Result<Option<Chosen>, DecodeError> {
        let options = self.options;
        if options.counts {
            return Ok(None);
        }
        let uuid = self.info.as_ref().map(|i| i.uuid.clone()).filter(|u| !u.is_empty());
        let wanted = options.set.clone().or_else(|| uuid.clone());
        let mut found = None;
        if let Some(path) = options.metrics.clone().or_else(directory::installed) {
            let library = directory::read(&path)?;
            let name = wanted.as_deref().unwrap_or("ComputeBasic");
            let mut candidates: Vec<&MetricSet> = library.find(name, None).collect();
            // The recording's own configuration decides between sets of one name.
            let own = |s: &&&MetricSet| s.uuid.is_some_and(|u| Some(u.as_str()) == uuid.as_deref());
            if let Some(own) = candidates.iter().find(own).copied() {
                candidates = vec![own];
            }
            if candidates.len() > 1 && options.set.is_some() {
                let chips: Vec<&str> = candidates.iter().map(|s| s.chipset.as_str()).collect();
                return Err(DecodeError::SeveralSets {
                    name: name.to_owned(),
                    chips: chips.join(", "),
                });
            }
            found = candidates.first().map(|s| (*s).clone());
        }
        if let (None, Some(name)) = (&found, &options.set)
            && !name.eq_ignore_ascii_case("core")
        {
            return Err(DecodeError::UnknownSet(name.clone()));
        }
        let core = || builtin::core(self.generation()?.0);
        let Some(set) = found.or_else(core) else {
            return if options.counters.is_empty() { Ok(None) } else { Err(DecodeError::NoSet) };
        };
        let which = if options.counters.is_empty() {
            (0..set.metrics.len()).collect()
        } else {
            set.select(&options.counters)?
        };
        Ok(Some(Chosen { set, which }))
    }
}

/// The state once the first report is known.
struct Running {
    generation: Generation,
    accumulator: Accumulator,
    placement: Placement,
    variables: Variables,
    chosen: Option<Chosen>,
    total: Counts,
    /// Whether reports were lost since the last interval.
    gap: bool,
    reasons: BTreeMap<String, u64>,
    contexts: BTreeMap<Option<u32>, u64>,
}

/// One pass over a stream.
struct Pass<'o, 'e> {
    facts: Facts<'o>,
    running: Option<Running>,
    /// Clock pairs that came before the first report.
    pairs: Vec<ClockPair>,
    last_pair: Option<RawNs>,
    unknown: u64,
    each: Option<Each<'e>>,
}

impl Pass<'_, '_> {
    fn start(&self, sample: usize) -> Result<Running, DecodeError> {
        let format = self.facts.format(Some(sample))?;
        let (generation, _) = self.facts.generation().ok_or(DecodeError::NoGeneration)?;
        let layout = format.layout(self.facts.options.reading);
        let mut placement = Placement::new(self.facts.hz().unwrap_or(0));
        self.pairs.iter().for_each(|p| placement.add(*p));
        Ok(Running {
            generation,
            accumulator: Accumulator::new(layout, generation, self.facts.hz()),
            placement,
            variables: self.facts.variables(),
            chosen: self.facts.choose()?,
            total: Counts::zero(layout),
            gap: false,
            reasons: BTreeMap::new(),
            contexts: BTreeMap::new(),
        })
    }

    fn record(&mut self, record: Record<'_>) -> Result<(), DecodeError> {
        match record {
            Record::Sample(report) => self.report(report)?,
            Record::ReportsLost => self.lost(Accumulator::reports_lost),
            Record::BufferLost => self.lost(Accumulator::buffer_lost),
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
            running.gap = true;
            what(&mut running.accumulator);
        }
    }

    fn report(&mut self, bytes: &[u8]) -> Result<(), DecodeError> {
        if self.running.is_none() {
            self.running = Some(self.start(bytes.len())?);
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
        running.total.add(interval.counts);
        let complete =
            !std::mem::take(&mut running.gap) && interval.continuity != Continuity::ReportsLost;
        let Some(each) = &mut self.each else { return Ok(()) };
        let placed = self.last_pair.and_then(|p| running.placement.place(interval.begin, bits, p));
        let figures = running
            .chosen
            .as_ref()
            .map(|c| (c, c.set.evaluate(interval.counts, &running.variables, &c.which)));
        Ok(each(&Interval {
            begin_ticks: interval.begin,
            host: placed.map(Stamp::mid),
            counts: interval.counts.clone(),
            complete,
            figures,
        })?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clscope_oa::testing::{Writer, timer_id};

    /// Six bare reports, each a thousand ticks after the one before.
    fn stream() -> (Vec<u8>, Options) {
        let options = Options {
            bare: true,
            format: Some(Format::A32u40A4u32B8C8),
            generation: Some((Generation::Gen9, false)),
            hz: Some(12_000_000),
            ..Options::default()
        };
        let mut writer = Writer::new(Format::A32u40A4u32B8C8.layout(Published::Tables));
        let reports = (0..6).flat_map(|_| {
            let report = writer.report(timer_id(), 7);
            writer.advance(1_000, 800);
            writer.add(1, 400);
            report
        });
        (reports.collect(), options)
    }

    #[test]
    fn intervals_add_up_to_the_whole() {
        let (bytes, options) = stream();
        let whole = decode(&mut &bytes[..], &options, None).unwrap();
        assert_eq!((whole.tally.reports, whole.total.time_ticks()), (6, 5_000));
        let (mut ticks, mut pieces) = (0, 0);
        let mut each = |interval: &Interval<'_>| {
            assert!(interval.complete && interval.figures.is_some());
            ticks += interval.counts.time_ticks();
            pieces += 1;
            Ok(())
        };
        let again = decode(&mut &bytes[..], &options, Some(&mut each)).unwrap();
        assert_eq!((pieces, ticks, again.total.time_ticks()), (5, 5_000, 5_000));
    }

    #[test]
    fn a_sink_that_fails_ends_the_decoding() {
        let (bytes, options) = stream();
        let mut each = |_: &Interval<'_>| Err(io::Error::other("full"));
        let error = decode(&mut &bytes[..], &options, Some(&mut each)).err().unwrap();
        assert!(matches!(error, DecodeError::Io(_)), "{error}");
    }

    #[test]
    fn what_is_no_stream_is_refused() {
        let options = Options::default();
        let decoded = |bytes: &[u8]| decode(&mut &bytes[..], &options, None);
        assert!(matches!(decoded(&[7; 16]), Err(DecodeError::NoRecord)));
        assert!(matches!(decoded(&[]), Err(DecodeError::NoReport)));
    }
}
