//! Where records go: the process's trace files, made at the first OpenCL call, and the rings of its
//! threads.
//!
//! Everything that belongs to one process incarnation hangs off one [`Process`], which is never
//! freed: a forked child leaves its parent's behind and makes its own, so no lock that another
//! thread held at the fork is ever waited for.

pub mod diag;
pub mod files;
pub mod fork;
pub mod guard;
pub mod meta;
pub mod ring;
pub mod state;
pub mod thread;
pub mod writer;

use crate::facts::objects;
use crate::features::{call_sites, device_time};
use crate::settings::config::DeviceTiming;
use clscope_trace::Clock;
use clscope_trace::defs::{Anchor, Def, Exit};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// One incarnation of a process.
pub struct Process {
    pub pid: u32,
    pub clock: Clock,
    pub files: files::Files,
    pub rings: Mutex<ring::Rings>,
    pub writer: writer::Writer,
    pub segment: Mutex<files::Segments>,
    pub next_thread: AtomicU32,
    pub tables: objects::Tables,
    pub device: device_time::Device,
    pub timing: DeviceTiming,
    /// Frames that are recorded of the place of each enqueue, 0 for none.
    pub call_sites: u8,
    pub sites: call_sites::Sites,
}

static PROCESS: AtomicPtr<Process> = AtomicPtr::new(std::ptr::null_mut());
/// Whether host times are TSC ticks; known before the first record is written.
static TSC: AtomicBool = AtomicBool::new(false);
/// Ticks per nanosecond times 2^16, 0 before it is known: for thresholds, never for measurements.
static RATE: AtomicU64 = AtomicU64::new(0);
/// Host time at which the clocks are to be read together again.
static NEXT_ANCHOR: AtomicU64 = AtomicU64::new(u64::MAX);

/// The current incarnation, if recording ever began.
#[inline]
pub fn process() -> Option<&'static Process> {
    // SAFETY: set once per incarnation to a leaked box.
    unsafe { PROCESS.load(Ordering::Acquire).as_ref() }
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

/// Appends a definition. Definitions are few, and never dropped while the disk takes them.
pub fn define(def: &Def) {
    if let Some(process) = process() {
        process.files.define(def);
    }
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
    let Some(process) = process() else { return };
    // One thread is enough; the others go on.
    if NEXT_ANCHOR.swap(u64::MAX, Ordering::Relaxed) == u64::MAX {
        return;
    }
    let anchor = clscope_clock::anchor(process.clock);
    NEXT_ANCHOR.store(next_anchor(process, &anchor), Ordering::Relaxed);
    process.files.define(&anchor.into());
}

fn next_anchor(process: &Process, anchor: &Anchor) -> u64 {
    let first = &process.files.first_anchor;
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

/// The last words of a process that ends in order.
pub extern "C" fn at_exit() {
    crate::recording::guard::protect((), || {
        let Some(process) = process() else { return };
        // A child that was forked without telling us inherits the handler, not the process.
        if process.pid != std::process::id() {
            return;
        }
        process.device.stop();
        process.writer.stop();
        crate::features::sampler::end();
        crate::features::counters::end();
        process.files.define(&clscope_clock::anchor(process.clock).into());
        process.files.define(&Exit { ticks: now(), pending: process.device.pending() }.into());
        meta::finish(process);
    });
}
