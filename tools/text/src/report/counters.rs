//! Owns the section of counters for people: what each kernel's counters read on average while it
//! ran, with 95 % intervals, and what is not known.

use super::{Shown, more};
use crate::figure::dash;
use crate::table::{Column, Table, percent, time, time_or_dash};
use clscope_io::text::Page;
use clscope_profile::counters::result::{Class, Clocks, Column as Counter, Counters, Source};
use clscope_profile::interval::{Interval, Spoken};
use std::fmt::Write;

/// Counters side by side in one table; more go into another.
const ABREAST: usize = 8;

/// A mean with as many digits as its interval leaves standing.
fn figure(of: &Interval) -> String {
    let half = of.longer();
    let digits = match half {
        h if h >= 10.0 => 0,
        h if h >= 0.095 || h == 0.0 => 1,
        _ => 2,
    };
    match of.spoken() {
        Spoken::AtMost(most) if most >= 1e5 => format!("<{most:.3e}"),
        Spoken::AtMost(most) => format!("<{most:.digits$}"),
        _ if half.is_infinite() => format!("{:.1}+-?", of.value),
        spoken if of.value.abs() >= 1e5 => {
            format!("{:.3e}{}", of.value, spoken.behind().unwrap_or_default())
        }
        Spoken::Sides(..) => {
            let (below, above) = (of.value - of.low, of.high - of.value);
            format!("{:.digits$} -{below:.digits$}/+{above:.digits$}", of.value)
        }
        _ => format!("{:.digits$}+-{half:.digits$}", of.value),
    }
}

fn cell(class: &Class, column: &Counter) -> String {
    let Some(value) = class.values.get(&column.name) else { return "-".to_owned() };
    match (&value.mean, &value.only_with) {
        (Some(mean), _) => figure(mean),
        (None, Some(_)) => "sum".to_owned(),
        (None, None) => "-".to_owned(),
    }
}

/// The section.
pub fn render(counters: &Counters, shown: &Shown, out: &mut Page) {
    if let Some(why) = &counters.absent {
        put!(out, "\nCounters: absent: {why}");
    }
    for source in &counters.sources {
        write_source(source, shown, out);
    }
}

pub(super) fn chosen<'s>(source: &'s Source, shown: &Shown) -> Vec<&'s Counter> {
    match shown.counters.as_slice() {
        [] => source.moved().collect(),
        [all] if all == "all" || all == "clocks" => {
            source.columns.iter().filter(|c| c.absent.is_none()).collect()
        }
        names => source
            .columns
            .iter()
            .filter(|c| names.iter().any(|n| c.name.eq_ignore_ascii_case(n)))
            .collect(),
    }
}

fn write_source(s: &Source, shown: &Shown, out: &mut Page) {
    let set = s.set.as_ref().map_or_else(String::new, |set| format!(", set {set}"));
    put!(
        out,
        "\nCounters of {} while each kernel ran: {}{set}, matched by {}",
        s.device,
        s.source,
        s.matched
    );
    if let Some(why) = &s.failed {
        put!(out, "  not attributed: {why}");
        return;
    }
    let columns = chosen(s, shown);
    let mut rows: Vec<&Class> =
        s.classes.iter().filter(|c| c.kind != "kernel" || shown.matches(&c.name)).collect();
    rows.sort_by(|a, b| b.busy_seconds.total_cmp(&a.busy_seconds));
    let limit = shown.limit(rows.len());
    let busy: f64 = s.classes.iter().map(|c| c.busy_seconds).sum();
    match (columns.is_empty(), shown.counters.is_empty()) {
        (true, true) => drop(writeln!(out, "  no counter moved")),
        (true, false) => {
            let names: Vec<&str> = s.columns.iter().map(|c| c.name.as_str()).collect();
            put!(out, "  none of the counters asked for: there are {}", names.join(", "));
        }
        _ => {}
    }
    for part in columns.chunks(ABREAST) {
        let titles: Vec<String> = part.iter().map(|c| format!("{} {}", c.name, c.unit)).collect();
        let mut all: Vec<&str> = vec!["time"];
        all.extend(titles.iter().map(String::as_str));
        all.push("kernel or transfer");
        let mut table = Table::new(&all);
        for class in &rows[..limit] {
            let mut cells = vec![percent((busy > 0.0).then_some(class.busy_seconds / busy))];
            cells.extend(part.iter().map(|c| cell(class, c)));
            cells.push(class.name.clone());
            table.row(cells);
        }
        out.push_str(&table.render(shown.width));
    }
    more(out, rows.len() - limit);
    sums(s, &columns, out);
    if shown.counters.iter().any(|c| c == "clocks") {
        clocks(s, shown, out);
    }
    let idle: Vec<String> = columns
        .iter()
        .filter_map(|c| Some(format!("{} {} {}", c.name, figure(c.idle.as_ref()?), c.unit)))
        .collect();
    if !idle.is_empty() {
        put!(out, "  while nothing ran: {}", idle.join(", "));
    }
    let still: Vec<&str> = s
        .columns
        .iter()
        .filter(|c| {
            c.absent.is_none() && c.name != "GpuTime" && !s.moved().any(|m| m.name == c.name)
        })
        .map(|c| c.name.as_str())
        .collect();
    if !still.is_empty() && shown.counters.is_empty() {
        put!(out, "  0 throughout: {}", still.join(", "));
    }
    for c in s.columns.iter().filter(|c| c.absent.is_some()) {
        put!(out, "  {}: absent: {}", c.name, c.absent.as_deref().unwrap_or_default());
    }
    let delay =
        s.delay_seconds.map_or_else(String::new, |d| format!(", seen {} later", time(d * 1e9)));
    put!(
        out,
        "  {} windows of {}{delay}; +- is the 95 % interval",
        s.windows,
        time(s.window_seconds * 1e9)
    );
    for note in &s.notes {
        put!(out, "  note: {note}");
    }
}

