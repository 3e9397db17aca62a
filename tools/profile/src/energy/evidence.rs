//! Owns bringing together what a run's own readings know of sums and what repetitions know of
//! single kernels and transfers: one figure a class, which says by what it is known, and parts that
//! add up to what was measured. Refuses to weigh evidence itself: the analysis does.
#![forbid(unsafe_code)]

use super::activity::{PhysicalDevice, repeated_class};
use super::balance::{floors_moved, rests, rests_taken_off, unexplained};
use super::replayed::Found;
use super::result::{Absence, Agreement, Basis, Class, DeviceEnergy, Group, Repetitions, Replayed};
use super::shapes::Tally;
use super::trials::TakenOff;
use super::united::{is_chance, sum_of};
use crate::interval::Interval;
use clscope_analysis::energy::evidence::{self, Belief, Member, Reconciled, Shape, reconcile};
use clscope_analysis::energy::{
    Attribution, ClassEnergy, ClassId, GroupEnergy, HostNs, Identifiability,
};
use std::collections::BTreeMap;
use std::path::Path;

/// Half-width of a 95 % interval over its standard error; a little more than the normal
/// distribution's, since errors are estimated.
pub(super) const NORMAL: f64 = 2.0;
/// Half-widths up to which a class counts as well or at least weakly known.
pub(super) const PRECISE: f64 = 0.10;
pub(super) const WEAK: f64 = 0.50;
/// What repetitions of another run may be off for that alone: another day's temperature.
const OTHER_RUN: f64 = 0.015;
/// Standard error, in watts, of the floor of a run in which the device never rested, beyond its
/// own: what lies between launches is told from what they add by a model of the sensor alone. (Two
/// runs of one steady application on an H200: 127 and 129 W.)
const UNRESTED: f64 = 1.0;
/// Standard error, in watts, of what a device draws in gaps between launches beyond its floor at
/// rest. (Face detection, PyOpenCL's arrays and CLBlast on H200s: the run's sum is -2 to 10 W times
/// its gaps above what repetitions predict.)
const GAPS: f64 = 6.0;
/// Share of the busy time, or of the dynamic energy, from which on it is told that a class was not
/// repeated.
pub(super) const MATTERS: f64 = 0.02;
/// Standard error of the length of a launch, as a share.
const LENGTH: f64 = 0.01;
/// Standard error of a repeated transfer, as a share. (The same transfer alone, minutes apart on an
/// H200: 13 and 26 % more.)
const TRANSFER: f64 = 0.08;
/// Share of the device's time in which commands ran beside each other, up to which their lengths
/// are those of commands alone.
pub(super) const OVERLAPPED: f64 = 0.02;
/// Error of a whole batch's energy.
const OWN_BATCH: f64 = 0.01;

/// The floor between launches with its standard error; 0 where it is not known, and then part of
/// every figure.
pub fn floor(result: &Attribution) -> (f64, f64) {
    result.floors.first().and_then(|f| f.watts).map_or((0.0, 0.0), |w| (w.value, w.half() / NORMAL))
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

/// What windows say of a class in which it ran alone.
pub(super) fn alone(
    device: &PhysicalDevice,
    class: ClassId,
    found: &[Found],
    floor: (f64, f64),
) -> Option<Belief> {
    belief(device, class, found, floor, device.overlapped() <= OVERLAPPED)
}

/// Whether what is known of a class is partly another run's.
fn borrowed(device: &PhysicalDevice, class: ClassId, found: &[Found]) -> bool {
    let lent = |shape: &super::shapes::Shape| found.iter().any(|f| f.borrowed && f.shape == *shape);
    device.shapes.keys().any(|(of, shape)| *of == class && lent(shape))
}

/// What evidence is brought together with, beside a run's attribution.
pub struct Circumstances<'e> {
    /// The other traces that repetitions were taken from.
    pub from: &'e [&'e Path],
    /// What trials of repetitions were taken off the classes of the application.
    pub tried: TakenOff,
    /// The part of the run that the attribution is of.
    pub window: Option<(HostNs, HostNs)>,
}

