//! Owns sampling inside the application: without `clscope record`, a thread of the recorder reads
//! those sensors that the process may read, and `snapshot` reads them around commands. Sources are
//! opened at the first OpenCL call, on the application's thread, so that its own descriptors keep
//! their numbers; without sources there is no file and no thread. Refuses to wait: at exit, and
//! where a fork left the lock taken, it goes without a last reading.
#![forbid(unsafe_code)]

use crate::os::descriptors::{descriptors_to_spare, raised};
use crate::os::locks::lock::Mutex;
use crate::os::shared::current::Current;
use crate::os::threads;
use crate::os::undisturbed::undisturbed;
use crate::recording::Recording;
use crate::recording::diag;
use crate::recording::files::Appended;
use crate::settings::config;
use clscope_readings::{Clocks, Store};
use clscope_sensors::files::{Files, ReadAt};
use clscope_sensors::rapl::perf::Unopened;
use clscope_sensors::sampler::{Sampler, SamplerHost, Settings, SystemHost};
use clscope_sensors::{Clock as _, Roots, System, doctor};
use clscope_trace::variables::NO_SNAPSHOT;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Files with descriptors out of the application's way.
struct Raised;

impl Files for Raised {
    fn text(&self, path: &Path) -> io::Result<String> {
        System.text(path)
    }
    fn open(&self, path: &Path) -> io::Result<Box<dyn ReadAt>> {
        Ok(Box::new(raised(std::fs::File::open(path)?)))
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
const NO_PERF: Unopened = Unopened("not from inside an application");

/// The sampling of one incarnation of the process; never freed.
struct Sampling {
    at: Mutex<(Sampler, Store)>,
    stop: AtomicBool,
    snapshots: AtomicU64,
    spent_ns: AtomicU64,
}

static CURRENT: Current<Sampling> = Current::none();

/// Opens what can be read, and starts the thread, at the first OpenCL call of a process.
pub fn begin(recording: &Recording) {
    // A forked child's parent goes on with its own.
    CURRENT.set(None);
    let wanted = config::get();
    if (!wanted.sensors && !wanted.snapshot) || !descriptors_to_spare() {
        return;
    }
    let roots = wanted.sysfs_root.as_deref().map_or_else(Roots::default, Roots::below);
    let mut opened = doctor::open_host(&Raised, &roots, &NO_PERF);
    if opened.sources.is_empty() {
        if wanted.snapshot && wanted.counters.is_empty() {
            diag::warn(
                NO_SNAPSHOT,
                "snapshots were asked for, and this process may read no sensor that answers around a call (RAPL, hwmon): `clscope doctor` says what helps; of NVIDIA's devices, whose power has a new reading every 20 ms or more, `record --replay` gives the joules of a launch",
            );
        }
        return;
    }
    let name = format!("sensors-{}.clt", recording.files.stem);
    let store = Appended::create(&recording.files, name.clone())
        .and_then(|file| Store::over(Box::new(file)));
    let mut store = match store {
        Ok(store) => store,
        Err(error) => {
            diag::warn(
                "no-readings",
                &format!("sensors are not sampled: cannot write {name}: {error}"),
            );
            return;
        }
    };
    store.findings(&opened.findings);
    store.note(clscope_clock::monotonic_raw().0, "application-started", "");
    let sampler =
        Sampler::new(std::mem::take(&mut opened.sources), Settings::default(), &mut store);
    let made = CURRENT.keep(Sampling {
        at: Mutex::new((sampler, store)),
        stop: AtomicBool::new(false),
        snapshots: AtomicU64::new(0),
        spent_ns: AtomicU64::new(0),
    });
    if wanted.snapshot {
        read_now();
    } else {
        // Without the thread there are readings at the beginning and the end only.
        let _ = threads::spawn(c"clscope-sensors", move || made.run());
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

    /// Called on the application's threads, whose handlers must not leave it in the middle: signals
    /// wait.
    fn read(&self, patience: Duration, last: bool) {
        undisturbed(|| self.read_undisturbed(patience, last));
    }

    fn read_undisturbed(&self, patience: Duration, last: bool) {
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
    let Some(sampling) = CURRENT.get() else { return };
    let from = clscope_clock::monotonic_raw().0;
    sampling.read(Duration::from_millis(50), false);
    sampling.snapshots.fetch_add(1, Ordering::Relaxed);
    sampling
        .spent_ns
        .fetch_add(clscope_clock::monotonic_raw().0.saturating_sub(from), Ordering::Relaxed);
}

/// The process ends in order.
pub fn end() {
    let Some(sampling) = CURRENT.get() else { return };
    sampling.stop.store(true, Ordering::Release);
    sampling.read(Duration::from_millis(20), true);
}
