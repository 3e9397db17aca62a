//! Owns idle power of a device: as it was measured before, fitted, or seen between launches. Refuses
//! to fit kernels.

use super::{ANOTHER_TIME, KnownFloor};
use clscope_analysis::energy::{self as fit, Floor, IdleLevels, Problem, Seconds, StateSpan};
use clscope_analysis::quantile::NORMAL_95;

/// The floors of a run, and where the device was in which.
pub(in crate::energy) struct Floors {
    pub floors: Vec<Floor>,
    pub states: Vec<StateSpan>,
    /// Whether the first was measured another time.
    pub measured_before: bool,
    /// What the user is told: why the one that was named was not used, or what is not known.
    pub told: Option<String>,
}

/// By how much a floor may exceed what the sensor read at the least: noise, and a warmer device.
const ABOVE_LEAST: f64 = 1.1;

/// A note where a floor that the user named is not used.
fn unused(known: Option<&KnownFloor>) -> Option<String> {
    known.filter(|known| known.asked).map(|known| {
        format!(
            "idle power of {} W ({}) is not used, because the run itself shows it",
            known.watts, known.source
        )
    })
}

/// Floors from idle time. Where the run shows none between or after commands, what kernels add
/// tells it, or what was measured another time, by which is known better. A state that a fit does
/// not distinguish from the one between launches is none.
pub(in crate::energy) fn floors_of(
    problem: &Problem<'_>,
    settle: f64,
    known: Option<&KnownFloor>,
) -> Floors {
    let mut out = choose(problem, settle, known);
    while out.floors.len() > 1 {
        let with = Problem { floors: &out.floors, states: &out.states, ..*problem };
        let twin = fit::attribute(&with).ok().and_then(|fit| fit::twin_of_first(&fit.floors));
        let Some(twin) = twin else { break };
        // The level that idle time showed is that of both.
        out.floors[0] = out.floors.remove(twin);
        out.states.retain(|span| span.state != twin);
        for span in out.states.iter_mut().filter(|span| span.state > twin) {
            span.state -= 1;
        }
        (out.measured_before, out.told) = (false, unused(known));
    }
    out
}

fn choose(problem: &Problem<'_>, settle: f64, known: Option<&KnownFloor>) -> Floors {
    let (activity, settle_s) = (problem.activity, Seconds(settle));
    let idle = fit::idle_levels(activity, problem.series, settle_s, problem.temperature);
    let asked = known.filter(|known| known.asked);
    // No floor lies above what the device drew.
    let above = fit::least_drawn(problem.activity, problem.series)
        .map(|least| least.0)
        .zip(known)
        .filter(|(least, known)| known.watts > ABOVE_LEAST * least);
    if let Some((least, known)) = above {
        let why = format!(
            "idle power of {} W ({}) is not used, because the device drew as little as {least:.0} W in this run",
            known.watts, known.source
        );
        let told = asked.is_some().then_some(why);
        return Floors { told, ..choose(problem, settle, None) };
    }
    let of_run = || Floors {
        floors: idle.floors(),
        states: idle.states.clone(),
        measured_before: false,
        told: unused(known),
    };
    let seen = || {
        let Some(found) = between_launches(&idle, problem, settle) else { return of_run() };
        let told = found.told.into_iter().chain(unused(known)).reduce(|a, b| a + "; " + &b);
        Floors { told, ..found }
    };
    // Without a level and without a table there is nothing to choose between.
    if !idle.only_before(problem.activity) || (idle.levels.is_empty() && known.is_none()) {
        return seen();
    }
    let (floors, states) = idle.below(Floor::Fitted);
    let fitted = fit::attribute(&Problem { floors: &floors, states: &states, ..*problem })
        .ok()
        .and_then(|result| result.floors.first()?.watts);
    if let Some(known) = known.filter(|known| !idle.reaches(fit::Watts(known.watts))) {
        let sd = (known.half / NORMAL_95).hypot(ANOTHER_TIME);
        if fitted.is_none_or(|watts| watts.half() > NORMAL_95 * sd) {
            let (floors, states) = idle.below(Floor::Known { rate: known.watts, sd });
            return Floors { floors, states, measured_before: true, told: None };
        }
    }
    // What was seen before the first command is the floor, unless what kernels add says otherwise.
    let settled = fitted.filter(|watts| watts.half() <= UNSETTLED * watts.value);
    match (fitted, settled) {
        (Some(watts), _) if !idle.reaches(fit::Watts(watts.low)) => {
            Floors { floors, states, ..of_run() }
        }
        (_, Some(_)) => seen(),
        // Nothing says whether it rested then as it does between launches.
        (_, None) => {
            let working = fit::while_working(problem.activity, problem.series, Seconds(settle));
            let least = working.map(|working| working.least);
            let between = least.and_then(|least| Some((least, idle.or_up_to(least)?)));
            let Some((least, floor)) = between else { return seen() };
            let (floors, states) = idle.below(floor);
            let told = format!(
                "idle power between launches is known to be at most {:.0} W, because the device was idle before its first command only: `clscope bench idle` measures it",
                least.0
            );
            Floors { floors, states, told: Some(told), ..of_run() }
        }
    }
}

/// Floors where the device drew less while it worked than at rest behind its last command.
fn between_launches(idle: &IdleLevels, problem: &Problem<'_>, settle: f64) -> Option<Floors> {
    let working = fit::while_working(problem.activity, problem.series, Seconds(settle))?;
    let (floors, states) = idle.below(idle.undercut(working)?);
    let told = format!(
        "idle power between launches is about {:.1} W: the device drew as little then, and {:.1} W before its first or after its last command",
        working.least.0,
        idle.levels.first()?.watts.0
    );
    Some(Floors { floors, states, measured_before: false, told: Some(told) })
}

/// Half-width of a fitted floor, as a share, beyond which it decides nothing.
const UNSETTLED: f64 = 0.1;
