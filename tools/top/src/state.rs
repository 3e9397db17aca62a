//! What the screen of `clscope top` shows and what its keys do. Owns choices and rows of text;
//! refuses to draw and to read.

use clscope_io::text::line;
use clscope_live::document::{Document, Function, Kernel, Process, Transfer};
use clscope_profile::energy::result::Absence;
use clscope_profile::interval::Interval;
use clscope_text::figure::{dash, joules, plus_minus, short};
use clscope_text::table::{Column, Table, bytes, cells, percent, time, time_or_dash};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::collections::VecDeque;

/// What kernels are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// Device time.
    Time,
    /// Joules.
    Energy,
    /// Launches.
    Count,
    /// Name.
    Name,
}

/// Readings that sparklines go back.
const HISTORY: usize = 60;

/// Which table is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    Kernels,
    Calls,
    Transfers,
    Processes,
}

/// What a key asks of the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Nothing,
    Leave,
    /// Turn recording off where it is on, and on where it is off.
    Record,
    /// Write the report.
    Write,
}

/// Figures of the last readings, for sparklines.
#[derive(Debug, Clone, Default)]
pub struct History {
    pub busy: VecDeque<f64>,
    pub watts: VecDeque<f64>,
    pub launches: VecDeque<f64>,
}

impl History {
    /// Adds a reading.
    pub fn add(&mut self, document: &Document) {
        // What has ended has no present.
        if document.has_ended() {
            return;
        }
        let busy = document.devices.iter().filter_map(|d| d.busy_share).reduce(f64::max);
        let watts = document.meters.iter().filter_map(|m| m.watts).reduce(f64::max);
        for (past, now) in [
            (&mut self.busy, busy),
            (&mut self.watts, watts),
            (&mut self.launches, document.totals.launches_per_second),
        ] {
            past.extend(now);
            if past.len() > HISTORY {
                past.pop_front();
            }
        }
    }
}

/// Choices of the person in front of the screen.
#[derive(Debug, Clone)]
pub struct Choices {
    pub sort: Sort,
    pub view: View,
    pub filter: String,
    /// Keys go into the filter.
    pub typing: bool,
    /// The screen stands still; reading goes on.
    pub frozen: bool,
    pub help: bool,
    pub scroll: usize,
}

impl Choices {
    /// With nothing chosen but an order.
    pub fn new(sort: Sort) -> Self {
        Self {
            sort,
            view: View::Kernels,
            filter: String::new(),
            typing: false,
            frozen: false,
            help: false,
            scroll: 0,
        }
    }

    /// Takes a key.
    pub fn key(&mut self, key: KeyEvent) -> Action {
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return Action::Leave;
        }
        if self.typing {
            match key.code {
                KeyCode::Enter => self.typing = false,
                KeyCode::Esc => (self.typing, self.filter) = (false, String::new()),
                KeyCode::Backspace => drop(self.filter.pop()),
                KeyCode::Char(c) if self.filter.len() < 256 => self.filter.push(c),
                _ => {}
            }
            self.scroll = 0;
            return Action::Nothing;
        }
        let mut view = |view| (self.view, self.scroll) = (view, 0);
        match key.code {
            KeyCode::Esc => (self.help, self.filter) = (false, String::new()),
            KeyCode::Char('q') => return Action::Leave,
            KeyCode::Char('r') => return Action::Record,
            KeyCode::Char('w') => return Action::Write,
            KeyCode::Char('t') => self.sort = Sort::Time,
            KeyCode::Char('e') => self.sort = Sort::Energy,
            KeyCode::Char('c') => self.sort = Sort::Count,
            KeyCode::Char('n') => self.sort = Sort::Name,
            KeyCode::Char('k') => view(View::Kernels),
            KeyCode::Char('a') => view(View::Calls),
            KeyCode::Char('x') => view(View::Transfers),
            KeyCode::Char('p') => view(View::Processes),
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Char(' ') => self.frozen = !self.frozen,
            KeyCode::Char('?') | KeyCode::Char('h') => self.help = !self.help,
            KeyCode::Down => self.scroll = self.scroll.saturating_add(1),
            KeyCode::Up => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::PageDown => self.scroll = self.scroll.saturating_add(10),
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(10),
            KeyCode::Home => self.scroll = 0,
            _ => {}
        }
        Action::Nothing
    }
}

