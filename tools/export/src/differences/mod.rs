//! Owns how differences are shown: tables, Markdown, JUnit's XML, and the words that these share
//! with the page. Names come from applications, and are escaped for each. Refuses to judge.

mod page;

pub use page::html;

use clscope_compare::diff::{Diff, Metric, Row};
use clscope_compare::outcome::{Change, Outcome};
use clscope_io::shorten::{NAME, PROSE, middle};
use clscope_io::text::{count, is_printable, line, markup};
use std::collections::BTreeSet;
use std::fmt::Write as _;

const SECTIONS: [(&str, &str); 4] = [
    ("total", "Totals"),
    ("kernel", "Kernels"),
    ("transfer", "Transfers"),
    ("function", "Functions"),
];

/// A figure in its unit.
fn figure(metric: Metric, value: Option<f64>) -> String {
    let Some(value) = value else { return "-".to_owned() };
    let scaled = |units: &[(f64, &str)]| {
        let (scale, unit) = units
            .iter()
            .find(|(scale, _)| value.abs() >= *scale)
            .or(units.last())
            .copied()
            .unwrap_or((1.0, ""));
        let shown = value / scale;
        let decimals = if shown.abs() >= 100.0 {
            0
        } else if shown.abs() >= 10.0 {
            1
        } else {
            2
        };
        format!("{shown:.decimals$} {unit}")
    };
    match metric {
        Metric::Time => scaled(&[(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")]),
        Metric::Energy => scaled(&[(1.0, "J"), (1e-3, "mJ"), (1e-6, "uJ"), (1e-9, "nJ")]),
        Metric::Bytes => clscope_io::text::bytes(value),
        // A sum of nothing is -0.
        Metric::Count => format!("{}", (value * 10.0).round() / 10.0 + 0.0),
    }
}

fn metric(row: &Row) -> &'static str {
    match (row.section, row.metric) {
        ("kernel", Metric::Time) => "time of a launch",
        ("kernel", Metric::Energy) => "joules of a launch",
        ("kernel", Metric::Count) => "launches",
        (_, Metric::Time) => "time",
        (_, Metric::Energy) => "energy",
        (_, Metric::Count) => "count",
        (_, Metric::Bytes) => "bytes",
    }
}

/// Percent with a sign; what is rounded to nothing has none.
fn percent(share: f64) -> String {
    let shown = format!("{:+.1}", 100.0 * share);
    if matches!(&*shown, "-0.0" | "+0.0") { "0.0".to_owned() } else { shown }
}

/// A change by itself: from ten times as much on as a factor.
fn alone(share: f64) -> String {
    if share >= 9.0 { format!("x {:.0}", 1.0 + share) } else { format!("{} %", percent(share)) }
}

/// What no outcome rests on is shown without its ends, or the lack of them.
fn change(row: &Row) -> String {
    match row.change {
        Some(c) if row.outcome == Outcome::NotJudged => alone(c.value),
        change => change_of(change),
    }
}

/// What the intervals of a section rest on, where that was not measured.
fn assumption(rows: &[&Row]) -> Option<String> {
    let spread = rows.iter().find_map(|row| row.assumed_spread)?;
    Some(format!("assuming {} % between runs", 100.0 * spread))
}

/// A change with its interval, in percent.
pub fn change_of(change: Option<Change>) -> String {
    let Some(c) = change else { return "-".to_owned() };
    if c.low == c.high {
        return alone(c.value);
    }
    if c.low.is_infinite() || c.high.is_infinite() {
        return format!("{} (too few runs, or too unlike)", alone(c.value));
    }
    if c.value >= 9.0 {
        return format!("{} ({} to {})", alone(c.value), alone(c.low), alone(c.high));
    }
    format!("{} % ({} to {})", percent(c.value), percent(c.low), percent(c.high))
}

/// Words of outcomes, in the order in which a summary has them.
const WORDS: [&str; 9] = [
    "slower",
    "faster",
    "more",
    "less",
    "new",
    "only in the base",
    "same",
    "unclear",
    "not judged",
];

/// An outcome in a word.
fn word(row: &Row) -> &'static str {
    match row.outcome {
        Outcome::More if row.metric == Metric::Time => "slower",
        Outcome::Less if row.metric == Metric::Time => "faster",
        Outcome::More => "more",
        Outcome::Less => "less",
        Outcome::Same => "same",
        Outcome::Unclear => "unclear",
        Outcome::Gone => "only in the base",
        Outcome::Added => "new",
        Outcome::NotJudged => "not judged",
    }
}

fn outcome(row: &Row) -> String {
    let word = match row.outcome {
        Outcome::Unclear => "unclear: too much noise",
        _ => word(row),
    };
    let limit = if row.breaks { ", OVER THE LIMIT" } else { "" };
    match &row.why {
        Some(why) => format!("{word}: {why}{limit}"),
        None => format!("{word}{limit}"),
    }
}

/// All outcomes in a sentence: what a reader looks for first.
fn outcomes(diff: &Diff) -> String {
    let of = |word: &str| diff.rows.iter().filter(|row| self::word(row) == word).count();
    let all: Vec<String> = WORDS
        .iter()
        .map(|word| (of(word), word))
        .filter(|(n, _)| *n > 0)
        .map(|(n, word)| format!("{n} {word}"))
        .collect();
    let all = if all.is_empty() { "no row".to_owned() } else { all.join(", ") };
    let changed = WORDS.iter().take(6).any(|word| of(word) > 0);
    let broken = diff.broken().count() as u64;
    let forbidden = match (diff.comparable, diff.unjudged.is_empty()) {
        (false, _) => Some("the runs cannot be compared"),
        (true, false) => Some("a limit cannot be judged"),
        (true, true) => None,
    };
    if let Some(forbidden) = forbidden {
        let over = match broken {
            0 => String::new(),
            n => format!("; {} over the limit", count(n, "figure is", "figures are")),
        };
        format!("{forbidden}{over}: {all}")
    } else if broken > 0 {
        format!("{} over the limit: {all}", count(broken, "figure is", "figures are"))
    } else if changed {
        format!("figures changed: {all}")
    } else {
        format!("no figure surely changed: {all}")
    }
}

/// The name is as long as the traces' names are asked for; a device's has no other form, and is
/// left out where it is that of all kernels.
fn name(row: &Row, one_device: bool) -> String {
    if row.of.is_empty() || one_device && row.section == "kernel" {
        return row.name.clone();
    }
    format!("{} ({})", row.name, middle(&row.of, NAME))
}

/// Whether all kernels ran on one device.
fn has_one_device(diff: &Diff) -> bool {
    let kernels = diff.rows.iter().filter(|row| row.section == "kernel");
    kernels.map(|row| row.of.as_str()).collect::<BTreeSet<&str>>().len() < 2
}

/// Rows of a section: those with a change first, and `most` of them. Counts that are the same say
/// nothing.
fn rows<'d>(diff: &'d Diff, section: &str, most: usize) -> (Vec<&'d Row>, usize) {
    let dull = |r: &&Row| matches!(r.metric, Metric::Count | Metric::Bytes) && r.base == r.new;
    let mut all: Vec<&Row> =
        diff.rows.iter().filter(|r| r.section == section).filter(|r| !dull(r)).collect();
    let rank = |r: &&Row| match r.outcome {
        _ if r.breaks => 0,
        Outcome::More | Outcome::Less | Outcome::Gone | Outcome::Added => 1,
        Outcome::Same | Outcome::Unclear | Outcome::NotJudged => 2,
    };
    all.sort_by_key(rank);
    let left = all.len().saturating_sub(most);
    all.truncate(most);
    (all, left)
}

