//! Owns the page's tables and findings. A cell shows a figure for people and holds the exact one,
//! which is the JSON's. Refuses to compute figures.
#![forbid(unsafe_code)]

use super::details::{Details, Key, Sum};
use super::executed::Known;
use super::html::{Html, joules, time};
use super::{OPEN, ROWS, charts, rate, size};
use clscope_profile::counters::result::Column;
use clscope_profile::energy::result::DeviceEnergy;
use clscope_profile::interval::Interval;
use clscope_profile::report::Report;
use clscope_profile::report::data::{Commands, Finding, Function};
use std::collections::BTreeMap;

/// Issues that are listed.
const ISSUES: usize = 100;

/// A table of these columns; those that end in `#` hold figures. `cells` writes those of a row.
pub(super) fn table<T>(
    page: &mut Html,
    columns: &[&'static str],
    rows: impl IntoIterator<Item = T>,
    mut cells: impl FnMut(&mut Html, T),
) {
    page.raw("<div class=\"wide\"><table class=\"sort\"><thead><tr>");
    for column in columns {
        match column.strip_suffix('#') {
            Some(figure) => page.raw("<th class=\"n\">").raw(figure).raw("</th>"),
            None => page.raw("<th>").raw(column).raw("</th>"),
        };
    }
    page.raw("</tr></thead><tbody>\n");
    for row in rows {
        page.raw("<tr>");
        cells(page, row);
        page.raw("</tr>\n");
    }
    page.raw("</tbody></table></div>\n");
}

/// A cell with a figure, and the exact one behind it; nothing where it is not known.
pub(super) fn figure(page: &mut Html, exact: Option<f64>, shown: impl FnOnce(f64) -> String) {
    match exact {
        Some(x) => page.raw("<td class=\"n\" data-v=\"").put(x).raw("\">").put(shown(x)),
        None => page.raw("<td class=\"n\" data-v=\"\">-"),
    };
    page.raw("</td>");
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

pub(super) fn count(n: f64) -> String {
    let digits = format!("{n:.0}");
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            out.push(' ');
        }
        out.push(c);
    }
    out
}

fn more(page: &mut Html, all: usize) {
    if all > ROWS {
        page.raw("<p class=\"soft\">And ")
            .put(all - ROWS)
            .raw(" more: <code>clscope report --limit 0</code> shows them.</p>\n");
    }
}

/// An interval of a figure, below it: side by side they would make tables wider than the page.
fn interval(page: &mut Html, of: Option<&Interval>, shown: impl Fn(f64) -> String) {
    let Some(i) = of.filter(|i| i.low.is_finite() && i.high.is_finite() && i.estimated) else {
        return figure(page, of.map(|i| i.value), shown);
    };
    page.raw("<td class=\"n\" data-v=\"").put(i.value).raw("\">").put(shown(i.value));
    page.raw(" <small>[").put(shown(i.low)).raw(" to ").put(shown(i.high)).raw("]</small></td>");
}

