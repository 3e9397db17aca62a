//! A trace read while it grows gives the sums that its whole gives at the end. Refuses to look at
//! a screen.

use clscope_analysis::Trace;
use clscope_analysis::stats::Stats;
use clscope_analysis::testing::{CommandSpec, HostModel, ProcessBuilder, function};
use clscope_live::document::Document;
use clscope_live::follow::Follower;
use clscope_live::whole::Whole;
use clscope_profile::energy::attribute;
use clscope_trace::file::{BlockHeader, HEADER_LEN};
use clscope_trace::record::{CommandKind, DropReason, flag};
use clscope_trace::stream::{Block, Blocks};
use clscope_trace::{Clock, Untimed, checksum};
use std::path::Path;
use std::time::Duration;

const MS: u64 = 1_000_000;
const ROUNDS: u64 = 60;

/// What a process has recorded after so many rounds of a millisecond each. Where the last begins
/// with a run of calls, that is all there is of it, and it has some calls more later.
fn recorded(rounds: u64, sampling: bool, host: HostModel) -> ProcessBuilder {
    let mut p = ProcessBuilder::standard(host, 7, 2);
    p.block_len(700);
    p.in_ring = true;
    if sampling {
        let device_timing = "sample".into();
        p.defs[0] = clscope_trace::defs::Process { device_timing, ..Default::default() }.into();
    }
    for round in 0..rounds {
        let at = (1 + round) * MS;
        let id = 4 * round + 1;
        let kernel = 1 + (round % 2) as u32;
        let stamps = |start: u64, ns: u64| [start - 40, start - 20, start, start + ns];
        if round % 3 == 0 {
            let grows = round + 1 == rounds && rounds < ROUNDS;
            let calls = if grows { 2 } else { 5 + round % 7 };
            p.thread(0).run(function::SET_ARG, at, 50, &vec![20; calls as usize]);
            if grows {
                break;
            }
        } else {
            p.thread(0).plain(function::SET_ARG, at, at + 30, 1, kernel);
        }
        let left_out = sampling && round % 3 != 0;
        let spec = if sampling {
            CommandSpec::sampled(id, 1, kernel, 0.25, !left_out)
        } else {
            CommandSpec::kernel(id, 1, kernel)
        };
        p.thread(0).enqueue(at + 1000, at + 1100, &spec);
        let bytes = 1000 + 17 * round;
        let kind = if round % 2 == 0 { CommandKind::ReadBuffer } else { CommandKind::WriteBuffer };
        let transfer = CommandSpec {
            flags: flag::TIMED | flag::BLOCKING,
            ..CommandSpec::transfer(id + 1, 2, kind, bytes)
        };
        p.thread(1).enqueue(at + 2000, at + 9000, &transfer);
        // A launch that fails, and one that the runtime gives no time for.
        let failed = CommandSpec { result: -54, ..CommandSpec::kernel(0, 1, 1) };
        p.thread(0).enqueue(at + 3000, at + 3050, &failed);
        p.thread(0).enqueue(at + 4000, at + 4100, &CommandSpec::kernel(id + 2, 1, 2));
        let marker = CommandSpec {
            flags: 0,
            kind: CommandKind::Marker,
            ..CommandSpec::transfer(id + 3, 1, CommandKind::Marker, 0)
        };
        p.thread(0).enqueue(at + 5000, at + 5100, &marker);
        p.thread(0).untimed(at + 5200, id + 3, Untimed::NoEvent);
        // The other thread sees the end of what this one enqueued.
        if !left_out {
            p.thread(1).timing(at + 500_000, id, stamps(at + 10_000, 100_000 + 10 * round));
        }
        p.thread(1).timing(at + 500_100, id + 1, stamps(at + 200_000, 5_000));
        p.thread(1).untimed(at + 500_200, id + 2, Untimed::Failed);
        p.thread(1).call(function::FINISH, at + 400_000, at + 600_000, 0, &[1]);
    }
    p.anchor((2 + rounds) * MS);
    p
}

/// Writes the files anew; to a segment that is there, blocks are appended that it does not have, as
/// a recorder does.
fn write(p: &ProcessBuilder, trace: &Path) {
    let bytes = p.build();
    std::fs::write(trace.join("7-0.defs"), &bytes.defs).unwrap();
    std::fs::write(trace.join("7-0.ring"), &bytes.ring).unwrap();
    let path = trace.join("7-0.0.clt");
    let mut segment = std::fs::read(&path).unwrap_or_else(|_| bytes.segment[..HEADER_LEN].to_vec());
    let name = |block: Block<'_>| (block.thread, block.sequence);
    let have: Vec<_> = Blocks::new(&segment).map(name).collect();
    for block in Blocks::new(&bytes.segment).filter(|block| !have.contains(&name(*block))) {
        let header = BlockHeader {
            thread: block.thread,
            sequence: block.sequence,
            length: block.payload.len() as u32,
            base: block.base,
            checksum: checksum(block.payload),
        };
        segment.extend(header.encode());
        segment.extend(block.payload);
        segment.resize(segment.len().next_multiple_of(8), 0);
    }
    std::fs::write(path, segment).unwrap();
}

