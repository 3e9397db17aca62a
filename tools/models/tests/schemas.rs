//! The committed schemas are what the types say.

use clscope_models::Device;
use clscope_models::explain::Explanation;
use clscope_models::predict::Predictions;
use clscope_models::roofline::Roofline;
use schemars::JsonSchema;
use std::path::Path;

/// Compares with the committed file, under a title that says what the document is.
fn committed<T: JsonSchema>(file: &str, title: &str, reads: bool) {
    let settings = schemars::generate::SchemaSettings::draft2020_12();
    let settings = if reads { settings } else { settings.for_serialize() };
    let mut made = settings.into_generator().into_root_schema_for::<T>();
    made.insert("title".to_owned(), title.into());
    clscope_testing::schema::committed(&Path::new(env!("CARGO_MANIFEST_DIR")).join(file), &made);
}

#[test]
fn committed_schemas_are_the_types() {
    committed::<Explanation>("explain.schema.json", "clscope explain --format json", false);
    committed::<Roofline>("roofline.schema.json", "clscope roofline --format json", false);
    committed::<Predictions>("what-if.schema.json", "clscope what-if --format json", false);
    committed::<Device>("device.schema.json", "clscope bench model --export", true);
}
