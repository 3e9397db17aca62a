//! What a trace holds of an application whose every call is known: counts, names, sizes, wait
//! lists, the enqueuing call, and device times that obey causality.

use clscope_tests::trace::End;
use clscope_tests::{Mode, Recorded, Runtime, Stage};
use clscope_trace::Untimed;
use clscope_trace::record::CommandKind;

#[test]
fn every_call_and_command_of_a_linked_application() {
    for runtime in Runtime::real() {
        for mode in Mode::RECORDING {
            let stage = Stage::new(runtime.clone());
            let (finished, recorded) = stage.record(mode, "linked 10");
            assert_eq!(finished.status.code(), Some(0));
            let process = recorded.only();
            assert_eq!(process.launches(Some("vector_add")), 10, "{mode:?}");
            assert_eq!(process.commands.len(), 11, "{mode:?}");
            for (index, command) in process.commands.iter().take(10).enumerate() {
                assert_eq!(command.kind, CommandKind::NdRange);
                assert_eq!(command.function, "clEnqueueNDRangeKernel", "{mode:?} {index}");
                assert_eq!(command.global.map(|g| g[0]), Some(1024), "{mode:?}");
                assert_eq!((command.local, command.dimensions), (None, 1), "{mode:?}");
                assert!(!command.app_event && command.waits.is_empty(), "{mode:?} {command:?}");
            }
            let read = &process.commands[10];
            assert_eq!(
                (read.kind, read.bytes, read.blocking),
                (CommandKind::ReadBuffer, 4096, true),
                "{mode:?}"
            );
            process.assert_all_timed();
            process.assert_causal();
            for (function, times) in [
                ("clGetPlatformIDs", 1),
                ("clCreateContext", 1),
                ("clCreateCommandQueue", 1),
                ("clCreateBuffer", 3),
                ("clBuildProgram", 1),
                ("clCreateKernel", 4),
                ("clSetKernelArg", 7),
                ("clEnqueueNDRangeKernel", 10),
                ("clEnqueueReadBuffer", 1),
                ("clReleaseMemObject", 3),
                ("clReleaseContext", 1),
            ] {
                assert_eq!(process.count(function), times, "{mode:?} {function}");
            }
            assert!(process.calls.iter().all(|c| c.result == 0 && c.end >= c.begin), "{mode:?}");
            assert_eq!(process.dropped, 0);
            assert!(process.definitions.exit.is_some(), "{mode:?}: an orderly end is recorded");
            let queue = process.definitions.queues.values().next().unwrap();
            assert_eq!((queue.properties, queue.profiling_added), (0, true), "{mode:?}");
            let expected = match mode {
                Mode::Preload => "preload",
                Mode::Layer => "layer",
                _ => "",
            };
            assert!(
                process.definitions.process.injection.contains(expected),
                "{}",
                process.definitions.process.injection
            );
        }
    }
}

#[test]
fn twenty_thousand_tiny_kernels_have_no_invented_overlap() {
    for runtime in Runtime::real() {
        for line in ["many_commands 20000", "many_commands 20000 events"] {
            let (finished, recorded) = Stage::new(runtime.clone()).record(Mode::Record, line);
            assert_eq!(finished.status.code(), Some(0), "{}", finished.stderr);
            let process = recorded.only();
            assert_eq!(process.launches(None), 20000, "{line} {runtime:?}");
            process.assert_all_timed();
            process.assert_causal();
            assert_eq!(process.dropped, 0);
        }
    }
}

#[test]
fn commands_known_complete_only_by_polling_are_timed() {
    for runtime in Runtime::real() {
        let (_, recorded) = Stage::new(runtime).record(Mode::Preload, "poll_only 200");
        let process = recorded.only();
        assert_eq!((process.launches(None), process.commands.len()), (200, 201));
        process.assert_all_timed();
        process.assert_causal();
        assert!(process.commands.iter().all(|c| c.app_event));
    }
}

