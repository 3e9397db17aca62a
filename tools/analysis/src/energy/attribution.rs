//! Owns the answer: which class cost how many joules, with what certainty, and what is left over.
//! Makes readings of the mixed model ([`super::mixed`]) of activity and sensor rows, and sums of its
//! effects of classes, floors and groups. Refuses to guess: a class that the data cannot separate has
//! no figure of its own.

use super::activity::Activity;
use super::fit::design::{Columns, ROWS_FOR_SHAPE, StateSpan, bent, state_shares};
use super::fit::mixed::{Effect, Errors, Fit, Model, Reading, WORKERS};
use super::pooled::{Evidence, Pooled};
use super::readings::response::Response;
use super::readings::ripple::Variation;
use super::readings::search::{ResponseModel, choose};
use super::readings::sensor::{RowKind, Rows, Series};
use super::report::Attribution;
use super::units::{ClassId, HostNs, Joules, Seconds};

mod effects;
mod figures;

pub(super) use effects::{BETA, DEGREE, degrees_at, interpolated};
use effects::{Named, WHOLE_DEGREES, effects};
pub(super) use figures::report;

/// What is known of a power state's floor: the rate while nothing runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Floor {
    /// Measured another time (idle window, calibration).
    Known {
        /// Watts.
        rate: f64,
        /// Standard error of `rate`.
        sd: f64,
    },
    /// To be fitted together with the classes.
    Fitted,
}

impl Floor {
    /// Watts and their standard error, where they are known.
    fn known(self) -> Option<(f64, f64)> {
        match self {
            Self::Known { rate, sd } => Some((rate, sd)),
            Self::Fitted => None,
        }
    }
}

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
    /// Degree, at most, of the polynomial in time by which all rates may change during the run (fewer
    /// in short runs); 0 of none.
    pub drift: usize,
    /// Degrees of the device over time, where they were read.
    pub temperature: &'a [(HostNs, f64)],
    /// What several runs of the device say together, this one among them, and what this one says by
    /// itself.
    pub pooled: Option<(Pooled, Evidence)>,
    /// The sensor's response, where it was found in these readings before; else it is looked for.
    pub found: Option<Response>,
    /// Windows in which workers ran one launch over and over.
    pub workers: &'a [Worker],
    /// Standard deviation of a class's rate above the floor before anything was read, over the mean of
    /// all: 1 of power, and much of what may as well be 0.
    pub spread: f64,
    /// Whether classes that are in no known sum and have no figures of their own make one more sum.
    pub rest_as_sum: bool,
    /// The application's own time: sums of what was read are of it. Empty: all of the time.
    pub own: &'a [(HostNs, HostNs)],
    /// Starts of the user's iterations (frames, time steps), ascending; empty when none are marked.
    pub iterations: &'a [HostNs],
}

/// A window in which a worker ran one launch over and over, alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worker {
    /// The launch's class.
    pub class: ClassId,
    /// Which capture it ran: windows of one have a number in common.
    pub capture: usize,
    /// Seconds that its launches would have taken in the run.
    pub ran: f64,
    /// What it took, in joules: all of it, or above idle.
    pub joules: f64,
    /// Seconds of idle power in these joules.
    pub idle: f64,
    /// Its length in seconds.
    pub seconds: f64,
    /// Standard error of these joules: of its own readings, and of what was taken off.
    pub error: f64,
    /// When it ended, where that was while the run's sensor was read.
    pub at: Option<HostNs>,
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
        "{readings} readings by {classes} kernels and commands are too many to be fitted together; choose a part of the run with --window, or record with a longer sampling period"
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

/// Half-width, as a share of the value, beyond which there is no figure: a rule of display.
pub const WIDEST: f64 = 0.5;
/// Half-width up to which a figure is precise: a rule of display. Sums are looked for until they are.
pub const PRECISE: f64 = 0.1;
/// Half-width that "needs about N seconds" aims at, which is told of figures that are not precise.
const AIM: f64 = 0.05;
/// Standard error of a worker's window, as a share of its energy: the sensor's gain settles, and its
/// edges are seen late. (H100: drift of 3 s of one kernel alone.)
const WINDOW: f64 = 0.003;
/// Degrees Celsius at which joules are told for comparison: a GPU's under load.
pub const REFERENCE_C: f64 = 50.0;
/// Polled readings that are averaged where the shape of the sensor's response is not known: that
/// halves the error of a wrong shape, and costs nothing while mixes change over a hundred
/// milliseconds.
const AVERAGED: usize = 5;
/// Change from start to end that is noticed at the least.
const NOTICED: f64 = 1.0 / 300.0;

