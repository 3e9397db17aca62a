//! Places of hosts and processes on one timeline: wall clocks, time namespaces, anchors.

use super::*;

#[test]
fn two_hosts_are_placed_by_their_wall_clocks() {
    // True time is the same for both; each host's raw clock and tick have origins and rates of
    // their own.
    let one = HostModel { boot: 1, ..HostModel::default() };
    let other = HostModel {
        boot: 2,
        clock: Clock::Tsc,
        rate: 2.5,
        raw: 900_000_000_000,
        ..HostModel::default()
    };
    let mut first = ProcessBuilder::standard(one, 7, 1);
    let mut second = ProcessBuilder::standard(other, 7, 1);
    for i in 0..100u64 {
        first.thread(0).plain(function::SET_ARG, i * 20_000, i * 20_000 + 5_000, 0, 1);
        second.thread(0).plain(function::FINISH, i * 20_000 + 10_000, i * 20_000 + 15_000, 0, 2);
    }
    first.exit(3_000_000, 0);
    second.exit(3_000_000, 0);
    let bytes = [first.build(), second.build()];
    let trace = open(&bytes);
    let order: Vec<u32> = trace
        .events(None)
        .filter_map(|e| if let Event::Call(c) = e { Some(c.process.0) } else { None })
        .collect();
    assert_eq!(order, [0, 1].repeat(100));
    assert_eq!(trace.timeline.hosts.len(), 2);
    let bound = trace.timeline.hosts[1].bound_ns.expect("placed");
    let calls: Vec<_> = trace.events(None).collect();
    for (i, pair) in calls.chunks(2).enumerate() {
        let ends: Vec<i64> =
            pair.iter().map(|e| moment(e).expect("calls").0 - one.raw as i64).collect();
        assert_eq!(ends[0], i as i64 * 20_000 + 5_000);
        assert!(
            (ends[1] - (i as i64 * 20_000 + 15_000)).unsigned_abs() <= bound,
            "{ends:?} {bound}"
        );
    }
    assert!(
        trace
            .issues
            .iter()
            .any(|i| matches!(i.kind, IssueKind::OtherHost { bound_ns: Some(_), .. }))
    );
}

/// A process of calls at `first`, and every 20 us after it.
fn calls(host: HostModel, pid: u32, first: u64) -> ProcessBuilder {
    let mut out = ProcessBuilder::standard(host, pid, 1);
    for i in 0..100u64 {
        let begin = first + i * 20_000;
        out.thread(0).plain(function::SET_ARG, begin, begin + 5_000, 0, 1);
    }
    out.exit(3_000_000, 0);
    out
}

/// Ends of calls after true time 0, and the process of each.
fn ends(trace: &Trace<'_>, raw: u64) -> Vec<(i64, u32)> {
    let end = |e| match e {
        Event::Call(c) => Some((c.span.end.0 - raw as i64, c.process.0)),
        _ => None,
    };
    trace.events(None).filter_map(end).collect()
}

