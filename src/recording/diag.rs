//! The only writer to stderr. Every message is also in the trace; each code is reported once.

use crate::recording;
use crate::settings::config;
use clscope_trace::defs::Warning;
use parking_lot::Mutex;

/// Codes told so far: bounded, so that a fault that repeats cannot fill memory. With the text where
/// it was told before there was a trace to hold it.
static TOLD: Mutex<Vec<(&'static str, Option<String>)>> = Mutex::new(Vec::new());

/// Says something to the user once per `code`: what happened, on what, and the next step.
pub fn warn(code: &'static str, text: &str) {
    tell(code, text, !config::get().quiet);
}

/// Writes a message to the trace only, once per `code`: reports show it.
pub fn note(code: &'static str, text: &str) {
    tell(code, text, false);
}

/// Puts what was told before the trace began into it.
pub fn begin() {
    let Some(mut told) = TOLD.try_lock() else { return };
    let early: Vec<_> =
        told.iter_mut().filter_map(|(code, text)| Some((*code, text.take()?))).collect();
    drop(told);
    early.iter().for_each(|(code, text)| define(code, text));
}

fn define(code: &str, text: &str) {
    recording::define(&Warning { code: code.to_owned(), text: text.to_owned() }.into());
}

fn tell(code: &'static str, text: &str, aloud: bool) {
    // A forked child may inherit the lock taken: better to say nothing than to wait.
    let Some(mut told) = TOLD.try_lock() else { return };
    if told.iter().any(|(known, _)| *known == code) || told.len() > 64 {
        return;
    }
    let early = recording::current().is_none();
    told.push((code, early.then(|| text.to_owned())));
    drop(told);
    define(code, text);
    if aloud {
        let line = format!("clscope: {text}\n");
        #[expect(clippy::disallowed_methods, reason = "the only writer to stderr")]
        // SAFETY: the buffer is valid for its length; a closed stderr answers with an error that we
        // ignore.
        unsafe {
            libc::write(2, line.as_ptr().cast(), line.len())
        };
    }
}
