//! Counters that an application reads around its own commands: with an emulated GPU that counts
//! exactly what ran, the table must be its truth even for kernels far shorter than any sampling
//! resolves; on real runtimes, what is read must be plausible.

use crate::devices::counters::{
    COMPUTE_BASIC, FIGURES, TRUTH, class, record, report, tree, xe_with_own_set,
};
use clscope_tests::{Mode, Run, Runtime, Stage, artifacts};
use serde_json::Value;
use std::fs;

/// As [`record`], with an emulated GPU that sees launches itself.
fn snapshot(stage: &Stage, driver: &str, options: &[&str], seconds: &str) -> Run {
    let all: Vec<&str> = [&["--snapshot"], options].concat();
    record(stage, driver, &all, "oa_kernels", seconds).env("OA_LIVE", "1")
}

fn source<'v>(report: &'v Value, prefix: &str) -> &'v Value {
    let all = report["counters"]["sources"]
        .as_array()
        .unwrap_or_else(|| panic!("no counters: {report:#}"));
    all.iter()
        .find(|s| s["source"].as_str().unwrap().starts_with(prefix))
        .unwrap_or_else(|| panic!("no {prefix}: {report:#}"))
}

fn noted(source: &Value, words: &str) -> bool {
    source["notes"].as_array().unwrap().iter().any(|n| n.as_str().unwrap().contains(words))
}

/// The mean, which must be the truth to a tenth of a point: nothing is interpolated.
#[track_caller]
fn is(value: &Value, truth: f64) {
    let got = value["mean"]["value"].as_f64().unwrap();
    assert!((got - truth).abs() <= 0.1 + 1e-3 * truth, "{got} is not {truth}");
}

fn dumped(stage: &Stage) -> Vec<Value> {
    let run = Run::new(artifacts().clscope(), stage.path())
        .args(["dump", "--format", "json"])
        .arg(stage.trace("t"));
    run.run().success().stdout.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}

#[test]
fn each_launch_has_what_it_counted() {
    let stage = Stage::new(Runtime::Pocl);
    tree(&stage.join("root"), "i915", "0x5916", &[COMPUTE_BASIC]);
    let finished = snapshot(&stage, "i915", &["--counters", "oa"], "1").run().success();
    assert!(!finished.stderr.contains("warning"), "{}", finished.stderr);
    let report = report(&stage);
    let oa = source(&report, "oa:i915:card0");
    assert!(noted(oa, "method snapshot") && noted(oa, "decoded as specified"), "{oa:#}");
    for (kernel, percents, accesses) in TRUTH {
        let class = class(oa, kernel);
        for (figure, truth) in FIGURES.iter().zip(percents) {
            is(&class["values"][*figure], truth);
        }
        is(&class["values"]["ShaderMemoryAccesses"], accesses * 1e9);
        // Even of kernels of 100 us, a fifth of a period: nothing else ran.
        is(
            &class["values"]["EuAvgIpcRate"],
            1.0 + percents[2] / (percents[3] + percents[4] - percents[2]),
        );
    }
    // The GPU's clock was read closer to each launch than its counters, and farther than its span.
    let timer = source(&report, "timer:i915:card0");
    for (kernel, ..) in TRUTH {
        let (around, events) = (class(timer, kernel), class(oa, kernel));
        let between = around["values"]["between-readings"]["mean"]["value"].as_f64().unwrap();
        let clocks = &events["clocks"];
        let launches = clocks["launches"].as_f64().unwrap();
        let mean = |key: &str| clocks[key].as_f64().unwrap() / launches;
        assert!(
            mean("event_ns") <= between && between <= mean("timestamp_ns"),
            "{between}: {clocks:#}"
        );
    }
    // The trace has each launch's own counts, and the timeline its figures.
    let lines = dumped(&stage);
    let launches: Vec<&Value> = lines.iter().filter(|l| l["event"] == "command").collect();
    assert!(!launches.is_empty());
    for launch in launches {
        let stamps = &launch["times"]["device_ns"];
        let ran = stamps[3].as_f64().unwrap() - stamps[2].as_f64().unwrap();
        let counts = &launch["counters"].as_array().unwrap_or_else(|| panic!("{launch:#}"))[0];
        // A0 of the emulated GPU counts a nanosecond of any kernel; reports lie between whole ticks
        // of 83 ns.
        let busy = counts["counts"]["A0"].as_f64().unwrap();
        assert!((busy - ran).abs() <= 1.0, "{busy} of {ran}: {launch:#}");
    }
    let run = Run::new(artifacts().clscope(), stage.path()).args([
        "export",
        "chrome",
        "--counter-device",
        "",
        "-o",
        "-",
    ]);
    let timeline: Value =
        serde_json::from_str(&run.arg(stage.trace("t")).run().success().stdout).unwrap();
    let spans = timeline["traceEvents"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|e| e["args"]["EuActive (%)"].is_number())
        .count();
    assert!(spans > 3, "{spans} spans with counters");
    assert!(!stage.trace("t").join("counters.plan").exists(), "the plan is for the run alone");
}

