//! The results of a run as CSV. Owns its columns; refuses to choose figures.

use clscope_microbench::results::Results;
use std::io::Write;

/// Writes one row per figure, and one row without a figure for every case that gave none.
///
/// # Errors
/// What the writer returned.
pub fn write_csv(results: &Results, out: impl Write) -> Result<(), csv::Error> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record([
        "case",
        "suite",
        "status",
        "figure",
        "value",
        "low",
        "high",
        "unit",
        "groups",
        "group_size",
        "trips",
        "reason",
    ])?;
    for case in &results.cases {
        let status = serde_json::to_value(case.status)
            .ok()
            .and_then(|v| v.as_str().map(str::to_owned))
            .unwrap_or_default();
        let geometry = case
            .timing
            .as_ref()
            .map(|t| [t.groups.to_string(), t.group_size.to_string(), t.trips.to_string()]);
        let [groups, size, trips] = geometry.unwrap_or_default();
        let reason = case.reason.as_deref().unwrap_or_default();
        let mut row = |figure: [&str; 5]| {
            let head = [case.id.as_str(), case.suite, &status];
            let tail = [groups.as_str(), &size, &trips, reason];
            csv.write_record(head.into_iter().chain(figure).chain(tail))
        };
        if case.figures.is_empty() {
            row([""; 5])?;
        }
        for figure in &case.figures {
            let number = |x: f64| if x.is_finite() { x.to_string() } else { String::new() };
            let e = figure.estimate;
            row([&figure.name, &number(e.value), &number(e.low), &number(e.high), figure.unit])?;
        }
    }
    csv.flush()?;
    Ok(())
}
