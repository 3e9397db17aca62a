//! Calibrates sensors: how often each updates, and how late and in what shape it follows a load. Takes a few seconds and a
//! core. Refuses to change anything on the system.
#![forbid(unsafe_code)]

use super::Outcome;
use crate::calibration::{Entry, Subject};
use crate::doctor::{Finding, Status};
use crate::energy::readings;
use clscope_readings::Clocks;
use clscope_sensors::response::{self, Drive, Response, Search, Shape};
use clscope_sensors::{Clock, Quantity, RawNs, Source};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Reads are this far apart, and load comes and goes in turns of this length, so many of them.
const POLL: Duration = Duration::from_micros(500);
const TURN: Duration = Duration::from_millis(200);
const TURNS: u32 = 20;

/// One series while it is calibrated.
type Polls = Vec<(RawNs, f64)>;

/// Puts load on one core in turns and watches how sensors follow.
pub fn calibrate(mut sources: Vec<Box<dyn Source>>) -> Outcome {
    let mut polls: Vec<Vec<Polls>> = sources.iter().map(|s| vec![Polls::new(); s.domains().len()]).collect();
    let mut drive = vec![Drive { at: Clocks.raw(), level: 0.0 }];
    let (loaded, ended) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                if loaded.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                } else {
                    std::thread::sleep(Duration::from_micros(100));
                }
            }
        });
        for turn in 0..TURNS {
            loaded.store(turn % 2 == 1, Ordering::Relaxed);
            drive.push(Drive { at: Clocks.raw(), level: f64::from(turn % 2) });
            let from = Instant::now();
            while from.elapsed() < TURN {
                for (source, polls) in sources.iter_mut().zip(&mut polls) {
                    // A failure was told by the examination.
                    let _ = source.read(&mut Clocks, &mut |r| {
                        if let Some(polls) = polls.get_mut(r.domain.0) {
                            polls.push((r.stamp.mid(), r.value.magnitude()));
                        }
                    });
                }
                std::thread::sleep(POLL);
            }
        }
        ended.store(true, Ordering::Relaxed);
    });
    let mut out = Outcome::default();
    for (source, polls) in sources.iter().zip(&polls) {
        for (domain, polls) in source.domains().iter().zip(polls) {
            let (counter, power) = (matches!(domain.quantity, Quantity::Energy { .. }), matches!(domain.quantity, Quantity::Power { .. }));
            if !counter && !power {
                continue;
            }
            let name = format!("{} {}", source.name(), domain.name);
            let subject = Subject::Sensor { source: source.name().to_string(), domain: domain.name.to_string() };
            let mut entry = Entry::new(subject);
            let period = match response::updates(polls) {
                Ok(u) => {
                    entry =
                        entry.with("update-period-ns", u.period_ns, Some(u.period_error_ns)).with("update-jitter-ns", u.jitter_ns, None);
                    format!(
                        "updates every {:.3} ms +- {:.3}, jitter {:.3} ms, smallest step {}",
                        u.period_ns * 1e-6,
                        u.period_error_ns * 1e-6,
                        u.jitter_ns * 1e-6,
                        u.smallest_step
                    )
                }
                Err(why) => format!("update period not known: {why}"),
            };
            // A GPU does not follow a load on a core: its response is found by the fit, from the run itself.
            let follows = if domain.device.is_some() {
                String::new()
            } else {
                let (text, response) = answer(polls, counter, &drive);
                if let Some(r) = response {
                    let (name, width) = match r.shape {
                        Shape::FirstOrder { tau_ns } => (readings::LAG, tau_ns),
                        Shape::Boxcar { window_ns } => (readings::WINDOW, window_ns),
                    };
                    entry = entry.with(name, width, Some(2.0 * r.width_error_ns)).with(
                        readings::DELAY,
                        r.delay_ns,
                        Some(2.0 * r.delay_error_ns),
                    );
                }
                format!("; {text}")
            };
            out.findings.push(Finding::new("calibration", name, Status::Info, format!("{period}{follows}")));
            if !entry.figures.is_empty() {
                out.entries.push(entry);
            }
        }
    }
    out
}

/// How a sensor follows the load, in words, and the response where it is sure and the shapes can be told apart.
fn answer(polls: &Polls, counter: bool, drive: &[Drive]) -> (String, Option<Response>) {
    let readings = if counter { rates(polls) } else { polls.clone() };
    match response::fit(&readings, drive, &Search::default()) {
        Ok(r) => {
            let shape = match r.shape {
                Shape::FirstOrder { tau_ns } => format!("first-order lag of {:.1} ms", tau_ns * 1e-6),
                Shape::Boxcar { window_ns } => format!("mean over {:.1} ms", window_ns * 1e-6),
            };
            let sure = if r.is_shape_clear() { "" } else { " (the other shape fits as well)" };
            let text = format!("follows a load on one core with a {shape}{sure}, {:.1} ms late", r.delay_ns * 1e-6);
            let usable = r.is_shape_clear() && r.width_error_ns.is_finite() && r.delay_error_ns.is_finite();
            // A counter's means over ten milliseconds hide what is shorter.
            (text, (usable && !counter).then_some(r))
        }
        Err(why) => (format!("its response is not known: {why}"), None),
    }
}

/// Mean rate over stretches of ten milliseconds, at their ends.
fn rates(polls: &Polls) -> Polls {
    let mut out = Polls::new();
    let mut from: Option<(RawNs, f64)> = None;
    for (at, total) in polls {
        match from {
            Some((since, before)) if at.since(since) >= 10_000_000 => {
                if *total >= before {
                    out.push((*at, (total - before) / at.since(since) as f64));
                }
                from = Some((*at, *total));
            }
            Some(_) => {}
            None => from = Some((*at, *total)),
        }
    }
    out
}
