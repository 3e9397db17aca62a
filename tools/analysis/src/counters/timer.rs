//! Owns the times of snapshots that a driver takes on a timer and hands out late. The delay is
//! unknown, may exceed a period, and drifts. It is found from the counters: since the schedule is
//! known, the timer's phase is where the classes explain the windows' means best. Refuses windows
//! that no place on the timer fits.
//!
//! On an H200 the snapshots lie on a grid of 100.000 ms and are seen 6 to 106 ms later, 0.05 ms
//! more each time, until one is skipped. Windows taken at the time they are seen leave residuals of
//! 5 to 15 points; on the grid 0.03 to 0.1.

use nalgebra::{DMatrix, DVector};

use super::{Counter, Idle};
use crate::energy::{Activity, HostNs};

/// Busy time of every class until any moment.
struct Busy {
    /// Per class: moments at which its share changes, busy time until then, share from then on.
    steps: Vec<Vec<(f64, f64, f64)>>,
}

impl Busy {
    fn new(activity: &Activity) -> Self {
        let mut changes: Vec<Vec<(f64, f64)>> = vec![Vec::new(); activity.classes()];
        for segment in &activity.segments {
            let of = &mut changes[segment.class as usize];
            of.push((segment.from, segment.share));
            of.push((segment.to, -segment.share));
        }
        let steps = changes.into_iter().map(|mut changes| {
            changes.sort_by(|a, b| a.0.total_cmp(&b.0));
            let (mut at, mut busy, mut share) = (f64::NEG_INFINITY, 0.0, 0.0);
            let mut steps: Vec<(f64, f64, f64)> = Vec::with_capacity(changes.len());
            for (time, change) in changes {
                if at.is_finite() {
                    busy += share * (time - at);
                }
                (at, share) = (time, share + change);
                match steps.last_mut() {
                    Some(last) if last.0 == time => *last = (time, busy, share),
                    _ => steps.push((time, busy, share)),
                }
            }
            steps
        });
        Self { steps: steps.collect() }
    }

    fn until(&self, class: usize, time: f64) -> f64 {
        let steps = &self.steps[class];
        match steps.partition_point(|s| s.0 <= time).checked_sub(1).and_then(|i| steps.get(i)) {
            Some((at, busy, share)) => busy + share * (time - at),
            None => 0.0,
        }
    }

    /// Mean share of every class between two moments.
    fn shares(&self, from: f64, to: f64, out: &mut [f64]) {
        for (class, slot) in out.iter_mut().enumerate() {
            *slot = (self.until(class, to) - self.until(class, from)) / (to - from);
        }
    }
}

/// A window as it was seen, seconds; `values` are the counters' means, scaled so that each has a
/// variance of one.
struct Seen {
    from: f64,
    to: f64,
    values: Vec<f64>,
}

/// Where snapshots lie.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    /// Windows as seen and as they are.
    pub(crate) moved: Vec<((HostNs, HostNs), (HostNs, HostNs))>,
    /// Mean lag of what is seen, seconds.
    pub(crate) lag: f64,
}

/// The timer's phase over time: seconds at knots, straight lines between.
#[derive(Clone)]
struct Phase {
    start: f64,
    step: f64,
    at: Vec<f64>,
}

impl Phase {
    /// The two knots about a moment, and the weight of the second.
    fn knots(&self, time: f64) -> (usize, usize, f64) {
        let place = ((time - self.start) / self.step).clamp(0.0, (self.at.len() - 1) as f64);
        let first = (place.floor() as usize).min(self.at.len() - 1);
        (first, (first + 1).min(self.at.len() - 1), place - first as f64)
    }

    fn get(&self, time: f64) -> f64 {
        let (a, b, w) = self.knots(time);
        self.at[a] * (1.0 - w) + self.at[b] * w
    }
}

/// Seconds between knots: a host's clocks are steered against each other by some millionths, over
/// minutes.
const KNOT: f64 = 60.0;
/// Most knots, whatever time the windows say they span: what is solved grows with their cube.
const MOST_KNOTS: usize = 256;
/// Least and greatest lag of a snapshot that is seen, beyond whole periods.
const LEAST_LAG: f64 = 0.001;
const MOST_LAG: f64 = 0.015;
/// Step of the first search for the phase.
const COARSE: f64 = 0.002;
/// Windows with which the search begins.
const FIRST: usize = 300;
/// Counters used to find the phase: those that vary most.
const USED: usize = 6;
/// Fewest windows from which a phase can be found.
const LEAST: usize = 20;

