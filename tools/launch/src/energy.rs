//! Joules of a launch: it is repeated without a pause until the device's sensor gives its power to a
//! few percent, or a limit is reached. Owns the windows; refuses to give joules where no sensor of the
//! device is known.

use crate::measure::Subject;
use crate::stage::{Stage, StageError};
use clscope_clock::monotonic_raw;
use clscope_microbench::power::{Power, Sensors, Window};
use clscope_microbench::stats::Estimate;
use clscope_profile::interval::Interval;

/// The first window; each further one is twice as long.
const FIRST_NS: u64 = 1_500_000_000;
/// The longest window.
const LONGEST_NS: u64 = 24_000_000_000;
/// Half-width of the interval at which a window is long enough, relative to the value.
const GOOD: f64 = 0.03;

/// What a launch draws.
#[derive(Debug, Clone, PartialEq)]
pub struct Drawn {
    /// Joules of a launch, with what the device draws without work.
    pub joules: Interval,
    /// Joules of a launch above the power that the device drew just before, without work.
    pub above_idle: Option<Interval>,
    /// Mean watts while it ran.
    pub watts: Interval,
    /// Launches in the window.
    pub launches: usize,
    /// The window, nanoseconds.
    pub window_ns: u64,
    /// Performance counters in the window: name, unit, mean.
    pub counters: Vec<(String, &'static str, Interval)>,
}

/// What watching a device gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Watched {
    /// The sensor in words, or `none: ` and why.
    pub sensor: String,
    /// Each subject's figures, or why there are none.
    pub drawn: Vec<Result<Drawn, String>>,
}

/// Meters subjects. `counters` asks for the device's performance counters, too.
///
/// # Errors
/// What the runtime returned.
pub fn watch(
    stage: &Stage<'_>,
    subjects: &[Subject<'_>],
    times_ns: &[f64],
    counters: bool,
    stop: &dyn Fn() -> bool,
) -> Result<Watched, StageError> {
    let facts = stage.session.facts().clone();
    let mut length = FIRST_NS;
    loop {
        let sensors = match Sensors::start(counters) {
            Ok(sensors) => sensors,
            Err(error) => {
                let why = format!("none: the sampling thread could not be started: {error}");
                return Ok(nothing(why, subjects.len()));
            }
        };
        if !sensors.may_meter(facts.kind) {
            return Ok(nothing(sensors.finish(&facts).source().to_owned(), subjects.len()));
        }
        let idle = quiet(length / 2, stop);
        let mut windows = Vec::new();
        for (subject, time) in subjects.iter().zip(times_ns) {
            let busy = steady(stage, subject, *time, length, true, stop)?;
            // What restoring draws is measured by itself, and taken off.
            let restoring = match subject.restored {
                [] => None,
                _ => Some(steady(stage, subject, *time, length, false, stop)?),
            };
            windows.push((busy, restoring));
        }
        let power = sensors.finish(&facts);
        let floor = power.watts(idle);
        let drawn: Vec<_> = windows
            .iter()
            .map(|(busy, restoring)| drawn(&power, *busy, *restoring, floor))
            .collect();
        let good = |d: &Result<Drawn, String>| {
            d.as_ref().is_ok_and(|d| d.joules.relative().is_some_and(|share| share <= GOOD))
        };
        if drawn.iter().all(good) || length >= LONGEST_NS || stop() || !power.has_sensor() {
            return Ok(Watched { sensor: power.source().to_owned(), drawn });
        }
        length *= 2;
    }
}

fn nothing(sensor: String, subjects: usize) -> Watched {
    let drawn = (0..subjects).map(|_| Err(sensor.clone())).collect();
    Watched { sensor, drawn }
}

fn interval(of: Estimate) -> Interval {
    Interval::measured(of.value, of.low, of.high)
}

/// Joules of a launch: watts times the time of a launch with its gaps.
fn drawn(
    power: &Power,
    busy: Window,
    restoring: Option<Window>,
    floor: Option<Estimate>,
) -> Result<Drawn, String> {
    let few = || match power.has_sensor() {
        true => "the sensor gave too few readings in the window".to_owned(),
        false => power.source().to_owned(),
    };
    let per_launch = |watts: Estimate, window: Window| -> Option<Estimate> {
        (window.launches > 0)
            .then(|| watts.times(window.length_ns() as f64 * 1e-9 / window.launches as f64))
    };
    let watts = power.watts(busy).ok_or_else(few)?;
    let of = |floor: Option<Estimate>| -> Option<Estimate> {
        let above = |watts: Estimate| floor.map_or(watts, |floor| watts.minus(floor));
        let all = per_launch(above(watts), busy)?;
        let Some(window) = restoring else { return Some(all) };
        Some(all.minus(per_launch(above(power.watts(window)?), window)?))
    };
    let joules = of(None).ok_or_else(few)?;
    let counters = power.counters(busy);
    Ok(Drawn {
        joules: interval(joules),
        above_idle: floor.and_then(|floor| of(Some(floor))).map(interval),
        watts: interval(watts),
        launches: busy.launches,
        window_ns: busy.length_ns(),
        counters: counters.into_iter().map(|(name, unit, of)| (name, unit, interval(of))).collect(),
    })
}

/// A window without work.
fn quiet(length: u64, stop: &dyn Fn() -> bool) -> Window {
    let from = Window::opens();
    let until = monotonic_raw().0 + length;
    while monotonic_raw().0 < until && !stop() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    from.closes(0)
}

/// Keeps the device busy with a subject; without `launch` with restoring its memories alone.
fn steady(
    stage: &Stage<'_>,
    subject: &Subject<'_>,
    time_ns: f64,
    length: u64,
    launch: bool,
    stop: &dyn Fn() -> bool,
) -> Result<Window, StageError> {
    // A batch lasts some 50 ms, so that the gap until the next one does not count.
    let batch = (50e6 / time_ns.max(1000.0)).clamp(1.0, 1000.0) as usize;
    let from = Window::opens();
    let begun = monotonic_raw().0;
    let mut launches = 0;
    while monotonic_raw().0 - begun < length && !stop() {
        for _ in 0..batch {
            subject.restored.iter().try_for_each(|index| stage.restore(*index))?;
            if launch {
                stage.launch_untimed(subject.built, subject.range)?;
            }
        }
        stage.session.finish()?;
        launches += batch;
    }
    Ok(from.closes(launches))
}
