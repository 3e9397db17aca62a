//! The logic over a scripted NVML: a driver that snapshots on its own clock, loses and repeats
//! samples, answers NaN as the real one does, and lacks functions.

use clscope_nvml::api::{ClockDomain, Field, GpmSample, PowerSample, Scope, Utilisation};
use clscope_nvml::error::code;
use clscope_nvml::gpm::{Gpm, METRICS, Novelty, POLL_NS, PROBE, Poller, novelty};
use clscope_nvml::ring::PowerRing;
use clscope_nvml::status::Polled;
use clscope_nvml::{Api, DeviceInfo, Index, NvmlError, Wanted};
use clscope_sensors::doctor::State;
use clscope_sensors::{Clock, RawNs, Reading, RealtimeNs, SensorError, SensorSource, Value};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const MS: u64 = 1_000_000;

/// A GPU by script. Time is the test's.
#[derive(Default)]
struct Fake {
    now: AtomicU64,
    /// What is there to be had.
    lacks: Vec<&'static str>,
    ring: Mutex<Vec<PowerSample>>,
    /// Snapshot number of each allocated sample buffer.
    samples: Mutex<BTreeMap<usize, u64>>,
    freed: AtomicU64,
    /// When snapshots were taken, and the FP32 percentage from each to the next.
    snapshots: Vec<(u64, f64)>,
    busy: bool,
    /// Whether equal snapshots answer 0 instead of NaN for the probe.
    no_probe: bool,
}

impl Fake {
    fn check(&self, call: &'static str) -> Result<(), NvmlError> {
        if self.lacks.contains(&call) {
            return Err(NvmlError::Call {
                call,
                code: code::NOT_SUPPORTED,
                words: "Not Supported".to_owned(),
            });
        }
        Ok(())
    }

    fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    fn snapshot(&self) -> u64 {
        self.snapshots.partition_point(|(t, _)| *t <= self.now()) as u64
    }
}

impl Api for Fake {
    fn devices(&self) -> Result<Vec<DeviceInfo>, NvmlError> {
        Ok(vec![device()])
    }
    fn power_samples(&self, _: Index, after_us: u64) -> Result<Vec<PowerSample>, NvmlError> {
        self.check("ring")?;
        Ok(self.ring.lock().unwrap().iter().copied().filter(|s| s.stamp_us > after_us).collect())
    }
    fn total_energy_mj(&self, _: Index) -> Result<u64, NvmlError> {
        self.check("energy")?;
        Ok(self.now() / 100 / MS)
    }
    fn field(&self, _: Index, field: Field, scope: Scope) -> Result<u64, NvmlError> {
        self.check("field")?;
        match (field, scope) {
            (Field::PowerAverage, Scope::Module) => Ok(0),
            (Field::PowerAverage, Scope::Memory) => Ok(40_500),
            _ => Ok(240_000),
        }
    }
    fn clock_mhz(&self, _: Index, clock: ClockDomain) -> Result<u32, NvmlError> {
        Ok(if clock == ClockDomain::Sm { 1980 } else { 3201 })
    }
    fn temperature_c(&self, _: Index) -> Result<u32, NvmlError> {
        self.check("temperature")?;
        Ok(41)
    }
    fn clock_reasons(&self, _: Index) -> Result<u64, NvmlError> {
        Ok(4)
    }
    fn power_limit_mw(&self, _: Index) -> Result<u32, NvmlError> {
        self.check("limit")?;
        Ok(700_000)
    }
    fn utilisation(&self, _: Index) -> Result<Utilisation, NvmlError> {
        Ok(Utilisation { gpu: if self.busy { 100 } else { 0 }, memory: 0 })
    }
    fn gpm_supported(&self, _: Index) -> Result<bool, NvmlError> {
        Ok(!self.lacks.contains(&"gpm"))
    }
    fn gpm_alloc(&self) -> Result<GpmSample, NvmlError> {
        let mut samples = self.samples.lock().unwrap();
        let id = samples.len() + 1;
        if self.lacks.contains(&"second sample") && id > 1 {
            return Err(NvmlError::Call {
                call: "alloc",
                code: 20,
                words: "out of memory".to_owned(),
            });
        }
        samples.insert(id, 0);
        Ok(GpmSample(id))
    }
    fn gpm_free(&self, sample: GpmSample) {
        assert!(self.samples.lock().unwrap().contains_key(&sample.0));
        self.freed.fetch_add(1, Ordering::Relaxed);
    }
    fn gpm_get(&self, _: Index, sample: &mut GpmSample) -> Result<(), NvmlError> {
        self.samples.lock().unwrap().insert(sample.0, self.snapshot());
        Ok(())
    }
    fn gpm_metrics(
        &self,
        from: &GpmSample,
        to: &GpmSample,
        ids: &[u32],
    ) -> Result<Vec<Option<f64>>, NvmlError> {
        let samples = self.samples.lock().unwrap();
        let (from, to) = (samples[&from.0] as usize, samples[&to.0] as usize);
        assert!(from <= to, "samples go forward");
        let value = |id: u32| match id {
            60 | 61 => None,
            PROBE if self.no_probe => None,
            PROBE if from == to => Some(f64::NAN),
            12 if from < to => Some(self.snapshots[to - 1].1),
            _ => Some(0.0),
        };
        Ok(ids.iter().map(|id| value(*id)).collect())
    }
}

