//! A captured launch repeated as it stood in the application: behind rests of the device as long as
//! there, or behind commands that have not ended; flushed where it was flushed; waited for when it
//! was waited for; with caches as far as the capture tells. Owns that course, and puts the times
//! beside those of the application. Refuses to know how they stood: [`crate::application`] does.

use crate::application::{self, AIM, Application, AsThere, Row};
use crate::measure::{Effort, Subject, median};
use crate::run::time_of;
use crate::stage::{Caches, Stage, StageError};
use clscope_clock::monotonic_raw;
use clscope_microbench::stats;
use clscope_opencl::Event;

/// Longer rests and waits are imitated so long, ns: a device has come to rest by then.
pub const LONGEST_NS: u64 = 50_000_000;
/// What is ahead of a launch lasts so long at least, ns: longer than enqueuing takes.
const AHEAD_NS: f64 = 100_000.0;
/// Most launches that are put ahead of one.
const MOST_AHEAD: f64 = 32.0;

/// Launches as they stood in the application.
#[derive(Debug, Clone, Default, PartialEq)]
struct Imitated {
    /// START to END of each, ns.
    durations: Vec<f64>,
    /// Rests before those that were to have one, as they became, ns.
    rests: Vec<f64>,
    /// Of launches that were to be behind others: how many were not.
    missed: usize,
}

/// Repeats the captured version as it stood in the application, and compares the medians. Without a
/// launch there of which it is known how it stood, those there alone; `None` where too few have a
/// time.
///
/// # Errors
/// What the runtime returned; an interruption leaves fewer launches.
pub fn as_there(
    stage: &mut Stage<'_>,
    subject: &Subject<'_>,
    of: &Application,
    effort: (Effort, f64),
    stop: &dyn Fn() -> bool,
) -> Result<Option<AsThere>, StageError> {
    let standing = of.standing();
    let is_known = standing.len() >= Effort::LEAST;
    let rows = if is_known { &standing } else { &of.rows };
    let there = median(&Application::durations(rows));
    let Some(there_ns) = there.filter(|_| rows.len() >= Effort::LEAST) else { return Ok(None) };
    let mut out = AsThere {
        launches: rows.len(),
        there_ns,
        here: None,
        change: None,
        is_within_aim: false,
        is_overlapping: false,
        behind_share: None,
        missed: 0,
        rest_there_ns: None,
        rest_here_ns: None,
        cold_bytes: None,
        fresh: 0,
    };
    if !is_known {
        return Ok(Some(out));
    }
    let own = clscope_names::short(&stage.capture.launch.kernel);
    let is_apart = of.before.first().is_some_and(|before| before.what != own);
    let caches = stage.caches(subject.restored, is_apart);
    let found = launches(stage, subject, &caches, rows, effort, stop);
    stage.settle(&subject.built.kernel)?;
    let found = found?;
    let rests: Vec<f64> = rows
        .iter()
        .filter_map(|row| row.rest_ns)
        .filter(|ns| *ns >= 0)
        .map(|ns| ns as f64)
        .collect();
    out.behind_share = Some(1.0 - rests.len() as f64 / rows.len() as f64);
    (out.rest_there_ns, out.rest_here_ns) = (stats::median(&rests), stats::median(&found.rests));
    (out.cold_bytes, out.missed) = (caches.cold, found.missed);
    out.fresh = caches.fresh.len();
    out.here = time_of(&found.durations, !subject.restored.is_empty());
    if let Some(here) = &out.here {
        let kind = stage.session.facts().kind;
        out.change = application::change(&there_ns, &here.median_ns, kind);
        out.is_within_aim = (here.median_ns.value / there_ns.value - 1.0).abs() <= AIM;
        out.is_overlapping = application::overlap(&there_ns, &here.median_ns);
    }
    Ok(Some(out))
}

