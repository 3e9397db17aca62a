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
    /// The sensor in words; none where there is none.
    pub sensor: Option<String>,
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
                let why = format!("the sampling thread could not be started: {error}");
                return Ok(nothing(&why, subjects.len()));
            }
        };
        if !sensors.may_meter(facts.kind) {
            let power = sensors.finish(&facts);
            return Ok(nothing(missing(&power), subjects.len()));
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
            return Ok(Watched { sensor: power.source().ok().map(str::to_owned), drawn });
        }
        length *= 2;
    }
}

/// Why there are no joules of a device.
fn missing(power: &Power) -> &str {
    power.source().err().unwrap_or("the device's sensor may not be used")
}

fn nothing(why: &str, subjects: usize) -> Watched {
    let drawn = (0..subjects).map(|_| Err(why.to_owned())).collect();
    Watched { sensor: None, drawn }
}

fn interval(of: Estimate) -> Interval {
    Interval::measured(of.value, of.low, of.high)
}

/// What was done over and over in a window.
#[derive(Clone, Copy)]
struct Ran {
    /// Mean power.
    watts: Estimate,
    /// Time of one turn, with its gaps.
    seconds: f64,
}

/// Joules of a launch: watts times the time of a turn, less those of restoring memories; above a
/// floor where one is given.
fn per_launch(of: Ran, restoring: Option<Ran>, floor: Option<Estimate>) -> Estimate {
    let joules =
        |ran: Ran| floor.map_or(ran.watts, |floor| ran.watts.minus(floor)).times(ran.seconds);
    restoring.map_or(joules(of), |aside| joules(of).minus(joules(aside)))
}

/// What a sensor says of the windows of a subject.
fn drawn(
    power: &Power,
    busy: Window,
    restoring: Option<Window>,
    floor: Option<Estimate>,
) -> Result<Drawn, String> {
    let few = || match power.has_sensor() {
        true => "the sensor gave too few readings in the window".to_owned(),
        false => missing(power).to_owned(),
    };
    let seconds = |window: Window| {
        (window.launches > 0).then(|| window.length_ns() as f64 * 1e-9 / window.launches as f64)
    };
    let ran = |window: Window| Some(Ran { watts: power.watts(window)?, seconds: seconds(window)? });
    let of = ran(busy).ok_or_else(few)?;
    let aside = restoring.map(|window| ran(window).ok_or_else(few)).transpose()?;
    let watts = of.watts;
    let joules = per_launch(of, aside, None);
    let counters = power.counters(busy);
    Ok(Drawn {
        joules: interval(joules),
        above_idle: floor.map(|floor| interval(per_launch(of, aside, Some(floor)))),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restoring_and_the_floor_are_taken_off() {
        let ran = |watts, seconds| Ran { watts: Estimate::symmetric(watts, 1.0), seconds };
        let (busy, aside) = (ran(100.0, 0.002), ran(80.0, 0.001));
        let floor = Estimate::symmetric(50.0, 0.0);
        let near = |of: Estimate, joules: f64| assert!((of.value - joules).abs() < 1e-12, "{of:?}");
        near(per_launch(busy, None, None), 0.2);
        near(per_launch(busy, None, Some(floor)), 0.1);
        near(per_launch(busy, Some(aside), None), 0.12);
        near(per_launch(busy, Some(aside), Some(floor)), 0.07);
        // Independent errors add in squares: 2 mJ of the launch, 1 mJ of restoring.
        let half = per_launch(busy, Some(aside), None).half();
        assert!((half - 0.002f64.hypot(0.001)).abs() < 1e-12, "{half}");
    }

    #[test]
    fn each_subject_is_told_why_there_is_nothing() {
        let of = nothing("no sensor", 2);
        assert_eq!(of.sensor, None);
        assert_eq!(of.drawn, [Err("no sensor".to_owned()), Err("no sensor".to_owned())]);
    }
}
