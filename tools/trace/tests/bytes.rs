//! The layout of version 1.0 stated a second time, as bytes at offsets, without the code that writes
//! them: what writer and reader agree on by mistake is seen here. Numbers are little-endian.

use clscope_trace::defs::{self, *};
use clscope_trace::file::{self, BlockHeader};
use clscope_trace::record::{
    self, Command, CommandKind, DropReason, Record, Untimed, Waits, flag, kind,
};
use clscope_trace::sensors::{self, CounterWindow, CounterWindows, Quantity, Reading, Readings};
use clscope_trace::stream::Block;
use clscope_trace::{Clock, FileHeader, FileKind, checksum};

/// Bytes that are 0 but for (offset, width, value).
fn at(length: usize, fields: &[(usize, usize, u64)]) -> Vec<u8> {
    let mut out = vec![0; length];
    for (offset, width, value) in fields {
        out[*offset..offset + width].copy_from_slice(&value.to_le_bytes()[..*width]);
    }
    out
}

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

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
    use file::{control, ring};
    assert_eq!(
        (file::RING_FIRST, file::RING_HEADER_LEN, file::RING_MAGIC),
        (4096, 128, 0x3147_4e52)
    );
    assert_eq!((control::WORD, control::PAUSED, control::RESUMED), (128, 1, 2));
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

/// Bytes of a record against its fields, and the record that they are read as, at time 9.
#[track_caller]
fn holds(written: &[u64], fields: &[(usize, usize, u64)], expected: &Record<'_>) {
    let written = bytes(written);
    assert_eq!(written, at(written.len(), fields));
    let block = Block { thread: 0, sequence: 0, base: 0, payload: &written };
    assert_eq!(block.records().collect::<Vec<_>>(), [(9, *expected)]);
}

#[test]
fn plain_records() {
    // Bit 31, function in bits 30..21, small arguments in bits 20..0.
    let head = 1 << 31 | 3 << 21 | 0x5_4321;
    holds(
        &record::plain(3, 0x5_4321, 7, 9, 11),
        &[(0, 4, head), (4, 4, 9), (8, 4, 11), (12, 4, 7)],
        &Record::Plain { function: 3, small: 0x5_4321, id: 7, duration: 11 },
    );
    let widest = 1 << 31 | 1023 << 21 | 0x1f_ffff;
    holds(
        &record::plain(1023, 0x1f_ffff, u32::MAX, 9, 0),
        &[(0, 4, widest), (4, 4, 9), (12, 4, 0xffff_ffff)],
        &Record::Plain { function: 1023, small: 0x1f_ffff, id: u32::MAX, duration: 0 },
    );
}

#[test]
fn runs() {
    let run = record::Run {
        function: 3,
        small: 0x5_4321,
        id: 7,
        count: 5,
        first: 11,
        span: 0,
        total: 60,
        shortest: 10,
        longest: 14,
    };
    // An odd count: the first state counts.
    holds(
        &record::run(&run, 9),
        &[
            (0, 2, 3),
            (2, 1, 7),
            (3, 1, 12),
            (4, 4, 9),
            (8, 4, 0x5_4321),
            (12, 4, 7),
            (16, 4, 60),
            (24, 4, 10),
            (28, 4, 14),
            (48, 4, 5),
            (52, 4, 11),
        ],
        &Record::Run(run),
    );
    // An even one: the second. The time goes on by the span, the next delta does not count it.
    let mut words = record::run(&record::Run { count: 6, span: 100, ..run }, 9);
    assert_eq!((words[2], words[3]), (0, 0));
    assert_eq!((words[4], words[5]), (60 | 100 << 32, 10 | 14 << 32));
    // What stands in the other state is of no account.
    (words[2], words[3]) = (u64::MAX, u64::MAX);
    let mut both = bytes(&words);
    both.extend(bytes(&record::plain(3, 0, 0, 120, 11)));
    let block = Block { thread: 0, sequence: 0, base: 0, payload: &both };
    let plain = Record::Plain { function: 3, small: 0, id: 0, duration: 11 };
    assert_eq!(
        block.records().collect::<Vec<_>>(),
        [(109, Record::Run(record::Run { count: 6, span: 100, ..run })), (129, plain)]
    );
}

