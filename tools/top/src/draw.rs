//! Draws the screen of `clscope top`. Owns places and styles; refuses to decide what is shown.
//! Without colour bold and reverse are left.

use crate::state::{Choices, History, Rows, View, rows};
use clscope_io::shorten::middle;
use clscope_io::text::line;
use clscope_live::document::{Document, Meter};
use clscope_text::figure::{joules, short};
use clscope_text::table::{bytes, percent, time};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::Paragraph;
use std::collections::VecDeque;

/// The least that a table of figures can be read on.
const LEAST: (u16, u16) = (40, 8);
/// Lines of devices and of sensors at most.
const MOST_LINES: usize = 3;

const HELP: &str = "t e c n       sort by time, energy, count, name
k a x p       kernels, API calls, transfers, processes
/ Enter Esc   filter by name, done, none
space         freeze the screen; reading goes on
r             turn recording off and on
w             write the report as a page
arrows, Page  scroll
q             leave; the application goes on";

/// The keys in one line, the fullest first.
const KEYS: [&str; 4] = [
    "[t e c n] sort  [k a x p] tables  [/] filter  [space] freeze  [r] record  [w] report  [?] help  [q] leave",
    "tecn sort  kaxp tables  / filter  space freeze  ? help  q leave",
    "tecn sort  kaxp tables  / filter  ? help  q leave",
    "? help  q leave",
];

/// What a terminal can show.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// Colours; without them bold and reverse are left.
    pub colour: bool,
    /// Whether it shows characters beyond ASCII.
    pub unicode: bool,
}

impl Look {
    fn style(self, colour: Color, modifier: Modifier) -> Style {
        let style = Style::new().add_modifier(modifier);
        if self.colour { style.fg(colour) } else { style }
    }
}

/// What is drawn.
pub struct Picture<'p> {
    pub document: &'p Document,
    pub choices: &'p Choices,
    pub history: &'p History,
    pub look: Look,
    /// What the last key did.
    pub message: &'p str,
}

/// Bars, one a reading, of which the highest is full.
fn sparkline(values: &VecDeque<f64>, most: Option<f64>, unicode: bool) -> String {
    let levels: &[char] = if unicode {
        &['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█']
    } else {
        &['_', '.', ':', '-', '=', '+', '*', '#']
    };
    let newest = values.iter().skip(values.len().saturating_sub(20));
    let most = most.or(newest.clone().copied().reduce(f64::max)).unwrap_or(0.0);
    newest
        .map(|v| {
            let level = if most > 0.0 { v / most * (levels.len() - 1) as f64 } else { 0.0 };
            levels[(level.round() as usize).min(levels.len() - 1)]
        })
        .collect()
}

