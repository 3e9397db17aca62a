//! Owns what `sensors.clt` files say, on the trace's timeline: series with their readings, what
//! happened to them, what was looked for in vain, what sampling cost. A host sampled twice is used
//! once. Refuses to choose among series.

use super::standstills::{self, Standstills};
use crate::calibration::{Entry, Subject};
use crate::error::SensorFileError;
use clscope_analysis::Trace;
use clscope_analysis::clock::RawClock;
use clscope_analysis::energy::HostNs;
use clscope_sensors::accumulator::Step;
use clscope_sensors::{Range, SensorSource};
use clscope_trace::sensors::{
    Cost, Event, Finding, Quantity, Reading, Record, Records, Series, SourceCost,
};
use clscope_trace::variables::SNAPSHOT;
use clscope_trace::{FileHeader, FileKind};
use std::collections::{BTreeMap, HashMap};

/// One series with its readings.
#[derive(Debug, Clone, PartialEq)]
pub struct Sensor {
    /// Host, as an index into the timeline's.
    pub host: usize,
    /// What it is.
    pub series: Series,
    /// Time and value in joules, watts, or the quantity's unit; in order of time.
    pub points: Vec<(HostNs, f64)>,
    /// Where another recording begins, in order of time.
    pub starts: Vec<HostNs>,
    /// Where readings are means over windows: those windows, in order of time.
    pub windows: Vec<Window>,
    /// Update period as the sampler measured it, ns.
    pub period_ns: Option<f64>,
    /// Why it is not to be used: it never moved.
    pub dead: Option<String>,
    /// Whether it shows the counter of another series once more.
    pub repeats: bool,
}

impl Sensor {
    /// Without readings.
    fn new(host: usize, series: Series) -> Self {
        Self {
            host,
            series,
            points: Vec::new(),
            starts: Vec::new(),
            windows: Vec::new(),
            period_ns: None,
            dead: None,
            repeats: false,
        }
    }

    /// Whether a recording begins behind one time, up to another.
    pub fn begins_between(&self, from: HostNs, to: HostNs) -> bool {
        let next = self.starts.partition_point(|start| *start <= from);
        self.starts.get(next).is_some_and(|start| *start <= to)
    }

    /// Its source and its own name.
    pub fn name(&self) -> String {
        format!("{} {}", self.series.source, self.series.name)
    }

    /// Readings of each recording, in order of time: nothing was measured between two of them.
    pub fn parts(&self) -> impl Iterator<Item = &[(HostNs, f64)]> {
        let mut from = 0;
        let starts = self.starts.iter().copied().chain([HostNs(i64::MAX)]);
        starts.filter_map(move |start| {
            let to = self.points.partition_point(|p| p.0 < start);
            let of = self.points.get(from..to).filter(|of| !of.is_empty());
            from = to;
            of
        })
    }

    /// Joules from its first reading to its last; `None` of what counts none, of what never moved,
    /// and where readings are missing between the two.
    pub fn joules(&self) -> Option<f64> {
        let is_whole = self.series.quantity == Quantity::Energy && self.starts.is_empty();
        let joules = self.points.last()?.1 - self.points.first()?.1;
        (is_whole && self.dead.is_none() && joules > 0.0).then_some(joules)
    }

    /// From the first reading of each recording to its last, in order of time.
    fn stretches(&self) -> Vec<(HostNs, HostNs)> {
        let ends = |of: &[(HostNs, f64)]| Some((of.first()?.0, of.last()?.0));
        self.parts().filter_map(ends).collect()
    }
}

/// A reading that is the mean over a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// Its beginning.
    pub begin: HostNs,
    /// Its end.
    pub end: HostNs,
    /// How far `end` may be off, ns.
    pub within_ns: u32,
    /// The value, in the quantity's unit.
    pub mean: f64,
}

impl Window {
    /// Of shares and rates only: power that is a mean over a window is the business of its series'
    /// response.
    fn of(
        quantity: Quantity,
        reading: &Reading,
        at: &mut dyn FnMut(u64) -> Option<HostNs>,
    ) -> Option<Self> {
        if reading.mean_over_us == 0 || !matches!(quantity, Quantity::Percent | Quantity::Bandwidth)
        {
            return None;
        }
        let begin = at(reading.time.saturating_sub(u64::from(reading.mean_over_us) * 1000))?;
        let end = at(reading.time)?;
        Some(Self {
            begin,
            end,
            within_ns: reading.bracket_ns,
            mean: value(quantity, reading.value),
        })
    }
}

