//! Profiling switched off for the commands that are not timed. Where an application asks for an
//! event with every launch, NVIDIA's driver charges it for a timed one as soon as the queue
//! profiles, which ours do: readings of the GPU's timer that nobody wants. A transfer has an event
//! of the driver's own, at the same price (on an H200 a blocking one of 4 KiB takes 6 microseconds
//! more). clSetCommandQueueProperty, of OpenCL 1.0, still switches that driver's profiling, for the
//! commands enqueued from then on.
//!
//! Only queues whose profiling is ours alone are switched, only on platforms where the switch is
//! known to work and to belong to the enqueue, and only while one thread enqueues: with a second
//! one the switch would race, so the queue profiles for good from its first enqueue on. A timed
//! command that turns out to have no stamps ends the switching too; it stays untimed, with the
//! reason.
//!
//! Where the function is missing, refused, or of a runtime we know nothing about, it is never
//! called: PoCL leaves its entry in the table of the loader NULL.

use super::Queue;
use crate::abi::constants as cl;
use crate::abi::entry::H;
use crate::recording::guard;
use crate::runtime::functions as api;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

/// Profiling is on and stays so.
const NEVER: u8 = 0;
/// It is on, and may be switched off.
const ON: u8 = 1;
/// It is off, and may be switched on.
const OFF: u8 = 2;

/// How long giving up waits for another thread that is just switching: longer only where that
/// thread is lost.
const SWITCHING: Duration = Duration::from_millis(200);

/// The switch of one queue.
pub struct Switch {
    state: AtomicU8,
    /// Address of the state of the only thread that enqueued events so far.
    owner: AtomicUsize,
    /// Held while the runtime is told.
    telling: Mutex<()>,
}

impl Switch {
    /// `may`: profiling was added by us, on a platform that can switch it.
    pub fn new(may: bool) -> Self {
        Self {
            state: AtomicU8::new(if may { ON } else { NEVER }),
            owner: AtomicUsize::new(0),
            telling: Mutex::new(()),
        }
    }

    /// A command is about to be enqueued that is to be timed, or that is not and has an event, the
    /// application's or the driver's own.
    #[inline(always)]
    pub fn turn(&self, queue: &Queue, on: bool) {
        if self.state.load(Ordering::Relaxed) != NEVER {
            self.turned(queue, if on { ON } else { OFF });
        }
    }

    /// Turns profiling on for commands of ours, unless another thread has the switch: for them it
    /// is not given up.
    pub fn on(&self, queue: &Queue) -> bool {
        let mine =
            self.owner.load(Ordering::Relaxed) == std::ptr::from_ref(guard::thread()) as usize;
        if mine {
            self.turn(queue, true);
        }
        self.state.load(Ordering::Relaxed) != OFF
    }

    #[inline(never)]
    fn turned(&self, queue: &Queue, to: u8) {
        let me = std::ptr::from_ref(guard::thread()) as usize;
        let owner = self.owner.load(Ordering::Relaxed);
        if owner == me {
            if self.state.load(Ordering::Relaxed) != to {
                self.tell(queue, to);
            }
        } else if owner == 0
            && self.owner.compare_exchange(0, me, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            self.tell(queue, to);
        } else {
            self.give_up(queue);
        }
    }

    fn tell(&self, queue: &Queue, to: u8) {
        // Whoever holds it gives up the switching, or is another thread that has just begun to use
        // the queue.
        let Some(_telling) = self.telling.try_lock() else { return };
        let state = self.state.load(Ordering::Relaxed);
        if state != NEVER && state != to {
            self.state.store(if set(queue, to == ON) { to } else { NEVER }, Ordering::Relaxed);
        }
    }

    /// From now on the queue profiles for good.
    #[cold]
    pub fn give_up(&self, queue: &Queue) {
        if self.state.load(Ordering::Relaxed) == NEVER {
            return;
        }
        let _telling = self.telling.try_lock_for(SWITCHING);
        if self.state.swap(NEVER, Ordering::Relaxed) == OFF {
            set(queue, true);
        }
    }

    /// Whether the application's own commands may have been enqueued while profiling was off.
    pub fn in_use(&self) -> bool {
        self.state.load(Ordering::Relaxed) != NEVER
    }
}

/// Tells the runtime.
fn set(queue: &Queue, on: bool) -> bool {
    let Some(set) = api::clSetCommandQueueProperty.own(queue.slot) else { return false };
    // SAFETY: the application's own live queue, in the middle of a call about it; nothing is
    // written for a NULL.
    guard::unseen(|| unsafe {
        set(queue.handle as H, cl::CL_QUEUE_PROFILING_ENABLE, u32::from(on), std::ptr::null_mut())
    }) == 0
}
