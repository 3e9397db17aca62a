//! Why a trace cannot be followed. Refuses to format for a screen.

use std::path::PathBuf;

/// Why a trace cannot be followed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // fields are named in the messages
pub enum LiveError {
    /// Its directory cannot be listed.
    #[error(
        "cannot list the trace {}; name a trace directory, or the id of a process that records",
        path.display()
    )]
    List { path: PathBuf, source: std::io::Error },
    /// It is no trace.
    #[error("{} holds no clscope trace: it has no PID-N.defs, .clt or .ring file", path.display())]
    Empty { path: PathBuf },
}
