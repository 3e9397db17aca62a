//! Models of latency hiding against a measured grid of additions for each access x occupancy
//! (Volkov 2016, chapter 7). Owns the models' parameters as they follow from measurements, and the
//! quotients; refuses to know a model: those are `clscope_models::prior` and `stations`.

use super::report::{Curve, Point as Place, schedulers};
use super::{AtFull, Input};
use crate::suite::lanes;
use crate::sweep::{Axis, ENOUGH};
use clscope_microbench::results::{CaseResult, Results, Status};
use clscope_microbench::stats::{self, Interval};
use clscope_models::latency::{Contention, Workload};
use clscope_models::prior::{self, Inputs, Model, Point};
use clscope_models::stations::{Curve as Curves, Stations};
use serde::Serialize;

/// How far a model is from what was measured over the whole grid.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Worst {
    /// The model.
    pub model: &'static str,
    /// The largest quotient of estimate and measurement.
    pub over: f64,
    /// Additions for each access, and warps of a unit, there.
    pub over_at: [f64; 2],
    /// The smallest quotient.
    pub under: f64,
    /// Additions for each access, and warps of a unit, there.
    pub under_at: [f64; 2],
}

/// Most warps of a unit that are asked of a model.
const MOST_WARPS: u32 = 256;
/// Additions for each access where there are no accesses: as many as make those count for nothing.
const ENDLESS: f64 = 1e9;
const NO_CLOCK: &str = "no clock was read, and the device states none";
const NO_CONTENTION: &str = "the latency of memory was not seen to grow with its throughput";

/// A measured grid, and the models' parameters.
pub(super) struct Fitted {
    inputs: Inputs,
    /// Mixes: one addition for each access, and more.
    grid: Vec<Point>,
    /// Accesses alone.
    accesses: Vec<Point>,
    /// Additions alone.
    additions: Vec<Point>,
    /// GB/s of an access of a warp a cycle and unit.
    gigabytes: f64,
    /// Work-items of a warp.
    lanes: f64,
    /// Whether cycles are cycles: else nanoseconds.
    has_clock: bool,
    /// Where the parameters come from.
    pub method: String,
}

/// A case in the models' units.
struct Seen<'r> {
    case: &'r CaseResult,
    /// Additions for each access, in the grid.
    alpha: Option<f64>,
    point: Point,
    /// Cycles of an instruction of the chain.
    latency: f64,
}

impl Fitted {
    /// Of the parts of an experiment: chains of streaming accesses.
    ///
    /// # Errors
    /// What is missing.
    pub fn fit(results: &[&Results]) -> Result<Fitted, String> {
        Self::of_chain(results, "stream")
    }

