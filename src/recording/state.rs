//! Whether calls are recorded: one word that a fork wipes, so that a child begins anew even if no
//! fork handler ran, and the control word of the ring file, through which another process pauses
//! recording.

use super::files::Files;
use super::{Recording, current, guard, ring};
use crate::abi::functions::{COUNT, FUNCTIONS};
use crate::os::locks::lock::clock;
use crate::os::undisturbed::undisturbed;
use crate::settings::config;
use clscope_trace::ring_file::control;
use clscope_trace::values;
use once_cell::race::OnceRef;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::time::Duration;

/// How long a thread waits for another that opens the trace.
const OPENING: Duration = Duration::from_secs(2);

const UNBEGUN: u32 = 0;
const ACTIVE: u32 = 1;
const OFF: u32 = 2;
const BEGINNING: u32 = 3;
/// Some API groups are filtered out.
const FILTERED: u32 = 4;

/// Stands in until the page that forks wipe is there.
static FALLBACK: AtomicU32 = AtomicU32::new(UNBEGUN);
static WORD: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const FALLBACK).cast_mut());
static NOT_PAUSED: AtomicU32 = AtomicU32::new(0);
static CONTROL: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const NOT_PAUSED).cast_mut());
/// Whether the word lies in a page that forks wipe.
static WIPES: AtomicBool = AtomicBool::new(false);
/// Whether the current pause is in the trace.
static PAUSE_TOLD: AtomicBool = AtomicBool::new(false);
/// Begins recording; whether it could. Told by [`starts_by`].
static START: OnceRef<'static, fn() -> bool> = OnceRef::new();
/// Functions that a filter leaves in.
static RECORDED: [AtomicBool; COUNT] = [const { AtomicBool::new(true) }; COUNT];

#[inline(always)]
fn word() -> &'static AtomicU32 {
    // SAFETY: points to FALLBACK or to a page that is never unmapped.
    unsafe { &*WORD.load(Ordering::Relaxed) }
}

/// Whether the control word is set: the slow path reads it.
#[inline(always)]
pub fn controlled() -> bool {
    // SAFETY: points to NOT_PAUSED or to the control page of a ring file, which is never unmapped.
    unsafe { &*CONTROL.load(Ordering::Relaxed) }.load(Ordering::Relaxed) != 0
}

/// What the control word means for this call. Both changes are recorded, by the first thread that
/// sees them.
#[cold]
fn allowed() -> bool {
    // SAFETY: as in `controlled`.
    let word = unsafe { &*CONTROL.load(Ordering::Relaxed) };
    let said = word.load(Ordering::Relaxed);
    let now = super::now();
    if said & control::PAUSED != 0 {
        if !PAUSE_TOLD.swap(true, Ordering::Relaxed) {
            ring::paused(guard::thread(), true, now);
        }
        return false;
    }
    if said & control::RESUMED != 0
        && word.fetch_and(!control::RESUMED, Ordering::Relaxed) & control::RESUMED != 0
    {
        PAUSE_TOLD.store(false, Ordering::Relaxed);
        ring::paused(guard::thread(), false, now);
    }
    true
}

/// Whether the fast path may go on.
#[inline(always)]
pub fn active() -> bool {
    word().load(Ordering::Relaxed) == ACTIVE && !controlled()
}

/// Whether recording has begun and not been given up; paused counts as running.
pub fn running() -> bool {
    matches!(word().load(Ordering::Relaxed), ACTIVE | FILTERED)
}

/// Whether this copy of the library records the process, or is about to.
pub fn begun() -> bool {
    !matches!(word().load(Ordering::Relaxed), UNBEGUN | OFF)
}

/// Gives up recording in this process, for good.
pub fn disable() {
    word().store(OFF, Ordering::Relaxed);
}

/// What is to be done with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begun {
    /// It is passed on.
    Off,
    /// Its hook does its work, and no record is written: what we added to the application's objects
    /// must stay unseen, and objects must be known, also while recording is paused.
    Silent,
    /// It is recorded.
    Recorded,
}

impl Begun {
    fn classify(function: u16, recorded: bool) -> Self {
        match (recorded, FUNCTIONS.get(usize::from(function)).map(|f| f.hooked)) {
            (true, _) => Self::Recorded,
            (false, Some(true)) => Self::Silent,
            _ => Self::Off,
        }
    }
}

