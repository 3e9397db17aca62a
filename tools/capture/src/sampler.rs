//! Owns the sampler's thread while an application runs: opening, reading, storing, ending. Refuses
//! to hold up the application: it starts while sensors are still being opened, unless an idle
//! window was asked for.
#![forbid(unsafe_code)]

use crate::error::{Attempt, CaptureError};
use crate::sources::Options;
use crate::{Tell, system};
use clscope_io::signals::without_signals;
use clscope_readings::{Clocks, Store};
use clscope_sensors::Clock as _;
use clscope_sensors::sampler::{Sampler, SamplerHost, Settings, SystemHost};
use clscope_sensors::source::{Domain, Quantity};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Name of its file in a trace.
pub const FILE: &str = "sensors.clt";

/// How long an idle window waits for sensors to be opened at most.
const OPENING: Duration = Duration::from_secs(5);
/// Sources that buffer readings themselves show the end of a run this much later: five samples of
/// 20 ms.
const TAIL: Duration = Duration::from_millis(100);

/// With fewer descriptors than these the application cannot be started beside the sampler's file,
/// or its sensors would be found to be missing for no reason of theirs.
pub(crate) const LEAST_DESCRIPTORS: u64 = 16;

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    started: AtomicU64,
    ended: AtomicU64,
    /// Whether a source of energy or power was opened.
    reads_energy: AtomicBool,
    /// Whether a source buffers readings itself.
    buffered: AtomicBool,
    /// Whether all that can be opened was.
    opened: AtomicBool,
}

/// The running sampler.
pub struct Running {
    shared: Arc<Shared>,
    ready: Receiver<()>,
    thread: JoinHandle<Option<String>>,
    idle: Duration,
    tell: Tell,
}

/// Starts sampling into `sensors.clt` of the trace; `None` where sensors are switched off, or,
/// which is told, where this process may have too few files for them. Waits only for an idle
/// window.
///
/// # Errors
/// If a replay file cannot be read or the file of readings cannot be made.
pub fn start(
    trace: &Path,
    options: &Options,
    idle: Duration,
    tell: Tell,
) -> Result<Option<Running>, CaptureError> {
    if options.is_off() {
        return Ok(None);
    }
    if let Some(most) = system::most_descriptors()
        && most < LEAST_DESCRIPTORS
    {
        tell(&format_args!(
            "warning: sensors are not read: this process may open {most} files at a time; `ulimit -n 1024` lets it open more"
        ));
        return Ok(None);
    }
    let replay = options.replay()?;
    let path = trace.join(FILE);
    let mut store = Store::create(&path).attempt(|| format!("cannot write {}", path.display()))?;
    let shared = Arc::new(Shared::default());
    let (started, ready) = channel();
    let (theirs, options) = (Arc::clone(&shared), options.clone());
    // Signals are for the thread that passes them on to the application.
    let thread = without_signals(|| {
        std::thread::Builder::new().name("sampler".to_owned()).spawn(move || {
            let opened = options.open(replay);
            store.findings(&opened.findings);
            let missing = opened.missing(&options);
            for text in opened.warnings.iter().chain(&missing) {
                tell(&format_args!("warning: {text}"));
            }
            let of_energy =
                |d: &Domain| matches!(d.quantity, Quantity::Energy { .. } | Quantity::Power { .. });
            let reads = opened.sources.iter().any(|source| source.domains().iter().any(of_energy));
            theirs.reads_energy.store(reads, Ordering::Release);
            let mut sampler = Sampler::new(opened.sources, Settings::default(), &mut store);
            theirs.buffered.store(store.buffered, Ordering::Release);
            theirs.opened.store(true, Ordering::Release);
            let _ = started.send(());
            sample(&mut sampler, &mut store, &theirs)
        })
    });
    let running = Running {
        shared,
        ready,
        thread: thread.attempt(|| "cannot start the sampler's thread")?,
        idle,
        tell,
    };
    if !idle.is_zero() {
        let _ = running.ready.recv_timeout(OPENING);
        std::thread::sleep(idle);
    }
    Ok(Some(running))
}

fn sample(sampler: &mut Sampler, store: &mut Store, shared: &Shared) -> Option<String> {
    let mut host = SystemHost(Clocks);
    let mut summed = host.raw();
    while !shared.stop.load(Ordering::Acquire) {
        let due = sampler.step(&mut host, store).unwrap_or_else(|| host.raw().plus(50_000_000));
        let now = host.raw();
        if now.since(summed) >= 10_000_000_000 {
            summed = now;
            store.cost(now.0, &sampler.summary());
        }
        store.tick(now.0);
        if due > now {
            host.sleep_until(due);
        }
    }
    sampler.finish(&mut host, store);
    for (code, time) in
        [("application-started", &shared.started), ("application-ended", &shared.ended)]
    {
        match time.load(Ordering::Acquire) {
            0 => {}
            time => store.note(time, code, ""),
        }
    }
    let now = host.raw();
    store.cost(now.0, &sampler.summary());
    store.flush(now.0);
    store.failure().map(ToString::to_string)
}

impl Running {
    /// Notes that the application is about to start.
    pub fn application_starts(&self) {
        self.shared.started.store(clscope_clock::monotonic_raw().0, Ordering::Release);
    }

    /// Whether a source of energy or power is open, before the application starts; `None` where
    /// opening takes too long to wait for.
    pub fn reads_energy(&self) -> Option<bool> {
        let opened = || self.shared.opened.load(Ordering::Acquire);
        if !opened() {
            let _ = self.ready.recv_timeout(OPENING);
        }
        opened().then(|| self.shared.reads_energy.load(Ordering::Acquire))
    }

    /// Notes that its last process has ended.
    pub fn application_ended(&self) {
        self.shared.ended.store(clscope_clock::monotonic_raw().0, Ordering::Release);
    }

    /// Reads on for the idle window, reads everything once more, and closes the file. Returns
    /// whether a source of energy or power was open.
    pub fn finish(self) -> bool {
        let buffered = self.shared.buffered.load(Ordering::Acquire);
        std::thread::sleep(if buffered { self.idle.max(TAIL) } else { self.idle });
        self.shared.stop.store(true, Ordering::Release);
        self.thread.thread().unpark();
        match self.thread.join() {
            Ok(None) => {}
            Ok(Some(why)) => (self.tell)(&format_args!(
                "warning: readings of sensors could not be written to the end: {why}"
            )),
            Err(_) => (self.tell)(&"warning: the sampler failed; energy figures end there"),
        }
        self.shared.reads_energy.load(Ordering::Acquire)
    }

    /// As [`finish`](Self::finish), of a run that never was.
    pub fn abandon(mut self) {
        self.idle = Duration::ZERO;
        self.finish();
    }
}
