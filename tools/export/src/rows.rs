//! Owns the report as CSV: one header line and one row per entry of a section. The first column
//! names the section; each section begins with its own header after an empty line.

use crate::ExportError;
use clscope_io::text::cell;
use clscope_profile::counters::result::{Class as Counted, Column as Counter, Source, Value};
use clscope_profile::energy::result::{Absence, Class, DeviceEnergy, PartOf, Temperature};
use clscope_profile::interval::Interval;
use clscope_profile::report::data::{
    Commands, Estimates, Function, Idle, Queue, Report, Summary, Wait,
};
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

/// A column: its name, and what a row has in it. What is not known is an empty cell.
type Column<R> = (&'static str, fn(&R) -> String);

fn names<R>(columns: &[Column<R>]) -> Vec<&'static str> {
    columns.iter().map(|(name, _)| *name).collect()
}

fn cells<R>(columns: &[Column<R>], row: &R) -> Vec<String> {
    columns.iter().map(|(_, cell)| cell(row)).collect()
}

fn optional<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |v| v.to_string())
}

fn value(of: Option<Interval>) -> String {
    optional(of.map(|e| e.value))
}

fn low(of: Option<Interval>) -> String {
    optional(of.map(|e| e.low).filter(|end| end.is_finite()))
}

fn high(of: Option<Interval>) -> String {
    optional(of.map(|e| e.high).filter(|end| end.is_finite()))
}

const SUMMARY: [Column<Summary>; 8] = [
    ("timed", |s| s.count.to_string()),
    ("total_ns", |s| optional((s.count > 0).then_some(s.total))),
    ("mean_ns", |s| optional(s.mean)),
    ("median_ns", |s| optional(s.median)),
    ("p95_ns", |s| optional(s.p95)),
    ("p99_ns", |s| optional(s.p99)),
    ("min_ns", |s| optional(s.min)),
    ("max_ns", |s| optional(s.max)),
];

const COMMANDS: [Column<Commands>; 9] = [
    ("name", |c| c.name.clone()),
    ("device", |c| optional(c.device.clone())),
    ("direction", |c| optional(c.direction)),
    ("count", |c| c.count.to_string()),
    ("untimed", |c| c.untimed.to_string()),
    ("failed", |c| c.failed.to_string()),
    ("share", |c| optional(c.share)),
    ("bytes", |c| c.bytes.to_string()),
    ("gigabytes_per_second", |c| optional(c.gigabytes_per_second)),
];

fn estimate(c: &Commands, of: fn(&Estimates) -> Option<Interval>) -> Option<Interval> {
    c.estimate.as_ref().and_then(of)
}

/// What estimates and corrections add to the row of a kernel; empty where figures are exact.
const ESTIMATES: [Column<Commands>; 14] = [
    ("left_out", |c| c.left_out.to_string()),
    ("total_estimate_ns", |c| value(estimate(c, |e| e.total_ns))),
    ("total_ci95_low_ns", |c| low(estimate(c, |e| e.total_ns))),
    ("total_ci95_high_ns", |c| high(estimate(c, |e| e.total_ns))),
    ("mean_estimate_ns", |c| value(estimate(c, |e| e.mean_ns))),
    ("mean_ci95_low_ns", |c| low(estimate(c, |e| e.mean_ns))),
    ("mean_ci95_high_ns", |c| high(estimate(c, |e| e.mean_ns))),
    ("median_estimate_ns", |c| value(estimate(c, |e| e.median_ns))),
    ("p95_estimate_ns", |c| value(estimate(c, |e| e.p95_ns))),
    ("share_ci95_low", |c| low(estimate(c, |e| e.share))),
    ("share_ci95_high", |c| high(estimate(c, |e| e.share))),
    ("corrected_total_ns", |c| value(c.corrected_total_ns)),
    ("corrected_ci95_low_ns", |c| low(c.corrected_total_ns)),
    ("corrected_ci95_high_ns", |c| high(c.corrected_total_ns)),
];

const FUNCTIONS: [Column<Function>; 4] = [
    ("name", |f| f.name.clone()),
    ("calls", |f| f.calls.to_string()),
    ("errors", |f| f.errors.to_string()),
    ("share", |f| optional(f.share)),
];

/// Joules of a class, or of what no class cost.
struct Joules<'r> {
    device: &'r DeviceEnergy,
    name: String,
    kind: &'r str,
    joules: Option<Interval>,
    watts: Option<Interval>,
    class: Option<&'r Class>,
}

