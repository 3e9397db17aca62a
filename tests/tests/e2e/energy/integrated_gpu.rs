//! A GPU that is a part of the processor's package, on the fake runtime, whose kernels run as long
//! as its script says: power by each formula of the package's planes, and OA counters, which find
//! their device by themselves.

use crate::devices::counters::{COMPUTE_BASIC, FIGURES, TRUTH, class, record, tree};
use crate::energy::{LATE, Plane, Tree, energy, number};
use clscope_tests::{Runtime, Stage};
use serde_json::Value;

/// Watts of a package whose GPU takes 12: 20, less the cores' 5, less the memory's 3.
const WATTS: [Plane; 3] = [
    ("intel-rapl:0", "package-0", 20.0),
    ("intel-rapl:0:0", "core", 5.0),
    ("intel-rapl:0:2", "dram", 3.0),
];

/// A stage whose fake device is an Intel GPU with kernels of these durations, in nanoseconds.
fn stage(kernels: &[(&str, u64)]) -> Stage {
    let stage = Stage::new(Runtime::FakeLoader);
    let mut script = "vendor Intel(R) Corporation\n".to_owned();
    for (kernel, ns) in kernels {
        script.push_str(&format!("duration {kernel} {ns}\n"));
    }
    std::fs::write(stage.join("fake.script"), script).unwrap();
    stage
}

#[test]
fn power_is_what_the_formula_makes_of_the_packages_planes() {
    let stage = stage(&[("alpha", 300_000), ("beta", 500_000)]);
    let tree = Tree::with_planes(&stage.join("tree"), LATE, &WATTS);
    let root = tree.root.display().to_string();
    let options = ["--sysfs-root", &root, "--idle-window", "0.3", "--gpu-power", "pkg-pp0-dram"];
    let shown = tree.record(&stage, &options, &[0, 0, 0]);
    // As recorded, and as asked for when it is reported.
    for (asked, formula, watts) in [
        (None, "pkg-pp0-dram", 12.0),
        (Some("pkg-pp0-dram"), "pkg-pp0-dram", 12.0),
        (Some("pkg-pp0"), "pkg-pp0", 15.0),
        (Some("auto"), "pkg-pp0", 15.0),
    ] {
        let arguments: Vec<&str> = asked.iter().flat_map(|f| ["--gpu-power", f]).collect();
        let energy = energy(&stage, &arguments);
        let device = &energy["devices"][0];
        assert_eq!(device["formula"], formula, "{asked:?}: {device}");
        assert_eq!(device["failed"], Value::Null, "{asked:?}: {device}");
        let seconds = 1e-9 * number(&device["time_ns"]);
        // Three planes, each late for itself.
        let allowed = shown.tolerance(seconds) * 28.0 / watts;
        let mean = number(&device["mean_watts"]);
        assert!((mean / watts - 1.0).abs() < allowed, "{asked:?}: {mean} W, allowed {allowed}");
        // The reference formula is beside whichever was chosen.
        let reference = number(&device["reference_joules"]) / seconds;
        let allowed = shown.tolerance(seconds) * 28.0 / 12.0;
        assert!((reference / 12.0 - 1.0).abs() < allowed, "{reference} W, allowed {allowed}");
        let names: Vec<_> = device["classes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|class| class["name"].as_str().unwrap())
            .collect();
        assert!(names.contains(&"alpha") && names.contains(&"beta"), "{names:?}");
    }
    // A formula that speaks of other planes, or of another kind of GPU, says so and gives nothing.
    for (asked, words) in [("pp1", "PP1"), ("nvml", "NVML"), ("hwmon", "hwmon")] {
        let energy = energy(&stage, &["--gpu-power", asked]);
        let told = energy.to_string();
        assert!(told.contains(words), "{asked}: {told}");
        assert_eq!(energy["devices"], Value::Array(Vec::new()), "{asked}: {told}");
    }
}

/// The truth lies in the figure's interval. Gives whether there is a figure: a busy machine may
/// stop the thread that the kernels run on, so that windows tell little of the short ones. Then it
/// says why, or with which others there is one.
#[track_caller]
fn holds(value: &Value, truth: f64, scale: f64) -> bool {
    if value["mean"].is_null() {
        assert!(value["why"].is_string() || value["only_with"].is_object(), "{value}");
        return false;
    }
    let bound = |key: &str| number(&value["mean"][key]);
    let (low, high, slack) = (bound("low"), bound("high"), 0.005 * scale);
    assert!(low - slack <= truth && truth <= high + slack, "{truth} is not in [{low}, {high}]");
    true
}

#[test]
fn counters_of_the_only_intel_gpu_are_those_of_its_kernels() {
    let stage = stage(&[("long_one", 25_000_000), ("short_one", 100_000), ("short_two", 100_000)]);
    tree(&stage.join("root"), "i915", "0x5916", &[COMPUTE_BASIC]);
    let finished = record(&stage, "i915", &["--counters", "oa"], "oa_kernels", "2").run().success();
    assert!(!finished.stderr.contains("warning"), "{}", finished.stderr);
    let trace = stage.trace("t").display().to_string();
    let told = stage.clscope(["report", "--format", "json", &trace]).run().success().stdout;
    let report: Value = serde_json::from_str(&told).unwrap();
    let source = &report["counters"]["sources"][0];
    assert_eq!(source["source"], "oa:i915:card0", "{report:#}");
    for (kernel, percents, accesses) in TRUTH {
        let class = class(source, kernel);
        let values = &class["values"];
        for (figure, truth) in FIGURES.iter().zip(percents) {
            let told = holds(&values[*figure], truth, 100.0);
            assert!(told || kernel != "long_one", "{figure}: {values}");
        }
        holds(&values["ShaderMemoryAccesses"], accesses * 1e9, 2e9);
        holds(&values["GpuBusy"], 100.0, 100.0);
    }
}
