//! Counters per kernel, the whole way: an emulated GPU whose counters follow what a real
//! application runs, so that the table must be the emulator's own; and every refusal of a kernel,
//! which must not cost the application anything.

use clscope_tests::{Run, Runtime, Stage, artifacts};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Percent of EU time by kernel: EuActive, EuStall, EuFpuBothActive, Fpu0Active, Fpu1Active,
/// EuSendActive, EuThreadOccupancy; shader memory accesses a nanosecond. The same as in
/// `fixtures/oa/shim.c`.
pub const TRUTH: [(&str, [f64; 7], f64); 3] = [
    ("long_one", [60.0, 20.0, 25.0, 50.0, 30.0, 10.0, 75.0], 0.5),
    ("short_one", [90.0, 5.0, 10.0, 80.0, 20.0, 2.0, 100.0], 0.1),
    ("short_two", [10.0, 80.0, 0.0, 5.0, 5.0, 40.0, 25.0], 2.0),
];
pub const FIGURES: [&str; 7] = [
    "EuActive",
    "EuStall",
    "EuFpuBothActive",
    "Fpu0Active",
    "Fpu1Active",
    "EuSendActive",
    "EuThreadOccupancy",
];
/// The UUID of a published configuration, and of one of our own.
pub const COMPUTE_BASIC: &str = "12994724-3a5a-4303-bb3c-ba0175d2c200";
const OWN: &str = "0d1b3a52-7c7e-4f7b-9a43-1f6f5f0f5a01";

/// A tree with one Intel GPU.
pub fn tree(root: &Path, driver: &str, device: &str, loaded: &[&str]) {
    let pci = root.join("sys/devices/0000:00:02.0");
    fs::create_dir_all(pci.join("drm/renderD128")).unwrap();
    fs::create_dir_all(root.join("sys/drivers").join(driver)).unwrap();
    fs::create_dir_all(root.join("sys/class/drm/card0")).unwrap();
    fs::create_dir_all(root.join("dev/dri")).unwrap();
    fs::write(root.join("dev/dri/renderD128"), "").unwrap();
    fs::write(pci.join("device"), format!("{device}\n")).unwrap();
    symlink(root.join("sys/drivers").join(driver), pci.join("driver")).unwrap();
    symlink(&pci, root.join("sys/class/drm/card0/device")).unwrap();
    for uuid in loaded {
        let folder = root.join("sys/class/drm/card0/metrics").join(uuid);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("id"), "2\n").unwrap();
    }
}

/// `clscope record --counters ...` of an application, on a machine with the emulated GPU.
pub fn record(stage: &Stage, driver: &str, options: &[&str], app: &str, seconds: &str) -> Run {
    let a = artifacts();
    let run =
        Run::new(a.clscope(), stage.path()).args(["record", "-f", "-o"]).arg(stage.trace("t"));
    let run = run
        .args(["--sensors", "off", "--device-timing", "event", "--sysfs-root"])
        .arg(stage.join("root"))
        .args(options);
    let run = run.arg("--").arg(a.fixture(app)).arg(seconds);
    // How long the fake library's kernels run.
    let fake = stage.join("fake.script");
    let run = if fake.is_file() { run.env("FAKE_CL_SCRIPT", fake) } else { run };
    stage
        .runtime
        .select(run)
        .env("LD_PRELOAD", a.fixture("oa_shim.so"))
        .env("OA_SCRIPT", stage.join("script"))
        .env("OA_DRIVER", driver)
}

pub fn report(stage: &Stage) -> Value {
    let run = Run::new(artifacts().clscope(), stage.path()).args([
        "report",
        "--format",
        "json",
        "--counter-device",
        "",
    ]);
    serde_json::from_str(&run.arg(stage.trace("t")).run().success().stdout).unwrap()
}

pub fn class<'v>(source: &'v Value, name: &str) -> &'v Value {
    source["classes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|c| c["name"] == name)
        .unwrap_or_else(|| panic!("{name}: {source:#}"))
}