/// In plain words what stands out, with links.
pub fn findings(page: &mut Html, report: &Report) {
    page.raw("<section id=\"findings\"><h2>Findings</h2>\n<ul class=\"findings\">\n");
    let mut any = false;
    let mut say = |page: &mut Html, class: &'static str, text: &str, to: &'static str| {
        any = true;
        page.raw("<li class=\"").raw(class).raw("\">").put(text);
        if !to.is_empty() {
            page.raw(" <a href=\"#").raw(to).raw("\">more</a>");
        }
        page.raw("</li>\n");
    };
    let wall = report.duration_ns.unwrap_or(0) as f64;
    for function in report.functions.iter().take(3) {
        let total = function.time_ns.total as f64;
        if wall > 0.0 && total > 0.2 * wall {
            let text = format!(
                "{}: {} of host time in {} calls, {} of the run.",
                function.name,
                time(total),
                count(function.calls as f64),
                percent(total / wall)
            );
            say(page, "", &text, "functions");
        }
    }
    let idle = (report.devices.iter().filter_map(|d| d.idle_ns)).fold(0, u64::saturating_add);
    if let Some(cause) = report.idle.first().filter(|_| wall > 0.0 && idle as f64 > 0.2 * wall) {
        let text = format!(
            "Devices were idle for {} between commands; most of it before the next command: {} ({}).",
            time(idle as f64),
            cause.cause,
            time(cause.ns as f64)
        );
        say(page, "", &text, "idle");
    }
    if report.totals.errors > 0 {
        let failed: Vec<&str> = report
            .functions
            .iter()
            .filter(|f| f.errors > 0)
            .take(5)
            .map(|f| f.name.as_str())
            .collect();
        let (n, s) = (report.totals.errors, if report.totals.errors == 1 { "" } else { "s" });
        let text = format!("{} API call{s} failed: {}.", count(n as f64), failed.join(", "));
        say(page, "warning", &text, "functions");
    }
    if report.kernels.iter().all(|k| k.time_ns.count == 0) && !report.kernels.is_empty() {
        let text = "No launch has a device time: what kernels took is not known.";
        say(page, "warning", text, "recording");
    }
    if let Some(sampling) = &report.sampling {
        let text = format!(
            "A random part of the launches was timed, {} of {}: times of kernels are estimates with intervals.",
            count(sampling.timed as f64),
            count(sampling.launches as f64)
        );
        say(page, "", &text, "kernels");
    }
    for device in report.energy.iter().flat_map(|e| &e.devices) {
        let sums = device.groups.iter().filter(|g| g.names.len() > 1).count();
        if sums > 0 {
            let text = format!(
                "On {} the joules of some kernels are known as a sum only: they always ran in the same proportion.",
                device.device
            );
            say(page, "warning", &text, "energy");
        }
    }
    let mut said: BTreeMap<(&str, &str), (&Finding, usize)> = BTreeMap::new();
    for issue in report.issues.iter().filter(|i| i.severity != "note") {
        said.entry((&issue.code, &issue.text)).or_insert((issue, 0)).1 += 1;
    }
    for (issue, n) in said.values().take(ISSUES) {
        let others = if *n > 1 { format!(" (and {} more)", n - 1) } else { String::new() };
        let remedy = issue.remedy.map_or_else(String::new, |r| format!(" Remedy: {r}."));
        let class = if issue.severity == "error" { "error" } else { "warning" };
        let text = format!("{}{others}: {}.{remedy}", issue.subject, issue.text);
        say(page, class, &text, "");
    }
    if !any {
        page.raw("<li>Nothing stands out.</li>");
    }
    page.raw("</ul></section>\n");
}

fn commands(page: &mut Html, c: &Commands) {
    let estimated = c.estimate.as_ref();
    figure(page, c.share, percent);
    match estimated.and_then(|e| e.total_ns.as_ref()) {
        Some(total) => interval(page, Some(total), time),
        None => figure(page, (c.time_ns.count > 0).then_some(c.time_ns.total as f64), time),
    }
    figure(page, Some(c.count as f64), count);
    match estimated.and_then(|e| e.mean_ns.as_ref()) {
        Some(mean) => interval(page, Some(mean), time),
        None => figure(page, c.time_ns.mean, time),
    }
    for (of, timed) in [
        (estimated.and_then(|e| e.median_ns.as_ref()), c.time_ns.median),
        (estimated.and_then(|e| e.p95_ns.as_ref()), c.time_ns.p95),
    ] {
        match of {
            Some(of) => interval(page, Some(of), time),
            None => figure(page, timed, time),
        }
    }
    figure(page, c.time_ns.min.map(|x| x as f64), time);
    figure(page, c.time_ns.max.map(|x| x as f64), time);
}

/// Kernels, and what each of the first opens to.
pub fn kernels(
    page: &mut Html,
    report: &Report,
    details: &BTreeMap<Key, Details>,
    known: &Known<'_>,
    length: u64,
) {
    page.raw("<section id=\"kernels\"><h2>Kernels</h2>\n");
    if report.kernels.is_empty() {
        page.raw("<p>No kernel was launched.</p></section>\n");
        return;
    }
    page.raw("<p><input id=\"filter\" type=\"search\" placeholder=\"Filter by name\" aria-label=\"Filter kernels by name\" hidden></p>\n");
    let joules_of = |k: &Commands| {
        let devices = report.energy.iter().flat_map(|e| &e.devices);
        let of = devices.filter(|d| Some(&d.device) == k.device.as_ref());
        of.flat_map(|d| &d.classes).find(|c| c.kind == "kernel" && c.name == k.name)
    };
    let columns = [
        "Kernel",
        "Share#",
        "Total#",
        "Launches#",
        "Mean#",
        "Median#",
        "p95#",
        "Min#",
        "Max#",
        "J/launch#",
        "W#",
    ];
    table(page, &columns, report.kernels.iter().take(ROWS), |page, k| {
        page.raw("<td class=\"name\">").name(&k.name);
        if let Some(share) = k.share {
            page.raw("<br><meter max=\"1\" value=\"")
                .put(format_args!("{share:.4}"))
                .raw("\"></meter>");
        }
        page.raw(" <small>").name(k.device.as_deref().unwrap_or_default()).raw("</small></td>");
        commands(page, k);
        let class = joules_of(k);
        interval(page, class.and_then(|c| c.joules_per_launch.as_ref()), joules);
        interval(page, class.and_then(|c| c.watts.as_ref()), |w| format!("{w:.1} W"));
    });
    more(page, report.kernels.len());
    for k in report.kernels.iter().take(OPEN) {
        let key = (k.name.clone(), k.device.clone().unwrap_or_default());
        let Some(of) = details.get(&key) else { continue };
        page.raw("<details class=\"kernel\"><summary>")
            .name(&k.name)
            .raw("</summary><div class=\"charts\">");
        charts::distribution(page, of);
        charts::over_time(page, of, length);
        page.raw("</div>");
        sums(page, "Global size", &of.sizes);
        sums(page, "Launched from", &of.places);
        let options: Vec<&String> = of.options.iter().filter(|o| !o.trim().is_empty()).collect();
        for options in options {
            page.raw("<p>Build options: <code>").name(options).raw("</code></p>");
        }
        counters(page, report, k);
        known.write(page, k, of);
        page.raw("</details>\n");
    }
    if !known.is_counted() {
        page.raw("<p class=\"soft\">Instructions were not counted: a trace of <code>clscope record --mix</code> shows here what each kernel executed and what bounds its time.</p>\n");
    }
    page.raw("</section>\n");
}