#[test]
fn processes_in_time_namespaces_are_placed_by_the_wall_clock_of_their_host() {
    for clock in [Clock::MonotonicRaw, Clock::Tsc] {
        let rate = if clock == Clock::Tsc { 2.5 } else { 1.0 };
        let host = HostModel { clock, rate, ..HostModel::default() };
        for moved in [5_000_000_000_000, -4_000_000_000] {
            let bytes = [
                calls(host, 7, 0).build(),
                calls(HostModel { moved, ..host }, 8, 10_000).build(),
                calls(host, 9, 10_000).build(),
            ];
            // Whichever comes first has the clock of the timeline.
            for (order, raw) in [([0, 1, 2], 0), ([1, 0, 2], moved)] {
                let files = order.map(|i: usize| bytes[i].files(&i.to_string())).to_vec();
                let trace = Trace::open(files);
                assert_eq!(trace.timeline.hosts.len(), 1);
                assert_eq!(trace.timeline.host_of, [0; 3]);
                let place = order.iter().position(|i| *i == 1).unwrap();
                let bound = trace.timeline.placed_within(if raw == 0 { 1 } else { 2 }).unwrap();
                assert!((1..1_000).contains(&bound), "{bound}");
                for (i, (end, process)) in
                    ends(&trace, host.raw.wrapping_add_signed(raw)).iter().enumerate()
                {
                    let in_turn = if order[*process as usize] == 0 { 5_000 } else { 15_000 };
                    let want = (i as i64 / 3) * 20_000 + in_turn;
                    assert!((end - want).abs() <= bound as i64 + 1, "{i}: {end}, not {want}");
                }
                // Both of the other clock are told where the one of the namespace comes first.
                let told: Vec<&IssueKind> = trace.issues.iter().map(|i| &i.kind).collect();
                let apart = if raw == 0 { moved } else { -moved };
                let want = IssueKind::OtherClock { apart_ns: apart, bound_ns: bound };
                assert!(told.iter().all(|kind| **kind == want), "{told:?}");
                assert_eq!(told.len(), if place == 1 { 1 } else { 2 });
                // A sampler outside has the clock of the processes outside.
                let boot = trace.timeline.hosts[0].boot;
                let anchor = host.anchor(0);
                let wall = anchor.realtime.wrapping_sub(anchor.monotonic) as i64;
                let clock = trace.timeline.raw_clock(boot, Some(wall)).unwrap();
                let at = trace.timeline.raw(clock, anchor.raw, &mut 0).unwrap();
                assert_eq!(at.0 - raw, host.raw as i64);
            }
        }
    }
}

#[test]
fn anchors_of_any_numbers_overflow_nothing() {
    const EXTREMES: [u64; 6] = [0, 1, 1 << 61, i64::MAX as u64, 1 << 63, u64::MAX];
    let host = HostModel::default();
    for case in 0..EXTREMES.len().pow(4) {
        let of = |field: u32| EXTREMES[case / EXTREMES.len().pow(field) % EXTREMES.len()];
        let [raw, realtime, moved, width] = [0, 1, 2, 3].map(of);
        let other = HostModel { raw, realtime, moved: moved as i64, ..host };
        let mut other = ProcessBuilder::standard(other, 8, 0);
        let wide = Anchor { ticks: 10, raw: moved, monotonic: realtime, realtime: raw, width };
        other.define(wide);
        let bytes = [calls(host, 7, 0).build(), other.build()];
        let trace = open(&bytes);
        for process in 0..2 {
            let placed = trace.timeline.placed_within(process);
            let bound = trace.timeline.clocks[process].bound(Ticks(u64::MAX));
            std::hint::black_box((placed, bound));
        }
        assert!(trace.issues.iter().all(|issue| !issue.to_string().is_empty()));
    }
}

#[test]
fn a_sampler_in_a_namespace_of_its_own_is_placed_by_the_wall_clock() {
    let host = HostModel::default();
    let bytes = [calls(host, 7, 0).build()];
    let trace = open(&bytes);
    let outside = HostModel { moved: 77_000_000_000, ..host }.anchor(1_000);
    let wall = outside.realtime.wrapping_sub(outside.monotonic) as i64;
    let boot = trace.timeline.hosts[0].boot;
    let clock = trace.timeline.raw_clock(boot, Some(wall)).unwrap();
    assert!(!clock.is_first());
    let at = trace.timeline.raw(clock, outside.raw, &mut 0).unwrap();
    assert_eq!(at.0, host.raw as i64 + 1_000);
    assert_eq!(trace.timeline.raw_clock([9; 16], Some(wall)), None);
}

