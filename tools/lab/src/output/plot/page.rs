//! The page of a run: contents, findings by subject, plots, every figure as a table. Owns its order
//! and its size; refuses to load anything from elsewhere.

use super::Plot;
use super::index::beside;
use crate::reproduce::Report;
use crate::suite::SUITES;
use clscope_io::text::markup;
use clscope_microbench::results::{CaseResult, Results, Status};
use std::fmt::Write as _;

/// The page is no larger than about this, bytes; what tables have no room for is in the CSV.
const MOST_BYTES: usize = 3_000_000;

// Plots scroll on phones instead of shrinking until nobody can read them.
const STYLE: &str = "body{font-family:sans-serif;max-width:1560px;margin:1em auto;padding:0 1em;color:#222}\
    figure{display:inline-block;margin:.3em;max-width:100%;overflow-x:auto}\
    svg{max-width:100%;min-width:640px;height:auto;border:1px solid #ddd}\
    table{border-collapse:collapse;font-size:.85em;display:block;overflow-x:auto}\
    td,th{padding:.15em .7em;border-bottom:1px solid #eee;text-align:left}\
    td.n{text-align:right;font-variant-numeric:tabular-nums}.bad{color:#b00}\
    @media(max-width:700px){.stack,.stack tbody,.stack tr,.stack td,.stack th{display:block;border:0}\
    .stack tr{border-bottom:1px solid #ddd;padding:.4em 0}.stack .head{display:none}}\
    code{overflow-wrap:anywhere}.stack td{max-width:34em}\
    summary{cursor:pointer;padding:.3em 0}h2,h3{scroll-margin-top:.5em}li{margin:.2em 0}";

/// The subjects in order: the suites, and the sweeps that the user asked for. A finding's name
/// begins with its subject.
fn subjects() -> impl Iterator<Item = (&'static str, &'static str)> {
    let documents = ("reproduce", "numbers of the reference documents beside ours");
    let sweeps = ("sweep", "cases along the axes that were asked for");
    [documents, sweeps].into_iter().chain(SUITES.iter().map(|s| (s.name, s.about)))
}

/// One page that needs nothing beside it: contents, findings, plots, and every figure as a table.
pub fn page(results: &Results, plots: &[Plot]) -> String {
    whole(results, plots, None)
}

/// The page of an experiment of a document: the same, below the document's numbers and ours.
pub fn experiment(of: &Report, results: &Results, plots: &[Plot]) -> String {
    whole(results, plots, Some(of))
}

fn whole(results: &Results, plots: &[Plot], of: Option<&Report>) -> String {
    let d = &results.device;
    let power = markup(&results.power_source);
    let facts = format!("{} Power: {power}.", driver(&d.platform, &d.driver, d.compute_units));
    let mut html = head(&markup(&d.name), &markup(&d.name), &facts, results.interrupted);
    // An experiment begins with its numbers and its picture, other runs with what follows from
    // them.
    if let Some(of) = of {
        html.push_str(&beside(of));
        html.push_str("<div id=\"plots\">");
        pictures(&mut html, plots);
        html.push_str("</div>");
    }
    let found: Vec<&str> = subjects()
        .map(|s| s.0)
        .filter(|s| results.findings.iter().any(|f| subject(&f.name) == *s))
        .collect();
    contents(&mut html, &found, plots);
    html.push_str("<h2 id=\"findings\">Findings</h2>");
    for (name, about) in subjects().filter(|s| found.contains(&s.0)) {
        let _ = write!(html, "<h3 id=\"findings-{name}\">{name}: {about}</h3><ul>");
        for finding in results.findings.iter().filter(|f| subject(&f.name) == name) {
            let sure = finding
                .confidence
                .map_or_else(String::new, |c| format!(", confidence {:.1} %", c * 100.0));
            let _ = write!(
                html,
                "<li>{} <small>({}{sure})</small></li>",
                markup(&finding.text),
                markup(finding.method)
            );
        }
        html.push_str("</ul>");
    }
    if of.is_none() {
        html.push_str("<h2 id=\"plots\">Plots</h2>");
        pictures(&mut html, plots);
    }
    html.push_str("<h2 id=\"figures\">Figures</h2>");
    for (name, _) in subjects() {
        tables(&mut html, name, results);
    }
    html.push_str("</body></html>\n");
    html
}

