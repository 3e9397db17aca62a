//! What an experiment gave beside what the document prints: curves, numbers, and why one is missing.
//! Owns the shape of the document `clscope bench --reproduce` writes; refuses to measure.
#![forbid(unsafe_code)]

use super::models::{self, Fitted, Worst};
use super::{Draw, Experiment, How, Needed, Ours, Per, Pick, Row, X};
use crate::cl::DeviceFacts;
use crate::results::{CaseResult, Figure, Finding, Results, Status};
use crate::stats::Estimate;
use crate::suite;
use crate::sweep::{self, Axis, Need, Peaks, Walk, shown, value_at};
use clscope_models::prior::Model;
use clscope_models::waves::SawTooth;
use serde::Serialize;
use std::collections::BTreeMap;

/// The name of the schema and its version.
pub const SCHEMA: &str = "clscope-bench-reproduced/1";

/// All of a run.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reported {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Version of this program.
    pub version: &'static str,
    /// What was measured.
    pub device: On,
    /// The experiments in the order in which they ran.
    pub experiments: Vec<Report>,
    /// Whether the user ended the run early.
    pub interrupted: bool,
}

/// A device of ours.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct On {
    /// Its name.
    pub name: String,
    /// Its platform.
    pub platform: String,
    /// The version of its driver.
    pub driver: String,
    /// Compute units.
    pub compute_units: u32,
}

impl On {
    /// Of what the runtime says.
    #[must_use]
    pub fn of(device: &DeviceFacts) -> On {
        On {
            name: device.name.clone(),
            platform: device.platform.clone(),
            driver: device.driver.clone(),
            compute_units: device.compute_units,
        }
    }
}

/// What became of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It was measured.
    Measured,
    /// This device, its runtime or its sensors do not give what it shows.
    NotAvailable,
    /// A case failed or computed something wrong; the rest was measured.
    Failed,
    /// The budget or the user ended it before its end.
    CutShort,
    /// No case measures this.
    NotReproducible,
}

impl State {
    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            State::Measured => "measured",
            State::NotAvailable => "not available here",
            State::Failed => "failed",
            State::CutShort => "cut short",
            State::NotReproducible => "not reproducible",
        }
    }
}

/// One experiment.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// Its name.
    pub name: &'static str,
    /// The document: author, year, title.
    pub document: &'static str,
    /// The section that has it.
    pub section: &'static str,
    /// What it shows.
    pub shows: &'static str,
    /// What became of it.
    pub state: State,
    /// Why, where it was not measured or not whole.
    pub reason: Option<String>,
    /// The commands that measure the same.
    pub commands: Vec<String>,
    /// How long it took, seconds; 0 where another experiment had measured the same.
    pub seconds: Option<f64>,
    /// What stands along the curves.
    pub x: Option<&'static str>,
    /// Figure and unit of the curves.
    pub y: Option<String>,
    /// Curves; none for tables.
    pub curves: Vec<Curve>,
    /// The numbers that the document prints, and ours; none where it has a picture alone.
    pub numbers: Vec<Number>,
    /// How far each model is from what was measured; of experiments about models.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<Worst>,
    /// Where the models' parameters come from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
}

/// A curve.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Curve {
    /// What tells it from the others.
    pub name: String,
    /// Its points, x rising.
    pub points: Vec<Point>,
}

/// A point of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Point {
    /// Horizontally.
    pub x: f64,
    /// Vertically.
    pub y: Estimate,
}

/// A number of the document beside ours.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Number {
    /// What it is.
    pub what: &'static str,
    /// Its unit; empty for a quotient.
    pub unit: &'static str,
    /// What the document prints.
    pub printed: Vec<Printed>,
    /// Ours, in the same unit.
    pub here: Option<Estimate>,
    /// Why there is none of ours.
    pub reason: Option<String>,
}

/// A number of the document.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Printed {
    /// The document's device.
    pub device: &'static str,
    /// The number; null where the document has none for this device.
    pub value: Option<f64>,
}

impl Report {
    /// An experiment of which nothing is measured, because of a reason.
    #[must_use]
    pub fn without(of: &'static Experiment, state: State, reason: String) -> Report {
        let why = reason.clone();
        let number =
            |row: &Row| Number { here: None, reason: Some(why.clone()), ..number(of, row) };
        Report {
            name: of.name,
            document: of.document().title,
            section: of.section,
            shows: of.shows,
            state,
            reason: Some(reason),
            commands: of.parts().iter().map(super::Part::command).collect(),
            seconds: None,
            x: None,
            y: None,
            curves: Vec::new(),
            numbers: of.rows.iter().map(number).collect(),
            models: Vec::new(),
            method: None,
        }
    }

