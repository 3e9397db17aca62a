//! A robust lock: a signal's handler that leaves by `siglongjmp` leaves it taken, and its thread
//! gives it back as soon as it finds that the frame which held it is gone ([`held`](crate::os::locks::held)).
//! So signals need not be held back, which would send those of the process to other threads.
//!
//! A value stays as it was left, if it is whole between any two instructions of those who change
//! it, or is made anew by whoever has it next: what was in it is lost then, with the memory it
//! took.

use crate::os::locks::futex;
use crate::os::locks::held::Mark;
use crate::os::locks::lock::clock;
use std::cell::{Cell, UnsafeCell};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Set beside the owner where others wait.
const AWAITED: u32 = 1 << 31;

/// A value that one thread at a time has.
pub struct Robust<T> {
    /// The owner's number, 0 while it is free. Also the futex.
    owner: AtomicU32,
    /// It was left in the middle of a change, and nobody has had it since.
    left: AtomicBool,
    /// What makes a value that was left whole again.
    mend: Option<fn(&mut T)>,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached through the guard only, which one thread at a time has.
unsafe impl<T: Send> Sync for Robust<T> {}

/// The value, as long as the calling thread has it.
pub struct Guard<'a, T> {
    of: &'a Robust<T>,
    /// Goes after the lock is given back.
    _mark: Mark,
}

impl<T> Robust<T> {
    /// Free. The value is whole between any two instructions of those who change it.
    pub fn new(value: T) -> Self {
        Self::made(value, None)
    }

    /// Free. A value that was left in the middle of a change is forgotten, and the default in its
    /// place.
    pub fn made_anew(value: T) -> Self
    where
        T: Default,
    {
        // Nothing of it may be read any more, also not to drop it.
        Self::made(value, Some(|value| std::mem::forget(std::mem::take(value))))
    }

    fn made(value: T, mend: Option<fn(&mut T)>) -> Self {
        let (owner, left) = (AtomicU32::new(0), AtomicBool::new(false));
        Self { owner, left, mend, value: UnsafeCell::new(value) }
    }

    /// Waits until no other thread has it. `None` where the calling thread has it itself: a
    /// signal's handler asks that interrupted it. Makes no call that is a cancellation point.
    pub fn lock(&self) -> Option<Guard<'_, T>> {
        self.taken(Patience::Endless)
    }

    /// `None` where a thread has it.
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        self.taken(Patience::None)
    }

    /// `None` where another thread has it for longer than that.
    pub fn try_lock_for(&self, patience: Duration) -> Option<Guard<'_, T>> {
        self.taken(Patience::Some(patience))
    }

    fn taken(&self, patience: Patience) -> Option<Guard<'_, T>> {
        let me = number();
        let mut mine = me;
        let mut until = None;
        // SAFETY: it is given back only where this thread has it; who made it keeps it as long as
        // threads may come.
        let mark = unsafe {
            let (owner, left) = (&raw const self.owner, &raw const self.left);
            Mark::new(owner.cast(), left.cast(), |owner, left| {
                give_back(&*owner.cast::<AtomicU32>(), &*left.cast::<AtomicBool>());
            })
        };
        loop {
            let found = self.owner.compare_exchange(0, mine, Ordering::Acquire, Ordering::Relaxed);
            let Err(found) = found else { break };
            if found & !AWAITED == me {
                return None;
            }
            let left = match patience {
                Patience::None => return None,
                Patience::Endless => None,
                Patience::Some(patience) => {
                    let now = clock();
                    let until: Instant = *until.get_or_insert(now + patience);
                    if until <= now {
                        return None;
                    }
                    Some(until - now)
                }
            };
            let awaited = found | AWAITED;
            if found == awaited
                || self
                    .owner
                    .compare_exchange(found, awaited, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok()
            {
                futex::wait(&self.owner, awaited, left);
                // Others may wait as well: whoever frees it next must look.
                mine = me | AWAITED;
            }
        }
        if let (true, Some(mend)) = (self.left.load(Ordering::Relaxed), self.mend) {
            // SAFETY: this thread has it, and no guard of it is there yet.
            mend(unsafe { &mut *self.value.get() });
            self.left.store(false, Ordering::Relaxed);
        }
        Some(Guard { of: self, _mark: mark })
    }
}

/// How long a thread waits for another.
#[derive(Clone, Copy)]
enum Patience {
    None,
    Some(Duration),
    Endless,
}

