//! Profiles as files for other programs: Perfetto's own format, Chrome's trace events, Parquet,
//! flame graphs, the report as a page, differences for people and CI, dumps, CSV. Refuses to
//! compute figures, to print and to decide where a file goes: writers take any `Write`.
#![forbid(unsafe_code)]

mod arguments;
pub mod chrome;
pub mod differences;
mod drawn;
pub mod dump;
mod error;
mod lanes;
mod layout;
pub mod page;
pub mod parquet;
pub mod perfetto;
pub mod power;
mod proto;
mod repeated;
pub mod roofline;
pub mod rows;
pub mod serve;
pub mod stacks;
mod values;

pub use error::ExportError;

use clscope_analysis::issue::{Issue, Severity};
use std::io::Write;

/// A gzip stream into `out`; it must be finished.
pub fn compressed<W: Write>(out: W) -> flate2::write::GzEncoder<W> {
    flate2::write::GzEncoder::new(out, flate2::Compression::default())
}

/// What of a timeline was written.
#[derive(Debug, Default)]
pub struct Summary {
    /// Host calls.
    pub calls: u64,
    /// Device spans.
    pub device_spans: u64,
    /// Launches that sampled timing left out: they have no device span.
    pub not_sampled: u64,
    /// What is wrong with the trace.
    pub issues: Vec<Issue>,
}

impl Summary {
    /// The issues that are warnings or worse, each with its remedy.
    fn warnings(&self) -> Vec<String> {
        let worse = self.issues.iter().filter(|i| i.kind.severity() >= Severity::Warning);
        let told = worse.map(|issue| match issue.kind.remedy() {
            Some(remedy) => format!("{issue}; {remedy}"),
            None => issue.to_string(),
        });
        told.collect()
    }
}
