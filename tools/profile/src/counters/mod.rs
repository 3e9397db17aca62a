//! Owns what a trace's counters say of its kernels ([`means`], [`windows`], [`snapshots`]). Refuses
//! to fit anything: the analysis does that.

pub mod figures;
pub mod means;
mod repeated;
pub mod result;
pub mod snapshots;
pub mod windows;

use crate::energy::activity::{Grouping, PhysicalDevice};
use crate::energy::readings::Readings;
use crate::trace_files::TraceFiles;
use clscope_analysis::Trace;
use clscope_analysis::align::Alignment;
use result::Counters;

/// Counters of a trace; `None` where none were recorded. `named` is the device they are of, where
/// nothing else tells.
pub fn counters_of<'d>(
    files: &TraceFiles,
    trace: &Trace<'_>,
    alignment: impl FnOnce() -> &'d Alignment,
    devices: impl FnOnce() -> &'d [PhysicalDevice],
    readings: &Readings,
    by: Grouping<'_>,
    named: Option<&str>,
) -> Option<Counters> {
    let recorded = windows::read(trace, files.sensors());
    let around = snapshots::read(trace, files.sensors());
    if readings.sensors.iter().all(|s| s.windows.is_empty())
        && recorded.is_empty()
        && around.is_empty()
    {
        return None;
    }
    let (alignment, devices) = (alignment(), devices());
    let mut out = Counters::default();
    for device in devices {
        let mut sources = means::means_of(trace, device, devices, readings);
        sources.extend(windows::windows_of(trace, device, devices, &recorded, named));
        sources.iter_mut().for_each(|source| repeated::fold(source, device));
        out.sources.extend(sources);
    }
    let (read_around, commands) =
        snapshots::snapshots_of(trace, alignment, devices, &around, named, by);
    out.sources.extend(read_around);
    out.commands = commands;
    if out.sources.is_empty() {
        let why = "no counters belong to a device that ran a command with a known time; --counter-device NAME assigns them";
        out.absent = Some(why.to_owned());
    }
    Some(out)
}
