//! What must be known of tables to read an answer rightly, and what to do where there is none.
//! Refuses to understand a query: it looks for names of tables in it.

use crate::engine::{QueryError, missing_table};
use clscope_export::ExportError;
use clscope_export::parquet::read;
use clscope_export::parquet::schema::TABLES;
use clscope_profile::report::ranks;
use std::path::{Path, PathBuf};

/// Whether a query has a word, by itself.
fn mentions(query: &str, word: &str) -> bool {
    let mut words = query.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.any(|of| of.eq_ignore_ascii_case(word))
}

/// Why a table that was written may have no row.
fn why_empty(table: &str) -> &'static str {
    match table {
        "power" => {
            "no sensor was read while the application ran (`clscope doctor` says which work)"
        }
        "energy" => "joules need a sensor of a device's power (`clscope doctor` says which work)",
        "counters" => "`clscope record --counters LIST` records hardware counters",
        "sites" => "`clscope record --call-sites` records where calls come from",
        "waits" => "no command had a wait list",
        "commands" => "the application enqueued no command",
        _ => "the trace has nothing of it",
    }
}

/// What must be known of the tables to read the answer rightly, a note each.
///
/// # Errors
/// If a table cannot be read.
pub fn hints(folder: &Path, query: &str) -> Result<Vec<String>, ExportError> {
    let mut out = Vec::new();
    for table in TABLES.iter().filter(|table| mentions(query, table.name)) {
        if read::is_empty(folder, table)? {
            let (name, why) = (table.name, why_empty(table.name));
            out.push(format!("the table {name} has no row: {why}"));
        }
    }
    if mentions(query, "rank") {
        out.extend(ranks::doubts(read::ranks(folder)?, "the answer is of the others"));
    }
    Ok(out)
}

/// Why a query has no answer, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // fields are named in the messages
pub enum Unanswered {
    /// The folder lacks a table that there could be.
    #[error(
        "the folder {} has no table {table}: `clscope export parquet --tables {table} -o {0} TRACE` adds it",
        folder.display()
    )]
    NotExported { folder: PathBuf, table: String },
    /// There is no such table.
    #[error("there is no such table; there are {known}")]
    NoTable { known: String, source: QueryError },
    /// It refused the query.
    #[error(
        "cannot answer {query} (`clscope sql 'DESCRIBE commands'` shows the columns of a table)"
    )]
    Refused { query: String, source: QueryError },
    /// It did not come to that.
    #[error(transparent)]
    Other(QueryError),
}

/// The error, with what to do about a table that the folder does not have.
pub fn explained(error: QueryError, folder: &Path, query: &str) -> Unanswered {
    let QueryError::Refused(why) = &error else { return Unanswered::Other(error) };
    let missing = missing_table(why).map(str::to_owned);
    let is_known = |name: &&String| TABLES.iter().any(|table| table.name == **name);
    match missing.as_ref().filter(is_known) {
        Some(table) => Unanswered::NotExported { folder: folder.to_owned(), table: table.clone() },
        None if missing.is_some() => {
            let names: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
            Unanswered::NoTable { known: names.join(", "), source: error }
        }
        None => {
            let line = query.lines().next().unwrap_or_default();
            let short: String = line.chars().take(80).collect();
            let more = if short.len() < query.len() { " ..." } else { "" };
            Unanswered::Refused { query: format!("{short}{more}"), source: error }
        }
    }
}
