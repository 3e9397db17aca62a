//! Plots of a run as SVG, and one HTML page that holds them all. Owns which plot shows what, in
//! `plots.json`; refuses to compute figures beyond the roofline's lines, and to draw: its children
//! do.

mod draw;
mod index;
mod page;

use crate::reproduce::{Curve, Report};
use crate::sweep;
use clscope_microbench::cl::DeviceFacts;
use clscope_microbench::results::{CaseResult, Point, Results, Status};
use clscope_microbench::stats::Interval;
use draw::{Axes, Line, Scale, bars, lines, short};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::LazyLock;

pub use draw::PlotError;
pub use index::index;
pub use page::{experiment, page};

/// A plot.
pub struct Plot {
    /// File name without ending.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// The picture.
    pub svg: String,
}

/// Points of the cases that `choose` takes, in order of x, one for each x; `None` where fewer than
/// two are left.
fn line(
    results: &Results,
    name: &str,
    choose: impl Fn(&CaseResult) -> Option<Point>,
) -> Option<Line> {
    let measured =
        results.cases.iter().filter(|c| c.status == Status::Measured && c.swept.is_none());
    let mut points: Vec<Point> =
        measured.filter_map(choose).filter(|p| p.x.is_finite() && p.y.value.is_finite()).collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x).then(a.y.value.total_cmp(&b.y.value)));
    // The same occupancy is reached in several ways; the middle one speaks for it, or the line
    // would go up and down in one place.
    let mut single: Vec<Point> = Vec::new();
    for same in points.chunk_by(|a, b| a.x == b.x) {
        single.extend(same.get(same.len() / 2));
    }
    (single.len() >= 2).then(|| Line { name: name.to_owned(), points: single, bare: false })
}

fn best(
    results: &Results,
    suite: &str,
    figure: &str,
    keep: impl Fn(&CaseResult) -> bool,
) -> Option<f64> {
    let ours = results.cases.iter().filter(|c| c.suite == suite && c.swept.is_none() && keep(c));
    ours.filter_map(|c| c.value(figure)).max_by(f64::total_cmp)
}

/// The roofline: the measured ceilings of arithmetic over those of memory.
fn roofline(results: &Results) -> Vec<Line> {
    let mut lines = Vec::new();
    let stream = best(results, "memory", "bandwidth", |c| {
        matches!(c.parameter("pattern"), Some("copy" | "read" | "write"))
    });
    let local = best(results, "memory", "bandwidth", |c| c.parameter("pattern") == Some("local"));
    let shaped = |scalar: &'static str| {
        move |c: &CaseResult| {
            c.parameter("type") == Some(scalar) && c.parameter("shape") == Some("private")
        }
    };
    for (memory, what) in [(stream, "global memory"), (local, "local memory")] {
        for scalar in ["float", "double", "half"] {
            if let (Some(bandwidth), Some(peak)) =
                (memory, best(results, "flop", "rate", shaped(scalar)))
            {
                let exact = |x: f64| Interval::symmetric(x, 0.0);
                let roof = |x: f64| Point { x, y: exact(peak.min(x * bandwidth)) };
                let knee = peak / bandwidth;
                let mut xs = vec![1.0 / 64.0, knee, 256.0f64.max(knee * 4.0)];
                xs.sort_by(f64::total_cmp);
                let name =
                    format!("{scalar}, {what}: {}FLOP/s, {}B/s", giga(peak), giga(bandwidth));
                lines.push(Line { name, points: xs.into_iter().map(roof).collect(), bare: true });
            }
        }
    }
    lines
}

/// A number of 10^9 with the prefix of its power: "66.9 T".
fn giga(value: f64) -> String {
    if value >= 1000.0 {
        format!("{} T", short(&(value / 1000.0)))
    } else {
        format!("{} G", short(&value))
    }
}

/// Where the findings of this name say that something changes.
fn marks(results: &Results, name: &str) -> Vec<f64> {
    let ours = results
        .findings
        .iter()
        .filter(|f| f.name == format!("{name}/step") || f.name == format!("{name}/bend"));
    ours.filter_map(|f| f.figures.first().map(|f| f.estimate.value)).collect()
}

/// What a plot of bars compares.
const ENERGY: &str = "dynamic_energy_per_instruction";

/// The plots of suites, in `plots.json`.
static TABLE: LazyLock<Vec<Row>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("plots.json")).expect("a table that is built in")
});

/// What cases have: the suite and parameters; null where they have none of a name.
type Traits = BTreeMap<&'static str, Value>;

