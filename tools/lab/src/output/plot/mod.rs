//! Plots of a run as SVG, and one HTML page that holds them all. Owns which plot shows what;
//! refuses to compute figures beyond the roofline's lines, and to draw: its children do.

mod draw;
mod index;
mod page;

use crate::reproduce::{self, Report};
use crate::sweep;
use clscope_microbench::cl::DeviceFacts;
use clscope_microbench::results::{CaseResult, Results, Status};
use draw::{Axes, Line, Point, Scale, bars, lines, short};

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

/// The point of a case at `x` with a figure of its.
fn at(case: &CaseResult, x: Option<f64>, figure: &str) -> Option<Point> {
    let e = case.figure(figure)?.estimate;
    Some(Point { x: x?, y: e.value, low: e.low, high: e.high })
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
        measured.filter_map(choose).filter(|p| p.x.is_finite() && p.y.is_finite()).collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x).then(a.y.total_cmp(&b.y)));
    // The same occupancy is reached in several ways; the middle one speaks for it, or the line
    // would go up and down in one place.
    let mut single: Vec<Point> = Vec::new();
    for same in points.chunk_by(|a, b| a.x == b.x) {
        single.extend(same.get(same.len() / 2));
    }
    (single.len() >= 2).then(|| Line { name: name.to_owned(), points: single, bare: false })
}

fn value(case: &CaseResult, figure: &str) -> Option<f64> {
    case.figure(figure).map(|f| f.estimate.value)
}

