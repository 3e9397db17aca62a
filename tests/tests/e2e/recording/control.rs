//! Recording is started, stopped and brought to the disk from outside, while the application runs:
//! nothing that it does while recording is stopped is recorded, everything else is, and it gets no
//! signal for it.

use clscope_tests::{Mode, Recorded, Runtime, Stage, Talk, artifacts};
use std::collections::BTreeSet;
use std::path::Path;

/// `stepwise` under `clscope record OPTIONS`, and its process id.
fn stepwise(stage: &Stage, options: &[&str]) -> (Talk, String) {
    let a = artifacts();
    let run = stage
        .clscope(["record", "-q", "-f", "-o", "t"])
        .args(options)
        .arg("--")
        .arg(a.fixture("stepwise"));
    let mut talk = run.env("CLSCOPE_DEVICE_TIMING", "event").talk();
    let pid = talk.hear();
    (talk, pid)
}

/// What `clscope ctl TARGET COMMAND` says, run somewhere else.
#[track_caller]
fn ctl(stage: &Stage, target: impl AsRef<Path>, command: &str) -> String {
    let run = stage.clscope(["ctl".as_ref(), target.as_ref().as_os_str(), command.as_ref()]);
    run.folder(Path::new("/")).run().success().stdout
}

fn launches(stage: &Stage) -> usize {
    let recorded = Recorded::read(&[&stage.trace("t")]);
    recorded.processes.iter().for_each(|p| p.assert_all_timed());
    recorded.processes.iter().map(|p| p.launches(Some("vector_add"))).sum()
}

#[test]
fn a_paused_application_is_recorded_from_start_to_stop() {
    let stage = Stage::new(Runtime::Pocl);
    let (mut app, pid) = stepwise(&stage, &["--start-paused"]);
    let trace = stage.trace("t");
    app.tell("10");
    assert!(ctl(&stage, &trace, "status").ends_with(": paused\n"));
    assert!(
        ctl(&stage, &pid, "status").ends_with(": paused\n"),
        "found by its process id from another folder"
    );
    assert_eq!(launches(&stage), 0);
    // The kernel was made while recording was paused; its name is known all the same.
    assert!(ctl(&stage, &pid, "start").ends_with(": recording\n"));
    app.tell("20");
    assert_eq!(launches(&stage), 20, "what is written is readable at once");
    assert!(ctl(&stage, &pid, "flush").contains(": recording, "));
    assert!(ctl(&stage, &pid, "stop").ends_with(": paused\n"));
    app.tell("40");
    assert!(ctl(&stage, &trace, "flush").contains(": paused, "));
    assert_eq!(launches(&stage), 20);
    ctl(&stage, &pid, "start");
    app.tell("5");
    assert!(app.end().success());
    assert_eq!(launches(&stage), 25);
    assert!(ctl(&stage, &trace, "status").ends_with(": ended\n"));
    let dump = stage.clscope(["dump", "t.clscope"]).run().success().stdout;
    let told = |text: &str| dump.lines().filter(|l| l.ends_with(text)).count();
    assert_eq!(
        (told("recording paused"), told("recording went on")),
        (2, 2),
        "each change is in the trace:\n{dump}"
    );
    let nothing = stage.clscope(["ctl", "t.clscope", "stop"]).run();
    assert!(
        !nothing.status.success() && nothing.stderr.contains("no process of"),
        "{}",
        nothing.stderr
    );
}

#[test]
fn processes_of_a_paused_trace_begin_paused() {
    let stage = Stage::new(Runtime::Pocl);
    let (mut app, _) = stepwise(&stage, &[]);
    let trace = stage.trace("t");
    app.tell("child 3");
    ctl(&stage, &trace, "stop");
    app.tell("child 40");
    app.tell("50");
    ctl(&stage, &trace, "start");
    app.tell("child 6");
    app.tell("7");
    assert!(app.end().success());
    assert_eq!(launches(&stage), 3 + 6 + 7);
}

#[test]
fn a_trace_told_to_start_goes_before_how_its_processes_were_set() {
    let stage = Stage::new(Runtime::Pocl);
    let (mut app, _) = stepwise(&stage, &["--start-paused"]);
    app.tell("child 30");
    ctl(&stage, stage.trace("t"), "start");
    app.tell("child 4");
    assert!(app.end().success());
    assert_eq!(launches(&stage), 4);
}

#[test]
fn nothing_of_ours_shows_while_recording_is_paused() {
    let stage = Stage::new(Runtime::Pocl);
    let bare = stage.app(Mode::Bare, "bare", "stepwise").talk();
    let (mut paused, pid) = stepwise(&stage, &["--start-paused"]);
    let asked = |mut app: Talk| {
        let _ = app.hear();
        app.tell("query")
    };
    // No properties, and CL_PROFILING_INFO_NOT_AVAILABLE.
    let expected = asked(bare);
    assert_eq!(expected, "0 -7");
    assert_eq!(paused.tell("query"), expected);
    ctl(&stage, &pid, "start");
    assert_eq!(paused.tell("query"), expected);
    ctl(&stage, &pid, "stop");
    assert_eq!(paused.tell("query"), expected);
    assert!(paused.end().success());
    assert_eq!(launches(&stage), 1);
}

#[test]
fn commands_are_timed_where_the_making_of_queues_is_filtered_out() {
    let stage = Stage::new(Runtime::Pocl);
    let record = stage.clscope(["record", "-q", "-f", "-o", "t", "--"]);
    let run = record.arg(artifacts().fixture("stepwise")).env("CLSCOPE_GROUPS", "enqueue,wait");
    let mut app = run.env("CLSCOPE_DEVICE_TIMING", "event").talk();
    let _ = app.hear();
    assert_eq!(app.tell("query"), "0 -7");
    app.tell("3");
    assert!(app.end().success());
    assert_eq!(launches(&stage), 4);
}

#[test]
fn functions_are_in_groups_that_can_be_chosen() {
    let stage = Stage::new(Runtime::FakeLoader);
    stage.app(Mode::Preload, "t", "linked 1").run().success();
    let recorded = Recorded::read(&[&stage.trace("t")]);
    let groups: BTreeSet<&str> =
        recorded.only().definitions.functions().map(|f| f.group.as_str()).collect();
    assert_eq!(groups, BTreeSet::from(clscope_trace::variables::API_GROUPS));
}

#[test]
fn recording_in_every_way_of_injection_can_be_stopped() {
    for mode in [Mode::Preload, Mode::Layer, Mode::Audit] {
        let stage = Stage::new(Runtime::Pocl);
        let mut app = stage.app(mode, "t", "stepwise").talk();
        let pid = app.hear();
        app.tell("2");
        ctl(&stage, &pid, "stop");
        app.tell("30");
        assert!(app.end().success());
        assert_eq!(launches(&stage), 2, "{mode:?}");
    }
}

/// Nobody takes a process for ended whose first thread alone has: the system shows no memory of it
/// under the process's own id.
#[test]
fn a_process_goes_on_when_its_first_thread_has_ended() {
    let stage = Stage::new(Runtime::Pocl);
    let (mut app, pid) = stepwise(&stage, &[]);
    let trace = stage.trace("t");
    app.tell("3");
    app.tell("alone");
    for target in [trace.as_path(), Path::new(&pid)] {
        assert!(ctl(&stage, target, "status").ends_with(": recording\n"));
    }
    app.tell("4");
    assert_eq!(launches(&stage), 7, "read while it runs");
    app.tell("5");
    assert!(app.end().success());
    assert_eq!(launches(&stage), 12);
    assert!(ctl(&stage, &trace, "status").ends_with(": ended\n"));
}
