//! Experiments of the documents for people: the list, curves as sparklines, numbers side by side.

use super::walks::{aligned, sparkline};
use crate::reproduce::{self, DOCUMENTS, Number, On, Printed, Report, Reported, Standing, State};
use clscope_text::figure::number;
use std::io::{self, Write};
use std::time::Duration;

/// Every figure and table of the documents: what it shows, what becomes of it, the commands behind
/// it or why there are none.
///
/// # Errors
/// Where it cannot be written.
pub fn list(out: &mut impl Write) -> io::Result<()> {
    for document in DOCUMENTS.iter() {
        writeln!(out, "{}: {}", document.key, document.title)?;
        for of in reproduce::captions(document.key) {
            let name = of.name;
            match of.standing {
                Standing::ShownBy(by) => writeln!(out, "  {name}  shown by {by}")?,
                _ => writeln!(out, "  {name}  {}", of.shows)?,
            }
            match of.standing {
                Standing::Not(why) => writeln!(out, "      not reproducible: {why}")?,
                Standing::Computed => {
                    let with = reproduce::formula(name).map_or_else(String::new, |of| {
                        let all: Vec<&str> = of.parameters.iter().map(|p| p.0).collect();
                        format!("; of your parameters: --with {}=...", all.join("=...,"))
                    });
                    writeln!(out, "      computed, without a device{with}")?;
                }
                Standing::Metered => writeln!(
                    out,
                    "      measured with a sensor of power, or by emulation: --sysfs-root, --readings"
                )?,
                Standing::Measured => writeln!(out, "      measured")?,
                Standing::ShownBy(_) => {}
            }
            let Some(e) = reproduce::all().find(|e| e.name == name) else { continue };
            for part in e.parts() {
                writeln!(out, "      {}", part.command())?;
            }
            if e.rows.is_empty() && !e.parts().is_empty() {
                writeln!(out, "      the document has a picture alone, without numbers")?;
            }
        }
    }
    writeln!(
        out,
        "U: compute units of the device. Measured again by `clscope-lab --reproduce NAME`."
    )
}

/// A number of a document as it is printed there; quotients of two with four digits.
pub(crate) fn as_printed(x: f64) -> String {
    let text = x.to_string();
    if text.len() <= 8 { text } else { number(x) }
}

/// The document's numbers: of each of its devices in order, or of some with their names.
fn their_numbers(printed: &[Printed]) -> String {
    let known: Vec<(f64, &str)> =
        printed.iter().filter_map(|p| Some((p.value?, p.device))).collect();
    let one = |(value, device): &(f64, &str)| match known.len() == printed.len() {
        true => as_printed(*value),
        false => format!("{} {device}", as_printed(*value)),
    };
    let all: Vec<String> = known.iter().map(one).collect();
    if all.is_empty() { "-".to_owned() } else { all.join(", ") }
}

/// A place on the horizontal axis.
pub(crate) fn place(x: f64) -> String {
    if x.fract() == 0.0 && x.abs() < 1e15 { format!("{x:.0}") } else { number(x) }
}

fn value(of: &Number, reason: Option<&str>) -> String {
    match (&of.here, reason) {
        (Some(e), _) if e.low == e.value && e.high.is_infinite() => {
            format!("at least {}", place(e.value))
        }
        (Some(e), _) if e.longer().is_finite() && e.longer() > 0.0 => e.with_ends(number),
        (Some(e), _) => place(e.value),
        (None, reason) => format!("none: {}", reason.unwrap_or("not measured")),
    }
}

