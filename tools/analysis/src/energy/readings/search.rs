//! Owns the choice of a sensor's response from the data: the parameters that leave the least
//! residual, found by golden section on activity binned much finer than the response. Refuses to
//! say what classes cost.

use nalgebra::{DMatrix, DVector};

use crate::energy::activity::{Activity, Segment};
use crate::energy::fit::solve::nonnegative;
use crate::energy::readings::response::{Binned, Response, exact};
use crate::energy::readings::sensor::Rows;

/// One parameter of a response, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Parameter {
    /// Known, from calibration or by the sensor's nature.
    Fixed(f64),
    /// To be chosen from the data within a range. `typical` is what is kept when the data say
    /// nothing.
    Free {
        /// Least value.
        from: f64,
        /// Greatest value.
        to: f64,
        /// Value expected before the data are seen.
        typical: f64,
        /// Standard deviation of that expectation. Data that contradict it clearly win.
        sd: f64,
    },
}

impl Parameter {
    /// Anything within a range, as far as is known beforehand.
    pub fn free(from: f64, to: f64, typical: f64) -> Self {
        Self::Free { from, to, typical, sd: (to - from) / 2.0 }
    }

    pub(crate) fn typical(self) -> f64 {
        match self {
            Self::Fixed(value) | Self::Free { typical: value, .. } => value,
        }
    }

    /// Standard deviation of the belief held before the data are seen; `None` when fixed.
    pub(crate) fn belief(self) -> Option<f64> {
        match self {
            Self::Free { from, to, sd, .. } if to > from => Some(sd),
            Self::Fixed(_) | Self::Free { .. } => None,
        }
    }

    /// Where a search begins: all of the range in a few steps, or what is likely, in steps of so many
    /// standard deviations. Kernels that follow each other in one order fit nearly as well when they
    /// are shifted by one of them: steps have to be shorter.
    fn starts(self, is_likely: bool, step: f64) -> Vec<f64> {
        let Self::Free { from, to, typical, sd } = self else { return vec![self.typical()] };
        if !is_likely {
            return (0..6).map(|i| from + (to - from) * (f64::from(i) / 5.0).powi(2)).collect();
        }
        let reach = (LIKELY / step) as i32;
        let likely = (-reach..=reach).map(|i| typical + f64::from(i) * step * sd);
        likely.filter(|at| (from..=to).contains(at)).collect()
    }

    fn range(self) -> Option<(f64, f64)> {
        match self {
            Self::Free { from, to, .. } if to > from => Some((from, to)),
            Self::Fixed(_) | Self::Free { .. } => None,
        }
    }

    /// The greatest value.
    fn most(self) -> f64 {
        self.range().map_or(self.typical(), |range| range.1)
    }
}

/// Standard deviations within which parameters are likely.
const LIKELY: f64 = 2.5;
/// Standard deviation of what is expected of a lag and of a delay, in periods of the sensor.
const LAG_SD: f64 = 0.2;
const DELAY_SD: f64 = 0.15;

/// What is known of a sensor's response.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResponseModel {
    /// Moving average before an instantaneous reading.
    pub window: Parameter,
    /// Time constant of a first-order lag.
    pub lag: Parameter,
    /// Lateness of a reading.
    pub delay: Parameter,
    /// How far, in seconds, the moment a counter's reading stands for may be from the delay's mean:
    /// its update period, for one polled at any time. Rows are joined until this is a small part of
    /// them.
    pub blur: f64,
}

impl ResponseModel {
    /// One that is late, and no more than that.
    pub fn delayed(delay: Parameter, blur: f64) -> Self {
        Self { window: Parameter::Fixed(0.0), lag: Parameter::Fixed(0.0), delay, blur }
    }

    /// An energy counter that steps every `update` seconds: no lag, and a reading that is late by
    /// up to two steps (it shows the last one, itself the end of a conversion).
    pub fn counter(update: f64) -> Self {
        Self::delayed(Parameter::free(-0.5 * update, 2.0 * update, 0.5 * update), update)
    }

