//! Owns the levels a device shows while nothing runs: the clock it holds for a while after work
//! (the tail), and deeper states after that. Refuses to fit kernels; its states and floors go into
//! a [`super::Problem`].

use crate::quantile::{DEVIATION, NORMAL_95, median, student};
use std::cmp::Ordering;

use super::activity::Activity;
use super::attribution::{BETA, Floor, degrees_at};
use super::fit::design::StateSpan;
use super::readings::sensor::{Row, Rows, Series};
use super::report::FloorEnergy;
use super::units::{HostNs, Seconds, Watts};

/// A level seen while nothing ran.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IdleLevel {
    /// Mean power of it.
    pub watts: Watts,
    /// Standard error of the mean, from stretches of a tenth of the time each.
    pub sd: Watts,
    /// What noise makes of a window of it at the least, behind work where it was seen there: three
    /// standard deviations, by the median of deviations, below the median.
    pub least: Watts,
}

/// What idle time showed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IdleLevels {
    /// Levels. The first is the one that holds between launches, which is where the device was
    /// after most of its work: give it as state 0. The others follow, highest first.
    pub levels: Vec<IdleLevel>,
    /// Where the device was at any level but the first: at a deeper one, or at a higher one (a
    /// clock that something else raised).
    pub states: Vec<StateSpan>,
    /// Where it was seen at the first.
    pub first: Vec<StateSpan>,
}

impl IdleLevels {
    /// Whether the level between launches was not seen: the device never rested, or only before its
    /// first command, where it may have been in a deeper state.
    pub fn only_before(&self, activity: &Activity) -> bool {
        let begun = activity.segments.first().map(|s| stamp(activity, s.from));
        self.first.iter().all(|span| begun.is_none_or(|begun| span.end <= begun))
    }

    /// The floors and states of what was seen, all of it below a level that this run did not show.
    pub fn below(&self, between_launches: Floor) -> (Vec<Floor>, Vec<StateSpan>) {
        let seen = if self.levels.is_empty() { Vec::new() } else { self.floors() };
        let spans = self.first.iter().chain(&self.states);
        let mut states: Vec<StateSpan> =
            spans.map(|span| StateSpan { state: span.state + 1, ..*span }).collect();
        states.sort_by_key(|span| span.start);
        (std::iter::once(between_launches).chain(seen).collect(), states)
    }

    /// A level between the first, which was seen before the first command, and the least that was
    /// drawn from then on, where that is more: the device may have been at rest before, or not have
    /// rested since. Known to be between the two, and no better.
    pub fn or_up_to(&self, least: Watts) -> Option<Floor> {
        let seen = self.levels.first()?.watts.0;
        let (middle, half) = ((seen + least.0) / 2.0, (least.0 - seen) / 2.0);
        (!self.reaches(least))
            .then_some(Floor::Known { rate: middle, sd: half / student(0.975, f64::INFINITY) })
    }

    /// The level between launches where the device drew less while it worked than in all of the rest
    /// at the first: that was another state, as behind the end of the application's context. No
    /// floor lies above the mean of what was drawn meanwhile; by as much as that or the rest that
    /// was seen lies above the least, launches may have added to the least. `None` where the first
    /// level explains the least.
    pub fn undercut(&self, working: Working) -> Option<Floor> {
        let (first, least) = (self.levels.first()?, working.least.0);
        let more = first.watts.0.min(working.mean.0) - least;
        let sd = more.max(SAME_STATE * least) / student(0.975, f64::INFINITY);
        (least < first.least.0 * (1.0 - SAME_STATE)).then_some(Floor::Known { rate: least, sd })
    }

    /// Whether a level is that of the first, or below it.
    pub fn reaches(&self, watts: Watts) -> bool {
        self.levels.first().is_some_and(|first| first.watts.0 > watts.0 * (1.0 - SAME_LEVEL))
    }

    /// The levels as known floors, state by state; one to be fitted when no idle time was seen.
    pub fn floors(&self) -> Vec<Floor> {
        if self.levels.is_empty() {
            return vec![Floor::Fitted];
        }
        self.levels
            .iter()
            .map(|level| Floor::Known { rate: level.watts.0, sd: level.sd.0 })
            .collect()
    }
}

/// The host's time so many seconds after the activity's origin.
fn stamp(activity: &Activity, seconds: f64) -> HostNs {
    HostNs(activity.origin.0.saturating_add((seconds * 1e9).round() as i64))
}

/// Rows of which one that stands alone covers a period.
fn read_rows(activity: &Activity, series: &Series) -> Rows {
    let mut rows = Rows::new(series, activity.origin);
    rows.rows.iter_mut().for_each(|row| row.covers = row.length(rows.period));
    rows
}

