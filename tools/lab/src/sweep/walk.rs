//! What sweeps gave: the points of each case together, for tables, plots and findings. Owns the
//! order of points and the choice of figures; refuses to draw.

use super::Axis;
use clscope_microbench::change;
use clscope_microbench::results::{CaseResult, Figure, Finding, Results, Status};
use clscope_microbench::stats::Interval;
use serde_json::Value as Json;

/// Figures that are shown along a sweep, the most telling first.
const FIGURES: [&str; 19] = [
    "rate",
    "bandwidth",
    "throughput",
    "time_per_statement",
    "latency",
    "latency_50",
    "event_time",
    "kernel_time",
    "host_time",
    "items_per_unit",
    "mean_items_per_unit",
    "tail",
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
    pub fn figures(&self) -> Vec<&'static str> {
        FIGURES.into_iter().filter(|f| self.points.iter().any(|p| p.figure(f).is_some())).collect()
    }

    /// The unit of a figure.
    pub fn unit(&self, figure: &str) -> &'static str {
        self.points.iter().find_map(|p| p.figure(figure)).map_or("", |f| f.unit)
    }

    /// The values of an axis, in the order in which they ran.
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
    pub fn at(&self, values: &[&Json]) -> Option<&'r CaseResult> {
        let is = |p: &&&CaseResult| {
            values.iter().enumerate().all(|(axis, v)| value_at(p, axis) == Some(*v))
        };
        self.points.iter().find(is).copied()
    }

    /// Numbers and figures along an axis, where the other one has this value.
    pub fn line(&self, figure: &str, along: usize, other: Option<&Json>) -> Vec<(f64, Interval)> {
        let ours = self.points.iter().filter(|p| {
            p.status == Status::Measured && other.is_none_or(|v| value_at(p, 1 - along) == Some(v))
        });
        let mut out: Vec<(f64, Interval)> = ours
            .filter_map(|p| Some((value_at(p, along)?.as_f64()?, p.estimate(figure)?)))
            .collect();
        out.sort_by(|a, b| a.0.total_cmp(&b.0));
        out
    }
}

/// The value of a point on the axis of this number.
pub fn value_at(point: &CaseResult, axis: usize) -> Option<&Json> {
    point.swept.as_ref()?.at.get(axis).map(|c| &c.value)
}

/// A value of an axis for people.
pub fn shown(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The share of a peak that is asked for: memory saturates gradually (Volkov 2016, section 6.3).
pub(crate) const ENOUGH: f64 = 0.9;

/// The most that each of two kinds of instruction reaches alone, of all work-items, 10^9 a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Peaks {
    /// Instructions of the chain.
    chain: f64,
    /// Dependent additions.
    additions: f64,
    /// Whether both are known of chains of nothing else; else they are the best of the sweep, which
    /// may be too small a range to show a peak.
    alone: bool,
}

impl Peaks {
    /// From a sweep of a chain over additions and occupancy, and from chains of nothing but
    /// additions and nothing but its own kind, where those were measured too.
    pub fn find<'r>(walk: &Walk<'r>, cases: impl Iterator<Item = &'r CaseResult>) -> Self {
        // latency/KIND/
        let kind: String = walk.case.split_inclusive('/').take(2).collect();
        let (mut chain, mut additions): (Option<f64>, Option<f64>) = (None, None);
        for case in cases.filter(|c| c.status == Status::Measured && alpha_of(c).is_none()) {
            let Some(of) = case.value("throughput") else { continue };
            let most = |best: &mut Option<f64>| *best = Some(best.map_or(of, |b| b.max(of)));
            if case.id.starts_with(&kind) {
                most(&mut chain);
            }
            if case.id.starts_with("latency/add/ilp1/") {
                most(&mut additions);
            }
        }
        let swept = |times: &dyn Fn(f64) -> f64| {
            let of = |p: &&CaseResult| Some((alpha_of(p)?, p.value("throughput")?));
            let all = walk.points.iter().filter(|p| p.status == Status::Measured).filter_map(of);
            all.map(|(alpha, t)| t * times(alpha)).fold(0.0, f64::max)
        };
        Self {
            chain: chain.unwrap_or(0.0).max(swept(&|_| 1.0)),
            additions: additions.unwrap_or_else(|| swept(&|alpha| alpha)),
            alone: chain.is_some() && additions.is_some(),
        }
    }

    /// Instructions of the chain at the peak that so many additions reach first.
    fn at(&self, alpha: f64) -> f64 {
        if alpha > 0.0 { self.chain.min(self.additions / alpha) } else { self.chain }
    }
}

