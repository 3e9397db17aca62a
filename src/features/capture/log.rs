//! Owns the log of what is drawn: a line for each class that is new, for each place of a sample that
//! is filled or left empty, and at the end for each class with its launches. Whoever reads it takes
//! the last line of a place. Refuses to draw.
#![forbid(unsafe_code)]

use super::super::beside::Sizes;
use super::memories::{merge, set};
use super::sample::Draw;
use crate::recording;
use crate::recording::files::captures;
use clscope_trace::directory::SAMPLES;
use serde_json::{Value, json};

fn write(line: &Value) {
    let Some(recording) = recording::current() else { return };
    if super::WAS_FREE.with(|was| *was) != Some(true) {
        return;
    }
    let name = format!("{}{SAMPLES}", recording.files.stem);
    let mut text = line.to_string();
    text.push('\n');
    // A log that cannot be written leaves the captures themselves.
    let _ = captures::append(&name, text.as_bytes());
}

/// A class is new.
pub fn class(class: u32, kernel: &str, ids: (u32, u32), sizes: &Sizes) {
    let given = |of: &[u64]| if of.is_empty() { Value::Null } else { json!(of) };
    write(&json!({
        "class": class,
        "kernel": kernel,
        "kernel_id": ids.0,
        "queue_id": ids.1,
        "global": sizes.global,
        "local": given(&sizes.local),
        "offset": given(&sizes.offset),
    }));
}

/// What became of a place of a sample.
pub fn slot(draw: &Draw, outcome: Value) {
    let mut line = json!({ "class": draw.class, "slot": draw.slot, "launch": draw.at });
    merge(&mut line, outcome);
    write(&line);
}

/// How many launches each class had.
pub fn end(seen: &[u64]) {
    super::is_free();
    for (class, seen) in seen.iter().enumerate() {
        let mut line = json!({ "class": class });
        set(&mut line, "seen", *seen);
        write(&line);
    }
}
