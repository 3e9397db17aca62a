//! What can go wrong before there is anything to report. Each error says what was attempted, on
//! what, and the next step. Refuses to stand for damage inside a trace: that is among the issues of
//! a report.

use clscope_trace::directory::EXTENSION;
use std::io;
use std::path::PathBuf;

/// A trace could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // fields are named in the messages
pub enum OpenError {
    /// The path does not exist or may not be looked at.
    #[error("could not open the trace {}{near}", path.display())]
    Missing { path: PathBuf, near: String, source: io::Error },
    /// The directory cannot be listed.
    #[error("could not list the trace directory {}", path.display())]
    List { path: PathBuf, source: io::Error },
    /// The path is one file of a trace.
    #[error("{} is one file of a trace: {next}", path.display())]
    OneFile { path: PathBuf, next: String },
    /// The path is a file, or a pipe, a device, ...
    #[error("{} is {kind}, and a trace is a directory NAME.{EXTENSION}", path.display())]
    NotADirectory { path: PathBuf, kind: &'static str },
    /// The directory has no files of a process.
    #[error("{0}")]
    Empty(String),
    /// No trace was named, and there is none here.
    #[error(
        "no trace (*.{EXTENSION}) in {}: make one with `clscope record -- APP`, or name one",
        directory.display()
    )]
    NoneHere { directory: PathBuf },
}

/// What the caller named for figures of energy cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // fields are named in the messages
pub enum ReadingsError {
    /// A file of readings.
    #[error("cannot take readings from {}", path.display())]
    File { path: PathBuf, source: clscope_sensors::SensorError },
    /// A trace whose repetitions were wanted.
    #[error("cannot take repetitions from {} (--with)", path.display())]
    With { path: PathBuf, source: OpenError },
    /// A trace that has none.
    #[error(
        "nothing was repeated in {} that its sensors followed: record it with `clscope record --replay`",
        path.display()
    )]
    NothingRepeated { path: PathBuf },
}

/// The file of calibrations cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // fields are named in the messages
pub enum CalibrationError {
    /// It cannot be read.
    #[error("cannot read the calibrations in {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// It is something else.
    #[error(
        "{} holds no calibrations: remove it, then run `clscope doctor --calibrate`",
        path.display()
    )]
    Foreign { path: PathBuf, source: serde_json::Error },
    /// It is of another version.
    #[error(
        "{} is of version {found}, this clscope knows {known}: remove it, then run `clscope doctor --calibrate`",
        path.display()
    )]
    Version { path: PathBuf, found: u32, known: u32 },
    /// It cannot be written.
    #[error(
        "cannot keep the calibrations in {}; name another place with {}",
        path.display(),
        crate::calibration::VARIABLE
    )]
    Write { path: PathBuf, source: io::Error },
}

/// Traces could not be put together.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // fields are named in the messages
pub enum MergeError {
    /// A source is something else.
    #[error(
        "{} holds no clscope trace: name directories that `clscope record` left",
        path.display()
    )]
    NotATrace { path: PathBuf },
    /// Something has the target's name.
    #[error(
        "{} exists already: name another directory with -o, or remove it",
        path.display()
    )]
    Exists { path: PathBuf },
    /// The target's path ends in no name.
    #[error("{} names no directory", path.display())]
    NoName { path: PathBuf },
    /// The system refused.
    #[error("{attempt}")]
    System { attempt: String, source: io::Error },
}

/// A file `sensors.clt` of a trace cannot be used. The report lists it with the reason.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SensorFileError {
    /// It is no file of readings, or a newer one.
    #[error(transparent)]
    Header(#[from] clscope_trace::Error),
    /// Its times cannot be placed: another machine, or another boot.
    #[error("it was read on a host that no process of the trace ran on")]
    OtherHost,
}

/// A module's functions cannot be named. The report lists the module with the reason.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SymbolsError {
    /// It cannot be read.
    #[error(transparent)]
    Read(io::Error),
    /// It is no object file, or its debug information is not understood.
    #[error("{0}")]
    Format(Box<dyn std::error::Error>),
    /// It changed since.
    #[error("it is another build than the one that was recorded")]
    OtherBuild,
}