/// What the runs changed of their application.
fn changes(diff: &Diff) -> impl Iterator<Item = String> {
    diff.changed.iter().map(|text| middle(&format!("changed: {text}"), PROSE))
}

/// What forbids an outcome.
fn doubts(diff: &Diff) -> Vec<String> {
    let so = if diff.comparable { "compared anyway" } else { "not comparable" };
    let why = diff.incomparable().into_iter().map(|why| format!("{so}: {why}"));
    let limits = diff.unjudged.iter().map(|why| format!("limit cannot be judged: {why}"));
    why.chain(limits).map(|text| middle(&text, PROSE)).collect()
}

/// The traces of both sides, and the part of them that joules are of.
fn sides(diff: &Diff) -> Vec<String> {
    let traces =
        [format!("base: {}", diff.base.join(", ")), format!("new:  {}", diff.new.join(", "))];
    let window = diff.window.map(|of| format!("joules are of {}", of.in_words()));
    traces.into_iter().chain(window).collect()
}

/// What a reader should know.
fn notes(diff: &Diff) -> impl Iterator<Item = String> {
    diff.notes.iter().map(|note| middle(&format!("note: {note}"), PROSE))
}

fn head(diff: &Diff) -> Vec<String> {
    let mut out = sides(diff);
    out.extend(doubts(diff));
    out.extend(notes(diff));
    out
}

