//! Owns the thread that reads counters while an application runs, and their file,
//! `sensors-counters.clt`. Refuses to hold up the application and to fail because of a counter:
//! what is not available is reported and noted in the trace.
#![forbid(unsafe_code)]

use super::choice::{Options, Wanted};
use super::open::{self, Found, Open};
use crate::Tell;
use crate::error::{Attempt, CaptureError};
use clscope_io::signals::without_signals;
use clscope_readings::{Blocks, Clocks, counter_window};
use clscope_sensors::sampler::{SamplerHost, SystemHost};
use clscope_sensors::{Clock as _, RawNs, Roots};
use clscope_trace::sensors::{self, CounterWindows, Event, Record, SourceCost};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Name of the file in a trace directory.
pub const FILE: &str = "sensors-counters.clt";
/// Rows of a source are written when they take this many bytes, or after [`MOST_NS`].
const MOST_BYTES: usize = 1 << 20;
/// Longest time for which windows are only in memory.
const MOST_NS: u64 = 1_000_000_000;
/// How long an application may be held up until streams are open, so that its first kernels are
/// counted.
const OPENING: Duration = Duration::from_secs(2);
/// How often perf counters are read by default: the scheduler's own steps are some milliseconds
/// long.
const PERF_NS: u64 = 10_000_000;

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    pid: AtomicU32,
}

/// The running thread.
pub struct Running {
    shared: Arc<Shared>,
    ready: Receiver<()>,
    thread: JoinHandle<Option<String>>,
    tell: Tell,
}

/// Starts reading into the trace's file; `None` where no such counters are wanted.
///
/// # Errors
/// If the file cannot be made or the thread not started.
pub fn start(
    trace: &Path,
    options: &Options,
    sysfs_root: Option<&Path>,
    tell: Tell,
) -> Result<Option<Running>, CaptureError> {
    if !options.windows() {
        return Ok(None);
    }
    let path = trace.join(FILE);
    let mut file = Store::create(&path).attempt(|| format!("cannot write {}", path.display()))?;
    let shared = Arc::new(Shared::default());
    let (opened, ready) = channel();
    let (theirs, options, roots) = (
        Arc::clone(&shared),
        options.clone(),
        sysfs_root.map_or_else(Roots::default, Roots::below),
    );
    let thread = without_signals(|| {
        std::thread::Builder::new().name("counters".to_owned()).spawn(move || {
            let mut found = Found::default();
            open::intel(&options, &roots, &mut found);
            let mut slots = Vec::new();
            take(found, &options, &mut slots, &mut file, tell);
            let _ = opened.send(());
            run(&options, &theirs, slots, &mut file, tell);
            file.file.failure().map(ToString::to_string)
        })
    });
    Ok(Some(Running {
        shared,
        ready,
        thread: thread.attempt(|| "cannot start the thread that reads counters")?,
        tell,
    }))
}

impl Running {
    /// Waits, for a while, until streams are open.
    pub fn wait_open(&self) {
        let _ = self.ready.recv_timeout(OPENING);
    }

    /// The application runs as this process.
    pub fn application(&self, pid: u32) {
        self.shared.pid.store(pid, Ordering::Release);
        self.thread.thread().unpark();
    }

    /// Reads everything once more and closes the file.
    pub fn finish(self) {
        self.shared.stop.store(true, Ordering::Release);
        self.thread.thread().unpark();
        match self.thread.join() {
            Ok(None) => {}
            Ok(Some(why)) => (self.tell)(&format_args!(
                "warning: counters could not be written to the end: {why}"
            )),
            Err(_) => (self.tell)(
                &"warning: the thread that reads counters failed; counters end where it did",
            ),
        }
    }
}

/// A source while it is read.
struct Slot {
    open: Open,
    id: u32,
    every_ns: u64,
    due: RawNs,
    rows: Vec<u8>,
    reads: u64,
    failures: u64,
    cpu_ns: u64,
    wall_ns: u64,
    lost: bool,
}

