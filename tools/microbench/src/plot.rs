//! Plots of a run as SVG, and one HTML page that holds them all. Owns which plot shows what; refuses to compute figures beyond the
//! roofline's lines.
#![forbid(unsafe_code)]

use crate::results::{CaseResult, Results, Status};
use plotters::prelude::*;
use std::fmt::Display;
use std::ops::Range;

/// A plot.
pub struct Plot {
    /// File name without ending.
    pub name: &'static str,
    /// What it shows.
    pub title: String,
    /// The picture.
    pub svg: String,
}

/// Why a plot could not be drawn.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw the plot {plot}: {why}")]
pub struct PlotError {
    plot: &'static str,
    why: String,
}

struct Line {
    name: String,
    points: Vec<(f64, f64)>,
    /// A line alone, without markers at its points.
    bare: bool,
}

struct Axes<'a> {
    name: &'static str,
    title: &'a str,
    x: &'a str,
    y: &'a str,
    log_x: bool,
    log_y: bool,
}

/// Colours that people with the common kinds of colour blindness can tell apart (Okabe and Ito 2008), without yellow.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(60, 60, 60),
];

fn short(value: &f64) -> String {
    let a = value.abs();
    match a {
        _ if a == 0.0 => "0".to_owned(),
        _ if !(1e-3..1e6).contains(&a) => format!("{value:.0e}"),
        _ if a >= 10.0 => format!("{value:.0}"),
        _ if a >= 1.0 => format!("{}", (value * 10.0).round() / 10.0),
        _ => format!("{}", (value * 1000.0).round() / 1000.0),
    }
}

/// What an axis shows. `room` is the share of it that is left free at its upper end, for the legend.
fn range(values: impl Iterator<Item = f64>, log: bool, room: f64) -> Range<f64> {
    let (low, high) = values.fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(v), h.max(v)));
    if low > high {
        return 0.1..1.0;
    }
    if log {
        let (low, high) = (low / 1.5, high * 1.5);
        low..high * (high / low).powf(room)
    } else {
        low.min(0.0)..(high * (1.08 + room)).max(low + 1e-9)
    }
}

fn draw(axes: &Axes<'_>, lines: &[Line]) -> Result<String, PlotError> {
    let mut svg = String::new();
    let failed = |why: &dyn Display| PlotError { plot: axes.name, why: why.to_string() };
    let all = || lines.iter().flat_map(|l| &l.points);
    let room = if lines.len() > 1 { 0.1 + 0.06 * lines.len() as f64 } else { 0.0 };
    let xs = range(all().map(|p| p.0), axes.log_x, 0.0);
    let ys = range(all().map(|p| p.1), axes.log_y, room);
    {
        let root = SVGBackend::with_string(&mut svg, (760, 440)).into_drawing_area();
        root.fill(&WHITE).map_err(|e| failed(&e))?;
        let mut builder = ChartBuilder::on(&root);
        builder.caption(axes.title, ("sans-serif", 18)).margin(12).x_label_area_size(44).y_label_area_size(68);
        // The four kinds of axes are four types; what is drawn on them is the same.
        macro_rules! on {
            ($x:expr, $y:expr) => {{
                let mut chart = builder.build_cartesian_2d($x, $y).map_err(|e| failed(&e))?;
                chart
                    .configure_mesh()
                    .light_line_style(WHITE)
                    .x_desc(axes.x)
                    .y_desc(axes.y)
                    .x_label_formatter(&short)
                    .y_label_formatter(&short)
                    .label_style(("sans-serif", 13))
                    .draw()
                    .map_err(|e| failed(&e))?;
                for (index, line) in lines.iter().enumerate() {
                    let colour = COLOURS[index % COLOURS.len()];
                    let series = LineSeries::new(line.points.iter().copied(), colour.stroke_width(2));
                    chart
                        .draw_series(series)
                        .map_err(|e| failed(&e))?
                        .label(&line.name)
                        .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2)));
                    if !line.bare {
                        let dots = line.points.iter().map(|&p| Circle::new(p, 3, colour.filled()));
                        chart.draw_series(dots).map_err(|e| failed(&e))?;
                    }
                }
                if lines.len() > 1 {
                    chart
                        .configure_series_labels()
                        .position(SeriesLabelPosition::UpperLeft)
                        .background_style(WHITE.mix(0.85))
                        .border_style(RGBColor(190, 190, 190))
                        .label_font(("sans-serif", 13))
                        .draw()
                        .map_err(|e| failed(&e))?;
                }
            }};
        }
        match (axes.log_x, axes.log_y) {
            (false, false) => on!(xs, ys),
            (true, false) => on!(xs.log_scale(), ys),
            (false, true) => on!(xs, ys.log_scale()),
            (true, true) => on!(xs.log_scale(), ys.log_scale()),
        }
        root.present().map_err(|e| failed(&e))?;
    }
    Ok(svg)
}

