//! Options that select rows mean the same in every command that has them: kernels by name, devices
//! by name, sections.

use clscope_tests::{Mode, Runtime, Stage, artifacts};
use serde_json::Value;

fn json(stage: &Stage, arguments: &[&str]) -> Value {
    let run = stage.clscope(arguments).args(["--format", "json"]).run().success();
    serde_json::from_str(&run.stdout).unwrap()
}

fn names(rows: &Value) -> Vec<String> {
    rows.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_name_selects_the_same_kernels_in_every_command() {
    let stage = Stage::new(Runtime::Pocl);
    for trace in ["a", "b"] {
        stage.app(Mode::Record, trace, "causes turns 0.3").run().success();
    }
    let report = json(&stage, &["report", "a.clscope"]);
    let all = names(&report["kernels"]);
    assert!(all.len() > 1 && all.contains(&"other".to_owned()), "{all:?}");
    let report = json(&stage, &["report", "a.clscope", "--name", "oth*"]);
    assert_eq!(names(&report["kernels"]), ["other"]);
    let explained = json(&stage, &["explain", "a.clscope", "--name", "oth*"]);
    let kernels = explained["devices"][0]["kernels"].as_array().unwrap();
    assert_eq!((kernels.len(), &kernels[0]["kernel"]), (1, &"other".into()));
    let diff = json(&stage, &["diff", "a.clscope", "b.clscope", "--name", "oth*"]);
    let rows = diff["rows"].as_array().unwrap();
    let of = |section: &str| rows.iter().filter(|row| row["section"] == section).count();
    assert!(rows.iter().all(|r| r["section"] != "kernel" || r["name"] == "other"), "{rows:#?}");
    assert!(of("kernel") > 0 && of("total") == 0, "{rows:#?}");
    let app = artifacts().fixture("causes").display().to_string();
    let file = stage.join("stat.json").display().to_string();
    let stat = ["stat", "-r", "1", "--name", "oth*", "--format", "json", "--to", &file, "--"];
    stage.clscope(stat.iter().chain(&[&app[..], "turns", "0.3"])).run().success();
    let stat: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let kernels = stat["rows"].as_array().unwrap().iter().filter(|row| row["kind"] == "kernel");
    assert_eq!(kernels.map(|row| row["name"].as_str().unwrap()).collect::<Vec<_>>(), ["other"]);
}

#[test]
fn a_device_is_selected_by_a_part_of_its_name() {
    let stage = Stage::new(Runtime::Pocl);
    let app = stage.app(Mode::Record, "t", "named_alike 4");
    app.env("POCL_DEVICES", "pthread pthread").run().success();
    let report = json(&stage, &["report", "t.clscope"]);
    let devices = names(&report["devices"]);
    assert_eq!(devices.len(), 2, "{devices:?}");
    let one = json(&stage, &["report", "t.clscope", "--device", "2 OF 2"]);
    let of = |rows: &Value| -> Vec<Value> {
        rows.as_array().unwrap().iter().map(|row| row["device"].clone()).collect()
    };
    assert_eq!(names(&one["devices"]), devices[1..], "{devices:?}");
    for rows in ["kernels", "queues"] {
        let found = of(&one[rows]);
        assert!(!found.is_empty() && found.iter().all(|d| *d == devices[1]), "{rows}: {found:?}");
        assert!(of(&report[rows]).len() > found.len(), "{rows}");
    }
    // Both stand in the heading, however little room there is.
    let run = stage.clscope(["report", "t.clscope", "--all"]).env("COLUMNS", "60").run().success();
    for number in ["(1 of 2)", "(2 of 2)"] {
        let head = run.stdout.lines().take_while(|line| !line.is_empty());
        assert!(head.into_iter().any(|line| line.contains(number)), "{}", run.stdout);
    }
    let wrong = stage.clscope(["report", "t.clscope", "--device", "absent"]).run();
    assert!(wrong.seen().0 == Some(1) && wrong.stderr.contains(&devices[0]), "{}", wrong.stderr);
}

#[test]
fn sections_are_those_of_the_page_too() {
    let stage = Stage::new(Runtime::Pocl);
    stage.app(Mode::Record, "t", "causes turns 0.2").run().success();
    let page = |more: &[&str]| {
        let run = stage.clscope(["report", "t.clscope", "--format", "html"]).args(more);
        run.run().success().stdout
    };
    let has = |page: &str, id: &str| page.contains(&format!("<section id=\"{id}\">"));
    let (whole, few) = (page(&[]), page(&["--section", "kernels,waits"]));
    for id in ["kernels", "waits", "idle", "functions"] {
        assert!(has(&whole, id), "{id}");
        assert_eq!(has(&few, id), ["kernels", "waits"].contains(&id), "{id}");
        assert_eq!(few.contains(&format!("href=\"#{id}\"")), has(&few, id), "{id}");
    }
}

#[test]
fn commands_describe_these_options_alike() {
    let stage = Stage::new(Runtime::Pocl);
    let help = |command: &str| stage.clscope([command, "--help-all"]).run().success().stdout;
    let of = |help: &str, option: &str| {
        let lines = help.lines().skip_while(|line| !line.trim_start().starts_with(option));
        lines.take_while(|line| !line.trim().is_empty()).collect::<Vec<_>>().join("\n")
    };
    let report = help("report");
    for option in ["--limit", "--name", "--device"] {
        let wanted = of(&report, option);
        assert!(!wanted.is_empty(), "{report}");
        for command in ["view", "stat", "diff", "explain"] {
            assert_eq!(of(&help(command), option), wanted, "{command} {option}");
        }
    }
    for option in ["--section", "--sort", "--counters", "--by"] {
        assert_eq!(of(&help("view"), option), of(&report, option), "{option}");
    }
}
