//! Owns what a sensor said: readings become rows, each the mean of a quantity over a window of
//! time. Faults of the series (repeats, disorder, steps backwards, gaps) are dropped here and
//! counted; nothing is filled in. Refuses to undo wrap-around or units: the sampler did that. The
//! same rows serve power and GPU counters.

use crate::energy::units::HostNs;
use crate::quantile::median;

/// A series of readings of one quantity. For energy the quantity is joules (its mean rate watts);
/// the fit works for any quantity whose mean over a window is observed, such as the counters a GPU
/// snapshots every 100 ms. A reading that is not a number parts two recordings: what lies between
/// them is neither a row nor a fault.
#[derive(Clone, Debug, PartialEq)]
pub enum Series {
    /// Running total (joules since some start) at each stamp. Readings between two steps of the
    /// counter repeat the old value and are dropped: only changes carry information.
    Cumulative(Vec<(HostNs, f64)>),
    /// Value (watts) at each stamp, after the sensor's own response.
    Instant(Vec<(HostNs, f64)>),
    /// Mean value over each window `(start, end, mean)`.
    WindowMean(Vec<(HostNs, HostNs, f64)>),
}

impl Series {
    /// The readings between two times.
    pub fn between(&self, from: HostNs, to: HostNs) -> Self {
        let inside = |at: HostNs| from <= at && at <= to;
        let points = |of: &[(HostNs, f64)]| of.iter().filter(|p| inside(p.0)).copied().collect();
        match self {
            Self::Cumulative(of) => Self::Cumulative(points(of)),
            Self::Instant(of) => Self::Instant(points(of)),
            Self::WindowMean(of) => {
                let kept = of.iter().filter(|w| inside(w.0) && inside(w.1));
                Self::WindowMean(kept.copied().collect())
            }
        }
    }

    /// Whether there is no reading in it.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Cumulative(points) | Self::Instant(points) => points.iter().all(|p| p.1.is_nan()),
            Self::WindowMean(windows) => windows.is_empty(),
        }
    }
}

/// What was wrong with a series. Every count is of readings dropped or of breaks made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeriesFaults {
    /// Readings that repeat a stamp, or a value between two updates of the sensor.
    pub repeated: u64,
    /// Readings whose stamp lies before an earlier one's.
    pub unordered: u64,
    /// Infinite, or a mean that is not a number.
    pub not_finite: u64,
    /// Times a running total went backwards; the step is not used.
    pub backwards: u64,
    /// Stretches with no reading for more than four times the usual step.
    pub gaps: u64,
}

/// One observation. Seconds from the activity's origin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// Window; `from == to` for an instantaneous reading.
    pub from: f64,
    pub to: f64,
    /// Mean of the quantity over the window.
    pub mean: f64,
    /// Weight of the row's residual: longer windows of a counter say more.
    pub scale: f64,
    /// Seconds that the row contributes to totals.
    pub covers: f64,
    /// Whether the row starts where the one before ended.
    pub joined: bool,
}

impl Row {
    /// Seconds that it stands for; `alone`: where nothing is joined to it.
    pub(crate) fn length(&self, alone: f64) -> f64 {
        if self.covers > 0.0 { self.covers } else { alone }
    }
}

/// Rows of one sensor, in order of time.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    pub rows: Vec<Row>,
    pub kind: RowKind,
    /// Median step between rows, in seconds.
    pub period: f64,
    /// Median step between readings of a counter, repeated values included; zero for other kinds.
    pub poll: f64,
    pub faults: SeriesFaults,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowKind {
    Counter,
    Instant,
    Window,
}

/// Readings that are further apart than so many of their typical steps leave a hole.
pub const GAP_PERIODS: f64 = 4.0;

/// Windows of a counter are joined until the blur of an edge is this part of them. A blurred edge
/// takes some of a kernel's energy for its neighbour's, which pulls all rates towards their mean;
/// at 1/40 the pull of schedules that change within the window is about a percent of their spread,
/// and slower changes are not touched. (Chosen with the example `attribution_truth`: at 1 ms
/// windows the rates were off by percents.)
const WINDOWS_PER_BLUR: f64 = 40.0;
/// Nor are they joined beyond this, in seconds: mixes change.
const LONGEST_JOINED: f64 = 0.05;