/// Points of the cases that `choose` takes, in order of x; `None` where fewer than two are left.
fn line(results: &Results, name: &str, choose: impl Fn(&CaseResult) -> Option<(f64, f64)>) -> Option<Line> {
    let measured = results.cases.iter().filter(|c| c.status == Status::Measured);
    let mut points: Vec<(f64, f64)> = measured.filter_map(choose).filter(|p| p.0.is_finite() && p.1.is_finite()).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    (points.len() >= 2).then(|| Line { name: name.to_owned(), points, bare: false })
}

fn value(case: &CaseResult, figure: &str) -> Option<f64> {
    case.figure(figure).map(|f| f.estimate.value)
}

fn best(results: &Results, suite: &str, figure: &str, keep: impl Fn(&CaseResult) -> bool) -> Option<f64> {
    let ours = results.cases.iter().filter(|c| c.suite == suite && keep(c));
    ours.filter_map(|c| value(c, figure)).max_by(f64::total_cmp)
}

/// The roofline: the measured ceilings of arithmetic over those of memory.
fn roofline(results: &Results) -> Vec<Line> {
    let mut lines = Vec::new();
    let stream = best(results, "memory", "bandwidth", |c| matches!(c.parameter("pattern"), Some("copy" | "read" | "write")));
    let local = best(results, "memory", "bandwidth", |c| c.parameter("pattern") == Some("local"));
    let shaped =
        |scalar: &'static str| move |c: &CaseResult| c.parameter("type") == Some(scalar) && c.parameter("shape") == Some("private");
    for (memory, what) in [(stream, "global memory"), (local, "local memory")] {
        for scalar in ["float", "double"] {
            if let (Some(bandwidth), Some(peak)) = (memory, best(results, "flop", "rate", shaped(scalar))) {
                let roof = |x: f64| (x, peak.min(x * bandwidth));
                let knee = peak / bandwidth;
                let mut xs = vec![1.0 / 64.0, knee, 256.0f64.max(knee * 4.0)];
                xs.sort_by(f64::total_cmp);
                let name = format!("{scalar}, {what}: {} GFLOP/s, {} GB/s", short(&peak), short(&bandwidth));
                lines.push(Line { name, points: xs.into_iter().map(roof).collect(), bare: true });
            }
        }
    }
    lines
}

