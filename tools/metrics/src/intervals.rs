//! Intervals of a stream as lines for programs: CSV, and JSON an object a line. An undefined figure
//! is an empty cell, or says why. Refuses to decode.

use crate::decode::{Chosen, DecodeError, Decoded, Interval, Options, decode};
use clscope_io::text;
use clscope_oa::Layout;
use serde_json::{Map, Value, json};
use std::io::{self, BufRead, Write};

/// Writes a line an interval; the head also where there is none.
///
/// # Errors
/// If the stream cannot be decoded, or the output not be written.
pub fn csv(
    input: &mut dyn BufRead,
    options: &Options,
    out: &mut impl Write,
) -> Result<Decoded, DecodeError> {
    let mut table = csv::Writer::from_writer(out);
    let mut begun = false;
    let mut row = |interval: &Interval<'_>| {
        if !std::mem::replace(&mut begun, true) {
            let chosen = interval.figures.as_ref().map(|(chosen, _)| *chosen);
            table.write_record(columns(chosen, interval.counts.layout()))?;
        }
        Ok(table.write_record(cells(interval))?)
    };
    let decoded = decode(input, options, Some(&mut row));
    if let (false, Ok(decoded)) = (begun, &decoded) {
        table
            .write_record(columns(decoded.chosen.as_ref(), decoded.layout))
            .map_err(io::Error::from)?;
    }
    // A writer that is dropped says nothing of what it could not write.
    table.flush().map_err(DecodeError::Write)?;
    decoded
}

/// Writes an object an interval.
///
/// # Errors
/// If the stream cannot be decoded, or the output not be written.
pub fn json(
    input: &mut dyn BufRead,
    options: &Options,
    out: &mut impl Write,
) -> Result<Decoded, DecodeError> {
    let mut line = |interval: &Interval<'_>| {
        serde_json::to_writer(&mut *out, &object(interval))?;
        out.write_all(b"\n")
    };
    decode(input, options, Some(&mut line))
}

/// Names of the columns.
fn columns(chosen: Option<&Chosen>, layout: &Layout) -> Vec<String> {
    let mut names =
        vec!["begin_ticks".to_owned(), "host_ns".into(), "ticks".into(), "complete".into()];
    match chosen {
        Some(chosen) => names.extend(chosen.metrics().map(|m| text::cell(&m.symbol).into_owned())),
        None => {
            names.push("gpu_ticks".into());
            names.extend(layout.counters().map(|c| c.to_string()));
        }
    }
    names
}

/// An empty cell is an undefined figure.
fn cells(interval: &Interval<'_>) -> Vec<String> {
    fn or_empty(value: Option<impl ToString>) -> String {
        value.map_or_else(String::new, |v| v.to_string())
    }
    let counts = &interval.counts;
    let mut cells = vec![
        interval.begin_ticks.to_string(),
        or_empty(interval.host.map(|h| h.0)),
        counts.time_ticks().to_string(),
        interval.complete.to_string(),
    ];
    match &interval.figures {
        Some((_, outcomes)) => {
            cells.extend(outcomes.iter().map(|o| or_empty(o.value.as_ref().ok())));
        }
        None => {
            cells.push(or_empty(counts.gpu_ticks()));
            cells.extend(counts.layout().counters().map(|c| or_empty(counts.get(c))));
        }
    }
    cells
}

fn object(interval: &Interval<'_>) -> Value {
    let counts = &interval.counts;
    let mut object = Map::new();
    object.insert("begin_ticks".into(), interval.begin_ticks.into());
    object.insert("host_ns".into(), interval.host.map(|h| h.0).into());
    object.insert("ticks".into(), counts.time_ticks().into());
    object.insert("complete".into(), interval.complete.into());
    match &interval.figures {
        Some((chosen, outcomes)) => {
            for (metric, outcome) in chosen.metrics().zip(outcomes) {
                let value = match &outcome.value {
                    Err(why) => json!({ "undefined": why.to_string() }),
                    Ok(number) => json!(number.as_f64()),
                };
                object.insert(metric.symbol.clone(), value);
            }
        }
        None => {
            for counter in counts.layout().counters() {
                object.insert(counter.to_string(), json!(counts.get(counter)));
            }
        }
    }
    Value::Object(object)
}
