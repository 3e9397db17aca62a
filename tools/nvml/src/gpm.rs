//! GPM counters (Hopper and later). The driver takes a snapshot about every 100 ms and hands out
//! its last one; metrics exist only between two different snapshots. Owns the poller that finds
//! each new snapshot and keeps the first sample of each: forming all metrics costs up to 2 ms of a
//! core, so it queries when a new one is due by the driver's period, one metric first. Refuses
//! values that are no values (NaN between two samples of one snapshot, zeros while the device is
//! busy).
#![forbid(unsafe_code)]

use crate::api::{Api, DeviceInfo, GpmSample};
use crate::beat::{Beat, CLOSEST_NS, FINE_NS, PERIOD_NS};
use crate::error::NvmlError;
use crate::ring::key;
use clscope_sensors::source::{
    Domain, DomainId, Pace, Quantity, Reading, SensorSource, SourceHealth, TakeReading, Value,
};
use clscope_sensors::{Clock, RawNs, SensorError, Stamp};
use std::sync::Arc;

/// A metric (nvml.h, nvmlGpmMetricId_t).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// NVML's number.
    pub id: u32,
    /// Short name for tables.
    pub name: &'static str,
    /// Whether it is a rate in MiB/s; else percent.
    pub is_bandwidth: bool,
}

const fn percent(id: u32, name: &'static str) -> Metric {
    Metric { id, name, is_bandwidth: false }
}

const fn bandwidth(id: u32, name: &'static str) -> Metric {
    Metric { id, name, is_bandwidth: true }
}

/// The metrics read by default.
pub const METRICS: [Metric; 16] = [
    percent(1, "graphics-busy"),
    percent(2, "sm-busy"),
    percent(3, "sm-occupancy"),
    percent(4, "integer"),
    percent(5, "tensor"),
    percent(6, "tensor-fp64"),
    percent(7, "tensor-fp16"),
    percent(9, "tensor-integer"),
    percent(PROBE, "dram-bandwidth"),
    percent(11, "fp64"),
    percent(12, "fp32"),
    percent(13, "fp16"),
    bandwidth(20, "pcie-tx"),
    bandwidth(21, "pcie-rx"),
    bandwidth(60, "nvlink-rx"),
    bandwidth(61, "nvlink-tx"),
];

/// DRAM bandwidth: NaN between two samples of one snapshot, a number (0 when idle) between two
/// snapshots.
pub const PROBE: u32 = 10;

/// How often to ask while it is not known when snapshots appear.
pub const POLL_NS: u64 = FINE_NS;
/// So long without a new snapshot is a failure worth saying.
const SILENCE_NS: u64 = 2_000_000_000;

/// What the metrics between the kept sample and a new one say about the new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Novelty {
    /// Still the kept snapshot.
    Same,
    /// A new snapshot: the values hold.
    New,
    /// Zeros although the device is busy, too late for the same snapshot: no values, start again
    /// from here.
    Refused,
}

/// Judges the values between two samples taken `apart_ns` apart. `busy` says whether the device is
/// busy by another measure (asked only when all is zero).
pub fn novelty(
    ids: &[u32],
    values: &[Option<f64>],
    apart_ns: u64,
    busy: impl FnOnce() -> Option<bool>,
) -> Novelty {
    let probe = ids.iter().zip(values).find(|(id, _)| **id == PROBE).and_then(|(_, v)| *v);
    if probe.is_some_and(|v| !v.is_finite()) {
        return Novelty::Same;
    }
    let mut known = values.iter().flatten().filter(|v| v.is_finite());
    if known.clone().any(|v| *v != 0.0) {
        return Novelty::New;
    }
    if known.next().is_none() || apart_ns < CLOSEST_NS {
        return Novelty::Same;
    }
    match busy() {
        // NVML's utilisation is an average over up to a second: it may still include work that has
        // ended. A window lost then is cheaper than a false zero.
        Some(true) => Novelty::Refused,
        Some(false) | None if probe.is_some() => Novelty::New,
        // Without the probe, one snapshot seen twice looks like an idle device until its period is
        // over.
        Some(false) if apart_ns >= PERIOD_NS => Novelty::New,
        _ => Novelty::Same,
    }
}

/// The metrics between two neighbouring snapshots.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// When the snapshot at its beginning appeared: after the last poll that did not see it, before
    /// the end of the first that did, and where the driver keeps a beat, on it. The snapshot itself
    /// is older by the driver's delay.
    pub begin: Stamp,
    /// When the one at its end appeared.
    pub end: Stamp,
    /// Values in the order of the poller's metrics; `None` where the device has no such metric.
    pub values: Vec<Option<f64>>,
}

