//! What can fail.

use clscope_capture::error::CaptureError;
use clscope_live::error::LiveError;
use clscope_live::whole::WholeError;
use clscope_profile::error::OpenError;

/// Nothing can be followed, or drawn.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // fields are named in the messages
pub enum TopError {
    /// There is no such trace, or it cannot be read.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A trace that is still being written cannot be followed.
    #[error(transparent)]
    Live(#[from] LiveError),
    /// Figures that take the whole trace cannot be had.
    #[error(transparent)]
    Whole(#[from] WholeError),
    /// Processes cannot be asked or told.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// The application that was started here left no trace.
    #[error(
        "the application made no OpenCL call, or the recorder was not loaded; see `clscope doctor`"
    )]
    NotRecorded(#[source] LiveError),
    /// A name with placeholders.
    #[error(
        "-o {name}: placeholders (%h, %p, %q) are for `clscope record`; name the trace plainly"
    )]
    Placeholder { name: String },
    /// A ring file without a directory.
    #[error("a ring file lies nowhere")]
    Nowhere,
    /// No process has begun a trace.
    #[error("there is no trace to read")]
    NoTrace,
    /// The command's own path is not known.
    #[error("{0}")]
    Program(String),
    /// The system refuses.
    #[error("{attempt}")]
    System { attempt: &'static str, source: std::io::Error },
}

/// An attempt that the system may refuse.
pub(crate) trait Attempt<T> {
    /// Says what was attempted.
    fn attempt(self, attempt: &'static str) -> Result<T, TopError>;
}

impl<T> Attempt<T> for std::io::Result<T> {
    fn attempt(self, attempt: &'static str) -> Result<T, TopError> {
        self.map_err(|source| TopError::System { attempt, source })
    }
}
