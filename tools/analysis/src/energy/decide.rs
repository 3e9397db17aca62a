//! Owns which readings decide about a class: what the sensor read beside what the fit makes of what
//! ran, and how far each reading pulls the class's power. Refuses to fit anything anew.
#![forbid(unsafe_code)]

use super::attribution::{AttributionError, Fitted, Problem, fit};
use super::fit::Floor;
use super::solve::guarded_inverse;
use super::units::{ClassId, HostNs};
use nalgebra::{DMatrix, DVector};

/// A window of the sensor, as the fit used it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// Its beginning; an instantaneous reading has the same end.
    pub from: HostNs,
    /// Its end.
    pub to: HostNs,
    /// Mean power that the sensor read, watts.
    pub measured: f64,
    /// Mean power by the fitted rates of what ran, watts.
    pub predicted: f64,
    /// Part of the sensor's window in which the class ran, or any of the sum that it is in.
    pub share: f64,
    /// By how much the class's power above idle is higher with this reading than without it, watts.
    /// By ordinary least squares over all readings: the residual times the reading's weight, over
    /// one less its leverage (Belsley, Kuh, Welsch: *Regression Diagnostics*, 1980, ch. 2).
    pub pull: f64,
}

/// The readings behind the figure of a class.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The class, or all of the sum of which alone the readings know something.
    pub classes: Vec<ClassId>,
    /// All readings, in order of time.
    pub readings: Vec<Reading>,
}

/// A reading that has all of the weight in a rate has no residual of its own: its leverage counts
/// up to here.
const MOST_LEVERAGE: f64 = 0.99;

/// The readings that decide about `class`; `None` where it did not run while the sensor was read.
///
/// # Errors
/// As [`attribute`](super::attribute).
pub fn readings_of(
    problem: &Problem<'_>,
    class: ClassId,
) -> Result<Option<Decision>, AttributionError> {
    let of = fit(problem)?;
    let Some(group) = of.groups.iter().position(|group| group.contains(&class.index())) else {
        return Ok(None);
    };
    let origin = problem.activity.origin.0;
    let at = |seconds: f64| HostNs(origin.saturating_add((seconds * 1e9) as i64));
    let design = design(&of, problem.floors);
    let inverse = guarded_inverse(&(design.transpose() * &design));
    let weights = &design * &inverse;
    let mut readings = Vec::with_capacity(of.rows.rows.len());
    for (i, row) in of.rows.rows.iter().enumerate() {
        let residual = of.solution.residuals[i];
        let leverage = weights.row(i).dot(&design.row(i)).clamp(0.0, MOST_LEVERAGE);
        let scale = row.scale;
        readings.push(Reading {
            from: at(row.from),
            to: at(row.to),
            measured: row.mean,
            predicted: row.mean - residual,
            share: of.groups[group].iter().map(|&c| of.columns.classes.row(i)[c]).sum(),
            pull: weights[(i, group)] * scale * residual / (1.0 - leverage),
        });
    }
    let classes = of.groups[group].iter().map(|&c| ClassId(c as u32)).collect();
    Ok(Some(Decision { classes, readings }))
}

/// A window of the sensor with what ran in it, behind the sensor's response.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// Its beginning and end.
    pub from: HostNs,
    /// See above.
    pub to: HostNs,
    /// Seconds that it stands for.
    pub seconds: f64,
    /// Mean power, watts.
    pub watts: f64,
    /// Part of it in which each class ran.
    pub shares: Vec<f64>,
    /// Part of it in which the device was in the first of its idle states, running or not.
    pub first_state: f64,
    /// Whether it begins where the one before ends.
    pub follows: bool,
}

/// All windows, in order of time, by the response that fits the readings best.
///
/// # Errors
/// As [`attribute`](super::attribute).
pub fn windows_of(problem: &Problem<'_>) -> Result<Vec<Seen>, AttributionError> {
    let of = fit(problem)?;
    let origin = problem.activity.origin.0;
    let at = |seconds: f64| HostNs(origin.saturating_add((seconds * 1e9) as i64));
    let seen = |(i, row): (usize, &super::sensor::Row)| Seen {
        from: at(row.from),
        to: at(row.to),
        seconds: row.covers,
        watts: row.mean,
        shares: of.columns.classes.row(i).to_vec(),
        first_state: of.columns.state_row(i).first().copied().unwrap_or(0.0),
        follows: row.joined,
    };
    Ok(of.rows.rows.iter().enumerate().map(seen).collect())
}

/// Shares of groups and of floors that are fitted, a row a reading, scaled as the fit scales them.
fn design(of: &Fitted, floors: &[Floor]) -> DMatrix<f64> {
    let fitted: Vec<usize> = (0..floors.len()).filter(|&s| floors[s] == Floor::Fitted).collect();
    let width = of.groups.len() + fitted.len();
    let rows: Vec<DVector<f64>> = (of.rows.rows.iter().enumerate())
        .map(|(i, row)| {
            let (shares, states) = (of.columns.classes.row(i), of.columns.state_row(i));
            let groups = of.groups.iter().map(|group| group.iter().map(|&c| shares[c]).sum());
            let all: Vec<f64> = groups.chain(fitted.iter().map(|&s| states[s])).collect();
            DVector::from_vec(all) * row.scale
        })
        .collect();
    DMatrix::from_fn(rows.len(), width, |i, j| rows[i][j])
}
