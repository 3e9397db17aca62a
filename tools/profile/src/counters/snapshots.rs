//! Owns counters of single commands, read around each (`record --snapshot`) or by Intel's own
//! queues: what each counted, and means per kernel of that. A command was waited for between two
//! readings, so that all counts between them are its own, and those of clocks are taken for the
//! length of its span. Refuses commands that were not alone, and losses.

use super::figures::Figures;
use super::means::set;
use super::result::{Class, Clocks, Column, Source, Value};
use super::windows::{matched, recorded_in, seconds};
use crate::energy::activity::{Grouping, PhysicalDevice, class_name};
use crate::interval::Interval;
use clscope_analysis::Trace;
use clscope_analysis::align::Alignment;
use clscope_analysis::counters::OneByOne;
use clscope_analysis::event::{Command, Event, Outcome};
use clscope_analysis::time::HostNs;
use clscope_oa::query::QueryReport;
use clscope_oa::time::ticks_to_ns;
use clscope_trace::ids::hex;
use clscope_trace::sensors::{CounterSource, CounterWindow, Record, Records};
use clscope_trace::{FileHeader, FileKind};
use std::collections::{BTreeMap, HashMap};

/// A reading lies within the call that enqueued its command; reports of a stream are placed to less
/// than this.
const SLACK_NS: i64 = 10_000_000;
/// Slots of counts that are clocks: the OA timestamp and GPU_TICKS.
const CLOCKS: usize = 2;

/// A source with what it counted around commands.
pub struct Around {
    host: usize,
    process: usize,
    about: CounterSource,
    /// By the low half of the command's id, with its ends on the timeline where it is a window of
    /// its own.
    rows: HashMap<u32, (Option<(HostNs, HostNs)>, CounterWindow)>,
    /// Reports of a runtime whose layout is not known.
    bytes: HashMap<u32, Vec<u8>>,
}

/// What was read around commands, in the files of a trace.
pub fn read<'f>(
    trace: &Trace<'_>,
    files: impl Iterator<Item = (&'f str, &'f [u8])>,
) -> Vec<Around> {
    let mut out: Vec<Around> = Vec::new();
    for (_, bytes) in files {
        let Ok(header) = FileHeader::decode_as(bytes, FileKind::Sensors) else { continue };
        let Some(host) = trace.timeline.raw_clock(header.boot, None).map(|c| c.host) else {
            continue;
        };
        let Some(process) = recorded_in(trace, host, &header) else { continue };
        let Some(clock) = trace.timeline.raw_clock_of(process) else { continue };
        let mut hint = 0;
        let mut at = |raw: u64| trace.timeline.raw(clock, raw, &mut hint);
        let mut place: BTreeMap<u32, usize> = BTreeMap::new();
        for record in Records::new(bytes) {
            match record {
                Record::CounterSource(about) => {
                    place.insert(about.id, out.len());
                    out.push(Around {
                        host,
                        process,
                        about,
                        rows: HashMap::new(),
                        bytes: HashMap::new(),
                    });
                }
                Record::CounterWindows(windows) => {
                    let Some(of) = place.get(&windows.source).and_then(|i| out.get_mut(*i)) else {
                        continue;
                    };
                    if windows.width as usize != of.about.counters.len() {
                        continue;
                    }
                    for window in windows.iter().filter(|w| w.command != 0) {
                        if let Some((Some(begin), Some(end))) =
                            window.host.map(|(b, e)| (at(b), at(e)))
                        {
                            of.rows.insert(window.command, (Some((begin, end)), window));
                        }
                    }
                }
                Record::CounterReport(report) => {
                    if let Some(of) = place.get(&report.source).and_then(|i| out.get_mut(*i)) {
                        of.report(report.command as u32, report.bytes);
                    }
                }
                _ => {}
            }
        }
    }
    out.retain(|a| !a.rows.is_empty() || !a.bytes.is_empty());
    out
}

