//! An external power meter, read while something runs: a logger writes a table, or a command prints
//! it. Owns the command's life, and where the meter's times lie on the host's clock; refuses to know
//! what ran: that is said as a [`Run`].
#![forbid(unsafe_code)]

use crate::system;
use clscope_analysis::energy::{ByLoad, NotPlaced, place_by_load};
use clscope_io::signals::without_signals;
use clscope_sensors::meter::{Format, MeterError, Placing, Table, Times};
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Largest table, bytes.
const MOST: u64 = 256 << 20;
/// How long a command may take to end when it is asked to.
const PATIENCE: Duration = Duration::from_secs(2);

/// A meter that is to be read.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// A file, or a command of the shell.
    pub what: String,
    /// How its table is read.
    pub format: Format,
}

/// Why a meter gives no readings.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // fields are named in the messages
pub enum Failure {
    /// The table is none.
    #[error("{what}")]
    Table { what: String, source: MeterError },
    /// Its times have no place.
    #[error(
        "{what}: its times cannot be placed on this host's clock: {why}; say when the application started by the meter: --meter-format start=TIME"
    )]
    Place { what: String, why: String },
    /// None of its readings are of the run.
    #[error(
        "{what}: none of its {count} readings are of the run, which is {apart:.1} s away from them; if its clock or zone is wrong: --meter-format zone=+01:00, offset=SECONDS or place=load"
    )]
    Elsewhere { what: String, count: usize, apart: f64 },
    /// A file cannot be read, or the command cannot be run.
    #[error("{}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
}

fn at<T>(path: &Path, result: std::io::Result<T>) -> Result<T, Failure> {
    result.map_err(|source| Failure::Io { path: path.to_owned(), source })
}

/// What a meter gave.
#[derive(Debug, Default)]
pub struct Printed {
    /// The table.
    pub text: String,
    /// When each line arrived, CLOCK_MONOTONIC_RAW in ns; empty of a file.
    pub arrivals: Vec<u64>,
}

impl Printed {
    /// A file's table.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn of_file(path: &Path) -> Result<Self, Failure> {
        let bytes = at(path, clscope_io::input::read(path, MOST))?;
        Ok(Self { text: String::from_utf8_lossy(&bytes).into_owned(), arrivals: Vec::new() })
    }

    /// Reads the table, and places it.
    ///
    /// # Errors
    /// What of it cannot be understood; `what` names it.
    pub fn placed(
        &self,
        what: &str,
        format: &Format,
        run: &Run<'_>,
    ) -> Result<(Table, Placed), Failure> {
        let arrivals = (!self.arrivals.is_empty()).then_some(&self.arrivals[..]);
        let table = Table::parse(&self.text, format, arrivals)
            .map_err(|source| Failure::Table { what: what.to_owned(), source })?;
        let placed = place(&table, run, &self.arrivals, format)
            .map_err(|why| Failure::Place { what: what.to_owned(), why })?;
        Ok((table, placed))
    }
}

/// A meter that is read while an application runs.
pub enum Running {
    /// A logger writes a file.
    File(PathBuf),
    /// A command prints.
    Command {
        /// The command line.
        line: String,
        /// The shell that runs it.
        child: Child,
        /// Who takes its lines.
        reader: JoinHandle<Printed>,
        /// Says when it has printed what may be names and a reading.
        begun: Receiver<()>,
    },
}

impl Running {
    /// Starts the command, or looks whether the file can be one.
    ///
    /// # Errors
    /// Why it is neither.
    pub fn start(wanted: &Wanted) -> Result<Self, Failure> {
        let path = Path::new(&wanted.what);
        if path.is_file() && !system::may_execute(path) {
            return Ok(Self::File(path.to_owned()));
        }
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &wanted.what]).stdin(Stdio::null()).stdout(Stdio::piped());
        // A group of its own: a Ctrl-C is the application's, and all of it can be ended.
        command.process_group(0);
        let line = wanted.what.clone();
        let mut child = at(Path::new("/bin/sh"), command.spawn())?;
        let out = child.stdout.take();
        let (tell, begun) = mpsc::sync_channel(1);
        let reader = without_signals(|| {
            std::thread::Builder::new().name("meter".to_owned()).spawn(move || take(out, &tell))
        });
        let reader = at(Path::new("/bin/sh"), reader)?;
        Ok(Self::Command { line, child, reader, begun })
    }

    /// Waits until a command has printed two lines or ended, so long at most: what is measured
    /// before has no power.
    pub fn wait_until_it_reads(&self, most: Duration) {
        if let Self::Command { begun, .. } = self {
            let _ = begun.recv_timeout(most);
        }
    }

    /// Ends the command, and takes what there is.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn finish(self) -> Result<(String, Printed), Failure> {
        match self {
            Self::File(path) => Ok((path.display().to_string(), Printed::of_file(&path)?)),
            Self::Command { line, mut child, reader, .. } => {
                // One that has ended by itself left its group's number to nobody while it was not
                // waited for.
                let deadline = Instant::now() + PATIENCE;
                system::send_group(child.id(), libc::SIGTERM);
                while matches!(child.try_wait(), Ok(None)) {
                    if Instant::now() > deadline {
                        system::send_group(child.id(), libc::SIGKILL);
                        let _ = child.wait();
                        break;
                    }
                    std::thread::sleep(Duration::from_millis(10));
                }
                Ok((line, reader.join().unwrap_or_default()))
            }
        }
    }
}

