//! NVIDIA GPUs through NVML, which is opened at run time: without a driver everything here is a
//! typed error with a remedy, never a failed start.
//!
//! Owns the calls ([`driver`]), behind a trait ([`api`]), and the logic that makes readings with
//! known time and unit of what they return: the ring of power samples ([`ring`]), the energy
//! counter and the state of the device ([`status`]), GPM counters ([`gpm`]). All are
//! [`clscope_sensors::SensorSource`]s for its sampler. Refuses to change any setting of a device.
//! Never linked into the preloaded recorder.

pub mod api;
mod beat;
pub mod driver;
pub mod error;
pub mod gpm;
pub mod reasons;
pub mod ring;
pub mod status;

pub use api::{Api, DeviceInfo, Index};
pub use driver::Driver;
pub use error::NvmlError;

use clscope_sensors::doctor::{SensorFinding, State};
use clscope_sensors::{SensorError, SensorSource, SourceKind};
use std::sync::Arc;

/// What to open of each device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// GPM counters, too: these, or all where the list is empty. All of them cost up to 2 ms for
    /// every 100 ms.
    pub gpm: Option<Vec<gpm::Metric>>,
}

/// Opens everything that works on `devices` (all, or those an application uses), with a finding for
/// each interface. The first energy figure of each device is its best: samples, then the counter.
pub fn open(
    api: &Arc<dyn Api>,
    devices: &[DeviceInfo],
    wanted: &Wanted,
) -> (Vec<Box<dyn SensorSource>>, Vec<SensorFinding>) {
    let mut sources: Vec<Box<dyn SensorSource>> = Vec::new();
    let mut findings = Vec::new();
    for device in devices {
        let name = |what: &str| {
            format!("nvml {what} of GPU {} ({}, {})", device.index.0, device.name, device.pci)
        };
        let mut add =
            |kind, what: &str, opened: Result<Box<dyn SensorSource>, SensorError>| match opened {
                Ok(source) => {
                    findings.push(SensorFinding::opened(name(what), &*source));
                    sources.push(source);
                    true
                }
                Err(error) => {
                    findings.push(SensorFinding::refused(kind, name(what), &error));
                    false
                }
            };
        let ring = ring::PowerRing::open(Arc::clone(api), device);
        let has_ring = add(SourceKind::NvmlRing, "power samples", ring.map(|r| Box::new(r) as _));
        let every_ns = if has_ring { 1_000_000_000 } else { 100_000_000 };
        let energy = status::Polled::energy(Arc::clone(api), device, every_ns);
        add(
            SourceKind::NvmlEnergy,
            "energy counter",
            energy.map(|s| Box::new(s) as _).map_err(Into::into),
        );
        let instant = status::Polled::instant(Arc::clone(api), device);
        add(
            SourceKind::Nvml,
            "instant power",
            instant.map(|s| Box::new(s) as _).map_err(Into::into),
        );
        let mut parts = Vec::new();
        let state = status::Polled::state(Arc::clone(api), device).map(|(state, problems)| {
            parts = problems;
            Box::new(state) as _
        });
        add(SourceKind::Nvml, "state", state.map_err(Into::into));
        let limit = status::Polled::limit(Arc::clone(api), device);
        add(SourceKind::Nvml, "power limit", limit.map(|s| Box::new(s) as _).map_err(Into::into));
        if let Some(metrics) = &wanted.gpm {
            let metrics = if metrics.is_empty() { &gpm::METRICS[..] } else { metrics };
            let gpm = gpm::Gpm::with_metrics(Arc::clone(api), device, metrics);
            add(
                SourceKind::NvmlGpm,
                "GPM counters",
                gpm.map(|s| Box::new(s) as _).map_err(Into::into),
            );
        }
        for (item, error) in parts {
            findings.push(SensorFinding::refused(
                SourceKind::Nvml,
                name(&format!("{item:?}")),
                &error.into(),
            ));
        }
    }
    (sources, findings)
}

/// A loaded NVML and its devices.
pub type Loaded = (Arc<dyn Api>, Vec<DeviceInfo>);

/// Loads NVML and lists its devices; a finding where that fails.
///
/// # Errors
/// The finding, for `doctor` and for the user.
pub fn load(path: Option<&str>) -> Result<Loaded, Box<SensorFinding>> {
    let refused = |error: NvmlError| {
        Box::new(SensorFinding::refused(SourceKind::Nvml, "nvml".to_owned(), &error.into()))
    };
    let driver = Driver::load(path).map_err(|error| {
        let absent = matches!(error, NvmlError::Absent { .. });
        let mut finding = refused(error);
        if absent {
            finding.state = State::Absent;
        }
        finding
    })?;
    let devices = driver.devices().map_err(refused)?;
    Ok((Arc::new(driver), devices))
}
