//! Models of OpenCL devices: how long a kernel must take at least and why, what its joules are for,
//! what transfers and idle time cost, and what a change would do. Values in, values out: everything
//! that is computed has an interval and says on what evidence it rests; what cannot be computed is
//! an error that names the missing input and how to get it.
//!
//! Refuses to measure (`clscope-microbench` does), to print, and to open files, but for [`kept`].
//!
//! | module | what it holds |
//! |---|---|
//! | [`figure`] | a number with its interval and its evidence; what is missing |
//! | [`device`] | parameters of a device: what `clscope bench model` measures and keeps |
//! | [`kept`] | the files of these parameters |
//! | [`kernel`] | what is known of a kernel's launches |
//! | [`roofline`] | bounds of throughput, and the roofline of a trace |
//! | [`latency`] | latency hiding: occupancy, latency bounds, contention |
//! | [`prior`] | models of latency hiding before Volkov's, and how far each is from measurements |
//! | [`waves`] | work-groups in waves, and the last one |
//! | [`stations`] | latency hiding by what accesses and additions reach alone: bounds and their mean |
//! | [`energy`] | joules by class of instruction |
//! | [`hockney`] | transfers: latency and bandwidth, two segments |
//! | [`idle`] | operating states and how long they are held |
//! | [`predict`] | time and joules of a changed launch |
//! | [`split`] | joules of what is known as a sum only, by the energy model |
//! | [`traffic`] | what launches move through the last cache and through memory |
//! | [`facts`] | a trace as inputs of the models |
//! | `first` | first launches that take much longer than later ones |
//! | [`explain`] | what all of them say of a trace, as a value |
#![forbid(unsafe_code)]

pub mod device;
pub mod energy;
pub mod explain;
pub mod facts;
pub mod figure;
mod first;
#[cfg(test)]
mod golden;
pub mod hockney;
pub mod idle;
pub mod kept;
pub mod kernel;
mod latency_hiding;
pub mod predict;
pub mod roofline;
pub mod split;
pub mod traffic;

pub use latency_hiding::{latency, prior, stations, waves};

pub use device::Device;
pub use figure::{Evidence, Figure, Missing};
pub use kernel::Kernel;
