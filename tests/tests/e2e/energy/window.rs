//! `--window`: outputs that take it name the part of the run that joules are of; other commands,
//! whose figures are of the whole run, refuse it and name those that take it.

use crate::energy::emulated;
use clscope_tests::{Runtime, Stage};
use std::collections::BTreeSet;

/// Commands that take a window of the run, with all their outputs.
const OUTPUTS: [(&str, &[&[&str]]); 2] = [
    (
        "report t.clscope",
        &[
            &[],
            &["--all"],
            &["--format", "json"],
            &["--format", "csv", "--section", "energy"],
            &["--format", "html"],
        ],
    ),
    (
        "diff t.clscope t.clscope",
        &[
            &["--format", "table"],
            &["--format", "markdown"],
            &["--format", "json"],
            &["--format", "html"],
            &["--format", "junit"],
        ],
    ),
];

#[test]
fn every_output_that_takes_a_window_names_its_bounds_and_others_refuse_it() {
    let stage = Stage::new(Runtime::Pocl);
    emulated(&stage);
    for (command, forms) in OUTPUTS {
        for form in forms {
            let words = command.split(' ').chain(form.iter().copied());
            let run = stage.clscope(words.chain(["--window", "0.125..9.5"])).run().success();
            let text = run.stdout.replace("&nbsp;", " ");
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let bounds = ["0.125 to 9.5 s of the run", "0.125,9.5", "\"from_ns\": 125000000.0"];
            assert!(bounds.iter().any(|b| text.contains(b)), "{command} {form:?}: {text}");
        }
    }
    // Without an end it goes on to that of the run.
    let open = stage.clscope(["report", "--format", "json", "--window", "0.125.."]).run().success();
    let open: serde_json::Value = serde_json::from_str(&open.stdout).unwrap();
    let window = &open["energy"]["devices"][0]["window"];
    let end = window["to_ns"].as_f64().unwrap_or_else(|| panic!("{window}"));
    assert!(end > 0.125e9 && end < 600e9, "{window}");
    // The manual has every option of every command; `bench` watches power for so long.
    stage.clscope(["man", "pages"]).run().success();
    let pages = std::fs::read_dir(stage.join("pages")).unwrap().map(|page| page.unwrap().path());
    let mut takes = BTreeSet::new();
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap().replace('\\', "");
        let name = page.file_stem().unwrap().to_str().unwrap().to_owned();
        if text.contains("--windowfR fI<FROM..TO") {
            takes.insert(name);
        }
    }
    assert_eq!(takes, ["clscope-diff", "clscope-report"].map(str::to_owned).into());
    for command in ["explain", "roofline", "what-if", "sql", "view", "export parquet", "top"] {
        let run = stage.clscope(command.split(' ').chain(["--window", "0.125..9.5"])).run();
        assert!(run.stderr.contains("clscope report --window"), "{command}: {}", run.stderr);
        assert!(run.stdout.is_empty(), "{command}: {}", run.stdout);
    }
}
