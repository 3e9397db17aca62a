//! Owns how differences between benchmarks are shown: tables and Markdown. Ids, units and reasons
//! come from files, and are escaped for each. Refuses to judge.

use crate::figure::number;
use clscope_compare::bench::{Diff, Direction, Origin, Row};
use clscope_compare::outcome::Outcome;
use clscope_export::differences::{aligned, change_of, markdown_cell};
use clscope_io::text::line;
use clscope_profile::interval::Interval;
use std::fmt::Write as _;

fn origin(side: &str, of: &Origin) -> String {
    format!(
        "{side}: {} | {} | driver {} | clscope {} | {}",
        of.device, of.platform, of.driver, of.version, of.file
    )
}

fn head(diff: &Diff) -> Vec<String> {
    let mut out: Vec<String> = diff.base.iter().map(|o| origin("base", o)).collect();
    out.extend(diff.new.iter().map(|o| origin("new", o)));
    let differ = diff.differences.iter();
    out.extend(differ.map(|d| format!("differs: {}: {} | {}", d.what, d.base, d.new)));
    out.extend(diff.notes.iter().map(|n| format!("note: {n}")));
    let of = |outcome| diff.rows.iter().filter(|r| r.outcome == outcome).count();
    let worse = diff.rows.iter().filter(|r| r.worse).count();
    let better = diff.rows.iter().filter(|r| is_better(r)).count();
    let changed = of(Outcome::More) + of(Outcome::Less);
    let other = changed.saturating_sub(
        better + diff.rows.iter().filter(|r| r.worse && r.change.is_some()).count(),
    );
    out.push(format!(
        "{} figures are judged together: {worse} worse, {better} better, {other} changed otherwise, {} the same, {} unclear",
        diff.judged,
        of(Outcome::Same),
        of(Outcome::Unclear)
    ));
    out
}

fn is_better(row: &Row) -> bool {
    !row.worse
        && row.direction != Direction::Neither
        && matches!(row.outcome, Outcome::More | Outcome::Less)
}

fn figure(of: &[Interval]) -> String {
    if of.is_empty() {
        return "-".to_owned();
    }
    number(of.iter().map(|i| i.value).sum::<f64>() / of.len() as f64)
}

fn outcome(row: &Row) -> String {
    let word = match row.outcome {
        _ if row.worse => "worse",
        _ if is_better(row) => "better",
        Outcome::More => "higher",
        Outcome::Less => "lower",
        Outcome::Same => "same",
        Outcome::Unclear => "unclear: too much noise",
        Outcome::Gone => "only in the base",
        Outcome::Added => "only on the new side",
        Outcome::NotJudged => "not judged",
    };
    let limit = if row.breaks { ", OVER THE LIMIT" } else { "" };
    match &row.why {
        Some(why) => format!("{word}: {why}{limit}"),
        None => format!("{word}{limit}"),
    }
}

fn name(row: &Row) -> String {
    match &row.figure {
        Some(figure) => format!("{}: {figure}", row.id),
        None => row.id.clone(),
    }
}

/// Rows with a change, the worst first, and `most` of them; then the number that is left.
fn compared(diff: &Diff, most: usize) -> (Vec<&Row>, usize) {
    let mut rows: Vec<&Row> =
        diff.rows.iter().filter(|r| r.change.is_some() || r.figure.is_none()).collect();
    let size = |r: &Row| r.change.map_or(f64::INFINITY, |c| c.value.abs());
    let rank = |r: &Row| match () {
        () if r.breaks => 0,
        () if r.worse => 1,
        () if is_better(r) => 2,
        () if matches!(r.outcome, Outcome::More | Outcome::Less) => 3,
        () => 4,
    };
    rows.sort_by(|a, b| rank(a).cmp(&rank(b)).then(size(b).total_cmp(&size(a))));
    let left = rows.len().saturating_sub(most);
    rows.truncate(most);
    (rows, left)
}

/// What was not compared: the reason, and the figures that have it. Reasons of many figures first.
fn others(diff: &Diff) -> Vec<(String, Vec<String>)> {
    let mut out: Vec<(String, Vec<String>)> = Vec::new();
    for row in diff.rows.iter().filter(|r| r.change.is_none() && r.figure.is_some()) {
        let why = outcome(row);
        match out.iter_mut().find(|(known, _)| *known == why) {
            Some((_, names)) => names.push(name(row)),
            None => out.push((why, vec![name(row)])),
        }
    }
    out.sort_by_key(|(_, names)| std::cmp::Reverse(names.len()));
    out
}

