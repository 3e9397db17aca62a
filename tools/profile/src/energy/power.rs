//! Owns the way from a device to the readings of its power: which sensors are its own, which
//! formula forms its power of them, and the series that results. Refuses to mix planes of different
//! hosts or a card's with a processor's.

use super::activity::{Kind, PhysicalDevice};
use super::planes::Processor;
use super::readings::{Readings, Sensor};
use clscope_analysis::energy::combine::{Points, combined, combined_between_readings};
use clscope_analysis::energy::{HostNs, Parameter, ResponseModel, Series, restamped};
use clscope_analysis::quantile::median;
use clscope_sensors::SourceKind;
use clscope_sensors::gpu_power::{
    Choice, Containment, ContainmentTest, Formula, GpuPlace, NoFormula, Planes, select,
};
use clscope_sensors::source::POWER_LIMIT;
use clscope_trace::ids::{normal_pci, normal_uuid};
use clscope_trace::sensors::Quantity;

/// Windows of combined planes, seconds: long against the millisecond at which each of them steps by
/// itself.
const WINDOW_S: f64 = 0.05;
/// Windows of the containment test, seconds.
const TEST_S: f64 = 1.0;
/// Slowest update of a counter that is taken where the sampler could not measure it, seconds.
const RAPL_PERIOD_S: f64 = 0.001;

/// Power of one device.
pub struct Power {
    /// Name of the formula: `nvml`, `pkg`, ...
    pub formula: &'static str,
    /// Written out.
    pub equation: &'static str,
    /// What the figure includes.
    pub includes: String,
    /// Why this formula.
    pub reason: String,
    /// How the sensor was matched to the device.
    pub matched: String,
    /// The series that it is formed of, for people.
    pub sources: Vec<String>,
    /// The readings, combined.
    pub series: Series,
    /// What is known of its response.
    pub response: ResponseModel,
    /// Step between its readings, seconds.
    pub period: f64,
    /// Time after the end of a load for which readings still show it, seconds.
    pub settle: f64,
    /// The largest limit of its power that was in force, watts, where the driver tells it.
    pub limit: Option<f64>,
    /// Where a counter was read around commands only: its update period, seconds. `series` are then
    /// the windows between two readings.
    pub around: Option<f64>,
}

/// Why the power of a device is not known.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NoPower {
    /// A processor without counters.
    #[error("no working counter of the processor package (PKG)")]
    NoPackage,
    /// A meter was asked for.
    #[error(
        "no readings of an external meter: `clscope record --meter` or `clscope meter` adds them"
    )]
    NoMeter,
    /// A GPU without a sensor of the formula.
    #[error("no sensor of the GPU reads its energy or power")]
    NoSensor,
    /// Packages of one host have different planes.
    #[error("a package lacks a plane that the others have")]
    UnlikePackages,
    /// No formula applies to what there is.
    #[error(transparent)]
    NoFormula(#[from] NoFormula),
}

/// The planes of a host's processor, or a device's own sensors.
pub(super) fn usable(readings: &Readings, host: usize) -> impl Iterator<Item = &Sensor> {
    readings
        .sensors
        .iter()
        .filter(move |s| s.host == host && s.dead.is_none() && !s.repeats && s.points.len() > 1)
}

fn is_power(sensor: &Sensor) -> bool {
    matches!(sensor.series.quantity, Quantity::Energy | Quantity::Power)
}

/// Whether a sensor is this device's, and how that is known.
pub fn own(device: &PhysicalDevice, sensor: &Sensor, alone: bool) -> Option<String> {
    let series = &sensor.series;
    if series.pci.is_none() && series.uuid.is_none() && series.device.is_none() {
        return None;
    }
    if let (Some(a), Some(b)) = (&device.pci, series.pci.as_deref().and_then(normal_pci)) {
        return (*a == b).then(|| format!("PCI address {a}"));
    }
    if let (Some(a), Some(b)) = (&device.uuid, series.uuid.as_deref().and_then(normal_uuid)) {
        return (*a == b).then(|| format!("UUID {b}"));
    }
    let name = series.device.as_deref()?;
    (alone && (device.name.contains(name) || name.contains(&device.name)))
        .then(|| format!("name {name}, the only GPU of it"))
}

