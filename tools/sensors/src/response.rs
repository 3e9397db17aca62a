//! What a sensor really does: how often it updates, in what quanta, how late it is, and whether it
//! averages over a window or lags as a first-order system. Pure functions of readings; refuses to
//! say anything that the readings do not carry (too few updates, polled too slowly, no step in the
//! load).
#![forbid(unsafe_code)]

use crate::units::RawNs;
use thiserror::Error;

/// Why no estimate can be given.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
#[non_exhaustive]
#[allow(missing_docs)] // fields are named in the messages
pub enum NoEstimate {
    /// Fewer changes or samples than an estimate needs.
    #[error("only {have} usable observations, {need} are needed")]
    TooFew { have: usize, need: usize },
    /// Nearly every poll saw a change: the source may update at any rate above the polling rate.
    #[error("polled too slowly: it updates at least every {at_most_ns} ns")]
    Undersampled { at_most_ns: u64 },
    /// The load never changed while it was watched, or the sensor did not follow.
    #[error(
        "the sensor did not follow the load: the step explains {explained_percent:.0} % of its variation"
    )]
    NoStep { explained_percent: f64 },
}

/// How often a source updates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Updates {
    /// Mean time between updates, nanoseconds.
    pub period_ns: f64,
    /// Standard error of the period, nanoseconds.
    pub period_error_ns: f64,
    /// Standard deviation of single intervals round the period, nanoseconds; includes what polling
    /// adds (at most [`Updates::poll_ns`]).
    pub jitter_ns: f64,
    /// Median time between two polls, nanoseconds: the grain of the whole estimate.
    pub poll_ns: u64,
    /// The smallest step between two values: the quantum, or a multiple of it.
    pub smallest_step: f64,
    /// Changes used.
    pub changes: usize,
}

/// Changes below which no period is given.
pub const MIN_CHANGES: usize = 8;

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Finds the update period from polls in time order: (when, value).
///
/// An update that leaves the value as it was is not seen; intervals are therefore taken as whole
/// multiples of the period.
///
/// # Errors
/// [`NoEstimate::TooFew`], [`NoEstimate::Undersampled`].
pub fn updates(polls: &[(RawNs, f64)]) -> Result<Updates, NoEstimate> {
    let mut changes: Vec<f64> = Vec::new();
    let mut gaps: Vec<f64> = Vec::new();
    let mut smallest_step = f64::INFINITY;
    for pair in polls.windows(2) {
        let [(t0, v0), (t1, v1)] = pair else { continue };
        gaps.push(t1.since(*t0) as f64);
        if v0 != v1 {
            changes.push((t0.0 as f64 + t1.0 as f64) / 2.0);
            smallest_step = smallest_step.min((v1 - v0).abs());
        }
    }
    if changes.len() < MIN_CHANGES {
        return Err(NoEstimate::TooFew { have: changes.len(), need: MIN_CHANGES });
    }
    let poll_ns = median(&mut gaps);
    // Two updates between two polls show as one change: from a change in two thirds of the polls
    // on, the count of changes follows the polls, not the source.
    if changes.len() * 3 > gaps.len() * 2 {
        return Err(NoEstimate::Undersampled { at_most_ns: poll_ns as u64 });
    }
    let intervals: Vec<f64> = changes.windows(2).map(|w| w[1] - w[0]).collect();
    // A low quantile, since unseen updates only lengthen intervals; the passes then mend what
    // jitter did to it.
    let mut sorted = intervals.clone();
    sorted.sort_by(f64::total_cmp);
    let mut period_ns = sorted.get(sorted.len() / 5).copied().unwrap_or(poll_ns).max(poll_ns);
    let mut multiples = Vec::new();
    for _ in 0..4 {
        multiples =
            intervals.iter().map(|d| (d / period_ns).round().max(1.0)).collect::<Vec<f64>>();
        period_ns = intervals.iter().sum::<f64>() / multiples.iter().sum::<f64>();
    }
    let n = intervals.len() as f64;
    let spread =
        intervals.iter().zip(&multiples).map(|(d, k)| (d - k * period_ns).powi(2)).sum::<f64>();
    let jitter_ns = (spread / (n - 1.0)).sqrt();
    // The sum telescopes: only the two ends' errors are left in the mean, each at most half a poll.
    let period_error_ns =
        jitter_ns.max(poll_ns / 12f64.sqrt()) * 2f64.sqrt() / multiples.iter().sum::<f64>();
    Ok(Updates {
        period_ns,
        period_error_ns,
        jitter_ns,
        poll_ns: poll_ns as u64,
        smallest_step,
        changes: changes.len(),
    })
}