/// All plots that the results have data for.
///
/// # Errors
/// Where the drawing library fails.
pub fn plots(results: &Results) -> Result<Vec<Plot>, PlotError> {
    let mut plots = Vec::new();
    let mut add = |axes: Axes<'_>, lines: Vec<Line>| -> Result<(), PlotError> {
        if !lines.is_empty() {
            let svg = draw(&axes, &lines)?;
            plots.push(Plot { name: axes.name, title: axes.title.to_owned(), svg });
        }
        Ok(())
    };
    let axes = |name, title, x, y| Axes { name, title, x, y, log_x: false, log_y: false };

    let sweep = line(results, "", |c| Some((c.number("groups").filter(|_| c.suite == "flop")?, value(c, "rate")?)));
    add(axes("throughput", "Arithmetic throughput over work-groups", "work-groups", "GFLOP/s (float, mad)"), sweep.into_iter().collect())?;

    let roof = Axes { log_x: true, log_y: true, ..axes("roofline", "Roofline of the measured ceilings", "operations per byte", "GFLOP/s") };
    add(roof, roofline(results))?;

    for (name, figure, title, unit) in
        [("watts", "power", "Power by SIMD width", "W"), ("efficiency", "efficiency", "Efficiency by SIMD width", "GFLOP/s/W")]
    {
        let lines = ["float", "double", "half"].into_iter().filter_map(|scalar| {
            let ours =
                |c: &CaseResult| c.suite == "power" && c.parameter("type") == Some(scalar) && c.parameter("operation") == Some("fma");
            line(results, &format!("{scalar} fma"), |c| ours(c).then(|| Some((c.number("width")?, value(c, figure)?))).flatten())
        });
        add(Axes { log_x: true, ..axes(name, title, "elements of a vector", unit) }, lines.collect())?;
    }

    let widths = ["copy", "read", "write", "random", "copy_loop"].into_iter().filter_map(|pattern| {
        let ours =
            |c: &CaseResult| c.suite == "memory" && c.parameter("pattern") == Some(pattern) && c.number("elements_per_item") != Some(4.0);
        line(results, pattern, |c| ours(c).then(|| Some((c.number("width")?, value(c, "bandwidth")?))).flatten())
    });
    let memory = axes("memory", "Memory bandwidth by SIMD width", "words of an element", "GB/s");
    add(Axes { log_x: true, log_y: true, ..memory }, widths.collect())?;

    let mut transfers = Vec::new();
    for memory in ["pageable", "pinned", "mapped"] {
        for direction in ["to_device", "to_host"] {
            let ours = |c: &CaseResult| c.parameter("memory") == Some(memory) && c.parameter("direction") == Some(direction);
            let name = format!("{memory} {}", direction.replace('_', " "));
            transfers.extend(line(results, &name, |c| ours(c).then(|| Some((c.number("bytes")?, value(c, "time")? * 1e-3))).flatten()));
        }
    }
    let axes_of = axes("transfer", "Host-device transfers", "bytes", "microseconds");
    add(Axes { log_x: true, log_y: true, ..axes_of }, transfers)?;

    let kinds = ["add", "special", "local", "local2", "stream", "random"];
    let chains =
        |c: &CaseResult, kind: &str| c.parameter("kind") == Some(kind) && c.parameter("sweep").is_none() && c.number("ilp") == Some(1.0);
    for (name, figure, title, unit) in [
        ("latency", "latency", "Latency over occupancy", "ns an instruction"),
        ("concurrency", "throughput", "Throughput over occupancy", "Gop/s"),
    ] {
        let lines = kinds.into_iter().filter_map(|kind| {
            line(results, kind, |c| chains(c, kind).then(|| Some((value(c, "items_per_unit")?, value(c, figure)?))).flatten())
        });
        let axes = axes(name, title, "work-items on a compute unit", unit);
        add(Axes { log_x: true, log_y: true, ..axes }, lines.collect())?;
    }
    let lines = ["stream", "random"].into_iter().filter_map(|kind| {
        line(results, kind, |c| chains(c, kind).then(|| Some((value(c, "throughput")?, value(c, "latency")?))).flatten())
    });
    add(axes("contention", "Memory latency against throughput", "Gop/s", "ns"), lines.collect())?;
    let lines = ["stream", "random"].into_iter().filter_map(|kind| {
        let ours = |c: &CaseResult| c.parameter("kind") == Some(kind);
        line(results, kind, |c| ours(c).then(|| Some((c.number("alpha").filter(|a| *a > 0.0)?, value(c, "latency")?))).flatten())
    });
    let cusp = axes("cusp", "Time of an access with its additions", "additions for each access", "ns");
    add(Axes { log_x: true, log_y: true, ..cusp }, lines.collect())?;

    for (name, sweeps, title, x) in [
        ("groups", &["groups"][..], "Groups of one item", "groups"),
        ("waves", &["waves"], "Full groups", "groups"),
        ("group_size", &["group_size"], "Items of one group", "items"),
        ("registers", &["registers"], "Live variables", "live words"),
        ("vectors", &["vector_float", "vector_int"], "Vector units", "elements of a vector"),
        ("pairs", &["fused_float", "split_float", "fused_int", "split_int"], "Fusion: dependent and independent pairs", "pairs"),
    ] {
        let lines = sweeps.iter().filter_map(|sweep| {
            let ours = |c: &CaseResult| c.suite == "structure" && c.parameter("sweep") == Some(sweep);
            line(results, &sweep.replace('_', " "), |c| ours(c).then(|| Some((c.number("at")?, value(c, "time_per_statement")?))).flatten())
        });
        add(axes(name, title, x, "ns a statement"), lines.collect())?;
    }
    Ok(plots)
}

