//! The documents' numbers beside ours as HTML: the table of an experiment, and the page that leads
//! to all experiments of a run. Owns their layout; refuses to load anything from elsewhere.

use super::page::{driver, head};
use crate::reproduce::{Number, Report, Reported, State};
use crate::text::experiments::{as_printed as printed, place as number};
use clscope_io::text::markup;
use std::fmt::Write as _;

/// Most numbers of an experiment in the table of all; its own page has the rest.
const FEW: usize = 3;

/// Ours, or why there is none: by its number where reasons are listed.
fn here(of: &Number, shared: &[&str]) -> String {
    of.in_words(shared, |of, reason| match &of.here {
        Some(e) if e.high.is_infinite() && e.low == e.value => {
            format!("at least {}", number(e.value))
        }
        Some(e) => number(e.value),
        None => format!("none: {}", reason.unwrap_or("not measured")),
    })
}

/// What an experiment is: document, section, commands, and its numbers as a table.
pub(super) fn beside(of: &Report) -> String {
    let mut html = format!(
        "<h2 id=\"experiment\">{}: {}</h2><p>{}, section {}</p>",
        markup(of.name),
        markup(of.shows),
        markup(of.document),
        markup(of.section)
    );
    for text in of.commands.iter() {
        let _ = write!(html, "<p><code>{}</code></p>", markup(text));
    }
    for text in of.reason.iter().chain(&of.notes) {
        let _ = write!(html, "<p>{}</p>", markup(text));
    }
    let Some(first) = of.numbers.first() else {
        html.push_str("<p>The document prints no number for it.</p>");
        return html;
    };
    let shared = of.reasons();
    html.push_str("<table><tr><th>number<th>here<th>unit");
    for of in &first.printed {
        let _ = write!(html, "<th>{}", markup(of.device));
    }
    html.push_str("</tr>");
    for row in &of.numbers {
        let ours = markup(&here(row, &shared));
        let what = markup(row.what);
        let _ = write!(html, "<tr><td>{what}<td class=\"n\">{ours}<td>{}", markup(row.unit));
        for of in &row.printed {
            let text = of.value.map_or_else(|| "-".to_owned(), printed);
            let _ = write!(html, "<td class=\"n\">{text}");
        }
        html.push_str("</tr>");
    }
    html.push_str("</table>");
    for (n, reason) in shared.iter().enumerate() {
        let _ = write!(html, "<p>({}) {}</p>", n + 1, markup(reason));
    }
    html
}

/// A few numbers in one cell.
fn few(of: &Report) -> String {
    let known = of.numbers.iter().filter(|n| n.here.is_some());
    let line = |n: &Number| {
        let theirs: Vec<String> = n.printed.iter().filter_map(|p| p.value).map(printed).collect();
        let theirs = if theirs.is_empty() { "-".to_owned() } else { theirs.join(", ") };
        let unit = if n.unit.is_empty() { String::new() } else { format!(" {}", n.unit) };
        markup(&format!("{}: {theirs}; here {}{unit}", n.what, here(n, &[])))
    };
    let mut lines: Vec<String> = known.take(FEW).map(line).collect();
    if of.numbers.len() > lines.len() && !lines.is_empty() {
        lines.push(format!("{} of {} numbers", lines.len(), of.numbers.len()));
    }
    lines.join("<br>")
}

/// One page that leads to the page of each experiment; `link` gives where that is, if there is one.
pub fn index(of: &Reported, link: impl Fn(&Report) -> Option<String>) -> String {
    let (on, facts) = match &of.device {
        Some(d) => {
            (format!(" on {}", markup(&d.name)), driver(&d.platform, &d.driver, d.compute_units))
        }
        None => (String::new(), "Computed, without a device.".to_owned()),
    };
    let heading = format!("Experiments of the reference documents{on}");
    let mut html = head(&format!("experiments{on}"), &heading, &facts, of.interrupted);
    let count = |state: State| of.experiments.iter().filter(|e| e.state == state).count();
    let counts = State::ALL.map(|state| (count(state), state.words()));
    let counts: Vec<String> =
        counts.iter().filter(|c| c.0 > 0).map(|(n, words)| format!("{n} {words}")).collect();
    let _ = write!(html, "<p>{}.</p>", counts.join(", "));
    html.push_str(
        "<table class=\"stack\"><tr class=\"head\"><th>experiment<th>section<th>what it shows\
         <th>status<th>the document; here</tr>",
    );
    let mut document = "";
    for report in &of.experiments {
        if report.document != document {
            document = report.document;
            let _ = write!(html, "<tr><th colspan=\"5\">{}</tr>", markup(document));
        }
        let name = markup(report.name);
        let name = match link(report) {
            Some(to) => format!("<a href=\"{}\">{name}</a>", markup(&to)),
            None => name,
        };
        let why = report.reason.as_deref().map_or_else(String::new, |why| format!(": {why}"));
        let _ = write!(
            html,
            "<tr><td>{name}<td>&sect; {}<td>{}<td>{}{}<td>{}</tr>",
            markup(report.section),
            markup(report.shows),
            report.state.words(),
            markup(&why),
            few(report)
        );
    }
    html.push_str("</table></body></html>\n");
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_by_table() {
        for (x, ours, theirs) in [
            (4.109375, "4.109", "4.109375"),
            (190.002, "190.0", "190.002"),
            (65.0, "65", "65"),
            (111.43 / 108.57, "1.026", "1.026"),
            (2e-5, "2.000e-5", "0.00002"),
            (f64::INFINITY, "?", "inf"),
        ] {
            assert_eq!((number(x).as_str(), printed(x).as_str()), (ours, theirs), "{x}");
        }
    }
}
