//! Owns the columns of the fit before anything is fitted: every class's and power state's share of
//! every row, and how the rows change with the response. Refuses to look at what the sensor read.

#![forbid(unsafe_code)]

use nalgebra::DMatrix;

use super::activity::{Activity, Segment};
use super::response::{Design, Response, exact};
use super::search::ResponseModel;
use super::sensor::Rows;
use super::solve::guarded_inverse;
use super::units::HostNs;

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
pub(super) const ROWS_FOR_SHAPE: usize = 100;

/// Shares of classes and states in every row under one response.
#[derive(Clone)]
pub(crate) struct Columns {
    pub classes: Design,
    /// Rows by states, row-major; each row sums to one.
    pub states: Vec<f64>,
    pub state_count: usize,
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
            state_count,
        }
    }

    pub(crate) fn state_row(&self, i: usize) -> &[f64] {
        &self.states[i * self.state_count..(i + 1) * self.state_count]
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

fn state_shares(
    activity: &Activity,
    rows: &Rows,
    spans: &[StateSpan],
    count: usize,
    response: &Response,
) -> Vec<f64> {
    let mut segments: Vec<Segment> = spans
        .iter()
        .filter(|span| span.state > 0 && span.state < count && span.end > span.start)
        .map(|span| Segment {
            from: activity.seconds(span.start),
            to: activity.seconds(span.end),
            class: span.state as u32,
            share: 1.0,
            spread: 0.0,
        })
        .collect();
    segments.sort_by(|a, b| a.from.total_cmp(&b.from));
    let mut shares = exact(&segments, count, &rows.rows, response, false).share;
    for row in shares.chunks_exact_mut(count) {
        let others: f64 = row[1..].iter().sum();
        row[0] = (1.0 - others).max(0.0);
    }
    shares
}

/// Share of a class's own time by which its column must vary on its own, not explained by any other
/// column. Below it what is left is ripple of a repeating schedule and errors of spans, not
/// independent variation.
const LEAST_VARIATION: f64 = 0.03;
/// Rows over which variation must last to count, in runs long enough for it.
const LASTING_ROWS: usize = 15;

/// Running mean over `length` rows of a table of `width` columns, fewer at the ends.
pub(crate) fn running_mean(values: &mut [f64], width: usize, length: usize) {
    let n = values.len() / width.max(1);
    if length <= 1 {
        return;
    }
    let old = values.to_vec();
    let mut sum = vec![0.0; width];
    let (mut from, mut to) = (0, 0);
    for i in 0..n {
        while to < (i + length / 2 + 1).min(n) {
            sum.iter_mut().zip(&old[to * width..]).for_each(|(s, v)| *s += v);
            to += 1;
        }
        while from < i.saturating_sub(length / 2) {
            sum.iter_mut().zip(&old[from * width..]).for_each(|(s, v)| *s -= v);
            from += 1;
        }
        let count = (to - from) as f64;
        values[i * width..(i + 1) * width].iter_mut().zip(&sum).for_each(|(v, s)| *v = s / count);
    }
}

/// What follows from the design alone about a partition of the classes.
pub(crate) struct Structure {
    /// Classes taken together, each list in class order.
    pub groups: Vec<Vec<usize>>,
    /// Groups that cannot be separated from idle time, whose floor is to be fitted as well.
    pub with_floor: Vec<bool>,
    /// Per state: whether the rows show its floor, where it is to be fitted.
    pub floor_seen: Vec<bool>,
}

/// Idle time by which a floor must vary on its own, in whole rows. Classes that leave less hide it,
/// and are given with the floor in them.
const LEAST_IDLE_ROWS: f64 = 0.05;

/// Joins classes that never vary on their own until every group does. `fitted` marks the states
/// whose floors are to be fitted; `present` which classes have any time in the rows.
pub(crate) fn structure(
    activity: &Activity,
    columns: &Columns,
    rows: &Rows,
    fitted: &[bool],
    present: &[usize],
    start: &[Vec<usize>],
) -> Structure {
    let mut floors: Vec<usize> = (0..columns.state_count).filter(|&s| fitted[s]).collect();
    let floor_columns = floors.clone();
    let (k, n) = (present.len(), present.len() + floors.len());
    // Idle share of each state instead of its whole share: a class that runs all the time is then
    // no copy of the floor.
    let mut gram = DMatrix::<f64>::zeros(n, n);
    let mut mean = vec![0.0; n];
    // Ripple faster than the response, or beating with the sensor's period, says more of the
    // response than of the classes: only variation of busy time itself counts, over windows without
    // gaps, that outlasts several rows.
    let mut windows = rows.rows.clone();
    let mut before = None;
    for row in &mut windows {
        if row.from == row.to {
            row.from = before.filter(|_| row.joined).unwrap_or(row.to - rows.period);
        }
        before = Some(row.to);
    }
    let busy_time = exact(
        &activity.segments,
        activity.classes(),
        &windows,
        &Response::default(),
        activity.uncertain,
    );
    let lasting = (rows.rows.len() / (4 * n)).clamp(1, LASTING_ROWS);
    let mut table = Vec::with_capacity(rows.rows.len() * n);
    let mut line = vec![0.0; n];
    for i in 0..rows.rows.len() {
        let shares = busy_time.row(i);
        let states = columns.state_row(i);
        let busy: f64 = shares.iter().sum::<f64>().min(1.0);
        for (slot, &class) in line.iter_mut().zip(present) {
            *slot = shares[class];
        }
        for (slot, &state) in line[k..].iter_mut().zip(&floors) {
            *slot = states[state] * (1.0 - busy);
        }
        mean.iter_mut().zip(&line).for_each(|(sum, value)| *sum += value);
        table.extend_from_slice(&line);
        if let Some(variance) = busy_time.variance_row(i) {
            for (r, &class) in present.iter().enumerate() {
                gram[(r, r)] -= variance[class] / lasting as f64;
            }
        }
    }
    running_mean(&mut table, n, lasting);
    // At the ends the mean is of few rows, and of cycles that were cut.
    let whole = rows.rows.len().saturating_sub(lasting / 2 * 2);
    for line in table.chunks_exact(n).skip(lasting / 2).take(whole) {
        for r in 0..n {
            for c in 0..=r {
                gram[(r, c)] += line[r] * line[c];
            }
        }
    }
    gram.fill_upper_triangle_with_lower_triangle();
    let count = rows.rows.len() as f64;
    let position_of = |state: usize| floor_columns.iter().position(|&s| s == state).unwrap_or(0);
    // Groups as lists of positions in `present`, then the floors, each by itself.
    let position = |class: usize| present.iter().position(|&p| p == class);
    let mut sets: Vec<Vec<usize>> = start
        .iter()
        .map(|group| group.iter().filter_map(|&class| position(class)).collect())
        .collect();
    sets.retain(|set: &Vec<usize>| !set.is_empty());
    let mut with_floor = vec![false; sets.len()];
    let own_variation = guarded_inverse(&gram);
    let mut floor_seen: Vec<bool> = fitted.iter().map(|fitted| !fitted).collect();
    floors.retain(|&state| {
        let at = k + position_of(state);
        floor_seen[state] =
            gram[(at, at)] > 0.0 && own_variation[(at, at)].recip() >= LEAST_IDLE_ROWS;
        floor_seen[state]
    });
    loop {
        let groups = sets.len();
        let size = groups + floors.len();
        let pick = |g: usize| -> Vec<usize> {
            if g < groups { sets[g].clone() } else { vec![k + position_of(floors[g - groups])] }
        };
        let merged = DMatrix::from_fn(size, size, |r, c| {
            let mut sum = 0.0;
            for &a in &pick(r) {
                for &b in &pick(c) {
                    sum += gram[(a, b)];
                }
            }
            sum
        });
        let inverse = guarded_inverse(&merged);
        let weakest = (0..groups)
            .filter(|&g| !with_floor[g])
            .map(|g| {
                let own: f64 = sets[g].iter().map(|&a| mean[a]).sum::<f64>() / count;
                let rms = (inverse[(g, g)] * count).max(f64::MIN_POSITIVE).sqrt().recip();
                (g, if merged[(g, g)] > 0.0 { rms / own } else { 0.0 })
            })
            .filter(|&(_, variation)| variation < LEAST_VARIATION)
            .min_by(|a, b| a.1.total_cmp(&b.1));
        let Some((g, _)) = weakest else { break };
        let correlation = |other: usize| {
            inverse[(g, other)]
                / (inverse[(g, g)] * inverse[(other, other)]).sqrt().max(f64::MIN_POSITIVE)
        };
        let partner = (0..size)
            .filter(|&o| o != g)
            .min_by(|&a, &b| correlation(a).total_cmp(&correlation(b)));
        match partner {
            Some(other) if other < groups => {
                let (keep, gone) = (g.min(other), g.max(other));
                let moved = sets.remove(gone);
                let floor = with_floor.remove(gone);
                sets[keep].extend(moved);
                sets[keep].sort_unstable();
                with_floor[keep] |= floor;
            }
            Some(_) => with_floor[g] = true,
            // Alone, and with a known floor: its level is seen directly.
            None => break,
        }
    }
    let groups =
        sets.into_iter().map(|set| set.into_iter().map(|p| present[p]).collect()).collect();
    Structure { groups, with_floor, floor_seen }
}