fn kind(sensor: &Sensor) -> SourceKind {
    SourceKind::of_source(&sensor.series.source)
}

/// As the sampler measured it, else the median step between points that change, seconds.
fn period(sensor: &Sensor) -> f64 {
    let step = |pair: &[(HostNs, f64)]| pair[1].0.0.saturating_sub(pair[0].0.0) as f64 * 1e-9;
    let measured = sensor.period_ns.map(|ns| ns * 1e-9);
    measured.or_else(|| median(steps(&sensor.points).windows(2).map(step))).unwrap_or(0.0)
}

/// Points without those that repeat the value before.
fn steps(points: &[(HostNs, f64)]) -> Vec<(HostNs, f64)> {
    let mut out: Vec<(HostNs, f64)> = Vec::new();
    for point in points {
        if out.last().is_none_or(|last| last.1 != point.1) {
            out.push(*point);
        }
    }
    out
}

/// One sensor as a series with its response, as far as its kind or a calibration determines it; the
/// fit finds the rest.
fn single(sensor: &Sensor, readings: &Readings) -> (Series, ResponseModel, f64, f64) {
    let known = readings
        .calibrated
        .get(&(sensor.series.source.clone(), sensor.series.name.clone()))
        .copied()
        .unwrap_or_default();
    let period = sensor
        .period_ns
        .map(|ns| ns * 1e-9)
        .or(known.period.map(|p| p.0))
        .unwrap_or_else(|| period(sensor));
    let is_energy = sensor.series.quantity == Quantity::Energy;
    let points = match sensor.series.window_ns {
        // Samples that a driver's own thread stamps, and may stamp late.
        None if !is_energy && sensor.series.name == "power-samples" => restamped(&sensor.points),
        _ => sensor.points.clone(),
    };
    let points = parted(points, &sensor.starts);
    if is_energy {
        let period = if period > 0.0 { period } else { RAPL_PERIOD_S };
        let response = ResponseModel::counter(period);
        return (Series::Cumulative(points), response, period, 3.0 * period);
    }
    let (mut response, settle) = match sensor.series.window_ns.map(|ns| ns as f64 * 1e-9) {
        Some(window) => (ResponseModel::averaged_samples(period, window.max(period)), 2.0 * window),
        None => (ResponseModel::lagged_samples(period), 6.0 * period),
    };
    if let (Some(window), None) = (known.window, known.lag) {
        // A load that comes and goes shows other edges than a mix of kernels: the run decides
        // between the window that was calibrated and the lag that is usual.
        response.window = narrowed(Parameter::free(0.0, f64::MAX, window.0), Some(window));
        response.delay = ResponseModel::lagged_samples(period).delay;
    } else {
        response.lag = narrowed(response.lag, known.lag);
        response.delay = narrowed(response.delay, known.delay);
    }
    (Series::Instant(points), response, period, settle)
}

/// Readings with a value that is not a number before each at which another recording begins.
fn parted(mut points: Vec<(HostNs, f64)>, starts: &[HostNs]) -> Vec<(HostNs, f64)> {
    for start in starts {
        let at = points.partition_point(|p| p.0 < *start);
        points.insert(at, (HostNs(start.0.saturating_sub(1)), f64::NAN));
    }
    points
}

/// A parameter within twice the uncertainty of its calibration, and not outside its own range.
fn narrowed(parameter: Parameter, known: Option<(f64, f64)>) -> Parameter {
    let (Parameter::Free { from, to, .. }, Some((value, uncertainty))) = (parameter, known) else {
        return parameter;
    };
    let (low, high) = ((value - 2.0 * uncertainty).max(from), (value + 2.0 * uncertainty).min(to));
    if low < high { Parameter::free(low, high, value.clamp(low, high)) } else { parameter }
}