impl Around {
    /// Takes a report of the runtime's own queue.
    fn report(&mut self, command: u32, bytes: Vec<u8>) {
        let Some(report) = QueryReport::decode(&bytes) else {
            self.bytes.insert(command, bytes);
            return;
        };
        let counts = report.counts().into_iter().map(Some).collect();
        let names = QueryReport::names(report.a.len());
        if self.about.counters.is_empty() {
            self.about.counters = names;
        }
        if self.about.counters.len() == report.counts().len() {
            self.rows.insert(
                command,
                (
                    None,
                    CounterWindow {
                        command,
                        broken: report.doubtful,
                        counts,
                        ..Default::default()
                    },
                ),
            );
        }
    }

    /// What was counted of a command of a process, for people: the name of the source and its
    /// counts.
    pub fn text(&self, process: usize, command: &Command<'_>) -> Option<String> {
        let text = match (self.placed(process, command), self.raw(process, command)) {
            (Some((_, window)), _) => self.describe(window),
            (None, Some(bytes)) => format!(
                "report of {} bytes, of a layout that is not known: {}",
                bytes.len(),
                hex(bytes)
            ),
            (None, None) => return None,
        };
        Some(format!("{}: {text}", self.about.name))
    }

    /// The same for programs.
    pub fn value(&self, process: usize, command: &Command<'_>) -> Option<serde_json::Value> {
        match (self.placed(process, command), self.raw(process, command)) {
            (Some((_, window)), _) => Some(self.object(window)),
            (None, Some(bytes)) => Some(
                serde_json::json!({ "source": self.about.name, "bytes": bytes.len(), "raw": hex(bytes) }),
            ),
            (None, None) => None,
        }
    }

    /// A report of the command whose layout is not known.
    fn raw(&self, process: usize, command: &Command<'_>) -> Option<&Vec<u8>> {
        self.bytes.get(&(command.id().0 as u32)).filter(|_| self.process == process)
    }

    fn placed(
        &self,
        process: usize,
        command: &Command<'_>,
    ) -> Option<&(Option<(HostNs, HostNs)>, CounterWindow)> {
        let of = self.rows.get(&(command.id().0 as u32)).filter(|_| self.process == process)?;
        // Another incarnation of the process may have had a command of this number.
        let inside = of.0.is_none_or(|(b, e)| {
            b.0 >= command.call.begin.0.saturating_sub(SLACK_NS)
                && e.0 <= command.call.end.0.saturating_add(SLACK_NS)
        });
        inside.then_some(of)
    }

    fn describe(&self, window: &CounterWindow) -> String {
        let mut parts: Vec<String> = Vec::new();
        if let (Some((begin, end)), true) = (window.ticks, self.about.counters.is_empty()) {
            let passed = end.checked_sub(begin).and_then(|ticks| ticks_to_ns(ticks, self.about.hz));
            parts.push(format!(
                "{begin} to {end} ticks of {} Hz{}",
                self.about.hz,
                passed.map_or_else(String::new, |ns| format!(": {ns} ns"))
            ));
        }
        let counted =
            self.about.counters.iter().zip(&window.counts).filter(|(_, n)| **n != Some(0));
        parts.extend(counted.map(|(name, n)| {
            format!("{name}={}", n.map_or_else(|| "?".to_owned(), |n| n.to_string()))
        }));
        for (on, text) in [
            (window.broken, "something is missing inside"),
            (window.shared, "other commands were under way"),
        ] {
            parts.extend(on.then(|| text.to_owned()));
        }
        parts.join(" ")
    }

    fn object(&self, window: &CounterWindow) -> serde_json::Value {
        let counts: serde_json::Map<String, serde_json::Value> = self
            .about
            .counters
            .iter()
            .zip(&window.counts)
            .map(|(name, n)| (name.clone(), (*n).into()))
            .collect();
        serde_json::json!({
            "source": self.about.name, "host_raw_ns": window.host, "within_ns": window.within_ns, "ticks": window.ticks,
            "hz": (self.about.hz > 0).then_some(self.about.hz), "counts": counts, "broken": window.broken, "shared": window.shared,
        })
    }
}

