//! The files of a run, each whole or not at all. Owns those of a device's parameters; refuses to
//! compute figures.

use crate::model::Measured;
use clscope_io::output::{Access, Whole};
use clscope_models::kept::{self, FileError};
use serde::Serialize;
use std::io;
use std::path::Path;

/// Makes the directory that files go into.
///
/// # Errors
/// If it cannot be made.
pub fn make(directory: &Path) -> Result<(), FileError> {
    std::fs::create_dir_all(directory)
        .map_err(|source| FileError::Folder { path: directory.to_owned(), source })
}

/// Writes a file, whole or not at all.
///
/// # Errors
/// If it cannot be written.
pub fn whole<E>(
    path: &Path,
    write: impl FnOnce(&mut Whole) -> Result<(), E>,
) -> Result<(), FileError>
where
    Box<dyn std::error::Error + Send + Sync>: From<E>,
{
    let mut out = Whole::create(path, Access::Umask)
        .map_err(|source| FileError::Made { path: path.to_owned(), source })?;
    let failed = |source| FileError::Written { path: path.to_owned(), source };
    write(&mut out).map_err(|error| failed(io::Error::other(error)))?;
    out.finish().map_err(failed)
}

/// Writes a JSON document.
///
/// # Errors
/// If it cannot be written.
pub fn json(path: &Path, of: &impl Serialize) -> Result<(), FileError> {
    whole(path, |out| serde_json::to_writer_pretty(out, of))
}

/// Writes what parameters come from, part by part, and their own file.
///
/// # Errors
/// Where a file cannot be written.
pub fn measured(of: &Measured, directory: &Path) -> Result<(), FileError> {
    make(directory)?;
    for (n, part) in of.results.iter().enumerate() {
        json(&directory.join(format!("results-{}.json", n + 1)), part)?;
    }
    kept::write(&of.device, &directory.join("device.json"))
}
