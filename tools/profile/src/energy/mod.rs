//! Owns energy of a trace: how readings of sensors are read back ([`readings`]), which of them
//! speak of which device ([`power`]), and joules per kernel ([`attribute`]). Refuses to fit
//! anything: the analysis does that.
#![forbid(unsafe_code)]

pub mod activity;
pub mod around;
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
pub mod standstills;
mod trials;
mod united;
mod unrecorded;

use crate::added::Added;
use crate::error::ReadingsError;
use crate::trace_files::{Directory, TraceFiles};
use clscope_analysis::Trace;
use clscope_io::text::count;
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

/// How GPU power was to be formed when traces were recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RecordedFormula {
    /// The first choice that was made, if there was one.
    pub choice: Option<Choice>,
    /// Whether not all traces were recorded for it.
    pub differs: bool,
}

/// What `record --gpu-power` was given for each recording, merged or not.
#[must_use]
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
    let recordings = || files.directories.iter().flat_map(Directory::recordings);
    let command = recordings().find_map(|meta| {
        let words = meta.get("command")?.as_array()?;
        Some(words.iter().filter_map(|w| w.as_str()).map(quoted).collect::<Vec<_>>().join(" "))
    });
    let setting = |meta: &serde_json::Value| {
        meta.get("settings")?.get("CLSCOPE_REPLAY")?.as_str()?.parse().ok()
    };
    let recorded: Option<Replay> = recordings().find_map(setting);
    for device in &mut energy.devices {
        let added = recorded.and_then(|recorded| added(device, recorded));
        let few = true_causes(device, recorded, added.filter(|added| !added.is_used_up()));
        device.next = next(device, command.as_deref(), recorded, few);
        device.notes.extend(without_joules(device));
    }
}

/// What was added to a device's run, where the trace was given a time.
fn added(device: &result::DeviceEnergy, recorded: Replay) -> Option<Added> {
    let held = device.held_seconds;
    Added::of(recorded, held, (device.seconds - held).max(0.0))
}

/// Says of what had no turn why: not for want of added time where some of it, `left`, was not used,
/// and transfers have none where kernels are repeated at their first sight. Gives how many came too
/// seldom.
fn true_causes(
    device: &mut result::DeviceEnergy,
    recorded: Option<Replay>,
    left: Option<Added>,
) -> usize {
    let mut few = 0;
    let (classes, replays) = (&device.classes, &mut device.replays);
    for replay in replays {
        let Some(why) = replay.failed.as_deref() else { continue };
        let is_late = why == evidence::NO_TURN;
        if !is_late && why != evidence::ONCE {
            continue;
        }
        let class = classes.iter().find(|c| c.name == replay.name);
        let is_transfer = class.is_some_and(|c| c.kind == "transfer");
        let cause = match (recorded, left, class) {
            (Some(Replay::Batches { .. }), ..) if is_transfer => evidence::AT_SIGHT.to_owned(),
            (Some(Replay::Batches { .. }), ..) => evidence::NO_MOMENT.to_owned(),
            (_, Some(left), Some(class)) if is_late => {
                few += 1;
                evidence::too_few(class.launches, is_transfer, left)
            }
            _ => continue,
        };
        replay.failed = Some(cause);
    }
    few
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
        "{what} without joules of {} own ran for {} of the device's busy time{share}: too small a part of it for a turn, \
         or it came once, or is of a kind that is not repeated",
        if of_none.len() == 1 { "its" } else { "their" },
        percent(of_none.iter().sum())
    ))
}

/// Seconds from which on a run without joules is not short, but does little on its device.
const LONG: f64 = 2.0;

/// What tells apart what the run alone does not, and its price. After repetitions: what gives those
/// without a turn one. `few`: how many of those came too seldom.
fn next(
    device: &result::DeviceEnergy,
    command: Option<&str>,
    recorded: Option<Replay>,
    few: usize,
) -> Option<String> {
    let command = command.unwrap_or("APP");
    let price =
        "it repeats them and takes up to 20 s longer, or a quarter of the run where that is more";
    if device.few_readings && device.replays.is_empty() {
        if device.seconds >= LONG {
            return Some(format!(
                "clscope record --replay -- {command} tells its kernels and transfers, of which this run's readings saw too little: {price}"
            ));
        }
        return Some(format!(
            "clscope stat -r 10 -- {command} runs it ten times: their readings together know more than one short run's"
        ));
    }
    let failed =
        |why: &str| device.replays.iter().filter(|r| r.failed.as_deref() == Some(why)).count();
    let (late, absent) = (failed(evidence::NO_TURN), failed(evidence::NOT_LENT));
    if few > 0 {
        return Some(format!(
            "more added time would not give the {few} that came too seldom a turn: let it run longer, \
             or record it again with --replay and give that trace to `report --with`"
        ));
    }
    if late > 0 {
        // More than this run was given.
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
    let unknown = unknown(device);
    if !device.replays.is_empty() {
        return None;
    }
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
            "clscope record --replay -- {command} makes {} better known: {price}",
            count(weak as u64, "weak figure", "weak figures")
        )
    })
}