/// Compares a figure with the truth: within half a point, or within its own bounds and these not
/// wide.
#[track_caller]
fn is(value: &Value, truth: f64, scale: f64) {
    let mean = &value["mean"];
    let number =
        |key: &str| mean[key].as_f64().unwrap_or_else(|| panic!("{value:#}, expected {truth}"));
    let (got, low, high) = (number("value"), number("low"), number("high"));
    let slack = 0.005 * scale;
    assert!((got - truth).abs() <= slack, "{got} [{low}, {high}] is not {truth}");
    assert!(low - slack <= truth && truth <= high + slack, "{truth} is not in [{low}, {high}]");
}

#[test]
fn the_table_is_what_the_gpu_counted() {
    let stage = Stage::new(Runtime::Pocl);
    tree(&stage.join("root"), "i915", "0x5916", &[COMPUTE_BASIC]);
    let finished = record(&stage, "i915", &["--counters", "oa"], "oa_kernels", "2").run().success();
    assert!(!finished.stderr.contains("warning"), "{}", finished.stderr);
    let report = report(&stage);
    let source = &report["counters"]["sources"][0];
    assert_eq!(source["source"], "oa:i915:card0", "{report:#}");
    assert!(source["set"].as_str().unwrap().contains("Core"));
    assert!(
        source["notes"]
            .as_array()
            .unwrap()
            .iter()
            .any(|n| n.as_str().unwrap().contains("decoded as specified"))
    );
    for (kernel, percents, accesses) in TRUTH {
        let class = class(source, kernel);
        for (figure, truth) in FIGURES.iter().zip(percents) {
            is(&class["values"][*figure], truth, 100.0);
        }
        is(&class["values"]["ShaderMemoryAccesses"], accesses * 1e9, 2e9);
        is(&class["values"]["GpuBusy"], 100.0, 100.0);
    }
    let long = class(source, "long_one");
    is(&long["values"]["EuAvgIpcRate"], 1.0 + 25.0 / 55.0, 2.0);
    // Three clocks of one stretch of time: the events', the OA unit's at 12 MHz, the core's at 1
    // GHz.
    let clocks = &long["clocks"];
    let event = clocks["event_ns"].as_f64().unwrap();
    assert!((clocks["timestamp_ns"].as_f64().unwrap() / event - 1.0).abs() < 1e-3, "{clocks:#}");
    assert!((clocks["gpu_ticks"].as_f64().unwrap() / event - 1.0).abs() < 1e-3, "{clocks:#}");
    let short = class(source, "short_one");
    assert!(short["values"]["EuAvgIpcRate"]["why"].as_str().unwrap().contains("ratio"));
    // The timeline has the same figures on its spans.
    let run = Run::new(artifacts().clscope(), stage.path()).args([
        "export",
        "chrome",
        "--counter-device",
        "",
        "-o",
        "-",
    ]);
    let timeline = run.arg(stage.trace("t")).run().success().stdout;
    assert!(timeline.contains("\"EuActive (%)\":"), "no counter on any span");
}

/// The figures of the stream over time, in Perfetto and on the page: never more than the kernels'
/// highest, and reached while that kernel ran.
#[test]
fn a_stream_of_counters_is_drawn_over_time() {
    let stage = Stage::new(Runtime::Pocl);
    tree(&stage.join("root"), "i915", "0x5916", &[COMPUTE_BASIC]);
    record(&stage, "i915", &["--counters", "oa"], "oa_kernels", "1").run().success();
    let device = ["t.clscope", "--counter-device", ""];
    let page = ["report", "--format", "html", "-o", "r.html"];
    stage.clscope(page.into_iter().chain(device)).run().success();
    let page = fs::read_to_string(stage.join("r.html")).unwrap();
    let name = "oa:i915:card0 EuActive (%), decoded as specified";
    assert!(page.contains(name) || page.contains("no curve here"), "EuActive is drawn or counted");
    assert!(page.contains("(%), decoded as specified"), "some figure has a curve");
    let timeline = ["export", "perfetto", "-o", "t.pftrace"];
    stage.clscope(timeline.into_iter().chain(device)).run().success();
    let Some(processor) = clscope_tests::viewer::processor() else { return };
    let query = format!(
        "select count(*) n, min(c.value) low, max(c.value) high from counter c join counter_track t on c.track_id = t.id where t.name = '{name}'"
    );
    let answers = clscope_tests::viewer::ask(&processor, &stage.join("t.pftrace"), &[&query]);
    let of = |key: &str| answers[0][0][key].as_f64().unwrap_or_else(|| panic!("{answers:?}"));
    // Windows are joined to 10 ms: what is active in one is a mix of the kernels that ran in it.
    assert!(of("n") > 20.0, "{answers:?}");
    assert!(of("low") >= 0.0 && of("high") > 30.0 && of("high") < 90.5, "{answers:?}");
}

