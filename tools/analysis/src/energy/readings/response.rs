//! Owns what a sensor makes of activity: the mean of each class's busy share over each row's
//! window, seen through a moving average, a first-order lag and a delay. Exact for piecewise
//! constant activity, in time linear in segments plus rows times classes. Refuses to choose the
//! parameters; that is `search`.

use crate::energy::activity::Segment;
use crate::energy::readings::sensor::Row;

/// A sensor's response, in seconds. All zero is an ideal sensor.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Response {
    /// Length of the moving average over which an instantaneous reading was taken.
    pub window: f64,
    /// Time constant of the first-order lag.
    pub lag: f64,
    /// Time by which a reading is late. Negative when stamps run ahead.
    pub delay: f64,
}

/// Seconds busy per second of window: rows by columns, row-major.
#[derive(Clone, Debug, Default)]
pub(crate) struct Design {
    pub columns: usize,
    pub share: Vec<f64>,
    /// Variance of each share where spans are uncertain; empty otherwise.
    pub variance: Vec<f64>,
}

impl Design {
    pub(crate) fn row(&self, i: usize) -> &[f64] {
        &self.share[i * self.columns..(i + 1) * self.columns]
    }

    pub(crate) fn variance_row(&self, i: usize) -> Option<&[f64]> {
        self.variance.get(i * self.columns..(i + 1) * self.columns)
    }

    /// Whether the uncertainty of busy time is more than a hundredth of any column's signal.
    /// Launches placed by their neighbours average out over a row; the few that sampling saw do
    /// not.
    pub(crate) fn noisy(&self) -> bool {
        let of = |values: &[f64], column: usize| -> Vec<f64> {
            values.iter().skip(column).step_by(self.columns).copied().collect()
        };
        (0..self.columns).any(|column| {
            let shares = of(&self.share, column);
            let mean = shares.iter().sum::<f64>() / shares.len().max(1) as f64;
            let signal: f64 = shares.iter().map(|s| (s - mean).powi(2)).sum();
            of(&self.variance, column).iter().sum::<f64>() > 0.01 * signal
        })
    }
}

/// The window of a row as the device lived it.
fn window(row: &Row, response: &Response) -> (f64, f64) {
    let from = if row.from == row.to { row.from - response.window } else { row.from };
    (from - response.delay, row.to - response.delay)
}

/// Times at which cumulative busy time is wanted, ascending, and for each row where its two are.
fn queries(rows: &[Row], response: &Response) -> (Vec<f64>, Vec<(usize, usize)>) {
    let mut times: Vec<f64> = Vec::with_capacity(rows.len() + 1);
    for row in rows {
        let (from, to) = window(row, response);
        times.push(from);
        times.push(to);
    }
    times.sort_by(f64::total_cmp);
    times.dedup();
    let place = |t: f64| times.partition_point(|&other| other < t);
    let places = rows
        .iter()
        .map(|row| {
            let (from, to) = window(row, response);
            (place(from), place(to))
        })
        .collect();
    (times, places)
}

/// One class on its way through time. `lagged` is the first-order response to its share; the
/// integral of the lagged share is `busy - lag * lagged`, exactly, so that one state serves
/// instants and windows.
#[derive(Clone, Copy, Default)]
struct Lane {
    busy: f64,
    lagged: f64,
    /// Moment up to which `lagged` was advanced.
    now: f64,
    /// Variance of the instantaneous response, and of busy time so far.
    lagged_spread: f64,
    busy_spread: f64,
}

impl Lane {
    /// Adds a constant share over `[a, b]`.
    fn add(&mut self, a: f64, b: f64, share: f64, spread: f64, lag: f64) {
        self.busy += share * (b - a);
        let mut peak = 0.0;
        if lag > 0.0 {
            if b >= self.now {
                let rise = (-(b - a) / lag).exp_m1();
                peak = -share * rise;
                // Back to back, the usual case, one exponential serves both.
                let decay = if a == self.now { 1.0 + rise } else { (-(b - self.now) / lag).exp() };
                self.lagged *= decay;
                self.lagged_spread *= decay * decay;
                self.now = b;
            } else {
                // Another device ran ahead in the same class.
                peak = -share * (-(b - a) / lag).exp_m1() * (-(self.now - b) / lag).exp();
            }
            self.lagged += peak;
        }
        if spread > 0.0 {
            self.lagged_spread += spread * peak * peak;
            self.busy_spread += spread * (share * (b - a)).powi(2);
        }
    }

    fn advance(&mut self, to: f64, lag: f64) {
        if lag > 0.0 && to > self.now {
            let decay = (-(to - self.now) / lag).exp();
            self.lagged *= decay;
            self.lagged_spread *= decay * decay;
        }
        self.now = self.now.max(to);
    }
}

