//! The writer: a thread that writes full rings to the trace, so that no call of the application
//! waits for copying, for the allocation of pages or for the file system. The thread that filled a
//! ring goes on in another region of the ring file, and this one frees the full region once its
//! block is in a segment. Until then the region stays as it is: whatever kills the process, a
//! reader finds the records there. It is started with the first large ring.
//!
//! Nothing depends on it, and no thread waits for it. Where it cannot be had (one processor, no
//! thread, rings that do not outlive the process), where [`MOST`] regions wait for it, and once it
//! failed to write, threads write their rings themselves.
#![forbid(unsafe_code)]

use crate::os::locks::doorbell::Doorbell;
use crate::os::shared::slots::Slots;
use crate::os::threads;
use crate::os::undisturbed::undisturbed;
use crate::recording::Recording;
use crate::recording::guard;
use crate::recording::ring;
use crate::recording::ring::regions::Region;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Regions that may wait to be written. Few: a region that lay about is out of the caches, and a
/// writer that is behind has no processor, so that threads which write by themselves lose nothing.
const MOST: u32 = 3;

/// Places for them: threads that are told at once that there is room need one each.
const PLACES: usize = 16;

const UNSTARTED: u32 = 0;
const RUNNING: u32 = 1;
const OFF: u32 = 2;

/// The thread and what waits for it.
pub struct Writer {
    state: AtomicU32,
    full: Slots<Region, PLACES>,
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
            full: Slots::new(),
            waiting: AtomicU32::new(0),
            bell: Doorbell::new(),
            writing: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
        }
    }

    /// Whether a full ring would be taken now.
    pub fn takes(&self) -> bool {
        self.state.load(Ordering::Relaxed) == RUNNING && self.waiting.load(Ordering::Relaxed) < MOST
    }

    /// Starts the thread, unless it has been. The caller is
    /// [`undisturbed`].
    pub fn start(&'static self, recording: &'static Recording) {
        // The thread inherits the processors of the one that starts it: it must not compete with it
        // for a single one.
        if self.state.load(Ordering::Relaxed) != UNSTARTED
            || !recording.files.rings_survive
            || threads::processors() < 2
            || self
                .state
                .compare_exchange(UNSTARTED, RUNNING, Ordering::AcqRel, Ordering::Relaxed)
                .is_err()
        {
            return;
        }
        if threads::spawn(c"clscope-writer", move || self.run(recording)).is_err() {
            self.state.store(OFF, Ordering::Relaxed);
        }
    }

    /// Hands a full ring over.
    pub fn take(&self, recording: &'static Recording, full: Box<Region>) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        match self.full.put(full) {
            Ok(()) => self.bell.ring(),
            Err(full) => undisturbed(|| self.write(recording, full)),
        }
    }

    fn run(&self, recording: &'static Recording) {
        // What threads go on in while theirs are written.
        guard::protect((), || recording.regions.prepare(recording, MOST));
        let mut turn = 0;
        loop {
            self.writing.store(true, Ordering::SeqCst);
            if self.stopped.load(Ordering::SeqCst) || self.state.load(Ordering::Relaxed) == OFF {
                self.writing.store(false, Ordering::SeqCst);
                return;
            }
            // In turn, so that none waits for ever.
            turn += 1;
            if let Some(full) = self.full.take(turn) {
                guard::protect((), || self.write(recording, full));
                continue;
            }
            self.writing.store(false, Ordering::SeqCst);
            self.bell.sleep(|| self.full.is_empty() && !self.stopped.load(Ordering::SeqCst));
        }
    }

    fn write(&self, recording: &'static Recording, full: Box<Region>) {
        if ring::write_full(recording, &full) {
            recording.regions.give_back(recording, full);
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
