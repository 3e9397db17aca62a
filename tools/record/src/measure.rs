//! Captured launches, measured when the application has ended (`record --replay`, `--mix`). Owns
//! whether now is the time for it, for how long, and that what was captured for it goes when it has
//! been measured. Refuses to measure: `clscope-launch` does, in processes of its own.
#![forbid(unsafe_code)]

use crate::Plan;
use clscope_capture::directory::shown_path;
use clscope_capture::running;
use clscope_capture::system::{self, Held};
use clscope_io::input;
use clscope_io::output::{self, Access};
use clscope_io::text::chain;
use clscope_launch::replay::course::News;
use clscope_launch::replay::{self, Options, Plan as Launches, PlanError};
use clscope_trace::directory::{CAPTURES, SAMPLES};
use clscope_trace::values::Measuring;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time that measuring takes at least, part of the run, and at most, where nothing else was said.
const LEAST: Duration = Duration::from_secs(20);
const PART: f64 = 0.05;
const MOST: Duration = Duration::from_secs(180);

/// Most bytes of the recorder's log of what was drawn.
const MOST_LOG: u64 = 64 << 20;

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
    let wanted = match (plan.replay, plan.mix) {
        (Some(wanted), _) => wanted,
        (None, true) => Measuring::Auto,
        (None, false) => return,
    };
    let next = || format!("`clscope replay {}` measures them", shown_path(trace));
    let Some(budget) = budget(wanted, run) else {
        if wanted == Measuring::Later {
            plan.tell(format_args!("captured launches are kept: {}", next()));
        }
        return;
    };
    if let [process, ..] = unended {
        plan.tell(format_args!("not measured: process {process} still runs; later {}", next()));
        return;
    }
    // Whoever measures has the devices and their sensors for himself.
    let _alone = match alone(plan, trace, held) {
        Ok(lock) => lock,
        Err(why) => {
            plan.tell(format_args!("not measured: {why}; later {}", next()));
            return;
        }
    };
    let launches = match Launches::of(trace, None, true) {
        Ok(launches) => launches,
        Err(error @ PlanError::Nothing { .. }) => {
            plan.tell(format_args!("not measured: {}", chain(&error)));
            return;
        }
        Err(error) => {
            (plan.voice.say)(&format_args!(
                "captured launches are not measured: {}",
                chain(&error)
            ));
            return;
        }
    };
    // Those that were asked for by name stay.
    let drawn = drawn(trace);
    let all = launches.launches.iter().filter(|launch| drawn.contains(&launch.which.capture));
    let folders: Vec<PathBuf> =
        all.filter(|_| !plan.keep_captures).map(|launch| launch.folder.clone()).collect();
    // Counting takes as long as it takes.
    let budget = if plan.replay.is_some() { budget } else { MOST };
    let options = Options {
        budget,
        energy: plan.replay.is_some() && !plan.sensors.is_off(),
        device: None,
        mix: plan.mix,
        accesses: plan.mix_accesses,
        compilers: (plan.here.variable)("PATH").unwrap_or_default(),
        counters: plan.counters.gpm().is_some(),
        sysfs_root: plan.sensors.sysfs_root.clone(),
        opencl: None,
    };
    if !plan.voice.quiet {
        (plan.voice.own_line)();
    }
    plan.tell(format_args!(
        "the application has ended; its captured launches are measured for up to {:.0} s (Ctrl-C stops that)",
        budget.as_secs_f64()
    ));
    let news = |news: &News<'_>| {
        if let (News::Begins { .. }, false) = (news, plan.voice.quiet) {
            (plan.voice.progress)(Some(news));
        }
    };
    let start = || replay::command(plan.here.program);
    let replayed = replay::run(trace, launches, &options, held, &start, &news);
    (plan.voice.progress)(None);
    match replayed {
        Err(error) => {
            (plan.voice.say)(&format_args!(
                "captured launches are not measured: {}",
                chain(&error)
            ));
        }
        Ok(replayed) => {
            replayed.lines().iter().for_each(|line| plan.tell(line));
            if let Some(error) = &replayed.full {
                (plan.voice.say)(&format_args!("not all of it is kept: {}", chain(error)));
            }
            // What was not measured can still be.
            if !replayed.interrupted && replayed.full.is_none() {
                delete(plan, &folders);
            }
        }
    }
}

/// Names of the captures that were drawn to be measured, by the recorder's logs.
fn drawn(trace: &Path) -> BTreeSet<String> {
    let folder = trace.join(CAPTURES);
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let logs = entries.map(|entry| entry.path()).filter(|path| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.ends_with(SAMPLES))
    });
    let mut out = BTreeSet::new();
    for text in logs.filter_map(|path| input::read_inside(&path, MOST_LOG).ok()) {
        let lines = text.split(|byte| *byte == b'\n');
        let lines = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
        out.extend(lines.filter_map(|line| Some(line.get("captured")?.as_str()?.to_owned())));
    }
    out
}

/// Deletes what was captured to be measured: it holds the application's data.
fn delete(plan: &Plan<'_>, folders: &[PathBuf]) {
    for folder in folders {
        if let Err(error) = std::fs::remove_dir_all(folder) {
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