/// Announces what was found; what is not available is reported now, since the user asked for it.
fn take(found: Found, options: &Options, slots: &mut Vec<Slot>, file: &mut Store, tell: Tell) {
    for finding in found.findings {
        if let Some(text) = open::complaint(&finding) {
            tell(&text);
        }
        file.put(&finding.into());
    }
    for mut open in found.sources {
        let id = slots.len() as u32;
        open.about.id = id;
        file.put(&open.about.clone().into());
        let perf = open.about.pid.is_some();
        let wished =
            options.counter_period.map(|p| u64::try_from(p.as_nanos()).unwrap_or(u64::MAX));
        let every_ns = if perf { wished.unwrap_or(PERF_NS) } else { open.source.pace().fastest_ns };
        slots.push(Slot {
            open,
            id,
            every_ns,
            due: RawNs(0),
            rows: Vec::new(),
            reads: 0,
            failures: 0,
            cpu_ns: 0,
            wall_ns: 0,
            lost: false,
        });
    }
}

fn run(options: &Options, shared: &Shared, mut slots: Vec<Slot>, file: &mut Store, tell: Tell) {
    let mut host = SystemHost(Clocks);
    let started = host.raw();
    let mut perf = options.counters.contains(&Wanted::Perf);
    let mut written = started;
    loop {
        let stop = shared.stop.load(Ordering::Acquire);
        let pid = shared.pid.load(Ordering::Acquire);
        if perf && pid != 0 {
            perf = false;
            let mut found = Found::default();
            open::perf(pid, &mut found);
            take(found, options, &mut slots, file, tell);
        }
        let now = host.raw();
        for slot in slots.iter_mut().filter(|s| !s.lost && (stop || s.due <= now)) {
            slot.read(&mut host, file);
        }
        let now = host.raw();
        if stop || now.since(written) >= MOST_NS || slots.iter().any(|s| s.rows.len() >= MOST_BYTES)
        {
            written = now;
            slots.iter_mut().for_each(|slot| slot.hand_over(file));
            file.flush();
        }
        if stop {
            break;
        }
        let due =
            slots.iter().filter(|s| !s.lost).map(|s| s.due.since(now)).min().unwrap_or(50_000_000);
        std::thread::park_timeout(Duration::from_nanos(due.min(50_000_000)));
    }
    for slot in &slots {
        file.put(&slot.cost().into());
    }
    file.flush();
}

impl Slot {
    fn read(&mut self, host: &mut SystemHost<Clocks>, file: &mut Store) {
        let cpu = host.thread_cpu_ns();
        let begin = host.raw();
        let rows = &mut self.rows;
        let result = self
            .open
            .source
            .read(&mut host.0, &mut |window| counter_window(window).append_to(rows));
        let now = host.raw();
        self.reads += 1;
        self.cpu_ns += host.thread_cpu_ns().saturating_sub(cpu);
        self.wall_ns += now.since(begin);
        self.due = now.plus(self.every_ns);
        if let Err(error) = result {
            self.failures += 1;
            self.lost = error.is_fatal();
            if self.failures == 1 || self.lost {
                let code = if self.lost { "lost" } else { "trouble" };
                let (time, source) = (now.0, self.open.about.name.clone());
                file.put(
                    &Event {
                        time,
                        code: code.to_owned(),
                        series: None,
                        source,
                        text: error.to_string(),
                    }
                    .into(),
                );
            }
        }
    }

    fn hand_over(&mut self, file: &mut Store) {
        if !self.rows.is_empty() {
            let width = self.open.about.counters.len() as u32;
            file.put(&Record::CounterWindows(CounterWindows::new(self.id, width, &self.rows)));
            self.rows.clear();
        }
    }

    fn cost(&self) -> SourceCost {
        let health = self.open.source.health();
        SourceCost {
            source: self.open.about.name.clone(),
            reads: self.reads,
            failures: self.failures,
            cpu_ns: self.cpu_ns,
            wall_ns: self.wall_ns,
            every_ns: self.every_ns,
            duplicates: 0,
            late: 0,
            missing: health.lost + health.gaps,
            refused: health.refused + health.maybe_wrapped_twice,
            lost: self.lost,
        }
    }
}

/// The file while it is written, and records that are not in it yet.
struct Store {
    file: Blocks,
    payload: Vec<u8>,
}

impl Store {
    fn create(path: &Path) -> std::io::Result<Self> {
        Ok(Self { file: Blocks::create(path)?, payload: Vec::new() })
    }

    fn put(&mut self, record: &Record<'_>) {
        sensors::encode(record, &mut self.payload);
    }

    fn flush(&mut self) {
        self.file.append(&self.payload);
        self.payload.clear();
    }
}
