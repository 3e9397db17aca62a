//! The files of a run, each whole or not at all. Owns those of a device's parameters; refuses to
//! compute figures.

use crate::model::Measured;
use clscope_io::output::{Access, Whole};
use clscope_models::kept::{self, FileError};
use serde::Serialize;
use std::io;
use std::path::{Path, PathBuf};

/// Files could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// A directory cannot be made.
    #[error("cannot make the directory {}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A file cannot be made.
    #[error("cannot write {}; choose another place", path.display())]
    Made {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {}", path.display())]
    Written {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file of parameters cannot be written.
    #[error(transparent)]
    Parameters(#[from] FileError),
}

/// Makes the directory that files go into.
///
/// # Errors
/// If it cannot be made.
pub fn make(directory: &Path) -> Result<(), WriteError> {
    std::fs::create_dir_all(directory)
        .map_err(|source| WriteError::Directory { path: directory.to_owned(), source })
}

/// Writes a file, whole or not at all.
///
/// # Errors
/// If it cannot be written.
pub fn whole<E>(
    path: &Path,
    write: impl FnOnce(&mut Whole) -> Result<(), E>,
) -> Result<(), WriteError>
where
    Box<dyn std::error::Error + Send + Sync>: From<E>,
{
    let mut out = Whole::create(path, Access::Umask)
        .map_err(|source| WriteError::Made { path: path.to_owned(), source })?;
    let failed = |source| WriteError::Written { path: path.to_owned(), source };
    write(&mut out).map_err(|error| failed(error.into()))?;
    out.finish().map_err(|error| failed(error.into()))
}

/// Writes a JSON document.
///
/// # Errors
/// If it cannot be written.
pub fn json(path: &Path, of: &impl Serialize) -> Result<(), WriteError> {
    whole(path, |out| serde_json::to_writer_pretty(out, of))
}

/// Writes what parameters come from, part by part, and their own file.
///
/// # Errors
/// Where a file cannot be written.
pub fn measured(of: &Measured, directory: &Path) -> Result<(), WriteError> {
    make(directory)?;
    for (n, part) in of.results.iter().enumerate() {
        json(&directory.join(format!("results-{}.json", n + 1)), part)?;
    }
    Ok(kept::write(&of.device, &directory.join("device.json"))?)
}
