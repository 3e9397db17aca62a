//! The answer's laws, on generated traces: shares add up to 1 and none is negative, whatever was
//! timed, sampled or late; and what was built into a trace comes out of it.

use clscope_analysis::Trace;
use clscope_analysis::stats::Stats;
use clscope_analysis::testing::{CommandSpec, HostModel, ProcessBuilder, ProcessBytes, function};
use clscope_profile::answer::Answer;
use clscope_profile::energy::activity::{By, Grouping};
use clscope_profile::report::Report;
use clscope_profile::sites::Sites;
use clscope_trace::defs::{
    Argument, ArgumentKind, Def, Device, Function, Geometry, Process, Queue,
};
use clscope_trace::record::CommandKind;
use clscope_trace::{Clock, Untimed};
use proptest::prelude::*;

/// Id of clBuildProgram in these traces.
const BUILD: u16 = 40;

fn answer(processes: &[ProcessBytes]) -> Answer {
    report(processes).answer
}

fn report(processes: &[ProcessBytes]) -> Report {
    let files = processes.iter().enumerate().map(|(i, p)| p.files(&format!("t.clscope/{i}-0")));
    let trace = Trace::open(files.collect());
    let alignment = trace.align();
    let stats = Stats::of_trace(&trace, &alignment);
    let by = Grouping { by: By::Kernel, sites: &Sites::default() };
    Report::new(vec!["t.clscope".into()], &trace, &alignment, &stats, by)
}

fn process(pid: u32, threads: u32) -> ProcessBuilder {
    let mut p = ProcessBuilder::standard(HostModel::default(), pid, threads);
    p.define(Function {
        id: BUILD,
        name: "clBuildProgram".into(),
        origin: "1.0".into(),
        group: "build".into(),
        arguments: vec![Argument { name: "program".into(), kind: ArgumentKind::Object }],
        small: vec![],
        object: Some(0),
    });
    p
}

/// Share of the first cause of a kind.
fn share(answer: &Answer, kind: &str) -> f64 {
    answer.why.iter().filter(|cause| cause.kind == kind).map(|cause| cause.share).sum()
}

fn check(answer: &Answer) -> Result<(), TestCaseError> {
    let sum: f64 = answer.why.iter().map(|cause| cause.share).sum();
    prop_assert!(answer.why.is_empty() || (sum - 1.0).abs() < 1e-9, "{sum}: {answer:#?}");
    for cause in &answer.why {
        prop_assert!(cause.share > 0.0 && cause.share <= 1.0 + 1e-9, "{cause:?}");
        prop_assert!(cause.ns.is_finite() && !cause.text.is_empty(), "{cause:?}");
    }
    for most in 1..8 {
        let (first, rest) = answer.first_causes(most);
        let first: f64 = first.iter().map(|cause| cause.share).sum();
        let shown = first + rest.map_or(0.0, |(share, _)| share);
        prop_assert!(answer.why.is_empty() || (shown - 1.0).abs() < 1e-9, "{shown}");
    }
    for advice in &answer.advice {
        prop_assert!(
            advice.gain.is_none_or(|gain| (0.0..=1.0 + 1e-9).contains(&gain)),
            "{advice:?}"
        );
        prop_assert!(answer.why.iter().any(|cause| cause.kind == advice.against), "{advice:?}");
    }
    let times =
        answer.kernels.iter().filter_map(|k| k.share).chain(answer.host.iter().map(|h| h.share));
    for share in times {
        prop_assert!(share.is_finite() && share >= 0.0);
    }
    Ok(())
}

/// A command: gap before its enqueue, what kind, queue, when it begins after that, how long it runs,
/// how its end is known.
type Step = (u64, u8, u32, u64, u64, u8);

