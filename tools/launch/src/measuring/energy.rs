//! Joules of a launch: it is repeated without a pause until the device's sensor gives its power to
//! a few percent, or a limit is reached. Owns the windows; refuses to give joules where no sensor
//! of the device is known.

use crate::measure::Subject;
use crate::stage::{Stage, StageError};
use clscope_clock::monotonic_raw;
use clscope_io::text::chain;
use clscope_microbench::power::{Metering, Power, Sensors, Window};
use clscope_opencl::Session;
use clscope_profile::interval::Interval;
use clscope_profile::measured::{self, Measured};
use std::path::Path;

/// The first window; each further one is at least twice as long.
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

/// The sensors of the system, or of a tree in a folder.
fn below(root: Option<&Path>) -> Metering {
    Metering { root: root.map(Path::to_owned), ..Metering::default() }
}

/// What is done over and over while a sensor is read.
#[derive(Clone, Copy)]
pub(crate) struct Repeated<'w> {
    /// Where.
    pub session: &'w Session,
    /// Once, with what is restored before.
    pub run: &'w dyn Fn() -> Result<(), StageError>,
    /// Restoring alone, where something is restored.
    pub restore: Option<&'w dyn Fn() -> Result<(), StageError>>,
}

/// Calls a function with what repeats a subject.
pub(crate) fn repeated<R>(
    stage: &Stage<'_>,
    subject: &Subject<'_>,
    then: impl FnOnce(&Repeated<'_>) -> R,
) -> R {
    let restore = || -> Result<(), StageError> {
        subject.restored.iter().try_for_each(|at| stage.put_back(*at).map(drop))?;
        Ok(())
    };
    let run = || -> Result<(), StageError> {
        restore()?;
        stage.launch_untimed(subject.built, subject.range)?;
        Ok(())
    };
    let restores = !subject.restored.is_empty();
    then(&Repeated {
        session: &stage.session,
        run: &run,
        restore: if restores { Some(&restore) } else { None },
    })
}

/// Meters subjects with the sensors of the system, or of a tree in a folder. `counters` asks for
/// the device's performance counters, too. `begins` is told how long metering takes at most, in
/// nanoseconds, before it begins.
///
/// # Errors
/// What the runtime returned.
pub fn watch(
    stage: &Stage<'_>,
    subjects: &[Subject<'_>],
    times_ns: &[f64],
    (root, counters): (Option<&Path>, bool),
    (begins, stop): (&dyn Fn(u64), &dyn Fn() -> bool),
) -> Result<Watched, StageError> {
    let facts = stage.session.facts().clone();
    let mut length = FIRST_NS;
    let mut told = false;
    loop {
        let sensors = match Sensors::start(&below(root), counters) {
            Ok(sensors) => sensors,
            Err(error) => return Ok(nothing(&chain(&error), subjects.len())),
        };
        if !sensors.may_meter(facts.kind) {
            let power = sensors.finish(&stage.session);
            return Ok(nothing(missing(&power), subjects.len()));
        }
        if !std::mem::replace(&mut told, true) {
            let windows = subjects.iter().map(|s| if s.restored.is_empty() { 1 } else { 2 });
            begins(longest(windows.sum()));
        }
        let idle = quiet(length / 2, stop);
        let mut windows = Vec::new();
        for (subject, time) in subjects.iter().zip(times_ns) {
            // What restoring draws is measured by itself, and taken off.
            windows.push(repeated(stage, subject, |of| of.windows((*time, length), stop))?);
        }
        let power = sensors.finish(&stage.session);
        let floor = power.watts(idle);
        let drawn: Vec<_> = windows
            .iter()
            .map(|(busy, restoring)| drawn(&power, *busy, *restoring, floor))
            .collect();
        let shares = drawn.iter().map(|d| d.as_ref().ok().and_then(|d| d.joules.relative()));
        let next = further(length, shares);
        match next {
            Some(next) if !stop() && power.has_sensor() => length = next,
            _ => return Ok(Watched { sensor: power.source().ok().map(str::to_owned), drawn }),
        }
    }
}

/// Windows of a launch between windows without work.
#[derive(Debug, Clone, PartialEq)]
pub struct Turns {
    /// The sensor in words; none where there is none.
    pub sensor: Option<String>,
    /// The windows, in order; or why there are none.
    pub windows: Result<Vec<measured::Window>, String>,
    /// Performance counters in the last window.
    pub counters: Vec<measured::Counter>,
}

/// Turns that are wanted of a launch: what they differ by tells how well it is known.
const TURNS: u64 = 3;
/// The shortest window: a sensor's response to what was before, and some of its readings.
const SHORTEST_NS: u64 = 500_000_000;
/// The longest window: more turns tell more than longer ones.
const LONG_NS: u64 = 3_000_000_000;

/// How long the windows of a launch are and how many there are of them, in a time: nanoseconds of a
/// window, and turns. A window without work is half as long.
fn turns_within(budget_ns: u64, restores: bool) -> (u64, u64) {
    // Half-windows of a turn: without work before, the launch, restoring; one without work behind.
    let halves = if restores { 5 } else { 3 };
    let length = |turns: u64| 2 * budget_ns / (halves * turns + 1);
    let turns = (1..=TURNS).rev().find(|turns| length(*turns) >= SHORTEST_NS).unwrap_or(1);
    let mut turns = turns;
    while turns >= TURNS && length(turns) > LONG_NS {
        turns += 1;
    }
    (length(turns).clamp(SHORTEST_NS, LONG_NS), turns)
}

/// The least time that a launch is metered for, in nanoseconds, in as many turns as are wanted, or
/// in a single one.
pub fn least_ns(restores: bool, is_single: bool) -> u64 {
    let turns = if is_single { 1 } else { TURNS };
    SHORTEST_NS * ((if restores { 5 } else { 3 }) * turns + 1) / 2
}

impl Turns {
    /// Gives what was metered to the line of a measurement.
    pub(crate) fn give_to(self, out: &mut Measured) {
        (out.sensor, out.counters) = (self.sensor, self.counters);
        match self.windows {
            Err(why) => out.energy_missing = Some(why),
            Ok(windows) => out.windows = windows,
        }
    }
}

/// Meters something for about a time, in turns with windows without work and, where memories are
/// restored before each launch, with windows of restoring alone. An interruption leaves the turns
/// that were whole.
///
/// # Errors
/// What the runtime returned.
pub(crate) fn turns(
    of: &Repeated<'_>,
    (time_ns, budget_ns): (f64, u64),
    (root, counters): (Option<&Path>, bool),
    stop: &dyn Fn() -> bool,
) -> Result<Turns, StageError> {
    let facts = of.session.facts().clone();
    let without =
        |why: &str| Ok(Turns { sensor: None, windows: Err(why.to_owned()), counters: Vec::new() });
    let sensors = match Sensors::start(&below(root), counters) {
        Ok(sensors) => sensors,
        Err(error) => return without(&chain(&error)),
    };
    if !sensors.may_meter(facts.kind) {
        let power = sensors.finish(of.session);
        return without(missing(&power));
    }
    let restores = of.restore.is_some();
    let (length, turns) = turns_within(budget_ns, restores);
    let mut idle = vec![quiet(length / 2, stop)];
    let mut ran = Vec::new();
    for _ in 0..turns {
        let (busy, aside) = of.windows((time_ns, length), stop)?;
        let behind = quiet(length / 2, stop);
        if stop() {
            break;
        }
        ran.push((busy, aside));
        idle.push(behind);
    }
    let power = sensors.finish(of.session);
    let Ok(sensor) = power.source().map(str::to_owned) else { return without(missing(&power)) };
    let mut windows = Vec::new();
    for ((busy, aside), around) in ran.iter().zip(idle.windows(2)) {
        windows.extend(window(&power, *busy, *aside, around));
    }
    let counters = ran.last().map_or_else(Vec::new, |(busy, _)| power.counters(*busy));
    let counters = counters.into_iter().map(|(name, unit, mean)| measured::Counter {
        name,
        unit: unit.to_owned(),
        mean: as_measured(mean),
    });
    let few = "the sensor gave too few readings in the windows";
    Ok(Turns {
        sensor: Some(sensor),
        windows: if windows.is_empty() { Err(few.to_owned()) } else { Ok(windows) },
        counters: counters.collect(),
    })
}

/// What a sensor says of a turn; `around`: the windows without work before and behind.
fn window(
    power: &Power,
    busy: Window,
    restoring: Option<Window>,
    around: &[Window],
) -> Option<measured::Window> {
    let seconds = busy.length_ns() as f64 * 1e-9;
    let idle: Vec<Interval> = around.iter().filter_map(|of| power.watts(*of)).collect();
    let of = |count: usize| 1.0 / count as f64;
    let (mean, half) = idle.iter().fold((0.0, 0.0_f64), |(mean, half), one| {
        (mean + one.value * of(idle.len()), half.hypot(one.half() * of(idle.len())))
    });
    let restoring = match restoring {
        None => None,
        Some(window) => Some(measured::Restoring {
            watts: as_measured(power.watts(window)?),
            seconds: window.launches_per_ns().map(|rate| 1e-9 / rate)?,
        }),
    };
    let is_known = busy.launches > 0 && !idle.is_empty();
    Some(measured::Window {
        seconds,
        launches: busy.launches as u64,
        watts: as_measured(power.watts(busy).filter(|_| is_known)?),
        idle_watts: as_measured(Interval::symmetric(mean, half)),
        restoring,
    })
}

/// The part of the windows' energy that restoring takes, power at rest included: what is added to
/// rest may be next to nothing, and then says nothing.
pub fn restoring_share(windows: &[measured::Window]) -> Option<f64> {
    let parts = windows.iter().filter_map(|of| {
        let restoring = of.restoring.as_ref()?;
        let aside = restoring.watts.value * restoring.seconds * of.launches as f64;
        Some((aside, of.watts.value * of.seconds))
    });
    let (aside, all) = parts.fold((0.0, 0.0), |(a, b), (aside, all)| (a + aside, b + all));
    (all > 0.0).then(|| aside / all)
}

/// The window that follows one of `length`, by the half-widths of what it gave, relative to the
/// values; none where it was long enough, or the longest. What is expected to suffice is taken at
/// once: half-widths of means shrink with the square root of the window.
fn further(length: u64, shares: impl Iterator<Item = Option<f64>>) -> Option<u64> {
    // What is not known is as far away as can be.
    let known = |share: Option<f64>| share.filter(|s| !s.is_nan()).unwrap_or(f64::INFINITY);
    let worst = shares.map(known).fold(0.0, f64::max);
    if worst <= GOOD || length >= LONGEST_NS {
        return None;
    }
    let wanted = (length as f64 * (worst / GOOD).powi(2)) as u64;
    let next = wanted.max(2 * length);
    // No window is followed by one that is hardly longer.
    Some(if next > LONGEST_NS / 2 { LONGEST_NS } else { next })
}

/// How long metering takes at most, in nanoseconds, with so many windows in each turn: each turn
/// lasts twice as long as the one before, and begins with half a window without work.
fn longest(windows: u64) -> u64 {
    let lengths = std::iter::successors(Some(FIRST_NS), |length| {
        (*length < LONGEST_NS).then_some(2 * length)
    });
    lengths.map(|length| length / 2 + windows * length).sum()
}

/// Why there are no joules of a device.
fn missing(power: &Power) -> &str {
    power.source().err().unwrap_or("the device's sensor may not be used")
}

fn nothing(why: &str, subjects: usize) -> Watched {
    let drawn = (0..subjects).map(|_| Err(why.to_owned())).collect();
    Watched { sensor: None, drawn }
}

/// Readings of this process's own windows, no fit.
fn as_measured(of: Interval) -> Interval {
    Interval { estimated: false, ..of }
}

/// What was done over and over in a window.
#[derive(Clone, Copy)]
struct Ran {
    /// Mean power.
    watts: Interval,
    /// Time of one turn, with its gaps.
    seconds: f64,
}

/// Joules of a launch: watts times the time of a turn, less those of restoring memories; above a
/// floor where one is given.
fn per_launch(of: Ran, restoring: Option<Ran>, floor: Option<Interval>) -> Interval {
    let joules =
        |ran: Ran| floor.map_or(ran.watts, |floor| ran.watts.minus(floor)).times(ran.seconds);
    restoring.map_or(joules(of), |aside| joules(of).minus(joules(aside)))
}

/// What a sensor says of the windows of a subject.
fn drawn(
    power: &Power,
    busy: Window,
    restoring: Option<Window>,
    floor: Option<Interval>,
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
        joules: as_measured(joules),
        above_idle: floor.map(|floor| as_measured(per_launch(of, aside, Some(floor)))),
        watts: as_measured(watts),
        launches: busy.launches,
        window_ns: busy.length_ns(),
        counters: counters
            .into_iter()
            .map(|(name, unit, of)| (name, unit, as_measured(of)))
            .collect(),
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

impl Repeated<'_> {
    /// A window of it and, where something is restored, one of restoring alone; `time_ns`: of one.
    fn windows(
        &self,
        (time_ns, length): (f64, u64),
        stop: &dyn Fn() -> bool,
    ) -> Result<(Window, Option<Window>), StageError> {
        let window = |of| steady(self.session, of, (time_ns, length), stop);
        Ok((window(self.run)?, self.restore.map(window).transpose()?))
    }
}

/// Keeps the device busy with something that takes so many nanoseconds, for as long as a window is.
fn steady(
    session: &Session,
    run: &dyn Fn() -> Result<(), StageError>,
    (time_ns, length): (f64, u64),
    stop: &dyn Fn() -> bool,
) -> Result<Window, StageError> {
    // A batch lasts some 50 ms, so that the gap until the next one does not count.
    let batch = (50e6 / time_ns.max(1000.0)).clamp(1.0, 1000.0) as usize;
    let from = Window::opens();
    let begun = monotonic_raw().0;
    let mut launches = 0;
    while monotonic_raw().0 - begun < length && !stop() {
        (0..batch).try_for_each(|_| run())?;
        session.finish()?;
        launches += batch;
    }
    Ok(from.closes(launches))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restoring_and_the_floor_are_taken_off() {
        let ran = |watts, seconds| Ran { watts: Interval::symmetric(watts, 1.0), seconds };
        let (busy, aside) = (ran(100.0, 0.002), ran(80.0, 0.001));
        let floor = Interval::symmetric(50.0, 0.0);
        let near = |of: Interval, joules: f64| assert!((of.value - joules).abs() < 1e-12, "{of:?}");
        near(per_launch(busy, None, None), 0.2);
        near(per_launch(busy, None, Some(floor)), 0.1);
        near(per_launch(busy, Some(aside), None), 0.12);
        near(per_launch(busy, Some(aside), Some(floor)), 0.07);
        // Independent errors add in squares: 2 mJ of the launch, 1 mJ of restoring.
        let half = per_launch(busy, Some(aside), None).half();
        assert!((half - 0.002f64.hypot(0.001)).abs() < 1e-12, "{half}");
    }

    #[test]
    fn windows_grow_to_what_is_expected_to_suffice_and_end() {
        let next = |length, shares: &[f64]| further(length, shares.iter().map(|s| Some(*s)));
        assert_eq!(next(FIRST_NS, &[0.01, 0.03]), None);
        // Twice as far away: four times as long, and the worst one counts.
        assert_eq!(next(FIRST_NS, &[0.06, 0.01]), Some(4 * FIRST_NS));
        // A little too far: twice as long, since that is an estimate, too.
        assert_eq!(next(FIRST_NS, &[0.031]), Some(2 * FIRST_NS));
        // No more than the longest.
        assert_eq!(next(FIRST_NS, &[0.9]), Some(LONGEST_NS));
        assert_eq!(further(FIRST_NS, [None].into_iter()), Some(LONGEST_NS));
        assert_eq!(next(LONGEST_NS, &[0.9]), None);
        // Whatever comes, it takes no longer than was said.
        for share in [0.031, 0.05, 0.1, f64::NAN, f64::INFINITY] {
            let windows = |length: &u64| next(*length, &[share]);
            let all = std::iter::successors(Some(FIRST_NS), windows);
            let took: u64 = all.map(|length| length / 2 + 2 * length).sum();
            assert!(took <= longest(2), "{share}: {took}");
        }
        assert_eq!(longest(1), 69_750_000_000);
    }

    #[test]
    fn turns_fill_their_time_and_keep_windows_that_sensors_can_follow() {
        for restores in [false, true] {
            let halves = if restores { 5 } else { 3 };
            let takes = |(length, turns): (u64, u64)| length / 2 * (halves * turns + 1);
            for budget in [1u64, 1_000_000_000, 5_000_000_000, 20_000_000_000, 120_000_000_000] {
                let of = turns_within(budget, restores);
                assert!((SHORTEST_NS..=LONG_NS).contains(&of.0) && of.1 >= 1, "{budget}: {of:?}");
                if budget >= least_ns(restores, false) {
                    assert!(of.1 >= TURNS, "{budget}: {of:?}");
                    assert!(takes(of) <= budget, "{budget}: {of:?}");
                    assert!(takes(of) * 10 >= budget * 8, "{budget}: {of:?}");
                } else {
                    assert!(takes(of) <= budget.max(takes((SHORTEST_NS, 1))), "{budget}: {of:?}");
                }
            }
        }
    }

    #[test]
    fn the_part_of_restoring_is_that_of_the_energy() {
        let of = |watts: f64, restoring: Option<(f64, f64)>| measured::Window {
            seconds: 1.0,
            launches: 100,
            watts: Interval::around(watts, 1.0),
            idle_watts: Interval::around(80.0, 1.0),
            restoring: restoring.map(|(watts, seconds)| measured::Restoring {
                watts: Interval::around(watts, 1.0),
                seconds,
            }),
        };
        assert_eq!(restoring_share(&[of(200.0, None)]), None);
        // 120 W for half of the time, of 200 W for all of it.
        let share = restoring_share(&[of(200.0, Some((120.0, 0.005))); 2]).unwrap();
        assert!((share - 0.3).abs() < 1e-12, "{share}");
        // A launch that adds nothing to rest, whose restoring takes next to no time.
        let share = restoring_share(&[of(80.0, Some((81.0, 1e-5)))]).unwrap();
        assert!(share < 1.1e-3, "{share}");
    }

    #[test]
    fn each_subject_is_told_why_there_is_nothing() {
        let of = nothing("no sensor", 2);
        assert_eq!(of.sensor, None);
        assert_eq!(of.drawn, [Err("no sensor".to_owned()), Err("no sensor".to_owned())]);
    }
}
