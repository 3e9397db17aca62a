//! Exact texts of report, dump and timeline for commands whose stamps a script sets. What the
//! host's clock says differs from run to run and is left out; everything else must be as in
//! `tests/goldens/`. `UPDATE_GOLDENS=1` writes them anew.

use clscope_tests::{Mode, Runtime, Stage, artifacts};
use serde_json::{Value, json};

const SCRIPT: &str = "clock 0 0
complete flush
lasts
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
    clscope_testing::golden(&artifacts::root().join("tests/goldens").join(name), found);
}

#[test]
fn the_kernels_of_the_report() {
    let report = stage()
        .clscope(["report", "t.clscope", "--format", "csv", "--section", "kernels"])
        .run()
        .success();
    golden("kernels.csv", &report.stdout);
}

#[test]
fn the_transfers_of_the_report() {
    let report = stage()
        .clscope(["report", "t.clscope", "--format", "csv", "--section", "transfers"])
        .run()
        .success();
    golden("transfers.csv", &report.stdout);
}

/// What happens, in order, with names and arguments and without times of the host.
#[test]
fn the_calls_and_commands_of_the_dump() {
    let dump = stage().clscope(["dump", "t.clscope"]).run().success();
    let mut text = String::new();
    for line in
        dump.stdout.lines().filter(|l| l.contains("cl") && l.contains('(') && !l.contains(" { "))
    {
        // time, process/thread, what happened, duration
        let what = line.split_whitespace().skip(2).collect::<Vec<_>>().join(" ");
        let what = what
            .strip_suffix(" ns")
            .and_then(|w| w.rsplit_once(' '))
            .map_or(what.as_str(), |(w, _)| w);
        text.push_str(what);
        text.push('\n');
    }
    golden("dump.txt", &text);
}

#[test]
fn the_timeline_for_chrome() {
    let stage = stage();
    stage.clscope(["export", "chrome", "t.clscope", "-o", "t.json"]).run().success();
    let timeline: Value =
        serde_json::from_slice(&std::fs::read(stage.join("t.json")).unwrap()).unwrap();
    let mut text = String::new();
    // Where spans lie on the host's timeline is the alignment's affair: the scripted clock is far
    // from the host's.
    for event in timeline["traceEvents"].as_array().unwrap().iter().filter(|e| e["ph"] == "X") {
        let arguments = event["args"].as_object().cloned().unwrap_or_default();
        let kept: serde_json::Map<_, _> =
            arguments.into_iter().filter(|(name, _)| steady(name)).collect();
        text.push_str(&format!(
            "{}\n",
            json!({ "name": event["name"], "cat": event["cat"], "args": kept })
        ));
    }
    golden("chrome.jsonl", &text);
}

/// Whether an argument is the same on every run: what comes out of clocks of the host is not.
fn steady(name: &str) -> bool {
    !["error", "GB", "device_duration", "notice", "moved", "clamped", "host"]
        .iter()
        .any(|n| name.contains(n))
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
    let timeline: Value =
        serde_json::from_slice(&std::fs::read(stage.join("t.json")).unwrap()).unwrap();
    // The device's own length stands beside the drawn one where the two differ.
    let on_device = |e: &&Value| e["cat"].as_str().is_some_and(|cat| cat.starts_with("device,"));
    let length = |e: &Value| {
        let drawn = e["dur"].as_f64().map(|us| (us * 1000.0).round() as u64);
        e["args"]["device_duration_ns"].as_u64().or(drawn)
    };
    let events = timeline["traceEvents"].as_array().unwrap().iter();
    let lengths: Vec<u64> = events.filter(on_device).filter_map(length).collect();
    assert_eq!(lengths, scripted.iter().map(|[.., start, end]| end - start).collect::<Vec<_>>());
}
