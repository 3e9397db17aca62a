//! Sleeping until there is something to do: one thread waits, any thread wakes it. Nobody who rings
//! waits for anything, and nothing that was announced before a ring is missed.
#![forbid(unsafe_code)]

use crate::os::locks::sync::{AtomicU32, Ordering, strictly};

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;
/// Rung for, and not yet seen to be awake.
const RUNG: u32 = 2;

/// What a sleeping thread is woken by.
pub struct Doorbell {
    /// Whether the thread sleeps, or is about to. Also the futex.
    state: AtomicU32,
    #[cfg(all(test, feature = "loom"))]
    bed: (loom::sync::Mutex<()>, loom::sync::Condvar),
}

impl Doorbell {
    /// Of a thread that is awake.
    pub fn new() -> Self {
        Self {
            state: AtomicU32::new(AWAKE),
            #[cfg(all(test, feature = "loom"))]
            bed: (loom::sync::Mutex::new(()), loom::sync::Condvar::new()),
        }
    }

    /// There is something to do, as the caller has announced before, by a sequentially consistent
    /// change of a word that the sleeper then loads as strictly.
    #[inline(always)]
    pub fn ring(&self) {
        strictly();
        if self.state.load(Ordering::SeqCst) != AWAKE {
            self.wake();
        }
    }

    /// Who finds it rung for calls as well: a signal's handler may have left who rang before, by
    /// `siglongjmp`, ahead of the call.
    #[cold]
    fn wake(&self) {
        let rung = self.state.compare_exchange(ASLEEP, RUNG, Ordering::SeqCst, Ordering::SeqCst);
        if rung != Err(AWAKE) {
            self.call();
        }
    }

    /// Sleeps until the next ring, unless there is something to do: `idle` looks once more, after
    /// those who ring can see that the thread is about to sleep.
    pub fn sleep(&self, idle: impl FnOnce() -> bool) {
        // An exchange, not a store: it takes note of the ring that it comes after.
        self.state.swap(ASLEEP, Ordering::SeqCst);
        strictly();
        if idle() {
            self.doze();
        }
        self.state.swap(AWAKE, Ordering::SeqCst);
    }

    #[cfg(not(all(test, feature = "loom")))]
    fn call(&self) {
        super::futex::wake_one(&self.state);
    }

    /// May return early.
    #[cfg(not(all(test, feature = "loom")))]
    fn doze(&self) {
        super::futex::wait(&self.state, ASLEEP, None);
    }

    /// A futex looks at its word and puts the thread to sleep in one step: as under a lock.
    #[cfg(all(test, feature = "loom"))]
    fn call(&self) {
        let _bed = self.bed.0.lock();
        self.bed.1.notify_one();
    }

    #[cfg(all(test, feature = "loom"))]
    fn doze(&self) {
        let mut bed = self.bed.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        while self.state.load(Ordering::SeqCst) == ASLEEP {
            bed = self.bed.1.wait(bed).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }
}

#[cfg(all(test, feature = "loom"))]
mod loom_tests {
    use super::*;
    use crate::os::locks::sync::AtomicU64;
    use crate::os::shared::slots::Slots;
    use loom::sync::Arc;
    use loom::thread;

    /// The writer's way: work lies in places without a lock.
    #[test]
    fn work_in_a_place_is_never_slept_over() {
        loom::model(|| {
            let shared = Arc::new((Doorbell::new(), Slots::<u32, 1>::new()));
            let sleeper = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    while shared.1.take(0).is_none() {
                        shared.0.sleep(|| shared.1.is_empty());
                    }
                })
            };
            assert!(shared.1.put(Box::new(1)).is_ok());
            shared.0.ring();
            // loom finds the deadlock where a ring was lost.
            sleeper.join().unwrap();
        });
    }

    /// The reaper's way: work is counted in a word.
    #[test]
    fn work_in_a_word_is_never_slept_over() {
        loom::model(|| {
            let shared = Arc::new((Doorbell::new(), AtomicU64::new(0)));
            let sleeper = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    while shared.1.load(Ordering::SeqCst) == 0 {
                        shared.0.sleep(|| shared.1.load(Ordering::SeqCst) == 0);
                    }
                })
            };
            shared.1.fetch_add(1, Ordering::SeqCst);
            shared.0.ring();
            sleeper.join().unwrap();
        });
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_call_that_a_jump_took_away_is_made_up_for() {
        let bell = Doorbell::new();
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| bell.sleep(|| true));
            while bell.state.load(Ordering::SeqCst) != ASLEEP {
                std::thread::yield_now();
            }
            std::thread::sleep(Duration::from_millis(20));
            bell.state.swap(RUNG, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(20));
            bell.ring();
            sleeper.join().expect("no panic");
        });
        assert_eq!(bell.state.load(Ordering::SeqCst), AWAKE);
    }
}
