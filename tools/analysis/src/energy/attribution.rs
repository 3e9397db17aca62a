//! Owns the answer: which class cost how many joules, with what certainty, and what is left over.
//! Puts activity, sensor rows and fit together. Refuses to guess: a class that the data cannot
//! separate has no figure of its own.

#![forbid(unsafe_code)]

use crate::interval::Interval;
use crate::quantile::student;

use super::activity::Activity;
use super::design::{Columns, StateSpan, structure};
use super::fit::{DriftModel, Floor, Solution, active_rows, solve};
use super::report::{
    Attribution, ClassEnergy, FloorEnergy, GapCost, GroupEnergy, Identifiability, Integrated,
    IterationEnergy, Method,
};
use super::response::Response;
use super::search::{ResponseModel, choose};
use super::sensor::{Rows, Series};
use super::units::{ClassId, HostNs, Joules, Seconds, Watts};
use super::variance::{cosines, long_run};

/// Everything an attribution needs. Build one per sensor; give each the activity of the devices it
/// measures.
#[derive(Clone, Debug)]
pub struct Problem<'a> {
    /// What the devices ran.
    pub activity: &'a Activity,
    /// What the sensor read, in joules or watts (or, for a counter, units and units per second).
    pub series: &'a Series,
    /// What is known of the sensor's response.
    pub response: ResponseModel,
    /// Floor of each power state; state 0 is in force where `states` has no entry.
    pub floors: &'a [Floor],
    /// Stretches in other states.
    pub states: &'a [StateSpan],
    /// Slow change of all rates during the run.
    pub drift: DriftModel,
    /// Starts of the user's iterations (frames, time steps), ascending; empty when none are marked.
    pub iterations: &'a [HostNs],
}

/// Why nothing could be attributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttributionError {
    /// No floor was given, not even one to be fitted.
    #[error("no power state was given; give at least one idle power, known or to be fitted")]
    NoFloor,
    /// A state span names a floor that was not given.
    #[error("a span is in power state {state}, but only {floors} were given")]
    UnknownState {
        /// The state.
        state: usize,
        /// Floors given.
        floors: usize,
    },
    /// Too few usable readings.
    #[error(
        "{usable} usable readings of the sensor fall into device activity, at least {needed} are needed; run longer or sample faster"
    )]
    TooFewReadings {
        /// Rows that could be made of the series and meet activity.
        usable: usize,
        /// Rows the number of coefficients asks for.
        needed: usize,
    },
    /// More than memory and patience allow.
    #[error(
        "{readings} readings by {classes} kernels and commands are too many to be fitted together; choose a part of the run with --energy-window, or record with a longer sampling period"
    )]
    TooMuch {
        /// Rows made of the series.
        readings: usize,
        /// Classes of activity.
        classes: usize,
    },
    /// Activity and readings do not meet.
    #[error(
        "no device activity lies between the sensor's first and last reading; check that both were aligned to one clock"
    )]
    NoOverlap,
}

/// Half widths, as a share of the value, up to which a class counts as well or at least weakly
/// known.
pub(super) const WELL: f64 = 0.10;
pub(super) const WEAK: f64 = 0.50;
/// Half width that "needs about N seconds" aims at.
pub(super) const AIM: f64 = 0.05;
/// A class is given its own column while there are at most this many; the smallest beyond are taken
/// as one sum.
const MOST_COLUMNS: usize = 64;

/// Energy of all readings and the time that they cover, of whatever is known to have run meanwhile.
/// `None` where they cover none.
#[must_use]
pub fn measured(activity: &Activity, series: &Series) -> Option<(Joules, Seconds)> {
    let rows = Rows::new(series, activity.origin);
    let covered = rows.covered();
    (covered > 0.0).then(|| (Joules(rows.total()), Seconds(covered)))
}

