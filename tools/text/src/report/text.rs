//! Owns the report for people: a heading, then one table per section that has something to say.

use super::{Section, Shown, limited, more};
use crate::figure::{dash, or_bound, plus_minus};
use crate::table::{Column, PLUS_MINUS, Table, bytes, percent, time, time_or_dash, wrapped};
use clscope_io::shorten;
use clscope_io::text::{Page, count};
use clscope_profile::answer::data::{BufferCopies, BufferRow};
use clscope_profile::interval::Interval;
use clscope_profile::report::data::{
    CommandBuffers, Commands, Estimates, Function, Queue, Report, Summary, Wait,
};
use std::fmt::Write;

/// The report's text.
pub fn render(report: &Report, shown: &Shown) -> String {
    let mut out = super::heading::heading(report, shown.width);
    if let Some(places) = &report.places {
        super::places::render(places, shown, &mut out);
    }
    for section in &shown.sections {
        match section {
            Section::Kernels => kernels(report, shown, &mut out),
            Section::Energy => {
                if let Some(energy) = &report.energy {
                    super::energy::render(energy, shown, &mut out);
                }
            }
            Section::Counters => {
                if let Some(counters) = &report.counters {
                    super::counters::render(counters, shown, &mut out);
                }
            }
            Section::Transfers => {
                transfers(report, shown, &mut out);
                buffers(report, shown, &mut out);
            }
            Section::Queues => queues(report, shown, &mut out),
            Section::Idle => idle(report, shown, &mut out),
            Section::Waits => waits(report, shown, &mut out),
            Section::Functions => {
                functions(report, shown, &mut out);
                patterns(report, &mut out);
            }
        }
    }
    wrapped(&out.into_string(), shown.width)
}

/// What a table of commands has besides their times.
struct Shape<'s> {
    /// The title of their number.
    count: &'static str,
    /// Whether they move bytes.
    moves: bool,
    last: (&'static str, &'s dyn Fn(&Commands) -> String),
}

/// The interval of the mean is the total's.
fn table_of_commands<'r>(rows: impl IntoIterator<Item = &'r Commands>, of: &Shape<'_>) -> Table {
    let rows: Vec<&Commands> = rows.into_iter().collect();
    let any = |has: fn(&Commands) -> bool| rows.iter().any(|k| has(k));
    // Figures of sampled ones are estimates, with their intervals.
    let sampled = any(|k| k.left_out > 0);
    let columns: [Column<'_, Commands>; 18] = [
        ("share", true, &share),
        ("total", true, &total),
        (PLUS_MINUS, sampled, &|k| interval(k, |e| e.total_ns)),
        ("corrected", any(|k| k.corrected_total_ns.is_some()), &corrected),
        (of.count, true, &|k| k.count.to_string()),
        ("timed", sampled, &|k| k.time_ns.count.to_string()),
        ("untimed", any(|k| k.lacking() > 0), &|k| k.lacking().to_string()),
        ("failed", any(|k| k.failed > 0), &|k| k.failed.to_string()),
        ("bytes", of.moves, &|k| bytes(k.bytes)),
        ("GB/s", of.moves, &|k| dash(k.gigabytes_per_second.map(|r| format!("{r:.2}")))),
        ("mean", true, &|k| of_all(k, |e| e.mean_ns, |s| s.mean)),
        ("median", true, &|k| of_all(k, |e| e.median_ns, |s| s.median)),
        (PLUS_MINUS, sampled, &|k| interval(k, |e| e.median_ns)),
        ("p95", true, &|k| of_all(k, |e| e.p95_ns, |s| s.p95)),
        (PLUS_MINUS, sampled, &|k| interval(k, |e| e.p95_ns)),
        ("min", true, &|k| of_timed(k, |s| s.min.map(|ns| ns as f64))),
        ("max", true, &|k| of_timed(k, |s| s.max.map(|ns| ns as f64))),
        (of.last.0, true, of.last.1),
    ];
    Table::of_rows(rows.iter().copied(), &columns)
}

/// The share of commands, unknown where nothing was timed; estimates are marked.
fn share(k: &Commands) -> String {
    match &k.estimate {
        Some(e) => dash(e.share.map(|s| format!("~{}", percent(Some(s.value))))),
        None => percent(k.share.filter(|_| k.time_ns.count > 0)),
    }
}