/// What sampling found beside readings.
#[derive(Debug, Clone, Default)]
pub struct Readings {
    /// Series of all hosts.
    pub sensors: Vec<Sensor>,
    /// Interfaces that were looked for.
    pub findings: Vec<Finding>,
    /// What happened, with the name of the series or source.
    pub events: Vec<(String, Event)>,
    /// Cost of sampling, per file.
    pub costs: Vec<Cost>,
    /// The same by source, of all files.
    pub sources: Vec<SourceCost>,
    /// Counters that stood still, with the name of the series.
    pub standstills: Vec<(String, Standstills)>,
    /// When the application ran, by host: from each start to its end, in order of time, what
    /// overlaps as one.
    pub application: BTreeMap<usize, Vec<(HostNs, HostNs)>>,
    /// Files that could not be read, with the reason.
    pub unreadable: Vec<String>,
    /// Files that repeat what another has.
    pub repeated: usize,
    /// Whether there was any file at all.
    pub any: bool,
    /// Whether sensors were read around each command, and at no other time (`record --snapshot`).
    pub around_commands: bool,
    /// What `clscope doctor --calibrate` found of sensors on the recording host, by source and
    /// name.
    pub calibrated: HashMap<(String, String), Calibrated>,
}

/// What is known of a sensor before a run: values and the half-widths of their 95 % intervals, in
/// seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Calibrated {
    /// Between updates.
    pub period: Option<(f64, f64)>,
    /// Time constant of a first-order lag.
    pub lag: Option<(f64, f64)>,
    /// Averaging window.
    pub window: Option<(f64, f64)>,
    /// Lateness.
    pub delay: Option<(f64, f64)>,
}

impl Readings {
    /// Whether any sensor has readings that energy could come from.
    pub fn have_points(&self) -> bool {
        self.sensors.iter().any(|sensor| !sensor.points.is_empty())
    }

    /// Takes up calibrations that came with the trace.
    pub fn calibrate(&mut self, entries: &[Entry]) {
        for entry in entries {
            let Subject::Sensor { source, domain } = &entry.subject else { continue };
            let figure = |name: &str| {
                entry
                    .figures
                    .get(name)
                    .map(|f| (f.value * 1e-9, f.uncertainty.unwrap_or(f.value / 10.0).abs() * 1e-9))
            };
            let found = Calibrated {
                period: figure("update-period-ns"),
                lag: figure(LAG),
                window: figure(WINDOW),
                delay: figure(DELAY),
            };
            self.calibrated.insert((source.clone(), domain.clone()), found);
        }
    }
}

/// Figures of a sensor's response in calibrations.
pub const LAG: &str = "response-lag-ns";
/// The same, of one that averages.
pub const WINDOW: &str = "response-window-ns";
/// How late it is.
pub const DELAY: &str = "response-delay-ns";

/// Whether all processes read the sensors around their commands.
fn is_snapshot(trace: &Trace<'_>) -> bool {
    let wanted = format!("{SNAPSHOT}=1");
    let asked = |settings: &[String]| settings.contains(&wanted);
    !trace.processes.is_empty()
        && trace.processes.iter().all(|p| asked(&p.definitions.process.settings))
}

/// One file, before it is joined with others.
#[derive(Default)]
struct File {
    /// When it was begun, and by whom: what decides between files that are equally long.
    created: (u64, u32),
    sensors: Vec<Sensor>,
    rest: Readings,
}

/// A stored number in joules, watts, or its own unit.
fn value(quantity: Quantity, stored: u64) -> f64 {
    let number = quantity.number(stored);
    match quantity {
        Quantity::Energy | Quantity::Power => number * 1e-6,
        Quantity::Temperature => number * 1e-3,
        _ => number,
    }
}