fn alpha_of(case: &CaseResult) -> Option<f64> {
    case.place(Axis::Alpha)?.as_f64()
}

/// Work-items of a compute unit that hide latency at so many additions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Need {
    /// Additions for each instruction of the chain.
    pub alpha: f64,
    /// The fewest that reach [`ENOUGH`] of a peak; `None` where none did.
    pub items: Option<f64>,
    /// Where none did: fewer than this many do not.
    pub most: f64,
}

/// Where most work-items are needed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Cusp {
    /// Additions for each instruction of the chain; an interval where no occupancy was enough.
    pub alpha: Interval,
    /// Work-items of a compute unit; without an upper end where no occupancy was enough.
    pub items: Interval,
}

/// For each alpha, the smallest occupancy at which [`ENOUGH`] of one of the peaks is attained
/// (Volkov 2016, figure 4.6).
pub(crate) fn needed(walk: &Walk<'_>, peaks: Peaks) -> Vec<Need> {
    let alphas = match walk.axes.as_slice() {
        [Axis::Alpha, Axis::Occupancy] => 0,
        [Axis::Occupancy, Axis::Alpha] => 1,
        _ => return Vec::new(),
    };
    let items = |p: &CaseResult| {
        let seen = p.value("items_per_unit");
        seen.or_else(|| value_at(p, 1 - alphas)?.as_f64())
    };
    let measured = || walk.points.iter().filter(|p| p.status == Status::Measured);
    let largest = measured().filter_map(|p| items(p)).fold(0.0, f64::max);
    let mut out = Vec::new();
    for value in walk.values(alphas) {
        let Some(alpha) = value.as_f64() else { continue };
        let enough = measured().filter(|p| value_at(p, alphas) == Some(value)).filter(|p| {
            let throughput = p.value("throughput").unwrap_or(0.0);
            throughput >= ENOUGH * peaks.at(alpha)
        });
        let fewest = enough.filter_map(|p| items(p)).min_by(f64::total_cmp);
        // What only the largest occupancies reach may grow beyond them: no peak.
        let fewest = fewest.filter(|n| peaks.alone || *n < ENOUGH * largest);
        let most = if peaks.alone { largest } else { ENOUGH * largest };
        out.push(Need { alpha, items: fewest, most });
    }
    out.sort_by(|a, b| a.alpha.total_cmp(&b.alpha));
    out
}

/// The mix that needs most work-items, with their number: between memory alone and arithmetic alone
/// more are needed than by either (Volkov 2016, section 4.5). Mixes between known ones that no
/// occupancy was enough for need more than the largest.
///
/// # Errors
/// Why there is none: no mix between the outermost ones needs more than both, or none is known to.
pub(crate) fn cusp(needs: &[Need]) -> Result<Cusp, String> {
    let (Some(first), Some(last)) = (needs.first(), needs.last()) else {
        return Err("no mix was measured".to_owned());
    };
    let known = || needs.iter().filter_map(|n| Some((n.alpha, n.items?)));
    let unknown: Vec<usize> = (0..needs.len()).filter(|n| needs[*n].items.is_none()).collect();
    if let ([from, ..], [.., to]) = (unknown.as_slice(), unknown.as_slice()) {
        let between = *from > 0 && to + 1 < needs.len() && to - from + 1 == unknown.len();
        if !between {
            return Err(format!(
                "of {} mixes {} reached 90 % of no peak at any occupancy, from {} additions on",
                needs.len(),
                unknown.len(),
                needs[*from].alpha
            ));
        }
        let (low, high) = (needs[*from].alpha, needs[*to].alpha);
        let most = needs[*from].most;
        return Ok(Cusp {
            alpha: Interval::estimated(f64::midpoint(low, high), low, high),
            items: Interval::estimated(most, most, f64::INFINITY),
        });
    }
    let most = |a: &(f64, f64), b: &(f64, f64)| a.1.total_cmp(&b.1).then(b.0.total_cmp(&a.0));
    let top = known().max_by(most).ok_or("no mix was measured")?;
    if Some(top.1) <= first.items || Some(top.1) <= last.items {
        return Err("no mix needs more than the outermost ones".to_owned());
    }
    let exact = |value| Interval::symmetric(value, 0.0);
    Ok(Cusp { alpha: exact(top.0), items: exact(top.1) })
}