/// Kernels and kinds of transfers without joules of their own that the recorder would repeat: those
/// that come again and take enough of the time. 0 where they do not matter, neither one of them nor
/// all together.
fn unknown(device: &result::DeviceEnergy) -> usize {
    let weight = |c: &result::Class| {
        c.busy_seconds * if c.kind == "transfer" { Replay::TRANSFER } else { 1.0 }
    };
    let whole: f64 = device.classes.iter().map(weight).sum();
    let is_open =
        |c: &&result::Class| c.joules_per_launch.is_none() && c.launches > 1.0 && weight(c) > 0.0;
    let open = || device.classes.iter().filter(is_open);
    let matters = |c: &result::Class| {
        evidence::matters(c, &device.classes) || weight(c) >= evidence::MATTERS * whole
    };
    let together: f64 = open().map(weight).sum();
    if !open().any(matters) && together < evidence::MATTERS * whole {
        return 0;
    }
    open().filter(|c| weight(c) >= Replay::LEAST_SHARE * whole || matters(c)).count()
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
            identifiability: "only-as-sum",
            ..Default::default()
        }
    }

    /// A device of which a kernel had no turn in a run of 30 s, of which repetitions took `held`.
    fn late(held: f64) -> result::DeviceEnergy {
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
        result::DeviceEnergy {
            classes: vec![class("late", "kernel", 3.0, 1.0)],
            replays: vec![replay],
            held_seconds: held,
            seconds: 30.0,
            ..Default::default()
        }
    }

    /// What is said of it and what follows, where so much time was to be added.
    fn advice(had: f64, held: f64) -> (String, Option<String>) {
        let mut device = late(held);
        let recorded = Replay::Within { seconds: had, share: 0.0 };
        let left = added(&device, recorded).filter(|added| !added.is_used_up());
        let few = true_causes(&mut device, Some(recorded), left);
        let why = device.replays[0].failed.clone().unwrap();
        (why, next(&device, Some("app"), Some(recorded), few))
    }

    #[test]
    fn more_time_is_proposed_where_it_was_used_up_and_else_the_true_cause_is_told() {
        let proposed = |had, held| advice(had, held).1.unwrap();
        assert!(proposed(20.0, 19.0).contains("--replay=60s -- app"));
        assert!(proposed(60.0, 59.0).contains("--replay=180s -- app"));
        assert_eq!(advice(20.0, 19.0).0, evidence::NO_TURN);
        let (why, next) = advice(20.0, 2.06);
        assert!(why.starts_with("launched 3 times"), "{why}");
        assert!(why.contains("2.1 of up to 20 s were added"), "{why}");
        let next = next.unwrap();
        assert!(next.contains("1 that came too seldom") && !next.contains("--replay="), "{next}");
        assert_eq!(advice(600.0, 599.0).1, None);
    }

    #[test]
    fn transfers_at_first_sight_are_told_as_such() {
        let recorded = Some(Replay::Batches { batches: 8, milliseconds: 300 });
        for (why, kind, told) in [
            (evidence::NO_TURN, "transfer", evidence::AT_SIGHT),
            (evidence::ONCE, "transfer", evidence::AT_SIGHT),
            (evidence::NO_TURN, "kernel", evidence::NO_MOMENT),
        ] {
            let mut device = late(2.0);
            device.classes[0].kind = kind;
            device.replays[0].failed = Some(why.to_owned());
            assert_eq!(true_causes(&mut device, recorded, None), 0);
            assert_eq!(device.replays[0].failed.as_deref(), Some(told));
        }
    }

    #[test]
    fn all_that_repetitions_would_tell_are_counted() {
        // Transfers take most of the time, and say little beside kernels.
        let mut device = result::DeviceEnergy {
            classes: vec![
                class("host to device", "transfer", 1078.0, 0.285),
                class("device to host", "transfer", 1078.0, 0.070),
                class("once", "kernel", 1.0, 0.005),
            ],
            ..Default::default()
        };
        device.classes.extend(["a", "b", "c", "d", "e"].map(|n| class(n, "kernel", 1e3, 4.6e-3)));
        let said = |device: &result::DeviceEnergy| next(device, Some("app"), None, 0).unwrap();
        assert!(said(&device).contains("tells 7 kernels and transfers"), "{}", said(&device));
        device.classes.truncate(1);
        assert!(said(&device).contains("tells 1 kernel or transfer that"), "{}", said(&device));
        let figure = crate::interval::Interval::estimated(1.0, 0.7, 1.3);
        device.classes[0].joules_per_launch = Some(figure);
        device.classes[0].identifiability = "weak";
        assert!(said(&device).contains("makes 1 weak figure better known"), "{}", said(&device));
    }

    #[test]
    fn what_too_few_readings_saw_is_repeated_or_run_again() {
        let of = |seconds: f64| {
            let device = result::DeviceEnergy { few_readings: true, seconds, ..Default::default() };
            next(&device, Some("app"), None, 0).unwrap()
        };
        assert!(of(0.7).starts_with("clscope stat -r 10 -- app"), "{}", of(0.7));
        assert!(of(4.5).starts_with("clscope record --replay -- app"), "{}", of(4.5));
    }

    #[test]
    fn many_small_ones_matter_together() {
        // None has two percent of the time or more; a short run beside a long kernel.
        let known = |busy: f64| result::Class {
            joules_per_launch: Some(crate::interval::Interval::estimated(1.0, 0.95, 1.05)),
            identifiability: "well",
            ..class("long", "kernel", 1e3, busy)
        };
        let small = ["a", "b", "c", "d"].map(|n| class(n, "kernel", 60.0, 0.015));
        let of = |busy: f64| {
            let classes = small.iter().cloned().chain([known(busy)]).collect();
            next(&result::DeviceEnergy { classes, ..Default::default() }, Some("app"), None, 0)
        };
        let told = of(0.94).expect("6 % are not known");
        assert!(told.contains("tells 4 kernels and transfers"), "{told}");
        assert_eq!(of(9.94), None, "0.6 % are");
    }
}