/// Figures of single commands: name with unit, value.
pub type Figured = HashMap<(u32, u64), Vec<(String, f64)>>;

/// A class while it is summed up.
#[derive(Clone, Default)]
struct Summed {
    launches: u64,
    counts: Vec<u64>,
    known: Vec<bool>,
    span_s: f64,
    window_s: f64,
    ticks: u64,
    each: Vec<OneByOne>,
}

/// One source on one device.
struct Part<'a> {
    source: &'a Around,
    figures: Figures,
    columns: Vec<(String, String)>,
    matched: String,
    sums: Vec<Summed>,
    shared: usize,
    broken: usize,
}

impl<'a> Part<'a> {
    fn new(source: &'a Around, classes: usize, matched: String) -> Self {
        let figures = Figures::of_source(&source.about);
        // A timer measures duration and nothing else.
        let columns: Vec<(String, String)> = if source.is_timer() {
            vec![("between-readings".to_owned(), "ns".to_owned())]
        } else {
            figures.columns().into_iter().map(|(name, unit, _)| (name, unit)).collect()
        };
        let one = Summed {
            counts: vec![0; source.about.counters.len()],
            known: vec![true; source.about.counters.len()],
            each: vec![OneByOne::default(); columns.len()],
            ..Summed::default()
        };
        Self { source, figures, columns, matched, sums: vec![one; classes], shared: 0, broken: 0 }
    }

    /// Figures of counts over a span inside a window: what ticks also while nothing runs is taken
    /// for the span's length.
    fn figures(
        &self,
        counts: &[u64],
        known: &[bool],
        ticks: u64,
        span_s: f64,
        window_s: f64,
    ) -> Vec<Option<f64>> {
        if self.source.is_timer() {
            return vec![ticks_to_ns(ticks, self.source.about.hz).map(|ns| ns as f64)];
        }
        let mut counts = counts.to_vec();
        if !self.source.about.format.is_empty() && window_s > span_s {
            counts
                .iter_mut()
                .take(CLOCKS)
                .for_each(|n| *n = (*n as f64 * span_s / window_s).round() as u64);
        }
        self.figures.evaluate(&counts, known, span_s)
    }

    fn add(
        &mut self,
        class: usize,
        window: &CounterWindow,
        span_s: f64,
        window_s: f64,
    ) -> Vec<(String, f64)> {
        let ticks = match window.ticks {
            Some((begin, end)) if end >= begin => end - begin,
            // A counter of few bits that wrapped meanwhile.
            Some(_) if self.source.is_timer() => return Vec::new(),
            _ => 0,
        };
        let known: Vec<bool> = window.counts.iter().map(Option::is_some).collect();
        let counts: Vec<u64> = window.counts.iter().map(|n| n.unwrap_or(0)).collect();
        let figures = self.figures(&counts, &known, ticks, span_s, window_s);
        let weight = if self.source.is_timer() { 1.0 } else { span_s };
        let Some(sum) = self.sums.get_mut(class) else { return Vec::new() };
        sum.launches += 1;
        sum.span_s += span_s;
        sum.window_s += window_s;
        sum.ticks = sum.ticks.saturating_add(ticks);
        for ((all, one), (every, this)) in
            sum.counts.iter_mut().zip(&counts).zip(sum.known.iter_mut().zip(&known))
        {
            *all = all.wrapping_add(*one);
            *every &= *this;
        }
        for (each, figure) in sum.each.iter_mut().zip(&figures) {
            figure.iter().for_each(|f| each.add(*f, weight));
        }
        self.columns
            .iter()
            .zip(figures)
            .filter_map(|((name, unit), f)| Some((format!("{name} ({unit})"), f?)))
            .collect()
    }

