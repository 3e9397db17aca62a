//! Time between commands in words: how much, in how many gaps, at what watts. Refuses where
//! launches were left out by sampling: what the device did then is not known.

use super::words::{joules, many, percent, time};
use super::{Lever, Statement};
use crate::device::Device;
use crate::facts::OnDevice;
use crate::figure::{Evidence, Figure};

/// Gaps shorter than this are the price of launching, not rest.
const REST_S: f64 = 1e-3;

pub(super) fn explain(of: &OnDevice, device: Option<&Device>) -> (Vec<Statement>, Vec<Lever>) {
    let (mut out, mut levers) = (Vec::new(), Vec::new());
    let Some(busy) = of.busy_s else { return (out, levers) };
    let idle: f64 = of.gaps.iter().sum();
    if of.gaps.is_empty() || idle <= 0.0 {
        return (out, levers);
    }
    let all = busy + idle;
    let rests: Vec<f64> = of.gaps.iter().copied().filter(|g| *g >= REST_S).collect();
    let short: f64 = of.gaps.iter().filter(|g| **g < REST_S).sum();
    out.push(Statement::new(
        "gaps",
        Evidence::Measured,
        format!(
            "idle {} of {} between its first and last command: {} of {} or more{}, shorter ones {}",
            percent(idle / all),
            time(all * 1e9),
            many(rests.len() as f64, "gaps"),
            time(REST_S * 1e9),
            if rests.is_empty() {
                String::new()
            } else {
                format!(" ({})", time(rests.iter().sum::<f64>() * 1e9))
            },
            time(short * 1e9)
        ),
    ));
    if short > 0.05 * all {
        levers.push(Lever {
            text: "commands enqueued ahead (no wait after each) would close the short gaps"
                .to_owned(),
            saves_ns: Some(Figure::new(short * 1e9, 0.0, short * 1e9, Evidence::Measured)),
            saves_joules: of.floor_watts.map(|w| {
                let most = w.times(short);
                Figure { low: 0.0, ..most }.modelled()
            }),
            evidence: Evidence::Measured,
        });
    }
    match device.and_then(|d| d.idle.as_ref()) {
        Some(states) => {
            let sum = of.gaps.iter().map(|g| states.joules(*g).value).sum::<f64>();
            let watts: Vec<String> = states
                .states
                .iter()
                .map(|s| match s.hold_ns {
                    Some(hold) => format!("{:.0} W for {}", s.watts.value, time(hold)),
                    None => format!("{:.0} W from then on", s.watts.value),
                })
                .collect();
            out.push(Statement::new(
                "states",
                Evidence::Modelled,
                format!("gaps take {} at {}", joules(sum), watts.join(", ")),
            ));
            let saved = states.saved_by_joining(&rests);
            if saved.value > 0.0 {
                let until = states.until_lowest().unwrap_or(0.0);
                levers.push(Lever {
                    text: format!(
                        "work in one piece would let the device rest: it takes {} to the lowest state",
                        time(until * 1e9)
                    ),
                    saves_ns: None,
                    saves_joules: Some(saved),
                    evidence: Evidence::Modelled,
                });
            }
        }
        None => {
            if let Some(watts) = of.floor_watts {
                out.push(Statement::new(
                    "states",
                    Evidence::Measured,
                    format!(
                        "gaps take {} at an idle power of {:.0} W",
                        joules(watts.value * idle),
                        watts.value
                    ),
                ));
            }
        }
    }
    (out, levers)
}
