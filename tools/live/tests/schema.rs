//! The committed schema is what the types say, and documents keep to it. Refuses to look at
//! figures. `UPDATE_GOLDENS=1` writes it anew: raise its version where something changes its
//! meaning or goes.

use clscope_live::document::{Document, SCHEMA};
use clscope_live::follow::Follower;
use clscope_testing::schema;
use std::path::{Path, PathBuf};

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("top.schema.json")
}

#[test]
fn the_committed_schema_is_that_of_the_types() {
    schema::committed_type::<Document>(&path(), SCHEMA);
}

#[test]
fn documents_keep_to_the_schema_and_changed_ones_do_not() {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../trace/tests/samples/v1.2");
    let found = Follower::open(&samples, Vec::new()).unwrap().poll(&|_| "ended").unwrap();
    assert!(!found.functions.is_empty() && !found.processes.is_empty(), "{found:?}");
    let mut document = serde_json::to_value(found).unwrap();
    let breaches = schema::breaches(&path(), &document);
    assert!(breaches.is_empty(), "{breaches:#?}");
    document.as_object_mut().unwrap().remove("kernels").unwrap();
    assert!(!schema::breaches(&path(), &document).is_empty());
}
