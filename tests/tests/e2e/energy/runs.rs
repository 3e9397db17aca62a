//! Joules of several runs together, and of a run of which no command has a time.

use crate::energy::{LATE, SOON, Tree, energy_of, flat, number};
use clscope_tests::{Mode, Runtime, Stage};
use serde_json::Value;
use std::path::PathBuf;

/// Each recording counts from its own start: what lies between two is no step of a counter, and
/// one between two longer ones is as good as they are.
#[test]
fn recordings_that_are_reported_together_are_parts_and_no_faults_of_the_sensor() {
    let stage = Stage::new(Runtime::Pocl);
    let names = ["one", "two", "three"];
    // Where the counters begin, and for how long: the first wraps.
    for (name, start, goes) in [("one", SOON, 3), ("two", LATE, 0), ("three", LATE, 3)] {
        let tree = Tree::new(&stage.join(&format!("tree-{name}")), start);
        let root = tree.root.display().to_string();
        tree.record(&stage, &["--sysfs-root", &root, "--idle-window", "0.3"], &vec![0; goes]);
        std::fs::rename(stage.trace("t"), stage.trace(name)).unwrap();
    }
    let of = |names: &[&str]| -> Value {
        let traces = names.iter().map(|name| format!("{name}.clscope"));
        let run = stage.clscope(["report", "--format", "json"]).args(traces).run().success();
        serde_json::from_str(&run.stdout).unwrap()
    };
    let all = of(&names);
    let notes = all["energy"].to_string();
    assert!(!notes.contains("backwards") && !notes.contains("overlap"), "{notes}");
    let counted = |report: &Value, what: &str| -> f64 {
        let counters = report["energy"]["application"].as_array().unwrap();
        let package = counters.iter().find(|c| c["sensor"].to_string().contains("package-0"));
        number(&package.unwrap_or_else(|| panic!("{report}"))[what])
    };
    for what in ["joules", "time_ns"] {
        let each = names.map(|name| counted(&of(&[name]), what));
        assert!(each.iter().all(|part| *part > 0.0), "{each:?}");
        let sum: f64 = each.iter().sum();
        assert!((counted(&all, what) / sum - 1.0).abs() < 0.02, "{what}: {each:?} {all}");
    }
    // What lies between two runs is no gap between launches of either.
    let gaps = number(&all["energy"]["devices"][0]["gaps"]["time_ns"]);
    let idle = all["devices"].as_array().unwrap().iter().map(|d| number(&d["idle_ns"]));
    let idle: f64 = idle.sum();
    assert!(gaps <= 1.02 * idle + 1e6, "{gaps} ns of {idle}");
    // What ran in records that are lost is no rest.
    let lost = "records of the trace are missing";
    let notes = |report: &Value| report["energy"]["devices"][0]["notes"].to_string();
    assert!(!notes(&of(&["one"])).contains(lost));
    let files = std::fs::read_dir(stage.trace("one")).unwrap().map(|entry| entry.unwrap().path());
    let is_segment = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.ends_with(".clt") && name != "sensors.clt"
    };
    let segment = files.into_iter().find(is_segment).unwrap();
    let mut bytes = std::fs::read(&segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 64].fill(0xff);
    std::fs::write(&segment, bytes).unwrap();
    assert!(notes(&of(&["one"])).contains(lost), "{}", of(&["one"]));
}

#[test]
fn where_no_command_has_a_time_the_report_asks_for_times_and_not_for_readings() {
    let stage = Stage::new(Runtime::Pocl);
    stage.app(Mode::Record, "t", "linked 30").env("CLSCOPE_DEVICE_TIMING", "off").run().success();
    let (begin, end) = crate::energy::with::extent(&stage, "t");
    std::fs::write(stage.join("readings"), flat(begin - 1e9, end + 1e9, 10.0)).unwrap();
    let device = energy_of(&stage, &["--readings", "readings"]);
    let failed = device["failed"].as_str().unwrap_or_else(|| panic!("{device}"));
    assert!(failed.contains("record with `--device-timing event`"), "{failed}");
    let notes = device["notes"].to_string();
    assert!(!notes.contains("readings a second"), "{notes}");
    assert_eq!(device["classes"], Value::Array(Vec::new()), "{device}");
}
