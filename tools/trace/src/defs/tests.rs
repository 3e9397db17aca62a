//! Definitions survive frames, cuts, flips and older writers.

use super::*;

fn samples() -> Vec<Def> {
    vec![
        Process {
            pid: 4,
            arguments: vec!["a".into(), "b c".into()],
            mpi_rank: Some(3),
            ..Default::default()
        }
        .into(),
        Function {
            id: 9,
            name: "clFoo".into(),
            arguments: vec![Argument { name: "kernel".into(), kind: ArgumentKind::Object }],
            small: vec![Small { argument: 0, bits: 21 }],
            object: Some(0),
            ..Default::default()
        }
        .into(),
        Geometry {
            id: 1,
            dimensions: 2,
            offset: None,
            global: [64, 64, 1],
            local: Some([8, 8, 1]),
        }
        .into(),
        Exit { ticks: 1, pending: 2 }.into(),
        Replay {
            kernel: 3,
            global: vec![64, 2],
            batches: vec![ReplayBatch { begin: 1, end: 9, count: 4, restores_only: true }],
            key: u64::MAX,
            stamped_ns: 1200,
            per_restoration: 4,
            ..Default::default()
        }
        .into(),
        Module { id: 2, path: "/bin/app".into(), base: 0x1000, ..Default::default() }.into(),
        CallSite { id: 1, frames: vec![Frame { module: 2, address: 0x40 }, Frame::default()] }
            .into(),
        ClockMarkers {
            queue: 4,
            markers: vec![
                ClockMarker { before: 1, after: 9, queued: 2, submit: 5 },
                ClockMarker::default(),
            ],
        }
        .into(),
        Code { program: 1, language: "spv".into(), bytes: 9, ..Default::default() }.into(),
        Resources { kernel: 3, local: Some(64), required: Some([8, 1, 1]), ..Default::default() }
            .into(),
        Mix {
            kernel: 3,
            arguments: vec![KernelArgument { value: Some(7), ..Default::default() }],
            classes: vec![ClassCount { class: "int-mul".into(), threads: 5, ..Default::default() }],
            blocks: vec![BlockCount { block: 2, threads: 5, warps: Some(1) }],
            ..Default::default()
        }
        .into(),
        Capture {
            kernel: 3,
            launch: 1,
            command: Some(9),
            folder: "k.1".into(),
            ..Default::default()
        }
        .into(),
    ]
}

#[test]
fn definitions_round_trip() {
    let mut bytes = vec![0; crate::file::HEADER_LEN];
    for def in samples() {
        encode(&def, &mut bytes);
    }
    let mut read = Defs::new(&bytes);
    assert_eq!(read.by_ref().collect::<Vec<_>>(), samples());
    assert_eq!(read.rest(), 0);
}

#[test]
fn every_flip_and_cut_yields_a_prefix_of_the_definitions() {
    let mut bytes = vec![0; crate::file::HEADER_LEN];
    for def in samples() {
        encode(&def, &mut bytes);
    }
    let whole = samples();
    for at in crate::file::HEADER_LEN..bytes.len() {
        let mut bad = bytes.clone();
        bad[at] ^= 0x41;
        let read: Vec<_> = Defs::new(&bad).collect();
        assert!(read.len() < whole.len() && read == whole[..read.len()], "flip at {at}");
        let read: Vec<_> = Defs::new(&bytes[..at]).collect();
        assert_eq!(read, whole[..read.len()], "cut at {at}");
    }
}

#[test]
fn an_older_writers_payload_reads_with_defaults() {
    let mut payload = Vec::new();
    7u32.put(&mut payload);
    assert_eq!(Def::from_payload(13, &[]), Some(Exit::default().into()));
    assert_eq!(
        Def::from_payload(11, &payload),
        Some(Kernel { id: 7, ..Default::default() }.into())
    );
    assert_eq!(Def::from_payload(999, &payload), Some(Def::Unknown { kind: 999 }));
}