fn generated(pid: u32, steps: &[Step], waits: &[bool]) -> ProcessBytes {
    let mut p = process(pid, 2);
    let host = p.host;
    let mut at = 10_000u64;
    let mut late: Vec<(u64, u64, [u64; 4])> = Vec::new();
    for (i, (gap, kind, queue, delay, length, how)) in steps.iter().enumerate() {
        let id = i as u64 + 1;
        at += gap;
        match kind {
            0 => drop(p.thread(0).plain(BUILD, at, at + 700, 0, 1)),
            1 => drop(p.thread(0).plain(function::SET_ARG, at, at + 50, 1 | (8 << 8), 1)),
            _ => {}
        }
        at += 800;
        let queue = 1 + queue % 2;
        let before = [id.saturating_sub(1) as u32];
        let spec = match (kind % 4, how) {
            (3, _) => CommandSpec::transfer(id, queue, CommandKind::WriteBuffer, 4096),
            (_, 3) => CommandSpec::sampled(id, queue, 1, 0.5, false),
            _ => CommandSpec::kernel(id, queue, 1 + (i % 2) as u32),
        };
        let spec = match waits.get(i) {
            Some(true) if id > 1 => CommandSpec { waits: &before, ..spec },
            _ => spec,
        };
        p.thread(0).enqueue(at, at + 500, &spec);
        let begin = at + 600 + delay;
        let stamps = [at, at + 300, begin, begin + length].map(|ns| host.raw + ns);
        match how {
            0 | 1 => late.push((begin + length + 100, id, stamps)),
            2 => drop(p.thread(0).untimed(at + 600, id, Untimed::QueueReleased)),
            _ => {}
        }
        at += 600;
        if i % 3 == 0 {
            p.thread(0).plain(function::FINISH, at, at + 2_000, 0, queue);
            at += 2_000;
        }
    }
    late.sort_unstable();
    for (seen, id, stamps) in late {
        at = at.max(seen);
        p.thread(1).timing(seen, id, stamps);
    }
    p.exit(at + 5_000, 0);
    p.build()
}

proptest! {
    #[test]
    fn shares_add_up_and_none_is_negative(
        processes in prop::collection::vec(
            (
                prop::collection::vec((0u64..5_000, 0u8..8, 0u32..2, 0u64..20_000, 0u64..9_000, 0u8..4), 0..40),
                prop::collection::vec(any::<bool>(), 40),
            ),
            1..4,
        ),
    ) {
        let bytes: Vec<ProcessBytes> = (7u32..)
            .zip(&processes)
            .map(|(pid, (steps, waits))| generated(pid, steps, waits))
            .collect();
        check(&answer(&bytes))?;
    }

    /// Where all is timed nothing is scaled: the parts are the whole by themselves.
    #[test]
    fn parts_of_a_timed_run_are_its_wall_time(
        steps in prop::collection::vec((0u64..5_000, 0u8..8, 0u32..2, 0u64..20_000, 0u64..9_000, 0u8..2), 1..40),
    ) {
        let bytes = [generated(7, &steps, &[])];
        let trace = Trace::open(vec![bytes[0].files("t.clscope/7-0")]);
        let alignment = trace.align();
        let stats = Stats::of_trace(&trace, &alignment);
        let parts = stats.wall(clscope_analysis::time::ProcessIndex(0)).expect("recorded");
        let idle: u64 = parts.idle.values().sum();
        let outside: u64 = parts.before.values().chain(parts.after.values()).sum();
        prop_assert_eq!(parts.busy_ns() + idle + outside, parts.wall_ns);
    }
}

/// 1 ms builds, then rounds: the kernel runs for 600 us and the host waits, then it works for 300 us.
fn rounds(n: u64, kernel: u64, host_ns: u64) -> ProcessBytes {
    rounds_of(process(7, 1), n, kernel, host_ns, None)
}

