//! Experiments, measured one by one within a budget; one that fails keeps none of the others from
//! running. Owns their order, what is shared between them, and each one's share of the time;
//! refuses to know what they measure.

use super::{
    Experiment, How, On, Part, Ran, Report, Reported, SCHEMA, State, all, cases, find, formula,
};
use crate::output::files::{self, WriteError};
use crate::run::{self, Choice, Until, Watch};
use crate::sweep::{Along, SweepError};
use clscope_io::text::chain;
use clscope_microbench::bench::Settings;
use clscope_microbench::cl::{ClError, Device};
use clscope_microbench::power::Metering;
use clscope_microbench::results::Results;
use clscope_trace::names::pattern;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// Seconds for several where the user names none.
const BUDGET: f64 = 1200.0;
/// An experiment may take so many times its even share of the time that is left, and as much for
/// each later one that has a part in common with it.
const SHARE: f64 = 2.0;

/// What is wanted of all of them.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// The device; none where nothing is measured ([`needs_device`]).
    pub device: Option<&'a Device>,
    /// What the user says of launches.
    pub settings: &'a Settings,
    /// The axes whose values the user chose.
    pub asked: &'a [Along],
    /// Sensors that are read.
    pub sensors: &'a Metering,
    /// Seconds for all together.
    pub budget: Option<f64>,
    /// Directory of files.
    pub output: Option<&'a Path>,
    /// Parameters of the model that is the experiment, instead of the document's.
    pub parameters: Option<&'a [f64]>,
}

