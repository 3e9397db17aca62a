//! Owns the first screen of the report: why the run takes its time, what to do, then the rows that
//! matter, in at most [`LINES`] lines that are no wider than the terminal. Names are shortened in
//! the middle; columns that have no room are left out in the order of [`DROPPED`]; tables end at
//! 99 % of their time. Every figure is the answer's. Refuses to compute, and to show what only
//! `report --all` has room for.

mod columns;
mod fitted;

use crate::figure::{some_names, thousands};
use crate::table::wrapped;
use clscope_io::shorten;
use clscope_io::text::{Page, line};
use clscope_profile::answer::bytes;
use clscope_profile::answer::data::{
    Advice, Answer, Cause, EACH_BELOW, EnergyPart, EnergyRow, KernelRow, NONE, Pattern, Run,
    words_with,
};
use clscope_profile::interval::{Interval, Spoken};
use clscope_profile::report::Report;
use clscope_profile::report::data::Function;
use columns::Columns;
use fitted::{fit, fit_parts, joined, typed};
use std::fmt::Write;

/// Lines of the screen.
pub const LINES: usize = 40;
/// Columns where there is no terminal.
pub const COLUMNS: usize = 80;
/// The fewest that are filled: on a narrower terminal lines wrap.
pub const NARROWEST: usize = 40;
/// Part of the time of a table after which it ends.
const SHOWN: f64 = 0.99;
/// Lines of causes and of advice.
const CAUSES: usize = 7;
const CAUSE_LINES: usize = 9;
const ADVICE_LINES: usize = 8;
/// Kernels that are shown where each is next to nothing.
const FEWEST: usize = 3;
/// Rows of tables beside that of kernels.
const COPIES: usize = 3;
const CALLS: usize = 4;
const ENERGIES: usize = 2;
/// Lines of what the application repeats, and the part of the wall time from which on one is shown.
const PATTERNS: (usize, f64) = (2, 0.01);
/// Half-width of an interval from which on a figure shows it.
const WIDE: f64 = 0.05;
/// Characters of a name in a sentence, where all of it has no room.
const NAME_IN_TEXT: usize = 32;
/// Kernels in command buffers that are shown.
const BUFFERED: usize = 3;
/// What is left out first where columns have no room beside whole names.
pub const DROPPED: [&str; 6] = ["size", "W", "p95", "median", "J/launch", "J/copy"];
/// What is left out then, where they have none beside short names.
pub const SQUEEZED: [&str; 4] = ["GB/s", "count", "calls", "launches"];

/// The screen; `traces`: what the user named, for the commands that are proposed.
pub fn render(report: &Report, traces: &[String], width: usize) -> String {
    let answer = &report.answer;
    let width = width.max(NARROWEST);
    let mut out = Screen { page: Page::default(), lines: 0, width };
    out.put(&heading(report, width));
    for text in report.changes.iter().flat_map(clscope_profile::changes::Changes::lines).take(2) {
        out.put(&shorten::middle(&format!("changed: {text}"), width));
    }
    if let Some(text) = report.running() {
        out.put(&shorten::middle(&text, width));
    }
    why(report, &mut out);
    advise(answer, traces, &mut out);
    if !answer.kernels.is_empty() || !answer.copies.is_empty() || !answer.host.is_empty() {
        out.put("");
    }
    // What the other tables need is theirs; kernels have the rest.
    let copies = copies(answer);
    let mut calls = calls(answer);
    let buffered = in_command_buffers(report);
    let footer = footer(report, traces, width);
    let several = answer.energy.len() > 1;
    let of_each = answer.energy.iter().take(ENERGIES);
    let energies: Vec<String> = of_each.flat_map(|row| energy(row, several, width)).collect();
    let repeats = patterns(answer).into_iter().map(str::to_owned);
    let failed = report.functions.iter().filter(|f| f.fails_at_work()).flat_map(|f| f.failures());
    let repeats = ["REPEATS     ", "            "].into_iter().zip(repeats);
    let failed = ["FAILED      ", "            "].into_iter().zip(failed);
    let patterns: Vec<_> = failed.chain(repeats).take(PATTERNS.0).collect();
    let rows = |table: &Option<Columns>| {
        table.as_ref().map_or(0, |t| t.rows.len() + 1 + usize::from(t.more > 0))
    };
    let others = rows(&copies)
        + rows(&calls)
        + rows(&buffered)
        + patterns.len()
        + energies.len()
        + footer.len()
        + 2;
    let taken = out.lines + others + 1;
    let room = LINES.saturating_sub(taken);
    // Kernels need three lines: calls give theirs.
    if let Some(calls) = &mut calls {
        let lacking = (taken + 2).saturating_sub(LINES);
        calls.rows.truncate(calls.rows.len().saturating_sub(lacking).max(1));
    }
    if let Some(kernels) = kernels(answer, room) {
        kernels.render(&mut out);
    }
    for table in [buffered, copies, calls].into_iter().flatten() {
        table.render(&mut out);
    }
    for (head, text) in &patterns {
        out.put(&shorten::middle(&format!("{head}{text}"), width));
    }
    energies.iter().for_each(|line| out.put(line));
    if answer.energy.len() > ENERGIES {
        out.put(&format!("            and {} more devices", answer.energy.len() - ENERGIES));
    }
    out.put("");
    footer.iter().for_each(|text| out.put(text));
    out.page.into_string()
}