/// What a sweep over additions and occupancy tells of the cusp.
fn concluded(walk: &Walk<'_>, results: &Results) -> Option<Finding> {
    let needs = needed(walk, Peaks::find(walk, results.cases.iter()));
    let (first, last) = (needs.first()?, needs.last()?);
    let (text, figures) = match cusp(&needs) {
        Ok(Cusp { alpha, items }) => {
            let most = if items.high.is_finite() {
                format!(
                    "{} additions for each instruction of the chain need most work-items on a unit, {}",
                    alpha.value, items.value
                )
            } else {
                format!(
                    "with {} to {} additions for each instruction of the chain {} work-items on a unit are not enough for 90 % of a peak",
                    alpha.low, alpha.high, items.value
                )
            };
            let ends = [first, last].map(|n| n.items.unwrap_or_default());
            (
                format!(
                    "{most}; the fewest and the most additions need {} and {}",
                    ends[0], ends[1]
                ),
                vec![
                    Figure::new("alpha", "additions", alpha),
                    Figure::new("occupancy", "items/unit", items),
                ],
            )
        }
        Err(why) => (format!("none is seen: {why}"), Vec::new()),
    };
    Some(Finding::new(
        format!("sweep/{}/cusp", walk.case),
        format!("{}: the cusp: {text}", walk.case),
        figures,
        "smallest occupancy with 90 % of one of the peaks",
    ))
}