    fn finish(self, trace: &Trace<'_>, device: &PhysicalDevice) -> Source {
        let (source, matched) = (self.source, self.matched.clone());
        let mut out = Source::new(trace, device, &source.about.name, matched);
        out.set = set(&source.about);
        let (span, window) =
            self.sums.iter().fold((0.0, 0.0), |(s, w), sum| (s + sum.span_s, w + sum.window_s));
        let launches: u64 = self.sums.iter().map(|s| s.launches).sum();
        out.one_by_one = !source.is_queue();
        out.notes = vec![format!(
            "method snapshot: read before and after each command, which was waited for; the commands' own spans are {:.1} % of the time between",
            100.0 * span / window.max(f64::MIN_POSITIVE)
        )];
        if source.is_queue() {
            out.notes = vec![
                "method queue: counted by the runtime for each command on queues of its own kind"
                    .to_owned(),
            ];
            if !source.bytes.is_empty() {
                let length = source.bytes.values().next().map_or(0, Vec::len);
                out.notes.push(format!(
                    "{} reports of {length} bytes are of a layout that is not known: `clscope dump` shows them",
                    source.bytes.len()
                ));
            }
        }
        let oa = !source.about.format.is_empty();
        if oa || source.is_queue() {
            out.notes.insert(
                0,
                "decoded as specified: this was not checked on hardware of this kind".to_owned(),
            );
        }
        if source.about.pid.is_some() {
            out.notes.push("user mode of all threads of the process: what the host did between the readings is in them".to_owned());
        }
        if !source.about.side_effect.is_empty() {
            out.notes.push(source.about.side_effect.clone());
        }
        for (count, why) in [
            (self.shared, "other commands were under way between their readings"),
            (self.broken, "reports of theirs are missing"),
        ] {
            if count > 0 {
                out.notes.push(format!("{count} commands were left out: {why}"));
            }
        }
        if self.sums.iter().any(|s| s.launches == 1) {
            out.notes.push(
                "a kernel launched once has no interval: its figure is the count itself".to_owned(),
            );
        }
        out.left_out = self.shared + self.broken;
        out.windows = usize::try_from(launches).unwrap_or(usize::MAX);
        out.window_seconds = if launches == 0 { 0.0 } else { window / launches as f64 };
        out.columns = self
            .columns
            .iter()
            .map(|(name, unit)| Column::new(name.clone(), unit.clone()))
            .collect();
        let mut own = vec![(0u64, 0.0); device.classes.len()];
        for span in &device.spans {
            if let Some((count, seconds)) = own.get_mut(span.class.0 as usize) {
                *count += 1;
                *seconds += span.end.seconds_since(span.start);
            }
        }
        for ((class, sum), (count, seconds)) in device.classes.iter().zip(&self.sums).zip(own) {
            let mean_ticks = sum.ticks.checked_div(sum.launches).unwrap_or(0);
            let ticks = if source.is_timer() { mean_ticks } else { sum.ticks };
            let totals = self.figures(&sum.counts, &sum.known, ticks, sum.span_s, sum.window_s);
            let mut values = BTreeMap::new();
            for (((name, _), total), each) in self.columns.iter().zip(totals).zip(&sum.each) {
                let mean = total.filter(|_| sum.launches > 0).map(|t| {
                    let e = each.estimate(t);
                    Interval::measured(e.value, e.low, e.high)
                });
                let why = mean.is_none().then(|| {
                    "no command of it was read around, or what the figure needs was not counted"
                        .to_owned()
                });
                values.insert(name.clone(), Value { mean, only_with: None, why });
            }
            let gpu_ticks = if oa { sum.counts.get(1).copied().unwrap_or(0) } else { 0 };
            out.classes.push(Class {
                name: class.name.clone(),
                kind: if class.kernel { "kernel" } else { "transfer" },
                launches: count as f64,
                busy_seconds: seconds,
                covered_seconds: sum.span_s,
                values,
                clocks: (oa && sum.launches > 0).then(|| Clocks {
                    launches: sum.launches,
                    event_seconds: sum.span_s,
                    timestamp_seconds: ticks_to_ns(
                        sum.counts.first().copied().unwrap_or(0),
                        source.about.hz,
                    )
                    .map(|ns| ns as f64 * 1e-9),
                    gpu_ticks,
                    gpu_ticks_32_bits: gpu_ticks & 0xffff_ffff,
                    wraps: gpu_ticks >> 32,
                }),
            });
        }
        if launches == 0 {
            let unknown =
                "the layout of the runtime's reports is not known: they are kept as they are";
            let why = if source.bytes.is_empty() {
                "no command was read around by itself"
            } else {
                unknown
            };
            out.failed = Some(why.to_owned());
        }
        out
    }
}