/// One experiment.
///
/// # Errors
/// Where it cannot be written.
pub fn report(out: &mut impl Write, of: &Report, on: Option<&On>) -> io::Result<()> {
    writeln!(out, "\n{}: {}", of.name, of.shows)?;
    writeln!(out, "  {}, section {}", of.document, of.section)?;
    for command in &of.commands {
        writeln!(out, "  {command}")?;
    }
    let why = of.reason.as_deref().or(of.method.as_deref()).unwrap_or("no reason");
    if of.state != State::Measured {
        writeln!(out, "  {}: {why}", of.state.words())?;
    }
    for note in &of.notes {
        writeln!(out, "  {note}")?;
    }
    if let (Some(x), Some(y), false) = (of.x, &of.y, of.curves.is_empty()) {
        writeln!(out, "  {y}, over {x}")?;
        let mut rows = Vec::new();
        for curve in &of.curves {
            let values: Vec<f64> = curve.points.iter().map(|p| p.y.value).collect();
            let (Some(first), Some(last)) = (curve.points.first(), curve.points.last()) else {
                continue;
            };
            let best = curve.points.iter().max_by(|a, b| a.y.value.total_cmp(&b.y.value));
            let best = best.unwrap_or(last);
            rows.push(vec![
                curve.name.clone(),
                format!("{} at {}", number(first.y.value), place(first.x)),
                format!("{} at {}", number(last.y.value), place(last.x)),
                format!("largest {} at {}", number(best.y.value), place(best.x)),
                sparkline(&values),
            ]);
        }
        aligned(out, &rows)?;
    }
    models(out, of)?;
    if of.numbers.is_empty() {
        if of.state == State::Measured {
            writeln!(out, "  the document has a picture alone, without numbers")?;
        }
    } else {
        let shared = of.reasons();
        if let Some(on) = on.filter(|_| of.state != State::Computed) {
            writeln!(out, "  here: {}", on.name)?;
        }
        // Several of the document's devices are in one column: names are wider than numbers.
        let theirs = match of.numbers.first().map_or(&[][..], |n| n.printed.as_slice()) {
            [] => None,
            [one] => Some(one.device.to_owned()),
            several => {
                let devices: Vec<&str> = several.iter().map(|p| p.device).collect();
                writeln!(out, "  the document: {}", devices.join(", "))?;
                Some("the document".to_owned())
            }
        };
        let head = ["number", "unit", "here"].map(str::to_owned).into_iter();
        let mut rows: Vec<Vec<String>> = vec![head.chain(theirs).collect()];
        for of in &of.numbers {
            let printed = (!of.printed.is_empty()).then(|| their_numbers(&of.printed));
            let begin = [of.what.to_owned(), of.unit.to_owned(), of.in_words(&shared, value)];
            rows.push(begin.into_iter().chain(printed).collect());
        }
        aligned(out, &rows)?;
        for (number, reason) in shared.iter().enumerate() {
            writeln!(out, "  ({}) {reason}", number + 1)?;
        }
    }
    Ok(())
}

/// The table of worst quotients.
fn models(out: &mut impl Write, of: &Report) -> io::Result<()> {
    if of.models.is_empty() {
        return Ok(());
    }
    let head =
        ["estimate / measurement", "largest", "additions, warps", "smallest", "additions, warps"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for w in &of.models {
        let at = |[alpha, n]: [f64; 2]| format!("{}, {}", place(alpha), place(n));
        let quotient = |x: f64| format!("{x:.3}");
        rows.push(vec![
            w.model.to_owned(),
            quotient(w.over),
            at(w.over_at),
            quotient(w.under),
            at(w.under_at),
        ]);
    }
    aligned(out, &rows)?;
    if let Some(method) = &of.method {
        writeln!(out, "  {method}")?;
    }
    Ok(())
}

/// How many experiments came to what.
///
/// # Errors
/// Where it cannot be written.
pub fn summary(out: &mut impl Write, of: &Reported, took: Duration) -> io::Result<()> {
    writeln!(
        out,
        "\nexperiments of the documents in {:.0} s{}:",
        took.as_secs_f64(),
        of.device.as_ref().map_or_else(String::new, |device| format!(" on {}", device.name))
    )?;
    for state in State::ALL {
        let names: Vec<&str> =
            of.experiments.iter().filter(|e| e.state == state).map(|e| e.name).collect();
        if !names.is_empty() {
            writeln!(out, "  {} {}: {}", names.len(), state.words(), names.join(", "))?;
        }
    }
    Ok(())
}