#[test]
fn lost_reports_are_told_and_change_no_figure() {
    let stage = Stage::new(Runtime::Pocl);
    tree(&stage.join("root"), "i915", "0x5916", &[COMPUTE_BASIC]);
    record(&stage, "i915", &["--counters", "oa"], "oa_kernels", "1.5")
        .env("OA_LOSE", "37")
        .run()
        .success();
    let report = report(&stage);
    let source = &report["counters"]["sources"][0];
    assert!(
        source["notes"]
            .as_array()
            .unwrap()
            .iter()
            .any(|n| n.as_str().unwrap().contains("reports were lost")),
        "{source:#}"
    );
    for (kernel, percents, _) in TRUTH {
        is(&class(source, kernel)["values"]["EuActive"], percents[0], 100.0);
    }
}

/// A metric set for the emulated GPU of xe.
fn own_set() -> String {
    let metric = |symbol: &str, unit: &str, equation: &str| {
        format!(
            r#"<counter name="{symbol}" symbol_name="{symbol}" data_type="float" units="{unit}" semantic_type="duration" description="d" equation="{equation}"/>"#
        )
    };
    format!(
        r#"<metrics><set name="Own" chipset="LNL" symbol_name="Own" hw_config_guid="{OWN}">{}{}{}</set></metrics>"#,
        metric("GpuCoreClocks", "cycles", "GPU_CLOCK 0 READ"),
        metric("GpuBusy", "percent", "PEC 32 READ 100 UMUL $GpuCoreClocks FDIV"),
        metric("Active24", "percent", "PEC 4 READ 24 UDIV 100 UMUL $GpuCoreClocks FDIV"),
    )
}

/// An emulated GPU of xe that has the set loaded; the file that describes the set.
pub fn xe_with_own_set(stage: &Stage) -> String {
    tree(&stage.join("root"), "xe", "0x64a0", &[OWN]);
    fs::write(stage.join("oa-lnl.xml"), own_set()).unwrap();
    stage.join("oa-lnl.xml").display().to_string()
}

#[test]
fn xe_streams_are_read_with_a_set_of_a_directory() {
    let stage = Stage::new(Runtime::Pocl);
    let metrics = xe_with_own_set(&stage);
    let options = ["--counters", "oa:Own@0.5", "--metrics", &metrics];
    let finished =
        record(&stage, "xe", &options, "oa_kernels", "1.5").env("OA_LOSE", "50").run().success();
    assert!(!finished.stderr.contains("warning"), "{}", finished.stderr);
    let report = report(&stage);
    let source = &report["counters"]["sources"][0];
    assert_eq!(source["source"], "oa:xe:card0", "{report:#}");
    for (kernel, percents, _) in TRUTH {
        is(&class(source, kernel)["values"]["Active24"], percents[0], 100.0);
        is(&class(source, kernel)["values"]["GpuBusy"], 100.0, 100.0);
    }
}

#[test]
fn a_programmed_counter_is_loaded_through_the_kernel() {
    let stage = Stage::new(Runtime::Pocl);
    tree(&stage.join("root"), "i915", "0x5916", &[COMPUTE_BASIC]);
    let options = ["--counters", "oa", "--counter", "a7=fine:7,coarse:7,inc:0"];
    record(&stage, "i915", &options, "oa_kernels", "0.3").run().success();
    assert_eq!(report(&stage)["counters"]["sources"][0]["source"], "oa:i915:card0");
    // Without privilege: said, and the application runs.
    let finished = record(&stage, "i915", &options, "oa_kernels", "0.1")
        .env("OA_ERRNO", "add:13")
        .run()
        .success();
    assert!(finished.stderr.contains("CAP_PERFMON"), "{}", finished.stderr);
}