    /// An experiment of which its parts gave these results.
    #[must_use]
    pub fn of(of: &'static Experiment, results: &[&Results]) -> Report {
        let How::Measure { draw, .. } = of.how else {
            return Report::without(of, State::NotReproducible, String::new());
        };
        let seen = Seen { results };
        let by_models = matches!(draw, Draw::Estimates(..) | Draw::Ratios(_));
        let fitted = models::Fitted::of(results);
        let (x, y, curves) = match draw {
            Draw::Curves { x, label, y } => {
                let unit = seen.cases().find_map(|c| c.figure(y)).map_or("", |f| f.unit);
                let name = y.replace('_', " ");
                (Some(label), Some(format!("{name}, {unit}")), seen.curves(x, y))
            }
            Draw::Needed => {
                let name = "work-items on a unit for 90 % of a peak".to_owned();
                (Some("additions for each access"), Some(name), seen.needed())
            }
            Draw::Estimates(alpha, models) => {
                let curves =
                    fitted.as_ref().map_or_else(|_| Vec::new(), |f| f.estimates(alpha, models));
                (Some("warps on a compute unit"), Some(TURNS.to_owned()), curves)
            }
            Draw::Ratios(models) => {
                let curves = fitted.as_ref().map_or_else(|_| Vec::new(), |f| f.ratios(models));
                (
                    Some("additions for each access"),
                    Some("estimate / measurement".to_owned()),
                    curves,
                )
            }
            Draw::Numbers => (None, None, Vec::new()),
        };
        let mut out = Report {
            x,
            y,
            curves,
            state: State::Measured,
            reason: None,
            ..Report::without(of, State::Measured, String::new())
        };
        out.numbers = of
            .rows
            .iter()
            .map(|row| match seen.ours(row, &fitted) {
                Ok(here) => Number { here: Some(here), ..number(of, row) },
                Err(why) => Number { reason: Some(why), ..number(of, row) },
            })
            .collect();
        if let (Ok(fitted), Draw::Ratios(_)) = (&fitted, draw) {
            out.models = fitted.worst();
            out.method = Some(fitted.method.clone());
        }
        let count = |status: Status| seen.cases().filter(|c| c.status == status).count();
        let bad = count(Status::Wrong) + count(Status::Failed);
        let reason = |of: &[Status]| {
            seen.cases().filter(|c| of.contains(&c.status)).find_map(|c| c.reason.clone())
        };
        let empty = out.curves.is_empty() && out.numbers.iter().all(|n| n.here.is_none());
        if bad > 0 {
            out.state = State::Failed;
            let why = reason(&[Status::Wrong, Status::Failed]).unwrap_or_default();
            out.reason = Some(format!("{bad} of {} cases: {why}", seen.cases().count()));
        } else if results.iter().any(|r| r.interrupted) {
            out.state = State::CutShort;
            out.reason = Some("it was ended before its last point".to_owned());
        } else if empty {
            out.state = State::NotAvailable;
            let y = match draw {
                Draw::Curves { y, .. } => y,
                Draw::Needed => "throughput",
                _ => "",
            };
            let fit = fitted.err().filter(|_| by_models);
            let first = out.numbers.iter().find_map(|n| n.reason.clone());
            out.reason =
                reason(&[Status::NotAvailable]).or(fit).or(first).or_else(|| Some(seen.lacks(y)));
        }
        out
    }
}

/// The results of an experiment's parts as one, with the document's numbers as findings; nothing where
/// nothing was measured.
#[must_use]
pub fn together(report: &Report, results: &[&Results]) -> Option<Results> {
    let mut parts = results.iter();
    let mut out = (*parts.next()?).clone();
    for part in parts {
        for case in &part.cases {
            // Each part has a floor of its own; the first speaks for all.
            if out.cases.iter().all(|c| c.id != case.id) {
                out.cases.push(case.clone());
            }
        }
        out.findings.extend(part.findings.iter().cloned());
        out.interrupted |= part.interrupted;
    }
    out.findings.extend(report.numbers.iter().enumerate().map(|(n, number)| {
        let here = match (number.here, &number.reason) {
            (Some(here), _) => format!("{} {}", brief(here.value), number.unit),
            (None, reason) => format!("none, {}", reason.as_deref().unwrap_or("not measured")),
        };
        let printed: Vec<String> = number
            .printed
            .iter()
            .filter_map(|p| Some(format!("{} {} ({})", brief(p.value?), number.unit, p.device)))
            .collect();
        let printed = if printed.is_empty() { "no number".to_owned() } else { printed.join(", ") };
        Finding {
            name: format!("reproduce/{}/{}", report.name, n + 1),
            text: format!("{}, {}: here {here}; the document: {printed}", report.name, number.what),
            figures: number
                .here
                .iter()
                .map(|e| Figure::new(number.what, number.unit, *e))
                .collect(),
            confidence: None,
            method: "beside the document",
        }
    }));
    Some(out)
}