/// Gives each class its figure from all that is known.
pub fn apply(
    out: &mut DeviceEnergy,
    device: &PhysicalDevice,
    result: &Attribution,
    found: &[Found],
    Circumstances { from, tried, window }: Circumstances<'_>,
) {
    let floor = floor(result);
    let mut evidence = Evidence {
        out,
        device,
        result,
        per_span: device.launches_per_span(),
        overlapped: device.overlapped(),
        found,
        floor,
        is_borrowed: !from.is_empty(),
        windowed: window.is_some(),
        agreement: Vec::new(),
        groups: Vec::new(),
        moved: 0.0,
        repeated: RepetitionSums {
            seconds: tried.seconds,
            joules: tried.joules,
            spread: tried.spread,
        },
    };
    for group in &evidence.sums() {
        evidence.group(group);
    }
    let Evidence { agreement, mut groups, moved, mut repeated, overlapped, .. } = evidence;
    let running = repeated.joules;
    repeated.joules += rests_taken_off(out, rests(device, window), repeated.seconds, floor.0);
    if repeated.seconds > 0.0 || !from.is_empty() {
        groups.extend(repeated.group(running));
        let from = from.iter().map(|path| path.display().to_string()).reduce(|a, b| a + ", " + &b);
        let RepetitionSums { seconds, joules, .. } = repeated;
        let batches_in_window = window.map(|part| batches_in(device, part));
        out.repetitions = Some(Repetitions { seconds, joules, from, batches_in_window, agreement });
    }
    let doubled = floors_moved(out, moved, floor.0, overlapped > OVERLAPPED);
    let parts = groups.iter().map(|g| g.joules.value).sum::<f64>()
        + out.floors.iter().filter_map(|f| f.joules).sum::<f64>();
    out.unattributed_joules = out.measured_joules.map(|all| all - parts);
    unexplained(out, &mut groups, parts - doubled);
    out.groups = groups;
    out.classes.truncate(device.classes.iter().filter(|c| !c.repetition).count());
}

/// Batches of repetitions that began in a part of the run.
fn batches_in(device: &PhysicalDevice, (from, to): (HostNs, HostNs)) -> usize {
    let batches = device.replays.iter().flat_map(|r| &r.batches);
    batches.filter(|b| !b.3 && b.2 > 0 && from <= b.0 && b.0 <= to).count()
}

/// What the recorder itself repeated, while the sensor was read.
#[derive(Default)]
struct RepetitionSums {
    seconds: f64,
    joules: f64,
    /// Square of the joules' standard error.
    spread: f64,
}

impl RepetitionSums {
    /// Their row; `running`: joules without those of rests.
    fn group(&self, running: f64) -> Option<Group> {
        let Self { seconds, joules, spread } = *self;
        let half = NORMAL * spread.sqrt();
        let figure = Interval::estimated(joules, (joules - half).max(0.0), joules + half);
        (seconds > 0.0).then(|| Group {
            names: vec![Group::REPETITIONS.to_owned()],
            busy_seconds: seconds,
            joules: figure,
            // Not of the rests.
            watts: figure.times(running / joules / seconds),
            with_floor: false,
        })
    }
}

/// Why a figure with such a half-width, as a share of it, is not given; `None` where it is.
pub(super) fn absence(relative: f64) -> Option<Absence> {
    (relative.is_nan() || relative > WEAK).then_some(Absence::Wide)
}

