//! Readings of an external meter, added to a trace: from a table that a logger wrote, or from a
//! command that printed it while the application ran. Owns the file of readings; refuses to keep
//! less than there was: the table is kept whole beside what was read of it.

use clscope_capture::meter::{self as reading, Placed, Run};
pub use clscope_capture::meter::{Printed, Running, Wanted};
use clscope_io::output::{Access, Whole};
use clscope_profile::error::OpenError;
use clscope_profile::profile::{Options, Profile, View};
use clscope_sensors::gpu_power::Formula;
use clscope_sensors::meter::{self, Format, Table};
use clscope_trace::file::{Clock, FileHeader, FileKind};
use clscope_trace::sensors::{self, Event, Quantity, Reading, Readings, Record, Series, Updates};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Its file in a trace.
pub const FILE: &str = "sensors-meter.clt";
/// The table as it was, in a trace.
pub use clscope_trace::directory::METER as TABLE;

/// Readings in a block of the file.
const ROWS: usize = 4096;

/// Why a trace gets no readings of a meter.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // fields are named in the messages
pub enum Failure {
    /// The meter has none for it.
    #[error(transparent)]
    Meter(#[from] reading::Failure),
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] OpenError),
    /// A file cannot be written.
    #[error("{}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
}

fn at<T>(path: &Path, result: std::io::Result<T>) -> Result<T, Failure> {
    result.map_err(|source| Failure::Io { path: path.to_owned(), source })
}

/// Adds the readings of a table to a trace that is there.
///
/// # Errors
/// Why it has none then.
pub fn attach_file(trace: &Path, path: &Path, format: &Format) -> Result<Vec<String>, Failure> {
    attach(trace, &path.display().to_string(), &Printed::of_file(path)?, format)
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
    let profile = Profile::open(&[trace.to_owned()])?;
    let view = profile.view(Options::default());
    let timeline = &view.trace().timeline;
    let start = life(&view).map(|(start, _)| start);
    let run = Run {
        start,
        busy: busy(&view, start.unwrap_or(0)),
        at_wall: &|ns| timeline.at_wall(ns).map(|t| t.0),
        wall_ahead: timeline.wall_offset_ns.unwrap_or(0),
    };
    let (table, placed) = of.placed(what, format, &run)?;
    let said = placed.said(&table);
    let path = trace.join(FILE);
    let bytes = encode(what, &table, &placed, &profile, &view, &said)?;
    let mut file = at(&path, Whole::create(&path, access))?;
    at(&path, file.write_all(&bytes).and_then(|()| file.finish()))?;
    Ok(said)
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
    let rows = placed.within(what, (begin, end), step)?;
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
        for index in rows {
            let reading = Reading {
                time: u64::try_from(placed.times[*index]).unwrap_or(0),
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
