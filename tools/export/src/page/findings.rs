//! Owns the notes: what stands out of a report beside the answer (joules, times that are missing,
//! failures), what helps, and a link to the section that shows it. Every figure is the report's, or
//! a sum or a share of its figures; an estimate has its interval. Refuses to read the trace.

use super::html::{Html, joules, time};
use super::tables::{count, format_interval, percent};
use clscope_profile::interval::Interval;
use clscope_profile::report::Report;
use clscope_profile::report::data::{Commands, Finding};
use std::collections::{BTreeMap, BTreeSet};

/// Issues that are listed.
const ISSUES: usize = 100;
/// Part of a device's joules from which on a kernel stands out.
const MUCH: f64 = 0.2;
/// Part from which on other things do.
const SOME: f64 = 0.1;
/// One of them.
struct Said {
    /// Of CSS.
    class: &'static str,
    text: String,
    /// What helps.
    remedy: Option<String>,
    /// Section, by its id and its heading.
    to: (&'static str, &'static str),
}

const KERNELS: (&str, &str) = ("kernels", "Kernels");
const ENERGY: (&str, &str) = ("energy", "Energy");
const CALLS: (&str, &str) = ("functions", "API calls");
const RECORDING: (&str, &str) = ("recording", "Recording");

/// Writes them.
pub fn findings(page: &mut Html, report: &Report) {
    let mut said = Vec::new();
    energy(report, &mut said);
    timing(report, &mut said);
    failures(report, &mut said);
    page.raw("<section id=\"findings\"><h2>Notes</h2>\n<ul class=\"findings\">\n");
    for Said { class, text, remedy, to: (id, heading) } in &said {
        page.raw("<li class=\"").raw(class).raw("\">").prose(text);
        if let Some(remedy) = remedy {
            page.raw(" <span class=\"soft\">What helps: ").prose(remedy).raw(".</span>");
        }
        page.raw(" <a href=\"#").raw(id).raw("\">").raw(heading).raw("</a></li>\n");
    }
    if said.is_empty() {
        page.raw("<li>Nothing stands out.</li>");
    }
    page.raw("</ul></section>\n");
}

fn say(
    out: &mut Vec<Said>,
    class: &'static str,
    remedy: Option<String>,
    to: (&'static str, &'static str),
    text: String,
) {
    out.push(Said { class, text, remedy, to });
}

/// Where joules went, and which cannot be told apart.
fn energy(report: &Report, out: &mut Vec<Said>) {
    for device in report.energy.iter().flat_map(|e| &e.devices) {
        let Some(all) = device.own_joules().filter(|j| j.value > 0.0) else { continue };
        let all = all.value;
        let part = device.in_window();
        let known = device.classes.iter().filter_map(|c| Some((c, c.joules.as_ref()?)));
        let most = known.max_by(|a, b| a.1.value.total_cmp(&b.1.value));
        if let Some((class, of)) = most.filter(|(_, of)| of.value > MUCH * all) {
            let watts = class.watts.map_or_else(String::new, |w| {
                format!(", at {} while it ran", format_interval(&w, |w| format!("{w:.1} W")))
            });
            say(
                out,
                "",
                None,
                ENERGY,
                format!(
                    "{} took {}, {} of the {} measured on {}{part}{watts}.",
                    class.name,
                    format_interval(of, joules),
                    percent(of.value / all),
                    joules(all),
                    device.device
                ),
            );
        }
        let gaps = device.gaps.as_ref().and_then(|gaps| Some((gaps.seconds, gaps.joules?)));
        if let Some((seconds, spent)) = gaps.filter(|(_, spent)| spent.value > SOME * all) {
            let floor = device.floors.iter().find(|f| f.state == 0).and_then(|f| f.watts);
            let is_all = |w: &Interval| w.covers(spent.value / seconds);
            // Another idle state is in it where idle power is not all that gaps took.
            let floor = floor.filter(is_all).map_or_else(String::new, |w| {
                format!(", at an idle power of {}", format_interval(&w, |w| format!("{w:.1} W")))
            });
            let took = format_interval(&spent, joules);
            say(
                out,
                "",
                Some("enqueue ahead: a shorter run needs less idle energy".to_owned()),
                ENERGY,
                format!(
                    "Gaps between launches took {took} in {}, {} of the {} measured on {}{part}{floor}.",
                    time(seconds * 1e9),
                    percent(spent.value / all),
                    joules(all),
                    device.device
                ),
            );
        }
        for group in device.groups.iter().filter(|g| g.names.len() > 1) {
            say(
                out,
                "warning",
                device.next.clone(),
                ENERGY,
                format!(
                    "The joules of {} are known as a sum only, {}{part}: they always ran in the same proportion.",
                    group.names.join(", "),
                    format_interval(&group.joules, joules)
                ),
            );
        }
    }
}