fn sums(page: &mut Html, title: &'static str, of: &BTreeMap<String, Sum>) {
    if of.is_empty() {
        return;
    }
    let mut rows: Vec<_> = of.iter().collect();
    rows.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.total));
    table(page, &[title, "Launches#", "Total#", "Mean#"], rows, |page, (name, sum)| {
        page.raw("<td class=\"name\">").name(name).raw("</td>");
        figure(page, Some(sum.count as f64), count);
        figure(page, Some(sum.total as f64), time);
        figure(page, Some(sum.total as f64 / sum.count.max(1) as f64), time);
    });
}

/// Hardware counters of a kernel.
fn counters(page: &mut Html, report: &Report, kernel: &Commands) {
    let sources = report.counters.iter().flat_map(|c| &c.sources);
    for source in sources.filter(|s| Some(&s.device) == kernel.device.as_ref()) {
        let classes = source.classes.iter();
        let Some(class) = classes.filter(|c| c.kind == "kernel").find(|c| c.name == kernel.name)
        else {
            continue;
        };
        let mean = |column: &Column| class.values.get(&column.name).and_then(|v| v.mean);
        let known = source.columns.iter().filter_map(|c| Some((c, mean(c)?)));
        table(page, &["Counter", "Mean#", "Unit"], known, |page, (column, mean)| {
            page.raw("<td>").name(&column.name).raw("</td>");
            interval(page, Some(&mean), |x| format!("{x:.4}"));
            page.raw("<td>").name(&column.unit).raw("</td>");
        });
    }
}

/// Joules, floors, and what cannot be known.
pub fn energy(page: &mut Html, report: &Report) {
    page.raw("<section id=\"energy\"><h2>Energy</h2>\n");
    let Some(energy) = &report.energy else {
        page.raw("<p>Not attributed.</p></section>\n");
        return;
    };
    if let Some(why) = &energy.absent {
        page.raw("<p>No joules: ").put(why).raw(".</p>\n");
    }
    for device in &energy.devices {
        page.raw("<h3>").name(&device.device).raw("</h3>\n");
        one_device(page, device);
    }
    for device in &energy.unmeasured {
        page.raw("<p>").name(&device.device).raw(": not measured: ").put(&device.why).raw("</p>\n");
    }
    for note in &energy.notes {
        page.raw("<p class=\"soft\">").name(note).raw("</p>\n");
    }
    page.raw("</section>\n");
}