fn best(
    results: &Results,
    suite: &str,
    figure: &str,
    keep: impl Fn(&CaseResult) -> bool,
) -> Option<f64> {
    let ours = results.cases.iter().filter(|c| c.suite == suite && c.swept.is_none() && keep(c));
    ours.filter_map(|c| value(c, figure)).max_by(f64::total_cmp)
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
                let roof = |x: f64| Point::exact(x, peak.min(x * bandwidth));
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

/// All plots that the results have data for.
///
/// # Errors
/// Where the drawing library fails.
pub fn plots(results: &Results) -> Result<Vec<Plot>, PlotError> {
    let mut plots = Vec::new();
    let d = &results.device;
    let subtitle = format!("{}, driver {}", d.name, d.driver);
    let mut add = |axes: Axes<'_>, of: Vec<Line>| -> Result<(), PlotError> {
        if !of.is_empty() {
            let svg = lines(&axes, &of)?;
            plots.push(Plot { name: axes.name.to_owned(), title: axes.title.to_owned(), svg });
        }
        Ok(())
    };
    const LINEAR: (Scale, Scale) = (Scale::Linear, Scale::Linear);
    const TWO: Scale = Scale::Log(2.0);
    const TEN: Scale = Scale::Log(10.0);
    let axes = |name, title, x, y, scale| Axes {
        name,
        title,
        subtitle: &subtitle,
        x,
        y,
        scale,
        marks: Vec::new(),
    };

    let sweep =
        line(results, "", |c| at(c, c.number("groups").filter(|_| c.suite == "flop"), "rate"));
    let title = "Arithmetic throughput over work-groups";
    add(
        axes("throughput", title, "work-groups", "GFLOP/s (float, product and sum)", LINEAR),
        sweep.into_iter().collect(),
    )?;

    add(
        axes(
            "roofline",
            "Roofline of the measured ceilings",
            "operations per byte",
            "GFLOP/s",
            (TWO, TEN),
        ),
        roofline(results),
    )?;

    for (name, figure, title, unit) in [
        ("watts", "power", "Power by SIMD width", "W"),
        ("efficiency", "efficiency", "Efficiency by SIMD width", "GFLOP/s/W"),
    ] {
        let widths = ["float", "double", "half"].into_iter().filter_map(|scalar| {
            let ours = |c: &CaseResult| {
                c.suite == "power"
                    && c.parameter("type") == Some(scalar)
                    && c.parameter("operation") == Some("fma")
            };
            line(results, &format!("{scalar} fma"), |c| {
                at(c, c.number("width").filter(|_| ours(c)), figure)
            })
        });
        add(
            axes(name, title, "elements of a vector", unit, (TWO, Scale::Linear)),
            widths.collect(),
        )?;
    }

    let widths =
        ["copy", "read", "write", "random", "copy_loop"].into_iter().filter_map(|pattern| {
            let ours = |c: &CaseResult| {
                c.suite == "memory"
                    && c.parameter("pattern") == Some(pattern)
                    && c.number("elements_per_item") != Some(4.0)
            };
            line(results, pattern, |c| at(c, c.number("width").filter(|_| ours(c)), "bandwidth"))
        });
    let title = "Memory bandwidth by SIMD width";
    add(
        axes("memory", title, "words (4 bytes) of an element", "GB/s", (TWO, TEN)),
        widths.collect(),
    )?;

    let mut transfers = Vec::new();
    for memory in ["pageable", "pinned", "mapped"] {
        for direction in ["to_device", "to_host"] {
            let ours = |c: &CaseResult| {
                c.parameter("memory") == Some(memory) && c.parameter("direction") == Some(direction)
            };
            let micro =
                |p: Point| Point { y: p.y * 1e-3, low: p.low * 1e-3, high: p.high * 1e-3, ..p };
            let name = format!("{memory} {}", direction.replace('_', " "));
            transfers.extend(line(results, &name, |c| {
                at(c, c.number("bytes").filter(|_| ours(c)), "time").map(micro)
            }));
        }
    }
    add(axes("transfer", "Host-device transfers", "bytes", "microseconds", (TWO, TEN)), transfers)?;

    for (name, axis, title, x) in [
        ("power_groups", "groups", "Power over working groups", "groups"),
        ("power_lanes", "lanes", "Power over working lanes", "lanes of 32 that work"),
    ] {
        let ours = |c: &CaseResult| c.suite == "classes" && c.parameter("sweep") == Some(axis);
        let sweep = line(results, "", |c| at(c, c.number(axis).filter(|_| ours(c)), "power"));
        add(axes(name, title, x, "W (float arithmetic)", LINEAR), sweep.into_iter().collect())?;
    }

    let kinds = ["add", "special", "local", "local2", "stream", "stride2", "stream4", "random"];
    let chains = |c: &CaseResult, kind: &str| {
        c.parameter("kind") == Some(kind)
            && c.parameter("sweep").is_none()
            && c.number("ilp") == Some(1.0)
    };
    for (name, figure, title, unit) in [
        ("latency", "latency", "Latency over occupancy", "ns an instruction"),
        ("concurrency", "throughput", "Throughput over occupancy", "Gop/s"),
    ] {
        let levels = kinds.into_iter().filter_map(|kind| {
            line(results, kind, |c| {
                at(c, value(c, "items_per_unit").filter(|_| chains(c, kind)), figure)
            })
        });
        add(axes(name, title, "work-items on a compute unit", unit, (TWO, TEN)), levels.collect())?;
    }
    let loads = ["stream", "random"].into_iter().filter_map(|kind| {
        line(results, kind, |c| {
            at(c, value(c, "throughput").filter(|_| chains(c, kind)), "latency")
        })
    });
    add(
        axes("contention", "Memory latency against throughput", "Gop/s", "ns", (TEN, TEN)),
        loads.collect(),
    )?;
    let walks = ["stream", "random"].into_iter().filter_map(|kind| {
        let ours = |c: &CaseResult| c.parameter("kind") == Some(kind);
        line(results, kind, |c| at(c, c.number("alpha").filter(|a| *a > 0.0 && ours(c)), "latency"))
    });
    let title = "Latency hiding: time of an access with its additions";
    add(axes("cusp", title, "additions for each access", "ns", (TWO, TEN)), walks.collect())?;

    for (name, sweeps, title, x) in [
        ("groups", &["groups"][..], "A statement over groups of one item", "groups"),
        ("waves", &["waves"], "A statement over full groups", "groups"),
        ("group_size", &["group_size"], "A statement over the items of one group", "items"),
        ("registers", &["registers"], "A statement over live variables", "live words"),
        (
            "vectors",
            &["vector_float", "vector_int"],
            "A statement over the width of vectors",
            "elements of a vector",
        ),
        (
            "pairs",
            &["fused_float", "split_float", "fused_int", "split_int"],
            "Product and sum, dependent (fused) and not (split)",
            "pairs in flight",
        ),
    ] {
        let ours = sweeps.iter().filter_map(|sweep| {
            let ours =
                |c: &CaseResult| c.suite == "structure" && c.parameter("sweep") == Some(sweep);
            line(results, &sweep.replace('_', " "), |c| {
                at(c, c.number("at").filter(|_| ours(c)), "time_per_statement")
            })
        });
        let marks = marks(results, &format!("structure/{name}"));
        add(Axes { marks, ..axes(name, title, x, "ns a statement", LINEAR) }, ours.collect())?;
    }

    let classes = results
        .cases
        .iter()
        .filter(|c| c.suite == "classes" && c.parameter("sweep").is_none() && c.swept.is_none());
    let energies: Vec<(String, Point)> = classes
        .filter_map(|c| {
            Some((c.id.trim_start_matches("classes/").replace('/', " "), at(c, Some(0.0), ENERGY)?))
        })
        .filter(|(_, p)| p.y.is_finite())
        .collect();
    if !energies.is_empty() {
        let axes = axes(
            "energy",
            "Energy of a statement above idle, by class",
            "pJ for each work-item",
            "",
            LINEAR,
        );
        plots.push(Plot {
            name: axes.name.to_owned(),
            title: axes.title.to_owned(),
            svg: bars(&axes, &energies)?,
        });
    }
    plots.extend(sweeps(results, &subtitle)?);
    plots.extend(series(results, &subtitle)?);
    Ok(plots)
}

