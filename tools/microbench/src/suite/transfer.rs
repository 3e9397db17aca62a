//! Transfers between host and device: pageable, pinned and mapped memory, both directions, 1 byte
//! to 1 GiB. Owns the timing by the host's clock (what an application waits for) and the fit time =
//! latency + size / bandwidth (Hockney 1994; Piispanen 2014, eq. 6.10), and the power while one
//! follows the other (figure 6.3).

use super::{Case, Gave, Suite, Swept};
use crate::bench::{Bench, CaseError, Settings};
use crate::cl::DeviceFacts;
use crate::fit;
use crate::power::Window;
use crate::results::{CaseResult, Figure, Finding};
use crate::stats;
use crate::sweep::{Axis, Value};
use clscope_clock::monotonic_raw;
use serde_json::json;
use std::rc::Rc;

/// The suite.
pub const SUITE: Suite = Suite {
    name: "transfer",
    about: "host-device transfers: pageable, pinned, mapped, 1 B to 1 GiB, as latency + size / bandwidth; watts while they last",
    wants_power: true,
    cases,
    conclude,
};

/// Which host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Host {
    Pageable,
    Pinned,
    Mapped,
}

const HOSTS: [(Host, &str); 3] =
    [(Host::Pageable, "pageable"), (Host::Pinned, "pinned"), (Host::Mapped, "mapped")];
const DIRECTIONS: [(bool, &str); 2] = [(true, "to_device"), (false, "to_host")];

/// One blocking transfer; nanoseconds of the host's clock.
fn once(
    bench: &Bench<'_>,
    host: Host,
    to_device: bool,
    bytes: usize,
    memory: &mut [u8],
    buffer: &crate::cl::Buffer,
) -> Result<f64, CaseError> {
    let memory = &mut memory[..bytes];
    let begun = monotonic_raw().0;
    match (host, to_device) {
        (Host::Mapped, _) => bench.session.map(buffer, to_device, bytes, |mapped| {
            if to_device { mapped.copy_from_slice(memory) } else { memory.copy_from_slice(mapped) }
        })?,
        (_, true) => drop(bench.session.write(buffer, 0, memory)?),
        (_, false) => drop(bench.session.read(buffer, 0, memory)?),
    }
    Ok((monotonic_raw().0 - begun) as f64)
}

/// Bytes that encode their place, different for every round.
fn mark(memory: &mut [u8], round: u8) {
    for (i, byte) in memory.iter_mut().enumerate() {
        *byte = marked(i, round);
    }
}

fn marked(i: usize, round: u8) -> u8 {
    (i as u8).wrapping_mul(31) ^ ((i >> 12) as u8) ^ round
}

fn measure(
    bench: &mut Bench<'_>,
    host: Host,
    to_device: bool,
    bytes: usize,
) -> Result<Gave, CaseError> {
    let buffer = match host {
        Host::Mapped => bench.session.buffer(bytes, true)?,
        _ => bench.session.buffer(bytes, false)?,
    };
    // Pinned memory is what a mapped buffer of the runtime's own allocation gives; it stays mapped
    // while it is used.
    let mut samples = Vec::new();
    let repeat = bench.settings.repeat().max(3) + 2;
    let session = &bench.session;
    let mut all = |memory: &mut [u8]| -> Result<Option<usize>, CaseError> {
        mark(memory, 0x5C);
        drop(session.write(&buffer, 0, memory)?);
        if !to_device {
            memory.fill(0);
        } else {
            mark(memory, 0x3A);
        }
        let begun = monotonic_raw().0;
        for n in 0..repeat {
            bench.check_stop()?;
            samples.push(once(bench, host, to_device, bytes, memory, &buffer)?);
            if n >= 4 && monotonic_raw().0 - begun > 500_000_000 {
                break;
            }
        }
        if to_device {
            drop(session.read(&buffer, 0, memory)?);
        }
        let round = if to_device { 0x3A } else { 0x5C };
        Ok(memory.iter().enumerate().position(|(i, &byte)| byte != marked(i, round)))
    };
    let wrong = if host == Host::Pinned {
        let staging = session.buffer(bytes, true)?;
        session.map(&staging, true, bytes, |memory| all(memory))??
    } else {
        all(&mut vec![0; bytes])?
    };
    if let Some(at) = wrong {
        return Err(CaseError::Wrong(format!("byte {at} of {bytes} did not arrive")));
    }
    let warm_up = stats::warm_up(&samples).max(1);
    let summary = stats::summarise(&samples[warm_up..]).ok_or(CaseError::Interrupted)?;
    let time = Figure::new("time", "ns", summary.mean);
    let bandwidth = Figure::new("bandwidth", "GB/s", summary.mean.reciprocal(bytes as f64));
    Ok(Gave { figures: vec![bandwidth, time], ..Gave::default() })
}

