//! Owns the report as CSV: one header line and one row per entry of a section. The first column
//! names the section; each section begins with its own header after an empty line.

use crate::{ExportError, repeated};
use clscope_io::text::cell;
use clscope_profile::energy::result::{Absence, PartOf};
use clscope_profile::interval::Interval;
use clscope_profile::report::data::{Commands, Function, Report, Summary};
use clscope_profile::report::places::Place;
use std::io::Write;

/// Part of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// Kernels by device time.
    Kernels,
    /// Joules per kernel.
    Energy,
    /// Hardware counters per kernel.
    Counters,
    /// Transfers and other commands.
    Transfers,
    /// Command queues.
    Queues,
    /// Why devices were idle.
    Idle,
    /// What the host waited for.
    Waits,
    /// API functions by host time.
    Functions,
}

impl Section {
    /// All of them, in the order of the report.
    pub const ALL: [Self; 8] = [
        Self::Kernels,
        Self::Energy,
        Self::Counters,
        Self::Transfers,
        Self::Queues,
        Self::Idle,
        Self::Waits,
        Self::Functions,
    ];
}

/// What of a report is written.
pub struct Selection<'s> {
    /// Sections, in this order, behind ranks or hosts where they were asked for.
    pub sections: &'s [Section],
    /// Rows of each; `None` for all.
    pub limit: Option<usize>,
    /// Whether a kernel or function of this name is wanted.
    pub matches: &'s dyn Fn(&str) -> bool,
}

const SUMMARY: [&str; 8] =
    ["timed", "total_ns", "mean_ns", "median_ns", "p95_ns", "p99_ns", "min_ns", "max_ns"];

/// What estimates and corrections add to the row of a kernel; empty where figures are exact.
const ESTIMATES: [&str; 14] = [
    "left_out",
    "total_estimate_ns",
    "total_ci95_low_ns",
    "total_ci95_high_ns",
    "mean_estimate_ns",
    "mean_ci95_low_ns",
    "mean_ci95_high_ns",
    "median_estimate_ns",
    "p95_estimate_ns",
    "share_ci95_low",
    "share_ci95_high",
    "corrected_total_ns",
    "corrected_ci95_low_ns",
    "corrected_ci95_high_ns",
];

fn interval(e: Option<&Interval>) -> [String; 3] {
    [
        optional(e.map(|e| e.value)),
        optional(e.map(|e| e.low).filter(|end| end.is_finite())),
        optional(e.map(|e| e.high).filter(|end| end.is_finite())),
    ]
}

fn estimates(c: &Commands) -> Vec<String> {
    let e = c.estimate.as_ref();
    let mut row = vec![c.left_out.to_string()];
    row.extend(interval(e.and_then(|e| e.total_ns.as_ref())));
    row.extend(interval(e.and_then(|e| e.mean_ns.as_ref())));
    row.push(optional(e.and_then(|e| e.median_ns.as_ref()).map(|m| m.value)));
    row.push(optional(e.and_then(|e| e.p95_ns.as_ref()).map(|m| m.value)));
    let [_, low, high] = interval(e.and_then(|e| e.share.as_ref()));
    row.extend([low, high]);
    row.extend(interval(c.corrected_total_ns.as_ref()));
    row
}

fn optional<T: ToString>(value: Option<T>) -> String {
    // What is not known is an empty cell.
    value.map_or_else(String::new, |v| v.to_string())
}

fn summary(s: &Summary) -> Vec<String> {
    vec![
        s.count.to_string(),
        optional((s.count > 0).then_some(s.total)),
        optional(s.mean),
        optional(s.median),
        optional(s.p95),
        optional(s.p99),
        optional(s.min),
        optional(s.max),
    ]
}

fn commands(section: &str, c: &Commands) -> Vec<String> {
    let mut row = vec![
        section.to_owned(),
        c.name.clone(),
        optional(c.device.clone()),
        optional(c.direction),
        c.count.to_string(),
    ];
    row.extend([
        c.untimed.to_string(),
        optional(c.share),
        c.bytes.to_string(),
        optional(c.gigabytes_per_second),
    ]);
    row.extend(summary(&c.time_ns));
    row.extend(estimates(c));
    row
}

fn function(f: &Function) -> Vec<String> {
    let mut row = vec![
        "functions".to_owned(),
        f.name.clone(),
        f.calls.to_string(),
        f.errors.to_string(),
        optional(f.share),
    ];
    row.extend(summary(&f.time_ns));
    row
}

const ENERGY: [&str; 27] = [
    "section",
    "name",
    "kind",
    "device",
    "formula",
    "launches",
    "busy_s",
    "joules",
    "joules_low",
    "joules_high",
    "joules_per_launch",
    "joules_per_launch_low",
    "joules_per_launch_high",
    "watts",
    "watts_low",
    "watts_high",
    "dynamic_joules",
    "dynamic_joules_low",
    "dynamic_joules_high",
    "idle_joules",
    "idle_joules_low",
    "idle_joules_high",
    "energy_delay_js",
    "why",
    "needed_s",
    "group",
    "reference_watts",
];

