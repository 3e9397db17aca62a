//! A panic of the recorder is no matter of the application's: it is not printed. The standard
//! library in this library is its own, so that its hook is asked for no panic but ours. Owns where
//! the first one was; the trace tells it.

use super::diag;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// Where the first panic was; NULL before it.
static FIRST: AtomicPtr<String> = AtomicPtr::new(std::ptr::null_mut());

/// From here on panics are kept, not printed. On every way into the library; tests print theirs.
#[cfg(not(test))]
pub fn silence() {
    static SILENT: AtomicBool = AtomicBool::new(false);
    // No hook can be set while its thread panics, which may be one of ours that calls OpenCL.
    if !std::thread::panicking() && !SILENT.swap(true, Ordering::AcqRel) {
        std::panic::set_hook(Box::new(keep));
    }
}

#[cfg(not(test))]
fn keep(panic: &std::panic::PanicHookInfo<'_>) {
    let place = panic.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
    let place = Box::into_raw(Box::new(place));
    let none = std::ptr::null_mut();
    if FIRST.compare_exchange(none, place, Ordering::AcqRel, Ordering::Acquire).is_err() {
        // SAFETY: made above, known to nobody.
        drop(unsafe { Box::from_raw(place) });
    }
}

/// A panic was caught, and recording ends by it: the trace tells so, once.
#[cold]
pub fn tell() {
    static TOLD: AtomicBool = AtomicBool::new(false);
    if TOLD.swap(true, Ordering::AcqRel) {
        return;
    }
    // SAFETY: NULL or a string that is never given back.
    let place = unsafe { FIRST.load(Ordering::Acquire).as_ref() };
    let place = place.map_or("an unknown place", String::as_str);
    diag::note(
        "panic",
        &format!(
            "recording ended by a fault of the recorder, at {place}; the application ran on. Please report it with this line"
        ),
    );
}