/// The raw clock of a file of readings. A sampler may be outside the time namespace of what it was
/// begun for. Its first anchor is among the first records.
pub(crate) fn clock_of(trace: &Trace<'_>, header: &FileHeader, bytes: &[u8]) -> Option<RawClock> {
    let wall = Records::new(bytes).take(FIRST_ANCHOR_WITHIN).find_map(|record| match record {
        Record::Anchor(a) => Some(a.realtime.wrapping_sub(a.monotonic) as i64),
        _ => None,
    });
    trace.timeline.raw_clock(header.boot, wall)
}

/// Records of a file among which its first anchor is looked for. It is the first record since there
/// are anchors.
const FIRST_ANCHOR_WITHIN: usize = 64;

fn read(trace: &Trace<'_>, bytes: &[u8]) -> Result<File, SensorFileError> {
    let header = FileHeader::decode_as(bytes, FileKind::Sensors)?;
    let clock = clock_of(trace, &header, bytes).ok_or(SensorFileError::OtherHost)?;
    let host = clock.host;
    let mut hint = 0;
    let mut at = |raw: u64| trace.timeline.raw(clock, raw, &mut hint).map(|t| HostNs(t.0));
    let mut file = File { created: (header.created, header.pid), ..File::default() };
    let mut place: HashMap<u32, usize> = HashMap::new();
    let mut records = Records::new(bytes);
    let mut sources: BTreeMap<String, SourceCost> = BTreeMap::new();
    let (mut cost, mut started, mut ended) = (None, None, None);
    for record in records.by_ref() {
        match record {
            Record::Series(series) => {
                place.insert(series.id, file.sensors.len());
                file.sensors.push(Sensor::new(host, series));
            }
            Record::Readings(readings) => {
                let Some(sensor) =
                    place.get(&readings.series).and_then(|i| file.sensors.get_mut(*i))
                else {
                    continue;
                };
                let quantity = sensor.series.quantity;
                // What a driver's ring holds from before is another program's doing.
                for r in readings.iter().filter(|r| r.time >= header.created) {
                    sensor.windows.extend(Window::of(quantity, &r, &mut at));
                    // A mean over a span stands for its middle.
                    let time = at(r.time.saturating_sub(u64::from(r.mean_over_us) * 500));
                    sensor.points.extend(time.map(|time| (time, value(quantity, r.value))));
                }
            }
            Record::Updates(updates) => {
                if let Some(sensor) =
                    place.get(&updates.series).and_then(|i| file.sensors.get_mut(*i))
                {
                    sensor.period_ns = (updates.none.is_empty() && updates.period_ns > 0.0)
                        .then_some(updates.period_ns);
                }
            }
            Record::Event(event) => {
                let sensor =
                    event.series.and_then(|s| place.get(&s)).and_then(|i| file.sensors.get_mut(*i));
                let mut name = event.source.clone();
                if let Some(sensor) = sensor {
                    name = format!("{} {}", sensor.series.source, sensor.series.name);
                    match event.code.as_str() {
                        "dead" => sensor.dead = Some(event.text.clone()),
                        "works" => sensor.dead = None,
                        "repeats" => sensor.repeats = true,
                        // What it counts from here on has another start.
                        "jumped" | "gap" => sensor.starts.extend(at(event.time)),
                        _ => {}
                    }
                }
                match event.code.as_str() {
                    "application-started" => started = at(event.time),
                    "application-ended" => ended = at(event.time),
                    _ => file.rest.events.push((name, event)),
                }
            }
            Record::Cost(c) => cost = Some(c),
            Record::SourceCost(c) => drop(sources.insert(c.source.clone(), c)),
            Record::Finding(finding) => file.rest.findings.push(finding),
            // Counters have a reader of their own.
            Record::Anchor(_)
            | Record::CounterSource(_)
            | Record::CounterWindows(_)
            | Record::CounterReport(_)
            | Record::Unknown { .. } => {}
        }
    }
    file.rest.costs.extend(cost);
    file.rest.sources.extend(sources.into_values());
    if let (Some(started), Some(ended)) = (started, ended) {
        file.rest.application.insert(host, vec![(started, ended)]);
    }
    for sensor in &mut file.sensors {
        if !sensor.points.is_sorted_by_key(|p| p.0) {
            sensor.points.sort_by_key(|p| p.0);
        }
        sensor.starts.sort_unstable();
    }
    Ok(file)
}

