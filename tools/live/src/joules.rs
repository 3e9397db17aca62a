//! Joules per kernel of a trace that is still being written. They are the report's: one estimator
//! decides about joules, and it needs all readings. Its cost grows with the trace, so that callers
//! ask for it beside the screen and seldom ([`pause_after`]). Refuses to attribute anything itself.

use crate::document::Document;
use clscope_profile::energy::attribute;
use clscope_profile::error::{OpenError, ReadingsError};
use clscope_profile::interval::Interval;
use clscope_profile::profile::{Options, Profile};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Share of one core that asking again and again may take.
const SHARE: u32 = 100;
/// Shortest pause between two answers.
const SHORTEST: Duration = Duration::from_secs(2);

/// Why there are no joules.
#[derive(Debug, thiserror::Error)]
pub enum JoulesError {
    /// The trace.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A file of readings.
    #[error(transparent)]
    Readings(#[from] ReadingsError),
}

/// Joules of one kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
struct OfKernel {
    joules: Option<Interval>,
    per_launch: Option<Interval>,
    watts: Option<Interval>,
    known: &'static str,
}

/// Joules as of one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Joules {
    kernels: HashMap<(String, String), OfKernel>,
    /// Why there are none.
    pub absent: Option<String>,
}

/// How long to wait before joules are asked for again, that took so long: a hundred times as long.
#[must_use]
pub fn pause_after(took: Duration) -> Duration {
    took.saturating_mul(SHARE).max(SHORTEST)
}

impl Joules {
    /// Reads the whole trace. `energy`: as the report is to attribute joules.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn of(trace: &Path, energy: attribute::Options) -> Result<Self, JoulesError> {
        let profile = Profile::open(&[PathBuf::from(trace)])?;
        let view = profile.view(Options { energy, ..Options::default() });
        let energy = view.energy()?;
        let mut out = Self { absent: energy.absent.clone(), ..Self::default() };
        for device in &energy.devices {
            for class in device.classes.iter().filter(|c| c.kind == "kernel") {
                let key = (class.name.clone(), device.device.clone());
                out.kernels.insert(
                    key,
                    OfKernel {
                        joules: class.joules,
                        per_launch: class.joules_per_launch,
                        watts: class.watts,
                        known: class.identifiability,
                    },
                );
            }
        }
        Ok(out)
    }

    /// Enters them into a document, kernel by kernel, `age` after they were asked for.
    pub fn enter(&self, document: &mut Document, age: Duration) {
        document.joules_absent.clone_from(&self.absent);
        document.joules_age_ns =
            (!self.kernels.is_empty()).then(|| u64::try_from(age.as_nanos()).unwrap_or(u64::MAX));
        for kernel in &mut document.kernels {
            let key = (kernel.name.clone(), kernel.device.clone());
            if let Some(of) = self.kernels.get(&key) {
                kernel.joules = of.joules;
                kernel.joules_per_launch = of.per_launch;
                kernel.watts = of.watts;
                kernel.joules_known = Some(of.known);
            }
        }
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
