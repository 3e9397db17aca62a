//! The committed schema is what the types say, and documents keep to it. Refuses to look at
//! figures. `UPDATE_GOLDENS=1` writes it anew: raise its version where something changes its
//! meaning or goes.

use clscope_compare::bench;
use clscope_compare::diff::{self, Diff, Difference, Limit, Metric};
use clscope_compare::repeat::{Energy, Repeated, Row, SCHEMA, Spread};
use clscope_profile::energy::result::Window;
use clscope_profile::interval::Interval;
use clscope_testing::schema;
use std::path::{Path, PathBuf};

use clscope_compare::outcome::{Change, Outcome};

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("stat.schema.json")
}

fn diff_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("diff.schema.json")
}

#[test]
fn the_committed_schema_of_differences_is_that_of_the_types() {
    schema::committed_type::<Diff>(&diff_path(), diff::SCHEMA);
}

#[test]
fn differences_keep_to_the_schema_and_changed_ones_do_not() {
    let row = |change, outcome| diff::Row {
        section: "kernel",
        name: "k".into(),
        of: "d".into(),
        metric: Metric::Energy,
        base: Some(1.0),
        new: None,
        change,
        outcome,
        why: Some("new".into()),
        breaks: false,
        assumed_spread: Some(0.0075),
    };
    let open = Change { value: 0.1, low: f64::NEG_INFINITY, high: f64::INFINITY };
    let differences = Diff {
        schema: diff::SCHEMA,
        base: vec!["a".into()],
        new: vec!["b".into()],
        window: Some(Window { from_seconds: 1.5, to_seconds: 3.0 }),
        changed: vec!["base: replaced: k by /f.cl (1 launch)".into()],
        comparable: false,
        differences: vec![Difference { what: "devices".into(), base: "x".into(), new: "y".into() }],
        broken_runs: vec!["new run b is damaged: b: 1 block torn".into()],
        notes: vec!["note".into()],
        display_names: [("_Z1kv".to_owned(), "k".to_owned())].into(),
        unjudged: Vec::new(),
        assumed: Some(0.0075),
        limits: vec![Limit { metric: Metric::Time, rise: 0.05 }],
        rows: vec![row(None, Outcome::NotJudged), row(Some(open), Outcome::Unclear)],
    };
    let mut document = serde_json::to_value(differences).unwrap();
    let breaches = schema::breaches(&diff_path(), &document);
    assert!(breaches.is_empty(), "{breaches:#?}");
    document["rows"][0]["outcome"] = "perhaps".into();
    assert!(!schema::breaches(&diff_path(), &document).is_empty());
}

fn bench_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("bench-diff.schema.json")
}

#[test]
fn the_committed_schema_of_benchmarks_differences_is_that_of_the_types() {
    schema::committed_type::<bench::Diff>(&bench_path(), bench::SCHEMA);
}

#[test]
fn differences_of_benchmarks_keep_to_the_schema_and_changed_ones_do_not() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lab/tests/golden/results.json");
    let text = std::fs::read_to_string(golden).unwrap();
    let base = bench::Run::read("a", text.as_bytes()).unwrap();
    let less = text.replace("\"value\": 3.0", "\"value\": 2.6");
    let new = bench::Run::read("b", less.as_bytes()).unwrap();
    let diff = bench::Diff::new(&[base], &[new], Some(0.03));
    assert!(diff.rows.iter().any(|r| r.change.is_some()), "{diff:?}");
    let mut document = serde_json::to_value(diff).unwrap();
    let breaches = schema::breaches(&bench_path(), &document);
    assert!(breaches.is_empty(), "{breaches:#?}");
    document["rows"][0]["direction"] = "sideways".into();
    assert!(!schema::breaches(&bench_path(), &document).is_empty());
}

#[test]
fn the_committed_schema_is_that_of_the_types() {
    schema::committed_type::<Repeated>(&path(), SCHEMA);
}

#[test]
fn documents_keep_to_the_schema_and_changed_ones_do_not() {
    let (one, several) = (Spread::compute(&[1.0]).unwrap(), Spread::compute(&[1.0, 2.0]).unwrap());
    let row = Row {
        name: "k".into(),
        kind: "kernel",
        device: Some("d".into()),
        launches: several,
        launch_ns: Some(several),
        total_ns: None,
        joules_per_launch: Some(Interval::estimated(1.0, 0.5, 1.5)),
    };
    let energy = Energy {
        sensor: "nvml energy".into(),
        joules: several,
        mean_watts: several,
        within_joules: 0.1,
    };
    let figures = Repeated {
        schema: SCHEMA,
        display_names: [("_Z1kv".to_owned(), "k".to_owned())].into(),
        command: vec!["app".into()],
        runs: 2,
        wall_ns: one,
        user_ns: several,
        system_ns: several,
        kernel_ns: Some(several),
        transfer_ns: None,
        energy: vec![energy],
        no_energy: None,
        rows: vec![row],
        next: None,
    };
    let mut document = serde_json::to_value(figures).unwrap();
    let breaches = schema::breaches(&path(), &document);
    assert!(breaches.is_empty(), "{breaches:#?}");
    assert!(document["wall_ns"]["mean"]["low"].is_null(), "one run has no interval");
    document.as_object_mut().unwrap().remove("wall_ns").unwrap();
    assert!(!schema::breaches(&path(), &document).is_empty());
}
