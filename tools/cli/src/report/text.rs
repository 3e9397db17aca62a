//! Owns the report for people: a heading, then one table per section that has something to say.

use super::data::{Commands, Function, Report, Summary};
use super::table::{Table, bytes, percent, shorten, time, time_or_dash};
use super::{Section, Shown};
use std::fmt::Write;

/// The report's text.
pub fn render(report: &Report, shown: &Shown) -> String {
    let mut out = heading(report, shown.width);
    for section in &shown.sections {
        match section {
            Section::Kernels => kernels(report, shown, &mut out),
            Section::Energy => {
                if let Some(energy) = &report.energy {
                    super::energy::render(energy, shown, &mut out);
                }
            }
            Section::Transfers => transfers(report, shown, &mut out),
            Section::Queues => queues(report, shown, &mut out),
            Section::Idle => idle(report, shown, &mut out),
            Section::Functions => functions(report, shown, &mut out),
        }
    }
    out
}

fn plural(n: u64, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

fn heading(report: &Report, width: usize) -> String {
    let line = |out: &mut String, name: &str, text: &str| {
        let _ = writeln!(out, "  {name:<9} {}", shorten(text, width.saturating_sub(12)));
    };
    let mut out = format!("clscope report of {}\n", shorten(&report.traces.join(", "), width.saturating_sub(18)));
    for process in report.processes.iter().take(4) {
        let arguments = if process.arguments.is_empty() { process.executable.clone() } else { process.arguments.join(" ") };
        let rank = process.mpi_rank.map_or_else(String::new, |r| format!(", rank {r}"));
        line(&mut out, "command", &format!("{arguments} (pid {}{rank})", process.pid));
    }
    if report.processes.len() > 4 {
        line(&mut out, "", &format!("and {} more", plural(report.processes.len() as u64 - 4, "process").replace("processs", "processes")));
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
    line(&mut out, if hosts.len() == 1 { "host" } else { "hosts" }, &hosts.join(", "));
    let threads: usize = report.processes.iter().map(|p| p.threads).sum();
    let length = time_or_dash(report.duration_ns.map(|d| d as f64));
    let (calls, commands) = (plural(report.totals.calls, "call"), plural(report.totals.commands, "command"));
    line(
        &mut out,
        "recorded",
        &format!("{length}, {}, {calls}, {commands}, {} timed", plural(threads as u64, "thread"), report.totals.timed),
    );
    for device in report.devices.iter().take(4) {
        let extent = device.busy_ns + device.idle_ns;
        let busy = percent((extent > 0).then(|| device.busy_ns as f64 / extent as f64));
        line(&mut out, "device", &format!("{} ({}): busy {busy} of {}", device.name, device.driver, time(extent as f64)));
        let bound = &device.clock_bound_ns;
        let timing = report.processes.iter().find(|p| p.label == device.process).map_or("", |p| p.device_timing.as_str());
        let steps = if device.clock_steps > 0 { format!(", {}", plural(device.clock_steps, "step")) } else { String::new() };
        let text = format!(
            "timing {timing}; clock bound {} median, {} at most{steps}",
            time_or_dash(bound.median),
            time_or_dash(bound.max.map(|m| m as f64))
        );
        line(&mut out, "", &text);
    }
    if report.devices.len() > 4 {
        line(&mut out, "", &format!("and {}", plural(report.devices.len() as u64 - 4, "more device")));
    }
    out
}

/// Share and total, unknown where nothing was timed.
fn sum(share: Option<f64>, s: &Summary) -> [String; 2] {
    if s.count == 0 { ["-".to_owned(), "-".to_owned()] } else { [percent(share), time(s.total as f64)] }
}

/// Mean, median, p95, least and most of a distribution, as cells.
fn spread(s: &Summary) -> [String; 5] {
    [
        time_or_dash(s.mean),
        time_or_dash(s.median),
        time_or_dash(s.p95),
        time_or_dash(s.min.map(|x| x as f64)),
        time_or_dash(s.max.map(|x| x as f64)),
    ]
}

fn more(out: &mut String, hidden: usize) {
    if hidden > 0 {
        let _ = writeln!(out, "  and {hidden} more: --limit 0 shows all");
    }
}

fn kernels(report: &Report, shown: &Shown, out: &mut String) {
    let rows: Vec<&Commands> = report.kernels.iter().filter(|k| shown.matches(&k.name)).collect();
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "\nKernels by device time: {} in {}",
        plural(rows.iter().map(|k| k.count).sum(), "launch").replace("launchs", "launches"),
        time(report.totals.kernel_ns as f64)
    );
    let several = report.kernels.iter().any(|k| k.device != report.kernels[0].device);
    let untimed = rows.iter().any(|k| k.untimed > 0);
    let mut titles = vec!["share", "total", "launches"];
    if untimed {
        titles.push("untimed");
    }
    titles.extend(["mean", "median", "p95", "min", "max", "kernel"]);
    let mut table = Table::new(&titles);
    let limit = shown.limit(rows.len());
    for k in &rows[..limit] {
        let mut cells = sum(k.share, &k.time_ns).to_vec();
        cells.push(k.count.to_string());
        if untimed {
            cells.push(k.untimed.to_string());
        }
        cells.extend(spread(&k.time_ns));
        cells.push(match &k.device {
            Some(device) if several => format!("{} on {device}", k.name),
            _ => k.name.clone(),
        });
        table.row(cells);
    }
    out.push_str(&table.render(shown.width));
    more(out, rows.len() - limit);
}

/// The direction as other tools abbreviate it.
fn short_direction(direction: &'static str) -> &'static str {
    match direction {
        "host to device" => " (HtoD)",
        "device to host" => " (DtoH)",
        "device to device" => " (DtoD)",
        _ => "",
    }
}

fn transfers(report: &Report, shown: &Shown, out: &mut String) {
    if !report.transfers.is_empty() {
        let total: u64 = report.transfers.iter().map(|t| t.bytes).sum();
        let _ = writeln!(out, "\nTransfers: {} in {}", bytes(total), time(report.totals.transfer_ns as f64));
        let mut table = Table::new(&["share", "total", "count", "bytes", "GB/s", "mean", "median", "p95", "max", "transfer"]);
        for t in &report.transfers {
            let [mean, median, p95, _, max] = spread(&t.time_ns);
            let rate = t.gigabytes_per_second.map_or_else(|| "-".to_owned(), |r| format!("{r:.2}"));
            let name = format!("{}{}", t.name, t.direction.map_or("", short_direction));
            let [share, total] = sum(t.share, &t.time_ns);
            table.row(vec![share, total, t.count.to_string(), bytes(t.bytes), rate, mean, median, p95, max, name]);
        }
        out.push_str(&table.render(shown.width));
    }
    if !report.other_commands.is_empty() {
        out.push_str("\nOther commands\n");
        let mut table = Table::new(&["share", "total", "count", "mean", "median", "p95", "min", "max", "command"]);
        let limit = shown.limit(report.other_commands.len());
        for c in &report.other_commands[..limit] {
            let mut cells = sum(c.share, &c.time_ns).to_vec();
            cells.push(c.count.to_string());
            cells.extend(spread(&c.time_ns));
            cells.push(c.name.clone());
            table.row(cells);
        }
        out.push_str(&table.render(shown.width));
    }
}

fn queues(report: &Report, shown: &Shown, out: &mut String) {
    if report.queues.is_empty() {
        return;
    }
    let several = report.queues.iter().any(|q| q.device != report.queues[0].device);
    out.push_str("\nQueues (medians; idle between first and last command)\n");
    let mut table = Table::new(&["commands", "busy", "idle", "gaps", "gap", "queued", "submitted", "runs", "noticed", "queue"]);
    let limit = shown.limit(report.queues.len());
    for q in &report.queues[..limit] {
        let order = if q.out_of_order { ", out of order" } else { "" };
        let pid = report.processes.iter().find(|p| p.label == q.process).filter(|_| report.processes.len() > 1);
        let pid = pid.map_or_else(String::new, |p| format!(", pid {}", p.pid));
        let untimed = q.execution_ns.count == 0;
        let known = |ns: u64| if untimed { "-".to_owned() } else { time(ns as f64) };
        table.row(vec![
            q.commands.to_string(),
            known(q.busy_ns),
            known(q.idle_ns),
            q.gaps_ns.count.to_string(),
            time_or_dash(q.gaps_ns.median),
            time_or_dash(q.queue_wait_ns.median),
            time_or_dash(q.submit_wait_ns.median),
            time_or_dash(q.execution_ns.median),
            time_or_dash(q.notice_ns.median),
            if several { format!("{} on {}{order}{pid}", q.id, q.device) } else { format!("{}{order}{pid}", q.id) },
        ]);
    }
    out.push_str(&table.render(shown.width));
    more(out, report.queues.len() - limit);
}

fn idle(report: &Report, shown: &Shown, out: &mut String) {
    let total: u64 = report.idle.iter().map(|i| i.ns).sum();
    if total == 0 {
        return;
    }
    let _ = writeln!(out, "\nWhy devices were idle between commands: {}", time(total as f64));
    let mut table = Table::new(&["share", "idle", "before the next command began"]);
    for i in report.idle.iter().take(8) {
        table.row(vec![percent(i.share), time(i.ns as f64), i.cause.clone()]);
    }
    out.push_str(&table.render(shown.width));
    let waited: u128 = report.waits.iter().map(|w| w.time_ns.total).sum();
    if waited > 0 {
        let names: Vec<String> = report.waits.iter().take(3).map(|w| format!("{} {}", w.name, time(w.time_ns.total as f64))).collect();
        let _ = writeln!(out, "  The host waited for devices for {}: {}", time(waited as f64), names.join(", "));
    }
}

fn functions(report: &Report, shown: &Shown, out: &mut String) {
    let rows: Vec<&Function> = report.functions.iter().filter(|f| shown.matches(&f.name)).collect();
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(out, "\nAPI calls by host time: {} in {}", plural(report.totals.calls, "call"), time(report.totals.call_ns as f64));
    let errors = rows.iter().any(|f| f.errors > 0);
    let mut titles = vec!["share", "total", "calls"];
    if errors {
        titles.push("errors");
    }
    titles.extend(["mean", "median", "p95", "min", "max", "function"]);
    let mut table = Table::new(&titles);
    let limit = shown.limit(rows.len());
    for f in &rows[..limit] {
        let mut cells = vec![percent(f.share), time(f.time_ns.total as f64), f.calls.to_string()];
        if errors {
            cells.push(f.errors.to_string());
        }
        cells.extend(spread(&f.time_ns));
        cells.push(f.name.clone());
        table.row(cells);
    }
    out.push_str(&table.render(shown.width));
    more(out, rows.len() - limit);
    let failed: Vec<String> = rows
        .iter()
        .flat_map(|f| f.error_codes.iter().map(|(code, n)| format!("{} {} ({})", f.name, error(*code), plural(*n, "time"))))
        .collect();
    if !failed.is_empty() {
        let shortened = if failed.len() > 6 { format!(", and {} more: see --format json", failed.len() - 6) } else { String::new() };
        let _ = writeln!(out, "  Errors: {}{shortened}", failed[..failed.len().min(6)].join(", "));
    }
}

/// An error code as the application got it.
fn error(code: i32) -> String {
    if code == clscope_trace::record::RESULT_UNKNOWN { "without a code".to_owned() } else { code.to_string() }
}