/// As [`rounds`], where recording is paused for so long in the middle.
fn rounds_of(
    mut p: ProcessBuilder,
    n: u64,
    kernel: u64,
    host_ns: u64,
    pause: Option<u64>,
) -> ProcessBytes {
    let host = p.host;
    p.thread(0).plain(BUILD, 1_000, 1_001_000, 0, 1);
    let mut at = 1_002_000;
    for id in 1..=n {
        if let Some(ns) = pause.filter(|_| id == n / 2) {
            p.thread(0).paused(at, true).paused(at + ns, false);
            at += ns;
        }
        let stamps = [at, at + 500, at + 2_000, at + 2_000 + kernel].map(|ns| host.raw + ns);
        p.thread(0)
            .enqueue(at, at + 1_000, &CommandSpec::kernel(id, 1, 1))
            .plain(function::FINISH, at + 1_100, at + 2_500 + kernel, 0, 1)
            .timing(at + 2_600 + kernel, id, stamps);
        at += 2_600 + kernel + host_ns;
    }
    p.exit(at, 0);
    p.build()
}

#[test]
fn what_was_built_in_comes_out() {
    let slow = answer(&[rounds(100, 600_000, 300_000)]);
    assert_eq!(slow.why[0].kind, "kernel", "{:#?}", slow.why);
    assert!((share(&slow, "kernel") - 0.657).abs() < 0.02, "{:#?}", slow.why);
    assert!((share(&slow, "host") - 0.325).abs() < 0.02, "{:#?}", slow.why);
    assert!(slow.why[0].more.as_deref().is_some_and(|more| more.contains("waits in clFinish")));
    assert!(slow.advice[0].gain.is_some_and(|gain| gain > 0.3));

    let host = answer(&[rounds(100, 100_000, 900_000)]);
    assert_eq!(host.why[0].kind, "host", "{:#?}", host.why);
    assert!(share(&host, "call") < 0.02, "a wait that was over is no cause: {:#?}", host.why);

    let compiling = answer(&[rounds(3, 10_000, 10_000)]);
    assert_eq!(compiling.why[0].name.as_deref(), Some("clBuildProgram"), "{:#?}", compiling.why);
    assert!(compiling.advice[0].text.contains("compile once"));
}

#[test]
fn time_in_which_recording_was_paused_is_in_no_figure() {
    let of = |pause| report(&[rounds_of(process(7, 1), 100, 600_000, 300_000, pause)]);
    let (whole, paused) = (of(None), of(Some(500_000_000)));
    for kind in ["kernel", "host"] {
        let [a, b] = [&whole, &paused].map(|of| share(&of.answer, kind));
        assert!((a - b).abs() < 1e-3, "{kind}: {a} {b}");
    }
    let device = |of: &Report| {
        let device = &of.devices[0];
        let ns = [device.busy_ns, device.idle_ns, Some(device.extent_ns), of.duration_ns];
        ns.map(|ns| ns.expect("known") as f64)
    };
    for (a, b) in device(&whole).into_iter().zip(device(&paused)) {
        assert!((a - b).abs() < 1e-3 * a, "{a} {b}");
    }
    assert!(paused.answer.gaps[0].ns < 400_000.0, "{:?}", paused.answer.gaps[0]);
    assert!(paused.issues.iter().any(|of| of.code == "paused"), "{:?}", paused.issues);
}

#[test]
fn what_a_filter_leaves_out_is_not_known() {
    let with = |setting: &str| {
        let mut p = process(7, 1);
        let settings = vec![setting.to_owned()];
        let device_timing = "event".to_owned();
        p.define(Process { pid: 7, settings, device_timing, ..Process::default() });
        report(&[rounds_of(p, 100, 100_000, 900_000, None)])
    };
    for setting in ["CLSCOPE_KERNELS=mat*", "CLSCOPE_GROUPS=wait,build"] {
        let of = with(setting);
        assert!(share(&of.answer, "unknown") > 0.8, "{:#?}", of.answer.why);
        for kind in ["host", "before-first-command", "after-last-command"] {
            assert_eq!(share(&of.answer, kind), 0.0, "{:#?}", of.answer.why);
        }
        let device = &of.devices[0];
        assert_eq!((device.busy_ns, device.idle_ns), (None, None), "{device:?}");
        assert!(device.busy_absent.as_deref().is_some_and(|why| why.contains(setting)));
        assert!(of.idle.is_empty() && !of.idle_absent.is_empty());
        assert!(of.waits.iter().all(|wait| wait.nothing_ns.is_none()), "{:?}", of.waits);
        assert!(of.answer.advice.iter().any(|advice| advice.text.contains("record all calls")));
    }
    // All commands are recorded, and what the host did beside them is not.
    let of = with("CLSCOPE_GROUPS=enqueue,wait");
    assert!(share(&of.answer, "host") > 0.8, "{:#?}", of.answer.why);
    assert!(of.answer.why[0].text.contains("outside the calls that are recorded"));
    assert!(of.devices[0].busy_ns.is_some());
}

