//! The writer: a thread that writes full rings to the trace, so that no call of the application
//! waits for copying, for the allocation of pages or for the file system. The thread that filled a
//! ring goes on in another region of the ring file, and this one frees the full region once its
//! block is in a segment. Until then the region stays as it is: whatever kills the process, a
//! reader finds the records there. It is started by the first large ring that is full.
//!
//! Nothing depends on it, and no thread waits for it. Where it cannot be had (one processor, no
//! thread, rings that do not outlive the process), where [`MOST`] regions wait for it, and once it
//! failed to write, threads write their rings themselves.
#![forbid(unsafe_code)]

use super::Recording;
use super::ring::{self, Region};
use crate::os::doorbell::{Announced, Doorbell};
use crate::os::lock::Mutex;
use crate::os::threads;
use crate::recording::guard;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Regions that may wait to be written. Few: a region that lay about is out of the caches, and a
/// writer that is behind has no processor, so that threads which write by themselves lose nothing.
const MOST: u32 = 3;

const UNSTARTED: u32 = 0;
const RUNNING: u32 = 1;
const OFF: u32 = 2;

/// A ring that is full.
pub struct Full {
    pub region: Region,
    pub thread: u32,
    pub sequence: u32,
    /// Bytes of records.
    pub used: usize,
}

/// The thread and what waits for it.
pub struct Writer {
    state: AtomicU32,
    full: Mutex<VecDeque<Full>>,
    /// Regions handed over and not free again.
    waiting: AtomicU32,
    bell: Doorbell,
    /// In the middle of a block.
    writing: AtomicBool,
    stopped: AtomicBool,
}

impl Writer {
    /// Not started.
    pub fn new() -> Self {
        Self {
            state: AtomicU32::new(UNSTARTED),
            full: Mutex::new(VecDeque::new()),
            waiting: AtomicU32::new(0),
            bell: Doorbell::new(),
            writing: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
        }
    }

    /// Whether a full ring would be taken now. The first that asks starts the thread.
    pub fn takes(&'static self, recording: &'static Recording) -> bool {
        let running = match self.state.load(Ordering::Relaxed) {
            RUNNING => true,
            UNSTARTED => self.start(recording),
            _ => false,
        };
        running && self.waiting.load(Ordering::Relaxed) < MOST
    }

    #[cold]
    fn start(&'static self, recording: &'static Recording) -> bool {
        // The thread inherits the processors of the one that starts it: it must not compete with it
        // for a single one.
        if !recording.files.rings_survive || threads::processors() < 2 {
            return false;
        }
        if self
            .state
            .compare_exchange(UNSTARTED, RUNNING, Ordering::AcqRel, Ordering::Relaxed)
            .is_err()
        {
            return self.state.load(Ordering::Relaxed) == RUNNING;
        }
        let started = threads::spawn("clscope-writer", move || self.run(recording));
        if started.is_err() {
            self.state.store(OFF, Ordering::Relaxed);
        }
        started.is_ok()
    }

    /// Hands a full ring over.
    pub fn take(&self, full: Full) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.full.lock().push_back(full);
        self.bell.ring(Announced::Locked);
    }

    fn run(&self, recording: &'static Recording) {
        loop {
            self.writing.store(true, Ordering::SeqCst);
            if self.stopped.load(Ordering::SeqCst) || self.state.load(Ordering::Relaxed) == OFF {
                self.writing.store(false, Ordering::SeqCst);
                return;
            }
            let next = self.full.lock().pop_front();
            if let Some(full) = next {
                guard::protect((), || self.write(recording, full));
                continue;
            }
            self.writing.store(false, Ordering::SeqCst);
            self.bell.sleep(|| self.full.lock().is_empty() && !self.stopped.load(Ordering::SeqCst));
        }
    }

    fn write(&self, recording: &'static Recording, full: Full) {
        if ring::write_full(recording, &full) {
            ring::give_back(recording, full.region);
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        } else {
            // What was handed over stays in the ring file, where readers find it. The threads' own
            // writing tells what fails.
            self.state.store(OFF, Ordering::Relaxed);
            std::mem::forget(full);
        }
    }

    /// At exit: gives the thread a moment to finish its block, which would be torn. What still
    /// waits stays in the ring file.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        for _ in 0..2000 {
            if !self.writing.load(Ordering::SeqCst) {
                return;
            }
            threads::pause(100);
        }
    }
}
