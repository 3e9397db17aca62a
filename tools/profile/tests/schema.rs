//! The committed schema of the report is what the types say, and a report keeps to it. Refuses to
//! look at figures. `UPDATE_GOLDENS=1` writes the schema anew: raise its version where something
//! changes its meaning or goes.

use clscope_analysis::Trace;
use clscope_analysis::stats::Stats;
use clscope_analysis::testing::{CommandSpec, HostModel, ProcessBuilder, function};
use clscope_profile::energy::activity::{By, Grouping};
use clscope_profile::mixes::{KernelMix, document};
use clscope_profile::report::Report;
use clscope_profile::report::data::SCHEMA;
use clscope_profile::sites::Sites;
use clscope_testing::schema;
use serde_json::Value;

fn committed() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("report.schema.json")
}

/// A report of two launches and a wait.
fn report() -> Value {
    let mut p = ProcessBuilder::standard(HostModel::default(), 7, 1);
    let thread = p.thread(0);
    thread.enqueue(1_000, 2_000, &CommandSpec::kernel(1, 2, 10));
    thread.timing(5_500, 1, [1_100, 1_200, 3_000, 4_000]);
    thread.plain(function::FINISH, 5_000, 6_000, 0, 1);
    p.exit(7_000, 1);
    let bytes = p.build();
    let trace = Trace::open(vec![bytes.files("app.clscope/7-0")]);
    let alignment = trace.align();
    let stats = Stats::of_trace(&trace, &alignment);
    let by = Grouping { by: By::Kernel, sites: &Sites::default() };
    serde_json::to_value(Report::new(vec!["app.clscope".into()], &trace, &alignment, &stats, by))
        .unwrap()
}

#[test]
fn the_committed_schema_of_measurements_is_that_of_the_types() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("measured.schema.json");
    schema::committed_type::<clscope_profile::measured::Measured>(&path, "clscope-measured/1");
}

#[test]
fn the_committed_schema_is_that_of_the_types() {
    schema::committed_type::<Report>(&committed(), SCHEMA);
}

#[test]
fn the_committed_schema_of_mixes_is_that_of_the_types() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("mix.schema.json");
    schema::committed_type::<document::Document>(&path, document::SCHEMA);
    let mut row = KernelMix { counted: 1, ..KernelMix::default() };
    row.blocks.insert(3, (5, None));
    let written = document::Document::of_kernels(vec!["t".into()], &[&row]);
    let mut written = serde_json::to_value(written).unwrap();
    assert!(schema::breaches(&path, &written).is_empty());
    let executed = written.pointer_mut("/kernels/0/executed").unwrap();
    executed.as_object_mut().unwrap().remove("flop").unwrap();
    assert!(!schema::breaches(&path, &written).is_empty());
}

#[test]
fn a_report_keeps_to_the_schema_and_a_changed_one_does_not() {
    let report = report();
    assert!(report["kernels"][0]["time_ns"]["total"].as_u64() > Some(0), "{report:#}");
    let breaches = schema::breaches(&committed(), &report);
    assert!(breaches.is_empty(), "{breaches:#?}");
    for (pointer, field) in [
        ("", "schema"),
        ("/totals", "kernel_ns"),
        ("/kernels/0", "time_ns"),
        ("/energy", "devices"),
    ] {
        let mut less = report.clone();
        if pointer == "/energy" && report["energy"].is_null() {
            less["energy"] = serde_json::json!({"absent": "no"});
        } else {
            less.pointer_mut(pointer).unwrap().as_object_mut().unwrap().remove(field).unwrap();
        }
        assert!(!schema::breaches(&committed(), &less).is_empty(), "{pointer}/{field} is missed");
    }
}
