//! Flame graphs and differences of real applications: they hold the report's figures, and are what
//! their readers expect.

use crate::perfetto::face_detection;
use clscope_tests::{Mode, Runtime, Stage};
use serde_json::Value;
use std::collections::BTreeMap;

fn report(stage: &Stage, trace: &str) -> Value {
    let run = stage.clscope(["report", trace, "--format", "json"]).run().success();
    serde_json::from_str(&run.stdout).unwrap()
}

/// Weights by the innermost frame.
fn folded(stage: &Stage, trace: &str, weight: &str) -> BTreeMap<String, u64> {
    let run = stage.clscope(["export", "folded", trace, "--weight", weight]).run().success();
    let mut out = BTreeMap::new();
    for line in run.stdout.lines() {
        let (stack, weight) = line.rsplit_once(' ').unwrap();
        let frame = stack.rsplit(';').next().unwrap();
        *out.entry(frame.to_owned()).or_default() += weight.parse::<u64>().unwrap();
    }
    out
}

#[test]
fn stacks_of_a_face_detection_hold_the_reports_figures() {
    let stage = Stage::new(Runtime::Pocl);
    let Some(()) = face_detection(&stage) else { return };
    let report = report(&stage, "t.clscope");
    let kernels = report["kernels"].as_array().unwrap();
    let (times, counts) =
        (folded(&stage, "t.clscope", "time"), folded(&stage, "t.clscope", "count"));
    assert!(kernels.len() > 3);
    for kernel in kernels {
        let name = kernel["name"].as_str().unwrap();
        assert_eq!(times[name], kernel["time_ns"]["total"].as_u64().unwrap(), "{name}");
        assert_eq!(counts[name], kernel["count"].as_u64().unwrap(), "{name}");
    }
    let bytes = folded(&stage, "t.clscope", "bytes");
    for transfer in report["transfers"].as_array().unwrap() {
        let name = transfer["name"].as_str().unwrap();
        assert_eq!(bytes[name], transfer["bytes"].as_u64().unwrap(), "{name}");
    }
    // The other formats hold the same.
    stage.clscope(["export", "speedscope", "t.clscope", "-o", "s.json"]).run().success();
    let file: Value =
        serde_json::from_slice(&std::fs::read(stage.join("s.json")).unwrap()).unwrap();
    assert_eq!(file["$schema"], "https://www.speedscope.app/file-format-schema.json");
    let profile = &file["profiles"][0];
    assert_eq!((&profile["type"], &profile["unit"]), (&"sampled".into(), &"nanoseconds".into()));
    let frames = file["shared"]["frames"].as_array().unwrap();
    let samples = profile["samples"].as_array().unwrap();
    let weights = profile["weights"].as_array().unwrap();
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    for (sample, weight) in samples.iter().zip(weights) {
        let frame = sample.as_array().unwrap().last().unwrap().as_u64().unwrap() as usize;
        let name = frames[frame]["name"].as_str().unwrap();
        *found.entry(name.to_owned()).or_default() += weight.as_u64().unwrap();
    }
    assert_eq!(found, times);
    assert_eq!(profile["endValue"].as_u64(), Some(times.values().sum()));
    stage.clscope(["export", "pprof", "t.clscope"]).run().success();
    let head = std::fs::read(stage.join("t.pb.gz")).unwrap();
    assert_eq!(head[..2], [0x1f, 0x8b], "compressed");
    let none = stage.clscope(["export", "folded", "t.clscope", "--weight", "energy"]).run();
    assert!(!none.status.success() && none.stderr.contains("no joules"), "{}", none.stderr);
}

/// What was measured is what all stacks hold together, and kernels keep their part.
#[test]
fn stacks_by_joules_add_up_to_what_was_measured() {
    let stage = Stage::new(Runtime::Pocl);
    crate::energy::emulated(&stage);
    let stacks = folded(&stage, "t.clscope", "energy");
    let energy = report(&stage, "t.clscope")["energy"]["devices"][0].clone();
    let measured = energy["measured_joules"].as_f64().unwrap() * 1e6;
    let rest = energy["unattributed_joules"].as_f64().unwrap() * 1e6;
    let all: u64 = stacks.values().sum();
    // A line has no negative weight: what was attributed too much is left out.
    let want = measured - rest.min(0.0);
    assert!(
        (all as f64 - want).abs() <= stacks.len() as f64 + 1.0,
        "{all} and not {want}: {stacks:?}"
    );
}

