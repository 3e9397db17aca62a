//! A table of the first screen that is no wider than the terminal: which columns have no room, and
//! how names are shortened. Refuses to choose rows.

use super::{DROPPED, SQUEEZED, Screen};
use crate::figure::thousands;
use clscope_io::shorten;
use clscope_io::text::line;

/// Characters of a name in a table, at least and at most.
const NAME: (usize, usize) = (10, 32);

/// A table: names on the left, figures on the right, one text behind them.
#[derive(Debug, Default)]
pub(super) struct Columns {
    pub(super) titles: Vec<&'static str>,
    pub(super) rows: Vec<Vec<String>>,
    /// Whether the last column is text on the left.
    pub(super) has_text: bool,
    /// Rows that are not shown.
    pub(super) more: usize,
}

impl Columns {
    pub(super) fn render(mut self, out: &mut Screen) {
        let count = |s: &str| s.chars().count();
        // Columns of which nothing is known.
        let unknown = |i: usize| self.rows.iter().all(|row| row[i] == "-" || row[i].is_empty());
        let empty: Vec<usize> = (1..self.titles.len()).filter(|i| unknown(*i)).collect();
        empty.into_iter().rev().for_each(|i| self.drop_column(i));
        let names = |table: &Self| -> Vec<String> {
            table.rows.iter().map(|row| line(&row[0]).into_owned()).collect()
        };
        let longest = names(&self).iter().map(|name| count(name)).max().unwrap_or(0);
        let wanted = longest.clamp(NAME.0, NAME.1);
        let width = |table: &Self, i: usize| {
            let cells = table.rows.iter().map(|row| count(&row[i]));
            cells.chain([count(table.titles[i])]).max().unwrap_or(0)
        };
        let figures = |table: &Self| {
            let last = table.titles.len() - usize::from(table.has_text);
            (1..last).map(|i| width(table, i) + 2).sum::<usize>()
        };
        let text = |table: &Self| if table.has_text { 12 } else { 0 };
        let whole = DROPPED.iter().map(|title| (*title, wanted));
        for (title, name) in whole.chain(SQUEEZED.iter().map(|title| (*title, NAME.0))) {
            let is_full = figures(&self) + text(&self) + name > out.width;
            if let Some(at) = self.titles.iter().position(|t| *t == title).filter(|_| is_full) {
                self.drop_column(at);
            }
        }
        let left = out.width.saturating_sub(figures(&self) + text(&self)).clamp(NAME.0, wanted);
        let short =
            shorten::distinct(&names(&self).iter().map(String::as_str).collect::<Vec<_>>(), left);
        let widths: Vec<usize> = (0..self.titles.len()).map(|i| width(&self, i)).collect();
        let last = self.titles.len() - 1;
        let render = |name: &str, cells: &[String]| {
            let mut text = format!("{name:<left$}");
            for (i, cell) in cells.iter().enumerate().skip(1) {
                match i == last && self.has_text {
                    true => {
                        let room = out.width.saturating_sub(count(&text) + 2);
                        text += &format!("  {}", shorten::middle(&line(cell), room));
                    }
                    false => text += &format!("  {cell:>width$}", width = widths[i]),
                }
            }
            text
        };
        let titles: Vec<String> = self.titles.iter().map(|t| (*t).to_owned()).collect();
        let mut lines = vec![render(self.titles[0], &titles)];
        lines.extend(self.rows.iter().zip(&short).map(|(row, name)| render(name, row)));
        if self.more > 0 {
            lines.push(format!("and {} more", thousands(self.more as u64)));
        }
        lines.iter().for_each(|text| out.put(text));
    }

    fn drop_column(&mut self, at: usize) {
        self.has_text &= at + 1 != self.titles.len();
        self.titles.remove(at);
        for row in &mut self.rows {
            row.remove(at);
        }
    }
}
