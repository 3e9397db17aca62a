//! All captured launches of a plan, measured within a time: which of them, in what order, how long
//! each, and what became of it. Owns that a launch that crashes or hangs costs its own figure alone,
//! and that whatever ends this process leaves what was measured. Refuses to print: progress and
//! notes go to whoever asked.

use super::environment::{self, Environment};
use super::job::{self, Job};
use super::measured_file::{MeasuredFile, MeasuredFileError};
use super::plan::{Left, Plan, Planned};
use crate::energy;
use crate::supervise::{self, Limits, SuperviseError};
use crate::worker;
use clscope_capture::system::Held;
use clscope_io::text::count;
use clscope_profile::measured::{self, Measured, Which};
use clscope_trace::directory::PROGRAMS;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// What starting a process, building a program and timing a launch take, before that is known.
const AROUND: Duration = Duration::from_millis(500);
/// Time for a launch that has ended within the run: a hang is one that takes so much longer.
const LAUNCH: Duration = Duration::from_secs(10);
/// Launches that measuring takes at least: what it computes, twice; what is to be put back; time.
const LEAST: u32 = 12;
/// What is measured whatever the time is.
const LONG: Duration = Duration::from_secs(1);
/// A launch that took so long in the application may take so many times as long.
const SLOWER: u64 = 20;
/// Time for all that a process does beside its windows, as building.
const BESIDE: Duration = Duration::from_secs(120);
/// What failures, slow builds and counting take beyond the time for all, at most.
const BEYOND: Duration = Duration::from_secs(30);

/// What is wanted.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Time for all launches together, as far as they take what was expected.
    pub budget: Duration,
    /// What no launch goes on beyond ([`limit`]).
    pub limit: Duration,
    /// Whether joules are measured.
    pub energy: bool,
    /// Another device than the application's.
    pub device: Option<String>,
    /// Whether what launches execute is counted.
    pub mix: bool,
    /// Whether accesses of warps to memory are counted, too.
    pub accesses: bool,
    /// Folders in which compilers are looked for, as `PATH` holds them.
    pub compilers: OsString,
    /// Whether performance counters are read.
    pub counters: bool,
    /// Where sensors are looked for instead of the system's sysfs.
    pub sysfs_root: Option<PathBuf>,
    /// The OpenCL library to open.
    pub opencl: Option<String>,
    /// Under which variables launches are measured.
    pub environment: Environment,
}

/// What measuring for a time takes at most: as much again, for what fails or takes longer than
/// expected, but no less than a launch that hangs, and no more than half a minute.
pub fn limit(budget: Duration) -> Duration {
    budget + budget.clamp(LAUNCH + AROUND, BEYOND)
}

impl Options {
    /// How long it takes, for people.
    pub fn time(&self) -> String {
        let (budget, limit) = (self.budget.as_secs_f64(), self.limit.as_secs_f64().ceil());
        match self.limit > self.budget {
            true => format!("for about {budget:.0} s, {limit} s at most"),
            false => format!("for up to {limit} s"),
        }
    }
}

/// What is going on.
#[derive(Debug)]
pub enum News<'n> {
    /// A launch begins to be measured.
    Begins {
        /// Which.
        launch: &'n Planned,
        /// Its number, from 1.
        number: usize,
        /// How many there are.
        of: usize,
        /// Time that is left for all.
        left: Duration,
    },
    /// What became of it.
    Ended(&'n Measured),
}

impl std::fmt::Display for News<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Begins { launch, number, of, left } => {
                let seconds = left.as_secs();
                write!(f, "measuring {number} of {of}: {}, {seconds} s left", launch.shown)
            }
            Self::Ended(row) => match &row.failed {
                None => write!(f, "measured {}", row.launch.name),
                Some(why) => write!(f, "not measured: {}: {why}", row.launch.name),
            },
        }
    }
}

