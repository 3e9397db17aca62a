//! What the recorder measures beside the calls themselves, and what it changes of them on request:
//! one file or folder for each.

pub mod beside;
pub mod call_sites;
pub mod capture;
pub mod counters;
pub mod device_time;
pub mod intel_queue;
pub mod launch;
pub mod replace;
pub mod sampler;
