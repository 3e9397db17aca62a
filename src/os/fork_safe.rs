//! The lock for what outlives a fork, other than [`Current`](super::current::Current): a forked
//! child never waits for a lock that another thread of its parent held at the fork, since it makes
//! its own, and nobody waits for long. What must not be lost is not kept behind it.

use super::threads;
use super::undisturbed::uncancelled;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// How long a thread waits for another one, a tenth of a second in all: a recorded fact is not worth
/// more.
const TRIES: u32 = 1000;
const PAUSE_US: u32 = 100;

/// Counts up in each child.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// In a forked child: locks are made anew from here on.
pub fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// The value as one process has it; never freed.
struct Made<T> {
    generation: u32,
    value: parking_lot::Mutex<T>,
}

/// A value behind a lock that a fork cannot leave taken.
pub struct ForkSafe<T> {
    made: AtomicPtr<Made<T>>,
}

// SAFETY: the value is reached through a mutex only, which hands it from thread to thread.
unsafe impl<T: Send> Sync for ForkSafe<T> {}

impl<T: Default + 'static> ForkSafe<T> {
    /// The value's default, made when it is first asked for.
    pub const fn new() -> Self {
        Self { made: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Runs `run` on the value; `None` where another thread holds it for longer than anybody may.
    pub fn with<R>(&self, run: impl FnOnce(&mut T) -> R) -> Option<R> {
        // Seeding a hash map is a cancellation point.
        uncancelled(|| self.locked(run))
    }

    fn locked<R>(&self, run: impl FnOnce(&mut T) -> R) -> Option<R> {
        let value = &self.current().value;
        // Not `try_lock_for`: it parks threads in a table of the whole process, whose own locks
        // a fork can leave taken.
        let mut locked = value.try_lock();
        let mut tries = TRIES;
        while locked.is_none() && tries > 0 {
            threads::pause(PAUSE_US);
            tries -= 1;
            locked = value.try_lock();
        }
        locked.map(|mut value| run(&mut value))
    }

    /// This process's own. A child takes its parent's value over, unless a thread that the child
    /// does not have was just changing it.
    fn current(&self) -> &'static Made<T> {
        let generation = GENERATION.load(Ordering::Relaxed);
        let before = self.made.load(Ordering::Acquire);
        // SAFETY: NULL or a leaked box.
        let known = unsafe { before.as_ref() };
        if let Some(known) = known
            && known.generation == generation
        {
            return known;
        }
        let value = known
            .and_then(|parents| parents.value.try_lock())
            .map_or_else(T::default, |mut value| std::mem::take(&mut value));
        let made =
            Box::into_raw(Box::new(Made { generation, value: parking_lot::Mutex::new(value) }));
        match self.made.compare_exchange(before, made, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: just leaked.
            Ok(_) => unsafe { &*made },
            Err(others) => {
                // SAFETY: made above and seen by nobody; the other is a leaked box.
                unsafe {
                    drop(Box::from_raw(made));
                    &*others
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_takes_over_what_was_free_and_starts_anew_where_it_was_taken() {
        static FREE: ForkSafe<Vec<u32>> = ForkSafe::new();
        static TAKEN: ForkSafe<Vec<u32>> = ForkSafe::new();
        FREE.with(|v| v.push(1));
        TAKEN.with(|v| v.push(2));
        let held = TAKEN.current().value.lock();
        assert_eq!(TAKEN.with(|v| v.len()), None, "held by another, and not waited for for ever");
        in_child();
        assert_eq!(FREE.with(|v| v.clone()), Some(vec![1]));
        assert_eq!(TAKEN.with(|v| v.clone()), Some(vec![]));
        drop(held);
    }
}
