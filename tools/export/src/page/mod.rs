//! Owns the report as one page: self-contained, readable without scripts, with a timeline that
//! zooms where they run. Every figure is the report's; behind each cell is the exact number that
//! the JSON has. Refuses to load anything, and to let an application's names be markup: a policy
//! in the page allows its own script and style alone.
//!
//! Bounded: spans are joined at the finest resolution that fits, tables end after [`ROWS`] rows,
//! and the JSON is left out where there is no room for it; the page says so each time.

mod answer;
mod answer_rows;
mod charts;
mod details;
mod executed;
mod explained;
mod findings;
pub mod html;
mod places;
mod recording;
mod spans;
mod tables;

use crate::power::Power;
use crate::rows::Section;
use crate::{ExportError, stacks};
use clscope_io::text::bytes;
use clscope_io::text::is_printable;
use clscope_models::explain::Explained;
use clscope_profile::energy::result::PartOf;
use clscope_profile::profile::View;
use clscope_profile::report::Report;
use html::{Html, joules, time};
use serde::Serialize;
use spans::Timeline;
use std::collections::BTreeSet;
use std::io::{BufWriter, Write};

const SCRIPT: &str = include_str!("page.js");
/// The style of all pages, light and dark.
pub const STYLE: &str = include_str!("page.css");
// SHA-256 of them, in base64, for the policy.
const SCRIPT_HASH: &str = "SUTGXl2QZiQglmyRYs/HoyGvliSNgchGZaGynGhNsJ8=";
/// SHA-256 of [`STYLE`], in base64, for a page's policy.
pub const STYLE_HASH: &str = "QTh5d+vuZrmbTmGKzsFSjfHQI0zI/knrLKlSZMrHeBQ=";

/// Rows of a table.
pub const ROWS: usize = 300;
/// Kernels whose rows open to details.
const OPEN: usize = 40;
/// Bytes of a span after compression, at most; measured on face detections, streams of launches and
/// synthetic traces: 3 to 10.
const SPAN_BYTES: u64 = 12;
/// Stretches of the overview.
const BINS: usize = 240;
/// Sensors that have a curve.
const CURVES: usize = 12;
/// Points of a sensor's curve.
const POINTS: usize = 1_500;

/// What a caller may choose.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Largest size of the page, bytes; `None` for any.
    pub most: Option<u64>,
    /// What the models say of each device's kernels, under the names that the view shows.
    pub explained: Vec<Explained>,
    /// Sections with tables.
    pub sections: Vec<Section>,
}

/// What the script draws from.
#[derive(Serialize)]
struct Facts<'f> {
    length: u64,
    lanes: &'f [spans::Lane],
    classes: &'f [String],
    #[serde(rename = "ofDevice")]
    of_device: &'f [bool],
    /// Watts of each class, where they are known, and half of their 95 % interval.
    watts: &'f [Option<f64>],
    #[serde(rename = "wattsHalf")]
    watts_half: &'f [Option<f64>],
    power: Vec<Curve>,
    /// Joules that are known only as a sum of several classes, which no curve shows.
    sums: Option<String>,
    /// Busy part of all devices by stretch.
    busy: Vec<f64>,
    /// Whether that is of a part of the commands, since others were not timed.
    partial: bool,
    /// Median clock bound, ns.
    bound: Option<f64>,
}

/// A sensor's curve.
#[derive(Serialize)]
struct Curve {
    name: String,
    unit: std::borrow::Cow<'static, str>,
    points: Vec<(i64, f64)>,
}

/// What of the energy is attributed to several classes together.
fn sums(report: &Report) -> Option<String> {
    let devices = report.energy.iter().flat_map(|energy| &energy.devices);
    let groups = devices.flat_map(|d| &d.groups).filter(|g| g.names.len() > 1);
    groups.map(|g| g.joules.value).reduce(|a, b| a + b).map(joules)
}