fn one_device(page: &mut Html, device: &DeviceEnergy) {
    if let Some(measured) = device.measured_joules {
        page.raw("<p><b data-v=\"").put(measured).raw("\">").put(joules(measured));
        page.raw("</b> measured in ").put(time(device.seconds * 1e9));
    } else {
        page.raw("<p>Joules not known");
    }
    page.raw(" by ")
        .put(device.equation)
        .raw(". Includes ")
        .name(&device.includes)
        .raw(". ")
        .name(&device.reason)
        .raw("</p>\n");
    if let Some(why) = &device.failed {
        page.raw("<p>Nothing was attributed: ").name(why).raw("</p>\n");
    }
    let columns = [
        "Kernel or transfer",
        "Joules#",
        "J/launch#",
        "W#",
        "Added by running#",
        "Floor's part#",
        "Known how",
        "How well",
    ];
    table(page, &columns, device.classes.iter().take(ROWS), |page, class| {
        page.raw("<td class=\"name\">").name(&class.name).raw("</td>");
        interval(page, class.joules.as_ref(), joules);
        interval(page, class.joules_per_launch.as_ref(), joules);
        interval(page, class.watts.as_ref(), |w| format!("{w:.1} W"));
        figure(page, class.dynamic_joules, joules);
        figure(page, class.idle_joules, joules);
        page.raw("<td>")
            .put(class.method.unwrap_or("-"))
            .raw("</td><td>")
            .put(class.identifiability);
        page.raw("</td>");
    });
    more(page, device.classes.len());
    let floors =
        device.floors.iter().map(|f| (format!("floor: {}", f.name), Some(f.joules), Some(f)));
    let rows = floors.chain([("not attributed".to_owned(), device.unattributed_joules, None)]);
    table(
        page,
        &["Besides kernels", "Joules#", "W#", "Idle#"],
        rows,
        |page, (name, all, floor)| {
            page.raw("<td>").put(name).raw("</td>");
            figure(page, all, joules);
            interval(page, floor.and_then(|f| f.watts.as_ref()), |w| format!("{w:.1} W"));
            figure(page, floor.map(|f| f.idle_seconds * 1e9), time);
        },
    );
    for group in device.groups.iter().filter(|g| g.names.len() > 1) {
        page.raw("<p>Cannot be known one by one: ").name(&group.names.join(" + ")).raw(" cost ");
        page.put(joules(group.joules.value)).raw(" together.</p>\n");
    }
    for note in &device.notes {
        page.raw("<p class=\"soft\">").name(note).raw("</p>\n");
    }
}

fn function(page: &mut Html, f: &Function) {
    figure(page, f.share, percent);
    figure(page, Some(f.time_ns.total as f64), time);
    figure(page, Some(f.calls as f64), count);
    figure(page, f.time_ns.mean, time);
    figure(page, f.time_ns.median, time);
    figure(page, f.time_ns.p95, time);
    figure(page, f.time_ns.max.map(|x| x as f64), time);
    figure(page, Some(f.errors as f64), count);
}

/// Idle causes, transfers, queues, waits and API calls.
pub fn rest(page: &mut Html, report: &Report) {
    page.raw("<section id=\"idle\"><h2>Why devices were idle</h2>\n");
    for why in &report.idle_absent {
        page.raw("<p>").put(why).raw(".</p>");
    }
    if report.idle.is_empty() && report.idle_absent.is_empty() {
        page.raw("<p>No gap between commands is known.</p>");
    } else if !report.idle.is_empty() {
        let columns = ["Before the next command", "Share#", "Time#"];
        table(page, &columns, &report.idle, |page, idle| {
            page.raw("<td class=\"name\">").name(&idle.cause).raw("</td>");
            figure(page, idle.share, percent);
            figure(page, Some(idle.ns as f64), time);
        });
    }
    page.raw("</section>\n<section id=\"transfers\"><h2>Transfers and other commands</h2>\n");
    let columns = [
        "Command", "Share#", "Total#", "Count#", "Mean#", "Median#", "p95#", "Min#", "Max#",
        "Bytes#", "Rate#",
    ];
    let rows = report.transfers.iter().chain(&report.other_commands).take(ROWS);
    table(page, &columns, rows, |page, t| {
        page.raw("<td class=\"name\">").name(&t.name).raw(" <small>");
        page.put(t.direction.unwrap_or_default()).raw("</small></td>");
        commands(page, t);
        figure(page, Some(t.bytes as f64), |_| size(t.bytes));
        figure(page, t.gigabytes_per_second, |x| rate(Some(x)));
    });
    page.raw("<h3>Command queues</h3>\n");
    let columns = [
        "Queue",
        "Commands#",
        "Busy#",
        "Idle#",
        "Median gap#",
        "In queue#",
        "Submitted#",
        "Executing#",
        "Until noticed#",
    ];
    table(page, &columns, report.queues.iter().take(ROWS), |page, q| {
        page.raw("<td class=\"name\">queue ").put(q.id).raw(" <small>").name(&q.device).raw(", ");
        page.name(&q.process)
            .raw(if q.out_of_order { ", out of order" } else { "" })
            .raw("</small></td>");
        figure(page, Some(q.commands as f64), count);
        match &q.busy_estimate_ns {
            Some(estimate) => interval(page, Some(estimate), time),
            None => figure(page, q.busy_ns.map(|x| x as f64), time),
        }
        figure(page, q.idle_ns.map(|x| x as f64), time);
        for s in [&q.gaps_ns, &q.queue_wait_ns, &q.submit_wait_ns, &q.execution_ns, &q.notice_ns] {
            figure(page, s.median, time);
        }
    });
    more(page, report.queues.len());
    page.raw("</section>\n<section id=\"waits\"><h2>What the host waited for</h2>\n");
    table(
        page,
        &["Call", "Waited#", "Waits#", "While ran"],
        report.waits.iter().take(ROWS),
        |page, wait| {
            page.raw("<td>").name(&wait.function.name).raw("</td>");
            figure(page, Some(wait.function.time_ns.total as f64), time);
            figure(page, Some(wait.function.calls as f64), count);
            page.raw("<td class=\"name\">");
            for part in wait.waited_for.iter().take(4) {
                page.name(&part.name).raw(" ").put(time(part.ns as f64)).raw("<br>");
            }
            page.raw("</td>");
        },
    );
    page.raw("</section>\n<section id=\"functions\"><h2>API calls by host time</h2>\n");
    let columns =
        ["Function", "Share#", "Total#", "Calls#", "Mean#", "Median#", "p95#", "Max#", "Errors#"];
    table(page, &columns, report.functions.iter().take(ROWS), |page, f| {
        page.raw("<td>").name(&f.name).raw("</td>");
        function(page, f);
    });
    more(page, report.functions.len());
    page.raw("</section>\n");
}

