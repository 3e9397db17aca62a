//! Figures that take the whole trace: joules per kernel and sensor, and totals of what sampling left out,
//! which queues bound that are read from their first command on. They are the report's, so that
//! there is one estimator of each. Their cost grows with the trace: callers ask for them beside the
//! screen and seldom ([`pause_after`]). Refuses to estimate anything itself.

use crate::document::Document;
use clscope_profile::energy::attribute;
use clscope_profile::energy::result::Class;
use clscope_profile::error::{OpenError, ReadingsError};
use clscope_profile::interval::Interval;
use clscope_profile::profile::{Options, Profile};
use clscope_profile::report::data::Commands;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Share of one core that asking again and again may take.
const SHARE: u32 = 100;
/// Shortest pause between two answers.
const SHORTEST: Duration = Duration::from_secs(2);

/// Why there are none.
#[derive(Debug, thiserror::Error)]
pub enum WholeError {
    /// The trace.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A file of readings.
    #[error(transparent)]
    Readings(#[from] ReadingsError),
}

/// The figures as of one moment.
#[derive(Debug, Default)]
pub struct Whole {
    /// Joules, by kernel and device.
    kernels: HashMap<(String, String), Class>,
    /// Of kernels and transfers of which sampling left some out, by name and device or direction.
    times: HashMap<(String, String), Commands>,
    /// Busy part of the run, by process and device.
    busy: HashMap<(String, u32), Interval>,
    /// What of the run repetitions took, ns.
    repeated_ns: Option<u64>,
    /// Joules of sensors, by source, name and device.
    meters: HashMap<(String, String, Option<String>), Option<f64>>,
    /// Why there are no joules.
    pub absent: Option<String>,
}

/// How long to wait before joules are asked for again, that took so long: a hundred times as long.
pub fn pause_after(took: Duration) -> Duration {
    took.saturating_mul(SHARE).max(SHORTEST)
}

impl Whole {
    /// Reads the whole trace. `energy`: as the report is to attribute joules.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn of_trace(trace: &Path, energy: attribute::Options) -> Result<Self, WholeError> {
        let profile = Profile::open(&[PathBuf::from(trace)])?;
        let view = profile.view(Options { energy, ..Options::default() });
        let energy = view.energy()?;
        let mut out = Self { absent: energy.absent.clone(), ..Self::default() };
        for device in &energy.devices {
            let kernels = device.classes.iter().filter(|c| c.kind == "kernel");
            let of = |c: &Class| (c.name.clone(), device.device.clone());
            out.kernels.extend(kernels.map(|class| (of(class), class.clone())));
        }
        let sensors = view.readings()?.sensors.iter();
        // Of sensors of several hosts with one name nobody knows which is which.
        for of in sensors {
            let series = &of.series;
            let key = (series.source.clone(), series.name.clone(), series.device.clone());
            let joules = of.joules();
            out.meters.entry(key).and_modify(|known| *known = None).or_insert(joules);
        }
        let report = view.times();
        let rows = report.kernels.into_iter().chain(report.transfers);
        out.times = rows
            .filter(|row| row.left_out > 0)
            .map(|row| {
                let of = row.device.as_deref().or(row.direction).unwrap_or_default();
                ((row.name.clone(), of.to_owned()), row)
            })
            .collect();
        let shares = report.devices.iter();
        out.busy =
            shares.filter_map(|d| Some(((d.process.clone(), d.id), d.busy_share?))).collect();
        out.repeated_ns = report.repeated_ns;
        Ok(out)
    }

    /// Enters them into a document, kernel by kernel, `age` after they were asked for.
    pub fn enter(&self, document: &mut Document, age: Duration) {
        document.joules_absent.clone_from(&self.absent);
        // Joules of what has ended do not grow old.
        let grows_old = !self.kernels.is_empty() && !document.has_ended();
        document.joules_age_ns =
            grows_old.then(|| u64::try_from(age.as_nanos()).unwrap_or(u64::MAX));
        for meter in &mut document.meters {
            let key = (meter.source.clone(), meter.name.clone(), meter.device.clone());
            meter.joules = self.meters.get(&key).copied().flatten();
        }
        for kernel in &mut document.kernels {
            let key = (kernel.name.clone(), kernel.device.clone());
            if let Some(of) = self.kernels.get(&key) {
                kernel.joules = of.joules;
                kernel.joules_per_launch = of.joules_per_launch;
                kernel.watts = of.watts;
                kernel.why = of.absence;
            }
        }
        // Of what goes on, what was newest then is old now.
        if document.has_ended() {
            self.enter_totals(document);
        }
    }

    /// Totals of what has ended. What was counted otherwise is not of the same moment.
    fn enter_totals(&self, document: &mut Document) {
        for kernel in &mut document.kernels {
            let times = self.times.get(&(kernel.name.clone(), kernel.device.clone()));
            if let Some(times) = times.filter(|times| times.count == kernel.launches) {
                let estimate = times.estimate.as_ref();
                kernel.total_ns = estimate.and_then(|e| e.total_ns);
                kernel.mean_ns = estimate.and_then(|e| e.mean_ns).map(|mean| mean.value);
                kernel.p95_ns = estimate.and_then(|e| e.p95_ns).map(|p95| p95.value);
            }
        }
        document.share_kernels();
        for transfer in &mut document.transfers {
            let direction = transfer.direction.clone().unwrap_or_default();
            let times = self.times.get(&(transfer.kind.clone(), direction));
            if let Some(times) = times.filter(|times| times.count == transfer.count) {
                transfer.total_ns = times.estimate.as_ref().and_then(|e| e.total_ns);
            }
        }
        for device in &mut document.devices {
            // Labels of reports have the directory before the process.
            let of_process =
                |label: &str| label.rsplit('/').next() == Some(device.process.as_str());
            let mut shares =
                self.busy.iter().filter(|((p, id), _)| *id == device.id && of_process(p));
            if let Some((_, share)) = shares.next() {
                device.busy_share = Some(share.value);
            }
        }
        document.repeated_ns = self.repeated_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_takes_a_hundredth_of_a_core() {
        assert_eq!(pause_after(Duration::from_secs(1)), Duration::from_secs(100));
        assert_eq!(pause_after(Duration::from_micros(10)), SHORTEST);
        assert_eq!(pause_after(Duration::MAX), Duration::MAX);
    }
}
