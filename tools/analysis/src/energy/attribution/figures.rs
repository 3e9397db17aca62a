//! Owns the figures of a fitted model: sums of its effects for classes, floors, groups, gaps and
//! iterations, each with its interval. Refuses to fit.

use super::{
    AIM, DEGREE, Effect, Fitted, Floor, NOTICED, PRECISE, Problem, WHOLE_DEGREES, WIDEST, common,
    own_shares,
};
use crate::energy::compare;
use crate::energy::fit::mixed::Contrast;
use crate::energy::fit::sums::known_sums;
use crate::energy::readings::sensor::Rows;
use crate::energy::report::{
    Absence, Attribution, ClassEnergy, Drift, FloorEnergy, Gaps, GroupEnergy, IterationEnergy,
    Loads, Temperature,
};
use crate::energy::units::{ClassId, HostNs, Seconds, Watts};
use crate::interval::Interval;
use crate::quantile::NORMAL_95;
use std::collections::BTreeMap;

/// Energy of a part as sums of the model's columns: of launches above idle, and of idle power.
#[derive(Clone, Default)]
struct Part {
    above: Vec<f64>,
    idle: Vec<f64>,
}

impl Part {
    fn new(columns: usize) -> Self {
        Self { above: vec![0.0; columns], idle: vec![0.0; columns] }
    }

    fn all(&self) -> Contrast {
        sparse(self.above.iter().zip(&self.idle).map(|(a, b)| a + b))
    }

    fn above(&self) -> Contrast {
        sparse(self.above.iter().copied())
    }

    fn idle(&self) -> Contrast {
        sparse(self.idle.iter().copied())
    }
}

fn sparse(of: impl Iterator<Item = f64>) -> Contrast {
    of.enumerate().filter(|(_, n)| *n != 0.0).collect()
}

fn sum(parts: impl IntoIterator<Item = Contrast>) -> Contrast {
    let mut all = BTreeMap::<usize, f64>::new();
    parts.into_iter().flatten().for_each(|(at, n)| *all.entry(at).or_default() += n);
    all.into_iter().collect()
}

/// A state while nothing runs.
#[derive(Clone, Default)]
struct Rest {
    /// What the model says of it.
    part: Part,
    /// Its seconds.
    seconds: f64,
    /// What was read then beside that, joules: what a device draws while nothing runs is known from
    /// readings of that time, whatever the model makes of all others.
    read: f64,
}

/// What the fitted model says of what was read.
struct Parts {
    /// Of each class with a column.
    classes: Vec<Part>,
    /// Whether a class ran in the application's own time.
    is_own: Vec<bool>,
    /// Of each state while nothing runs: all of that time, and the application's own.
    rests: Vec<[Rest; 2]>,
    /// Of the application's own time, as far as anything ran.
    at_work: Part,
    /// Joules of classes that are in no reading, or in two: a sensor has yet to show what ran last.
    unseen: f64,
    /// What was read in the application's own time, joules, and in how many seconds.
    measured: Interval,
    covered: f64,
    /// Half-width of the interval of what readings of that time err by.
    noise: f64,
}

