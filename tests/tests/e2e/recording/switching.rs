//! Profiling switched off for launches that are not timed, on a runtime with the behaviour of
//! NVIDIA's driver: the runtime times few of the events that the application asked for, every
//! promised time is there, and the application sees neither. Counted by the fake library.

use clscope_tests::trace::End;
use clscope_tests::{Finished, Mode, Recorded, Runtime, Stage};
use clscope_trace::Untimed;

/// What the fake's report says of a run.
#[derive(Debug, Default)]
struct Counted {
    events: u64,
    profiled: u64,
    switches: u64,
    /// Markers: the recorder's own, each with an event.
    markers: u64,
}

fn run(stage: &Stage, mode: Mode, line: &str, script: &str) -> (Finished, Counted) {
    let (script_file, report) = (stage.join("script"), stage.join("report"));
    std::fs::write(&script_file, script).unwrap();
    stage.forget("t");
    let app = stage.app(mode, "t", line).env("CLSCOPE_DEVICE_TIMING", "sample");
    let finished =
        app.env("FAKE_CL_SCRIPT", script_file).env("FAKE_CL_REPORT", &report).run().success();
    let mut counted = Counted::default();
    for line in std::fs::read_to_string(report).unwrap().lines() {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["events", events, "profiled", profiled] => {
                (counted.events, counted.profiled) =
                    (events.parse().unwrap(), profiled.parse().unwrap());
            }
            ["call", "clSetCommandQueueProperty", n] => counted.switches = n.parse().unwrap(),
            ["call", "clEnqueueMarkerWithWaitList", n] => counted.markers = n.parse().unwrap(),
            _ => {}
        }
    }
    (finished, counted)
}

const NVIDIA: &str = "platform NVIDIA CUDA\nprofiling enqueue\n";

/// Launches with times, and those that were to be timed and are not.
fn outcomes(stage: &Stage) -> (u64, u64) {
    let recorded = Recorded::read(&[&stage.trace("t")]);
    let commands =
        recorded.processes.iter().flat_map(|p| &p.commands).filter(|c| c.kind.is_kernel());
    let (mut timed, mut lost) = (0, 0);
    for command in commands {
        match command.end_state {
            End::Timed { .. } => timed += 1,
            End::Untimed(Untimed::NotSampled | Untimed::ProfilingSwitchedOff, _) => {}
            End::Untimed(Untimed::NotAvailable, _) => lost += 1,
            ref other => panic!("{other:?}: {command:?}"),
        }
    }
    (timed, lost)
}

#[test]
fn untimed_launches_are_not_timed_by_the_runtime() {
    let stage = Stage::new(Runtime::FakeLoader);
    let line = "many_commands 4000 events";
    let (bare, without) = run(&stage, Mode::Bare, line, NVIDIA);
    assert_eq!((without.events, without.profiled), (4000, 0));
    for mode in [Mode::Preload, Mode::Record] {
        let (with, counted) = run(&stage, mode, line, NVIDIA);
        assert_eq!(with.seen(), bare.seen(), "{mode:?}");
        let (timed, lost) = outcomes(&stage);
        assert!(timed >= 16, "{mode:?}: the first launches are always timed");
        assert_eq!(lost, 0, "{mode:?}");
        // Two transfers are timed as well.
        assert_eq!(counted.profiled, timed + 2 + counted.markers, "{mode:?}: {counted:?}");
        assert!(
            counted.switches > 0 && counted.switches <= 2 * (timed + 2) + counted.markers,
            "{mode:?}: {counted:?}"
        );
    }
}

#[test]
fn a_runtime_that_is_not_known_to_switch_is_never_asked_to() {
    let stage = Stage::new(Runtime::FakeLoader);
    let (_, counted) =
        run(&stage, Mode::Preload, "many_commands 4000 events", "profiling enqueue\n");
    assert_eq!(counted.switches, 0);
    assert!(counted.profiled >= 4000, "{counted:?}");
}

#[test]
fn launches_without_an_event_need_no_switch() {
    let stage = Stage::new(Runtime::FakeLoader);
    let (_, counted) = run(&stage, Mode::Preload, "many_commands 4000", NVIDIA);
    assert_eq!(counted.switches, 0);
}

/// The bit counts at the query there, or the function answers with an error: the switch is given
/// up, nothing is invented.
#[test]
fn a_runtime_that_switches_otherwise_costs_a_few_times() {
    let stage = Stage::new(Runtime::FakeLoader);
    let line = "own_profiling 500";
    let script = "platform NVIDIA CUDA\nprofiling query\n";
    let bare = run(&stage, Mode::Bare, line, script).0;
    let (with, _) = run(&stage, Mode::Preload, line, script);
    assert_eq!(with.seen(), bare.seen());
    let (timed, lost) = outcomes(&stage);
    assert!(timed >= 16 && lost <= 1, "{timed} timed, {lost} lost");

    let (line, failing) = ("many_commands 4000 events", stage.join("report"));
    let script = stage.join("script");
    std::fs::write(&script, NVIDIA).unwrap();
    stage.forget("t");
    let app = stage
        .app(Mode::Preload, "t", line)
        .env("CLSCOPE_DEVICE_TIMING", "sample")
        .env("FAKE_CL_REPORT", failing);
    app.env("FAKE_CL_SCRIPT", script)
        .env("FAKE_CL_FAIL", "clSetCommandQueueProperty:-59")
        .run()
        .success();
    assert_eq!(outcomes(&stage).1, 0);
}

#[test]
fn an_application_that_switches_profiling_itself_sees_its_own() {
    let stage = Stage::new(Runtime::FakeLoader);
    for line in ["own_profiling 2000", "own_profiling 500 4"] {
        let (bare, _) = run(&stage, Mode::Bare, line, NVIDIA);
        assert!(
            bare.stdout.contains("switched on: properties 2, 2000 with stamps, 0 without"),
            "{}",
            bare.stdout
        );
        for mode in [Mode::Preload, Mode::Audit, Mode::Record] {
            let (with, _) = run(&stage, mode, line, NVIDIA);
            assert_eq!(with.seen(), bare.seen(), "{mode:?} {line}");
            let (timed, _) = outcomes(&stage);
            assert!(timed >= 16, "{mode:?} {line}: {timed}");
        }
    }
}

/// With several threads on a queue the switch would race: it is given up at the second thread, and
/// no time is lost to it.
#[test]
fn a_queue_of_several_threads_profiles_for_good() {
    let stage = Stage::new(Runtime::FakeLoader);
    let (_, counted) = run(&stage, Mode::Preload, "own_profiling 1000 8", NVIDIA);
    let (_, lost) = outcomes(&stage);
    assert!(lost <= 8, "{lost}: at most what was in flight when the second thread came");
    // The application's own phase and most of the first one.
    assert!(counted.profiled >= 8000, "{counted:?}");
}