/// The same of readings that the source stamps itself, each once, in time order: single gaps may be
/// longer.
///
/// # Errors
/// [`NoEstimate::TooFew`].
pub fn stamped(readings: &[(RawNs, f64)]) -> Result<Updates, NoEstimate> {
    let mut gaps: Vec<f64> =
        readings.windows(2).map(|w| w[1].0.since(w[0].0) as f64).filter(|gap| *gap > 0.0).collect();
    if gaps.len() < MIN_CHANGES {
        return Err(NoEstimate::TooFew { have: gaps.len(), need: MIN_CHANGES });
    }
    let middle = median(&mut gaps);
    let (mut sum, mut squares, mut count, mut periods) = (0.0, 0.0, 0.0, 0.0);
    for gap in &gaps {
        let multiple = (gap / middle).round().max(1.0);
        sum += gap;
        periods += multiple;
        squares += (gap - multiple * middle).powi(2);
        count += 1.0;
    }
    let jitter_ns = (squares / count).sqrt();
    let smallest_step = readings
        .windows(2)
        .map(|w| (w[1].1 - w[0].1).abs())
        .filter(|step| *step > 0.0)
        .fold(f64::INFINITY, f64::min);
    Ok(Updates {
        period_ns: sum / periods,
        period_error_ns: jitter_ns * 2f64.sqrt() / periods,
        jitter_ns,
        poll_ns: 0,
        smallest_step,
        changes: gaps.len(),
    })
}

/// The load from `at` on, in any unit (0 and 1 do).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drive {
    /// Since when.
    pub at: RawNs,
    /// How much.
    pub level: f64,
}

/// The shape of a sensor's answer to a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// y' = (u - y) / tau.
    FirstOrder {
        /// Time constant, nanoseconds.
        tau_ns: f64,
    },
    /// The mean of the load over a window that ends at the reading.
    Boxcar {
        /// Width, nanoseconds.
        window_ns: f64,
    },
}

impl Shape {
    /// The time constant or the window's width, nanoseconds.
    pub fn width_ns(self) -> f64 {
        match self {
            Shape::FirstOrder { tau_ns } => tau_ns,
            Shape::Boxcar { window_ns } => window_ns,
        }
    }

    fn with_width(self, ns: f64) -> Shape {
        match self {
            Shape::FirstOrder { .. } => Shape::FirstOrder { tau_ns: ns },
            Shape::Boxcar { .. } => Shape::Boxcar { window_ns: ns },
        }
    }
}

/// A fitted response.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Response {
    /// The better of the two shapes.
    pub shape: Shape,
    /// Standard error of the shape's width, nanoseconds; residuals taken as independent.
    pub width_error_ns: f64,
    /// Pure delay before the answer begins, nanoseconds.
    pub delay_ns: f64,
    /// Standard error of the delay, nanoseconds.
    pub delay_error_ns: f64,
    /// Reading at level 0.
    pub offset: f64,
    /// Change of the reading per unit of level.
    pub gain: f64,
    /// Root mean square of what the fit leaves, in the reading's unit.
    pub residual: f64,
    /// The same for the best fit of the other shape. Where the two are close, the data do not tell
    /// the shapes apart.
    pub other_residual: f64,
}

impl Response {
    /// Whether the data prefer this shape clearly: the other leaves at least a tenth more.
    pub fn is_shape_clear(&self) -> bool {
        self.other_residual > 1.1 * self.residual
    }
}