impl Rows {
    /// Joins the short windows of a counter whose readings are blurred by up to `blur` seconds.
    pub(crate) fn joined(mut self, blur: f64) -> Self {
        let edge = if self.poll > 0.0 { blur.min(self.poll) } else { blur };
        let target = (WINDOWS_PER_BLUR * edge).min(LONGEST_JOINED);
        if self.kind != RowKind::Counter || target <= 1.5 * self.period {
            return self;
        }
        let mut joined: Vec<Row> = Vec::new();
        for row in &self.rows {
            match joined.last_mut() {
                Some(last) if row.joined && last.covers < target => {
                    last.mean = (last.mean * last.covers + row.mean * row.covers)
                        / (last.covers + row.covers);
                    last.to = row.to;
                    last.covers += row.covers;
                }
                _ => joined.push(*row),
            }
        }
        self.period = typical(joined.iter().map(|row| row.covers));
        for row in &mut joined {
            row.scale = (row.covers / self.period).min(3.0);
        }
        self.rows = joined;
        self
    }

    pub(crate) fn new(series: &Series, origin: HostNs) -> Self {
        let mut faults = SeriesFaults::default();
        match series {
            Series::Cumulative(readings) => {
                let (points, starts) = clean(readings, origin, &mut faults);
                counter_rows(&points, &starts, faults)
            }
            Series::Instant(samples) => {
                let (points, starts) = clean(samples, origin, &mut faults);
                instant_rows(&points, &starts, faults)
            }
            Series::WindowMean(windows) => {
                let mut rows: Vec<Row> = Vec::with_capacity(windows.len());
                for &(start, end, mean) in windows {
                    let (from, to) = (start.seconds_since(origin), end.seconds_since(origin));
                    let before = rows.last().map_or(f64::NEG_INFINITY, |row| row.to);
                    if !mean.is_finite() {
                        faults.not_finite += 1;
                    } else if to <= from || to <= before {
                        faults.unordered += 1;
                    } else {
                        let joined = (from - before).abs() < (to - from) * 0.01;
                        rows.push(Row { from, to, mean, scale: 1.0, covers: to - from, joined });
                    }
                }
                let period = typical(rows.iter().map(|row| row.to - row.from));
                Self { rows, kind: RowKind::Window, period, poll: 0.0, faults }
            }
        }
    }

    pub(crate) fn covered(&self) -> f64 {
        self.rows.iter().map(|row| row.covers).sum()
    }

    /// Stretches of time that the rows cover.
    pub(crate) fn coverage(&self) -> Vec<(f64, f64)> {
        let mut stretches: Vec<(f64, f64)> = Vec::new();
        let mut previous_end = f64::NEG_INFINITY;
        for row in &self.rows {
            let (from, to) = match self.kind {
                // Trapezoids: an instant covers half the way to either neighbour it is joined to.
                RowKind::Instant => (if row.joined { previous_end } else { row.to }, row.to),
                RowKind::Counter | RowKind::Window => (row.from, row.to),
            };
            previous_end = row.to;
            match stretches.last_mut() {
                Some(last) if row.joined => last.1 = to,
                _ => stretches.push((from, to)),
            }
        }
        stretches
    }
}

/// Times at which a recording begins behind another, in order.
type Starts = Vec<f64>;

/// Drops what cannot be used, keeps order.
fn clean(
    readings: &[(HostNs, f64)],
    origin: HostNs,
    faults: &mut SeriesFaults,
) -> (Vec<(f64, f64)>, Starts) {
    let mut points: Vec<(f64, f64)> = Vec::with_capacity(readings.len());
    let mut last = None;
    let (mut starts, mut parted) = (Starts::new(), false);
    for &(at, value) in readings {
        if value.is_nan() {
            parted = last.is_some();
            continue;
        }
        if !value.is_finite() {
            faults.not_finite += 1;
            continue;
        }
        match last {
            Some(before) if at == before => faults.repeated += 1,
            Some(before) if at < before => faults.unordered += 1,
            _ => {
                points.push((at.seconds_since(origin), value));
                last = Some(at);
                if std::mem::take(&mut parted) {
                    starts.push(at.seconds_since(origin));
                }
            }
        }
    }
    (points, starts)
}