    /// Stamped power samples `period` seconds apart behind a first-order lag. Expected is what was
    /// found on an H200 (driver 580, samples 20 ms apart: lags of 12 to 14 ms, delays of 1 to 4 ms
    /// in ten runs): where busy times are uncertain, or power changes by itself, a slow response
    /// would explain as much as the kernels do.
    pub fn lagged_samples(period: f64) -> Self {
        let free = |[from, to, typical, sd]: [f64; 4]| {
            let [from, to, typical, sd] = [from, to, typical, sd].map(|periods| periods * period);
            Parameter::Free { from, to, typical, sd }
        };
        let delay = free([-0.5, 2.0, 0.15, DELAY_SD]);
        Self { lag: free([0.02, 3.0, 0.7, LAG_SD]), ..Self::delayed(delay, 0.0) }
    }

    /// Power samples averaged over a moving window of up to `longest` seconds.
    pub fn averaged_samples(period: f64, longest: f64) -> Self {
        let delay = Parameter::free(-0.5 * period, 2.0 * period, 0.15 * period);
        let window = Parameter::free(0.1 * period, longest, period);
        Self { window, ..Self::delayed(delay, 0.0) }
    }

    /// Window means with an unknown shift of up to one window either way.
    pub fn shifted_windows(period: f64) -> Self {
        Self::delayed(Parameter::free(-period, period, 0.0), 0.0)
    }

    pub(crate) fn parameters(&self) -> [Parameter; 3] {
        [self.window, self.lag, self.delay]
    }

    pub(in crate::energy) fn typical(&self) -> Response {
        Response {
            window: self.window.typical(),
            lag: self.lag.typical(),
            delay: self.delay.typical(),
        }
    }
}

/// Rows used for the search at most: the response does not change during a run.
const SEARCH_ROWS: usize = 6000;
/// Classes kept apart in the search; the rest are taken together.
const SEARCH_CLASSES: usize = 8;
/// Bins per period of the sensor.
const BINS: f64 = 24.0;

/// The response that explains `rows` best. `level` is the known floor of every row, `None` when it
/// is to be fitted.
pub(crate) fn choose(
    activity: &Activity,
    rows: &Rows,
    level: Option<&[f64]>,
    model: &ResponseModel,
) -> Response {
    let typical = model.typical();
    if model.parameters().iter().all(|p| p.range().is_none()) || rows.rows.len() < 8 {
        return typical;
    }
    let mut trial = Trial::new(activity, rows, level, model);
    let shapes: [Shape; 2] = [(model.lag, |r| &mut r.lag), (model.window, |r| &mut r.window)];
    let mut ways: Vec<Option<Shape>> =
        shapes.into_iter().filter(|shape| shape.0.range().is_some()).map(Some).collect();
    // With both shapes open they are tried one at a time: one sample cannot separate them in detail.
    // The best of a coarse grid in one shape may lie behind any point of a narrow range of the other:
    // each is refined.
    let both = ways.len() > 1;
    if ways.is_empty() {
        ways.push(None);
    }
    let refined = ways.into_iter().map(|shape| {
        let mut response =
            if both { Response { window: 0.0, lag: 0.0, ..typical } } else { typical };
        let mut best = (if both { f64::INFINITY } else { trial.cost(&typical) }, typical);
        for is_likely in [false, true] {
            let starts = shape.map_or(vec![0.0], |(parameter, _)| parameter.starts(is_likely, 1.0));
            for at in starts {
                shape.into_iter().for_each(|(_, own)| *own(&mut response) = at);
                for delay in model.delay.starts(is_likely, 0.5) {
                    response.delay = delay;
                    let cost = trial.cost(&response);
                    if cost < best.0 {
                        best = (cost, response);
                    }
                }
            }
        }
        let refined = refine(&mut trial, model, best.1);
        (trial.cost(&refined), refined)
    });
    refined.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(typical, |of| of.1)
}