#[test]
fn setting_the_wall_clock_is_no_other_clock() {
    // Ticks go on evenly; and without them, a process that ran meanwhile has seen it.
    let ticks = HostModel { clock: Clock::Tsc, rate: 2.5, ..HostModel::default() };
    let set = |host: HostModel| HostModel { realtime: host.realtime + 7_000_000_000, ..host };
    let bytes = [calls(ticks, 7, 0).build(), calls(set(ticks), 8, 10_000).build()];
    let trace = open(&bytes);
    assert_eq!(codes(&trace), [] as [&str; 0]);
    assert_eq!(ends(&trace, ticks.raw)[..3], [(5_000, 0), (15_000, 1), (25_000, 0)]);
    assert_eq!(trace.timeline.placed_within(1), Some(0));

    let raw = HostModel::default();
    let mut witness = calls(raw, 9, 0);
    witness.define(set(raw).anchor(4_000_000));
    let bytes = [calls(raw, 7, 0).build(), calls(set(raw), 8, 10_000).build(), witness.build()];
    let trace = open(&bytes);
    assert_eq!(codes(&trace), [] as [&str; 0]);
    let trace = open(&bytes[..2]);
    assert_eq!(codes(&trace), ["other-clock"]);
}

#[test]
fn a_reader_in_another_namespace_gives_no_rate() {
    let host = HostModel { clock: Clock::Tsc, rate: 3.0, ..HostModel::default() };
    let mut killed = launches(host, 8, 10);
    killed.defs.retain(|d| !matches!(d, clscope_trace::defs::Def::Exit(_)));
    let last = killed
        .defs
        .iter()
        .rposition(|d| matches!(d, clscope_trace::defs::Def::Anchor(_)))
        .expect("has one");
    killed.defs.remove(last);
    let bytes = killed.build();
    let rate = |reader: HostModel| {
        let later = reader.anchor(50_000_000_000);
        let files = ProcessFiles { extra_anchors: vec![later], ..bytes.files("x") };
        Trace::open(vec![files]).timeline.clocks[0].is_known()
    };
    assert!(rate(host));
    assert!(!rate(HostModel { moved: 5_000_000_000_000, ..host }));
}

/// A process that was seen to run is told as such, unless it has ended by the time it was read.
#[test]
fn a_process_that_runs_was_not_killed() {
    let as_of = || IssueKind::Running { as_of: "2026-01-02T03:04:05Z".to_owned() };
    let whole = launches(HostModel::default(), 7, 10);
    let mut running = launches(HostModel::default(), 8, 10);
    running.defs.retain(|d| !matches!(d, clscope_trace::defs::Def::Exit(_)));
    let bytes = [whole.build(), running.build()];
    let files = bytes.iter().map(|b| ProcessFiles { issues: vec![as_of()], ..b.files("x") });
    let trace = Trace::open(files.collect());
    assert_eq!(codes(&trace), ["still-running"]);
    assert_eq!(trace.processes[1].issues, [as_of()]);
}

#[test]
fn processes_of_one_boot_share_their_anchors() {
    let host = HostModel { clock: Clock::Tsc, rate: 3.0, ..HostModel::default() };
    let whole = launches(host, 7, 10);
    let mut killed = launches(host, 8, 10);
    killed.defs.retain(|d| !matches!(d, clscope_trace::defs::Def::Exit(_)));
    let anchors = killed
        .defs
        .iter()
        .rposition(|d| matches!(d, clscope_trace::defs::Def::Anchor(_)))
        .expect("has one");
    killed.defs.remove(anchors);
    let bytes = [whole.build(), killed.build()];
    let trace = open(&bytes);
    assert_eq!(codes(&trace), ["not-ended"]);
    assert!(trace.timeline.clocks[1].is_known());
    let alone = open(&bytes[1..]);
    assert_eq!(codes(&alone), ["not-ended", "no-clock-rate"]);
    assert_eq!(alone.timeline.clocks[0].bound(clscope_analysis::time::Ticks(5)), None);
    // The machine that recorded it can still place it, as long as it was not restarted.
    let later = Anchor { ..host.anchor(50_000_000_000) };
    let helped =
        Trace::open(vec![ProcessFiles { extra_anchors: vec![later], ..bytes[1].files("x") }]);
    assert!(helped.timeline.clocks[0].is_known());
    let span = helped.bounds().expect("records");
    assert!(span.duration().abs_diff(98_900) <= 200, "{}", span.duration());
}