#[test]
fn without_device_times_the_host_is_not_idle_before_the_first_command() {
    let mut p = process(7, 1);
    for id in 1..=20u64 {
        let at = id * 1_000_000;
        p.thread(0)
            .enqueue(at, at + 1_000, &CommandSpec::kernel(id, 1, 1))
            .untimed(at + 1_100, id, Untimed::TimingOff)
            .plain(function::FINISH, at + 2_000, at + 902_000, 0, 1);
    }
    p.exit(21_000_000, 0);
    let of = report(&[p.build()]);
    assert!(share(&of.answer, "unknown") > 0.8, "{:#?}", of.answer.why);
    assert!(share(&of.answer, "before-first-command") < 0.1, "{:#?}", of.answer.why);
    let waits = of.answer.host.iter().find(|row| row.function == "clFinish").expect("called");
    assert_eq!(waits.waited_for.as_deref(), Some("commands without a time"));
}

/// The host waits 50 of 60 ms for a command that never starts: no other cause gets that time.
#[test]
fn a_wait_for_a_command_that_failed_is_time_of_its_own() {
    let mut p = process(7, 1);
    p.thread(0)
        .plain(BUILD, 1_000, 8_001_000, 0, 1)
        .enqueue(8_002_000, 8_003_000, &CommandSpec::kernel(1, 1, 1))
        .untimed(58_004_000, 1, Untimed::NeverStarted)
        .plain(function::FINISH, 8_004_000, 58_004_000, 0, 1);
    p.exit(60_000_000, 0);
    let of = answer(&[p.build()]);
    let share_of = |name: &str| {
        let cause = of.why.iter().find(|cause| cause.name.as_deref() == Some(name));
        cause.map_or(0.0, |cause| cause.share)
    };
    assert!((share_of("clFinish") - 50.0 / 58.0).abs() < 0.04, "{:#?}", of.why);
    assert!((share_of("clBuildProgram") - 8.0 / 58.0).abs() < 0.02, "{:#?}", of.why);
}

#[test]
fn a_device_is_not_idle_while_commands_run_that_have_no_time() {
    let mut p = process(7, 1);
    let host = p.host;
    for id in 1..=20u64 {
        let at = id * 1_000_000;
        p.thread(0).enqueue(at, at + 1_000, &CommandSpec::kernel(id, 1, 1));
        let stamps = [at, at + 500, at + 2_000, at + 3_000].map(|ns| host.raw + ns);
        match id % 2 {
            0 => p.thread(0).timing(at + 4_000, id, stamps),
            _ => p.thread(0).untimed(at + 4_000, id, Untimed::QueueReleased),
        };
    }
    p.exit(21_000_000, 0);
    let of = report(&[p.build()]);
    let device = &of.devices[0];
    assert_eq!((device.busy_ns, device.idle_ns), (None, None));
    assert_eq!(device.busy_absent.as_deref(), Some("it is not known when 10 of 20 commands ran"));
    assert!(of.idle.is_empty() && of.queues.iter().all(|queue| queue.busy_ns.is_none()));
}