/// Attributes what the sensor measured to classes.
///
/// # Errors
/// When there is nothing to fit: no floor, no rows, or rows that meet no activity.
pub fn attribute(problem: &Problem<'_>) -> Result<Attribution, AttributionError> {
    let of = fit(problem)?;
    let assembly = Assembly {
        problem,
        rows: &of.rows,
        columns: &of.columns,
        busy: &of.busy,
        response: of.response,
        solution: &of.solution,
        floor_seen: &of.floor_seen,
    };
    Ok(assembly.report(&of.groups, &of.with_floor))
}

/// Readings, what ran meanwhile, and the rates that were fitted to both.
pub(super) struct Fitted {
    pub rows: Rows,
    pub columns: Columns,
    busy: Vec<f64>,
    pub response: Response,
    pub solution: Solution,
    floor_seen: Vec<bool>,
    /// Classes as far as they can be separated.
    pub groups: Vec<Vec<usize>>,
    with_floor: Vec<bool>,
}

pub(super) fn fit(problem: &Problem<'_>) -> Result<Fitted, AttributionError> {
    let activity = problem.activity;
    let floors = problem.floors;
    if floors.is_empty() {
        return Err(AttributionError::NoFloor);
    }
    if let Some(span) = problem.states.iter().find(|span| span.state >= floors.len()) {
        return Err(AttributionError::UnknownState { state: span.state, floors: floors.len() });
    }
    let rows = Rows::new(problem.series, activity.origin).joined(problem.response.blur);
    let needed = 8 + floors.len();
    if rows.rows.len() < needed {
        return Err(AttributionError::TooFewReadings { usable: rows.rows.len(), needed });
    }
    let (readings, classes) = (rows.rows.len(), activity.classes() + floors.len());
    if beyond_bounds(readings, classes) {
        return Err(AttributionError::TooMuch { readings, classes });
    }
    let typical = typical(&problem.response);
    let state_rows = Columns::new(
        activity,
        &rows,
        problem.states,
        floors.len(),
        &typical,
        &ResponseModel::known(typical),
    );
    let level = known_level(&state_rows, floors, rows.rows.len());
    let response = choose(activity, &rows, level.as_deref(), &problem.response);
    let columns =
        Columns::new(activity, &rows, problem.states, floors.len(), &response, &problem.response);
    let busy = covered_busy(activity, &rows, &response);
    let seen = seen(&columns, &rows);
    let present: Vec<usize> =
        (0..activity.classes()).filter(|&k| busy[k] > 0.0 && seen[k] > 0.0).collect();
    if present.is_empty() {
        return Err(AttributionError::NoOverlap);
    }
    let fitted: Vec<bool> = floors.iter().map(|floor| *floor == Floor::Fitted).collect();
    let start = starting_groups(&present, &busy);
    let mut parts = structure(activity, &columns, &rows, &fitted, &present, start);
    let (usable, needed) = (active_rows(&columns, &rows), needed + 2 * parts.groups.len());
    if usable < needed {
        return Err(AttributionError::TooFewReadings { usable, needed });
    }
    // A floor the rows do not show is left inside the classes' rates, which are then right with it.
    let floors: Vec<Floor> = floors
        .iter()
        .zip(&parts.floor_seen)
        .map(|(floor, seen)| if *seen { *floor } else { Floor::Known { rate: 0.0, sd: 0.0 } })
        .collect();
    let mut solution =
        solve(activity, &columns, &rows, &floors, problem.drift, &parts.groups, &response);
    while let Some((a, b)) = inseparable(&solution, &parts.groups) {
        let moved = parts.groups.remove(b);
        let floor = parts.with_floor.remove(b);
        parts.groups[a].extend(moved);
        parts.groups[a].sort_unstable();
        parts.with_floor[a] |= floor;
        solution =
            solve(activity, &columns, &rows, &floors, problem.drift, &parts.groups, &response);
    }
    Ok(Fitted {
        floor_seen: parts.floor_seen,
        groups: parts.groups,
        with_floor: parts.with_floor,
        rows,
        columns,
        busy,
        response,
        solution,
    })
}

