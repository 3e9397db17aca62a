//! A roofline as a picture and as a page: logarithmic axes, a line for each ceiling, a numbered dot
//! for each kernel, and the numbers' names beside it. Refuses to compute: the models do.

use crate::page::html::Html;
use clscope_io::text::line;
use clscope_models::roofline::{Point, Roof, Roofline};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::fmt::Display;
use std::ops::Range;

/// Colours that people with the common kinds of colour blindness can distinguish (Okabe and Ito
/// 2008).
const BLUE: RGBColor = RGBColor(0, 114, 178);
const ORANGE: RGBColor = RGBColor(213, 94, 0);
const GREEN: RGBColor = RGBColor(0, 120, 90);
const DARK: RGBColor = RGBColor(40, 40, 40);
const GREY: RGBColor = RGBColor(110, 110, 110);

const SIZE: (u32, u32) = (1080, 600);
/// Width of the plot; the rest is the list of kernels.
const PLOT: u32 = 720;
/// Kernels in the list; further ones are dots without a number.
const LISTED: usize = 14;
/// Characters of a kernel's name in the list.
const NAME: usize = 34;

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw the roofline: {0}")]
pub struct NotDrawn(String);

type Result<T> = std::result::Result<T, NotDrawn>;

fn failed(why: impl Display) -> NotDrawn {
    NotDrawn(why.to_string())
}

fn cut(name: &str) -> String {
    let name = line(name);
    if name.chars().count() <= NAME {
        return name.into_owned();
    }
    name.chars().take(NAME - 1).chain(['…']).collect()
}

fn number(value: f64) -> String {
    match value.abs() {
        a if a >= 9995.0 => format!("{:.1}k", value / 1e3),
        a if a >= 99.95 => format!("{value:.0}"),
        a if a >= 9.995 => format!("{value:.1}"),
        a if a >= 0.0995 => format!("{value:.2}"),
        _ => format!("{value:.1e}"),
    }
}

/// A decade of an axis.
fn decade(value: &f64) -> String {
    let exponent = value.log10();
    if (exponent - exponent.round()).abs() > 1e-6 {
        return String::new();
    }
    match *value {
        v if v >= 1e6 => format!("{}M", v / 1e6),
        v if v >= 1e3 => format!("{}k", v / 1e3),
        v if v >= 0.99 => format!("{v:.0}"),
        v => format!("{v}"),
    }
}

fn whole_decades(values: impl Iterator<Item = f64>) -> Option<Range<f64>> {
    let (low, high) = values
        .filter(|v| v.is_finite() && *v > 0.0)
        .fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(v), h.max(v)));
    (low <= high).then(|| {
        let (low, high) = (low.log10().floor(), (high * 1.2).log10().ceil());
        10f64.powf(low)..10f64.powf(high.max(low + 1.0))
    })
}

/// Ceilings of one kind.
fn roofs<'r>(of: &'r Roofline, kind: &'static str) -> impl Iterator<Item = &'r Roof> {
    of.roofs.iter().filter(move |r| r.kind == kind)
}

fn ranges(of: &Roofline) -> Option<(Range<f64>, Range<f64>)> {
    let peak = roofs(of, "rate").map(|r| r.value.value).fold(f64::NAN, f64::max);
    // Where slopes meet the flat part.
    let ridges: Vec<f64> = roofs(of, "bandwidth").map(|r| peak / r.value.value).collect();
    let xs = of.points.iter().map(|p| p.intensity.value);
    let curve_xs = if of.curves.is_empty() { vec![] } else { vec![0.05, 100.0] };
    let mut x =
        whole_decades(xs.chain(ridges.iter().flat_map(|r| [r / 30.0, r * 8.0])).chain(curve_xs))?;
    // Dots at the far ends of what numbers can be are no reason to draw nothing else.
    x.start = x.start.max(x.end * 1e-9);
    let least = roofs(of, "bandwidth").map(|r| r.value.value * x.start).fold(f64::NAN, f64::min);
    let ys = of.points.iter().map(|p| p.rate.value);
    let inside = of.curves.iter().flat_map(|c| &c.points).filter(|p| x.contains(&p.0)).map(|p| p.1);
    let mut y = whole_decades(ys.chain([peak * 1.6, least * 3.0]).chain(inside))?;
    y.start = y.start.max(y.end * 1e-9);
    Some((x, y))
}

