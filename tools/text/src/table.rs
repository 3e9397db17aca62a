//! Owns tables for people: plain text, aligned, no wider than the terminal. Refuses colours.

use clscope_io::shorten::distinct;
use clscope_io::text::line;

/// Characters of the text: at least, and for which columns fall away.
const TEXT: (usize, usize) = (16, 28);

/// The column of a figure's interval, which stands behind it: it falls away with the figure alone.
pub const PLUS_MINUS: &str = "+-";

/// Columns that fall away first where there is little room. JSON and CSV have all.
pub const DROPPED: [&str; 21] = [
    "min",
    "max",
    "p95",
    "timed",
    "mean",
    "errors",
    "to seen",
    "to submit",
    "J/launch at 50 C",
    "idle",
    "gaps",
    "above idle",
    "median",
    "GB/s",
    "processes",
    "waits",
    "of mean",
    "launches",
    "a launch",
    "predicated",
    "by warps",
];

/// A table whose last column is text on the left; all others are figures on the right.
#[derive(Debug, Default)]
pub struct Table {
    titles: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// A column: its title, whether the table has it, and what a row has in it.
pub type Column<'c, R> = (&'static str, bool, &'c dyn Fn(&R) -> String);

/// Titles and cells of those of the columns that a table has, in a row for each of `rows`.
pub fn cells<'r, R: 'r>(
    rows: impl IntoIterator<Item = &'r R>,
    columns: &[Column<'_, R>],
) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let columns: Vec<_> = columns.iter().filter(|(_, has, _)| *has).collect();
    let row = |row: &R| columns.iter().map(|(.., cell)| cell(row)).collect();
    let titles = columns.iter().map(|(title, ..)| *title).collect();
    (titles, rows.into_iter().map(row).collect())
}

impl Table {
    /// A row for each of `rows`.
    pub fn of_rows<'r, R: 'r>(
        rows: impl IntoIterator<Item = &'r R>,
        columns: &[Column<'_, R>],
    ) -> Self {
        let (titles, rows) = cells(rows, columns);
        let mut out = Self::new(&titles);
        rows.into_iter().for_each(|row| out.row(row));
        out
    }

    /// With these column titles.
    pub fn new(titles: &[&str]) -> Self {
        let titles = titles.iter().map(|title| line(title).into_owned()).collect();
        Self { titles, rows: Vec::new() }
    }

    /// Adds a row of as many cells as there are columns.
    pub fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.titles.len());
        // Before widths are taken: what is escaped is longer.
        self.rows.push(cells.iter().map(|cell| line(cell).into_owned()).collect());
    }

    /// Characters that the text should have.
    fn text(&self) -> usize {
        self.width(self.titles.len().saturating_sub(1)).clamp(TEXT.0, TEXT.1)
    }

    /// The lines, each with its end, at most `width` columns wide: columns fall away in the order of
    /// [`DROPPED`] until the others have room, and the text is shortened.
    pub fn render(&self, width: usize) -> String {
        let used = |columns: &[usize]| {
            let figures = columns.split_last().map_or(&[][..], |(_, figures)| figures);
            figures.iter().map(|i| self.width(*i) + 2).sum::<usize>()
        };
        let mut kept: Vec<usize> = (0..self.titles.len()).collect();
        // Of some nothing is known.
        if used(&kept) + 2 + self.text() > width {
            let known = |i: usize| self.rows.iter().any(|row| row.get(i).is_some_and(|c| c != "-"));
            kept.retain(|i| i + 1 == self.titles.len() || known(*i));
        }
        for title in DROPPED {
            // What stands behind a figure of another column goes before that does.
            while used(&kept) + 2 + self.text() > width
                && let Some(at) = kept.iter().rposition(|i| self.titles[*i] == title)
            {
                let of_it = kept.get(at + 1).is_some_and(|i| self.titles[*i] == PLUS_MINUS);
                kept.drain(at..at + 1 + usize::from(of_it));
            }
        }
        match kept.len() < self.titles.len() {
            true => {
                let keep = |row: &Vec<String>| {
                    kept.iter().filter_map(|i| row.get(*i).cloned()).collect::<Vec<_>>()
                };
                let rows = self.rows.iter().map(keep).collect();
                Self { titles: keep(&self.titles), rows }.render_all(width)
            }
            false => self.render_all(width),
        }
    }

