//! Owns what runs of one launch over and over say to the model: windows of workers with the launches
//! of the run that they stand for, and the recorder's own repetitions as a row of its own. Refuses to
//! fit: the analysis does.

use crate::energy::activity::PhysicalDevice;
use crate::energy::alone::external::External;
use crate::energy::alone::replayed::Found;
use crate::energy::alone::shapes::Shape;
use crate::energy::power;
use crate::energy::readings::{Readings, Sensor};
use crate::energy::result::{Class, DeviceEnergy, Repetitions, Replayed};
use crate::interval::Interval;
use clscope_analysis::energy::{Attribution, ClassId, HostNs, Worker};
use std::collections::BTreeSet;
use std::path::Path;

/// Degrees of a device over time; empty where they were not read.
pub(in crate::energy) fn temperature<'r>(
    device: &PhysicalDevice,
    readings: &'r Readings,
) -> &'r [(HostNs, f64)] {
    let is_own = |s: &&Sensor| {
        s.host == device.host
            && s.series.name == "temperature"
            && s.points.len() > 1
            && power::own(device, s, true).is_some()
    };
    readings.sensors.iter().find(is_own).map_or(&[], |sensor| &sensor.points)
}

/// The class of launches of a shape.
fn class_of(device: &PhysicalDevice, shape: &Shape) -> Option<ClassId> {
    device
        .shapes
        .keys()
        .filter(|(_, own)| own == shape)
        .map(|(class, _)| *class)
        .min_by_key(|c| c.0)
}

/// How long launches of a shape are in the run, of the mean launch of their class, and in seconds by
/// their stamps: as many times as much is taken for their joules above idle. 1 where it is not known.
fn relative_length(device: &PhysicalDevice, class: ClassId, shape: &Shape) -> (f64, Option<f64>) {
    let mut own: Vec<_> =
        device.shapes.iter().filter(|((of, _), tally)| *of == class && tally.timed > 0).collect();
    // In one order, so that sums are the same each time.
    own.sort_by(|a, b| a.1.seconds.total_cmp(&b.1.seconds));
    let (mut launches, mut seconds, mut this) = (0.0, 0.0, None);
    for ((_, of), tally) in own {
        let each = tally.seconds / tally.timed as f64;
        launches += tally.launches as f64;
        seconds += each * tally.launches as f64;
        if of == shape {
            this = Some(each);
        }
    }
    let relative = this.map_or(1.0, |this| this * launches / seconds);
    (if relative.is_finite() && relative > 0.0 { relative } else { 1.0 }, this)
}

/// Lengths by stamps, in the run and in a window, are the same up to so many seconds and such a
/// share: a launch that nothing follows at once is stamped otherwise.
const STAMPS: f64 = 2e-6;
const SAME_LENGTH: f64 = 0.05;
/// Length of the run's launches over that of the repeated ones, or the inverse, beyond which the
/// latter do not stand for the former.
const STANDS: f64 = 1.5;
/// Share of the device's time in which commands ran beside each other, up to which their lengths
/// are those of commands alone.
const OVERLAPPED: f64 = 0.02;

/// Windows of workers, and classes of which windows were left out because their launches were others.
/// `lengths`: mean seconds of a launch in the run, by class.
pub(in crate::energy) fn workers(
    device: &PhysicalDevice,
    found: &[Found],
    lengths: &[f64],
) -> (Vec<Worker>, BTreeSet<ClassId>) {
    let (mut out, mut unlike) = (Vec::new(), BTreeSet::new());
    let is_alone = device.overlapped() <= OVERLAPPED;
    for found in found {
        let Some(class) = class_of(device, &found.shape) else { continue };
        let (relative, own) = relative_length(device, class, &found.shape);
        let length = lengths.get(class.0 as usize).copied().unwrap_or(0.0) * relative;
        if length <= 0.0 {
            continue;
        }
        for of in &found.repetitions {
            // How long the run's launches are of those here. Where a scalar argument decides how much
            // a launch does, windows may be of one of its values only.
            let longer = match own.zip(of.length()) {
                Some((own, (in_row, alone))) if is_alone => {
                    let more = own - own.clamp(in_row, alone);
                    let blurred = STAMPS + SAME_LENGTH * own;
                    own / (own - more.signum() * (more.abs() - blurred).max(0.0))
                }
                _ => 1.0,
            };
            if !(1.0 / STANDS..=STANDS).contains(&longer) {
                unlike.insert(class);
                continue;
            }
            let (joules, seconds) = of.of_launches();
            let error = of.error.hypot(of.unsure());
            // What was measured apart from the run has its own rest beside it, at its own temperature.
            let (joules, idle) = match of.idle {
                Some(watts) => (joules - watts * seconds, 0.0),
                None => (joules, seconds),
            };
            out.push(Worker {
                class,
                capture: of.capture,
                ran: of.launches * length / longer,
                joules,
                idle,
                seconds: of.seconds,
                error,
                at: of.at,
            });
        }
    }
    (out, unlike)
}

