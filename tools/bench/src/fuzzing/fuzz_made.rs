//! Whole traces of known content that the fuzzers damage: every kind of record and of definition,
//! two clocks, rings, hosts, boots and time namespaces, repetitions and what was tried for them,
//! sensors. Owns what is in them; refuses to damage anything.
#![forbid(unsafe_code)]

use crate::folder::Files;
use crate::random::Random;
use crate::unreasonable::sensors_of;
use clscope_analysis::testing::{CommandSpec, HostModel, ProcessBuilder, function};
use clscope_trace::Clock;
use clscope_trace::defs::{
    AppendedOptions, BlockCount, Build, Calibration, CallSite, Capture, ClassCount,
    ClassTransactions, ClockMarker, ClockMarkers, Code, Context, Device, Frame, Geometry, Kernel,
    KernelArgument, LocalSize, Mix, Module, Platform, Program, Queue, Replaced, Replay,
    ReplayBatch, Resources, Warning,
};
use clscope_trace::record::{CommandKind, DropReason, Untimed};

/// Whole traces.
pub fn made() -> Vec<Files> {
    let mut out = plain();
    out.extend([Clock::MonotonicRaw, Clock::Tsc].map(rich));
    out
}

/// Every kind of record, two clocks, rings, two processes.
fn plain() -> Vec<Files> {
    let mut out = Vec::new();
    for (clock, in_ring) in
        [(Clock::MonotonicRaw, false), (Clock::MonotonicRaw, true), (Clock::Tsc, true)]
    {
        let mut files = Files::new();
        for pid in 1..=2 {
            let host = HostModel { clock, rate: 2.1, ..HostModel::default() };
            let mut p = ProcessBuilder::standard(host, pid, 2);
            p.block_len(512);
            p.in_ring = in_ring;
            for id in 1..=40u64 {
                let t = id * 10_000;
                let thread = (id % 2) as u32;
                p.thread(thread).plain(function::SET_ARG, t, t + 90, 1 | (8 << 8), 1);
                let waits = [id as u32 - 1, 0];
                let kind = if id % 5 == 0 { CommandKind::ReadBuffer } else { CommandKind::NdRange };
                let spec = if id % 5 == 0 {
                    CommandSpec::transfer(id, 1, kind, 4096)
                } else {
                    CommandSpec::kernel(id, 1 + thread, 1)
                };
                p.thread(thread).enqueue(
                    t + 1_000,
                    t + 2_000,
                    &CommandSpec { waits: &waits, ..spec },
                );
                let stamps = [1_500, 2_200, 2_900, 5_000].map(|ns| host.raw + t + ns);
                match id % 7 {
                    5 => drop(p.thread(thread).untimed(t + 5_500, id, Untimed::Failed)),
                    6 => drop(p.thread(thread).dropped(t + 5_500, 3, DropReason::WriteFailed)),
                    _ => drop(p.thread(thread).timing(t + 5_500, id, stamps)),
                }
                p.thread(thread).call(
                    function::CREATE_BUFFER,
                    t + 6_000,
                    t + 7_000,
                    -((id % 3) as i32),
                    &[9, 1, 4096],
                );
                p.thread(thread).plain(function::FINISH, t + 8_000, t + 9_000, 0, 1);
            }
            if in_ring {
                p.in_calls.push((0, function::FINISH, 500_000));
            } else {
                p.exit(600_000, 0);
            }
            files.extend(files_of(pid, p));
        }
        out.push(files);
    }
    out
}

/// The files of a process.
pub fn files_of(pid: u32, process: ProcessBuilder) -> Files {
    let bytes = process.build();
    let all = [("defs", bytes.defs), ("0.clt", bytes.segment), ("ring", bytes.ring)];
    let own = all.into_iter().filter(|(ending, bytes)| *ending != "ring" || !bytes.is_empty());
    own.map(|(ending, bytes)| (format!("{pid}-0.{ending}"), bytes)).collect()
}

