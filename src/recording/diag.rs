//! The only writer to stderr. Every message is also in the trace; each code is reported once.

use crate::os::locks::fork_safe::ForkSafe;
use crate::os::undisturbed::undisturbed;
use crate::recording;
use crate::settings::config::{self, Quiet};
use clscope_trace::defs::Warning;
use clscope_trace::variables::SAID_AT_ONCE;
use std::sync::atomic::{AtomicBool, Ordering};

/// Codes told so far: bounded, so that a fault that repeats cannot fill memory. With the text where
/// it was told before there was a trace to hold it.
static TOLD: ForkSafe<Vec<(&'static str, Option<String>)>> = ForkSafe::new();

/// No trace is made of this process: what waits for one is said.
static NO_TRACE: AtomicBool = AtomicBool::new(false);

/// Says something to the user once per `code`: what happened, on what, and the next step.
pub fn warn(code: &'static str, text: &str) {
    let attended = recording::current().is_some_and(|recording| recording.files.is_attended());
    let aloud = match config::get().quiet {
        // `clscope record` says it, at the end at the latest: a sandbox may forbid this process to.
        Quiet::Later if attended => Aloud::Never,
        Quiet::Silent => Aloud::Never,
        Quiet::Later if !SAID_AT_ONCE.contains(&code) && !NO_TRACE.load(Ordering::Relaxed) => {
            Aloud::Lost
        }
        Quiet::Later | Quiet::No => Aloud::Always,
    };
    tell(code, text, aloud);
}

/// Says why this process has no trace, and what the trace was to say later. Whatever the settings
/// say: nothing else will tell.
pub fn no_trace(text: &str) {
    if !NO_TRACE.swap(true, Ordering::Relaxed) && config::get().quiet == Quiet::Later {
        early().iter().for_each(|(_, text)| print(text));
    }
    tell("no-trace", text, Aloud::Always);
}

/// Writes a message to the trace only, once per `code`: reports show it.
pub fn note(code: &'static str, text: &str) {
    tell(code, text, Aloud::Never);
}

/// Whether a message is printed.
#[derive(Clone, Copy)]
enum Aloud {
    Always,
    /// Where the trace cannot hold it.
    Lost,
    Never,
}

/// Most lines of a message that definitions hold in full.
const MOST_LINES: usize = 40;
/// Hashes of those messages, bounded as [`TOLD`].
static SAID: ForkSafe<Vec<u64>> = ForkSafe::new();

/// Says something to the user once, whose place in the trace is a definition of its own.
pub fn say(text: &str) {
    let hash = clscope_trace::checksum(text.as_bytes());
    let new = SAID.with(|said| {
        let new = !said.contains(&hash) && said.len() <= 64;
        if new {
            said.push(hash);
        }
        new
    });
    if new == Some(true) && config::get().quiet != Quiet::Silent {
        text.lines().take(MOST_LINES).for_each(print);
    }
}

/// Puts what was told before the trace began into it.
pub fn begin() {
    early().iter().for_each(|(code, text)| {
        defined(code, text);
    });
}

/// What was told before there was a trace, once.
fn early() -> Vec<(&'static str, String)> {
    let early = TOLD.with(|told| {
        told.iter_mut().filter_map(|(code, text)| Some((*code, text.take()?))).collect()
    });
    early.unwrap_or_default()
}

fn defined(code: &str, text: &str) -> bool {
    recording::defined(&Warning { code: code.to_owned(), text: text.to_owned() }.into())
}

fn tell(code: &'static str, text: &str, aloud: Aloud) {
    let early = recording::current().is_none();
    let new = TOLD.with(|told| {
        let new = !told.iter().any(|(known, _)| *known == code) && told.len() <= 64;
        if new {
            told.push((code, early.then(|| text.to_owned())));
        }
        new
    });
    if new != Some(true) {
        return;
    }
    // What is early waits for a trace.
    let kept = defined(code, text) || early;
    match aloud {
        Aloud::Always => print(text),
        Aloud::Lost if !kept => print(text),
        Aloud::Lost | Aloud::Never => {}
    }
}

fn print(text: &str) {
    let line = format!("clscope: {}\n", clscope_io::text::line(text));
    #[expect(clippy::disallowed_methods, reason = "the only writer to stderr")]
    // SAFETY: the buffer is valid for its length; a closed stderr answers with an error that we
    // ignore.
    undisturbed(|| unsafe { libc::write(2, line.as_ptr().cast(), line.len()) });
}
