//! Whether calls are recorded: one word that a fork wipes, so that a child that no fork handler
//! told about begins anew, and the control word of the ring file, through which another process
//! pauses recording.

use super::{
    NEXT_ANCHOR, PROCESS, Process, TSC, anchor, at_exit, files, fork, process, ring, writer,
};
use crate::abi::functions;
use crate::facts::objects;
use crate::features::{counters, device_time, sampler};
use crate::recording::{diag, guard};
use crate::settings::config;
use clscope_trace::Clock;
use clscope_trace::file::control;
use parking_lot::Mutex;
use std::ffi::c_void;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

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
/// Whether the current pause is in the trace.
static PAUSE_TOLD: AtomicBool = AtomicBool::new(false);
static EXIT_HANDLER: AtomicBool = AtomicBool::new(false);
/// Functions that a filter leaves in.
static RECORDED: [AtomicBool; functions::COUNT] =
    [const { AtomicBool::new(true) }; functions::COUNT];

#[inline(always)]
fn word() -> &'static AtomicU32 {
    // SAFETY: points to FALLBACK or to a page that is never unmapped.
    unsafe { &*WORD.load(Ordering::Relaxed) }
}

/// Whether somebody has set the control word: the slow path knows what it says.
#[inline(always)]
pub fn controlled() -> bool {
    // SAFETY: points to NOT_PAUSED or to the control page of a ring file, which is never unmapped.
    unsafe { &*CONTROL.load(Ordering::Relaxed) }.load(Ordering::Relaxed) != 0
}

/// What the control word says about this call. Both changes are told in the trace, by the first
/// thread that meets them.
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
    fn of(function: u16, recorded: bool) -> Self {
        match (recorded, functions::FUNCTIONS.get(usize::from(function)).map(|f| f.hooked)) {
            (true, _) => Self::Recorded,
            (false, Some(true)) => Self::Silent,
            _ => Self::Off,
        }
    }
}

/// Called where the fast path does not apply: begins recording at the first OpenCL call of the
/// process.
pub fn begin(function: u16) -> Begun {
    loop {
        match word().compare_exchange(UNBEGUN, BEGINNING, Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => {
                let word = wiped_word();
                word.store(BEGINNING, Ordering::Relaxed);
                WORD.store((&raw const *word).cast_mut(), Ordering::Release);
                // A panic on the way must not leave others waiting.
                let next = guard::protect(OFF, || if config::get().enable { start() } else { OFF });
                word.store(next, Ordering::Release);
                FALLBACK.store(next, Ordering::Release);
            }
            Err(ACTIVE) => return Begun::of(function, allowed()),
            Err(FILTERED) => {
                let wanted =
                    RECORDED.get(function as usize).is_some_and(|on| on.load(Ordering::Relaxed));
                return Begun::of(function, allowed() && wanted);
            }
            Err(BEGINNING) => {
                // Another thread opens the trace, which takes about a millisecond. Calls that went
                // unrecorded now would leave objects without names.
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
    // SAFETY: the page just mapped. A kernel before 4.14 refuses; then only the fork handler tells.
    unsafe { libc::madvise(page, 4096, libc::MADV_WIPEONFORK) };
    // SAFETY: mapped, aligned, zero, never unmapped.
    unsafe { &*page.cast::<c_void>().cast::<AtomicU32>() }
}

/// Makes the trace of this process. Returns the state to go on with.
fn start() -> u32 {
    let clock = clscope_clock::choose();
    TSC.store(clock == Clock::Tsc, Ordering::Relaxed);
    let parent = process();
    if parent.is_some() {
        // A forked child: the ring of its only thread belongs to the parent.
        ring::forget(guard::thread());
    }
    let files = match files::Files::create(clock, parent) {
        Ok(files) => files,
        Err(error) => {
            diag::warn("no-trace", &format!("recording is off, the application runs on: {error}"));
            return OFF;
        }
    };
    let settings = config::get();
    if begins_paused(&files.directory, parent, settings.start_paused) {
        files.control_word().fetch_or(control::PAUSED, Ordering::Relaxed);
    }
    let made = Box::leak(Box::new(Process {
        pid: std::process::id(),
        clock,
        rings: Mutex::new(ring::Rings::new()),
        writer: writer::Writer::new(),
        segment: Mutex::new(files::Segments::new(settings.max_size)),
        next_thread: AtomicU32::new(0),
        tables: objects::Tables::new(),
        device: device_time::Device::new(settings.device_timing),
        timing: settings.device_timing,
        call_sites: settings.call_sites,
        sites: Default::default(),
        files,
    }));
    CONTROL.store((&raw const *made.files.control_word()).cast_mut(), Ordering::Release);
    PROCESS.store(made, Ordering::Release);
    NEXT_ANCHOR.store(0, Ordering::Relaxed);
    anchor();
    if !EXIT_HANDLER.swap(true, Ordering::Relaxed) {
        // SAFETY: `at_exit` is a function of this library, which is never unloaded (linked with -z
        // nodelete).
        unsafe { libc::atexit(at_exit) };
        fork::watch();
    }
    config::complain();
    sampler::begin(made);
    counters::begin(made);
    if settings.groups.is_empty() {
        return ACTIVE;
    }
    for (info, on) in functions::FUNCTIONS.iter().zip(&RECORDED) {
        on.store(config::matches(&settings.groups, info.group), Ordering::Relaxed);
    }
    FILTERED
}

/// Whether a process begins paused: a forked child as its parent is, others as the trace was told,
/// else as was set.
fn begins_paused(directory: &Path, parent: Option<&Process>, set: bool) -> bool {
    if let Some(parent) = parent {
        return parent.files.control_word().load(Ordering::Relaxed) & control::PAUSED != 0;
    }
    match std::fs::read(directory.join(control::FILE)) {
        Ok(told) => told.starts_with(control::BEGIN_PAUSED.as_bytes()),
        Err(_) => set,
    }
}

/// In a forked child: the next call begins anew.
pub fn wipe() {
    word().store(UNBEGUN, Ordering::Relaxed);
    FALLBACK.store(UNBEGUN, Ordering::Relaxed);
    CONTROL.store((&raw const NOT_PAUSED).cast_mut(), Ordering::Relaxed);
    PAUSE_TOLD.store(false, Ordering::Relaxed);
}

/// The process of the parent, for a child that has not begun yet.
pub fn is_child(of: &Process) -> bool {
    of.pid != std::process::id()
}