/// The figures of the whole: first what is looked at, then devices, power, host.
pub fn heading(document: &Document, past: Option<(&History, bool)>, width: usize) -> Vec<String> {
    let spark = |of: fn(&History) -> &VecDeque<f64>, most: Option<f64>| {
        let drawn = past.map(|(h, unicode)| sparkline(of(h), most, unicode)).unwrap_or_default();
        if drawn.is_empty() { drawn } else { format!("  {drawn}") }
    };
    let or_dash = |share: Option<f64>| percent(share);
    let states: Vec<&str> = document.processes.iter().map(|p| p.state).collect();
    let state = match states.iter().filter(|s| **s == "recording").count() {
        _ if states.is_empty() => "waiting for the first OpenCL call".to_owned(),
        0 if states.contains(&"paused") => "recording paused".to_owned(),
        0 if states.contains(&"unknown") => "processes of another machine".to_owned(),
        0 => "ended".to_owned(),
        1 if states.len() == 1 => "recording".to_owned(),
        n => format!("{n} of {} processes record", states.len()),
    };
    let totals = &document.totals;
    let mut length =
        document.duration_ns.map_or_else(String::new, |ns| format!("{}, ", time(ns as f64)));
    if let Some(ns) = document.repeated_ns {
        length.push_str(&format!("{} of it in repetitions, ", time(ns as f64)));
    }
    let rate =
        totals.bytes_per_second.map_or_else(String::new, |b| format!(" at {}/s", bytes(b as u64)));
    let dropped = match totals.dropped {
        0 => String::new(),
        n => format!(", {n} records dropped"),
    };
    let full = line(&document.trace);
    let name = full.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(&full);
    let size = bytes(totals.bytes);
    // Of a narrow screen the state and the losses are what must be left.
    let firsts = [
        format!("clscope top of {full}: {state}, {length}trace {size}{rate}{dropped}"),
        format!("clscope top of {name}: {state}, {length}trace {size}{rate}{dropped}"),
        format!("{name}: {state}, {length}trace {size}{rate}{dropped}"),
        format!("{name}: {state}{dropped}"),
        format!("{state}{dropped}: {name}"),
    ];
    let fits = firsts.iter().position(|text| text.chars().count() <= width);
    let mut out: Vec<String> = firsts.into_iter().skip(fits.unwrap_or(4)).take(1).collect();
    for (nth, device) in document.devices.iter().take(MOST_LINES).enumerate() {
        let mark = match device.busy_share {
            Some(_) if device.busy_is_estimated => "~",
            _ => "",
        };
        let past = if nth == 0 { spark(|h| &h.busy, Some(1.0)) } else { String::new() };
        let of =
            if document.has_ended() && device.busy_share.is_some() { " of the run" } else { "" };
        out.push(format!(
            "device    busy {mark}{}{of}{past}  {} in flight  {}",
            or_dash(device.busy_share),
            device.in_flight,
            line(&device.name)
        ));
    }
    // One of which nothing is known says nothing.
    let known = |m: &&Meter| m.watts.is_some() || m.joules.is_some();
    for (nth, meter) in document.meters.iter().filter(known).take(MOST_LINES).enumerate() {
        let watts = meter.watts.map_or_else(|| "-".to_owned(), |w| format!("{}W", short(w)));
        let sum = meter.joules.filter(|_| document.has_ended());
        let sum = sum.map_or_else(String::new, |j| format!("  {}", joules(j)));
        let past = if nth == 0 { spark(|h| &h.watts, None) } else { String::new() };
        out.push(format!(
            "power     {watts}{past}{sum}  {} {}",
            line(&meter.source),
            line(&meter.name)
        ));
    }
    // Of what runs its present, of what has ended all of it: no sums beside rates.
    let each = |n: Option<f64>, what: &str| match n {
        Some(n) => format!("{} {what}/s", short(n)),
        None => format!("- {what}/s"),
    };
    let past = spark(|h| &h.launches, None);
    let (launches, mut host) = match document.has_ended() {
        true => (
            format!(
                "{}{past}  commands {}, {} timed",
                totals.launches, totals.commands, totals.timed
            ),
            format!("host      {} calls", totals.calls),
        ),
        false => (
            format!("{}{past}", each(totals.launches_per_second, "launches")),
            format!("host      {}", each(totals.calls_per_second, "calls")),
        ),
    };
    out.push(format!("launches  {launches}"));
    if let (Some(inside), Some(blocked)) = (document.host.opencl_share, document.host.blocked_share)
    {
        let (inside, blocked) = (percent(Some(inside)), percent(Some(blocked)));
        host.push_str(&format!("  in OpenCL {inside}, waiting {blocked}"));
    }
    out.push(host);
    if let Some(age) = document.joules_age_ns {
        out.push(format!("joules    of kernels: {} old", time(age as f64)));
    } else if let Some(why) =
        document.joules_absent.as_deref().filter(|_| !document.meters.is_empty())
    {
        out.push(format!("joules    of kernels: {}", line(why)));
    }
    out.extend(document.problems.iter().take(2).map(|p| format!("warning   {}", line(p))));
    out
}

/// Figures that are left out first where there is little room; then those at the right.
const SPARE: [&str; 3] = ["p95", "mean", "W"];
/// The interval of a figure, which stays and goes with it.
const INTERVAL: &str = "+-";