/// What two lists of stretches, each in order, have in common.
fn common(a: &[(f64, f64)], b: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let (mut out, mut first) = (Vec::new(), 0);
    for &(from, to) in a {
        while b.get(first).is_some_and(|of| of.1 <= from) {
            first += 1;
        }
        for of in b[first..].iter().take_while(|of| of.0 < to) {
            let both = (from.max(of.0), to.min(of.1));
            if both.0 < both.1 {
                out.push(both);
            }
        }
    }
    out
}

/// Whether tables of rows by classes, of which there are a dozen, or the products of all pairs of
/// classes would take gigabytes or minutes.
fn beyond_bounds(rows: usize, classes: usize) -> bool {
    const MOST_CELLS: usize = 1 << 24;
    const MOST_PRODUCTS: usize = 1 << 32;
    const MOST_CLASSES: usize = 1500;
    let cells = rows.saturating_mul(classes);
    cells > MOST_CELLS || cells.saturating_mul(classes) > MOST_PRODUCTS || classes > MOST_CLASSES
}

fn typical(model: &ResponseModel) -> Response {
    Response {
        window: model.window.typical(),
        lag: model.lag.typical(),
        delay: model.delay.typical(),
    }
}

/// Level of the floors in every row when all are known.
fn known_level(columns: &Columns, floors: &[Floor], rows: usize) -> Option<Vec<f64>> {
    let rates: Option<Vec<f64>> = floors
        .iter()
        .map(|floor| match floor {
            Floor::Known { rate, .. } => Some(*rate),
            Floor::Fitted => None,
        })
        .collect();
    let rates = rates?;
    Some(
        (0..rows)
            .map(|i| columns.state_row(i).iter().zip(&rates).map(|(s, f)| s * f).sum())
            .collect(),
    )
}

/// Busy seconds of each class inside the time of the rows, on the device's time axis.
fn covered_busy(activity: &Activity, rows: &Rows, response: &Response) -> Vec<f64> {
    let stretches = rows.coverage();
    let mut busy = vec![0.0; activity.classes()];
    let mut first = 0;
    for segment in &activity.segments {
        let (from, to) = (segment.from + response.delay, segment.to + response.delay);
        // Segments are sorted by start, so stretches that ended before this one starts are done
        // with.
        while stretches.get(first).is_some_and(|stretch| stretch.1 <= from) {
            first += 1;
        }
        for stretch in stretches[first..].iter().take_while(|stretch| stretch.0 < to) {
            let overlap = to.min(stretch.1) - from.max(stretch.0);
            busy[segment.class as usize] += segment.share * overlap.max(0.0);
        }
    }
    busy
}

/// Time of each class as the rows see it.
fn seen(columns: &Columns, rows: &Rows) -> Vec<f64> {
    let mut seen = vec![0.0; columns.classes.columns];
    for i in 0..rows.rows.len() {
        for (slot, share) in seen.iter_mut().zip(columns.classes.row(i)) {
            *slot += share;
        }
    }
    seen
}

fn starting_groups(present: &[usize], busy: &[f64]) -> Vec<Vec<usize>> {
    let mut order = present.to_vec();
    order.sort_by(|&a, &b| busy[b].total_cmp(&busy[a]));
    let minor = order.split_off(order.len().min(MOST_COLUMNS));
    let mut groups: Vec<Vec<usize>> = order.into_iter().map(|class| vec![class]).collect();
    groups.sort_unstable();
    if !minor.is_empty() {
        groups.push(minor);
    }
    groups
}

