//! A profile as a folder of Parquet files, for engines that query tables: DuckDB, Spark, pandas,
//! Polars. The tables are in [`schema`]. Each process has files of its own, so that every rank can
//! add its part to one folder where its trace lies. Refuses to merge what lies there already: a
//! part of the same process is replaced, others stay.

mod events;
mod folder;
mod part;
pub mod read;
pub mod schema;
mod sums;

use crate::power::Power;
use crate::{ExportError, Summary};
use clscope_analysis::input::Process;
use clscope_analysis::missing::{self, Missing};
use clscope_profile::energy::activity::Grouping;
use clscope_profile::profile::View;
use events::Events;
use folder::Folder;
pub use folder::{is_folder, known_schema};
use part::Part;
use schema::{TABLES, Table};
use std::path::Path;

/// Rows of small tables that are kept in memory, at most.
const GROUP: usize = 1 << 16;

/// What is to be written.
pub struct Document<'v, 'p> {
    /// The traces.
    pub view: &'v View<'p>,
    /// Their sensors.
    pub power: &'v Power,
    /// The key of its figures.
    pub by: Grouping<'v>,
    /// Names of the trace directories.
    pub sources: &'v [String],
    /// Names of the tables to write; all if empty.
    pub tables: &'v [String],
}

/// What a part is called: the process, and the second in which it began, so that a later process
/// with the same id has another.
fn part_name(process: &Process<'_>) -> String {
    let began = process.definitions.anchors.first().map(|a| a.realtime / 1_000_000_000);
    began.map_or_else(|| process.label.clone(), |second| format!("{}-{second}", process.label))
}

impl Document<'_, '_> {
    /// Writes the tables to a folder, which is made if it is not there.
    ///
    /// # Errors
    /// If the folder holds something else, or cannot be written.
    pub fn write(&self, path: &Path) -> Result<Summary, ExportError> {
        let trace = self.view.trace();
        let wanted =
            |table: &Table| self.tables.is_empty() || self.tables.iter().any(|t| t == table.name);
        let report = self.view.report()?;
        let folder = Folder::open(path)?;
        let names: Vec<String> = trace.processes.iter().map(part_name).collect();
        let mut events = Events::new((trace, self.power, self.by), &folder, &names, &wanted)?;
        let alignment = self.view.alignment();
        let mut read = trace.events(Some(alignment));
        let mut lacks = vec![Missing::default(); trace.processes.len()];
        for event in read.by_ref() {
            missing::observe(&mut lacks, &event);
            events.event(&event)?;
        }
        let mut summary = Summary {
            issues: trace.issues_after(read.tally(), Some(alignment)),
            ..Summary::default()
        };
        summary.issues.extend(missing::issues(trace, &lacks));
        let (commands, calls) = events.finish()?;
        (summary.device_spans, summary.calls) = (commands, calls);
        let traces = self.sources.join(", ");
        let sums = sums::Sums {
            trace,
            report: &report,
            power: self.power,
            sites: self.view.sites(),
            traces: &traces,
        };
        // Traces that are read together have one part, named by their first process.
        let name = match (names.first(), names.len()) {
            (Some(first), 1) => first.clone(),
            (Some(first), n) => format!("{first}-and-{}", n - 1),
            (None, _) => "empty".to_owned(),
        };
        for table in TABLES.into_iter().filter(|table| !table.by_rank && wanted(table)) {
            let mut part = Part::create(table, &folder.part(table, "", None, &name)?, GROUP)?;
            sums.write(table, &mut part)?;
            part.finish()?;
        }
        Ok(summary)
    }
}
