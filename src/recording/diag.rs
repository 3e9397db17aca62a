//! The only writer to stderr. Every message is also in the trace; each code is reported once.

use crate::os::fork_safe::ForkSafe;
use crate::os::undisturbed::undisturbed;
use crate::recording;
use crate::settings::config;
use clscope_trace::defs::Warning;

/// Codes told so far: bounded, so that a fault that repeats cannot fill memory. With the text where
/// it was told before there was a trace to hold it.
static TOLD: ForkSafe<Vec<(&'static str, Option<String>)>> = ForkSafe::new();

/// Says something to the user once per `code`: what happened, on what, and the next step.
pub fn warn(code: &'static str, text: &str) {
    tell(code, text, !config::get().quiet);
}

/// Writes a message to the trace only, once per `code`: reports show it.
pub fn note(code: &'static str, text: &str) {
    tell(code, text, false);
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
    if new == Some(true) && !config::get().quiet {
        text.lines().take(MOST_LINES).for_each(print);
    }
}

/// Puts what was told before the trace began into it.
pub fn begin() {
    let early: Option<Vec<_>> = TOLD.with(|told| {
        told.iter_mut().filter_map(|(code, text)| Some((*code, text.take()?))).collect()
    });
    early.unwrap_or_default().iter().for_each(|(code, text)| define(code, text));
}

fn define(code: &str, text: &str) {
    recording::define(&Warning { code: code.to_owned(), text: text.to_owned() }.into());
}

fn tell(code: &'static str, text: &str, aloud: bool) {
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
    define(code, text);
    if aloud {
        print(text);
    }
}

fn print(text: &str) {
    let line = format!("clscope: {}\n", clscope_io::text::line(text));
    #[expect(clippy::disallowed_methods, reason = "the only writer to stderr")]
    // SAFETY: the buffer is valid for its length; a closed stderr answers with an error that we
    // ignore.
    undisturbed(|| unsafe { libc::write(2, line.as_ptr().cast(), line.len()) });
}
