//! An application looks the same with the recorder as without: standard output, exit code, signal,
//! in every way in and on every runtime. The fixtures check their own results, reference counts,
//! masks and callbacks, and print what they saw.

use clscope_tests::{Mode, Runtime, Stage};

fn same(line: &str) {
    for runtime in Runtime::real() {
        same_on(runtime, line);
    }
}

#[track_caller]
fn same_on(runtime: Runtime, line: &str) {
    let stage = Stage::new(runtime);
    let bare = stage.app(Mode::Bare, "bare", line).run();
    assert_eq!(bare.status.code(), Some(0), "bare: {}", bare.stderr);
    let mut differences = Vec::new();
    for mode in Mode::RECORDING {
        let with = stage.app(mode, "t", line).run();
        if with.seen() != bare.seen() {
            differences.push(format!(
                "{mode:?}: {:?}, bare {:?}\n{}",
                with.seen(),
                bare.seen(),
                with.stderr
            ));
        }
    }
    assert!(differences.is_empty(), "{line} on {:?}:\n{}", stage.runtime, differences.join("\n"));
}

macro_rules! same {
    ($($name:ident: $line:literal)*) => { $(#[test] fn $name() { same($line); })* };
}

same! {
    a_linked_application: "linked 10"
    an_application_that_opens_its_loader: "dlopen_by_name libOpenCL.so.1 local"
    an_application_that_closes_its_loader: "dlopen_by_name libOpenCL.so.1 local close"
    an_application_that_closes_and_opens_its_loader: "dlclose_loader libOpenCL.so.1 3"
    a_plugin_that_brings_the_loader: "plugin_loader local"
    a_plugin_that_brings_the_loader_for_all: "plugin_loader global"
    an_application_with_deep_binding: "dlopen_by_name libOpenCL.so.1 deepbind"
    threads_with_queues_of_their_own: "threads calls 4 300"
    threads_with_cheap_calls: "threads cheap 4 20000"
    threads_with_one_queue: "threads shared 4 500"
    threads_that_race_for_the_first_call: "threads first 8 20"
    threads_with_calls_at_their_end: "threads late 64 10"
    polling_for_completion: "poll_only 100"
    only_flushing: "flush_only 100"
    never_waiting: "never_wait 100"
    never_waiting_or_releasing: "never_wait 100 leave"
    commands_behind_a_user_event: "user_event_gate 20"
    giving_up_everything_when_done: "release_early done"
    giving_up_everything_in_flight: "release_early flight"
    giving_up_everything_behind_a_user_event: "release_early gate"
    calls_in_callbacks: "callback_calls"
    leaving_a_callback_by_longjmp: "longjmp_callback"
    small_stacks: "small_stack 8"
    many_commands: "many_commands 5000"
    many_commands_with_events: "many_commands 5000 events"
    many_commands_in_flight: "many_commands 3000 gate"
    many_queues: "multi_queue 4 100"
    out_of_order_queues: "multi_queue 4 100 out-of-order"
    calls_in_signal_handlers: "signals storm 50000"
    dispositions_and_mask: "signals dispositions"
    own_signal_handlers: "signals xfsz 100000"
    system_calls_refused_from_the_start: "seccomp_errno start 50000"
    system_calls_refused_later: "seccomp_errno warm 50000"
    fork_without_exec: "fork_apps plain"
    fork_with_threads: "fork_apps threads"
    fork_in_a_fork: "fork_apps double"
    fork_before_the_first_call: "fork_apps early"
    vfork_and_exec: "fork_apps vfork"
    fork_and_exec: "fork_apps exec"
    raw_clone: "fork_apps clone"
    exec_of_itself: "fork_apps self"
    a_pool_of_children: "fork_apps pool 3"
}

/// PoCL aborts without us too when a user event fails under commands.
#[test]
fn a_user_event_that_fails() {
    if let Some(intel) = Runtime::intel() {
        same_on(intel, "user_event_gate 20 -1");
    }
    same_on(Runtime::FakeDriver, "user_event_gate 20 -1");
}

#[test]
fn ten_thousand_short_threads() {
    same_on(Runtime::Pocl, "threads short 10000 10");
}

#[test]
fn two_loaders_in_one_process() {
    let fake = clscope_tests::artifacts().fixture("fake/libOpenCL.so.1");
    let (fake, system) = (fake.display(), clscope_tests::system_loader());
    for order in [format!("two_loaders {system} {fake}"), format!("two_loaders {fake} {system}")] {
        same(&order);
    }
}

/// Everything again on the fake library as a loader, which checks every handle it is given.
#[test]
fn the_fake_library_sees_no_misuse() {
    for line in [
        "linked 50",
        "poll_only 50",
        "never_wait 50",
        "callback_calls",
        "multi_queue 3 50",
        "release_early done",
        "many_commands 500 events",
    ] {
        for mode in [Mode::Preload, Mode::Audit, Mode::Record] {
            let stage = Stage::new(Runtime::FakeLoader);
            let bare = stage.app(Mode::Bare, "bare", line).run();
            let report = stage.join("report");
            let with = stage.app(mode, "t", line).env("FAKE_CL_REPORT", &report).run();
            assert_eq!(with.seen(), bare.seen(), "{mode:?} {line}: {}", with.stderr);
            let report = std::fs::read_to_string(report).unwrap();
            assert!(!report.contains("misuse"), "{mode:?} {line}:\n{report}");
        }
    }
}

/// An application that makes an object for each of its commands, and gives it back, has as much
/// memory as without the recorder, but for what names the object in the trace.
#[test]
fn objects_that_are_given_back_cost_no_memory() {
    const MADE: u64 = 5_000;
    // What the recorder has at all, and of each object that was.
    let most = 16 * 1024 + 4 * MADE;
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime.clone());
        for kind in ["queue", "context", "program", "kernel", "buffer", "event"] {
            let line = format!("made_often {kind} {MADE}");
            let peak = |mode| -> u64 {
                stage.forget("t");
                let run = stage.app(mode, "t", &line).run().success();
                run.stdout.trim().parse().expect("KiB")
            };
            let (bare, with) = (peak(Mode::Bare), peak(Mode::Record));
            assert!(with < bare + most, "{runtime:?} {kind}: {bare} KiB became {with}");
        }
    }
}