fn device() -> DeviceInfo {
    DeviceInfo {
        index: Index(0),
        name: "Fake".to_owned(),
        uuid: "GPU-0".to_owned(),
        pci: "0000:19:00.0".to_owned(),
    }
}

/// Both clocks follow the fake's time; the wall clock is 10^18 ahead. Each look takes a
/// microsecond.
struct Clocks(Arc<Fake>);

const WALL: u64 = 1_000_000_000_000_000_000;

impl Clock for Clocks {
    fn raw(&mut self) -> RawNs {
        RawNs(self.0.now.fetch_add(1000, Ordering::Relaxed))
    }
    fn realtime(&mut self) -> Option<RealtimeNs> {
        Some(RealtimeNs(WALL + self.0.now()))
    }
}

/// Snapshots at intervals that vary as the real ones do, from 40 ms on; each with its own FP32
/// share.
fn snapshots(count: u64, share: impl Fn(u64) -> f64) -> Vec<(u64, f64)> {
    let mut at = 40 * MS;
    (0..count)
        .map(|i| {
            at += (97 + i * 7 % 6) * MS;
            (at, share(i))
        })
        .collect()
}

fn poll_for(
    poller: &mut Poller,
    fake: &Arc<Fake>,
    ms: u64,
) -> (Vec<clscope_nvml::gpm::Window>, Vec<NvmlError>) {
    let (mut windows, mut errors) = (Vec::new(), Vec::new());
    let end = fake.now() + ms * MS;
    while fake.now() < end {
        match poller.poll(&mut Clocks(Arc::clone(fake))) {
            Ok(window) => windows.extend(window),
            Err(error) => errors.push(error),
        }
        fake.now.fetch_add(POLL_NS, Ordering::Relaxed);
    }
    (windows, errors)
}

#[test]
fn each_snapshot_gives_one_window_with_its_true_bounds() {
    let truth = snapshots(50, |i| 10.0 + i as f64);
    let fake = Arc::new(Fake { snapshots: truth.clone(), busy: true, ..Fake::default() });
    let mut poller = Poller::new(Arc::clone(&fake) as _, &device(), &[12, 60]).unwrap();
    assert_eq!(poller.ids(), [12, 60, PROBE]);
    let (windows, errors) = poll_for(&mut poller, &fake, 3000);
    assert!(errors.is_empty(), "{errors:?}");
    // The first snapshot seen to appear only starts the first window.
    for (i, window) in windows.iter().enumerate() {
        let ((from, _), (to, share)) = (truth[i], truth[i + 1]);
        assert!(
            window.begin.before.0 <= from && from <= window.begin.after.0,
            "{i} {window:?} {from}"
        );
        assert!(window.end.before.0 <= to && to <= window.end.after.0, "{i} {window:?} {to}");
        assert!(window.end.uncertainty_ns() < 3 * MS);
        assert_eq!(window.values[..2], [Some(share), None]);
    }
    let counts = poller.counts();
    assert!(windows.len() >= 27 && counts.windows == windows.len() as u64, "{counts:?}");
    assert_eq!((counts.missed, counts.refused, counts.unsynchronised), (0, 0, 1));
    drop(poller);
    assert_eq!(fake.freed.load(Ordering::Relaxed), 2);
}