fn parts(problem: &Problem<'_>, of: &Fitted) -> Parts {
    let (states, devices) = (problem.floors.len(), problem.activity.devices);
    let own = own_shares(problem, &of.rows, &of.response);
    let mean_own = |class: &usize| {
        let ran = |i: usize| of.rows.rows[i].covers * of.columns.classes.row(i)[*class];
        let all: f64 = (0..own.len()).map(ran).sum();
        (0..own.len()).map(|i| own[i] * ran(i)).sum::<f64>() / all
    };
    let is_own: Vec<bool> = of.present.iter().map(|class| mean_own(class) >= 0.5).collect();
    let (mut measured, mut covered, mut edges, mut noise) = (0.0, 0.0, 0.0f64, 0.0f64);
    let model = &of.model;
    let width = model.kernel(of.present.len());
    let mut classes = vec![Part::new(width); of.present.len()];
    let mut at_work = Part::new(width);
    let rest = Rest { part: Part::new(width), ..Rest::default() };
    let mut rests = vec![[rest.clone(), rest]; states];
    for (i, row) in of.rows.rows.iter().enumerate() {
        let (shares, in_state) = (of.columns.classes.row(i), of.columns.states.row(i));
        let busy: f64 = shares.iter().sum();
        let crowd = if devices > 1 { busy.max(1.0) } else { 1.0 };
        let at_rest: f64 = in_state.iter().enumerate().map(|(s, n)| n * model.value(s)).sum();
        let share = |effect: &Effect, e: usize| model.value(model.share(e)) * effect.idle[i];
        let effects = || of.effects.iter().enumerate();
        let at_rest = at_rest * (1.0 + effects().map(|(e, of)| share(of, e)).sum::<f64>());
        let (mut ran_own, mut joules_own, mut joules_all) = (0.0, 0.0, 0.0);
        let stand = |part: &mut Part, state: usize, seconds: f64| {
            part.idle[state] += seconds;
            let joules = seconds * model.value(state);
            for (e, effect) in of.effects.iter().enumerate() {
                part.idle[model.share(e)] += joules * effect.idle[i];
            }
        };
        for ((k, &class), part) in of.present.iter().enumerate().zip(&mut classes) {
            let ran = row.covers * shares[class];
            if ran <= 0.0 {
                continue;
            }
            for (state, share) in in_state.iter().enumerate() {
                stand(part, state, ran / crowd * share);
            }
            let joules = ran * model.value(model.kernel(k));
            let share =
                |effect: &Effect, e: usize| model.value(model.share(e)) * effect.launches[i];
            let above = joules * (1.0 + effects().map(|(e, of)| share(of, e)).sum::<f64>());
            joules_all += above + ran / crowd * at_rest;
            if is_own[k] {
                ran_own += ran / crowd;
                joules_own += above + ran / crowd * at_rest;
            }
            let shown = if is_own[k] { busy.min(1.0) } else { 0.0 };
            for (part, share) in [(part, 1.0), (&mut at_work, shown)] {
                part.above[model.kernel(k)] += share * ran;
                for (e, effect) in of.effects.iter().enumerate() {
                    part.above[model.share(e)] += share * joules * effect.launches[i];
                }
            }
        }
        let idle = row.covers * (1.0 - busy).max(0.0);
        for (state, share) in in_state.iter().enumerate() {
            stand(&mut at_work, state, share * ran_own.min(row.covers));
        }
        let idle_own = (own[i] * row.covers - ran_own).clamp(0.0, idle);
        for (state, [all, own]) in rests.iter_mut().enumerate() {
            for (rest, idle) in [(all, idle), (own, idle_own)] {
                let seconds = idle * in_state[state];
                rest.seconds += seconds;
                rest.read += of.residual(i) * seconds;
                stand(&mut rest.part, state, seconds);
            }
        }
        // Of a reading that is of the application's time in part, the part that the model says.
        (joules_own, joules_all) = (joules_own + idle_own * at_rest, joules_all + idle * at_rest);
        let part = match joules_all {
            all if all > 0.0 => (joules_own / all).clamp(0.0, 1.0),
            _ => own[i],
        };
        let joules = row.mean * row.covers;
        (measured, covered) = (measured + part * joules, covered + own[i] * row.covers);
        noise += (part * of.residual(i) * row.covers).powi(2);
        edges += (4.0 * part * (1.0 - part) * of.residual(i) * row.covers).powi(2);
    }
    // Samples of a moment see shares that a lag has blurred: of all of the time that they cover the
    // spans know more, and of its length the estimate does. Energy above idle is that of launches,
    // however long they took.
    let scale = |of: &mut [f64], factor: f64| of.iter_mut().for_each(|n| *n *= factor);
    let mut unseen = 0.0;
    for ((k, &class), part) in of.present.iter().enumerate().zip(&mut classes) {
        let ran = part.above[model.kernel(k)];
        if ran > 0.0 {
            let placed = of.busy[class] / problem.activity.estimated(class).ratio;
            scale(&mut part.above, placed / ran);
            scale(&mut part.idle, of.busy[class] / ran);
            unseen += (placed - ran).abs() * model.value(model.kernel(k));
        }
    }
    for (which, covered) in [of.rows.covered(), covered].into_iter().enumerate() {
        let all: f64 = rests.iter().map(|rest| rest[which].seconds).sum();
        let ran = (0..of.present.len()).filter(|&k| which == 0 || is_own[k]);
        let factor = (covered - ran.map(|k| of.busy[of.present[k]]).sum::<f64>()) / all;
        if devices == 1 && factor.is_finite() && factor > 0.0 {
            for rest in rests.iter_mut().map(|rest| &mut rest[which]) {
                scale(&mut rest.part.idle, factor);
                (rest.seconds, rest.read) = (rest.seconds * factor, rest.read * factor);
            }
        }
    }
    let measured = Interval::symmetric(measured, NORMAL_95 * edges.sqrt());
    let noise = NORMAL_95 * noise.sqrt();
    Parts { classes, is_own, rests, at_work, unseen, measured, covered, noise }
}

