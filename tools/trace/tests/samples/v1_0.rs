//! The content of the sample trace of version 1.0: a process whose definitions, segment, ring file
//! and sensor readings hold every kind that the version has.

use clscope_trace::defs::*;
use clscope_trace::record::{
    self, Command, CommandKind, DropReason, Record, Untimed, WAITS_INLINE, Waits, Words, flag,
};
use clscope_trace::sensors::{
    self, Cost, CounterReport, CounterSource, CounterWindow, CounterWindows, Event, Finding,
    Quantity, Reading, Readings, Series, SourceCost, Updates,
};
use clscope_trace::{Clock, FileHeader, FileKind};

/// Name of the folder.
pub const FOLDER: &str = "v1.0";

/// The header of each file.
pub fn header(kind: FileKind) -> FileHeader {
    FileHeader {
        version: (1, 0),
        kind,
        pid: 4321,
        ppid: 1234,
        pid_ns: 4_026_531_836,
        incarnation: 2,
        segment: if kind == FileKind::Segment { 7 } else { 0 },
        clock: if kind == FileKind::Sensors { Clock::MonotonicRaw } else { Clock::Tsc },
        host: *b"host-id-sixteen!",
        boot: *b"boot-id-sixteen!",
        created: 0x0102_0304_0506_0708,
    }
}

fn text(text: &str) -> String {
    text.to_owned()
}

/// Every kind of definition.
pub fn definitions() -> Vec<Def> {
    vec![
        Process {
            pid: 4321,
            ppid: 1234,
            executable: text("/usr/bin/app"),
            arguments: vec![text("app"), text("a b"), text("\u{e9}")],
            directory: text("/home/user"),
            host: text("machine"),
            mpi_rank: Some(3),
            mpi_size: Some(8),
            recorder: text("0.1.0"),
            injection: text("preload"),
            device_timing: text("event"),
            rings_survive: true,
            settings: vec![text("CLSCOPE_DEVICE_TIMING=event")],
        }
        .into(),
        Function {
            id: 96,
            name: text("clEnqueueNDRangeKernel"),
            origin: text("1.0"),
            group: text("enqueue"),
            arguments: [
                ArgumentKind::Unsigned,
                ArgumentKind::Signed,
                ArgumentKind::Bytes,
                ArgumentKind::Flags,
                ArgumentKind::Enum,
                ArgumentKind::Bool,
                ArgumentKind::Object,
                ArgumentKind::Event,
                ArgumentKind::Pointer,
            ]
            .map(|kind| Argument { name: format!("{kind:?}"), kind })
            .to_vec(),
            small: vec![Small { argument: 0, bits: 20 }, Small { argument: 5, bits: 1 }],
            object: Some(6),
        }
        .into(),
        Anchor {
            ticks: 1 << 40,
            raw: 2,
            monotonic: 3,
            realtime: 1_700_000_000_000_000_000,
            width: 90,
        }
        .into(),
        Thread { index: 1, tid: 4322, name: text("worker") }.into(),
        Platform { id: 1, name: text("Platform"), vendor: text("Vendor"), version: text("3.0") }
            .into(),
        Device {
            id: 2,
            platform: 1,
            name: text("Device"),
            vendor: text("Vendor"),
            driver: text("1.2"),
            version: text("OpenCL 3.0"),
            device_type: 4,
            compute_units: 80,
            clock_mhz: 1500,
            global_memory: 1 << 34,
            timer_resolution: 80,
            pci: Some(text("0000:03:00.0")),
            parent: None,
            uuid: Some(text("00112233445566778899aabbccddeeff")),
        }
        .into(),
        Context { id: 3, devices: vec![2, 9] }.into(),
        Queue { id: 4, context: 3, device: 2, properties: 2, profiling_added: true }.into(),
        Program { id: 5, context: 3, origin: text("source"), hash: text("c0ffee"), bytes: 1234 }
            .into(),
        Build {
            program: 5,
            function: 33,
            options: text("-cl-fast-relaxed-math"),
            result: -11,
            log: text("error: line 1\n"),
        }
        .into(),
        Kernel { id: 6, program: 5, name: text("matmul") }.into(),
        Geometry {
            id: 7,
            dimensions: 3,
            offset: Some([1, 2, 3]),
            global: [1024, 512, 4],
            local: Some([16, 8, 1]),
        }
        .into(),
        Exit { ticks: 1 << 41, pending: 2 }.into(),
        Warning { code: text("disk-full"), text: text("free some space") }.into(),
        Calibration { name: text("span-bias-ns"), device: 2, value: 1.5, uncertainty: 0.25 }.into(),
        Replay {
            kernel: 6,
            queue: 4,
            global: vec![1024, 512],
            refused: String::new(),
            saved: 4096,
            batches: vec![ReplayBatch { begin: 10, end: 20, count: 6, restores_only: true }],
            ..Replay::default()
        }
        .into(),
        Module {
            id: 8,
            path: text("/usr/bin/app"),
            build_id: text("abcd"),
            base: 0x5555_0000,
            begin: 0x5555_1000,
            end: 0x5555_9000,
        }
        .into(),
        CallSite { id: 9, frames: vec![Frame { module: 8, address: 0x1234 }] }.into(),
        ClockMarkers {
            queue: 4,
            markers: vec![ClockMarker { before: 1, after: 4, queued: 2, submit: 3 }],
        }
        .into(),
    ]
}

