//! Command buffers (cl_khr_command_buffer): the report names the kernels in them, each counted as often
//! as it was recorded times the enqueues; the whole is one command with one time; and every option of
//! `record` leaves them as they are.

use clscope_tests::{Mode, Run, Runtime, Stage};
use serde_json::{Value, json};

/// Runtimes that have command buffers, where the machine's have any.
fn runtimes() -> Vec<Runtime> {
    let mut all = vec![Runtime::FakeLoader];
    all.extend(Runtime::real());
    all
}

fn application(stage: &Stage, mode: Mode, options: &[&str]) -> Run {
    let run = match (mode, options) {
        (Mode::Bare, _) => stage.app(Mode::Bare, "t", "command_buffers"),
        (_, options) => stage
            .clscope(["record", "-q", "-f", "-o"])
            .arg(stage.trace("t"))
            .args(options)
            .arg("--")
            .arg(clscope_tests::artifacts().fixture("command_buffers")),
    };
    run.env("FAKE_CL_COMMAND_BUFFERS", "1")
}

fn report(stage: &Stage) -> Value {
    let text = stage.clscope(["report", "--format", "json", "t.clscope"]).run().success().stdout;
    serde_json::from_str(&text).unwrap()
}

/// `None`: this runtime has no command buffers.
fn bare(stage: &Stage) -> Option<clscope_tests::Finished> {
    let bare = application(stage, Mode::Bare, &[]).run().success();
    (bare.stdout != "skipped\n").then_some(bare)
}

#[test]
fn kernels_in_command_buffers_are_counted_by_their_enqueues() {
    for runtime in runtimes() {
        let stage = Stage::new(runtime);
        let Some(bare) = bare(&stage) else { continue };
        let with = application(&stage, Mode::Record, &[]).run();
        assert_eq!(with.seen(), bare.seen(), "{:?}: {}", stage.runtime, with.stderr);
        let report = report(&stage);
        let inside = json!({
            "enqueues": 5,
            "unknown": 0,
            "kernels": [{"name": "increment", "launches": 8}, {"name": "spin", "launches": 3}],
        });
        assert_eq!(report["command_buffers"], inside, "{:?}", stage.runtime);
        // None of them is an enqueue of its own.
        assert_eq!(report["kernels"], json!([]), "{:?}", stage.runtime);
        let rows = report["other_commands"].as_array().unwrap();
        let whole = rows.iter().find(|row| row["name"] == "CommandBuffer").expect("one row");
        assert_eq!((&whole["count"], &whole["untimed"]), (&json!(5), &json!(0)), "{whole}");
    }
}

/// What a device does with the kernels of a command buffer is its busy time.
#[test]
fn the_time_of_a_command_buffer_is_busy_time() {
    let stage = Stage::new(Runtime::FakeLoader);
    let script = stage.join("script");
    std::fs::write(&script, "duration spin 2000000\nduration increment 1000000\n").unwrap();
    application(&stage, Mode::Record, &[]).env("FAKE_CL_SCRIPT", &script).run().success();
    let report = report(&stage);
    let rows = report["other_commands"].as_array().unwrap();
    let whole = rows.iter().find(|row| row["name"] == "CommandBuffer").expect("one row");
    // Three of 4 ms, two of 1 ms; commands of the fake last at least as long as their script says.
    let total = whole["time_ns"]["total"].as_u64().unwrap();
    assert!(total >= 14_000_000, "{whole}");
    let text = stage.clscope(["report", "--all", "t.clscope"]).run().success().stdout;
    assert!(text.contains("Kernels in command buffers"), "{text}");
    assert!(!text.contains("does not time what is inside"), "{text}");
}

#[test]
fn no_option_reaches_into_a_command_buffer() {
    let ways: [&[&str]; 7] = [
        &["--kernels", "spin"],
        &["--capture", "spin"],
        &["--snapshot"],
        &["--check"],
        &["--device-timing", "sync"],
        &["--device-timing", "callback"],
        &["--call-sites=3", "--without=joined-calls"],
    ];
    for runtime in runtimes() {
        let stage = Stage::new(runtime);
        let Some(bare) = bare(&stage) else { continue };
        for options in ways {
            let with = application(&stage, Mode::Record, options).run();
            assert_eq!(
                with.seen(),
                bare.seen(),
                "{options:?} {:?}: {}",
                stage.runtime,
                with.stderr
            );
            let report = report(&stage);
            assert_eq!(report["command_buffers"]["enqueues"], 5, "{options:?} {:?}", stage.runtime);
            let text = stage.clscope(["report", "--all", "t.clscope"]).run().success().stdout;
            assert!(text.contains("do not reach them"), "{options:?}: {text}");
        }
        // The enqueue that came too early, and nothing of objects.
        let found = stage.clscope(["check", "t.clscope"]).run().stdout;
        let errors: Vec<&str> = found.lines().filter(|line| line.starts_with("error ")).collect();
        assert_eq!(errors, ["error failed-call: a call failed"], "{:?}: {found}", stage.runtime);
    }
}
