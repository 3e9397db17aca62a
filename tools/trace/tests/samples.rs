//! The committed sample traces, one folder of `samples/` for each version of the format, read with
//! their expected content for ever. The newest is also written, to the same bytes. A folder is made
//! once, on request (`CLSCOPE_WRITE_SAMPLE=1`), and never made anew: a difference is a change of
//! the format.

#[path = "samples/bytes.rs"]
mod bytes_of;
#[path = "samples/v1_0.rs"]
mod v1_0;
#[path = "samples/v1_1.rs"]
mod v1_1;
#[path = "samples/v1_10.rs"]
mod v1_10;
#[path = "samples/v1_2.rs"]
mod v1_2;
#[path = "samples/v1_3.rs"]
mod v1_3;
#[path = "samples/v1_4.rs"]
mod v1_4;
#[path = "samples/v1_5.rs"]
mod v1_5;
#[path = "samples/v1_6.rs"]
mod v1_6;
#[path = "samples/v1_7.rs"]
mod v1_7;
#[path = "samples/v1_8.rs"]
mod v1_8;
#[path = "samples/v1_9.rs"]
mod v1_9;

use clscope_trace::defs::{Def, Defs, FRAME_LEN, frame_checksum};
use clscope_trace::file::{HEADER_LEN, read_u32};
use clscope_trace::record::Record;
use clscope_trace::ring_file::control;
use clscope_trace::stream::{Blocks, Damage, Rings};
use clscope_trace::{FileHeader, FileKind, VERSION, sensors};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples").join(name)
}

fn bytes(name: &str, file: &str) -> Vec<u8> {
    let path = folder(name).join(file);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_newest_sample_is_what_this_code_writes() {
    let folder = folder(v1_10::FOLDER);
    assert_eq!(
        v1_10::FOLDER,
        format!("v{}.{}", VERSION.0, VERSION.1),
        "the newest version's sample"
    );
    let (arguments, short, long) = (v1_0::arguments(), v1_0::waits(3), v1_0::waits(405));
    let (readings, windows) = v1_0::rows();
    let files = bytes_of::files(&bytes_of::Content {
        header: v1_10::header,
        definitions: v1_10::definitions(),
        records: v1_10::records(&arguments, &short, &long),
        in_ring: v1_0::in_ring(),
        sensors: v1_0::sensors(&readings, &windows),
    });
    if std::env::var_os("CLSCOPE_WRITE_SAMPLE").is_some() {
        std::fs::create_dir(&folder).expect("a sample is written once");
        for (name, bytes) in &files {
            std::fs::write(folder.join(name), bytes).expect("a file of the sample");
        }
    }
    for (name, written) in files {
        let kept = bytes(v1_10::FOLDER, name);
        let differs = kept.iter().zip(&written).position(|(a, b)| a != b);
        assert!(
            kept.len() == written.len() && differs.is_none(),
            "{name}: {} bytes written, {} kept, first difference at {differs:?}: the layout changed",
            written.len(),
            kept.len()
        );
    }
}

/// What thread 0 recorded, over the slices that [`v1_0::records`] takes.
type Recorded = for<'a> fn(&'a [u8], &'a [u8], &'a [u8]) -> Vec<v1_0::Timed<'a>>;

/// A version: its folder, and what is in it.
struct Version {
    folder: &'static str,
    header: fn(FileKind) -> FileHeader,
    definitions: fn() -> Vec<Def>,
    records: Recorded,
}

impl Version {
    /// A file of the sample, whose header is as expected.
    fn file(&self, name: &str, kind: FileKind) -> Vec<u8> {
        let bytes = bytes(self.folder, name);
        assert_eq!(FileHeader::decode_as(&bytes, kind), Ok((self.header)(kind)), "{}", self.folder);
        bytes
    }
}

