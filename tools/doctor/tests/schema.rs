//! The committed schemas are what the types say, and documents keep to them. Refuses to look at
//! figures. `UPDATE_GOLDENS=1` writes the schemas anew: raise a version where something changes its
//! meaning or goes.

use clscope_doctor::overhead::{self, Measured, Overhead};
use clscope_doctor::{Examination, Finding, SCHEMA, Status};
use clscope_profile::report::recording::Share;
use clscope_testing::schema;
use std::path::{Path, PathBuf};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

#[test]
fn the_committed_schemas_are_those_of_the_types() {
    schema::committed_type::<Examination>(&path("doctor.schema.json"), SCHEMA);
    schema::committed_type::<Overhead>(&path("overhead.schema.json"), overhead::SCHEMA);
}

#[test]
fn documents_keep_to_their_schemas_and_changed_ones_do_not() {
    let finding = Finding::new("loader", "libOpenCL.so.1", Status::Ok, "found");
    let examination = Examination {
        schema: SCHEMA,
        clscope: "0",
        status: Status::Warning,
        findings: vec![finding.clone(), finding.fix("install it")],
    };
    let recording = Share::of_costs(10, 5, 5, Some(1_000_000), None);
    let overhead = Overhead {
        schema: overhead::SCHEMA,
        measured: Measured::default(),
        recording: Some(recording),
    };
    let documents = [
        ("doctor.schema.json", serde_json::to_value(examination).unwrap(), "findings"),
        ("overhead.schema.json", serde_json::to_value(overhead).unwrap(), "measured"),
    ];
    for (name, mut document, field) in documents {
        let breaches = schema::breaches(&path(name), &document);
        assert!(breaches.is_empty(), "{breaches:#?}");
        document.as_object_mut().unwrap().remove(field).unwrap();
        assert!(!schema::breaches(&path(name), &document).is_empty(), "{name}: {field} is missed");
    }
}
