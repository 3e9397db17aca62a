//! The boundary that every export passes. A call is recorded once, at the outermost of preload,
//! layer and shim; what the runtime or an inner layer calls meanwhile is passed on. The guard is
//! lifted while application code runs inside a recorded call (see [`lifted`]).
//!
//! The fast path touches the thread's own line, two global words, and its ring: no lock, no
//! allocation, no system call.

use super::frames;
use super::ring::protocol::{self, cell};
use super::ring::runs;
pub use super::thread::{FRESH, OWN, Thread, thread};
use crate::abi::entry::Site;
use crate::os::memory;
use crate::os::thread_state::ThreadState;
use crate::os::undisturbed::uncancelled;
use crate::recording::{self, state, state::Begun};
use clscope_trace::record;
use clscope_trace::ring_file::ring;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{Ordering, compiler_fence};

/// A recorded call between its beginning and its record.
pub struct Entered {
    pub thread: &'static Thread,
    /// Host time just before the real call. [`SILENT`] is set in it if no record is to be written:
    /// the computed duration is then too long for the fast path, which needs no test of its own.
    mark: u64,
}

/// Recording is paused or the call is filtered out: its hook works, and no record is written. No
/// clock reaches the bit.
const SILENT: u64 = 1 << 63;

/// Above any frame that a call makes, in the unit of places on the stack.
const FAR_ABOVE: u32 = 1 << 24;

/// Takes the guard. `None`: pass the call on and record nothing.
#[inline(always)]
pub fn enter(site: Site) -> Option<Entered> {
    let t = thread();
    if t.depth.get() == 0 && state::active() {
        Some(entered(t, site, 0, frames::here()))
    } else {
        enter_slowly(t, site, frames::here())
    }
}

#[cold]
#[inline(never)]
fn enter_slowly(t: &'static Thread, site: Site, at: u32) -> Option<Entered> {
    match slow_enter(t, site, at) {
        Begun::Off => None,
        begun => Some(entered(t, site, if begun == Begun::Silent { SILENT } else { 0 }, at)),
    }
}

#[inline(always)]
fn entered(t: &'static Thread, site: Site, silent: u64, at: u32) -> Entered {
    t.depth.set(1 + site.slot as u8);
    // The frame that makes the real call: one that ends before it would look left behind.
    t.frame.set(at);
    let begin = recording::now();
    let header = t.header.get();
    // SAFETY: `header` is a mapped ring header or SCRATCH, both writable, aligned and larger than
    // these offsets.
    unsafe {
        cell(header, ring::CALL_BEGIN).store(begin, Ordering::Relaxed);
        cell(header, ring::CALL).store(u64::from(site.function) + 1, Ordering::Relaxed);
    }
    Entered { thread: t, mark: begin | silent }
}

fn slow_enter(t: &Thread, site: Site, at: u32) -> Begun {
    if !t.outside() && !left_behind(t, site, at) {
        // What comes in by the same way as the call that is under way is the application's: a
        // signal handler that interrupted it. What the runtime or a lower layer calls meanwhile
        // comes in by another way, or not at all.
        if t.writing.get() || t.depth.get() == 1 + site.slot as u8 {
            recording::ring::count_dropped(t, 1);
        }
        return Begun::Off;
    }
    let before = t.depth.replace(OWN);
    t.frame.set(at);
    let (go, inside) = protect((Begun::Off, false), || {
        let begun = state::begin(site.function);
        let wanted = begun == Begun::Recorded && t.ring.get().is_null();
        (begun, wanted && recording::ring::begin(t))
    });
    if inside {
        // Its frame is above this one, and not known any more.
        t.frame.set(at.wrapping_add(FAR_ABOVE));
        return Begun::Off;
    }
    t.depth.set(if t.ring.get().is_null() { before } else { 0 });
    go
}

/// Whether the call that the thread counts as being in was left behind our back; then the thread is
/// outside again, and the record of that call is lost.
fn left_behind(t: &Thread, site: Site, at: u32) -> bool {
    // Another way is taken by what the runtime or a lower layer calls, with every call where the
    // recorder came in twice: too often to unwind the stack for it.
    let same_way = t.depth.get() == 1 + site.slot as u8;
    if !frames::left(t.frame.get(), at, same_way) {
        return false;
    }
    if let Some(recording) = recording::current() {
        recording.let_go();
    }
    protect((), || {
        if t.writing.get() {
            recording::ring::mend(t);
        }
        t.writing.set(false);
        recording::ring::left(t);
    });
    // SAFETY: the thread's header, see `enter`.
    unsafe { cell(t.header.get(), ring::CALL) }.store(0, Ordering::Relaxed);
    t.depth.set(if t.ring.get().is_null() { FRESH } else { 0 });
    true
}

