//! Owns figures of several runs of which each was attributed by itself: sums of joules, and means of
//! power that are weighted by the time they are of. Refuses what a run by itself leaves open: there
//! all runs together may say more.

use super::pooled::{Evidence, Load};
use super::readings::sensor::SeriesFaults;
use super::report::{Attribution, ClassEnergy, FloorEnergy, Gaps, GroupEnergy, Loads, Temperature};
use super::units::{Seconds, Watts};
use crate::interval::Interval;
use crate::quantile::NORMAL_95;

/// Sum of figures of runs, each with what its error has in common with the others'.
fn sum(parts: impl Iterator<Item = (Interval, Load)>) -> (Interval, Load) {
    let (mut value, mut below, mut above, mut load) = (0.0, 0.0, 0.0, Load::default());
    let square = |of: Load| NORMAL_95.powi(2) * of.iter().map(|n| n * n).sum::<f64>();
    for (part, of) in parts {
        value += part.value;
        below += ((part.value - part.low).powi(2) - square(of)).max(0.0);
        above += ((part.high - part.value).powi(2) - square(of)).max(0.0);
        load = [load[0] + of[0], load[1] + of[1]];
    }
    let [below, above] = [below, above].map(|own| (own + square(load)).sqrt());
    (Interval::estimated(value, (value - below).max(0.0), value + above), load)
}

fn mean(joules: Interval, over: Seconds) -> Interval {
    joules.times(1.0 / over.0)
}

/// One class in all runs, with its group, which will be the one of this index. `None` where a run in
/// which it ran does not know it by itself.
fn class(parts: &[Attribution], at: usize, index: usize) -> Option<(ClassEnergy, GroupEnergy)> {
    let all: Vec<&ClassEnergy> = parts.iter().filter_map(|part| part.classes.get(at)).collect();
    let launches: f64 = all.iter().map(|c| c.launches).sum();
    let busy = Seconds(all.iter().map(|c| c.busy.0).sum());
    let rows: Vec<&ClassEnergy> = all.into_iter().filter(|c| c.covered.0 > 0.0).collect();
    let covered = Seconds(rows.iter().map(|c| c.covered.0).sum());
    let sum_of = |of: fn(&ClassEnergy) -> (Option<Interval>, Load)| {
        let each = |c: &&ClassEnergy| of(c).0.zip(Some(of(c).1));
        Some(sum(rows.iter().map(each).collect::<Option<Vec<_>>>()?.into_iter()))
    };
    // Of launches in each run, the mean over all.
    let each = |c: &&ClassEnergy| {
        let part = c.launches / launches;
        Some((c.per_launch_at_reference?.times(part), c.loads.at_reference.map(|n| n * part)))
    };
    let at_reference =
        rows.iter().map(each).collect::<Option<Vec<_>>>().map(|all| sum(all.into_iter()));
    let (joules, load) = sum_of(|c| (c.joules, c.loads.joules))?;
    let dynamic = sum_of(|c| (c.dynamic, c.loads.dynamic));
    let idle = sum_of(|c| (c.idle, c.loads.idle));
    let loads = Loads {
        joules: load,
        dynamic: dynamic.unzip().1.unwrap_or_default(),
        idle: idle.unzip().1.unwrap_or_default(),
        at_reference: at_reference.unzip().1.unwrap_or_default(),
    };
    let watts = mean(joules, covered);
    let duration = if launches > 0.0 { busy.0 / launches } else { 0.0 };
    let row = ClassEnergy {
        launches,
        busy,
        covered,
        group: Some(index),
        watts: Some(watts),
        joules_per_launch: Some(watts.times(duration)),
        per_launch_at_reference: at_reference.map(|of| of.0),
        loads,
        joules: Some(joules),
        dynamic: dynamic.map(|of| of.0),
        idle: idle.map(|of| of.0),
        energy_delay: Some(watts.value * duration * duration),
        needed: None,
        absence: None,
        ..**rows.first()?
    };
    let (dynamic, idle) = row.dynamic.zip(row.idle)?;
    let classes = vec![row.class];
    // What is estimated of all runs together is as uncertain in each.
    let own = parts.iter().filter_map(|part| part.groups.get(part.classes.get(at)?.group?));
    let busy_open = own.map(|group| group.busy_open).fold(0.0, f64::max);
    let group = GroupEnergy { classes, busy: covered, busy_open, watts, joules, dynamic, idle };
    Some((row, group))
}

