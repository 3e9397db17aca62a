//! Owns the writing of `sensors.clt`: readings and events of the sampler become records, blocks are
//! appended whole. The sampler of `clscope record` and the one inside an application write with it.
//! Refuses to stop anything when a write fails: it reports that once and goes on without.
#![forbid(unsafe_code)]

mod blocks;
pub mod host;

pub use blocks::Blocks;

use clscope_oa::{Continuity, CounterSource, CounterValue, CounterWindow};
use clscope_sensors::doctor::State;
use clscope_sensors::sampler::{SamplerEvent, SeriesId, Sink, Summary};
use clscope_sensors::{Domain, Quantity, RawNs, Reading, RealtimeNs, SourceKind, Value, doctor};
use clscope_trace::file::Clock;
use clscope_trace::sensors::{
    self, Anchor, Cost, Finding, Readings, Record, Series, SourceCost, Updates,
};
use std::io::Write;
use std::path::Path;

/// A block is written when its readings take this many bytes, or after [`MOST_NS`].
const MOST_BYTES: usize = 256 << 10;
/// Longest time for which readings are only in memory: what a kill of the sampler loses.
const MOST_NS: u64 = 1_000_000_000;

/// The clocks of this process, which readings are stamped with.
#[derive(Debug, Clone, Copy)]
pub struct Clocks;

impl clscope_sensors::Clock for Clocks {
    fn raw(&mut self) -> RawNs {
        RawNs(clscope_clock::monotonic_raw().0)
    }
    fn realtime(&mut self) -> Option<RealtimeNs> {
        Some(RealtimeNs(clscope_clock::realtime().0))
    }
}

/// The file while it is written.
pub struct Store {
    file: Blocks,
    /// Whole records, but readings.
    records: Vec<u8>,
    /// Rows by series.
    rows: Vec<Vec<u8>>,
    /// Names by series.
    names: Vec<String>,
    pending: usize,
    written_ns: u64,
    /// Whether a source buffers readings itself, so that the end of a run appears a little later.
    pub buffered: bool,
}

/// A state's name in files.
pub fn state_name(state: &State) -> &'static str {
    match state {
        State::Absent => "absent",
        State::Refused(_) => "refused",
        State::Opened => "opened",
        State::Works => "works",
        State::Dead(_) => "dead",
        State::Skipped(_) => "skipped",
    }
}

fn quantity(of: &Quantity) -> sensors::Quantity {
    match of {
        Quantity::Energy { .. } => sensors::Quantity::Energy,
        Quantity::Power { .. } => sensors::Quantity::Power,
        Quantity::Clock => sensors::Quantity::Clock,
        Quantity::Temperature => sensors::Quantity::Temperature,
        Quantity::Percent => sensors::Quantity::Percent,
        Quantity::Bandwidth => sensors::Quantity::Bandwidth,
        Quantity::Flags => sensors::Quantity::Flags,
        _ => sensors::Quantity::Unknown,
    }
}

fn value(of: Value) -> u64 {
    match of {
        Value::Counter(n) | Value::Bits(n) => n,
        Value::Energy(e) => e.0,
        Value::Power(p) => p.0,
        Value::Megahertz(x) | Value::Percent(x) | Value::MebibytesPerSecond(x) => x.to_bits(),
        Value::Millicelsius(t) => t as u64,
        _ => 0,
    }
}

/// The series of a domain as the file holds it.
pub fn series(id: u32, source: &str, domain: &Domain) -> Series {
    let device = domain.device.clone().unwrap_or_default();
    let (window_ns, unit) = match domain.quantity {
        Quantity::Power { window_ns } => (window_ns, (0, 0)),
        Quantity::Energy { unit, .. } => (None, unit.as_fraction()),
        _ => (None, (0, 0)),
    };
    Series {
        id,
        source: source.to_owned(),
        name: domain.name.clone(),
        quantity: quantity(&domain.quantity),
        plane: domain.plane.as_ref().map(ToString::to_string).unwrap_or_default(),
        package: domain.package,
        pci: device.pci,
        uuid: device.uuid,
        device: device.name,
        includes: domain.includes.map(str::to_owned),
        window_ns,
        count_numerator: unit.0,
        count_denominator: unit.1,
    }
}