/// Two hosts, one of them in two boots and with processes in two time namespaces; everything that a
/// definition can say; sensors of each boot.
fn rich(clock: Clock) -> Files {
    const RUN: u64 = 4_000_000;
    let mut files = Files::new();
    let hosts = [(1, 0), (1, -3_000_000_000), (2, 0), (3, 7_000_000)];
    for (pid, (boot, moved)) in (1..).zip(hosts) {
        let host = HostModel {
            boot,
            clock,
            rate: 2.1,
            moved,
            raw: 5_000_000_000 * u64::from(boot),
            ..HostModel::default()
        };
        let mut p = ProcessBuilder::standard(host, pid, 2);
        p.block_len(512);
        for ns in [400_000, 1_200_000, 2_000_000] {
            // The wall clock was set in between.
            let mut anchor = host.anchor(ns);
            anchor.realtime =
                anchor.realtime.wrapping_add_signed(i64::from(pid as i32 - 2) * 1_000_000);
            p.define(anchor);
        }
        defined(&mut p, host);
        for id in 1..=60u64 {
            let t = 20_000 + id * 30_000;
            let thread = (id % 2) as u32;
            let spec = match id % 6 {
                0 => CommandSpec::transfer(id, 1, CommandKind::WriteBuffer, 1 << (id % 20)),
                1 | 2 => CommandSpec::sampled(id, 2, 3, 0.25, id % 6 == 1),
                _ => CommandSpec::kernel(id, 1 + thread, 1 + (id % 3) as u32),
            };
            let site = (id % 3) as u32;
            let waits = [id as u32 - 1];
            p.thread(thread).enqueue(t, t + 2_000, &CommandSpec { site, waits: &waits, ..spec });
            let stamps = [1_500, 2_200, 4_000, 24_000].map(|ns| host.raw + t + ns);
            match id % 9 {
                2 => drop(p.thread(thread).untimed(t + 25_000, id, Untimed::Failed)),
                5 => drop(p.thread(thread).read_timing(t + 25_000, id, stamps)),
                _ => drop(p.thread(thread).timing(t + 25_000, id, stamps)),
            }
            if id % 10 == 0 {
                let lengths = [90, 80, 200, 100];
                p.thread(thread).run(function::SET_ARG, t + 25_100, 300, &lengths);
            }
        }
        if pid == 4 {
            p.in_calls.push((1, function::FINISH, 2_500_000));
        } else {
            p.exit(RUN, u64::from(pid));
        }
        files.extend(files_of(pid, p));
        if moved == 0 {
            let name =
                if boot == 1 { "sensors.clt".to_owned() } else { format!("sensors-{boot}.clt") };
            files.push((name, sensors_of(&mut Random(u64::from(boot)), host, RUN)));
        }
    }
    files
}