#[test]
fn what_failed_moved_nothing() {
    for reason in [Untimed::Failed, Untimed::NeverStarted] {
        let mut p = process(7, 1);
        let raw = p.host.raw;
        for id in 1..=4u64 {
            let at = id * 1_000_000;
            let write = CommandSpec::transfer(id, 1, CommandKind::WriteBuffer, 1 << 20);
            let thread = p.thread(0);
            thread.enqueue(at, at + 1_000, &write);
            let stamps = [at, at + 500, at + 2_000, at + 200_000].map(|ns| raw + ns);
            match id % 2 {
                0 => thread.timing(at + 300_000, id, stamps),
                _ => thread.untimed(at + 300_000, id, reason),
            };
        }
        p.exit(21_000_000, 0);
        let of = report(&[p.build()]);
        assert_eq!((of.transfers[0].count, of.transfers[0].bytes), (4, 2 << 20), "{reason:?}");
    }
}

/// Whatever clock stamps commands of an in-order queue: what is said of busy time is right, or it is
/// not known. A clock of large steps, one that runs too fast.
#[test]
fn busy_time_is_that_of_the_stamps_or_not_known() {
    type Clock = fn(u64) -> u64;
    let clocks: [(&str, Clock); 6] = [
        ("as the host's", |ns| ns),
        ("drifts", |ns| ns + ns / 2_000),
        ("set forward", |ns| if ns > 30_000_000 { ns + (1 << 40) } else { ns }),
        ("steps of 1 us", |ns| ns / 1_000 * 1_000),
        ("steps of 0.5 ms", |ns| ns / 500_000 * 500_000),
        ("2 % too fast", |ns| ns + ns / 50),
    ];
    for (name, clock) in clocks {
        let mut p = process(7, 1);
        let raw = p.host.raw;
        let mut at = 1_000_000;
        for id in 1..=60u64 {
            // Between 1 and 1.6 ms each, 20 us apart, each waited for.
            let length = 1_000_000 + id * 7_919 % 60 * 10_000;
            let stamps = [at + 500, at + 800, at + 5_000, at + 5_000 + length];
            let thread = p.thread(0);
            thread.enqueue(at, at + 1_000, &CommandSpec::kernel(id, 1, 1));
            thread.timing(at + 10_000 + length, id, stamps.map(|ns| clock(raw + ns)));
            at += length + 25_000;
        }
        p.exit(at, 0);
        let of = report(&[p.build()]);
        let device = of.devices.first();
        let known = device.and_then(|device| Some((device.busy_ns?, device.idle_ns?)));
        if let Some((busy, idle)) = known {
            let share = busy as f64 / (busy + idle) as f64;
            assert!(share > 0.96, "{name}: {share}");
            assert!(name != "steps of 0.5 ms", "commands overlap that cannot");
        }
        let is_good = ["as the host's", "drifts", "set forward", "steps of 1 us"].contains(&name);
        assert!(!is_good || known.is_some(), "{name}: {:#?}", of.devices);
    }
}

#[test]
fn commands_that_run_at_once_hold_each_other_up() {
    let held_up = |first: usize| {
        let mut p = process(7, 1);
        let name = "Test Device".to_owned();
        p.define(Device { id: 1, platform: 1, name, device_type: 2, ..Device::default() });
        let host = p.host;
        // On the second queue the first launch of a round waits for the first queue's.
        let launches = [(1, 1, 900_000), (2, 2, 890_000), (2, 2, 200), (2, 2, 200)];
        for round in 1..=40u64 {
            let at = round * 1_000_000;
            let id = |k: u64| 4 * round + k;
            let of = || (0u64..).zip(&launches).skip(first);
            for (k, (queue, kernel, _)) in of() {
                let at = at + 10 * k;
                let spec = CommandSpec::kernel(id(k), *queue, *kernel);
                p.thread(0).enqueue(at, at + 5, &spec);
            }
            for (k, (_, _, ns)) in of() {
                let begin = at + if *ns > 200 { 2_000 } else { 893_000 + k };
                let stamps = [at + 10 * k + 2, at + 500, begin, begin + ns];
                p.thread(0).timing(at + 910_000 + k, id(k), stamps.map(|ns| host.raw + ns));
            }
        }
        p.exit(50_000_000, 0);
        share(&answer(&[p.build()]), "held-up-launches")
    };
    assert!(held_up(1) > 0.5, "{}", held_up(1));
    assert_eq!(held_up(0), 0.0);
}

