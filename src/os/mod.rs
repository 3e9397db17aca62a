//! What the recorder asks of the operating system on more than one occasion: threads, descriptors,
//! signals held back, sleeping and waking. Knows nothing of OpenCL.

mod arena;
pub mod current;
pub mod descriptors;
pub mod doorbell;
mod elf;
pub mod fork_safe;
mod futex;
pub mod held;
pub mod list;
pub mod local;
pub mod lock;
pub mod maps;
pub mod memory;
pub mod objects;
pub mod plain_write;
pub mod robust;
pub mod slots;
pub mod sync;
pub mod threads;
pub mod undisturbed;
pub mod unwind;
