//! Sweeps for a terminal: tables of those that the user asked for, and a line with a sparkline for
//! each that a suite makes by itself. Owns their layout; refuses to compute figures.

use super::results::shown;
use crate::sweep::{self, Walk, value_at};
use clscope_microbench::results::{CaseResult, Results, Status};
use clscope_text::figure::number;
use std::io::{self, Write};

/// Most columns of a sparkline.
const COLUMNS: usize = 60;

/// Values as a line of blocks, from the smallest to the largest; neighbours share a column where
/// there are many.
pub fn sparkline(values: &[f64]) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let known: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    let columns = known.len().min(COLUMNS);
    let means: Vec<f64> = (0..columns)
        .map(|c| &known[c * known.len() / columns..(c + 1) * known.len() / columns])
        .map(|part| part.iter().sum::<f64>() / part.len() as f64)
        .collect();
    let (low, high) =
        means.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(*v), h.max(*v)));
    let block = |v: &f64| {
        let share = if high > low { (v - low) / (high - low) } else { 0.5 };
        BLOCKS[((share * 7.0).round() as usize).min(7)]
    };
    means.iter().map(block).collect()
}

fn cell(point: Option<&CaseResult>, figure: &str) -> String {
    match point.map(|p| (p, p.figure(figure))) {
        Some((_, Some(figure))) => shown(figure),
        Some((p, None)) if p.status != Status::Measured => "not run".to_owned(),
        _ => "-".to_owned(),
    }
}

/// Rows with their columns to the right of each other.
///
/// # Errors
/// Where it cannot be written.
pub fn aligned(out: &mut impl Write, rows: &[Vec<String>]) -> io::Result<()> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let wide = |c: usize| {
        rows.iter().filter_map(|r| r.get(c)).map(|t| t.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(wide).collect();
    for row in rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(text, w)| format!("{text:>w$}")).collect();
        writeln!(out, "  {}", cells.join("  "))?;
    }
    Ok(())
}

fn walk(out: &mut impl Write, walk: &Walk<'_>) -> io::Result<()> {
    let names: Vec<&str> = walk.axes.iter().map(|a| a.name()).collect();
    writeln!(out, "\n{} over {}", walk.case, names.join(", "))?;
    let figures = walk.figures();
    if names.len() == 1 {
        let mut rows = vec![
            std::iter::once(names[0])
                .chain(figures.iter().copied())
                .map(str::to_owned)
                .collect::<Vec<_>>(),
        ];
        for point in &walk.points {
            let at = value_at(point, 0).map(sweep::shown).unwrap_or_default();
            let cells = figures.iter().map(|f| cell(Some(point), f));
            rows.push(std::iter::once(at).chain(cells).collect());
        }
        aligned(out, &rows)?;
        for figure in &figures {
            let values: Vec<f64> = walk.points.iter().filter_map(|p| p.value(figure)).collect();
            writeln!(out, "  {figure} {}", sparkline(&values))?;
        }
    } else {
        for figure in &figures {
            writeln!(out, "  {figure} ({})", walk.unit(figure))?;
            let across = walk.values(1);
            let head = format!("{} \\ {}", names[0], names[1]);
            let mut rows = vec![
                std::iter::once(head)
                    .chain(across.iter().map(|v| sweep::shown(v)))
                    .collect::<Vec<_>>(),
            ];
            for down in walk.values(0) {
                let cells = across.iter().map(|v| match walk.at(&[down, v]) {
                    Some(point) => point
                        .figure(figure)
                        .map_or_else(|| cell(Some(point), figure), |f| number(f.estimate.value)),
                    None => "-".to_owned(),
                });
                rows.push(std::iter::once(sweep::shown(down)).chain(cells).collect());
            }
            aligned(out, &rows)?;
        }
    }
    Ok(())
}

/// The sweeps that the user asked for, with what is said of points without figures.
///
/// # Errors
/// Where it cannot be written.
pub fn asked_for(out: &mut impl Write, results: &Results) -> io::Result<()> {
    for of in sweep::walks(results) {
        walk(out, &of)?;
        let mut told: Vec<(&str, usize)> = Vec::new();
        for reason in of.points.iter().filter_map(|p| p.reason.as_deref()) {
            match told.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, times)) => *times += 1,
                None => told.push((reason, 1)),
            }
        }
        for (reason, times) in told {
            writeln!(out, "  not run, {times} of {}: {reason}", of.points.len())?;
        }
        let ours = format!("sweep/{}/", of.case);
        for finding in results.findings.iter().filter(|f| f.name.starts_with(&ours)) {
            writeln!(out, "  => {}", finding.text)?;
        }
    }
    Ok(())
}

/// What a point of a suite's own sweep stands at, which line it belongs to, and its figure.
fn place(case: &CaseResult) -> Option<(String, f64, &'static str)> {
    let text = |name| case.parameter(name);
    match case.suite {
        "transfer" => Some((
            format!("{} {}", text("memory")?, text("direction")?.replace('_', " ")),
            case.number("bytes")?,
            "time",
        )),
        "latency" if text("sweep").is_none() => {
            let items = case.value("items_per_unit")?;
            let ilp = case.number("ilp")?;
            Some((format!("{}, {ilp} chains, over items", text("kind")?), items, "throughput"))
        }
        "latency" => {
            Some((format!("{} over alpha", text("kind")?), case.number("alpha")?, "latency"))
        }
        suite => {
            let sweep = text("sweep")?;
            let (x, figure) = match suite {
                "levels" => (case.number("bytes")?, "bandwidth"),
                "structure" => (case.number("at")?, "time_per_statement"),
                _ => (case.number(sweep)?, "rate"),
            };
            Some((sweep.replace('_', " "), x, figure))
        }
    }
}

/// One line for each sweep that a suite makes by itself.
///
/// # Errors
/// Where it cannot be written.
pub fn of_suite(out: &mut impl Write, cases: &[&CaseResult]) -> io::Result<()> {
    type Line<'c> = (String, &'static str, Vec<(f64, f64, &'static str)>);
    let mut lines: Vec<Line<'_>> = Vec::new();
    for case in cases.iter().filter(|c| c.swept.is_none()) {
        let Some((name, x, figure)) = place(case) else { continue };
        let Some(found) = case.figure(figure) else { continue };
        let point = (x, found.estimate.value, found.unit);
        match lines.iter_mut().find(|l| l.0 == name) {
            Some(line) => line.2.push(point),
            None => lines.push((name, figure, vec![point])),
        }
    }
    let width = lines.iter().map(|l| l.0.chars().count()).max().unwrap_or(0);
    for (name, figure, mut points) in lines {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let values: Vec<f64> = points.iter().map(|p| p.1).collect();
        let (Some(first), Some(last)) = (points.first(), points.last()) else { continue };
        writeln!(
            out,
            "  {name:width$}  {figure} {} {} at {} to {} {} at {} ({} points)",
            sparkline(&values),
            number(first.1),
            number(first.0),
            number(last.1),
            last.2,
            number(last.0),
            points.len()
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_rise_and_fall_with_their_values() {
        assert_eq!(sparkline(&[0.0, 3.5, 7.0]), "▁▅█");
        assert_eq!(sparkline(&[5.0]), "▅");
        assert_eq!(sparkline(&[f64::NAN, 1.0, 2.0]), "▁█");
        assert_eq!(sparkline(&[]), "");
        let many: Vec<f64> = (0..1000).map(f64::from).collect();
        assert_eq!(sparkline(&many).chars().count(), COLUMNS);
    }
}