/// What the poller saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpmCounts {
    /// Polls made.
    pub polls: u64,
    /// Windows given.
    pub windows: u64,
    /// Snapshots that must have come and gone between two polls.
    pub missed: u64,
    /// Windows refused (zeros while busy).
    pub refused: u64,
    /// Windows left out because their beginning was not seen.
    pub unsynchronised: u64,
}

/// Polls one device's GPM.
pub struct Poller {
    api: Arc<dyn Api>,
    device: DeviceInfo,
    ids: Vec<u32>,
    kept: Option<GpmSample>,
    spare: Option<GpmSample>,
    /// When the kept snapshot appeared; `None` where that was not seen.
    kept_since: Option<Stamp>,
    /// When the kept sample was taken.
    kept_at: RawNs,
    last_poll: RawNs,
    complained: RawNs,
    beat: Beat,
    counts: GpmCounts,
}

impl Poller {
    /// For these metrics; [`PROBE`] is polled too, as the first of them, if it is not among them.
    ///
    /// # Errors
    /// Where the device has no GPM or no sample can be allocated.
    pub fn new(
        api: Arc<dyn Api>,
        device: &DeviceInfo,
        metrics: &[u32],
    ) -> Result<Poller, NvmlError> {
        if !api.gpm_supported(device.index)? {
            return Err(NvmlError::Call {
                call: "nvmlGpmQueryDeviceSupport",
                code: crate::error::code::NOT_SUPPORTED,
                words: "this GPU has no GPM counters (Hopper and later have)".to_owned(),
            });
        }
        let mut ids = metrics.to_vec();
        if !ids.contains(&PROBE) {
            ids.push(PROBE);
        }
        let kept = api.gpm_alloc()?;
        let mut poller = Poller {
            api,
            device: device.clone(),
            ids,
            kept: Some(kept),
            spare: None,
            kept_since: None,
            kept_at: RawNs(0),
            last_poll: RawNs(0),
            complained: RawNs(0),
            beat: Beat::new(),
            counts: GpmCounts::default(),
        };
        // From here on a failure frees the first sample through Drop.
        poller.spare = Some(poller.api.gpm_alloc()?);
        Ok(poller)
    }

    /// The metrics polled, in the order of [`Window::values`].
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// What was seen so far.
    pub fn counts(&self) -> GpmCounts {
        self.counts
    }

    /// How long after `now` to query next: when a new snapshot is due by the driver's period, and
    /// where it does not hold, before and after.
    pub fn due_in_ns(&self, now: RawNs) -> u64 {
        self.beat.wait_ns(now)
    }

    /// Asks once; to be called after [`due_in_ns`](Self::due_in_ns). Gives a window when a new
    /// snapshot has appeared.
    ///
    /// # Errors
    /// NVML's; [`NvmlError::NoSnapshot`] once per two seconds of silence.
    pub fn poll(&mut self, clock: &mut dyn Clock) -> Result<Option<Window>, NvmlError> {
        let (Some(kept), Some(spare)) = (self.kept.as_mut(), self.spare.as_mut()) else {
            return Ok(None);
        };
        let first = self.counts.polls == 0;
        let before = clock.raw();
        self.api.gpm_get(self.device.index, if first { kept } else { spare })?;
        let after = clock.raw();
        let since_last_poll = self.last_poll;
        self.counts.polls += 1;
        self.last_poll = before;
        if first {
            (self.kept_at, self.complained) = (before, before);
            return Ok(None);
        }
        // All metrics take a hundred times as long as this one (H200: 707 and 0.6 us; taking the
        // sample 32).
        let probe = self.api.gpm_metrics(kept, spare, &[PROBE])?;
        let values = match probe.first() {
            Some(Some(v)) if !v.is_finite() => {
                self.ids.iter().map(|id| (*id == PROBE).then_some(*v)).collect()
            }
            _ => self.api.gpm_metrics(kept, spare, &self.ids)?,
        };
        let apart = before.since(self.kept_at);
        let (api, index) = (&self.api, self.device.index);
        let busy = || api.utilisation(index).ok().map(|u| u.gpu > 0);
        let verdict = novelty(&self.ids, &values, apart, busy);
        if verdict == Novelty::Same {
            self.beat.same(before);
            if before.since(self.kept_at.max(self.complained)) >= SILENCE_NS {
                self.complained = before;
                return Err(NvmlError::NoSnapshot { for_ms: apart / 1_000_000 });
            }
            return Ok(None);
        }
        std::mem::swap(&mut self.kept, &mut self.spare);
        self.kept_at = before;
        // Two are never closer.
        let earliest = self
            .kept_since
            .map_or(since_last_poll, |kept| since_last_poll.max(kept.before.plus(CLOSEST_NS)));
        let end = self.beat.new_at(earliest.min(after), before, after);
        let begin = match verdict {
            Novelty::New => self.kept_since.replace(end),
            // Whether a snapshot appeared is not known, so neither is when.
            _ => {
                self.beat.forget();
                self.kept_since.take()
            }
        };
        if verdict == Novelty::Refused {
            self.counts.refused += 1;
            return Ok(None);
        }
        let Some(begin) = begin else {
            self.counts.unsynchronised += 1;
            return Ok(None);
        };
        let length = end.mid().since(begin.mid());
        self.counts.missed += ((length + PERIOD_NS / 2) / PERIOD_NS).saturating_sub(1);
        self.counts.windows += 1;
        let values = values.into_iter().map(|v| v.filter(|v| v.is_finite())).collect();
        Ok(Some(Window { begin, end, values }))
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        for sample in [self.kept.take(), self.spare.take()].into_iter().flatten() {
            self.api.gpm_free(sample);
        }
    }
}

