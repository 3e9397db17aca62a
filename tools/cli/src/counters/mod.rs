//! Owns counters per kernel in the command: which readings of a trace are counters, of which device they speak, and what
//! they say of its kernels. Refuses to fit anything: the analysis does that.
#![forbid(unsafe_code)]

pub mod means;
pub mod result;

use crate::energy::activity::{self, By};
use crate::energy::readings::Readings;
use clscope_analysis::Trace;
use clscope_analysis::align::Alignment;
use result::Counters;

/// Counters of a trace; `None` where none were recorded.
pub fn of(trace: &Trace<'_>, alignment: &Alignment, readings: &Readings, by: By) -> Option<Counters> {
    if readings.sensors.iter().all(|s| s.windows.is_empty()) {
        return None;
    }
    let devices = activity::of(trace, alignment, by);
    let mut out = Counters::default();
    for device in &devices {
        out.sources.extend(means::of(trace, device, &devices, readings));
    }
    if out.sources.is_empty() {
        out.absent = Some("counters were read of no device that ran a command with a known time".to_owned());
    }
    Some(out)
}
