//! How launches like a captured one ran in their application: their times, how each stood in its
//! queue, and what the host did behind it. Owns the types of `application.json`, which `clscope
//! record` puts beside `launch.json`, reading it with checks, and the comparison of two medians.
//! Refuses to run anything: [`imitate`](crate::imitate) does.

mod trace;

use crate::document::Time;
use crate::read::{Capture, CaptureError};
use clscope_analysis::quantile::NORMAL_95;
use clscope_compare::outcome::{Change, RUN_TO_RUN, RUN_TO_RUN_OF_PROCESSORS};
use clscope_io::output::{Access, Whole};
use clscope_opencl::DeviceKind;
use clscope_profile::interval::Interval;
use clscope_profile::trace_files::TraceFiles;
use clscope_trace::directory::CAPTURES;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::path::Path;

pub use clscope_trace::directory::CAPTURE_APPLICATION as FILE;
pub use trace::of_trace;

/// Version of the file.
pub const SCHEMA: u32 = 1;
/// Most rows that are kept of a kernel: enough for an interval, few enough to copy along.
pub const MOST_ROWS: usize = 1000;
/// Difference of medians that the project aims at.
pub const AIM: f64 = 0.03;
/// Most bytes of the file.
const MOST_BYTES: u64 = 1 << 20;

/// Launches of the captured kernel and program over the same range on the same device, in the
/// process of the capture. The captured one and those right behind a captured one are left out:
/// capturing changes how they stand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Application {
    /// [`SCHEMA`].
    pub schema: u32,
    /// How many there were.
    pub launches: u64,
    /// How many of them have a time.
    pub timed: u64,
    /// Those with a time, in order; of many some, evenly spread.
    pub rows: Vec<Row>,
    /// What the device was given right before them, the most frequent first.
    pub before: Vec<Before>,
}

/// One launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Row {
    /// END - START by the device's stamps, ns.
    pub duration_ns: u64,
    /// How long the device had rested when the launch was enqueued, ns: QUEUED less the latest END
    /// of the commands before it on the device. Below 0: commands were ahead of it, and the last of
    /// them ended so much later. Null where the command before it has no time.
    pub rest_ns: Option<i64>,
    /// Whether the thread called clFlush behind it, before it waited.
    pub is_flushed: bool,
    /// From the end of the enqueue until the thread waited for something, ns; null where it never
    /// did.
    pub wait_ns: Option<u64>,
}

/// What came before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Before {
    /// A kernel's name, or a kind of command as in `clscope dump`.
    pub what: String,
    /// Launches behind it.
    pub launches: u64,
}

/// The captured launch repeated as it stood in the application, beside its launches there.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct AsThere {
    /// Launches of the application that are compared.
    pub launches: usize,
    /// Their median, ns.
    pub there_ns: Interval,
    /// Launches here that stood as they did; null where that is not known of them.
    pub here: Option<Time>,
    /// Median here over the median there, less 1, with what processes differ assumed in the
    /// interval; null where one of them is missing, or has no interval.
    pub change: Option<Change>,
    /// Whether the medians differ by 3 % at most.
    pub is_within_aim: bool,
    /// Whether the intervals of the two medians overlap.
    pub is_overlapping: bool,
    /// Share of the application's launches that had commands ahead of them.
    pub behind_share: Option<f64>,
    /// Launches here that were to have commands ahead of them, and came when these had ended.
    pub missed: usize,
    /// Median of the rests before the others, there and here, ns.
    pub rest_there_ns: Option<f64>,
    /// The same, here.
    pub rest_here_ns: Option<f64>,
    /// Bytes that commands had used since they last used one of the memories, the most: what was
    /// imitated of the state of caches. Null where nothing was.
    pub cold_bytes: Option<u64>,
    /// Memories that no command had used before the launch: they were made anew before each.
    pub fresh: usize,
}

/// What is known of the application.
#[derive(Debug, Clone, PartialEq)]
pub enum Known {
    /// This.
    Launches(Application),
    /// Nothing, and why: a clause.
    Nothing(String),
}

impl Application {
    /// The rows of which it is known how they stood.
    pub fn standing(&self) -> Vec<Row> {
        self.rows.iter().copied().filter(|row| row.rest_ns.is_some()).collect()
    }

    /// Their times, ns.
    pub fn durations(rows: &[Row]) -> Vec<f64> {
        rows.iter().map(|row| row.duration_ns as f64).collect()
    }
}

/// What is known of how launches like the captured one ran: from the file beside the capture, else
/// from the trace that the capture lies in.
///
/// # Errors
/// If the file is there and cannot be read or understood.
pub fn known(capture: &Capture) -> Result<Known, CaptureError> {
    let path = capture.folder.join(FILE);
    match path.symlink_metadata() {
        Ok(_) => return read(&path).map(Known::Launches),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(why) => return Err(CaptureError::File { file: FILE.to_owned(), why }),
    }
    let nothing = |why: &str| Ok(Known::Nothing(why.to_owned()));
    let Ok(folder) = capture.folder.canonicalize() else {
        return nothing("its folder cannot be found");
    };
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let outer = folder.parent().filter(|outer| outer.ends_with(CAPTURES)).and_then(Path::parent);
    let Some(trace) = outer else {
        return nothing("the capture is in no trace, and has no application.json");
    };
    let files = match TraceFiles::open(&[trace.to_owned()]) {
        Ok(files) => files,
        Err(error) => return nothing(&format!("the trace of the capture cannot be read: {error}")),
    };
    let found = of_trace(&files.trace()).into_iter().find(|(folder, _)| *folder == name);
    found.map_or_else(
        || nothing("the trace of the capture does not have it"),
        |(_, application)| Ok(Known::Launches(application)),
    )
}

