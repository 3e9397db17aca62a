//! Laws of the format: what is written is read back in order, and damage is told, never believed
//! and never a panic.
use clscope_trace::checksum;
use clscope_trace::file::{BLOCK_HEADER_LEN, BlockHeader, HEADER_LEN};
use clscope_trace::record::{
    self, Command, CommandKind, DropReason, Record, Untimed, Waits, Words,
};
use clscope_trace::ring_file::{RING_FIRST, RING_HEADER_LEN, RING_MAGIC, ring};
use clscope_trace::stream::{Block, Blocks, Rings};
use proptest::prelude::*;

/// What a writer is asked to record; the reader must give the same back.
#[derive(Debug, Clone)]
enum Said {
    Plain(u16, u32, u32, u64),
    Call(u16, i32, u64, Vec<u64>),
    Command(u64, u64, Vec<u32>),
    Timing(u64, [u64; 4]),
    ReadTiming(u64, [u64; 4]),
    Untimed(u64, i32),
    Dropped(u64),
}

fn said() -> impl Strategy<Value = Said> {
    let duration = prop_oneof![0u64..1000, 0u64..1 << 40];
    prop_oneof![
        (0u16..1024, 0u32..1 << 21, any::<u32>(), duration.clone())
            .prop_map(|(f, s, i, d)| Said::Plain(f, s, i, d)),
        (any::<u16>(), any::<i32>(), duration.clone(), prop::collection::vec(any::<u64>(), 0..20))
            .prop_map(|(f, r, d, a)| Said::Call(f, r, d, a)),
        (any::<u64>(), duration, prop::collection::vec(any::<u32>(), 0..9))
            .prop_map(|(i, d, w)| Said::Command(i, d, w)),
        (
            any::<u64>(),
            prop_oneof![
                any::<[u64; 4]>(),
                (0u64..1 << 50).prop_map(|q| [q, q + 5, q + 900, q + 90_000])
            ]
        )
            .prop_map(|(c, s)| Said::Timing(c, s)),
        (any::<u64>(), any::<[u64; 4]>()).prop_map(|(c, s)| Said::ReadTiming(c, s)),
        (any::<u64>(), any::<i32>()).prop_map(|(c, d)| Said::Untimed(c, d)),
        any::<u64>().prop_map(Said::Dropped),
    ]
}

fn put(out: &mut Vec<u8>, words: &[u64]) {
    out.extend(words.iter().flat_map(|w| w.to_le_bytes()));
}

fn write(out: &mut Vec<u8>, said: &Said, delta: u64) {
    let duration = match said {
        Said::Plain(.., d) | Said::Call(_, _, d, _) | Said::Command(_, d, _) => *d,
        _ => 0,
    };
    if delta >> 32 != 0 || duration >> 32 != 0 {
        put(out, &record::prefix(delta, duration));
    }
    let low = delta as u32;
    match said {
        Said::Plain(f, s, i, d) => put(out, &record::plain(*f, *s, *i, low, *d as u32)),
        Said::Call(f, r, d, args) => {
            put(out, &record::call(*f, args.len(), *r, low, *d as u32));
            put(out, args);
        }
        Said::Command(id, d, waits) => {
            let bytes: Vec<u8> = waits.iter().flat_map(|w| w.to_le_bytes()).collect();
            put(out, &record::command(&command(*id, *d, &bytes), low));
            out.extend_from_slice(&bytes);
            out.resize(out.len().next_multiple_of(8), 0);
            if id % 2 == 0 {
                put(out, &[9]);
            }
        }
        Said::Timing(c, s) => {
            let (words, n) = record::timing(*c, *s, low);
            put(out, &words[..n]);
        }
        Said::ReadTiming(c, s) => put(out, &record::read_timing(*c, *s, low)),
        Said::Untimed(c, d) => put(out, &record::untimed(*c, Untimed::Failed, *d, low)),
        Said::Dropped(n) => put(out, &record::dropped(*n, DropReason::WriteFailed, low)),
    }
}

fn command(id: u64, duration: u64, waits: &[u8]) -> Command<'_> {
    Command {
        function: 17,
        duration,
        result: -5,
        id,
        queue: 2,
        object: 3,
        object2: 4,
        geometry: 5,
        kind: CommandKind::CopyBuffer,
        flags: record::flag::BLOCKING
            | if id.is_multiple_of(2) { record::flag::CALL_SITE } else { 0 },
        extra: 77,
        bytes: 1 << 33,
        waits: Waits(waits),
        // Of every second one.
        site: if id.is_multiple_of(2) { 9 } else { 0 },
    }
}

