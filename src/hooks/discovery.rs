//! Lets one thread through a platform's first discovery alone. PoCL starts its devices in the first
//! call that asks for them, and gives another thread that asks meanwhile devices whose names are
//! not set yet; what the recorder then asked of them would end the application.
//!
//! Refuses to wait for ever, and to stand between calls once a platform has been asked.
#![forbid(unsafe_code)]

use crate::abi::entry::H;
use crate::os::locks::fork_safe::ForkSafe;
use crate::os::shared::maps::HashSet;
use crate::os::threads;
use crate::os::undisturbed::uncancelled;

/// How long a thread waits, ten seconds in all: longer than any runtime takes to start. A child
/// that is forked meanwhile has nobody to wait for.
const TRIES: u32 = 50_000;
const PAUSE_US: u32 = 200;

/// Platforms, by handle.
#[derive(Default)]
struct Platforms {
    asked: HashSet<usize>,
    being_asked: HashSet<usize>,
}

static PLATFORMS: ForkSafe<Platforms> = ForkSafe::new();

/// A thread's turn to ask a platform. It ends also where the call does not return: by an exception,
/// or the thread's end.
pub struct Asking(usize);

impl Drop for Asking {
    fn drop(&mut self) {
        PLATFORMS.with(|p| {
            p.being_asked.remove(&self.0);
            p.asked.insert(self.0);
        });
    }
}

/// Waits while another thread asks the platform for the first time; held while the application's
/// call runs that asks it.
pub fn turn(platform: H) -> Option<Asking> {
    let platform = platform.word();
    let mut tries = TRIES;
    loop {
        let ours = PLATFORMS.with(|p| {
            if p.asked.contains(&platform) { None } else { Some(p.being_asked.insert(platform)) }
        });
        match ours {
            Some(Some(true)) => return Some(Asking(platform)),
            Some(Some(false)) if tries > 0 => {
                tries -= 1;
                uncancelled(|| threads::pause(PAUSE_US));
            }
            // Whoever asks has not come back: nobody else waits for it.
            Some(Some(false)) => return Some(Asking(platform)),
            _ => return None,
        }
    }
}
