//! What sweeps gave: the points of each case together, for tables, plots and findings. Owns the order
//! of points and the choice of figures; refuses to draw.
#![forbid(unsafe_code)]

use super::Axis;
use crate::change;
use crate::results::{CaseResult, Figure, Finding, Results, Status};
use crate::stats::Estimate;
use serde_json::Value as Json;

/// Figures that are shown along a sweep, the most telling first.
const FIGURES: [&str; 12] = [
    "rate",
    "bandwidth",
    "throughput",
    "time_per_statement",
    "latency",
    "time",
    "rate_per_cycle",
    "power",
    "efficiency",
    "energy_per_operation",
    "dynamic_energy_per_operation",
    "dynamic_energy_per_instruction",
];

/// The sweep of one case.
#[derive(Debug)]
pub struct Walk<'r> {
    /// The id of the case.
    pub case: &'r str,
    /// One axis, or two.
    pub axes: Vec<Axis>,
    /// Its points in the order in which they ran, those without figures too.
    pub points: Vec<&'r CaseResult>,
}

/// The sweeps of a run.
#[must_use]
pub fn walks(results: &Results) -> Vec<Walk<'_>> {
    let mut out: Vec<Walk<'_>> = Vec::new();
    for point in &results.cases {
        let Some(place) = &point.swept else { continue };
        let axes: Vec<Axis> = place.at.iter().map(|c| c.axis).collect();
        match out.iter_mut().find(|w| w.case == place.case && w.axes == axes) {
            Some(walk) => walk.points.push(point),
            None => out.push(Walk { case: &place.case, axes, points: vec![point] }),
        }
    }
    out
}

impl<'r> Walk<'r> {
    /// The names of the figures to show: those that a point has.
    #[must_use]
    pub fn figures(&self) -> Vec<&'static str> {
        FIGURES.into_iter().filter(|f| self.points.iter().any(|p| p.figure(f).is_some())).collect()
    }

    /// The unit of a figure.
    #[must_use]
    pub fn unit(&self, figure: &str) -> &'static str {
        self.points.iter().find_map(|p| p.figure(figure)).map_or("", |f| f.unit)
    }

    /// The values of an axis, in the order in which they ran.
    #[must_use]
    pub fn values(&self, axis: usize) -> Vec<&'r Json> {
        let mut out: Vec<&Json> = Vec::new();
        for value in self.points.iter().filter_map(|p| value_at(p, axis)) {
            if !out.contains(&value) {
                out.push(value);
            }
        }
        out
    }

    /// The point at these values.
    #[must_use]
    pub fn at(&self, values: &[&Json]) -> Option<&'r CaseResult> {
        let is = |p: &&&CaseResult| {
            values.iter().enumerate().all(|(axis, v)| value_at(p, axis) == Some(*v))
        };
        self.points.iter().find(is).copied()
    }

    /// Numbers and figures along an axis, where the other one has this value.
    #[must_use]
    pub fn line(&self, figure: &str, along: usize, other: Option<&Json>) -> Vec<(f64, Estimate)> {
        let ours = self.points.iter().filter(|p| {
            p.status == Status::Measured && other.is_none_or(|v| value_at(p, 1 - along) == Some(v))
        });
        let mut out: Vec<(f64, Estimate)> = ours
            .filter_map(|p| Some((value_at(p, along)?.as_f64()?, p.figure(figure)?.estimate)))
            .collect();
        out.sort_by(|a, b| a.0.total_cmp(&b.0));
        out
    }
}

/// The value of a point on the axis of this number.
#[must_use]
pub fn value_at(point: &CaseResult, axis: usize) -> Option<&Json> {
    point.swept.as_ref()?.at.get(axis).map(|c| &c.value)
}

/// A value of an axis for people.
#[must_use]
pub fn shown(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Where the most telling figure of each sweep is best, and the period of one over all numbers of
/// work-groups.
pub(crate) fn conclude(results: &Results) -> Vec<Finding> {
    let mut out = Vec::new();
    for walk in walks(results) {
        let Some(&figure) = walk.figures().first() else { continue };
        let less = matches!(figure, "time_per_statement" | "latency" | "time");
        let measured = walk.points.iter().filter_map(|p| Some((p, p.figure(figure)?)));
        let best = measured.min_by(|a, b| {
            let (a, b) = (a.1.estimate.value, b.1.estimate.value);
            if less { a.total_cmp(&b) } else { b.total_cmp(&a) }
        });
        let Some((point, of)) = best else { continue };
        let place: Vec<String> = point
            .swept
            .iter()
            .flat_map(|s| &s.at)
            .map(|c| format!("{} {}", c.axis.name(), shown(&c.value)))
            .collect();
        out.push(Finding {
            name: format!("sweep/{}/best", walk.case),
            text: format!(
                "{}: {} {figure} {:.4} {} at {}",
                walk.case,
                if less { "smallest" } else { "largest" },
                of.estimate.value,
                of.unit,
                place.join(", ")
            ),
            figures: vec![of.clone()],
            confidence: None,
            method: if less { "smallest mean" } else { "largest mean" },
        });
        if walk.axes != [Axis::Blocks] {
            continue;
        }
        let points: Vec<(f64, f64)> =
            walk.line(figure, 0, None).into_iter().map(|(x, e)| (x, e.value)).collect();
        let every = points.windows(2).all(|w| w[1].0 - w[0].0 == 1.0);
        if let Some(found) = every.then(|| change::period(&points)).flatten() {
            let period = Estimate::symmetric(found.after, 0.0);
            out.push(Finding {
                name: format!("sweep/{}/period", walk.case),
                text: format!("{}: {figure} repeats every {} groups", walk.case, found.after),
                figures: vec![Figure::new("period", "groups", period)],
                confidence: Some(found.confidence),
                method: "autocorrelation of differences against shuffled ones",
            });
        }
    }
    out
}