/// Where to look for a response, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Search {
    /// Longest delay.
    pub max_delay_ns: f64,
    /// Shortest time constant or window; below it the sensor counts as immediate.
    pub min_width_ns: f64,
    /// Longest time constant or window.
    pub max_width_ns: f64,
}

impl Default for Search {
    /// Wide enough for the 1 s averages and 100 ms steps seen in practice.
    fn default() -> Search {
        Search { max_delay_ns: 300e6, min_width_ns: 0.1e6, max_width_ns: 3e9 }
    }
}

/// The answer of a sensor of this shape, with gain 1 and no delay, to `drive` at the times `at`
/// (ns, rising). Before the first entry of `drive` the load is taken to have had its level for
/// ever.
fn answer(shape: Shape, delay_ns: f64, drive: &[(f64, f64)], at: &[f64]) -> Vec<f64> {
    let Some(&(_, first)) = drive.first() else { return vec![0.0; at.len()] };
    match shape {
        Shape::FirstOrder { tau_ns } => {
            let (mut state, mut since, mut level) = (first, f64::NEG_INFINITY, first);
            let mut next = 0;
            at.iter()
                .map(|t| {
                    let t = t - delay_ns;
                    while let Some(&(edge, new)) = drive.get(next).filter(|(edge, _)| *edge <= t) {
                        state = level + (state - level) * (-(edge - since) / tau_ns).exp();
                        (since, level) = (edge, new);
                        next += 1;
                    }
                    level + (state - level) * (-(t - since) / tau_ns).exp()
                })
                .collect()
        }
        Shape::Boxcar { window_ns } => {
            // Integral of the load up to t, measured from the first edge.
            let mut sums = vec![0.0];
            for pair in drive.windows(2) {
                let last = sums.last().copied().unwrap_or(0.0);
                sums.push(last + pair[0].1 * (pair[1].0 - pair[0].0));
            }
            let integral = |t: f64| {
                let i = drive.partition_point(|(edge, _)| *edge <= t).saturating_sub(1);
                let (edge, level) = drive[i];
                sums[i] + level * (t - edge)
            };
            at.iter()
                .map(|t| {
                    let end = t - delay_ns;
                    (integral(end) - integral(end - window_ns)) / window_ns
                })
                .collect()
        }
    }
}

/// A straight-line fit y = offset + gain * x: (offset, gain, sum of squares left).
fn line(x: &[f64], y: &[f64]) -> (f64, f64, f64) {
    let n = y.len() as f64;
    let (mx, my) = (x.iter().sum::<f64>() / n, y.iter().sum::<f64>() / n);
    let sxx: f64 = x.iter().map(|v| (v - mx).powi(2)).sum();
    let sxy: f64 = x.iter().zip(y).map(|(a, b)| (a - mx) * (b - my)).sum();
    let gain = if sxx > 0.0 { sxy / sxx } else { 0.0 };
    let offset = my - gain * mx;
    let left = x.iter().zip(y).map(|(a, b)| (b - offset - gain * a).powi(2)).sum();
    (offset, gain, left)
}

/// Best (delay, width) for a shape: a grid, then a shrinking pattern search round its best point.
fn best(
    shape: Shape,
    search: &Search,
    drive: &[(f64, f64)],
    at: &[f64],
    y: &[f64],
) -> (f64, f64, f64) {
    let cost = |delay: f64, log_width: f64| {
        line(&answer(shape.with_width(log_width.exp()), delay, drive, at), y).2
    };
    let (low, high) = (search.min_width_ns.ln(), search.max_width_ns.ln());
    const GRID: usize = 32;
    let mut found = (0.0, low, f64::INFINITY);
    for i in 0..=GRID {
        // Squared: short delays are more likely and need the finer grid.
        let delay = search.max_delay_ns * (i as f64 / GRID as f64).powi(2);
        for j in 0..=GRID {
            let width = low + (high - low) * j as f64 / GRID as f64;
            let c = cost(delay, width);
            if c < found.2 {
                found = (delay, width, c);
            }
        }
    }
    let (mut step_delay, mut step_width) = (search.max_delay_ns / 16.0, (high - low) / GRID as f64);
    for _ in 0..400 {
        let (delay, width, cost_now) = found;
        let moves = [(1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0), (1.0, -1.0), (-1.0, 1.0)];
        for (a, b) in moves {
            let d = (delay + a * step_delay).clamp(0.0, search.max_delay_ns);
            let w = (width + b * step_width).clamp(low, high);
            let c = cost(d, w);
            if c < found.2 {
                found = (d, w, c);
            }
        }
        if found.2 >= cost_now {
            step_delay *= 0.5;
            step_width *= 0.5;
            if step_delay < 1.0 && step_width < 1e-6 {
                break;
            }
        }
    }
    (found.0, found.1.exp(), found.2)
}

