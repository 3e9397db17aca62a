//! Calibrates sensors: how often each updates, and how late and in what shape it follows a load
//! that comes and goes: on one core, and on each GPU that a sensor belongs to ([`super::load`]).
//! Takes some seconds. Refuses to change anything on the system.
#![forbid(unsafe_code)]

use super::Calibration;
use super::load::{self, Load};
use super::looped::Measurements;
use crate::{Finding, child};
use clscope_analysis::energy::{HostNs, restamped};
use clscope_profile::calibration::{Entry, Subject};
use clscope_profile::energy::readings;
use clscope_readings::Clocks;
use clscope_sensors::response::{self, Drive, Response, Search, Shape};
use clscope_sensors::source::{DeviceKey, Domain};
use clscope_sensors::{Clock, Quantity, RawNs, SensorSource};
use clscope_trace::ids::normal_pci;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Reads are this far apart, and load comes and goes in turns of this length, so many of them.
const POLL: Duration = Duration::from_micros(500);
const TURN: Duration = Duration::from_millis(200);
const TURNS: u32 = 20;

/// One series while it is calibrated.
type Polls = Vec<(RawNs, f64)>;

/// Slow devices compile for long, and there may be several.
const PATIENCE: Duration = Duration::from_secs(120);
/// A real sensor's shape is only near a lag or a window: what is kept is no surer than this share
/// of it, nor than this time.
const SHAPE_SHARE: f64 = 0.05;
const SHAPE_NS: f64 = 200e3;

/// Polls of every domain of every source, and which domains a driver stamps itself.
struct Watch {
    sources: Vec<Box<dyn SensorSource>>,
    polls: Vec<Vec<Polls>>,
    stamped: Vec<Vec<bool>>,
}

impl Watch {
    fn new(sources: Vec<Box<dyn SensorSource>>) -> Self {
        let polls = sources.iter().map(|s| vec![Polls::new(); s.domains().len()]).collect();
        let stamped = sources.iter().map(|s| vec![false; s.domains().len()]).collect();
        Self { sources, polls, stamped }
    }

    /// Reads everything once. `gpu`: whether sources of GPUs, whose calls take milliseconds, are
    /// wanted.
    fn poll(&mut self, gpu: bool) {
        for ((source, polls), stamped) in
            self.sources.iter_mut().zip(&mut self.polls).zip(&mut self.stamped)
        {
            if source.domains().iter().all(|d| d.device.is_some() != gpu) {
                continue;
            }
            // A failure was reported by the examination.
            let _ = source.read(&mut Clocks, &mut |r| {
                if let (Some(polls), Some(stamped)) =
                    (polls.get_mut(r.domain.0), stamped.get_mut(r.domain.0))
                {
                    *stamped |= r.source_time.is_some();
                    polls.push((r.stamp.mid(), r.value.magnitude()));
                }
            });
        }
        std::thread::sleep(POLL);
    }
}

/// Puts load on one core, then on each GPU, in turns, and watches how sensors follow.
pub fn calibrate(program: &Path, sources: Vec<Box<dyn SensorSource>>) -> Calibration {
    let mut out = Calibration::default();
    let mut watch = Watch::new(sources);
    let core = load_core(&mut watch);
    let loads = load_gpus(program, &mut watch, &mut out);
    for (source, (polls, stamped)) in
        watch.sources.iter().zip(watch.polls.iter().zip(&watch.stamped))
    {
        for (domain, (polls, stamped)) in source.domains().iter().zip(polls.iter().zip(stamped)) {
            let drive = match &domain.device {
                None => Ok(&core[..]),
                Some(device) => of_device(device, &loads),
            };
            if let Some((told, entry)) = domain_of(source.name(), domain, polls, *stamped, drive) {
                out.findings.push(told);
                out.entries.extend(entry.filter(|e| !e.figures.is_empty()));
            }
        }
    }
    out
}

