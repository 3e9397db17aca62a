//! Writes the files of a sample from its content, as the recorder and the sampler of the newest
//! version do.

use super::v1_0::{BASE, Timed};
use clscope_trace::defs::{self, Def};
use clscope_trace::file::BlockHeader;
use clscope_trace::record::{self, Record};
use clscope_trace::ring_file::{
    RING_FIRST, RING_HEADER_LEN, RING_MAGIC, attendance, control, ring,
};
use clscope_trace::{FileHeader, FileKind, checksum, sensors};

/// What is in a sample.
pub struct Content<'a> {
    pub header: fn(FileKind) -> FileHeader,
    pub definitions: Vec<Def>,
    /// Of thread 0.
    pub records: Vec<Timed<'a>>,
    /// What thread 1 left in its ring.
    pub in_ring: Timed<'a>,
    pub sensors: Vec<sensors::Record<'a>>,
}

/// The files of the trace: name and bytes.
pub fn files(content: &Content<'_>) -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("4321-2.defs", defs_file(content)),
        ("4321-2.7.clt", segment_file(content)),
        ("4321-2.ring", ring_file(content)),
        ("sensors.clt", sensors_file(content)),
    ]
}

fn defs_file(content: &Content<'_>) -> Vec<u8> {
    let mut out = definitions(content);
    // Room for more, which a writer beside has made.
    out.resize(out.len().next_multiple_of(512), 0);
    out
}

fn definitions(content: &Content<'_>) -> Vec<u8> {
    let mut out = (content.header)(FileKind::Defs).encode().to_vec();
    content.definitions.iter().for_each(|def| defs::encode(def, &mut out));
    out
}

fn put(out: &mut Vec<u8>, words: &[u64]) {
    out.extend(words.iter().flat_map(|w| w.to_le_bytes()));
}