#[test]
fn commands_of_an_application_that_only_flushes_are_timed() {
    for runtime in Runtime::real() {
        let (_, recorded) = Stage::new(runtime).record(Mode::Preload, "flush_only 200");
        let process = recorded.only();
        assert_eq!(process.launches(None), 200);
        process.assert_all_timed();
        process.assert_causal();
    }
}

/// Each command has its times or a reason; none is forgotten.
#[test]
fn commands_that_nobody_waits_for_are_timed_or_say_why_not() {
    for runtime in Runtime::real() {
        for line in
            ["never_wait 100", "never_wait 100 leave", "release_early flight", "release_early gate"]
        {
            let (_, recorded) = Stage::new(runtime.clone()).record(Mode::Preload, line);
            let process = recorded.only();
            assert_eq!(
                process.launches(None),
                if line.starts_with("never") { 100 } else { 50 },
                "{line}"
            );
            for command in &process.commands {
                let right = match &command.end_state {
                    End::Timed { .. } | End::Unfinished(_) => true,
                    End::Untimed(reason, _) => {
                        matches!(reason, Untimed::QueueReleased | Untimed::Unfinished)
                    }
                };
                assert!(right, "{line} {runtime:?}: {command:?}");
            }
            process.assert_causal();
            assert!(process.in_calls.is_empty(), "{line} {runtime:?}: {:?}", process.in_calls);
        }
    }
}

/// What a command waited for that the application has waited for has ended, on whatever queue.
#[test]
fn commands_that_another_queue_was_waited_for_behind_are_timed() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime.clone());
        let (_, recorded) = stage.record(Mode::Preload, "never_wait 20 elsewhere");
        let process = recorded.only();
        assert_eq!(process.launches(None), 20);
        let untimed: Vec<_> = process.commands.iter().filter(|c| c.raw().is_none()).collect();
        assert!(untimed.is_empty(), "{runtime:?}: {untimed:?}");
    }
}

#[test]
fn wait_lists_name_the_commands_waited_for() {
    for runtime in Runtime::real() {
        let (_, recorded) =
            Stage::new(runtime).record(Mode::Preload, "multi_queue 3 20 out-of-order");
        let process = recorded.only();
        assert_eq!(process.launches(Some("increment")), 60);
        for command in process.commands.iter().filter(|c| c.kind.is_kernel()) {
            // Each waits for the one before it on its queue, the first for none.
            let before = process
                .commands
                .iter()
                .filter(|c| c.kind.is_kernel() && c.queue == command.queue && c.id < command.id)
                .map(|c| c.id)
                .max();
            assert_eq!(
                command.waits,
                before.map(Some).into_iter().collect::<Vec<_>>(),
                "{command:?}"
            );
        }
        let marker = process.commands.iter().find(|c| c.kind == CommandKind::Marker).unwrap();
        assert_eq!(marker.waits.len(), 3);
        assert_eq!(marker.function, "clEnqueueMarkerWithWaitList");
        assert!(marker.waits.iter().all(Option::is_some), "{marker:?}");
        process.assert_causal();
    }
}

#[test]
fn calls_from_callbacks_are_the_applications_own() {
    for runtime in Runtime::real() {
        let (_, recorded) = Stage::new(runtime).record(Mode::Preload, "callback_calls");
        let process = recorded.only();
        assert_eq!(process.count("clGetProgramInfo"), 1, "in the build's callback");
        assert_eq!(process.count("clSetUserEventStatus"), 1, "in the event's callback");
        assert_eq!(process.count("clGetEventInfo"), 1, "in the event's callback");
        if process.count("clEnqueueNativeKernel") == 1 {
            assert_eq!(process.count("clGetContextInfo"), 1, "in the native kernel");
        }
        assert!(process.in_calls.is_empty(), "{:?}", process.in_calls);
    }
}

#[test]
fn calls_after_a_longjmp_out_of_a_callback_are_still_seen() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let bare = stage.app(Mode::Bare, "bare", "longjmp_callback").run().success();
        let (with, recorded) = stage.record(Mode::Preload, "longjmp_callback");
        assert_eq!(with.seen(), bare.seen());
        let process = recorded.only();
        // What comes after the jump: the application releases nothing.
        assert_eq!((process.launches(None), process.count("clEnqueueReadBuffer")), (5, 1));
        process.assert_all_timed();
    }
}

