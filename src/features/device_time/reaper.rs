//! Looks after commands that the application never waits for: a thread of ours, started with the
//! first timed command, asleep while nothing is old. It is a backstop: polling a busy queue
//! contends with the driver's own lock.

use super::{look_if_left_alone, queues_of};
use crate::recording;
use crate::recording::guard;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// How often it looks while commands are in flight.
const PERIOD_NS: i64 = 200_000_000;

pub struct Reaper {
    started: AtomicBool,
    /// 1: asleep until woken. Also the futex.
    idle: AtomicU32,
    in_opencl: AtomicBool,
}

impl Reaper {
    /// Not started.
    pub fn new() -> Self {
        Self {
            started: AtomicBool::new(false),
            idle: AtomicU32::new(0),
            in_opencl: AtomicBool::new(false),
        }
    }

    /// There is something to look after.
    #[inline]
    pub fn wake(&'static self) {
        if !self.started.load(Ordering::Relaxed) {
            self.start();
        } else if self.idle.load(Ordering::Relaxed) == 1 && self.idle.swap(0, Ordering::AcqRel) == 1
        {
            // SAFETY: a live futex word.
            unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    &raw const self.idle,
                    libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                    1,
                )
            };
        }
    }

    #[cold]
    fn start(&'static self) {
        if self.started.swap(true, Ordering::AcqRel) {
            return;
        }
        // Without the thread only what nobody waits for stays untimed.
        let _ = crate::features::sampler::without_signals(|| {
            std::thread::Builder::new()
                .name("clscope".into())
                .stack_size(256 * 1024)
                .spawn(move || self.run())
        });
    }

    fn run(&'static self) {
        let t = guard::thread();
        loop {
            self.sleep(Some(PERIOD_NS));
            let Some(process) = recording::process() else { return };
            self.in_opencl.store(true, Ordering::SeqCst);
            if process.device.stopped.load(Ordering::SeqCst) {
                self.in_opencl.store(false, Ordering::SeqCst);
                return;
            }
            let queues = queues_of(None);
            guard::protect((), || {
                for queue in &queues {
                    look_if_left_alone(t, queue);
                }
            });
            self.in_opencl.store(false, Ordering::SeqCst);
            if queues.is_empty() {
                self.idle.store(1, Ordering::Release);
                self.sleep(None);
            }
        }
    }

    /// Sleeps for a time, or until woken.
    fn sleep(&self, nanoseconds: Option<i64>) {
        let time = libc::timespec { tv_sec: 0, tv_nsec: nanoseconds.unwrap_or(0) };
        match nanoseconds {
            // SAFETY: a valid time; being woken early does no harm.
            Some(_) => unsafe {
                libc::nanosleep(&time, std::ptr::null_mut());
            },
            // SAFETY: a live futex word; returns at once if it is not 1 any more.
            None => unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    &raw const self.idle,
                    libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                    1,
                    std::ptr::null::<libc::timespec>(),
                );
            },
        }
    }

    /// At exit: gives the thread a moment to come out of the driver. It never is waited for longer.
    pub fn leave_opencl(&self) {
        for _ in 0..200 {
            if !self.in_opencl.load(Ordering::SeqCst) {
                return;
            }
            // SAFETY: no preconditions.
            unsafe { libc::usleep(100) };
        }
    }
}
