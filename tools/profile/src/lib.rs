//! A trace as values: the files of its processes, also of running and killed ones, the devices that
//! ran, joules and counters per kernel, call sites, and the report. Refuses to parse a command
//! line, to read the environment and to print: problems are returned.
//!
//! | module | what it holds |
//! |---|---|
//! | [`profile`] | the door: `Profile::open`, and its parts, made when they are asked for |
//! | [`trace_files`], [`live_ring`], [`contents`] | the files of traces, and what is in them |
//! | [`merge`] | several traces as one directory |
//! | [`calibration`] | what was measured of devices and sensors before a run |
//! | [`programs`] | texts and binaries of programs that a trace keeps |
//! | [`opencl_c`] | what sources show without a compiler: tokens, kernels, types of parameters |
//! | [`changes`] | what a run changed of its application on request |
//! | [`measured`] | what was measured of captured launches after the run |
//! | [`mixes`] | what kernels executed, by class of instruction, and what they take of a device |
//! | [`sites`] | names of the places that commands were enqueued from |
//! | [`energy`] | physical devices, readings of sensors, joules per kernel |
//! | [`counters`] | hardware counters per kernel |
//! | [`report`] | the report as a value |
//! | [`answer`] | why a run takes its time, and what to do |
//! | [`names`] | what outputs call kernels: names of C++ and SYCL, demangled |
//! | [`interval`] | a figure with its 95 % interval |

#![forbid(unsafe_code)]

pub mod answer;
pub mod calibration;
pub mod changes;
pub mod counters;
pub mod energy;
pub mod error;
pub mod interval;
pub mod mixes;
pub mod names;
pub mod opencl_c;
pub mod profile;
pub mod programs;
pub mod report;
pub mod sites;
mod trace_folder;

use trace_folder::renamed;
pub use trace_folder::{captures, contents, live_ring, measured, merge, trace_files};
