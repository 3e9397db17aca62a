//! Counters of CPU devices: perf events of an application's threads. Owns the opening of one
//! counter per thread and event, the sums, and the words for a machine that has no counters;
//! refuses to sample (only counts are read) and to count the kernel's own work.
//!
//! A runtime's worker threads start after the application: counters are opened on every thread
//! there is, with inheritance, so that threads started later count too. Source: perf_event_open(2).
#![forbid(unsafe_code)]

use super::device::Place;
use super::error::OaError;
use super::i915::sysctl;
use super::source::{
    CounterHealth, CounterInfo, CounterSource, CounterValue, CounterWindow, TakeWindow,
};
use clscope_sensors::error::SensorError;
use clscope_sensors::files::{Files, Roots};
use clscope_sensors::perf_event;
use clscope_sensors::source::{Pace, stamped};
use clscope_sensors::units::{Clock, Stamp};
use std::fs::File;
use std::io::{self, Read};

/// An event of perf's generic tables (linux/perf_event.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerfEvent {
    /// Name, as perf's tools have it.
    pub name: &'static str,
    /// PERF_TYPE_*.
    pub kind: u32,
    /// The event's number.
    pub config: u64,
}

const fn hardware(name: &'static str, config: u64) -> PerfEvent {
    PerfEvent { name, kind: 0, config }
}

const fn software(name: &'static str, config: u64) -> PerfEvent {
    PerfEvent { name, kind: 1, config }
}

/// Cache events: level, then operation << 8, then result << 16.
const fn cache(name: &'static str, level: u64, operation: u64, result: u64) -> PerfEvent {
    PerfEvent { name, kind: 3, config: level | operation << 8 | result << 16 }
}

/// The events read by default. Software events work everywhere; the others need a PMU.
pub const EVENTS: [PerfEvent; 12] = [
    hardware("cycles", 0),
    hardware("instructions", 1),
    hardware("cache-references", 2),
    hardware("cache-misses", 3),
    hardware("branches", 4),
    hardware("branch-misses", 5),
    cache("LLC-loads", 2, 0, 0),
    cache("LLC-load-misses", 2, 0, 1),
    cache("L1-dcache-load-misses", 0, 0, 1),
    software("task-clock", 1),
    software("page-faults", 2),
    software("context-switches", 3),
];

/// The reading of a counter: its count, and the time it was enabled and was counting, in
/// nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerfCount {
    /// Events.
    pub count: u64,
    /// Nanoseconds it was enabled.
    pub enabled_ns: u64,
    /// Nanoseconds it was on the hardware.
    pub running_ns: u64,
}

/// An open counter.
pub trait ThreadCounter: Send {
    /// Reads it.
    ///
    /// # Errors
    /// The system's.
    fn read(&self) -> io::Result<PerfCount>;
}

/// Opens counters: a trait, so that refusals can be played.
pub trait ThreadPerf: Send {
    /// One event of one thread and of everything it starts, user mode only.
    ///
    /// # Errors
    /// The system's.
    fn open(&self, tid: u32, event: &PerfEvent) -> io::Result<Box<dyn ThreadCounter>>;
}

/// The kernel's perf_event_open; its descriptors go where the function puts them.
#[derive(Clone, Copy, Debug)]
pub struct Kernel(pub Place);

impl Default for Kernel {
    fn default() -> Kernel {
        Kernel(|file| file)
    }
}

struct PerfFile(File);

impl ThreadCounter for PerfFile {
    fn read(&self) -> io::Result<PerfCount> {
        let mut buf = [0u8; 24];
        let n = (&self.0).read(&mut buf)?;
        if n != buf.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let word = |i: usize| {
            buf.get(8 * i..8 * i + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_ne_bytes)
        };
        Ok(PerfCount { count: word(0), enabled_ns: word(1), running_ns: word(2) })
    }
}

impl ThreadPerf for Kernel {
    fn open(&self, tid: u32, event: &PerfEvent) -> io::Result<Box<dyn ThreadCounter>> {
        const INHERIT: u64 = 1 << 1;
        const EXCLUDE_KERNEL: u64 = 1 << 5;
        const EXCLUDE_HV: u64 = 1 << 6;
        const TIMES: u64 = 1 | 2;
        let flags = INHERIT | EXCLUDE_KERNEL | EXCLUDE_HV;
        let event = perf_event::PerfEvent {
            kind: event.kind,
            config: event.config,
            read_format: TIMES,
            flags,
        };
        let file = File::from(perf_event::open(event, Some(tid), None)?);
        Ok(Box::new(PerfFile((self.0)(file))))
    }
}

