//! Owns the examination of sensors: each interface, whether it works, why not, and the one command that gives access; and
//! their calibration, which takes a few seconds and a core. Refuses to change anything on the system.

use super::{Finding, Status};
use crate::energy::sources::Options;
use crate::record::sampler::Clocks;
use clscope_sensors::doctor::{Observation, State};
use clscope_sensors::response::{self, Drive, Search, Shape};
use clscope_sensors::{Clock, Quantity, RawNs, Source};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time after which a domain that never moved is called dead: a little more than the observation needs.
const WATCH: Duration = Duration::from_millis(1_150);
/// Between reads while domains are watched.
const STEP: Duration = Duration::from_millis(50);
/// Calibration: reads are this far apart, and load comes and goes in turns of this length, so many of them.
const POLL: Duration = Duration::from_micros(500);
const TURN: Duration = Duration::from_millis(200);
const TURNS: u32 = 20;

/// Looks at every interface and watches for a second which of their domains work.
pub fn examine(options: &Options, calibrate: bool) -> Vec<Finding> {
    let mut opened = options.open(None);
    if !opened.sources.is_empty() {
        let mut observation = Observation::new(&opened.sources);
        let from = Instant::now();
        while !observation.read(&mut opened.sources, &mut Clocks) && from.elapsed() < WATCH {
            std::thread::sleep(STEP);
        }
        let known: Vec<usize> = opened.finding_of.iter().map(|f| f.unwrap_or(usize::MAX)).collect();
        observation.conclude(&mut opened.findings, &known);
    }
    let mut out: Vec<Finding> = opened.findings.iter().map(finding).collect();
    if calibrate {
        out.extend(self::calibrate(opened.sources));
    }
    out
}

fn finding(of: &clscope_sensors::doctor::Finding) -> Finding {
    let (status, detail) = match &of.state {
        State::Works => (Status::Ok, format!("works: {}", of.domains.join(", "))),
        State::Opened => (Status::Info, format!("opened, not yet seen to change: {}", of.domains.join(", "))),
        State::Absent => (Status::Info, format!("absent: {}", of.why.as_deref().unwrap_or("not on this machine"))),
        State::Skipped(why) => (Status::Info, format!("left alone: {why}")),
        State::Refused(why) | State::Dead(why) => (Status::Warning, why.clone()),
    };
    let problems: Vec<&str> = of.problems.iter().filter(|p| !detail.contains(p.as_str())).map(String::as_str).collect();
    let detail = if problems.is_empty() { detail } else { format!("{detail}; {}", problems.join("; ")) };
    let finding = Finding::new("sensor", of.name.clone(), status, detail);
    match &of.remedy {
        // What is not on the machine needs no mending; a module that is not loaded may be worth naming all the same.
        Some(remedy) => finding.fix(remedy.clone()),
        None => finding,
    }
}

/// One series while it is calibrated.
type Polls = Vec<(RawNs, f64)>;

/// Puts load on one core in turns and watches how sensors follow.
fn calibrate(mut sources: Vec<Box<dyn Source>>) -> Vec<Finding> {
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
    let mut out = Vec::new();
    for (source, polls) in sources.iter().zip(&polls) {
        for (domain, polls) in source.domains().iter().zip(polls) {
            let (counter, power) = (matches!(domain.quantity, Quantity::Energy { .. }), matches!(domain.quantity, Quantity::Power { .. }));
            if !counter && !power {
                continue;
            }
            let name = format!("{} {}", source.name(), domain.name);
            let period = match response::updates(polls) {
                Ok(u) => format!(
                    "updates every {:.3} ms +- {:.3}, jitter {:.3} ms, smallest step {}",
                    u.period_ns * 1e-6,
                    u.period_error_ns * 1e-6,
                    u.jitter_ns * 1e-6,
                    u.smallest_step
                ),
                Err(why) => format!("update period not known: {why}"),
            };
            // A GPU does not follow a load on a core: its response is found by the fit, from the run itself.
            let follows = if domain.device.is_some() { String::new() } else { format!("; {}", answer(polls, counter, &drive)) };
            out.push(Finding::new("calibration", name, Status::Info, format!("{period}{follows}")));
        }
    }
    out
}

fn answer(polls: &Polls, counter: bool, drive: &[Drive]) -> String {
    let readings = if counter { rates(polls) } else { polls.clone() };
    match response::fit(&readings, drive, &Search::default()) {
        Ok(r) => {
            let shape = match r.shape {
                Shape::FirstOrder { tau_ns } => format!("first-order lag of {:.1} ms", tau_ns * 1e-6),
                Shape::Boxcar { window_ns } => format!("mean over {:.1} ms", window_ns * 1e-6),
            };
            let sure = if r.is_shape_clear() { "" } else { " (the other shape fits as well)" };
            format!("follows a load on one core with a {shape}{sure}, {:.1} ms late", r.delay_ns * 1e-6)
        }
        Err(why) => format!("its response is not known: {why}"),
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