impl Joules<'_> {
    fn class<T: ToString>(&self, of: impl Fn(&Class) -> Option<T>) -> String {
        optional(self.class.and_then(of))
    }

    fn low(&self, of: fn(&Class) -> Option<Interval>) -> String {
        low(self.class.and_then(of))
    }

    fn high(&self, of: fn(&Class) -> Option<Interval>) -> String {
        high(self.class.and_then(of))
    }

    fn degree(&self, of: fn(&Temperature) -> Interval) -> Option<Interval> {
        self.device.temperature.as_ref().map(of)
    }

    const COLUMNS: [Column<Self>; 44] = [
        ("name", |r| r.name.clone()),
        ("kind", |r| r.kind.to_owned()),
        ("device", |r| r.device.device.clone()),
        ("formula", |r| r.device.formula.to_owned()),
        ("from_s", |r| optional(r.device.window.map(|of| of.from_seconds))),
        ("to_s", |r| optional(r.device.window.map(|of| of.to_seconds))),
        ("launches", |r| r.class(|c| Some(c.launches))),
        ("busy_s", |r| r.class(|c| Some(c.busy_seconds))),
        ("joules", |r| value(r.joules)),
        ("joules_low", |r| low(r.joules)),
        ("joules_high", |r| high(r.joules)),
        ("joules_per_launch", |r| r.class(|c| Some(c.joules_per_launch?.value))),
        ("joules_per_launch_low", |r| r.low(|c| c.joules_per_launch)),
        ("joules_per_launch_high", |r| r.high(|c| c.joules_per_launch)),
        ("joules_per_launch_below", |r| r.class(|c| c.joules_per_launch_below)),
        ("joules_per_launch_at_50_c", |r| r.class(|c| Some(c.per_launch_at_reference?.value))),
        ("joules_per_launch_at_50_c_low", |r| r.low(|c| c.per_launch_at_reference)),
        ("joules_per_launch_at_50_c_high", |r| r.high(|c| c.per_launch_at_reference)),
        ("watts", |r| value(r.watts)),
        ("watts_low", |r| low(r.watts)),
        ("watts_high", |r| high(r.watts)),
        ("dynamic_joules", |r| r.class(|c| Some(c.dynamic_joules?.value))),
        ("dynamic_joules_low", |r| r.low(|c| c.dynamic_joules)),
        ("dynamic_joules_high", |r| r.high(|c| c.dynamic_joules)),
        ("dynamic_joules_below", |r| r.class(|c| c.dynamic_joules_below)),
        ("idle_joules", |r| r.class(|c| Some(c.idle_joules?.value))),
        ("idle_joules_low", |r| r.low(|c| c.idle_joules)),
        ("idle_joules_high", |r| r.high(|c| c.idle_joules)),
        ("energy_delay_js", |r| r.class(|c| c.energy_delay)),
        ("why", |r| r.class(|c| c.absence.map(Absence::sentence))),
        ("needed_s", |r| r.class(|c| c.needed_seconds)),
        ("group", |r| r.class(|c| c.group)),
        ("reference_watts", |r| r.class(|c| Some(c.reference_watts?.value))),
        ("reference_watts_low", |r| r.low(|c| c.reference_watts)),
        ("reference_watts_high", |r| r.high(|c| c.reference_watts)),
        ("mean_c", |r| optional(r.device.temperature.map(|of| of.mean_c))),
        ("min_c", |r| optional(r.device.temperature.map(|of| of.min_c))),
        ("max_c", |r| optional(r.device.temperature.map(|of| of.max_c))),
        ("idle_per_degree", |r| value(r.degree(|of| of.idle_per_degree))),
        ("idle_per_degree_low", |r| low(r.degree(|of| of.idle_per_degree))),
        ("idle_per_degree_high", |r| high(r.degree(|of| of.idle_per_degree))),
        ("above_idle_per_degree", |r| value(r.degree(|of| of.above_idle_per_degree))),
        ("above_idle_per_degree_low", |r| low(r.degree(|of| of.above_idle_per_degree))),
        ("above_idle_per_degree_high", |r| high(r.degree(|of| of.above_idle_per_degree))),
    ];
}

/// Classes, then what no kernel and no transfer cost: the floor, and joules that nobody has.
fn energy<'r>(report: &'r Report, shown: &Selection<'_>) -> Vec<Joules<'r>> {
    let mut rows = Vec::new();
    for device in report.energy.iter().flat_map(|e| &e.devices) {
        for c in device.classes.iter().filter(|c| c.kind != "kernel" || (shown.matches)(&c.name)) {
            let (name, joules) = (c.name.clone(), c.joules);
            rows.push(Joules {
                device,
                name,
                kind: c.kind,
                joules,
                watts: c.watts,
                class: Some(c),
            });
        }
        for part in device.parts() {
            let name = match part.of {
                PartOf::Class(_) => continue,
                PartOf::Sum(names) => format!("only as a sum: {}", names.join(" + ")),
                PartOf::Floor(floor) => format!("idle power {}", floor.name),
                PartOf::Rest => "unattributed".to_owned(),
            };
            let joules = Some(part.joules);
            let watts = match part.of {
                PartOf::Floor(floor) => floor.watts,
                _ => None,
            };
            rows.push(Joules { device, name, kind: "rest", joules, watts, class: None });
        }
    }
    rows
}