/// Whether a recording begins behind `from`, up to `to`.
fn begins(starts: &[f64], from: f64, to: f64) -> bool {
    let behind = starts.partition_point(|at| *at <= from);
    starts.get(behind).is_some_and(|at| *at <= to)
}

/// Share of repeated values above which a series is taken to be polled faster than its sensor
/// updates.
const OVERSAMPLED: f64 = 0.3;

fn counter_rows(points: &[(f64, f64)], starts: &[f64], mut faults: SeriesFaults) -> Rows {
    let repeats = points.windows(2).filter(|pair| pair[0].1 == pair[1].1).count();
    let oversampled = repeats as f64 > OVERSAMPLED * points.len() as f64;
    let mut steps: Vec<(f64, f64, bool)> = Vec::with_capacity(points.len() - repeats);
    for (i, &(at, total)) in points.iter().enumerate() {
        match steps.last_mut() {
            None => {
                // Polled faster than it updates, the first reading is somewhere inside a step:
                // start at a change.
                let changed = i > 0 && points[i - 1].1 != total;
                if changed || !oversampled {
                    steps.push((at, total, false));
                } else {
                    faults.repeated += 1;
                }
            }
            Some(last) if begins(starts, last.0, at) => steps.push((at, total, false)),
            Some(last) if total == last.1 => faults.repeated += 1,
            Some(last) if total < last.1 => {
                faults.backwards += 1;
                steps.push((at, total, false));
            }
            Some(_) => steps.push((at, total, true)),
        }
    }
    let period =
        typical(steps.windows(2).filter(|pair| pair[1].2).map(|pair| pair[1].0 - pair[0].0));
    let mut rows: Vec<Row> = Vec::with_capacity(steps.len());
    for pair in steps.windows(2) {
        let ((from, before, _), (to, after, continues)) = (pair[0], pair[1]);
        if !continues {
            continue;
        }
        let length = to - from;
        let joined = rows.last().is_some_and(|row: &Row| row.to == from);
        if length > GAP_PERIODS * period {
            faults.gaps += 1;
        }
        // A residual of energy, not of power: what blurs a counter is the moment of its update.
        let scale = (length / period).min(3.0);
        rows.push(Row { from, to, mean: (after - before) / length, scale, covers: length, joined });
    }
    let poll = typical(points.windows(2).map(|pair| pair[1].0 - pair[0].0));
    Rows { rows, kind: RowKind::Counter, period, poll, faults }
}

fn instant_rows(points: &[(f64, f64)], starts: &[f64], mut faults: SeriesFaults) -> Rows {
    let repeats = points.windows(2).filter(|pair| pair[0].1 == pair[1].1).count();
    let mut kept: Vec<(f64, f64)> = Vec::with_capacity(points.len());
    if repeats as f64 > OVERSAMPLED * points.len() as f64 {
        for &(at, value) in points {
            if kept.last().is_some_and(|last| last.1 == value) {
                faults.repeated += 1;
            } else {
                kept.push((at, value));
            }
        }
    } else {
        kept.extend_from_slice(points);
    }
    let period = typical(kept.windows(2).map(|pair| pair[1].0 - pair[0].0));
    let mut rows: Vec<Row> = Vec::with_capacity(kept.len());
    for &(at, mean) in &kept {
        let parted = rows.last().is_some_and(|row: &Row| begins(starts, row.to, at));
        let joined =
            !parted && rows.last().is_some_and(|row: &Row| at - row.to <= GAP_PERIODS * period);
        let half = match rows.last_mut() {
            Some(last) if joined => {
                let half = (at - last.to) / 2.0;
                last.covers += half;
                half
            }
            Some(_) => {
                faults.gaps += u64::from(!parted);
                0.0
            }
            None => 0.0,
        };
        rows.push(Row { from: at, to: at, mean, scale: 1.0, covers: half, joined });
    }
    Rows { rows, kind: RowKind::Instant, period, poll: 0.0, faults }
}

