//! Laws of the timeline: order, joins, places of processes and hosts, and what damage may do. On
//! synthetic traces that are written with the format's own encoder.

mod clocks;

use clscope_analysis::Trace;
use clscope_analysis::event::{Event, Kept, Mark, Outcome};
use clscope_analysis::host_memory::HostMemory;
use clscope_analysis::input::ProcessFiles;
use clscope_analysis::issue::{IssueKind, Unfinished};
use clscope_analysis::testing::{CommandSpec, HostModel, ProcessBuilder, ProcessBytes, function};
use clscope_analysis::time::{CommandId, HostNs, Ticks};
use clscope_trace::defs::Anchor;
use clscope_trace::record::{CommandKind, Detail, DropReason, WAITS_INLINE, detail, flag};
use clscope_trace::{Clock, Untimed};
use proptest::prelude::*;

fn open(processes: &[ProcessBytes]) -> Trace<'_> {
    Trace::open(
        processes.iter().enumerate().map(|(i, p)| p.files(&format!("t.clscope/{i}-0"))).collect(),
    )
}

fn codes(trace: &Trace<'_>) -> Vec<String> {
    trace.issues.iter().map(|i| i.kind.code().to_owned()).collect()
}

/// The moment of an event in the stream's order, for those that have one.
fn moment(event: &Event<'_>) -> Option<HostNs> {
    match event {
        Event::Call(c) => Some(c.span.end),
        Event::Mark { at, .. } => Some(*at),
        Event::Command(_) | Event::InCall { .. } => None,
    }
}

/// `count` launches on one thread, 10 us apart; the device runs on the host's raw clock.
fn launches(host: HostModel, pid: u32, count: u64) -> ProcessBuilder {
    filled(ProcessBuilder::standard(host, pid, 2), count)
}

fn filled(mut p: ProcessBuilder, count: u64) -> ProcessBuilder {
    let host = p.host;
    for i in 0..count {
        let t = 10_000 + i * 10_000;
        p.thread(0).plain(function::SET_ARG, t, t + 100, 3 | (8 << 8), 1);
        p.thread(0).enqueue(t + 200, t + 1_200, &CommandSpec::kernel(i + 1, 1, 1 + (i % 2) as u32));
        let raw = host.raw + t;
        p.thread(1).timing(t + 9_000, i + 1, [raw + 500, raw + 800, raw + 2_000, raw + 7_000]);
    }
    p.exit(20_000 + count * 10_000, 0);
    p
}