/// Mean of readings, each weighted by its length; 0 without any.
fn weighted(readings: &[Row]) -> f64 {
    let seconds: f64 = readings.iter().map(|r| r.covers).sum();
    let all: f64 = readings.iter().map(|r| r.mean * r.covers).sum();
    if seconds > 0.0 { all / seconds } else { 0.0 }
}

/// Means over windows of [`LONG`] and [`LEAST_LONG`] readings or more: what single readings of a
/// counter show is when it stepped. Where fewer are left, they are a window, too.
fn windows(readings: &[Row], period: f64) -> impl Iterator<Item = f64> {
    let length = LONG.max(LEAST_LONG as f64 * period) - period / 2.0;
    let mut rest = readings;
    std::iter::from_fn(move || {
        let mut seconds = 0.0;
        let full = rest.iter().position(|r| {
            seconds += r.covers;
            seconds >= length
        });
        let end = full.map_or(rest.len(), |at| at + 1);
        let (window, behind) = rest.split_at(end);
        rest = behind;
        (!window.is_empty()).then(|| weighted(window))
    })
}

/// A piece of idle time at one level.
struct Piece {
    from: f64,
    to: f64,
    readings: Vec<Row>,
    mean: f64,
    /// Mean temperature, where it was read.
    degrees: Option<f64>,
    /// Whether work went before.
    after_work: bool,
}

impl Piece {
    /// Whether another one, which is lower, is of the same level: another temperature may explain so
    /// much of what it is lower by.
    fn is_level_of(&self, lower: &Self) -> bool {
        let warmer = self.degrees.zip(lower.degrees).map_or(0.0, |(own, of)| own - of);
        let may_be = [1.0, -1.0].map(|side| (BETA.0 + side * NORMAL_95 * BETA.1) * warmer);
        let explained = may_be.into_iter().fold(0.0, f64::max);
        (self.mean - lower.mean).abs() <= (SAME_LEVEL + explained) * self.mean.abs()
    }
}

/// Two pieces are one level when their means are this close, as a share of the higher.
const SAME_LEVEL: f64 = 0.05;
/// By how much of a level readings beyond its noise may be below it: drift of the temperature.
const SAME_STATE: f64 = 0.01;
/// Fewest readings of a level.
const LEAST_READINGS: usize = 8;
/// Fewest of a sensor that is read so rarely that these last for [`LONG`]: applications end soon
/// after their last command.
const LEAST_LONG: usize = LEAST_READINGS / 2;
/// Seconds.
const LONG: f64 = 0.05;

/// Whether so many readings, of which one is so many seconds behind the other, show a level.
fn enough(readings: usize, period: f64) -> bool {
    readings >= LEAST_READINGS || readings >= LEAST_LONG && (readings - 1) as f64 * period >= LONG
}

/// A state with the power of the first for all that a fit knows: the two differ by no more than
/// chance, and all that the first may be is one level with it. A first that is known to be somewhere
/// between is no such evidence.
pub fn twin_of_first(floors: &[FloorEnergy]) -> Option<usize> {
    let (first, others) = floors.split_first()?;
    let first = first.watts?;
    let is_twin = |of: &&FloorEnergy| {
        of.watts.is_some_and(|watts| {
            let ends = [first.low, first.high].map(|end| (end - watts.value).abs());
            (first.value - watts.value).abs() <= first.half().hypot(watts.half())
                && ends.iter().all(|end| *end <= SAME_LEVEL * watts.value)
        })
    };
    others.iter().find(is_twin).map(|of| of.state)
}

/// Finds the levels in stretches without activity. The first `settle` seconds of each stretch
/// (response of the sensor) are left out; within a stretch the level may step, at the place that
/// explains the readings best. What is left out counts as the first level, which is where a device
/// is just after work. `temperature`: degrees of the device over time, where they were read.
pub fn idle_levels(
    activity: &Activity,
    series: &Series,
    settle: Seconds,
    temperature: &[(HostNs, f64)],
) -> IdleLevels {
    let rows = read_rows(activity, series);
    let mut pieces = Vec::new();
    for (from, to) in stretches(activity, &rows) {
        let start = if from.is_finite() { from + settle.0 } else { from };
        // The rows are in order of their ends: what a trace has of stretches and of readings must
        // not multiply.
        let begin = rows.rows.partition_point(|row| row.to < start);
        let end = rows.rows.partition_point(|row| row.to <= to).max(begin);
        let is_inside = |row: &&Row| row.from >= start && row.to <= to;
        let inside: Vec<Row> = rows.rows[begin..end].iter().filter(is_inside).copied().collect();
        // Where nothing was read between two readings, as between two recordings, the level may be
        // another behind.
        for (at, part) in inside.chunk_by(|_, row| row.joined).enumerate() {
            let first = pieces.len();
            split(part, rows.period, &mut pieces);
            if let Some(first) = pieces.get_mut(first) {
                first.after_work = from.is_finite() && at == 0;
            }
        }
    }
    if !temperature.is_empty() {
        let degrees = degrees_at(temperature, activity);
        for piece in &mut pieces {
            let sum: f64 = piece.readings.iter().map(|reading| degrees(reading.to)).sum();
            piece.degrees = Some(sum / piece.readings.len() as f64);
        }
    }
    levels(activity, pieces, rows.period)
}

