//! Owns what changes powers within a run: rests, temperature, the first of its work, what is slow.
//! Refuses to fit.

use super::{Problem, REFERENCE_C, Worker};
use crate::energy::activity::Activity;
use crate::energy::fit::design::Columns;
use crate::energy::fit::mixed::Effect;
use crate::energy::readings::sensor::Rows;
use crate::energy::units::HostNs;

/// Part of a window in which kernels run, from which on it is between launches rather than a rest:
/// the scale of 1 - exp(-x).
const ACTIVE: f64 = 0.02;
/// Standard deviation of idle power between launches against rests, as a share. (H200: six runs rested
/// at 127.6 to 131.2 W, and the device alone at 125.0 W, behind load.)
const IDLE: f64 = 0.03;
/// The same of idle power that changes slowly within a run. (H100: rests of one run are at 126 to 131
/// W, and idle power with a context is 126 W +- 2 W.)
const SLOW_IDLE: f64 = 0.016;
/// The same where the temperature was read: a tenth of a degree, each 2 % of idle power.
const READ: f64 = 0.002;
/// Mean and standard deviation of what a degree adds to idle power, as a share. (Leakage doubles in
/// some 30 C, 2.3 % a degree, and is a part of idle power. H100: 2.4 to 2.7 W of 126 W.)
pub(in crate::energy) const BETA: (f64, f64) = (0.012, 0.012);
/// Standard deviation of the same of joules above idle. (H100: two kernels that draw 250 and 210 W above idle rise alike.)
const ALPHA: f64 = 0.003;
/// Standard deviation of a temperature that is told in whole degrees.
pub(super) const WHOLE_DEGREES: f64 = 0.29;
/// What is known beforehand of what a degree adds to idle power, and to joules above it.
pub(in crate::energy) const DEGREE: [(f64, f64); 2] = [BETA, (0.0, ALPHA)];
/// Standard deviation, in a run's fit, of what runs together say, over that which they leave: so small
/// that the run alone does not move it. What is not known of it is in all intervals ([`Fit::spread`]).
const AS_POOLED: f64 = 1e-3;
/// Part of a reading between launches that counts as rest where a run shows no other.
const SOME_REST: f64 = 1e-6;
/// Standard deviation of what a device draws less in its first tenth of a second of work, as a share.
/// (H100: up to 20 %.)
const ONSET: (f64, f64) = (0.2, 0.1);
/// Standard deviation of a polynomial of slow change, as a share: a change by a fifth is none.
const SLOW: f64 = 0.05;
/// Rows needed for a first polynomial, and for each further one, so that a short run is not bent to
/// its noise.
const ROWS_TO_DRIFT: usize = 40;
const ROWS_PER_DEGREE: usize = 100;

/// Which effects are what.
pub(super) struct Named {
    /// Degrees of the run, where they were read: mean, least and most, with the effects of a degree on
    /// idle power and on joules above idle.
    pub warmth: Option<([f64; 3], [usize; 2])>,
    /// What rounding hides of degrees before the first change of them, and behind the last.
    pub rounded: std::ops::Range<usize>,
    /// Polynomials of slow change of all powers.
    pub slow: std::ops::Range<usize>,
}

