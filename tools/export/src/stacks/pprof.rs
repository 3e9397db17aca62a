//! Owns pprof's format (`profile.proto` of github.com/google/pprof), compressed as its readers
//! expect it: one sample for each stack, with all four weights.

use super::{Frame, Stack, Weight};
use crate::proto::Message;
use std::collections::HashMap;
use std::io::{Result, Write};

const SAMPLE_TYPE: u32 = 1;
const SAMPLE: u32 = 2;
const LOCATION: u32 = 4;
const FUNCTION: u32 = 5;
const STRINGS: u32 = 6;
const TIME: u32 = 9;
const DURATION: u32 = 10;
const COMMENT: u32 = 13;
const DEFAULT_TYPE: u32 = 14;
const TYPE_NAME: u32 = 1;
const TYPE_UNIT: u32 = 2;
const SAMPLE_LOCATION: u32 = 1;
const SAMPLE_VALUE: u32 = 2;
const LOCATION_ID: u32 = 1;
const LOCATION_LINE: u32 = 4;
const LINE_FUNCTION: u32 = 1;
const LINE_LINE: u32 = 2;
const FUNCTION_ID: u32 = 1;
const FUNCTION_NAME: u32 = 2;
const FUNCTION_SYSTEM_NAME: u32 = 3;
const FUNCTION_FILE: u32 = 4;

/// The table of strings, of which the first is empty.
#[derive(Default)]
struct Strings(HashMap<String, u64>, Vec<String>);

impl Strings {
    fn intern(&mut self, text: &str) -> u64 {
        if let Some(at) = self.0.get(text) {
            return *at;
        }
        let at = self.1.len() as u64;
        self.0.insert(text.to_owned(), at);
        self.1.push(text.to_owned());
        at
    }
}

/// Writes stacks, with `by` shown first. `began` is when the recording did, ns since 1970, and
/// `duration_ns` how long it took, where these are known.
///
/// # Errors
/// If `out` cannot be written.
pub fn write(
    stacks: &[Stack],
    by: Weight,
    (began, duration_ns): (Option<i64>, Option<u64>),
    comment: &str,
    out: impl Write,
) -> Result<()> {
    let mut strings = Strings::default();
    strings.intern("");
    let mut profile = Message::default();
    for weight in Weight::ALL {
        let (name, unit) = weight.named();
        let (name, unit) = (strings.intern(name), strings.intern(unit));
        profile.nested(SAMPLE_TYPE, |m| {
            m.uint(TYPE_NAME, name);
            m.uint(TYPE_UNIT, unit);
        });
    }
    // A location is a function here, and has its number.
    let mut locations: HashMap<&Frame, u64> = HashMap::new();
    for stack in stacks {
        let mut ids = Vec::with_capacity(stack.frames.len());
        for frame in &stack.frames {
            let next = locations.len() as u64 + 1;
            let id = *locations.entry(frame).or_insert(next);
            ids.push(id);
            if id != next {
                continue;
            }
            let (name, file) =
                (strings.intern(&frame.name), strings.intern(frame.file.as_deref().unwrap_or("")));
            profile.nested(LOCATION, |m| {
                m.uint(LOCATION_ID, id);
                m.nested(LOCATION_LINE, |m| {
                    m.uint(LINE_FUNCTION, id);
                    m.uint(LINE_LINE, frame.line.unwrap_or(0).into());
                });
            });
            profile.nested(FUNCTION, |m| {
                m.uint(FUNCTION_ID, id);
                m.uint(FUNCTION_NAME, name);
                m.uint(FUNCTION_SYSTEM_NAME, name);
                m.uint(FUNCTION_FILE, file);
            });
        }
        profile.nested(SAMPLE, |m| {
            // The innermost first.
            ids.iter().rev().for_each(|id| m.uint(SAMPLE_LOCATION, *id));
            // The format has no value for what is not known; a sample without joules adds none.
            Weight::ALL.iter().for_each(|w| m.uint(SAMPLE_VALUE, stack.weight(*w).unwrap_or(0)));
        });
    }
    let (first, comment) = (strings.intern(by.named().0), strings.intern(comment));
    if let Some(ns) = began {
        profile.int(TIME, ns);
    }
    if let Some(ns) = duration_ns {
        profile.uint(DURATION, ns);
    }
    profile.uint(COMMENT, comment);
    profile.uint(DEFAULT_TYPE, first);
    strings.1.iter().for_each(|text| profile.text(STRINGS, text));
    let mut out = crate::compressed(out);
    out.write_all(profile.as_slice())?;
    out.finish()?;
    Ok(())
}
