//! Readings of an external meter, added to a trace: from a table that a logger wrote, or from a
//! command that prints it while the application runs. Owns the command's life and the place of the
//! meter's times on the host's clock; refuses to keep less than there was: the table is kept whole
//! beside what was read of it.
#![forbid(unsafe_code)]

use clscope_analysis::energy::{ByLoad, NotPlaced, place_by_load};
use clscope_capture::system;
use clscope_io::output::{Access, Whole};
use clscope_io::signals::without_signals;
use clscope_profile::error::OpenError;
use clscope_profile::profile::{Options, Profile, View};
use clscope_sensors::gpu_power::Formula;
use clscope_sensors::meter::{self, Format, MeterError, Placing, Table, Times};
use clscope_trace::file::{Clock, FileHeader, FileKind};
use clscope_trace::sensors::{self, Event, Quantity, Reading, Readings, Record, Series, Updates};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Its file in a trace.
pub const FILE: &str = "sensors-meter.clt";
/// The table as it was, in a trace.
pub use clscope_trace::directory::METER as TABLE;

/// Largest table, bytes.
const MOST: u64 = 256 << 20;
/// Readings in a block of the file.
const ROWS: usize = 4096;
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

/// Why a trace gets no readings of a meter.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The table is none.
    #[error("{what}: {source}")]
    Table {
        /// The file, or the command.
        what: String,
        /// Why.
        source: MeterError,
    },
    /// Its times have no place.
    #[error(
        "{what}: its times cannot be placed on this host's clock: {why}; say when the application started by the meter: --meter-format start=TIME"
    )]
    Place {
        /// The file, or the command.
        what: String,
        /// Why.
        why: String,
    },
    /// None of its readings are of the run.
    #[error(
        "{what}: none of its {count} readings are of the run, which is {apart:.1} s away from them; if its clock or zone is wrong: --meter-format zone=+01:00, offset=SECONDS or place=load"
    )]
    Elsewhere {
        /// The file, or the command.
        what: String,
        /// Readings.
        count: usize,
        /// Seconds.
        apart: f64,
    },
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] OpenError),
    /// A file cannot be read or written.
    #[error("{}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

fn at<T>(path: &Path, result: std::io::Result<T>) -> Result<T, Failure> {
    result.map_err(|source| Failure::Io { path: path.to_owned(), source })
}

