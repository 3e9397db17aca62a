//! `clscope bench` on real runtimes: what it leaves is compared, limits end with their exit code,
//! and what cannot be compared is named. Refuses to judge times.

use clscope_tests::{Run, Runtime, Stage};
use serde_json::Value;

/// The command, with binaries of kernels in the test's own folder.
fn clscope(stage: &Stage, line: &str) -> Run {
    stage.clscope(line.split_whitespace()).env("XDG_CACHE_HOME", stage.join("cache"))
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

fn results(stage: &Stage, folder: &str) -> Value {
    json(&std::fs::read_to_string(stage.join(folder).join("results.json")).unwrap())
}

fn diff(stage: &Stage, line: &str) -> Value {
    json(&clscope(stage, &format!("bench diff {line} --format json")).run().success().stdout)
}

/// The same results with every figure of this name a half as large.
fn halved(mut results: Value, name: &str) -> Value {
    for case in results["cases"].as_array_mut().unwrap() {
        for figure in case["figures"].as_array_mut().unwrap() {
            if figure["name"] == name {
                for part in ["value", "low", "high"] {
                    figure[part] = figure[part].as_f64().map(|x| x / 2.0).into();
                }
            }
        }
    }
    results
}

#[test]
fn results_of_two_runs_and_of_two_runtimes_are_compared() {
    const MEASURE: &str =
        "bench flop --choose private/float/mad/scalar --no-sensors --repeat 20 --quiet -o";
    let stage = Stage::new(Runtime::Pocl);
    for folder in ["a", "b"] {
        clscope(&stage, &format!("{MEASURE} {folder}")).run().success();
    }
    let of = diff(&stage, "a b/results.json");
    assert!(of["base"][0]["device"] == results(&stage, "a")["device"]["name"]);
    assert!(of["differences"].as_array().unwrap().is_empty(), "{of}");
    let row = of["rows"].as_array().unwrap().iter().find(|r| r["figure"] == "rate").unwrap();
    assert!(row["id"] == "flop/private/float/mad/scalar" && row["direction"] == "higher-is-better");
    let change = |end: &str| row["change"][end].as_f64().unwrap();
    assert!(change("low") < change("value") && change("value") < change("high"), "{row}");

    // Results beside themselves: no limit is broken, however narrow.
    let same = clscope(&stage, "bench diff a a --fail-over 0%").run().success();
    assert!(same.stdout.contains("0 worse, 0 better"), "{}", same.stdout);

    // A fall beyond the limit; a wider limit lets it pass, and so does a rise.
    let slower = halved(results(&stage, "a"), "rate").to_string();
    std::fs::write(stage.join("slower.json"), slower).unwrap();
    for (line, code) in [
        ("bench diff a slower.json --fail-over 3%", 3),
        ("bench diff a slower.json --fail-over 60%", 0),
        ("bench diff slower.json a --fail-over 3%", 0),
        ("bench diff a slower.json", 0),
    ] {
        assert_eq!(clscope(&stage, line).run().seen().0, Some(code), "{line}");
    }
    let told = clscope(&stage, "bench diff a slower.json --fail-over 3% --format markdown").run();
    assert!(told.stdout.contains("over the limit") && told.stdout.contains("worse"));

    if let Some(intel) = Runtime::intel() {
        let other = Stage::new(intel);
        clscope(&other, &format!("{MEASURE} c")).run().success();
        std::fs::copy(other.join("c/results.json"), stage.join("intel.json")).unwrap();
        let of = diff(&stage, "a intel.json");
        let what: Vec<&str> = of["differences"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|d| d["what"].as_str())
            .collect();
        assert!(what.contains(&"platform") && what.contains(&"driver"), "{what:?}");
        let text = clscope(&stage, "bench diff a intel.json").run().success().stdout;
        assert!(text.starts_with("base: ") && text.contains("\ndiffers: platform: "), "{text}");
    }
}

#[test]
fn what_is_no_result_is_refused_with_the_file_and_the_next_step() {
    let stage = Stage::new(Runtime::Pocl);
    std::fs::write(stage.join("other.json"), "{\"schema\": \"clscope-bench/99\"}").unwrap();
    std::fs::write(stage.join("none.json"), "{}").unwrap();
    std::fs::create_dir(stage.join("link")).unwrap();
    std::os::unix::fs::symlink(stage.join("other.json"), stage.join("link/results.json")).unwrap();
    for (line, said) in [
        ("bench diff other.json other.json", "its schema is clscope-bench/99"),
        ("bench diff none.json none.json", "none.json: it holds no results of `clscope bench`"),
        ("bench diff missing.json none.json", "cannot read the results in missing.json"),
        ("bench diff link none.json", "a symbolic link"),
        ("bench diff /dev/zero none.json", "/dev/zero"),
        ("bench diff none.json", "<NEW>"),
        ("bench diff a b --fail-over 3", "expected percent"),
    ] {
        let refused = clscope(&stage, line).run();
        assert!(!refused.status.success() && refused.stderr.contains(said), "{}", refused.stderr);
    }
}
