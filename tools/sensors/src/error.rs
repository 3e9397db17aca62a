//! What can go wrong with a sensor, each with the object it happened on and, where one exists, the
//! one command that helps. Refuses to turn any failure into a value.
#![forbid(unsafe_code)]

use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// A sensor that is absent, refused, broken or gone.
#[derive(Debug, Error)]
#[non_exhaustive]
#[allow(missing_docs)] // fields are named in the messages
pub enum SensorError {
    /// The interface does not exist on this machine.
    #[error("{what}: not found at {}", path.display())]
    NotFound { what: &'static str, path: PathBuf, remedy: Option<String> },
    /// The system refuses access.
    #[error("{what}: access to {} denied ({detail})", path.display())]
    Denied { what: &'static str, path: PathBuf, detail: String, remedy: String },
    /// A file's content is not what the interface promises.
    #[error("{what}: {} holds {found:?}, expected {expected}", path.display())]
    Malformed { what: &'static str, path: PathBuf, found: String, expected: &'static str },
    /// It was there when opened and is gone now.
    #[error("{what}: {} vanished while it was being sampled", path.display())]
    Vanished { what: &'static str, path: PathBuf },
    /// Any other failure of the system.
    #[error("{what}: reading {} failed", path.display())]
    Io {
        /// What was to be read.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The hardware or its driver does not offer this.
    #[error("{what}: not supported here: {why}")]
    Unsupported { what: &'static str, why: String },
    /// A failure of a source outside this crate (a vendor library), in its own words.
    #[error("{what}: {message}")]
    Foreign { what: &'static str, message: String, remedy: Option<String>, fatal: bool },
}

impl SensorError {
    /// The one command or step that helps, if any does.
    pub fn remedy(&self) -> Option<&str> {
        match self {
            SensorError::Denied { remedy, .. } => Some(remedy),
            SensorError::NotFound { remedy, .. } | SensorError::Foreign { remedy, .. } => {
                remedy.as_deref()
            }
            _ => None,
        }
    }

    /// Whether reading again can not succeed: the sampler drops the source.
    pub fn is_fatal(&self) -> bool {
        match self {
            SensorError::Vanished { .. }
            | SensorError::NotFound { .. }
            | SensorError::Denied { .. }
            | SensorError::Unsupported { .. } => true,
            SensorError::Foreign { fatal, .. } => *fatal,
            SensorError::Malformed { .. } | SensorError::Io { .. } => false,
        }
    }

    pub(crate) fn malformed(
        what: &'static str,
        path: impl Into<PathBuf>,
        found: &str,
        expected: &'static str,
    ) -> SensorError {
        // A file under a foreign root may hold anything: quote little of it.
        let found = found.chars().take(40).collect();
        SensorError::Malformed { what, path: path.into(), found, expected }
    }
}