/// Where the most telling figure of each sweep is best, and the period of one over all numbers of
/// work-groups.
pub(crate) fn conclude(results: &Results) -> Vec<Finding> {
    let mut out = Vec::new();
    for walk in walks(results) {
        let Some(&figure) = walk.figures().first() else { continue };
        let less = walk.unit(figure).starts_with("ns") || walk.unit(figure) == "cycles";
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
        out.push(Finding::new(
            format!("sweep/{}/best", walk.case),
            format!(
                "{}: {} {figure} {:.4} {} at {}",
                walk.case,
                if less { "smallest" } else { "largest" },
                of.estimate.value,
                of.unit,
                place.join(", ")
            ),
            vec![of.clone()],
            if less { "smallest mean" } else { "largest mean" },
        ));
        out.extend(concluded(&walk, results));
        if walk.axes != [Axis::Blocks] {
            continue;
        }
        let points: Vec<(f64, f64)> =
            walk.line(figure, 0, None).into_iter().map(|(x, e)| (x, e.value)).collect();
        let every = points.windows(2).all(|w| w[1].0 - w[0].0 == 1.0);
        if let Some(found) = every.then(|| change::period(&points)).flatten() {
            let period = Interval::symmetric(found.after, 0.0);
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
    use crate::reproduce::MAXWELL;
    use clscope_models::latency::Workload;
    use serde_json::json;
    use std::collections::BTreeMap;

    /// A grid of the basic model (Volkov 2016, table 4.1).
    fn grid(of: Workload, alphas: &[usize]) -> Vec<CaseResult> {
        let point = |alpha: usize, warps: usize| {
            let value = 1000.0 * of.throughput(warps as f64, alpha as f64);
            let at = |axis, value: usize| Coordinate { axis, value: json!(value) };
            let throughput = Figure::known("throughput", "Gop/s", value);
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
                series: Vec::new(),
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

    fn needs(points: &[CaseResult], alone: &[CaseResult]) -> Vec<Need> {
        let walk = walk(points);
        needed(&walk, Peaks::find(&walk, points.iter().chain(alone)))
    }

    /// A chain of nothing else, at its peak.
    fn alone(id: &str, warps: f64) -> CaseResult {
        let of = Interval::symmetric(1000.0 * warps, 0.0);
        CaseResult {
            id: id.to_owned(),
            swept: None,
            figures: vec![Figure::new("throughput", "Gop/s", of)],
            ..grid(MAXWELL, &[0]).remove(0)
        }
    }

    /// Maxwell needs most warps where memory and issue are busy at once: at 48.25 additions, 53.4
    /// warps (Volkov 2016, section 4.5); 90 % of the throughput needs 90 % of them.
    #[test]
    fn the_cusp_is_where_most_warps_are_needed() {
        let points = grid(MAXWELL, &[0, 8, 32, 48, 64, 256, 2048]);
        let found = |points: &[CaseResult]| {
            let found = cusp(&needs(points, &[])).unwrap();
            (found.alpha.value, found.items.value)
        };
        let (alpha, items) = found(&points);
        assert_eq!((alpha, items), (48.0, 32.0 * (0.9f64 * 53.4).ceil()));
        // The work-items that were seen count, not the axis: four groups to each that was asked
        // for.
        let mut more = points;
        for point in &mut more {
            let at = value_at(point, 1).and_then(Json::as_f64).unwrap();
            let items = Interval::symmetric(4.0 * at, 0.0);
            point.figures.push(Figure::new("items_per_unit", "items", items));
        }
        assert_eq!(found(&more), (48.0, 4.0 * items));
    }

    /// Mixes that need more than was tried, between others that do not.
    #[test]
    fn a_cusp_beyond_the_largest_occupancy_is_bounded_from_below() {
        let need = |alpha, items| Need { alpha, items, most: 2048.0 };
        let known = [need(0.0, Some(900.0)), need(16.0, Some(1200.0))];
        let needs =
            [known[0], known[1], need(64.0, None), need(91.0, None), need(512.0, Some(800.0))];
        let found = cusp(&needs).unwrap();
        assert_eq!((found.alpha.low, found.alpha.high), (64.0, 91.0));
        assert_eq!((found.items.low, found.items.high), (2048.0, f64::INFINITY));
        // At an end, or here and there, nothing is known of a maximum.
        assert!(cusp(&needs[..4]).is_err());
        assert!(cusp(&[needs[2], known[1], needs[4]]).is_err());
        assert!(cusp(&[known[0], needs[2], known[1], needs[3], needs[4]]).is_err());
    }

    #[test]
    fn without_a_maximum_between_there_is_no_cusp() {
        let why =
            |of: Workload, alphas: &[usize]| cusp(&needs(&grid(of, alphas), &[])).unwrap_err();
        let outermost = "no mix needs more than the outermost ones";
        assert_eq!(why(MAXWELL, &[0, 8, 32]), outermost, "it only rises");
        assert_eq!(why(MAXWELL, &[256, 2048]), outermost, "it only falls");
        assert_eq!(cusp(&[]).unwrap_err(), "no mix was measured");
        // More is needed than was swept: the largest occupancies alone are no proof of a peak.
        let late = Workload { memory_latency: 3680.0, ..MAXWELL };
        let found = needs(&grid(late, &[0, 48, 2048]), &[]);
        assert!(found[..2].iter().all(|n| n.items.is_none()), "{found:?}");
        assert!(why(late, &[0, 48, 2048]).contains("reached 90 % of no peak"));
    }

    /// Figure 4.6 draws nothing where no occupancy attains 90 % of a peak. A peak is that of chains
    /// alone, which independent ones reach where dependent ones do not.
    #[test]
    fn peaks_are_those_of_chains_alone() {
        let points = grid(MAXWELL, &[0, 8, 48, 2048]);
        let add = alone("latency/add/ilp1/filled32@occupancy=2048", MAXWELL.add_throughput);
        let stream =
            |times: f64| alone("latency/stream/ilp4/filled32@o", times * MAXWELL.memory_throughput);
        let same = needs(&points, &[add.clone(), stream(1.0)]);
        let items = |of: &[Need]| of.iter().map(|n| n.items).collect::<Vec<_>>();
        assert_eq!(items(&same), items(&needs(&points, &[])));
        let twice = needs(&points, &[add.clone(), stream(2.0)]);
        assert!(twice[..2].iter().all(|n| n.items.is_none()), "{twice:?}");
        assert_eq!(twice[3], same[3], "bound by additions");
        // Known to be peaks, the last occupancy may be what is needed.
        let exact = Workload { memory_latency: 368.0 * 75.0 / 53.4, ..MAXWELL };
        let points = grid(exact, &[48]);
        let known = needs(&points, &[add, stream(1.0)])[0].items.unwrap();
        assert!(known > 0.9 * 64.0 * 32.0, "{known}");
        assert_eq!(needs(&points, &[])[0].items, None);
    }
}