/// A parameter of the shape of a response, and where a response has it.
type Shape = (Parameter, fn(&mut Response) -> &mut f64);

/// What a section goes along: the parameter, where a response has it, and the response with another.
type Way<'m> = (Parameter, fn(&Response) -> f64, &'m dyn Fn(&Response, f64) -> Response);

/// Golden sections along shape (at a constant mean delay, which is what the data fix best) and
/// along the delay. What a section over several valleys finds may be worse than where it began.
fn refine(trial: &mut Trial<'_>, model: &ResponseModel, mut response: Response) -> Response {
    let mut cost = trial.cost(&response);
    let slides = model.delay.range();
    let slide = |delay: f64| slides.map_or(delay, |(from, to)| delay.clamp(from, to));
    let ways: [Way<'_>; 3] = [
        (model.delay, |r| r.delay, &|r, delay| Response { delay, ..*r }),
        (model.lag, |r| r.lag, &|r, lag| Response {
            lag,
            delay: slide(r.delay + r.lag - lag),
            ..*r
        }),
        (model.window, |r| r.window, &|r, window| Response {
            window,
            delay: slide(r.delay + (r.window - window) / 2.0),
            ..*r
        }),
    ];
    let mut reach = 0.35;
    for _ in 0..4 {
        for (way, (parameter, own, moved)) in ways.iter().enumerate() {
            let Some((from, to)) = parameter.range() else { continue };
            let (centre, width) = (own(&response), (to - from) * reach);
            // A shape that is 0 is the one that is not tried.
            if way > 0 && centre <= 0.0 {
                continue;
            }
            let ends = ((centre - width).max(from), (centre + width).min(to));
            let best = golden(ends.0, ends.1, |at| trial.cost(&moved(&response, at)));
            let found = moved(&response, best);
            let of_found = trial.cost(&found);
            if of_found < cost {
                (cost, response) = (of_found, found);
            }
        }
        reach *= 0.3;
    }
    response
}

/// Place of the least value of a function with one valley in `[a, b]`, to a thousandth of the
/// range.
fn golden(mut a: f64, mut b: f64, mut f: impl FnMut(f64) -> f64) -> f64 {
    const RATIO: f64 = 0.618_033_988_749_895;
    let (mut c, mut d) = (b - RATIO * (b - a), a + RATIO * (b - a));
    let (mut at_c, mut at_d) = (f(c), f(d));
    for _ in 0..11 {
        if at_c <= at_d {
            (b, d, at_d) = (d, c, at_c);
            c = b - RATIO * (b - a);
            at_c = f(c);
        } else {
            (a, c, at_c) = (c, d, at_d);
            d = a + RATIO * (b - a);
            at_d = f(d);
        }
    }
    if at_c <= at_d { c } else { d }
}

/// Rows used when busy time itself is uncertain, and every trial has to go through all spans for
/// its variance.
const UNCERTAIN_ROWS: usize = 2000;

/// Everything a trial of one response needs.
struct Trial<'a> {
    rows: &'a [crate::energy::readings::sensor::Row],
    binned: Binned,
    /// Segments, where their busy time is uncertain: left as it is, that error would be explained
    /// best by a response slow enough to average it away.
    uncertain: Vec<Segment>,
    /// Rows with the known floor taken off.
    target: Vec<f64>,
    fitted_floor: bool,
    model: &'a ResponseModel,
    columns: usize,
}

