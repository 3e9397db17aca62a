//! Owns the page's tables. A cell shows a figure for people and holds the exact one,
//! which is the JSON's. Refuses to compute figures.

use super::details::{Details, Key, Sum};
use super::executed::Known;
use super::html::{Html, joules, number, time};
use super::{OPEN, ROWS, answer_rows, charts, rate, size};
use crate::rows::Section;
use clscope_profile::counters::result::Column;
use clscope_profile::energy::result::{Class, DeviceEnergy, PartOf};
use clscope_profile::interval::{Interval, Spoken};
use clscope_profile::report::Report;
use clscope_profile::report::data::{Commands, Function};
use std::collections::{BTreeMap, BTreeSet};

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

pub(super) fn more(page: &mut Html, all: usize) {
    if all > ROWS {
        page.raw("<p class=\"soft\">And ")
            .put(all - ROWS)
            .raw(" more: <code>clscope report --limit 0</code> shows them.</p>\n");
    }
}

/// What stands behind an estimate, as every view says it.
fn plus_minus(of: &Interval) -> Option<String> {
    let sides = of.spoken().behind().filter(|_| of.estimated)?;
    Some(sides.replace("+-", "± ").replace('%', " %"))
}

/// A figure, or its upper end alone where its interval reaches down to nothing.
fn value(of: &Interval, shown: impl Fn(f64) -> String) -> String {
    match of.spoken() {
        Spoken::AtMost(most) if of.estimated => format!("< {}", shown(most)),
        _ => shown(of.value),
    }
}

/// A figure with its interval below it: side by side they would make tables wider than the page.
pub(super) fn interval(page: &mut Html, of: Option<&Interval>, shown: impl Fn(f64) -> String) {
    let Some(of) = of else { return figure(page, None, shown) };
    page.raw("<td class=\"n\" data-v=\"").put(of.value).raw("\">").put(value(of, shown));
    if let Some(half) = plus_minus(of) {
        page.raw(" <small>").put(half).raw("</small>");
    }
    page.raw("</td>");
}

/// A cell of an estimate, or else of an exact figure.
fn either(page: &mut Html, of: Option<&Interval>, exact: Option<f64>, shown: fn(f64) -> String) {
    match of {
        Some(of) => interval(page, Some(of), shown),
        None => figure(page, exact, shown),
    }
}

/// Joules, or what they are at most.
pub(super) fn or_below(page: &mut Html, of: Option<&Interval>, below: Option<f64>) {
    match below.filter(|_| of.is_none()) {
        Some(most) => figure(page, Some(most), |most| format!("< {}", joules(most))),
        None => interval(page, of, joules),
    }
}

/// Joules of a launch.
fn joules_per_launch(page: &mut Html, of: Option<&Class>) {
    let below = of.and_then(|class| class.joules_per_launch_below);
    or_below(page, of.and_then(|class| class.joules_per_launch.as_ref()), below);
}

/// A figure in a sentence, with its 95 % interval.
pub(super) fn format_interval(of: &Interval, shown: impl Fn(f64) -> String) -> String {
    let half = plus_minus(of).map(|half| format!(" {half}"));
    value(of, shown) + &half.unwrap_or_default()
}

/// Columns of [`commands`]; `timed` where sampling left some out.
fn columns(
    first: &'static str,
    number: &'static str,
    timed: bool,
    last: &[&'static str],
) -> Vec<&'static str> {
    let mut out = vec![first, "Share#", "Total#", number];
    if timed {
        out.push("Timed#");
    }
    out.extend(["Mean#", "Median#", "p95#"]);
    out.extend(if timed { ["Min timed#", "Max timed#"] } else { ["Min#", "Max#"] });
    out.extend(last);
    out
}

/// Whether sampling left some of them out.
fn sampled<'c>(of: impl IntoIterator<Item = &'c Commands>) -> bool {
    of.into_iter().any(|c| c.left_out > 0)
}

/// Below a table of sampled commands.
fn sampled_note(page: &mut Html) {
    page.raw("<p class=\"soft\">A random part was timed. Figures with a 95 % interval below them are estimates for all; columns that say so are of the timed ones alone.</p>\n");
}

