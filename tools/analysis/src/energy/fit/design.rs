//! Owns the columns of the fit before anything is fitted: every class's and power state's share of
//! every row, and how the rows change with the response. Refuses to look at what the sensor read.

use crate::energy::activity::{Activity, Segment};
use crate::energy::readings::response::{Design, Response, exact};
use crate::energy::readings::search::ResponseModel;
use crate::energy::readings::sensor::Rows;
use crate::energy::units::HostNs;

/// A stretch in which the device was in a power state other than state 0 (say deep idle, or a low
/// clock).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateSpan {
    /// Index into the floors given with the problem; state 0 is in force outside all spans.
    pub state: usize,
    /// When the state was entered.
    pub start: HostNs,
    /// When it was left.
    pub end: HostNs,
}

/// A first-order lag is a family of shapes; a real sensor's is only near one of it. Mixed with
/// these, it comes close to two lags in a row and to averages of lags: factor of the response's
/// length, and delay in units of it. A wrong shape puts rates off away from their mean: two lags of
/// 11 and 5 ms taken for one, by up to a percent, and by a sixth of that with this mixture (example
/// `attribution_truth`, family "two lags").
const SHAPES: [(f64, f64); 5] = [(0.5, 0.0), (0.5, 0.5), (0.5, 1.0), (1.0, 0.5), (1.0, -0.25)];
/// Weight of each in the mixture: its standard deviation before the data are seen.
const SHAPE_BELIEF: f64 = 0.3;
/// Fewest rows from which a shape can be found.
pub(in crate::energy) const ROWS_FOR_SHAPE: usize = 100;

/// Shares of classes and states in every row under one response.
#[derive(Clone)]
pub(crate) struct Columns {
    pub classes: Design,
    /// Each row sums to one.
    pub states: Design,
    /// Whether the uncertainty of busy time is a part of the classes' variation that counts.
    pub noisy: bool,
}

impl Columns {
    pub(crate) fn new(
        activity: &Activity,
        rows: &Rows,
        spans: &[StateSpan],
        state_count: usize,
        response: &Response,
    ) -> Self {
        let classes =
            exact(&activity.segments, activity.classes(), &rows.rows, response, activity.uncertain);
        Self {
            noisy: activity.uncertain && classes.noisy(),
            classes,
            states: state_shares(activity, rows, spans, state_count, response),
        }
    }
}

/// What the sensor would read of these powers of classes if it responded a little otherwise: change
/// of each row per second of window, lag and delay, where those are free, and of a shape that is not
/// quite the family's. Each with the standard deviation believed of its coefficient.
pub(crate) fn bent(
    activity: &Activity,
    rows: &Rows,
    response: &Response,
    model: &ResponseModel,
    powers: &[f64],
    noisy: bool,
) -> Vec<(f64, Vec<f64>)> {
    let drawn: Vec<Segment> = activity
        .segments
        .iter()
        .map(|s| Segment { class: 0, share: s.share * powers[s.class as usize], ..*s })
        .collect();
    let build = |response: &Response| exact(&drawn, 1, &rows.rows, response, false).share;
    let less = |a: Vec<f64>, b: &[f64], by: f64| -> Vec<f64> {
        a.iter().zip(b).map(|(a, b)| (a - b) / by).collect()
    };
    let mut out = Vec::new();
    // Where busy time is noisy a slower response would be found for averaging the noise.
    if noisy {
        return out;
    }
    let step = rows.period * 0.02;
    let set: [fn(&mut Response, f64); 3] =
        [|r, d| r.window += d, |r, d| r.lag += d, |r, d| r.delay += d];
    let active = [response.window > step, response.lag > step, true];
    for ((parameter, shift), active) in model.parameters().into_iter().zip(set).zip(active) {
        if let (Some(belief), true) = (parameter.belief(), active) {
            let (mut before, mut after) = (*response, *response);
            shift(&mut before, -step);
            shift(&mut after, step);
            out.push((belief, less(build(&after), &build(&before), 2.0 * step)));
        }
    }
    let reach = response.lag.max(response.window);
    let open = [model.window, model.lag].iter().any(|p| p.belief().is_some());
    if open && reach > step && rows.rows.len() >= ROWS_FOR_SHAPE {
        let own = build(response);
        for (length, offset) in SHAPES {
            let shifted = Response {
                window: response.window * length,
                lag: response.lag * length,
                delay: response.delay + offset * reach,
            };
            out.push((SHAPE_BELIEF, less(build(&shifted), &own, 1.0)));
        }
    }
    out
}

/// Seconds before the first reading in which a state held that it found: longer than any sensor looks
/// back.
const BEFORE: f64 = 1e3;

/// Share of each row in each state, behind the response.
pub(in crate::energy) fn state_shares(
    activity: &Activity,
    rows: &Rows,
    spans: &[StateSpan],
    count: usize,
    response: &Response,
) -> Design {
    let first = rows.rows.first().map_or(f64::NEG_INFINITY, |row| row.to);
    let mut segments: Vec<Segment> = spans
        .iter()
        .filter(|span| span.state > 0 && span.state < count && span.end > span.start)
        .map(|span| Segment {
            from: match activity.seconds(span.start) {
                from if from <= first => from - BEFORE,
                from => from,
            },
            to: activity.seconds(span.end),
            class: span.state as u32,
            share: 1.0,
            spread: 0.0,
        })
        .collect();
    segments.sort_by(|a, b| a.from.total_cmp(&b.from));
    let mut shares = exact(&segments, count, &rows.rows, response, false);
    for row in shares.share.chunks_exact_mut(count) {
        let others: f64 = row[1..].iter().sum();
        row[0] = (1.0 - others).max(0.0);
    }
    shares
}