#[test]
fn calls_and_prefixes() {
    let args = bytes(&[21, 22]);
    let mut words = record::call(5, 2, -11, 9, 13).to_vec();
    words.extend([21, 22]);
    // Function in bits 15..0, length in words in bits 23..16, kind in bits 30..24.
    holds(
        &words,
        &[
            (0, 2, 5),
            (2, 1, 4),
            (3, 1, 2),
            (4, 4, 9),
            (8, 4, 13),
            (12, 4, -11i32 as u32 as u64),
            (16, 8, 21),
            (24, 8, 22),
        ],
        &Record::Call { function: 5, duration: 13, result: -11, args: record::Words(&args) },
    );
    let prefix = bytes(&record::prefix(2 << 32, 3 << 32));
    assert_eq!(prefix, at(16, &[(2, 1, 2), (3, 1, 1), (8, 4, 2), (12, 4, 3)]));
    let mut both = prefix;
    both.extend(bytes(&record::plain(3, 0, 0, 9, 11)));
    let block = Block { thread: 0, sequence: 0, base: 0, payload: &both };
    let plain = Record::Plain { function: 3, small: 0, id: 0, duration: (3 << 32) + 11 };
    assert_eq!(block.records().collect::<Vec<_>>(), [((2 << 32) + 9, plain)]);
}

#[test]
fn commands() {
    let waits = [1u32, 2, 3].map(u32::to_le_bytes).concat();
    let command = Command {
        function: 96,
        duration: 13,
        result: -5,
        id: 1 << 40,
        queue: 2,
        object: 3,
        object2: 4,
        geometry: 5,
        kind: CommandKind::CopyBuffer,
        flags: flag::APP_EVENT | flag::CALL_SITE,
        extra: 77,
        bytes: 1 << 33,
        waits: Waits(&waits),
        site: 12,
    };
    let mut words = record::command(&command, 9).to_vec();
    // The wait list, padded to a word, and the call site behind it.
    words.extend([1 | 2 << 32, 3, 12]);
    holds(
        &words,
        &[
            (0, 2, 96),
            (2, 1, 10),
            (3, 1, 3),
            (4, 4, 9),
            (8, 4, 13),
            (12, 4, -5i32 as u32 as u64),
            (16, 8, 1 << 40),
            (24, 4, 2),
            (28, 4, 3),
            (32, 4, 4),
            (36, 4, 5),
            (40, 1, 6),
            (41, 1, 65),
            (42, 2, 3),
            (44, 4, 77),
            (48, 8, 1 << 33),
            (56, 4, 1),
            (60, 4, 2),
            (64, 4, 3),
            (72, 4, 12),
        ],
        &Record::Command(command),
    );
    let mut words = record::more_waits(1 << 40, 3, 9).to_vec();
    words.extend([1 | 2 << 32, 3]);
    holds(
        &words,
        &[
            (2, 1, 5),
            (3, 1, 4),
            (4, 4, 9),
            (8, 8, 1 << 40),
            (16, 8, 3),
            (24, 4, 1),
            (28, 4, 2),
            (32, 4, 3),
        ],
        &Record::MoreWaits { command: 1 << 40, waits: Waits(&waits) },
    );
    assert_eq!(
        [
            flag::APP_EVENT,
            flag::BLOCKING,
            flag::TIMED,
            flag::APP_PROFILING,
            flag::NOT_SAMPLED,
            flag::REPEATED,
            flag::CALL_SITE
        ],
        [1, 2, 4, 8, 16, 32, 64]
    );
}

