//! Owns energy of a trace: how readings of sensors are read back ([`readings`]), which of them speak
//! of which device ([`power`]), and joules per kernel ([`attribute`]). Refuses to fit anything: the
//! analysis does that.
#![forbid(unsafe_code)]

pub mod activity;
pub mod attribute;
pub mod power;
pub mod readings;
mod replayed;
pub mod result;
pub mod slices;

use crate::trace_files::TraceFiles;
use anyhow::{Context, Result};
use clscope_analysis::Trace;
use clscope_analysis::align::Alignment;
use clscope_sensors::gpu_power::Choice;
use clscope_sensors::replay::{Pacing, Replay};

/// Energy of opened traces, and the readings it rests on.
///
/// # Errors
/// If a file of readings that the user named cannot be read.
pub fn of(
    files: &TraceFiles,
    trace: &Trace<'_>,
    alignment: &Alignment,
    options: &attribute::Options,
    by: activity::Grouping<'_>,
) -> Result<(result::Energy, readings::Readings)> {
    let mut readings = match &options.readings {
        Some(path) => {
            let replay = Replay::open(path, Pacing::AtOnce)
                .with_context(|| format!("cannot take readings from {}", path.display()))?;
            readings::Readings::replay(replay)
                .with_context(|| format!("cannot take readings from {}", path.display()))?
        }
        None => readings::Readings::of(trace, files.sensors()),
    };
    files.directories.iter().for_each(|directory| readings.calibrate(&directory.calibrations()));
    let recorded: Option<Choice> = files
        .directories
        .iter()
        .find_map(|d| d.meta.as_ref()?.get("gpu_power")?.as_str()?.parse().ok());
    Ok((attribute::of(trace, alignment, &readings, recorded, options, by), readings))
}