/// Solves the symmetric 4x4 system for the diagonal of its inverse; `None` where it is singular.
fn inverse_diagonal(m: [[f64; 4]; 4]) -> Option<[f64; 4]> {
    let mut a = [[0.0; 8]; 4];
    for (i, row) in m.iter().enumerate() {
        a[i][..4].copy_from_slice(row);
        a[i][4 + i] = 1.0;
    }
    for col in 0..4 {
        let pivot = (col..4).max_by(|x, y| a[*x][col].abs().total_cmp(&a[*y][col].abs()))?;
        a.swap(col, pivot);
        let p = a[col][col];
        if p.abs() < 1e-300 || !p.is_finite() {
            return None;
        }
        let pivot_row = a[col].map(|v| v / p);
        a[col] = pivot_row;
        for (_, row) in a.iter_mut().enumerate().filter(|(i, _)| *i != col) {
            let f = row[col];
            for (v, p) in row.iter_mut().zip(&pivot_row) {
                *v -= f * p;
            }
        }
    }
    Some([a[0][4], a[1][5], a[2][6], a[3][7]])
}

/// Samples below which no response is fitted.
pub const MIN_SAMPLES: usize = 20;

/// Fits both shapes to `samples` (time order) taken while the load did as `drive` says (time
/// order), and returns the better.
///
/// # Errors
/// [`NoEstimate::TooFew`] below [`MIN_SAMPLES`] samples or two levels; [`NoEstimate::NoStep`] where
/// even the better fit explains less than half of the variance.
pub fn fit(
    samples: &[(RawNs, f64)],
    drive: &[Drive],
    search: &Search,
) -> Result<Response, NoEstimate> {
    let Some(first) = samples.first().filter(|_| samples.len() >= MIN_SAMPLES) else {
        return Err(NoEstimate::TooFew { have: samples.len(), need: MIN_SAMPLES });
    };
    if drive.len() < 2 {
        return Err(NoEstimate::TooFew { have: drive.len(), need: 2 });
    }
    // Differences in integers first: raw nanoseconds lose digits as f64.
    let relative = |t: RawNs| t.0 as i128 - first.0.0 as i128;
    let at: Vec<f64> = samples.iter().map(|(t, _)| relative(*t) as f64).collect();
    let y: Vec<f64> = samples.iter().map(|(_, v)| *v).collect();
    let drive: Vec<(f64, f64)> = drive.iter().map(|d| (relative(d.at) as f64, d.level)).collect();
    let shapes = [Shape::FirstOrder { tau_ns: 0.0 }, Shape::Boxcar { window_ns: 0.0 }];
    let fits = shapes.map(|shape| (shape, best(shape, search, &drive, &at, &y)));
    let [(shape, (delay_ns, width, left)), (_, (_, _, other_left))] =
        if fits[0].1.2 <= fits[1].1.2 { fits } else { [fits[1], fits[0]] };
    let shape = shape.with_width(width);
    let n = y.len() as f64;
    let mean = y.iter().sum::<f64>() / n;
    let variance: f64 = y.iter().map(|v| (v - mean).powi(2)).sum();
    let explained = if variance > 0.0 { 1.0 - left / variance } else { 0.0 };
    if explained < 0.5 {
        return Err(NoEstimate::NoStep { explained_percent: 100.0 * explained });
    }
    let x = answer(shape, delay_ns, &drive, &at);
    let (offset, gain, _) = line(&x, &y);
    // Gauss-Newton covariance of (offset, gain, delay, width).
    let difference = |d: f64, w: f64, h: f64| -> Vec<f64> {
        let up = answer(shape.with_width(width + w), delay_ns + d, &drive, &at);
        let down = answer(shape.with_width(width - w), delay_ns - d, &drive, &at);
        up.iter().zip(&down).map(|(a, b)| gain * (a - b) / (2.0 * h)).collect()
    };
    let h = width * 1e-3;
    let (by_delay, by_width) = (difference(h, 0.0, h), difference(0.0, h, h));
    let mut normal = [[0.0; 4]; 4];
    for i in 0..y.len() {
        let row = [1.0, x[i], by_delay[i], by_width[i]];
        for (a, ra) in row.iter().enumerate() {
            for (b, rb) in row.iter().enumerate() {
                normal[a][b] += ra * rb;
            }
        }
    }
    let noise = left / (n - 4.0);
    let errors = inverse_diagonal(normal).map(|d| d.map(|v| (v.abs() * noise).sqrt()));
    // A direction the data say nothing about has no finite error.
    let [_, _, delay_error_ns, width_error_ns] = errors.unwrap_or([f64::INFINITY; 4]);
    Ok(Response {
        shape,
        width_error_ns,
        delay_ns,
        delay_error_ns,
        offset,
        gain,
        residual: (left / n).sqrt(),
        other_residual: (other_left / n).sqrt(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clscope_testing::Random;

    const MS: u64 = 1_000_000;

    #[test]
    fn update_periods_are_found() {
        // (update period, poll period, jitter of the updates) in microseconds
        for (update, poll, jitter) in
            [(1000u64, 250u64, 0u64), (20_000, 1_000, 500), (100_000, 4_000, 3_000)]
        {
            let mut noise = Random::new(7 + update);
            let mut edges = vec![0u64];
            for k in 1..300u64 {
                let wobble = ((noise.uniform() - 0.5) * 2.0 * jitter as f64) as i64;
                edges.push(((k * update) as i64 + wobble) as u64 * 1000);
            }
            let polls: Vec<(RawNs, f64)> = (0..200 * update / poll)
                .map(|i| i * poll * 1000 + 12_345)
                .map(|t| (RawNs(t), 5.0 * edges.partition_point(|e| *e <= t) as f64))
                .collect();
            let got = updates(&polls).unwrap();
            let want = update as f64 * 1000.0;
            let error = (got.period_ns - want).abs();
            assert!(error < 0.005 * want, "{got:?}");
            assert!(error <= 4.0 * got.period_error_ns, "{got:?}");
            assert!(got.jitter_ns <= (2 * jitter + poll) as f64 * 1000.0, "{got:?}");
            assert_eq!(got.smallest_step, 5.0);
        }
    }

    #[test]
    fn unseen_updates_do_not_stretch_the_period() {
        // Every third update repeats the value before.
        let polls: Vec<(RawNs, f64)> = (0..4000u64)
            .map(|i| (RawNs(i * MS), i / 20))
            .map(|(t, k)| (t, if k % 3 == 2 { k - 1 } else { k } as f64))
            .collect();
        let got = updates(&polls).unwrap();
        assert!((got.period_ns - 20e6).abs() < 0.2e6, "{got:?}");
    }

    #[test]
    fn slow_polls_give_a_bound_only() {
        let polls: Vec<(RawNs, f64)> = (0..100u64).map(|i| (RawNs(i * 5 * MS), i as f64)).collect();
        assert_eq!(updates(&polls), Err(NoEstimate::Undersampled { at_most_ns: 5 * MS }));
        let still: Vec<(RawNs, f64)> = (0..100u64).map(|i| (RawNs(i * MS), 3.0)).collect();
        assert_eq!(updates(&still), Err(NoEstimate::TooFew { have: 0, need: MIN_CHANGES }));
        assert!(updates(&[]).is_err());
    }

    fn square_wave(periods: u64, half_ms: u64) -> Vec<Drive> {
        (0..2 * periods)
            .map(|i| Drive { at: RawNs((1000 + i * half_ms) * MS), level: (i % 2) as f64 })
            .collect()
    }

    fn samples(
        shape: Shape,
        delay_ns: f64,
        drive: &[Drive],
        every_ms: u64,
        sigma: f64,
    ) -> Vec<(RawNs, f64)> {
        let edges: Vec<(f64, f64)> = drive.iter().map(|d| (d.at.0 as f64, d.level)).collect();
        let times: Vec<u64> =
            (0..6000 / every_ms).map(|i| (900 + i * every_ms) * MS + 123_456).collect();
        let at: Vec<f64> = times.iter().map(|t| *t as f64).collect();
        let mut noise = Random::new(99);
        answer(shape, delay_ns, &edges, &at)
            .into_iter()
            .zip(times)
            .map(|(v, t)| (RawNs(t), 119.0 + 121.0 * v + sigma * 3.46 * (noise.uniform() - 0.5)))
            .collect()
    }

    #[test]
    fn responses_are_found() {
        // The half period is no multiple of the sampling: phases differ from edge to edge.
        let drive = square_wave(14, 183);
        let table = [
            (Shape::FirstOrder { tau_ns: 14e6 }, 3e6, 20),
            (Shape::Boxcar { window_ns: 50e6 }, 10e6, 20),
            (Shape::Boxcar { window_ns: 100e6 }, 0.0, 20),
            (Shape::FirstOrder { tau_ns: 40e6 }, 16e6, 10),
        ];
        for (shape, delay, every) in table {
            let data = samples(shape, delay, &drive, every, 0.8);
            let got = fit(&data, &drive, &Search::default()).unwrap();
            let name = format!("{shape:?} {delay}: {got:?}");
            assert_eq!(
                std::mem::discriminant(&got.shape),
                std::mem::discriminant(&shape),
                "{name}"
            );
            assert!(got.is_shape_clear(), "{name}");
            let width_off = (got.shape.width_ns() - shape.width_ns()).abs();
            assert!(
                width_off < 0.03 * shape.width_ns() && width_off < 4.0 * got.width_error_ns + 1e4,
                "{name}"
            );
            assert!((got.delay_ns - delay).abs() < 0.6e6, "{name}");
            assert!((got.gain - 121.0).abs() < 1.5 && (got.offset - 119.0).abs() < 1.5, "{name}");
            assert!((got.residual - 0.8).abs() < 0.15, "{name}");
        }
    }

    #[test]
    fn a_sensor_that_does_not_follow_is_said() {
        let drive = square_wave(10, 200);
        let mut noise = Random::new(3);
        let data: Vec<(RawNs, f64)> = (0..300u64)
            .map(|i| (RawNs((1000 + i * 20) * MS), 77.0 + (noise.uniform() - 0.5)))
            .collect();
        assert!(matches!(fit(&data, &drive, &Search::default()), Err(NoEstimate::NoStep { .. })));
        let few = |samples: &[_], drive: &[_]| fit(samples, drive, &Search::default());
        for count in [0, 5] {
            let missing = NoEstimate::TooFew { have: count, need: MIN_SAMPLES };
            assert_eq!(few(&data[..count], &drive), Err(missing));
        }
        assert_eq!(few(&data, &drive[..1]), Err(NoEstimate::TooFew { have: 1, need: 2 }));
    }

    #[test]
    fn a_constant_load_is_answered_by_itself() {
        for shape in [Shape::FirstOrder { tau_ns: 5e6 }, Shape::Boxcar { window_ns: 5e6 }] {
            let got = answer(shape, 1e6, &[(0.0, 2.0), (10e6, 2.0)], &[-5e6, 0.0, 5e6, 30e6]);
            assert!(got.iter().all(|v| (v - 2.0).abs() < 1e-12), "{shape:?} {got:?}");
        }
    }
}