/// What a device drew from its first command to its last, gaps between launches included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Working {
    /// A twentieth of the means over windows are below.
    pub least: Watts,
    /// The mean over all of that time.
    pub mean: Watts,
}

/// What the device drew between its first command and its last, but for the rest between two
/// recordings. `None` without readings.
pub fn while_working(activity: &Activity, series: &Series, settle: Seconds) -> Option<Working> {
    let (first, last) = (activity.segments.first()?, activity.segments.last()?);
    let rows = read_rows(activity, series);
    let begun: Vec<f64> =
        rows.rows.iter().skip(1).filter(|row| !row.joined).map(|row| row.from).collect();
    // Stretches and recordings are in order of time.
    let holds_begin = |&(from, to): &(f64, f64)| {
        let next = begun.partition_point(|at| *at < from);
        begun.get(next).is_some_and(|at| *at < to)
    };
    let rests: Vec<(f64, f64)> =
        stretches(activity, &rows).into_iter().filter(holds_begin).collect();
    let rested = |row: &Row| {
        let next = rests.partition_point(|rest| rest.1 < row.to);
        rests.get(next).is_some_and(|rest| rest.0 <= row.from)
    };
    let is_inside = |row: &&Row| row.from >= first.from + settle.0 && row.to <= last.to;
    let inside: Vec<Row> =
        rows.rows.iter().filter(is_inside).filter(|row| !rested(row)).copied().collect();
    let watts = window_means(&inside, rows.period);
    let least = Watts(*watts.get(watts.len() / 20)?);
    // Less than nothing is drawn by no device: of the counters of a difference one was read late.
    (least.0 >= 0.0).then_some(Working { least, mean: Watts(weighted(&inside)) })
}

/// The least that a device drew for a while: a fiftieth of the means over windows are below. `None`
/// where readings say less than nothing.
pub fn least_drawn(activity: &Activity, series: &Series) -> Option<Watts> {
    let rows = read_rows(activity, series);
    let watts = window_means(&rows.rows, rows.period);
    watts.get(watts.len() / 50).copied().filter(|watts| *watts >= 0.0).map(Watts)
}

/// Means over windows of readings without gaps, the least first.
fn window_means(readings: &[Row], period: f64) -> Vec<f64> {
    let parts = readings.chunk_by(|_, row| row.joined);
    let mut watts: Vec<f64> = parts.flat_map(|part| windows(part, period)).collect();
    watts.sort_by(f64::total_cmp);
    watts
}

/// Three standard deviations below the median of means over windows, of which less than half may be
/// of another level, and at least a step of the sensor.
fn least_by_noise(watts: &[f64]) -> Option<Watts> {
    let middle = median(watts.iter().copied())?;
    let off = median(watts.iter().map(|w| (w - middle).abs()))?;
    let mut sorted = watts.to_vec();
    sorted.sort_by(f64::total_cmp);
    let steps = sorted.windows(2).map(|pair| pair[1] - pair[0]).filter(|step| *step > 0.0);
    let step = steps.reduce(f64::min).unwrap_or(0.0);
    Some(Watts(middle - (3.0 * DEVIATION * off).max(step)))
}

/// Idle stretches inside the readings, before the first and after the last command included.
fn stretches(activity: &Activity, rows: &Rows) -> Vec<(f64, f64)> {
    let (Some(first), Some(last)) = (rows.rows.first(), rows.rows.last()) else {
        return Vec::new();
    };
    let mut idle = activity.gaps();
    idle.last_mut().into_iter().for_each(|behind| behind.1 = last.to);
    idle.retain(|&(from, to)| {
        let readings = (to - from.max(first.from)) / rows.period;
        to > first.from && readings.is_finite() && enough(readings as usize, rows.period)
    });
    idle
}

