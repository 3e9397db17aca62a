//! The committed schemas are what the types say, and documents keep to them. Refuses to look at
//! figures. `UPDATE_GOLDENS=1` writes them anew: raise the version where something changes its
//! meaning or goes.

use clscope_launch::application::Application;
use clscope_launch::capture::Launch;
use clscope_launch::document::{Document, SCHEMA};
use clscope_testing::schema;
use std::path::{Path, PathBuf};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

#[test]
fn the_committed_schemas_are_those_of_the_types() {
    let settings = || schemars::generate::SchemaSettings::draft2020_12();
    let mut made = settings().for_serialize().into_generator().into_root_schema_for::<Document>();
    made.insert("$id".to_owned(), SCHEMA.into());
    schema::committed(&path("kernel.schema.json"), &made);
    let mut made = settings().into_generator().into_root_schema_for::<Launch>();
    made.insert("$id".to_owned(), "clscope-launch/1".into());
    schema::committed(&path("launch.schema.json"), &made);
    let mut made = settings().into_generator().into_root_schema_for::<Application>();
    made.insert("$id".to_owned(), "clscope-application/1".into());
    schema::committed(&path("application.schema.json"), &made);
}
