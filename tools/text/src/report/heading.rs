//! The lines above the report's tables: what was recorded, on what, and how.

use crate::table::{bytes, percent, time, time_or_dash, wrapped};
use clscope_io::shorten;
use clscope_io::text::{Page, count};
use clscope_profile::captures::Captures;
use clscope_profile::report::data::Report;
use clscope_trace::directory::CAPTURES;
use std::fmt::Write;

pub(super) fn heading(report: &Report, width: usize) -> Page {
    // An argument or a device may have a name of megabytes: JSON has it whole.
    let width = width.min(shorten::PROSE);
    // A command may be very long, and its ends say most; all else is read to its end.
    let short = |out: &mut Page, name: &str, text: &str| {
        let text = shorten::middle(text, width.saturating_sub(12));
        put!(out, "  {name:<9} {text}");
    };
    let line = |out: &mut Page, name: &str, text: &str| {
        let text = wrapped(&shorten::middle(text, shorten::PROSE), width.saturating_sub(12));
        for (name, text) in std::iter::once(name).chain(std::iter::repeat("")).zip(text.lines()) {
            put!(out, "  {name:<9} {text}");
        }
    };
    let mut out = Page::default();
    let traces = shorten::middle(&report.traces.join(", "), width.saturating_sub(18));
    put!(out, "clscope report of {traces}");
    // Before any figure, and in full.
    for text in report.changes.iter().flat_map(clscope_profile::changes::Changes::lines) {
        put!(out, "  {:<9} {text}", "changed");
    }
    for process in report.processes.iter().take(4) {
        let arguments = match (process.arguments.is_empty(), process.executable.is_empty()) {
            (true, true) => "unknown".to_owned(),
            (true, false) => process.executable.clone(),
            (false, _) => process.arguments.join(" "),
        };
        let rank = process.mpi_rank.map_or_else(String::new, |r| format!(", rank {r}"));
        short(&mut out, "command", &format!("{arguments} (pid {}{rank})", process.pid));
    }
    if report.processes.len() > 4 {
        line(
            &mut out,
            "",
            &format!(
                "and {}",
                count(report.processes.len() as u64 - 4, "more process", "more processes")
            ),
        );
    }
    if let Some(text) = report.running() {
        line(&mut out, "running", &text);
    }
    let hosts: Vec<String> = report
        .hosts
        .iter()
        .map(|h| match (h.name.is_empty(), h.bound_ns) {
            (true, _) => "unknown".to_owned(),
            (false, None) => format!("{} (not placed)", h.name),
            (false, Some(0)) => h.name.clone(),
            (false, Some(bound)) => format!("{} (placed within {})", h.name, time(bound as f64)),
        })
        .collect();
    if !hosts.is_empty() {
        line(&mut out, if hosts.len() == 1 { "host" } else { "hosts" }, &hosts.join(", "));
    }
    let threads: usize = report.processes.iter().map(|p| p.threads).sum();
    let length = time_or_dash(report.duration_ns.map(|d| d as f64));
    let (calls, commands) = (
        count(report.totals.calls, "call", "calls"),
        count(report.totals.commands, "command", "commands"),
    );
    line(
        &mut out,
        "recorded",
        &format!(
            "{length}, {}, {calls}, {commands}, {} timed",
            count(threads as u64, "thread", "threads"),
            report.totals.timed
        ),
    );
    let partial = is_partial(report);
    if partial {
        line(
            &mut out,
            "",
            "records are missing: counts and totals are of what is there, see the warnings",
        );
    }
    if let Some(share) = report.recording.of_wall {
        let share = if share < 0.0005 {
            "less than 0.1%".to_owned()
        } else {
            format!("about {}", percent(Some(share)))
        };
        // Counts of records do not show what timing costs inside the runtime.
        let copies = report.captures.as_ref().map_or("", |_| " and that of copies");
        let text = format!(
            "recording calls took {share} of that, the runtime's part{copies} aside (see `clscope overhead`)"
        );
        line(&mut out, "", &text);
    }
    if let Some(repeated) = report.repeated_ns {
        let text = format!(
            "{} of the run in repetitions (--replay), which are no part of shares, gaps and waits",
            time(repeated as f64)
        );
        line(&mut out, "", &text);
    }
    if let Some(captures) = &report.captures {
        captured(captures, |name, text| line(&mut out, name, text));
    }
    let names: Vec<&str> = report.devices.iter().map(|device| device.name.as_str()).collect();
    for (at, device) in report.devices.iter().enumerate().take(4) {
        let extent = device.extent_ns;
        let without = report.repeated_ns.map_or("", |_| " without repetitions");
        let busy = match (device.busy(), &device.busy_share, report.own_ns()) {
            (Some(busy), Some(share), Some(wall)) => {
                format!(
                    "busy {mark}{}, {mark}{} of the {} recorded{without}",
                    busy.in_words(time),
                    percent(Some(share.value)),
                    time(wall as f64),
                    mark = if busy.estimated { "~" } else { "" },
                )
            }
            _ if extent == 0 => "no command has a device time".to_owned(),
            _ => format!("in use for {}{without}", time(extent as f64)),
        };
        let process = report.processes.iter().find(|p| p.label == device.process);
        // The same device has a line for each process that used it.
        let pid = process
            .filter(|_| report.processes.len() > 1)
            .map_or_else(String::new, |p| format!(", pid {}", p.pid));
        let units = match device.compute_units {
            None => String::new(),
            Some(n) => format!(", {}", count(u64::from(n), "compute unit", "compute units")),
        };
        let about = format!("{}{units}{pid}", device.driver);
        // The name stays one that no other device has.
        let name = shorten::distinct(&names, width.saturating_sub(14)).swap_remove(at);
        line(&mut out, "device", &format!("{name} ({about}): {busy}"));
        let bound = &device.clock_bound_ns;
        if device.busy_without > 0 {
            let n = count(device.busy_without, "command", "commands");
            line(&mut out, "", &format!("busy time is without {n} of kinds never timed"));
        }
        if let Some(why) = &device.busy_absent {
            line(&mut out, "", &format!("busy time is not known: {why}"));
        }
        if let Some(idle) = device.idle_ns.filter(|_| extent > 0) {
            let (extent, idle) = (time(extent as f64), time(idle as f64));
            line(
                &mut out,
                "",
                &format!("from its first command to its last {extent}{without}, idle {idle}"),
            );
        }
        let timing = process.map_or("", |p| p.device_timing.as_str());
        let steps = if device.clock_steps > 0 {
            format!(", {}", count(device.clock_steps, "step", "steps"))
        } else {
            String::new()
        };
        let text = format!(
            "timing {timing}; clock bound {} median, {} at most{steps}",
            time_or_dash(bound.median),
            time_or_dash(bound.max.map(|m| m as f64))
        );
        line(&mut out, "", &text);
        if let Some(bias) = &device.span_bias_ns {
            let bias = bias.with_ends(time);
            let text =
                format!("span bias {bias} is in every span; only \"corrected\" is without it");
            line(&mut out, "", &text);
        }
    }
    if report.devices.len() > 4 {
        line(
            &mut out,
            "",
            &format!(
                "and {}",
                count(report.devices.len() as u64 - 4, "more device", "more devices")
            ),
        );
    }
    if let Some(sampling) = &report.sampling {
        let budget =
            sampling.budget_percent.map_or_else(String::new, |b| format!(" (budget {b} %)"));
        let part = percent(Some(sampling.timed as f64 / sampling.launches.max(1) as f64));
        let text = format!(
            "{} of {} launches timed ({part}), by chance, to keep the cost low{budget}",
            sampling.timed, sampling.launches
        );
        line(&mut out, "sampled", &text);
        let exact = if partial { "" } else { "; counts are exact" };
        line(
            &mut out,
            "",
            &format!("~ marks estimates for all launches, +- their 95 % interval{exact}"),
        );
        let longer = report.kernels.iter().filter_map(|kernel| {
            let estimate = kernel.estimate.as_ref()?;
            let (more, mean) = (estimate.timing_adds_ns?, estimate.mean_ns?.value);
            (more >= NAMED * mean).then(|| format!("{} {}", kernel.name, time(more)))
        });
        let longer: Vec<String> = longer.take(LONGER).collect();
        if !longer.is_empty() {
            let text = format!(
                "timed launches are longer than those left out, by what the queues had time for: {}",
                longer.join(", ")
            );
            line(&mut out, "", &text);
        }
    }
    out
}