/// What the application does again and again, where that matters.
fn patterns(answer: &Answer) -> Vec<&str> {
    let least = answer.run.wall_ns.map(|wall| PATTERNS.1 * wall);
    let matters = |of: &&Pattern| of.time_ns.zip(least).is_some_and(|(ns, least)| ns >= least);
    let of = answer.patterns.iter().filter(matters).take(PATTERNS.0);
    of.map(|pattern| pattern.text.as_str()).collect()
}

/// What is written, with its lines counted.
struct Screen {
    page: Page,
    lines: usize,
    width: usize,
}

impl Screen {
    fn put(&mut self, text: &str) {
        put!(self.page, "{}", line(text).trim_end());
        self.lines += 1;
    }
}

/// A time with three digits.
fn time(ns: f64) -> String {
    let (value, unit) = match ns.abs() {
        x if x < 999.5 => return format!("{ns:.0} ns"),
        x if x < 999.5e3 => (ns / 1e3, "us"),
        x if x < 999.5e6 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    match value {
        x if x < 9.995 => format!("{value:.2} {unit}"),
        x if x < 99.95 => format!("{value:.1} {unit}"),
        _ => format!("{value:.0} {unit}"),
    }
}

fn joules(value: f64) -> String {
    let (value, unit) = match value.abs() {
        x if x >= 0.9995 || x == 0.0 => (value, "J"),
        x if x >= 0.9995e-3 => (value * 1e3, "mJ"),
        _ => (value * 1e6, "uJ"),
    };
    match value.abs() {
        x if x < 9.995 => format!("{value:.2} {unit}"),
        x if x < 99.95 => format!("{value:.1} {unit}"),
        _ => format!("{value:.0} {unit}"),
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// Share of the wall time; where threads or queues add up to more, how many at once on average.
fn of_wall(share: f64) -> String {
    match share {
        x if x < 1.0005 => percent(x),
        x => format!("{x:.1} at once"),
    }
}

/// A part in whole percent: a small one is not none.
fn part(share: f64) -> String {
    match 100.0 * share {
        percent if percent.abs() < 0.5 => "below 1 %".to_owned(),
        percent => format!("{percent:.0} %"),
    }
}

/// What a part is not above, in whole percent.
fn part_at_most(share: f64) -> String {
    match 100.0 * share {
        percent if percent < 1.0 => "below 1 %".to_owned(),
        percent => format!("at most {:.0} %", (percent - 1e-9).ceil()),
    }
}

/// A figure with its interval where that is wide; a dash where it is not known.
fn figure(of: Option<&Interval>, shown: impl Fn(f64) -> String) -> String {
    let Some(of) = of else { return "-".to_owned() };
    match of.spoken() {
        Spoken::AtMost(most) => format!("<{}", shown(most)),
        _ if of.is_known_to(WIDE) => shown(of.value),
        _ => of.in_words(shown),
    }
}

/// A sum, which is at least that where some of its parts are not known.
fn sum(text: String, untimed: u64) -> String {
    match text.as_str() {
        // Neither how much at least nor how much at most.
        of if untimed > 0 && of.starts_with('<') => "-".to_owned(),
        of if untimed > 0 && of != "-" => format!(">{text}"),
        _ => text,
    }
}

/// Joules, or what they are at most.
fn figure_or_below(of: Option<&Interval>, below: Option<f64>) -> String {
    match (of, below) {
        (None, Some(most)) => format!("<{}", joules(most)),
        (of, _) => figure(of, joules),
    }
}

/// The run in a line.
fn heading(report: &Report, width: usize) -> String {
    let run = &report.answer.run;
    let mut facts = match run.wall_ns {
        Some(wall) => length(wall, run),
        None if report.totals.calls == 0 => "nothing was recorded".to_owned(),
        None => "its times are not known".to_owned(),
    };
    let mut state = String::new();
    if let Some(busy) = &run.busy {
        let about = if busy.estimated { "~" } else { "" };
        state += &format!(", {about}{} busy", part(busy.value));
    }
    if let Some(watts) = &run.watts {
        state += &format!(", {}", figure(Some(watts), |watts| format!("{watts:.0} W")));
    }
    let command = if run.command.is_empty() { "a run".into() } else { line(&run.command) };
    let left = |facts: &str| width.saturating_sub(facts.chars().count() + state.len() + 2);
    match &run.devices[..] {
        [] if report.totals.calls == 0 => {}
        [] if report.totals.commands == 0 => facts += ", no device command",
        [] => facts += ", no command has a device time",
        [one] => {
            // What the command leaves; where both are long, half.
            let left = left(&facts).saturating_sub(" on ".len());
            let room = left.saturating_sub(command.chars().count()).max(left / 2);
            facts += &format!(" on {}", shorten::middle(&line(one), room));
        }
        several => facts += &format!(" on {} devices", several.len()),
    }
    let all = format!("{}: {facts}{state}", shorten::middle(&command, left(&facts).max(8)));
    shorten::middle(&all, width)
}

/// How long the run took: of several processes all of their time, as of everything below.
fn length(wall: f64, run: &Run) -> String {
    match run.wall_processes {
        0 | 1 => time(wall),
        n => format!("{} in {n} processes", time(wall)),
    }
}

fn why(report: &Report, out: &mut Screen) {
    let answer = &report.answer;
    out.put("");
    let Some(wall) = answer.run.wall_ns else {
        out.put(match report.totals.calls {
            0 => "No OpenCL call was recorded: clscope doctor says what to check.",
            _ => "When it ran is not known: clscope report --all says why.",
        });
        return;
    };
    out.put(&format!("WHY IT TAKES {}", length(wall, &answer.run)));
    let (first, rest) = answer.first_causes(CAUSES - 1);
    let mut spare = CAUSE_LINES.saturating_sub(first.len() + usize::from(rest.is_some()));
    for cause in first {
        cause_lines(cause, &mut spare, out);
    }
    if let Some((share, others)) = rest.filter(|(share, _)| *share >= NONE) {
        let about = if others.iter().any(|of| of.estimated) { "~" } else { "" };
        let head = format!("  {:>7}  other: ", format!("{about}{}", percent(share)));
        let name = |name: &str| shorten::middle(name, 24);
        let each =
            others.iter().map(|of| format!("{} {}", of.in_few_words(name), percent(of.share)));
        let room = out.width - head.chars().count();
        let text = if others.is_empty() { EACH_BELOW.to_owned() } else { joined(each, room) };
        out.put(&format!("{head}{text}"));
    }
}

fn cause_lines(cause: &Cause, spare: &mut usize, out: &mut Screen) {
    let about = if cause.estimated { "~" } else { "" };
    let head = format!("  {:>7}  ", format!("{about}{}", percent(cause.share)));
    let room = out.width - head.chars().count();
    let name = cause.name.as_deref();
    let Some(more) = &cause.more else {
        out.put(&format!("{head}{}", fit(&cause.text, name, room)));
        return;
    };
    let whole = format!("{}: {more}", cause.text);
    if line(&whole).chars().count() <= room {
        out.put(&format!("{head}{}", line(&whole)));
        return;
    }
    // Rather nothing more of it than a part of each.
    if *spare == 0 {
        out.put(&format!("{head}{}", fit(&cause.text, name, room)));
        return;
    }
    *spare -= 1;
    out.put(&format!("{head}{}", fit(&format!("{}:", cause.text), name, room)));
    let indent = " ".repeat(head.chars().count() + 2);
    out.put(&format!("{indent}{}", fit_parts(more, room - 2)));
}

fn advise(answer: &Answer, traces: &[String], out: &mut Screen) {
    if answer.advice.is_empty() {
        return;
    }
    out.put("WHAT TO DO");
    let mut left = ADVICE_LINES;
    for (number, advice) in (1..).zip(&answer.advice) {
        let lines = advice_lines(number, advice, traces, out.width);
        if lines.len() > left {
            break;
        }
        left -= lines.len();
        lines.iter().for_each(|text| out.put(text));
    }
}

fn advice_lines(number: usize, of: &Advice, traces: &[String], width: usize) -> Vec<String> {
    let gain = of.gain.map_or_else(String::new, |gain| format!(": -{:.0} % at most", 100.0 * gain));
    let gain = if of.gain.is_some_and(|gain| gain < 0.005) { String::new() } else { gain };
    let room = width - 5;
    let short = of.name.as_ref().map(|name| shorten::middle(&line(name), NAME_IN_TEXT));
    let mut text = line(&of.text).into_owned();
    if let (Some(name), Some(short)) = (&of.name, &short) {
        text = text.replacen(line(name).as_ref(), short, 1);
    }
    let mut lines: Vec<String> = Vec::new();
    for word in format!("{text}{gain}").split(' ') {
        match lines.last_mut() {
            Some(last) if last.chars().count() + 1 + word.chars().count() <= room => {
                *last += " ";
                *last += word;
            }
            _ => lines.push(shorten::middle(word, room)),
        }
    }
    if let Some(words) = of.command.as_ref().and_then(|of| words_with(traces, of)) {
        let command = words.join(" ");
        match lines.last_mut() {
            Some(last) if last.chars().count() + 4 + command.chars().count() <= room => {
                *last += &format!("    {command}");
            }
            _ => lines.extend(typed(&words, room)),
        }
    }
    let heads = std::iter::once(format!("  {number}  ")).chain(std::iter::repeat("     ".into()));
    heads.zip(lines).map(|(head, text)| head + &text).collect()
}

/// How many of some rows, the largest first, hold [`SHOWN`] of their time, and no more than have
/// room.
fn shown(times: &[f64], room: usize) -> usize {
    let all: f64 = times.iter().sum();
    let mut sum = 0.0;
    let enough = times.iter().position(|time| {
        sum += time;
        sum >= SHOWN * all
    });
    let enough = enough.map_or(times.len(), |at| at + 1);
    match enough.min(room) {
        // The line of what is left needs room, too.
        n if n < times.len() && n == room => n.saturating_sub(1),
        n => n,
    }
}

fn kernels(answer: &Answer, room: usize) -> Option<Columns> {
    let mut rows: Vec<&KernelRow> = answer.kernels.iter().collect();
    rows.sort_by(|a, b| b.share.unwrap_or(0.0).total_cmp(&a.share.unwrap_or(0.0)));
    let times: Vec<f64> = rows.iter().map(|row| row.share.unwrap_or(0.0)).collect();
    let much = times.iter().filter(|share| **share >= NONE).count().max(FEWEST);
    let n = shown(&times, room.max(2)).min(much);
    let name = |row: &KernelRow| match (&row.device, &row.size) {
        (Some(device), _) => format!("{} on {device}", row.name),
        (None, Some(size)) if row.of_size => format!("{} ({size})", row.name),
        (None, _) => row.name.clone(),
    };
    let cells = |row: &&KernelRow| {
        let share = row.share.map_or_else(|| "-".to_owned(), of_wall);
        let size = row.size.as_ref().map_or_else(String::new, |size| match row.sizes {
            _ if row.of_size => size.clone(),
            0 | 1 if !row.sizes_are_more => size.clone(),
            n => format!("{size} and {}{} more", n - 1, if row.sizes_are_more { "+" } else { "" }),
        });
        vec![
            name(row),
            sum(share, row.untimed),
            sum(figure(row.time_ns.as_ref(), time), row.untimed),
            thousands(row.launches),
            figure(row.median_ns.as_ref(), time),
            figure(row.p95_ns.as_ref(), time),
            figure_or_below(row.joules_per_launch.as_ref(), row.joules_per_launch_below),
            figure(row.watts.as_ref(), |watts| format!("{watts:.0}")),
            size,
        ]
    };
    (!rows.is_empty()).then(|| Columns {
        titles: vec![
            "KERNELS", "share", "time", "launches", "median", "p95", "J/launch", "W", "size",
        ],
        rows: rows.iter().take(n).map(cells).collect(),
        has_text: true,
        more: rows.len() - n,
    })
}

/// Kernels in command buffers, of which only the number of launches is known.
fn in_command_buffers(report: &Report) -> Option<Columns> {
    let all = report.command_buffers.as_ref().map_or(&[][..], |of| &of.kernels);
    let rows = all.iter().take(BUFFERED).map(|of| vec![of.name.clone(), thousands(of.launches)]);
    let rows: Vec<_> = rows.collect();
    let more = all.len() - rows.len();
    let titles = vec!["IN COMMAND BUFFERS", "launches"];
    (!rows.is_empty()).then_some(Columns { titles, rows, has_text: false, more })
}

fn copies(answer: &Answer) -> Option<Columns> {
    let rows = answer.copies.iter().take(COPIES).map(|row| {
        vec![
            row.direction.to_owned(),
            sum(row.share.map_or_else(|| "-".to_owned(), of_wall), row.untimed),
            sum(figure(row.time_ns.as_ref(), time), row.untimed),
            thousands(row.count),
            bytes(row.bytes as f64),
            row.gigabytes_per_second.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}")),
            figure_or_below(row.joules_per_copy.as_ref(), row.joules_per_copy_below),
        ]
    });
    let titles = vec!["COPIES", "share", "time", "count", "bytes", "GB/s", "J/copy"];
    let rows: Vec<_> = rows.collect();
    (!rows.is_empty()).then_some(Columns { titles, rows, ..Columns::default() })
}

fn calls(answer: &Answer) -> Option<Columns> {
    let times: Vec<f64> = answer.host.iter().map(|row| row.time_ns).collect();
    let n = shown(&times, CALLS + 1).min(CALLS);
    let rows = answer.host.iter().take(n).map(|row| {
        vec![
            row.function.clone(),
            of_wall(row.share),
            time(row.time_ns),
            thousands(row.calls),
            row.median_ns.filter(|_| row.calls > 2).map_or_else(|| "-".to_owned(), time),
            row.waited_for.clone().unwrap_or_default(),
        ]
    });
    let titles = vec!["HOST", "share", "time", "calls", "median", "waited for"];
    let rows: Vec<_> = rows.collect();
    (!rows.is_empty()).then_some(Columns { titles, rows, has_text: true, more: 0 })
}

/// Names of a sum, before "N more".
const NAMED_IN_SUM: usize = 3;

fn energy(row: &EnergyRow, several: bool, width: usize) -> Vec<String> {
    let device = if several { format!("{}: ", row.device) } else { String::new() };
    let mut window = row.window.map_or_else(String::new, |of| format!(" in {}", of.in_words()));
    if let Some(ns) = row.measured_ns {
        window += &format!(" in the {} that its readings cover", time(ns));
    }
    let all = figure(Some(&row.joules), joules);
    let watts = |watts: &Interval| figure(Some(watts), |watts| format!("{watts:.0} W"));
    let mean = row.watts.as_ref().map_or_else(String::new, |mean| format!(", {}", watts(mean)));
    let with_idle = row.parts.iter().all(|part| part.kind != "idle");
    let shown = row.parts.iter().filter(|part| is_shown(part)).map(|part| {
        let share = share(&part.share);
        match part.kind {
            "idle" => {
                let level = row.idle_watts.as_ref().map(|of| format!(" ({})", watts(of)));
                format!("idle power {share}{}", level.unwrap_or_default())
            }
            "not-assigned" => format!("not assigned {share}"),
            kind => {
                let of = match kind {
                    "sum" => some_names(&part.names, NAMED_IN_SUM).join(" + "),
                    kind => kind.to_owned(),
                };
                format!("{of} {} {share}", if with_idle { "with idle" } else { "above idle" })
            }
        }
    });
    let shown: Vec<String> = shown.collect();
    let parts = if shown.is_empty() { String::new() } else { format!(": {}", shown.join(", ")) };
    let text = format!("ENERGY      {device}{all}{window}{mean}{parts}");
    wrapped(&text, width).lines().map(str::to_owned).collect()
}

/// Whether a part is more than the rounding of the others.
fn is_shown(of: &EnergyPart) -> bool {
    of.kind != "not-assigned" || of.share.value.abs() >= 0.005 || !of.share.is_known_to(WIDE)
}

/// A share in whole percent, with both ends where its interval is wide.
fn share(of: &Interval) -> String {
    match of.spoken() {
        Spoken::AtMost(most) if of.value >= 0.0 => part_at_most(most),
        _ if of.is_known_to(WIDE) => part(of.value),
        _ => of.with_ends(part),
    }
}

fn footer(report: &Report, traces: &[String], width: usize) -> Vec<String> {
    let shows = |what: &str, of| Some(format!("{what}: {}", words_with(traces, of)?.join(" ")));
    let failed = report.functions.iter().any(Function::fails_at_work);
    let unmeasured = report.energy.as_ref().is_some_and(|energy| energy.devices.is_empty());
    let estimated = match &report.sampling {
        Some(sampling) => {
            let part = 100.0 * sampling.left_out as f64 / sampling.launches.max(1) as f64;
            Some(format!("~: {part:.0} % of launches were not timed"))
        }
        None if report.answer.why.iter().any(|cause| cause.estimated) => {
            Some("~: some commands have no time".to_owned())
        }
        None => None,
    };
    let (kernels, copies) = (&report.answer.kernels, &report.answer.copies);
    let untimed = kernels.iter().map(|row| row.untimed).chain(copies.iter().map(|row| row.untimed));
    let parts = [
        shows("all tables, notes", "clscope report --all"),
        estimated,
        untimed.sum::<u64>().gt(&0).then(|| ">: without commands that have no time".to_owned()),
        failed.then(|| shows("what failed", "clscope check")).flatten(),
        unmeasured.then(|| "no energy: clscope doctor".to_owned()),
        shows("timeline", "clscope view"),
        shows("one kernel", "clscope explain"),
        Some("two runs: clscope diff BASE NEW".to_owned()),
    ];
    let mut lines: Vec<String> = Vec::new();
    for part in parts.into_iter().flatten().filter(|part| part.chars().count() <= width) {
        match lines.last_mut() {
            Some(last) if last.chars().count() + 4 + part.chars().count() <= width => {
                *last += &format!("    {part}");
            }
            _ => lines.push(part),
        }
    }
    lines
}

#[cfg(test)]
mod tests;