#[derive(Clone, Copy)]
struct Variant {
    host: Host,
    to_device: bool,
    bytes: usize,
}

impl Variant {
    fn sized(self, axis: Axis, value: Value) -> Result<Self, String> {
        match super::number(axis, value, 1 << 32)? {
            0 => Err(super::no_value(axis, "1 byte or more")),
            bytes => Ok(Self { bytes, ..self }),
        }
    }
}

impl Swept for Variant {
    fn axes(&self) -> &'static [Axis] {
        &[Axis::Size]
    }

    fn at(&self, axis: Axis, value: Value) -> Result<Rc<dyn Swept>, String> {
        Ok(Rc::new(self.sized(axis, value)?))
    }

    fn run(&self, bench: &mut Bench<'_>) -> Result<Gave, CaseError> {
        measure(bench, self.host, self.to_device, self.bytes)
    }
}

/// Transfers one behind the other for as long as power is watched.
fn continuous(
    bench: &mut Bench<'_>,
    host: Host,
    to_device: bool,
    bytes: usize,
) -> Result<Gave, CaseError> {
    bench.check_stop()?;
    let session = &bench.session;
    let buffer = session.buffer(bytes, host == Host::Mapped)?;
    let goal = bench.settings.window_ns();
    let mut times = Vec::new();
    let mut all = |memory: &mut [u8]| -> Result<(Window, bool), CaseError> {
        mark(memory, 0x5C);
        drop(session.write(&buffer, 0, memory)?);
        let round = if to_device { 0x3A } else { 0x5C };
        if to_device {
            mark(memory, round);
        } else {
            memory.fill(0);
        }
        // The first ones pay for pages that nobody touched.
        for _ in 0..2 {
            once(bench, host, to_device, bytes, memory, &buffer)?;
        }
        let from = Window::opens();
        let begun = monotonic_raw().0;
        while times.len() < 3 || monotonic_raw().0 - begun < goal {
            bench.check_stop()?;
            times.push(once(bench, host, to_device, bytes, memory, &buffer)?);
        }
        let window = from.closes(times.len());
        if to_device {
            memory.fill(0);
            drop(session.read(&buffer, 0, memory)?);
        }
        Ok((window, memory.iter().enumerate().all(|(i, &byte)| byte == marked(i, round))))
    };
    let (window, right) = if host == Host::Pinned {
        let staging = session.buffer(bytes, true)?;
        session.map(&staging, true, bytes, |memory| all(memory))??
    } else {
        all(&mut vec![0; bytes])?
    };
    if !right {
        return Err(CaseError::Wrong(format!("not all of {bytes} bytes arrived")));
    }
    let time = stats::summarise(&times).ok_or(CaseError::Interrupted)?.mean;
    let figures = vec![
        Figure::new("bandwidth", "GB/s", time.reciprocal(bytes as f64)),
        Figure::new("time", "ns", time),
    ];
    Ok(Gave {
        figures,
        span: Some(window),
        window: bench.metered.then_some(window),
        ..Gave::default()
    })
}

