//! Joules of a captured launch, by an emulated package whose counters rise steadily.

use super::captures::saxpy;
use crate::energy::{LATE, Tree};
use clscope_tests::{Runtime, Stage};
use serde_json::Value;

/// What the package draws, whatever runs.
const WATTS: f64 = 40.0;

#[test]
fn joules_of_a_launch_are_those_of_its_share_of_the_time() {
    let stage = Stage::new(Runtime::Pocl);
    let capture = saxpy(&stage.join("saxpy.1")).write();
    let tree =
        Tree::with_planes(&stage.join("tree"), LATE, &[("intel-rapl:0", "package-0", WATTS)]);
    let root = tree.root.display().to_string();
    let words = ["kernel", &capture, "--sysfs-root", &root, "--repeat", "6", "--format", "json"];
    let ran = tree.rises(|| stage.clscope(words).run()).success();
    let found: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(clscope_testing::schema::text_breaches(&ran.stdout), Vec::<String>::new());
    let energy = &found["base"]["energy"];
    let number = |of: &Value| of.as_f64().unwrap_or_else(|| panic!("{found:#}"));
    let interval = |of: &Value| (number(&of["low"]), number(&of["value"]), number(&of["high"]));
    // Counters that a busy machine raises late make it wider than it is on a quiet one.
    let (low, watts, high) = interval(&energy["watts"]);
    assert!((WATTS / 2.0..WATTS * 2.0).contains(&watts) && low <= watts && watts <= high);
    assert!(energy["sensor"].as_str().unwrap().starts_with("RAPL PKG of 1 package"), "{energy}");
    // Memories are restored before each launch, and what that draws is taken off: a launch has less
    // than its turn, and something.
    let (low, joules, high) = interval(&energy["joules"]);
    let turn = watts * 1e-9 * number(&energy["metered_ns"]) / number(&energy["launches"]);
    assert!(low <= joules && joules <= high && joules < turn * 1.01, "{energy:#}");
    assert!(ran.stderr.contains("measuring joules"), "{}", ran.stderr);
    // The emulated package draws the same without work: nothing is above that, as far as is known.
    let (low, _, high) = interval(&energy["joules_above_idle"]);
    assert!(low < high, "{energy:#}");
    // A tree without sensors: no joules, and why.
    let empty = stage.join("empty");
    std::fs::create_dir(&empty).unwrap();
    let empty = empty.display().to_string();
    let words = ["kernel", &capture, "--sysfs-root", &empty, "--repeat", "6", "--format", "json"];
    let ran = stage.clscope(words).run().success();
    let found: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(found["base"]["energy"], Value::Null);
    assert!(found["base"]["energy_missing"].as_str().is_some_and(|why| !why.is_empty()));
}