/// One of every definition that a standard process lacks.
fn defined(p: &mut ProcessBuilder, host: HostModel) {
    let at = |ns| host.ticks(ns);
    let batch = |begin, end, count, restores_only| ReplayBatch {
        begin: at(begin),
        end: at(end),
        count,
        restores_only,
    };
    p.define(Platform { id: 1, name: "Test".into(), ..Default::default() });
    p.define(Device {
        id: 2,
        platform: 1,
        name: "Part".into(),
        parent: Some(1),
        ..Default::default()
    });
    p.define(Context { id: 1, devices: vec![1, 2] });
    p.define(Queue { id: 3, context: 1, device: 2, properties: 3, profiling_added: true });
    p.define(Program { id: 1, context: 1, origin: "source".into(), hash: "1f".into(), bytes: 900 });
    p.define(Build {
        program: 1,
        function: 3,
        options: "-cl-mad-enable".into(),
        result: -11,
        log: "no".into(),
    });
    p.define(Kernel { id: 3, program: 1, name: "_Z5scalefPf".into() });
    p.define(Geometry {
        id: 2,
        dimensions: 3,
        offset: Some([1, 2, 3]),
        global: [64, 32, 2],
        local: None,
    });
    p.define(Warning { code: "disk-full".into(), text: "no space".into() });
    for name in ["span-bias-ns", "timer-offset-ns"] {
        p.define(Calibration { name: name.into(), device: 1, value: 800.0, uncertainty: 60.0 });
    }
    for (kernel, begin) in [(1, 2_000_000), (2, 2_400_000), (0, 2_800_000)] {
        p.define(Replay {
            kernel,
            queue: 1,
            global: vec![1024, 1, 1],
            saved: 4096,
            batches: vec![
                batch(begin + 60_000, begin + 160_000, 50, false),
                batch(begin + 180_000, begin + 220_000, 40, true),
                batch(begin + 240_000, begin + 340_000, 50, false),
            ],
            command: if kernel == 0 { CommandKind::WriteBuffer as u8 } else { 0 },
            bytes: if kernel == 0 { 4096 } else { 0 },
            local: vec![64, 1, 1],
            key: 7 + u64::from(kernel),
            scalars: 5,
            before: 40,
            stamped_ns: 1_900,
            per_restoration: 2,
            quiet: at(begin + 40_000),
            trials: vec![
                batch(begin, begin + 10_000, 3, false),
                batch(begin + 12_000, begin + 14_000, 1, true),
            ],
            ..Default::default()
        });
    }
    p.define(Replay {
        kernel: 3,
        queue: 2,
        refused: "it uses an image".into(),
        trials: vec![batch(3_300_000, 3_310_000, 2, false)],
        ..Default::default()
    });
    p.define(Module {
        id: 1,
        path: "/usr/bin/app".into(),
        build_id: "ab".into(),
        base: 4096,
        begin: 8192,
        end: 1 << 20,
    });
    p.define(CallSite {
        id: 1,
        frames: vec![Frame { module: 1, address: 9000 }, Frame { module: 0, address: 77 }],
    });
    p.define(CallSite { id: 2, frames: vec![Frame { module: 1, address: 9500 }] });
    for queue in 1..3 {
        let markers = (0..30).map(|i| i * 60_000).map(|ns| ClockMarker {
            before: at(ns),
            after: at(ns + 3_000),
            queued: host.raw + ns + 700,
            submit: host.raw + ns + 1_500,
        });
        p.define(ClockMarkers { queue, markers: markers.collect() });
    }
    p.define(Code {
        program: 1,
        device: 1,
        language: "cl".into(),
        hash: "1f".into(),
        bytes: 900,
        missing: "size".into(),
    });
    p.define(Resources {
        kernel: 1,
        device: 1,
        work_group: Some(256),
        multiple: Some(32),
        local: Some(4096),
        registers: Some(40),
        spill_stores: Some(8),
        ..Default::default()
    });
    p.define(Mix {
        kernel: 1,
        queue: 1,
        device: 1,
        global: vec![1024],
        local: vec![64],
        before: 10,
        arguments: vec![KernelArgument {
            index: 0,
            kind: "buffer".into(),
            size: Some(4096),
            value: None,
        }],
        language: "ptx".into(),
        code: "1f".into(),
        entered: 1024,
        classes: vec![ClassCount {
            class: "fma".into(),
            threads: 2048,
            warps: Some(64),
            flop: 4096,
            bytes: 128,
            predicated: 3,
        }],
        blocks: vec![
            BlockCount { block: 0, threads: 1024, warps: Some(32) },
            BlockCount { block: 2, threads: 512, warps: None },
        ],
        took: 90_000,
        counted_ns: Some(4_000),
        loops: vec![2],
        transactions: vec![ClassTransactions { class: "load-global".into(), transactions: 99 }],
        ..Default::default()
    });
    p.define(Capture {
        kernel: 1,
        queue: 1,
        launch: 3,
        command: Some(3),
        folder: "matmul.3".into(),
        bytes: 9000,
        took: 800,
        ..Default::default()
    });
    p.define(Replaced {
        kernel: 2,
        from: 5,
        file: "reduce.cl".into(),
        program: 1,
        refused: String::new(),
    });
    p.define(LocalSize {
        kernel: 1,
        device: 1,
        global: vec![1024],
        asked: vec![64],
        wanted: vec![128],
        refused: String::new(),
    });
    p.define(AppendedOptions { program: 1, options: "-g".into(), ..Default::default() });
}
