//! Owns tables for people: plain text, aligned, no wider than the terminal. Refuses colours.
#![forbid(unsafe_code)]

use clscope_io::shorten::distinct;
use clscope_io::text::line;

/// A table whose last column is text on the left; all others are figures on the right.
#[derive(Debug, Default)]
pub struct Table {
    titles: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
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

    /// The lines, each with its end, at most `width` columns wide as long as the figures allow.
    pub fn render(&self, width: usize) -> String {
        let length = |s: &str| s.chars().count();
        let last = self.titles.len().saturating_sub(1);
        let widths: Vec<usize> = (0..last)
            .map(|i| {
                self.rows
                    .iter()
                    .filter_map(|r| r.get(i))
                    .map(|c| length(c))
                    .chain([length(&self.titles[i])])
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        let left = width.saturating_sub(widths.iter().map(|w| w + 2).sum::<usize>() + 2).max(16);
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

/// A time with a unit, three significant digits.
pub fn time(ns: f64) -> String {
    let (value, unit) = match ns.abs() {
        x if x < 1e3 => (ns, "ns"),
        x if x < 1e6 => (ns / 1e3, "us"),
        x if x < 1e9 => (ns / 1e6, "ms"),
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

/// Bytes with a binary unit.
pub fn bytes(n: u64) -> String {
    let mut value = n as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return if unit == "B" {
                format!("{n}B")
            } else {
                format!("{}{unit}", significant(value))
            };
        }
        value /= 1024.0;
    }
    format!("{}TiB", significant(value))
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