#[test]
fn the_longest_gap_names_what_came_before_and_after() {
    let of = answer(&[rounds(5, 10_000, 50_000_000)]);
    let gap = &of.gaps[0];
    assert_eq!((gap.before.as_deref(), gap.after.as_deref()), (Some("matmul"), Some("matmul")));
    assert_eq!(gap.cause, "host outside OpenCL");
    assert!((gap.ns - 50e6).abs() < 1e5, "{gap:?}");
}

#[test]
fn sizes_of_launches_are_told_with_their_number() {
    let mut p = process(7, 1);
    let host = p.host;
    p.define(Geometry { id: 2, dimensions: 2, offset: None, global: [64, 32, 1], local: None });
    for id in 1..=30u64 {
        let at = id * 10_000;
        let stamps = [at, at + 500, at + 2_000, at + 5_000].map(|ns| host.raw + ns);
        let spec = CommandSpec { geometry: 2, ..CommandSpec::kernel(id, 1, 1) };
        p.thread(0).enqueue(at, at + 1_000, &spec).timing(at + 6_000, id, stamps);
    }
    p.exit(400_000, 0);
    let of = answer(&[p.build()]);
    let row = &of.kernels[0];
    assert_eq!((row.size.as_deref(), row.sizes, row.launches), (Some("64x32"), 1, 30));
    assert!(row.p95_ns.is_some());
}

#[test]
fn sizes_that_take_unlike_times_have_rows_of_their_own() {
    let rows = |slower: u64| {
        let mut p = process(7, 1);
        let host = p.host;
        p.define(Geometry { id: 2, dimensions: 2, offset: None, global: [64, 32, 1], local: None });
        for id in 1..=30u64 {
            let (at, ns) = (id * 100_000, if id % 3 == 0 { slower } else { 3_000 });
            let stamps = [at, at + 500, at + 2_000, at + 2_000 + ns].map(|ns| host.raw + ns);
            let geometry = if id % 3 == 0 { 2 } else { 1 };
            let spec = CommandSpec { geometry, ..CommandSpec::kernel(id, 1, 1) };
            p.thread(0).enqueue(at, at + 1_000, &spec).timing(at + 3_000 + ns, id, stamps);
        }
        p.exit(4_000_000, 0);
        answer(&[p.build()]).kernels
    };
    let rows_of = |slower| {
        let rows = rows(slower).into_iter();
        rows.map(|row| (row.size.unwrap(), row.launches, row.of_size)).collect::<Vec<_>>()
    };
    let unlike = [("64x32".to_owned(), 10, true), ("1024 by 64".to_owned(), 20, true)];
    assert_eq!(rows_of(30_000), unlike);
    assert_eq!(rows_of(4_000), [("1024 by 64".to_owned(), 30, false)]);
}