    /// The same with chains of another kind of instruction in the place of accesses.
    ///
    /// # Errors
    /// What is missing.
    pub fn of_chain(results: &[&Results], kind: &str) -> Result<Fitted, String> {
        let (every, single) = (format!("latency/{kind}/"), format!("latency/{kind}/ilp1/"));
        let device = &results.first().ok_or("nothing was measured")?.device;
        let cases = || {
            let all = results.iter().flat_map(|r| &r.cases);
            all.filter(|c| c.suite == "latency" && c.status == Status::Measured)
        };
        let clocks: Vec<f64> = cases().filter_map(|c| c.value("clock")).collect();
        let (mhz, clock) = match (stats::median(&clocks), device.max_clock_mhz) {
            (Some(mhz), _) => (Some(mhz), format!("clock {mhz:.0} MHz, observed")),
            (None, Some(mhz)) => (Some(f64::from(mhz)), format!("clock {mhz} MHz, stated")),
            (None, None) => (None, format!("{NO_CLOCK}: without Huang et al., greedy")),
        };
        // Cycles of a nanosecond. Without a clock the unit of time is the nanosecond: all quotients
        // are the same in any unit but those of Huang et al., greedy, which counts single cycles.
        let cycles = mhz.unwrap_or(1e3) * 1e-3;
        let (lanes, units) = (lanes(device) as f64, f64::from(device.compute_units.max(1)));
        let seen: Vec<Seen<'_>> = cases()
            .filter_map(|case| {
                let alpha = case.place(Axis::Alpha).and_then(|at| at.as_f64());
                let measured = case.value("throughput")? / (lanes * units * cycles);
                let n = case.value("items_per_unit")? / lanes;
                let point = Point { n, alpha: alpha.unwrap_or(0.0), measured };
                Some(Seen { case, alpha, point, latency: case.value("latency")? * cycles })
            })
            .collect();
        let chains = |begin: &str| {
            let begin = begin.to_owned();
            seen.iter().filter(move |s| s.alpha.is_none() && s.case.id.starts_with(&begin))
        };
        let least = |begin: &str| {
            let all = chains(begin).map(|s| s.latency).reduce(f64::min);
            all.ok_or_else(|| format!("no case of {begin} was measured"))
        };
        let most = |begin: &str| {
            let all = chains(begin).map(|s| s.point.measured).reduce(f64::max);
            all.ok_or_else(|| format!("no case of {begin} was measured"))
        };
        let alone = |begin: &str| Curves::of(chains(begin).map(|s| (s.point.n, s.point.measured)));
        let workload = Workload {
            memory_latency: least(&single)?,
            add_latency: least("latency/add/ilp1/")?,
            memory_throughput: most(&every)?,
            add_throughput: most("latency/add/ilp1/")?,
            // No document of a vendor's: what additions reach that are independent.
            issue_throughput: most("latency/add/")?,
        };
        // As the document does: without the limits, where there is none or nothing else.
        let mixes = seen.iter().filter(|s| s.case.id.starts_with(&every));
        let grid: Vec<Point> =
            mixes.filter(|s| s.alpha.is_some_and(|a| a >= 1.0)).map(|s| s.point).collect();
        if grid.is_empty() {
            return Err("no point of the grid was measured".to_owned());
        }
        let accesses = chains(&single).map(|s| s.point).collect();
        let additions = chains("latency/add/ilp1/").map(|s| {
            let turns = s.point.measured / ENDLESS;
            Point { alpha: ENDLESS, measured: turns, ..s.point }
        });
        let additions = additions.collect();
        let loaded: Vec<(f64, f64)> =
            chains(&single).map(|s| (s.point.measured, s.latency)).collect();
        let (many, from) = match schedulers(device) {
            Some(many) => (many, "known of its kind"),
            None => (workload.issue_throughput.round().max(1.0), "the best instructions a cycle"),
        };
        let method = format!(
            "chains of additions and of accesses over occupancy, alone; issue is the best of independent additions; pins are the best throughput; {many} schedulers ({from}); {clock}; a warp is {lanes} work-items"
        );
        let inputs = Inputs {
            workload,
            contention: Contention::fit(&loaded),
            pins: workload.memory_throughput,
            schedulers: many,
            stations: alone(&single)
                .zip(alone("latency/add/ilp1/"))
                .map(|(memory, additions)| Stations { memory, additions }),
        };
        let gigabytes = lanes * 4.0 * units * cycles;
        let has_clock = mhz.is_some();
        Ok(Fitted { inputs, grid, accesses, additions, gigabytes, lanes, has_clock, method })
    }

    /// Work-items of a unit that a model needs for 90 % of the bound of throughput, whole warps.
    /// `None` where an input is missing, or more are needed than it speaks of.
    pub fn needed(&self, model: Model, alpha: f64) -> Option<f64> {
        self.can(model).ok()?;
        let enough = ENOUGH * self.inputs.workload.throughput_bound(alpha);
        let enough_at = |n: &u32| {
            model.throughput(&self.inputs, f64::from(*n), alpha).is_some_and(|t| t >= enough)
        };
        (1..=MOST_WARPS).find(enough_at).map(|n| f64::from(n) * self.lanes)
    }