/// What was measured.
#[derive(Debug, Default)]
pub struct Replayed {
    /// Lines that were added to the trace.
    pub rows: Vec<Measured>,
    /// What was not measured, and why.
    pub left: Vec<Left>,
    /// Launches that were counted alone: there was no time for their joules.
    pub unmetered: Vec<Which>,
    /// The user ended it.
    pub interrupted: bool,
    /// Why no more lines could be added.
    pub full: Option<MeasuredFileError>,
}

/// Why nothing is measured.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The trace cannot be added to.
    #[error(transparent)]
    MeasuredFile(#[from] MeasuredFileError),
    /// No process can be had.
    #[error(transparent)]
    Supervise(#[from] SuperviseError),
}

/// Measures the launches of a plan, and adds what was measured to the trace. `start` makes the
/// command of a process, which takes its [`Job`] by [`worker::Link`]; `held`: signals that ask for
/// an end.
///
/// # Errors
/// If the trace cannot be added to, or no process be had. What was measured before stays.
pub fn run(
    trace: &Path,
    plan: Plan,
    options: &Options,
    held: &Held,
    start: &dyn Fn() -> Command,
    tell: &dyn Fn(&News<'_>),
) -> Result<Replayed, ReplayError> {
    let mut kept = MeasuredFile::open(trace)?;
    let begun = Instant::now();
    // What a launch took that failed is not the others' loss, up to as much again, or one hang.
    let mut lost = Duration::ZERO;
    let mut launches = plan.launches;
    // Of transfers there is nothing to count.
    launches.retain(|of| options.energy || of.which.transfer.is_none());
    let (described, whole) = launches.into_iter().partition(|of| of.described.is_some());
    let (mut chosen, mut late) = chosen(whole, options.budget);
    // Counting takes one launch.
    late.extend::<Vec<Planned>>(described);
    let mut out = Replayed { left: plan.left, ..Replayed::default() };
    shuffle(&mut chosen, seed());
    // What failed before comes last: it has had its time.
    let failed: Vec<Which> = measured::read(trace).map_or_else(
        |_| Vec::new(),
        |(rows, _)| rows.into_iter().filter(|r| r.failed.is_some()).map(|r| r.launch).collect(),
    );
    chosen.sort_by_key(|launch| failed.contains(&launch.which));
    // Others follow where those take less time than they may.
    let (count, all) = (chosen.len(), chosen.len() + late.len());
    // What was used beside windows, in all, of how many; whether there is a sensor.
    let (mut around, mut measured, mut metered) = (Duration::ZERO, 0u32, options.energy);
    for (done, launch) in chosen.iter().chain(&late).enumerate() {
        let ends = options.limit.saturating_sub(begun.elapsed());
        let left = (options.budget + lost).saturating_sub(begun.elapsed()).min(ends);
        let each = if measured > 0 { around / measured } else { AROUND };
        let ahead = u32::try_from(count.saturating_sub(done)).unwrap_or(1).max(1);
        let share = (left / ahead).saturating_sub(each);
        let least = Duration::from_nanos(energy::least_ns(false, true));
        // One that takes longer by itself than there is time for has none.
        let takes = Duration::from_nanos(launch.duration_ns.unwrap_or(0)).saturating_mul(LEAST);
        if takes > LONG.max(left) {
            out.left.push(too_long(launch, takes));
            continue;
        }
        // What was slower than expected has used the time of others. The first is measured in any
        // case.
        let is_late = done > 0 && (left.is_zero() || (metered && left < least / 2));
        if is_late {
            // A kind of which one is measured lacks nothing that has to be said.
            if all_of(&out.rows).any(|which| which.is_alike(&launch.which)) {
                continue;
            }
            // Counting takes one launch.
            if !options.mix || launch.which.transfer.is_some() || ends.is_zero() {
                out.left.push(no_time(launch, options.budget));
                continue;
            }
        }
        tell(&News::Begins { launch, number: done + 1, of: all, left });
        let job = Job {
            folder: launch.folder.clone(),
            which: launch.which.clone(),
            device: launch.device.clone(),
            elsewhere: options.device.clone(),
            budget_ns: (options.energy && !is_late)
                .then(|| u64::try_from(share.as_nanos()).unwrap_or(u64::MAX)),
            mix: options.mix,
            accesses: options.accesses,
            compilers: options.compilers.clone(),
            programs: Some(trace.join(PROGRAMS)),
            counters: options.counters,
            sysfs_root: options.sysfs_root.clone(),
            opencl: options.opencl.clone(),
        };
        let limits = Limits {
            launch: LAUNCH + Duration::from_nanos(launch.duration_ns.unwrap_or(0)) * SLOWER as u32,
            whole: Some((2 * share + BESIDE).min(ends)),
        };
        let job = worker::Job { replay: Some(job), ..worker::Job::default() };
        let started = Instant::now();
        let mut command = start();
        environment::give(&options.environment.changes(launch.environment.as_ref()), &mut command);
        let ran = supervise::measure(held, command, &job, limits)?;
        let mut row = match (ran.measured, ran.ended) {
            (Some(row), _) => *row,
            (None, Some(_)) if begun.elapsed() >= options.limit => {
                out.left.push(no_time(launch, options.limit));
                continue;
            }
            (None, Some(how)) => job::failed(
                &launch.which,
                &launch.device,
                format!("its process was ended by {how}"),
            ),
            (None, None) => {
                out.interrupted = true;
                break;
            }
        };
        if is_late && options.energy && row.failed.is_none() && launch.described.is_none() {
            row.energy_missing = Some(no_time(launch, options.budget).why);
            out.unmetered.push(launch.which.clone());
        }
        if row.failed.is_some() {
            lost = (lost + started.elapsed()).min(options.budget.max(LAUNCH + AROUND));
        }
        let windows: f64 = row.windows.iter().map(|window| window.seconds).sum();
        // Half a window of rest before each, and restoring.
        let restored = row.windows.iter().any(|window| window.restoring.is_some());
        let in_windows = Duration::from_secs_f64(windows * if restored { 2.5 } else { 1.5 });
        if row.failed.is_none() {
            around += started.elapsed().saturating_sub(in_windows);
            measured += 1;
        }
        metered &= row.sensor.is_some() || row.failed.is_some();
        tell(&News::Ended(&row));
        let added = kept.add(&row);
        if let Some(why) = &row.failed {
            out.left.push(Left { kernel: launch.shown.clone(), why: why.clone() });
        }
        out.rows.push(row);
        if let Err(error) = added {
            out.rows.pop();
            out.full = Some(error);
            break;
        }
        if ran.interrupted {
            out.interrupted = true;
            break;
        }
    }
    out.left.sort();
    out.left.dedup();
    Ok(out)
}

/// The command of a process that measures a launch, of this program. It loads neither the recorder
/// nor a layer.
pub fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg(worker::REPLAY);
    for name in ["LD_PRELOAD", "LD_AUDIT", "OPENCL_LAYERS"] {
        command.env_remove(name);
    }
    command
}

/// Most kernels that are named for one reason.
const NAMED: usize = 4;

impl Replayed {
    /// Whether nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.rows.iter().all(|row| row.failed.is_some())
    }

    /// What was measured and what was not, a line each, for people.
    pub fn lines(&self) -> Vec<String> {
        let good = || self.rows.iter().filter(|row| row.failed.is_none());
        let metered = good().filter(|row| !row.windows.is_empty()).count();
        let counted = good().filter(|row| row.mix.is_some()).count();
        let transfers = good().filter(|row| row.launch.transfer.is_some()).count();
        let launches = good().count() - transfers;
        let mut line =
            format!("measured {}", count(launches as u64, "captured launch", "captured launches"));
        if transfers > 0 {
            line += &format!(" and {}", count(transfers as u64, "transfer", "transfers"));
        }
        let some = |n: usize| if n == 0 { "none".to_owned() } else { n.to_string() };
        let is_asked = |row: &Measured| row.energy_missing.as_deref() != Some(job::NOT_ASKED);
        if good().next().is_none() || good().any(is_asked) {
            line += &format!(", {} with joules", some(metered));
        }
        if counted > 0 || self.rows.iter().any(|row| row.mix_missing.is_some()) {
            line += &format!(", {} with counts of instructions", some(counted));
        }
        if self.interrupted {
            line += "; interrupted";
        }
        let mut out = vec![line];
        let name = |row: &Measured| clscope_names::short(&row.launch.name);
        let left = self.left.iter().map(|left| ("not measured", &*left.why, left.kernel.clone()));
        let joules = good().filter_map(|row| {
            let why = row.energy_missing.as_deref().filter(|why| *why != job::NOT_ASKED)?;
            Some(("no joules", why, name(row)))
        });
        let counts =
            good().filter_map(|row| Some(("not counted", row.mix_missing.as_deref()?, name(row))));
        let differing = good()
            .filter(|row| row.results.as_deref() == Some("differs"))
            .map(|row| ("results differ", "`clscope kernel` shows where", name(row)));
        let mut reasons: Vec<((&str, &str), Vec<String>)> = Vec::new();
        for (what, why, name) in left.chain(joules).chain(counts).chain(differing) {
            match reasons.iter_mut().find(|(known, _)| *known == (what, why)) {
                Some((_, names)) if names.contains(&name) => {}
                Some((_, names)) => names.push(name),
                None => reasons.push(((what, why), vec![name])),
            }
        }
        for ((what, why), names) in reasons {
            let mut list = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
            if names.len() > NAMED {
                list += &format!(" and {} more", names.len() - NAMED);
            }
            out.push(format!("{what}: {list}: {why}"));
        }
        out
    }
}

