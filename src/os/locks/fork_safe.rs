//! The lock for what outlives a fork, other than [`Current`](crate::os::shared::current::Current): a forked
//! child never waits for a lock that another thread of its parent held at the fork, since it makes
//! its own, and nobody waits for long. One that a signal's handler left taken by `siglongjmp` is
//! made anew, too, as soon as its thread finds out. What must not be lost is not kept behind it.

use crate::os::locks::held::Mark;
use crate::os::locks::lock::Mutex;
use crate::os::undisturbed::uncancelled;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::time::Duration;

/// How long a thread waits for another one: a recorded fact is not worth more.
const PATIENCE: Duration = Duration::from_millis(100);

/// Counts up in each child.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// In a forked child: locks are made anew from here on.
pub fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// The value as one process has it; never freed.
struct Made<T> {
    generation: u32,
    value: Mutex<T>,
}

/// A value behind a lock that a fork cannot leave taken.
pub struct ForkSafe<T> {
    made: AtomicPtr<Made<T>>,
}

// SAFETY: the value is reached through a mutex only, which hands it from thread to thread.
unsafe impl<T: Send> Sync for ForkSafe<T> {}

impl<T: Default + 'static> Default for ForkSafe<T> {
    fn default() -> Self {
        Self::new()
    }
}

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
        let made = self.current();
        // SAFETY: gives up a value that nobody may change any more: it is never freed. The pointer
        // to it outlives what a thread is in the middle of: it is a static's or leaked.
        let _mark = unsafe {
            Mark::new((&raw const self.made).cast(), (&raw const *made).cast(), |place, made| {
                let place = &*place.cast::<AtomicPtr<Made<T>>>();
                let none = std::ptr::null_mut();
                // Where it is another's by now, it was given up before.
                let _ = place.compare_exchange(
                    made.cast_mut().cast(),
                    none,
                    Ordering::AcqRel,
                    Ordering::Relaxed,
                );
            })
        };
        made.value.try_lock_for(PATIENCE).map(|mut value| run(&mut value))
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
        let made = Box::into_raw(Box::new(Made { generation, value: Mutex::new(value) }));
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
    use crate::os::locks::held;

    /// Tests that count generations up: one changes what another is in the middle of.
    static FORKING: Mutex<()> = Mutex::new(());

    #[test]
    fn what_a_handler_left_taken_is_made_anew_by_its_own_thread() {
        static LEFT: ForkSafe<Vec<u32>> = ForkSafe::new();
        let _forking = FORKING.lock();
        LEFT.with(|v| v.push(1));
        // As a handler's jump out of the middle does: nothing is dropped.
        let left = LEFT.with(|v| {
            v.push(2);
            held::give_up();
            assert_eq!(LEFT.with(|v| v.clone()), Some(vec![]), "another, and not waited for");
            LEFT.with(|v| v.push(3))
        });
        assert_eq!(left, Some(Some(())));
        assert_eq!(LEFT.with(|v| v.clone()), Some(vec![3]));
    }

    #[test]
    fn a_child_takes_over_what_was_free_and_starts_anew_where_it_was_taken() {
        static FREE: ForkSafe<Vec<u32>> = ForkSafe::new();
        static TAKEN: ForkSafe<Vec<u32>> = ForkSafe::new();
        let _forking = FORKING.lock();
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