fn read(path: &Path) -> Result<Application, CaptureError> {
    let failed = |why| CaptureError::File { file: FILE.to_owned(), why };
    let file = clscope_io::input::open_inside(path).map_err(failed)?;
    let text = clscope_io::input::bytes(&file, MOST_BYTES).map_err(failed)?;
    let of: Application = serde_json::from_slice(&text)
        .map_err(|why| CaptureError::Json { path: path.display().to_string(), why })?;
    let wrong = |why: String| Err(CaptureError::Wrong(format!("{FILE}: {why}")));
    if of.schema != SCHEMA {
        return wrong(format!("it has version {}, this program reads {SCHEMA}", of.schema));
    }
    if of.rows.len() > MOST_ROWS || of.rows.len() as u64 > of.timed || of.timed > of.launches {
        return wrong("its numbers of launches contradict each other".to_owned());
    }
    Ok(of)
}

/// Puts the file into every capture of a trace that is whole.
///
/// # Errors
/// If the trace cannot be read, or a file not be written: what was attempted, in words.
pub fn write_all(trace: &Path) -> Result<(), String> {
    let files = TraceFiles::open(&[trace.to_owned()]).map_err(|error| error.to_string())?;
    let folders = clscope_profile::captures::folders(trace)
        .map_err(|error| format!("cannot list the captures of {}: {error}", trace.display()))?;
    for (name, of) in of_trace(&files.trace()) {
        let Some((_, folder)) = folders.iter().find(|(known, _)| *known == name) else { continue };
        let path = folder.join(FILE);
        let written = || -> io::Result<()> {
            let mut file = Whole::create(&path, Access::within(trace))?;
            serde_json::to_writer_pretty(&mut file, &of)?;
            file.write_all(b"\n")?;
            file.finish()
        };
        written().map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(())
}

/// The change from the median there to the one here: of the interval each end of one against the
/// other end of the other, and both moved outwards by what two processes are assumed to differ.
pub fn change(there: &Interval, here: &Interval, kind: DeviceKind) -> Option<Change> {
    let known = |of: &Interval| of.value > 0.0 && of.low > 0.0 && of.high.is_finite();
    if !known(there) || !known(here) {
        return None;
    }
    let between = match kind {
        DeviceKind::Cpu => RUN_TO_RUN_OF_PROCESSORS,
        _ => RUN_TO_RUN,
    };
    let apart = NORMAL_95 * between * std::f64::consts::SQRT_2;
    Some(Change {
        value: here.value / there.value - 1.0,
        low: here.low / there.high * (1.0 - apart) - 1.0,
        high: here.high / there.low * (1.0 + apart) - 1.0,
    })
}

/// Whether the intervals of two medians overlap.
pub fn overlap(a: &Interval, b: &Interval) -> bool {
    a.low <= b.high && b.low <= a.high
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_compared_with_both_their_intervals() {
        let of = |value: f64, half: f64| Interval::measured(value, value - half, value + half);
        let found = change(&of(100.0, 1.0), &of(102.0, 2.0), DeviceKind::Gpu).unwrap();
        assert!((found.value - 0.02).abs() < 1e-12, "{found:?}");
        let apart = NORMAL_95 * RUN_TO_RUN * 2f64.sqrt();
        assert!((found.low - (100.0 / 101.0 * (1.0 - apart) - 1.0)).abs() < 1e-12, "{found:?}");
        assert!((found.high - (104.0 / 99.0 * (1.0 + apart) - 1.0)).abs() < 1e-12, "{found:?}");
        assert!(overlap(&of(100.0, 1.0), &of(102.0, 1.0)));
        assert!(
            !overlap(&of(100.0, 1.0), &of(102.5, 1.0)) && !overlap(&of(9.0, 1.0), &of(6.0, 1.0))
        );
        // Too few launches for an interval.
        let open = Interval::measured(5.0, f64::NEG_INFINITY, f64::INFINITY);
        assert_eq!(change(&open, &of(5.0, 1.0), DeviceKind::Cpu), None);
    }

    #[test]
    fn a_file_that_contradicts_itself_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        let row = Row { duration_ns: 1, rest_ns: None, is_flushed: false, wait_ns: None };
        let right = Application {
            schema: SCHEMA,
            launches: 3,
            timed: 2,
            rows: vec![row; 2],
            before: vec![],
        };
        let put =
            |of: &Application| std::fs::write(&path, serde_json::to_vec(of).unwrap()).unwrap();
        put(&right);
        assert_eq!(read(&path).unwrap(), right);
        for wrong in [
            Application { schema: 2, ..right.clone() },
            Application { timed: 1, ..right.clone() },
            Application { launches: 1, ..right.clone() },
        ] {
            put(&wrong);
            assert!(matches!(read(&path), Err(CaptureError::Wrong(_))), "{wrong:?}");
        }
        std::fs::write(&path, b"{").unwrap();
        assert!(matches!(read(&path), Err(CaptureError::Json { .. })));
    }
}