fn all_of(rows: &[Measured]) -> impl Iterator<Item = &Which> {
    rows.iter().filter(|row| row.failed.is_none()).map(|row| &row.launch)
}

fn no_time(launch: &Planned, budget: Duration) -> Left {
    let seconds = budget.as_secs_f64();
    let why = format!("no time was left within {seconds:.0} s; --for takes more");
    Left { kernel: launch.shown.clone(), why }
}

fn too_long(launch: &Planned, takes: Duration) -> Left {
    let each = launch.duration_ns.unwrap_or(0) as f64 * 1e-9;
    let why = format!(
        "a launch of {each:.1} s takes {:.0} s to measure: --for takes more",
        takes.as_secs_f64().ceil()
    );
    Left { kernel: launch.shown.clone(), why }
}

/// The launches that a time has room for, and the others: of each kind one before a second of any,
/// kinds first that took most of the run. Where there are more kinds than time for several turns of
/// each, each has fewer: a wide interval tells more than none.
fn chosen(launches: Vec<Planned>, budget: Duration) -> (Vec<Planned>, Vec<Planned>) {
    let room = |is_single| {
        let each = Duration::from_nanos(energy::least_ns(false, is_single)) + AROUND;
        (budget.as_secs_f64() / each.as_secs_f64()).floor().max(1.0) as usize
    };
    // How many of its kind stand before each.
    let mut before: Vec<(usize, Planned)> = Vec::with_capacity(launches.len());
    for launch in launches {
        let count = before.iter().filter(|(_, other)| other.is_alike(&launch)).count();
        before.push((count, launch));
    }
    let kinds = before.iter().filter(|(count, _)| *count == 0).count();
    let room = room(false).max(room(true).min(kinds));
    before.sort_by_key(|(count, _)| *count);
    let mut chosen: Vec<Planned> = before.into_iter().map(|(_, launch)| launch).collect();
    let late = chosen.split_off(room.min(chosen.len()));
    (chosen, late)
}