const VERSIONS: [Version; 11] = [
    Version {
        folder: v1_0::FOLDER,
        header: v1_0::header,
        definitions: v1_0::definitions,
        records: v1_0::records,
    },
    Version {
        folder: v1_1::FOLDER,
        header: v1_1::header,
        definitions: v1_1::definitions,
        records: v1_1::records,
    },
    Version {
        folder: v1_2::FOLDER,
        header: v1_2::header,
        definitions: v1_2::definitions,
        records: v1_2::records,
    },
    Version {
        folder: v1_3::FOLDER,
        header: v1_3::header,
        definitions: v1_3::definitions,
        records: v1_3::records,
    },
    Version {
        folder: v1_4::FOLDER,
        header: v1_4::header,
        definitions: v1_4::definitions,
        records: v1_4::records,
    },
    Version {
        folder: v1_5::FOLDER,
        header: v1_5::header,
        definitions: v1_5::definitions,
        records: v1_5::records,
    },
    Version {
        folder: v1_6::FOLDER,
        header: v1_6::header,
        definitions: v1_6::definitions,
        records: v1_6::records,
    },
    Version {
        folder: v1_7::FOLDER,
        header: v1_7::header,
        definitions: v1_7::definitions,
        records: v1_7::records,
    },
    Version {
        folder: v1_8::FOLDER,
        header: v1_8::header,
        definitions: v1_8::definitions,
        records: v1_8::records,
    },
    Version {
        folder: v1_9::FOLDER,
        header: v1_9::header,
        definitions: v1_9::definitions,
        records: v1_9::records,
    },
    Version {
        folder: v1_10::FOLDER,
        header: v1_10::header,
        definitions: v1_10::definitions,
        records: v1_10::records,
    },
];

#[test]
fn definitions_of_each_version() {
    for version in &VERSIONS {
        let bytes = version.file("4321-2.defs", FileKind::Defs);
        let mut read = Defs::new(&bytes);
        assert_eq!(read.by_ref().collect::<Vec<_>>(), (version.definitions)());
        assert_eq!(read.torn(), 0);
    }
}

#[test]
fn records_of_each_version() {
    for version in &VERSIONS {
        let bytes = version.file("4321-2.7.clt", FileKind::Segment);
        let mut blocks = Blocks::new(&bytes);
        let read: Vec<_> = blocks.by_ref().collect();
        assert_eq!(blocks.damage(), Damage::default());
        let places: Vec<_> = read.iter().map(|b| (b.thread, b.sequence)).collect();
        assert_eq!(places, [(0, 0), (1, 0), (0, 1)]);
        let (arguments, short, long) = (v1_0::arguments(), v1_0::waits(3), v1_0::waits(405));
        let mut of_0 = [&read[0], &read[2]].map(|b| b.records());
        let found: Vec<_> = of_0.iter_mut().flat_map(|r| r.by_ref()).collect();
        let expected = (version.records)(&arguments, &short, &long);
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found, expected);
        }
        assert_eq!(found.len(), expected.len());
        assert!(of_0.iter().all(|r| !r.damaged()));
        assert_eq!(read[1].records().collect::<Vec<_>>(), [v1_0::in_ring()]);
    }
}

#[test]
fn rings_of_each_version() {
    for version in &VERSIONS {
        let bytes = version.file("4321-2.ring", FileKind::Ring);
        assert_eq!(read_u32(&bytes, control::WORD), Some(control::PAUSED));
        let mut rings = Rings::new(&bytes);
        let (busy, drained) = (rings.next().expect("a ring"), rings.next().expect("another"));
        assert_eq!(rings.next(), None, "the third holds no records");
        assert!(!rings.damaged());
        assert_eq!((busy.block.thread, busy.block.sequence, busy.block.base), (1, 1, v1_0::BASE));
        assert_eq!((busy.dropped, busy.in_call), (6, Some((96, v1_0::BASE + 6))));
        assert_eq!(busy.block.records().collect::<Vec<_>>(), [v1_0::in_ring()]);
        assert_eq!((drained.block.thread, drained.block.payload.len()), (0, 0));
        assert_eq!((drained.dropped, drained.in_call), (0, None));
    }
}