/// Where something ran.
pub(super) fn driver(platform: &str, driver: &str, units: u32) -> String {
    format!("{}; driver {}; {units} compute units.", markup(platform), markup(driver))
}

/// The beginning of a page.
pub(super) fn head(title: &str, heading: &str, facts: &str, interrupted: bool) -> String {
    let ended = if interrupted { "<p class=\"bad\">The run was ended early.</p>" } else { "" };
    format!(
        "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>clscope-lab: {title}</title><style>{STYLE}</style></head><body>\
         <h1>{heading}</h1><p>{facts}</p>{ended}"
    )
}

/// The plots, as far as there is room for them and for what follows.
fn pictures(html: &mut String, plots: &[Plot]) {
    let mut left_out = 0;
    for plot in plots {
        if html.len() + plot.svg.len() > MOST_BYTES / 10 * 9 {
            left_out += 1;
            continue;
        }
        let _ = write!(html, "<figure id=\"{}\">{}</figure>", plot.name, plot.svg);
    }
    if left_out > 0 {
        let _ = write!(html, "<p>{left_out} more plots are in the files beside this page.</p>");
    }
}

fn subject(name: &str) -> &str {
    name.split('/').next().unwrap_or_default()
}

fn contents(html: &mut String, found: &[&str], plots: &[Plot]) {
    html.push_str("<nav><b>Contents</b><ul><li><a href=\"#findings\">Findings</a>: ");
    let links: Vec<String> =
        found.iter().map(|name| format!("<a href=\"#findings-{name}\">{name}</a>")).collect();
    html.push_str(&links.join(", "));
    html.push_str("</li><li><a href=\"#plots\">Plots</a>: ");
    let links: Vec<String> = plots
        .iter()
        .map(|p| format!("<a href=\"#{}\">{}</a>", markup(&p.name), markup(&p.title)))
        .collect();
    html.push_str(&links.join(", "));
    html.push_str("</li><li><a href=\"#figures\">Figures</a> of all cases</li></ul></nav>");
}

/// The figures of a subject's cases, folded away: they are many.
fn tables(html: &mut String, name: &str, results: &Results) {
    let is_of = |c: &&CaseResult| match &c.swept {
        Some(_) => name == "sweep",
        None => c.suite == name,
    };
    let cases: Vec<&CaseResult> = results.cases.iter().filter(is_of).collect();
    if cases.is_empty() {
        return;
    }
    let _ = write!(
        html,
        "<details><summary>{name}: {} cases</summary><table>\
         <tr><th>case<th>figure<th>value<th>95 % interval<th>unit</tr>",
        cases.len()
    );
    for (number, case) in cases.iter().enumerate() {
        if html.len() > MOST_BYTES - 50_000 {
            let left = cases.len() - number;
            let _ = write!(html, "<tr><td colspan=\"5\">{left} more cases are in results.csv</tr>");
            break;
        }
        row(html, case);
    }
    html.push_str("</table></details>");
}

fn row(html: &mut String, case: &CaseResult) {
    for figure in &case.figures {
        let e = figure.estimate;
        let interval = if e.half().is_finite() {
            format!("{:.4} to {:.4}", e.low, e.high)
        } else {
            "not known".to_owned()
        };
        let _ = write!(
            html,
            "<tr><td>{}<td>{}<td class=\"n\">{:.4}<td class=\"n\">{interval}<td>{}</tr>",
            markup(&case.id),
            markup(&figure.name),
            e.value,
            figure.unit
        );
    }
    if let Some(reason) = &case.reason {
        let kind = if case.status == Status::NotAvailable { "" } else { " class=\"bad\"" };
        let _ = write!(
            html,
            "<tr{kind}><td>{}<td colspan=\"4\">{}</tr>",
            markup(&case.id),
            markup(reason)
        );
    }
}