/// The next number of a xorshift* generator, whose state is not 0: chance that nobody has to trust.
pub(super) fn next_random(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(2_685_821_657_736_338_717)
}

/// Puts things into a random order: what drifts while they are measured hits all kinds alike.
fn shuffle<T>(of: &mut [T], seed: u64) {
    let mut state = seed | 1;
    for last in (1..of.len()).rev() {
        let random = next_random(&mut state) >> 33;
        of.swap(last, (random % (last as u64 + 1)) as usize);
    }
}

fn seed() -> u64 {
    clscope_clock::monotonic_raw().0 ^ u64::from(std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::job::Asked;

    fn launch(name: &str, number: u64, seconds: f64) -> Planned {
        Planned {
            folder: PathBuf::from(format!("{name}.{number}")),
            which: Which {
                name: name.to_owned(),
                kernel: u32::from(name.as_bytes()[0]),
                number,
                global: vec![64],
                ..Which::default()
            },
            shown: name.to_owned(),
            device: Asked::default(),
            seconds: Some(seconds),
            duration_ns: None,
            described: None,
            environment: None,
        }
    }

    #[test]
    fn short_times_are_for_one_of_each_kind_and_those_that_took_most() {
        let all = || {
            let mut out: Vec<Planned> = (1..=4).map(|n| launch("a", n, 9.0)).collect();
            out.extend((1..=4).map(|n| launch("b", n, 3.0)));
            out.push(launch("c", 1, 0.1));
            out
        };
        let names = |of: &[Planned]| {
            of.iter().map(|l| format!("{}{}", l.shown, l.which.number)).collect::<Vec<_>>()
        };
        let (least, late) = chosen(all(), Duration::from_secs(1));
        assert_eq!(names(&least), ["a1"]);
        assert_eq!(names(&late), ["b1", "c1", "a2", "b2", "a3", "b3", "a4", "b4"]);
        // Three of the kinds in fewer turns each, rather than one of them in all.
        let (three, _) = chosen(all(), Duration::from_secs(5));
        assert_eq!(names(&three), ["a1", "b1", "c1"]);
        let (four, late) = chosen(all(), Duration::from_secs(13));
        assert_eq!((names(&four).join(" "), late.len()), ("a1 b1 c1 a2".to_owned(), 5));
        assert_eq!(chosen(all(), Duration::from_secs(600)).0.len(), 9);
    }

    /// Whatever becomes of the processes, and whatever is asked of them, measuring ends in its time,
    /// and says of each kernel that nothing is known.
    #[test]
    fn the_limit_that_was_said_is_kept() {
        let held = Held::new(&[libc::SIGTERM]).unwrap();
        for (program, argument) in [("sleep", "1000"), ("false", ""), ("sleep", "0.1")] {
            for (energy, mix) in [(true, false), (false, true), (true, true)] {
                let trace = tempfile::tempdir().unwrap();
                let launches: Vec<Planned> =
                    ["a", "b", "c", "d"].iter().map(|name| launch(name, 1, 1.0)).collect();
                let plan = Plan { launches, left: Vec::new() };
                let limit = Duration::from_millis(1_200);
                let budget = Duration::from_millis(300);
                let options = Options { budget, limit, energy, mix, ..Options::default() };
                let start = || {
                    let mut command = Command::new(program);
                    command.arg(argument);
                    command
                };
                let begun = Instant::now();
                let out = run(trace.path(), plan, &options, &held, &start, &|_| ()).unwrap();
                // Ending a process takes a moment.
                let over = begun.elapsed().saturating_sub(limit);
                assert!(over < Duration::from_secs(1), "{program} {argument}: {over:?}");
                let named: Vec<&str> = out.left.iter().map(|left| left.kernel.as_str()).collect();
                assert_eq!(named, ["a", "b", "c", "d"], "{program} {argument}: {:?}", out.left);
            }
        }
        for seconds in [1u64, 5, 20, 60, 3_600] {
            let budget = Duration::from_secs(seconds);
            let beyond = limit(budget) - budget;
            assert!(beyond >= LAUNCH && beyond <= BEYOND);
        }
    }

    #[test]
    fn orders_hold_all_and_differ() {
        let order = |seed| {
            let mut all: Vec<u32> = (0..20).collect();
            shuffle(&mut all, seed);
            all
        };
        let orders: std::collections::BTreeSet<Vec<u32>> = (0..50).map(order).collect();
        assert!(orders.len() >= 25, "{}", orders.len());
        for mut one in orders {
            one.sort_unstable();
            assert_eq!(one, (0..20).collect::<Vec<_>>());
        }
        shuffle(&mut [0u8; 0], 1);
    }
}
