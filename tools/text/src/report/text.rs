//! Owns the report for people: a heading, then one table per section that has something to say.

use super::{Section, Shown};
use crate::figure::{or_bound, plus_minus};
use crate::table::{PLUS_MINUS, Table, bytes, percent, time, time_or_dash, wrapped};
use clscope_io::shorten;
use clscope_io::text::{Page, count};
use clscope_profile::answer::data::BufferCopies;
use clscope_profile::interval::Interval;
use clscope_profile::report::data::{CommandBuffers, Commands, Function, Report, Summary};
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

/// Share, total and its interval of commands of which some may be left out: estimates are marked.
fn sum_of_all(k: &Commands) -> [String; 3] {
    let Some(e) = &k.estimate else {
        let [share, total] = sum(k.share, &k.time_ns);
        let bound = k.at_most_ns.as_ref().map(|most| format!("<{}", time(most.total as f64)));
        return [share, bound.unwrap_or(total), String::new()];
    };
    let share =
        e.share.as_ref().map_or_else(|| "-".to_owned(), |s| format!("~{}", percent(Some(s.value))));
    match &e.total_ns {
        Some(total) => [share, estimated(Some(total)), plus_minus(total)],
        None => [share, "?".to_owned(), String::new()],
    }
}

fn estimated(e: Option<&Interval>) -> String {
    e.map_or_else(|| "-".to_owned(), |e| format!("~{}", or_bound(e, time)))
}

/// Titles of [`spread_of_all`]: estimates have their intervals behind them. That of the mean is the
/// total's.
fn titles_of_spread(sampled: bool) -> Vec<&'static str> {
    match sampled {
        true => vec!["mean", "median", PLUS_MINUS, "p95", PLUS_MINUS, "min", "max"],
        false => vec!["mean", "median", "p95", "min", "max"],
    }
}

/// As [`spread`], of all commands; the least and the most are those of the timed ones.
fn spread_of_all(k: &Commands, sampled: bool) -> Vec<String> {
    let cells = match &k.at_most_ns {
        Some(most) => spread(most).map(|cell| format!("<{cell}")),
        None => spread(&k.time_ns),
    };
    let [mut mean, mut median, mut p95, min, max] = cells;
    let mut intervals = [String::new(), String::new()];
    if let Some(e) = &k.estimate {
        mean = estimated(e.mean_ns.as_ref());
        median = estimated(e.median_ns.as_ref());
        p95 = estimated(e.p95_ns.as_ref());
        intervals =
            [&e.median_ns, &e.p95_ns].map(|of| of.as_ref().map_or_else(String::new, plus_minus));
    }
    let [of_median, of_p95] = intervals;
    match sampled {
        true => vec![mean, median, of_median, p95, of_p95, min, max],
        false => vec![mean, median, p95, min, max],
    }
}

