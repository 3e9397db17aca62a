//! Repetitions of one run serve another of the same application (`report --with`).

use crate::energy::{LATE, Tree, flat};
use clscope_tests::{Mode, Runtime, Stage};
use serde_json::Value;

/// Begin and end of everything in a trace, nanoseconds on the host's clock.
pub fn extent(stage: &Stage, name: &str) -> (f64, f64) {
    let out = stage.join(&format!("{name}.json"));
    let (trace, file) = (stage.trace(name).display().to_string(), out.display().to_string());
    stage.clscope(["export", "chrome", &trace, "-o", &file]).run().success();
    let document: Value = serde_json::from_slice(&std::fs::read(out).unwrap()).unwrap();
    let origin = document["otherData"]["origin_ns"].as_f64().unwrap();
    let ends = document["traceEvents"].as_array().unwrap().iter().filter_map(|e| {
        Some(origin + 1e3 * (e["ts"].as_f64()? + e["dur"].as_f64().unwrap_or(0.0)))
    });
    (origin, ends.fold(origin, f64::max))
}

#[test]
fn repetitions_of_one_run_tell_the_joules_of_another() {
    let stage = Stage::new(Runtime::Pocl);
    let app = clscope_tests::artifacts().fixture("accumulate").display().to_string();
    let [lent, plain, other] =
        ["lent", "plain", "other"].map(|n| stage.trace(n).display().to_string());
    let record = |trace: &str, more: &[&str]| {
        let all = ["record", "-q", "-o", trace, "--sensors", "off", "--device-timing", "event"];
        let words = all.iter().chain(more).copied().chain(["--", &app, "3000", "assign"]);
        stage.clscope(words).run().success().stdout
    };
    let bare =
        stage.app(Mode::Bare, "b", "accumulate").args(["3000", "assign"]).run().success().stdout;
    let tree = Tree::with_planes(&stage.join("tree"), LATE, &[("intel-rapl:0", "package-0", 10.0)]);
    let root = tree.root.display().to_string();
    let measure = |trace: &str| {
        let words = ["replay", "-q", trace, "--for", "10s", "--sysfs-root", &root];
        tree.rises(|| stage.clscope(words).run().success());
    };
    assert_eq!(record(&lent, &["--capture", "*"]), bare);
    measure(&lent);
    assert_eq!(record(&plain, &[]), bare);
    let short = stage.trace("short").display().to_string();
    stage
        .clscope(["record", "-q", "-o", &short, "--sensors", "off", "--", &app, "3"])
        .run()
        .success();
    // Whatever runs or does not, the package draws 10 W, during all runs.
    let (begin, to) = (extent(&stage, "lent").0 - 4e9, extent(&stage, "short").1 + 1e9);
    std::fs::write(stage.join("readings"), flat(begin, to, 10.0)).unwrap();
    let readings = stage.join("readings").display().to_string();
    let report = |more: &[&str]| {
        let all = ["report", "--all", &plain, "--readings", &readings];
        stage.clscope(all.iter().chain(more)).run().success().stdout
    };
    let report_json = |more: &[&str]| -> Value {
        let words: Vec<&str> = ["--format", "json"].iter().chain(more).copied().collect();
        serde_json::from_str(&report(&words)).unwrap()
    };
    let alone = &report_json(&[])["energy"]["devices"][0];
    assert_eq!(
        (&alone["repetitions"], alone["replays"].as_array().unwrap().len()),
        (&Value::Null, 0)
    );
    let device = &report_json(&["--with", &lent])["energy"]["devices"][0];
    let from = device["repetitions"]["from"].as_str().unwrap_or_else(|| panic!("{device}"));
    assert!(from.contains("lent.clscope"), "{from}");
    // They took none of this run's time.
    assert_eq!(device["repetitions"]["length_ns"], 0.0);
    let mut known = 0;
    for name in ["accumulate", "assign"] {
        let replays = device["replays"].as_array().unwrap();
        let of = replays.iter().find(|r| r["name"] == name).unwrap_or_else(|| panic!("{device}"));
        let watts = of["watts"]["value"].as_f64().unwrap_or_else(|| panic!("{of}"));
        // A busy machine raises the counter late.
        assert!((watts / 10.0 - 1.0).abs() < 0.3, "{of}");
        let classes = device["classes"].as_array().unwrap();
        let row: Vec<_> = classes.iter().filter(|c| c["name"] == name).collect();
        assert_eq!(row.len(), 1, "{classes:?}");
        // Of a launch of a millisecond a busy machine leaves too wide an interval: that is said.
        let is_known = row[0]["joules_per_launch"]["value"].as_f64() > Some(0.0);
        assert_eq!(is_known, row[0]["why"].is_null(), "{}", row[0]);
        known += usize::from(is_known);
    }
    assert!(known > 0, "{device}");
    let text = report(&["--section", "energy", "--with", &lent]);
    assert!(text.contains("lent.clscope"), "{text}");
    // Nor is what cannot be used passed over in silence.
    let note = |more: &[&str]| report_json(more)["energy"]["devices"][0]["notes"].to_string();
    let rounds = clscope_tests::artifacts().fixture("rounds").display().to_string();
    let foreign = stage.trace("foreign").display().to_string();
    let words =
        ["record", "-o", &foreign, "--sensors", "off", "--capture", "*", "--", &rounds, "9"];
    stage.clscope(words).run().success();
    measure(&foreign);
    let readings_of_all = flat(begin, extent(&stage, "foreign").1 + 1e9, 10.0);
    std::fs::write(stage.join("readings"), readings_of_all).unwrap();
    let notes = note(&["--with", &foreign]);
    assert!(
        notes.contains(
            "foreign.clscope (--with) is not used: none of its kernels and copies ran here"
        ),
        "{notes}"
    );
    let notes = note(&["--idle-power", "9000"]);
    assert!(notes.contains("idle power of 9000 W (--idle-power) is not used"), "{notes}");
    // A run that is too short for any sensor has what repetitions say of its launches.
    let words = ["report", &short, "--format", "json", "--readings", &readings, "--with", &lent];
    let told: Value = serde_json::from_str(&stage.clscope(words).run().success().stdout).unwrap();
    let device = &told["energy"]["devices"][0];
    assert!(!device["failed"].is_null(), "{device}");
    let words = ["report", "--all", &short, "--readings", &readings, "--with", &lent];
    let text = stage.clscope(words).run().success().stdout;
    assert!(text.contains("single launches") && text.contains("accumulate"), "{text}");
    assert!(device["replays"][0]["joules_per_launch"]["value"].as_f64() > Some(0.0), "{device}");
    // What cannot be lent is an error that says what to do.
    assert!(record(&other, &[]) == bare);
    for (with, said) in [(other.as_str(), "record --replay"), ("absent", "absent")] {
        let refused = stage
            .clscope(["report", "--all", &plain, "--readings", &readings, "--with", with])
            .run();
        assert!(refused.seen().0 != Some(0) && refused.stderr.contains(said), "{}", refused.stderr);
    }
}