#[test]
fn every_call_of_every_thread_is_recorded() {
    for (line, expected) in [
        ("threads cheap 4 20000", 4 * 20000),
        ("threads short 1000 10", 1000 * 10),
        ("threads late 64 10", 64 * (10 + 3)),
    ] {
        let (_, recorded) = Stage::new(Runtime::Pocl).record(Mode::Preload, line);
        let process = recorded.only();
        let function = "clRetainMemObject";
        assert_eq!(process.count(function), expected, "{line} {:?}", recorded.issues);
        assert_eq!(process.dropped, 0, "{line}");
    }
}

#[test]
fn calls_from_signal_handlers_are_recorded_or_counted_as_dropped() {
    let (finished, recorded) =
        Stage::new(Runtime::Pocl).record(Mode::Preload, "signals storm 100000");
    let ran: usize = finished
        .stderr
        .split_whitespace()
        .find_map(|w| w.parse().ok())
        .expect("how often the handler ran");
    let process = recorded.only();
    let seen = process.count("clRetainMemObject") + process.count("clReleaseMemObject");
    assert!(seen <= 2 * ran + 3, "{seen} of {ran}");
    assert_eq!(
        seen as u64 + process.dropped,
        2 * ran as u64 + 3,
        "three releases are the main thread's own"
    );
}

#[test]
fn errors_of_the_runtime_are_recorded_and_passed_on() {
    let stage = Stage::new(Runtime::FakeLoader);
    let bare = stage
        .app(Mode::Bare, "bare", "linked 5")
        .env("FAKE_CL_FAIL", "clEnqueueNDRangeKernel:-54@3")
        .run();
    assert_eq!(bare.status.code(), Some(3));
    for mode in [Mode::Preload, Mode::Record] {
        stage.forget("t");
        let with = stage
            .app(mode, "t", "linked 5")
            .env("FAKE_CL_FAIL", "clEnqueueNDRangeKernel:-54@3")
            .run();
        assert_eq!(with.seen(), bare.seen(), "{}", with.stderr);
        assert!(with.stderr.contains("gave -54"), "{}", with.stderr);
        let recorded = Recorded::read(&[&stage.trace("t")]);
        let process = recorded.only();
        let results: Vec<_> = process
            .calls
            .iter()
            .filter(|c| c.name == "clEnqueueNDRangeKernel")
            .map(|c| c.result)
            .collect();
        assert_eq!(results, [0, 0, -54]);
        assert_eq!(process.launches(None), 2, "a failed enqueue is no command");
    }
}

#[test]
fn commands_that_fail_on_the_device_say_so() {
    let stage = Stage::new(Runtime::FakeLoader);
    let script = stage.join("script");
    std::fs::write(&script, "complete flush\nauto\nerror -5\nauto\n").unwrap();
    let with = stage.app(Mode::Preload, "t", "poll_only 3").env("FAKE_CL_SCRIPT", &script).run();
    let bare = stage.app(Mode::Bare, "bare", "poll_only 3").env("FAKE_CL_SCRIPT", &script).run();
    assert_eq!(with.seen(), bare.seen());
    let recorded = Recorded::read(&[&stage.trace("t")]);
    assert_eq!(recorded.only().commands[1].end_state, End::Untimed(Untimed::Failed, -5));
    assert!(recorded.only().commands[0].raw().is_some());
}

/// A driver that has written END and not yet QUEUED is waited for; nothing is recorded with stamps
/// of 0.
#[test]
fn stamps_that_come_late_are_waited_for() {
    let stage = Stage::new(Runtime::FakeLoader);
    let script = stage.join("script");
    std::fs::write(&script, "late\n").unwrap();
    stage.app(Mode::Preload, "t", "linked 50").env("FAKE_CL_SCRIPT", &script).run().success();
    let recorded = Recorded::read(&[&stage.trace("t")]);
    recorded.only().assert_all_timed();
    assert!(
        recorded
            .only()
            .commands
            .iter()
            .all(|c| c.raw().is_some_and(|raw| raw.iter().all(|stamp| *stamp != 0))),
        "{:?}",
        recorded.issues
    );
}