fn matches(record: &Record<'_>, said: &Said) -> bool {
    match said {
        Said::Plain(function, small, id, duration) => {
            *record
                == Record::Plain {
                    function: *function,
                    small: *small,
                    id: *id,
                    duration: *duration,
                }
        }
        Said::Call(function, result, duration, args) => {
            let bytes: Vec<u8> = args.iter().flat_map(|a| a.to_le_bytes()).collect();
            *record
                == Record::Call {
                    function: *function,
                    duration: *duration,
                    result: *result,
                    args: Words(&bytes),
                }
        }
        Said::Command(id, duration, waits) => {
            let bytes: Vec<u8> = waits.iter().flat_map(|w| w.to_le_bytes()).collect();
            *record == Record::Command(command(*id, *duration, &bytes))
        }
        Said::Timing(command, stamps) => {
            *record == Record::Timing { command: *command, stamps: *stamps }
        }
        Said::ReadTiming(command, stamps) => {
            *record == Record::ReadTiming { command: *command, stamps: *stamps }
        }
        Said::Untimed(command, detail) => {
            *record
                == Record::Untimed { command: *command, reason: Untimed::Failed, detail: *detail }
        }
        Said::Dropped(count) => {
            *record == Record::Dropped { count: *count, reason: DropReason::WriteFailed }
        }
    }
}

fn segment(blocks: &[(u32, u32, Vec<u8>)]) -> Vec<u8> {
    let mut out = vec![0; HEADER_LEN];
    for (thread, sequence, payload) in blocks {
        let header = BlockHeader {
            thread: *thread,
            sequence: *sequence,
            length: payload.len() as u32,
            base: 1000,
            checksum: checksum(payload),
        };
        out.extend_from_slice(&header.encode());
        out.extend_from_slice(payload);
        out.resize(out.len().next_multiple_of(8), 0);
    }
    out
}

proptest! {
    #[test]
    fn records_round_trip_in_order(said in prop::collection::vec((said(), prop_oneof![0u64..100, 0u64..1 << 36]), 0..40)) {
        let mut payload = Vec::new();
        for (s, delta) in &said { write(&mut payload, s, *delta); }
        let block = Block { thread: 1, sequence: 0, base: 500, payload: &payload };
        let mut records = block.records();
        let mut time = 500u64;
        for (s, delta) in &said {
            time += delta;
            let (at, record) = records.next().expect("as many as written");
            prop_assert_eq!(at, time);
            prop_assert!(matches(&record, s), "{:?} against {:?}", record, s);
        }
        prop_assert_eq!(records.next(), None);
        prop_assert!(!records.damaged());
    }

    #[test]
    fn plain_records_are_the_same_alone(
        said in prop::collection::vec((said(), prop_oneof![0u64..100, 0u64..1 << 36]), 0..40),
        cut in 0usize..40,
    ) {
        let mut payload = Vec::new();
        for (s, delta) in &said { write(&mut payload, s, *delta); }
        // Also where the last record is torn.
        payload.truncate(payload.len().saturating_sub(cut));
        let block = Block { thread: 1, sequence: 0, base: 500, payload: &payload };
        let whole: Vec<(u64, Record<'_>)> = block.records().collect();
        let mut records = block.records();
        let mut alone = Vec::new();
        loop {
            if let Some(p) = records.next_plain() {
                let (function, small, id, duration) = (p.function, p.small, p.id, p.duration);
                alone.push((p.time, Record::Plain { function, small, id, duration }));
            } else if let Some(other) = records.next() {
                alone.push(other);
            } else {
                break;
            }
        }
        prop_assert_eq!(&alone, &whole);
        // Passing over them gives the latest of their times and leaves the rest.
        let mut rest = block.records();
        let latest = rest.pass_plain();
        let passed = whole.len() - rest.clone().count();
        prop_assert!(rest.next_plain().is_none());
        prop_assert_eq!(latest, whole[..passed].iter().map(|(time, _)| *time).max());
        prop_assert_eq!(rest.collect::<Vec<_>>(), whole[passed..].to_vec());
    }

    #[test]
    fn hostile_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..4096)) {
        let block = Block { thread: 0, sequence: 0, base: 0, payload: &bytes };
        prop_assert!(block.records().count() <= bytes.len() / 8 + 1);
        let mut file = vec![0; HEADER_LEN];
        file.extend_from_slice(&bytes);
        let _ = Blocks::new(&file).count();
        let mut ring_file = vec![0; RING_FIRST];
        ring_file.extend_from_slice(&bytes);
        let _ = Rings::new(&ring_file).count();
    }
}