const PLACES: [Column<Place>; 15] = [
    ("rank", |p| optional(p.rank)),
    ("host", |p| optional(p.host.clone())),
    ("of_mean", |p| optional(p.of_mean)),
    ("device_ns", |p| value(p.device_ns)),
    ("device_ci95_low_ns", |p| low(p.device_ns)),
    ("device_ci95_high_ns", |p| high(p.device_ns)),
    ("estimated", |p| optional(p.device_ns.map(|t| t.estimated))),
    ("wait_ns", |p| p.wait_ns.to_string()),
    ("joules", |p| value(p.joules)),
    ("joules_low", |p| low(p.joules)),
    ("joules_high", |p| high(p.joules)),
    ("launches", |p| p.launches.to_string()),
    ("processes", |p| p.processes.to_string()),
    ("traces", |p| p.traces.to_string()),
    ("without", |p| p.without.to_string()),
];

/// The mean of a counter while a class ran.
struct Mean<'r> {
    source: &'r Source,
    class: &'r Counted,
    column: &'r Counter,
    of: &'r Value,
    mean: Option<Interval>,
}

impl Mean<'_> {
    const COLUMNS: [Column<Self>; 12] = [
        ("name", |r| r.class.name.clone()),
        ("kind", |r| r.class.kind.to_owned()),
        ("device", |r| r.source.device.clone()),
        ("source", |r| r.source.source.clone()),
        ("set", |r| optional(r.source.set.clone())),
        ("counter", |r| r.column.name.clone()),
        ("unit", |r| r.column.unit.clone()),
        ("mean", |r| value(r.mean)),
        ("mean_low", |r| low(r.mean)),
        ("mean_high", |r| high(r.mean)),
        ("group", |r| optional(r.of.only_with.as_ref().map(|group| group.classes.join(" + ")))),
        ("why", |r| optional(r.of.why.clone())),
    ];
}

fn counters<'r>(report: &'r Report, shown: &Selection<'_>) -> Vec<Mean<'r>> {
    let mut rows = Vec::new();
    for source in report.counters.iter().flat_map(|c| &c.sources) {
        let classes = source.classes.iter();
        for class in classes.filter(|c| c.kind != "kernel" || (shown.matches)(&c.name)) {
            for column in &source.columns {
                let Some(of) = class.values.get(&column.name) else { continue };
                let mean = of.mean.or(of.only_with.as_ref().map(|group| group.mean));
                rows.push(Mean { source, class, column, of, mean });
            }
        }
    }
    rows
}

const IDLE: [Column<Idle>; 3] = [
    ("cause", |i| i.cause.clone()),
    ("ns", |i| i.ns.to_string()),
    ("share", |i| optional(i.share)),
];

/// What ran while a call waited; nothing, where it has no name.
struct Ran<'r> {
    wait: &'r Wait,
    name: &'r str,
    ns: u64,
    share: Option<f64>,
}

impl Ran<'_> {
    const COLUMNS: [Column<Self>; 6] = [
        ("function", |r| r.wait.function.name.clone()),
        ("waits", |r| r.wait.function.calls.to_string()),
        ("blocked_ns", |r| r.wait.function.time_ns.total.to_string()),
        ("running", |r| r.name.to_owned()),
        ("ns", |r| r.ns.to_string()),
        ("share", |r| optional(r.share)),
    ];
}

fn waits(wait: &Wait) -> impl Iterator<Item = Ran<'_>> {
    let total = wait.function.time_ns.total as f64;
    let ran = wait.waited_for.iter();
    let ran = ran.map(move |of| Ran { wait, name: &of.name, ns: of.ns, share: of.share });
    ran.chain(wait.nothing_ns.map(|ns| {
        let share = (total > 0.0).then(|| ns as f64 / total);
        Ran { wait, name: "", ns, share }
    }))
}

