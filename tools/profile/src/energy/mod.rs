//! Owns energy of a trace: how readings of sensors are read back ([`readings`]), which of them speak
//! of which device ([`power`]), and joules per kernel ([`attribute`]). Refuses to fit anything: the
//! analysis does that.
#![forbid(unsafe_code)]

pub mod activity;
pub mod attribute;
mod planes;
pub mod power;
pub mod readings;
mod replayed;
pub mod result;

use crate::error::ReadingsError;
use crate::trace_files::TraceFiles;
use clscope_analysis::Trace;
use clscope_sensors::gpu_power::Choice;
use clscope_sensors::replay::{Pacing, Replay};

/// The readings of opened traces: their own, or those of the file that the caller named.
///
/// # Errors
/// If that file cannot be read.
pub fn readings_of(
    files: &TraceFiles,
    trace: &Trace<'_>,
    options: &attribute::Options,
) -> Result<readings::Readings, ReadingsError> {
    let mut readings = match &options.readings {
        Some(path) => Replay::open(path, Pacing::AtOnce)
            .and_then(readings::Readings::replay)
            .map_err(|source| ReadingsError { path: path.clone(), source })?,
        None => readings::Readings::of(trace, files.sensors()),
    };
    files.directories.iter().for_each(|directory| readings.calibrate(&directory.calibrations()));
    Ok(readings)
}

/// How GPU power was to be formed when the traces were recorded.
#[must_use]
pub fn recorded_formula(files: &TraceFiles) -> Option<Choice> {
    files.directories.iter().find_map(|d| d.meta.as_ref()?.get("gpu_power")?.as_str()?.parse().ok())
}