/// What changes powers during a run. Readings are the rows, and behind them those of workers.
pub(super) fn effects(
    problem: &Problem<'_>,
    rows: &Rows,
    columns: &Columns,
    lengths: &[f64],
    workers: &[&Worker],
) -> (Vec<Effect>, Named) {
    let activity = problem.activity;
    let (n, m) = (rows.rows.len(), workers.len());
    let none = || vec![0.0; n + m];
    let mut out = Vec::new();
    // Moments of readings; workers behind the run have none.
    let moments = rows.rows.iter().map(|row| Some(row.to));
    let moments: Vec<Option<f64>> =
        moments.chain(workers.iter().map(|w| w.at.map(|at| activity.seconds(at)))).collect();
    let busy: Vec<f64> =
        (0..n).map(|i| columns.classes.row(i).iter().sum::<f64>().min(1.0)).collect();
    let of_run = |of: &dyn Fn(usize) -> f64| (0..n).map(of).chain(vec![0.0; m]).collect::<Vec<_>>();
    // Between launches, against rests.
    let between = of_run(&|i| -(-busy[i] / ACTIVE).exp_m1());
    // Where levels are known of rests, what was known of these then was known of the rests.
    let resting = |i: usize, state: usize| {
        lengths[i] * columns.states.row(i)[state] * ((-busy[i] / ACTIVE).exp() + SOME_REST)
    };
    let at_rest: Vec<Vec<f64>> = (0..columns.states.columns)
        .map(|state| (0..n).map(|i| resting(i, state)).collect::<Vec<f64>>())
        .collect();
    let effect = |belief: (f64, f64), idle: Vec<f64>, launches: Vec<f64>| {
        let known = at_rest.iter().map(|weights| {
            let all: f64 = weights.iter().sum();
            let sum: f64 = weights.iter().zip(&idle).map(|(weight, amount)| weight * amount).sum();
            if all > 0.0 { sum / all } else { 0.0 }
        });
        Effect { belief, known: known.collect(), idle, launches }
    };
    out.push(effect((0.0, IDLE), between, none()));
    let mut warmth = None;
    if problem.temperature.len() > 1 {
        let degrees = degrees_at(problem.temperature, activity);
        let of_rows = || rows.rows.iter().map(|row| degrees(row.to));
        let mean = of_rows().sum::<f64>() / n as f64;
        let (least, most) =
            of_rows().fold((mean, mean), |(least, most), at| (at.min(least), at.max(most)));
        warmth = Some(([mean, least, most], [out.len(), out.len() + 1]));
        // What was measured behind the run is taken for as warm as the run.
        let warmer = |at: &Option<f64>| at.map_or(mean, &degrees) - REFERENCE_C;
        let warmer: Vec<f64> = moments.iter().map(warmer).collect();
        let [beta, alpha] = DEGREE;
        let of_degree = |before: (f64, f64), at: usize| match &problem.pooled {
            Some((all, _)) => (all.mean[at], AS_POOLED * all.covariance[(at, at)].sqrt()),
            None => before,
        };
        out.push(effect(of_degree(beta, 0), warmer.clone(), none()));
        out.push(effect(of_degree(alpha, 1), none(), warmer));
    }
    let from = out.len();
    if warmth.is_some() {
        let [beta, _] = DEGREE;
        let beta = problem.pooled.map_or(beta.0, |(all, _)| all.mean[0]);
        for hidden in rounded_at_ends(problem.temperature, activity) {
            let hidden = moments.iter().map(|at| at.map_or(0.0, &hidden)).collect();
            out.push(effect((0.0, WHOLE_DEGREES * beta.abs()), hidden, none()));
        }
    }
    let rounded = from..out.len();
    // The first of a run's work.
    let mut begun: Option<f64> = None;
    let mut begins = Vec::with_capacity(n);
    for row in &rows.rows {
        if !row.joined || begun.is_none() {
            let next = activity.segments.partition_point(|s| s.to <= row.from);
            begun = activity.segments.get(next).map(|s| s.from);
        }
        begins.push(begun);
    }
    let onset = of_run(&|i| match begins[i].map(|from| rows.rows[i].to - from) {
        Some(age) if age >= 0.0 => (-age / ONSET.1).exp(),
        _ => 0.0,
    });
    out.push(effect((0.0, ONSET.0), none(), onset));
    let allowed = (n / ROWS_PER_DEGREE).max(usize::from(n >= ROWS_TO_DRIFT));
    let degree = problem.drift.min(4).min(allowed);
    let (start, end) = (rows.rows[0].to, rows.rows[n - 1].to);
    let length = (end - start).max(f64::MIN_POSITIVE);
    let polynomial = |d: usize, at: f64| {
        let u = (2.0 * (at - start) / length - 1.0).clamp(-1.0, 1.0);
        match d {
            1 => u,
            2 => 1.5 * u * u - 0.5,
            3 => (2.5 * u * u - 1.5) * u,
            _ => ((35.0 * u * u - 30.0) * u * u + 3.0) / 8.0,
        }
    };
    // What changes slowly is the temperature's, where it was read, as far as that is known: beside it
    // polynomials would take up what it does.
    let is_read = warmth.is_some();
    let from = out.len();
    for d in 1..=(if is_read { 0 } else { degree }) {
        let of: Vec<f64> =
            moments.iter().map(|at| at.map_or(0.0, |at| polynomial(d, at))).collect();
        out.push(effect((0.0, SLOW), of.clone(), of));
    }
    let slow = from..out.len();
    // Idle power by itself.
    let of_idle = if is_read { READ } else { SLOW_IDLE };
    for d in 1..=degree {
        let of = moments.iter().map(|at| at.map_or(0.0, |at| polynomial(d, at))).collect();
        out.push(effect((0.0, of_idle / d as f64), of, none()));
    }
    (out, Named { warmth, rounded, slow })
}

