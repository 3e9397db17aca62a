//! Counters per kernel: means over windows far longer than kernels, attributed to them by the fit
//! that serves energy ([`crate::energy`]). Owns what differs from power: one delay for all counters
//! of a source, found where the signal is strongest; counters that are 0 while nothing runs;
//! verdicts that do not judge a counter by its smallness. Refuses names, units and I/O: counters
//! are series, classes are numbers.
//!
//! A value is the counter's mean while the class runs, in the unit of the windows' means: percent
//! stay percent; of counts, give each window's count over its length and read counts a second.

mod timer;

use crate::energy::{
    Activity, AttributionError, ClassId, Floor, HostNs, Parameter, Problem, ResponseModel, Seconds,
    Series, attribute,
};
use std::collections::HashMap;

/// A mean and its 95 % interval, which ends at 0 where counters do.
use crate::interval::Interval;
use crate::quantile::student;

/// What a counter reads while nothing runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// Nothing: it counts work of kernels and transfers only.
    Zero,
    /// Something that is to be fitted: clocks run on, other traffic passes.
    Fitted,
}

/// One counter of a source.
#[derive(Clone, Copy, Debug)]
pub struct Counter<'a> {
    /// Beginning, end and mean of each window, in order of time.
    pub windows: &'a [(HostNs, HostNs, f64)],
    /// What it reads at rest.
    pub idle: Idle,
    /// The most it can read, where that is known: 100 of percent. 0 else.
    pub full: f64,
}

/// When windows' ends are seen to lie behind what they hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Delay {
    /// Windows are stamped by the hardware whose counters they hold, to this many seconds either
    /// way.
    Known(f64),
    /// Found from the data, in seconds.
    Between {
        /// Least.
        least: f64,
        /// Greatest.
        most: f64,
        /// Where the data say nothing.
        typical: f64,
        /// The source may take its snapshots on a timer of this many seconds and hand them out when
        /// it likes.
        timer: Option<f64>,
    },
}

/// A mean over launches that were counted one by one, each with its weight.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OneByOne {
    launches: f64,
    weight: f64,
    weights_squared: f64,
    moment: f64,
    square: f64,
}

impl OneByOne {
    /// Adds a launch: its figure, and its weight above 0 (the time that the figure is a mean over).
    pub fn add(&mut self, figure: f64, weight: f64) {
        let squared = weight * weight;
        self.launches += 1.0;
        self.weight += weight;
        self.weights_squared += squared;
        self.moment += squared * figure;
        self.square += squared * figure * figure;
    }

    /// The 95 % interval of a mean `value` by what the launches differ; of one launch the figure
    /// itself: what it counted, it counted.
    pub fn estimate(&self, value: f64) -> Interval {
        let spread = (self.square - 2.0 * value * self.moment
            + value * value * self.weights_squared)
            .max(0.0);
        let half = if self.launches < 2.0 {
            0.0
        } else {
            let n = self.launches;
            student(0.975, n - 1.0) * (spread * n / (n - 1.0)).sqrt() / self.weight
        };
        Interval::estimated(value, (value - half).max(0.0).min(value), value + half)
    }
}

/// The figures of a counter for one class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassCounter {
    /// Time it ran inside windows.
    pub covered: Seconds,
    /// Its mean while the class ran; `None` where the class did not run inside windows, is known as
    /// a sum only, or ran for too short a time.
    pub mean: Option<Interval>,
    /// The interval, if it is too wide to be a figure or lies above what the counter can read.
    pub vague: Option<Interval>,
    /// The group whose mean is known where the class's own is not: index into
    /// [`Attributed::groups`].
    pub only_with: Option<usize>,
}

/// Classes that have one mean because they always ran in one proportion.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The classes; more than one, or one that cannot be separated from rest.
    pub classes: Vec<ClassId>,
    /// Mean while any of them ran.
    pub mean: Interval,
}

/// One counter attributed.
#[derive(Clone, Debug, PartialEq)]
pub struct Attributed {
    /// One row for each class, in class order.
    pub classes: Vec<ClassCounter>,
    /// Classes that are known as a sum only.
    pub groups: Vec<Group>,
    /// Its mean at rest; `None` where it is 0 by its nature or unknown.
    pub idle: Option<Interval>,
    /// Delay used, seconds; on a timer the mean.
    pub delay: f64,
    /// Whether the windows were placed on the source's timer.
    pub on_timer: bool,
    /// Windows used.
    pub windows: usize,
    /// Root mean square of what the fit leaves of the windows' means.
    pub residual: f64,
}

/// Once found, the delay is taken to be known so well, seconds either way.
const DELAY_KNOWN: f64 = 0.0005;

fn around(delay: f64, known: f64) -> Parameter {
    Parameter::free(delay - known, delay + known, delay)
}

fn fit(
    activity: &Activity,
    counter: &Counter<'_>,
    delay: Parameter,
) -> Result<crate::energy::Attribution, AttributionError> {
    let series = Series::WindowMean(counter.windows.to_vec());
    let floor = match counter.idle {
        Idle::Zero => Floor::Known { rate: 0.0, sd: 0.0 },
        Idle::Fitted => Floor::Fitted,
    };
    attribute(&Problem {
        activity,
        series: &series,
        response: ResponseModel::delayed(delay, 0.0),
        floors: &[floor],
        states: &[],
        drift: 0,
        temperature: &[],
        pooled: None,
        found: None,
        own: &[],
        workers: &[],
        // A kernel may as well count nothing.
        spread: 100.0,
        rest_as_sum: false,
        iterations: &[],
    })
}