/// Share and total, unknown where nothing was timed.
fn sum(share: Option<f64>, s: &Summary) -> [String; 2] {
    if s.count == 0 {
        ["-".to_owned(), "-".to_owned()]
    } else {
        [percent(share), time(s.total as f64)]
    }
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

fn more(out: &mut Page, hidden: usize) {
    if hidden > 0 {
        let _ = writeln!(out, "  and {hidden} more: --limit 0 shows all");
    }
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
    let _ = writeln!(out, "\nKernels by device time: {launches}{all}{less}{part}");
    let several = report.kernels.iter().any(|k| k.device != report.kernels[0].device);
    let untimed = rows.iter().any(|k| k.untimed > k.left_out);
    let corrected = rows.iter().any(|k| k.corrected_total_ns.is_some());
    let mut titles = vec!["share", "total"];
    let columns = [
        (sampled, PLUS_MINUS),
        (corrected, "corrected"),
        (true, "launches"),
        (sampled, "timed"),
        (untimed, "untimed"),
    ];
    titles.extend(columns.iter().filter(|(on, _)| *on).map(|(_, title)| *title));
    titles.extend(titles_of_spread(sampled));
    titles.push("kernel");
    let mut table = Table::new(&titles);
    let limit = shown.limit(rows.len());
    for k in &rows[..limit] {
        let [share, total, interval] = sum_of_all(k);
        let mark = if k.estimate.is_some() { "~" } else { "" };
        let corrected = k
            .corrected_total_ns
            .as_ref()
            .map_or_else(|| "-".to_owned(), |c| format!("{mark}{}", time(c.value)));
        let mut cells = vec![share, total];
        let figures = [
            interval,
            corrected,
            k.count.to_string(),
            k.time_ns.count.to_string(),
            (k.untimed - k.left_out.min(k.untimed)).to_string(),
        ];
        cells.extend(
            columns.iter().zip(figures).filter(|((on, _), _)| *on).map(|(_, figure)| figure),
        );
        cells.extend(spread_of_all(k, sampled));
        cells.push(match &k.device {
            Some(device) if several => format!("{} on {device}", k.name),
            _ => k.name.clone(),
        });
        table.row(cells);
    }
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
    if !report.transfers.is_empty() {
        let total: u64 = report.transfers.iter().fold(0, |sum, t| sum.saturating_add(t.bytes));
        let _ = writeln!(
            out,
            "\nTransfers: {}{}",
            bytes(total),
            in_all(
                &report.transfers.iter().collect::<Vec<_>>(),
                report.totals.transfer_ns,
                report.totals.transfer_estimate_ns.as_ref()
            )
        );
        let sampled = report.transfers.iter().any(|t| t.left_out > 0);
        let columns = [
            (true, "share"),
            (true, "total"),
            (sampled, PLUS_MINUS),
            (true, "count"),
            (sampled, "timed"),
            (true, "bytes"),
            (true, "GB/s"),
        ];
        let mut titles: Vec<&str> =
            columns.iter().filter(|(on, _)| *on).map(|(_, title)| *title).collect();
        titles.extend(titles_of_spread(sampled));
        titles.push("transfer");
        let mut table = Table::new(&titles);
        for t in &report.transfers {
            let rate = t.gigabytes_per_second.map_or_else(|| "-".to_owned(), |r| format!("{r:.2}"));
            let [share, total, interval] = sum_of_all(t);
            let figures = [
                share,
                total,
                interval,
                t.count.to_string(),
                t.time_ns.count.to_string(),
                bytes(t.bytes),
                rate,
            ];
            let mut cells: Vec<String> = columns
                .iter()
                .zip(figures)
                .filter(|((on, _), _)| *on)
                .map(|(_, figure)| figure)
                .collect();
            cells.extend(spread_of_all(t, sampled));
            cells.push(format!("{}{}", t.name, t.direction.map_or("", short_direction)));
            table.row(cells);
        }
        out.push_str(&table.render(shown.width));
        bounded(&report.transfers, out);
    }
    if !report.other_commands.is_empty() {
        out.push_str("\nOther commands\n");
        let mut table = Table::new(&[
            "share", "total", "count", "mean", "median", "p95", "min", "max", "command",
        ]);
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
        let _ = writeln!(
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
        let _ = writeln!(
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
    let mut table = Table::new(&[
        "commands",
        "busy",
        "idle",
        "gaps",
        "gap",
        "to submit",
        "to start",
        "runs",
        "to seen",
        "queue",
    ]);
    let limit = shown.limit(report.queues.len());
    for q in &report.queues[..limit] {
        let order = if q.out_of_order { ", out of order" } else { "" };
        let pid = report
            .processes
            .iter()
            .find(|p| p.label == q.process)
            .filter(|_| report.processes.len() > 1);
        let pid = pid.map_or_else(String::new, |p| format!(", pid {}", p.pid));
        let untimed = q.execution_ns.count == 0;
        let known = |ns: Option<u64>| {
            ns.filter(|_| !untimed).map_or_else(|| "-".to_owned(), |ns| time(ns as f64))
        };
        let busy =
            if q.left_out > 0 { estimated(q.busy_estimate_ns.as_ref()) } else { known(q.busy_ns) };
        table.row(vec![
            q.commands.to_string(),
            busy,
            known(q.idle_ns),
            if q.left_out > 0 || untimed { "-".to_owned() } else { q.gaps_ns.count.to_string() },
            time_or_dash(q.gaps_ns.median),
            time_or_dash(q.queue_wait_ns.median),
            time_or_dash(q.submit_wait_ns.median),
            time_or_dash(q.execution_ns.median),
            time_or_dash(q.notice_ns.median),
            format!("{}{order}{pid}", q.label(several)),
        ]);
    }
    out.push_str(&table.render(shown.width));
    more(out, report.queues.len() - limit);
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
        let _ = writeln!(out, "\nWhy devices were idle between commands: {}", time(total as f64));
        let mut table = Table::new(&["share", "idle", "before the next command began"]);
        for i in report.idle.iter().take(8) {
            table.row(vec![percent(i.share), time(i.ns as f64), i.cause.clone()]);
        }
        out.push_str(&table.render(shown.width));
        gaps(report, shown, out);
    }
    for why in &report.idle_absent {
        let _ = writeln!(out, "  {why}");
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
    let mut table = Table::new(&["made", "bytes each", "to device", "from device", "flags"]);
    let limit = shown.limit(rows.len());
    for row in &rows[..limit] {
        let copies = |of: &Option<BufferCopies>| match of {
            Some(of) => format!("{} x {}", of.count, bytes(of.bytes / of.count.max(1))),
            None => "-".to_owned(),
        };
        table.row(vec![
            row.made.to_string(),
            bytes(row.bytes),
            copies(&row.to_device),
            copies(&row.from_device),
            row.flags.clone(),
        ]);
    }
    out.push_str(&table.render(shown.width));
    more(out, rows.len() - limit);
}

/// What the application does again and again.
fn patterns(report: &Report, out: &mut Page) {
    if report.answer.patterns.is_empty() {
        return;
    }
    out.push_str("\nWhat the application repeats\n");
    for pattern in &report.answer.patterns {
        let _ = writeln!(out, "  {}", pattern.text);
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
    let _ =
        writeln!(out, "\nWhat the host waited for, blocked on devices: {}", time(waited as f64));
    let mut table = Table::new(&["share", "blocked", "waits", "blocked in, while the device ran"]);
    let limit = shown.limit(report.waits.len());
    for w in &report.waits[..limit] {
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
        let f = &w.function;
        table.row(vec![
            percent(w.share_of_waits),
            time(total),
            f.calls.to_string(),
            format!("{}: {}", f.name, ran.join(", ")),
        ]);
    }
    out.push_str(&table.render(shown.width));
    more(out, report.waits.len() - limit);
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
    let _ = writeln!(
        out,
        "\nAPI calls by host time: {} in {}{part}",
        count(totals.calls, "call", "calls"),
        time(totals.call_ns as f64)
    );
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
        .flat_map(|f| {
            f.error_codes.iter().map(|(code, n)| {
                format!("{} {} ({})", f.name, error(*code), count(*n, "time", "times"))
            })
        })
        .collect();
    if !failed.is_empty() {
        let shortened = if failed.len() > 6 {
            format!(", and {} more: see --format json", failed.len() - 6)
        } else {
            String::new()
        };
        let _ = writeln!(out, "  Errors: {}{shortened}", failed[..failed.len().min(6)].join(", "));
    }
}

/// An error code by its name.
fn error(code: i32) -> String {
    match clscope_trace::names::error(code) {
        _ if code == clscope_trace::record::RESULT_UNKNOWN => "without a code".to_owned(),
        Some(name) => name.to_owned(),
        None => code.to_string(),
    }
}