fn total(k: &Commands) -> String {
    match (&k.estimate, &k.at_most_ns) {
        (Some(e), _) => e.total_ns.as_ref().map_or_else(|| "?".to_owned(), estimated),
        (None, Some(most)) => format!("<{}", time(most.total as f64)),
        (None, None) => time_or_dash((k.time_ns.count > 0).then_some(k.time_ns.total as f64)),
    }
}

fn corrected(k: &Commands) -> String {
    let mark = if k.estimate.is_some() { "~" } else { "" };
    dash(k.corrected_total_ns.map(|c| format!("{mark}{}", time(c.value))))
}

/// A figure of all commands, of which some may be left out.
fn of_all(
    k: &Commands,
    estimate: fn(&Estimates) -> Option<Interval>,
    timed: fn(&Summary) -> Option<f64>,
) -> String {
    match &k.estimate {
        Some(e) => dash(estimate(e).as_ref().map(estimated)),
        None => of_timed(k, timed),
    }
}

/// A figure of the timed commands, or a bound of it.
fn of_timed(k: &Commands, of: fn(&Summary) -> Option<f64>) -> String {
    match &k.at_most_ns {
        Some(most) => format!("<{}", time_or_dash(of(most))),
        None => time_or_dash(of(&k.time_ns)),
    }
}

fn interval(k: &Commands, of: fn(&Estimates) -> Option<Interval>) -> String {
    k.estimate.as_ref().and_then(of).as_ref().map_or_else(String::new, plus_minus)
}

fn estimated(e: &Interval) -> String {
    format!("~{}", or_bound(e, time))
}

fn kernels(report: &Report, shown: &Shown, out: &mut Page) {
    let rows: Vec<&Commands> = report.kernels.iter().filter(|k| shown.matches(&k.name)).collect();
    if rows.is_empty() {
        return;
    }
    let total: u64 = rows.iter().map(|k| k.count).sum();
    let without: u64 = rows.iter().map(|k| k.untimed.saturating_sub(k.left_out)).sum();
    let launches = match without {
        // What is told of all is of those with a time, or like ones with a time.
        1.. if without < total => {
            format!("{} of {}", total - without, count(total, "launch", "launches"))
        }
        _ => count(total, "launch", "launches"),
    };
    let totals = report.totals_of(|name| shown.matches(name));
    let all = in_all(&rows, totals.kernel_ns, totals.kernel_estimate_ns.as_ref());
    let part = show_share(rows.iter().filter_map(|k| k.share), rows.len() < report.kernels.len());
    let sampled = rows.iter().any(|k| k.left_out > 0);
    let corrected = totals.kernel_corrected_ns.as_ref();
    let less = corrected.map_or_else(String::new, |c| {
        format!("; {}{} without the span bias", if sampled { "~" } else { "" }, time(c.value))
    });
    put!(out, "\nKernels by device time: {launches}{all}{less}{part}");
    let several = report.kernels.iter().any(|k| k.device != report.kernels[0].device);
    let name = |k: &Commands| match &k.device {
        Some(device) if several => format!("{} on {device}", k.name),
        _ => k.name.clone(),
    };
    let last = ("kernel", &name as &dyn Fn(&Commands) -> String);
    let shape = Shape { count: "launches", moves: false, last };
    let limit = shown.limit(rows.len());
    let table = table_of_commands(rows[..limit].iter().copied(), &shape);
    out.push_str(&table.render(shown.width));
    more(out, rows.len() - limit);
    bounded(rows.iter().copied(), out);
}

/// What the mark of bounds means, where there are any.
fn bounded<'a>(rows: impl IntoIterator<Item = &'a Commands>, out: &mut Page) {
    if rows.into_iter().any(|k| k.at_most_ns.is_some()) {
        out.push_str("  < the timestamps can be no times; by the host's clock it took no longer, waiting included\n");
    }
}

/// The sum of a section's times behind its heading; of nothing timed there is none.
fn in_all(of: &[&Commands], ns: u128, estimate: Option<&Interval>) -> String {
    if let Some(e) = estimate {
        return format!(" in ~{}", e.in_words(time));
    }
    if of.iter().any(|c| c.time_ns.count > 0) {
        format!(" in {}", time(ns as f64))
    } else {
        ", none timed".to_owned()
    }
}

