//! Owns bringing together what a run's own readings know of sums and what repetitions know of single
//! kernels and transfers: one figure a class, which says by what it is known, and parts that add up
//! to what was measured. Refuses to weigh evidence itself: the analysis does.
#![forbid(unsafe_code)]

use super::activity::PhysicalDevice;
use super::replayed::Found;
use super::result::{Agreement, DeviceEnergy, Group, Repetitions, Replayed};
use super::shapes::Tally;
use crate::interval::Interval;
use clscope_analysis::energy::evidence::{self, Belief, Member, Shape, reconcile};
use clscope_analysis::energy::{Attribution, ClassId, GroupEnergy};
use std::path::Path;

/// Half-width of a 95 % interval over its standard error; a little more than the normal
/// distribution's, since errors are estimated.
const NORMAL: f64 = 2.0;
/// Half-widths up to which a class counts as well or at least weakly known.
const WELL: f64 = 0.10;
const WEAK: f64 = 0.50;
/// What repetitions of another run may be off for that alone: another day's temperature.
const OTHER_RUN: f64 = 0.015;
/// Standard error, in watts, of the floor of a run in which the device never rested, beyond its own:
/// what lies between launches is told from what they add by a model of the sensor alone. (Two runs
/// of one steady application on an H200: 127 and 129 W.)
const UNRESTED: f64 = 1.0;
/// Share of the busy time from which on it is told that a class was not repeated.
const MATTERS: f64 = 0.02;
/// Standard error of the length of a launch, as a share.
const LENGTH: f64 = 0.01;
/// Standard error of a repeated transfer, as a share. (The same transfer alone, minutes apart on an
/// H200: 13 and 26 % more.)
const TRANSFER: f64 = 0.08;
/// Share of a run's energy from which on it is told that launches shared the floor.
const BESIDE: f64 = 0.01;
/// Share of the device's time in which commands ran beside each other, up to which their lengths are
/// those of commands alone.
const OVERLAPPED: f64 = 0.02;
/// Error of a whole batch's energy.
const OWN_BATCH: f64 = 0.01;

/// The floor between launches with its standard error; 0 where it is not known, and then part of
/// every figure.
pub fn floor(result: &Attribution) -> (f64, f64) {
    result
        .floors
        .first()
        .and_then(|f| f.watts)
        .map_or((0.0, 0.0), |w| (w.value.0, w.half_width().0 / NORMAL))
}

/// What repetitions say of a class's launches in this run.
fn belief(
    device: &PhysicalDevice,
    class: ClassId,
    found: &[Found],
    floor: (f64, f64),
    alone: bool,
) -> Option<Belief> {
    // Lengths tell how much longer a launch takes in the run than alone, where nothing runs beside.
    let length = |t: &Tally| (alone && t.timed > 0).then(|| t.seconds / t.timed as f64);
    let shapes: Vec<Shape> = device
        .shapes
        .iter()
        .filter(|((of, _), _)| *of == class)
        .map(|((_, shape), tally)| Shape {
            launches: tally.launches as f64,
            length: length(tally),
            repetitions: found
                .iter()
                .find(|f| f.shape == *shape)
                .map_or_else(Vec::new, |f| f.repetitions.clone()),
        })
        .collect();
    evidence::belief(&shapes, floor)
}

/// Whether what is known of a class is partly another run's.
fn borrowed(device: &PhysicalDevice, class: ClassId, found: &[Found]) -> bool {
    let lent = |shape: &super::shapes::Shape| found.iter().any(|f| f.borrowed && f.shape == *shape);
    device.shapes.keys().any(|(of, shape)| *of == class && lent(shape))
}

/// Energy above the floor of what the recorder itself repeated, while the sensor was read.
fn repetition(group: &GroupEnergy, result: &Attribution, class: ClassId) -> (f64, f64) {
    let of = |c: ClassId| result.classes.get(c.0 as usize).map_or(0.0, |c| c.covered.0);
    let share = of(class) / group.busy.0.max(f64::MIN_POSITIVE);
    let joules = group.dynamic.0 * share;
    // Of a group by itself the fit's own error; in company their rates are taken for equal.
    let own = if group.classes.len() == 1 { group.joules.half_width().0 / NORMAL } else { joules };
    (joules, own.max(OWN_BATCH * joules))
}

