//! The content of the sample trace of version 1.10: that of 1.9, and a captured launch whose copies
//! are told one by one.

use super::v1_0::{self, Timed};
use super::v1_9;
use clscope_trace::defs::{Capture, Def, DeviceCopy};
use clscope_trace::{FileHeader, FileKind};

/// Name of the folder.
pub const FOLDER: &str = "v1.10";

/// The header of each file.
pub fn header(kind: FileKind) -> FileHeader {
    FileHeader { version: (1, 10), ..v1_0::header(kind) }
}

/// Every kind of definition.
pub fn definitions() -> Vec<Def> {
    let mut out = v1_9::definitions();
    out.push(
        Capture {
            kernel: 7,
            queue: 5,
            launch: 4,
            command: Some(93),
            folder: "vector_add.4".into(),
            bytes: 12_288,
            took: 500,
            copies: vec![
                DeviceCopy { start: 1 << 40, end: (1 << 40) + 900, bytes: 8192 },
                DeviceCopy { start: (1 << 40) + 900, end: (1 << 40) + 1400, bytes: 4096 },
            ],
            begun: 1 << 41,
            seen: (1 << 41) + 70_000,
            ..Capture::default()
        }
        .into(),
    );
    out
}

/// What thread 0 recorded: see [`v1_0::records`].
pub fn records<'a>(arguments: &'a [u8], short: &'a [u8], long: &'a [u8]) -> Vec<Timed<'a>> {
    v1_9::records(arguments, short, long)
}