pub(in crate::energy) fn report(problem: &Problem<'_>, of: &Fitted) -> Attribution {
    let (activity, model) = (problem.activity, &of.model);
    let states = problem.floors.len();
    let Parts { classes: parts, is_own, rests, at_work, unseen, measured, covered, noise } =
        self::parts(problem, of);
    let [all, above, idle] = [Part::all, Part::above, Part::idle]
        .map(|of| parts.iter().map(of).collect::<Vec<Contrast>>());
    // Half-width of the interval of a class's time, as a share of it.
    let relative = |k: usize| activity.estimated(of.present[k]).relative;
    // Energies if the times were known.
    let timed: Vec<Interval> = all.iter().map(|part| model.contrast(part, true)).collect();
    // Idle energy is as uncertain as the time that it is for.
    let open = |k: usize| match relative(k) {
        relative if relative > 0.0 => match model.contrast(&idle[k], true).value {
            stood if stood > 0.0 => relative * stood,
            _ => 0.0,
        },
        _ => 0.0,
    };
    let open: Vec<f64> = (0..of.present.len()).map(open).collect();
    let opened = |joules: Interval, members: &[usize]| {
        let more = members.iter().fold(0.0, |all: f64, &k| all.hypot(open[k]));
        if more > 0.0 { joules.open_by(more).at_least(0.0) } else { joules }
    };
    let busy = |members: &[usize]| -> f64 { members.iter().map(|&k| of.busy[of.present[k]]).sum() };
    let busy_open = |members: &[usize]| {
        let open = |&k: &usize| relative(k) * of.busy[of.present[k]];
        members.iter().map(open).fold(0.0, f64::hypot) / busy(members)
    };
    // Watts are of both: above idle they fall as the time rises.
    let watts = |joules: Interval, above: &Contrast, members: &[usize]| {
        let (busy, open) = (busy(members), busy_open(members));
        let watts = joules.times(1.0 / busy);
        if open <= 0.0 {
            return watts;
        }
        match model.contrast(above, true).value / busy {
            above if above > 0.0 => {
                let least = watts.value - above;
                watts.open_by(open * above).at_least(least.min(watts.low))
            }
            _ => watts,
        }
    };
    let energies: Vec<Interval> =
        timed.iter().enumerate().map(|(k, joules)| opened(*joules, &[k])).collect();
    // A launch's energy as if all of them had run at one temperature: what readings have of their own
    // is left out.
    let at_reference = |k: usize| {
        let (_, shares) = of.named.warmth?;
        let mut part = parts[k].clone();
        for effect in shares.into_iter().chain(of.named.rounded.clone()) {
            part.idle[model.share(effect)] = 0.0;
            part.above[model.share(effect)] = 0.0;
        }
        let (load, joules) = (model.load(&part.all()), model.contrast(&part.all(), true));
        // Between changes of whole degrees the temperature is not known, either.
        let stood: f64 = (0..states).map(|s| part.idle[s] * model.value(s)).sum();
        let ran = part.above[model.kernel(k)] * model.value(model.kernel(k));
        let degree =
            [stood, ran].into_iter().zip(shares).map(|(of, at)| of * model.value(model.share(at)));
        let joules = joules.open_by(NORMAL_95 * rounded(problem) * degree.sum::<f64>().abs());
        let joules = opened(joules, &[k]);
        joules.is_known_to(WIDEST).then_some((joules, load))
    };
    // What the recorder ran itself is in no sum of the application's.
    let own: Vec<usize> = (0..of.present.len()).filter(|&k| is_own[k]).collect();
    let is_wide = |at: &usize| !energies[own[*at]].is_known_to(WIDEST);
    let wide: Vec<usize> = (0..own.len()).filter(is_wide).collect();
    let values: Vec<f64> = own.iter().map(|&k| energies[k].value).collect();
    let rest = if problem.rest_as_sum { WIDEST } else { 0.0 };
    let mut covariances = model.covariances(&all);
    open.iter().enumerate().for_each(|(k, open)| covariances[(k, k)] += (open / NORMAL_95).powi(2));
    let covariances = covariances.select_rows(&own).select_columns(&own);
    let sums = known_sums(&values, &covariances, &wide, rest).into_iter();
    let mut groups: Vec<Vec<usize>> =
        sums.map(|set| set.into_iter().map(|at| own[at]).collect()).collect();
    let alone = (0..of.present.len()).filter(|k| !groups.iter().any(|set| set.contains(k)));
    let alone: Vec<Vec<usize>> = alone.map(|k| vec![k]).collect();
    groups.extend(alone);
    groups.sort_unstable();
    let rows_of_groups: Vec<GroupEnergy> = groups
        .iter()
        .map(|group| {
            let of_group = |each: &[Contrast]| sum(group.iter().map(|&k| each[k].clone()));
            let joules = model.contrast(&of_group(&all), true);
            let (above, stood) = (of_group(&above), model.contrast(&of_group(&idle), true));
            GroupEnergy {
                classes: group.iter().map(|&k| ClassId(of.present[k] as u32)).collect(),
                busy: Seconds(busy(group)),
                busy_open: busy_open(group),
                watts: watts(joules, &above, group),
                joules: opened(joules, group),
                dynamic: model.contrast(&above, true),
                idle: opened(stood, group),
            }
        })
        .collect();
    let joules_at_rest = |rest: &Rest| model.contrast(&rest.part.idle(), true).moved(rest.read);
    let floors: Vec<FloorEnergy> = rests
        .iter()
        .enumerate()
        .map(|(state, [all, own])| {
            let watts = match all.seconds > 0.0 {
                true => joules_at_rest(all).times(1.0 / all.seconds),
                false => model.contrast(&[(state, 1.0)], true),
            };
            let is_fixed = problem.floors[state] != Floor::Fitted;
            let is_narrow = watts.is_known_to(WIDEST);
            let is_known = is_fixed || of.floor_seen[state] && is_narrow;
            FloorEnergy {
                state,
                watts: is_known.then_some(watts),
                idle: Seconds(own.seconds),
                joules: is_known.then(|| joules_at_rest(own)),
                load: model.load(&own.part.idle()),
            }
        })
        .collect();
    let floor_open = floors.iter().any(|floor| floor.watts.is_none());
    // What was read at rest is no part of what a model may err in.
    let of_own = || own.iter().map(|&k| all[k].clone());
    let whole = if floor_open { sum(of_own()) } else { at_work.all() };
    let is_of_own = |group: &&GroupEnergy| {
        group.classes.iter().all(|class| own.iter().any(|&k| of.present[k] == class.index()))
    };
    let assigned: f64 =
        rows_of_groups.iter().filter(is_of_own).map(|group| group.joules.value).sum::<f64>()
            + floors.iter().filter_map(|floor| Some(floor.joules?.value)).sum::<f64>();
    let classes = (0..activity.classes())
        .map(|class| {
            let k = of.present.iter().position(|of| *of == class);
            let total = activity.totals[class];
            let busy = activity.estimated(class).ratio * total.busy_s;
            let duration = if total.launches > 0.0 { busy / total.launches } else { 0.0 };
            let covered_busy = of.busy[class];
            let group = k.and_then(|k| groups.iter().position(|group| group.contains(&k)));
            let joules = k.map(|k| energies[k]);
            let wide = joules.map(|joules| joules.relative().unwrap_or(f64::INFINITY));
            let absence = match (wide, group) {
                (None, _) => Some(Absence::NotRead),
                (_, Some(group)) if groups[group].len() > 1 => Some(Absence::InSum),
                (Some(wide), _) if wide <= WIDEST => None,
                _ => Some(Absence::Wide),
            };
            let known = joules.filter(|_| absence.is_none());
            let part = |each: &[Contrast]| {
                let k = k.filter(|_| known.is_some() && !floor_open)?;
                Some(model.contrast(&each[k], true))
            };
            let each = known.map(|joules| joules.times(duration / covered_busy));
            let needed = wide.filter(|wide| *wide > PRECISE && wide.is_finite());
            let at_reference = known.and(k).and_then(at_reference);
            let loads = |k: usize| Loads {
                joules: model.load(&all[k]),
                dynamic: model.load(&above[k]),
                idle: model.load(&idle[k]),
                at_reference: at_reference
                    .map_or([0.0; 2], |(_, load)| load.map(|n| n * duration / covered_busy)),
            };
            ClassEnergy {
                class: ClassId(class as u32),
                launches: total.launches,
                busy: Seconds(busy),
                covered: Seconds(covered_busy),
                group,
                watts: known.and(k).map(|k| watts(timed[k], &above[k], &[k])),
                joules_per_launch: each,
                per_launch_at_reference: at_reference
                    .map(|(joules, _)| joules.times(duration / covered_busy)),
                loads: k.map_or_else(Loads::default, loads),
                joules: known,
                dynamic: part(&above),
                idle: k.zip(part(&idle)).map(|(k, stood)| opened(stood, &[k])),
                energy_delay: each.map(|joules| joules.value * duration),
                needed: needed.map(|wide| Seconds(covered * (wide / AIM).powi(2))),
                absence,
            }
        })
        .collect();
    let residuals: Vec<f64> = (0..of.rows.rows.len()).map(|i| of.residual(i)).collect();
    let power: f64 = residuals.iter().map(|e| e * e).sum();
    let lagged: f64 = residuals.windows(2).map(|pair| pair[0] * pair[1]).sum();
    Attribution {
        classes,
        gaps: gaps(problem, &of.rows, &floors),
        groups: rows_of_groups,
        floors,
        measured,
        covered: Seconds(covered),
        unattributed: Interval::symmetric(
            measured.value - assigned,
            model.contrast(&whole, false).half().hypot(unseen).hypot(noise),
        ),
        response: of.response,
        drift: drift(of),
        temperature: of.named.warmth.map(|([mean_c, min_c, max_c], shares)| {
            let [idle_per_degree, above_idle_per_degree] =
                shares.map(|of| model.contrast(&[(model.share(of), 1.0)], false));
            let runs = problem.pooled.map_or(1, |(all, _)| all.runs);
            Temperature { mean_c, min_c, max_c, idle_per_degree, above_idle_per_degree, runs }
        }),
        evidence: match (&problem.pooled, of.named.warmth) {
            (Some((_, own)), _) => *own,
            (None, Some((_, shares))) => model.evidence(shares.map(|of| model.share(of)), DEGREE),
            (None, None) => model.of_workers(),
        },
        residual: Watts((power / residuals.len() as f64).sqrt()),
        residual_correlation: if power > 0.0 { lagged / power } else { 0.0 },
        readings: of.rows.rows.len(),
        faults: of.rows.faults,
        rejected_spans: activity.rejected(),
        iteration: iteration(problem, &of.rows, of.response.delay),
    }
}

