//! What `clscope-lab` measured, as lines for people: devices, cases, results. Owns which figures
//! a line shows; refuses to compute them.

use super::walks;
use crate::suite::{Case, SUITES, Suite};
use clscope_microbench::cl::DeviceFacts;
use clscope_microbench::results::{CaseResult, Figure, Results, Status};
use clscope_microbench::source::Source;
use clscope_text::figure::number;
use std::io::{self, Write};

/// The sources of all kernels.
///
/// # Errors
/// Where it cannot be written.
pub fn kernels(out: &mut impl Write) -> io::Result<()> {
    for source in Source::all() {
        writeln!(out, "// ---- {}", source.name())?;
        out.write_all(source.text().as_bytes())?;
        writeln!(out)?;
    }
    Ok(())
}

/// The suites and the chosen cases.
///
/// # Errors
/// Where it cannot be written.
pub fn cases(
    out: &mut impl Write,
    device: &DeviceFacts,
    chosen: &[(&Suite, Vec<Case>)],
) -> io::Result<()> {
    writeln!(out, "Suites:")?;
    for suite in &SUITES {
        writeln!(out, "  {:10} {}", suite.name, suite.about)?;
    }
    writeln!(out, "\nCases on {}:", device.name)?;
    for case in chosen.iter().flat_map(|(_, cases)| cases) {
        writeln!(out, "  {}", case.id)?;
    }
    Ok(())
}

/// A figure with its interval and its unit.
pub fn shown(figure: &Figure) -> String {
    let e = figure.estimate;
    format!("{} {}", e.with_ends(number), figure.unit)
}

/// The figures a line of the table shows, in this order, as far as a case has them.
const COLUMNS: [&str; 14] = [
    "rate",
    "bandwidth",
    "latency_5",
    "latency_50",
    "latency_95",
    "power",
    "dynamic_power",
    "efficiency",
    "energy_per_operation",
    "dynamic_energy_per_operation",
    "energy_per_instruction",
    "dynamic_energy_per_instruction",
    "share_of_peak",
    "share_of_peak_at_stated_clock",
];

fn line(case: &CaseResult) -> String {
    let known = COLUMNS.iter().filter_map(|name| case.figure(name));
    let other = || {
        case.figures
            .iter()
            .filter(|f| {
                !COLUMNS.contains(&f.name.as_str())
                    && f.name != "clock"
                    && !f.name.starts_with("counter/")
            })
            .take(4)
    };
    let mut parts: Vec<String> = known
        .map(|f| {
            let of = match f.name.as_str() {
                "share_of_peak" => " of peak",
                "latency_5" => " (5th percentile)",
                "latency_50" => " (median)",
                "latency_95" => " (95th)",
                name if name.starts_with("dynamic_") => " above idle",
                "share_of_peak_at_stated_clock" => " of peak at the stated clock",
                _ => "",
            };
            format!("{}{of}", shown(f))
        })
        .collect();
    // Counters that show that something ran; the files hold all counters.
    let busy = case
        .figures
        .iter()
        .filter(|f| f.name.starts_with("counter/") && f.unit == "%" && f.estimate.value >= 1.0);
    let busy = busy.map(|f| {
        format!("{} {:.1} %", f.name.rsplit('/').next().unwrap_or_default(), f.estimate.value)
    });
    if parts.is_empty() {
        parts = other().map(|f| format!("{} {}", f.name, shown(f))).collect();
    }
    parts.extend(busy);
    parts.extend(case.notes.iter().map(|note| format!("[{note}]")));
    parts.join(" | ")
}

/// Everything for people.
///
/// # Errors
/// Where it cannot be written.
pub fn tables(out: &mut impl Write, results: &Results) -> io::Result<()> {
    let f = &results.device;
    let clock = f
        .max_clock_mhz
        .map_or_else(|| "clock not stated".to_owned(), |mhz| format!("{mhz} MHz stated"));
    writeln!(
        out,
        "{} | {} | driver {} | {} compute units, {clock}",
        f.name, f.platform, f.driver, f.compute_units
    )?;
    writeln!(out, "power: {}", results.power_source)?;
    writeln!(out, "figures are means with 95 % intervals")?;
    for suite in &SUITES {
        let ours: Vec<&CaseResult> =
            results.cases.iter().filter(|c| c.suite == suite.name).collect();
        if ours.is_empty() {
            continue;
        }
        writeln!(out, "\n{}: {}", suite.name, suite.about)?;
        // As lines, the points of a sweep would bury the rest.
        let listed = |c: &&&CaseResult| {
            c.swept.is_none()
                && c.parameter("sweep").is_none()
                && (!matches!(suite.name, "transfer" | "latency")
                    || c.parameter("continuous").is_some())
        };
        let width = ours.iter().filter(listed).map(|c| c.id.len()).max().unwrap_or(0);
        for case in ours.iter().filter(|c| listed(c) && c.status == Status::Measured) {
            let line = line(case);
            if !line.is_empty() {
                writeln!(out, "  {:width$}  {line}", case.id)?;
            }
        }
        walks::of_suite(out, &ours)?;
        let mut missing: Vec<(&str, Vec<&str>)> = Vec::new();
        let plain = |c: &&&CaseResult| c.status == Status::NotAvailable && c.swept.is_none();
        for case in ours.iter().filter(plain) {
            let reason = case.reason.as_deref().unwrap_or("no reason given");
            // Reasons that differ in their numbers alone are one.
            let words = |text: &str| {
                text.split(|c: char| c.is_ascii_digit())
                    .filter(|w| !w.is_empty())
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            };
            match missing.iter_mut().find(|(r, _)| words(r) == words(reason)) {
                Some((_, ids)) => ids.push(&case.id),
                None => missing.push((reason, vec![&case.id])),
            }
        }
        for (reason, ids) in missing {
            let rest =
                if ids.len() > 1 { format!(" and {} more", ids.len() - 1) } else { String::new() };
            writeln!(out, "  not available: {}{rest}: {reason}", ids[0])?;
        }
        for case in ours.iter().filter(|c| matches!(c.status, Status::Wrong | Status::Failed)) {
            writeln!(
                out,
                "  ERROR {}: {}",
                case.id,
                case.reason.as_deref().unwrap_or("no reason given")
            )?;
        }
        let prefix = format!("{}/", suite.name);
        for finding in results.findings.iter().filter(|f| f.name.starts_with(&prefix)) {
            let sure = finding
                .confidence
                .map_or_else(String::new, |c| format!(" (confidence {:.1} %)", c * 100.0));
            writeln!(out, "  => {}{sure}", finding.text)?;
        }
    }
    walks::asked_for(out, results)?;
    Ok(())
}