/// A note on a class of which windows were left out.
pub(in crate::energy) fn told_unlike(device: &PhysicalDevice, class: ClassId) -> String {
    let name = device.classes.get(class.0 as usize).map_or("", |c| c.name.as_str());
    format!(
        "{name}: launches measured alone are not used, because they are much shorter or longer than the run's mean"
    )
}

/// Takes what the recorder itself repeated out of the application's rows. `from`: the other traces
/// that windows of workers were taken from.
pub(in crate::energy) fn apart(
    out: &mut DeviceEnergy,
    device: &PhysicalDevice,
    result: &Attribution,
    from: &[&Path],
    window: Option<(HostNs, HostNs)>,
) {
    let is_own =
        |class: ClassId| device.classes.get(class.0 as usize).is_some_and(|c| !c.repetition);
    let (mut groups, mut places) = (Vec::new(), Vec::new());
    let (mut seconds, mut joules) = (0.0, Interval::exact(0.0));
    for (of, group) in result.groups.iter().zip(std::mem::take(&mut out.groups)) {
        if of.classes.iter().any(|class| is_own(*class)) {
            places.push(Some(groups.len()));
            groups.push(group);
        } else {
            places.push(None);
            seconds += of.busy.0;
            joules = joules.plus(of.joules);
        }
    }
    for class in &mut out.classes {
        class.group = class.group.and_then(|at| places.get(at).copied().flatten());
    }
    out.groups = groups;
    out.classes.truncate(device.classes.iter().filter(|c| !c.repetition).count());
    if seconds > 0.0 || !from.is_empty() {
        let from = from.iter().map(|path| path.display().to_string()).reduce(|a, b| a + ", " + &b);
        let batches_in_window = window.map(|part| batches_in(device, part));
        out.repetitions = Some(Repetitions { seconds, joules, from, batches_in_window });
    }
}

/// Batches of repetitions that began in a part of the run.
fn batches_in(device: &PhysicalDevice, (from, to): (HostNs, HostNs)) -> usize {
    let batches = device.replays.iter().flat_map(|r| &r.batches);
    batches.filter(|b| !b.3 && b.2 > 0 && from <= b.0 && b.0 <= to).count()
}

/// Share of the busy time, or of the dynamic energy, from which on it is told that a class was not
/// repeated.
pub const MATTERS: f64 = 0.02;

/// Why a class was not repeated: here, and in traces of `--with`.
pub(in crate::energy) const NO_TURN: &str = "the time for repetitions ran out before it";
pub(in crate::energy) const ONCE: &str =
    "launched once, and only what is launched again is repeated";
pub(in crate::energy) const NOT_IN_WITH: &str = "no trace of --with has it";
pub(in crate::energy) const NOT_MEASURED: &str =
    "`clscope replay` measures kernels, and reads and writes of buffers";

/// Whether a class is a part of the device's work worth a figure: by its time, or by what running
/// it added, as far as that is known.
pub(in crate::energy) fn matters(class: &Class, all: &[Class]) -> bool {
    let busy: f64 = all.iter().map(|c| c.busy_seconds).sum();
    let dynamic = |c: &Class| c.dynamic_joules.map(|joules| joules.value);
    let added: f64 = all.iter().filter_map(dynamic).sum();
    class.busy_seconds >= MATTERS * busy
        || dynamic(class).is_some_and(|own| own > 0.0 && own >= MATTERS * added)
}

