//! The content of the sample trace of version 1.2: that of 1.1, programs, resources of kernels,
//! instruction mixes, and a command whose time the application queried itself.

use super::v1_0::{self, BASE, Timed};
use super::v1_1;
use clscope_trace::defs::{BlockCount, ClassCount, Code, Def, KernelArgument, Mix, Resources};
use clscope_trace::record::{Command, CommandKind, Record, Waits, flag, probability_bits};
use clscope_trace::{FileHeader, FileKind};

/// Name of the folder.
pub const FOLDER: &str = "v1.2";

/// The header of each file.
pub fn header(kind: FileKind) -> FileHeader {
    FileHeader { version: (1, 2), ..v1_0::header(kind) }
}

/// Every kind of definition.
pub fn definitions() -> Vec<Def> {
    let mut out = v1_1::definitions();
    out.push(
        Code {
            program: 5,
            device: 2,
            language: "ptx".to_owned(),
            hash: "0123456789abcdef0123456789abcdef".to_owned(),
            bytes: 4096,
            missing: "too many".to_owned(),
        }
        .into(),
    );
    out.push(
        Resources {
            kernel: 6,
            device: 2,
            work_group: Some(1024),
            multiple: Some(32),
            local: Some(2052),
            private: None,
            required: Some([16, 16, 1]),
            registers: Some(40),
            spill_stores: Some(8),
            spill_loads: Some(12),
        }
        .into(),
    );
    out.push(
        Mix {
            kernel: 6,
            queue: 4,
            device: 2,
            offset: vec![0, 8],
            global: vec![64, 32],
            local: vec![16, 8],
            before: 77,
            refused: "not this time".to_owned(),
            arguments: vec![
                KernelArgument {
                    index: 1,
                    kind: "value".to_owned(),
                    size: Some(4),
                    value: Some(0x4049_0fdb),
                },
                KernelArgument {
                    index: 2,
                    kind: "local".to_owned(),
                    size: Some(1024),
                    value: None,
                },
            ],
            language: "ptx".to_owned(),
            code: "0123456789abcdef0123456789abcdef".to_owned(),
            entered: 2048,
            classes: vec![ClassCount {
                class: "fp32-fma".to_owned(),
                threads: 2048,
                warps: Some(64),
                flop: 4096,
                bytes: 0,
                predicated: 5,
            }],
            blocks: vec![BlockCount { block: 3, threads: 2048, warps: None }],
            unknown: vec!["wgmma".to_owned()],
            took: 1 << 33,
            counted_ns: Some(7000),
            saved: 1 << 20,
            loops: vec![3, 5],
            transactions: vec![],
        }
        .into(),
    );
    out
}

/// What thread 0 recorded: see [`v1_0::records`].
pub fn records<'a>(arguments: &'a [u8], short: &'a [u8], long: &'a [u8]) -> Vec<Timed<'a>> {
    let command = Command {
        function: 7,
        duration: 12,
        result: 0,
        id: 90,
        queue: 4,
        object: 5,
        object2: 0,
        geometry: 6,
        kind: CommandKind::NdRange,
        flags: flag::APP_EVENT | flag::APP_PROFILING | flag::NOT_SAMPLED | flag::READ,
        extra: probability_bits(0.125),
        bytes: 0,
        waits: Waits(&[]),
        site: 0,
    };
    let mut out = v1_1::records(arguments, short, long);
    out.extend([
        (BASE + 1100 + (5 << 32), Record::Command(command)),
        (
            BASE + 1150 + (5 << 32),
            Record::ReadTiming { command: 90, stamps: [1000, 1010, 1500, 1 << 41] },
        ),
    ]);
    out
}