const QUEUES: [Column<Queue>; 18] = [
    ("process", |q| q.process.clone()),
    ("queue", |q| q.id.to_string()),
    ("device", |q| q.device.clone()),
    ("out_of_order", |q| q.out_of_order.to_string()),
    ("commands", |q| q.commands.to_string()),
    ("busy_ns", |q| optional(q.busy_ns)),
    ("idle_ns", |q| optional(q.idle_ns)),
    ("gaps", |q| q.gaps_ns.count.to_string()),
    ("gap_median_ns", |q| optional(q.gaps_ns.median)),
    ("queue_wait_median_ns", |q| optional(q.queue_wait_ns.median)),
    ("submit_wait_median_ns", |q| optional(q.submit_wait_ns.median)),
    ("execution_median_ns", |q| optional(q.execution_ns.median)),
    ("notice_median_ns", |q| optional(q.notice_ns.median)),
    ("late", |q| q.late.to_string()),
    ("left_out", |q| q.left_out.to_string()),
    ("busy_estimate_ns", |q| value(q.busy_estimate_ns)),
    ("busy_ci95_low_ns", |q| low(q.busy_estimate_ns)),
    ("busy_ci95_high_ns", |q| high(q.busy_estimate_ns)),
];

/// A section as it is written: names of columns and rows, without the column that names it.
struct Table {
    header: Vec<&'static str>,
    rows: Vec<(&'static str, Vec<String>)>,
}

impl Table {
    fn new<'r, R: 'r>(
        section: &'static str,
        columns: &[Column<R>],
        rows: impl IntoIterator<Item = &'r R>,
    ) -> Self {
        let rows = rows.into_iter().map(|row| (section, cells(columns, row)));
        Self { header: names(columns), rows: rows.collect() }
    }

    /// Rows of commands, each with its section.
    fn of_commands<'r>(rows: impl Iterator<Item = (&'static str, &'r Commands)>) -> Self {
        let row = |c| [cells(&COMMANDS, c), cells(&SUMMARY, &c.time_ns), cells(&ESTIMATES, c)];
        Self {
            header: [names(&COMMANDS), names(&SUMMARY), names(&ESTIMATES)].concat(),
            rows: rows.map(|(section, c)| (section, row(c).concat())).collect(),
        }
    }

    fn of_functions<'r>(rows: impl Iterator<Item = &'r Function>) -> Self {
        let row = |f: &Function| [cells(&FUNCTIONS, f), cells(&SUMMARY, &f.time_ns)].concat();
        Self {
            header: [names(&FUNCTIONS), names(&SUMMARY)].concat(),
            rows: rows.map(|f| ("functions", row(f))).collect(),
        }
    }

    fn of_section(section: Section, report: &Report, shown: &Selection<'_>) -> Self {
        match section {
            Section::Kernels => {
                let rows = report.kernels.iter().filter(|k| (shown.matches)(&k.name));
                Self::of_commands(rows.map(|k| ("kernels", k)))
            }
            Section::Energy => Self::new("energy", &Joules::COLUMNS, &energy(report, shown)),
            Section::Counters => Self::new("counters", &Mean::COLUMNS, &counters(report, shown)),
            Section::Transfers => {
                let others = report.other_commands.iter().map(|c| ("other", c));
                let transfers = report.transfers.iter().map(|t| ("transfers", t));
                Self::of_commands(transfers.chain(others))
            }
            Section::Functions => {
                let rows = report.functions.iter().filter(|f| (shown.matches)(&f.name));
                Self::of_functions(rows)
            }
            Section::Idle => Self::new("idle", &IDLE, &report.idle),
            Section::Waits => {
                let rows: Vec<Ran<'_>> = report.waits.iter().flat_map(waits).collect();
                Self::new("waits", &Ran::COLUMNS, &rows)
            }
            Section::Queues => Self::new("queues", &QUEUES, &report.queues),
        }
    }
}

/// Writes the sections, all columns of each.
///
/// # Errors
/// Where the output cannot be written.
pub fn write(
    report: &Report,
    shown: &Selection<'_>,
    out: &mut dyn Write,
) -> Result<(), ExportError> {
    let rows = report.places.iter().map(|places| &places.rows);
    let places = rows.map(|rows| Table::new("places", &PLACES, rows));
    let sections = shown.sections.iter().map(|of| Table::of_section(*of, report, shown));
    for (i, table) in places.chain(sections).enumerate() {
        if i > 0 {
            writeln!(out)?;
        }
        let mut csv = csv::Writer::from_writer(&mut *out);
        csv.write_record(std::iter::once("section").chain(table.header))?;
        for (section, row) in table.rows.iter().take(shown.limit.unwrap_or(usize::MAX)) {
            let row = row.iter().map(|text| cell(text).into_owned());
            csv.write_record(std::iter::once((*section).to_owned()).chain(row))?;
        }
        csv.flush()?;
    }
    Ok(())
}
