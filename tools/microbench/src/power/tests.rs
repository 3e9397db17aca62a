//! The way from NVML to watts, over a driver by script: two boards, a load in the middle of a quiet
//! time, a driver without the ring of samples. Owns the script; refuses to read any real sensor.

use super::*;
use clscope_nvml::api::{ClockDomain, Field, GpmSample, PowerSample, Scope, Utilisation};
use clscope_nvml::error::code;
use clscope_nvml::{Api, DeviceInfo, Index, NvmlError, Wanted};
use clscope_sensors::sampler::SamplerHost;
use clscope_sensors::{Clock, RawNs, RealtimeNs};
use std::sync::atomic::AtomicU64;

const MS: u64 = 1_000_000;
/// How far the wall clock is ahead.
const WALL: u64 = 1_700_000_000_000_000_000;
/// The load.
const LOAD: std::ops::Range<u64> = 3_000 * MS..4_200 * MS;

struct Fake {
    now: AtomicU64,
    ring: bool,
}

impl Fake {
    fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }
    fn watts(device: Index, at: u64) -> u64 {
        // A sample tells of the time before it.
        match (device.0, LOAD.contains(&at.saturating_sub(1))) {
            (0, true) => 400,
            (0, false) => 100,
            // The other board never does anything but burn.
            _ => 600,
        }
    }
}

impl Api for Fake {
    fn devices(&self) -> Result<Vec<DeviceInfo>, NvmlError> {
        let device = |n: u32, pci: &str| DeviceInfo {
            index: Index(n),
            name: "NVIDIA Sample".to_owned(),
            uuid: format!("GPU-{n}"),
            pci: pci.to_owned(),
        };
        Ok(vec![device(1, "0000:3b:00.0"), device(0, "0000:d8:00.0")])
    }
    fn power_samples(&self, device: Index, after_us: u64) -> Result<Vec<PowerSample>, NvmlError> {
        if !self.ring {
            return Err(NvmlError::Call {
                call: "ring",
                code: code::NOT_SUPPORTED,
                words: String::new(),
            });
        }
        let last = self.now() / (20 * MS);
        let all = (last.saturating_sub(119)..last).map(|k| k * 20 * MS);
        let sample = |at: u64| PowerSample {
            stamp_us: (WALL + at) / 1000,
            milliwatts: u32::try_from(Fake::watts(device, at) * 1000).unwrap_or(0),
        };
        Ok(all.map(sample).filter(|s| s.stamp_us > after_us).collect())
    }
    fn total_energy_mj(&self, device: Index) -> Result<u64, NvmlError> {
        // Steps of 100 ms.
        Ok((0..self.now() / (100 * MS)).map(|k| 100 * Fake::watts(device, k * 100 * MS)).sum())
    }
    fn field(&self, _: Index, _: Field, _: Scope) -> Result<u64, NvmlError> {
        Err(NvmlError::Call { call: "field", code: code::NOT_SUPPORTED, words: String::new() })
    }
    fn clock_mhz(&self, _: Index, clock: ClockDomain) -> Result<u32, NvmlError> {
        Ok(match clock {
            ClockDomain::Memory => 3201,
            ClockDomain::Sm if LOAD.contains(&self.now()) => 1755,
            ClockDomain::Sm => 1980,
        })
    }
    fn temperature_c(&self, _: Index) -> Result<u32, NvmlError> {
        Ok(40)
    }
    fn clock_reasons(&self, _: Index) -> Result<u64, NvmlError> {
        // SW power cap.
        Ok(if LOAD.contains(&self.now()) { 4 } else { 0 })
    }
    fn power_limit_mw(&self, _: Index) -> Result<u32, NvmlError> {
        Ok(700_000)
    }
    fn utilisation(&self, _: Index) -> Result<Utilisation, NvmlError> {
        Ok(Utilisation { gpu: 0, memory: 0 })
    }
    fn gpm_supported(&self, _: Index) -> Result<bool, NvmlError> {
        Ok(false)
    }
    fn gpm_alloc(&self) -> Result<GpmSample, NvmlError> {
        Err(NvmlError::NoFunction { call: "gpm_alloc" })
    }
    fn gpm_free(&self, _: GpmSample) {}
    fn gpm_get(&self, _: Index, _: &mut GpmSample) -> Result<(), NvmlError> {
        Err(NvmlError::NoFunction { call: "gpm_get" })
    }
    fn gpm_metrics(
        &self,
        _: &GpmSample,
        _: &GpmSample,
        _: &[u32],
    ) -> Result<Vec<Option<f64>>, NvmlError> {
        Err(NvmlError::NoFunction { call: "gpm_metrics" })
    }
}

/// Time is the driver's; each look takes a microsecond, and waiting costs nothing.
struct Virtual(Arc<Fake>);