/// Energy that was read in the application's own time, and how much of that was covered, whatever is
/// known to have run meanwhile. `None` where none was.
pub fn measured(problem: &Problem<'_>) -> Option<(Joules, Seconds)> {
    let rows = Rows::new(problem.series, problem.activity.origin);
    let own = own_shares(problem, &rows, &problem.response.typical());
    let own = own.iter().zip(&rows.rows).map(|(own, row)| (own * row.covers, row.mean));
    let (covered, joules) = own.fold((0.0, 0.0), |(t, j), (s, mean)| (t + s, j + s * mean));
    (covered > 0.0).then_some((Joules(joules), Seconds(covered)))
}

/// Share of each row that is the application's own time, behind the sensor's response.
fn own_shares(problem: &Problem<'_>, rows: &Rows, response: &Response) -> Vec<f64> {
    if problem.own.is_empty() {
        return vec![1.0; rows.rows.len()];
    }
    let span = |&(start, end): &(HostNs, HostNs)| StateSpan { state: 1, start, end };
    let spans: Vec<StateSpan> = problem.own.iter().map(span).collect();
    let shares = state_shares(problem.activity, rows, &spans, 2, response);
    (0..rows.rows.len()).map(|i| shares.row(i)[1].min(1.0)).collect()
}

/// Attributes what the sensor measured to classes.
///
/// # Errors
/// When there is nothing to fit: no floor, no rows, or rows that meet no activity.
pub fn attribute(problem: &Problem<'_>) -> Result<Attribution, AttributionError> {
    Ok(report(problem, &fit(problem)?))
}

/// Readings, what ran meanwhile, and the model that was fitted to both.
pub(super) struct Fitted {
    pub rows: Rows,
    pub columns: Columns,
    /// Seconds of each class while the sensor was read.
    busy: Vec<f64>,
    pub response: Response,
    pub model: Fit,
    effects: Vec<Effect>,
    /// Which of the effects are what.
    named: Named,
    /// Classes with a column.
    pub present: Vec<usize>,
    /// By state, whether its floor is known or the rows show it.
    floor_seen: Vec<bool>,
    /// Seconds that each row stands for in the fit.
    pub lengths: Vec<f64>,
}