#[test]
fn outcomes() {
    let (narrow, count) = record::timing(8, [1000, 1010, 1500, 9000], 9);
    holds(
        &narrow[..count],
        &[
            (2, 1, 5),
            (3, 1, 5),
            (4, 4, 9),
            (8, 8, 8),
            (16, 8, 1500),
            (24, 4, 500),
            (28, 4, 10),
            (32, 4, 7500),
        ],
        &Record::Timing { command: 8, stamps: [1000, 1010, 1500, 9000] },
    );
    let (wide, count) = record::timing(8, [1, 2, 3, 1 << 40], 9);
    holds(
        &wide[..count],
        &[
            (2, 1, 6),
            (3, 1, 6),
            (4, 4, 9),
            (8, 8, 8),
            (16, 8, 1),
            (24, 8, 2),
            (32, 8, 3),
            (40, 8, 1 << 40),
        ],
        &Record::Timing { command: 8, stamps: [1, 2, 3, 1 << 40] },
    );
    holds(
        &record::read_timing(8, [1, 2, 3, 1 << 40], 9),
        &[
            (2, 1, 6),
            (3, 1, 13),
            (4, 4, 9),
            (8, 8, 8),
            (16, 8, 1),
            (24, 8, 2),
            (32, 8, 3),
            (40, 8, 1 << 40),
        ],
        &Record::ReadTiming { command: 8, stamps: [1, 2, 3, 1 << 40] },
    );
    let detail =
        record::Detail { function: 58, what: 2, site: 7, values: [3 | 1 << 32, 44, u64::MAX] };
    holds(
        &record::detail(&detail, 9),
        &[
            (0, 2, 58),
            (2, 1, 5),
            (3, 1, 14),
            (4, 4, 9),
            (8, 4, 2),
            (12, 4, 7),
            (16, 4, 3),
            (20, 4, 1),
            (24, 8, 44),
            (32, 8, u64::MAX),
        ],
        &Record::Detail(detail),
    );
    holds(
        &record::untimed(8, Untimed::QueryFailed, -7, 9),
        &[(2, 1, 3), (3, 1, 7), (4, 4, 9), (8, 8, 8), (16, 4, 9), (20, 4, -7i32 as u32 as u64)],
        &Record::Untimed { command: 8, reason: Untimed::QueryFailed, detail: -7 },
    );
    holds(
        &record::dropped(17, DropReason::Reentered, 9),
        &[(2, 1, 3), (3, 1, 8), (4, 4, 9), (8, 8, 17), (16, 8, 2)],
        &Record::Dropped { count: 17, reason: DropReason::Reentered },
    );
    for (on, number) in [(true, 10), (false, 11)] {
        let fields = [(2, 1, 1), (3, 1, number), (4, 4, 9)];
        holds(&record::paused(on, 9), &fields, &Record::Paused(on));
    }
}

#[test]
fn reserved_kinds_are_unknown_ones() {
    for number in kind::RESERVED {
        let fields = [(2, 1, 1), (3, 1, u64::from(number)), (4, 4, 9)];
        holds(&[record::head(number, 1, 0, 9)], &fields, &Record::Unknown { kind: number });
    }
    for number in defs::RESERVED {
        // The head of the frame, and a payload that nobody looks into.
        let mut frame = at(16 + 8, &[(0, 4, 8), (4, 2, u64::from(number))]);
        let sum = frame_checksum(&frame[..8], &frame[16..]);
        frame[8..16].copy_from_slice(&sum.to_le_bytes());
        let mut file = vec![0; 128];
        file.extend(frame);
        assert_eq!(Defs::new(&file).collect::<Vec<_>>(), [Def::Unknown { kind: number }]);
    }
}

