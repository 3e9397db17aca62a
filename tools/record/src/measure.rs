//! Captured launches, measured when the application has ended (`record --replay`, `--mix`). Owns
//! whether now is the time for it, for how long, and that what was captured for it goes when it has
//! been measured. Refuses to measure: `clscope-launch` does, in processes of its own.

use crate::Plan;
use clscope_capture::directory::shown_path;
use clscope_capture::running;
use clscope_capture::system::{self, Held};
use clscope_io::output::{self, Access};
use clscope_io::text::{chain, count};
use clscope_launch::read::captures;
use clscope_launch::replay::course::News;
use clscope_launch::replay::drawn::{self, Capturable};
use clscope_launch::replay::{self, Environment, Options, Plan as Launches, PlanError, Replayed};
use clscope_profile::measured::Which;
use clscope_trace::directory::{CAPTURES, is_capture_folder};
use clscope_trace::values::Measuring;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time that measuring takes at least, part of the run, and at most, where nothing else was said.
const LEAST: Duration = Duration::from_secs(20);
const PART: f64 = 0.05;
const MOST: Duration = Duration::from_secs(180);

/// How long to measure for behind a run.
fn budget(wanted: Measuring, run: Duration) -> Option<Duration> {
    match wanted {
        Measuring::Auto => Some(run.mul_f64(PART).clamp(LEAST, MOST)),
        Measuring::Within(time) => Some(time),
        Measuring::Later | Measuring::Plan => None,
    }
}

/// Measures what was captured for it, and says what came of it. `unended`: processes of the trace
/// that still run; `run`: how long the application ran.
pub(super) fn measure(plan: &Plan<'_>, trace: &Path, held: &Held, unended: &[u32], run: Duration) {
    if !plan.mix && plan.replay.is_none() {
        return;
    }
    let left = measure_drawn(plan, trace, held, unended, run);
    if plan.keep_captures {
        return;
    }
    let mut folders = Vec::new();
    // What the application did not live to complete no command takes; it holds its data all the same.
    if unended.is_empty() && !plan.captures {
        folders.extend(captures(trace).unwrap_or_default().parts);
    }
    // Those that were asked for by name stay.
    if let Some((left, spare)) = left {
        let gone = drawn::names(trace).into_iter().filter(|name| !left.contains(name));
        let gone = gone.filter(|name| is_capture_folder(name));
        folders.extend(gone.map(|name| trace.join(CAPTURES).join(name)));
        if !left.is_empty() {
            plan.tell(format_args!(
                "left in the trace: {} not measured; `clscope replay {}` measures what is left",
                count(left.len() as u64, "captured launch", "captured launches"),
                shown_path(trace)
            ));
        }
        if spare > 0 {
            plan.tell(format_args!(
                "deleted: {} more of kernels that were measured; --keep-captures keeps them",
                count(spare as u64, "captured launch", "captured launches")
            ));
        }
    }
    delete(plan, &folders);
}

/// Measures what was drawn, if now is the time for it. Which captures are still of use then, and how
/// many were not measured and are of none; nothing where all are.
fn measure_drawn(
    plan: &Plan<'_>,
    trace: &Path,
    held: &Held,
    unended: &[u32],
    run: Duration,
) -> Option<(BTreeSet<String>, usize)> {
    let wanted = plan.replay.unwrap_or(Measuring::Auto);
    let next = || format!("`clscope replay {}` measures them", shown_path(trace));
    let Some(budget) = budget(wanted, run) else {
        match wanted {
            Measuring::Plan => tell_plan(plan, trace),
            _ => plan.tell(format_args!("captured launches are kept: {}", next())),
        }
        return None;
    };
    if let [process, ..] = unended {
        plan.tell(format_args!("not measured: process {process} still runs; later {}", next()));
        return None;
    }
    // Whoever measures has the devices and their sensors for himself.
    let _alone = match alone(plan, trace, held) {
        Ok(lock) => lock,
        Err(why) => {
            plan.tell(format_args!("not measured: {why}; later {}", next()));
            return None;
        }
    };
    let launches = match Launches::read(trace, &[], true, plan.mix) {
        Ok(launches) => launches,
        Err(PlanError::Nothing { why, .. }) => {
            plan.tell(format_args!("not measured: no launch was captured{why}"));
            return Some((BTreeSet::new(), 0));
        }
        Err(error) => {
            (plan.voice.say)(&format_args!(
                "captured launches are not measured: {}",
                chain(&error)
            ));
            return None;
        }
    };
    let all: Vec<Which> = launches.launches.iter().map(|launch| launch.which.clone()).collect();
    // Counting takes as long as it takes, to a limit.
    let (budget, limit) = match plan.replay {
        Some(_) => (budget, replay::limit(budget)),
        None => (MOST, MOST),
    };
    let options = Options {
        budget,
        limit,
        energy: plan.replay.is_some() && !plan.sensors.is_off(),
        device: None,
        mix: plan.mix,
        accesses: plan.mix_accesses,
        compilers: (plan.here.variable)("PATH").unwrap_or_default(),
        counters: plan.counters.gpm().is_some(),
        sysfs_root: plan.sensors.sysfs_root.clone(),
        opencl: None,
        environment: Environment::read(trace, true, plan.here.variable),
    };
    if !plan.voice.quiet {
        (plan.voice.own_line)();
    }
    plan.tell(format_args!(
        "the application has ended; its captured launches are measured {} (Ctrl-C stops that)",
        options.time()
    ));
    let news = |news: &News<'_>| {
        if let (News::Begins { .. }, false) = (news, plan.voice.quiet) {
            (plan.voice.progress)(Some(news));
        }
    };
    let start = || replay::command(plan.here.program);
    let replayed = replay::run(trace, launches, &options, held, &start, &news);
    (plan.voice.progress)(None);
    let replayed = match replayed {
        Ok(replayed) => replayed,
        Err(error) => {
            let why = chain(&error);
            (plan.voice.say)(&format_args!("not measured: {why}; later {}", next()));
            return None;
        }
    };
    replayed.lines().iter().for_each(|line| plan.tell(line));
    if let Some(error) = &replayed.full {
        (plan.voice.say)(&format_args!("not all of it is kept: {}", chain(error)));
    }
    let drawn = drawn::names(trace);
    let all = all.into_iter().filter(|which| drawn.contains(&which.capture));
    let (done, left): (Vec<Which>, Vec<Which>) = all.partition(|which| is_done(which, &replayed));
    let is_spare = |which: &&Which| replayed.rows.iter().all(|row| row.launch != **which);
    let spare = done.iter().filter(is_spare).count();
    Some((left.into_iter().map(|which| which.capture).collect(), spare))
}