/// The same, one behind the other.
#[derive(Clone, Copy)]
struct Continuous(Variant);

impl Swept for Continuous {
    fn axes(&self) -> &'static [Axis] {
        self.0.axes()
    }

    fn at(&self, axis: Axis, value: Value) -> Result<Rc<dyn Swept>, String> {
        Ok(Rc::new(Self(self.0.sized(axis, value)?)))
    }

    fn run(&self, bench: &mut Bench<'_>) -> Result<Gave, CaseError> {
        continuous(bench, self.0.host, self.0.to_device, self.0.bytes)
    }
}

fn cases(device: &DeviceFacts, settings: &Settings) -> Vec<Case> {
    let (step, last) = match (settings.tiny, settings.full) {
        (true, _) => (6, 18),
        (_, true) => (1, 30),
        _ => (1, 28),
    };
    let most = device.largest_buffer.min(device.global_bytes / 8);
    let mut cases = Vec::new();
    for (host, host_name) in HOSTS {
        for (to_device, direction) in DIRECTIONS {
            for exponent in (0..=last).step_by(step).filter(|e| 1u64 << e <= most) {
                let bytes = 1usize << exponent;
                let parameters = [
                    ("memory", json!(host_name)),
                    ("direction", json!(direction)),
                    ("bytes", json!(bytes)),
                ];
                let id = format!("transfer/{host_name}/{direction}/{bytes}");
                let variant = Rc::new(Variant { host, to_device, bytes });
                cases.push(Case::with_axes(id, SUITE.name, variant).with(parameters));
            }
        }
    }
    let bytes = if settings.tiny { 1 << 12 } else { 1usize << 26 };
    if bytes as u64 <= most {
        for (host, host_name) in HOSTS {
            for (to_device, direction) in DIRECTIONS {
                // No `memory`: the fit of time over size is of single transfers.
                let parameters = [
                    ("continuous", json!(host_name)),
                    ("direction", json!(direction)),
                    ("bytes", json!(bytes)),
                ];
                let id = format!("transfer/continuous/{host_name}/{direction}");
                let of = Rc::new(Continuous(Variant { host, to_device, bytes }));
                cases.push(Case::with_axes(id, SUITE.name, of).with(parameters));
            }
        }
        cases.push(super::floor_case(SUITE.name, "transfer/continuous"));
    }
    cases
}

/// Bytes and time (ns) of the transfers of a direction and a kind of memory.
pub(crate) fn times(of: &[CaseResult], memory: &str, direction: &str) -> Vec<(f64, f64)> {
    let is = |r: &&CaseResult| {
        r.parameter("memory") == Some(memory) && r.parameter("direction") == Some(direction)
    };
    let point = |r: &CaseResult| Some((r.number("bytes")?, r.value("time")?));
    of.iter().filter(is).filter_map(point).collect()
}

fn conclude(_: &DeviceFacts, results: &[CaseResult]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (_, memory) in HOSTS {
        for (_, direction) in DIRECTIONS {
            let points = times(results, memory, direction);
            let Some(line) = fit::line(&points, true) else { continue };
            let latency = line.intercept.times(1e-3);
            let bandwidth = line.slope.reciprocal(1.0);
            let text = format!(
                "{memory} {direction}: {:.2} us (+-{:.2}) + size / {:.2} GB/s (+-{:.2}; misfit {:.0} % of the time)",
                latency.value,
                latency.half(),
                bandwidth.value,
                bandwidth.half(),
                line.misfit * 100.0
            );
            let figures = vec![
                Figure::new("latency", "us", latency),
                Figure::new("bandwidth", "GB/s", bandwidth),
                misfit(line.misfit),
            ];
            let name = format!("transfer/{memory}/{direction}");
            findings.push(Finding::new(name, text, figures, "least squares of relative errors"));
        }
    }
    findings
}

fn misfit(share: f64) -> Figure {
    Figure::new("misfit", "%", stats::Interval::symmetric(share * 100.0, 0.0))
}