/// Takes lines until there are no more.
fn take(out: Option<impl std::io::Read>, begun: &SyncSender<()>) -> Printed {
    let mut printed = Printed::default();
    let Some(out) = out else { return printed };
    let mut out = BufReader::new(out);
    let mut line = Vec::new();
    while (printed.text.len() as u64) < MOST
        && out.read_until(b'\n', &mut line).is_ok_and(|n| n > 0)
    {
        printed.arrivals.push(clscope_clock::monotonic_raw().0);
        if printed.arrivals.len() == 2 {
            let _ = begun.try_send(());
        }
        printed.text.push_str(String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']));
        printed.text.push('\n');
        line.clear();
    }
    printed
}

/// What is known of a run that a meter watched. Times are CLOCK_MONOTONIC_RAW.
pub struct Run<'a> {
    /// When it started, ns; none where nothing says when.
    pub start: Option<i64>,
    /// When devices worked, seconds from `start`, in order.
    pub busy: Vec<(f64, f64)>,
    /// The time of a moment (ns since 1970), by the host's wall clock; none where that is not known.
    pub at_wall: &'a dyn Fn(i64) -> Option<i64>,
    /// Nanoseconds by which the wall clock is ahead.
    pub wall_ahead: i64,
}

/// The meter's times on the host's clock.
pub struct Placed {
    /// CLOCK_MONOTONIC_RAW of each reading, ns.
    pub times: Vec<i64>,
    /// How far they may be off, ns.
    pub within_ns: f64,
    said: String,
    doubt: Option<String>,
}

impl Placed {
    /// What is to be said of a table: how it was placed, what of it is no reading, and what speaks
    /// against the place.
    pub fn said(&self, table: &Table) -> Vec<String> {
        let mut said = vec![self.said.clone()];
        said.extend(table.troubles());
        said.extend(self.doubt.clone());
        said
    }

    /// The readings of a stretch of time, by their indices.
    ///
    /// # Errors
    /// Where there are none: how far away they are; `what` names them.
    pub fn within(
        &self,
        what: &str,
        (begin, end): (i64, i64),
        step: i64,
    ) -> Result<Vec<usize>, Failure> {
        // With the reading behind the end: it is of the step before it.
        let inside = |at: &i64| (begin..=end.saturating_add(step)).contains(at);
        let found: Vec<usize> =
            (0..).zip(&self.times).filter(|(_, at)| inside(at)).map(|(i, _)| i).collect();
        if found.is_empty() {
            let apart = self.times.iter().map(|at| (begin - at).max(at - end)).min().unwrap_or(0);
            return Err(Failure::Elsewhere {
                what: what.to_owned(),
                count: self.times.len(),
                apart: apart as f64 * 1e-9,
            });
        }
        Ok(found)
    }
}