impl Clock for Virtual {
    fn raw(&mut self) -> RawNs {
        RawNs(self.0.now.fetch_add(1000, Ordering::Relaxed))
    }
    fn realtime(&mut self) -> Option<RealtimeNs> {
        Some(RealtimeNs(WALL + self.0.now()))
    }
}

impl SamplerHost for Virtual {
    fn thread_cpu_ns(&mut self) -> u64 {
        self.0.now() / 1000
    }
    fn sleep_until(&mut self, until: RawNs) {
        self.0.now.fetch_max(until.0, Ordering::Relaxed);
    }
}

fn gpu(pci: Option<&str>) -> DeviceFacts {
    DeviceFacts {
        name: "NVIDIA Sample".to_owned(),
        kind: DeviceKind::Gpu,
        compute_units: 132,
        max_clock_mhz: Some(1980),
        max_group: 1024,
        has_double: true,
        has_fma: true,
        preferred_float_width: 1,
        pci: pci.map(str::to_owned),
        nv_capability: Some((9, 0)),
        nv_warp: Some(32),
        ..DeviceFacts::default()
    }
}

fn sampled(ring: bool, pci: Option<&str>) -> Power {
    let fake = Arc::new(Fake { now: AtomicU64::new(1000 * MS), ring });
    let api: Arc<dyn Api> = Arc::clone(&fake) as _;
    let devices = api.devices().expect("two boards");
    let (sources, _) = clscope_nvml::open(&api, &devices, &Wanted::default());
    let mut readings = Readings::default();
    let mut sampler = Sampler::new(sources, Settings::default(), &mut readings);
    let end = 6_000 * MS;
    let over = || fake.now() > end;
    sampler.run(&mut Virtual(Arc::clone(&fake)), &mut readings, &over);
    Power::new(readings, None, &gpu(pci), &[], Choice::Auto)
}

fn window(from: u64, to: u64) -> Window {
    Window { raw: (from, to), real: (WALL + from, WALL + to), launches: 1, settled: false }
}

#[test]
fn a_load_gets_its_watts_its_clock_and_what_held_it_back() {
    // Addresses are written in several ways.
    for pci in ["0000:d8:00.0", "0000:D8:00.0", "00000000:D8:00.0"] {
        let power = sampled(true, Some(pci));
        let source = power.source().unwrap();
        assert!(source.contains("nvml") && source.contains("power-samples"), "{source}");
        let load = window(LOAD.start, LOAD.end);
        assert_eq!(power.watts(load).map(|e| e.value), Some(400.0));
        assert_eq!(power.watts(window(4_500 * MS, 5_700 * MS)).map(|e| e.value), Some(100.0));
        assert_eq!(power.clock_mhz(load).map(|e| e.value), Some(1755.0));
        assert_eq!(power.reasons(load), Some(4));
        // A launch of some milliseconds has the reading next to it.
        assert_eq!(power.clock_mhz(window(2_000 * MS, 2_001 * MS)).map(|e| e.value), Some(1980.0));
        // What is too short for the sensor has no power, not a wrong one.
        assert_eq!(power.watts(window(LOAD.start, LOAD.start + 60 * MS)), None);
        assert_eq!(power.watts(window(9_000 * MS, 9_900 * MS)), None);
    }
}

#[test]
fn without_the_ring_the_energy_counter_speaks() {
    let power = sampled(false, Some("0000:d8:00.0"));
    assert!(power.source().is_ok_and(|sensor| sensor.contains("energy")), "{:?}", power.source());
    let watts = power.watts(window(LOAD.start, LOAD.end)).expect("a counter of 100 ms steps");
    assert!(watts.low <= 400.0 && 400.0 <= watts.high && watts.half() < 100.0, "{watts:?}");
}

#[test]
fn anothers_sensor_is_never_taken() {
    let power = sampled(true, Some("0000:af:00.0"));
    assert!(power.source().is_err_and(|why| !why.is_empty()), "{:?}", power.source());
    assert_eq!(power.watts(window(LOAD.start, LOAD.end)), None);
    assert_eq!(power.clock_mhz(window(LOAD.start, LOAD.end)), None);
}

