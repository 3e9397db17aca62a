//! What can keep an application from being recorded. Each error says what was attempted, on what,
//! and the next step; the system's reason is its source. Refuses to stand for what goes wrong while
//! the application runs: that is told and recorded, and the application runs on.
#![forbid(unsafe_code)]

use crate::library::LibraryError;
use std::io;
use std::path::PathBuf;

/// Why something could not be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // fields are named in the messages
pub enum CaptureError {
    /// The system refused.
    #[error("{attempt}")]
    System { attempt: String, source: io::Error },
    /// A choice of the user's cannot be followed.
    #[error("{0}")]
    Refused(String),
    /// A file is no ring file of a recorder.
    #[error("{} is no ring file", path.display())]
    Ring { path: PathBuf, source: clscope_trace::Error },
    /// A file of recorded readings cannot be used.
    #[error("cannot take readings from {} (--readings)", path.display())]
    Readings { path: PathBuf, source: clscope_sensors::SensorError },
    /// The recorder cannot be brought in.
    #[error(transparent)]
    Library(#[from] LibraryError),
}

/// Says what a call of the system was for.
pub(crate) trait Attempt<T> {
    /// With what was attempted.
    fn attempt<S: Into<String>>(self, what: impl FnOnce() -> S) -> Result<T, CaptureError>;
}

impl<T> Attempt<T> for io::Result<T> {
    fn attempt<S: Into<String>>(self, what: impl FnOnce() -> S) -> Result<T, CaptureError> {
        self.map_err(|source| CaptureError::System { attempt: what().into(), source })
    }
}