/// Cuts one stretch where its level steps, for as long as a cut takes most of the variance with it.
fn split(inside: &[Row], period: f64, pieces: &mut Vec<Piece>) {
    if !enough(inside.len(), period) {
        return;
    }
    let whole: f64 = inside.iter().map(|r| r.covers).sum();
    let total: f64 = inside.iter().map(|r| r.mean * r.covers).sum();
    let mean = weighted(inside);
    let scatter: f64 = inside.iter().map(|r| (r.mean - mean).powi(2) * r.covers).sum();
    let (mut left, mut passed) = (0.0, 0.0);
    let mut best = (0.0, 0);
    for (i, reading) in inside.iter().enumerate().take(inside.len() - LEAST_READINGS / 2) {
        left += reading.mean * reading.covers;
        passed += reading.covers;
        let behind = whole - passed;
        if i + 1 >= LEAST_READINGS / 2 && passed > 0.0 && behind > 0.0 {
            let gain = passed * (left / passed - mean).powi(2)
                + behind * ((total - left) / behind - mean).powi(2);
            if gain > best.0 {
                best = (gain, i + 1);
            }
        }
    }
    let (gain, at) = best;
    if at > 0 && gain > 0.6 * scatter {
        let (before, after) = inside.split_at(at);
        let (a, b) = (weighted(before), weighted(after));
        if (a - b).abs() > SAME_LEVEL * a.abs().max(b.abs()) {
            split(before, period, pieces);
            // A sensor follows the step with a lag; more readings are a level of their own.
            let level = median(after.iter().map(|r| r.mean)).unwrap_or(b);
            let follows = |r: &&Row| (r.mean - level).abs() > SAME_LEVEL * level.abs();
            let late = after.iter().take_while(follows).count();
            split(&after[if late < LEAST_LONG { late } else { 0 }..], period, pieces);
            return;
        }
    }
    pieces.push(Piece {
        from: inside[0].to,
        to: inside[inside.len() - 1].to,
        readings: inside.to_vec(),
        mean,
        degrees: None,
        after_work: false,
    });
}

/// Joins pieces of one level: first the one that most work is followed by, of several the longest
/// and the highest; then the highest first.
fn levels(activity: &Activity, mut pieces: Vec<Piece>, period: f64) -> IdleLevels {
    pieces.sort_by(|a, b| b.mean.total_cmp(&a.mean));
    let mut result = IdleLevels::default();
    let mut groups: Vec<Vec<Piece>> = Vec::new();
    for piece in pieces {
        match groups.last_mut() {
            Some(group) if group[0].is_level_of(&piece) => group.push(piece),
            _ => groups.push(vec![piece]),
        }
    }
    let seconds = |group: &[Piece]| group.iter().map(|piece| piece.to - piece.from).sum::<f64>();
    let follows = |group: &[Piece]| group.iter().filter(|piece| piece.after_work).count();
    let after_work = (0..groups.len()).rev().max_by(|&a, &b| {
        let of = |at: usize| (follows(&groups[at]), seconds(&groups[at]));
        let ((a, a_seconds), (b, b_seconds)) = (of(a), of(b));
        // Without any work before them, the highest.
        a.cmp(&b).then(if a > 0 { a_seconds.total_cmp(&b_seconds) } else { Ordering::Equal })
    });
    if let Some(at) = after_work {
        groups[..=at].rotate_right(1);
    }
    for (state, group) in groups.iter().enumerate() {
        let readings: Vec<Row> =
            group.iter().flat_map(|piece| piece.readings.iter().copied()).collect();
        let behind = group.iter().any(|piece| piece.after_work);
        let seen = group.iter().filter(|piece| !behind || piece.after_work);
        let seen: Vec<f64> = seen.flat_map(|piece| windows(&piece.readings, period)).collect();
        let mean = weighted(&readings);
        // Readings of one level are correlated: the scatter of ten means holds that, the readings'
        // own does not.
        let part = readings.len().div_ceil(10).max(1);
        let means: Vec<f64> = readings.chunks(part).map(weighted).collect();
        let count = means.len() as f64;
        let scatter =
            means.iter().map(|m| (m - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0) / count;
        result.levels.push(IdleLevel {
            watts: Watts(mean),
            sd: Watts(scatter.sqrt()),
            least: least_by_noise(&seen).unwrap_or(Watts(mean)),
        });
        let spans = if state > 0 { &mut result.states } else { &mut result.first };
        spans.extend(group.iter().map(|piece| StateSpan {
            state,
            start: stamp(activity, piece.from),
            end: stamp(activity, piece.to),
        }));
    }
    result.states.sort_by_key(|span| span.start);
    result
}

#[cfg(test)]
mod tests;