/// A reading as the file holds it.
pub fn reading(of: &Reading) -> sensors::Reading {
    sensors::Reading {
        time: of.stamp.mid().0,
        value: value(of.value),
        bracket_ns: u32::try_from(of.stamp.uncertainty_ns()).unwrap_or(u32::MAX),
        mean_over_us: of.mean_over_ns.map_or(0, |ns| u32::try_from(ns / 1000).unwrap_or(u32::MAX)),
    }
}

/// A source of counters as the file holds it: its name, its counters, what reading it does.
pub fn counter_source(of: &dyn CounterSource) -> sensors::CounterSource {
    sensors::CounterSource {
        name: of.name().to_owned(),
        counters: of.counters().iter().map(|c| c.name.clone()).collect(),
        side_effect: of.side_effect().unwrap_or_default().to_owned(),
        ..sensors::CounterSource::default()
    }
}

/// A window of counters as the file holds it.
pub fn counter_window(of: &CounterWindow<'_>) -> sensors::CounterWindow {
    let within = [of.begin, of.end].iter().flatten().map(|s| s.uncertainty_ns()).max().unwrap_or(0);
    let count = |value: &CounterValue| match value {
        CounterValue::Count(n) | CounterValue::Scaled { estimate: n, .. } => Some(*n),
        CounterValue::Mean(_) | CounterValue::Absent => None,
    };
    sensors::CounterWindow {
        host: of.begin.zip(of.end).map(|(b, e)| (b.mid().0, e.mid().0)),
        ticks: of.device_ticks,
        within_ns: u32::try_from(within).unwrap_or(u32::MAX),
        broken: of.continuity != Continuity::Whole,
        context: of.context,
        counts: of.values.iter().map(count).collect(),
        ..sensors::CounterWindow::default()
    }
}

impl Store {
    /// Makes the file.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn create(path: &Path) -> std::io::Result<Self> {
        Ok(Self::begin(Blocks::create(path)?))
    }

    /// Begins a file behind a writer, each of whose calls appends whole.
    ///
    /// # Errors
    /// If the header cannot be made or written.
    pub fn over(file: Box<dyn Write + Send>) -> std::io::Result<Self> {
        Ok(Self::begin(Blocks::over(file)?))
    }

    fn begin(file: Blocks) -> Self {
        let mut store = Self {
            file,
            records: Vec::new(),
            rows: Vec::new(),
            names: Vec::new(),
            pending: 0,
            written_ns: clscope_clock::monotonic_raw().0,
            buffered: false,
        };
        store.anchor();
        store
    }

    fn put(&mut self, record: impl Into<Record<'static>>) {
        sensors::encode(&record.into(), &mut self.records);
    }

    /// Notes an event that is not the sampler's.
    pub fn note(&mut self, time: u64, code: &str, text: &str) {
        self.put(sensors::Event {
            time,
            code: code.to_owned(),
            text: text.to_owned(),
            ..Default::default()
        });
    }

    fn anchor(&mut self) {
        let a = clscope_clock::anchor(Clock::MonotonicRaw);
        self.put(Anchor { raw: a.raw, monotonic: a.monotonic, realtime: a.realtime });
    }

    /// Notes what was looked for.
    pub fn findings(&mut self, findings: &[doctor::SensorFinding]) {
        for finding in findings {
            let mut why = finding.why.clone().unwrap_or_default();
            for problem in &finding.problems {
                why = if why.is_empty() { problem.clone() } else { format!("{why}; {problem}") };
            }
            let state = state_name(&finding.state).to_owned();
            self.put(Finding {
                name: finding.name.clone(),
                state,
                why,
                remedy: finding.remedy.clone().unwrap_or_default(),
            });
        }
    }

    /// Notes the cost so far.
    pub fn cost(&mut self, now: u64, summary: &Summary) {
        self.put(Cost { time: now, wall_ns: summary.wall_ns, cpu_ns: summary.cpu_ns });
        for s in &summary.sources {
            self.put(SourceCost {
                source: s.name.clone(),
                reads: s.reads,
                failures: s.failures,
                cpu_ns: s.cpu_ns,
                wall_ns: s.wall_ns,
                every_ns: s.every_ns,
                duplicates: s.health.duplicates,
                late: s.health.late,
                missing: s.health.missing,
                refused: s.health.refused,
                lost: s.lost,
            });
        }
    }

    /// Writes what is pending, if it is much or old.
    pub fn tick(&mut self, now: u64) {
        if self.pending >= MOST_BYTES || now.saturating_sub(self.written_ns) >= MOST_NS {
            self.anchor();
            self.flush(now);
        }
    }

    /// Writes what is pending.
    pub fn flush(&mut self, now: u64) {
        self.written_ns = now;
        self.pending = 0;
        let mut payload = std::mem::take(&mut self.records);
        for (id, rows) in (0u32..).zip(&mut self.rows) {
            if !rows.is_empty() {
                sensors::encode(&Record::Readings(Readings::new(id, rows)), &mut payload);
                rows.clear();
            }
        }
        self.file.append(&payload);
    }

    /// Why nothing more is written, if that is so.
    pub fn failure(&self) -> Option<&std::io::Error> {
        self.file.failure()
    }
}

