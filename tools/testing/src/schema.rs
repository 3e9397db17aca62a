//! Committed JSON schemas (draft 2020-12): a schema is what the types say, and documents keep to it.
//! Refuses to look at figures.
#![forbid(unsafe_code)]

use crate::golden::UPDATE;
use serde_json::Value;
use std::path::Path;

/// Compares the committed schema at `path` with the one that the types make. What descriptions say
/// is left out: it changes nothing.
///
/// # Panics
/// Where they differ; where the file is missing.
#[track_caller]
pub fn committed(path: &Path, made: &impl serde::Serialize) {
    let made = serde_json::to_value(made).expect("a schema is JSON");
    if std::env::var(UPDATE).is_ok_and(|v| v == "1") {
        let text = serde_json::to_string_pretty(&made).expect("a schema is JSON") + "\n";
        std::fs::write(path, text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }
    let (mut made, mut known) = (made, read(path));
    [&mut made, &mut known].into_iter().for_each(without_words);
    assert_eq!(made, known, "{} differs; {UPDATE}=1 writes it", path.display());
}

/// Compares the committed schema at `path` with that of a type as it is written, named `id`.
///
/// # Panics
/// As [`committed`].
#[track_caller]
pub fn committed_type<T: schemars::JsonSchema>(path: &Path, id: &str) {
    let settings = schemars::generate::SchemaSettings::draft2020_12().for_serialize();
    let mut made = settings.into_generator().into_root_schema_for::<T>();
    made.insert("$id".to_owned(), id.into());
    committed(path, &made);
}

/// Where a document breaks the schema at `path`.
///
/// # Panics
/// If there is no schema there.
#[must_use]
pub fn breaches(path: &Path, document: &Value) -> Vec<String> {
    let validator = jsonschema::draft202012::new(&read(path))
        .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    validator.iter_errors(document).map(|e| format!("{}: {e}", e.instance_path)).collect()
}

fn read(path: &Path) -> Value {
    let text = std::fs::read_to_string(path)
        .unwrap_or_else(|e| panic!("{}: {e}; {UPDATE}=1 writes it", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn without_words(of: &mut Value) {
    match of {
        Value::Object(fields) => {
            fields.retain(|name, value| name != "description" || !value.is_string());
            fields.values_mut().for_each(without_words);
        }
        Value::Array(items) => items.iter_mut().for_each(without_words),
        _ => {}
    }
}
