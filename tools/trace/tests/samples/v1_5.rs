//! The content of the sample trace of version 1.5: that of 1.4, and what a run changed of its
//! application.

use super::v1_0::{self, Timed};
use super::v1_4;
use clscope_trace::defs::{AppendedOptions, Def, LocalSize, Replaced};
use clscope_trace::{FileHeader, FileKind};

/// Name of the folder.
pub const FOLDER: &str = "v1.5";

/// The header of each file.
pub fn header(kind: FileKind) -> FileHeader {
    FileHeader { version: (1, 5), ..v1_0::header(kind) }
}

/// Every kind of definition.
pub fn definitions() -> Vec<Def> {
    let mut out = v1_4::definitions();
    out.extend([
        Replaced {
            kernel: 6,
            from: 70,
            file: "/k.cl".into(),
            program: 90,
            refused: "it takes 1 arguments".into(),
        }
        .into(),
        LocalSize {
            kernel: 6,
            device: 2,
            global: vec![640, 480],
            asked: vec![],
            wanted: vec![64, 1],
            refused: String::new(),
        }
        .into(),
        AppendedOptions {
            program: 5,
            options: "-cl-fast-relaxed-math".into(),
            refused: "it did not build".into(),
            log: "error:\n".into(),
        }
        .into(),
    ]);
    out
}

/// What thread 0 recorded: see [`v1_0::records`].
pub fn records<'a>(arguments: &'a [u8], short: &'a [u8], long: &'a [u8]) -> Vec<Timed<'a>> {
    v1_4::records(arguments, short, long)
}
