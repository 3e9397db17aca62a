//! Streams of Intel's observation architecture, summed up, and metric sets, as text for people.

use clscope_metrics::Number;
use clscope_metrics::decode::Decoded;
use clscope_metrics::set::{MetricSet, SetFigure};
use clscope_oa::time::ticks_to_ns;
use std::io::{self, Write};

/// Sums over a whole stream of this name; `counts` where the counters themselves were asked for.
///
/// # Errors
/// Where it cannot be written.
pub fn summary(
    out: &mut impl Write,
    name: &str,
    decoded: &Decoded,
    counts: bool,
) -> io::Result<()> {
    let layout = decoded.layout;
    writeln!(
        out,
        "{}: {} ({} bytes), {:?}, decoded as specified",
        name, layout.name, layout.bytes, decoded.generation
    )?;
    if let Some(doubt) = layout.doubt {
        writeln!(out, "  note: {doubt}")?;
    }
    if let Some(info) = &decoded.info {
        writeln!(
            out,
            "  recorded on device {:#06x} revision {}, set {} ({})",
            info.device_id, info.revision, info.set, info.uuid
        )?;
    }
    let tally = decoded.tally;
    let reasons: Vec<String> = decoded
        .reasons
        .iter()
        .map(|(words, n)| {
            format!("{n} {}", if words.is_empty() { "without a reason" } else { words })
        })
        .collect();
    writeln!(out, "  reports: {} ({})", tally.reports, reasons.join(", "))?;
    let losses = [
        (tally.reports_lost, "times reports were lost"),
        (tally.buffer_lost, "times the buffer was lost"),
        (tally.unwritten, "reports not written yet, skipped"),
        (tally.short, "reports of the wrong size, skipped"),
        (tally.maybe_missed_wraps, "intervals in which a 32-bit counter may have wrapped twice"),
        (decoded.unknown, "records of unknown type, skipped"),
        (decoded.left as u64, "bytes at the end that are no whole report"),
    ];
    for (n, what) in losses.iter().filter(|(n, _)| *n > 0) {
        writeln!(out, "  warning: {n} {what}")?;
    }
    let ticks = decoded.total.time_ticks();
    let time = decoded.hz.and_then(|hz| ticks_to_ns(ticks, hz));
    let seconds = time
        .map_or(format!("{ticks} ticks (frequency not known: --stream hz=FREQUENCY)"), |ns| {
            format!("{:.6} s", ns as f64 * 1e-9)
        });
    writeln!(out, "  time covered: {seconds} in {} intervals", tally.intervals)?;
    if decoded.contexts.keys().any(Option::is_some) {
        let name = |c: &Option<u32>| c.map_or("none or unknown".to_owned(), |c| format!("{c:#x}"));
        let share =
            |t: u64| 100.0 * t as f64 / decoded.contexts.values().sum::<u64>().max(1) as f64;
        let parts: Vec<String> = decoded
            .contexts
            .iter()
            .map(|(c, t)| format!("{} {:.1} %", name(c), share(*t)))
            .collect();
        writeln!(out, "  contexts: {}", parts.join(", "))?;
    }
    match &decoded.chosen {
        Some(chosen) => {
            let set = &chosen.set;
            writeln!(out, "\nset {} ({}, {})", set.symbol, set.chipset, set.origin)?;
            let outcomes = set.evaluate(&decoded.total, &decoded.variables, &chosen.which);
            for (metric, outcome) in chosen.metrics().zip(&outcomes) {
                writeln!(out, "  {:<24} {}", metric.symbol, cell(outcome, &metric.unit))?;
            }
            writeln!(out, "\nvariables")?;
            for (name, value, from) in decoded.variables.iter() {
                writeln!(out, "  ${name:<23} {value:>20}  {from}")?;
            }
        }
        None => {
            let why = if counts {
                ""
            } else {
                " (no metric set is built in for this GPU: --metrics DIR reads others)"
            };
            writeln!(out, "\ncounts{why}")?;
            if let Some(ticks) = decoded.total.gpu_ticks() {
                writeln!(out, "  {:<24} {ticks:>20}", "GPU ticks")?;
            }
            for counter in layout.counters() {
                writeln!(
                    out,
                    "  {:<24} {:>20}",
                    counter.to_string(),
                    decoded.total.get(counter).unwrap_or(0)
                )?;
            }
        }
    }
    Ok(())
}

fn cell(outcome: &SetFigure, unit: &str) -> String {
    match &outcome.value {
        Err(why) => format!("{:>20}  {why}", "-"),
        Ok(value) => {
            let number = match value {
                Number::Int(n) => n.to_string(),
                Number::Float(x) => format!("{x:.3}"),
            };
            let notes = [
                (outcome.divided_by_zero, " (a division by zero counts as 0)"),
                (outcome.exceeds_max, " (more than can be: not this set's counts?)"),
            ];
            let notes: String = notes.iter().filter(|(is, _)| *is).map(|(_, n)| *n).collect();
            format!("{number:>20}  {unit}{notes}")
        }
    }
}

/// Metric sets; of one alone, by name or UUID, the figures, too. Gives how many were written.
///
/// # Errors
/// Where it cannot be written.
pub fn sets(out: &mut impl Write, sets: &[MetricSet], only: Option<&str>) -> io::Result<usize> {
    let wanted = |s: &&MetricSet| {
        only.is_none_or(|n| {
            s.symbol.eq_ignore_ascii_case(n) || s.uuid.is_some_and(|u| u.as_str() == n)
        })
    };
    let mut shown = 0;
    for set in sets.iter().filter(wanted) {
        shown += 1;
        let uuid = set.uuid.map_or(String::new(), |u| format!(" {u}"));
        writeln!(
            out,
            "{} ({}, {}):{uuid} {} figures",
            set.symbol,
            set.chipset,
            set.origin,
            set.metrics.len()
        )?;
        if only.is_some() {
            for metric in &set.metrics {
                writeln!(out, "  {:<28} {:<9} {}", metric.symbol, metric.unit, metric.description)?;
            }
        }
    }
    Ok(shown)
}