/// For a terminal.
pub fn table(diff: &Diff, most: usize) -> String {
    let mut out = String::new();
    // What a run changed stands before any figure.
    let lines = changes(diff).chain([format!("outcome: {}", outcomes(diff))]);
    for text in lines.chain(head(diff)) {
        let _ = writeln!(out, "{}", line(&text));
    }
    let one_device = has_one_device(diff);
    for (section, title) in SECTIONS {
        let (shown, left) = rows(diff, section, most);
        if shown.is_empty() {
            continue;
        }
        let assuming = assumption(&shown).map_or_else(String::new, |a| format!(", {a}"));
        // What holds for all rows is said once.
        let outcomes: BTreeSet<String> = shown.iter().map(|r| outcome(r)).collect();
        let common = outcomes.first().filter(|_| outcomes.len() == 1 && shown.len() > 1);
        let common_text = common.map_or_else(String::new, |outcome| format!("; {outcome}"));
        let _ = writeln!(
            out,
            "\n{title}: mean of a side, change with its interval{assuming}{}",
            line(&common_text)
        );
        let cells: Vec<[String; 6]> = shown
            .iter()
            .map(|r| {
                let figures = [figure(r.metric, r.base), figure(r.metric, r.new)];
                let [base, new] = figures;
                let outcome = if common.is_some() { String::new() } else { outcome(r) };
                let [name, outcome] =
                    [name(r, one_device), outcome].map(|text| line(&text).into_owned());
                [base, new, change(r), metric(r).to_owned(), name, outcome]
            })
            .collect();
        aligned(&mut out, &cells, [true, true, true, false, false]);
        if left > 0 {
            let left = count(left as u64, "more row", "more rows");
            let _ = writeln!(out, "  and {left}: --limit 0 shows all");
        }
    }
    out
}

/// Longest name that others are aligned to, in characters.
const WIDEST_NAME: usize = 60;

/// Rows of cells in columns, two spaces apart. `right` says of all columns but the last whether
/// they are aligned to the right; the last one is not padded.
pub fn aligned<const N: usize, const M: usize>(
    out: &mut String,
    rows: &[[String; N]],
    right: [bool; M],
) {
    let wide = |i: usize| rows.iter().filter_map(|c| c.get(i)).map(|c| c.chars().count()).max();
    let widths: [usize; M] = std::array::from_fn(|i| {
        let wide = wide(i).unwrap_or(0);
        if right[i] { wide } else { wide.min(WIDEST_NAME) }
    });
    for row in rows {
        for (i, cell) in row.iter().enumerate() {
            let _ = match (widths.get(i), right.get(i)) {
                (Some(wide), Some(true)) => write!(out, "  {cell:>wide$}"),
                (Some(wide), Some(false)) => write!(out, "  {cell:wide$}"),
                _ => writeln!(out, "{}", format!("  {cell}").trim_end()),
            };
        }
    }
}

/// Text in a cell of a Markdown table: no markup of an application's making.
pub fn markdown_cell(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in line(text).chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '|' | '`' | '*' | '_' | '[' | ']' | '\\' | '~' | '#' | '!' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out
}