impl Entered {
    /// Host time just before the real call.
    #[inline(always)]
    pub fn begin(&self) -> u64 {
        self.mark & !SILENT
    }

    /// Takes the beginning anew, where preparing the call took time.
    #[inline(always)]
    pub fn start_now(&mut self) {
        self.mark = recording::now() | (self.mark & SILENT);
    }

    /// Whether records are written of it.
    #[inline(always)]
    pub fn recorded(&self) -> bool {
        self.mark & SILENT == 0
    }

    /// Ends the call with a plain record if it succeeded and `small` fits, else with the long form.
    #[inline(always)]
    pub fn plain<const N: usize>(
        self,
        function: u16,
        code: i32,
        id: impl FnOnce() -> u32,
        small: Option<u32>,
        long: impl FnOnce() -> [u64; N],
    ) {
        self.plain_at(function, code, id, small, long, recording::now());
    }

    /// As [`plain`](Self::plain), at a time taken before.
    #[inline(always)]
    pub fn plain_at<const N: usize>(
        self,
        function: u16,
        code: i32,
        id: impl FnOnce() -> u32,
        small: Option<u32>,
        long: impl FnOnce() -> [u64; N],
        end: u64,
    ) {
        let t = self.thread;
        t.writing.set(true);
        compiler_fence(Ordering::SeqCst);
        let (delta, duration) = (end.wrapping_sub(t.last.get()), end.wrapping_sub(self.mark));
        let cursor = t.cursor.get();
        let room = (t.limit.get() as usize).wrapping_sub(cursor as usize) >= 16;
        if let (true, 0, 0, Some(small)) = (room, (delta | duration) >> 32, code, small) {
            let [head, object] = record::plain(function, small, id(), 0, 0);
            let key = head | object;
            if t.key.get() != key || !runs::added(t, key, delta as u32, duration as u32) {
                // SAFETY: 16 bytes are left in the ring, which is mapped, aligned and written by
                // this thread only.
                unsafe {
                    cursor.write(head | delta << 32);
                    cursor.add(1).write(object | duration);
                    t.cursor.set(cursor.add(2));
                }
                t.key.set(key);
                publish(t, end, 16);
            }
        } else {
            apart(move || {
                if self.recorded() {
                    slow_plain(
                        t,
                        function,
                        code,
                        id(),
                        small,
                        &long(),
                        end,
                        end.wrapping_sub(self.begin()),
                    );
                }
            });
        }
        leave(t);
    }

    /// Ends the call with the long form.
    #[inline(never)]
    pub fn call(self, function: u16, code: i32, arguments: &[u64]) {
        let end = recording::now();
        self.call_at(function, code, arguments, end);
    }

    /// Ends the call with the long form, at a time taken before.
    pub fn call_at(self, function: u16, code: i32, arguments: &[u64], end: u64) {
        let t = self.thread;
        let duration = end.wrapping_sub(self.begin());
        if self.recorded() {
            caught((), || recording::ring::call(t, function, code, arguments, end, duration));
        }
        leave(t);
    }