    /// Whether a model can be told without more than is known.
    fn can(&self, model: Model) -> Result<(), String> {
        // It counts single cycles.
        if model == Model::HuangGreedy && !self.has_clock {
            return Err(NO_CLOCK.to_owned());
        }
        if model == Model::Refined && self.inputs.contention.is_none() {
            return Err(NO_CONTENTION.to_owned());
        }
        Ok(())
    }

    fn compared(&self, grid: &[Point]) -> Vec<prior::Worst> {
        let mut all = prior::worst(&self.inputs, grid);
        all.retain(|w| self.can(w.model).is_ok());
        all
    }

    /// The worst quotients of every model whose inputs are known.
    pub fn worst(&self) -> Vec<Worst> {
        self.compared(&self.grid).into_iter().map(shown).collect()
    }

    /// The worst quotient of a model, among all points or those of the measured number of additions
    /// that is nearest to `alpha`.
    ///
    /// # Errors
    /// What of its inputs is not known.
    pub fn worst_of(&self, model: Model, over: bool, alpha: Option<u32>) -> Result<f64, String> {
        self.can(model)?;
        let all = match alpha {
            Some(alpha) => self.compared(&self.nearest(f64::from(alpha))),
            None => self.compared(&self.grid),
        };
        let found = all.iter().find(|w| w.model == model).ok_or("it has no finite estimate")?;
        Ok(if over { found.over } else { found.under })
    }

    /// A parameter.
    ///
    /// # Errors
    /// Why it is not known.
    pub fn input(&self, of: Input) -> Result<f64, String> {
        let w = &self.inputs.workload;
        let contention = || self.inputs.contention.ok_or_else(|| NO_CONTENTION.to_owned());
        let (accesses, additions) =
            (w.memory_latency * w.memory_throughput, w.add_latency * w.add_throughput);
        let found = match of {
            // Without a unit of time.
            Input::HideAccesses => return Ok(accesses),
            Input::HideAdditions => return Ok(additions),
            Input::HideBoth => return Ok(accesses + additions),
            Input::Balanced => return Ok(w.add_throughput / w.memory_throughput),
            Input::MemoryLatency => w.memory_latency,
            Input::MemoryThroughput => w.memory_throughput,
            Input::AddLatency => w.add_latency,
            Input::AddThroughput => w.add_throughput,
            Input::IssueThroughput => w.issue_throughput,
            Input::A => contention()?.a,
            Input::B => contention()?.b,
            Input::C => return Ok(contention()?.c * self.gigabytes),
        };
        if self.has_clock { Ok(found) } else { Err(NO_CLOCK.to_owned()) }
    }

