//! `clscope stat`: an application that runs several times as it does alone, and figures of all
//! runs.

use clscope_tests::{Mode, Runtime, Stage};
use serde_json::Value;

#[test]
fn an_application_is_run_several_times_and_its_figures_have_spreads() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let bare = stage.app(Mode::Bare, "b", "rounds 200 4096").run().success().stdout;
        let app = clscope_tests::artifacts().fixture("rounds").display().to_string();
        let file = stage.join("stat.json").display().to_string();
        let words = ["stat", "-r", "3", "--warm-up", "1", "--format", "json", "--to", &file];
        let told = stage.clscope(words.iter().chain(&["--", &app, "200", "4096"])).run().success();
        assert_eq!(told.stdout, bare.repeat(4));
        assert_eq!(told.stderr, "", "figures go to the file alone");
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(clscope_testing::schema::text_breaches(&text), Vec::<String>::new());
        let of: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&of["runs"], &of["command"][1]), (&3.into(), &"200".into()));
        let (wall, kernels) = (&of["wall_ns"], &of["kernel_ns"]);
        for spread in [wall, kernels, &of["transfer_ns"], &of["user_ns"]] {
            let figure = |name: &str| spread[name].as_f64().unwrap_or_else(|| panic!("{spread}"));
            let mean = spread["mean"]["value"].as_f64().unwrap();
            assert!(0.0 < figure("min") && figure("min") <= mean && mean <= figure("max"), "{of}");
            assert!(spread["mean"]["low"].as_f64() <= Some(mean), "{spread}");
        }
        let kernel = of["rows"].as_array().unwrap().iter().find(|r| r["kind"] == "kernel").unwrap();
        assert_eq!(
            (&kernel["launches"]["mean"]["value"], &kernel["launches"]["sd"]),
            (&200.0.into(), &0.0.into())
        );
        assert!(wall["mean"]["value"].as_f64() > kernels["mean"]["value"].as_f64());
    }
}

#[test]
fn figures_for_people_stand_behind_the_applications_own_output() {
    let stage = Stage::new(Runtime::Pocl);
    let app = clscope_tests::artifacts().fixture("rounds").display().to_string();
    let told =
        stage.clscope(["stat", "-r", "2", "-o", "kept", "--", &app, "50", "64"]).run().success();
    assert_eq!(told.stdout, "rounds 50 right\n".repeat(2));
    for expected in ["2 runs", "wall time", "device time of kernels", "Student's t"] {
        assert!(told.stderr.contains(expected), "{expected}: {}", told.stderr);
    }
    // With -o the traces are kept.
    for name in ["kept-1", "kept-2"] {
        assert!(stage.trace(name).join("meta.json").is_file(), "{name}");
    }
    // One run has no spread, and says none.
    let told = stage.clscope(["stat", "-r", "1", "--", &app, "50", "64"]).run().success();
    assert!(told.stderr.contains("one run"), "{}", told.stderr);
    let wrong = stage.clscope(["stat", "-r", "0", "--", &app, "50", "64"]).run();
    assert!(
        wrong.seen().0 != Some(0) && wrong.stderr.contains("0 is not in 1..=1000"),
        "{}",
        wrong.stderr
    );
}

#[test]
fn a_run_that_ends_badly_ends_all() {
    let stage = Stage::new(Runtime::Pocl);
    let count = stage.join("count").display().to_string();
    // The third run fails.
    let app = clscope_tests::artifacts().fixture("rounds").display().to_string();
    let script = format!("{app} 5 64; echo x >> {count}; test $(wc -l < {count}) -lt 3 || exit 7");
    let told = stage.clscope(["stat", "-r", "5", "--", "sh", "-c", &script]).run();
    assert_eq!(told.seen().0, Some(7), "{}", told.stderr);
    assert!(told.stderr.contains("run 3 of 5 ended with exit code 7"), "{}", told.stderr);
    assert!(told.stderr.contains("2 runs"), "{}", told.stderr);
    // Without OpenCL there is nothing to tell.
    let none = stage.clscope(["stat", "--", "true"]).run();
    assert!(none.seen().0 == Some(1) && none.stderr.contains("no OpenCL call"), "{}", none.stderr);
    let none = stage.clscope(["stat", "--", "/nonexistent"]).run();
    assert_eq!(none.seen().0, Some(127), "{}", none.stderr);
}
