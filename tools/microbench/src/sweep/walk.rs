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

/// The share of the best throughput that is asked for: memory saturates gradually (Volkov 2016,
/// section 6.3).
const ENOUGH: f64 = 0.9;

/// For each alpha, the smallest occupancy whose throughput is [`ENOUGH`] of the best at that alpha, in
/// work-items of a unit (Volkov 2016, figure 4.6). An alpha whose throughput may still grow in
/// proportion at the largest occupancy of the sweep may need more, and is left out.
pub(crate) fn needed(walk: &Walk<'_>) -> Vec<(f64, f64)> {
    let (alphas, occupancies) = match walk.axes.as_slice() {
        [Axis::Alpha, Axis::Occupancy] => (0, 1),
        [Axis::Occupancy, Axis::Alpha] => (1, 0),
        _ => return Vec::new(),
    };
    let mut out = Vec::new();
    for alpha in walk.values(alphas) {
        let line = walk.line("throughput", occupancies, Some(alpha));
        let best = line.iter().map(|p| p.1.value).max_by(f64::total_cmp).unwrap_or(0.0);
        let first = line.iter().find(|p| p.1.value >= ENOUGH * best).map(|p| p.0);
        let largest = line.last().map_or(0.0, |p| p.0);
        if let (Some(alpha), Some(first)) =
            (alpha.as_f64(), first.filter(|n| *n < ENOUGH * largest))
        {
            out.push((alpha, first));
        }
    }
    out.sort_by(|a, b| a.0.total_cmp(&b.0));
    out
}

/// The cusp: mixes between memory alone and arithmetic alone need more work-items than either, and
/// most at some alpha (Volkov 2016, section 4.5). Nothing where no alpha between the outermost ones
/// needs more than both.
fn cusp(walk: &Walk<'_>) -> Option<Finding> {
    let needed = needed(walk);
    let (first, last) = (needed.first()?.1, needed.last()?.1);
    let top = *needed.iter().max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.total_cmp(&a.0)))?;
    if top.1 <= first || top.1 <= last {
        return None;
    }
    let exact = |value| Estimate::symmetric(value, 0.0);
    Some(Finding {
        name: format!("sweep/{}/cusp", walk.case),
        text: format!(
            "{}: the cusp: {} additions for each access need most work-items on a unit, {}; the fewest and the most additions need {first} and {last}",
            walk.case, top.0, top.1
        ),
        figures: vec![
            Figure::new("alpha", "additions", exact(top.0)),
            Figure::new("occupancy", "items/unit", exact(top.1)),
        ],
        confidence: None,
        method: "smallest occupancy with 90 % of the best throughput at each alpha",
    })
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
        out.extend(cusp(&walk));
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

#[cfg(test)]
mod tests {
    use super::super::{Coordinate, Place};
    use super::*;
    use crate::golden::MAXWELL;
    use clscope_models::latency::Workload;
    use serde_json::json;
    use std::collections::BTreeMap;

    /// A grid of the basic model (Volkov 2016, table 4.1).
    fn grid(of: Workload, alphas: &[usize]) -> Vec<CaseResult> {
        let point = |alpha: usize, warps: usize| {
            let value = 1000.0 * of.throughput(warps as f64, alpha as f64);
            let at = |axis, value: usize| Coordinate { axis, value: json!(value) };
            let throughput = Figure::new("throughput", "Gop/s", Estimate::symmetric(value, 0.0));
            CaseResult {
                id: format!("{alpha} {warps}"),
                suite: "latency",
                parameters: BTreeMap::new(),
                swept: Some(Place {
                    case: "latency/stream/ilp1/filled32".to_owned(),
                    at: vec![at(Axis::Alpha, alpha), at(Axis::Occupancy, 32 * warps)],
                }),
                status: Status::Measured,
                reason: None,
                build_log: None,
                timing: None,
                figures: vec![throughput],
                notes: Vec::new(),
                counted: None,
            }
        };
        let warps = (1..=64).collect::<Vec<_>>();
        alphas.iter().flat_map(|&a| warps.iter().map(move |&w| point(a, w))).collect()
    }

    fn walk(points: &[CaseResult]) -> Walk<'_> {
        Walk {
            case: "latency/stream/ilp1/filled32",
            axes: vec![Axis::Alpha, Axis::Occupancy],
            points: points.iter().collect(),
        }
    }

    /// Maxwell needs most warps where memory and issue are busy at once: at 48.25 additions, 53.4
    /// warps (Volkov 2016, section 4.5); 90 % of the throughput needs 90 % of them.
    #[test]
    fn the_cusp_is_where_most_warps_are_needed() {
        let points = grid(MAXWELL, &[0, 8, 32, 48, 64, 256, 2048]);
        let found = cusp(&walk(&points)).unwrap();
        assert_eq!(found.figure("alpha"), Some(48.0), "{}", found.text);
        assert_eq!(
            found.figure("occupancy"),
            Some(32.0 * (0.9f64 * 53.4).ceil()),
            "{}",
            found.text
        );
    }

    #[test]
    fn without_a_maximum_between_there_is_no_cusp() {
        assert!(cusp(&walk(&grid(MAXWELL, &[0, 8, 32]))).is_none(), "it only rises");
        assert!(cusp(&walk(&grid(MAXWELL, &[256, 2048]))).is_none(), "it only falls");
        assert!(cusp(&walk(&[])).is_none());
        let late = Workload { memory_latency: 3680.0, ..MAXWELL };
        let points = grid(late, &[0, 48, 2048]);
        assert!(needed(&walk(&points)).iter().all(|p| p.0 > 48.0), "more than was swept is needed");
    }
}
