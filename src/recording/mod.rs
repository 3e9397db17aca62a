//! Where records go: the process's trace files, made at the first OpenCL call, and the rings of its
//! threads; and the boundary that every call passes on its way there.
//!
//! Everything that belongs to one process incarnation hangs off one [`Recording`], which is never
//! freed (see [`Current`]).

pub mod diag;
pub mod files;
pub mod fork;
mod frames;
pub mod guard;
pub mod panics;
pub mod ring;
pub mod state;
pub mod thread;

use crate::os::locks::fork_safe;
use crate::os::locks::held;
use crate::os::locks::robust::Robust;
use crate::os::memory;
use crate::os::shared::current::Current;
use crate::os::undisturbed::{undisturbed, without_signals};
use crate::settings::config::Config;
use clscope_trace::Clock;
use clscope_trace::defs::{Anchor, Def};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// The recording of one incarnation of a process.
pub struct Recording {
    pub pid: u32,
    pub clock: Clock,
    pub files: files::Files,
    regions: ring::regions::Regions,
    pub writer: ring::writer::Writer,
    segment: Robust<files::Segments>,
    next_thread: AtomicU32,
}

static CURRENT: Current<Recording> = Current::none();
/// Whether host times are TSC ticks; known before the first record is written.
static TSC: AtomicBool = AtomicBool::new(false);
/// Ticks per nanosecond times 2^16, 0 before it is known: for thresholds, never for measurements.
static RATE: AtomicU64 = AtomicU64::new(0);
/// Host time at which the clocks are to be read together again.
static NEXT_ANCHOR: AtomicU64 = AtomicU64::new(u64::MAX);

/// The current incarnation's, if recording ever began.
#[inline(always)]
pub fn current() -> Option<&'static Recording> {
    CURRENT.get()
}

impl Recording {
    /// Makes the trace of this process, in the directory of its parent's where that was recorded.
    /// `layer`: it came in as a layer of a loader.
    ///
    /// # Errors
    /// What cannot be written, and what helps.
    pub fn begin(settings: &Config, layer: bool) -> Result<&'static Self, String> {
        let clock = clscope_clock::choose();
        TSC.store(clock == Clock::Tsc, Ordering::Relaxed);
        let parent = current();
        if parent.is_some() {
            // A forked child, perhaps one that no fork handler told: the ring of its only thread
            // belongs to the parent.
            fork_safe::in_child();
            ring::forget(guard::thread());
        }
        memory::begin();
        let files = files::Files::create(clock, parent, layer)?;
        state::pause_at_beginning(&files, parent, settings.start_paused);
        let mut segments = files::Segments::new(settings.max_size);
        // Where another process writes them, it makes them.
        if files.pool.is_none() {
            segments.begin(&files);
        }
        let made = CURRENT.keep(Self {
            pid: std::process::id(),
            clock,
            regions: ring::regions::Regions::new(),
            writer: ring::writer::Writer::new(),
            segment: Robust::new(segments),
            next_thread: AtomicU32::new(0),
            files,
        });
        state::obey(&made.files);
        NEXT_ANCHOR.store(0, Ordering::Relaxed);
        anchor();
        Ok(made)
    }

    /// Gives back what the calling thread was in the middle of: its frames have been left by a
    /// signal's handler.
    pub fn let_go(&self) {
        held::give_up();
        // It may have been reading the clocks, for all of them.
        let _ = NEXT_ANCHOR.compare_exchange(u64::MAX, 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Whether it is of another process: of the parent of a child that has not begun yet. Where
    /// forks wipe the state no system call is made.
    pub fn is_anothers(&self) -> bool {
        state::wiped().unwrap_or_else(|| self.pid != std::process::id())
    }
}

/// The host clock.
#[inline(always)]
pub fn now() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        let clock = if TSC.load(Ordering::Relaxed) { Clock::Tsc } else { Clock::MonotonicRaw };
        clscope_clock::now(clock).0
    }
    #[cfg(target_arch = "aarch64")]
    {
        clscope_clock::now(Clock::Cntvct).0
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        clscope_clock::now(Clock::MonotonicRaw).0
    }
}

/// Ticks in so many nanoseconds, by the rate seen since the first anchor; by 1 GHz before it is
/// known.
pub fn ticks_of(nanoseconds: u64) -> u64 {
    match RATE.load(Ordering::Relaxed) {
        0 => nanoseconds,
        rate => nanoseconds.saturating_mul(rate) >> 16,
    }
}

/// Runs what takes a lock that a handler could leave taken, with signals held back. What it writes are
/// definitions: where another process writes the segments, nothing else is asked of the system.
pub fn held_back<R>(run: impl FnOnce() -> R) -> R {
    match current() {
        Some(recording) if recording.files.is_attended() => without_signals(run),
        _ => undisturbed(run),
    }
}

/// Appends a definition. Definitions are few, and never dropped while the disk takes them.
pub fn define(def: &Def) {
    let _is_kept = defined(def);
}

/// As [`define`]: whether it is in the trace.
pub fn defined(def: &Def) -> bool {
    current().is_some_and(|recording| recording.files.define(def))
}

/// Reads the clocks together if it is time: soon after the beginning, so that a short run has a
/// rate, then once a second.
#[inline(always)]
pub fn maybe_anchor(time: u64) {
    if time >= NEXT_ANCHOR.load(Ordering::Relaxed) {
        anchor();
    }
}

/// Reads the clocks together now.
#[cold]
#[inline(never)]
pub fn anchor() {
    let Some(recording) = current() else { return };
    // One thread is enough; the others go on.
    if NEXT_ANCHOR.swap(u64::MAX, Ordering::Relaxed) == u64::MAX {
        return;
    }
    let anchor = clscope_clock::anchor(recording.clock);
    NEXT_ANCHOR.store(next_anchor(recording, &anchor), Ordering::Relaxed);
    recording.files.define(&anchor.into());
}

fn next_anchor(recording: &Recording, anchor: &Anchor) -> u64 {
    let first = &recording.files.first_anchor;
    let (ticks, nanoseconds) =
        (anchor.ticks.saturating_sub(first.ticks), anchor.raw.saturating_sub(first.raw));
    // Before any rate is known, 2^20 ticks are a fraction of a millisecond to a millisecond.
    if nanoseconds < 100_000 {
        return anchor.ticks + (1 << 20);
    }
    RATE.store(((u128::from(ticks) << 16) / u128::from(nanoseconds)) as u64, Ordering::Relaxed);
    // Ten times the age so far, at most a second: 1 ms, 10 ms, 100 ms, 1 s, 2 s, ...
    let ahead = nanoseconds.saturating_mul(9).min(1_000_000_000);
    anchor.ticks + ((u128::from(ahead) * u128::from(ticks)) / u128::from(nanoseconds)) as u64
}
