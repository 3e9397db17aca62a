//! The answer of a run: why it takes its time, what to do, and the rows that matter (`data`).
//! How the wall time is divided is in `causes`, advice in `advice`, what an application does
//! already in `habits`, what it does again and again in `patterns`, rows in `rows` and `buffers`.

mod advice;
mod buffers;
mod causes;
pub mod data;
pub mod habits;
mod patterns;
mod rows;
mod sentences;

pub(crate) use causes::OVER;
pub use data::Answer;

use crate::report::Report;
use clscope_analysis::Trace;
use clscope_analysis::stats::Stats;
use habits::Habits;

impl Answer {
    /// Of a report and what it was made of. Joules are in it where the report has them.
    pub fn new(report: &Report, trace: &Trace<'_>, stats: &Stats) -> Self {
        let mut out = rows::rows(report, trace, stats);
        let divided = causes::divide(report, trace, stats, &out);
        out.run.wall_ns = Some(divided.wall_ns).filter(|_| divided.processes > 0);
        out.run.wall_processes = divided.processes;
        out.buffers = buffers::rows(stats);
        out.patterns = patterns::patterns(report, trace, &out.buffers);
        let habits = Habits::gather(trace, stats);
        out.advice = advice::advise(&divided, report, &habits, &out.patterns);
        out.why = divided.causes;
        out
    }
}

impl Report {
    /// Makes the answer anew, with what the report holds by now.
    pub fn answer_anew(&mut self, trace: &Trace<'_>, stats: &Stats) {
        self.answer = Answer::new(self, trace, stats);
    }
}

/// A time with three digits, for sentences.
fn time(ns: f64) -> String {
    let (value, unit) = match ns.abs() {
        x if x < 999.5 => return format!("{ns:.0} ns"),
        x if x < 999.5e3 => (ns / 1e3, "us"),
        x if x < 999.5e6 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    match value.abs() {
        x if x < 9.95 => format!("{value:.1} {unit}"),
        _ => format!("{value:.0} {unit}"),
    }
}

/// Bytes with two digits, as the first screen shows them, too.
pub fn bytes(n: f64) -> String {
    let (value, unit) = clscope_io::text::in_unit_of_bytes(n);
    match value < 9.95 && unit != "B" {
        true => format!("{value:.1} {unit}"),
        false => format!("{value:.0} {unit}"),
    }
}

/// A share in per cent.
fn percent(share: f64) -> String {
    match 100.0 * share {
        x if x >= 9.95 => format!("{x:.0} %"),
        x => format!("{x:.1} %"),
    }
}

/// So many things.
fn count(n: u64, one: &str, many: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {many}") }
}