impl Sink for Store {
    fn series(&mut self, id: SeriesId, source: &str, domain: &Domain) {
        self.buffered |= SourceKind::of_source(source).is_buffered();
        let count = self.rows.len().max(id.0 as usize + 1);
        self.rows.resize(count, Vec::new());
        self.names.resize(count, String::new());
        if let Some(name) = self.names.get_mut(id.0 as usize) {
            domain.name.clone_into(name);
        }
        self.put(series(id.0, source, domain));
    }

    fn reading(&mut self, id: SeriesId, of: &Reading) {
        if let Some(rows) = self.rows.get_mut(id.0 as usize) {
            reading(of).append_to(rows);
            self.pending += sensors::ROW;
        }
    }

    fn event(&mut self, event: SamplerEvent<'_>) {
        let time = clscope_clock::monotonic_raw().0;
        let of =
            |code: &str, series: Option<SeriesId>, source: &str, text: String| sensors::Event {
                time,
                code: code.to_owned(),
                series: series.map(|s| s.0),
                source: source.to_owned(),
                text,
            };
        match event {
            SamplerEvent::Works(series) => self.put(of("works", Some(series), "", String::new())),
            SamplerEvent::Dead { series, observed_ns, all_zero } => {
                let what = if all_zero { "reads 0" } else { "does not move" };
                self.put(of(
                    "dead",
                    Some(series),
                    "",
                    format!("{what} for {:.1} s: present, not working", observed_ns as f64 * 1e-9),
                ));
            }
            SamplerEvent::Stalled { series, still_ns } => {
                self.put(of(
                    "stalled",
                    Some(series),
                    "",
                    format!("stands still for {:.1} s", still_ns as f64 * 1e-9),
                ));
            }
            SamplerEvent::Jumped { series, at } => {
                let mut event = of(
                    "jumped",
                    Some(series),
                    "",
                    "jumped or went backwards: its energy has a gap".to_owned(),
                );
                event.time = at.0;
                self.put(event);
            }
            SamplerEvent::Repeats { series, first } => {
                let name = self.names.get(first.0 as usize).map_or("", String::as_str);
                let text = format!("shows the counter of {name} once more: it counts once");
                self.put(of("repeats", Some(series), "", text));
            }
            SamplerEvent::Trouble { source, error } => {
                self.put(of("trouble", None, source, error.to_string()))
            }
            SamplerEvent::Lost { source, error } => {
                self.put(of("lost", None, source, error.to_string()))
            }
            SamplerEvent::Paced { updates: (series, updates), every_ns, .. } => {
                self.put(match updates {
                    Ok(u) => Updates {
                        series: series.0,
                        period_ns: u.period_ns,
                        period_error_ns: u.period_error_ns,
                        jitter_ns: u.jitter_ns,
                        every_ns,
                        none: String::new(),
                    },
                    Err(none) => Updates {
                        series: series.0,
                        every_ns,
                        none: none.to_string(),
                        ..Default::default()
                    },
                })
            }
            _ => {}
        }
    }
}