/// For a pull request.
pub fn markdown(diff: &Diff, most: usize) -> String {
    let mut out = format!("**Outcome: {}.**\n\n", outcomes(diff));
    for line in changes(diff).chain(head(diff)) {
        let _ = writeln!(out, "- {}", markdown_cell(&line));
    }
    for (section, title) in SECTIONS {
        let (shown, left) = rows(diff, section, most);
        if shown.is_empty() {
            continue;
        }
        let assuming = assumption(&shown).map_or_else(String::new, |a| format!(", {a}"));
        let _ = writeln!(
            out,
            "\n#### {title}\n\n| | what | base | new | change{assuming} | outcome |\n|---|---|---:|---:|---:|---|"
        );
        for r in shown {
            let cells = [
                name(r, false),
                metric(r).to_owned(),
                figure(r.metric, r.base),
                figure(r.metric, r.new),
                change(r),
                outcome(r),
            ];
            let _ = writeln!(out, "| {} |", cells.map(|c| markdown_cell(&c)).join(" | "));
        }
        if left > 0 {
            let left = count(left as u64, "more row", "more rows");
            let _ = writeln!(out, "\nAnd {left}.");
        }
    }
    out
}

/// Text in XML, in an attribute too. What has no glyph is in neither: control characters,
/// and those that turn the direction of what follows.
fn escaped(text: &str) -> String {
    let shown = |c: char| if is_printable(c) { c } else { '\u{fffd}' };
    markup(&text.chars().map(shown).collect::<String>())
}

