//! The energy model of Piispanen 2014, chapter 6, of the results of a device: joules of a statement
//! by class from one fit, and the total of equation 6.1 for an application. Owns which measurement
//! is which part of it; refuses to fit: that is `clscope_models::energy`.

use super::report::Seen;
use crate::suite::classes::STATEMENTS;
use crate::suite::mixture::KINDS;
use crate::sweep::Axis;
use clscope_microbench::results::{CaseResult, Status};
use clscope_microbench::stats::Interval;
use clscope_models::energy::{self, EnergyModel, Observation};
use clscope_models::hockney::{self, Link};
use clscope_models::idle::{State, States};

/// A number of the model.
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Energy {
    /// Joules of a statement, by its place in [`KINDS`].
    Kind(usize),
    /// The largest error of the power of a mixture that was left out of the fit, a share of the
    /// whole.
    Mixtures,
    /// Watts of the application above idle power, by the model.
    Above,
    /// All its watts by the model.
    Whole,
    /// All its watts by the sensor.
    Measured,
    /// The difference of both over what the model has above idle power.
    Difference,
    /// Watts of a part of equation 6.1.
    Part(Part),
    /// Joules of so many seconds without work.
    Rest(f64),
}

/// A part of equation 6.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// What is drawn without work of the device.
    Cpu,
    /// Kernels.
    Gpu,
    /// Of kernels, the statements of a kind, by its place in [`KINDS`] (figure 6.5b).
    Kind(usize),
    /// Transfers.
    Transfer,
}

/// Joules by class, and what they are judged by.
struct Fitted {
    model: EnergyModel,
    /// Of mixtures: error of the whole by a fit without it.
    errors: Vec<f64>,
}

const APPLICATION: &str = "classes/application";
const DIRECTIONS: [&str; 2] = ["to_device", "to_host"];

/// How many statements of each kind a launch of a case executes; `None` where it is none of this.
fn statements(case: &CaseResult) -> Option<Vec<f64>> {
    let timing = case.timing.as_ref()?;
    let items = (timing.groups * timing.group_size) as f64;
    let all = items * f64::from(timing.trips) * f64::from(STATEMENTS);
    let names: Vec<&str> = match case.parameters.get("mixture") {
        Some(of) => of.as_array()?.iter().filter_map(|name| name.as_str()).collect(),
        None => vec![case.id.strip_prefix("classes/")?],
    };
    let share = all / names.len() as f64;
    let mut of = vec![0.0; KINDS.len()];
    for name in names {
        of[KINDS.iter().position(|k| *k == name)?] += share;
    }
    Some(of)
}

impl Energy {
    /// The number.
    ///
    /// # Errors
    /// What of its inputs was not measured.
    pub(super) fn compute(self, seen: &Seen<'_>) -> Result<Interval, String> {
        let exact = |x| Ok(Interval::symmetric(x, 0.0));
        match self {
            Self::Kind(kind) => {
                let fitted = fitted(seen)?;
                let term = fitted.model.terms.get(KINDS[kind]);
                let lacks = || seen.reason().unwrap_or_else(|| "it was not measured".to_owned());
                term.map(|t| t.joules).ok_or_else(lacks)
            }
            Self::Mixtures => {
                let errors = fitted(seen)?.errors.into_iter().map(f64::abs);
                let worst = errors.reduce(f64::max).ok_or("no mixture was measured")?;
                exact(worst)
            }
            Self::Rest(seconds) => {
                let of = states(seen)?.joules(seconds);
                Ok(Interval::estimated(of.value, of.low, of.high))
            }
            Self::Measured => {
                let case = application(seen)?;
                case.estimate("power").ok_or_else(|| seen.lacks("power"))
            }
            Self::Part(part) => watts(seen, part),
            Self::Above => Ok(watts(seen, Part::Gpu)?.plus(watts(seen, Part::Transfer)?)),
            Self::Whole => Ok(Self::Above.compute(seen)?.plus(watts(seen, Part::Cpu)?)),
            Self::Difference => {
                let apart = Self::Whole.compute(seen)?.value - Self::Measured.compute(seen)?.value;
                exact(apart.abs() / Self::Above.compute(seen)?.value)
            }
        }
    }
}

fn floor(seen: &Seen<'_>) -> Result<Interval, String> {
    let case = seen.cases().find(|c| c.id == "classes/floor");
    let power = case.and_then(|c| c.figure("power"));
    power.map(|f| f.estimate).ok_or_else(|| seen.lacks("power"))
}