/// Kernels that are named where timing makes launches longer, and the share of a launch from which on
/// they are.
const LONGER: usize = 3;
const NAMED: f64 = 0.02;

/// Reasons that are given.
const REASONS: usize = 4;

/// What became of launches that were to be captured.
fn captured(captures: &Captures, mut line: impl FnMut(&str, &str)) {
    if let Some(first) = captures.captured.first() {
        let number = captures.captured.len() as u64;
        let text = format!(
            "{} ({}); times of launches hold nothing of that, idle and waiting times do",
            count(number, "launch is kept whole", "launches are kept whole"),
            bytes(captures.bytes())
        );
        line("captured", &text);
        line("", &format!("clscope kernel TRACE/{CAPTURES}/{} runs one again", first.folder));
    }
    let refused = captures.refusals(str::to_owned);
    for (text, reason) in refused.iter().take(REASONS) {
        line("", &format!("not captured: {text}: {reason}"));
    }
    if let more @ 1.. = refused.len().saturating_sub(REASONS) {
        line("", &format!("not captured: {more} more reasons (--format json)"));
    }
    for text in captures.unmet.iter().take(4) {
        line("", &format!("not captured: {text}"));
    }
}

/// Findings that say that records are missing.
const PARTIAL: [&str; 8] = [
    "dropped-records",
    "missing-blocks",
    "torn-blocks",
    "skipped-bytes",
    "damaged-ring",
    "damaged-blocks",
    "oldest-part-rotated",
    "unreadable-file",
];

/// Whether counts and totals are of a part of what happened.
fn is_partial(report: &Report) -> bool {
    report.issues.iter().any(|issue| PARTIAL.contains(&issue.code.as_str()))
}
