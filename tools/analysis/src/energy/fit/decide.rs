//! Owns which readings decide about a class: what the sensor read beside what the fit makes of what
//! ran, and how far each reading pulls the class's power. Refuses to fit anything anew.

use crate::energy::attribution::{AttributionError, Problem, fit, report};
use crate::energy::units::{ClassId, HostNs};
use schemars::JsonSchema;
use serde::Serialize;

/// A reading of the run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Reading {
    /// Its end, from the beginning of the recording.
    pub at_ns: i64,
    /// Length of the time that it is of; 0 of one moment.
    pub length_ns: i64,
    /// Mean power that the sensor read.
    pub measured_watts: f64,
    /// Mean power by the estimates of all that ran.
    pub predicted_watts: f64,
    /// Part of the time in which `names` ran.
    pub share: f64,
    /// By how much their power above idle is higher with this reading than without it.
    pub pull_watts: f64,
}

impl Reading {
    /// Measured less predicted power, watts.
    pub fn residual(&self) -> f64 {
        self.measured_watts - self.predicted_watts
    }
}

/// A window in which a worker ran the class alone, as the fit used it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AloneWindow {
    /// Which of the problem's workers.
    pub worker: usize,
    /// What the fit makes of it, in the worker's joules: of launches like all of the run's.
    pub predicted: f64,
    /// By how much it moves the class's power above idle, watts. See [`Fit::pull`](crate::energy::fit::mixed::Fit::pull).
    pub pull: f64,
}

/// The readings behind the figure of a class.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The class, or all of the sum of which alone the readings know something.
    pub classes: Vec<ClassId>,
    /// All readings, in order of time.
    pub readings: Vec<Reading>,
    /// All windows of the class alone, in the order of the problem's workers.
    pub windows: Vec<AloneWindow>,
}

/// The readings that decide about `class`; `None` where it did not run while the sensor was read.
/// `begun`: when the recording began.
///
/// # Errors
/// As [`attribute`](crate::energy::attribute).
pub fn readings_of(
    problem: &Problem<'_>,
    class: ClassId,
    begun: HostNs,
) -> Result<Option<Decision>, AttributionError> {
    let of = fit(problem)?;
    let Some(kernel) = of.present.iter().position(|&own| own == class.index()) else {
        return Ok(None);
    };
    let result = report(problem, &of);
    let group = result.groups.into_iter().find(|group| group.classes.contains(&class));
    let classes = group.map_or_else(Vec::new, |group| group.classes);
    let origin = problem.activity.origin.0;
    let at = |seconds: f64| HostNs(origin.saturating_add((seconds * 1e9) as i64));
    let reading = |(i, row): (usize, &crate::energy::readings::sensor::Row)| Reading {
        at_ns: at(row.to).0.saturating_sub(begun.0),
        length_ns: at(row.to).0.saturating_sub(at(row.from).0),
        measured_watts: row.mean,
        predicted_watts: row.mean - of.residual(i),
        share: classes.iter().map(|c| of.columns.classes.row(i)[c.index()]).sum(),
        pull_watts: of.model.pull(i, of.model.kernel(kernel)),
    };
    let readings = of.rows.rows.iter().enumerate().map(reading).collect();
    // The fit has a row for each worker of a class with a column, behind those of the run.
    let used = problem.workers.iter().enumerate();
    let used = used.filter(|(_, worker)| of.present.contains(&worker.class.index()));
    let windows = used
        .zip(of.rows.rows.len()..)
        .filter(|((_, worker), _)| worker.class == class)
        .map(|((worker, _), row)| AloneWindow {
            worker,
            predicted: of.model.predicted(row),
            pull: of.model.pull(row, of.model.kernel(kernel)),
        })
        .collect();
    Ok(Some(Decision { classes, readings, windows }))
}