/// Puts kernels, transfers and calls in an order.
pub fn sorted(document: &mut Document, by: Sort) {
    let value = |interval: &Option<Interval>| interval.map_or(f64::NEG_INFINITY, |i| i.value);
    // Of what runs the present counts, of what has ended all of it.
    let runs = !document.has_ended();
    let least = |figure: Option<f64>| figure.unwrap_or(f64::NEG_INFINITY);
    let (kernels, calls) = (&mut document.kernels, &mut document.functions);
    match by {
        Sort::Time if runs => {
            kernels.sort_by(|a, b| least(b.time_share).total_cmp(&least(a.time_share)));
            calls.sort_by(|a, b| least(b.time_share).total_cmp(&least(a.time_share)));
        }
        Sort::Count if runs => {
            let of = |k: &Kernel| least(k.launches_per_second);
            kernels.sort_by(|a, b| of(b).total_cmp(&of(a)));
            calls.sort_by(|a, b| least(b.calls_per_second).total_cmp(&least(a.calls_per_second)));
        }
        Sort::Time => {
            kernels.sort_by(|a, b| value(&b.total_ns).total_cmp(&value(&a.total_ns)));
            calls.sort_by_key(|f| std::cmp::Reverse(f.total_ns));
        }
        Sort::Energy => kernels.sort_by(|a, b| value(&b.joules).total_cmp(&value(&a.joules))),
        Sort::Count => {
            kernels.sort_by_key(|k| std::cmp::Reverse(k.launches));
            calls.sort_by_key(|f| std::cmp::Reverse(f.calls));
        }
        Sort::Name => {
            kernels.sort_by(|a, b| a.name.cmp(&b.name));
            calls.sort_by(|a, b| a.name.cmp(&b.name));
        }
    }
}

/// A table as text; the last column is text, all others are figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows {
    pub titles: Vec<&'static str>,
    pub rows: Vec<Vec<String>>,
}

impl Rows {
    fn new<'r, R: 'r>(rows: impl Iterator<Item = &'r R>, columns: &[Column<'_, R>]) -> Self {
        let (titles, rows) = cells(rows, columns);
        Self { titles, rows }
    }

    /// As the tables of the report.
    pub fn text(&self) -> Table {
        let mut table = Table::new(&self.titles);
        self.rows.iter().for_each(|row| table.row(row.clone()));
        table
    }
}

fn rate(per_second: Option<f64>) -> String {
    per_second.map_or_else(|| "-".to_owned(), short)
}

fn estimated(interval: Option<Interval>, show: impl Fn(f64) -> String) -> String {
    match interval {
        Some(i) => format!("{}{}", if i.estimated { "~" } else { "" }, show(i.value)),
        None => "-".to_owned(),
    }
}

/// The rows of a view whose names contain the filter, in whatever case.
pub fn rows(document: &Document, view: View, filter: &str) -> Rows {
    let filter = filter.to_lowercase();
    let wanted = |name: &str| filter.is_empty() || name.to_lowercase().contains(&filter);
    let shown = |name: &str| line(name).into_owned();
    let ended = document.has_ended();
    match view {
        View::Kernels => {
            let is_estimated = |k: &Kernel| k.total_ns.is_some_and(|t| t.estimated);
            let is_estimated = ended && document.kernels.iter().any(is_estimated);
            let half =
                |k: &Kernel| dash(k.total_ns.filter(|t| t.estimated).as_ref().map(plus_minus));
            let each = |k: &Kernel| match k.joules_per_launch {
                None if k.why.is_some_and(Absence::is_in_sum) => "in a sum".to_owned(),
                alone => estimated(alone.map(measured), joules),
            };
            let columns: [Column<'_, Kernel>; 12] = [
                ("share", true, &|k| percent(if ended { k.share } else { k.time_share })),
                ("time", ended, &|k| estimated(k.total_ns, time)),
                ("+-", is_estimated, &half),
                ("launch/s", !ended, &|k| rate(k.launches_per_second)),
                ("launches", ended, &|k| k.launches.to_string()),
                ("mean", true, &|k| time_or_dash(k.mean_ns)),
                ("p95", true, &|k| time_or_dash(k.p95_ns)),
                ("energy", ended, &|k| estimated(k.joules.map(measured), joules)),
                ("J/launch", true, &each),
                ("W", true, &|k| estimated(k.watts.map(measured), short)),
                ("+-", true, &|k| dash(k.watts.as_ref().map(plus_minus))),
                ("kernel", true, &|k| shown(display_name(document, k))),
            ];
            let is_wanted = |k: &&Kernel| wanted(&k.name) || wanted(display_name(document, k));
            Rows::new(document.kernels.iter().filter(is_wanted), &columns)
        }
        View::Calls => {
            let columns: [Column<'_, Function>; 7] = [
                ("of a thread", !ended, &|f| percent(f.time_share)),
                ("time", ended, &|f| time_or_dash(f.total_ns.map(|ns| ns as f64))),
                ("call/s", !ended, &|f| rate(f.calls_per_second)),
                ("calls", ended, &|f| f.calls.to_string()),
                ("failed so far", !ended, &|f| f.errors.to_string()),
                ("failed", ended, &|f| f.errors.to_string()),
                ("function", true, &|f| shown(&f.name)),
            ];
            Rows::new(document.functions.iter().filter(|f| wanted(&f.name)), &columns)
        }
        View::Transfers => {
            let columns: [Column<'_, Transfer>; 6] = [
                ("GB/s", !ended, &|t| dash(t.bytes_per_second.map(|b| format!("{:.2}", b * 1e-9)))),
                ("time", ended, &|t| estimated(t.total_ns, time)),
                ("count", ended, &|t| t.count.to_string()),
                ("bytes", ended, &|t| bytes(t.bytes)),
                ("direction", true, &|t| dash(t.direction.as_deref().map(shown))),
                ("command", true, &|t| shown(&t.kind)),
            ];
            Rows::new(document.transfers.iter().filter(|t| wanted(&t.kind)), &columns)
        }
        View::Processes => {
            let command = |p: &Process| match p.arguments.is_empty() {
                true => shown(&p.executable),
                false => shown(&p.arguments.join(" ")),
            };
            let call = |p: &Process| p.in_calls.iter().max_by_key(|c| c.ns).cloned();
            let columns: [Column<'_, Process>; 5] = [
                ("pid", true, &|p| p.pid.to_string()),
                ("state", true, &|p| p.state.to_owned()),
                ("in", true, &|p| dash(call(p).map(|c| shown(&c.function)))),
                ("since", true, &|p| time_or_dash(call(p).and_then(|c| c.ns).map(|ns| ns as f64))),
                ("command", true, &command),
            ];
            Rows::new(document.processes.iter().filter(|p| wanted(&command(p))), &columns)
        }
    }
}

