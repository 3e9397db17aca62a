//! Owns speedscope's own format (its `file-format-schema.json`): frames once, stacks as lists of
//! their numbers, one weight each.

use super::{Frame, Stack, Weight};
use clscope_io::text::line;
use serde::Serialize;
use std::collections::HashMap;
use std::io::Write;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File<'s> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    exporter: String,
    name: &'s str,
    active_profile_index: usize,
    shared: Shared<'s>,
    profiles: Vec<Profile>,
}

#[derive(Serialize)]
struct Shared<'s> {
    frames: Vec<Named<'s>>,
}

#[derive(Serialize)]
struct Named<'s> {
    name: &'s str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'s str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Profile {
    r#type: &'static str,
    name: &'static str,
    unit: &'static str,
    start_value: u64,
    end_value: u64,
    samples: Vec<Vec<usize>>,
    weights: Vec<u64>,
}

/// Writes stacks, with `by` shown first: each weight that any stack has is a profile. `name`: of
/// the whole, shown on one line.
///
/// # Errors
/// If `out` cannot be written.
pub fn write(stacks: &[Stack], by: Weight, name: &str, out: impl Write) -> serde_json::Result<()> {
    let mut numbers: HashMap<&Frame, usize> = HashMap::new();
    let mut frames = Vec::new();
    let mut number = |frame| {
        *numbers.entry(frame).or_insert_with(|| {
            let Frame { name, file, line } = frame;
            frames.push(Named { name, file: file.as_deref(), line: *line });
            frames.len() - 1
        })
    };
    let mut profiles = Vec::new();
    let mut active = 0;
    for weight in Weight::ALL {
        let (mut samples, mut weights) = (Vec::new(), Vec::new());
        for stack in stacks {
            let Some(w) = stack.weight(weight).filter(|w| *w > 0) else { continue };
            samples.push(stack.frames.iter().map(&mut number).collect());
            weights.push(w);
        }
        if weight == by {
            active = profiles.len();
        } else if samples.is_empty() {
            continue;
        }
        // Of the format's units.
        let (name, unit) = match weight {
            Weight::Time => ("time", "nanoseconds"),
            Weight::Energy => ("energy, microjoules", "none"),
            Weight::Count => ("count", "none"),
            Weight::Bytes => ("bytes", "bytes"),
        };
        profiles.push(Profile {
            r#type: "sampled",
            name,
            unit,
            start_value: 0,
            end_value: weights.iter().copied().fold(0, u64::saturating_add),
            samples,
            weights,
        });
    }
    let file = File {
        schema: "https://www.speedscope.app/file-format-schema.json",
        exporter: format!("clscope@{}", env!("CARGO_PKG_VERSION")),
        name: &line(name),
        active_profile_index: active,
        shared: Shared { frames },
        profiles,
    };
    serde_json::to_writer(out, &file)
}