/// Polls when the poller wants to be asked, each call taking `cost` and coming late by what `late`
/// says.
fn poll_as_told(
    poller: &mut Poller,
    fake: &Arc<Fake>,
    ms: u64,
    cost: u64,
    late: impl Fn(u64) -> u64,
) -> Vec<clscope_nvml::gpm::Window> {
    let mut windows = Vec::new();
    let (end, mut polls) = (fake.now() + ms * MS, 0);
    while fake.now() < end {
        windows.extend(poller.poll(&mut Clocks(Arc::clone(fake))).unwrap());
        let now = fake.now.fetch_add(cost, Ordering::Relaxed) + cost;
        let wait = poller.due_in_ns(RawNs(now)) + late(polls);
        fake.now.fetch_add(wait, Ordering::Relaxed);
        polls += 1;
    }
    windows
}

/// The snapshot nearest to a moment.
fn nearest(truth: &[(u64, f64)], at: u64) -> (u64, f64) {
    *truth.iter().min_by_key(|(t, _)| t.abs_diff(at)).unwrap()
}

#[test]
fn it_asks_only_when_a_snapshot_is_due() {
    let truth = snapshots(320, |i| 10.0 + (i % 80) as f64);
    let fake = Arc::new(Fake { snapshots: truth.clone(), busy: true, ..Fake::default() });
    let mut poller = Poller::new(Arc::clone(&fake) as _, &device(), &[12]).unwrap();
    let windows = poll_as_told(&mut poller, &fake, 30_000, 1_600_000, |_| 100_000);
    let counts = poller.counts();
    assert!(counts.windows >= 295 && counts.missed == 0, "{counts:?}");
    assert!(counts.polls <= 3 * counts.windows, "{counts:?}");
    let mut held = 0;
    for window in &windows {
        let (to, share) = nearest(&truth, window.end.mid().0);
        // Where it was not asked on both sides, it is where the beat puts it: this driver wavers
        // about it by 2 ms.
        assert!(
            window.end.before.0 <= to + 4 * MS && to <= window.end.after.0 + 4 * MS,
            "{window:?} {to}"
        );
        held += usize::from(window.end.before.0 <= to && to <= window.end.after.0);
        assert_eq!(window.values[0], Some(share));
    }
    assert!(held * 10 >= windows.len() * 9, "{held} of {}", windows.len());
    assert!(
        windows.iter().filter(|w| w.end.uncertainty_ns() <= 6 * MS).count() * 10
            >= windows.len() * 9
    );
}

#[test]
fn a_driver_that_keeps_its_beat_is_asked_once_for_each_snapshot() {
    // As on an H200: every 100.05 ms to some tenths of a millisecond.
    let truth: Vec<(u64, f64)> = (1..640u64)
        .map(|i| (i * 100_050_000 + i * 7919 % 300 * 1000, 10.0 + (i % 80) as f64))
        .collect();
    let fake = Arc::new(Fake { snapshots: truth.clone(), busy: true, ..Fake::default() });
    let mut poller = Poller::new(Arc::clone(&fake) as _, &device(), &[12]).unwrap();
    let windows = poll_as_told(&mut poller, &fake, 60_000, 2_000_000, |n| n % 5 * 100_000);
    let counts = poller.counts();
    assert!(counts.windows >= 595 && counts.missed == 0, "{counts:?}");
    assert!(counts.polls * 100 <= counts.windows * 125, "{counts:?}");
    for window in &windows {
        let (to, share) = nearest(&truth, window.end.mid().0);
        assert!(
            window.end.before.0 <= to + MS / 2 && to <= window.end.after.0 + MS / 2,
            "{window:?} {to}"
        );
        assert_eq!(window.values[0], Some(share));
    }
}

