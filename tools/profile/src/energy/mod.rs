//! Owns energy of a trace: how readings of sensors are read back ([`readings`]), which of them
//! speak of which device ([`power`]), and joules per kernel ([`attribute`]). Refuses to fit
//! anything: the analysis does that.

pub mod activity;
mod alone;
pub mod around;
pub mod attribute;
pub mod explained;
mod planes;
pub mod power;
pub mod readings;
mod recorded;
pub mod result;
mod rows;
mod runs;
pub mod standstills;
mod unrecorded;

pub use alone::workers::MATTERS;
pub use alone::{external, shapes};

use crate::error::ReadingsError;
use crate::trace_files::{Directory, TraceFiles};
use alone::workers;
use clscope_analysis::Trace;
use clscope_io::text::{count, shell_word};
use clscope_sensors::gpu_power::Choice;
use clscope_sensors::replay::{self, Pacing};

/// The readings of opened traces: their own, or those of the file that the caller named.
///
/// # Errors
/// If that file cannot be read.
pub fn readings_of(
    files: &TraceFiles,
    trace: &Trace<'_>,
    options: &attribute::Options,
) -> Result<readings::Readings, ReadingsError> {
    let mut readings = match &options.readings {
        Some(path) => replay::Replay::open(path, Pacing::AtOnce)
            .and_then(readings::Readings::replay)
            .map_err(|source| ReadingsError::File { path: path.clone(), source })?,
        None => readings::Readings::of(trace, files.sensors()).without(files.unread_sensors()),
    };
    files.directories.iter().for_each(|directory| readings.calibrate(&directory.calibrations()));
    Ok(readings)
}

/// How GPU power was to be formed when traces were recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RecordedFormula {
    /// The first choice that was made, if there was one.
    pub choice: Option<Choice>,
    /// Whether not all traces were recorded for it.
    pub differs: bool,
}

/// What `record --gpu-power` was given for each recording, merged or not.
pub fn recorded_formula(files: &TraceFiles) -> RecordedFormula {
    let choice = |meta: &serde_json::Value| -> Choice {
        let word = meta.get("gpu_power").and_then(|word| word.as_str());
        word.and_then(|word| word.parse().ok()).unwrap_or_default()
    };
    let recordings = files.directories.iter().flat_map(Directory::recordings);
    let choices: Vec<Choice> = recordings.map(choice).collect();
    RecordedFormula {
        choice: choices.iter().copied().find(|choice| *choice != Choice::Auto),
        differs: choices.windows(2).any(|pair| pair[0] != pair[1]),
    }
}

/// Ends each device's part with what separates what the run alone does not.
pub fn advise(files: &TraceFiles, energy: &mut result::Energy) {
    let mut recordings = files.directories.iter().flat_map(Directory::recordings);
    let command = recordings.find_map(|meta| {
        let words = meta.get("command")?.as_array()?;
        Some(words.iter().filter_map(|w| w.as_str()).map(shell_word).collect::<Vec<_>>().join(" "))
    });
    for device in &mut energy.devices {
        device.next = next(device, command.as_deref());
        device.notes.extend(without_joules(device));
    }
}

/// Beside repetitions: how much has no joules of its own, which the rows name without a reason.
fn without_joules(device: &result::DeviceEnergy) -> Option<String> {
    let busy: f64 = device.classes.iter().map(|c| c.busy_seconds).sum();
    let is_told = |name: &str| device.replays.iter().any(|r| r.name == name);
    let of_none: Vec<f64> = device
        .classes
        .iter()
        .filter(|c| c.joules_per_launch.is_none() && c.busy_seconds > 0.0 && !is_told(&c.name))
        .map(|c| c.busy_seconds / busy)
        .collect();
    if device.replays.is_empty() || of_none.is_empty() {
        return None;
    }
    let (what, share) = match of_none.len() {
        1 => ("1 kernel or transfer".to_owned(), ""),
        n => (format!("{n} kernels and transfers"), " together"),
    };
    Some(format!(
        "{what} without joules of {} own ran for {} of the device's busy time{share}: none of them was measured by itself",
        if of_none.len() == 1 { "its" } else { "their" },
        percent(of_none.iter().sum())
    ))
}

/// Seconds from which on a run without joules is not short, but does little on its device.
const LONG: f64 = 2.0;

