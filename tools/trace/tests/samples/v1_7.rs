//! The content of the sample trace of version 1.7: that of 1.6, and a launch whose transactions of
//! memory were counted.

use super::v1_0::{self, Timed};
use super::v1_6;
use clscope_trace::defs::{ClassCount, ClassTransactions, Def, Mix};
use clscope_trace::{FileHeader, FileKind};

/// Name of the folder.
pub const FOLDER: &str = "v1.7";

/// The header of each file.
pub fn header(kind: FileKind) -> FileHeader {
    FileHeader { version: (1, 7), ..v1_0::header(kind) }
}

/// Every kind of definition.
pub fn definitions() -> Vec<Def> {
    let mut out = v1_6::definitions();
    out.push(
        Mix {
            kernel: 6,
            queue: 4,
            device: 2,
            global: vec![2048],
            language: "ptx".to_owned(),
            entered: 2048,
            classes: vec![ClassCount {
                class: "load-global".to_owned(),
                threads: 2048,
                warps: Some(64),
                bytes: 8192,
                ..ClassCount::default()
            }],
            transactions: vec![ClassTransactions {
                class: "load-global".to_owned(),
                transactions: 2048,
            }],
            ..Mix::default()
        }
        .into(),
    );
    out
}

/// What thread 0 recorded: see [`v1_0::records`].
pub fn records<'a>(arguments: &'a [u8], short: &'a [u8], long: &'a [u8]) -> Vec<Timed<'a>> {
    v1_6::records(arguments, short, long)
}
