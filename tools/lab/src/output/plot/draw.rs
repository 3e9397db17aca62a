//! Drawing: axes, lines with their intervals, bars. Owns how a plot looks; refuses to know what it
//! shows.

use super::Plot;
use clscope_microbench::results::Point;
use clscope_microbench::stats::Interval;
use plotters::coord::ranged1d::SegmentValue;
use plotters::prelude::*;
use std::ops::Range;

/// Why a plot could not be drawn.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw the plot {plot}: {why}")]
pub struct PlotError {
    plot: String,
    why: String,
}

pub(super) struct Line {
    pub name: String,
    pub points: Vec<Point>,
    /// A line alone, without markers at its points.
    pub bare: bool,
}

impl Line {
    /// Whether it is the other one of two: the smallest beside the largest.
    fn is_lower(&self) -> bool {
        self.name.ends_with(LOWER)
    }

    /// What two lines have in common.
    fn stem(&self) -> &str {
        let name = self.name.as_str();
        name.strip_suffix(LOWER).or_else(|| name.strip_suffix(UPPER)).unwrap_or(name)
    }
}

const LOWER: &str = ", smallest";
const UPPER: &str = ", largest";

/// How an axis runs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Scale {
    #[default]
    Linear,
    /// Logarithmic, with marks at the powers of this.
    Log(f64),
}

#[derive(Clone, Default)]
pub(super) struct Axes<'a> {
    pub name: &'a str,
    pub title: &'a str,
    /// What was measured.
    pub subtitle: &'a str,
    pub x: &'a str,
    pub y: &'a str,
    pub scale: (Scale, Scale),
    /// Places along x to be marked.
    pub marks: Vec<f64>,
}

/// Whatever keeps a plot from being drawn.
type Failure = Box<dyn std::error::Error>;

impl Axes<'_> {
    /// The plot, where its picture could be drawn.
    fn plot(&self, drawn: Result<String, Failure>) -> Result<Plot, PlotError> {
        let plot = self.name.to_owned();
        let svg = drawn.map_err(|why| PlotError { plot: plot.clone(), why: why.to_string() })?;
        Ok(Plot { name: plot, title: self.title.to_owned(), svg })
    }
}

/// Colours that people with the common kinds of colour blindness can distinguish (Okabe and Ito
/// 2008), without yellow; three darker ones for more lines.
const COLOURS: [RGBColor; 10] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(60, 60, 60),
    RGBColor(148, 0, 0),
    RGBColor(102, 51, 153),
    RGBColor(128, 118, 0),
];
const GREY: RGBColor = RGBColor(110, 110, 110);
const SIZE: (u32, u32) = (760, 440);

/// A number as a label: thousands and more with the prefix of their power.
pub(super) fn short(value: &f64) -> String {
    let a = value.abs();
    let rounded = |x: f64, unit: &str| {
        let digits = if x.abs() >= 100.0 || (x - x.round()).abs() < 1e-6 * x.abs() { 0 } else { 1 };
        format!("{x:.digits$}{unit}")
    };
    match a {
        _ if a == 0.0 => "0".to_owned(),
        _ if a < 1e-3 => format!("{value:.0e}"),
        _ if a >= 1e9 => rounded(value / 1e9, " G"),
        _ if a >= 1e6 => rounded(value / 1e6, " M"),
        _ if a >= 1e4 => rounded(value / 1e3, " k"),
        _ if a >= 1.0 => rounded(*value, ""),
        _ => format!("{}", (value * 1000.0).round() / 1000.0),
    }
}

/// As [`short`] for 1, 2 and 5 times powers of ten, and nothing for the marks between: their labels
/// would run into each other.
fn short_of_decades(value: &f64) -> String {
    let mantissa = value / 10f64.powf(value.log10().floor());
    let told = [1.0, 2.0, 5.0, 10.0].iter().any(|m| (mantissa - m).abs() < 1e-6);
    if told { short(value) } else { String::new() }
}