/// A device on the way to figures from all that is known, group by group.
struct Evidence<'e> {
    out: &'e mut DeviceEnergy,
    device: &'e PhysicalDevice,
    result: &'e Attribution,
    /// Launches that a span stands for, by class.
    per_span: Vec<f64>,
    /// Share of the device's time in which commands ran beside others.
    overlapped: f64,
    found: &'e [Found],
    floor: (f64, f64),
    /// Some of what is known is other runs'.
    is_borrowed: bool,
    /// The attribution is of a part of the run.
    windowed: bool,
    agreement: Vec<Agreement>,
    groups: Vec<Group>,
    /// Joules that go from launches to the floor between them.
    moved: f64,
    repeated: RepetitionSums,
}

/// A group's members, as repetitions and the run's sum know them.
struct Weighed {
    beliefs: Vec<Option<Belief>>,
    members: Vec<Member>,
    both: Reconciled,
}

/// A class of a group with what was found of it.
struct MemberFigure<'r> {
    class: ClassId,
    belief: Option<&'r Belief>,
    /// Joules above the floor, and their standard error.
    dynamic: f64,
    sd: f64,
    /// Seconds while the sensor was read.
    busy: f64,
}

impl Evidence<'_> {
    /// Whether a class is the application's.
    fn is_own(&self, class: ClassId) -> bool {
        self.device.classes.get(class.0 as usize).is_some_and(|c| !c.repetition)
    }

    fn per_span(&self, class: ClassId) -> f64 {
        self.per_span.get(class.0 as usize).copied().unwrap_or(1.0)
    }

    fn row(&self, class: ClassId) -> &ClassEnergy {
        &self.result.classes[class.0 as usize]
    }

    /// What repetitions say of a group's members, and what both kinds of evidence make of them.
    fn weigh(&self, group: &GroupEnergy) -> Weighed {
        let alone = self.overlapped <= OVERLAPPED;
        let belief = |&c: &ClassId| {
            let is_own = self.is_own(c);
            is_own.then(|| belief(self.device, c, self.found, self.floor, alone)).flatten()
        };
        let beliefs: Vec<Option<Belief>> = group.classes.iter().map(belief).collect();
        let member = |(&c, belief): (&ClassId, &Option<Belief>)| self.member(group, c, *belief);
        let members: Vec<Member> = group.classes.iter().zip(&beliefs).map(member).collect();
        let both = reconcile((group.dynamic.0, self.error(group)), &members);
        Weighed { beliefs, members, both }
    }

    /// The run's sums, as repetitions let them stand. Where not every launch was timed, the run
    /// knows only about how much of each class ran between two readings, and may take chance for
    /// what tells groups apart that always run in the same proportions. Then repetitions contradict
    /// its sums one by one, some upwards and some downwards, and agree with all of them together:
    /// that sum is taken instead, and a note says so.
    fn sums(&mut self) -> Vec<GroupEnergy> {
        let result = self.result;
        if self.device.shapes.values().all(|t| t.timed >= t.launches) {
            return result.groups.clone();
        }
        let (mut compared, mut differences) = (Vec::new(), Vec::new());
        let (mut members, mut others) = (Vec::new(), Vec::new());
        for group in &result.groups {
            let weighed = self.weigh(group);
            let told = weighed.beliefs.iter().any(Option::is_some);
            // With the recorder's own repetitions, whose readings may have gone to any of these.
            let is_member = told || !group.classes.iter().any(|c| self.is_own(*c));
            if is_member { &mut members } else { &mut others }.push(group.clone());
            let Some(predicted) = weighed.both.predicted.filter(|_| told) else { continue };
            differences.push((group.dynamic.0 - predicted, weighed.both.agrees));
            compared.push(self.names(group).join(" + "));
        }
        let sum = is_chance(&differences).then(|| sum_of(&members)).flatten();
        let Some(sum) = sum.filter(|sum| self.weigh(sum).both.agrees) else {
            return result.groups.clone();
        };
        self.out.notes.push(format!(
            "only the sum of {} is measured here, because not every launch was timed: record with --device-timing event",
            compared.join(" and ")
        ));
        others.push(sum);
        others
    }

    fn group(&mut self, group: &GroupEnergy) {
        let Weighed { beliefs, members, both } = self.weigh(group);
        if beliefs.iter().all(Option::is_none) {
            self.keep(group);
            return;
        }
        if let [class] = group.classes[..]
            && let [Some(belief)] = beliefs[..]
            && self.is_better_known(class, &belief)
        {
            self.keep(group);
            return;
        }
        if let Some(predicted) = both.predicted {
            // Without what the recorder itself repeated.
            let theirs = group.classes.iter().zip(&members).filter(|(c, _)| !self.is_own(**c));
            let repeated: f64 = theirs.filter_map(|(_, member)| member.known).map(|k| k.0).sum();
            let compared = (predicted - repeated, group.dynamic.0 - repeated);
            let names = self.names(group);
            self.agreement.push(Agreement::of(names, compared, both.agrees, both.allowed));
        }
        let mut left = Vec::new();
        for (((&class, belief), &(dynamic, sd)), member) in
            group.classes.iter().zip(&beliefs).zip(&both.members).zip(&members)
        {
            let found =
                MemberFigure { class, belief: belief.as_ref(), dynamic, sd, busy: member.busy };
            left.extend(self.class(group, &found));
        }
        if !left.is_empty() {
            self.rest(group, &left);
        }
    }

    /// Whether the run itself knows a class by itself, of which launches of another length were
    /// repeated: a note says so.
    fn is_better_known(&mut self, class: ClassId, belief: &Belief) -> bool {
        let own = &self.row(class).identifiability;
        let is_known = matches!(own, Identifiability::Well | Identifiability::Weak { .. });
        if belief.stands || !is_known {
            return false;
        }
        let name = self.device.classes.get(class.0 as usize).map_or("", |c| c.name.as_str());
        self.out.notes.push(format!(
            "{name}: its joules are from the run's own readings, because the repeated launches are much shorter or longer than the run's mean"
        ));
        true
    }

    fn member(&self, group: &GroupEnergy, class: ClassId, belief: Option<Belief>) -> Member {
        let row = self.row(class);
        let covered = row.covered.0 / row.busy.0.max(f64::MIN_POSITIVE) * self.part(class);
        let known = match belief {
            Some(b) => {
                let is_borrowed = borrowed(self.device, class, self.found);
                let more = if is_borrowed { OTHER_RUN } else { 0.0 } * b.dynamic;
                Some((b.dynamic * covered, b.sd.hypot(more) * covered))
            }
            None if self.is_own(class) => None,
            None => Some(self.repetition(group, class)),
        };
        Member { busy: row.covered.0, known }
    }

    /// Part of a class's launches in the run, which repetitions stand for, that the attribution is
    /// of.
    fn part(&self, class: ClassId) -> f64 {
        let of_class = self.device.shapes.iter().filter(|((of, _), _)| *of == class);
        let whole: f64 = of_class.map(|(_, tally)| tally.launches as f64).sum();
        if !self.windowed || whole <= 0.0 {
            return 1.0;
        }
        let here = self.row(class).launches * self.per_span(class);
        (here / whole).min(1.0)
    }

    /// Energy above the floor of what the recorder itself repeated, while the sensor was read, with
    /// its standard error: of a group by itself what the run's readings say; in company by the mean
    /// power of its batches, which the sensor followed.
    fn repetition(&self, group: &GroupEnergy, class: ClassId) -> (f64, f64) {
        if group.classes.len() == 1 {
            let joules = group.dynamic.0;
            let own = group.joules.half() / NORMAL;
            return (joules, own.max(OWN_BATCH * joules));
        }
        let covered = self.row(class).covered.0;
        let name = self.device.classes.get(class.0 as usize).map_or("", |c| c.name.as_str());
        // Seconds and joules above the floor of the batches that the sensor followed.
        let (mut seconds, mut joules) = (0.0, 0.0);
        for found in self.found.iter().filter(|f| !f.borrowed) {
            let is_repeated = name == repeated_class(&found.name, false);
            let is_restored = name == repeated_class(&found.name, true);
            for batch in &found.repetitions {
                let watts = match batch.restoring {
                    _ if is_repeated => batch.watts,
                    // Each such batch has one of restorations behind it, about as long.
                    Some(restoring) if is_restored => restoring.watts,
                    _ => continue,
                };
                seconds += batch.seconds;
                joules += (watts - self.floor.0) * batch.seconds;
            }
        }
        if seconds > 0.0 {
            let joules = joules / seconds * covered;
            return (joules, OWN_BATCH * joules.abs());
        }
        // No batch was followed: their rates are taken for equal.
        let joules = group.dynamic.0 * covered / group.busy.0.max(f64::MIN_POSITIVE);
        (joules, joules)
    }

    /// Standard error of what the run itself knows of a group's joules.
    fn error(&self, group: &GroupEnergy) -> f64 {
        let busy: f64 = self.result.groups.iter().map(|g| g.busy.0).sum();
        // What was repeated in another run was not rested before in this one.
        let unrested = if self.is_borrowed { UNRESTED * self.out.seconds } else { 0.0 };
        let between = GAPS * self.out.gaps.as_ref().map_or(0.0, |gaps| gaps.seconds);
        let part = group.busy.0 / busy.max(f64::MIN_POSITIVE);
        (group.joules.half() / NORMAL).hypot(unrested * part).hypot(between * part)
    }

    /// Gives a class its figure; what is known too little of, with nothing but a sum to go by, is
    /// given back.
    fn class(&mut self, group: &GroupEnergy, found: &MemberFigure<'_>) -> Option<Left> {
        let &MemberFigure { class: c, belief, dynamic, sd, busy } = found;
        let standing = group.idle.0 / group.busy.0.max(f64::MIN_POSITIVE);
        if !self.is_own(c) {
            self.repeated.seconds += busy;
            self.repeated.joules += dynamic + standing * busy;
            self.repeated.spread += sd * sd;
            return None;
        }
        if busy <= 0.0 {
            // None of it ran while the sensor was read: what repetitions say of it is told apart.
            return None;
        }
        let row = self.row(c);
        let launches =
            row.launches * row.covered.0 / row.busy.0.max(f64::MIN_POSITIVE) * self.per_span(c);
        // A launch counts with its own length, as if nothing ran beside it: what its stamps hold
        // of the runtime's own work is idle time, and where launches overlapped, the floor
        // between launches was there the longer.
        // Between repeated transfers the host prepares the next: where nothing ran beside each
        // other, those of the run were no longer than their stamps say.
        let kernel = self.device.classes.get(c.0 as usize).is_some_and(|c| c.kernel);
        let is_bounded = !kernel && self.overlapped <= OVERLAPPED;
        let time = belief.map_or(busy, |b| match b.length * launches {
            more if b.restored || is_bounded => more.min(busy),
            time => time,
        });
        let idle = standing * time;
        self.moved += standing * (busy - time);
        let total = dynamic + idle;
        // How long it takes is not known any better, which the floor's part has of it. Of a
        // repeated transfer what it adds has it, too: the host's memory and its copies take part.
        let (of_idle, of_dynamic) = match belief {
            Some(_) if !kernel => (TRANSFER, TRANSFER),
            _ => (LENGTH, 0.0),
        };
        let half = NORMAL * sd.hypot(of_idle * idle + of_dynamic * dynamic);
        let relative = half / total.max(f64::MIN_POSITIVE);
        if belief.is_none() && relative > WEAK {
            return Some(Left { class: c, dynamic, sd, time, idle });
        }
        let figure = Interval::estimated(total, (total - half).max(0.0), total + half);
        let class = self.out.classes.get_mut(c.0 as usize)?;
        class.joules = Some(figure);
        class.joules_per_launch = (launches > 0.0).then(|| figure.times(1.0 / launches));
        class.watts = (time > 0.0).then(|| figure.times(1.0 / time));
        class.energy_delay = class.joules_per_launch.map(|j| j.value * time / launches);
        let split = self.floor.0 > 0.0;
        // A floor that is off is off in all of what running added, and in the other part.
        let level = self.floor.1 * time;
        let own = NORMAL * sd.hypot(level).hypot(of_dynamic * dynamic);
        let rest = NORMAL * level.hypot(of_idle * idle);
        class.dynamic_joules =
            split.then(|| Interval::estimated(dynamic, dynamic - own, dynamic + own));
        class.idle_joules =
            split.then(|| Interval::estimated(idle, (idle - rest).max(0.0), idle + rest));
        class.basis = if belief.is_some() { Basis::Alone } else { Basis::Remainder };
        class.absence = absence(relative);
        class.needed_seconds = None;
        class.group = Some(self.groups.len());
        self.groups.push(Group {
            names: vec![class.name.clone()],
            busy_seconds: busy,
            joules: figure,
            watts: class.watts.unwrap_or(figure),
            with_floor: false,
        });
        None
    }

    /// Names of a group's classes that are the application's.
    fn names(&self, group: &GroupEnergy) -> Vec<String> {
        let name = |c: &ClassId| self.device.classes.get(c.0 as usize).map(|c| c.name.clone());
        group.classes.iter().filter(|c| self.is_own(**c)).filter_map(name).collect()
    }

    /// A group that repetitions say nothing of stays as the run knows it.
    fn keep(&mut self, group: &GroupEnergy) {
        let names = self.names(group);
        if names.is_empty() {
            self.repeated.seconds += group.busy.0;
            self.repeated.joules += group.joules.value;
            return;
        }
        let own: Vec<ClassId> = group.classes.iter().copied().filter(|c| self.is_own(*c)).collect();
        let busy = own.iter().map(|c| self.row(*c).covered.0).sum::<f64>().min(group.busy.0);
        let mut joules: Interval = group.joules;
        if own.len() < group.classes.len() {
            joules = self.without_repetitions(group, busy);
        }
        for class in &own {
            let launches = self.row(*class).launches * self.per_span(*class);
            let Some(class) = self.out.classes.get_mut(class.0 as usize) else { continue };
            class.group = Some(self.groups.len());
            // Alone with what the recorder ran.
            if own.len() == 1 && group.classes.len() > 1 && busy > 0.0 && launches > 0.0 {
                let relative =
                    (joules.high - joules.low) / 2.0 / joules.value.max(f64::MIN_POSITIVE);
                if relative <= WEAK {
                    class.joules = Some(joules);
                    class.joules_per_launch = Some(joules.times(1.0 / launches));
                    class.watts = Some(joules.times(1.0 / busy));
                    class.energy_delay = Some(joules.value / launches * busy / launches);
                    let idle = self.floor.0 * busy;
                    if self.floor.0 > 0.0 && idle <= joules.value {
                        let half = joules.half().hypot(NORMAL * self.floor.1 * busy);
                        let dynamic = joules.value - idle;
                        class.dynamic_joules =
                            Some(Interval::estimated(dynamic, dynamic - half, dynamic + half));
                        let level = NORMAL * self.floor.1 * busy;
                        class.idle_joules =
                            Some(Interval::estimated(idle, (idle - level).max(0.0), idle + level));
                    }
                    (class.basis, class.absence) = (Basis::Remainder, None);
                    class.needed_seconds = None;
                }
            }
        }
        let watts = match joules.value > 0.0 && own.len() < group.classes.len() {
            true => joules.times(1.0 / busy.max(f64::MIN_POSITIVE)),
            false => group.watts,
        };
        self.groups.push(Group {
            names,
            busy_seconds: busy,
            joules,
            watts,
            with_floor: group.with_floor,
        });
    }

    /// A sum of the application's classes, which ran for so long, with what the recorder ran,
    /// without the latter.
    fn without_repetitions(&mut self, group: &GroupEnergy, busy: f64) -> Interval {
        let theirs: Vec<(f64, f64)> = group
            .classes
            .iter()
            .filter(|c| !self.is_own(**c))
            .map(|c| self.repetition(group, *c))
            .collect();
        let dynamic = theirs.iter().map(|t| t.0).sum::<f64>().clamp(0.0, group.dynamic.0.max(0.0));
        let variance = theirs.iter().map(|t| t.1 * t.1).sum::<f64>();
        let part = 1.0 - busy / group.busy.0.max(f64::MIN_POSITIVE);
        let joules = dynamic + part * group.idle.0;
        self.repeated.seconds += part * group.busy.0;
        self.repeated.joules += joules;
        self.repeated.spread += variance;
        let value = (group.joules.value - joules).max(0.0);
        let half = group.joules.half().hypot(NORMAL * variance.sqrt());
        Interval::estimated(value, (value - half).max(0.0), value + half)
    }

    /// Members of a sum of which nothing is known apart: their sum.
    fn rest(&mut self, group: &GroupEnergy, left: &[Left]) {
        let half = NORMAL * left.iter().map(|l| l.sd * l.sd).sum::<f64>().sqrt();
        let time: f64 = left.iter().map(|l| l.time).sum();
        let value =
            left.iter().map(|l| l.dynamic).sum::<f64>() + left.iter().map(|l| l.idle).sum::<f64>();
        let joules = Interval::estimated(value, (value - half).max(0.0), value + half);
        let mut names = Vec::with_capacity(left.len());
        for Left { class, .. } in left {
            names.extend(self.device.classes.get(class.0 as usize).map(|c| c.name.clone()));
            if let Some(class) = self.out.classes.get_mut(class.0 as usize) {
                class.group = Some(self.groups.len());
                (class.joules, class.joules_per_launch, class.watts) = (None, None, None);
                class.absence = Some(Absence::InSum);
            }
        }
        self.groups.push(Group {
            names,
            busy_seconds: time,
            joules,
            watts: joules.times(1.0 / time.max(f64::MIN_POSITIVE)),
            with_floor: group.with_floor,
        });
    }
}

