//! The content of the sample trace of version 1.8: that of 1.7, and what memory of the host a
//! transfer uses.

use super::v1_0::{self, BASE, Timed};
use super::v1_7;
use clscope_trace::codes::CL_MEM_ALLOC_HOST_PTR;
use clscope_trace::defs::Def;
use clscope_trace::record::{Detail, Record, detail};
use clscope_trace::{FileHeader, FileKind};

/// Name of the folder.
pub const FOLDER: &str = "v1.8";

/// The header of each file.
pub fn header(kind: FileKind) -> FileHeader {
    FileHeader { version: (1, 8), ..v1_0::header(kind) }
}

/// Every kind of definition.
pub fn definitions() -> Vec<Def> {
    v1_7::definitions()
}

/// What thread 0 recorded: see [`v1_0::records`].
pub fn records<'a>(arguments: &'a [u8], short: &'a [u8], long: &'a [u8]) -> Vec<Timed<'a>> {
    let mut out = v1_7::records(arguments, short, long);
    let values = [detail::MAPPED, 9, CL_MEM_ALLOC_HOST_PTR];
    let told = Detail { function: 7, what: detail::HOST_MEMORY, site: 0, values };
    out.push((BASE + 1205 + (5 << 32), Record::Detail(told)));
    out
}