/// Standard error of a run's mean temperature: each time that whole degrees change, its rounding is
/// another.
fn rounded(problem: &Problem<'_>) -> f64 {
    let changes = problem.temperature.windows(2).filter(|pair| pair[0].1 != pair[1].1).count();
    WHOLE_DEGREES / ((1 + changes) as f64).sqrt()
}

/// Rates at the end of the run over those at its start.
fn drift(of: &Fitted) -> Option<Drift> {
    // P_d(1) - P_d(-1) is 2 for odd degrees and 0 for even ones.
    let odd: Contrast =
        of.named.slow.clone().step_by(2).map(|effect| (of.model.share(effect), 2.0)).collect();
    let change = (!odd.is_empty()).then(|| of.model.contrast(&odd, false))?;
    let noticed = change.value.abs() > change.half().max(NOTICED);
    Some(Drift { share: Interval::symmetric(change.value, change.half()), noticed })
}

/// Time between the first start and the last end in which nothing ran and the sensor was read, each
/// part at the rate of the floor that it was at.
fn gaps(problem: &Problem<'_>, rows: &Rows, floors: &[FloorEnergy]) -> Gaps {
    let activity = problem.activity;
    let mut gaps = activity.gaps();
    gaps.retain(|(from, to)| from.is_finite() && to.is_finite());
    let seconds = |of: &(HostNs, HostNs)| (activity.seconds(of.0), activity.seconds(of.1));
    let own: Vec<_> = problem.own.iter().map(seconds).collect();
    // Where these are not given, they are all of the time.
    for within in [&activity.runs, &own].into_iter().filter(|of| !of.is_empty()) {
        gaps = common(&gaps, within);
    }
    let gaps = common(&gaps, &rows.coverage());
    let length = |of: &[(f64, f64)]| of.iter().map(|(from, to)| to - from).sum::<f64>();
    let seconds = length(&gaps);
    let (mut others, mut joules) = (0.0, Some(Interval::exact(0.0)));
    // State 0 is where the device was at none of the others.
    for floor in floors.iter().rev() {
        let spans = problem.states.iter().filter(|span| span.state == floor.state);
        let spans = spans.map(|s| (activity.seconds(s.start), activity.seconds(s.end)));
        let here = match floor.state {
            0 => (seconds - others).max(0.0),
            _ => length(&common(&gaps, &spans.collect::<Vec<_>>())),
        };
        others += here;
        if here > 0.0 {
            joules = joules.zip(floor.watts).map(|(sum, watts)| sum.join(watts.times(here)));
        }
    }
    Gaps { seconds, joules }
}

/// Measured energy from the first marker inside the coverage to the last, over the iterations between.
fn iteration(problem: &Problem<'_>, rows: &Rows, delay: f64) -> Option<IterationEnergy> {
    let activity = problem.activity;
    let cumulative = compare::Cumulative::new(rows);
    let (from, to) = cumulative.range()?;
    let markers = problem.iterations.iter().map(|&at| activity.seconds(at) + delay);
    let inside: Vec<f64> = markers.filter(|&at| from <= at && at <= to).collect();
    let count = inside.len().checked_sub(1).filter(|&n| n > 0)?;
    let (first, last) = (inside[0], inside[count]);
    let joules = cumulative.at(last) - cumulative.at(first);
    // Where inside a reading a marker falls is not seen: half a reading at either end.
    let edge = joules / (last - first).max(f64::MIN_POSITIVE) * rows.period / 2.0_f64.sqrt();
    Some(IterationEnergy {
        iterations: count,
        joules: Interval::above_none(joules / count as f64, edge / count as f64),
        seconds: Seconds((last - first) / count as f64),
    })
}
