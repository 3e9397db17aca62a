//! Why a file could not be written. Refuses to name the file: writers take any `Write`, and who opened
//! it knows its name.
#![forbid(unsafe_code)]

use clscope_profile::error::ReadingsError;
use std::io;

/// An export ended before it was whole.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
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