#[test]
fn a_loaded_machine_still_puts_snapshots_in_their_places() {
    let truth = snapshots(320, |i| 10.0 + (i % 80) as f64);
    let fake = Arc::new(Fake { snapshots: truth.clone(), busy: true, ..Fake::default() });
    let mut poller = Poller::new(Arc::clone(&fake) as _, &device(), &[12]).unwrap();
    // Every eleventh poll comes 60 ms late.
    let windows =
        poll_as_told(
            &mut poller,
            &fake,
            30_000,
            1_600_000,
            |n| if n % 11 == 0 { 60 * MS } else { 0 },
        );
    assert!(windows.len() > 200, "{}", windows.len());
    let mut wide = 0;
    for window in &windows {
        let (to, _) = nearest(&truth, window.end.mid().0);
        assert!(
            window.end.before.0 <= to + 8 * MS && to <= window.end.after.0 + 8 * MS,
            "{window:?} {to}"
        );
        wide += usize::from(window.end.uncertainty_ns() > 10 * MS);
    }
    assert!(wide * 5 < windows.len(), "{wide} of {}", windows.len());
}

#[test]
fn an_idle_device_gives_zeros_that_are_true() {
    let fake = Arc::new(Fake { snapshots: snapshots(20, |_| 0.0), ..Fake::default() });
    let mut poller = Poller::new(Arc::clone(&fake) as _, &device(), &[12]).unwrap();
    let (windows, _) = poll_for(&mut poller, &fake, 1500);
    assert!(windows.len() >= 12, "{}", windows.len());
    assert!(windows.iter().all(|w| w.values[0] == Some(0.0)));
}

#[test]
fn zeros_of_a_busy_device_are_refused() {
    let fake = Arc::new(Fake {
        snapshots: snapshots(20, |i| if i == 5 { 0.0 } else { 80.0 }),
        busy: true,
        ..Fake::default()
    });
    let mut poller = Poller::new(Arc::clone(&fake) as _, &device(), &[12]).unwrap();
    let (windows, _) = poll_for(&mut poller, &fake, 1800);
    assert!(windows.iter().all(|w| w.values[0] == Some(80.0)));
    let counts = poller.counts();
    // Refused, then one more left out, since it is not known when the refused one appeared.
    assert_eq!((counts.refused, counts.unsynchronised), (1, 2), "{counts:?}");
}

#[test]
fn slow_polls_count_what_they_missed() {
    let fake = Arc::new(Fake { snapshots: snapshots(50, |_| 50.0), busy: true, ..Fake::default() });
    let mut poller = Poller::new(Arc::clone(&fake) as _, &device(), &[12]).unwrap();
    poll_for(&mut poller, &fake, 500);
    fake.now.fetch_add(1000 * MS, Ordering::Relaxed);
    poll_for(&mut poller, &fake, 500);
    let missed = poller.counts().missed;
    assert!((9..=11).contains(&missed), "{missed}");
}

#[test]
fn silence_is_an_error_once_in_two_seconds() {
    let fake = Arc::new(Fake { snapshots: snapshots(3, |_| 50.0), busy: true, ..Fake::default() });
    let mut poller = Poller::new(Arc::clone(&fake) as _, &device(), &[12]).unwrap();
    let (_, errors) = poll_for(&mut poller, &fake, 7000);
    assert_eq!(errors.len(), 3, "{errors:?}");
    assert!(errors.iter().all(|e| matches!(e, NvmlError::NoSnapshot { .. }) && !e.is_fatal()));
}