/// What was recorded, on what, what it cost, and how far to trust it.
pub fn recording(page: &mut Html, report: &Report) {
    page.raw("<section id=\"recording\"><h2>Recording</h2>\n<p>Traces: ");
    page.name(&report.traces.join(", ")).raw("</p>\n<p>Recording took about <b data-v=\"");
    page.put(report.recording.recording_ns).raw("\">").put(time(report.recording.recording_ns));
    page.raw("</b> on all threads together");
    if let Some(share) = report.recording.of_wall {
        page.raw(", ").put(percent(share)).raw(" of the run");
    }
    page.raw(", by typical costs of a record.</p>\n");
    table(
        page,
        &["Process", "Host", "Command", "Threads#", "Device timing", "Ended"],
        report.processes.iter().take(ROWS),
        |page, p| {
            page.raw("<td>").name(&p.label);
            if let Some(rank) = p.mpi_rank {
                page.raw(" rank ").put(rank);
            }
            page.raw("</td><td>").name(&p.host).raw("</td><td class=\"name\">");
            page.name(
                &std::iter::once(&p.executable)
                    .chain(p.arguments.iter().skip(1))
                    .cloned()
                    .collect::<Vec<_>>()
                    .join(" "),
            );
            page.raw("</td>");
            figure(page, Some(p.threads as f64), count);
            page.raw("<td>").name(&p.device_timing).raw("</td><td>");
            page.raw(if p.ended { "in order" } else { "killed, or still running" }).raw("</td>");
        },
    );
    more(page, report.processes.len());
    let columns = [
        "Device",
        "Driver",
        "Busy#",
        "Extent#",
        "Clock bound, median#",
        "at most#",
        "Drift#",
        "Span bias#",
    ];
    table(page, &columns, report.devices.iter().take(ROWS), |page, d| {
        page.raw("<td class=\"name\">").name(&d.name).raw("</td><td>").name(&d.driver).raw("</td>");
        figure(page, d.busy_ns.map(|x| x as f64), time);
        figure(page, Some(d.extent_ns as f64), time);
        figure(page, d.clock_bound_ns.median, time);
        figure(page, d.clock_bound_ns.max.map(|x| x as f64), time);
        figure(page, d.drift.as_ref().map(|i| i.value), |x| format!("{:.2} ppm", x * 1e6));
        figure(page, d.span_bias_ns.as_ref().map(|i| i.value), time);
    });
    page.raw("<p class=\"soft\">Median and p95 err by up to ")
        .put(percent(report.percentile_error));
    page.raw("; counts, totals, least and most are exact. A device time lies on the host's clock within its clock bound.</p>\n");
    let notes: Vec<_> =
        report.issues.iter().filter(|i| i.severity == "note").take(ISSUES).collect();
    if !notes.is_empty() {
        page.raw("<h3>Notes</h3>\n");
        for note in notes {
            page.raw("<p class=\"soft\">")
                .name(&note.subject)
                .raw(": ")
                .name(&note.text)
                .raw("</p>\n");
        }
    }
    page.raw("</section>\n");
}