    /// Points of the measured alpha that is nearest.
    fn nearest(&self, alpha: f64) -> Vec<Point> {
        let distance = |p: &&Point| (p.alpha / alpha).ln().abs();
        let nearest = self.grid.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)));
        let is = |p: &&Point| nearest.is_some_and(|n| n.alpha == p.alpha);
        self.grid.iter().filter(is).copied().collect()
    }

    /// Points of so many additions for each access, or of the number nearest to it that was
    /// measured: 0 are accesses alone, none additions.
    fn at(&self, alpha: Option<u32>) -> Vec<Point> {
        match alpha {
            Some(0) => self.accesses.clone(),
            None => self.additions.clone(),
            Some(alpha) => self.nearest(f64::from(alpha)),
        }
    }

    /// Work-items' instructions a cycle and unit, of turns of a warp: additions, but accesses where
    /// there is nothing else.
    fn instructions(&self, alpha: f64, turns: f64) -> f64 {
        turns * self.lanes * if alpha > 0.0 { alpha } else { 1.0 }
    }

    /// At the most warps that were measured, at so many additions for each access: what was
    /// measured, estimated, or both in proportion. Accesses alone are in GB/s, else it is additions
    /// of work-items, a cycle and unit.
    ///
    /// # Errors
    /// What is not known.
    pub fn at_full(&self, of: AtFull, alpha: Option<u32>) -> Result<f64, String> {
        let points = self.at(alpha);
        let full = points
            .iter()
            .max_by(|a, b| a.n.total_cmp(&b.n).then(a.measured.total_cmp(&b.measured)));
        let full = full.ok_or("no such point was measured")?;
        let estimate = |model: Model| {
            self.can(model)?;
            let turns = model.throughput(&self.inputs, full.n, full.alpha);
            turns.ok_or_else(|| "it has no finite estimate".to_owned())
        };
        let turns = match of {
            AtFull::Quotient(model) => return Ok(estimate(model)? / full.measured),
            AtFull::Measured => full.measured,
            AtFull::Estimate(model) => estimate(model)?,
        };
        match alpha {
            Some(0) => Ok(turns * self.gigabytes),
            _ if self.has_clock => Ok(self.instructions(full.alpha, turns)),
            _ => Err(NO_CLOCK.to_owned()),
        }
    }

    /// Instructions a cycle and unit over occupancy at these numbers of additions for each access,
    /// or those nearest to them that were measured: measured and estimated.
    pub fn estimates(&self, alphas: &[Option<u32>], models: &[Model]) -> Vec<Curve> {
        let one = |alpha: &Option<u32>| {
            let ours = self.at(*alpha);
            let Some(measured_at) = ours.first().map(|p| p.alpha) else { return Vec::new() };
            let mix = match *alpha {
                Some(0) => "accesses alone".to_owned(),
                None => "additions alone".to_owned(),
                _ => format!("{measured_at} additions"),
            };
            let y = |turns: f64| self.instructions(measured_at, turns);
            let measured =
                curve(format!("measured, {mix}"), ours.iter().map(|p| (p.n, y(p.measured))));
            let of = |model: &Model| {
                let at = |p: &Point| Some((p.n, y(model.throughput(&self.inputs, p.n, p.alpha)?)));
                let name = match alphas {
                    [_] => model.name().to_owned(),
                    _ => format!("{}, {mix}", model.name()),
                };
                curve(name, ours.iter().filter_map(at))
            };
            let models = models
                .iter()
                .filter(|m| self.can(**m).is_ok())
                .map(of)
                .filter(|c| !c.points.is_empty());
            std::iter::once(measured).chain(models).collect()
        };
        alphas.iter().flat_map(one).collect()
    }

    /// The worst quotients at each alpha (figures 7.11 to 7.13).
    pub fn ratios(&self, models: &[Model]) -> Vec<Curve> {
        let mut alphas: Vec<f64> = self.grid.iter().map(|p| p.alpha).collect();
        alphas.sort_by(f64::total_cmp);
        alphas.dedup();
        let at = |alpha: &f64| {
            let ours: Vec<Point> =
                self.grid.iter().filter(|p| p.alpha == *alpha).copied().collect();
            (*alpha, self.compared(&ours))
        };
        let all: Vec<(f64, Vec<prior::Worst>)> = alphas.iter().map(at).collect();
        let mut out = Vec::new();
        for model in models {
            for (word, over) in [("largest", true), ("smallest", false)] {
                let one = |(alpha, worst): &(f64, Vec<prior::Worst>)| {
                    let found = worst.iter().find(|w| w.model == *model)?;
                    Some((*alpha, if over { found.over } else { found.under }))
                };
                let points = all.iter().filter_map(one);
                out.push(curve(format!("{}, {word}", model.name()), points));
            }
        }
        out.retain(|c| !c.points.is_empty());
        out
    }
}

fn shown(of: prior::Worst) -> Worst {
    let at = |p: Point| [p.alpha, p.n];
    Worst {
        model: of.model.name(),
        over: of.over,
        over_at: at(of.over_at),
        under: of.under,
        under_at: at(of.under_at),
    }
}

fn curve(name: String, points: impl Iterator<Item = (f64, f64)>) -> Curve {
    let mut points: Vec<Place> =
        points.map(|(x, y)| Place { x, y: Interval::symmetric(y, 0.0) }).collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    Curve { name, points }
}

#[cfg(test)]
mod tests;