/// Gives each class its figure from all that is known. `from`: the other traces that repetitions were
/// taken from.
pub fn apply(
    out: &mut DeviceEnergy,
    device: &PhysicalDevice,
    result: &Attribution,
    found: &[Found],
    from: &[&Path],
) {
    let floor = floor(result);
    let own = |c: ClassId| device.classes.get(c.0 as usize).is_some_and(|c| !c.repetition);
    let alone = device.overlapped() <= OVERLAPPED;
    let mut agreement = Vec::new();
    let mut groups: Vec<Group> = Vec::new();
    let mut moved = 0.0;
    let (mut seconds, mut joules, mut spread) = (0.0, 0.0, 0.0);
    for group in &result.groups {
        let beliefs: Vec<Option<Belief>> = group
            .classes
            .iter()
            .map(|&c| if own(c) { belief(device, c, found, floor, alone) } else { None })
            .collect();
        let of = |c: ClassId| &result.classes[c.0 as usize];
        let members: Vec<Member> = group
            .classes
            .iter()
            .zip(&beliefs)
            .map(|(&c, belief)| {
                let row = of(c);
                let covered = row.covered.0 / row.busy.0.max(f64::MIN_POSITIVE);
                let known = match belief {
                    Some(b) => {
                        let more = if borrowed(device, c, found) { OTHER_RUN } else { 0.0 };
                        let more = more * b.dynamic;
                        Some((b.dynamic * covered, b.sd.hypot(more) * covered))
                    }
                    None if own(c) => None,
                    None => Some(repetition(group, result, c)),
                };
                Member { busy: row.covered.0, known }
            })
            .collect();
        let told = beliefs.iter().flatten().count();
        let theirs = group.classes.iter().filter(|c| own(**c)).count();
        if told == 0 {
            keep(out, group, device, &mut groups, &mut seconds, &mut joules);
            continue;
        }
        let busy: f64 = result.groups.iter().map(|g| g.busy.0).sum();
        // What was repeated in another run was not rested before in this one.
        let unrested = if from.is_empty() { 0.0 } else { UNRESTED * out.seconds };
        let unrested = unrested * group.busy.0 / busy.max(f64::MIN_POSITIVE);
        let error = (group.joules.half_width().0 / NORMAL).hypot(unrested);
        let both = reconcile((group.dynamic.0, error), &members);
        if let Some(predicted) = both.predicted {
            agreement.push(Agreement {
                names: names(device, group, &own),
                predicted_joules: predicted,
                measured_joules: group.dynamic.0,
                differs: both.differs,
                agrees: both.agrees,
            });
        }
        let (mut left, mut idle_left) = (Vec::new(), 0.0);
        let standing = group.idle.0 / group.busy.0.max(f64::MIN_POSITIVE);
        for (((&c, belief), (dynamic, sd)), member) in
            group.classes.iter().zip(&beliefs).zip(&both.members).zip(&members)
        {
            let row = of(c);
            let launches = row.launches * row.covered.0 / row.busy.0.max(f64::MIN_POSITIVE);
            let per_span = device.launches_per_span(c);
            let launches = launches * per_span;
            if !own(c) {
                seconds += member.busy;
                joules += dynamic + standing * member.busy;
                spread += sd * sd;
                continue;
            }
            // A launch counts with its own length, as if nothing ran beside it: what its stamps hold
            // of the runtime's own work is idle time, and where launches overlapped, the floor
            // between launches was there the longer.
            let time = belief.map_or(member.busy, |b| match b.length * launches {
                more if b.restored => more.min(member.busy),
                time => time,
            });
            let idle = standing * time;
            moved += standing * (member.busy - time);
            let total = dynamic + idle;
            // How long it takes is not known any better, which the floor's part has of it.
            let kernel = device.classes.get(c.0 as usize).is_some_and(|c| c.kernel);
            let length = match belief {
                Some(_) if kernel => LENGTH * idle,
                // The host's memory and its copies take part in these.
                Some(_) => TRANSFER * total,
                None => 0.0,
            };
            let half = NORMAL * sd.hypot(length);
            let relative = half / total.max(f64::MIN_POSITIVE);
            if belief.is_none() && relative > WEAK {
                left.push((c, *dynamic, *sd, time));
                idle_left += idle;
                continue;
            }
            let figure = Interval::estimated(total, (total - half).max(0.0), total + half);
            let Some(class) = out.classes.get_mut(c.0 as usize) else { continue };
            class.joules = Some(figure);
            class.joules_per_launch = (launches > 0.0).then(|| figure.times(1.0 / launches));
            class.watts = (time > 0.0).then(|| figure.times(1.0 / time));
            class.energy_delay = class.joules_per_launch.map(|j| j.value * time / launches);
            let split = floor.0 > 0.0;
            class.dynamic_joules = split.then_some(*dynamic);
            class.idle_joules = split.then_some(idle);
            class.method = Some(match belief {
                Some(_) if theirs > 1 => "repeated",
                Some(_) => "both",
                None => "sum",
            });
            class.identifiability = match relative {
                r if r <= WELL => "well",
                r if r <= WEAK => "weak",
                _ => "not-at-all",
            };
            class.needed_seconds = None;
            class.group = Some(groups.len());
            let watts = class.watts.unwrap_or(figure);
            groups.push(Group {
                names: vec![class.name.clone()],
                busy_seconds: member.busy,
                joules: figure,
                watts,
                with_floor: false,
            });
        }
        if !left.is_empty() {
            rest(out, device, group, &left, idle_left, &mut groups);
        }
    }
    // The device was at rest, and the application held.
    let rested = device.replays.iter().map(|r| r.rest).sum::<f64>();
    let rest = rested.min(out.floors.first().map_or(0.0, |f| f.idle_seconds));
    let running = joules;
    if seconds > 0.0 && rest > 0.0 && floor.0 > 0.0 {
        joules += floor.0 * rest;
        if let Some(first) = out.floors.first_mut() {
            first.idle_seconds -= rest;
            first.joules = (first.joules - floor.0 * rest).max(0.0);
        }
        if let Some(gaps) = &mut out.gaps {
            gaps.joules = (gaps.joules - floor.0 * rest).max(0.0);
            gaps.seconds = (gaps.seconds - rest).max(0.0);
        }
    }
    if seconds > 0.0 || !from.is_empty() {
        let half = NORMAL * spread.sqrt();
        if seconds > 0.0 {
            let figure = Interval::estimated(joules, (joules - half).max(0.0), joules + half);
            groups.push(Group {
                names: vec![Group::REPETITIONS.to_owned()],
                busy_seconds: seconds,
                joules: figure,
                // Not of the rests.
                watts: figure.times(running / joules / seconds),
                with_floor: false,
            });
        }
        let from = from.iter().map(|path| path.display().to_string()).reduce(|a, b| a + ", " + &b);
        out.repetitions = Some(Repetitions { seconds, joules, from, agreement });
    }
    if let Some(first) = out.floors.first_mut() {
        // More than there was cannot be taken off; the rest is unattributed.
        first.joules = (first.joules + moved).max(0.0);
        if floor.0 > 0.0 && moved > 0.0 {
            first.idle_seconds += moved / floor.0;
        }
        if moved < -BESIDE * first.joules {
            out.notes.push(format!(
                "launches ran beside each other: each counts with the floor for its own length, and {:.0} J of that are taken off the floor between launches",
                -moved
            ));
        }
    }
    let parts = groups.iter().map(|g| g.joules.value).sum::<f64>()
        + out.floors.iter().map(|f| f.joules).sum::<f64>();
    out.unattributed_joules = out.measured_joules.map(|all| all - parts);
    out.groups = groups;
    out.classes.truncate(device.classes.iter().filter(|c| !c.repetition).count());
}

