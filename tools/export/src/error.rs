//! Why a file could not be written. Refuses to name the file: writers take any `Write`, and who
//! opened it knows its name.

use clscope_profile::error::ReadingsError;
use std::io;
use std::path::PathBuf;

/// An export ended before it was whole.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // fields are named in the messages
pub enum ExportError {
    /// The output took no more.
    #[error(transparent)]
    Write(#[from] io::Error),
    /// A value has no form in JSON.
    #[error("cannot write a value as JSON")]
    Json(#[source] serde_json::Error),
    /// A file of readings that the user named cannot be used.
    #[error(transparent)]
    Readings(#[from] ReadingsError),
    /// A table could not be written.
    #[error("cannot write a Parquet file")]
    Parquet(#[from] parquet::errors::ParquetError),
    /// A part of a table could not be read.
    #[error("cannot read {}, a part of a table", path.display())]
    Unread {
        /// The part.
        path: PathBuf,
        /// Why.
        #[source]
        source: parquet::errors::ParquetError,
    },
    /// A row does not fit its table: a mistake of the writer.
    #[error("a row of the table {table} does not fit its column {column}: {found}")]
    Row { table: &'static str, column: &'static str, found: String },
    /// The folder holds files that are not of this export.
    #[error("{} holds files and is no data set of clscope; name a new folder", path.display())]
    ForeignFolder { path: PathBuf },
    /// It was told to stop.
    #[error("interrupted: nothing was added or changed")]
    Interrupted,
    /// The folder holds tables of another schema.
    #[error(
        "{} holds tables of {}, and this version knows schema {own}; export to a new folder",
        path.display(),
        found.map_or_else(|| "an unknown schema".to_owned(), |n| format!("schema {n}"))
    )]
    OtherSchema { path: PathBuf, found: Option<u64>, own: u32 },
}

impl From<serde_json::Error> for ExportError {
    /// An error of the output stays one: callers look at its kind.
    fn from(error: serde_json::Error) -> Self {
        if error.is_io() { Self::Write(error.into()) } else { Self::Json(error) }
    }
}

impl From<csv::Error> for ExportError {
    fn from(error: csv::Error) -> Self {
        Self::Write(error.into())
    }
}