/// Whether there is nothing left to measure of a captured launch: it was, or one of its kind where
/// it was not tried.
fn is_done(which: &Which, replayed: &Replayed) -> bool {
    if replayed.unmetered.contains(which) {
        return false;
    }
    let mut of_it = replayed.rows.iter().filter(|row| row.launch == *which);
    match of_it.next() {
        Some(row) => row.failed.is_none(),
        None => {
            let mut good = replayed.rows.iter().filter(|row| row.failed.is_none());
            !replayed.interrupted
                && replayed.full.is_none()
                && good.any(|row| row.launch.is_alike(which))
        }
    }
}

/// Says what could be captured, and why the rest could not.
fn tell_plan(plan: &Plan<'_>, trace: &Path) {
    match Capturable::find(trace) {
        Ok(capturable) => capturable.lines().iter().for_each(|line| plan.tell(line)),
        Err(error) => (plan.voice.say)(&format_args!(
            "what --replay can capture is not known: {}",
            chain(&error)
        )),
    }
}

/// Deletes what was captured to be measured: it holds the application's data.
fn delete(plan: &Plan<'_>, folders: &[PathBuf]) {
    for folder in folders {
        // The recorder has taken back what other launches took the place of.
        if let Err(error) = std::fs::remove_dir_all(folder)
            && error.kind() != io::ErrorKind::NotFound
        {
            let shown = folder.display();
            (plan.voice.say)(&format_args!("cannot delete the captured launch {shown}: {error}"));
        }
    }
}

/// How often it is looked whether another has ended.
const LOOK: Duration = Duration::from_millis(100);

/// Keeps others of this user from measuring on this host meanwhile, for as long as it lives; waits
/// for one that does. Else who is in the way.
fn alone(plan: &Plan<'_>, trace: &Path, held: &Held) -> Result<File, String> {
    if let [process, ..] = running::sharing(trace)[..] {
        return Err(format!("process {process} is recorded, too, and shares the device"));
    }
    let path = std::env::temp_dir().join(format!("clscope-measures-{}", output::user()));
    let failed = |error: io::Error| format!("cannot lock {}: {error}", path.display());
    let file = match output::create_new(&path, Access::Private) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            output::replaceable(&path).map_err(failed)?;
            File::open(&path).map_err(failed)?
        }
        made => made.map_err(failed)?,
    };
    loop {
        match system::lock(&file) {
            Ok(()) => return Ok(file),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(failed(error)),
        }
        if !plan.voice.quiet {
            (plan.voice.progress)(Some(
                &"waiting for another clscope, which measures on this host",
            ));
        }
        if held.wait(Some(LOOK)).is_some_and(|arrived| arrived.signal != libc::SIGCHLD) {
            return Err("another clscope measures on this host".to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_for_measuring_follows_the_run_within_limits() {
        let seconds = |run| budget(Measuring::Auto, Duration::from_secs(run)).unwrap().as_secs();
        assert_eq!([0, 60, 400, 1000, 3600, 100_000].map(seconds), [20, 20, 20, 50, 180, 180]);
        let five = Duration::from_secs(5);
        assert_eq!(budget(Measuring::Within(five), MOST), Some(five));
        for later in [Measuring::Later, Measuring::Plan] {
            assert_eq!(budget(later, MOST), None);
        }
    }
}