/// Writes the page of a report. It must be the view's.
///
/// # Errors
/// If a file of readings that the user named cannot be read, or `out` cannot be written.
pub fn write(
    view: &View<'_>,
    report: &Report,
    options: &Options,
    out: &mut dyn Write,
) -> Result<(), ExportError> {
    let bounds = spans::bounds(view);
    let (origin, length) = (bounds.begin.0, bounds.duration());
    // Half of the room for spans, the rest for tables and the JSON.
    let room = options.most.map_or(usize::MAX, |most| (most / 2 / SPAN_BYTES) as usize);
    let power = Power::of_view(view)?;
    let timeline = Timeline::build(view, &power, (origin, length), BINS, room);
    let (power, left_out) = curves(power, origin, length);
    let wanted = report.kernels.iter().take(OPEN);
    let key = |k: &clscope_profile::report::data::Commands| {
        (k.name.clone(), k.device.clone().unwrap_or_default())
    };
    let details = details::details_of(view, origin, &wanted.map(key).collect());
    let stacks = stacks::stacks_of(view, true)?;
    let mut page = Html::default();
    page.raw("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; base-uri 'none'; form-action 'none'; script-src 'sha256-")
        .put(SCRIPT_HASH)
        .raw("'; style-src 'sha256-")
        .put(STYLE_HASH)
        .raw("'\">\n<meta name=\"referrer\" content=\"no-referrer\">\n<title>")
        .name(&title(report))
        .raw(" – clscope</title>\n<style>")
        .raw(STYLE)
        .raw("</style>\n</head>\n<body>\n");
    head(&mut page, report, options);
    page.raw("<main>\n");
    changes(&mut page, report);
    answer::answer(&mut page, &report.answer, &report.traces);
    picture(&mut page, &timeline, report.sampling.is_some(), (&power, left_out), length);
    figures(&mut page, report);
    findings::findings(&mut page, report);
    let known = executed::Known::gather(view, &options.explained);
    places::places(&mut page, report);
    let has = |section| options.sections.contains(&section);
    if has(Section::Kernels) {
        tables::kernels(&mut page, report, &details, &known, length);
    }
    if has(Section::Energy) {
        tables::energy(&mut page, report);
    }
    tables::rest(&mut page, report, &options.sections);
    page.raw("<section id=\"flame\"><h2>Flame graph</h2>\n");
    charts::flames(&mut page, &stacks);
    page.raw("</section>\n");
    recording::section(&mut page, report);
    let facts = Facts {
        length,
        lanes: &timeline.lanes,
        classes: &timeline.classes,
        of_device: &timeline.of_device,
        watts: &timeline.watts,
        watts_half: &timeline.watts_half,
        power,
        sums: sums(report),
        busy: mean(timeline.busy.values(), BINS),
        partial: report.sampling.is_some(),
        bound: report.devices.iter().filter_map(|d| d.clock_bound_ns.median).reduce(f64::max),
    };
    let json = serde_json::to_string(&facts)?;
    page.raw("<script type=\"application/json\" id=\"facts\">");
    script_text(&mut page, &json);
    page.raw("</script>\n<script type=\"application/octet-stream\" id=\"spans\">")
        .base64(&timeline.columns()?)
        .raw("</script>\n");
    // The encoder clears a buffer at every write, and JSON is written word by word.
    let mut packed = BufWriter::with_capacity(1 << 16, crate::compressed(Vec::new()));
    serde_json::to_writer_pretty(&mut packed, report)?;
    let packed = packed.into_inner().map_err(std::io::IntoInnerError::into_error)?.finish()?;
    let left = options.most.unwrap_or(u64::MAX).saturating_sub(page.len() as u64);
    if (packed.len() as u64) * 4 / 3 + (SCRIPT.len() as u64) + 1_000 < left {
        page.raw("<script type=\"application/octet-stream\" id=\"report\">")
            .base64(&packed)
            .raw("</script>\n");
    } else {
        page.raw("<p class=\"soft\">The report as JSON is too long for this page: <code>clscope report --format json</code> prints it.</p>\n");
    }
    page.raw("</main>\n<script>").raw(SCRIPT).raw("</script>\n</body>\n</html>\n");
    out.write_all(page.finish().as_bytes())?;
    Ok(())
}

/// JSON inside a script element: no text in it may end the element, or begin a comment. What has no
/// glyph is written by its number, too.
fn script_text(page: &mut Html, json: &str) {
    let told = |c: char| matches!(c, '<' | '>' | '&' | '\'') || !is_printable(c);
    let mut rest = json;
    while let Some(at) = rest.find(told) {
        let (before, from) = rest.split_at(at);
        page.verbatim(before);
        let mut after = from.chars();
        for unit in after.next().map(|c| c.encode_utf16(&mut [0; 2]).to_vec()).unwrap_or_default() {
            page.verbatim(&format!("\\u{unit:04x}"));
        }
        rest = after.as_str();
    }
    page.verbatim(rest);
}

fn title(report: &Report) -> String {
    match (report.programs_text(), report.processes.len()) {
        (programs, _) if programs.is_empty() => report.traces.join(", "),
        (_, 1) => report.answer.run.command.clone(),
        (programs, n) => format!("{programs}, {n} processes"),
    }
}

