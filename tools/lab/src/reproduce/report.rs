//! What an experiment gave beside what the document prints: curves, numbers, and why one is
//! missing. Owns the shape of the document `clscope-lab --reproduce` writes; refuses to measure.

use super::measure::changed;
use super::models::{self, Worst};
use super::{Draw, Experiment, Formula, How, Ours, Row};
use clscope_microbench::cl::DeviceFacts;
pub use clscope_microbench::results::Point;
use clscope_microbench::results::{Figure, Finding, Results, Status};
use clscope_microbench::stats::Interval;
pub(super) use seen::Seen;
use serde::Serialize;

mod seen;

/// The name of the schema and its version.
pub const SCHEMA: &str = "clscope-bench-reproduced/2";

/// All of a run.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct Reported {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Version of this program.
    pub version: &'static str,
    /// What was measured; null where nothing is, but all computed.
    pub device: Option<On>,
    /// The experiments in the order in which they ran.
    pub experiments: Vec<Report>,
    /// Whether the user ended the run early.
    pub interrupted: bool,
}

/// A device of ours.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
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
    pub fn describe(device: &DeviceFacts) -> On {
        On {
            name: device.name.clone(),
            platform: device.platform.clone(),
            driver: device.driver.clone(),
            compute_units: device.compute_units,
        }
    }
}

/// What became of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
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
    /// Its numbers were computed, without a device.
    Computed,
    /// No case measures this.
    NotReproducible,
}

impl State {
    /// All.
    pub const ALL: [State; 6] = [
        State::Measured,
        State::Computed,
        State::NotAvailable,
        State::Failed,
        State::CutShort,
        State::NotReproducible,
    ];

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            State::Measured => "measured",
            State::NotAvailable => "not available here",
            State::Failed => "failed",
            State::CutShort => "cut short",
            State::Computed => "computed",
            State::NotReproducible => "not reproducible",
        }
    }
}

/// One experiment.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
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
    /// What was measured in another way than the document's, because of the device.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The commands that measure the same.
    pub commands: Vec<String>,
    /// How long it took, ns; 0 where another experiment had measured the same.
    pub took_ns: Option<f64>,
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
    /// What computed it; of models, where their parameters come from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
}

/// A curve.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Curve {
    /// What tells it from the others.
    pub name: String,
    /// Its points, x rising.
    pub points: Vec<Point>,
}

/// A number of the document beside ours.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct Number {
    /// What it is.
    pub what: &'static str,
    /// Its unit; empty for a quotient.
    pub unit: &'static str,
    /// What the document prints.
    pub printed: Vec<Printed>,
    /// Ours, in the same unit.
    #[schemars(with = "Option<clscope_microbench::stats::MayBeNone>")]
    pub here: Option<Interval>,
    /// What was compared for ours, where the name is not true of this device to the letter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compared: Option<String>,
    /// Why there is none of ours.
    pub reason: Option<String>,
}

impl Number {
    /// Ours as `value` writes it, with what was compared; the place of its reason, from 1, where
    /// `shared` lists that.
    pub fn in_words(
        &self,
        shared: &[&str],
        value: impl FnOnce(&Self, Option<&str>) -> String,
    ) -> String {
        let noted = |reason: &str| shared.iter().position(|s| *s == reason);
        if let (None, Some(note)) = (&self.here, self.reason.as_deref().and_then(noted)) {
            return format!("none ({})", note + 1);
        }
        let how = self.compared.as_ref().map_or_else(String::new, |how| format!(" ({how})"));
        value(self, self.reason.as_deref().filter(|r| !r.is_empty())) + &how
    }
}

/// A number of the document.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Printed {
    /// The document's device.
    pub device: &'static str,
    /// The number; null where the document has none for this device.
    pub value: Option<f64>,
}

impl Report {
    /// The reasons for which numbers have none of ours, each once: tables say them below.
    pub fn reasons(&self) -> Vec<&str> {
        let mut out: Vec<&str> = Vec::new();
        let all = self.numbers.iter().filter_map(|n| n.reason.as_deref());
        for reason in all.filter(|r| !r.is_empty()) {
            if !out.contains(&reason) {
                out.push(reason);
            }
        }
        out
    }

