//! Options appended to those that the application builds programs of source with. The application
//! is told its own options when it asks for them. Refuses to let a program fail for it: where it
//! does not build so, it is built as the application asked.

use super::super::beside::program;
use super::c_text;
use crate::abi::entry::{H, P};
use crate::facts::{objects, programs};
use crate::os::locks::fork_safe::ForkSafe;
use crate::os::shared::maps::HashMap;
use crate::recording::{self, diag};
use crate::settings::config;
use clscope_trace::defs;
use clscope_trace::record::error_text;

/// Longest build log kept, in characters.
const LONGEST_LOG: usize = 16 * 1024;

/// Options as the application gave them, of programs that were built with more.
static OWN: ForkSafe<HashMap<usize, Vec<u8>>> = ForkSafe::new();

/// The application made a program. Its handle may have been another's.
pub fn program_made(program: H) {
    if !program.is_null() && config::get().append_options.is_some() {
        OWN.with(|all| all.remove(&program.word()));
    }
}

/// The options to build a program with, as a C string; `None` for the application's own.
///
/// # Safety
/// `options` is NULL or a C string.
pub unsafe fn longer(program: H, options: P) -> Option<Vec<u8>> {
    let more = config::get().append_options.as_deref()?;
    if programs::origin(program) != Some("source") {
        return None;
    }
    // SAFETY: the caller's promise.
    let own = unsafe { c_text(options) };
    let between = if own.is_empty() { &b""[..] } else { b" " };
    let more = more.bytes().filter(|b| *b != 0);
    Some(own.iter().chain(between).copied().chain(more).chain([0]).collect())
}

/// Whether a program can be built with options, tried on another one of the same source: some
/// runtimes build a program no more once that has failed. `build` makes the call on a program.
///
/// # Safety
/// `options` is NULL or a C string: the application's own.
pub unsafe fn tried(slot: usize, program: H, options: P, build: impl FnOnce(H) -> i32) -> bool {
    let more = config::get().append_options.clone().unwrap_or_default();
    // SAFETY: the caller's promise.
    let own = unsafe { c_text(options) }.to_vec();
    let (mut refused, mut log) = (String::new(), String::new());
    match program::twin(slot, program) {
        Ok(twin) => {
            let code = build(twin.handle);
            if code != 0 {
                log = program::log(slot, twin.handle).chars().take(LONGEST_LOG).collect();
                refused = format!("the program does not build with them, {}", error_text(code));
            }
        }
        Err(why) => refused = why,
    }
    let may = refused.is_empty();
    OWN.with(|all| match may {
        true => drop(all.insert(program.word(), own)),
        false => drop(all.remove(&program.word())),
    });
    if !may {
        diag::say(&format!(
            "a program is built without the appended options {more}: {refused}\n{}",
            log.trim_end()
        ));
    }
    recording::define(
        &defs::AppendedOptions { program: objects::id(program), options: more, refused, log }
            .into(),
    );
    may
}

/// Options as the application gave them, of a program that was built with more.
pub fn own(program: H) -> Option<Vec<u8>> {
    OWN.with(|all| all.get(&program.word()).cloned()).flatten()
}