#[test]
fn novelty_by_table() {
    let ids = [12, PROBE];
    let nan = Some(f64::NAN);
    let table = [
        ("probe NaN", vec![Some(0.0), nan], 4, true, Novelty::Same),
        ("probe NaN though others are set", vec![Some(3.0), nan], 200, true, Novelty::Same),
        ("values", vec![Some(3.0), Some(0.0)], 97, true, Novelty::New),
        ("idle", vec![Some(0.0), Some(0.0)], 97, false, Novelty::New),
        ("zeros too soon", vec![Some(0.0), Some(0.0)], 10, false, Novelty::Same),
        ("zeros while busy", vec![Some(0.0), Some(0.0)], 97, true, Novelty::Refused),
        ("no probe, values", vec![Some(3.0), None], 97, true, Novelty::New),
        ("no probe, zeros before the period", vec![Some(0.0), None], 90, false, Novelty::Same),
        ("no probe, zeros after it", vec![Some(0.0), None], 101, false, Novelty::New),
        ("nothing known", vec![None, None], 500, false, Novelty::Same),
        ("only NaN", vec![nan, None], 500, false, Novelty::Same),
    ];
    for (name, values, ms, busy, want) in table {
        assert_eq!(novelty(&ids, &values, ms * MS, || Some(busy)), want, "{name}");
    }
    // Where utilisation cannot be had, the probe decides alone.
    assert_eq!(novelty(&ids, &[Some(0.0), Some(0.0)], 97 * MS, || None), Novelty::New);
    assert_eq!(novelty(&ids, &[Some(0.0), None], 300 * MS, || None), Novelty::Same);
}

#[test]
fn gpm_is_a_source_and_its_absence_a_value() {
    let fake = Arc::new(Fake { snapshots: snapshots(10, |_| 42.0), busy: true, ..Fake::default() });
    let mut gpm = Gpm::open(Arc::clone(&fake) as _, &device()).unwrap();
    let mut got: Vec<Reading> = Vec::new();
    for _ in 0..100 {
        gpm.read(&mut Clocks(Arc::clone(&fake)), &mut |r| got.push(r)).unwrap();
        fake.now.fetch_add(POLL_NS, Ordering::Relaxed);
    }
    let fp32 = METRICS.iter().position(|m| m.id == 12).unwrap();
    let of_fp32: Vec<_> = got.iter().filter(|r| r.domain.0 == fp32).collect();
    assert_eq!(gpm.domains()[fp32].name, "gpm/fp32");
    assert!(!of_fp32.is_empty());
    for reading in of_fp32 {
        assert_eq!(reading.value, Value::Percent(42.0));
        assert!((93..=107).contains(&(reading.mean_over_ns.unwrap() / MS)), "{reading:?}");
    }
    // NVLink does not exist on this device: no reading of it, rather than a zero.
    let nvlink = METRICS.iter().position(|m| m.id == 60).unwrap();
    assert!(got.iter().all(|r| r.domain.0 != nvlink));
    let none = Arc::new(Fake { lacks: vec!["gpm"], ..Fake::default() });
    let error = Gpm::open(none as _, &device()).err().unwrap();
    assert!(
        matches!(error, NvmlError::Call { code: code::NOT_SUPPORTED, .. })
            && error.to_string().contains("Hopper")
    );
    // A failure half way frees what was allocated.
    let half = Arc::new(Fake { lacks: vec!["second sample"], ..Fake::default() });
    assert!(Gpm::open(Arc::clone(&half) as _, &device()).is_err());
    assert_eq!(half.freed.load(Ordering::Relaxed), 1);
}

#[test]
fn ring_samples_land_on_our_clock() {
    let fake = Arc::new(Fake::default());
    let mut ring = PowerRing::open(Arc::clone(&fake) as _, &device()).unwrap();
    let mut got = Vec::new();
    let mut truth = Vec::new();
    for call in 0..6u64 {
        for i in 0..25u64 {
            let at = (call * 25 + i) * 20 * MS + 5_000;
            truth.push(at);
            let sample = PowerSample { stamp_us: (WALL + at) / 1000, milliwatts: 119_000 };
            fake.ring.lock().unwrap().push(sample);
        }
        fake.now.store((call + 1) * 500 * MS, Ordering::Relaxed);
        ring.read(&mut Clocks(Arc::clone(&fake)), &mut |r| got.push(r)).unwrap();
    }
    assert_eq!(got.len(), truth.len());
    for (reading, at) in got.iter().zip(&truth) {
        assert!(reading.stamp.before.0 <= *at && *at <= reading.stamp.after.0, "{reading:?} {at}");
        assert!(reading.stamp.uncertainty_ns() < 3000 + 250_000, "{reading:?}");
        assert_eq!(reading.value, Value::Power(clscope_sensors::Microwatts(119_000_000)));
        assert_eq!(reading.source_time.map(|t| t.0 / 1000), Some((WALL + at) / 1000));
    }
    let health = ring.health();
    assert_eq!((health.given, health.missing, health.duplicates), (150, 0, 0));
    // Without a wall clock nothing can be placed, and nothing is.
    let mut blind = PowerRing::open(Arc::clone(&fake) as _, &device()).unwrap();
    blind.read(&mut || RawNs(5), &mut |r| panic!("{r:?}")).unwrap();
    assert_eq!(blind.health().refused, 150);
}

