//! Definitions, each in its frame.

use crate::{Payload, at};
use clscope_trace::checksum;
use clscope_trace::defs::{self, *};

#[track_caller]
fn defines(def: impl Into<Def>, number: u16, payload: Payload) {
    let def = def.into();
    let mut written = Vec::new();
    defs::encode(&def, &mut written);
    let payload = payload.0;
    let mut expected = at(16, &[(0, 4, payload.len() as u64), (4, 2, u64::from(number))]);
    let sum = checksum(&expected[..8]).rotate_left(17) ^ checksum(&payload);
    expected[8..16].copy_from_slice(&sum.to_le_bytes());
    expected.extend(payload);
    assert_eq!(written, expected, "{def:?}");
}

#[test]
fn definitions() {
    let p = Payload::default;
    let t = |s: &str| s.to_owned();
    defines(
        Process {
            pid: 1,
            ppid: 2,
            executable: t("e"),
            arguments: vec![t("a"), t("bc")],
            directory: t("d"),
            host: t("h"),
            mpi_rank: Some(3),
            mpi_size: None,
            recorder: t("r"),
            injection: t("i"),
            device_timing: t("t"),
            rings_survive: true,
            settings: vec![],
        },
        1,
        p().n(4, 1)
            .n(4, 2)
            .s("e")
            .n(4, 2)
            .s("a")
            .s("bc")
            .s("d")
            .s("h")
            .some()
            .n(4, 3)
            .none()
            .s("r")
            .s("i")
            .s("t")
            .n(1, 1)
            .n(4, 0),
    );
    defines(
        Function {
            id: 9,
            name: t("n"),
            origin: t("o"),
            group: t("g"),
            arguments: vec![Argument { name: t("a"), kind: ArgumentKind::Pointer }],
            small: vec![Small { argument: 1, bits: 20 }],
            object: Some(0),
        },
        2,
        p().n(2, 9)
            .s("n")
            .s("o")
            .s("g")
            .n(4, 1)
            .s("a")
            .n(1, 8)
            .n(4, 1)
            .n(1, 1)
            .n(1, 20)
            .some()
            .n(1, 0),
    );
    defines(
        Anchor { ticks: 1, raw: 2, monotonic: 3, realtime: 4, width: 5 },
        3,
        p().n(8, 1).n(8, 2).n(8, 3).n(8, 4).n(8, 5),
    );
    defines(Thread { index: 1, tid: 2, name: t("n") }, 4, p().n(4, 1).n(4, 2).s("n"));
    defines(
        Platform { id: 1, name: t("n"), vendor: t("v"), version: t("w") },
        5,
        p().n(4, 1).s("n").s("v").s("w"),
    );
    defines(
        Device {
            id: 1,
            platform: 2,
            name: t("n"),
            vendor: t("v"),
            driver: t("d"),
            version: t("w"),
            device_type: 3,
            compute_units: 4,
            clock_mhz: 5,
            global_memory: 6,
            timer_resolution: 7,
            pci: None,
            parent: Some(8),
            uuid: Some(t("u")),
        },
        6,
        p().n(4, 1)
            .n(4, 2)
            .s("n")
            .s("v")
            .s("d")
            .s("w")
            .n(8, 3)
            .n(4, 4)
            .n(4, 5)
            .n(8, 6)
            .n(8, 7)
            .none()
            .some()
            .n(4, 8)
            .some()
            .s("u"),
    );
    defines(Context { id: 1, devices: vec![2, 3] }, 7, p().n(4, 1).n(4, 2).n(4, 2).n(4, 3));
    defines(
        Queue { id: 1, context: 2, device: 3, properties: 4, profiling_added: true },
        8,
        p().n(4, 1).n(4, 2).n(4, 3).n(8, 4).n(1, 1),
    );
    defines(
        Program { id: 1, context: 2, origin: t("o"), hash: t("h"), bytes: 3 },
        9,
        p().n(4, 1).n(4, 2).s("o").s("h").n(8, 3),
    );
    defines(
        Build { program: 1, function: 2, options: t("o"), result: -11, log: t("l") },
        10,
        p().n(4, 1).n(2, 2).s("o").n(4, -11i32 as u32 as u64).s("l"),
    );
    defines(Kernel { id: 1, program: 2, name: t("n") }, 11, p().n(4, 1).n(4, 2).s("n"));
    defines(
        Geometry { id: 1, dimensions: 2, offset: Some([3, 4, 5]), global: [6, 7, 8], local: None },
        12,
        p().n(4, 1).n(4, 2).some().n(8, 3).n(8, 4).n(8, 5).n(8, 6).n(8, 7).n(8, 8).none(),
    );
    defines(Exit { ticks: 1, pending: 2 }, 13, p().n(8, 1).n(8, 2));
    defines(Warning { code: t("c"), text: t("t") }, 14, p().s("c").s("t"));
    defines(
        Calibration { name: t("n"), device: 1, value: 1.5, uncertainty: 0.25 },
        17,
        p().s("n").n(4, 1).n(8, 1.5f64.to_bits()).n(8, 0.25f64.to_bits()),
    );
    defines(
        Replay {
            kernel: 1,
            queue: 2,
            global: vec![3],
            refused: t("r"),
            saved: 4,
            batches: vec![ReplayBatch { begin: 5, end: 6, count: 7, restores_only: true }],
            command: 8,
            bytes: 9,
            local: vec![10, 11],
            key: 12,
            scalars: 13,
            before: 14,
            stamped_ns: 15,
            per_restoration: 16,
            quiet: 17,
            trials: vec![ReplayBatch { begin: 18, end: 19, count: 20, restores_only: false }],
        },
        18,
        p().n(4, 1)
            .n(4, 2)
            .n(4, 1)
            .n(8, 3)
            .s("r")
            .n(8, 4)
            .n(4, 1)
            .n(8, 5)
            .n(8, 6)
            .n(8, 7)
            .n(1, 1)
            .n(1, 8)
            .n(8, 9)
            .n(4, 2)
            .n(8, 10)
            .n(8, 11)
            .n(8, 12)
            .n(8, 13)
            .n(8, 14)
            .n(8, 15)
            .n(4, 16)
            .n(8, 17)
            .n(4, 1)
            .n(8, 18)
            .n(8, 19)
            .n(8, 20)
            .n(1, 0),
    );
    defines(
        Module { id: 1, path: t("p"), build_id: t("b"), base: 2, begin: 3, end: 4 },
        19,
        p().n(4, 1).s("p").s("b").n(8, 2).n(8, 3).n(8, 4),
    );
    defines(
        CallSite { id: 1, frames: vec![Frame { module: 2, address: 3 }] },
        20,
        p().n(4, 1).n(4, 1).n(4, 2).n(8, 3),
    );
    defines(
        ClockMarkers {
            queue: 1,
            markers: vec![ClockMarker { before: 2, after: 3, queued: 4, submit: 5 }],
        },
        21,
        p().n(4, 1).n(4, 1).n(8, 2).n(8, 3).n(8, 4).n(8, 5),
    );
}

