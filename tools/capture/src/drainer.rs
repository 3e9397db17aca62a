//! Writes the segments of the processes that are recorded, while this process runs beside them: a
//! thread that takes the regions of ring files that threads have left, writes them as blocks, and
//! makes room in ring and definitions files before it runs out. The application's processes then
//! make no system call for their records. Finds processes by their ring files, whoever started
//! them. Refuses to map what they write to, to wait for them and to move what is in their files.
#![forbid(unsafe_code)]

mod process;

use crate::error::{Attempt, CaptureError};
use crate::sampler::LEAST_DESCRIPTORS;
use crate::{Tell, system};
use clscope_io::output::{Access, create_new};
use clscope_io::signals::without_signals;
use clscope_io::text::chain;
use clscope_readings::host;
use clscope_trace::directory::Role;
use clscope_trace::ring_file::attendance;
use process::{Process, Wrote};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

/// Between two looks at the rings: while they are being left, and while nothing happens.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(8);
/// The same while a process asks whether it is in a sandbox: it waits for the answer.
const ASKED: Duration = Duration::from_micros(100);
/// Between two looks at which processes are there; a change of the directory is seen at once.
const LIST: Duration = Duration::from_millis(100);
/// Between two looks at whether they still run.
const ALIVE: Duration = Duration::from_millis(250);

/// How long the files of processes that have ended are waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// The thread.
pub struct Drainer {
    trace: PathBuf,
    stop: Arc<AtomicBool>,
    asked: Sender<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    /// Its lock says that somebody is there.
    _lock: File,
}

impl Drainer {
    /// Begins to write the segments of a trace directory. `None` where this process may have few
    /// descriptors: then the application's processes write by themselves.
    ///
    /// # Errors
    /// If the file that says so cannot be made, or no thread be started.
    pub fn start(trace: &Path, access: Access, tell: Tell) -> Result<Option<Self>, CaptureError> {
        // The files of each process are open here.
        if system::most_descriptors().is_some_and(|most| most < LEAST_DESCRIPTORS) {
            return Ok(None);
        }
        let path = trace.join(attendance::FILE);
        let cannot = || format!("cannot write {}", path.display());
        let lock = create_new(&path, access).attempt(cannot)?;
        system::lock(&lock).attempt(cannot)?;
        let id: String = host::boot_id().iter().map(|byte| format!("{byte:02x}")).collect();
        (&lock).write_all(id.as_bytes()).attempt(cannot)?;
        let stop = Arc::new(AtomicBool::new(false));
        let mut work = Work {
            trace: trace.to_owned(),
            access,
            tell,
            processes: BTreeMap::new(),
            listed: None,
            unready: BTreeMap::new(),
            failed: false,
        };
        let (theirs, (asked, questions)) = (Arc::clone(&stop), channel());
        // Signals are for the thread that passes them on to the application.
        let thread = without_signals(|| {
            std::thread::Builder::new().name("drainer".to_owned()).spawn(move || {
                work.run(&theirs, &questions);
                work.hand_back();
            })
        });
        let thread = thread.attempt(|| "cannot start the thread that writes the trace")?;
        Ok(Some(Self { trace: trace.to_owned(), stop, asked, thread: Some(thread), _lock: lock }))
    }

    /// Completes the files of processes that have ended.
    pub fn finish_ended(&self) {
        let (answer, answered) = channel();
        let Some(thread) = &self.thread else { return };
        if self.asked.send(answer).is_ok() {
            thread.thread().unpark();
            // Without an answer they are completed later.
            let _ = answered.recv_timeout(PATIENCE);
        }
    }
}

/// Takes what is there, leaves processes that go on to write by themselves, and ends the thread.
impl Drop for Drainer {
    fn drop(&mut self) {
        // Processes that begin from here on write by themselves.
        let _ = std::fs::remove_file(self.trace.join(attendance::FILE));
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// What the thread does.
struct Work {
    trace: PathBuf,
    access: Access,
    tell: Tell,
    /// By the stem of their files; `None` of those that write by themselves or are done.
    processes: BTreeMap<String, Option<Process>>,
    listed: Option<(Instant, Option<SystemTime>)>,
    /// Stems whose files are not ready, and since when they are known.
    unready: BTreeMap<String, Instant>,
    /// That something cannot be written was said.
    failed: bool,
}

impl Work {
    fn run(&mut self, stop: &AtomicBool, questions: &Receiver<Sender<()>>) {
        let mut pause = SHORTEST;
        let mut looked = Instant::now();
        while !stop.load(Ordering::Acquire) {
            self.find();
            let busy = self.drain();
            pause = if busy { SHORTEST } else { (pause * 2).min(LONGEST) };
            if self.processes.values().flatten().any(Process::asks) {
                pause = ASKED;
            }
            let question = questions.try_recv().ok();
            if question.is_some() {
                self.listed = None;
                self.find();
            }
            if question.is_some() || looked.elapsed() >= ALIVE {
                looked = Instant::now();
                self.finish_ended();
            }
            if let Some(answer) = question {
                let _ = answer.send(());
            }
            std::thread::park_timeout(pause);
        }
        self.listed = None;
        self.find();
        self.drain();
    }

    /// Looks for processes that have begun.
    fn find(&mut self) {
        let changed = std::fs::metadata(&self.trace).and_then(|found| found.modified()).ok();
        if let Some((at, before)) = self.listed
            && at.elapsed() < LIST
            && before == changed
            && !self.begins()
        {
            return;
        }
        self.listed = Some((Instant::now(), changed));
        let Ok(entries) = clscope_trace::directory::list(&self.trace) else { return };
        for (_, role) in entries {
            let Role::Ring(stem) = role else { continue };
            if self.processes.contains_key(&stem) {
                continue;
            }
            match Process::open(&self.trace, &stem, self.access) {
                Some(process) => {
                    self.unready.remove(&stem);
                    self.processes.insert(stem, Some(process));
                }
                None => {
                    self.unready.entry(stem).or_insert_with(Instant::now);
                }
            }
        }
    }

    /// Whether a process may be about to say that its segments are to be written.
    fn begins(&self) -> bool {
        self.processes.is_empty() || self.unready.values().any(|since| since.elapsed() < ALIVE)
    }

    /// Takes what was left. Whether there was anything.
    fn drain(&mut self) -> bool {
        let (mut busy, mut failure) = (false, None);
        for place in self.processes.values_mut() {
            let Some(process) = place else { continue };
            match process.drain() {
                Ok(Wrote::Nothing) => {}
                Ok(Wrote::Gone) => *place = None,
                Ok(Wrote::Something) => busy = true,
                Err(error) => failure = Some(error),
            }
        }
        if let Some(error) = failure
            && !self.failed
        {
            self.failed = true;
            (self.tell)(&format_args!(
                "records will be dropped: {} takes no more ({}); the application runs on. Free space, or record with --max-size",
                self.trace.display(),
                chain(&error)
            ));
        }
        busy
    }

    fn finish_ended(&mut self) {
        for place in self.processes.values_mut() {
            if let Some(process) = place
                && process.has_ended()
            {
                // What cannot be written now is in the ring file.
                let _ = process.drain();
                process.finish();
                *place = None;
            }
        }
    }

    fn hand_back(&mut self) {
        self.finish_ended();
        for process in self.processes.values_mut().flatten() {
            if process.hand_back() {
                (self.tell)(&format_args!(
                    "warning: process {} goes on in a sandbox (seccomp), where it cannot write its trace: what it does from now on is lost once its rings are full",
                    process.pid()
                ));
            }
        }
    }
}