fn load_core(watch: &mut Watch) -> Vec<(u64, f64)> {
    let mut drive = vec![(Clocks.raw().0, 0.0)];
    let (loaded, ended) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                if loaded.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                } else {
                    std::thread::sleep(Duration::from_micros(100));
                }
            }
        });
        for turn in 0..TURNS {
            loaded.store(turn % 2 == 1, Ordering::Relaxed);
            drive.push((Clocks.raw().0, f64::from(turn % 2)));
            let from = Instant::now();
            while from.elapsed() < TURN {
                watch.poll(false);
            }
        }
        ended.store(true, Ordering::Relaxed);
    });
    drive
}

/// Has a child load the GPUs while their sensors are read; where none of them has one, does
/// nothing.
fn load_gpus(program: &Path, watch: &mut Watch, out: &mut Calibration) -> Vec<Load> {
    let power = |d: &Domain| {
        d.device.is_some() && matches!(d.quantity, Quantity::Energy { .. } | Quantity::Power { .. })
    };
    if !watch.sources.iter().any(|s| s.domains().iter().any(power)) {
        return Vec::new();
    }
    let ended = AtomicBool::new(false);
    let answer = std::thread::scope(|scope| {
        let asked = scope.spawn(|| {
            let answer = child::ask_for::<Measurements<Load>>(program, &[load::QUESTION], PATIENCE);
            ended.store(true, Ordering::Relaxed);
            answer
        });
        while !ended.load(Ordering::Relaxed) {
            watch.poll(true);
        }
        // What drivers keep in rings comes with the next reading.
        watch.poll(true);
        asked.join()
    });
    let mut warn = |text: String| {
        out.findings.push(Finding::warning("calibration", "load on GPUs", text));
    };
    match answer {
        Ok(Ok(Ok(devices))) => {
            let told = |(name, load): (String, Result<Load, String>)| {
                load.map_err(|e| warn(format!("{name} could not be loaded: {e}"))).ok()
            };
            return devices.into_iter().filter_map(told).collect();
        }
        Ok(Ok(Err(error))) => warn(error),
        Ok(Err(error)) => warn(format!("an OpenCL driver {error} while it was loaded")),
        Err(_) => {}
    }
    Vec::new()
}

/// The load of the GPU that a sensor belongs to; `Err` holds why it is not known.
fn of_device<'l>(device: &DeviceKey, loads: &'l [Load]) -> Result<&'l [(u64, f64)], &'static str> {
    let pci = |text: &Option<String>| text.as_deref().and_then(normal_pci);
    let found = match (pci(&device.pci), loads) {
        (Some(wanted), _) if loads.iter().any(|l| pci(&l.pci).is_some()) => {
            loads.iter().find(|l| pci(&l.pci).as_ref() == Some(&wanted))
        }
        (_, [one]) => Some(one),
        _ => None,
    };
    found.map(|l| &l.edges[..]).ok_or("no OpenCL runtime could load its GPU")
}