/// A record with its time.
pub type Timed<'a> = (u64, Record<'a>);

/// Words of a call's kept arguments.
pub fn arguments() -> Vec<u8> {
    [5u64, u64::MAX, 0x1122_3344_5566_7788].iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// A wait list that one record cannot hold, and one that it can.
pub fn waits(count: u32) -> Vec<u8> {
    (1..=count).flat_map(|id| (id * 3).to_le_bytes()).collect()
}

/// Base time of the blocks.
pub const BASE: u64 = 1 << 33;

/// What thread 0 recorded: every kind of record. The slices are those of [`arguments`] and
/// [`waits`].
pub fn records<'a>(arguments: &'a [u8], short: &'a [u8], long: &'a [u8]) -> Vec<Timed<'a>> {
    let command = |id, kind, flags, waits| Command {
        function: 96,
        duration: 400,
        result: 0,
        id,
        queue: 4,
        object: 6,
        object2: 0,
        geometry: 7,
        kind,
        flags,
        extra: record::probability_bits(0.25),
        bytes: 0,
        waits: Waits(waits),
        site: 0,
    };
    let (inline, more) = long.split_at(WAITS_INLINE * 4);
    vec![
        (BASE + 10, Record::Plain { function: 41, small: 0x1f_ffff, id: 6, duration: 25 }),
        // Longer than 32 bits: a prefix stands before it.
        (BASE + 10 + (5 << 32), Record::Plain { function: 1, small: 0, id: 0, duration: 3 << 32 }),
        (
            BASE + 20 + (5 << 32),
            Record::Call { function: 33, duration: 7, result: -11, args: Words(arguments) },
        ),
        (
            BASE + 30 + (5 << 32),
            Record::Command(Command {
                bytes: 1 << 20,
                object2: 12,
                result: -5,
                site: 9,
                ..command(
                    1,
                    CommandKind::CopyBuffer,
                    flag::APP_EVENT | flag::BLOCKING | flag::TIMED | flag::CALL_SITE,
                    short,
                )
            }),
        ),
        (
            BASE + 40 + (5 << 32),
            Record::Command(command(
                1 << 32,
                CommandKind::NdRange,
                flag::APP_PROFILING | flag::NOT_SAMPLED | flag::REPEATED,
                inline,
            )),
        ),
        (BASE + 40 + (5 << 32), Record::MoreWaits { command: 1 << 32, waits: Waits(more) }),
        (BASE + 50 + (5 << 32), Record::Timing { command: 1, stamps: [1000, 1010, 1500, 9000] }),
        (BASE + 60 + (5 << 32), Record::Timing { command: 2, stamps: [1, 2, 1 << 40, 1 << 41] }),
        (
            BASE + 70 + (5 << 32),
            Record::Untimed { command: 3, reason: Untimed::Failed, detail: -36 },
        ),
        (BASE + 80 + (5 << 32), Record::Dropped { count: 17, reason: DropReason::WriteFailed }),
        (BASE + 90 + (5 << 32), Record::Dropped { count: 1, reason: DropReason::Reentered }),
        (BASE + 100 + (5 << 32), Record::Paused(true)),
        (BASE + 110 + (5 << 32), Record::Paused(false)),
    ]
}

