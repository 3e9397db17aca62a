//! Whatever a person reads is in plain words: no output of the command has a word that only this
//! project knows, or an id that only its code knows. Every kind of output is made of one run.

use crate::energy::{LATE, Tree};
use clscope_tests::{Mode, Runtime, Stage};
use serde_json::Value;

/// What none of them says, in lower case: words of the code, and their plain forms are in the
/// glossary.
const FORBIDDEN: [&str; 23] = [
    "only-as-sum",
    "not-at-all",
    "only-with-floor",
    "p_gain",
    "regressed",
    "told apart",
    "acquit",
    "blames",
    "lends",
    "borrow",
    "in the company",
    "seldom",
    "its turn",
    "end_to_noticed",
    "noticed",
    "dynamic joules",
    "unattributed",
    "trials",
    "united",
    "known by",
    "which stamps",
    "doubtful",
    "identifiability",
];

/// Names that no field of a document for programs has: a figure has its interval, or it is absent
/// and a sentence says why.
const NO_FIELD: [&str; 8] = [
    "method",
    "identifiability",
    "doubtful",
    "joules_known",
    "noticed",
    "basis",
    "agrees",
    "with_floor",
];
/// Words that no field says instead of an interval.
const NO_VALUE: [&str; 13] = [
    "well",
    "weak",
    "only-as-sum",
    "only-with-floor",
    "not-at-all",
    "both",
    "regressed",
    "repeated",
    "integrated",
    "interpolated",
    "modelled",
    "sum",
    "design",
];

/// Documents of figures.
const DOCUMENTS: [&[&str]; 3] = [
    &["report", "t.clscope", "--limit", "0", "--format", "json"],
    &["top", "t.clscope", "--once", "--format", "json"],
    &["diff", "t.clscope", "t.clscope", "--format", "json"],
];

/// Outputs for people: arguments, and whether lines keep to 80 columns.
const OUTPUTS: [(&[&str], bool); 17] = [
    (&["report", "a.clscope"], true),
    (&["report", "a.clscope", "--all"], true),
    (&["report", "a.clscope", "--by", "ndrange"], true),
    (&["report", "a.clscope", "--section", "energy"], true),
    (&["report", "a.clscope", "--section", "queues,idle,waits"], true),
    (&["report", "a.clscope", "--format", "html"], false),
    (&["report", "a.clscope", "--format", "csv"], false),
    (&["diff", "a.clscope", "b.clscope"], false),
    (&["dump", "a.clscope"], false),
    (&["export", "chrome", "a.clscope", "-o", "-"], false),
    (&["export", "folded", "a.clscope", "-o", "-"], false),
    (&["top", "a.clscope", "--once"], true),
    (&["check", "a.clscope"], false),
    (&["programs", "a.clscope"], false),
    (&["sql"], false),
    (&["doctor"], false),
    (&["explain", "a.clscope", "spin"], false),
];

#[test]
fn no_output_has_a_word_that_only_this_project_knows() {
    let stage = Stage::new(Runtime::Pocl);
    for trace in ["a", "b"] {
        stage.app(Mode::Record, trace, "causes turns 0.3").run().success();
    }
    for (arguments, is_narrow) in OUTPUTS {
        let run = stage.clscope(arguments).env("COLUMNS", "80").run();
        let text = format!("{}{}", run.stdout, run.stderr);
        assert!(!run.stdout.is_empty(), "{arguments:?}: {}", run.stderr);
        let low = text.to_lowercase();
        for word in FORBIDDEN {
            let line = low.lines().find(|line| line.contains(word)).unwrap_or_default();
            assert!(line.is_empty(), "{arguments:?} says {word:?}: {line:.300}");
        }
        if is_narrow {
            let table = |line: &&str| !line.trim_start().starts_with("note:");
            let wide = run.stdout.lines().filter(table).find(|line| line.chars().count() > 80);
            assert_eq!(wide, None, "{arguments:?} is wider than 80 columns");
        }
    }
}

/// Options after `report e.clscope` that make it say why joules are not known, or not used.
const ENERGY: [&[&str]; 6] = [
    &["--section", "energy"],
    &["--all", "--idle-power", "9000"],
    &["--all", "--idle-power", "0.5"],
    &["--all", "--iteration-kernel", "absent", "--flop", "absent=1e9"],
    &["--all", "--window", "0..0.1"],
    &["--format", "html"],
];

/// Words that only sentences about energy may have had.
const OF_ENERGY: [&str; 6] = ["floor", "lent", "whose turn", "open by", "told", "stamps"];

