//! The committed schemas are what the types say.

use clscope_models::explain::{self, Explanation};
use clscope_models::predict::{self, Predictions};
use clscope_models::roofline::{self, Roofline};
use clscope_models::{Device, device};
use clscope_testing::schema;
use std::path::{Path, PathBuf};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

#[test]
fn committed_schemas_are_the_types() {
    schema::committed_type::<Explanation>(&path("explain.schema.json"), explain::SCHEMA);
    schema::committed_type::<Roofline>(&path("roofline.schema.json"), roofline::SCHEMA);
    schema::committed_type::<Predictions>(&path("what-if.schema.json"), predict::SCHEMA);
    schema::committed_type::<Device>(&path("device.schema.json"), device::SCHEMA);
}
