//! Owns sampling inside the application: where nobody else reads sensors (`clscope record` does), a
//! thread of ours reads those that the process may, and `snapshot` reads them around commands.
//! Sources are opened at the first OpenCL call, on the application's thread, so that its own
//! descriptors keep their numbers; without sources there is no file and no thread. Refuses to wait:
//! at exit, and where a fork left the lock taken, it goes without a last reading.

use crate::recording::diag;
use crate::recording::files::{self, Appended};
use crate::recording::{self, Process};
use crate::settings::config;
use clscope_readings::{Clocks, Store};
use clscope_sensors::files::{Files, ReadAt};
use clscope_sensors::rapl::perf::{PerfCounter, PerfOpener};
use clscope_sensors::sampler::{Host, Sampler, Settings, SystemHost};
use clscope_sensors::{Clock as _, Roots, System, doctor};
use parking_lot::Mutex;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::time::Duration;

/// With fewer descriptors allowed the application needs them all.
const LEAST_DESCRIPTORS: u64 = 128;

/// Files with descriptors out of the application's way.
struct Raised;

impl Files for Raised {
    fn text(&self, path: &Path) -> io::Result<String> {
        System.text(path)
    }
    fn open(&self, path: &Path) -> io::Result<Box<dyn ReadAt>> {
        Ok(Box::new(files::raised(std::fs::File::open(path)?)))
    }
    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        System.list(path)
    }
    fn link_target_name(&self, path: &Path) -> io::Result<String> {
        System.link_target_name(path)
    }
}

/// Perf events of whole processors are left to `clscope record`: a process that may open them may
/// read powercap, too.
struct NoPerf;

impl PerfOpener for NoPerf {
    fn open(&self, _: u32, _: u64, _: u32) -> io::Result<Box<dyn PerfCounter>> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "not from inside an application"))
    }
}

/// The sampling of one incarnation of the process; never freed.
struct Sampling {
    at: Mutex<(Sampler, Store)>,
    stop: AtomicBool,
    snapshots: AtomicU64,
    spent_ns: AtomicU64,
}

static CURRENT: AtomicPtr<Sampling> = AtomicPtr::new(std::ptr::null_mut());

fn current() -> Option<&'static Sampling> {
    // SAFETY: NULL or a leaked box.
    unsafe { CURRENT.load(Ordering::Acquire).as_ref() }
}

/// Whether the application leaves descriptors to us.
pub fn descriptors_to_spare() -> bool {
    // SAFETY: an all-zero rlimit is valid and writable.
    let mut limit: libc::rlimit = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let failed = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0;
    failed || limit.rlim_cur >= LEAST_DESCRIPTORS
}

/// Opens what can be read, and starts the thread, at the first OpenCL call of a process.
pub fn begin(process: &Process) {
    // A forked child's parent goes on with its own.
    CURRENT.store(std::ptr::null_mut(), Ordering::Release);
    let wanted = config::get();
    if (!wanted.sensors && !wanted.snapshot) || !descriptors_to_spare() {
        return;
    }
    let roots = wanted.sysfs_root.as_deref().map_or_else(Roots::default, Roots::below);
    let mut opened = doctor::open_host(&Raised, &roots, &NoPerf, None);
    if opened.sources.is_empty() {
        if wanted.snapshot && wanted.counters.is_empty() {
            diag::warn(
                "no-snapshot",
                "snapshots were asked for, and this process may read no sensor: `clscope doctor` says what helps",
            );
        }
        return;
    }
    let path = process.files.directory.join(format!("sensors-{}.clt", process.files.stem));
    let store = Appended::create(&path).and_then(|file| Store::over(Box::new(file)));
    let mut store = match store {
        Ok(store) => store,
        Err(error) => {
            diag::warn(
                "no-readings",
                &format!("sensors are not sampled: cannot write {}: {error}", path.display()),
            );
            return;
        }
    };
    store.findings(&opened.findings);
    store.note(clscope_clock::monotonic_raw().0, "application-started", "");
    let sampler =
        Sampler::new(std::mem::take(&mut opened.sources), Settings::default(), &mut store);
    let made: &'static Sampling = Box::leak(Box::new(Sampling {
        at: Mutex::new((sampler, store)),
        stop: AtomicBool::new(false),
        snapshots: AtomicU64::new(0),
        spent_ns: AtomicU64::new(0),
    }));
    CURRENT.store(std::ptr::from_ref(made).cast_mut(), Ordering::Release);
    if wanted.snapshot {
        read_now();
    } else {
        // Without the thread there are readings at the beginning and the end only.
        let _ = without_signals(|| {
            std::thread::Builder::new()
                .name("clscope-sensors".into())
                .stack_size(256 * 1024)
                .spawn(move || made.run())
        });
    }
}

impl Sampling {
    fn run(&'static self) {
        let mut host = SystemHost(Clocks);
        while !self.stop.load(Ordering::Acquire) {
            let due = {
                let (sampler, store) = &mut *self.at.lock();
                let due = sampler.step(&mut host, store);
                store.tick(host.raw().0);
                due
            };
            let Some(due) = due else { return };
            if due > host.raw() {
                host.sleep_until(due);
            }
        }
    }

    fn read(&self, patience: Duration, last: bool) {
        let Some(mut at) = self.at.try_lock_for(patience) else { return };
        let (sampler, store) = &mut *at;
        let mut host = SystemHost(Clocks);
        sampler.finish(&mut host, store);
        let now = host.raw().0;
        if last {
            store.note(now, "application-ended", "");
            let (count, spent) =
                (self.snapshots.load(Ordering::Relaxed), self.spent_ns.load(Ordering::Relaxed));
            if count > 0 {
                let text = format!(
                    "{count} readings of all sensors around commands took {:.3} s; each command was waited for, so that nothing overlapped",
                    spent as f64 * 1e-9
                );
                store.note(now, "snapshots", &text);
            }
            store.cost(now, &sampler.summary());
            store.flush(now);
        } else {
            store.tick(now);
        }
    }
}

/// Reads all sensors now.
pub fn read_now() {
    let Some(sampling) = current() else { return };
    let from = clscope_clock::monotonic_raw().0;
    sampling.read(Duration::from_millis(50), false);
    sampling.snapshots.fetch_add(1, Ordering::Relaxed);
    sampling
        .spent_ns
        .fetch_add(clscope_clock::monotonic_raw().0.saturating_sub(from), Ordering::Relaxed);
}

/// The process ends in order.
pub fn end() {
    let Some(sampling) =
        current().filter(|_| recording::process().is_some_and(|p| p.pid == std::process::id()))
    else {
        return;
    };
    sampling.stop.store(true, Ordering::Release);
    sampling.read(Duration::from_millis(20), true);
}

/// Starts a thread of ours with every signal blocked: the application's handlers must never run on
/// it.
pub fn without_signals<R>(start: impl FnOnce() -> R) -> R {
    // SAFETY: signal sets are initialised before use.
    unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) =
            (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let started = start();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        started
    }
}