/// Repeats a version, each launch as one of `rows` stood, in their order and evenly spread.
/// `typical_ns`: what a launch takes.
///
/// # Errors
/// What the runtime returned; an interruption leaves fewer launches.
fn launches(
    stage: &mut Stage<'_>,
    subject: &Subject<'_>,
    caches: &Caches,
    rows: &[Row],
    (effort, typical_ns): (Effort, f64),
    stop: &dyn Fn() -> bool,
) -> Result<Imitated, StageError> {
    let mut out = Imitated::default();
    if rows.is_empty() {
        return Ok(out);
    }
    let begun = monotonic_raw().0;
    // What passes beside the rest that is waited for: the host's notice of the end, and the
    // enqueue.
    let mut beside: Vec<f64> = Vec::new();
    let mut last: Option<Event> = None;
    for number in 0..effort.launches + Effort::WARM_UP {
        let late = monotonic_raw().0 - begun > effort.longest_ns;
        if stop() || (late && number >= Effort::LEAST + Effort::WARM_UP) {
            break;
        }
        let is_warm_up = number < Effort::WARM_UP;
        let at = number.saturating_sub(Effort::WARM_UP);
        let Some(row) = rows.get(at * rows.len() / effort.launches.max(1)) else { break };
        let rest = row.rest_ns.unwrap_or(0);
        if rest < 0 {
            ahead(stage, subject, caches, (rest.unsigned_abs(), typical_ns))?;
        }
        last = stage.prepare(caches, &subject.built.kernel)?.or(last);
        let mut waited = 0;
        if rest >= 0 {
            stage.session.finish()?;
            let known = stats::median(&beside).unwrap_or(0.0);
            waited = (rest.unsigned_abs() as f64 - known).max(0.0) as u64;
            waited = pause(waited, stop);
        }
        let event = stage.launch(subject.built, subject.range)?;
        if row.is_flushed {
            stage.session.flush()?;
        }
        pause(row.wait_ns.unwrap_or(0), stop);
        stage.session.finish()?;
        let [queued, _, start, end] = event.stamps()?;
        let before = last.replace(event).map(|before| before.stamps()).transpose()?;
        let rested = before.map(|[.., end]| queued as f64 - end as f64);
        if let Some(rested) = rested.filter(|_| rest >= 0) {
            beside.push(rested - waited as f64);
        }
        if is_warm_up {
            continue;
        }
        out.durations.push(end.saturating_sub(start) as f64);
        match rested {
            Some(rested) if rest >= 0 => out.rests.push(rested),
            Some(rested) if rested >= 0.0 => out.missed += 1,
            _ => {}
        }
    }
    Ok(out)
}

/// Enqueues launches that are ahead of one, for some time.
fn ahead(
    stage: &Stage<'_>,
    subject: &Subject<'_>,
    caches: &Caches,
    (ns, typical_ns): (u64, f64),
) -> Result<(), StageError> {
    let wanted = (ns.min(LONGEST_NS) as f64).max(AHEAD_NS) / typical_ns.max(1.0);
    for _ in 0..wanted.ceil().clamp(1.0, MOST_AHEAD) as usize {
        // What no command had used before holds nothing to begin from.
        let restored = subject.restored.iter().filter(|index| !caches.fresh.contains(index));
        restored.copied().try_for_each(|index| stage.restore(index).map(drop))?;
        stage.launch_untimed(subject.built, subject.range)?;
    }
    Ok(())
}

/// Lets time pass, with the processor busy as the application's was, no longer than
/// [`LONGEST_NS`]; gives the time.
fn pause(ns: u64, stop: &dyn Fn() -> bool) -> u64 {
    let (begun, ns) = (monotonic_raw().0, ns.min(LONGEST_NS));
    let mut asked = 0;
    loop {
        let passed = monotonic_raw().0 - begun;
        // Asking takes longer than a short pause.
        if passed >= ns || (passed - asked > 1_000_000 && stop()) {
            return passed.min(ns);
        }
        if passed - asked > 1_000_000 {
            asked = passed;
        }
        std::hint::spin_loop();
    }
}
