//! Markers of the recorder's own, on a runtime that says it is NVIDIA's: they bound the device's
//! clock, the application and its commands do not change, and nothing of them stays. Counted by the
//! fake library.

use clscope_tests::{Finished, Mode, Recorded, Runtime, Stage, artifacts};
use clscope_trace::defs::ClockMarkers;

/// Commands are submitted and run without a flush, as there.
const NVIDIA: &str = "platform NVIDIA CUDA\nprofiling enqueue\ncomplete enqueue\n";

/// What a run did and what the fake's report says of it.
struct Run {
    finished: Finished,
    markers: u64,
    /// Events that are still alive at the end, and misuse of any object.
    live_events: u64,
    misuse: Vec<String>,
    /// The trace; a bare run has none.
    recorded: Option<Recorded>,
}

fn run(stage: &Stage, mode: Mode, line: &str, script: &str, settings: &[(&str, &str)]) -> Run {
    let (script_file, report) = (stage.join("script"), stage.join("report"));
    std::fs::write(&script_file, script).unwrap();
    stage.forget("t");
    let mut app = stage
        .app(mode, "t", line)
        .env("FAKE_CL_SCRIPT", script_file)
        .env("FAKE_CL_REPORT", &report);
    for (name, value) in settings {
        app = app.env(name, value);
    }
    let finished = app.run().success();
    let recorded = (mode != Mode::Bare).then(|| Recorded::read(&[&stage.trace("t")]));
    let mut run = Run { finished, markers: 0, live_events: 0, misuse: Vec::new(), recorded };
    for line in std::fs::read_to_string(report).unwrap().lines() {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["call", "clEnqueueMarkerWithWaitList", n] => run.markers = n.parse().unwrap(),
            ["objects", "event", _, _, "live", n, ..] => run.live_events = n.parse().unwrap(),
            ["misuse", ..] => run.misuse.push(line.to_owned()),
            _ => {}
        }
    }
    run
}

/// What was read of them.
fn read(recorded: Option<&Recorded>) -> Vec<ClockMarkers> {
    recorded
        .iter()
        .flat_map(|r| &r.processes)
        .flat_map(|p| p.definitions.clock_markers.clone())
        .collect()
}

#[test]
fn they_follow_a_wait_and_nothing_of_them_stays() {
    let stage = Stage::new(Runtime::FakeLoader);
    for line in [
        "many_commands 500",
        "many_commands 500 events",
        "multi_queue 4 50 out-of-order",
        "release_early done",
        "callback_calls",
    ] {
        let bare = run(&stage, Mode::Bare, line, NVIDIA, &[]);
        for mode in [Mode::Preload, Mode::Audit, Mode::Record] {
            for method in ["auto", "sample", "event", "callback", "sync"] {
                let with = run(&stage, mode, line, NVIDIA, &[("CLSCOPE_DEVICE_TIMING", method)]);
                let told = format!("{line} {mode:?} {method}");
                assert_eq!(with.finished.seen(), bare.finished.seen(), "{told}");
                let more = with.markers - bare.markers;
                assert!(more >= 8 && more.is_multiple_of(8), "{told}: {more} markers");
                assert_eq!(
                    (with.live_events, &with.misuse),
                    (bare.live_events, &bare.misuse),
                    "{told}"
                );
                let read = read(with.recorded.as_ref());
                assert!(!read.is_empty(), "{told}");
                for marker in read.iter().flat_map(|d| &d.markers) {
                    assert!(
                        marker.before <= marker.after
                            && 0 < marker.queued
                            && marker.queued <= marker.submit,
                        "{told}: {marker:?}"
                    );
                }
            }
        }
        // They are none of the application's commands.
        let with = run(&stage, Mode::Preload, line, NVIDIA, &[("CLSCOPE_DEVICE_TIMING", "event")]);
        let without = run(&stage, Mode::Preload, line, "", &[("CLSCOPE_DEVICE_TIMING", "event")]);
        let commands = |run: &Run| {
            run.recorded.iter().flat_map(|r| &r.processes).map(|p| p.commands.len()).sum::<usize>()
        };
        assert_eq!(commands(&with), commands(&without), "{line}");
    }
}

#[test]
fn there_are_none_where_they_are_not_wanted() {
    let stage = Stage::new(Runtime::FakeLoader);
    let none = |line: &str, script: &str, settings: &[(&str, &str)]| {
        let (bare, run) = (
            run(&stage, Mode::Bare, line, script, &[]),
            run(&stage, Mode::Preload, line, script, settings),
        );
        assert_eq!(
            (run.markers - bare.markers, read(run.recorded.as_ref()).len()),
            (0, 0),
            "{line} {script:?} {settings:?}"
        );
    };
    none("many_commands 500", "platform Some other\n", &[]);
    none("many_commands 500", NVIDIA, &[("CLSCOPE_CLOCK_MARKERS", "0")]);
    none("many_commands 500", NVIDIA, &[("CLSCOPE_DEVICE_TIMING", "off")]);
    none("many_commands 500", NVIDIA, &[("CLSCOPE_START_PAUSED", "1")]);
    // Nobody waits.
    none("flush_only 100", NVIDIA, &[]);
}

#[test]
fn the_option_of_record_turns_them_off() {
    let stage = Stage::new(Runtime::FakeLoader);
    let script = stage.join("script");
    std::fs::write(&script, NVIDIA).unwrap();
    for (option, some) in [(None, true), (Some("--without=clock-markers"), false)] {
        stage.forget("t");
        let trace = stage.trace("t");
        let record = stage.clscope(["record", "-q", "-o"]).arg(&trace).args(option).arg("--");
        record
            .arg(artifacts().fixture("many_commands"))
            .arg("500")
            .env("FAKE_CL_SCRIPT", &script)
            .run()
            .success();
        assert_eq!(!read(Some(&Recorded::read(&[&trace]))).is_empty(), some, "{option:?}");
    }
}

#[test]
fn a_runtime_that_refuses_them_is_asked_once_a_queue() {
    let stage = Stage::new(Runtime::FakeLoader);
    let line = "many_commands 500 events";
    let bare = run(&stage, Mode::Bare, line, NVIDIA, &[]);
    let with = run(
        &stage,
        Mode::Preload,
        line,
        NVIDIA,
        &[("FAKE_CL_FAIL", "clEnqueueMarkerWithWaitList:-5")],
    );
    assert_eq!(with.finished.seen(), bare.finished.seen());
    assert_eq!((with.markers, read(with.recorded.as_ref()).len()), (1, 0));
}
