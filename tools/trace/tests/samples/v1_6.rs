//! The content of the sample trace of version 1.6: that of 1.5, and a kernel that was tried and not
//! repeated.

use super::v1_0::{self, Timed};
use super::v1_5;
use clscope_trace::defs::{Def, Replay, ReplayBatch};
use clscope_trace::{FileHeader, FileKind};

/// Name of the folder.
pub const FOLDER: &str = "v1.6";

/// The header of each file.
pub fn header(kind: FileKind) -> FileHeader {
    FileHeader { version: (1, 6), ..v1_0::header(kind) }
}

/// Every kind of definition.
pub fn definitions() -> Vec<Def> {
    let mut out = v1_5::definitions();
    out.push(
        Replay {
            kernel: 6,
            queue: 4,
            global: vec![640, 480],
            saved: 4096,
            before: 78,
            trials: vec![
                ReplayBatch { begin: 41, end: 42, count: 1, restores_only: true },
                ReplayBatch { begin: 43, end: 45, count: 1, restores_only: false },
            ],
            ..Replay::default()
        }
        .into(),
    );
    out
}

/// What thread 0 recorded: see [`v1_0::records`].
pub fn records<'a>(arguments: &'a [u8], short: &'a [u8], long: &'a [u8]) -> Vec<Timed<'a>> {
    v1_5::records(arguments, short, long)
}