#[test]
fn definitions_of_programs() {
    let p = Payload::default;
    let t = |s: &str| s.to_owned();
    defines(
        Code { program: 1, device: 2, language: t("l"), hash: t("h"), bytes: 3, missing: t("m") },
        22,
        p().n(4, 1).n(4, 2).s("l").s("h").n(8, 3).s("m"),
    );
    let nothing = Resources { kernel: 1, device: 2, ..Resources::default() };
    defines(
        Resources { required: Some([3, 4, 5]), spill_loads: Some(6), ..nothing },
        24,
        p().n(4, 1)
            .n(4, 2)
            .none()
            .none()
            .none()
            .none()
            .some()
            .n(8, 3)
            .n(8, 4)
            .n(8, 5)
            .none()
            .none()
            .some()
            .n(8, 6),
    );
    defines(
        Replaced { kernel: 1, from: 2, file: t("f"), program: 3, refused: t("r") },
        27,
        p().n(4, 1).n(8, 2).s("f").n(4, 3).s("r"),
    );
    defines(
        LocalSize {
            kernel: 1,
            device: 2,
            global: vec![3, 4],
            asked: vec![],
            wanted: vec![5],
            refused: t("r"),
        },
        28,
        p().n(4, 1).n(4, 2).n(4, 2).n(8, 3).n(8, 4).n(4, 0).n(4, 1).n(8, 5).s("r"),
    );
    defines(
        AppendedOptions { program: 1, options: t("o"), refused: t("r"), log: t("l") },
        29,
        p().n(4, 1).s("o").s("r").s("l"),
    );
    defines(
        Mix {
            kernel: 1,
            queue: 2,
            device: 3,
            offset: vec![],
            global: vec![4],
            local: vec![5, 6],
            before: 7,
            refused: t("r"),
            arguments: vec![KernelArgument { index: 8, kind: t("k"), size: Some(9), value: None }],
            language: t("l"),
            code: t("c"),
            entered: 10,
            classes: vec![ClassCount {
                class: t("x"),
                threads: 11,
                warps: Some(12),
                flop: 13,
                bytes: 14,
                predicated: 15,
            }],
            blocks: vec![BlockCount { block: 16, threads: 17, warps: None }],
            unknown: vec![t("u")],
            took: 18,
            counted_ns: Some(19),
            saved: 20,
            loops: vec![21],
            transactions: vec![ClassTransactions { class: t("y"), transactions: 22 }],
        },
        25,
        p().n(4, 1)
            .n(4, 2)
            .n(4, 3)
            .n(4, 0)
            .n(4, 1)
            .n(8, 4)
            .n(4, 2)
            .n(8, 5)
            .n(8, 6)
            .n(8, 7)
            .s("r")
            .n(4, 1)
            .n(4, 8)
            .s("k")
            .some()
            .n(8, 9)
            .none()
            .s("l")
            .s("c")
            .n(8, 10)
            .n(4, 1)
            .s("x")
            .n(8, 11)
            .some()
            .n(8, 12)
            .n(8, 13)
            .n(8, 14)
            .n(8, 15)
            .n(4, 1)
            .n(4, 16)
            .n(8, 17)
            .none()
            .n(4, 1)
            .s("u")
            .n(8, 18)
            .some()
            .n(8, 19)
            .n(8, 20)
            .n(4, 1)
            .n(4, 21)
            .n(4, 1)
            .s("y")
            .n(8, 22),
    );
}

#[test]
fn definitions_of_captures() {
    let t = |s: &str| s.to_owned();
    defines(
        Capture {
            kernel: 1,
            queue: 2,
            launch: 3,
            command: Some(4),
            folder: t("f"),
            bytes: 5,
            refused: t("r"),
            again: true,
            took: 6,
            copies: vec![DeviceCopy { start: 7, end: 8, bytes: 9 }],
            begun: 10,
            seen: 11,
        },
        26,
        Payload::default()
            .n(4, 1)
            .n(4, 2)
            .n(8, 3)
            .some()
            .n(8, 4)
            .s("f")
            .n(8, 5)
            .s("r")
            .n(1, 1)
            .n(8, 6)
            .n(4, 1)
            .n(8, 7)
            .n(8, 8)
            .n(8, 9)
            .n(8, 10)
            .n(8, 11),
    );
}
