//! Owns energy of a trace: how readings of sensors are read back ([`readings`]), which of them
//! speak of which device ([`power`]), and joules per kernel ([`attribute`]). Refuses to fit
//! anything: the analysis does that.
#![forbid(unsafe_code)]

pub mod activity;
pub mod attribute;
mod balance;
pub mod borrowed;
mod evidence;
mod planes;
pub mod power;
pub mod readings;
mod recorded;
mod replayed;
pub mod result;
mod rows;
pub mod shapes;
mod trials;
mod united;
mod unrecorded;

use crate::error::ReadingsError;
use crate::trace_files::{Directory, TraceFiles};
use clscope_analysis::Trace;
use clscope_sensors::gpu_power::Choice;
use clscope_sensors::replay::{self, Pacing};
use clscope_trace::values::Replay;

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

/// How GPU power was to be formed when the traces were recorded.
#[must_use]
pub fn recorded_formula(files: &TraceFiles) -> Option<Choice> {
    files.directories.iter().find_map(|d| d.meta.as_ref()?.get("gpu_power")?.as_str()?.parse().ok())
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+%@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// Ends each device's part with what tells apart what the run alone does not.
pub fn advise(files: &TraceFiles, energy: &mut result::Energy) {
    let command = files.directories.iter().find_map(|d| {
        let words = d.meta.as_ref()?.get("command")?.as_array()?.clone();
        Some(words.iter().filter_map(|w| w.as_str()).map(quoted).collect::<Vec<_>>().join(" "))
    });
    let setting = |d: &Directory| {
        d.meta.as_ref()?.get("settings")?.get("CLSCOPE_REPLAY")?.as_str()?.parse().ok()
    };
    let recorded: Option<Replay> = files.directories.iter().find_map(setting);
    for device in &mut energy.devices {
        if let Some(Replay::Batches { .. }) = recorded {
            at_sight(device);
        }
        device.next = next(device, command.as_deref(), recorded);
        device.notes.extend(without_joules(device));
    }
}

/// Transfers have no turn where kernels are repeated at their first sight.
fn at_sight(device: &mut result::DeviceEnergy) {
    let transfers = device.classes.iter().filter(|c| c.kind == "transfer");
    let names: Vec<&str> = transfers.map(|c| c.name.as_str()).collect();
    for replay in device.replays.iter_mut().filter(|r| names.contains(&r.name.as_str())) {
        if replay.failed.as_deref() == Some(evidence::NO_TURN) {
            replay.failed = Some(evidence::AT_SIGHT.to_owned());
        }
    }
}

/// Share of the added time that was used, below which more of it would not be used either.
const LITTLE: f64 = 0.5;

/// Beside repetitions: how much has no joules of its own, which the rows name without a reason.
fn without_joules(device: &result::DeviceEnergy) -> Option<String> {
    let busy: f64 = device.classes.iter().map(|c| c.busy_seconds).sum();
    let of_none: Vec<f64> = device
        .classes
        .iter()
        .filter(|c| c.joules_per_launch.is_none() && c.busy_seconds > 0.0)
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
        "{what} without joules of {} own ran for {} of the device's busy time{share}: too little for a turn within the \
         added time, or it came once, or is of a kind that is not repeated",
        if of_none.len() == 1 { "its" } else { "their" },
        percent(of_none.iter().sum())
    ))
}

/// What tells apart what the run alone does not, and its price. After repetitions: what gives those
/// without a turn one.
fn next(
    device: &result::DeviceEnergy,
    command: Option<&str>,
    recorded: Option<Replay>,
) -> Option<String> {
    let command = command.unwrap_or("APP");
    if device.failed.is_some() && device.replays.is_empty() && device.measured_joules.is_some() {
        return Some(format!(
            "clscope stat -r 10 -- {command} runs it ten times: their readings together know more than one short run's"
        ));
    }
    let failed =
        |why: &str| device.replays.iter().filter(|r| r.failed.as_deref() == Some(why)).count();
    let (late, absent) = (failed(evidence::NO_TURN), failed(evidence::NOT_LENT));
    if late > 0 {
        // More than this run was given.
        let had = match recorded {
            Some(Replay::Within { seconds, .. }) => seconds,
            _ => 0.0,
        };
        let own = device.repetitions.as_ref().filter(|r| r.from.is_none());
        if let Some(used) = own.map(|r| r.seconds).filter(|used| *used < LITTLE * had) {
            return Some(format!(
                "more added time would not give the {late} without a turn theirs: of {had:.0} s the run came to {used:.0} s before it ended; \
                 let it run longer, or record it again with --replay and give that trace to `report --with`"
            ));
        }
        if let Some(seconds) =
            recorded.unwrap_or(Replay::Within { seconds: 0.0, share: 0.0 }).more()
        {
            return Some(format!(
                "clscope record --replay={seconds:.0}s -- {command} repeats for up to {seconds:.0} s, so that the {late} without a turn may get theirs; \
                 `report --with` that trace uses both"
            ));
        }
    }
    if absent > 0 {
        return Some(format!(
            "clscope record --replay -- {command} repeats the {absent} that no trace of --with does"
        ));
    }
    let is_unknown =
        |c: &&result::Class| c.joules_per_launch.is_none() && evidence::matters(c, &device.classes);
    let unknown = device.classes.iter().filter(is_unknown).count();
    if !device.replays.is_empty() {
        return None;
    }
    let price =
        "it repeats them and takes up to 20 s longer, or a quarter of the run where that is more";
    if unknown > 0 {
        return Some(format!(
            "clscope record --replay -- {command} tells {} that the run does not: {price}",
            match unknown {
                1 => "1 kernel or transfer".to_owned(),
                many => format!("{many} kernels and transfers"),
            }
        ));
    }
    let is_weak =
        |c: &&result::Class| c.identifiability != "well" && evidence::matters(c, &device.classes);
    let weak = device.classes.iter().filter(is_weak).count();
    (weak > 0).then(|| {
        format!(
            "clscope record --replay -- {command} makes {weak} weak figures better known: {price}"
        )
    })
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

    /// What follows for a device of which one kernel had no turn, in a run that was to have so much
    /// added time and came to so many seconds of repetitions.
    fn advice(had: f64, used: f64) -> Option<String> {
        let replay = result::Replayed {
            name: "late".into(),
            joules_per_launch: None,
            watts: None,
            batches: 0,
            launches: 0,
            saved_bytes: 0,
            restored_joules: None,
            failed: Some(evidence::NO_TURN.into()),
        };
        let repetitions =
            result::Repetitions { seconds: used, joules: 1.0, from: None, agreement: Vec::new() };
        let device = result::DeviceEnergy {
            replays: vec![replay],
            repetitions: Some(repetitions),
            ..Default::default()
        };
        next(&device, Some("app"), Some(Replay::Within { seconds: had, share: 0.0 }))
    }

    #[test]
    fn more_time_is_proposed_than_the_run_had_and_none_that_it_would_not_use() {
        let proposed = |had, used| advice(had, used).unwrap();
        assert!(proposed(20.0, 15.0).contains("--replay=60s -- app"));
        assert!(proposed(60.0, 45.0).contains("--replay=180s -- app"));
        assert!(proposed(60.0, 5.0).contains("more added time would not give the 1"));
        assert_eq!(advice(600.0, 500.0), None);
    }
}
