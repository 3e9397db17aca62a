//! Dependencies between the crates of the workspace point one way, as the guide's page on
//! architecture says. Owns the order; the recorder's own layers are kept by `src/tests.rs`. What
//! only tests need is not looked at.
#![forbid(unsafe_code)]

use clscope_tests::workspace::{packages, text};
use std::collections::{BTreeMap, BTreeSet};

/// Every crate, from what needs none of the workspace to the programs. A crate needs crates of rows
/// above its own only.
const ROWS: [&[&str]; 11] = [
    &["trace", "io", "mix", "testing"],
    &["clock", "sensors", "names", "opencl", "analysis"],
    &["oa", "nvml"],
    &["metrics", "readings"],
    &["profile", "capture"],
    &["models", "compare", "check", "live"],
    &["export", "doctor", "microbench"],
    &["query", "launch"],
    &["text", "record"],
    &["top", "screen"],
    // Programs, and the recorder: nothing needs them.
    &["cli", "lab", "bench", "generate", "tests", ""],
];

/// What each of these stands on, by way of others or by itself: without it the rows say nothing.
const SPINE: [&str; 7] = ["trace", "analysis", "profile", "models", "export", "text", "cli"];

/// What only the end-to-end tests and the bench may ship: to all others it is of tests alone.
const OF_TESTS: &str = "testing";
const TESTERS: [&str; 2] = ["tests", "bench"];

/// Neither of a pair needs the other, nor by way of others.
const APART: [(&str, &str); 1] = [("capture", "profile")];

/// What only some crates may have of others: options, the terminal, and the handle that a program
/// makes of every error.
const OF_PROGRAMS: [(&[&str], &[&str]); 3] = [
    (
        &["clap", "clap_complete", "clap_mangen", "anyhow"],
        &["screen", "cli", "lab", "bench", "generate"],
    ),
    (&["indicatif", "terminal_size"], &["screen", "cli"]),
    (&["ratatui", "crossterm"], &["top"]),
];

/// What each crate needs, of the workspace and of others.
type Needs = BTreeMap<String, BTreeSet<String>>;

/// The name without the workspace's; the recorder's is empty. Others keep theirs.
fn short(name: &str) -> &str {
    match name.strip_prefix("clscope") {
        Some("") => "",
        Some(rest) => rest.strip_prefix('-').unwrap_or(name),
        None => name,
    }
}

fn shown(name: &str) -> String {
    if name.is_empty() { "the recorder".to_owned() } else { name.to_owned() }
}

fn row(name: &str) -> Option<usize> {
    ROWS.iter().position(|row| row.contains(&name))
}

/// All that a crate needs, by way of others too.
fn reach<'n>(of: &str, needs: &'n Needs) -> BTreeSet<&'n str> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&str> = needs.get(of).into_iter().flatten().map(String::as_str).collect();
    while let Some(name) = open.pop() {
        if found.insert(name) {
            open.extend(needs.get(name).into_iter().flatten().map(String::as_str));
        }
    }
    found
}

/// What is against the order, in words.
fn faults(needs: &Needs) -> Vec<String> {
    let mut out = Vec::new();
    for (name, of) in needs {
        let Some(own) = row(name) else {
            out.push(format!("{} has no row", shown(name)));
            continue;
        };
        for other in of {
            let misplaced = other == OF_TESTS && !TESTERS.contains(&&**name);
            if misplaced || row(other).is_some_and(|other| other >= own) {
                out.push(format!("{} needs {}", shown(name), shown(other)));
            }
            for (_, allowed) in OF_PROGRAMS.iter().filter(|(these, _)| these.contains(&&**other)) {
                if !allowed.contains(&&**name) {
                    out.push(format!("{} needs {other}", shown(name)));
                }
            }
        }
    }
    for pair in SPINE.windows(2) {
        if !reach(pair[1], needs).contains(pair[0]) {
            out.push(format!("{} does not stand on {}", pair[1], pair[0]));
        }
    }
    for (one, other) in APART {
        for (from, to) in [(one, other), (other, one)] {
            if reach(from, needs).contains(to) {
                out.push(format!("{from} reaches {to}"));
            }
        }
    }
    out
}

fn of_the_workspace() -> Needs {
    let target = tempfile::tempdir().unwrap();
    let needs = |package: &serde_json::Value| {
        let all = package["dependencies"].as_array().unwrap().iter();
        let shipped = all.filter(|dependency| text(dependency, "kind") != "dev");
        shipped.map(|dependency| short(text(dependency, "name")).to_owned()).collect()
    };
    let all = packages(target.path());
    all.iter().map(|package| (short(text(package, "name")).to_owned(), needs(package))).collect()
}

#[test]
fn dependencies_between_crates_point_one_way() {
    let needs = of_the_workspace();
    assert_eq!(faults(&needs), [""; 0]);
    let known: BTreeSet<&str> = needs.keys().map(String::as_str).collect();
    let rows: BTreeSet<&str> = ROWS.concat().into_iter().collect();
    assert_eq!(rows, known, "rows of crates that there are not");
}

#[test]
fn wrong_arrows_are_found() {
    let sound = of_the_workspace();
    for (from, to, expected) in [
        ("trace", "analysis", ["trace needs analysis"]),
        ("analysis", "cli", ["analysis needs cli"]),
        ("profile", "export", ["profile needs export"]),
        ("profile", "clap", ["profile needs clap"]),
        ("text", "terminal_size", ["text needs terminal_size"]),
        ("mix", "", ["mix needs the recorder"]),
        ("text", "testing", ["text needs testing"]),
        ("capture", "profile", ["capture needs profile"]),
        ("profile", "capture", ["profile needs capture"]),
        ("new", "trace", ["new has no row"]),
    ] {
        let mut needs = sound.clone();
        needs.entry(from.to_owned()).or_default().insert(to.to_owned());
        let found = faults(&needs);
        // What others reach by it is told behind it.
        assert!(found.starts_with(&expected.map(str::to_owned)), "{from} -> {to}: {found:?}");
    }
    let mut needs = sound.clone();
    for of in needs.values_mut() {
        of.remove("analysis");
    }
    let found = faults(&needs);
    assert!(found.contains(&"profile does not stand on analysis".to_owned()), "{found:?}");
}