impl Around {
    fn is_timer(&self) -> bool {
        self.about.counters.is_empty() && self.bytes.is_empty()
    }

    /// Whether it is a queue of the runtime that counts by itself.
    fn is_queue(&self) -> bool {
        self.about.name.starts_with("intel-queue")
    }

    /// How it is known that it belongs to commands of this device.
    fn speaks_of(
        &self,
        device: &PhysicalDevice,
        devices: &[PhysicalDevice],
        named: Option<&str>,
    ) -> Option<String> {
        if self.is_timer() || self.is_queue() || named.is_some() && self.about.pid.is_some() {
            return Some("the commands it speaks of".to_owned());
        }
        matched(&self.about, self.host, device, devices, named)
    }
}

/// Means per kernel of what was read around commands, and the figures of each.
pub fn snapshots_of(
    trace: &Trace<'_>,
    alignment: &Alignment,
    devices: &[PhysicalDevice],
    around: &[Around],
    named: Option<&str>,
    by: Grouping<'_>,
) -> (Vec<Source>, Figured) {
    let mut parts: BTreeMap<(usize, usize), Part<'_>> = BTreeMap::new();
    let mut figured = Figured::new();
    let mut classes: Vec<HashMap<(&str, bool), usize>> = Vec::new();
    for device in devices {
        classes.push(
            device
                .classes
                .iter()
                .enumerate()
                .map(|(i, c)| ((c.name.as_str(), c.kernel), i))
                .collect(),
        );
    }
    if around.is_empty() {
        return (Vec::new(), figured);
    }
    for event in trace.events(Some(alignment)) {
        let Event::Command(command) = event else { continue };
        let Outcome::Timed(times) = &command.outcome else { continue };
        let Some(span) = times.placed.map(|p| p.span()) else { continue };
        let process = command.process.0 as usize;
        let Some(id) =
            trace.process(command.process).definitions.clock_device(command.enqueued.record.queue)
        else {
            continue;
        };
        let Some(at) = devices.iter().position(|d| d.members.contains(&(command.process, id)))
        else {
            continue;
        };
        let Some((name, kernel)) = class_name(trace, &command, by) else { continue };
        let Some(class) = classes[at].get(&(name.as_str(), kernel)).copied() else { continue };
        let mut all = Vec::new();
        for (index, source) in around.iter().enumerate() {
            let found = source.placed(process, &command);
            if found.is_none() && source.raw(process, &command).is_none() {
                continue;
            }
            let part = match parts.entry((at, index)) {
                std::collections::btree_map::Entry::Occupied(part) => part.into_mut(),
                std::collections::btree_map::Entry::Vacant(free) => {
                    let Some(matched) = source.speaks_of(&devices[at], devices, named) else {
                        continue;
                    };
                    free.insert(Part::new(source, devices[at].classes.len(), matched))
                }
            };
            let Some((ends, window)) = found else { continue };
            let (begin, end) = ends.unwrap_or((span.begin, span.end));
            if window.shared {
                part.shared += 1;
            } else if window.broken {
                part.broken += 1;
            } else {
                all.extend(part.add(
                    class,
                    window,
                    seconds(span.begin, span.end),
                    seconds(begin, end),
                ));
            }
        }
        if !all.is_empty() {
            figured.insert((command.process.0, command.id().0), all);
        }
    }
    let sources =
        parts.into_iter().map(|((at, _), part)| part.finish(trace, &devices[at])).collect();
    (sources, figured)
}