/// A measured point as it is drawn, with its interval.
fn place(of: &reproduce::Point) -> Point {
    Point { x: of.x, y: of.y.value, low: of.y.low, high: of.y.high }
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
            .map(|(case, series)| {
                let points = series.points.iter().map(place).collect();
                Line { name: case.id.clone(), points, bare: true }
            })
            .collect();
        let title = format!("{}{}", name[..1].to_uppercase(), &name[1..]);
        let axes = Axes {
            name: &format!("series-{}", number + 1),
            title: &title,
            subtitle,
            x: first.x,
            y: first.y,
            scale: (Scale::Linear, Scale::Linear),
            marks: Vec::new(),
        };
        let svg = lines(&axes, &drawn)?;
        plots.push(Plot { name: axes.name.to_owned(), title: title.clone(), svg });
    }
    Ok(plots)
}

/// The numbers of ours as bars, where several have one unit.
fn numbers(report: &Report, axes: &Axes<'_>) -> Result<Option<Plot>, PlotError> {
    let known = || report.numbers.iter().filter_map(|n| Some((n, n.here?)));
    let Some(unit) = known().next().map(|(n, _)| n.unit) else { return Ok(None) };
    let drawn: Vec<(String, Point)> = known()
        .filter(|(n, e)| n.unit == unit && e.value.is_finite())
        .map(|(n, e)| (n.what.to_owned(), Point { x: 0.0, y: e.value, low: e.low, high: e.high }))
        .collect();
    if drawn.len() < 2 {
        return Ok(None);
    }
    let svg = bars(&Axes { x: unit, y: "", marks: Vec::new(), ..*axes }, &drawn)?;
    Ok(Some(Plot { name: axes.name.to_owned(), title: axes.title.to_owned(), svg }))
}

/// The curves of an experiment with the axes of its document, else its numbers as bars; nothing
/// where there are none.
///
/// # Errors
/// Where the drawing library fails.
pub fn reproduced(report: &Report, device: &DeviceFacts) -> Result<Option<Plot>, PlotError> {
    let drawn: Vec<Line> = report
        .curves
        .iter()
        .map(|curve| {
            let points: Vec<Point> = curve.points.iter().map(place).collect();
            // So many points are a line.
            Line { name: curve.name.clone(), bare: points.len() > 60, points }
        })
        .collect();
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
        marks: Vec::new(),
    };
    if first.is_none() {
        return numbers(report, &axes);
    }
    let svg = lines(&axes, &drawn)?;
    Ok(Some(Plot { name: name.clone(), title: title.clone(), svg }))
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
                let point = |(x, e): (f64, clscope_microbench::stats::Interval)| Point {
                    x,
                    y: e.value,
                    low: e.low,
                    high: e.high,
                };
                let points: Vec<Point> =
                    walk.line(figure, along, other).into_iter().map(point).collect();
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
                marks: Vec::new(),
            };
            if !drawn.is_empty() {
                let svg = lines(&axes, &drawn)?;
                plots.push(Plot { name: axes.name.to_owned(), title: title.clone(), svg });
            }
        }
    }
    Ok(plots)
}