    /// An experiment of which nothing is measured, because of a reason.
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
            notes: Vec::new(),
            commands: of.parts().into_iter().map(super::Part::command).collect(),
            took_ns: None,
            x: None,
            y: None,
            curves: Vec::new(),
            numbers: of.rows.iter().map(number).collect(),
            models: Vec::new(),
            method: None,
        }
    }

    /// An experiment whose numbers are computed, by `how`.
    pub fn computed(of: &'static Experiment, how: &'static str) -> Report {
        let value = |row: &Row| match row.ours {
            Ours::Computed(by) => by.value().map(|x| x * row.times),
            _ => Err("it is not computed".to_owned()),
        };
        let ours = |row: &Row| match value(row) {
            Ok(x) => Number { here: Some(Interval::symmetric(x, 0.0)), ..number(of, row) },
            Err(why) => Number { reason: Some(why), ..number(of, row) },
        };
        Report {
            reason: None,
            method: Some(how.to_owned()),
            numbers: of.rows.iter().map(ours).collect(),
            ..Report::without(of, State::Computed, String::new())
        }
    }

    /// An experiment about a model, of a user's parameters.
    pub fn of_parameters(of: &'static Experiment, formula: &Formula, values: &[f64]) -> Report {
        let number = |(what, unit, value)| Number {
            what,
            unit,
            printed: Vec::new(),
            here: Some(Interval::symmetric(value, 0.0)),
            compared: None,
            reason: None,
        };
        let given = formula.parameters.iter().zip(values);
        let given: Vec<String> =
            given.map(|((name, ..), value)| format!("{name}={value}")).collect();
        Report {
            reason: None,
            method: Some(format!("the model with {}", given.join(", "))),
            numbers: formula.outputs(values).map(number).collect(),
            ..Report::without(of, State::Computed, String::new())
        }
    }

    /// An experiment of which its parts gave these results.
    pub fn evaluate(of: &'static Experiment, results: &[&Results]) -> Report {
        let How::Measure { draw, .. } = of.how else {
            return Report::without(of, State::NotReproducible, String::new());
        };
        let seen = Seen { results };
        let by_models = matches!(draw, Draw::Estimates(..) | Draw::Ratios(_));
        let fitted = models::Fitted::fit(results);
        let (x, y, curves) = match draw {
            Draw::Curves { x, label, y } => {
                let unit = seen.cases().find_map(|c| c.figure(y)).map_or("", |f| f.unit);
                let name = y.replace('_', " ");
                (Some(label), Some(format!("{name}, {unit}")), seen.curves(x, y))
            }
            Draw::Figures { x, label, y: name, figures } => {
                let unit = seen.cases().find_map(|c| c.figure(figures.first()?));
                let unit = unit.map_or("", |f| f.unit);
                let curves = figures.iter().flat_map(|figure| {
                    let shown = figure.replace('_', " ");
                    seen.curves(x, figure).into_iter().map(move |c| {
                        let name = [shown.as_str(), c.name.as_str()];
                        let name = name.map(str::trim).join(", ");
                        Curve { name: name.trim_end_matches(", ").to_owned(), ..c }
                    })
                });
                (Some(label), Some(format!("{name}, {unit}")), curves.collect())
            }
            Draw::LittlesLaw(y) => {
                let unit = seen.cases().find_map(|c| c.figure(y)).map_or("", |f| f.unit);
                let name = format!("{}, {unit}", y.replace('_', " "));
                (Some("work-items on a compute unit"), Some(name), seen.littles_law(y))
            }
            Draw::Series => {
                let mut all = seen.cases().flat_map(|c| &c.series);
                let (x, y) = all.next().map_or(("", ""), |s| (s.x, s.y));
                (Some(x), Some(y.to_owned()), seen.series())
            }
            Draw::Needed(models) => {
                let name = "work-items on a unit for 90 % of a peak".to_owned();
                (Some("additions for each access"), Some(name), seen.needed(models))
            }
            Draw::Estimates(alphas, models) => {
                let curves =
                    fitted.as_ref().map_or_else(|_| Vec::new(), |f| f.estimates(alphas, models));
                let y = if alphas.contains(&Some(0)) { INSTRUCTIONS } else { ADDITIONS };
                (Some("warps on a compute unit"), Some(y.to_owned()), curves)
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
                Ok(here) => {
                    let compared = seen.compared(row);
                    Number { here: Some(here), compared, ..number(of, row) }
                }
                Err(why) => Number { reason: Some(why), ..number(of, row) },
            })
            .collect();
        if let (Ok(fitted), Draw::Ratios(_)) = (&fitted, draw) {
            out.models = fitted.worst();
            out.method = Some(fitted.method.clone());
        }
        if let Some(results) = results.first() {
            let mut notes: Vec<String> =
                of.parts().into_iter().filter_map(|p| changed(p, &results.device)).collect();
            notes.dedup();
            out.notes = notes;
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
                Draw::Curves { y, .. } | Draw::LittlesLaw(y) => y,
                Draw::Figures { figures, .. } => figures.first().copied().unwrap_or(""),
                Draw::Needed(_) => "throughput",
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

/// The results of an experiment's parts as one, with the document's numbers as findings; nothing
/// where nothing was measured.
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
            (Some(here), _) => {
                let least = if here.high.is_infinite() { "at least " } else { "" };
                let how = number.compared.as_ref().map_or_else(String::new, |c| format!(" ({c})"));
                format!("{least}{}{how}", with_unit(here.value, number.unit))
            }
            (None, reason) => format!("none, {}", reason.as_deref().unwrap_or("not measured")),
        };
        let printed: Vec<String> = number
            .printed
            .iter()
            .filter_map(|p| Some(format!("{} ({})", with_unit(p.value?, number.unit), p.device)))
            .collect();
        let printed = if printed.is_empty() { "no number".to_owned() } else { printed.join(", ") };
        Finding::new(
            format!("reproduce/{}/{}", report.name, n + 1),
            format!("{}, {}: here {here}; the document: {printed}", report.name, number.what),
            number.here.iter().map(|e| Figure::new(number.what, number.unit, *e)).collect(),
            "beside the document",
        )
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

/// A number with its unit, if it has one.
fn with_unit(x: f64, unit: &str) -> String {
    format!("{} {unit}", brief(x)).trim_end().to_owned()
}

/// The document's side of a row.
fn number(of: &Experiment, row: &Row) -> Number {
    let printed = of.devices.iter().zip(row.printed);
    Number {
        what: row.what,
        unit: row.unit,
        printed: printed.map(|(device, value)| Printed { device, value: *value }).collect(),
        here: None,
        compared: None,
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

/// What the curves of the models stand at; with those of accesses alone.
const INSTRUCTIONS: &str = "accesses (alone) or additions of work-items, a cycle and unit (a nanosecond where no clock is known)";
const ADDITIONS: &str =
    "additions of work-items, a cycle and unit (a nanosecond where no clock is known)";

#[cfg(test)]
pub(super) mod tests;