/// What separates what the run alone does not, and its price.
fn next(device: &result::DeviceEnergy, command: Option<&str>) -> Option<String> {
    let command = command.unwrap_or("APP");
    let price = "it captures some launches of each and measures them when the application has ended, for 20 s or 5 % of the run";
    if device.few_readings && device.replays.is_empty() {
        if device.seconds >= LONG {
            return Some(format!(
                "clscope record --replay -- {command} measures its kernels, because this run has too few readings: {price}"
            ));
        }
        return Some(format!(
            "clscope stat -r 10 -- {command} runs it ten times, because one short run has too few readings"
        ));
    }
    let is_absent = |r: &&result::Replayed| r.failed.as_deref() == Some(workers::NOT_IN_WITH);
    let absent = device.replays.iter().filter(is_absent).count();
    if absent > 0 {
        return Some(format!(
            "clscope record --replay -- {command} measures the {absent} that no trace of --with has"
        ));
    }
    if !device.replays.is_empty() {
        return None;
    }
    let unknown = unknown(device) as u64;
    if unknown > 0 {
        return Some(format!(
            "clscope record --replay -- {command} measures {} that the run alone does not separate: {price}",
            count(unknown, "kernel", "kernels")
        ));
    }
    let is_weak = |c: &&result::Class| {
        c.kind == "kernel" && !c.is_precise() && workers::matters(c, &device.classes)
    };
    let weak = device.classes.iter().filter(is_weak).count();
    (weak > 0).then(|| {
        format!(
            "clscope record --replay -- {command} narrows {}: {price}",
            count(weak as u64, "wide interval", "wide intervals")
        )
    })
}

/// Share of the device's time below which a kernel is not worth a measurement of its own.
const LEAST_SHARE: f64 = 0.005;

/// Kernels without joules of their own that take enough of the time to be measured. 0 where they do
/// not matter, neither one of them nor all together.
fn unknown(device: &result::DeviceEnergy) -> usize {
    let whole: f64 = device.classes.iter().map(|c| c.busy_seconds).sum();
    let is_open = |c: &&result::Class| {
        c.kind == "kernel" && c.joules_per_launch.is_none() && c.busy_seconds > 0.0
    };
    let open = || device.classes.iter().filter(is_open);
    let matters = |c: &result::Class| workers::matters(c, &device.classes);
    let together: f64 = open().map(|c| c.busy_seconds).sum();
    if !open().any(matters) && together < workers::MATTERS * whole {
        return 0;
    }
    open().filter(|c| c.busy_seconds >= LEAST_SHARE * whole || matters(c)).count()
}

/// A share for people.
fn percent(share: f64) -> String {
    match 100.0 * share {
        percent if percent < 0.1 => "less than 0.1 %".to_owned(),
        percent => format!("{percent:.1} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(name: &str, kind: &'static str, launches: f64, busy: f64) -> result::Class {
        result::Class {
            name: name.into(),
            kind,
            launches,
            busy_seconds: busy,
            absence: Some(result::Absence::InSum),
            ..Default::default()
        }
    }

    #[test]
    fn all_that_measuring_would_tell_are_counted() {
        let mut device = result::DeviceEnergy {
            classes: vec![
                class("host to device", "transfer", 1078.0, 0.285),
                class("device to host", "transfer", 1078.0, 0.070),
                class("once", "kernel", 1.0, 0.005),
            ],
            ..Default::default()
        };
        let said = |device: &result::DeviceEnergy| next(device, Some("app"));
        assert_eq!(said(&device), None, "transfers are not captured, and the kernel is small");
        device.classes.extend(["a", "b", "c", "d", "e"].map(|n| class(n, "kernel", 1e3, 4.6e-3)));
        let told = said(&device).unwrap();
        assert!(told.contains("measures 6 kernels that the run"), "{told}");
        device.classes.truncate(4);
        device.classes.drain(..3);
        let told = said(&device).unwrap();
        assert!(told.contains("measures 1 kernel that"), "{told}");
        let figure = crate::interval::Interval::estimated(1.0, 0.7, 1.3);
        device.classes[0].joules_per_launch = Some(figure);
        (device.classes[0].joules, device.classes[0].absence) = (Some(figure), None);
        let told = said(&device).unwrap();
        assert!(told.contains("narrows 1 wide interval"), "{told}");
    }

    #[test]
    fn what_too_few_readings_saw_is_repeated_or_run_again() {
        let of = |seconds: f64| {
            let device = result::DeviceEnergy { few_readings: true, seconds, ..Default::default() };
            next(&device, Some("app")).unwrap()
        };
        assert!(of(0.7).starts_with("clscope stat -r 10 -- app"), "{}", of(0.7));
        assert!(of(4.5).starts_with("clscope record --replay -- app"), "{}", of(4.5));
    }

    #[test]
    fn many_small_ones_matter_together() {
        // None has two percent of the time or more; a short run beside a long kernel.
        let known = |busy: f64| result::Class {
            joules: Some(crate::interval::Interval::estimated(1.0, 0.95, 1.05)),
            joules_per_launch: Some(crate::interval::Interval::estimated(1.0, 0.95, 1.05)),
            absence: None,
            ..class("long", "kernel", 1e3, busy)
        };
        let small = ["a", "b", "c", "d"].map(|n| class(n, "kernel", 60.0, 0.015));
        let of = |busy: f64| {
            let classes = small.iter().cloned().chain([known(busy)]).collect();
            next(&result::DeviceEnergy { classes, ..Default::default() }, Some("app"))
        };
        let told = of(0.94).expect("6 % are not known");
        assert!(told.contains("measures 4 kernels that"), "{told}");
        assert_eq!(of(9.94), None, "0.6 % are");
    }
}
