//! What a device draws while nothing runs: it is loaded, then watched until power and clocks no
//! longer change. Owns the watching and the states that are read from it; refuses a state for a
//! device whose sensor is not known.

use crate::bench::{Bench, CaseError, Settings};
use crate::change;
use crate::cl::{ClError, Device, Session};
use crate::power::{Metering, NoSampling, Power, Sensors, Window};
use crate::results::{self, CaseResult, Figure, Point};
use crate::stats;
use crate::suite::{self, flop};
use clscope_models::idle::{State, States};
use clscope_profile::interval::Interval;

/// How it is watched.
#[derive(Clone, Copy, Debug)]
pub struct Watching {
    /// Loaded for this long before, s.
    pub load_s: f64,
    /// Watched for at most this long, s.
    pub watch_s: f64,
    /// Times.
    pub runs: u32,
}

/// Length of one mean of the power while it is watched, ns.
const PIECE_NS: u64 = 400_000_000;
/// A state differs from the one before by this share of its watts at least.
const LEAST: f64 = 0.03;

/// Why there are no states.
#[derive(Debug, thiserror::Error)]
pub enum NoStates {
    /// No sensor.
    #[error("the device's power cannot be read: {0}")]
    Unmetered(String),
    /// OpenCL failed.
    #[error(transparent)]
    Cl(#[from] ClError),
    /// The load could not be run.
    #[error(transparent)]
    Load(#[from] CaseError),
    /// Nothing is sampled.
    #[error(transparent)]
    Unsampled(#[from] NoSampling),
}

/// Watches for so long, in pieces.
pub fn pieces(bench: &Bench<'_>, seconds: f64) -> Result<Vec<Window>, CaseError> {
    let mut windows = Vec::new();
    let begun = clscope_clock::monotonic_raw().0;
    while ((clscope_clock::monotonic_raw().0 - begun) as f64) < seconds * 1e9 {
        bench.check_stop()?;
        let from = Window::opens();
        std::thread::sleep(std::time::Duration::from_nanos(PIECE_NS));
        windows.push(from.closes(0));
    }
    Ok(windows)
}

/// One series of watts (and MHz) after a load: (seconds since its end, W, MHz).
type Series = Vec<(f64, f64, Option<f64>)>;

/// Loads and watches.
///
/// # Errors
/// Where there is no sensor, or the load cannot be run.
pub fn watch(
    device: &Device,
    watching: Watching,
    metering: &Metering,
    stop: &dyn Fn() -> bool,
) -> Result<(States, String), NoStates> {
    let sensors = Sensors::start(metering, false)?;
    let mut bench = Bench::new(Session::new(device)?, Settings::default(), stop);
    if !sensors.may_meter(device.facts.kind) {
        let power = sensors.finish(&bench.session);
        return Err(unmetered(&power));
    }
    let mut runs: Vec<Vec<Window>> = Vec::new();
    for _ in 0..watching.runs.max(1) {
        load(&mut bench, watching.load_s)?;
        runs.push(pieces(&bench, watching.watch_s)?);
    }
    let power = sensors.finish(&bench.session);
    let Ok(sensor) = power.source() else { return Err(unmetered(&power)) };
    let series: Vec<Series> = runs.iter().map(|windows| watched(&power, windows)).collect();
    match states(&series, watching.watch_s) {
        Some(states) => Ok((states, sensor.to_owned())),
        None => Err(NoStates::Unmetered(format!(
            "{sensor}: it gave too few readings while it was watched"
        ))),
    }
}

fn watched(power: &Power, windows: &[Window]) -> Series {
    let point = |(n, w): (usize, &Window)| {
        let at = (n + 1) as f64 * PIECE_NS as f64 * 1e-9;
        Some((at, power.watts(*w)?.value, power.clock_mhz(*w).map(|e| e.value)))
    };
    windows.iter().enumerate().filter_map(point).collect()
}

/// Adds to a case what the power after its load was: the series, and the states that are seen in
/// it.
pub(crate) fn after(case: &mut CaseResult, power: &Power, windows: &[Window]) {
    let series = watched(power, windows);
    if series.is_empty() {
        return;
    }
    let point =
        |(x, y, _): &(f64, f64, Option<f64>)| Point { x: *x, y: Interval::symmetric(*y, 0.0) };
    case.series.push(results::Series {
        name: "power after a load".to_owned(),
        x: "seconds after the load",
        y: "power, W",
        points: series.iter().map(point).collect(),
    });
    let watched_s = windows.len() as f64 * PIECE_NS as f64 * 1e-9;
    let Some(found) = states(&[series], watched_s) else {
        case.notes.push("no states: the sensor gave too few readings after the load".to_owned());
        return;
    };
    case.figures.push(Figure::known("states", "", found.states.len() as f64));
    for (n, state) in (1..).zip(&found.states) {
        let watts = state.watts;
        case.figures.push(Figure::new(format!("state_{n}_power"), "W", watts));
        // It begins and ends somewhere in a piece.
        let hold = state.held().map(|s| Interval::symmetric(s, PIECE_NS as f64 * 1e-9));
        case.figures.extend(hold.map(|s| Figure::new(format!("state_{n}_hold"), "s", s)));
    }
}

fn unmetered(power: &Power) -> NoStates {
    NoStates::Unmetered(power.source().err().unwrap_or("its sensor may not be used").to_owned())
}

/// Keeps the device busy with fused multiply-adds.
pub fn load(bench: &mut Bench<'_>, seconds: f64) -> Result<(), CaseError> {
    let variant = flop::Variant {
        shape: flop::Shape::Private,
        scalar: crate::job::Scalar::Float,
        op: flop::Op::Mad,
        width: 1,
    };
    let (groups, group) = suite::geometry(bench.facts(), &bench.settings);
    let begun = clscope_clock::monotonic_raw().0;
    while ((clscope_clock::monotonic_raw().0 - begun) as f64) < seconds * 1e9 {
        bench.measure(&variant.job(groups, group, &bench.settings), false)?;
    }
    Ok(())
}

/// States from series of (seconds since the load ended, watts, MHz). The runs' states are joined
/// where they have as many; else those of the run with the fewest stand for all.
fn states(series: &[Series], watched_s: f64) -> Option<States> {
    let each: Vec<Vec<State>> = series.iter().filter(|s| s.len() >= 8).map(of_one).collect();
    let fewest = each.iter().map(Vec::len).min()?;
    let alike: Vec<&Vec<State>> = each.iter().filter(|s| s.len() == fewest).collect();
    let states = (0..fewest)
        .map(|n| {
            let of = |get: fn(&State) -> f64| alike.iter().map(move |s| get(&s[n]));
            let count = alike.len() as f64;
            let holds: Option<Vec<f64>> = alike.iter().map(|s| s[n].hold_ns).collect();
            let clocks: Option<Vec<f64>> = alike.iter().map(|s| s[n].clock_mhz).collect();
            State {
                watts: Interval::estimated(
                    of(|s| s.watts.value).sum::<f64>() / count,
                    of(|s| s.watts.low).fold(f64::INFINITY, f64::min),
                    of(|s| s.watts.high).fold(0.0, f64::max),
                ),
                clock_mhz: clocks.and_then(|c| stats::median(&c)),
                hold_ns: holds.and_then(|h| stats::median(&h)),
            }
        })
        .collect();
    let watched_ns = watched_s * 1e9;
    Some(States { states, watched_ns, runs: u32::try_from(alike.len()).unwrap_or(1) })
}

fn of_one(series: &Series) -> Vec<State> {
    let points: Vec<(f64, f64)> = series.iter().map(|p| (p.0, p.1)).collect();
    let changes = change::steps(&points, LEAST);
    let mut out = Vec::new();
    let (mut from, mut begun) = (0, 0.0);
    for until in changes.iter().map(|c| Some(c.until)).chain([None]) {
        let to = until.map_or(points.len(), |u| points.partition_point(|p| p.0 < u));
        let here = &series[from..to];
        from = to;
        let watts: Vec<f64> = here.iter().map(|p| p.1).collect();
        let Some(mean) = stats::mean_of_series(&watts) else { continue };
        let clocks: Vec<f64> = here.iter().filter_map(|p| p.2).collect();
        // The piece before `until` still belongs to this state.
        let end = here.last().map_or(begun, |p| p.0);
        let (low, high) = if mean.low.is_finite() && mean.high.is_finite() {
            (mean.low.max(0.0), mean.high)
        } else {
            let fold = |f: fn(f64, f64) -> f64, a| watts.iter().copied().fold(a, f);
            (fold(f64::min, mean.value), fold(f64::max, mean.value))
        };
        out.push(State {
            watts: Interval::estimated(mean.value, low.min(mean.value), high.max(mean.value)),
            clock_mhz: stats::median(&clocks),
            hold_ns: until.map(|_| (end - begun) * 1e9),
        });
        begun = end;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(of: &[(usize, f64)]) -> Series {
        let mut out = Vec::new();
        for &(pieces, watts) in of {
            for _ in 0..pieces {
                let n = out.len() as f64 + 1.0;
                // A little noise, the same at each look.
                out.push((n * 0.4, watts * (1.0 + 0.004 * (n * 1.7).sin()), Some(watts * 10.0)));
            }
        }
        out
    }

    #[test]
    fn steps_of_power_are_states_with_their_hold_times() {
        let runs = vec![series(&[(25, 120.0), (12, 100.0), (60, 80.0)]); 3];
        let found = states(&runs, 39.0).unwrap();
        assert_eq!(found.states.len(), 3, "{found:?}");
        let holds: Vec<Option<f64>> = found.states.iter().map(State::held).collect();
        assert!((holds[0].unwrap() - 10.0).abs() < 0.5 && (holds[1].unwrap() - 4.8).abs() < 0.5);
        assert_eq!(holds[2], None);
        assert!((found.states[2].watts.value - 80.0).abs() < 1.0 && found.is_sound());
        assert_eq!(found.runs, 3);
    }

    #[test]
    fn a_level_series_is_one_state_and_a_short_one_none() {
        let found = states(&[series(&[(60, 119.0)])], 24.0).unwrap();
        assert_eq!((found.states.len(), found.states[0].hold_ns), (1, None));
        assert_eq!(states(&[series(&[(3, 119.0)])], 1.2), None);
    }
}
