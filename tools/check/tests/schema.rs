//! The committed schema is what the types say, and documents keep to it. Refuses to look at
//! findings. `UPDATE_GOLDENS=1` writes it anew: raise its version where something changes its
//! meaning or goes.

use clscope_check::document::{Document, EndedInside, Finding, SCHEMA};
use clscope_check::{Rule, Severity};
use clscope_testing::schema;
use std::path::{Path, PathBuf};

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("check.schema.json")
}

#[test]
fn the_committed_schema_is_that_of_the_types() {
    schema::committed_type::<Document>(&path(), SCHEMA);
}

#[test]
fn documents_keep_to_the_schema_and_changed_ones_do_not() {
    let rule = Rule::DataRace;
    let finding = Finding {
        rule: rule.id(),
        severity: rule.severity(),
        title: rule.title(),
        process: "t.clscope/7-0".into(),
        text: "kernel a writes what kernel b reads".into(),
        function: Some("clEnqueueNDRangeKernel".into()),
        place: None,
        other_place: Some("main".into()),
        count: 2,
        lost_ns: Some(1000),
        subjects: vec!["memory object #3".into()],
        specification: rule.section(),
        remedy: rule.remedy(),
    };
    let document = Document {
        schema: SCHEMA,
        traces: vec!["t.clscope".into()],
        changed: vec!["local size of a: 8".into()],
        checked_run: true,
        display_names: Default::default(),
        ended_inside: vec![EndedInside {
            process: "t.clscope/7-0".into(),
            function: "clFinish".into(),
            place: None,
        }],
        findings: vec![finding],
        notes: vec!["something".into()],
    };
    assert_eq!((document.count(Severity::Error), document.count(Severity::Warning)), (1, 0));
    let mut document = serde_json::to_value(document).unwrap();
    let breaches = schema::breaches(&path(), &document);
    assert!(breaches.is_empty(), "{breaches:#?}");
    assert_eq!(document["findings"][0]["severity"], "error");
    document["findings"][0].as_object_mut().unwrap().remove("rule").unwrap();
    assert!(!schema::breaches(&path(), &document).is_empty());
}