fn head(page: &mut Html, report: &Report, options: &Options) {
    page.raw("<header><h1>").name(&title(report)).raw("</h1><span class=\"soft\">");
    let devices: Vec<&str> = report.devices.iter().map(|d| d.name.as_str()).collect();
    let hosts: Vec<&str> =
        report.hosts.iter().map(|h| h.name.as_str()).filter(|h| !h.is_empty()).collect();
    page.name(&devices.join(", "));
    if !hosts.is_empty() {
        page.raw(" · on ").name(&hosts.join(", "));
    }
    page.raw(" · clscope ").put(env!("CARGO_PKG_VERSION")).raw("</span><span class=\"tools\"><button id=\"json\" hidden>JSON</button><button id=\"theme\">Light/dark</button></span></header>\n");
    page.raw("<nav><a href=\"#why\">Why</a><a href=\"#time\">Timeline</a><a href=\"#findings\">Notes</a>");
    if report.places.is_some() {
        page.raw("<a href=\"#places\">Ranks and hosts</a>");
    }
    let links = [
        (Section::Kernels, "<a href=\"#kernels\">Kernels</a>"),
        (Section::Energy, "<a href=\"#energy\">Energy</a>"),
        (Section::Idle, "<a href=\"#idle\">Idle causes</a>"),
        (Section::Transfers, "<a href=\"#transfers\">Transfers</a>"),
        (Section::Waits, "<a href=\"#waits\">Host waits</a>"),
        (Section::Functions, "<a href=\"#functions\">API calls</a>"),
    ];
    for (_, link) in links.iter().filter(|(section, _)| options.sections.contains(section)) {
        page.raw(link);
    }
    page.raw("<a href=\"#flame\">Flame graph</a><a href=\"#recording\">Recording</a></nav>\n");
}

/// What the run changed of its application, and whether it still runs: before any figure.
fn changes(page: &mut Html, report: &Report) {
    let changes = report.changes.iter().flat_map(|changes| changes.lines());
    let texts: Vec<(&str, String)> = changes
        .map(|text| ("Changed: ", text))
        .chain(report.running().map(|text| ("Still running: ", text)))
        .collect();
    if texts.is_empty() {
        return;
    }
    page.raw("<ul class=\"findings\" id=\"changed\">\n");
    for (what, text) in texts {
        page.raw("<li class=\"warning\">").put(what).name(&text).raw("</li>\n");
    }
    page.raw("</ul>\n");
}

/// The five that matter.
fn figures(page: &mut Html, report: &Report) {
    page.raw("<div class=\"figures\">");
    let mut figure = |name: &'static str, value: &str, exact: Option<f64>, more: &str| {
        page.raw("<div class=\"figure\"><span>").raw(name).raw("</span><b");
        if let Some(exact) = exact {
            page.raw(" data-v=\"").put(exact).raw("\"");
        }
        page.raw(">").name(value).raw("</b><span>").prose(more).raw("</span></div>");
    };
    each_figure(&mut figure, report);
    page.raw("</div>\n");
}

type Figure<'f> = dyn FnMut(&'static str, &str, Option<f64>, &str) + 'f;