    /// Characters of a column.
    fn width(&self, i: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(i));
        cells.chain(self.titles.get(i)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    }

    fn render_all(&self, width: usize) -> String {
        let length = |s: &str| s.chars().count();
        let last = self.titles.len().saturating_sub(1);
        let widths: Vec<usize> = (0..last).map(|i| self.width(i)).collect();
        let left =
            width.saturating_sub(widths.iter().map(|w| w + 2).sum::<usize>() + 2).max(TEXT.0);
        let rows = || std::iter::once(&self.titles).chain(&self.rows);
        let texts: Vec<&str> = rows().map(|row| row.get(last).map_or("", String::as_str)).collect();
        let mut out = String::new();
        // Rows that differ are seen to differ.
        for (row, text) in rows().zip(distinct(&texts, left)) {
            for (cell, width) in row.iter().zip(&widths) {
                out.push_str(&" ".repeat(2 + width.saturating_sub(length(cell))));
                out.push_str(cell);
            }
            out.push_str("  ");
            out.push_str(&text);
            out.truncate(out.trim_end().len());
            out.push('\n');
        }
        out
    }
}

/// Sentences that are wider than the terminal go on in lines of their own: below the text where a
/// heading stands before it, else indented by two more. Tables keep to the width themselves. A word that is longer than a line stays whole, and so does what
/// stands between backticks: it is a command to type.
pub fn wrapped(text: &str, width: usize) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        let indent = hanging(line).min(width / 2);
        let (mut rest, mut room) = (line, width);
        while rest.chars().count() > room
            && let Some(at) = break_of(rest, room)
        {
            let (head, tail) = rest.split_at(at);
            out.push_str(head.trim_end());
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
            (rest, room) = (tail.trim_start(), width.saturating_sub(indent));
        }
        out.push_str(rest);
        out.push('\n');
    }
    out
}

/// Characters of a heading in front of a text, at most.
const HEADING: usize = 24;

/// Where the lines begin that a line goes on in.
fn hanging(line: &str) -> usize {
    let begin = line.chars().take_while(|c| *c == ' ').count();
    let mut blanks = 0;
    for (at, c) in line.chars().enumerate().skip(begin).take(HEADING) {
        match c {
            ' ' => blanks += 1,
            _ if blanks > 1 => return at,
            _ => blanks = 0,
        }
    }
    begin + 2
}

/// Where a line is broken that has more than `room` characters: at the last space with as much room
/// before it, else at the first.
fn break_of(line: &str, room: usize) -> Option<usize> {
    let begin = line.len() - line.trim_start().len();
    let (mut last, mut is_command) = (None, false);
    // A backtick that is never closed opens nothing.
    let mut backticks = line.matches('`').count();
    for (n, (at, c)) in line.char_indices().enumerate() {
        if n > room && last.is_some() {
            break;
        }
        match c {
            '`' if is_command || backticks > 1 => is_command = !is_command,
            ' ' if !is_command && at > begin => last = Some(at),
            _ => {}
        }
        backticks -= usize::from(c == '`');
    }
    last
}

