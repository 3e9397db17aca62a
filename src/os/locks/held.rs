//! What a thread is in the middle of. A signal's handler that leaves the recorder by `siglongjmp`
//! runs no destructor on its way: the locks that the thread had stay taken, until it finds that its
//! frames are gone and gives up what is remembered here.
//!
//! Refuses to say whether a lock is really held: what is remembered a moment before it is taken, or
//! after it was given back, must be given up at no cost but facts, and more than once.

use std::cell::Cell;
use std::sync::atomic::{Ordering, compiler_fence};

/// Locks within locks that are remembered.
const DEEPEST: usize = 8;

/// What gives a lock up: told the lock and a word of its own.
type GiveUp = unsafe fn(*const (), *const ());

/// A lock, and how it is given up: stored last, and taken away first, since a handler may come
/// between.
struct Held {
    lock: Cell<*const ()>,
    word: Cell<*const ()>,
    give_up: Cell<Option<GiveUp>>,
}

impl Held {
    const fn none() -> Self {
        Self {
            lock: Cell::new(std::ptr::null()),
            word: Cell::new(std::ptr::null()),
            give_up: Cell::new(None),
        }
    }
}

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    static HELD: [Held; DEEPEST] = const { [const { Held::none() }; DEEPEST] };
}

/// The thread is in the middle of something, until this goes.
pub struct Mark(usize);

impl Mark {
    /// Remembers a lock that the calling thread is about to take.
    ///
    /// # Safety
    ///
    /// `give_up` may be called with `lock` and `word` by this thread as long as this is there, and
    /// for ever where a handler has left the frame that it belongs to.
    pub unsafe fn new(lock: *const (), word: *const (), give_up: GiveUp) -> Self {
        // Counted first: a handler that comes between has places of its own.
        let at = DEPTH.replace(DEPTH.get() + 1);
        HELD.with(|held| {
            if let Some(place) = held.get(at) {
                place.lock.set(lock);
                place.word.set(word);
                compiler_fence(Ordering::SeqCst);
                place.give_up.set(Some(give_up));
            }
        });
        // A handler of this thread finds it remembered before it is taken, and until it is given
        // back.
        compiler_fence(Ordering::SeqCst);
        Self(at)
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        HELD.with(|held| {
            if let Some(place) = held.get(self.0) {
                place.give_up.set(None);
            }
        });
        DEPTH.set(self.0);
    }
}

/// Gives up all that the calling thread was in the middle of: its frames have been left.
pub fn give_up() {
    HELD.with(|held| {
        for place in held.iter().rev() {
            let Some(give_up) = place.give_up.get() else { continue };
            // SAFETY: as `Mark::new` was promised.
            unsafe { give_up(place.lock.get(), place.word.get()) };
            // Forgotten afterwards: a handler may leave this, too, and then it is done again.
            compiler_fence(Ordering::SeqCst);
            place.give_up.set(None);
        }
    });
    DEPTH.set(0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    unsafe fn count(lock: *const (), _: *const ()) {
        // SAFETY: the counter below.
        unsafe { &*lock.cast::<AtomicU32>() }.fetch_add(1, Ordering::Relaxed);
    }

    #[test]
    fn what_was_left_is_given_up_once_and_what_was_given_back_is_not() {
        let (left, back) = (AtomicU32::new(0), AtomicU32::new(0));
        let mark = |of: &AtomicU32| {
            // SAFETY: both outlive the test's marks.
            unsafe { Mark::new((&raw const *of).cast(), std::ptr::null(), count) }
        };
        // More than are remembered.
        for _ in 0..DEEPEST + 2 {
            std::mem::forget(mark(&left));
            drop(mark(&back));
        }
        give_up();
        give_up();
        assert_eq!((left.into_inner(), back.into_inner()), (DEEPEST as u32, 0));
        drop(mark(&AtomicU32::new(0)));
        assert_eq!(DEPTH.get(), 0);
    }
}