/// What thread 1 left in its ring.
pub fn in_ring() -> Timed<'static> {
    (BASE + 5, Record::Plain { function: 2, small: 3, id: 4, duration: 5 })
}

/// Rows of the readings, and of the windows.
pub fn rows() -> (Vec<u8>, Vec<u8>) {
    let (mut readings, mut windows) = (Vec::new(), Vec::new());
    reading().iter().for_each(|r| r.append_to(&mut readings));
    counter_windows().iter().for_each(|w| w.append_to(&mut windows));
    (readings, windows)
}

/// The readings.
pub fn reading() -> [Reading; 2] {
    [
        Reading { time: 1_000, value: 0, bracket_ns: 7, mean_over_us: 0 },
        Reading { time: 2_000, value: 1 << 40, bracket_ns: u32::MAX, mean_over_us: 20_000 },
    ]
}

/// The windows of counters.
pub fn counter_windows() -> [CounterWindow; 2] {
    [
        CounterWindow {
            host: Some((10, 20)),
            ticks: Some((1, 2)),
            within_ns: 3,
            broken: true,
            context: Some(0x55),
            command: 77,
            shared: true,
            counts: vec![Some(0), None],
        },
        CounterWindow { counts: vec![Some(5), Some(6)], ..CounterWindow::default() },
    ]
}

/// Every kind of the sampler's records, and every quantity.
pub fn sensors<'a>(readings: &'a [u8], windows: &'a [u8]) -> Vec<sensors::Record<'a>> {
    let quantities = [
        Quantity::Energy,
        Quantity::Power,
        Quantity::Clock,
        Quantity::Temperature,
        Quantity::Percent,
        Quantity::Bandwidth,
        Quantity::Flags,
    ];
    let series = quantities.iter().zip(1..).map(|(quantity, id)| {
        sensors::Record::from(Series {
            id,
            source: text("powercap"),
            name: text("package-0/dram"),
            quantity: *quantity,
            plane: text("DRAM"),
            package: Some(1),
            pci: Some(text("0000:03:00.0")),
            uuid: None,
            device: Some(text("GPU")),
            includes: Some(text("memory")),
            window_ns: Some(1_000_000),
            count_numerator: 1_000_000,
            count_denominator: 16384,
        })
    });
    let mut out: Vec<_> = series.collect();
    out.extend([
        sensors::Record::Readings(Readings::new(1, readings)),
        Event {
            time: 9,
            code: text("stalled"),
            series: Some(1),
            source: text("powercap"),
            text: text("it stands still"),
        }
        .into(),
        sensors::Anchor { raw: 1, monotonic: 2, realtime: 3 }.into(),
        Updates {
            series: 1,
            period_ns: 1e6,
            period_error_ns: 5.0,
            jitter_ns: 1.5,
            every_ns: 500_000,
            none: text("too few"),
        }
        .into(),
        Cost { time: 1, wall_ns: 2, cpu_ns: 3 }.into(),
        SourceCost {
            source: text("powercap"),
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
        }
        .into(),
        Finding {
            name: text("RAPL"),
            state: text("refused"),
            why: text("no permission"),
            remedy: text("chmod"),
        }
        .into(),
        CounterSource {
            id: 1,
            name: text("oa:i915:card0"),
            pci: Some(text("0000:00:02.0")),
            pid: Some(4321),
            counters: vec![text("A7"), text("A8")],
            format: text("A32u40_A4u32_B8_C8"),
            generation: text("gen9"),
            hz: 12_000_000,
            period_ns: 83,
            set: text("RenderBasic"),
            uuid: text("1a2b"),
            origin: text("built in"),
            figures: vec![text("busy")],
            units: vec![text("%")],
            equations: vec![text("A 7 READ")],
            meanings: vec![text("share of time")],
            variables: vec![text("EuCoresTotalCount")],
            values: vec![24],
            side_effect: text("slower"),
        }
        .into(),
        sensors::Record::CounterWindows(CounterWindows::new(1, 2, windows)),
        CounterReport { source: 1, command: 7, bytes: vec![1, 2, 3] }.into(),
    ]);
    out
}
