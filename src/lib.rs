//! libclscope.so: the recorder. Preloaded into an application, or loaded as a layer by its OpenCL
//! loader, it passes every OpenCL call on to the runtime the application would have used, and
//! writes what happened into a trace.
//!
//! # Invariants
//! 1. **Once.** In the default mode the real function is called exactly once per intercepted call,
//!    and never inside `catch_unwind`. What may differ from the application's call is the closed
//!    table in `changes`.
//! 2. **Invisible.** Queue properties, reference counts, profiling-info errors, build options,
//!    error codes and callback arguments read as without us. No signal handler of ours in the
//!    application.
//! 3. **A failure of ours is ours.** It stops recording, is said once, and leaves the application
//!    running: never exit, abort, unwind out or wait.
//! 4. **Nothing is lost silently.** Dropped records are counted in the trace.
//! 5. **Everything we add is undone.** Events we hold are released; nothing of the application's is
//!    destroyed late.
//! 6. **Every completed record survives the process.** Rings are files; a forked child starts its
//!    own.
//!
//! # Layers
//! `abi` < `settings` < `os` < `recording` < `runtime` < `facts` < `features` < `hooks` < `shell`:
//! a layer uses those before it.
//!
//! # Way of a call
//! `shell::exports` (the only exported symbols, one row of `shell::table` each) takes the guard of
//! `recording::guard`, calls the function that `runtime::real` found, and hands what happened to
//! the thread's ring in `recording`. Calls that create things, that the recorder must answer
//! itself, or at which commands are known complete go through `hooks`. `shell::layer` speaks the
//! layer ABI of loaders. `hooks::instead` puts `replay` and `snapshot` in the way, in runs that ask
//! for them; `sampler` reads sensors where nobody else does, `counters` counters around commands,
//! and `intel_queue` has Intel's runtime count; `call_sites` tells where enqueues come from.
//! `settings::config` is the only reader of the environment, `recording::diag` the only writer to
//! stderr.

#![allow(
    non_snake_case,
    clippy::missing_safety_doc,
    reason = "hooks have the names of the functions they stand for, and their contracts"
)]
#![allow(private_interfaces, reason = "a cdylib has no Rust interface; exported symbols speak C")]

mod abi;
mod facts;
mod features;
mod hooks;
mod os;
mod recording;
mod runtime;
mod settings;
mod shell;