/// The bytes of records, as the recorder writes them.
fn payload(base: u64, records: &[Timed<'_>]) -> Vec<u8> {
    let (mut out, mut time) = (Vec::new(), base);
    for (at, record) in records {
        // A run's delta leads to the end of its first call.
        let at = at - if let Record::Run(run) = record { u64::from(run.span) } else { 0 };
        let wide = at - time;
        let delta = wide as u32;
        time = at;
        let duration = match record {
            Record::Plain { duration, .. } | Record::Call { duration, .. } => *duration,
            Record::Command(c) => c.duration,
            _ => 0,
        };
        if (wide | duration) >> 32 != 0 {
            put(&mut out, &record::prefix(wide, duration));
        }
        match record {
            Record::Plain { function, small, id, duration } => {
                put(&mut out, &record::plain(*function, *small, *id, delta, *duration as u32));
            }
            Record::Call { function, duration, result, args } => {
                let count = args.0.len() / 8;
                put(&mut out, &record::call(*function, count, *result, delta, *duration as u32));
                out.extend_from_slice(args.0);
            }
            Record::Command(c) => {
                put(&mut out, &record::command(c, delta));
                out.extend_from_slice(c.waits.0);
                out.resize(out.len().next_multiple_of(8), 0);
                if c.site != 0 {
                    put(&mut out, &[u64::from(c.site)]);
                }
            }
            Record::MoreWaits { command, waits } => {
                put(&mut out, &record::more_waits(*command, waits.len(), delta));
                out.extend_from_slice(waits.0);
                out.resize(out.len().next_multiple_of(8), 0);
            }
            Record::Timing { command, stamps } => {
                let (words, count) = record::timing(*command, *stamps, delta);
                put(&mut out, &words[..count]);
            }
            Record::ReadTiming { command, stamps } => {
                put(&mut out, &record::read_timing(*command, *stamps, delta));
            }
            Record::Untimed { command, reason, detail } => {
                put(&mut out, &record::untimed(*command, *reason, *detail, delta));
            }
            Record::Dropped { count, reason } => {
                put(&mut out, &record::dropped(*count, *reason, delta));
            }
            Record::Paused(on) => put(&mut out, &record::paused(*on, delta)),
            Record::Run(run) => put(&mut out, &record::run(run, delta)),
            Record::Detail(of) => put(&mut out, &record::detail(of, delta)),
            Record::Unknown { kind } => put(&mut out, &[record::head(*kind, 1, 0, delta)]),
        }
    }
    out
}

fn segment_file(content: &Content<'_>) -> Vec<u8> {
    let mut out = (content.header)(FileKind::Segment).encode().to_vec();
    // Two blocks of thread 0 with one of thread 1 between them.
    let (first, second) = content.records.split_at(5);
    let second_base = first[first.len() - 1].0;
    for (thread, sequence, base, payload) in [
        (0, 0, BASE, payload(BASE, first)),
        (1, 0, BASE, payload(BASE, &[content.in_ring])),
        (0, 1, second_base, payload(second_base, second)),
    ] {
        let header = BlockHeader {
            thread,
            sequence,
            length: payload.len() as u32,
            base,
            checksum: checksum(&payload),
        };
        out.extend_from_slice(&header.encode());
        out.extend_from_slice(&payload);
        out.resize(out.len().next_multiple_of(8), 0);
    }
    out
}

/// A ring file beside which another process writes: paused; a region of thread 1 in a call with one
/// record published, one that thread 0 has left and whose block is in the segment, and one with a
/// piece of a program's file.
fn ring_file(content: &Content<'_>) -> Vec<u8> {
    let mut out = (content.header)(FileKind::Ring).encode().to_vec();
    out.resize(RING_FIRST * 4, 0);
    for (at, value) in [
        (control::WORD, control::PAUSED),
        (control::WRITER, control::WRITER_BESIDE),
        (control::CHUNKS, 0),
        (control::DEFS_END, definitions(content).len() as u32),
        (control::DEFS_ROOM, defs_file(content).len() as u32),
        (control::SEGMENT, 1 << 30),
        (control::MOST_CHUNKS, 1024),
        (control::MOST_DEFS, 64 << 20),
        (control::SMALL_TAKEN, 3),
        (control::BEAT, 17),
        (control::SANDBOXED, 1),
        (control::LEFT, 0b110),
    ] {
        out[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
    let payload = payload(BASE, &[content.in_ring]);
    for (index, (thread, sequence, drained, call)) in [
        (2u32, 1u64, 1u64, 97u64),
        (attendance::LEFT | 1, 1, 2, 0),
        (attendance::LEFT | attendance::PIECE, 0, 0, 0),
    ]
    .into_iter()
    .enumerate()
    {
        let region = &mut out[RING_FIRST * (index + 1)..RING_FIRST * (index + 2)];
        let mut word = |at: usize, value: u64| {
            region[at..at + 8].copy_from_slice(&value.to_le_bytes());
        };
        word(ring::MAGIC, u64::from(RING_MAGIC) | (RING_FIRST as u64) << 32);
        word(ring::THREAD, u64::from(thread));
        word(ring::BASE, BASE);
        word(ring::POSITION, sequence << 32 | payload.len() as u64);
        word(ring::DRAINED, drained);
        word(ring::DROPPED, 6 * (call / 97));
        word(ring::CALL, call);
        word(ring::CALL_BEGIN, if call == 0 { 0 } else { BASE + 6 });
        region[RING_HEADER_LEN..RING_HEADER_LEN + payload.len()].copy_from_slice(&payload);
        // Not published yet.
        region[RING_HEADER_LEN + payload.len()] = 0x77;
    }
    out
}

fn sensors_file(content: &Content<'_>) -> Vec<u8> {
    let mut out = (content.header)(FileKind::Sensors).encode().to_vec();
    for (sequence, part) in content.sensors.chunks(6).enumerate() {
        let mut payload = Vec::new();
        part.iter().for_each(|record| sensors::encode(record, &mut payload));
        out.extend(sensors::block(sequence as u32, &payload));
    }
    out
}