/// Leaves figures out until the table has room.
fn fitting(mut rows: Rows, width: usize) -> Rows {
    loop {
        let last = rows.titles.len() - 1;
        let widest = |i: usize| {
            let cells = rows.rows.iter().map(|r| r[i].chars().count());
            cells.chain([rows.titles[i].len()]).max().unwrap_or(0) + 2
        };
        let figures: usize = (0..last).map(widest).sum();
        if last < 2 || figures + 18 <= width {
            return rows;
        }
        let of = |spare: &&str| rows.titles.iter().position(|title| title == spare);
        let is_figure = |i: &usize| rows.titles[*i] != INTERVAL;
        let right = || (1..last).rev().find(is_figure).unwrap_or(last - 1);
        let least = SPARE.iter().find_map(of).unwrap_or_else(right);
        let end = least + 1 + usize::from(rows.titles.get(least + 1) == Some(&INTERVAL));
        rows.titles.drain(least..end);
        rows.rows.iter_mut().for_each(|row| drop(row.drain(least..end)));
    }
}

/// Draws the whole screen.
pub fn draw(frame: &mut Frame<'_>, picture: &Picture<'_>) {
    let area = frame.area();
    let width = usize::from(area.width);
    if area.width < LEAST.0 || area.height < LEAST.1 {
        let text = format!(
            "{}x{} is too small: {}x{} is needed; --once prints",
            area.width, area.height, LEAST.0, LEAST.1
        );
        let lines: Vec<Line<'_>> = text
            .as_bytes()
            .chunks(width.max(1))
            .map(|part| Line::from(String::from_utf8_lossy(part).into_owned()))
            .collect();
        frame.render_widget(Paragraph::new(Text::from(lines)), area);
        return;
    }
    let Picture { document, choices, history, look, message } = *picture;
    let bold = Modifier::BOLD;
    let mut lines: Vec<Line<'_>> = Vec::new();
    // Figures of the whole take half of a low screen at most.
    let heading = heading(document, Some((history, look.unicode)), width);
    for (nth, text) in heading.iter().take(usize::from(area.height) / 2).enumerate() {
        let style = match nth {
            0 => look.style(Color::Cyan, bold),
            _ if text.starts_with("warning") => look.style(Color::Yellow, bold),
            _ => Style::new(),
        };
        // Figures come first, and names last.
        let text = match nth {
            0 => middle(text, width),
            _ => text.chars().take(width).collect(),
        };
        lines.push(Line::styled(text, style));
    }
    lines.push(Line::default());
    if choices.help {
        lines.extend(HELP.lines().map(|l| Line::from(middle(l, width))));
    } else {
        let table = fitting(rows(document, choices.view, &choices.filter), width);
        let text = table.text().render(width);
        let mut text = text.lines().map(str::to_owned);
        let room = usize::from(area.height).saturating_sub(lines.len() + 2);
        let titles = text.next().unwrap_or_default();
        lines.push(Line::styled(titles, look.style(Color::Reset, bold | Modifier::REVERSED)));
        let scroll = choices.scroll.min(table.rows.len().saturating_sub(1));
        if table.rows.is_empty() {
            lines.push(Line::from(match choices.filter.is_empty() {
                true => "  nothing yet",
                false => "  no name contains the filter",
            }));
        }
        lines.extend(text.skip(scroll).take(room).map(Line::from));
    }
    let body = Rect { height: area.height - 1, ..area };
    frame.render_widget(Paragraph::new(Text::from(lines)), body);
    let status = if choices.typing {
        format!("filter: {}_", line(&choices.filter))
    } else if !message.is_empty() {
        line(message).into_owned()
    } else {
        let frozen = if choices.frozen { "FROZEN  " } else { "" };
        let filter = match choices.filter.is_empty() {
            true => String::new(),
            false => format!("filter {}  ", line(&choices.filter)),
        };
        let view = match choices.view {
            View::Kernels => "kernels",
            View::Calls => "API calls",
            View::Transfers => "transfers",
            View::Processes => "processes",
        };
        // The widest that fits.
        let mut all = KEYS.iter().map(|keys| format!("{frozen}{filter}{view}  {keys}"));
        let fits = |text: &String| text.chars().count() <= width;
        let shortest = || format!("{frozen}{filter}{view}");
        all.find(fits).unwrap_or_else(shortest)
    };
    let place = Rect { y: area.y + area.height - 1, height: 1, ..area };
    let status = Line::styled(middle(&status, width), look.style(Color::Cyan, Modifier::empty()));
    frame.render_widget(Paragraph::new(status), place);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Sort;
    use clscope_live::follow::Follower;
    use clscope_testing::golden;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use std::path::{Path, PathBuf};

    fn path(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
    }

    /// The committed trace, with names and figures that a screen must stand.
    fn document() -> Document {
        let samples = path("../trace/tests/samples/v1.2");
        let mut out = Follower::open(&samples, Vec::new()).unwrap().poll(&|_| "recording").unwrap();
        out.trace = "run\u{1b}[2J.clscope".into();
        let kernel = out.kernels[0].clone();
        for (name, launches) in [("evil\u{1b}]0;x\u{7}\u{202e}kernel", 7), ("日本\nline", 9)] {
            out.kernels.push(clscope_live::document::Kernel {
                name: name.into(),
                launches,
                launches_per_second: Some(48_123.4),
                joules_per_launch: Some(clscope_profile::interval::Interval::estimated(
                    0.0213, 0.02, 0.022,
                )),
                ..kernel.clone()
            });
        }
        out.kernels.push(clscope_live::document::Kernel { name: "k".repeat(1 << 20), ..kernel });
        out
    }

    fn drawn(width: u16, height: u16, choices: &Choices, look: Look) -> (String, bool) {
        let document = document();
        let mut history = History::default();
        history.launches.extend([0.0, 5.0, 10.0, 10.0]);
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let picture =
            Picture { document: &document, choices, history: &history, look, message: "" };
        terminal.draw(|frame| draw(frame, &picture)).unwrap();
        let buffer = terminal.backend().buffer();
        let coloured = buffer.content().iter().any(|c| c.fg != Color::Reset);
        let rows = buffer.content().chunks(usize::from(width.max(1)));
        let text = rows.map(|row| {
            let line: String = row.iter().map(ratatui::buffer::Cell::symbol).collect();
            format!("{}\n", line.trim_end())
        });
        (text.collect(), coloured)
    }

    const PLAIN: Look = Look { colour: false, unicode: false };

    #[test]
    fn golden_screens_of_several_sizes() {
        let mut all = String::new();
        let mut calls = Choices::new(Sort::Time);
        calls.view = View::Calls;
        for (size, choices) in [
            ((80, 24), Choices::new(Sort::Time)),
            ((120, 20), Choices::new(Sort::Count)),
            ((50, 12), calls),
            ((30, 4), Choices::new(Sort::Time)),
        ] {
            let (text, coloured) = drawn(size.0, size.1, &choices, PLAIN);
            assert!(!coloured, "NO_COLOR");
            assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
            assert!(!text.contains('\u{202e}'));
            all.push_str(&format!("{} x {}\n{text}\n", size.0, size.1));
        }
        golden::golden(&path("tests/goldens/top.txt"), &all);
    }

    #[test]
    fn a_narrow_heading_keeps_the_state() {
        let mut document = document();
        document.trace = "/a/folder/of/many/runs/with/long/names/run.clscope".into();
        for (width, whole) in [(200, true), (40, false), (20, false)] {
            let first = heading(&document, None, width).remove(0);
            assert!(first.contains("ended"), "{width}: {first}");
            assert_eq!(first.contains("/a/folder"), whole, "{width}: {first}");
            assert!(width == 20 || first.chars().count() <= width, "{width}: {first}");
        }
    }

    #[test]
    fn every_size_and_view_is_drawn() {
        for (width, height) in [(1, 1), (3, 2), (39, 24), (40, 8), (41, 9), (200, 60), (0, 0)] {
            for view in [View::Kernels, View::Calls, View::Transfers, View::Processes] {
                let choices = Choices {
                    view,
                    filter: "\u{1b}".into(),
                    typing: width % 2 == 0,
                    help: height % 2 == 0,
                    frozen: true,
                    scroll: usize::MAX,
                    ..Choices::new(Sort::Energy)
                };
                let look = Look { colour: true, unicode: true };
                let (text, _) = drawn(width, height, &choices, look);
                assert_eq!(text.lines().count(), usize::from(height));
            }
        }
        let (text, coloured) =
            drawn(80, 24, &Choices::new(Sort::Time), Look { colour: true, unicode: true });
        assert!(coloured && text.contains('▅') && text.contains('█'), "{text}");
    }
}
