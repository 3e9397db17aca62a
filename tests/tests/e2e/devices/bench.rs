//! `clscope-lab` on real runtimes: what it leaves is compared, limits end with their exit code,
//! and what cannot be compared is named. Refuses to judge times.

use clscope_tests::{Run, Runtime, Stage};
use serde_json::Value;

/// The program.
fn lab(stage: &Stage, line: &str) -> Run {
    stage.lab(line.split_whitespace())
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

fn results(stage: &Stage, folder: &str) -> Value {
    json(&std::fs::read_to_string(stage.join(folder).join("results.json")).unwrap())
}

fn diff(stage: &Stage, line: &str) -> Value {
    json(&lab(stage, &format!("diff {line} --format json")).run().success().stdout)
}

/// The same results with every figure of this name so many times as large, and known to one
/// percent: a busy machine may give intervals that no change is beyond.
fn scaled(mut results: Value, name: &str, factor: f64) -> Value {
    for case in results["cases"].as_array_mut().unwrap() {
        for figure in case["figures"].as_array_mut().unwrap() {
            if figure["name"] == name {
                let value = figure["value"].as_f64().unwrap() * factor;
                for (part, of) in [("value", 1.0), ("low", 0.99), ("high", 1.01)] {
                    figure[part] = (value * of).into();
                }
            }
        }
    }
    results
}

#[test]
fn results_of_two_runs_and_of_two_runtimes_are_compared() {
    const MEASURE: &str = "flop/private/float/mad/scalar --sensors off --repeat 20 --quiet -o";
    let stage = Stage::new(Runtime::Pocl);
    for folder in ["a", "b"] {
        lab(&stage, &format!("{MEASURE} {folder}")).run().success();
    }
    let of = diff(&stage, "a b/results.json");
    assert!(of["base"][0]["device"] == results(&stage, "a")["device"]["name"]);
    assert!(of["differences"].as_array().unwrap().is_empty(), "{of}");
    let row = of["rows"].as_array().unwrap().iter().find(|r| r["figure"] == "rate").unwrap();
    assert!(row["id"] == "flop/private/float/mad/scalar" && row["direction"] == "higher-is-better");
    let change = |end: &str| row["change"][end].as_f64().unwrap();
    assert!(change("low") < change("value") && change("value") < change("high"), "{row}");

    // Results beside themselves: no limit is broken, however narrow.
    let same = lab(&stage, "diff a a --fail-on 0%").run().success();
    assert!(same.stdout.contains("0 worse, 0 better"), "{}", same.stdout);

    // A fall beyond the limit; a wider limit lets it pass, and so does a rise.
    for (file, factor) in [("even.json", 1.0), ("slower.json", 0.5)] {
        let made = scaled(results(&stage, "a"), "rate", factor).to_string();
        std::fs::write(stage.join(file), made).unwrap();
    }
    for (line, code) in [
        ("diff even.json slower.json --fail-on 3%", 3),
        ("diff even.json slower.json --fail-on 60%", 0),
        ("diff slower.json even.json --fail-on 3%", 0),
        ("diff even.json slower.json", 0),
    ] {
        assert_eq!(lab(&stage, line).run().seen().0, Some(code), "{line}");
    }
    let line = "diff even.json slower.json --fail-on 3% --format markdown";
    let told = lab(&stage, line).run();
    assert!(told.stdout.contains("over the limit") && told.stdout.contains("worse"));

    if let Some(intel) = Runtime::intel() {
        let other = Stage::new(intel);
        lab(&other, &format!("{MEASURE} c")).run().success();
        std::fs::copy(other.join("c/results.json"), stage.join("intel.json")).unwrap();
        let of = diff(&stage, "a intel.json");
        let what: Vec<&str> = of["differences"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|d| d["what"].as_str())
            .collect();
        assert!(what.contains(&"platform") && what.contains(&"driver"), "{what:?}");
        let text = lab(&stage, "diff a intel.json").run().success().stdout;
        assert!(text.starts_with("base: ") && text.contains("\ndiffers: platform: "), "{text}");
    }
}

#[test]
fn a_case_is_swept_along_two_axes_and_every_value_is_run() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let line = "flop/private/float/mad/scalar --sweep blocks=1..=3,precision=float,double \
                    --iterations 8 --warm-up 1 --repeat 3 --sensors off -o out";
        let said = lab(&stage, line).run().success().stdout;
        let of = results(&stage, "out");
        assert!(clscope_testing::schema::text_breaches(&of.to_string()).is_empty());
        assert_eq!(of["schema"], "clscope-bench/2");
        assert_eq!(of["settings"]["iterations"], 8, "{}", of["settings"]);
        let cases = of["cases"].as_array().unwrap();
        assert_eq!(cases.len(), 6, "three numbers of groups in two precisions: {cases:?}");
        for case in cases {
            let at = case["swept"]["at"].as_array().unwrap();
            assert_eq!(case["swept"]["case"], "flop/private/float/mad/scalar");
            assert!(at[0]["axis"] == "blocks" && at[1]["axis"] == "precision");
            assert_eq!(case["status"], "measured", "{case}");
            assert_eq!(case["timing"]["groups"], at[0]["value"]);
            assert_eq!(case["parameters"]["type"], at[1]["value"]);
            assert!(case["timing"]["trips"] == 8 && case["timing"]["warm_up"] == 1, "{case}");
        }
        for word in ["over blocks, precision", "blocks \\ precision", "float", "double"] {
            assert!(said.contains(word), "{word}: {said}");
        }
        let drawn = std::fs::read_to_string(stage.join("out/sweep-1-rate.svg")).unwrap();
        assert!(drawn.contains("precision double") && drawn.contains("work-groups"));
        let page = std::fs::read_to_string(stage.join("out/index.html")).unwrap();
        assert!(page.contains("sweep-1-rate"));

        let line =
            "transfer/pinned/to_host/1 --sweep size=64,4096 --repeat 3 --sensors off --format json";
        let of = json(&lab(&stage, line).run().success().stdout);
        let ids: Vec<&str> =
            of["cases"].as_array().unwrap().iter().filter_map(|c| c["id"].as_str()).collect();
        let at = |bytes| format!("transfer/pinned/to_host/1@size={bytes}");
        assert_eq!(ids, [at(64), at(4096)]);
        assert!(of["findings"][0]["name"] == "sweep/transfer/pinned/to_host/1/best", "{of}");
    }
}