/// Called where the fast path does not apply: begins recording at the first OpenCL call of the
/// process.
pub fn begin(function: u16) -> Begun {
    let mut until = None;
    loop {
        match word().compare_exchange(UNBEGUN, BEGINNING, Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => {
                let word = wiped_word();
                word.store(BEGINNING, Ordering::Relaxed);
                WORD.store((&raw const *word).cast_mut(), Ordering::Release);
                // A panic on the way must not leave others waiting.
                let next = guard::protect(OFF, || match current() {
                    Some(parent) if parent.files.refuses_child() => OFF,
                    _ => undisturbed(start),
                });
                word.store(next, Ordering::Release);
                FALLBACK.store(next, Ordering::Release);
            }
            Err(ACTIVE) => return Begun::classify(function, allowed()),
            Err(FILTERED) => {
                let wanted =
                    RECORDED.get(function as usize).is_some_and(|on| on.load(Ordering::Relaxed));
                return Begun::classify(function, allowed() && wanted);
            }
            Err(BEGINNING) => {
                // Another thread opens the trace, which takes about a millisecond. Calls that went
                // unrecorded now would leave objects without names. A file system that hangs keeps
                // that thread, and no other.
                let now = clock();
                if *until.get_or_insert(now + OPENING) <= now {
                    return Begun::Off;
                }
                // SAFETY: no preconditions.
                unsafe { libc::sched_yield() };
            }
            Err(_) => return Begun::Off,
        }
    }
}

/// A word of its own page, zero in every child.
fn wiped_word() -> &'static AtomicU32 {
    let current = word();
    if !std::ptr::eq(current, &FALLBACK) {
        return current;
    }
    // SAFETY: a fresh private anonymous page.
    let page = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if page == libc::MAP_FAILED {
        return current;
    }
    // SAFETY: the page just mapped. A kernel before 4.14 refuses; then only the fork handler
    // detects a fork.
    let wipes = unsafe { libc::madvise(page, 4096, libc::MADV_WIPEONFORK) } == 0;
    WIPES.store(wipes, Ordering::Relaxed);
    // SAFETY: mapped, aligned, zero, never unmapped.
    unsafe { &*page.cast::<c_void>().cast::<AtomicU32>() }
}

/// What is to be run at the first OpenCL call of a process. Told on every way into the library
/// before any call passes the guard.
pub fn starts_by(start: &'static fn() -> bool) {
    // The same each time.
    let _ = START.set(start);
}

/// The state to go on with.
fn start() -> u32 {
    let settings = config::get();
    match START.get() {
        Some(start) if settings.enable && start() => filtered(&settings.groups),
        _ => OFF,
    }
}

/// Leaves out the functions that are in none of these groups, where there are any.
fn filtered(groups: &[String]) -> u32 {
    if groups.is_empty() {
        return ACTIVE;
    }
    for (info, on) in FUNCTIONS.iter().zip(&RECORDED) {
        on.store(values::matches(groups, info.group), Ordering::Relaxed);
    }
    FILTERED
}

/// From now on the control word of these files says whether recording is paused.
pub fn obey(files: &Files) {
    CONTROL.store((&raw const *files.control_word()).cast_mut(), Ordering::Release);
}

/// Pauses a process that begins so: a forked child as its parent is, others as the trace directory
/// requests, else as was set.
pub fn pause_at_beginning(files: &Files, parent: Option<&Recording>, set: bool) {
    let paused = match (parent, std::fs::read(files.directory.join(control::FILE))) {
        (Some(parent), _) => {
            parent.files.control_word().load(Ordering::Relaxed) & control::PAUSED != 0
        }
        (None, Ok(told)) => told.starts_with(control::BEGIN_PAUSED.as_bytes()),
        (None, Err(_)) => set,
    };
    if paused {
        files.control_word().fetch_or(control::PAUSED, Ordering::Relaxed);
    }
}

/// Whether a fork has wiped the state and nothing began since; `None` where forks do not wipe it.
pub fn wiped() -> Option<bool> {
    WIPES.load(Ordering::Relaxed).then(|| word().load(Ordering::Relaxed) == UNBEGUN)
}

/// In a forked child: the next call begins anew.
pub fn wipe() {
    word().store(UNBEGUN, Ordering::Relaxed);
    FALLBACK.store(UNBEGUN, Ordering::Relaxed);
    CONTROL.store((&raw const NOT_PAUSED).cast_mut(), Ordering::Relaxed);
    PAUSE_TOLD.store(false, Ordering::Relaxed);
}