fn labels(scale: Scale) -> fn(&f64) -> String {
    match scale {
        Scale::Log(2.0) => short_of_two,
        Scale::Log(_) => short_of_decades,
        Scale::Linear => short,
    }
}

/// As [`short`], with the prefixes that mean powers of 1024.
fn short_of_two(value: &f64) -> String {
    match *value {
        a if a >= 1_073_741_824.0 => format!("{:.0} Gi", a / 1_073_741_824.0),
        a if a >= 1_048_576.0 => format!("{:.0} Mi", a / 1_048_576.0),
        a if a >= 1024.0 => format!("{:.0} Ki", a / 1024.0),
        _ => short(value),
    }
}

/// What an axis shows. `room` is the share of it that is left free at its upper end.
fn range(values: impl Iterator<Item = f64>, scale: Scale, room: f64) -> Range<f64> {
    let (low, high) = values
        .filter(|v| v.is_finite())
        .fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(v), h.max(v)));
    if low > high {
        return 0.1..1.0;
    }
    match scale {
        Scale::Log(_) => {
            let (low, high) = (low / 1.3, high * 1.3);
            low..high * (high / low).powf(room)
        }
        Scale::Linear => low.min(0.0)..(high * (1.08 + room)).max(low + 1e-9),
    }
}

/// A plot of lines.
pub(super) fn lines(axes: &Axes<'_>, lines: &[Line]) -> Result<Plot, PlotError> {
    axes.plot(lines_as_svg(axes, lines))
}

fn lines_as_svg(axes: &Axes<'_>, lines: &[Line]) -> Result<String, Failure> {
    let mut svg = String::new();
    let all = || lines.iter().flat_map(|l| &l.points);
    let styles = styles(lines);
    let xs = range(all().map(|p| p.x), axes.scale.0, 0.0);
    let ys = range(all().map(|p| p.y.value), axes.scale.1, 0.0);
    // Intervals that leave the plot end at its edge.
    let inside = |y: f64| y.clamp(ys.start, ys.end);
    let (x_label, y_label) = (labels(axes.scale.0), labels(axes.scale.1));
    {
        let whole = (SIZE.0, SIZE.1 + legend_height(lines));
        let root = SVGBackend::with_string(&mut svg, whole).into_drawing_area();
        root.fill(&WHITE)?;
        titles(&root, axes.title, axes.subtitle)?;
        // The legend stands below: it never covers what was measured.
        let (upper, lower) = root.split_vertically(SIZE.1);
        legend(&lower, lines, &styles)?;
        let mut builder = ChartBuilder::on(&upper);
        builder
            .margin(12)
            .margin_top(52)
            .margin_right(24)
            .x_label_area_size(44)
            .y_label_area_size(68);
        // The four kinds of axes are four types; what is drawn on them is the same.
        macro_rules! on {
            ($x:expr, $y:expr) => {{
                let mut chart = builder.build_cartesian_2d($x, $y)?;
                chart
                    .configure_mesh()
                    .light_line_style(WHITE)
                    .bold_line_style(RGBColor(215, 215, 215))
                    .x_desc(axes.x)
                    .y_desc(axes.y)
                    .x_label_formatter(&x_label)
                    .y_label_formatter(&y_label)
                    .label_style(("sans-serif", 13))
                    .draw()?;
                for &at in axes.marks.iter().filter(|x| xs.contains(x)) {
                    let dashed = DashedLineSeries::new(
                        [(at, ys.start), (at, ys.end)],
                        5,
                        4,
                        GREY.stroke_width(1),
                    );
                    chart.draw_series(dashed)?;
                }
                for (line, style) in lines.iter().zip(&styles) {
                    let colour = style.colour;
                    let points = line.points.iter().map(|p| (p.x, p.y.value));
                    let stroke = colour.stroke_width(2);
                    if style.dashed {
                        let series = DashedLineSeries::new(points, 7, 4, stroke);
                        chart.draw_series(series)?;
                    } else {
                        let series = LineSeries::new(points, stroke);
                        chart.draw_series(series)?;
                    }
                    if !line.bare {
                        let whiskers = line.points.iter().filter(|p| p.y.low < p.y.high).map(|p| {
                            PathElement::new(
                                [(p.x, inside(p.y.low)), (p.x, inside(p.y.high))],
                                colour.mix(0.55).stroke_width(1),
                            )
                        });
                        chart.draw_series(whiskers)?;
                        let dots = line
                            .points
                            .iter()
                            .map(|p| Circle::new((p.x, p.y.value), 3, colour.filled()));
                        chart.draw_series(dots)?;
                    }
                }
            }};
        }
        let (x, y) = (xs.clone(), ys.clone());
        match axes.scale {
            (Scale::Linear, Scale::Linear) => on!(x, y),
            (Scale::Log(base), Scale::Linear) => on!(x.log_scale().base(base), y),
            (Scale::Linear, Scale::Log(base)) => on!(x, y.log_scale().base(base)),
            (Scale::Log(a), Scale::Log(b)) => on!(x.log_scale().base(a), y.log_scale().base(b)),
        }
        root.present()?;
    }
    Ok(svg)
}