/// What never ran has no time to lack, and moved nothing; of all others without a time sums say so.
#[test]
fn only_commands_that_ran_lack_a_time() {
    for reason in (0..15).map(Untimed::from_u32) {
        let mut p = process(7, 1);
        for id in 0..4u64 {
            let at = 1_000_000 * (1 + id);
            let (kernel, copy) = (2 * id + 1, 2 * id + 2);
            let copies = CommandSpec::transfer(copy, 1, CommandKind::ReadBuffer, 1000);
            p.thread(0).enqueue(at, at + 1_000, &CommandSpec::kernel(kernel, 1, 1)).enqueue(
                at + 2_000,
                at + 3_000,
                &copies,
            );
            for (command, begin) in [(kernel, at + 10_000), (copy, at + 60_000)] {
                let stamps = [begin - 9_000, begin - 8_000, begin, begin + 40_000];
                match id {
                    0 => p.thread(0).untimed(at + 200_000, command, reason),
                    _ => p.thread(0).timing(at + 200_000, command, stamps),
                };
            }
        }
        let other = CommandSpec::transfer(9, 1, CommandKind::ReadBufferRect, 1_000_000);
        p.thread(0).enqueue(8_000_000, 8_001_000, &other).untimed(8_200_000, 9, reason);
        p.exit(9_000_000, 0);
        let of = report(&[p.build()]);
        let never = matches!(reason, Untimed::Failed | Untimed::NeverStarted);
        for row in [&of.kernels[0], &of.transfers[0]] {
            assert_eq!(
                (row.count, row.untimed, row.failed),
                (4, 1, u64::from(never)),
                "{reason:?}"
            );
            let lacking = u64::from(!never && row.left_out == 0);
            assert_eq!(row.lacking(), lacking, "{reason:?}");
        }
        assert_eq!(of.transfers[0].bytes, if never { 3000 } else { 4000 }, "{reason:?}");
        let (launches, copies) = (&of.answer.kernels[0], &of.answer.copies[0]);
        let all = of.transfers.iter().map(|row| row.lacking()).sum::<u64>();
        assert_eq!(
            (launches.untimed, copies.untimed),
            (of.kernels[0].lacking(), all),
            "{reason:?}"
        );
        // Copies of a kind that never ran take nothing from what is known of the others.
        assert_eq!(copies.time_ns.is_some(), never, "{reason:?}");
        let rate = copies.gigabytes_per_second.unwrap();
        assert!((rate - 1000.0 / 40_000.0).abs() < 1e-9, "{reason:?}: {rate}");
    }
}

/// Ticks whose length is not known are no time: neither of the run nor of a call.
#[test]
fn ticks_of_unknown_length_are_shown_nowhere() {
    let host = HostModel { clock: Clock::Tsc, rate: 2.1, ..HostModel::default() };
    for anchors in 0..3usize {
        let mut p = ProcessBuilder::standard(host, 7, 1);
        p.defs.retain(|def| !matches!(def, Def::Anchor(_)));
        for i in 0..anchors {
            p.anchor(i as u64 * 5_000_000);
        }
        p.thread(0).plain(function::FINISH, 1_000, 5_000_000, 0, 1);
        let of = report(&[p.build()]);
        let is_known = anchors > 1;
        assert_eq!(of.totals.calls, 1);
        assert_eq!(
            (of.duration_ns.is_some(), of.answer.run.wall_ns.is_some()),
            (is_known, is_known)
        );
        assert_eq!((of.answer.why.is_empty(), of.answer.host.is_empty()), (!is_known, !is_known));
    }
}

/// Rows that one looks at differ, also where the heading has one device.
#[test]
fn kernels_on_parts_of_a_device_have_rows_that_differ() {
    let mut p = process(7, 1);
    for id in [2, 3] {
        let part = Device { id, name: "Test Device".into(), parent: Some(1), ..Device::default() };
        p.define(part);
        p.define(Queue { id: 10 + id, context: 1, device: id, ..Queue::default() });
    }
    for id in 1..=8u64 {
        let (at, queue) = (id * 1_000_000, 12 + (id % 2) as u32);
        let stamps = [at, at + 500, at + 1_000, at + 100_000 * (id % 2 + 1)];
        let launch = CommandSpec::kernel(id, queue, 1);
        p.thread(0).enqueue(at, at + 1_000, &launch).timing(at + 900_000, id, stamps);
    }
    p.exit(9_500_000, 0);
    let of = answer(&[p.build()]);
    let rows: Vec<_> = of.kernels.iter().map(|row| (&row.name, &row.device)).collect();
    assert!(rows.len() == 2 && rows[0] != rows[1], "{rows:?}");
}
