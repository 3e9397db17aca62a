//! `clscope overhead` with the recorder as it is shipped: the self-test gives figures, and a
//! trace's share follows from them. Refuses to judge their size: that is the machine's.

use clscope_tests::{Mode, Runtime, Stage};
use serde_json::Value;

#[test]
fn the_cost_of_recording_is_measured_and_a_traces_share_follows() {
    let stage = Stage::new(Runtime::FakeLoader);
    stage.app(Mode::Preload, "t", "linked 3").run().success();
    let found = stage.clscope(["overhead", "t.clscope", "--format", "json"]).run().success();
    // It keeps to its schema: the stage checks every document.
    let document: Value = serde_json::from_str(&found.stdout).unwrap();
    let (measured, recording) = (&document["measured"], &document["recording"]);
    for name in ["floor_ns", "first_call_ns", "load_ns"] {
        assert!(measured[name].as_f64() > Some(0.0), "{name} of {document:#}");
    }
    let figure = |of: &Value, name: &str| of[name].as_f64().unwrap();
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.max(1.0);
    let launch = figure(measured, "launch_ns") + figure(measured, "harvest_ns");
    assert!(near(figure(recording, "call_ns"), figure(measured, "call_ns")), "{document:#}");
    assert!(near(figure(recording, "command_ns"), launch), "{document:#}");
    assert!(recording["of_wall"].is_number(), "{document:#}");
    let left = std::fs::read_dir(stage.path()).unwrap().flatten().map(|e| e.file_name());
    let own = |name: &std::ffi::OsString| name.to_string_lossy().starts_with(".clscope-overhead");
    assert_eq!(left.filter(own).count(), 0, "the self-test's trace is removed");
}