#[test]
fn notes_of_energy_are_in_the_same_words() {
    let stage = Stage::new(Runtime::Pocl);
    let tree = Tree::new(&stage.join("tree"), LATE);
    let root = tree.root.display().to_string();
    let app = clscope_tests::artifacts().fixture("causes").display().to_string();
    let record = ["record", "-q", "-f", "-o", "e", "--idle-window", "0.2", "--sysfs-root", &root];
    let words = ["--", &app, "host", "2"];
    tree.rises(|| stage.clscope(record.iter().chain(&words)).run().success());
    let mut notes = 0;
    for options in ENERGY {
        let run = stage.clscope(["report", "e.clscope"]).args(options).env("COLUMNS", "80").run();
        let run = run.success();
        // A page holds what is drawn with scripts of its own, behind the tables.
        let text = run.stdout.split("<script").next().unwrap_or_default().to_owned() + &run.stderr;
        notes += text.matches("note:").count();
        // Names of a page's elements are no words that anybody reads.
        let is_page = options.contains(&"html");
        let pieces = text.split('<').map(|piece| match piece.split_once('>') {
            Some((_, shown)) if is_page => shown,
            _ => piece,
        });
        let low = pieces.collect::<Vec<_>>().join("\n").to_lowercase();
        let is_word = |line: &str, word: &str| {
            line.split(|c: char| !c.is_alphanumeric()).any(|part| part == word)
        };
        for word in OF_ENERGY.iter().chain(&FORBIDDEN) {
            let has = |line: &&str| match word.contains(' ') {
                true => line.contains(word),
                false => is_word(line, word),
            };
            let line = low.lines().find(has);
            assert_eq!(line, None, "{options:?}: {word:?}");
        }
    }
    assert!(notes >= 4, "{notes} notes: too few are looked at");
}

/// Every string, and every name of a field, of a document.
fn walk(of: &Value, path: &str, see: &mut impl FnMut(&str, &str, bool)) {
    match of {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| {
            see(path, name, true);
            walk(value, &format!("{path}/{name}"), see);
        }),
        Value::Array(all) => all.iter().for_each(|value| walk(value, path, see)),
        Value::String(text) => see(path, text, false),
        _ => {}
    }
}

#[test]
fn documents_say_how_well_a_figure_is_known_by_its_interval_alone() {
    let stage = Stage::new(Runtime::Pocl);
    crate::energy::emulated(&stage);
    for arguments in DOCUMENTS {
        let text = stage.clscope(arguments).run().success().stdout;
        let document: Value = serde_json::from_str(&text).unwrap();
        // What the application's kernels are called is their matter.
        let is_name = |path: &str| path.ends_with("/name") || path.ends_with("/kind");
        walk(&document, "", &mut |path, word, is_field| {
            let of: &[&str] = if is_field { &NO_FIELD } else { &NO_VALUE };
            let is_found = of.contains(&word) && (is_field || !is_name(path));
            assert!(!is_found, "{arguments:?}: {word:?} at {path:?}");
        });
    }
    let report = stage.clscope(DOCUMENTS[0]).run().success().stdout;
    let report: Value = serde_json::from_str(&report).unwrap();
    for class in report["energy"]["devices"][0]["classes"].as_array().unwrap() {
        let is_sentence = class["why"].as_str().is_some_and(|why| why.contains(' '));
        assert_eq!(class["joules"].is_null(), is_sentence, "a figure or a reason: {class}");
        let of = &class["joules"];
        assert!(of.is_null() || of["low"].is_f64() && of["high"].is_f64(), "{class}");
    }
    let is_none = |title: &str| NO_FIELD.iter().all(|word| title.trim() != *word);
    for section in ["kernels", "energy", "counters"] {
        let run = stage.clscope(["report", "t.clscope", "--format", "csv", "--section", section]);
        let text = run.run().stdout;
        let titles = text.lines().next().unwrap_or_default();
        assert!(titles.split(',').all(is_none), "{titles}");
    }
    // Columns of SQL and of Parquet files.
    let columns = include_str!("../../../../tools/export/parquet.schema.txt");
    let names = columns.lines().filter(|line| line.starts_with("  "));
    let mut names = names.filter_map(|line| line.split_whitespace().next());
    assert!(names.all(is_none), "a column is called so");
}

/// What `help()` shows of the Python package, and what it prints and draws.
#[test]
fn the_python_package_is_in_the_same_words() {
    let folder = clscope_tests::artifacts::root().join("tools/python/clscope");
    let mut files = 0;
    for file in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if file.extension().is_none_or(|of| of != "py") {
            continue;
        }
        files += 1;
        let text = std::fs::read_to_string(&file).unwrap().to_lowercase();
        for word in FORBIDDEN {
            let line = text.lines().find(|line| line.contains(word)).unwrap_or_default();
            assert!(line.is_empty(), "{} says {word:?}: {line}", file.display());
        }
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let field = text.split(|c| !is_word(c)).find(|word| NO_FIELD.contains(word));
        assert_eq!(field, None, "{}", file.display());
    }
    assert!(files >= 7, "{files} files");
}

/// Queues have names, never ids: a viewer has no use for the numbers of the trace.
#[test]
fn timelines_number_queues_as_people_do() {
    let stage = Stage::new(Runtime::Pocl);
    stage.app(Mode::Record, "t", "causes turns 0.2").run().success();
    let text = stage.clscope(["export", "chrome", "t.clscope", "-o", "-"]).run().success().stdout;
    let timeline: Value = serde_json::from_str(&text).unwrap();
    let events = timeline["traceEvents"].as_array().unwrap();
    let tracks = events.iter().filter(|e| e["name"] == "thread_name");
    let tracks: Vec<&str> = tracks.filter_map(|e| e["args"]["name"].as_str()).collect();
    for number in [1, 2] {
        let name = format!("queue {number} on ");
        assert!(tracks.iter().any(|track| track.starts_with(&name)), "{tracks:?}");
    }
    let kernels: Vec<_> = events.iter().filter(|e| e["cat"] == "device,kernel").collect();
    assert!(!kernels.is_empty());
    assert!(kernels.iter().all(|e| e["args"].get("queue").is_none()), "{:?}", kernels[0]);
}