    /// Runs `finish`, which writes records and may call OpenCL unseen, then ends the call.
    pub fn with(self, finish: impl FnOnce(&'static Thread)) {
        let t = self.thread;
        caught((), || finish(t));
        leave(t);
    }
}

/// Runs what is rare out of the way, so that the common path keeps few values in registers.
#[cold]
#[inline(never)]
fn apart(run: impl FnOnce()) {
    run();
}

#[expect(clippy::too_many_arguments, reason = "the fast path's registers, handed over once")]
fn slow_plain(
    t: &Thread,
    function: u16,
    code: i32,
    id: u32,
    small: Option<u32>,
    long: &[u64],
    end: u64,
    duration: u64,
) {
    caught((), || match small {
        Some(small) if code == 0 => recording::ring::plain(t, function, id, small, end, duration),
        _ => recording::ring::call(t, function, code, long, end, duration),
    });
}

/// Makes `bytes` more of the ring visible to readers, whatever kills us next.
#[inline(always)]
pub fn publish(t: &Thread, time: u64, bytes: u64) {
    t.last.set(time);
    // SAFETY: the thread's header, see `enter`; its records were written before.
    unsafe { protocol::published(t.header.get(), bytes) };
}

#[inline(always)]
fn leave(t: &Thread) {
    // SAFETY: the thread's header, see `enter`.
    unsafe { cell(t.header.get(), ring::CALL) }.store(0, Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
    t.writing.set(false);
    t.depth.set(0);
}

/// Undoes `depth` when an exception or a thread's cancellation unwinds through the real call.
pub struct Unwinding(pub &'static Thread);

impl Drop for Unwinding {
    fn drop(&mut self) {
        leave(self.0);
    }
}

/// Runs the real call so that unwinding through it (a C++ exception from an application's callback,
/// pthread_cancel) lifts the guard. Without unwinding it costs nothing.
#[inline(always)]
pub fn real_call<R>(entered: &Entered, call: impl FnOnce() -> R) -> R {
    let armed = Unwinding(entered.thread);
    let returned = call();
    std::mem::forget(armed);
    returned
}

/// Runs the recorder's code: a panic in it is caught, reported once, and ends recording only. The
/// thread is not cancelled meanwhile: a forced unwinding would end in here.
pub fn protect<R>(otherwise: R, run: impl FnOnce() -> R) -> R {
    uncancelled(|| contained(otherwise, run))
}

/// As [`protect`], for what writes records: what it calls that could be a cancellation point is
/// [`uncancelled`] by itself, so that a record costs nothing for it.
fn caught<R>(otherwise: R, run: impl FnOnce() -> R) -> R {
    let _state = ThreadState::keep();
    contained(otherwise, run)
}

fn contained<R>(otherwise: R, run: impl FnOnce() -> R) -> R {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(value) => {
            if memory::is_short() {
                out_of_memory();
            }
            value
        }
        Err(payload) => {
            // Dropping a foreign payload could panic again.
            std::mem::forget(payload);
            state::disable();
            // What tells it may find the same fault.
            let told = catch_unwind(AssertUnwindSafe(recording::panics::tell));
            std::mem::forget(told);
            otherwise
        }
    }
}

/// Ends recording where memory was refused.
#[cold]
#[inline(never)]
fn out_of_memory() {
    state::disable();
    let text = "recording ended: this process was refused memory; the application runs on. Raise its limit (ulimit -v), or record less with --kernels";
    recording::diag::warn("no-memory", text);
}

/// Lifts the guard while application code runs inside a recorded call, then puts it back.
pub fn lifted<R>(run: impl FnOnce() -> R) -> R {
    struct Back(&'static Thread, u8, bool, u64, u64, u32);
    impl Drop for Back {
        fn drop(&mut self) {
            self.0.depth.set(self.1);
            self.0.frame.set(self.5);
            self.0.writing.set(self.2);
            let header = self.0.header.get();
            // SAFETY: the thread's header, see `enter`.
            unsafe {
                cell(header, ring::CALL_BEGIN).store(self.4, Ordering::Relaxed);
                cell(header, ring::CALL).store(self.3, Ordering::Relaxed);
            }
        }
    }
    let t = thread();
    let header = t.header.get();
    // A runtime's thread that comes here first has no ring yet: the call in SCRATCH is another
    // thread's.
    let (call, begin) = if t.ring.get().is_null() {
        (0, 0)
    } else {
        // SAFETY: the thread's header, see `enter`.
        unsafe {
            (
                cell(header, ring::CALL).load(Ordering::Relaxed),
                cell(header, ring::CALL_BEGIN).load(Ordering::Relaxed),
            )
        }
    };
    let outside = if t.ring.get().is_null() { FRESH } else { 0 };
    let frame = t.frame.get();
    let _back = Back(t, t.depth.replace(outside), t.writing.replace(false), call, begin, frame);
    run()
}

/// Calls OpenCL on our own account: nested, so that nothing of it is recorded, and not cancelled,
/// since the application has made no such call.
pub fn unseen<R>(run: impl FnOnce() -> R) -> R {
    struct Back(&'static Thread, u8, u32);
    impl Drop for Back {
        fn drop(&mut self) {
            self.0.depth.set(self.1);
            self.0.frame.set(self.2);
        }
    }
    let t = thread();
    let _back = Back(t, t.depth.replace(OWN), t.frame.replace(frames::here()));
    uncancelled(run)
}