/// The share of all that rows are, where others are not shown.
fn show_share(shares: impl Iterator<Item = f64>, is_part: bool) -> String {
    if is_part { format!(", {} of all", percent(Some(shares.sum()))) } else { String::new() }
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

fn transfers(report: &Report, shown: &Shown, out: &mut Page) {
    let plain = Shape { count: "count", moves: false, last: ("command", &|c| c.name.clone()) };
    if !report.transfers.is_empty() {
        let total: u64 = report.transfers.iter().fold(0, |sum, t| sum.saturating_add(t.bytes));
        put!(
            out,
            "\nTransfers: {}{}",
            bytes(total),
            in_all(
                &report.transfers.iter().collect::<Vec<_>>(),
                report.totals.transfer_ns,
                report.totals.transfer_estimate_ns.as_ref()
            )
        );
        let name = |t: &Commands| format!("{}{}", t.name, t.direction.map_or("", short_direction));
        let last = ("transfer", &name as &dyn Fn(&Commands) -> String);
        let shape = Shape { moves: true, last, ..plain };
        let table = table_of_commands(&report.transfers, &shape);
        out.push_str(&table.render(shown.width));
        bounded(&report.transfers, out);
    }
    if !report.other_commands.is_empty() {
        out.push_str("\nOther commands\n");
        let limit = shown.limit(report.other_commands.len());
        let table = table_of_commands(&report.other_commands[..limit], &plain);
        out.push_str(&table.render(shown.width));
        bounded(&report.other_commands[..limit], out);
    }
    if let Some(buffers) = &report.command_buffers {
        command_buffers(buffers, timed_in_command_buffers(report), shown, out);
    }
}

/// Nanoseconds that the device reports for a command buffer, and how many it times.
fn timed_in_command_buffers(report: &Report) -> Option<(u128, u64)> {
    let whole = report.other_commands.iter().find(|row| row.name == "CommandBuffer")?;
    Some((whole.time_ns.total, whole.time_ns.count))
}

/// No device runs a kernel in less: what is reported is not the time of the kernels.
const LEAST_LAUNCH_NS: u64 = 500;

/// Kernels of which only the number of launches is known.
fn command_buffers(
    buffers: &CommandBuffers,
    timed: Option<(u128, u64)>,
    shown: &Shown,
    out: &mut Page,
) {
    out.push_str(
        "\nKernels in command buffers (the time of all is that of CommandBuffer; it is not split by kernel)\n",
    );
    let mut table = Table::new(&["count", "kernel"]);
    for kernel in &buffers.kernels[..shown.limit(buffers.kernels.len())] {
        table.row(vec![kernel.launches.to_string(), kernel.name.clone()]);
    }
    out.push_str(&table.render(shown.width));
    if buffers.unknown > 0 {
        let n = count(buffers.unknown, "enqueue", "enqueues");
        put!(
            out,
            "  {n} of command buffers whose recording is not in the trace: their kernels are not counted"
        );
    }
    let launches: u64 = buffers.kernels.iter().map(|kernel| kernel.launches).sum();
    if let Some((total, timed)) = timed
        && timed > 0
        && launches > 0
        && total / u128::from(timed)
            < u128::from(LEAST_LAUNCH_NS * launches / buffers.enqueues.max(1))
    {
        put!(
            out,
            "  The device reports {} for {} launches: it does not time what is inside, so busy lacks it.",
            time((total / u128::from(timed)) as f64),
            launches.div_ceil(buffers.enqueues.max(1))
        );
    }
    out.push_str("  Kernel filters, --mix, --capture, --replay and the data races of `check` do not reach them.\n");
}

fn queues(report: &Report, shown: &Shown, out: &mut Page) {
    if report.queues.is_empty() {
        return;
    }
    let several = report.queues.iter().any(|q| q.device != report.queues[0].device);
    out.push_str("\nQueues (medians; idle between first and last command)\n");
    let is_known = |q: &Queue| q.execution_ns.count > 0;
    let known =
        |q: &Queue, ns: Option<u64>| time_or_dash(ns.filter(|_| is_known(q)).map(|ns| ns as f64));
    let busy = |q: &Queue| match q.left_out {
        0 => known(q, q.busy_ns),
        _ => dash(q.busy_estimate_ns.as_ref().map(estimated)),
    };
    let gaps =
        |q: &Queue| dash((q.left_out == 0 && is_known(q)).then(|| q.gaps_ns.count.to_string()));
    let name = |q: &Queue| {
        let order = if q.out_of_order { ", out of order" } else { "" };
        let mut processes = report.processes.iter().filter(|_| report.processes.len() > 1);
        let pid = processes.find(|p| p.label == q.process);
        let pid = pid.map_or_else(String::new, |p| format!(", pid {}", p.pid));
        format!("{}{order}{pid}", q.label(several))
    };
    let columns: [Column<'_, Queue>; 10] = [
        ("commands", true, &|q| q.commands.to_string()),
        ("busy", true, &busy),
        ("idle", true, &|q| known(q, q.idle_ns)),
        ("gaps", true, &gaps),
        ("gap", true, &|q| time_or_dash(q.gaps_ns.median)),
        ("to submit", true, &|q| time_or_dash(q.queue_wait_ns.median)),
        ("to start", true, &|q| time_or_dash(q.submit_wait_ns.median)),
        ("runs", true, &|q| time_or_dash(q.execution_ns.median)),
        ("to seen", true, &|q| time_or_dash(q.notice_ns.median)),
        ("queue", true, &name),
    ];
    limited(report.queues.iter(), &columns, shown, out);
    if report.queues.iter().any(|q| q.left_out > 0) {
        out.push_str("  Sampled: ~busy is the sum of estimated times; idle and gaps are not known, waits are of the timed commands\n");
    }
}

fn idle(report: &Report, shown: &Shown, out: &mut Page) {
    let total: u64 = report.idle.iter().map(|i| i.ns).sum();
    if total == 0 && report.idle_absent.is_empty() {
        return;
    }
    if total == 0 {
        out.push_str("\nWhy devices were idle between commands\n");
    } else {
        put!(out, "\nWhy devices were idle between commands: {}", time(total as f64));
        let mut table = Table::new(&["share", "idle", "before the next command began"]);
        for i in report.idle.iter().take(8) {
            table.row(vec![percent(i.share), time(i.ns as f64), i.cause.clone()]);
        }
        out.push_str(&table.render(shown.width));
        gaps(report, shown, out);
    }
    for why in &report.idle_absent {
        put!(out, "  {why}");
    }
}

/// The longest gaps: when, what came before and after, and what most of each went to.
fn gaps(report: &Report, shown: &Shown, out: &mut Page) {
    if report.answer.gaps.is_empty() {
        return;
    }
    out.push_str("\nLongest gaps between commands of a process\n");
    let mut table = Table::new(&["at", "length", "between, and why"]);
    for gap in &report.answer.gaps {
        let name =
            |of: &Option<String>| shorten::middle(of.as_deref().unwrap_or("a command"), GAP_NAME);
        let between = format!("{} and {}: {}", name(&gap.before), name(&gap.after), gap.cause);
        table.row(vec![time(gap.at_ns), time(gap.ns), between]);
        // Where the host was: what enqueued the command behind the gap.
        let thread = gap.thread.iter().map(|thread| format!("by {thread}"));
        let place = gap.called_from.iter().map(|place| format!("at {place}"));
        let by: Vec<String> = thread.chain(place).collect();
        if !by.is_empty() {
            let by = format!("    {} was enqueued {}", name(&gap.after), by.join(" "));
            table.row(vec![String::new(), String::new(), by]);
        }
    }
    out.push_str(&table.render(shown.width));
}

/// Buffers by size and flags, with the copies that used them.
fn buffers(report: &Report, shown: &Shown, out: &mut Page) {
    let rows = &report.answer.buffers;
    if rows.is_empty() {
        return;
    }
    out.push_str("\nBuffers by size and flags\n");
    let copies = |of: &Option<BufferCopies>| {
        dash(of.map(|of| format!("{} x {}", of.count, bytes(of.bytes / of.count.max(1)))))
    };
    let columns: [Column<'_, BufferRow>; 5] = [
        ("made", true, &|row| row.made.to_string()),
        ("bytes each", true, &|row| bytes(row.bytes)),
        ("to device", true, &|row| copies(&row.to_device)),
        ("from device", true, &|row| copies(&row.from_device)),
        ("flags", true, &|row| row.flags.clone()),
    ];
    limited(rows.iter(), &columns, shown, out);
}

/// What the application does again and again.
fn patterns(report: &Report, out: &mut Page) {
    if report.answer.patterns.is_empty() {
        return;
    }
    out.push_str("\nWhat the application repeats\n");
    for pattern in &report.answer.patterns {
        put!(out, "  {}", pattern.text);
    }
}

/// Characters of a command's name beside a gap.
const GAP_NAME: usize = 24;

/// The most entries of what one function waited for.
const WAITED_FOR: usize = 3;

fn waits(report: &Report, shown: &Shown, out: &mut Page) {
    let waited: u128 = report.waits.iter().map(|w| w.function.time_ns.total).sum();
    if waited == 0 {
        return;
    }
    put!(out, "\nWhat the host waited for, blocked on devices: {}", time(waited as f64));
    let ran = |w: &Wait| {
        let total = w.function.time_ns.total as f64;
        let estimated = w.waited_for.iter().any(|of| of.interval_ns.is_some());
        let mark = if estimated { "~" } else { "" };
        let of = |(name, ns): (&str, Option<u64>)| match ns {
            Some(ns) => {
                let known = w.waited_for.iter().find(|of| of.name == name);
                let known = known.and_then(|of| of.interval_ns.as_ref()).filter(|_| total > 0.0);
                let share = percent((total > 0.0).then(|| ns as f64 / total));
                let sides = known.map_or_else(String::new, |of| points(&of.times(1.0 / total)));
                format!("{name} {mark}{share}{sides}")
            }
            None => name.to_owned(),
        };
        let ran: Vec<String> = w.ran(WAITED_FOR).into_iter().map(of).collect();
        format!("{}: {}", w.function.name, ran.join(", "))
    };
    let columns: [Column<'_, Wait>; 4] = [
        ("share", true, &|w| percent(w.share_of_waits)),
        ("blocked", true, &|w| time(w.function.time_ns.total as f64)),
        ("waits", true, &|w| w.function.calls.to_string()),
        ("blocked in, while the device ran", true, &ran),
    ];
    limited(report.waits.iter(), &columns, shown, out);
}

/// What stands behind a share: its sides in points of per cent, where they are not none as shown.
fn points(of: &Interval) -> String {
    let [below, above] = [of.value - of.low, of.high - of.value];
    match [below, above].map(|side| format!("{:.1}", 100.0 * side)) {
        _ if !of.longer().is_finite() => " +-?".to_owned(),
        [below, above] if below == "0.0" && above == "0.0" => String::new(),
        [below, above] if below == above => format!(" +-{above}%"),
        [below, above] => format!(" -{below}/+{above}%"),
    }
}

fn functions(report: &Report, shown: &Shown, out: &mut Page) {
    let rows: Vec<&Function> = report.functions.iter().filter(|f| shown.matches(&f.name)).collect();
    if rows.is_empty() {
        return;
    }
    let totals = report.totals_of(|name| shown.matches(name));
    let part = show_share(rows.iter().filter_map(|f| f.share), rows.len() < report.functions.len());
    put!(
        out,
        "\nAPI calls by host time: {} in {}{part}",
        count(totals.calls, "call", "calls"),
        time(totals.call_ns as f64)
    );
    let errors = rows.iter().any(|f| f.errors > 0);
    let columns: [Column<'_, Function>; 10] = [
        ("share", true, &|f| percent(f.share)),
        ("total", true, &|f| time(f.time_ns.total as f64)),
        ("calls", true, &|f| f.calls.to_string()),
        ("errors", errors, &|f| f.errors.to_string()),
        ("mean", true, &|f| time_or_dash(f.time_ns.mean)),
        ("median", true, &|f| time_or_dash(f.time_ns.median)),
        ("p95", true, &|f| time_or_dash(f.time_ns.p95)),
        ("min", true, &|f| time_or_dash(f.time_ns.min.map(|ns| ns as f64))),
        ("max", true, &|f| time_or_dash(f.time_ns.max.map(|ns| ns as f64))),
        ("function", true, &|f| f.name.clone()),
    ];
    limited(rows.iter().copied(), &columns, shown, out);
    let failed: Vec<String> = rows.iter().flat_map(|f| f.failures()).collect();
    if !failed.is_empty() {
        let more = failed.len().saturating_sub(6);
        let shortened = match more {
            0 => String::new(),
            _ => format!(", and {more} more: see --format json"),
        };
        put!(out, "  Errors: {}{shortened}", failed[..failed.len().min(6)].join(", "));
    }
}
