//! Owns the examination of sensors: each interface, whether it works, why not, and the one command
//! that gives access. Refuses to change anything on the system.
#![forbid(unsafe_code)]

use crate::{Finding, Status};
use clscope_capture::sources::Options;
use clscope_readings::Clocks;
use clscope_sensors::SensorSource;
use clscope_sensors::doctor::{Observation, State};
use std::time::{Duration, Instant};

/// Time after which a domain that never moved is called dead: a little more than the observation
/// needs.
const WATCH: Duration = Duration::from_millis(1_150);
/// Between reads while domains are watched.
const STEP: Duration = Duration::from_millis(50);

/// Looks at every interface and watches for a second which of their domains work.
/// The sources that could be opened come with it.
pub fn examine(options: &Options) -> (Vec<Finding>, Vec<Box<dyn SensorSource>>) {
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
    (opened.findings.iter().map(finding).collect(), opened.sources)
}

fn finding(of: &clscope_sensors::doctor::SensorFinding) -> Finding {
    let (status, detail) = match &of.state {
        State::Works => (Status::Ok, format!("works: {}", of.domains.join(", "))),
        State::Opened => {
            (Status::Info, format!("opened, not yet seen to change: {}", of.domains.join(", ")))
        }
        State::Absent => (
            Status::Info,
            format!("absent: {}", of.why.as_deref().unwrap_or("not on this machine")),
        ),
        State::Skipped(why) => (Status::Info, format!("left alone: {why}")),
        State::Refused(why) | State::Dead(why) => (Status::Warning, why.clone()),
    };
    let problems: Vec<&str> =
        of.problems.iter().filter(|p| !detail.contains(p.as_str())).map(String::as_str).collect();
    let detail =
        if problems.is_empty() { detail } else { format!("{detail}; {}", problems.join("; ")) };
    let finding = Finding::new("sensor", of.name.clone(), status, detail);
    match &of.remedy {
        // What is not on the machine needs no mending; a module that is not loaded may be worth
        // naming all the same.
        Some(remedy) => finding.fix(remedy.clone()),
        None => finding,
    }
}
