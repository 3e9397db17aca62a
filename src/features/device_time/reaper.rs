//! The reaper: harvests commands that the application never waits for. Its thread is started with
//! the first queue and sleeps while nothing is old. It is a last resort, because polling a
//! busy queue contends with the driver's own lock.
#![forbid(unsafe_code)]

use super::{current, look_if_left_alone, queues_of};
use crate::os::locks::doorbell::Doorbell;
use crate::os::threads;
use crate::recording::guard;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often it looks while commands are in flight.
const PERIOD: Duration = Duration::from_millis(200);

pub struct Reaper {
    started: AtomicBool,
    bell: Doorbell,
    in_opencl: AtomicBool,
}

impl Reaper {
    /// Not started.
    pub fn new() -> Self {
        Self {
            started: AtomicBool::new(false),
            bell: Doorbell::new(),
            in_opencl: AtomicBool::new(false),
        }
    }

    /// Starts the thread, if it is not: where there is a queue commands will come, and the application
    /// may not start threads any more by then.
    pub fn begin(&'static self) {
        if !self.started.load(Ordering::Relaxed) {
            self.start();
        }
    }

    /// There is something to look after: a command was noted on its queue, which is a sequentially
    /// consistent addition.
    #[inline]
    pub fn wake(&'static self) {
        if self.started.load(Ordering::Relaxed) {
            self.bell.ring();
        } else {
            self.start();
        }
    }

    #[cold]
    fn start(&'static self) {
        if self.started.swap(true, Ordering::AcqRel) {
            return;
        }
        // Without the thread only commands that are never waited for stay untimed.
        let _ = threads::spawn(c"clscope-reaper", move || self.run());
    }

    fn run(&'static self) {
        let t = guard::thread();
        loop {
            threads::pause(PERIOD.as_micros() as u32);
            let Some(device) = current() else { return };
            self.in_opencl.store(true, Ordering::SeqCst);
            if device.stopped.load(Ordering::SeqCst) {
                self.in_opencl.store(false, Ordering::SeqCst);
                threads::stay();
            }
            let queues = queues_of(None);
            guard::protect((), || {
                for queue in &queues {
                    look_if_left_alone(t, queue);
                }
            });
            self.in_opencl.store(false, Ordering::SeqCst);
            if queues.is_empty() {
                self.bell.sleep(|| queues_of(None).is_empty());
            }
        }
    }

    /// At exit: gives the thread a moment to come out of the driver. It never is waited for longer.
    pub fn leave_opencl(&self) {
        for _ in 0..200 {
            if !self.in_opencl.load(Ordering::SeqCst) {
                return;
            }
            threads::pause(100);
        }
    }
}
