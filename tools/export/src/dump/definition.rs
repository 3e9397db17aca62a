//! Definitions as JSON objects, and in one line each.

use clscope_trace::defs::Def;
use clscope_trace::record::CommandKind;
use serde_json::Value;
use std::fmt::Write as _;

/// A definition in one line: its kind, then its fields as JSON writes them, which keeps the many
/// lines of a build log in one. What is absent is left out.
pub(super) fn one_line(fields: Value) -> String {
    let Value::Object(mut fields) = fields else { return fields.to_string() };
    let mut out =
        fields.remove("kind").and_then(|k| k.as_str().map(str::to_owned)).unwrap_or_default();
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        let _ = write!(out, " {name}={value}");
    }
    out
}

/// A definition as an object: its kind and its fields.
pub(super) fn definition(def: &Def) -> serde_json::Result<Value> {
    let mut fields = serde_json::to_value(def)?;
    if let Def::Replay(replay) = def {
        fields["command"] = CommandKind::from_u8(replay.command).name().into();
    }
    Ok(fields)
}