/// GPM as a source: one domain per metric, each reading the mean over the window that ends at its
/// stamp.
pub struct Gpm {
    name: String,
    poller: Poller,
    domains: Vec<Domain>,
    /// The domain of each of the poller's metrics, and whether it is a rate.
    slots: Vec<Option<(DomainId, bool)>>,
    due_in_ns: u64,
}

/// A metric by its name in [`METRICS`].
pub fn by_name(name: &str) -> Option<Metric> {
    METRICS.iter().find(|m| m.name.eq_ignore_ascii_case(name)).copied()
}

impl Gpm {
    /// All of [`METRICS`].
    ///
    /// # Errors
    /// As [`Poller::new`].
    pub fn open(api: Arc<dyn Api>, device: &DeviceInfo) -> Result<Gpm, NvmlError> {
        Gpm::with_metrics(api, device, &METRICS)
    }

    /// The metrics named.
    ///
    /// # Errors
    /// As [`Poller::new`].
    pub fn with_metrics(
        api: Arc<dyn Api>,
        device: &DeviceInfo,
        metrics: &[Metric],
    ) -> Result<Gpm, NvmlError> {
        let ids: Vec<u32> = metrics.iter().map(|m| m.id).collect();
        let poller = Poller::new(api, device, &ids)?;
        let quantity =
            |m: &Metric| if m.is_bandwidth { Quantity::Bandwidth } else { Quantity::Percent };
        let domain = |m: &Metric| Domain {
            device: Some(key(device)),
            ..Domain::new(format!("gpm/{}", m.name), quantity(m))
        };
        let slot = |id: &u32| {
            metrics.iter().position(|m| m.id == *id).map(|i| (DomainId(i), metrics[i].is_bandwidth))
        };
        let slots = poller.ids().iter().map(slot).collect();
        Ok(Gpm {
            name: format!("nvml:gpm:{}", device.index.0),
            poller,
            domains: metrics.iter().map(domain).collect(),
            slots,
            due_in_ns: POLL_NS,
        })
    }
}

impl SensorSource for Gpm {
    fn about(&self) -> (&str, &[Domain], Pace) {
        let pace = Pace { fastest_ns: FINE_NS, slowest_ns: PERIOD_NS, adaptive: false };
        (&self.name, &self.domains, pace)
    }

    fn due_in_ns(&self) -> Option<u64> {
        Some(self.due_in_ns)
    }

    fn read(&mut self, clock: &mut dyn Clock, out: TakeReading<'_>) -> Result<(), SensorError> {
        let polled = self.poller.poll(clock);
        self.due_in_ns = self.poller.due_in_ns(clock.raw());
        let Some(window) = polled? else { return Ok(()) };
        let span = window.end.mid().since(window.begin.mid());
        for (slot, value) in self.slots.iter().zip(window.values) {
            let (Some((domain, is_bandwidth)), Some(value)) = (slot, value) else { continue };
            let value = if *is_bandwidth {
                Value::MebibytesPerSecond(value)
            } else {
                Value::Percent(value)
            };
            out(Reading { mean_over_ns: Some(span), ..Reading::now(*domain, window.end, value) });
        }
        Ok(())
    }

    fn health(&self) -> SourceHealth {
        let c = self.poller.counts();
        SourceHealth {
            given: c.windows,
            missing: c.missed,
            refused: c.refused,
            ..SourceHealth::default()
        }
    }
}