#[test]
fn commands_join_their_times_across_threads_and_keep_their_calls() {
    let bytes = [launches(HostModel::default(), 7, 50).build()];
    let trace = open(&bytes);
    assert_eq!(codes(&trace), Vec::<String>::new());
    let mut events = trace.events(None);
    let (mut calls, mut commands) = (0, 0);
    for event in events.by_ref() {
        match event {
            Event::Call(call) => {
                calls += 1;
                let function =
                    trace.processes[0].definitions.function(call.function).expect("defined");
                let arguments: Vec<_> =
                    call.arguments(function).map(|a| (a.argument.name.as_str(), a.value)).collect();
                match call.kept {
                    Kept::Plain { .. } => {
                        assert_eq!(arguments, [("kernel", 1), ("arg_index", 3), ("arg_size", 8)])
                    }
                    _ => assert!(arguments.is_empty() && call.span.duration() == 1_000),
                }
            }
            Event::Command(command) => {
                commands += 1;
                assert_eq!(command.id(), CommandId(commands));
                let times = command.timed().expect("timed");
                assert_eq!(
                    (times.duration(), times.observed.since(command.call.begin)),
                    (5_000, 8_800)
                );
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((calls, commands), (100, 50));
    assert_eq!(events.tally()[0].records, 150);
}

#[test]
fn what_never_ended_says_why() {
    let mut killed = launches(HostModel::default(), 7, 1);
    killed.defs.retain(|d| !matches!(d, clscope_trace::defs::Def::Exit(_)));
    killed.thread(0).enqueue(30_000, 30_500, &CommandSpec::kernel(90, 1, 1));
    killed.in_calls.push((0, function::FINISH, 31_000));
    let mut exited = launches(HostModel::default(), 8, 1);
    exited.thread(0).enqueue(20_000, 20_500, &CommandSpec::kernel(91, 1, 1));
    exited.thread(0).enqueue(
        21_000,
        21_500,
        &CommandSpec { result: -5, ..CommandSpec::kernel(92, 1, 1) },
    );
    exited.thread(0).enqueue(
        22_000,
        22_500,
        &CommandSpec { flags: flag::NOT_SAMPLED, ..CommandSpec::kernel(93, 1, 1) },
    );
    exited.thread(0).enqueue(23_000, 23_500, &CommandSpec::kernel(94, 1, 1)).untimed(
        24_000,
        94,
        Untimed::QueueReleased,
    );
    let refused = CommandSpec { flags: 0, ..CommandSpec::kernel(95, 1, 1) };
    exited.thread(0).enqueue(24_200, 24_400, &refused).untimed(24_400, 95, Untimed::EventRefused);
    exited.thread(0).dropped(25_000, 17, DropReason::WriteFailed);
    let bytes = [killed.build(), exited.build()];
    let trace = open(&bytes);
    assert_eq!(codes(&trace), ["not-ended"]);
    let mut outcomes = Vec::new();
    let mut others = Vec::new();
    let mut events = trace.events(None);
    for event in events.by_ref() {
        match event {
            Event::Command(c) if c.id().0 >= 90 => outcomes.push((c.id().0, c.outcome)),
            Event::InCall { thread, function, begin, .. } => {
                others.push((thread.0, u64::from(function), begin.0 as u64))
            }
            Event::Mark { mark: Mark::Dropped { count, reason }, thread, .. } => {
                others.push((thread.0, count, reason as u64))
            }
            _ => {}
        }
    }
    assert!(events.tally().iter().all(|t| t.orphan_timings == 0));
    let host = HostModel::default();
    assert_eq!(others, [(0, 17, 1), (0, u64::from(function::FINISH), host.raw + 31_000)]);
    let untimed = |reason| Outcome::Untimed { reason, detail: 0 };
    assert_eq!(
        outcomes,
        [
            (93, untimed(Untimed::NotSampled)),
            (94, untimed(Untimed::QueueReleased)),
            (95, untimed(Untimed::EventRefused)),
            (90, Outcome::Unfinished(Unfinished::Killed)),
            (91, Outcome::Unfinished(Unfinished::Exited)),
        ]
    );
}

#[test]
fn commands_without_an_outcome_of_their_own_take_the_methods_reason() {
    for (method, wanted) in
        [("off", Untimed::TimingOff), ("event", Untimed::Unknown), ("sample", Untimed::Unknown)]
    {
        let mut p = ProcessBuilder::standard(HostModel::default(), 7, 1);
        if let Some(clscope_trace::defs::Def::Process(process)) = p.defs.first_mut() {
            process.device_timing = method.into();
        }
        let silent = CommandSpec {
            flags: 0,
            ..CommandSpec::transfer(1, 1, clscope_trace::record::CommandKind::ReadBuffer, 64)
        };
        p.thread(0).enqueue(1_000, 2_000, &silent);
        p.thread(0).enqueue(3_000, 4_000, &CommandSpec::sampled(2, 1, 1, 0.25, false));
        p.exit(9_000, 0);
        let bytes = [p.build()];
        let trace = open(&bytes);
        let mut events = trace.events(None);
        let mut seen = Vec::new();
        while let Some(event) = events.next() {
            if let Event::Command(c) = event {
                assert_eq!(events.in_flight(), 0, "it is given at once");
                seen.push((c.outcome, c.enqueued.record.probability()));
            }
        }
        let untimed = |reason| Outcome::Untimed { reason, detail: 0 };
        assert_eq!(
            seen,
            [(untimed(wanted), Some(1.0)), (untimed(Untimed::NotSampled), Some(0.25))],
            "{method}"
        );
    }
}

/// What the application queried is known for certain, chosen or not; what it did not query keeps
/// what sampling decided.
#[test]
fn times_that_the_application_queried_are_certain() {
    let mut p = ProcessBuilder::standard(HostModel::default(), 7, 1);
    let awaited = |id, timed| {
        let of = CommandSpec::sampled(id, 1, 1, 0.25, timed);
        CommandSpec { flags: of.flags | flag::READ, ..of }
    };
    let stamps = |id: u64| [1_100, 1_200, 1_300, 1_400].map(|t| 5_000_000_000 + 1_000 * id + t);
    for (id, timed) in [(1, false), (2, true), (3, false), (4, true), (5, false)] {
        p.thread(0).enqueue(1_000 * id, 1_000 * id + 50, &awaited(id, timed));
    }
    p.thread(0).read_timing(7_000, 1, stamps(1));
    p.thread(0).read_timing(7_100, 2, stamps(2));
    // Chosen, and not queried.
    p.thread(0).timing(7_200, 4, stamps(4));
    p.thread(0).read_timing(7_300, 5, stamps(5));
    p.exit(9_000, 0);
    let bytes = [p.build()];
    let trace = open(&bytes);
    let mut events = trace.events(None);
    let mut seen = Vec::new();
    for event in events.by_ref() {
        if let Event::Command(c) = event {
            let timed = matches!(c.outcome, Outcome::Timed(_));
            let record = &c.enqueued.record;
            seen.push((record.id, timed, record.probability(), c.enqueued.has(flag::NOT_SAMPLED)));
        }
    }
    assert!(events.tally().iter().all(|t| t.orphan_timings == 0));
    assert_eq!(
        seen,
        [
            (1, true, Some(1.0), false),
            (2, true, Some(1.0), false),
            (4, true, Some(0.25), false),
            (5, true, Some(1.0), false),
            (3, false, Some(0.25), true),
        ]
    );
    // The sum knows those three, and the one that was chosen stands for itself and the others that
    // were not queried.
    let alignment = trace.align();
    let stats = clscope_analysis::stats::Stats::of_trace(&trace, &alignment);
    let kernels = stats.kernels(&trace);
    let sums = kernels.values().next().expect("a kernel");
    assert_eq!((sums.count, sums.time.count(), sums.left_out()), (5, 4, 1));
}

#[test]
fn long_wait_lists_are_whole_and_ids_are_resolved() {
    let waits: Vec<u32> = (0..1_000).collect();
    let id = (7 << 32) | 500;
    let mut p = ProcessBuilder::standard(HostModel::default(), 7, 1);
    p.thread(0).enqueue(
        1_000,
        2_000,
        &CommandSpec { waits: &waits, ..CommandSpec::kernel(id, 1, 1) },
    );
    p.exit(3_000, 1);
    let bytes = [p.build()];
    let trace = open(&bytes);
    let mut seen = 0;
    for event in trace.events(None) {
        let enqueued = match event {
            Event::Call(clscope_analysis::event::Call { kept: Kept::Enqueue(e), .. }) => e,
            Event::Command(c) => c.enqueued,
            _ => continue,
        };
        seen += 1;
        assert!(
            enqueued.wait_count() == 1_000
                && enqueued.more_waits.len() == (1_000 - WAITS_INLINE).div_ceil(WAITS_INLINE)
        );
        let resolved: Vec<_> = enqueued.waits().collect();
        assert_eq!(resolved[0], None);
        assert_eq!(resolved[499], Some(CommandId((7 << 32) | 499)));
        assert_eq!(
            resolved[500],
            Some(CommandId((6 << 32) | 500)),
            "an id is not after the waiting command"
        );
        assert_eq!(resolved[999], Some(CommandId((6 << 32) | 999)));
    }
    assert_eq!(seen, 2);
}

#[test]
fn an_outcome_recorded_before_its_enqueue_is_joined() {
    let mut p = ProcessBuilder::standard(HostModel::default(), 7, 2);
    p.thread(0).enqueue(1_000, 5_000, &CommandSpec::kernel(1, 1, 1));
    p.thread(1).timing(4_000, 1, [5_000_001_100, 5_000_001_200, 5_000_001_300, 5_000_001_400]);
    p.thread(1).timing(4_500, 77, [1, 2, 3, 4]);
    p.exit(6_000, 0);
    let bytes = [p.build()];
    let trace = open(&bytes);
    let mut events = trace.events(None);
    let timed =
        events.by_ref().filter(|e| matches!(e, Event::Command(c) if c.timed().is_some())).count();
    assert_eq!((timed, events.tally()[0].orphan_timings), (1, 1));
}

#[test]
fn rings_give_the_newest_records_once() {
    let mut p = launches(HostModel::default(), 7, 40);
    p.block_len(256);
    p.in_ring = true;
    let whole = open_count(&p.build());
    let mut bytes = p.build();
    // A block that is both in a segment and in the ring counts once: the last segment block of the
    // thread again.
    let alone = ProcessBytes { ring: Vec::new(), ..bytes.clone() };
    assert!(open_count(&alone) < whole);
    bytes.segment.extend_from_slice(&bytes.segment.clone()[128..]);
    assert_eq!(open_count(&bytes), whole);
}

#[test]
fn full_rings_that_wait_are_read_in_their_places() {
    let blocks = |waiting| {
        let mut p = ProcessBuilder::standard(HostModel::default(), 7, 2);
        p.block_len(256);
        (p.in_ring, p.waiting) = (true, waiting);
        filled(p, 40)
    };
    let of = |waiting| {
        let bytes = [blocks(waiting).build()];
        let trace = open(&bytes);
        let mut events = trace.events(None);
        let seen: Vec<String> = events.by_ref().map(|e| format!("{e:?}")).collect();
        let codes: Vec<_> = trace
            .issues_after(events.tally(), None)
            .iter()
            .map(|i| i.kind.code().to_owned())
            .collect();
        (seen, codes, bytes[0].segment.len())
    };
    let (written, waiting) = (of(false), of(true));
    assert!(waiting.2 < written.2, "a block of the segment waits");
    assert_eq!((waiting.0, waiting.1), (written.0, written.1));

    // An older region's sequence number does not hide that a newer block is missing.
    let mut bytes = blocks(true).build();
    let newest = clscope_trace::ring_file::RING_FIRST + clscope_trace::ring_file::ring::POSITION;
    let sequence = u32::from_le_bytes(bytes.ring[newest + 4..newest + 8].try_into().unwrap());
    bytes.ring[newest..newest + 4].fill(0);
    bytes.ring[newest + 4..newest + 8].copy_from_slice(&(sequence + 1).to_le_bytes());
    let list = [bytes];
    let trace = open(&list);
    let codes: Vec<_> = trace.processes[0].issues.iter().map(IssueKind::code).collect();
    assert!(codes.contains(&"missing-blocks"), "{codes:?}");
}

fn open_count(bytes: &ProcessBytes) -> usize {
    let list = [bytes.clone()];
    open(&list).events(None).count()
}

#[test]
fn every_cut_and_flip_is_told_and_never_believed() {
    let mut p = launches(HostModel::default(), 7, 6);
    p.block_len(100);
    p.in_ring = true;
    let good = p.build();
    let whole: Vec<String> = {
        let list = [good.clone()];
        open(&list).events(None).map(|e| format!("{e:?}")).collect()
    };
    let check = |bytes: ProcessBytes, what: &str, at: usize| {
        let list = [bytes];
        let trace = open(&list);
        let mut events = trace.events(None);
        let seen: Vec<String> = events.by_ref().map(|e| format!("{e:?}")).collect();
        let issues = trace.issues_after(events.tally(), None);
        for issue in &issues {
            assert!(!issue.to_string().is_empty());
        }
        if seen != whole {
            assert!(!issues.is_empty(), "{what} at {at} changed events and went unnoticed");
        }
        assert!(seen.len() <= whole.len() + 12);
    };
    for at in 0..good.defs.len() {
        let mut bad = good.clone();
        bad.defs[at] ^= 0x21;
        check(bad, "flip in defs", at);
        check(ProcessBytes { defs: good.defs[..at].to_vec(), ..good.clone() }, "cut of defs", at);
    }
    for at in 0..good.segment.len() {
        let mut bad = good.clone();
        bad.segment[at] ^= 0x21;
        check(bad, "flip in segment", at);
        check(
            ProcessBytes { segment: good.segment[..at].to_vec(), ..good.clone() },
            "cut of segment",
            at,
        );
    }
    for at in 0..good.ring.len().min(4600) {
        // The ring has no checksums: a flip there may be believed, but must not harm.
        let mut bad = good.clone();
        bad.ring[at] ^= 0x21;
        let list = [bad];
        let trace = open(&list);
        let _ = trace.events(None).count();
        let list = [ProcessBytes { ring: good.ring[..at].to_vec(), ..good.clone() }];
        let _ = open(&list).events(None).count();
    }
}

proptest! {
    #[test]
    fn events_come_in_order_whatever_the_threads_do(
        threads in prop::collection::vec(prop::collection::vec((0u64..5_000, 0u64..3_000), 0..60), 1..6),
        block in 16usize..600,
    ) {
        let mut p = ProcessBuilder::standard(HostModel::default(), 7, threads.len() as u32);
        p.block_len(block);
        let mut total = 0;
        for (index, steps) in threads.iter().enumerate() {
            let mut end = 4_000;
            for (gap, length) in steps {
                end += gap;
                total += 1;
                p.thread(index as u32).plain(function::SET_ARG, end - length.min(&end), end, 0, 1);
            }
        }
        p.exit(1_000_000, 0);
        let bytes = [p.build()];
        let trace = open(&bytes);
        let moments: Vec<HostNs> = trace.events(None).filter_map(|e| moment(&e)).collect();
        prop_assert_eq!(moments.len(), total);
        prop_assert!(moments.is_sorted());
    }

    #[test]
    fn every_command_has_exactly_one_outcome(
        delays in prop::collection::vec((0u8..4, 0u64..200_000), 1..80),
    ) {
        let host = HostModel::default();
        let mut p = ProcessBuilder::standard(host, 7, 3);
        let mut outcomes: Vec<(u64, u64, u8)> = Vec::new();
        for (i, (how, delay)) in delays.iter().enumerate() {
            let (id, t) = (i as u64 + 1, 1_000 + i as u64 * 1_000);
            p.thread(0).enqueue(t, t + 500, &CommandSpec::transfer(id, 1, CommandKind::ReadBuffer, 64));
            outcomes.push((t + 600 + delay, id, *how));
        }
        outcomes.sort_unstable();
        for (at, id, how) in outcomes {
            match how {
                0 => drop(p.thread(1).timing(at, id, [40, 40, 40, 0].map(|ago| host.raw + at - 50 - ago))),
                1 => drop(p.thread(2).untimed(at, id, Untimed::NotAvailable)),
                2 => drop(p.thread(2).timing(at, id, [9, 8, 7, 6])),
                _ => {}
            }
        }
        p.exit(1_000_000, 0);
        let bytes = [p.build()];
        let trace = open(&bytes);
        let mut seen: Vec<u64> = Vec::new();
        for event in trace.events(None) {
            if let Event::Command(c) = event {
                let how = delays[c.id().0 as usize - 1].0;
                match c.outcome {
                    Outcome::Timed(_) => prop_assert_eq!(how, 0),
                    Outcome::Untimed { .. } => prop_assert!(how == 1 || how == 2),
                    Outcome::Unfinished(_) => prop_assert_eq!(how, 3),
                }
                seen.push(c.id().0);
            }
        }
        seen.sort_unstable();
        prop_assert_eq!(seen, (1..=delays.len() as u64).collect::<Vec<_>>());
    }
}

proptest! {
    // Rings carry no checksum: any content is decoded, aligned and summed up, and must not harm.
    #[test]
    fn hostile_rings_go_through_the_whole_analysis(
        words in prop::collection::vec(prop_oneof![any::<u64>(), 0u64..1 << 34, (0u64..8).prop_map(|k| (k << 24) | (7 << 16))], 1..200),
        flips in prop::collection::vec((4096usize..4700, any::<u8>()), 0..6),
        clock in prop_oneof![Just(Clock::MonotonicRaw), Just(Clock::Tsc)],
    ) {
        let host = HostModel { clock, rate: 2.0, ..HostModel::default() };
        let mut p = launches(host, 7, 5);
        p.in_ring = true;
        let mut bytes = p.build();
        for (i, word) in words.iter().enumerate() {
            let at = 4096 + 128 + i * 8;
            if let Some(place) = bytes.ring.get_mut(at..at + 8) {
                place.copy_from_slice(&word.to_le_bytes());
            }
        }
        for (at, value) in flips {
            if let Some(byte) = bytes.ring.get_mut(at) {
                *byte = value;
            }
        }
        let list = [bytes];
        let trace = open(&list);
        // Passing over plain calls changes nothing for the rest, not even where times run back.
        let is_call = |e: &Event<'_>| {
            matches!(e, Event::Call(c) if !matches!(c.kept, Kept::Enqueue(_)))
        };
        let others: Vec<_> = trace.events(None).filter(|e| !is_call(e)).collect();
        prop_assert_eq!(trace.commands(None).collect::<Vec<_>>(), others);
        let alignment = trace.align();
        let stats = clscope_analysis::stats::Stats::of_trace(&trace, &alignment);
        let _ = (stats.kernels(&trace), stats.idle_causes(&trace), trace.bounds());
        for issue in stats.issues(&trace, &alignment) {
            prop_assert!(!issue.to_string().is_empty());
        }
    }
}

#[test]
fn a_run_of_calls_is_one_event_and_counts_as_many() {
    for clock in [Clock::MonotonicRaw, Clock::Tsc] {
        let host = HostModel { clock, rate: 2.5, ..HostModel::default() };
        let mut p = ProcessBuilder::standard(host, 7, 1);
        p.thread(0).plain(function::SET_ARG, 10_000, 10_100, 7, 1);
        p.thread(0).run(function::SET_ARG, 11_000, 1_000, &[200, 100, 400, 300]);
        // Its delta is counted from the end of the run's first call.
        p.thread(0).plain(function::FINISH, 15_000, 16_000, 0, 1);
        p.exit(20_000, 0);
        let bytes = [p.build()];
        let trace = open(&bytes);
        let calls: Vec<_> = trace
            .events(None)
            .filter_map(|e| if let Event::Call(c) = e { Some(c) } else { None })
            .collect();
        assert_eq!(calls.len(), 3, "{clock:?}");
        let run = calls[1].run.expect("the run");
        let near = |found: u64, truth: u64| assert!(found.abs_diff(truth) <= 2, "{found} {truth}");
        assert_eq!((run.count, calls[1].count(), calls[0].count()), (4, 4, 1));
        for (found, truth) in [
            (run.total_ns, 1_000),
            (calls[1].inside_ns(), 1_000),
            (run.shortest_ns, 100),
            (run.longest_ns, 400),
            (run.first_ns, 200),
            (calls[1].span.duration(), 3_200),
            (calls[1].span.begin.since(calls[0].span.end), 900),
            (calls[2].span.begin.since(calls[1].span.end), 800),
        ] {
            near(found, truth);
        }
        let stats = clscope_analysis::stats::Stats::of_trace(&trace, &trace.align());
        let (of_run, calls) = (&stats.functions(&trace)["clSetKernelArg"].time, stats.calls);
        assert_eq!((of_run.count(), calls), (5, 6), "{clock:?}");
        near(of_run.total() as u64, 1_100);
    }
}

#[test]
fn a_transfer_says_what_memory_of_the_host_it_uses() {
    let told = |how, object, flags| Detail {
        function: function::ENQUEUE_WRITE,
        what: detail::HOST_MEMORY,
        site: 0,
        values: [how, object, flags],
    };
    let built = |version| {
        let mut p = ProcessBuilder::standard(HostModel::default(), 7, 1);
        p.version = version;
        let command = |id, kind| CommandSpec::transfer(id, 1, kind, 64);
        let write = |id| command(id, CommandKind::WriteBuffer);
        let copy = command(5, CommandKind::CopyBuffer);
        let thread = p.thread(0);
        thread.detail(1_100, &told(detail::MAPPED, 9, 16)).enqueue(1_000, 1_100, &write(1));
        thread.enqueue(2_000, 2_100, &write(2));
        thread.detail(3_100, &told(detail::NOT_KEPT, 0, u64::MAX));
        thread.enqueue(3_000, 3_100, &write(3));
        // A detail may be among what was lost, of the next transfer alone.
        thread.dropped(4_000, 3, DropReason::WriteFailed).enqueue(4_050, 4_100, &write(4));
        thread.enqueue(5_000, 5_100, &copy).enqueue(6_000, 6_100, &write(6));
        p.exit(9_000, 0);
        p.build()
    };
    let given = HostMemory::Given { how: detail::MAPPED, object: 9, flags: Some(16) };
    let (own, unknown) = (HostMemory::Application, HostMemory::Unknown);
    for (version, untold) in [((1, 8), own), ((1, 7), unknown)] {
        let bytes = [built(version)];
        let trace = open(&bytes);
        let mut found = Vec::new();
        for event in trace.events(None) {
            match event {
                Event::Command(command) => found.push(command.enqueued.memory),
                Event::Mark { mark: Mark::Detail(of), .. } => panic!("{of:?} is with its transfer"),
                _ => {}
            }
        }
        let some = [given, untold, unknown, unknown].map(Some);
        assert_eq!(found[..4], some, "{version:?}");
        assert_eq!(found[4..], [None, Some(untold)], "{version:?}");
    }
}