/// A plot of the cases of a suite.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: &'static str,
    title: &'static str,
    axes: [&'static str; 2],
    /// The base of a logarithmic axis.
    scale: [Option<f64>; 2],
    x: Option<Along>,
    /// The figure.
    #[serde(default)]
    y: &'static str,
    /// What the figure is multiplied by.
    times: Option<f64>,
    /// What all cases have, and what none has.
    #[serde(default, rename = "where")]
    of: Traits,
    #[serde(default)]
    without: Traits,
    /// Findings whose places are marked.
    marks: Option<&'static str>,
    /// Names of lines, and what their cases have.
    lines: Vec<(&'static str, Traits)>,
}

/// What stands horizontally.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Along {
    Parameter(&'static str),
    Figure(&'static str),
}

fn has(case: &CaseResult, name: &str, value: &Value) -> bool {
    if name == "suite" {
        return value.as_str() == Some(case.suite);
    }
    let own = case.parameters.get(name).unwrap_or(&Value::Null);
    own == value || own.as_f64().is_some_and(|own| value.as_f64() == Some(own))
}

impl Row {
    fn lines(&self, results: &Results) -> Vec<Line> {
        let Some(along) = &self.x else { return roofline(results) };
        let of_line = |(name, of): &(&'static str, Traits)| {
            line(results, name, |case| {
                let all = self.of.iter().chain(of).all(|(name, v)| has(case, name, v));
                if !all || self.without.iter().any(|(name, v)| has(case, name, v)) {
                    return None;
                }
                let x = match along {
                    Along::Parameter(name) => case.number(name),
                    Along::Figure(name) => case.value(name),
                };
                // 0 has no place on a logarithmic axis.
                let x = x.filter(|x| self.scale[0].is_none() || *x > 0.0);
                let y = case.estimate(self.y)?.times(self.times.unwrap_or(1.0));
                Some(Point { x: x?, y })
            })
        };
        self.lines.iter().filter_map(of_line).collect()
    }
}

/// All plots that the results have data for.
///
/// # Errors
/// Where the drawing library fails.
pub fn plots(results: &Results) -> Result<Vec<Plot>, PlotError> {
    let mut plots = Vec::new();
    let d = &results.device;
    let subtitle = format!("{}, driver {}", d.name, d.driver);
    for row in TABLE.iter() {
        let of = row.lines(results);
        if of.is_empty() {
            continue;
        }
        let [x, y] = row.scale.map(|base| base.map_or(Scale::Linear, Scale::Log));
        let axes = Axes {
            name: row.name,
            title: row.title,
            subtitle: &subtitle,
            x: row.axes[0],
            y: row.axes[1],
            scale: (x, y),
            marks: row.marks.map_or_else(Vec::new, |name| marks(results, name)),
        };
        plots.push(lines(&axes, &of)?);
    }

    let classes = results
        .cases
        .iter()
        .filter(|c| c.suite == "classes" && c.parameter("sweep").is_none() && c.swept.is_none());
    let energies = classes.filter_map(|c| {
        Some((c.id.trim_start_matches("classes/").replace('/', " "), c.estimate(ENERGY)?))
    });
    let energies: Vec<_> = energies.filter(|(_, joules)| joules.value.is_finite()).collect();
    if !energies.is_empty() {
        let axes = Axes {
            name: "energy",
            title: "Energy of a statement above idle, by class",
            subtitle: &subtitle,
            x: "pJ for each work-item",
            ..Axes::default()
        };
        plots.push(bars(&axes, &energies)?);
    }
    plots.extend(sweeps(results, &subtitle)?);
    plots.extend(series(results, &subtitle)?);
    Ok(plots)
}

/// A plot for each kind of series, a line for each case that has one.
fn series(results: &Results, subtitle: &str) -> Result<Vec<Plot>, PlotError> {
    let all = || results.cases.iter().flat_map(|c| c.series.iter().map(move |s| (c, s)));
    let mut names: Vec<&str> = Vec::new();
    for (_, series) in all() {
        if !names.contains(&series.name.as_str()) {
            names.push(&series.name);
        }
    }
    let mut plots = Vec::new();
    for (number, name) in names.into_iter().enumerate() {
        let ours = all().filter(|(_, s)| s.name == name && s.points.len() >= 2);
        let Some((_, first)) = ours.clone().next() else { continue };
        let drawn: Vec<Line> = ours
            .map(|(case, series)| Line {
                name: case.id.clone(),
                points: series.points.clone(),
                bare: true,
            })
            .collect();
        let title = format!("{}{}", name[..1].to_uppercase(), &name[1..]);
        let axes = Axes {
            name: &format!("series-{}", number + 1),
            title: &title,
            subtitle,
            x: first.x,
            y: first.y,
            ..Axes::default()
        };
        plots.push(lines(&axes, &drawn)?);
    }
    Ok(plots)
}

/// The numbers of ours as bars, where several have one unit.
fn numbers(report: &Report, axes: &Axes<'_>) -> Result<Option<Plot>, PlotError> {
    let known = || report.numbers.iter().filter_map(|n| Some((n, n.here?)));
    let Some(unit) = known().next().map(|(n, _)| n.unit) else { return Ok(None) };
    let drawn: Vec<(String, Interval)> = known()
        .filter(|(n, e)| n.unit == unit && e.value.is_finite())
        .map(|(n, e)| (n.what.to_owned(), e))
        .collect();
    let axes = Axes { x: unit, y: "", ..axes.clone() };
    (drawn.len() > 1).then(|| bars(&axes, &drawn)).transpose()
}

/// The curves of an experiment with the axes of its document, else its numbers as bars; nothing
/// where there are none.
///
/// # Errors
/// Where the drawing library fails.
pub fn reproduced(report: &Report, device: &DeviceFacts) -> Result<Option<Plot>, PlotError> {
    // So many points are a line.
    let line = |curve: &Curve| Line {
        name: curve.name.clone(),
        bare: curve.points.len() > 60,
        points: curve.points.clone(),
    };
    let drawn: Vec<Line> = report.curves.iter().map(line).collect();
    let xs = || drawn.iter().flat_map(|l| &l.points).map(|p| p.x);
    let first = xs().reduce(f64::min);
    // Wide ranges read better by factors; 0 has no place there.
    // Shares and times run evenly.
    let even = report.x.is_some_and(|x| x.starts_with('%') || x.starts_with("seconds"));
    let wide = !even && first.is_some_and(|x| x > 0.0 && xs().fold(x, f64::max) / x >= 128.0);
    // What is behind a point would be taken for the ending of a file.
    let name = report.name.replace('/', "-").replace('.', "_");
    let title = format!("{}: {}", report.name, report.shows);
    let axes = Axes {
        name: &name,
        title: &title,
        subtitle: &format!("{}, driver {}", device.name, device.driver),
        x: report.x.unwrap_or_default(),
        y: report.y.as_deref().unwrap_or_default(),
        scale: (if wide { Scale::Log(2.0) } else { Scale::Linear }, Scale::Linear),
        ..Axes::default()
    };
    if first.is_none() {
        return numbers(report, &axes);
    }
    Ok(Some(lines(&axes, &drawn)?))
}

/// A plot for each sweep and figure: along the axis of numbers, a line for each value of the other.
fn sweeps(results: &Results, subtitle: &str) -> Result<Vec<Plot>, PlotError> {
    let mut plots = Vec::new();
    for (number, walk) in sweep::walks(results).iter().enumerate() {
        let is_numeric = |axis: &usize| walk.values(*axis).iter().all(|v| v.is_number());
        let Some(along) = (0..walk.axes.len()).find(is_numeric) else { continue };
        let others = if walk.axes.len() == 2 { walk.values(1 - along) } else { Vec::new() };
        for figure in walk.figures() {
            let of = |name: String, other| {
                let points = walk.line(figure, along, other).into_iter();
                let points: Vec<Point> = points.map(|(x, y)| Point { x, y }).collect();
                (points.len() >= 2).then_some(Line { name, points, bare: false })
            };
            let drawn: Vec<Line> = match others.as_slice() {
                [] => of(String::new(), None).into_iter().collect(),
                others => others
                    .iter()
                    .filter_map(|v| {
                        let name = format!("{} {}", walk.axes[1 - along].name(), sweep::shown(v));
                        of(name, Some(v))
                    })
                    .collect(),
            };
            let axis = walk.axes[along];
            let over: Vec<&str> = walk.axes.iter().map(|a| a.name()).collect();
            let title =
                format!("{}: {} over {}", walk.case, figure.replace('_', " "), over.join(", "));
            // 0 has no place on a logarithmic axis.
            let from_above = drawn.iter().flat_map(|l| &l.points).all(|p| p.x > 0.0);
            let x = match axis.is_logarithmic() && from_above {
                true => Scale::Log(2.0),
                false => Scale::Linear,
            };
            let axes = Axes {
                name: &format!("sweep-{}-{figure}", number + 1),
                title: &title,
                subtitle,
                x: axis.label(),
                y: walk.unit(figure),
                scale: (x, Scale::Linear),
                ..Axes::default()
            };
            if !drawn.is_empty() {
                plots.push(lines(&axes, &drawn)?);
            }
        }
    }
    Ok(plots)
}
