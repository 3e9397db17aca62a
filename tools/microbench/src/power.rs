//! Power of the device while it was measured. Owns the sampling thread, the choice of the device's
//! sensor among those of the machine, and the mean of a window; refuses to give watts for a device
//! whose sensor is not known.

mod metered;

use self::metered::{Metered, OfMeter};
use crate::cl::{DeviceFacts, DeviceKind, Session};
use crate::stats::{self, Interval};
use clscope_capture::meter;
use clscope_io::text::chain;
use clscope_readings::Clocks;
use clscope_sensors::gpu_power::{Choice, Formula, GpuPlace, Planes, Selected, select, slot};
use clscope_sensors::meter::PLANE as METER;
use clscope_sensors::rapl::perf::{Kernel as PerfKernel, PerfOpener, Unopened};
use clscope_sensors::replay::{Pacing, Replay};
use clscope_sensors::sampler::{Sampler, SamplerEvent, SeriesId, Settings, Sink, SystemHost};
use clscope_sensors::source::{Domain, Plane, Quantity, Reading, Value};
use clscope_sensors::units::Watts;
use clscope_sensors::{Roots, SensorError, SensorSource, System};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// A stretch of time on both clocks that sensors stamp with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    raw: (u64, u64),
    real: (u64, u64),
    /// Launches in it.
    pub launches: usize,
    /// The work went on before it: all of it counts.
    settled: bool,
}

impl Window {
    /// A window that begins now.
    pub fn opens() -> Window {
        let now = (clscope_clock::monotonic_raw().0, clscope_clock::realtime().0);
        Window { raw: (now.0, now.0), real: (now.1, now.1), launches: 0, settled: false }
    }

    /// How long work has to go on, of so many nanoseconds that it is watched for, before sensors
    /// and clocks have followed it.
    pub fn settles_after(goal_ns: u64) -> u64 {
        SETTLE_NS.min(goal_ns / 4)
    }

    /// A window that begins now, in work that has gone on for that long.
    pub fn settled() -> Window {
        Window { settled: true, ..Window::opens() }
    }

    /// The same, ending now.
    pub fn closes(self, launches: usize) -> Window {
        let now = Window::opens();
        Window {
            raw: (self.raw.0, now.raw.1),
            real: (self.real.0, now.real.1),
            launches,
            settled: self.settled,
        }
    }

    /// Launches a nanosecond, gaps between batches included.
    pub fn launches_per_ns(self) -> Option<f64> {
        (self.launches > 0 && self.length_ns() > 0)
            .then(|| self.launches as f64 / self.length_ns() as f64)
    }

    /// Nanoseconds.
    pub fn length_ns(self) -> u64 {
        self.raw.1.saturating_sub(self.raw.0)
    }
}

struct Series {
    source: String,
    domain: Domain,
    /// Time (of the source's own clock where it stamps), value.
    readings: Vec<(u64, Value)>,
    /// Nanoseconds that each reading is a mean over, where it is one.
    over_ns: Vec<u64>,
    /// Nanoseconds before its time, and behind it, that a reading of a meter may speak of.
    reach: (u64, u64),
    own_clock: bool,
    dead: bool,
}

/// All readings of a run.
#[derive(Default)]
pub struct Readings {
    series: Vec<Series>,
}

impl Sink for Readings {
    fn series(&mut self, _: SeriesId, source: &str, domain: &Domain) {
        self.series.push(Series {
            source: source.to_owned(),
            domain: domain.clone(),
            readings: Vec::new(),
            over_ns: Vec::new(),
            reach: (0, 0),
            own_clock: false,
            dead: false,
        });
    }
    fn reading(&mut self, id: SeriesId, reading: &Reading) {
        let Some(series) = self.series.get_mut(id.0 as usize) else { return };
        series.own_clock = reading.source_time.is_some();
        let at = reading.source_time.map_or(reading.stamp.mid().0, |t| t.0);
        series.readings.push((at, reading.value));
        series.over_ns.push(reading.mean_over_ns.unwrap_or(0));
    }
    fn event(&mut self, event: SamplerEvent<'_>) {
        let (id, dead) = match event {
            SamplerEvent::Works(id) => (id, false),
            SamplerEvent::Dead { series, .. } => (series, true),
            _ => return,
        };
        if let Some(series) = self.series.get_mut(id.0 as usize) {
            series.dead = dead;
        }
    }
}

/// A tree that is not the system's names event numbers that mean something else here.
const ELSEWHERE: Unopened = Unopened("perf events are the running system's");