/// State of all lanes at one query.
#[derive(Default)]
struct Snapshots {
    columns: usize,
    /// Per query and column: integral of the lagged share, then the instantaneous lagged share.
    integral: Vec<f64>,
    instant: Vec<f64>,
    integral_spread: Vec<f64>,
    instant_spread: Vec<f64>,
}

/// Builds the design for `segments` (sorted by start) exactly.
pub(crate) fn exact(
    segments: &[Segment],
    columns: usize,
    rows: &[Row],
    response: &Response,
    uncertain: bool,
) -> Design {
    let (times, places) = queries(rows, response);
    let lag = response.lag.max(0.0);
    let start = segments.first().map_or(0.0, |s| s.from).min(times.first().copied().unwrap_or(0.0));
    let mut lanes = vec![Lane { now: start, ..Lane::default() }; columns];
    let mut shots = Snapshots::new(columns, times.len());
    let mut running: Vec<Segment> = Vec::new();
    let mut live = vec![0.0; columns];
    let mut next = 0;
    for &time in &times {
        running.retain_mut(|segment| step(segment, time, &mut lanes, lag));
        while let Some(segment) = segments.get(next).filter(|s| s.from < time) {
            let mut segment = *segment;
            if step(&mut segment, time, &mut lanes, lag) {
                running.push(segment);
            }
            next += 1;
        }
        if lag == 0.0 {
            live.fill(0.0);
            for segment in &running {
                live[segment.class as usize] += segment.share;
            }
        }
        for (column, lane) in lanes.iter_mut().enumerate() {
            lane.advance(time, lag);
            shots.integral.push(lane.busy - lag * lane.lagged);
            shots.instant.push(if lag > 0.0 { lane.lagged } else { live[column] });
            if uncertain {
                shots.integral_spread.push(lane.busy_spread);
                shots.instant_spread.push(lane.lagged_spread);
            }
        }
    }
    shots.design(&times, &places)
}

/// Plays the part of a segment before `time`; whether some is left.
fn step(segment: &mut Segment, time: f64, lanes: &mut [Lane], lag: f64) -> bool {
    let lane = &mut lanes[segment.class as usize];
    let until = segment.to.min(time);
    lane.add(segment.from, until, segment.share, segment.spread, lag);
    segment.from = until;
    segment.to > time
}

impl Snapshots {
    fn new(columns: usize, queries: usize) -> Self {
        let [integral, instant] = [(); 2].map(|()| Vec::with_capacity(queries * columns));
        Self { columns, integral, instant, ..Self::default() }
    }

    fn design(&self, times: &[f64], places: &[(usize, usize)]) -> Design {
        let columns = self.columns;
        let uncertain = !self.integral_spread.is_empty();
        let mut share = Vec::with_capacity(places.len() * columns);
        let mut variance = Vec::with_capacity(if uncertain { places.len() * columns } else { 0 });
        for &(a, b) in places {
            let length = times.get(b).zip(times.get(a)).map_or(0.0, |(to, from)| to - from);
            for column in 0..columns {
                let (i, j) = (a * columns + column, b * columns + column);
                if length > 0.0 {
                    share.push((self.integral[j] - self.integral[i]) / length);
                } else {
                    share.push(self.instant[j]);
                }
                if uncertain {
                    variance.push(if length > 0.0 {
                        (self.integral_spread[j] - self.integral_spread[i]).max(0.0)
                            / (length * length)
                    } else {
                        self.instant_spread[j]
                    });
                }
            }
        }
        Design { columns, share, variance }
    }
}

/// Activity on a grid, for trying many responses quickly. Shares are constant within a bin, so that
/// a bin much shorter than the response errs in the second order only.
pub(crate) struct Binned {
    start: f64,
    width: f64,
    columns: usize,
    /// Mean share per bin and column.
    share: Vec<f64>,
}

impl Binned {
    pub(crate) fn new(
        segments: &[Segment],
        columns: usize,
        from: f64,
        to: f64,
        width: f64,
    ) -> Self {
        let bins = (((to - from) / width).ceil() as usize).max(1);
        let mut share = vec![0.0; bins * columns];
        for segment in segments {
            let (a, b) = ((segment.from - from) / width, (segment.to - from) / width);
            let (a, b) = (a.max(0.0), b.min(bins as f64));
            let mut bin = a as usize;
            let mut at = a;
            while at < b {
                let edge = ((bin + 1) as f64).min(b);
                share[bin * columns + segment.class as usize] += segment.share * (edge - at);
                at = edge;
                bin += 1;
            }
        }
        Self { start: from, width, columns, share }
    }

