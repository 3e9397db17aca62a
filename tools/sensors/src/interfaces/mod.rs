//! The interfaces that give energy, power and clocks: the system's files and counters, an external
//! meter, recorded readings. Each is a source; refuses to choose among them.

pub mod gt_clock;
pub mod hwmon;
pub mod meter;
pub mod perf_event;
pub mod rapl;
pub mod replay;
