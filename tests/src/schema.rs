//! Checks the JSON documents of the command against the committed schemas. Owns telling them from
//! other output; refuses to look at figures.
#![forbid(unsafe_code)]

use serde_json::Value;

/// Where text that is a document of the command, one JSON object that names its schema, breaks that
/// schema; nothing for any other text.
///
/// # Panics
/// If a document names a schema that is not committed.
#[must_use]
pub fn breaches(text: &str) -> Vec<String> {
    let parsed = text.trim_start().strip_prefix('{').and_then(|_| serde_json::from_str(text).ok());
    let Some(document) = parsed.filter(Value::is_object) else { return Vec::new() };
    let path = match &document["schema"] {
        // Both name their schemas by a number alone.
        Value::Number(_) if document["rows"].is_array() => "tools/compare/diff.schema.json",
        Value::Number(_) => "tools/profile/report.schema.json",
        Value::String(name) => match name.split('/').next() {
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
            Some("clscope-bench-reproduced") => "tools/microbench/reproduced.schema.json",
            Some("clscope-bench") => "tools/microbench/bench.schema.json",
            _ => panic!("there is no committed schema {name}"),
        },
        _ => return Vec::new(),
    };
    clscope_testing::schema::breaches(&crate::artifacts::root().join(path), &document)
}

#[cfg(test)]
mod tests {
    use super::breaches;

    #[test]
    fn documents_alone_are_checked() {
        assert!(breaches("").is_empty() && breaches("text").is_empty());
        assert!(breaches("{\"status\": \"ok\"}").is_empty());
        let missed = breaches("{\"schema\": 2}");
        assert!(missed.iter().any(|e| e.contains("kernels")), "{missed:?}");
        let missed = breaches("{\"schema\": \"clscope-doctor/1\"}");
        assert!(missed.iter().any(|e| e.contains("findings")), "{missed:?}");
    }
}
