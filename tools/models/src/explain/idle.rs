//! Time between commands in words: how much, in how many gaps, at what watts. Refuses where
//! launches were left out by sampling: what the device did then is not known.

use super::words::Sentence;
use super::{Lever, Over, Statement};
use crate::device::Device;
use crate::facts::OnDevice;
use crate::figure::{Evidence, Figure};
use crate::idle::{State, States};

/// Gaps shorter than this are the price of launching, not rest.
const REST_S: f64 = 1e-3;

pub(super) fn explain(of: &OnDevice, device: Option<&Device>) -> (Vec<Statement>, Vec<Lever>) {
    let (mut out, mut levers) = (Vec::new(), Vec::new());
    let Some(busy) = of.busy_s else { return (out, levers) };
    let idle: f64 = of.gaps.iter().sum();
    if of.gaps.is_empty() || idle <= 0.0 {
        return (out, levers);
    }
    let measured = |value| Figure::exact(value, Evidence::Measured);
    let all = busy + idle;
    let rests: Vec<f64> = of.gaps.iter().copied().filter(|g| *g >= REST_S).collect();
    let gaps = of.gaps.len() as u64;
    let short: f64 = of.gaps.iter().filter(|g| **g < REST_S).sum();
    let mut text = Sentence::from("idle ")
        .share("idle", measured(idle / all))
        .put(" of ")
        .time("from the first to the last command", measured(all * 1e9))
        .put(" between its first and last command: ")
        .count(rests.len() as u64, "gap", "gaps")
        .put(" of ")
        .time("shortest of them", measured(REST_S * 1e9))
        .put(" or more");
    if !rests.is_empty() {
        let sum = measured(rests.iter().sum::<f64>() * 1e9);
        text = text.put(" (").time("all of them", sum).put(")");
    }
    if short > 0.0 {
        text = text.put(", shorter ones ").time("all shorter ones", measured(short * 1e9));
    }
    out.push(Statement::new("gaps", Evidence::Measured, text));
    if short > 0.05 * all {
        let text = "commands enqueued ahead (no wait after each) would close the short gaps";
        let saves = Figure::new(short * 1e9, 0.0, short * 1e9, Evidence::Modelled);
        let over = Over::gaps(gaps - rests.len() as u64);
        levers.push(Lever {
            saves_joules: of.floor_watts.map(|w| {
                let most = w.times(short).high;
                Figure::new(most, 0.0, most, Evidence::Modelled)
            }),
            ..Lever::new(over, Evidence::Measured, text).saving(Some(saves))
        });
    }
    match device.and_then(|d| d.idle.as_ref()) {
        Some(states) => {
            let sum = of.gaps.iter().fold(Figure::exact(0.0, Evidence::Modelled), |sum, gap| {
                let more = states.joules(*gap);
                // Watts of a state are wrong in all gaps alike.
                Figure {
                    value: sum.value + more.value,
                    low: sum.low + more.low,
                    high: sum.high + more.high,
                    ..sum
                }
            });
            let watts = Sentence::list(states.states.iter().map(held), ", ");
            let text = Sentence::from("gaps take ").joules("gaps", sum).put(" at ").join(watts);
            out.push(Statement::new("states", Evidence::Modelled, text));
            levers.extend(joined(states, &rests));
        }
        None => {
            if let Some(watts) = of.floor_watts {
                let text = Sentence::from("gaps take ")
                    .joules("gaps", watts.times(idle))
                    .put(" at an idle power of ")
                    .watts("idle power", watts);
                out.push(Statement::new("states", Evidence::Measured, text));
            }
        }
    }
    (out, levers)
}

/// A state, and for how long it is held.
fn held(of: &State) -> Sentence {
    let watts = Sentence::default().watts("state", Figure::measured(of.watts));
    match of.hold_ns {
        Some(hold) => watts.put(" for ").time("held", Figure::exact(hold, Evidence::Measured)),
        None => watts.put(" from then on"),
    }
}

/// What one long rest saves instead of several.
fn joined(states: &States, rests: &[f64]) -> Option<Lever> {
    let saved = states.saved_by_joining(rests);
    if saved.value <= 0.0 {
        return None;
    }
    let until = Figure::exact(states.until_lowest().unwrap_or(0.0), Evidence::Measured);
    let text = Sentence::from("work in one piece would let the device rest: it takes ")
        .time("until the lowest state", until)
        .put(" to the lowest state");
    let lever = Lever::new(Over::gaps(rests.len() as u64), Evidence::Modelled, text);
    Some(Lever { saves_joules: Some(saved), ..lever })
}
