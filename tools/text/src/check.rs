//! Findings as text for people. Refuses to choose which are shown.

use crate::table::time;
use clscope_check::{Document, EndedInside, Finding, Rule, Severity};
use clscope_io::text::{Page, count};
use std::fmt::Write as _;

/// All findings, the worst first, each with its rule and remedy, and what could not be judged.
pub fn render(of: &Document) -> String {
    let mut out = Page::default();
    for text in &of.changed {
        put!(out, "changed: {text}");
    }
    // Threads of a process that were in the same call share a line.
    let mut ended: Vec<(&EndedInside, u64)> = Vec::new();
    for call in &of.ended_inside {
        match ended.iter_mut().find(|(same, _)| *same == call) {
            Some((_, threads)) => *threads += 1,
            None => ended.push((call, 1)),
        }
    }
    for (call, threads) in ended {
        let several = match threads {
            1 => String::new(),
            _ => format!(" in {threads} threads"),
        };
        put!(
            out,
            "{} died or was ended inside {}{several}: what came after was not judged",
            call.process,
            call.function
        );
        if let Some(place) = &call.place {
            put!(out, "    at {place}");
        }
    }
    let number = |severity, one: &str, many: &str| count(of.count(severity) as u64, one, many);
    put!(
        out,
        "{}, {}, {} about time{}; {} rules",
        number(Severity::Error, "error", "errors"),
        number(Severity::Warning, "warning", "warnings"),
        number(Severity::Performance, "finding", "findings"),
        if of.ended_inside.is_empty() { "" } else { " up to there" },
        Rule::ALL.len()
    );
    let several =
        of.findings.iter().any(|f| of.findings.first().is_some_and(|g| g.process != f.process));
    let mut before = None;
    for finding in &of.findings {
        if before != Some(finding.rule) {
            put!(out, "\n{} {}: {}", word(finding.severity), finding.rule, finding.title);
            put!(out, "    specification: {}", finding.specification);
            put!(out, "    remedy: {}", finding.remedy);
        }
        before = Some(finding.rule);
        write_finding(&mut out, finding, several);
    }
    for note in &of.notes {
        put!(out, "\nnot judged: {note}");
    }
    out.into_string()
}

fn word(of: Severity) -> &'static str {
    match of {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Performance => "time",
    }
}

fn write_finding(out: &mut Page, of: &Finding, several: bool) {
    let times = count(of.count, "time", "times");
    let lost = match of.lost_ns {
        Some(ns) => format!(", {} of host time", time(ns as f64)),
        None if of.severity == Severity::Performance => ", cost not known".to_owned(),
        None => String::new(),
    };
    let process = if several { format!("{}: ", of.process) } else { String::new() };
    put!(out, "  {process}{} ({times}{lost})", of.text);
    if let Some(place) = &of.place {
        put!(out, "    at {place}");
    }
    if let Some(place) = &of.other_place {
        put!(out, "    and {place}");
    }
    if !of.subjects.is_empty() {
        let more = of.count.saturating_sub(of.subjects.len() as u64);
        let more = if more > 0 { ", ..." } else { "" };
        put!(out, "    on {}{more}", of.subjects.join(", "));
    }
}
