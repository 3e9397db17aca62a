//! However a process ends, every record that was complete is readable, what was in flight is named,
//! and the end itself is the same as without us.

use clscope_tests::trace::End;
use clscope_tests::{Mode, Runtime, Stage};

const FINISHED: [&str; 10] = [
    "kill",
    "term",
    "abort",
    "segfault",
    "_exit",
    "exit",
    "quick_exit",
    "thread_exit",
    "return",
    "outlive",
];

/// Ends in which nothing of ours can run at the end.
fn sudden(how: &str) -> bool {
    matches!(how, "kill" | "term" | "abort" | "segfault" | "_exit" | "quick_exit")
}

fn exit_code_and_signal_are_the_same(runtime: Runtime) {
    let stage = Stage::new(runtime);
    // Of SIGFPE runtimes have handlers of their own: what comes of it differs between them.
    for how in FINISHED.into_iter().chain(["fpe"]) {
        for flight in ["", " flight"] {
            let line = format!("die {how} 10{flight}");
            let bare = stage.app(Mode::Bare, "bare", &line).run();
            for mode in Mode::RECORDING {
                let with = stage.app(mode, "t", &line).run();
                assert_eq!(
                    with.seen(),
                    bare.seen(),
                    "{mode:?} {line} on {:?}: {}",
                    stage.runtime,
                    with.stderr
                );
            }
        }
    }
}

#[test]
fn exit_code_and_signal_are_the_same_on_pocl() {
    exit_code_and_signal_are_the_same(Runtime::Pocl);
}

#[test]
fn exit_code_and_signal_are_the_same_on_the_second_runtime() {
    if let Some(intel) = Runtime::intel() {
        exit_code_and_signal_are_the_same(intel);
    }
}

#[test]
fn every_record_completed_before_the_end_is_readable() {
    for runtime in Runtime::real() {
        for mode in Mode::RECORDING {
            for how in FINISHED {
                let stage = Stage::new(runtime.clone());
                let (_, recorded) = stage.record(mode, &format!("die {how} 500"));
                let process = recorded.only();
                let launches = if how == "outlive" { 510 } else { 500 };
                assert_eq!(
                    process.launches(Some("vector_add")),
                    launches,
                    "{mode:?} {how}: {:?}",
                    recorded.issues
                );
                // clFinish was waited for, so all of them were known complete.
                process.assert_all_timed();
                process.assert_causal();
                assert_eq!(process.count("clFinish"), 1, "{mode:?} {how}");
                assert_eq!(process.definitions.exit.is_none(), sudden(how), "{mode:?} {how}");
                let torn: Vec<_> = recorded.issues.iter().filter(|i| i.kind.means_loss()).collect();
                assert!(torn.is_empty(), "{mode:?} {how}: {torn:?}");
            }
        }
    }
}

#[test]
fn commands_in_flight_at_the_end_are_recorded_as_unfinished() {
    for runtime in Runtime::real() {
        for how in FINISHED {
            let stage = Stage::new(runtime.clone());
            let (_, recorded) = stage.record(Mode::Preload, &format!("die {how} 200 flight"));
            let process = recorded.only();
            let launches = if how == "outlive" { 210 } else { 200 };
            assert_eq!(
                process.launches(None),
                launches,
                "{how} {runtime:?}: {:?}",
                recorded.issues
            );
            let open = process
                .commands
                .iter()
                .filter(|c| !matches!(c.end_state, End::Timed { .. }))
                .count();
            if how == "outlive" {
                assert_eq!(open, 0, "the thread that outlives main waits for all");
            }
            if sudden(how) {
                assert_eq!(open, 200, "{how}: nobody could ask for their times");
                let report = stage.clscope(["report", "--all", "t.clscope"]).run().success();
                assert!(
                    (report.stdout + &report.stderr).contains("200 commands"),
                    "{how}: the report says how many have no times"
                );
            }
        }
    }
}

#[test]
fn the_call_that_a_process_died_in_is_named() {
    for runtime in Runtime::real() {
        for mode in Mode::RECORDING {
            // Also where it is a thread's very first call.
            for line in ["die inside 10", "die first 10"] {
                let stage = Stage::new(runtime.clone());
                let (_, recorded) = stage.record(mode, line);
                assert_eq!(recorded.only().in_calls, ["clWaitForEvents"], "{mode:?} {line}");
                let report = stage.clscope(["report", "--all", "t.clscope"]).run().success();
                assert!(
                    (report.stdout + &report.stderr).contains("clWaitForEvents"),
                    "{line}: the report names it"
                );
            }
        }
    }
}

#[test]
fn record_ends_by_the_signal_that_ended_the_application() {
    use std::os::unix::process::ExitStatusExt;
    for (how, signal) in [
        ("kill", libc::SIGKILL),
        ("term", libc::SIGTERM),
        ("abort", libc::SIGABRT),
        ("segfault", libc::SIGSEGV),
    ] {
        let stage = Stage::new(Runtime::Pocl);
        let finished = stage.app(Mode::Record, "t", &format!("die {how}")).run();
        assert_eq!(finished.status.signal(), Some(signal), "{how}");
        let meta: serde_json::Value =
            serde_json::from_slice(&std::fs::read(stage.trace("t").join("meta.json")).unwrap())
                .unwrap();
        assert!(meta.is_object(), "{how}: {meta}");
    }
}

/// Nothing that an ended process leaves behind is in the way of the next one in the same trace.
#[test]
fn a_second_run_into_the_same_trace_adds_a_process() {
    let stage = Stage::new(Runtime::Pocl);
    for runs in 1..=3 {
        stage.app(Mode::Preload, "t", "linked 10").run().success();
        let recorded = clscope_tests::Recorded::read(&[&stage.trace("t")]);
        assert_eq!((recorded.processes.len(), recorded.launches()), (runs, 10 * runs));
    }
}