fn cells(row: &Row) -> [String; 6] {
    let (base, new) = (figure(&row.base), figure(&row.new));
    let unit = row.unit.clone().unwrap_or_default();
    [base, new, unit, change_of(row.change), name(row), outcome(row)]
}

/// The first figures of a list, and how many more there are.
fn some(names: &[String]) -> String {
    const SHOWN: usize = 4;
    let mut out = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        add!(out, " and {} more", names.len() - SHOWN);
    }
    out
}

/// For a terminal.
pub fn table(diff: &Diff, most: usize) -> String {
    let mut out = String::new();
    for text in head(diff) {
        put!(out, "{}", line(&text));
    }
    let (rows, left) = compared(diff, most);
    if !rows.is_empty() {
        out.push_str("\nCompared: mean of a side, change with its interval\n");
    }
    let rows: Vec<[String; 6]> =
        rows.into_iter().map(|r| cells(r).map(|text| line(&text).into_owned())).collect();
    aligned(&mut out, &rows, [true, true, false, true, false]);
    if left > 0 {
        put!(out, "  and {left} more: --limit 0 shows all");
    }
    let others = others(diff);
    if !others.is_empty() {
        out.push_str("\nNot compared\n");
    }
    let hidden = others.len().saturating_sub(most);
    for (why, names) in others.into_iter().take(most) {
        put!(out, "  {}", line(&format!("{why}: {}", some(&names))));
    }
    if hidden > 0 {
        put!(out, "  and {hidden} more reasons: --limit 0 shows all");
    }
    out
}

/// For a pull request.
pub fn markdown(diff: &Diff, most: usize) -> String {
    let mut out = match diff.broken().count() {
        0 => String::new(),
        n => format!("**{n} over the limit.**\n\n"),
    };
    for text in head(diff) {
        put!(out, "- {}", markdown_cell(&text));
    }
    let (rows, left) = compared(diff, most);
    if !rows.is_empty() {
        out.push_str(
            "\n| base | new | unit | change | figure | outcome |\n|---:|---:|---|---:|---|---|\n",
        );
    }
    for row in rows {
        put!(out, "| {} |", cells(row).map(|c| markdown_cell(&c)).join(" | "));
    }
    if left > 0 {
        put!(out, "\nAnd {left} more.");
    }
    let others = others(diff);
    if !others.is_empty() {
        out.push_str("\n#### Not compared\n\n");
    }
    for (why, names) in others {
        put!(out, "- {}", markdown_cell(&format!("{why}: {}", some(&names))));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use clscope_compare::bench::Run;
    use clscope_io::text::is_printable;

    /// What a file may call a device, a case, a unit and a reason.
    const HOSTILE: &str = "k\u{202e}lenrek\u{1b}[2J\n\u{200b}<b>|`x`";

    #[test]
    fn names_turn_nothing_round_and_make_no_markup() {
        let document = |value: f64| {
            let figure = |name: &str| {
                serde_json::json!({"name": name, "unit": HOSTILE, "value": value,
                    "low": value, "high": value})
            };
            let text = serde_json::json!({
                "schema": "clscope-bench/1", "version": HOSTILE, "interrupted": true,
                "power_source": HOSTILE, "settings": {HOSTILE: value},
                "device": {"name": HOSTILE, "platform": HOSTILE, "driver": HOSTILE},
                "cases": [{"id": HOSTILE, "status": "measured", "figures": [figure(HOSTILE)]},
                    {"id": "w", "status": if value > 1.0 { "failed" } else { "measured" },
                     "reason": HOSTILE, "figures": []}],
                "findings": [{"name": HOSTILE, "figures": [figure("0"), figure("0")]}],
            });
            Run::read(HOSTILE, text.to_string().as_bytes()).unwrap()
        };
        let diff = Diff::new(&[document(1.0)], &[document(2.0)], Some(0.1));
        for text in [table(&diff, 9), markdown(&diff, 9)] {
            let bad = text.chars().find(|c| *c != '\n' && !is_printable(*c));
            assert_eq!(bad, None, "{text}");
            assert!(text.contains("lenrek") && text.contains("OVER THE LIMIT"), "{text}");
        }
        assert!(!markdown(&diff, 9).contains("<b>"));
    }
}
