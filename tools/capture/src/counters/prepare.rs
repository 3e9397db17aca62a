//! Owns what is done about counters before an application that reads them itself around its
//! commands (`record --snapshot`) starts: the metric set is chosen, the stream tried and closed
//! again, the configuration loaded and kept, and the choice left in the trace directory. Refuses to
//! read anything.
#![forbid(unsafe_code)]

use super::choice::Options;
use super::open::{self, Found, Stream};
use super::sampler::FILE;
use crate::error::{Attempt, CaptureError};
use clscope_oa::sampling::Configuration;
use clscope_readings::Blocks;
use clscope_sensors::Roots;
use clscope_trace::sensors::{self, COUNTER_PLAN};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Default time between two reports: a reading waits for one, and what an application lets pass
/// without a command must fit the kernel's buffer (65,536 reports on i915).
const PERIOD: Duration = Duration::from_micros(500);

/// What holds until the application has ended.
pub struct Prepared {
    plan: PathBuf,
    /// What was asked for and could not be had.
    pub warnings: Vec<String>,
    _configurations: Vec<Configuration>,
}

impl Drop for Prepared {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.plan);
    }
}

/// Chooses and tries; what is refused is among the warnings.
///
/// # Errors
/// If the trace directory does not take the files.
pub fn prepare(
    trace: &Path,
    options: &Options,
    sysfs_root: Option<&Path>,
) -> Result<Option<Prepared>, CaptureError> {
    if !options.windows() {
        return Ok(None);
    }
    let options = Options {
        counter_period: Some(options.counter_period.unwrap_or(PERIOD)),
        ..options.clone()
    };
    let roots = sysfs_root.map_or_else(Roots::default, Roots::below);
    let mut found = Found::default();
    let (mut payload, mut configurations) = (Vec::new(), Vec::new());
    open::streams(&options, &roots, &mut found, &mut |_, Stream { sampler, mut about }| {
        about.id = configurations.len() as u32;
        sensors::encode(&about.into(), &mut payload);
        configurations.push(sampler.into_configuration());
    });
    let path = trace.join(FILE);
    let mut told = Blocks::create(&path).attempt(|| format!("cannot write {}", path.display()))?;
    let (mut findings, mut warnings) = (Vec::new(), Vec::new());
    for finding in found.findings {
        warnings.extend(open::complaint(&finding));
        sensors::encode(&finding.into(), &mut findings);
    }
    told.append(&findings);
    let plan = trace.join(COUNTER_PLAN);
    Blocks::create(&plan).attempt(|| format!("cannot write {}", plan.display()))?.append(&payload);
    Ok(Some(Prepared { plan, warnings, _configurations: configurations }))
}