#[test]
fn xe_streams_are_read_around_commands_and_losses_are_left_out() {
    let stage = Stage::new(Runtime::Pocl);
    let metrics = xe_with_own_set(&stage);
    let options = ["--counters", "oa:Own@0.2", "--metrics", &metrics];
    let finished = snapshot(&stage, "xe", &options, "1").env("OA_LOSE", "50").run().success();
    assert!(!finished.stderr.contains("warning"), "{}", finished.stderr);
    let report = report(&stage);
    let oa = source(&report, "oa:xe:card0");
    assert!(noted(oa, "commands were left out: reports of theirs are missing"), "{oa:#}");
    for (kernel, percents, _) in &TRUTH[1..] {
        is(&class(oa, kernel)["values"]["Active24"], percents[0]);
        is(&class(oa, kernel)["values"]["GpuBusy"], 100.0);
    }
}

#[test]
fn what_cannot_be_read_around_commands_is_said() {
    let stage = Stage::new(Runtime::Pocl);
    tree(&stage.join("root"), "i915", "0x5916", &[COMPUTE_BASIC]);
    let refused = snapshot(&stage, "i915", &["--counters", "gpm"], "0.1").run();
    assert!(
        !refused.status.success() && refused.stderr.contains("every 100 ms"),
        "{}",
        refused.stderr
    );
    for (errno, words) in [("open:16", "another program has a stream"), ("open:13", "CAP_PERFMON")]
    {
        let finished = snapshot(&stage, "i915", &["--counters", "oa"], "0.05")
            .env("OA_ERRNO", errno)
            .run()
            .success();
        assert!(finished.stderr.contains(words), "{errno}: {}", finished.stderr);
        assert!(report(&stage)["counters"].is_null(), "{errno}");
    }
    // The stream may also fail in the application, after this command found it good.
    let finished = snapshot(&stage, "i915", &["--counters", "oa"], "0.05")
        .env("OA_ERRNO", "read:5")
        .run()
        .success();
    assert!(finished.stderr.contains("could not be read around a command"), "{}", finished.stderr);
}

#[test]
fn without_the_command_a_configuration_is_named() {
    let stage = Stage::new(Runtime::Pocl);
    tree(&stage.join("root"), "i915", "0x5916", &[COMPUTE_BASIC]);
    let a = artifacts();
    let run = stage.runtime.select(Run::new(a.fixture("oa_kernels"), stage.path())).args(["0.3"]);
    let preload = format!("{} {}", a.fixture("oa_shim.so").display(), a.recorder().display());
    let run = run
        .env("LD_PRELOAD", preload)
        .env("CLSCOPE_TRACE", stage.trace("t"))
        .env("CLSCOPE_DEVICE_TIMING", "event");
    let run =
        run.env("CLSCOPE_SNAPSHOT", "1").env("CLSCOPE_COUNTERS", format!("oa:{COMPUTE_BASIC}"));
    let run = run
        .env("CLSCOPE_SYSFS_ROOT", stage.join("root"))
        .env("OA_SCRIPT", stage.join("script"))
        .env("OA_LIVE", "1");
    run.run().success();
    let report = report(&stage);
    // No set: counts as they come, per second. EuActive is A7 over 24 EUs and the clock.
    for (kernel, percents, _) in TRUTH {
        let a7 = &class(source(&report, "oa:i915:card0"), kernel)["values"]["A7"];
        let got = a7["mean"]["value"].as_f64().unwrap_or_else(|| panic!("{a7:#}"));
        assert!((got / (percents[0] * 0.01 * 24e9) - 1.0).abs() < 0.01, "{kernel}: {a7:#}");
    }
}

