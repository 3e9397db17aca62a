//! What the recorder asks of the operating system on more than one occasion: threads, descriptors,
//! signals held back, sleeping and waking. Knows nothing of OpenCL.

pub mod descriptors;
pub mod limits;
pub mod locks;
pub mod memory;
pub mod objects;
pub mod plain_write;
pub mod shared;
pub mod thread_state;
pub mod threads;
pub mod undisturbed;
pub mod unwind;