/// The three clocks of kernels long enough to be measured by each.
fn clocks(s: &Source, shown: &Shown, out: &mut Page) {
    let timed: Vec<(&Class, &Clocks)> =
        s.classes.iter().filter_map(|class| Some((class, class.clocks.as_ref()?))).collect();
    let clock = |c: &Clocks| {
        let seconds = c.timestamp_seconds.filter(|t| *t > 0.0);
        dash(seconds.map(|t| format!("{:.1} MHz", c.gpu_ticks as f64 / t * 1e-6)))
    };
    let columns: [Column<'_, (&Class, &Clocks)>; 8] = [
        ("launches", true, &|(_, c)| c.launches.to_string()),
        ("events", true, &|(_, c)| time(c.event_seconds * 1e9)),
        ("TIMESTAMP", true, &|(_, c)| time_or_dash(c.timestamp_seconds.map(|t| t * 1e9))),
        ("GPU_TICKS", true, &|(_, c)| c.gpu_ticks.to_string()),
        ("in 32 bits", true, &|(_, c)| c.gpu_ticks_32_bits.to_string()),
        ("wraps", true, &|(_, c)| c.wraps.to_string()),
        ("clock", true, &|(_, c)| clock(c)),
        ("kernel", true, &|(class, _)| class.name.clone()),
    ];
    if !timed.is_empty() {
        let which =
            if s.one_by_one { "read around one by one" } else { "that last ten windows or more" };
        put!(out, "  Time by three clocks, of launches {which}");
        out.push_str(&Table::of_rows(&timed, &columns).render(shown.width));
    } else if !s.one_by_one {
        out.push_str("  no launch lasts ten windows: nothing to compare clocks by\n");
    }
}

/// Classes that ran in one proportion, each once with the counters shown.
fn sums(s: &Source, columns: &[&Counter], out: &mut Page) {
    let mut said: Vec<&[String]> = Vec::new();
    for together in
        s.classes.iter().flat_map(|c| c.values.values()).filter_map(|v| v.only_with.as_ref())
    {
        if said.contains(&together.classes.as_slice()) {
            continue;
        }
        said.push(&together.classes);
        let first = together.classes.first();
        let Some(class) = s.classes.iter().find(|c| Some(&c.name) == first) else { continue };
        let figures: Vec<String> = columns
            .iter()
            .filter_map(|c| {
                Some(format!(
                    "{} {}",
                    c.name,
                    figure(&class.values.get(&c.name)?.only_with.as_ref()?.mean)
                ))
            })
            .collect();
        // Of none of the counters shown it is known to any use.
        let figures =
            if figures.is_empty() { String::new() } else { format!(": {}", figures.join(", ")) };
        let of = together.classes.join(" + ");
        put!(out, "  only a common mean is known of {of}{figures}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_follow_the_interval() {
        let around = |value: f64, half: f64| figure(&Interval::around(value, half));
        for (value, half, text) in [
            (87.74, 0.31, "87.7+-0.3"),
            (0.0, 0.0, "0.0+-0.0"),
            (58.3, 0.02, "58.30+-0.02"),
            (812.4, 25.0, "812+-25"),
            (2.5e7, 5e5, "2.500e7+-2.0%"),
        ] {
            assert_eq!(around(value, half), text);
        }
    }
}