#[test]
fn every_refusal_is_said_in_words_and_the_application_runs() {
    let table = [
        ("open:16", "another program has a stream"),
        ("open:13", "CAP_PERFMON"),
        ("open:22", "refused the request as invalid"),
        ("open:19", "not offered by this device"),
        ("open:5", "failed"),
        ("param:5", "asking i915 for a parameter"),
        ("param:22", "does not say how fast it runs"),
    ];
    let stage = Stage::new(Runtime::Pocl);
    tree(&stage.join("root"), "i915", "0x5916", &[COMPUTE_BASIC]);
    for (refusal, words) in table {
        let finished = record(&stage, "i915", &["--counters", "oa"], "oa_kernels", "0.05")
            .env("OA_ERRNO", refusal)
            .run()
            .success();
        assert!(
            finished.stderr.contains("warning: no OA counters of card0")
                && finished.stderr.contains(words),
            "{refusal}: {}",
            finished.stderr
        );
        assert!(report(&stage)["counters"].is_null(), "{refusal}");
    }
    // What fails later is in the trace, and what was counted before stays; nothing was, here.
    for refusal in ["read:5", "regread:22"] {
        record(&stage, "i915", &["--counters", "oa"], "oa_kernels", "0.05")
            .env("OA_ERRNO", refusal)
            .run()
            .success();
        let report = report(&stage);
        let figures = &report["counters"]["sources"][0];
        assert!(!figures["failed"].is_null() || figures.is_null(), "{refusal}: {figures:#}");
    }
    // No such GPU at all, and options that mean nothing.
    fs::remove_dir_all(stage.join("root/sys/class")).unwrap();
    let finished =
        record(&stage, "i915", &["--counters", "oa,gpm"], "oa_kernels", "0.05").run().success();
    assert!(finished.stderr.contains("no GPU of the drivers i915 or xe"), "{}", finished.stderr);
    let refused = record(&stage, "i915", &["--counter", "a7=inc:0"], "oa_kernels", "0.05").run();
    assert!(
        !refused.status.success() && refused.stderr.contains("--counters oa"),
        "{}",
        refused.stderr
    );
}

#[test]
fn perf_events_are_counted_where_there_are_any() {
    let stage = Stage::new(Runtime::Pocl);
    fs::create_dir_all(stage.join("root/sys")).unwrap();
    let finished =
        record(&stage, "i915", &["--counters", "perf"], "oa_kernels", "2").run().success();
    let report = report(&stage);
    let Some(source) = report["counters"]["sources"].as_array().and_then(|s| s.first()) else {
        // A sandbox without perf events: said, not silent.
        assert!(finished.stderr.contains("warning: no perf events"), "{}", finished.stderr);
        clscope_testing::skip("perf events: the kernel gives this process none", false);
        return;
    };
    assert!(source["source"].as_str().unwrap().starts_with("perf:"));
    // CPU time of all threads, ns a second: while a kernel runs somebody works, and nobody works
    // for more than all do.
    let busy = class(source, "long_one")["values"]["task-clock"]["mean"]["value"].as_f64();
    let cores = std::thread::available_parallelism().unwrap().get() as f64;
    assert!(busy.is_none_or(|b| b <= 1.2e9 * cores), "{source:#}");
}

#[test]
fn counters_are_listed_with_what_is_missing() {
    let stage = Stage::new(Runtime::Pocl);
    tree(&stage.join("root"), "i915", "0x5916", &[COMPUTE_BASIC, OWN]);
    let run = |words: &[&str]| {
        let run = Run::new(artifacts().clscope(), stage.path()).env("COLUMNS", "1000");
        run.args(words).run()
    };
    let root = stage.join("root").display().to_string();
    let text = run(&["list-counters", "--sysfs-root", &root]).success().stdout;
    for words in [
        "gpm:",
        "card0 (i915, 0000:00:02.0): Gen9",
        "ComputeBasic",
        "of a set that no file describes",
        "perf:",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(run(&["oa", "sets", "core"]).success().stdout.contains("EuThreadOccupancy"));
    let unknown = run(&["oa", "sets", "nonsense"]);
    assert!(!unknown.status.success() && unknown.stderr.contains("nonsense"), "{}", unknown.stderr);
}