    /// The design of `rows` under `response`.
    pub(crate) fn design(&self, rows: &[Row], response: &Response) -> Design {
        let (times, places) = queries(rows, response);
        let columns = self.columns;
        let lag = response.lag.max(0.0);
        let bins = self.share.len() / columns.max(1);
        let keep = if lag > 0.0 { (-self.width / lag).exp() } else { 0.0 };
        let mut busy = vec![0.0; columns];
        let mut lagged = vec![0.0; columns];
        let mut bin = 0;
        let mut shots = Snapshots::new(columns, times.len());
        for &time in &times {
            let position = ((time - self.start) / self.width).clamp(0.0, bins as f64);
            while bin < bins && (bin + 1) as f64 <= position {
                for (column, &s) in
                    self.share[bin * columns..(bin + 1) * columns].iter().enumerate()
                {
                    busy[column] += s * self.width;
                    lagged[column] = lagged[column] * keep + s * (1.0 - keep);
                }
                bin += 1;
            }
            let part = (position - bin as f64).max(0.0) * self.width;
            let decay = if lag > 0.0 { (-part / lag).exp() } else { 0.0 };
            for column in 0..columns {
                let s = self.share.get(bin * columns + column).copied().unwrap_or(0.0);
                let now = lagged[column] * decay + s * (1.0 - decay);
                shots.integral.push(busy[column] + s * part - lag * now);
                shots.instant.push(now);
            }
        }
        shots.design(&times, &places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(from: f64, to: f64) -> Row {
        Row { from, to, mean: 0.0, scale: 1.0, covers: to - from, joined: false }
    }

    fn segment(from: f64, to: f64, class: u32, share: f64) -> Segment {
        Segment { from, to, class, share, spread: 0.0 }
    }

    /// The definition, by brute force: the share through a moving average, a lag and a delay.
    fn defined(segments: &[Segment], class: u32, row: &Row, response: &Response) -> f64 {
        let lagged = |t: f64| -> f64 {
            segments
                .iter()
                .filter(|s| s.class == class && s.from < t)
                .map(|s| {
                    let end = s.to.min(t);
                    s.share
                        * ((-(t - end) / response.lag).exp() - (-(t - s.from) / response.lag).exp())
                })
                .sum()
        };
        let (from, to) = window(row, response);
        if to <= from {
            return lagged(to);
        }
        let n = 20_000;
        (0..n)
            .map(|i| lagged(from + (to - from) * (f64::from(i) + 0.5) / f64::from(n)))
            .sum::<f64>()
            / f64::from(n)
    }

    #[test]
    fn exact_and_binned_agree_with_the_definition() {
        let mut segments = vec![
            segment(0.0, 0.013, 0, 1.0),
            segment(0.013, 0.0131, 1, 0.5),
            segment(0.02, 0.05, 0, 0.5),
            segment(0.02, 0.05, 1, 0.5),
            segment(0.021, 0.03, 0, 1.0),
            segment(0.07, 0.2, 1, 1.0),
        ];
        segments.sort_by(|a, b| a.from.total_cmp(&b.from));
        let responses = [
            Response { window: 0.0, lag: 0.014, delay: 0.003 },
            Response { window: 0.025, lag: 0.014, delay: -0.002 },
        ];
        let rows = [
            row(0.02, 0.02),
            row(0.04, 0.04),
            row(0.04, 0.06),
            row(0.06, 0.09),
            row(0.1, 0.1),
            row(0.22, 0.22),
        ];
        for response in &responses {
            let fine = Binned::new(&segments, 2, -0.05, 0.25, 1e-5).design(&rows, response);
            let exact = exact(&segments, 2, &rows, response, false);
            for (i, row) in rows.iter().enumerate() {
                for class in 0..2 {
                    let want = defined(&segments, class, row, response);
                    let got = exact.row(i)[class as usize];
                    assert!((got - want).abs() < 1e-6, "row {i} class {class}: {got} for {want}");
                    let got = fine.row(i)[class as usize];
                    assert!(
                        (got - want).abs() < 1e-3,
                        "binned row {i} class {class}: {got} for {want}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_window_without_lag_counts_busy_time() {
        let segments = [segment(0.0, 1.0, 0, 1.0), segment(2.0, 3.0, 0, 0.5)];
        let design =
            exact(&segments, 1, &[row(0.5, 2.5), row(0.5, 0.5)], &Response::default(), false);
        assert!((design.row(0)[0] - 0.375).abs() < 1e-12);
        assert_eq!(design.row(1)[0], 1.0);
    }
}
