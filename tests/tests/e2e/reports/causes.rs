//! The first cause that a report names is the one that was built into a program, and its advice is
//! against that. Each mode of `causes` has one; what the machine itself adds (other programs on its
//! processors) may be named in its place only where it is the same kernel's.

use clscope_tests::{Mode, Runtime, Stage};
use serde_json::Value;

/// A mode, the kinds of cause that are right, what the first one says, and words of its advice, one
/// of which is there.
const CAUSES: [(&str, &[&str], &[&str], &str); 10] = [
    ("host", &["host"], &["outside OpenCL"], "works or sleeps|while the device works"),
    ("copy", &["copy", "call"], &["copies to the device", "clEnqueueWriteBuffer"], "move less"),
    ("launch", &["launching"], &["launching"], "fewer and larger"),
    ("kernel", &["kernel", "held-up-launches"], &["spin"], ""),
    ("compile", &["call", "first-launch"], &["compiles"], ""),
    ("gate", &["user-event"], &["user event"], "clSetUserEventStatus"),
    ("turns", &["queues-take-turns"], &["spin and other", "other and spin"], "overlap"),
    ("ranks", &["shared-device"], &["other processes"], "device of its own"),
    ("crowd", &["held-up-launches", "kernel"], &["spin"], ""),
    ("many", &["launching", "kernel", "call"], &["launching", "touch", "clFinish"], ""),
];

fn answer(stage: &Stage, mode: &str, options: &[&str]) -> Value {
    let line = format!("causes {mode}");
    // What is compiled once is compiled here.
    stage.app(Mode::Bare, "bare", &format!("{line} 0.1")).run().success();
    let app = clscope_tests::artifacts().fixture("causes");
    let record = ["record", "-q", "-f", "--sensors", "off", "-o"];
    let record = stage.clscope(record).arg(stage.trace("t")).args(options);
    record.arg("--").arg(app).arg(mode).run().success();
    let json = stage.clscope(["report", "t.clscope", "--format", "json"]).run().success().stdout;
    let report: Value = serde_json::from_str(&json).unwrap();
    report["answer"].clone()
}

#[test]
fn the_first_cause_is_the_one_that_was_built_in() {
    let stage = Stage::new(Runtime::Pocl);
    for (mode, kinds, words, advice) in CAUSES {
        let timing = if mode == "many" { "auto" } else { "event" };
        let answer = answer(&stage, mode, &["--device-timing", timing]);
        let causes = answer["why"].as_array().unwrap();
        let sum: f64 = causes.iter().map(|cause| cause["share"].as_f64().unwrap()).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{mode}: {sum}");
        let first = &causes[0];
        let (kind, text) = (first["kind"].as_str().unwrap(), first["text"].as_str().unwrap());
        assert!(kinds.contains(&kind), "{mode}: {answer:#}");
        assert!(words.iter().any(|word| text.contains(word)), "{mode}: {answer:#}");
        let against = |of: &&Value| of["against"].as_str() == Some(kind);
        let given = answer["advice"].as_array().unwrap().iter().find(against);
        let given = given.unwrap_or_else(|| panic!("{mode}: no advice against {kind}: {answer:#}"));
        let text = given["text"].as_str().unwrap();
        assert!(advice.split('|').any(|part| text.contains(part)), "{mode}: {given}");
        // The screen says the same, and has room for it.
        let screen =
            stage.clscope(["report", "t.clscope"]).env("COLUMNS", "80").run().success().stdout;
        assert!(screen.lines().count() <= 40, "{screen}");
        assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
        let why = screen.lines().skip_while(|line| !line.starts_with("WHY")).nth(1).unwrap();
        assert!(words.iter().any(|word| why.contains(word)), "{mode}: {screen}");
    }
}