fn display_name<'d>(document: &'d Document, kernel: &'d Kernel) -> &'d str {
    document.display_names.get(&kernel.name).unwrap_or(&kernel.name)
}

/// Joules are fitted: `~` would stand before all of them.
fn measured(of: Interval) -> Interval {
    Interval { estimated: false, ..of }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clscope_live::follow::Follower;

    fn press(choices: &mut Choices, key: char) -> Action {
        choices.key(KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE))
    }

    /// Three kernels that each order puts in another place; the joules of one are not known.
    fn document() -> Document {
        let samples =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../trace/tests/samples/v1.2");
        let mut out = Follower::open(&samples, Vec::new()).unwrap().poll(&|_| "ended").unwrap();
        let kernel = out.kernels[0].clone();
        let row = |name: &str, ns: f64, launches, joules: Option<f64>| {
            let of = |x: f64| Interval { value: x, low: x, high: x, estimated: false };
            clscope_live::document::Kernel {
                name: name.to_owned(),
                total_ns: Some(of(ns)),
                launches,
                joules: joules.map(of),
                ..kernel.clone()
            }
        };
        out.kernels = vec![
            row("b", 3.0, 10, None),
            row("c", 1.0, 30, Some(5.0)),
            row("a", 2.0, 20, Some(9.0)),
        ];
        out
    }

    #[test]
    fn keys_choose_the_order_and_unknown_joules_come_last() {
        let mut choices = Choices::new(Sort::Name);
        for (key, order) in [('t', "bac"), ('e', "acb"), ('c', "cab"), ('n', "abc")] {
            assert_eq!(press(&mut choices, key), Action::Nothing);
            let mut document = document();
            sorted(&mut document, choices.sort);
            let names: String = document.kernels.iter().map(|k| k.name.as_str()).collect();
            assert_eq!(names, order, "{key}");
        }
    }

    #[test]
    fn space_freezes_and_joules_that_are_not_known_are_a_dash() {
        let mut choices = Choices::new(Sort::Time);
        press(&mut choices, ' ');
        assert!(choices.frozen);
        press(&mut choices, ' ');
        assert!(!choices.frozen);
        // Inside a filter it is a letter.
        press(&mut choices, '/');
        press(&mut choices, ' ');
        assert!(!choices.frozen && choices.filter == " ");
        let table = rows(&document(), View::Kernels, "b");
        let at = table.titles.iter().position(|t| *t == "J/launch").unwrap();
        assert_eq!((table.rows.len(), table.rows[0][at].as_str()), (1, "-"));
        // One that is known with others only says so, in the report's word.
        let mut summed = document();
        summed.kernels.iter_mut().for_each(|k| k.why = Some(Absence::InSum));
        assert_eq!(rows(&summed, View::Kernels, "b").rows[0][at], "in a sum");
    }
}
