//! A profile as a folder of Parquet files, for engines that query tables: DuckDB, Spark, pandas,
//! Polars. The tables are in [`schema`]. Each process has files of its own, so that every rank can
//! add its part to one folder where its trace lies. Refuses to merge what lies there already: a
//! part of the same process is replaced, others stay.

mod arrow;
mod events;
mod folder;
mod part;
pub mod read;
pub mod schema;
mod sums;

use crate::power::Power;
use crate::{ExportError, Summary};
use clscope_analysis::Trace;
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
use std::sync::atomic::{AtomicBool, Ordering};

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
    /// Set where nobody waits for the tables any more.
    pub stop: Option<&'v AtomicBool>,
}

/// What a part is called: the process, and the second in which it began, so that a later process
/// with the same id has another.
fn part_name(process: &Process<'_>) -> String {
    let began = process.definitions.anchors.first().map(|a| a.realtime / 1_000_000_000);
    began.map_or_else(|| process.label.clone(), |second| format!("{}-{second}", process.label))
}

/// The trace's origin as CLOCK_REALTIME.
fn origin_unix_ns(trace: &Trace<'_>) -> Option<i64> {
    Some(trace.timeline.wall_offset_ns?.saturating_add(trace.origin().0))
}

impl Document<'_, '_> {
    /// Writes the tables to a folder, which is made if it is not there.
    ///
    /// # Errors
    /// If the folder holds something else, or cannot be written, or it is to stop: then what is in
    /// the folder is as it was.
    pub fn write(&self, path: &Path) -> Result<Summary, ExportError> {
        let trace = self.view.trace();
        let wanted =
            |table: &Table| self.tables.is_empty() || self.tables.iter().any(|t| t == table.name);
        let report = self.view.report()?;
        let mut folder = Folder::open(path)?;
        let names: Vec<String> = trace.processes.iter().map(part_name).collect();
        let mut events = Events::new((trace, self.power, self.by), &mut folder, &names, &wanted)?;
        let alignment = self.view.alignment();
        let mut read = trace.events(Some(alignment));
        let mut lacks = vec![Missing::default(); trace.processes.len()];
        for event in read.by_ref() {
            self.goes_on()?;
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
        for table in TABLES.iter().filter(|table| !table.by_rank && wanted(table)) {
            let mut part = Part::create(table, &folder.part(table, "", None, &name)?, GROUP)?;
            sums.write(table, &mut part)?;
            part.finish()?;
        }
        self.goes_on()?;
        folder.finish()?;
        Ok(summary)
    }

    fn goes_on(&self) -> Result<(), ExportError> {
        match self.stop {
            Some(stop) if stop.load(Ordering::Relaxed) => Err(ExportError::Interrupted),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clscope_analysis::testing::{HostModel, ProcessBuilder, function};
    use clscope_profile::profile::{Options, Profile};

    #[test]
    fn told_to_stop_it_leaves_nothing() {
        let root = tempfile::tempdir().unwrap();
        let trace = root.path().join("t.clscope");
        std::fs::create_dir(&trace).unwrap();
        let mut process = ProcessBuilder::standard(HostModel::default(), 7, 1);
        process.thread(0).plain(function::FINISH, 0, 1_000, 0, 1);
        let bytes = process.exit(1_000_000, 0).build();
        std::fs::write(trace.join("7-0.defs"), bytes.defs).unwrap();
        std::fs::write(trace.join("7-0.0.clt"), bytes.segment).unwrap();
        let profile = Profile::open(&[trace]).unwrap();
        let view = profile.view(Options::default());
        let (power, stop) = (Power::of_view(&view).unwrap(), AtomicBool::new(true));
        let sources = profile.files().names();
        let document = Document {
            view: &view,
            power: &power,
            by: view.grouping(),
            sources: &sources,
            tables: &[],
            stop: Some(&stop),
        };
        let target = root.path().join("data");
        assert!(matches!(document.write(&target), Err(ExportError::Interrupted)));
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 1, "the trace alone is left");
        stop.store(false, Ordering::Relaxed);
        document.write(&target).unwrap();
        assert!(is_folder(&target));
    }
}