/// What one domain does, in words, and what is to be kept of it. Of quantities other than energy
/// and power nothing is said.
fn domain_of(
    source: &str,
    domain: &Domain,
    polls: &Polls,
    stamped: bool,
    drive: Result<&[(u64, f64)], &'static str>,
) -> Option<(Finding, Option<Entry>)> {
    let (counter, power) = (
        matches!(domain.quantity, Quantity::Energy { .. }),
        matches!(domain.quantity, Quantity::Power { .. }),
    );
    if !counter && !power {
        return None;
    }
    let mut entry =
        Entry::new(Subject::Sensor { source: source.to_owned(), domain: domain.name.clone() });
    // A driver that stamps its readings gives each once.
    let updates = if stamped { response::stamped(polls) } else { response::updates(polls) };
    let period = match updates {
        Ok(u) => {
            entry = entry.with("update-period-ns", u.period_ns, Some(u.period_error_ns)).with(
                "update-jitter-ns",
                u.jitter_ns,
                None,
            );
            format!(
                "updates every {:.3} ms +- {:.3}, jitter {:.3} ms, smallest step {}",
                u.period_ns * 1e-6,
                u.period_error_ns * 1e-6,
                u.jitter_ns * 1e-6,
                u.smallest_step
            )
        }
        Err(why) => format!("update period not known: {why}"),
    };
    let (text, found) = match drive {
        Ok(edges) => {
            let edges: Vec<Drive> =
                edges.iter().map(|&(at, level)| Drive { at: RawNs(at), level }).collect();
            // What happened before the load and after it is no answer to it.
            let (first, last) = (
                edges.first().map_or(0, |d| d.at.0),
                edges.last().map_or(0, |d| d.at.0 + AFTER_NS),
            );
            let mut during: Polls =
                polls.iter().filter(|p| (first..last).contains(&p.0.0)).copied().collect();
            if stamped {
                // As the fit will take them.
                let samples: Vec<(HostNs, f64)> =
                    during.iter().map(|(at, value)| (HostNs(at.0 as i64), *value)).collect();
                during = restamped(&samples)
                    .into_iter()
                    .map(|(at, value)| (RawNs(at.0 as u64), value))
                    .collect();
            }
            answer(
                &during,
                counter,
                &edges,
                if domain.device.is_some() { "its GPU" } else { "one core" },
            )
        }
        Err(why) => (why.to_owned(), None),
    };
    if let Some(r) = found {
        let (name, width) = match r.shape {
            Shape::FirstOrder { tau_ns } => (readings::LAG, tau_ns),
            Shape::Boxcar { window_ns } => (readings::WINDOW, window_ns),
        };
        let least = (SHAPE_SHARE * width).max(SHAPE_NS);
        entry = entry.with(name, width, Some((2.0 * r.width_error_ns).max(least))).with(
            readings::DELAY,
            r.delay_ns,
            Some((2.0 * r.delay_error_ns).max(least)),
        );
    }
    let told = Finding::info(
        "calibration",
        format!("{source} {}", domain.name),
        format!("{period}; {text}"),
    );
    Some((told, Some(entry)))
}

/// How long after the last edge readings still answer it, ns: it stays for that long.
const AFTER_NS: u64 = 90_000_000;

/// How a sensor follows the load, in words, and the response where it is sure and the shapes can be
/// told apart.
fn answer(polls: &Polls, counter: bool, drive: &[Drive], on: &str) -> (String, Option<Response>) {
    let readings = if counter { rates(polls) } else { polls.clone() };
    match response::fit(&readings, drive, &Search::default()) {
        Ok(r) => {
            let shape = match r.shape {
                Shape::FirstOrder { tau_ns } => {
                    format!("first-order lag of {:.1} ms", tau_ns * 1e-6)
                }
                Shape::Boxcar { window_ns } => format!("mean over {:.1} ms", window_ns * 1e-6),
            };
            let sure = if r.is_shape_clear() { "" } else { " (the other shape fits as well)" };
            let text = format!(
                "follows a load on {on} with a {shape}{sure}, {:.1} ms late",
                r.delay_ns * 1e-6
            );
            let usable =
                r.is_shape_clear() && r.width_error_ns.is_finite() && r.delay_error_ns.is_finite();
            // A counter's means over ten milliseconds hide what is shorter.
            (text, (usable && !counter).then_some(r))
        }
        Err(why) => (format!("its response is not known: {why}"), None),
    }
}