/// Median step; zero when there is none.
fn typical(steps: impl Iterator<Item = f64>) -> f64 {
    median(steps).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(points: &[(i64, f64)]) -> Vec<(HostNs, f64)> {
        points.iter().map(|&(ms, value)| (HostNs(ms * 1_000_000), value)).collect()
    }

    fn total(of: &Rows) -> f64 {
        of.rows.iter().map(|row| row.mean * row.covers).sum()
    }

    #[test]
    fn a_counter_polled_faster_than_it_steps_gives_its_steps() {
        let polled: Vec<(i64, f64)> =
            (0..100).map(|ms| (ms, f64::from((ms as i32 + 5) / 10))).collect();
        let rows = Rows::new(&Series::Cumulative(at(&polled)), HostNs(0));
        assert_eq!(rows.rows.len(), 9, "ten steps, seen from the first change on");
        assert!((rows.period - 0.01).abs() < 1e-12);
        assert!(rows.rows.iter().all(|row| (row.mean - 100.0).abs() < 1e-9));
    }

    #[test]
    fn faults_are_counted_and_break_nothing() {
        let series = at(&[
            (0, 1.0),
            (1, 2.0),
            (1, 2.0),
            (2, 3.0),
            (1, 9.0),
            (3, f64::INFINITY),
            (4, 1.0),
            (5, 2.0),
            (6, 3.0),
        ]);
        let rows = Rows::new(&Series::Cumulative(series), HostNs(0));
        assert_eq!(rows.faults.repeated, 1);
        assert_eq!(rows.faults.unordered, 1);
        assert_eq!(rows.faults.not_finite, 1);
        assert_eq!(rows.faults.backwards, 1);
        assert_eq!(rows.rows.len(), 4, "the step backwards is no row");
        assert!((total(&rows) - 4.0).abs() < 1e-12);
        assert_eq!(rows.coverage().len(), 2);
    }

    #[test]
    fn two_recordings_are_no_counter_that_went_backwards_and_no_gap() {
        // Each counts from its own start, 100 W; the second begins at less, as much, or more.
        for from in [0.0, 0.9, 5.0] {
            let count = |ms: i64, from: f64| (0..10).map(move |i| (ms + i, from + 0.1 * i as f64));
            let parted = count(0, 0.0).chain([(999, f64::NAN)]).chain(count(1000, from));
            let rows = Rows::new(&Series::Cumulative(at(&parted.collect::<Vec<_>>())), HostNs(0));
            assert_eq!(rows.faults, SeriesFaults::default(), "{from}");
            assert!(rows.rows.iter().all(|r| (r.mean - 100.0).abs() < 1e-6), "{:?}", rows.rows);
            assert_eq!((rows.rows.len(), rows.coverage().len()), (18, 2));
        }
        let sample = |ms: i64| (0..10).map(move |i| (ms + i, (i % 3) as f64));
        let parted = sample(0).chain([(999, f64::NAN)]).chain(sample(1000));
        let rows = Rows::new(&Series::Instant(at(&parted.collect::<Vec<_>>())), HostNs(0));
        assert_eq!((rows.faults, rows.coverage().len()), (SeriesFaults::default(), 2));
    }

    #[test]
    fn samples_integrate_as_trapezoids_and_break_at_gaps() {
        let rows = Rows::new(
            &Series::Instant(at(&[(0, 1.0), (10, 3.0), (20, 5.0), (200, 5.0), (210, 7.0)])),
            HostNs(0),
        );
        assert_eq!(rows.faults.gaps, 1);
        assert!((total(&rows) - (0.02 + 0.04 + 0.06)).abs() < 1e-12);
        assert!((rows.covered() - 0.03).abs() < 1e-12);
    }
}