impl Fitted {
    /// What the fit leaves of a row, watts.
    pub fn residual(&self, row: usize) -> f64 {
        self.model.left[row] / self.lengths[row]
    }
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
    let columns =
        |response: &Response| Columns::new(activity, &rows, problem.states, floors.len(), response);
    let levels: Vec<Option<(f64, f64)>> = floors.iter().map(|floor| floor.known()).collect();
    let response = problem.found.unwrap_or_else(|| {
        let level = known_level(&columns(&problem.response.typical()), &levels, rows.rows.len());
        choose(activity, &rows, level.as_deref(), &problem.response)
    });
    let columns = columns(&response);
    let mut busy = covered_busy(activity, &rows, &response);
    let seen =
        |k: usize| (0..rows.rows.len()).map(|i| columns.classes.row(i)[k]).sum::<f64>() > 0.0;
    let present: Vec<usize> =
        (0..activity.classes()).filter(|&k| busy[k] > 0.0 && seen(k)).collect();
    if present.is_empty() {
        return Err(AttributionError::NoOverlap);
    }
    // Rows that say something of the classes: those in which any ran.
    let is_active = |i: &usize| columns.classes.row(*i).iter().sum::<f64>() > 0.02;
    let usable = (0..rows.rows.len()).filter(is_active).count();
    if usable < needed {
        return Err(AttributionError::TooFewReadings { usable, needed });
    }
    let step = if rows.period > 0.0 { rows.period } else { 1.0 };
    let lengths: Vec<f64> = rows.rows.iter().map(|row| row.length(step)).collect();
    let fitted: Vec<bool> = levels.iter().map(Option::is_none).collect();
    let variation = Variation::new(activity, &columns, &rows, &fitted, &present);
    let mut all = readings_of_run(&rows, &columns, &present, &lengths);
    let ripple = variation.ripple(&all, &lengths);
    let bent = |powers: &[f64]| {
        let mut of_classes = vec![0.0; activity.classes()];
        present.iter().zip(powers).for_each(|(&class, power)| of_classes[class] = *power);
        let noisy = columns.noisy;
        let mut out = bent(activity, &rows, &response, &problem.response, &of_classes, noisy);
        for (_, column) in &mut out {
            column.iter_mut().zip(&lengths).for_each(|(watts, length)| *watts *= length);
        }
        let usual = problem.spread * powers.iter().sum::<f64>() / powers.len() as f64;
        out.extend(ripple.iter().map(|(sd, column)| (sd * usual, column.clone())));
        out
    };
    let errors = match rows.kind {
        RowKind::Counter => Errors::Counter,
        RowKind::Instant | RowKind::Window => {
            let open = [problem.response.window, problem.response.lag];
            let is_open = open.iter().any(|p| p.belief().is_some()) && !columns.noisy;
            let many = rows.rows.len() >= ROWS_FOR_SHAPE;
            Errors::Polled { averaged: if is_open && many { AVERAGED } else { 1 } }
        }
    };
    let run = |all: &[Reading], effects: &[Effect]| {
        let model = Model {
            kernels: present.len(),
            levels: &levels,
            effects,
            bent: Some(&bent),
            errors,
            spread: problem.spread,
            workers: problem.pooled.map_or(WORKERS, |(all, own)| all.workers(own)),
        };
        Fit::new(all, &model).ok_or(AttributionError::TooFewReadings { usable, needed })
    };
    let (mut effects, mut named) = effects(problem, &rows, &columns, &lengths, &[]);
    let mut model = run(&all, &effects)?;
    let workers: Vec<&Worker> =
        problem.workers.iter().filter(|w| present.contains(&w.class.index())).collect();
    if !workers.is_empty() {
        all.extend(workers.iter().map(|worker| of_worker(worker, &present)));
        (effects, named) = self::effects(problem, &rows, &columns, &lengths, &workers);
        model = run(&all, &effects)?;
    }
    if let Some(((pooled, _), (_, shares))) = problem.pooled.zip(named.warmth) {
        model.spread(shares.map(|effect| model.share(effect)), &pooled);
    }
    // A worker without rest beside it is as good as rest.
    let floor_seen = if workers.iter().any(|w| w.idle > 0.0) {
        vec![true; floors.len()]
    } else {
        variation.floor_seen
    };
    busy.iter_mut().enumerate().for_each(|(k, busy)| *busy *= activity.estimated(k).ratio);
    Ok(Fitted {
        rows,
        columns,
        busy,
        response,
        model,
        effects,
        named,
        present,
        floor_seen,
        lengths,
    })
}

/// The run's rows as readings.
fn readings_of_run(
    rows: &Rows,
    columns: &Columns,
    present: &[usize],
    lengths: &[f64],
) -> Vec<Reading> {
    let reading = |(i, row): (usize, &super::readings::sensor::Row)| {
        let (shares, length) = (columns.classes.row(i), lengths[i]);
        let own = |of: &[f64], factor: f64| -> Vec<(usize, f64)> {
            let each = present.iter().enumerate().map(|(k, &class)| (k, factor * of[class]));
            each.filter(|(_, n)| *n > 0.0).collect()
        };
        let states = columns.states.row(i).iter().enumerate();
        Reading {
            energy: row.mean * length,
            idle: states.map(|(s, share)| (s, length * share)).filter(|s| s.1 > 0.0).collect(),
            launches: own(shares, length),
            unsure: columns
                .classes
                .variance_row(i)
                .map_or_else(Vec::new, |variance| own(variance, length * length)),
            capture: None,
            variance: (length / row.scale).powi(2),
            follows: row.joined,
        }
    };
    rows.rows.iter().enumerate().map(reading).collect()
}

/// A worker's window as a reading.
fn of_worker(worker: &Worker, present: &[usize]) -> Reading {
    let kernel = present.iter().position(|class| *class == worker.class.index()).unwrap_or(0);
    let settles = WINDOW * worker.joules;
    Reading {
        energy: worker.joules,
        idle: if worker.idle > 0.0 { vec![(0, worker.idle)] } else { Vec::new() },
        launches: vec![(kernel, worker.ran)],
        unsure: Vec::new(),
        capture: Some(worker.capture),
        variance: settles * settles + worker.error * worker.error,
        follows: false,
    }
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

/// Level of the floors in every row when all are known.
fn known_level(columns: &Columns, levels: &[Option<(f64, f64)>], rows: usize) -> Option<Vec<f64>> {
    let rates = levels.iter().map(|level| Some(level.as_ref()?.0)).collect::<Option<Vec<f64>>>()?;
    let level = |i| columns.states.row(i).iter().zip(&rates).map(|(s, f)| s * f).sum();
    Some((0..rows).map(level).collect())
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