fn each_figure(figure: &mut Figure<'_>, report: &Report) {
    let wall = report.duration_ns.map(|ns| ns as f64);
    let processes = match report.processes.len() {
        1 => "first begin to last end".to_owned(),
        n => format!("when any of {n} processes was recorded, first begin to last end of each"),
    };
    let processes = match report.repeated_ns {
        Some(ns) => format!("{processes}; {} of it in repetitions", time(ns as f64)),
        None => processes,
    };
    figure("Recorded", &wall.map_or("nothing".into(), time), wall, &processes);
    busy(figure, report);
    let measured: Vec<_> = report.energy.iter().flat_map(|e| &e.devices).collect();
    if measured.is_empty() {
        let why = report.energy.as_ref().and_then(|e| e.absent.clone());
        figure("Energy", "not measured", None, &why.unwrap_or_else(|| "no sensor".into()));
    } else if let Some(unknown) = measured.iter().find(|d| d.measured_joules.is_none()) {
        // No time of it is covered by readings.
        let why =
            unknown.failed.as_deref().unwrap_or("a device has no readings that cover its work");
        figure("Energy", "not known", None, why);
    } else {
        let all: f64 = measured.iter().filter_map(|d| Some(d.own_joules()?.value)).sum();
        let parts = measured.iter().flat_map(|d| d.parts());
        let parts = parts.filter(|part| matches!(part.of, PartOf::Class(_) | PartOf::Sum(_)));
        let (low, high) =
            parts.fold((0.0, 0.0), |(low, high), p| (low + p.joules.low, high + p.joules.high));
        let mut more = format!("kernels and transfers: {} to {}", joules(low), joules(high));
        let own = measured.iter().filter_map(|d| d.repetitions.as_ref());
        let repeated: f64 = own.map(|r| r.joules.value).sum();
        if repeated > 0.0 {
            more += &format!("; without {} in repetitions", joules(repeated));
        }
        more += &measured.first().map_or_else(String::new, |d| d.in_window());
        figure("Energy", &joules(all), Some(all), &more);
    }
    match report.kernels.first() {
        Some(kernel) => {
            let share = kernel
                .share
                .map_or(String::new(), |s| format!("{:.1} % of kernel time, ", 100.0 * s));
            let more = format!("{share}{} launches", tables::count(kernel.count as f64));
            figure("Longest kernel", &kernel.name, kernel.share, &more);
        }
        None => figure("Longest kernel", "none", None, "no kernel was launched"),
    }
    let of = |severity: &str| report.issues.iter().filter(|i| i.severity == severity).count();
    let (warnings, errors) = (of("warning") + of("error"), report.totals.errors);
    let codes: BTreeSet<&str> =
        (report.issues.iter()).filter(|i| i.severity != "note").map(|i| i.code.as_str()).collect();
    let mut more: Vec<String> = codes.iter().take(3).map(|code| code.replace('-', " ")).collect();
    if codes.len() > 3 {
        more.push(format!("{} more kinds", codes.len() - 3));
    }
    let mut more = if more.is_empty() { "none".to_owned() } else { more.join(", ") };
    // Calls that fail are no warnings: an application may expect it.
    if errors > 0 {
        more +=
            &format!("; besides, {errors} API call{} failed", if errors == 1 { "" } else { "s" });
    }
    figure("Warnings", &warnings.to_string(), Some(warnings as f64), &more);
}

/// What shares of time are of.
fn of_time(report: &Report) -> &'static str {
    match report.repeated_ns {
        Some(_) => "of the time recorded without repetitions",
        None => "of the time recorded",
    }
}

/// Part of the time recorded in which devices ran commands, estimated where sampling left some out.
fn busy(figure: &mut Figure<'_>, report: &Report) {
    let used: Vec<_> = report.devices.iter().filter(|d| d.extent_ns > 0).collect();
    if used.is_empty() {
        return figure("Device busy", "nothing ran", None, "no command has a device time");
    }
    let Some((busy, share)) = report.busy() else {
        let why = used.iter().find_map(|d| d.busy_absent.as_deref());
        return figure(
            "Device busy",
            "not known",
            None,
            why.unwrap_or("the trace has no duration"),
        );
    };
    let of = match used.len() {
        1 => of_time(report).to_owned(),
        _ => format!("{}, of all processes together", of_time(report)),
    };
    let mut more = format!("{of}: {}", tables::format_interval(&busy, time));
    if busy.estimated {
        more += "; not all launches were timed";
    }
    let without: u64 = used.iter().map(|d| d.busy_without).sum();
    if without > 0 {
        more += &format!("; without {without} of kinds never timed");
    }
    let mark = if busy.estimated { "~" } else { "" };
    let shown = format!("{mark}{}", tables::percent(share.value));
    figure("Device busy", &shown, Some(share.value), &more);
}

/// The timeline: a picture for all, and what the script draws on.
fn picture(
    page: &mut Html,
    timeline: &Timeline,
    partial: bool,
    (power, left_out): (&[Curve], usize),
    length: u64,
) {
    page.raw("<section id=\"time\"><h2>Timeline</h2>\n<div class=\"unscripted\">");
    charts::overview(page, (&timeline.busy, partial), power, length);
    page.raw("</div>\n<div id=\"timeline\"><p><input id=\"search\" type=\"search\" placeholder=\"/ name\" aria-label=\"Search spans by name\"> <span id=\"found\" class=\"soft\" aria-live=\"polite\"></span> <button id=\"in\" aria-label=\"Zoom in\">+</button> <button id=\"out\" aria-label=\"Zoom out\">−</button> <button id=\"all\">All</button></p><canvas id=\"overview\" role=\"img\" aria-label=\"Part of the time in which devices were busy\"></canvas><div id=\"rows\"><canvas id=\"lanes\" tabindex=\"0\" role=\"application\" aria-label=\"Timeline: W and S zoom, A and D move, N and P choose a span, F fits, slash searches\"></canvas><p id=\"hover\" hidden></p></div><ul id=\"legend\" aria-label=\"Colours\"></ul><p class=\"soft\">/ searches, N and P choose the next and the last span, F fits it, 0 shows all. Drag to move; wheel (after a click, or with Ctrl), pinch or W and S to zoom; A and D to move; drag over the upper strip to choose a part. Hatched spans stand for several.</p><p id=\"detail\" aria-live=\"polite\"></p></div>\n<p id=\"told\" class=\"soft\">");
    if timeline.resolution > 0 {
        page.prose(&format!(
            "{} spans are drawn of {}: neighbours within {} are one. Larger pages show more (`--max-size`), and `clscope export perfetto` each.",
            timeline.lanes.iter().map(|l| l.spans).sum::<usize>(),
            timeline.all,
            time(timeline.resolution as f64)
        ));
    }
    page.raw("</p>");
    if partial {
        page.raw("<p class=\"soft\">Commands that sampling left out are not drawn: a gap of a queue is not idle time.</p>");
    }
    if left_out > 0 {
        page.raw("<p class=\"soft\">").put(left_out).raw(if left_out == 1 {
            " sensor has"
        } else {
            " sensors have"
        });
        page.raw(" no curve here: <code>clscope export perfetto</code> has all.</p>");
    }
    page.raw("</section>\n");
}

