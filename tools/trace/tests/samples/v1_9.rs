//! The content of the sample trace of version 1.9: that of 1.8, by a process beside which another
//! one writes the segments.

use super::v1_0::{self, Timed};
use super::v1_8;
use clscope_trace::defs::Def;
use clscope_trace::{FileHeader, FileKind};

/// Name of the folder.
pub const FOLDER: &str = "v1.9";

/// The header of each file.
pub fn header(kind: FileKind) -> FileHeader {
    FileHeader { version: (1, 9), ..v1_0::header(kind) }
}

/// Every kind of definition.
pub fn definitions() -> Vec<Def> {
    v1_8::definitions()
}

/// What thread 0 recorded: see [`v1_0::records`].
pub fn records<'a>(arguments: &'a [u8], short: &'a [u8], long: &'a [u8]) -> Vec<Timed<'a>> {
    v1_8::records(arguments, short, long)
}
