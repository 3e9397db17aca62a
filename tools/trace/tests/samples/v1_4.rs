//! The content of the sample trace of version 1.4: that of 1.3, and captured launches.

use super::v1_0::{self, Timed};
use super::v1_3;
use clscope_trace::defs::{Capture, Def};
use clscope_trace::{FileHeader, FileKind};

/// Name of the folder.
pub const FOLDER: &str = "v1.4";

/// The header of each file.
pub fn header(kind: FileKind) -> FileHeader {
    FileHeader { version: (1, 4), ..v1_0::header(kind) }
}

/// Every kind of definition.
pub fn definitions() -> Vec<Def> {
    let mut out = v1_3::definitions();
    out.extend([
        Capture {
            kernel: 7,
            queue: 5,
            launch: 2,
            command: None,
            folder: String::new(),
            bytes: 0,
            refused: "argument 1 is a pipe".into(),
            again: true,
            took: 300,
            ..Capture::default()
        }
        .into(),
        Capture {
            kernel: 7,
            queue: 5,
            launch: 3,
            command: Some(92),
            folder: "vector_add.3".into(),
            bytes: 1 << 33,
            refused: String::new(),
            again: false,
            took: 1 << 34,
            ..Capture::default()
        }
        .into(),
    ]);
    out
}

/// What thread 0 recorded: see [`v1_0::records`].
pub fn records<'a>(arguments: &'a [u8], short: &'a [u8], long: &'a [u8]) -> Vec<Timed<'a>> {
    v1_3::records(arguments, short, long)
}
