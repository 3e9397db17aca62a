//! Owns the head of the page: why the run takes its time, with a bar for each cause, and what to do.
//! Every word and figure is the answer's. Refuses to add causes of its own.

use super::html::{Html, time};
use clscope_profile::answer::data::{Answer, Cause, EACH_BELOW, NONE, words_with};

/// Causes with a line of their own.
const CAUSES: usize = 10;
/// Causes that the line of all others names.
const NAMED: usize = 3;

/// Writes them.
pub fn answer(page: &mut Html, answer: &Answer, traces: &[String]) {
    let Some(wall) = answer.run.wall_ns else { return };
    page.raw("<section id=\"why\"><h2>Why it takes ")
        .put(time(wall))
        .put(match answer.run.wall_processes {
            0 | 1 => String::new(),
            n => format!(" in {n} processes"),
        })
        .raw("</h2>\n<table class=\"why\"><tbody>\n");
    let (first, rest) = answer.first_causes(CAUSES);
    for cause in first {
        line(page, cause.share, cause.estimated);
        page.name(&cause.text);
        if let Some(more) = &cause.more {
            page.raw(": <span class=\"soft\">").name(more).raw("</span>");
        }
        page.raw("</td></tr>\n");
    }
    if let Some((share, others)) = rest.filter(|(share, _)| *share >= NONE) {
        line(page, share, others.iter().any(|cause| cause.estimated));
        page.raw("other: ").name(&name_others(&others, NAMED)).raw("</td></tr>\n");
    }
    page.raw("</tbody></table>\n");
    if !answer.advice.is_empty() {
        page.raw("<h3>What to do</h3>\n<ol class=\"advice\">\n");
        for advice in &answer.advice {
            page.raw("<li>").name(&advice.text);
            if let Some(gain) = advice.gain {
                page.raw(" <b>-").put(percent(gain)).raw("</b> at most");
            }
            if let Some(words) = advice.command.as_ref().and_then(|of| words_with(traces, of)) {
                page.raw(" <code>").name(&words.join(" ")).raw("</code>");
            }
            page.raw("</li>\n");
        }
        page.raw("</ol>\n");
    }
    if !answer.patterns.is_empty() {
        page.raw("<h3>What the application repeats</h3>\n<ul>\n");
        for pattern in &answer.patterns {
            page.raw("<li>").name(&pattern.text);
            if let Some(ns) = pattern.time_ns {
                page.raw(" <span class=\"soft\">").put(time(ns)).raw(" in the calls</span>");
            }
            page.raw("</li>\n");
        }
        page.raw("</ul>\n");
    }
    page.raw("</section>\n");
}

/// The beginning of a line: share, and a bar.
fn line(page: &mut Html, share: f64, estimated: bool) {
    page.raw("<tr><td class=\"n\" data-v=\"")
        .put(share)
        .raw("\">")
        .raw(if estimated { "~" } else { "" })
        .put(percent(share))
        .raw("</td><td><meter min=\"0\" max=\"1\" value=\"")
        .put(format!("{share:.4}"))
        .raw("\" aria-label=\"share of the wall time\"></meter></td><td>");
}

/// The largest of the causes that have no line of their own, with their shares.
fn name_others(others: &[&Cause], most: usize) -> String {
    let each = others.iter().take(most);
    let each = each.map(|of| format!("{} {}", of.in_few_words(str::to_owned), percent(of.share)));
    if others.is_empty() {
        return EACH_BELOW.to_owned();
    }
    let more = if others.len() > most { ", ..." } else { "" };
    format!("{}{more}", each.collect::<Vec<_>>().join(", "))
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}