/// A counter's reading is a mean over the time before it: one that began before the load says
/// nothing about it.
#[test]
fn counters_are_means_of_whole_readings() {
    use clscope_sensors::source::{DeviceKey, DomainId};
    use clscope_sensors::{Stamp, source};
    let mut readings = Readings::default();
    let of = |pci: &str| Some(DeviceKey { pci: Some(pci.to_owned()), ..DeviceKey::default() });
    for (n, pci) in [(0, "0000:d8:00.0"), (1, "0000:3b:00.0")] {
        let domain = Domain { device: of(pci), ..Domain::new("gpm/fp32", Quantity::Percent) };
        readings.series(SeriesId(n), "nvml:gpm", &domain);
        for k in 1..60u64 {
            let at = RawNs(k * 100 * MS);
            let busy = LOAD.contains(&(at.0 - 1)) && n == 0;
            let reading = source::Reading {
                mean_over_ns: Some(100 * MS),
                ..source::Reading::now(
                    DomainId(0),
                    Stamp { before: at, after: at },
                    Value::Percent(if busy { 96.0 } else { 2.0 }),
                )
            };
            readings.reading(SeriesId(n), &reading);
        }
    }
    let power = Power::new(readings, None, &gpu(Some("0000:d8:00.0")), &[], Choice::Auto);
    let load = window(LOAD.start - 30 * MS, LOAD.end + 30 * MS);
    assert_eq!(
        power.counters(load),
        [("gpm/fp32".to_owned(), "%", Interval::symmetric(96.0, 0.0))]
    );
    assert_eq!(power.counters(window(LOAD.start, LOAD.start + 90 * MS)), [], "too short for any");
}

/// A meter's reading is a mean over its step, placed to so much: it counts for a window that holds
/// all of that. A processor's own sensor goes before it, unless it is asked for.
#[test]
fn a_meter_is_read_where_its_whole_step_lies() {
    let meter = || {
        let readings = (1..60).map(|k: u64| {
            let at = k * 100 * MS;
            let watts = if LOAD.contains(&(at - 1)) { 70 } else { 30 };
            (at, Value::Power(clscope_sensors::units::Microwatts(watts * 1_000_000)))
        });
        let readings: Vec<(u64, Value)> = readings.collect();
        let domain = Domain {
            plane: Some(Plane::Other(METER.to_owned())),
            ..Domain::new("watts", Quantity::Power { window_ns: Some(100 * MS) })
        };
        let series = Series {
            source: "meter".to_owned(),
            domain,
            over_ns: vec![100 * MS; readings.len()],
            reach: (120 * MS, 20 * MS),
            readings,
            own_clock: false,
            dead: false,
        };
        OfMeter { text: "table".to_owned(), read: Ok((series, vec!["placed".to_owned()])) }
    };
    let package = || {
        let mut readings = Readings::default();
        let plane = Some(Plane::Package);
        let domain = Domain { plane, ..Domain::new("p", Quantity::Power { window_ns: None }) };
        readings.series(SeriesId(0), "rapl", &domain);
        let watts = Value::Power(clscope_sensors::units::Microwatts(11_000_000));
        readings.series[0].readings = (1..60).map(|k| (k * 100 * MS, watts)).collect();
        readings
    };
    let cpu = DeviceFacts { kind: DeviceKind::Cpu, ..gpu(None) };
    let meter_asked = Choice::Fixed(Formula::Meter);
    let of = |readings, choice| Power::new(readings, Some(meter()), &cpu, &[], choice);
    // A window that work filled before, and readings that reach out of it on either side.
    let load = Window { settled: true, ..window(LOAD.start - 50 * MS, LOAD.end + 50 * MS) };
    for (power, watts, sensor) in [
        (of(Readings::default(), Choice::Auto), 70.0, "meter: P = P_meter"),
        (of(package(), Choice::Auto), 11.0, "RAPL PKG"),
        (of(package(), meter_asked), 70.0, "meter: P = P_meter"),
        (of(package(), Choice::Fixed(Formula::Nvml)), 11.0, "RAPL PKG"),
    ] {
        let source = power.source().unwrap();
        assert!(source.starts_with(sensor) && source.ends_with("meter: placed"), "{source}");
        assert_eq!(power.watts(load).map(|e| e.value), Some(watts), "{source}");
        assert_eq!(power.meter_table(), Some("table"));
    }
    let without = Power::new(package(), None, &cpu, &[], meter_asked);
    assert!(without.source().is_err_and(|why| why.contains("--meter FILE|COMMAND")));
    // It feeds more than a GPU, and is that GPU's where there is nothing else.
    let alone = Power::new(Readings::default(), Some(meter()), &gpu(None), &[], Choice::Auto);
    assert_eq!(alone.watts(load).map(|e| e.value), Some(70.0));
    let failed = OfMeter {
        text: String::new(),
        read: Err(clscope_capture::meter::Failure::Place {
            what: "x".to_owned(),
            why: "no".to_owned(),
        }),
    };
    let failed = Power::new(package(), Some(failed), &cpu, &[], Choice::Auto);
    assert!(failed.source().unwrap().contains("; meter: no readings: x: its times"));
    assert_eq!(failed.watts(load).map(|e| e.value), Some(11.0));
}
