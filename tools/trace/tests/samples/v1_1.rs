//! The content of the sample trace of version 1.1: that of 1.0, runs of identical calls, and a
//! transfer that was repeated.

use super::v1_0::{self, BASE, Timed};
use clscope_trace::defs::{Def, Replay, ReplayBatch};
use clscope_trace::record::{CommandKind, Record, Run};
use clscope_trace::{FileHeader, FileKind};

/// Name of the folder.
pub const FOLDER: &str = "v1.1";

/// The header of each file.
pub fn header(kind: FileKind) -> FileHeader {
    FileHeader { version: (1, 1), ..v1_0::header(kind) }
}

/// Every kind of definition.
pub fn definitions() -> Vec<Def> {
    let mut out = v1_0::definitions();
    out.push(
        Replay {
            kernel: 0,
            queue: 4,
            global: Vec::new(),
            refused: String::new(),
            saved: 0,
            batches: vec![ReplayBatch { begin: 30, end: 40, count: 9, restores_only: false }],
            command: CommandKind::ReadBuffer as u8,
            bytes: 1 << 20,
            local: vec![16, 8],
            key: 0xfedc_ba98_7654_3210,
            scalars: 0x0123_4567_89ab_cdef,
            before: 77,
            stamped_ns: 12_500,
            per_restoration: 3,
            quiet: 25,
            trials: Vec::new(),
        }
        .into(),
    );
    out
}

/// What thread 0 recorded: see [`v1_0::records`].
pub fn records<'a>(arguments: &'a [u8], short: &'a [u8], long: &'a [u8]) -> Vec<Timed<'a>> {
    let odd = Run {
        function: 41,
        small: 0x1f_ffff,
        id: 6,
        count: 5,
        first: 25,
        span: 400,
        total: 130,
        shortest: 20,
        longest: 31,
    };
    let even = Run { function: 1023, small: 0, id: u32::MAX, count: 1 << 30, ..odd };
    let mut out = v1_0::records(arguments, short, long);
    out.extend([
        (BASE + 520 + (5 << 32), Record::Run(odd)),
        // Its delta is counted from the first call of the run before.
        (BASE + 1000 + (5 << 32), Record::Run(even)),
    ]);
    out
}
