//! Owns calibration: which parts are measured; what they found is reported and
//! kept. Each part has a module and gives an [`Calibration`]; refuses to know what any of them
//! measures.
#![forbid(unsafe_code)]

pub mod load;
mod looped;
pub mod sensors;
pub mod spans;
pub mod streams;

use crate::{Finding, Surroundings};
use clscope_profile::calibration::{self, Entry, Store};
use clscope_sensors::SensorSource;

/// What can be calibrated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Devices: what is in their spans besides the command, what timing costs.
    Spans,
    /// Sensors: update period, response.
    Sensors,
}

/// What a part found: lines to print, and what is to be kept.
#[derive(Debug, Default)]
pub struct Calibration {
    /// In the section `calibration`.
    pub findings: Vec<Finding>,
    /// One per subject.
    pub entries: Vec<Entry>,
}

/// Measures the parts, keeps what they found, and reports it.
pub fn run(
    here: Surroundings<'_>,
    parts: &[Part],
    sources: Vec<Box<dyn SensorSource>>,
) -> Vec<Finding> {
    let mut all = Calibration::default();
    if parts.contains(&Part::Spans) {
        all.extend(spans::calibrate(here.program));
    }
    if parts.contains(&Part::Sensors) {
        all.extend(sensors::calibrate(here.program, sources));
    }
    let kept = keep(here, &all.entries);
    all.findings.push(kept);
    all.findings
}

impl Calibration {
    fn extend(&mut self, other: Self) {
        self.findings.extend(other.findings);
        self.entries.extend(other.entries);
    }
}

/// Adds the entries to this user's store.
fn keep(here: Surroundings<'_>, entries: &[Entry]) -> Finding {
    let what = "kept for later runs";
    if entries.is_empty() {
        return Finding::info("calibration", what, "nothing could be measured");
    }
    let Some(path) = calibration::place(here.variable) else {
        let text = "there is no place to keep it: neither HOME nor XDG_CACHE_HOME is set";
        return Finding::warning("calibration", what, text)
            .fix("export XDG_CACHE_HOME=/var/tmp/cache");
    };
    let stored = Store::load(&path).and_then(|mut store| {
        entries.iter().for_each(|entry| store.keep_entry(entry.clone()));
        store.save(&path)
    });
    match stored {
        Ok(()) => Finding::ok(
            "calibration",
            what,
            format!("in {}; `clscope record` copies it into traces", path.display()),
        ),
        Err(error) => Finding::warning("calibration", what, clscope_io::text::chain(&error)),
    }
}