/// Words for a refusal.
fn refusal(
    files: &dyn Files,
    roots: &Roots,
    pid: u32,
    event: &PerfEvent,
    error: &io::Error,
) -> OaError {
    let (reason, remedy) = match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP) => {
            ("this machine offers no such counter (virtual machines often have no performance-monitoring unit)".to_owned(), None)
        }
        Some(libc::EACCES | libc::EPERM) => {
            let level = sysctl(files, roots, "kernel.perf_event_paranoid").unwrap_or_else(|| "not readable".to_owned());
            let reason = format!("the kernel refuses (kernel.perf_event_paranoid is {level}; or the process is another user's)");
            (reason, Some("sudo sysctl kernel.perf_event_paranoid=2".to_owned()))
        }
        Some(libc::ESRCH) => ("it has ended".to_owned(), None),
        Some(libc::EMFILE) => ("too many open files".to_owned(), Some("ulimit -n 8192".to_owned())),
        Some(libc::ENOSYS) => ("this kernel has no perf events, or a sandbox hides them".to_owned(), None),
        _ => (error.to_string(), None),
    };
    OaError::Perf { what: event.name, pid, reason, remedy }
}

/// Problems by their reason, with the events that share it: many machines have no
/// performance-monitoring unit at all.
pub fn by_reason(problems: &[OaError]) -> Vec<(String, Vec<&'static str>)> {
    let mut out: Vec<(String, Vec<&'static str>)> = Vec::new();
    for problem in problems {
        let OaError::Perf { what, reason, .. } = problem else { continue };
        match out.iter_mut().find(|(known, _)| known == reason) {
            Some((_, events)) => events.push(what),
            None => out.push((reason.clone(), vec![what])),
        }
    }
    out
}

/// One event over all threads.
struct Sum {
    counters: Vec<Box<dyn ThreadCounter>>,
    last: PerfCount,
}

/// perf counters of one process.
pub struct ProcessCounters {
    name: String,
    infos: Vec<CounterInfo>,
    sums: Vec<Sum>,
    last: Option<Stamp>,
    values: Vec<CounterValue>,
    health: CounterHealth,
}

impl ProcessCounters {
    /// Opens what can be opened of `events` on every thread of a process. Events that cannot are in
    /// the list of problems.
    ///
    /// # Errors
    /// Where none can, the first problem.
    pub fn open(
        files: &dyn Files,
        roots: &Roots,
        perf: &dyn ThreadPerf,
        pid: u32,
        events: &[PerfEvent],
    ) -> Result<(ProcessCounters, Vec<OaError>), OaError> {
        let tasks = files.list(&roots.proc.join(pid.to_string()).join("task")).unwrap_or_default();
        let tids: Vec<u32> = tasks.iter().filter_map(|t| t.parse().ok()).collect();
        let mut problems = Vec::new();
        if tids.is_empty() {
            let what = events.first().map_or("perf events", |e| e.name);
            return Err(OaError::Perf {
                what,
                pid,
                reason: "there is no such process".to_owned(),
                remedy: None,
            });
        }
        let (mut infos, mut sums) = (Vec::new(), Vec::new());
        for event in events {
            let mut counters = Vec::new();
            let mut refused = None;
            for tid in &tids {
                match perf.open(*tid, event) {
                    Ok(counter) => counters.push(counter),
                    // Threads end between the listing and the opening.
                    Err(e) if e.raw_os_error() == Some(libc::ESRCH) && tids.len() > 1 => {}
                    Err(e) => {
                        refused = Some(refusal(files, roots, pid, event, &e));
                        break;
                    }
                }
            }
            match refused {
                // A part of the threads is not the process: better no figure than a low one.
                Some(error) => problems.push(error),
                None if counters.is_empty() => problems.push(refusal(
                    files,
                    roots,
                    pid,
                    event,
                    &io::Error::from_raw_os_error(libc::ESRCH),
                )),
                None => {
                    let note = Some("user mode only, all threads".to_owned());
                    infos.push(CounterInfo { name: event.name.to_owned(), note });
                    sums.push(Sum { counters, last: PerfCount::default() });
                }
            }
        }
        if sums.is_empty() {
            return Err(problems.swap_remove(0));
        }
        let values = vec![CounterValue::Absent; sums.len()];
        let source = ProcessCounters {
            name: format!("perf:{pid}"),
            infos,
            sums,
            last: None,
            values,
            health: CounterHealth::default(),
        };
        Ok((source, problems))
    }
}

impl Sum {
    fn read(&self) -> io::Result<PerfCount> {
        let mut sum = PerfCount::default();
        for counter in &self.counters {
            let one = counter.read()?;
            sum.count = sum.count.wrapping_add(one.count);
            sum.enabled_ns = sum.enabled_ns.wrapping_add(one.enabled_ns);
            sum.running_ns = sum.running_ns.wrapping_add(one.running_ns);
        }
        Ok(sum)
    }
}

/// What a window's counts are worth: exact, scaled, or nothing.
fn value(before: PerfCount, after: PerfCount) -> CounterValue {
    let count = after.count.saturating_sub(before.count);
    let enabled = after.enabled_ns.saturating_sub(before.enabled_ns);
    let running = after.running_ns.saturating_sub(before.running_ns);
    match (enabled, running) {
        // No thread ran: nothing happened, and that is known.
        (0, _) => CounterValue::Count(count),
        (_, 0) => CounterValue::Absent,
        _ if running >= enabled => CounterValue::Count(count),
        _ => {
            let estimate = u128::from(count) * u128::from(enabled) / u128::from(running);
            CounterValue::Scaled {
                estimate: u64::try_from(estimate).unwrap_or(u64::MAX),
                counted: running as f64 / enabled as f64,
            }
        }
    }
}

impl CounterSource for ProcessCounters {
    fn name(&self) -> &str {
        &self.name
    }

    fn counters(&self) -> &[CounterInfo] {
        &self.infos
    }

    fn pace(&self) -> Pace {
        Pace { fastest_ns: 1_000_000, slowest_ns: 10_000_000_000, adaptive: false }
    }

    fn read(&mut self, clock: &mut dyn Clock, out: TakeWindow<'_>) -> Result<(), SensorError> {
        let mut first_error = None;
        let mut whole: Option<Stamp> = None;
        for (sum, slot) in self.sums.iter_mut().zip(&mut self.values) {
            let failed = |source| OaError::Io { what: "reading a perf counter", source }.into();
            *slot = CounterValue::Absent;
            match stamped(clock, || sum.read().map_err(failed)) {
                Ok((stamp, now)) => {
                    *slot = value(sum.last, now);
                    sum.last = now;
                    whole = Some(
                        whole.map_or(stamp, |w| Stamp { before: w.before, after: stamp.after }),
                    );
                }
                Err(error) => {
                    first_error.get_or_insert(error);
                }
            }
        }
        if let Some(end) = whole {
            let begin = self.last.replace(end);
            if begin.is_some() {
                self.health.windows += 1;
                out(&CounterWindow {
                    begin,
                    end: Some(end),
                    device_ticks: None,
                    values: &self.values,
                    counts: None,
                    continuity: super::Continuity::Whole,
                    context: None,
                });
            }
        }
        first_error.map_or(Ok(()), Err)
    }

    fn health(&self) -> CounterHealth {
        self.health
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clscope_sensors::files::System;
    use clscope_sensors::units::RawNs;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Counts up to a shared number; refuses events by errno.
    struct Played {
        refuse: Vec<(&'static str, i32)>,
        count: Arc<AtomicU64>,
        running_percent: u64,
    }

    struct PlayedCounter(Arc<AtomicU64>, u64);

    impl ThreadCounter for PlayedCounter {
        fn read(&self) -> io::Result<PerfCount> {
            let count = self.0.load(Ordering::Relaxed);
            Ok(PerfCount {
                count: count * self.1 / 100,
                enabled_ns: count,
                running_ns: count * self.1 / 100,
            })
        }
    }

    impl ThreadPerf for Played {
        fn open(&self, _: u32, event: &PerfEvent) -> io::Result<Box<dyn ThreadCounter>> {
            match self.refuse.iter().find(|(name, _)| *name == event.name) {
                Some((_, errno)) => Err(io::Error::from_raw_os_error(*errno)),
                None => Ok(Box::new(PlayedCounter(Arc::clone(&self.count), self.running_percent))),
            }
        }
    }

    fn tree(threads: &[u32]) -> (tempfile::TempDir, Roots) {
        let dir = tempfile::tempdir().unwrap();
        for tid in threads {
            std::fs::create_dir_all(dir.path().join(format!("proc/7/task/{tid}"))).unwrap();
        }
        std::fs::create_dir_all(dir.path().join("proc/sys/kernel")).unwrap();
        std::fs::write(dir.path().join("proc/sys/kernel/perf_event_paranoid"), "3\n").unwrap();
        let roots = Roots::below(dir.path());
        (dir, roots)
    }

    fn windows(source: &mut ProcessCounters) -> Vec<Vec<CounterValue>> {
        let mut now = 0;
        let mut clock = || {
            now += 10;
            RawNs(now)
        };
        let mut got = Vec::new();
        source.read(&mut clock, &mut |w| got.push(w.values.to_vec())).unwrap();
        got
    }

    #[test]
    fn threads_are_summed_and_multiplexing_is_scaled() {
        let (_dir, roots) = tree(&[7, 8, 9]);
        for (percent, want) in [
            (100, CounterValue::Count(300)),
            (50, CounterValue::Scaled { estimate: 300, counted: 0.5 }),
            (0, CounterValue::Absent),
        ] {
            let count = Arc::new(AtomicU64::new(1000));
            let perf =
                Played { refuse: vec![], count: Arc::clone(&count), running_percent: percent };
            let (mut source, problems) =
                ProcessCounters::open(&System, &roots, &perf, 7, &EVENTS[..1]).unwrap();
            assert!(problems.is_empty());
            assert_eq!(windows(&mut source), Vec::<Vec<CounterValue>>::new());
            count.store(1100, Ordering::Relaxed);
            assert_eq!(windows(&mut source), [vec![want]]);
        }
    }

    #[test]
    fn refusals_are_in_words() {
        let (_dir, roots) = tree(&[7]);
        let table = [
            (libc::ENOENT, "virtual machines often have no performance-monitoring unit", None),
            (
                libc::EACCES,
                "kernel.perf_event_paranoid is 3",
                Some("sudo sysctl kernel.perf_event_paranoid=2"),
            ),
            (libc::ESRCH, "it has ended", None),
            (libc::EMFILE, "too many open files", Some("ulimit -n 8192")),
            (libc::ENOSYS, "no perf events", None),
            (libc::EIO, "Input/output error", None),
        ];
        for (errno, words, remedy) in table {
            let perf = Played {
                refuse: vec![("cycles", errno)],
                count: Arc::default(),
                running_percent: 100,
            };
            let error =
                ProcessCounters::open(&System, &roots, &perf, 7, &EVENTS[..1]).err().unwrap();
            assert!(error.to_string().contains(words), "{error}");
            assert_eq!(error.remedy().as_deref(), remedy);
            // With another event that works, the refusal is a problem, not the end.
            let (source, problems) =
                ProcessCounters::open(&System, &roots, &perf, 7, &EVENTS[..2]).unwrap();
            assert_eq!((source.counters().len(), problems.len()), (1, 1));
        }
        let perf = Played { refuse: vec![], count: Arc::default(), running_percent: 100 };
        let error = ProcessCounters::open(&System, &roots, &perf, 8, &EVENTS).err().unwrap();
        assert_eq!(error.to_string(), "cycles of process 8: there is no such process");
    }

    /// On the machine the tests run on: software events count this very test, or the refusal has
    /// words.
    #[test]
    fn this_process_is_counted_or_the_refusal_says_why() {
        let events: Vec<PerfEvent> =
            EVENTS.iter().filter(|e| e.name == "task-clock").copied().collect();
        match ProcessCounters::open(
            &System,
            &Roots::default(),
            &Kernel::default(),
            std::process::id(),
            &events,
        ) {
            Ok((mut source, _)) => {
                windows(&mut source);
                let spin: u64 = (0..2_000_000u64).fold(0, |a, b| std::hint::black_box(a ^ b));
                let got = windows(&mut source);
                assert!(matches!(got[0][0], CounterValue::Count(n) if n > 0), "{got:?} {spin}");
            }
            Err(error) => assert!(
                matches!(&error, OaError::Perf { reason, .. } if !reason.is_empty()),
                "{error}"
            ),
        }
    }
}
