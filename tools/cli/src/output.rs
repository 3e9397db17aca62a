//! Owns what this command says: messages to stderr, prefixed because an application may share the terminal, and files
//! that appear whole or not at all. Refuses to fail because nobody listens.
#![forbid(unsafe_code)]

use std::fmt::Display;
use std::io::Write;

/// One message on stderr. A closed stderr is no reason to end: the application's exit code must still come through.
pub fn say(text: impl Display) {
    let _ = writeln!(std::io::stderr(), "clscope: {text}");
}
