//! Locks, and sleeping until another thread wakes: what a fork, or a handler that leaves by
//! `siglongjmp`, cannot leave taken for ever.

pub mod doorbell;
pub mod fork_safe;
pub mod futex;
pub mod held;
pub mod lock;
pub mod robust;
pub mod sync;