/// Mean rate from change to change, over ten milliseconds at least, at the later one.
fn rates(polls: &Polls) -> Polls {
    let mut out = Polls::new();
    let mut from: Option<(RawNs, f64)> = None;
    for pair in polls.windows(2) {
        let (at, total) = pair[1];
        if pair[0].1 == total {
            continue;
        }
        match from {
            Some((since, _)) if at.since(since) < 10_000_000 => {}
            Some((since, before)) => {
                if total >= before {
                    out.push((at, (total - before) / at.since(since) as f64));
                }
                from = Some((at, total));
            }
            None => from = Some((at, total)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use clscope_sensors::source::Plane;

    fn gpu(pci: Option<&str>) -> DeviceKey {
        DeviceKey { pci: pci.map(str::to_owned), uuid: None, name: None }
    }

    /// Turns of load as `load` makes them, from one second on.
    fn edges() -> Vec<(u64, f64)> {
        let mut at = 1_000_000_000;
        let mut out = vec![(at, 0.0)];
        for turn in 0..20u64 {
            for level in [1.0, 0.0] {
                at += (90 + turn * 37 % 80) * 1_000_000;
                out.push((at, level));
            }
        }
        out
    }

    /// 120 W at rest and 450 W loaded, seen through a lag of 14 ms, 3 ms late, in samples 20 ms
    /// apart with some noise.
    fn samples(edges: &[(u64, f64)]) -> Polls {
        let mut out = Polls::new();
        let (mut state, mut next, mut level) = (0.0, 0, 0.0);
        for tenths in 0..40_000u64 {
            let at = 900_000_000 + tenths * 100_000;
            while edges.get(next).is_some_and(|e| e.0 + 3_000_000 <= at) {
                level = edges[next].1;
                next += 1;
            }
            state += (level - state) * (1.0 - (-0.1f64 / 14.0).exp());
            if tenths % 200 == 0 {
                out.push((
                    RawNs(at),
                    120.0 + 330.0 * state + f64::from((tenths / 200 * 7 % 11) as u32) * 0.4 - 2.0,
                ));
            }
        }
        out
    }

    #[test]
    fn a_sensor_s_answer_to_the_load_on_its_gpu_is_kept() {
        let edges = edges();
        let domain = Domain {
            plane: Some(Plane::Gpu),
            device: Some(gpu(None)),
            ..Domain::new("power-samples", Quantity::Power { window_ns: None })
        };
        let (told, entry) = domain_of("nvml:ring:0", &domain, &samples(&edges), true, Ok(&edges))
            .expect("power is calibrated");
        let figures = entry.expect("figures").figures;
        for (name, want, within) in [
            ("update-period-ns", 20e6, 1e3),
            (readings::LAG, 14e6, 0.4e6),
            (readings::DELAY, 3e6, 0.4e6),
        ] {
            let figure = figures.get(name).unwrap_or_else(|| panic!("no {name}: {told:?}"));
            assert!((figure.value - want).abs() < within, "{name}: {}", figure.value);
            assert!(
                name == "update-period-ns" || figure.uncertainty.is_some_and(|u| u >= SHAPE_NS),
                "{name}"
            );
        }
        // Without a load there is no response.
        let (told, entry) =
            domain_of("nvml:ring:0", &domain, &samples(&edges), true, Err("no runtime"))
                .expect("power is calibrated");
        assert!(
            entry.is_some_and(|e| !e.figures.contains_key(readings::LAG))
                && format!("{told:?}").contains("no runtime")
        );
    }

    #[test]
    fn a_counter_that_steps_rarely_gives_its_rate_from_step_to_step() {
        // 100 W in steps of 100 ms, read every 3 ms.
        let polls: Polls =
            (0..400).map(|i| (RawNs(i * 3_000_000), (i * 3 / 100 * 10) as f64)).collect();
        let rates = rates(&polls);
        assert!(
            rates.len() > 8 && rates.iter().all(|r| (r.1 * 1e9 / 100.0 - 1.0).abs() < 0.05),
            "{rates:?}"
        );
    }

    #[test]
    fn loads_are_matched_by_address_or_by_being_the_only_one() {
        let load =
            |pci: Option<&str>, at| Load { pci: pci.map(str::to_owned), edges: vec![(at, 1.0)] };
        let two = [load(Some("0000:06:00.0"), 1), load(Some("0000:07:00.0"), 2)];
        assert_eq!(of_device(&gpu(Some("00000000:07:00.0")), &two).map(|e| e[0].0), Ok(2));
        assert!(of_device(&gpu(Some("0000:08:00.0")), &two).is_err());
        assert!(of_device(&gpu(None), &two).is_err());
        assert_eq!(of_device(&gpu(None), &two[..1]).map(|e| e[0].0), Ok(1));
    }
}
