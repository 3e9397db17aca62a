//! Exact texts of report, dump and timeline for commands whose stamps a script sets. What the host's clock says differs from
//! run to run and is left out; everything else must be as in `tests/goldens/`. `UPDATE_GOLDENS=1` writes them anew.

use clscope_tests::{Mode, Runtime, Stage, artifacts};
use serde_json::{Value, json};

const SCRIPT: &str = "clock 0 0
complete flush
1000000 1001000 1002000 1005000
1010000 1011000 1012000 1022000
1030000 1031000 1032000 1132000
1140000 1141000 1142000 1150000
";

/// Three launches and a blocking read with scripted stamps.
fn stage() -> Stage {
    let stage = Stage::new(Runtime::FakeLoader);
    let script = stage.join("script");
    std::fs::write(&script, SCRIPT).unwrap();
    stage.app(Mode::Preload, "t", "linked 3").env("FAKE_CL_SCRIPT", &script).run().success();
    stage
}

#[track_caller]
fn golden(name: &str, found: &str) {
    let path = artifacts::root().join("tests/goldens").join(name);
    if std::env::var_os("UPDATE_GOLDENS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}; UPDATE_GOLDENS=1 writes it", path.display()));
    assert_eq!(found, expected, "{name}");
}

#[test]
fn the_kernels_of_the_report() {
    let report = stage().clscope(["report", "t.clscope", "--format", "csv", "--section", "kernels"]).run().success();
    golden("kernels.csv", &report.stdout);
}

#[test]
fn the_transfers_of_the_report() {
    let report = stage().clscope(["report", "t.clscope", "--format", "csv", "--section", "transfers"]).run().success();
    golden("transfers.csv", &report.stdout);
}

/// What happens, in order, with names and arguments and without times of the host.
#[test]
fn the_calls_and_commands_of_the_dump() {
    let dump = stage().clscope(["dump", "t.clscope"]).run().success();
    let mut text = String::new();
    for line in dump.stdout.lines().filter(|l| l.contains("cl") && l.contains('(') && !l.contains(" { ")) {
        // time, process/thread, what happened, duration
        let what = line.split_whitespace().skip(2).collect::<Vec<_>>().join(" ");
        let what = what.strip_suffix(" ns").and_then(|w| w.rsplit_once(' ')).map_or(what.as_str(), |(w, _)| w);
        text.push_str(what);
        text.push('\n');
    }
    golden("dump.txt", &text);
}

#[test]
fn the_timeline_for_chrome() {
    let stage = stage();
    stage.clscope(["export", "chrome", "t.clscope", "-o", "t.json"]).run().success();
    let timeline: Value = serde_json::from_slice(&std::fs::read(stage.join("t.json")).unwrap()).unwrap();
    let mut text = String::new();
    for event in timeline["traceEvents"].as_array().unwrap() {
        let category = event["cat"].as_str().unwrap_or_default();
        let host = category.starts_with("host");
        let arguments = event["args"].as_object().cloned().unwrap_or_default();
        // Stamps of the device are scripted; when the host saw them, and how exactly clocks agree, is not.
        let kept: serde_json::Map<_, _> = arguments.into_iter().filter(|(k, v)| steady(k, v)).collect();
        let shown = json!({
            "ph": event["ph"], "name": event["name"].as_str().map(|n| n.split(" (").next()), "cat": event["cat"],
            "dur": if host { Value::Null } else { event["dur"].clone() }, "args": kept,
        });
        text.push_str(&format!("{shown}\n"));
    }
    golden("chrome.jsonl", &text);
}

/// Whether an argument is the same on every run.
fn steady(name: &str, value: &Value) -> bool {
    const NOT: [&str; 8] = ["bound", "noticed", "clamped", "moved", "delay", "wait", "uncertain", "queued"];
    let text = value.as_str().unwrap_or_default();
    !NOT.iter().any(|n| name.contains(n)) && !text.contains("linked (") && name != "name"
}

/// The device's times in the timeline are the scripted ones, to the nanosecond.
#[test]
fn device_spans_have_the_scripted_lengths() {
    let stage = stage();
    let recorded = clscope_tests::Recorded::read(&[&stage.trace("t")]);
    let stamps: Vec<_> = recorded.only().commands.iter().map(|c| c.raw().unwrap()).collect();
    let scripted: Vec<[u64; 4]> = SCRIPT
        .lines()
        .filter(|l| l.starts_with('1'))
        .map(|l| l.split(' ').map(|n| n.parse().unwrap()).collect::<Vec<u64>>().try_into().unwrap())
        .collect();
    assert_eq!(stamps, scripted);
    stage.clscope(["export", "chrome", "t.clscope", "-o", "t.json"]).run().success();
    let timeline: Value = serde_json::from_slice(&std::fs::read(stage.join("t.json")).unwrap()).unwrap();
    let device = |e: &&Value| e["ph"] == "X" && !e["cat"].as_str().unwrap_or_default().starts_with("host");
    let lengths: Vec<f64> = timeline["traceEvents"].as_array().unwrap().iter().filter(device).filter_map(|e| e["dur"].as_f64()).collect();
    for [.., start, end] in scripted {
        let length = (end - start) as f64 / 1000.0;
        assert!(lengths.iter().any(|l| (l - length).abs() < 1e-6), "{length} us in {lengths:?}");
    }
}