/// The terms' readings, each recording by itself, summed over windows of so many seconds; without,
/// from each reading to the next.
fn sum_of(terms: &[(f64, &Sensor)], window: Option<f64>) -> Vec<(HostNs, HostNs, f64)> {
    let parts: Vec<(f64, Vec<(HostNs, f64)>)> =
        terms.iter().map(|(sign, s)| (*sign, parted(s.points.clone(), &s.starts))).collect();
    let points: Vec<(f64, Points<'_>)> = parts.iter().map(|(sign, p)| (*sign, &p[..])).collect();
    match window {
        Some(window) => combined(&points, window),
        None => combined_between_readings(&points),
    }
}

/// The update period of counters that were read around commands only.
fn around(terms: &[(f64, &Sensor)], readings: &Readings) -> Option<f64> {
    let are_counters = terms.iter().all(|(_, s)| s.series.quantity == Quantity::Energy);
    let period = |s: &Sensor| s.period_ns.map_or(RAPL_PERIOD_S, |ns| ns * 1e-9);
    (readings.around_commands && are_counters)
        .then(|| terms.iter().map(|(_, s)| period(s)).fold(0.0, f64::max))
}

fn of_terms(terms: &[(f64, &Sensor)], readings: &Readings) -> (Series, ResponseModel, f64, f64) {
    if let Some(step) = around(terms, readings) {
        let windows = sum_of(terms, None);
        let period = median(windows.iter().map(|w| w.1.seconds_since(w.0))).unwrap_or(0.0);
        return (Series::WindowMean(windows), ResponseModel::shifted_windows(step), period, step);
    }
    match terms {
        [(1.0, one)] => single(one, readings),
        _ => {
            let series = Series::WindowMean(sum_of(terms, Some(WINDOW_S)));
            (series, ResponseModel::shifted_windows(WINDOW_S / 10.0), WINDOW_S, 2.0 * WINDOW_S)
        }
    }
}

/// Where a GPU sits, as far as the trace shows.
fn place(device: &PhysicalDevice, has_own: bool) -> GpuPlace {
    let vendor = device.vendor.to_lowercase();
    if has_own && !vendor.contains("intel") || vendor.contains("nvidia") {
        return GpuPlace::Discrete;
    }
    match &device.pci {
        // Root-complex devices sit on bus 0; cards behind a bridge do not.
        Some(pci) if pci.get(5..7) == Some("00") => GpuPlace::Integrated,
        Some(_) if has_own => GpuPlace::Discrete,
        None if vendor.contains("intel") && !has_own => GpuPlace::Integrated,
        _ => GpuPlace::Unknown,
    }
}

/// The power of a device.
///
/// # Errors
/// Why there is none.
pub fn power_of(
    device: &PhysicalDevice,
    devices: &[PhysicalDevice],
    readings: &Readings,
    choice: Choice,
) -> Result<Power, NoPower> {
    let processor = Processor::of(readings, device.host);
    let meter = usable(readings, device.host)
        .find(|s| kind(s) == SourceKind::Meter && s.series.quantity == Quantity::Power);
    let asked = choice == Choice::Fixed(Formula::Meter);
    // What it reads is of one device only where no other worked.
    let works_alone =
        devices.iter().filter(|d| d.host == device.host && !d.spans.is_empty()).count() <= 1;
    let meter = meter.filter(|_| asked || works_alone);
    if let Some(meter) = meter
        && (asked || (device.kind == Kind::Cpu && processor.get("PKG").is_none()))
    {
        let reason = if asked { "asked for" } else { "the only sensor of power" };
        return Ok(by_meter(meter, readings, reason.to_owned()));
    }
    if device.kind == Kind::Cpu {
        if asked {
            return Err(NoPower::NoMeter);
        }
        let terms = processor.terms("PKG", 1.0).ok_or(NoPower::NoPackage)?;
        let includes = "the processor package: cores, caches, memory controller, an integrated GPU; other programs too";
        let reason = match choice {
            Choice::Auto => "what there is for a processor".to_owned(),
            Choice::Fixed(asked) => format!(
                "what there is for a processor; --gpu-power {asked} is of GPUs, and does not apply"
            ),
        };
        let all = if terms.len() > 1 { "all packages" } else { "the package" };
        let matched = format!("{all} of this host");
        let equation = ("pkg", "P_CPU = P_PKG");
        return Ok(read_by(&terms, readings, equation, [includes.to_owned(), reason, matched]));
    }
    let alone =
        devices.iter().filter(|d| d.host == device.host && d.kind == Kind::Gpu).count() == 1;
    let mut matched = String::new();
    let mut mine: Vec<&Sensor> = Vec::new();
    for sensor in usable(readings, device.host).filter(|s| {
        is_power(s) && ["GPU", "GPU card", "CPU and GPU"].contains(&s.series.plane.as_str())
    }) {
        // A series without any device, from a recorded file, belongs to the only GPU.
        let anybody = sensor.series.pci.is_none()
            && sensor.series.uuid.is_none()
            && sensor.series.device.is_none()
            && alone;
        if let Some(how) = own(device, sensor, alone)
            .or_else(|| anybody.then(|| "the only GPU and the only GPU sensor".to_owned()))
        {
            matched = how;
            mine.push(sensor);
        }
    }
    let nvml: Vec<&Sensor> = mine
        .iter()
        .copied()
        .filter(|s| kind(s).is_nvml() || kind(s) == SourceKind::Replay)
        .collect();
    let hwmon: Vec<&Sensor> =
        mine.iter().copied().filter(|s| kind(s) == SourceKind::Hwmon).collect();
    let works = |sensors: Option<&[&Sensor]>| sensors.filter(|s| !s.is_empty()).map(|_| 0.0);
    let planes = Planes {
        pkg: works(processor.get("PKG")),
        pp0: works(processor.get("PP0")),
        pp1: works(processor.get("PP1")),
        dram: works(processor.get("DRAM")),
        nvml: works(Some(&nvml)),
        hwmon: works(Some(&hwmon)),
        meter: meter.map(|_| 0.0),
    };
    let selected = select(choice, place(device, !mine.is_empty()), &planes)?;
    let formula = selected.formula;
    if let (Formula::Meter, Some(meter)) = (formula, meter) {
        return Ok(by_meter(meter, readings, selected.reason));
    }
    let includes = || formula.includes().to_owned();
    let (terms, includes) = match formula {
        Formula::Nvml | Formula::Hwmon => {
            let candidates = if formula == Formula::Nvml { &nvml } else { &hwmon };
            let best =
                candidates.iter().copied().min_by_key(|s| rank(s)).ok_or(NoPower::NoSensor)?;
            (vec![(1.0, best)], best.series.includes.clone().unwrap_or_else(includes))
        }
        _ => {
            matched = "the processor's planes, since the GPU is part of it".to_owned();
            (processor.formula(formula).ok_or(NoPower::UnlikePackages)?, includes())
        }
    };
    let equation = (formula.name(), formula.equation());
    let power = read_by(&terms, readings, equation, [includes, selected.reason, matched]);
    Ok(Power { limit: limit(device, readings, alone), ..power })
}

/// Power as these sensors read it, with what it includes, why it is this one, and how it was matched.
fn read_by(
    terms: &[(f64, &Sensor)],
    readings: &Readings,
    (formula, equation): (&'static str, &'static str),
    [includes, reason, matched]: [String; 3],
) -> Power {
    let (series, response, period, settle) = of_terms(terms, readings);
    Power {
        formula,
        equation,
        includes,
        reason,
        matched,
        sources: terms.iter().map(|(_, s)| s.name()).collect(),
        series,
        response,
        period,
        settle,
        limit: None,
        around: around(terms, readings),
    }
}

/// Power as an external meter reads it.
fn by_meter(meter: &Sensor, readings: &Readings, reason: String) -> Power {
    let formula = Formula::Meter;
    let includes = meter.series.includes.clone().unwrap_or_else(|| formula.includes().to_owned());
    let matched = "the host that was recorded".to_owned();
    let equation = (formula.name(), formula.equation());
    read_by(&[(1.0, meter)], readings, equation, [includes, reason, matched])
}

/// The largest limit of a device's power that was in force, watts.
fn limit(device: &PhysicalDevice, readings: &Readings, alone: bool) -> Option<f64> {
    let of_device = |s: &&Sensor| {
        s.host == device.host
            && s.series.name == POWER_LIMIT
            && s.series.quantity == Quantity::Power
            && own(device, s, alone).is_some()
    };
    let sensors = readings.sensors.iter().filter(of_device);
    let watts = sensors.flat_map(|s| s.points.iter().map(|point| point.1));
    watts.filter(|watts| *watts > 0.0).max_by(f64::total_cmp)
}

/// The driver's samples first, then instant power, then counters, then averages.
fn rank(sensor: &Sensor) -> u8 {
    match (sensor.series.quantity, sensor.series.window_ns) {
        _ if sensor.series.name == "power-samples" => 0,
        (Quantity::Energy, _) if kind(sensor) == SourceKind::Hwmon => {
            u8::from(sensor.series.plane != "GPU")
        }
        (Quantity::Power, None) => 2,
        (Quantity::Energy, _) => 3,
        _ => 4,
    }
}

/// The power by the formula pkg-pp0-dram, where its three domains exist; for devices in the
/// processor only.
pub fn reference(device: &PhysicalDevice, readings: &Readings) -> Option<(Series, ResponseModel)> {
    let processor = Processor::of(readings, device.host);
    if device.kind != Kind::Gpu || place(device, false) == GpuPlace::Discrete {
        return None;
    }
    let (series, response, ..) = of_terms(&processor.formula(Formula::PkgPp0Dram)?, readings);
    Some((series, response))
}

/// The result of the containment test for a host's processor.
pub fn containment(readings: &Readings, host: usize) -> Containment {
    let processor = Processor::of(readings, host);
    let mut test = ContainmentTest::default();
    let windows = |plane: &str| {
        processor.terms(plane, 1.0).map(|terms| (sum_of(&terms, Some(TEST_S)), terms))
    };
    let (Some((pkg, of_pkg)), Some((pp0, _)), Some((dram, _))) =
        (windows("PKG"), windows("PP0"), windows("DRAM"))
    else {
        return test.verdict();
    };
    let pp1 = windows("PP1").map(|w| w.0);
    // Two updates of each plane may be on the wrong side of a window's edge.
    let step = of_pkg.iter().map(|(_, s)| period(s)).fold(RAPL_PERIOD_S, f64::max);
    for (at, _, pkg) in &pkg {
        let near = |of: &[(HostNs, HostNs, f64)]| {
            let first = of.partition_point(|w| w.0.0 <= at.0.saturating_sub(100_000_000));
            let found = of.get(first).filter(|w| w.0.0 < at.0.saturating_add(100_000_000));
            found.map(|w| w.2)
        };
        let planes = Planes {
            pkg: Some(*pkg),
            pp0: near(&pp0),
            dram: near(&dram),
            pp1: pp1.as_deref().and_then(near),
            ..Planes::default()
        };
        let drawn = pkg.abs() + dram.first().map_or(0.0, |w| w.2.abs());
        test.window(&planes, 4.0 * step / TEST_S * drawn);
    }
    test.verdict()
}

/// Steps of a counter over which its power is formed: single ones jitter.
const STEPS: usize = 4;

impl Power {
    /// The largest power that the sensor saw, in watts.
    pub fn seen(&self) -> Option<f64> {
        let watts: Vec<f64> = match &self.series {
            Series::Instant(points) => points.iter().map(|p| p.1).collect(),
            Series::WindowMean(rows) => rows.iter().map(|r| r.2).collect(),
            Series::Cumulative(points) => {
                let steps = steps(points);
                let over = steps.windows(STEPS + 1).filter_map(|w| w.first().zip(w.last()));
                over.map(|(a, b)| (b.1 - a.1) / b.0.seconds_since(a.0)).collect()
            }
        };
        watts.into_iter().filter(|w| w.is_finite()).max_by(f64::total_cmp)
    }
}

#[cfg(test)]
impl Power {
    /// Of one series, for tests.
    pub fn of_series(series: Series, response: ResponseModel, period: f64, settle: f64) -> Self {
        let text = String::new;
        Self {
            formula: "nvml",
            equation: "",
            includes: text(),
            reason: text(),
            matched: text(),
            sources: Vec::new(),
            series,
            response,
            period,
            settle,
            limit: None,
            around: None,
        }
    }
}

#[cfg(test)]
mod tests;