/// The recorder's reasons to sample: they are part of what is said of sampling.
fn sampled_issues(report: &Report) -> impl Iterator<Item = &Finding> {
    let issues = report.issues.iter().filter(|_| report.sampling.is_some());
    issues.filter(|i| i.code == "sampled-timing")
}

/// Which commands have a device time, and which times are estimates.
fn timing(report: &Report, out: &mut Vec<Said>) {
    if let Some(sampling) = &report.sampling {
        let cpu = match sampling.on_cpu_device {
            true => {
                " On a processor few launches that are preempted may take most of the time: intervals may be too narrow."
            }
            false => "",
        };
        let why: BTreeSet<&str> = sampled_issues(report).map(|i| i.text.as_str()).collect();
        let why: String = why.iter().map(|why| format!(" Why: {why}.")).collect();
        let text = format!(
            "A random part of the commands was timed, {} of {} launches; totals are estimates, and why devices were idle is not known.{cpu}{why}",
            count(sampling.timed as f64),
            count(sampling.launches as f64)
        );
        let class = if why.is_empty() { "" } else { "warning" };
        let every = "`record --device-timing event` times all".to_owned();
        say(out, class, Some(every), KERNELS, text);
    }
    let rows = report.kernels.iter().chain(&report.transfers).chain(&report.other_commands);
    if report.kernels.iter().all(|k| k.time_ns.count == 0) && !report.kernels.is_empty() {
        let text = "No launch has a device time: what kernels took is not known.".to_owned();
        say(out, "warning", None, RECORDING, text);
        return;
    }
    let untimed: u64 = rows.map(Commands::lacking).sum();
    if untimed > 0 {
        let text = format!(
            "{} of {} commands {} no device time, and sampling is not why: the notes on the recording say more.",
            count(untimed as f64),
            count(report.totals.commands as f64),
            if untimed == 1 { "has" } else { "have" }
        );
        say(out, "warning", None, RECORDING, text);
    }
}

/// Calls that failed, and what the reader of the trace found.
fn failures(report: &Report, out: &mut Vec<Said>) {
    if report.totals.errors > 0 {
        let failed = report.functions.iter().flat_map(|f| f.failures());
        let (n, s) = (report.totals.errors, if report.totals.errors == 1 { "" } else { "s" });
        say(
            out,
            "warning",
            Some("`clscope check` names the rule of each".to_owned()),
            CALLS,
            format!(
                "{} API call{s} failed: {}.",
                count(n as f64),
                failed.take(5).collect::<Vec<_>>().join(", ")
            ),
        );
    }
    let mut said: BTreeMap<(&str, &str), (&Finding, usize)> = BTreeMap::new();
    let told = |i: &&Finding| sampled_issues(report).any(|of| std::ptr::eq(of, *i));
    for issue in report.issues.iter().filter(|i| i.severity != "note" && !told(i)) {
        said.entry((&issue.code, &issue.text)).or_insert((issue, 0)).1 += 1;
    }
    for (issue, n) in said.values().take(ISSUES) {
        let others = if *n > 1 { format!(" (and {} more)", n - 1) } else { String::new() };
        say(
            out,
            if issue.severity == "error" { "error" } else { "warning" },
            issue.remedy.map(str::to_owned),
            RECORDING,
            format!("{}{others}: {}.", issue.subject, issue.text),
        );
    }
}
