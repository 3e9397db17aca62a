//! Checks JSON reports against the committed schema (`tools/profile/report.schema.json`). Owns
//! telling a report from other output; refuses to look at figures.
#![forbid(unsafe_code)]

use jsonschema::Validator;
use serde_json::Value;
use std::sync::LazyLock;

static REPORT: LazyLock<Validator> = LazyLock::new(|| {
    let path = crate::artifacts::root().join("tools/profile/report.schema.json");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    jsonschema::draft202012::new(&serde_json::from_str(&text).unwrap()).unwrap()
});

/// Where text that is a report, one JSON object with the number of its schema, breaks the schema;
/// nothing for any other text.
#[must_use]
pub fn breaches(text: &str) -> Vec<String> {
    let report = text.trim_start().strip_prefix('{').and_then(|_| serde_json::from_str(text).ok());
    let Some(report) = report.filter(|r: &Value| r["schema"].is_number()) else {
        return Vec::new();
    };
    REPORT.iter_errors(&report).map(|e| format!("{}: {e}", e.instance_path)).collect()
}

#[cfg(test)]
mod tests {
    use super::breaches;

    #[test]
    fn reports_alone_are_checked() {
        assert!(breaches("").is_empty() && breaches("text").is_empty());
        assert!(breaches("{\"status\": \"ok\"}").is_empty());
        let missed = breaches("{\"schema\": 2}");
        assert!(missed.iter().any(|e| e.contains("kernels")), "{missed:?}");
    }
}