fn running(_: &str) -> &'static str {
    "recording"
}

/// Follows it as it grows, and gives the last document.
fn followed(sampling: bool, host: HostModel, looks: &[u64]) -> (Document, ProcessBuilder) {
    let rounds = ROUNDS;
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("a.clscope");
    std::fs::create_dir(&trace).unwrap();
    let mut follower = None;
    for look in looks.iter().filter(|look| **look < rounds) {
        write(&recorded(*look, sampling, host), &trace);
        let follower = follower.get_or_insert_with(|| Follower::open(&trace, Vec::new()).unwrap());
        follower.poll(&running).unwrap();
    }
    let mut last = recorded(rounds, sampling, host);
    last.thread(0).dropped((2 + rounds) * MS, 3, DropReason::Reentered);
    last.exit((3 + rounds) * MS, 0);
    write(&last, &trace);
    let mut follower = follower.unwrap_or_else(|| Follower::open(&trace, Vec::new()).unwrap());
    let document = follower.poll(&running).unwrap();
    assert_eq!(
        document,
        Document { interval_ns: document.interval_ns, ..follower.poll(&running).unwrap() }
    );
    (document, last)
}

fn equal(document: &Document, process: &ProcessBuilder) {
    let bytes = process.build();
    let trace = Trace::open(vec![bytes.files("7-0")]);
    let stats = Stats::of_trace(&trace, &trace.align());
    assert_eq!(document.totals.calls, stats.calls);
    assert_eq!(document.totals.commands, stats.command_count);
    assert_eq!(document.totals.timed, stats.timed);
    assert_eq!(document.totals.launches, stats.launches().0);
    assert_eq!((document.totals.dropped, document.totals.in_flight), (3, 0));
    assert_eq!(document.problems, Vec::<String>::new());
    let kernels = stats.kernels(&trace);
    assert_eq!(document.kernels.len(), kernels.len());
    for kernel in &document.kernels {
        let sums = &kernels[&(kernel.name.clone(), kernel.device.clone())];
        assert_eq!(
            (kernel.launches, kernel.timed, kernel.left_out),
            (sums.count, sums.time.count(), sums.left_out()),
            "{}",
            kernel.name
        );
        assert_eq!(u128::from(kernel.timed_ns), sums.time.total());
        assert_eq!(kernel.max_ns, sums.time.max());
        // Estimates of the report have further evidence.
        let total = kernel.total_ns.unwrap();
        assert_eq!(total.estimated, sums.left_out() > 0);
        if !total.estimated {
            assert_eq!(total.value, sums.time.total() as f64);
            assert_eq!(kernel.p95_ns, sums.time.quantile(0.95));
        }
    }
    for (transfer, (name, sums)) in document.transfers.iter().filter_map(|t| {
        let known = stats.transfers().into_iter().chain(
            stats
                .other_commands()
                .into_iter()
                .map(|(kind, s)| ((clscope_trace::record::Direction::Unknown, kind), s)),
        );
        known.map(|((_, kind), s)| (kind.name(), s)).find(|k| k.0 == t.kind).map(|k| (t, k))
    }) {
        assert_eq!((transfer.count, transfer.bytes), (sums.count, sums.bytes), "{name}");
        assert_eq!(u128::from(transfer.timed_ns), sums.time.total(), "{name}");
    }
    assert_eq!(document.transfers.iter().map(|t| t.kind.as_str()).collect::<Vec<_>>().len(), 3);
    let functions = stats.functions(&trace);
    assert_eq!(document.functions.len(), functions.len());
    for row in &document.functions {
        let sums = &functions[&row.name];
        assert_eq!((row.calls, row.errors), (sums.time.count(), sums.errors.values().sum()));
        let (own, whole) = (row.total_ns.unwrap() as f64, sums.time.total() as f64);
        assert!(
            (own - whole).abs() <= 1e-6 * whole + row.calls as f64,
            "{}: {own} {whole}",
            row.name
        );
    }
    let busy: u64 = document.devices.iter().filter_map(|d| d.busy_ns).sum();
    let known: u64 =
        stats.devices.values().filter(|d| d.left_out == 0).map(|d| d.busy.busy()).sum();
    // The report places spans on the host's clock, at its pace.
    assert!(busy.abs_diff(known) <= known / 100, "{busy} {known}");
}

