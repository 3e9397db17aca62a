//! libclscope.so: the recorder. Preloaded into an application, or loaded as a layer by its OpenCL
//! loader, it passes every OpenCL call on to the runtime the application would have used, and
//! writes what happened into a trace.
//!
//! # Invariants
//! 1. **Once.** In the default mode the real function is called exactly once per intercepted call,
//!    and never inside `catch_unwind`. What may differ from the application's call is the closed
//!    table of the guide (`tools/guide/changes.md`).
//! 2. **Invisible.** Queue properties, reference counts, profiling-info errors, build options,
//!    error codes and callback arguments read as without the recorder. The recorder installs no
//!    signal handler.
//! 3. **A failure stays inside.** It stops recording, is reported once, and leaves the application
//!    running: never exit, abort, unwind out or wait.
//! 4. **Nothing is lost silently.** Dropped records are counted in the trace.
//! 5. **Everything added is undone.** The recorder's events are released; no object of the
//!    application is destroyed late.
//! 6. **Every completed record survives the process.** Rings are files; a forked child starts its
//!    own.
//!
//! # Layers
//! Folders of this directory; each names those before it alone (`tests.rs`):
//!
//! | layer | owns |
//! |---|---|
//! | `abi` | the table of entry points, with their ids and types; constants of OpenCL; what may differ from the application's calls |
//! | `settings` | the environment, read once |
//! | `os` | threads, descriptors, sleeping and waking |
//! | `recording` | the trace's files, the rings of threads, the guard that every call passes, messages |
//! | `runtime` | the real functions, and how they are found |
//! | `facts` | ids and properties of the application's objects |
//! | `features` | device time, launches, call sites, sensors, counters, captures, what is replaced on request; none names another, but launches name device time, and captures and replace what runs beside the application |
//! | `hooks` | what is done around the application's calls, and which features take part |
//! | `shell` | exported symbols, the ABI of layers, beginning and end |
//!
//! `shell::lifecycle` registers with the lower layers what they need from higher ones (how
//! recording begins, stand-ins for functions, addresses to hand out), on every way into the
//! library.
//!
//! One crate and no library below it: the fast path runs from an exported symbol to a ring in some
//! hundred instructions, which are to be inlined whatever the profile.
//!
//! # Way of a call
//! An exported symbol (one row of `abi::table`, with a body of `shell::exports`) takes the guard
//! (`recording::guard`), calls the function that `runtime::real` found, and hands what happened to
//! the thread's ring (`recording::ring`). Calls that create objects, that the recorder must answer
//! itself, or after which commands are known to be complete have hooks; enqueues go through
//! `hooks::enqueue`. `hooks::stand_ins` inserts `features::capture`, `features::replace`, snapshots and
//! `hooks::checked` in runs that ask for them. `settings::config` is the only reader of the
//! environment, `recording::diag` the only writer to stderr.

#![allow(
    non_snake_case,
    clippy::missing_safety_doc,
    reason = "hooks have the names of the functions they stand for, and their contracts"
)]
#![warn(clippy::disallowed_methods)]
#![cfg_attr(
    not(test),
    warn(
        clippy::indexing_slicing,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::print_stdout,
        clippy::print_stderr
    )
)]
#![cfg_attr(test, allow(dead_code, reason = "what only hooks and shell use"))]
#![allow(private_interfaces, reason = "a cdylib has no Rust interface; exported symbols speak C")]

mod abi;
mod facts;
mod features;
mod os;
mod recording;
mod runtime;
mod settings;

#[global_allocator]
static MEMORY: os::memory::Memory = os::memory::Memory;

// Unit tests reach every layer below the hooks. They are built without what is above, so that their
// binary exports no function of OpenCL and reads nothing when it is loaded.
#[cfg(not(test))]
mod hooks;
#[cfg(not(test))]
mod shell;

#[cfg(test)]
mod tests;