fn sample_blocks() -> Vec<(u32, u32, Vec<u8>)> {
    (0..6u32)
        .map(|i| {
            let mut payload = Vec::new();
            for k in 0..5 {
                write(&mut payload, &Said::Plain(k, i, i + 1, 9), 3);
            }
            (i % 2, i / 2, payload)
        })
        .collect()
}

#[test]
fn every_flipped_byte_of_a_segment_costs_at_most_its_block() {
    let blocks = sample_blocks();
    let file = segment(&blocks);
    assert_eq!(Blocks::new(&file).count(), blocks.len());
    for at in HEADER_LEN..file.len() {
        let mut bad = file.clone();
        bad[at] ^= 0x55;
        let mut read = Blocks::new(&bad);
        let got: Vec<_> =
            read.by_ref().map(|b| (b.thread, b.sequence, b.payload.to_vec())).collect();
        assert!(got.len() >= blocks.len() - 1, "flip at {at} cost more than one block");
        assert!(got.iter().all(|g| blocks.contains(g)), "flip at {at} was believed");
        let reserved = (at - HEADER_LEN) % (BLOCK_HEADER_LEN + 80) >= 40
            && (at - HEADER_LEN) % (BLOCK_HEADER_LEN + 80) < 64;
        if !reserved {
            let damage = read.damage();
            assert!(damage.torn_blocks + damage.skipped_bytes > 0, "flip at {at} went unnoticed");
        }
    }
    for cut in HEADER_LEN..file.len() {
        let got = Blocks::new(&file[..cut]).count();
        assert_eq!(got, (cut - HEADER_LEN) / (BLOCK_HEADER_LEN + 80), "cut at {cut}");
    }
}

#[test]
fn a_hole_in_a_segment_hides_no_later_block() {
    let blocks = sample_blocks();
    let mut file = segment(&blocks[..2]);
    file.resize(file.len() + 4096, 0);
    file.extend_from_slice(&segment(&blocks[2..])[HEADER_LEN..]);
    let mut read = Blocks::new(&file);
    assert_eq!(read.by_ref().count(), blocks.len());
    assert_eq!(read.damage().skipped_bytes, 4096);
}

fn ring_file(position: u64, drained: u64, payload: &[u8]) -> Vec<u8> {
    let mut file = vec![0; RING_FIRST * 2];
    let region = &mut file[RING_FIRST..];
    region[ring::MAGIC..ring::MAGIC + 4].copy_from_slice(&RING_MAGIC.to_le_bytes());
    region[ring::SIZE..ring::SIZE + 4].copy_from_slice(&(RING_FIRST as u32).to_le_bytes());
    region[ring::THREAD..ring::THREAD + 4].copy_from_slice(&3u32.to_le_bytes());
    region[ring::BASE..ring::BASE + 8].copy_from_slice(&1000u64.to_le_bytes());
    region[ring::POSITION..ring::POSITION + 8].copy_from_slice(&position.to_le_bytes());
    region[ring::DRAINED..ring::DRAINED + 8].copy_from_slice(&drained.to_le_bytes());
    region[ring::CALL..ring::CALL + 8].copy_from_slice(&6u64.to_le_bytes());
    region[ring::CALL_BEGIN..ring::CALL_BEGIN + 8].copy_from_slice(&4242u64.to_le_bytes());
    region[RING_HEADER_LEN..RING_HEADER_LEN + payload.len()].copy_from_slice(payload);
    file
}

#[test]
fn a_ring_gives_what_was_published_and_the_call_in_progress() {
    let payload = &sample_blocks()[0].2;
    let file = ring_file((5 << 32) | 32, 5, payload);
    let ring = Rings::new(&file).next().expect("one ring in use");
    assert_eq!((ring.block.thread, ring.block.sequence, ring.in_call), (2, 5, Some((5, 4242))));
    assert_eq!(ring.block.records().count(), 2, "two records were published, the rest was not");
    let written = ring_file((5 << 32) | 80, 6, payload);
    let ring = Rings::new(&written).next().expect("one ring in use");
    assert_eq!(ring.block.records().count(), 0, "the block is in a segment already");
}
