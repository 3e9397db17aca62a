//! The committed sample traces, one folder of `samples/` for each version of the format, read with
//! their expected content for ever. The newest is also written, to the same bytes. A folder is made
//! once, on request (`CLSCOPE_WRITE_SAMPLE=1`), and never made anew: a difference is a change of the
//! format.

#[path = "samples/v1_0.rs"]
mod v1_0;

use clscope_trace::defs::Defs;
use clscope_trace::file::{control, read_u32};
use clscope_trace::stream::{Blocks, Damage, Rings};
use clscope_trace::{FileHeader, FileKind, VERSION, sensors};
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
    let folder = folder(v1_0::FOLDER);
    assert_eq!(
        v1_0::FOLDER,
        format!("v{}.{}", VERSION.0, VERSION.1),
        "the newest version's sample"
    );
    if std::env::var_os("CLSCOPE_WRITE_SAMPLE").is_some() {
        std::fs::create_dir(&folder).expect("a sample is written once");
        for (name, bytes) in v1_0::files() {
            std::fs::write(folder.join(name), bytes).expect("a file of the sample");
        }
    }
    for (name, written) in v1_0::files() {
        let kept = bytes(v1_0::FOLDER, name);
        let differs = kept.iter().zip(&written).position(|(a, b)| a != b);
        assert!(
            kept.len() == written.len() && differs.is_none(),
            "{name}: {} bytes written, {} kept, first difference at {differs:?}: the layout changed",
            written.len(),
            kept.len()
        );
    }
}

#[test]
fn definitions_of_version_1_0() {
    let bytes = bytes(v1_0::FOLDER, "4321-2.defs");
    assert_eq!(FileHeader::decode_as(&bytes, FileKind::Defs), Ok(v1_0::header(FileKind::Defs)));
    let mut read = Defs::new(&bytes);
    assert_eq!(read.by_ref().collect::<Vec<_>>(), v1_0::definitions());
    assert_eq!(read.rest(), 0);
}

#[test]
fn records_of_version_1_0() {
    let bytes = bytes(v1_0::FOLDER, "4321-2.7.clt");
    assert_eq!(
        FileHeader::decode_as(&bytes, FileKind::Segment),
        Ok(v1_0::header(FileKind::Segment))
    );
    let mut blocks = Blocks::new(&bytes);
    let read: Vec<_> = blocks.by_ref().collect();
    assert_eq!(blocks.damage(), Damage::default());
    let places: Vec<_> = read.iter().map(|b| (b.thread, b.sequence)).collect();
    assert_eq!(places, [(0, 0), (1, 0), (0, 1)]);
    let (arguments, short, long) = (v1_0::arguments(), v1_0::waits(3), v1_0::waits(405));
    let mut of_0 = [&read[0], &read[2]].map(|b| b.records());
    let found: Vec<_> = of_0.iter_mut().flat_map(|r| r.by_ref()).collect();
    let expected = v1_0::records(&arguments, &short, &long);
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.len(), expected.len());
    assert!(of_0.iter().all(|r| !r.damaged()));
    assert_eq!(read[1].records().collect::<Vec<_>>(), [v1_0::in_ring()]);
}

#[test]
fn rings_of_version_1_0() {
    let bytes = bytes(v1_0::FOLDER, "4321-2.ring");
    assert_eq!(FileHeader::decode_as(&bytes, FileKind::Ring), Ok(v1_0::header(FileKind::Ring)));
    assert_eq!(read_u32(&bytes, control::WORD), Some(control::PAUSED));
    let mut rings = Rings::new(&bytes);
    let (busy, drained) = (rings.next().expect("a ring"), rings.next().expect("another"));
    assert_eq!(rings.next(), None, "the third is free");
    assert!(!rings.damaged());
    assert_eq!((busy.block.thread, busy.block.sequence, busy.block.base), (1, 1, v1_0::BASE));
    assert_eq!((busy.dropped, busy.in_call), (6, Some((96, v1_0::BASE + 6))));
    assert_eq!(busy.block.records().collect::<Vec<_>>(), [v1_0::in_ring()]);
    assert_eq!((drained.block.thread, drained.block.payload.len()), (0, 0));
    assert_eq!((drained.dropped, drained.in_call), (0, None));
}

#[test]
fn readings_of_version_1_0() {
    let bytes = bytes(v1_0::FOLDER, "sensors.clt");
    assert_eq!(
        FileHeader::decode_as(&bytes, FileKind::Sensors),
        Ok(v1_0::header(FileKind::Sensors))
    );
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