impl Readings {
    /// With files that are there and could not be opened: name and why.
    pub fn without<'f>(mut self, files: impl Iterator<Item = (&'f str, &'f str)>) -> Self {
        for (name, why) in files {
            self.any = true;
            self.unreadable.push(format!("{name}: {why}"));
        }
        self
    }

    /// From the files of a trace: name and bytes.
    pub fn of<'f>(trace: &Trace<'_>, files: impl Iterator<Item = (&'f str, &'f [u8])>) -> Self {
        let mut out = Self { around_commands: is_snapshot(trace), ..Self::default() };
        let mut read_files: Vec<File> = Vec::new();
        for (name, bytes) in files {
            out.any = true;
            match read(trace, bytes) {
                Ok(file) => read_files.push(file),
                Err(why) => out.unreadable.push(format!("{name}: {why}")),
            }
        }
        // The longest series first: what another file has of the same time is then left out.
        let length = |f: &File| {
            f.sensors
                .iter()
                .filter_map(|s| Some(s.points.last()?.0.0.saturating_sub(s.points.first()?.0.0)))
                .max()
                .unwrap_or(0)
        };
        read_files.sort_by_key(|f| (std::cmp::Reverse(length(f)), f.created));
        for file in read_files {
            out.join(file);
        }
        out.take_out_standstills();
        out
    }

    /// Leaves out the readings of counters that stood still: what was drawn meanwhile is not known.
    fn take_out_standstills(&mut self) {
        for sensor in &mut self.sensors {
            let found = standstills::take_out(sensor);
            self.standstills.extend(found.map(|found| (sensor.name(), found)));
        }
    }

    fn join(&mut self, file: File) {
        let mut repeated = false;
        for mut sensor in file.sensors {
            let key = |s: &Sensor| {
                (s.host, s.series.source.clone(), s.series.name.clone(), s.series.pci.clone())
            };
            let Some(known) = self.sensors.iter_mut().find(|s| key(s) == key(&sensor)) else {
                self.sensors.push(sensor);
                continue;
            };
            if known.points.is_empty() {
                *known = sensor;
                continue;
            }
            let before = sensor.points.len();
            let stretches = known.stretches();
            let behind = |at: HostNs| stretches.partition_point(|s| s.0 <= at);
            let is_known =
                |at: HostNs| behind(at).checked_sub(1).is_some_and(|last| at <= stretches[last].1);
            sensor.points.retain(|p| !is_known(p.0));
            repeated |= sensor.points.len() < before;
            let windows = &known.windows;
            sensor.windows.retain(|w| {
                let behind = windows.partition_point(|known| known.begin < w.end);
                behind.checked_sub(1).is_none_or(|last| windows[last].end <= w.begin)
            });
            known.windows.append(&mut sensor.windows);
            known.windows.sort_by_key(|w| w.begin);
            // Each counts from its own start, and nobody read it between.
            let mut begins: Vec<HostNs> = stretches.iter().map(|s| s.0).collect();
            begins.append(&mut sensor.starts);
            let mut gap = None;
            for (at, _) in &sensor.points {
                if gap.replace(behind(*at)) != Some(behind(*at)) {
                    begins.push(*at);
                }
            }
            begins.sort();
            begins.dedup();
            known.starts = begins.split_off(1);
            known.points.append(&mut sensor.points);
            known.points.sort_by_key(|p| p.0);
            if sensor.dead.is_none() {
                known.dead = None;
            }
            known.repeats |= sensor.repeats;
        }
        self.repeated += usize::from(repeated);
        for (host, spans) in file.rest.application {
            let known = self.application.entry(host).or_default();
            known.extend(spans);
            known.sort_unstable();
            // Ranks of one run.
            known.dedup_by(|next, last| {
                let overlaps = next.0 <= last.1;
                last.1 = if overlaps { last.1.max(next.1) } else { last.1 };
                overlaps
            });
        }
        self.findings.extend(file.rest.findings);
        self.events.extend(file.rest.events);
        self.costs.extend(file.rest.costs);
        self.sources.extend(file.rest.sources);
    }

    /// From a file of recorded readings, whose times are CLOCK_MONOTONIC_RAW of the trace's first
    /// host.
    ///
    /// # Errors
    /// The source's.
    pub fn replay(mut source: impl SensorSource) -> Result<Self, clscope_sensors::SensorError> {
        let mut out = Self { any: true, ..Self::default() };
        let domains = source.domains().to_vec();
        for (id, domain) in (0u32..).zip(&domains) {
            let series = clscope_readings::series(id, source.name(), domain);
            out.sensors.push(Sensor::new(0, series));
        }
        let mut accumulators: Vec<_> = domains
            .iter()
            .map(|d| match d.quantity {
                clscope_sensors::Quantity::Energy { unit, range } => {
                    let range = if let Range::Wraps(at) = range {
                        Range::Wraps(at)
                    } else {
                        Range::Endless
                    };
                    Some(clscope_sensors::accumulator::Accumulator::new(unit, range))
                }
                _ => None,
            })
            .collect();
        let sensors = &mut out.sensors;
        source.read(&mut || clscope_sensors::RawNs(u64::MAX), &mut |mut reading| {
            let Some(sensor) = sensors.get_mut(reading.domain.0) else { return };
            if let (Some(Some(accumulator)), clscope_sensors::Value::Counter(counts)) =
                (accumulators.get_mut(reading.domain.0), reading.value)
            {
                if accumulator.push(reading.stamp.mid(), counts) == Step::Jumped {
                    sensor.starts.push(HostNs(reading.stamp.mid().0 as i64));
                }
                reading.value = clscope_sensors::Value::Energy(accumulator.total());
            }
            let stored = clscope_readings::reading(&reading);
            let quantity = sensor.series.quantity;
            sensor.windows.extend(Window::of(quantity, &stored, &mut |t| Some(HostNs(t as i64))));
            sensor.points.push((HostNs(stored.time as i64), value(quantity, stored.value)));
        })?;
        for sensor in sensors {
            sensor.points.sort_by_key(|p| p.0);
            sensor.starts.sort_unstable();
        }
        out.take_out_standstills();
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_one_recording_ends_and_another_begins_is_kept() {
        let file = |from: i64| {
            let points = (0..10).map(|i| (HostNs(from + i), i as f64)).collect();
            let series = Series { quantity: Quantity::Energy, ..Series::default() };
            let sensor = Sensor {
                host: 0,
                series,
                points,
                starts: Vec::new(),
                windows: Vec::new(),
                period_ns: None,
                dead: None,
                repeats: false,
            };
            File { sensors: vec![sensor], ..File::default() }
        };
        let mut all = Readings::default();
        [100, 300, 0, 305].into_iter().for_each(|from| all.join(file(from)));
        let starts: Vec<i64> = all.sensors[0].starts.iter().map(|at| at.0).collect();
        assert_eq!(
            starts,
            [100, 300, 310],
            "the last: what another has of the same time is left out"
        );
    }

    #[test]
    fn a_recording_between_two_others_keeps_its_readings() {
        let file = |from: i64, many: i64| {
            let moments = (0..many).map(|i| HostNs(from + i));
            let window =
                |begin: HostNs| Window { begin, end: HostNs(begin.0 + 1), within_ns: 0, mean: 1.0 };
            let sensor = Sensor {
                host: 0,
                series: Series { quantity: Quantity::Percent, ..Series::default() },
                points: moments.clone().map(|at| (at, 1.0)).collect(),
                starts: Vec::new(),
                windows: moments.map(window).collect(),
                period_ns: None,
                dead: None,
                repeats: false,
            };
            File { sensors: vec![sensor], ..File::default() }
        };
        let of = |files: &[(i64, i64)]| {
            let mut all = Readings::default();
            files.iter().for_each(|(from, many)| all.join(file(*from, *many)));
            let sensor = &all.sensors[0];
            let starts: Vec<i64> = sensor.starts.iter().map(|at| at.0).collect();
            assert!(sensor.points.is_sorted_by(|a, b| a.0 < b.0), "each moment once");
            assert!(sensor.windows.is_sorted_by(|a, b| a.end <= b.begin), "no window twice");
            (sensor.points.len(), sensor.windows.len(), starts, all.repeated)
        };
        // The longest first, as files are joined.
        assert_eq!(of(&[(100, 20), (300, 20), (200, 10)]), (50, 50, vec![200, 300], 0));
        // It goes on from one of them to behind the other.
        assert_eq!(of(&[(100, 20), (300, 20), (110, 300)]), (310, 310, vec![120, 300, 320], 1));
    }
}
