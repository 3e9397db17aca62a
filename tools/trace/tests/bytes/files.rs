//! Checksums, and the heads of files, blocks and rings.

use crate::at;
use clscope_trace::defs::frame_checksum;
use clscope_trace::file::BlockHeader;
use clscope_trace::{Clock, FileHeader, FileKind, checksum, ring_file};

#[test]
fn checksums_are_those_of_all_files_written_so_far() {
    let data: Vec<u8> = (0..=255).collect();
    for (length, sum) in [
        (0, 0x61c3_4025_e8c5_d9aa),
        (1, 0xd701_196c_31c9_6335),
        (31, 0x944d_8fe2_1fd8_cf91),
        (32, 0x53f0_7065_0557_f0ac),
        (120, 0x1c1d_d1cc_741d_0290),
        (256, 0xedba_2303_20e9_e101),
    ] {
        assert_eq!(checksum(&data[..length]), sum, "of {length} bytes");
    }
    assert_eq!(frame_checksum(&data[..8], &data[8..50]), 0x311c_cad5_236b_449d);
}

#[test]
fn file_header() {
    let header = FileHeader {
        version: (1, 0),
        kind: FileKind::Sensors,
        pid: 0x11,
        ppid: 0x22,
        pid_ns: 0x33,
        incarnation: 0x44,
        segment: 0x55,
        clock: Clock::Cntvct,
        host: [0x66; 16],
        boot: [0x77; 16],
        created: 0x88,
    };
    let sixteen = u64::from_le_bytes([0x66; 8]);
    let seventeen = u64::from_le_bytes([0x77; 8]);
    let mut expected = at(
        128,
        &[
            (0, 8, u64::from_le_bytes(*b"\x89clscope")),
            (8, 4, 0x0102_0304),
            (12, 2, 1),
            (14, 2, 0),
            (16, 4, 4),
            (20, 4, 128),
            (24, 4, 0x11),
            (28, 4, 0x22),
            (32, 8, 0x33),
            (40, 4, 0x44),
            (44, 4, 0x55),
            (48, 1, 3),
            (56, 8, sixteen),
            (64, 8, sixteen),
            (72, 8, seventeen),
            (80, 8, seventeen),
            (88, 8, 0x88),
        ],
    );
    let sum = checksum(&expected[..120]);
    expected[120..].copy_from_slice(&sum.to_le_bytes());
    assert_eq!(header.encode()[..], expected);
    let numbers = |kind: FileKind| kind as u32;
    assert_eq!(
        [FileKind::Defs, FileKind::Segment, FileKind::Ring, FileKind::Sensors].map(numbers),
        [1, 2, 3, 4]
    );
    assert_eq!([Clock::Tsc, Clock::MonotonicRaw, Clock::Cntvct].map(|c| c as u8), [1, 2, 3]);
}

#[test]
fn block_header() {
    let block = BlockHeader { thread: 1, sequence: 2, length: 24, base: 3, checksum: 4 };
    let mut expected =
        at(64, &[(0, 4, 0x314b_4c42), (4, 4, 1), (8, 4, 2), (12, 4, 24), (16, 8, 3), (24, 8, 4)]);
    let sum = checksum(&expected[..32]);
    expected[32..40].copy_from_slice(&sum.to_le_bytes());
    assert_eq!(block.encode()[..], expected);
}

#[test]
fn ring_and_control_page() {
    use ring_file::{control, ring};
    assert_eq!(
        (ring_file::RING_FIRST, ring_file::RING_HEADER_LEN, ring_file::RING_MAGIC),
        (4096, 128, 0x3147_4e52)
    );
    assert_eq!((control::WORD, control::PAUSED, control::RESUMED), (128, 1, 2));
    assert_eq!(
        [
            control::WRITER,
            control::FAILURE,
            control::CHUNKS,
            control::DEFS_END,
            control::DEFS_ROOM,
            control::SEGMENT,
            control::SEGMENTS,
            control::MOST_CHUNKS,
            control::MOST_DEFS,
            control::SMALL_TAKEN,
            control::LARGE_TAKEN,
            control::BEAT,
            control::SANDBOXED,
            control::UNRECORDED,
            control::ASKED,
            control::ANSWERED,
            control::LEFT,
        ],
        [132, 136, 140, 144, 152, 160, 168, 172, 176, 184, 188, 192, 200, 204, 208, 212, 2048]
    );
    assert_eq!((control::WRITER_BESIDE, control::WRITER_GONE), (1, 2));
    assert_eq!((ring_file::CHUNK, ring_file::attendance::PIECE_HEAD), (65_536, 32));
    assert_eq!(
        (ring_file::attendance::LEFT, ring_file::attendance::PIECE),
        (1 << 31, (1 << 31) - 1)
    );
    assert_eq!(
        [
            ring::MAGIC,
            ring::SIZE,
            ring::THREAD,
            ring::FAILED,
            ring::BASE,
            ring::POSITION,
            ring::DRAINED,
            ring::DROPPED,
            ring::CALL,
            ring::CALL_BEGIN,
        ],
        [0, 4, 8, 12, 16, 24, 32, 40, 48, 56]
    );
    // The sequence number is the upper half of the position, the bytes published the lower.
    let region = at(
        4096 * 2,
        &[
            (4096, 4, 0x3147_4e52),
            (4100, 4, 4096),
            (4104, 4, 8),
            (4108, 4, 3),
            (4112, 8, 1000),
            (4120, 4, 16),
            (4124, 4, 5),
            (4128, 8, 5),
            (4136, 8, 6),
            (4144, 8, 97),
            (4152, 8, 44),
            (4224, 8, 1 << 31 | 3 << 32),
        ],
    );
    let read: Vec<_> = clscope_trace::stream::Rings::new(&region).collect();
    assert_eq!(read.len(), 1);
    assert_eq!((read[0].block.thread, read[0].block.sequence, read[0].block.base), (7, 5, 1000));
    assert_eq!((read[0].block.payload.len(), read[0].dropped), (16, 6));
    assert_eq!(read[0].failed, Some(2));
    assert_eq!(read[0].in_call, Some((96, 44)));
}