/// How a line is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Style {
    colour: RGBColor,
    dashed: bool,
}

/// A colour for each line, one for two that belong together: the lower one is dashed. So are those
/// behind the last colour.
fn styles(lines: &[Line]) -> Vec<Style> {
    let mut stems: Vec<&str> = Vec::new();
    lines
        .iter()
        .map(|line| {
            let known = stems.iter().position(|s| *s == line.stem());
            let number = known.unwrap_or_else(|| {
                stems.push(line.stem());
                stems.len() - 1
            });
            let again = number / COLOURS.len() % 2 == 1;
            Style { colour: COLOURS[number % COLOURS.len()], dashed: line.is_lower() != again }
        })
        .collect()
}

/// Height of a row of the legend.
const ROW: u32 = 19;
/// Columns of the legend.
const COLUMNS: usize = 2;

fn legend_height(lines: &[Line]) -> u32 {
    if lines.len() < 2 { 0 } else { 10 + ROW * lines.len().div_ceil(COLUMNS) as u32 }
}

fn legend<B: DrawingBackend<ErrorType: 'static>>(
    area: &DrawingArea<B, plotters::coord::Shift>,
    lines: &[Line],
    styles: &[Style],
) -> Result<(), Failure> {
    if lines.len() < 2 {
        return Ok(());
    }
    for (number, (line, style)) in lines.iter().zip(styles).enumerate() {
        let x = 68 + (number % COLUMNS) as i32 * 340;
        let y = 8 + (number / COLUMNS) as i32 * ROW as i32;
        let pieces: &[(i32, i32)] =
            if style.dashed { &[(0, 7), (11, 18), (22, 28)] } else { &[(0, 28)] };
        for (from, to) in pieces {
            let piece = [(x + from, y), (x + to, y)];
            area.draw(&PathElement::new(piece, style.colour.stroke_width(2)))?;
        }
        let text = TextStyle::from(("sans-serif", 13));
        area.draw_text(&line.name, &text, (x + 34, y - 5))?;
    }
    Ok(())
}

/// Bars that lie on their sides, each with its name and interval.
pub(super) fn bars(axes: &Axes<'_>, bars: &[(String, Interval)]) -> Result<Plot, PlotError> {
    axes.plot(bars_as_svg(axes, bars))
}

