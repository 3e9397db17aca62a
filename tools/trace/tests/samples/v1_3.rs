//! The content of the sample trace of version 1.3: that of 1.2, and what a checked run saw inside
//! calls.

use super::v1_0::{self, BASE, Timed};
use super::v1_2;
use clscope_trace::defs::Def;
use clscope_trace::record::{Detail, Record, detail};
use clscope_trace::{FileHeader, FileKind};

/// Name of the folder.
pub const FOLDER: &str = "v1.3";

/// The header of each file.
pub fn header(kind: FileKind) -> FileHeader {
    FileHeader { version: (1, 3), ..v1_0::header(kind) }
}

/// Every kind of definition.
pub fn definitions() -> Vec<Def> {
    v1_2::definitions()
}

/// What thread 0 recorded: see [`v1_0::records`].
pub fn records<'a>(arguments: &'a [u8], short: &'a [u8], long: &'a [u8]) -> Vec<Timed<'a>> {
    let mut out = v1_2::records(arguments, short, long);
    let told = |what, site, values| Record::Detail(Detail { function: 7, what, site, values });
    out.extend([
        (BASE + 1200 + (5 << 32), told(detail::PLACE, 3, [0; 3])),
        (BASE + 1201 + (5 << 32), told(detail::ARGUMENT, 0, [6 | 2 << 32, 9, 0])),
        (BASE + 1202 + (5 << 32), told(detail::WAITED, 0, [90, 0, 0])),
        (BASE + 1203 + (5 << 32), told(detail::RANGE, 0, [16, 1 << 40, 32])),
        (BASE + 1204 + (5 << 32), told(detail::PART, 0, [4096, 8192, 0])),
    ]);
    out
}