/// Classes that matter and had no turn get a row that says so. `own`: this run repeated something
/// itself.
pub fn not_repeated(out: &mut DeviceEnergy, device: &PhysicalDevice, found: &[Found], own: bool) {
    let why = match own {
        true => "its turn did not come within the added time",
        false => "no trace of --with repeats it",
    };
    let busy: f64 = out.classes.iter().map(|c| c.busy_seconds).sum();
    for (class, of) in out.classes.iter().zip(0..) {
        let mut shapes = device.shapes.keys().filter(|(class, _)| class.0 == of);
        let tried = shapes.any(|(_, shape)| found.iter().any(|f| f.shape == *shape));
        if class.busy_seconds >= MATTERS * busy && !tried {
            out.replays.push(Replayed {
                name: class.name.clone(),
                joules_per_launch: None,
                watts: None,
                batches: 0,
                launches: 0,
                saved_bytes: 0,
                restored_joules: None,
                failed: Some(why.to_owned()),
            });
        }
    }
}

fn names(
    device: &PhysicalDevice,
    group: &GroupEnergy,
    own: &impl Fn(ClassId) -> bool,
) -> Vec<String> {
    let name = |c: &ClassId| device.classes.get(c.0 as usize).map(|c| c.name.clone());
    group.classes.iter().filter(|c| own(**c)).filter_map(name).collect()
}