struct Search<'a> {
    busy: &'a Busy,
    seen: &'a [Seen],
    period: f64,
    classes: usize,
    counters: usize,
}

impl Search<'_> {
    /// Rates of classes, one column per counter, that fit these windows best.
    fn rates(&self, rows: &[(usize, f64, f64)]) -> Option<DMatrix<f64>> {
        let mut gram =
            DMatrix::<f64>::identity(self.classes, self.classes) * (1e-6 * rows.len() as f64);
        let mut moment = DMatrix::<f64>::zeros(self.classes, self.counters);
        let mut shares = vec![0.0; self.classes];
        for &(i, from, to) in rows {
            self.busy.shares(from, to, &mut shares);
            for (r, share) in shares.iter().enumerate().filter(|(_, s)| **s != 0.0) {
                for (c, other) in shares.iter().enumerate() {
                    gram[(r, c)] += share * other;
                }
                for (c, value) in self.seen[i].values.iter().enumerate() {
                    moment[(r, c)] += share * value;
                }
            }
        }
        Some(gram.cholesky()?.solve(&moment).map(|rate| rate.max(0.0)))
    }

    /// What the rates leave of a window, summed over counters.
    fn error(&self, rates: &DMatrix<f64>, i: usize, from: f64, to: f64, shares: &mut [f64]) -> f64 {
        self.busy.shares(from, to, shares);
        self.seen[i]
            .values
            .iter()
            .enumerate()
            .map(|(c, value)| (value - predicted(rates, shares, c)).powi(2))
            .sum()
    }

    fn total(&self, rates: &DMatrix<f64>, rows: &[(usize, f64, f64)]) -> f64 {
        let mut shares = vec![0.0; self.classes];
        // A window that something else disturbed must not decide.
        rows.iter()
            .map(|&(i, from, to)| {
                self.error(rates, i, from, to, &mut shares).min(self.counters as f64)
            })
            .sum::<f64>()
            / (rows.len().max(1) * self.counters) as f64
    }

    /// The last snapshot that could be seen, under a phase that is the same throughout.
    fn simply(&self, range: std::ops::Range<usize>, phase: f64) -> Vec<(usize, f64, f64)> {
        let snapshot =
            |seen: f64| phase + ((seen - phase - 0.006) / self.period).floor() * self.period;
        range
            .filter_map(|i| {
                let (from, to) = (snapshot(self.seen[i].from), snapshot(self.seen[i].to));
                (to > from).then_some((i, from, to))
            })
            .collect()
    }

    /// The likeliest snapshots of the windows, given rates and phase.
    fn likeliest(
        &self,
        range: std::ops::Range<usize>,
        phase: &Phase,
        rates: &DMatrix<f64>,
    ) -> Vec<(usize, f64, f64)> {
        let mut out = Vec::with_capacity(range.len());
        let mut begin = range.start;
        while begin < range.end {
            let mut end = begin + 1;
            while end < range.end && self.seen[end].from == self.seen[end - 1].to {
                end += 1;
            }
            self.run(begin..end, phase, rates, &mut out);
            begin = end;
        }
        out
    }

    /// Snapshots that may have been seen at a moment: one or two.
    fn candidates(&self, seen: f64, phase: &Phase) -> Vec<f64> {
        let first = phase.get(seen);
        let (low, high) = (
            (seen - self.period - MOST_LAG - first) / self.period,
            (seen - LEAST_LAG - first) / self.period,
        );
        (low.ceil() as i64..=high.floor() as i64).map(|m| first + m as f64 * self.period).collect()
    }

    /// The same over windows that follow each other: dynamic programming over what each edge may
    /// be.
    fn run(
        &self,
        range: std::ops::Range<usize>,
        phase: &Phase,
        rates: &DMatrix<f64>,
        out: &mut Vec<(usize, f64, f64)>,
    ) {
        let mut shares = vec![0.0; self.classes];
        let mut edges: Vec<Vec<(f64, f64, usize)>> = Vec::with_capacity(range.len() + 1);
        edges.push(
            self.candidates(self.seen[range.start].from, phase)
                .into_iter()
                .map(|at| (at, 0.0, 0))
                .collect(),
        );
        for i in range.clone() {
            let before = &edges[edges.len() - 1];
            let mut here = Vec::with_capacity(2);
            for at in self.candidates(self.seen[i].to, phase) {
                let ways = before.iter().enumerate().filter(|(_, b)| at - b.0 > self.period / 2.0);
                let costs =
                    ways.map(|(k, b)| (b.1 + self.error(rates, i, b.0, at, &mut shares), k));
                if let Some((cost, k)) = costs.min_by(|a, b| a.0.total_cmp(&b.0)) {
                    here.push((at, cost, k));
                }
            }
            if here.is_empty() {
                // No place fits: what comes after begins anew.
                break;
            }
            edges.push(here);
        }
        let done = edges.len() - 1;
        let Some(last) = edges.last() else { return };
        let Some((mut k, _)) = last.iter().enumerate().min_by(|a, b| a.1.1.total_cmp(&b.1.1))
        else {
            return;
        };
        let mut rows = Vec::with_capacity(done);
        for n in (0..done).rev() {
            let (to, _, back) = edges[n + 1][k];
            rows.push((range.start + n, edges[n][back].0, to));
            k = back;
        }
        out.extend(rows.into_iter().rev());
        if done + 1 < range.len() {
            self.run(range.start + done + 1..range.end, phase, rates, out);
        }
    }

    /// Moves the phase's knots to where the windows are explained better: one step of Gauss and
    /// Newton.
    fn shift(&self, rows: &[(usize, f64, f64)], rates: &DMatrix<f64>, phase: &mut Phase) {
        const STEP: f64 = 0.0005;
        let n = phase.at.len();
        let mut normal = DMatrix::<f64>::zeros(n, n);
        let mut moment = DVector::<f64>::zeros(n);
        let (mut before, mut here, mut after) =
            (vec![0.0; self.classes], vec![0.0; self.classes], vec![0.0; self.classes]);
        for &(i, from, to) in rows {
            self.busy.shares(from - STEP, to - STEP, &mut before);
            self.busy.shares(from, to, &mut here);
            self.busy.shares(from + STEP, to + STEP, &mut after);
            let (a, b, w) = phase.knots(to);
            for (c, value) in self.seen[i].values.iter().enumerate() {
                let slope =
                    (predicted(rates, &after, c) - predicted(rates, &before, c)) / (2.0 * STEP);
                let left = (value - predicted(rates, &here, c)).clamp(-0.5, 0.5);
                for (r, x) in [(a, 1.0 - w), (b, w)] {
                    moment[r] += x * slope * left;
                    for (s, y) in [(a, 1.0 - w), (b, w)] {
                        normal[(r, s)] += x * y * slope * slope;
                    }
                }
            }
        }
        // Neighbouring knots are alike: a knot about which nothing varies takes what the others
        // say.
        let stiff = 1e-2 * normal.diagonal().max().max(1e-9);
        for k in 1..n {
            let (a, b) = (k - 1, k);
            normal[(a, a)] += stiff;
            normal[(b, b)] += stiff;
            normal[(a, b)] -= stiff;
            normal[(b, a)] -= stiff;
        }
        for k in 0..n {
            normal[(k, k)] += 1e-9 * stiff;
        }
        if let Some(step) = normal.cholesky().map(|c| c.solve(&moment)) {
            phase.at.iter_mut().zip(step.iter()).for_each(|(at, s)| *at += s.clamp(-0.004, 0.004));
        }
    }
}