/// A share, total, number and times of commands; `timed` as in [`columns`].
fn commands(page: &mut Html, c: &Commands, timed: bool) {
    let e = c.estimate.as_ref();
    either(page, e.and_then(|e| e.share.as_ref()), c.share, percent);
    let total = (c.time_ns.count > 0).then_some(c.time_ns.total as f64);
    either(page, e.and_then(|e| e.total_ns.as_ref()), total, time);
    figure(page, Some(c.count as f64), count);
    if timed {
        figure(page, Some(c.time_ns.count as f64), count);
    }
    either(page, e.and_then(|e| e.mean_ns.as_ref()), c.time_ns.mean, time);
    either(page, e.and_then(|e| e.median_ns.as_ref()), c.time_ns.median, time);
    either(page, e.and_then(|e| e.p95_ns.as_ref()), c.time_ns.p95, time);
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
        // Times are of the run: joules of a part of it do not belong beside them.
        let whole = devices.filter(|d| d.window.is_none());
        let of = whole.filter(|d| Some(&d.device) == k.device.as_ref());
        of.flat_map(|d| &d.classes).find(|c| c.kind == "kernel" && c.name == k.name)
    };
    let timed = sampled(&report.kernels);
    // The one device of a page stands in its heading.
    let several = report.kernels.windows(2).any(|two| two[0].device != two[1].device);
    let columns = columns("Kernel", "Launches#", timed, &["J/launch#", "W#"]);
    table(page, &columns, report.kernels.iter().take(ROWS), |page, k| {
        page.raw("<td class=\"name\">").name(&k.name);
        if let Some(share) = k.share {
            page.raw("<br><meter max=\"1\" value=\"")
                .put(format_args!("{share:.4}"))
                .raw("\"></meter>");
        }
        if several {
            page.raw(" <small>").name(k.device.as_deref().unwrap_or_default()).raw("</small>");
        }
        page.raw("</td>");
        commands(page, k, timed);
        let class = joules_of(k);
        joules_per_launch(page, class);
        interval(page, class.and_then(|c| c.watts.as_ref()), |w| format!("{w:.1} W"));
    });
    more(page, report.kernels.len());
    if timed {
        sampled_note(page);
    }
    for k in report.kernels.iter().take(OPEN) {
        let key = (k.name.clone(), k.device.clone().unwrap_or_default());
        let Some(of) = details.get(&key) else { continue };
        page.raw("<details class=\"kernel\"><summary>").name(&k.name).raw("</summary>");
        if of.all.timed < of.all.count {
            page.raw("<p>Of ").put(count(of.all.count as f64)).raw(" launches ");
            page.put(count(of.all.timed as f64)).raw(
                " were timed. Pictures and times below are of those: they add up to <b data-v=\"",
            );
            page.put(of.all.total).raw("\">").put(time(of.all.total as f64));
            page.raw("</b>. The row above is of all launches.</p>");
        }
        page.raw("<div class=\"charts\">");
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

/// Launches by something. Their numbers add up to the kernel's launches.
fn sums(page: &mut Html, title: &'static str, of: &BTreeMap<String, Sum>) {
    if of.is_empty() {
        return;
    }
    let mut rows: Vec<_> = of.iter().collect();
    rows.sort_by_key(|(_, sum)| std::cmp::Reverse((sum.total, sum.count)));
    let partial = of.values().any(|sum| sum.timed < sum.count);
    let columns: &[&'static str] = match partial {
        true => &[title, "Launches#", "Timed#", "Total of timed#", "Mean of timed#"],
        false => &[title, "Launches#", "Total#", "Mean#"],
    };
    table(page, columns, rows, |page, (name, sum)| {
        page.raw("<td class=\"name\">").name(name).raw("</td>");
        figure(page, Some(sum.count as f64), count);
        if partial {
            figure(page, Some(sum.timed as f64), count);
        }
        let known = |x: f64| (sum.timed > 0).then_some(x);
        figure(page, known(sum.total as f64), time);
        figure(page, known(sum.total as f64 / sum.timed as f64), time);
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
            interval(page, Some(&mean), number);
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
        page.raw("<p>No joules: ").prose(why).raw(".</p>\n");
    }
    for device in &energy.devices {
        page.raw("<h3>").name(&device.device).put(device.in_window()).raw("</h3>\n");
        one_device(page, device);
    }
    for device in &energy.unmeasured {
        page.raw("<p>").name(&device.device).raw(": not measured: ").prose(&device.why);
        page.raw("</p>\n");
    }
    notes(page, &energy.notes);
    page.raw("</section>\n");
}

fn one_device(page: &mut Html, device: &DeviceEnergy) {
    if let Some(measured) = device.measured_joules {
        page.raw("<p><b data-v=\"").put(measured).raw("\">").put(joules(measured));
        page.raw("</b> measured in ").put(time(device.seconds * 1e9));
        if let Some(of) = device.temperature {
            page.raw(" at ").put(of.range());
        }
    } else {
        page.raw("<p>Joules not known");
    }
    page.raw(" by ")
        .put(device.equation)
        .raw(". Includes ")
        .name(&device.includes)
        .raw(". Why this one: ")
        .prose(&device.reason)
        .raw(".</p>\n");
    if let Some(why) = &device.failed {
        page.raw("<p>Nothing was attributed: ").prose(why).raw("</p>\n");
    }
    if let Some(of) = device.temperature {
        let share =
            |of: &Interval| format!("{:.2} % ± {:.2}", 100.0 * of.value, 100.0 * of.longer());
        page.raw("<p>A degree adds ").put(share(&of.idle_per_degree)).raw(" to idle power and ");
        page.put(share(&of.above_idle_per_degree)).raw(" above it.</p>\n");
    }
    let mut columns =
        vec!["Kernel or transfer", "Joules#", "J/launch#", "W#", "Above idle#", "Idle#"];
    let at_reference = device.classes.iter().any(|c| c.per_launch_at_reference.is_some());
    columns.extend(at_reference.then_some("J/launch at 50 C#"));
    table(page, &columns, device.classes.iter().take(ROWS), |page, class| {
        page.raw("<td class=\"name\">").name(&class.name).raw("</td>");
        interval(page, class.joules.as_ref(), joules);
        joules_per_launch(page, Some(class));
        interval(page, class.watts.as_ref(), |w| format!("{w:.1} W"));
        or_below(page, class.dynamic_joules.as_ref(), class.dynamic_joules_below);
        interval(page, class.idle_joules.as_ref(), joules);
        if at_reference {
            interval(page, class.per_launch_at_reference.as_ref(), joules);
        }
    });
    more(page, device.classes.len());
    let floors = device.floors.iter();
    let floors = floors.map(|f| (format!("idle power {}", f.name), f.joules, Some(f)));
    let rest = device.parts().into_iter().find(|part| matches!(part.of, PartOf::Rest));
    let rest = rest.map(|part| part.joules);
    let rows = floors.chain([("not assigned".to_owned(), rest, None)]);
    table(
        page,
        &["Besides kernels", "Joules#", "W#", "Idle#"],
        rows,
        |page, (name, all, floor)| {
            page.raw("<td>").put(name).raw("</td>");
            match (floor, all) {
                // Of either sign: both ends, and no share of what may be none.
                (None, Some(all)) => figure(page, Some(all.value), |_| all.with_ends(joules)),
                _ => interval(page, all.as_ref(), joules),
            }
            interval(page, floor.and_then(|f| f.watts.as_ref()), |w| format!("{w:.1} W"));
            figure(page, floor.map(|f| f.idle_seconds * 1e9), time);
        },
    );
    for group in device.groups.iter().filter(|g| g.names.len() > 1) {
        page.raw("<p>Only the sum is measurable: ").name(&group.names.join(" + ")).raw(" cost ");
        page.put(format_interval(&group.joules, joules)).raw(" together, ");
        page.put(format_interval(&group.watts, |w| format!("{w:.1} W")));
        page.raw(" while any of them runs.</p>\n");
    }
    repetitions(page, device);
    if let Some(of) = &device.explained {
        super::explained::explained(page, of);
    }
    if let Some(next) = &device.next {
        page.raw("<p>Next: ").prose(next).raw("</p>\n");
    }
    notes(page, &device.notes);
}

/// What was repeated, and what could not be.
fn repetitions(page: &mut Html, device: &DeviceEnergy) {
    if let Some(of) = &device.repetitions {
        if let Some(from) = &of.from {
            let batches: usize = device.replays.iter().map(|r| r.batches).sum();
            page.raw("<p>Repeated in another run: ").put(batches).raw(" batches, from ").name(from);
            page.raw(".</p>\n");
        }
        if of.seconds > 0.0 {
            page.raw("<p>Repeated: ").put(device.batches_told()).raw(" in ");
            page.put(time(of.seconds * 1e9))
                .raw(", ")
                .put(format_interval(&of.joules, joules))
                .raw(", which are no part of the rows above.</p>\n");
        }
    }
    let refused: BTreeSet<(&str, &str)> = (device.replays.iter())
        .filter_map(|r| Some((r.name.as_str(), r.failed.as_deref()?)))
        .collect();
    for (name, why) in refused {
        page.raw("<p>Not repeated: ").name(name).raw(": ").prose(why).raw(".</p>\n");
    }
}

pub(super) fn notes(page: &mut Html, notes: &[String]) {
    for note in notes {
        page.raw("<p class=\"soft\">Note: ").prose(note).raw("</p>\n");
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

/// Idle causes, transfers, queues, waits and API calls, as far as they are among the sections.
pub fn rest(page: &mut Html, report: &Report, sections: &[Section]) {
    let has = |section| sections.contains(&section);
    if has(Section::Idle) {
        idle(page, report);
    }
    if has(Section::Transfers) || has(Section::Queues) {
        page.raw("<section id=\"transfers\"><h2>Transfers and other commands</h2>\n");
        if has(Section::Transfers) {
            transfers(page, report);
        }
        if has(Section::Queues) {
            queues(page, report);
        }
        page.raw("</section>\n");
    }
    if has(Section::Waits) {
        waits(page, report);
    }
    if has(Section::Functions) {
        functions(page, report);
    }
}

fn idle(page: &mut Html, report: &Report) {
    page.raw("<section id=\"idle\"><h2>Why devices were idle</h2>\n");
    for why in &report.idle_absent {
        page.raw("<p>").sentence(why).raw("</p>");
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
    answer_rows::gaps(page, &report.answer);
    page.raw("</section>\n");
}

fn transfers(page: &mut Html, report: &Report) {
    let rows = || report.transfers.iter().chain(&report.other_commands);
    let timed = sampled(rows());
    let last = ["Bytes#", if timed { "Rate of timed#" } else { "Rate#" }];
    let columns = columns("Command", "Count#", timed, &last);
    table(page, &columns, rows().take(ROWS), |page, t| {
        page.raw("<td class=\"name\">").name(&t.name).raw(" <small>");
        page.put(t.direction.unwrap_or_default()).raw("</small></td>");
        commands(page, t, timed);
        figure(page, Some(t.bytes as f64), |_| size(t.bytes));
        figure(page, t.gigabytes_per_second, |x| rate(Some(x)));
    });
    if timed {
        sampled_note(page);
    }
    answer_rows::buffers(page, &report.answer);
}

fn queues(page: &mut Html, report: &Report) {
    page.raw("<h3>Command queues</h3>\n");
    let columns = [
        "Queue",
        "Commands#",
        "Busy#",
        "Idle#",
        "Median gap#",
        "In queue#",
        "To start#",
        "Runs#",
        "Until seen#",
    ];
    table(page, &columns, report.queues.iter().take(ROWS), |page, q| {
        page.raw("<td class=\"name\">").name(&q.label(true)).raw(" <small>");
        page.name(&q.process)
            .raw(if q.out_of_order { ", out of order" } else { "" })
            .raw("</small></td>");
        figure(page, Some(q.commands as f64), count);
        either(page, q.busy_estimate_ns.as_ref(), q.busy_ns.map(|x| x as f64), time);
        figure(page, q.idle_ns.map(|x| x as f64), time);
        for s in [&q.gaps_ns, &q.queue_wait_ns, &q.submit_wait_ns, &q.execution_ns, &q.notice_ns] {
            figure(page, s.median, time);
        }
    });
    more(page, report.queues.len());
    if report.queues.iter().any(|q| q.left_out > 0) {
        page.raw("<p class=\"soft\">A random part was timed: busy time is the estimated sum of all commands' times, where that is known; idle time and gaps are not known; waits are of the timed commands.</p>\n");
    }
}

fn functions(page: &mut Html, report: &Report) {
    page.raw("<section id=\"functions\"><h2>API calls by host time</h2>\n");
    let columns =
        ["Function", "Share#", "Total#", "Calls#", "Mean#", "Median#", "p95#", "Max#", "Errors#"];
    table(page, &columns, report.functions.iter().take(ROWS), |page, f| {
        page.raw("<td>").name(&f.name).raw("</td>");
        function(page, f);
    });
    more(page, report.functions.len());
    page.raw("</section>\n");
}

/// Entries of what one function waited for.
const WAITED_FOR: usize = 4;

/// What the host waited for.
fn waits(page: &mut Html, report: &Report) {
    page.raw("<section id=\"waits\"><h2>What the host waited for</h2>\n");
    if report.waits.is_empty() {
        page.raw("<p>No call waited for a device.</p></section>\n");
        return;
    }
    let columns = ["Call", "Waited#", "Waits#", "While ran"];
    table(page, &columns, report.waits.iter().take(ROWS), |page, wait| {
        page.raw("<td>").name(&wait.function.name).raw("</td>");
        let total = wait.function.time_ns.total as f64;
        figure(page, Some(total), time);
        figure(page, Some(wait.function.calls as f64), count);
        page.raw("<td class=\"name\">");
        for (name, ns) in wait.ran(WAITED_FOR) {
            page.raw("<span>").name(name);
            if let Some(ns) = ns {
                page.raw(" <span data-v=\"").put(ns).raw("\">").put(time(ns as f64));
                page.raw("</span>");
                if total > 0.0 {
                    page.raw(" <small>").put(percent(ns as f64 / total)).raw("</small>");
                }
            }
            page.raw("</span><br>");
        }
        page.raw("</td>");
    });
    more(page, report.waits.len());
    if report.waits.iter().any(|wait| wait.nothing_ns.is_none()) {
        page.raw("<p class=\"soft\">Commands that were not sampled ran in a part of these waits: how long, and which, is not known.</p>\n");
    }
    page.raw("</section>\n");
}