fn mean<'b>(of: impl ExactSizeIterator<Item = &'b Vec<f64>>, bins: usize) -> Vec<f64> {
    let n = of.len().max(1) as f64;
    let mut out = vec![0.0; bins];
    of.for_each(|busy| out.iter_mut().zip(busy).for_each(|(sum, x)| *sum += x / n));
    // Three digits are more than a picture shows.
    out.iter_mut().for_each(|x| *x = (*x * 1000.0).round() / 1000.0);
    out
}

/// Curves of sensors within the run, and how many more there are.
fn curves(power: Power, origin: i64, length: u64) -> (Vec<Curve>, usize) {
    let curve = |c: crate::power::Counter| {
        let inside: Vec<_> = c
            .points
            .iter()
            .map(|(at, value)| (at.0.saturating_sub(origin), *value))
            .filter(|(at, _)| *at >= 0 && *at <= length as i64)
            .collect();
        let step = inside.len().div_ceil(POINTS).max(1);
        let mut points: Vec<(i64, f64)> = Vec::new();
        for known in inside.chunk_by(|_, next| next.1.is_finite()) {
            // Of each few the highest: a peak is what one looks for.
            let (end, known) = known.split_at(usize::from(!known[0].1.is_finite()));
            points.extend(end);
            let highest =
                |few: &[(i64, f64)]| few.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
            points.extend(known.chunks(step).filter_map(highest));
        }
        (points.len() > 1).then(|| Curve { name: html::cut(&c.name), unit: c.unit, points })
    };
    let mut out: Vec<Curve> = power.counters.into_iter().filter_map(curve).collect();
    // Watts first: there may be many sensors.
    out.sort_by_key(|c| c.unit != "W");
    let left_out = out.len().saturating_sub(CURVES);
    out.truncate(CURVES);
    (out, left_out)
}

/// Shown beside a transfer's bytes.
fn rate(bytes_per_ns: Option<f64>) -> String {
    bytes_per_ns.map_or_else(|| "-".to_owned(), |r| format!("{r:.2} GB/s"))
}

/// Bytes, or nothing.
fn size(n: u64) -> String {
    if n == 0 { "-".to_owned() } else { bytes(n as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The policy names the script and the style that are in the page, and no others.
    #[test]
    fn the_policy_allows_the_pages_own_script_and_style() {
        use base64::Engine as _;
        use clscope_testing::Limited;
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/page");
        for (file, hash) in [("page.js", SCRIPT_HASH), ("page.css", STYLE_HASH)] {
            let output = std::process::Command::new("sha256sum").arg(folder.join(file)).ended();
            let hex = String::from_utf8(output.stdout).unwrap();
            let digest: Vec<u8> =
                (0..32).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap()).collect();
            let wanted = base64::engine::general_purpose::STANDARD.encode(digest);
            assert_eq!(hash, wanted, "{file} was changed: its constant must be, too");
        }
    }

    #[test]
    fn no_text_ends_a_script() {
        let mut page = Html::default();
        let name = "</script><!--'&x\u{200f}\u{2028}\u{2066}\u{7f}\u{e0001}ä😀";
        script_text(&mut page, &serde_json::json!({ "n": name }).to_string());
        let text = page.finish();
        assert!(!text.contains(['<', '>', '&', '\'']), "{text}");
        assert!(text.chars().all(is_printable), "{text:?}");
        let back: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(back["n"], name);
    }
}