/// The picture as SVG.
///
/// # Errors
/// Where there is nothing to draw, or drawing fails.
pub fn svg(of: &Roofline) -> Result<String> {
    let Some((xs, ys)) = ranges(of) else {
        let why = of
            .missing
            .first()
            .map_or_else(|| "no kernel has a place in it".to_owned(), ToString::to_string);
        return Err(failed(why));
    };
    let mut out = String::new();
    {
        let root = SVGBackend::with_string(&mut out, SIZE).into_drawing_area();
        root.fill(&WHITE).map_err(failed)?;
        let title = format!(
            "{} of {}",
            if of.unit == "GFLOP/J" { "Energy roofline" } else { "Roofline" },
            cut(&of.device)
        );
        root.draw(&Text::new(title, (18, 14), ("sans-serif", 19).into_font().color(&DARK)))
            .map_err(failed)?;
        let (plot, list) = root.split_horizontally(PLOT);
        draw_plot(of, &plot, &xs, &ys)?;
        draw_list(of, &list)?;
        root.present().map_err(failed)?;
    }
    Ok(out)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn draw_plot(of: &Roofline, plot: &Area<'_>, xs: &Range<f64>, ys: &Range<f64>) -> Result<()> {
    let mut chart = ChartBuilder::on(plot)
        .margin(14)
        .margin_top(46)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(xs.clone().log_scale(), ys.clone().log_scale())
        .map_err(failed)?;
    chart
        .configure_mesh()
        .light_line_style(RGBColor(244, 244, 244))
        .bold_line_style(RGBColor(222, 222, 222))
        .x_desc("operational intensity, FLOP/byte")
        .y_desc(of.unit)
        .x_label_formatter(&decade)
        .y_label_formatter(&decade)
        .label_style(("sans-serif", 13))
        .draw()
        .map_err(failed)?;
    let peak = roofs(of, "rate").map(|r| r.value.value).fold(f64::NAN, f64::max);
    let fastest = roofs(of, "bandwidth").map(|r| r.value.value).fold(f64::NAN, f64::max);
    let anchored = |h, v| Pos::new(h, v);
    for (index, roof) in roofs(of, "bandwidth").enumerate() {
        let slope = roof.value.value;
        let top = if peak.is_finite() { peak } else { ys.end };
        let from = xs.start.max(ys.start / slope);
        let to = (top / slope).min(xs.end);
        let line = [(from, slope * from), (to, slope * to)];
        chart.draw_series(LineSeries::new(line, BLUE.stroke_width(2))).map_err(failed)?;
        // Above the corner, a row higher for each level, so that names of near ones do not meet.
        let style =
            ("sans-serif", 13).into_font().color(&BLUE).pos(anchored(HPos::Left, VPos::Bottom));
        let text = format!("{} {} GB/s", roof.name, number(slope));
        let named = EmptyElement::at((to, slope * to))
            + Text::new(text, (0, -4 - 14 * index as i32), style);
        chart.draw_series([named]).map_err(failed)?;
    }
    let mut above = f64::INFINITY;
    let mut rates: Vec<&Roof> = roofs(of, "rate").collect();
    rates.sort_by(|a, b| b.value.value.total_cmp(&a.value.value));
    for roof in rates {
        let rate = roof.value.value;
        let from =
            if fastest.is_finite() { (rate / fastest).clamp(xs.start, xs.end) } else { xs.start };
        chart
            .draw_series(LineSeries::new([(from, rate), (xs.end, rate)], DARK.stroke_width(2)))
            .map_err(failed)?;
        // Below its line where the one before stands just above.
        let near = (rate / above - 1.0).abs() < 0.15;
        above = if near { f64::INFINITY } else { rate };
        let (side, gap) = if near { (VPos::Top, 3) } else { (VPos::Bottom, -2) };
        let style = ("sans-serif", 13).into_font().color(&DARK).pos(anchored(HPos::Right, side));
        let text = format!("{} {} GFLOP/s", roof.name, number(rate));
        let at = 10f64.powf(xs.end.log10() - 0.02 * (xs.end / xs.start).log10());
        let named = EmptyElement::at((at, rate)) + Text::new(text, (0, gap), style);
        chart.draw_series([named]).map_err(failed)?;
    }
    for curve in &of.curves {
        let mut inside =
            curve.points.iter().copied().filter(|p| xs.contains(&p.0) && ys.contains(&p.1));
        chart.draw_series(LineSeries::new(inside.clone(), BLUE.stroke_width(2))).map_err(failed)?;
        if let Some(last) = inside.next_back() {
            let style = ("sans-serif", 13)
                .into_font()
                .color(&BLUE)
                .pos(anchored(HPos::Right, VPos::Bottom));
            chart
                .draw_series([Text::new(curve.name.clone(), (last.0, last.1 * 1.05), style)])
                .map_err(failed)?;
        }
    }
    let names = names(of);
    for (number, name) in names.iter().enumerate() {
        let ours: Vec<&Point> = of.points.iter().filter(|p| p.kernel == **name).collect();
        if let [a, b] = ours[..] {
            let of = |p: &Point| (p.intensity.value, p.rate.value);
            chart
                .draw_series(LineSeries::new([of(a), of(b)], GREY.mix(0.5).stroke_width(1)))
                .map_err(failed)?;
        }
        for point in ours {
            let at = (point.intensity.value, point.rate.value);
            // The larger, the more of the time it takes.
            let size = 4 + (6.0 * point.share.unwrap_or(0.0).clamp(0.0, 1.0).sqrt()) as i32;
            let colour = if point.bytes == "dram" { GREEN } else { ORANGE };
            chart.draw_series([Circle::new(at, size, colour.filled())]).map_err(failed)?;
            if number < LISTED {
                let style = ("sans-serif", 12)
                    .into_font()
                    .color(&DARK)
                    .pos(anchored(HPos::Left, VPos::Bottom));
                let text = EmptyElement::at(at)
                    + Text::new((number + 1).to_string(), (size, -size + 2), style);
                chart.draw_series([text]).map_err(failed)?;
            }
        }
    }
    Ok(())
}

/// Kernels in the order of their first dots.
fn names(of: &Roofline) -> Vec<&str> {
    let mut out: Vec<&str> = Vec::new();
    for point in &of.points {
        if !out.contains(&point.kernel.as_str()) {
            out.push(&point.kernel);
        }
    }
    out
}

fn draw_list(of: &Roofline, list: &Area<'_>) -> Result<()> {
    let mut y = 46;
    let mut put = |x: i32, text: String, size: i32, colour: RGBColor, step: i32| {
        let style = ("sans-serif", size).into_font().color(&colour);
        let drawn = list.draw(&Text::new(text, (x, y), style)).map_err(failed);
        y += step;
        drawn
    };
    let dram = of.points.iter().any(|p| p.bytes == "dram");
    put(8, "orange: bytes that were asked of memory".to_owned(), 12, ORANGE, 16)?;
    if dram {
        put(8, "green: bytes that memory moved (counters)".to_owned(), 12, GREEN, 16)?;
    }
    put(8, "dots grow with their share of the time".to_owned(), 12, GREY, 24)?;
    let names = names(of);
    for (n, name) in names.iter().take(LISTED).enumerate() {
        let Some(point) = of.points.iter().find(|p| p.kernel == **name) else { continue };
        put(8, format!("{} {}", n + 1, cut(name)), 13, DARK, 15)?;
        let above = if point.above { ", above it" } else { "" };
        let reached = point
            .reached
            .map_or_else(String::new, |r| format!(", {:.0} % of its roof{above}", r * 100.0));
        let text = format!("{} {} {}{reached}", point.precision, number(point.rate.value), of.unit);
        put(24, text, 12, GREY, 18)?;
    }
    if names.len() > LISTED {
        put(8, format!("and {} more without a number", names.len() - LISTED), 12, GREY, 16)?;
    }
    Ok(())
}

/// The picture and its numbers as one page.
///
/// # Errors
/// As [`svg`].
pub fn html(of: &Roofline) -> Result<String> {
    let picture = svg(of)?;
    let mut out = Html::default();
    out.raw("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Roofline of ");
    out.name(&of.device);
    out.raw("</title><style>body{font:14px sans-serif;margin:2em;color:#222}table{border-collapse:collapse}th,td{padding:.25em .8em;text-align:right;border-bottom:1px solid #ddd}th:first-child,td:first-child{text-align:left}</style></head><body>\n");
    out.verbatim(&picture);
    if let Some(of) = &of.forced {
        out.raw("<p>forced: ").name(of).raw("</p>\n");
    }
    out.raw("\n<table><tr><th>kernel</th><th>bytes</th><th>type</th><th>FLOP/byte</th><th>");
    out.put(of.unit);
    out.raw(
        "</th><th>of its roof</th><th>of the time</th><th>FLOP are</th><th>bytes are</th></tr>\n",
    );
    for p in &of.points {
        let share =
            |s: Option<f64>| s.map_or_else(|| "?".to_owned(), |s| format!("{:.1} %", s * 100.0));
        out.raw("<tr><td>").name(&p.kernel).raw("</td><td>").put(p.bytes);
        out.raw("</td><td>").put(p.precision);
        out.raw("</td><td>").put(number(p.intensity.value));
        out.raw("</td><td>").put(number(p.rate.value));
        out.raw("</td><td>").put(share(p.reached)).raw(if p.above { ", above it" } else { "" });
        out.raw("</td><td>").put(share(p.share));
        out.raw("</td><td>").put(p.flop_evidence.name());
        out.raw("</td><td>").put(p.bytes_evidence.name()).raw("</td></tr>\n");
    }
    out.raw("</table>\n");
    for roof in &of.roofs {
        let unit = if roof.kind == "rate" { "GFLOP/s" } else { "GB/s" };
        out.raw("<p>").put(format_args!("{}: {} {unit}", roof.name, number(roof.value.value)));
        out.raw("</p>\n");
    }
    for missing in &of.missing {
        out.raw("<p>not drawn: ").put(missing).raw("</p>\n");
    }
    out.raw("</body></html>\n");
    Ok(out.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clscope_models::{Evidence, Figure, Missing};

    fn figure(value: f64) -> Figure {
        Figure::exact(value, Evidence::Measured)
    }

    fn some() -> Roofline {
        let roof =
            |name: &str, kind, value| Roof { name: name.to_owned(), kind, value: figure(value) };
        let point = |kernel: &str, bytes, intensity, rate| Point {
            kernel: kernel.to_owned(),
            bytes,
            bytes_evidence: if bytes == "dram" { Evidence::Measured } else { Evidence::Counted },
            flop_evidence: Evidence::Counted,
            precision: "fp32",
            intensity: figure(intensity),
            rate: figure(rate),
            share: Some(0.5),
            roof: Some(1000.0),
            reached: Some(rate / 1000.0),
            above: rate > 1020.0,
        };
        Roofline {
            schema: "",
            device: "GPU <b>".to_owned(),
            unit: "GFLOP/s",
            forced: None,
            display_names: Default::default(),
            roofs: vec![
                roof("L2", "bandwidth", 400.0),
                roof("DRAM", "bandwidth", 100.0),
                roof("FP32 FMA", "rate", 1000.0),
            ],
            curves: vec![],
            points: vec![
                point("gemm<float>\u{202e}", "requested", 4.0, 700.0),
                point("gemm<float>\u{202e}", "dram", 60.0, 700.0),
            ],
            missing: vec![Missing::new("copy: no FLOP", "it has no place here")],
        }
    }

    #[test]
    fn every_roof_and_kernel_is_in_the_picture_and_names_stay_text() {
        let of = some();
        let svg = svg(&of).unwrap();
        for text in ["DRAM 100 GB/s", "L2 400 GB/s", "FP32 FMA 1000 GFLOP/s", "70 % of its roof"] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        assert_eq!(svg.matches("<circle").count(), 2);
        let page = html(&of).unwrap();
        assert!(page.contains("GPU &lt;b&gt;") && !page.contains("<b>"), "{page}");
        assert!(!page.contains('\u{202e}') && page.contains("not drawn: copy"));
    }

    #[test]
    fn what_is_above_its_roof_forced_or_measured_is_written() {
        let mut of = some();
        (of.points[1].above, of.points[1].reached) = (true, Some(1.14));
        of.forced = Some("parameters of <b>".to_owned());
        let page = html(&of).unwrap();
        assert!(page.contains("<td>114.0 %, above it</td>"), "{page}");
        assert!(page.contains("<td>counted</td><td>measured</td>"), "{page}");
        assert!(page.contains("forced: parameters of &lt;b&gt;"), "{page}");
    }

    #[test]
    fn without_any_point_and_roof_it_says_why() {
        let of = Roofline { roofs: vec![], points: vec![], ..some() };
        assert!(svg(&of).unwrap_err().to_string().contains("copy: no FLOP"));
        let bare = Roofline { roofs: vec![], ..some() };
        assert!(svg(&bare).unwrap().contains("<circle"), "points need no roof");
    }
}