#[test]
fn sums_of_a_growing_trace_are_those_of_the_whole() {
    let tsc = HostModel { clock: Clock::Tsc, rate: 2.5, ..HostModel::default() };
    for host in [HostModel::default(), tsc] {
        for looks in [vec![], vec![1, 2, 3, 4, 5, 9, 10, 30], (1..ROUNDS).collect()] {
            for sampling in [false, true] {
                let (document, process) = followed(sampling, host, &looks);
                equal(&document, &process);
                assert!(document.processes.iter().all(|p| p.state == "ended"));
                assert_eq!(document.interval_ns, None, "what ended has no rates");
            }
        }
    }
}

#[test]
fn what_runs_has_rates_and_says_what_it_is_in() {
    let folder = tempfile::tempdir().unwrap();
    let host = HostModel::default();
    let mut p = recorded(3, false, host);
    p.in_calls.push((1, function::FINISH, 4 * MS));
    write(&p, folder.path());
    let mut follower = Follower::open(folder.path(), Vec::new()).unwrap();
    let first = follower.poll(&running).unwrap();
    assert_eq!(first.totals.launches_per_second, None, "one reading shows no rate");
    assert_eq!(first.processes[0].state, "recording");
    assert_eq!(first.processes[0].in_calls[0].function, "clFinish");
    write(&recorded(8, false, host), folder.path());
    let second = follower.poll(&running).unwrap();
    let rate = second.totals.launches_per_second.unwrap();
    let seconds = second.interval_ns.unwrap() as f64 * 1e-9;
    assert!((rate * seconds - 10.0).abs() < 1e-6, "{rate} in {seconds}");
    assert!(second.kernels.iter().all(|k| k.launches_per_second.unwrap() > 0.0));
    let only = Follower::open(folder.path(), vec!["8-0".into()]).unwrap().poll(&running).unwrap();
    assert!(only.processes.is_empty() && only.kernels.is_empty());
}

#[test]
fn damaged_and_foreign_files_are_told_of_and_the_rest_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let error = Follower::open(folder.path(), Vec::new()).unwrap_err().to_string();
    assert!(error.contains("holds no clscope trace"), "{error}");
    let error = Follower::open(&folder.path().join("none"), Vec::new()).unwrap_err().to_string();
    assert!(error.contains("name a trace directory"), "{error}");
    write(&recorded(20, false, HostModel::default()), folder.path());
    let whole = Follower::open(folder.path(), Vec::new()).unwrap().poll(&running).unwrap();
    // Every file in turn is cut, is of another kind, is a link.
    for name in ["7-0.defs", "7-0.0.clt", "7-0.ring"] {
        let path = folder.path().join(name);
        let bytes = std::fs::read(&path).unwrap();
        for cut in (0..bytes.len()).step_by(97) {
            std::fs::write(&path, &bytes[..cut]).unwrap();
            let found = Follower::open(folder.path(), Vec::new()).unwrap().poll(&running).unwrap();
            assert!(found.totals.calls <= whole.totals.calls, "{name} cut at {cut}");
        }
        std::fs::write(&path, [b"#!/bin/sh\n".as_slice(), &[0; 200]].concat()).unwrap();
        let found = Follower::open(folder.path(), Vec::new()).unwrap().poll(&running).unwrap();
        assert!(found.problems.iter().any(|p| p.starts_with(name)), "{:?}", found.problems);
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        let found = Follower::open(folder.path(), Vec::new()).unwrap().poll(&running).unwrap();
        assert!(found.problems.iter().any(|p| p.contains("symbolic link")), "{:?}", found.problems);
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, &bytes).unwrap();
    }
    let again = Follower::open(folder.path(), Vec::new()).unwrap().poll(&running).unwrap();
    assert_eq!(again.totals.calls, whole.totals.calls);
}

#[test]
fn without_sensors_there_are_no_joules_and_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    write(&recorded(5, false, HostModel::default()), folder.path());
    let mut document = Follower::open(folder.path(), Vec::new()).unwrap().poll(&running).unwrap();
    Whole::of_trace(folder.path(), attribute::Options::default())
        .unwrap()
        .enter(&mut document, Duration::from_secs(1));
    assert!(document.joules_absent.is_some() && document.joules_age_ns.is_none());
    assert!(!document.kernels.is_empty());
    assert!(document.kernels.iter().all(|k| k.joules.is_none()));
}