/// Two groups of which one is hardly known while their sum is known much better: they trade energy.
fn inseparable(solution: &Solution, groups: &[Vec<usize>]) -> Option<(usize, usize)> {
    let (worst, rest) = (0..groups.len())
        .map(|k| (k, solution.gross_half_width(k) / solution.gross[k].max(f64::MIN_POSITIVE)))
        .filter(|&(k, relative)| relative > WEAK && solution.inflation[k] > 10.0)
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    let _ = rest;
    let partner = (0..groups.len()).filter(|&k| k != worst).min_by(|&a, &b| {
        solution.correlation[(worst, a)].total_cmp(&solution.correlation[(worst, b)])
    })?;
    // Of k that all trade with each other, each pair's correlation is -1/(k-1).
    let enough = -0.7 / (groups.len() - 1).max(1) as f64;
    (solution.correlation[(worst, partner)] < enough)
        .then_some((worst.min(partner), worst.max(partner)))
}

/// All that the report is put together from.
struct Assembly<'a> {
    problem: &'a Problem<'a>,
    rows: &'a Rows,
    columns: &'a Columns,
    busy: &'a [f64],
    response: Response,
    solution: &'a Solution,
    floor_seen: &'a [bool],
}

impl Assembly<'_> {
    fn report(&self, groups: &[Vec<usize>], with_floor: &[bool]) -> Attribution {
        let (activity, solution) = (self.problem.activity, self.solution);
        let measured = self.rows.total();
        let covered = self.rows.covered();
        let idle_known = !with_floor.contains(&true);
        let mut rows_of_groups: Vec<GroupEnergy> = Vec::with_capacity(groups.len());
        for (k, group) in groups.iter().enumerate() {
            rows_of_groups.push(self.group(k, group, with_floor[k], covered));
        }
        let states = self.problem.floors.len();
        let mut floors = Vec::with_capacity(states);
        let mut state_time = vec![0.0; states];
        for (i, row) in self.rows.rows.iter().enumerate() {
            for (slot, share) in state_time.iter_mut().zip(self.columns.state_row(i)) {
                *slot += share * row.covers;
            }
        }
        for state in 0..states {
            let running: f64 = groups
                .iter()
                .enumerate()
                .map(|(k, group)| {
                    solution.standing[k][state] * group.iter().map(|&c| self.busy[c]).sum::<f64>()
                })
                .sum();
            let idle = (state_time[state] - running).max(0.0);
            let mut weights = vec![0.0; states];
            weights[state] = 1.0;
            let half = solution.half_width(&vec![0.0; groups.len()], &weights);
            let rate = solution.floors[state];
            let fixed = self.problem.floors[state] != Floor::Fitted;
            let known = fixed || (idle_known && self.floor_seen[state] && half < WEAK * rate);
            floors.push(FloorEnergy {
                state,
                watts: known.then(|| Interval::above_none(rate, half)),
                idle: Seconds(idle),
                joules: Joules(rate * solution.idle_factor[state] * idle),
            });
        }
        let parts: f64 = rows_of_groups.iter().map(|group| group.joules.value).sum::<f64>()
            + floors.iter().map(|floor| floor.joules.0).sum::<f64>();
        let classes = (0..activity.classes())
            .map(|class| {
                let group = groups.iter().position(|group| group.contains(&class));
                self.class(
                    class,
                    group,
                    &rows_of_groups,
                    with_floor,
                    floors.iter().any(|f| f.watts.is_none()),
                )
            })
            .collect();
        let power: f64 = solution.residuals.iter().map(|e| e * e).sum();
        let lagged: f64 = solution.residuals.windows(2).map(|pair| pair[0] * pair[1]).sum();
        Attribution {
            classes,
            gaps: self.gaps(&floors),
            groups: rows_of_groups,
            floors,
            measured: Joules(measured),
            covered: Seconds(covered),
            unattributed: Joules(measured - parts),
            response: self.response,
            drift: solution.drift,
            residual: Watts((power / solution.residuals.len() as f64).sqrt()),
            residual_correlation: if power > 0.0 { lagged / power } else { 0.0 },
            counter_jitter: solution.moving_average,
            readings: self.rows.rows.len(),
            faults: self.rows.faults,
            rejected_spans: activity.rejected(),
            iteration: self.iteration(),
        }
    }

    fn group(&self, k: usize, group: &[usize], with_floor: bool, covered: f64) -> GroupEnergy {
        let solution = self.solution;
        let busy: f64 = group.iter().map(|&class| self.busy[class]).sum();
        let regressed = solution.gross[k];
        let half = solution.gross_half_width(k);
        let integrated = self.integrated(k, group, busy);
        let (watts, half, method) = match &integrated {
            Some(direct) if direct.share >= 0.6 => {
                (direct.watts.value, direct.watts.half(), Method::Integrated)
            }
            _ => (regressed, half, Method::Regressed),
        };
        let relative = half / watts.max(f64::MIN_POSITIVE);
        let needed = Seconds(covered * (relative / AIM).powi(2));
        let standing: f64 =
            solution.standing[k].iter().zip(&solution.floors).map(|(w, f)| w * f).sum::<f64>()
                * solution.factor[k];
        GroupEnergy {
            classes: group.iter().map(|&class| ClassId(class as u32)).collect(),
            busy: Seconds(busy),
            watts: Interval::above_none(watts, half),
            joules: Interval::above_none(watts * busy, half * busy),
            idle: Joules(standing.min(watts) * busy),
            dynamic: Joules((watts - standing).max(0.0) * busy),
            method,
            integrated,
            relative_half_width: relative,
            needed,
            with_floor,
        }
    }

    /// Mean of the rows in which nothing but this group ran, the small rest of other classes taken
    /// off by the fit.
    fn integrated(&self, k: usize, group: &[usize], busy: f64) -> Option<Integrated> {
        const PURE: f64 = 0.995;
        const LEAST_ROWS: usize = 20;
        let solution = self.solution;
        let mut values = Vec::new();
        let mut time = 0.0;
        for (i, row) in self.rows.rows.iter().enumerate() {
            let shares = self.columns.classes.row(i);
            let own: f64 = group.iter().map(|&class| shares[class]).sum();
            let all: f64 = shares.iter().sum();
            if own >= PURE && own >= PURE * all {
                values.push((row.mean + solution.dynamic[k] * (1.0 - own), row.covers));
                time += row.covers;
            }
        }
        if values.len() < LEAST_ROWS || busy <= 0.0 || time <= 0.0 {
            return None;
        }
        // Readings weigh as much as the time that they are of.
        let mean = values.iter().map(|(v, covers)| v * covers).sum::<f64>() / time;
        let usual = time / values.len() as f64;
        let centred: Vec<f64> = values.iter().map(|(v, c)| (v - mean) * c / usual).collect();
        let count = cosines(values.len()).min(values.len() / 4);
        let half = student(0.975, count as f64) * long_run(&centred, 1, count)[(0, 0)].sqrt()
            / values.len() as f64;
        let regressed = solution.gross[k];
        let allowed = (half.powi(2) + solution.gross_half_width(k).powi(2)).sqrt();
        Some(Integrated {
            watts: Interval::above_none(mean, half),
            share: (time / busy).min(1.0),
            discrepancy: mean / regressed.max(f64::MIN_POSITIVE) - 1.0,
            agrees: (mean - regressed).abs() <= allowed,
        })
    }

    fn class(
        &self,
        class: usize,
        group: Option<usize>,
        groups: &[GroupEnergy],
        with_floor: &[bool],
        floor_open: bool,
    ) -> ClassEnergy {
        let total = self.problem.activity.totals[class];
        let covered = self.busy[class];
        let own = group.map(|g| (g, &groups[g]));
        let identifiability = match own {
            None => Identifiability::NotAtAll { needed: None },
            Some((g, _)) if with_floor[g] => Identifiability::OnlyWithFloor { group: g },
            Some((g, row)) if row.classes.len() > 1 => Identifiability::OnlyAsSum { group: g },
            Some((_, row)) if row.relative_half_width <= WELL => Identifiability::Well,
            Some((_, row)) if row.relative_half_width <= WEAK => {
                Identifiability::Weak { needed: row.needed }
            }
            Some((_, row)) => Identifiability::NotAtAll { needed: Some(row.needed) },
        };
        let told = own.filter(|_| {
            matches!(identifiability, Identifiability::Well | Identifiability::Weak { .. })
        });
        let duration = if total.launches > 0.0 { total.busy_s / total.launches } else { 0.0 };
        let per_launch = told.map(|(_, row)| row.watts.times(duration));
        ClassEnergy {
            class: ClassId(class as u32),
            launches: total.launches,
            busy: Seconds(total.busy_s),
            covered: Seconds(covered),
            group,
            watts: told.map(|(_, row)| row.watts),
            joules_per_launch: per_launch,
            joules: told.map(|(_, row)| row.joules),
            split: told.filter(|_| !floor_open).map(|(_, row)| (row.dynamic, row.idle)),
            energy_delay: per_launch.map(|joules| joules.value * duration),
            method: told.map(|(_, row)| row.method),
            identifiability,
        }
    }

    /// Time between the first start and the last end in which nothing ran and the sensor was read,
    /// each part at the rate of the floor that it was at.
    fn gaps(&self, floors: &[FloorEnergy]) -> GapCost {
        let activity = self.problem.activity;
        let (mut gaps, mut end) = (Vec::new(), f64::NEG_INFINITY);
        for segment in &activity.segments {
            if segment.from > end && end.is_finite() {
                gaps.push((end, segment.from));
            }
            end = end.max(segment.to);
        }
        let gaps = match activity.runs.is_empty() {
            true => gaps,
            false => common(&gaps, &activity.runs),
        };
        let gaps = common(&gaps, &self.rows.coverage());
        let length = |of: &[(f64, f64)]| of.iter().map(|(from, to)| to - from).sum::<f64>();
        let seconds = length(&gaps);
        let mut elsewhere = 0.0;
        let mut joules = Some(0.0);
        // State 0 is where the device was at none of the others.
        for floor in floors.iter().rev() {
            let spans = self.problem.states.iter().filter(|span| span.state == floor.state);
            let spans = spans.map(|s| (activity.seconds(s.start), activity.seconds(s.end)));
            let here = match floor.state {
                0 => (seconds - elsewhere).max(0.0),
                _ => length(&common(&gaps, &spans.collect::<Vec<_>>())),
            };
            elsewhere += here;
            let rate = self.solution.floors[floor.state] * self.solution.idle_factor[floor.state];
            if here > 0.0 {
                joules = joules.filter(|_| floor.watts.is_some()).map(|sum| sum + rate * here);
            }
        }
        GapCost { seconds: Seconds(seconds), joules: joules.map(Joules) }
    }

    /// Measured energy from the first marker inside the coverage to the last, over the iterations
    /// between.
    fn iteration(&self) -> Option<IterationEnergy> {
        let activity = self.problem.activity;
        let cumulative = super::compare::Cumulative::new(self.rows);
        let (from, to) = cumulative.range()?;
        let inside: Vec<f64> = self
            .problem
            .iterations
            .iter()
            .map(|&at| activity.seconds(at) + self.response.delay)
            .filter(|&at| from <= at && at <= to)
            .collect();
        let count = inside.len().checked_sub(1).filter(|&n| n > 0)?;
        let (first, last) = (inside[0], inside[count]);
        let joules = cumulative.at(last) - cumulative.at(first);
        // Where inside a reading a marker falls is not seen: half a reading at either end.
        let edge =
            joules / (last - first).max(f64::MIN_POSITIVE) * self.rows.period / 2.0_f64.sqrt();
        Some(IterationEnergy {
            iterations: count,
            joules: Interval::above_none(joules / count as f64, edge / count as f64),
            seconds: Seconds((last - first) / count as f64),
        })
    }
}