#[test]
fn numbers_of_reasons_and_kinds() {
    use CommandKind as K;
    let reasons = [
        Untimed::Unknown,
        Untimed::Failed,
        Untimed::QueueReleased,
        Untimed::NotAvailable,
        Untimed::TooManyPending,
        Untimed::EventRefused,
        Untimed::Unfinished,
        Untimed::TimingOff,
        Untimed::NotSampled,
        Untimed::QueryFailed,
        Untimed::ProfilingSwitchedOff,
        Untimed::NoEvent,
        Untimed::Exiting,
        Untimed::NeverStarted,
    ];
    for (number, reason) in reasons.into_iter().enumerate() {
        assert_eq!((reason as usize, Untimed::from_u32(number as u32)), (number, reason));
    }
    assert_eq!(DropReason::from_u64(3), DropReason::Unknown, "reserved: it was never written");
    let drops = [DropReason::WriteFailed, DropReason::Reentered, DropReason::Left];
    assert_eq!(drops.map(|reason| reason as u64), [1, 2, 4]);
    let kinds = [
        K::Other,
        K::NdRange,
        K::Task,
        K::NativeKernel,
        K::ReadBuffer,
        K::WriteBuffer,
        K::CopyBuffer,
        K::ReadImage,
        K::WriteImage,
        K::CopyImage,
        K::CopyImageToBuffer,
        K::CopyBufferToImage,
        K::MapBuffer,
        K::MapImage,
        K::UnmapMemObject,
        K::Marker,
        K::AcquireExternal,
        K::ReleaseExternal,
        K::ReadBufferRect,
        K::WriteBufferRect,
        K::CopyBufferRect,
        K::User,
        K::Barrier,
        K::MigrateMemObjects,
        K::FillBuffer,
        K::FillImage,
        K::SvmFree,
        K::SvmMemcpy,
        K::SvmMemFill,
        K::SvmMap,
        K::SvmUnmap,
        K::SvmMigrate,
        K::UsmFill,
        K::UsmMemcpy,
        K::UsmMigrate,
        K::UsmAdvise,
        K::CommandBuffer,
        K::SemaphoreWait,
        K::SemaphoreSignal,
        K::WaitForEvents,
        K::GenerateMipmap,
        K::ReadHostPipe,
        K::WriteHostPipe,
    ];
    assert_eq!(kinds, CommandKind::ALL);
    for (number, kind) in kinds.into_iter().enumerate() {
        assert_eq!((kind as usize, K::from_u8(number as u8)), (number, kind));
    }
}

/// Builders of a payload, one field after the other.
#[derive(Default)]
struct Payload(Vec<u8>);

impl Payload {
    fn n(mut self, width: usize, value: u64) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes()[..width]);
        self
    }
    fn s(mut self, text: &str) -> Self {
        self = self.n(4, text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
        self
    }
    /// An option that holds what is added next, or nothing.
    fn some(self) -> Self {
        self.n(1, 1)
    }
    fn none(self) -> Self {
        self.n(1, 0)
    }
}

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
            .n(8, 17),
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
            .n(4, 21),
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
            .n(8, 6),
    );
}

#[track_caller]
fn senses(record: impl Into<sensors::Record<'static>>, number: u16, content: Payload) {
    let record = record.into();
    let mut written = Vec::new();
    sensors::encode(&record, &mut written);
    let content = content.0;
    let mut expected = at(8, &[(0, 2, u64::from(number)), (4, 4, content.len() as u64)]);
    expected.extend(content);
    expected.resize(expected.len().next_multiple_of(8), 0);
    assert_eq!(written, expected, "{record:?}");
}