/// What a command printed, and when each line arrived.
#[derive(Debug, Default)]
pub struct Printed {
    text: String,
    /// CLOCK_MONOTONIC_RAW, ns.
    arrivals: Vec<u64>,
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
        let reader = without_signals(|| {
            std::thread::Builder::new().name("meter".to_owned()).spawn(move || take(out))
        });
        let reader = at(Path::new("/bin/sh"), reader)?;
        Ok(Self::Command { line, child, reader })
    }

    /// Ends the command, and takes what there is.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn finish(self) -> Result<(String, Printed), Failure> {
        match self {
            Self::File(path) => Ok((
                path.display().to_string(),
                Printed { text: read(&path)?, arrivals: Vec::new() },
            )),
            Self::Command { line, mut child, reader } => {
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
fn take(out: Option<impl std::io::Read>) -> Printed {
    let mut printed = Printed::default();
    let Some(out) = out else { return printed };
    let mut out = BufReader::new(out);
    let mut line = Vec::new();
    while (printed.text.len() as u64) < MOST
        && out.read_until(b'\n', &mut line).is_ok_and(|n| n > 0)
    {
        printed.arrivals.push(clscope_clock::monotonic_raw().0);
        printed.text.push_str(String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']));
        printed.text.push('\n');
        line.clear();
    }
    printed
}

/// A file's text.
fn read(path: &Path) -> Result<String, Failure> {
    let bytes = at(path, clscope_io::input::read(path, MOST))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Adds the readings of a table to a trace that is there.
///
/// # Errors
/// Why it has none then.
pub fn attach_file(trace: &Path, path: &Path, format: &Format) -> Result<Vec<String>, Failure> {
    let printed = Printed { text: read(path)?, arrivals: Vec::new() };
    attach(trace, &path.display().to_string(), &printed, format)
}

/// Keeps the table, and adds its readings to the trace. Returns what is to be said: first how they
/// were placed.
///
/// # Errors
/// Why it has none then.
pub fn attach(
    trace: &Path,
    what: &str,
    of: &Printed,
    format: &Format,
) -> Result<Vec<String>, Failure> {
    let access = Access::within(trace);
    let kept = trace.join(TABLE);
    let mut copy = at(&kept, Whole::create(&kept, access))?;
    at(&kept, copy.write_all(of.text.as_bytes()).and_then(|()| copy.finish()))?;
    let arrivals = (!of.arrivals.is_empty()).then_some(&of.arrivals[..]);
    let table = Table::parse(&of.text, format, arrivals)
        .map_err(|source| Failure::Table { what: what.to_owned(), source })?;
    let profile = Profile::open(&[trace.to_owned()])?;
    let view = profile.view(Options::default());
    let placed = place(&table, &view, &of.arrivals, format)
        .map_err(|why| Failure::Place { what: what.to_owned(), why })?;
    let mut said = vec![placed.said.clone()];
    said.extend(table.troubles());
    said.extend(placed.doubt.clone());
    let path = trace.join(FILE);
    let bytes = encode(what, &table, &placed, &profile, &view, &said)?;
    let mut file = at(&path, Whole::create(&path, access))?;
    at(&path, file.write_all(&bytes).and_then(|()| file.finish()))?;
    Ok(said)
}

/// The meter's times on the host's clock.
struct Placed {
    /// CLOCK_MONOTONIC_RAW of each reading, ns.
    times: Vec<i64>,
    within_ns: f64,
    said: String,
    doubt: Option<String>,
}

/// When devices worked, seconds from `origin` (ns).
fn busy(view: &View<'_>, origin: i64) -> Vec<(f64, f64)> {
    let since = |ns: i64| (ns - origin) as f64 * 1e-9;
    let mut out: Vec<(f64, f64)> = view
        .devices()
        .iter()
        .flat_map(|d| d.spans.iter().map(|s| (since(s.start.0), since(s.end.0))))
        .collect();
    out.sort_by(|a, b| a.0.total_cmp(&b.0));
    out
}

/// When the application started and ended, CLOCK_MONOTONIC_RAW; as far as sampling or its devices
/// show it.
fn life(view: &View<'_>) -> Option<(i64, i64)> {
    let application =
        view.readings().ok().and_then(|r| r.application.values().next()?.first().copied());
    let spans = || view.devices().iter().flat_map(|d| &d.spans);
    let ran = || Some((spans().map(|s| s.start.0).min()?, spans().map(|s| s.end.0).max()?));
    application.map(|(start, end)| (start.0, end.0)).or_else(ran)
}

fn place(
    table: &Table,
    view: &View<'_>,
    arrivals: &[u64],
    format: &Format,
) -> Result<Placed, String> {
    let (start, _) = life(view).ok_or("the trace has no device command")?;
    let step = table.step_ns().unwrap_or(0) as f64;
    // The meter's times are counted from its first, the host's from the application's start:
    // seconds of 1970 leave too few digits.
    let first = table.points.first().map_or(0, |p| p.0);
    let points: Vec<(f64, f64)> =
        table.points.iter().map(|p| ((p.0 - first) as f64 * 1e-9, p.1)).collect();
    let by_load = || place_by_load(&points, &busy(view, start));
    let on_host = |at: f64| start + (at * 1e9).round() as i64;
    let each = |host: &dyn Fn(usize) -> Option<i64>| {
        (0..points.len())
            .map(host)
            .collect::<Option<Vec<i64>>>()
            .ok_or("the trace has no wall clock".to_owned())
    };
    let of_day = table.times == Times::OfDay;
    let wall = |ns: i64| view.trace().timeline.at_wall(ns).map(|t| t.0);
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
            let day = if of_day { day_of(start, first, view) } else { 0 };
            (each(&|i| wall(table.points[i].0 + day))?, step / 2.0, "by its clock".to_owned())
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
fn day_of(start: i64, first: i64, view: &View<'_>) -> i64 {
    const DAY: i64 = 86_400_000_000_000;
    let wall = view.trace().timeline.wall_offset_ns.unwrap_or(0).saturating_add(start);
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

/// What was sampled of the host while the trace was recorded: from its start, idle windows and all,
/// to its end. Of a trace without such moments, the application's life.
fn recorded(profile: &Profile, view: &View<'_>) -> Option<(i64, i64)> {
    let moment =
        |meta: &serde_json::Value, which: &str| meta.get(which)?.get("monotonic_raw_ns")?.as_i64();
    let mut metas = profile.files().directories.iter().flat_map(|d| d.recordings());
    let of_meta = metas.find_map(|meta| Some((moment(meta, "start")?, moment(meta, "end")?)));
    of_meta.or_else(|| life(view))
}

fn encode(
    what: &str,
    table: &Table,
    placed: &Placed,
    profile: &Profile,
    view: &View<'_>,
    said: &[String],
) -> Result<Vec<u8>, Failure> {
    let (begin, end) = recorded(profile, view).unwrap_or((0, i64::MAX));
    let step = table.step_ns().unwrap_or(0);
    // With the reading behind the end: it is of the step before it.
    let inside = |at: i64| (begin..=end.saturating_add(step)).contains(&at);
    let rows: Vec<(usize, i64)> =
        placed.times.iter().copied().enumerate().filter(|(_, at)| inside(*at)).collect();
    if rows.is_empty() {
        let apart = placed.times.iter().map(|at| (begin - at).max(at - end)).min().unwrap_or(0);
        return Err(Failure::Elsewhere {
            what: what.to_owned(),
            count: placed.times.len(),
            apart: apart as f64 * 1e-9,
        });
    }
    let host = view.trace().timeline.hosts.first();
    let header = FileHeader {
        version: clscope_trace::VERSION,
        kind: FileKind::Sensors,
        pid: std::process::id(),
        ppid: std::os::unix::process::parent_id(),
        pid_ns: 0,
        incarnation: 0,
        segment: 0,
        clock: Clock::MonotonicRaw,
        host: clscope_readings::host::machine_id(),
        boot: host.map_or([0; 16], |h| h.boot),
        created: u64::try_from(begin).unwrap_or(0),
    };
    let mut out = header.encode().to_vec();
    let mut records = Vec::new();
    let mut put = |record: Record<'_>| sensors::encode(&record, &mut records);
    put(Record::Series(Series {
        source: meter::SOURCE.to_owned(),
        name: table.column.clone(),
        quantity: Quantity::Power,
        plane: meter::PLANE.to_owned(),
        includes: Some(Formula::Meter.includes().to_owned()),
        ..Series::default()
    }));
    put(Record::Updates(Updates {
        period_ns: step as f64,
        every_ns: step.unsigned_abs(),
        ..Updates::default()
    }));
    let event = |at: i64, code: &str, series: Option<u32>, text: &str| Event {
        time: u64::try_from(at).unwrap_or(0),
        code: code.to_owned(),
        series,
        source: meter::SOURCE.to_owned(),
        text: text.to_owned(),
    };
    for text in said {
        put(Record::Event(event(begin, "note", None, text)));
    }
    for (behind, _) in table.gaps() {
        if let Some(at) = placed.times.get(behind) {
            put(Record::Event(event(*at, "gap", Some(0), "")));
        }
    }
    let mut sequence = 0;
    let mut flush = |records: &[u8]| {
        out.extend(sensors::block(sequence, records));
        sequence += 1;
    };
    flush(&records);
    for rows in rows.chunks(ROWS) {
        let mut encoded = Vec::new();
        for (index, at) in rows {
            let reading = Reading {
                time: u64::try_from(*at).unwrap_or(0),
                value: (table.points[*index].1 * 1e6).round() as u64,
                bracket_ns: placed.within_ns.clamp(0.0, f64::from(u32::MAX)) as u32,
                mean_over_us: 0,
            };
            reading.append_to(&mut encoded);
        }
        let mut block = Vec::new();
        sensors::encode(&Record::Readings(Readings::new(0, &encoded)), &mut block);
        flush(&block);
    }
    Ok(out)
}
