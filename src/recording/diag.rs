//! The only writer to stderr. Every message is also in the trace; each code is reported once.

use crate::recording;
use crate::settings::config;
use clscope_trace::defs::Warning;
use parking_lot::Mutex;

/// Codes reported so far: bounded, so that a fault that repeats cannot fill memory.
static TOLD: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());

/// Says something to the user once per `code`: what happened, on what, and the next step.
pub fn warn(code: &'static str, text: &str) {
    tell(code, text, !config::get().quiet);
}

/// Writes a message to the trace only, once per `code`: reports show it.
pub fn note(code: &'static str, text: &str) {
    tell(code, text, false);
}

fn tell(code: &'static str, text: &str, aloud: bool) {
    // A forked child may inherit the lock taken: better to say nothing than to wait.
    let Some(mut told) = TOLD.try_lock() else { return };
    if told.contains(&code) || told.len() > 64 {
        return;
    }
    told.push(code);
    drop(told);
    recording::define(&Warning { code: code.to_owned(), text: text.to_owned() }.into());
    if aloud {
        let line = format!("clscope: {text}\n");
        // SAFETY: the buffer is valid for its length; a closed stderr answers with an error that we
        // ignore.
        unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
    }
}
