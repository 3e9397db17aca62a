//! What the results of an experiment's parts say: curves, and the numbers that stand beside the
//! document's. Owns the choice among points; refuses to invent one that was not measured.

use super::super::measure::stands_in;
use super::super::models::Fitted;
use super::super::{Needed, Ours, Per, Pick, Row, X, of_units};
use super::{Curve, Point, schedulers};
use crate::suite;
use crate::sweep::{self, Axis, Need, Peaks, Walk, shown, value_at};
use clscope_microbench::cl::DeviceFacts;
use clscope_microbench::results::{CaseResult, Figure, Results};
use clscope_microbench::stats::Interval;
use clscope_models::prior::Model;
use clscope_models::waves::SawTooth;
use std::collections::BTreeMap;

/// What was measured.
pub(in super::super) struct Seen<'r> {
    pub results: &'r [&'r Results],
}

impl<'r> Seen<'r> {
    pub fn cases(&self) -> impl Iterator<Item = &'r CaseResult> {
        self.results.iter().flat_map(|r| &r.cases)
    }

    /// Why no case has a figure.
    pub fn lacks(&self, figure: &str) -> String {
        let by_power =
            ["power", "efficiency", "energy", "state_"].iter().any(|p| figure.contains(p));
        // Behind its name follows how it was read.
        let source = self.results.first().map_or("", |r| r.power_source.as_str());
        let source = source.split("; ").next().unwrap_or_default();
        if figure.starts_with("state_") && !source.starts_with("none") {
            return "no further state was seen while the device was watched".to_owned();
        }
        let ended = self.results.iter().any(|r| r.interrupted);
        if by_power && ended && self.cases().any(|c| c.figure("power").is_some()) {
            "the run was ended before idle power was measured".to_owned()
        } else if by_power {
            format!("no power was read; sensor: {source}")
        } else if figure.contains("cycle") {
            format!("no clock was read; sensor: {source}")
        } else if figure.starts_with("concurrency_needed") {
            let why =
                "dependent chains reach so much of the peak at no occupancy; independent ones do";
            why.to_owned()
        } else {
            "it does not follow from what was measured".to_owned()
        }
    }

    /// Why the first case that has no figures has none.
    pub fn reason(&self) -> Option<String> {
        self.cases().find_map(|c| c.reason.clone())
    }

    fn walks(&self) -> Vec<Walk<'r>> {
        self.results.iter().flat_map(|r| sweep::walks(r)).collect()
    }

    /// Curves of a figure: of each sweep, one for each value of its other axis; of cases that are
    /// not swept, one for all whose ids differ in their last part.
    pub fn curves(&self, x: X, y: &str) -> Vec<Curve> {
        // A parameter tells cases from each other: curves go through them.
        let through = matches!(x, X::Parameter(_));
        let walks = if through { Vec::new() } else { self.walks() };
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
        let alone = |c: &&CaseResult| (through || c.swept.is_none()) && !suite::is_floor(&c.id);
        for case in self.cases().filter(alone) {
            let id = case.swept.as_ref().map_or(case.id.as_str(), |s| s.case.as_str());
            let begin = id.rsplit_once('/').map_or(id, |(begin, _)| begin).to_owned();
            let place = case.swept.iter().flat_map(|s| &s.at);
            let place = place.map(|c| format!("{} {}", c.axis.name(), shown(&c.value)));
            let name: Vec<String> = std::iter::once(begin).chain(place).collect();
            let at = found.entry((walks.len(), name.join(", "))).or_default();
            at.extend(self::place(case, x, y, None));
        }
        let mut out: Vec<((usize, String), Vec<Point>)> = found.into_iter().collect();
        // Names hold numbers: 4 comes before 16.
        out.sort_by_key(|((n, name), _)| {
            let number = name.rsplit(' ').next().and_then(|w| w.parse::<u64>().ok());
            (*n, number, name.clone())
        });
        // Groups of several sizes may give one occupancy: the best of them stands for it.
        let best = x == X::Figure("items_per_unit");
        let curve = |((_, name), mut points): ((usize, String), Vec<Point>)| {
            points.sort_by(|a, b| a.x.total_cmp(&b.x).then(b.y.value.total_cmp(&a.y.value)));
            if best {
                points.dedup_by_key(|p| p.x);
            }
            (!points.is_empty()).then_some(Curve { name, points })
        };
        out.into_iter().filter_map(curve).collect()
    }

    /// A figure over work-items on a unit, each curve with its law.
    pub fn littles_law(&self, y: &str) -> Vec<Curve> {
        let law = |curve: &Curve| {
            let most = curve.points.iter().map(|p| p.y.value).reduce(f64::max)?;
            let first = curve.points.first().filter(|p| p.x > 0.0)?;
            let by_items = |x: f64| exact(most.min(x * first.y.value / first.x));
            let points = curve.points.iter().map(|p| Point { x: p.x, y: by_items(p.x) });
            let name = "in proportion from the fewest, up to the largest".to_owned();
            Some(Curve { name, points: points.collect() })
        };
        let mut measured = self.curves(X::Figure("items_per_unit"), y);
        for curve in measured.iter_mut().filter(|c| c.name.is_empty()) {
            curve.name = "measured".to_owned();
        }
        let laws: Vec<Curve> = measured.iter().filter_map(law).collect();
        measured.into_iter().chain(laws).collect()
    }

    /// What cases gave along something that is not swept, named by the case.
    pub fn series(&self) -> Vec<Curve> {
        let of = |case: &'r CaseResult| {
            case.series.iter().map(|s| Curve { name: case.id.clone(), points: s.points.clone() })
        };
        self.cases().flat_map(of).filter(|c| !c.points.is_empty()).collect()
    }

    /// The fewest work-items on a unit with which `pick` reaches so many percent of what `other`
    /// reaches, too.
    fn reaches(&self, pick: Pick, other: Pick, percent: u8) -> Result<Interval, String> {
        let enough =
            f64::from(percent) / 100.0 * self.most(pick)?.value.min(self.most(other)?.value);
        let all = self.cases().filter(|c| c.id.contains(pick.case));
        let reached = all
            .filter(|c| {
                let reached = c.value(pick.figure);
                reached.is_some_and(|r| r >= enough)
            })
            .filter_map(|c| c.value("items_per_unit"));
        let fewest = reached.reduce(f64::min).ok_or_else(|| self.lacks("items_per_unit"))?;
        Ok(exact(fewest))
    }

    /// A figure of the case whose load is the largest, or the smallest.
    fn under(&self, figure: &str, load: &str, most: bool) -> Result<Interval, String> {
        let known = self.cases().filter_map(|c| Some((c.value(load)?, c.estimate(figure)?)));
        let by = |a: &(f64, Interval), b: &(f64, Interval)| a.0.total_cmp(&b.0);
        let found = if most { known.max_by(by) } else { known.min_by(by) };
        found.map(|f| f.1).ok_or_else(|| self.reason().unwrap_or_else(|| self.lacks(figure)))
    }

    /// The work-items that are needed at each number of additions, as measured and as models have
    /// it.
    pub fn needed(&self, models: &[Model]) -> Vec<Curve> {
        let exact_point = |(x, y): (f64, f64)| Point { x, y: exact(y) };
        let curve = |name: String, points: Vec<(f64, f64)>| Curve {
            name,
            points: points.into_iter().map(exact_point).collect(),
        };
        let mut out = Vec::new();
        for walk in self.walks() {
            let needs = self.needs(&walk);
            let known = needs.iter().filter_map(|n| Some((n.alpha, n.items?)));
            out.push(curve(format!("measured, {}", walk.case), known.collect()));
            let Some(kind) = walk.case.split('/').nth(1) else { continue };
            let Ok(fitted) = Fitted::of_chain(self.results, kind) else { continue };
            for model in models.iter().copied() {
                let of = |n: &Need| Some((n.alpha, fitted.needed(model, n.alpha)?));
                let name = format!("{}, {kind}", model.name());
                out.push(curve(name, needs.iter().filter_map(of).collect()));
            }
        }
        out.retain(|c| !c.points.is_empty());
        out
    }

    fn needs(&self, walk: &Walk<'_>) -> Vec<Need> {
        sweep::needed(walk, Peaks::find(walk, self.cases()))
    }

    fn saw_tooth(&self, figure: &str, over: bool) -> Result<Interval, String> {
        let units = self.results.first().map_or(1, |r| u64::from(r.device.compute_units.max(1)));
        let mut worst: Option<f64> = None;
        for walk in self.walks() {
            let Some(along) = walk.axes.iter().position(|a| *a == Axis::Blocks) else { continue };
            // Of two axes, a line for each value of the other.
            let others: Vec<_> = match walk.axes.len() {
                1 => vec![None],
                _ => walk.values(1 - along).into_iter().map(Some).collect(),
            };
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
        worst.map(exact).ok_or_else(|| why.to_owned())
    }

    /// What is asked of the curve of needed work-items.
    fn need(&self, case: &str, of: Needed) -> Result<Interval, String> {
        let walks = self.walks();
        let ours = walks.iter().filter(|walk| walk.case == case);
        let grid = ours.map(|walk| self.needs(walk)).find(|needs| !needs.is_empty());
        let needs = grid.unwrap_or_default();
        let of_end = |end: Option<&Need>| {
            let end = end.ok_or("no mix was measured")?;
            let why = || format!("{} additions reached 90 % of no peak here", end.alpha);
            end.items.ok_or_else(why)
        };
        Ok(match of {
            Needed::Fewest => exact(of_end(needs.first())?),
            Needed::Most => exact(of_end(needs.last())?),
            Needed::Cusp => sweep::cusp(&needs)?.items,
            Needed::Additions => sweep::cusp(&needs)?.alpha,
        })
    }

    fn device(&self) -> Option<&'r DeviceFacts> {
        self.results.first().map(|r| &r.device)
    }

    /// A value of an axis on this device.
    fn wanted(&self, pick: Pick, (axis, value): (Axis, &str)) -> String {
        let units = self.device().map_or(1, |d| d.compute_units as usize);
        match (axis, pick.units, value.parse()) {
            (Axis::Blocks, Some(of), Ok(number)) => of_units(number, of, units).to_string(),
            _ => value.to_owned(),
        }
    }

    fn picked(&self, pick: Pick) -> Result<Vec<Interval>, String> {
        let wanted: Vec<(Axis, String)> =
            pick.at.iter().map(|at| (at.0, self.wanted(pick, *at))).collect();
        let at = |case: &&CaseResult| {
            wanted.iter().all(|(axis, wanted)| {
                let place = case.swept.iter().flat_map(|s| &s.at);
                place.into_iter().any(|c| c.axis == *axis && shown(&c.value) == *wanted)
            })
        };
        let case = self.device().map_or_else(String::new, |d| stands_in(pick.case, d));
        let ours: Vec<&CaseResult> =
            self.cases().filter(|c| c.id.contains(&case)).filter(at).collect();
        let found: Vec<Interval> = ours.iter().filter_map(|c| c.estimate(pick.figure)).collect();
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

    fn most(&self, pick: Pick) -> Result<Interval, String> {
        let most = |a: Interval, b: Interval| if b.value >= a.value { b } else { a };
        self.picked(pick)?.into_iter().reduce(most).ok_or_else(|| self.lacks(pick.figure))
    }

    fn finding(&self, [name, figure]: [&str; 2]) -> Result<Interval, String> {
        let all = self.results.iter().flat_map(|r| &r.findings);
        let mut figures = all.filter(|f| f.name == name).flat_map(|f| &f.figures);
        let found = figures.find(|f| f.name == figure).map(|f| f.estimate);
        found.ok_or_else(|| self.lacks(figure))
    }

    fn value(&self, of: Ours, fitted: &Result<Fitted, String>) -> Result<Interval, String> {
        let fitted = || fitted.as_ref().map_err(Clone::clone);
        match of {
            Ours::Worst { model, over, alpha } => {
                Ok(exact(fitted()?.worst_of(model, over, alpha)?))
            }
            Ours::OfPeak => {
                let share = |c: &CaseResult| {
                    let begins = |f: &&Figure| f.name.starts_with("share_of_peak");
                    c.figures.iter().find(begins).map(|f| f.estimate)
                };
                let most =
                    self.cases().filter_map(share).max_by(|a, b| a.value.total_cmp(&b.value));
                let none = "what this device can do at most is not known";
                most.ok_or_else(|| none.to_owned())
            }
            Ours::AtFull(of, alpha) => Ok(exact(fitted()?.at_full(of, alpha)?)),
            Ours::Energy(of) => of.compute(self),
            Ours::Computed(by) => by.value().map(exact),
            Ours::Needed(case, of) => self.need(case, of),
            Ours::SawTooth { figure, over } => self.saw_tooth(figure, over),
            Ours::Input(input) => Ok(exact(fitted()?.input(input)?)),
            Ours::Most(pick) => self.most(pick),
            Ours::Least(pick) => {
                let least = |a: Interval, b: Interval| if b.value < a.value { b } else { a };
                self.picked(pick)?.into_iter().reduce(least).ok_or_else(|| self.lacks(pick.figure))
            }
            Ours::Mean(pick) => {
                let found = self.picked(pick)?;
                let share = 1.0 / found.len() as f64;
                let sum = found.into_iter().fold(exact(0.0), Interval::plus);
                Ok(sum.times(share))
            }
            Ours::Ratio(a, b) => Ok(self.most(a)?.over(self.most(b)?)),
            Ours::Reaches(pick, other, percent) => self.reaches(pick, other, percent),
            Ours::Under { figure, load, most } => self.under(figure, load, most),
            Ours::Found(finding, figure) => self.finding([finding, figure]),
            Ours::FoundRatio(a, b) => Ok(self.finding(a)?.over(self.finding(b)?)),
            Ours::FoundDifference(a, b) => Ok(self.finding(a)?.minus(self.finding(b)?)),
            Ours::Level(pick) => {
                let curves = self.curves(X::Axis(0), pick.figure);
                let points = curves.first().map(|c| c.points.as_slice()).unwrap_or_default();
                let first = points.first().ok_or_else(|| self.lacks(pick.figure))?.y.value;
                let level = points.iter().take_while(|p| p.y.value <= LEVEL * first).count();
                let last = level.checked_sub(1).and_then(|n| points.get(n));
                let value = last.ok_or_else(|| self.lacks(pick.figure))?.x;
                let high = if level == points.len() { f64::INFINITY } else { value };
                Ok(Interval::estimated(value, value, high))
            }
            Ours::Span(figure) => {
                let [first, last] = self.ends(figure)?;
                Ok(last.y.minus(first.y))
            }
            Ours::Nothing(why) => Err(why.to_owned()),
        }
    }

    /// The points of a curve at 1 and at its end.
    fn ends(&self, figure: &str) -> Result<[Point; 2], String> {
        let curves = self.curves(X::Axis(0), figure);
        let ends = curves.first().and_then(|c| Some([*c.points.first()?, *c.points.last()?]));
        let [first, last] = ends.ok_or_else(|| self.lacks(figure))?;
        if first.x == 1.0 && last.x > 1.0 {
            return Ok([first, last]);
        }
        Err(format!("{} to {} were measured, and 1 and more are compared", first.x, last.x))
    }

    /// What was compared for a number of ours, where its name does not say.
    pub fn compared(&self, row: &Row) -> Option<String> {
        match row.ours {
            Ours::Span(figure) => {
                let [first, last] = self.ends(figure).ok()?;
                Some(format!("{} against {}", last.x, first.x))
            }
            Ours::Ratio(a, b) => {
                let at = |pick: Pick| -> Option<(&str, String)> {
                    let at = *pick.at.iter().find(|at| at.0 == Axis::Blocks)?;
                    Some((at.1, self.wanted(pick, at)))
                };
                let (a, b) = (at(a)?, at(b)?);
                let other = a.0 != a.1 || b.0 != b.1;
                other.then(|| format!("{} against {} work-groups", a.1, b.1))
            }
            _ => None,
        }
    }

    /// Ours, in the document's unit.
    pub fn ours(&self, row: &Row, fitted: &Result<Fitted, String>) -> Result<Interval, String> {
        let value = self.value(row.ours, fitted)?.times(row.times);
        let Some(device) = self.device() else {
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

fn exact(value: f64) -> Interval {
    Interval::symmetric(value, 0.0)
}

/// A time within this of the first is the same.
const LEVEL: f64 = 1.05;

/// Where a case stands on a curve.
fn place(case: &CaseResult, x: X, y: &str, axis: Option<f64>) -> Option<Point> {
    let x = match x {
        X::Axis(_) => axis?,
        X::Items => case.timing.as_ref().map(|t| (t.groups * t.group_size) as f64)?,
        X::Figure(name) => case.value(name)?,
        X::Parameter(name) => case.number(name)?,
    };
    Some(Point { x, y: case.estimate(y)? })
}