/// A test for each row that is judged; one that breaks a limit fails. A limit that could not be
/// judged is an error, and so is what forbids an outcome.
pub fn junit(diff: &Diff) -> String {
    let broken = diff.broken().count();
    let skipped = diff.rows.iter().filter(|r| r.outcome == Outcome::NotJudged).count();
    let forbidden = if diff.comparable { Vec::new() } else { diff.incomparable() };
    let limits = diff.unjudged.iter().map(|why| ("limit", "--fail-on", why));
    let sides = forbidden.iter().map(|why| ("sides", "comparable", why));
    let wrong: Vec<_> = sides.chain(limits).collect();
    let errors = wrong.len();
    let part = diff.window.map_or_else(String::new, |of| format!(", joules of {}", of.in_words()));
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites><testsuite name=\"clscope diff{part}\" tests=\"{}\" errors=\"{errors}\" failures=\"{broken}\" skipped=\"{skipped}\">\n",
        diff.rows.len() + errors
    );
    for (class, test, why) in wrong {
        let _ = writeln!(
            out,
            "<testcase classname=\"{class}\" name=\"{test}\"><error message=\"{}\"/></testcase>",
            escaped(why)
        );
    }
    for r in &diff.rows {
        let told = format!(
            "{} to {}: {}{}, {}",
            figure(r.metric, r.base),
            figure(r.metric, r.new),
            change(r),
            assumption(&[r]).map_or_else(String::new, |a| format!(" {a}")),
            outcome(r)
        );
        let told = escaped(&told);
        let _ = write!(
            out,
            "<testcase classname=\"{}\" name=\"{}: {}\">",
            r.section,
            escaped(&name(r, false)),
            metric(r)
        );
        let _ = match r.outcome {
            _ if r.breaks => write!(out, "<failure message=\"{told}\"/>"),
            Outcome::NotJudged => write!(out, "<skipped message=\"{told}\"/>"),
            _ => write!(out, "<system-out>{told}</system-out>"),
        };
        out.push_str("</testcase>\n");
    }
    out.push_str("</testsuite></testsuites>\n");
    out
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use clscope_compare::diff::{Difference, SCHEMA};
    use clscope_compare::outcome::Change;
    use clscope_profile::energy::result::Window;

    /// What an application may call a kernel, a device, an option and a directory.
    const HOSTILE: &str = "k\u{202e}lenrek\u{2066}\u{1b}[2J\n\u{200b}\u{fffe}<b>'\"&|`x`";

    pub fn differences() -> Diff {
        let row = |outcome, breaks| Row {
            section: "kernel",
            name: HOSTILE.into(),
            of: HOSTILE.into(),
            metric: Metric::Time,
            base: Some(1.0),
            new: Some(2.0),
            change: None,
            outcome,
            why: Some(HOSTILE.into()),
            breaks,
            assumed_spread: None,
        };
        Diff {
            schema: SCHEMA,
            base: vec![HOSTILE.into()],
            new: vec![HOSTILE.into()],
            window: None,
            comparable: true,
            differences: vec![Difference {
                what: HOSTILE.into(),
                base: HOSTILE.into(),
                new: HOSTILE.into(),
            }],
            broken_runs: vec![HOSTILE.into()],
            changed: vec![HOSTILE.into()],
            notes: vec![HOSTILE.into()],
            display_names: Default::default(),
            limits: Vec::new(),
            unjudged: vec![HOSTILE.into()],
            assumed: Some(0.0075),
            rows: vec![
                row(Outcome::More, true),
                row(Outcome::NotJudged, false),
                row(Outcome::Same, false),
            ],
        }
    }

    #[test]
    fn what_is_rounded_to_nothing_has_no_sign() {
        assert_eq!([-0.0004, 0.0, 0.0004, -0.0006].map(percent), ["0.0", "0.0", "0.0", "-0.1"]);
        let mut row = differences().rows.remove(0);
        row.change = Some(Change { value: -0.2, low: f64::NEG_INFINITY, high: f64::INFINITY });
        assert_eq!(change(&row), "-20.0 % (too few runs, or too unlike)");
        row.outcome = Outcome::NotJudged;
        assert_eq!(change(&row), "-20.0 %", "what is not judged has no ends");
        let change = |value, low, high| change_of(Some(Change { value, low, high }));
        assert_eq!(change(80_898.0, 80_898.0, 80_898.0), "x 80899");
        assert_eq!(change(9.2, 8.5, 10.0), "x 10 (+850.0 % to x 11)");
        assert_eq!(change(8.5, 8.0, 9.5), "+850.0 % (+800.0 to +950.0)");
    }

    #[test]
    fn an_assumed_spread_is_told_beside_the_intervals_that_rest_on_it() {
        let mut diff = differences();
        let tells = |diff: &Diff| {
            let all = [table(diff, 9), markdown(diff, 9), html(diff, 9), junit(diff)];
            all.map(|text| text.contains("assuming 0.75 % between runs"))
        };
        assert_eq!(tells(&diff), [false; 4]);
        diff.rows[0].assumed_spread = Some(0.0075);
        assert_eq!(tells(&diff), [true; 4]);
    }

    #[test]
    fn every_form_names_the_part_of_the_run_that_joules_are_of() {
        let mut diff = differences();
        let tells = |diff: &Diff| {
            let json = serde_json::to_string(diff).unwrap();
            let page = html(diff, 9).replace("&nbsp;", " ");
            let all = [table(diff, 9), markdown(diff, 9), page, junit(diff)];
            all.map(|text| text.contains("of 1.5 to 3 s of the run"))
                .into_iter()
                .chain([json.contains(r#""window":{"from_ns":1500000000"#)])
                .collect::<Vec<_>>()
        };
        assert_eq!(tells(&diff), [false; 5]);
        diff.window = Some(Window { from_seconds: 1.5, to_seconds: 3.0 });
        assert_eq!(tells(&diff), [true; 5]);
    }

    #[test]
    fn names_turn_nothing_round_and_make_no_markup() {
        let diff = differences();
        for (form, text) in [
            ("table", table(&diff, 9)),
            ("markdown", markdown(&diff, 9)),
            ("html", html(&diff, 9)),
            ("junit", junit(&diff)),
        ] {
            let bad = text.chars().find(|c| *c != '\n' && *c != '\u{fffd}' && !is_printable(*c));
            assert_eq!(bad, None, "{form}: {text}");
            assert!(form == "table" || !text.contains("<b>"), "{form}: {text}");
            assert!(text.contains("lenrek"), "{form} tells of it all the same");
        }
        let forged = table(&diff, 9).lines().filter(|l| l.starts_with('\u{200b}')).count();
        assert_eq!(forged, 0, "no line is an application's");
    }
}
