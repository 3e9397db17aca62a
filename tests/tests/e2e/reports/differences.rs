//! `clscope diff` of real applications that were killed, and of several runs a side: what is not
//! whole has no outcome, and says so wherever an outcome would be looked for.

use crate::exports::perfetto::face_detection;
use crate::reports::top::stepwise;
use crate::reports::views::{browsed, chromium};
use clscope_tests::{Mode, Run, Runtime, Stage};
use serde_json::{Value, json};

/// A run of two steps under `clscope record`, killed after the first where it is told.
fn run(stage: &Stage, name: &str, is_killed: bool) {
    let (mut app, pid) = stepwise(stage);
    app.tell("30");
    if is_killed {
        let kill = ["-c", &format!("kill -9 {pid}")];
        Run::new("/bin/sh", stage.path()).args(kill).run().success();
        assert!(!app.end().success());
    } else {
        app.tell("30");
        assert!(app.end().success());
    }
    let from = stage.join("t.clscope");
    std::fs::rename(from, stage.join(&format!("{name}.clscope"))).unwrap();
}

fn compared(stage: &Stage, arguments: &[&str]) -> Value {
    let run = stage.clscope(["diff", "--format", "json"]).args(arguments).run();
    serde_json::from_str(&run.success().stdout).unwrap()
}

/// Rows with an outcome that somebody might act on.
fn judged(document: &Value) -> usize {
    let has =
        |row: &&Value| !["not-judged", "gone", "added"].contains(&row["outcome"].as_str().unwrap());
    document["rows"].as_array().unwrap().iter().filter(has).count()
}

#[test]
fn an_application_that_was_killed_on_one_side_has_no_outcome() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        run(&stage, "whole", false);
        run(&stage, "other", false);
        run(&stage, "killed", true);
        assert!(judged(&compared(&stage, &["whole.clscope", "other.clscope"])) > 0);
        for (base, new, side) in [("whole", "killed", "new"), ("killed", "whole", "base")] {
            let sides = [format!("{base}.clscope"), format!("{new}.clscope")];
            let sides: Vec<&str> = sides.iter().map(String::as_str).collect();
            let why = format!("{side} run killed.clscope ended early");
            let document = compared(&stage, &sides);
            assert_eq!(
                (&document["comparable"], judged(&document)),
                (&false.into(), 0),
                "{document}"
            );
            assert!(document["broken_runs"][0].as_str().unwrap().starts_with(&why), "{document}");
            for (format, begin) in [
                ("table", "outcome: the runs cannot be compared"),
                ("markdown", "**Outcome: the runs cannot be compared"),
            ] {
                let told = stage.clscope(["diff", "--format", format]).args(&sides).run().success();
                assert!(
                    told.stdout.starts_with(begin) && told.stdout.contains(&why),
                    "{}",
                    told.stdout
                );
            }
            // In CI: half the launches are no success, and no regression either, but an error.
            let limits = ["--format", "junit", "--fail-on", "time:+5%,count:+5%"];
            let ci = stage.clscope(["diff"]).args(&sides).args(limits).run();
            assert_eq!(ci.status.code(), Some(1), "{}{}", ci.stdout, ci.stderr);
            assert!(ci.stdout.contains(" errors=\"1\" failures=\"0\""), "{}", ci.stdout);
            assert!(ci.stdout.contains(&format!("<error message=\"{why}")), "{}", ci.stdout);
            assert!(ci.stderr.contains("cannot judge --fail-on") && ci.stderr.contains(&why));
        }
        // Of a pool one is enough.
        let pool = ["whole.clscope,other.clscope", "other.clscope,killed.clscope"];
        let document = compared(&stage, &pool);
        assert_eq!((&document["comparable"], judged(&document)), (&false.into(), 0), "{document}");
    }
}

/// Runs of a side show how much runs differ: nothing is assumed, totals are judged, and the exit
/// code is that of the rows.
#[test]
fn face_detections_are_compared_in_pools() {
    let stage = Stage::new(Runtime::Pocl);
    let names = ["b1", "b2", "b3", "n1", "n2", "n3"].map(|name| format!("{name}.clscope"));
    for name in &names {
        let Some(()) = face_detection(&stage) else { return };
        std::fs::rename(stage.join("t.clscope"), stage.join(name)).unwrap();
    }
    let [b1, b2, b3, n1, n2, n3] = names.each_ref().map(String::as_str);
    let sides = [[b1, b2, b3].join(","), [n1, n2, n3].join(",")];
    let pool = sides.each_ref().map(String::as_str);
    let document = compared(&stage, &pool);
    assert_eq!((&document["comparable"], &document["notes"]), (&true.into(), &json!([])));
    let rows = document["rows"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["assumed_spread"].is_null()), "{document}");
    let total = rows.iter().find(|row| row["name"] == "all kernels" && row["metric"] == "time");
    let total = total.unwrap_or_else(|| panic!("{document}"));
    assert!(total["outcome"] != "not-judged", "{total}");
    let [value, low, high] = ["value", "low", "high"].map(|end| total["change"][end].as_f64());
    assert!(value.is_some() && low <= value && (high.is_none() || value <= high), "{total}");
    // The mean of a side is the geometric one of its runs.
    let times = [b1, b2, b3].map(|name| {
        let run = stage.clscope(["report", name, "--format", "json"]).run().success();
        let report: Value = serde_json::from_str(&run.stdout).unwrap();
        report["totals"]["kernel_ns"].as_f64().unwrap().ln()
    });
    let mean = (times.iter().sum::<f64>() / 3.0).exp();
    assert!((total["base"].as_f64().unwrap() / mean - 1.0).abs() < 1e-9, "{mean} {total}");
    let limits = ["--fail-on", "time:+5%", "--format", "json"];
    let ci = stage.clscope(["diff"]).args(pool).args(limits).run();
    let told: Value = serde_json::from_str(&ci.stdout).unwrap();
    let broken = told["rows"].as_array().unwrap().iter().any(|row| row["breaks"] == true);
    assert_eq!(ci.status.code(), Some(if broken { 3 } else { 0 }), "{}", ci.stderr);
    assert_eq!(told["unjudged"], json!([]), "{told}");
}

/// Differences fit a screen and a phone, on which wide tables scroll by themselves, and load
/// nothing.
#[test]
fn a_browser_shows_differences_on_a_screen_and_a_phone() {
    let Some(chromium) = chromium() else { return };
    let stage = Stage::new(Runtime::Pocl);
    stage.app(Mode::Record, "a", "linked 20").run().success();
    stage.app(Mode::Record, "b", "linked 40").run().success();
    let diff = ["diff", "a.clscope", "b.clscope", "--format", "html", "-o", "d.html"];
    stage.clscope(diff).run().success();
    let seen = browsed(&chromium, &stage, "d.html");
    assert_eq!((&seen["requests"], &seen["errors"]), (&json!([]), &json!([])), "{seen:#}");
    assert_eq!(seen["wide"]["1400"]["tables"], json!([]), "{seen:#}");
    for width in ["1400", "400"] {
        assert!(seen["wide"][width]["page"].as_i64().unwrap() <= 0, "{width}: {seen:#}");
    }
    let styled = seen["background"]["light"] != seen["background"]["dark"];
    assert!(styled && seen["background"]["light"] == "rgb(255, 255, 255)", "{seen:#}");
}