fn predicted(rates: &DMatrix<f64>, shares: &[f64], counter: usize) -> f64 {
    shares.iter().enumerate().map(|(k, share)| share * rates[(k, counter)]).sum()
}

/// The windows of those counters that vary most and are 0 at rest, scaled.
fn seen(
    activity: &Activity,
    counters: &[Counter<'_>],
) -> (Vec<Seen>, Vec<(HostNs, HostNs)>, usize) {
    let mut varying: Vec<(&Counter<'_>, f64)> = counters
        .iter()
        .filter(|c| c.idle == Idle::Zero)
        .map(|c| (c, super::variance(c.windows)))
        .filter(|(c, v)| {
            v.sqrt() > 0.1 * c.windows.iter().map(|w| w.2.abs()).fold(0.0, f64::max).max(1.0)
        })
        .collect();
    let most = varying.iter().map(|(c, _)| c.windows.len()).max().unwrap_or(0);
    varying.retain(|(c, _)| c.windows.len() == most);
    let relative =
        |c: &Counter<'_>, v: f64| v / c.windows.iter().map(|w| w.2).fold(1e-9, f64::max).powi(2);
    varying.sort_by(|a, b| relative(b.0, b.1).total_cmp(&relative(a.0, a.1)));
    varying.truncate(USED);
    let Some((first, _)) = varying.first() else { return (Vec::new(), Vec::new(), 0) };
    let rows = first.windows.iter().enumerate().map(|(i, w)| Seen {
        from: activity.seconds(w.0),
        to: activity.seconds(w.1),
        values: varying
            .iter()
            .map(|(c, v)| c.windows.get(i).map_or(0.0, |w| w.2) / v.sqrt())
            .collect(),
    });
    (rows.collect(), first.windows.iter().map(|w| (w.0, w.1)).collect(), varying.len())
}

/// Finds the places of snapshots taken every `period` seconds; `None` where nothing varies enough
/// to tell, or where taking the windows for what they seem, somewhat later, does as well.
pub(crate) fn place(activity: &Activity, counters: &[Counter<'_>], period: f64) -> Option<Placed> {
    let (rows, stamps, used) = seen(activity, counters);
    if rows.len() < LEAST || used == 0 {
        return None;
    }
    let busy = Busy::new(activity);
    let search =
        Search { busy: &busy, seen: &rows, period, classes: activity.classes(), counters: used };
    // Begin where most changes.
    let length = rows.len().min(FIRST);
    let change = |i: usize| -> f64 {
        rows[i].values.iter().zip(&rows[i - 1].values).map(|(a, b)| (a - b).abs()).sum()
    };
    let mut sums = vec![0.0; rows.len()];
    (1..rows.len()).for_each(|i| sums[i] = sums[i - 1] + change(i));
    let start = (0..=rows.len() - length).max_by(|a, b| {
        (sums[a + length - 1] - sums[*a]).total_cmp(&(sums[b + length - 1] - sums[*b]))
    })?;
    let first = start..start + length;
    let mut best: Option<(f64, f64, DMatrix<f64>)> = None;
    for k in 0..(period / COARSE).ceil() as usize {
        let phase = rows[start].to - k as f64 * COARSE;
        let placed = search.simply(first.clone(), phase);
        let Some(rates) = search.rates(&placed) else { continue };
        let total = search.total(&rates, &placed);
        if best.as_ref().is_none_or(|b| total < b.0) {
            best = Some((total, phase, rates));
        }
    }
    let (_, at, mut rates) = best?;
    let (from, to) = (rows[0].from, rows[rows.len() - 1].to);
    let knots = (((to - from) / KNOT).ceil() as usize).clamp(1, MOST_KNOTS - 1) + 1;
    let mut phase =
        Phase { start: from, step: (to - from) / (knots - 1) as f64, at: vec![at; knots] };
    for round in 0..12 {
        let range = if round < 4 { first.clone() } else { 0..rows.len() };
        let placed = search.likeliest(range, &phase, &rates);
        rates = search.rates(&placed)?;
        search.shift(&placed, &rates, &mut phase);
    }
    let mut placed = search.likeliest(0..rows.len(), &phase, &rates);
    let on_timer = search.total(&rates, &placed);
    // The rival: windows as they seem, all equally late.
    let late = (0..=60).filter_map(|k| {
        let delay = 0.002 * f64::from(k);
        let shifted: Vec<(usize, f64, f64)> =
            rows.iter().enumerate().map(|(i, r)| (i, r.from - delay, r.to - delay)).collect();
        let rates = search.rates(&shifted)?;
        Some(search.total(&rates, &shifted))
    });
    if placed.len() * 2 < rows.len() || late.fold(f64::INFINITY, f64::min) < 1.25 * on_timer {
        return None;
    }
    // A window that no class explains on the timer is dropped: a snapshot was lost, or something
    // else ran.
    let mut shares = vec![0.0; search.classes];
    let limit = (25.0 * on_timer * used as f64).max(1e-4);
    placed.retain(|&(i, from, to)| search.error(&rates, i, from, to, &mut shares) <= limit);
    let lag =
        placed.iter().map(|&(i, _, to)| rows[i].to - to).sum::<f64>() / placed.len().max(1) as f64;
    let stamp = |seconds: f64| HostNs(activity.origin.0 + (seconds * 1e9).round() as i64);
    let moved = placed.iter().map(|&(i, from, to)| (stamps[i], (stamp(from), stamp(to)))).collect();
    Some(Placed { moved, lag })
}