fn application<'r>(seen: &Seen<'r>) -> Result<&'r CaseResult, String> {
    let case = seen.cases().find(|c| c.id == APPLICATION && c.status == Status::Measured);
    case.ok_or_else(|| seen.reason().unwrap_or_else(|| "no application was run".to_owned()))
}

fn fitted(seen: &Seen<'_>) -> Result<Fitted, String> {
    let floor = floor(seen)?.value;
    let observation = |case: &CaseResult| {
        let seconds = case.value("steady_time")? * 1e-9;
        Some(Observation {
            group: case.id.clone(),
            amounts: statements(case)?,
            joules: ((case.value("power")? - floor) * seconds).max(0.0),
            floor_joules: floor * seconds,
        })
    };
    let ours = seen.cases().filter(|c| c.suite == "classes" && c.id != APPLICATION);
    let all: Vec<Observation> = ours.filter_map(observation).collect();
    let model = energy::fit_named(&all, floor, &KINDS).map_err(|why| why.to_string())?;
    let errors = energy::leave_one_out(&all).into_iter().zip(&all);
    let of_mixture = |(error, of): (Option<f64>, &Observation)| {
        error.filter(|_| of.group.starts_with("classes/mixture/"))
    };
    Ok(Fitted { model, errors: errors.filter_map(of_mixture).collect() })
}

/// Watts of a part of the application: its joules over the measured time of a turn.
fn watts(seen: &Seen<'_>, part: Part) -> Result<Interval, String> {
    let case = application(seen)?;
    let seconds = case.value("steady_time").ok_or_else(|| seen.lacks("power"))? * 1e-9;
    match part {
        Part::Cpu => floor(seen),
        Part::Gpu | Part::Kind(_) => {
            let launches = case.number("launches").unwrap_or(1.0);
            let of = statements(case).ok_or("its statements are not known")?;
            let Fitted { model, .. } = fitted(seen)?;
            let term = |(name, n): (&&str, &f64)| {
                let joules = model.terms.get(*name).map(|t| t.joules);
                joules.filter(|_| *n > 0.0).map(|j| j.times(n * launches / seconds))
            };
            let asked = |kind: usize| part == Part::Gpu || part == Part::Kind(kind);
            let kinds = KINDS.iter().zip(&of).enumerate().filter(|(kind, _)| asked(*kind));
            let terms = kinds.filter_map(|(_, of)| term(of));
            Ok(terms.fold(Interval::symmetric(0.0, 0.0), Interval::plus))
        }
        Part::Transfer => {
            let bytes = case.number("bytes").unwrap_or(0.0);
            let mut sum = Interval::symmetric(0.0, 0.0);
            for direction in DIRECTIONS {
                let time = link(seen, direction)?.time_ns(bytes).value * 1e-9;
                let id = format!("transfer/continuous/pageable/{direction}");
                let continuous = seen.cases().find(|c| c.id == id);
                let power = continuous.and_then(|c| c.figure("dynamic_power"));
                let power = power.ok_or_else(|| seen.lacks("power"))?.estimate;
                sum = sum.plus(power.times(time / seconds));
            }
            Ok(sum)
        }
    }
}

/// Time over size in a direction (equation 6.10 with a quotient, as Hockney has it).
fn link(seen: &Seen<'_>, direction: &str) -> Result<Link, String> {
    let begin = format!("transfer/pageable/{direction}/");
    let ours =
        seen.cases().filter(|c| c.swept.as_ref().is_some_and(|s| s.case.starts_with(&begin)));
    let point = |case: &CaseResult| Some((case.place(Axis::Size)?.as_f64()?, case.value("time")?));
    let points: Vec<(f64, f64)> = ours.filter_map(point).collect();
    let (segments, misfit) =
        hockney::fit(&points).ok_or("transfers of too few sizes were timed")?;
    let (direction, memory) = (direction.to_owned(), "pageable".to_owned());
    Ok(Link { direction, memory, segments, misfit, watts: None })
}

/// Operating states after a load.
fn states(seen: &Seen<'_>) -> Result<States, String> {
    let case = seen.cases().find(|c| c.id == "power/after_load");
    let of = |n: usize| {
        let figure = |what: &str| case?.figure(&format!("state_{n}_{what}"));
        let watts = figure("power")?.estimate;
        let hold_ns = figure("hold").map(|f| f.estimate.value * 1e9);
        Some(State { watts, clock_mhz: None, hold_ns })
    };
    let states: Vec<State> = (1..).map_while(of).collect();
    if states.is_empty() {
        return Err(case.and_then(|c| c.reason.clone()).unwrap_or_else(|| seen.lacks("power")));
    }
    Ok(States { states, watched_ns: 0.0, runs: 1 })
}
