//! Committed JSON schemas (draft 2020-12): a schema is what the types say, and documents keep to
//! it: all that a program of a test prints, told from other output by the schema that they name.
//! Refuses to look at figures.
#![forbid(unsafe_code)]

use crate::golden::UPDATE;
use serde_json::Value;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

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
pub fn breaches(path: &Path, document: &Value) -> Vec<String> {
    Known::at(path).breaches(document)
}

/// A committed schema, ready to be asked. To make it so takes longer than most questions: each is
/// read once by a process.
struct Known {
    id: Value,
    validator: jsonschema::Validator,
}

impl Known {
    fn at(path: &Path) -> Arc<Self> {
        static ALL: OnceLock<Mutex<HashMap<PathBuf, Arc<Known>>>> = OnceLock::new();
        let mut all =
            ALL.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        let made = || {
            let schema = read(path);
            let validator = jsonschema::draft202012::new(&schema);
            let validator = validator.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            Arc::new(Self { id: schema["$id"].clone(), validator })
        };
        Arc::clone(all.entry(path.to_owned()).or_insert_with(made))
    }

    fn breaches(&self, document: &Value) -> Vec<String> {
        let errors = self.validator.iter_errors(document);
        errors.map(|e| format!("{}: {e}", e.instance_path)).collect()
    }
}

/// Where text that is a document of the command, one JSON object that names its schema, breaks that
/// schema; nothing for any other text.
///
/// # Panics
/// If a document names a schema that is not committed.
pub fn text_breaches(text: &str) -> Vec<String> {
    let parsed = text.trim_start().strip_prefix('{').and_then(|_| serde_json::from_str(text).ok());
    let Some(document) = parsed.filter(Value::is_object) else { return Vec::new() };
    let path = match &document["schema"] {
        Value::String(name) => match name.split('/').next() {
            Some("clscope-report") => "tools/profile/report.schema.json",
            Some("clscope-diff") => "tools/compare/diff.schema.json",
            Some("clscope-doctor") => "tools/doctor/doctor.schema.json",
            Some("clscope-overhead") => "tools/doctor/overhead.schema.json",
            Some("clscope-stat") => "tools/compare/stat.schema.json",
            Some("clscope-check") => "tools/check/check.schema.json",
            Some("clscope-kernel") => "tools/launch/kernel.schema.json",
            Some("clscope-top") => "tools/live/top.schema.json",
            Some("clscope-mix") => "tools/profile/mix.schema.json",
            Some("clscope-device") => "tools/models/device.schema.json",
            Some("clscope-explain") => "tools/models/explain.schema.json",
            Some("clscope-roofline") => "tools/models/roofline.schema.json",
            Some("clscope-what-if") => "tools/models/what-if.schema.json",
            Some("clscope-bench-diff") => "tools/compare/bench-diff.schema.json",
            Some("clscope-bench-reproduced") => "tools/lab/reproduced.schema.json",
            Some("clscope-bench") => "tools/lab/bench.schema.json",
            _ => panic!("there is no committed schema {name}"),
        },
        _ => return Vec::new(),
    };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    let schema = Known::at(&path);
    let mut found = schema.breaches(&document);
    open_figures(&document, "", &mut found);
    // The type says only that it is text.
    let version = &schema.id;
    if document["schema"] != *version {
        found.push(format!("/schema: {}, and the committed one is {version}", document["schema"]));
    }
    found
}

/// Where a document breaks what holds for every figure: an interval is whole, with its value inside, or
/// an end of it is null and no number stands in its place; a bound `NAME_below` stands where there is
/// no figure `NAME`; no word judges a figure.
fn open_figures(of: &Value, at: &str, found: &mut Vec<String>) {
    match of {
        Value::Object(fields) => {
            if fields.contains_key("low") || fields.contains_key("high") {
                let all = ["value", "low", "high", "estimated"];
                let is_whole = all.iter().all(|name| fields.contains_key(*name));
                let [value, low, high] =
                    ["value", "low", "high"].map(|name| fields.get(name).and_then(Value::as_f64));
                // A mean of equal numbers may differ from them in its last bits.
                let beyond = |low: f64, high: f64| low - high > 1e-12 * high.abs();
                let below = low.zip(value).is_some_and(|(low, value)| beyond(low, value));
                let above = high.zip(value).is_some_and(|(high, value)| beyond(value, high));
                if !is_whole || below || above || (low == Some(0.0) && high.is_none()) {
                    found.push(format!("{at}: {of} is no interval"));
                }
            }
            for (name, bound) in fields.iter().filter(|(_, bound)| !bound.is_null()) {
                let figure = name.strip_suffix("_below").and_then(|name| fields.get(name));
                if figure.is_some_and(|figure| !figure.is_null()) {
                    found.push(format!("{at}/{name}: {bound} beside a figure"));
                }
                if name == "verdict" || bound.as_str().is_some_and(|word| WORDS.contains(&word)) {
                    found.push(format!("{at}/{name}: {bound} judges a figure"));
                }
                open_figures(bound, &format!("{at}/{name}"), found);
            }
        }
        Value::Array(items) => {
            let each = items.iter().enumerate();
            each.for_each(|(i, of)| open_figures(of, &format!("{at}/{i}"), found));
        }
        _ => {}
    }
}

/// Words that judged figures once.
const WORDS: [&str; 5] = ["well", "weak", "only-as-sum", "not-at-all", "regressed"];

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

#[cfg(test)]
mod tests {
    use super::{open_figures, text_breaches};
    use serde_json::json;

    #[test]
    fn figures_that_cannot_be_are_found_wherever_they_stand() {
        let of = |low: f64, high: f64| json!({"value": 2.0, "low": low, "high": high, "estimated": true});
        let (nan, breaches) = (f64::NAN, |figure: serde_json::Value| {
            let mut found = Vec::new();
            open_figures(&json!([{ "joules": figure, "joules_below": null }]), "", &mut found);
            found.len()
        });
        for (low, high) in [(1.0, 3.0), (2.0, 2.0), (nan, nan), (nan, 3.0), (1.0, nan), (0.0, 3.0)]
        {
            assert_eq!(breaches(of(low, high)), 0, "{low} {high}");
        }
        for (low, high) in [(0.0, nan), (2.5, 3.0), (1.0, 1.5)] {
            assert_eq!(breaches(of(low, high)), 1, "{low} {high}");
        }
        assert_eq!(breaches(json!({"value": 2.0, "low": 1.0, "high": 3.0})), 1);
        for wrong in [
            json!({"a": 1.0, "a_below": 2.0}),
            json!({"verdict": "same"}),
            json!(["x", {"is": "weak"}]),
        ] {
            let mut found = Vec::new();
            open_figures(&wrong, "", &mut found);
            assert_eq!(found.len(), 1, "{wrong}: {found:?}");
        }
    }

    #[test]
    fn documents_alone_are_checked() {
        assert!(text_breaches("").is_empty() && text_breaches("text").is_empty());
        assert!(text_breaches("{\"status\": \"ok\"}").is_empty());
        let missed = text_breaches("{\"schema\": \"clscope-report/9\"}");
        assert!(missed.iter().any(|e| e.contains("kernels")), "{missed:?}");
        let other = text_breaches("{\"schema\": \"clscope-report/4\"}");
        assert!(other.iter().any(|e| e.contains("clscope-report/9")), "{other:?}");
        let missed = text_breaches("{\"schema\": \"clscope-doctor/1\"}");
        assert!(missed.iter().any(|e| e.contains("findings")), "{missed:?}");
    }
}
