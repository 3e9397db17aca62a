//! The report for people, and what of it is shown. Owns the order of rows, filters and limits;
//! refuses to compute: figures come with the report.

mod counters;
mod energy;
pub mod first;
mod heading;
mod places;
mod text;

use crate::table::{Column, Table};
use clscope_export::{ExportError, rows};
use clscope_io::text::Page;
use clscope_profile::names::Names;
use clscope_profile::report::Report;
use clscope_profile::report::data::{Commands, Function};
use std::fmt::Write as _;
use std::io::Write;
use std::rc::Rc;

pub use clscope_export::rows::Section;
pub use text::render;

/// Order of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// Total time.
    Total,
    /// Number of launches or calls.
    Count,
    /// Mean time.
    Mean,
    /// Longest time.
    Max,
    /// Name.
    Name,
}

/// What of a report is shown.
#[derive(Debug, Clone)]
pub struct Shown {
    /// Its sections, in their order.
    pub sections: Vec<Section>,
    /// Rows of a section; 0 for all.
    pub most: usize,
    /// The user asked for that number.
    pub limited: bool,
    /// Pattern of the names of kernels and functions.
    pub pattern: Option<String>,
    /// Readable names of kernels: any of a kernel's names is meant.
    pub names: Rc<Names>,
    /// Counters asked for by name.
    pub counters: Vec<String>,
    /// Columns: the terminal's; where there is none, what `COLUMNS` says, or 80.
    pub width: usize,
}

impl Shown {
    /// How many of `n` rows are shown.
    pub(crate) fn limit(&self, n: usize) -> usize {
        if self.most == 0 { n } else { n.min(self.most) }
    }

    /// Whether a kernel or function of this name is shown.
    pub fn matches(&self, name: &str) -> bool {
        self.pattern.as_deref().is_none_or(|p| self.names.is_meant(p, name))
    }
}

/// Writes a table of the rows that are shown, and how many are not.
fn limited<'r, R: 'r>(
    rows: impl ExactSizeIterator<Item = &'r R>,
    columns: &[Column<'_, R>],
    shown: &Shown,
    out: &mut Page,
) {
    let (all, limit) = (rows.len(), shown.limit(rows.len()));
    out.push_str(&Table::of_rows(rows.take(limit), columns).render(shown.width));
    more(out, all - limit);
}

fn more(out: &mut Page, hidden: usize) {
    if hidden > 0 {
        put!(out, "  and {hidden} more: --limit 0 shows all");
    }
}

/// Puts the rows of every section in an order.
pub fn sort(report: &mut Report, by: Sort) {
    fn mean(m: Option<f64>) -> f64 {
        m.unwrap_or(-1.0)
    }
    let commands = |a: &Commands, b: &Commands| match by {
        Sort::Total => b.total().total_cmp(&a.total()),
        Sort::Count => b.count.cmp(&a.count),
        Sort::Mean => b.mean().total_cmp(&a.mean()),
        Sort::Max => b.time_ns.max.cmp(&a.time_ns.max),
        Sort::Name => a.name.cmp(&b.name),
    };
    let functions = |a: &Function, b: &Function| match by {
        Sort::Total => b.time_ns.total.cmp(&a.time_ns.total),
        Sort::Count => b.calls.cmp(&a.calls),
        Sort::Mean => mean(b.time_ns.mean).total_cmp(&mean(a.time_ns.mean)),
        Sort::Max => b.time_ns.max.cmp(&a.time_ns.max),
        Sort::Name => a.name.cmp(&b.name),
    };
    // The sorts are stable, and the lists come by total and name.
    report.kernels.sort_by(commands);
    report.transfers.sort_by(commands);
    report.other_commands.sort_by(commands);
    report.functions.sort_by(functions);
}

/// Applies the user's filters to what JSON and a page give.
pub fn narrow(report: &mut Report, shown: &Shown) {
    report.totals = report.totals_of(|name| shown.matches(name));
    report.kernels.retain(|k| shown.matches(&k.name));
    report.functions.retain(|f| shown.matches(&f.name));
    for source in report.counters.iter_mut().flat_map(|counters| &mut counters.sources) {
        let kept: Vec<String> =
            counters::chosen(source, shown).iter().map(|column| column.name.clone()).collect();
        if !shown.counters.is_empty() {
            source.columns.retain(|column| kept.contains(&column.name));
            source
                .classes
                .iter_mut()
                .for_each(|class| class.values.retain(|n, _| kept.contains(n)));
        }
    }
    if shown.limited {
        report.kernels.truncate(shown.limit(report.kernels.len()));
        report.functions.truncate(shown.limit(report.functions.len()));
    }
}

/// Writes what is shown as CSV.
///
/// # Errors
/// If it cannot be written.
pub fn csv(report: &Report, shown: &Shown, mut out: impl Write) -> Result<(), ExportError> {
    let selection = rows::Selection {
        sections: &shown.sections,
        limit: (shown.limited && shown.most > 0).then_some(shown.most),
        matches: &|name| shown.matches(name),
    };
    rows::write(report, &selection, &mut out)
}

#[cfg(test)]
mod tests;