#[test]
fn perf_events_and_device_timers_of_real_runtimes() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime.clone());
        fs::create_dir_all(stage.join("root/sys")).unwrap();
        let finished =
            record(&stage, "i915", &["--snapshot", "--counters", "perf"], "oa_kernels", "0.5")
                .run()
                .success();
        let report = report(&stage);
        if finished.stderr.contains("perf events are not read around commands") {
            clscope_testing::skip("perf events: the kernel gives this process none", false);
            continue;
        }
        let perf = source(&report, "perf:");
        let long = &class(perf, "long_one")["values"]["task-clock"];
        let cores = std::thread::available_parallelism().unwrap().get() as f64;
        let busy = long["mean"]["value"].as_f64().unwrap();
        assert!(busy > 0.0 && busy <= 1.5e9 * cores, "{perf:#}");
        // Intel's runtime tells its device's time; PoCL refuses to.
        if matches!(runtime, Runtime::Intel(_)) {
            let timer = class(source(&report, "timer:clGetDeviceAndHostTimer"), "long_one");
            let between = timer["values"]["between-readings"]["mean"]["value"].as_f64().unwrap();
            assert!(
                between
                    >= 0.99 * timer["covered_ns"].as_f64().unwrap()
                        / timer["launches"].as_f64().unwrap(),
                "{timer:#}"
            );
        }
    }
}

/// An application on the fake runtime, whose queues count; the reports' length, or how it refuses.
fn queue_counters(stage: &Stage, line: &str, reports: Option<&str>) -> clscope_tests::Finished {
    stage.forget("t");
    let run = stage.app(Mode::Preload, "t", line).env("CLSCOPE_COUNTERS", "intel-queue");
    reports
        .iter()
        .fold(run, |run, reports| run.env("FAKE_QUEUE_COUNTERS", *reports))
        .run()
        .success()
}

#[test]
fn queues_of_the_runtime_that_count_are_used_and_their_reports_kept() {
    let stage = Stage::new(Runtime::FakeLoader);
    let finished = queue_counters(&stage, "many_commands 20", Some("672"));
    assert!(!finished.stderr.contains("clscope: "), "{}", finished.stderr);
    let report = report(&stage);
    let queue = source(&report, "intel-queue:0");
    assert!(noted(queue, "decoded as specified") && noted(queue, "method queue"), "{queue:#}");
    let values = &class(queue, "increment")["values"];
    // The fake counts two ticks a nanosecond, and three of A7.
    for (counter, rate) in
        [("GpuTime", 1e9), ("GpuCoreClocks", 2e9), ("A7", 3e9), ("A8", 0.0), ("C7", 0.0)]
    {
        let got = values[counter]["mean"]["value"].as_f64().unwrap();
        assert!((got - rate).abs() <= 0.01 * rate, "{counter}: {got}");
    }
    let own = dumped(&stage)
        .iter()
        .filter(|l| l["event"] == "command" && l["counters"][0]["source"] == "intel-queue:0")
        .count();
    assert_eq!(own, 22, "20 launches, a write and a read");
}

#[test]
fn reports_of_an_unknown_layout_are_kept_as_they_are() {
    let stage = Stage::new(Runtime::FakeLoader);
    queue_counters(&stage, "many_commands 3", Some("104"));
    let counters = |l: &Value| (l["event"] == "command").then(|| l["counters"][0].clone());
    let all: Vec<Value> = dumped(&stage).iter().filter_map(counters).collect();
    assert_eq!(all.len(), 5, "three launches, a write and a read");
    for of in all {
        assert_eq!(
            (of["bytes"].as_u64(), of["raw"].as_str().map(str::len)),
            (Some(104), Some(208)),
            "{of:#}"
        );
    }
    let report = report(&stage);
    assert!(
        noted(source(&report, "intel-queue:0"), "5 reports of 104 bytes"),
        "{:#}",
        report["counters"]
    );
}

#[test]
fn a_runtime_that_refuses_such_queues_gives_the_usual_ones() {
    let stage = Stage::new(Runtime::FakeLoader);
    for (reports, words) in [
        (None, "has no clCreatePerfCountersCommandQueueINTEL"),
        (Some("refuse"), "CL_INVALID_DEVICE (-33)"),
    ] {
        let finished = queue_counters(&stage, "many_commands 3", reports);
        assert!(finished.stderr.contains(words), "{}", finished.stderr);
        assert!(report(&stage)["counters"].is_null());
    }
    let finished = queue_counters(&stage, "multi_queue 2 5 out-of-order", Some("672"));
    assert!(finished.stderr.contains("such queues are in order"), "{}", finished.stderr);
}

#[test]
fn an_application_cannot_tell_that_its_queues_count() {
    let stage = Stage::new(Runtime::FakeDriver);
    let run = |mode| {
        let run = stage
            .app(mode, "t", "conform --isolate")
            .env("CLSCOPE_COUNTERS", "intel-queue")
            .env("FAKE_QUEUE_COUNTERS", "672");
        run.run().stdout
    };
    let (bare, counted) = (run(Mode::Bare), run(Mode::Preload));
    assert!(bare.lines().count() > 100, "{bare}");
    assert_eq!(bare, counted);
}
