//! Joules of several runs together, and of a run of which no command has a time.

use crate::energy::{SOON, Tree, emulated, energy_of, flat, number};
use clscope_tests::{Mode, Runtime, Stage};
use serde_json::Value;

/// Each recording counts from its own start: what lies between two is no step of a counter.
#[test]
fn recordings_that_are_reported_together_are_parts_and_no_faults_of_the_sensor() {
    let stage = Stage::new(Runtime::Pocl);
    emulated(&stage);
    std::fs::rename(stage.trace("t"), stage.trace("one")).unwrap();
    // Another start: it wraps, where the first one did not.
    let tree = Tree::new(&stage.join("other"), SOON);
    let root = tree.root.display().to_string();
    tree.record(&stage, &["--sysfs-root", &root, "--idle-window", "0.3"], &[0, 0, 0]);
    let of = |traces: &[&str]| -> Value {
        let run = stage.clscope(["report", "--format", "json"]).args(traces).run().success();
        serde_json::from_str(&run.stdout).unwrap()
    };
    let (one, two, both) =
        (of(&["one.clscope"]), of(&["t.clscope"]), of(&["one.clscope", "t.clscope"]));
    let device = |report: &Value| report["energy"]["devices"][0].clone();
    let notes = device(&both)["notes"].to_string();
    assert!(!notes.contains("backwards"), "{notes}");
    let sum = |field: &str| [&one, &two].map(|r| number(&device(r)[field])).iter().sum::<f64>();
    let all = device(&both);
    for field in ["measured_joules", "time_ns"] {
        assert!((number(&all[field]) / sum(field) - 1.0).abs() < 0.02, "{field}: {both}");
    }
    let launches = |report: &Value| -> u64 {
        let classes = device(report)["classes"].as_array().unwrap().clone();
        classes
            .iter()
            .filter(|c| c["name"] == "alpha")
            .map(|c| c["launches"].as_u64().unwrap())
            .sum()
    };
    assert_eq!(launches(&both), launches(&one) + launches(&two), "{both}");
    assert!(launches(&one) > 0 && launches(&two) > 0);
}

#[test]
fn where_no_command_has_a_time_the_report_asks_for_times_and_not_for_readings() {
    let stage = Stage::new(Runtime::Pocl);
    stage.app(Mode::Record, "t", "linked 30").env("CLSCOPE_DEVICE_TIMING", "off").run().success();
    let (begin, end) = crate::with::extent(&stage, "t");
    std::fs::write(stage.join("readings"), flat(begin - 1e9, end + 1e9, 10.0)).unwrap();
    let device = energy_of(&stage, &["--readings", "readings"]);
    let failed = device["failed"].as_str().unwrap_or_else(|| panic!("{device}"));
    assert!(failed.contains("record with `--device-timing event`"), "{failed}");
    let notes = device["notes"].to_string();
    assert!(!notes.contains("readings a second"), "{notes}");
    assert_eq!(device["classes"], Value::Array(Vec::new()), "{device}");
}