#[test]
fn records_of_the_sampler() {
    let p = Payload::default;
    let t = |s: &str| s.to_owned();
    senses(
        sensors::Series {
            id: 1,
            source: t("s"),
            name: t("n"),
            quantity: Quantity::Flags,
            plane: t("p"),
            package: Some(2),
            pci: None,
            uuid: Some(t("u")),
            device: None,
            includes: None,
            window_ns: Some(3),
            count_numerator: 4,
            count_denominator: 5,
        },
        1,
        p().n(4, 1)
            .s("s")
            .s("n")
            .n(1, 7)
            .s("p")
            .some()
            .n(4, 2)
            .none()
            .some()
            .s("u")
            .none()
            .none()
            .some()
            .n(8, 3)
            .n(8, 4)
            .n(8, 5),
    );
    let mut row = Vec::new();
    Reading { time: 1, value: 2, bracket_ns: 3, mean_over_us: 4 }.put(&mut row);
    assert_eq!(row, at(24, &[(0, 8, 1), (8, 8, 2), (16, 4, 3), (20, 4, 4)]));
    senses(
        sensors::Record::Readings(Readings::new(9, row.leak())),
        2,
        p().n(4, 9).n(4, 1).n(8, 1).n(8, 2).n(4, 3).n(4, 4),
    );
    senses(
        sensors::Event { time: 1, code: t("c"), series: Some(2), source: t("s"), text: t("t") },
        3,
        p().n(8, 1).s("c").some().n(4, 2).s("s").s("t"),
    );
    senses(sensors::Anchor { raw: 1, monotonic: 2, realtime: 3 }, 4, p().n(8, 1).n(8, 2).n(8, 3));
    senses(
        sensors::Updates {
            series: 1,
            period_ns: 2.0,
            period_error_ns: 3.0,
            jitter_ns: 4.0,
            every_ns: 5,
            none: t("n"),
        },
        5,
        p().n(4, 1).n(8, 2f64.to_bits()).n(8, 3f64.to_bits()).n(8, 4f64.to_bits()).n(8, 5).s("n"),
    );
    senses(sensors::Cost { time: 1, wall_ns: 2, cpu_ns: 3 }, 6, p().n(8, 1).n(8, 2).n(8, 3));
    senses(
        sensors::SourceCost {
            source: t("s"),
            reads: 1,
            failures: 2,
            cpu_ns: 3,
            wall_ns: 4,
            every_ns: 5,
            duplicates: 6,
            late: 7,
            missing: 8,
            refused: 9,
            lost: true,
        },
        7,
        (1..=9).fold(p().s("s"), |p, n| p.n(8, n)).n(1, 1),
    );
    senses(
        sensors::Finding { name: t("n"), state: t("s"), why: t("w"), remedy: t("r") },
        8,
        p().s("n").s("s").s("w").s("r"),
    );
    senses(
        sensors::CounterSource {
            id: 1,
            name: t("n"),
            pci: None,
            pid: Some(2),
            counters: vec![t("c")],
            format: t("f"),
            generation: t("g"),
            hz: 3,
            period_ns: 4,
            set: t("s"),
            uuid: t("u"),
            origin: t("o"),
            figures: vec![t("i")],
            units: vec![t("j")],
            equations: vec![t("k")],
            meanings: vec![t("l")],
            variables: vec![t("m")],
            values: vec![5],
            side_effect: t("e"),
        },
        9,
        p().n(4, 1)
            .s("n")
            .none()
            .some()
            .n(4, 2)
            .n(4, 1)
            .s("c")
            .s("f")
            .s("g")
            .n(8, 3)
            .n(8, 4)
            .s("s")
            .s("u")
            .s("o")
            .n(4, 1)
            .s("i")
            .n(4, 1)
            .s("j")
            .n(4, 1)
            .s("k")
            .n(4, 1)
            .s("l")
            .n(4, 1)
            .s("m")
            .n(4, 1)
            .n(8, 5)
            .s("e"),
    );
    let window = CounterWindow {
        host: Some((1, 2)),
        ticks: Some((3, 4)),
        within_ns: 5,
        broken: true,
        context: Some(6),
        command: 7,
        shared: true,
        counts: vec![Some(8), None],
    };
    let mut row = Vec::new();
    window.put(&mut row);
    // Flags: 1 broken, 2 a context, 4 times, 8 shared.
    let fields = [
        (0, 8, 1),
        (8, 8, 2),
        (16, 8, 3),
        (24, 8, 4),
        (32, 4, 5),
        (36, 4, 15),
        (40, 4, 6),
        (44, 4, 7),
        (48, 8, 8),
        (56, 8, u64::MAX),
    ];
    assert_eq!(row, at(64, &fields));
    let mut content = p().n(4, 1).n(4, 2).n(4, 1).n(4, 0);
    content.0.extend(&row);
    senses(sensors::Record::CounterWindows(CounterWindows::new(1, 2, row.leak())), 10, content);
    senses(
        sensors::CounterReport { source: 1, command: 2, bytes: vec![3, 4] },
        11,
        p().n(4, 1).n(8, 2).n(4, 2).n(1, 3).n(1, 4),
    );
    let numbers = [
        Quantity::Energy,
        Quantity::Power,
        Quantity::Clock,
        Quantity::Temperature,
        Quantity::Percent,
        Quantity::Bandwidth,
        Quantity::Flags,
    ];
    assert_eq!(numbers.map(|q| q as u8), [1, 2, 3, 4, 5, 6, 7]);
}
