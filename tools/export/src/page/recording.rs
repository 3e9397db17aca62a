//! The page's section about the recording: on what, what it cost, how far to trust it. Refuses to
//! compute figures.

use super::ROWS;
use super::html::{Html, time};
use super::tables::{count, figure, interval, more, percent, table};
use clscope_profile::interval::Interval;
use clscope_profile::report::Report;

/// Issues that are listed.
const ISSUES: usize = 100;

/// What was recorded, on what, what it cost, and how far to trust it.
pub fn section(page: &mut Html, report: &Report) {
    page.raw("<section id=\"recording\"><h2>Recording</h2>\n<p>Traces: ");
    page.name(&report.traces.join(", ")).raw("</p>\n<p>Recording calls took about <b data-v=\"");
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
            match (&p.running_as_of, &p.no_end) {
                (Some(as_of), _) => page.raw("still runs, as of ").put(as_of),
                (None, Some(why)) => page.name(why),
                (None, None) => page.raw(if p.ended { "in order" } else { "not known" }),
            };
            page.raw("</td>");
        },
    );
    more(page, report.processes.len());
    let columns = [
        "Device",
        "Driver",
        "Busy#",
        "Of recorded#",
        match report.repeated_ns {
            Some(_) => "First to last command, without repetitions#",
            None => "First to last command#",
        },
        "Clock bound, median#",
        "at most#",
        "Drift#",
        "Span bias#",
    ];
    table(page, &columns, report.devices.iter().take(ROWS), |page, d| {
        page.raw("<td class=\"name\">").name(&d.name).raw("</td><td>").name(&d.driver).raw("</td>");
        interval(page, d.busy().filter(|_| d.extent_ns > 0).as_ref(), time);
        interval(page, d.busy_share.as_ref(), percent);
        figure(page, (d.extent_ns > 0).then_some(d.extent_ns as f64), time);
        figure(page, d.clock_bound_ns.median, time);
        figure(page, d.clock_bound_ns.max.map(|x| x as f64), time);
        interval(page, d.drift.as_ref(), |x| format!("{:.2} ppm", x * 1e6));
        // It was measured, and its interval is that of the measurement.
        let bias = d.span_bias_ns.map(|bias| Interval { estimated: true, ..bias });
        interval(page, bias.as_ref(), time);
    });
    page.raw("<p class=\"soft\">Median and p95 err by up to ")
        .put(percent(report.percentile_error));
    page.raw("; counts, totals, least and most are exact. A device time lies on the host's clock within its clock bound.</p>\n");
    let notes: Vec<_> =
        report.issues.iter().filter(|i| i.severity == "note").take(ISSUES).collect();
    if !notes.is_empty() {
        page.raw("<h3>Notes</h3>\n");
        for note in notes {
            page.raw("<p class=\"soft\">").name(&note.subject).raw(": ").prose(&note.text);
            page.raw("</p>\n");
        }
    }
    page.raw("</section>\n");
}