/// Latencies of control flow and of operands: each chain computes what the host does, and the
/// conflict of banks is the difference between distances of operands.
#[test]
fn branches_barriers_and_operands_have_latencies() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let kinds = ["add", "branch", "loop", "barrier", "operands1", "operands2", "operands4"];
        let cases = kinds.map(|kind| format!("latency/{kind}/ilp1/single1"));
        let line = format!("{} --sensors off --repeat 3 --format json", cases.join(" "));
        let of = json(&lab(&stage, &line).run().success().stdout);
        assert!(clscope_testing::schema::text_breaches(&of.to_string()).is_empty());
        for id in &cases {
            let case = of["cases"].as_array().unwrap().iter().find(|c| c["id"] == **id);
            let case = case.unwrap_or_else(|| panic!("no {id}: {of}"));
            assert_eq!(case["status"], "measured", "{case}");
        }
        let finding = |name: &str| {
            let all = of["findings"].as_array().unwrap();
            let found = all.iter().find(|f| f["name"] == format!("latency/{name}"));
            found.unwrap_or_else(|| panic!("no {name}: {of}")).clone()
        };
        let latency = |kind: &str| {
            let of = finding(kind);
            let figure = of["figures"].as_array().unwrap().iter().find(|f| f["name"] == "latency");
            figure.unwrap_or_else(|| panic!("{of}"))["value"].as_f64().unwrap()
        };
        for kind in kinds {
            assert!(latency(kind) > 0.0, "{kind}: {of}");
        }
        let operands = ["operands1", "operands2", "operands4"].map(latency);
        let least = operands.iter().copied().fold(f64::INFINITY, f64::min);
        let most = operands.iter().copied().fold(0.0, f64::max);
        let banks = finding("banks");
        let conflict = banks["figures"][0]["value"].as_f64().unwrap();
        assert!((conflict - (most - least)).abs() <= 1e-6 * most, "{banks}: {operands:?}");
        let low = banks["figures"][0]["low"].as_f64().unwrap();
        let seen = banks["text"].as_str().unwrap().contains("banks of registers");
        assert_eq!(seen, low > 0.0, "{banks}");
    }
}

#[test]
fn what_cannot_be_swept_is_refused_before_anything_is_measured() {
    let stage = Stage::new(Runtime::Pocl);
    let case = "flop/private/float/mad/scalar -o out";
    for (line, said) in [
        (format!("{case} --sweep alpha"), "its axes are: blocks, tpb, width, precision"),
        (format!("{case} --sweep width=3"), "width is a power of two up to 16"),
        (format!("{case} --sweep colour"), "`colour` is no axis; the axes are blocks"),
        (format!("{case} --blocks 1..6"), "--blocks names several sizes"),
        (format!("{case} --tpb 1,2 --sweep blocks"), "add --sweep tpb"),
        (format!("{case} --iterations 0"), "--iterations"),
        (format!("{case} --window 0"), "no number of seconds"),
        ("nosuch/case --sweep blocks".to_owned(), "there is no suite nosuch"),
        ("flop/nosuch --sweep blocks".to_owned(), "no case is called flop/nosuch"),
    ] {
        let refused = lab(&stage, &line).run();
        assert!(!refused.status.success() && refused.stderr.contains(said), "{}", refused.stderr);
        assert!(!stage.join("out").exists(), "{line}");
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
        ("diff other.json other.json", "its schema is clscope-bench/99"),
        ("diff none.json none.json", "none.json: it holds no results of `clscope-lab`"),
        ("diff missing.json none.json", "cannot read the results in missing.json"),
        ("diff link none.json", "a symbolic link"),
        ("diff /dev/zero none.json", "/dev/zero"),
        ("diff none.json", "<NEW>"),
        ("diff a b --fail-on 3", "expected percent"),
    ] {
        let refused = lab(&stage, line).run();
        assert!(!refused.status.success() && refused.stderr.contains(said), "{}", refused.stderr);
    }
}
