//! `clscope diff` of runs that are not whole: one that was killed has fewer launches, which must
//! not pass for an improvement.

mod common;

use clscope_analysis::testing::{CommandSpec, HostModel, ProcessBuilder, function};
use clscope_testing::Limited;
use clscope_trace::defs::{Def, Kernel};
use common::{Stage, ended, save, stderr, stdout};
use serde_json::Value;
use std::process::Output;

/// A run of so many launches.
fn run(launches: u64) -> ProcessBuilder {
    let host = HostModel::default();
    let mut process = ProcessBuilder::standard(host, 4000, 1);
    process.anchor(10_000_000);
    for i in 0..launches {
        let (t, raw) = (1_000 + i * 20_000, host.raw + 1_000 + i * 20_000);
        process
            .thread(0)
            .enqueue(t, t + 900, &CommandSpec::kernel(i + 1, 1, 1))
            .plain(function::FINISH, t + 2_000, t + 15_000, 0, 1)
            .timing(t + 15_000, i + 1, [raw + 100, raw + 1_000, raw + 2_000, raw + 8_000]);
        if i == launches / 2 {
            process.thread(0).cut();
        }
    }
    process
}

/// `whole` and `more` ended in order; `killed` and `left` did not; `torn` lost a part of its data.
fn stage() -> Stage {
    let stage = Stage::new();
    for (name, launches, ended) in
        [("whole", 20, true), ("more", 30, true), ("killed", 5, false), ("left", 20, false)]
    {
        let mut process = run(launches);
        if ended {
            process.exit(2_000_000, 0);
        }
        save(&process, &stage.join(name));
    }
    let mut torn = run(20);
    torn.exit(2_000_000, 0);
    save(&torn, &stage.join("torn"));
    let path = stage.join("torn/4000-0.0.clt");
    let mut bytes = std::fs::read(&path).unwrap();
    // In its second block.
    let last = bytes.len() - 64;
    bytes[last..].fill(0xa5);
    std::fs::write(&path, bytes).unwrap();
    stage
}

fn diff(stage: &Stage, arguments: &[&str]) -> Output {
    ended(stage.clscope().arg("diff").args(arguments))
}