#[test]
fn a_run_differs_from_itself_in_nothing_and_limits_give_code_3() {
    let stage = Stage::new(Runtime::Pocl);
    for (name, launches) in
        [("a", "threads short 100"), ("b", "threads short 100"), ("c", "threads short 150")]
    {
        stage.app(Mode::Record, name, launches).run().success();
    }
    let diff = |arguments: &[&str]| stage.clscope(["diff"]).args(arguments).run();
    let same =
        diff(&["a.clscope", "a.clscope", "--format", "json", "--fail-on", "time:+1%,count:+1%"]);
    let same: Value = serde_json::from_str(&same.success().stdout).unwrap();
    assert_eq!(same["comparable"], true);
    let rows = same["rows"].as_array().unwrap();
    assert!(rows.iter().any(|r| r["section"] == "kernel" && r["metric"] == "time"), "{same}");
    for row in rows {
        assert!(row["change"].is_null() || row["change"]["value"] == 0.0, "{row}");
        assert!(!["more", "less"].contains(&row["verdict"].as_str().unwrap()), "{row}");
    }
    // Half as many launches again.
    let more = diff(&["a.clscope", "c.clscope", "--fail-on", "count:+10%"]);
    assert_eq!(more.status.code(), Some(3), "{}{}", more.stdout, more.stderr);
    assert!(more.stdout.contains("OVER THE LIMIT"), "{}", more.stdout);
    let junit = diff(&["a.clscope", "c.clscope", "--fail-on", "count:+10%", "--format", "junit"]);
    assert_eq!(junit.status.code(), Some(3));
    assert!(junit.stdout.contains("<failure message="), "{}", junit.stdout);
    // Several runs a side: their spread is the noise, and no note is needed.
    let several = diff(&[
        "a.clscope",
        "b.clscope",
        "--base",
        "b.clscope",
        "--new",
        "a.clscope",
        "--format",
        "json",
    ]);
    let several: Value = serde_json::from_str(&several.success().stdout).unwrap();
    assert_eq!(several["notes"].as_array().unwrap().len(), 0);
    assert!(
        several["rows"].as_array().unwrap().iter().all(|r| r["verdict"] != "more"),
        "{several}"
    );
    for format in ["markdown", "html", "table"] {
        let shown = diff(&["a.clscope", "c.clscope", "--format", format]).success().stdout;
        assert!(shown.contains("launches"), "{format}: {shown}");
    }
}

/// Another timing method is another measurement.
#[test]
fn what_cannot_be_compared_is_named_and_not_judged() {
    let stage = Stage::new(Runtime::Pocl);
    stage.app(Mode::Record, "a", "threads short 100").run().success();
    stage
        .app(Mode::Record, "b", "threads short 100")
        .env("CLSCOPE_DEVICE_TIMING", "sync")
        .run()
        .success();
    let told =
        stage.clscope(["diff", "a.clscope", "b.clscope", "--format", "json"]).run().success();
    let told: Value = serde_json::from_str(&told.stdout).unwrap();
    assert_eq!(
        (&told["comparable"], &told["differences"][0]["what"]),
        (&false.into(), &"device timing".into())
    );
    let judged =
        |row: &&Value| ["more", "less", "same"].contains(&row["verdict"].as_str().unwrap());
    let times = told["rows"].as_array().unwrap().iter().filter(|r| r["metric"] == "time");
    assert_eq!(times.filter(judged).count(), 0, "{told}");
    let refused = stage.clscope(["diff", "a.clscope", "b.clscope", "--fail-on", "time:+5%"]).run();
    assert_eq!(refused.status.code(), Some(1));
    assert!(refused.stderr.contains("device timing differ"), "{}", refused.stderr);
    let none = stage.clscope(["diff", "a.clscope", "none.clscope"]).run();
    assert!(none.status.code() == Some(1) && none.stderr.contains("none.clscope"));
}