/// Which sensors are read.
#[derive(Clone, Debug, Default)]
pub struct Metering {
    /// None, whatever a suite wants.
    pub off: bool,
    /// Those of a tree of sysfs below this folder: its files alone, without the running system's
    /// perf events and NVML.
    pub root: Option<PathBuf>,
    /// Recorded readings in place of sensors, as if they came now.
    pub readings: Option<PathBuf>,
    /// How GPU power is formed.
    pub formula: Choice,
    /// An external meter, beside them.
    pub meter: Option<meter::Wanted>,
}

/// Why nothing is sampled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoSampling {
    /// The file of readings cannot be used.
    #[error(transparent)]
    Readings(#[from] SensorError),
    /// There is no thread.
    #[error("the sampling thread could not be started")]
    Thread(#[from] std::io::Error),
    /// The meter cannot be read.
    #[error("--meter")]
    Meter(#[from] meter::Failure),
}

/// The sampling thread.
pub struct Sensors {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Readings>,
    refusals: Vec<String>,
    planes: Vec<Plane>,
    formula: Choice,
    metered: Option<Metered>,
}

impl Sensors {
    /// Opens what the machine has, or what is given in its place, with its performance counters if
    /// they are wanted, and starts sampling.
    ///
    /// # Errors
    /// Why nothing is sampled.
    pub fn start(of: &Metering, counters: bool) -> Result<Sensors, NoSampling> {
        let root = of.root.as_deref();
        let roots = root.map_or_else(Roots::default, Roots::below);
        let perf: &dyn PerfOpener = if root.is_some() { &ELSEWHERE } else { &PerfKernel };
        let (mut sources, mut findings) = (Vec::new(), Vec::new());
        if let Some(path) = &of.readings {
            sources.push(Box::new(Replay::open(path, Pacing::Live)?) as Box<dyn SensorSource>);
        } else {
            let opened = clscope_sensors::doctor::open_host(&System, &roots, perf);
            (sources, findings) = (opened.sources, opened.findings);
        }
        match (root.is_none() && of.readings.is_none()).then(|| clscope_nvml::load(None)) {
            None => {}
            Some(Ok((api, devices))) => {
                let (more, found) = clscope_nvml::open(
                    &api,
                    &devices,
                    &clscope_nvml::Wanted { gpm: counters.then(Vec::new) },
                );
                sources.extend(more);
                findings.extend(found);
            }
            Some(Err(finding)) => findings.push(*finding),
        }
        let metered = of.meter.as_ref().map(Metered::start).transpose()?;
        let failed = findings.iter().filter(|f| f.remedy.is_some());
        let refusals = failed
            .map(|f| format!("{}: {}", f.name, f.remedy.as_deref().unwrap_or_default()))
            .collect();
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let watts =
            |d: &&Domain| matches!(d.quantity, Quantity::Energy { .. } | Quantity::Power { .. });
        let planes = sources
            .iter()
            .flat_map(|s| s.domains().iter().filter(watts).filter_map(|d| d.plane.clone()))
            .chain(metered.as_ref().map(|_| Plane::Other(METER.to_owned())))
            .collect();
        let thread = std::thread::Builder::new().name("sensors".to_owned()).spawn(move || {
            let mut readings = Readings::default();
            let mut sampler = Sampler::new(sources, Settings::default(), &mut readings);
            sampler.run(&mut SystemHost(Clocks), &mut readings, &|| seen.load(Ordering::Relaxed));
            readings
        })?;
        Ok(Sensors { stop, thread, refusals, planes, formula: of.formula, metered })
    }

    /// Whether any sensor could meter such a device: without one, watching power only takes time.
    pub fn may_meter(&self, kind: DeviceKind) -> bool {
        let by_meter = |p: &Plane| matches!(p, Plane::Other(name) if name == METER);
        let known = |p: &Plane| match kind {
            _ if by_meter(p) => true,
            DeviceKind::Cpu => *p == Plane::Package,
            _ => matches!(
                p,
                Plane::Gpu | Plane::GpuCard | Plane::Apu | Plane::Graphics | Plane::Package
            ),
        };
        self.planes.iter().any(known)
    }

    /// Ends sampling; the last reading lies behind this call. A meter is placed by the work of the
    /// session.
    pub fn finish(self, session: &Session) -> Power {
        // A driver that keeps a ring of samples publishes the newest some tens of milliseconds
        // late.
        std::thread::sleep(std::time::Duration::from_millis(60));
        self.stop.store(true, Ordering::Relaxed);
        let of_meter = self.metered.map(|metered| metered.finish(session));
        let readings = self.thread.join().unwrap_or_default();
        Power::new(readings, of_meter, session.facts(), &self.refusals, self.formula)
    }
}

/// The device's own sensors among all readings.
pub struct Power {
    readings: Readings,
    /// The series that make its power: (index, sign).
    terms: Vec<(usize, f64)>,
    clock: Option<usize>,
    reasons: Option<usize>,
    /// Performance counters of the device.
    counters: Vec<usize>,
    source: Result<String, String>,
    /// The meter's table.
    table: Option<String>,
}

/// The first part of a window is left out: sensors lag by their filters (first order, some 14 ms,
/// on the fastest) and clocks settle.
const SETTLE_NS: u64 = 200_000_000;

/// Whether a series belongs to this device.
fn is_of(series: &Series, device: &DeviceFacts) -> bool {
    // The same address is written with 4 or 8 digits of domain, in either case: bus, device and
    // function are its tail.
    let tail = |pci: &str| pci.to_ascii_lowercase().chars().rev().take(7).collect::<String>();
    let of = series.domain.device.as_ref();
    match (&device.pci, of.and_then(|d| d.pci.as_ref())) {
        (Some(a), Some(b)) => tail(a) == tail(b),
        // Without addresses on both sides the name must do: a board's name is part of its OpenCL
        // name, or the reverse.
        _ => of
            .and_then(|d| d.name.as_ref())
            .is_some_and(|n| device.name.contains(n) || n.contains(&device.name)),
    }
}

impl Power {
    fn new(
        mut readings: Readings,
        of_meter: Option<OfMeter>,
        device: &DeviceFacts,
        refusals: &[String],
        formula: Choice,
    ) -> Power {
        let (mut table, mut said) = (None, Vec::new());
        if let Some(OfMeter { text, read }) = of_meter {
            table = Some(text);
            match read {
                Ok((series, all)) => {
                    readings.series.push(series);
                    said = all;
                }
                Err(why) => said.push(format!("no readings: {}", chain(&why))),
            }
        }
        let mut power = Power {
            readings,
            terms: Vec::new(),
            clock: None,
            reasons: None,
            counters: Vec::new(),
            source: Err(String::new()),
            table,
        };
        let counts = |s: &Series| {
            matches!(s.domain.quantity, Quantity::Percent | Quantity::Bandwidth)
                && !s.readings.is_empty()
        };
        let all = power.readings.series.iter().enumerate();
        power.counters =
            all.filter(|(_, s)| counts(s) && is_of(s, device)).map(|(i, _)| i).collect();
        let described = match device.kind {
            DeviceKind::Cpu => power.choose_cpu(formula),
            _ => power.choose_gpu(device, formula),
        };
        let of_meter: String = said.iter().map(|text| format!("; meter: {text}")).collect();
        let with = |text: String| format!("{text}{of_meter}");
        power.source = described.map(with).map_err(|why| {
            let because = if refusals.is_empty() {
                String::new()
            } else {
                format!(" ({})", refusals.join("; "))
            };
            with(format!("{why}{because}"))
        });
        power
    }

    /// The sensor in words.
    ///
    /// # Errors
    /// Why there is none, in words.
    pub fn source(&self) -> Result<&str, &str> {
        self.source.as_deref().map_err(String::as_str)
    }

    /// The table of the external meter, as it was given.
    pub fn meter_table(&self) -> Option<&str> {
        self.table.as_deref()
    }

    fn alive(&self) -> impl Iterator<Item = (usize, &Series)> {
        self.readings.series.iter().enumerate().filter(|(_, s)| !s.dead && !s.readings.is_empty())
    }

    fn choose_cpu(&mut self, choice: Choice) -> Result<String, String> {
        let of_plane = |wanted: &Plane| -> Vec<usize> {
            let is_wanted = |s: &Series| s.domain.plane.as_ref() == Some(wanted);
            self.alive().filter(|(_, s)| is_wanted(s)).map(|(i, _)| i).collect()
        };
        let packages = of_plane(&Plane::Package);
        let meter = of_plane(&Plane::Other(METER.to_owned())).first().copied();
        let asked = choice == Choice::Fixed(Formula::Meter);
        if let Some(meter) = meter.filter(|_| asked || packages.is_empty()) {
            self.terms = vec![(meter, 1.0)];
            return Ok(self.by(Formula::Meter));
        }
        if asked {
            return Err("no external meter was read: --meter FILE|COMMAND gives one".to_owned());
        }
        if packages.is_empty() {
            return Err("no sensor of the processor package works here".to_owned());
        }
        self.terms = packages.iter().map(|&i| (i, 1.0)).collect();
        let elsewhere = match choice {
            Choice::Auto => String::new(),
            Choice::Fixed(asked) => {
                format!("; --gpu-power {asked} is of GPUs, and does not apply to a processor")
            }
        };
        Ok(format!(
            "RAPL PKG of {} package(s): cores, caches and memory controllers, not DRAM{elsewhere}",
            packages.len()
        ))
    }

    /// A formula in words, with the first sensor that it is formed of.
    fn by(&self, formula: Formula) -> String {
        let first = self.terms.first().map(|t| &self.readings.series[t.0]);
        let described =
            first.map_or_else(String::new, |s| format!("{} of {}", s.domain.name, s.source));
        format!(
            "{formula}: {} ({described}); it includes {}",
            formula.equation(),
            formula.includes()
        )
    }

    fn choose_gpu(&mut self, device: &DeviceFacts, choice: Choice) -> Result<String, String> {
        let own = |s: &Series| is_of(s, device);
        let find = |wanted: fn(&Quantity) -> bool, name: &str| {
            self.alive()
                .find(|(_, s)| own(s) && wanted(&s.domain.quantity) && s.domain.name.contains(name))
                .map(|(i, _)| i)
        };
        let clock = find(|q| matches!(q, Quantity::Clock), "sm-clock")
            .or_else(|| find(|q| matches!(q, Quantity::Clock), ""))
            .or_else(|| device.shares_host_memory.then(|| self.only_drm_clock()).flatten());
        let reasons = find(|q| matches!(q, Quantity::Flags), "");
        // Known where power is not, too.
        (self.clock, self.reasons) = (clock, reasons);
        // The planes that work, and the series behind each: the best sensor of a board comes first
        // among its own.
        let mut planes: Planes<Watts> = Planes::default();
        let mut behind: Planes<Watts> = Planes::default();
        for (index, series) in self.alive() {
            let measures =
                matches!(series.domain.quantity, Quantity::Energy { .. } | Quantity::Power { .. });
            let Some(plane) = series.domain.plane.as_ref().filter(|_| measures) else { continue };
            let nvml =
                series.source.contains("nvml") || series.domain.name.contains("power-samples");
            let on_board = nvml || series.domain.device.is_some();
            if on_board && !own(series) {
                continue;
            }
            match (slot(&mut planes, plane, nvml), slot(&mut behind, plane, nvml)) {
                (Some(works), Some(number)) if works.is_none() => {
                    *works = Some(Watts(1.0));
                    *number = Some(Watts(index as f64));
                }
                _ => {}
            }
        }
        let place =
            if device.shares_host_memory { GpuPlace::Integrated } else { GpuPlace::Discrete };
        let Selected { formula, .. } = select(choice, place, &planes).map_err(|why| {
            if choice == Choice::Auto {
                "no sensor of this GPU was found".to_owned()
            } else {
                why.to_string()
            }
        })?;
        let number = |p: Option<Watts>| p.map(|w| w.0 as usize);
        let terms = match formula {
            Formula::Pp1 => vec![(number(behind.pp1), 1.0)],
            Formula::PkgPp0 => vec![(number(behind.pkg), 1.0), (number(behind.pp0), -1.0)],
            Formula::PkgPp0Dram => vec![
                (number(behind.pkg), 1.0),
                (number(behind.pp0), -1.0),
                (number(behind.dram), -1.0),
            ],
            Formula::Nvml => vec![(number(behind.nvml), 1.0)],
            Formula::Hwmon => vec![(number(behind.hwmon), 1.0)],
            Formula::Meter => vec![(number(behind.meter), 1.0)],
        };
        self.terms = terms.into_iter().filter_map(|(i, sign)| Some((i?, sign))).collect();
        Ok(self.by(formula))
    }

    /// The clock of the only card of a kernel driver: a GPU of the processor need not say its
    /// address.
    fn only_drm_clock(&self) -> Option<usize> {
        let is_one = |s: &Series| {
            matches!(s.domain.quantity, Quantity::Clock) && s.source.starts_with("drm:")
        };
        let mut all = self.alive().filter(|(_, s)| is_one(s));
        let (index, first) = all.next()?;
        all.all(|(_, s)| s.source == first.source).then_some(index)
    }

    fn meter_window(&self, index: usize, window: Window) -> Option<Interval> {
        let series = &self.readings.series[index];
        let (from, to) = if series.own_clock { window.real } else { window.raw };
        let length = to.saturating_sub(from);
        let settle = if window.settled { 0 } else { Window::settles_after(length) };
        let inside: Vec<(u64, f64)> = series
            .readings
            .iter()
            .filter(|r| r.0 >= from + settle + series.reach.0 && r.0 + series.reach.1 <= to)
            .map(|r| (r.0, r.1.magnitude()))
            .collect();
        match series.domain.quantity {
            Quantity::Energy { .. } => {
                // Microjoules over nanoseconds; each end is uncertain by half an update.
                let (first, last) = (inside.first()?, inside.last()?);
                let length = (last.0 - first.0) as f64;
                let steps: Vec<&[(u64, f64)]> =
                    inside.windows(2).filter(|w| w[1].1 > w[0].1).collect();
                if steps.len() < 3 {
                    return None;
                }
                let update = length / steps.len() as f64;
                let watts = (last.1 - first.1) * 1e3 / length;
                Some(Interval::symmetric(watts, watts * update / length))
            }
            _ => {
                let watts: Vec<f64> = inside.iter().map(|r| r.1 * 1e-6).collect();
                (watts.len() >= 4).then(|| stats::mean_of_series(&watts)).flatten()
            }
        }
    }

    /// Whether a sensor of the device was found.
    pub fn has_sensor(&self) -> bool {
        !self.terms.is_empty()
    }

    /// Mean watts in a window; nothing where the sensor gave too few readings.
    pub fn watts(&self, window: Window) -> Option<Interval> {
        let mut total: Option<Interval> = None;
        for &(index, sign) in &self.terms {
            let part = self.meter_window(index, window)?;
            let (sum, spread) = total.map_or((0.0, 0.0), |t| (t.value, t.half()));
            total = Some(Interval::symmetric(sum + sign * part.value, spread.hypot(part.half())));
        }
        total
    }

    /// Mean clock in MHz during a window, or the readings next to it where none fell inside.
    pub fn clock_mhz(&self, window: Window) -> Option<Interval> {
        let (inside, near) = self.around(self.clock?, window);
        stats::mean(&inside).filter(|e| e.half().is_finite()).or_else(|| {
            let all: Vec<f64> = inside.into_iter().chain(near).collect();
            stats::mean(&all)
        })
    }

    /// Performance counters in a window: name, unit and mean of the readings that lie wholly
    /// inside. Nothing of those that gave none.
    pub fn counters(&self, window: Window) -> Vec<(String, &'static str, Interval)> {
        let means = self.counters.iter().filter_map(|&index| {
            let series = &self.readings.series[index];
            let (from, to) = if series.own_clock { window.real } else { window.raw };
            let readings = series.readings.iter().zip(&series.over_ns);
            let inside = readings
                .filter(|((at, _), over)| at.saturating_sub(**over) >= from && *at <= to)
                .map(|((_, v), _)| v.magnitude());
            let values: Vec<f64> = inside.filter(|v| v.is_finite()).collect();
            let unit =
                if matches!(series.domain.quantity, Quantity::Percent) { "%" } else { "MiB/s" };
            Some((series.domain.name.clone(), unit, stats::mean(&values)?))
        });
        means.collect()
    }

    /// Clock event reasons seen during a window, as bits.
    pub fn reasons(&self, window: Window) -> Option<u64> {
        let (inside, near) = self.around(self.reasons?, window);
        Some(inside.into_iter().chain(near).fold(0, |bits, b| bits | b as u64))
    }

    fn around(&self, index: usize, window: Window) -> (Vec<f64>, Option<f64>) {
        let series = &self.readings.series[index];
        let (from, to) = if series.own_clock { window.real } else { window.raw };
        let inside = series
            .readings
            .iter()
            .filter(|r| (from..=to).contains(&r.0))
            .map(|r| r.1.magnitude())
            .collect();
        const NEAR_NS: u64 = 300_000_000;
        let near = series
            .readings
            .iter()
            .find(|r| r.0 > to)
            .filter(|r| r.0 - to < NEAR_NS)
            .map(|r| r.1.magnitude());
        (inside, near)
    }
}

#[cfg(test)]
mod tests;
