//! Runs of cases along axes. Owns which cases a sweep has, and what is concluded of a whole run;
//! refuses to run a case: [`clscope_microbench::run`] does.

use crate::suite::{Case, SUITES, Suite, is_floor};
use crate::sweep::{self, Along, Axis, SweepError};
use clscope_microbench::bench::Settings;
use clscope_microbench::cl::{ClError, Device};
use clscope_microbench::results::{CaseResult, Results};
use clscope_microbench::run::{self, with_floors};
pub use clscope_microbench::run::{Choice, Watch, matches};
use std::collections::BTreeMap;
use std::time::Instant;

/// A watch that ends a run at a moment, too.
pub(crate) struct Until<'a> {
    pub(crate) inner: &'a mut dyn Watch,
    pub(crate) end: Option<Instant>,
}

impl Watch for Until<'_> {
    fn begin(&mut self, id: &str, done: usize, total: usize) {
        self.inner.begin(id, done, total);
    }
    fn end(&mut self, result: &CaseResult) {
        self.inner.end(result);
    }
    fn stop(&self) -> bool {
        self.inner.stop() || self.end.is_some_and(|end| Instant::now() >= end)
    }
}

/// The suites and cases of a choice on a device.
pub fn cases(
    device: &Device,
    settings: &Settings,
    choice: &Choice,
) -> Vec<(&'static Suite, Vec<Case>)> {
    run::cases(&SUITES, device, settings, choice)
}

/// Runs cases on a device, and says what follows from their sweeps.
///
/// # Errors
/// If the device cannot be opened at all; the error of a case is in its result.
pub fn run_cases(
    device: &Device,
    settings: &Settings,
    choice: &Choice,
    suites: &[(&'static Suite, Vec<Case>)],
    watch: &mut dyn Watch,
) -> Result<Results, ClError> {
    let mut results = run::run_cases(device, settings, choice, suites, watch)?;
    results.findings.extend(sweep::conclude(&results));
    Ok(results)
}

/// The cases of sweeps: each case that is chosen, of the full choice of its suite, along the axes.
/// A name that is a case's own means that case alone, even where it is a part of other names.
///
/// # Errors
/// Where a case has no such axis, or does not exist at a value.
pub fn sweeps(
    device: &Device,
    settings: &Settings,
    choice: &Choice,
    along: &[Along],
) -> Result<Vec<(&'static Suite, Vec<Case>)>, SweepError> {
    let all = Settings { full: true, ..settings.clone() };
    let mut suites = cases(device, &all, choice);
    let named = |case: &Case| choice.cases.contains(&case.id);
    if suites.iter().any(|(_, cases)| cases.iter().any(named)) {
        for (_, cases) in &mut suites {
            cases.retain(|c| is_floor(&c.id) || named(c));
            *cases = with_floors(std::mem::take(cases));
        }
        suites.retain(|(_, cases)| !cases.is_empty());
    }
    let mut out = Vec::new();
    for (suite, cases) in suites {
        let mut points = Vec::new();
        for case in apart(cases, along, &choice.cases) {
            if is_floor(&case.id) {
                points.push(case);
            } else {
                points.extend(sweep::grid(&case, &device.facts, settings, along)?);
            }
        }
        out.push((suite, points));
    }
    Ok(out)
}

/// What tells a case from others that are swept along the same axes; nothing where no parameter of
/// it says where it is on them.
fn without(case: &Case, along: &[Along]) -> Option<BTreeMap<&'static str, serde_json::Value>> {
    let mut rest = case.parameters.clone();
    let mut told = false;
    for Along { axis, .. } in along {
        told |= rest.remove(axis.parameter()).is_some();
        // The name of a pattern of memory holds its stride: stride16.
        if let (Axis::Stride, Some(serde_json::Value::String(name))) =
            (axis, rest.get_mut("pattern"))
        {
            name.truncate(name.trim_end_matches(|c: char| c.is_ascii_digit()).len());
        }
    }
    told.then_some(rest)
}

/// Cases without those that differ from an earlier one in what is swept alone: they are one sweep.
/// What the user names by its own name stays.
pub(crate) fn apart(cases: Vec<Case>, along: &[Along], named: &[String]) -> Vec<Case> {
    let mut begun = Vec::new();
    let mut keep = |case: &Case| {
        let Some(rest) = without(case, along) else { return true };
        let again = begun.contains(&rest);
        begun.push(rest);
        !again || named.contains(&case.id)
    };
    cases.into_iter().filter(|case| keep(case)).collect()
}
