//! Children. `fork` runs our handler in the child; a raw `clone` runs none, but finds the state
//! word wiped. Either way the child's first OpenCL call begins a trace of its own, and nothing of
//! the parent's is touched.

use super::{Recording, current, guard, ring, state};
use crate::os::locks::fork_safe;

/// Installs the handler that runs in forked children.
pub fn watch() {
    // SAFETY: `in_child` only stores to atomics and thread-locals, and this library is never
    // unloaded.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}

extern "C" fn in_child() {
    fork_safe::in_child();
    if current().is_some_and(Recording::is_anothers) {
        state::wipe();
        ring::forget(guard::thread());
        guard::thread().depth.set(guard::FRESH);
    }
}