/// A group that repetitions say nothing of stays as the run knows it.
fn keep(
    out: &mut DeviceEnergy,
    group: &GroupEnergy,
    device: &PhysicalDevice,
    groups: &mut Vec<Group>,
    seconds: &mut f64,
    joules: &mut f64,
) {
    let own = |c: ClassId| device.classes.get(c.0 as usize).is_some_and(|c| !c.repetition);
    let theirs = names(device, group, &own);
    if theirs.is_empty() {
        *seconds += group.busy.0;
        *joules += group.joules.value.0;
        return;
    }
    for class in group.classes.iter().filter(|c| own(**c)) {
        if let Some(class) = out.classes.get_mut(class.0 as usize) {
            class.group = Some(groups.len());
        }
    }
    let estimate = Interval::estimated;
    let (j, w) = (group.joules, group.watts);
    groups.push(Group {
        names: theirs,
        busy_seconds: group.busy.0,
        joules: estimate(j.value.0, j.low.0, j.high.0),
        watts: estimate(w.value.0, w.low.0, w.high.0),
        with_floor: group.with_floor,
    });
}

/// Members of a sum of which nothing is known apart: their sum.
fn rest(
    out: &mut DeviceEnergy,
    device: &PhysicalDevice,
    group: &GroupEnergy,
    left: &[(ClassId, f64, f64, f64)],
    idle: f64,
    groups: &mut Vec<Group>,
) {
    let dynamic: f64 = left.iter().map(|l| l.1).sum();
    let half = NORMAL * left.iter().map(|l| l.2 * l.2).sum::<f64>().sqrt();
    let time: f64 = left.iter().map(|l| l.3).sum();
    let value = dynamic + idle;
    let joules = Interval::estimated(value, (value - half).max(0.0), value + half);
    for (class, ..) in left {
        if let Some(class) = out.classes.get_mut(class.0 as usize) {
            class.group = Some(groups.len());
            (class.joules, class.joules_per_launch, class.watts) = (None, None, None);
            class.identifiability = "only-as-sum";
        }
    }
    groups.push(Group {
        names: left
            .iter()
            .filter_map(|l| device.classes.get(l.0.0 as usize).map(|c| c.name.clone()))
            .collect(),
        busy_seconds: time,
        joules,
        watts: joules.times(1.0 / time.max(f64::MIN_POSITIVE)),
        with_floor: group.with_floor,
    });
}