/// Variance of the windows' means.
fn variance(windows: &[(HostNs, HostNs, f64)]) -> f64 {
    let n = windows.len().max(1) as f64;
    let mean = windows.iter().map(|w| w.2).sum::<f64>() / n;
    windows.iter().map(|w| (w.2 - mean).powi(2)).sum::<f64>() / n
}

/// The delay of a source: that of the counter which the classes explain best. Activity and windows
/// are on one clock.
pub fn delay(activity: &Activity, counters: &[Counter<'_>], delay: Delay) -> f64 {
    let (least, most, typical) = match delay {
        Delay::Known(_) => return 0.0,
        Delay::Between { least, most, typical, .. } => (least, most, typical),
    };
    let free = Parameter::free(least, most, typical);
    let explained = |counter: &Counter<'_>| {
        let result = fit(activity, counter, free).ok()?;
        let (all, left) = (variance(counter.windows), result.residual.0.powi(2));
        (all > 0.0 && left < 0.5 * all)
            .then_some((all / left.max(1e-12 * all), result.response.delay))
    };
    counters
        .iter()
        .filter_map(explained)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map_or(typical, |(_, delay)| delay)
}

/// Attributes each counter of a source to classes.
pub fn attribute_all(
    activity: &Activity,
    counters: &[Counter<'_>],
    how: Delay,
) -> Vec<Result<Attributed, AttributionError>> {
    let placed = match how {
        Delay::Between { timer: Some(period), .. } => timer::place(activity, counters, period),
        _ => None,
    };
    if let Some(placed) = placed {
        let moved: HashMap<_, _> = placed.moved.into_iter().collect();
        let one = |counter: &Counter<'_>| {
            let windows: Vec<_> = counter
                .windows
                .iter()
                .filter_map(|w| moved.get(&(w.0, w.1)).map(|(from, to)| (*from, *to, w.2)))
                .collect();
            let result = fit(
                activity,
                &Counter { windows: &windows, ..*counter },
                around(0.0, DELAY_KNOWN),
            )?;
            Ok(Attributed { delay: placed.lag, on_timer: true, ..attributed(&result, counter) })
        };
        return counters.iter().map(one).collect();
    }
    let parameter = match how {
        Delay::Known(within) if within > 0.0 => around(0.0, within),
        Delay::Known(_) => Parameter::Fixed(0.0),
        Delay::Between { .. } => around(delay(activity, counters, how), DELAY_KNOWN),
    };
    counters
        .iter()
        .map(|counter| fit(activity, counter, parameter).map(|result| attributed(&result, counter)))
        .collect()
}

/// By how much of the most that can be a mean may lie above it beyond its interval: windows end at
/// ticks of the source's clock, which no interval knows of, and counters are told to half a point.
const RESOLUTION: f64 = 0.005;

/// An interval is no figure whose half is more than half of the value, of a fifth of the most that
/// was read, and of a fiftieth of the most that can be; nor is one that lies above the most that
/// can be by more than [`RESOLUTION`]: what the counter cannot read is no mean of it. A value above
/// that counts as that.
fn is_figure(of: &Interval, most: f64, full: f64) -> bool {
    let (can_be, value) = if full > 0.0 {
        (of.low <= full * (1.0 + RESOLUTION), of.value.min(full))
    } else {
        (true, of.value)
    };
    can_be && of.half() <= 0.5 * value.max(0.2 * most).max(0.02 * full)
}

/// Part of a window for which a class has to have run, in all, to have a mean: of less, what else
/// happened in its windows is most of the figure, and the fit explains all of that by the class.
const LEAST_PART: f64 = 0.02;

/// Mean length of a counter's windows, seconds.
fn window_seconds(windows: &[(HostNs, HostNs, f64)]) -> f64 {
    let all: f64 = windows.iter().map(|w| w.1.seconds_since(w.0)).sum();
    all / windows.len().max(1) as f64
}

fn attributed(result: &crate::energy::Attribution, counter: &Counter<'_>) -> Attributed {
    let least = LEAST_PART * window_seconds(counter.windows);
    let most = counter.windows.iter().map(|w| w.2).fold(0.0, f64::max);
    let mut groups = Vec::new();
    // Place of each of the fit's groups among those that are sums.
    let place: Vec<Option<usize>> = result
        .groups
        .iter()
        .map(|group| {
            (group.classes.len() > 1).then(|| {
                groups.push(Group { classes: group.classes.clone(), mean: group.watts });
                groups.len() - 1
            })
        })
        .collect();
    let class = |row: &crate::energy::ClassEnergy| {
        let only_with = row.group.and_then(|g| place.get(g).copied().flatten());
        // Energy gives no figure whose interval is wide against it; of a counter a sure 0 is the
        // best of figures.
        let mean = row
            .group
            .filter(|_| only_with.is_none())
            .and_then(|g| result.groups.get(g))
            .map(|g| g.watts);
        let told = mean.filter(|m| row.covered.0 >= least && is_figure(m, most, counter.full));
        ClassCounter {
            covered: row.covered,
            mean: told,
            vague: mean.filter(|_| told.is_none()),
            only_with,
        }
    };
    let classes = result.classes.iter().map(class).collect();
    let at_rest =
        result.floors.first().and_then(|f| f.watts).filter(|_| counter.idle == Idle::Fitted);
    Attributed {
        classes,
        groups,
        idle: at_rest,
        delay: result.response.delay,
        on_timer: false,
        windows: result.readings,
        residual: result.residual.0,
    }
}

#[cfg(test)]
mod tests;