/// A class of which only its part in a sum is known: joules above the floor with their standard
/// error, its time, and the floor's joules meanwhile.
struct Left {
    class: ClassId,
    dynamic: f64,
    sd: f64,
    time: f64,
    idle: f64,
}

/// Why a class was not repeated: here, and in a trace that was to lend repetitions.
pub(super) const NO_TURN: &str = "the time for repetitions ran out before it";
pub(super) const ONCE: &str = "launched once, and only what is launched again is repeated";
pub(super) const NOT_LENT: &str = "no trace of --with has it";

/// Whether a class is a part of the device's work worth a figure: by its time, or by what running
/// it added, as far as that is known.
pub(super) fn matters(class: &Class, all: &[Class]) -> bool {
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
    (own, unmeasured): (bool, &BTreeMap<String, String>),
) {
    for (class, of) in out.classes.iter().zip(0..) {
        let shapes = device.shapes.iter().filter(|((class, _), _)| class.0 == of);
        let tried = shapes.clone().any(|((_, shape), _)| found.iter().any(|f| f.shape == *shape));
        let names = shapes.clone().map(|((_, shape), _)| shape.name.as_str());
        let known = names.into_iter().find_map(|name| unmeasured.get(name).map(String::as_str));
        let why = match own {
            _ if known.is_some() => known.unwrap_or_default(),
            true if shapes.map(|(_, tally)| tally.launches).max() == Some(1) => ONCE,
            true => NO_TURN,
            false => NOT_LENT,
        };
        if matters(class, &out.classes) && !class.is_precise() && !tried {
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
