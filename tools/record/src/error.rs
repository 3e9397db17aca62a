//! Why an application is not recorded.

use clscope_capture::error::CaptureError;
use clscope_capture::library::LibraryError;
use clscope_capture::ranks::NoRank;

/// Nothing was recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// There is no application.
    #[error("name the application: clscope record -- APP")]
    NoApplication,
    /// What is wanted cannot be had.
    #[error("{0}")]
    Refused(String),
    /// Ranks are chosen, and this process has none.
    #[error(transparent)]
    Rank(#[from] NoRank),
    /// The recorder cannot be brought in.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// A step failed.
    #[error(transparent)]
    Capture(#[from] CaptureError),
}

impl RecordError {
    /// Whether the request itself is wrong, wherever it is made: then nothing is started.
    pub const fn is_of_the_request(&self) -> bool {
        match self {
            Self::NoApplication | Self::Refused(_) | Self::Rank(_) => true,
            Self::Capture(CaptureError::Readings { .. }) => true,
            Self::Library(_) | Self::Capture(_) => false,
        }
    }
}