/// Degrees of a device at a moment, in seconds of the activity. Devices tell whole degrees: when one
/// becomes another, it is between both, and between these its temperature changes evenly; steps would
/// fit nothing that a chip draws.
pub(in crate::energy) fn degrees_at(
    read: &[(HostNs, f64)],
    activity: &Activity,
) -> impl Fn(f64) -> f64 {
    let ends = |at: &(HostNs, f64)| (activity.seconds(at.0), at.1);
    let changes = read.windows(2).filter(|pair| pair[0].1 != pair[1].1).map(|pair| {
        let (before, after) = (ends(&pair[0]), ends(&pair[1]));
        (f64::midpoint(before.0, after.0), f64::midpoint(before.1, after.1))
    });
    let first = read.first().map(ends).into_iter();
    let knots: Vec<(f64, f64)> = first.chain(changes).chain(read.last().map(ends)).collect();
    move |at| interpolated(&knots, at)
}

/// Parts of an error of rounding at the first degrees that were read, and at the last, that hold at a
/// moment: where degrees change they are known.
fn rounded_at_ends(
    read: &[(HostNs, f64)],
    activity: &Activity,
) -> Vec<impl Fn(f64) -> f64 + use<>> {
    let ends = |at: &(HostNs, f64)| activity.seconds(at.0);
    let mut changes = read.windows(2).filter(|pair| pair[0].1 != pair[1].1);
    let middle = |pair: &[(HostNs, f64)]| f64::midpoint(ends(&pair[0]), ends(&pair[1]));
    let first = changes.next().map(middle);
    let last = changes.next_back().map(middle).or(first);
    let part = |end: Option<f64>, known: Option<f64>| {
        let (end, known) = (end.unwrap_or(0.0), known);
        move |at: f64| match known {
            Some(known) => ((known - at) / (known - end)).clamp(0.0, 1.0),
            // They never change.
            None => 1.0,
        }
    };
    let front = part(read.first().map(ends), first);
    let back = part(read.last().map(ends), last);
    std::iter::once(front).chain(last.map(|_| back)).collect()
}

/// A value between knots, in order of time; that of the nearer end outside.
pub(in crate::energy) fn interpolated(knots: &[(f64, f64)], at: f64) -> f64 {
    let behind = knots.partition_point(|knot| knot.0 <= at);
    match (knots[..behind].last(), knots.get(behind)) {
        (Some(a), Some(b)) => a.1 + (b.1 - a.1) * (at - a.0) / (b.0 - a.0),
        (Some(end), None) | (None, Some(end)) => end.1,
        (None, None) => 0.0,
    }
}