impl<'a> Trial<'a> {
    fn new(
        activity: &Activity,
        rows: &'a Rows,
        level: Option<&[f64]>,
        model: &'a ResponseModel,
    ) -> Self {
        let most = if activity.uncertain { UNCERTAIN_ROWS } else { SEARCH_ROWS };
        let skip = rows.rows.len().saturating_sub(most) / 2;
        let used = &rows.rows[skip..(skip + most).min(rows.rows.len())];
        let mut order: Vec<usize> = (0..activity.classes()).collect();
        order.sort_by(|&a, &b| activity.totals[b].busy_s.total_cmp(&activity.totals[a].busy_s));
        let mut column = vec![0u32; activity.classes()];
        for (rank, &class) in order.iter().enumerate() {
            column[class] = rank.min(SEARCH_CLASSES) as u32;
        }
        let columns = activity.classes().min(SEARCH_CLASSES + 1);
        let latest =
            model.delay.range().map_or(model.delay.typical().abs(), |r| r.0.abs().max(r.1.abs()));
        let margin = model.window.most() + 12.0 * model.lag.most() + latest;
        let from = used.first().map_or(0.0, |row| row.from) - margin;
        let to = used.last().map_or(0.0, |row| row.to) + margin;
        let near: Vec<Segment> = activity
            .segments
            .iter()
            .filter(|s| s.to > from && s.from < to)
            .map(|s| Segment { class: column[s.class as usize], ..*s })
            .collect();
        let noisy =
            activity.uncertain && exact(&near, columns, used, &model.typical(), true).noisy();
        let width = (rows.period / BINS).max((to - from) / 1e6);
        let target = (skip..skip + used.len())
            .map(|i| rows.rows[i].mean - level.map_or(0.0, |level| level[i]))
            .collect();
        Self {
            rows: used,
            binned: Binned::new(&near, columns, from, to, width),
            uncertain: if noisy { near } else { Vec::new() },
            target,
            fitted_floor: level.is_none(),
            model,
            columns,
        }
    }

    /// Minus twice the logarithm of the likelihood, up to a constant, with the belief held
    /// beforehand. Residuals are correlated; a quarter of them counts.
    fn cost(&mut self, response: &Response) -> f64 {
        let design = if self.uncertain.is_empty() {
            self.binned.design(self.rows, response)
        } else {
            exact(&self.uncertain, self.columns, self.rows, response, true)
        };
        let n = self.columns + usize::from(self.fitted_floor);
        let mut gram = DMatrix::zeros(n, n);
        let mut moment = DVector::zeros(n);
        let mut power = 0.0;
        let mut line = vec![1.0; n];
        let mut spread = vec![0.0; self.columns];
        for (i, row) in self.rows.iter().enumerate() {
            line[..self.columns].copy_from_slice(design.row(i));
            let weight = row.scale * row.scale;
            let y = self.target[i];
            for (sum, variance) in spread.iter_mut().zip(design.variance_row(i).unwrap_or(&[])) {
                *sum += weight * variance;
            }
            power += weight * y * y;
            for r in 0..n {
                let scaled = weight * line[r];
                if scaled != 0.0 {
                    moment[r] += scaled * y;
                    for c in 0..=r {
                        gram[(r, c)] += scaled * line[c];
                    }
                }
            }
        }
        gram.fill_upper_triangle_with_lower_triangle();
        for r in 0..self.columns {
            let own = gram[(r, r)];
            gram[(r, r)] -= spread[r].min(0.9 * own);
        }
        let x = nonnegative(&gram, &moment, &vec![true; n]);
        let rest = power - 2.0 * x.dot(&moment) + (x.transpose() * &gram * &x)[(0, 0)];
        let rest = rest.max(power * 1e-12).max(f64::MIN_POSITIVE);
        // Of two shapes that are open the one that is not tried is zero: what is believed of it
        // does not count then.
        let either = self.model.window.range().is_some() && self.model.lag.range().is_some();
        let tried = [!either || response.window > 0.0, !either || response.lag > 0.0, true];
        let belief: f64 = (self.model.parameters().iter())
            .zip([response.window, response.lag, response.delay])
            .zip(tried)
            .filter_map(|(pair, tried)| tried.then_some(pair))
            .filter_map(|(parameter, value)| {
                Some(((value - parameter.typical()) / parameter.belief()?).powi(2))
            })
            .sum();
        self.rows.len() as f64 / 4.0 * rest.ln() + belief
    }
}