/// Gives it back where the calling thread has it: the frame that took it, or waited for it, has
/// been left. A frame may have been left after it freed the word and before it woke another
/// thread, or after it was woken itself and before it took it: then somebody sleeps beside a free
/// lock, whom nobody else wakes.
fn give_back(owner: &AtomicU32, left: &AtomicBool) {
    if owner.load(Ordering::Relaxed) & !AWAITED == number() {
        left.store(true, Ordering::Relaxed);
        owner.store(0, Ordering::Release);
    }
    futex::wake_one(owner);
}

fn free(owner: &AtomicU32) {
    if owner.swap(0, Ordering::Release) & AWAITED != 0 {
        futex::wake_one(owner);
    }
}

/// The calling thread's number, which no other thread of the process has or had, below [`AWAITED`].
/// A child's only thread keeps the one that it had in the parent.
pub fn number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    thread_local! {
        static MINE: Cell<u32> = const { Cell::new(0) };
    }
    if MINE.get() == 0 {
        MINE.set((NEXT.fetch_add(1, Ordering::Relaxed) & !AWAITED).max(1));
    }
    MINE.get()
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: this thread has it.
        unsafe { &*self.of.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread has it, and the guard is borrowed alone.
        unsafe { &mut *self.of.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        free(&self.of.owner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::locks::held;

    #[test]
    fn one_thread_at_a_time_has_the_value() {
        let sum = Robust::new(0u64);
        let add = || (0..10_000).for_each(|_| *sum.lock().expect("not ours") += 1);
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(add))));
        assert_eq!(*sum.lock().expect("free"), 40_000);
    }

    #[test]
    fn what_another_has_is_waited_for_no_longer_than_asked() {
        let value = Robust::new(1);
        let held = value.lock();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert!(value.try_lock().is_none());
                assert!(value.try_lock_for(Duration::from_micros(300)).is_none());
            });
        });
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| value.try_lock_for(Duration::from_secs(60)).map(|v| *v));
            while value.owner.load(Ordering::Relaxed) & AWAITED == 0 {
                std::thread::yield_now();
            }
            drop(held);
            assert_eq!(waiter.join().expect("no panic"), Some(1));
        });
        assert_eq!(value.try_lock().map(|v| *v), Some(1));
    }

    #[test]
    fn what_was_left_is_kept_or_made_anew_once() {
        let (kept, anew) = (Robust::new(vec![1]), Robust::made_anew(vec![1]));
        let seen = |of: &Robust<Vec<u32>>| of.lock().map(|v| v.clone());
        std::mem::forget((kept.lock(), anew.lock()));
        held::give_up();
        assert_eq!((seen(&kept), seen(&anew)), (Some(vec![1]), Some(vec![])));
        anew.lock().expect("free").push(2);
        assert_eq!(seen(&anew), Some(vec![2]));
    }

    /// A jump between the word's freeing and the wake, and one of a thread that was just woken.
    #[test]
    fn a_wake_that_a_jump_took_away_is_made_up_for() {
        let value = Robust::new(1);
        for woken in [false, true] {
            std::mem::forget(value.lock());
            std::thread::scope(|scope| {
                let waiter = scope.spawn(|| value.lock().map(|v| *v));
                while value.owner.load(Ordering::Relaxed) & AWAITED == 0 {
                    std::thread::yield_now();
                }
                // The waiter sleeps, or is about to, in which case it sees the change.
                std::thread::sleep(Duration::from_millis(20));
                value.owner.store(0, Ordering::Release);
                if woken {
                    // This thread has nothing, and comes from its sleep.
                    let mark = std::mem::ManuallyDrop::new(value.try_lock());
                    value.owner.store(0, Ordering::Release);
                    assert!(mark.is_some());
                }
                held::give_up();
                assert_eq!(waiter.join().expect("no panic"), Some(1));
            });
        }
    }

    #[test]
    fn its_own_thread_is_told_and_gives_back_what_it_left() {
        let value = Robust::new(1);
        let left = value.lock();
        assert!(left.is_some() && value.lock().is_none(), "a handler's call");
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| value.lock().map(|v| *v));
            while value.owner.load(Ordering::Relaxed) & AWAITED == 0 {
                std::thread::yield_now();
            }
            std::thread::scope(|s| drop(s.spawn(held::give_up)));
            assert!(!waiter.is_finished(), "what another has is not given back");
            // As a handler's jump does.
            std::mem::forget(left);
            held::give_up();
            assert_eq!(waiter.join().expect("no panic"), Some(1));
        });
        held::give_up();
        assert!(value.lock().is_some());
    }
}
