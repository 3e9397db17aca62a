//! A value of each thread's own that is there whenever the thread runs code, also in destructors
//! and handlers of `atexit`, where what `thread_local!` gives back at a thread's end is gone and
//! asking for it panics. Costs a call of the C library: not for what every call needs.

use std::cell::RefCell;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A value for each thread, made when the thread first asks.
pub struct Local<T> {
    /// The key of the values, plus 1; 0 before it is made.
    key: AtomicUsize,
    values: PhantomData<fn() -> T>,
}

impl<T: Default> Local<T> {
    pub const fn new() -> Self {
        Self { key: AtomicUsize::new(0), values: PhantomData }
    }

    /// Runs on the calling thread's value. `None` where the system has no room for it, or a run is
    /// under way that this one interrupted.
    pub fn with<R>(&'static self, run: impl FnOnce(&mut T) -> R) -> Option<R> {
        let key = self.key()?;
        // SAFETY: a valid key.
        let mut value = unsafe { libc::pthread_getspecific(key) }.cast::<RefCell<T>>();
        if value.is_null() {
            value = Box::into_raw(Box::new(RefCell::new(T::default())));
            // SAFETY: a valid key, whose destructor takes such boxes.
            if unsafe { libc::pthread_setspecific(key, value.cast()) } != 0 {
                // SAFETY: made above, known to nobody.
                drop(unsafe { Box::from_raw(value) });
                return None;
            }
        }
        // SAFETY: only this thread has the value, and it is given back when no code of ours runs.
        let mut value = unsafe { &*value }.try_borrow_mut().ok()?;
        Some(run(&mut value))
    }

    fn key(&self) -> Option<libc::pthread_key_t> {
        let mut key = self.key.load(Ordering::Acquire);
        if key == 0 {
            let mut made: libc::pthread_key_t = 0;
            // SAFETY: `end` is a function of this library, which is never unloaded.
            if unsafe { libc::pthread_key_create(&mut made, Some(end::<T>)) } != 0 {
                return None;
            }
            key = made as usize + 1;
            if let Err(others) =
                self.key.compare_exchange(0, key, Ordering::AcqRel, Ordering::Acquire)
            {
                // SAFETY: made above, used by nobody.
                unsafe { libc::pthread_key_delete(made) };
                key = others;
            }
        }
        Some((key - 1) as libc::pthread_key_t)
    }
}

/// A thread ends. What asks for the value in a later destructor gets a new one, which the C library
/// gives back again.
unsafe extern "C" fn end<T>(value: *mut c_void) {
    // SAFETY: a box of `with`, which the C library forgot before it called this.
    let value = unsafe { Box::from_raw(value.cast::<RefCell<T>>()) };
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        // Dropping a foreign payload could panic again.
        std::mem::forget(payload);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};

    #[derive(Default)]
    struct Counted(u64, Option<Sender<u64>>);

    impl Drop for Counted {
        fn drop(&mut self) {
            if let Some(sender) = &self.1 {
                sender.send(self.0).unwrap();
            }
        }
    }

    static VALUE: Local<Counted> = Local::new();

    /// What the standard library gives back at the thread's end asks for the value then.
    struct Late(Sender<u64>);

    impl Drop for Late {
        fn drop(&mut self) {
            let _ = VALUE.with(|value| {
                value.0 += 100;
                value.1 = Some(self.0.clone());
            });
        }
    }

    thread_local! {
        static LATE: RefCell<Option<Late>> = const { RefCell::new(None) };
    }

    #[test]
    fn each_thread_has_its_own_to_the_very_end() {
        let (sender, ended) = channel();
        #[expect(clippy::disallowed_methods, reason = "of a test")]
        let thread = std::thread::spawn(move || {
            LATE.with_borrow_mut(|late| *late = Some(Late(sender)));
            for want in 1..=3 {
                let counted = VALUE.with(|value| {
                    value.0 += 1;
                    value.0
                });
                assert_eq!(counted, Some(want));
            }
            assert_eq!(VALUE.with(|_| VALUE.with(|_| ())), Some(None), "a run within a run");
        });
        thread.join().unwrap();
        assert_eq!(ended.iter().collect::<Vec<_>>(), [103]);
        assert_eq!(VALUE.with(|value| value.0), Some(0));
    }
}
