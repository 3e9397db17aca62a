//! Records of calls, commands and their ends.

use crate::{at, bytes};
use clscope_trace::defs::{self, Def, Defs, frame_checksum};
use clscope_trace::record::{
    self, Command, CommandKind, DropReason, Record, Untimed, Waits, detail, flag, kind,
};
use clscope_trace::stream::Block;

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
        Untimed::ImpossibleStamps,
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

#[test]
fn numbers_of_what_details_tell() {
    let told = [
        detail::PLACE,
        detail::ARGUMENT,
        detail::WAITED,
        detail::RANGE,
        detail::PART,
        detail::MEMORY,
        detail::SVM_MADE,
        detail::SVM_FREED,
        detail::SVM_ARGUMENT,
        detail::PARAMETER,
        detail::NAMES,
        detail::ROWS,
        detail::RANGE_TO,
        detail::BOX,
        detail::BOX_TO,
        detail::UNMAPPED,
        detail::HOST_MEMORY,
    ];
    for (number, told) in (1..).zip(told) {
        assert_eq!(told, number);
    }
    assert_eq!((detail::WRITES, detail::FREES, detail::BESIDE), (1, 2, 0xffff_ffff));
    let named =
        [detail::OBJECT, detail::EVENT, detail::LAUNCHED, detail::NO_LIST, detail::NULL_EVENT];
    assert_eq!(named, [1, 2, 3, 4, 5]);
    let memories = [
        detail::MAPPED,
        detail::SVM,
        detail::HOST_ALLOCATION,
        detail::SHARED_ALLOCATION,
        detail::NOT_KEPT,
    ];
    assert_eq!(memories, [1, 2, 3, 4, 5]);
    assert_eq!((detail::FLAGS_UNKNOWN, detail::HOST_MEMORY_SINCE), (u64::MAX, (1, 8)));
}