#[test]
fn what_does_not_answer_is_a_finding() {
    let fake: Arc<dyn Api> = Arc::new(Fake::default());
    let (sources, findings) =
        clscope_nvml::open(&fake, &[device()], &Wanted { gpm: Some(Vec::new()) });
    let names: Vec<&str> = sources.iter().map(|s| s.name()).collect();
    assert_eq!(
        names,
        [
            "nvml:ring:0",
            "nvml:energy:0",
            "nvml:instant:0",
            "nvml:state:0",
            "nvml:limit:0",
            "nvml:gpm:0"
        ]
    );
    let refused: Vec<_> = findings.iter().filter(|f| f.state != State::Opened).collect();
    assert_eq!(refused.len(), 1, "the module sensor this board has not: {refused:?}");
    assert!(refused[0].name.contains("ModulePower"));

    let fake: Arc<dyn Api> = Arc::new(Fake {
        lacks: vec!["ring", "gpm", "field", "temperature", "limit"],
        ..Fake::default()
    });
    let (sources, findings) =
        clscope_nvml::open(&fake, &[device()], &Wanted { gpm: Some(Vec::new()) });
    assert_eq!(sources.len(), 2);
    // Without samples the counter is all there is: it is read at its own rate.
    assert_eq!(sources[0].pace().fastest_ns, 100 * MS);
    let state: Vec<_> = sources[1].domains().iter().map(|d| d.name.as_str()).collect();
    assert_eq!(state, ["sm-clock", "memory-clock", "clock-reasons"]);
    assert_eq!(findings.iter().filter(|f| matches!(f.state, State::Refused(_))).count(), 7);
}

#[test]
fn state_is_read_in_its_units() {
    let fake = Arc::new(Fake::default());
    let (mut state, _) = Polled::state(Arc::clone(&fake) as _, &device()).unwrap();
    let mut got = Vec::new();
    state.read(&mut Clocks(fake), &mut |r| got.push(r.value)).unwrap();
    let want = [
        Value::Megahertz(1980.0),
        Value::Megahertz(3201.0),
        Value::Millicelsius(41_000),
        Value::Bits(4),
        Value::Power(clscope_sensors::Microwatts(40_500_000)),
    ];
    assert_eq!(got, want);
}

#[test]
fn the_limit_of_power_is_a_series() {
    let fake = Arc::new(Fake::default());
    let mut limit = Polled::limit(Arc::clone(&fake) as _, &device()).unwrap();
    let mut got = Vec::new();
    limit.read(&mut Clocks(fake), &mut |r| got.push(r.value)).unwrap();
    assert_eq!(got, [Value::Power(clscope_sensors::Microwatts(700_000_000))]);
    assert_eq!(limit.domains()[0].name, clscope_sensors::source::POWER_LIMIT);
    assert_eq!(limit.domains()[0].plane, None, "it is no power of the device");
}

#[test]
fn errors_keep_their_remedies() {
    let lost =
        NvmlError::Call { call: "x", code: code::GPU_IS_LOST, words: "GPU is lost".to_owned() };
    let error = SensorError::from(lost);
    assert!(error.is_fatal());
    assert_eq!(error.remedy(), Some("sudo nvidia-smi --gpu-reset"));
    let old = NvmlError::NoFunction { call: "nvmlGpmSampleGet" };
    assert!(old.remedy().is_some());
}