fn energy(report: &Report, shown: &Selection<'_>) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let mut rows = Vec::new();
    for device in report.energy.iter().flat_map(|e| &e.devices) {
        for c in device.classes.iter().filter(|c| c.kind != "kernel" || (shown.matches)(&c.name)) {
            let mut row = vec![
                "energy".to_owned(),
                c.name.clone(),
                c.kind.to_owned(),
                device.device.clone(),
                device.formula.to_owned(),
            ];
            row.extend([c.launches.to_string(), c.busy_seconds.to_string()]);
            for e in [c.joules, c.joules_per_launch, c.watts, c.dynamic_joules, c.idle_joules] {
                row.extend([
                    optional(e.map(|e| e.value)),
                    optional(e.map(|e| e.low)),
                    optional(e.map(|e| e.high)),
                ]);
            }
            row.extend([
                optional(c.energy_delay),
                optional(c.absence.map(Absence::sentence)),
                optional(c.needed_seconds),
                optional(c.group),
            ]);
            row.push(optional(c.reference_watts.map(|w| w.value)));
            rows.push(row);
        }
        // What no kernel cost: so that the column of joules adds up to what was measured.
        for part in device.parts() {
            let name = match part.of {
                PartOf::Class(_) => continue,
                PartOf::Sum(names) => format!("only as a sum: {}", names.join(" + ")),
                PartOf::Repetitions => repeated::TITLE.to_owned(),
                PartOf::Floor(floor) => format!("idle power {}", floor.name),
                PartOf::Rest => "unattributed".to_owned(),
            };
            let mut row = vec![
                "energy".to_owned(),
                name,
                "rest".to_owned(),
                device.device.clone(),
                device.formula.to_owned(),
            ];
            row.extend([String::new(), String::new(), part.joules.value.to_string()]);
            row.resize(ENERGY.len(), String::new());
            rows.push(row);
        }
    }
    (ENERGY.to_vec(), rows)
}

const PLACES: [&str; 16] = [
    "section",
    "rank",
    "host",
    "of_mean",
    "device_ns",
    "device_ci95_low_ns",
    "device_ci95_high_ns",
    "estimated",
    "wait_ns",
    "joules",
    "joules_low",
    "joules_high",
    "launches",
    "processes",
    "traces",
    "without",
];

fn places(report: &Report) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let row = |place: &Place| {
        let mut row = vec!["places".to_owned(), optional(place.rank), optional(place.host.clone())];
        row.push(optional(place.of_mean));
        row.extend(interval(place.device_ns.as_ref()));
        row.push(optional(place.device_ns.map(|t| t.estimated)));
        row.push(place.wait_ns.to_string());
        row.extend(interval(place.joules.as_ref()));
        let counts = [place.launches, place.processes, place.traces, place.without];
        row.extend(counts.map(|n| n.to_string()));
        row
    };
    (PLACES.to_vec(), report.places.iter().flat_map(|places| &places.rows).map(row).collect())
}

const COUNTERS: [&str; 13] = [
    "section",
    "name",
    "kind",
    "device",
    "source",
    "set",
    "counter",
    "unit",
    "mean",
    "mean_low",
    "mean_high",
    "group",
    "why",
];

/// One row for each class and counter; those known as a sum only have the group's mean and its
/// members.
fn counters(report: &Report, shown: &Selection<'_>) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let mut rows = Vec::new();
    for source in report.counters.iter().flat_map(|c| &c.sources) {
        for class in
            source.classes.iter().filter(|c| c.kind != "kernel" || (shown.matches)(&c.name))
        {
            for column in &source.columns {
                let Some(value) = class.values.get(&column.name) else { continue };
                let group = value.only_with.as_ref();
                let mean = value.mean.or(group.map(|g| g.mean));
                let mut row = vec![
                    "counters".to_owned(),
                    class.name.clone(),
                    class.kind.to_owned(),
                    source.device.clone(),
                ];
                row.extend([
                    source.source.clone(),
                    optional(source.set.clone()),
                    column.name.clone(),
                    column.unit.clone(),
                ]);
                row.extend([
                    optional(mean.map(|m| m.value)),
                    optional(mean.map(|m| m.low)),
                    optional(mean.map(|m| m.high)),
                ]);
                row.extend([
                    optional(group.map(|g| g.classes.join(" + "))),
                    optional(value.why.clone()),
                ]);
                rows.push(row);
            }
        }
    }
    (COUNTERS.to_vec(), rows)
}

/// Writes the chosen sections.
///
/// # Errors
/// Where the output cannot be written.
pub fn write(
    report: &Report,
    shown: &Selection<'_>,
    mut out: impl Write,
) -> Result<(), ExportError> {
    write_to(report, shown, &mut out)
}