/// Text as HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// One page that needs nothing beside it: findings, plots, and every figure as a table.
#[must_use]
pub fn page(results: &Results, plots: &[Plot]) -> String {
    let d = &results.device;
    let mut html = format!(
        "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>clscope bench: {0}</title><style>\
         body{{font-family:sans-serif;max-width:1560px;margin:1em auto;padding:0 1em;color:#222}}\
         figure{{display:inline-block;margin:.3em}}svg{{max-width:100%;height:auto;border:1px solid #ddd}}\
         table{{border-collapse:collapse;font-size:.85em}}td,th{{padding:.15em .7em;border-bottom:1px solid #eee;text-align:left}}\
         td.n{{text-align:right;font-variant-numeric:tabular-nums}}.bad{{color:#b00}}</style></head><body><h1>{0}</h1>\
         <p>{1}; driver {2}; {3} compute units. Power: {4}.</p>",
        escaped(&d.name),
        escaped(&d.platform),
        escaped(&d.driver),
        d.compute_units,
        escaped(&results.power_source)
    );
    if results.interrupted {
        html.push_str("<p class=\"bad\">The run was ended early.</p>");
    }
    html.push_str("<h2>Findings</h2><ul>");
    for finding in &results.findings {
        let sure = finding.confidence.map_or_else(String::new, |c| format!(", confidence {:.1} %", c * 100.0));
        html.push_str(&format!("<li>{} <small>({}{sure})</small></li>", escaped(&finding.text), escaped(finding.method)));
    }
    html.push_str("</ul><h2>Plots</h2>");
    for plot in plots {
        html.push_str(&format!("<figure id=\"{}\">{}</figure>", plot.name, plot.svg));
    }
    html.push_str("<h2>Figures</h2><table><tr><th>case<th>figure<th>value<th>95 % interval<th>unit</tr>");
    for case in &results.cases {
        for figure in &case.figures {
            let e = figure.estimate;
            let interval = if e.half().is_finite() { format!("{:.4} to {:.4}", e.low, e.high) } else { "not known".to_owned() };
            html.push_str(&format!(
                "<tr><td>{}<td>{}<td class=\"n\">{:.4}<td class=\"n\">{interval}<td>{}</tr>",
                escaped(&case.id),
                escaped(&figure.name),
                e.value,
                figure.unit
            ));
        }
        if let Some(reason) = &case.reason {
            let kind = if case.status == Status::NotAvailable { "" } else { " class=\"bad\"" };
            html.push_str(&format!("<tr{kind}><td>{}<td colspan=\"4\">{}</tr>", escaped(&case.id), escaped(reason)));
        }
    }
    html.push_str("</table></body></html>\n");
    html
}