/// One power state in all runs.
fn floor(parts: &[Attribution], state: usize) -> FloorEnergy {
    let all = || parts.iter().filter_map(|part| part.floors.get(state));
    let idle = Seconds(all().map(|f| f.idle.0).sum());
    let seen = || all().filter(|f| f.idle.0 > 0.0);
    let each = |f: &FloorEnergy| Some((f.joules?, f.load));
    let (watts, load) = match seen().map(each).collect::<Option<Vec<_>>>() {
        Some(joules) if idle.0 > 0.0 => {
            let (joules, load) = sum(joules.into_iter());
            (Some(mean(joules, idle)), load)
        }
        Some(_) => (all().find_map(|f| f.watts), Load::default()),
        None => (None, Load::default()),
    };
    FloorEnergy { state, watts, joules: watts.map(|watts| watts.times(idle.0)), idle, load }
}

/// Figures of several runs, none of which overlaps another, from those of each. `None` where there
/// are none, or a class is not known by itself in a run in which it ran.
pub fn together(parts: &[Attribution]) -> Option<Attribution> {
    let first = parts.first()?;
    let (mut classes, mut groups) = (Vec::new(), Vec::new());
    for (at, row) in first.classes.iter().enumerate() {
        if parts.iter().all(|part| part.classes.get(at).is_some_and(|c| c.covered.0 <= 0.0)) {
            let all = || parts.iter().filter_map(|part| part.classes.get(at));
            let launches = all().map(|c| c.launches).sum();
            classes.push(ClassEnergy {
                launches,
                busy: Seconds(all().map(|c| c.busy.0).sum()),
                ..*row
            });
            continue;
        }
        let (class, group) = class(parts, at, groups.len())?;
        classes.push(class);
        groups.push(group);
    }
    let states = parts.iter().map(|part| part.floors.len()).max().unwrap_or(0);
    let covered: f64 = parts.iter().map(|part| part.covered.0).sum();
    let by_time = |of: fn(&Attribution) -> f64| {
        parts.iter().map(|part| of(part) * part.covered.0).sum::<f64>() / covered
    };
    let gaps = parts.iter().map(|part| part.gaps.joules).collect::<Option<Vec<_>>>();
    let degrees = parts.iter().map(|part| part.temperature).collect::<Option<Vec<_>>>();
    let temperature = degrees.and_then(|all| {
        let mean = all.iter().zip(parts).map(|(of, part)| of.mean_c * part.covered.0);
        Some(Temperature {
            mean_c: mean.sum::<f64>() / covered,
            min_c: all.iter().map(|of| of.min_c).fold(f64::INFINITY, f64::min),
            max_c: all.iter().map(|of| of.max_c).fold(f64::NEG_INFINITY, f64::max),
            // All of them have what all say.
            ..*all.first()?
        })
    });
    Some(Attribution {
        classes,
        groups,
        floors: (0..states).map(|state| floor(parts, state)).collect(),
        measured: parts.iter().map(|part| part.measured).reduce(Interval::plus)?,
        covered: Seconds(covered),
        unattributed: parts.iter().fold(Interval::measured(0.0, 0.0, 0.0), |sum, part| {
            let (of, half) = (part.unattributed, sum.half().hypot(part.unattributed.half()));
            Interval::symmetric(sum.value + of.value, half)
        }),
        gaps: Gaps {
            seconds: parts.iter().map(|part| part.gaps.seconds).sum(),
            joules: gaps.and_then(|each| each.into_iter().reduce(Interval::join)),
        },
        iteration: None,
        response: first.response,
        drift: None,
        temperature,
        evidence: Evidence::sum(parts.iter().map(|part| part.evidence)),
        residual: Watts(by_time(|part| part.residual.0.powi(2)).sqrt()),
        residual_correlation: by_time(|part| part.residual_correlation),
        readings: parts.iter().map(|part| part.readings).sum(),
        faults: parts.iter().fold(SeriesFaults::default(), |sum, part| SeriesFaults {
            repeated: sum.repeated + part.faults.repeated,
            unordered: sum.unordered + part.faults.unordered,
            not_finite: sum.not_finite + part.faults.not_finite,
            backwards: sum.backwards + part.faults.backwards,
            gaps: sum.gaps + part.faults.gaps,
        }),
        rejected_spans: parts.iter().map(|part| part.rejected_spans).sum(),
    })
}