/// Compiled here, once for all outputs.
fn write_to(
    report: &Report,
    shown: &Selection<'_>,
    out: &mut dyn Write,
) -> Result<(), ExportError> {
    let places_first = report.places.as_ref().map(|_| None);
    let sections = places_first.into_iter().chain(shown.sections.iter().map(Some));
    for (i, section) in sections.enumerate() {
        if i > 0 {
            writeln!(out)?;
        }
        let command_header = || {
            let mut header = vec![
                "section",
                "name",
                "device",
                "direction",
                "count",
                "untimed",
                "share",
                "bytes",
                "gigabytes_per_second",
            ];
            header.extend(SUMMARY);
            header.extend(ESTIMATES);
            header
        };
        let (header, rows): (Vec<&str>, Vec<Vec<String>>) = match section {
            None => places(report),
            Some(Section::Kernels) => (
                command_header(),
                report
                    .kernels
                    .iter()
                    .filter(|k| (shown.matches)(&k.name))
                    .map(|k| commands("kernels", k))
                    .collect(),
            ),
            Some(Section::Energy) => energy(report, shown),
            Some(Section::Counters) => counters(report, shown),
            Some(Section::Transfers) => {
                let rows = report.transfers.iter().map(|t| commands("transfers", t));
                (
                    command_header(),
                    rows.chain(report.other_commands.iter().map(|c| commands("other", c)))
                        .collect(),
                )
            }
            Some(Section::Functions) => {
                let mut header = vec!["section", "name", "calls", "errors", "share"];
                header.extend(SUMMARY);
                (
                    header,
                    report
                        .functions
                        .iter()
                        .filter(|f| (shown.matches)(&f.name))
                        .map(function)
                        .collect(),
                )
            }
            Some(Section::Idle) => {
                let rows = report.idle.iter().map(|i| {
                    vec!["idle".to_owned(), i.cause.clone(), i.ns.to_string(), optional(i.share)]
                });
                (vec!["section", "cause", "ns", "share"], rows.collect())
            }
            Some(Section::Waits) => {
                let rows = report.waits.iter().flat_map(|w| {
                    let row = |what: &str, ns: u64, share: Option<f64>| {
                        let f = &w.function;
                        let waits = [
                            f.name.clone(),
                            f.calls.to_string(),
                            f.time_ns.total.to_string(),
                            what.to_owned(),
                            ns.to_string(),
                        ];
                        let mut row = vec!["waits".to_owned()];
                        row.extend(waits);
                        row.push(optional(share));
                        row
                    };
                    let total = w.function.time_ns.total as f64;
                    let nothing = w
                        .nothing_ns
                        .map(|ns| row("", ns, (total > 0.0).then(|| ns as f64 / total)));
                    w.waited_for
                        .iter()
                        .map(|r| row(&r.name, r.ns, r.share))
                        .chain(nothing)
                        .collect::<Vec<_>>()
                });
                (
                    vec!["section", "function", "waits", "blocked_ns", "running", "ns", "share"],
                    rows.collect(),
                )
            }
            Some(Section::Queues) => {
                let header = vec![
                    "section",
                    "process",
                    "queue",
                    "device",
                    "out_of_order",
                    "commands",
                    "busy_ns",
                    "idle_ns",
                    "gaps",
                    "gap_median_ns",
                    "queue_wait_median_ns",
                    "submit_wait_median_ns",
                    "execution_median_ns",
                    "notice_median_ns",
                    "late",
                    "left_out",
                    "busy_estimate_ns",
                    "busy_ci95_low_ns",
                    "busy_ci95_high_ns",
                ];
                let rows = report.queues.iter().map(|q| {
                    let mut row = vec![
                        "queues".to_owned(),
                        q.process.clone(),
                        q.id.to_string(),
                        q.device.clone(),
                        q.out_of_order.to_string(),
                    ];
                    row.extend([
                        q.commands.to_string(),
                        optional(q.busy_ns),
                        optional(q.idle_ns),
                        q.gaps_ns.count.to_string(),
                    ]);
                    let medians = [
                        &q.gaps_ns,
                        &q.queue_wait_ns,
                        &q.submit_wait_ns,
                        &q.execution_ns,
                        &q.notice_ns,
                    ];
                    row.extend(medians.map(|s| optional(s.median)));
                    row.push(q.late.to_string());
                    row.push(q.left_out.to_string());
                    row.extend(interval(q.busy_estimate_ns.as_ref()));
                    row
                });
                (header, rows.collect())
            }
        };
        let mut csv = csv::Writer::from_writer(&mut *out);
        csv.write_record(&header)?;
        let limit = shown.limit.map_or(rows.len(), |n| n.min(rows.len()));
        for row in &rows[..limit] {
            // Names are whatever an application chose, and spreadsheets take some for formulas.
            csv.write_record(row.iter().map(|text| cell(text).into_owned()))?;
        }
        csv.flush()?;
    }
    Ok(())
}
