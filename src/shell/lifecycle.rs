//! When things begin and end: the environment is read when the library is loaded; recording and the
//! features that were asked for begin at the first OpenCL call of each process, and end with it.

use crate::facts::{given, objects, user_events};
use crate::features::{call_sites, capture, counters, device_time, intel_queue, sampler};
use crate::hooks::checked::stale;
use crate::hooks::stand_ins;
use crate::recording::files::meta;
use crate::recording::{self, Recording, diag, fork, guard, panics, state};
use crate::runtime::{copies, loaders, real};
use crate::settings::config;
use clscope_trace::defs::Exit;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs when the library is loaded.
#[ctor::ctor(unsafe)]
fn at_load() {
    // An application may change its environment (or overwrite its memory) before the first OpenCL
    // call.
    config::get();
    loaders::note_start();
}

/// Tells the layers below when recording begins, and what stands in for functions.
pub fn ready() {
    #[cfg(not(test))]
    panics::silence();
    state::starts_by(&(start as fn() -> bool));
    // SAFETY: each stand-in is declared with the type of the function it stands for.
    unsafe { real::stand_ins(&(stand_ins::stand_in_of as real::StandIn)) };
}

/// Begins recording. Whether it could.
fn start() -> bool {
    static EXIT_HANDLER: AtomicBool = AtomicBool::new(false);
    let settings = config::get();
    if copies::records() {
        return false;
    }
    let layer = real::LAYERS.clone().any(|slot| !real::known(slot, 0).is_null());
    let recording = match Recording::begin(settings, layer) {
        Ok(recording) => recording,
        Err(error) => {
            diag::no_trace(&format!("recording is off, the application runs on: {error}"));
            return false;
        }
    };
    objects::begin();
    given::begin();
    user_events::begin();
    if settings.captures() {
        // The runtime reads them in this call; the application may change them again.
        config::of_opencl();
    }
    let told = settings.captures().then_some(followed as device_time::Told);
    device_time::begin(settings.device_timing, counted, told);
    call_sites::begin(settings.call_sites);
    stale::begin();
    if !EXIT_HANDLER.swap(true, Ordering::Relaxed) {
        // SAFETY: `at_exit` is a function of this library, which is never unloaded (linked with -z
        // nodelete).
        unsafe { libc::atexit(at_exit) };
        fork::watch();
    }
    diag::begin();
    for text in &settings.complaints {
        diag::warn("bad-setting", text);
    }
    sampler::begin(recording);
    counters::begin(recording);
    true
}

/// A launch that may be captured ran, or failed.
fn followed(command: u64, ran: Option<(u64, u64)>) {
    match ran {
        Some((start, end)) => capture::timed(command, start, end),
        None => capture::lifetimes::failed(command),
    }
}

/// Keeps what Intel's runtime counted for a command.
fn counted(command: u64, bytes: Vec<u8>) {
    if let Some(configuration) = intel_queue::wanted() {
        counters::report(command, configuration, bytes);
    }
}

/// The last words of a process that ends in order.
extern "C" fn at_exit() {
    guard::protect((), || {
        let Some(recording) = recording::current() else { return };
        // A child that was forked without the fork handler inherits the handler, not the process.
        if recording.is_anothers() {
            return;
        }
        let times = device_time::current();
        if let Some(times) = times {
            times.stop();
        }
        recording::ring::end::take_drops_without_ring(guard::thread());
        recording.writer.stop();
        sampler::end();
        counters::end();
        recording.files.define(&clscope_clock::anchor(recording.clock).into());
        let pending = times.map_or(0, device_time::DeviceTime::pending);
        recording.files.define(&Exit { ticks: recording::now(), pending }.into());
        // `clscope record` completes it where it runs beside, without a system call in here.
        if !recording.files.is_attended() {
            meta::finish(recording);
        }
    });
}
