//! Markers of our own, which tie the device's clock to the host's. NVIDIA's driver stamps QUEUED
//! and SUBMIT inside the enqueue call, and what lies between the call's ends and these stamps
//! bounds how far the clocks are apart: to within 11 microseconds for a launch, 4 for a marker
//! (H200, driver 580). So where the application has just waited for a queue, some markers follow,
//! often at first and then seldom.
//!
//! They are never waited for: their stamps are read, and their events released, where the queue's
//! own events are. None is enqueued on runtimes that bound their clocks well enough without, on
//! queues that are not timed, or while a user event is not set.

use super::{Calls, Queue};
use crate::abi::constants as cl;
use crate::abi::entry::H;
use crate::facts::user_events;
use crate::os::locks::robust::Robust;
use crate::os::threads;
use crate::recording::guard;
use crate::recording::{self, state};
use crate::runtime::functions as api;
use clscope_trace::defs::{ClockMarker, ClockMarkers};
use std::sync::atomic::{AtomicU64, Ordering};

/// Markers that follow each other: the first ones find a driver that has slept, and take longer.
const BURST: usize = 8;
/// Time from the first burst of a device to its second, in ns, the longest between two, and how one
/// grows to the next. Eight markers take 60 microseconds.
const FIRST_NS: f64 = 25e6;
const LONGEST_NS: f64 = 1e9;
const GROWTH: f64 = 1.125;

/// A marker whose stamps are not read yet.
struct Held {
    event: usize,
    /// Host time before and after its enqueue.
    before: u64,
    after: u64,
}

impl Held {
    fn event(&self) -> H {
        // SAFETY: given by the runtime; the recorder holds its only reference.
        unsafe { H::from_word(self.event) }
    }
}

/// The markers of one queue.
pub struct Markers {
    /// Host time from which on there may be more; `u64::MAX`: never.
    due: AtomicU64,
    held: Robust<Vec<Held>>,
    /// How many are held.
    count: AtomicU64,
}

/// When a device's next markers are due. Its queues share its clock.
pub struct Schedule {
    device: usize,
    due: u64,
    interval_ns: f64,
}

impl Markers {
    /// `wanted`: the device is one whose clock they bound better than its commands do.
    pub fn new(wanted: bool) -> Self {
        Self {
            due: AtomicU64::new(if wanted { 0 } else { u64::MAX }),
            held: Robust::made_anew(Vec::new()),
            count: AtomicU64::new(0),
        }
    }

    /// How many are on the queue, or complete and not read.
    pub fn held(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// A command of the queue has just been waited for.
    #[inline]
    pub fn opportunity(&self, queue: &Queue, now: u64) {
        if now >= self.due.load(Ordering::Relaxed) {
            self.enqueue(queue, now);
        }
    }

    #[cold]
    fn enqueue(&self, queue: &Queue, now: u64) {
        let Some(device) = super::current().filter(|d| !d.stopped.load(Ordering::SeqCst)) else {
            return;
        };
        // Behind a user event they would be held for as long as the application likes.
        let recording = state::running() && !state::controlled();
        if !recording
            || !queue.timed.load(Ordering::Relaxed)
            || user_events::outstanding() != Some(false)
        {
            return;
        }
        let Some(mut held) = self.held.try_lock() else { return };
        if !held.is_empty() || !self.reserve(&device.clocks, queue, now) || !queue.switch.on(queue)
        {
            return;
        }
        let Some(enqueue) = api::clEnqueueMarkerWithWaitList.own(queue.slot) else {
            self.due.store(u64::MAX, Ordering::Relaxed);
            return;
        };
        guard::unseen(|| {
            for _ in 0..BURST {
                let mut event = H::NULL;
                let before = recording::now();
                // SAFETY: the application's own live queue, in the middle of a call about it, and
                // room for an event.
                let code = unsafe {
                    enqueue(H::from_word(queue.handle), 0, std::ptr::null(), &raw mut event)
                };
                let after = recording::now();
                if code != 0 || event.is_null() {
                    self.due.store(u64::MAX, Ordering::Relaxed);
                    break;
                }
                held.push(Held { event: event.word(), before, after });
            }
        });
        self.count.store(held.len() as u64, Ordering::Relaxed);
    }

    /// Whether it is this queue's turn, which the other queues of its device then leave to it.
    fn reserve(&self, schedules: &Robust<Vec<Schedule>>, queue: &Queue, now: u64) -> bool {
        let Some(mut schedules) = schedules.try_lock() else { return false };
        let at = schedules.iter().position(|s| s.device == queue.device).unwrap_or_else(|| {
            schedules.push(Schedule { device: queue.device, due: 0, interval_ns: FIRST_NS });
            schedules.len() - 1
        });
        let Some(schedule) = schedules.get_mut(at) else { return false };
        let turn = now >= schedule.due;
        if turn {
            schedule.due = now + recording::ticks_of(schedule.interval_ns as u64);
            schedule.interval_ns = (schedule.interval_ns * GROWTH).min(LONGEST_NS);
        }
        self.due.store(schedule.due, Ordering::Relaxed);
        turn
    }

    /// Gives those that are on their way the moment that they take. They followed a wait, so that
    /// nothing stands before them; what another thread has put there since is not waited for.
    #[cold]
    pub fn await_last(&self, calls: &Calls) {
        for _ in 0..50 {
            let last = self.held.try_lock().and_then(|held| held.last().map(Held::event));
            let running = last
                .and_then(|event| calls.status(event))
                .is_some_and(|status| status > cl::CL_COMPLETE);
            if !running {
                return;
            }
            threads::pause(20);
        }
    }

    /// Reads the stamps of those that are complete.
    #[inline]
    pub fn harvest(&self, queue: &Queue, calls: &Calls) {
        if self.held() > 0 {
            guard::unseen(|| self.read(queue, calls));
        }
    }

    #[cold]
    fn read(&self, queue: &Queue, calls: &Calls) {
        let Some(mut held) = self.held.try_lock() else { return };
        let mut markers = Vec::new();
        held.retain(|marker| {
            let event = marker.event();
            if calls.status(event).is_some_and(|status| status > cl::CL_COMPLETE) {
                return true;
            }
            // A marker that failed, or whose queue was not profiling after all, has no stamps.
            if let (0, [queued, submit, ..]) = calls.stamps(event)
                && queued > 0
                && submit > 0
            {
                markers.push(ClockMarker {
                    before: marker.before,
                    after: marker.after,
                    queued,
                    submit,
                });
            }
            // SAFETY: the marker's reference; the marker goes.
            unsafe { calls.let_go(event) };
            false
        });
        self.count.store(held.len() as u64, Ordering::Relaxed);
        if !markers.is_empty() {
            recording::define(&ClockMarkers { queue: queue.id, markers }.into());
        }
    }

    /// The application gives the queue up: none outlives it.
    pub fn abandon(&self, calls: &Calls) {
        self.due.store(u64::MAX, Ordering::Relaxed);
        if let Some(mut held) = self.held.try_lock_for(super::LAST_LOOK) {
            // SAFETY: each marker's reference; the markers go.
            let let_go = |marker: Held| unsafe { calls.let_go(marker.event()) };
            guard::unseen(|| held.drain(..).for_each(let_go));
            self.count.store(0, Ordering::Relaxed);
        }
    }
}