#[test]
fn each_timing_method_times_every_command_it_promises_to() {
    for runtime in Runtime::real() {
        for method in ["event", "callback", "sync", "off", "sample", "auto"] {
            let stage = Stage::new(runtime.clone());
            let with = stage
                .app(Mode::Preload, "t", "linked 100")
                .env("CLSCOPE_DEVICE_TIMING", method)
                .run()
                .success();
            assert!(with.stdout.contains("right"));
            let recorded = Recorded::read(&[&stage.trace("t")]);
            let process = recorded.only();
            assert_eq!(process.commands.len(), 101, "{method} {runtime:?}");
            if method == "off" {
                assert!(
                    process
                        .commands
                        .iter()
                        .all(|c| matches!(c.end_state, End::Untimed(Untimed::TimingOff, _))),
                    "{runtime:?}"
                );
            } else if matches!(method, "sample" | "auto") {
                let left_out = |c: &clscope_tests::Command| {
                    matches!(c.end_state, End::Untimed(Untimed::NotSampled, _))
                };
                assert!(
                    process.commands.iter().all(|c| c.raw().is_some() || left_out(c)),
                    "{method} {runtime:?}"
                );
                assert!(
                    process.commands.iter().any(|c| c.raw().is_some()),
                    "{method}: the first launches are always timed"
                );
                process.assert_causal();
            } else {
                process.assert_all_timed();
                process.assert_causal();
            }
        }
    }
}

/// An estimate counts every launch, holds what was timed, and lies inside its interval, which ends
/// where there is no more time.
#[test]
fn totals_of_a_sample_say_how_far_they_reach() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime.clone());
        stage
            .app(Mode::Preload, "t", "stream 1000 20")
            .env("CLSCOPE_DEVICE_TIMING", "sample")
            .run()
            .success();
        let report = stage.clscope(["report", "t.clscope", "--format", "json"]).run().success();
        let report: serde_json::Value =
            serde_json::from_str(&report.stdout).expect("the report is JSON");
        let kernels = report["kernels"].as_array().expect("a list of kernels");
        let estimates: Vec<_> = kernels.iter().filter(|k| k["estimate"].is_object()).collect();
        assert!(!estimates.is_empty(), "a thousand launches are not all timed: {runtime:?}");
        for kernel in estimates {
            let total = &kernel["estimate"]["total_ns"];
            let [low, value, high] = [&total["low"], &total["value"], &total["high"]]
                .map(|v| v.as_f64().expect("a number"));
            let timed = kernel["time_ns"]["total"].as_f64().expect("a number");
            assert_eq!(kernel["estimate"]["launches"], kernel["count"], "{runtime:?}");
            assert!(
                timed <= low && low <= value && value <= high && high.is_finite(),
                "{runtime:?}: {timed} {total}"
            );
        }
    }
}

/// A method that waited for each command would hang here.
#[test]
fn no_timing_method_waits_for_commands_behind_a_user_event() {
    for runtime in Runtime::real() {
        for method in ["event", "callback", "sync", "sample", "auto"] {
            let stage = Stage::new(runtime.clone());
            let bare = stage.app(Mode::Bare, "bare", "user_event_gate 20").run().success();
            let with = stage
                .app(Mode::Preload, "t", "user_event_gate 20")
                .env("CLSCOPE_DEVICE_TIMING", method)
                .run();
            assert_eq!(with.seen(), bare.seen(), "{method} {runtime:?}: {}", with.stderr);
        }
    }
}