fn bars_as_svg(axes: &Axes<'_>, bars: &[(String, Interval)]) -> Result<String, Failure> {
    let mut svg = String::new();
    let xs = range(bars.iter().flat_map(|b| [b.1.value, b.1.high]), Scale::Linear, 0.04);
    {
        let height = 96 + 24 * bars.len() as u32;
        let root = SVGBackend::with_string(&mut svg, (SIZE.0, height.max(160))).into_drawing_area();
        root.fill(&WHITE)?;
        titles(&root, axes.title, axes.subtitle)?;
        // A segment for each number, the last one too.
        let rows = (0..bars.len().saturating_sub(1)).into_segmented();
        let mut builder = ChartBuilder::on(&root);
        builder
            .margin(12)
            .margin_top(52)
            .margin_right(24)
            .x_label_area_size(36)
            .y_label_area_size(150);
        let mut chart = builder.build_cartesian_2d(xs.clone(), rows)?;
        let name = |row: &SegmentValue<usize>| match row {
            // The first bar stands at the top.
            SegmentValue::CenterOf(n) => bars
                .len()
                .checked_sub(n + 1)
                .and_then(|n| bars.get(n))
                .map_or_else(String::new, |b| b.0.clone()),
            _ => String::new(),
        };
        chart
            .configure_mesh()
            .disable_y_mesh()
            .light_line_style(WHITE)
            .bold_line_style(RGBColor(215, 215, 215))
            .x_desc(axes.x)
            .y_labels(bars.len())
            .y_label_formatter(&name)
            .x_label_formatter(&short)
            .label_style(("sans-serif", 13))
            .draw()?;
        for (row, (_, p)) in bars.iter().rev().enumerate() {
            let mut bar = Rectangle::new(
                [(0.0, SegmentValue::Exact(row)), (p.value, SegmentValue::Exact(row + 1))],
                COLOURS[0].mix(0.75).filled(),
            );
            bar.set_margin(4, 4, 0, 0);
            chart.draw_series(std::iter::once(bar))?;
            let middle = SegmentValue::CenterOf(row);
            let (low, high) = (p.low.max(xs.start), p.high.min(xs.end));
            let whisker =
                PathElement::new([(low, middle.clone()), (high, middle)], GREY.stroke_width(2));
            chart.draw_series(std::iter::once(whisker))?;
        }
        root.present()?;
    }
    Ok(svg)
}

fn titles<B: DrawingBackend<ErrorType: 'static>>(
    root: &DrawingArea<B, plotters::coord::Shift>,
    title: &str,
    subtitle: &str,
) -> Result<(), Failure> {
    root.draw_text(title, &TextStyle::from(("sans-serif", 18)), (80, 10))?;
    root.draw_text(subtitle, &TextStyle::from(("sans-serif", 12)).color(&GREY), (80, 32))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_by_table() {
        for (value, want) in [
            (0.0, "0"),
            (0.25, "0.25"),
            (1.5, "1.5"),
            (2.0, "2"),
            (512.0, "512"),
            (5000.0, "5000"),
            (66_900.0, "66.9 k"),
            (2e6, "2 M"),
            (4.5e9, "4.5 G"),
            (1e-5, "1e-5"),
        ] {
            assert_eq!(short(&value), want);
        }
        assert_eq!(short_of_two(&1_048_576.0), "1 Mi");
        assert_eq!(short_of_two(&16.0), "16");
        for (value, want) in
            [(20_000.0, "20 k"), (0.5, "0.5"), (1000.0, "1000"), (30.0, ""), (900.0, "")]
        {
            assert_eq!(short_of_decades(&value), want);
        }
    }

    #[test]
    fn lines_are_told_apart() {
        let line = |name: &str| Line { name: name.to_owned(), points: Vec::new(), bare: false };
        let two = styles(&[line("a, largest"), line("a, smallest"), line("b, largest")]);
        assert_eq!(two[0].colour, two[1].colour);
        assert!(!two[0].dashed && two[1].dashed && two[2].colour != two[0].colour);
        let many: Vec<Line> = (0..2 * COLOURS.len()).map(|n| line(&n.to_string())).collect();
        let many = styles(&many);
        for (n, style) in many.iter().enumerate() {
            assert!(!many[..n].contains(style), "{n}");
        }
    }
}