/// Classes that matter, are not well known and were not repeated get a row that says so. `own`:
/// this run repeated something itself; `unmeasured`: why captured launches of kernels were not.
pub fn not_repeated(
    out: &mut DeviceEnergy,
    device: &PhysicalDevice,
    found: &[Found],
    (own, external): (bool, &External),
) {
    let measured_here = external.sources.iter().any(|source| source.is_own);
    for (class, of) in out.classes.iter().zip(0..) {
        let shapes = device.shapes.iter().filter(|((class, _), _)| class.0 == of);
        let tried = shapes.clone().any(|((_, shape), _)| found.iter().any(|f| f.shape == *shape));
        let names = shapes.clone().map(|((_, shape), _)| shape.name.as_str());
        let known =
            names.into_iter().find_map(|name| external.unmeasured.get(name).map(String::as_str));
        let why = match own {
            _ if known.is_some() => known.unwrap_or_default(),
            true if shapes.map(|(_, tally)| tally.launches).max() == Some(1) => ONCE,
            true => NO_TURN,
            false if measured_here => NOT_MEASURED,
            false => NOT_IN_WITH,
        };
        if matters(class, &out.classes) && !class.is_precise() && !tried {
            out.replays.push(Replayed {
                name: class.name.clone(),
                failed: Some(why.to_owned()),
                ..Replayed::default()
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::energy::activity::Kind;
    use crate::energy::alone::replayed::{Repetition, Restoring};
    use crate::energy::alone::shapes::Tally;
    use proptest::prelude::*;

    /// The window of a launch of so many seconds in the run, as the model gets it.
    fn window(own: f64, of: Repetition) -> Option<Worker> {
        let mut device = PhysicalDevice::named("gpu", "", Kind::Gpu);
        let shape = Shape { name: "k".into(), sizes: vec![64] };
        let tally = Tally { launches: 9, timed: 9, seconds: 9.0 * own, ..Tally::default() };
        device.shapes.insert((ClassId(0), shape.clone()), tally);
        let mut found = Found::of_shape(shape);
        found.repetitions.push(of);
        workers(&device, &[found], &[own]).0.pop()
    }

    fn repetition(launches: f64, period: f64, stamped: f64) -> Repetition {
        Repetition {
            watts: 300.0,
            seconds: launches * period,
            launches,
            stamped: Some(stamped),
            restoring: None,
            idle: Some(100.0),
            error: 0.0,
            at: None,
            capture: 1,
        }
    }

    proptest! {
        /// A launch that is in the run as long as its turn in a row, or as by itself, or between the
        /// two, is the same launch: its joules are those of the row.
        #[test]
        fn a_launch_between_its_turn_in_a_row_and_its_stamp_is_the_same(
            turn in 1e-6..1e-2f64,
            start in 0.0..2e-5f64,
            at in 0.0..1.0f64,
        ) {
            let alone = turn + start;
            let own = turn + at * start;
            let worker = window(own, repetition(1000.0, turn, alone)).unwrap();
            prop_assert!((worker.ran / (1000.0 * own) - 1.0).abs() < 1e-9);
        }

        /// What restoring draws above idle makes a window less sure, and nothing else does.
        #[test]
        fn what_is_taken_off_is_not_wholly_known(watts in 100.0..500.0f64) {
            let restoring = Some(Restoring { watts, seconds: 1e-5 });
            let of = Repetition { restoring, ..repetition(1000.0, 4e-5, 3e-5) };
            let worker = window(3e-5, of).unwrap();
            let drawn = 1000.0 * (watts - 100.0) * 1e-5;
            prop_assert!((worker.error - 0.1 * drawn).abs() < 1e-9);
            prop_assert_eq!(window(3e-5, Repetition { restoring: None, ..of }).unwrap().error, 0.0);
        }
    }
}