fn json(stage: &Stage, arguments: &[&str]) -> Value {
    let output = diff(stage, &[arguments, &["--format", "json"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_str(&stdout(&output)).unwrap()
}

/// Texts of a list of the document.
fn texts<'d>(document: &'d Value, field: &str) -> Vec<&'d str> {
    document[field].as_array().unwrap().iter().map(|t| t.as_str().unwrap()).collect()
}

fn judged(document: &Value) -> usize {
    let rows = document["rows"].as_array().unwrap();
    let has = |row: &&Value| ["more", "less", "same"].contains(&row["outcome"].as_str().unwrap());
    rows.iter().filter(has).count()
}

#[test]
fn whole_runs_are_compared_and_nothing_is_told_of_their_ends() {
    let told = json(&stage(), &["whole", "more"]);
    assert_eq!((&told["comparable"], texts(&told, "broken_runs").len()), (&true.into(), 0));
    assert!(judged(&told) > 0, "{told:#}");
    assert!(texts(&told, "notes").iter().all(|note| !note.contains("in order")), "{told:#}");
}

#[test]
fn a_run_that_was_killed_or_is_torn_has_no_outcome() {
    let stage = stage();
    for (base, new, says) in [
        ("whole", "killed", "new run killed ended early: killed, crashed, "),
        ("killed", "whole", "base run killed ended early: killed, crashed, "),
        ("whole", "torn", "new run torn is damaged: "),
        ("torn", "torn", "base run torn is damaged: "),
    ] {
        let told = json(&stage, &[base, new]);
        assert_eq!((&told["comparable"], judged(&told)), (&false.into(), 0), "{told:#}");
        assert!(texts(&told, "broken_runs")[0].starts_with(says), "{told:#}");
        for format in ["table", "markdown", "html"] {
            let shown = stdout(&diff(&stage, &[base, new, "--format", format]));
            assert!(shown.contains(&format!("not comparable: {says}")), "{format}: {shown}");
        }
        let junit = stdout(&diff(&stage, &[base, new, "--format", "junit"]));
        assert!(junit.contains(&format!("<error message=\"{says}")), "{junit}");
        // Fewer launches are no success.
        let limit = diff(&stage, &[base, new, "--fail-on", "time:+5%,count:+5%"]);
        assert_eq!(limit.status.code(), Some(1), "{}", stderr(&limit));
        assert!(stderr(&limit).contains(&format!("cannot judge --fail-on: {says}")), "{limit:?}");
        // On request all the same.
        let anyway = json(&stage, &[base, new, "--force"]);
        assert!(anyway["comparable"] == true && judged(&anyway) > 0, "{anyway:#}");
        let shown = stdout(&diff(&stage, &[base, new, "--force"]));
        assert!(shown.contains(&format!("compared anyway: {says}")), "{shown}");
    }
}

/// An application that always leaves by `_exit` looks like one that was killed.
#[test]
fn runs_that_all_ended_early_are_compared_with_a_note() {
    let stage = stage();
    let told = json(&stage, &["left", "left"]);
    assert_eq!((&told["comparable"], texts(&told, "broken_runs").len()), (&true.into(), 0));
    assert!(judged(&told) > 0, "{told:#}");
    let notes = texts(&told, "notes");
    assert!(notes.iter().any(|note| note.contains("did not end in order")), "{told:#}");
    let limit = diff(&stage, &["left", "left", "--fail-on", "count:+5%"]);
    assert!(limit.status.success(), "{}", stderr(&limit));
}

/// Two kernels whose names differ in one character in the middle of a megabyte each.
fn long_names(stage: &Stage, name: &str, launches: u64) -> [String; 2] {
    let names = ["1", "2"].map(|n| format!("{}{n}{}", "k".repeat(1 << 19), "z".repeat(1 << 19)));
    let mut process = run(launches);
    for (id, name) in (100..).zip(&names) {
        process.define(Def::Kernel(Kernel { id, program: 0, name: name.clone() }));
    }
    let raw = HostModel::default().raw;
    for (i, object) in (0..).zip([100, 101, 100, 101]) {
        let (t, id) = (3_000_000 + i * 20_000, 1_000 + i);
        let launch = CommandSpec { object, ..CommandSpec::kernel(id, 1, 1) };
        let stamps = [100, 1_000, 2_000, 8_000].map(|at| raw + t + at);
        process.thread(0).enqueue(t, t + 900, &launch).timing(t + 15_000, id, stamps);
    }
    process.exit(4_000_000, 0);
    save(&process, &stage.join(name));
    names
}

/// Outputs for people show the part in which long names differ; the whole is there on request.
#[test]
fn names_of_megabytes_are_shortened_and_stay_apart() {
    let stage = Stage::new();
    let names = long_names(&stage, "base", 20);
    long_names(&stage, "new", 20);
    let outputs: [&[&str]; 9] = [
        &["diff", "base", "new"],
        &["diff", "base", "new", "--format", "markdown"],
        &["diff", "base", "new", "--format", "html"],
        &["diff", "base", "new", "--format", "junit"],
        &["report", "--all", "base"],
        &["report", "base", "--format", "csv"],
        &["report", "base", "--format", "html"],
        &["export", "folded", "base"],
        &["top", "base", "--once"],
    ];
    for arguments in outputs {
        let output = stage.clscope().args(arguments).ended();
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        let shown = stdout(&output);
        assert!(shown.len() < 200_000, "{arguments:?}: {} bytes", shown.len());
        for n in ["k1z", "k2z"] {
            assert!(shown.contains(n), "{arguments:?}: the part that differs: {shown}");
        }
    }
    for arguments in [&outputs[0], &outputs[2], &outputs[4]] {
        let output = stage.clscope().args(*arguments).arg("--full-names").ended();
        let shown = stdout(&output);
        assert!(names.iter().all(|name| shown.contains(name.as_str())), "{arguments:?}");
    }
    let told = json(&stage, &["base", "new"]);
    let rows = told["rows"].as_array().unwrap();
    for name in &names {
        assert!(rows.iter().any(|row| row["name"] == **name), "JSON has names whole");
        assert!(told["display_names"][name].as_str().unwrap().len() < 300);
    }
    // What is shown can be typed.
    let short = told["display_names"][&names[0]].as_str().unwrap();
    let one = stage.clscope().args(["report", "base", "--name", short, "--format", "json"]).ended();
    let one: Value = serde_json::from_str(&stdout(&one)).unwrap();
    let kernels = one["kernels"].as_array().unwrap();
    assert_eq!((kernels.len(), &kernels[0]["name"]), (1, &Value::from(names[0].as_str())));
}