/// A time with a unit, three significant digits.
pub fn time(ns: f64) -> String {
    let (value, unit) = match ns.abs() {
        x if x < 999.5 => (ns, "ns"),
        x if x < 999.5e3 => (ns / 1e3, "us"),
        x if x < 999.5e6 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    if unit == "ns" {
        return if ns.fract() == 0.0 || ns >= 99.95 {
            format!("{ns:.0}ns")
        } else {
            format!("{ns:.1}ns")
        };
    }
    format!("{}{unit}", significant(value))
}

fn significant(value: f64) -> String {
    match value.abs() {
        x if x < 9.995 => format!("{value:.2}"),
        x if x < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// A time that may be absent.
pub fn time_or_dash(ns: Option<f64>) -> String {
    ns.map_or_else(|| "-".to_owned(), time)
}

/// Bytes with a unit.
pub fn bytes(n: u64) -> String {
    clscope_io::text::bytes(n as f64).replace(' ', "")
}

/// A share as per cent.
pub fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |s| format!("{:.1}%", s * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_units_and_three_digits() {
        let times = [
            (0.0, "0ns"),
            (999.0, "999ns"),
            (1_000.0, "1.00us"),
            (12_345.0, "12.3us"),
            (123_456_000.0, "123ms"),
            (9.996e9, "10.0s"),
            (4e12, "4000s"),
        ];
        for (ns, text) in times {
            assert_eq!(time(ns), text);
        }
        assert_eq!(
            (bytes(1023).as_str(), bytes(1024).as_str(), bytes(3 << 40).as_str()),
            ("1023B", "1.00KiB", "3.00TiB")
        );
    }

    /// No figure needs more than three digits before its point, but where there is no larger unit.
    #[test]
    fn the_unit_is_the_one_that_fits() {
        for exponent in 0..12 {
            for digits in [1.0, 9.994, 9.996, 99.94, 99.96, 999.4, 999.49, 999.51, 999.96] {
                let text = time(digits * 10f64.powi(exponent));
                let (number, unit) = text.split_at(text.find(char::is_alphabetic).unwrap());
                assert!(unit == "s" || number.parse::<f64>().unwrap() < 1000.0, "{text}");
            }
        }
        for n in [1023, 1024, 1_048_063, 1_048_064, 1_048_575, 1 << 20, (1 << 30) - 1] {
            assert!(!bytes(n).starts_with("1024"), "{}", bytes(n));
        }
    }

    /// Columns of which nothing is known leave their room to the others.
    #[test]
    fn unknown_columns_fall_away_first() {
        let mut table = Table::new(&["median", "unheard of", "p95", "kernel"]);
        table.row(["1.00ms", "-", "2.00ms", "name_of_a_kernel"].map(str::to_owned).into());
        let wide = table.render(80);
        assert!(wide.contains("unheard of"), "{wide}");
        let narrow = table.render(44);
        assert!(!narrow.contains("unheard of") && narrow.contains("p95"), "{narrow}");
    }

    #[test]
    fn no_line_is_wider_than_asked() {
        let mut table = Table::new(&["a", "name"]);
        table.row(vec!["12".into(), "x".repeat(300)]);
        table.row(vec!["1".into(), "y".into()]);
        assert!(
            table.render(usize::MAX).lines().any(|l| l.len() > 300),
            "nothing is cut where there is room"
        );
        let text = table.render(100);
        assert!(text.lines().all(|l| l.chars().count() <= 100));
        assert!(text.starts_with("   a  name\n  12  xxx"), "{text}");
    }

    #[test]
    fn sentences_go_on_in_lines_of_their_own() {
        let long = format!("  note: {} ä{}", "word ".repeat(30), "x".repeat(90));
        let text = wrapped(&format!("{long}\nshort\n"), 40);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("  note: word") && lines[1].starts_with("    word"), "{text}");
        let wide: Vec<_> = lines.iter().filter(|line| line.chars().count() > 40).collect();
        assert_eq!((wide.len(), lines.last()), (1, Some(&"short")), "{text}");
        // A command is not broken; a backtick alone begins none.
        let command = wrapped("    to fix it, type `clscope record -- APP` and wait\n", 26);
        assert_eq!(command.lines().nth(1), Some("      `clscope record -- APP`"), "{command}");
        assert_eq!(wrapped("a ` b c d e\n", 6), "a ` b\n  c d\n  e\n");
        let below = wrapped("  gaps   idle for 84 % of the time\n", 24);
        assert_eq!(below, "  gaps   idle for 84 %\n         of the time\n");
        let words = |of: &str| of.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&text), words(&format!("{long} short")));
        assert_eq!(wrapped("a b\n", usize::MAX), "a b\n");
    }

    #[test]
    fn columns_fall_away_in_their_order_until_there_is_room() {
        let titles = ["share", "total", "median", "p95", "min", "max", "kernel"];
        let mut table = Table::new(&titles);
        let figures = (1..7).map(|n| format!("{n}{}", "0".repeat(8)));
        table.row(figures.chain(["k".repeat(100)]).collect());
        let titles = |width: usize| -> Vec<String> {
            let text = table.render(width);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            text.lines().next().unwrap_or("").split_whitespace().map(str::to_owned).collect()
        };
        assert_eq!(titles(200).len(), 7);
        assert_eq!(titles(90), ["share", "total", "median", "p95", "max", "kernel"]);
        assert_eq!(titles(73), ["share", "total", "median", "kernel"]);
        assert_eq!(titles(52), ["share", "total", "kernel"]);
    }

    /// However narrow: a figure that has an interval is not shown without it.
    #[test]
    fn no_figure_loses_its_interval() {
        let kinds = [
            vec!["share", "energy", "launches", "J/launch", "W", PLUS_MINUS, "above idle", "idle"],
            vec!["share", "total", PLUS_MINUS, "corrected", "launches", "timed", "mean", "median"],
            vec!["share", "total", PLUS_MINUS, "median", PLUS_MINUS, "p95", PLUS_MINUS, "max"],
            vec!["share", "total", PLUS_MINUS, "count", "timed", "bytes", "GB/s", "mean", "max"],
            vec!["launches", "total", PLUS_MINUS, "a launch", PLUS_MINUS, "J a launch", PLUS_MINUS],
            vec!["of mean", "device time", PLUS_MINUS, "waits", "joules", PLUS_MINUS, "processes"],
        ];
        for titles in kinds {
            let mut table = Table::new(&[&titles[..], &["kernel"]].concat());
            let cells = titles.iter().map(|title| match *title {
                PLUS_MINUS => "12%".to_owned(),
                _ => "~1.23mJ".to_owned(),
            });
            table.row(cells.chain(["a_kernel_with_a_long_name".repeat(3)]).collect());
            for width in 60..=200 {
                let text = table.render(width);
                assert!(text.lines().all(|line| line.chars().count() <= width), "{width}\n{text}");
                let head: Vec<&str> = text.lines().next().unwrap_or("").split("  ").collect();
                let head: Vec<&str> =
                    head.iter().map(|t| t.trim()).filter(|t| !t.is_empty()).collect();
                let all: Vec<&str> = titles.clone();
                for pair in all.windows(2).filter(|pair| pair[1] == PLUS_MINUS) {
                    let at = head.iter().position(|title| *title == pair[0]);
                    let behind = at.and_then(|at| head.get(at + 1));
                    assert!(at.is_none() || behind == Some(&PLUS_MINUS), "{width}\n{text}");
                }
                assert!(head.contains(&PLUS_MINUS), "{width}\n{text}");
            }
        }
    }

    #[test]
    fn rows_of_names_that_begin_and_end_alike_differ() {
        let mut table = Table::new(&["time", "kernel"]);
        for n in 0..30 {
            table.row(vec!["1ms".into(), format!("{}_{n:02}_{}", "a".repeat(90), "z".repeat(90))]);
        }
        let text = table.render(24);
        let lines: std::collections::BTreeSet<&str> = text.lines().collect();
        assert_eq!(lines.len(), 31, "{text}");
        assert!(lines.iter().all(|l| l.chars().count() <= 24), "{text}");
    }
}