/// Intel's runtime says that a command behind a failed wait list is complete, without a START.
#[test]
fn a_command_behind_a_failed_wait_list_says_that_it_never_started() {
    let Some(intel) = Runtime::intel() else { return };
    let stage = Stage::new(intel);
    let line = "user_event_gate 5 -1";
    let bare = stage.app(Mode::Bare, "bare", line).run().success();
    for method in ["event", "callback", "sync", "sample"] {
        for mode in Mode::RECORDING {
            stage.forget("t");
            let with = stage.app(mode, "t", line).env("CLSCOPE_DEVICE_TIMING", method).run();
            assert_eq!(with.seen(), bare.seen(), "{mode:?} {method}: {}", with.stderr);
            let recorded = Recorded::read(&[&stage.trace("t")]);
            let ends: Vec<_> = recorded.only().commands.iter().map(|c| &c.end_state).collect();
            assert_eq!(*ends[0], End::Untimed(Untimed::NeverStarted, 0), "{mode:?} {method}");
            assert_eq!(ends.len(), 5, "{mode:?} {method}");
            assert!(ends[1..].iter().all(|end| matches!(end, End::Timed { .. })), "{ends:?}");
            let warnings: Vec<_> = recorded
                .issues
                .iter()
                .filter(|i| i.kind.severity() == clscope_analysis::issue::Severity::Warning)
                .map(|i| i.kind.code())
                .collect();
            assert!(warnings.is_empty(), "{mode:?} {method}: {warnings:?}");
        }
    }
}

#[test]
fn filters_leave_out_what_they_name() {
    let stage = Stage::new(Runtime::Pocl);
    stage.app(Mode::Preload, "k", "linked 10").env("CLSCOPE_KERNELS", "no_such*").run().success();
    assert_eq!(Recorded::read(&[&stage.trace("k")]).launches(), 0);
    stage.app(Mode::Preload, "g", "linked 10").env("CLSCOPE_GROUPS", "enqueue").run().success();
    let recorded = Recorded::read(&[&stage.trace("g")]);
    assert_eq!(recorded.launches(), 10);
    assert_eq!(recorded.only().count("clSetKernelArg"), 0);
}

#[test]
fn commands_without_an_event_and_those_at_exit_say_why_they_have_no_time() {
    for runtime in [Runtime::real(), vec![Runtime::FakeLoader]].concat() {
        let fake = runtime == Runtime::FakeLoader;
        let (line, without) = match runtime {
            Runtime::Pocl => ("no_event 100", 100),
            Runtime::FakeLoader => ("no_event 100 waits late", 200),
            _ => ("no_event 100 waits", 200),
        };
        let stage = Stage::new(runtime);
        let bare = stage.app(Mode::Bare, "bare", line).run().success();
        for method in ["event", "sync", "off"] {
            // The fake library in a loader's place knows no layers.
            let modes = Mode::RECORDING.into_iter().filter(|mode| !fake || *mode != Mode::Layer);
            for mode in modes {
                stage.forget("t");
                let with = stage.app(mode, "t", line).env("CLSCOPE_DEVICE_TIMING", method).run();
                assert_eq!(with.seen(), bare.seen(), "{mode:?}: {}", with.stderr);
                let recorded = Recorded::read(&[&stage.trace("t")]);
                let process = recorded.only();
                let ends =
                    |wanted: End| process.commands.iter().filter(|c| c.end_state == wanted).count();
                if method == "off" {
                    assert_eq!(ends(End::Untimed(Untimed::TimingOff, 0)), process.commands.len());
                    continue;
                }
                assert_eq!(ends(End::Untimed(Untimed::NoEvent, 0)), without, "{mode:?} {method}");
                let late = ends(End::Untimed(Untimed::Exiting, 0));
                assert_eq!(late, usize::from(fake), "{mode:?} {method}");
                let timed = process.commands.iter().filter(|c| c.raw().is_some()).count();
                assert_eq!(timed, 100, "{mode:?} {method}");
                let warned = recorded.issues.iter().filter(|i| {
                    i.kind.severity() == clscope_analysis::issue::Severity::Warning
                        && i.to_string().contains("no event")
                });
                assert_eq!(warned.count(), 0, "{:?}", recorded.issues);
            }
        }
    }
}