/// A number with four digits that count.
fn brief(x: f64) -> String {
    let digits = if x == 0.0 || !x.is_finite() {
        0
    } else {
        (3 - x.abs().log10().floor() as i32).clamp(0, 9)
    };
    format!("{x:.*}", digits as usize)
}

/// The document's side of a row.
fn number(of: &Experiment, row: &Row) -> Number {
    let printed = of.devices.iter().zip(row.printed);
    Number {
        what: row.what,
        unit: row.unit,
        printed: printed.map(|(device, value)| Printed { device, value: *value }).collect(),
        here: None,
        reason: None,
    }
}

/// Schedulers of a compute unit (NVIDIA, CUDA C++ Programming Guide, "Compute capabilities").
pub(super) fn schedulers(device: &DeviceFacts) -> Option<f64> {
    match device.nv_capability? {
        (2, _) | (6, 0) => Some(2.0),
        (3.., _) => Some(4.0),
        _ => None,
    }
}

/// What was measured.
struct Seen<'r> {
    results: &'r [&'r Results],
}

impl<'r> Seen<'r> {
    fn cases(&self) -> impl Iterator<Item = &'r CaseResult> {
        self.results.iter().flat_map(|r| &r.cases)
    }

    /// Why no case has a figure.
    fn lacks(&self, figure: &str) -> String {
        let by_power = ["power", "efficiency"].contains(&figure) || figure.contains("energy");
        let source = self.results.first().map_or("", |r| r.power_source.as_str());
        if by_power {
            format!("no power was read; sensor: {source}")
        } else if figure.contains("cycle") {
            format!("no clock was read; sensor: {source}")
        } else {
            "it does not follow from what was measured".to_owned()
        }
    }

    fn walks(&self) -> Vec<Walk<'r>> {
        self.results.iter().flat_map(|r| sweep::walks(r)).collect()
    }

    /// Curves of a figure: of each sweep, one for each value of its other axis; of cases that are
    /// not swept, one for all whose ids differ in their last part.
    fn curves(&self, x: X, y: &str) -> Vec<Curve> {
        let walks = self.walks();
        let mut found: BTreeMap<(usize, String), Vec<Point>> = BTreeMap::new();
        for (n, walk) in walks.iter().enumerate() {
            let along = if let X::Axis(axis) = x { axis } else { 0 };
            for point in &walk.points {
                let other = value_at(point, 1 - along.min(1));
                let other =
                    other.map(|v| format!("{} {}", walk.axes[1 - along.min(1)].name(), shown(v)));
                let name = [(walks.len() > 1).then(|| walk.case.to_owned()), other];
                let name: Vec<String> = name.into_iter().flatten().collect();
                let axis = value_at(point, along).and_then(serde_json::Value::as_f64);
                found.entry((n, name.join(", "))).or_default().extend(place(point, x, y, axis));
            }
        }
        for case in self.cases().filter(|c| c.swept.is_none() && !suite::is_floor(&c.id)) {
            let name = case.id.rsplit_once('/').map_or(case.id.as_str(), |(begin, _)| begin);
            let at = found.entry((walks.len(), name.to_owned())).or_default();
            at.extend(place(case, x, y, None));
        }
        let mut out: Vec<((usize, String), Vec<Point>)> = found.into_iter().collect();
        // Names hold numbers: 4 comes before 16.
        out.sort_by_key(|((n, name), _)| {
            let number = name.rsplit(' ').next().and_then(|w| w.parse::<u64>().ok());
            (*n, number, name.clone())
        });
        let curve = |((_, name), mut points): ((usize, String), Vec<Point>)| {
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            (!points.is_empty()).then_some(Curve { name, points })
        };
        out.into_iter().filter_map(curve).collect()
    }

    /// The work-items that are needed at each number of additions, as measured and as models have it.
    fn needed(&self) -> Vec<Curve> {
        let exact = |(x, y): (f64, f64)| Point { x, y: Estimate::symmetric(y, 0.0) };
        let curve = |name: String, points: Vec<(f64, f64)>| Curve {
            name,
            points: points.into_iter().map(exact).collect(),
        };
        let mut out = Vec::new();
        for walk in self.walks() {
            let needs = self.needs(&walk);
            let known = needs.iter().filter_map(|n| Some((n.alpha, n.items?)));
            out.push(curve(format!("measured, {}", walk.case), known.collect()));
            let Some(kind) = walk.case.split('/').nth(1) else { continue };
            let Ok(fitted) = Fitted::of_chain(self.results, kind) else { continue };
            for model in [Model::Basic, Model::ByUtilisation] {
                let of = |n: &Need| Some((n.alpha, fitted.needed(model, n.alpha)?));
                out.push(curve(model.name().to_owned(), needs.iter().filter_map(of).collect()));
            }
        }
        out.retain(|c| !c.points.is_empty());
        out
    }

    fn needs(&self, walk: &Walk<'_>) -> Vec<Need> {
        sweep::needed(walk, Peaks::of(walk, self.cases()))
    }

    fn saw_tooth(&self, figure: &str, over: bool) -> Result<Estimate, String> {
        let units = self.results.first().map_or(1, |r| u64::from(r.device.compute_units.max(1)));
        let mut worst: Option<f64> = None;
        for walk in self.walks() {
            let Some(along) = walk.axes.iter().position(|a| *a == Axis::Blocks) else { continue };
            // Of two axes, a line for each value of the other.
            let others = if walk.axes.len() > 1 { walk.values(1 - along) } else { Vec::new() };
            let others = others.into_iter().map(Some);
            let others: Vec<_> = if walk.axes.len() > 1 { others.collect() } else { vec![None] };
            for other in others {
                let line = walk.line(figure, along, other);
                let points = line.iter().map(|(groups, of)| (*groups as u64, of.value));
                let points: Vec<(u64, f64)> = points.filter(|p| p.0 <= 4 * units).collect();
                let Some(waves) = SawTooth::fit(&points, units) else { continue };
                for (groups, measured) in points.iter().filter(|p| p.0 > units) {
                    let ratio = waves.throughput(*groups) / measured;
                    let worse = |w: f64| if over { ratio > w } else { ratio < w };
                    if worst.is_none_or(worse) {
                        worst = Some(ratio);
                    }
                }
            }
        }
        let why = "not measured with more work-groups than compute units";
        worst.map(|w| Estimate::symmetric(w, 0.0)).ok_or_else(|| why.to_owned())
    }

    /// What is asked of the curve of needed work-items.
    fn need(&self, of: Needed) -> Result<Estimate, String> {
        let walks = self.walks();
        let grid = walks.iter().map(|walk| self.needs(walk)).find(|needs| !needs.is_empty());
        let needs = grid.unwrap_or_default();
        let of_end = |end: Option<&Need>| {
            let end = end.ok_or("no mix was measured")?;
            let why = || format!("{} additions reached 90 % of no peak here", end.alpha);
            end.items.ok_or_else(why)
        };
        let value = match of {
            Needed::Fewest => of_end(needs.first())?,
            Needed::Most => of_end(needs.last())?,
            Needed::Cusp => sweep::cusp(&needs)?.1,
            Needed::Additions => sweep::cusp(&needs)?.0,
        };
        Ok(Estimate::symmetric(value, 0.0))
    }

    fn picked(&self, pick: Pick) -> Result<Vec<Estimate>, String> {
        let at = |case: &&CaseResult| {
            pick.at.iter().all(|(axis, wanted)| {
                let place = case.swept.iter().flat_map(|s| &s.at);
                place.into_iter().any(|c| c.axis == *axis && shown(&c.value) == *wanted)
            })
        };
        let ours: Vec<&CaseResult> =
            self.cases().filter(|c| c.id.contains(pick.case)).filter(at).collect();
        let found: Vec<Estimate> =
            ours.iter().filter_map(|c| Some(c.figure(pick.figure)?.estimate)).collect();
        if !found.is_empty() {
            return Ok(found);
        }
        let reason = ours.iter().find_map(|c| c.reason.clone());
        Err(match (reason, ours.is_empty()) {
            (Some(reason), _) => reason,
            (None, true) => "no such point was measured".to_owned(),
            (None, false) => self.lacks(pick.figure),
        })
    }

    fn most(&self, pick: Pick) -> Result<Estimate, String> {
        let found = self.picked(pick)?;
        let most = found.into_iter().max_by(|a, b| a.value.total_cmp(&b.value));
        most.ok_or_else(|| self.lacks(pick.figure))
    }

    fn finding(&self, [name, figure]: [&str; 2]) -> Result<Estimate, String> {
        let all = self.results.iter().flat_map(|r| &r.findings);
        let mut figures = all.filter(|f| f.name == name).flat_map(|f| &f.figures);
        let found = figures.find(|f| f.name == figure).map(|f| f.estimate);
        found.ok_or_else(|| self.lacks(figure))
    }

    fn value(&self, of: Ours, fitted: &Result<Fitted, String>) -> Result<Estimate, String> {
        let fitted = || fitted.as_ref().map_err(Clone::clone);
        match of {
            Ours::Worst { model, over } => {
                let ratio = fitted()?.worst_of(model, over)?;
                Ok(Estimate::symmetric(ratio, 0.0))
            }
            Ours::Needed(of) => self.need(of),
            Ours::SawTooth { figure, over } => self.saw_tooth(figure, over),
            Ours::Input(input) => {
                let value = fitted()?.input(input)?;
                Ok(Estimate::symmetric(value, 0.0))
            }
            Ours::Most(pick) => self.most(pick),
            Ours::Least(pick) => {
                let found = self.picked(pick)?;
                let least = found.into_iter().min_by(|a, b| a.value.total_cmp(&b.value));
                least.ok_or_else(|| self.lacks(pick.figure))
            }
            Ours::Ratio(a, b) => Ok(self.most(a)?.over(self.most(b)?)),
            Ours::Found(finding, figure) => self.finding([finding, figure]),
            Ours::FoundRatio(a, b) => Ok(self.finding(a)?.over(self.finding(b)?)),
            Ours::FoundDifference(a, b) => Ok(self.finding(a)?.minus(self.finding(b)?)),
            Ours::Level(pick) => {
                let curves = self.curves(X::Axis(0), pick.figure);
                let points = curves.first().map(|c| c.points.as_slice()).unwrap_or_default();
                let first = points.first().ok_or_else(|| self.lacks(pick.figure))?.y.value;
                let level = points.iter().take_while(|p| p.y.value <= LEVEL * first);
                let last = level.last().ok_or_else(|| self.lacks(pick.figure))?;
                Ok(Estimate::symmetric(last.x, 0.0))
            }
            Ours::Span(figure) => {
                let curves = self.curves(X::Axis(0), figure);
                let ends = curves.first().and_then(|c| Some((c.points.first()?, c.points.last()?)));
                let (first, last) = ends.ok_or_else(|| self.lacks(figure))?;
                Ok(last.y.minus(first.y))
            }
            Ours::Nothing(why) => Err(why.to_owned()),
        }
    }

    /// Ours, in the document's unit.
    fn ours(&self, row: &Row, fitted: &Result<Fitted, String>) -> Result<Estimate, String> {
        let value = self.value(row.ours, fitted)?.times(row.times);
        let Some(device) = self.results.first().map(|r| &r.device) else {
            return Err("nothing was measured".to_owned());
        };
        let lanes = suite::lanes(device) as f64;
        let schedulers = || {
            schedulers(device)
                .ok_or_else(|| "how many schedulers a compute unit has is not known".to_owned())
        };
        let by = match row.per {
            Per::Device => 1.0,
            Per::Unit => f64::from(device.compute_units.max(1)),
            Per::Warp => lanes,
            Per::Scheduler => schedulers()?,
            Per::WarpOfScheduler => lanes * schedulers()?,
        };
        Ok(value.times(1.0 / by))
    }
}

/// What the curves of the models stand at.
const TURNS: &str = "accesses with their additions, of a warp, a cycle and unit";

/// A time within this of the first is the same.
const LEVEL: f64 = 1.05;

/// Where a case stands on a curve.
fn place(case: &CaseResult, x: X, y: &str, axis: Option<f64>) -> Option<Point> {
    let x = match x {
        X::Axis(_) => axis?,
        X::Items => case.timing.as_ref().map(|t| (t.groups * t.group_size) as f64)?,
        X::Figure(name) => case.figure(name)?.estimate.value,
        X::Parameter(name) => case.number(name)?,
    };
    Some(Point { x, y: case.figure(y)?.estimate })
}

#[cfg(test)]
pub(super) mod tests;