#[test]
fn readings_of_each_version() {
    for version in &VERSIONS {
        let bytes = version.file("sensors.clt", FileKind::Sensors);
        let (readings, windows) = v1_0::rows();
        let mut records = sensors::Records::new(&bytes);
        let read: Vec<_> = records.by_ref().collect();
        assert_eq!(records.damage(), 0);
        assert_eq!(read, v1_0::sensors(&readings, &windows));
        for record in &read {
            match record {
                sensors::Record::Readings(r) => {
                    assert_eq!(r.iter().collect::<Vec<_>>(), v1_0::reading());
                }
                sensors::Record::CounterWindows(w) => {
                    assert_eq!(w.iter().collect::<Vec<_>>(), v1_0::counter_windows());
                }
                _ => {}
            }
        }
    }
}

/// A new kind of record has a name here, and a place in the newest sample.
fn name_of(record: &Record<'_>) -> &'static str {
    match record {
        Record::Plain { .. } => "plain",
        Record::Call { .. } => "call",
        Record::Command(_) => "command",
        Record::MoreWaits { .. } => "more waits",
        Record::Timing { .. } => "timing",
        Record::ReadTiming { .. } => "read timing",
        Record::Untimed { .. } => "untimed",
        Record::Dropped { .. } => "dropped",
        Record::Paused(_) => "paused",
        Record::Run(_) => "run",
        Record::Detail(_) => "detail",
        Record::Unknown { .. } => "unknown",
    }
}

/// Numbers of the sampler's records that stand in a file.
fn readings_of(bytes: &[u8]) -> BTreeSet<u16> {
    let mut found = BTreeSet::new();
    for block in Blocks::new(bytes) {
        let mut rest = block.payload;
        while let (Some(kind), Some(length)) = (read_u32(rest, 0), read_u32(rest, 4)) {
            found.insert(kind as u16);
            rest = rest.get(8 + (length as usize).next_multiple_of(8)..).unwrap_or(&[]);
        }
    }
    found
}

/// Numbers that are read as something, when nothing is behind their head.
fn known(is_known: fn(u16) -> bool) -> BTreeSet<u16> {
    (0..256).filter(|number| is_known(*number)).collect()
}

#[test]
fn the_newest_sample_has_every_kind() {
    let read = |name: &str| bytes(v1_10::FOLDER, name);
    let segment = read("4321-2.7.clt");
    let records = Blocks::new(&segment).flat_map(|block| block.records().collect::<Vec<_>>());
    let found = records.map(|(_, record)| name_of(&record)).collect::<BTreeSet<_>>();
    let all = [
        "call",
        "command",
        "detail",
        "dropped",
        "more waits",
        "paused",
        "plain",
        "read timing",
        "run",
        "timing",
        "untimed",
    ];
    assert_eq!(found, BTreeSet::from(all), "records");
    let known_reading = |number: u16| {
        let payload = u64::from(number).to_le_bytes();
        let read = sensors::Records::of_block(&payload).next();
        read != Some(sensors::Record::Unknown { kind: number })
    };
    assert_eq!(readings_of(&read("sensors.clt")), known(known_reading), "readings");
    let known_definition = |number: u16| {
        let mut head = [0; FRAME_LEN];
        head[4..6].copy_from_slice(&number.to_le_bytes());
        let sum = frame_checksum(&head[..8], &[]);
        head[8..].copy_from_slice(&sum.to_le_bytes());
        let file = [&[0; HEADER_LEN][..], &head].concat();
        let read = Defs::new(&file).next();
        assert!(read.is_some(), "{number}");
        read != Some(Def::Unknown { kind: number })
    };
    let found = Defs::new(&read("4321-2.defs")).map(|def| def.kind()).collect::<BTreeSet<_>>();
    assert_eq!(found, known(known_definition), "definitions");
}
