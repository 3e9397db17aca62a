//! Owns what is asked of a folder of tables before any engine: how many rows a table has, and which
//! ranks there are. Refuses to answer queries.

use super::schema::Table;
use crate::ExportError;
use clscope_io::input;
use clscope_profile::report::ranks::{RankProcess, Ranks, gathered};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use std::path::{Path, PathBuf};

/// Parts of a table, in order of their paths.
pub fn parts(folder: &Path, table: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder.join(table)).into_iter().flatten();
    let paths = entries.filter_map(Result::ok).map(|entry| entry.path());
    let is_part = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "parquet");
    let mut out: Vec<PathBuf> = paths.filter(|path| is_part(path) && path.is_file()).collect();
    out.sort();
    out
}

fn reader(path: &Path) -> Result<SerializedFileReader<std::fs::File>, ExportError> {
    let file = input::open_inside(path).map_err(|error| unread(path, error.into()))?;
    SerializedFileReader::new(file).map_err(|source| unread(path, source))
}

/// Whether a table that was written has no row.
///
/// # Errors
/// If a part cannot be read.
pub fn is_empty(folder: &Path, table: &Table) -> Result<bool, ExportError> {
    let parts = parts(folder, table.name);
    for part in &parts {
        if reader(part)?.metadata().file_metadata().num_rows() > 0 {
            return Ok(false);
        }
    }
    Ok(!parts.is_empty())
}

/// The ranks of a folder's table of processes, with what is to be said of them: traces of one name
/// that were exported apart are two.
///
/// # Errors
/// If a part cannot be read.
pub fn ranks(folder: &Path) -> Result<Ranks, ExportError> {
    let mut processes = Vec::new();
    for part in parts(folder, "processes") {
        for row in reader(&part)?.get_row_iter(None).map_err(|source| unread(&part, source))? {
            let row = row.map_err(|source| unread(&part, source))?;
            let Some(Field::Int(rank)) = field(&row, "rank") else { continue };
            let text = |name: &str| match field(&row, name) {
                Some(Field::Str(text)) => text.clone(),
                _ => String::new(),
            };
            let process = text("process");
            let trace = process.rsplit_once('/').map_or("", |(trace, _)| trace);
            let trace = format!("{}/{trace}", part.display());
            // Older parts have no such column.
            let job_ranks = match field(&row, "job_ranks") {
                Some(Field::Int(ranks)) => u32::try_from(*ranks).ok(),
                _ => None,
            };
            let rank = rank.unsigned_abs();
            processes.push(RankProcess { rank, job_ranks, host: text("host"), trace });
        }
    }
    Ok(gathered(processes))
}

fn unread(path: &Path, source: parquet::errors::ParquetError) -> ExportError {
    ExportError::Unread { path: path.to_owned(), source }
}

fn field<'r>(row: &'r Row, name: &str) -> Option<&'r Field> {
    row.get_column_iter().find(|(column, _)| *column == name).map(|(_, field)| field)
}
