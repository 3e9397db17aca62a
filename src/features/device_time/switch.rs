//! Profiling switched off for the commands that are not timed. Where an application asks for an
//! event with every launch, NVIDIA's driver charges it for a timed one as soon as the queue
//! profiles, as the recorder's do: the driver reads the GPU's timer, and no one uses the values. A
//! transfer has an event of the driver's own, at the same price (on an H200 a blocking one of 4 KiB
//! takes 6 microseconds more). clSetCommandQueueProperty, of OpenCL 1.0, still switches that
//! driver's profiling, for the commands enqueued from then on.
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
use crate::os::locks::sync::{AtomicU32, AtomicU64, Ordering, Robust};
use crate::recording::guard;
use crate::runtime::functions as api;
use std::time::Duration;

/// Profiling is on and stays so.
const NEVER: u32 = 0;
/// It is on, and may be switched off.
const ON: u32 = 1;
/// It is off, and may be switched on.
const OFF: u32 = 2;

/// How long giving up waits for another thread that is just switching: longer only where that
/// thread is lost.
const SWITCHING: Duration = Duration::from_millis(200);

/// The switch of one queue.
pub struct Switch {
    state: AtomicU32,
    /// Address of the state of the only thread that enqueued events so far.
    owner: AtomicU64,
    /// Held while the runtime's setting is changed.
    telling: Robust<()>,
}

impl Switch {
    /// `may`: profiling was added by us, on a platform that can switch it.
    pub fn new(may: bool) -> Self {
        Self {
            state: AtomicU32::new(if may { ON } else { NEVER }),
            owner: AtomicU64::new(0),
            telling: Robust::new(()),
        }
    }

    /// A command is about to be enqueued that is to be timed, or that is not and has an event, the
    /// application's or the driver's own.
    #[inline(always)]
    pub fn turn(&self, queue: &Queue, on: bool) {
        if self.in_use() {
            self.turn_told(queue, on);
        }
    }

    #[inline(never)]
    fn turn_told(&self, queue: &Queue, on: bool) {
        self.turned(me(), if on { ON } else { OFF }, |on| set(queue, on));
    }

    /// Turns profiling on for the recorder's commands, unless another thread has the switch: for
    /// them it is not given up.
    pub fn on(&self, queue: &Queue) -> bool {
        if self.owner.load(Ordering::Relaxed) == me() {
            self.turn(queue, true);
        }
        self.state.load(Ordering::Relaxed) != OFF
    }

    /// From now on the queue profiles for good.
    #[cold]
    pub fn give_up(&self, queue: &Queue) {
        self.given_up(|on| set(queue, on));
    }

    /// Whether the application's own commands may have been enqueued while profiling was off.
    #[inline(always)]
    pub fn in_use(&self) -> bool {
        self.state.load(Ordering::Relaxed) != NEVER
    }

    /// The thread `me` wants the state `to`; `set` tells the runtime.
    fn turned(&self, me: u64, to: u32, set: impl Fn(bool) -> bool) {
        let owner = self.owner.load(Ordering::Relaxed);
        if owner == me {
            if self.state.load(Ordering::Relaxed) != to {
                self.tell(to, set);
            }
        } else if owner == 0
            && self.owner.compare_exchange(0, me, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            self.tell(to, set);
        } else {
            self.given_up(set);
        }
    }

    fn tell(&self, to: u32, set: impl Fn(bool) -> bool) {
        // Whoever holds it gives up the switching, or is another thread that has just begun to use
        // the queue.
        let Some(_telling) = self.telling.try_lock() else { return };
        let state = self.state.load(Ordering::Relaxed);
        if state != NEVER && state != to {
            self.state.store(if set(to == ON) { to } else { NEVER }, Ordering::Relaxed);
        }
    }

    fn given_up(&self, set: impl Fn(bool) -> bool) {
        if !self.in_use() {
            return;
        }
        let _telling = self.telling.try_lock_for(SWITCHING);
        if self.state.swap(NEVER, Ordering::Relaxed) == OFF {
            set(true);
        }
    }
}

/// The calling thread, as the switch tells threads apart.
fn me() -> u64 {
    std::ptr::from_ref(guard::thread()) as u64
}

/// Tells the runtime.
fn set(queue: &Queue, on: bool) -> bool {
    let Some(set) = api::clSetCommandQueueProperty.own(queue.slot) else { return false };
    // SAFETY: the application's own live queue, in the middle of a call about it; nothing is
    // written for a NULL.
    guard::unseen(|| unsafe {
        let handle = H::from_word(queue.handle);
        set(handle, cl::CL_QUEUE_PROFILING_ENABLE, u32::from(on), std::ptr::null_mut())
    }) == 0
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// What a runtime was told, which obeys or refuses.
    fn apply_turns(switch: &Switch, obeys: bool, turns: &[(u64, u32)]) -> Vec<bool> {
        let told = RefCell::new(Vec::new());
        for (thread, to) in turns {
            switch.turned(*thread, *to, |on| {
                told.borrow_mut().push(on);
                obeys
            });
        }
        told.into_inner()
    }

    #[test]
    fn the_runtime_is_told_of_changes_only() {
        let switch = Switch::new(true);
        assert_eq!(
            apply_turns(&switch, true, &[(1, ON), (1, OFF), (1, OFF), (1, ON)]),
            [false, true]
        );
        assert!(switch.in_use());
    }

    #[test]
    fn a_second_thread_ends_the_switching_with_profiling_on() {
        let switch = Switch::new(true);
        assert_eq!(
            apply_turns(&switch, true, &[(1, OFF), (2, OFF), (1, OFF), (2, OFF)]),
            [false, true]
        );
        assert!(!switch.in_use());
    }

    #[test]
    fn a_refusal_ends_it_too() {
        let switch = Switch::new(true);
        assert_eq!(apply_turns(&switch, false, &[(1, OFF)]), [false]);
        assert!(!switch.in_use());
    }

    #[test]
    fn others_are_never_switched() {
        let switch = Switch::new(false);
        switch.given_up(|_| panic!("told"));
        assert!(!switch.in_use());
    }
}

#[cfg(all(test, feature = "loom"))]
mod loom_tests {
    use super::*;
    use crate::os::locks::sync::AtomicBool;
    use loom::sync::Arc;
    use loom::thread;

    /// Whatever two threads do at the same time: in the end the queue profiles, and stays so.
    #[test]
    fn two_threads_leave_profiling_on() {
        loom::model(|| {
            let shared = Arc::new((Switch::new(true), AtomicBool::new(true)));
            let run = |thread: u64| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    shared.0.turned(thread, OFF, |on| {
                        shared.1.store(on, Ordering::Relaxed);
                        true
                    });
                })
            };
            let threads = [run(1), run(2)];
            for thread in threads {
                thread.join().unwrap();
            }
            assert!(shared.1.load(Ordering::Relaxed), "profiling stayed off");
            assert!(!shared.0.in_use());
        });
    }
}