fn place(
    table: &Table,
    run: &Run<'_>,
    arrivals: &[u64],
    format: &Format,
) -> Result<Placed, String> {
    let start = run.start.ok_or("the trace has no device command")?;
    let step = table.step_ns().unwrap_or(0) as f64;
    // The meter's times are counted from its first, the host's from the application's start:
    // seconds of 1970 leave too few digits.
    let first = table.points.first().map_or(0, |p| p.0);
    let points: Vec<(f64, f64)> =
        table.points.iter().map(|p| ((p.0 - first) as f64 * 1e-9, p.1)).collect();
    let by_load = || place_by_load(&points, &run.busy);
    let on_host = |at: f64| start + (at * 1e9).round() as i64;
    let each = |host: &dyn Fn(usize) -> Option<i64>| {
        (0..points.len())
            .map(host)
            .collect::<Option<Vec<i64>>>()
            .ok_or("the wall clock is not known".to_owned())
    };
    let of_day = table.times == Times::OfDay;
    let (times, within_ns, how) = match (&format.placing, table.times) {
        (_, Times::Arrivals) => {
            let at = each(&|i| Some(table.points[i].0))?;
            (at, step / 2.0, "by the arrival of its lines".to_owned())
        }
        (Placing::Auto, _) if !arrivals.is_empty() => {
            let (times, within) = by_arrival(table, arrivals);
            (times, within, "by the arrival of its lines".to_owned())
        }
        (Placing::Start(mark), _) => {
            let marked = table.start.unwrap_or(first);
            (
                each(&|i| Some(start + table.points[i].0 - marked))?,
                step / 2.0,
                format!("by the start of the application at {mark}"),
            )
        }
        (Placing::Clock, Times::SinceStart) => {
            return Err("place=clock needs times with a date, or of the day".to_owned());
        }
        (Placing::Auto | Placing::Clock, Times::Moments | Times::OfDay) => {
            let day = if of_day { day_of(start, first, run.wall_ahead) } else { 0 };
            (
                each(&|i| (run.at_wall)(table.points[i].0 + day))?,
                step / 2.0,
                "by its clock".to_owned(),
            )
        }
        (Placing::Load | Placing::Auto, _) => {
            let found = by_load().map_err(|e| e.to_string())?;
            let times = points.iter().map(|p| on_host(found.place(p.0))).collect();
            (times, found.within * 1e9, with_drift(&found))
        }
    };
    let said = format!(
        "{} readings of `{}`, one each {:.3} s, are placed {how}, to {:.2} s",
        times.len(),
        table.column,
        step * 1e-9,
        within_ns * 1e-9
    );
    let is_by_load = how.starts_with("by the load");
    let doubt = (!is_by_load)
        .then(by_load)
        .and_then(|found| doubt(&found, &points, &times, start, within_ns));
    Ok(Placed { times, within_ns, said, doubt })
}

/// By the load, with what its clock does.
fn with_drift(found: &ByLoad) -> String {
    let ppm = |share: f64| 1e6 * share;
    let drift = match found.drift_within {
        Some(within) if found.drift != 0.0 => format!(
            "; its clock loses {:.0} parts per million, to {:.0}, which is corrected",
            ppm(found.drift),
            ppm(within)
        ),
        Some(within) => {
            format!("; no drift of its clock is seen, to {:.0} parts per million", ppm(within))
        }
        None => String::new(),
    };
    format!("by the load, which explains {:.0} % of their variance{drift}", 100.0 * found.explained)
}

/// Where the load says something else than the clock.
fn doubt(
    found: &Result<ByLoad, NotPlaced>,
    points: &[(f64, f64)],
    times: &[i64],
    start: i64,
    within_ns: f64,
) -> Option<String> {
    let found = found.as_ref().ok()?;
    let middle = points.len() / 2;
    let by_load = found.place(points.get(middle)?.0);
    let apart = (times.get(middle)? - start) as f64 * 1e-9 - by_load;
    (apart.abs() > found.within + within_ns * 1e-9).then(|| {
        let way = if apart > 0.0 { "earlier" } else { "later" };
        format!(
            "by the load they would lie {:.1} s {way}, to {:.1} s: the meter is slow to show it, or its clock is wrong; --meter-format place=load takes that",
            apart.abs(), found.within
        )
    })
}

/// Nanoseconds to add to times of the day so that the first is nearest to the application's start.
fn day_of(start: i64, first: i64, wall_ahead: i64) -> i64 {
    const DAY: i64 = 86_400_000_000_000;
    let wall = wall_ahead.saturating_add(start);
    ((wall - first) as f64 / DAY as f64).round() as i64 * DAY
}

/// The meter's own times on the clock of the lines' arrival, with how far they may be off (ns): a
/// line arrives some time after its reading, so that the least delay of each half of them counts;
/// its clock drifts where those differ by more than delays usually vary.
fn by_arrival(table: &Table, arrivals: &[u64]) -> (Vec<i64>, f64) {
    let late: Vec<(i64, i64)> = table
        .points
        .iter()
        .zip(&table.lines)
        .filter_map(|(p, line)| Some((p.0, *arrivals.get(*line)? as i64 - p.0)))
        .collect();
    let least = |part: &[(i64, i64)]| part.iter().copied().min_by_key(|l| l.1);
    let usual = {
        let mut all: Vec<i64> = late.iter().map(|l| l.1).collect();
        let middle = all.len() / 2;
        if all.is_empty() { 0 } else { *all.select_nth_unstable(middle).1 }
    };
    let whole = least(&late).unwrap_or((0, 0));
    let (a, b) = late.split_at(late.len() / 2);
    let spread = (usual - whole.1) as f64;
    let drift = match (least(a), least(b)) {
        (Some(a), Some(b)) if (b.1 - a.1).abs() as f64 > 2.0 * spread && b.0 > a.0 => {
            (b.1 - a.1) as f64 / (b.0 - a.0) as f64
        }
        _ => 0.0,
    };
    let times =
        table.points.iter().map(|p| p.0 + whole.1 + (drift * (p.0 - whole.0) as f64) as i64);
    (times.collect(), spread)
}