/// What happens meanwhile.
#[derive(Debug)]
pub enum News<'a> {
    /// An experiment begins.
    Begins(&'static str),
    /// The first one's parts are known; so is whether the device has counters.
    First(Vec<&'a Results>),
    /// One has come to an end that is told.
    Report(&'a Report, Option<&'a On>),
}

/// Why experiments are not measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // fields are named in the messages
pub enum SessionError {
    /// A name means none.
    #[error("no experiment is called {name}{near}; `clscope-lab --reproduce list` names all")]
    Unknown { name: String, near: String },
    /// No experiment has an axis.
    #[error(
        "--sweep {axis}: no experiment of {names} is along this axis; `clscope-lab --reproduce list` has the axes of each, and a case by itself takes any of its own"
    )]
    Axis { axis: &'static str, names: String },
    /// The model takes no such parameters, or the experiment is no model.
    #[error("--with: {0}")]
    With(String),
    /// Files cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// What happens cannot be told.
    #[error(transparent)]
    Told(#[from] io::Error),
}

/// Why the parts of an experiment cannot be measured: its report says so.
#[derive(Debug, thiserror::Error)]
enum PartError {
    #[error(transparent)]
    Sweep(#[from] SweepError),
    #[error("cannot use the device")]
    Cl(#[from] ClError),
    #[error("no device was opened for it")]
    NoDevice,
}

/// Whether any of the experiments is measured: what is computed needs no device.
pub fn needs_device(experiments: &[&'static Experiment]) -> bool {
    experiments.iter().any(|e| !e.parts().is_empty())
}

/// The experiments of names, each once, in the order of the documents.
///
/// # Errors
/// Where a name means none.
pub fn named(names: &[String]) -> Result<Vec<&'static Experiment>, SessionError> {
    for name in names {
        if !all().any(|e| means(name, e)) {
            return Err(unknown(name));
        }
    }
    Ok(all().filter(|e| names.iter().any(|name| means(name, e))).collect())
}

/// Whether a name, or a pattern with `*` and `?`, means an experiment.
fn means(name: &str, of: &Experiment) -> bool {
    name == "all"
        || pattern::matches(name, of.name)
        || find(name).is_some_and(|found| found.name == of.name)
}

/// The error of a name that means nothing: with those whose names are nearest.
fn unknown(name: &str) -> SessionError {
    let mut near: Vec<(f64, &str)> = all()
        .map(|e| (strsim::jaro_winkler(name, e.name), e.name))
        .filter(|(like, _)| *like > 0.6)
        .collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    let near: Vec<&str> = near.into_iter().take(4).map(|n| n.1).collect();
    let near = match near.is_empty() {
        true => String::new(),
        false => format!("; the nearest are {}", near.join(", ")),
    };
    SessionError::Unknown { name: name.to_owned(), near }
}

/// Whether each axis is one of an experiment.
///
/// # Errors
/// Where one is of none.
pub fn along(experiments: &[&'static Experiment], asked: &[Along]) -> Result<(), SessionError> {
    for along in asked {
        let has =
            |e: &&Experiment| e.parts().iter().any(|p| p.along.iter().any(|a| a.0 == along.axis));
        if !experiments.iter().any(has) {
            let names: Vec<&str> = experiments.iter().take(4).map(|e| e.name).collect();
            let (axis, names) = (along.axis.name(), names.join(", "));
            return Err(SessionError::Axis { axis, names });
        }
    }
    Ok(())
}

/// The parameters of the model that is the only experiment: the document's but for these.
///
/// # Errors
/// Where there are several experiments, it is no model, or takes no such parameter.
pub fn with(
    experiments: &[&'static Experiment],
    given: &[(String, f64)],
) -> Result<Vec<f64>, SessionError> {
    let model = match experiments {
        [only] => formula(only.name),
        _ => None,
    };
    let none = "name one experiment that is a model with parameters: 001/fig7.10 or 002/fig13.1";
    let model = model.ok_or_else(|| SessionError::With(none.to_owned()))?;
    let given = given.iter().map(|(name, value)| (name.as_str(), *value));
    model.with(given).map_err(SessionError::With)
}

/// What runs.
struct Session<'a> {
    wanted: Wanted<'a>,
    tell: &'a mut dyn FnMut(News<'_>) -> io::Result<()>,
    /// Parts that ended: experiments share them.
    known: Vec<Known>,
    /// There is one experiment alone.
    alone: bool,
}

/// A part that ran.
struct Known {
    part: Part,
    /// The command that runs the same.
    command: String,
    results: Results,
}

impl Session<'_> {
    /// Measures the parts of an experiment that are not known yet; gives the index of each in
    /// `known`.
    fn measure(&mut self, of: &Experiment, watch: &mut Until<'_>) -> Result<Vec<usize>, PartError> {
        let Wanted { device, asked, .. } = self.wanted;
        let device = device.ok_or(PartError::NoDevice)?;
        let mut out = Vec::new();
        for part in of.parts() {
            if let Some(known) = self.known.iter().position(|k| k.part == *part) {
                out.push(known);
                continue;
            }
            let settings = super::settings(part, self.wanted.settings);
            let chosen = cases(part, device, &settings, asked)?;
            let ran = Ran {
                device: &device.facts,
                asked,
                settings: &settings,
                cases: chosen.iter().flat_map(|(_, cases)| cases).collect(),
            };
            let command = part.command_of(&ran);
            let choice = Choice {
                suites: chosen.iter().map(|(suite, _)| suite.name.to_owned()).collect(),
                cases: part.cases.iter().map(|c| (*c).to_owned()).collect(),
                sensors: self.wanted.sensors.clone(),
            };
            let results = run::run_cases(device, &settings, &choice, &chosen, watch)?;
            let whole = !results.interrupted;
            self.known.push(Known { part: *part, command, results });
            out.push(self.known.len() - 1);
            if !whole {
                break;
            }
        }
        Ok(out)
    }

    /// An experiment with its files, within its share of the time until `end`; `left` are those
    /// that have not run, this one first.
    fn experiment(
        &mut self,
        of: &'static Experiment,
        left: &[&'static Experiment],
        end: Option<Instant>,
        watch: &mut dyn Watch,
    ) -> Result<Report, SessionError> {
        let now = Instant::now();
        if let How::Cannot(why) = of.how {
            return Ok(Report::without(of, State::NotReproducible, why.to_owned()));
        }
        if let (Some(formula), Some(values)) = (formula(of.name), self.wanted.parameters) {
            return Ok(Report::of_parameters(of, formula, values));
        }
        if let How::Compute(how) = of.how {
            return Ok(Report::computed(of, how));
        }
        if end.is_some_and(|end| now >= end) {
            let why =
                "the budget was spent before it began: name it alone, or give a larger --budget";
            return Ok(Report::without(of, State::CutShort, why.to_owned()));
        }
        let share = end.map(|end| now + (end - now).mul_f64(share(left, &self.known)));
        (self.tell)(News::Begins(of.name))?;
        let mut watch = Until { inner: watch, end: share };
        let parts = match self.measure(of, &mut watch) {
            Ok(parts) => parts,
            Err(why) => return Ok(Report::without(of, State::Failed, chain(&why))),
        };
        let known: Vec<&Known> = parts.iter().map(|n| &self.known[*n]).collect();
        let parts: Vec<&Results> = known.iter().map(|k| &k.results).collect();
        let took_ns = Some(now.elapsed().as_secs_f64() * 1e9);
        let commands = known.iter().map(|k| k.command.clone()).collect();
        let report = Report { took_ns, commands, ..Report::evaluate(of, &parts) };
        if let Some(directory) = self.wanted.output {
            files::experiment(&report, &parts, directory, self.alone)?;
        }
        Ok(report)
    }

    /// Forgets what was ended early: another experiment may have time for it.
    fn forget(&mut self) {
        self.known.retain(|known| !known.results.interrupted);
    }

    /// Writes what is known so far, where files are asked for.
    fn written(&self, of: &Reported) -> Result<(), WriteError> {
        match self.wanted.output {
            Some(directory) => files::reported(of, directory, self.alone),
            None => Ok(()),
        }
    }
}

/// The share of the time that is left for the first of the experiments that are left, where these
/// parts are known.
fn share(left: &[&'static Experiment], known: &[Known]) -> f64 {
    let new = |part: &&Part| !known.iter().any(|k| k.part == **part);
    let parts: Vec<&Part> = left.iter().take(1).flat_map(|of| of.parts()).filter(new).collect();
    let in_common = |of: &&&Experiment| of.parts().iter().any(|p| parts.contains(p));
    let sharing = left.iter().filter(in_common).count().max(1);
    let measured = left.iter().filter(|of| !of.parts().is_empty()).count().max(1);
    (SHARE * sharing as f64 / measured as f64).min(1.0)
}

/// Measures experiments. Those that were cut short are begun once more with what the others left of
/// the time.
///
/// # Errors
/// If a file cannot be written, or what happens cannot be told. An experiment that fails is none.
pub fn measure(
    experiments: &[&'static Experiment],
    wanted: Wanted<'_>,
    watch: &mut dyn Watch,
    tell: &mut dyn FnMut(News<'_>) -> io::Result<()>,
) -> Result<Reported, SessionError> {
    let begin = Instant::now();
    let alone = experiments.len() == 1;
    let budget = wanted.budget.or((!alone).then_some(BUDGET));
    let end = budget.map(|s| begin + Duration::from_secs_f64(s));
    let mut session = Session { wanted, tell, known: Vec::new(), alone };
    let mut out = Reported {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION"),
        device: wanted.device.map(|device| On::describe(&device.facts)),
        experiments: Vec::new(),
        interrupted: false,
    };
    let mut left: Vec<usize> = (0..experiments.len()).collect();
    // What the others left of the time goes to those that were cut short, once.
    for again in [false, true] {
        for (done, number) in left.iter().copied().enumerate() {
            out.interrupted |= watch.stop();
            let over = end.is_none_or(|end| Instant::now() >= end);
            if out.interrupted || again && (alone || over) {
                break;
            }
            let rest: Vec<_> = left[done..].iter().map(|n| experiments[*n]).collect();
            let report = session.experiment(rest[0], &rest, end, watch)?;
            if !again && number == 0 {
                let first = session.known.iter().map(|known| &known.results).collect();
                (session.tell)(News::First(first))?;
            }
            if !again || report.state != State::CutShort {
                (session.tell)(News::Report(&report, out.device.as_ref()))?;
            }
            match out.experiments.get_mut(number) {
                Some(before) => *before = report,
                None => out.experiments.push(report),
            }
            out.interrupted |= watch.stop();
            session.written(&out)?;
        }
        let is_short = |n: &usize| out.experiments[*n].state == State::CutShort;
        left = (0..out.experiments.len()).filter(is_short).collect();
        session.forget();
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that share a grid pay for it together, and the last experiments have time, too.
    #[test]
    fn shares_leave_time_for_all() {
        let every: Vec<&'static Experiment> = all().filter(|e| !e.parts().is_empty()).collect();
        let n = every.len() as f64;
        let at = |name: &str| every.iter().position(|e| e.name == name).unwrap();
        let of = |name: &str| share(&every[at(name)..], &[]);
        let left = |name: &str| n - at(name) as f64;
        assert!((of("000/fig4.10") - SHARE * 2.0 / left("000/fig4.10")).abs() < 1e-12, "003/fig9");
        assert!((of("001/fig6.6") - SHARE / left("001/fig6.6")).abs() < 1e-12, "of itself alone");
        assert!(of("001/fig4.6") > 10.0 * SHARE / left("001/fig4.6"), "the grid of chapter 7");
        assert_eq!(share(&every[every.len() - 1..], &[]), 1.0, "the last has the rest");
    }
}
